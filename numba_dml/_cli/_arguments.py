"""Arguments that several commands share: operators' parameters, and where calls run."""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np

import numba_dml as dml

from .._core.spec import REQUIRED, Spec
from .._core.targets import TARGETS
from .._core.tensor import ml_dtype
from . import _files


def positive(text: str) -> int:
    """Return a number of at least 1, for argparse."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number, 1 or more")
    return int(text)


def dtype(text: str) -> np.dtype[Any]:
    """Return a dtype of NumPy or of ml_dtypes, for argparse."""
    name = text.removeprefix("ml_dtypes.")
    if re.fullmatch(_files.ML_DTYPES, name):
        try:
            return ml_dtype(name)
        except TypeError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    try:
        return np.dtype(text)
    except (TypeError, SyntaxError):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a dtype like float32") from None


def axes(text: str) -> int | tuple[int, ...]:
    """Return an axis, or several, for argparse."""
    try:
        first, *others = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected an axis, or several like 0,1") from None
    return (first, *others) if others else first


def option_of(name: str) -> str:
    """Return what a parameter is called on the command line, where `explain` has the input's dtype and shape."""
    return f"result_{name}" if name in ("dtype", "shape") else name


def sizes(text: str) -> tuple[int, ...]:
    """Return a shape, for argparse: numbers with commas or x between them."""
    parts = [part for part in text.replace("x", ",").split(",") if part.strip()]
    if not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected sizes like 1000,64")
    return tuple(int(part) for part in parts)


#: What makes a value of a text, for kinds that are no types, and what stands for it in the help.
_KINDS: dict[Any, tuple[Any, str]] = {"dtype": (dtype, "DTYPE"), "sizes": (sizes, "SIZES"), "axes": (axes, "AXES")}


def add_parameters(parser: argparse.ArgumentParser, spec: Spec) -> None:
    """Add the arguments of a function that are no arrays."""
    for one in spec.parameters:
        flag = f"--{option_of(one.name).replace('_', '-')}"
        kind, shown_kind = _KINDS.get(one.kind, (one.kind, None))
        if one.default is REQUIRED:
            parser.add_argument(flag if len(one.name) > 1 else f"-{one.name}", type=kind, required=True, help=one.help)
        elif one.kind is bool and not one.default:
            parser.add_argument(flag, action="store_true", help=one.help)
        elif one.kind is not bool:
            shown = f"{one.help} (default: %(default)s)" if one.default.__class__ is int else one.help
            choices: Any = {"choices": one.choices} if one.choices else {"type": kind}
            metavar: Any = {"metavar": shown_kind} if shown_kind else {}
            parser.add_argument(flag, default=one.default, help=shown, **choices, **metavar)


def parameters(args: argparse.Namespace, spec: Spec) -> dict[str, Any]:
    """Return the keyword arguments of a function that the command line gives."""
    options = {one.name: option_of(one.name) for one in spec.parameters if one.default is not REQUIRED}
    return {name: getattr(args, option) for name, option in options.items() if hasattr(args, option)}


def required(args: argparse.Namespace, spec: Spec) -> dict[str, Any]:
    """Return the arguments of a function that have no default, and are no arrays."""
    return {name: getattr(args, option_of(name)) for name in spec.required}


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add where and on how many threads calls run."""
    parser.add_argument("--target", choices=TARGETS, help="where to run (default: the CPU)")
    parser.add_argument("--threads", type=positive, metavar="N", help="threads at most (default: all)")


def defaults(args: argparse.Namespace) -> Any:
    """Return the block in which calls go by the arguments that `add_targets` added."""
    given = {name: getattr(args, name) for name in ("target", "threads")}
    return dml.config(**{name: value for name, value in given.items() if value is not None})


def arguments_of(spec: Spec) -> list[str]:
    """Return the names of the arguments that are files: the first is the input."""
    return ["input", *spec.inputs[1:]]
