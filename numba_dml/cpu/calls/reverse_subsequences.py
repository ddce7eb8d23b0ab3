# mypy: ignore-errors
"""The call of reverse_subsequences."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..._core.errors import index_error
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.shapes import extent, flat
from ..._core.tensor import data_type_name, packed_strides, product
from ..._jit.memory import ANY, UNSIGNED_REFS
from ..drivers import OVERLAP
from ..kernels.reverse_subsequences import CACHED_BYTES, CHECKS, LEAST_PART, MOST_COLUMNS, ROW_BYTES, reverse_kernel
from ..launch import launcher
from ..primitives.moves.plan import INDEX_KINDS
from .build import _fix


class ReverseCall:
    """The call for one layout."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> None:
        data, lengths = descriptor.input_tensor, descriptor.sequence_lengths_tensor
        self.function, self.axis, self.shape = descriptor.function, descriptor.axis, output_shapes[0]
        self.dtype = data.dtype
        self.empty = allocator(self.shape, self.dtype)
        (strides, dtype), length_layout = layouts
        self.copies = not dtype.isnative
        if self.copies:
            strides = packed_strides(data.sizes, data.itemsize)
        self.fix_lengths = _fix(lengths, *length_layout)
        self.size = data.sizes[self.axis]
        count = lengths.element_count
        unit, numbers = _lines(descriptor.lower([strides]), data.itemsize)
        low, high = extent(data.sizes, strides)
        out_bytes = data.element_count * data.itemsize
        same = out_bytes > 0 and all(
            size == 1 or step == packed
            for size, step, packed in zip(data.sizes, strides, packed_strides(data.sizes, data.itemsize), strict=True)
        )
        kind = INDEX_KINDS.index(data_type_name(lengths.data_type))
        about = [int(descriptor.bounds == "raise"), kind, count, count * lengths.itemsize]
        about += [low, high + data.itemsize, out_bytes, int(same)]
        self.plan = np.array([*numbers[:CHECKS], *about, *numbers[CHECKS:]], np.int64)
        self.work = self.effort = 2 * out_bytes + count * lengths.itemsize
        ref = UNSIGNED_REFS[unit]
        self.launch, driver = launcher(reverse_kernel, (ref, ref, ANY, ANY), self.effort)
        self.kernel = f"reverse_subsequences {8 * unit}-bit {driver}"

    def __call__(self, a: Any, lengths: Any, out: Any) -> Any:
        result = self.empty(self.shape, self.dtype) if out is None else out
        if out is None or check_out(self.function, "out", out, self.shape, self.dtype):
            source = a.astype(self.dtype, "C") if self.copies else a
            packed = self.fix_lengths(lengths) if self.fix_lengths else lengths
            status = self.launch(source, result, packed, packed, self.plan)
            if status == 0:
                return result
            if status != OVERLAP:
                raise self.error_at(a, lengths, status - 1)
        out[...] = self(a, lengths, None)
        return out

    def error_at(self, a: Any, lengths: Any, position: int) -> IndexError:
        """Return the error for the length at a flat position."""
        where = np.unravel_index(position, lengths.shape)
        return index_error(self.function, where, int(lengths[where]), self.axis, self.size, "lengths")


def _lines(low: Any, itemsize: int) -> tuple[int, list[int]]:
    """Return the bytes of a unit, and the numbers of a plan up to CHECKS, then those of the rows."""
    inner, run = list(low.inner), itemsize
    if inner and inner[-1][1:] == (itemsize, itemsize, 0):
        run *= inner.pop()[0]
    unit = next(unit for unit in (8, 4, 2, 1) if run % unit == 0)
    row = inner.pop() if inner else (1, 0, 0, 0)
    rows = [*low.outer, *inner]
    lines, threads = product([size for size, *_ in rows]), numba.config.NUMBA_NUM_THREADS
    if run == 0:  # slices of nothing, whose lengths may be nothing too
        lines = 0
    strips = parts = 1
    if 0 < lines < 4 * threads:
        strips = max(min(row[0] * low.size // LEAST_PART, row[0] // 64, 4 * threads), 1)
        parts = max(min(row[0] * low.size * run // itemsize // LEAST_PART, low.size // 2, 4 * threads // strips), 1)
    block = max(CACHED_BYTES // max(low.size * run, 1), ROW_BYTES // max(run, 1), 1)
    header = [lines, len(rows), low.size, low.stride, low.out_stride, *row, run // unit, strips, parts]
    header.append(min(block, MOST_COLUMNS))
    return unit, header + flat(rows)


build = ReverseCall
