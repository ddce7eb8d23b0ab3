"""The scatter of many single elements, sorted by the part of the output that they lead to.

The figures are under "Updates that are sorted by bins" in docs/measurements/cpumoves.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.copies import copy_bytes, finish_streams, prefetch_to_write, stream_bytes
from ..._jit.memory import address, array_at, empty, itemsize, load, seen_as, store
from ..drivers import ASK, OVERLAP
from ..primitives.moves import plan as fields
from ..primitives.moves.offsets import in_slices, number_block
from ..primitives.moves.plan import BLOCK, find_rows, scatter_clashes
from ..primitives.reductions import NONE, combine

# The phases of a scatter by bins: strips of the output that stay in a cache.
COUNT, ORDER, SORT, FILL = range(4)
#: Elements between the updates of one bin and those of the next. Of a permutation all bins are as large, a power of
#: two, and a cache has few places for what is that far apart.
BIN_SKEW = 72
#: Updates ahead of which a bin's memory is prefetched: a core that stores waits for one line after the other.
BIN_AHEAD = 32


@helper
def bin_buffers(data, plan):
    """Return what the phases hand on, in memory of the caller.

    These are where the updates of each share start in each bin, with one bin more for those that are dropped; the
    number of the element that each update writes, in their order, below 0 of those that are dropped; and, as offsets in
    `data`, where the updates are bin by bin, each after its number, and by how much they are apart.
    """
    bins = -(-plan[fields.COPY] // plan[fields.TILE])
    at = plan[fields.SCRATCH] - address(data)
    starts = array_at(seen_as(data, np.int64), at, (plan[fields.SHARES], bins + 1))
    at += starts.size * 8
    apart = 2 * max(itemsize(data), 4)
    room = plan[fields.POINTS] + BIN_SKEW * (bins + 1)
    return starts, array_at(seen_as(data, np.int32), at + room * apart, (plan[fields.POINTS],)), at, apart


@helper
def bin_shift(data, plan):
    """Return by how many bits the number of an element is shifted to get its bin."""
    shift = 0
    while itemsize(data) << shift < plan[fields.TILE]:
        shift += 1
    return np.uint32(shift)


@helper
def fill_bins(source, data, plan, begin, end, room):
    """Copy strips begin <= b < end into a buffer, `room`, update them there, and write them past the caches."""
    size = itemsize(data)
    starts, _, binned, apart = bin_buffers(data, plan)
    at = room.ctypes.data - address(data)
    within = (np.int32(1) << np.int32(bin_shift(data, plan))) - np.int32(1)
    for b in range(begin, end):
        low = b * plan[fields.TILE]
        length = min(plan[fields.TILE], plan[fields.COPY] - low)
        copy_bytes(data, at, source, low, length)
        # The last share of a bin ends where the bin ends.
        first = starts[plan[fields.SHARES] - 1, b - 1] + BIN_SKEW if b > 0 else 0
        for i in range(first, starts[plan[fields.SHARES] - 1, b]):
            number = load(seen_as(data, np.int32), binned + i * apart)
            update = load(data, binned + i * apart + apart // 2)
            to = at + np.int64(number & within) * size
            if plan[fields.REDUCTION] == NONE:
                store(data, to, update)
            else:
                store(data, to, combine(plan[fields.REDUCTION], load(data, to), update))
        stream_bytes(data, low, data, at, length)
    finish_streams()


@helper
def count_share(data, index, plan, task, begin, end, numbered, buffer):
    """Note which element each of a share's updates writes, and count those of each bin.

    Return the position of the first bad index, or -1.
    """
    shift = bin_shift(data, plan)
    starts, noted, _, _ = bin_buffers(data, plan)
    dropped = np.uint64(starts.shape[1] - 1)
    counts = starts[task]
    counts[:] = 0
    rows = find_rows(numbered, buffer[BLOCK : 2 * BLOCK], False)
    p = begin
    while p < end:
        numbers = noted[p:]
        count, status = number_block(index, numbered, rows, p, end, numbers, buffer)
        if status >= 0:
            return status
        for i in range(count):
            counts[min(np.uint64(np.uint32(numbers[i]) >> shift), dropped)] += 1
        p += count
    return np.int64(-1)


@helper
def sort_share(data, packed, plan, task, begin, end):
    """Put a share's updates where those of their bins are."""
    size = itemsize(data)
    shift = bin_shift(data, plan)
    starts, noted, binned, apart = bin_buffers(data, plan)
    dropped = np.uint64(starts.shape[1] - 1)
    place_of = starts[task]
    for p in range(begin, end):
        number = noted[np.uint64(p)]
        b = min(np.uint64(np.uint32(number) >> shift), dropped)
        to = binned + place_of[b] * apart
        place_of[b] += 1
        prefetch_to_write(data, to + BIN_AHEAD * apart)
        store(seen_as(data, np.int32), to, number)
        store(data, to + apart // 2, load(packed, p * size))


@allocating
def scatter_bins(phase, source, data, index, packed, plan, task, tasks):
    """Run a task of a phase; return the position of the first bad index, or -1.

    Updates are sorted by the strip of the output that they write to, and stay in their order within it; then a strip is
    copied into a buffer, updated there, and written past the caches: a new output is not read, and none written twice.
    """
    bins = -(-plan[fields.COPY] // plan[fields.TILE])
    starts, _, _, _ = bin_buffers(data, plan)
    begin, end = plan[fields.POINTS] * task // tasks, plan[fields.POINTS] * (task + 1) // tasks
    if phase == COUNT:
        numbered = in_slices(plan, itemsize(data))
        return count_share(data, index, plan, task, begin, end, numbered, empty(3 * BLOCK, np.int64))
    if phase == SORT:
        sort_share(data, packed, plan, task, begin, end)
    elif phase == ORDER:
        total = 0
        for b in range(bins + 1):
            for share in range(plan[fields.SHARES]):
                count = starts[share, b]
                starts[share, b] = total
                total += count
            total += BIN_SKEW
    else:
        begin, end = bins * task // tasks, bins * (task + 1) // tasks
        fill_bins(source, data, plan, begin, end, empty(plan[fields.TILE], np.uint8))
    return np.int64(-1)


@kernel
def bins_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter strip by strip, or tell how many there are; in place if the plan says so."""
    if task != ASK:
        return scatter_bins(phase, source, data, index, packed, plan, task, tasks) + 1
    in_place = address(source) == address(data) and plan[fields.IN_PLACE] == 0
    if phase == COUNT and (in_place or scatter_clashes(source, data, index, packed, plan)):
        return np.int64(OVERLAP)
    if phase == FILL:
        return min(-(-plan[fields.COPY] // plan[fields.TILE]), 4 * tasks)
    if phase == ORDER:
        return np.int64(1)
    return plan[fields.SHARES] if phase < FILL else np.int64(0)
