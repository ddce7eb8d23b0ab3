# mypy: ignore-errors
"""The call of one_hot on a device, and its kernel: each thread writes 16 bytes, or a unit of an element, once."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.errors import index_error
from ..driver.arrays import part, scratch, spans_of
from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.memory import OnDevices
from ..driver.numba import BLOCK, cuda
from ..primitives import plan as fields
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.bad_indices import record_bad
from ..primitives.groups import QUAD_BYTES
from ..primitives.moves.places import divide
from ..primitives.plan import Plan, number, numbers_in, quotient
from ..primitives.ptx import await_inputs
from ..tuning.moves import TUNING
from .gather import packed
from .move_call import IndexedCall

#: Where the plan's loops stand: over blocks, their rows, and the elements of a row.
_DEPTH, _INNER = fields.HEADER + fields.LOOP_FIELDS, fields.HEADER + 2 * fields.LOOP_FIELDS


@helper
def place_of(plan, element):
    """Return the block, the row and the column that an element is at."""
    rest = quotient(element, plan, _INNER)
    column = element - rest * number(plan, _INNER)
    block = quotient(rest, plan, _DEPTH)
    return block, rest - block * number(plan, _DEPTH), column


@cache
def row_finder(index_type: str):
    """Return ``row_of(...)``: the row that an index leads to, or -1; if it `looks`, it records a bad one."""
    load_index, index_bytes = LOAD_INDEX[index_type], np.dtype(index_type).itemsize
    signed = index_type.startswith("i")

    @helper
    def row_of(index, plan, record, launch, size, line, looks):
        value = load_index(index + line * index_bytes)
        row = value
        if signed and row < 0:
            row += size
        if row < 0 or row >= size:
            bounds = number(plan, fields.BOUNDS)
            if bounds == fields.CLAMP:
                row = np.int64(0) if signed and row < 0 else size - 1
            else:
                row = np.int64(-1)
                if looks and bounds != fields.DROP:
                    record_bad(record, launch, line, value, number(plan, fields.IDENTITY))
        return row

    return row_of


@cache
def one_hot_kernel(width: int, index_type: str, group: int) -> Kernel:
    """Return the kernel whose threads each write a unit of `width` bytes, or `group` elements of this width.

    `group` elements are 16 bytes; 1: an element has as many units as the plan's slices.
    """
    load, store = unit_access(width)
    _, store_quad = unit_access(QUAD_BYTES)
    row_of = row_finder(index_type)

    @helper
    def write_unit(out, index, values, plan, record, launch, size, unit):
        element = quotient(unit, plan, fields.SLICE)
        part = unit - element * number(plan, fields.SLICE)
        block, row, column = place_of(plan, element)
        line = block * number(plan, _INNER) + column
        found = row_of(index, plan, record, launch, size, line, row == 0 and part == 0)
        at = part if found != row else part + number(plan, fields.SLICE)
        first, second = load(values + at * width)
        store(out + unit * width, first, second)

    @helper
    def ones_of_group(index, plan, record, launch, size, unit):
        """Return which elements of a group are where an index leads to, as bits."""
        block, row, column = place_of(plan, unit * group)
        inner, depth, ones = number(plan, _INNER), number(plan, _DEPTH), np.int32(0)
        if inner == 1 and depth >= group:  # rows of one index, or of two
            k = row_of(index, plan, record, launch, size, block, row == 0) - row
            if 0 <= k < group:
                ones = np.int32(1 << k)
            if row + group > depth:
                k = row_of(index, plan, record, launch, size, block + 1, True)
                if 0 <= k < row + group - depth:
                    ones = np.int32(ones | np.int32(1 << (k + depth - row)))
            return ones
        found = np.int64(-1)
        for k in range(group):
            if k == 0 or inner > 1 or row == 0:  # another index
                found = row_of(index, plan, record, launch, size, block * inner + column, row == 0)
            if found == row:
                ones = np.int32(ones | np.int32(1 << k))
            column += 1
            if column == inner:
                column = np.int64(0)
                row += 1
                if row == depth:
                    row = np.int64(0)
                    block += 1
        return ones

    @helper
    def write_group(out, index, values, plan, record, launch, size, unit):
        off, _ = load(values)
        on, _ = load(values + width)
        ones = ones_of_group(index, plan, record, launch, size, unit)
        low = high = np.int64(0)
        for k in range(group):
            bits = np.int64(on if ones >> k & 1 != 0 else off) << np.int64(k * width % 8 * 8)
            if k * width < 8:
                low |= bits
            else:
                high |= bits
        store_quad(out + unit * QUAD_BYTES, low, high)

    write = write_group if group > 1 else write_unit

    def write_units(
        out,  # OUT  address of the packed output
        index,  # IN   address of the packed indices
        values,  # IN   address of the two values, what stands elsewhere first
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        size,  # IN   of the axis that indices lead to
        first,  # IN   the unit to begin with
        units,  # IN   the first one not to write
        share,  # IN   how many units a block writes
    ):
        await_inputs()
        begin = first + np.int64(cuda.blockIdx.x) * share
        for unit in range(begin + np.int64(cuda.threadIdx.x), min(begin + share, units), BLOCK):
            write(out, index, values, plan, record, launch, size, unit)

    return Kernel(write_units, 10, plan=(3, numbers_in(3, 0, 0)))


class OneHotCall(IndexedCall):
    """One_hot of one layout."""

    gathers = True
    index_at = 0

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        indices, values = descriptor.indices_tensor, descriptor.values_tensor
        self.axis = descriptor.axis
        self.outer, self.depth, self.inner, bounds = descriptor.lower([layouts[0][0]])
        self.points = self.outer * self.inner
        self.idle = self.points == 0
        if self.depth == 0 and bounds == "clamp":
            bounds = "raise"  # there is nothing to clamp to
        spans = spans_of((indices, values), layouts)
        super().__init__(descriptor.function, values.dtype, indices.dtype, output_shapes[0], spans, bounds)
        self.work = self.out_bytes + self.points * self.index_dtype.itemsize
        self.kernel = f"one_hot {8 * self.dtype.itemsize}-bit cuda"
        self.constants = OnDevices(np.zeros(2, self.dtype))

    def __call__(self, indices: Any, *others: Any) -> Any:
        values, out = others if len(others) > 1 else (None, *others)
        if values.__class__ is ndarray:  # of the function, whose values are those of all its calls
            self.constants.contents, others = values, (out,)
        return super().__call__(indices, *others)

    def new_plan(self, device: int, width: int) -> Plan:
        loops = (self.outer, 0, 0), (max(self.depth, 1), 0, 0), (self.inner, 0, 0)
        return Plan(device, self.dtype.itemsize // width, 1, loops, (), (), self.bounds)

    def launch(self, indices: Any, *given: Any) -> None:
        *values, out, stream, waiting = given
        device, index_shape, width = indices.device, indices.shape, self.dtype.itemsize
        if not self.spans[0].packed:
            indices = packed(indices, stream)
        if values and not self.spans[1].packed:
            values = [packed(values[0], stream)]
        at = values[0].pointer if values else self.constants[device].address
        target, count, memory = out.pointer, self.out_bytes // width, None
        if self.depth == 0 and self.bounds != fields.DROP:  # indices are looked at, and what is written is left
            count = self.points
            memory = scratch(out, count * width)
            target = memory.pointer
        records, record, launch = self.begin(device, 0, index_shape)
        aligned = width | target | at
        unit, done = min(aligned & -aligned, QUAD_BYTES), 0
        jobs = []  # units of an element or elements of a unit, and the first and last one
        if unit == width < QUAD_BYTES and target % QUAD_BYTES == 0:
            group = QUAD_BYTES // width
            jobs.append((group, 1, 0, count // group))
            done = count // group * group
        parts = width // unit
        jobs.append((1, parts, done * parts, count * parts))
        for group, parts, first, units in jobs:
            kernel = one_hot_kernel(width // parts, self.index_dtype.name, group)
            blocks, share = divide(units - first, TUNING.few_units)
            plan = self.plan(device, width // parts).for_kernel(kernel)
            addresses = target, indices.pointer, at, plan, record.address
            kernel(device, stream, blocks, *addresses, launch, self.depth, first, units, share)
        part(device, stream, waiting)
        self.finish(records, record, stream, 0, index_shape)
        del memory  # the kernels are done, or the stream orders whoever gets it next

    def index_error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> IndexError:
        return index_error(self.function, np.unravel_index(position, index_shape), value, self.axis, self.depth)


build = OneHotCall
