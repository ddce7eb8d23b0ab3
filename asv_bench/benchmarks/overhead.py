"""What a call costs beside its work: import, compilation, the disk cache, and the way from Python to the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import numba_dml as dml

from . import common

OPERATORS = ["gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "top_k"]

#: Enough for the parallel driver, little enough to take no time.
PARALLEL_SIZE = 2**16


def problem(operator: str, n: int) -> tuple[tuple[Any, ...], Any, Any]:
    """Return a function's arguments for `n` elements, its `out`, and the descriptor of the same."""
    a = np.arange(n, dtype=np.float32)
    indices = np.arange(n)[::-1].copy()
    updates, out = a.copy(), np.zeros_like(a)
    x, i = dml.TensorDesc("float32", (n,)), dml.TensorDesc("int64", (n,))
    # The ND operators' tuples: a rank of 2 for all, of which 1 dimension of the data counts.
    x2, i2 = dml.TensorDesc("float32", (1, n)), dml.TensorDesc("int64", (n, 1))
    if operator == "gather":
        return (a, indices), out, dml.GatherDesc(x, i, x, 0, 1)
    if operator == "gather_elements":
        return (a, indices), out, dml.GatherElementsDesc(x, i, x, 0)
    if operator == "gather_nd":
        return (a, indices[:, None]), out, dml.GatherNDDesc(x2, i2, x2, 1, 2)
    if operator == "scatter_elements":
        return (a, indices, updates), out, dml.ScatterElementsDesc(x, i, x, x, 0)
    if operator == "scatter_nd":
        return (a, indices[:, None], updates), out, dml.ScatterNDDesc(x2, i2, x2, x2, 1, 2)
    values, positions = dml.TensorDesc("float32", (3,)), dml.TensorDesc("int64", (3,))
    return (a, 3), (np.zeros(3, np.float32), np.zeros(3, np.int64)), dml.TopKDesc(x, values, positions, 0, 3)


def reshaped(operator: str, arguments: tuple[Any, ...], out: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the arguments in the shapes of the descriptor, which gives all tensors of an ND operator one rank."""
    if operator == "top_k":
        return arguments[:1], out
    if operator.endswith("_nd"):
        a, indices, *updates = arguments
        return (a[None], indices, *(u[None] for u in updates)), out[None]
    return arguments, out


@lru_cache
def function_call(operator: str) -> Callable[[], Any]:
    """Return a warm call of a function on 8 elements."""
    arguments, out, _ = problem(operator, 8)
    call = partial(getattr(dml, operator), *arguments, out=out)
    call()
    return call


@lru_cache
def held_call(operator: str) -> Callable[[], Any]:
    """Return a warm call of a compiled operator on 8 elements."""
    arguments, out, descriptor = problem(operator, 8)
    arguments, out = reshaped(operator, arguments, out)
    call = partial(dml.compile_operator(descriptor), *arguments, out=out)
    call()
    return call


def ragged_call(operator: str, implementation: str) -> Callable[[int], Any]:
    """Return a call of a function, or what NumPy has for it, with the first n of 5000 elements."""
    rng = np.random.default_rng(0)
    a, indices = rng.random(5000, np.float32), rng.integers(0, 100, 5000)
    rows = indices[:, None]

    def put(n: int) -> Any:
        result = a.copy()
        result[indices[:n]] = a[:n]
        return result

    def top(n: int) -> Any:
        best = np.argpartition(a[:n], n - 3)[n - 3 :]
        best = best[np.argsort(-a[best])]
        return a[best], best

    ours: dict[str, Callable[[int], Any]] = {
        "gather": lambda n: dml.gather(a, indices[:n]),
        "gather part of a": lambda n: dml.gather(a[:n], indices),
        "gather_elements": lambda n: dml.gather_elements(a, indices[:n]),
        "gather_nd": lambda n: dml.gather_nd(a, rows[:n]),
        "scatter_elements": lambda n: dml.scatter_elements(a, indices[:n], a[:n]),
        "scatter_nd": lambda n: dml.scatter_nd(a, rows[:n], a[:n]),
        "top_k": lambda n: dml.top_k(a[:n], 3),
    }
    theirs: dict[str, Callable[[int], Any]] = {
        "gather": lambda n: np.take(a, indices[:n]),
        "gather part of a": lambda n: np.take(a[:n], indices),
        "gather_elements": lambda n: np.take_along_axis(a, indices[:n], 0),
        "gather_nd": lambda n: a[indices[:n]],
        "scatter_elements": put,
        "scatter_nd": put,
        "top_k": top,
    }
    return (ours if implementation == "numba_dml" else theirs)[operator]


class Call:
    """A call with `out=` on 8 elements.

    There is no `setup`: asv would repeat it for every call and time calls one by one. The look-up of the prepared call
    is part of the time, about 0.2 µs; asv's warm-up makes it.
    """

    params = common.some(OPERATORS, 1)
    param_names = ["operator"]
    rounds = 1
    number = 1000
    repeat = (5, 50, 1.0)
    warmup_time = 0.2
    timeout = 120.0

    def time_function(self, operator: str) -> None:
        """Call the function."""
        function_call(operator)()

    def time_held_operator(self, operator: str) -> None:
        """Call the compiled operator."""
        held_call(operator)()


class NewShapes:
    """Calls of which each has another length: their descriptor is validated, lowered and planned first.

    Lengths are up to 5000, so that the work is little; NumPy does the same, for comparison.
    """

    params = [common.some([*OPERATORS, "gather part of a"], 1), common.some(["numba_dml", "numpy"], 1)]
    param_names = ["operator", "implementation"]
    unit = "seconds per call"
    timeout = 120.0

    def track_loop(self, operator: str, implementation: str) -> float:
        """Return the shortest of three loops over all lengths in random order, divided by their number."""
        call = ragged_call(operator, implementation)
        lengths = [int(n) for n in np.random.default_rng(0).permutation(np.arange(100, 5000))]
        for n in lengths[::100]:  # what is compiled is compiled
            call(n)
        times = []
        for _ in range(3):
            dml.cache_clear()
            start = perf_counter()
            for n in lengths:
                call(n)
            times.append(perf_counter() - start)
        return min(times) / len(lengths)


class BesidePython:
    """Calls on 8 elements while another thread runs Python.

    The interpreter's lock that a call gives away is the other thread's for a turn of 5 ms.
    """

    params = common.some(OPERATORS, 1)
    param_names = ["operator"]
    unit = "calls/s"
    timeout = 120.0

    def track_function(self, operator: str) -> float:
        """Return how many calls are done in a second."""
        call, done = function_call(operator), threading.Event()

        def run_python() -> None:
            while not done.is_set():
                pass

        thread = threading.Thread(target=run_python)
        thread.start()
        try:
            count, start = 0, perf_counter()
            while (passed := perf_counter() - start) < 1:
                call()
                count += 1
        finally:
            done.set()
            thread.join()
        return count / passed


class Import:
    """Import in a new process."""

    number = 1
    rounds = 1
    repeat = (3, 5, 20.0)
    timeout = 120.0

    def timeraw_numba_dml(self) -> str:
        """Import the package."""
        return "import numba_dml"

    def timeraw_numba(self) -> str:
        """Import Numba, for comparison: the package leaves that to the first call."""
        return "import numba"


def seconds_of_first_call(operator: str, n: int, cache: str) -> float:
    """Return the time of the first call in a new process with this folder as Numba's disk cache."""
    result = subprocess.run(
        [sys.executable, "-m", __name__, operator, str(n)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise RuntimeError(result.stderr)
    return float(result.stdout)


class FirstCall:
    """The first call in a new process, after the import: cold (it compiles) and warm (it loads from the disk cache).

    Both include the import of Numba.
    The process that compiles fills the cache for the next one, so both are measured once, together.
    """

    params = [common.some(OPERATORS, 1), common.some(["serial", "parallel"], 1)]
    param_names = ["operator", "driver"]
    unit = "seconds"
    timeout = 600.0

    def setup_cache(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Measure all."""
        results = {}
        for operator in self.params[0]:
            for driver in self.params[1]:
                n = PARALLEL_SIZE if driver == "parallel" else 8
                with tempfile.TemporaryDirectory() as cache:
                    cold, warm = (seconds_of_first_call(operator, n, cache) for _ in range(2))
                results[operator, driver] = cold, warm
        return results

    setup_cache.timeout = 600.0

    def track_cold(self, results: dict[tuple[str, str], tuple[float, float]], operator: str, driver: str) -> float:
        """Return the time with an empty disk cache."""
        return results[operator, driver][0]

    def track_warm(self, results: dict[tuple[str, str], tuple[float, float]], operator: str, driver: str) -> float:
        """Return the time with a filled disk cache."""
        return results[operator, driver][1]


if __name__ == "__main__":
    function = getattr(dml, sys.argv[1])
    arguments, _, _ = problem(sys.argv[1], int(sys.argv[2]))
    start = perf_counter()
    function(*arguments)
    print(perf_counter() - start)
