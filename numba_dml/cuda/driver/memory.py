"""Memory of the package's own on a device, and copies there."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
from numpy import ndarray

from .context import _checked, _function, check, on_device
from .launch import recorder
from .numba import SIMULATED

if not SIMULATED:
    from cuda.bindings import driver


_copy_bytes = _function("cuMemcpyDtoDAsync", 4)
_set_bytes = _function("cuMemsetD8Async", 4)


def _free_with(memory: DeviceMemory | HostWords, free: Any) -> None:
    """Free memory when its object dies; what lives until the process ends goes with the context."""

    def release(device: int, address: int) -> None:
        with on_device(device):
            free(address)

    weakref.finalize(memory, release, memory.device, memory.address).atexit = False


class DeviceMemory:
    """Memory of our own on a device, for as long as this object lives."""

    #: What there is of it, by address.
    known: weakref.WeakValueDictionary[int, DeviceMemory] = weakref.WeakValueDictionary()

    def __init__(self, device: int, contents: ndarray[Any, Any]) -> None:
        self.device = device
        self.size = contents.nbytes
        self.address = self.allocate(contents)
        self.known[self.address] = self

    def allocate(self, contents: ndarray[Any, Any]) -> int:
        """Return the address of new memory with these contents."""
        if SIMULATED:
            self.host = contents.copy()
            return self.host.ctypes.data
        with on_device(self.device):
            self.address = int(_checked(driver.cuMemAlloc(max(self.size, 1))))
            _free_with(self, driver.cuMemFree)
            _checked(driver.cuMemcpyHtoD(self.address, contents.ctypes.data, self.size))
        return self.address


class HostWords:
    """A few int64 words in host memory that kernels of all devices reach: pinned, and mapped."""

    def __init__(self, device: int, contents: ndarray[Any, Any]) -> None:
        self.device = device
        if SIMULATED:
            self.words = contents.copy()
            self.address = self.words.ctypes.data
            return
        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        with on_device(device):
            self.address = int(_checked(driver.cuMemHostAlloc(contents.nbytes, flags)))
            _free_with(self, driver.cuMemFreeHost)
        self.words = np.ctypeslib.as_array((ctypes.c_int64 * contents.size).from_address(self.address))
        self.words[...] = contents


def copy_bytes(to: int, fro: int, count: int, stream: int) -> None:
    """Copy bytes on a device, in the order of a stream."""
    recorder.note(None)
    if SIMULATED:
        ctypes.memmove(to, fro, count)
    else:
        check(_copy_bytes(to, fro, count, stream))


def set_bytes(to: int, value: int, count: int, stream: int) -> None:
    """Set bytes on a device, in the order of a stream."""
    recorder.note(None)
    if SIMULATED:
        ctypes.memset(to, value, count)
    else:
        check(_set_bytes(to, value, count, stream))
