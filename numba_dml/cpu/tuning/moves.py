"""Thresholds that gathers and scatters share. The figures are in docs/measurements/cpumoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..._jit.machine import CACHE_LINE, cache_bytes

#: Bytes of a core's L2.
L2_BYTES = cache_bytes(2, assumed=1 << 21)


class MoveTuning(NamedTuple):
    """How any gather or scatter is planned."""

    #: Points. Loops are reordered so that rows have no fewer: a shorter row costs more than its points do.
    short_row: int = 64
    #: Bytes that a slice of several elements counts as, beside its own, when the driver is chosen: the loop's overhead.
    slice_work: int = 16
    #: How many times as fast contiguous bytes are copied as single elements; their bytes count that much less.
    copy_speed: int = 6
    #: Bytes of an output from which on it is written by non-temporal stores: it is larger than the caches.
    stream_bytes: int = 1 << 25
    #: Bytes that a tile or strip of a matrix touches, where narrower rows would cost more than a smaller one gains.
    tile_bytes: int = 1 << 21
    #: Bytes of a tile or strip that stays in the L2 beside the indices and updates that go through it.
    small_tile: int = 1 << 20
    #: Bytes. Rows that are a multiple of it apart conflict: a cache has few places for them.
    conflict_bytes: int = 16 * CACHE_LINE


TUNING = MoveTuning()
#: Whether the L2 has room for two strips: the thresholds of the families differ by it.
HAS_LARGE_L2 = L2_BYTES >= 2 * TUNING.small_tile
