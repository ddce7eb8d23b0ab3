"""The kernels that choose the best of a line, which a block reads once if it is not too long, or of its delegates.

A delegate is the best key of a group of elements that are neighbours; all blocks find them, in a kernel of their own.

A block surveys a line: the best keys of its chunks, of some 16 bytes each, stay in shared memory, and a key that k of
them reach is a bar that the k best elements reach, and few others do. Only chunks that reach it are looked into again.
If there are delegates, these are the line at first; the best of them tell which groups to look into below. The bar
holds for these too.

Elements at the bar can be too many to list. Then those beyond it are listed, and the first at it, in their order.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import LANES, WARPS, cuda
from ..primitives.access import unit_access
from ..primitives.plan import number, quotient
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k import block_units
from ..primitives.top_k import plan as fields
from ..primitives.top_k.block_lists import SUMS, bar_raiser, collector, keep, narrower, tie_collector
from ..primitives.top_k.block_sort import ITEMS, sorter
from ..primitives.top_k.block_units import WHERE, Memory, surveyor
from ..primitives.top_k.keys import key_access, key_type, lowest_key, result_writer
from ..primitives.top_k.plan import ENDS, QUADS, line_bases
from ..primitives.top_k.ranks import rank_of
from ..primitives.top_k.sizes import SIZES
from ..primitives.warp import PARTNER_VALUE


@cache
def level_teller(width: int):
    """Return ``tell_source(memory, plan, x, delegates, line, level, listed)``.

    It tells all threads of a block the source of a level, and returns how many keys or elements that has. `x`: where
    the line starts. `listed`: how many groups of the source are looked into, if it is not the first level.
    """
    key_bytes = key_type(width)(0).itemsize
    quad_bits, key_quad_bits = (16 // width).bit_length() - 1, (16 // key_bytes).bit_length() - 1

    @helper
    def tell_source(memory, plan, x, delegates, line, level, listed):
        packed = number(plan, fields.STRIDE) == width
        source, shift, size = x, np.int64(0), number(plan, fields.SIZE)
        unit_bits = np.int64(quad_bits) if packed else np.int64(0)
        if level > 0:
            size = number(plan, fields.PITCH)
            source = delegates + line * size * key_bytes
            unit_bits = np.int64(key_quad_bits)
        elif packed:
            shift = (source & 15) // width
        # If the source is not all there is of a level, groups of it are listed. Else the chunks of a survey are groups.
        bits = number(plan, fields.GROUP_BITS) - unit_bits
        total, scale, apart = listed << bits, bits, np.int64(2)
        if level == number(plan, fields.LEVELS):
            total = (size + shift + (1 << unit_bits) - 1) >> unit_bits
            bits, scale, apart = number(plan, fields.CHUNK), np.int64(0), np.int64(2 * cuda.blockDim.x)
        where = memory.where
        if cuda.threadIdx.x == 0:
            where[block_units.LEVEL], where[block_units.SOURCE] = level, source
            where[block_units.STEP], where[block_units.UNIT] = number(plan, fields.STRIDE), unit_bits
            where[block_units.SHIFT], where[block_units.COUNT], where[block_units.TOTAL] = shift, size, total
            where[block_units.BITS], where[block_units.SCALE], where[block_units.APART] = bits, scale, apart
        cuda.syncthreads()
        return size

    return tell_source


@cache
def tie_lister(width: int, infinity: int):
    """Return ``list_with_ties(memory, plan, low, high, wanted, room, chunks, whole)``.

    It is for lists that were too long by the bar `low`. It lists the elements beyond that, or beyond a bar that is
    raised until there is room for them, and the first at it, if these are too many. It returns how many there are, and
    the bar.
    """
    collect, narrow = collector(width, infinity), narrower(width, infinity)
    collect_ties = tie_collector(width, infinity)
    key, highest = key_type(width), ~lowest_key(width)

    @helper
    def list_with_ties(memory, plan, low, high, wanted, room, chunks, whole):
        count, ties = np.int64(0), True
        turn = 0
        while turn < 2 and (low < highest or not ties):
            bar = key(low + 1) if ties else low
            count = collect(memory, plan, bar, room, chunks)
            turn += 1
            if count <= room:
                turn = 2
            elif turn == 1:
                raised, ties = narrow(memory, plan, np.int64(bar), np.int64(high), wanted, room, whole)
                low, count = key(raised), np.int64(0)
        if ties and count < wanted:
            count = collect_ties(memory, plan, low, count, wanted, whole)
        return count, low

    return list_with_ties


@cache
def best_writer(width: int, infinity: int):
    """Return ``write_best(memory, plan, x, values, indices, to, count, low, high)``.

    It orders the listed elements, whose keys lie between two, and writes k. `x`: where the line starts. `to`: where its
    results do.
    """
    write_result, key_bytes = result_writer(width, infinity), key_type(width)(0).itemsize
    _, sort_lists = sorter(key_bytes)

    @helper
    def write_best(memory, plan, x, values, indices, to, count, low, high):
        keys, positions, number_of = memory.keys, memory.positions, np.int32(count)
        k, stride, step = number(plan, fields.K), number(plan, fields.STRIDE), number(plan, fields.OUT_STRIDE)
        ranked = count * count <= SIZES.ranked * cuda.blockDim.x
        if not ranked:
            sort_lists(keys, positions, memory.counts, memory.sums, number_of, low, high, number(plan, fields.SIZE))
        last = np.int32(count if ranked else k)
        i = np.int32(cuda.threadIdx.x)
        while i < last:
            position = np.int64(positions[np.uint32(i)])
            rank = np.int32(i)
            if ranked:
                rank = rank_of(keys, positions, 0, number_of, keys[np.uint32(i)], positions[np.uint32(i)])
            if rank < k:
                at, address = to + np.int64(rank) * step, x + position * stride
                write_result(values, indices, plan, at, keys[np.uint32(i)], address, position)
            i = np.int32(i + cuda.blockDim.x)

    return write_best


@helper
def order_groups(memory, count):
    """Bring the groups to look into in their order: then the first of equal elements come first."""
    thread, threads = np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x)
    for j in range(thread, count, threads):
        memory.positions[j] = memory.groups[j]
    cuda.syncthreads()
    for j in range(thread, count, threads):
        own, rank = memory.positions[j], np.int32(0)
        for i in range(count):
            rank = np.int32(rank + (1 if memory.positions[i] < own else 0))
        memory.groups[np.uint32(rank)] = own
    cuda.syncthreads()


@cache
def choose_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel."""
    survey, collect, list_with_ties = (make(width, infinity) for make in (surveyor, collector, tie_lister))
    tell_source, write_best = level_teller(width), best_writer(width, infinity)
    key, lowest = key_type(width), lowest_key(width)
    key_bytes, highest = key(0).itemsize, ~lowest
    raise_bar = bar_raiser(key_bytes)
    key_array, word_array = ARRAY_TYPES[key], ARRAY_TYPES[np.int32]
    # The lists are groups, positions and keys; behind them are the maxima or, when these are done with, the counts.
    keys_in_places, counts_in_lists = 8 // key_bytes, 2 + key_bytes // 4

    def choose_from_lines(x, values, indices, delegates, plan):
        """`delegates`: the address of (lines, pitch) keys, if there are any."""
        await_inputs()
        sums = cuda.shared.array(SUMS, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        where = cuda.shared.array(WHERE, np.int64)
        room = number(plan, fields.ROOM)
        words = cuda.shared.array(0, word_array)
        positions, groups = words[:room], words[room : 2 * room]
        keys = cuda.shared.array(0, key_array)[keys_in_places * room :]
        memory = Memory(where, groups, keys, positions, keys[room:], words[counts_in_lists * room :], sums, ends)
        k = number(plan, fields.K)
        line = np.int64(cuda.blockIdx.x)
        from_x, to = line_bases(plan, line)
        x += from_x
        level = levels = number(plan, fields.LEVELS)
        low, high = key(lowest), key(highest)
        count = listed = np.int64(0)
        while level >= 0:
            cuda.syncthreads()
            whole = level == levels
            wanted = min(k, tell_source(memory, plan, x, delegates, line, level, listed))
            chunks = np.int32(0)
            if whole:
                low, high, chunks = survey(memory, plan)
                cuda.syncthreads()
                if number(plan, fields.MAXIMA) >= wanted:
                    low = raise_bar(memory.maxima, chunks, low, high, wanted, wanted + (wanted >> 3), sums, ends)
                else:
                    low = key(lowest)
            count = collect(memory, plan, low, room, chunks)
            few = wanted + (wanted >> 2) + LANES
            most = min(room, np.int64(ITEMS * cuda.blockDim.x))  # what fits, and can be sorted
            most = min(most, few if level > 0 else max(SIZES.sorted, few))
            if most < count <= room:
                # To look into more groups, or to sort a longer list, would take longer than to shorten it.
                low = raise_bar(keys, count, low, high, wanted, wanted, sums, ends)
                count = keep(memory, count, low)
            if count > most:
                if not whole:
                    order_groups(memory, listed)
                count, low = list_with_ties(memory, plan, low, high, wanted, most, chunks, whole)
            if level > 0:
                listed = count
                for j in range(np.int64(cuda.threadIdx.x), listed, cuda.blockDim.x):
                    groups[j] = positions[j]  # of delegates: they are the groups to look into
            level -= 1
        write_best(memory, plan, x, values, indices, to, count, low, high)

    return Kernel(choose_from_lines, 5, waits=True, shares=True, registers=64)


@cache
def delegate_store(width: int):
    """Return ``put(delegates, plan, group, quad, bests)``: the best keys of a lane's quads become delegates of a line.

    `group`: quads of a group. `quad`: the lane's first one.
    """
    key, lowest, of_quad = key_type(width), lowest_key(width), 16 // width
    key_bytes = key(0).itemsize
    (_, store_key), partner_value = unit_access(key_bytes), PARTNER_VALUE[8 * key_bytes]

    @helper
    def put(delegates, plan, group, quad, bests):
        best = key(lowest)
        for j in range(QUADS):
            best = max(best, bests[j])
            if (j + 1) * LANES & (group - 1) == 0:
                step = min(group, LANES) >> 1
                while step > 0:
                    best = max(best, partner_value(best, step))
                    step >>= 1
                first = quad + (j + 1) * LANES - max(group, LANES)
                at = first * of_quad >> number(plan, fields.GROUP_BITS)
                if first & (group - 1) == 0 and at < number(plan, fields.PITCH):
                    store_key(delegates + key_bytes * at, best, 0)
                best = key(lowest)

    return put


@cache
def delegate_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel that finds the delegates of lines whose elements are neighbours.

    A lane reads 16 bytes, four times at once. A line's groups start at a multiple of 16 bytes, so that its first group
    may have fewer elements.
    """
    bests_of_quads, best_inside = key_access(width, infinity).bests_of_quads, key_access(width, infinity).best_inside
    put, key, of_quad = delegate_store(width), key_type(width), 16 // width
    key_bytes = key(0).itemsize

    def find_delegates(x, delegates, plan):
        """`delegates`: the address of (lines, pitch) keys."""
        await_inputs()
        bests = cuda.local.array(QUADS, key)
        lane = np.int64(cuda.threadIdx.x % LANES)
        warp = np.int64(cuda.blockIdx.x) * WARPS + cuda.threadIdx.x // LANES
        number_of_line = quotient(warp, plan, fields.PARTS)
        if number_of_line >= number(plan, fields.LINES):
            return
        source, _ = line_bases(plan, number_of_line)
        source += x
        delegates += key_bytes * number_of_line * number(plan, fields.PITCH)
        shift, size, rounds = (source & 15) // width, number(plan, fields.SIZE), number(plan, fields.ROUNDS)
        group = (1 << number(plan, fields.GROUP_BITS)) // of_quad
        quad = (warp - number_of_line * number(plan, fields.PARTS)) * rounds * (QUADS * LANES) + lane
        address = source - shift * width + 16 * quad
        for _ in range(rounds):
            first = quad * of_quad - shift
            if first >= lane * of_quad and first + (QUADS * LANES - lane) * of_quad <= size:
                bests[0], bests[1], bests[2], bests[3] = bests_of_quads(address, 16 * LANES, 32 * LANES, plan)
            else:
                for j in range(QUADS):
                    bests[j] = best_inside(source, plan, first + j * LANES * of_quad, size)
            put(delegates, plan, group, quad, bests)
            quad += QUADS * LANES
            address += 16 * QUADS * LANES

    # Six blocks of 256 threads on a multiprocessor.
    return Kernel(find_delegates, 3, waits=True, registers=40)
