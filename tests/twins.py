"""The twins of vector steps of the CPU's kernels, in plain Numba: `test_kernels` compares both."""

import numpy as np

from numba_dml._jit.compile import allocating, helper
from numba_dml._jit.memory import empty, itemsize, load
from numba_dml.cpu.primitives.argextreme import lanes_of
from numba_dml.cpu.primitives.keys import LANES, ROWS_AT_ONCE, key_of, lowest_bit, lowest_key
from numba_dml.cpu.primitives.top_k.column_limits import insert_width
from numba_dml.cpu.primitives.top_k.line_list import LISTED


@helper
def beats_plain(row, at, threshold, rule):
    """Return what `beats` returns, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        if key_of(row[at + i], rule) > threshold:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@helper
def rank_of_64_plain(keys, at, key, earlier):
    """Return what `rank_of_64` returns, in plain Numba."""
    rank = 0
    for i in range(LANES):
        tie = keys[at + i] == key and (earlier >> np.uint64(i)) & np.uint64(1) != np.uint64(0)
        rank += keys[at + i] > key or tie
    return rank


@helper
def best_lane_plain(row, at, rule):
    """Return what `best_lane` writes, in plain Numba."""
    best = lowest_key(row)
    for i in range(LANES):
        best = max(best, key_of(row[at + i], rule))
    return best


@helper
def raise_lanes_plain(row, at, best, first, rule):
    """Do what `raise_lanes` does, in plain Numba."""
    for i in range(LANES):
        best[first + i] = max(best[first + i], key_of(row[at + i], rule))


@helper
def best_key_plain(x, offset, count, rule):
    """Return what `best_key` returns, in plain Numba."""
    best = key_of(load(x, offset), rule)
    for i in range(1, count):
        best = max(best, key_of(load(x, offset + i * itemsize(x)), rule))
    return best


@helper
def best_of_some_plain(x, offset, first, count, rule):
    """Return what `best_of_some` returns, in plain Numba."""
    best = best_key_plain(x, offset + first * itemsize(x), count, rule)
    some = (np.uint64(1) << np.uint64(count)) - np.uint64(1)
    return best, lanes_equal_plain(x, offset, best, rule) & (some << np.uint64(first))


@helper
def lanes_equal_plain(x, offset, key, rule):
    """Return what `lanes_equal` returns, in plain Numba."""
    mask = np.uint64(0)
    for i in range(lanes_of(x)):
        if key_of(load(x, offset + i * itemsize(x)), rule) == key:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@helper
def improve_lanes_plain(x, offset, step, count, best, rows, first, row, rule):
    """Do what `improve_lanes` does, in plain Numba."""
    for i in range(count):
        for c in range(lanes_of(x)):
            key = key_of(load(x, offset + i * step + c * itemsize(x)), rule)
            if key > best[first + c]:
                best[first + c] = key
                rows[first + c] = row + i


@helper
def columns_above_plain(ref, offset, count, step, limits, first, rule):
    """Return what `row_beats` and `any_row_beats` return for one row or several, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        for row in range(count):
            if key_of(load(ref, offset + row * step + i * itemsize(ref)), rule) > limits[first + i]:
                mask |= np.uint64(1) << np.uint64(i)
    return mask


@helper
def rows_that_beat_plain(ref, offset, step, limits, first, rule):
    """Return what `rows_that_beat` returns, in plain Numba."""
    mask = np.uint64(0)
    for row in range(ROWS_AT_ONCE):
        for i in range(insert_width(limits)):
            if key_of(load(ref, offset + row * step + i * itemsize(ref)), rule) > limits[first + i]:
                mask |= np.uint64(1) << np.uint64(row)
    return mask


@helper
def best_of_rows_plain(ref, offset, step, best, first, rule):
    """Do what `best_of_rows` does, in plain Numba."""
    for lane in range(LANES):
        best[first + lane] = lowest_key(best)
        for row in range(ROWS_AT_ONCE):
            key = best.dtype.type(key_of(load(ref, offset + row * step + lane * itemsize(ref)), rule))
            best[first + lane] = max(best[first + lane], key)


@helper
def lower_limits_plain(ref, offset, step, limits, first, rule):
    """Do what `lower_limits` does, in plain Numba."""
    half = ROWS_AT_ONCE // 2
    for lane in range(insert_width(limits)):
        for begin in (0, half):
            key = lowest_key(limits)
            for row in range(begin, begin + half):
                key = max(key, limits.dtype.type(key_of(load(ref, offset + row * step + lane * itemsize(ref)), rule)))
            limits[first + lane] = min(limits[first + lane], key)


@helper
def raise_lists_plain(keys, at, best, first, k):
    """Do what `raise_lists` does, in plain Numba."""
    width = insert_width(best)
    for lane in range(width):
        key = keys[at + lane]
        for level in range(k):
            held = best[first + lane + level * width]
            best[first + lane + level * width] = max(key, held)
            key = min(key, held)


@helper
def insert_lanes_plain(ref, offset, best, where, limits, lane, levels, k, position, rule):
    """Do what `insert_lanes` does, in plain Numba."""
    width = insert_width(best)
    for i in range(width):
        key = best.dtype.type(key_of(load(ref, offset + i * itemsize(ref)), rule))
        at = lane * k + i
        level = 0
        while level < levels and best[at + width * level] >= key:
            level += 1
        for j in range(min(levels, k - 1), level, -1):
            best[at + width * j] = best[at + width * (j - 1)]
            where[at + width * j] = where[at + width * (j - 1)]
        if level < k:
            best[at + width * level] = key
            where[at + width * level] = position
        limits[lane + i] = best[at + width * (k - 1)]


@allocating
def group_bound_plain(row, whole, start, inside, k, rule):
    """Return what `group_bound` returns, in plain Numba."""
    groups = 2 * LISTED
    best = empty(groups, row.dtype)
    best[:] = lowest_key(best)
    for at in range(whole):
        best[at % groups] = max(best[at % groups], key_of(row[at], rule))
    for i in range(LANES):
        if (inside >> np.uint64(i)) & np.uint64(1) != np.uint64(0):
            best[i % groups] = max(best[i % groups], key_of(row[start + i], rule))
    best.sort()
    return best[groups - k], best[groups - 1]


@helper
def insert_best_plain(row, at, mask, most, keys, places, rule):
    """Do what `insert_best` does, in plain Numba."""
    while mask != np.uint64(0) and most > 0:
        key, place, to = key_of(row[at + lowest_bit(mask)], rule), at + lowest_bit(mask), LISTED
        while to > 0 and keys[to - 1] < key:
            if to < LISTED:
                keys[to], places[to] = keys[to - 1], places[to - 1]
            to -= 1
        if to < LISTED:
            keys[to], places[to] = key, place
        mask &= mask - np.uint64(1)
        most -= 1
    return mask
