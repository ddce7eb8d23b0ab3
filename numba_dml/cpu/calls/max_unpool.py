"""The call of max_unpool: a scatter whose input is one value all over.

The figures are under "The fill of max_unpool" in docs/measurements/cpu_small_operators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.lowering import Move
from ..._core.operands import check_out
from ..dispatch.scatter import Facts
from ..primitives.moves import plan as moves_plan
from .build import _fix, _prepared
from .scatter import ScatterCall

#: Bytes of the value, repeated, that kernels copy all over the output: they stay in the L1.
TILE_BYTES = 1 << 14


class FilledScatter(ScatterCall):
    """A scatter that copies no input, but repeats one; only the kernels for any layout do."""

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(lowering, dtype, shape, kernel_copies=True)
        self.tile_size = min(max(TILE_BYTES // self.dtype.itemsize, 1), max(self.whole // self.dtype.itemsize, 1))
        self.plan[moves_plan.FILL] = self.tile_size * self.dtype.itemsize
        self.work -= self.whole

    def _facts(self) -> Facts:
        return super()._facts()._replace(copies=False)


class MaxUnpoolCall:
    """The call for one layout."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> None:
        data, indices = descriptor.input_tensor, descriptor.indices_tensor
        self.function, self.shape, self.dtype = descriptor.function, output_shapes[0], data.dtype
        inner = FilledScatter(descriptor.lower([layouts[0][0]]), self.dtype, self.shape)
        #: It takes the tile, the indices, the elements and the output.
        self.scatter = _prepared(inner, [None, _fix(indices, *layouts[1]), _fix(data, *layouts[0])])
        self.region, self.regions, self.facts, self.tuning = inner.region, inner.regions, inner.facts, inner.tuning
        self.kernel, self.effort, self.work, self.alone = inner.kernel, inner.effort, inner.work, inner.alone
        self.tile_size, self.lowering = inner.tile_size, inner.lowering
        self.zeros = self.tile_of(np.zeros((), self.dtype))
        self.filled: Any = None, None

    def tile_of(self, value: ndarray[Any, Any]) -> ndarray[Any, Any]:
        """Return a value, repeated, with the dimensions of the output, which errors name."""
        tile = np.empty((1,) * (len(self.shape) - 1) + (self.tile_size,), self.dtype)
        tile[...] = value
        return tile

    def __call__(self, a: Any, indices: Any, *rest: Any) -> Any:
        *fill, out = rest
        tile = self.zeros
        if fill:
            known, tile = self.filled
            if known is not fill[0]:
                tile = self.tile_of(fill[0])
                self.filled = fill[0], tile
        if out is not None and not check_out(self.function, "out", out, self.shape, self.dtype):
            out[...] = self.scatter(tile, indices, a, None)
            return out
        return self.scatter(tile, indices, a, out)


build = MaxUnpoolCall
