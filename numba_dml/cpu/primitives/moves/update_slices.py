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
from .runs import ASKED_BYTES, ASKS_TO_WRITE, SHORT_AHEAD, SHORT_BYTES, ask_for_some
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
                ask_for_some(data, soon, min(length, ASKED_BYTES))
            to, at = origin + offsets[kept[c]] + begin, fro + kept[c] * step + begin
            put_run(data, to, packed, at, high - low, plan[REDUCTION])

    return slices


#: Places in a window of so many bytes are in a cache, as those of strips are, and need not be asked for: 5000 sums into
#: each of 2000 rows of 256 take 5.7 ms, 8.6 if they are.
CACHED_BYTES = 1 << 20
#: Slices in a larger window are asked for some ahead, others of a block all at once. In place, two threads, in ms,
#: asked for at once and some ahead, and PyTorch, which promises nothing for duplicates: an Intel Xeon, 1M of 64 bytes
#: 44, 27 and 35, 500k of 128 26, 17 and 27, 2M of 32 69, 41 and 49, of 80 41, 23 and 35, 300k of 192 17, 12 and 21;
#: 20,000 of 64, in its L2, 0.19, 0.24 and 0.27; an AMD EPYC, whose L2 is smaller, 500k of 128 40, 29 and 40, 200k of
#: 64 12.7, 6.0 and 12.8. Of 16 bytes it is no faster: the Xeon takes 59 and 63 for 4M, 12.4 and 13.9 for 1M.
ROLLED_BYTES = CACHED_BYTES if IS_ZEN else 2 * CACHED_BYTES
#: So many ahead, if they have 64 bytes or more; shorter ones as far as those that are gathered. The EPYC, 8, 16 and 32
#: ahead, and PyTorch: 1M of 64 bytes 26, 25, 32 and 58, 1M of 2M of 80 42, 32, 36 and 60; the Xeon takes as long.
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
    far = plan[SPLIT] < 0 and window_high - window_low > CACHED_BYTES and (reduction != NONE or ASKS_TO_WRITE)
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
                ask_for_some(index, (position + ahead[0]) << shift, count * plan[COORDS] << shift)
                ask_for_some(packed, fro + ahead[1], count * packed_step)
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
#: Threads share the indices of single elements, not the places these lead to, if each has so many. Then no offsets are
#: worked out for the updates of other threads. Two threads of an Intel Xeon, f4, in ms, by places, by indices, and
#: PyTorch: (433712, 33) along axis 0 131, 72 and 66, (100000, 20) 9.2, 6.8 and 7.8, (923296, 4) i8 22, 18 and 23, 3M of
#: 3M 12.9, 8.9 and 27, 1M sums into 1M 4.2, 2.3 and 3.0, 16 threads (433712, 33) 46, 29 and 22. Two of an AMD EPYC take
#: as long either way.
OWNED = 64
