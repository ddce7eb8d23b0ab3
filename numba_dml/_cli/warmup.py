"""``warmup``: compile kernels ahead of their first call, into the cache. What is there already is only loaded."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import numba_dml as dml

from .._core.spec import OPERATORS
from . import _arguments, _terminal, cache
from . import run as cli_run
from .explain import Layout

DTYPES = ("float32", "float64", "int32", "int64")


class Case(NamedTuple):
    """A call that needs a kernel of its own: shapes, and parameters other than the defaults.

    Without a shape of data there are indices alone, and the dtype is that of the result.
    """

    shape: tuple[int, ...]
    indices: tuple[int, ...] = ()
    updates: tuple[int, ...] = ()
    parameters: dict[str, Any] = {}
    index_dtype: str = "int64"


_INTS = ("int64", "int32")
#: One for each kernel that a call of an operator can need: by the way that it goes (see `explain`), and the width of
#: what moves together. Some are large enough for the parallel driver, some for others; a plan is all that is made.
CASES: dict[str, list[Case]] = {
    "top_k": [
        Case((1000,), parameters={"k": 5}),
        Case((64, 100), parameters={"k": 5}),
        Case((64, 40_000), parameters={"k": 8}),
        Case((100, 64), parameters={"k": 5, "axis": 0}),
        Case((5000, 64), parameters={"k": 8, "axis": 0}),
        Case((1, 1 << 20), parameters={"k": 10}),
    ],
    "gather": [
        *(Case(shape, (100,), index_dtype=name) for name in _INTS for shape in ((1000,), (1000, 2))),
        *(Case((1000, width), (1000,)) for width in (3, 6, 12, 64)),
    ],
    "gather_elements": [*(Case((1000,), (100,), index_dtype=name) for name in _INTS), Case((1000, 100), (1000, 100))],
    "gather_nd": [
        *(Case(shape, (100, 1), index_dtype=name) for name in _INTS for shape in ((1000,), (1000, 2))),
        *(Case((1000, width), (1000, 1)) for width in (3, 6, 12, 64)),
    ],
    "nonzero_coordinates": [Case((1000,)), Case((1 << 20,))],
    "scatter_elements": [
        Case(shape, indices, indices, {"reduction": reduction}, index_dtype=name)
        for reduction in ("none", "add", "mul", "min", "max")
        for shape, indices in (((1000,), (100,)), ((100, 1000), (100, 10)), ((100,), (1 << 19,)))
        for name in _INTS
    ]
    + [
        Case((20_000, 65, 7), (1500, 65, 7), (1500, 65, 7), {"axis": 0, "reduction": reduction})
        for reduction in ("none", "add", "min")
    ],
    "scatter_nd": [
        Case(shape, (points, tuple_size), (points, *shape[tuple_size:]), {"reduction": reduction}, index_dtype=name)
        for reduction in ("none", "add", "min")
        for shape, points, tuple_size, names in (
            ((1000,), 100, 1, _INTS),
            ((1000, 2), 100, 1, _INTS),
            ((100,), 1 << 19, 1, _INTS),
            ((10, 10), 1 << 19, 2, _INTS[:1]),
            ((10, 2), 1 << 19, 1, _INTS[:1]),
            ((1000, 3), 100, 2, _INTS[:1]),
            *(((1000, width), 1000, 1, _INTS[:1]) for width in (20, 22, 24, 63, 64)),
            *(((2000, 2000, *rest), 200_000, 2, _INTS[:1]) for rest in ((), (2,))),
            ((1 << 12, 1 << 12), 1 << 20, 2, _INTS[:1]),
        )
        for name in names
    ],
    **{
        name: [Case((1000,)), Case((100, 64), parameters={"axis": 0}), Case((1 << 16,))]
        for name in ("argmax", "argmin", "cumulative_sum", "cumulative_prod")
    },
    "one_hot": [Case((), (100,), parameters={"depth": 10}), Case((), (1 << 16,), parameters={"depth": 64})],
    "reverse_subsequences": [Case((100, 64), (100, 1)), Case((1 << 12, 256), (1 << 12, 1))],
    "max_unpool": [
        Case((size,), (size,), parameters={"shape": (2 * size,)}, index_dtype=name)
        for size in (100, 1 << 19)
        for name in _INTS
    ],
}

#: On a GPU there are other kernels, for each row of a family's table and for the sizes that they are compiled with.
CASES_ON_GPU: dict[str, list[Case]] = {
    "gather": [
        *(Case((100_000, 64), (10_000,), index_dtype=name) for name in _INTS),
        Case((100_000, 5), (200_000,)),
        Case((1 << 20,), (100_000,)),
        Case((100_000, 2), (10_000,)),
        Case((1000, 1000), (500,), parameters={"axis": 1}),
        Case((64, 1000, 64), (500,), parameters={"axis": 1}),
    ],
    "gather_elements": [
        Case(shape, indices, parameters={"axis": axis})
        for shape, indices, axis in (
            ((1000,), (100,), 0),
            ((1000, 1000), (1000, 10), 1),
            ((1000, 1000), (1000, 1000), 1),
            ((120, 4500), (120, 1400), 1),
            ((130, 9000), (130, 3700), 1),
            ((500, 35_000), (500, 5800), 1),
            ((590, 4500), (470, 4500), 0),
            ((1000, 1000), (1000, 1000), 0),
            ((2000, 2700), (600, 2700), 0),
            ((4, 3_500_000), (2, 3_500_000), 0),
            ((20_000, 700), (20_000, 700), 0),
        )
    ],
    "gather_nd": [
        *(Case((100_000, 64), (10_000, 1), index_dtype=name) for name in _INTS),
        Case((1 << 20,), (100_000, 1)),
        Case((1000, 1000), (100_000, 2)),
        Case((1000, 1000, 16), (100_000, 2)),
    ],
    # Elements are zero: only a given size has rows to write, and to fill.
    "nonzero_coordinates": [Case(shape, parameters={"size": 10}) for shape in ((1000,), (10, 10, 10))],
    "scatter_elements": [
        Case(shape, indices, indices, {"axis": axis, "reduction": reduction})
        for reduction in ("none", "add")
        for shape, indices, axis in (
            ((1000,), (100,), 0),
            ((1000, 1000), (1000, 1000), 1),
            ((1000, 1000), (1000, 1000), 0),
            ((2, 100_000), (2, 100_000), 0),
            ((430, 1400), (80, 1400), 0),
            ((20_000, 700), (20_000, 700), 0),
            ((2300, 50), (1200, 50), 0),
            ((10_000, 1000), (10_000, 10), 1),
            ((5, 2), (2, 2), 0),
            ((2400, 3), (6, 3), 0),
            ((1200, 3000), (6, 3000), 0),
            ((300, 6400), (300, 240), 1),
            ((150, 1500), (150, 260), 1),
            ((100, 21_000), (100, 19_000), 1),
            ((2, 15_500), (2, 6800), 1),
            ((3, 25_000), (3, 18_500), 1),
        )
    ],
    "scatter_nd": [
        Case(shape, (points, tuple_size), (points, *shape[tuple_size:]), parameters)
        for shape, points, tuple_size, parameters in (
            ((100_000, 64), 100, 1, {}),
            ((1 << 20,), 1000, 1, {}),
            ((100_000, 2), 100, 1, {}),
            ((1000, 1000), 1000, 2, {}),
            ((1 << 20,), 100_000, 1, {"unique": True}),
            ((1 << 20, 4), 20_000, 1, {"unique": True}),
            ((20_000, 2), 10_000, 1, {}),
            ((20_000, 7), 10_000, 1, {}),
            ((20_000, 16), 10_000, 1, {}),
            ((1 << 20, 4), 20_000, 1, {}),
            ((1 << 20,), 100_000, 1, {}),
            ((1 << 24,), 100_000, 1, {}),
            ((17_000_000,), 2_000_000, 1, {}),
            ((100_000, 64), 1000, 1, {"reduction": "add"}),
            ((100_000, 64), 20_000, 1, {"reduction": "add"}),
            ((1000, 2), 500_000, 1, {"reduction": "add"}),
        )
    ],
    **{
        name: [
            *(Case(shape) for shape in ((5000, 60), (100, 5000), (1 << 20,))),
            *(Case((n, 500), parameters={"axis": 0}) for n in (10, 100, 1000)),
            Case((20, 30, 40), parameters={"axis": (0, 2)}),
        ]
        for name in ("argmax", "argmin")
    },
    "top_k": [
        *(Case((5000, 60), parameters={"k": k}) for k in (1, 4, 8, 16)),
        *(Case((2000, n), parameters={"k": k}) for n, k in ((30, 20), (60, 20), (100, 20), (300, 200), (2000, 20))),
        *(Case((1000, n), parameters={"k": 20}) for n in (1100, 2200, 4400, 8000)),
        *(Case(shape, parameters={"k": 1}) for shape in ((100, 5000), (1, 1 << 20))),
        *(Case((n, 500), parameters={"k": k, "axis": 0}) for n, k in ((100, 1), (1000, 1), (1000, 5), (1000, 50))),
        Case((1 << 20,), parameters={"k": 10}),
        *(
            Case(shape, parameters={"k": k, "sorted": is_sorted})
            for shape, k in (((2000, 500), 250), ((200, 3000), 1000), ((1 << 20,), 200_000))
            for is_sorted in (True, False)
        ),
        Case((200, 3000), parameters={"k": 2900}),
    ],
}


def cases_of(function: str, target: str) -> list[Case]:
    """Return the calls that need the kernels of a function."""
    return (CASES_ON_GPU if target == "cuda" else {}).get(function, CASES[function])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Compile kernels ahead of their first call; what is in the cache is only loaded."
    names = [function.replace("_", "-") for function in CASES]
    parser.add_argument("operators", nargs="*", metavar="OP", help=f"of {', '.join(names)}; all when absent")
    parser.add_argument(
        "--dtypes",
        type=_arguments.dtype,
        nargs="+",
        default=[_arguments.dtype(name) for name in DTYPES],
        metavar="DTYPE",
        help=f"of the data (default: {' '.join(DTYPES)})",
    )
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu", help="(default: %(default)s)")
    parser.add_argument("--jitted", action="store_true", help="also compile what calls in jitted code run")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _layouts(kind: Any, case: Case) -> list[Layout]:
    """Return the arrays of a call."""
    shapes = (case.shape, kind), (case.indices, _arguments.dtype(case.index_dtype)), (case.updates, kind)
    return [Layout(*one) for one in shapes if one[0]]


def _parameters(kind: Any, case: Case) -> dict[str, Any]:
    """Return the parameters of a call."""
    return case.parameters if case.shape else {**case.parameters, "dtype": kind}


def _compile(function: str, kind: Any, case: Case) -> None:
    try:
        call = cli_run.planned(function, _layouts(kind, case), _parameters(kind, case), compiles=True)
        if getattr(call, "new_only", False):
            call.launch_anywhere  # noqa: B018 (which compiles what writes in place)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _call(function: str, kind: Any, case: Case) -> None:
    """Run a call on a GPU, whose kernels are chosen when they are launched."""
    arrays = [np.zeros(one.shape, one.dtype) for one in _layouts(kind, case)]
    given = dict(_parameters(kind, case))
    required = [given.pop(name) for name in OPERATORS[function].required]
    try:
        getattr(dml, function)(*arrays, *required, **given, target="cuda")
    except (TypeError, RuntimeError) as error:
        raise ValueError(str(error)) from error


@contextmanager
def _unkept() -> Iterator[list[str]]:
    """Return a list that says in the end why kernels could not be kept, which a call warns of."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "numba_dml compiles")
        yield texts
    for each in caught:
        if str(each.message).startswith("numba_dml compiles"):
            texts.append(str(each.message))
        else:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)


def run(args: argparse.Namespace) -> int:
    """Compile what the arguments ask for."""
    functions = [name.replace("-", "_") for name in args.operators] or list(CASES)
    for name, function in zip(args.operators, functions, strict=False):
        if function not in CASES:
            raise ValueError(f"warmup: found {name!r}, expected one of {', '.join(n.replace('_', '-') for n in CASES)}")
    if args.jitted and args.target != "cpu":
        raise ValueError(f"warmup: --jitted: found target {args.target!r}, expected 'cpu', where jitted code runs")
    if not cache.state(args.target)["writable"]:
        print(
            "numba-dml warmup: no directory can be written, so nothing that it compiles would be kept; "
            "set NUMBA_CACHE_DIR to a directory that can be written",
            file=sys.stderr,
        )
        return 1
    prepare = _call if args.target == "cuda" else _compile
    rows: list[list[str]] = []
    dml.cache_clear()  # what was planned for later may not be compiled
    total = len(args.dtypes) * sum(len(cases_of(function, args.target)) for function in functions)
    with dml.config(quiet=True), _unkept() as failures, _terminal.Progress("compiling", total, args.quiet) as shown:
        for function in functions:
            before, start = cache.kernels(args.target), perf_counter()
            for kind in args.dtypes:
                for case in cases_of(function, args.target):
                    shown.advance(0, f"{function} {kind}")
                    prepare(function, kind, case)
                    shown.advance(1)
                if args.jitted:
                    from ..cpu.jitted.functions import compile_ahead

                    compile_ahead(function, np.dtype(kind))
            new = len(cache.kernels(args.target) - before)
            rows.append([function, str(new), _terminal.duration(perf_counter() - start)])
    if args.target == "cuda":
        from ..cuda.replay.entry import machine_code

        for given_arrays in (False, True):
            machine_code(given_arrays)
    if not args.quiet:
        _terminal.print_table(["operator", "new kernels", "time"], rows, ["new kernels", "time"])
        print(cache.sentence(cache.state(args.target)))
    for text in failures:
        print(f"numba-dml warmup: {text}", file=sys.stderr)
    return 1 if failures else 0
