"""How a warp surveys a line, finds a bar that its k best elements reach, and lists what reaches it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..bits import bits_between, digit_above, raise_key
from ..shared import shared_address
from ..warp import lane_word, sum_of_lanes
from .keys import bar_tester, key_access, key_type, lowest_key
from .ranks import range_finder, word_lists
from .register_lists import count_reaching, keep_best, note_reaching, pick

#: Chunks of a lane: a chunk that reaches the bar is read again, but each takes a register. 16384 lines of 4096 float32
#: take 0.125 ms for k = 64, and 0.121 with 32 chunks; of float16 0.069 and 0.093.
CHUNKS = 16
CHUNK_BITS = CHUNKS.bit_length() - 1
#: The largest k, and the best chunks of a lane that tell where the bar lies.
MOST_K = 4 * LANES
LEADING = MOST_K // LANES


class Line(NamedTuple):
    """A line, as the lanes of its warp see it."""

    lane: object
    source: object  #: the address of its first element
    aligned: object  #: of the first whole unit
    head: object  #: elements before that
    whole: object  #: units
    tail: object  #: the first element behind them
    size: object
    last: object  #: the last element: what no lane needs is loaded all the same, and must be inside the line


class Lists(NamedTuple):
    """A warp's part of shared memory."""

    words: object  #: the listed elements: see `word_lists`
    places: object
    begin: object  #: where its list begins
    ids: object  #: the numbers of chunks that reach the bar
    first_id: object


@cache
def line_reader(width: int):
    """Return ``line_of(source, lane, size)``."""
    of_unit = 16 // width

    @helper
    def line_of(source, lane, size):
        head = np.int32((-source & 15) // width)
        whole = np.int32(np.int32(size - head) // of_unit)
        tail = np.int32(head + whole * of_unit)
        return Line(lane, source, source + np.int64(head) * width, head, whole, tail, size, np.int32(size - 1))

    return line_of


@cache
def surveyor(width: int, infinity: int, units: int):
    """Return ``survey(line, plan)``: a tuple of the best keys of a lane's chunks, the lowest key for one of no unit."""
    access = key_access(width, infinity)
    load_quad, best_of_quad, key, lowest = access.load_quad, access.best_of_quad, key_type(width), lowest_key(width)

    def surveyor_of(count):
        start = (count - 1) * units * LANES

        @helper
        def best_of_chunk(line, plan):
            first = np.int32(line.lane + start)
            begin = first if first < line.whole else np.int32(0)
            best = best_of_quad(load_quad(line.aligned + 16 * np.int64(begin)), plan)
            for j in range(1, units):
                unit = np.int32(first + LANES * j)
                address = line.aligned + 16 * np.int64(unit if unit < line.whole else begin)  # twice does no harm
                best = max(best, best_of_quad(load_quad(address), plan))
            return best if first < line.whole else key(lowest)

        if count == 1:
            return helper(lambda line, plan: (best_of_chunk(line, plan),))
        before = surveyor_of(count - 1)
        return helper(lambda line, plan: before(line, plan) + (best_of_chunk(line, plan),))

    return surveyor_of(CHUNKS)


@helper
def next_trial(low, high, bits):
    """Return the next key to be tried above `low`, and the exponent of the power of two that it is above it.

    That is the highest one below ``1 << bits`` that does not lead beyond `high`; `low` itself: none is left.
    """
    trial = np.int64(low)
    while bits > 0 and trial == low:
        bits -= 1
        if digit_above(np.int64(high), np.int64(low), bits) != 0:
            trial = raise_key(np.int64(low), 1, bits)
    return trial, bits


@cache
def bar_finder(width: int, infinity: int):
    """Return how a warp finds a bar.

    ``find_bar(maxima, k)``: a key that at least k elements reach, k chunks and few more if data allow; and the lane's
    best key. ``highest_of_line(high, line, plan)``: the highest key of a line, of which a lane knows that of its units.
    """
    key_at, key, lowest = key_access(width, infinity).key_at, key_type(width), lowest_key(width)
    leading_keys = (key(lowest),) * LEADING
    spread, _ = range_finder(key(0).itemsize)

    @helper
    def find_bar(maxima, k):
        # If every lane has j chunks that reach a key, they are j times the lanes, or more; if none has j, they are
        # fewer.
        best_keys = keep_best(leading_keys, maxima)
        own = pick(best_keys, (k - 1) // LANES)
        low, high = spread(own, own)
        bits = bits_between(np.int64(low), np.int64(high))
        found = np.int32(LANES * CHUNKS)
        while bits > 0 and found > k + (k >> 3):
            tried, bits = next_trial(low, high, bits)
            trial = key(tried)
            reached = lane_word(sum_of_lanes(count_reaching(maxima, trial)), LANES - 1)
            if trial != low and reached >= k:
                low, found = trial, reached
        return low, best_keys[0]

    @helper
    def highest_of_line(high, line, plan):
        for i in range(line.lane, line.head, LANES):
            high = max(high, key_at(line.source + min(i, line.last) * width, plan))
        for i in range(line.tail + line.lane, line.last + 1, LANES):
            high = max(high, key_at(line.source + min(i, line.last) * width, plan))
        return spread(high, high)[1]

    return find_bar, highest_of_line


@helper
def note_chunks(lists, lane, maxima, bar):
    """Note the chunks that reach a bar; return how many they are."""
    own = count_reaching(maxima, bar)
    until = sum_of_lanes(own)
    at = np.int64(shared_address(lists.ids)) + 2 * np.int64(lists.first_id + until - own)
    note_reaching(at, maxima, bar, np.int64(lane) << CHUNK_BITS)
    return lane_word(until, LANES - 1)


@cache
def lister(width: int, infinity: int, units: int):
    """Return ``list_reaching(lists, line, plan, bar, ties, count, most, limit)``.

    It adds the elements that reach a bar to `count` others, while there is room for `most`, and returns how many there
    are. It looks into the units of the listed chunks, which are `limit`. Of ties, elements that are equal to the bar,
    it lists those of all units until there is no more room.
    """
    access = key_access(width, infinity)
    key_at, put_keys, load_quad = access.key_at, access.put_keys, access.load_quad
    key, of_unit, reaching = key_type(width), 16 // width, bar_tester(16 // width)
    (put, _, _), unit_bits = word_lists(width), units.bit_length() - 1

    @helper
    def append(lists, count, most, some, found, first):
        """List what all lanes have found, lane by lane, while there is room; return how many there are."""
        own = np.int32(cuda.popc(found))
        until = sum_of_lanes(own)
        slot = np.int32(count + until - own)
        for j in range(of_unit):
            if found & np.uint32(1 << j) != 0:
                if slot < most:
                    put(lists.words, lists.places, lists.begin + slot, some[j], np.int32(first + j))
                slot = np.int32(slot + 1)
        return np.int32(count + lane_word(until, LANES - 1))

    @helper
    def append_ends(lists, line, plan, bar, ties, count, most, some, start, end):
        """The same for elements from one on and up to another, which lie in no whole unit."""
        while start < end:
            i = np.int32(start + line.lane)
            some[0] = key_at(line.source + np.int64(min(i, line.last)) * width, plan)
            hit = i < end and (some[0] == bar or (some[0] > bar and not ties))
            count = append(lists, count, most, some, np.uint32(1 if hit else 0), i)
            start = np.int32(start + LANES)
        return count

    @helper
    def unit_of_chunks(lists, item, limit):
        """Return the unit that has a number, of all in the listed chunks."""
        item = min(item, np.int32(limit - 1))
        chunk = np.int32(lists.ids[lists.first_id + (item >> unit_bits)])
        unit = np.int32(np.int32(chunk & (CHUNKS - 1)) << unit_bits) + np.int32(item & (units - 1))
        return np.int32(np.int32(chunk >> CHUNK_BITS) + LANES * unit)

    @helper
    def list_reaching(lists, line, plan, bar, ties, count, most, limit):
        some = cuda.local.array(of_unit, key)
        count = append_ends(lists, line, plan, bar, ties, count, most, some, 0, line.head)
        turn = np.int32(0)
        while turn < limit and not (ties and count >= most):
            item = np.int32(turn + line.lane)
            unit = item if ties else unit_of_chunks(lists, item, limit)
            inside = item < limit and unit < line.whole
            unit = min(unit, np.int32(line.whole - 1))
            put_keys(some, load_quad(line.aligned + 16 * np.int64(unit)), plan)
            found = reaching(some, bar, ties) if inside else np.uint32(0)
            count = append(lists, count, most, some, found, np.int32(line.head + unit * of_unit))
            turn = np.int32(turn + LANES)
        return append_ends(lists, line, plan, bar, ties, count, most, some, line.tail, line.size)

    return list_reaching
