"""The command line: ``numba-dml COMMAND``, or ``python -m numba_dml COMMAND``. Commands are imported on use."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ._core.spec import OPERATORS
from ._version import __version__

#: Packages that only some commands need, and the extra that brings each; `demo` brings all that the demo needs.
OPTIONAL = {"matplotlib": "cli", "sklearn": "demo", "dask": "dask", "distributed": "dask", "zarr": "dask"}

#: The other commands: module, and what it does.
COMMANDS = {
    "run": ("run", "run an operator on .npy and .npz files, and zarr stores"),
    "explain": ("explain", "say what a call would do, without running it"),
    "info": ("info", "show versions, processor, threads, cache and GPU"),
    "warmup": ("warmup", "compile kernels ahead of their first call"),
    "bench": ("bench", "measure this machine, beside the libraries that are installed"),
    "cache": ("cache", "show or clear the compiled kernels on disk"),
    "demo": ("digits", "classify handwritten digits by their nearest neighbours"),
}
#: What the help of each command ends with.
EXAMPLES = {
    "": ["numba-dml top-k scores.npy -k 10 -o best.npz", "numba-dml gather --help"],
    "run": ["run top-k scores.npy -k 10 -o best.npz"],
    "explain": ["explain top-k scores.npy -k 10", "explain gather --shape 1000,64 --indices-shape 200"],
    "info": ["info", "info --json"],
    "warmup": ["warmup", "warmup top-k gather --dtypes float32 int64"],
    "bench": ["bench", "bench --plot bench.png"],
    "cache": ["cache", "cache clear"],
    "demo": ["demo", "demo --k 3 --no-plot"],
}
for _spec in OPERATORS.values():
    EXAMPLES[_spec.command] = [*_spec.examples]
    EXAMPLES[f"run {_spec.command}"] = [f"run {example}" for example in _spec.examples]
    EXAMPLES[f"explain {_spec.command}"] = [*_spec.explain_examples]
EXAMPLES = {name: [f"  numba-dml {e.removeprefix('numba-dml ')}" for e in found] for name, found in EXAMPLES.items()}


def has(package: str) -> bool:
    """Tell whether a package can be imported."""
    try:
        return find_spec(package) is not None
    except ValueError:  # it is there, but says nothing of itself
        return sys.modules.get(package) is not None


class _Help(argparse.HelpFormatter):
    """Leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "numba-dml " in text else super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints take one line, and whose help ends with examples."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(formatter_class=_Help, **keywords)
        command = self.prog.removeprefix(_program()).strip()
        self.epilog = "\n".join(["example:" if len(EXAMPLES[command]) == 1 else "examples:", *EXAMPLES[command]])

    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += "; one that begins with - is given with =, as in --axis=-1,0"
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def _program() -> str:
    return "numba-dml" if Path(sys.argv[0]).stem == "numba-dml" else "python -m numba_dml"


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
    parser = _Parser(prog=_program(), description="Fast, exact gather, scatter and top-k, compiled by Numba.")
    parser.add_argument("--version", action="version", version=f"numba_dml {__version__}")
    commands: Any = parser.add_subparsers(title="commands", metavar="COMMAND")
    for spec in OPERATORS.values():
        text = f"{spec.summary[0].upper()}{spec.summary[1:]}."
        command = commands.add_parser(spec.command, help=spec.summary, description=text)
        if spec.command in argv:
            import_module("._cli.run", __package__).add_operator(command, spec)
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
    return str(error).removeprefix("numba_dml: ") or type(error).__name__


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # nothing shall stop the blocks that clear up
    raise SystemExit(128 + number)


@contextmanager
def _ending() -> Iterator[None]:
    """Let signals that would end the process at once leave the blocks that remove temporary files first."""
    found = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    here = threading.current_thread() is threading.main_thread()
    taken = [one for one in found if here and signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, _end)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)


def warmed() -> list[str]:
    """Return the functions whose kernels the command `warmup` compiles."""
    from ._cli.warmup import CASES

    return list(CASES)


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
        standard error stream, and SIGTERM with code 143.
    """
    try:
        with _ending():
            return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130


def _run(argv: Sequence[str]) -> int:
    parser = build_parser(argv)
    if sys.stdout is None:  # it was closed before Python started
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
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
        extra = "demo" if "demo" in argv[:1] else OPTIONAL[package]
        parser.error(f'{package} is missing; install it in a clone of numba_dml with: pip install ".[{extra}]"')
    except (OSError, ValueError, MemoryError) as error:
        parser.error(_text(error))
    except RuntimeError as error:
        if "NUMBA_DISABLE_JIT" not in str(error):
            raise
        parser.error(str(error))
    return code


if __name__ == "__main__":
    sys.exit(main())
