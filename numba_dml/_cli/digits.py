"""``demo``: handwritten digits, classified by their nearest neighbours with top_k, gather and scatter_nd."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy import ndarray

import numba_dml as dml

from . import _terminal

Array = ndarray[Any, Any]

SEED = 0  #: of the shuffle that splits the images
CLASSES = 10
REPEATS = 15
NARROW = 80  #: a terminal with fewer columns has the kernels below the table
SHOWN, SHOWN_WRONG, SHOWN_NEIGHBOURS = 5, 2, 6  #: rows of the picture, the most mistakes of them, neighbours in a row


class Digits(NamedTuple):
    """Images as rows of 64 grey values 0 to 16 (float32), and what they show."""

    train: Array
    train_labels: Array
    queries: Array
    query_labels: Array


class Result(NamedTuple):
    """What came out: the digit found for every query, and how it was found."""

    predicted: Array
    neighbours: dml.TopK[Array, Array]
    accuracy: float
    same_as_numpy: bool  #: neighbours, labels, votes and winners are those of NumPy, bit by bit


def load_digits() -> Digits:
    """Return scikit-learn's 1797 digits, a third of them as queries: the same split on every run."""
    from sklearn import datasets

    digits = datasets.load_digits()
    images, labels = digits.data.astype(np.float32), digits.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(images))
    queries, train = np.split(order, [len(images) // 3])
    return Digits(images[train], labels[train], images[queries], labels[queries])


def squared_distances(queries: Array, train: Array) -> Array:
    """Return the squared Euclidean distances of all pairs of rows, through one matrix product.

    They are exact for the digits: grey values are whole numbers, and no sum exceeds 2**24.
    """
    squares: Array = (queries**2).sum(1)[:, None] - 2 * (queries @ train.T) + (train**2).sum(1)
    return squares


def numpy_nearest(distances: Array, k: int) -> tuple[Array, Array]:
    """Return the k smallest distances (whole numbers) of every row and their positions, ties to the lower position.

    The fastest exact way that NumPy offers: `argpartition` picks any of several equal distances, and a stable `argsort`
    of whole rows takes ten times as long; a key of distance and position has no ties.
    """
    n = distances.shape[1]
    keys = distances.astype(np.int64) * n + np.arange(n)
    values, indices = np.divmod(np.sort(np.partition(keys, k - 1)[:, :k]), n)
    return values.astype(distances.dtype), indices


def numpy_votes(labels: Array, weights: Array) -> Array:
    """Return the sum of the weights for every query and label, of which neighbours have one each."""
    votes = np.zeros((len(labels), CLASSES), weights.dtype)
    np.add.at(votes, (np.arange(len(labels))[:, None], labels), weights)
    return votes


def votes(labels: Array, weights: Array) -> Array:
    """Return what `numpy_votes` returns, by a scatter to tuples (query, label)."""
    rows = np.broadcast_to(np.arange(len(labels))[:, None], labels.shape)
    zeros = np.zeros((len(labels), CLASSES), weights.dtype)
    return dml.scatter_nd(zeros, np.stack([rows, labels], axis=-1), weights, reduction="add")


class _Row(NamedTuple):
    """A line of the table; durations in seconds."""

    title: str
    kernel: str
    target: str
    first: float
    ours: float
    numpy: float


class _Bench:
    """Runs the steps, ours and NumPy's in turn, and keeps what the table shows."""

    def __init__(self, shown: _terminal.Progress) -> None:
        self.rows: list[_Row] = []
        self.different: list[str] = []
        self.shown = shown

    def step(self, title: str, descriptor: dml.Descriptor, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Any:
        self.shown.advance(0, f"{title}: compiling, or loading what an earlier run compiled")
        if not self.rows and not sys.stderr.isatty():  # where no progress is shown
            text = "numba-dml demo: running; a first run compiles kernels, for some seconds"
            print(text, file=sys.stderr, flush=True)
        first, result = _timed(ours)
        self.shown.advance(0.5, f"{title}: measuring")
        expected = _arrays(theirs())
        if not all(np.array_equal(a, b) for a, b in zip(_arrays(result), expected, strict=True)):
            self.different.append(title)
        # In turn, so that whatever else the machine does hits both.
        times = [(_timed(ours)[0], _timed(theirs)[0]) for _ in range(REPEATS)]
        # Equal descriptors share one operator: this one is what the function ran.
        operator = dml.compile_operator(descriptor)
        self.rows.append(_Row(title, operator.kernel, operator.target, first, *map(median, zip(*times, strict=True))))
        self.shown.advance(0.5)
        return result


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    result = function()
    return perf_counter() - start, result


def _arrays(result: Any) -> tuple[Array, ...]:
    return result if isinstance(result, tuple) else (result,)


_floats, _ints = partial(dml.TensorDesc, "float32"), partial(dml.TensorDesc, "int64")


def _top_k(m: int, n: int, k: int, direction: dml.AxisDirection) -> dml.TopK1Desc:
    return dml.TopK1Desc(_floats((m, n)), _floats((m, k)), _ints((m, k)), axis=1, k=k, axis_direction=direction)


def classify(digits: Digits, k: int, bench: _Bench) -> Result:
    """Find the digit of every query by a vote of its k nearest neighbours."""
    m, n = len(digits.queries), len(digits.train)
    if not 1 <= k <= n:
        raise ValueError(f"--k: found {k}, expected 1 to {n}, the number of train images")
    distances = squared_distances(digits.queries, digits.train)

    nearest = bench.step(
        "neighbours",
        _top_k(m, n, k, dml.AxisDirection.INCREASING),
        lambda: dml.top_k(distances, k, mode="smallest"),
        lambda: numpy_nearest(distances, k),
    )
    labels = bench.step(
        "labels",
        dml.GatherDesc(_ints((1, n)), _ints((m, k)), _ints((m, k)), axis=1, index_dimensions=2),
        lambda: dml.gather(digits.train_labels, nearest.indices),
        lambda: digits.train_labels[nearest.indices],
    )
    weights = 1 / (1 + nearest.values)  # of 599 queries 11 are wrong with k 5; with plain votes 13
    sums = _floats((1, m, CLASSES))
    total = bench.step(
        "votes",
        dml.ScatterNDDesc(sums, _ints((m, k, 2)), _floats((1, m, k)), sums, 2, 3, reduction="add"),
        lambda: votes(labels, weights),
        lambda: numpy_votes(labels, weights),
    )
    predicted = bench.step(
        "winners",
        _top_k(m, CLASSES, 1, dml.AxisDirection.DECREASING),
        lambda: dml.top_k(total, 1).indices[:, 0],
        lambda: total.argmax(1),
    )
    return Result(predicted, nearest, float(np.mean(predicted == digits.query_labels)), not bench.different)


def _report(digits: Digits, k: int, result: Result, bench: _Bench) -> None:
    wrong = int(np.sum(result.predicted != digits.query_labels))
    targets = ", ".join(sorted({row.target for row in bench.rows}))
    columns = shutil.get_terminal_size().columns
    _terminal.print_facts(
        [
            ("accuracy", f"{result.accuracy:.4f} ({wrong} of {len(digits.queries)} queries wrong)"),
            ("images", f"{len(digits.train)} train, {len(digits.queries)} queries, 8x8 grey values each"),
            ("method", f"{k} nearest neighbours vote, weighted by 1 / (1 + squared distance)"),
            ("target", f"{targets}, {numba.get_num_threads()} threads"),
        ],
        columns,
    )
    numbers = ("median", "NumPy", "ratio")
    titles = ("step", *numbers) if columns < NARROW else ("step", "kernel", "first", *numbers)
    rows, kernels = [], []
    durations = zip(*((row.first, row.ours, row.numpy) for row in bench.rows), strict=True)
    for row in [*bench.rows, _Row("all", "", "", *map(sum, durations))]:
        ratio = row.numpy / row.ours
        first, ours, theirs = map(_terminal.duration, (row.first, row.ours, row.numpy))
        cells = (row.title, row.kernel, first, ours, theirs, f"{ratio:.1f}x" if ratio >= 1 else f"{ratio:.2g}x")
        rows.append(
            [cell for cell, title in zip(cells, ("step", "kernel", "first", *numbers), strict=True) if title in titles]
        )
        kernels.append((row.title, f"{row.kernel}{', ' if row.kernel else ''}first {first}"))
    print()
    _terminal.print_table(titles, rows, ("first", *numbers))
    print()
    if columns < NARROW:
        _terminal.print_facts(kernels, columns)
        print()
    for text in (
        "Compared with NumPy's exact equivalents on the same arrays: partition of unique keys, labels[indices], "
        f"add.at, argmax. Medians of {REPEATS} runs, taken in turn; ratio = NumPy / median: above 1, numba_dml is "
        "faster. first = the first call, which compiles the kernel, or loads what an earlier run compiled.",
        f"NumPy's results differ in: {', '.join(bench.different)}."
        if bench.different
        else "NumPy's neighbours, labels, votes and winners are identical, bit by bit.",
    ):
        print(textwrap.fill(text, columns))


def save_picture(path: Path, digits: Digits, result: Result) -> None:
    """Draw some queries beside their nearest neighbours; mistakes first, if there are any."""
    from matplotlib.figure import Figure

    right = result.predicted == digits.query_labels
    wrong = np.flatnonzero(~right)[:SHOWN_WRONG]
    _, one_of_each = np.unique(np.where(right, digits.query_labels, CLASSES), return_index=True)
    shown = [*wrong, *one_of_each[: SHOWN - len(wrong)]]
    columns = 1 + min(result.neighbours.indices.shape[1], SHOWN_NEIGHBOURS)
    # Not through pyplot: no display is looked for, and no figure stays behind.
    figure = Figure(figsize=(1.15 * columns + 0.8, 1.5 * len(shown) + 0.5), layout="constrained")
    figure.suptitle("Handwritten digits (left) and their nearest neighbours", fontsize=12)
    axes = figure.subplots(len(shown), columns, squeeze=False, width_ratios=[1.3] + [1] * (columns - 1))
    for row, query in zip(axes, shown, strict=True):
        truth, found = digits.query_labels[query], result.predicted[query]
        colour = "tab:green" if right[query] else "tab:red"
        _draw(row[0], digits.queries[query], f"true {truth}, predicted {found}", colour, 2.5)
        for ax, place in zip(row[1:], result.neighbours.indices[query], strict=False):
            label = digits.train_labels[place]
            _draw(ax, digits.train[place], f"{label}", "0.6" if label == truth else "tab:red", 1.0)
    figure.savefig(path, dpi=120)


def _draw(ax: Any, image: Array, title: str, colour: str, width: float) -> None:
    ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    ax.set_title(title, fontsize=9, color="black" if colour == "0.6" else colour)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(color=colour, linewidth=width)


def demonstrate(k: int = 5, plot: Path | None = None) -> Result:
    """Classify the digits, print what came out and how fast, and save a picture where `plot` says."""
    if plot is not None:
        _terminal.check_picture(plot)
    digits = load_digits()
    with dml.config(quiet=True), _terminal.Progress("neighbours", 4) as shown:  # it tells that kernels compile
        bench = _Bench(shown)
        result = classify(digits, k, bench)
    _report(digits, k, result, bench)
    if plot is not None:
        save_picture(plot, digits, result)
        print(f"Picture: {plot}")
    return result


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
    return 0 if demonstrate(args.k, args.plot).same_as_numpy else 1
