"""Top-k kernels for lines that are put in order whole: short ones by a warp each, longer ones by a block.

A warp ranks its elements, each by all others. A block sorts in shared memory, and what it sorts is in order by
position, so that equal keys stay so.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.bits import DIGIT_ABOVE, bits_between, negative_word
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k.block_sort import ITEMS, count_bytes, run_sorter, sorter
from ..primitives.top_k.keys import key_access, key_type, lowest_key
from ..primitives.top_k.plan import (
    ENDS,
    LINES,
    MOST_THREADS,
    OUT_STRIDE,
    SIZE,
    STRIDE,
    WARPS,
    K,
    line_bases,
    result_copier,
)
from ..primitives.top_k.ranks import spreader
from ..primitives.warp import sync_lanes

#: Elements of a line that each lane has, at most: a warp ranks lines of up to 128.
OWN_COUNTS = (1, 2, 4)
MOST_RANKED = OWN_COUNTS[-1] * LANES
#: The longest line that a block sorts.
MOST_SORTED = ITEMS * MOST_THREADS
#: By bytes of a key: how many bits are sorted by at first. Of 4096 normal float32 some 30 pairs agree in these.
FIRST_BITS = {4: 24, 8: 32}


#: Shared memory of a block that sorts, beside what `sort_bytes` tells.
STATIC_BYTES = 4 * LANES + 8 * ENDS


def sort_bytes(size: int, threads: int) -> int:
    """Return how much dynamic shared memory a block needs to sort a line."""
    return 8 * size + count_bytes(threads)


@cache
def rank_kernel(width: int, infinity: int, own_count: int) -> Kernel:
    """Return the kernel that ranks the elements of lines, a warp for each line."""
    key_at, copy_result, key = key_access(width, infinity).key_at, result_copier(width), key_type(width)
    room = own_count * LANES
    keys_of_block = WARPS * room

    @kernel
    def rank_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        await_inputs()
        keys = cuda.shared.array(keys_of_block, key)
        own = cuda.local.array(own_count, key)
        ranks = cuda.local.array(own_count, np.int32)
        lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES)
        line = np.int64(cuda.blockIdx.x) * WARPS + warp
        if line >= number(plan, LINES):
            return
        from_x, to = line_bases(plan, line)
        size, stride = np.int32(number(plan, SIZE)), number(plan, STRIDE)
        begin = np.int32(warp * room)
        for j in range(own_count):
            i = np.int32(lane + j * LANES)
            own[j] = key_at(x + from_x + np.int64(min(i, np.int32(size - 1))) * stride, plan)
            keys[np.uint32(begin + i)] = own[j]
            ranks[j] = 0
        sync_lanes()
        other = np.int32(0)
        while other < size:
            its_key = keys[np.uint32(begin + other)]
            for j in range(own_count):
                if its_key > own[j] or (its_key == own[j] and other < lane + j * LANES):
                    ranks[j] = np.int32(ranks[j] + 1)
            other = np.int32(other + 1)
        k, step = number(plan, K), number(plan, OUT_STRIDE)
        for j in range(own_count):
            i = np.int64(lane + j * LANES)
            if i < size and ranks[j] < k:
                copy_result(values, indices, plan, to + np.int64(ranks[j]) * step, x + from_x + i * stride, i)

    return Kernel(rank_lines, 4, waits=True)


class Line(NamedTuple):
    """A line that a block sorts."""

    source: object  #: the address of its first element
    stride: object
    plan: object
    size: object


class Memory(NamedTuple):
    """The shared memory of a block."""

    words: object  #: what is sorted
    places: object  #: the places of its elements
    counts: object  #: of the sort
    sums: object
    ends: object


@cache
def run_steps(width: int, infinity: int):
    """Return the steps on runs of equal words, whose order the elements tell.

    ``order_runs``: see `run_sorter`. ``is_disordered(memory, line)``: whether there are neighbours with equal words of
    which the second should be the first.
    """
    key_at = key_access(width, infinity).key_at

    @helper
    def comes_first(place, other, line):
        here, there = line.source + np.int64(place) * line.stride, line.source + np.int64(other) * line.stride
        return key_at(here, line.plan) > key_at(there, line.plan)

    @helper
    def is_disordered(memory, line):
        words, places = memory.words, memory.places
        wrong = 0
        i = np.int32(cuda.threadIdx.x + 1)
        while i < line.size:
            place, before = places[np.uint32(i)], places[np.uint32(i - 1)]
            if words[np.uint32(i)] == words[np.uint32(i - 1)] and comes_first(place, before, line):
                wrong = 1
            i = np.int32(i + cuda.blockDim.x)
        return cuda.syncthreads_or(wrong)

    return run_sorter(comes_first), is_disordered


@cache
def line_sorter(width: int, infinity: int):
    """Return ``sort_line(memory, line)`` by words that have upper bits of keys, or lower ones, and places beside."""
    key_at, key = key_access(width, infinity).key_at, key_type(width)
    key_bytes = key(0).itemsize
    lowest = lowest_key(width)
    highest = ~lowest
    (_, spread), distance, first_bits = spreader(key_bytes), DIGIT_ABOVE[8 * key_bytes], FIRST_BITS[key_bytes]
    order_runs, is_disordered = run_steps(width, infinity)
    sort_words, _ = sorter(4)

    @helper
    def list_places(memory, line):
        """List the places, and keys that a word holds; return the lowest and the highest key."""
        low, high = key(highest), key(lowest)
        i = np.int32(cuda.threadIdx.x)
        while i < line.size:
            own = key_at(line.source + np.int64(i) * line.stride, line.plan)
            low, high = min(low, own), max(high, own)
            if key_bytes == 4:
                memory.words[np.uint32(i)] = own
            memory.places[np.uint32(i)] = i
            i = np.int32(i + cuda.blockDim.x)
        return spread(low, high, memory.ends)

    @helper
    def list_words(memory, line, high, begin, turn):
        """List how far keys are below the highest, from one bit on; places anew in turn 1."""
        words, places = memory.words, memory.places
        i = np.int32(cuda.threadIdx.x)
        while i < line.size:
            if turn == 1:
                places[np.uint32(i)] = i
            if key_bytes == 4 and turn == 0:
                own = key(words[np.uint32(i)])
            else:
                own = key_at(line.source + np.int64(places[np.uint32(i)]) * line.stride, line.plan)
            words[np.uint32(i)] = negative_word(distance(high, own, begin))
            i = np.int32(i + cuda.blockDim.x)
        cuda.syncthreads()

    @helper
    def sort_line(memory, line):
        words, places, size = memory.words, memory.places, line.size
        low, high = list_places(memory, line)
        bits = bits_between(np.int64(low), np.int64(high))
        left_out = max(np.int64(bits - first_bits), np.int64(0))
        turn = 0
        while turn < 3:  # by the upper bits; and if that does not do, by the lower ones, and by the upper ones again
            begin, end = (np.int64(0), left_out) if turn == 1 else (left_out, bits)
            list_words(memory, line, high, begin, turn)
            sort_words(words, places, memory.counts, memory.sums, size, np.int32(0), np.int64(0), end - begin, False)
            turn += 1
            if turn == 1 and not (
                left_out > 0 and order_runs(words, places, size, line) and is_disordered(memory, line)
            ):
                turn = 3

    return sort_line


@cache
def sort_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel that sorts lines, a block for each.

    What it sorts are words of 32 bits, and places. Words have the upper bits of the keys, as far as keys differ at all;
    then those that agree in them are compared, and if that are many, all are sorted by the lower bits and by the upper
    ones again.
    """
    sort_line, copy_result = line_sorter(width, infinity), result_copier(width)
    word_array = ARRAY_TYPES[np.int32]

    @kernel(registers=64)
    def sort_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        await_inputs()
        sums = cuda.shared.array(LANES, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        size, stride = np.int32(number(plan, SIZE)), number(plan, STRIDE)
        words = cuda.shared.array(0, word_array)
        places = words[size:]
        counts = places[size:]
        from_x, to = line_bases(plan, np.int64(cuda.blockIdx.x))
        x += from_x
        sort_line(Memory(words, places, counts, sums, ends), Line(x, stride, plan, size))
        cuda.syncthreads()
        k, step = np.int32(number(plan, K)), number(plan, OUT_STRIDE)
        i = np.int32(cuda.threadIdx.x)
        while i < k:
            position = np.int64(places[np.uint32(i)])
            copy_result(values, indices, plan, to + np.int64(i) * step, x + position * stride, position)
            i = np.int32(i + cuda.blockDim.x)

    return Kernel(sort_lines, 4, waits=True, shares=True)
