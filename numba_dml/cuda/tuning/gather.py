"""Thresholds of gathers. The figures are in docs/measurements/cudamoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..driver.numba import SIMULATED
from . import moves


class GatherTuning(NamedTuple):
    """Thresholds of one kind of GPU."""

    moves: moves.MoveTuning  #: What scatters share.
    least_line_bytes: int  #: Bytes of points or elements of a block; with fewer it is not worth its start.
    least_matrix_bytes: int  #: Bytes of a matrix; a smaller one stays in L2, where its columns need no transposing.
    column_bytes: tuple[int, int, int, int]  #: Bytes of a column that has a thread, for elements of 1, 2, 4, 8 bytes.
    most_in_l2: int  #: Bytes that a call moves, up to which they stay in L2, which may be as fast as shared memory.
    most_cost: float  #: How much longer than at best blocks may take then.
    least_column_in_l2: int  #: Elements of a column, from which on shared memory is faster than L2.


H100 = GatherTuning(
    moves=moves.H100,
    least_line_bytes=8 << 10,
    least_matrix_bytes=48 << 20,
    column_bytes=(4, 128, 128, 128),
    most_in_l2=100 << 20,
    most_cost=1.4,
    least_column_in_l2=24,
)
SIMULATOR = GatherTuning(
    moves=moves.SIMULATOR,
    least_line_bytes=8,
    least_matrix_bytes=64,
    column_bytes=(24, 24, 24, 24),
    most_in_l2=0,
    most_cost=1.4,
    least_column_in_l2=24,
)
TUNING = SIMULATOR if SIMULATED else H100
