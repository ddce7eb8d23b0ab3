"""The scatter kernel: SCATTER_ELEMENTS and SCATTER_ND are the gather's loop nest with the arrow turned around.

Every index is validated before the first update is written. Duplicates are deterministic at any number of threads,
because every element of the output has one thread that writes it, and a thread goes through its updates in row-major
order.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from . import helper, parallel, serial
from ._arithmetic import NONE, combine
from ._indices import (
    BLOCK,
    BOUNDS,
    COPY,
    DATA_BASE,
    HEADER,
    HIGH,
    INDEX_BASE,
    INDEX_BYTES,
    LOOP_FIELDS,
    LOOPS,
    LOW,
    OUTER,
    PACKED_BASE,
    PACKED_BYTES,
    POINTS,
    RAISE,
    REDUCTION,
    RUN,
    RUNS,
    SPLIT,
    STARTS_HIGH,
    STARTS_LOW,
    block_offsets,
    block_points,
    first_position,
    overlaps,
    row_bases,
    run_offset,
    settle_block,
)
from ._memory import address, copy_bytes, itemsize, load, prefetch, store
from .gather import OVERLAP, copy_run

# How threads share the work (SPLIT). A number from 0 on names a loop whose iterations write to different places.
BY_WINDOW = -1  # each thread goes through all points, and writes those that fall into its part of the output
BY_SLICE = -2  # each thread writes its part of every slice
BY_POINT = -3  # each thread has its own points: the caller promised that they are unique


@helper
def put_run(target, to, source, fro, count, reduction):
    """Write or combine `count` elements that are contiguous on both sides."""
    size = itemsize(target)
    if reduction == NONE:
        copy_run(target, to, source, fro, count)
    else:
        for j in range(count):
            store(target, to + j * size, combine(reduction, load(target, to + j * size), load(source, fro + j * size)))


@helper
def put_slice(plan, data, offset, packed, fro, low, high):
    """Write or combine elements `low` to `high` of one slice of the packed array."""
    size = itemsize(data)
    if plan[OUTER] == 0:
        put_run(data, offset + low * size, packed, fro + low * size, high - low, plan[REDUCTION])
        return
    length = plan[RUN]
    for run in range(low // length, -(-high // length)):
        first = max(low - run * length, 0)
        last = min(high - run * length, length)
        place = offset + run_offset(plan, run) + first * size
        put_run(data, place, packed, fro + (run * length + first) * size, last - first, plan[REDUCTION])


@helper
def scatter_range(
    writing,  # IN   False: only look for a bad index
    data,  # OUT  the output, which already holds the input
    index,  # IN   the indices, packed
    packed,  # IN   the updates, packed
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end ...
    end,
    low,  # IN   ... of their slices the elements low <= j < high ...
    high,
    window_low,  # IN   ... and only those that start in this window of offsets
    window_high,
    everywhere,  # IN   True: the window is the whole output
):
    """Write a share of the updates, in row-major order; return the position of the first bad index, or -1."""
    single = plan[RUNS] * plan[RUN] == 1
    reduction = plan[REDUCTION]
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    length = plan[last]
    step = plan[last + 1]
    index_step = plan[last + 2]
    packed_step = plan[last + 3]
    repeat = index_step == 0
    block = block_points(plan)
    buffer = np.empty(BLOCK, np.int64)
    offsets = np.empty(BLOCK, np.int64)
    chosen = np.empty(BLOCK, np.int64)
    p = begin
    while p < end:
        row = p // length
        j = p - row * length
        base, start, source = row_bases(plan, row)
        row_end = min(end, p - j + length)
        while p < row_end:
            count = min(block, row_end - p)
            first = start + j * index_step
            bad = block_offsets(plan, index, first, count, base + j * step, step, repeat, buffer, offsets)
            if bad:
                position = settle_block(plan, first, count, base + j * step, step, repeat, buffer, offsets)
                if position >= 0:
                    return position
            fro = source + j * packed_step
            if not writing:
                count_chosen = 0
            elif everywhere and not bad:
                count_chosen = count
                for i in range(count):
                    chosen[i] = i
            else:
                # Compressed without a branch: about half of the points are another thread's, in no order.
                count_chosen = 0
                for i in range(count):
                    chosen[count_chosen] = i
                    count_chosen += np.int64((offsets[i] >= window_low) & (offsets[i] < window_high))
            for c in range(count_chosen):
                prefetch(data, offsets[chosen[c]])
            if single and reduction == NONE:
                for c in range(count_chosen):
                    store(data, offsets[chosen[c]], load(packed, fro + chosen[c] * packed_step))
            elif single:
                for c in range(count_chosen):
                    at = offsets[chosen[c]]
                    new = load(packed, fro + chosen[c] * packed_step)
                    store(data, at, combine(reduction, load(data, at), new))
            else:
                for c in range(count_chosen):
                    put_slice(plan, data, offsets[chosen[c]], packed, fro + chosen[c] * packed_step, low, high)
            p += count
            j += count
    return np.int64(-1)


@helper
def share_of_loop(plan, loop, thread, threads):
    """Return a plan for one thread's part of a loop."""
    share = plan.copy()
    field = HEADER + LOOP_FIELDS * loop
    size = plan[field]
    begin = size * thread // threads
    end = size * (thread + 1) // threads
    share[field] = end - begin
    share[DATA_BASE] += begin * plan[field + 1]
    share[INDEX_BASE] += begin * plan[field + 2]
    share[PACKED_BASE] += begin * plan[field + 3]
    share[POINTS] = plan[POINTS] // size * (end - begin)
    return share


@helper
def scatter_share(writing, data, index, packed, plan, thread, threads):
    """Check or write one thread's share of the updates; return the position of the first bad index, or -1."""
    points = plan[POINTS]
    elements = plan[RUNS] * plan[RUN]
    split = plan[SPLIT]
    share = plan
    begin, end, low, high = 0, points, 0, elements
    window_low, window_high, everywhere = plan[STARTS_LOW], plan[STARTS_HIGH], True
    if split == BY_POINT or not writing:
        begin = points * thread // threads
        end = points * (thread + 1) // threads
    elif split >= 0:
        share = share_of_loop(plan, split, thread, threads)
        end = share[POINTS]
    elif split == BY_SLICE:
        low = elements * thread // threads
        high = elements * (thread + 1) // threads
    elif threads > 1:
        width = (window_high - window_low + threads - 1) // threads
        window_low += width * thread
        window_high = window_low + width
        everywhere = False
    return scatter_range(
        writing, data, index, packed, share, begin, end, low, high, window_low, window_high, everywhere
    )


# The phases of a scatter; every thread has finished the first one before the second one begins. A copy before the
# verdict of the check does no harm: in place there is none, and elsewhere no output is promised to survive an error.
CHECK_AND_COPY, WRITE = range(2)


@helper
def scatter_phase(phase, source, data, index, packed, plan, thread, threads):
    """Run one thread's share of a phase; return the position of the first bad index, or -1."""
    if phase == CHECK_AND_COPY:
        if address(source) != address(data):
            begin = plan[COPY] * thread // threads
            end = plan[COPY] * (thread + 1) // threads
            copy_bytes(data, begin, source, begin, end - begin)
        if plan[BOUNDS] != RAISE:
            return np.int64(-1)
    return scatter_share(phase == WRITE, data, index, packed, plan, thread, threads)


@helper
def clashes(source, data, index, packed, plan):
    """Tell whether the output lies in an input, other than exactly on the one that it updates."""
    low = address(data) + plan[LOW]
    high = address(data) + plan[HIGH]
    at = address(source)
    return (
        overlaps(low, high, address(index), address(index) + plan[INDEX_BYTES])
        or overlaps(low, high, address(packed), address(packed) + plan[PACKED_BYTES])
        or (at != address(data) and overlaps(low, high, at + plan[LOW], at + plan[HIGH]))
    )


@serial
def scatter_serial(source, data, index, packed, plan):
    """Run a scatter on the calling thread."""
    if clashes(source, data, index, packed, plan):
        return np.int64(OVERLAP)
    for phase in range(2):
        position = scatter_phase(phase, source, data, index, packed, plan, 0, 1)
        if position >= 0:
            return position + 1
    return np.int64(0)


@parallel
def scatter_parallel(source, data, index, packed, plan, threads):
    """Run a scatter on several threads."""
    if clashes(source, data, index, packed, plan):
        return np.int64(OVERLAP)
    found = np.empty(threads, np.int64)
    for phase in range(2):
        for t in prange(threads):
            found[t] = scatter_phase(phase, source, data, index, packed, plan, t, threads)
        position = first_position(found)
        if position >= 0:
            return position + 1
    return np.int64(0)


DRIVERS = (scatter_serial, scatter_parallel)
