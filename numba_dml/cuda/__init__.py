"""The CUDA target."""

from __future__ import annotations

from typing import Any

import numpy as np

from .driver.numba import cuda


def call(*args: Any) -> Any:
    """Build the call for a descriptor and a layout; see `numba_dml._core.calls.build_call`."""
    from .calls.build import build

    return build(*args)


def to_device(array: np.ndarray[Any, Any]) -> Any:
    """Return a copy of a host array on the first device."""
    from .driver.arrays import OWN

    return OWN.to_device(array, 0)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Any:
    """Return a new device array of Numba."""
    with cuda.gpus[device]:
        return cuda.device_array(shape, dtype)


def memory(size: int, device: int) -> Any:
    """Return bytes of device memory that Numba allocates."""
    from .driver.arrays import OWN

    return OWN.memory(size, device)


def device_of(pointer: int) -> int:
    """Return the device that an address belongs to."""
    from .driver import context

    return context.device_of(pointer)


def synchronize(stream: int) -> None:
    """Wait for a stream."""
    from .driver import streams

    streams.synchronize(stream)


def check(stream: int | None) -> None:
    """Raise the first bad index that deferred calls recorded."""
    from .primitives.bad_indices import check_all

    check_all(stream)
