"""The scatter that combines with a small output: each share has a copy of its own, and these are joined."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import address, empty, further, itemsize, load, store
from ..drivers import ASK, OVERLAP
from ..primitives.moves.plan import BLOCK, COPY, POINTS, REDUCTION, SCRATCH, SHARES, scatter_clashes
from ..primitives.moves.updates import scatter_range
from ..primitives.reductions import MUL, combine, kind_of

#: Bytes of an output from which on several threads combine the shares' ones.
JOINED_BYTES = 1 << 16
# The phases of a scatter to a small output, of which every share of the points has one of its own.
SCAN, JOIN = range(2)


@helper
def own_place(data, plan, share):
    """Return where a share has elements of its own: one for each of the output."""
    room = -(-plan[COPY] // CACHE_LINE) * CACHE_LINE
    return plan[SCRATCH] - address(data) + share * room


@helper
def join_own(data, old, plan, begin, end):
    """Write the elements begin <= i < end of a small output: what is there, and what each share has for it."""
    size = itemsize(data)
    for i in range(begin, end):
        value = load(data, old + i * size)
        for share in range(plan[SHARES]):
            value = combine(plan[REDUCTION], value, load(data, own_place(data, plan, share) + i * size))
        store(data, i * size, value)


@helper
def fill_own(data, old, own, plan):
    """Fill a share's elements with what changes nothing: 0, 1, and for the lowest or highest number what is there."""
    size = itemsize(data)
    reduction = kind_of(plan[REDUCTION])
    for at in range(0, plan[COPY], size):
        value = load(data, old + at)
        store(own, at, type(value)(reduction == MUL) if reduction <= MUL else value)


@allocating
def scatter_own(phase, source, data, index, packed, plan, task, tasks):
    """Run a task of a phase; return the position of the first bad index, or -1.

    A share combines its updates with an output of its own; then the shares are combined in their order. Only for what
    leaves the same bits however the updates are cut into shares: not sums and products of floats. See "A small output
    for each share" in docs/measurements/cpumoves.md.
    """
    old = address(source) - address(data)
    if phase == JOIN:
        count = plan[COPY] // itemsize(data)
        join_own(data, old, plan, count * task // tasks, count * (task + 1) // tasks)
        return np.int64(-1)
    begin, end = plan[POINTS] * task // tasks, plan[POINTS] * (task + 1) // tasks
    own = further(data, own_place(data, plan, task))
    fill_own(data, old, own, plan)
    part = np.int64(0), np.int64(1)
    return scatter_range(True, own, index, packed, plan, begin, end, part, empty(4 * BLOCK, np.int64))


@kernel
def own_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter to a small output, or tell how many there are."""
    if task != ASK:
        return scatter_own(phase, source, data, index, packed, plan, task, tasks) + 1
    if phase == SCAN:
        return np.int64(OVERLAP) if scatter_clashes(source, data, index, packed, plan) else plan[SHARES]
    return np.int64(0) if phase > JOIN else tasks if plan[COPY] >= JOINED_BYTES else np.int64(1)
