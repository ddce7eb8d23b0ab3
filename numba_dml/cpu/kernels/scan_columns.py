"""Running sums and products along an axis whose neighbouring lines are contiguous: row by row, in vectors."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.memory import itemsize
from ..drivers import ASK
from ..primitives import scan
from ..primitives.lines import tile_of
from ..primitives.scan import LEVELS, combine, lifted, read, write


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
        none = scan.absent(state)
        for c in range(width):
            write(y, to + c * itemsize(y), lifted(state, (levels[c], none, none, none), totals[c]))


@helper
def carry_rows(state, totals, levels, blocks):
    """Carry the totals of blocks to the levels."""
    width, none = totals.size, scan.absent(state)
    for c in range(width):
        above = levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width]
        levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width] = scan.carried(
            state, above, totals[c], blocks
        )
        totals[c] = none


@helper
def scan_columns(x, y, state, plan, line, totals, before, levels):
    """Go down the columns of a tile, which starts at a line; `before` has room for the totals without a row."""
    block, exclusive, deep = plan[scan.BLOCK_SIZE], plan[scan.EXCLUSIVE] != 0, plan[scan.DEEP] != 0
    (at, to), width = scan.line_bases(plan, line), totals.size
    for c in range(width):
        totals[c], above = scan.begun(state, plan, line + c)
        levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width] = above
    if plan[scan.INITIAL] != 0:
        write_row(y, state, to - plan[scan.OUT_STRIDE], totals, levels, deep)
    shown = before if exclusive else totals
    for i in range(plan[scan.POSITION], plan[scan.POSITION] + plan[scan.SIZE]):
        if exclusive:
            for c in range(totals.size):
                before[c] = totals[c]
        take_row(x, state, at, totals, i % block == 0)
        write_row(y, state, to, shown, levels, deep)
        if (i + 1) % block == 0:
            carry_rows(state, totals, levels, (i + 1) // block)
        at += plan[scan.STRIDE]
        to += plan[scan.OUT_STRIDE]
    for c in range(width):
        above = levels[c], levels[c + width], levels[c + 2 * width], levels[c + 3 * width]
        scan.keep_line(state, plan, line + c, totals[c], above)


@allocating
def scan_tile(x, y, state, plan, task):
    """Scan a tile of neighbouring columns."""
    line, width = tile_of(task, plan[scan.inner_dimension(plan)], plan[scan.TILE], 0)
    totals, before, levels = scan.buffer(state, width), scan.buffer(state, width), scan.buffer(state, LEVELS * width)
    scan_columns(x, y, state, plan, line, totals, before, levels)


@kernel
def columns_kernel(phase, task, tasks, x, y, state, _, plan):
    """Run a task, or tell how many there are: tiles of columns."""
    if task == ASK:
        across = plan[scan.inner_dimension(plan)]
        tiles = plan[scan.LINES] // across * -(-across // plan[scan.TILE])
        return np.int64(0) if phase > 0 else scan.task_count(x, y, plan, tiles)
    scan_tile(x, y, state, plan, task)
    return np.int64(0)
