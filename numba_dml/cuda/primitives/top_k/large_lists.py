"""How all blocks find the border of a large k, and list what reaches it.

The elements of a range of keys are counted by digit, and the last block narrows the range to the border's digit. Then
each block lists the elements of its tiles that reach the border, in their order: the order of threads is that of
positions.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import BLOCK, LANES, WARPS, cuda
from ..access import load_i64
from ..atomics import add_now, load_now, store_now
from ..bits import DIGIT_ABOVE, REVERSED_KEY, bits_between, count_bits, raise_key
from ..pairs import DIGIT as SORT_DIGIT
from ..pairs import DIGITS as SORT_DIGITS
from ..pairs import pair_access, passes_of
from ..plan import number
from ..sort_tiles import pairs_of_tile
from ..sums import add_up_lanes, add_up_threads
from ..warp import lane_long_word
from .keys import bar_tester, key_type
from .large_tiles import ABOVE, BITS, BORDER, DIGIT, DIGITS, FOUND, HIGH, LOW, RANK, TIES, sizes_of, tile_access
from .plan import LIST_ROOM, TABLE_AT, TALLIES_AT, UPPER_AT, K

#: Bits that hold the count of a quad's elements in a warp, and of a tile's.
FIELD = 16
#: The last one is for what lies outside of a range: to count it there is faster than not to.
COUNTERS = DIGITS + 1
#: Digits of a thread.
SHARE = DIGITS // BLOCK


@cache
def range_counter(width: int, infinity: int, is_long: bool):
    """Return the steps of a block that counts: its range, its tiles' digits, and their sums."""
    tiles, key = tile_access(width, infinity, is_long), key_type(width)
    part_of, fetch, quads, place = tiles.part_of, tiles.fetch, tiles.quads, tiles.place
    digit_above = DIGIT_ABOVE[8 * key(0).itemsize]
    unsigned = np.uint32 if width <= 4 else np.uint64
    lowest, highest, whole = -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1, 8 * width
    items, tile_quads = quads * tiles.of_quad, quads * BLOCK

    @helper
    def range_of(plan, memory, border, line, first):
        """Return the lowest key of the range, and its bits; -1: it is narrow enough."""
        low, bits = np.int64(lowest), np.int64(whole)
        if first == 0:
            low, bits = load_now(border + 8 * LOW), load_now(border + 8 * BITS)
        elif number(plan, UPPER_AT) != 0:  # what is worse than all groups in the list does not matter
            upper = memory + number(plan, UPPER_AT)
            least = max(load_i64(upper + 8 * (line * BORDER + LOW)), low)
            bits = max(bits_between(least, min(load_i64(upper + 8 * (line * BORDER + HIGH)), highest)), np.int64(1))
            if bits < whole:  # a range does not go beyond the highest key: it would go on with the lowest
                low = min(least, highest - ((np.int64(1) << bits) - 1))
        return low, bits

    @helper
    def count_tiles(own, source, plan, part, parts, low, bits):
        """Count the digits of a part's elements; what lies outside of the range is counted, and forgotten."""
        keys = cuda.local.array(items, key)
        firsts = cuda.local.array(quads, place)
        fine = max(bits - DIGIT, np.int64(0))
        span = unsigned(1 << min(bits, np.int64(DIGIT)))
        tile, end, quad = part_of(source, part, parts)
        while tile < end:
            exist = fetch(keys, firsts, source, plan, quad)
            for n in range(items):
                cuda.atomic.add(own, np.uint32(min(unsigned(digit_above(keys[n], low, fine)), span)), 1)
            missing = items - count_bits(exist)
            if missing > 0:
                cuda.atomic.add(own, np.uint32(min(unsigned(digit_above(lowest, low, fine)), span)), -missing)
            quad = place(quad + tile_quads)
            tile += 1
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            own[np.uint32(span)] = 0
        cuda.syncthreads()

    @helper
    def add_up_digits(own, sums):
        """Turn the counts of digits into those of a digit and all higher ones."""
        thread = np.int64(cuda.threadIdx.x)
        total = np.int64(0)
        for i in range(SHARE):
            total += own[DIGITS - 1 - (thread * SHARE + i)]
        total = add_up_threads(sums, total) - total
        for i in range(SHARE):
            total += own[DIGITS - 1 - (thread * SHARE + i)]
            own[DIGITS - 1 - (thread * SHARE + i)] = total
        cuda.syncthreads()

    return range_of, count_tiles, add_up_digits


@helper
def note_tally(border, table, tally_at, first):
    """Add to what a part has beyond the range what it has beyond the border's digit in the range before."""
    tally = np.int64(0)
    if first == 0:
        rank = load_now(border + 8 * RANK)
        tally = load_now(tally_at)
        if rank > 0:
            tally += load_now(table + 8 * (rank - 1))
    store_now(tally_at, tally)


@helper
def hand_in(own, counts, table, parts):
    """Add a part's counts to those of its line, and note them in the table, by rank."""
    for i in range(np.int64(cuda.threadIdx.x), DIGITS, BLOCK):
        until, before = own[DIGITS - 1 - i], own[DIGITS - i]
        if parts > 1:
            store_now(table + 8 * i, until)
        if until != before:
            add_now(counts + 8 * i, until - before)


@helper
def find_border(border, counts, plan, low, bits, first, sums):
    """Narrow the range to the digit of the border; the counts become zeros again."""
    thread = np.int64(cuda.threadIdx.x)
    beyond, most = np.int64(0) if first else load_now(border + 8 * ABOVE), number(plan, LIST_ROOM)
    fine = max(bits - DIGIT, np.int64(0))
    wanted = number(plan, K) - beyond
    total = np.int64(0)
    some = cuda.local.array(SHARE, np.int64)
    for i in range(SHARE):
        some[i] = load_now(counts + 8 * (thread * SHARE + i))
        store_now(counts + 8 * (thread * SHARE + i), 0)
        total += some[i]
    until = add_up_threads(sums, total)
    above = until - total
    for i in range(SHARE):
        rank = thread * SHARE + i
        inside = some[i]
        at = raise_key(low, DIGITS - 1 - rank, fine)
        if first and above == 0 and inside > 0:
            store_now(border + 8 * HIGH, raise_key(at, (1 << fine) - 1, 0))
        if above < wanted <= above + inside:
            found = beyond + above + inside
            ties = found > most and fine == 0
            store_now(border + 8 * LOW, at)
            store_now(border + 8 * BITS, -1 if fine == 0 or found <= most else fine)
            store_now(border + 8 * ABOVE, beyond + above)
            store_now(border + 8 * TIES, 1 if ties else 0)
            store_now(border + 8 * FOUND, number(plan, K) if ties else found)
            store_now(border + 8 * RANK, rank)
        above += inside


@helper
def counts_before(counts, warp):
    """Return the sum of the counts of the warps before one, and that of all."""
    total = begin = np.int32(0)
    for other in range(WARPS):
        if other == warp:
            begin = total
        total = np.int32(total + counts[other])
    return begin, total


@cache
def tile_ranks(width: int):
    """Return ``rank_quads(bits, ranks, counts)`` and ``first_bits(bits, left, ranks, counts)``.

    The first lists how many of a tile's bits are set before each quad of this thread, and returns how many are in all.
    The second returns the bits that are among the first of a tile's, and how many it has.
    """
    quads, of_quad = sizes_of(width)
    quad_mask = (1 << of_quad) - 1

    @helper
    def rank_quads(bits, ranks, counts):
        thread = np.int32(cuda.threadIdx.x)
        lane, warp = np.int32(thread % LANES), np.int32(thread // LANES)
        own = np.int64(0)  # the counts of this thread's quads, a field each
        for j in range(quads):
            own |= np.int64(count_bits(bits >> (of_quad * j) & quad_mask)) << (FIELD * j)
        until = add_up_lanes(own)
        of_warp = lane_long_word(until, LANES - 1)
        until -= own
        begin = np.int32(0)
        for j in range(quads):
            ranks[j] = np.int32(begin + np.int32(until >> (FIELD * j) & ((1 << FIELD) - 1)))
            begin = np.int32(begin + np.int32(of_warp >> (FIELD * j) & ((1 << FIELD) - 1)))
        if lane == 0:
            counts[warp] = begin
        cuda.syncthreads()
        begin, total = counts_before(counts, warp)
        for j in range(quads):
            ranks[j] = np.int32(ranks[j] + begin)
        return total

    @helper
    def first_bits(bits, left, ranks, counts):
        total = rank_quads(bits, ranks, counts)
        few = np.int32(0)
        for j in range(quads):
            rank = np.int64(ranks[j])
            for n in range(of_quad * j, of_quad * (j + 1)):
                if bits >> n & 1 != 0:
                    if rank < left:
                        few = np.int32(few | (1 << n))
                    rank += 1
        return few, total

    return rank_quads, first_bits


class Target(NamedTuple):
    """Which elements of a part are listed, and where."""

    low: object  #: the lowest key
    ties: object  #: not 0: of those with this key only the first are listed
    left: object  #: how many of these, from this part on
    found: object  #: how many elements the line lists
    to: object  #: where the part's list begins


@helper
def targets_by_border(plan, memory, border, line, part, parts, sums):
    """Return the target of a part."""
    low, ties = load_i64(border + 8 * LOW), load_i64(border + 8 * TIES)
    found, rank = load_i64(border + 8 * FOUND), load_i64(border + 8 * RANK)
    table = memory + number(plan, TABLE_AT) + 8 * (line * parts * DIGITS + rank)
    tallies = memory + number(plan, TALLIES_AT)
    beyond = at = np.int64(0)  # what the parts before have beyond the border, and at it
    for other in range(np.int64(cuda.threadIdx.x), part, BLOCK):
        until = load_i64(table + 8 * other * DIGITS)
        above = load_i64(table + 8 * other * DIGITS - 8) if rank > 0 else np.int64(0)
        beyond += load_i64(tallies + 8 * (line * parts + other)) + above
        at += until - above
    add_up_threads(sums, beyond)
    to = sums[BLOCK - 1]
    cuda.syncthreads()
    add_up_threads(sums, at)
    at = sums[BLOCK - 1]
    left = found - load_i64(border + 8 * ABOVE) - at
    to += at + min(left, np.int64(0)) if ties != 0 else at
    return Target(low, ties, left, found, to)


class Shared(NamedTuple):
    """The shared memory of a block that lists."""

    keys: object  #: of a tile's chosen elements
    positions: object
    counts: object  #: of each warp's elements of a tile: two sets in turn, and one for those at the border
    digits: object  #: counts for a sort


class Pairs(NamedTuple):
    """Where listed elements go, as pairs."""

    address: object
    is_sorted: object  #: whether the digits of their keys are counted, because a sort comes next


@cache
def pair_storer(width: int, is_long: bool):
    """Return ``store_pairs(shared, count, to, pairs)``: it stores the elements in shared memory, from one place on."""
    _, pair_bytes, _, store_pair, digit_of = pair_access(is_long)
    passes = passes_of(8 * width)

    @helper
    def store_pairs(shared, count, to, pairs):
        i = np.int32(cuda.threadIdx.x)
        while i < count:
            new = shared.keys[np.uint32(i)]
            store_pair(pairs.address + pair_bytes * (to + np.int64(i)), new, shared.positions[np.uint32(i)])
            if pairs.is_sorted:
                for digit in range(passes):
                    cuda.atomic.add(shared.digits, digit * SORT_DIGITS + digit_of(new, SORT_DIGIT * digit), 1)
            i = np.int32(i + BLOCK)

    return store_pairs


@cache
def _order_step(width: int, is_long: bool):
    """Return ``put_in_order(shared, keys, firsts, ranks, chosen, begin, low)``.

    It puts the chosen elements into shared memory, in their order, from one rank on.
    """
    quads, of_quad = sizes_of(width)
    reversed_key = REVERSED_KEY[64 if is_long else 32]
    items, room = quads * of_quad, pairs_of_tile(is_long)
    fits = items * BLOCK <= room

    @helper
    def put_in_order(shared, keys, firsts, ranks, chosen, begin, low):
        for j in range(quads):
            rank = np.int32(ranks[j] - begin)
            for n in range(of_quad):
                if chosen >> (of_quad * j + n) & 1 != 0:
                    if fits or 0 <= rank < room:
                        shared.keys[np.uint32(rank)] = reversed_key(keys[of_quad * j + n], low)
                        shared.positions[np.uint32(rank)] = firsts[j] + n
                    rank = np.int32(rank + 1)
        cuda.syncthreads()

    return put_in_order


@cache
def tile_lister(width: int, infinity: int, is_long: bool, store):
    """Return ``list_tiles(shared, source, plan, part, parts, target, to)``: it lists a part's elements.

    ``store(shared, count, at, to)`` is what it does with those in shared memory; the first is number `at` of the list.
    """
    tiles, key = tile_access(width, infinity, is_long), key_type(width)
    part_of, fetch, quads, of_quad, place = tiles.part_of, tiles.fetch, tiles.quads, tiles.of_quad, tiles.place
    rank_quads, first_bits = tile_ranks(width)
    put_in_order = _order_step(width, is_long)
    reaching = bar_tester(quads * of_quad)
    items, tile_quads = quads * of_quad, quads * BLOCK
    room = pairs_of_tile(is_long)
    fits = items * BLOCK <= room

    @helper
    def list_tiles(shared, source, plan, part, parts, target, to):
        keys = cuda.local.array(items, key)
        firsts = cuda.local.array(quads, place)
        ranks = cuda.local.array(quads, np.int32)
        low, left, at = target.low, target.left, target.to
        bar = key(low)
        tile, end, quad = part_of(source, part, parts)
        turn = np.int32(0)
        while tile < end:
            exist = fetch(keys, firsts, source, plan, quad)
            chosen = np.int32(reaching(keys, bar, False))
            if target.ties != 0:
                at_border = np.int32(reaching(keys, bar, True))
                chosen = np.int32(chosen & ~at_border)
                if left > 0:
                    few, some = first_bits(np.int32(at_border & exist), left, ranks, shared.counts[2 * WARPS :])
                    chosen = np.int32(chosen | few)
                    left -= some
            chosen = np.int32(chosen & exist)
            total = rank_quads(chosen, ranks, shared.counts[turn:])
            turn = np.int32(WARPS - turn)
            begin = np.int32(0)
            while begin < total:  # once, but for keys of 1 to 4 bytes with positions of 8
                put_in_order(shared, keys, firsts, ranks, chosen, begin, low)
                count = min(np.int32(total - begin), np.int32(room))
                store(shared, count, at, to)
                at += np.int64(count)
                begin = np.int32(begin + room)
                if not fits:
                    cuda.syncthreads()
            quad = place(quad + tile_quads)
            tile += 1

    return list_tiles
