"""Argmin and argmax on a GPU: a top-k of the first of each line, and of these if a line has several dimensions."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from functools import cache
from typing import Any

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Select
from ..._core.shapes import LINE_FIELDS, collapse_rows, flat, rows_of
from ..._core.tensor import packed_strides, product
from ..driver.arrays import Output, Span, part, scratch
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import load_i64
from ..primitives.ptx import await_inputs
from ..primitives.top_k.plan import write_index
from .one_output import OneOutputCall
from .top_k import TopKCall


@cache
def place_kernel() -> Kernel:
    """Return the kernel that writes the index of each line by its place in a row, and by the row's in the line."""

    def write_places(
        places,  # IN   address of the place in each row
        rows,  # IN   address of the row of each line, 0: it is the first
        out,  # OUT  address of the indices
        lines,  # IN   how many lines
        count,  # IN   rows of a line
        size,  # IN   elements of a row
        last,  # IN   the last index, if they are counted from the end, or -1
        itemsize,  # IN   bytes of an index
    ):
        await_inputs()
        line = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if line >= lines:
            return
        row = load_i64(rows + 8 * line) if rows != 0 else np.int64(0)
        place = row * size + load_i64(places + 8 * (line * count + row))
        if last >= 0:
            place = last - place
        write_index(out, itemsize, line, place)

    return Kernel(write_places, 8)


class ArgExtremeCall(OneOutputCall):
    """Argmin or argmax of one layout."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        data, index = descriptor.input_tensor, descriptor.output_tensor
        strides, shape = layouts[0][0], output_shapes[0]
        self.function = descriptor.function
        self.output = Output(self.function, "out", shape, index.dtype)
        self.lowering = lowering = descriptor.lower([strides])
        *outer, (n, stride, _) = lowering.reduced or ((1, data.itemsize, 1),)
        self.lines, self.rows, self.n = product(shape), product([size for size, *_ in outer]), n
        self.direct = not outer and not lowering.backwards

        def best(lines: list[tuple[int, int, int]], size: int, stride: int, itemsize: int) -> TopKCall:
            numbers = flat(lines)
            dims = rows_of(numbers, LINE_FIELDS, collapse_rows(numbers, LINE_FIELDS, len(lines)))
            select = Select(
                data_type=lowering.data_type,
                index_itemsize=itemsize,
                lines=dims,
                size=size,
                stride=stride,
                output_stride=1,
                k=1,
                largest=lowering.largest,
                nan_first=lowering.nan_first,
                sorted=True,
            )
            return TopKCall((data.dtype, index.dtype), select, shape)

        packed = packed_strides([size for size, *_ in outer])
        lines = [(size, step, to * self.rows) for size, step, to in lowering.lines]
        lines += [(size, step, to) for (size, step, _), to in zip(outer, packed, strict=True)]
        self.of_rows = best(lines, n, stride, lowering.index_itemsize if self.direct else 8)
        row_bytes = self.rows * data.itemsize
        self.of_lines = best([(self.lines, row_bytes, 1)], self.rows, data.itemsize, 8) if outer else None
        #: Where its memory has the values and the places of rows, and those of lines, and how many bytes it has.
        counts, widths = (self.lines * self.rows, self.lines), (data.itemsize, 8)
        sizes = [-(-count * width // 16) * 16 for count in counts for width in widths]
        *self.at, self.bytes = np.cumsum([0, *sizes]).tolist()
        self.spans = [Span.of(data.sizes, strides, data.itemsize)]
        self.idle = self.lines == 0
        self.work = self.lines * (lowering.total * data.itemsize + index.itemsize)
        #: What `explain` reads.
        found = self.of_rows
        self.regions, self.region, self.facts, self.tuning = found.regions, found.region, found.facts, found.tuning
        self.kernel = f"{self.function} {found.kernel.removeprefix('top_k ')}"

    def launch(self, a: DeviceArray, result: DeviceArray, stream: int, waiting: Collection[int | None]) -> None:
        """Run the kernels."""
        if self.direct and self.of_rows.way.can_omit_values:
            values, places, memory = copy(a), result, None
            values.pointer = 0
        else:
            memory = scratch(a, self.bytes)
            values, places, line_values, rows = [_moved(memory, at) for at in self.at]
        self.of_rows.launch(_moved(a, self.lowering.start), values, result if self.direct else places)
        if self.of_lines:
            values.stream = stream
            self.of_lines.launch(values, line_values, rows)
        if not self.direct:
            blocks, low = -(-self.lines // BLOCK), self.lowering
            numbers = self.lines, self.rows, self.n, low.total - 1 if low.backwards else -1, low.index_itemsize
            found = places.pointer, rows.pointer if self.of_lines else 0, result.pointer
            place_kernel()(a.device, stream, blocks, *found, *numbers)
        part(a.device, stream, waiting)
        del memory  # only now


def _moved(array: DeviceArray, offset: int) -> DeviceArray:
    """Return an array that starts some bytes further on."""
    moved = copy(array)
    if offset:
        moved.pointer += offset
    return moved


build = ArgExtremeCall
