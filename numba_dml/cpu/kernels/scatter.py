"""The scatter whose threads share the output: by strips of a loop, by windows, by parts of each slice; or the points.

Every thread has finished the first phase before the second one begins. In place every index is checked in the first
one, before anything is written. Elsewhere the first phase copies, or with strips the second one does it as it goes,
while they are in the cache; no output is promised to survive an error then, and one pass over the indices is enough.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.copies import finish_streams
from ..._jit.memory import address, empty
from ..drivers import ASK, OVERLAP, lower_status
from ..primitives.moves import plan as fields
from ..primitives.moves.plan import BLOCK, loop_at, scatter_clashes, share_of_loop
from ..primitives.moves.runs import move_strip
from ..primitives.moves.strips import copy_old, copy_strip, count_strips, pack_plan, packed_strip, strip_start
from ..primitives.moves.updates import scatter_range

PREPARE, WRITE = range(2)
#: Bytes of the output to copy, or of indices to check, from which on several threads do that although one writes.
PREPARED_BYTES = 1 << 21


@allocating
def window_of(plan, thread, threads):
    """Return a plan for the slices that start in a thread's part of the output."""
    share = plan.copy()
    span = -(-(plan[fields.STARTS_HIGH] - plan[fields.STARTS_LOW]) // threads)
    share[fields.STARTS_LOW] += span * thread
    share[fields.STARTS_HIGH] = share[fields.STARTS_LOW] + span
    share[fields.WINDOW] = 1
    return share


@allocating
def scatter_share(writing, fresh, source, data, index, packed, plan, thread, threads):
    """Check or write one thread's share of the updates; return 1 + the position of the first bad index, or 0.

    `fresh` says that strips must be copied before; those that are packed are updated in memory of their own.
    """
    split, period, units, share = plan[fields.SPLIT], plan[fields.PERIOD], plan[fields.RUN], plan
    begin, end, part = np.int64(0), plan[fields.POINTS], (np.int64(0), units)
    strips, left, right, packs = np.int64(0), np.int64(0), np.int64(1), np.int64(0)
    if split == fields.BY_POINT or not writing:
        begin, end = end * thread // threads, end * (thread + 1) // threads
    elif split == fields.BY_SLICE:
        part = units * thread // threads, units * (thread + 1) // threads
    elif split >= 0:
        packs = packed_strip(plan, fresh, threads)
        strips = count_strips(plan, packs > 0, threads)
        left, right = strips * thread // threads, strips * (thread + 1) // threads
    elif threads > 1:
        share = window_of(plan, thread, threads)
    buffer, room = empty(4 * BLOCK, np.int64), empty(packs, np.uint8)
    step = plan[loop_at(max(split, 0)) + 1]
    at = room.ctypes.data - address(data)
    rows = plan[fields.COPY] // period if packs else 0
    status = np.int64(0)
    for strip in range(left, right):  # one call of `scatter_range`: a second one would be compiled once more
        start, width = np.int64(0), np.int64(0)
        if strips:
            low = strip_start(data, plan, strip, strips, threads)
            high = strip_start(data, plan, strip + 1, strips, threads)
            share = share_of_loop(plan, split, low, high)
            end, start, width = share[fields.POINTS], low * step, (high - low) * step
            move_strip(data, at, width, source, start, period, width, rows, False)
            if packs:
                pack_plan(share, period, width, start, at)
            if fresh:
                done = start + width if packs else start
                copy_strip(source, data, plan, done, (period if strip == strips - 1 else start + width) - done)
        position = scatter_range(writing, data, index, packed, share, begin, end, part, buffer)
        if room.size:  # which is not freed before
            move_strip(data, start, period, data, at, width, width, rows, plan[fields.STREAM] != 0)
        status = lower_status(status, position + 1)
    return status


@helper
def scatter_phase(phase, source, data, index, packed, plan, thread, threads):
    """Run one thread's share of a phase; return 1 + the position of the first bad index, or 0."""
    in_place = address(source) == address(data)
    if phase == PREPARE:
        if not in_place and plan[fields.SPLIT] < 0:
            begin, end = plan[fields.COPY] * thread // threads, plan[fields.COPY] * (thread + 1) // threads
            copy_old(source, data, plan, begin, end - begin)
            if plan[fields.STREAM] != 0:
                finish_streams()
        if not in_place or plan[fields.BOUNDS] != fields.RAISE:
            return np.int64(0)
    writing = phase == WRITE
    return scatter_share(writing, writing and not in_place, source, data, index, packed, plan, thread, threads)


@kernel
def scatter_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter, or tell how many there are."""
    if task != ASK:
        return scatter_phase(phase, source, data, index, packed, plan, task, tasks)
    if phase > WRITE:
        return np.int64(0)
    if plan[fields.ALONE] != 0:
        to_prepare = plan[fields.INDEX_BYTES] if address(source) == address(data) else plan[fields.COPY]
        tasks = tasks if phase == PREPARE and to_prepare >= PREPARED_BYTES else np.int64(1)
    return np.int64(OVERLAP) if phase == PREPARE and scatter_clashes(source, data, index, packed, plan) else tasks
