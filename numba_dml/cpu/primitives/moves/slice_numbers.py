"""Slices by number: where each update leads, noted in one pass and used in the next."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import allocating, helper
from .plan import (
    BLOCK,
    COORD_FIELDS,
    COORDS,
    DATA_BASE,
    DROPPED,
    HEADER,
    LOOP_FIELDS,
    LOOPS,
    block_at,
    block_points,
    coords_at,
    find_offsets,
    find_rows,
)


@allocating
def in_slices(plan, size):
    """Return a plan whose offsets are numbers of slices."""
    numbered = plan.copy()
    numbered[DATA_BASE] //= size
    for loop in range(plan[LOOPS]):
        numbered[HEADER + LOOP_FIELDS * loop + 1] //= size
    for coord in range(plan[COORDS]):
        numbered[coords_at(plan) + COORD_FIELDS * coord + 1] //= size
    return numbered


@helper
def number_block(
    index,  # IN   the indices, packed
    plan,  # IN   (fields,) int64, `in_slices`
    rows,  # IN   what `find_rows` returns of it
    p,  # IN   the first point
    end,  # IN   only points below this one
    numbers,  # OUT  (count,) int32, which slice of the output each point writes; -1: it is dropped
    buffer,  # IN OUT  (3 * BLOCK,) int64: scratch, what `find_rows` leaves, scratch
):
    """Find out where a block of updates leads; return how many, and -1 or the position of the first bad index."""
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    step, index_step = plan[last + 1], plan[last + 2]
    offsets = buffer[2 * BLOCK :]
    count, base, position, _, first, _, _ = block_at(plan, rows, block_points(plan), p, end)
    status = find_offsets(plan, index, position, count, buffer[BLOCK + first :], step, index_step, buffer, offsets)
    for i in range(count):
        numbers[i] = -1 if offsets[i] == DROPPED else base + offsets[i]
    return count, max(status, np.int64(-1))


@helper
def note_numbers(index, plan, begin, end, noted, buffer):
    """Note which slice each of the points begin <= p < end writes; return the position of the first bad index, or -1.

    The arguments are as in `number_block`, `noted` for all points.
    """
    rows = find_rows(plan, buffer[BLOCK : 2 * BLOCK])
    p = begin
    while p < end:
        count, status = number_block(index, plan, rows, p, end, noted[p:], buffer)
        if status >= 0:
            return status
        p += count
    return np.int64(-1)
