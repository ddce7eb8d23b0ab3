"""Which kernels run a gather."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.regions import Region, always
from ..kernels import columns_block, columns_thread, gather_lines, gather_units, transpose
from ..tuning.gather import GatherTuning
from .layouts import (
    Columns,
    Lines,
    Tile,
    TileNeeds,
    best_tile,
    layout_facts,
    line_bytes,
    lines_together,
    threads_for,
    tile_of,
    worked_out,
)


class LinePlan(NamedTuple):
    """How blocks share the lines of a gather."""

    together: int  #: Lines of a block.
    shares: int  #: Blocks of a line.
    share: int  #: Points of a block.
    blocks: int
    bytes: int  #: Bytes of points or elements of a block, whichever are more.
    shared: int  #: Bytes of shared memory of a block.
    threads: int


class Facts(NamedTuple):
    """The numbers of a gather that the choice needs."""

    points: int  #: Tuples of indices.
    element: int  #: Bytes of the single elements that the points move, 0: they move other slices.
    lines: Lines | None
    columns: Columns | None
    shared_bytes: int  #: Bytes of shared memory that a block can have.
    known: dict[str, Any]  #: Numbers that were worked out from the others: `line_plan` and `tile`.
    unit: int  #: Bytes of a unit, if the arrays are aligned as well as their steps.
    work: int  #: Bytes that are read and written.


def facts_of(call: Any) -> Facts:
    """Return the facts of a call."""
    return Facts(*layout_facts(call), call.unit_width(0), call.work)


@worked_out
def line_plan(facts: Any, tuning: GatherTuning) -> LinePlan:
    """Return how blocks share the lines of a call."""
    return plan_lines(facts.lines, facts.element, tuning)


def plan_lines(lines: Lines, width: int, tuning: GatherTuning) -> LinePlan:
    """Return how blocks share lines of elements of a width; if lines are few, each has several blocks."""
    together = lines_together(lines, width, tuning.moves.shared_lines_bytes, tuning.moves)
    points, shares = together * lines.length, 1
    if together == 1:
        shares = max(1, min(-(-tuning.moves.busy_blocks // lines.total), lines.length // lines.size))
    share = -(-points // shares)
    shares = -(-points // share)
    shared = line_bytes(together * lines.size, width)
    return LinePlan(
        together,
        shares,
        share,
        -(-lines.total // together) * shares,
        together * max(lines.size, lines.length) * width,
        shared,
        threads_for(together * lines.size * width, shared, tuning.moves),
    )


def tile_needs(facts: Any, tuning: GatherTuning) -> TileNeeds:
    """Return what the kernel of columns in shared memory needs: the elements."""
    return TileNeeds(facts.element, facts.shared_bytes, tuning.moves.least_row_bytes, 1)


@worked_out
def tile(facts: Any, tuning: GatherTuning) -> Tile | None:
    """Return the best tile of columns that is worth it, if there is one."""
    return best_tile(facts.columns, facts.element, tile_needs(facts, tuning), tuning.moves)


def tile_or_column(facts: Any, tuning: GatherTuning) -> Tile:
    """Return the tile of a call: the best one, or where none is worth it a column for each block."""
    best: Tile | None = tile(facts, tuning)
    return best or tile_of(facts.columns, facts.element, 1, tile_needs(facts, tuning), tuning.moves)


def column_bytes(facts: Any) -> int:
    """Return how many bytes a column has."""
    return facts.columns.size * facts.element


def most_column_bytes(facts: Any, tuning: GatherTuning) -> int:
    """Return how many bytes a column has at most that a thread has."""
    return tuning.column_bytes[facts.element.bit_length() - 1]


def matrix_bytes(facts: Any) -> int:
    """Return how many bytes a matrix has."""
    return facts.columns.size * facts.columns.columns * facts.element


def lines_fit(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether points read from lines that fit into shared memory."""
    return facts.lines is not None and line_bytes(facts.lines.size, facts.element) <= facts.shared_bytes


def lines_are_worth_it(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether blocks of lines have enough to do."""
    return (
        tuning.moves.least_points <= facts.points <= tuning.moves.most_points
        and facts.lines.length * tuning.moves.elements_per_point >= facts.lines.size
        and line_plan(facts, tuning).blocks >= tuning.moves.least_blocks
        and line_plan(facts, tuning).bytes >= tuning.least_line_bytes
    )


def has_columns(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether points read from columns."""
    return facts.columns is not None


def columns_are_short(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether columns are short and many, in a matrix that does not stay in L2."""
    return (
        tuning.moves.least_points <= facts.points <= tuning.moves.most_points
        and facts.columns.columns >= tuning.moves.least_columns
        and facts.columns.matrices * facts.columns.columns >= tuning.moves.least_own_columns
        and column_bytes(facts) <= most_column_bytes(facts, tuning)
        and matrix_bytes(facts) >= tuning.least_matrix_bytes
    )


def columns_fit(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether a column fits into shared memory."""
    return facts.columns is not None and column_bytes(facts) <= facts.shared_bytes


def tile_is_worth_it(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether blocks with columns in shared memory have enough to do, and are faster than L2."""
    return (
        tuning.moves.least_points <= facts.points <= tuning.moves.most_points
        and facts.columns.columns >= tuning.moves.least_columns
        and tile(facts, tuning) is not None
        and (facts.work >= tuning.most_in_l2 or tile(facts, tuning).cost <= tuning.most_cost)
        and (facts.work >= tuning.most_in_l2 or facts.columns.size >= tuning.least_column_in_l2)
    )


def transposed_columns_fit(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether a column fits into shared memory as a line."""
    return facts.columns is not None and line_bytes(facts.columns.size, facts.element) <= facts.shared_bytes


def transposing_is_worth_it(facts: Any, tuning: GatherTuning) -> bool:
    """Tell whether the matrix does not stay in L2, and most of it is read."""
    return (
        tuning.moves.least_points <= facts.points <= tuning.moves.most_points
        and facts.columns.columns >= tuning.moves.least_columns
        and facts.columns.length * tuning.moves.elements_per_point >= facts.columns.size
        and matrix_bytes(facts) >= tuning.least_matrix_bytes
    )


LINES = Region(
    "lines",
    gather_lines.gather_lines_kernel,
    lines_fit,
    lines_are_worth_it,
    "lines are read into shared memory, and gathered from there",
    "Lines",
)
COLUMNS_BY_THREADS = Region(
    "columns by threads",
    columns_thread.gather_columns_kernel,
    has_columns,
    columns_are_short,
    "columns are short and many: a thread has each",
    "Columns by threads",
)
COLUMNS_BY_BLOCKS = Region(
    "columns by blocks",
    columns_block.gather_shared_kernel,
    columns_fit,
    tile_is_worth_it,
    "a block reads some columns into shared memory, and gathers from there",
    "Columns by blocks",
)
COLUMNS_TRANSPOSED = Region(
    "columns transposed",
    transpose.turn_kernel,
    transposed_columns_fit,
    transposing_is_worth_it,
    "columns are transposed in strips, and gathered from as lines",
    "Columns transposed",
)
UNITS = Region(
    "units",
    gather_units.gather_kernel,
    always,
    always,
    "threads move units of up to {facts.unit} bytes, and check each index",
    "Units of a thread",
)
#: `units.TABLE` says who moves the units of the last row.
TABLE = (LINES, COLUMNS_BY_THREADS, COLUMNS_BY_BLOCKS, COLUMNS_TRANSPOSED, UNITS)
