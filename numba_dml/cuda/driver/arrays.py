"""What calls do with arrays around a kernel: host arrays, outputs, scratch memory, and the order of streams."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DEFAULT_STREAM, DeviceArray, Library
from ..._core.devices.dlpack import Borrowed
from ..._core.devices.libraries import library_of_type
from ..._core.shapes import extent
from ..._core.tensor import TensorDesc, elements_overlap, is_packed, native_dtype, packed_strides, product
from .context import on_device
from .launch import recorder
from .machine import on_gpu
from .memory import copy_elements
from .numba import cuda
from .streams import wait_for


@on_gpu
def new_bytes(size: int, device: int) -> tuple[Any, int]:
    """Return new memory that Numba allocates, and its address."""
    with on_device(device):
        memory = cuda.device_array(max(size, 1), np.uint8)
    return memory, memory.__cuda_array_interface__["data"][0]


class _Own(Library):
    """Arrays of the package's own: bytes in memory that Numba allocates, in the simulator host memory."""

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        memory, pointer = new_bytes(product(shape) * dtype.itemsize, device)
        strides = packed_strides(shape, dtype.itemsize)
        return DeviceArray(memory, self, pointer, shape, strides, dtype, device, DEFAULT_STREAM)

    def to_device(self, array: ndarray[Any, Any], device: int) -> DeviceArray:
        """Return a packed copy of a host array."""
        copy = self.new(array.shape, native_dtype(array.dtype), device)
        if array.size and not array.dtype.hasobject:  # descriptors refuse objects
            copy.owner.copy_to_device(np.ascontiguousarray(array, copy.dtype).reshape(-1).view(np.uint8))
        return copy

    def finish(self, result: DeviceArray, stream: int) -> ndarray[Any, Any]:
        return self.to_host(result)

    def to_host(self, array: DeviceArray) -> ndarray[Any, Any]:
        """Return a copy in host memory."""
        data = array.owner.copy_to_host()
        size = product(array.shape) * array.dtype.itemsize
        return data[:size].view(array.dtype).reshape(array.shape) if size else np.empty(array.shape, array.dtype)


OWN = _Own()


class Output:
    """An output of a call: what is expected of the caller's array, and how a new one is made."""

    def __init__(self, function: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.function, self.name = function, name
        self.shape, self.dtype = shape, dtype
        self.strides = packed_strides(shape, dtype.itemsize)
        self.size = product(shape) * dtype.itemsize

    def new(self, a: DeviceArray) -> DeviceArray:
        """Return a new array of the library that the input is from."""
        return a.library.new(self.shape, self.dtype, a.device)

    def view(self, a: DeviceArray, out: Any) -> tuple[DeviceArray, bool]:
        """Check the caller's array; return what a kernel needs to know of it, and whether it is packed."""
        library = library_of_type(out.__class__)
        array = None
        if library is not None and not library.read_only and a.library is not OWN:
            try:
                array = library.view_out(out)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{self.function}: {self.name}: {error}") from None
        if array is None:
            expected = "a numpy.ndarray" if a.library is OWN else "an array on the device that can be written"
            raise self.refuse(TypeError, type(out).__name__, expected)
        if array.dtype != self.dtype:
            raise self.refuse(TypeError, f"dtype {array.dtype}", self.dtype)
        if array.shape != self.shape:
            raise self.refuse(ValueError, f"shape {array.shape}", self.shape)
        if array.device != a.device:
            raise self.refuse(ValueError, f"an array on device {array.device}", f"device {a.device}")
        if array.strides == self.strides or is_packed(self.shape, array.strides, self.dtype.itemsize):
            # A tensor that is negated only when it is read has other memory, which is to be copied back.
            own = array.owner is out or isinstance(array.owner, Borrowed)
            if not own and library is not a.library:
                raise self.refuse(ValueError, "a tensor that is negated when it is read", "one that is not")
            return array, own
        if elements_overlap(self.shape, array.strides, self.dtype.itemsize):
            raise self.refuse(ValueError, f"strides {array.strides}", "elements that do not overlap")
        return array, False

    def refuse(self, kind: type[Exception], found: str, expected: Any) -> Exception:
        """Return the error for an array that does not fit."""
        return kind(f"{self.function}: {self.name}: found {found}, expected {expected}")


class Span(NamedTuple):
    """Where an array of a layout lies: the first byte and the one after the last, from its pointer; has it gaps?"""

    low: int
    high: int
    packed: bool

    @classmethod
    def of(cls, sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Span:
        """Return the span of a layout."""
        low, high = extent(sizes, strides)
        return cls(low, high + itemsize, is_packed(sizes, strides, itemsize))


def spans_of(tensors: Iterable[TensorDesc], layouts: Iterable[tuple[tuple[int, ...], np.dtype[Any]]]) -> list[Span]:
    """Return the spans of the inputs of a call, by their layouts."""
    return [
        Span.of(tensor.sizes, strides, tensor.itemsize) for tensor, (strides, _) in zip(tensors, layouts, strict=True)
    ]


def assign(a: DeviceArray, out: Any, packed: Any) -> None:
    """Copy a new result, of the library of `a`, to an array of the caller's, of any strides."""
    library = library_of_type(out.__class__)
    if library is a.library and library.assign(out, packed):
        return
    target, source = library.view(out), a.library.view(packed)  # type: ignore[union-attr]
    assert target is not None, "`Output.view` has seen the output"
    assert source is not None, "a new result is on the device"
    waiting = join(a.stream, source, target)
    copy_elements(target, source, a.stream)
    part(a.device, a.stream, waiting)


def scratch(a: DeviceArray, size: int) -> DeviceArray:
    """Return memory from the pool of an array's library, to be held until all that uses it is launched."""
    memory = a.library.memory(size, a.device)
    recorder.note(memory)
    return memory


def join(stream: int, *arrays: DeviceArray) -> Collection[int | None]:
    """Let a stream wait for what the libraries of some arrays have been given so far; return their other streams."""
    others: Collection[int | None] = ()
    for array in arrays:
        if array.home != stream and array.home not in others:
            wait_for(array.device, stream, array.home)
            others = (*others, array.home)
    return others


def part(device: int, stream: int, others: Collection[int | None]) -> None:
    """Let these streams wait for another: what is done there later to the arrays, or with memory that is free again."""
    for other in others:
        wait_for(device, other, stream)
