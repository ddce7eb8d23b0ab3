"""What the tables of gathers and scatters share: lines and columns of single elements, and how blocks share them."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ..._core.tensor import product
from ..driver.context import shared_bytes
from ..driver.numba import BLOCK
from ..primitives.groups import QUAD_BYTES
from ..primitives.moves import updates as moves_updates
from ..tuning.moves import MoveTuning

#: Bytes of the elements that the kernels for lines, columns and bins move.
ELEMENT_BYTES = (1, 2, 4, 8)
#: Bytes of a sector, the least that memory reads or writes.
SECTOR_BYTES = 32


class Lines(NamedTuple):
    """Points in contiguous lines, each of which reads from, or writes to, one contiguous line of data."""

    total: int  #: Lines in all.
    length: int  #: Points of a line.
    size: int  #: Elements of a line.
    packed: bool  #: Neither they nor their indices have gaps.
    apart: bool  #: No two of them are the same elements.


class Columns(NamedTuple):
    """Points in the columns of matrices, each of which reads from, or writes to, one column of data."""

    matrices: int
    matrix_step: int  #: Bytes of data from a matrix to the next.
    index_matrix_step: int  #: Indices from a matrix to the next.
    row_step: int  #: Bytes of data from a row to the next.
    index_row_step: int  #: Indices from a row to the next.
    columns: int  #: Columns of a matrix.
    length: int  #: Points of a column.
    size: int  #: Elements of a column.
    width: int  #: Bytes of an element.

    @property
    def bytes(self) -> int:
        """Bytes of a column."""
        return self.size * self.width

    @property
    def elements(self) -> int:
        """Elements of all columns."""
        return self.matrices * self.size * self.columns

    @property
    def lines(self) -> Lines:
        """The lines that they become when they are transposed."""
        return Lines(self.matrices * self.columns, self.length, self.size, packed=True, apart=True)


class Tile(NamedTuple):
    """The columns that a block has in shared memory. The lower, the better: the cost comes first."""

    cost: float  #: How much longer a block takes than at best, estimated.
    side: int  #: Columns of a block, a power of two.
    strips: int  #: Blocks of a matrix.
    shared: int  #: Bytes of shared memory.
    threads: int


class LinePlan(NamedTuple):
    """How blocks share lines."""

    together: int  #: Lines of a block.
    parts: int  #: Blocks of a line.
    part: int  #: Points of a block that gathers, elements of one that scatters.
    staged: bool  #: The updates of a scatter are in shared memory too.
    shared: int  #: Bytes of shared memory of a block.
    threads: int
    blocks: int
    bytes: int  #: Bytes of points or elements of a block, whichever are more.


#: Lets several predicates, and the call, find what one of them has worked out.
worked_out: Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]] = lru_cache(maxsize=16)


@dataclass(frozen=True)
class LayoutFacts:
    """The numbers of a layout, with which the facts of gathers and of scatters begin."""

    gathers: bool
    points: int  #: Tuples of indices.
    element: int  #: Bytes of the single elements that the points move, 0: they move others, or are too many.
    lines: Lines | None
    columns: Columns | None
    shared_bytes: int  #: Bytes of shared memory that a block can have.

    @property
    def kept_bytes(self) -> int:
        """Bytes of shared memory that an element of a column takes: itself, or a claim."""
        return self.element if self.gathers else moves_updates.CLAIM_BYTES

    def _asdict(self) -> dict[str, Any]:
        """Return all facts by their names, as a named tuple does."""
        return vars(self)


def layout_facts(call: Any) -> dict[str, Any]:
    """Return the numbers of a call's layout; see `LayoutFacts`."""
    low, run = call.lowering, call.run
    is_element = run == call.slice_bytes == low.itemsize and run in ELEMENT_BYTES
    is_element = is_element and 0 < call.points <= call.tuning.most_points
    lines = columns = None
    if is_element and len(low.coordinates) == 1 and low.coordinates[0][0] > 0:
        lines = find_lines(run, call.loops, *low.coordinates[0])
        columns = find_columns(run, call.loops, *low.coordinates[0])
    return {
        "gathers": call.gathers,
        "points": call.points,
        "element": run if is_element else 0,
        "lines": lines,
        "columns": columns,
        "shared_bytes": shared_bytes(),
    }


def find_lines(width: int, loops: Sequence[tuple[int, int, int]], size: int, element_step: int) -> Lines | None:
    """Return the lines of a layout of elements of a width, if it has any."""
    *outer, (length, step, index_step) = loops
    if element_step != width or step != 0 or index_step != 1:
        return None
    packed = len(outer) == 1 and outer[0][1:] == (size * width, length)
    return Lines(product(n for n, _, _ in outer), length, size, packed, all(step for _, step, _ in outer))


def find_columns(width: int, loops: Sequence[tuple[int, int, int]], size: int, row_step: int) -> Columns | None:
    """Return the columns of a layout of elements of a width, if it has any."""
    if not 2 <= len(loops) <= 3:
        return None
    (length, still, index_row_step), (columns, step, index_step) = loops[-2:]
    if still != 0 or step != width or index_step != 1:
        return None
    matrices, matrix_step, index_matrix_step = loops[0] if len(loops) == 3 else (1, 0, 0)
    return Columns(matrices, matrix_step, index_matrix_step, row_step, index_row_step, columns, length, size, width)


def lines_together(lines: Lines, width: int, most_bytes: int, tuning: MoveTuning) -> int:
    """Return how many lines a block takes, whose elements need `width` bytes of shared memory each.

    If there are few lines it takes fewer, down to half of what fits, so that there are enough blocks.
    """
    if not lines.packed:
        return 1
    most = most_bytes // (max(lines.size, lines.length) * width)
    return max(1, min(most, max(-(-most // 2), lines.total // tuning.busy_blocks), lines.total))


def line_bytes(elements: int, width: int) -> int:
    """Return how many bytes of shared memory a line takes, wherever it begins."""
    return -(-elements * width // QUAD_BYTES) * QUAD_BYTES + QUAD_BYTES


def threads_for(size: int, shared: int, tuning: MoveTuning) -> int:
    """Return how many threads a block has whose lines have `size` bytes, and which needs `shared` bytes."""
    if size < tuning.long_line_bytes:
        return BLOCK
    return tuning.line_threads if 2 * shared <= shared_bytes() else tuning.lone_threads


@worked_out
def line_plan(facts: Any, tuning: MoveTuning) -> LinePlan | None:
    """Return how blocks share the lines of a call, or None if they do not fit into shared memory."""
    return plan_lines(facts, facts.lines, tuning)


@worked_out
def column_plan(facts: Any, tuning: MoveTuning) -> LinePlan | None:
    """Return the same of the columns of a call, transposed."""
    return plan_lines(facts, facts.columns.lines, tuning)


def plan_lines(facts: Any, lines: Lines, tuning: MoveTuning) -> LinePlan | None:
    """Return how blocks share lines, or None if what they keep of them does not fit into shared memory."""
    if not facts.gathers and not facts.combined:
        return plan_claimed_lines(facts, lines, tuning)
    width = facts.element
    together = lines_together(lines, width, tuning.gathered_together_bytes, tuning)
    elements, points, parts = together * lines.size, together * lines.length, 1
    shared = line_bytes(elements, width)
    if shared > facts.shared_bytes:
        return None
    part = elements
    if facts.gathers:
        if together == 1:  # if lines are few, each has several blocks
            parts = max(1, min(-(-tuning.busy_blocks // lines.total), lines.length // lines.size))
        part = -(-points // parts)
        parts = -(-points // part)
    threads = threads_for(elements * width, shared, tuning)
    blocks = -(-lines.total // together) * parts
    return LinePlan(together, parts, part, False, shared, threads, blocks, max(elements, points) * width)


def plan_claimed_lines(facts: Any, lines: Lines, tuning: MoveTuning) -> LinePlan | None:
    """Return the same for claims, and chains of updates."""
    width, reduces, shared_bytes = facts.element, facts.reduces, facts.shared_bytes
    together = lines_together(lines, moves_updates.CLAIM_BYTES + width, tuning.scattered_together_bytes, tuning)
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
    return LinePlan(together, parts, part, staged, shared, threads_for(part * width, shared, tuning), blocks, size)


def tile_of(facts: Any, side: int, tuning: MoveTuning) -> Tile:
    """Return the tile of blocks that have `side` columns."""
    columns, width = facts.columns, facts.element
    row, count = side * width, side * columns.size
    shared = count * facts.kept_bytes
    strips = -(-columns.columns // side)
    blocks = columns.matrices * strips
    lone = blocks <= tuning.multiprocessors
    threads = tuning.block_sizes[-1].threads
    per_thread = 1 if facts.gathers else tuning.claims_per_element
    if not lone:
        for size in tuning.block_sizes:
            if shared <= size.most_bytes and count <= size.most_elements * per_thread:
                threads = size.threads
                break
    # Sectors that are read and written in part; blocks with little to do; more threads to wait for; idle SMs.
    cost = (8 + 2 * width * max(1.0, SECTOR_BYTES / row)) / (8 + 2 * width)
    cost *= 1.05 if row <= tuning.narrow_row_bytes else 1.0
    cost *= 1 + (tuning.few_in_block / count) ** 2
    cost *= 1.05 if threads > BLOCK and not lone else 1.0
    cost *= -(-blocks // tuning.multiprocessors) * tuning.multiprocessors / blocks
    return Tile(cost, side, strips, shared, threads)


@worked_out
def tile(facts: Any, tuning: MoveTuning) -> Tile | None:
    """Return the tile of columns of least cost of those that are worth it, if there is one."""
    columns = facts.columns
    if not columns.length * tuning.elements_per_point >= columns.size >= tuning.least_shared_column:
        return None
    least_row, narrow_bytes = tuning.least_row_bytes, tuning.shared_column_bytes
    if facts.gathers:
        narrow_bytes = facts.shared_bytes
    elif facts.element >= 4:  # narrow rows waste more than in a gather
        least_row = tuning.narrow_row_bytes
    tiles = []
    for bit in range(BLOCK.bit_length()):
        side = 1 << bit
        if columns.matrices * -(-columns.columns // side) < tuning.least_blocks:
            break
        row = side * facts.element
        is_narrow = row <= tuning.narrow_row_bytes and side <= tuning.narrow_row_columns
        most_bytes = narrow_bytes if is_narrow else tuning.shared_column_bytes
        if row >= least_row and side * columns.size * facts.kept_bytes <= most_bytes:
            tiles.append(tile_of(facts, side, tuning))
    return min(tiles, default=None)


def has_columns(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether points lead to columns."""
    return facts.columns is not None


def columns_are_many(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether there are columns enough to give each a thread."""
    return (
        facts.columns.columns >= tuning.least_columns
        and facts.columns.matrices * facts.columns.columns >= tuning.least_own_columns
    )
