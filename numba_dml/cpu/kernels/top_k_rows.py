"""Top-k of whole lines, and of lines that several threads share piece by piece."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import address, array_at, empty, itemsize, seen_as
from ..drivers import ASK, OVERLAP
from ..primitives.keys import LANES, key_buffer, rule_from, scanned_buffer
from ..primitives.top_k.plan import (
    CAPACITY,
    GROUP,
    LINES,
    PIECES,
    RULE,
    SAMPLE,
    SIZE,
    STRIDE,
    TOO_FEW,
    K,
    clashes,
    line_bases,
    share_count,
    task_count,
)
from ..primitives.top_k.selection import add_ties, bound_of_sample, feed
from ..primitives.top_k.staging import STAGE, stage_for, stage_lines
from ..primitives.top_k.writing import finish_line, write_ordered


@allocating
def group_buffers(x, plan):
    """Return what `feed_lines` works with, for a group of lines."""
    group = max(plan[GROUP], 1)
    rows = STAGE if plan[GROUP] > 0 else -(-plan[SIZE] // plan[PIECES])
    return (
        key_buffer(x, group),  # the thresholds
        empty(group, np.bool_),  # whether there are any
        empty(group, np.int64),  # where the lines start
        stage_for(x, plan, min(STAGE, -(-plan[SIZE] // plan[PIECES]))),
        scanned_buffer(x, -(-rows // LANES)),  # the best keys of blocks
        key_buffer(x, plan[CAPACITY]),  # scratch
    )


@helper
def feed_lines(
    x,  # IN   the input
    plan,  # IN   (fields,) int64
    line,  # IN   the first line of a group
    lines,  # IN   how many lines
    piece,  # IN   of each, the piece to look at
    buffers,  # IN OUT  of the group; there may be thresholds already
    keys,  # OUT  (lines, capacity) intW, the k best at least, in index order
    positions,  # OUT  (lines, capacity) int64, where they are
    found,  # OUT  (lines,) int64, how many they are
):
    """Feed a piece of the lines of a group to their buffers."""
    thresholds, full, bases, stage, blocks, scratch = buffers
    stride = plan[STRIDE]
    staged = plan[GROUP] > 0
    first = plan[SIZE] * piece // plan[PIECES]
    last = plan[SIZE] * (piece + 1) // plan[PIECES]
    block = STAGE if staged else max(last - first, 1)
    rule = rule_from(x, plan, RULE)
    for g in range(lines):
        bases[g] = line_bases(plan, line + g)[0]
        found[g] = 0
    for start in range(first, last, block):
        stop = min(start + block, last)
        if staged:
            stage_lines(x, bases, stride, start, stop - start, stage, lines)
        for g in range(lines):
            row = stage[g] if staged else array_at(x, bases[g] + start * stride, (stop - start,))
            found[g], full[g], thresholds[g] = feed(
                row,
                stop - start,
                start,
                plan[K],
                rule,
                keys[g],
                positions[g],
                found[g],
                full[g],
                thresholds[g],
                blocks,
                scratch,
            )


@helper
def whole_lines_in(x, values, indices, plan, begin, end, buffers, keys, positions, found, scratch_positions):
    """Select from the lines begin <= line < end, in groups, with memory for one."""
    thresholds, full, _, _, _, scratch = buffers
    group = found.size
    for line in range(begin, end, group):
        lines = min(group, end - line)
        done = write_ordered(plan, x, values, indices, line, lines)
        line, lines = line + done, lines - done
        for g in range(lines):
            full[g] = False
            thresholds[g] = 0
        feed_lines(x, plan, line, lines, 0, buffers, keys, positions, found)
        for g in range(lines):
            finish_line(plan, x, line + g, values, indices, keys[g], positions[g], found[g], scratch, scratch_positions)


@allocating
def whole_lines(x, values, indices, plan, begin, end):
    """Select from the lines begin <= line < end."""
    group = max(plan[GROUP], 1)
    keys = key_buffer(x, (group, plan[CAPACITY]))
    positions = empty(keys.shape, np.int64)
    found = empty(group, np.int64)
    buffers = group_buffers(x, plan)
    scratch_positions = empty(plan[CAPACITY], np.int64)
    whole_lines_in(x, values, indices, plan, begin, end, buffers, keys, positions, found, scratch_positions)


@allocating
def piece_of_lines(x, plan, task, bounds, keys, positions, found):
    """Select from one piece of the lines of a group: the task says which. What is not above the bounds is left out."""
    piece = task % plan[PIECES]
    buffers = group_buffers(x, plan)
    thresholds, full, _, _, _, _ = buffers
    begin = task // plan[PIECES] * full.size
    end = min(begin + full.size, plan[LINES])
    for g in range(end - begin):
        full[g] = plan[SAMPLE] > 0
        thresholds[g] = bounds[begin + g] if full[g] else 0
    feed_lines(
        x,
        plan,
        begin,
        end - begin,
        piece,
        buffers,
        keys[piece, begin:end],
        positions[piece, begin:end],
        found[piece, begin:end],
    )


@allocating
def merge_pieces(
    x,  # IN   the input
    values,  # OUT  the selected elements
    indices,  # OUT  and where they are
    plan,  # IN   (fields,) int64
    line,  # IN   which line
    bounds,  # IN   (lines,) intW
    piece_keys,  # IN   (pieces, lines, capacity) intW, the best of every piece, in index order
    piece_positions,  # IN   (pieces, lines, capacity) int64
    found,  # IN   (pieces, lines) int64, how many they are
):
    """Select from what the pieces of a line sent; tell whether that was enough."""
    k = plan[K]
    total = np.int64(0)
    for piece in range(plan[PIECES]):
        total += found[piece, line]
    capacity = max(k, total)
    keys = scanned_buffer(x, capacity)
    positions = empty(capacity, np.int64)
    scratch = scanned_buffer(x, capacity)
    scratch_positions = empty(capacity, np.int64)
    count = np.int64(0)
    for piece in range(plan[PIECES]):
        for j in range(found[piece, line]):
            keys[count] = piece_keys[piece, line, j]
            positions[count] = piece_positions[piece, line, j]
            count += 1
    if count < k and plan[SAMPLE] > 0:
        count = add_ties(plan, x, line, bounds[line], keys, positions, count, key_buffer(x, LANES))
    if count >= k:
        finish_line(plan, x, line, values, indices, keys, positions, count, scratch, scratch_positions)
    return count >= k


@helper
def piece_buffers(x, scratch, plan):
    """Return what phases hand on, in memory of the caller: bounds; the best of every piece, and how many they are."""
    lines = plan[LINES]
    pieces = plan[PIECES]
    shape = (pieces, lines, plan[CAPACITY])
    at = address(scratch) - address(x)
    words = seen_as(x, np.int64)
    positions = array_at(words, at, shape)
    at += positions.size * 8
    found = array_at(words, at, (pieces, lines))
    at += found.size * 8
    keys = array_at(x, at, shape)
    at += keys.size * itemsize(x)
    return array_at(x, at, (lines,)), keys, positions, found


@helper
def piece_task_count(plan, phase):
    """How many tasks a phase has: 0 bounds the lines, 1 selects from their pieces, 2 merges these."""
    if phase == 1:
        return -(-plan[LINES] // max(plan[GROUP], 1)) * plan[PIECES]
    return plan[LINES] if phase < 3 else np.int64(0)


@allocating
def piece_task(x, values, indices, plan, phase, task, scratch):
    """Run one task of a phase; return a status."""
    bounds, keys, positions, found = piece_buffers(x, scratch, plan)
    if phase == 1:
        piece_of_lines(x, plan, task, bounds, keys, positions, found)
    elif phase == 2:
        if not merge_pieces(x, values, indices, plan, task, bounds, keys, positions, found):
            return np.int64(TOO_FEW)
    elif plan[SAMPLE] > 0:
        bounds[task] = bound_of_sample(x, plan, task, key_buffer(x, plan[SAMPLE]))
    return np.int64(0)


@kernel
def rows_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from whole lines."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    whole_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)


@kernel
def pieces_kernel(phase, task, tasks, x, values, indices, scratch, plan):
    """Run a task of a phase, or tell how many there are: select from the pieces of lines."""
    if task == ASK:
        if phase == 0 and clashes(x, values, indices, plan):
            return np.int64(OVERLAP)
        return piece_task_count(plan, phase)
    return piece_task(x, values, indices, plan, phase, task, scratch)
