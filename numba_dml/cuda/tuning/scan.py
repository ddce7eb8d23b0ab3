"""Thresholds of cumulative sums. The figures are in docs/measurements/cuda_scan.md."""

from __future__ import annotations

from typing import NamedTuple

from ..driver.numba import SIMULATED


class ScanTuning(NamedTuple):
    """Thresholds of one kind of GPU: by themselves those of an H100 or H200."""

    least_lines: int = 1 << 15  #: lines that keep all multiprocessors busy, with a lane for each
    few_blocks: int = 1 << 16  #: blocks of 256 elements, up to which lanes are idle: the last pass divides them


#: In the simulator every way is taken by some test.
TUNING = (ScanTuning(), ScanTuning(least_lines=4, few_blocks=4))[SIMULATED]
