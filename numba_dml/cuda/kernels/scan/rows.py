"""Running sums of lines whose elements are neighbours: a thread adds up a block, a row of a tile in shared memory.

A thread block has the blocks of a superblock, or of several shorter lines. It reads them twice, the second time from
L2: first for their totals, then for the results. If a line has several superblocks, each makes its total known, and
waits for those before it; since a carry is a chain of sums from the left, it does not matter how far another one has
carried it, and the bits are always the same.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...._core.enums import TensorDataType as D
from ...._core.lowering import SUM_BLOCK as ROWS
from ...._core.tensor import element_size
from ...driver.compile import helper, kernel
from ...driver.launch import Kernel
from ...driver.numba import cuda
from ...primitives.atomics import load_now, store_now
from ...primitives.plan import number
from ...primitives.ptx import ARRAY_TYPES, await_inputs
from ...primitives.scan import (
    BLOCKS,
    EXCLUSIVE,
    HAS_LEVELS,
    HAS_TOTAL,
    INITIAL,
    LEVELS,
    LINES,
    PARTS,
    REVERSE,
    SIZE,
    SIZES,
    STATE,
    STATUS,
    TOGETHER,
    TOTAL,
    initial_place,
    level_steps,
    out_shift,
    place_of,
    slot_of,
    sums,
)

THREADS, CHUNK, LOADS, _ = SIZES
#: From row to row in shared memory, and rows that all threads move at once.
PITCH, ROWS_AT_ONCE = CHUNK + 1, THREADS // CHUNK


@cache
def carry_finder(source: D, result: D):
    """Return ``find_carry(states, part, parts, total, prior, levels)``: the levels before a superblock, in `levels`.

    `states`: address of the states of the line's superblocks; `prior`: shared memory for a word of each thread's row.
    """
    carried, _ = level_steps(source, result)
    none = sums(source, result).absent

    @helper
    def find_carry(states, part, parts, total, prior, levels):
        own = states + 8 * STATE * part
        window = min(part, np.int64(ROWS))
        nearest = cuda.shared.array(1, np.int32)
        if cuda.threadIdx.x == 0:
            nearest[0] = window
            if part < parts - 1:
                store_now(own + 8 * TOTAL, total)
                cuda.threadfence()
                store_now(own + 8 * STATUS, HAS_TOTAL)
        cuda.syncthreads()
        for i in range(np.int64(cuda.threadIdx.x), window, THREADS):
            state = own - 8 * STATE * (i + 1)
            status = load_now(state + 8 * STATUS)
            # The last one is waited for until it has levels, unless the line starts there.
            wanted = np.int64(HAS_LEVELS if i == ROWS - 1 and part > ROWS else HAS_TOTAL)
            while status < wanted:
                status = load_now(state + 8 * STATUS)
            cuda.threadfence()
            prior[i] = load_now(state + 8 * TOTAL)
            if status == HAS_LEVELS:
                cuda.atomic.min(nearest, 0, np.int32(i))
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            i = np.int64(nearest[0])
            second = third = fourth = np.int64(none)
            if i < window:
                state = own - 8 * STATE * (i + 1) + 8 * LEVELS
                second, third, fourth = load_now(state), load_now(state + 8), load_now(state + 16)
            while i > 0:
                i -= 1
                second, third, fourth = carried(second, third, fourth, prior[i], part - i)
            levels[0], levels[1], levels[2] = second, third, fourth
            if part < parts - 1:
                second, third, fourth = carried(second, third, fourth, total, part + 1)
                store_now(own + 8 * LEVELS, second)
                store_now(own + 8 * LEVELS + 8, third)
                store_now(own + 8 * LEVELS + 16, fourth)
                cuda.threadfence()
                store_now(own + 8 * STATUS, HAS_LEVELS)
        cuda.syncthreads()

    return find_carry


class Rows(NamedTuple):
    """What a thread block knows of its rows: arrays in shared memory, with a number for each."""

    starts: object  #: Where it starts in the input, in elements.
    targets: object  #: The same in the output.
    counts: object  #: How many elements it has.
    running: object  #: Its sum so far.
    carries: object  #: The sum of the blocks before it in its superblock.
    even: object  #: All rows are full, and follow each other.


@helper
def are_even(plan):
    """Tell whether all rows of this thread block are full, and follow each other."""
    block, parts = np.int64(cuda.blockIdx.x), number(plan, PARTS)
    if number(plan, REVERSE) != 0:
        return False
    if parts > 1:
        return (block % parts + 1) * (ROWS * ROWS) <= number(plan, SIZE)
    together, blocks = number(plan, TOGETHER), number(plan, BLOCKS)
    all_there = together * blocks == ROWS and (block + 1) * together <= number(plan, LINES)
    return all_there and number(plan, SIZE) == blocks * ROWS and number(plan, INITIAL) == 0


@helper
def divide(plan, row):
    """Return the line and the block of a row, whether they are there, and how many elements the row has."""
    block, parts, blocks = np.int64(cuda.blockIdx.x), number(plan, PARTS), number(plan, BLOCKS)
    if parts > 1:
        line, own = block // parts, block % parts * ROWS + row
        there = own < blocks
    else:
        line, own = block * number(plan, TOGETHER) + row // blocks, row % blocks
        there = row < number(plan, TOGETHER) * blocks and line < number(plan, LINES)
    count = min(number(plan, SIZE) - own * ROWS, np.int64(ROWS)) if there else np.int64(0)
    return line, own, there, count


@cache
def tile_steps(source: D, result: D):
    """Return ``load_tile(tile, x, plan, rows, begin)`` and ``store_tile(tile, y, plan, rows, begin)``.

    They move the elements of all rows from number `begin` on between memory and shared memory.
    """
    steps, (slot_type, slot) = sums(source, result), slot_of(result)
    load, store, width, out_width = steps.load, steps.store, element_size(source), element_size(result)

    @helper
    def load_tile(tile, x, plan, rows, begin):
        step = -1 if number(plan, REVERSE) != 0 else 1
        words = cuda.local.array(LOADS, slot_type)
        column = np.int32(cuda.threadIdx.x % CHUNK)
        at = np.int32(begin + column)
        even = x + width * (rows.starts[0] + np.int64(at))
        for first in range(cuda.threadIdx.x // CHUNK, ROWS, LOADS * ROWS_AT_ONCE):
            if rows.even:
                for k in range(LOADS):
                    words[k] = slot(load(even + width * ROWS * np.int64(first + k * ROWS_AT_ONCE)))
            else:
                for k in range(LOADS):
                    row = np.int32(first + k * ROWS_AT_ONCE)
                    inside = min(at, max(np.int32(rows.counts[row] - 1), np.int32(0)))
                    words[k] = slot(load(x + width * (rows.starts[row] + step * np.int64(inside))))
            for k in range(LOADS):
                tile[np.int32((first + k * ROWS_AT_ONCE) * PITCH + column)] = words[k]

    @helper
    def store_tile(tile, y, plan, rows, begin):
        step = -1 if number(plan, REVERSE) != 0 else 1
        column = np.int32(cuda.threadIdx.x % CHUNK)
        at = np.int32(begin + column)
        even = y + out_width * (rows.targets[0] + np.int64(at))
        for first in range(cuda.threadIdx.x // CHUNK, ROWS, LOADS * ROWS_AT_ONCE):
            for k in range(LOADS):
                row = np.int32(first + k * ROWS_AT_ONCE)
                word = np.int64(tile[np.int32(row * PITCH + column)])
                if rows.even:
                    store(even + out_width * ROWS * np.int64(row), word, 0)
                elif at < rows.counts[row]:
                    store(y + out_width * (rows.targets[row] + step * np.int64(at)), word, 0)

    return load_tile, store_tile


@cache
def row_steps(source: D, result: D):
    """Return ``add_up(tile, row, count, total)`` and ``write_sums(tile, row, count, total, levels, leaves_out)``.

    They go through the elements of a row in shared memory, and return the sum of the row so far.
    """
    steps, (_, lifted), (_, slot) = sums(source, result), level_steps(source, result), slot_of(result)
    read, write, plus = steps.read, steps.write, steps.add

    @helper
    def add_up(tile, row, count, total):
        if count >= CHUNK:
            for at in range(CHUNK):
                total = plus(total, read(np.int64(tile[np.int32(row * PITCH + at)])))
        else:
            for at in range(count):
                total = plus(total, read(np.int64(tile[np.int32(row * PITCH + at)])))
        return total

    @helper
    def write_one(tile, cell, total, levels, leaves_out):
        before, total = total, plus(total, read(np.int64(tile[cell])))
        tile[cell] = slot(write(lifted(levels[0], levels[1], levels[2], levels[3], before if leaves_out else total)))
        return total

    @helper
    def write_sums(tile, row, count, total, levels, leaves_out):
        if count >= CHUNK:
            for at in range(CHUNK):
                total = write_one(tile, np.int32(row * PITCH + at), total, levels, leaves_out)
        else:
            for at in range(count):
                total = write_one(tile, np.int32(row * PITCH + at), total, levels, leaves_out)
        return total

    return add_up, write_sums


@cache
def carry_steps(source: D, result: D):
    """Return ``set_rows(plan, y, rows)`` and ``carry(tile, x, plan, rows, states, known)``.

    The first finds where each row is, and writes the results for no element. The second adds up the rows, and finds the
    sums of the blocks before each, and the levels behind the superblock before.
    """
    steps, (add_up, _) = sums(source, result), row_steps(source, result)
    (load_tile, _), find_carry = tile_steps(source, result), carry_finder(source, result)
    plus, none, store, out_width = steps.add, steps.absent, steps.store, element_size(result)

    @helper
    def set_rows(plan, y, rows):
        size = number(plan, SIZE)
        for row in range(cuda.threadIdx.x, ROWS, THREADS):
            line, own, there, count = divide(plan, np.int64(row))
            rows.counts[row], rows.carries[row], rows.running[row] = np.int32(count), none, none
            rows.starts[row] = rows.targets[row] = 0
            if count > 0:
                place = place_of(plan, own * ROWS)
                rows.starts[row] = line * size + place
                rows.targets[row] = line * (size + number(plan, INITIAL)) + place + out_shift(plan)
            if there and own == 0 and number(plan, INITIAL) != 0:
                store(y + out_width * (line * (size + 1) + initial_place(plan)), np.int64(0), 0)

    @helper
    def chain(plan, rows):
        """Turn the totals of blocks into the sums of those before them; return the total of the last line."""
        blocks = min(number(plan, BLOCKS), np.int64(ROWS))
        lines = number(plan, TOGETHER) if number(plan, PARTS) == 1 else np.int64(1)
        total = np.int64(none)
        for line in range(np.int64(cuda.threadIdx.x), lines, THREADS):
            total = np.int64(none)
            for row in range(line * blocks, (line + 1) * blocks):
                rows.carries[row] = total
                total = plus(total, rows.running[row])
        return total

    @helper
    def carry(tile, x, plan, rows, states, known):
        for begin in range(0, ROWS, CHUNK):
            load_tile(tile, x, plan, rows, begin)
            cuda.syncthreads()
            for row in range(cuda.threadIdx.x, ROWS, THREADS):
                rows.running[row] = add_up(tile, row, np.int32(rows.counts[row] - begin), rows.running[row])
            cuda.syncthreads()
        total, parts = chain(plan, rows), number(plan, PARTS)
        cuda.syncthreads()
        if parts > 1:
            part = np.int64(cuda.blockIdx.x) % parts
            states += 8 * STATE * (np.int64(cuda.blockIdx.x) - part)
            find_carry(states, part, parts, total, rows.running, known)
        for row in range(cuda.threadIdx.x, ROWS, THREADS):
            rows.running[row] = none
        cuda.syncthreads()

    return set_rows, carry


@cache
def rows_kernel(source: D, result: D) -> Kernel:
    """Return the kernel that sums lines of neighbours."""
    (load_tile, store_tile), (_, write_sums) = tile_steps(source, result), row_steps(source, result)
    (set_rows, carry), none, (slot_type, slot) = (
        carry_steps(source, result),
        sums(source, result).absent,
        slot_of(result),
    )
    tile_type = ARRAY_TYPES[slot_type]

    @kernel(registers=64)
    def sum_rows(
        x,  # IN   address of the packed input
        y,  # OUT  address of the packed output
        plan,  # IN   address of the plan
        states,  # IN OUT  address of (lines, parts) states, all 0, if lines have several superblocks
    ):
        await_inputs()
        tile = cuda.shared.array(0, tile_type)
        starts = cuda.shared.array(ROWS, np.int64)
        targets = cuda.shared.array(ROWS, np.int64)
        carries = cuda.shared.array(ROWS, np.int64)
        running = cuda.shared.array(ROWS, np.int64)
        counts = cuda.shared.array(ROWS, np.int32)
        known = cuda.shared.array(3, np.int64)
        levels = cuda.local.array(4, np.int64)
        rows = Rows(starts, targets, counts, running, carries, are_even(plan))
        set_rows(plan, y, rows)
        if cuda.threadIdx.x == 0:
            known[0], known[1], known[2] = none, none, none
        cuda.syncthreads()
        if number(plan, BLOCKS) > 1:
            carry(tile, x, plan, rows, states, known)
        levels[1], levels[2], levels[3] = known[0], known[1], known[2]
        leaves_out, blocks = number(plan, EXCLUSIVE) != 0, min(number(plan, BLOCKS), np.int64(ROWS))
        starts_line = np.int64(cuda.blockIdx.x) % number(plan, PARTS) == 0
        for begin in range(0, min(number(plan, SIZE), np.int64(ROWS)), CHUNK):
            load_tile(tile, x, plan, rows, begin)
            cuda.syncthreads()
            for row in range(cuda.threadIdx.x, ROWS, THREADS):
                levels[0] = carries[row]
                running[row] = write_sums(tile, row, np.int32(counts[row] - begin), running[row], levels, leaves_out)
                if leaves_out and starts_line and begin == 0 and row % blocks == 0:
                    tile[np.int32(row * PITCH)] = slot(np.int64(0))  # +0, and not what changes nothing
            cuda.syncthreads()
            store_tile(tile, y, plan, rows, begin)
            cuda.syncthreads()

    return Kernel(sum_rows, 4, waits=True, shares=True, threads=THREADS)
