"""The scatter to a new output, in the order of its places."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, kernel
from ..._jit.copies import finish_streams
from ..._jit.memory import address, empty, itemsize
from ..drivers import ASK, OVERLAP
from ..primitives.moves import plan as fields
from ..primitives.moves.offsets import in_slices, number_block
from ..primitives.moves.plan import BLOCK, FAR_BLOCK, find_rows, scatter_clashes
from ..primitives.moves.runs import take_runs


@allocating
def scatter_places(source, data, index, packed, plan, thread, threads):
    """Write one thread's part of an output that is not the input; return the position of the first bad index, or -1.

    Every slice of it is one of the input or one of the updates, the last that leads there: once these are known, the
    output is gathered from both, in its own order. Nothing is written twice, or read to be overwritten. See "A new
    output in the order of its places" in docs/measurements/cpumoves.md.
    """
    size = plan[fields.RUN] * itemsize(data)
    count = plan[fields.COPY] // size
    first = count * thread // threads
    count = count * (thread + 1) // threads - first
    sources = empty(count + 1, np.int32)  # the update of each slice, -1: none; then a place for other threads' ones
    for i in range(count):
        sources[i] = -1
    numbered = in_slices(plan, size)
    numbers = empty(BLOCK, np.int32)
    buffer = empty(3 * BLOCK, np.int64)
    rows = find_rows(numbered, buffer[BLOCK : 2 * BLOCK], False)
    p = 0
    while p < plan[fields.POINTS]:
        points, status = number_block(index, numbered, rows, p, plan[fields.POINTS], numbers, buffer)
        if status >= 0:
            return status
        for i in range(points):
            here = np.uint64(numbers[i] - first)  # dropped: far away
            sources[min(here, np.uint64(count))] = p + i
        p += points
    offsets = empty(FAR_BLOCK, np.int64)
    updates = address(packed) - address(source)
    for start in range(0, count, FAR_BLOCK):
        slices = min(FAR_BLOCK, count - start)
        for i in range(slices):
            number = sources[start + i]
            offsets[i] = (first + start + i) * size if number < 0 else updates + number * size
        at = (first + start) * size
        take_runs(source, 0, offsets, data, at, size, slices, size, plan, buffer[:BLOCK])
    finish_streams()
    return np.int64(-1)


@kernel
def places_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a scatter to a new output, in its order, or tell how many there are."""
    if task != ASK:
        return scatter_places(source, data, index, packed, plan, task, tasks) + 1
    if phase > 0:
        return np.int64(0)
    in_place = address(source) == address(data)
    return np.int64(OVERLAP) if in_place or scatter_clashes(source, data, index, packed, plan) else tasks
