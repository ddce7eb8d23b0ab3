"""Top-k of short lines one by one, and of a single line without a plan."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import address, array_at, empty, itemsize, overlaps, seen_as, store
from ..drivers import ASK
from ..primitives.keys import LANES, key_buffer, rule_from
from ..primitives.top_k.column_lists import GROUPS
from ..primitives.top_k.plan import LINES, REFUSED, RULE, SIZE, K, line_bases, share_count, task_count
from ..primitives.top_k.short_lines import select_alone
from ..primitives.top_k.staging import batches, stage_batch
from ..primitives.top_k.writing import write_index, write_line

#: What the kernel for a line alone has in its memory first: the size, k, the bytes of an index, and the rule; and how
#: many words that is, with room to work.
ALONE_NUMBERS = 6
ALONE_WORDS = ALONE_NUMBERS + LANES + 5 * GROUPS // 2


@helper
def lines_alone_in(x, values, indices, plan, begin, end, rest, keys, places, positions):
    """Select from the lines begin <= line < end one by one; the last four are scratch, see `select_alone`."""
    n, k = plan[SIZE], plan[K]
    rule = rule_from(x, plan, RULE)
    for line in range(begin, end):
        source, to = line_bases(plan, line)
        select_alone(array_at(x, source, (n,)), n, k, rule, rest, keys, places, positions)
        write_line(plan, x, source, values, indices, to, positions)


@allocating
def lines_alone(x, values, indices, plan, begin, end):
    """Select from lines for which there is no network; others than contiguous ones are staged in batches."""
    room = key_buffer(x, LANES + GROUPS)
    rest, keys, places, positions = room[:LANES], room[LANES:], empty(GROUPS, np.int32), empty(GROUPS, np.int64)
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        lines_alone_in(x, values, indices, packed, first, last, rest, keys, places, positions)


@kernel
def singly_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from short lines one by one."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    lines_alone(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)


@kernel
def alone_kernel(x, values, indices, memory):
    """Select from one line, whose elements are neighbours, without a plan; `memory` is the caller's, `ALONE_WORDS`."""
    words = seen_as(x, np.int64)
    at = address(memory) - address(x)
    numbers = array_at(words, at, (ALONE_NUMBERS,))
    size, k, index_size = numbers[0], numbers[1], numbers[2]
    begin, end = address(x), address(x) + size * itemsize(x)
    v, i = address(values), address(indices)
    after_v, after_i = v + k * itemsize(x), i + k * index_size
    if overlaps(begin, end, v, after_v) or overlaps(begin, end, i, after_i) or overlaps(v, after_v, i, after_i):
        return np.int64(REFUSED)
    at += 8 * ALONE_NUMBERS
    positions = array_at(words, at, (GROUPS,))
    at += 8 * GROUPS
    places = array_at(seen_as(x, np.int32), at, (GROUPS,))
    at += 4 * GROUPS
    keys = array_at(x, at, (GROUPS,))
    rest = array_at(x, at + GROUPS * itemsize(x), (LANES,))
    row = array_at(x, 0, (size,))
    select_alone(row, size, k, rule_from(x, numbers, 3), rest, keys, places, positions)
    for j in range(k):
        store(values, j * itemsize(x), row[positions[j]])
        write_index(indices, index_size, j, positions[j])
    return np.int64(0)
