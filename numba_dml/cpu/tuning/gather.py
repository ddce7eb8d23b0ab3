"""Thresholds of gathers. The figures are in docs/measurements/cpumoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..._jit.machine import CACHE_LINE
from . import moves


class GatherTuning(NamedTuple):
    """Which kernel runs a gather, and in which tiles."""

    l2_bytes: int = moves.L2_BYTES  #: bytes of the L2: data of up to half of it are not prefetched
    #: Bytes of an output from which on it is written by non-temporal stores.
    stream_bytes: int = moves.TUNING.stream_bytes
    #: Points of a row whose offsets are kept for all rows: 512 KiB of them, half of a common L2.
    common_points: int = 1 << 16
    #: Bytes of a row of data up to which the next row is prefetched, if a row has a point for each of its lines.
    row_ahead_bytes: int = 1 << 17
    tile_bytes: int = moves.TUNING.tile_bytes  #: bytes that a tile touches of the data
    small_tile: int = moves.TUNING.small_tile  #: bytes that a packed tile touches
    #: Elements of a row of any tile; below it, go row by row: each row of a tile touches another cache line.
    least_tile: int = 160
    #: Bytes of a row that is cut into tiles: threads share them, and each needs many cache lines of its own.
    tile_row: int = 64 * CACHE_LINE
    #: Bytes. Rows that are a multiple of it apart conflict in a cache, so their tiles are packed.
    conflict_bytes: int = moves.TUNING.conflict_bytes
    #: Whether tiles are packed even where rows do not conflict: the L2 is too small to hold them as they are.
    packs_all_tiles: bool = False
    #: Elements of the matrix per point up to which its tiles are packed: a copy of what nobody reads does not pay.
    packed_part: int = 2
    packed_tiles: int = 4  #: tiles that a matrix must exceed for them to be packed
    packed_width: int = 96  #: elements of a row of a packed tile; narrower tiles are not packed


LARGE_L2 = GatherTuning()
SMALL_L2 = LARGE_L2._replace(least_tile=32, packs_all_tiles=True, packed_width=16)
#: The thresholds of this machine.
TUNING = LARGE_L2 if moves.HAS_LARGE_L2 else SMALL_L2
