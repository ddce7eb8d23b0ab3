"""The scatter of many single elements into an array that is larger than the L2 cache.

The updates are first sorted into bins, by the part of the output that they lead to, in no order within a bin. Then a
block takes each part, copies what was there, and finds the last update of each place in a table of claims in shared
memory: all random accesses are to parts that are in L2, or on the chip.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import load_i64, unit_access
from ..primitives.atomics import load_now, store_now
from ..primitives.groups import ASKED_BYTES, ask_for, fetch_and_add, shared_type
from ..primitives.moves.claims import number_of_place
from ..primitives.moves.places import places
from ..primitives.moves.sizes import SIZES
from ..primitives.moves.slices import NOWHERE
from ..primitives.plan import numbers_in
from ..primitives.ptx import await_inputs
from ..primitives.sums import add_up_threads

#: Places of a bin, as a power of two, and bins of a coarse one; see docs/measurements/cudamoves.md, "Bins".
BIN_BITS, FINE_BITS = SIZES.bin_bits, SIZES.fine_bits
BIN = 1 << BIN_BITS
COARSE_BITS = BIN_BITS + FINE_BITS
#: Updates that a thread has on its way at a time, and a block.
ITEMS = SIZES.bin_items
TILE = BLOCK * ITEMS
#: Bins, or coarse bins, that a block sorts a tile into: in shared memory, so that neighbours go to memory together.
SLOTS = BLOCK
#: Threads of a block that has the claims of a bin, and the registers of each.
BIN_THREADS, BIN_REGISTERS = SIZES.bin_threads, SIZES.bin_registers
#: In a bin with this many entries per place the updates that remain are looked up, instead of going through all: 64M
#: updates of 1000 places take 10.8 ms instead of 22.9.
CROWDED = 4
#: An update that is sorted: the number of its place and that of its point, 4 bytes each; its bits.
ENTRY_BYTES = 16


@cache
def count_kernel(index_type: str, loops: int, coords: int) -> Kernel:
    """Return the kernel that looks at all indices, and counts the points of every bin."""
    place_of_point, *_ = places(index_type, loops, coords, 0)
    number_type, where = shared_type("int32"), shared_type("int64")

    @kernel
    def count_bins(
        index,  # IN      address of the packed indices
        plan,  # IN      the plan
        record,  # OUT     where a bad index is recorded
        launch,  # IN      the number of this launch
        flag,  # OUT     address of a word that becomes 0 if an index is bad
        points,  # IN      how many points there are
        bins,  # IN      how many bins there are
        counts,  # IN OUT  address of (bins,) int64: the points of a bin
        share,  # IN      points of a block
    ):
        await_inputs()
        found = cuda.shared.array(0, number_type)
        thread = np.int64(cuda.threadIdx.x)
        for b in range(thread, bins, BLOCK):
            found[np.uint32(b)] = 0
        cuda.syncthreads()
        begin = np.int64(cuda.blockIdx.x) * share
        end = min(points, begin + share)
        bad = False
        some = cuda.local.array(ITEMS, where)
        for first in range(begin + thread, end, TILE):
            for k in range(ITEMS):
                some[k] = place_of_point(plan, index, record, -1, min(first + BLOCK * k, end - 1))
            for k in range(ITEMS):
                if first + BLOCK * k < end:
                    if some[k] == NOWHERE:
                        bad = True
                    else:
                        cuda.atomic.add(found, np.uint32(number_of_place(plan, some[k]) >> BIN_BITS), 1)
        cuda.syncthreads()
        for b in range(thread, bins, BLOCK):
            if found[np.uint32(b)] > 0:
                fetch_and_add(counts + 8 * b, np.int64(found[np.uint32(b)]))
        if bad:
            store_now(flag, 0)
            for point in range(begin + thread, end, BLOCK):
                place_of_point(plan, index, record, launch, point)

    return Kernel(count_bins, 9, plan=(1, numbers_in(loops, coords, 0)), waits=True, shares=True)


@helper
def place_in_slots(counts, sums, bases, own_base):
    """Turn the counts of a tile's slots into where each starts in the tile, given where it goes; return their sum."""
    thread = np.int64(cuda.threadIdx.x)
    own = counts[np.uint32(thread)]
    start = add_up_threads(sums, own) - own
    counts[np.uint32(thread)] = start
    bases[np.uint32(thread)] = own_base - start
    cuda.syncthreads()
    return np.int64(sums[BLOCK - 1])


@cache
def coarse_kernel(width: int, index_type: str, loops: int, coords: int) -> Kernel:
    """Return the kernel that puts every update into its coarse bin."""
    place_of_point, *_ = places(index_type, loops, coords, 0)
    load, _ = unit_access(width)
    _, store_entry = unit_access(ENTRY_BYTES)
    number_type, where = shared_type("int32"), shared_type("int64")

    @kernel
    def sort_coarsely(
        index,  # IN      address of the packed indices
        packed,  # IN      address of the packed updates
        plan,  # IN      the plan
        points,  # IN      how many points there are
        count,  # IN      how many coarse bins there are
        starts,  # IN      address of (bins,) int64: where the entries of a bin start
        sizes,  # IN OUT  address of (count,) int64: how many entries a coarse bin has so far
        entries,  # OUT     address of (points,) entries
    ):
        await_inputs()
        counts = cuda.shared.array(SLOTS, number_type)
        sums = cuda.shared.array(BLOCK, number_type)
        bases = cuda.shared.array(SLOTS, number_type)
        keys = cuda.shared.array(TILE, where)
        values = cuda.shared.array(TILE, where)
        some = cuda.local.array(ITEMS, where)
        news = cuda.local.array(ITEMS, where)
        ranks = cuda.local.array(ITEMS, number_type)
        thread = np.int64(cuda.threadIdx.x)
        counts[np.uint32(thread)] = 0
        first = np.int64(cuda.blockIdx.x) * TILE + thread
        for k in range(ITEMS):
            point = min(first + BLOCK * k, points - 1)
            some[k] = place_of_point(plan, index, 0, -1, point)
            news[k], _ = load(packed + point * width)
        cuda.syncthreads()
        for k in range(ITEMS):
            if first + BLOCK * k >= points:
                some[k] = NOWHERE
            if some[k] != NOWHERE:
                some[k] = number_of_place(plan, some[k])
                ranks[k] = cuda.atomic.add(counts, np.uint32(some[k] >> COARSE_BITS), 1)
        cuda.syncthreads()
        base = np.int64(0)
        size = np.int64(counts[np.uint32(thread)])
        if thread < count and size > 0:
            base = load_i64(starts + 8 * (thread << FINE_BITS)) + fetch_and_add(sizes + 8 * thread, size)
        total = place_in_slots(counts, sums, bases, base)
        for k in range(ITEMS):
            if some[k] != NOWHERE:
                at = np.int64(counts[np.uint32(some[k] >> COARSE_BITS)]) + np.int64(ranks[k])
                keys[np.uint32(at)] = some[k] | ((first + BLOCK * k) << 32)
                values[np.uint32(at)] = news[k]
        cuda.syncthreads()
        for i in range(thread, total, BLOCK):
            key = keys[np.uint32(i)]
            to = i + np.int64(bases[np.uint32((key & 0xFFFFFFFF) >> COARSE_BITS)])
            store_entry(entries + ENTRY_BYTES * to, key, values[np.uint32(i)])

    return Kernel(sort_coarsely, 8, plan=(2, numbers_in(loops, coords, 0)), waits=True)


@cache
def fine_kernel() -> Kernel:
    """Return the kernel that puts the entries of coarse bins into bins."""
    load_entry, store_entry = unit_access(ENTRY_BYTES)
    number_type, where = shared_type("int32"), shared_type("int64")

    @kernel
    def sort_finely(
        entries,  # IN      address of the entries, coarsely sorted
        total,  # IN      address of how many there are
        starts,  # IN OUT  address of (bins,) int64: where the next entry of a bin goes
        target,  # OUT     address of as many entries
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * TILE
        end = min(begin + TILE, load_i64(total))
        if begin >= end:
            return
        counts = cuda.shared.array(SLOTS, number_type)
        sums = cuda.shared.array(BLOCK, number_type)
        bases = cuda.shared.array(SLOTS, number_type)
        keys = cuda.shared.array(TILE, where)
        values = cuda.shared.array(TILE, where)
        some = cuda.local.array(ITEMS, where)
        news = cuda.local.array(ITEMS, where)
        ranks = cuda.local.array(ITEMS, number_type)
        thread = np.int64(cuda.threadIdx.x)
        counts[np.uint32(thread)] = 0
        lowest, _ = load_entry(entries + ENTRY_BYTES * begin)
        lowest = ((lowest & 0xFFFFFFFF) >> COARSE_BITS) << FINE_BITS
        for k in range(ITEMS):
            some[k], news[k] = load_entry(entries + ENTRY_BYTES * min(begin + thread + BLOCK * k, end - 1))
        cuda.syncthreads()
        for k in range(ITEMS):
            if begin + thread + BLOCK * k < end:
                slot = ((some[k] & 0xFFFFFFFF) >> BIN_BITS) - lowest
                if slot < SLOTS:
                    ranks[k] = cuda.atomic.add(counts, np.uint32(slot), 1)
                else:  # seldom: coarse bins so small that a tile has several of them
                    to = fetch_and_add(starts + 8 * (lowest + slot), np.int64(1))
                    store_entry(target + ENTRY_BYTES * to, some[k], news[k])
        cuda.syncthreads()
        base = np.int64(0)
        size = np.int64(counts[np.uint32(thread)])
        if size > 0:
            base = fetch_and_add(starts + 8 * (lowest + thread), size)
        sorted_here = place_in_slots(counts, sums, bases, base)
        for k in range(ITEMS):
            slot = ((some[k] & 0xFFFFFFFF) >> BIN_BITS) - lowest
            if begin + thread + BLOCK * k < end and slot < SLOTS:
                at = np.int64(counts[np.uint32(slot)]) + np.int64(ranks[k])
                keys[np.uint32(at)] = some[k]
                values[np.uint32(at)] = news[k]
        cuda.syncthreads()
        for i in range(thread, sorted_here, BLOCK):
            key = keys[np.uint32(i)]
            to = i + np.int64(bases[np.uint32(((key & 0xFFFFFFFF) >> BIN_BITS) - lowest)])
            store_entry(target + ENTRY_BYTES * to, key, values[np.uint32(i)])

    return Kernel(sort_finely, 4, waits=True)


@cache
def bin_steps(width: int, unique: bool):
    """Return ``claim_all(claims, entries, begin, end)`` and ``put_all(target, claims, entries, begin, end)``.

    All threads claim the places of a bin's entries, and write the updates whose claims have stayed.
    """
    _, store = unit_access(width)
    load_entry, _ = unit_access(ENTRY_BYTES)

    @helper
    def load_some(entries, i, end):
        """Return four entries; behind the end the last one again, which does no harm."""
        a = load_entry(entries + ENTRY_BYTES * i)
        b = load_entry(entries + ENTRY_BYTES * min(i + BIN_THREADS, end - 1))
        c = load_entry(entries + ENTRY_BYTES * min(i + 2 * BIN_THREADS, end - 1))
        d = load_entry(entries + ENTRY_BYTES * min(i + 3 * BIN_THREADS, end - 1))
        return a, b, c, d

    @helper
    def claim(claims, key):
        cuda.atomic.max(claims, np.uint32(key & (BIN - 1)), np.int32(key >> 32))

    @helper
    def put(target, claims, entry):
        place = entry[0] & (BIN - 1)
        if unique or np.int64(claims[np.uint32(place)]) == entry[0] >> 32:
            store(target + place * width, entry[1], 0)

    @helper
    def claim_all(claims, entries, begin, end):
        thread = np.int64(cuda.threadIdx.x)
        for i in range(thread, BIN, BIN_THREADS):
            claims[np.uint32(i)] = -1
        cuda.syncthreads()
        for i in range(begin + thread, end, 4 * BIN_THREADS):
            a, b, c, d = load_some(entries, i, end)
            claim(claims, a[0])
            claim(claims, b[0])
            claim(claims, c[0])
            claim(claims, d[0])

    @helper
    def put_all(target, claims, entries, begin, end):
        for i in range(begin + np.int64(cuda.threadIdx.x), end, 4 * BIN_THREADS):
            a, b, c, d = load_some(entries, i, end)
            put(target, claims, a)
            put(target, claims, b)
            put(target, claims, c)
            put(target, claims, d)

    return claim_all, put_all


@cache
def bin_copier(width: int):
    """Return ``copy_all(target, source, count)``: all threads copy a bin, by 16 bytes if they can."""
    load, store = unit_access(width)
    load_wide, store_wide = unit_access(16)

    @helper
    def copy_all(target, source, count):
        thread = np.int64(cuda.threadIdx.x)
        wide = (count * width) >> 4 if ((source | target) & 15) == 0 else np.int64(0)
        for i in range(thread, wide, 2 * BIN_THREADS):
            j = min(i + BIN_THREADS, wide - 1)
            a, b = load_wide(source + 16 * i)
            c, d = load_wide(source + 16 * j)
            store_wide(target + 16 * i, a, b)
            store_wide(target + 16 * j, c, d)
        for i in range(wide * (16 // width) + thread, count, BIN_THREADS):
            value, _ = load(source + i * width)
            store(target + i * width, value, 0)

    return copy_all


@cache
def apply_kernel(width: int, unique: bool) -> Kernel:
    """Return the kernel that writes the updates of a bin, each block those of one."""
    load, store = unit_access(width)
    claim_all, put_all = bin_steps(width, unique)
    copy_all = bin_copier(width)
    claim_type = shared_type("int32")

    def apply_bins(
        data,  # OUT  address of the packed output
        old,  # IN   address of what is there before, maybe the output itself
        size,  # IN   how many elements both have
        flag,  # IN   address of a word that is 0 if an index is bad
        all_or_none,  # IN   1: write nothing if an index is bad
        ends,  # IN   address of (bins,) int64: where the entries of a bin end
        entries,  # IN   address of the entries
        packed,  # IN   address of the packed updates
    ):
        await_inputs()
        if all_or_none != 0 and load_now(flag) == 0:
            return
        claims = cuda.shared.array(0, claim_type)
        thread = np.int64(cuda.threadIdx.x)
        block = np.int64(cuda.blockIdx.x)
        begin = load_i64(ends + 8 * (block - 1)) if block > 0 else np.int64(0)
        end = load_i64(ends + 8 * block)
        first = block * BIN
        count = min(BIN, size - first)
        if old != data:
            for i in range(ASKED_BYTES * thread, count * width, ASKED_BYTES * BIN_THREADS):
                ask_for(old + first * width + i)
        if not unique:
            claim_all(claims, entries, begin, end)
        target = data + first * width
        if old != data:
            copy_all(target, old + first * width, count)
        cuda.syncthreads()
        if not unique and end - begin > CROWDED * BIN:
            for i in range(thread, count, BIN_THREADS):
                point = np.int64(claims[np.uint32(i)])
                if point >= 0:
                    value, _ = load(packed + point * width)
                    store(target + i * width, value, 0)
            return
        put_all(target, claims, entries, begin, end)

    jitted = kernel(registers=BIN_REGISTERS)(apply_bins)
    return Kernel(jitted, 8, waits=True, shares=True, threads=BIN_THREADS)
