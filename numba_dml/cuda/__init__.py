"""The CUDA target."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.targets import family_calls
from .driver.arrays import OWN
from .driver.context import device_of
from .driver.numba import cuda
from .driver.streams import synchronize
from .primitives.bad_indices import check_all as check

__all__ = ["call", "check", "device_of", "empty", "memory", "synchronize", "to_device"]

memory = OWN.memory


def call(descriptor: Any, layouts: Any, output_shapes: Any, out_strides: None) -> Any:
    """Build the call for a descriptor and a layout; see `numba_dml._core.calls.build_call`."""
    return family_calls("cuda", descriptor.function, descriptor.spec.family).build(descriptor, layouts, output_shapes)


def to_device(array: np.ndarray[Any, Any]) -> Any:
    """Return a copy of a host array on the first device."""
    return OWN.to_device(array, 0)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Any:
    """Return a new device array of Numba."""
    with cuda.gpus[device]:
        return cuda.device_array(shape, dtype)
