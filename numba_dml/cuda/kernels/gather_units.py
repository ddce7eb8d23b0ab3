"""The gather kernels: every thread moves four units of the packed output, each from where its indices lead.

Units are as wide as the slices and the alignment of both sides allow. The threads of a block take neighbouring units,
so that stores, and the loads of a slice, are coalesced, and each has four of them on their way at once: a load for
every unit that the memory needs in flight. No step of these depends on an index being good, or the compiler would wait
for one load before the next; units with a bad one are done again, one by one. It makes rows of 256 bytes 4 % faster, of
68 14 %. If there are few units, a thread has one, in a kernel of its own, which a device has loaded sooner: gathers of
some kilobytes take 3.6 µs, and 4.0 if a kernel holds both.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, cuda
from ..primitives.access import unit_access
from ..primitives.moves.places import places
from ..primitives.moves.slices import NOWHERE, slice_mover, slices_of_warp
from ..primitives.plan import SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs
from ..primitives.warp import LANE_VALUE, lanes_where, sync_lanes


@cache
def unit_steps(width: int, index_type: str, loops: int, coords: int, outer: int):
    """Return ``source_of(plan, index, unit)``, where a unit is and whether its index is bad, and ``move_checked``."""
    load, store = unit_access(width)
    place_of_point, place_in_slice, place_if_inside = places(index_type, loops, coords, outer)

    @helper
    def source_of(plan, index, unit):
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

    return source_of, move_checked


@cache
def gather_kernel(width: int, index_type: str, loops: int, coords: int, outer: int, alone: bool) -> Kernel:
    """Return the kernel that gathers units of `width` bytes, a thread one alone or `UNITS`; see `places`."""
    load, store = unit_access(width)
    source_of, move_checked = unit_steps(width, index_type, loops, coords, outer)

    @kernel
    def gather_unit(data, index, packed, plan, record, launch, units, share):
        """See `gather_units`."""
        await_inputs()
        unit = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if unit >= units:
            return
        source, bad = source_of(plan, index, unit)
        if bad:
            move_checked(data, index, packed, plan, record, launch, unit)
        else:
            value = load(data + source)
            store(packed + unit * width, value[0], value[1])

    # With three loops it would take more than 40 registers, of which a multiprocessor has enough for six blocks. See
    # docs/measurements/cudakernels.md, "Registers of a gather with three loops".
    @kernel(registers=40 if loops == 3 else None)
    def gather_units(
        data,  # IN   address of the input's first element
        index,  # IN   address of the packed indices
        packed,  # OUT  address of the packed output
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        units,  # IN   how many units the output has
        share,  # IN   how many of them a block moves
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        last = min(begin + share, units) - 1
        if a > last:
            return
        b, c, d = min(a + BLOCK, last), min(a + 2 * BLOCK, last), min(a + 3 * BLOCK, last)  # some may be one unit
        from_a, bad_a = source_of(plan, index, a)
        from_b, bad_b = source_of(plan, index, b)
        from_c, bad_c = source_of(plan, index, c)
        from_d, bad_d = source_of(plan, index, d)
        if bad_a or bad_b or bad_c or bad_d:
            for unit in range(a, d + 1, BLOCK):
                move_checked(data, index, packed, plan, record, launch, unit)
            return
        value_a, value_b = load(data + from_a), load(data + from_b)
        value_c, value_d = load(data + from_c), load(data + from_d)
        store(packed + a * width, value_a[0], value_a[1])
        store(packed + b * width, value_b[0], value_b[1])
        store(packed + c * width, value_c[0], value_c[1])
        store(packed + d * width, value_d[0], value_d[1])

    return Kernel(gather_unit if alone else gather_units, 8, plan=(3, numbers_in(loops, coords, outer)))


@cache
def gather_slices_kernel(width: int, index_type: str, loops: int, coords: int) -> Kernel:
    """Return the kernel that gathers slices of narrow units by warps; see `places` and `slices`."""
    _, store = unit_access(width)
    place_of_point, _, place_if_inside = places(index_type, loops, coords, 0)
    move_slices = slice_mover(width, False)
    lane_value = LANE_VALUE[64]

    @helper
    def empty_slices(packed, plan, first, count, lane, missing):
        """Write zeros for those points of a warp that are missing."""
        size = number(plan, SLICE)
        for i in range(count):
            if lane_value(missing, np.int64(i)) != 0:
                for unit in range(lane, size, LANES):
                    store(packed + ((first + i) * size + unit) * width, np.int64(0), np.int64(0))

    @kernel
    def gather_slices(
        data,  # IN   address of the input's first element; no coordinate has none
        index,  # IN   address of the packed indices
        packed,  # OUT  address of the packed output
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        points,  # IN   how many points there are
        share,  # IN   how many of them a warp has
    ):
        await_inputs()
        first, count, lane = slices_of_warp(points, share)
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

    return Kernel(gather_slices, 8, plan=(3, numbers_in(loops, coords, 0)), waits=True)
