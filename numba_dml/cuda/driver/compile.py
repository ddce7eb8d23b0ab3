"""How device functions are jitted, and kernels compiled: by numba-cuda for the linker, by the linker for a GPU."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from ..._jit.waiting import compiling
from .cache import file_of, load, save
from .context import _checked
from .machine import on_gpu
from .numba import cuda, driver

_compile_lock = threading.RLock()
#: Said, or they would be what the environment says for users' kernels.
_OPTIONS = {"debug": False, "opt": True}


@on_gpu
def helper(function: Callable[..., Any]) -> Any:
    """Jit a function that kernels call; it is compiled into them."""
    return cuda.jit(device=True, forceinline=True, **_OPTIONS)(function)


def _has_linker() -> bool:
    """Tell whether nvJitLink is installed. The driver links without it, but takes PTX only."""
    from cuda.bindings import nvjitlink

    try:
        return bool(nvjitlink.version())
    except RuntimeError:  # there is no library, or too old a one
        return False


def _compile(
    function: Callable[..., Any], signature: tuple[Any, ...], registers: int | None, capability: tuple[int, int]
) -> bytes:
    from cuda.core import Linker, LinkerOptions, ObjectCode

    # A dispatcher of `cuda.jit` would make PTX, too, to look for names in it.
    # Measured in docs/measurements/cudakernels.md, "First calls".
    output, read = ("ltoir", ObjectCode.from_ltoir) if _has_linker() else ("ptx", ObjectCode.from_ptx)
    cuda.jit(**_OPTIONS)(function).targetctx.refresh()  # see `_jit.disk_cache._DiskCache`
    code, _ = cuda.compile(function, signature, device=False, abi="numba", output=output, cc=capability, **_OPTIONS)
    options = LinkerOptions(
        arch="sm_{}{}".format(*capability),
        max_register_count=registers,
        link_time_optimization=True if output == "ltoir" else None,
    )
    linked: bytes = Linker(read(code if output == "ltoir" else code.encode()), options=options).link("cubin").code
    return linked


def cubin_of(
    function: Callable[..., Any], signature: tuple[Any, ...], registers: int | None, capability: tuple[int, int]
) -> bytes:
    """Return a kernel's machine code (a cubin) for devices of a compute capability, from disk or newly compiled."""
    file = file_of(function, signature, registers, capability)
    with compiling(None if file is None else f"{file}.lock"):
        code = load(file)
        if code is None:
            code = _compile(function, signature, registers, capability)
            save(file, code)
    return code


def load_kernel(code: bytes) -> Any:
    """Load machine code; return its kernel, for all contexts. It stays loaded."""
    library = _checked(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
    # The section with the kernel's code. The linker may have added functions of its own, which Numba has not named.
    name = re.search(rb"\.text\.(_ZN[\w$.]+)\0", code)
    assert name, "a cubin without a kernel"
    return _checked(driver.cuLibraryGetKernel(library, name[1]))
