"""The gather kernels: every thread moves four units of the packed output, each from where its indices lead.

Units are as wide as the slices and the alignment of both sides allow. The threads of a block take neighbouring units,
so that stores, and the loads of a slice, are coalesced, and each has four of them on their way at once: a load for
every unit that the memory needs in flight.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import cuda, helper, kernel
from ._bounds import record_bad
from ._launch import BLOCK, Kernel
from ._memory import LOAD_INDEX, unit_access
from ._plan import (
    BOUNDS,
    CLAMP,
    COORD_FIELDS,
    COORDS,
    DROP,
    HEADER,
    LOOP_FIELDS,
    LOOPS,
    OUTER,
    OUTER_FIELDS,
    RUN,
    SLICE,
    number,
    quotient,
)

#: Units per thread.
UNITS = 4
#: Where a unit has no source: its index is out of range, or it is behind the end.
NOWHERE = -(1 << 63)
#: Up to so many loops, coordinates and outer dimensions a kernel is compiled for their number; beyond, for any.
MOST_LOOPS, MOST_COORDS, MOST_OUTER = 3, 3, 1


@cache
def places(index_type: str, loops: int, coords: int, outer: int):
    """Return how to find the source of a unit, and how to find and record a bad index.

    `loops`, `coords` and `outer` are how many there are, -1: the plan says so.
    """
    load_index = LOAD_INDEX[index_type]
    index_bytes = np.dtype(index_type).itemsize
    signed = index_type.startswith("i")

    @helper
    def place_of_point(
        plan,  # IN   address of the plan
        index,  # IN   address of the packed indices
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: do not record any
        point,  # IN   which point
    ):
        loop_count = loops if loops >= 0 else number(plan, LOOPS)
        coord_count = coords if coords >= 0 else number(plan, COORDS)
        offset = np.int64(0)
        at = np.int64(0)
        for loop in range(loop_count - 1, -1, -1):
            field = HEADER + LOOP_FIELDS * loop
            i = point
            if loop > 0:  # the outermost one takes what is left
                point = quotient(point, plan, field)
                i -= point * number(plan, field)
            offset += i * number(plan, field + 3)
            at += i * number(plan, field + 4)
        inside = True
        for c in range(coord_count):
            field = HEADER + LOOP_FIELDS * loop_count + COORD_FIELDS * c
            size = number(plan, field)
            value = load_index(index + (at + c) * index_bytes)
            i = value
            if signed and i < 0:
                i += size
            if i < 0 or i >= size:
                bounds = number(plan, BOUNDS)
                if bounds == CLAMP and size > 0:
                    i = np.int64(0) if signed and i < 0 else size - 1
                else:
                    inside = False
                    i = np.int64(0)
                    if launch >= 0 and bounds != DROP:
                        record_bad(record, launch, at + c, value, plan)
            offset += i * number(plan, field + 1)
        return offset if inside else np.int64(NOWHERE)

    @helper
    def place_in_slice(plan, unit, width):
        if outer == 0:
            return unit * width
        loop_count = loops if loops >= 0 else number(plan, LOOPS)
        coord_count = coords if coords >= 0 else number(plan, COORDS)
        outer_count = outer if outer >= 0 else number(plan, OUTER)
        rest = quotient(unit, plan, RUN)
        offset = (unit - rest * number(plan, RUN)) * width
        for d in range(outer_count - 1, -1, -1):
            field = HEADER + LOOP_FIELDS * loop_count + COORD_FIELDS * coord_count + OUTER_FIELDS * d
            i = rest
            if d > 0:
                rest = quotient(rest, plan, field)
                i -= rest * number(plan, field)
            offset += i * number(plan, field + 3)
        return offset

    return place_of_point, place_in_slice


@cache
def gather_kernel(width: int, index_type: str, loops: int, coords: int, outer: int) -> Kernel:
    """Return the kernel that gathers units of `width` bytes; see `places`."""
    load, store = unit_access(width)
    place_of_point, place_in_slice = places(index_type, loops, coords, outer)

    @helper
    def place_of(plan, index, record, launch, unit, units):
        if unit >= units:
            return np.int64(NOWHERE)
        point = quotient(unit, plan, SLICE)
        place = place_of_point(plan, index, record, launch, point)
        if place != NOWHERE:
            place += place_in_slice(plan, unit - point * number(plan, SLICE), width)
        return place

    @helper
    def load_at(data, place):
        if place == NOWHERE:
            return np.int64(0), np.int64(0)
        return load(data + place)

    @helper
    def put(packed, unit, units, value):
        if unit < units:
            store(packed + unit * width, value[0], value[1])

    @kernel
    def gather_units(
        data,  # IN   address of the input's first element
        index,  # IN   address of the packed indices
        packed,  # OUT  address of the packed output
        plan,  # IN   address of the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        units,  # IN   how many units the output has
    ):
        a = np.int64(cuda.blockIdx.x) * (BLOCK * UNITS) + np.int64(cuda.threadIdx.x)
        b, c, d = a + BLOCK, a + 2 * BLOCK, a + 3 * BLOCK
        from_a = place_of(plan, index, record, -1, a, units)
        from_b = place_of(plan, index, record, -1, b, units)
        from_c = place_of(plan, index, record, -1, c, units)
        from_d = place_of(plan, index, record, -1, d, units)
        value_a = load_at(data, from_a)
        value_b = load_at(data, from_b)
        value_c = load_at(data, from_c)
        value_d = load_at(data, from_d)
        put(packed, a, units, value_a)
        put(packed, b, units, value_b)
        put(packed, c, units, value_c)
        put(packed, d, units, value_d)
        if from_a == NOWHERE or from_b == NOWHERE or from_c == NOWHERE or from_d == NOWHERE:
            # Seldom, and apart, so that it costs the others no registers: find the bad index again, and record it.
            for unit in range(a, min(units, d + 1), BLOCK):
                place_of(plan, index, record, launch, unit, units)

    return Kernel(gather_units, 7)
