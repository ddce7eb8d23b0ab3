"""From a lowering to a call: the plan that a kernel reads, the driver that runs it, and what Python does around it.

A call belongs to one descriptor and one memory layout. On the way of a known layout nothing is validated but `out`.
What is rare happens elsewhere: operands that a kernel cannot read as they are (`_Prepared`), an `out` that is strided
or lies in an input, a bad index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .._lowering import Move, Select
from .._operator import Descriptor, check_out
from .._tensor import is_packed, packed_strides


def build(
    descriptor: Descriptor,
    layouts: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
    output_shapes: tuple[tuple[int, ...], ...],
    out_strides: tuple[int, ...] | None,
) -> Any:
    """Return the call for a descriptor and the layouts of its inputs.

    A first call gets to import the kernels of its own kind only.
    """
    tensors = [getattr(descriptor, name) for name in descriptor.input_fields]
    native = [dtype.isnative for _, dtype in layouts]
    packed = [is_packed(t.sizes, strides, t.itemsize) for t, (strides, _) in zip(tensors, layouts, strict=True)]
    if descriptor.function == "top_k":
        from ._top_k_calls import TopKCall

        # What a kernel sees of foreign byte order is a packed copy, whatever strides the array has.
        strides = layouts[0][0] if native[0] else packed_strides(tensors[0].sizes, tensors[0].itemsize)
        lowering = descriptor.lower([strides])
        assert isinstance(lowering, Select)
        return _prepared(TopKCall(descriptor, lowering, output_shapes), [None if native[0] else _packed_copy])
    from ._move_calls import GatherCall, ScatterCall

    # Indices and updates are read whole, so a copy costs little; of the data only a part may be read.
    fixes: list[Any] = [None if n and p else _packed_copy for n, p in zip(native, packed, strict=True)]
    if descriptor.function.startswith("gather"):
        lowering = descriptor.lower([layouts[0][0]])
        assert isinstance(lowering, Move)
        call = _prepared(GatherCall(lowering, tensors[0].dtype, output_shapes[0]), [None, fixes[1]])
        return call if native[0] else _SwappedGather(call, tensors[0].dtype)
    if out_strides is not None and len(out_strides) != tensors[0].dimension_count:
        out_strides = None  # of another rank: the call will say so
    data_strides = packed_strides(tensors[0].sizes, tensors[0].itemsize) if out_strides is None else out_strides
    lowering = descriptor.lower([data_strides])
    assert isinstance(lowering, Move)
    kernel_copies = packed[0] and is_packed(tensors[0].sizes, data_strides, tensors[0].itemsize)
    return _prepared(
        ScatterCall(lowering, tensors[0].dtype, output_shapes[0], kernel_copies),
        [None if native[0] else _native_copy, fixes[1], fixes[2]],
    )


def _native_copy(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    return array.astype(array.dtype.newbyteorder("="))


def _packed_copy(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def _prepared(call: Any, fixes: list[Any]) -> Any:
    return _Prepared(call, fixes) if any(fixes) else call


class _Around:
    """A call around another one."""

    def __init__(self, call: Any) -> None:
        self.call, self.function, self.kernel, self.work = call, call.function, call.kernel, call.work


class _Prepared(_Around):
    """A call whose inputs are copied first where a kernel cannot read them as they are."""

    def __init__(self, call: Any, fixes: list[Any]) -> None:
        super().__init__(call)
        self.fixes = fixes

    def __call__(self, *args: Any) -> Any:
        *inputs, out = args
        fixed = [fix(array) if fix else array for fix, array in zip(self.fixes, inputs, strict=True)]
        if out is not None and inputs[0] is out and fixed[0] is not out:
            raise TypeError(f"{self.function}: out: found dtype {out.dtype}, expected {fixed[0].dtype}")
        return self.call(*fixed, out)


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
