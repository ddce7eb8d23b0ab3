"""Arrays that a kernel cannot take as they are: host arrays, and indices that are not contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .._device import DEFAULT_STREAM, DeviceArray, Library
from .._tensor import packed_strides
from . import SIMULATED, cuda
from ._launch import on_device


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
