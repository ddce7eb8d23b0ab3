"""``run`` and the operators' own commands: an operator on arrays in files, a part of them at a time.

What a part needs is in memory, never a file: results are those of one call on the whole arrays, bit by bit. Of a top-k
along a line that is too long, the best of what was read so far compete with the best of the next piece; a scatter
writes its updates into the result in their own order. Where the points of a part lie all over a large file, they are
taken in the order of the file.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

import numba_dml as dml

from .._core import config
from .._core.coordinates import Indexed, checked_coordinates
from .._core.shapes import ELEMENTS, SLICES, TUPLES, tuple_size
from .._core.spec import OPERATORS, Spec
from .._core.tensor import packed_strides, product
from . import _arguments, _files, _terminal, stores
from ._files import Array, Order, Results, Shape, Source

PART_MB = 64  #: what a part of the arrays may take, in megabytes, if not told
MEGABYTE = 1 << 20
AROUND = 1 << 16  #: bytes that a mapping keeps around every element read out of order (Linux maps 16 pages at once)
ASIDE = 1 << 13  #: slices along the last axis of top-k pieces: the fewest elements side by side that are read at once

_ALL = slice(None)


def add_operator(parser: argparse.ArgumentParser, spec: Spec) -> None:
    """Add the arguments of an operator's command."""
    text = ".npy or .npz file, or zarr store; FILE.npz:NAME or STORE.zarr:NAME for one of many"
    for argument in _arguments.arguments_of(spec):
        parser.add_argument(argument, metavar=argument.upper(), help=text)
    _arguments.add_parameters(parser, spec)
    written = "the result, .npz, .npy or .zarr; it replaces an older file of that name, but no input and no store"
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=written)
    _arguments.add_targets(parser)
    parser.add_argument(
        "--part-mb", type=_arguments.positive, default=PART_MB, help="memory for a part (default: %(default)s)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    stores.add_arguments(parser)
    parser.set_defaults(run=run, function=spec.name)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operators as commands of ``run``."""
    operators: Any = parser.add_subparsers(title="operators", metavar="OP", required=True)
    for spec in OPERATORS.values():
        text = f"{spec.summary[0].upper()}{spec.summary[1:]}."
        add_operator(operators.add_parser(spec.command, help=spec.summary, description=text), spec)


def planned(
    function: str, inputs: Sequence[Any], arguments: dict[str, Any], compiles: bool = False, target: str = "cpu"
) -> Any:
    """Return the call for arrays of which only shapes, dtypes and orders are known; it compiles when it is launched."""
    from ..cpu import launch

    layouts: list[Any] = [part for a in inputs for part in (a.shape, _strides(a), a.dtype)]
    spec = OPERATORS[function]
    if spec.writes:
        layouts.insert(0, None)
    given = tuple(arguments.get(one.name, one.default) for one in spec.parameters)
    token = launch.later.set(not compiles)
    try:
        call = spec.build(*layouts, given, target)
    finally:
        launch.later.reset(token)
    while hasattr(call, "call"):  # around it are copies of what a kernel cannot read as it is
        call = call.call
    return call


def _strides(array: Any) -> Shape:
    if array.order == "C":
        return packed_strides(array.shape, array.dtype.itemsize)
    return packed_strides(array.shape[::-1], array.dtype.itemsize)[::-1]


def run(args: argparse.Namespace) -> int:
    """Run an operator on files."""
    start = perf_counter()
    spec = OPERATORS[args.function]
    names = [getattr(args, name) for name in _arguments.arguments_of(spec)]
    arguments = _arguments.parameters(args, spec)
    inputs: list[Any]
    try:
        if stores.needed(names, args):
            inputs, made = stores.run(spec, names, arguments, args)
        else:
            inputs = [_files.open_source(name) for name in names]
            with _arguments.defaults(args), Results(args.output, inputs) as results:
                _WAYS.get(spec.family, _whole)(spec, inputs, arguments, results, args)
            made = results.members
    except (TypeError, IndexError, RuntimeError) as error:  # of an array or a target: the user's, not ours
        raise ValueError(str(error)) from error
    if not args.quiet:
        read = sum(source.nbytes for source in inputs)
        if spec.family == "gather":  # of its input it reads what it returns
            read += made["output"].nbytes - inputs[0].nbytes
        text = ", ".join(f"{n} {m.shape} {m.dtype}" for n, m in made.items())
        print(f"{args.output}: {text}; {_terminal.size(read)} in {_terminal.duration(perf_counter() - start)}")
    return 0


def _top_k(
    spec: Spec, inputs: list[Source], arguments: dict[str, Any], results: Results, args: argparse.Namespace
) -> None:
    source, k = inputs[0], args.k
    call = planned(spec.name, inputs, {"k": k, **arguments})
    for name, dtype in (("values", call.dtype), ("indices", call.index_dtype)):
        results.add(name, call.shape, dtype, source.order)
    results.make()
    # In the order of the file, whatever that is: lines, their elements, and neighbours of these.
    axis = arguments["axis"] % len(source.shape)
    shape = source.shape
    if source.order == "F":
        shape, axis = shape[::-1], len(shape) - 1 - axis
    lines, n, aside = product(shape[:axis]), shape[axis], product(shape[axis + 1 :])
    memory, itemsize = args.part_mb * MEGABYTE, source.dtype.itemsize
    line_step, step, aside_step = max(1, memory // max(1, n * aside * itemsize)), max(n, 1), max(aside, 1)
    if n * aside * itemsize > memory:
        aside_step = min(aside, max(ASIDE, memory // (4 * max(k, 1) * (itemsize + 8))))
        step = min(n, max(k, memory // (aside_step * itemsize)))
    apart = aside_step < aside and source.loaded is None
    keywords = {name: arguments[name] for name in ("mode", "nan")}
    with _terminal.Progress("top-k", source.nbytes, args.quiet) as shown:
        for first_line, first_side in itertools.product(range(0, lines, line_step), range(0, aside, aside_step)):
            line, side = slice(first_line, first_line + line_step), slice(first_side, first_side + aside_step)
            best: Any = None
            for first in range(0, n if k else 0, step):
                if apart:
                    piece = _columns(source, (n, aside), line.start, slice(first, first + step), side)
                else:
                    whole = source.map()
                    whole = (whole.T if source.order == "F" else whole).reshape(lines, n, aside)
                    piece = whole[line, first : first + step, side]
                    del whole
                found = dml.top_k(piece, min(k, piece.shape[1]), axis=1, **keywords)
                best = found if best is None else _merged(best, found, first, k, keywords)
                shown.advance(piece.nbytes)
                del piece
            for name, array in zip(("values", "indices"), best or (), strict=False):
                if apart and k:
                    _columns(results.members[name], (k, aside), line.start, slice(0, k), side, "r+")[:] = array
                else:
                    results.map(name, (lines, k, aside))[line, :, side] = array


def _columns(file: Source, sizes: tuple[int, int], line: int, lead: slice, side: slice, mode: str = "r") -> Array:
    """Return a part of one of the lines of a file, the elements of which lie apart: (1, lead, side)."""
    count, aside = sizes
    starts = (line * count + np.arange(count)[lead]) * aside + side.start
    width, itemsize = min(aside, side.stop) - side.start, file.dtype.itemsize
    flat = _files.map_pieces(file, starts, width, mode)
    return as_strided(flat, (1, len(starts), width), (0, aside * itemsize, itemsize))


def _merged(best: Any, found: Any, first: int, k: int, keywords: dict[str, Any]) -> Any:
    """Return the best of what was found so far, and of a piece whose elements come later: of equal ones, these lose."""
    values = np.concatenate((best[0], found[0]), axis=1)
    indices = np.concatenate((best[1], found[1] + first), axis=1)
    chosen = dml.top_k(values, min(k, values.shape[1]), axis=1, **keywords)
    return chosen.values, dml.gather_elements(indices, chosen.indices, axis=1)


def _move(
    spec: Spec, inputs: list[Source], arguments: dict[str, Any], results: Results, args: argparse.Namespace
) -> None:
    call = planned(spec.name, inputs, arguments)
    scatters = spec.writes
    source, indices = inputs[:2]
    flat = spec.addressing == SLICES and len(indices.shape) != 1  # the indices' dimensions are taken as one
    results.add("output", call.shape, call.dtype, source.order if scatters or not flat else "C")
    results.make()
    cut = _Cuts(spec, source, indices, arguments)
    # The points of a gather are those of its output, of a scatter those of its updates.
    shape = inputs[2].shape if scatters else call.shape
    if spec.addressing == SLICES:
        axis, rank = cut.start, len(indices.shape)
        shape = (*shape[:axis], product(indices.shape), *shape[axis + rank :])
    itemsize, memory = source.dtype.itemsize, args.part_mb * MEGABYTE
    most = max(1, memory // (4 * (itemsize * cut.reached(shape) + indices.dtype.itemsize)))
    file = results.members["output"] if scatters else source
    far = None
    if cut.scattered(shape, most) and file.nbytes > memory and (scatters or source.loaded is None):
        if file.order == "F" or 2 * cut.together * itemsize <= memory:  # longer slices are cut, and lie together
            far = _Far(cut, file, arguments, memory, call.dtype)
            most = max(1, memory // far.bytes_of_row(indices.dtype.itemsize)) * far.width
    function_of = getattr(dml, spec.name)
    with _terminal.Progress(args.function, product(shape) * itemsize + scatters * source.nbytes, args.quiet) as shown:
        if scatters:
            _files.fill(source, results, "output", max(1, memory // (4 * itemsize)), shown.advance)
        for part in cut.parts(shape, most, file.order if far else "C"):
            points = cut.points(indices, part)
            try:
                if far and scatters:
                    far.scatter(points, part, inputs[2].map()[part])
                elif far:
                    results.map("output", shape if flat else None)[part] = far.gather(points, part)
                elif scatters:
                    place = results.map("output")[cut.data(part)]
                    function_of(place, points, inputs[2].map()[part], **arguments, out=place)
                    del place
                else:
                    results.map("output", shape if flat else None)[part] = function_of(
                        source.map()[cut.data(part)], points, **arguments
                    )
            except IndexError:
                cut.refuse(indices, most)
                raise
            shown.advance(product([s.stop - s.start for s in part]) * itemsize)


def _whole(
    spec: Spec, inputs: list[Source], arguments: dict[str, Any], results: Results, args: argparse.Namespace
) -> None:
    """Run an operator that has no way by parts on whole arrays."""
    required = _arguments.required(args, spec).values()
    found = getattr(dml, spec.name)(*(source.map() for source in inputs), *required, **arguments)
    arrays = spec.named_results(found)
    for name, array in arrays.items():
        results.add(name, array.shape, array.dtype, "C")
    results.make()
    for name, array in arrays.items():
        results.map(name)[...] = array


#: How arrays in files are gone through, by the family of the operator.
_WAYS = {"top_k": _top_k, "gather": _move, "scatter": _move}


class _Cuts:
    """Which part of the arrays a part of the points needs."""

    def __init__(self, spec: Spec, source: Source, indices: Source, arguments: dict[str, Any]) -> None:
        self.spec, self.source, self.index_shape = spec, source, indices.shape
        self.nd = spec.addressing == TUPLES
        #: The axis, or how many dimensions of batches stand before the indexed ones.
        self.start = arguments["batch_dims"] if self.nd else arguments["axis"] % max(len(source.shape), 1)
        self.axes = range(self.start, self.start + tuple_size(spec.addressing, indices.shape))
        sizes = source.shape or (1,)
        self.indexed = Indexed(spec.name, self.axes, tuple(sizes[axis] for axis in self.axes), "raise")
        #: How many elements lie together.
        self.together = 1 if spec.addressing == ELEMENTS else product(source.shape[self.axes.stop :])

    def scattered(self, shape: Shape, most: int) -> bool:
        """Tell whether a part of the points may need elements from all over the data."""
        return product(shape[self.start :]) > most or self.start == 0

    def reached(self, shape: Shape) -> int:
        """Return how many elements of the data a point may reach, if each part reaches others, else 1."""
        if not self.start:
            return 1
        stop = len(self.index_shape) - 1 if self.nd else self.start + 1
        return max(product(self.indexed.sizes) // max(product(shape[self.start : stop]), 1), 1)

    def parts(self, shape: Shape, most: int, order: Order) -> Iterator[tuple[slice, ...]]:
        """Yield the parts of the points, each with what lies together in a file of that order.

        Updates of an element stay in their order.
        """
        behind = len(self.source.shape) - self.axes.stop
        axes = list(range(len(shape)))
        if order == "F":
            stop = len(shape) - behind
            axes = [*axes[stop:][::-1], *axes[self.start : stop], *axes[: self.start]]
        for part in _files.blocks(tuple(shape[axis] for axis in axes), most):
            yield tuple(part[axes.index(axis)] for axis in range(len(shape)))

    def points(self, indices: Source, part: tuple[slice, ...]) -> Array:
        """Return the indices of the points."""
        whole = indices.map()
        if self.spec.addressing == SLICES:
            found: Array = whole.reshape(-1)[part[self.start]]
        else:
            found = whole[part[: len(self.index_shape) - 1] if self.nd else part]
        return found

    def data(self, part: tuple[slice, ...]) -> Any:
        """Return what the points may reach."""
        if not self.source.shape:
            return ()
        if self.nd:
            return (*part[: self.start], *[_ALL] * len(self.axes), *part[len(self.index_shape) - 1 :])
        # Of a size 1 that is broadcast, every part needs all.
        return tuple(
            _ALL if axis == self.start or size == 1 else part[axis] for axis, size in enumerate(self.source.shape)
        )

    def refuse(self, indices: Source, most: int) -> None:
        """Raise the error for the first bad index of all, with its position among them."""
        whole = indices.map()
        for part in _files.blocks(self.index_shape[:-1] if self.nd else self.index_shape, most):
            first = [*(s.start for s in part), *([0] if self.nd else [])]  # of a tuple there are no parts
            checked_coordinates(whole[part], first, self.indexed)


class _Far:
    """Moves the points of a part in the order of the file that they lie in, a stretch of it at a time.

    The file's elements are seen as rows: those of a slice, where they lie together, or single ones. It is done on the
    host: a device would be sent all that lies between.
    """

    def __init__(self, cut: _Cuts, file: Source, arguments: dict[str, Any], memory: int, dtype: Any) -> None:
        self.cut, self.file, self.memory = cut, file, memory
        scatters = cut.spec.writes
        bounds = config.defaults(None, arguments["bounds"], not scatters)[1]
        self.indexed = cut.indexed._replace(bounds=bounds if bounds in ("clamp", "drop") else "raise")
        self.keywords = {name: arguments[name] for name in ("reduction", "unique") if scatters}
        self.width, self.dtype = cut.together if file.order == "C" else 1, dtype

    def bytes_of_row(self, index: int) -> int:
        """Return what a row of a part takes: elements in two orders, and the numbers that find them."""
        return 2 * self.width * self.file.dtype.itemsize + len(self.cut.axes) * index + 6 * 8

    def gather(self, points: Array, part: tuple[slice, ...]) -> Array:
        """Return what the points of a part find."""
        rows, order = self.sorted(points, part)
        found = np.zeros((len(order), self.width), self.dtype)
        for stretch in self.stretches(rows):
            data = self.map(rows[stretch])
            found[order[stretch]] = dml.gather(data, rows[stretch] - rows[stretch.start], target="cpu")
            del data
        return found.reshape([s.stop - s.start for s in part])

    def scatter(self, points: Array, part: tuple[slice, ...], updates: Array) -> None:
        """Write the updates of a part to the file."""
        rows, order = self.sorted(points, part)
        updates = updates.reshape(-1, self.width)
        for stretch in self.stretches(rows):
            data = self.map(rows[stretch], "r+")
            near = (rows[stretch] - rows[stretch.start])[:, None]
            dml.scatter_nd(data, near, updates[order[stretch]], **self.keywords, out=data, target="cpu")
            del data

    def map(self, rows: Array, mode: str = "r") -> Array:
        """Return the rows of the file from the first to the last of some."""
        return _files.map_pieces(self.file, rows * self.width, self.width, mode).reshape(-1, self.width)

    def sorted(self, points: Array, part: tuple[slice, ...]) -> tuple[Array, Array]:
        """Return the rows of a part in the order of the file without dropped ones, and which point each is of."""
        rows = self.rows(points, part).reshape(-1)
        order = np.argsort(rows, kind="stable")  # updates of one element stay in their order
        rows = rows[order]
        return rows[: np.searchsorted(rows, product(self.file.shape) // self.width)], order

    def stretches(self, rows: Array) -> Any:
        """Yield the slices of rows that are mapped at once: all that is near, or as many as are kept with what is."""
        size = self.width * self.file.dtype.itemsize
        span, count, start = max(1, self.memory // size), max(1, self.memory // (size + AROUND)), 0
        while start < len(rows):
            near = int(np.searchsorted(rows, rows[start] + span))
            stretch = slice(start, max(near, min(start + count, len(rows))))
            yield stretch
            start = stretch.stop

    def rows(self, points: Array, part: tuple[slice, ...]) -> Array:
        """Return the row of every point of a part; of a dropped one the number of all rows."""
        cut, sizes = self.cut, self.file.shape
        lead = len(cut.index_shape) - 1 if cut.nd else cut.axes.start + 1  # the part's axes as far as points go
        others = {axis: axis for axis in range(cut.axes.start)}
        rank = lead
        if cut.spec.addressing == ELEMENTS or self.width != cut.together:
            others |= {axis: lead + d for d, axis in enumerate(range(cut.axes.stop, len(sizes)))}
            rank = len(part)
        at: dict[int, Array] = {}  # by the axes of the file
        for axis, place in others.items():
            along = np.arange(part[place].start, part[place].stop) * (sizes[axis] > 1)  # a size of 1 is broadcast
            at[axis] = along.reshape([-1 if d == place else 1 for d in range(rank)])
        coordinates = checked_coordinates(points, [0] * points.ndim, self.indexed)
        # Before the axes of a gather's indices, and behind those of tuples, there are others.
        shape = points.shape[:-1] if cut.nd else points.shape
        shape = (1,) * (lead - len(shape)) + shape + (1,) * (rank - max(lead, len(shape)))
        for axis, row in zip(cut.axes, coordinates, strict=True):
            at[axis] = row.clip(0).reshape(shape)
        found: Array = np.ravel_multi_index(
            [at[axis] for axis in range(len(at))], sizes[: len(at)], order=self.file.order
        )
        dropped = coordinates[0].reshape(shape) < 0
        if dropped.any():
            found[np.broadcast_to(dropped, found.shape)] = product(sizes) // self.width
        return found
