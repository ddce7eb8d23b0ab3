# mypy: ignore-errors
"""The call of one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.errors import index_error
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.tensor import data_type_name
from ..._jit.memory import ANY, SIGNED_REFS, UNSIGNED_REFS
from ..drivers import OVERLAP
from ..kernels.one_hot import BLOCK_BYTES, LEAST_ROWS, MOST_INDICES, PART_BYTES, one_hot_kernel
from ..launch import launcher
from ..primitives.moves.plan import CLAMP, DROP, INDEX_KINDS, RAISE
from ..tuning.moves import TUNING
from .build import _fix

_BOUNDS = {"clamp": CLAMP, "drop": DROP}


class OneHotCall:
    """The call for one layout."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> None:
        indices, output = descriptor.indices_tensor, descriptor.output_tensor
        self.function, self.axis = descriptor.function, descriptor.axis
        self.shape, self.dtype = output_shapes[0], output.dtype
        self.empty = allocator(self.shape, self.dtype)
        (strides, dtype), *_ = layouts
        self.fix = _fix(indices, strides, dtype)
        outer, depth, inner, bounds = low = descriptor.lower([strides])
        self.depth, width = depth, self.dtype.itemsize
        index_bytes, out_bytes = outer * inner * dtype.itemsize, outer * depth * inner * width
        kind = INDEX_KINDS.index(data_type_name(indices.data_type))
        plan = [*low[:3], width, kind, _BOUNDS.get(bounds, RAISE), *tile_sizes(outer, depth, inner, width)]
        self.plan = np.array([*plan, index_bytes, out_bytes, out_bytes >= TUNING.stream_bytes], np.int64)
        self.work = self.effort = index_bytes + out_bytes
        data = SIGNED_REFS.get(width, UNSIGNED_REFS[1])
        self.launch, driver = launcher(one_hot_kernel, (ANY, data, data, ANY), self.effort)
        self.kernel = f"one_hot {8 * width}-bit {driver}"

    def __call__(self, indices: Any, values: Any, out: Any) -> Any:
        result = self.empty(self.shape, self.dtype) if out is None else out
        if out is None or check_out(self.function, "out", out, self.shape, self.dtype):
            packed = self.fix(indices) if self.fix else indices
            if values.ndim != 1 or values.strides[0] != self.dtype.itemsize or not values.dtype.isnative:
                values = values.reshape(-1)[:2].astype(self.dtype)
            # By a copy the kernel does not see that the output has memory of the indices.
            hidden = packed is not indices and np.may_share_memory(indices, result)
            status = OVERLAP if hidden else self.launch(packed, result, values, packed, self.plan)
            if status == 0:
                return result
            if status != OVERLAP:
                raise self.error_at(indices, status - 1)
        out[...] = self(indices, values, None)
        return out

    def error_at(self, indices: Any, position: int) -> IndexError:
        """Return the error for the index at a flat position."""
        where = np.unravel_index(position, indices.shape)
        return index_error(self.function, where, int(indices[where]), self.axis, self.depth)


def tile_sizes(outer: int, depth: int, inner: int, width: int) -> tuple[int, int, int]:
    """Return the blocks, rows and columns of a tile: whole blocks, or whole rows of one, or a part of each."""
    block = depth * inner * width
    if 0 < block <= BLOCK_BYTES and inner <= MOST_INDICES:
        return min(BLOCK_BYTES // block, MOST_INDICES // inner, max(outer, 1)), depth, inner
    columns = min(inner, MOST_INDICES, max(PART_BYTES // (width * min(max(depth, 1), LEAST_ROWS)), 1))
    if 16 < columns < inner:
        columns -= columns % 16  # whole cache lines
    columns = max(columns, 1)
    return 1, max(min(depth, PART_BYTES // (columns * width)), 1), columns


build = OneHotCall
