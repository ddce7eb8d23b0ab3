"""The calls of gathers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.lowering import Move
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.regions import first
from ..._core.tensor import packed_strides, product
from ..._jit.memory import ANY, UNSIGNED_REFS
from ..dispatch.gather import TABLE, facts_of, plan_gather
from ..drivers import OVERLAP
from ..launch import launcher
from ..primitives.moves import plan as moves_plan
from ..tuning.gather import TUNING
from .build import BLOCKED_COPY, _Around, _copy_to, _fixes, _prepared
from .move_call import MoveCall

#: A gather copies its input first if its slices have runs of fewer bytes than this, and it moves an element for each
#: COPIED_PART of the input or more.
SHORT_RUN, COPIED_PART = 64, 2


class GatherCall(MoveCall):
    """A gather of one layout."""

    regions = TABLE

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(lowering, dtype, shape)
        unit = self.unit()
        self.plan[moves_plan.RUN] = self.run // unit
        self.facts = facts = facts_of(self.plan)
        self.tuning = TUNING
        self.region = region = first(self.regions, facts, self.tuning)
        plan_gather(self.plan, facts, self.tuning)
        data = UNSIGNED_REFS[unit]
        self.launch, driver = launcher(region.kernel, (data, ANY, data, ANY), self.effort, prepare=self.set_finder)
        self.finish_plan()
        self.kernel = f"gather {self.moves_by(unit)} {driver}"

    def __call__(self, a: Any, indices: Any, out: Any) -> Any:
        result = self.empty(self.shape, self.dtype) if out is None else out
        if out is None or check_out(self.function, "out", out, self.shape, self.dtype):
            status = self.launch(a, indices, result, indices, self.plan)
            if status == 0:
                return result
            if status != OVERLAP:
                raise self.lowering.error_at(a, indices, status - 1)
        out[...] = self(a, indices, None)
        return out


class _SwappedGather(_Around):
    """A gather from an input in foreign byte order: only what was gathered is swapped."""

    def __init__(self, call: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(call)
        self.dtype = dtype

    def __call__(self, a: Any, indices: Any, out: Any) -> Any:
        # The bytes as they are, then NumPy's conversion: of a structured element only some fields may be foreign.
        result = self.call(a.view(self.dtype), indices, None).view(a.dtype).astype(self.dtype)
        if out is None:
            return result
        check_out(self.function, "out", out, result.shape, result.dtype)
        out[...] = result
        return out


def _copies_input(lowering: Move, sizes: tuple[int, ...], output_sizes: tuple[int, ...]) -> bool:
    """Tell whether a gather of short runs is best from a packed copy of its input, as NumPy's: it moves as much."""
    if not lowering.slices:
        return False
    size, stride = lowering.slices[-1]
    run = size * stride if stride == lowering.itemsize else lowering.itemsize
    whole = product([size for size, _ in lowering.slices]) * lowering.itemsize
    return run < min(whole, SHORT_RUN) and product(sizes) <= COPIED_PART * product(output_sizes)


def _input_copy(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    if array.nbytes < BLOCKED_COPY:
        return array.copy()
    copy: ndarray[Any, Any] = allocator(array.shape, array.dtype)(array.shape, array.dtype)
    _copy_to(copy, array)
    return copy


def build(descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> Any:
    """Return the call for a descriptor and the layouts of its inputs."""
    data, (strides, dtype), shape = descriptor.input_tensor, layouts[0], output_shapes[0]
    lowering = descriptor.lower([strides])
    copies = _copies_input(lowering, data.sizes, shape)
    if copies:
        lowering = descriptor.lower([packed_strides(data.sizes, data.itemsize)])
    call = GatherCall(lowering, data.dtype, shape)
    call = _prepared(call, [_input_copy if copies else None, *_fixes(descriptor, layouts)])
    return call if dtype.isnative else _SwappedGather(call, data.dtype)
