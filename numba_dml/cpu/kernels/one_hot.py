"""The kernel of one_hot: tiles are made in a buffer, which stays as it is but for a few elements.

The figures are under "Tiles of one_hot" in docs/measurements/cpu_small_operators.md.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..._jit.compile import allocating, chosen, helper, kernel
from ..._jit.copies import copy_bytes, finish_streams, stream_bytes
from ..._jit.memory import address, empty, further, itemsize, load, overlaps, seen_as, store
from ..drivers import ASK, OVERLAP
from ..primitives.moves.offsets import read_indices
from ..primitives.moves.plan import CLAMP, RAISE
from ..primitives.moves.runs import copy_run

# What the kernel reads: the lowering, an element's bytes, the index type, the bounds, and a tile's blocks,
# rows (of all classes) and columns; bytes of the indices and of the output, and whether it is written past the caches.
(
    OUTER,
    DEPTH,
    INNER,
    WIDTH,
    KIND,
    BOUNDS,
    BLOCKS,
    ROWS,
    COLUMNS,
    INDEX_BYTES,
    OUT_BYTES,
    STREAM,
) = range(12)
#: Bytes of a tile of whole blocks, which stays in the L1, and of a part of one: its rows should be long, and many,
#: since all indices of its columns are looked at for each tile.
BLOCK_BYTES, PART_BYTES, LEAST_ROWS = 1 << 14, 1 << 16, 64
#: The most indices of a tile.
MOST_INDICES = 1 << 11


@helper
def find_classes(index, plan, position, count, numbers, classes):
    """Set which rows indices lead to, -1: none; return the position of the first bad index, or -1."""
    depth, mode = plan[DEPTH], plan[BOUNDS]
    found = read_indices(index, plan[KIND], position, count, numbers)
    outside = np.int64(0)
    for i in range(count):
        v = load(found, i * 8)
        v += depth & (v >> 63)
        outside |= v | (depth - 1 - v)
        classes[i] = v
    for i in range(count if outside < 0 else 0):
        v = classes[i]
        if np.uint64(v) >= np.uint64(depth):
            if mode == RAISE or (mode == CLAMP and depth == 0):
                return position + i
            classes[i] = min(max(v, 0), depth - 1) if mode == CLAMP else np.int64(-1)
    return np.int64(-1)


@chosen
def put(tile, to, values, which, width):
    """Write an element of a tile: one of the values; what is seen as unsigned bytes has any width."""

    def single(tile, to, values, which, width):
        store(tile, to * itemsize(tile), load(values, which * itemsize(tile)))

    def of_bytes(tile, to, values, which, width):
        copy_run(tile, to * width, values, which * width, width)

    return of_bytes if tile.dtype == types.uint8 else single


@helper
def mark(tile, values, which, width, classes, count, columns, low, rows):
    """Write a value to the places that the indices of a tile lead to, in rows from `low` on."""
    base, column = np.int64(0), np.int64(0)  # of a block
    for i in range(count):
        row = classes[np.uint64(i)] - low
        if np.uint64(row) < np.uint64(rows):
            put(tile, base + row * columns + column, values, which, width)
        column += 1
        if column == columns:
            column = np.int64(0)
            base += rows * columns


@helper
def write(data, to, tile, at, count, plan):
    """Write a part of a tile."""
    if plan[STREAM] != 0:
        stream_bytes(data, to, tile, at, count)
    else:
        copy_bytes(data, to, tile, at, count)


@helper
def write_tiles(index, data, values, plan, begin, end, room, classes):
    """Write the tiles begin <= i < end; return the position of the first bad index, or -1."""
    width, depth, inner = plan[WIDTH], plan[DEPTH], plan[INNER]
    tile = further(data, room.ctypes.data - address(data))
    numbers = further(seen_as(data, np.int64), classes.ctypes.data - address(data))
    for at in range(room.size // width):
        put(tile, at, values, 0, width)
    strips = -(-inner // plan[COLUMNS])
    for i in range(begin, end):
        block, column = i // strips * plan[BLOCKS], i % strips * plan[COLUMNS]
        blocks, columns = min(plan[BLOCKS], plan[OUTER] - block), min(plan[COLUMNS], inner - column)
        count = blocks * columns
        bad = find_classes(index, plan, block * inner + column, count, numbers, classes)
        if bad >= 0:
            return bad
        for low in range(0, depth, plan[ROWS]):
            rows = min(plan[ROWS], depth - low)
            to = ((block * depth + low) * inner + column) * width
            parts = 1 if columns == inner else rows  # which are contiguous in the output
            size = count * rows * width // parts
            mark(tile, values, 1, width, classes, count, columns, low, rows)
            for part in range(parts):
                write(data, to + part * inner * width, tile, part * size, size, plan)
            mark(tile, values, 0, width, classes, count, columns, low, rows)
    if plan[STREAM] != 0:
        finish_streams()
    return np.int64(-1)


@allocating
def write_share(index, data, values, plan, begin, end):
    """Do what `write_tiles` does, in new buffers."""
    indices = plan[BLOCKS] * plan[COLUMNS]
    room, classes = empty(indices * plan[ROWS] * plan[WIDTH], np.uint8), empty(indices, np.int64)
    return write_tiles(index, data, values, plan, begin, end, room, classes)


@kernel
def one_hot_kernel(phase, task, tasks, index, data, values, _, plan):
    """Run a task, or tell how many there are."""
    tiles = -(-plan[OUTER] // plan[BLOCKS]) * -(-plan[INNER] // plan[COLUMNS])
    if task != ASK:
        return write_share(index, data, values, plan, tiles * task // tasks, tiles * (task + 1) // tasks) + 1
    if phase > 0:
        return np.int64(0)
    low, high = address(data), address(data) + plan[OUT_BYTES]
    at = address(values)
    if overlaps(low, high, address(index), address(index) + plan[INDEX_BYTES]) or overlaps(
        low, high, at, at + 2 * plan[WIDTH]
    ):
        return np.int64(OVERLAP)
    return min(tiles, 4 * tasks)
