"""The gather kernel: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1 are one loop nest with different numbers."""

from __future__ import annotations

import numpy as np
from numba import prange

from . import helper, parallel, serial
from ._indices import (
    BLOCK,
    DROPPED,
    HEADER,
    HIGH,
    INDEX_BYTES,
    LOOP_FIELDS,
    LOOPS,
    LOW,
    OUTER,
    PACKED_BYTES,
    POINTS,
    RUN,
    RUNS,
    block_offsets,
    block_points,
    first_position,
    overlaps,
    row_bases,
    run_offset,
    settle_block,
)
from ._memory import address, copy_bytes, itemsize, load, prefetch, store

#: What a kernel returns beside 0 (done) and 1 + the position of a bad index.
OVERLAP = -1
#: From this many bytes on, a contiguous run is copied by memcpy; below, its call costs more than a loop.
MEMCPY_BYTES = 64
#: How many slices ahead, and how many bytes of each, are prefetched: the reads are random, the hardware cannot guess.
AHEAD = 8
AHEAD_BYTES = 512
CACHE_LINE = 64


@helper
def copy_run(target, to, source, fro, count):
    """Copy `count` elements that are contiguous on both sides."""
    size = itemsize(target)
    if count * size >= MEMCPY_BYTES:
        copy_bytes(target, to, source, fro, count * size)
    else:
        for j in range(count):
            store(target, to + j * size, load(source, fro + j * size))


@helper
def take_slice(plan, data, offset, packed, to, low, high):
    """Copy elements `low` to `high` of one slice from `data` to the packed array."""
    size = itemsize(data)
    if plan[OUTER] == 0:
        copy_run(packed, to + low * size, data, offset + low * size, high - low)
        return
    length = plan[RUN]
    for run in range(low // length, -(-high // length)):
        first = max(low - run * length, 0)
        last = min(high - run * length, length)
        place = to + (run * length + first) * size
        copy_run(packed, place, data, offset + run_offset(plan, run) + first * size, last - first)


@helper
def take_runs(
    data,  # IN   the input
    offsets,  # IN   (count,) int64, where the slices start
    packed,  # OUT  the slices
    to,  # IN   where the first one goes
    step,  # IN   from one to the next
    count,
    begin,  # IN   the bytes of every slice to copy: begin <= byte < end
    end,
):
    """Copy slices that are contiguous."""
    size = itemsize(data)
    length = end - begin
    if length == 2 * size:  # 16 bytes, a complex number, an RGBA pixel: too short for a loop of its own
        for i in range(count):
            first = load(data, offsets[i] + begin)
            second = load(data, offsets[i] + begin + size)
            store(packed, to + i * step + begin, first)
            store(packed, to + i * step + begin + size, second)
    elif length < MEMCPY_BYTES:
        for i in range(count):
            for byte in range(begin, end, size):
                store(packed, to + i * step + byte, load(data, offsets[i] + byte))
    else:
        for i in range(count):
            ahead = offsets[min(i + AHEAD, count - 1)] + begin
            for byte in range(0, min(length, AHEAD_BYTES), CACHE_LINE):
                prefetch(data, ahead + byte)
            copy_bytes(packed, to + i * step + begin, data, offsets[i] + begin, length)


@helper
def gather_range(
    data,  # IN   the input
    index,  # IN   the indices, packed
    packed,  # OUT  the slices of all points, packed
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end ...
    end,
    low,  # IN   ... and of their slices the elements low <= j < high
    high,
):
    """Gather a share of the points; return the position of the first bad index, or -1."""
    size = itemsize(data)
    slice_bytes = plan[RUNS] * plan[RUN] * size
    single = plan[RUNS] * plan[RUN] == 1
    plain = plan[OUTER] == 0
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    length = plan[last]
    step = plan[last + 1]
    index_step = plan[last + 2]
    repeat = index_step == 0
    block = block_points(plan)
    buffer = np.empty(BLOCK, np.int64)
    offsets = np.empty(BLOCK, np.int64)
    p = begin
    while p < end:
        row = p // length
        j = p - row * length
        base, start, _ = row_bases(plan, row)
        row_end = min(end, p - j + length)
        while p < row_end:
            count = min(block, row_end - p)
            at = start + j * index_step
            bad = block_offsets(plan, index, at, count, base + j * step, step, repeat, buffer, offsets)
            if bad:
                position = settle_block(plan, at, count, base + j * step, step, repeat, buffer, offsets)
                if position >= 0:
                    return position
            to = p * slice_bytes
            if single and not bad:
                for i in range(count):
                    store(packed, to + i * size, load(data, offsets[i]))
            elif plain and not bad:
                take_runs(data, offsets, packed, to, slice_bytes, count, low * size, high * size)
            else:
                for i in range(count):
                    if offsets[i] == DROPPED:
                        for k in range(low, high):
                            store(packed, to + i * slice_bytes + k * size, 0)
                    else:
                        take_slice(plan, data, offsets[i], packed, to + i * slice_bytes, low, high)
            p += count
            j += count
    return np.int64(-1)


@helper
def clashes(data, index, packed, plan):
    """Tell whether the output lies in one of the inputs."""
    to = address(packed)
    return overlaps(to, to + plan[PACKED_BYTES], address(data) + plan[LOW], address(data) + plan[HIGH]) or overlaps(
        to, to + plan[PACKED_BYTES], address(index), address(index) + plan[INDEX_BYTES]
    )


@serial
def gather_serial(data, index, packed, plan):
    """Run a gather on the calling thread."""
    if clashes(data, index, packed, plan):
        return np.int64(OVERLAP)
    return gather_range(data, index, packed, plan, 0, plan[POINTS], 0, plan[RUNS] * plan[RUN]) + 1


@parallel
def gather_parallel(data, index, packed, plan, threads):
    """Run a gather on several threads: each takes a range of points, or of all slices when there are few points."""
    if clashes(data, index, packed, plan):
        return np.int64(OVERLAP)
    points = plan[POINTS]
    elements = plan[RUNS] * plan[RUN]
    found = np.empty(threads, np.int64)
    by_points = points >= 4 * threads or elements < points
    for t in prange(threads):
        begin, end, low, high = 0, points, 0, elements
        if by_points:
            begin, end = points * t // threads, points * (t + 1) // threads
        else:
            low, high = elements * t // threads, elements * (t + 1) // threads
        found[t] = gather_range(data, index, packed, plan, begin, end, low, high)
    return first_position(found) + 1


DRIVERS = (gather_serial, gather_parallel)
