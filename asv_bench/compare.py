"""Measure every case of the benchmarks side by side and print the tables of docs/performance.md.

``python asv_bench/compare.py [OPERATOR ...] [--implementations NAME ...]``. Every implementation runs in a process of
its own, since idle thread pools of other libraries steal cores; the implementations of a case take turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter

OPERATORS = ["top_k", "gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd"]
IMPLEMENTATIONS = ["numba_dml", "numba_dml out", "numpy", "torch", "onnxruntime"]
PACKAGES = ["numba", "numpy", "torch", "onnxruntime"]
#: Seconds of measuring per implementation and case, after a warm-up call.
BUDGET = 0.7


def definition(operator: str):
    """Return the `common.Operator` of a benchmark file."""
    module = importlib.import_module(f"benchmarks.{operator}")
    return next(c.operator for c in vars(module).values() if hasattr(c, "time_call"))


def measure(operator: str, implementation: str, case: str) -> float | None:
    """Return the median seconds of one call, None where the implementation is missing or cannot do the case."""
    described = definition(operator)
    parameters = described.cases[case]
    arrays = described.arrays(parameters)
    try:
        call = described.implementations[implementation](parameters, *arrays)
    except NotImplementedError:
        return None
    call()
    samples: list[float] = []
    end = perf_counter() + BUDGET
    while len(samples) < 3 or (perf_counter() < end and len(samples) < 200):
        start = perf_counter()
        call()
        samples.append(perf_counter() - start)
    return median(samples)


def measure_apart(operator: str, implementation: str, case: str) -> float | None:
    """Return what `measure` returns, from a process of its own."""
    arguments = [sys.executable, __file__, "--measure", operator, implementation, case]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def cell(seconds: float | None, ours: float) -> str:
    """Return a time in ms, with its ratio to ours."""
    return "n/a" if seconds is None else f"{seconds * 1e3:.3g} ({seconds / ours:.2f}x)"


def processor() -> str:
    """Return the name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def installed(package: str) -> str:
    """Return a package's name with its version."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} not installed"


def main() -> None:
    """Print one table per operator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", default=OPERATORS, metavar="OPERATOR")
    parser.add_argument("--implementations", nargs="+", default=IMPLEMENTATIONS, choices=IMPLEMENTATIONS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*args.operators)))
        return
    peers = [name for name in args.implementations if not name.startswith("numba_dml")]
    print(f"{date.today()}, {processor()}, {os.cpu_count()} cores; {', '.join(map(installed, PACKAGES))}.")
    for operator in args.operators:
        print(f"\n### {operator}\n\n| case | numba_dml | with out= | {' | '.join(peers)} |")
        print("|---" * (3 + len(peers)) + "|")
        for case in definition(operator).cases:
            ours = measure_apart(operator, "numba_dml", case)
            held = measure_apart(operator, "numba_dml out", case)
            assert ours is not None
            assert held is not None
            others = [cell(measure_apart(operator, peer, case), ours) for peer in peers]
            print(f"| {case} | {ours * 1e3:.3g} | {held * 1e3:.3g} | {' | '.join(others)} |", flush=True)


if __name__ == "__main__":
    main()
