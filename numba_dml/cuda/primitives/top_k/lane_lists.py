"""Lists of the best that the lanes of a warp hold: how elements are listed, compared, and sorted from lane to lane."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES
from ..warp import PARTNER_VALUE, sync_lanes
from .keys import key_type

#: Half of a word of 32 bits, or of 64, is for a place: this many elements at most are counted down there.
PLACES = {np.int32: (16, 0xFFFF), np.int64: (32, 0x7FFFFFFF)}


def tuple_of(parts):
    """Return a function that returns the tuple of what some functions return for the same arguments."""
    *before, last = parts
    if not before:

        @helper
        def one(*args):
            return (last(*args),)

        return one
    others = tuple_of(before)

    @helper
    def all_of(*args):
        return others(*args) + (last(*args),)

    return all_of


@cache
def entry_access(width: int):
    """Return how a listed element is written, read, and compared: a key over a place, or both, side by side.

    ``chosen(a, b, first)`` is the one that comes first, or else the other one; `nothing` comes after all elements.
    """
    key = key_type(width)
    lowest = int(np.iinfo(key).min)
    if width == 8:
        end = PLACES[np.int64][1]
        partner_key, partner_place = PARTNER_VALUE[64], PARTNER_VALUE[32]

        @helper
        def put(keys, places, at, its_key, place):
            keys[at], places[at] = its_key, place

        @helper
        def get(keys, places, at):
            return keys[at], places[at]

        @helper
        def nothing():
            return key(lowest), np.int32(end)

        @helper
        def place_of(entry):
            return np.int64(entry[1])

        @helper
        def chosen(a, b, first):
            before = a[0] > b[0] or (a[0] == b[0] and a[1] < b[1])
            return a if before == first else b

        @helper
        def partner_of(entry, mask):
            return partner_key(entry[0], mask), partner_place(entry[1], mask)

        return np.int64, put, get, nothing, place_of, chosen, partner_of
    word = np.int32 if width <= 2 else np.int64
    shift, end = PLACES[word]
    least = int(np.iinfo(word).min)

    @helper
    def put_word(words, _, at, its_key, place):
        words[at] = word((np.int64(its_key) << shift) + (end - np.int64(place)))

    @helper
    def get_word(words, _, at):
        return words[at]

    @helper
    def no_word():
        return word(least)

    @helper
    def place_in_word(entry):
        return end - (np.int64(entry) & end)

    @helper
    def chosen_word(a, b, first):
        return a if (a > b) == first else b

    return word, put_word, get_word, no_word, place_in_word, chosen_word, PARTNER_VALUE[2 * shift]


@cache
def lane_sorter(width: int, count: int):
    """Return ``sort(entries, lane)``: a tuple of each lane, brought in order from lane to lane (bitonic)."""
    *_, chosen, partner_of = entry_access(width)

    def across(i):
        @helper
        def with_partner(entries, mask, first):
            return chosen(entries[i], partner_of(entries[i], mask), first)

        return with_partner

    def within(i, step, turned):
        j, is_lower = i ^ step, (i & step == 0) != turned

        @helper
        def with_neighbour(entries, _, first):
            return chosen(entries[i], entries[j], first == is_lower)

        return with_neighbour

    def chain(stages):
        """Return the stages, one after the other; the first one may be all."""
        *before, last = stages
        if not before:
            return last
        earlier = chain(before)

        @helper
        def both(entries, mask, first):
            return last(earlier(entries, mask, first), mask, first)

        return both

    def merge(span):
        """Return the stages that bring parts that rise and fall in one order, the next ones in the other."""
        steps = [span >> i for i in range(1, span.bit_length())]
        return [tuple_of([within(i, step, i & span != 0) for i in range(count)]) for step in steps]

    merge_lanes = tuple_of([across(i) for i in range(count)])
    merge_own = chain(merge(count)) if count > 1 else None
    spans = [1 << i for i in range(1, count.bit_length() - 1)]
    sort_parts = chain([stage for span in spans for stage in merge(span)]) if spans else None

    @helper
    def sort(entries, lane):
        if sort_parts is not None:
            entries = sort_parts(entries, 0, True)
        if merge_own is not None:
            entries = merge_own(entries, 0, lane & 1 == 0)
        span = np.int32(2)
        while span <= LANES:
            first = lane & span == 0
            step = np.int32(span >> 1)
            while step > 0:
                entries = merge_lanes(entries, step, (lane & step == 0) == first)
                step = np.int32(step >> 1)
            if merge_own is not None:
                entries = merge_own(entries, 0, first)
            span = np.int32(span << 1)
        return entries

    return sort


@cache
def lane_lists(width: int, count: int):
    """Return how a lane gets listed elements, each from another part of a list, and how it puts them back."""
    _, _, get, nothing, *_ = entry_access(width)

    def getter(j):
        @helper
        def get_one(keys, places, at, end):
            i = np.int32(at + LANES * j)
            return get(keys, places, i) if i < end else nothing()

        return get_one

    def putter(j):
        @helper
        def put_one(entries, keys, places, at):
            if width == 8:
                keys[at + j], places[at + j] = entries[j]
            else:
                keys[at + j] = entries[j]

        return put_one

    return tuple_of([getter(j) for j in range(count)]), tuple_of([putter(j) for j in range(count)])


@cache
def part_sorter(width: int, of_lane: int):
    """Return ``sort_part(keys, places, begin, count, lane)``, of the listed elements of all lanes."""
    sort, (get, put) = lane_sorter(width, of_lane), lane_lists(width, of_lane)

    @helper
    def sort_part(keys, places, begin, count, lane):
        entries = get(keys, places, np.int32(begin + lane), np.int32(begin + count))
        sync_lanes()
        put(sort(entries, lane), keys, places, np.int32(begin + lane * of_lane))

    return sort_part


@cache
def list_sorter(width: int, listed: int):
    """Return the same for up to `listed` elements of each lane, which takes few steps if there is one of each."""
    sort_few, sort_all = part_sorter(width, 1), part_sorter(width, listed)

    @helper
    def sort_list(keys, places, begin, count, lane):
        if count <= LANES:
            sort_few(keys, places, begin, count, lane)
        else:
            sort_all(keys, places, begin, count, lane)

    return sort_list
