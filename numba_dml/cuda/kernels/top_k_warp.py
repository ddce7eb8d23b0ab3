"""The top-k kernel for many lines of middle length: a warp for each, which waits for no other.

The lanes of a warp read the units of a line, 16 bytes each, in turn. Each keeps the best key of every few of its units,
a chunk, in registers. A key that k chunks reach is a bar that the k best elements reach, and few others do; only chunks
that reach it are looked into again. What they have is listed, and each listed element ranked by all others.

Elements at the bar can be too many to list. Then the bar is raised, and at last those beyond it are listed, and the
first at it, in their order.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import LANES, WARPS, cuda
from ..primitives.bits import bits_between
from ..primitives.plan import number
from ..primitives.ptx import await_inputs
from ..primitives.top_k import warp_lists
from ..primitives.top_k.keys import key_type, lowest_key
from ..primitives.top_k.plan import LINES, OUT_STRIDE, SIZE, K, line_bases, result_copier
from ..primitives.top_k.ranks import RANKED_TOGETHER, word_access, word_lists
from ..primitives.top_k.warp_lists import CHUNKS, MOST_K, Lists, next_trial, note_chunks
from ..primitives.warp import sync_lanes

#: Units of a chunk.
UNITS = (1, 2, 4)
#: How many elements of each lane can be listed.
LISTED = 8
ROOM, NOTES = LISTED * LANES, CHUNKS * LANES


def units_for(size: int, k: int, width: int) -> int:
    """Return the units of a chunk, 0: lines or k do not suit the kernel."""
    whole = size * width // 16
    units = next((units for units in UNITS if whole <= units * NOTES), 0)
    # An end of a line may lie in a unit in part. With twice as many chunks as needed, the bar is near. Words of narrow
    # keys have 16 bits for places.
    fits = 0 < k <= MOST_K and whole - 1 >= 2 * k * units and (width > 2 or size <= 1 << 16)
    return units if fits else 0


@cache
def best_lister(width: int, infinity: int, units: int):
    """Return ``list_best(lists, line, plan, low, best, hits, k)``: how many elements are listed.

    `low`: the bar. `best`: the best key of a lane's units. `hits`: units of the chunks that reach the bar.
    """
    _, highest_of_line = warp_lists.bar_finder(width, infinity)
    list_reaching = warp_lists.lister(width, infinity, units)
    key, lowest = key_type(width), lowest_key(width)

    @helper
    def list_best(lists, line, plan, low, best, hits, k):
        # What reaches the bar is listed. If there is no room for it, the bar rises, to the next key first: often it is
        # equal elements that are too many. Once k elements reach a key, and fewer the next one, these are listed, and
        # then the first ones that have the key.
        trial = max(low, key(lowest + 1))  # the lowest key can be that of a chunk without a unit
        high, bits = low, np.int64(-1)
        room = np.int32(ROOM // 2 if k <= MOST_K // 2 else ROOM)  # longer lists are ranked more slowly
        count, most, limit = np.int32(0), room, hits
        ties = False
        if hits > 2 * units * k:
            ties = highest_of_line(best, line, plan) == low
        while True:
            sync_lanes()
            if ties:
                trial, most, limit = low, k, line.whole
            else:
                count = np.int32(0)
            count = list_reaching(lists, line, plan, trial, ties, count, most, limit)
            if ties or k <= count <= room:
                break
            if count < k and np.int64(trial) == np.int64(low) + 1:
                ties = True
            else:
                if count >= k:
                    low = trial
                if bits < 0:
                    high = highest_of_line(best, line, plan)
                    bits = bits_between(np.int64(low), np.int64(high))
                    trial = low
                else:
                    tried, bits = next_trial(low, high, bits)
                    trial = key(tried)
                if trial == low and low < high:
                    trial = key(low + 1)
                elif trial == low:
                    ties, count = True, np.int32(0)
        return min(count, most)

    return list_best


@cache
def best_writer(width: int):
    """Return ``write_best(lists, line, plan, values, indices, to, count)``: it ranks the listed elements."""
    copy_result, (_, place_of, rank_own) = result_copier(width), word_lists(width)

    @helper
    def write_best(lists, line, plan, values, indices, to, count):
        ranks = cuda.local.array(RANKED_TOGETHER, np.int32)
        k, step = np.int32(number(plan, K)), number(plan, OUT_STRIDE)
        first = np.int32(0)
        while first < count:
            rank_own(lists.words, lists.places, lists.begin, count, first, line.lane, ranks)
            for j in range(RANKED_TOGETHER):
                i = np.int32(first + line.lane + j * LANES)
                if i < count and ranks[j] < k:
                    place = place_of(lists.words, lists.places, lists.begin + i)
                    at = to + np.int64(ranks[j]) * step
                    copy_result(values, indices, plan, at, line.source + place * width, place)
            first = np.int32(first + RANKED_TOGETHER * LANES)

    return write_best


@cache
def warp_kernel(width: int, infinity: int, units: int) -> Kernel:
    """Return the kernel for a number of units of a chunk."""
    survey, line_of = warp_lists.surveyor(width, infinity, units), warp_lists.line_reader(width)
    find_bar, _ = warp_lists.bar_finder(width, infinity)
    list_best, write_best = best_lister(width, infinity, units), best_writer(width)
    key, lowest, unit_bits = key_type(width), lowest_key(width), units.bit_length() - 1
    (word, *_), rooms, all_notes = word_access(width), WARPS * ROOM, WARPS * NOTES
    place_rooms = rooms if width == 8 else 1

    def choose_by_warps(x, values, indices, plan):
        await_inputs()
        words = cuda.shared.array(rooms, word)
        places = cuda.shared.array(place_rooms, np.int32)
        ids = cuda.shared.array(all_notes, np.int16)
        lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES)
        number_of_line = np.int64(cuda.blockIdx.x) * WARPS + warp
        if number_of_line >= number(plan, LINES):
            return
        from_x, to = line_bases(plan, number_of_line)
        line = line_of(x + from_x, lane, np.int32(number(plan, SIZE)))
        k = np.int32(number(plan, K))
        lists = Lists(words, places, np.int32(warp * ROOM), ids, np.int32(warp * NOTES))
        maxima = survey(line, plan)
        low, best = find_bar(maxima, k)
        hits = np.int32(note_chunks(lists, lane, maxima, max(low, key(lowest + 1))) << unit_bits)
        count = list_best(lists, line, plan, low, best, hits, k)
        sync_lanes()
        write_best(lists, line, plan, values, indices, to, count)

    return Kernel(choose_by_warps, 4, waits=True, registers=64)
