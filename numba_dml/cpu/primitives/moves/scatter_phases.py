"""The phases of a scatter: the indices are checked first, then the updates are written."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import chosen, helper
from ...._jit.copies import copy_bytes, finish_streams, stream_bytes
from ...._jit.memory import ANY, address, itemsize, overlaps
from ...drivers import OVERLAP
from .plan import (
    ALONE,
    BOUNDS,
    COPY,
    HIGH,
    INDEX_BYTES,
    LOW,
    PACKED_BYTES,
    POINTS,
    RAISE,
    SPLIT,
    STREAM,
    all_inside,
    coords_at,
)

# How threads share the work (SPLIT). A number from 0 on names a loop whose iterations write to different places.
BY_WINDOW = -1  # each thread goes through all points, and writes those that fall into its part of the output
BY_SLICE = -2  # each thread writes its part of every slice
BY_POINT = -3  # each thread has its own points: the caller promised that they are unique


def points_inside(index, plan, begin, end):
    """Return whether the indices of some points are all 0 or more and in range, if each of them is used once."""
    raise NotImplementedError


@chosen(points_inside)
def _points_inside(index, plan, begin, end):
    if index == ANY:
        return lambda index, plan, begin, end: False

    def inside(index, plan, begin, end):
        size = itemsize(index)
        each_once = plan[POINTS] * size == plan[INDEX_BYTES]
        return each_once and all_inside(index, begin * size, end - begin, plan[coords_at(plan)])

    return inside


# The phases of a scatter; every thread has finished the first one before the second one begins. In place every index is
# checked before anything is written. Elsewhere the first phase copies, or with strips the second one does it as it
# goes, while they are in the cache; no output is promised to survive an error then, and indices are read once only.
PREPARE, WRITE = range(2)


def by_phases(scatter_share, notes=False):
    """Return a function that runs one thread's share of a phase, by one for a share of the updates.

    `notes`: the first phase looks at the indices, always, and the second one does not.
    """

    @helper
    def scatter_phase(phase, source, data, index, packed, plan, thread, threads):
        """Run one thread's share of a phase; return the position of the first bad index, or -1."""
        in_place = address(source) == address(data)
        if phase == PREPARE:
            if not in_place and plan[SPLIT] < 0:
                begin = plan[COPY] * thread // threads
                end = plan[COPY] * (thread + 1) // threads
                if plan[STREAM] != 0:
                    stream_bytes(data, begin, source, begin, end - begin)
                    finish_streams()
                else:
                    copy_bytes(data, begin, source, begin, end - begin)
            if not notes and (not in_place or plan[BOUNDS] != RAISE):
                return np.int64(-1)
        writing = phase == WRITE
        return scatter_share(writing, writing and not in_place, source, data, index, packed, plan, thread, threads)

    return scatter_phase


@helper
def clashes(source, data, index, packed, plan):
    """Return whether the output lies in an input, other than exactly on the one that it updates."""
    to, at = address(data), address(source)
    copied = np.int64(0) if at == to else plan[COPY]
    # A copy writes the whole output; updates alone only what the indices can lead to.
    low, high = (np.int64(0), copied) if copied > 0 else (plan[LOW], plan[HIGH])
    return (
        overlaps(to + low, to + high, address(index), address(index) + plan[INDEX_BYTES])
        or overlaps(to + low, to + high, address(packed), address(packed) + plan[PACKED_BYTES])
        or (at != to and overlaps(to + low, to + high, at + low, at + high))
    )


#: Bytes of the output to copy, or of indices to check, from which on several threads do that although one writes.
PREPARED_BYTES = 1 << 21


@helper
def count_tasks(phase, tasks, source, data, index, packed, plan):
    """Return how many tasks a phase of a scatter has."""
    if phase > WRITE:
        return np.int64(0)
    if plan[ALONE] != 0:
        to_prepare = plan[INDEX_BYTES] if address(source) == address(data) else plan[COPY]
        tasks = tasks if phase == PREPARE and to_prepare >= PREPARED_BYTES else np.int64(1)
    return np.int64(OVERLAP) if phase == PREPARE and clashes(source, data, index, packed, plan) else tasks
