"""The CUDA target: the rows of the GPU tables, and what is near to them, next to PyTorch, CuPy and JAX.

A case is that of the operator's own file, with a method per library. Data are made on the device, by PyTorch; without
it, without a GPU, or without the library in question a benchmark is n/a. Calls write to `out=` where a library has it.

Device times are tracked, not timed by asv: asv takes the time of the host, which would have to wait for the device in
every sample, some 10 µs, as long as a small kernel runs (see `device_milliseconds`). Host times (`Call`) asv does time.
"""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numba_dml as dml

from . import common, cuda_scans, gather, gather_elements, gather_nd, overhead, scatter_elements, scatter_nd, top_k
from .cuda_data import columns, jax_call, library, lines_first, permutations, positions, to_cupy, tuples, values

LIBRARIES = ["numba_dml", "torch", "cupy", "jax"]

#: Equal sets of arrays take turns, together more than any L2, so that a call finds nothing there that a user's would
#: not; and so many at most.
ROTATED_BYTES, MOST_SETS = 300_000_000, 100

#: Elements of the copy that is the limit; the calls of a median; and what keeps the device busy until they are queued,
#: some 25 ms.
COPIED, REPEATS, BUSY_CYCLES = 1 << 28, 15, 50_000_000


@dataclass(frozen=True)
class TopKCase(top_k.Case):
    """The `k` largest. PyTorch promises no order of ties; for k = 1 it has `max`, which is faster."""

    traffic = staticmethod(top_k.traffic)

    def arrays(self) -> tuple[Any, ...]:
        return (lines_first(self, lambda shape: values(shape, self.dtype, self.distribution)),)

    def out(self, x: Any) -> tuple[Any, ...]:
        shape = list(x.shape)
        shape[self.axis] = common.size(self.k)
        return x.new_empty(shape), x.new_empty(shape, dtype=library("torch").int64)

    def numba_dml(self, x: Any) -> common.Call:
        return partial(dml.top_k, x, common.size(self.k), axis=self.axis, out=self.out(x))

    def torch(self, x: Any) -> common.Call:
        torch, out = library("torch"), self.out(x)
        if self.k == 1:
            return partial(torch.max, x, self.axis, out=tuple(part.squeeze(self.axis) for part in out))
        return partial(torch.topk, x, common.size(self.k), dim=self.axis, out=out)

    def jax(self, x: Any) -> common.Call:
        top_k, k = library("jax").lax.top_k, common.size(self.k)
        return jax_call(self, lambda x: top_k(x, k, axis=self.axis), x)


@dataclass(frozen=True)
class GatherCase(gather.Case):
    """Rows, or elements, drawn with repetition."""

    traffic = staticmethod(common.gather_traffic)

    def arrays(self) -> tuple[Any, ...]:
        a = values(common.sizes(self.shape), self.dtype)
        return a, positions(a.shape[self.axis], (common.size(self.count),), self.index_dtype)

    def out(self, a: Any, indices: Any) -> Any:
        return a.new_empty((*a.shape[: self.axis], *indices.shape, *a.shape[self.axis + 1 :]))

    def numba_dml(self, a: Any, indices: Any) -> common.Call:
        return partial(dml.gather, a, indices, axis=self.axis, out=self.out(a, indices), bounds="deferred")

    def torch(self, a: Any, indices: Any) -> common.Call:
        return partial(library("torch").index_select, a, self.axis, indices, out=self.out(a, indices))

    def cupy(self, a: Any, indices: Any) -> common.Call:
        return partial(library("cupy").take, *to_cupy(a, indices), self.axis, *to_cupy(self.out(a, indices)))

    def jax(self, a: Any, indices: Any) -> common.Call:
        take = library("jax").numpy.take
        return jax_call(self, lambda a, indices: take(a, indices, self.axis, mode="clip"), a, indices)


@dataclass(frozen=True)
class GatherNDCase(gather_nd.Case):
    """Elements, or rows, by tuples drawn with repetition."""

    traffic = staticmethod(common.gather_traffic)

    def arrays(self) -> tuple[Any, ...]:
        return values(common.sizes(self.shape), self.dtype), tuples(self, repeated=True)

    def numba_dml(self, a: Any, indices: Any) -> common.Call:
        out = a.new_empty((len(indices), *a.shape[self.coordinates :]))
        return partial(dml.gather_nd, a, indices, out=out, bounds="deferred")

    def torch(self, a: Any, indices: Any) -> common.Call:
        return partial(a.__getitem__, columns(indices))

    def cupy(self, a: Any, indices: Any) -> common.Call:
        data, *where = to_cupy(a, *columns(indices))
        return partial(data.__getitem__, tuple(where))

    def jax(self, a: Any, indices: Any) -> common.Call:
        return jax_call(self, lambda a, *where: a.at[where].get(mode="clip"), a, *columns(indices))


@dataclass(frozen=True)
class GatherElementsCase(gather_elements.Case):
    """Along the axis every element once, in random order."""

    traffic = staticmethod(common.gather_traffic)

    def arrays(self) -> tuple[Any, ...]:
        a = values(common.sizes(self.shape), self.dtype)
        return a, permutations(a.shape, self.axis, self.index_dtype)

    def numba_dml(self, a: Any, indices: Any) -> common.Call:
        out = a.new_empty(indices.shape)
        return partial(dml.gather_elements, a, indices, axis=self.axis, out=out, bounds="deferred")

    def torch(self, a: Any, indices: Any) -> common.Call:
        return partial(library("torch").gather, a, self.axis, indices, out=a.new_empty(indices.shape))

    def cupy(self, a: Any, indices: Any) -> common.Call:
        return partial(library("cupy").take_along_axis, *to_cupy(a, indices), self.axis)

    def jax(self, a: Any, indices: Any) -> common.Call:
        take = library("jax").numpy.take_along_axis
        return jax_call(self, lambda a, indices: take(a, indices, self.axis, mode="clip"), a, indices)


@dataclass(frozen=True)
class ScatterNDCase(scatter_nd.Case):
    """Rows, or elements, of a copy. Positions repeat unless `unique`; peers promise no winner then."""

    traffic = staticmethod(common.scatter_traffic)

    def arrays(self) -> tuple[Any, ...]:
        a, indices = values(common.sizes(self.shape), self.dtype), tuples(self, repeated=not self.unique)
        return a, indices, values((len(indices), *a.shape[self.coordinates :]), self.dtype)

    def numba_dml(self, a: Any, indices: Any, updates: Any) -> common.Call:
        parameters = {"reduction": self.reduction, "unique": self.unique, "bounds": "deferred"}
        return partial(dml.scatter_nd, a, indices, updates, out=a.new_empty(a.shape), **parameters)

    def torch(self, a: Any, indices: Any, updates: Any) -> common.Call:
        out, where, first = a.new_empty(a.shape), columns(indices), indices[:, 0].long()
        if self.reduction == "max":
            write = partial(out.index_reduce_, 0, first, updates, "amax")
        elif self.coordinates == 1:
            write = partial(out.index_add_ if self.reduction == "add" else out.index_copy_, 0, first, updates)
        else:
            write = partial(out.index_put_, where, updates, self.reduction == "add")
        return lambda: (out.copy_(a), write())

    def cupy(self, a: Any, indices: Any, updates: Any) -> common.Call:
        cupy = library("cupy")
        data, new, out, *where = to_cupy(a, updates, a.new_empty(a.shape), *columns(indices))
        put = {"none": out.__class__.__setitem__, "add": cupy.add.at, "max": cupy.maximum.at}[self.reduction]
        return lambda: (cupy.copyto(out, data), put(out, tuple(where), new))

    def jax(self, a: Any, indices: Any, updates: Any) -> common.Call:
        return jax_call(
            self,
            lambda a, updates, *where: common.jax_update(a.at[where], self, updates),
            a,
            updates,
            *columns(indices),
        )


@dataclass(frozen=True)
class ScatterElementsCase(scatter_elements.Case):
    """Elements of a copy, along the axis each once, in random order; `unique` says so."""

    traffic = staticmethod(common.scatter_traffic)

    def arrays(self) -> tuple[Any, ...]:
        a = values(common.sizes(self.shape), self.dtype)
        return a, permutations(a.shape, self.axis, self.index_dtype), values(a.shape, self.dtype)

    def numba_dml(self, a: Any, indices: Any, updates: Any) -> common.Call:
        parameters = {"reduction": self.reduction, "unique": self.unique, "bounds": "deferred"}
        return partial(
            dml.scatter_elements, a, indices, updates, axis=self.axis, out=a.new_empty(a.shape), **parameters
        )

    def torch(self, a: Any, indices: Any, updates: Any) -> common.Call:
        out = a.new_empty(a.shape)
        if self.reduction == "none":
            write = partial(out.scatter_, self.axis, indices, updates)
        else:
            reduction = common.TORCH_REDUCTIONS[self.reduction]
            write = partial(out.scatter_reduce_, self.axis, indices, updates, reduction)
        return lambda: (out.copy_(a), write())

    def cupy(self, a: Any, indices: Any, updates: Any) -> common.Call:
        cupy = library("cupy")
        if self.reduction != "none" or not hasattr(cupy, "put_along_axis"):
            raise NotImplementedError("no put_along_axis")
        data, where, new, out = to_cupy(a, indices, updates, a.new_empty(a.shape))
        return lambda: (cupy.copyto(out, data), cupy.put_along_axis(out, where, new, self.axis))

    def jax(self, a: Any, indices: Any, updates: Any) -> common.Call:
        def scatter(a: Any, indices: Any, updates: Any) -> Any:
            return common.jax_update(a.at[common.along(indices, self.axis)], self, updates)

        return jax_call(self, scatter, a, indices, updates)


K, M = 1000, 1_000_000
#: The rows of the tables.
CASES: dict[str, dict[str, Any]] = {
    "top_k": {
        "(1, 1M) k=10 f4": TopKCase((1, M), 10),
        **{f"(1, 100M) k=100 {t}": TopKCase((1, 100 * M), 100, t) for t in ("f4", "i4", "u1")},
        "(1, 100M) k=10000 f4": TopKCase((1, 100 * M), 10_000),
        **{f"(64, 131072) k=50 {t}": TopKCase((64, 1 << 17), 50, t) for t in ("f4", "f2", "i8")},
        **{f"(1024, 32000) k=1 {t}": TopKCase((1024, 32_000), 1, t) for t in ("f4", "f2")},
        **{f"(256, 131072) k=2048 {t}": TopKCase((256, 1 << 17), 2048, t) for t in ("f4", "i4", "f2")},
        **{f"(1M, 128) k=8 {t}": TopKCase((M, 128), 8, t) for t in ("f4", "f2")},
        "(16M, 64) k=6 f4": TopKCase((16 * M, 64), 6),
        **{f"(16384, 4096) k=64 {t}": TopKCase((16384, 4096), 64, t) for t in ("f4", "f2", "u1")},
        "(16384, 16384) k=8 f4, axis 0": TopKCase((16384, 16384), 8, axis=0),
        "(10, 10M) k=5M f4": TopKCase((10, 10 * M), 5 * M),
    },
    "gather": {
        "10M of 10M rows of 64 f4": GatherCase((10 * M, 64), 10 * M),
        "500k of 500k rows of 1024 f4": GatherCase((500 * K, 1024), 500 * K),
        "40M of 64M rows of 4 f4": GatherCase((64 * M, 4), 40 * M),
        "20M of 32M rows of 16 f4": GatherCase((32 * M, 16), 20 * M),
        "64M of 256M f4": GatherCase((256 * M,), 64 * M),
        "64M of 1M f4": GatherCase((M,), 64 * M),
    },
    "gather_elements": {f"(16384, 16384) f4, axis {d}": GatherElementsCase((16384, 16384), d) for d in (1, 0)},
    "gather_nd": {"100M of (16384, 16384) f4, 2-tuples": GatherNDCase((16384, 16384), 100 * M, 2)},
    "scatter_elements": {
        f"(16384, 16384) f4, axis {d}{', unique' * u}": ScatterElementsCase((16384, 16384), d, unique=u)
        for u in (True, False)
        for d in (1, 0)
    },
    "scatter_nd": {
        f"{name}, 1-tuples{', unique' * u}": ScatterNDCase(*numbers, 1, unique=u)
        for name, numbers in {
            "5M of 10M rows of 64 f4": ((10 * M, 64), 5 * M),
            "300k of 1M rows of 1024 f4": ((M, 1024), 300 * K),
            "64M of 256M f4": ((256 * M,), 64 * M),
        }.items()
        for u in (True, False)
    },
    **cuda_scans.CASES,
}

#: What is near to a row, or between two: nothing is tuned to a row.
NEIGHBOURS: dict[str, dict[str, Any]] = {
    "top_k": {
        **{f"(1, 1M) k=10 {t}": TopKCase((1, M), 10, t) for t in ("f2", "i4", "i8", "u1")},
        **{f"(1, 100M) k=100 {t}": TopKCase((1, 100 * M), 100, t) for t in ("f2", "i8")},
        **{f"(64, 131072) k=50 {t}": TopKCase((64, 1 << 17), 50, t) for t in ("f8", "i4", "u1")},
        **{f"(64, 131072) k=50 f4 {d}": TopKCase((64, 1 << 17), 50, "f4", d) for d in common.HARD},
        **{f"(64, 131072) k={k} f4": TopKCase((64, 1 << 17), k) for k in (1, 8, 500, 5000)},
        **{f"(1024, 32000) k=1 {t}": TopKCase((1024, 32_000), 1, t) for t in ("i4", "i8", "u1")},
        **{f"(1024, 32000) k=1 f4 {d}": TopKCase((1024, 32_000), 1, "f4", d) for d in common.HARD},
        **{f"(256, 131072) k=2048 {t}": TopKCase((256, 1 << 17), 2048, t) for t in ("i8", "u1")},
        **{f"(256, 131072) k=2048 f4 {d}": TopKCase((256, 1 << 17), 2048, "f4", d) for d in common.HARD},
        **{f"(1M, 128) k=8 {t}": TopKCase((M, 128), 8, t) for t in ("i4", "i8", "u1")},
        **{f"(1M, 128) k=8 f4 {d}": TopKCase((M, 128), 8, "f4", d) for d in common.HARD},
        **{f"(16384, 4096) k=64 {t}": TopKCase((16384, 4096), 64, t) for t in ("i4", "i8")},
        **{f"(16384, 4096) k={k} f4": TopKCase((16384, 4096), k) for k in (1, 8, 500)},
        **{f"(16384, 4096) k=64 f4 {d}": TopKCase((16384, 4096), 64, "f4", d) for d in common.HARD},
        **{f"(16384, 16384) k=8 {t}, axis 0": TopKCase((16384, 16384), 8, t, axis=0) for t in ("f2", "i8", "u1")},
        "(1, 99999989) k=100 f4": TopKCase((1, 99_999_989), 100),
        "(1023, 32003) k=50 f4": TopKCase((1023, 32_003), 50),
        "(999983, 127) k=8 f4": TopKCase((999_983, 127), 8),
        "(256, 512, 1024) k=8 f4, axis 1": TopKCase((256, 512, 1024), 8, axis=1),
        **{f"(10000, 1000) k=500 {t}": TopKCase((10 * K, K), 500, t) for t in ("f4", "u1")},
        **{f"(64000, 1000) k=50 {t}": TopKCase((64 * K, K), 50, t) for t in ("f4", "f2")},
        **{f"(8000, 4096) k=2048 {t}": TopKCase((8 * K, 4096), 2048, t) for t in ("f2", "i8")},
        **{f"(35, 759552) k=1 {t}, axis 0": TopKCase((35, 759_552), 1, t, axis=0) for t in ("f4", "u1")},
        "(1, 100M) k=800 f4": TopKCase((1, 100 * M), 800),
        **{f"({n}, 250000) k=50 f4": TopKCase((n, 250 * K), 50) for n in (1, 24, 56)},
        **{f"(16, 131072) k=1000 {t}": TopKCase((16, 1 << 17), 1000, t) for t in ("f2", "i8")},
    },
    "gather": {
        **{f"10M of 10M rows of 16 {t}": GatherCase((10 * M, 16), 10 * M, t) for t in common.DTYPES},
        "10M of 10M rows of 17 f4": GatherCase((10 * M, 17), 10 * M),
        "8M of 8M rows of 50 u1": GatherCase((8 * M, 50), 8 * M, "u1"),
        "100k of 100k rows of 1025 f4": GatherCase((100 * K, 1025), 100 * K),
        "10M of 10M rows of 64 f4, i4 indices": GatherCase((10 * M, 64), 10 * M, index_dtype="i4"),
        "(16384, 16384) f4, axis 1": GatherCase((16384, 16384), 16384, axis=1),
        "20k of 64M i8": GatherCase((64 * M, 1), 20 * K, "i8"),
    },
    "gather_elements": {
        **{
            f"(16384, 16384) {t}, axis {d}": GatherElementsCase((16384, 16384), d, t)
            for t in ("f2", "i8")
            for d in (1, 0)
        },
        "(64, 1024, 1024) f4, axis 1": GatherElementsCase((64, 1024, 1024), 1),
        **{f"(256, 250000) {t}, axis 0": GatherElementsCase((256, 250 * K), 0, t) for t in ("f4", "u1")},
        "(2048, 2048) f4, axis 0": GatherElementsCase((2048, 2048), 0),
        "(4, 4M) f4, axis 0": GatherElementsCase((4, 4 * M), 0),
        "(14670, 1163) f8, axis 1": GatherElementsCase((14_670, 1163), 1, "f8"),
    },
    "gather_nd": {
        "50M of (512, 512, 512) f4, 3-tuples": GatherNDCase((512, 512, 512), 50 * M, 3),
        "50M of (1000, 1000) f4, 2-tuples": GatherNDCase((1000, 1000), 50 * M, 2),
        "5M of (1000, 1000) rows of 32 f4, 2-tuples": GatherNDCase((1000, 1000, 32), 5 * M, 2),
    },
    "scatter_elements": {
        **{
            f"(16384, 16384) {t}, axis {d}": ScatterElementsCase((16384, 16384), d, t)
            for t in ("f2", "i8")
            for d in (1, 0)
        },
        "(2048, 2048) f4, axis 0": ScatterElementsCase((2048, 2048), 0),
        "(64, 1024, 1024) f4, axis 1": ScatterElementsCase((64, 1024, 1024), 1),
        **{f"(256, 250000) {t}, axis 0": ScatterElementsCase((256, 250 * K), 0, t) for t in ("f4", "u1")},
        **{
            f"(4096, 4096) {t}, axis {d}, add": ScatterElementsCase((4096, 4096), d, t, reduction="add")
            for t in ("f4", "i4")
            for d in (1, 0)
        },
        "(4, 4M) f4, axis 0": ScatterElementsCase((4, 4 * M), 0),
        "(11, 660399) i4, axis 1": ScatterElementsCase((11, 660_399), 1, "i4"),
    },
    "scatter_nd": {
        **{f"10M of 100M {t}, 1-tuples": ScatterNDCase((100 * M,), 10 * M, 1, t) for t in common.DTYPES},
        "64M of 1000 f4, 1-tuples": ScatterNDCase((K,), 64 * M, 1),
        "3M of 6M rows of 17 f4, 1-tuples": ScatterNDCase((6 * M, 17), 3 * M, 1),
        "10M of (10000, 10000) f4, 2-tuples": ScatterNDCase((10 * K, 10 * K), 10 * M, 2),
        **{
            f"10M of 100M {t}, 1-tuples, add": ScatterNDCase((100 * M,), 10 * M, 1, t, reduction="add")
            for t in ("f4", "i4", "i8")
        },
        "10M of 256 i4, 1-tuples, add": ScatterNDCase((256,), 10 * M, 1, "i4", reduction="add"),
        "1000 of 1M f4, 1-tuples, add": ScatterNDCase((M,), K, 1, reduction="add"),
        "1M of 1M rows of 64 f4, 1-tuples, add": ScatterNDCase((M, 64), M, 1, reduction="add"),
        **{f"{n} of 1M f4, 1-tuples": ScatterNDCase((M,), n, 1) for n in (50, K, 20 * K, 300 * K)},
        **{f"100k of 16M {t}, 1-tuples": ScatterNDCase((16 * M,), 100 * K, 1, t) for t in ("u1", "f4")},
        "1000 of 32k rows of 256 f4, 1-tuples": ScatterNDCase((32 * K, 256), K, 1),
        "4 of 4 rows of 7M f4, 1-tuples": ScatterNDCase((4, 7 * M), 4, 1),
    },
    **cuda_scans.NEIGHBOURS,
}


def sets(case: Any) -> list[tuple[Any, ...]]:
    """Return the sets of arrays that take turns."""
    first = case.arrays()
    count = min(MOST_SETS, ROTATED_BYTES // max(sum(array.nbytes for array in first), 1))
    return [first, *(case.arrays() for _ in range(count - 1))]


def prepare(case: Any, name: str, arrays: list[tuple[Any, ...]]) -> list[common.Call]:
    """Return a library's warm calls, one per set of arrays."""
    library(name)
    if not hasattr(case, name):
        raise NotImplementedError(f"{name} has no such function")
    calls = [getattr(case, name)(*of_set) for of_set in arrays]
    calls[0]()
    return calls


def call_milliseconds(name: str, calls: list[common.Call], rounds: int = 3) -> float:
    """Return the time of one call by the host's clock: of many in a row, from an idle device until the last is done."""
    wait = library("jax").block_until_ready if name == "jax" else lambda _: library("torch").cuda.synchronize()
    start = perf_counter()
    wait(calls[0]())
    count = min(max(int(0.03 / (perf_counter() - start)), 3), 50)
    turns, samples = itertools.cycle(calls), []
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(count):
            last = next(turns)()
        wait(last)
        samples.append((perf_counter() - start) / count)
    return 1e3 * median(samples)


def device_milliseconds(name: str, calls: list[common.Call]) -> float:
    """Return the time of one call on the device.

    PyTorch's, CuPy's and our calls run on PyTorch's stream, and a median is that of the time between two events, one
    before and one after each call. The device is kept busy until all are queued: else it would wait for the host within
    short calls. JAX has a stream of its own, which no event of another library sees: there it is what
    `call_milliseconds` returns, which is the same for calls that take the device longer than the host;
    `compare_cuda.py` shows ours both ways.
    """
    if name == "jax":
        return call_milliseconds(name, calls)
    torch = library("torch")
    for turn in range(3):
        calls[turn % len(calls)]()
    torch.cuda.synchronize()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPEATS)]
    torch.cuda._sleep(BUSY_CYCLES)
    for turn, (start, stop) in enumerate(events):
        start.record()
        calls[turn % len(calls)]()
        stop.record()
    torch.cuda.synchronize()
    return median(start.elapsed_time(stop) for start, stop in events)


@lru_cache
def copy_rate() -> float:
    """Return how many GB/s a copy on the device reads and writes."""
    source = values((common.size(COPIED),), "f4")
    target = source.clone()
    return 2 * source.nbytes / device_milliseconds("torch", [lambda: target.copy_(source)]) / 1e6


class Prepared(NamedTuple):
    """A library's warm calls, and the bytes that each has to move."""

    calls: list[common.Call]
    traffic: int


@lru_cache(maxsize=1)
def prepared(case: Any, name: str) -> Prepared:
    """Return warm calls. Cached: asv repeats `setup`."""
    library("torch")
    arrays = sets(case)
    calls = prepare(case, name, arrays)
    return Prepared(calls, case.traffic(arrays[0], calls[0]()) if name == "numba_dml" else 0)


class Benchmark(ABC):
    """What the benchmarks of an operator share. Abstract, so that asv leaves it and the classes below alone."""

    timeout = 300.0

    @property
    @abstractmethod
    def operator(self) -> str:
        """Return whose cases are measured; a class attribute of the subclasses."""

    def setup(self, case: str, name: str = "numba_dml") -> None:
        """Make the data, and warm the call."""
        self.prepared = prepared((CASES[self.operator] | NEIGHBOURS[self.operator])[case], name)


class DeviceTime(Benchmark):
    """The device time of one call."""

    param_names = ["case", "implementation"]

    def track_device_time(self, case: str, name: str = "numba_dml") -> float:
        """Return the median."""
        return device_milliseconds(name, self.prepared.calls)

    track_device_time.unit = "ms"


class Neighbours(DeviceTime):
    """The device time of a case near to those of the tables; `compare_cuda.py --neighbours` adds the peers."""

    param_names = ["case"]


class Throughput(Benchmark):
    """How fast a call moves its bytes."""

    param_names = ["case"]

    def track_throughput(self, case: str) -> float:
        """Return the bytes per second."""
        return self.prepared.traffic / device_milliseconds("numba_dml", self.prepared.calls) / 1e6

    track_throughput.unit = "GB/s"

    def track_share(self, case: str) -> float:
        """Return the share of what a copy on the device moves."""
        return 100 * self.track_throughput(case) / copy_rate()

    track_share.unit = "%"


def benchmarks(operator: str, name: str) -> tuple[type[Benchmark], ...]:
    """Return what asv runs for an operator: classes called `name`, with "Neighbours", and with "Throughput"."""

    cases, libraries = list(CASES[operator]), common.installed(LIBRARIES)
    return (
        common.made(DeviceTime, name, __name__, operator, common.some(cases, 1), libraries),
        common.made(Neighbours, f"{name}Neighbours", __name__, operator, common.some(list(NEIGHBOURS[operator]), 1)),
        common.made(Throughput, f"{name}Throughput", __name__, operator, common.some(cases, 1)),
    )


TopK, TopKNeighbours, TopKThroughput = benchmarks("top_k", "TopK")
Gather, GatherNeighbours, GatherThroughput = benchmarks("gather", "Gather")
GatherElements, GatherElementsNeighbours, GatherElementsThroughput = benchmarks("gather_elements", "GatherElements")
GatherND, GatherNDNeighbours, GatherNDThroughput = benchmarks("gather_nd", "GatherND")
ScatterElements, ScatterElementsNeighbours, ScatterElementsThroughput = benchmarks(
    "scatter_elements", "ScatterElements"
)
ScatterND, ScatterNDNeighbours, ScatterNDThroughput = benchmarks("scatter_nd", "ScatterND")
CumulativeSum, CumulativeSumNeighbours, CumulativeSumThroughput = benchmarks("cumulative_sum", "CumulativeSum")
Nonzero, NonzeroNeighbours, NonzeroThroughput = benchmarks("nonzero_coordinates", "Nonzero")
Argextrema, ArgextremaNeighbours, ArgextremaThroughput = benchmarks("argextrema", "Argextrema")
OneHot, OneHotNeighbours, OneHotThroughput = benchmarks("one_hot", "OneHot")
Reverse, ReverseNeighbours, ReverseThroughput = benchmarks("reverse_subsequences", "Reverse")
MaxUnpool, MaxUnpoolNeighbours, MaxUnpoolThroughput = benchmarks("max_unpool", "MaxUnpool")


def to_device(value: Any, owner: str) -> Any:
    """Return what `overhead.problem` makes with a library's arrays on the device."""
    if isinstance(value, tuple):
        return tuple(to_device(part, owner) for part in value)
    if not hasattr(value, "dtype"):
        return value
    return library("cupy").asarray(value) if owner == "cupy" else library("torch").as_tensor(value, device="cuda")


def by_torch(operator: str, a: Any, indices: Any, updates: list[Any], out: Any) -> Any:
    """Do what PyTorch has for an operator."""
    torch = library("torch")
    match operator:
        case "gather":
            return torch.index_select(a, 0, indices, out=out)
        case "gather_elements":
            return torch.gather(a, 0, indices, out=out)
        case "gather_nd":
            return a[indices[:, 0]]
        case "scatter_elements":
            return torch.scatter(a, 0, indices, *updates, out=out)
        case "scatter_nd":
            return torch.index_copy(a, 0, indices[:, 0], *updates, out=out)
    return torch.topk(a, indices, out=out)


def by_cupy(operator: str, a: Any, indices: Any, updates: list[Any], out: Any) -> Any:
    """Do what CuPy has for an operator."""
    cupy = library("cupy")
    match operator:
        case "gather":
            return cupy.take(a, indices, 0, out)
        case "gather_elements":
            return cupy.take_along_axis(a, indices, 0)
        case "gather_nd":
            return a[indices[:, 0]]
        case "scatter_elements" | "scatter_nd":
            cupy.copyto(out, a)
            out[indices.reshape(-1)] = updates[0]
            return out
    where = cupy.argsort(-a)[:indices]
    return a[where], where


@lru_cache
def short_calls(operator: str, owner: str) -> dict[str, common.Call]:
    """Return warm calls with `out=` on 8 elements of a library: our function, our held operator, and the library's."""
    library("torch")
    arguments, out, descriptor = overhead.problem(operator, 8)
    bounds = {} if operator == "top_k" else {"bounds": "deferred"}
    held = dml.compile_operator(dataclasses.replace(descriptor, **bounds), target="cuda")
    held_arguments, held_out = to_device(overhead.reshaped(operator, arguments, out), owner)
    arguments, out = to_device((arguments, out), owner)
    a, indices, *updates = arguments
    calls = {
        "function": partial(getattr(dml, operator), *arguments, out=out, **bounds),
        "held operator": partial(held, *held_arguments, out=held_out),
        "the library's": partial(by_cupy if owner == "cupy" else by_torch, operator, a, indices, updates, out),
    }
    for call in calls.values():
        call()
    return calls


class Call:
    """What the host does for a call with `out=` on 8 elements.

    The device is not waited for: its queue holds about a thousand launches, and `setup` empties it before each sample.
    """

    params = [common.some(overhead.OPERATORS, 1), ["torch", "cupy"]]
    param_names = ["operator", "arrays"]
    rounds = 1
    number = 100
    repeat = (5, 50, 1.0)
    warmup_time = 0.2
    timeout = 120.0

    def setup(self, operator: str, arrays: str) -> None:
        """Make the calls, and let the device finish what it has."""
        self.calls = short_calls(operator, arrays)
        library("torch").cuda.synchronize()

    def time_function(self, operator: str, arrays: str) -> None:
        """Call the function."""
        self.calls["function"]()

    def time_held_operator(self, operator: str, arrays: str) -> None:
        """Call the compiled operator."""
        self.calls["held operator"]()

    def time_library(self, operator: str, arrays: str) -> None:
        """Call what the arrays' library has."""
        self.calls["the library's"]()
