"""Points along contiguous lines: where a line starts, and how an index becomes a position."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ..access import LOAD_INDEX
from ..bad_indices import record_bad
from ..groups import GROUP
from ..plan import CLAMP, HEADER, IDENTITY, LOOP_FIELDS, LOOPS, number, quotient

#: Registers of a multiprocessor, and the threads that it should have, if a block has fewer.
REGISTERS, BUSY = 65536, 1024


@cache
def resolver(signed: bool):
    """Return how an index becomes a position, -1: it is out of range."""

    @helper
    def resolve(value, size, bounds):
        i = value
        if signed and i < 0:
            i += size
        if i < 0 or i >= size:
            if bounds == CLAMP and size > 0:
                return np.int64(0) if signed and i < 0 else size - 1
            return np.int64(-1)
        return i

    return resolve


def registers_of(threads: int) -> int:
    """Return how many registers a thread can have when blocks of this size are to keep a multiprocessor busy."""
    return REGISTERS // max(threads, BUSY)


@helper
def start_of_line(plan, line):
    """Return the offset in data, and the first index, of the points that the last loop steps through."""
    last = number(plan, LOOPS) - 1
    offset = np.int64(0)
    at = np.int64(0)
    for loop in range(last - 1, -1, -1):
        field = HEADER + LOOP_FIELDS * loop
        i = line
        if loop > 0:
            line = quotient(line, plan, field)
            i -= line * number(plan, field)
        offset += i * number(plan, field + 3)
        at += i * number(plan, field + 4)
    return offset, at


def row_factor(length: int) -> int:
    """Return by what `row_finder` multiplies to divide a point's number by the points of a line.

    Both multiplied are below 2**32 where a block has several lines.
    """
    return (1 << 32) // length + 1


@cache
def row_finder(several: bool):
    """Return how to find where the line of a point starts among those of a block, of which each has `size` elements."""

    @helper
    def start_of_row(factor, point, size):
        if not several:
            return np.int64(0)
        return ((point * factor) >> 32) * size

    return start_of_row


@cache
def grouped(width: int, other_width: int, group: int = GROUP):
    """Return how many elements stand before the first group that can be moved at once, on both sides of a move."""
    align = min(16, group * width) - 1
    other_align = min(16, group * other_width) - 1

    @helper
    def head_of(address, other, count):
        head = np.int64(0)
        while head < group and (((address + head * width) & align) | ((other + head * other_width) & other_align)) != 0:
            head += 1
        return min(head, count) if head < group else count  # they never meet

    return head_of


@cache
def index_steps(index_type: str, at_once: int):
    """Return how to resolve several points of a column, and how to record those that are bad.

    They are every `step`-th from one on.
    """
    load_index, index_bytes = LOAD_INDEX[index_type], np.dtype(index_type).itemsize
    resolve = resolver(index_type.startswith("i"))

    @helper
    def resolve_some(positions, indices, row_step, first, step, length, size, bounds):
        """Find the positions of points; tell whether one is bad. Those after the last are the last."""
        bad = False
        for j in range(at_once):
            value = load_index(indices + min(first + j * step, length - 1) * row_step * index_bytes)
            positions[j] = resolve(value, size, bounds)
            bad |= positions[j] < 0
        return bad

    @helper
    def record_all(indices, at, row_step, first, step, length, size, bounds, record, launch, plan):
        """Record the bad indices of a column, whose first one has the number `at`."""
        for r in range(first, length, step):
            value = load_index(indices + r * row_step * index_bytes)
            if resolve(value, size, bounds) < 0:
                record_bad(record, launch, at + r * row_step, value, number(plan, IDENTITY))

    return resolve_some, record_all
