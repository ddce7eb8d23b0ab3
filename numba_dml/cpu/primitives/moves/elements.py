"""Copies of single elements, and prefetches of the indices, elements and rows that come next."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import helper
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import itemsize, load, store
from .gather_shares import ROWS_AHEAD
from .plan import AHEAD, BLOCK, COORDS, HEADER, KIND, LOOP_FIELDS, LOOPS, PACKED_BYTES, TILE, row_bases
from .runs import ASKS_TO_WRITE, LEAST_OUTPUT, ask_for, ask_to_write

#: Single elements are copied in groups, and these in chunks of so many elements. In passing, each chunk asks for its
#: share of what will be read soon: of the indices this many blocks ahead, or rows if they are short, and of the next
#: row of data, up to this many lines. Into the L2: the L1 is for the row of data that is read. (2048, 4096) f4, int64
#: indices, one thread: 8.5 ms, 10.2 if they go into the L1, 9.6 with chunks of 16 elements.
CHUNK = 64
BLOCKS_AHEAD = 2
AHEAD_LINES = 16


@helper
def read_soon(
    plan,  # IN   (fields,) int64
    rows,  # IN   what `find_rows` returns
    p,  # IN   the number of the block's first point
    block,  # IN   where it starts in data and indices, the number of its row, and of the point in it
    end,  # IN   no point from here on is read
    lines,  # IN   of the indices and of the data, that each chunk asks for
):
    """Return where what is read soon starts in the indices and in the data."""
    loop, length, _ = rows
    base, position, row, j = block
    index_lines, data_lines, _ = lines
    ahead = base
    index_ahead = position + BLOCKS_AHEAD * BLOCK * plan[COORDS]
    if data_lines and p - j + length < end:
        ahead = row_bases(plan, loop, row + 1)[0] + j // CHUNK * data_lines * CACHE_LINE
    elif index_lines and length <= BLOCK:  # short rows, of a tile: the next ones are elsewhere
        last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
        index_ahead = row_bases(plan, loop, row + ROWS_AHEAD)[1] + j * plan[last + 2]
    return index_ahead << (plan[KIND] & 3), ahead


@helper
def tuple_bytes(plan):
    """Return how many bytes a tuple of indices has."""
    return plan[COORDS] << (plan[KIND] & 3)


@helper
def lines_ahead(plan, length, size):
    """Return for how many lines of indices, data and output each chunk of rows of so many points asks."""
    index_lines = -(-CHUNK * tuple_bytes(plan) // CACHE_LINE)
    data_lines = min(-(-plan[AHEAD] * CHUNK // (CACHE_LINE * length)), AHEAD_LINES)
    # What is behind a row of a tile is another tile's.
    asks = ASKS_TO_WRITE and plan[PACKED_BYTES] >= LEAST_OUTPUT and plan[TILE] == 0
    return index_lines, data_lines, CHUNK * size // CACHE_LINE if asks else 0


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
    """Copy slices of one element, and ask for what will be read soon.

    The hardware loses a stream of indices between two blocks: asked for in passing, they took 1.2 ns per element, not
    1.9 (a block in one go, 2.1: the core has no more than some 24 misses under way).
    """
    size = itemsize(data)
    index_ahead, data_ahead = soon
    for chunk in range(0, count, CHUNK):
        ask_for(index, index_ahead, lines[0])
        ask_for(data, data_ahead, lines[1])
        ask_to_write(packed, to + chunk * size, lines[2])
        index_ahead += lines[0] * CACHE_LINE
        data_ahead += lines[1] * CACHE_LINE
        for j in range(chunk, min(chunk + CHUNK, count)):
            store(packed, to + j * size, load(data, base + found[np.uint64(j)]))
