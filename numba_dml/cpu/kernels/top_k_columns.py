"""Top-k along an axis whose neighbouring lines are contiguous side by side.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.copies import prefetch
from ..._jit.machine import CACHE_LINE, cache_bytes
from ..._jit.memory import address, itemsize, load
from ..drivers import ASK
from ..primitives.keys import LANES, ROWS_AT_ONCE, key_buffer, lowest_bit, lowest_key, place_buffer, rule_from
from ..primitives.top_k import column_limits
from ..primitives.top_k import plan as fields
from ..primitives.top_k.column_lists import insert_lanes, raise_lists
from ..primitives.top_k.plan import inner_dimension, line_bases, task_count, tile_count, tile_of_columns
from ..primitives.top_k.writing import write_element

#: Of long columns, a sample of the groups of `ROWS_AT_ONCE` rows is looked at first: it tells what not to insert. It is
#: one group in eight, or four per result if these are more, but one in four and sixteen per result at most. So are
#: the last rows, four per result: columns that ascend have their best there.
COLUMN_SAMPLED = 4, 8
COLUMN_SAMPLES = 4, 16
#: Rows this many bytes apart are looked at together, and so are rows without a gap. Of others, which lie in few pages,
#: the hardware prefetcher finds no streams: they are looked at one by one, and prefetched ROWS_AHEAD rows ahead.
LONG_ROW = 4096
ROWS_AHEAD = 4
#: Columns of at most this many elements per result are looked at row by row, too: nearly all have one to insert.
CROWDED = 32
#: Rows that are looked at together are prefetched ASKED columns ahead, unless their distance is a multiple of a page
#: and the L1 has too few ways: they share its sets. FEW_PLACES is known when a kernel is compiled; with a disk cache
#: of another processor only the speed differs.
ASKED = 2 * LANES
PAGE = 4096
FEW_PLACES = cache_bytes(0, assumed=1 << 16) <= ROWS_AT_ONCE * PAGE


# The columns of a tile are looked at in masks, and have a list for each bit. If they are no multiple of a mask, the
# last one begins earlier: the first of its lists are not used, since the mask before has those columns.


@helper
def first_of_mask(first, lanes):
    """Return the first column of the mask whose lists start with number `first`."""
    return max(min(first, lanes - LANES), 0)


@helper
def list_of(lane, lanes, width):
    """Return the number of a column's list."""
    return lane if lane < width - LANES or lanes < LANES else width - lanes + lane


@helper
def place_in_list(number, j, k, together):
    """Return where place `j` of a list is, among those of `together` columns each."""
    return number // together * together * k + number % together + j * together


@helper
def column_rows(x, offset, step, count, lanes, staged):
    """Return where rows of columns are, and how far apart: where they lie, or staged if they have less than a mask."""
    if lanes >= LANES:
        return offset, step
    for j in range(count):
        for lane in range(lanes):
            staged[j * LANES + lane] = load(x, offset + j * step + lane * itemsize(x))
    return staged.ctypes.data - address(x), LANES * itemsize(x)


@helper
def ask_for_rows(x, rows, next_rows, stride, first, lanes, width):
    """Ask for some columns of rows that are looked at together: those behind a mask, or the first ones of next rows.

    Rows that have no more columns than a mask ask for the next ones' start.
    """
    if FEW_PLACES and stride % PAGE == 0:
        return
    start, ahead = rows, first + ASKED
    if ahead >= width:
        start, ahead = next_rows, min(ahead - width, width - LANES)
    start += first_of_mask(ahead, lanes) * itemsize(x)
    for j in range(ROWS_AT_ONCE):
        for byte in range(0, LANES * itemsize(x), CACHE_LINE):
            prefetch(x, start + j * stride + byte)


@helper
def bound_columns(x, source, stride, n, k, lanes, staged, lists, rule):
    """Find a limit for each column that k of its elements reach, from a part of the rows; tell whether there is one.

    Lists of keys below the limits are full then, and will hold nothing of them in the end. Until the limits are found,
    the best keys of each group of rows are in their place.
    """
    best, _, limits = lists
    lowest = lowest_key(best)
    together = column_limits.insert_width(best)
    rows_at_once = np.int64(ROWS_AT_ONCE)
    least, most = COLUMN_SAMPLES[0] * k, COLUMN_SAMPLES[1] * k
    often, seldom = n // (ROWS_AT_ONCE * COLUMN_SAMPLED[0]), n // (ROWS_AT_ONCE * COLUMN_SAMPLED[1])
    groups = min(often, max(seldom, least), most)
    if groups <= k:
        return False
    best[:] = lowest
    for group in range(groups):
        rows, step = column_rows(x, source + group * n // groups * stride, stride, rows_at_once, lanes, staged)
        for first in range(0, limits.size, LANES):
            column_limits.best_of_rows(x, rows + first_of_mask(first, lanes) * itemsize(x), step, limits, first, rule)
        for lane in range(0, limits.size, together):
            raise_lists(limits, lane, best, lane * k, k)
    limits[:] = ~lowest  # the highest
    last = (k + 1) // 2
    for group in range(last):
        row = n - (last - group) * ROWS_AT_ONCE
        rows, step = column_rows(x, source + row * stride, stride, rows_at_once, lanes, staged)
        for first in range(0, limits.size, LANES):
            at = rows + first_of_mask(first, lanes) * itemsize(x)
            for lane in range(0, LANES, together):
                column_limits.lower_limits(x, at + lane * itemsize(x), step, limits, first + lane, rule)
    for i in range(limits.size):
        limits[i] = max(limits[i], best[place_in_list(i, k - 1, k, together)])
    for lane in range(lanes):
        if limits[list_of(lane, lanes, limits.size)] == lowest:
            return False  # no limit is below
    for i in range(limits.size):
        limits[i] = best.dtype.type(limits[i] - 1)
        for j in range(k):
            best[place_in_list(i, j, k, together)] = limits[i]
    return True


@helper
def insert_hits(x, at, step, count, mask, lists, first, levels, k, position, rule):
    """Insert elements of some rows into their lists, those of neighbouring columns together.

    A mask tells in which columns, from byte `at` and from list `first` on, any of the rows beats its limit.
    """
    best, where, limits = lists
    together = column_limits.insert_width(best)
    inserted = (np.uint64(1) << np.uint64(together)) - np.uint64(1)
    while mask != np.uint64(0):
        lane = lowest_bit(mask) // together * together
        mask &= ~(inserted << np.uint64(lane))
        hits = np.uint64(1)
        if count > 1:
            hits = column_limits.rows_that_beat(x, at + lane * itemsize(x), step, limits, first + lane, rule)
        while hits != np.uint64(0):
            j = lowest_bit(hits)
            hits &= hits - np.uint64(1)
            element = at + lane * itemsize(x) + j * step
            insert_lanes(x, element, best, where, limits, first + lane, levels, k, position + j, rule)


@helper
def scan_columns(x, plan, source, lanes, bounded, lists, staged, rule):
    """Look at all rows of a tile, and insert what beats the last of its list."""
    size, n, k, stride = itemsize(x), plan[fields.SIZE], plan[fields.K], plan[fields.STRIDE]
    limits = lists[2]
    own = ~np.uint64(0) >> np.uint64(max(LANES - lanes, 0))
    many = n > CROWDED * k and (abs(stride) >= LONG_ROW or lanes < LANES or stride == LANES * size)
    i = 0
    while i < n:
        levels = k if bounded else min(i, k)
        count = ROWS_AT_ONCE if many and levels == k and i + ROWS_AT_ONCE <= n else 1
        here = source + i * stride
        rows, step = column_rows(x, here, stride, count, lanes, staged)
        for first in range(0, limits.size, LANES):
            begin = first_of_mask(first, lanes)
            at = rows + begin * size
            mask = ~np.uint64(0)
            if count > 1:
                ask_for_rows(x, here, here + count * stride, stride, first, lanes, limits.size)
                mask = column_limits.any_row_beats(x, at, step, limits, first, rule)
            else:
                for byte in range(0, LANES * size if i + ROWS_AHEAD < n else 0, CACHE_LINE):
                    prefetch(x, here + ROWS_AHEAD * stride + begin * size + byte)
                if levels == k:
                    mask = column_limits.row_beats(x, at, step, limits, first, rule)
            mask &= own << np.uint64(first - begin)
            insert_hits(x, at, step, count, mask, lists, first, levels, k, i, rule)
        i += count


@helper
def write_columns(x, values, indices, plan, source, to, lanes, lists):
    """Write what the lists of a tile have, row by row."""
    best, where, limits = lists
    size, k, stride, index_size = itemsize(x), plan[fields.K], plan[fields.STRIDE], plan[fields.INDEX_SIZE]
    lane_step, out_step = plan[inner_dimension(plan) + 2], plan[fields.OUT_STRIDE]
    together = column_limits.insert_width(best)
    for j in range(k):
        for lane in range(lanes):
            position = np.int64(where[place_in_list(list_of(lane, lanes, limits.size), j, k, together)])
            at = to + lane * lane_step + j * out_step
            write_element(x, source + lane * size, stride, values, indices, index_size, at, position)


@allocating
def column_tile(x, values, indices, plan, task):
    """Select from a tile of neighbouring lines: their elements at one position are contiguous, a row.

    Every line has a sorted list. An element that beats the last of its list is inserted in the same steps as the
    elements of its neighbours, for some of them in vain. Rows of long lines are looked at eight together, a part of
    each, then the next: the memory is read in eight long streams.
    """
    k = plan[fields.K]
    line, lanes = tile_of_columns(plan, task, LANES)  # the last tile is a mask at least, if there is one
    source, to = line_bases(plan, line)
    rule = rule_from(x, plan, fields.RULE)
    width = -(-lanes // LANES) * LANES
    # The keys of the lists, their positions, and the last keys.
    lists = key_buffer(x, k * width), place_buffer(x, k * width), key_buffer(x, width)
    staged = key_buffer(x, ROWS_AT_ONCE * LANES)
    staged[:] = 0
    bounded = bound_columns(x, source, plan[fields.STRIDE], plan[fields.SIZE], k, lanes, staged, lists, rule)
    scan_columns(x, plan, source, lanes, bounded, lists, staged, rule)
    write_columns(x, values, indices, plan, source, to, lanes, lists)


@kernel
def columns_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from tiles of columns."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, tile_count(plan))
    column_tile(x, values, indices, plan, task)
    return np.int64(0)
