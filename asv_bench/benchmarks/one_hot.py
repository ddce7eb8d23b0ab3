"""ONE_HOT: classes as rows with one element set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """`count` classes of `depth`, along the last axis of the result or along the first one."""

    count: int
    depth: int
    dtype: str = "f4"
    axis: int = -1
    index_dtype: str = "i8"


CASES = {
    common.TINY: Case(8, 4),
    "1M of 10 classes, f4": Case(1_000_000, 10),
    "1M of 10 classes, f4, axis 0": Case(1_000_000, 10, axis=0),
    "4096 of 50257 classes, f2": Case(4096, 50257, "f2"),
}

NEIGHBOURS = {
    "100k of 1000 classes, f4": Case(100_000, 1000),
    "100k of 1000 classes, f4, axis 0": Case(100_000, 1000, axis=0),
    "1M of 64 classes, u1, i4 indices": Case(1_000_000, 64, "u1", index_dtype="i4"),
    "1M of 64 classes, u1, axis 0": Case(1_000_000, 64, "u1", axis=0),
    "1M of 10 classes, bool": Case(1_000_000, 10, "bool"),
    "300k of 100 classes, f8": Case(300_000, 100, "f8"),
}

LIMIT = "copy"
traffic = common.whole_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the indices."""
    indices = common.generator().integers(0, case.depth, common.size(case.count))
    return (indices.astype(case.index_dtype),)


def numba_dml(case: Case, indices: np.ndarray, out: Any = None) -> common.Call:
    """One-hot."""
    return lambda: dml.one_hot(indices, case.depth, axis=case.axis, dtype=case.dtype, out=out)


def numpy(case: Case, indices: np.ndarray, out: Any = None) -> common.Call:
    """Set one element of each row of zeros: faster than rows of `eye`, and than a comparison."""
    rows = np.arange(len(indices))
    places = (rows, indices) if case.axis else (indices, rows)
    shape = (len(indices), case.depth) if case.axis else (case.depth, len(indices))

    def call() -> np.ndarray:
        result = np.zeros(shape, case.dtype) if out is None else out
        if out is not None:
            result.fill(0)
        result[places] = 1
        return result

    return call


def torch(case: Case, indices: np.ndarray) -> common.Call:
    """One-hot, which has int64 and the last axis alone."""
    module = common.library("torch")
    kind, where = getattr(module, np.dtype(case.dtype).name), common.torch_indices(indices)
    functional = module.nn.functional
    if case.axis:
        return lambda: functional.one_hot(where, case.depth).to(kind)
    return lambda: functional.one_hot(where, case.depth).T.to(kind).contiguous()


def onnxruntime(case: Case, indices: np.ndarray, out: Any = None) -> common.Call:
    """Run OneHot."""
    inputs = {"i": indices.astype(np.int64), "depth": np.array(case.depth), "values": np.array([0, 1], case.dtype)}
    return common.onnx_call("OneHot", inputs, [inputs["values"].dtype], out, axis=case.axis)


def jax(case: Case, indices: np.ndarray) -> common.Call:
    """One-hot."""
    module = common.library("jax")
    return common.jax_call(lambda i: module.nn.one_hot(i, case.depth, dtype=case.dtype, axis=case.axis), indices)


OneHot, OneHotNeighbours, OneHotThroughput = common.benchmarks("OneHot", globals())
