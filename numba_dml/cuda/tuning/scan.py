"""Thresholds of cumulative sums. The figures are in docs/measurements/cuda_scan.md."""

from __future__ import annotations

from typing import NamedTuple

from ..driver.numba import SIMULATED


class ScanTuning(NamedTuple):
    """Thresholds of one kind of GPU."""

    least_lines: (
        int  #: Lines, from which on there are enough of them to keep all multiprocessors busy, a lane for each.
    )
    few_blocks: int  #: Blocks of 256 elements, up to which the last pass divides them: they keep few lanes busy.


#: An H100 or H200. In the simulator every way is taken by some test.
TUNING = (ScanTuning(least_lines=1 << 15, few_blocks=1 << 16), ScanTuning(least_lines=4, few_blocks=4))[SIMULATED]
