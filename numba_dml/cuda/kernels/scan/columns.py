"""Running sums of lines that lie side by side: a lane has a column, and a warp adds up blocks of neighbouring ones."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...._core.enums import TensorDataType as D
from ...._core.lowering import SUM_BLOCK as ROWS
from ...._core.tensor import element_size
from ...driver.compile import helper, kernel
from ...driver.launch import Kernel
from ...driver.numba import LANES, cuda
from ...primitives.atomics import load_now, store_now
from ...primitives.plan import number
from ...primitives.ptx import ARRAY_TYPES, await_inputs
from ...primitives.scan import (
    BLOCKS,
    EXCLUSIVE,
    INITIAL,
    INNER,
    LINES,
    PARTS,
    REVERSE,
    SIZE,
    SIZES,
    TOGETHER,
    initial_place,
    level_steps,
    out_shift,
    place_of,
    sums,
)
from ...primitives.warp import sync_lanes

THREADS, LOADS = SIZES.threads, SIZES.loads
WARPS = THREADS // LANES


@cache
def block_steps(source: D, result: D):
    """Return ``add_up(address, step, count)`` and ``write_sums(address, step, target, out_step, count, levels, ...)``.

    They go through a block of a column, whose elements are `step` bytes apart.
    """
    steps, (_, lifted) = sums(source, result), level_steps(source, result)
    load, store, read, write, plus, none = steps

    @helper
    def load_some(words, address, step, at, count):
        for k in range(LOADS):
            words[k] = load(address + step * min(at + k, count - 1))

    @helper
    def add_up(address, step, count):
        words, total = cuda.local.array(LOADS, np.int64), np.int64(none)
        for at in range(0, count, LOADS):
            load_some(words, address, step, at, count)
            for k in range(LOADS):
                if at + k < count:
                    total = plus(total, read(words[k]))
        return total

    @helper
    def write_sums(address, step, target, out_step, count, levels, leaves_out, is_first):
        words, total = cuda.local.array(LOADS, np.int64), np.int64(none)
        for at in range(0, count, LOADS):
            load_some(words, address, step, at, count)
            for k in range(LOADS):
                if at + k < count:
                    before, total = total, plus(total, read(words[k]))
                    word = write(lifted(levels[0], levels[1], levels[2], levels[3], before if leaves_out else total))
                    word = np.int64(0) if leaves_out and is_first and at + k == 0 else word
                    store(target + out_step * (at + k), word, 0)

    return add_up, write_sums


@cache
def columns_kernel(source: D, result: D) -> Kernel:
    """Return the kernel that sums lines side by side: a thread block has some columns of a superblock."""
    (add_up, write_sums), (carried, _) = block_steps(source, result), level_steps(source, result)
    steps, width, out_width = sums(source, result), element_size(source), element_size(result)
    plus, none, store, word_array = steps.add, steps.absent, steps.store, ARRAY_TYPES[np.int64]

    @helper
    def find_levels(plan, states, task, part, lane, total, levels):
        """Wait for the levels behind the superblock before, and tell those behind this one."""
        lane_words = 8 * LANES
        own = states + (8 + 3 * lane_words) * (task * number(plan, PARTS) + part)
        if part > 0:
            before = own - (8 + 3 * lane_words)
            while load_now(before) == 0:
                pass
            cuda.threadfence()
            for level in range(3):
                levels[level + 1] = load_now(before + 8 + lane_words * level + 8 * lane)
        if part < number(plan, PARTS) - 1:
            second, third, fourth = carried(levels[1], levels[2], levels[3], total, part + 1)
            store_now(own + 8 + 8 * lane, second)
            store_now(own + 8 + lane_words + 8 * lane, third)
            store_now(own + 8 + 2 * lane_words + 8 * lane, fourth)
            cuda.threadfence()
            sync_lanes()
            if lane == 0:
                store_now(own, 1)

    @kernel(registers=80)
    def sum_columns(
        x,  # IN   address of the packed input, (outer, size, inner)
        y,  # OUT  address of the packed output
        plan,  # IN   address of the plan
        states,  # IN OUT  address of the states of superblocks, all 0, if lines have several
    ):
        await_inputs()
        totals = cuda.shared.array(0, word_array)
        levels = cuda.local.array(4, np.int64)
        size, inner, parts, together = (
            number(plan, SIZE),
            number(plan, INNER),
            number(plan, PARTS),
            number(plan, TOGETHER),
        )
        lane, warp = np.int64(cuda.threadIdx.x % LANES), np.int64(cuda.threadIdx.x // LANES)
        part = np.int64(cuda.blockIdx.x) % parts
        groups = (inner + LANES - 1) // LANES
        task = np.int64(cuda.blockIdx.x) // parts * (WARPS // together) + warp // together
        outer, column = task // groups, task % groups * LANES + lane
        there = outer * inner < number(plan, LINES) and column < inner
        first_block, sub = part * ROWS, warp % together
        blocks = min(number(plan, BLOCKS) - first_block, np.int64(ROWS))
        own_totals = warp // together * blocks * LANES + lane
        step = inner if number(plan, REVERSE) == 0 else -inner
        source_line, target_line = (
            outer * size * inner + column,
            outer * (size + number(plan, INITIAL)) * inner + column,
        )
        for level in range(4):
            levels[level] = none
        if number(plan, BLOCKS) > 1:
            for block in range(sub, blocks, together):
                position = (first_block + block) * ROWS
                address = x + width * (source_line + inner * place_of(plan, position))
                if there:
                    total = add_up(address, width * step, min(size - position, np.int64(ROWS)))
                    totals[own_totals + block * LANES] = total
            cuda.syncthreads()
            if sub == 0:
                total = np.int64(none)
                for block in range(blocks):
                    at = own_totals + block * LANES
                    before, total = total, plus(total, totals[at] if there else np.int64(none))
                    totals[at] = before
                if parts > 1:
                    find_levels(plan, states, task, part, lane, total, levels)
                    for level in range(1, 4):
                        totals[(ROWS + level) * LANES + lane] = levels[level]
            cuda.syncthreads()
            if parts > 1:
                for level in range(1, 4):
                    levels[level] = totals[(ROWS + level) * LANES + lane]
        if not there:
            return
        for block in range(sub, blocks, together):
            position = (first_block + block) * ROWS
            place = place_of(plan, position)
            if number(plan, BLOCKS) > 1:
                levels[0] = totals[own_totals + block * LANES]
            write_sums(
                x + width * (source_line + inner * place),
                width * step,
                y + out_width * (target_line + inner * (place + out_shift(plan))),
                out_width * step,
                min(size - position, np.int64(ROWS)),
                levels,
                number(plan, EXCLUSIVE) != 0,
                position == 0,
            )
        if number(plan, INITIAL) != 0 and part == 0 and sub == 0:
            store(y + out_width * (target_line + inner * initial_place(plan)), np.int64(0), 0)

    return Kernel(sum_columns, 4, waits=True, shares=True, threads=THREADS)
