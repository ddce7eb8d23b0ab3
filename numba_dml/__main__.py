"""The command line: ``numba-dml COMMAND``, or ``python -m numba_dml COMMAND``. Commands are imported on use."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from ._version import __version__

#: Packages that only some commands need; the extra `cli` brings them, and `demo` what the demo needs.
OPTIONAL = {"matplotlib", "rich", "sklearn"}
INTERRUPTED = 130

#: The operators that are commands, with what they do.
OPERATORS = {
    "top-k": "select the k largest or smallest elements of every line",
    "gather": "pick slices along an axis",
    "gather-elements": "pick elements along an axis",
    "gather-nd": "pick slices by tuples of indices",
    "scatter-elements": "write elements along an axis",
    "scatter-nd": "write slices by tuples of indices",
}
#: The other commands: module, and what it does.
COMMANDS = {
    "run": ("run", "run an operator on .npy and .npz files"),
    "explain": ("explain", "say what a call would do, without running it"),
    "info": ("info", "show versions, processor, threads, cache and GPU"),
    "warmup": ("warmup", "compile kernels ahead of their first call"),
    "bench": ("bench", "measure this machine, beside the libraries that are installed"),
    "cache": ("cache", "show or clear the compiled kernels on disk"),
    "demo": ("demo", "classify handwritten digits by their nearest neighbours"),
}


def has(package: str) -> bool:
    """Tell whether a package can be imported."""
    try:
        return find_spec(package) is not None
    except ValueError:  # it is there, but says nothing of itself
        return sys.modules.get(package) is not None


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints take one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands; only the modules of those that `argv` names are imported.

    Parameters
    ----------
    argv : sequence of str
        The arguments that will be parsed.

    Returns
    -------
    argparse.ArgumentParser
        With one subparser per command, which sets `run`, a function of the parsed arguments.
    """
    prog = "numba-dml" if Path(sys.argv[0]).stem == "numba-dml" else "python -m numba_dml"
    parser = _Parser(prog=prog, description="DirectML's gather, scatter and top-k, compiled by Numba.")
    parser.add_argument("--version", action="version", version=f"numba_dml {__version__}")
    commands: Any = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, text in OPERATORS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in argv:
            import_module("._cli.run", __package__).add_operator(command, name)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in argv:
            imported = import_module(f"._cli.{module}", __package__)
            imported.add_arguments(command)
            command.set_defaults(run=imported.run)
    return parser


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process when absent.

    Returns
    -------
    int
        The exit code, 130 after Ctrl-C. Bad input leaves through `SystemExit` with code 2, after one line on the
        standard error stream.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(argv: Sequence[str]) -> int:
    parser = build_parser(argv)
    try:
        args = parser.parse_args(argv)
        if "run" not in args:
            parser.print_help()
            return 0
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in OPTIONAL:
            raise
        extra = "demo" if "demo" in argv[:1] else "cli"
        parser.error(f'{package} is missing; install it in a clone of numba_dml with: pip install ".[{extra}]"')
    except (OSError, ValueError, MemoryError) as error:
        parser.error(_text(error))
    return code


if __name__ == "__main__":
    sys.exit(main())
