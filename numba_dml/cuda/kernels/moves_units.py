"""Gathers and scatters of any layout: every thread moves four units between the packed array and where indices lead.

Units are as wide as the slices and the alignment of both sides allow. The threads of a block take neighbouring units of
the packed array, so that its accesses, and those within a slice, are coalesced, and each has four of them on their way
at once. Narrow units of a gather's slices are left to warps.

Of the arguments of kernels see `primitives.moves`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..._core.enums import TensorDataType as D
from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, WARPS, cuda
from ..primitives.access import unit_access
from ..primitives.atomics import combine_now
from ..primitives.bad_indices import has_bad
from ..primitives.moves.claims import holder, number_of_place
from ..primitives.moves.places import NOWHERE, UNITS, point_places, slice_places
from ..primitives.moves.sizes import SIZES
from ..primitives.plan import SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs
from ..primitives.warp import LANE_VALUE, lanes_where, sync_lanes

#: Reductions of integers of 4 and 8 bytes leave the same bits in any order: the memory combines them. See
#: docs/measurements/cudamoves.md, "Integers that the memory combines".
COMBINED = ("add", "min", "max"), (D.INT32, D.UINT32, D.INT64, D.UINT64)
#: Units of a lane that are loaded together; see docs/measurements/cudamoves.md, "Slices by warps".
AT_ONCE = SIZES.slice_loads
#: Slices that warps move have fewer bytes: a lane counts with 32 bits.
MOST_SLICE_BYTES = 1 << 24


@cache
def gather_kernel(width: int, index_type: str, counts: tuple[int, int, int]) -> Kernel:
    """Return the kernel that gathers units of `width` bytes; see `point_places`.

    No step of a thread's four units depends on an index being good, or the compiler would wait for one load before the
    next; units with a bad one are done again, one by one.
    """
    load, store = unit_access(width)
    place_of_point, place_if_inside = point_places(index_type, *counts[:2])
    place_in_slice = slice_places(*counts)

    @helper
    def source_of(plan, index, unit):
        """Return where a unit is, and whether its index is bad."""
        point = quotient(unit, plan, SLICE)
        place, bad = place_if_inside(plan, index, point)
        return place + place_in_slice(plan, unit - point * number(plan, SLICE), width), bad

    @helper
    def move_checked(data, index, packed, plan, record, launch, unit):
        """Move a unit; a bad index is recorded."""
        point = quotient(unit, plan, SLICE)
        place = place_of_point(plan, index, record, launch, point)
        value = np.int64(0), np.int64(0)
        if place != NOWHERE:
            value = load(data + place + place_in_slice(plan, unit - point * number(plan, SLICE), width))
        store(packed + unit * width, value[0], value[1])

    # With three loops it would take more than 40 registers, of which a multiprocessor has enough for six blocks. See
    # docs/measurements/cudakernels.md, "Registers of a gather with three loops".
    def gather_units(data, index, packed, plan, record, launch, units, share):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        last = min(begin + share, units) - 1
        if a > last:
            return
        sources = cuda.local.array(UNITS, np.int64)
        values = cuda.local.array((UNITS, 2), np.int64)
        bad = False
        for k in range(UNITS):  # some may be one unit
            sources[k], is_bad = source_of(plan, index, min(a + k * BLOCK, last))
            bad |= is_bad
        if bad:
            for unit in range(a, min(a + UNITS * BLOCK, last + 1), BLOCK):
                move_checked(data, index, packed, plan, record, launch, unit)
            return
        for k in range(UNITS):
            values[k, 0], values[k, 1] = load(data + sources[k])
        for k in range(UNITS):
            store(packed + min(a + k * BLOCK, last) * width, values[k, 0], values[k, 1])

    return Kernel(gather_units, 8, plan=(3, numbers_in(*counts)), registers=40 if counts[0] == 3 else None)


def divide_slices(slices: int, warps: int) -> tuple[int, int]:
    """Return how many blocks move slices, and how many each warp moves, so that at least `warps` have some."""
    share = max(1, min(LANES, slices // warps))
    return -(-slices // (WARPS * share)), share


@cache
def slice_mover(width: int):
    """Return how a warp moves slices of units of `width` bytes to a packed array.

    Each lane knows the place of a slice, and they all take neighbouring units. By threads, every unit asks anew to
    which slice it belongs, and where that is, which takes longer than to wait for the memory if units are narrow.
    """
    load, store = unit_access(width, pure=False)
    lane_value = LANE_VALUE[64]

    @helper
    def move_slices(packed, at, plan, count, lane):
        """Move `count` slices to an address of a packed array; at `at` is the one that this lane knows."""
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
        for _ in range(-(-count * size // (AT_ONCE * LANES))):
            for i in range(AT_ONCE):
                place = lane_value(at, slice_)  # of some lane, behind the last unit
                values[i, 0], values[i, 1] = load(place + np.int64(offset))
                slice_, offset = np.int32(slice_ + slices_on), np.int32(offset + bytes_on)
                if offset >= slice_bytes:
                    slice_, offset = np.int32(slice_ + 1), np.int32(offset - slice_bytes)
            for i in range(AT_ONCE):
                if left > np.int32(i * LANES):
                    store(packed + i * LANES * width, values[i, 0], values[i, 1])
            packed += AT_ONCE * LANES * width
            left = np.int32(left - np.int32(AT_ONCE * LANES))

    return move_slices


@cache
def gather_slices_kernel(width: int, index_type: str, counts: tuple[int, int, int]) -> Kernel:
    """Return the kernel that gathers slices of narrow units by warps; see `point_places` and `slice_mover`."""
    _, store = unit_access(width)
    place_of_point, place_if_inside = point_places(index_type, *counts[:2])
    move_slices = slice_mover(width)
    lane_value = LANE_VALUE[64]

    @helper
    def empty_slices(packed, plan, first, count, lane, missing):
        """Write zeros for those points of a warp that are missing."""
        size = number(plan, SLICE)
        for i in range(count):
            if lane_value(missing, np.int64(i)) != 0:
                for unit in range(lane, size, LANES):
                    store(packed + ((first + i) * size + unit) * width, np.int64(0), np.int64(0))

    def gather_slices(data, index, packed, plan, record, launch, points, share):
        """`share`: points of a warp. No coordinate has size 0, so that there is an element to read for a bad index."""
        await_inputs()
        thread = np.int64(cuda.threadIdx.x)
        lane = thread % LANES
        first = (np.int64(cuda.blockIdx.x) * WARPS + thread // LANES) * share
        count = min(share, points - first)
        if count <= 0:
            return
        place, bad = np.int64(0), False
        if lane < count:
            place, bad = place_if_inside(plan, index, first + lane)
        any_bad = lanes_where(np.int32(bad)) != 0
        missing = np.int64(0)
        if any_bad and bad:  # it is recorded
            found = place_of_point(plan, index, record, launch, first + lane)
            if found != NOWHERE:
                place = found
            else:
                missing = np.int64(1)
        move_slices(packed + first * number(plan, SLICE) * width, data + place, plan, count, lane)
        if any_bad:
            sync_lanes()  # other lanes have written there
            empty_slices(packed, plan, first, count, lane, missing)

    return Kernel(gather_slices, 8, plan=(3, numbers_in(*counts)), waits=True)


@cache
def scatter_kernel(
    width: int, index_type: str, counts: tuple[int, int, int], claim_bytes: int, combined: tuple[str, str] | None
) -> Kernel:
    """Return the kernel that writes units of `width` bytes to where their points' indices lead; see `claimer`.

    Of updates that lead to one place the last one wins, whatever the threads do first: every point has *claimed* its
    place with its number, and only the update whose claim stayed is written. Points that are promised to be unique
    claim nothing. Or updates are combined, by an operation for a type, with what is there: see `atomics.combine_now`.
    """
    load, store = unit_access(width)
    if combined:
        combine = combine_now(*combined)

        @helper
        def store(address, first, second):
            combine(address, first)

    holds = holder(claim_bytes)
    place_of_point, _ = point_places(index_type, *counts[:2])
    place_in_slice = slice_places(*counts)

    @helper
    def place_of(plan, index, record, claims, unit, end):
        """Return where a unit goes, or `NOWHERE`."""
        if unit >= end:
            return np.int64(NOWHERE)
        point = quotient(unit, plan, SLICE)
        place = place_of_point(plan, index, record, -1, point)
        if place == NOWHERE:
            return place
        if not holds(claims, number_of_place(plan, place), point):
            return np.int64(NOWHERE)
        return place + place_in_slice(plan, unit - point * number(plan, SLICE), width)

    def scatter_units(data, index, packed, plan, record, launch, unless, claims, units, share):
        await_inputs()
        if has_bad(record, unless):
            return
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        end = min(begin + share, units)
        to = cuda.local.array(UNITS, np.int64)
        values = cuda.local.array((UNITS, 2), np.int64)
        for k in range(UNITS):
            to[k] = place_of(plan, index, record, claims, a + k * BLOCK, end)
        for k in range(UNITS):
            if to[k] != NOWHERE:
                values[k, 0], values[k, 1] = load(packed + (a + k * BLOCK) * width)
        bad = False
        for k in range(UNITS):
            bad |= to[k] == NOWHERE and a + k * BLOCK < end
            if to[k] != NOWHERE:
                store(data + to[k], values[k, 0], values[k, 1])
        if launch >= 0 and bad:
            for unit in range(a, end, BLOCK):
                place_of_point(plan, index, record, launch, quotient(unit, plan, SLICE))

    return Kernel(scatter_units, 10, plan=(3, numbers_in(*counts)), registers=40)  # it would take 48
