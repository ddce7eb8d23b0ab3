"""The steps of a pass of `device_sort`: a tile of pairs goes behind earlier ones with its digits."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.numba import BLOCK, LANES, WARPS, cuda
from .access import load_i64
from .atomics import load_now, store_now
from .bits import count_bits
from .pairs import DIGIT, DIGITS, pair_access
from .sums import add_up_threads
from .warp import lanes_with, sync_lanes

COUNTS = WARPS * DIGITS
SHARE = DIGITS // BLOCK
#: Bytes of a tile, in pairs: 32 KiB of shared memory.
TILE_BYTES = 128 * BLOCK
#: Earlier tiles whose counts are looked up at once.
LOOK = 4
#: A state is a tile's count of a digit and, from this bit on, 0: it is not known yet; 1 + 2 * pass: it is that of this
#: tile alone; 2 + 2 * pass: of it and all earlier ones.
MARK = 56
#: By votes on its bits, as CUB does; `match.any` is slower.
lanes_with_digit = lanes_with(DIGIT)


def pairs_of_tile(is_long: bool) -> int:
    """Return how many pairs a tile has."""
    return TILE_BYTES // pair_access(is_long).bytes


class Memory(NamedTuple):
    """The shared memory of a block."""

    counts: object  #: (COUNTS,) int32: of each warp; then where its pairs go in the tile
    bases: object  #: (DIGITS,) int64: where a digit begins in the tile; then in the target, less that
    sums: object
    tile_keys: object  #: the tile in its new order
    tile_positions: object


class Own(NamedTuple):
    """A thread, and its pairs in registers."""

    thread: object
    lane: object
    keys: object
    positions: object
    ranks: object  #: among the pairs of its warp with the same digit
    counts: object  #: of its digits, of which it has a few neighbouring ones: pairs of the tile ...
    starts: object  #: ... and pairs of the segment with lower digits


@helper
def count_earlier(state, tile, turn):
    """Return how many pairs of earlier tiles have a digit, given the address of this tile's count of it."""
    words = cuda.local.array(LOOK, np.int64)
    before = np.int64(0)
    looking = tile > 0
    while looking:
        for j in range(LOOK):  # the first tile's count is final, so none before it is looked at
            words[j] = load_now(state - 8 * DIGITS * (min(j, tile - 1) + 1))
        known = True
        for j in range(LOOK):
            mark = (words[j] >> MARK) - 2 * turn
            known = known and mark > 0
            if looking and known:
                before += words[j] & ((1 << MARK) - 1)
                looking = mark == 1
                tile -= 1
                state -= 8 * DIGITS
    return before


@cache
def tile_steps(is_long: bool):
    """Return the steps on a tile's pairs, in their order.

    ``load_tile(own, source, inside)``: a warp's pairs are neighbours, so are its lanes'. What fills a tile of `inside`
    pairs up comes last in it. ``rank_tile(memory, own, shift)``: rank each among its warp's, and count digits.
    ``order_tile(memory, own, shift)``: bring them into their new order. ``write_tile(memory, own, target, inside,
    shift)``: bring them to the target.
    """
    _, pair_bytes, load_pair, store_pair, digit_of = pair_access(is_long)
    items = pairs_of_tile(is_long) // BLOCK

    @helper
    def load_tile(own, source, inside):
        first = np.int32((own.thread - own.lane) * items + own.lane)
        for j in range(items):
            i = np.int32(first + j * LANES)
            key, own.positions[j] = load_pair(source + pair_bytes * np.int64(min(i, np.int32(inside - 1))))
            own.keys[j] = key if i < inside else -1

    @helper
    def rank_tile(memory, own, shift):
        counts, of_warp = memory.counts, np.int32((own.thread // LANES) * DIGITS)
        below = (np.int64(1) << own.lane) - 1
        for j in range(items):
            digit = digit_of(own.keys[j], shift)
            same = lanes_with_digit(digit)
            earlier = count_bits(same & below)
            before = counts[of_warp + digit]
            sync_lanes()
            if earlier == 0:
                counts[of_warp + digit] = before + count_bits(same)
            sync_lanes()
            own.ranks[j] = before + earlier

    @helper
    def order_tile(memory, own, shift):
        of_warp = np.int32((own.thread // LANES) * DIGITS)
        for j in range(items):
            place = np.uint32(memory.counts[of_warp + digit_of(own.keys[j], shift)] + own.ranks[j])
            memory.tile_keys[place] = own.keys[j]
            memory.tile_positions[place] = own.positions[j]

    @helper
    def write_tile(memory, own, target, inside, shift):
        thread = own.thread
        for j in range(items):
            own.keys[j] = memory.tile_keys[np.uint32(thread + j * BLOCK)]
            own.positions[j] = memory.tile_positions[np.uint32(thread + j * BLOCK)]
        for j in range(items):
            i = np.int32(thread + j * BLOCK)
            if i < inside:
                place = memory.bases[np.uint32(digit_of(own.keys[j], shift))] + i
                store_pair(target + pair_bytes * place, own.keys[j], own.positions[j])

    return load_tile, rank_tile, order_tile, write_tile


@cache
def base_steps(is_long: bool):
    """Return the steps on a tile's digits.

    ``count_tile(memory, own, starts, state, inside, tile, turn)`` adds up the warps' counts, which become places in the
    tile, and tells later tiles. ``find_bases(memory, own, state, tile, turn)`` learns from earlier tiles where digits
    go in the target.
    """
    tile_pairs = pairs_of_tile(is_long)

    @helper
    def count_tile(memory, own, starts, state, inside, tile, turn):
        counts, bases, thread = memory.counts, memory.bases, own.thread
        total = np.int64(0)
        for i in range(SHARE):
            count = np.int64(0)
            for warp in range(0, COUNTS, DIGITS):
                count += counts[warp + thread * SHARE + i]
            total += count
            if thread * SHARE + i == DIGITS - 1:
                count -= tile_pairs - inside
            own.counts[i] = count
            own.starts[i] = load_i64(starts + 8 * i)
            store_now(state + 8 * i, count | ((2 * turn + (1 if tile > 0 else 2)) << MARK))
        begin = add_up_threads(memory.sums, total) - total
        for i in range(SHARE):
            digit = thread * SHARE + i
            bases[digit] = begin
            for warp in range(0, COUNTS, DIGITS):
                count = counts[warp + digit]
                counts[warp + digit] = begin
                begin += count

    @helper
    def find_bases(memory, own, state, tile, turn):
        bases, thread = memory.bases, own.thread
        for i in range(SHARE):
            digit = thread * SHARE + i
            earlier = count_earlier(state + 8 * i, tile, turn)
            if tile > 0:
                store_now(state + 8 * i, (earlier + own.counts[i]) | ((2 * turn + 2) << MARK))
            bases[digit] = own.starts[i] + earlier - bases[digit]

    return count_tile, find_bases


@cache
def result_writer(is_long: bool, put):
    """Return ``put_results(memory, form, plan, inside, shift)``: ``put`` is called with each pair and its place."""
    digit_of, items = pair_access(is_long).digit_of, pairs_of_tile(is_long) // BLOCK

    @helper
    def put_results(memory, form, plan, inside, shift):
        for j in range(items):
            i = np.int32(np.int32(cuda.threadIdx.x) + j * BLOCK)
            if i < inside:
                key = memory.tile_keys[i]
                put(form, plan, key, memory.tile_positions[i], memory.bases[digit_of(key, shift)] + i)

    return put_results
