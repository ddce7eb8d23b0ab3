"""Measure every case of the benchmarks side by side and print the tables of docs/performance.md.

``python asv_bench/compare.py [OPERATOR ...] [--neighbours] [--random N [--seed N]] [--cases SUBSTRING]
[--peers NAME ...] [--rounds N] [--json FILE]``, or ``--table FILE`` to print what an earlier run stored. Every
implementation runs in a process of its own, since idle thread pools of other libraries steal cores. The implementations
of a case (with ``--random`` of all cases of an operator) take turns, in several rounds; a time is the (lower) median
over the rounds of each round's median. ``compare.py dask`` has the functions on Dask arrays beside Dask's own, and one
call on whole arrays as the limit; it is left out when no operator is named.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import geometric_mean, median, median_low
from typing import Any

from benchmarks.common import CORES, DTYPES, HARD, IN_MEMORY, LIBRARIES, OURS, TINY, Operator, medians, share_of_limit

from numba_dml._cli.info import processor

OPERATORS = ["top_k", "gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd"]
OPERATORS += ["cumulative_sum", "nonzero_coordinates", "argextrema"]
#: Measured where it is asked for: the functions on Dask arrays.
DASK = "dask"
PACKAGES = ["numba_dml", "numba", "numpy", "torch", "onnxruntime", "jax", "faiss-cpu", "dask"]
#: How many elements a random case has.
RANDOM_ELEMENTS = 1 << 14, 1 << 24
#: Seconds of measuring per implementation, case and round, after a warm-up call.
BUDGET = 0.5

#: What was measured of one case: `seconds` of each round per implementation, why others are `unable`, the `shares` of
#: the limit. Plain data, as JSON has it.
Record = dict[str, Any]


def random_case(operator: str, make: Callable[..., Any], rng: random.Random, least: int, most: int) -> tuple[str, Any]:
    """Return a case of `least` to `most` elements in any shape, and its name; `make` is the operator's kind of case."""

    def between(low: int, high: int) -> int:
        """Return a number whose logarithm is spread evenly."""
        return round(low * (max(high, low) / low) ** rng.random())

    total = between(least, most)
    size = between(4, total)
    other = total // size
    axis = rng.choice([0, 1])
    shape = (size, other) if axis == 0 else (other, size)
    dtype, index_dtype = rng.choice(["f4", "f4", *DTYPES]), rng.choice(["i8", "i8", "i4"])
    if operator == "top_k":
        k = min(size, rng.choice([1, 2, 5, 10, 16, 50, 100, 500, 1000, 2000, 4000, 10_000, size // 2, size]))
        kinds = ["random", "random", "random", *(kind for kind in HARD if dtype[0] == "f" or "nan" not in kind)]
        case = make(shape, max(k, 1), dtype, rng.choice(kinds), axis)
    elif operator == "gather":
        width = min(rng.choice([1, 2, 4, 7, 16, 64, 100, 256, 1024]), total)
        rows = total // width
        case = make((rows, width), between(1000, rows), dtype, index_dtype)
    elif operator.endswith("_nd"):
        coordinates = rng.choice([1, 2])
        count = between(1000, total // 4)
        if operator == "gather_nd":
            case = make(shape, count if coordinates == 2 else min(count, shape[0]), coordinates, dtype)
        else:
            unique = rng.random() < 0.3
            count = min(count, total if coordinates == 2 else shape[0])
            case = make(shape, count, coordinates, dtype, index_dtype, unique=unique)
    elif operator == "nonzero_coordinates":
        case = make(shape, rng.choice([0.001, 0.01, 0.1, 0.5, 0.9]), rng.choice(["bool", dtype]))
    elif operator in ("gather_elements", "cumulative_sum", "argextrema"):
        case = make(shape, axis, dtype)
    else:
        case = make(shape, axis, dtype, unique=rng.random() < 0.3)
    defaults = {"order": "C", "index_order": "C", "mode": "largest", "nan": "last", "reduction": "none"}
    fields = {name: value for name, value in vars(case).items() if defaults.get(name) != value}
    return ", ".join(f"{name} {value}" for name, value in fields.items()), case


def definition(operator: str, args: argparse.Namespace) -> Operator:
    """Return what a benchmark file says, or with `--random` other cases."""
    file = vars(importlib.import_module(f"benchmarks.{operator}"))
    if args.random:
        rng = random.Random(args.seed)
        made = (random_case(operator, file["Case"], rng, *RANDOM_ELEMENTS) for _ in range(args.random))
        file = {**file, "CASES": dict(made), "NEIGHBOURS": {}}
    return Operator.of(file)


def measure(described: Operator, implementation: str, case: str) -> dict[str, Any]:
    """Return the median seconds of one call, and our share of the limit, or why it cannot do the case."""
    try:
        prepared = described.prepare(case, implementation)
    except NotImplementedError as error:
        return {"unable": str(error)}
    measured: dict[str, Any] = {"seconds": medians(prepared.call, seconds=BUDGET)[0]}
    if implementation == described.ours and not case.startswith(TINY):
        measured["share"] = share_of_limit(described, prepared, seconds=BUDGET)
    return measured


def measure_apart(
    operator: str, implementation: str, cases: list[str], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return what `measure` returns of each case, from a process of its own; a peer that fails is unable."""
    arguments = [sys.executable, __file__, "--measure", operator, implementation, *cases]
    done = subprocess.run(
        [*arguments, "--random", str(args.random), "--seed", str(args.seed)], capture_output=True, text=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        if implementation.startswith("numba_dml"):
            raise RuntimeError(done.stderr)
        print(f"{cases[len(found)]}: {implementation} failed\n{done.stderr}", file=sys.stderr)
        found += [{"unable": f"failed with exit status {done.returncode}"}] * (len(cases) - len(found))
    return found


def measure_cases(operator: str, group: str, cases: list[str], args: argparse.Namespace) -> list[Record]:
    """Return the records of cases that an implementation measures in one process."""
    described = definition(operator, args)
    base = {"operator": operator, "group": group, "limit": described.limit}
    records: list[Record] = [base | {"case": case, "seconds": {}, "unable": {}, "shares": []} for case in cases]
    names = [name for name in described.implementations if name.split()[0] in ("numba_dml", *args.peers)]
    for turn in range(args.rounds):
        # Back and forth: who comes after whom must not matter, nor a machine that slows down or recovers.
        for name in names[:: -1 if turn % 2 else 1]:
            able = [record for record in records if name not in record["unable"]]
            found = measure_apart(operator, name, [record["case"] for record in able], args) if able else []
            for record, measured in zip(able, found, strict=True):
                if "unable" in measured:
                    record["unable"][name] = measured["unable"]
                else:
                    record["seconds"].setdefault(name, []).append(measured["seconds"])
                if "share" in measured:
                    record["shares"].append(measured["share"])
    return records


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
        if rivals and ours in measured:
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
    if IN_MEMORY in ms:
        share = f"{share} ({ms[IN_MEMORY]})"
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
            limit = rows[0]["limit"]
            share = f"of {limit} (its time)" if limit == IN_MEMORY else f"of a {limit}"
            titles = ["case", *libraries, "best peer over ours", share]
            lines += ["", f"## {operator}" + (", neighbours" if group == "neighbours" else ""), ""]
            lines += [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
            lines += [row(record, libraries) for record in rows]
        lines += ["", f"Geometric means of the best peer's time over ours, without the cases of {TINY}:", ""]
        own = ("top_k", "cumulative_sum", "nonzero_coordinates", "argextrema", "gather and scatter")
        parts: dict[str, list[Record]] = {name: [] for name in own}
        for record in of_group:
            top_k = record["operator"] == "top_k" or record["case"].startswith("top_k ")
            single = "top_k" if top_k else record["operator"]
            parts[single if single in parts else "gather and scatter"].append(record)
        lines += [f"- {means(*part)}" for part in parts.items() if part[1]]
    return "\n".join(lines)


def threads() -> str:
    """Return how many threads the libraries start: one per core that this process may use, or what they are told."""
    told = [f"{name}={os.environ[name]}" for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS") if name in os.environ]
    return ", ".join([f"{CORES} threads", *told])


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
        cases = [case for case in getattr(definition(operator, args), group) if args.cases in case]
        for together in [cases] if args.random and cases else [[case] for case in cases]:
            found = measure_cases(operator, group, together, args)
            records += found
            print(*(row(record, LIBRARIES) for record in found), sep="\n", file=sys.stderr, flush=True)
            if args.json:
                args.json.write_text(json.dumps({"header": header, "records": records}, indent=1) + "\n")
    return header, records


def main() -> None:
    """Print one table per operator."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "operators", nargs="*", metavar="OPERATOR", help=f"of {', '.join(OPERATORS)}, all when absent; or {DASK}"
    )
    parser.add_argument("--neighbours", action="store_true", help="the cases near to those of the tables instead")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N random cases of each operator instead")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random cases")
    parser.add_argument("--cases", default="", metavar="SUBSTRING", help="only cases with this in their names")
    parser.add_argument("--peers", nargs="*", default=LIBRARIES[1:], choices=LIBRARIES[1:], help="all when absent")
    parser.add_argument("--rounds", type=int, default=3, help="how often the implementations take turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the raw numbers")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print stored numbers, measure nothing")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        operator, implementation, *cases = args.operators
        for case in cases:
            print(json.dumps(measure(definition(operator, args), implementation, case)), flush=True)
        return
    if unknown := set(args.operators) - {*OPERATORS, DASK}:
        parser.error(f"no such operator: {', '.join(sorted(unknown))}")
    if args.random and DASK in args.operators:
        parser.error("--random: not with dask")
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
