"""The tiles of a line that all blocks work on, and its border: what is known of the keys of the k-th best element.

A tile is what a block looks at together, of a list of groups of elements or of the whole line. It has a few quads for
each thread: 16 bytes of neighbouring elements, which for the lanes of a warp are neighbours.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import BLOCK, LANES, cuda
from ..access import LOAD_INDEX, load_four_words, load_i64, load_two_long_words
from ..pairs import pair_access
from ..plan import number
from .keys import key_access, key_type, put_words
from .plan import GROUP_BITS, GROUP_ROOM, GROUPS_AT, SIZE, STRIDE, UPPER_AT, line_bases
from .sizes import SIZES

#: Bits of a digit of the keys, by which ranges are cut: 8 KiB of counts.
DIGIT = SIZES.large_digit_bits
DIGITS = 1 << DIGIT

# What is known of a line's border, int64 words, zeros at first.
(
    LOW,  # the lowest key of the range
    BITS,  # of the range; -1: it is narrow enough
    ABOVE,  # elements beyond the range
    TIES,  # 1: the range is one key, and only its first elements belong to the result
    FOUND,  # elements to list
    RANK,  # of the border's digit in the range before, the highest digit's is 0
    HIGH,  # no key is above it
    ARRIVED,  # blocks that have been here
    BORDER,
) = range(9)


class Source(NamedTuple):
    """What is looked at of a line."""

    address: object
    groups: object  #: the address of the list of groups
    size: object
    shift: object  #: elements that the first quad begins before the line
    bits: object  #: quads of a group, as a power of two
    count: object  #: quads


class Tiles(NamedTuple):
    """How the kernels get the elements of tiles."""

    source_of: object  #: ``source_of(plan, line, x, memory)``; without groups the line is one, and its number is 0
    #: ``part_of(source, part, parts)``: where a part of the tiles begins and ends, and this thread's first quad in it.
    part_of: object
    #: ``fetch(keys, firsts, source, plan, quad)``: list the elements of a thread's quads, and the positions of their
    #: first ones; return which exist, as bits. The others have the lowest key. All threads of a block take part.
    fetch: object
    quads: int  #: of a thread
    of_quad: int
    place: type  #: of positions, or keys


def sizes_of(width: int) -> tuple[int, int]:
    """Return how many quads of a tile a thread has, and how many elements these have each."""
    of_quad = 16 // width
    return min(4, max(1, 16 // of_quad)), of_quad


def whole_bits(is_long: bool) -> int:
    """Return the size, as a power of two, of the one group that a line is if it has no list of groups."""
    return 62 if is_long else 30


@cache
def _quad_steps(width: int, infinity: int, is_long: bool):
    """Return how a thread finds where its quads begin, and lists the elements of one that lies in part inside."""
    key_at = key_access(width, infinity).key_at
    place, pair_bytes, *_ = pair_access(is_long)
    load_place = LOAD_INDEX["int64" if is_long else "int32"]
    quads, of_quad = sizes_of(width)
    key, lowest = key_type(width), -(1 << (8 * width - 1))
    whole, quad_bits = whole_bits(is_long), of_quad.bit_length() - 1

    @helper
    def place_quads(firsts, source, plan, quad):
        """List where a thread's quads begin; return whether all of them are in the line, as neighbours in memory."""
        inside = number(plan, STRIDE) == width
        if source.bits == whole:  # the one group: most of the time
            first = place(place(quad << quad_bits) - source.shift)
            for j in range(quads):
                firsts[j] = place(first + j * LANES * of_quad)
            return inside and first >= 0 and firsts[quads - 1] <= source.size - of_quad
        for j in range(quads):
            near = min(place(quad + j * LANES), place(source.count - 1))
            group = place(load_place(source.groups + pair_bytes * np.int64(near >> source.bits) + (pair_bytes >> 1)))
            of_line = place(place(group << source.bits) + place(near & place((place(1) << source.bits) - 1)))
            firsts[j] = place(place(of_line << quad_bits) - source.shift)
            is_inside = firsts[j] >= 0 and firsts[j] <= source.size - of_quad and quad + j * LANES < source.count
            inside = inside and is_inside
        return inside

    @helper
    def put_one_by_one(keys, firsts, source, plan, quad, j):
        """List the elements of one quad, each by itself; return which exist, as bits."""
        exist = np.int32(0)
        for n in range(of_quad):
            i = place(firsts[j] + n)
            near = min(max(i, place(0)), place(source.size - 1))
            found = key_at(source.address + np.int64(near) * number(plan, STRIDE), plan)
            inside = i >= 0 and i < source.size and quad + j * LANES < source.count
            keys[of_quad * j + n] = found if inside else key(lowest)
            if inside:
                exist = np.int32(exist | (1 << (of_quad * j + n)))
        return exist

    return place_quads, put_one_by_one


@cache
def tile_access(width: int, infinity: int, is_long: bool) -> Tiles:
    """Return the steps for elements of a width and kind; if they are long, positions, or keys, have 64 bits."""
    put_keys, load = key_access(width, infinity).put_keys, load_two_long_words if width == 8 else load_four_words
    place_quads, put_one_by_one = _quad_steps(width, infinity, is_long)
    place, pair_bytes, *_ = pair_access(is_long)
    word, of_load = key_type(width), 2 if width == 8 else 4
    quads, of_quad = sizes_of(width)
    all_words = quads * of_load
    whole = whole_bits(is_long)
    all_bits = (1 << (quads * of_quad)) - 1
    quad_bits, tile_quads = of_quad.bit_length() - 1, quads * BLOCK

    @helper
    def source_of(plan, line, x, memory):
        address, _ = line_bases(plan, line)
        address += x
        size, stride = number(plan, SIZE), number(plan, STRIDE)
        shift = (address & 15) // width if stride == width else np.int64(0)
        bits, count = np.int64(whole), (size + shift + of_quad - 1) >> quad_bits
        groups = memory + number(plan, GROUPS_AT)
        if number(plan, UPPER_AT) != 0:
            groups += pair_bytes * line * number(plan, GROUP_ROOM)
            bits = number(plan, GROUP_BITS) - quad_bits
            count = load_i64(memory + number(plan, UPPER_AT) + 8 * (line * BORDER + FOUND)) << bits
        return Source(address, groups, place(size), place(shift), place(bits), place(count))

    @helper
    def part_of(source, part, parts):
        count = (np.int64(source.count) + tile_quads - 1) // tile_quads
        tile, end = count * part // parts, count * (part + 1) // parts
        thread = np.int64(cuda.threadIdx.x)
        return tile, end, place(tile * tile_quads + (thread // LANES) * LANES * quads + thread % LANES)

    @helper
    def fetch(keys, firsts, source, plan, quad):
        words = cuda.local.array(all_words, word)
        inside = place_quads(firsts, source, plan, quad)
        if inside:
            for j in range(quads):
                put_words(words[of_load * j :], load(source.address + np.int64(firsts[j]) * width))
        cuda.syncthreads()  # all loads are on their way: without it each is waited for by itself
        exist = np.int32(all_bits)
        if inside:
            for j in range(quads):
                put_keys(keys[of_quad * j :], words[of_load * j :], plan)
        else:
            exist = np.int32(0)
            for j in range(quads):
                exist = np.int32(exist | put_one_by_one(keys, firsts, source, plan, quad, j))
        return exist

    return Tiles(source_of, part_of, fetch, quads, of_quad, place)
