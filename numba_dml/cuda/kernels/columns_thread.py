"""Gathers and scatters along short columns: a thread has a column, and goes through its points in their order.

What the points of a column read or write again stays near in the caches, however large the array is. A thread's updates
come one after another, so that the last one of a place stays, or all are combined in their order, without any claims.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import OWN_LOAD, unit_access
from ..primitives.atomics import load_now
from ..primitives.moves.lines import index_steps
from ..primitives.moves.reductions import combiner
from ..primitives.plan import BOUNDS, DROP, axis_size, number
from ..primitives.ptx import await_inputs

#: Points whose loads are on their way together.
AT_ONCE = 4


@cache
def gather_columns_kernel(width: int, index_type: str) -> Kernel:
    """Return the kernel that gathers elements of a width."""
    index_bytes = np.dtype(index_type).itemsize
    load, store = unit_access(width)
    resolve_some, record_all = index_steps(index_type, AT_ONCE)

    @kernel
    def gather_columns(
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
        count,  # IN   of all matrices
        length,  # IN   points of a column
    ):
        await_inputs()
        positions = cuda.local.array(AT_ONCE, np.int64)
        values = cuda.local.array(AT_ONCE, np.int64)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if item >= count:
            return
        matrix = item // columns
        column = item - matrix * columns
        size = axis_size(plan)
        bounds = number(plan, BOUNDS)
        source = data + matrix * matrix_step + column * width
        at = matrix * index_matrix_step + column
        to = packed + (matrix * length * columns + column) * width
        bad = False
        first = np.int64(0)
        while first < length:
            bad |= resolve_some(positions, index + at * index_bytes, index_row_step, first, 1, length, size, bounds)
            for j in range(AT_ONCE):
                values[j], _ = load(source + max(positions[j], np.int64(0)) * row_step)
            for j in range(AT_ONCE):
                if first + j < length:
                    store(to + (first + j) * columns * width, values[j] if positions[j] >= 0 else np.int64(0), 0)
            first += AT_ONCE
        if bad and bounds != DROP:
            record_all(index + at * index_bytes, at, index_row_step, 0, 1, length, size, bounds, record, launch, plan)

    return Kernel(gather_columns, 13)


@cache
def scatter_columns_kernel(width: int, index_type: str, data_type=None, reduction: str = "none") -> Kernel:
    """Return the kernel that scatters elements of a width; their type matters to a reduction alone."""
    index_bytes = np.dtype(index_type).itemsize
    load, store = unit_access(width)
    load_own = OWN_LOAD[width]
    resolve_some, record_all = index_steps(index_type, AT_ONCE)
    reduces = reduction != "none"
    combine = combiner(data_type, reduction, width) if reduces else None

    @helper
    def put(at, value):
        if reduces:
            value, _ = combine(load_own(at), np.int64(0), value, np.int64(0))
        store(at, value, 0)

    @kernel
    def scatter_columns(
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
        count,  # IN   of all matrices
        length,  # IN   points of a column
    ):
        await_inputs()
        positions = cuda.local.array(AT_ONCE, np.int64)
        values = cuda.local.array(AT_ONCE, np.int64)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if item >= count or (flag != 0 and load_now(flag) == 0):
            return
        matrix = item // columns
        column = item - matrix * columns
        size = axis_size(plan)
        bounds = number(plan, BOUNDS)
        offset = matrix * matrix_step + column * width
        source, target = old + offset, data + offset
        at = matrix * index_matrix_step + column
        updates = packed + (matrix * length * columns + column) * width
        first = np.int64(0)
        while old != data and first < size:
            for j in range(AT_ONCE):
                values[j], _ = load(source + min(first + j, size - 1) * row_step)
            for j in range(AT_ONCE):
                if first + j < size:
                    store(target + (first + j) * row_step, values[j], 0)
            first += AT_ONCE
        bad = False
        first = np.int64(0)
        while first < length:
            bad |= resolve_some(positions, index + at * index_bytes, index_row_step, first, 1, length, size, bounds)
            for j in range(AT_ONCE):
                values[j], _ = load(updates + min(first + j, length - 1) * columns * width)
            for j in range(AT_ONCE):
                if first + j < length and positions[j] >= 0:
                    put(target + positions[j] * row_step, values[j])
            first += AT_ONCE
        if bad and launch >= 0 and bounds != DROP:
            record_all(index + at * index_bytes, at, index_row_step, 0, 1, length, size, bounds, record, launch, plan)

    return Kernel(scatter_columns, 15)
