"""The kernel that chooses the best of a line, which it reads once if it is not too long, or of its delegates.

A block surveys a line: the best keys of its chunks, of some 16 bytes each, stay in shared memory, and a key that k of
them reach is a bar that the k best elements reach, and few others do. Only chunks that reach it are looked into again.

If there are levels of delegates (see `top_k`), the uppermost ones are the line; the best of them tell which groups to
look into below. The bar holds for these too.

Elements at the bar can be too many to list. Then those beyond it are listed, and the first at it, in their order.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.access import unit_access
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k.block import units
from ..primitives.top_k.block.bar import SUMS, bar_raiser, narrower
from ..primitives.top_k.block.lists import collector, keep, tie_collector
from ..primitives.top_k.block.order import list_sorter, range_finder, rank_of
from ..primitives.top_k.block.survey import surveyor
from ..primitives.top_k.block.units import AT_ONCE as AT_ONCE  # calls divide lines by it
from ..primitives.top_k.block.units import WHERE, Memory, place_type
from ..primitives.top_k.keys import key_access, key_type
from ..primitives.top_k.plan import (
    CHUNK,
    ENDS,
    FLIP,
    GROUP_BITS,
    INDEX_SIZE,
    LEVELS,
    MAXIMA,
    OUT_STRIDE,
    PITCH,
    ROOM,
    SIZE,
    STRIDE,
    K,
    line_bases,
)
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.writing import write_index

#: Lists are ranked, each element by a thread that looks at all others, if their length squared is up to this many times
#: the threads: 128 elements take a sort 28 steps and barriers.
RANKED = SIZES.ranked
#: Lists that are longer than that, and than they need be, are shortened before they are sorted; and then digit by
#: digit, if they are up to `ITEMS` for each thread.
SORTED = SIZES.sorted


@cache
def level_teller(width: int, is_long: bool):
    """Return ``tell_source(memory, plan, x, delegates, upper, line, level, listed)``.

    It tells all threads of a block the source of a level, and returns how many keys or elements that has. `x`: where
    the line starts. `listed`: how many groups of the source are looked into, if it is not the uppermost level.
    """
    key_bytes = key_type(width)(0).itemsize
    quad_bits, key_quad_bits = (16 // width).bit_length() - 1, (16 // key_bytes).bit_length() - 1

    @helper
    def tell_source(memory, plan, x, delegates, upper, line, level, listed):
        packed = number(plan, STRIDE) == width
        source, shift, size = x, np.int64(0), number(plan, SIZE)
        unit_bits = np.int64(quad_bits) if packed else np.int64(0)
        if level > 0:
            size = number(plan, PITCH + level - 1)
            source = (delegates if level == 1 else upper) + line * size * key_bytes
            unit_bits = np.int64(key_quad_bits)
        elif packed:
            shift = (source & 15) // width
        # If the source is not all there is of a level, groups of it are listed. Else the chunks of a survey are groups.
        bits = number(plan, GROUP_BITS + level) - unit_bits
        total, scale, apart = listed << bits, bits, np.int64(2)
        if level == number(plan, LEVELS):
            total = (size + shift + (1 << unit_bits) - 1) >> unit_bits
            bits, scale, apart = number(plan, CHUNK), np.int64(0), np.int64(2 * cuda.blockDim.x)
        where = memory.where
        if cuda.threadIdx.x == 0:
            where[units.LEVEL], where[units.SOURCE], where[units.STEP] = level, source, number(plan, STRIDE)
            where[units.UNIT], where[units.SHIFT], where[units.COUNT] = unit_bits, shift, size
            where[units.BITS], where[units.SCALE], where[units.APART] = bits, scale, apart
            where[units.TOTAL] = total
        cuda.syncthreads()
        return size

    return tell_source


@cache
def tie_lister(width: int, is_float: bool, is_long: bool):
    """Return ``list_with_ties(memory, plan, low, high, wanted, room, chunks, whole)``.

    It is for lists that were too long by the bar `low`. It lists the elements beyond that, or beyond a bar that is
    raised until there is room for them, and the first at it, if these are too many. It returns how many there are, and
    the bar.
    """
    collect, narrow = collector(width, is_float, is_long), narrower(width, is_float, is_long)
    collect_ties = tie_collector(width, is_float, is_long)
    key, of_quad = key_type(width), 16 // width
    highest = int(np.iinfo(key).max)

    @helper
    def list_with_ties(memory, plan, low, high, wanted, room, chunks, whole):
        some = cuda.local.array(of_quad, key)
        count = np.int64(0)
        ties = True
        if low < highest:
            bar = key(low + 1)
            count = collect(memory, plan, bar, room, chunks)
            if count > room:
                found = narrow(memory, plan, np.int64(bar), np.int64(high), wanted, room, whole, some)
                low, ties = key(found.low), found.ties
                if not ties or low < highest:
                    bar = key(low + 1) if ties else low
                    count = collect(memory, plan, bar, room, chunks)
                else:
                    count = np.int64(0)
        if ties and count < wanted:
            count = collect_ties(memory, plan, low, count, wanted, whole, some)
        return count, low

    return list_with_ties


@cache
def best_writer(width: int, is_float: bool, is_long: bool, moves: bool):
    """Return ``write_best(memory, plan, x, values, indices, to, count)``: it orders the listed elements, and writes k.

    `x`: where the line starts. `to`: where its results do.
    """
    bits_of = key_access(width, is_float, FLIP).bits_of
    load, store = unit_access(width)
    key_bytes, place_bytes = key_type(width)(0).itemsize, place_type(is_long)(0).itemsize
    sort, range_of = list_sorter(key_bytes, place_bytes, moves, SORTED), range_finder(key_bytes)

    @helper
    def write_best(memory, plan, x, values, indices, to, count):
        keys, positions = memory.keys, memory.positions
        k, stride, step = number(plan, K), number(plan, STRIDE), number(plan, OUT_STRIDE)
        index_size = number(plan, INDEX_SIZE)
        ranked = count * count <= RANKED * cuda.blockDim.x
        if not ranked:
            low, high = range_of(keys, count, memory.ends)
            sort(memory, count, low, high, number(plan, SIZE))
        last = np.int32(count if ranked else k)
        i = np.int32(cuda.threadIdx.x)
        while i < last:
            position = np.int64(positions[np.uint32(i)])
            rank = np.int32(i)
            if ranked:
                rank = rank_of(keys, positions, np.int32(count), keys[np.uint32(i)], positions[np.uint32(i)])
            if rank < k:
                at = to + np.int64(rank) * step
                bits, plain = bits_of(keys[np.uint32(i)], plan)
                if not plain:
                    bits = np.int64(load(x + position * stride)[0])
                store(values + at * width, bits, 0)
                write_index(indices, index_size, at, position)
            i = np.int32(i + cuda.blockDim.x)

    return write_best


@cache
def group_sorter(width: int, is_long: bool, moves: bool):
    """Return the steps that list groups: ``take_groups(memory, count)``, ``order_groups(memory, count, last)``.

    The first makes the listed positions, of delegates, the groups to look into; the second brings these into their
    order, in which none is higher than the last: the first of their elements may matter.
    """
    key = key_type(width)
    sort = list_sorter(key(0).itemsize, place_type(is_long)(0).itemsize, moves, SORTED)

    @helper
    def take_groups(memory, count):
        for j in range(np.int64(cuda.threadIdx.x), count, cuda.blockDim.x):
            memory.groups[j] = memory.positions[j]

    @helper
    def order_groups(memory, count, last):
        for j in range(np.int64(cuda.threadIdx.x), count, cuda.blockDim.x):
            memory.keys[j] = 0
            memory.positions[j] = memory.groups[j]
        cuda.syncthreads()
        sort(memory, count, key(0), key(0), last)
        take_groups(memory, count)
        cuda.syncthreads()

    return take_groups, order_groups


@cache
def first_bar_finder(width: int, is_float: bool, is_long: bool):
    """Return ``first_bar(memory, plan, wanted)``, by a survey.

    It returns a key that `wanted` elements reach, the highest key of the source, and how many chunks that has.
    """
    survey, key = surveyor(width, is_float, is_long), key_type(width)
    raise_bar = bar_raiser(key(0).itemsize)
    lowest = int(np.iinfo(key).min)

    @helper
    def first_bar(memory, plan, wanted):
        low, high, chunks = survey(memory, plan)
        cuda.syncthreads()
        if number(plan, MAXIMA) >= wanted:
            most = wanted + (wanted >> 3)
            return raise_bar(memory.maxima, chunks, low, high, wanted, most, memory.sums, memory.ends), high, chunks
        return key(lowest), high, chunks

    return first_bar


@cache
def choose_kernel(width: int, is_float: bool, is_long: bool, moves: bool) -> Kernel:
    """Return the kernel.

    `is_long`: a line has 2**31 elements or more. `moves`: it can sort long lists digit by digit; without that its code
    is shorter, which counts where it runs once, from cold instruction caches.
    """
    kind = width, is_float, is_long
    first_bar, collect, list_with_ties = first_bar_finder(*kind), collector(*kind), tie_lister(*kind)
    tell_source, write_best = level_teller(width, is_long), best_writer(*kind, moves)
    take_groups, order_groups = group_sorter(width, is_long, moves)
    key, place = key_type(width), place_type(is_long)
    key_bytes, place_bytes = key(0).itemsize, place(0).itemsize
    raise_bar = bar_raiser(key_bytes)
    lowest, highest = int(np.iinfo(key).min), int(np.iinfo(key).max)
    key_array, place_array, count_array = ARRAY_TYPES[key], ARRAY_TYPES[place], ARRAY_TYPES[np.int32]
    # The lists are groups, positions and keys; behind them are the maxima or, when these are done with, the counts.
    keys_in_places, counts_in_lists = 2 * place_bytes // key_bytes, (2 * place_bytes + key_bytes) // 4

    @kernel(registers=64)
    def choose_from_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        delegates,  # IN   address of (lines, pitch) keys, if there are levels
        upper,  # IN   address of the delegates of these
        plan,  # IN   address of the plan
    ):
        await_inputs()
        sums = cuda.shared.array(SUMS, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        where = cuda.shared.array(WHERE, np.int64)
        room = number(plan, ROOM)
        places = cuda.shared.array(0, place_array)
        positions, groups = places[:room], places[room : 2 * room]
        keys = cuda.shared.array(0, key_array)[keys_in_places * room :]
        counts = cuda.shared.array(0, count_array)[counts_in_lists * room :]
        memory = Memory(where, groups, keys, positions, keys[room:], counts, sums, ends)
        k = number(plan, K)
        line = np.int64(cuda.blockIdx.x)
        from_x, to = line_bases(plan, line)
        x += from_x
        levels = number(plan, LEVELS)
        level = levels
        low, high = key(lowest), key(highest)
        count = listed = np.int64(0)
        while level >= 0:
            cuda.syncthreads()
            whole = level == levels
            wanted = min(k, tell_source(memory, plan, x, delegates, upper, line, level, listed))
            chunks = np.int32(0)
            if whole:
                low, high, chunks = first_bar(memory, plan, wanted)
            count = collect(memory, plan, low, room, chunks)
            few = wanted + (wanted >> 2) + LANES
            if count <= room and count > (few if level > 0 else max(SORTED, few)):
                # To look into more groups, or to sort a longer list, would take longer than to shorten it.
                low = raise_bar(keys, count, low, high, wanted, wanted, sums, ends)
                count = keep(memory, count, low)
            if count > (few if level > 0 else room):
                if not whole:
                    # Groups are counted from 16 bytes that begin before the line, and to the end of the pitch.
                    order_groups(memory, listed, number(plan, PITCH + level))
                count, low = list_with_ties(memory, plan, low, high, wanted, room, chunks, whole)
            if level > 0:
                listed = count
                take_groups(memory, listed)
            level -= 1
        write_best(memory, plan, x, values, indices, to, count)

    return Kernel(choose_from_lines, 6, waits=True, shares=True)
