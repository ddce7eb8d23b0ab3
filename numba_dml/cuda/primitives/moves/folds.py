"""How the updates of a place, whose pairs stand next to each other, are combined: by a thread, or by a block."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import BLOCK, cuda
from ..access import unit_access
from ..pairs import pair_fields
from .reductions import unit_steps
from .sizes import SIZES

#: A place with more updates is folded by a block.
LONG = SIZES.long_fold
#: Threads of such a block that fold, an element each; the others load the next updates.
FOLDERS = SIZES.folders


class Updates(NamedTuple):
    """The updates, and the pairs that tell their order."""

    packed: object  #: the address of the updates
    pairs: object  #: the address of pairs of a place's number and an update's, sorted
    points: object  #: how many they are
    elements: object  #: units of an update


@cache
def next_updates(data_type, reduction: str, width: int, is_long: bool):
    """Return ``load_update(updates, point, unit)`` and ``fold_from(value, updates, key, i, unit)``.

    The second combines a value with the updates of all pairs that have a key, from one on: four at a time.
    """
    load, _ = unit_access(width)
    load_key, load_point = pair_fields(is_long)
    combine, *_ = unit_steps(data_type, reduction, width)

    @helper
    def load_update(updates, point, unit):
        return load(updates.packed + (point * updates.elements + unit) * width)

    @helper
    def fold_four(value, updates, key, i, unit):
        """Combine a value with the updates of the next four pairs that have a key; return how many these are."""
        pairs, points = updates.pairs, updates.points
        numbers = cuda.local.array(4, np.int64)
        values = cuda.local.array((4, 2), np.int64)
        count = np.int64(0)
        for k in range(4):
            numbers[k] = load_point(pairs, min(i + k, points - 1))
            count += i + k < points and load_key(pairs, min(i + k, points - 1)) == key
        for k in range(4):
            values[k, 0], values[k, 1] = load_update(updates, numbers[k] if k < count else numbers[0], unit)
        for k in range(4):
            if k < count:
                value = combine(value[0], value[1], values[k, 0], values[k, 1])
        return value, count

    @helper
    def fold_from(value, updates, key, i, unit):
        while i < updates.points and load_key(updates.pairs, i) == key:
            value, count = fold_four(value, updates, key, i, unit)
            i += count
        return value

    return load_update, fold_from


@cache
def place_finder(is_long: bool):
    """Return ``end_of_place(updates, key, i)``, where pairs with a key end, of which `i` and ``i + LONG`` are two."""
    load_key, _ = pair_fields(is_long)

    @helper
    def end_of_place(updates, key, i):
        pairs, points = updates.pairs, updates.points
        step = np.int64(LONG)
        low = i
        while low + step < points and load_key(pairs, low + step) == key:
            low += step
            step *= 2
        high = min(low + step, points)  # another place's, or the end
        while high - low > 1:
            middle = (low + high) >> 1
            if load_key(pairs, middle) == key:
                low = middle
            else:
                high = middle
        return high

    return end_of_place


@cache
def update_bringer(width: int, is_long: bool):
    """Return ``bring(loaded, begin, updates, i, rows, j, wide)``, for all threads but the folders.

    It loads `wide` elements from `j` on of the updates of `rows` pairs.
    """
    load, _ = unit_access(width)
    _, load_point = pair_fields(is_long)
    words = 2 if width == 16 else 1

    @helper
    def bring(loaded, begin, updates, i, rows, j, wide):
        for k in range(np.int64(cuda.threadIdx.x) - FOLDERS, rows * wide, BLOCK - FOLDERS):
            row = k // wide
            point = load_point(updates.pairs, i + row)
            first, second = load(updates.packed + (point * updates.elements + j + k - row * wide) * width)
            loaded[np.uint32(begin + words * k)] = first
            if words == 2:
                loaded[np.uint32(begin + words * k + 1)] = second

    return bring


@cache
def row_folder(data_type, reduction: str, width: int):
    """Return ``fold_rows(first, second, loaded, at, rows, step)``: a value combined with the rows of updates."""
    fast, exact, has_nan = unit_steps(data_type, reduction, width)
    words = 2 if width == 16 else 1

    @helper
    def take(loaded, at):
        return loaded[np.uint32(at)], loaded[np.uint32(at + 1)] if words == 2 else np.int64(0)

    def folding(combine):
        @helper
        def fold(first, second, loaded, at, rows, step):
            some = cuda.local.array((4, 2), np.int64)
            row = np.int64(0)
            while row + 4 <= rows:  # four at a time, so that they come while others are combined
                for k in range(4):
                    some[k, 0], some[k, 1] = take(loaded, at + k * step)
                for k in range(4):
                    first, second = combine(first, second, some[k, 0], some[k, 1])
                at += 4 * step
                row += 4
            for _ in range(row, rows):
                a = take(loaded, at)
                first, second = combine(first, second, a[0], a[1])
                at += step
            return first, second

        return fold

    fold_fast, fold_exactly = folding(fast), folding(exact)

    @helper
    def fold_rows(first, second, loaded, at, rows, step):
        found = fold_fast(first, second, loaded, at, rows, step)
        if has_nan(found[0], found[1]):
            found = fold_exactly(first, second, loaded, at, rows, step)
        return found

    return fold_rows
