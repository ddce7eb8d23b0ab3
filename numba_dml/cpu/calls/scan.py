"""The calls of running sums and products."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy import ndarray

from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.regions import Region, first
from ..._core.shapes import LINE_FIELDS, extent, flat
from ..._core.tensor import packed_strides, product
from ..._jit.memory import ANY
from ..dispatch.scan import TABLE, Facts, part_count, tile_of
from ..launch import launcher
from ..primitives import scan
from ..tuning.scan import TUNING


class ScanCall:
    """Running sums or products of one layout."""

    # What `explain` reads: the table, the row that was chosen, and by which numbers; None if there is nothing to do.
    regions = TABLE
    region: Region | None = None
    facts: Facts | None = None
    tuning = TUNING

    def __init__(
        self, descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any, continues: bool = False
    ) -> None:
        (strides, dtype), *_ = layouts
        self.function, self.shape = descriptor.function, output_shapes[0]
        sizes = descriptor.input_tensor.sizes
        self.dtype = result = descriptor.output_tensor.dtype
        lowering = descriptor.lower([strides])
        order, lines = lowering.order, lowering.lines
        across = lines[-1][0] if lines and lines[-1][2] == 1 else 1
        spread = across >= TUNING.columns_across and lines[-1][1] != dtype.itemsize  # vectors cannot read them
        self.copied = spread or not can_read(dtype, result)
        self.order = order if order != tuple(range(len(sizes))) else None
        self.inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
        if self.copied:  # in the order of the input
            dtype, packed = result, packed_strides([sizes[d] for d in order], result.itemsize)
            strides = tuple(packed[i] for i in self.inverse)
            lowering = descriptor.lower([strides], order)  # strides alone do not place an axis of one element
            lines = lowering.lines
        self.laid_out = tuple(self.shape[d] for d in order)
        self.empty = allocator(self.shape, result)
        count, n = product([size for size, _, _ in lines]), lowering.size
        self.work = self.effort = count * (n * dtype.itemsize + (n + lowering.initial) * result.itemsize)
        self.identity = int(lowering.multiplies)
        self.idle = count == 0 or n == 0
        if self.idle:
            self.kernel = f"{self.function} nothing to compute"
            return
        integers = result.kind in "biu"
        in_order = lowering.multiplies or (lowering.in_order and not integers)
        self.facts = facts = Facts(n, count, across, in_order, integers, numba.config.NUMBA_NUM_THREADS)
        self.region = first(TABLE, facts, TUNING)
        self.plan = np.array(_plan(lowering, facts, strides, sizes, dtype, result, continues), np.int64)
        state = scan.state_reference(result, lowering.multiplies, lowering.in_order)
        self.totals = count * int(self.plan[scan.TOTALS])
        references = scan.data_reference(dtype, is_source=True), scan.data_reference(result)
        self.launch, driver = launcher(self.region.kernel, (*references, state, ANY), self.effort)
        self.kernel = f"{self.function} {self.region.name} {dtype} {driver}"

    def __call__(self, a: ndarray[Any, Any], out: Any) -> Any:
        order = self.order
        if out is None:
            result = target = self.empty(self.laid_out, self.dtype)
            if order:
                result = target.transpose(self.inverse)
        else:
            contiguous = check_out(self.function, "out", out, self.shape, self.dtype)
            result = target = out
            if order:
                target = out.transpose(order)
                contiguous = target.flags.c_contiguous
            if not contiguous or not out.flags.aligned:
                out[...] = self(a, None)
                return out
        if self.idle:
            result[...] = self.identity
            return result
        if self.copied:
            a = a.transpose(order) if order else a
            a = a.astype(self.dtype, order="C")
        # Each total has up to 16 bytes.
        scratch = np.empty(2 * self.totals, np.int64) if self.totals else a
        if self.launch(a, target, scratch, a, self.plan):  # the output overlaps the input
            result[...] = self(a, None)
        return result

    def go_on(self, a: ndarray[Any, Any], position: int, kept: Any) -> tuple[Any, Any]:
        """Return the results for chunks of lines that start at a position, and what their next chunks need.

        `kept` is what the chunks before returned. Call and array are in C order; the call is one that `continues`.
        """
        result = self.empty(self.laid_out, self.dtype)
        if self.idle:
            result[...] = self.identity
            return result, kept
        if self.copied:
            a = a.astype(self.dtype, order="C")
        plan = self.plan.copy()
        plan[scan.POSITION] = position
        # Each number has up to 16 bytes.
        kept = kept.copy() if position else np.empty(2 * scan.KEPT * int(plan[scan.LINES]), np.int64)
        self.launch(a, result, kept, a, plan)
        return result, kept


def can_read(dtype: np.dtype[Any], result: np.dtype[Any]) -> bool:
    """Tell whether kernels read a dtype as if it had been cast to that of the result."""
    if not dtype.isnative:
        return False
    if dtype.kind in "biu" and result.kind in "iu":
        return True
    return dtype == result or (dtype.kind == result.kind and np.can_cast(dtype, result))


def fill_scan(
    plan: Any,
    lines: Any,  # IN   rows; strides of the result are in elements, here as well
    dims: int,
    n: int,
    along: tuple[int, int],  # IN   the strides of the axis
    width: int,  # IN   bytes of an element of the result
    initial: int,
    reverse: bool,
) -> None:
    """Write the lines of a plan, and what follows from them and from the direction; jitted callers compile this."""
    stride, out_stride = along[0], along[1] * width
    count, same = 1, n == 1 or stride == out_stride
    for row in range(0, dims * LINE_FIELDS, LINE_FIELDS):
        at, size, step, out_step = scan.HEADER + row, lines[row], lines[row + 1], lines[row + 2] * width
        plan[at], plan[at + 1], plan[at + 2] = size, step, out_step
        count *= size
        same = same and (size == 1 or step == out_step)
    plan[scan.LINES], plan[scan.DIMS], plan[scan.SIZE] = count, dims, n
    plan[scan.STRIDE], plan[scan.OUT_STRIDE], plan[scan.OUT_START] = stride, out_stride, out_stride * initial
    if reverse:
        plan[scan.STRIDE], plan[scan.OUT_STRIDE] = -stride, -out_stride
        plan[scan.START], plan[scan.OUT_START] = (n - 1) * stride, (n - 1) * out_stride
    plan[scan.INITIAL], plan[scan.SUPERBLOCKS] = initial, -(-n // scan.BLOCK**2)
    plan[scan.OUT_BYTES] = count * (n + initial) * width
    plan[scan.IN_PLACE] = int(same and initial == 0)


def _plan(lowering: Any, facts: Facts, strides: Any, sizes: Any, dtype: Any, result: Any, continues: bool) -> Any:
    """Return the numbers that kernels read."""
    n, lines = lowering.size, flat(lowering.lines)
    low, high = extent(sizes, strides)
    parts = 1 if continues else part_count(facts, TUNING)
    without_blocks = facts.in_order or (facts.integers if continues else n <= scan.BLOCK)
    plan = [0] * (scan.HEADER + len(lines))
    along = lowering.stride, lowering.output_stride
    fill_scan(plan, lines, len(lowering.lines), n, along, result.itemsize, int(lowering.initial), lowering.reverse)
    plan[scan.BLOCK_SIZE] = scan.NO_BLOCKS if without_blocks else scan.BLOCK
    plan[scan.EXCLUSIVE], plan[scan.PARTS] = int(lowering.exclusive), parts
    plan[scan.TOTALS] = plan[scan.SUPERBLOCKS] * (parts - 1) // parts
    plan[scan.DEEP], plan[scan.TILE] = int(continues or n > scan.BLOCK**2), tile_of(facts, TUNING)
    plan[scan.CONTINUES] = int(continues)
    plan[scan.LOW], plan[scan.HIGH] = low, high + dtype.itemsize
    return plan


build = ScanCall


def build_continued(descriptor: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ScanCall:
    """Return the call for chunks of lines in C order; see `ScanCall.go_on`."""
    layout = packed_strides(shape, dtype.itemsize), dtype
    return ScanCall(descriptor, (layout,), (descriptor.output_tensor.sizes,), None, continues=True)
