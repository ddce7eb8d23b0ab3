"""The scatter whose threads share the places: by windows of the output, or by strips of a loop."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import empty, itemsize
from ..drivers import ASK
from ..primitives.moves.plan import (
    BLOCK,
    COORDS,
    COPY,
    HEADER,
    LOOP_FIELDS,
    PACK_IN_PLACE,
    PACK_NEW,
    PACKS,
    PERIOD,
    POINTS,
    RUN,
    SPLIT,
    STARTS_HIGH,
    STARTS_LOW,
    TILE,
    TILE_IN_PLACE,
    coords_at,
)
from ..primitives.moves.scatter_phases import BY_POINT, BY_SLICE, by_phases, count_tasks, points_inside
from ..primitives.moves.strips import FEW_ROWS, LINED_STRIP, SPARSE, packed_strip, scatter_strips
from ..primitives.moves.update_slices import ANYONE, OWNED, scatter_range


@allocating
def share_by_strips(writing, fresh, source, data, index, packed, plan, thread, threads):
    """Check one thread's share of the indices, or do what `scatter_strips` does, with memory for it."""
    if not writing:
        return share_by_window(writing, fresh, source, data, index, packed, plan, thread, threads)
    buffer = empty(4 * BLOCK, np.int64)
    field = HEADER + LOOP_FIELDS * plan[SPLIT]
    row = plan[field] * abs(plan[field + 1])
    if fresh:
        tile, packs = plan[TILE], plan[PACKS] & PACK_NEW != 0 or row < threads * LINED_STRIP
    else:
        tile, packs = plan[TILE_IN_PLACE], plan[PACKS] & PACK_IN_PLACE != 0 or row < threads * CACHE_LINE
        packs &= SPARSE * plan[POINTS] * itemsize(data) >= plan[COPY] > FEW_ROWS * plan[PERIOD]
    room = empty(packed_strip(plan, tile, threads) if packs else 0, np.uint8)
    return scatter_strips(fresh, source, data, index, packed, plan, tile, thread, threads, buffer, room)


@kernel
def strips_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter with a split loop, or tell how many there are."""
    if task != ASK:
        return strips_phase(phase, source, data, index, packed, plan, task, tasks) + 1
    return count_tasks(phase, tasks, source, data, index, packed, plan)


@helper
def may_own(plan, threads):
    """Return whether threads share indices, not places: single elements, one coordinate, and enough indices."""
    field = coords_at(plan)
    single = plan[RUN] == 1 and plan[COORDS] == 1
    return single and plan[field] >= OWNED * threads and plan[field + 1] > 0


@allocating
def share_by_window(writing, fresh, source, data, index, packed, plan, thread, threads):
    """Check or write one thread's share of the updates; return the position of the first bad index, or -1."""
    begin, end, low, high = 0, plan[POINTS], 0, plan[RUN]
    window_low, window_high, owned, everywhere = plan[STARTS_LOW], plan[STARTS_HIGH], ANYONE, True
    if plan[SPLIT] == BY_POINT or not writing:
        begin, end = end * thread // threads, end * (thread + 1) // threads
    elif plan[SPLIT] == BY_SLICE:
        low, high = high * thread // threads, high * (thread + 1) // threads
    elif threads > 1:
        span = (window_high - window_low + threads - 1) // threads
        window_low += span * thread
        window_high = window_low + span
        everywhere = False
        if may_own(plan, threads):
            size = plan[coords_at(plan)]
            owned = size * thread // threads, size * (thread + 1) // threads - size * thread // threads
    if not writing and points_inside(index, plan, begin, end):
        return np.int64(-1)
    buffer = empty(4 * BLOCK, np.int64)
    return scatter_range(
        writing, data, index, packed, plan, begin, end, low, high, window_low, window_high, owned, everywhere, buffer
    )


window_phase, strips_phase = by_phases(share_by_window), by_phases(share_by_strips)


@kernel
def scatter_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter, or tell how many there are."""
    if task != ASK:
        return window_phase(phase, source, data, index, packed, plan, task, tasks) + 1
    return count_tasks(phase, tasks, source, data, index, packed, plan)
