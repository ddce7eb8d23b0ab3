"""``explain``: what a call would do, and the comparison that ruled out each row of its table before the chosen one.

The call is planned as ever, but nothing is compiled or run.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from .._core.operands import INDICES
from .._core.shapes import TUPLES, packed_sizes
from .._core.spec import OPERATORS, Spec
from .._core.tensor import product
from . import _arguments, _files, _terminal
from . import run as cli_run

#: Why a call has no region: it does nothing, or its family has no table.
NOTHING, ONE_KERNEL = "there is nothing to compute", "all calls run this kernel"
SIMULATOR = "the simulator has thresholds of its own: a GPU may take another way"


class Layout(NamedTuple):
    """An array of which nothing is known but this."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "C"

    @property
    def nbytes(self) -> int:
        """How many bytes its elements have."""
        return product(self.shape) * self.dtype.itemsize


class Ruled(NamedTuple):
    """A row that was passed over."""

    region: str
    rule: str  #: the part of its condition that does not hold, as the source has it
    numbers: dict[str, Any]  #: the numbers in it, by name


def passed_over(call: Any) -> list[Ruled]:
    """Return the rows of a call's table before the chosen one."""
    found = []
    for region in call.regions[: call.regions.index(call.region)]:
        for condition in (region.can, region.when):
            failed = _failed(condition, call.facts, call.tuning)
            if failed is not None:
                found.append(Ruled(region.name, *failed))
                break
    return found


def _failed(condition: Callable[..., bool], facts: Any, tuning: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the first part of a condition that does not hold, without `facts` and `tuning`, and its numbers."""
    if condition(facts, tuning):
        return None
    given = {"facts": facts, "tuning": tuning}
    value: Any = next(node.value for node in ast.walk(_tree(condition)) if isinstance(node, ast.Return))
    joined = isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And)
    parts = value.values if joined else [value]
    known = {**condition.__globals__, **given}
    for part in parts:
        if not _value(part, known):
            return _plain(part), _numbers_in(part, known)
    raise AssertionError("a condition that does not hold has a part that does not")


def _tree(function: Callable[..., Any]) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _value(part: ast.expr, known: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(part), "<condition>", "eval"), known)


def _plain(part: ast.expr) -> str:
    """Return a part as text; helpers are shown by their names."""
    return ast.unparse(part).replace("(facts, tuning)", "").replace("facts.", "").replace("tuning.", "")


def _numbers_in(part: ast.AST, known: dict[str, Any]) -> dict[str, Any]:
    """Return the facts and thresholds that a part names, or a helper that it calls, as plain numbers."""
    found: dict[str, Any] = {}
    for node in ast.walk(part):
        owner = ast.unparse(node.value) if isinstance(node, (ast.Attribute, ast.Subscript)) else ""
        if owner in ("facts", "tuning") or owner.startswith("tuning."):  # some thresholds are tables, by width
            value: Any = None
            with suppress(LookupError, ArithmeticError):  # of a branch that this call does not reach
                value = _value(node, known)  # type: ignore[arg-type]
            value = value.item() if hasattr(value, "item") else value
            if isinstance(value, (bool, int, float, str)):
                found[node.attr if isinstance(node, ast.Attribute) else owner.partition(".")[2]] = value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper = known.get(node.func.id)
            if inspect.isfunction(helper):
                given = {"facts": known["facts"], "tuning": known["tuning"]}
                found |= _numbers_in(_tree(helper), {**helper.__globals__, **given})
    return found


def sentence(ruled: Ruled) -> str:
    """Return a row that was passed over in one line."""
    numbers = ", ".join(f"{name} {value}" for name, value in ruled.numbers.items())
    return f"{ruled.region}: needs {ruled.rule}" + (f" ({numbers})" if numbers else "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operators as commands of ``explain``."""
    operators: Any = parser.add_subparsers(title="operators", metavar="OP", required=True)
    for spec in OPERATORS.values():
        command = operators.add_parser(spec.command, help=spec.summary)
        command.add_argument("files", nargs="*", metavar="FILE", help=f"{_files_of(spec)}: .npy or .npz files")
        about = command.add_argument_group("in place of files")
        about.add_argument("--shape", type=_arguments.sizes, metavar="N,M", help="of the input")
        about.add_argument("--dtype", type=_arguments.dtype, help=f"of the input (default: {_usual(spec.inputs[0])})")
        about.add_argument("--order", choices=["C", "F"], help="of the input (default: C)")
        if len(spec.inputs) > 1:
            second = spec.inputs[1]
            shown = f"of the {second} (default: {_usual(second)})"
            about.add_argument("--indices-shape", type=_arguments.sizes, metavar="N,M", help=f"of the {second}")
            about.add_argument("--indices-dtype", type=_arguments.dtype, help=shown)
        _arguments.add_parameters(command, spec)
        for one in spec.parameters:
            if one.default is True:
                command.add_argument(f"--no-{one.name}", dest=one.name, action="store_false", help=f"not {one.help}")
        _arguments.add_targets(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(function=spec.name)


def _usual(argument: str) -> str:
    """Return the dtype of an array of which none is given."""
    return "int64" if argument in INDICES else "float32"


def _files_of(spec: Spec) -> str:
    return " ".join(name.upper() for name in _arguments.arguments_of(spec))


def layouts(args: argparse.Namespace) -> list[Any]:
    """Return the arrays in the files, or those that the arguments describe; the updates follow from the others."""
    spec = OPERATORS[args.function]
    names = ["shape", "dtype", "order", *(["indices_shape", "indices_dtype"] if len(spec.inputs) > 1 else [])]
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None]
    required = ["--shape", "--indices-shape"] if "indices_shape" in names else ["--shape"]
    described = not args.files and set(required) <= set(given)
    if not described and (given or len(args.files) != len(spec.inputs)):
        raise ValueError(
            f"explain: found {' '.join((*args.files, *given)) or 'nothing'}, "
            f"expected {_files_of(spec)}, or {' and '.join(required)} in place of files"
        )
    if args.files:
        return [_files.open_source(name) for name in args.files]
    kind = np.dtype(_usual(spec.inputs[0])) if args.dtype is None else args.dtype
    found = [Layout(args.shape, kind, args.order or "C")]
    if len(spec.inputs) > 1:
        second = np.dtype(_usual(spec.inputs[1])) if args.indices_dtype is None else args.indices_dtype
        found.append(Layout(args.indices_shape, second))
    if spec.writes:
        if spec.addressing == TUPLES and not args.indices_shape:
            raise ValueError("--indices-shape: found no size, expected at least one: that of the tuples")
        start = args.batch_dims if spec.addressing == TUPLES else args.axis
        found.append(Layout(packed_sizes(spec.addressing, start, args.shape, args.indices_shape), kind))
    return found


def explained(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the call would do."""
    from ..cpu import launch
    from ..cpu import threads as cpu_threads

    function: str = args.function
    inputs = layouts(args)
    on_gpu = args.target == "cuda"
    spec = OPERATORS[function]
    given = _arguments.parameters(args, spec) | _arguments.required(args, spec)
    call = cli_run.planned(function, inputs, given, target="cuda" if on_gpu else "cpu")
    parallel = call.kernel.endswith("parallel")
    threads = cpu_threads.thread_count() if parallel else 1
    if on_gpu:
        outputs = [Layout(one.shape, one.dtype) for one in (getattr(call, "outputs", None) or [call.output])]
    else:
        outputs = [Layout(call.shape, call.dtype)]
        if hasattr(call, "index_dtype"):
            outputs.append(Layout(call.shape, call.index_dtype))
    edge = _terminal.size(launch.PARALLEL_WORK)
    region = getattr(call, "region", None)
    why = [region.why.format(facts=call.facts) if region else NOTHING if hasattr(call, "regions") else ONE_KERNEL]
    if on_gpu:
        pass
    elif getattr(call, "alone", False):
        why.append("single elements that go anywhere: one thread writes them sooner than several that read all indices")
        if threads > 1:
            why.append(f"{_effort(call)}: threads share the copy before, or the look at the indices")
    elif not region:
        pass
    elif call.effort < launch.PARALLEL_WORK:
        why.append(f"{_effort(call)}, less than {edge}: waking a second thread would take longer")
    elif threads > 1:
        why.append(f"{_effort(call)}, {edge} or more: threads share it")
    else:
        why.append("one thread is all that the call may use" if parallel else "Numba has one thread")
    return {
        "function": function,
        "inputs": [{"shape": one.shape, "dtype": str(one.dtype)} for one in inputs],
        "outputs": [{"shape": one.shape, "dtype": str(one.dtype)} for one in outputs],
        "kernel": call.kernel,
        **({} if on_gpu else {"threads": threads}),
        "work_bytes": int(call.work),
        "result_bytes": sum(one.nbytes for one in outputs),
        **({} if on_gpu else {"scratch_bytes": int(getattr(call, "scratch_bytes", 0))}),
        "why": why,
        **({"note": SIMULATOR} if on_gpu and _is_simulated() else {}),
        "numbers": _numbers(call) if region else {},
        "passed_over": [sentence(one) for one in passed_over(call)] if region else [],
    }


def _is_simulated() -> bool:
    from ..cuda.driver.numba import SIMULATED

    return bool(SIMULATED)


def _numbers(call: Any) -> dict[str, Any]:
    """Return the numbers by which the kernel was chosen."""
    plain = {name: value for name, value in call.facts._asdict().items() if isinstance(value, (bool, int, str))}
    return {name: value.item() if hasattr(value, "item") else value for name, value in plain.items()}


def _effort(call: Any) -> str:
    """Return in words what counts when threads are chosen."""
    copies = "" if call.effort == call.work else " (neighbours are copied together, so their bytes count in part)"
    return f"the work counts as {_terminal.size(call.effort)}{copies}"


def run(args: argparse.Namespace) -> int:
    """Print what the call would do."""
    with _arguments.defaults(args):
        try:
            found = explained(args)
        except (TypeError, IndexError, RuntimeError) as error:
            raise ValueError(str(error)) from error
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    shapes = [
        ", ".join(f"{tuple(one['shape'])} {one['dtype']}" for one in found[name]) for name in ("inputs", "outputs")
    ]
    scratch, numbers = found.get("scratch_bytes", 0), found["numbers"]
    sizes = f"{_terminal.size(found['work_bytes'])} touched, results of {_terminal.size(found['result_bytes'])}"
    sizes += f", {_terminal.size(scratch)} of scratch" if scratch else ""
    _terminal.print_facts(
        [
            ("call", f"{found['function']}: {shapes[0]} -> {shapes[1]}"),
            ("kernel", found["kernel"]),
            *([("threads", str(found["threads"]))] if "threads" in found else []),
            ("bytes", sizes),
            *(("why" if i == 0 else "", text) for i, text in enumerate(found["why"])),
            *([("note", found["note"])] if "note" in found else []),
            *([("numbers", ", ".join(f"{name} {value}" for name, value in numbers.items()))] if numbers else []),
            *(("passed over" if i == 0 else "", text) for i, text in enumerate(found["passed_over"])),
        ]
    )
    return 0
