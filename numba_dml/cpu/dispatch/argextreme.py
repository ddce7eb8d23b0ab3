"""Which kernel finds the best of lines, and what threads share: a table that Python's calls read."""

from __future__ import annotations

from typing import NamedTuple

from ..._core.regions import Region, always
from ..kernels.argextreme import columns_kernel, lines_kernel
from ..primitives.argextreme import VECTOR_BITS
from ..tuning.argextreme import Tuning
from .tiles import tile_width


class Facts(NamedTuple):
    """The numbers that the choice needs."""

    n: int  #: elements of a line
    itemsize: int  #: bytes of an element
    lines: int  #: how many there are
    across: int  #: neighbours among them that are contiguous, 1: there are none
    fold: int  #: how many short rows of these are treated as one long row, 1: none are joined
    threads: int  #: that the call may use


def is_for_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether neighbouring lines fill a vector."""
    return 8 * facts.across * facts.fold * facts.itemsize >= VECTOR_BITS


TABLE = (
    Region(
        "columns",
        columns_kernel,
        is_for_columns,
        always,
        "lines lie side by side: vectors of them are compared row by row",
        "CPU argmin and argmax: columns",
    ),
    Region(
        "lines",
        lines_kernel,
        always,
        always,
        "the best of each block of a line is found in vectors, then its place; threads share few long lines",
        "CPU argmin and argmax: lines",
    ),
)


def tile_of(facts: Facts, tuning: Tuning) -> int:
    """Return how many columns are a tile, in pairs of vectors; folded rows are not shared among threads."""
    most = min(tuning.tile_columns, tuning.tile_bytes // facts.itemsize)
    threads, pair = facts.threads if facts.fold == 1 else 1, 2 * VECTOR_BITS // (8 * facts.itemsize)
    return tile_width(facts.across * facts.fold, facts.lines // facts.across, threads, most, pair)


def fold_of(n: int, itemsize: int, lines: int, stride: int, across: int, tuning: Tuning) -> int:
    """Return how many rows of columns are taken for one, where they lie one behind another and are short."""
    row = across * itemsize
    if across < 2 or lines != across or abs(stride) != row or 8 * row >= VECTOR_BITS:
        return 1
    fold = -(-tuning.folded_bytes // row)
    return fold if n >= tuning.folded_rows * fold else 1


def cut_count(facts: Facts, tile: int, tuning: Tuning) -> int:
    """Return how many pieces a line or a tile of columns is cut into: several if threads have too few of these."""
    units = facts.lines // facts.across * -(-facts.across * facts.fold // tile) if tile > 1 else facts.lines
    if units >= 4 * facts.threads:
        return 1
    most = tuning.most_pieces // units
    rows = facts.n // facts.fold
    return max(min(rows * tile * facts.itemsize // tuning.piece_bytes, most, rows), 1)
