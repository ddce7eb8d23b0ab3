"""The functions on Dask arrays, next to Dask's own, and to the same call of ours on whole arrays, which is the limit.

A case is that of the operator's own file with the chunks of its arrays. A call makes the graph and computes it, with as
many threads as there are cores; chunks are arrays of their own in memory, so that nothing is read or copied before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import common, gather, gather_elements, gather_nd, scatter_elements, scatter_nd, top_k

OPERATORS = {
    "TopK": top_k,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}


@dataclass(frozen=True)
class Case:
    """A case of an operator, with the chunks of the data, and of indices and updates if these are Dask arrays too."""

    operator: ModuleType
    call: Any
    chunks: tuple[int, ...]
    index_chunks: tuple[int, ...] | None = None
    sorted: bool = False


def top_k_case(shape: tuple[int, ...], chunks: tuple[int, ...], k: int = 50, axis: int = -1) -> Case:
    """Return a case of top_k."""
    return Case(top_k, top_k.Case(shape, k, axis=axis), chunks)


def rows(count: int, chunk: int, index_chunk: int | None = None, sorted: bool = False) -> Case:
    """Return a gather of rows of a million; indices are NumPy's, or a Dask array if their chunks are given."""
    call = gather.Case((1_000_000, 64), count)
    return Case(gather, call, (chunk, 64), index_chunk and (index_chunk,), sorted)


def elements(operator: ModuleType, chunks: tuple[int, int], axis: int = 1) -> Case:
    """Return a case of an elements operator whose arrays all have the same chunks."""
    return Case(operator, operator.Case((4096, 4096), axis), chunks, chunks)


def pairs(operator: ModuleType, chunks: tuple[int, int], index_chunk: int | None = None, **more: Any) -> Case:
    """Return a case of an ND operator: a million elements of a matrix."""
    call = operator.Case((4096, 4096), 1_000_000, 2, **more)
    return Case(operator, call, chunks, index_chunk and (index_chunk, 2))


CASES = {
    "top_k (40, 1M) k=50, chunks (40, 100k), 16 MB": top_k_case((40, 1_000_000), (40, 100_000)),
    "top_k (40, 1M) k=50, chunks (10, 333k), 13 MB": top_k_case((40, 1_000_000), (10, 333_333)),
    **{
        f"top_k (40, 1M) k=50, chunks (40, {n // 1000}k), {n // 6250} MB": top_k_case((40, 1_000_000), (40, n))
        for n in (6250, 25_000, 400_000)
    },
    **{
        f"top_k (4000, 10k) k=50, chunks ({n}, 10k), {n // 25} MB": top_k_case((4000, 10_000), (n, 10_000))
        for n in (25, 100, 400, 1600)
    },
    **{
        f"top_k (1M, 40) k=50, axis 0, chunks ({n // 1000}k, 40), {n // 6250} MB": top_k_case(
            (1_000_000, 40), (n, 40), axis=0
        )
        for n in (6250, 25_000, 100_000)
    },
    **{
        f"top_k (40, 1M) k={k}, chunks (40, 100k), 16 MB": top_k_case((40, 1_000_000), (40, 100_000), k)
        for k in (1, 10, 1000)
    },
    **{
        f"gather {count // 1000}k of 1M rows of 64, {order} NumPy indices, chunks (62k, 64), 16 MB": rows(
            count, 62_500, sorted=order == "sorted"
        )
        for count in (100_000, 1_000_000)
        for order in ("sorted", "random")
    },
    **{
        f"gather {count // 1000}k of 1M rows of 64, random Dask indices, chunks (62k, 64), 16 MB": rows(
            count, 62_500, count // 4
        )
        for count in (100_000, 1_000_000)
    },
    "gather_elements (4096, 4096) axis 1, chunks (1024, 4096), 16 MB": elements(gather_elements, (1024, 4096)),
    "gather_elements (4096, 4096) axis 1, chunks (4096, 1024), 16 MB": elements(gather_elements, (4096, 1024)),
    "gather_nd 1M of (4096, 4096), NumPy 2-tuples, chunks (1024, 4096), 16 MB": pairs(gather_nd, (1024, 4096)),
    "gather_nd 1M of (4096, 4096), NumPy 2-tuples, chunks (1024, 1024), 4 MB": pairs(gather_nd, (1024, 1024)),
    "gather_nd 1M of (4096, 4096), Dask 2-tuples, chunks (1024, 4096), 16 MB": pairs(gather_nd, (1024, 4096), 250_000),
    "scatter_elements (4096, 4096) axis 1, chunks (1024, 4096), 16 MB": elements(scatter_elements, (1024, 4096)),
    "scatter_elements (4096, 4096) axis 1, chunks (4096, 1024), 16 MB": elements(scatter_elements, (4096, 1024)),
    "scatter_nd 1M of (4096, 4096), NumPy 2-tuples, chunks (1024, 4096), 16 MB": pairs(scatter_nd, (1024, 4096)),
    "scatter_nd 1M of (4096, 4096), Dask 2-tuples, chunks (1024, 4096), 16 MB": pairs(
        scatter_nd, (1024, 4096), 250_000
    ),
}

NEIGHBOURS = {
    "top_k (40, 1M) k=50, one chunk, 160 MB": top_k_case((40, 1_000_000), (40, 1_000_000)),
    "top_k (1, 10M) k=100, chunks (1, 1M), 4 MB": top_k_case((1, 10_000_000), (1, 1_000_000), 100),
    "top_k (1M, 40) k=6, chunks (100k, 40), 16 MB": top_k_case((1_000_000, 40), (100_000, 40), 6),
    "top_k (4096, 4096) k=8, axis 0, chunks (1024, 1024), 4 MB": top_k_case((4096, 4096), (1024, 1024), 8, 0),
    **{
        f"gather 1000k of 1M rows of 64, {order} NumPy indices, chunks ({n // 1000}k, 64), {n // 3900} MB": rows(
            1_000_000, n, sorted=order == "sorted"
        )
        for order, chunks in (("sorted", (3906, 15_625, 250_000)), ("random", (15_625, 250_000)))
        for n in chunks
    },
    "gather 1000k of 1M rows of 64, sorted Dask indices, chunks (62k, 64), 16 MB": rows(
        1_000_000, 62_500, 250_000, sorted=True
    ),
    "gather (4096, 4096) axis 1, NumPy indices, chunks (4096, 1024), 16 MB": Case(
        gather, gather.Case((4096, 4096), 4096, axis=1), (4096, 1024)
    ),
    "gather_elements (4096, 4096) axis 0, chunks (1024, 4096), 16 MB": elements(gather_elements, (1024, 4096), 0),
    "gather_nd 1M of (4096, 4096), Dask 2-tuples, chunks (1024, 1024), 4 MB": pairs(gather_nd, (1024, 1024), 250_000),
    "scatter_elements (4096, 4096) axis 0, chunks (1024, 4096), 16 MB": elements(scatter_elements, (1024, 4096), 0),
    "scatter_nd 1M of (4096, 4096), NumPy 2-tuples, add, chunks (1024, 4096), 16 MB": pairs(
        scatter_nd, (1024, 4096), reduction="add"
    ),
    "scatter_nd 1M of (4096, 4096), Dask 2-tuples, chunks (1024, 1024), 4 MB": pairs(scatter_nd, (1024, 1024), 250_000),
}

#: A call of ours on whole arrays, with all threads: see `in_memory`.
LIMIT = common.IN_MEMORY


def arrays(case: Case) -> common.Arrays:
    """Return the whole arrays."""
    a, *others = case.operator.arrays(case.call)
    if case.sorted:
        others[0].sort()
    return a, *others


def traffic(arrays: common.Arrays, result: Any) -> int:
    """Return the bytes that the operator has to move in memory."""
    count: Callable[..., int] = [top_k.traffic, common.gather_traffic, common.scatter_traffic][len(arrays) - 1]
    return count(arrays, result)


def chunked(array: np.ndarray, chunks: tuple[int, ...]) -> Any:
    """Return a Dask array whose chunks are there, each an array of its own."""
    lazy = common.library("dask.array").from_array(array, chunks=common.sizes(chunks))
    return lazy.map_blocks(np.array).persist()


def all_chunked(case: Case, a: np.ndarray, *others: np.ndarray) -> tuple[Any, ...]:
    """Return the arrays as a call takes them."""
    chunks = case.index_chunks
    return chunked(a, case.chunks), *(chunked(b, chunks[: b.ndim]) if chunks else b for b in others)


def computed(call: common.Call) -> common.Call:
    """Return a call that computes what another returns, one lazy array or several."""
    compute = common.library("dask").compute

    def whole() -> Any:
        lazy = call()
        several = isinstance(lazy, tuple)
        results = compute(*(lazy if several else (lazy,)), scheduler="threads", num_workers=common.CORES)
        return results if several else results[0]

    return whole


def numba_dml(case: Case, *arrays: np.ndarray) -> common.Call:
    """Call the function with Dask arrays, and compute what it returns."""
    common.library("dask")
    return computed(case.operator.numba_dml(case.call, *all_chunked(case, *arrays)))


def in_memory(case: Case, *arrays: np.ndarray) -> common.Call:
    """Call the function with the whole arrays."""
    return case.operator.numba_dml(case.call, *arrays)


def dask(case: Case, *arrays: np.ndarray) -> common.Call:
    """Select twice, for values and for positions; index along one axis, or by points that are in memory."""
    da, call = common.library("dask.array"), case.call
    if case.operator not in (top_k, gather) and (case.operator is not gather_nd or case.index_chunks):
        raise NotImplementedError("Dask has no such operator")
    a, *others = all_chunked(case, *arrays)
    if case.operator is top_k:
        k = common.size(call.k)
        return computed(lambda: (da.topk(a, k, call.axis), da.argtopk(a, k, call.axis)))
    if case.operator is gather:
        where = (*[slice(None)] * call.axis, others[0])
        return computed(lambda: a[where])
    columns = common.columns(others[0])
    return computed(lambda: a.vindex[columns])


for name, operator in OPERATORS.items():
    groups = {
        group: {title: case for title, case in globals()[group].items() if case.operator is operator}
        for group in ("CASES", "NEIGHBOURS")
    }
    globals().update({made.__name__: made for made in common.benchmarks(f"Dask{name}", {**globals(), **groups})})
