"""Which kernel runs a cumulative sum or product."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.lowering import SUM_BLOCK
from ..._core.regions import Region, always
from ..kernels.scan import columns, in_order, rows


class Facts(NamedTuple):
    """The numbers of a scan that the choice needs."""

    size: int  #: Elements of a line.
    lines: int
    inner: int  #: Lines that lie side by side; 1: elements of a line are neighbours.
    in_order: bool  #: Lines are scanned strictly in order.

    @property
    def blocks(self) -> int:
        """How many blocks a line has."""
        return max(-(-self.size // SUM_BLOCK), 1)

    @property
    def parts(self) -> int:
        """How many superblocks a line has."""
        return -(-self.blocks // SUM_BLOCK)


def is_in_order(facts: Any, tuning: Any) -> bool:
    """Tell whether lines are scanned strictly in order."""
    return facts.in_order


def has_neighbours(facts: Any, tuning: Any) -> bool:
    """Tell whether the elements of a line are neighbours."""
    return facts.inner == 1


IN_ORDER = Region(
    "in order",
    in_order.in_order_kernel,
    is_in_order,
    always,
    "a thread goes through each line, strictly in order",
    "Scans",
)
ROWS = Region(
    "rows",
    rows.rows_kernel,
    has_neighbours,
    always,
    "elements of a line are neighbours: threads add up its blocks in shared memory",
    "Scans",
)
COLUMNS = Region(
    "columns",
    columns.columns_kernel,
    always,
    always,
    "lines lie side by side: each lane adds up blocks of one",
    "Scans",
)
TABLE = (IN_ORDER, ROWS, COLUMNS)
