"""Scatters in two launches: all points claim their places, then the claims that stay are written."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import unit_access
from ..primitives.atomics import claim_access, load_now, store_now
from ..primitives.groups import GROUP, load_four, mover, store_four
from ..primitives.moves.claims import EMPTY, ENTRIES, ENTRY_BYTES, FLAG_BYTES, claiming, number_of_place
from ..primitives.moves.places import places
from ..primitives.moves.slices import NOWHERE, slice_mover, slices_of_warp
from ..primitives.plan import HEADER, SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs


@cache
def claim_kernel(index_type: str, loops: int, coords: int, outer: int, claim_bytes: int, tabled: bool) -> Kernel:
    """Return the kernel that looks at all indices, and claims the places that they lead to; see `claiming`.

    Blocks behind those copy: the memory is waited for once.
    """
    place_of_point, *_ = places(index_type, loops, coords, outer)
    claim, _ = claiming(claim_bytes, tabled)
    move = mover(1, BLOCK)

    @helper
    def look(plan, index, record, claims, last_entry, point, end):
        """Tell whether the index of a point is bad; claim the place of a good one."""
        if point < end:
            place = place_of_point(plan, index, record, -1, point)
            if place == NOWHERE:
                return True
            claim(claims, last_entry, number_of_place(plan, place), point)
        return False

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
        claimers,  # IN      how many blocks do
        to,  # OUT     address of a copy
        fro,  # IN      address of what is copied
        size,  # IN      how many bytes that is
        copied,  # IN      how many of them a block copies
    ):
        await_inputs()
        block = np.int64(cuda.blockIdx.x)
        if block >= claimers:
            begin = (block - claimers) * copied
            move(to + begin, fro + begin, min(copied, size - begin))
            return
        begin = block * share
        a = begin + np.int64(cuda.threadIdx.x)
        end = min(begin + share, points)
        bad = look(plan, index, record, claims, last_entry, a, end)
        bad |= look(plan, index, record, claims, last_entry, a + BLOCK, end)
        bad |= look(plan, index, record, claims, last_entry, a + 2 * BLOCK, end)
        bad |= look(plan, index, record, claims, last_entry, a + 3 * BLOCK, end)
        if bad:
            if claims != 0:
                store_now(claims, 0)
            for point in range(a, end, BLOCK):
                place_of_point(plan, index, record, launch, point)

    return Kernel(claim_places, 13, plan=(1, numbers_in(loops, coords, outer)))


@cache
def entry_kernel(width: int) -> Kernel:
    """Return the kernel that writes the updates in a table of claims, slices of one unit; see `claiming`.

    It reads the table in its order, and neither the indices again nor entries at random: 900k updates of 30M elements
    of 1 byte are written in 28 µs, and in 50 point by point.
    """
    load, store = unit_access(width)
    load_two, _ = unit_access(2 * ENTRY_BYTES)

    @helper
    def load_update(packed, last_entry, word):
        return load(packed + (word & last_entry) * width) if word != EMPTY else (np.int64(0), np.int64(0))

    @helper
    def put(start, granule, bits, word, value):
        if word != EMPTY:
            store(start + (word >> bits) * granule, value[0], value[1])

    @kernel
    def write_entries(
        data,  # OUT  address of the output's first element
        lowest,  # IN   where the lowest place is from there
        granule,  # IN   bytes from one place to the next
        packed,  # IN   address of the packed updates
        claims,  # IN   address of the flag and of the table
        bits,  # IN   how many bits of an entry are a point
        all_or_none,  # IN   1: write nothing if an index is bad
    ):
        await_inputs()
        if all_or_none != 0 and load_now(claims) == 0:
            return
        last_entry = (np.int64(1) << bits) - 1
        start = data + lowest
        i = ENTRIES * (np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x))
        if i <= last_entry:
            a, b = load_two(claims + FLAG_BYTES + ENTRY_BYTES * i)
            c, d = load_two(claims + FLAG_BYTES + ENTRY_BYTES * (i + 2))
            value_a, value_b = load_update(packed, last_entry, a), load_update(packed, last_entry, b)
            value_c, value_d = load_update(packed, last_entry, c), load_update(packed, last_entry, d)
            put(start, granule, bits, a, value_a)
            put(start, granule, bits, b, value_b)
            put(start, granule, bits, c, value_c)
            put(start, granule, bits, d, value_d)

    return Kernel(write_entries, 7)


@cache
def merge_kernel(width: int, claim_bytes: int) -> Kernel:
    """Return the kernel that writes a whole output: to each place the update that claims it, or what was there.

    Nothing is copied that an update replaces: 5M rows of 256 bytes into 10M take 1.36 ms, and 2.05 after a copy.
    """
    load, store = unit_access(width)
    _, load_claim = claim_access(claim_bytes)

    @helper
    def source_of(old, packed, plan, claims, unit):
        place = quotient(unit, plan, SLICE)
        point = load_claim(claims + FLAG_BYTES + claim_bytes * place)
        if point < 0:
            return old + unit * width
        return packed + (unit + (point - place) * number(plan, SLICE)) * width

    @kernel
    def merge_units(
        data,  # OUT  address of the output's first element
        old,  # IN   the same of what is there otherwise; packed, as the output is
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        claims,  # IN   address of the flag and of the claims, of which each slice of the output has one
        units,  # IN   how many units the output has
        share,  # IN   how many of them a block writes
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        last = min(begin + share, units) - 1
        if share == BLOCK:
            if a <= last:
                value = load(source_of(old, packed, plan, claims, a))
                store(data + a * width, value[0], value[1])
            return
        b, c, d = min(a + BLOCK, last), min(a + 2 * BLOCK, last), min(a + 3 * BLOCK, last)
        if a <= last:  # the last unit may be written more than once
            from_a = source_of(old, packed, plan, claims, a)
            from_b = source_of(old, packed, plan, claims, b)
            from_c = source_of(old, packed, plan, claims, c)
            from_d = source_of(old, packed, plan, claims, d)
            value_a, value_b, value_c, value_d = load(from_a), load(from_b), load(from_c), load(from_d)
            store(data + a * width, value_a[0], value_a[1])
            store(data + b * width, value_b[0], value_b[1])
            store(data + c * width, value_c[0], value_c[1])
            store(data + d * width, value_d[0], value_d[1])

    return Kernel(merge_units, 7, plan=(3, HEADER))


@cache
def merge_slices_kernel(width: int, claim_bytes: int) -> Kernel:
    """Return what `merge_kernel` is for slices of narrow units, by warps; see `slices`."""
    _, load_claim = claim_access(claim_bytes)
    move_slices = slice_mover(width, False)

    @kernel
    def merge_slices(
        data,  # OUT  address of the output's first element
        old,  # IN   the same of what is there otherwise; packed, as the output is
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        claims,  # IN   address of the flag and of the claims, of which each slice of the output has one
        slices,  # IN   how many slices the output has
        share,  # IN   how many of them a warp has
    ):
        await_inputs()
        first, count, lane = slices_of_warp(slices, share)
        if count <= 0:
            return
        bytes_of_slice = number(plan, SLICE) * width
        place = min(first + lane, slices - 1)
        point = load_claim(claims + FLAG_BYTES + claim_bytes * place)
        at = old + place * bytes_of_slice if point < 0 else packed + point * bytes_of_slice
        move_slices(data + first * bytes_of_slice, at, plan, count, lane)

    return Kernel(merge_slices, 7, plan=(3, HEADER), waits=True)


@cache
def merge_elements_kernel(width: int) -> Kernel:
    """Return the same for elements of 1, 2 or 4 bytes, and claims of 4: four neighbours are written at once."""
    load, store = unit_access(width)
    _, load_claim = claim_access(4)
    load_claims, load_elements, store_elements = load_four("int32"), load_four(f"uint{8 * width}"), store_four(width)

    @helper
    def choose(packed, claim, old):
        if claim < 0:
            return old
        value, _ = load(packed + claim * width)
        return value

    @helper
    def merge_four(target, packed, claims, old):
        store_elements(
            target,
            choose(packed, claims[0], old[0]),
            choose(packed, claims[1], old[1]),
            choose(packed, claims[2], old[2]),
            choose(packed, claims[3], old[3]),
        )

    @kernel
    def merge_elements(
        data,  # OUT  address of the output's first element, a multiple of what four take, or of 16
        old,  # IN   the same of what is there otherwise
        packed,  # IN   address of the packed updates
        claims,  # IN   address of the flag and of the claims, of which each element of the output has one
        count,  # IN   how many elements the output has
    ):
        await_inputs()
        thread = np.int64(cuda.threadIdx.x)
        first_claim = claims + FLAG_BYTES
        groups = count // GROUP
        a = np.int64(cuda.blockIdx.x) * 2 * BLOCK + thread
        b = min(a + BLOCK, groups - 1)
        if a < groups:
            claims_a = load_claims(first_claim + 4 * GROUP * a)
            claims_b = load_claims(first_claim + 4 * GROUP * b)
            old_a, old_b = load_elements(old + GROUP * width * a), load_elements(old + GROUP * width * b)
            merge_four(data + GROUP * width * a, packed, claims_a, old_a)
            merge_four(data + GROUP * width * b, packed, claims_b, old_b)
        i = GROUP * groups + a
        if i < count:  # the first threads have what is left over
            value, _ = load(old + i * width)
            store(data + i * width, choose(packed, load_claim(first_claim + 4 * i), value), 0)

    return Kernel(merge_elements, 5)
