"""The kernel for single elements by indices that are neighbours: of GATHER_ELEMENTS, and of GATHER from a vector.

The indices, of 32 or 64 bits, are used where they are, and tested just before. For a block with an index that is
negative, or out of range, offsets are worked out first, as in `gather_blocks`. The figures are under "Single elements
by neighbouring indices" in docs/measurements/cpumoves.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import empty, itemsize, load, store
from ..drivers import ASK, OVERLAP
from ..primitives.moves.elements import CHUNK, lines_ahead, read_soon, take_found
from ..primitives.moves.gather_shares import by_shares, clashes
from ..primitives.moves.plan import (
    ALL_INSIDE,
    BLOCK,
    DROPPED,
    GROUP,
    HEADER,
    LOOP_FIELDS,
    LOOPS,
    all_inside,
    block_at,
    coords_at,
    find_offsets,
    find_rows,
    group_inside,
)
from ..primitives.moves.runs import prefetch_lines, prefetch_lines_to_write


@helper
def take_elements(
    plan,  # IN   (fields,) int64
    data,  # IN   the input
    base,  # IN   the offset that all elements share
    pattern,  # IN   (count,) int64, how much more it is for each ...
    stepped,  # IN   ... False: nothing
    index,  # IN   the indices
    position,  # IN   the first one
    packed,  # OUT  the elements
    to,  # IN   where the first one goes
    count,
    soon,  # IN   what `read_soon` returns
    lines,  # IN   and `lines_ahead`
):
    """Copy elements while their indices are 0 or more and in range, and prefetch what is read soon.

    Return whether all were. A group of indices is tested just before it is used, while it is in registers.
    """
    size = itemsize(data)
    width = itemsize(index)
    at = position * width
    field = coords_at(plan)
    n, stride = plan[field], plan[field + 1]
    index_ahead, data_ahead = soon
    whole = count // GROUP * GROUP
    for chunk in range(0, whole, CHUNK):
        prefetch_lines(index, index_ahead, lines[0])
        prefetch_lines(data, data_ahead, lines[1])
        prefetch_lines_to_write(packed, to + chunk * size, lines[2])
        index_ahead += lines[0] * CACHE_LINE
        data_ahead += lines[1] * CACHE_LINE
        for i in range(chunk, min(chunk + CHUNK, whole), GROUP):
            if not group_inside(index, at + i * width, n):
                return False
            if stepped:
                for j in range(i, i + GROUP):
                    number = np.int64(load(index, at + j * width))
                    store(packed, to + j * size, load(data, base + pattern[np.uint64(j)] + number * stride))
            else:
                for j in range(i, i + GROUP):
                    number = np.int64(load(index, at + j * width))
                    store(packed, to + j * size, load(data, base + number * stride))
    if not all_inside(index, at + whole * width, count - whole, n):
        return False
    for j in range(whole, count):
        number = np.int64(load(index, at + j * width))
        store(packed, to + j * size, load(data, base + (pattern[np.uint64(j)] if stepped else 0) + number * stride))
    return True


@helper
def take_blocks(
    data,  # IN   the input
    index,  # IN   the indices, packed
    packed,  # OUT  the elements of all points
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end
    end,
    buffer,  # OUT  (3 * BLOCK,) int64, scratch
):
    """Gather a share of the points, block by block; return the position of the first bad index, or -1."""
    size = itemsize(data)
    step = plan[HEADER + LOOP_FIELDS * (plan[LOOPS] - 1) + 1]
    pattern, offsets = buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK :]
    rows = find_rows(plan, pattern)
    _, length, unit = rows
    stepped = unit > 1 or step != 0
    lines = lines_ahead(plan, length, size)
    p = begin
    while p < end:
        count, base, position, to, first, row, j = block_at(plan, rows, BLOCK, p, end)
        soon = read_soon(plan, rows, p, (base, position, row, j), end, lines)
        shape = pattern[first:]
        if not take_elements(plan, data, base, shape, stepped, index, position, packed, to, count, soon, lines):
            status = find_offsets(plan, index, position, count, shape, step, 1, buffer, offsets)
            if status >= 0:
                return status
            if status == ALL_INSIDE:  # some are negative
                take_found(data, base, offsets, packed, to, count, index, soon, lines)
            for i in range(0 if status == ALL_INSIDE else count):
                if offsets[i] == DROPPED:
                    store(packed, to + i * size, 0)
                else:
                    store(packed, to + i * size, load(data, base + offsets[i]))
        p += count
    return np.int64(-1)


@allocating
def take_range(data, index, packed, plan, begin, end, low, high):
    """Gather a share of the points; see `take_blocks`."""
    return take_blocks(data, index, packed, plan, begin, end, empty(3 * BLOCK, np.int64))


take_share = by_shares(take_range)


@kernel
def take_kernel(phase, task, tasks, data, index, packed, _, plan):
    """Run a task of a gather, or tell how many there are."""
    if task != ASK:
        return take_share(data, index, packed, plan, task, tasks) + 1
    if phase > 0:
        return np.int64(0)
    return np.int64(OVERLAP) if clashes(data, index, packed, plan) else tasks
