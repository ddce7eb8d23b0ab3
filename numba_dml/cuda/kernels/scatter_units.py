"""The scatter kernels: the gather's loop nest with the arrow turned around.

Of updates that lead to one place the last one wins, whatever the threads do first: every point *claims* its place with
its number, the highest stays, and only its update is written. Points that are promised to be unique claim nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..._core.enums import TensorDataType as D
from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import unit_access
from ..primitives.atomics import combine_now, load_now
from ..primitives.moves.claims import claiming, number_of_place
from ..primitives.moves.places import places
from ..primitives.moves.slices import NOWHERE, slice_mover, slices_of_warp
from ..primitives.plan import SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs

#: Reductions of integers of 4 and 8 bytes leave the same bits in any order: the memory combines them. See
#: docs/measurements/cudamoves.md, "Integers that the memory combines".
COMBINED = ("add", "min", "max"), (D.INT32, D.UINT32, D.INT64, D.UINT64)


@cache
def unit_placer(width: int, index_type: str, loops: int, coords: int, outer: int, claim_bytes: int, tabled: bool):
    """Return ``place_of(plan, index, record, claims, last_entry, unit, end)``: where a unit goes, or `NOWHERE`."""
    _, holds = claiming(claim_bytes, tabled)
    place_of_point, place_in_slice, _ = places(index_type, loops, coords, outer)

    @helper
    def place_of(plan, index, record, claims, last_entry, unit, end):
        if unit >= end:
            return np.int64(NOWHERE)
        point = quotient(unit, plan, SLICE)
        place = place_of_point(plan, index, record, -1, point)
        if place == NOWHERE:
            return place
        if not holds(claims, last_entry, number_of_place(plan, place), point):
            return np.int64(NOWHERE)
        return place + place_in_slice(plan, unit - point * number(plan, SLICE), width)

    return place_of


@cache
def scatter_kernel(
    width: int,
    index_type: str,
    loops: int,
    coords: int,
    outer: int,
    claim_bytes: int,
    tabled: bool,
    combined: tuple[str, str] | None,
) -> Kernel:
    """Return the kernel that writes units of `width` bytes to where their points' indices lead; see `claiming`.

    Or that combines them, by an operation for a type, with what is there: see `atomics.combine_now`.
    """
    load, store = unit_access(width)
    if combined:
        combine = combine_now(*combined)

        @helper
        def store(address, first, second):
            combine(address, first)

    place_of = unit_placer(width, index_type, loops, coords, outer, claim_bytes, tabled)
    place_of_point, *_ = places(index_type, loops, coords, outer)

    @helper
    def load_update(packed, unit, place):
        if place == NOWHERE:
            return np.int64(0), np.int64(0)
        return load(packed + unit * width)

    @helper
    def put(data, place, value):
        if place != NOWHERE:
            store(data + place, value[0], value[1])

    @kernel(registers=40)  # it would take 48
    def scatter_units(
        data,  # OUT  address of the output's first element
        index,  # IN   address of the packed indices
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: the indices have been looked at
        claims,  # IN   address of the flag and of the claims
        last_entry,  # IN   the last entry of a table
        all_or_none,  # IN   1: write nothing if an index is bad
        units,  # IN   how many units the updates have
        share,  # IN   how many of them a block moves
    ):
        await_inputs()
        if all_or_none != 0 and load_now(claims) == 0:
            return
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        b, c, d = a + BLOCK, a + 2 * BLOCK, a + 3 * BLOCK
        end = min(begin + share, units)
        to_a = place_of(plan, index, record, claims, last_entry, a, end)
        to_b = place_of(plan, index, record, claims, last_entry, b, end)
        to_c = place_of(plan, index, record, claims, last_entry, c, end)
        to_d = place_of(plan, index, record, claims, last_entry, d, end)
        value_a = load_update(packed, a, to_a)
        value_b = load_update(packed, b, to_b)
        value_c = load_update(packed, c, to_c)
        value_d = load_update(packed, d, to_d)
        put(data, to_a, value_a)
        put(data, to_b, value_b)
        put(data, to_c, value_c)
        put(data, to_d, value_d)
        bad = to_a == NOWHERE or to_b == NOWHERE or to_c == NOWHERE or to_d == NOWHERE
        if launch >= 0 and bad and (to_a == NOWHERE or b < end):  # a thread with one unit has no others
            for unit in range(a, end, BLOCK):
                place_of_point(plan, index, record, launch, quotient(unit, plan, SLICE))

    return Kernel(scatter_units, 11, plan=(3, numbers_in(loops, coords, outer)))


@cache
def scatter_slices_kernel(
    width: int, index_type: str, loops: int, coords: int, claim_bytes: int, tabled: bool
) -> Kernel:
    """Return what `scatter_kernel` is for slices of narrow units, by warps, without combining; see `slices`."""
    _, holds = claiming(claim_bytes, tabled)
    place_of_point, _, _ = places(index_type, loops, coords, 0)
    move_slices = slice_mover(width, True)

    @kernel
    def scatter_slices(
        data,  # OUT  address of the output's first element
        index,  # IN   address of the packed indices
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: the indices have been looked at
        claims,  # IN   address of the flag and of the claims
        last_entry,  # IN   the last entry of a table
        all_or_none,  # IN   1: write nothing if an index is bad
        points,  # IN   how many points there are
        share,  # IN   how many of them a warp has
    ):
        await_inputs()
        if all_or_none != 0 and load_now(claims) == 0:
            return
        first, count, lane = slices_of_warp(points, share)
        if count <= 0:
            return
        at = np.int64(NOWHERE)
        if lane < count:
            place = place_of_point(plan, index, record, launch, first + lane)
            if place != NOWHERE and holds(claims, last_entry, number_of_place(plan, place), first + lane):
                at = data + place
        move_slices(packed + first * number(plan, SLICE) * width, at, plan, count, lane)

    return Kernel(scatter_slices, 11, plan=(3, numbers_in(loops, coords, 0)), waits=True)
