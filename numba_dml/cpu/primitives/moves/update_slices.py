"""How updates of whole slices are written or combined, in row-major order."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import chosen, helper
from ...._jit.copies import prefetch
from ...._jit.machine import IS_ZEN
from ...._jit.memory import ANY, itemsize, load, store
from ..reductions import NONE, combine
from .elements import BLOCKS_AHEAD
from .gather_shares import ROWS_AHEAD
from .plan import (
    ALL_INSIDE,
    BLOCK,
    COORDS,
    DROPPED,
    HEADER,
    HIGH,
    KIND,
    LOOP_FIELDS,
    LOOPS,
    LOW,
    REDUCTION,
    RUN,
    SPLIT,
    block_at,
    block_points,
    coords_at,
    find_offsets,
    find_rows,
)
from .runs import PREFETCHED_BYTES, PREFETCHES_WRITES, SHORT_AHEAD, SHORT_BYTES, prefetch_span
from .updates import put_directly, put_run, put_some, rows_from


def put_slices(index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window):
    """Write or combine elements `low` to `high` of the slices that start in a window.

    What sees indices as more than bytes has slices of one element, and no use for this.
    """
    raise NotImplementedError


@chosen(put_slices)
def _put_slices(index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window):
    if index != ANY:
        return lambda index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window: None

    def slices(index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window):
        # Compressed without a branch: about half of the points are another thread's, in no order.
        count_kept = 0
        for i in range(count):
            kept[count_kept] = i
            here = offsets[i] != DROPPED
            here &= (origin + offsets[i] >= window[0]) & (origin + offsets[i] < window[1])
            count_kept += np.int64(here)
        begin, length = low * itemsize(data), (high - low) * itemsize(data)
        distance = SHORT_AHEAD if length < SHORT_BYTES else SLICES_AHEAD
        rolls = plan[HIGH] - plan[LOW] > ROLLED_BYTES
        for c in range(min(distance, count_kept) if rolls else count_kept):
            prefetch(data, origin + offsets[kept[c]])
        for c in range(count_kept):
            if rolls:
                soon = origin + offsets[kept[min(c + distance, count_kept - 1)]] + begin
                prefetch_span(data, soon, min(length, PREFETCHED_BYTES))
            to, at = origin + offsets[kept[c]] + begin, fro + kept[c] * step + begin
            put_run(data, to, packed, at, high - low, plan[REDUCTION])

    return slices


# The figures are under "Slices that are updated, and their prefetches" in docs/measurements/cpumoves.md.
#: Bytes of a window whose places are in a cache, as those of strips are, and need no prefetch.
CACHED_BYTES = 1 << 20
#: Bytes of a window above which slices are prefetched some ahead; in a smaller one those of a block all at once.
ROLLED_BYTES = CACHED_BYTES if IS_ZEN else 2 * CACHED_BYTES
#: Slices of 64 bytes or more ahead of which one is prefetched; shorter ones as far as those that are gathered.
SLICES_AHEAD = 16


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
    window_low,  # IN   ... and only those that start in this window of offsets, unless ...
    window_high,
    owned,  # IN   ... those with one of these indices: the lowest, and how many; -1: that is not how they are shared
    everywhere,  # IN   True: all
    buffer,  # OUT  (4 * BLOCK,) int64, scratch
):
    """Write a share of the updates, in row-major order; return the position of the first bad index, or -1."""
    single = plan[RUN] == 1
    reduction = plan[REDUCTION]
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    step = plan[last + 1]
    index_step = plan[last + 2]
    packed_step = plan[last + 3]
    plain = single and reduction == NONE and everywhere
    far = plan[SPLIT] < 0 and window_high - window_low > CACHED_BYTES and (reduction != NONE or PREFETCHES_WRITES)
    by_number = owned[1] >= 0
    directly = (single and (everywhere or by_number)) or not writing
    pattern, offsets, kept = buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK : 3 * BLOCK], buffer[3 * BLOCK :]
    rows = find_rows(plan, pattern)
    _, length, unit = rows
    stepped = unit > 1 or step != 0
    p = begin
    while p < end:
        count, origin, position, fro, first, _, _ = block_at(plan, rows, block_points(plan), p, end)
        shape = pattern[first:]
        if directly:
            at, alike, steps = (origin, position, fro), 1, (np.int64(0), np.int64(0), np.int64(0))
            ahead = BLOCKS_AHEAD * BLOCK, BLOCK * packed_step
            if count == length:  # short rows, of a strip: the next ones are elsewhere
                alike, steps = rows_from(plan, rows, p, end)
                ahead = ROWS_AHEAD * steps[1], ROWS_AHEAD * steps[2]
            done = put_directly(
                writing, far, owned, plan, data, shape, stepped, index, packed, at, count, alike, steps, ahead
            )
            if done:
                p += done
                continue
            if single and writing:
                shift = plan[KIND] & 3
                prefetch_span(index, (position + ahead[0]) << shift, count * plan[COORDS] << shift)
                prefetch_span(packed, fro + ahead[1], count * packed_step)
        p += count
        status = find_offsets(plan, index, position, count, shape, step, index_step, buffer, offsets)
        if status >= 0:
            return status
        if not writing:
            continue
        if plain and status == ALL_INSIDE:
            for i in range(count):
                store(data, origin + offsets[np.uint64(i)], load(packed, fro + i * packed_step))
        elif single and everywhere and status == ALL_INSIDE:
            for i in range(count if far and reduction != NONE else 0):
                prefetch(data, origin + offsets[np.uint64(i)])
            for i in range(count):
                at = origin + offsets[np.uint64(i)]
                store(data, at, combine(reduction, load(data, at), load(packed, fro + i * packed_step)))
        elif single and by_number:
            stride = plan[coords_at(plan) + 1]
            for i in range(count):  # without the pattern: the index, times its stride
                kept[i] = offsets[i] if offsets[i] == DROPPED else offsets[i] - shape[i]
            begins, ends = owned[0] * stride, (owned[0] + owned[1]) * stride
            put_some(data, origin, 1, offsets, kept, packed, fro, packed_step, count, begins, ends, reduction, far)
        elif single:
            begins, ends = window_low - origin, window_high - origin
            put_some(data, origin, 1, offsets, offsets, packed, fro, packed_step, count, begins, ends, reduction, far)
        else:
            window = window_low, window_high
            put_slices(index, plan, data, origin, offsets, kept, packed, fro, packed_step, count, low, high, window)
    return np.int64(-1)


#: A window of this many bytes to both sides is the whole output.
FAR = np.int64(2**62)
#: Indices that are not shared among threads.
ANYONE = np.int64(0), np.int64(-1)
#: Values of the index per thread from which on threads share these, not the places that they lead to: then no offsets
#: are worked out for the updates of other threads. See "Threads that share indices" in docs/measurements/cpumoves.md.
OWNED = 64
