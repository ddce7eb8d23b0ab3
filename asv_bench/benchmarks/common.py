"""What the benchmarks share: data, peers' sessions, and the classes that asv runs.

Every benchmark runs in a process of its own, so libraries never meet: the idle thread pool of one would steal a core
from the next. Peers are imported in `setup`, and one that is missing, or that cannot do the case, is n/a.
"""

from __future__ import annotations

import importlib
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

#: The smoke run: fewer cases, of smaller sizes. Nothing it measures means anything.
SMALL = os.environ.get("NUMBA_DML_BENCH_SMALL", "0") not in ("", "0")

#: How many cores this process may use; every library starts as many threads.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

#: The smallest case of every operator. Its throughput means nothing.
TINY = "8 elements"

#: Whose calls are compared: a benchmark file has a function of that name for each that can do its operator.
LIBRARIES = ["numba_dml", "numpy", "torch", "onnxruntime", "jax", "faiss", "dask"]

#: The implementation whose speed is tracked; where there is no `out=` it is "numba_dml".
OURS = "numba_dml out"

#: Our own call on whole arrays, next to one on Dask arrays: a file's function `in_memory`.
IN_MEMORY = "numba_dml in memory"

#: Other types and distributions, for variations of the cases.
DTYPES = ("f2", "f4", "f8", "i4", "i8", "u1")
HARD = ("ascending", "descending", "equal", "ties", "half nan")

#: How long the blocks of the distributions made of blocks are.
BLOCK = 1000

#: How NumPy reduces; without a reduction it assigns.
UFUNCS = {"add": np.add, "max": np.maximum}
TORCH_REDUCTIONS = {"add": "sum", "max": "amax"}

Call = Callable[[], Any]
Arrays = tuple[np.ndarray, ...]


def size(n: int) -> int:
    """Return a size, divided in the smoke run if it is large."""
    return n // 16 if SMALL and n >= 1024 else n


def some(names: list[str], count: int) -> list[str]:
    """Return all names, or in the smoke run the first: they share kernels, each of which takes seconds to compile."""
    return names[:count] if SMALL else names


def installed(names: list[str]) -> list[str]:
    """Return the implementations, in the smoke run without those of missing libraries: each takes a process."""
    return [name for name in names if not SMALL or find_spec(name.split()[0])]


def sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with `size` applied to each dimension."""
    return tuple(map(size, shape))


def generator() -> np.random.Generator:
    """Return the source of random numbers; the same at every start."""
    return np.random.default_rng(7)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, distribution: str = "random") -> np.ndarray:
    """Return written memory (pages that were never written read faster than any memory).

    Floats are normally distributed, integers uniformly over the whole range. Other distributions: "ascending" and
    "descending" along the last axis, "equal", "2 values", "ties" (10 different values), "nan" (1 in 1000), "half nan",
    "ascending blocks" (any element beats all of the blocks before, in random order within a block) and "sawtooth"
    (blocks that ascend from the least to the greatest).
    """
    kind = np.dtype(dtype)
    if distribution == "equal":
        return np.full(shape, 3, kind)
    if distribution in ("ties", "2 values"):
        return rng.integers(0, 10 if distribution == "ties" else 2, shape).astype(kind)
    if kind.kind == "f":
        array = rng.standard_normal(shape, np.float64 if kind.itemsize == 8 else np.float32).astype(kind, copy=False)
    elif kind.kind == "c":
        array = rng.standard_normal((*shape, 2)).view(np.complex128)[..., 0].astype(kind)
    elif kind.kind == "b":
        array = rng.integers(0, 2, shape).astype(kind)
    else:
        limits = np.iinfo(kind)
        array = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
    if distribution == "nan":
        array.reshape(-1)[rng.integers(0, array.size, max(1, array.size // 1000))] = np.nan
    elif distribution == "half nan":
        array[rng.random(shape, np.float32) < 0.5] = np.nan
    elif distribution in ("ascending", "descending", "ascending blocks"):
        array.sort(axis=-1)
    if distribution == "descending":
        array = np.ascontiguousarray(array[..., ::-1])
    elif distribution in ("ascending blocks", "sawtooth"):
        count = shape[-1] // BLOCK
        blocks = array[..., : count * BLOCK].reshape(*shape[:-1], count, BLOCK)
        arranged = np.sort(blocks) if distribution == "sawtooth" else rng.permuted(blocks, axis=-1)
        array[..., : count * BLOCK] = arranged.reshape(*shape[:-1], -1)
    return array


def permutations(rng: np.random.Generator, shape: tuple[int, ...], axis: int, dtype: str) -> np.ndarray:
    """Return indices for the elements operators: along `axis` every position once, in random order."""
    positions = np.arange(shape[axis], dtype=dtype).reshape(-1, *[1] * (len(shape) - axis - 1))
    whole = np.broadcast_to(positions, shape)
    return np.ascontiguousarray(rng.permuted(whole, axis=axis))  # of a broadcast array it returns another order


def tuples(positions: np.ndarray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return flat positions in `shape` as index tuples, for the ND operators."""
    return np.stack(np.unravel_index(positions, shape), -1).astype(dtype)


def columns(indices: np.ndarray) -> Arrays:
    """Return index tuples in the form that advanced indexing takes; made once, outside of the measurement."""
    return tuple(np.ascontiguousarray(column) for column in indices.T)


def along(indices: Any, axis: int) -> tuple[Any, ...]:
    """Return the indices of an elements operator in the form that advanced indexing takes."""
    return tuple(indices if d == axis else grid for d, grid in enumerate(np.ogrid[tuple(map(slice, indices.shape))]))


def copied(a: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Return a copy in the memory order of `a`, for NumPy's scatters."""
    if out is None:
        return a.copy("K")
    np.copyto(out, a)
    return out


def whole_traffic(arrays: Arrays, result: Any) -> int:
    """Return the bytes of the inputs, all of which are read, and of the result or several written."""
    results = result if isinstance(result, tuple) else (result,)
    return sum(array.nbytes for array in (*arrays, *results))


def gather_traffic(arrays: Arrays, result: np.ndarray) -> int:
    """Return the bytes of the indices, and of the result read and written."""
    return arrays[1].nbytes + 2 * result.nbytes


def scatter_traffic(arrays: Arrays, result: np.ndarray) -> int:
    """Return the bytes of the indices, and of the data and the updates read and written."""
    a, indices, updates = arrays
    return indices.nbytes + 2 * a.nbytes + 2 * updates.nbytes


def library(name: str) -> Any:
    """Return a peer's module."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotImplementedError(str(error)) from None


def torch_indices(indices: np.ndarray) -> Any:
    """Return indices as PyTorch wants them everywhere: 64 bits."""
    return library("torch").from_numpy(indices.astype(np.int64, copy=False))


def c_order_only(*arrays: np.ndarray) -> None:
    """Refuse other layouts, for a peer that has none: it would copy the array before it starts."""
    if not all(array.flags.c_contiguous for array in arrays):
        raise NotImplementedError("arrays in C order only")


def onnx_call(
    operator: str, inputs: dict[str, np.ndarray], outputs: list[Any], out: list[np.ndarray] | None, **attributes: Any
) -> Call:
    """Return the call of a model with one node in ONNX Runtime; `outputs` are data types, `out` where to write."""
    onnx, onnxruntime = library("onnx"), library("onnxruntime")
    c_order_only(*inputs.values())
    helper = onnx.helper

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
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES  # or it starts one for each core of the machine, and binds it there
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # "NOT_IMPLEMENTED", "no kernel for this type": its exceptions have no public base
        raise NotImplementedError(str(error)) from None
    if out is None:
        return lambda: session.run(None, inputs)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in zip(names, out, strict=True):
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def call() -> list[np.ndarray]:
        session.run_with_iobinding(binding)
        return out

    return call


def jax_call(function: Callable[..., Any], *arrays: np.ndarray) -> Call:
    """Return the call of a jitted function of JAX arrays. JAX has no `out=`: it always allocates."""
    jax = library("jax")
    c_order_only(*arrays)
    jax.config.update("jax_enable_x64", True)
    compiled, data = jax.jit(function), [jax.numpy.asarray(array) for array in arrays]
    return lambda: jax.block_until_ready(compiled(*data))


def jax_update(elements: Any, case: Any, updates: Any) -> Any:
    """Return an array with its indexed `elements` replaced by, or combined with, the updates of a scatter's case."""
    update = getattr(elements, "set" if case.reduction == "none" else case.reduction)
    return update(updates, unique_indices=case.unique)


class Operator(NamedTuple):
    """One operator: its cases, and how each implementation does one.

    `cases` are the rows of the tables, `neighbours` vary them. `arrays` makes a case's inputs; `traffic` says how many
    bytes a call has to move, from the inputs and a result; `limit` names the function in `limits` that moves as many,
    or an implementation; an implementation takes a case and its inputs, and returns a call without arguments.
    """

    cases: dict[str, Any]
    neighbours: dict[str, Any]
    arrays: Callable[[Any], Arrays]
    traffic: Callable[[Arrays, Any], int]
    limit: str
    implementations: dict[str, Callable[..., Call]]

    @classmethod
    def of(cls, file: dict[str, Any]) -> Operator:
        """Return what the names in a benchmark file say.

        A library whose function takes `out` is two implementations: one that allocates, and one with " out".
        """
        implementations = {}
        for name in LIBRARIES:
            if name in file:
                implementations[name] = file[name]
                if "out" in inspect.signature(file[name]).parameters:
                    implementations[f"{name} out"] = partial(with_out, file[name])
        if "in_memory" in file:
            implementations[IN_MEMORY] = file["in_memory"]
        return cls(file["CASES"], file["NEIGHBOURS"], file["arrays"], file["traffic"], file["LIMIT"], implementations)

    @property
    def ours(self) -> str:
        """Return the implementation whose speed is tracked."""
        return OURS if OURS in self.implementations else "numba_dml"

    def prepare(self, case: str, implementation: str) -> Prepared:
        """Return a warm call."""
        parameters = (self.cases | self.neighbours)[case]
        arrays = self.arrays(parameters)
        call = self.implementations[implementation](parameters, *arrays)
        call()
        return Prepared(call, parameters, arrays)


class Prepared(NamedTuple):
    """A warm call, its case and its inputs."""

    call: Call
    case: Any
    arrays: Arrays


def with_out(implementation: Callable[..., Call], case: Any, *arrays: np.ndarray) -> Call:
    """Return the call of an implementation that writes into the result of an earlier call."""
    result = implementation(case, *arrays)()
    return implementation(case, *arrays, out=np.array(result) if isinstance(result, np.generic) else result)


def medians(*calls: Call, seconds: float) -> list[float]:
    """Return the median time of each call; the calls take turns for that long."""
    samples: list[list[float]] = [[] for _ in calls]
    end = perf_counter() + (0.0 if SMALL else seconds)
    while len(samples[0]) < 3 or perf_counter() < end:
        for call, times in zip(calls, samples, strict=True):
            start = perf_counter()
            call()
            times.append(perf_counter() - start)
    return [median(times) for times in samples]


def share_of_limit(operator: Operator, prepared: Prepared, seconds: float) -> float:
    """Return the time of the limit (for memory, that of as many bytes) over the time of the call; they take turns."""
    from . import limits  # imports Numba, which peers' processes do not need

    if operator.limit in operator.implementations:
        limit = operator.implementations[operator.limit](prepared.case, *prepared.arrays)
        limit()
    else:
        traffic = operator.traffic(prepared.arrays, prepared.call())
        limit = getattr(limits, operator.limit)(prepared.arrays, traffic)
    ours, least = medians(prepared.call, limit, seconds=seconds)
    return least / ours


@lru_cache(maxsize=1)
def prepared(benchmark: type[Benchmark], case: str, implementation: str) -> Prepared:
    """Return a warm call. Cached: asv repeats `setup` for every sample."""
    return benchmark.operator.prepare(case, implementation)


class Benchmark(ABC):
    """What all kinds of benchmark share."""

    timeout = 300.0

    @property
    @abstractmethod
    def operator(self) -> Operator:
        """Return what is measured; a class attribute of the subclasses."""

    def setup(self, case: str, implementation: str | None = None) -> None:
        """Make the data and warm the call."""
        self.prepared = prepared(type(self), case, implementation or self.operator.ours)
        self.call = self.prepared.call


class Calls(Benchmark):
    """Time one call.

    asv times every call alone, after a `setup`: that adds some 0.3 µs. `overhead` times many calls at once.
    """

    param_names = ["case", "implementation"]
    rounds = 1
    repeat = (3, 20, 5.0)
    warmup_time = 0.2

    def time_call(self, case: str, implementation: str) -> None:
        """Call it."""
        self.call()


class Neighbours(Benchmark):
    """Time one call with `out=` of a case near to those of the tables; `compare.py --neighbours` adds the peers."""

    param_names = ["case"]
    rounds = 1
    repeat = (3, 20, 2.0)
    warmup_time = 0.1

    def time_call(self, case: str) -> None:
        """Call it."""
        self.call()


class Throughput(Benchmark):
    """How fast a call with `out=` moves its bytes."""

    param_names = ["case"]

    def track_throughput(self, case: str) -> float:
        """Return the bytes per second."""
        traffic = self.operator.traffic(self.prepared.arrays, self.call())
        return traffic / medians(self.call, seconds=1.0)[0] / 1e9

    track_throughput.unit = "GB/s"

    def track_share(self, case: str) -> float:
        """Return the share of what the memory allows; see `limits`."""
        return 100 * share_of_limit(self.operator, self.prepared, seconds=2.0)

    track_share.unit = "%"


def made(kind: type[Any], name: str, module: str, operator: Any, *params: list[str]) -> type[Any]:
    """Return a class that asv runs: a kind of benchmark of an operator, in a module, with the values of parameters."""
    members = {"__doc__": kind.__doc__, "__module__": module, "operator": operator, "params": list(params)}
    return type(name, (kind,), members)


def benchmarks(name: str, file: dict[str, Any]) -> tuple[type[Benchmark], ...]:
    """Return what asv runs for a benchmark file: classes called `name`, with "Neighbours", and with "Throughput"."""
    operator, module = Operator.of(file), file["__name__"]
    large = [case for case in operator.cases if not case.startswith(TINY)]
    implementations = installed(list(operator.implementations))
    return (
        made(Calls, name, module, operator, some(list(operator.cases), 1), implementations),
        made(Neighbours, f"{name}Neighbours", module, operator, some(list(operator.neighbours), 1)),
        made(Throughput, f"{name}Throughput", module, operator, some(large, 1)),
    )
