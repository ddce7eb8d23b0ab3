"""Reductions in the order of the updates: points sorted by place, then folded place by place.

Of the arguments of kernels see `primitives.moves`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.intrinsics import shared_type
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, WARPS, cuda
from ..primitives.access import load_i64, unit_access
from ..primitives.atomics import fetch_and_add, store_now
from ..primitives.bad_indices import has_bad
from ..primitives.moves import folds
from ..primitives.moves.claims import number_of_place
from ..primitives.moves.folds import FOLDERS, LONG, Updates
from ..primitives.moves.places import NOWHERE, point_places, slice_places
from ..primitives.moves.reductions import unit_steps
from ..primitives.moves.sizes import SIZES
from ..primitives.pairs import pair_access, pair_fields
from ..primitives.plan import GRANULE, LOWEST, SLICE, number, numbers_in, quotient
from ..primitives.ptx import await_inputs
from ..primitives.warp import sum_of_lanes

#: Up to this many points each is compared with all others, instead of a sort.
MOST_RANKED = SIZES.most_ranked
#: Words that a block with one place loads at a time; see docs/measurements/cudamoves.md, "Reductions in order".
LOADED = SIZES.loaded_words


@cache
def pair_kernel(index_type: str, counts: tuple[int, int, int], is_long: bool) -> Kernel:
    """Return the kernel that makes a pair of every point: the number of its place, and its own number."""
    _, pair_bytes, _, store_pair, _ = pair_access(is_long)
    place_of_point, _ = point_places(index_type, *counts[:2])

    def make_pairs(index, plan, record, launch, points, nowhere, pairs):
        await_inputs()
        point = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if point < points:
            place = place_of_point(plan, index, record, launch, point)
            key = nowhere
            if place != NOWHERE:
                key = number_of_place(plan, place)
            store_pair(pairs + pair_bytes * point, key, point)

    return Kernel(make_pairs, 7, plan=(1, numbers_in(*counts)))


@cache
def rank_kernel(index_type: str, counts: tuple[int, int, int], is_long: bool) -> Kernel:
    """Return the kernel that makes the pairs of few points in the order of their places; see `pair_kernel`.

    Every block looks at all points, and its warps count how many pairs come before one.
    """
    _, pair_bytes, _, store_pair, _ = pair_access(is_long)
    place_of_point, _ = point_places(index_type, *counts[:2])

    def rank_pairs(index, plan, record, launch, points, nowhere, pairs):
        await_inputs()
        keys = cuda.shared.array(MOST_RANKED, np.int64)
        thread = np.int64(cuda.threadIdx.x)
        bad = False
        found = cuda.local.array(4, np.int64)
        for first in range(thread, points, 4 * BLOCK):  # four at a time: their loads are waited for together
            for k in range(4):
                found[k] = place_of_point(plan, index, np.int64(0), -1, min(first + k * BLOCK, points - 1))
            for k in range(4):
                if first + k * BLOCK < points:
                    bad |= found[k] == NOWHERE
                    keys[first + k * BLOCK] = nowhere if found[k] == NOWHERE else number_of_place(plan, found[k])
        if bad and cuda.blockIdx.x == 0:
            for point in range(thread, points, BLOCK):
                place_of_point(plan, index, record, launch, point)
        cuda.syncthreads()
        lane = thread % LANES
        point = np.int64(cuda.blockIdx.x) * WARPS + thread // LANES
        if point < points:  # all lanes of a warp, or none
            own = keys[point]
            before = np.int32(0)
            for other in range(lane, points, LANES):
                if keys[other] < own or (keys[other] == own and other < point):
                    before += np.int32(1)
            before = sum_of_lanes(before)
            if lane == LANES - 1:
                store_pair(pairs + pair_bytes * np.int64(before), own, point)

    return Kernel(rank_pairs, 7, plan=(1, numbers_in(*counts)), waits=True)


@cache
def fold_kernel(data_type, reduction: str, width: int, counts: tuple[int, int, int], is_long: bool) -> Kernel:
    """Return the kernel that combines all updates of a place with what is there, in their order, by units of a width.

    Places with many updates it puts on a list, for `fold_many_kernel`.

    What is there and the first two updates are loaded before it is known whether another thread folds the place, and
    later updates four at a time: see docs/measurements/cudakernels.md, "Loads of a fold".
    """
    load, store = unit_access(width)
    load_key, load_point = pair_fields(is_long)
    combine, exact, has_nan = unit_steps(data_type, reduction, width)
    load_update, fold_from = folds.next_updates(data_type, reduction, width, is_long)
    place_in_slice = slice_places(*counts)

    def fold_updates(data, packed, plan, record, unless, pairs, points, nowhere, long_count, longs):
        """`long_count`: the address of how many places have many updates, less one; `longs`: of their first pairs."""
        await_inputs()
        if has_bad(record, unless):
            return
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        i = quotient(item, plan, SLICE)
        if i >= points:
            return
        updates = Updates(packed, pairs, points, number(plan, SLICE))
        unit = item - i * number(plan, SLICE)
        second = min(i + 1, points - 1)
        key, point = load_key(pairs, i), load_point(pairs, i)
        before, far = load_key(pairs, max(i - 1, 0)), load_key(pairs, min(i + LONG, points - 1))
        after, next_point = load_key(pairs, second), load_point(pairs, second)
        place = data + number(plan, LOWEST) + key * number(plan, GRANULE) + place_in_slice(plan, unit, width)
        several = second > i and after == key
        value = load(place if key != nowhere else packed)  # which can be read as well
        new = load_update(updates, point, unit)
        newer = load_update(updates, next_point if several else point, unit)
        if key == nowhere or (i > 0 and before == key):
            return  # the first point of a place does it for all
        if i + LONG < points and far == key:
            if unit == 0:
                store_now(longs + 8 * (fetch_and_add(long_count, np.int64(1)) + 1), i)
            return
        value = combine(value[0], value[1], new[0], new[1])
        if several:
            value = combine(value[0], value[1], newer[0], newer[1])
            value = fold_from(value, updates, key, i + 2, unit)
        if has_nan(value[0], value[1]):
            value = load(place)
            while i < points and load_key(pairs, i) == key:
                new = load_update(updates, load_point(pairs, i), unit)
                value = exact(value[0], value[1], new[0], new[1])
                i += 1
        store(place, value[0], value[1])

    return Kernel(fold_updates, 10, plan=(2, numbers_in(*counts)), registers=40)


@cache
def fold_many_kernel(data_type, reduction: str, width: int, counts: tuple[int, int, int], is_long: bool) -> Kernel:
    """Return the kernel that folds the updates of places that have many, a block those of one.

    One warp combines them in their order, an element for each lane, while the others bring the next updates to shared
    memory. Slices with more elements are several chunks, of a block each.
    """
    load, store = unit_access(width)
    load_key, _ = pair_fields(is_long)
    end_of_place, bring = folds.place_finder(is_long), folds.update_bringer(width, is_long)
    fold_rows = folds.row_folder(data_type, reduction, width)
    place_in_slice = slice_places(*counts)
    words = 2 if width == 16 else 1
    buffer = 2 * LOADED
    word = shared_type("int64")

    def fold_many(data, packed, plan, pairs, points, long_count, longs, blocks):
        """The plan is for units of one element. Of `long_count` and `longs` see `fold_updates`."""
        await_inputs()
        loaded = cuda.shared.array(buffer, word)
        thread = np.int64(cuda.threadIdx.x)
        updates = Updates(packed, pairs, points, number(plan, SLICE))
        chunks = (updates.elements + FOLDERS - 1) // FOLDERS
        for item in range(np.int64(cuda.blockIdx.x), (load_i64(long_count) + 1) * chunks, blocks):
            place_number = item // chunks
            j = (item - place_number * chunks) * FOLDERS
            wide = min(updates.elements - j, FOLDERS)
            i = load_i64(longs + 8 * place_number)
            key = load_key(pairs, i)
            end = end_of_place(updates, key, i)
            place = data + number(plan, LOWEST) + key * number(plan, GRANULE)
            first, second = np.int64(0), np.int64(0)
            folds = thread < wide
            if folds:
                place += place_in_slice(plan, j + thread, width)
                first, second = load(place)
            most = LOADED // (words * wide)
            if thread >= FOLDERS:
                bring(loaded, 0, updates, i, min(most, end - i), j, wide)
            cuda.syncthreads()
            begin = np.int64(0)
            while i < end:
                rows = min(most, end - i)
                i += rows
                if folds:
                    first, second = fold_rows(first, second, loaded, begin + words * thread, rows, words * wide)
                elif thread >= FOLDERS and i < end:
                    bring(loaded, LOADED - begin, updates, i, min(most, end - i), j, wide)
                begin = LOADED - begin
                cuda.syncthreads()
            if folds:
                store(place, first, second)

    return Kernel(fold_many, 8, plan=(2, numbers_in(*counts)), waits=True)
