"""The top-k kernels for many short lines: a thread each, its line in shared memory, its best in registers.

A network of minima and maxima keeps the best words: the same steps for every thread, whatever the data are. Keys of up
to 16 bits lie over their positions in a word, so that is all. Of wider ones the upper bits do, which nearly always tell
which are the best; if not, the network sees the lower ones in a second turn. Elements are looked at in groups of four:
only the members of the k best groups can be among the k best.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.access import unit_access
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.shared import SHARED_LOAD, SHARED_STORE, shared_address
from ..primitives.top_k.float_keys import keys_over_places
from ..primitives.top_k.group_words import group_steps, listed_keys, word_steps
from ..primitives.top_k.keys import key_type
from ..primitives.top_k.plan import (
    DIMS,
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
)
from ..primitives.top_k.register_lists import keep_best, keep_best_and_next, merge_pairs, pick, sort_numbers, sort_pairs
from ..primitives.top_k.shared_vectors import shared_load, shared_store_all
from ..primitives.top_k.short_rows import (
    GROUP,
    LEAST_COPIED,
    MOST_GROUPS,
    NARROW,
    SHIFTED,
    WIDE,
    group_of,
    key_steps,
    list_bytes,
    staging,
)
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.writing import write_index
from ..primitives.warp import LANE_VALUE, sync_lanes

#: Keys in the registers of a thread.
THREAD_LISTS = (1, 4, 8, 16)
#: Registers of a thread: if keys have up to 16 bits, or 32 and k is up to 8; and otherwise for the longest list. 4M
#: lines of 24 single bytes, k = 16, take 0.460 ms with 192, 0.374 with 96; 1M of 24 float32, k = 8, 0.096 with 102 and
#: 0.087 with 96; 524,288 of 24 float64, k = 16, 0.153 with 196, 0.126 with 168 (an H200).
SHORT_REGISTERS, MORE_REGISTERS = 96, 168
#: Threads of a block.
SHORT_BLOCK = SIZES.short_block
#: Above all positions, for the lower half of a word.
PLACES = 0xFFFF
#: Of a pair that is none: what belongs to a position is above.
NONE = -(1 << 31)


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
