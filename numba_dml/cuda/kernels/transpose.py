"""Transposed copies, for gathers and scatters along an axis that is not the last one.

Columns become lines, in strips that fit into scratch memory, and `lines` does the rest: every byte goes through memory
three times, but in order, where random accesses would each take the time of 32 bytes or more.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.bad_indices import record_bad
from ..primitives.groups import shared_type
from ..primitives.moves.lines import resolver
from ..primitives.moves.sizes import SIZES
from ..primitives.plan import BOUNDS, DROP, IDENTITY, axis_size, number
from ..primitives.ptx import await_inputs

#: Rows and columns of a tile, and which of its rows a thread is in at a time.
SIDE = SIZES.tile_side
STEP = BLOCK // SIDE
PITCH = SIDE + 1
CELLS = SIDE * PITCH


@helper
def tile_of(rows, columns):
    """Return which matrix this block works on, and the first row and column of its tile."""
    across = (columns + SIDE - 1) // SIDE
    down = (rows + SIDE - 1) // SIDE
    rest = np.int64(cuda.blockIdx.x) // across
    matrix = rest // down
    return matrix, (rest - matrix * down) * SIDE, (np.int64(cuda.blockIdx.x) - rest * across) * SIDE


def tiles(matrices: int, rows: int, columns: int) -> int:
    """Return how many blocks transpose the matrices."""
    return matrices * -(-rows // SIDE) * -(-columns // SIDE)


@cache
def turn_kernel(width: int) -> Kernel:
    """Return the kernel that transposes matrices of elements of a width."""
    load, store = unit_access(width)
    element = shared_type(f"int{8 * width}")
    top = 1 << (8 * width - 1)

    @kernel
    def turn_tiles(
        fro,  # IN   address of the matrices, whose rows have no gaps
        fro_matrix,  # IN   bytes from one to the next
        fro_row,  # IN   bytes from a row to the next
        to,  # OUT  address of the transposed matrices
        to_matrix,  # IN   bytes from one to the next
        to_row,  # IN   bytes from one of their rows, which were columns, to the next
        rows,
        columns,
    ):
        await_inputs()
        tile = cuda.shared.array(CELLS, element)
        matrix, row, column = tile_of(rows, columns)
        x = np.int64(cuda.threadIdx.x) % SIDE
        y = np.int64(cuda.threadIdx.x) // SIDE
        source = fro + matrix * fro_matrix + min(column + x, columns - 1) * width
        for i in range(SIDE // STEP):
            value, _ = load(source + min(row + y + STEP * i, rows - 1) * fro_row)
            tile[np.uint32((y + STEP * i) * PITCH + x)] = value if width == 8 else (value ^ top) - top
        cuda.syncthreads()
        target = to + matrix * to_matrix + (row + x) * width
        for i in range(SIDE // STEP):
            j = y + STEP * i
            if row + x < rows and column + j < columns:
                store(target + (column + j) * to_row, np.int64(tile[np.uint32(x * PITCH + j)]), 0)

    return Kernel(turn_tiles, 8, waits=True)


@cache
def turn_indices_kernel(index_type: str, position_bytes: int) -> Kernel:
    """Return the kernel that transposes indices, and makes them positions: unsigned numbers of 2 or 4 bytes.

    A bad index becomes a number that is out of range for every line.
    """
    load = LOAD_INDEX[index_type]
    index_bytes = np.dtype(index_type).itemsize
    resolve = resolver(index_type.startswith("i"))
    _, store = unit_access(position_bytes)
    number_type = shared_type("int32")

    @kernel
    def turn_indices(
        index,  # IN   address of the packed indices
        begin,  # IN   the first of them that counts
        matrix_step,  # IN   indices from a matrix to the next
        row_step,  # IN   indices from a row to the next
        to,  # OUT  address of the packed positions
        rows,
        columns,
        plan,  # IN   address of the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: the indices have been looked at
    ):
        await_inputs()
        tile = cuda.shared.array(CELLS, number_type)
        matrix, row, column = tile_of(rows, columns)
        size = axis_size(plan)
        bounds = number(plan, BOUNDS)
        x = np.int64(cuda.threadIdx.x) % SIDE
        y = np.int64(cuda.threadIdx.x) // SIDE
        at = begin + matrix * matrix_step + min(column + x, columns - 1)
        bad = False
        for i in range(SIDE // STEP):
            value = load(index + (at + min(row + y + STEP * i, rows - 1) * row_step) * index_bytes)
            position = resolve(value, size, bounds)
            bad |= position < 0
            tile[np.uint32((y + STEP * i) * PITCH + x)] = position
        cuda.syncthreads()
        target = to + ((matrix * columns + column) * rows + row + x) * position_bytes
        for i in range(SIDE // STEP):
            j = y + STEP * i
            if row + x < rows and column + j < columns:
                store(target + j * rows * position_bytes, np.int64(tile[np.uint32(x * PITCH + j)]), 0)
        if bad and launch >= 0 and bounds != DROP:
            for i in range(SIDE // STEP):
                here = at + min(row + y + STEP * i, rows - 1) * row_step
                value = load(index + here * index_bytes)
                if resolve(value, size, bounds) < 0:
                    record_bad(record, launch, here, value, number(plan, IDENTITY))

    return Kernel(turn_indices, 10, waits=True)
