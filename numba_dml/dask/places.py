"""Where indices lead: which chunk of the data each point of a block of indices falls into, and where in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from .._core.errors import index_error
from .._core.shapes import ELEMENTS, SLICES, TUPLES, packed_parts, tuple_size
from .._core.spec import Spec
from .graphs import Block, near, starts_of

_MAX = np.iinfo(np.int64).max
#: So many chunks have numbers of 16 bits, which NumPy sorts in linear time.
_SHORT = np.iinfo(np.uint16).max


class Geometry:
    """How the indices of a call address chunked data.

    Attributes
    ----------
    axes : range
        The indexed axes of the data.
    outer : int
        How many dimensions of the data stand before the points in what is gathered.
    points : int
        How many dimensions of the indices are points; a tuple's coordinates are another one.
    paired : tuple of int
        The dimensions that data and indices share: batches, or those off the axis of elements.
    inner : range
        The dimensions of the data that move whole.
    bounds : str
        "raise", "clamp" or "drop".
    parameters : dict
        What the function is given beside arrays.
    """

    def __init__(self, spec: Spec, a: Any, indices: Any, given: dict[str, Any]) -> None:
        self.function, self.addressing = spec.name, spec.addressing
        self.shape, self.chunks = a.shape, a.chunks
        start = given["batch_dims"] if self.addressing == TUPLES else given["axis"] % a.ndim
        self.outer, self.points, stop = packed_parts(self.addressing, start, a.ndim, indices.shape)
        self.axes = range(start, start + tuple_size(self.addressing, indices.shape))
        self.inner = range(stop, a.ndim)
        paired = {TUPLES: range(start), ELEMENTS: (d for d in range(a.ndim) if d != start), SLICES: ()}
        self.paired = tuple(paired[self.addressing])
        self.grid = tuple(len(a.chunks[axis]) for axis in self.axes)
        self.starts = [starts_of(a.chunks[axis]) for axis in self.axes]
        self.bounds = {None: "raise", "deferred": "raise"}.get(given["bounds"], given["bounds"])
        if not spec.writes and any(a.shape[axis] == 0 for axis in self.axes):
            self.bounds = "raise"  # there is nothing to read
        if 0 in a.shape[: self.outer]:
            self.bounds = "drop"  # no index is read
        self.parameters = {**given, "bounds": self.bounds}

    def follows(self, dimension: int) -> bool:
        """Tell whether data of a shared dimension follow the indices: not where one element stands for all."""
        return self.addressing != ELEMENTS or self.shape[dimension] != 1

    def data_block(self, outer: Block, points: Block, chunk: Block, inner: Block) -> Block:
        """Return the block of the data that a block of points needs, by the chunk on the indexed axes."""
        if self.addressing != ELEMENTS:
            return (*outer, *points[: len(self.paired)], *chunk, *inner)
        return tuple(chunk[0] if d in self.axes else points[d] * self.follows(d) for d in range(len(self.shape)))

    def number(self, chunk: Block) -> int:
        """Return the number of a chunk on the indexed axes, by its position."""
        return int(np.ravel_multi_index(chunk, self.grid))

    def chunk(self, number: int) -> Block:
        """Return the position of a chunk on the indexed axes."""
        return tuple(int(i) for i in np.unravel_index(number, self.grid))


@dataclass(frozen=True)
class Places:
    """The points of a block of indices by the chunks that they fall into.

    Attributes
    ----------
    shape : tuple of int
        Of the points.
    order : ndarray, (points,)
        The points, those of one chunk together, and in their own order; dropped ones come last.
    ends : list of int
        The first of each chunk in `order`, and behind the last one.
    coordinates : list of ndarray, (points,)
        Where they are on each indexed axis of the data, in that order.
    """

    shape: tuple[int, ...]
    order: Any
    ends: list[int]
    coordinates: list[Any]

    def points(self, number: int) -> Any:
        """Return the points that fall into a chunk."""
        return self.order[self.ends[number] : self.ends[number + 1]]

    def local(self, number: int, geometry: Geometry) -> list[Any]:
        """Return where these points are in the chunk, on each indexed axis."""
        part = slice(self.ends[number], self.ends[number + 1])
        starts = (starts[i] for starts, i in zip(geometry.starts, geometry.chunk(number), strict=True))
        return [row[part] - start for row, start in zip(self.coordinates, starts, strict=True)]

    def tuples(self, number: int, geometry: Geometry) -> Any:
        """Return the same as tuples of indices into the chunk, for `gather_nd` and `scatter_nd`."""
        own = self.local(number, geometry)
        if geometry.paired:
            at = np.unravel_index(self.points(number), self.shape)
            shared = {d: at[d] if geometry.follows(d) else 0 * at[d] for d in geometry.paired}
            shared.update(zip(geometry.axes, own, strict=True))
            own = [shared[d] for d in sorted(shared)]
        return np.stack(own, axis=-1)

    def hits(self) -> list[int]:
        """Return the numbers of the chunks that points fall into."""
        return [number for number, end in enumerate(self.ends[1:]) if end > self.ends[number]]


def judged(geometry: Geometry, indices: Any, first: Sequence[int]) -> list[Any]:
    """Return where the points of indices are on each indexed axis, as int64; a dropped point is at -1.

    `first` is the position of the block among all indices, for the error.
    """
    count = len(geometry.axes) if geometry.addressing == TUPLES else 1
    flat = indices.reshape(-1)
    if flat.dtype == np.uint64:
        flat = np.minimum(flat, _MAX)
    flat = flat.astype(np.int64, copy=False)
    rows = [flat[column::count] for column in range(count)]
    sizes = [geometry.shape[axis] for axis in geometry.axes]
    if not flat.size or (flat.min() >= 0 and all(row.max() < size for row, size in zip(rows, sizes, strict=True))):
        return rows
    rows = [np.where(row < 0, row + size, row) for row, size in zip(rows, sizes, strict=True)]
    if geometry.bounds == "clamp":
        return [row.clip(0, size - 1) for row, size in zip(rows, sizes, strict=True)]
    wrong = np.stack([(row < 0) | (row >= size) for row, size in zip(rows, sizes, strict=True)], axis=-1)
    if geometry.bounds == "raise" and wrong.any():
        place = int(wrong.reshape(-1).argmax())
        here = np.unravel_index(place, indices.shape)
        where = [int(i) + start for i, start in zip(here, first, strict=True)]
        coordinate = place % count
        value = int(indices[here])
        raise index_error(geometry.function, where, value, geometry.axes[coordinate], sizes[coordinate])
    return [np.where(wrong.any(axis=-1), -1, row) for row in rows]


def find_places(indices: Any, first: Sequence[int], geometry: Geometry) -> Places:
    """Return the points of a block of indices by chunk."""
    rows = judged(geometry, indices, first)
    owner: Any = np.zeros_like(rows[0])
    for row, starts in zip(rows, geometry.starts, strict=True):
        owner = owner * len(starts) + _chunk_of(row, starts)
    total = prod(geometry.grid)
    owner = np.where(rows[0] < 0, total, owner)
    order = owner.astype(np.uint16 if total < _SHORT else np.int64).argsort(kind="stable")
    ends = [0, *np.cumsum(np.bincount(owner, minlength=total + 1)[:total]).tolist()]
    return Places(indices.shape[: geometry.points], order, ends, [row[order] for row in rows])


def _chunk_of(row: Any, starts: list[int]) -> Any:
    """Return the chunk of every coordinate of a dimension, by where the chunks start."""
    if len(starts) == 1:
        return 0
    step = starts[1]
    if step and all(start == i * step for i, start in enumerate(starts)):
        return np.minimum(row // step, len(starts) - 1)  # several times as fast as a search
    return np.searchsorted(near(np.array(starts), row), row, side="right") - 1
