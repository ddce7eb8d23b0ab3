"""Copies of single elements, and prefetches of the indices and elements that come next."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import helper
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import itemsize, load, store
from .plan import BLOCK, COORDS, HEADER, KIND, LOOP_FIELDS, LOOPS, PACKED_BYTES, TILE, row_bases
from .runs import LEAST_OUTPUT, PREFETCHES_WRITES, ROWS_AHEAD, prefetch_lines, prefetch_lines_to_write

# Single elements are copied in chunks. In passing, each chunk prefetches its share of what is read soon, into the L2:
# the L1 is for the row of data that is read. See "What is prefetched beside single elements" in
# docs/measurements/cpumoves.md.
#: Elements of a chunk.
CHUNK = 64
#: Blocks ahead of which indices are prefetched.
BLOCKS_AHEAD = 2


@helper
def read_soon(plan, rows, position, row, j):
    """Return the byte of the indices that is read soon, by one of the point `j` of a row, at a position.

    `rows` are what `plan.find_rows` returns.
    """
    loop, length, _ = rows
    ahead = position + BLOCKS_AHEAD * BLOCK * plan[COORDS]
    if length <= BLOCK:  # short rows, of a tile: the next ones are elsewhere
        last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
        ahead = row_bases(plan, loop, row + ROWS_AHEAD)[1] + j * plan[last + 2]
    return ahead << (plan[KIND] & 3)


@helper
def lines_ahead(plan, size):
    """Return how many lines of indices and of the output each chunk prefetches."""
    index_bytes = CHUNK * plan[COORDS] << (plan[KIND] & 3)
    # What is behind a row of a tile is another tile's.
    asks = PREFETCHES_WRITES and plan[PACKED_BYTES] >= LEAST_OUTPUT and plan[TILE] == 0
    return -(-index_bytes // CACHE_LINE), CHUNK * size // CACHE_LINE if asks else 0


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
    """Copy slices of one element, and prefetch what is read soon, a little with each chunk.

    The hardware loses a stream of indices between two blocks, and a core has no room for a block of misses at once.
    """
    size = itemsize(data)
    for chunk in range(0, count, CHUNK):
        prefetch_lines(index, soon, lines[0])
        prefetch_lines_to_write(packed, to + chunk * size, lines[1])
        soon += lines[0] * CACHE_LINE
        for j in range(chunk, min(chunk + CHUNK, count)):
            store(packed, to + j * size, load(data, base + found[np.uint64(j)]))
