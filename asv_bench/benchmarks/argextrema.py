"""ARGMAX: the position of the largest element of every line, or over several axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common, cumulative_sum


@dataclass(frozen=True)
class Case:
    """The largest element along an axis."""

    shape: tuple[int, ...]
    axis: int | tuple[int, ...] = -1
    dtype: str = "f4"
    order: str = "C"


CASES = {
    common.TINY: Case((8,)),
    "1000 elements f4": Case((1000,)),
    **{f"10M {t}": Case((10_000_000,), dtype=t) for t in ("f4", "f8", "f2", "i4", "u1")},
    "(1M, 10) f4": Case((1_000_000, 10)),
    "(100k, 64) f4": Case((100_000, 64)),
    "(10k, 1000) f4": Case((10_000, 1000)),
    **{f"(4096, 4096) {t}, axis 0": Case((4096, 4096), 0, t) for t in ("f4", "f8", "f2", "i4", "u1")},
    "(30, 256, 1000) f4, axis 1": Case((30, 256, 1000), 1),
    "(64, 128, 1000) f4, axes 0 and 1": Case((64, 128, 1000), (0, 1)),
    "(64, 128, 1000) f4, axes 0 and 2": Case((64, 128, 1000), (0, 2)),
}
NEIGHBOURS = {
    **{f"{n} elements {t}": Case((n,), dtype=t) for n in (10_000, 100_000, 1_000_000) for t in ("f4", "f8", "i8")},
    **{f"(1M, {n}) f4": Case((1_000_000, n)) for n in (3, 8, 20)},
    **{f"(1M, {n}) f4, axis 0": Case((1_000_000, n), 0) for n in (3, 8, 16, 20)},
    **{f"(3, 3M) {t}, axis 0": Case((3, 3_000_000), 0, t) for t in ("f4", "f2")},
    "(3, 1M) f4, Fortran order, all": Case((3, 1_000_000), (0, 1), order="F"),
    "(3, 1M) f4, Fortran order, axis 1": Case((3, 1_000_000), 1, order="F"),
    "(4096, 4096) f4, Fortran order": Case((4096, 4096), order="F"),
    "(4096, 4096) f4, Fortran order, axis 0": Case((4096, 4096), 0, order="F"),
}

#: A call has to read its input.
LIMIT = "copy"
arrays = cumulative_sum.arrays
traffic = common.whole_traffic


def in_one_axis(case: Case, a: Any) -> tuple[Any, int]:
    """Return the data and the axis, for libraries that take one: several are copied to the end, as their users do."""
    if isinstance(case.axis, int):
        return a, case.axis
    kept = [d for d in range(a.ndim) if d not in case.axis]
    return a.transpose(*kept, *case.axis).reshape(*[a.shape[d] for d in kept], -1), -1


def numba_dml(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Find the first of the largest elements."""
    return lambda: dml.argmax(a, axis=case.axis, out=out)


def numpy(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Find the first of the largest elements."""

    def call() -> np.ndarray:
        data, axis = in_one_axis(case, a)
        return np.argmax(data, axis, out=out)

    return call


def torch(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Find any of the largest elements."""
    module = common.library("torch")

    def call() -> Any:
        data, axis = in_one_axis(case, a)
        return module.argmax(module.from_numpy(data), axis, out=out)

    return call


def onnxruntime(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Run ArgMax."""
    data, axis = in_one_axis(case, a)
    return common.onnx_call("ArgMax", {"x": data}, [np.int64], out, axis=axis, keepdims=0)


def jax(case: Case, a: np.ndarray) -> common.Call:
    """Find the first of the largest elements."""
    module = common.library("jax")
    data, axis = in_one_axis(case, a)
    return common.jax_call(lambda a: module.numpy.argmax(a, axis), data)


Argextrema, ArgextremaNeighbours, ArgextremaThroughput = common.benchmarks("Argextrema", globals())
