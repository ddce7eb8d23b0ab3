"""SCATTER_ND: elements and rows of a copy, overwritten or combined by tuples of indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common, gather_nd


@dataclass(frozen=True)
class Case(gather_nd.Case):
    """`count` tuples, all different unless there is a reduction; `unique` says so."""

    reduction: str = "none"
    unique: bool = False


CASES = {
    common.TINY: Case((8,), 4, 1),
    "1M of (4096, 4096) f4, 2-tuples": Case((4096, 4096), 1_000_000, 2),
    "100k of 200k rows of 64 f4, 1-tuples": Case((200_000, 64), 100_000, 1),
}

NEIGHBOURS = {
    "1M of (4096, 4096) f4, 2-tuples, i4 indices": Case((4096, 4096), 1_000_000, 2, index_dtype="i4"),
    "10M of (4096, 4096) f4, 2-tuples": Case((4096, 4096), 10_000_000, 2),
    "1M of (256, 256, 256) f4, 3-tuples": Case((256, 256, 256), 1_000_000, 3),
    **{
        f"{2**22 // width} of {2**23 // width} rows of {width} f4, 1-tuples": Case(
            (2**23 // width, width), 2**22 // width, 1
        )
        for width in (2, 4, 17, 256, 1024)
    },
    "999983 of (4093, 4091) f4, 2-tuples": Case((4093, 4091), 999_983, 2),
    # other layouts
    "1M of (4096, 4096) f4, 2-tuples, data in Fortran order": Case((4096, 4096), 1_000_000, 2, order="F"),
    "1M of (4096, 4096) f4, 2-tuples, indices in Fortran order": Case((4096, 4096), 1_000_000, 2, index_order="F"),
    # no duplicates, and reductions with some
    "1M of (4096, 4096) f4, 2-tuples, unique": Case((4096, 4096), 1_000_000, 2, unique=True),
    "100k of 200k rows of 64 f4, 1-tuples, unique": Case((200_000, 64), 100_000, 1, unique=True),
    **{
        f"1M of (4096, 4096) {t}, 2-tuples, {reduction}": Case((4096, 4096), 1_000_000, 2, t, reduction=reduction)
        for reduction in ("add", "max")
        for t in ("f4", "i8")
    },
    # many updates of a small output
    "10M of 256 i4, 1-tuples, add": Case((256,), 10_000_000, 1, "i4", reduction="add"),
    "10M of 100k i8, 1-tuples, add": Case((100_000,), 10_000_000, 1, "i8", reduction="add"),
    "10M of 1000 f4, 1-tuples, add": Case((1000,), 10_000_000, 1, reduction="add"),
    **{
        f"1M of 2000 {t}, 1-tuples, {reduction}": Case((2000,), 1_000_000, 1, t, reduction=reduction)
        for reduction in ("add", "max")
        for t in ("f4", "f8", "i4", "i2", "u1")
    },
    "100k of 200k rows of 64 f4, 1-tuples, add": Case((200_000, 64), 100_000, 1, reduction="add"),
    "100k of 100 rows of 64 f4, 1-tuples, add": Case((100, 64), 100_000, 1, reduction="add"),
    # other data types
    **{
        f"1M of (4096, 4096) {t}, 2-tuples": Case((4096, 4096), 1_000_000, 2, t)
        for t in ("f2", "f8", "c16", "u1", "bool")
    },
}

LIMIT = "copy"
traffic = common.scatter_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the data, the indices and the updates."""
    a, indices = gather_nd.arrays(case, repeated=case.reduction != "none")
    return a, indices, common.values(common.generator(), (len(indices), *a.shape[case.coordinates :]), case.dtype)


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Scatter by tuples."""
    return lambda: dml.scatter_nd(a, indices, updates, reduction=case.reduction, unique=case.unique, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Copy, then assign to one index array per coordinate, or combine with `ufunc.at`."""
    where, combine = common.columns(indices), common.UFUNCS.get(case.reduction)

    def call() -> np.ndarray:
        result = common.copied(a, out)
        if combine is None:
            result[where] = updates
        else:
            combine.at(result, where, updates)
        return result

    return call


def torch(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Put, out of place, or reduce single elements of a line."""
    module = common.library("torch")
    data, new = module.from_numpy(a), module.from_numpy(updates)
    if case.reduction != "none" and a.ndim == 1:
        reduction = common.TORCH_REDUCTIONS[case.reduction]
        positions = common.torch_indices(indices[:, 0])
        return lambda: module.scatter_reduce(data, 0, positions, new, reduction, out=out)
    if case.reduction == "max":
        raise NotImplementedError("index_put can add, nothing else")
    where, add = tuple(map(common.torch_indices, common.columns(indices))), case.reduction == "add"
    if out is None:
        return lambda: module.index_put(data, where, new, add)
    return lambda: module.ops.aten.index_put.out(data, where, new, add, out=out)  # it has no other name


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray, out: Any = None) -> common.Call:
    """Run ScatterND, whose indices have 64 bits."""
    inputs = {"data": a, "indices": indices.astype(np.int64), "updates": updates}
    return common.onnx_call("ScatterND", inputs, [a.dtype], out, reduction=case.reduction)


def jax(case: Case, a: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> common.Call:
    """Update, out of place."""
    return common.jax_call(
        lambda a, updates, *where: common.jax_update(a.at[where], case, updates), a, updates, *common.columns(indices)
    )


ScatterND, ScatterNDNeighbours, ScatterNDThroughput = common.benchmarks("ScatterND", globals())
