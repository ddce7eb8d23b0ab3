"""Top-k of short lines, or columns, several at once through a sorting network.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import address, empty, itemsize, load
from ..drivers import ASK
from ..primitives.keys import key_buffer, rule_from
from ..primitives.top_k import plan as fields
from ..primitives.top_k.network import NETWORK_LINES, list_depth, listed_place, network_lists, select_lines
from ..primitives.top_k.plan import inner_dimension, line_bases, share_count, task_count, tile_count, tile_of_columns
from ..primitives.top_k.staging import batches, stage_batch
from ..primitives.top_k.writing import write_element


@helper
def goes_across(x, plan):
    """Tell whether lines are columns that lie side by side, and are read as they are."""
    return plan[fields.GROUP] == 0 and plan[fields.STRIDE] != itemsize(x) and plan[fields.SIZE] > 1


@helper
def stage_few(x, sources, lines, n, few):
    """Stage lines that are fewer than the network takes, or are not neighbours; return where the first one is.

    There is room before it, since the network reads eight elements at least.
    """
    for line in range(lines):
        for j in range(n):
            few[NETWORK_LINES + line * n + j] = load(x, sources[line] + j * itemsize(x))
    return few.ctypes.data - address(x) + NETWORK_LINES * itemsize(x)


@helper
def find_bases(plan, line, lanes, sources, targets):
    """Write where lines start, in the input and in the outputs; return whether all are neighbours."""
    inner = inner_dimension(plan)
    neighbours = plan[inner] if plan[fields.DIMS] else 1
    left = neighbours - line % neighbours
    joint = left >= lanes
    source, to = line_bases(plan, line)
    for i in range(lanes):
        if left == 0:
            source, to = line_bases(plan, line + i)
            left = neighbours
        sources[i], targets[i] = source, to
        source, to, left = source + plan[inner + 1], to + plan[inner + 2], left - 1
    return joint


@helper
def write_group(x, values, indices, plan, step, best, place, sources, targets, skip):
    """Write what lines that went through the network together have in their lists, but for those that are skipped."""
    out_step, index_size = plan[fields.OUT_STRIDE], plan[fields.INDEX_SIZE]
    for j in range(plan[fields.K]):
        for i in range(skip, sources.size):
            position = listed_place(x, best, place + j, i)
            write_element(x, sources[i], step, values, indices, index_size, targets[i] + j * out_step, position)


@helper
def short_lines_in(
    x,  # IN   the input
    values,  # OUT  the selected elements
    indices,  # OUT  and where they are
    plan,  # IN   (fields,) int64
    begin,  # IN   the lines begin <= line < end
    end,
    best,  # OUT  scratch: (groups of lines * depth, lines) keys of the network
    few,  # OUT  scratch: (n * lines + 8,) elements
    bases,  # OUT  scratch: (2, tile) int64, where the lines of a tile start, in the input and in the outputs
):
    """Select from short lines, a tile at a time: those of the network, or as many columns as the plan tells."""
    n, width, tile, depth = plan[fields.SIZE], itemsize(x), plan[fields.TILE], list_depth(plan[fields.K])
    across = goes_across(x, plan)
    step = plan[fields.STRIDE] if across else width
    line_step = plan[inner_dimension(plan) + 1] if plan[fields.DIMS] else 0
    first_byte = plan[fields.LOW] + max(NETWORK_LINES - n, 0) * width
    rule = rule_from(x, plan, fields.RULE)
    sources, targets = bases[0], bases[1]
    for line in range(begin, end, tile):
        lanes = min(tile, end - line)
        joint = find_bases(plan, line, lanes, sources, targets)
        source, apart = sources[0], line_step
        if not across and (lanes < tile or not joint or min(source, sources[lanes - 1]) < first_byte):
            source, apart = stage_few(x, sources, lanes, n, few), n * width
        select_lines(x, source, apart, step, n, max(lanes, NETWORK_LINES), depth, rule, best)
        for first in range(0, lanes, NETWORK_LINES):
            begins = max(min(first, lanes - NETWORK_LINES), 0)
            ends = min(first + NETWORK_LINES, lanes)
            place = first // NETWORK_LINES * depth
            write_group(
                x, values, indices, plan, step, best, place, sources[begins:ends], targets[begins:ends], first - begins
            )


@allocating
def short_lines(x, values, indices, plan, begin, end):
    """Select from the lines begin <= line < end, which are short; those that are to be are staged in batches."""
    tile = plan[fields.TILE]
    best = network_lists(x, -(-tile // NETWORK_LINES) * list_depth(plan[fields.K]))
    few = key_buffer(x, NETWORK_LINES * plan[fields.SIZE] + NETWORK_LINES if tile == NETWORK_LINES else 0)
    bases = empty((2, tile), np.int64)
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        short_lines_in(x, values, indices, packed, first, last, best, few, bases)


@kernel
def short_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from short lines, or from a tile of short columns."""
    across = goes_across(x, plan)
    if task == ASK:
        count = tile_count(plan) if across else share_count(plan, tasks)
        return task_count(phase, x, values, indices, plan, count)
    begin, end = plan[fields.LINES] * task // tasks, plan[fields.LINES] * (task + 1) // tasks
    if across:
        begin, lanes = tile_of_columns(plan, task, NETWORK_LINES)
        end = begin + lanes
    short_lines(x, values, indices, plan, begin, end)
    return np.int64(0)
