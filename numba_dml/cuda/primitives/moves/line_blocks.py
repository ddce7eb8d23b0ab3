"""What a block knows of its lines, and what it does with all of their points: shared by gathers and scatters."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import cuda
from ..access import LOAD_INDEX
from ..groups import ASKED_BYTES, GROUP, ask_for, load_four
from ..plan import BOUNDS, DROP, HEADER, LOOP_FIELDS, LOOPS, number
from .lines import grouped, resolver, start_of_line
from .places import places


class Lines(NamedTuple):
    """The lines of a block."""

    rows: object  #: how many they are
    length: object  #: points of a line
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
    loops = number(plan, LOOPS)
    length = number(plan, HEADER + LOOP_FIELDS * (loops - 1))
    size = number(plan, HEADER + LOOP_FIELDS * loops)
    rows = min(together, count_of_lines - line)
    offset, at = start_of_line(plan, line)
    return Lines(rows, length, size, number(plan, BOUNDS), offset, at, line * length, rows * length, factor)


@cache
def asker(threads: int):
    """Return ``ask_for_all(address, size)``: all threads of a block bring `size` bytes to L2."""

    @helper
    def ask_for_all(address, size):
        for i in range(ASKED_BYTES * np.int64(cuda.threadIdx.x), size, ASKED_BYTES * threads):
            ask_for(address + i)

    return ask_for_all


@cache
def bad_finder(index_type: str):
    """Return ``record_first(plan, index, record, launch, lines, indices, point, count)``.

    It finds the first bad index of a block's points, of which there are `count` from one on with indices at an address.
    """
    load_index, index_bytes = LOAD_INDEX[index_type], np.dtype(index_type).itemsize
    resolve = resolver(index_type.startswith("i"))
    place_of_point, *_ = places(index_type, -1, 1, 0)

    @helper
    def record_first(plan, index, record, launch, lines, indices, point, count):
        if lines.bounds != DROP:  # seldom: find it again
            for i in range(count):
                if resolve(load_index(indices + i * index_bytes), lines.size, lines.bounds) < 0:
                    place_of_point(plan, index, record, launch, point + i)
                    break

    return record_first


@cache
def point_walker(index_type: str, threads: int, claim):
    """Return ``walk(indices, claims, lines)``: whether ``claim(claims, lines, value, point)`` is true for any point.

    All threads of a block take part; each loads two groups of four indices before it looks at them.
    """
    load_index, load_indices = LOAD_INDEX[index_type], load_four(index_type)
    index_bytes = np.dtype(index_type).itemsize
    index_head = grouped(index_bytes, index_bytes)

    @helper
    def walk(indices, claims, lines):
        thread, points = np.int64(cuda.threadIdx.x), lines.points
        bad = False
        head = index_head(indices, indices, points)
        groups = (points - head) // GROUP
        for i in range(thread, head, threads):
            bad |= claim(claims, lines, load_index(indices + i * index_bytes), i)
        for g in range(thread, groups, 2 * threads):
            h = g + threads
            i = head + GROUP * g
            j = head + GROUP * min(h, groups - 1)
            some = load_indices(indices + i * index_bytes)
            more = load_indices(indices + j * index_bytes)
            for k in range(GROUP):
                bad |= claim(claims, lines, some[k], i + k)
            if h < groups:
                for k in range(GROUP):
                    bad |= claim(claims, lines, more[k], j + k)
        for i in range(head + GROUP * groups + thread, points, threads):
            bad |= claim(claims, lines, load_index(indices + i * index_bytes), i)
        return bad

    return walk
