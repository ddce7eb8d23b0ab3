"""The scatter in two phases: note the slice that each update leads to, then write by thread."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import address, array_at, empty, itemsize, seen_as
from ..drivers import ASK
from ..primitives.moves.plan import BLOCK, COPY, POINTS, REDUCTION, SCRATCH
from ..primitives.moves.runs import ASKS_TO_WRITE
from ..primitives.moves.scatter_phases import by_phases, count_tasks
from ..primitives.moves.slice_numbers import in_slices, note_numbers
from ..primitives.moves.update_slices import CACHED_BYTES
from ..primitives.moves.updates import put_some
from ..primitives.reductions import NONE


@helper
def put_noted(data, packed, plan, noted, low, high, ask):
    """Write or combine, in their order, the updates whose numbers are low <= number < high; see `put_some`.

    Each thread goes through all numbers, but tuples are turned into them once, by one thread each. In place, 2, 4 and 8
    threads of an Intel Xeon, f4, ms, each with all tuples, and so: 1M into 64 MB 10.2, 5.0, 3.8 and 6.8, 3.5, 2.2; 10M
    120, 62, 51 and 67, 38, 27; 500k into 16 MB 3.0, 2.1, 1.9 and 2.6, 1.3, 1.0. Two of an AMD EPYC 15.3 and 10.4, 131
    and 95, 6.2 and 4.2.
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
    ask = (high - low) * size > CACHED_BYTES and (plan[REDUCTION] != NONE or ASKS_TO_WRITE)
    put_noted(data, packed, plan, noted, low, high, ask)
    return np.int64(-1)


noted_phase = by_phases(share_by_notes, notes=True)


@kernel
def noted_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter by numbers that are noted, or tell how many there are."""
    if task != ASK:
        return noted_phase(phase, source, data, index, packed, plan, task, tasks) + 1
    return count_tasks(phase, tasks, source, data, index, packed, plan)
