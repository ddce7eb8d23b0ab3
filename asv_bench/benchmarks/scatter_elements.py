"""SCATTER_ELEMENTS: single elements of a copy, overwritten along one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numba_dml as dml

from . import common


class Case(NamedTuple):
    """A matrix, and a random order of the positions along `axis` for each of its lines: no element is hit twice."""

    shape: tuple[int, int]
    axis: int
    dtype: str = "f4"
    index_dtype: str = "i8"


CASES = {
    common.TINY: Case((1, 8), 1),
    "(2048, 4096) f4, axis 0": Case((2048, 4096), 0),
    "(2048, 4096) f4, axis 1": Case((2048, 4096), 1),
    "(2048, 4096) f8, axis 1, i4 indices": Case((2048, 4096), 1, "f8", "i4"),
}


def arrays(case: Case) -> tuple[np.ndarray, ...]:
    """Return the data, the indices and the updates."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    return a, common.permutations(rng, a.shape, case.axis, case.index_dtype), common.values(rng, a.shape, case.dtype)


def traffic(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> int:
    """Return the bytes of the indices, of the data and of the updates, these two read and written."""
    return indices.nbytes + 2 * a.nbytes + 2 * updates.nbytes


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Allocate the result."""
    return lambda: dml.scatter_elements(a, indices, updates, axis=case.axis)


def numba_dml_out(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Write to an array."""
    out = a.copy()
    return lambda: dml.scatter_elements(a, indices, updates, axis=case.axis, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Copy, then put along the axis."""

    def call() -> np.ndarray:
        result = a.copy()
        np.put_along_axis(result, indices, updates, case.axis)
        return result

    return call


def torch(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Scatter, out of place."""
    library = common.torch_module()
    data, positions, new = library.from_numpy(a), common.torch_indices(indices), library.from_numpy(updates)
    return lambda: library.scatter(data, case.axis, positions, new)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> Callable[[], Any]:
    """Run ScatterElements."""
    inputs = {"data": a, "indices": indices, "updates": updates}
    return common.onnx_call("ScatterElements", inputs, [a.dtype], axis=case.axis)


IMPLEMENTATIONS = {
    "numba_dml": numba_dml,
    "numba_dml out": numba_dml_out,
    "numpy": numpy,
    "torch": torch,
    "onnxruntime": onnxruntime,
}


class ScatterElements(common.Calls):
    """The time of one call."""

    operator = common.Operator(CASES, arrays, traffic, IMPLEMENTATIONS)


class ScatterElementsThroughput(common.Throughput):
    """The bytes per second of a call with `out=`."""

    operator = ScatterElements.operator
