"""Memory of the package's own on a device, and copies there."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from .context import _checked, _function, check, on_device
from .machine import on_gpu
from .numba import driver

_copy_bytes = _function("cuMemcpyDtoDAsync", 4)
_set_bytes = _function("cuMemsetD8Async", 4)


def _free_with(memory: DeviceMemory | HostWords, free: Any) -> None:
    """Free memory when its object dies; what lives until the process ends goes with the context."""

    def release(device: int, address: int) -> None:
        with on_device(device):
            free(address)

    weakref.finalize(memory, release, memory.device, memory.address).atexit = False


@on_gpu
def allocate(memory: DeviceMemory, contents: ndarray[Any, Any]) -> int:
    """Return the address of new memory with these contents."""
    with on_device(memory.device):
        memory.address = int(_checked(driver.cuMemAlloc(max(memory.size, 1))))
        _free_with(memory, driver.cuMemFree)
        _checked(driver.cuMemcpyHtoD(memory.address, contents.ctypes.data, memory.size))
    return memory.address


@on_gpu
def allocate_words(memory: HostWords, contents: ndarray[Any, Any]) -> Any:
    """Return new words with these contents; the object gets their address on devices."""
    flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
    with on_device(memory.device):
        memory.address = int(_checked(driver.cuMemHostAlloc(contents.nbytes, flags)))
        _free_with(memory, driver.cuMemFreeHost)
    words = np.ctypeslib.as_array((ctypes.c_int64 * contents.size).from_address(memory.address))
    words[...] = contents
    return words


class DeviceMemory:
    """Memory of our own on a device, for as long as this object lives."""

    #: What there is of it, by address.
    known: weakref.WeakValueDictionary[int, DeviceMemory] = weakref.WeakValueDictionary()

    def __init__(self, device: int, contents: ndarray[Any, Any]) -> None:
        self.device = device
        self.size = contents.nbytes
        self.address = allocate(self, contents)
        self.known[self.address] = self


class OnDevices(dict[int, DeviceMemory]):
    """Contents that calls read on a device: memory with them, by the devices that have asked for it."""

    def __init__(self, contents: ndarray[Any, Any]) -> None:
        super().__init__()
        self.contents = contents

    def __missing__(self, device: int) -> DeviceMemory:
        return self.setdefault(device, DeviceMemory(device, self.contents))


class HostWords:
    """A few int64 words in host memory that kernels of all devices reach: pinned, and mapped."""

    address: int

    def __init__(self, device: int, contents: ndarray[Any, Any]) -> None:
        self.device = device
        self.words = allocate_words(self, contents)


@on_gpu
def copy_bytes(to: int, fro: int, count: int, stream: int) -> None:
    """Copy bytes on a device, in the order of a stream."""
    check(_copy_bytes(to, fro, count, stream))


@on_gpu
def copy_rows(to: tuple[int, int], fro: tuple[int, int], width: int, rows: int, stream: int) -> None:
    """Copy rows of `width` bytes on a device, in the order of a stream. Rows begin at an address, and a pitch apart."""
    matrix = driver.CUDA_MEMCPY2D()
    matrix.dstMemoryType = matrix.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    matrix.dstDevice, matrix.dstPitch = to
    matrix.srcDevice, matrix.srcPitch = fro
    matrix.WidthInBytes, matrix.Height = width, rows
    _checked(driver.cuMemcpy2DAsync(matrix, stream))


def copy_elements(to: DeviceArray, fro: DeviceArray, stream: int) -> None:
    """Copy elements between arrays of one shape and any strides, in the order of a stream: by matrices, each a copy."""
    dims = [dim for dim in zip(fro.shape, to.strides, fro.strides, strict=True) if dim[0] != 1]
    width = fro.dtype.itemsize
    while dims and dims[-1][1:] == (width, width):  # neighbours
        width *= dims.pop()[0]
    rows = max((dim for dim in dims if min(dim[1:]) >= width), default=(1, width, width))
    others = [dim for dim in dims if dim is not rows]
    for place in np.ndindex(*[size for size, _, _ in others]):
        to_at, fro_at = (sum(i * dim[at] for i, dim in zip(place, others, strict=True)) for at in (1, 2))
        copy_rows((to.pointer + to_at, rows[1]), (fro.pointer + fro_at, rows[2]), width, rows[0], stream)


@on_gpu
def set_bytes(to: int, value: int, count: int, stream: int) -> None:
    """Set bytes on a device, in the order of a stream."""
    check(_set_bytes(to, value, count, stream))
