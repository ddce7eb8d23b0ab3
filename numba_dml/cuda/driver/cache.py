"""The disk cache of kernels: a file for each, with its machine code (a cubin).

A kernel is told by where it stands in the sources, by what it closes over, and by the versions of what compiles it. Its
file begins with a digest of the code and of the sources: what is older, or was cut short, is compiled again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..._jit.disk_cache import directories_of, source_stamp, warn_uncached
from ..._version import __version__
from .context import can_come_early, least_capability

_DIGEST_BYTES = hashlib.sha256().digest_size


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
    """Return a stamp over all sources: a change of any of them may change any kernel."""
    return __version__, *source_stamp(Path(__file__).parents[2])


@cache
def _versions() -> tuple[Any, ...]:
    """Return the versions of what compiles kernels, as far as they have one in Python."""
    import numba
    import numba_cuda
    from cuda import bindings

    return numba.__version__, numba_cuda.__version__, bindings.__version__


@cache
def _warn(reason: str) -> None:
    """Warn, once for each reason."""
    warn_uncached("CUDA kernels", reason)


def _warn_of(error: OSError) -> None:
    _warn(f"its disk cache fails ({type(error).__name__}: {error})")


@cache
def _directory() -> Path | None:
    """Return where the files are; None: no directory can be written."""
    found = directories_of(str(Path(__file__).parent))
    if not found:
        _warn("there is no directory for its disk cache")
        return None
    return found[0]


def file_of(function: Callable[..., Any], *parameters: Any) -> Path | None:
    """Return the file of a kernel that is compiled with some parameters; None: there is no directory for it."""
    directory = _directory()
    if directory is None:
        return None
    devices = least_capability(), can_come_early()  # which the steps of kernels depend on
    text = f"{describe(function)} {parameters} {devices} {_versions()}"
    return directory / f"{function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:24]}.cubin"


def _digest(code: bytes) -> bytes:
    return hashlib.sha256(repr(_source_stamp()).encode() + code).digest()


def load(file: Path | None) -> bytes | None:
    """Return a kernel's code; None: it must be compiled. A file that cannot be read costs time, never a result."""
    if file is None:
        return None
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn_of(error)
        return None
    code = content[_DIGEST_BYTES:]
    return code if content[:_DIGEST_BYTES] == _digest(code) else None


def save(file: Path | None, code: bytes) -> None:
    """Keep a kernel's code for later processes; one that reads it at the same time finds all of it, or nothing."""
    if file is None:
        return
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)  # Numba makes none for a package in an archive
        part.write_bytes(_digest(code) + code)
        part.replace(file)
    except FileNotFoundError:  # somebody clears the cache
        pass
    except OSError as error:
        _warn_of(error)
        with suppress(OSError):
            part.unlink()
