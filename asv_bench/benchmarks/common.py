"""What the benchmarks share: data, peers' sessions, and the two classes that asv runs.

Every benchmark runs in a process of its own, so libraries never meet: the idle thread pool of one would steal a core
from the next. Peers are imported in `setup`, and one that is missing, or that cannot do the case, is n/a.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

#: The smoke run: fewer cases, of smaller sizes. Nothing it measures means anything.
SMALL = os.environ.get("NUMBA_DML_BENCH_SMALL", "0") not in ("", "0")

#: The smallest case of every operator. Its throughput means nothing.
TINY = "8 elements"


def size(n: int) -> int:
    """Return a size, divided in the smoke run if it is large."""
    return n // 16 if SMALL and n >= 1024 else n


def some(names: list[str], count: int) -> list[str]:
    """Return all names, or in the smoke run the first, the last and others evenly between."""
    steps = range(count if SMALL else len(names))
    return [names[i] for i in sorted({step * (len(names) - 1) // max(len(steps) - 1, 1) for step in steps})]


def sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with `size` applied to each dimension."""
    return tuple(map(size, shape))


def generator() -> np.random.Generator:
    """Return the source of random numbers; the same at every start."""
    return np.random.default_rng(7)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, distribution: str = "random") -> np.ndarray:
    """Return written memory (pages that were never written read faster than any memory).

    Floats are normally distributed, integers uniformly over the whole range. Other distributions: "ascending" and
    "descending" along the last axis, "equal", "ties" (10 different values), "nan" (1 in 1000).
    """
    kind = np.dtype(dtype)
    if distribution == "equal":
        return np.full(shape, 3, kind)
    if distribution == "ties":
        return rng.integers(0, 10, shape).astype(kind)
    if kind.kind == "f":
        array = rng.standard_normal(shape, np.float64 if kind.itemsize == 8 else np.float32).astype(kind, copy=False)
    else:
        limits = np.iinfo(kind)
        array = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    if distribution == "nan":
        array.reshape(-1)[rng.integers(0, array.size, max(1, array.size // 1000))] = np.nan
    elif distribution in ("ascending", "descending"):
        array.sort(axis=-1)
        if distribution == "descending":
            array = np.ascontiguousarray(array[..., ::-1])
    return array


def permutations(rng: np.random.Generator, shape: tuple[int, int], axis: int, dtype: str) -> np.ndarray:
    """Return indices for the elements operators: along `axis` every position once, in random order."""
    positions = np.arange(shape[axis], dtype=dtype)
    whole = np.broadcast_to(positions if axis == 1 else positions[:, None], shape)
    return np.ascontiguousarray(rng.permuted(whole, axis=axis))  # of a broadcast array it returns another order


def tuples(positions: np.ndarray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return flat positions in `shape` as index tuples, for the ND operators."""
    return np.stack(np.unravel_index(positions, shape), -1).astype(dtype)


def columns(indices: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return index tuples in the form that advanced indexing takes; made once, outside of the measurement."""
    return tuple(np.ascontiguousarray(column) for column in indices.T)


def torch_module() -> Any:
    """Return PyTorch."""
    try:
        import torch
    except ImportError as error:
        raise NotImplementedError(str(error)) from None
    return torch


def torch_indices(indices: np.ndarray) -> Any:
    """Return indices as PyTorch wants them everywhere: 64 bits."""
    return torch_module().from_numpy(indices.astype(np.int64, copy=False))


def onnx_call(operator: str, inputs: dict[str, np.ndarray], outputs: list[Any], **attributes: Any) -> Callable[[], Any]:
    """Return the call of a model with one node in ONNX Runtime."""
    try:
        import onnx
        import onnxruntime
        from onnx import helper
    except ImportError as error:
        raise NotImplementedError(str(error)) from None

    def tensor(name: str, dtype: Any) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)

    names = [f"output{i}" for i in range(len(outputs))]
    graph = helper.make_graph(
        [helper.make_node(operator, list(inputs), names, **attributes)],
        operator,
        [tensor(name, array.dtype) for name, array in inputs.items()],
        [tensor(name, dtype) for name, dtype in zip(names, outputs, strict=True)],
    )
    # Opset 24 is the first whose TopK takes 8-bit integers.
    opsets = [helper.make_opsetid("", 24 if operator == "TopK" and onnx.defs.onnx_opset_version() >= 24 else 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # "NOT_IMPLEMENTED", "no kernel for this type": its exceptions have no public base
        raise NotImplementedError(str(error)) from None
    return lambda: session.run(None, inputs)


class Operator(NamedTuple):
    """One operator: its cases, and how each implementation does one.

    `arrays` makes a case's inputs, `traffic` says how many bytes a call has to move, and an implementation returns a
    call without arguments. All take the case, the last two its inputs too.
    """

    cases: dict[str, Any]
    arrays: Callable[[Any], tuple[np.ndarray, ...]]
    traffic: Callable[..., int]
    implementations: dict[str, Callable[..., Callable[[], Any]]]

    def large(self) -> list[str]:
        """Return the names of the cases that are limited by memory."""
        return [name for name in self.cases if not name.startswith(TINY)]


@lru_cache(maxsize=1)
def prepared(operator: type[Benchmark], case: str, implementation: str) -> tuple[Callable[[], Any], int]:
    """Return a warm call and its traffic. Cached: asv repeats `setup` for every sample."""
    definition = operator.operator
    parameters = definition.cases[case]
    arrays = definition.arrays(parameters)
    call = definition.implementations[implementation](parameters, *arrays)
    call()
    return call, definition.traffic(parameters, *arrays)


class Benchmark(ABC):
    """What both kinds of benchmark share."""

    timeout = 300.0
    implementation = ""

    @property
    @abstractmethod
    def operator(self) -> Operator:
        """Return what is measured; a class attribute of the subclasses."""

    def setup(self, case: str, implementation: str = "") -> None:
        """Make the data and warm the call."""
        self.call, self.traffic = prepared(type(self), case, implementation or self.implementation)


class Calls(Benchmark):
    """Time one call.

    asv times every call alone, after a `setup`: that adds some 0.3 µs. `overhead` times many calls at once.
    """

    param_names = ["case", "implementation"]
    rounds = 1
    repeat = (3, 20, 5.0)
    warmup_time = 0.2

    def __init_subclass__(cls) -> None:
        cls.params = [some(list(cls.operator.cases), 2), list(cls.operator.implementations)]

    def time_call(self, case: str, implementation: str) -> None:
        """Call it."""
        self.call()


class Throughput(Benchmark):
    """How many bytes per second a call with `out=` moves: to be held against the limit of the memory."""

    param_names = ["case"]
    unit = "GB/s"
    implementation = "numba_dml out"

    def __init_subclass__(cls) -> None:
        cls.params = [some(cls.operator.large(), 1)]

    def track_throughput(self, case: str) -> float:
        """Return the median over up to a second of calls."""
        samples: list[float] = []
        end = perf_counter() + (0.0 if SMALL else 1.0)
        while len(samples) < 3 or (perf_counter() < end and len(samples) < 100):
            start = perf_counter()
            self.call()
            samples.append(perf_counter() - start)
        return self.traffic / median(samples) / 1e9
