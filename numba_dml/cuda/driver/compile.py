"""How device functions and kernels are jitted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .cache import keep_on_disk
from .machine import on_gpu
from .numba import cuda

_compile_lock = threading.RLock()


@on_gpu
def helper(function: Callable[..., Any]) -> Any:
    """Jit a function that kernels call; it is compiled into them."""
    return cuda.jit(device=True, forceinline=True)(function)


@on_gpu
def jit_kernel(function: Callable[..., Any], registers: int | None) -> Any:
    """Jit a kernel that is kept on disk."""
    return keep_on_disk(cuda.jit(max_registers=registers)(function))


def kernel(function: Callable[..., Any] | None = None, *, registers: int | None = None) -> Any:
    """Jit a kernel; it is compiled when it is first launched, for at most `registers` registers of a thread.

    Its first step must be `ptx.await_inputs`: it is launched before what it reads is there.
    """
    if function is None:
        return lambda function: kernel(function, registers=registers)
    return jit_kernel(function, registers)
