"""REVERSE_SUBSEQUENCES: sequences of a batch, each reversed up to its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """Random lengths of the sequences along axis 1, one for each of the batch; or one for each column, along axis 0."""

    shape: tuple[int, ...]
    dtype: str = "f4"
    axis: int = 1


CASES = {
    common.TINY: Case((2, 4)),
    "(1000, 10000) f4": Case((1000, 10_000)),
    "(32, 512, 256) f4": Case((32, 512, 256)),
    "(128, 1000, 1000) f4": Case((128, 1000, 1000)),
}

NEIGHBOURS = {
    "(32, 512, 4) f4": Case((32, 512, 4)),
    "(100, 2000, 16) f8": Case((100, 2000, 16), "f8"),
    "(3, 3M) u1": Case((3, 3_000_000), "u1"),
    "(1000, 10000) f4, axis 0": Case((1000, 10_000), axis=0),
    "(10000, 100) i2": Case((10_000, 100), "i2"),
}

LIMIT = "copy"
traffic = common.whole_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the sequences and their lengths."""
    rng = common.generator()
    a = common.values(rng, common.sizes(case.shape), case.dtype)
    other = 0 if case.axis == 1 else 1
    sizes = tuple(n if d == other else 1 for d, n in enumerate(a.shape))
    return a, rng.integers(0, a.shape[case.axis] + 1, sizes)


def numba_dml(case: Case, a: np.ndarray, lengths: np.ndarray, out: Any = None) -> common.Call:
    """Reverse."""
    return lambda: dml.reverse_subsequences(a, lengths, axis=case.axis, out=out)


def positions_of(a: Any, lengths: Any, axis: int, module: Any, **where: Any) -> Any:
    """Return where each element of the result is along the axis, for every line of one length; `where`: the device."""
    t = module.arange(a.shape[axis], **where).reshape([-1 if d == axis else 1 for d in range(a.ndim)])
    return module.where(t < lengths, lengths - 1 - t, t)


def numpy(case: Case, a: np.ndarray, lengths: np.ndarray) -> common.Call:
    """Take rows by their positions, or single elements along the axis."""
    if a.ndim > 2:
        rows = np.arange(len(a))[:, None]
        return lambda: a[rows, positions_of(a, lengths, case.axis, np).reshape(a.shape[:2])]
    return lambda: np.take_along_axis(a, positions_of(a, lengths, case.axis, np), case.axis)


def torch(case: Case, a: np.ndarray, lengths: np.ndarray) -> common.Call:
    """Do what `numpy` does."""
    module = common.library("torch")
    data, counts = module.from_numpy(a), module.from_numpy(lengths)
    if a.ndim > 2:
        rows = module.arange(len(a))[:, None]
        return lambda: data[rows, positions_of(data, counts, case.axis, module).reshape(a.shape[:2])]
    return lambda: data.gather(case.axis, positions_of(data, counts, case.axis, module))


def onnxruntime(case: Case, a: np.ndarray, lengths: np.ndarray, out: Any = None) -> common.Call:
    """Run ReverseSequence."""
    inputs = {"a": a, "lengths": lengths.reshape(-1)}
    axes = {"batch_axis": 1 - case.axis, "time_axis": case.axis}
    return common.onnx_call("ReverseSequence", inputs, [a.dtype], out, **axes)


Reverse, ReverseNeighbours, ReverseThroughput = common.benchmarks("Reverse", globals())
