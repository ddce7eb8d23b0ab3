"""``demo``: handwritten digits, classified by their nearest neighbours."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Classify handwritten digits with top_k, gather and scatter_nd, beside NumPy doing the same."
    parser.add_argument("--k", type=int, default=5, help="how many neighbours vote (default: %(default)s)")
    picture = parser.add_mutually_exclusive_group()
    picture.add_argument(
        "--plot",
        type=Path,
        default=Path("digits.png"),
        metavar="PATH",
        help="where to save the picture of some queries and their neighbours (default: %(default)s)",
    )
    picture.add_argument("--no-plot", action="store_const", const=None, dest="plot", help="save no picture")


def run(args: argparse.Namespace) -> int:
    """Run the demo; 1 if NumPy's results differ."""
    from . import digits

    return 0 if digits.run(args.k, args.plot).same_as_numpy else 1
