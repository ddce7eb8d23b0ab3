"""The top-k kernel for many lines of middle length: a warp for each, which waits for no other.

The lanes of a warp read the units of a line, 16 bytes each, in turn. Each keeps the best key of every few of its units,
a chunk, in registers. A key that k chunks reach is a bar that the k best elements reach, and few others do; only chunks
that reach it are looked into again. What they have is listed, and sorted in registers.

Elements at the bar can be too many to list. Then the bar is raised, and at last those beyond it are listed, and the
first at it, in their order.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.access import LOAD_INDEX, load_quad, unit_access
from ..primitives.bits import bits_between, digit_above, raise_key
from ..primitives.plan import number
from ..primitives.ptx import await_inputs
from ..primitives.shared import shared_address
from ..primitives.top_k.keys import key_access, key_type
from ..primitives.top_k.lane_lists import PLACES, entry_access, lane_lists, lane_sorter, tuple_of
from ..primitives.top_k.plan import FLIP, INDEX_SIZE, LINES, OUT_STRIDE, SIZE, WARPS, K, line_bases
from ..primitives.top_k.register_lists import keep_best, note_reaching, pick
from ..primitives.top_k.short_rows import key_steps
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.writing import write_index
from ..primitives.warp import LANE_VALUE, PARTNER_VALUE, sum_of_lanes, sync_lanes

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
#: A unit as four words, or as two of 64 bits.
LOAD_WORDS = load_quad, unit_access(16)[0]


def sizes_for(size: int, k: int, width: int) -> tuple[int, int, int] | None:
    """Return the units of a chunk, the chunks of a lane, and its listed elements, if lines and k suit the kernel."""
    if k > MOST_K or size > most_places(width):
        return None
    whole = size * width // 16
    for chunks in (FEW_CHUNKS, CHUNKS) if k <= FEW else (CHUNKS,):
        for units in UNITS:
            if whole <= units * chunks * LANES:
                listed = next(count for most, count in LISTED.items() if k <= most)
                # An end of a line may lie in a unit in part. With twice as many chunks as needed, the bar is near.
                return (units, chunks, listed) if whole - 1 >= 2 * k * units else None
    return None


def most_places(width: int) -> int:
    """Return how many elements a line has at most, so that a listed one has room for its place."""
    return PLACES[np.int32 if width <= 2 else np.int64][1] + 1


@cache
def key_lists(width: int, infinity: int):
    """Return the key of an element, how to list those of 16 bytes, and the highest of the keys in a word.

    Keys are those of `key_steps`, without branches: of 16 and of 8 bits side by side in a word.
    """
    keys_of, _ = key_steps(width, infinity)
    load, count, key_bits = LOAD_INDEX[f"int{8 * width}"], max(4 // width, 1), 8 * width
    key, words = key_type(width), min(16 // width, 4)

    @helper
    def key_in(word, j):
        if width >= 4:
            return key(word)
        part = (np.int64(word) >> (key_bits * j)) & ((1 << key_bits) - 1)
        return key((part ^ (1 << (key_bits - 1))) - (1 << (key_bits - 1)))

    @helper
    def key_at(address, plan):
        return key_in(keys_of(load(address), plan), 0)

    @helper
    def put_keys(keys, quad, plan):
        for i in range(words):
            word = keys_of(quad[i], plan)
            for j in range(count):
                keys[count * i + j] = key_in(word, j)

    @helper
    def highest_in(word):
        best = key_in(word, 0)
        for j in range(1, count):
            best = max(best, key_in(word, j))
        return best

    @helper
    def highest_of_quad(quad, plan):
        best = highest_in(keys_of(quad[0], plan))
        for i in range(1, words):
            best = max(best, highest_in(keys_of(quad[i], plan)))
        return best

    return key_at, put_keys, keys_of, highest_in, highest_of_quad


@cache
def surveyor(width: int, infinity: int, by_words: bool, units: int, chunks: int):
    """Return ``survey(source, lane, whole, plan)``: the best key of each chunk of a lane.

    A line has so many whole units from `source` on. A chunk without any has the lowest key. `by_words`: the device's
    own maximum follows the rule.
    """
    load_words, words = LOAD_WORDS[width == 8], key_access(width, infinity != 0, FLIP).words
    _, _, keys_of, highest_in, highest_of_quad = key_lists(width, infinity)
    key = key_type(width)
    lowest = int(np.iinfo(key).min)

    if by_words:
        mask_of, best_of_unit, better, key_of_best = words

        @helper
        def key_of(best, mask, plan):
            return key_of_best(best, mask, plan) if width == 1 else highest_in(keys_of(np.int32(best ^ mask), plan))

    else:

        @helper
        def mask_of(plan):
            return plan

        @helper
        def best_of_unit(quad, plan):
            return highest_of_quad(quad, plan)

        @helper
        def better(a, b):
            return max(a, b)

        @helper
        def key_of(best, mask, plan):
            return best

    def bests_of(chunk):
        start = chunk * units * LANES

        @helper
        def best_of_chunk(source, lane, whole, plan, mask):
            first = np.int32(lane + start)
            begin = first if first < whole else np.int32(0)
            best = best_of_unit(load_words(source + 16 * np.int64(begin)), mask)
            for j in range(1, units):
                unit = np.int32(first + LANES * j)
                address = source + 16 * np.int64(unit if unit < whole else begin)  # a unit twice does no harm
                best = better(best, best_of_unit(load_words(address), mask))
            its_key = key_of(best, mask, plan)
            return its_key if first < whole else key(lowest)

        return best_of_chunk

    bests_of_chunks = tuple_of([bests_of(chunk) for chunk in range(chunks)])

    @helper
    def survey(source, lane, whole, plan):
        return bests_of_chunks(source, lane, whole, plan, mask_of(plan))

    return survey


@cache
def counter(chunks: int):
    """Return ``count(keys, bar)``: how many keys of a tuple reach a bar."""
    last = chunks - 1
    if last == 0:

        @helper
        def is_reached(keys, bar):
            return np.int32(1 if keys[0] >= bar else 0)

        return is_reached
    of_others = counter(last)

    @helper
    def count(keys, bar):
        return np.int32(of_others(keys, bar) + (1 if keys[last] >= bar else 0))

    return count


@cache
def warp_kernel(width: int, infinity: int, by_words: bool, units: int, chunks: int, listed: int) -> Kernel:
    """Return the kernel for chunks of so many units, so many of a lane, and so many listed elements of one.

    `infinity`: its bits, if the elements are floats. `by_words`: the device's own maximum follows the rule.
    """
    load_words = LOAD_WORDS[width == 8]
    key_at, put_keys, *_ = key_lists(width, infinity)
    word, put, get, _, place_of, *_ = entry_access(width)
    survey, reached_by = surveyor(width, infinity, by_words, units, chunks), counter(chunks)
    (sort_few, get_few, put_few), (sort_all, get_all, put_all) = (
        (lane_sorter(width, count), *lane_lists(width, count)) for count in (1, listed)
    )
    load, store = unit_access(width)
    key = key_type(width)
    key_bits = 8 * key(0).itemsize
    lowest = int(np.iinfo(key).min)
    leading_keys = (key(lowest),) * LEADING
    partner_key, lane_value = PARTNER_VALUE[key_bits], LANE_VALUE[32]
    note = note_reaching(key_bits, chunks)
    of_unit = 16 // width
    unit_bits, chunk_bits = units.bit_length() - 1, chunks.bit_length() - 1
    room = listed * LANES
    rooms, place_rooms = WARPS * room, WARPS * room if width == 8 else 1
    notes = LANES * chunks
    all_notes = WARPS * notes

    @helper
    def spread(low, high):
        """Return the lowest and the highest of what the lanes have."""
        mask = np.int32(LANES >> 1)
        while mask > 0:
            low, high = min(low, partner_key(low, mask)), max(high, partner_key(high, mask))
            mask = np.int32(mask >> 1)
        return low, high

    @helper
    def next_trial(low, high, bits):
        """Return the next key between two to be tried, `low` if none is left, and how many bits are below that step."""
        trial = low
        while bits > 0 and trial == low:
            bits -= 1
            if digit_above(np.int64(high), np.int64(low), bits) != 0:
                trial = key(raise_key(np.int64(low), 1, bits))
        return trial, bits

    @helper
    def find_bar(maxima, k):
        """Return a key that at least k elements reach, k chunks and few more if data allow; and the lane's best key.

        If every lane has j chunks that reach a key, they are j times the lanes, or more; if none has j, they are fewer.
        """
        leading = keep_best(leading_keys, maxima)
        own = pick(leading, (k - 1) // LANES)
        low, high = spread(own, own)
        bits = bits_between(np.int64(low), np.int64(high))
        found = np.int32(LANES * chunks)
        while bits > 0 and found > k + (k >> 3):
            trial, bits = next_trial(low, high, bits)
            reached = lane_value(sum_of_lanes(reached_by(maxima, trial)), LANES - 1)
            if trial != low and reached >= k:
                low, found = trial, reached
        return low, leading[0]

    @helper
    def highest_of_line(high, source, plan, lane, head, tail, last):
        """Return the highest key of a line, of which a lane knows that of its units."""
        for i in range(lane, head, LANES):
            high = max(high, key_at(source + min(i, last) * width, plan))
        for i in range(tail + lane, last + 1, LANES):
            high = max(high, key_at(source + min(i, last) * width, plan))
        return spread(high, high)[1]

    @helper
    def reaching(some, bar, ties):
        """Return, as bits, which keys of a unit reach a bar, or are equal to it."""
        found = np.uint32(0)
        for j in range(of_unit):
            if some[j] == bar or (some[j] > bar and not ties):
                found = np.uint32(found | np.uint32(1 << j))
        return found

    @helper
    def append(keys, places, begin, count, most, some, found, first):
        """List what all lanes have found, lane by lane, while there is room; return how many there are."""
        own = np.int32(cuda.popc(found))
        until = sum_of_lanes(own)
        slot = np.int32(count + until - own)
        for j in range(of_unit):
            if found & np.uint32(1 << j) != 0:
                if slot < most:
                    put(keys, places, begin + slot, some[j], np.int32(first + j))
                slot = np.int32(slot + 1)
        return np.int32(count + lane_value(until, LANES - 1))

    @helper
    def append_ends(keys, places, begin, count, most, some, source, plan, bar, ties, start, end, lane, last):
        """The same for elements from one on and up to another, which lie in no whole unit."""
        while start < end:
            i = np.int32(start + lane)
            some[0] = key_at(source + np.int64(min(i, last)) * width, plan)
            hit = i < end and (some[0] == bar or (some[0] > bar and not ties))
            count = append(keys, places, begin, count, most, some, np.uint32(1 if hit else 0), i)
            start = np.int32(start + LANES)
        return count

    @kernel(registers=64)
    def choose_by_warps(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        await_inputs()
        keys = cuda.shared.array(rooms, word)
        places = cuda.shared.array(place_rooms, np.int32)
        ids = cuda.shared.array(all_notes, np.int16)
        some = cuda.local.array(of_unit, key)
        lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES)
        line = np.int64(cuda.blockIdx.x) * WARPS + warp
        if line >= number(plan, LINES):
            return
        from_x, to = line_bases(plan, line)
        source = x + from_x
        size, k = np.int32(number(plan, SIZE)), np.int32(number(plan, K))
        last = np.int32(size - 1)  # loads of what no lane needs are moved before the question: they must stay inside
        head = np.int32((-source & 15) // width)  # elements before the first whole unit
        whole = np.int32(np.int32(size - head) // of_unit)
        tail = np.int32(head + whole * of_unit)
        aligned = source + np.int64(head) * width
        begin = np.int32(warp * room)
        first_note = np.int32(warp * notes)
        maxima = survey(aligned, lane, whole, plan)
        low, best = find_bar(maxima, k)
        trial = max(low, key(lowest + 1))  # the lowest key can be that of a chunk without a unit
        own = reached_by(maxima, trial)
        until = sum_of_lanes(own)
        hits = np.int32(lane_value(until, LANES - 1) << unit_bits)
        at = np.int64(shared_address(ids)) + 2 * np.int64(first_note + until - own)
        note(at, maxima, trial, np.int64(lane) << chunk_bits)

        # What reaches the bar is listed. If there is no room for it, the bar rises, to the next key first: often it is
        # equal elements that are too many. Once k elements reach a key, and fewer the next one, these are listed, and
        # then the first ones that have the key.
        high, bits = low, np.int64(-1)
        count, most, limit = np.int32(0), np.int32(room), hits
        ties = False
        if hits > 2 * units * k:
            ties = highest_of_line(best, source, plan, lane, head, tail, last) == low
        while True:
            sync_lanes()
            if ties:
                trial, most, limit = low, k, whole
            else:
                count = np.int32(0)
            count = append_ends(keys, places, begin, count, most, some, source, plan, trial, ties, 0, head, lane, last)
            turn = np.int32(0)
            while turn < limit and not (ties and count >= k):
                item = np.int32(turn + lane)
                inside = item < limit
                unit = item
                if not ties:
                    item = min(item, np.int32(limit - 1))
                    chunk = np.int32(ids[first_note + (item >> unit_bits)])
                    unit = np.int32(np.int32(chunk & (chunks - 1)) << unit_bits) + np.int32(item & (units - 1))
                    unit = np.int32(np.int32(chunk >> chunk_bits) + LANES * unit)
                inside = inside and unit < whole
                unit = min(unit, np.int32(whole - 1))
                put_keys(some, load_words(aligned + 16 * np.int64(unit)), plan)
                found = reaching(some, trial, ties) if inside else np.uint32(0)
                count = append(keys, places, begin, count, most, some, found, np.int32(head + unit * of_unit))
                turn = np.int32(turn + LANES)
            count = append_ends(
                keys, places, begin, count, most, some, source, plan, trial, ties, tail, size, lane, last
            )
            if ties or k <= count <= room:
                break
            if count < k and np.int64(trial) == np.int64(low) + 1:
                ties = True
            else:
                if count >= k:
                    low = trial
                if bits < 0:
                    high = highest_of_line(best, source, plan, lane, head, tail, last)
                    bits = bits_between(np.int64(low), np.int64(high))
                    trial = low
                else:
                    trial, bits = next_trial(low, high, bits)
                if trial == low and low < high:
                    trial = key(low + 1)
                elif trial == low:
                    ties, count = True, np.int32(0)
        count = min(count, most)

        sync_lanes()
        end = np.int32(begin + count)
        if count <= LANES:
            few = get_few(keys, places, np.int32(begin + lane), end)
            sync_lanes()
            put_few(sort_few(few, lane), keys, places, np.int32(begin + lane))
        else:
            all_ = get_all(keys, places, np.int32(begin + lane), end)
            sync_lanes()
            put_all(sort_all(all_, lane), keys, places, np.int32(begin + lane * listed))
        sync_lanes()
        step, index_size = number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        i = lane
        while i < k:
            place = min(place_of(get(keys, places, begin + i)), np.int64(last))
            at = to + np.int64(i) * step
            value = load(source + place * width)
            store(values + at * width, value[0], value[1])
            write_index(indices, index_size, at, place)
            i = np.int32(i + LANES)

    return Kernel(choose_by_warps, 4, waits=True)
