"""GATHER: rows, and elements of rows, picked along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """`count` positions, drawn with repetition, along `axis` of an array."""

    shape: tuple[int, ...]
    count: int
    dtype: str = "f4"
    index_dtype: str = "i8"
    axis: int = 0
    order: str = "C"


CASES = {
    common.TINY: Case((8,), 8),
    "1M of 1M rows of 64 f4": Case((1_000_000, 64), 1_000_000),
    "1M of 1M rows of 64 f4, u4 indices": Case((1_000_000, 64), 1_000_000, index_dtype="u4"),
    "4M of 1M rows of 4 f4, i4 indices": Case((1_000_000, 4), 4_000_000, index_dtype="i4"),
    "20k of 20k rows of 1024 f4": Case((20_000, 1024), 20_000),
    "(4096, 4096) f4, axis 1": Case((4096, 4096), 4096, axis=1),
    "(4096, 4096) u1, axis 1, i4 indices": Case((4096, 4096), 4096, "u1", "i4", axis=1),
}

NEIGHBOURS = {
    # a table that a cache holds, few rows, sizes that are no multiple of anything
    "1M of 1000 rows of 64 f4": Case((1000, 64), 1_000_000),
    "1000 of 1M rows of 64 f4": Case((1_000_000, 64), 1000),
    "10M of 10000 f4": Case((10_000,), 10_000_000),
    "499979 of 499979 rows of 63 f4": Case((499_979, 63), 499_979),
    "(4093, 4091) f4, axis 1": Case((4093, 4091), 4091, axis=1),
    # rows of other widths, all of 64 MB
    **{
        f"{2**24 // width} rows of {width} f4": Case((2**24 // width, width), 2**24 // width)
        for width in (1, 2, 3, 4, 8, 16, 17, 32, 100, 256, 1024)
    },
    # other data types
    **{f"1M rows of 16 {t}": Case((1_000_000, 16), 1_000_000, t) for t in ("f2", "f8", "c16", "u1", "bool")},
    **{f"(4096, 4096) {t}, axis 1": Case((4096, 4096), 4096, t, axis=1) for t in ("f2", "f8", "c16")},
    # few indices of many rows: columns of a table, the colours of an image
    "3 of 8 columns of 100k rows f4": Case((100_000, 8), 3, axis=1),
    "2 of 2 columns of 1M rows f8": Case((1_000_000, 2), 2, "f8", axis=1),
    "3 of 3 colours of (1080, 1920) u1": Case((1080, 1920, 3), 3, "u1", axis=2),
    "16 of 64 columns of 100k rows f4": Case((100_000, 64), 16, axis=1),
    # other axes and layouts
    "(64, 512, 256) f4, axis 1": Case((64, 512, 256), 512, axis=1),
    "(64, 512, 256) f4, axis 2": Case((64, 512, 256), 256, axis=2),
    "(4096, 4096) f4, Fortran order, axis 0": Case((4096, 4096), 4096, order="F"),
    "(4096, 4096) f4, Fortran order, axis 1": Case((4096, 4096), 4096, axis=1, order="F"),
}

LIMIT = "copy"
traffic = common.gather_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the data and the indices."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    indices = rng.integers(0, a.shape[case.axis], common.size(case.count), case.index_dtype)
    return np.asarray(a, order=case.order), indices


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Gather."""
    return lambda: dml.gather(a, indices, axis=case.axis, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Take; with `out=` in a mode for which NumPy does not buffer it."""
    mode = "raise" if out is None else "clip"
    return lambda: np.take(a, indices, case.axis, out, mode)


def torch(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Select along the axis."""
    module = common.library("torch")
    data, positions = module.from_numpy(a), common.torch_indices(indices)
    return lambda: module.index_select(data, case.axis, positions, out=out)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Run Gather, whose indices are signed."""
    if indices.dtype.kind == "u":
        indices = indices.astype(np.int64)
    return common.onnx_call("Gather", {"data": a, "indices": indices}, [a.dtype], out, axis=case.axis)


def jax(case: Case, a: np.ndarray, indices: np.ndarray) -> common.Call:
    """Take, in the fastest mode."""
    take = common.library("jax.numpy").take
    return common.jax_call(lambda a, indices: take(a, indices, case.axis, mode="clip"), a, indices)


Gather, GatherNeighbours, GatherThroughput = common.benchmarks("Gather", globals())
