"""Stable sorts of lists in shared memory, by a block: a radix sort from the lowest digit on.

A list is a key and a place for each element. In a pass a warp has neighbouring elements, a few of each lane's, in
registers; it counts their digits, all counts are added up, digit by digit and then warp by warp, and each lane finds
where its elements go by votes with the others. A digit has as many values as a warp has lanes, so that there is a count
for each thread. 2048 keys that differ in 24 bits take 5 such passes; a bitonic sort takes 66 steps with a barrier each.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper
from ._launch import LANES
from ._memory import DIGIT_ABOVE, PARTNER_VALUE, bits_between, count_bits, lanes_with, sync_lanes
from ._sorting import add_up_threads

#: Bits of a digit.
DIGIT = LANES.bit_length() - 1
#: Elements of a list that a thread has, at most.
ITEMS = 4 if SIMULATED else 8
#: Runs of equal keys up to this length are put in order by a thread.
SHORT_RUN = 2 if SIMULATED else 16
lanes_with_digit = lanes_with(DIGIT + 1)


@cache
def spreader(key_bytes: int):
    """Return ``spread(low, high, ends)`` for keys of so many bytes."""
    partner_key, key = PARTNER_VALUE[8 * key_bytes], np.int32 if key_bytes == 4 else np.int64

    @helper
    def spread(low, high, ends):
        """Return the lowest and the highest of the keys that the threads have."""
        thread = np.int32(cuda.threadIdx.x)
        lanes = LANES >> 1
        while lanes > 0:
            low = min(low, partner_key(low, lanes))
            high = max(high, partner_key(high, lanes))
            lanes >>= 1
        if thread % LANES == 0:
            ends[2 * (thread // LANES)] = low
            ends[2 * (thread // LANES) + 1] = high
        cuda.syncthreads()
        warp = np.int32(0)
        while warp < np.int32(cuda.blockDim.x // LANES):
            low, high = min(low, key(ends[2 * warp])), max(high, key(ends[2 * warp + 1]))
            warp = np.int32(warp + 1)
        return low, high

    return spread


@cache
def sorter(key_bytes: int, place_bytes: int):
    """Return ``sort_keys`` and ``sort_lists`` for keys and places of so many bytes.

    Keys go from the highest to the lowest. The first sort leaves equal ones in the order in which they are, the second
    puts their places in order, which are not negative and not above a number. The caller sees to it that a list has no
    more than `ITEMS` elements for each thread.
    """
    key_digit, place_digit = DIGIT_ABOVE[8 * key_bytes], DIGIT_ABOVE[8 * place_bytes]
    key_type, place_type = (np.int32 if count == 4 else np.int64 for count in (key_bytes, place_bytes))

    @helper
    def digit_of(key, place, high, shift, by_place):
        if by_place:
            return np.int32(place_digit(place, 0, shift) & (LANES - 1))
        return np.int32(key_digit(high, key, shift) & (LANES - 1))

    @helper
    def move(keys, places, counts, sums, count, high, shift, by_place):
        """Move a list by a digit of its keys or places."""
        own_keys = cuda.local.array(ITEMS, key_type)
        own_places = cuda.local.array(ITEMS, place_type)
        ranks = cuda.local.array(ITEMS, np.int32)
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        warps = np.int32(threads // LANES)
        warp, lane = np.int32(thread // LANES), np.int32(thread % LANES)
        rows = np.int32((count + threads - 1) // threads)
        first = np.int32(warp * rows * LANES + lane)
        below = (np.int64(1) << lane) - 1
        counts[np.uint32(thread)] = 0
        for row in range(ITEMS):
            if row < rows:
                i = np.uint32(min(np.int32(first + row * LANES), np.int32(count - 1)))
                own_keys[row] = keys[i]
                own_places[row] = places[i]
        cuda.syncthreads()
        for row in range(ITEMS):
            if row < rows:
                inside = np.int32(first + row * LANES) < count
                digit = digit_of(own_keys[row], own_places[row], high, shift, by_place)
                same = lanes_with_digit(digit if inside else np.int32(LANES))
                at = np.uint32(digit * warps + warp)
                before = counts[at]
                sync_lanes()
                if inside and same & below == 0:
                    counts[at] = np.int32(before + count_bits(same))
                sync_lanes()
                ranks[row] = np.int32(before + count_bits(same & below))
        cuda.syncthreads()
        own = counts[np.uint32(thread)]
        until = np.int32(add_up_threads(sums, own))
        counts[np.uint32(thread)] = np.int32(until - own)
        cuda.syncthreads()
        for row in range(ITEMS):
            if row < rows and np.int32(first + row * LANES) < count:
                digit = digit_of(own_keys[row], own_places[row], high, shift, by_place)
                to = np.uint32(counts[np.uint32(digit * warps + warp)] + ranks[row])
                keys[to] = own_keys[row]
                places[to] = own_places[row]
        cuda.syncthreads()

    @helper
    def sort_by(keys, places, counts, sums, count, low, high, by_place):
        bits = bits_between(np.int64(low), np.int64(high))
        shift = np.int64(0)
        while shift < bits:
            move(keys, places, counts, sums, count, high, shift, by_place)
            shift += DIGIT

    @helper
    def sort_keys(
        keys,  # IN OUT
        places,  # IN OUT
        counts,  # IN OUT  (threads,) int32
        sums,  # IN OUT  (threads,) int32
        count,  # IN      up to `ITEMS` for each thread
        low,  # IN      the lowest key
        high,  # IN      the highest key
    ):
        sort_by(keys, places, counts, sums, count, low, high, False)

    @helper
    def order_runs(keys, places, count):
        """Put the places of equal keys in order; tell whether there are too many of them."""
        many = 0
        i = np.int32(cuda.threadIdx.x)
        while i < count:
            key = keys[np.uint32(i)]
            if i == 0 or keys[np.uint32(i - 1)] != key:
                until = np.int32(i + 1)
                while until < count and keys[np.uint32(until)] == key and until <= i + SHORT_RUN:
                    until = np.int32(until + 1)
                if until > i + SHORT_RUN:
                    many = 1
                else:
                    j = np.int32(i + 1)
                    while j < until:
                        place = places[np.uint32(j)]
                        to = j
                        while to > i and places[np.uint32(to - 1)] > place:
                            places[np.uint32(to)] = places[np.uint32(to - 1)]
                            to = np.int32(to - 1)
                        places[np.uint32(to)] = place
                        j = np.int32(j + 1)
            i = np.int32(i + cuda.blockDim.x)
        return cuda.syncthreads_or(many)

    @helper
    def sort_lists(
        keys,  # IN OUT
        places,  # IN OUT
        counts,  # IN OUT  (threads,) int32
        sums,  # IN OUT  (threads,) int32
        count,  # IN      up to `ITEMS` for each thread
        low,  # IN      the lowest key
        high,  # IN      the highest key
        most,  # IN      no place is higher
    ):
        turn = 0
        while turn < 2:
            if turn > 0:
                sort_by(keys, places, counts, sums, count, np.int64(0), most, True)
            sort_by(keys, places, counts, sums, count, low, high, False)
            turn += 1
            if turn < 2 and not order_runs(keys, places, count):
                turn = 2

    return sort_keys, sort_lists
