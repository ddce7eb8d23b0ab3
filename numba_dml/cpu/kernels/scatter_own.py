"""The scatter to a small output: each share has a copy of its own, and these are joined."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import address, array_at, empty, further, itemsize, load, seen_as, store
from ..drivers import ASK, OVERLAP
from ..primitives.moves.plan import BLOCK, COPY, POINTS, REDUCTION, SCRATCH, SHARES, STARTS_HIGH, STARTS_LOW, find_rows
from ..primitives.moves.scatter_phases import clashes
from ..primitives.moves.slice_numbers import in_slices, number_block
from ..primitives.moves.update_slices import ANYONE, scatter_range
from ..primitives.reductions import MUL, NONE, combine, kind_of

#: Bytes of an output from which on several threads combine the shares' ones.
JOINED_BYTES = 1 << 16
# The phases of a scatter to a small output, of which every share of the points has one of its own.
SCAN, JOIN = range(2)


@helper
def own_place(ref, plan, share, count):
    """Return where a share has elements of its own: one for each of the output, and one for what is dropped."""
    room = -(-(count + 1) * itemsize(ref) // CACHE_LINE) * CACHE_LINE
    return plan[SCRATCH] - address(ref) + share * room


@helper
def join_own(data, old, packed, plan, begin, end):
    """Write the elements begin <= i < end of a small output: what is there, and what each share has for it."""
    size = itemsize(data)
    reduction = plan[REDUCTION]
    count = plan[COPY] // size
    last = seen_as(data, np.int32)
    for i in range(begin, end):
        value = load(data, old + i * size)
        update = np.int32(-1)
        for share in range(plan[SHARES]):
            if reduction == NONE:
                update = max(update, load(last, own_place(last, plan, share, count) + i * 4))
            else:
                value = combine(reduction, value, load(data, own_place(data, plan, share, count) + i * size))
        store(data, i * size, load(packed, update * size) if update >= 0 else value)


@helper
def fill_own(data, old, own, plan):
    """Fill a share's elements with what changes nothing: 0, 1, and for the lowest or highest number what is there."""
    size = itemsize(data)
    reduction = kind_of(plan[REDUCTION])
    for at in range(0, plan[COPY], size):
        value = load(data, old + at)
        store(own, at, type(value)(reduction == MUL) if reduction <= MUL else value)


@allocating
def combine_own(own, index, packed, plan, begin, end):
    """Combine a share of the updates with elements of its own; return the position of the first bad index, or -1."""
    buffer = empty(4 * BLOCK, np.int64)
    low, high = plan[STARTS_LOW], plan[STARTS_HIGH]
    return scatter_range(True, own, index, packed, plan, begin, end, 0, 1, low, high, ANYONE, True, buffer)


@allocating
def find_last(last, index, plan, size, begin, end):
    """Find a share's last update of each place, or -1; return the position of the first bad index, or -1."""
    count = plan[COPY] // size
    numbered = in_slices(plan, size)
    numbers = empty(BLOCK, np.int32)
    buffer = empty(3 * BLOCK, np.int64)
    rows = find_rows(numbered, buffer[BLOCK : 2 * BLOCK])
    own_last = array_at(last, 0, (count + 1,))
    own_last[:] = -1
    p = begin
    while p < end:
        points, status = number_block(index, numbered, rows, p, end, numbers, buffer)
        if status >= 0:
            return status
        for i in range(points):
            own_last[min(np.uint64(numbers[i]), np.uint64(count))] = p + i  # dropped: far away
        p += points
    return np.int64(-1)


@helper
def scatter_own(phase, source, data, index, packed, plan, task, tasks):
    """Run a task of a phase; return the position of the first bad index, or -1.

    A share combines its updates with an output of its own, or keeps for each place the last update that leads there;
    then the shares are combined in their order. Only for what leaves the same bits however the updates are cut into
    shares: numbers but for sums and products of floats, and last updates. See "A small output for each share" in
    docs/measurements/cpumoves.md.
    """
    size = itemsize(data)
    count = plan[COPY] // size
    old = address(source) - address(data)
    if phase == JOIN:
        join_own(data, old, packed, plan, count * task // tasks, count * (task + 1) // tasks)
        return np.int64(-1)
    begin, end = plan[POINTS] * task // tasks, plan[POINTS] * (task + 1) // tasks
    if plan[REDUCTION] == NONE:
        last = seen_as(data, np.int32)
        return find_last(further(last, own_place(last, plan, task, count)), index, plan, size, begin, end)
    own = further(data, own_place(data, plan, task, count))
    fill_own(data, old, own, plan)
    return combine_own(own, index, packed, plan, begin, end)


@kernel
def own_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter to a small output, or tell how many there are."""
    if task != ASK:
        return scatter_own(phase, source, data, index, packed, plan, task, tasks) + 1
    if phase == SCAN:
        return np.int64(OVERLAP) if clashes(source, data, index, packed, plan) else plan[SHARES]
    return np.int64(0) if phase > JOIN else tasks if plan[COPY] >= JOINED_BYTES else np.int64(1)
