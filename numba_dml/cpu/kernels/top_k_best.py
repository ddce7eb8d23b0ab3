"""Top-1: the best element of each line.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import array_at, itemsize, load, store
from ..drivers import ASK
from ..primitives.keys import LANES, key_of, lowest_bit, lowest_key, rule_from
from ..primitives.top_k.key_masks import beats
from ..primitives.top_k.key_maxima import best_lane, lane_limit, least_bound, prefetch_lanes
from ..primitives.top_k.plan import INDEX_SIZE, LINES, RULE, SIZE, line_bases, share_count, task_count
from ..primitives.top_k.staging import batches, stage_batch
from ..primitives.top_k.writing import write_index

#: If BETTER of the first FIRST_BLOCKS blocks have a better element than those before (of a random line, one in 20 has),
#: the line may ascend: the best of its last block rules most others out.
BETTER, FIRST_BLOCKS = 8, 64
#: How many blocks ahead are prefetched.
BEST_AHEAD = 8


@helper
def find_best(row, size, rule):
    """Return the position of the best element of a line, the first of equal ones."""
    best = key_of(row[0], rule)
    found = 0
    block = -1
    better = 0
    whole = size if size >= LANES else 0
    for start in range(0, whole, LANES):
        at = min(start, size - LANES)  # the last block lies on the one before it in part, which beats nothing again
        prefetch_lanes(row, at + BEST_AHEAD * LANES)
        if beats(row, at, best, rule) != np.uint64(0):  # in random lines seldom, in ascending ones always
            block = at
            best = best_lane(row, at, rule)
            if best != lane_limit(best, rule):  # it stands for another one, perhaps, or for a zero that there is not
                best = lowest_key(row)
                for i in range(at, at + LANES):
                    best = max(best, key_of(row[i], rule))
            better += 1
            if better == BETTER and at < FIRST_BLOCKS * LANES:  # perhaps the line ascends to its end
                last = best_lane(row, size - LANES, rule)
                if last > least_bound(row, rule):
                    best = max(best, row.dtype.type(lane_limit(last, rule) - 1))
    if block >= 0:
        found = block + lowest_bit(beats(row, block, row.dtype.type(best - 1), rule))
    for i in range(whole, size):
        key = key_of(row[i], rule)
        if key > best:
            best = key
            found = i
    return found


@helper
def best_of_lines_in(x, values, indices, plan, begin, end):
    """Find the best element of each of the lines begin <= line < end."""
    rule = rule_from(x, plan, RULE)
    size = itemsize(x)
    for line in range(begin, end):
        source, to = line_bases(plan, line)
        position = find_best(array_at(x, source, (plan[SIZE],)), plan[SIZE], rule)
        write_index(indices, plan[INDEX_SIZE], to, position)
        store(values, to * size, load(x, source + position * size))


@allocating
def best_of_lines(x, values, indices, plan, begin, end):
    """Do the same for lines that are not contiguous, too: these are staged in batches."""
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        best_of_lines_in(x, values, indices, packed, first, last)


@kernel
def best_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: find the best element of each line."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    best_of_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)
