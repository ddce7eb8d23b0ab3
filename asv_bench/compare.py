"""Measure every case of the benchmarks side by side and print the tables of docs/performance.md.

``python asv_bench/compare.py [OPERATOR ...] [--neighbours] [--cases SUBSTRING] [--peers NAME ...] [--rounds N]
[--json FILE]``, or ``--table FILE`` to print what an earlier run stored. Every implementation runs in a process of its
own, since idle thread pools of other libraries steal cores. The implementations of a case take turns, in several
rounds; a time is the (lower) median over the rounds of each round's median.
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
from statistics import geometric_mean, median, median_low
from typing import Any

from benchmarks.common import LIBRARIES, OURS, TINY, Operator, medians, share_of_limit

OPERATORS = ["top_k", "gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd"]
PACKAGES = ["numba_dml", "numba", "numpy", "torch", "onnxruntime", "jax", "faiss-cpu"]
#: Seconds of measuring per implementation, case and round, after a warm-up call.
BUDGET = 0.5

#: What was measured of one case: `seconds` of each round per implementation, why others are `unable`, the `shares` of
#: the limit. Plain data, as JSON has it.
Record = dict[str, Any]


def definition(operator: str) -> Operator:
    """Return what a benchmark file says."""
    return Operator.of(vars(importlib.import_module(f"benchmarks.{operator}")))


def measure(operator: str, implementation: str, case: str) -> dict[str, Any]:
    """Return the median seconds of one call, and our share of the limit, or why it cannot do the case."""
    described = definition(operator)
    try:
        prepared = described.prepare(case, implementation)
    except NotImplementedError as error:
        return {"unable": str(error)}
    measured: dict[str, Any] = {"seconds": medians(prepared.call, seconds=BUDGET)[0]}
    if implementation == OURS and not case.startswith(TINY):
        measured["share"] = share_of_limit(described, prepared, seconds=BUDGET)
    return measured


def measure_apart(operator: str, implementation: str, case: str) -> dict[str, Any]:
    """Return what `measure` returns, from a process of its own; a peer that fails is unable."""
    arguments = [sys.executable, __file__, "--measure", operator, implementation, case]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if implementation.startswith("numba_dml"):
        raise RuntimeError(done.stderr)
    print(f"{case}: {implementation} failed\n{done.stderr}", file=sys.stderr)
    return {"unable": f"failed with exit status {done.returncode}"}


def measure_case(operator: str, group: str, case: str, peers: list[str], rounds: int) -> Record:
    """Return the record of a case."""
    described = definition(operator)
    record: Record = {"operator": operator, "group": group, "case": case, "limit": described.limit}
    record |= {"seconds": {}, "unable": {}, "shares": []}
    names = [name for name in described.implementations if name.split()[0] in ("numba_dml", *peers)]
    for turn in range(rounds):
        # Back and forth: who comes after whom must not matter, nor a machine that slows down or recovers.
        for name in names[:: -1 if turn % 2 else 1]:
            if name in record["unable"]:
                continue
            measured = measure_apart(operator, name, case)
            if "unable" in measured:
                record["unable"][name] = measured["unable"]
            else:
                record["seconds"].setdefault(name, []).append(measured["seconds"])
            if "share" in measured:
                record["shares"].append(measured["share"])
    return record


def times(record: Record) -> dict[str, float]:
    """Return one time per implementation: of two rounds the faster, since noise only adds."""
    return {name: median_low(seconds) for name, seconds in record["seconds"].items()}


def best_peers(record: Record) -> dict[str, tuple[str, float]]:
    """Return who comes next to us and its time over ours: with `out=` among all peers, else among those that allocate.

    Peers that have no `out=` count in both: what they reuse behind the scenes, they may.
    """
    measured, found = times(record), {}
    peers = [name for name in measured if not name.startswith("numba_dml")]
    for ours, rivals in ((OURS, peers), ("numba_dml", [name for name in peers if not name.endswith(" out")])):
        if rivals:
            best = min(rivals, key=measured.__getitem__)
            found[ours] = best.removesuffix(" out"), measured[best] / measured[ours]
    return found


def number(value: float) -> str:
    """Return three digits, without an exponent for large numbers."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def pair(with_out: str | None, allocating: str | None) -> str:
    """Return a cell: the figure with `out=`, and the allocating one in brackets."""
    parts = [with_out, allocating and f"({allocating})"]
    return " ".join(part for part in parts if part) or "n/a"


def row(record: Record, libraries: list[str]) -> str:
    """Return the line of a table."""
    ms = {name: number(seconds * 1e3) for name, seconds in times(record).items()}
    best = {ours: f"{peer} {ratio:.2f}x" for ours, (peer, ratio) in best_peers(record).items()}
    cells = [record["case"], *(pair(ms.get(f"{name} out"), ms.get(name)) for name in libraries)]
    share = f"{100 * median(record['shares']):.0f} %" if record["shares"] else ""
    return f"| {' | '.join([*cells, pair(best.get(OURS), best.get('numba_dml')), share])} |"


def means(title: str, records: list[Record]) -> str:
    """Return a line with the geometric means over all cases but the smallest, and in how many we are behind."""
    best = [best_peers(record) for record in records if not record["case"].startswith(TINY)]
    parts = []
    for ours, words in ((OURS, "with `out=`"), ("numba_dml", "allocating")):
        if ratios := [found[ours][1] for found in best if ours in found]:
            behind = sum(ratio < 1 for ratio in ratios)
            parts.append(f"{geometric_mean(ratios):.2f}x {words} (behind in {behind} of {len(ratios)} cases)")
    return f"{title}: {', '.join(parts) or 'n/a'}."


def tables(header: str, records: list[Record]) -> str:
    """Return everything that is printed, as markdown."""
    lines = [header]
    for group in dict.fromkeys(record["group"] for record in records):
        of_group = [record for record in records if record["group"] == group]
        for operator in dict.fromkeys(record["operator"] for record in of_group):
            rows = [record for record in of_group if record["operator"] == operator]
            seen = {name.split()[0] for record in rows for name in (*record["seconds"], *record["unable"])}
            libraries = [name for name in LIBRARIES if name in seen]
            titles = ["case", *libraries, "best peer over ours", f"of a {rows[0]['limit']}"]
            lines += ["", f"## {operator}" + (", neighbours" if group == "neighbours" else ""), ""]
            lines += [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
            lines += [row(record, libraries) for record in rows]
        lines += ["", f"Geometric means of the best peer's time over ours, without the cases of {TINY}:", ""]
        selection = [record for record in of_group if record["operator"] == "top_k"]
        movement = [record for record in of_group if record["operator"] != "top_k"]
        lines += [f"- {means(*part)}" for part in (("top_k", selection), ("gather and scatter", movement)) if part[1]]
    return "\n".join(lines)


def processor() -> str:
    """Return the name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def threads() -> str:
    """Return how many threads the libraries start: one per core that this process may use, or what they are told."""
    told = [f"{name}={os.environ[name]}" for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS") if name in os.environ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return ", ".join([f"{cores} threads", *told])


def installed(package: str) -> str:
    """Return a package's name with its version."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} not installed"


def run(args: argparse.Namespace) -> tuple[str, list[Record]]:
    """Measure what the arguments ask for; store it after every case, since a full run takes an hour."""
    header = f"{date.today()}, {processor()}, {threads()}; {', '.join(map(installed, PACKAGES))}."
    records: list[Record] = []
    group = "neighbours" if args.neighbours else "cases"
    for operator in args.operators:
        for case in getattr(definition(operator), group):
            if args.cases in case:
                records.append(measure_case(operator, group, case, args.peers, args.rounds))
                print(row(records[-1], LIBRARIES), file=sys.stderr, flush=True)
                if args.json:
                    args.json.write_text(json.dumps({"header": header, "records": records}, indent=1) + "\n")
    return header, records


def main() -> None:
    """Print one table per operator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help=f"of {', '.join(OPERATORS)}; all when absent")
    parser.add_argument("--neighbours", action="store_true", help="the cases near to those of the tables instead")
    parser.add_argument("--cases", default="", metavar="SUBSTRING", help="only cases with this in their names")
    parser.add_argument("--peers", nargs="*", default=LIBRARIES[1:], choices=LIBRARIES[1:], help="all when absent")
    parser.add_argument("--rounds", type=int, default=3, help="how often the implementations take turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the raw numbers")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print stored numbers, measure nothing")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(*args.operators)))
        return
    if unknown := set(args.operators) - set(OPERATORS):
        parser.error(f"no such operator: {', '.join(sorted(unknown))}")
    if args.rounds < 2:
        parser.error("--rounds must be at least 2: one round cannot tell noise")
    args.operators = args.operators or OPERATORS
    if args.table:
        stored = json.loads(args.table.read_text())
        header, records = stored["header"], stored["records"]
    else:
        header, records = run(args)
    print(tables(header, records))


if __name__ == "__main__":
    main()
