"""Scatters in two launches: all points claim their places, then the claims that stay are written."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import LOAD_INDEX, load_i64, unit_access
from ..primitives.atomics import load_now, store_now
from ..primitives.groups import GROUP, load_four, pack_four
from ..primitives.moves.claims import EMPTY, ENTRY_BYTES, FLAG_BYTES, claimer, number_of_place, table_claimer
from ..primitives.moves.places import NOWHERE, UNITS, point_places, slice_places
from ..primitives.plan import GRANULE, HEADER, LOWEST, SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs


@cache
def claim_kernel(index_type: str, loops: int, coords: int, outer: int, claim_bytes: int, tabled: bool) -> Kernel:
    """Return the kernel that looks at all indices, and claims the places that they lead to; see `claimer`."""
    place_of_point, _ = point_places(index_type, loops, coords)
    claim = table_claimer() if tabled else claimer(claim_bytes)

    @kernel
    def claim_places(
        index,  # IN      address of the packed indices
        plan,  # IN      the plan
        record,  # OUT     where a bad index is recorded
        launch,  # IN      the number of this launch
        claims,  # IN OUT  address of the flag, whose bits are set, and of the claims; 0: there are none
        last_entry,  # IN      the last entry of a table
        points,  # IN      how many points there are
        share,  # IN      how many points a block handles
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        end = min(begin + share, points)
        found = cuda.local.array(UNITS, np.int64)
        bad = False
        for k in range(UNITS):
            found[k] = place_of_point(plan, index, record, -1, min(a + k * BLOCK, end - 1))
        for k in range(UNITS):
            if a + k * BLOCK < end:
                bad |= found[k] == NOWHERE
                if found[k] != NOWHERE:
                    claim(claims, last_entry, number_of_place(plan, found[k]), a + k * BLOCK)
        if bad:
            if claims != 0:
                store_now(claims, 0)
            for point in range(a, end, BLOCK):
                place_of_point(plan, index, record, launch, point)

    return Kernel(claim_places, 8, plan=(1, numbers_in(loops, coords, outer)))


@cache
def entry_kernel(width: int, loops: int, coords: int, outer: int) -> Kernel:
    """Return the kernel that writes the updates in a table of claims, by units of `width` bytes; see `table_claimer`.

    It reads the table in its order, and neither the indices again nor entries at random: 900k updates of 30M elements
    of 1 byte are written in 28 µs, and in 50 point by point.
    """
    load, store = unit_access(width)
    place_in_slice = slice_places(loops, coords, outer)

    @helper
    def entry_of(claims, plan, item, items):
        """Return the entry of a unit of all entries' slices."""
        if item >= items:
            return np.int64(EMPTY)
        return load_i64(claims + FLAG_BYTES + ENTRY_BYTES * quotient(item, plan, SLICE))

    @helper
    def unit_in_slice(plan, item):
        return item - quotient(item, plan, SLICE) * number(plan, SLICE)

    @helper
    def load_update(packed, plan, bits, word, item):
        if word == EMPTY:
            return np.int64(0), np.int64(0)
        point = word & ((np.int64(1) << bits) - 1)
        return load(packed + (point * number(plan, SLICE) + unit_in_slice(plan, item)) * width)

    @kernel(registers=40)
    def write_entries(
        data,  # OUT  address of the output's first element
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        claims,  # IN   address of the flag and of the table
        bits,  # IN   how many bits of an entry are a point
        all_or_none,  # IN   1: write nothing if an index is bad
    ):
        await_inputs()
        if all_or_none != 0 and load_now(claims) == 0:
            return
        items = number(plan, SLICE) << bits
        a = np.int64(cuda.blockIdx.x) * UNITS * BLOCK + np.int64(cuda.threadIdx.x)
        words = cuda.local.array(UNITS, np.int64)
        values = cuda.local.array((UNITS, 2), np.int64)
        for k in range(UNITS):
            words[k] = entry_of(claims, plan, a + k * BLOCK, items)
        for k in range(UNITS):
            values[k, 0], values[k, 1] = load_update(packed, plan, bits, words[k], a + k * BLOCK)
        for k in range(UNITS):
            if words[k] != EMPTY:
                place = number(plan, LOWEST) + (words[k] >> bits) * number(plan, GRANULE)
                place += place_in_slice(plan, unit_in_slice(plan, a + k * BLOCK), width)
                store(data + place, values[k, 0], values[k, 1])

    return Kernel(write_entries, 6, plan=(2, numbers_in(loops, coords, outer)))


@cache
def merge_kernel(width: int, claim_bytes: int, group: int) -> Kernel:
    """Return the kernel that writes a whole output: to each place the update that claims it, or what was there.

    A thread writes four units. A group of `GROUP` places with small elements can be one unit; else it is of one slice.
    Nothing is copied that an update replaces: 5M rows of 256 bytes into 10M take 1.36 ms, and 2.05 after a copy.
    """
    load, store_one = unit_access(width)
    _, store = unit_access(group * width)
    load_claim = LOAD_INDEX[f"int{8 * claim_bytes}"]
    is_group, narrow = group > 1, min(width, 4)
    load_claims, load_elements, pack = load_four("int32"), load_four(f"uint{8 * narrow}"), pack_four(narrow)

    @helper
    def choose(packed, claim, old):
        if claim < 0:
            return old
        value, _ = load(packed + claim * width)
        return value

    @helper
    def value_of(old, packed, plan, claims, unit):
        if is_group:
            some, olds = load_claims(claims + 4 * GROUP * unit), load_elements(old + GROUP * width * unit)
            return pack(
                choose(packed, some[0], olds[0]),
                choose(packed, some[1], olds[1]),
                choose(packed, some[2], olds[2]),
                choose(packed, some[3], olds[3]),
            )
        place = quotient(unit, plan, SLICE)
        point = load_claim(claims + claim_bytes * place)
        update = packed + (unit + (point - place) * number(plan, SLICE)) * width
        return load(old + unit * width if point < 0 else update)

    @kernel
    def merge_units(
        data,  # OUT  address of the output's first element
        old,  # IN   the same of what is there otherwise; packed, as the output is
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        claims,  # IN   address of the claims, of which each slice of the output has one
        count,  # IN   how many units the output has, or small elements
        share,  # IN   how many units a block writes
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        last = min(begin + share, count // group) - 1
        values = cuda.local.array((UNITS, 2), np.int64)
        if a <= last:  # the last unit may be written more than once
            for k in range(UNITS):
                unit = min(a + k * BLOCK, last)
                values[k, 0], values[k, 1] = value_of(old, packed, plan, claims, unit)
            for k in range(UNITS):
                store(data + min(a + k * BLOCK, last) * group * width, values[k, 0], values[k, 1])
        if is_group:
            i = count // group * group + a
            if i < count:  # the first threads have what is left over
                value, _ = load(old + i * width)
                store_one(data + i * width, choose(packed, load_claim(claims + claim_bytes * i), value), 0)

    return Kernel(merge_units, 7, plan=(3, HEADER))
