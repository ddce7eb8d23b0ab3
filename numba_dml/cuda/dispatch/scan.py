"""Which kernel runs a cumulative sum or product."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.lowering import SUM_BLOCK
from ..._core.regions import Region, always
from ..driver.numba import LANES
from ..kernels.scan import in_order, rows
from ..primitives.scan import SEGMENT


class Facts(NamedTuple):
    """The numbers of a scan that the choice needs."""

    size: int  #: Elements of a line.
    lines: int
    inner: int  #: Lines that lie side by side; 1: elements of a line are neighbours.
    in_order: bool  #: Lines are scanned strictly in order.

    @property
    def blocks(self) -> int:
        """How many blocks a line has."""
        return -(-self.size // SUM_BLOCK)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks a line has, blocks of blocks, and so on, as long as there is more than one."""
        counts: tuple[int, ...] = ()
        count = self.size
        while (count := -(-count // SUM_BLOCK)) > 1:
            counts += (count,)
        return counts


class Shape(NamedTuple):
    """How a warp goes through rows; see the fields of a plan in `primitives.scan`."""

    rows: int
    groups: int
    columns: int
    sets: int
    segments: int
    chunks: int
    chunk_pieces: int
    set_stride: int


def shape_of(facts: Facts, length: int, spaced: bool) -> Shape:
    """Return how a warp goes through rows of a length; lines are `spaced` if each has one more result than elements."""
    inner, rows = max(facts.inner, 1), max(-(-facts.size // length), 1)
    groups, segments = -(-inner // LANES), max(-(-min(facts.size, length) // SEGMENT), 1)
    columns = -(-inner // groups)
    if groups > 1:  # a piece is one position
        return Shape(rows, groups, columns, 1, segments, 1, min(max(facts.size, 1), SEGMENT), 0)
    sets = LANES // columns
    if rows == 1 and segments == 1 and not spaced:  # a warp's lines are one chunk
        stride = facts.size * columns
        return Shape(rows, groups, columns, sets, segments, 1, max(-(-sets * stride // LANES), 1), stride)
    chunk_pieces = SEGMENT * columns // LANES
    return Shape(rows, groups, columns, sets, segments, sets, chunk_pieces, chunk_pieces * LANES)


def is_in_order(facts: Any, tuning: Any) -> bool:
    """Tell whether lines are scanned strictly in order."""
    return facts.in_order


def can_take_lines(facts: Any, tuning: Any) -> bool:
    """Tell whether a lane can keep the sums of a line: those of blocks, and of blocks of blocks."""
    return facts.blocks <= 1 or (SUM_BLOCK % SEGMENT == 0 and facts.blocks <= SUM_BLOCK**2)


def is_for_lines(facts: Any, tuning: Any) -> bool:
    """Tell whether lines have one block, or there are many lines."""
    return facts.blocks <= 1 or facts.lines >= tuning.least_lines


IN_ORDER = Region(
    "in order",
    in_order.in_order_kernel,
    is_in_order,
    always,
    "a thread goes through each line, strictly in order",
    "Scans",
)
LINES = Region(
    "whole lines",
    rows.rows_kernel,
    can_take_lines,
    is_for_lines,
    "a lane of a warp adds up a line, which the warp moves in the order of memory: every element is read once",
    "Scans",
)
BLOCKS = Region(
    "blocks of lines",
    rows.rows_kernel,
    always,
    always,
    "a lane adds up a block, or a segment of 32 if there are few blocks; passes before find what comes before each",
    "Scans",
)
TABLE = (IN_ORDER, LINES, BLOCKS)
