"""Running sums and products along lines, one element after the other; threads share lines, or parts of a line."""

from __future__ import annotations

import numpy as np
from numba import types

from ..._jit.compile import chosen, helper, kernel
from ..._jit.memory import itemsize, load, store
from ..drivers import ASK
from ..primitives.scan import (
    BLOCK,
    BLOCK_SIZE,
    EXCLUSIVE,
    INITIAL,
    LINES,
    OUT_STRIDE,
    PARTS,
    SIZE,
    STRIDE,
    SUPERBLOCKS,
    TOTALS,
    absent,
    carried,
    combine,
    identity,
    lifted,
    line_bases,
    read,
    task_count,
    write,
)

#: Shares of the lines for each thread, since other processes may hold up one.
SHARES = 4


@helper
def scan_block(x, y, state, plan, levels, before, at, to, count):
    """Write the results of a block, and return its total; `before` is the result within it for no element."""
    step, out_step, exclusive = plan[STRIDE], plan[OUT_STRIDE], plan[EXCLUSIVE] != 0
    total = read(x, state, at)
    write(y, to, lifted(state, levels, before if exclusive else total))
    for _ in range(1, count):
        at += step
        to += out_step
        last = total
        total = combine(state, total, read(x, state, at))
        write(y, to, lifted(state, levels, last if exclusive else total))
    return total


@helper
def scan_part(x, y, state, plan, source, to, levels, first, end):
    """Write the results of a part of a line, which starts with a superblock."""
    block = plan[BLOCK_SIZE]
    before = absent(state)
    if first == 0:
        before = identity(state)
        if plan[INITIAL] != 0:
            write(y, to - plan[OUT_STRIDE], before)
    for i in range(first, end, block):
        at, place = source + i * plan[STRIDE], to + i * plan[OUT_STRIDE]
        total = scan_block(x, y, state, plan, levels, before, at, place, min(block, end - i))
        levels = carried(state, levels, total, i // block + 1)
        before = absent(state)


@helper
def superblock_total(x, state, plan, at):
    """Return the sum of a superblock; four blocks at once, since each sum waits for the one before."""
    step, far = plan[STRIDE], BLOCK * plan[STRIDE]
    total = absent(state)
    for _ in range(BLOCK // 4):
        a, b = read(x, state, at), read(x, state, at + far)
        c, d = read(x, state, at + 2 * far), read(x, state, at + 3 * far)
        for j in range(1, BLOCK):
            here = at + j * step
            a = combine(state, a, read(x, state, here))
            b = combine(state, b, read(x, state, here + far))
            c = combine(state, c, read(x, state, here + 2 * far))
            d = combine(state, d, read(x, state, here + 3 * far))
        total = total + a + b + c + d
        at += 4 * far
    return total


def keep_total(x, state, plan, task):
    """Keep the sum of a superblock for the next phase (inside kernels only)."""
    raise NotImplementedError


def levels_before(state, plan, line, count):
    """Return the levels behind the first superblocks of a line (inside kernels only)."""
    raise NotImplementedError


def _has_parts(state):
    """Tell whether lines of a state may be cut into parts: those that are not scanned strictly in order."""
    return isinstance(state.dtype, types.Number) and state.dtype != types.float16 and not state.is_float


@chosen(keep_total)
def _keep_total(x, state, plan, task):
    def keep(x, state, plan, task):
        source, _ = line_bases(plan, task // plan[TOTALS])
        at = source + task % plan[TOTALS] * (BLOCK * BLOCK * plan[STRIDE])
        store(state, task * itemsize(state), superblock_total(x, state, plan, at))

    return keep if _has_parts(state) else lambda x, state, plan, task: None


@chosen(levels_before)
def _levels_before(state, plan, line, count):
    def before(state, plan, line, count):
        none = absent(state)
        levels = none, none, none, none
        for i in range(count):
            total = load(state, (line * plan[TOTALS] + i) * itemsize(state))
            levels = carried(state, levels, total, (i + 1) * BLOCK)
        return levels

    def nothing(state, plan, line, count):
        none = absent(state)
        return none, none, none, none

    return before if _has_parts(state) else nothing


@kernel
def lines_kernel(phase, task, tasks, x, y, state, _, plan):
    """Run a task, or tell how many there are: totals first, if lines are cut into parts, then the results."""
    parts = plan[PARTS]
    pieces = plan[LINES] * parts
    last = np.int64(parts > 1)
    if task == ASK:
        if phase < last:
            return task_count(x, y, plan, plan[LINES] * plan[TOTALS])
        shares = min(pieces, SHARES * tasks)
        return np.int64(0) if phase > last else shares if phase > 0 else task_count(x, y, plan, shares)
    if phase < last:
        keep_total(x, state, plan, task)
        return np.int64(0)
    for piece in range(pieces * task // tasks, pieces * (task + 1) // tasks):
        line, part = piece // parts, piece % parts
        first, end = plan[SUPERBLOCKS] * part // parts, plan[SUPERBLOCKS] * (part + 1) // parts
        source, to = line_bases(plan, line)
        levels = levels_before(state, plan, line, first)
        begin = first * (BLOCK * BLOCK)
        stop = plan[SIZE] if part == parts - 1 else end * (BLOCK * BLOCK)
        scan_part(x, y, state, plan, source, to, levels, begin, stop)
    return np.int64(0)
