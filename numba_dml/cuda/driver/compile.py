"""How device functions and kernels are jitted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .numba import SIMULATED, cuda

_compile_lock = threading.RLock()


def helper(function: Callable[..., Any]) -> Any:
    """Jit a function that kernels call; it is compiled into them."""
    if not SIMULATED:
        return cuda.jit(device=True, forceinline=True)(function)
    return cuda.jit(device=True)(function) if "cuda" in function.__code__.co_names else function


def kernel(function: Callable[..., Any] | None = None, *, registers: int | None = None) -> Any:
    """Jit a kernel; it is compiled when it is first launched, for at most `registers` registers of a thread.

    Its first step must be `ptx.await_inputs`: it is launched before what it reads is there.
    """
    if function is None:
        return lambda function: kernel(function, registers=registers)
    if SIMULATED:
        return cuda.jit(function)
    from .cache import keep_on_disk

    return keep_on_disk(cuda.jit(max_registers=registers)(function))
