"""MAX_UNPOOLING: the largest of every 2 x 2 pixels, back where it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """Images that were pooled; indices count within each plane, or through the whole array."""

    shape: tuple[int, ...]
    dtype: str = "f4"
    planes: bool = True


CASES = {
    common.TINY: Case((1, 2, 4, 4)),
    "(32, 64, 112, 112) f4, by plane": Case((32, 64, 112, 112)),
    "(32, 64, 112, 112) f4, whole": Case((32, 64, 112, 112), planes=False),
}

NEIGHBOURS = {
    "(8, 64, 56, 56) f4, by plane": Case((8, 64, 56, 56)),
    "(8, 64, 56, 56) f4, whole": Case((8, 64, 56, 56), planes=False),
    "(16, 64, 112, 112) f8, by plane": Case((16, 64, 112, 112), "f8"),
    "(16, 64, 112, 112) u1, whole": Case((16, 64, 112, 112), "u1", False),
}

LIMIT = "copy"
traffic = common.whole_traffic


def arrays(case: Case) -> common.Arrays:
    """Return elements and indices."""
    rng = common.generator()
    n, c, h, w = case.shape
    a = common.values(rng, (n, c, h // 2, w // 2), case.dtype)
    which = rng.integers(0, 4, a.shape)
    i = (np.arange(h // 2)[:, None] * 2 + which // 2) * w + np.arange(w // 2) * 2 + which % 2
    return a, i if case.planes else i + (np.arange(n * c) * h * w).reshape(n, c, 1, 1)


def numba_dml(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Unpool."""
    batch_dims = 2 if case.planes else 0
    return lambda: dml.max_unpool(a, indices, case.shape, batch_dims=batch_dims, out=out)


def numpy(case: Case, a: np.ndarray, indices: np.ndarray) -> common.Call:
    """Write to zeros."""
    planes = case.shape[0] * case.shape[1] if case.planes else 1

    def call() -> np.ndarray:
        result = np.zeros(case.shape, a.dtype)
        if planes == 1:
            result.reshape(-1)[indices.reshape(-1)] = a.reshape(-1)
        else:
            flat = (x.reshape(planes, -1) for x in (result, indices, a))
            np.put_along_axis(*flat, 1)
        return result

    return call


def torch(case: Case, a: np.ndarray, indices: np.ndarray) -> common.Call:
    """Unpool, which counts within planes."""
    if not case.planes:
        raise NotImplementedError("indices within a plane only")
    module = common.library("torch")
    data, where = module.from_numpy(a), common.torch_indices(indices)
    return lambda: module.nn.functional.max_unpool2d(data, where, 2)


def onnxruntime(case: Case, a: np.ndarray, indices: np.ndarray, out: Any = None) -> common.Call:
    """Run MaxUnpool, which counts through the whole array."""
    if case.planes:
        raise NotImplementedError("indices within the whole array only")
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return common.onnx_call("MaxUnpool", {"a": a, "i": indices}, [a.dtype], out, **attributes)


MaxUnpool, MaxUnpoolNeighbours, MaxUnpoolThroughput = common.benchmarks("MaxUnpool", globals())
