"""Running sums and products along an axis whose neighbouring lines are contiguous: row by row, in vectors."""

from __future__ import annotations

import numpy as np

from ..._core.shapes import LINE_FIELDS
from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import itemsize
from ..drivers import ASK
from ..primitives.scan import (
    BLOCK_SIZE,
    DEEP,
    DIMS,
    EXCLUSIVE,
    HEADER,
    INITIAL,
    LEVELS,
    LINES,
    OUT_STRIDE,
    POSITION,
    SIZE,
    STRIDE,
    TILE,
    absent,
    begun,
    buffer,
    carried,
    combine,
    keep_line,
    lifted,
    line_bases,
    read,
    task_count,
    write,
)


@helper
def take_row(x, state, at, totals, begins):
    """Combine the totals of columns with a row; at the start of a block they are the row."""
    if begins:
        for c in range(totals.size):
            totals[c] = read(x, state, at + c * itemsize(x))
    else:
        for c in range(totals.size):
            totals[c] = combine(state, totals[c], read(x, state, at + c * itemsize(x)))


@helper
def write_row(y, state, to, totals, levels, deep):
    """Write the results of a row; without `deep` there is one level."""
    width = totals.size
    if deep:
        for c in range(width):
            above = levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width]
            write(y, to + c * itemsize(y), lifted(state, above, totals[c]))
    else:
        none = absent(state)
        for c in range(width):
            write(y, to + c * itemsize(y), lifted(state, (levels[c], none, none, none), totals[c]))


@helper
def carry_rows(state, totals, levels, blocks):
    """Carry the totals of blocks to the levels."""
    width, none = totals.size, absent(state)
    for c in range(width):
        above = levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width]
        levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width] = carried(
            state, above, totals[c], blocks
        )
        totals[c] = none


@helper
def scan_columns(x, y, state, plan, line, totals, before, levels):
    """Go down the columns of a tile, which starts at a line; `before` has room for the totals without a row."""
    block, exclusive, deep = plan[BLOCK_SIZE], plan[EXCLUSIVE] != 0, plan[DEEP] != 0
    (at, to), width = line_bases(plan, line), totals.size
    for c in range(width):
        totals[c], above = begun(state, plan, line + c)
        levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width] = above
    if plan[INITIAL] != 0:
        write_row(y, state, to - plan[OUT_STRIDE], totals, levels, deep)
    shown = before if exclusive else totals
    for i in range(plan[POSITION], plan[POSITION] + plan[SIZE]):
        if exclusive:
            for c in range(totals.size):
                before[c] = totals[c]
        take_row(x, state, at, totals, i % block == 0)
        write_row(y, state, to, shown, levels, deep)
        if (i + 1) % block == 0:
            carry_rows(state, totals, levels, (i + 1) // block)
        at += plan[STRIDE]
        to += plan[OUT_STRIDE]
    for c in range(width):
        above = levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width]
        keep_line(state, plan, line + c, totals[c], above)


@allocating
def scan_tile(x, y, state, plan, task):
    """Scan a tile of neighbouring columns."""
    across = plan[HEADER + LINE_FIELDS * (plan[DIMS] - 1)]
    tiles = -(-across // plan[TILE])
    first = task % tiles * plan[TILE]
    width = min(plan[TILE], across - first)
    scan_columns(
        x,
        y,
        state,
        plan,
        task // tiles * across + first,
        buffer(state, width),
        buffer(state, width),
        buffer(state, LEVELS * width),
    )


@kernel
def columns_kernel(phase, task, tasks, x, y, state, _, plan):
    """Run a task, or tell how many there are: tiles of columns."""
    if task == ASK:
        across = plan[HEADER + LINE_FIELDS * (plan[DIMS] - 1)]
        tiles = plan[LINES] // across * -(-across // plan[TILE])
        return np.int64(0) if phase > 0 else task_count(x, y, plan, tiles)
    scan_tile(x, y, state, plan, task)
    return np.int64(0)
