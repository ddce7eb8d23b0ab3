"""The scatter of many single elements into an array that is larger than the L2 cache.

The updates are first sorted into bins, by the part of the output that they lead to, in no order within a bin. Then a
block takes each part, copies what was there, and finds the last update of each place in a table of claims in shared
memory: all random accesses are to parts that are in L2, or on the chip.

Of the arguments of kernels see `primitives.moves`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.intrinsics import shared_type
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import load_i64, unit_access
from ..primitives.atomics import fetch_and_add, load_now, store_now
from ..primitives.bad_indices import has_bad
from ..primitives.groups import asker, mover
from ..primitives.moves.claims import number_of_place
from ..primitives.moves.places import NOWHERE, point_places
from ..primitives.moves.sizes import SIZES
from ..primitives.plan import numbers_in
from ..primitives.ptx import await_inputs
from ..primitives.sums import add_up_threads

#: Places of a bin, as a power of two, and bins of a coarse one; see docs/measurements/cudamoves.md, "Bins".
BIN_BITS, FINE_BITS = SIZES.bin_bits, SIZES.fine_bits
BIN = 1 << BIN_BITS
COARSE_BITS = BIN_BITS + FINE_BITS
ITEMS = SIZES.bin_items
#: Updates of a block.
TILE = BLOCK * ITEMS
#: Bins, or coarse bins, that a block sorts a tile into: in shared memory, so that neighbours go to memory together.
SLOTS = BLOCK
BIN_THREADS, BIN_REGISTERS = SIZES.bin_threads, SIZES.bin_registers
#: An update that is sorted: the number of its place and that of its point, 4 bytes each; its bits.
ENTRY_BYTES = 16


@cache
def count_kernel(index_type: str, counts: tuple[int, int, int]) -> Kernel:
    """Return the kernel that looks at all indices, and counts the points of every bin."""
    place_of_point, _ = point_places(index_type, *counts[:2])
    number_type = shared_type("int32")

    def count_bins(index, plan, record, launch, points, bins, counts, share):
        """`counts`: the address of (bins,) int64, to which the points of the bins are added."""
        await_inputs()
        found = cuda.shared.array(0, number_type)
        thread = np.int64(cuda.threadIdx.x)
        for b in range(thread, bins, BLOCK):
            found[np.uint32(b)] = 0
        cuda.syncthreads()
        begin = np.int64(cuda.blockIdx.x) * share
        end = min(points, begin + share)
        bad = False
        some = cuda.local.array(ITEMS, np.int64)
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
            for point in range(begin + thread, end, BLOCK):
                place_of_point(plan, index, record, launch, point)

    return Kernel(count_bins, 8, plan=(1, numbers_in(*counts)), waits=True, shares=True)


class Tile(NamedTuple):
    """The updates that a block sorts, in shared memory."""

    counts: object  #: (SLOTS,) int32: updates of a slot, then where they start in the tile
    sums: object  #: (BLOCK,) int32: the updates of a slot and of those before it
    bases: object  #: (SLOTS,) int32: how much further on they go in memory
    keys: object  #: (TILE,) int64: the sorted updates' places and points
    values: object  #: (TILE,) int64: and their elements


@helper
def empty_tile():
    """Return a tile of which this thread's slot has no updates yet."""
    counts = cuda.shared.array(SLOTS, np.int32)
    sums = cuda.shared.array(BLOCK, np.int32)
    bases = cuda.shared.array(SLOTS, np.int32)
    keys = cuda.shared.array(TILE, np.int64)
    values = cuda.shared.array(TILE, np.int64)
    counts[np.uint32(cuda.threadIdx.x)] = 0
    return Tile(counts, sums, bases, keys, values)


@cache
def tile_steps(shift: int):
    """Return ``slot_of(key, lowest)``, ``count_tile(t, some, ranks, lowest)`` and
    ``put_tile(t, some, news, ranks, lowest, base, target)``.

    A slot is for the places that are alike but for the last `shift` bits, from the slot `lowest` on. All threads count
    a tile's updates by their slots; then they bring them to memory, so that those of a slot lie side by side. The first
    one of a thread's own slot goes to `base`. A thread has some places and points (`NOWHERE`: none), the new elements,
    and which one of its slot each is.
    """
    _, store_entry = unit_access(ENTRY_BYTES)

    @helper
    def slot_of(key, lowest):
        return ((key & 0xFFFFFFFF) >> shift) - lowest

    @helper
    def count_tile(t, some, ranks, lowest):
        for k in range(ITEMS):
            if some[k] != NOWHERE:
                ranks[k] = cuda.atomic.add(t.counts, np.uint32(slot_of(some[k], lowest)), 1)
        cuda.syncthreads()

    @helper
    def put_tile(t, some, news, ranks, lowest, base, target):
        thread = np.int64(cuda.threadIdx.x)
        own = t.counts[np.uint32(thread)]
        start = add_up_threads(t.sums, own) - own
        t.counts[np.uint32(thread)] = start
        t.bases[np.uint32(thread)] = base - start
        cuda.syncthreads()
        for k in range(ITEMS):
            if some[k] != NOWHERE:
                at = np.int64(t.counts[np.uint32(slot_of(some[k], lowest))]) + np.int64(ranks[k])
                t.keys[np.uint32(at)] = some[k]
                t.values[np.uint32(at)] = news[k]
        cuda.syncthreads()
        for i in range(thread, np.int64(t.sums[BLOCK - 1]), BLOCK):
            key = t.keys[np.uint32(i)]
            to = i + np.int64(t.bases[np.uint32(slot_of(key, lowest))])
            store_entry(target + ENTRY_BYTES * to, key, t.values[np.uint32(i)])

    return slot_of, count_tile, put_tile


@cache
def start_kernel() -> Kernel:
    """Return the kernel of one block that turns counts into the sums of those before."""

    def add_up_counts(counts, size):
        """`counts`: the address of (size,) int64."""
        await_inputs()
        sums = cuda.shared.array(BLOCK, np.int64)
        thread = np.int64(cuda.threadIdx.x)
        before = np.int64(0)
        for first in range(0, size, BLOCK):
            i = first + thread
            own = load_now(counts + 8 * i) if i < size else np.int64(0)
            until = before + add_up_threads(sums, own)
            before += sums[BLOCK - 1]
            if i < size:
                store_now(counts + 8 * i, until - own)
            cuda.syncthreads()

    return Kernel(add_up_counts, 2, waits=True)


@cache
def coarse_kernel(width: int, index_type: str, counts: tuple[int, int, int]) -> Kernel:
    """Return the kernel that puts every update into its coarse bin."""
    place_of_point, _ = point_places(index_type, *counts[:2])
    load, _ = unit_access(width)
    _, count_tile, put_tile = tile_steps(COARSE_BITS)

    def sort_coarsely(index, packed, plan, points, count, starts, sizes, entries):
        """`starts`: the address of (bins,) int64, where the entries of a bin start.

        `sizes`: that of (count,) int64, how many entries each of the coarse bins has so far.
        """
        await_inputs()
        t = empty_tile()
        some = cuda.local.array(ITEMS, np.int64)
        news = cuda.local.array(ITEMS, np.int64)
        ranks = cuda.local.array(ITEMS, np.int32)
        thread = np.int64(cuda.threadIdx.x)
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
                some[k] = number_of_place(plan, some[k]) | ((first + BLOCK * k) << 32)
        count_tile(t, some, ranks, 0)
        base = np.int64(0)
        size = np.int64(t.counts[np.uint32(thread)])
        if thread < count and size > 0:
            base = load_i64(starts + 8 * (thread << FINE_BITS)) + fetch_and_add(sizes + 8 * thread, size)
        put_tile(t, some, news, ranks, 0, base, entries)

    return Kernel(sort_coarsely, 8, plan=(2, numbers_in(*counts)), waits=True)


@cache
def fine_kernel() -> Kernel:
    """Return the kernel that puts the entries of coarse bins into bins."""
    load_entry, store_entry = unit_access(ENTRY_BYTES)
    slot_of, count_tile, put_tile = tile_steps(BIN_BITS)

    def sort_finely(entries, total, starts, target):
        """`total`: the address of how many entries there are; `starts`: of where the next one of a bin goes."""
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * TILE
        end = min(begin + TILE, load_i64(total))
        if begin >= end:
            return
        t = empty_tile()
        some = cuda.local.array(ITEMS, np.int64)
        news = cuda.local.array(ITEMS, np.int64)
        ranks = cuda.local.array(ITEMS, np.int32)
        thread = np.int64(cuda.threadIdx.x)
        lowest, _ = load_entry(entries + ENTRY_BYTES * begin)
        lowest = ((lowest & 0xFFFFFFFF) >> COARSE_BITS) << FINE_BITS
        for k in range(ITEMS):
            some[k], news[k] = load_entry(entries + ENTRY_BYTES * min(begin + thread + BLOCK * k, end - 1))
        cuda.syncthreads()
        for k in range(ITEMS):
            slot = slot_of(some[k], lowest)
            if begin + thread + BLOCK * k >= end:
                some[k] = NOWHERE
            elif slot >= SLOTS:  # seldom: coarse bins so small that a tile has several of them
                to = fetch_and_add(starts + 8 * (lowest + slot), np.int64(1))
                store_entry(target + ENTRY_BYTES * to, some[k], news[k])
                some[k] = NOWHERE
        count_tile(t, some, ranks, lowest)
        base = np.int64(0)
        size = np.int64(t.counts[np.uint32(thread)])
        if size > 0:
            base = fetch_and_add(starts + 8 * (lowest + thread), size)
        put_tile(t, some, news, ranks, lowest, base, target)

    return Kernel(sort_finely, 4, waits=True)


@cache
def bin_steps(width: int, unique: bool):
    """Return ``claim_all(claims, entries, begin, end)`` and ``put_all(target, claims, entries, begin, end)``.

    All threads claim the places of a bin's entries, and write the updates whose claims have stayed.
    """
    _, store = unit_access(width)
    load_entry, _ = unit_access(ENTRY_BYTES)

    @helper
    def load_some(some, entries, i, end):
        """Load four entries; behind the end the last one again, which does no harm."""
        for k in range(4):
            some[k, 0], some[k, 1] = load_entry(entries + ENTRY_BYTES * min(i + k * BIN_THREADS, end - 1))

    @helper
    def claim_all(claims, entries, begin, end):
        thread = np.int64(cuda.threadIdx.x)
        some = cuda.local.array((4, 2), np.int64)
        for i in range(thread, BIN, BIN_THREADS):
            claims[np.uint32(i)] = -1
        cuda.syncthreads()
        for i in range(begin + thread, end, 4 * BIN_THREADS):
            load_some(some, entries, i, end)
            for k in range(4):
                cuda.atomic.max(claims, np.uint32(some[k, 0] & (BIN - 1)), np.int32(some[k, 0] >> 32))

    @helper
    def put_all(target, claims, entries, begin, end):
        some = cuda.local.array((4, 2), np.int64)
        for i in range(begin + np.int64(cuda.threadIdx.x), end, 4 * BIN_THREADS):
            load_some(some, entries, i, end)
            for k in range(4):
                place = some[k, 0] & (BIN - 1)
                if unique or np.int64(claims[np.uint32(place)]) == some[k, 0] >> 32:
                    store(target + place * width, some[k, 1], 0)

    return claim_all, put_all


@cache
def apply_kernel(width: int, unique: bool) -> Kernel:
    """Return the kernel that writes the updates of a bin, each block those of one."""
    claim_all, put_all = bin_steps(width, unique)
    copy_all, ask_for_all = mover(width, BIN_THREADS), asker(BIN_THREADS)
    number_type = shared_type("int32")

    def apply_bins(data, old, size, record, unless, ends, entries):
        """`size`: elements of the output. `ends`: the address of (bins,) int64, where the entries of a bin end."""
        await_inputs()
        if has_bad(record, unless):
            return
        claims = cuda.shared.array(0, number_type)
        block = np.int64(cuda.blockIdx.x)
        begin = load_i64(ends + 8 * (block - 1)) if block > 0 else np.int64(0)
        end = load_i64(ends + 8 * block)
        first = block * BIN
        count = min(BIN, size - first)
        if old != data:
            ask_for_all(old + first * width, count * width)
        if not unique:
            claim_all(claims, entries, begin, end)
        target = data + first * width
        if old != data:
            copy_all(target, old + first * width, count)
        cuda.syncthreads()
        put_all(target, claims, entries, begin, end)

    return Kernel(apply_bins, 7, waits=True, shares=True, threads=BIN_THREADS, registers=BIN_REGISTERS)
