"""The kernels of argmin and argmax: lines one by one, or neighbouring columns together."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.copies import prefetch
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import address, empty, itemsize, load, overlaps, store
from ..drivers import ASK, OVERLAP
from ..primitives import argextreme as fields
from ..primitives.argextreme import (
    AT_ONCE,
    NOTHING,
    NOWHERE,
    VECTOR_BITS,
    best_key,
    best_of_few,
    best_single,
    counted_rows,
    forget,
    improve_lanes,
    improve_many,
    inner_dimension,
    lanes_of,
    line_start,
    place_of_key,
    run_start,
    write_position,
)
from ..primitives.keys import key_buffer, rule_from
from ..primitives.lines import tile_of

#: How many shares there are for each thread, since lines can differ in what they cost.
SHARES = 4
#: Rows of a tile that are read together; and vectors up to which a tile is read row by row, since each row of so narrow
#: a tile is in another cache line anyway.
ROWS_AT_ONCE, NARROW = 8, 4


@helper
def task_count(phase, x, out, plan, pieces, threads):
    """Tell how many tasks a phase has: shares of all pieces, then of the lines whose pieces compete."""
    if phase == 0:
        source, to = address(x), address(out)
        if overlaps(source + plan[fields.LOW], source + plan[fields.HIGH], to, to + plan[fields.OUT_BYTES]):
            return np.int64(OVERLAP)
        return min(pieces, SHARES * threads)
    return min(plan[fields.LINES], threads) if phase == 1 and plan[fields.PIECES] > 1 else np.int64(0)


@helper
def piece_of(plan, number):
    """Return the line or tile of a piece, its number there, and the positions between which it lies."""
    cuts, rows = plan[fields.CUTS], plan[fields.ROWS]
    if cuts == 1:
        return number, np.int64(0), np.int64(0), rows
    unit = number // cuts
    piece = number - unit * cuts
    return unit, piece, rows * piece // cuts, rows * (piece + 1) // cuts


@helper
def keep_piece(scratch, plan, line, piece, key, position):
    """Keep the best of a piece of a line for the second phase."""
    at = 16 * (line * plan[fields.PIECES] + piece)
    store(scratch, at, np.int64(key))
    store(scratch, at + 8, position)


@helper
def merge_pieces(out, scratch, plan, task, tasks):
    """Write the best of the pieces of each line."""
    lines, pieces = plan[fields.LINES], plan[fields.PIECES]
    for line in range(lines * task // tasks, lines * (task + 1) // tasks):
        best, place = np.int64(NOTHING), np.int64(NOWHERE)
        for at in range(16 * line * pieces, 16 * (line + 1) * pieces, 16):
            key, position = load(scratch, at), load(scratch, at + 8)
            if key > best or (key == best and position < place):
                best, place = key, position
        write_position(out, plan, line_start(plan, line)[1], place)


@helper
def fills_no_vector(x, plan, count):
    """Tell whether neighbours are fewer than a vector has, and there is memory for one around them."""
    few = plan[fields.STRIDE] == itemsize(x) and count < lanes_of(x)
    return few and plan[fields.HIGH] - plan[fields.LOW] >= VECTOR_BITS // 8


@helper
def take_block(x, plan, rule, at, position, count, best, place):
    """Compare a block of elements, the first at `position`, with the best so far; return the best key, its place."""
    step = plan[fields.STEP]
    if plan[fields.STRIDE] == itemsize(x) and count >= lanes_of(x):
        found = best_key(x, at, count, rule)
        key = np.int64(found)
        if key < best or (key == best and plan[fields.ORDERED] != 0 and place != NOWHERE):
            return best, place
        i = place_of_key(x, at, count, found, rule, step < 0)
    elif fills_no_vector(x, plan, count):
        key, i = best_of_few(x, at, plan[fields.LOW], plan[fields.HIGH], count, rule, step < 0)
    else:
        key, i = best_single(x, at, plan[fields.STRIDE], count, rule, step < 0)
    position += i * step
    if key > best or (key == best and position < place):
        return key, position
    return best, place


@helper
def search_line(x, plan, rule, source, begin, end):
    """Return the best key of a line, and its position, between two counts of its elements as they lie in memory."""
    size, best, place = plan[fields.SIZE], np.int64(NOTHING), np.int64(NOWHERE)
    at = begin
    while at < end:
        outer = at // size if at >= size else np.int64(0)
        i = at - outer * size
        count = min(size - i, end - at, plan[fields.BLOCK])
        offset, first = run_start(plan, outer)
        begins = source + offset + i * plan[fields.STRIDE]
        best, place = take_block(x, plan, rule, begins, first + i * plan[fields.STEP], count, best, place)
        at = end if plan[fields.ORDERED] != 0 and best == plan[fields.BEST] else at + count
    return best, place


@helper
def search_lines(x, out, plan, rule, line, end):
    """Find the best of neighbouring lines, without a division for each."""
    low, high = plan[fields.LOW], plan[fields.HIGH]
    size, total, step = plan[fields.SIZE], plan[fields.TOTAL], plan[fields.STEP]
    are_short = size == total and fills_no_vector(x, plan, size)
    last = inner_dimension(plan)
    while line < end:
        source, to = line_start(plan, line)
        source_step = out_step = np.int64(0)
        stop = line + 1
        if plan[fields.DIMS] > 0:
            source_step, out_step = plan[last + 1], plan[last + 2]
            stop = min(end, line - line % plan[last] + plan[last])
        while line < stop:
            if are_short:
                _, i = best_of_few(x, source, low, high, size, rule, step < 0)
                place = plan[fields.FIRST] + i * step
            else:
                _, place = search_line(x, plan, rule, source, np.int64(0), total)
            write_position(out, plan, to, place)
            line += 1
            source += source_step
            to += out_step


@helper
def write_if_found_at_once(x, out, plan, rule):
    """Tell whether the first block of the only line has what nothing can beat, and write its index then.

    Waking threads takes longer than that.
    """
    if plan[fields.LINES] > 1 or plan[fields.CUTS] == 1 or plan[fields.ORDERED] == 0:
        return False
    source, to = line_start(plan, np.int64(0))
    best, place = search_line(x, plan, rule, source, np.int64(0), plan[fields.BLOCK])
    if best != plan[fields.BEST]:
        return False
    write_position(out, plan, to, place)
    return True


@kernel
def lines_kernel(phase, task, tasks, x, out, scratch, _, plan):
    """Run a task, or tell how many there are: lines, or pieces of them."""
    everything = plan[fields.LINES] * plan[fields.CUTS]
    rule = rule_from(x, plan, fields.RULE)
    if task == ASK:
        count = task_count(phase, x, out, plan, everything, tasks)
        return np.int64(0) if phase == 0 and count > 0 and write_if_found_at_once(x, out, plan, rule) else count
    if phase > 0:
        merge_pieces(out, scratch, plan, task, tasks)
        return np.int64(0)
    start, stop = everything * task // tasks, everything * (task + 1) // tasks
    if plan[fields.PIECES] == 1:
        search_lines(x, out, plan, rule, start, stop)
        return np.int64(0)
    for number in range(start, stop):
        line, piece, begin, end = piece_of(plan, number)
        source, _ = line_start(plan, line)
        # Behind the results of the pieces, each line has a word: 0, or 1 more than the number of a piece that found the
        # highest key there is; later pieces are passed over.
        done = 16 * everything + 8 * line
        best, place = np.int64(NOTHING), np.int64(NOWHERE)
        if load(scratch, done) == 0 or piece < load(scratch, done):
            best, place = search_line(x, plan, rule, source, begin, end)
        if plan[fields.ORDERED] != 0 and best == plan[fields.BEST]:
            store(scratch, done, piece + 1)
        keep_piece(scratch, plan, line, piece, best, place)
    return np.int64(0)


@helper
def keep_rows(x, best, rows, keys, places, position):
    """Raise the keys of columns to those that were found in rows from a position on, and forget these."""
    for c in range(best.size):
        higher = best[c] > keys[c]
        keys[c] = max(best[c], keys[c])
        places[c] = position + (rows[c] & (counted_rows(x) - 1)) if higher else places[c]
    forget(best, rows)


@helper
def ask_for_rows(x, offset, stride):
    """Ask for what `improve_many` looks at, in ROWS_AT_ONCE rows; they need not exist."""
    for i in range(ROWS_AT_ONCE):
        for line in range(0, AT_ONCE * VECTOR_BITS // 8, CACHE_LINE):
            prefetch(x, offset + i * stride + line)


@helper
def search_columns(x, plan, rule, source, begin, end, best, rows, keys, places):
    """Find the best of some columns between two positions; rows are counted from the last time they were kept."""
    size, stride, width, lanes = plan[fields.SIZE], plan[fields.STRIDE], best.size, lanes_of(x)
    together = counted_rows(x) if width <= NARROW * lanes else np.int64(ROWS_AT_ONCE)
    forget(best, rows)
    forget(keys, places)
    for c in range(width):
        places[c] = begin
    at = kept = begin
    while at < end:
        outer = at // size
        offset, _ = run_start(plan, outer)
        row = source + offset + (at - outer * size) * stride
        stop = min((outer + 1) * size, end)
        while at < stop:
            count = min(together, stop - at, kept + counted_rows(x) - at)
            many = width // (AT_ONCE * lanes) * (AT_ONCE * lanes)
            for c in range(0, many, AT_ONCE * lanes):
                if together == ROWS_AT_ONCE:
                    ask_for_rows(x, row + together * stride + c * itemsize(x), stride)
                improve_many(x, row + c * itemsize(x), stride, count, best, rows, c, at - kept, rule)
            for first in range(many, width, lanes):
                c = min(first, width - lanes)  # the last vector has columns of the one before
                improve_lanes(x, row + c * itemsize(x), stride, count, best, rows, c, at - kept, rule)
            at += count
            row += count * stride
            if at - kept == counted_rows(x):
                keep_rows(x, best, rows, keys, places, kept)
                kept = at
    keep_rows(x, best, rows, keys, places, kept)


@helper
def write_columns(out, scratch, plan, line, piece, to, keys, places):
    """Write the positions that were found for a tile of columns, or keep them for the second phase."""
    if plan[fields.PIECES] > 1:
        for c in range(keys.size):
            keep_piece(scratch, plan, line + c, piece, keys[c], places[c])
        return
    step = plan[inner_dimension(plan) + 2]
    for c in range(keys.size):
        write_position(out, plan, to + c * step, places[c])


@helper
def keep_folded(x, scratch, plan, rule, column, piece, keys, places, is_last):
    """Keep the best of a tile of folded columns; the last piece of the first tile has the rows that fill no fold."""
    fold, lines, stride = plan[fields.FOLD], plan[fields.LINES], plan[fields.STRIDE]
    for c in range(keys.size):
        group = (column + c) // lines
        line = column + c - group * lines
        group = fold - 1 - group if stride < 0 else group
        keep_piece(scratch, plan, line, piece * fold + group, keys[c], places[c] * fold + group)
    if column > 0 or not is_last:
        return
    done = plan[fields.ROWS] * fold
    left = plan[fields.TOTAL] - done
    step = stride // fold
    start = plan[fields.START] + plan[fields.ROWS] * stride - (step * (fold - 1) if stride < 0 else 0)
    for line in range(lines):
        key, place = np.int64(NOTHING), np.int64(NOWHERE)
        if left > 0:
            key, place = best_single(x, start + line * itemsize(x), step, left, rule, False)
            place += done
        keep_piece(scratch, plan, line, plan[fields.PIECES] - 1, key, place)


@helper
def columns_across(plan):
    """Return how many columns lie side by side."""
    return plan[inner_dimension(plan)] * plan[fields.FOLD]


@allocating
def take_tile(x, out, scratch, plan, number):
    """Find the best of a tile of columns, or of a piece of it."""
    tile, piece, begin, end = piece_of(plan, number)
    line, width = tile_of(tile, columns_across(plan), plan[fields.TILE], plan[fields.TILE])
    source, to = line_start(plan, line)
    if plan[fields.FOLD] > 1:
        source = plan[fields.START] + line * itemsize(x)
    best, rows, keys = key_buffer(x, width), key_buffer(x, width), key_buffer(x, width)
    places = empty(width, np.int64)
    rule = rule_from(x, plan, fields.RULE)
    search_columns(x, plan, rule, source, begin, end, best, rows, keys, places)
    if plan[fields.FOLD] > 1:
        keep_folded(x, scratch, plan, rule, line, piece, keys, places, end == plan[fields.ROWS])
    else:
        write_columns(out, scratch, plan, line, piece, to, keys, places)


@kernel
def columns_kernel(phase, task, tasks, x, out, scratch, _, plan):
    """Run a task, or tell how many there are: tiles of columns, or pieces of them."""
    across = columns_across(plan)
    everything = plan[fields.LINES] * plan[fields.FOLD] // across * -(-across // plan[fields.TILE]) * plan[fields.CUTS]
    if task == ASK:
        return task_count(phase, x, out, plan, everything, tasks)
    if phase > 0:
        merge_pieces(out, scratch, plan, task, tasks)
        return np.int64(0)
    for number in range(everything * task // tasks, everything * (task + 1) // tasks):
        take_tile(x, out, scratch, plan, number)
    return np.int64(0)
