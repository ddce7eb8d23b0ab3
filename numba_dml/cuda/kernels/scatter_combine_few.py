"""Reductions into few integers: each block has a copy of all of them in shared memory.

Of the arguments of kernels see `primitives.moves`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper
from ..driver.intrinsics import shared_type
from ..driver.launch import Kernel
from ..driver.numba import cuda
from ..primitives.access import unit_access
from ..primitives.atomics import combine_now
from ..primitives.bad_indices import has_bad
from ..primitives.moves.claims import number_of_place
from ..primitives.moves.places import NOWHERE, UNITS, point_places, slice_places
from ..primitives.moves.sizes import SIZES
from ..primitives.plan import BOUNDS, DROP, SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs
from ..primitives.shared import shared_address

#: Threads of a block that has an output, or claims, of its own; see docs/measurements/cudamoves.md, "Few places".
OWNERS = SIZES.copy_threads

#: A claim: the highest number of a point stays.
CLAIM = "max", "int32"


@cache
def few_steps(width: int, index_type: str, counts: tuple[int, int, int], combined: tuple[str, str] | None):
    """Return ``point_of(plan, unit)`` and ``combine_all(own, packed, plan, index, begin, end)``.

    The second combines the updates of units from one on, or claims their places, with elements at a shared address; all
    threads take part, and learn each whether an index is bad.
    """
    claims = combined is None
    combine_own = combine_now(*(combined or CLAIM), "shared")
    load, _ = unit_access(width)
    place_of_point, _ = point_places(index_type, *counts[:2])
    place_in_slice = slice_places(*counts)

    @helper
    def point_of(plan, unit):
        return unit if claims else quotient(unit, plan, SLICE)

    @helper
    def place_of(plan, index, unit, end):
        if unit >= end:
            return np.int64(0)
        point = point_of(plan, unit)
        place = place_of_point(plan, index, np.int64(0), -1, point)
        if place == NOWHERE:
            return place
        if claims:
            return width * number_of_place(plan, place)
        return place + place_in_slice(plan, unit - point * number(plan, SLICE), width)

    @helper
    def meet(own, packed, place, unit, end):
        """Combine an update with the block's element; tell whether the index is bad."""
        if unit < end and place != NOWHERE:
            value = unit
            if not claims:
                value, _ = load(packed + unit * width)
            combine_own(own + place, value)
        return place == NOWHERE

    @helper
    def combine_all(own, packed, plan, index, begin, end):
        bad = False
        found = cuda.local.array(UNITS, np.int64)
        for a in range(begin + np.int64(cuda.threadIdx.x), end, UNITS * OWNERS):
            for k in range(UNITS):
                found[k] = place_of(plan, index, a + k * OWNERS, end)
            for k in range(UNITS):
                bad |= meet(own, packed, found[k], a + k * OWNERS, end)
        return bad

    return point_of, combine_all


@cache
def combine_few_kernel(
    width: int, index_type: str, counts: tuple[int, int, int], combined: tuple[str, str] | None
) -> Kernel:
    """Return the kernel that combines many updates with few integers: those of a block among themselves first.

    Without `combined` it claims places: it combines their claims, of 4 bytes, with the numbers of points, of which the
    highest stays. See docs/measurements/cudakernels.md, "Few integers, combined by blocks first".
    """
    operation, name = combined or CLAIM
    combine = combine_now(operation, name)
    point_of, combine_all = few_steps(width, index_type, counts, combined)
    limits = np.iinfo(name)
    # What changes nothing, as a signed number.
    neutral = int({"add": np.dtype(name).type(0), "min": limits.max, "max": limits.min}[operation])
    neutral -= 1 << (8 * width) if neutral > np.iinfo(f"int{8 * width}").max else 0
    place_of_point, _ = point_places(index_type, *counts[:2])
    word = shared_type(f"int{8 * width}")

    def combine_few(data, index, packed, plan, record, launch, unless, count, units, share):
        """`data` has `count` elements, or claims, whose bits are set: then `units` are points."""
        await_inputs()
        if has_bad(record, unless):
            return
        own = cuda.shared.array(0, word)
        thread = np.int64(cuda.threadIdx.x)
        for i in range(thread, count, OWNERS):
            own[np.uint32(i)] = neutral
        cuda.syncthreads()
        begin = np.int64(cuda.blockIdx.x) * share
        end = min(begin + share, units)
        bad = combine_all(np.int64(shared_address(own)), packed, plan, index, begin, end)
        if bad and launch >= 0 and number(plan, BOUNDS) != DROP:
            for unit in range(begin + thread, end, OWNERS):
                place_of_point(plan, index, record, launch, point_of(plan, unit))
        cuda.syncthreads()
        for i in range(thread, count, OWNERS):
            if own[np.uint32(i)] != neutral:
                combine(data + width * i, np.int64(own[np.uint32(i)]))

    return Kernel(combine_few, 10, plan=(3, numbers_in(*counts)), waits=True, shares=True, threads=OWNERS, registers=64)
