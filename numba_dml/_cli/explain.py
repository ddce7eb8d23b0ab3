"""``explain``: what a call would do. It is planned as ever, but nothing is compiled or run."""

from __future__ import annotations

import argparse
import json
from typing import Any, NamedTuple

import numpy as np

from .._core.lowering import REDUCTIONS
from .._core.spec import ELEMENTS, OPERATORS, Spec
from .._core.tensor import product
from . import _files, _terminal
from . import run as cli_run

#: Why the CPU goes which way, by the name of its kernel without the width; none has a sentence for others as well.
_CPU_WAYS = {
    "top_k short": "lines are short: a sorting network takes many at once",
    "top_k short columns": "lines are short and lie side by side: a sorting network takes many at once",
    "top_k singly": "k is small, and lines are few, or too long for a sorting network: each is taken by itself",
    "top_k best": "k is 1: one pass finds the best of every line",
    "top_k columns": "lines lie side by side: sorted lists of neighbouring lines are kept together",
    "top_k rows": "each line is read once; what beats the k-th best so far is kept in a buffer",
    "top_k pieces": "few long lines: each is cut into pieces, and the best of these compete",
    "top_k sorted": "k is large: what is above a limit from a sample is collected and sorted",
    "top_k nothing to select": "there is nothing to select",
    "gather": "neighbouring elements move together, {} at a time at least",
    "gather direct": "each index is tested just before it is used; of negative ones offsets are worked out first",
    "scatter": "the input is copied, then updated in the order of the updates",
    "scatter strips": "no update leaves its strip of the result: strip by strip, it is copied, then updated in order",
    "scatter places": "a new result is written in its own order, each slice by the last of its updates",
    "scatter own": "the result is small: each share of the updates has one of its own first",
    "scatter bins": "many updates of a large result: they are sorted by where they go first",
    "scatter noted": "where updates go is found out first; then each part of the result gets its own, in their order",
}
#: Why a top-k on a GPU goes which way, by its method; numbers in that are none.
_CUDA_TOP_K = {
    "nothing": _CPU_WAYS["top_k nothing to select"],
    "short lines": "lines are short, many, and k is small: a thread has each",
    "best of lines by threads": "k is 1, and elements of a line are no neighbours: a thread has each, or a part",
    "best": "k is 1: blocks look for the best element of each line, several of them if it is long",
    "ranks": "lines are short: a warp ranks the elements of each",
    "lines by warps": "lines are many, of middle length, and k is small: a warp has each, and looks again at few parts",
    "lines beside each other": "k is small: groups of each line send their best keys ahead, a warp looks at few parts",
    "sort of lines": "much of each line is wanted: a block sorts it whole",
    "0 levels of delegates": "a block reads each line once, and lists what reaches a bar that k of its parts reach",
    "levels of delegates": "lines are long: groups send their best keys ahead, and the best groups are read again",
    "sort": "k is large: what can be among the best is sorted digit by digit",
}
_CUDA_WAYS = {
    "LineGather": "lines are read into shared memory, and gathered from there",
    "LineCombine": "lines are read into shared memory, and integers combined there in any order: the bits are the same",
    "LineScatter": "the last update of each place is found in shared memory, then lines are written in their order",
    "OwnColumnGather": "columns are short and many: a thread has each",
    "OwnColumnScatter": "columns are short and many: a thread has each, and goes through its updates in their order",
    "SharedColumnGather": "a block reads some columns into shared memory, and gathers from there",
    "SharedColumnScatter": "the last update of each place is found in shared memory, for some columns at a time",
    "ColumnGather": "columns are transposed in strips, and gathered from as lines",
    "ColumnScatter": "columns are transposed in strips, and scattered to as lines",
    "FewPlaceCombine": "the output is small: each block combines integers with one of its own first, in any order",
    "OwnPlaceScatter": "points are few: each block looks at all of them, and copies and writes its own part",
    "BinnedScatter": "many single elements of a large array: they are sorted by where they go first",
}


class Layout(NamedTuple):
    """An array of which nothing is known but this."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "C"

    @property
    def nbytes(self) -> int:
        """How many bytes its elements have."""
        return product(self.shape) * self.dtype.itemsize


def sizes(text: str) -> tuple[int, ...]:
    """Return a shape, for argparse: numbers with commas or x between them."""
    parts = [part for part in text.replace("x", ",").split(",") if part.strip()]
    if not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected sizes like 1000,64")
    return tuple(int(part) for part in parts)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operators as commands of ``explain``."""
    operators: Any = parser.add_subparsers(title="operators", metavar="OP", required=True)
    for spec in OPERATORS.values():
        command = operators.add_parser(spec.command, help=spec.summary)
        command.add_argument("files", nargs="*", metavar="FILE", help=f"{_files_of(spec)}: .npy or .npz files")
        about = command.add_argument_group("in place of files")
        about.add_argument("--shape", type=sizes, metavar="N,M", help="of the input")
        about.add_argument("--dtype", type=cli_run.dtype, help="of the input (default: float32)")
        about.add_argument("--order", choices=["C", "F"], help="of the input (default: C)")
        if spec.addressing:
            about.add_argument("--indices-shape", type=sizes, metavar="N,M", help="of the indices")
            about.add_argument("--indices-dtype", type=cli_run.dtype, help="of the indices (default: int64)")
        cli_run.add_parameters(command, spec)
        cli_run.add_targets(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(function=spec.name)


def _files_of(spec: Spec) -> str:
    return " ".join(name.upper() for name in cli_run.arguments_of(spec))


def layouts(args: argparse.Namespace) -> list[Any]:
    """Return the arrays in the files, or those that the arguments describe; the updates follow from the others."""
    spec = OPERATORS[args.function]
    names = ["shape", "dtype", "order", *(["indices_shape", "indices_dtype"] if spec.addressing else [])]
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
    kind = cli_run.dtype("float32") if args.dtype is None else args.dtype
    found = [Layout(args.shape, kind, args.order or "C")]
    if spec.addressing:
        found.append(
            Layout(args.indices_shape, cli_run.dtype("int64") if args.indices_dtype is None else args.indices_dtype)
        )
    if spec.writes and spec.addressing == ELEMENTS:
        found.append(Layout(args.indices_shape, kind))
    elif spec.writes:
        if not args.indices_shape:
            raise ValueError("--indices-shape: found no size, expected at least one: that of the tuples")
        taken = args.batch_dims + args.indices_shape[-1]
        found.append(Layout((*args.indices_shape[:-1], *args.shape[taken:]), kind))
    return found


def explained(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the call would do."""
    from ..cpu import launch
    from ..cpu import threads as cpu_threads

    function: str = args.function
    inputs = layouts(args)
    on_gpu = args.target == "cuda"
    spec = OPERATORS[function]
    given = cli_run.parameters(args, spec) | {name: getattr(args, name) for name in spec.required}
    call = cli_run.planned(function, inputs, given, target="cuda" if on_gpu else "cpu")
    parallel = call.kernel.endswith("parallel")
    threads = cpu_threads.thread_count() if parallel else 1
    if on_gpu:
        outputs = [Layout(one.shape, one.dtype) for one in (call.outputs if function == "top_k" else [call.output])]
    else:
        outputs = [Layout(call.shape, call.dtype)]
        if function == "top_k":
            outputs.append(Layout(call.shape, call.index_dtype))
    edge = _terminal.size(launch.PARALLEL_WORK)
    why = [_cuda_way(function, call) if on_gpu else _way(call)]
    if on_gpu:
        pass
    elif function != "top_k" and call.alone:
        why.append("single elements that go anywhere: one thread writes them sooner than several that read all indices")
        if threads > 1:
            why.append(f"{_effort(call)}: threads share the copy before, or the look at the indices")
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
    }


def _effort(call: Any) -> str:
    """Return in words what counts when threads are chosen."""
    copies = "" if call.effort == call.work else " (neighbours are copied together, so their bytes count in part)"
    return f"the work counts as {_terminal.size(call.effort)}{copies}"


def _way(call: Any) -> str:
    words = call.kernel.split()
    end = next((i for i, word in enumerate(words) if word.endswith("-bit") or word in REDUCTIONS), len(words))
    return _CPU_WAYS[" ".join(words[:end])].format(*words[end:])


def _cuda_way(function: str, call: Any) -> str:
    if function == "top_k":
        return _CUDA_TOP_K.get(call.method) or _CUDA_TOP_K[call.method.lstrip("0123456789 ")]
    if call.way:
        return _CUDA_WAYS[type(call.way).__name__]
    if function.startswith("gather"):
        return f"threads move units of up to {min(call.steps, 16)} bytes, and check each index"
    if call.reduces and call.combined:
        return "as a rule the memory combines integers with what is there, in any order: the bits are the same"
    if call.reduces:
        return "updates are sorted by where they go, and combined in their order"
    if call.merge_bytes:
        return "places are claimed by their last update; then the result is written in its order"
    return "the input is copied; then each update that is the last of its place is written"


def run(args: argparse.Namespace) -> int:
    """Print what the call would do."""
    with cli_run.defaults(args):
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
    scratch = found.get("scratch_bytes", 0)
    _terminal.print_facts(
        [
            ("call", f"{found['function']}: {shapes[0]} -> {shapes[1]}"),
            ("kernel", found["kernel"]),
            *([("threads", str(found["threads"]))] if "threads" in found else []),
            (
                "bytes",
                f"{_terminal.size(found['work_bytes'])} touched, results of "
                f"{_terminal.size(found['result_bytes'])}"
                + (f", {_terminal.size(scratch)} of scratch" if scratch else ""),
            ),
            *(("why" if i == 0 else "", text) for i, text in enumerate(found["why"])),
        ]
    )
    return 0
