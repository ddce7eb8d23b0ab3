"""Points along contiguous lines and columns: what a block knows of its lines, and how indices become positions."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import cuda
from ..access import LOAD_INDEX
from ..bad_indices import record_bad
from ..groups import GROUP, load_four
from ..plan import BOUNDS, CLAMP, DROP, HEADER, IDENTITY, LOOP_FIELDS, LOOPS, number
from .places import point_places, start_of_point


class Lines(NamedTuple):
    """The lines of a block."""

    rows: object  #: how many they are
    size: object  #: elements of a line
    bounds: object  #: what becomes of an index that is out of range
    offset: object  #: where the first line starts in the data
    at: object  #: its first index
    first_point: object  #: the number of its first point
    points: object  #: of all lines
    factor: object  #: see `row_factor`


@helper
def lines_of_block(plan, line, together, count_of_lines, factor):
    """Return the lines of a block from one on, as many as a block has if they are there."""
    last = number(plan, LOOPS) - 1  # the loop along a line
    length = number(plan, HEADER + LOOP_FIELDS * last)
    size = number(plan, HEADER + LOOP_FIELDS * (last + 1))
    rows = min(together, count_of_lines - line)
    offset, at = start_of_point(plan, line, last)
    return Lines(rows, size, number(plan, BOUNDS), offset, at, line * length, rows * length, factor)


@cache
def resolver(index_type: str):
    """Return how an index becomes a position, -1: it is out of range."""
    signed = index_type.startswith("i")

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
def grouped(width: int, other_width: int):
    """Return how many elements stand before the first group that can be moved at once, on both sides of a move."""
    align = min(16, GROUP * width) - 1
    other_align = min(16, GROUP * other_width) - 1

    @helper
    def head_of(address, other, count):
        head = np.int64(0)
        while head < GROUP and (((address + head * width) & align) | ((other + head * other_width) & other_align)) != 0:
            head += 1
        return min(head, count) if head < GROUP else count  # no element is aligned on both sides

    return head_of


@cache
def bad_finder(index_type: str):
    """Return ``record_first(plan, index, record, launch, lines, indices, point, count)``.

    It finds the first bad index of a block's points, of which there are `count` from one on with indices at an address.
    """
    load_index, index_bytes = LOAD_INDEX[index_type], np.dtype(index_type).itemsize
    resolve = resolver(index_type)
    place_of_point, _ = point_places(index_type, -1, 1)

    @helper
    def record_first(plan, index, record, launch, lines, indices, point, count):
        if lines.bounds != DROP:  # seldom: find it again
            for i in range(count):
                if resolve(load_index(indices + i * index_bytes), lines.size, lines.bounds) < 0:
                    place_of_point(plan, index, record, launch, point + i)
                    break

    return record_first


@cache
def point_walker(index_type: str, threads: int, visit):
    """Return ``walk(indices, given, lines)``: whether ``visit(given, lines, value, point)`` is true for any point.

    All threads of a block take part; each loads two groups of four indices before it looks at them.
    """
    load_index, load_indices = LOAD_INDEX[index_type], load_four(index_type)
    index_bytes = np.dtype(index_type).itemsize
    index_head = grouped(index_bytes, index_bytes)

    @helper
    def walk(indices, given, lines):
        thread, points = np.int64(cuda.threadIdx.x), lines.points
        bad = False
        head = index_head(indices, indices, points)
        groups = (points - head) // GROUP
        for i in range(thread, head, threads):
            bad |= visit(given, lines, load_index(indices + i * index_bytes), i)
        for g in range(thread, groups, 2 * threads):
            h = g + threads
            i = head + GROUP * g
            j = head + GROUP * min(h, groups - 1)
            some = load_indices(indices + i * index_bytes)
            more = load_indices(indices + j * index_bytes)
            for k in range(GROUP):
                bad |= visit(given, lines, some[k], i + k)
            if h < groups:
                for k in range(GROUP):
                    bad |= visit(given, lines, more[k], j + k)
        for i in range(head + GROUP * groups + thread, points, threads):
            bad |= visit(given, lines, load_index(indices + i * index_bytes), i)
        return bad

    return walk


@cache
def index_steps(index_type: str, at_once: int):
    """Return how to resolve several points of a column, and how to record those that are bad.

    They are every `step`-th from one on.
    """
    load_index, index_bytes = LOAD_INDEX[index_type], np.dtype(index_type).itemsize
    resolve = resolver(index_type)

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
    def record_all(plan, index, record, launch, column, bounds):
        """Record the bad indices of a thread's rows of a column."""
        if bounds != DROP:
            for r in range(column.row, column.length, column.rows):
                at = column.at + r * column.index_row_step
                value = load_index(index + at * index_bytes)
                if resolve(value, column.size, bounds) < 0:
                    record_bad(record, launch, at, value, number(plan, IDENTITY))

    return resolve_some, record_all
