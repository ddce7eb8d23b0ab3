"""Top-k of short lines, several at once through a sorting network.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, chosen, helper, kernel
from ..._jit.memory import address, array_at, empty, itemsize, load, seen_as
from ..drivers import ASK
from ..primitives.keys import LANES, key_buffer, key_of, rule_from
from ..primitives.top_k.column_lists import GROUPS
from ..primitives.top_k.network import NETWORK_LINES, list_depth, network_lists
from ..primitives.top_k.network_cut import cut_block
from ..primitives.top_k.plan import (
    DIM_FIELDS,
    DIMS,
    GROUP,
    HEADER,
    LINES,
    LOW,
    RULE,
    SIZE,
    TILE,
    K,
    line_bases,
    share_count,
    task_count,
)
from ..primitives.top_k.short_lines import NONE, ONCE, SHORT_K, TWICE, cut_lines, network_lines, select_alone
from ..primitives.top_k.staging import batches, stage_batch, stage_left_over
from ..primitives.top_k.writing import write_line, write_ordered

#: Lines of 4 and of 8 bytes with fewer elements than this go through the network by cut keys (see `cut_lines`): longer
#: ones cut off too many bits.
CUT_SIZE = (500, 450)
#: Trust in cut keys: TRUST at first and twice as much at most. A group that had to go through the network twice, or to
#: be put in order, costs COSTLY, another one adds 1. Without trust, keys near the highest one of a group are tried for
#: UNTRUSTED lines; if these are too few, cut keys as before, or whole keys if any group went through twice.
COSTLY, TRUST, UNTRUSTED = 3, 6, 512


def select_left_over(x, plan, line, lines, rule, best, cut, few, stage, positions):
    """Select from lines that are fewer than the network takes, or are not neighbours (inside kernels only).

    They are staged in `few`. What the network makes of lines that are not there is not looked at.
    """
    raise NotImplementedError


@chosen(select_left_over)
def _select_left_over(x, plan, line, lines, rule, best, cut, few, stage, positions):
    def select(x, plan, line, lines, rule, best, cut, few, stage, positions):
        n, at = stage_left_over(x, plan, line, lines, few), few.ctypes.data - address(x)
        network_lines(x, at, n * itemsize(x), n, plan[K], rule, best, positions)

    def select_cut(x, plan, line, lines, rule, best, cut, few, stage, positions):
        n, at = stage_left_over(x, plan, line, lines, few), few.ctypes.data - address(x)
        cut_lines(x, at, n * itemsize(x), n, plan[K], rule, cut, stage, positions, False)

    return select_cut if x.dtype.bitwidth == 64 else select


def rank_lines(x, source, step, n, k, rule, keys, ranks, positions):
    """Select from `NETWORK_LINES` lines of too few 8-byte elements for cut keys (inside kernels only).

    Each goes where it says how many of its line are better.
    """
    raise NotImplementedError


@chosen(rank_lines)
def _rank_lines(x, source, step, n, k, rule, keys, ranks, positions):
    def nothing(x, source, step, n, k, rule, keys, ranks, positions):
        return

    def by_rank(x, source, step, n, k, rule, keys, ranks, positions):
        lines = NETWORK_LINES
        for j in range(n):
            for line in range(lines):
                keys[j * lines + line] = key_of(load(x, source + line * step + j * itemsize(x)), rule)
                ranks[j * lines + line] = j
        for i in range(1, n):
            for j in range(i):
                for line in range(lines):  # as vectors
                    is_better = np.int64(keys[i * lines + line] > keys[j * lines + line])
                    ranks[i * lines + line] -= is_better
                    ranks[j * lines + line] += is_better
        order = ranks[n * lines :]
        for line in range(lines):
            for j in range(n):
                order[ranks[j * lines + line]] = j
            for j in range(k):
                positions[line, j] = order[j]

    return by_rank if x.dtype.bitwidth == 64 else nothing


@helper
def short_lines_in(
    x,  # IN   the input
    values,  # OUT  the selected elements
    indices,  # OUT  and where they are
    plan,  # IN   (fields,) int64
    begin,  # IN   the lines begin <= line < end
    end,
    best,  # OUT  (k or more, lines) keys of the network
    cut,  # OUT  (k + 1 or more, lines) cut keys
    few,  # OUT  (lines, n) elements, if k is above `SHORT_K`
    room,  # OUT  (64 + 16 + 64,) keys
    places,  # OUT  (max(most lines * k, 16),) int64
    listed,  # OUT  (16,) int32
):
    """Select from short lines; the last six are scratch."""
    k = plan[K]
    n = plan[SIZE]
    stage, keys, ranks = room[:LANES], room[LANES : LANES + GROUPS], room[LANES + GROUPS :]
    # Of one line there can be more. (`reshape` takes Numba 0.1 s.)
    cut_count, cut_least = cut_block(x)
    positions = array_at(seen_as(x, np.int64), places.ctypes.data - address(x), (max(NETWORK_LINES, cut_count), k))
    # The network reads this many elements of a line at least: of shorter ones, what lies before them.
    first_byte = plan[LOW] + max(NETWORK_LINES - n, 0) * itemsize(x)
    rule = rule_from(x, plan, RULE)
    inner = HEADER + DIM_FIELDS * (plan[DIMS] - 1)
    neighbours = plan[inner] if plan[DIMS] else 1
    step = plan[inner + 1] if plan[DIMS] else 0
    out_step = plan[inner + 2] if plan[DIMS] else 0
    can_cut = cut_count > 1 and cut_least <= n < CUT_SIZE[itemsize(x) // 8]
    is_tiny = itemsize(x) == 8 and n < cut_least
    # Whether the keys near the highest one are tried; the line from which on cut ones are trusted again, 0: they are;
    # whether whole ones are better than these; and the line from which on keys are cut at all.
    near, trust, again, whole, cut_from = False, TRUST, 0, False, begin
    line = begin
    while line < end:
        if 0 < again <= line:
            near, trust, again, whole = False, TRUST, 0, False
        cuts = can_cut and cut_from <= line <= end - cut_count
        cuts = cuts and (plan[GROUP] > 0 or line % neighbours + cut_count <= neighbours)
        lines = cut_count if cuts else min(NETWORK_LINES if itemsize(x) < 8 or is_tiny else cut_count, end - line)
        ordered = write_ordered(plan, x, values, indices, line, lines)
        if ordered > 0:
            line += ordered
            continue
        source, to = line_bases(plan, line)
        if cuts:
            effort = cut_lines(x, source, step, n, k, rule, cut, stage, positions, near)
            if effort == NONE:
                near, cut_from = False, again if whole else line
                continue
            if again == 0:
                trust = min(trust + 1, 2 * TRUST) if effort == ONCE else trust - COSTLY
                whole = whole or (effort == TWICE and plan[TILE] > 1)
                if trust < 0:
                    near, again = True, line + UNTRUSTED
        elif (
            (is_tiny or plan[TILE] > 1)
            and lines == NETWORK_LINES
            and (plan[GROUP] > 0 or line % neighbours + NETWORK_LINES <= neighbours)
            and (is_tiny or min(source, source + (NETWORK_LINES - 1) * step) >= first_byte)
        ):
            if is_tiny:
                rank_lines(x, source, step, n, k, rule, stage, ranks, positions)
            else:
                network_lines(x, source, step, n, k, rule, best, positions)
        elif k <= SHORT_K:
            lines = 1
            select_alone(array_at(x, source, (n,)), n, k, rule, stage, keys, listed, places)
        else:
            select_left_over(x, plan, line, lines, rule, best, cut, few, stage, positions)
        for i in range(lines):
            if i > 0:
                if (line + i) % neighbours:
                    source, to = source + step, to + out_step
                else:
                    source, to = line_bases(plan, line + i)
            write_line(plan, x, source, values, indices, to, positions[i])
        line += lines


@allocating
def short_lines(x, values, indices, plan, begin, end):
    """Select from the lines begin <= line < end, which are short; others than contiguous ones are staged in batches."""
    # The lists of both kinds of keys lie in the same memory: 64 bits for each line, or 32 for up to twice as many.
    depth = list_depth(plan[K], NETWORK_LINES)
    cut_count, together = cut_block(x)
    cut_depth = list_depth(plan[K], together) + 1
    lists = network_lists(x, max(depth, cut_depth))
    best, cut = lists[:depth], array_at(x, lists.ctypes.data - address(x), (cut_depth, cut_count))
    few = key_buffer(x, (NETWORK_LINES, plan[SIZE] if plan[K] > SHORT_K else 0))
    room = key_buffer(x, LANES + GROUPS + LANES)  # few allocations: each takes 0.05 us
    places = empty(max(max(NETWORK_LINES, cut_count) * plan[K], GROUPS), np.int64)
    listed = empty(GROUPS, np.int32)
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        short_lines_in(x, values, indices, packed, first, last, best, cut, few, room, places, listed)


@kernel
def short_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from short lines."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    short_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)
