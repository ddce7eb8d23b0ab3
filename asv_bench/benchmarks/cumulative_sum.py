"""CUMULATIVE_SUMMATION: the running sums of every line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """The sums along an axis."""

    shape: tuple[int, ...]
    axis: int = -1
    dtype: str = "f4"
    order: str = "C"


CASES = {
    common.TINY: Case((8,)),
    "1000 elements f8": Case((1000,), dtype="f8"),
    **{f"10M {t}": Case((10_000_000,), dtype=t) for t in ("f4", "f8", "f2", "i4", "i8")},
    "(100k, 64) f4": Case((100_000, 64)),
    "(4096, 4096) f4": Case((4096, 4096)),
    **{f"(4096, 4096) {t}, axis 0": Case((4096, 4096), 0, t) for t in ("f4", "f2", "i4")},
    "(30, 256, 1000) f4, axis 1": Case((30, 256, 1000), 1),
}
NEIGHBOURS = {
    **{f"{n} elements {t}": Case((n,), dtype=t) for n in (10_000, 100_000, 1_000_000) for t in ("f4", "f8", "i8")},
    **{f"(100k, 64) {t}": Case((100_000, 64), dtype=t) for t in ("f8", "f2", "i4", "i8", "u1")},
    **{f"(1M, {n}) f4": Case((1_000_000, n)) for n in (3, 8)},
    **{f"(1M, {n}) f4, axis 0": Case((1_000_000, n), 0) for n in (3, 8, 16, 20)},
    **{f"(3, 3M) {t}": Case((3, 3_000_000), dtype=t) for t in ("f4", "i4")},
    **{f"(64, 100k) {t}, axis 0": Case((64, 100_000), 0, t) for t in ("f4", "f8", "u1")},
    "(4093, 4091) f4, axis 0": Case((4093, 4091), 0),
    "(4096, 4096) f4, Fortran order": Case((4096, 4096), order="F"),
    "(4096, 4096) f4, Fortran order, axis 0": Case((4096, 4096), 0, order="F"),
    "10M c8": Case((10_000_000,), dtype="c8"),
}

#: A call has to read its input, and to write as many elements.
LIMIT = "copy"
traffic = common.whole_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the data."""
    return (np.asarray(common.values(common.generator(), common.sizes(case.shape), case.dtype), order=case.order),)


def numba_dml(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Add in float64, by blocks, and round once."""
    return lambda: dml.cumulative_sum(a, axis=case.axis, out=out)


def numpy(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Add strictly in order, in the type of the result."""
    return lambda: np.cumsum(a, case.axis, out=out)


def torch(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Add in float64 (float16 in float32), rounded once; integers in int64."""
    module = common.library("torch")
    data = module.from_numpy(a)
    return lambda: module.cumsum(data, case.axis, out=out)


def onnxruntime(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Run CumSum, in the type of the data."""
    inputs = {"x": a, "axis": np.array(case.axis)}
    return common.onnx_call("CumSum", inputs, [a.dtype], out)


def jax(case: Case, a: np.ndarray) -> common.Call:
    """Add by a tree; integers in their own type."""
    module = common.library("jax")
    return common.jax_call(lambda a: module.numpy.cumsum(a, case.axis), a)


CumulativeSum, CumulativeSumNeighbours, CumulativeSumThroughput = common.benchmarks("CumulativeSum", globals())
