"""From a lowering to a call: the plan that a kernel reads, the driver that runs it, and what Python does around it.

A call belongs to one descriptor and one memory layout. On the way of a known layout nothing is validated but `out`.
What is rare happens elsewhere: operands that a kernel cannot read as they are (`_Prepared`), an `out` that is strided
or lies in an input, a bad index.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.descriptor import Descriptor
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.shapes import ELEMENTS
from ..._core.targets import family_calls
from ..._core.tensor import TensorDesc, is_packed

#: A copy of BLOCKED_COPY bytes or more goes by blocks of BLOCK_COLUMNS columns if neighbours in a row of the source lie
#: FAR_APART bytes or more apart.
BLOCKED_COPY, BLOCK_COLUMNS, FAR_APART = 1 << 22, 256, 1 << 10


Layouts = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
Shapes = tuple[tuple[int, ...], ...]


# Each family imports its kernels when it is first built: a first call compiles and imports those of its own kind only.


def build(descriptor: Descriptor, layouts: Layouts, output_shapes: Shapes, out_strides: tuple[int, ...] | None) -> Any:
    """Return the call for a descriptor and the layouts of its inputs."""
    if order := _common_order(descriptor, layouts, out_strides):
        return _Transposed(descriptor, layouts, out_strides, order)
    family = family_calls("cpu", descriptor.function, descriptor.spec.family)
    return family.build(descriptor, layouts, output_shapes, out_strides)


def _fixes(descriptor: Descriptor, layouts: Layouts) -> list[Any]:
    """Return what copies indices and updates first: they are read whole, so that costs little."""
    tensors = [getattr(descriptor, name) for name in descriptor.input_fields[1:]]
    return [_fix(tensor, *layout) for tensor, layout in zip(tensors, layouts[1:], strict=True)]


def _fix(tensor: TensorDesc, strides: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return what copies an array that kernels cannot read as it is, or None."""
    return None if dtype.isnative and is_packed(tensor.sizes, strides, dtype.itemsize) else _packed_copy


def _common_order(descriptor: Descriptor, layouts: Any, out_strides: tuple[int, ...] | None) -> list[int] | None:
    """Return the dimensions of an operator on elements as all its arrays have them in memory, if not in C order."""
    if descriptor.spec.addressing != ELEMENTS:
        return None
    sizes = [getattr(descriptor, name).sizes for name in descriptor.input_fields]
    arrays = list(zip(sizes, (strides for strides, _ in layouts), strict=True))
    if out_strides is not None and len(out_strides) == len(sizes[0]):
        arrays.append((sizes[0], out_strides))
    steps = [abs(stride) if size > 1 else 0 for size, stride in zip(*arrays[1], strict=True)]  # of the indices
    order = sorted(range(len(steps)), key=lambda d: -steps[d])
    for shape, strides in arrays:
        steps = [abs(strides[d]) for d in order if shape[d] > 1 and strides[d]]
        if steps != sorted(steps, reverse=True):
            return None
    return order if order != sorted(order) else None


def _packed_copy(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def _copy_to(target: ndarray[Any, Any], source: ndarray[Any, Any]) -> None:
    """Copy to an array in C order, in blocks of columns where neighbours in a row of the source are far apart.

    NumPy goes row by row, and each element of a long row is in another cache line and page.
    """
    if target.nbytes < BLOCKED_COPY or abs(source.strides[-1]) < FAR_APART:
        np.copyto(target, source)
        return
    for column in range(0, target.shape[-1], BLOCK_COLUMNS):
        part = ..., slice(column, column + BLOCK_COLUMNS)
        np.copyto(target[part], source[part])


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
        if out is not None and inputs[0] is out and fixed[0].dtype != out.dtype:
            raise TypeError(f"{self.function}: out: found dtype {out.dtype}, expected {fixed[0].dtype}")
        copied = [array for fix, array in zip(self.fixes, inputs, strict=True) if fix]
        if not isinstance(out, ndarray) or not any(np.may_share_memory(array, out) for array in copied):
            return self.call(*fixed, out)
        before = out.copy()
        try:
            return self.call(*fixed, out)
        except IndexError:  # the kernel saw the copies alone, and has left results in the inputs
            out[...] = before
            raise


class _Transposed:
    """An operator on elements whose arrays share an order of dimensions that is not C order: it runs in theirs.

    Updates meet only where they differ along the axis alone, and no order of the dimensions changes the order there.
    """

    def __init__(self, descriptor: Any, layouts: Any, out_strides: tuple[int, ...] | None, order: list[int]) -> None:
        def turned(dims: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(dims[d] for d in order)

        tensors = descriptor.tensors()
        fields = {name: replace(tensor, sizes=turned(tensor.sizes), strides=None) for name, tensor in tensors.items()}
        output = tensors[descriptor.output_fields[0]]
        turned_layouts = tuple((turned(strides), dtype) for strides, dtype in layouts)
        turned_out = turned(out_strides) if out_strides and len(out_strides) == len(order) else None
        inner = replace(descriptor, **fields, axis=order.index(descriptor.axis))
        self.turned = build(inner, turned_layouts, (turned(output.sizes),), turned_out)
        self.order, self.inverse = order, np.argsort(order)
        self.shape, self.dtype = output.sizes, output.dtype
        self.empty = allocator(self.shape, self.dtype)
        self.lowering = descriptor.lower([layouts[0][0]])

    def __getattr__(self, name: str) -> Any:
        """Return what the call within says of itself; shape and dtype are those of this one."""
        within = self.turned
        while hasattr(within, "call"):
            within = within.call
        return getattr(within, name)  # which has no call within, so that nobody looks for its shape there

    def __call__(self, *args: Any) -> Any:
        *inputs, out = args
        turned_out = None
        if out is not None:
            check_out(self.function, "out", out, self.shape, self.dtype)
            turned_out = out.transpose(self.order)
        turned = [turned_out if array is out else array.transpose(self.order) for array in inputs]
        try:
            result = self.turned(*turned, turned_out)
        except IndexError:  # it names the first bad index in the order of the transposed indices
            raise self.lowering.first_error(inputs[0], inputs[1]) from None
        if out is None:
            out = self.empty(self.shape, self.dtype)
            _copy_to(out, result.transpose(self.inverse))
        return out
