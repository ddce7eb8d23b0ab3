"""Numba's disk cache, for kernels that are closures.

Numba tells closures apart by pickling what they close over, and a jitted helper pickles to a new random number in every
process: nothing would ever be found. Here a closure is told by where it stands and by the numbers it closes over. Each
has an index of its own: in a common one, processes that start at once can give one number to two kernels, and one
would then load the other's.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..._jit.disk_cache import cache_locators, source_stamp, warn_uncached
from ..._version import __version__
from .context import can_come_early, least_capability


def describe(value: Any) -> str:
    """Return text that tells what a kernel closes over, the same in every process.

    Raises
    ------
    TypeError
        If it is of a kind that says nothing about itself.
    """
    function = getattr(value, "py_func", None) or getattr(value, "_defn", None) or value  # jitted, an intrinsic, plain
    if isinstance(function, FunctionType):
        place = f"{function.__module__}:{function.__code__.co_firstlineno}:{function.__qualname__}"
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return f"{place}({', '.join(map(describe, (*cells, *(function.__defaults__ or ()))))})"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{describe(key)}: {describe(item)}' for key, item in value.items())}}}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, ModuleType):
        return value.__name__
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic, np.dtype)):
        return f"{type(value).__name__} {value!r}"
    if type(value).__module__.startswith(("numba.", "llvmlite.")):  # types, whose text says all of them
        text = str(value)
        if " at 0x" not in text:
            return text
    raise TypeError(f"found {type(value).__name__} in a kernel's closure, expected numbers, functions and types")


@cache
def _source_stamp() -> tuple[Any, ...]:
    """Return a stamp over all sources: Numba looks at a kernel's own file only, and would miss its helpers."""
    return __version__, *source_stamp(Path(__file__).parents[2])


@cache
def _warn(reason: str) -> None:
    """Warn, once for each reason."""
    warn_uncached("CUDA kernels", reason)


@cache
def _cache_type() -> Any:
    """Return the class of such caches; what it derives from is not there in the simulator."""
    import numba_cuda
    from numba.cuda.core.caching import IndexDataCacheFile
    from numba.cuda.dispatcher import CUDACache, CUDACacheImpl

    class CacheFiles(CUDACacheImpl):  # type: ignore[misc]
        _locator_classes = cache_locators(CUDACacheImpl._locator_classes)

    class KernelCache(CUDACache):  # type: ignore[misc]
        """The files of one kernel. If they cannot be read or written, that costs time, never a result."""

        _impl_class = CacheFiles

        def __init__(self, function: Any) -> None:
            super().__init__(function)
            self.text = describe(function)
            name = f"{self._impl.filename_base}-{hashlib.sha256(self.text.encode()).hexdigest()[:16]}"
            self._cache_file = IndexDataCacheFile(
                cache_path=self._cache_path, filename_base=name, source_stamp=_source_stamp()
            )

        def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
            devices = least_capability(), can_come_early()  # which the steps of kernels depend on
            return sig, codegen.magic_tuple(), numba_cuda.__version__, devices, self.text

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception as error:  # a file cut short, a lost permission: whatever pickle and the OS say
                _warn(f"its disk cache fails ({type(error).__name__}: {error})")
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)
            except OSError as error:
                _warn(f"its disk cache fails ({type(error).__name__}: {error})")

    return KernelCache


def keep_on_disk(jitted: Any) -> Any:
    """Let a jitted kernel be kept on disk, where there is a directory for it."""
    kind = _cache_type()
    try:
        jitted._cache = kind(jitted.py_func)
    except (RuntimeError, OSError):  # neither the package's folder nor a user cache can be written
        _warn("there is no directory for its disk cache")
    return jitted
