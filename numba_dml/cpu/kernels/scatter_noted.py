"""The scatter in two phases: note the slice that each update leads to, then write by thread."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import address, array_at, empty, itemsize, seen_as
from ..drivers import ASK
from ..primitives.moves.plan import BLOCK, COPY, POINTS, REDUCTION, SCRATCH
from ..primitives.moves.runs import PREFETCHES_WRITES
from ..primitives.moves.scatter_phases import by_phases, count_tasks
from ..primitives.moves.slice_numbers import in_slices, note_numbers
from ..primitives.moves.update_slices import CACHED_BYTES
from ..primitives.moves.updates import put_some
from ..primitives.reductions import NONE


@helper
def put_noted(data, packed, plan, noted, low, high, ask):
    """Write or combine, in their order, the updates whose numbers are low <= number < high; see `put_some`.

    Each thread goes through all numbers, but tuples are turned into them once, by one thread each. See "Tuples that are
    turned into numbers once" in docs/measurements/cpumoves.md.
    """
    size = itemsize(data)
    for p in range(0, plan[POINTS], BLOCK):
        count = min(BLOCK, plan[POINTS] - p)
        put_some(data, 0, size, noted[p:], noted[p:], packed, p * size, size, count, low, high, plan[REDUCTION], ask)


@allocating
def share_by_notes(writing, fresh, source, data, index, packed, plan, thread, threads):
    """Note the numbers of one thread's share of the points, or write its part of the output by those of all."""
    noted = array_at(seen_as(data, np.int32), plan[SCRATCH] - address(data), (plan[POINTS],))
    size = itemsize(data)
    if not writing:
        begin, end = plan[POINTS] * thread // threads, plan[POINTS] * (thread + 1) // threads
        return note_numbers(index, in_slices(plan, size), begin, end, noted, empty(3 * BLOCK, np.int64))
    count = plan[COPY] // size
    low, high = count * thread // threads, count * (thread + 1) // threads
    ask = (high - low) * size > CACHED_BYTES and (plan[REDUCTION] != NONE or PREFETCHES_WRITES)
    put_noted(data, packed, plan, noted, low, high, ask)
    return np.int64(-1)


noted_phase = by_phases(share_by_notes, notes=True)


@kernel
def noted_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter by numbers that are noted, or tell how many there are."""
    if task != ASK:
        return noted_phase(phase, source, data, index, packed, plan, task, tasks) + 1
    return count_tasks(phase, tasks, source, data, index, packed, plan)
