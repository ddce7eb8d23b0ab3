"""SCATTER_ELEMENTS: single elements of a copy, overwritten or combined along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common, gather_elements


@dataclass(frozen=True)
class Case(gather_elements.Case):
    """What is gathered, scattered: no element is hit twice, and `unique` says so."""

    reduction: str = "none"
    unique: bool = False


CASES = {name: Case(**vars(case)) for name, case in gather_elements.CASES.items()}

NEIGHBOURS = {
    **{name: Case(**vars(case)) for name, case in gather_elements.NEIGHBOURS.items()},
    **{f"(2048, 4096) f4, axis {axis}, unique": Case((2048, 4096), axis, unique=True) for axis in (0, 1)},
    **{
        f"(2048, 4096) {t}, axis {axis}, {reduction}": Case((2048, 4096), axis, t, reduction=reduction)
        for reduction in ("add", "max")
        for t in ("f4", "i8")
        for axis in (0, 1)
    },
}

LIMIT = "copy"
traffic = common.scatter_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the data, the indices and the updates."""
    a, indices = gather_elements.arrays(case)
    return a, indices, common.values(common.generator(), indices.shape, case.dtype)


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Scatter elements."""
    return lambda: dml.scatter_elements(
        a, indices, updates, axis=case.axis, reduction=case.reduction, unique=case.unique, out=out
    )


def numpy(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Copy, then put along the axis, or combine with `ufunc.at`."""
    where, combine = common.along(indices, case.axis), common.UFUNCS.get(case.reduction)

    def call() -> np.ndarray:
        result = common.copied(a, out)
        if combine is None:
            np.put_along_axis(result, indices, updates, case.axis)
        else:
            combine.at(result, where, updates)
        return result

    return call


def torch(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Scatter, out of place."""
    module = common.library("torch")
    data, positions, new = module.from_numpy(a), common.torch_indices(indices), module.from_numpy(updates)
    if case.reduction == "none":
        return lambda: module.scatter(data, case.axis, positions, new, out=out)
    reduction = common.TORCH_REDUCTIONS[case.reduction]
    return lambda: module.scatter_reduce(data, case.axis, positions, new, reduction, out=out)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Run ScatterElements."""
    inputs = {"data": a, "indices": indices, "updates": updates}
    return common.onnx_call("ScatterElements", inputs, [a.dtype], out, axis=case.axis, reduction=case.reduction)


def jax(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> common.Call:
    """Update, out of place."""

    def scatter(a: Any, indices: Any, updates: Any) -> Any:
        return common.jax_update(a.at[common.along(indices, case.axis)], case, updates)

    return common.jax_call(scatter, a, indices, updates)


ScatterElements, ScatterElementsNeighbours, ScatterElementsThroughput = common.benchmarks("ScatterElements", globals())
