"""NONZERO_COORDINATES: where elements are not zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """Elements of which a share is not zero, at random places."""

    shape: tuple[int, ...]
    share: float
    dtype: str = "bool"
    order: str = "C"


CASES = {
    common.TINY: Case((8,), 0.5),
    **{
        f"{shape} {dtype}, {share:.0%}": Case(shape, share, dtype)
        for shape in ((100_000_000,), (10_000, 10_000))
        for dtype in ("bool", "f4")
        for share in (0.01, 0.1, 0.5)
    },
}

NEIGHBOURS = {
    **{f"(100, 1000, 1000) {t}, 10%": Case((100, 1000, 1000), 0.1, t) for t in ("bool", "f4", "i2", "f8", "c16")},
    **{f"{shape} bool, 10%": Case(shape, 0.1) for shape in ((10_000_000, 3), (3, 10_000_000), (999_983,), (10_000,))},
    "(20,) * 5 f4, 30%": Case((20,) * 5, 0.3, "f4"),
    "(4096, 4096) f4, 10%, Fortran order": Case((4096, 4096), 0.1, "f4", "F"),
}

#: A call has to read all of its input.
LIMIT = "scan"
traffic = common.whole_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the data."""
    shape = common.sizes(case.shape)
    chosen = common.generator().random(shape, np.float32) < case.share
    return (np.asarray(chosen.astype(case.dtype), order=case.order),)


def numba_dml(case: Case, a: np.ndarray) -> common.Call:
    """Return rows of coordinates."""
    return lambda: dml.nonzero_coordinates(a)


def numpy(case: Case, a: np.ndarray) -> common.Call:
    """Return an array for each axis: rows of coordinates take NumPy longer."""
    return lambda: np.nonzero(a)


def torch(case: Case, a: np.ndarray) -> common.Call:
    """Return rows of coordinates."""
    module = common.library("torch")
    data = module.from_numpy(a)
    return lambda: module.nonzero(data)


def onnxruntime(case: Case, a: np.ndarray) -> common.Call:
    """Return an array with a row for each axis."""
    return common.onnx_call("NonZero", {"x": a}, [np.int64], None)


NonzeroCoordinates, NonzeroCoordinatesNeighbours, NonzeroCoordinatesThroughput = common.benchmarks(
    "NonzeroCoordinates", globals()
)
