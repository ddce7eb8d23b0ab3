"""How a block lists the elements of its tiles that reach the border, in their order."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ....driver.compile import helper
from ....driver.numba import BLOCK, cuda
from ...access import load_i64
from ...bits import REVERSED_KEY
from ...device_sort import TILE_BYTES
from ...pairs import DIGIT as SORT_DIGIT
from ...pairs import DIGITS as SORT_DIGITS
from ...pairs import pair_access
from ...sums import add_up_threads
from ..keys import key_type
from .border import ABOVE, DIGITS, FOUND, LOW, RANK, TIES
from .ranks import WARPS, tile_ranks
from .tiles import sizes_of, tile_access


def passes_of(width: int) -> int:
    """Return how many digits a sort of keys has."""
    return -(-8 * width // SORT_DIGIT)


class Target(NamedTuple):
    """Which elements of a part are listed, and where."""

    low: object  #: the lowest key
    ties: object  #: not 0: of those with this key only the first are listed
    left: object  #: how many of these, from this part on
    found: object  #: how many elements the line lists
    to: object  #: where the part's list begins


@helper
def targets_by_border(border, table, tallies, line, part, parts, sums):
    """Return the target of a part."""
    low, ties = load_i64(border + 8 * LOW), load_i64(border + 8 * TIES)
    found, rank = load_i64(border + 8 * FOUND), load_i64(border + 8 * RANK)
    table += 8 * (line * parts * DIGITS + rank)
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


class Memory(NamedTuple):
    """The shared memory of a block that lists."""

    tile_keys: object
    tile_positions: object
    counts: object  #: of each warp's elements of a tile: two sets in turn, and one for those at the border
    digits: object  #: counts for a sort


@cache
def _tile_steps(width: int, is_long: bool):
    """Return how elements of a tile are compared with the bar, put in order, and stored."""
    quads, of_quad = sizes_of(width)
    word, pair_bytes, _, store_pair, digit_of = pair_access(is_long)
    reversed_key = REVERSED_KEY[8 * word(0).itemsize]
    items, room = quads * of_quad, TILE_BYTES // pair_bytes
    fits = items * BLOCK <= room
    passes = passes_of(width)

    @helper
    def by_bar(keys, bar):
        """Return, as bits, which keys are beyond a bar, and which are equal to it."""
        beyond = equal = np.int32(0)
        for n in range(items):
            if keys[n] > bar:
                beyond = np.int32(beyond | (1 << n))
            if keys[n] == bar:
                equal = np.int32(equal | (1 << n))
        return beyond, equal

    @helper
    def put_in_order(memory, keys, firsts, ranks, chosen, begin, low):
        """Put the chosen elements into shared memory, in their order, from one rank on."""
        for j in range(quads):
            rank = np.int32(ranks[j] - begin)
            for n in range(of_quad):
                if chosen >> (of_quad * j + n) & 1 != 0:
                    if fits or 0 <= rank < room:
                        memory.tile_keys[np.uint32(rank)] = reversed_key(keys[of_quad * j + n], low)
                        memory.tile_positions[np.uint32(rank)] = firsts[j] + n
                    rank = np.int32(rank + 1)
        cuda.syncthreads()

    @helper
    def store_pairs(memory, count, to, heads):
        """Store elements behind each other as pairs."""
        i = np.int32(cuda.threadIdx.x)
        while i < count:
            new = memory.tile_keys[np.uint32(i)]
            store_pair(to + pair_bytes * np.int64(i), new, memory.tile_positions[np.uint32(i)])
            if heads != 0:
                for digit in range(passes):
                    cuda.atomic.add(memory.digits, digit * SORT_DIGITS + digit_of(new, SORT_DIGIT * digit), 1)
            i = np.int32(i + BLOCK)

    return by_bar, put_in_order, store_pairs


@cache
def tile_lister(width: int, is_float: bool, is_long: bool):
    """Return ``list_tiles(memory, source, plan, part, parts, target, pairs, heads)``: it lists a part's elements.

    It counts the digits of their keys for a sort, if there are `heads`.
    """
    tiles, key = tile_access(width, is_float, is_long), key_type(width)
    part_of, fetch, quads, of_quad, place = tiles.part_of, tiles.fetch, tiles.quads, tiles.of_quad, tiles.place
    rank_quads, first_bits = tile_ranks(width)
    by_bar, put_in_order, store_pairs = _tile_steps(width, is_long)
    _, pair_bytes, *_ = pair_access(is_long)
    items, tile_quads = quads * of_quad, quads * BLOCK
    room = TILE_BYTES // pair_bytes
    fits = items * BLOCK <= room

    @helper
    def list_tiles(memory, source, plan, part, parts, target, pairs, heads):
        keys = cuda.local.array(items, key)
        firsts = cuda.local.array(quads, place)
        ranks = cuda.local.array(quads, np.int32)
        low, left, to = target.low, target.left, target.to
        bar = key(low)
        tile, end, quad = part_of(source, part, parts)
        turn = np.int32(0)
        while tile < end:
            exist = fetch(keys, firsts, source, plan, quad)
            chosen, at_border = by_bar(keys, bar)
            if target.ties == 0:
                chosen = np.int32(chosen | at_border)
            elif left > 0:
                few, some = first_bits(np.int32(at_border & exist), left, ranks, memory.counts[2 * WARPS :])
                chosen = np.int32(chosen | few)
                left -= some
            chosen = np.int32(chosen & exist)
            total = rank_quads(chosen, ranks, memory.counts[turn:])
            turn = np.int32(WARPS - turn)
            begin = np.int32(0)
            while begin < total:  # once, but for keys of 1 to 4 bytes with positions of 8
                put_in_order(memory, keys, firsts, ranks, chosen, begin, low)
                count = min(np.int32(total - begin), np.int32(room))
                store_pairs(memory, count, pairs + pair_bytes * to, heads)
                to += np.int64(count)
                begin = np.int32(begin + room)
                if not fits:
                    cuda.syncthreads()
            quad = place(quad + tile_quads)
            tile += 1

    return list_tiles
