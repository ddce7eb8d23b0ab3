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

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.access import unit_access
from ..primitives.bits import bits_between
from ..primitives.plan import number
from ..primitives.ptx import await_inputs
from ..primitives.shared import shared_address
from ..primitives.top_k.keys import key_type, lowest_key
from ..primitives.top_k.plan import INDEX_SIZE, LINES, OUT_STRIDE, SIZE, WARPS, K, line_bases, write_index
from ..primitives.top_k.ranks import rank_of
from ..primitives.top_k.register_lists import count_reaching, note_reaching
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.warp_lists import Lists, bar_finder, line_reader, lister, next_trial, surveyor
from ..primitives.warp import LANE_VALUE, sum_of_lanes, sync_lanes

#: Units of a chunk, and chunks of a lane; few suffice for a small k. A chunk that reaches the bar is read again, but
#: each takes a register: 16384 lines of 4096 float32 take 0.125 ms for k = 64, and 0.121 with 32 chunks; of float16
#: 0.069 and 0.093.
UNITS = (1, 2, 4, 8)
FEW_CHUNKS, CHUNKS = 8, 16
#: The largest k for few chunks; and, by the largest k, how many elements of each lane can be listed.
FEW = SIZES.few_chunks_k
LISTED = {2 * LANES: 4, 4 * LANES: 8}
MOST_K = max(LISTED)
#: The best chunks of a lane that tell where the bar lies.
LEADING = MOST_K // LANES
lane_value = LANE_VALUE[32]


def sizes_for(size: int, k: int, width: int) -> tuple[int, int, int] | None:
    """Return the units of a chunk, the chunks of a lane, and its listed elements, if lines and k suit the kernel."""
    if k > MOST_K:
        return None
    whole = size * width // 16
    for chunks in (FEW_CHUNKS, CHUNKS) if k <= FEW else (CHUNKS,):
        for units in UNITS:
            if whole <= units * chunks * LANES:
                listed = next(count for most, count in LISTED.items() if k <= most)
                # An end of a line may lie in a unit in part. With twice as many chunks as needed, the bar is near.
                return (units, chunks, listed) if whole - 1 >= 2 * k * units else None
    return None


@cache
def best_lister(width: int, infinity: int, units: int, chunks: int, room: int):
    """Return ``list_best(lists, line, plan, low, best, hits, k)``: how many elements are listed.

    `low`: the bar. `best`: the best key of a lane's units. `hits`: units of the chunks that reach the bar.
    """
    _, highest_of_line = bar_finder(width, infinity, chunks, LEADING)
    list_reaching = lister(width, infinity, units, chunks)
    key, lowest = key_type(width), lowest_key(width)

    @helper
    def list_best(lists, line, plan, low, best, hits, k):
        # What reaches the bar is listed. If there is no room for it, the bar rises, to the next key first: often it is
        # equal elements that are too many. Once k elements reach a key, and fewer the next one, these are listed, and
        # then the first ones that have the key.
        trial = max(low, key(lowest + 1))  # the lowest key can be that of a chunk without a unit
        high, bits = low, np.int64(-1)
        count, most, limit = np.int32(0), np.int32(room), hits
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
    load, store = unit_access(width)

    @helper
    def write_best(lists, line, plan, values, indices, to, count):
        k, step, index_size = np.int32(number(plan, K)), number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        i = line.lane
        while i < count:
            place = lists.places[lists.begin + i]
            rank = rank_of(lists.keys, lists.places, lists.begin, count, lists.keys[lists.begin + i], place)
            if rank < k:
                at = to + np.int64(rank) * step
                value = load(line.source + np.int64(place) * width)
                store(values + at * width, value[0], value[1])
                write_index(indices, index_size, at, np.int64(place))
            i = np.int32(i + LANES)

    return write_best


@cache
def warp_kernel(width: int, infinity: int, units: int, chunks: int, listed: int) -> Kernel:
    """Return the kernel for a number of units of a chunk, of chunks of a lane, and of listed elements of a lane."""
    survey, line_of, write_best = surveyor(width, infinity, units, chunks), line_reader(width), best_writer(width)
    find_bar, _ = bar_finder(width, infinity, chunks, LEADING)
    room, notes = listed * LANES, LANES * chunks
    list_best = best_lister(width, infinity, units, chunks, room)
    key, lowest = key_type(width), lowest_key(width)
    rooms, all_notes = WARPS * room, WARPS * notes
    unit_bits, chunk_bits = units.bit_length() - 1, chunks.bit_length() - 1

    @helper
    def note_chunks(lists, lane, maxima, bar):
        """Note the chunks that reach a bar; return how many units they have."""
        own = count_reaching(maxima, bar)
        until = sum_of_lanes(own)
        at = np.int64(shared_address(lists.ids)) + 2 * np.int64(lists.first_id + until - own)
        note_reaching(at, maxima, bar, np.int64(lane) << chunk_bits)
        return np.int32(lane_value(until, LANES - 1) << unit_bits)

    @kernel(registers=64)
    def choose_by_warps(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        await_inputs()
        keys = cuda.shared.array(rooms, key)
        places = cuda.shared.array(rooms, np.int32)
        ids = cuda.shared.array(all_notes, np.int16)
        lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES)
        number_of_line = np.int64(cuda.blockIdx.x) * WARPS + warp
        if number_of_line >= number(plan, LINES):
            return
        from_x, to = line_bases(plan, number_of_line)
        line = line_of(x + from_x, lane, np.int32(number(plan, SIZE)))
        k = np.int32(number(plan, K))
        lists = Lists(keys, places, np.int32(warp * room), ids, np.int32(warp * notes))
        maxima = survey(line, plan)
        low, best = find_bar(maxima, k)
        hits = note_chunks(lists, lane, maxima, max(low, key(lowest + 1)))
        count = list_best(lists, line, plan, low, best, hits, k)
        sync_lanes()
        write_best(lists, line, plan, values, indices, to, count)

    return Kernel(choose_by_warps, 4, waits=True)
