"""Running sums of lines that lie side by side: a lane has a column, and a warp adds up blocks of neighbouring ones."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

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
def level_finder(source: D, result: D):
    """Return ``find_levels(plan, states, task, part, lane, total, levels)``.

    It waits for the levels behind the superblock before, and tells those behind this one.
    """
    carried, _ = level_steps(source, result)

    @helper
    def find_levels(plan, states, task, part, lane, total, levels):
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

    return find_levels


class Column(NamedTuple):
    """The column of a lane, and the blocks of it that its thread block has."""

    task: object  #: Which group of neighbouring columns it is in.
    part: object  #: Which superblock.
    source: object  #: Where the column starts in the input, in elements.
    target: object  #: The same in the output.
    there: object  #: There is such a column.
    blocks: object  #: How many blocks of it the thread block has.
    first: object  #: Which of them is this warp's first one, and, by `together` of the plan on, the next.
    totals: object  #: Where the totals of its blocks start in shared memory.


@helper
def direction(plan):
    """Return how many elements the next one of a line is away."""
    return number(plan, INNER) if number(plan, REVERSE) == 0 else -number(plan, INNER)


@helper
def column_of(plan):
    """Return the column of this lane."""
    lane, warp = np.int64(cuda.threadIdx.x % LANES), np.int64(cuda.threadIdx.x // LANES)
    inner, parts, together = number(plan, INNER), number(plan, PARTS), number(plan, TOGETHER)
    part, groups = np.int64(cuda.blockIdx.x) % parts, (inner + LANES - 1) // LANES
    task = np.int64(cuda.blockIdx.x) // parts * (WARPS // together) + warp // together
    outer, column = task // groups, task % groups * LANES + lane
    there = outer * inner < number(plan, LINES) and column < inner
    blocks = min(number(plan, BLOCKS) - part * ROWS, np.int64(ROWS))
    source = outer * number(plan, SIZE) * inner + column
    target = outer * (number(plan, SIZE) + number(plan, INITIAL)) * inner + column
    return Column(task, part, source, target, there, blocks, warp % together, warp // together * blocks * LANES + lane)


@helper
def block_of(plan, column, block):
    """Return where a block of a column starts, from 0 on and in memory, and how many elements it has."""
    position = (column.part * ROWS + block) * ROWS
    return position, number(plan, INNER) * place_of(plan, position), min(number(plan, SIZE) - position, np.int64(ROWS))


@cache
def carry_finder(source: D, result: D):
    """Return ``carry(x, plan, states, column, totals, levels)``: the sums of the blocks before each, in `totals`.

    The levels behind the superblock before are in `levels`.
    """
    (add_up, _), find_levels = block_steps(source, result), level_finder(source, result)
    plus, none, width = sums(source, result).add, sums(source, result).absent, element_size(source)

    @helper
    def carry(x, plan, states, column, totals, levels):
        step, parts = width * direction(plan), number(plan, PARTS)
        if column.there:
            for block in range(column.first, column.blocks, number(plan, TOGETHER)):
                _, place, count = block_of(plan, column, block)
                totals[column.totals + block * LANES] = add_up(x + width * (column.source + place), step, count)
        cuda.syncthreads()
        lane = np.int64(cuda.threadIdx.x % LANES)
        if column.first == 0:
            total = np.int64(none)
            for block in range(column.blocks):
                at = column.totals + block * LANES
                before, total = total, plus(total, totals[at] if column.there else np.int64(none))
                totals[at] = before
            if parts > 1:
                find_levels(plan, states, column.task, column.part, lane, total, levels)
                for level in range(1, 4):
                    totals[(ROWS + level) * LANES + lane] = levels[level]
        cuda.syncthreads()
        if parts > 1:
            for level in range(1, 4):
                levels[level] = totals[(ROWS + level) * LANES + lane]

    return carry


@cache
def columns_kernel(source: D, result: D) -> Kernel:
    """Return the kernel that sums lines side by side: a thread block has some columns of a superblock."""
    (_, write_sums), carry, steps = block_steps(source, result), carry_finder(source, result), sums(source, result)
    width, out_width, none, store = element_size(source), element_size(result), steps.absent, steps.store
    word_array = ARRAY_TYPES[np.int64]

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
        column, step, has_blocks = column_of(plan), direction(plan), number(plan, BLOCKS) > 1
        for level in range(4):
            levels[level] = none
        if has_blocks:
            carry(x, plan, states, column, totals, levels)
        if not column.there:
            return
        y += out_width * column.target
        for block in range(column.first, column.blocks, number(plan, TOGETHER)):
            position, place, count = block_of(plan, column, block)
            if has_blocks:
                levels[0] = totals[column.totals + block * LANES]
            address = x + width * (column.source + place)
            target = y + out_width * (place + number(plan, INNER) * out_shift(plan))
            is_left_out = number(plan, EXCLUSIVE) != 0
            write_sums(address, width * step, target, out_width * step, count, levels, is_left_out, position == 0)
        if number(plan, INITIAL) != 0 and column.part == 0 and column.first == 0:
            store(y + out_width * number(plan, INNER) * initial_place(plan), np.int64(0), 0)

    return Kernel(sum_columns, 4, waits=True, shares=True, threads=THREADS)
