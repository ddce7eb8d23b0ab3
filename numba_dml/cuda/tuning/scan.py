"""Thresholds of cumulative sums. The figures are in docs/measurements/cuda_scan.md."""

from __future__ import annotations

from typing import NamedTuple

from ..driver.numba import SIMULATED


class ScanTuning(NamedTuple):
    """Thresholds of one kind of GPU: by themselves those of an H100 or H200."""

    #: Lines, from which on there are enough of them to keep all multiprocessors busy, a lane for each.
    least_lines: int = 1 << 15
    #: Blocks of 256 elements, up to which the last pass divides them: they keep few lanes busy.
    few_blocks: int = 1 << 16


#: In the simulator every way is taken by some test.
TUNING = (ScanTuning(), ScanTuning(least_lines=4, few_blocks=4))[SIMULATED]
