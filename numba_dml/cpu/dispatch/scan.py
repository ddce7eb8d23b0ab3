"""Which kernel scans, and what threads share: a table that Python's calls read."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ..._core.regions import Region, always
from ..kernels.scan_columns import columns_kernel
from ..kernels.scan_lines import lines_kernel
from ..primitives.scan import BLOCK
from ..tuning.scan import Tuning
from .tiles import tile_width


class Facts(NamedTuple):
    """The numbers that the choice needs."""

    n: int  #: elements of a line
    lines: int  #: how many there are
    across: int  #: neighbours among them that are contiguous, 1: there are none
    in_order: bool  #: whether a line is scanned strictly in order
    integers: bool
    threads: int  #: that the call may use


def is_for_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether there are enough neighbours for vectors."""
    return facts.across >= tuning.columns_across


TABLE = (
    Region(
        "columns",
        columns_kernel,
        is_for_columns,
        always,
        "lines lie side by side: they are scanned together, row by row",
        "CPU scan: columns",
    ),
    Region(
        "lines",
        lines_kernel,
        always,
        always,
        "each line is scanned from its start on; of few long ones, threads share the parts",
        "CPU scan: lines",
    ),
)


def tile_of(facts: Facts, tuning: Tuning) -> int:
    """Return how many columns are a tile."""
    return tile_width(facts.across, facts.lines // facts.across, facts.threads, tuning.tile, tuning.least_tile)


def part_count(facts: Facts, tuning: Tuning) -> int:
    """Return how many parts a line is cut into, so that all threads have as many; parts start with a superblock."""
    if facts.in_order or facts.lines >= 4 * facts.threads:
        return 1
    if facts.integers and facts.threads < tuning.integer_threads:
        return 1
    least = tuning.least_integer_part if facts.integers else tuning.least_part
    most = facts.n // (BLOCK * BLOCK * least)
    return max(min(facts.threads // gcd(facts.lines, facts.threads), most), 1)
