"""The kernels that select many elements of a line, whose keys the threads of a warp or of a block keep in registers.

The k-th best key is found bit by bit: each step counts the keys that reach a trial. Its time does not depend on k. The
elements beyond it are selected, and the first of those at it, in the order of their positions. If the result is to be
sorted, these k are; or all elements, if that takes less time.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import LANES, WARPS, cuda
from ..primitives.bits import COUNT_ABOVE, COUNT_REACHING, bits_between, digit_above, raise_key
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k.block_sort import count_bytes
from ..primitives.top_k.keys import key_access, key_type, lowest_key
from ..primitives.top_k.line_sort import line_sorter
from ..primitives.top_k.plan import ENDS, LINES, OUT_STRIDE, ROOM, SIZE, STRIDE, K, line_bases, result_copier
from ..primitives.top_k.ranks import list_sorter, range_finder
from ..primitives.top_k.sizes import SIZES
from ..primitives.warp import PARTNER_VALUE, lanes_where, sync_lanes

#: Elements that a thread looks at without asking whether they are there.
TOGETHER = SIZES.rows_at_once
#: Counts that all threads add to, a power of two: of this step and of the last one, and a zero for the next one.
COUNTS = 4
#: How many elements each lane of a warp sorts at most.
SORTED_BY_LANES = (1, 2, 4, 8)
#: Up to this length, a warp sorts lines whole: to select before takes longer.
MOST_SORTED = SORTED_BY_LANES[-2] * LANES
#: Words for the counts of warps: how many elements each has beyond the bar, and at it.
OF_WARPS = 2 * SIZES.most_threads // LANES
#: Shared memory of a block beside what `select_bytes` tells.
STATIC_BYTES = 4 * (COUNTS + OF_WARPS) + 8 * ENDS
partner_count = PARTNER_VALUE[32]


def own_room(width: int) -> int:
    """Return how many elements of a line a thread has at most."""
    return SIZES.own_keys if width <= 4 else SIZES.own_keys // 2


def select_bytes(kept: int, threads: int, is_sorted: bool) -> int:
    """Return how much dynamic shared memory a block needs for what it selects, and to sort it."""
    return 8 * kept + count_bytes(threads) if is_sorted else 2 * kept


class Line(NamedTuple):
    """The line of a warp or of a block."""

    source: object  #: the address of its first element
    to: object  #: where its results go
    stride: object
    size: object
    first: object  #: the position of this thread's first element; the next one is `LANES` further
    rows: object  #: how many elements a thread has, a multiple of `TOGETHER`; some may lie behind the line


class Listed(NamedTuple):
    """Where what a warp selects goes, to be sorted."""

    keys: object
    places: object
    begin: object  #: the place of the first one


@cache
def own_steps(width: int, infinity: int):
    """Return the steps of a thread on its own elements: to load them, to count those that reach a bar, or are above."""
    key_at, key, room = key_access(width, infinity).key_at, key_type(width), own_room(width)
    lowest = lowest_key(width)
    highest = ~lowest

    @helper
    def load_own(own, line, plan):
        """List a thread's keys; return the lowest and the highest."""
        low, high = key(highest), key(lowest)
        last = np.int32(line.size - 1)
        for turn in range(0, room, TOGETHER):
            if turn < line.rows:
                for row in range(turn, turn + TOGETHER):  # their loads are on their way together
                    i = np.int32(line.first + row * LANES)
                    own[row] = key_at(line.source + np.int64(min(i, last)) * line.stride, plan)
                for row in range(turn, turn + TOGETHER):
                    low, high = min(low, own[row]), max(high, own[row])
                    own[row] = own[row] if np.int32(line.first + row * LANES) < line.size else key(lowest)
        return low, high

    def counter(count_key):
        @helper
        def count_own(own, rows, bar):
            count = np.int32(0)
            for turn in range(0, room, TOGETHER):
                if turn < rows:
                    for row in range(turn, turn + TOGETHER):
                        count = count_key(count, own[row], bar)
            return count

        return count_own

    key_bits = 8 * key(0).itemsize
    return load_own, counter(COUNT_REACHING[key_bits]), counter(COUNT_ABOVE[key_bits])


@helper
def sum_of_warp(count):
    """Return the sum of the numbers of all lanes."""
    lanes = LANES >> 1
    while lanes > 0:
        count = np.int32(count + partner_count(count, lanes))
        lanes >>= 1
    return count


@helper
def sum_of_block(count, counts, step):
    """Return the sum of the numbers of all threads. `step`: calls of a block before; `counts[0]` is 0 at the first."""
    count, this, following = sum_of_warp(count), np.int32(step & (COUNTS - 1)), np.int32((step + 1) & (COUNTS - 1))
    if cuda.threadIdx.x == 0:
        counts[following] = 0
    if cuda.threadIdx.x % LANES == 0:
        cuda.atomic.add(counts, this, count)
    cuda.syncthreads()
    return counts[this]


@cache
def bar_finder(width: int, infinity: int, by_warps: bool):
    """Return ``find_bar(own, rows, low, high, size, k, counts)``.

    It returns the bar, which is the k-th best key, and whether exactly k elements reach it. If not, more do.
    """
    key, (_, count_reaching, _) = key_type(width), own_steps(width, infinity)

    @helper
    def find_bar(own, rows, low, high, size, k, counts):
        # Numbers without a sign: the range of the keys, and how far above the lowest one the bar is known to be.
        span, reached = np.uint64(digit_above(np.int64(high), np.int64(low), 0)), np.uint64(0)
        bit = np.int64(bits_between(np.int64(low), np.int64(high)))
        found, step = np.int32(size), np.int32(0)
        while bit > 0 and found != k:
            bit -= 1
            trial = np.uint64(reached | (np.uint64(1) << np.uint64(bit)))
            if trial <= span:
                count = count_reaching(own, rows, key(raise_key(np.int64(low), np.int64(trial), 0)))
                count = sum_of_warp(count) if by_warps else sum_of_block(count, counts, step)
                step = np.int32(step + 1)
                if count >= k:
                    reached, found = trial, count
        return key(raise_key(np.int64(low), np.int64(reached), 0)), found == k

    return find_bar


@cache
def selector(width: int, put):
    """Return ``select(own, line, bar, is_exact, begin, ties, spare, lists)``.

    It calls ``put(at, key, position, lists)`` for each selected element of a warp, where `at` counts from `begin` on.
    If the bar is not exact, `spare` of the elements at it are selected; `ties` of them are in warps before this one.
    """
    room = own_room(width)

    @helper
    def select(own, line, bar, is_exact, begin, ties, spare, lists):
        below = np.uint32((np.uint32(1) << np.uint32(cuda.threadIdx.x % LANES)) - np.uint32(1))
        for turn in range(0, room, TOGETHER):
            if turn < line.rows:
                for row in range(turn, turn + TOGETHER):
                    i = np.int32(line.first + row * LANES)
                    chosen = own[row] >= bar
                    if not is_exact:
                        is_tie = own[row] == bar
                        those = np.uint32(lanes_where(is_tie))
                        chosen = chosen and (not is_tie or ties + cuda.popc(those & below) < spare)
                        ties = np.int32(ties + cuda.popc(those))
                    chosen = chosen and i < line.size
                    those = np.uint32(lanes_where(chosen))
                    if chosen:
                        put(np.int32(begin + cuda.popc(those & below)), own[row], i, lists)
                    begin = np.int32(begin + cuda.popc(those))

    return select


@cache
def share_finder(width: int, infinity: int):
    """Return ``share_of_warp(own, rows, bar, is_exact, k, of_warps)``.

    It returns where this warp's first element goes; how many elements of the warps before are at the bar; and how many
    elements at the bar are selected in all.
    """
    _, count_reaching, count_above = own_steps(width, infinity)

    @helper
    def share_of_warp(own, rows, bar, is_exact, k, of_warps):
        warp, warps = np.int32(cuda.threadIdx.x // LANES), np.int32(cuda.blockDim.x // LANES)
        reaching = sum_of_warp(count_reaching(own, rows, bar))
        above = reaching if is_exact else sum_of_warp(count_above(own, rows, bar))
        of_warps[2 * warp], of_warps[2 * warp + 1] = above, np.int32(reaching - above)
        cuda.syncthreads()
        all_above = before = ties = np.int32(0)
        for other in range(warps):
            if other < warp:
                before = np.int32(before + of_warps[2 * other])
                ties = np.int32(ties + of_warps[2 * other + 1])
            all_above = np.int32(all_above + of_warps[2 * other])
        spare = max(np.int32(k - all_above), np.int32(0))
        return np.int32(before + min(ties, spare)), ties, spare

    return share_of_warp


@cache
def line_copier(width: int):
    """Return ``copy_places(places, line, values, indices, plan, k, first, step)``.

    It copies k elements of a line to the result, those at places or, if these are None, all: number `first`, and on by
    steps.
    """
    copy_result = result_copier(width)

    @helper
    def copy_places(places, line, values, indices, plan, k, first, step):
        i = np.int32(first)
        while i < k:
            position = np.int64(i if places is None else places[np.uint32(i)])
            address, at = line.source + position * line.stride, line.to + np.int64(i) * number(plan, OUT_STRIDE)
            copy_result(values, indices, plan, at, address, position)
            i = np.int32(i + step)

    return copy_places


@helper
def line_of(plan, x, number_of_line, warp, warps):
    """Return a line that a number of warps share, and where this thread's elements are in it."""
    from_x, to = line_bases(plan, number_of_line)
    size, at_once = np.int32(number(plan, SIZE)), np.int32(warps * LANES * TOGETHER)
    rows = np.int32((size + at_once - 1) // at_once * TOGETHER)
    first = np.int32(warp * rows * LANES + cuda.threadIdx.x % LANES)
    return Line(x + from_x, to, number(plan, STRIDE), size, first, rows)


@helper
def put_place(at, its_key, position, places):
    """List where an element is."""
    places[np.uint32(at)] = position


@helper
def put_listed(at, its_key, position, lists):
    """List an element to be sorted."""
    place = np.uint32(lists.begin + at)
    lists.keys[place], lists.places[place] = its_key, position


@cache
def warp_select_kernel(width: int, infinity: int, own_count: int) -> Kernel:
    """Return the kernel that selects from short lines, a warp for each.

    Results stand in the order of positions if `own_count` is 0. Else they are sorted, that many elements by each lane;
    lines that are as short as that are sorted whole.
    """
    key, room, key_at = key_type(width), own_room(width), key_access(width, infinity).key_at
    (load_own, _, count_above), find_bar = own_steps(width, infinity), bar_finder(width, infinity, True)
    (of_lanes, _), is_sorted = range_finder(key(0).itemsize), own_count > 0
    select = selector(width, put_listed if is_sorted else put_place)
    sort, copy_places = list_sorter(width, own_count) if is_sorted else None, line_copier(width)
    of_warp, place = LANES * (own_count or room), np.int32 if is_sorted else np.int16
    of_block, keys_of_block = of_warp * WARPS, own_count * LANES * WARPS or 1

    def select_by_warps(x, values, indices, plan):
        await_inputs()
        own = cuda.local.array(room, key)
        all_keys = cuda.shared.array(keys_of_block, key)
        all_places = cuda.shared.array(of_block, place)
        number_of_line = np.int64(cuda.blockIdx.x) * WARPS + cuda.threadIdx.x // LANES
        if number_of_line >= number(plan, LINES):
            return
        line = line_of(plan, x, number_of_line, np.int32(0), np.int32(1))
        lane, begin = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES * of_warp)
        k, places = np.int32(number(plan, K)), all_places[begin:]
        lists, count = Listed(all_keys, all_places, begin) if is_sorted else places, k
        if line.size > (of_warp if is_sorted else k):
            low, high = load_own(own, line, plan)
            low, high = of_lanes(low, high)
            bar, is_exact = find_bar(own, line.rows, low, high, line.size, k, 0)
            spare = k if is_exact else np.int32(k - sum_of_warp(count_above(own, line.rows, bar)))
            select(own, line, bar, is_exact, np.int32(0), np.int32(0), spare, lists)
        elif is_sorted:
            count = line.size
            for j in range(own_count):
                i = np.int32(lane + j * LANES)
                address = line.source + np.int64(min(i, np.int32(count - 1))) * line.stride
                put_listed(i, key_at(address, plan), i, lists)
        else:
            copy_places(None, line, values, indices, plan, k, lane, np.int32(LANES))
            return
        if is_sorted:
            sort(all_keys, all_places, begin, count, lane)
        else:
            sync_lanes()
        copy_places(places, line, values, indices, plan, k, lane, np.int32(LANES))

    return Kernel(select_by_warps, 4, waits=True, registers=64)


@cache
def block_select_kernel(width: int, infinity: int, is_sorted: bool) -> Kernel:
    """Return the kernel that selects from lines, a block for each; results are sorted, or in the order of positions."""
    key, room = key_type(width), own_room(width)
    (load_own, _, _), find_bar = own_steps(width, infinity), bar_finder(width, infinity, False)
    share_of_warp, (_, of_threads) = share_finder(width, infinity), range_finder(key(0).itemsize)
    (lists_of, put_word, sort), copy_places = line_sorter(width, infinity), line_copier(width)
    select = selector(width, put_word if is_sorted else put_place)
    word_array, place_array = ARRAY_TYPES[np.int32], ARRAY_TYPES[np.int16]

    def select_by_blocks(x, values, indices, plan):
        await_inputs()
        own = cuda.local.array(room, key)
        counts = cuda.shared.array(COUNTS, np.int32)
        of_warps = cuda.shared.array(OF_WARPS, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        if cuda.threadIdx.x == 0:
            counts[0] = 0
        first, threads, k = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x), np.int32(number(plan, K))
        line = line_of(plan, x, np.int64(cuda.blockIdx.x), np.int32(first // LANES), np.int32(threads // LANES))
        kept = np.int32(number(plan, ROOM))
        if not is_sorted and kept == line.size:
            copy_places(None, line, values, indices, plan, k, first, threads)
            return
        low, high = load_own(own, line, plan)
        low, high = of_threads(low, high, ends)
        bar, is_exact = find_bar(own, line.rows, low, high, line.size, kept, counts)
        begin, ties, spare = np.int32(line.first - first % LANES), np.int32(0), np.int32(0)  # if all are kept
        if kept < line.size:
            begin, ties, spare = share_of_warp(own, line.rows, bar, is_exact, kept, of_warps)
        if is_sorted:
            lists = lists_of(cuda.shared.array(0, word_array), kept, bar, high, of_warps)
            select(own, line, bar, is_exact, begin, ties, spare, lists)
            cuda.syncthreads()
            sort(lists, line, plan)
            copy_places(lists.places, line, values, indices, plan, k, first, threads)
        else:
            places = cuda.shared.array(0, place_array)
            select(own, line, bar, is_exact, begin, ties, spare, places)
            cuda.syncthreads()
            copy_places(places, line, values, indices, plan, k, first, threads)

    return Kernel(select_by_blocks, 4, waits=True, shares=True, registers=64)
