"""``bench``: a few calls on this machine, beside the libraries that are installed.

Every library runs in a process of its own: the idle threads of one would take the cores of the next. They run there and
back again, and a time is the better of the two medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from math import exp
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import numba_dml as dml

from ..__main__ import has
from . import _terminal, info

OURS = "numba_dml"
LIBRARIES = (OURS, "numpy", "torch", "jax", "onnxruntime")
NEEDED = {"onnxruntime": "onnx"}  #: what a library is of no use without, here
#: What else their operators do than ours, of those that do.
DIFFERENCES = {
    "numpy": "NumPy's top-k picks any of equal elements.",
    "torch": "PyTorch's top-k promises nothing about equal elements.",
    "jax": "JAX fills, drops or clamps where indices are bad.",
}
STEADY = 1.3  #: if the times of both turns differ by more in the median, other work has been in the way
OTHERS = 1  #: more threads of others, on a few cores, are other work too: the load of the turns is not exact
BUDGET = 0.4  #: seconds of measuring per case, library and turn, after two calls to warm up


def _arrays(part: int = 1) -> dict[str, Any]:
    """Return what all calls work on, or the like with one in `part` of each size."""
    rng = np.random.default_rng(7)
    lines, vector, rows, side, pairs = (n // part for n in (2000, 10_000_000, 200_000, 2048, 500_000))
    return {
        "lines": rng.standard_normal((lines, 5000), np.float32),
        "vector": rng.standard_normal(vector, np.float32),
        "table": rng.standard_normal((rows, 64), np.float32),
        "rows": rng.integers(0, rows, rows),
        "square": rng.standard_normal((side, side), np.float32),
        "places": rng.integers(0, side, (side, side)),
        "pairs": rng.integers(0, side, (pairs, 2)),
        "updates": rng.standard_normal(pairs).astype(np.float32),
    }


CASES = (
    "top_k: (2000, 5000), k 10",
    "top_k: 10M, k 100",
    "gather: 200k rows of 64",
    "gather_elements: (2048, 2048)",
    "gather_nd: 500k of (2048, 2048)",
    "scatter_elements: (2048, 2048)",
    "scatter_nd: add 500k to (2048, 2048)",
)


def _numba_dml(d: dict[str, Any]) -> list[Callable[[], Any]]:
    return [
        lambda: dml.top_k(d["lines"], 10),
        lambda: dml.top_k(d["vector"], 100),
        lambda: dml.gather(d["table"], d["rows"]),
        lambda: dml.gather_elements(d["square"], d["places"], axis=0),
        lambda: dml.gather_nd(d["square"], d["pairs"]),
        lambda: dml.scatter_elements(d["square"], d["places"], d["square"], axis=1),
        lambda: dml.scatter_nd(d["square"], d["pairs"], d["updates"], reduction="add"),
    ]


def _numpy(d: dict[str, Any]) -> list[Callable[[], Any]]:
    def top(a: Any, k: int) -> Any:
        found = np.argpartition(a, -k, -1)[..., -k:]
        values = np.take_along_axis(a, found, -1)
        order = np.argsort(-values, -1, kind="stable")
        return np.take_along_axis(values, order, -1), np.take_along_axis(found, order, -1)

    def put() -> Any:
        out = d["square"].copy()
        np.put_along_axis(out, d["places"], d["square"], 1)
        return out

    def add() -> Any:
        out = d["square"].copy()
        np.add.at(out, tuple(d["pairs"].T), d["updates"])
        return out

    return [
        lambda: top(d["lines"], 10),
        lambda: top(d["vector"], 100),
        lambda: np.take(d["table"], d["rows"], 0),
        lambda: np.take_along_axis(d["square"], d["places"], 0),
        lambda: d["square"][tuple(d["pairs"].T)],
        put,
        add,
    ]


def _torch(d: dict[str, Any]) -> list[Callable[[], Any]]:
    import torch

    t: dict[str, Any] = {name: torch.from_numpy(array) for name, array in d.items()}
    pairs = tuple(t["pairs"].T.contiguous())
    return [
        lambda: torch.topk(t["lines"], 10),
        lambda: torch.topk(t["vector"], 100),
        lambda: torch.index_select(t["table"], 0, t["rows"]),
        lambda: torch.gather(t["square"], 0, t["places"]),
        lambda: t["square"][pairs],
        lambda: torch.scatter(t["square"], 1, t["places"], t["square"]),
        lambda: t["square"].index_put(pairs, t["updates"], accumulate=True),
    ]


def _jax(d: dict[str, Any]) -> list[Callable[[], Any]]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    t: dict[str, Any] = {name: jnp.asarray(array) for name, array in d.items()}

    def put(a: Any, places: Any) -> Any:
        return jnp.put_along_axis(a, places, a, 1, inplace=False)

    def add(a: Any, pairs: Any, updates: Any) -> Any:
        return a.at[tuple(pairs.T)].add(updates)

    def call(function: Callable[..., Any], *names: str) -> Callable[[], Any]:
        compiled = jax.jit(function)
        return lambda: jax.block_until_ready(compiled(*(t[name] for name in names)))

    return [
        call(lambda a: jax.lax.top_k(a, 10), "lines"),
        call(lambda a: jax.lax.top_k(a, 100), "vector"),
        call(lambda a, i: jnp.take(a, i, 0), "table", "rows"),
        call(lambda a, i: jnp.take_along_axis(a, i, 0), "square", "places"),
        call(lambda a, i: a[tuple(i.T)], "square", "pairs"),
        call(put, "square", "places"),
        call(add, "square", "pairs", "updates"),
    ]


def _onnxruntime(d: dict[str, Any]) -> list[Callable[[], Any]]:
    import onnxruntime
    from onnx import TensorProto, helper

    types = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    d = {**d, "k10": np.array([10]), "k100": np.array([100])}

    def call(operator: str, *names: str, results: int = 1, **attributes: Any) -> Callable[[], Any]:
        inputs = [helper.make_tensor_value_info(n, types[d[n].dtype.kind], d[n].shape) for n in dict.fromkeys(names)]
        outputs = [
            helper.make_tensor_value_info(f"out{i}", types["fi"[i]], [None] * d[names[0]].ndim if results > 1 else None)
            for i in range(results)
        ]
        node = helper.make_node(operator, names, [one.name for one in outputs], **attributes)
        graph = helper.make_graph([node], operator, inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feed = {name: d[name] for name in names}
        return lambda: session.run(None, feed)

    return [
        call("TopK", "lines", "k10", results=2),
        call("TopK", "vector", "k100", results=2),
        call("Gather", "table", "rows"),
        call("GatherElements", "square", "places", axis=0),
        call("GatherND", "square", "pairs"),
        call("ScatterElements", "square", "places", "square", axis=1),
        call("ScatterND", "square", "pairs", "updates", reduction="add"),
    ]


#: Return the calls of a library.
CALLS = {OURS: _numba_dml, "numpy": _numpy, "torch": _torch, "jax": _jax, "onnxruntime": _onnxruntime}


def measure(library: str) -> list[float]:
    """Return the median seconds of a call of every case."""
    calls = CALLS[library](_arrays())
    found = []
    for call in calls:
        times: list[float] = []
        call()
        call()
        end = perf_counter() + BUDGET
        while len(times) < 3 or perf_counter() < end:
            start = perf_counter()
            call()
            times.append(perf_counter() - start)
        found.append(median(times))
    return found


def _apart(library: str) -> list[float]:
    command = [sys.executable, "-m", "numba_dml", "bench", "--measure", library]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(f"bench: {library} failed with exit status {done.returncode}")
    found: list[float] = json.loads(done.stdout)
    return found


class _Load:
    """How many threads of others ran, or waited to run, beside the processes that this one started."""

    def __init__(self) -> None:
        self.start, self.before, self.used = perf_counter(), self.load(), self.own()

    @staticmethod
    def load() -> float:
        """Return the system's load of the last minute, where it tells it."""
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0

    @staticmethod
    def own() -> float:
        """Return the seconds that threads of finished processes ran."""
        times = os.times()
        return times.children_user + times.children_system

    def others(self) -> float:
        """Return them for the time since this was made; what was before fades away in the load of a minute."""
        seconds = max(perf_counter() - self.start, 1.0)
        fading = exp(-seconds / 60)
        load = (self.load() - self.before * fading) / (1 - fading)
        return max(0.0, load - (self.own() - self.used) / seconds)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="save a picture of the times")
    parser.add_argument("--measure", choices=LIBRARIES, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure, and show what came out."""
    if args.measure:
        with dml.config(quiet=True):
            print(json.dumps(measure(args.measure)))
        return 0
    if args.plot is not None:
        _terminal.check_picture(args.plot)
    libraries = [name for name in LIBRARIES if has(name) and has(NEEDED.get(name, name))]
    turns = libraries + libraries[::-1]
    found: dict[str, list[list[float]]] = {name: [] for name in libraries}
    load = _Load()
    with _terminal.Progress("measuring", len(turns), args.json) as shown:
        for library in turns:
            shown.advance(0, library)
            found[library].append(_apart(library))
            shown.advance(1)
    times = {name: list(map(min, *both)) for name, both in found.items()}
    differing = median(max(pair) / min(pair) for both in found.values() for pair in zip(*both, strict=True))
    others = load.others()
    signs = [
        *([f"times of the two turns differ by {differing:.1f}x in the median"] if differing > STEADY else []),
        *([f"{others:.1f} other threads ran or waited"] if others > max(OTHERS, info.cores() / 8) else []),
    ]
    if signs:
        print(
            f"bench: this machine had other work to do: {', and '.join(signs)}, so the ratios may be wrong",
            file=sys.stderr,
        )
    versions = {name: info.installed(name) for name in libraries}
    if args.json:
        cases = [{"case": case, **{name: times[name][i] for name in libraries}} for i, case in enumerate(CASES)]
        facts = {
            "processor": info.processor(),
            "cores": info.cores(),
            "versions": versions,
            "busy": bool(signs),
            "turns_differ_by": round(differing, 2),
            "other_threads": round(others, 1),
            "seconds": cases,
        }
        print(json.dumps(facts, indent=2))
    else:
        rows = []
        for i, case in enumerate(CASES):
            best = min(libraries[1:], key=lambda name: times[name][i])
            ratio = f"{best} {times[best][i] / times[OURS][i]:.2f}x"
            rows.append([case, *(_terminal.duration(times[name][i]) for name in libraries), ratio])
        _terminal.print_table(["case", *libraries, "best other / ours"], rows, [*libraries, "best other / ours"])
        print(f"\n{info.processor()}, {info.cores()} cores; {', '.join(f'{n} {v}' for n, v in versions.items())}.")
        print("Median times of a call that allocates its result; float32, 64-bit indices.")
        for text in (DIFFERENCES[name] for name in libraries if name in DIFFERENCES):
            print(text)
    if args.plot is not None:
        save_picture(args.plot, libraries, times)
        if not args.json:
            print(f"Picture: {args.plot}")
    return 0


def save_picture(path: Path, libraries: list[str], times: dict[str, list[float]]) -> None:
    """Draw a point for every case and library, as a multiple of our time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.42 * len(CASES) * len(libraries) * 0.6 + 1.4), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(libraries)
    for number, library in enumerate(libraries):
        ratios = [one / ours for one, ours in zip(times[library], times[OURS], strict=True)]
        places = [i + (number - (len(libraries) - 1) / 2) * height for i in range(len(CASES))]
        axes.plot(ratios, places, "o", label=library)  # no bars: a logarithmic axis has no zero for them to start at
        for point, seconds in zip(zip(ratios, places, strict=True), times[library], strict=True):
            axes.annotate(
                _terminal.duration(seconds), point, (6, 0), textcoords="offset points", va="center", fontsize=8
            )
    axes.set_yticks(range(len(CASES)), CASES)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.margins(x=0.12)
    axes.axvline(1, color="0.4", linewidth=0.8, zorder=1)
    axes.grid(axis="x", which="both", color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("time of a call, as a multiple of numba_dml's (further left is faster)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=len(libraries), frameon=False)
    figure.savefig(path, dpi=120)
