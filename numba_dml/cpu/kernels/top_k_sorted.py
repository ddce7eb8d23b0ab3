"""Top-k with a large k: the k-th best is found, what is as good is collected, and sorted.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import array_at, empty, itemsize
from ..drivers import ASK
from ..primitives.keys import LANES, key_buffer, lowest_key, rule_from
from ..primitives.top_k.plan import GROUP, LINES, RULE, SAMPLE, SIZE, STRIDE, K, line_bases, share_count, task_count
from ..primitives.top_k.radix_select import DIGIT_COUNTS, SORT_DIGITS, collect_words, last_key, sort_line, ties_of
from ..primitives.top_k.selection import bound_of_sample
from ..primitives.top_k.staging import stage_for, stage_lines
from ..primitives.top_k.writing import write_ordered, write_positions, write_words


@helper
def sorted_lines_in(x, values, indices, plan, begin, end, stage, words, other, sample, counts, bases):
    """Find the k-th best of the lines begin <= line < end, collect what is as good, and sort it."""
    k = plan[K]
    n = plan[SIZE]
    stride = plan[STRIDE]
    staged = plan[GROUP] > 0
    group = bases.size
    rule = rule_from(x, plan, RULE)
    for line in range(begin, end, group):
        lines = min(group, end - line)
        done = write_ordered(plan, x, values, indices, line, lines)
        line, lines = line + done, lines - done
        for g in range(lines):
            bases[g] = line_bases(plan, line + g)[0]
        if staged:
            stage_lines(x, bases, stride, 0, n, stage, lines)
        for g in range(lines):
            source, to = line_bases(plan, line + g)
            row = stage[g] if staged else array_at(x, source, (n,))
            last = bound_of_sample(x, plan, line + g, sample) if sample.size > 0 else lowest_key(row)
            ties = ties_of(row, n, k, words.size, last, rule) if sample.size > 0 else -1
            if ties < 0:
                last, ties = last_key(row, n, k, words.size, rule, counts.reshape(-1))
            count = collect_words(row, n, rule, last, ties, words)
            words, other = sort_line(row, rule, words, other, count, counts)
            if itemsize(x) < 8:
                write_words(plan, x, source, row, values, indices, to, words, rule)
            else:
                write_positions(plan, x, source, values, indices, to, words)


@allocating
def sorted_lines(x, values, indices, plan, begin, end):
    """Select from the lines begin <= line < end, a large part of each."""
    k = plan[K]
    n = plan[SIZE]
    group = max(plan[GROUP], 1)
    stage = stage_for(x, plan, n)
    # It is cheaper to sort some too many than to search on. One allocation for both: of two, memory can go back to
    # the system after each share of the lines. Both begin at the same place of a cache line: else 8 bytes take longer.
    room = min(n, k + k // 4 + n // 16)
    words, other = empty((2, -(-room // LANES) * LANES), np.int64)
    sample = key_buffer(x, plan[SAMPLE])
    counts = empty((SORT_DIGITS, DIGIT_COUNTS), np.int64)
    bases = empty(group, np.int64)
    sorted_lines_in(x, values, indices, plan, begin, end, stage, words, other, sample, counts, bases)


@kernel
def sorted_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select large parts of lines."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    sorted_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)
