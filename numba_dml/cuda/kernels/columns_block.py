"""Gathers and scatters along columns, of which blocks keep some that are neighbours in shared memory.

All memory is read and written row by row, as it lies there; only shared memory is met at random, at whose banks
neighbouring columns do not collide. A gather keeps the elements of its columns. A scatter keeps claims: of each place
the last update, which it then takes from where it is, mostly in the first cache.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import cuda
from ..primitives.access import unit_access
from ..primitives.atomics import load_now
from ..primitives.groups import shared_type
from ..primitives.moves.lines import index_steps, registers_of
from ..primitives.plan import BOUNDS, DROP, axis_size, number
from ..primitives.ptx import await_inputs
from ..primitives.shared import raise_shared, shared_address

#: Elements of a thread whose loads are on their way together.
AT_ONCE = 4
CLAIM_BYTES = 4


@helper
def columns_of_block(strips, bits, columns):
    """Return where this thread works, and how many rows the block's threads are.

    It is the block's matrix, and in that the column and the row; whether there is such a column; and the number of the
    column in the block.
    """
    block, thread = np.int64(cuda.blockIdx.x), np.int64(cuda.threadIdx.x)
    matrix = block // strips
    own = thread & ((1 << bits) - 1)
    column = ((block - matrix * strips) << bits) + own
    return matrix, column, thread >> bits, column < columns, own, np.int64(cuda.blockDim.x) >> bits


@cache
def gather_shared_kernel(width: int, index_type: str, threads: int) -> Kernel:
    """Return the kernel that gathers elements of a width, for blocks of `threads` threads."""
    index_bytes = np.dtype(index_type).itemsize
    load, store = unit_access(width)
    resolve_some, record_all = index_steps(index_type, AT_ONCE)
    # As `load` returns them: the simulator refuses what a GPU cuts off.
    element = shared_type(f"uint{8 * width}" if width < 8 else "int64")

    def gather_shared(
        data,  # IN   address of the input's first element
        index,  # IN   address of the packed indices
        packed,  # OUT  address of the packed output
        plan,  # IN   address of the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        matrix_step,  # IN   bytes of data from a matrix to the next
        row_step,  # IN   bytes of data from a row to the next
        index_matrix_step,  # IN   indices from a matrix to the next
        index_row_step,  # IN   indices from a row to the next
        columns,  # IN   of a matrix
        strips,  # IN   blocks of a matrix
        bits,  # IN   a block has 2**bits columns
        length,  # IN   points of a column
    ):
        await_inputs()
        elements = cuda.shared.array(0, element)
        positions = cuda.local.array(AT_ONCE, np.int64)
        values = cuda.local.array(AT_ONCE, np.int64)
        matrix, column, row, inside, own, rows = columns_of_block(strips, bits, columns)
        size = axis_size(plan)
        bounds = number(plan, BOUNDS)
        source = data + matrix * matrix_step + column * width
        r = row if inside else size
        while r < size:
            for j in range(AT_ONCE):
                values[j], _ = load(source + min(r + j * rows, size - 1) * row_step)
            for j in range(AT_ONCE):
                if r + j * rows < size:
                    elements[np.uint32(((r + j * rows) << bits) + own)] = values[j]
            r += AT_ONCE * rows
        cuda.syncthreads()
        at = matrix * index_matrix_step + column
        to = packed + (matrix * length * columns + column) * width
        bad = False
        r = row if inside else length
        while r < length:
            bad |= resolve_some(positions, index + at * index_bytes, index_row_step, r, rows, length, size, bounds)
            for j in range(AT_ONCE):
                if r + j * rows < length:
                    value = np.int64(elements[np.uint32((max(positions[j], 0) << bits) + own)])
                    store(to + (r + j * rows) * columns * width, value if positions[j] >= 0 else np.int64(0), 0)
            r += AT_ONCE * rows
        if bad and bounds != DROP:
            record_all(
                index + at * index_bytes, at, index_row_step, row, rows, length, size, bounds, record, launch, plan
            )

    return Kernel(kernel(registers=registers_of(threads))(gather_shared), 14, waits=True, shares=True, threads=threads)


@cache
def scatter_shared_kernel(width: int, index_type: str, threads: int) -> Kernel:
    """Return the kernel that scatters elements of a width, for blocks of `threads` threads."""
    index_bytes = np.dtype(index_type).itemsize
    load, store = unit_access(width, pure=False)
    resolve_some, record_all = index_steps(index_type, AT_ONCE)
    claim = shared_type("int32")

    def scatter_shared(
        data,  # OUT  address of the output's first element
        old,  # IN   the same of what is there before, maybe the output itself
        index,  # IN   address of the packed indices
        packed,  # IN   address of the packed updates
        plan,  # IN   address of the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: the indices have been looked at
        flag,  # IN   address of a word that is 0 if an index is bad; 0: write in any case
        matrix_step,  # IN   bytes of data from a matrix to the next
        row_step,  # IN   bytes of data from a row to the next
        index_matrix_step,  # IN   indices from a matrix to the next
        index_row_step,  # IN   indices from a row to the next
        columns,  # IN   of a matrix
        strips,  # IN   blocks of a matrix
        bits,  # IN   a block has 2**bits columns
        length,  # IN   points of a column
    ):
        await_inputs()
        if flag != 0 and load_now(flag) == 0:
            return
        claims = cuda.shared.array(0, claim)
        first_claim = shared_address(claims)
        positions = cuda.local.array(AT_ONCE, np.int64)
        values = cuda.local.array(AT_ONCE, np.int64)
        written = cuda.local.array(AT_ONCE, np.int32)
        matrix, column, row, inside, own, rows = columns_of_block(strips, bits, columns)
        size = axis_size(plan)
        bounds = number(plan, BOUNDS)
        for i in range(cuda.threadIdx.x, size << bits, cuda.blockDim.x):
            claims[i] = 0
        cuda.syncthreads()
        at = matrix * index_matrix_step + column
        bad = False
        r = row if inside else length
        while r < length:
            bad |= resolve_some(positions, index + at * index_bytes, index_row_step, r, rows, length, size, bounds)
            for j in range(AT_ONCE):
                if r + j * rows < length and positions[j] >= 0:
                    raise_shared(first_claim + CLAIM_BYTES * ((positions[j] << bits) + own), r + j * rows + 1)
            r += AT_ONCE * rows
        cuda.syncthreads()
        moves = old != data
        offset = matrix * matrix_step + column * width
        source, target = old + offset, data + offset
        updates = packed + (matrix * length * columns + column) * width
        r = row if inside else size
        while r < size:
            for j in range(AT_ONCE):
                written[j] = 0
                if r + j * rows < size:
                    point = np.int64(claims[np.uint32(((r + j * rows) << bits) + own)])
                    if moves or point > 0:
                        written[j] = 1
                        values[j], _ = load(
                            updates + (point - 1) * columns * width if point > 0 else source + (r + j * rows) * row_step
                        )
            for j in range(AT_ONCE):
                if written[j] != 0:
                    store(target + (r + j * rows) * row_step, values[j], 0)
            r += AT_ONCE * rows
        if bad and launch >= 0 and bounds != DROP:
            record_all(
                index + at * index_bytes, at, index_row_step, row, rows, length, size, bounds, record, launch, plan
            )

    return Kernel(kernel(registers=registers_of(threads))(scatter_shared), 16, waits=True, shares=True, threads=threads)
