"""GATHER_ND: elements and rows, picked by tuples of indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """`count` tuples of `coordinates` indices, drawn with repetition."""

    shape: tuple[int, ...]
    count: int
    coordinates: int
    dtype: str = "f4"
    index_dtype: str = "i8"
    order: str = "C"
    index_order: str = "C"


CASES = {
    common.TINY: Case((8,), 8, 1),
    "1M of 1M rows of 64 f4, 1-tuples": Case((1_000_000, 64), 1_000_000, 1),
    "10M of (4096, 4096) f4, 2-tuples": Case((4096, 4096), 10_000_000, 2),
    "10M of (4096, 4096) f4, 2-tuples, i4 indices": Case((4096, 4096), 10_000_000, 2, index_dtype="i4"),
    "5M of (256, 256, 256) u1, 3-tuples, i4 indices": Case((256, 256, 256), 5_000_000, 3, "u1", "i4"),
}

NEIGHBOURS = {
    **{
        f"1M of (1000, 1000) rows of {width} f4, 2-tuples": Case((1000, 1000, width), 1_000_000, 2)
        for width in (32, 17, 4, 2)
    },
    "10M of 16M f4, 1-tuples": Case((2**24,), 10_000_000, 1),
    "5M of (256, 256, 256) f4, 3-tuples": Case((256, 256, 256), 5_000_000, 3),
    "5M of (64, 64, 64, 64) f4, 4-tuples": Case((64, 64, 64, 64), 5_000_000, 4),
    # a table that a cache holds, sizes that are no multiple of anything
    "10M of (100, 100) f4, 2-tuples": Case((100, 100), 10_000_000, 2),
    "4999999 of (4093, 4091) f4, 2-tuples": Case((4093, 4091), 4_999_999, 2),
    # other layouts
    "5M of (4096, 4096) f4, 2-tuples, data in Fortran order": Case((4096, 4096), 5_000_000, 2, order="F"),
    "5M of (4096, 4096) f4, 2-tuples, indices in Fortran order": Case((4096, 4096), 5_000_000, 2, index_order="F"),
    # other data types
    **{
        f"5M of (4096, 4096) {t}, 2-tuples": Case((4096, 4096), 5_000_000, 2, t)
        for t in ("f2", "f8", "c16", "u1", "bool")
    },
}

LIMIT = "copy"
traffic = common.gather_traffic


def arrays(case: Case, repeated: bool = True) -> common.Arrays:
    """Return the data and the indices."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    indexed, count = a.shape[: case.coordinates], common.size(case.count)
    total = np.prod(indexed)
    positions = rng.integers(0, total, count) if repeated else rng.permutation(total)[:count]
    indices = common.tuples(positions, indexed, case.index_dtype)
    return np.asarray(a, order=case.order), np.asarray(indices, order=case.index_order)


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Gather by tuples."""
    return lambda: dml.gather_nd(a, indices, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray) -> common.Call:
    """Index by one array per coordinate."""
    where = common.columns(indices)
    return lambda: a[where]


def torch(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Index by one array per coordinate."""
    module = common.library("torch")
    data, where = module.from_numpy(a), tuple(map(common.torch_indices, common.columns(indices)))
    if out is None:
        return lambda: data[where]
    return lambda: module.ops.aten.index.Tensor_out(data, where, out=out)  # what indexing calls; it has no other name


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Run GatherND, whose indices have 64 bits."""
    return common.onnx_call("GatherND", {"data": a, "indices": indices.astype(np.int64)}, [a.dtype], out)


def jax(case: Case, a: np.ndarray, indices: np.ndarray) -> common.Call:
    """Index by one array per coordinate, in the fastest mode."""
    return common.jax_call(lambda a, *where: a.at[where].get(mode="clip"), a, *common.columns(indices))


GatherND, GatherNDNeighbours, GatherNDThroughput = common.benchmarks("GatherND", globals())
