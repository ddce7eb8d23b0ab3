"""Stable sorts of lists in shared memory, by a block: a radix sort from the lowest digit on.

A list has a key for each element, and its place in 32 bits. In a pass a thread has neighbouring elements in registers
and counts their digits by itself, two counts in a word; the counts of all threads are added up, digit by digit and then
thread by thread, and tell where each element goes. 4096 keys of 32 bits take 8 such passes; a bitonic sort takes 78
steps with a barrier each, and digits of 5 bits that the lanes of a warp compare by votes took 1.6 times as long.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..bits import DIGIT_ABOVE, bits_between, half_word
from ..shared import SHARED_LOAD, SHARED_STORE_IF, load_word, shared_address, store_word
from ..warp import lane_word, sum_of_lanes
from .keys import key_type
from .sizes import SIZES

#: Bits of a digit, and the words in which a thread counts its elements by digits: the digits of the lower half of a
#: word's bits come before those of the upper half.
DIGIT = 4
WORDS = (1 << DIGIT) // 2
COLUMN = WORDS + 1  # see `count_bytes`
HALF = 16
#: Elements of a list that a thread has, at most. It has an odd number of them, so that those of neighbouring threads
#: lie in different banks of shared memory.
ITEMS = 9
#: How many of them it looks at without asking whether they are there.
TOGETHER = 3


def count_bytes(threads: int) -> int:
    """Return the bytes of the counts of a sort by a block's threads.

    The words of a thread are a column, in one bank of shared memory. They are added up row by row, by threads with as
    many neighbours each; with one row more, which counts nothing, this is an odd number, so that banks differ.
    """
    return 4 * COLUMN * threads


@cache
def run_sorter(comes_first):
    """Return ``order_runs(keys, places, count, known)``, by a function of two places and what is known of them.

    Runs are neighbours with equal keys. The places of those up to `SIZES.short_run` long are put in order; whether
    there are longer ones is what it returns.
    """

    @helper
    def order_runs(keys, places, count, known):
        many = 0
        i = np.int32(cuda.threadIdx.x)
        while i < count:
            key = keys[np.uint32(i)]
            if i == 0 or keys[np.uint32(i - 1)] != key:
                until = np.int32(i + 1)
                while until < count and keys[np.uint32(until)] == key and until <= i + SIZES.short_run:
                    until = np.int32(until + 1)
                if until > i + SIZES.short_run:
                    many = 1
                else:
                    j = np.int32(i + 1)
                    while j < until:
                        place = places[np.uint32(j)]
                        to = j
                        while to > i and comes_first(place, places[np.uint32(to - 1)], known):
                            places[np.uint32(to)] = places[np.uint32(to - 1)]
                            to = np.int32(to - 1)
                        places[np.uint32(to)] = place
                        j = np.int32(j + 1)
            i = np.int32(i + cuda.blockDim.x)
        return cuda.syncthreads_or(many)

    return order_runs


class Own(NamedTuple):
    """The elements of a thread, in registers."""

    keys: object
    places: object
    found: object  #: of each the digit and the rank among this thread's; then where it goes


@helper
def add_up(counts, sums):
    """Turn the counts of all threads, two in a word, into how many elements come before those that they count."""
    own_counts = cuda.local.array(COLUMN, np.int32)
    thread = np.int32(cuda.threadIdx.x)
    lane, warp = np.int32(thread % LANES), np.int32(thread // LANES)
    begin = counts + 4 * np.int64(np.int32(thread * COLUMN))
    own = np.int32(0)
    for word in range(COLUMN):
        own_counts[word] = load_word(begin + 4 * word)
        own = np.int32(own + own_counts[word])
    until = sum_of_lanes(own)
    if lane == LANES - 1:
        sums[np.uint32(warp)] = until
    cuda.syncthreads()
    of_warps = sum_of_lanes(sums[np.uint32(lane)] if lane < cuda.blockDim.x // LANES else np.int32(0))
    of_others = lane_word(of_warps, max(warp - 1, 0))
    # Before the digits of the upper half, which a word counts in its upper bits, come all of the lower half.
    before = np.int32((of_others if warp > 0 else np.int32(0)) + until)
    of_lower = np.int32(lane_word(of_warps, LANES - 1) & ((1 << HALF) - 1))
    before = np.int32(before - own + np.int32(of_lower << HALF))
    for word in range(COLUMN):
        store_word(begin + 4 * word, before)
        before = np.int32(before + own_counts[word])


@cache
def own_steps(key_bytes: int):
    """Return the steps of a pass on a thread's own elements: they are loaded, counted by digit, and stored.

    The digit begins at the bit `shift` of the difference between a key and the highest one, or of a place.
    """
    key_digit, place_digit = DIGIT_ABOVE[8 * key_bytes], DIGIT_ABOVE[32]
    load_key, store_key = SHARED_LOAD[64] if key_bytes == 8 else load_word, SHARED_STORE_IF[8 * key_bytes]
    store_place = SHARED_STORE_IF[32]

    @helper
    def digit_of(key, place, high, shift, by_place):
        if by_place:
            return np.int32(place_digit(place, 0, shift) & (2 * WORDS - 1))
        return np.int32(key_digit(high, key, shift) & (2 * WORDS - 1))

    @helper
    def load_own(keys, places, own, first, last, rows):
        for turn in range(0, ITEMS, TOGETHER):
            if turn < rows:
                for row in range(turn, turn + TOGETHER):
                    at = np.int64(min(np.int32(first + row), last))
                    own.keys[row] = load_key(keys + at * key_bytes)
                    own.places[row] = load_word(places + 4 * at)

    @helper
    def count_own(own, column, pitch, rows, there, high, shift, by_place):
        """Count a thread's elements by digit, and note the digit of each, and its rank among this thread's."""
        for turn in range(0, ITEMS, TOGETHER):
            if turn < rows:
                for row in range(turn, turn + TOGETHER):
                    its_digit = digit_of(own.keys[row], own.places[row], high, shift, by_place)
                    upper = np.int32(np.int32(its_digit << 1) & HALF)
                    at = column + np.int64(its_digit & (WORDS - 1)) * pitch
                    before = load_word(at)
                    one = (np.int32(1) << HALF) if upper != 0 else np.int32(1)
                    store_word(at, np.int32(before + np.int32(one if row < there else 0)))
                    own.found[row] = np.int32(np.int32(half_word(before, upper) << DIGIT) | its_digit)

    @helper
    def store_own(keys, places, own, column, pitch, rows, there):
        """Store a thread's elements where they go now."""
        found = own.found
        for turn in range(0, ITEMS, TOGETHER):
            if turn < rows:
                for row in range(turn, turn + TOGETHER):
                    upper = np.int32(np.int32(found[row] << 1) & HALF)
                    before = load_word(column + np.int64(found[row] & (WORDS - 1)) * pitch)
                    found[row] = np.int32(half_word(before, upper) + np.int32(found[row] >> DIGIT))
                for row in range(turn, turn + TOGETHER):
                    to = np.int64(found[row])
                    store_key(keys + to * key_bytes, own.keys[row], row, there)
                    store_place(places + 4 * to, own.places[row], row, there)

    return load_own, count_own, store_own


@cache
def list_mover(key_bytes: int):
    """Return ``move(keys, places, counts, sums, count, rows, high, shift, by_place)``: it moves a list by a digit.

    `keys`, `places`, `counts` are addresses in shared memory. `rows`: how many elements a thread has. Of the digit see
    `own_steps`.
    """
    load_own, count_own, store_own = own_steps(key_bytes)
    key = key_type(key_bytes)

    @helper
    def move(keys, places, counts, sums, count, rows, high, shift, by_place):
        own_keys = cuda.local.array(ITEMS, key)
        own_places = cuda.local.array(ITEMS, np.int32)
        found = cuda.local.array(ITEMS, np.int32)
        own = Own(own_keys, own_places, found)
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        first, last = np.int32(thread * rows), np.int32(count - 1)
        there = min(rows, np.int32(count - first))
        column, pitch = counts + 4 * np.int64(thread), 4 * np.int64(threads)
        for word in range(COLUMN):
            store_word(column + word * pitch, 0)
        load_own(keys, places, own, first, last, rows)
        count_own(own, column, pitch, rows, there, high, shift, by_place)
        cuda.syncthreads()
        add_up(counts, sums)
        cuda.syncthreads()
        store_own(keys, places, own, column, pitch, rows, there)
        cuda.syncthreads()

    return move


@cache
def sorter(key_bytes: int):
    """Return two sorts of lists for keys of a width, which go from the highest to the lowest.

    ``sort_digits(keys, places, counts, sums, count, high, bits, by_place)`` looks at the lower bits of the difference
    between a key and the highest one, or of places, and leaves elements that agree in these in the order in which they
    are. ``sort_lists(keys, places, counts, sums, count, low, high, most)`` puts the places of equal keys in order,
    which are not negative, and not above `most`. `counts`: `count_bytes` of shared memory. `sums`: an int32 for each
    warp. The caller sees to it that a list has no more than `ITEMS` elements for each thread.
    """
    move = list_mover(key_bytes)

    @helper
    def sort_digits(keys, places, counts, sums, count, high, bits, by_place):
        at_keys, at_places = np.int64(shared_address(keys)), np.int64(shared_address(places))
        at_counts = np.int64(shared_address(counts))
        threads = np.int32(cuda.blockDim.x)
        rows = np.int32(np.int32((count + threads - 1) // threads) | 1)
        shift = np.int64(0)
        while shift < bits:
            move(at_keys, at_places, at_counts, sums, count, rows, high, shift, by_place)
            shift += DIGIT

    order_runs = run_sorter(helper(lambda place, other, known: place < other))

    @helper
    def sort_lists(keys, places, counts, sums, count, low, high, most):
        bits, place_bits = bits_between(np.int64(low), np.int64(high)), bits_between(np.int64(0), most)
        turn = 0
        while turn < 3:  # by keys; and if that leaves many equal ones, by places, and by keys again
            by_place = turn == 1
            until = place_bits if by_place else bits
            sort_digits(keys, places, counts, sums, count, high, until, by_place)
            turn += 1
            if turn == 1 and not order_runs(keys, places, count, 0):
                turn = 3

    return sort_digits, sort_lists
