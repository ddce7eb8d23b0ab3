"""The best, the range and the ranks of what the threads of a warp or of a block have."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..warp import PARTNER_VALUE, sync_lanes
from .plan import END, LOWEST

partner_word = PARTNER_VALUE[64]


@helper
def best_of_warp(high, place):
    """Return the best key of a warp's threads, and the least place of those that have it, to its first one."""
    lanes = LANES >> 1
    while lanes > 0:
        other, its_place = partner_word(high, lanes), partner_word(place, lanes)
        if other > high or (other == high and its_place < place):
            high, place = other, its_place
        lanes >>= 1
    return high, place


@helper
def best_of_block(keys, places, high, place):
    """Return the best key of all threads, and the least place of those that have it, to thread 0."""
    thread = np.int64(cuda.threadIdx.x)
    high, place = best_of_warp(high, place)
    if thread % LANES == 0:
        keys[thread // LANES] = high
        places[thread // LANES] = place
    cuda.syncthreads()
    if thread < LANES:
        high, place = np.int64(LOWEST), np.int64(END)
        if thread < np.int64(cuda.blockDim.x) // LANES:
            high, place = keys[thread], places[thread]
        high, place = best_of_warp(high, place)
    return high, place


@cache
def spreader(key_bytes: int):
    """Return ``of_lanes(low, high)`` and ``of_threads(low, high, ends)``: the lowest and the highest key of all."""
    partner_key, key = PARTNER_VALUE[8 * key_bytes], np.int32 if key_bytes == 4 else np.int64

    @helper
    def of_lanes(low, high):
        lanes = LANES >> 1
        while lanes > 0:
            low = min(low, partner_key(low, lanes))
            high = max(high, partner_key(high, lanes))
            lanes >>= 1
        return low, high

    @helper
    def of_threads(low, high, ends):
        thread = np.int32(cuda.threadIdx.x)
        low, high = of_lanes(low, high)
        if thread % LANES == 0:
            ends[2 * (thread // LANES)] = low
            ends[2 * (thread // LANES) + 1] = high
        cuda.syncthreads()
        warp = min(np.int32(thread % LANES), np.int32(cuda.blockDim.x // LANES - 1))
        return of_lanes(key(ends[2 * warp]), key(ends[2 * warp + 1]))

    return of_lanes, of_threads


@helper
def rank_of(keys, places, begin, count, its_key, place):
    """Return how many of the elements that are listed from one on come before another."""
    higher = equal = np.int32(0)
    j, end = np.int32(begin), np.int32(begin + count)
    while j < end:
        other = keys[np.uint32(j)]
        higher = np.int32(higher + (1 if other > its_key else 0))
        equal = np.int32(equal + (1 if other == its_key else 0))
        j = np.int32(j + 1)
    j = np.int32(begin)
    while equal > 1 and j < end:
        if keys[np.uint32(j)] == its_key and places[np.uint32(j)] < place:
            higher = np.int32(higher + 1)
        j = np.int32(j + 1)
    return higher


@cache
def lane_sorter(key: type, listed: int):
    """Return ``sort(keys, places, begin, count, k, lane)``: a warp's k best elements, of `listed` for each lane."""

    @helper
    def sort(keys, places, begin, count, k, lane):
        own_keys = cuda.local.array(listed, key)
        own_places = cuda.local.array(listed, np.int32)
        ranks = cuda.local.array(listed, np.int32)
        sync_lanes()
        for j in range(listed):
            i = np.int32(lane + j * LANES)
            ranks[j] = k
            if i < count:
                own_keys[j], own_places[j] = keys[begin + i], places[begin + i]
                ranks[j] = rank_of(keys, places, begin, count, own_keys[j], own_places[j])
        sync_lanes()
        for j in range(listed):
            if ranks[j] < k:
                keys[begin + ranks[j]], places[begin + ranks[j]] = own_keys[j], own_places[j]
        sync_lanes()

    return sort
