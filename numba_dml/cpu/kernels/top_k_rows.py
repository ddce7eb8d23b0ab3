"""Top-k of whole lines, and of lines that several threads share piece by piece.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import address, array_at, empty, itemsize, seen_as
from ..drivers import ASK, OVERLAP
from ..primitives.keys import LANES, SPARE, key_buffer, rule_from
from ..primitives.top_k import plan as fields
from ..primitives.top_k.line_list import LISTED, list_best
from ..primitives.top_k.plan import TOO_FEW, clashes, line_bases, share_count, task_count
from ..primitives.top_k.selection import Buffers, add_ties, bound_of_sample, feed
from ..primitives.top_k.staging import STAGE, batches, stage_batch, stage_for, stage_lines
from ..primitives.top_k.writing import finish_line, write_line


class Group(NamedTuple):
    """The memory for a group of lines."""

    keys: Any  #: (lines, capacity) intW, the k best at least, in index order
    positions: Any  #: (lines, capacity) int64, where they are
    found: Any  #: (lines,) int64, how many they are
    thresholds: Any  #: (lines,) intW
    full: Any  #: (lines,) bool, whether there are any
    bases: Any  #: (lines,) int64, where the lines start
    stage: Any  #: (lines, elements) intW, elements of lines that are not contiguous
    blocks: Any  #: (elements / 64,) intW, the best keys of blocks
    scratch: Any  #: (capacity, and 4 * k for a survey,) intW
    scratch_positions: Any  #: (capacity,) int64


@helper
def feed_lines(x, plan, line, lines, piece, group):
    """Feed a piece of some lines to the buffers of their group, where there may be thresholds already."""
    staged, stride = plan[fields.GROUP] > 0, plan[fields.STRIDE]
    first = plan[fields.SIZE] * piece // plan[fields.PIECES]
    last = plan[fields.SIZE] * (piece + 1) // plan[fields.PIECES]
    block = STAGE if staged else max(last - first, 1)
    rule = rule_from(x, plan, fields.RULE)
    found, full, thresholds = group.found, group.full, group.thresholds
    for g in range(lines):
        group.bases[g] = line_bases(plan, line + g)[0]
        found[g] = 0
    for start in range(first, last, block):
        stop = min(start + block, last)
        if staged:
            stage_lines(x, group.bases, stride, start, stop - start, group.stage, lines)
        for g in range(lines):
            row = group.stage[g] if staged else array_at(x, group.bases[g] + start * stride, (stop - start,))
            buffers = Buffers(group.keys[g], group.positions[g], group.blocks, group.scratch)
            found[g], full[g], thresholds[g] = feed(
                row, stop - start, start, plan[fields.K], rule, buffers, found[g], full[g], thresholds[g]
            )


@helper
def finish_lines(x, values, indices, plan, line, lines, group):
    """Write the results of a group; stop at the first line that has too few elements, return its number in the group.

    Too few are above a bound from a sample, which has not changed then, and too few are equal to it.
    """
    for g in range(lines):
        keys, positions, count = group.keys[g], group.positions[g], group.found[g]
        if count < plan[fields.K] and plan[fields.SAMPLE] > 0:
            count = add_ties(plan, x, line + g, group.thresholds[g], keys, positions, count, group.scratch)
        if count < plan[fields.K]:
            return g
        finish_line(plan, x, line + g, values, indices, keys, positions, count, group.scratch, group.scratch_positions)
    return lines


@helper
def select_lines_in(x, values, indices, plan, begin, end, phase, piece, group):
    """Select from the lines begin <= line < end, in groups; return how many of the last group have a result.

    If lines are in pieces, phase 0 finds their bounds, 1 feeds a piece of one group, and 2 finishes a line.
    """
    whole = plan[fields.PIECES] == 1
    sampled = plan[fields.SAMPLE] > 0
    line, done = begin, 0
    while line < end:
        done = lines = min(group.found.size, end - line)
        for g in range(lines):
            group.full[g] = sampled
            if sampled and phase == 0:
                group.thresholds[g] = bound_of_sample(x, plan, line + g, group.scratch)
        if whole or phase == 1:
            feed_lines(x, plan, line, lines, piece, group)
        if whole or phase == 2:
            done = finish_lines(x, values, indices, plan, line, lines, group)
        if not whole:
            return done
        # Else the rest of the group is looked at again, without a sample.
        sampled = plan[fields.SAMPLE] > 0 and done == lines
        line += done
    return done


@helper
def piece_buffers(x, scratch, plan):
    """Return what phases hand on, in memory of the caller: bounds; the best of every piece, and how many they are."""
    lines = plan[fields.LINES]
    pieces = plan[fields.PIECES]
    shape = (pieces, lines, plan[fields.CAPACITY])
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
def copy_keys(source, target):
    """Copy keys."""
    for i in range(source.size):
        target[i] = source[i]


@helper
def found_of(piece_found, line):
    """Return how many elements the pieces of a line sent."""
    count = np.int64(0)
    for piece in range(piece_found.shape[0]):
        count += piece_found[piece, line]
    return count


@helper
def merge_pieces(line, piece_keys, piece_positions, piece_found, keys, positions):
    """Collect what the pieces of a line sent, in index order; return how many they are."""
    count = np.int64(0)
    for piece in range(piece_found.shape[0]):
        for j in range(piece_found[piece, line]):
            keys[count] = piece_keys[piece, line, j]
            positions[count] = piece_positions[piece, line, j]
            count += 1
    return count


@helper
def list_lines_in(x, values, indices, plan, begin, end, keys, places, rest):
    """Select from the lines begin <= line < end by sorted lists; the last three are scratch, see `list_best`."""
    rule = rule_from(x, plan, fields.RULE)
    for line in range(begin, end):
        source, to = line_bases(plan, line)
        list_best(array_at(x, source, (plan[fields.SIZE],)), plan[fields.K], rule, keys, places, rest)
        write_line(plan, x, source, values, indices, to, places)


@allocating
def list_lines(x, values, indices, plan, begin, end):
    """Select from short lines by sorted lists; others than contiguous ones are staged in batches."""
    room, places = key_buffer(x, LISTED + LANES), empty(LISTED, np.int32)
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        list_lines_in(x, values, indices, packed, first, last, room[:LISTED], places, room[LISTED:])


@allocating
def rows_task(x, values, indices, plan, phase, task, tasks, scratch):
    """Run a task of a phase: select from some lines; or of pieces, see `select_lines_in`."""
    pieces, capacity, size = plan[fields.PIECES], plan[fields.CAPACITY], max(plan[fields.GROUP], 1)
    begin, end, piece = plan[fields.LINES] * task // tasks, plan[fields.LINES] * (task + 1) // tasks, np.int64(0)
    if capacity == 0:
        list_lines(x, values, indices, plan, begin, end)
        return np.int64(0)
    bounds, piece_keys, piece_positions, piece_found = piece_buffers(x, scratch, plan)
    if pieces > 1:
        begin, end = task, task + 1
        if phase == 1:
            piece, begin = task % pieces, task // pieces * size
            end = min(begin + size, plan[fields.LINES])
        size = end - begin
        if phase == 2:
            capacity = max(plan[fields.K], found_of(piece_found, task)) + SPARE
    keys = key_buffer(x, (size, capacity if pieces == 1 or phase == 2 else 0))
    positions = empty(keys.shape, np.int64)
    found, thresholds = empty(size, np.int64), key_buffer(x, size)
    if pieces > 1:
        if phase == 0:
            thresholds = bounds[begin:end]
        else:  # which rise while a piece is fed
            copy_keys(bounds[begin:end], thresholds)
        if phase == 1:
            keys, positions = piece_keys[piece, begin:end], piece_positions[piece, begin:end]
            found = piece_found[piece, begin:end]
        elif phase == 2:
            found[0] = merge_pieces(task, piece_keys, piece_positions, piece_found, keys[0], positions[0])
    length = -(-plan[fields.SIZE] // pieces)
    group = Group(
        keys,
        positions,
        found,
        thresholds,
        empty(size, np.bool_),
        empty(size, np.int64),
        stage_for(x, plan, min(STAGE, length)),
        key_buffer(x, -(-(STAGE if plan[fields.GROUP] > 0 else length) // LANES) + SPARE),
        key_buffer(x, max(capacity, plan[fields.SAMPLE], 4 * plan[fields.K] + LANES)),
        empty(capacity, np.int64),
    )
    done = select_lines_in(x, values, indices, plan, begin, end, phase, piece, group)
    return np.int64(TOO_FEW if phase == 2 and done == 0 else 0)


@helper
def piece_task_count(phase, x, values, indices, plan):
    """Tell how many tasks a phase has."""
    if phase == 0 and clashes(x, values, indices, plan):
        return np.int64(OVERLAP)
    if phase == 1:
        return -(-plan[fields.LINES] // max(plan[fields.GROUP], 1)) * plan[fields.PIECES]
    return plan[fields.LINES] if phase < 3 else np.int64(0)


@kernel
def rows_kernel(phase, task, tasks, x, values, indices, scratch, plan):
    """Run a task, or tell how many there are: select from whole lines, or in phases from pieces of lines."""
    if task == ASK:
        if plan[fields.PIECES] > 1:
            return piece_task_count(phase, x, values, indices, plan)
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    return rows_task(x, values, indices, plan, phase, task, tasks, scratch)
