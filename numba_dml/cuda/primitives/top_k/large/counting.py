"""How a block counts the elements of a range by digit, and the last one narrows the range to the border's digit."""

from __future__ import annotations

from functools import cache

import numpy as np

from ....driver.compile import helper
from ....driver.numba import BLOCK, cuda
from ...access import load_i64
from ...atomics import add_now, load_now, store_now
from ...bits import DIGIT_ABOVE, bits_between, count_bits, raise_key
from ...plan import number
from ...sums import add_up_threads
from ..keys import key_type
from ..plan import K
from .border import ABOVE, BITS, BORDER, DIGIT, DIGITS, FOUND, HIGH, LOW, RANK, TIES
from .tiles import tile_access

#: The last one is for what lies outside of a range: to count it there is faster than not to.
COUNTERS = DIGITS + 1
#: Digits of a thread.
SHARE = DIGITS // BLOCK


@cache
def range_counter(width: int, is_float: bool, is_long: bool):
    """Return the steps of a block that counts: its range, its tiles' digits, and their sums."""
    tiles, key = tile_access(width, is_float, is_long), key_type(width)
    part_of, fetch, quads, place = tiles.part_of, tiles.fetch, tiles.quads, tiles.place
    digit_above = DIGIT_ABOVE[8 * key(0).itemsize]
    unsigned = np.uint32 if width <= 4 else np.uint64
    lowest, highest, whole = -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1, 8 * width
    items, tile_quads = quads * tiles.of_quad, quads * BLOCK

    @helper
    def range_of(border, upper, line, first):
        """Return the lowest key of the range, and its bits; -1: it is narrow enough."""
        low, bits = np.int64(lowest), np.int64(whole)
        if first == 0:
            low, bits = load_now(border + 8 * LOW), load_now(border + 8 * BITS)
        elif upper != 0:  # what is worse than all groups in the list does not matter
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
def find_border(border, counts, plan, low, bits, most, first, sums):
    """Narrow the range to the digit of the border; the counts become zeros again."""
    thread = np.int64(cuda.threadIdx.x)
    beyond = np.int64(0) if first else load_now(border + 8 * ABOVE)
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
