"""The scatter kernels: the gather's loop nest with the arrow turned around.

Of updates that lead to one place the last one wins, whatever the threads do first: every point *claims* its place with
its number, the highest stays, and only its update is written. Points that are promised to be unique claim nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import cuda, helper, kernel
from ._arithmetic import combiner
from ._launch import BLOCK, Kernel
from ._memory import claim_access, load_now, store_now, unit_access
from ._plan import GRANULE, LOWEST, SLICE, number, quotient
from ._sorting import PAIR_BYTES
from .gather import NOWHERE, UNITS, places

#: Before the claims: a word that says that an index is bad.
FLAG_BYTES = 8


@helper
def number_of_place(plan, place):
    """Return the number of a place, counted from the lowest."""
    return quotient(place - number(plan, LOWEST), plan, GRANULE)


@cache
def claim_kernel(index_type: str, loops: int, coords: int, outer: int, claim_bytes: int) -> Kernel:
    """Return the kernel that looks at all indices, and claims the places that they lead to.

    A claim has 4 or 8 bytes, for the number of a point; 0: there are none.
    """
    place_of_point, _ = places(index_type, loops, coords, outer)
    raise_claim, _ = claim_access(claim_bytes or 4)

    @helper
    def claim(plan, index, record, claims, point, points):
        if point < points:
            place = place_of_point(plan, index, record, -1, point)
            if place == NOWHERE:
                return True
            if claim_bytes > 0:
                raise_claim(claims + FLAG_BYTES + claim_bytes * number_of_place(plan, place), point)
        return False

    @kernel
    def claim_places(
        index,  # IN      address of the packed indices
        plan,  # IN      address of the plan
        record,  # OUT     where a bad index is recorded
        launch,  # IN      the number of this launch
        claims,  # IN OUT  address of the flag and of the claims, all bits set; 0: there are none
        points,  # IN      how many points there are
    ):
        a = np.int64(cuda.blockIdx.x) * (BLOCK * UNITS) + np.int64(cuda.threadIdx.x)
        bad = claim(plan, index, record, claims, a, points)
        bad |= claim(plan, index, record, claims, a + BLOCK, points)
        bad |= claim(plan, index, record, claims, a + 2 * BLOCK, points)
        bad |= claim(plan, index, record, claims, a + 3 * BLOCK, points)
        if bad:
            if claims != 0:
                store_now(claims, 0)
            for point in range(a, min(points, a + 3 * BLOCK + 1), BLOCK):
                place_of_point(plan, index, record, launch, point)

    return Kernel(claim_places, 6)


@cache
def scatter_kernel(width: int, index_type: str, loops: int, coords: int, outer: int, claim_bytes: int) -> Kernel:
    """Return the kernel that writes units of `width` bytes to where their points' indices lead."""
    load, store = unit_access(width)
    _, load_claim = claim_access(claim_bytes or 4)
    place_of_point, place_in_slice = places(index_type, loops, coords, outer)

    @helper
    def place_of(plan, index, record, launch, claims, unit, units):
        if unit >= units:
            return np.int64(NOWHERE)
        point = quotient(unit, plan, SLICE)
        place = place_of_point(plan, index, record, launch, point)
        if place == NOWHERE:
            return place
        if claim_bytes > 0:
            if load_claim(claims + FLAG_BYTES + claim_bytes * number_of_place(plan, place)) != point:
                return np.int64(NOWHERE)
        return place + place_in_slice(plan, unit - point * number(plan, SLICE), width)

    @helper
    def load_at(packed, unit, place):
        if place == NOWHERE:
            return np.int64(0), np.int64(0)
        return load(packed + unit * width)

    @helper
    def put(data, place, value):
        if place != NOWHERE:
            store(data + place, value[0], value[1])

    @kernel
    def scatter_units(
        data,  # OUT  address of the output's first element
        index,  # IN   address of the packed indices
        packed,  # IN   address of the packed updates
        plan,  # IN   address of the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: the indices have been looked at
        claims,  # IN   address of the flag and of the claims
        all_or_none,  # IN   1: write nothing if an index is bad
        units,  # IN   how many units the updates have
    ):
        if all_or_none != 0 and load_now(claims) == 0:
            return
        a = np.int64(cuda.blockIdx.x) * (BLOCK * UNITS) + np.int64(cuda.threadIdx.x)
        b, c, d = a + BLOCK, a + 2 * BLOCK, a + 3 * BLOCK
        to_a = place_of(plan, index, record, -1, claims, a, units)
        to_b = place_of(plan, index, record, -1, claims, b, units)
        to_c = place_of(plan, index, record, -1, claims, c, units)
        to_d = place_of(plan, index, record, -1, claims, d, units)
        value_a = load_at(packed, a, to_a)
        value_b = load_at(packed, b, to_b)
        value_c = load_at(packed, c, to_c)
        value_d = load_at(packed, d, to_d)
        put(data, to_a, value_a)
        put(data, to_b, value_b)
        put(data, to_c, value_c)
        put(data, to_d, value_d)
        if launch >= 0 and (to_a == NOWHERE or to_b == NOWHERE or to_c == NOWHERE or to_d == NOWHERE):
            for unit in range(a, min(units, d + 1), BLOCK):
                place_of_point(plan, index, record, launch, quotient(unit, plan, SLICE))

    return Kernel(scatter_units, 9)


@cache
def pair_kernel(index_type: str, loops: int, coords: int, outer: int) -> Kernel:
    """Return the kernel that makes a pair of every point: the number of its place, negated, and its own number."""
    place_of_point, _ = places(index_type, loops, coords, outer)

    @kernel
    def make_pairs(
        index,  # IN   address of the packed indices
        plan,  # IN   address of the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        flag,  # OUT  address of a word that becomes 0 if an index is bad
        points,  # IN   how many points there are
        nowhere,  # IN   the key of points that are dropped, behind all others
        pairs,  # OUT  address of (points,) pairs
    ):
        point = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if point < points:
            place = place_of_point(plan, index, record, launch, point)
            key = nowhere
            if place == NOWHERE:
                store_now(flag, 0)
            else:
                key = -number_of_place(plan, place)
            store_now(pairs + PAIR_BYTES * point, key)
            store_now(pairs + PAIR_BYTES * point + 8, point)

    return Kernel(make_pairs, 8)


@cache
def fold_kernel(data_type, reduction: str, width: int, counts: tuple[int, int, int]) -> Kernel:
    """Return the kernel that combines all updates of a place with what is there, in their order."""
    load, store = unit_access(min(width, 8))
    combine = combiner(data_type, reduction)
    _, place_in_slice = places("int64", *counts)
    two_words = width == 16

    @helper
    def load_element(address):
        first, second = load(address)
        if two_words:
            second, _ = load(address + 8)
        return first, second

    @kernel
    def fold_updates(
        data,  # IN OUT  address of the output's first element
        packed,  # IN      address of the packed updates
        plan,  # IN      address of the plan, for units of one element
        flag,  # IN      address of a word that is 0 if an index is bad
        all_or_none,  # IN      1: write nothing if an index is bad
        pairs,  # IN      address of (points,) sorted pairs
        points,
        nowhere,  # IN      the key of points that are dropped
    ):
        if all_or_none != 0 and load_now(flag) == 0:
            return
        elements = number(plan, SLICE)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        i = quotient(item, plan, SLICE)
        if i >= points:
            return
        key = load_now(pairs + PAIR_BYTES * i)
        if key == nowhere or (i > 0 and load_now(pairs + PAIR_BYTES * (i - 1)) == key):
            return  # the first point of a place does it for all
        j = item - i * elements
        place = data + number(plan, LOWEST) - key * number(plan, GRANULE) + place_in_slice(plan, j, width)
        first, second = load_element(place)
        while i < points and load_now(pairs + PAIR_BYTES * i) == key:
            point = load_now(pairs + PAIR_BYTES * i + 8)
            new, new_second = load_element(packed + (point * elements + j) * width)
            first, second = combine(first, second, new, new_second)
            i += 1
        store(place, first, 0)
        if two_words:
            store(place + 8, second, 0)

    return Kernel(fold_updates, 8)
