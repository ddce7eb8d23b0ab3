"""The best, the range and the ranks of what the threads of a warp or of a block have."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..warp import PARTNER_VALUE, sync_lanes
from .keys import key_type
from .plan import END, LOWEST

#: Listed elements of each lane that are ranked together, in registers.
RANKED_TOGETHER = 4
partner_word = PARTNER_VALUE[64]


@helper
def best_of_lanes(high, place, lanes):
    """Return the best key of some lanes, and the least place of those that have it, to each of them.

    `lanes`: how many neighbours share a key, a power of two. All lanes of a warp take part.
    """
    lanes >>= 1
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
    high, place = best_of_lanes(high, place, LANES)
    if thread % LANES == 0:
        keys[thread // LANES] = high
        places[thread // LANES] = place
    cuda.syncthreads()
    if thread < LANES:
        high, place = np.int64(LOWEST), np.int64(END)
        if thread < np.int64(cuda.blockDim.x) // LANES:
            high, place = keys[thread], places[thread]
        high, place = best_of_lanes(high, place, LANES)
    return high, place


@cache
def range_finder(key_bytes: int):
    """Return ``of_lanes(low, high)`` and ``of_threads(low, high, ends)``: the lowest and the highest key of all."""
    partner_key, key = PARTNER_VALUE[8 * key_bytes], key_type(key_bytes)

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


@cache
def word_access(width: int):
    """Return what a warp sorts: words of keys over places, so that no two are equal; keys of 8 bytes beside places.

    It is the type of a word, ``word_of(key, place)``, ``place_in(word, place)``, and the last place.
    """
    word, shift, last_place = (np.int64, 32, 0x7FFFFFFF) if width >= 4 else (np.int32, 16, 0xFFFF)
    is_wide = width == 8

    @helper
    def word_of(key, place):
        return key if is_wide else word((np.int64(key) << shift) + (last_place - np.int64(place)))

    @helper
    def place_in(word, place):
        return np.int32(place) if is_wide else np.int32(last_place - (np.int64(word) & last_place))

    return word, word_of, place_in, last_place


@cache
def word_lists(width: int):
    """Return how a warp lists elements that it ranks: words, see `word_access`, and places.

    It is ``put(words, places, at, key, place)``, ``place_of(words, places, at)`` and
    ``rank_own(words, places, begin, count, first, lane, ranks)``, which ranks `RANKED_TOGETHER` elements of each lane.
    """
    word, word_of, place_in, _ = word_access(width)
    is_wide = width == 8

    @helper
    def put(words, places, at, key, place):
        words[at] = word_of(key, place)
        if is_wide:
            places[at] = place

    @helper
    def place_of(words, places, at):
        return place_in(words[at], places[at] if is_wide else np.int32(0))

    @helper
    def rank_own(words, places, begin, count, first, lane, ranks):
        own = cuda.local.array(RANKED_TOGETHER, word)
        own_places = cuda.local.array(RANKED_TOGETHER, np.int32)
        for i in range(RANKED_TOGETHER):
            at = begin + min(np.int32(first + lane + i * LANES), np.int32(count - 1))
            own[i], ranks[i] = words[at], 0
            if is_wide:
                own_places[i] = places[at]
        j = np.int32(begin)
        while j < begin + count:
            other = words[np.uint32(j)]
            for i in range(RANKED_TOGETHER):
                if is_wide:
                    before = other == own[i] and places[np.uint32(j)] < own_places[i]
                    ranks[i] = np.int32(ranks[i] + (1 if other > own[i] or before else 0))
                else:
                    ranks[i] = np.int32(ranks[i] + (1 if other > own[i] else 0))
            j = np.int32(j + 1)

    return put, place_of, rank_own


@cache
def list_sorter(width: int, own_count: int):
    """Return ``sort(keys, places, begin, count, lane)``: a warp sorts the places of elements listed in shared memory.

    They are up to `own_count` for each lane, a power of two. Of equal keys, the one with the lower place comes first.
    The keys stay where they are.
    """
    word, word_of, place_in, last_place = word_access(width)
    partner, partner_place = PARTNER_VALUE[64 if width >= 4 else 32], PARTNER_VALUE[32]
    key, lowest = key_type(width), -(1 << (8 * width - 1))
    is_wide, own_bits = width == 8, own_count.bit_length() - 1

    @helper
    def is_before(key, place, other, its_place):
        return key > other or (is_wide and key == other and place < its_place)

    @helper
    def sort_own(keys, places, lane):
        """Sort what the lanes have in registers, bitonically: then lane 0 has the best elements, lane 1 the next."""
        size = np.int32(2)
        while size <= own_count * LANES:
            mask = np.int32(size >> (own_bits + 1))
            while mask > 0:
                is_lower = np.int32(lane & mask) == 0
                for j in range(own_count):
                    descends = np.int32(np.int32(lane * own_count + j) & size) == 0
                    other = partner(keys[j], mask)
                    its_place = partner_place(places[j], mask) if is_wide else places[j]
                    if is_before(keys[j], places[j], other, its_place) != (descends == is_lower):
                        keys[j], places[j] = other, its_place
                mask = np.int32(mask >> 1)
            for step in range(own_bits - 1, -1, -1):
                if 1 << step < size:
                    for j in range(own_count):
                        if j >> step & 1 == 0:
                            other = j | 1 << step
                            descends = np.int32(np.int32(lane * own_count + j) & size) == 0
                            if is_before(keys[j], places[j], keys[other], places[other]) != descends:
                                keys[j], keys[other] = keys[other], keys[j]
                                places[j], places[other] = places[other], places[j]
            size = np.int32(size << 1)

    @helper
    def sort(keys, places, begin, count, lane):
        words, own_places = cuda.local.array(own_count, word), cuda.local.array(own_count, np.int32)
        sync_lanes()
        for j in range(own_count):
            i = np.int32(lane + j * LANES)
            at = np.uint32(begin + min(i, np.int32(count - 1)))
            its_key, place = keys[at], places[at]
            if i >= count:  # these come last
                its_key, place = key(lowest), np.int32(last_place)
            words[j], own_places[j] = word_of(its_key, place), place
        sync_lanes()
        sort_own(words, own_places, lane)
        for j in range(own_count):
            rank = np.int32(lane * own_count + j)
            if rank < count:
                places[np.uint32(begin + rank)] = place_in(words[j], own_places[j])
        sync_lanes()

    return sort
