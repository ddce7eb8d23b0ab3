"""Gathers and scatters of single elements along columns: an axis that is not the last one.

Short columns have a thread each, which goes through their points in their order: what it reads or writes again stays
near in the caches, and updates need no claims. Of longer ones a block has some neighbours in shared memory: a gather
the elements, a scatter claims, by which it takes the last update of each place. All other memory is read and written
row by row, as it lies there. Columns that are too long are transposed into lines, in strips that fit into scratch
memory: every byte goes through memory three times, but in order, where random accesses would each take the time of 32
bytes or more.

Of the arguments of kernels see `primitives.moves`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.intrinsics import shared_type
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import LOAD_INDEX, OWN_LOAD, unit_access
from ..primitives.bad_indices import has_bad, record_bad
from ..primitives.moves.lines import index_steps, resolver
from ..primitives.moves.reductions import unit_steps
from ..primitives.moves.sizes import SIZES, registers_of
from ..primitives.moves.updates import CLAIM_BYTES
from ..primitives.plan import BOUNDS, DROP, HEADER, IDENTITY, LOOP_FIELDS, LOOPS, number, numbers_in
from ..primitives.ptx import await_inputs
from ..primitives.shared import raise_shared, shared_address

#: Points of a thread whose loads are on their way together.
AT_ONCE = 4


class Column(NamedTuple):
    """The column of a thread, and which of its rows are the thread's."""

    offset: object  #: where it starts in the data
    at: object  #: the number of its first index
    packed: object  #: where it starts in the packed array
    row_step: object  #: bytes of data from a row to the next
    index_row_step: object  #: indices from a row to the next
    packed_row_step: object  #: bytes of the packed array from a row to the next
    length: object  #: points
    size: object  #: elements
    row: object  #: the thread's first row ...
    rows: object  #: ... and how many rows its next one is further on
    own: object  #: the number of the column in the block
    inside: object  #: whether there is such a column


@cache
def column_finder(width: int, loops: int, shared: bool):
    """Return ``column_of_thread(plan, strips, bits)`` for a plan of two loops, or three: matrices come first.

    `shared`: a matrix has `strips` blocks of ``2**bits`` columns. Else there are `strips` columns, of a thread each.
    """
    rows_at = HEADER + LOOP_FIELDS * (loops - 2)
    columns_at, size_at = rows_at + LOOP_FIELDS, HEADER + LOOP_FIELDS * loops

    @helper
    def column_of_thread(plan, strips, bits):
        block, thread = np.int64(cuda.blockIdx.x), np.int64(cuda.threadIdx.x)
        columns, length = number(plan, columns_at), number(plan, rows_at)
        if shared:
            matrix = block // strips
            own, row, rows = thread & ((1 << bits) - 1), thread >> bits, np.int64(cuda.blockDim.x) >> bits
            column = ((block - matrix * strips) << bits) + own
            inside = column < columns
        else:
            item = block * BLOCK + thread
            matrix = item // columns
            own, row, rows, column = np.int64(0), np.int64(0), np.int64(1), item - matrix * columns
            inside = item < strips
        offset, at = column * width, column
        if loops == 3:
            offset += matrix * number(plan, HEADER + 3)
            at += matrix * number(plan, HEADER + 4)
        return Column(
            offset,
            at,
            (matrix * length * columns + column) * width,
            number(plan, size_at + 1),
            number(plan, rows_at + 4),
            columns * width,
            length,
            number(plan, size_at),
            row,
            rows,
            own,
            inside,
        )

    return column_of_thread


@cache
def gather_columns_kernel(width: int, index_type: str, loops: int, threads: int, shared: bool) -> Kernel:
    """Return the kernel that gathers elements of a width, for blocks of `threads` threads; see `column_finder`."""
    index_bytes = np.dtype(index_type).itemsize
    load, store = unit_access(width)
    resolve_some, record_all = index_steps(index_type, AT_ONCE)
    column_of_thread = column_finder(width, loops, shared)
    # As `load` returns them: the simulator refuses what a GPU cuts off.
    element = shared_type(f"uint{8 * width}" if width < 8 else "int64")

    def gather_columns(data, index, packed, plan, record, launch, strips, bits):
        await_inputs()
        elements = cuda.shared.array(0, element)
        positions = cuda.local.array(AT_ONCE, np.int64)
        values = cuda.local.array(AT_ONCE, np.int64)
        c = column_of_thread(plan, strips, bits)
        source, to, indices = data + c.offset, packed + c.packed, index + c.at * index_bytes
        if shared:
            r = c.row if c.inside else c.size
            while r < c.size:
                for j in range(AT_ONCE):
                    values[j], _ = load(source + min(r + j * c.rows, c.size - 1) * c.row_step)
                for j in range(AT_ONCE):
                    if r + j * c.rows < c.size:
                        elements[np.uint32(((r + j * c.rows) << bits) + c.own)] = values[j]
                r += AT_ONCE * c.rows
            cuda.syncthreads()
        bad = False
        bounds = number(plan, BOUNDS)
        r = c.row if c.inside else c.length
        while r < c.length:
            bad |= resolve_some(positions, indices, c.index_row_step, r, c.rows, c.length, c.size, bounds)
            for j in range(AT_ONCE):
                position = max(positions[j], np.int64(0))
                if shared:
                    values[j] = np.int64(elements[np.uint32((position << bits) + c.own)])
                else:
                    values[j], _ = load(source + position * c.row_step)
            for j in range(AT_ONCE):
                if r + j * c.rows < c.length:
                    value = values[j] if positions[j] >= 0 else np.int64(0)
                    store(to + (r + j * c.rows) * c.packed_row_step, value, 0)
            r += AT_ONCE * c.rows
        if bad:
            record_all(plan, index, record, launch, c, bounds)

    registers, plan = registers_of(threads), (3, numbers_in(loops, 1, 0))
    return Kernel(gather_columns, 8, plan=plan, waits=shared, shares=shared, threads=threads, registers=registers)


@cache
def scatter_columns_kernel(
    width: int, index_type: str, loops: int, threads: int, shared: bool, data_type=None, reduction: str = "none"
) -> Kernel:
    """Return the kernel that scatters elements of a width, for blocks of `threads` threads; see `column_finder`.

    A reduction, for which the type of the elements matters, leaves each column to a thread.
    """
    index_bytes = np.dtype(index_type).itemsize
    load, store = unit_access(width, pure=not shared)
    load_own = OWN_LOAD[f"uint{8 * width}"]
    resolve_some, record_all = index_steps(index_type, AT_ONCE)
    column_of_thread = column_finder(width, loops, shared)
    reduces = reduction != "none"
    combine, exact, has_nan = unit_steps(data_type, reduction, width) if reduces else (None, None, None)
    claim = shared_type("int32")

    @helper
    def put(at, value):
        if reduces:
            old, new = load_own(at), value
            value, _ = combine(old, np.int64(0), new, np.int64(0))
            if has_nan(value, np.int64(0)):
                value, _ = exact(old, np.int64(0), new, np.int64(0))
        store(at, value, 0)

    def scatter_columns(data, old, index, packed, plan, record, launch, unless, strips, bits):
        await_inputs()
        if has_bad(record, unless):
            return
        claims = cuda.shared.array(0, claim)
        positions = cuda.local.array(AT_ONCE, np.int64)
        values = cuda.local.array(AT_ONCE, np.int64)
        written = cuda.local.array(AT_ONCE, np.int32)
        c = column_of_thread(plan, strips, bits)
        source, target, updates = old + c.offset, data + c.offset, packed + c.packed
        indices = index + c.at * index_bytes
        if shared:
            for i in range(cuda.threadIdx.x, c.size << bits, cuda.blockDim.x):
                claims[i] = 0
            cuda.syncthreads()
        elif old != data:
            r = c.row if c.inside else c.size
            while r < c.size:
                for j in range(AT_ONCE):
                    values[j], _ = load(source + min(r + j, c.size - 1) * c.row_step)
                for j in range(AT_ONCE):
                    if r + j < c.size:
                        store(target + (r + j) * c.row_step, values[j], 0)
                r += AT_ONCE
        bad = False
        bounds = number(plan, BOUNDS)
        r = c.row if c.inside else c.length
        while r < c.length:
            bad |= resolve_some(positions, indices, c.index_row_step, r, c.rows, c.length, c.size, bounds)
            if shared:
                for j in range(AT_ONCE):
                    if r + j * c.rows < c.length and positions[j] >= 0:
                        place = (positions[j] << bits) + c.own
                        raise_shared(shared_address(claims) + CLAIM_BYTES * place, r + j * c.rows + 1)
            else:
                for j in range(AT_ONCE):
                    values[j], _ = load(updates + min(r + j, c.length - 1) * c.packed_row_step)
                for j in range(AT_ONCE):
                    if r + j < c.length and positions[j] >= 0:
                        put(target + positions[j] * c.row_step, values[j])
            r += AT_ONCE * c.rows
        if shared:
            cuda.syncthreads()
            r = c.row if c.inside else c.size
            while r < c.size:
                for j in range(AT_ONCE):
                    written[j] = 0
                    if r + j * c.rows < c.size:
                        point = np.int64(claims[np.uint32(((r + j * c.rows) << bits) + c.own)])
                        if old != data or point > 0:
                            written[j] = 1
                            update = updates + (point - 1) * c.packed_row_step
                            before = source + (r + j * c.rows) * c.row_step
                            values[j], _ = load(update if point > 0 else before)
                for j in range(AT_ONCE):
                    if written[j] != 0:
                        store(target + (r + j * c.rows) * c.row_step, values[j], 0)
                r += AT_ONCE * c.rows
        if bad and launch >= 0:
            record_all(plan, index, record, launch, c, bounds)

    registers, plan = registers_of(threads), (4, numbers_in(loops, 1, 0))
    return Kernel(scatter_columns, 10, plan=plan, waits=shared, shares=shared, threads=threads, registers=registers)


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

    def turn_tiles(fro, fro_matrix, fro_row, to, to_matrix, to_row, rows, columns):
        """Both addresses are followed by bytes to the next matrix and row. Rows of `fro` have no gaps."""
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
    resolve = resolver(index_type)
    _, store = unit_access(position_bytes)
    number_type = shared_type("int32")

    def turn_indices(index, begin, matrix_step, row_step, to, rows, columns, plan, record, launch):
        """`begin`: the first index that counts. Steps are indices to the next matrix and row. `to`: the positions."""
        await_inputs()
        tile = cuda.shared.array(CELLS, number_type)
        matrix, row, column = tile_of(rows, columns)
        size = number(plan, HEADER + LOOP_FIELDS * number(plan, LOOPS))  # of the axis
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
