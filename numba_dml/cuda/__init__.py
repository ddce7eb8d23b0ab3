"""The CUDA room: how kernels are compiled, cached and launched. It imports numba-cuda first, and says what is missing.

Kernels take addresses and numbers alone, all of them int64: no array types, so that nothing is specialised on a rank or
a layout, and a launch is one packed buffer (see `_launch`). In the simulator (``NUMBA_ENABLE_CUDASIM=1``) addresses
lead to host memory.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._compiling import require_jit

_INSTALL = 'pip install "numba-cuda[cu13]" "numpy<2.5" (or [cu12], whichever the driver supports)'


def _load() -> Any:
    """Import numba-cuda, or say what is missing."""
    # numba-cuda 0.30 looks up a name that NumPy 2.5 has dropped. The extras pin an older NumPy, but GPU images ship
    # that pair; so the name is there while the module that wants it loads, and only then.
    missing = not hasattr(np, "row_stack")
    if missing:
        vars(np)["row_stack"] = np.vstack
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # numba-cuda's own, with NumPy 2.5
            from numba import cuda

            if getattr(cuda, "implementation", None) != "NVIDIA":  # Numba's own, which is older
                raise RuntimeError(f"target 'cuda': the package numba-cuda is missing: {_INSTALL}")
            if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") in ("", "0"):
                import numba.cuda.np.arrayobj  # noqa: F401
        return cuda
    except ImportError as error:
        raise RuntimeError(f"target 'cuda': numba-cuda cannot be loaded ({error}): {_INSTALL}") from error
    finally:
        if missing:
            del vars(np)["row_stack"]


require_jit()
cuda = _load()
#: Kernels run in numba-cuda's simulator, on the host.
SIMULATED: bool = bool(cuda.core.config.ENABLE_CUDASIM)

if not cuda.is_available():
    raise RuntimeError("target 'cuda': no GPU can be used (is there one, and does its driver work? see nvidia-smi)")

_compile_lock = threading.RLock()


def helper(function: Callable[..., Any]) -> Any:
    """Jit a function that kernels call; it is compiled into them."""
    if not SIMULATED:
        return cuda.jit(device=True, forceinline=True)(function)
    return cuda.jit(device=True)(function) if "cuda" in function.__code__.co_names else function


def kernel(function: Callable[..., Any] | None = None, *, registers: int | None = None) -> Any:
    """Jit a kernel; it is compiled when it is first launched, for at most so many registers of a thread.

    Its first step must be `_memory.await_inputs`: it is launched before what it reads is there.
    """
    if function is None:
        return lambda function: kernel(function, registers=registers)
    if SIMULATED:
        return cuda.jit(function)
    from ._cache import keep_on_disk

    return keep_on_disk(cuda.jit(max_registers=registers)(function))


def call(*args: Any) -> Any:
    """Build the call for a descriptor and a layout; see `numba_dml._operator.build_call`."""
    from ._calls import build

    return build(*args)


def to_device(array: np.ndarray[Any, Any]) -> Any:
    """Return a copy of a host array on the first device."""
    from ._arrays import OWN

    return OWN.to_device(array, 0)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Any:
    """Return a new device array of Numba."""
    with cuda.gpus[device]:
        return cuda.device_array(shape, dtype)


def device_of(pointer: int) -> int:
    """Return the device that an address belongs to."""
    from . import _launch

    return _launch.device_of(pointer)


def synchronize(stream: int) -> None:
    """Wait for a stream."""
    from . import _launch

    _launch.synchronize(stream)


def check(stream: int | None) -> None:
    """Raise the first bad index that deferred calls recorded."""
    from ._bounds import check_all

    check_all(stream)
