"""How updates are written or combined, in row-major order.

The figures are under "Single updates" and "Slices that are updated, and their prefetches" in
docs/measurements/cpumoves.md.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ...._jit.compile import chosen, helper
from ...._jit.copies import prefetch, prefetch_to_write
from ...._jit.machine import IS_ZEN
from ...._jit.memory import ANY, UNSIGNED, itemsize, load, store
from ..reductions import ADD, MAX, MIN, NONE, combine, extreme, kind_of
from . import plan as fields
from .elements import BLOCKS_AHEAD
from .offsets import find_offsets
from .plan import BLOCK, all_inside, block_at, block_points, coord_at, find_rows, last_loop, row_bases
from .runs import PREFETCHED_BYTES, PREFETCHES_WRITES, ROWS_AHEAD, SHORT_AHEAD, SHORT_BYTES, copy_run, prefetch_span

#: Single updates that are written together: in passing, each chunk prefetches its share of what is read soon.
CHUNK = 128
#: Bytes of the places above which they are prefetched before they are written: a core that stores waits for one line
#: after the other.
SMALL_BYTES = 1 << 15
#: Bytes of an output whose places are in a cache, as those of strips are, and need no prefetch.
CACHED_BYTES = 1 << 20
#: Bytes of an output above which slices are prefetched some ahead; in a smaller one those of a block all at once.
ROLLED_BYTES = CACHED_BYTES if IS_ZEN else 2 * CACHED_BYTES
#: Slices of 64 bytes or more ahead of which one is prefetched; shorter ones as far as those that are gathered.
SLICES_AHEAD = 16


@helper
def prefetch_updates(index, packed, soon, tuple_bytes, step, first, last):
    """Prefetch what updates that come `soon` read, for those from `first` to `last` of a block."""
    index_ahead, packed_ahead = soon
    prefetch_span(index, index_ahead + first * tuple_bytes, (last - first) * tuple_bytes)
    prefetch_span(packed, packed_ahead + first * step, (last - first) * step)


@helper
def put_elements(
    plan,  # IN   (fields,) int64
    data,  # OUT  the output
    base,  # IN   the offset that all elements share
    pattern,  # IN   (count,) int64, how much more it is for each ...
    stepped,  # IN   ... False: nothing
    index,  # IN   the indices
    packed,  # IN   the updates
    at,  # IN   where the first ones are: a position in the indices, and a byte of the updates
    count,
    soon,  # IN   the bytes of the indices and of the updates that are read soon
):
    """Write single updates if their indices are all 0 or more and in range; return whether they were."""
    size, width = itemsize(data), itemsize(index)
    position, fro = at[0] * width, at[1]
    field = coord_at(plan, 0)
    n, stride = plan[field], plan[field + 1]
    if not all_inside(index, position, count, n):
        return False
    asks = PREFETCHES_WRITES and n * abs(stride) > SMALL_BYTES
    for first in range(0, count, CHUNK):
        last = min(first + CHUNK, count)
        prefetch_updates(index, packed, soon, width, size, first, last)
        for j in range(first, last if asks else first):
            number = np.int64(load(index, position + j * width))
            prefetch_to_write(data, base + pattern[np.uint64(j)] + number * stride)
        for j in range(first, last if stepped else first):
            number = np.int64(load(index, position + j * width))
            store(data, base + pattern[np.uint64(j)] + number * stride, load(packed, fro + j * size))
        for j in range(first, first if stepped else last):
            store(data, base + np.int64(load(index, position + j * width)) * stride, load(packed, fro + j * size))
    return True


@chosen
def put_directly(plan, data, base, pattern, stepped, index, packed, at, count, soon):
    """Do what `put_elements` does where indices are seen as the integers that they are, and nothing is combined."""
    if index == ANY:
        return lambda plan, data, base, pattern, stepped, index, packed, at, count, soon: False

    def put(plan, data, base, pattern, stepped, index, packed, at, count, soon):
        as_they_are = plan[fields.COORDS] == 1 and plan[fields.KIND] == (
            fields.INT64 if itemsize(index) == 8 else fields.INT32
        )
        return as_they_are and put_elements(plan, data, base, pattern, stepped, index, packed, at, count, soon)

    return put


@helper
def combine_found(reduction, code, data, base, offsets, packed, fro, step, chunk):
    """Combine a chunk of single updates with what is there, in their order; `code` is as in `extreme`.

    `reduction` is best a constant: a loop that finds out for every update which one it is takes up to twice as long.
    """
    for i in range(chunk[0], chunk[1]):
        to = base + offsets[np.uint64(i)]
        old, new = load(data, to), load(packed, fro + i * step)
        if reduction == MIN or reduction == MAX:
            store(data, to, extreme(reduction, code, old, new))
        else:
            store(data, to, combine(reduction, old, new))


@chosen
def put_chunk(code, data, base, offsets, packed, fro, step, chunk, asks):
    """Write or combine a chunk of single updates, in their order; `asks`: prefetch their places first."""

    def combined(code, data, base, offsets, packed, fro, step, chunk, asks):
        for i in range(chunk[0], chunk[1] if asks else chunk[0]):
            prefetch(data, base + offsets[np.uint64(i)])
        reduction = kind_of(code)
        if reduction == ADD:
            combine_found(ADD, code, data, base, offsets, packed, fro, step, chunk)
        elif reduction == MIN:
            combine_found(MIN, code, data, base, offsets, packed, fro, step, chunk)
        elif reduction == MAX:
            combine_found(MAX, code, data, base, offsets, packed, fro, step, chunk)
        else:  # products, which are rare
            combine_found(reduction, code, data, base, offsets, packed, fro, step, chunk)

    def written(code, data, base, offsets, packed, fro, step, chunk, asks):
        for i in range(chunk[0], chunk[1] if asks else chunk[0]):
            prefetch_to_write(data, base + offsets[np.uint64(i)])
        for i in range(chunk[0], chunk[1]):
            store(data, base + offsets[np.uint64(i)], load(packed, fro + i * step))

    def written_or_combined(code, data, base, offsets, packed, fro, step, chunk, asks):
        if code == NONE:
            written(code, data, base, offsets, packed, fro, step, chunk, asks)
        else:
            combine_found(code, code, data, base, offsets, packed, fro, step, chunk)

    # What is moved, and not computed with, is seen as unsigned numbers; and so are floats of 16 bits.
    if data.dtype == types.uint16:
        written = helper(written)
        return written_or_combined
    return written if data.dtype in UNSIGNED.values() else combined


@helper
def put_run(reduction, data, to, packed, fro, count):
    """Write or combine elements that are contiguous on both sides."""
    size = itemsize(data)
    if reduction == NONE:
        copy_run(data, to, packed, fro, count)
    for j in range(0 if reduction == NONE else count):
        value = combine(reduction, load(data, to + j * size), load(packed, fro + j * size))
        store(data, to + j * size, value)


@helper
def put_kept(data, origin, offsets, kept, packed, fro, step, count, part, plan):
    """Write or combine `part` of the slices that are not dropped, and that start in the window of the plan, if any."""
    size, (low, high) = itemsize(data), part
    everywhere = plan[fields.WINDOW] == 0
    # Compressed without a branch: about half of the points are another thread's, in no order.
    count_kept = 0
    for i in range(count):
        kept[count_kept] = i
        here = (origin + offsets[i] >= plan[fields.STARTS_LOW]) & (origin + offsets[i] < plan[fields.STARTS_HIGH])
        count_kept += np.int64((offsets[i] != fields.DROPPED) & (here | everywhere))
    begin, length = low * size, (high - low) * size
    distance = SHORT_AHEAD if length < SHORT_BYTES else SLICES_AHEAD
    rolls = plan[fields.HIGH] - plan[fields.LOW] > ROLLED_BYTES
    for c in range(min(distance, count_kept) if rolls else count_kept):
        prefetch(data, origin + offsets[kept[c]])
    for c in range(count_kept):
        if rolls:
            soon = origin + offsets[kept[min(c + distance, count_kept - 1)]] + begin
            prefetch_span(data, soon, min(length, PREFETCHED_BYTES))
        to, at = origin + offsets[kept[c]] + begin, fro + kept[c] * step + begin
        put_run(plan[fields.REDUCTION], data, to, packed, at, high - low)


@helper
def scatter_range(
    writing,  # IN   False: only look for a bad index
    data,  # OUT  the output, which already holds the input
    index,  # IN   the indices, packed
    packed,  # IN   the updates, packed
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end ...
    end,
    part,  # IN   ... of their slices the elements from the first number on, below the second
    buffer,  # OUT  (4 * BLOCK,) int64, scratch
):
    """Write a share of the updates, in row-major order; return the position of the first bad index, or -1."""
    last = last_loop(plan)
    step, index_step, packed_step = plan[last + 1], plan[last + 2], plan[last + 3]
    alone = writing and plan[fields.RUN] == 1 and plan[fields.WINDOW] == 0
    if plan[fields.REDUCTION] == NONE:
        asks = PREFETCHES_WRITES and plan[fields.HIGH] - plan[fields.LOW] > SMALL_BYTES
    else:
        asks = plan[fields.SPLIT] < 0 and plan[fields.HIGH] - plan[fields.LOW] > CACHED_BYTES
    neighbours = index_step == 1 and packed_step == itemsize(data)
    pattern, offsets, kept = buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK : 3 * BLOCK], buffer[3 * BLOCK :]
    rows = find_rows(plan, pattern, False)
    loop, length, unit = rows
    stepped = unit > 1 or step != 0
    shift = plan[fields.KIND] & 3
    points = block_points(plan)
    p, place = begin, (begin // length, begin % length)
    while p < end:
        row = place[0]
        count, origin, position, fro, first, place = block_at(plan, rows, points, place, end - p)
        shape = pattern[first:]
        p += count
        if alone:
            index_ahead, packed_ahead = position + BLOCKS_AHEAD * BLOCK * plan[fields.COORDS], fro + BLOCK * packed_step
            if count == length:  # short rows, of a strip: the next ones are elsewhere
                _, index_ahead, packed_ahead = row_bases(plan, loop, row + ROWS_AHEAD)
            soon = index_ahead << shift, packed_ahead
            if neighbours and put_directly(
                plan, data, origin, shape, stepped, index, packed, (position, fro), count, soon
            ):
                continue
        status = find_offsets(plan, index, position, count, shape, step, index_step, buffer, offsets)
        if status >= 0:
            return status
        if alone and status == fields.ALL_INSIDE:
            for chunk in range(0, count, CHUNK):
                last = min(chunk + CHUNK, count)
                prefetch_updates(index, packed, soon, plan[fields.COORDS] << shift, packed_step, chunk, last)
                put_chunk(plan[fields.REDUCTION], data, origin, offsets, packed, fro, packed_step, (chunk, last), asks)
        elif writing:
            put_kept(data, origin, offsets, kept, packed, fro, packed_step, count, part, plan)
    return np.int64(-1)
