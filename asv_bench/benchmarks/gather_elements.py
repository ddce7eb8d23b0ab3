"""GATHER_ELEMENTS: single elements, picked along one axis at every position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """An array, and a random order of the positions along `axis` for each of its lines."""

    shape: tuple[int, ...]
    axis: int
    dtype: str = "f4"
    index_dtype: str = "i8"
    order: str = "C"
    index_order: str = "C"


CASES = {
    common.TINY: Case((1, 8), 1),
    "(2048, 4096) f4, axis 0": Case((2048, 4096), 0),
    "(2048, 4096) f4, axis 1": Case((2048, 4096), 1),
    "(2048, 4096) f8, axis 1, i4 indices": Case((2048, 4096), 1, "f8", "i4"),
}

NEIGHBOURS = {
    "(2048, 4096) f4, axis 0, i4 indices": Case((2048, 4096), 0, index_dtype="i4"),
    "(2048, 4096) f4, axis 1, i4 indices": Case((2048, 4096), 1, index_dtype="i4"),
    # sizes that are no multiple of anything, long lines
    "(2039, 4093) f4, axis 0": Case((2039, 4093), 0),
    "(2039, 4093) f4, axis 1": Case((2039, 4093), 1),
    "(16, 524288) f4, axis 1": Case((16, 524_288), 1),
    "(524288, 16) f4, axis 0": Case((524_288, 16), 0),
    # other axes and layouts
    "(64, 512, 256) f4, axis 1": Case((64, 512, 256), 1),
    "(2048, 4096) f4, axis 1, Fortran order": Case((2048, 4096), 1, order="F", index_order="F"),
    "(2048, 4096) f4, axis 0, Fortran order": Case((2048, 4096), 0, order="F", index_order="F"),
    "(2048, 4096) f4, axis 1, data in Fortran order": Case((2048, 4096), 1, order="F"),
    "(2048, 4096) f4, axis 1, indices in Fortran order": Case((2048, 4096), 1, index_order="F"),
    # other data types
    **{
        f"(2048, 4096) {t}, axis {axis}": Case((2048, 4096), axis, t)
        for t in ("f2", "f8", "c16", "u1", "bool")
        for axis in (0, 1)
    },
}

LIMIT = "copy"
traffic = common.gather_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the data and the indices."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    indices = common.permutations(rng, a.shape, case.axis, case.index_dtype)
    return np.asarray(a, order=case.order), np.asarray(indices, order=case.index_order)


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Gather elements."""
    return lambda: dml.gather_elements(a, indices, axis=case.axis, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray) -> common.Call:
    """Take along the axis."""
    return lambda: np.take_along_axis(a, indices, case.axis)


def torch(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Gather."""
    module = common.library("torch")
    data, positions = module.from_numpy(a), common.torch_indices(indices)
    return lambda: module.gather(data, case.axis, positions, out=out)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Run GatherElements."""
    return common.onnx_call("GatherElements", {"data": a, "indices": indices}, [a.dtype], out, axis=case.axis)


def jax(case: Case, a: np.ndarray, indices: np.ndarray) -> common.Call:
    """Take along the axis, in the fastest mode."""
    take = common.library("jax.numpy").take_along_axis
    return common.jax_call(lambda a, indices: take(a, indices, case.axis, mode="clip"), a, indices)


GatherElements, GatherElementsNeighbours, GatherElementsThroughput = common.benchmarks("GatherElements", globals())
