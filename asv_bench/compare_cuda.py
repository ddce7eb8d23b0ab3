"""Measure the CUDA target beside PyTorch, CuPy and JAX, and print the tables of docs/performance.md.

``python asv_bench/compare_cuda.py [OPERATOR ...] [--neighbours] [--random N [--seed N]] [--cases SUBSTRING ...]
[--peers NAME ...] [--small] [--json FILE]``, or ``--table FILE ...`` to print what earlier runs stored. Cases, data and
clocks are those of `benchmarks.cuda`, which asv runs too. All libraries share the device, so they are measured in one
process, one after the other for each case.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

from benchmarks import common, cuda, overhead
from compare import installed, number, random_case

#: Elements of random cases.
RANDOM_ELEMENTS = 1 << 18, 1 << 26
PACKAGES = ["numba-cuda", "numba", "numpy", "torch", "jax"]
HOW = (
    "Times on the device in ms, with `out=` where the library has it (JAX allocates), deferred bounds, and arrays that "
    "take turns: medians between two CUDA events, one before and one after a call, while the host is ahead. In "
    "brackets, where it is 10 % more, the time by the host's clock, from an idle device until the last of many calls "
    "is done, by their number; JAX has only this, since no event of another library sees its stream."
)

#: What was measured of one case: per library the `device` time and that by the `host`'s clock in ms, why others are
#: `unable`, and the bytes that a call moves (`traffic`). Plain data, as JSON has it.
Record = dict[str, Any]


def measure(operator: str, name: str, case: Any, peers: list[str]) -> Record:
    """Return the record of a case; a peer that fails is unable."""
    record: Record = {"operator": operator, "case": name, "device": {}, "host": {}, "unable": {}}
    arrays = cuda.sets(case)
    for library in ("numba_dml", *peers):
        try:
            calls = cuda.prepare(case, library, arrays)
            host = cuda.call_milliseconds(library, calls)
            record["device"][library] = host if library == "jax" else cuda.device_milliseconds(library, calls)
            record["host"][library] = host
        except Exception as error:
            if library == "numba_dml":
                raise
            record["unable"][library] = str(error).partition("\n")[0][:200] or type(error).__name__
            continue
        if library == "numba_dml":
            record["traffic"] = case.traffic(arrays[0], calls[0]())
    return record


def best_peer(record: Record) -> tuple[str, float] | None:
    """Return the fastest peer, and its device time over ours."""
    times = {name: time for name, time in record["device"].items() if name != "numba_dml"}
    if not times:
        return None
    best = min(times, key=times.__getitem__)
    return best, times[best] / record["device"]["numba_dml"]


def cell(record: Record, name: str) -> str:
    """Return a library's times."""
    if name not in record["device"]:
        return "n/a"
    device, host = record["device"][name], record["host"][name]
    return f"{device:.4g}" + (f" ({host:.3g})" if host > 1.1 * device else "")


def microseconds(call: Callable[[], Any], calls: int = 100, rounds: int = 7) -> float:
    """Return the time of the host for a call, which the device is not waited for."""
    samples = []
    for _ in range(rounds):
        cuda.library("torch").cuda.synchronize()
        start = perf_counter()
        for _ in range(calls):
            call()
        samples.append((perf_counter() - start) / calls)
    return 1e6 * median(samples)


def row(record: Record, limit: float) -> str:
    """Return the line of a table."""
    best = best_peer(record)
    rate = record["traffic"] / record["device"]["numba_dml"] / 1e6
    cells = [record["case"], *(cell(record, name) for name in cuda.LIBRARIES)]
    cells += [f"{best[0]} {best[1]:.2f}x" if best else "", f"{rate:.0f}", f"{100 * rate / limit:.0f} %"]
    return f"| {' | '.join(cells)} |"


def tables(
    header: str, limit: float, records: list[Record], host: dict[str, dict[str, float]], behind_only: bool = False
) -> str:
    """Return everything that is printed, as markdown."""
    lines = [header, "", f"A copy moves {limit:.0f} GB/s, reads and writes together. {HOW}"]
    titles = ["case", "numba_dml", *cuda.LIBRARIES[1:], "best peer over ours", "GB/s", "of a copy"]
    for operator in dict.fromkeys(record["operator"] for record in records):
        rows = [record for record in records if record["operator"] == operator]
        if behind_only:
            found = [best[1] for record in rows if (best := best_peer(record))]
            lines += ["", f"{operator}: geometric mean of {len(found)} cases {geometric_mean(found):.2f}x; behind:"]
            rows = [record for record in rows if (best := best_peer(record)) and best[1] < 1]
        lines += ["", f"### {operator}", "", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
        lines += [row(record, limit) for record in rows]
    ratios = [best[1] for record in records if (best := best_peer(record))]
    if ratios:
        behind = sum(ratio < 1 for ratio in ratios)
        lines += ["", f"Geometric mean: {geometric_mean(ratios):.2f}x (behind in {behind} of {len(ratios)} cases)."]
    if host:
        titles = list(next(iter(host.values())))
        lines += ["", f"| host time of 8 elements, µs | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|"]
        lines += [
            f"| {name} | {' | '.join(number(times[title]) for title in titles)} |" for name, times in host.items()
        ]
    return "\n".join(lines)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure what the arguments ask for; store it after every case."""
    torch = cuda.library("torch")
    versions = ", ".join([f"numba_dml {cuda.dml.__version__}", *map(installed, PACKAGES)])
    if "cupy" in args.peers:
        versions += f", cupy {cuda.library('cupy').__version__}"
    header = f"{date.today()}, {torch.cuda.get_device_name()}; {versions}."
    stored: dict[str, Any] = {"header": header, "limit": cuda.copy_rate(), "records": [], "host": {}}
    groups = cuda.NEIGHBOURS if args.neighbours else cuda.CASES
    if args.random:
        rng = random.Random(args.seed)
        groups = {}
        for operator in args.operators:
            make = type(next(iter(cuda.CASES[operator].values())))
            groups[operator] = dict(random_case(operator, make, rng, *RANDOM_ELEMENTS) for _ in range(args.random))
    for operator in args.operators:
        for name, case in groups[operator].items():
            if args.cases and not any(part in f"{operator} {name}" for part in args.cases):
                continue
            stored["records"].append(measure(operator, name, case, args.peers))
            print(row(stored["records"][-1], stored["limit"]), file=sys.stderr, flush=True)
            torch.cuda.empty_cache()
            if "cupy" in args.peers:
                cuda.library("cupy").get_default_memory_pool().free_all_blocks()
            if args.json:
                args.json.write_text(json.dumps(stored, indent=1) + "\n")
        if operator in overhead.OPERATORS and not args.cases and not args.random:
            for owner in ("torch", "cupy"):
                if owner in args.peers:
                    calls = cuda.short_calls(operator, owner)
                    stored["host"][f"{operator}, {owner}"] = {name: microseconds(call) for name, call in calls.items()}
    if args.json:
        args.json.write_text(json.dumps(stored, indent=1) + "\n")
    return stored


def main() -> None:
    """Print one table per operator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help=f"of {', '.join(cuda.CASES)}; all when absent")
    parser.add_argument("--neighbours", action="store_true", help="the cases near to those of the tables instead")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N random cases of each operator instead")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random cases")
    parser.add_argument("--cases", nargs="+", metavar="SUBSTRING", help="only cases with one of these in their names")
    parser.add_argument("--peers", nargs="*", default=cuda.LIBRARIES[1:], choices=cuda.LIBRARIES[1:])
    parser.add_argument("--small", action="store_true", help="a sixteenth of the sizes: does everything run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the raw numbers")
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE", help="print stored numbers, measure nothing")
    args = parser.parse_args()
    if unknown := set(args.operators) - set(cuda.CASES):
        parser.error(f"no such operator: {', '.join(sorted(unknown))}")
    args.operators = args.operators or list(cuda.CASES)
    if args.table:
        parts = [json.loads(file.read_text()) for file in args.table]
        stored = parts[0]
        for part in parts[1:]:
            stored["records"] += part["records"]
            stored["host"] |= part["host"]
    else:
        common.SMALL = common.SMALL or args.small
        try:
            stored = run(args)
        except NotImplementedError as error:
            parser.exit(1, f"{error}\n")
        cuda.dml.check()
    print(tables(**stored, behind_only=bool(args.random)))


if __name__ == "__main__":
    main()
