"""The call that finds the elements that are not zero."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numpy import ndarray

from ..._core.lowering import Nonzero
from ..._core.operands import check_apart, check_out, output_pair
from ..._core.pool import allocator
from ..._core.shapes import COORD_FIELDS, collapse_rows
from ..._jit.memory import ANY, UNSIGNED_REFS, reference_to
from ..kernels.compaction import SHARES, mark_kernel, write_kernel
from ..launch import launcher
from ..primitives import compaction

_TABLE = compaction.positions_of_bits()
#: References to elements, by their bytes.
_INPUTS = {**UNSIGNED_REFS, 16: reference_to(types.complex128)}


class CompactionCall:
    """The coordinates of one layout."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> None:
        (strides, dtype), *_ = layouts
        self.function, self.bounds = descriptor.function, descriptor.bounds
        data, count, rows = descriptor.tensors().values()
        self.count_shape, shape = output_shapes
        self.sized = None not in shape
        self.capacity, columns = rows.sizes[-2:]
        self.shape = shape if self.sized else rows.sizes
        self.count_dtype, self.dtype = count.dtype, rows.dtype
        self.fill_value = descriptor.fill_value or 0
        self.empty = allocator(self.shape, self.dtype) if self.sized else None
        size = data.element_count
        self.work = self.effort = size * data.itemsize
        self.kernel = f"{self.function} nothing to find"
        self.idle = size == 0
        if self.idle:
            return
        lowering = descriptor.lower([strides])
        mask = lowering.mask if dtype.isnative else _swapped(lowering.mask, dtype)
        dims = [number for pair in zip(data.sizes, strides, strict=True) for number in pair]
        count = collapse_rows(dims, COORD_FIELDS, len(data.sizes))
        dims = dims[: COORD_FIELDS * count] or [1, data.itemsize]
        sizes = data.sizes[len(data.sizes) - columns :]
        signed = mask - (1 << 64) if mask >> 63 else mask
        self.chunks = -(-size // compaction.CHUNK)
        lists = min(self.chunks, SHARES * numba.config.NUMBA_NUM_THREADS)
        header = size, signed, len(dims) // COORD_FIELDS, columns, self.capacity, lists
        self.plan = np.array([*header, *dims, *sizes], np.int64)
        self.words = self.chunks + 1 + -(-size // compaction.WORD) + lists * compaction.LIST_BYTES // 8
        self.scratch = allocator((self.words,), np.dtype(np.int64))
        arrays = _INPUTS[data.itemsize], ANY, ANY, ANY
        self.mark, driver = launcher(mark_kernel, arrays, self.effort)
        self.write, _ = launcher(write_kernel, (ANY, UNSIGNED_REFS[rows.itemsize], ANY, ANY), self.effort)
        self.kernel = f"{self.function} {8 * data.itemsize}-bit {driver}"

    def __call__(self, a: ndarray[Any, Any], out: Any) -> Any:
        if out is not None:
            return self.to_outputs(a, out)
        scratch, count = self.marked(a)
        if not self.sized:
            shape = count, self.shape[-1]
            rows = allocator(shape, self.dtype)(shape, self.dtype)
            self.write_rows(scratch, rows, count)
            return rows
        self.check(count)
        rows = self.empty(self.shape, self.dtype)  # type: ignore[misc]
        self.write_rows(scratch, rows, count)
        rows[..., count:, :] = self.fill_value
        return Nonzero(np.full(self.count_shape, count, self.count_dtype), rows)

    def to_outputs(self, a: ndarray[Any, Any], out: Any) -> Nonzero:
        """Write to arrays of the caller, which may lie in the input."""
        number, rows = output_pair(self.function, out, "(count, coordinates)")
        check_out(self.function, "out[0]", number, self.count_shape, self.count_dtype)
        contiguous = check_out(self.function, "out[1]", rows, self.shape, self.dtype)
        check_apart(self.function, number, rows)
        scratch, count = self.marked(a)
        self.check(count)
        if contiguous:
            self.write_rows(scratch, rows, count)
        else:
            copy = np.empty(self.shape, self.dtype)
            self.write_rows(scratch, copy, count)
            rows[..., :count, :] = copy[..., :count, :]
        number[...] = count
        return Nonzero(number, rows)

    def marked(self, a: ndarray[Any, Any]) -> tuple[Any, int]:
        """Return the memory with a bit for each element, and how many are not zero."""
        if self.idle:
            return a, 0
        scratch = self.scratch((self.words,), np.dtype(np.int64))
        self.mark(a, scratch, a, a, self.plan)
        return scratch, int(scratch[self.chunks])

    def check(self, count: int) -> None:
        """Refuse more elements than there is room for."""
        if count > self.capacity and self.bounds != "drop":
            raise ValueError(f"{self.function}: size: found {count} nonzero elements, expected at most {self.capacity}")

    def write_rows(self, scratch: Any, rows: ndarray[Any, Any], count: int) -> None:
        """Write the coordinates."""
        if count and rows.size:
            self.write(scratch, rows, _TABLE, rows, self.plan)


def _swapped(mask: int, dtype: np.dtype[Any]) -> int:
    """Return the bits of a mask in the other byte order, as they are in an element, or in its parts."""
    width = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    parts = [mask >> at & ((1 << 8 * width) - 1) for at in range(0, min(8 * dtype.itemsize, 64), 8 * width)]
    swapped = [int.from_bytes(part.to_bytes(width, "little"), "big") for part in parts]
    return sum(part << (8 * width * i) for i, part in enumerate(swapped))


build = CompactionCall
