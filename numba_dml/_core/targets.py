"""Targets: which one a call runs on, and the package of its kernels, which is imported at its first use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from .devices.arrays import stream_pointer

TARGETS = ("cpu", "cuda")
before_first_use: list[Callable[[], None]] = []  #: called before the kernels of a target are first asked for
_PACKAGE = __package__.partition(".")[0]
#: One thread at a time imports kernels: modules of Numba import each other, and two threads would see halves of them.
_importing = threading.RLock()


def resolve_target(target: str | None) -> str:
    """Return the target of an operator: the CPU unless another one is named."""
    if target is None:
        return "cpu"
    if target in TARGETS:
        return target
    raise ValueError(f"target: found {target!r}, expected one of {', '.join(map(repr, TARGETS))}")


@cache
def kernels(target: str) -> ModuleType:
    """Return the module that holds the kernels of a target."""
    with _importing:
        for prepare in before_first_use:
            prepare()
        return import_module(f"{_PACKAGE}.{target}")


def family_calls(target: str, function: str, family: str) -> ModuleType:
    """Return the module whose ``build`` makes a family's calls on a target; see `Spec.family`."""
    name = f"{_PACKAGE}.{target}.calls.{family}"
    try:
        with _importing:
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ValueError(f"{function}: target {target!r} has no calls of the family {family!r}") from None


def is_chunked(value: Any) -> bool:
    """Tell whether a value is an array of Dask; nothing is imported to find out."""
    return str(value.__class__.__module__).startswith("dask.array.")


def chunked_calls() -> ModuleType:
    """Return the module that makes calls for arrays of Dask."""
    with _importing:
        return import_module(f"{_PACKAGE}.dask.calls")


def check(stream: Any = None) -> None:
    """Raise the first bad index that calls with ``bounds="deferred"`` have met since the last check, and forget it.

    Parameters
    ----------
    stream : stream of any CUDA library, or its address, optional
        Whose work to wait for; all of the device's when absent.

    Returns
    -------
    None
        If there was no bad index.

    Raises
    ------
    IndexError
        With the text that ``bounds="raise"`` gives. On the CPU it was raised at once.
    TypeError, ValueError
        If `stream` is no stream, or a number that is no address.

    Notes
    -----
    A call that is deferred does not wait for the device: it reads 0 for a bad index, drops a bad write, and records the
    first one, in the order of the launches and then of the positions.

    Examples
    --------
    >>> import numba_dml as dml
    >>> dml.check()
    """
    pointer = None if stream is None else stream_pointer("check", stream)
    if f"{_PACKAGE}.cuda" in sys.modules:  # else nothing was deferred
        kernels("cuda").check(pointer)
