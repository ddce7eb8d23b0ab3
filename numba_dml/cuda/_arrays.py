"""What calls do with arrays around a kernel: host arrays, outputs, scratch memory, and the order of streams."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from .._device import DEFAULT_STREAM, DeviceArray, Library, library_of
from .._tensor import elements_overlap, is_packed, packed_strides
from . import SIMULATED, cuda
from ._launch import on_device, wait_for

#: Calls ask for the same few layouts again and again: 2 µs each.
is_packed_layout = lru_cache(maxsize=4096)(is_packed)


class _Own(Library):
    """Arrays of the package's own: bytes in memory that Numba allocates, in the simulator host memory."""

    def view(self, array: DeviceArray) -> DeviceArray:
        return array

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        with on_device(device):
            memory: Any = np.empty(size, np.uint8) if SIMULATED else cuda.device_array(max(size, 1), np.uint8)
        pointer = memory.ctypes.data if SIMULATED else memory.__cuda_array_interface__["data"][0]
        strides = packed_strides(shape, dtype.itemsize)
        return DeviceArray(memory, self, pointer, shape, strides, dtype, device, DEFAULT_STREAM)

    def to_device(self, array: ndarray[Any, Any], device: int) -> DeviceArray:
        """Return a packed copy of a host array."""
        copy = self.empty(array.shape, array.dtype.newbyteorder("="), device)
        if array.size:
            data = np.ascontiguousarray(array, copy.dtype).reshape(-1).view(np.uint8)
            if SIMULATED:
                copy.owner[...] = data
            else:
                copy.owner.copy_to_device(data)
        return copy

    def finish(self, result: DeviceArray, stream: int) -> ndarray[Any, Any]:
        return self.to_host(result)

    def to_host(self, array: DeviceArray) -> ndarray[Any, Any]:
        """Return a copy in host memory."""
        data = array.owner.copy() if SIMULATED else array.owner.copy_to_host()
        size = int(np.prod(array.shape, dtype=object)) * array.dtype.itemsize
        return data[:size].view(array.dtype).reshape(array.shape) if size else np.empty(array.shape, array.dtype)


OWN = _Own()


def view_out(
    function: str, name: str, a: DeviceArray, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[DeviceArray, bool]:
    """Check an output that the caller gave; return what a kernel needs to know of it, and whether it is packed."""
    library = library_of(out)
    if library is None or library.read_only or a.library is OWN:
        expected = "a numpy.ndarray" if a.library is OWN else "an array on the device that can be written"
        raise TypeError(f"{function}: {name}: found {type(out).__name__}, expected {expected}")
    try:
        array = library.view_out(out)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{function}: {name}: {error}") from None
    if array.dtype != dtype:
        raise TypeError(f"{function}: {name}: found dtype {array.dtype}, expected {dtype}")
    if array.shape != shape:
        raise ValueError(f"{function}: {name}: found shape {array.shape}, expected {shape}")
    if array.device != a.device:
        raise ValueError(f"{function}: {name}: found an array on device {array.device}, expected device {a.device}")
    if is_packed_layout(shape, array.strides, dtype.itemsize):
        return array, True
    if elements_overlap(shape, array.strides, dtype.itemsize):
        raise ValueError(f"{function}: {name}: found strides {array.strides}, expected elements that do not overlap")
    return array, False


def scratch(a: DeviceArray, size: int) -> DeviceArray:
    """Return memory from the pool of an array's library, to be held until all that uses it is launched."""
    return a.library.memory(size, a.device)


def join(stream: int, *arrays: DeviceArray) -> None:
    """Let a stream wait for what the libraries of some arrays have been given so far."""
    for array in arrays:
        if array.home != stream:
            wait_for(array.device, stream, array.home)


def part(stream: int, *arrays: DeviceArray) -> None:
    """Let these libraries wait for a stream: what they do later with the arrays, or with memory that is free again."""
    for array in arrays:
        if array.home != stream:
            wait_for(array.device, array.home, stream)
