"""The order of the listed elements: best first, equal ones by position."""

from __future__ import annotations

from functools import cache

import numpy as np

from ....driver.compile import helper
from ....driver.numba import LANES, cuda
from ...warp import sync_lanes
from ..block_sort import ITEMS, sorter, spread_sorter, spreader


@cache
def short_sorter(key_bytes: int, place_bytes: int):
    """Return ``sort_short(keys, positions, count)``, for lists that have room for a power of two (bitonic)."""
    lowest = -1 << (8 * key_bytes - 1)
    end = (1 << (8 * place_bytes - 1)) - 1

    @helper
    def swap_pairs(keys, positions, room, span, step):
        """Bring elements that are a step apart into the order of their span: best first in every other one."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        pair = thread
        while pair < np.int32(room >> 1):
            low = np.int32(pair & np.int32(step - 1))
            i = np.uint32(np.int32(np.int32(pair - low) << 1) + low)
            j = np.uint32(i + step)
            a, b = keys[i], keys[j]
            p, q = positions[i], positions[j]
            first = a > b or (a == b and p < q)
            if first != ((np.int32(i) & span) == 0):
                keys[i], keys[j] = b, a
                positions[i], positions[j] = q, p
            pair = np.int32(pair + threads)

    @helper
    def sort_short(keys, positions, count):
        room = np.int32(1)
        while room < count:
            room = np.int32(room << 1)
        pad = np.int32(count + np.int32(cuda.threadIdx.x))
        while pad < room:
            keys[np.uint32(pad)] = lowest
            positions[np.uint32(pad)] = end
            pad = np.int32(pad + cuda.blockDim.x)
        cuda.syncthreads()
        span = np.int32(2)
        while span <= room:
            step = np.int32(span >> 1)
            while step > 0:
                swap_pairs(keys, positions, room, span, step)
                if step > LANES:
                    cuda.syncthreads()
                else:  # a warp goes on with what it has written itself
                    sync_lanes()
                step = np.int32(step >> 1)
            span = np.int32(span << 1)
            cuda.syncthreads()

    return sort_short


@cache
def list_sorter(key_bytes: int, place_bytes: int, moves: bool, most_short: int):
    """Return ``sort(memory, count, low, high, most)``.

    The keys of the lists lie between two, and no position is higher than the most. `moves`: lists of more than
    `most_short` elements are sorted digit by digit.
    """
    sort_short = short_sorter(key_bytes, place_bytes)
    _, sort_lists = sorter(key_bytes, place_bytes)
    sort_spread = spread_sorter(key_bytes, place_bytes)
    place = np.int64 if place_bytes == 8 else np.int32

    @helper
    def sort(memory, count, low, high, most):
        keys, positions, counts, sums = memory.keys, memory.positions, memory.counts, memory.sums
        # Ties can fill a list up to its room, more than the threads have items for; but that is a power of two.
        if moves and most_short < count <= ITEMS * np.int64(cuda.blockDim.x):
            if not sort_spread(keys, positions, counts, sums, np.int32(count), low, high):
                sort_lists(keys, positions, counts, sums, np.int32(count), low, high, place(most))
        else:
            sort_short(keys, positions, np.int32(count))

    return sort


@cache
def range_finder(key_bytes: int):
    """Return ``range_of(keys, count, ends)``: the lowest and the highest of the listed keys."""
    spread = spreader(key_bytes)
    key = np.int32 if key_bytes == 4 else np.int64
    lowest, highest = int(np.iinfo(key).min), int(np.iinfo(key).max)

    @helper
    def range_of(keys, count, ends):
        low, high = key(highest), key(lowest)
        for j in range(np.int64(cuda.threadIdx.x), count, cuda.blockDim.x):
            low, high = min(low, keys[j]), max(high, keys[j])
        return spread(low, high, ends)

    return range_of


@helper
def rank_of(keys, positions, count, its_key, position):
    """Return how many of the listed elements come before one."""
    higher = equal = np.int32(0)
    j = np.int32(0)
    while j < count:
        other = keys[np.uint32(j)]
        higher = np.int32(higher + (1 if other > its_key else 0))
        equal = np.int32(equal + (1 if other == its_key else 0))
        j = np.int32(j + 1)
    j = np.int32(0)
    while equal > 1 and j < count:
        if keys[np.uint32(j)] == its_key and positions[np.uint32(j)] < position:
            higher = np.int32(higher + 1)
        j = np.int32(j + 1)
    return higher
