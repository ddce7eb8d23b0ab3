"""Devices and contexts, and how functions of the driver are called."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from .machine import in_simulator
from .numba import cuda, driver


def _checked(result: Any) -> Any:
    """Return what a function of the driver returned, without its status."""
    status, *values = result
    if int(status):
        text = f"CUDA: {driver.cuGetErrorString(status)[1].decode()} ({status.name})"
        if status.name.startswith("CUDA_ERROR_STREAM_CAPTURE"):
            text += ": expected a call before the capture with arrays of the same layout, which makes kernels and plans"
        raise RuntimeError(text)
    return values[0] if values else None


def driver_address(name: str) -> int:
    """Return the address of a function of the driver."""
    return int(_checked(driver.cuGetProcAddress(name.encode(), 12000, 0)))


@in_simulator(None)
def _function(name: str, count: int) -> Any:
    """Return a function of the driver that takes `count` numbers (addresses too) and returns its status.

    A launch through `cuda.bindings` spends 0.6 µs on its 11 arguments and the result, such a function 0.35 on 4.
    """
    return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)(driver_address(name))


def check(status: int) -> None:
    """Raise what a function of the driver reports."""
    if status:
        _checked((driver.CUresult(status),))


@in_simulator(True)
def is_current(device: int) -> bool:
    """Tell whether a device is the current one of this thread."""
    _, found = driver.cuCtxGetDevice()
    return found is not None and int(found) == device


@cache
def _context(device: int) -> Any:
    """Return the primary context of a device, which all libraries share."""
    _checked(driver.cuInit(0))
    return _checked(driver.cuDevicePrimaryCtxRetain(_checked(driver.cuDeviceGet(device))))


@in_simulator(nullcontext())
@contextmanager
def on_device(device: int) -> Iterator[None]:
    """Make a device the current one, for what is not on the fast way."""
    _checked(driver.cuCtxPushCurrent(_context(device)))
    try:
        yield
    finally:
        _checked(driver.cuCtxPopCurrent())


@in_simulator(0)
def device_of(pointer: int) -> int:
    """Return the device that an address belongs to."""
    if not pointer:
        return 0
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(_checked(driver.cuPointerGetAttribute(attribute, pointer)))


def shared_memory_of(device: int) -> int:
    """Return how much shared memory a block of a device can have, if its kernel is allowed to."""
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    _checked(driver.cuInit(0))
    return int(_checked(driver.cuDeviceGetAttribute(attribute, _checked(driver.cuDeviceGet(device)))))


def capability_of(device: int) -> tuple[int, int]:
    """Return the compute capability of a device."""
    major, minor = cuda.gpus[device].compute_capability
    return major, minor


@in_simulator((9, 0))
@cache
def least_capability() -> tuple[int, int]:
    """Return the lowest compute capability of all devices."""
    major, minor = min(device.compute_capability for device in cuda.gpus)
    return major, minor


@in_simulator(False)
@cache
def can_come_early() -> bool:
    """Tell whether a kernel's blocks can come to the devices as soon as the last ones of the kernel before have ended.

    They wait there until all it has written can be seen (`ptx.await_inputs`). In a row of small kernels each takes
    1.0 µs so, and 2.2 otherwise. If kernels let the next one's blocks come even before they end, those go where there
    is room first, and some multiprocessors have more of them than others: top-k by blocks took 1.3 times as long.
    """
    if least_capability() < (9, 0):
        return False
    return int(_checked(driver.cuDriverGetVersion())) >= 12030  # which captures such launches in graphs


@in_simulator(384)
@cache
def shared_bytes() -> int:
    """Return how much dynamic shared memory a block can have on every device: 227 KiB on an H200."""
    return min(shared_memory_of(device) for device in range(len(cuda.gpus)))
