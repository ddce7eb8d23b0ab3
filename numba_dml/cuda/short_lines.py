"""The top-k kernels for many short lines: a thread each, its line in shared memory, its best in registers.

A network of minima and maxima keeps the best words: the same steps for every thread, whatever the data are. Keys of up
to 16 bits lie over their positions in a word, so that is all. Of wider ones the upper bits do, which nearly always tell
which are the best; if not, the network sees the lower ones in a second turn. Elements are looked at in groups of four:
only the members of the k best groups can be among the k best.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper, kernel
from ._groups import copies
from ._keys import key_type
from ._launch import BLOCK, LANES, Kernel
from ._memory import (
    ARRAY_TYPES,
    LANE_VALUE,
    LOAD_INDEX,
    SHARED_LOAD,
    SHARED_STORE,
    await_inputs,
    load_quad,
    shared_address,
    sync_lanes,
    unit_access,
)
from ._plan import number
from ._registers import (
    FLOAT_KEYS,
    FLOAT_ONES,
    group_steps,
    keep_best,
    keep_best_and_next,
    keys_over_places,
    listed_keys,
    merge_pairs,
    pick,
    shared_load,
    shared_store_all,
    shifted_unit,
    sort_numbers,
    sort_pairs,
    word_steps,
)
from .top_k import (
    DIMS,
    FLIP,
    HEADER,
    HIGH,
    INDEX_SIZE,
    LINES,
    LOW,
    OUT_STRIDE,
    ROOM,
    SEGMENT,
    SIZE,
    STAGING,
    STRIDE,
    K,
    line_bases,
    write_index,
)

#: Keys in the registers of a thread.
THREAD_LISTS = (1, 4, 8, 16)
#: How lines come into shared memory: by 16 bytes that are aligned in memory, and in lines too or not; by elements; or
#: each by its own thread, next to others.
WIDE, SHIFTED, NARROW, BESIDE = range(4)
#: What a thread has of its line at once, in bytes: the first number up to k = 8, but if keys are wide only for up to so
#: many lines, which are all worked on at once then; else the second. 65,536 lines of 128 float32, k = 8, take 0.020 ms
#: with 256 and 0.025 with 512, 1M 0.236 and 0.233, if all elements are equal 0.33 and 0.27; with k = 16 0.352 and 0.294
#: (an H100).
SEGMENT_BYTES = (16, 128) if SIMULATED else (256, 512)
AT_ONCE_LINES = 20 if SIMULATED else 20 * 32 * 132
#: Registers of a thread: if keys have up to 16 bits, or 32 and k is up to 8; and otherwise for the longest list. 4M
#: lines of 24 single bytes, k = 16, take 0.460 ms with 192, 0.374 with 96; 1M of 24 float32, k = 8, 0.096 with 102 and
#: 0.087 with 96; 524,288 of 24 float64, k = 16, 0.153 with 196, 0.126 with 168 (an H200).
SHORT_REGISTERS, MORE_REGISTERS = 96, 168
#: Threads of a block.
SHORT_BLOCK = BLOCK if SIMULATED else 64
#: Bytes of a segment from which on it is copied before keys are made, and not on its way, if its lines are aligned: 32M
#: int32 in lines of 24, k = 4, take 0.100 ms so and 0.086, of 64 0.063 and 0.065, of 100 0.061 and 0.067 (an H100).
LEAST_COPIED = 32 if SIMULATED else 256
#: Copies of 16 bytes that a thread begins together, and their power of two.
COPIES_AT_ONCE, COPY_BITS = (2, 1) if SIMULATED else (4, 2)
#: Loads of 16 bytes that a thread does together, and for how many of these it collects the elements of its own line.
QUADS_AT_ONCE, OWN_QUADS = (2, 1) if SIMULATED else (8, 4)
#: Loads of single elements that a thread does together.
ELEMENTS_AT_ONCE = 2 if SIMULATED else 8
#: Bits of the reciprocal that divides the number of an element by up to 2**10 columns: it is less than 2**15.
OF_COLUMNS = 26
#: Elements of a group, of more than two bytes each, and groups of a segment, at most.
GROUP, MOST_GROUPS = (2, 16) if SIMULATED else (4, 32)
#: Above all positions, for the lower half of a word.
PLACES = 0xFFFF
#: Of a pair that is none: what belongs to a position is above.
NONE = -(1 << 31)


def group_of(width: int, most: int) -> int:
    """Return how many elements go together: into the network, of keys of up to 16 bits; into a group, of others."""
    return max(16 // width, most) if width <= 2 else GROUP


def segment_of(width: int, most: int, size: int, lines: int) -> int:
    """Return how many elements of a line a thread has at once: all, or whole groups."""
    bytes_ = SEGMENT_BYTES[most > 8 or (width > 2 and lines > AT_ONCE_LINES)]
    return min(max(bytes_ // width, group_of(width, most), most), size)


def list_bytes(most: int, width: int) -> int:
    """Return the bytes of a list of the best, which is written by 16 bytes."""
    return max(most * width, 16)


def row_bytes(width: int, most: int, segment: int, staging: int) -> int:
    """Return the bytes of a thread's row in shared memory.

    There must be room for its part of the result; beside the keys for what lies before and behind a line in aligned
    units, 16 bytes; and if keys are wide for a group that is none, and the table of groups, which come when the units
    have been made keys. The lanes' rows begin in different banks: they are an odd multiple of 16 bytes.
    """
    group = group_of(width, most)
    keys = -(-segment // group) * group * width
    if width > 2:
        bytes_ = max(keys + group * width + list_bytes(most, 4), list_bytes(most, width) + list_bytes(most, 4))
    else:
        bytes_ = max(keys + 16 * (staging == SHIFTED), list_bytes(most, 4))
    return (-(-bytes_ // 16) | 1) * 16


@cache
def key_steps(width: int, infinity: int):
    """Return how to make keys of a word of elements, or of an element of 8 bytes; and an element's bits of its key.

    The latter also tells if these are the bits: zeros have one key, and so have NaNs. `infinity`: its bits, if the
    elements are floats.
    """
    key = key_type(width)
    lowest = np.iinfo(key).min
    sign = 1 << (8 * width - 1)
    words = sum(1 << shift for shift in range(0, 32, 8 * width))
    float_keys, one = FLOAT_KEYS.get(infinity), FLOAT_ONES.get(infinity, 0)
    signs = sign * words

    @helper
    def of_float(word, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)  # NaN comes last
        return float_keys(word, ((number(plan, FLIP) ^ turned) & signs) ^ one, turned)

    @helper
    def of_wide_float(bits, plan):
        flip, limit, of_nan = number(plan, FLIP), number(plan, FLIP + 1), number(plan, FLIP + 2)  # no load in a branch
        magnitude = np.int64(bits & (sign - 1))
        its_key = np.int64((-magnitude if bits < 0 else magnitude) ^ flip)
        return of_nan if magnitude > limit else its_key

    @helper
    def of_integers(word, plan):
        flip = number(plan, FLIP)
        if width < 4:
            flip = ((flip & (2 * sign - 1)) * words ^ (1 << 31)) - (1 << 31)
        return key(word ^ flip)

    @helper
    def float_of(key, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)
        y = np.int64(key) ^ turned
        bits = y ^ (sign - 1) if y < 0 else y
        return bits ^ ((number(plan, FLIP) ^ turned) & -sign), y != 0 and y != sign - 1

    @helper
    def wide_float_of(key, plan):
        y = key ^ number(plan, FLIP)
        return (-y ^ lowest if y < 0 else y), y != 0 and key != number(plan, FLIP + 2)

    @helper
    def integer_of(key, plan):
        return np.int64(key) ^ number(plan, FLIP), True

    if infinity == 0:
        return of_integers, integer_of
    return (of_wide_float, wide_float_of) if width == 8 else (of_float, float_of)


@cache
def staging(width: int, infinity: int):
    """Return how a warp brings a segment of its lines into shared memory, as keys: each lane's into its own row."""
    keys_of, _ = key_steps(width, infinity)
    load, store = LOAD_INDEX[f"int{8 * width}"], SHARED_STORE[8 * width]
    load_pair, _ = unit_access(16)
    copy, arrive = copies()
    shifted = shifted_unit(width)
    store_quad = shared_store_all(64, 2) if width == 8 else shared_store_all(32, 4)
    load_own = shared_load(64, 2) if width == 8 else shared_load(32, 4)
    address_of_lane = LANE_VALUE[64]
    of_quad = 16 // width
    word = np.int64 if width == 8 else np.int32
    of_word, words_of_quad = max(4 // width, 1), min(of_quad, 4)
    words_at_once = 4 * QUADS_AT_ONCE
    own_words = OWN_QUADS * words_of_quad
    own_at_once = OWN_QUADS * of_quad

    @helper
    def put_quad(to, a, b, c, d, plan):
        if width == 8:
            store_quad(to, (keys_of(a, plan), keys_of(b, plan)))
        else:
            store_quad(to, (keys_of(a, plan), keys_of(b, plan), keys_of(c, plan), keys_of(d, plan)))

    @helper
    def put(to, address, plan):
        store(to, np.int64(keys_of(load(address), plan)))

    @helper
    def put_own(to, quad, plan):
        if width == 8:
            put_quad(to, quad[0], quad[1], quad[0], quad[1], plan)
        else:
            put_quad(to, quad[0], quad[1], quad[2], quad[3], plan)

    # Neighbouring lanes bring neighbouring units, of one line after the other or of several lines at once.

    @helper
    def lanes_for(units):
        """Return the power of two, of lanes that share a line."""
        bits = np.int64(0)
        while (1 << bits) < min(units, LANES):
            bits += 1
        return bits

    @helper
    def stage_quads(tile, pitch, source, jump, first, columns, plan):
        addresses = cuda.local.array(QUADS_AT_ONCE, np.int64)
        rows = cuda.local.array(QUADS_AT_ONCE, np.int64)
        words = cuda.local.array(words_at_once, word)
        lane = np.int64(cuda.threadIdx.x % LANES)
        units = columns // of_quad
        bits = lanes_for(units)
        unit = lane & ((1 << bits) - 1)
        origin = address_of_lane(source, 0)
        for _ in range(0, units, 1 << bits):
            line = lane >> bits
            while line < LANES:
                for i in range(QUADS_AT_ONCE):
                    rows[i] = line & (LANES - 1)  # if few loads bring all lines, some come twice
                    line += LANES >> bits
                if jump != 0:
                    for i in range(QUADS_AT_ONCE):
                        addresses[i] = origin + rows[i] * jump
                else:
                    for i in range(QUADS_AT_ONCE):
                        addresses[i] = address_of_lane(source, rows[i])
                if unit < units:
                    for i in range(QUADS_AT_ONCE):
                        address = addresses[i] + first * width + 16 * unit
                        if width == 8:
                            words[4 * i], words[4 * i + 1] = load_pair(address)
                        else:
                            words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3] = load_quad(address)
                    for i in range(QUADS_AT_ONCE):
                        a, b, c, d = words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]
                        put_quad(tile + rows[i] * pitch + 16 * unit, a, b, c, d, plan)
            unit += 1 << bits

    @helper
    def copy_within(to, unit, low, high):
        """Copy a unit's elements between two addresses: around these there may be none."""
        for i in range(0, 16, width):
            if low <= unit + i and unit + i < high:
                store(to + i, np.int64(load(unit + i)))

    @helper
    def copy_units(tile, pitch, source, jump, size, low, high, is_aligned):
        """Copy all units of 16 bytes in which a lane's bytes lie, of which there are so many from `source` on.

        If they are not aligned, others come with them, but none that is outside the input, between two addresses.
        """
        lane = np.int64(cuda.threadIdx.x % LANES)
        beyond = 0 if is_aligned else 15
        bits = max(lanes_for((size + beyond + 15) // 16), np.int64(COPY_BITS))
        line, step = lane >> bits, LANES >> bits
        at = 16 * (lane & ((1 << bits) - 1))
        origin = address_of_lane(source, 0) + line * jump
        for _ in range(0, size + beyond, 16 << bits):
            if is_aligned and jump != 0:
                to, address = tile + line * pitch + at, origin + at
                if at < size:
                    for _ in range(0, 1 << bits, COPIES_AT_ONCE):
                        for i in range(COPIES_AT_ONCE):
                            copy(to + i * step * pitch, address + i * step * jump)
                        to += COPIES_AT_ONCE * step * pitch
                        address += COPIES_AT_ONCE * step * jump
            else:
                for i in range(1 << bits):
                    address = origin + i * step * jump if jump != 0 else address_of_lane(source, line + i * step)
                    unit, end = (address & -16) + at, address + size
                    if unit < end:
                        to = tile + (line + i * step) * pitch + at
                        if low <= unit and unit + 16 <= high:
                            copy(to, unit)
                        else:
                            copy_within(to, unit, low, high)
            at += 16 << bits
        arrive()

    @helper
    def keys_in_place(own, source, size, is_aligned, plan):
        """Put keys where the bytes of a lane's line are, or so many bytes before them."""
        if is_aligned:
            whole, end = own + size // 64 * 64, own + size
            while own < whole:
                p, q, r, s = load_own(own), load_own(own + 16), load_own(own + 32), load_own(own + 48)
                put_own(own, p, plan)
                put_own(own + 16, q, plan)
                put_own(own + 32, r, plan)
                put_own(own + 48, s, plan)
                own += 64
            while own < end:
                put_own(own, load_own(own), plan)
                own += 16
            return
        end = own + (size + 15) // 16 * 16
        shift = np.int32(source & 15)
        p = load_own(own)
        while own < end:
            q, r = load_own(own + 16), load_own(min(own + 32, end))
            put_own(own, shifted(p, q, shift), plan)
            if own + 16 < end:
                put_own(own + 16, shifted(q, r, shift), plan)
            own, p = own + 32, r

    @helper
    def stage_elements(tile, pitch, source, jump, first, columns, plan):
        addresses = cuda.local.array(ELEMENTS_AT_ONCE, np.int64)
        targets = cuda.local.array(ELEMENTS_AT_ONCE, np.int64)
        keys = cuda.local.array(ELEMENTS_AT_ONCE, word)
        stride = number(plan, STRIDE)
        origin = address_of_lane(source, 0) + first * stride
        of_columns = (1 << OF_COLUMNS) // columns + 1
        last = LANES * columns - 1
        begin = np.int64(cuda.threadIdx.x % LANES)
        for _ in range(0, last + 1, ELEMENTS_AT_ONCE * LANES):
            for i in range(ELEMENTS_AT_ONCE):
                item = min(begin + i * LANES, last)  # the last one may come more than once
                line = (item * of_columns) >> OF_COLUMNS  # item // columns
                column = item - line * columns
                if jump != 0:
                    addresses[i] = origin + line * jump + column * stride
                else:
                    addresses[i] = address_of_lane(source, line) + (first + column) * stride
                targets[i] = tile + line * pitch + column * width
            for i in range(ELEMENTS_AT_ONCE):
                keys[i] = load(addresses[i])
            for i in range(ELEMENTS_AT_ONCE):
                store(targets[i], np.int64(keys_of(keys[i], plan)))
            begin += ELEMENTS_AT_ONCE * LANES

    @helper
    def word_at(address, stride):
        """Return four bytes of elements that are not neighbours, or an element of eight."""
        if width >= 4:
            return load(address)
        bits = load(address + (of_word - 1) * stride)  # the sign is that of the last
        for i in range(of_word - 2, -1, -1):
            bits = bits << 8 * width | (load(address + i * stride) & ((1 << 8 * width) - 1))
        return bits

    @helper
    def stage_own(own, source, first, columns, plan):
        words = cuda.local.array(own_words, np.int64)
        stride = number(plan, STRIDE)
        address = source + first * stride
        whole = columns - columns % own_at_once
        for c in range(0, whole, own_at_once):
            for i in range(own_words):
                words[i] = word_at(address + i * of_word * stride, stride)
            address += own_at_once * stride
            for i in range(0, own_words, words_of_quad):
                a, b = words[i], words[i + 1]
                d, e = words[min(i + 2, own_words - 1)], words[min(i + 3, own_words - 1)]  # of eight bytes: none
                put_quad(own + c * width + 16 // words_of_quad * i, a, b, d, e, plan)
        for c in range(whole, columns):
            put(own + c * width, address, plan)
            address += stride

    return stage_quads, copy_units, keys_in_place, stage_elements, stage_own


@cache
def chosen_words(width: int, most: int):
    """Return how the best of a segment, of keys of up to 16 bits, get into a list of words."""
    group = group_of(width, most)
    load = shared_load(32, group * width // 4)
    join = keys_over_places(width, group)

    @helper
    def choose(best, own, first, columns):
        for c in range(0, columns, group):
            best = keep_best(best, join(load(own + c * width), PLACES - first - c))
        return best

    return choose


@cache
def chosen_pairs(width: int, most: int):
    """Return how the best of a segment get into lists of keys and of positions, which are negated.

    The k best are members of the k groups that have the best ones. The network works on words, upper bits of keys over
    labels. Where these bits do not tell which elements are among the k best, all with those of the k-th are equally
    good, as far as one can see, and those above surely are among them: the network works again on what they are above
    the lowest such key, over labels that follow the positions. That cannot fail.
    """
    bits, at_once, listed = 8 * width, max(most, 4), max(most // GROUP, 1)
    mask = max(MOST_GROUPS, GROUP * most) - 1
    shift, second = mask.bit_length(), min(1, most - 1)
    maxima, members = group_steps(bits, GROUP, at_once, listed)
    upper, within, labels, alike = word_steps(bits, mask)
    load_keys, store_table = listed_keys(bits, GROUP, most), shared_store_all(32, most)
    key = key_type(width)
    lowest, highest = np.iinfo(key).min, np.iinfo(key).max
    no_words, of_all_groups = (key(lowest),) * most, tuple(key(~i) for i in range(most))

    @helper
    def words_of(keys, is_exact, low, high, label):
        if is_exact:
            return within(keys, low, high, label)
        return upper(keys, label)

    @helper
    def choose(keys, places, own, table, first, columns, k):
        groups = (columns + GROUP - 1) // GROUP
        low, high, is_exact = key(0), key(0), False
        while True:
            beyond, numbers = key(lowest), labels(of_all_groups, groups)
            if groups > k:
                best, number = no_words, np.int64(0)
                while number < groups:
                    new = words_of(maxima(own, number, groups), is_exact, low, high, mask - number)
                    best, beyond = keep_best_and_next(best, beyond, new)
                    number += at_once
                if k < most:
                    beyond = pick(best, k)
                numbers = labels(best, groups)
                if is_exact:
                    numbers = sort_numbers(numbers, k, groups)
            store_table(table, numbers)
            words, after, number = no_words, key(lowest), np.int64(0)
            while number < min(k, groups):
                new = words_of(members(own, table + 4 * number), is_exact, low, high, mask - GROUP * number)
                words, after = keep_best_and_next(words, after, new)
                number += listed
            last = pick(words, k - 1)
            after = max(beyond, pick(words, k) if k < most else after)
            if is_exact or last > after | mask:
                break
            is_exact = True
            low, high = key(last & ~mask), key(last | mask)
            low, high = key(low - (low != lowest)), key(high + (high != highest))
        new_keys, new_places = load_keys(own, table, labels(words, mask), first)
        # Those above the highest such key may be out of order, and so may those whose upper bits agree.
        out_of_order = words[second] >> shift >= high - low if is_exact else alike(words)
        if out_of_order:
            new_keys, new_places = sort_pairs(new_keys, new_places)
        if first == 0:
            return new_keys, new_places
        return merge_pairs(keys, places, new_keys, new_places)

    return choose


@cache
def short_kernel(width: int, infinity: int, most: int) -> Kernel:
    """Return the kernel for many short lines, for the best `most` of each."""
    stage_quads, copy_units, keys_in_place, stage_elements, stage_own = staging(width, infinity)
    _, bits_of = key_steps(width, infinity)
    load, store = unit_access(width)
    is_wide = width > 2
    key = key_type(width)
    lowest = np.iinfo(key).min
    group = group_of(width, most)
    store_key = SHARED_STORE[8 * width]
    no_keys, no_places = (key(lowest),) * most, (np.int32(NONE),) * most
    choose = chosen_pairs(width, most) if is_wide else chosen_words(width, most)
    padding = lowest if is_wide else -(1 << (8 * width - 1))
    lane_value = LANE_VALUE[64]
    key_bytes = key(0).itemsize
    load_key, load_place = SHARED_LOAD[8 * key_bytes], SHARED_LOAD[32]
    store_keys, store_places = shared_store_all(8 * key_bytes, most), shared_store_all(32, most)
    store_group, no_group = shared_store_all(8 * key_bytes, group), (key(lowest),) * group
    places_at = list_bytes(most, key_bytes)
    width_bits = 8 * width
    words = ARRAY_TYPES[np.int64]

    longest = most == THREAD_LISTS[-1]
    few = width <= 2 or (width == 4 and not longest)

    @kernel(registers=SHORT_REGISTERS if few else MORE_REGISTERS if longest else None)
    def choose_from_short_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        await_inputs()
        thread = np.int64(cuda.threadIdx.x)
        lane = thread % LANES
        line = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + thread
        lines = number(plan, LINES)
        from_x, to = line_bases(plan, min(line, lines - 1))
        source = x + from_x
        size, k = number(plan, SIZE), number(plan, K)
        segment = number(plan, SEGMENT)
        pitch = number(plan, ROOM)
        tile = shared_address(cuda.shared.array(0, words)) + (thread - lane) * pitch
        own = tile + lane * pitch
        table = own + ((segment + group - 1) // group + 1) * group * width
        way = number(plan, STAGING)
        if way == WIDE and x & 15 != 0:
            way = np.int64(SHIFTED if is_wide else NARROW)  # that needs room, which is there beside wide keys
        # Lines at one distance from each other need no other lane's address, if all lanes have one.
        jump = np.int64(0)
        if number(plan, DIMS) == 1 and line - lane + LANES <= lines:
            jump = number(plan, HEADER + 3)
        keys, places = no_keys, no_places
        first = np.int64(0)
        while first < size:
            columns = min(segment, size - first)
            if way == WIDE and segment * width < LEAST_COPIED:
                stage_quads(tile, pitch, source, jump, first, columns, plan)
            elif way == WIDE or way == SHIFTED:
                low, high = x + number(plan, LOW), x + number(plan, HIGH)
                copy_units(tile, pitch, source + first * width, jump, columns * width, low, high, way == WIDE)
                sync_lanes()
                keys_in_place(own, source + first * width, columns * width, way == WIDE, plan)
            elif way == NARROW:
                stage_elements(tile, pitch, source, jump, first, columns, plan)
            else:
                stage_own(own, source, first, columns, plan)
            padded = (columns + group - 1) // group * group
            for c in range(columns, padded):
                store_key(own + c * width, padding)
            if is_wide:
                store_group(own + padded * width, no_group)
            sync_lanes()
            if is_wide:
                keys, places = choose(keys, places, own, table, first, columns, k)
            else:
                keys = choose(keys, own, first, columns)
            sync_lanes()
            first += segment
        store_keys(own, keys)
        if is_wide:
            store_places(own + places_at, places)
        sync_lanes()
        # Outputs that are neighbours are written by neighbouring lanes.
        step, index_size = number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        packed = step == 1 and number(plan, DIMS) == 1 and number(plan, HEADER + 4) == k
        distance = np.int64(0)
        if packed:
            source, to, distance = lane_value(source, 0), lane_value(to, 0), number(plan, HEADER + 3)
        here = lane if packed else np.int64(0)  # among the results of a warp, or of a lane
        end = k * (min(lines - line + lane, LANES) if packed else np.int64(line < lines))
        hop = np.int64(LANES if packed else 1)
        results = tile if packed else own
        of_k = (1 << 16) // k + 1
        value_at, index_at = values + (to + here * step) * width, indices + (to + here * step) * index_size
        while here < end:
            row = ((here & 0xFFF) * of_k) >> 16  # here // k, by a product of 32 bits
            j = here - row * k
            at = results + row * pitch
            one = load_key(at + j * key_bytes)
            if is_wide:
                position = -load_place(at + places_at + 4 * j)
            else:
                position = PLACES - (one & PLACES)
                one >>= 32 - width_bits
            bits, plain = bits_of(one, plan)
            if not plain:
                bits = load(source + row * distance + position * number(plan, STRIDE))[0]
            store(value_at, bits, 0)
            write_index(index_at, index_size, 0, position)
            here += hop
            value_at += hop * step * width
            index_at += hop * step * index_size

    return Kernel(choose_from_short_lines, 4, waits=True, shares=True)
