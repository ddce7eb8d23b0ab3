"""The kernels for a large k: all blocks work on the border between what belongs to a result and what does not.

A range of keys that holds the border is cut into digits, and its elements are counted by digit: the border's digit is
the next range, until it holds few elements more than are wanted, or one key. Then the elements that reach it are listed
in their order, to be sorted. The host waits for none of this: rounds that are not needed do nothing.

If k is much smaller than a line, its delegates (see `top_k`) go this way first, and list the groups to look into. So
what is looked at is always a list of groups; of a whole line it is one group.

The last block that has counted finds the border, and the last one that has listed plans the sort: a launch for each
would take 3 µs.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, WARPS, cuda
from ..primitives.access import load_i64, unit_access
from ..primitives.atomics import store_now
from ..primitives.bits import raise_key
from ..primitives.device_sort import HEAD, SUMS, plan_passes
from ..primitives.pairs import DIGITS as SORT_DIGITS
from ..primitives.pairs import pair_access, passes_of
from ..primitives.plan import number
from ..primitives.ptx import await_inputs
from ..primitives.sort_tiles import pairs_of_tile
from ..primitives.sums import add_counts, arrive
from ..primitives.top_k import large_lists
from ..primitives.top_k import plan as fields
from ..primitives.top_k.keys import key_access
from ..primitives.top_k.large_lists import COUNTERS
from ..primitives.top_k.large_tiles import ARRIVED, BORDER, DIGIT, DIGITS, LOW, tile_access
from ..primitives.top_k.plan import line_bases, write_index


def rounds(width: int) -> int:
    """Return how many digits a key has."""
    return -(-8 * width // DIGIT)


@cache
def count_kernel(width: int, infinity: int, is_long: bool) -> Kernel:
    """Return the kernel that counts the elements of a range by digit, and finds the digit of the border."""
    range_of, count_tiles, add_up_digits = large_lists.range_counter(width, infinity, is_long)
    source_of = tile_access(width, infinity, is_long).source_of

    def count_range(x, memory, plan, first):
        """`memory`: a call's, which has borders, counts, a table and tallies. `first`: 1 for the range of all keys."""
        await_inputs()
        own = cuda.shared.array(COUNTERS, np.int32)
        sums = cuda.shared.array(BLOCK, np.int64)
        thread, block, parts = np.int64(cuda.threadIdx.x), np.int64(cuda.blockIdx.x), number(plan, fields.LIST_PARTS)
        line = block // parts
        part = block - line * parts
        border = memory + number(plan, fields.BORDERS_AT) + 8 * line * BORDER
        table = memory + number(plan, fields.TABLE_AT) + 8 * DIGITS * block
        low, bits = range_of(plan, memory, border, line, first)
        if bits < 0:
            return
        if parts > 1 and thread == 0:
            large_lists.note_tally(border, table, memory + number(plan, fields.TALLIES_AT) + 8 * block, first)
        for i in range(thread, COUNTERS, BLOCK):
            own[i] = 0
        cuda.syncthreads()
        count_tiles(own, source_of(plan, line, x, memory), plan, part, parts, low, bits)
        add_up_digits(own, sums)
        counts = memory + number(plan, fields.COUNTS_AT) + 8 * line * DIGITS
        large_lists.hand_in(own, counts, table, parts)
        if arrive(border + 8 * ARRIVED, sums, parts):
            large_lists.find_border(border, counts, plan, low, bits, first != 0, sums)

    # Four blocks of 256 threads on a multiprocessor, like `list_elements`.
    return Kernel(count_range, 4, waits=True, registers=64)


class Form(NamedTuple):
    """What is known of a line's results."""

    source: object  #: the address of the line's first element
    values: object
    indices: object
    plan: object
    step: object  #: elements from one result to the next
    index_size: object
    low: object  #: the lowest key, from which words tell the distance


@cache
def result_access(width: int, infinity: int, is_long: bool):
    """Return how a line's results are stored, as three functions.

    ``form_of(x, values, indices, plan, line, low)``, ``put_result(form, plan, word, position, place)`` for one, and
    ``store_results(shared, count, at, form)`` for those in shared memory: see `tile_lister`.

    The bits of a value come back from its key; zeros and NaNs, which share one, are read: of each line they lie one
    after the other in the order of their positions, so this is no gather.
    """
    bits_of, (_, store) = key_access(width, infinity).bits_of, unit_access(width)

    @helper
    def form_of(x, values, indices, plan, line, low):
        source, to = line_bases(plan, line)
        step, index_size = number(plan, fields.OUT_STRIDE), number(plan, fields.INDEX_SIZE)
        return Form(x + source, values + to * width, indices + to * index_size, plan, step, index_size, low)

    @helper
    def put_result(form, plan, word, position, place):
        if place < number(plan, fields.K):
            new = raise_key(form.low, ~np.int64(word), 0) if is_long else form.low + (~np.int64(word) & 0xFFFFFFFF)
            bits = bits_of(new, plan, form.source + np.int64(position) * number(plan, fields.STRIDE))
            at = place * form.step
            store(form.values + at * width, bits, 0)
            write_index(form.indices, form.index_size, at, np.int64(position))

    @helper
    def store_results(shared, count, at, form):
        i = np.int32(cuda.threadIdx.x)
        while i < count:
            word, position = shared.keys[np.uint32(i)], shared.positions[np.uint32(i)]
            put_result(form, form.plan, word, position, at + np.int64(i))
            i = np.int32(i + BLOCK)

    return form_of, put_result, store_results


@cache
def list_kernel(width: int, infinity: int, is_long: bool, is_result: bool) -> Kernel:
    """Return the kernel that lists the elements which reach the border, in their order, or writes them as the result.

    Of those at it, if they are too many, the first.
    """
    form_of, _, store_results = result_access(width, infinity, is_long)
    store = store_results if is_result else large_lists.pair_storer(width, is_long)
    tiles, list_tiles = tile_access(width, infinity, is_long), large_lists.tile_lister(width, infinity, is_long, store)
    source_of, part_of = tiles.source_of, tiles.part_of
    word, pair_bytes, *_ = pair_access(is_long)
    lowest = -(1 << (8 * width - 1))
    tile_elements = tiles.quads * tiles.of_quad * BLOCK
    room_of_tile = pairs_of_tile(is_long)
    passes = passes_of(8 * width)
    all_digits, all_counts = passes * SORT_DIGITS, 3 * WARPS

    @helper
    def target_of_all(source, part, parts, size):
        """Return the target of a part if all elements are listed."""
        tile, _, _ = part_of(source, part, parts)
        none = np.int64(0)
        return large_lists.Target(np.int64(lowest), none, none, size, max(tile * tile_elements - source.shift, none))

    @helper
    def plan_sort(digits, plan, memory, line, target, everything, sums):
        """Add up the digits of all parts; the last one plans the passes of the sort."""
        cuda.syncthreads()
        border = memory + number(plan, fields.BORDERS_AT) + 8 * line * BORDER
        heads = memory + number(plan, fields.HEADS_AT) + 8 * line * HEAD
        starts = memory + number(plan, fields.STARTS_AT) + 8 * line * all_digits
        add_counts(digits, starts, all_digits)
        if arrive(border + 8 * ARRIVED, sums, number(plan, fields.LIST_PARTS)):
            if everything != 0 and cuda.threadIdx.x == 0:
                store_now(border + 8 * LOW, target.low)
            plan_passes(heads, starts, target.found, passes, 1, sums)

    def list_elements(x, memory, plan, everything, values, indices):
        """`memory`: a call's, which has borders, a table, tallies, the list, and what a sort needs.

        `everything`: 1 if all elements are listed, and there is no border. The outputs are for what is the result.
        """
        await_inputs()
        sums = cuda.shared.array(SUMS, np.int64)
        counts = cuda.shared.array(all_counts, np.int32)
        digits = cuda.shared.array(all_digits, np.int32)
        tile_keys = cuda.shared.array(room_of_tile, word)
        tile_positions = cuda.shared.array(room_of_tile, word)
        block, parts = np.int64(cuda.blockIdx.x), number(plan, fields.LIST_PARTS)
        line = block // parts
        part = block - line * parts
        source = source_of(plan, line, x, memory)
        target = target_of_all(source, part, parts, number(plan, fields.SIZE))
        if everything == 0:
            border = memory + number(plan, fields.BORDERS_AT) + 8 * line * BORDER
            target = large_lists.targets_by_border(plan, memory, border, line, part, parts, sums)
        for i in range(np.int64(cuda.threadIdx.x), all_digits, BLOCK):
            digits[i] = 0
        cuda.syncthreads()
        shared = large_lists.Shared(tile_keys, tile_positions, counts, digits)
        if is_result:
            list_tiles(shared, source, plan, part, parts, target, form_of(x, values, indices, plan, line, target.low))
        else:
            is_sorted = number(plan, fields.HEADS_AT) != 0
            pairs = memory + number(plan, fields.LIST_AT) + pair_bytes * line * number(plan, fields.LIST_ROOM)
            list_tiles(shared, source, plan, part, parts, target, large_lists.Pairs(pairs, is_sorted))
            if is_sorted:
                plan_sort(digits, plan, memory, line, target, everything, sums)

    # Four blocks of 256 threads on a multiprocessor.
    return Kernel(list_elements, 6, waits=True, registers=64)


@cache
def write_access(width: int, infinity: int, is_long: bool):
    """Return how the last pass of a sort writes the results: what it prepares, and how it puts one.

    See `move_kernel`.
    """
    form_of, put_result, _ = result_access(width, infinity, is_long)

    @helper
    def prepare(x, values, indices, plan, border, line):
        return form_of(x, values, indices, plan, line, load_i64(border + 8 * (line * BORDER + LOW)))

    return prepare, put_result
