"""Top-k kernels for lines that are put in order whole: short ones by a warp each, longer ones by a block.

A warp ranks its elements, each by all others. A block sorts in shared memory, and what it sorts is in order by
position, so that equal keys stay so.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, kernel
from ._keys import key_access, key_type
from ._launch import LANES, Kernel
from ._lists import ITEMS, sorter, spreader
from ._memory import ARRAY_TYPES, sync_lanes, unit_access
from ._plan import number
from .top_k import (
    ENDS,
    FLIP,
    INDEX_SIZE,
    LINES,
    MOST_THREADS,
    OUT_STRIDE,
    SIZE,
    STRIDE,
    WARPS,
    K,
    line_bases,
    write_index,
)

#: Elements of a line that each lane has, at most: a warp ranks lines of up to 128.
OWN_COUNTS = (1, 2, 4)
MOST_RANKED = OWN_COUNTS[-1] * LANES
#: The longest line that a block sorts.
MOST_SORTED = 16 if SIMULATED else ITEMS * MOST_THREADS


def sort_bytes(key_bytes: int, size: int) -> int:
    """Return how much dynamic shared memory a block needs to sort a line."""
    return (key_bytes + 4) * size


@cache
def rank_kernel(width: int, is_float: bool, own_count: int) -> Kernel:
    """Return the kernel that ranks the elements of lines, of which each lane has so many, a warp for each line."""
    key_at = key_access(width, is_float, FLIP).key_at
    load, store = unit_access(width)
    key = key_type(width)
    room = own_count * LANES
    keys_of_block = WARPS * room

    @kernel
    def rank_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
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
        k, step, index_size = number(plan, K), number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        for j in range(own_count):
            i = np.int64(lane + j * LANES)
            if i < size and ranks[j] < k:
                at = to + np.int64(ranks[j]) * step
                value = load(x + from_x + i * stride)
                store(values + at * width, value[0], value[1])
                write_index(indices, index_size, at, i)

    return Kernel(rank_lines, 4, waits=True)


@cache
def sort_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that sorts lines, a block for each."""
    key_at = key_access(width, is_float, FLIP).key_at
    load, store = unit_access(width)
    key = key_type(width)
    key_bytes = key(0).itemsize
    lowest, highest = int(np.iinfo(key).min), int(np.iinfo(key).max)
    key_array, place_array = ARRAY_TYPES[key], ARRAY_TYPES[np.int32]
    places_in_keys = key_bytes // 4
    sort_keys, _ = sorter(key_bytes, 4)
    spread = spreader(key_bytes)

    @kernel(registers=64)
    def sort_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        sums = cuda.shared.array(MOST_THREADS, np.int32)
        counts = cuda.shared.array(MOST_THREADS, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        size, stride = np.int32(number(plan, SIZE)), number(plan, STRIDE)
        keys = cuda.shared.array(0, key_array)
        places = cuda.shared.array(0, place_array)[places_in_keys * size :]
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        from_x, to = line_bases(plan, np.int64(cuda.blockIdx.x))
        low, high = key(highest), key(lowest)
        i = thread
        while i < size:
            own = key_at(x + from_x + np.int64(i) * stride, plan)
            keys[np.uint32(i)] = own
            places[np.uint32(i)] = i
            low, high = min(low, own), max(high, own)
            i = np.int32(i + threads)
        low, high = spread(low, high, ends)
        sort_keys(keys, places, counts, sums, size, low, high)
        k, step, index_size = np.int32(number(plan, K)), number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        i = thread
        while i < k:
            at = to + np.int64(i) * step
            position = np.int64(places[np.uint32(i)])
            value = load(x + from_x + position * stride)
            store(values + at * width, value[0], value[1])
            write_index(indices, index_size, at, position)
            i = np.int32(i + threads)

    return Kernel(sort_lines, 4, waits=True, shares=True)
