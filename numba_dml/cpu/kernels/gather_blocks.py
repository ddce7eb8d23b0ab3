"""The gather kernel: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1 are one loop nest with different numbers."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.copies import finish_streams
from ..._jit.memory import empty, itemsize, store
from ..drivers import ASK, OVERLAP
from ..primitives.moves.elements import lines_ahead, read_soon, take_found
from ..primitives.moves.gather_shares import FAR_BLOCK, by_shares, clashes
from ..primitives.moves.plan import (
    ALL_INSIDE,
    BLOCK,
    CACHED,
    COMMON,
    DROPPED,
    HEADER,
    LOOP_FIELDS,
    LOOPS,
    STREAM,
    block_at,
    block_points,
    find_offsets,
    find_rows,
)
from ..primitives.moves.runs import copy_run, take_runs


@helper
def gather_blocks(
    data,  # IN   the input
    index,  # IN   the indices, packed
    packed,  # OUT  the slices of all points
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end ...
    end,
    low,  # IN   ... and of their slices the elements low <= j < high
    high,
    common,  # IN   True: all rows have the same indices, whose offsets are found once
    buffer,  # OUT  (2 * BLOCK + points of a block,) int64, scratch
):
    """Gather a share of the points, block by block; return the position of the first bad index, or -1."""
    size = itemsize(data)
    large = plan[STREAM] != 0
    cached = plan[CACHED] != 0
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    step = plan[last + 1]
    index_step = plan[last + 2]
    packed_step = plan[last + 3]
    room, pattern, offsets = buffer[:BLOCK], buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK :]
    rows = find_rows(plan, pattern)
    _, length, unit = rows
    points = offsets.size if unit == 1 else min(offsets.size, block_points(plan))
    known = False
    status = ALL_INSIDE
    single = high - low == 1 and packed_step == size  # so low is 0
    index_lines, data_lines, output_lines = lines_ahead(plan, length, size)
    lines = (0 if common or index_step == 0 else index_lines), data_lines, output_lines
    p = begin
    while p < end:
        count, base, position, place, first, row, j = block_at(plan, rows, points, p, end)
        soon = read_soon(plan, rows, p, (base, position, row, j), end, lines)
        shape = pattern[first:]
        found = offsets
        if common:  # offsets are from the start of the row
            base -= j * step
            found = offsets[j:]
        if not known:
            at, some = (position - j * index_step, length) if common else (position, count)
            status = find_offsets(plan, index, at, some, shape, step, index_step, room, offsets)
            if status >= 0:
                return status
            known = common
        if status == ALL_INSIDE and single:
            take_found(data, base, found, packed, place, count, index, soon, lines)
        elif status == ALL_INSIDE:
            begin_byte, end_byte = low * size, high * size
            take_runs(data, base, found, packed, place, packed_step, count, begin_byte, end_byte, cached, large, room)
        else:
            for i in range(count):
                if found[i] == DROPPED:
                    for k in range(low, high):
                        store(packed, place + i * packed_step + k * size, 0)
                else:
                    at = low * size
                    copy_run(packed, place + i * packed_step + at, data, base + found[i] + at, high - low)
        p += count
    if large:
        finish_streams()
    return np.int64(-1)


@allocating
def gather_range(data, index, packed, plan, begin, end, low, high):
    """Gather a share of the points; see `gather_blocks`."""
    length = plan[HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)]
    common = plan[COMMON] != 0 and end - begin > length
    far = plan[STREAM] != 0 and high - low > 1
    points = length if common else FAR_BLOCK if far else block_points(plan)
    buffer = empty(2 * BLOCK + points, np.int64)  # each takes 0.05 us
    return gather_blocks(data, index, packed, plan, begin, end, low, high, common, buffer)


gather_share = by_shares(gather_range)


@kernel
def gather_kernel(phase, task, tasks, data, index, packed, _, plan):
    """Run a task of a gather, or tell how many there are."""
    if task != ASK:
        return gather_share(data, index, packed, plan, task, tasks) + 1
    if phase > 0:
        return np.int64(0)
    return np.int64(OVERLAP) if clashes(data, index, packed, plan) else tasks
