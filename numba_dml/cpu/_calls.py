"""From a lowering to a call: the plan that a kernel reads, the driver that runs it, and what Python does around it.

A call belongs to one descriptor and one memory layout. On the way of a known layout nothing is validated but `out`.
What is rare happens elsewhere: operands that a kernel cannot read as they are (`_Prepared`), an `out` that is strided
or lies in an input, a bad index.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy import ndarray

from .._lowering import Move, Select
from .._operator import Descriptor, check_out
from .._tensor import TensorDesc, is_packed, packed_strides


def build(
    descriptor: Descriptor,
    layouts: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
    output_shapes: tuple[tuple[int, ...], ...],
    out_strides: tuple[int, ...] | None,
) -> Any:
    """Return the call for a descriptor and the layouts of its inputs."""
    tensors = [getattr(descriptor, name) for name in descriptor.input_fields]
    data, (strides, dtype), shape = tensors[0], layouts[0], output_shapes[0]
    native = dtype.isnative
    if descriptor.function == "top_k":
        # What a kernel sees of foreign byte order is a packed copy, whatever strides the array has.
        lowering = descriptor.lower([strides if native else packed_strides(data.sizes, data.itemsize)])
        assert isinstance(lowering, Select)
        call = _top_k_calls().TopKCall(descriptor, lowering, output_shapes)
        return call if native else _Prepared(call, [_packed_copy])
    # Indices and updates are read whole, so a copy costs little; of the data only a part may be read.
    fixes = [_fix(tensor, *layout) for tensor, layout in zip(tensors[1:], layouts[1:], strict=True)]
    if descriptor.function.startswith("gather"):
        lowering = descriptor.lower([strides])
        assert isinstance(lowering, Move)
        call = _prepared(_move_calls().GatherCall(lowering, data.dtype, shape), [None, *fixes])
        return call if native else _SwappedGather(call, data.dtype)
    if out_strides is not None and len(out_strides) != data.dimension_count:
        out_strides = None  # of another rank: the call will say so
    kernel_copies = is_packed(data.sizes, strides, data.itemsize)
    if out_strides is None:
        out_strides = packed_strides(data.sizes, data.itemsize)
    else:
        kernel_copies = kernel_copies and is_packed(data.sizes, out_strides, data.itemsize)
    lowering = descriptor.lower([out_strides])
    assert isinstance(lowering, Move)
    call = _move_calls().ScatterCall(lowering, data.dtype, shape, kernel_copies)
    return _prepared(call, [None if native else _native_copy, *fixes])


def _fix(tensor: TensorDesc, strides: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return what copies an array that kernels cannot read as it is, or None."""
    return None if dtype.isnative and is_packed(tensor.sizes, strides, dtype.itemsize) else _packed_copy


# A first call gets to import the kernels of its own kind only.
@cache
def _move_calls() -> Any:
    from . import _move_calls

    return _move_calls


@cache
def _top_k_calls() -> Any:
    from . import _top_k_calls

    return _top_k_calls


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
