"""TOP_K: the k largest of every line, with their positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import numba_dml as dml

from . import common


@dataclass(frozen=True)
class Case:
    """The `k` largest or smallest along an axis."""

    shape: tuple[int, ...]
    k: int
    dtype: str = "f4"
    distribution: str = "random"
    axis: int = -1
    mode: str = "largest"
    nan: str = "last"
    order: str = "C"


CASES = {
    f"{common.TINY}, k=3": Case((1, 8), 3),
    "(1, 1M) k=10 f4": Case((1, 1_000_000), 10),
    "(1, 10M) k=100 f4": Case((1, 10_000_000), 100),
    "(1, 10M) k=100 i8": Case((1, 10_000_000), 100, "i8"),
    "(1, 10M) k=100 u1": Case((1, 10_000_000), 100, "u1"),
    "(1, 10M) k=10000 f4": Case((1, 10_000_000), 10_000),
    **{f"(64, 50257) k=50 {t}": Case((64, 50257), 50, t) for t in ("f4", "i4", "i8", "f8", "f2", "u1")},
    **{
        f"(64, 50257) k=50 f4 {d}": Case((64, 50257), 50, "f4", d)
        for d in ("ascending", "descending", "equal", "ties", "nan")
    },
    "(1024, 32000) k=1 f4": Case((1024, 32000), 1),
    "(100k, 128) k=8 f4": Case((100_000, 128), 8),
    "(100k, 128) k=8 f2": Case((100_000, 128), 8, "f2"),
    "(1M, 64) k=6 f4": Case((1_000_000, 64), 6),
    "(4096, 4096) k=64 f4": Case((4096, 4096), 64),
    "(10, 1M) k=500k f4": Case((10, 1_000_000), 500_000),
    "(4096, 4096) k=8 f4, axis 0": Case((4096, 4096), 8, axis=0),
}

HARD = ("ascending", "ascending blocks", "sawtooth", "equal", "nan")
NEIGHBOURS = {
    # other distributions
    **{
        f"(64, 50257) k=50 f4 {d}": Case((64, 50257), 50, "f4", d)
        for d in ("half nan", "2 values", "ascending blocks", "sawtooth")
    },
    **{f"(1, 10M) k=100 f4 {d}": Case((1, 10_000_000), 100, "f4", d) for d in HARD},
    **{f"(100k, 128) k=8 f4 {d}": Case((100_000, 128), 8, "f4", d) for d in ("ascending", "equal", "half nan")},
    **{f"(1024, 32000) k=1 f4 {d}": Case((1024, 32000), 1, "f4", d) for d in HARD},
    **{f"(4096, 4096) k=8 f4 {d}, axis 0": Case((4096, 4096), 8, "f4", d, 0) for d in HARD},
    # other data types
    **{f"(64, 50257) k=50 {t}": Case((64, 50257), 50, t) for t in ("i1", "i2", "u2", "u4", "u8", "bool")},
    **{f"(100k, 128) k=8 {t}": Case((100_000, 128), 8, t) for t in ("f8", "i1", "i4", "i8", "u1")},
    **{f"(1024, 32000) k=1 {t}": Case((1024, 32000), 1, t) for t in ("f2", "f8", "i4", "i8", "u1")},
    **{f"(1, 10M) k=100 {t}": Case((1, 10_000_000), 100, t) for t in ("f2", "f8", "i1", "i4", "u4", "bool")},
    **{f"(4096, 4096) k=8 {t}, axis 0": Case((4096, 4096), 8, t, axis=0) for t in ("f2", "f8", "i8", "u1")},
    # other k, around which the method changes
    **{f"(64, 50257) k={k} f4": Case((64, 50257), k) for k in (1, 15, 16, 17, 33, 100, 1000, 25128)},
    **{f"(100k, 128) k={k} f4": Case((100_000, 128), k) for k in (1, 15, 16, 17, 33, 64)},
    **{f"(1, 10M) k={k} f4": Case((1, 10_000_000), k) for k in (1, 1000, 100_000)},
    **{f"(4096, 4096) k={k} f4, axis 0": Case((4096, 4096), k, axis=0) for k in (1, 16, 17, 64)},
    # the experts of tokens, what is short along another axis, and what is staged
    **{f"(100k, 8) k=2 {t}": Case((100_000, 8), 2, t) for t in ("f4", "f2")},
    **{f"(200, 20000) k={k} f4, axis 0": Case((200, 20_000), k, axis=0) for k in (50, 200)},
    **{f"(4096, 500) k=100 {t}, axis 0": Case((4096, 500), 100, t, axis=0) for t in ("f4", "i8", "u1")},
    "(2000, 500) k=500 i8 descending": Case((2000, 500), 500, "i8", "descending"),
    # sizes that are no multiple of anything
    "(1, 999983) k=10 f4": Case((1, 999_983), 10),
    "(63, 50021) k=50 f4": Case((63, 50021), 50),
    "(99991, 127) k=8 f4": Case((99_991, 127), 8),
    "(9973, 1025) k=8 f4": Case((9973, 1025), 8),
    "(4093, 4091) k=8 f4, axis 0": Case((4093, 4091), 8, axis=0),
    # the smallest, and NaN as a large number
    "(1, 10M) k=100 f4, smallest": Case((1, 10_000_000), 100, mode="smallest"),
    "(64, 50257) k=50 f4, smallest": Case((64, 50257), 50, mode="smallest"),
    "(64, 50257) k=50 u1, smallest": Case((64, 50257), 50, "u1", mode="smallest"),
    "(1024, 32000) k=1 f4, smallest": Case((1024, 32000), 1, mode="smallest"),
    "(100k, 128) k=8 f4, smallest": Case((100_000, 128), 8, mode="smallest"),
    "(64, 50257) k=50 f4 nan, nan largest": Case((64, 50257), 50, "f4", "nan", nan="largest"),
    "(64, 50257) k=50 f4 half nan, nan largest": Case((64, 50257), 50, "f4", "half nan", nan="largest"),
    # other axes and layouts
    "(64, 512, 256) k=8 f4, axis 1": Case((64, 512, 256), 8, axis=1),
    "(50257, 64) k=50 f4, axis 0": Case((50257, 64), 50, axis=0),
    "(64, 50257) k=50 f4, Fortran order": Case((64, 50257), 50, order="F"),
    "(4096, 4096) k=8 f4, Fortran order, axis 0": Case((4096, 4096), 8, axis=0, order="F"),
}

#: A call has to read all of its input.
LIMIT = "scan"
traffic = common.whole_traffic


def arrays(case: Case) -> common.Arrays:
    """Return the data; its distribution is that of the lines along the axis."""
    shape = common.sizes(case.shape)
    axis = case.axis % len(shape)
    lines = common.values(
        common.generator(), (*shape[:axis], *shape[axis + 1 :], shape[axis]), case.dtype, case.distribution
    )
    return (np.asarray(np.moveaxis(lines, -1, axis), order=case.order),)


def numba_dml(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Select, sorted; ties by position."""
    k = common.size(case.k)
    return lambda: dml.top_k(a, k, axis=case.axis, mode=case.mode, nan=case.nan, out=out)


def numpy(case: Case, a: np.ndarray) -> common.Call:
    """Partition, then sort the k; argmax for k = 1. Ties are in any order, and NaN is the largest."""
    k, axis, n = common.size(case.k), case.axis, a.shape[case.axis]
    smallest = case.mode == "smallest"
    best = np.argmin if smallest else np.argmax
    place = k - 1 if smallest else n - k
    selected = (slice(None),) * (axis % a.ndim) + (slice(k) if smallest else slice(n - k, n),)

    def single() -> tuple[np.ndarray, np.ndarray]:
        indices = best(a, axis, keepdims=True)
        return np.take_along_axis(a, indices, axis), indices

    def call() -> tuple[np.ndarray, np.ndarray]:
        indices = np.argpartition(a, place, axis)[selected]
        values = np.take_along_axis(a, indices, axis)
        order = np.argsort(values, axis, kind="stable")
        if not smallest:
            order = np.flip(order, axis)
        return np.take_along_axis(values, order, axis), np.take_along_axis(indices, order, axis)

    return single if k == 1 else call


def torch(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Select, sorted."""
    if a.dtype == bool:
        raise NotImplementedError("topk does not take bool")
    module = common.library("torch")
    data, k, out = module.from_numpy(a), common.size(case.k), out and tuple(out)
    return lambda: module.topk(data, k, case.axis, case.mode == "largest", out=out)


def onnxruntime(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Run TopK."""
    inputs = {"data": a, "k": np.array([common.size(case.k)])}
    return common.onnx_call(
        "TopK", inputs, [a.dtype, np.int64], out, axis=case.axis, largest=int(case.mode == "largest")
    )


def jax(case: Case, a: np.ndarray) -> common.Call:
    """Select, sorted; the smallest are the largest of the reversed order."""
    k = common.size(case.k)
    top_k = common.library("jax").lax.top_k

    def reverse(values: Any) -> Any:
        return -values if a.dtype.kind == "f" else ~values

    def smallest(data: Any) -> Any:
        values, indices = top_k(reverse(data), k, axis=case.axis)
        return reverse(values), indices

    return common.jax_call(smallest if case.mode == "smallest" else lambda a: top_k(a, k, axis=case.axis), a)


def faiss(case: Case, a: np.ndarray, out: Any = None) -> common.Call:
    """Push every row through a heap, then sort it. Ties are in any order, and NaN is never chosen."""
    if a.dtype != np.float32 or a.ndim != 2 or case.axis != -1:
        raise NotImplementedError("rows of float32 only")
    common.c_order_only(a)
    module = common.library("faiss")
    heaps = module.float_minheap_array_t if case.mode == "largest" else module.float_maxheap_array_t
    (rows, n), k = a.shape, common.size(case.k)

    def call() -> tuple[np.ndarray, np.ndarray]:
        values, indices = out or (np.empty((rows, k), np.float32), np.empty((rows, k), np.int64))
        heap = heaps()
        heap.nh, heap.k = rows, k
        heap.val, heap.ids = module.swig_ptr(values), module.swig_ptr(indices)
        heap.heapify()
        heap.addn(n, module.swig_ptr(a))
        heap.reorder()
        return values, indices

    return call


TopK, TopKNeighbours, TopKThroughput = common.benchmarks("TopK", globals())
