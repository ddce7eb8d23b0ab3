"""Copies of single elements, and prefetches of the indices, elements and rows that come next."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import helper
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import itemsize, load, seen_as, store
from . import plan as fields
from .plan import BLOCK, all_inside, coord_at, last_loop, row_bases
from .runs import LEAST_OUTPUT, PREFETCHES_WRITES, ROWS_AHEAD, prefetch_lines, prefetch_lines_to_write

# Single elements are copied in chunks. In passing, each chunk prefetches its share of what is read soon, into the L2:
# the L1 is for the row of data that is read. See "What is prefetched beside single elements" in
# docs/measurements/cpumoves.md.
#: Elements of a chunk.
CHUNK = 64
#: Blocks ahead of which indices are prefetched.
BLOCKS_AHEAD = 2
#: Cache lines of the next row of data that a chunk prefetches at most.
AHEAD_LINES = 16


@helper
def read_soon(
    plan,  # IN   (fields,) int64
    rows,  # IN   what `find_rows` returns
    p,  # IN   the number of the block's first point
    block,  # IN   where it starts in data and indices, the number of its row, and of the point in it
    end,  # IN   no point from here on is read
    lines,  # IN   of the indices and of the data, that each chunk prefetches
):
    """Return where what is read soon starts in the indices and in the data."""
    loop, length, _ = rows
    base, position, row, j = block
    index_lines, data_lines, _ = lines
    ahead = base
    index_ahead = position + BLOCKS_AHEAD * BLOCK * plan[fields.COORDS]
    if data_lines and p - j + length < end:
        ahead = row_bases(plan, loop, row + 1)[0] + j // CHUNK * data_lines * CACHE_LINE
    elif index_lines and length <= BLOCK:  # short rows, of a tile: the next ones are elsewhere
        last = last_loop(plan)
        index_ahead = row_bases(plan, loop, row + ROWS_AHEAD)[1] + j * plan[last + 2]
    return index_ahead << (plan[fields.KIND] & 3), ahead


@helper
def tuple_bytes(plan):
    """Return how many bytes a tuple of indices has."""
    return plan[fields.COORDS] << (plan[fields.KIND] & 3)


@helper
def lines_ahead(plan, length, size):
    """Return how many lines of indices, data and output each chunk of rows of `length` points prefetches."""
    index_lines = -(-CHUNK * tuple_bytes(plan) // CACHE_LINE)
    data_lines = min(-(-plan[fields.AHEAD] * CHUNK // (CACHE_LINE * length)), AHEAD_LINES)
    # What is behind a row of a tile is another tile's.
    asks = PREFETCHES_WRITES and plan[fields.PACKED_BYTES] >= LEAST_OUTPUT and plan[fields.TILE] == 0
    return index_lines, data_lines, CHUNK * size // CACHE_LINE if asks else 0


@helper
def prefetch_chunk(data, packed, to, index, soon, lines, chunk):
    """Prefetch what is read soon, a little with each chunk.

    The hardware loses a stream of indices between two blocks, and a core has no room for a block of misses at once.
    """
    done = chunk // CHUNK * CACHE_LINE
    prefetch_lines(index, soon[0] + done * lines[0], lines[0])
    prefetch_lines(data, soon[1] + done * lines[1], lines[1])
    prefetch_lines_to_write(packed, to + chunk * itemsize(data), lines[2])


@helper
def take_found(
    data,  # IN   the input
    base,  # IN   the offset that all elements share
    found,  # IN   (count,) int64, where the elements are from there
    packed,  # OUT  the elements
    to,  # IN   where the first one goes
    count,
    index,  # IN   the indices
    soon,  # IN   what `read_soon` returns
    lines,  # IN   and `lines_ahead`
):
    """Copy slices of one element, and prefetch what is read soon."""
    size = itemsize(data)
    for chunk in range(0, count, CHUNK):
        prefetch_chunk(data, packed, to, index, soon, lines, chunk)
        for j in range(chunk, min(chunk + CHUNK, count)):
            store(packed, to + j * size, load(data, base + found[np.uint64(j)]))


@helper
def take_numbered(plan, data, base, packed, to, count, index, position, soon, lines):
    """Do what `take_found` does by indices that are neighbours, if these are all 0 or more and in range.

    Return whether they are. Data must stand still from element to element, but for the indices.
    """
    size, width = itemsize(data), itemsize(index)
    field, at = coord_at(plan, 0), position * width
    stride = plan[field + 1]
    if not all_inside(index, at, count, plan[field]):
        return False
    for chunk in range(0, count, CHUNK):
        prefetch_chunk(data, packed, to, index, soon, lines, chunk)
        for j in range(chunk, min(chunk + CHUNK, count)):
            store(packed, to + j * size, load(data, base + np.int64(load(index, at + j * width)) * stride))
    return True


@helper
def take_directly(plan, data, base, packed, to, count, index, position, soon, lines):
    """Do what `take_numbered` does where single indices are of int64 or int32."""
    if plan[fields.COORDS] != 1:
        return False
    if plan[fields.KIND] == fields.INT64:
        numbers = seen_as(index, np.int64)
        return take_numbered(plan, data, base, packed, to, count, numbers, position, soon, lines)
    if plan[fields.KIND] == fields.INT32:
        narrow = seen_as(index, np.int32)
        return take_numbered(plan, data, base, packed, to, count, narrow, position, soon, lines)
    return False
