"""The call of a cumulative sum or product."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..._core.enums import TensorDataType as D
from ..._core.lowering import SUM_BLOCK, is_float
from ..._core.regions import first
from ..._core.tensor import element_size, packed_strides, product
from ..dispatch import scan
from ..driver.arrays import Output, Span, part, scratch
from ..driver.numba import BLOCK
from ..kernels.scan import in_order, rows, totals
from ..primitives import scan as scan_plan
from ..primitives.moves.reductions import PARTS_OF
from ..primitives.plan import reciprocal
from ..primitives.scan import SEGMENT
from ..tuning.scan import TUNING
from .gather import packed
from .one_output import OneOutputCall


class ScanCall(OneOutputCall):
    """Running sums or products of one layout, to an output that is packed."""

    regions, tuning = scan.TABLE, TUNING

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        source, result = descriptor.input_tensor, descriptor.output_tensor
        strides, dtype = layouts[0]
        self.function = descriptor.function
        if not scan_plan.can_cast(dtype, result.dtype):
            raise TypeError(
                f"{self.function}: dtype: found {result.dtype} for an input of {dtype}, expected a dtype of its kind "
                "on target 'cuda'; convert the input before"
            )
        self.output = Output(self.function, "out", output_shapes[0], result.dtype)
        span = Span.of(source.sizes, strides, dtype.itemsize)
        self.spans = [span] if span.packed else []  # an input with gaps is copied before anything is written
        axis, sizes = descriptor.axis, source.sizes
        low = descriptor.lower([packed_strides(sizes, dtype.itemsize)])
        self.low, inner = low, product(sizes[axis + 1 :])
        self.in_place = dtype.itemsize == result.dtype.itemsize and not low.initial
        self.types = D[dtype.name.upper()], result.data_type
        by_threads = low.in_order or low.multiplies
        if self.types[1] in PARTS_OF and not by_threads:
            self.types = PARTS_OF[self.types[0]], PARTS_OF[self.types[1]]
            inner *= 2
        self.facts = facts = scan.Facts(sizes[axis], product(sizes[:axis]) * inner, inner, by_threads)
        self.region = first(self.regions, facts, self.tuning)
        self.kernel = f"{self.function} {result.dtype} cuda, {self.region.name}"
        self.idle = self.output.size == 0
        self.work = product(sizes) * dtype.itemsize + self.output.size
        self.counts = facts.counts if self.region is scan.BLOCKS else ()
        #: How many segments a line has, if the sums before them are marked, or 0.
        self.marks = 0
        if self.counts and SUM_BLOCK % SEGMENT == 0 and facts.lines * self.counts[0] <= self.tuning.few_blocks:
            self.marks = self.counts[0] * SUM_BLOCK // SEGMENT
        self.first_plan = self.plan(SUM_BLOCK)
        whole_line = max(facts.size, SUM_BLOCK) if self.region is scan.LINES else SUM_BLOCK
        self.last_plan = self.plan(SEGMENT if self.marks else whole_line)

    def plan(self, length: int) -> ndarray[Any, Any]:
        """Return the numbers that kernels are given, for rows of a length."""
        facts, low = self.facts, self.low
        shape = scan.shape_of(facts, length, low.initial)
        all_sets = facts.lines // max(facts.inner, 1) * shape.rows * shape.groups
        numbers = [facts.size, facts.lines, facts.inner, low.exclusive, low.initial, low.reverse, length]
        numbers += [*reciprocal(shape.rows), *reciprocal(shape.groups), shape.columns, shape.sets, all_sets]
        return np.array([*numbers, *shape[4:], len(facts.counts)], np.int64)

    def launch(self, a: DeviceArray, out: DeviceArray, stream: int, waiting: Collection[int | None]) -> None:
        """Run the kernels, and let the other streams wait."""
        if not self.spans:
            a = packed(a, stream)
        run = self.run_in_order if self.region is scan.IN_ORDER else self.run_by_rows
        memory = run((a.device, stream), a.pointer, out)
        part(a.device, stream, waiting)
        del memory  # only now

    def run_in_order(self, where: tuple[int, int], a: int, out: DeviceArray) -> None:
        """Scan every line in order."""
        bits = np.array([self.low.multiplies], self.output.dtype).tobytes().ljust(16, b"\0")
        identity = struct.unpack("qq", bits)
        kernel = in_order.in_order_kernel(*self.types, self.low.multiplies, self.low.in_order, identity)
        kernel(*where, -(-self.facts.lines // BLOCK), a, out.pointer, self.last_plan.ctypes.data)

    def run_by_rows(self, where: tuple[int, int], a: int, out: DeviceArray) -> Any:
        """Sum lines by rows; return memory in use until all is done."""
        y, lines, memory, marks, carries = out.pointer, self.facts.lines, None, 0, 0
        if self.low.reverse:
            a += element_size(self.types[0]) * (lines * self.facts.size - 1)
            y += element_size(self.types[1]) * (lines * (self.facts.size + int(self.low.initial)) - 1)
        if self.counts:
            sizes = [8 * lines * count for count in (*self.counts, self.marks)]
            memory = scratch(out, sum(sizes))
            carries = memory.pointer
            marks = carries + sum(sizes[:-1]) if self.marks else 0
            self.run_pass(where, self.first_plan, a, 0, carries, marks, 0)
            self.run_totals(where, carries)
        self.run_pass(where, self.last_plan, a, y, 0, marks, carries)
        return memory

    def run_totals(self, where: tuple[int, int], at: int) -> None:
        """Sum the totals of blocks, of blocks of blocks, and so on."""
        kernel = totals.totals_kernel(D.FLOAT64 if is_float(self.types[1]) else D.INT64)
        for count in self.counts:
            following, rows_of_totals = at + 8 * self.facts.lines * count, self.facts.lines * -(-count // SUM_BLOCK)
            above = 0 if count == self.counts[-1] else following
            kernel(*where, -(-rows_of_totals // totals.WARPS), at, above, count, self.facts.inner, rows_of_totals)
            at = following

    def run_pass(self, where: tuple[int, int], plan: ndarray[Any, Any], x: int, y: int, *sums: int) -> None:
        """Launch the kernel of a pass over lines; `sums`: the addresses of totals, marks and carries, or 0."""
        warps = -(-int(plan[scan_plan.ALL_SETS]) // int(plan[scan_plan.SETS]))
        rows.rows_kernel(*self.types)(*where, -(-warps // rows.WARPS), x, y, plan.ctypes.data, *sums)


build = ScanCall
