"""GATHER_ND: elements and rows, picked by tuples of indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numba_dml as dml

from . import common


class Case(NamedTuple):
    """`count` tuples of `coordinates` indices, drawn with repetition."""

    shape: tuple[int, ...]
    count: int
    coordinates: int
    dtype: str = "f4"
    index_dtype: str = "i8"


CASES = {
    common.TINY: Case((8,), 8, 1),
    "1M of 1M rows of 64 f4, 1-tuples": Case((1_000_000, 64), 1_000_000, 1),
    "10M of (4096, 4096) f4, 2-tuples": Case((4096, 4096), 10_000_000, 2),
    "10M of (4096, 4096) f4, 2-tuples, i4 indices": Case((4096, 4096), 10_000_000, 2, index_dtype="i4"),
    "5M of (256, 256, 256) u1, 3-tuples, i4 indices": Case((256, 256, 256), 5_000_000, 3, "u1", "i4"),
}


def arrays(case: Case) -> tuple[np.ndarray, ...]:
    """Return the data and the indices."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    indexed = a.shape[: case.coordinates]
    positions = rng.integers(0, np.prod(indexed), common.size(case.count))
    return a, common.tuples(positions, indexed, case.index_dtype)


def traffic(case: Case, a: np.ndarray, indices: np.ndarray) -> int:
    """Return the bytes of the indices, and of the result read and written."""
    return indices.nbytes + 2 * len(indices) * a[(0,) * case.coordinates].nbytes


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Allocate the result."""
    return lambda: dml.gather_nd(a, indices)


def numba_dml_out(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Write to an array."""
    out = dml.gather_nd(a, indices)
    return lambda: dml.gather_nd(a, indices, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Index by one array per coordinate."""
    where = common.columns(indices)
    return lambda: a[where]


def torch(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Index by one array per coordinate."""
    data = common.torch_module().from_numpy(a)
    where = tuple(map(common.torch_indices, common.columns(indices)))
    return lambda: data[where]


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Run GatherND, whose indices have 64 bits."""
    return common.onnx_call("GatherND", {"data": a, "indices": indices.astype(np.int64)}, [a.dtype])


IMPLEMENTATIONS = {
    "numba_dml": numba_dml,
    "numba_dml out": numba_dml_out,
    "numpy": numpy,
    "torch": torch,
    "onnxruntime": onnxruntime,
}


class GatherND(common.Calls):
    """The time of one call."""

    operator = common.Operator(CASES, arrays, traffic, IMPLEMENTATIONS)


class GatherNDThroughput(common.Throughput):
    """The bytes per second of a call with `out=`."""

    operator = GatherND.operator
