"""The machine that kernels run on: a GPU, or numba-cuda's simulator, with functions of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .numba import SIMULATED

_Function = TypeVar("_Function", bound=Callable[..., Any])


def on_gpu(function: _Function) -> _Function:
    """Return a function that needs a GPU, or in the simulator the one that has its name there."""
    if not SIMULATED:
        return function
    from . import simulator

    return getattr(simulator, function.__name__)  # type: ignore[no-any-return]


def in_simulator(result: Any) -> Callable[[_Function], _Function]:
    """Decorate a function that needs a GPU, and always has the same result in the simulator."""

    def decorate(function: _Function) -> _Function:
        return wraps(function)(lambda *args: result) if SIMULATED else function  # type: ignore[return-value]

    return decorate
