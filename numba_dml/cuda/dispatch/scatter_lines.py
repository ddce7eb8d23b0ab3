"""Scatters to lines of single elements, with claims, chains or the elements in shared memory."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.regions import Region
from ..kernels import scatter_lines
from ..primitives.moves import updates as moves_updates
from ..tuning.scatter import ScatterTuning
from .layouts import MOST_CLAIMED, Lines, line_bytes, lines_of, lines_together, threads_for, worked_out


class LinePlan(NamedTuple):
    """How blocks share the lines of a scatter."""

    together: int  #: Lines of a block.
    part: int  #: Elements of a block.
    parts: int  #: Blocks of a line.
    staged: bool  #: The updates are in shared memory too.
    shared: int  #: Bytes of shared memory of a block.
    threads: int
    blocks: int
    bytes: int  #: Bytes of points or elements of a block, whichever are more.


@worked_out
def line_plan(facts: Any, tuning: ScatterTuning) -> LinePlan | None:
    """Return how blocks share the lines of a call, or None if they do not fit into shared memory."""
    return plan_lines(facts, facts.lines, tuning)


@worked_out
def column_plan(facts: Any, tuning: ScatterTuning) -> LinePlan | None:
    """Return the same of the columns of a call, transposed."""
    return plan_lines(facts, lines_of(facts.columns), tuning)


def plan_lines(facts: Any, lines: Lines, tuning: ScatterTuning) -> LinePlan | None:
    """Return how blocks share lines, or None if their claims and chains do not fit."""
    width, reduces, shared_bytes = facts.element, facts.reduces, facts.shared_bytes
    if facts.combined:
        return plan_combined_lines(lines, width, shared_bytes, tuning)
    together = lines_together(lines, moves_updates.CLAIM_BYTES + width, tuning.shared_lines_bytes, tuning.moves)
    part, parts, updates = together * lines.size, 1, together * lines.length
    links = moves_updates.link_count(updates) if reduces else 0
    link_bytes = line_bytes(links, moves_updates.LINK_BYTES) if reduces else 0
    claims = line_bytes(part, moves_updates.CLAIM_BYTES)
    shared = claims + link_bytes + line_bytes(updates, width)
    staged = shared <= min(tuning.staged_bytes, shared_bytes)
    if not staged:  # each part of a reduction has the links of all updates, so that it is as large as it can be
        most = shared_bytes if reduces else min(tuning.part_bytes, shared_bytes)
        room = most - link_bytes - line_bytes(0, 1)
        if room <= 0:
            return None
        parts = -(-claims // room)
        part = -(-part // parts)
        shared = line_bytes(part, moves_updates.CLAIM_BYTES) + link_bytes
    if reduces and max(links, part + 1) > moves_updates.MOST_LINKED:
        return None
    blocks = -(-lines.total // together) * parts
    size = together * max(lines.size, lines.length) * width
    return LinePlan(
        together, part, parts, staged, shared, threads_for(part * width, shared, tuning.moves), blocks, size
    )


def plan_combined_lines(lines: Lines, width: int, shared_bytes: int, tuning: ScatterTuning) -> LinePlan | None:
    """Return the same where elements are combined in shared memory, which needs no claims."""
    together = lines_together(lines, width, tuning.moves.shared_lines_bytes, tuning.moves)
    part = together * lines.size
    shared = line_bytes(part, width)
    if shared > shared_bytes:
        return None
    blocks, size = -(-lines.total // together), together * max(lines.size, lines.length) * width
    return LinePlan(together, part, 1, False, shared, threads_for(part * width, shared, tuning.moves), blocks, size)


def lines_can_be_combined(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether integers go to lines that fit into shared memory."""
    return facts.combined and facts.lines is not None and facts.lines.apart and line_plan(facts, tuning) is not None


def combined_lines_are_worth_it(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether blocks of lines have enough to do."""
    return (
        facts.points <= tuning.moves.most_points
        and line_plan(facts, tuning).blocks >= tuning.moves.least_blocks
        and facts.lines.length * tuning.moves.elements_per_point >= facts.lines.size
        and line_plan(facts, tuning).bytes >= tuning.least_line_bytes
    )


def lines_can_be_claimed(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether updates that replace each other go to lines whose claims fit into shared memory."""
    return (
        not facts.reduces
        and facts.lines is not None
        and facts.lines.apart
        and facts.lines.length <= MOST_CLAIMED
        and line_plan(facts, tuning) is not None
    )


def claimed_lines_are_worth_it(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether blocks of lines have enough to do."""
    return (
        tuning.moves.least_points <= facts.points <= tuning.moves.most_points
        and line_plan(facts, tuning).parts <= tuning.most_parts
        and line_plan(facts, tuning).blocks >= tuning.moves.least_blocks
        and line_plan(facts, tuning).bytes >= tuning.least_line_bytes
    )


def lines_can_be_chained(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether updates go to lines whose chains fit into shared memory."""
    return (
        facts.reduces
        and not facts.combined
        and facts.lines is not None
        and facts.lines.apart
        and line_plan(facts, tuning) is not None
    )


def chained_lines_are_worth_it(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether most of the lines is updated: else a sort is faster."""
    return (
        facts.points <= tuning.moves.most_points
        and facts.lines.length * tuning.moves.elements_per_point >= facts.lines.size
        and line_plan(facts, tuning).parts <= tuning.most_parts
    )


COMBINED = Region(
    "lines combined in any order",
    scatter_lines.combine_lines_kernel,
    lines_can_be_combined,
    combined_lines_are_worth_it,
    "lines are read into shared memory, and integers combined there in any order: the bits are the same",
    "Lines",
)
CLAIMED = Region(
    "lines by their last updates",
    scatter_lines.scatter_lines_kernel,
    lines_can_be_claimed,
    claimed_lines_are_worth_it,
    "the last update of each place is found in shared memory, then lines are written in their order",
    "Lines",
)
CHAINED = Region(
    "lines combined in order",
    scatter_lines.scatter_lines_kernel,
    lines_can_be_chained,
    chained_lines_are_worth_it,
    "the updates of each place are chained in shared memory, then lines are combined with theirs in their order",
    "Lines",
)
