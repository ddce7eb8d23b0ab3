"""Measure what each row of the tables of kernels is worth: how much longer its calls take without it.

``python asv_bench/rent.py [OPERATOR ...] [--target cuda] [--random N [--seed N]] [--json FILE]``. Calls are the cases
of the benchmarks, those near to them, and N random ones. Each is measured with the table as it is, and with the chosen
row passed over, in turns. A row that is worth less than 15 % goes.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median_low
from typing import Any

from benchmarks import common
from compare import OPERATORS, random_case

import numba_dml as dml
from numba_dml._core.regions import noted, passed_over

#: Seconds of one measurement on the CPU, and how often the two ways take turns.
SECONDS, TURNS = 0.1, 3
#: Elements of random cases: as many small ones as large ones.
ELEMENTS = {"cpu": (1 << 9, 1 << 23), "cuda": (1 << 10, 1 << 25)}
#: Random cases of one row, at most.
MOST_OF_ROW = 12

#: What was measured of one case and one row: the time without the row over the time with it, and what was chosen then.
Record = dict[str, Any]


@contextmanager
def without(*rows: str) -> Iterator[list[str]]:
    """Let calls be built anew without these rows; the list gets the rows that are chosen."""
    notes: list[str] = []
    dml.cache_clear()
    tokens = passed_over.set(frozenset(rows)), noted.set(notes)
    try:
        yield notes
    finally:
        passed_over.reset(tokens[0])
        noted.reset(tokens[1])
        dml.cache_clear()


def cases_of(operator: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return the cases of the benchmarks, those near to them, and random ones."""
    if args.target == "cuda":
        from benchmarks import cuda

        cases = cuda.CASES[operator] | cuda.NEIGHBOURS[operator]
        make = type(next(iter(cuda.CASES[operator].values())))
    else:
        file = importlib.import_module(f"benchmarks.{operator}")
        cases, make = file.CASES | file.NEIGHBOURS, file.Case
    rng = random.Random(args.seed)
    made = {} if args.only_random else dict(cases)
    for _ in range(args.random):
        name, case = random_case(operator, make, rng, *ELEMENTS[args.target])
        if operator.startswith("scatter") and not case.unique and rng.random() < 0.4:
            case = replace(case, reduction=rng.choice(["add", "max"]))
            name = f"{name}, {case.reduction}"
        made[name] = case
    return made


def measurement(operator: str, case: Any, target: str) -> Callable[[], float]:
    """Return a function that measures a case: a first call, then the median time of more."""
    if target == "cuda":
        from benchmarks import cuda

        arrays = cuda.sets(case)
        calls = [case.numba_dml(*of_set) for of_set in arrays]

        def on_device() -> float:
            cuda.library("torch").cuda.empty_cache()
            for call in calls:
                call()
            return cuda.device_milliseconds("numba_dml", calls) / 1e3

        return on_device
    file = importlib.import_module(f"benchmarks.{operator}")
    call = common.with_out(file.numba_dml, case, *file.arrays(case))

    def on_host() -> float:
        call()
        return common.medians(call, seconds=SECONDS)[0]

    return on_host


@contextmanager
def alone(path: Path | None) -> Iterator[None]:
    """Hold a lock, so that processes that share a device measure one after the other."""
    if path is None:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure(operator: str, name: str, case: Any, args: argparse.Namespace, counts: dict[str, int]) -> list[Record]:
    """Return a record for each row that a case uses and that another can replace."""
    measured = measurement(operator, case, args.target)
    with without() as notes:
        measured()
    found = []
    for row in dict.fromkeys(notes):
        if name.startswith("shape "):  # a random case
            counts[row] = counts.get(row, 0) + 1
            if counts[row] > MOST_OF_ROW:
                continue
        try:
            with without(row) as instead:
                measured()
        except LookupError:
            continue
        times: tuple[list[float], list[float]] = [], []
        with alone(args.lock):
            for _ in range(TURNS):
                for rows, into in zip(((), (row,)), times, strict=True):
                    with without(*rows):
                        into.append(measured())
        usual, other = map(median_low, times)
        record = {"operator": operator, "case": name, "row": row, "seconds": usual, "ratio": other / usual}
        found.append({**record, "instead": list(dict.fromkeys(instead))})
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def table(records: list[Record]) -> str:
    """Return the rows with what they are worth, as markdown."""
    lines = ["| operator | row | calls | without it | worst | instead |", "|---" * 6 + "|"]
    for operator, row in dict.fromkeys((record["operator"], record["row"]) for record in records):
        of_row = [record for record in records if (record["operator"], record["row"]) == (operator, row)]
        ratios = [record["ratio"] for record in of_row]
        instead = dict.fromkeys(name for record in of_row for name in record["instead"])
        cells = [operator, row, str(len(of_row)), f"{geometric_mean(ratios):.2f}x", f"{max(ratios):.2f}x"]
        lines.append(f"| {' | '.join([*cells, ', '.join(instead)])} |")
    return "\n".join(lines)


def main() -> None:
    """Print one line per row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help=f"of {', '.join(OPERATORS)}; all when absent")
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N random cases of each operator as well")
    parser.add_argument("--only-random", action="store_true", help="not the cases of the benchmarks")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random cases")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="measure only while holding a lock on this file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the numbers")
    args = parser.parse_args()
    records: list[Record] = []
    for operator in args.operators or OPERATORS:
        counts: dict[str, int] = {}
        for name, case in cases_of(operator, args).items():
            records += measure(operator, name, case, args, counts)
            if args.json:
                args.json.write_text(json.dumps(records, indent=1) + "\n")
    print(table(records))


if __name__ == "__main__":
    main()
