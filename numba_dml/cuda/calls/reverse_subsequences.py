# mypy: ignore-errors
"""The call of reverse_subsequences on a device, and its kernels: a thread writes a unit, or in place exchanges two."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..._core.errors import index_error
from ..._core.tensor import packed_strides
from ..driver.arrays import part, spans_of
from ..driver.launch import Kernel, recorder
from ..driver.numba import BLOCK, cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.bad_indices import record_bad
from ..primitives.groups import QUAD_BYTES
from ..primitives.moves.places import MOST_COUNTS, divide, start_of_point
from ..primitives.plan import LOOPS, SLICE, Plan, number, numbers_in, quotient
from ..primitives.ptx import await_inputs
from ..tuning.moves import TUNING
from .gather import packed
from .move_call import IndexedCall


@cache
def reverse_kernel(width: int, length_type: str, loops: int) -> Kernel:
    """Return the kernel that moves units of `width` bytes; `loops`: of the plan, -1: it says how many.

    In place, the thread of the first unit of a pair exchanges both.
    """
    load, store = unit_access(width)
    load_length, length_bytes = LOAD_INDEX[length_type], np.dtype(length_type).itemsize
    signed = length_type.startswith("i")

    def reverse_units(
        data,  # IN   address of the packed input
        lengths,  # IN   address of the packed lengths
        out,  # OUT  address of the packed output, maybe the input
        plan,  # IN   the plan, whose points are slices; their offsets are the positions in their lines
        size,  # IN   elements of a line
        stride,  # IN   units from one to the next
        units,  # IN   how many units there are
        share,  # IN   how many of them a block has
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        for unit in range(begin + np.int64(cuda.threadIdx.x), min(begin + share, units), BLOCK):
            loop_count = loops if loops >= 0 else number(plan, LOOPS)
            t, at = start_of_point(plan, quotient(unit, plan, SLICE), loop_count)
            length = load_length(lengths + at * length_bytes)
            if length > size or (not signed and length < 0):
                length = size
            other = unit + (length - 1 - 2 * t) * stride if t < length else unit
            first, second = load(data + other * width)
            if data != out:
                store(out + unit * width, first, second)
            elif unit < other:
                third, fourth = load(data + unit * width)
                store(out + unit * width, first, second)
                store(out + other * width, third, fourth)

    return Kernel(reverse_units, 8, plan=(3, numbers_in(loops, 0, 0)))


@cache
def check_kernel(length_type: str) -> Kernel:
    """Return the kernel that records a length out of range."""
    load_length, length_bytes = LOAD_INDEX[length_type], np.dtype(length_type).itemsize

    def check_lengths(
        lengths,  # IN   address of the packed lengths
        size,  # IN   the highest length
        record,  # OUT  where a bad length is recorded
        launch,  # IN   the number of this launch
        identity,  # IN   of the plan
        count,  # IN   how many lengths there are
        share,  # IN   how many of them a block has
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        for i in range(begin + np.int64(cuda.threadIdx.x), min(begin + share, count), BLOCK):
            length = load_length(lengths + i * length_bytes)
            if length < 0 or length > size:
                record_bad(record, launch, i, length, identity)

    return Kernel(check_lengths, 7)


class ReverseCall(IndexedCall):
    """Reverse_subsequences of one layout."""

    in_place = True
    instead = "'clamp'"

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        data, lengths = descriptor.input_tensor, descriptor.sequence_lengths_tensor
        spans = spans_of((data, lengths), layouts)
        super().__init__(descriptor.function, data.dtype, lengths.dtype, output_shapes[0], spans, descriptor.bounds)
        self.axis, self.points = descriptor.axis, lengths.element_count
        low = descriptor.lower([packed_strides(data.sizes, data.itemsize)])
        inner, self.run = list(low.inner), data.itemsize
        if inner and inner[-1][3] == 0:
            self.run *= inner.pop()[0]
        self.size, self.stride = low.size, low.out_stride
        #: Only the axis has a step: offsets are positions along it.
        rows = [(n, 0, step) for n, *_, step in low.outer], [(n, 0, step) for n, *_, step in inner]
        self.loops = [*rows[0], (low.size, 1, 0), *rows[1]]
        self.work = 2 * self.out_bytes + self.points * self.index_dtype.itemsize
        self.kernel = f"reverse_subsequences {8 * self.dtype.itemsize}-bit cuda"

    def new_plan(self, device: int, width: int) -> Plan:
        return Plan(device, max(self.run // width, 1), 1, self.loops, (), (), self.bounds)

    def launch(self, a: Any, lengths: Any, out: Any, stream: int, waiting: Any) -> None:
        device, length_shape = a.device, lengths.shape
        if not self.spans[1].packed:
            lengths = packed(lengths, stream)
        if self.checked:
            recorder.note(None)  # between the launches there is a look at what the first one found
            self.check(device, lengths, stream, len(a.shape), length_shape)
        if not self.spans[0].packed:
            a = packed(a, stream)
        aligned = self.run | self.stride | a.pointer | out.pointer
        width = min(aligned & -aligned, QUAD_BYTES)
        count = len(self.loops) if len(self.loops) <= MOST_COUNTS[0] else -1
        kernel = reverse_kernel(width, self.index_dtype.name, count)
        units = self.out_bytes // width
        blocks, share = divide(units, TUNING.few_units)
        plan = self.plan(device, width).for_kernel(kernel)
        addresses = a.pointer, lengths.pointer, out.pointer, plan
        kernel(device, stream, blocks, *addresses, self.size, self.stride // width, units, share)
        part(device, stream, waiting)

    def check(self, device: int, lengths: Any, stream: int, ndim: int, length_shape: tuple[int, ...]) -> None:
        """Wait for the device, and raise for a length out of range."""
        records, record, launch = self.begin(device, ndim, length_shape)
        blocks, share = divide(self.points, TUNING.few_units)
        identity = self.plan(device, 1).identity
        arguments = lengths.pointer, self.size, record.address, launch, identity, self.points, share
        check_kernel(self.index_dtype.name)(device, stream, blocks, *arguments)
        self.finish(records, record, stream, ndim, length_shape)

    def index_error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> IndexError:
        where = np.unravel_index(position, index_shape)
        return index_error(self.function, where, value, self.axis, self.size, "lengths")


build = ReverseCall
