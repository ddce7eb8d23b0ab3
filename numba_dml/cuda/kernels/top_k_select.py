"""The kernel that selects many elements of a line, whose keys a block keeps in shared memory.

The k-th best key is found digit by digit, in a time that hardly depends on k. The elements beyond it are selected, and
the first of those at it, in the order of their positions. If the result is to be sorted, only these k are.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.bits import bits_between
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k.block_lists import SUMS, bar_raiser
from ..primitives.top_k.block_sort import count_bytes, sorter
from ..primitives.top_k.keys import key_access, key_type, lowest_key, result_writer
from ..primitives.top_k.plan import ENDS, OUT_STRIDE, ROOM, SIZE, STRIDE, K, line_bases
from ..primitives.top_k.ranks import spreader
from ..primitives.top_k.sizes import SIZES
from ..primitives.warp import lanes_where, sum_of_lanes

#: Elements that a thread loads together.
ROWS = SIZES.rows_at_once
#: Shared memory of a block beside what `select_bytes` tells.
STATIC_BYTES = 4 * SUMS + 8 * ENDS


def key_room(size: int, k: int, key_bytes: int, threads: int) -> int:
    """Return how many keys the memory of a line's keys holds: a sort counts there later; `k` is 0 without a sort."""
    return max(size, count_bytes(threads) // key_bytes if k else 0)


def select_bytes(size: int, k: int, key_bytes: int, threads: int) -> int:
    """Return how much dynamic shared memory a block needs."""
    return key_room(size, k, key_bytes, threads) * key_bytes + k * (key_bytes + 4)


class Share(NamedTuple):
    """The elements of a warp: neighbours, whose places in the result follow those of the warps before."""

    begin: object
    end: object
    above: object  #: how many elements beyond the bar come before
    ties: object  #: how many elements at the bar do


@cache
def line_reader(width: int, infinity: int):
    """Return ``read_line(keys, source, stride, plan, size, ends)``: it lists all keys; the lowest and the highest."""
    key_at, key = key_access(width, infinity).key_at, key_type(width)
    lowest = lowest_key(width)
    highest = ~lowest
    _, spread = spreader(key(0).itemsize)

    @helper
    def read_line(keys, source, stride, plan, size, ends):
        own = cuda.local.array(ROWS, key)
        low, high = key(highest), key(lowest)
        threads, last = np.int32(cuda.blockDim.x), np.int32(size - 1)
        first = np.int32(cuda.threadIdx.x)
        while first < size:
            for row in range(ROWS):  # their loads are on their way together
                own[row] = key_at(source + np.int64(min(np.int32(first + row * threads), last)) * stride, plan)
            for row in range(ROWS):
                low, high = min(low, own[row]), max(high, own[row])
                if first + row * threads < size:
                    keys[np.uint32(first + row * threads)] = own[row]
            first = np.int32(first + ROWS * threads)
        return spread(low, high, ends)

    return read_line


@helper
def share_of_warp(keys, size, bar, sums):
    """Return this warp's share, and how many elements of all are beyond a bar."""
    lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES)
    warps = np.int32(cuda.blockDim.x // LANES)
    length = np.int32((size + warps * LANES - 1) // (warps * LANES) * LANES)
    begin = np.int32(min(np.int64(warp) * length, np.int64(size)))
    end = np.int32(min(np.int64(begin) + length, np.int64(size)))
    above = ties = np.int32(0)
    i = np.int32(begin + lane)
    while i < end:
        its_key = keys[np.uint32(i)]
        above = np.int32(above + (1 if its_key > bar else 0))
        ties = np.int32(ties + (1 if its_key == bar else 0))
        i = np.int32(i + LANES)
    above, ties = sum_of_lanes(above), sum_of_lanes(ties)
    if lane == LANES - 1:
        sums[2 * warp], sums[2 * warp + 1] = above, ties
    cuda.syncthreads()
    all_above = before_above = before_ties = np.int32(0)
    for other in range(warps):
        if other < warp:
            before_above = np.int32(before_above + sums[2 * other])
            before_ties = np.int32(before_ties + sums[2 * other + 1])
        all_above = np.int32(all_above + sums[2 * other])
    return Share(begin, end, before_above, before_ties), all_above


@cache
def selector(put):
    """Return ``select(keys, bar, share, spare, to)``: ``put(at, key, position, to)`` for each element of a warp.

    `spare`: how many elements at the bar are selected, of all. `at`: which place of the result is its.
    """

    @helper
    def select(keys, bar, share, spare, to):
        lane = np.int32(cuda.threadIdx.x % LANES)
        below = np.uint32((np.uint32(1) << np.uint32(lane)) - np.uint32(1))
        above, ties = share.above, share.ties
        first = share.begin
        while first < share.end:
            i = np.int32(first + lane)
            its_key = keys[np.uint32(min(i, np.int32(share.end - 1)))]
            is_above, is_tie = i < share.end and its_key > bar, i < share.end and its_key == bar
            those_above, those_ties = np.uint32(lanes_where(is_above)), np.uint32(lanes_where(is_tie))
            own_above = np.int32(above + cuda.popc(those_above & below))
            own_ties = np.int32(ties + cuda.popc(those_ties & below))
            if is_above or (is_tie and own_ties < spare):
                put(np.int64(own_above + min(own_ties, spare)), its_key, i, to)
            above = np.int32(above + cuda.popc(those_above))
            ties = np.int32(ties + cuda.popc(those_ties))
            first = np.int32(first + LANES)

    return select


class Target(NamedTuple):
    """Where results go."""

    values: object
    indices: object
    plan: object
    source: object
    to: object


class Lists(NamedTuple):
    """Where what is selected goes, to be sorted."""

    keys: object
    places: object


@cache
def select_kernel(width: int, infinity: int, is_sorted: bool) -> Kernel:
    """Return the kernel, for results that are sorted, or stand in the order of their positions."""
    read_line, write_result, key = line_reader(width, infinity), result_writer(width, infinity), key_type(width)
    key_bytes = key(0).itemsize
    raise_bar, (sort_digits, _) = bar_raiser(key_bytes), sorter(key_bytes)
    key_array, word_array = ARRAY_TYPES[key], ARRAY_TYPES[np.int32]
    of_key = key_bytes // 4

    @helper
    def put_result(at, its_key, position, to):
        """Write an element to the result."""
        address = to.source + np.int64(position) * number(to.plan, STRIDE)
        place = to.to + at * number(to.plan, OUT_STRIDE)
        write_result(to.values, to.indices, to.plan, place, its_key, address, np.int64(position))

    @helper
    def put_listed(at, its_key, position, lists):
        """List an element."""
        lists.keys[np.uint32(at)], lists.places[np.uint32(at)] = its_key, position

    write, enlist = selector(put_result), selector(put_listed)

    @kernel(registers=64)
    def select_from_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        await_inputs()
        sums = cuda.shared.array(SUMS, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        size, k = np.int32(number(plan, SIZE)), np.int32(number(plan, K))
        keys, words = cuda.shared.array(0, key_array), cuda.shared.array(0, word_array)
        from_x, to = line_bases(plan, np.int64(cuda.blockIdx.x))
        low, high = read_line(keys, x + from_x, number(plan, STRIDE), plan, size, ends)
        cuda.syncthreads()
        bar = low
        if k < size:
            bar = raise_bar(keys, np.int64(size), low, high, np.int64(k), np.int64(k), sums, ends)
            cuda.syncthreads()
        share, above = share_of_warp(keys, size, bar, sums)
        spare = np.int32(k - above)
        target = Target(values, indices, plan, x + from_x, to)
        if not is_sorted:
            write(keys, bar, share, spare, target)
        else:
            room = np.int32(number(plan, ROOM))
            listed, places = keys[room:], words[of_key * (room + k) :]
            enlist(keys, bar, share, spare, Lists(listed, places))
            cuda.syncthreads()
            bits = bits_between(np.int64(bar), np.int64(high))
            sort_digits(listed, places, words, sums, k, high, np.int64(0), bits, False)
            i = np.int32(cuda.threadIdx.x)
            while i < k:
                put_result(np.int64(i), listed[np.uint32(i)], places[np.uint32(i)], target)
                i = np.int32(i + cuda.blockDim.x)

    return Kernel(select_from_lines, 4, waits=True, shares=True)
