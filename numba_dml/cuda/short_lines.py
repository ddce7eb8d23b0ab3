"""The top-k kernels for many short lines: a thread each, its line in shared memory, its best in registers.

A network of minima and maxima keeps the best keys: the same steps for every thread, whatever the data are. Keys of up
to 16 bits lie over their positions in a word, so that is all. Wider ones go through it alone; it tells which key the
k-th best is, and a second look finds the few that reach it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper, kernel
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
    keep_best,
    keep_best_pairs,
    keys_over_places,
    note_reaching,
    noted_keys,
    pick,
    shared_load,
    shared_store_all,
)
from .top_k import (
    DIMS,
    FLIP,
    HEADER,
    INDEX_SIZE,
    LINES,
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
#: How lines come into shared memory: by 16 bytes, by elements, or each by its own thread, next to others.
WIDE, NARROW, BESIDE = range(3)
#: What a thread has of its line at once, in bytes: for lists of up to 8, and longer ones. 1M lines of 128 float32 with
#: k = 8 take 0.25 ms with 256 and with 512, 0.30 with 128; with k = 1 0.17, 0.25, 0.17; 300k of 1000 with k = 16 0.75,
#: 0.66, 1.13.
SEGMENT_BYTES = (16, 32) if SIMULATED else (256, 512)
#: Registers of a thread, if those suffice: with 80, 88 and 96 1M lines of 128 float32 with k = 8 take 0.262, 0.258
#: and 0.244 ms, with k = 4 0.200, 0.196 and 0.194; but of 129, which come element by element, 0.50 with 80 and 0.53
#: with 96.
SHORT_REGISTERS = 96
#: Threads of a block.
SHORT_BLOCK = BLOCK if SIMULATED else 64
#: Loads of 16 bytes that a thread does together, and for how many of these it collects the elements of its own line.
QUADS_AT_ONCE, OWN_QUADS = (2, 1) if SIMULATED else (8, 4)
#: Loads of single elements that a thread does together.
ELEMENTS_AT_ONCE = 2 if SIMULATED else 8
#: Bits of the reciprocal that divides the number of an element by up to 2**10 columns: it is less than 2**15.
OF_COLUMNS = 26
#: Above all positions, for the lower half of a word.
PLACES = 0xFFFF
#: Of a pair that is none: what belongs to a position is above.
NONE = -(1 << 31)


def group_of(width: int, most: int) -> int:
    """Return how many elements go into the network at once: 16 bytes or more."""
    return max(16 // width, most)


def segment_of(width: int, most: int, size: int) -> int:
    """Return how many elements of a line a thread has at once: all, or whole groups."""
    return min(max(SEGMENT_BYTES[most > 8] // width, group_of(width, most)), size)


def list_bytes(most: int, width: int) -> int:
    """Return the bytes of a list of the best, which is written by 16 bytes."""
    return max(most * width, 16)


def row_bytes(width: int, most: int, segment: int) -> int:
    """Return the bytes of a thread's row in shared memory.

    There must be room for its part of the result, and beside the keys for notes. The lanes' rows begin in different
    banks: they are an odd multiple of 16 bytes.
    """
    group = group_of(width, most)
    keys = -(-segment // group) * group * width
    if width > 2:
        bytes_ = max(keys + most + group, list_bytes(most, width) + list_bytes(most, 4))
    else:
        bytes_ = max(keys, list_bytes(most, 4))
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
    store_quad = shared_store_all(64, 2) if width == 8 else shared_store_all(32, 4)
    address_of_lane = LANE_VALUE[64]
    of_quad = 16 // width
    word = np.int64 if width == 8 else np.int32
    words_at_once = 4 * QUADS_AT_ONCE
    of_word, words_of_quad = max(4 // width, 1), min(of_quad, 4)
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

    return stage_quads, stage_elements, stage_own


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
    """Return how the best of a segment get into lists of keys and of positions, which are negated."""
    group = group_of(width, most)
    bits = 8 * width
    load, note, noted = shared_load(bits, group), note_reaching(bits, group), noted_keys(bits, most)
    key = key_type(width)
    lowest, highest = key(np.iinfo(key).min), np.iinfo(key).max

    @helper
    def choose(keys, places, own, notes, first, columns, k):
        tops = keys
        for c in range(0, columns, group):
            tops = keep_best(tops, load(own + c * width))
        bar = pick(tops, k - 1)  # what all that can be among the best k reach
        c = np.int64(0)
        while c < columns:
            if pick(places, k - 1) != NONE:  # a later one must be better than the k-th
                if pick(keys, k - 1) == highest:
                    break
                bar = max(bar, key(pick(keys, k - 1) + 1))
            # There are more than k only if some are equal; then most of them are left out in the next round.
            end = notes
            while c < columns and end - notes <= k:
                end = note(end, load(own + c * width), bar, c)
                c += group
            start = notes
            while start < end:
                new_keys, new_places = noted(start, end, own, lowest, first)
                keys, places = keep_best_pairs(keys, places, new_keys, new_places)
                start += most
        return keys, places

    return choose


@cache
def short_kernel(width: int, infinity: int, most: int) -> Kernel:
    """Return the kernel for many short lines, for the best `most` of each."""
    stage_quads, stage_elements, stage_own = staging(width, infinity)
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
    places_at = list_bytes(most, key_bytes)
    width_bits = 8 * width
    words = ARRAY_TYPES[np.int64]

    @kernel(registers=SHORT_REGISTERS if width <= 4 and most <= 8 else None)
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
        notes = own + (segment + group - 1) // group * group * width
        way = number(plan, STAGING)
        if way == WIDE and x & 15 != 0:
            way = np.int64(NARROW)
        # Lines at one distance from each other need no other lane's address, if all lanes have one.
        jump = np.int64(0)
        if number(plan, DIMS) == 1 and line - lane + LANES <= lines:
            jump = number(plan, HEADER + 3)
        keys, places = no_keys, no_places
        first = np.int64(0)
        while first < size:
            columns = min(segment, size - first)
            if way == WIDE:
                stage_quads(tile, pitch, source, jump, first, columns, plan)
            elif way == NARROW:
                stage_elements(tile, pitch, source, jump, first, columns, plan)
            else:
                stage_own(own, source, first, columns, plan)
            for c in range(columns, (columns + group - 1) // group * group):
                store_key(own + c * width, padding)
            sync_lanes()
            if is_wide:
                keys, places = choose(keys, places, own, notes, first, columns, k)
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
            row = (here * of_k) >> 16  # here // k
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
