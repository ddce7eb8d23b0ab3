"""The top-k kernels for many short lines: a thread each, its line in shared memory, its best in registers.

A network of minima and maxima keeps the best words: the same steps for every thread, whatever the data are. Keys of up
to 16 bits lie over their positions in a word, so that is all. Of wider ones the upper bits do, which nearly always tell
which are the best; if not, the network sees the lower ones in a second turn. Elements are looked at in groups of four:
only the members of the k best groups can be among the k best.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.access import unit_access
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.shared import SHARED_LOAD, SHARED_STORE, shared_address
from ..primitives.top_k import plan as fields
from ..primitives.top_k import register_lists, staging
from ..primitives.top_k.keys import key_access, key_type, lowest_key
from ..primitives.top_k.plan import line_bases, write_index
from ..primitives.top_k.register_lists import keep_best, keep_best_and_next, merge_pairs, pick, sort_numbers, sort_pairs
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.staging import ALIGNED, GROUP, SHIFTED, SINGLE
from ..primitives.warp import LANE_VALUE, sync_lanes

#: Keys in the registers of a thread.
THREAD_LISTS = (1, 4, 8, 16)
#: Registers of a thread: if keys have up to 16 bits, or 32 and k is up to 8; and otherwise for the longest list. 4M
#: lines of 24 single bytes, k = 16, take 0.460 ms with 192, 0.374 with 96; 1M of 24 float32, k = 8, 0.096 with 102 and
#: 0.087 with 96; 524,288 of 24 float64, k = 16, 0.153 with 196, 0.126 with 168 (an H200).
SHORT_REGISTERS, MORE_REGISTERS = 96, 168
#: Above all positions, for the lower half of a word.
PLACES = 0xFFFF
#: Of a pair that is none: what belongs to a position is above.
NONE = -(1 << 31)


@cache
def chosen_words(width: int, most: int):
    """Return how the best of a segment, of keys of up to 16 bits, get into a list of words."""
    group = staging.group_of(width, most)
    load = register_lists.shared_load(32, group * width // 4)
    join = register_lists.keys_over_places(width, group)

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
    mask = max(SIZES.most_groups, GROUP * most) - 1
    shift, second = mask.bit_length(), min(1, most - 1)
    maxima, members, load_keys = register_lists.group_steps(bits, GROUP, at_once, listed)
    (upper, within, labels, alike), store_table = register_lists.word_steps(mask), register_lists.shared_store(32)
    key = key_type(width)
    lowest = lowest_key(width)
    highest = ~lowest
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
        out_of_order = words[second] >> shift >= high - low if is_exact else alike(words) != 0
        if out_of_order:
            new_keys, new_places = sort_pairs(new_keys, new_places)
        if first == 0:
            return new_keys, new_places
        return merge_pairs(keys, places, new_keys, new_places)

    return choose


class Row(NamedTuple):
    """A thread's row in shared memory, and those of its warp."""

    lane: object
    tile: object  #: the address of the warp's rows
    pitch: object  #: bytes of a row
    own: object  #: the address of the thread's row
    source: object  #: where its line starts
    jump: object  #: bytes between the warp's lines, 0: some lane has none, or they are anywhere


@cache
def segment_reader(width: int, infinity: int, most: int):
    """Return ``read_segment(row, plan, x, way, first, columns)``: it brings a segment of each line.

    They become keys, and behind them are keys that are worse than all others.
    """
    copy_units, keys_in_place = staging.unit_copier(width), staging.key_maker(width, infinity)
    stage_line = staging.line_stager(width, infinity)
    is_wide, group = width > 2, staging.group_of(width, most)
    key, lowest = key_type(width), lowest_key(width)
    store_key, padding = SHARED_STORE[8 * width], lowest if is_wide else -(1 << (8 * width - 1))
    store_group, no_group = register_lists.shared_store(8 * key(0).itemsize), (key(lowest),) * group

    @helper
    def read_segment(row, plan, x, way, first, columns):
        tile, pitch, source, jump = row.tile, row.pitch, row.source, row.jump
        if way == SINGLE:
            stage_line(row.own, source, first, columns, plan)
        else:
            low, high, is_aligned = x + number(plan, fields.LOW), x + number(plan, fields.HIGH), way == ALIGNED
            copy_units(tile, pitch, source + first * width, jump, columns * width, low, high, is_aligned)
            sync_lanes()
            keys_in_place(row.own, source + first * width, columns * width, is_aligned, plan)
        padded = (columns + group - 1) // group * group
        for c in range(columns, padded):
            store_key(row.own + c * width, padding)
        if is_wide:
            store_group(row.own + padded * width, no_group)
        sync_lanes()

    return read_segment


@cache
def row_writer(width: int, infinity: int, most: int):
    """Return ``write_rows(row, plan, values, indices, line, to)``: the rows' keys and places become results.

    `to`: where those of the thread's line are. Outputs that are neighbours are written by neighbouring lanes.
    """
    bits_of, (_, store) = key_access(width, infinity).bits_of, unit_access(width)
    is_wide, width_bits, key_bytes = width > 2, 8 * width, key_type(width)(0).itemsize
    load_key, load_place = SHARED_LOAD[8 * key_bytes], SHARED_LOAD[32]
    places_at = staging.list_bytes(most, key_bytes)
    lane_value = LANE_VALUE[64]

    @helper
    def write_rows(row, plan, values, indices, line, to):
        source, lane = row.source, row.lane
        k, step, index_size = number(plan, fields.K), number(plan, fields.OUT_STRIDE), number(plan, fields.INDEX_SIZE)
        packed = step == 1 and number(plan, fields.DIMS) == 1 and number(plan, fields.HEADER + 4) == k
        distance = np.int64(0)
        if packed:
            source, to, distance = lane_value(source, 0), lane_value(to, 0), number(plan, fields.HEADER + 3)
        here = lane if packed else np.int64(0)  # among the results of a warp, or of a lane
        lines = number(plan, fields.LINES)
        end = k * (min(lines - line + lane, LANES) if packed else np.int64(line < lines))
        hop = np.int64(LANES if packed else 1)
        results = row.tile if packed else row.own
        of_k = (1 << 16) // k + 1
        value_at, index_at = values + (to + here * step) * width, indices + (to + here * step) * index_size
        while here < end:
            other = ((here & 0xFFF) * of_k) >> 16  # here // k, by a product of 32 bits
            j = here - other * k
            at = results + other * row.pitch
            one = load_key(at + j * key_bytes)
            if is_wide:
                position = -load_place(at + places_at + 4 * j)
            else:
                position = PLACES - (one & PLACES)
                one >>= 32 - width_bits
            if values != 0:
                address = source + other * distance + position * number(plan, fields.STRIDE)
                store(value_at, bits_of(one, plan, address), 0)
            write_index(index_at, index_size, 0, position)
            here += hop
            value_at += hop * step * width
            index_at += hop * step * index_size

    return write_rows


@cache
def short_kernel(width: int, infinity: int, most: int) -> Kernel:
    """Return the kernel for many short lines, for the best `most` of each."""
    read_segment, write_rows = segment_reader(width, infinity, most), row_writer(width, infinity, most)
    is_wide, group = width > 2, staging.group_of(width, most)
    key = key_type(width)
    key_bytes = key(0).itemsize
    no_keys, no_places = (key(lowest_key(width)),) * most, (np.int32(NONE),) * most
    choose = chosen_pairs(width, most) if is_wide else chosen_words(width, most)
    store_keys, store_places = register_lists.shared_store(8 * key_bytes), register_lists.shared_store(32)
    places_at = staging.list_bytes(most, key_bytes)
    words = ARRAY_TYPES[np.int64]
    longest = most == THREAD_LISTS[-1]
    few = width <= 2 or (width == 4 and not longest)

    def choose_from_short_lines(x, values, indices, plan):
        await_inputs()
        thread = np.int64(cuda.threadIdx.x)
        lane = thread % LANES
        line = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + thread
        lines = number(plan, fields.LINES)
        from_x, to = line_bases(plan, min(line, lines - 1))
        size, k = number(plan, fields.SIZE), number(plan, fields.K)
        segment, pitch = number(plan, fields.SEGMENT), number(plan, fields.ROOM)
        tile = shared_address(cuda.shared.array(0, words)) + (thread - lane) * pitch
        own = tile + lane * pitch
        table = own + ((segment + group - 1) // group + 1) * group * width
        way = number(plan, fields.STAGING)
        if way == ALIGNED and x & 15 != 0:
            way = np.int64(SHIFTED)
        # Lines at one distance from each other need no other lane's address, if all lanes have one.
        jump = np.int64(0)
        if number(plan, fields.DIMS) == 1 and line - lane + LANES <= lines:
            jump = number(plan, fields.HEADER + 3)
        row = Row(lane, tile, pitch, own, x + from_x, jump)
        keys, places = no_keys, no_places
        first = np.int64(0)
        while first < size:
            columns = min(segment, size - first)
            read_segment(row, plan, x, way, first, columns)
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
        write_rows(row, plan, values, indices, line, to)

    registers = SHORT_REGISTERS if few else MORE_REGISTERS if longest else None
    return Kernel(choose_from_short_lines, 4, waits=True, shares=True, registers=registers)
