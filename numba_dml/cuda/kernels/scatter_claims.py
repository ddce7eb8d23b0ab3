"""Scatters whose points claim their places, so that the last update of each is written.

Of the arguments of kernels see `primitives.moves`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import LOAD_INDEX, load_i64, unit_access
from ..primitives.bad_indices import has_bad
from ..primitives.groups import GROUP, load_four, pack_four
from ..primitives.moves.claims import EMPTY, ENTRY_BYTES, claim_in_table, claimer, number_of_place
from ..primitives.moves.places import NOWHERE, UNITS, point_places, slice_places
from ..primitives.moves.sizes import SIZES
from ..primitives.plan import GRANULE, HEADER, LOWEST, SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs


@cache
def claim_kernel(index_type: str, counts: tuple[int, int, int], claim_bytes: int, tabled: bool) -> Kernel:
    """Return the kernel that looks at all indices, and claims the places that they lead to; see `claimer`."""
    place_of_point, _ = point_places(index_type, *counts[:2])
    claim = claim_in_table if tabled else claimer(claim_bytes)

    def claim_places(index, plan, record, launch, claims, last_entry, points, share):
        """The bits of the claims are set at first. `last_entry`: of a table of claims."""
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
            for point in range(a, end, BLOCK):
                place_of_point(plan, index, record, launch, point)

    return Kernel(claim_places, 8, plan=(1, numbers_in(*counts)))


@cache
def entry_kernel(width: int, counts: tuple[int, int, int]) -> Kernel:
    """Return the kernel that writes the updates in a table of claims, by units of `width` bytes; see `claim_in_table`.

    It reads the table in its order, and neither the indices again nor entries at random: 900k updates of 30M elements
    of 1 byte are written in 28 µs, and in 50 point by point.
    """
    load, store = unit_access(width)
    place_in_slice = slice_places(*counts)

    @helper
    def entry_of(claims, plan, item, items):
        """Return the entry of a unit of all entries' slices."""
        if item >= items:
            return np.int64(EMPTY)
        return load_i64(claims + ENTRY_BYTES * quotient(item, plan, SLICE))

    @helper
    def unit_in_slice(plan, item):
        return item - quotient(item, plan, SLICE) * number(plan, SLICE)

    @helper
    def load_update(packed, plan, bits, word, item):
        if word == EMPTY:
            return np.int64(0), np.int64(0)
        point = word & ((np.int64(1) << bits) - 1)
        return load(packed + (point * number(plan, SLICE) + unit_in_slice(plan, item)) * width)

    def write_entries(data, packed, plan, record, unless, claims, bits):
        """`claims`: the address of the table. `bits`: how many bits of an entry are a point."""
        await_inputs()
        if has_bad(record, unless):
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

    return Kernel(write_entries, 7, plan=(2, numbers_in(*counts)), registers=40)


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

    def merge_units(data, old, packed, plan, claims, count, share):
        """The output and `old` are packed, and each slice has a claim. `count`: units, or small elements."""
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


#: Points of a block, its threads, the entries of its table, and bits that say which places may be there: a place has
#: the entry, or the bit, that the first of 32 bits are.
OWN_POINTS, OWN_THREADS = SIZES.own_points, SIZES.own_threads
OWN_ENTRIES, KNOWN_WORDS = 4 * OWN_POINTS, 8 * OWN_POINTS
ENTRY_SHIFT, BIT_SHIFT = (33 - count.bit_length() for count in (OWN_ENTRIES, 32 * KNOWN_WORDS))


@helper
def spread_place(place):
    """Return 32 bits in which near places, and multiples, are far apart."""
    return ((place & 0xFFFFFFFF) * 0x45D9F3B) & 0xFFFFFFFF


@helper
def may_be_known(known, place):
    """Tell whether a place may be in a block's table."""
    bit = spread_place(place) >> BIT_SHIFT
    return (known[np.uint32(bit >> 5)] >> np.int32(bit & 31)) & 1 != 0


@helper
def next_entry(at):
    """Return the entry behind one, or the first."""
    return np.uint32((at + np.uint32(1)) & np.uint32(OWN_ENTRIES - 1))


@helper
def enter(taken, place):
    """Return the entry of a place in a table, which it may take."""
    at = np.uint32(spread_place(place) >> ENTRY_SHIFT)
    found = cuda.atomic.cas(taken, at, np.int64(NOWHERE), place)
    while found != NOWHERE and found != place:
        at = next_entry(at)
        found = cuda.atomic.cas(taken, at, np.int64(NOWHERE), place)
    return at


@helper
def find(taken, place):
    """Return the entry of a place in a table, or an empty one."""
    at = np.uint32(spread_place(place) >> ENTRY_SHIFT)
    while taken[at] != place and taken[at] != NOWHERE:
        at = next_entry(at)
    return at


class Own(NamedTuple):
    """What a block knows of its own points."""

    taken: object  #: The places in its table.
    lasts: object  #: The last point of each.
    entries: object  #: Where the table has the place of each own point, -1: it has none.
    begin: object  #: The first own point.
    end: object  #: The point after the last one.


@cache
def own_writer(width: int, counts: tuple[int, int, int]):
    """Return ``write_own(data, packed, plan, own)``: a block writes those of its points that are the last."""
    load, store = unit_access(width)
    place_in_slice = slice_places(*counts)

    @helper
    def write_own(data, packed, plan, own):
        to = cuda.local.array(UNITS, np.int64)
        values = cuda.local.array((UNITS, 2), np.int64)
        units = (own.end - own.begin) * number(plan, SLICE)
        packed += own.begin * number(plan, SLICE) * width
        for a in range(np.int64(cuda.threadIdx.x), units, UNITS * OWN_THREADS):
            for k in range(UNITS):
                unit = min(a + k * OWN_THREADS, units - 1)  # the last one may be written more than once
                point = quotient(unit, plan, SLICE)
                entry = own.entries[point]
                to[k] = NOWHERE
                if entry >= 0 and own.lasts[entry] == own.begin + point:
                    to[k] = own.taken[entry] + place_in_slice(plan, unit - point * number(plan, SLICE), width)
                    values[k, 0], values[k, 1] = load(packed + unit * width)
            for k in range(UNITS):
                if to[k] != NOWHERE:
                    store(data + to[k], values[k, 0], values[k, 1])

    return write_own


@cache
def few_points_kernel(width: int, index_type: str, counts: tuple[int, int, int]) -> Kernel:
    """Return the kernel that writes the last update of each place in one launch, by units of `width` bytes.

    A block enters the places of its own points into a table in shared memory. Then it looks at all points behind them:
    one whose place is in the table is later than the block's. At the end it writes those of its own that are the last.
    """
    place_of_point, place_if_inside = point_places(index_type, *counts[:2])
    write_own = own_writer(width, counts)

    @helper
    def look(plan, index, known, taken, lasts, begin, points):
        """Find the last points of the places in the table; tell this thread whether an index is bad."""
        found = cuda.local.array(UNITS, np.int64)
        bad = False
        for a in range(begin + np.int64(cuda.threadIdx.x), points, UNITS * OWN_THREADS):
            for k in range(UNITS):  # the last point may be looked at more than once
                found[k], is_bad = place_if_inside(plan, index, min(a + k * OWN_THREADS, points - 1))
                bad |= is_bad
            for k in range(UNITS):
                if may_be_known(known, found[k]):
                    point = min(a + k * OWN_THREADS, points - 1)
                    at = find(taken, place_of_point(plan, index, np.int64(0), -1, point))
                    if taken[at] != NOWHERE:
                        cuda.atomic.max(lasts, at, np.int32(point))
        return bad

    def write_few(data, index, packed, plan, record, launch, unless, points, share):
        """`unless`: this launch, if nothing is to be written when an index is bad, otherwise -1."""
        await_inputs()
        taken = cuda.shared.array(OWN_ENTRIES, np.int64)
        lasts = cuda.shared.array(OWN_ENTRIES, np.int32)
        known = cuda.shared.array(KNOWN_WORDS, np.int32)
        entries = cuda.shared.array(OWN_POINTS, np.int32)
        thread = np.int64(cuda.threadIdx.x)
        begin = np.int64(cuda.blockIdx.x) * share
        end = min(begin + share, points)
        for i in range(thread, OWN_ENTRIES, OWN_THREADS):
            taken[i], lasts[i] = NOWHERE, -1
        for i in range(thread, KNOWN_WORDS, OWN_THREADS):
            known[i] = 0
        cuda.syncthreads()
        for point in range(begin + thread, end, OWN_THREADS):
            place = place_of_point(plan, index, record, launch, point)
            entries[point - begin] = -1
            if place != NOWHERE:
                at, bit = enter(taken, place), spread_place(place) >> BIT_SHIFT
                cuda.atomic.or_(known, np.uint32(bit >> 5), np.int32(1) << np.int32(bit & 31))
                entries[point - begin] = at
                cuda.atomic.max(lasts, at, np.int32(point))
        cuda.syncthreads()
        bad = look(plan, index, known, taken, lasts, end if unless < 0 else np.int64(0), points)
        if cuda.syncthreads_or(1 if bad else 0) and unless >= 0:
            if cuda.blockIdx.x == 0:
                for point in range(thread, points, OWN_THREADS):
                    place_of_point(plan, index, record, launch, point)
            return
        write_own(data, packed, plan, Own(taken, lasts, entries, begin, end))

    return Kernel(write_few, 9, plan=(3, numbers_in(*counts)), waits=True, threads=OWN_THREADS, registers=64)
