"""The command line: ``python -m numba_dml COMMAND``. Each command lives in a module of its own, imported on use."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

#: Packages that only some commands need, and the extra that brings them.
EXTRAS = {"matplotlib": "demo", "rich": "demo", "sklearn": "demo"}


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints take one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def _demo(args: argparse.Namespace) -> int:
    from . import _demo

    return 0 if _demo.run(args.k, args.plot).same_as_numpy else 1


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; each sets `run`, a function of the parsed arguments.

    Returns
    -------
    argparse.ArgumentParser
        With one subparser per command.
    """
    parser = _Parser(prog="python -m numba_dml", description="DirectML's gather, scatter and top-k, compiled by Numba.")
    commands: Any = parser.add_subparsers(title="commands", metavar="COMMAND")

    demo = commands.add_parser("demo", help="classify handwritten digits by their nearest neighbours")
    demo.description = "Classify handwritten digits with top_k, gather and scatter_nd, beside NumPy doing the same."
    demo.add_argument("--k", type=int, default=5, help="how many neighbours vote (default: %(default)s)")
    picture = demo.add_mutually_exclusive_group()
    picture.add_argument(
        "--plot",
        type=Path,
        default=Path("digits.png"),
        metavar="PATH",
        help="where to save the picture of some queries and their neighbours (default: %(default)s)",
    )
    picture.add_argument("--no-plot", action="store_const", const=None, dest="plot", help="save no picture")
    demo.set_defaults(run=_demo)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process when absent.

    Returns
    -------
    int
        The exit code. Bad input leaves through `SystemExit` with code 2, after one line on the standard error stream.
    """
    parser = build_parser()
    args = parser.parse_args(argv)
    if "run" not in args:
        parser.print_help()
        return 0
    try:
        code: int = args.run(args)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        parser.error(f'{package} is missing; install it with: pip install "numba_dml[{EXTRAS[package]}]"')
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return code


if __name__ == "__main__":
    sys.exit(main())
