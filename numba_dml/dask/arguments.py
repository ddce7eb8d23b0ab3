"""The inputs of a gather or a scatter: their chunks are brought together, and indices cut into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from operator import methodcaller
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks

from .. import ops
from .._core.coordinates import Indexed, checked_coordinates
from .._core.shapes import ELEMENTS, TUPLES, packed_parts, tuple_size
from .._core.spec import Spec
from .._core.targets import is_chunked
from .graphs import Block, Chunks, first_chunks, in_memory_of, rechunked, starts_of, task
from .places import Places, Rule, find_places


@task
def move_chunk(chunk: Any, *others: Any, first: list[int], rule: Rule, parameters: dict[str, Any]) -> Any:
    """Return what a block of indices, and its updates, give with the only chunk that they can reach."""
    others = tuple(in_memory_of(array, chunk) for array in others)
    try:
        return getattr(ops, rule.indexed.function)(chunk, *others, **parameters)
    except IndexError:
        checked_coordinates(others[0], first, rule.indexed)  # raises it with the position among all indices
        raise


class Geometry:
    """How the indices of a call address chunked data.

    Where both share dimensions, indices in a Dask array follow the chunks of the data. Data in memory become a Dask
    array, which follows the indices.
    """

    def __init__(self, spec: Spec, a: Any, indices: Any, given: dict[str, Any]) -> None:
        self.elements = spec.addressing == ELEMENTS
        start = given["batch_dims"] if spec.addressing == TUPLES else given["axis"] % a.ndim
        #: How many dimensions of the data stand before the points in what is gathered, and how many are points.
        self.outer, self.points, stop = packed_parts(spec.addressing, start, a.ndim, indices.shape)
        self.axes = range(start, start + tuple_size(spec.addressing, indices.shape))  #: the indexed axes
        self.inner = range(stop, a.ndim)  #: the dimensions of the data that move whole
        #: The dimensions that data and indices share: batches, or those off the axis of elements.
        self.paired = [d for d in range(a.ndim) if d != start] if self.elements else []
        if spec.addressing == TUPLES:
            self.paired = list(range(start))
        self.a = a if is_chunked(a) else self._cut_data(a, indices)
        self.indices = indices
        if is_chunked(indices):
            shared = self.shared_chunks(indices.shape)
            chunks = [shared.get(d, indices.chunks[d]) for d in range(self.points)]
            whole = [(size,) for size in indices.shape[self.points :]]  # a tuple is never cut
            self.indices = rechunked(indices, (*chunks, *whole))
        bounds = {None: "raise", "deferred": "raise"}.get(given["bounds"], given["bounds"])
        if not spec.writes and any(a.shape[axis] == 0 for axis in self.axes):
            bounds = "raise"  # there is nothing to read
        if 0 in a.shape[: self.outer]:
            bounds = "drop"  # no index is read
        self.parameters = {**given, "bounds": bounds}  #: what the function is given beside arrays
        self.rule = Rule(
            indexed=Indexed(spec.name, self.axes, tuple(a.shape[axis] for axis in self.axes), bounds),
            starts=[starts_of(self.a.chunks[axis]) for axis in self.axes],
            points=self.points,
            paired=[(d, self.follows(d)) for d in self.paired],
        )
        self.grid = tuple(map(len, self.rule.starts))  #: how many chunks there are on the indexed axes

    def _cut_data(self, a: Any, indices: Any) -> da.Array:
        """Return data in memory as a Dask array whose chunks follow those of the indices."""
        chunks = [(size,) for size in a.shape]
        for d in self.paired:
            rest = a.shape[d] - indices.shape[d]
            if rest >= 0 and is_chunked(indices):
                chunks[d] = (*indices.chunks[d], rest) if rest else indices.chunks[d]
        return da.from_array(a, chunks=tuple(chunks), asarray=False)

    def shared_chunks(self, shape: tuple[int, ...]) -> dict[int, Any]:
        """Return the chunks of indices of a shape in the dimensions that they share with the data."""
        return {d: first_chunks(self.a.chunks[d], shape[d]) for d in self.paired if shape[d] <= self.a.shape[d]}

    def follows(self, dimension: int) -> bool:
        """Tell whether data have an element for each point in a dimension: not one that stands for all."""
        return not self.elements or self.a.shape[dimension] != 1 or dimension in self.axes

    def data_block(self, outer: Block, points: Block, number: int, inner: Block) -> Block:
        """Return the block of the data that a block of points needs, by the number of the chunk."""
        chunk = tuple(map(int, np.unravel_index(number, self.grid)))
        if not self.elements:
            return (*outer, *points[: len(self.paired)], *chunk, *inner)
        block = [points[d] if self.follows(d) else self.a.chunks[d].index(1) for d in range(self.a.ndim)]
        block[self.axes.start] = chunk[0]
        return tuple(block)

    def number(self, block: Block) -> int:
        """Return the number of the chunk on the indexed axes of a block of the data."""
        return int(np.ravel_multi_index([block[axis] for axis in self.axes], self.grid))


class IndexBlocks:
    """The indices of a call, cut into blocks: what tasks are given of each, and which chunks it leads to.

    Tasks are given indices if the data have one chunk on the indexed axes, else `Places`.
    """

    def __init__(self, geometry: Geometry, chunks: Chunks, token: str) -> None:
        self.rule, self.one_chunk = geometry.rule, prod(geometry.grid) == 1
        self.name, self.picks = (f"{self.rule.indexed.function}-{kind}-{token}" for kind in ("indices", "pick"))
        self.tasks: dict[Any, Any] = {}  #: what makes, or holds, what tasks are given
        self.every = range(prod(geometry.grid))
        self.held: dict[Block, Places] = {}  #: what is known of indices in memory
        self.chunks, self.starts = chunks, list(map(starts_of, chunks))
        self.inputs: list[Any] = []  #: the Dask array of the indices, if they are one
        if is_chunked(geometry.indices):
            self._find(rechunked(geometry.indices, chunks))
            return
        try:
            self._hold(geometry.indices)
        except IndexError:  # which is raised when the result is computed
            self._find(da.from_array(geometry.indices, chunks=chunks))

    def _find(self, indices: da.Array) -> None:
        """Make the tasks for indices that are not known yet."""
        self.inputs = [indices]
        for block in np.ndindex(*indices.numblocks):
            source = (indices.name, *block)
            find = partial(find_places, first=self.first(block), rule=self.rule)
            self.tasks[(self.name, *block)] = source if self.one_chunk else (find, source)

    def _hold(self, indices: Any) -> None:
        """Put what tasks are given of indices in memory into the graph."""
        for block in np.ndindex(*map(len, self.chunks)):
            sizes = (sizes[i] for sizes, i in zip(self.chunks, block, strict=True))
            part = tuple(slice(start, start + size) for start, size in zip(self.first(block), sizes, strict=True))
            given: Any = indices[part].copy()  # the caller may change them
            if not self.one_chunk:
                given = self.held[block] = find_places(given, self.first(block), self.rule)
            self.tasks[(self.name, *block)] = given

    def key(self, points: Block) -> Any:
        """Return the key of what a task is given of a block of points."""
        return (self.name, *self._block(points))

    def first(self, points: Block) -> list[int]:
        """Return the position of a block's first index among all of them."""
        return [starts[i] for starts, i in zip(self.starts, self._block(points), strict=True)]

    def hits(self, points: Block) -> Sequence[int]:
        """Return the numbers of the chunks that a block of points leads to: all that it may, if they are not known."""
        held = self.held.get(self._block(points))
        return self.every if held is None else held.hits()

    def leads_to(self, points: Block, number: int) -> bool:
        """Tell whether a block of points may lead to a chunk."""
        held = self.held.get(self._block(points))
        return held is None or held.ends[number + 1] > held.ends[number]

    def pick(self, points: Block, number: int) -> Any:
        """Return the key of the tuples that lead from a block of points into a chunk."""
        block = self._block(points)
        key = (self.picks, number, *block)
        if key not in self.tasks:
            held = self.held.get(block)
            pick: Any = (methodcaller("tuples", number), (self.name, *block))
            self.tasks[key] = pick if held is None else held.tuples(number)
        return key

    def _block(self, points: Block) -> Block:
        return (*points, *[0] * (len(self.chunks) - len(points)))  # a tuple is never cut


def cut_indices(geometry: Geometry, block_points: int) -> Chunks:
    """Return the chunk sizes of indices in memory: blocks follow the data's chunks, and have `block_points` at most."""
    shape = geometry.indices.shape
    chunks: list[Any] = [(size,) for size in shape]
    if 0 not in shape:
        chunks[: geometry.points] = ["auto"] * geometry.points
    for d, sizes in geometry.shared_chunks(shape).items():
        chunks[d] = sizes
    limit = block_points * len(geometry.axes) * np.dtype(np.int64).itemsize
    found: Chunks = normalize_chunks(tuple(chunks), shape, limit=limit, dtype=np.int64)
    return found
