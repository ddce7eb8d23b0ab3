"""GATHER: rows, and elements of rows, picked along one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numba_dml as dml

from . import common


class Case(NamedTuple):
    """`count` positions, drawn with repetition, along `axis` of an array."""

    shape: tuple[int, ...]
    count: int
    dtype: str = "f4"
    index_dtype: str = "i8"
    axis: int = 0


CASES = {
    common.TINY: Case((8,), 8),
    "1M of 1M rows of 64 f4": Case((1_000_000, 64), 1_000_000),
    "1M of 1M rows of 64 f4, u4 indices": Case((1_000_000, 64), 1_000_000, index_dtype="u4"),
    "4M of 1M rows of 4 f4, i4 indices": Case((1_000_000, 4), 4_000_000, index_dtype="i4"),
    "20k of 20k rows of 1024 f4": Case((20_000, 1024), 20_000),
    "(4096, 4096) f4, axis 1": Case((4096, 4096), 4096, axis=1),
    "(4096, 4096) u1, axis 1, i4 indices": Case((4096, 4096), 4096, "u1", "i4", axis=1),
}


def arrays(case: Case) -> tuple[np.ndarray, ...]:
    """Return the data and the indices."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    return a, rng.integers(0, a.shape[case.axis], common.size(case.count), case.index_dtype)


def traffic(case: Case, a: np.ndarray, indices: np.ndarray) -> int:
    """Return the bytes of the indices, and of the result read and written."""
    return indices.nbytes + 2 * (a.nbytes // a.shape[case.axis]) * indices.size


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Allocate the result."""
    return lambda: dml.gather(a, indices, axis=case.axis)


def numba_dml_out(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Write to an array."""
    out = dml.gather(a, indices, axis=case.axis)
    return lambda: dml.gather(a, indices, axis=case.axis, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Take."""
    return lambda: np.take(a, indices, case.axis)


def torch(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Select along the axis."""
    library = common.torch_module()
    data, positions = library.from_numpy(a), common.torch_indices(indices)
    return lambda: library.index_select(data, case.axis, positions)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Run Gather, whose indices are signed."""
    if indices.dtype.kind == "u":
        indices = indices.astype(np.int64)
    return common.onnx_call("Gather", {"data": a, "indices": indices}, [a.dtype], axis=case.axis)


IMPLEMENTATIONS = {
    "numba_dml": numba_dml,
    "numba_dml out": numba_dml_out,
    "numpy": numpy,
    "torch": torch,
    "onnxruntime": onnxruntime,
}


class Gather(common.Calls):
    """The time of one call."""

    operator = common.Operator(CASES, arrays, traffic, IMPLEMENTATIONS)


class GatherThroughput(common.Throughput):
    """The bytes per second of a call with `out=`."""

    operator = Gather.operator
