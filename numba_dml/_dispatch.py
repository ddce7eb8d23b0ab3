"""Targets: which one a call runs on, and the room of kernels behind it (imported on first use)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

TARGETS = ("cpu",)


def resolve_target(target: str | None) -> str:
    """Return the target of arrays in host memory: the CPU unless another one is named."""
    if target is None or target == "cpu":
        return "cpu"
    if target == "cuda":
        raise RuntimeError("target 'cuda' is not part of this version of numba_dml; use target='cpu' or leave it out")
    raise ValueError(f"target: found {target!r}, expected one of {', '.join(map(repr, TARGETS))}")


@cache
def kernels(target: str) -> ModuleType:
    """Return the module that holds the kernels of a target."""
    return import_module(f".{target}", __package__)
