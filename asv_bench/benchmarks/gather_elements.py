"""GATHER_ELEMENTS: single elements, picked along one axis at every position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numba_dml as dml

from . import common


class Case(NamedTuple):
    """A matrix, and a random order of the positions along `axis` for each of its lines."""

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
    """Return the data and the indices."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    return a, common.permutations(rng, a.shape, case.axis, case.index_dtype)


def traffic(case: Case, a: np.ndarray, indices: np.ndarray) -> int:
    """Return the bytes of the indices, and of the result read and written."""
    return indices.nbytes + 2 * a.itemsize * indices.size


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Allocate the result."""
    return lambda: dml.gather_elements(a, indices, axis=case.axis)


def numba_dml_out(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Write to an array."""
    out = dml.gather_elements(a, indices, axis=case.axis)
    return lambda: dml.gather_elements(a, indices, axis=case.axis, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Take along the axis."""
    return lambda: np.take_along_axis(a, indices, case.axis)


def torch(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Gather."""
    library = common.torch_module()
    data, positions = library.from_numpy(a), common.torch_indices(indices)
    return lambda: library.gather(data, case.axis, positions)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray) -> Callable[[], Any]:
    """Run GatherElements."""
    return common.onnx_call("GatherElements", {"data": a, "indices": indices}, [a.dtype], axis=case.axis)


IMPLEMENTATIONS = {
    "numba_dml": numba_dml,
    "numba_dml out": numba_dml_out,
    "numpy": numpy,
    "torch": torch,
    "onnxruntime": onnxruntime,
}


class GatherElements(common.Calls):
    """The time of one call."""

    operator = common.Operator(CASES, arrays, traffic, IMPLEMENTATIONS)


class GatherElementsThroughput(common.Throughput):
    """The bytes per second of a call with `out=`."""

    operator = GatherElements.operator
