"""Staging: lines that are not contiguous are copied to a buffer, several at once.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import allocating, helper
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import address, empty, itemsize, load
from ..keys import LANES, key_buffer
from .plan import BASE, DIMS, GROUP, HEADER, HIGH, LINE_FIELDS, LOW, SIZE, STRIDE, line_bases

#: Elements per staged block: with 64 bytes of neighbouring lines, 512 KiB, half of a common L2.
STAGE = 8192
#: They are staged line by line, four elements at once, in parts that stay in L1: of STAGED_ROWS rows, or STAGED_BYTES
#: from the first row to the last, but of LEAST_STAGED rows at least.
STAGED_ROWS, STAGED_BYTES, LEAST_STAGED = 256, 1 << 15, 8


@helper
def stage_lines(x, bases, stride, start, count, stage, lines):
    """Stage elements, from number `start` on, of the lines of a group."""
    at_once = max(min(STAGED_ROWS, STAGED_BYTES // max(abs(stride), 1)), LEAST_STAGED)
    for first in range(0, count, at_once):
        last = min(first + at_once, count)
        rest = last - (last - first) % 4
        for g in range(lines):
            at = bases[g] + (start + first) * stride
            for i in range(first, rest, 4):
                a, b = load(x, at), load(x, at + stride)
                c, d = load(x, at + 2 * stride), load(x, at + 3 * stride)
                stage[g, np.uint64(i)], stage[g, np.uint64(i + 1)] = a, b
                stage[g, np.uint64(i + 2)], stage[g, np.uint64(i + 3)] = c, d
                at += 4 * stride
            for i in range(rest, last):
                stage[g, np.uint64(i)] = load(x, at + (i - rest) * stride)


@allocating
def packed_plan(x, plan):
    """Return a plan for lines that follow each other."""
    packed = plan.copy()
    packed[STRIDE] = itemsize(x)
    step = plan[SIZE] * itemsize(x)
    for d in range(plan[DIMS] - 1, -1, -1):
        field = HEADER + LINE_FIELDS * d
        packed[field + 1] = step
        step *= plan[field]
    return packed


@allocating
def batches(x, plan, lines):
    """Return how many lines are a batch, and the plan for one: all, and `plan`, if they are not staged.

    And what `stage_batch` needs beside them.
    """
    staged = plan[GROUP] > 0
    batch = max(plan[GROUP] if staged else lines, 1)
    stage = key_buffer(x, (batch if staged else 0, plan[SIZE]))
    return batch, packed_plan(x, plan) if staged else plan, (stage, empty(stage.shape[0], np.int64))


@helper
def stage_batch(x, plan, first, last, packed, staging):
    """Stage the lines first <= line < last, if they are to be, and let a packed plan lead there."""
    if plan[GROUP] == 0:
        return
    stage, bases = staging
    for line in range(first, last):
        bases[line - first] = line_bases(plan, line)[0]
    stage_lines(x, bases, plan[STRIDE], 0, plan[SIZE], stage, last - first)
    low, step = stage.ctypes.data - address(x), plan[SIZE] * itemsize(x)
    packed[BASE], packed[LOW], packed[HIGH] = low - first * step, low, low + (last - first) * step


@allocating
def stage_for(x, plan, most):
    """Return where elements of each line of a group are staged.

    They lie an odd number of cache lines apart: at powers of two all meet in a few places of L1.
    """
    if plan[GROUP] == 0:
        return key_buffer(x, (1, 0))
    of_line = CACHE_LINE // itemsize(x)
    return key_buffer(x, (plan[GROUP], (-(-most // LANES) * LANES // of_line | 1) * of_line))
