"""SCATTER_ND: elements and rows of a copy, overwritten by tuples of indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numba_dml as dml

from . import common


class Case(NamedTuple):
    """`count` different tuples of `coordinates` indices."""

    shape: tuple[int, ...]
    count: int
    coordinates: int
    dtype: str = "f4"
    index_dtype: str = "i8"


CASES = {
    common.TINY: Case((8,), 4, 1),
    "1M of (4096, 4096) f4, 2-tuples": Case((4096, 4096), 1_000_000, 2),
    "100k of 200k rows of 64 f4, 1-tuples": Case((200_000, 64), 100_000, 1),
}


def arrays(case: Case) -> tuple[np.ndarray, ...]:
    """Return the data, the indices and the updates."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    indexed, rest = a.shape[: case.coordinates], a.shape[case.coordinates :]
    positions = rng.permutation(np.prod(indexed))[: common.size(case.count)]
    updates = common.values(rng, (len(positions), *rest), case.dtype)
    return a, common.tuples(positions, indexed, case.index_dtype), updates


def traffic(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> int:
    """Return the bytes of the indices, of the data and of the updates, these two read and written."""
    return indices.nbytes + 2 * a.nbytes + 2 * updates.nbytes


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Allocate the result."""
    return lambda: dml.scatter_nd(a, indices, updates)


def numba_dml_out(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Write to an array."""
    out = a.copy()
    return lambda: dml.scatter_nd(a, indices, updates, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Copy, then assign to one index array per coordinate."""
    where = common.columns(indices)

    def call() -> np.ndarray:
        result = a.copy()
        result[where] = updates
        return result

    return call


def torch(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Put, out of place."""
    library = common.torch_module()
    data, new = library.from_numpy(a), library.from_numpy(updates)
    where = tuple(map(common.torch_indices, common.columns(indices)))
    return lambda: library.index_put(data, where, new)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Run ScatterND, whose indices have 64 bits."""
    inputs = {"data": a, "indices": indices.astype(np.int64), "updates": updates}
    return common.onnx_call("ScatterND", inputs, [a.dtype])


IMPLEMENTATIONS = {
    "numba_dml": numba_dml,
    "numba_dml out": numba_dml_out,
    "numpy": numpy,
    "torch": torch,
    "onnxruntime": onnxruntime,
}


class ScatterND(common.Calls):
    """The time of one call."""

    operator = common.Operator(CASES, arrays, traffic, IMPLEMENTATIONS)


class ScatterNDThroughput(common.Throughput):
    """The bytes per second of a call with `out=`."""

    operator = ScatterND.operator
