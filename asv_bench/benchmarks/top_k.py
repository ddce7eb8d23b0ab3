"""TOP_K: the k largest of every line, with their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numba_dml as dml

from . import common


class Case(NamedTuple):
    """The `k` largest along an axis of a matrix."""

    shape: tuple[int, int]
    k: int
    dtype: str = "f4"
    distribution: str = "random"
    axis: int = -1


CASES = {
    f"{common.TINY}, k=3": Case((1, 8), 3),
    "(1, 1M) k=10 f4": Case((1, 1_000_000), 10),
    "(1, 10M) k=100 f4": Case((1, 10_000_000), 100),
    "(1, 10M) k=100 i8": Case((1, 10_000_000), 100, "i8"),
    "(1, 10M) k=100 u1": Case((1, 10_000_000), 100, "u1"),
    "(1, 10M) k=10000 f4": Case((1, 10_000_000), 10_000),
    **{f"(64, 50257) k=50 {t}": Case((64, 50257), 50, t) for t in ("f4", "i4", "i8", "f8", "f2", "u1")},
    **{
        f"(64, 50257) k=50 f4 {d}": Case((64, 50257), 50, "f4", d)
        for d in ("ascending", "descending", "equal", "ties", "nan")
    },
    "(1024, 32000) k=1 f4": Case((1024, 32000), 1),
    "(100k, 128) k=8 f4": Case((100_000, 128), 8),
    "(100k, 128) k=8 f2": Case((100_000, 128), 8, "f2"),
    "(1M, 64) k=6 f4": Case((1_000_000, 64), 6),
    "(4096, 4096) k=64 f4": Case((4096, 4096), 64),
    "(10, 1M) k=500k f4": Case((10, 1_000_000), 500_000),
    "(4096, 4096) k=8 f4, axis 0": Case((4096, 4096), 8, axis=0),
}


def arrays(case: Case) -> tuple[np.ndarray, ...]:
    """Return the data."""
    return (common.values(common.generator(), common.sizes(case.shape), case.dtype, case.distribution),)


def traffic(case: Case, a: np.ndarray) -> int:
    """Return the bytes of the data, and of the result written."""
    return a.nbytes + common.size(case.k) * (a.size // a.shape[case.axis]) * (a.itemsize + np.dtype(np.intp).itemsize)


def numba_dml(case: Case, a: np.ndarray) -> Callable[[], Any]:
    """Allocate the result."""
    k, axis = common.size(case.k), case.axis
    return lambda: dml.top_k(a, k, axis=axis)


def numba_dml_out(case: Case, a: np.ndarray) -> Callable[[], Any]:
    """Write to two arrays."""
    k, axis = common.size(case.k), case.axis
    out = tuple(dml.top_k(a, k, axis=axis))
    return lambda: dml.top_k(a, k, axis=axis, out=out)


def numpy(case: Case, a: np.ndarray) -> Callable[[], Any]:
    """Partition, then sort the k; argmax for k = 1. Ties are in any order, and NaN is the largest."""
    k, axis = common.size(case.k), case.axis
    last = slice(a.shape[axis] - k, None)
    selected = (last,) if axis == 0 else (..., last)

    def largest() -> tuple[np.ndarray, np.ndarray]:
        indices = np.argmax(a, axis, keepdims=True)
        return np.take_along_axis(a, indices, axis), indices

    def call() -> tuple[np.ndarray, np.ndarray]:
        indices = np.argpartition(a, a.shape[axis] - k, axis)[selected]
        values = np.take_along_axis(a, indices, axis)
        order = np.flip(np.argsort(values, axis, kind="stable"), axis)
        return np.take_along_axis(values, order, axis), np.take_along_axis(indices, order, axis)

    return largest if k == 1 else call


def torch(case: Case, a: np.ndarray) -> Callable[[], Any]:
    """Select, sorted."""
    library = common.torch_module()
    data, k = library.from_numpy(a), common.size(case.k)
    return lambda: library.topk(data, k, case.axis)


def onnxruntime(case: Case, a: np.ndarray) -> Callable[[], Any]:
    """Run TopK."""
    inputs = {"data": a, "k": np.array([common.size(case.k)])}
    return common.onnx_call("TopK", inputs, [a.dtype, np.int64], axis=case.axis)


IMPLEMENTATIONS = {
    "numba_dml": numba_dml,
    "numba_dml out": numba_dml_out,
    "numpy": numpy,
    "torch": torch,
    "onnxruntime": onnxruntime,
}


class TopK(common.Calls):
    """The time of one call."""

    operator = common.Operator(CASES, arrays, traffic, IMPLEMENTATIONS)


class TopKThroughput(common.Throughput):
    """The bytes per second of a call with `out=`."""

    operator = TopK.operator
