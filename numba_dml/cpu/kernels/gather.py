"""The gather kernel: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1 are one loop nest with different numbers.

Compiled for bytes it moves slices of any length and type; for wider units, single elements of their width.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..._jit.compile import allocating, chosen, helper, kernel
from ..._jit.copies import finish_streams
from ..._jit.memory import address, empty, itemsize, load, overlaps, store
from ..drivers import ASK, OVERLAP, lower_status
from ..primitives.moves import plan as fields
from ..primitives.moves.elements import lines_ahead, read_soon, take_directly, take_found
from ..primitives.moves.offsets import find_offsets
from ..primitives.moves.plan import (
    BLOCK,
    FAR_BLOCK,
    block_at,
    block_points,
    coord_at,
    find_rows,
    last_loop,
    share_of_loop,
)
from ..primitives.moves.runs import copy_run, move_strip, take_runs


@chosen
def take_slices(data, base, offsets, packed, to, step, count, length, plan, room):
    """Copy slices as `take_runs` does, if elements are bytes; wider ones are single, and not neighbours."""

    def of_bytes(data, base, offsets, packed, to, step, count, length, plan, room):
        take_runs(data, base, offsets, packed, to, step, count, length, plan, room)

    def single(data, base, offsets, packed, to, step, count, length, plan, room):
        for i in range(count):
            store(packed, to + i * step, load(data, base + offsets[np.uint64(i)]))

    return of_bytes if data.dtype == types.uint8 else single


@helper
def repeat_offsets(pattern, offsets, count, points):
    """Set the offsets of a block's points by those of its first `count` points, whose indices all rows have."""
    for i in range(count, points):
        known = offsets[i - count]
        offsets[i] = known if known == fields.DROPPED else known - pattern[i - count] + pattern[i]


@helper
def gather_blocks(
    data,  # IN   the input
    index,  # IN   the indices, packed
    packed,  # OUT  the slices of all points
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end ...
    end,
    low,  # IN   ... and of their slices the units low <= j < high
    high,
    common,  # IN   True: all rows have the same indices, whose offsets are found once
    buffer,  # OUT  (2 * BLOCK + points of a block,) int64, scratch
):
    """Gather a share of the points, block by block; return the position of the first bad index, or -1."""
    size = itemsize(data)
    last = last_loop(plan)
    step, index_step, packed_step = plan[last + 1], plan[last + 2], plan[last + 3]
    room, pattern, offsets = buffer[:BLOCK], buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK :]
    rows = find_rows(plan, pattern, common)
    _, length, unit = rows
    points = offsets.size if unit == 1 else min(offsets.size, block_points(plan))
    known, status = False, fields.ALL_INSIDE
    single = high - low == 1 and packed_step == size  # so low is 0
    index_lines, data_lines, output_lines = lines_ahead(plan, length, size)
    lines = (0 if common or index_step == 0 else index_lines), data_lines, output_lines
    # Where there is a pattern, the offsets that `find_offsets` works out as vectors are faster.
    neighbours = single and not common and index_step == 1 and unit == 1 and step == 0
    p, after = begin, (begin // length, begin % length)
    while p < end:
        row, j = after
        count, base, position, place, first, after = block_at(plan, rows, points, after, end - p)
        soon = read_soon(plan, rows, p, (base, position, row, j), end, lines)
        found = offsets
        if neighbours and take_directly(plan, data, base, packed, place, count, index, position, soon, lines):
            p += count
            continue
        if common and unit == 1:  # offsets are from the start of the row, or of the unit
            base -= j * step
            first = j
        if not known:
            # Of rows that share their indices, the first one's; the others of a block repeat them.
            at, some, point = (plan[fields.INDEX_BASE], plan[last], 0) if common else (position, count, first)
            status = find_offsets(plan, index, at, some, pattern[point:], step, index_step, room, offsets)
            if status >= 0:
                return status
            if common and unit > 1:
                repeat_offsets(pattern, offsets, some, min(length, points // unit * unit))
            known = common
        if common:
            found = offsets[first:]
        if status == fields.ALL_INSIDE and single:
            take_found(data, base, found, packed, place, count, index, soon, lines)
        elif status == fields.ALL_INSIDE:
            at = low * size
            take_slices(data, base + at, found, packed, place + at, packed_step, count, (high - low) * size, plan, room)
        else:
            for i in range(count):
                to = place + i * packed_step + low * size
                if found[i] == fields.DROPPED:
                    for k in range(high - low):
                        store(packed, to + k * size, 0)
                else:
                    copy_run(packed, to, data, base + found[i] + low * size, high - low)
        p += count
    if plan[fields.STREAM] != 0:
        finish_streams()
    return np.int64(-1)


@allocating
def gather_range(data, index, packed, plan, begin, end, low, high):
    """Gather a share of the points; see `gather_blocks`."""
    length = plan[last_loop(plan)]
    common = plan[fields.COMMON] != 0 and end - begin > length
    far = plan[fields.STREAM] != 0 and high - low > 1
    points = max(length, block_points(plan)) if common else FAR_BLOCK if far else block_points(plan)
    buffer = empty(2 * BLOCK + points, np.int64)  # each takes 0.05 us
    return gather_blocks(data, index, packed, plan, begin, end, low, high, common, buffer)


@helper
def pack_tile(data, share, step, width, room):
    """Copy the rows that a tile's indices lead to, so that they follow each other; see `dispatch.gather.packed_tile`.

    Rows are often a power of two apart, and a cache has few places for a tile of them.
    """
    field = coord_at(share, 0)
    at, bytes_of_row = room.ctypes.data - address(data), width * step
    source, rows, row_step = share[fields.DATA_BASE], share[field], share[field + 1]
    move_strip(data, at, bytes_of_row, data, source, row_step, bytes_of_row, rows, False)
    share[fields.DATA_BASE], share[field + 1] = at, bytes_of_row


@allocating
def gather_share(data, index, packed, plan, thread, threads):
    """Gather one thread's share of the points; return 1 + the position of the first bad index, or 0."""
    units, last = plan[fields.RUN], last_loop(plan)
    length = plan[last]
    low, high, tile = 0, units, plan[fields.TILE]
    left, right = (0, length) if tile else (0, 1)
    begin, end = plan[fields.POINTS] * thread // threads, plan[fields.POINTS] * (thread + 1) // threads
    if plan[fields.POINTS] < 4 * threads and 1 < units >= plan[fields.POINTS]:  # few slices: a part of each
        begin, end = 0, plan[fields.POINTS]
        low, high = units * thread // threads, units * (thread + 1) // threads
    elif tile:
        left, right = length * thread // threads, length * (thread + 1) // threads
    status = np.int64(0)
    share = plan
    room = empty(plan[fields.PACKS], np.uint8)
    for at in range(left, right, max(tile, 1)):  # one call: a second one would be compiled, inlined, once more
        if tile:
            width = min(tile, right - at)
            share = share_of_loop(plan, plan[fields.LOOPS] - 1, at, at + width)
            begin, end = 0, share[fields.POINTS]
            if room.size:
                pack_tile(data, share, plan[last + 1], width, room)
        status = lower_status(status, gather_range(data, index, packed, share, begin, end, low, high) + 1)
    return status


@helper
def clashes(data, index, packed, plan):
    """Return whether the output lies in one of the inputs."""
    low, high = address(packed), address(packed) + plan[fields.PACKED_BYTES]
    return overlaps(low, high, address(data) + plan[fields.LOW], address(data) + plan[fields.HIGH]) or overlaps(
        low, high, address(index), address(index) + plan[fields.INDEX_BYTES]
    )


@kernel
def gather_kernel(phase, task, tasks, data, index, packed, _, plan):
    """Run a task of a gather, or tell how many there are."""
    if task != ASK:
        return gather_share(data, index, packed, plan, task, tasks)
    if phase > 0:
        return np.int64(0)
    return np.int64(OVERLAP) if clashes(data, index, packed, plan) else tasks
