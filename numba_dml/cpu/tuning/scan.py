"""Thresholds of running sums and products. The figures are in docs/measurements/cpu_scan.md."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Which kernel scans, and what threads share."""

    columns_across: int = 16  #: neighbouring lines from which on they are scanned together, row by row
    #: Of these, as many at once: a row of them is one stream of the memory, and their totals stay in the L1.
    tile: int = 1024
    least_tile: int = 16  #: the fewest at once, where threads have too few tiles: a cache line of float32
    #: Superblocks (65,536 elements) of a part of a line that threads share: of floats, and of integers, which take a
    #: third of the time: two threads, which read a half twice, wait for the memory longer than one.
    least_part: int = 2
    least_integer_part: int = 16
    integer_threads: int = 4


TUNING = Tuning()
