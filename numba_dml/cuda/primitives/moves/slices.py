"""Slices of narrow units, moved by warps: each lane knows the place of a slice, and they all take neighbouring units.

By threads, every unit asks anew to which slice it belongs, and where that is. That takes longer than to wait for the
memory if units are narrow, as those of rows of 17 float32 are, which are aligned to 4 bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import BLOCK, LANES, cuda
from ..access import unit_access
from ..plan import SLICE, number, quotient
from ..warp import LANE_VALUE
from .sizes import SIZES

#: Units of a slice are fewer: a warp counts with 32 bits.
MOST_UNITS = 1 << 24
#: Units of a lane that are loaded together; see docs/measurements/cudamoves.md, "Slices by warps".
AT_ONCE = SIZES.slice_loads
WARPS = BLOCK // LANES
#: Where a slice is that is not to be moved.
NOWHERE = -(1 << 63)


def divide_slices(slices: int, warps: int) -> tuple[int, int]:
    """Return how many blocks move slices, and how many each warp moves, so that at least `warps` have some."""
    share = max(1, min(LANES, slices // warps))
    return -(-slices // (WARPS * share)), share


@helper
def slices_of_warp(slices, share):
    """Return the first slice of this warp, how many it has, and the number of this lane."""
    thread = np.int64(cuda.threadIdx.x)
    first = (np.int64(cuda.blockIdx.x) * WARPS + thread // LANES) * share
    return first, min(share, slices - first), thread % LANES


@cache
def slice_mover(width: int, scatters: bool):
    """Return how a warp moves slices of units of `width` bytes: to a packed array, or from there if it `scatters`."""
    load, store = unit_access(width, pure=False)
    lane_value = LANE_VALUE[64]

    @helper
    def move_slices(
        packed,  # IN, OUT  address of the packed array's first slice for this warp
        at,  # IN, OUT  address of the slice that this lane knows, NOWHERE: it is not written
        plan,  # IN  the plan
        count,  # IN  how many slices this warp moves
        lane,  # IN  the number of this lane
    ):
        size = number(plan, SLICE)
        # Of the lane's next unit: which slice it is of, where in that, and how many units are there from it on.
        slice_ = np.int32(quotient(lane, plan, SLICE))
        offset = np.int32((lane - slice_ * size) * width)
        left = np.int32(count * size - lane)
        slices_on = np.int32(quotient(np.int64(LANES), plan, SLICE))
        bytes_on = np.int32((LANES - slices_on * size) * width)
        slice_bytes = np.int32(size * width)
        packed += lane * width
        values = cuda.local.array((AT_ONCE, 2), np.int64)
        places = cuda.local.array(AT_ONCE, np.int64)
        for _ in range(-(-count * size // (AT_ONCE * LANES))):
            for i in range(AT_ONCE):
                place = lane_value(at, slice_)  # of some lane, behind the last unit
                if not scatters:
                    values[i, 0], values[i, 1] = load(place + np.int64(offset))
                elif left > np.int32(i * LANES):
                    values[i, 0], values[i, 1] = load(packed + i * LANES * width)
                    places[i] = place + np.int64(offset) if place != NOWHERE else np.int64(NOWHERE)
                else:
                    places[i] = NOWHERE
                slice_, offset = np.int32(slice_ + slices_on), np.int32(offset + bytes_on)
                if offset >= slice_bytes:
                    slice_, offset = np.int32(slice_ + 1), np.int32(offset - slice_bytes)
            for i in range(AT_ONCE):
                if scatters:
                    if places[i] != NOWHERE:
                        store(places[i], values[i, 0], values[i, 1])
                elif left > np.int32(i * LANES):
                    store(packed + i * LANES * width, values[i, 0], values[i, 1])
            packed += AT_ONCE * LANES * width
            left = np.int32(left - np.int32(AT_ONCE * LANES))

    return move_slices
