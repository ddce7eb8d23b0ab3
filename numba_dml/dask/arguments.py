"""The inputs of a gather or a scatter: their chunks are brought together, and indices cut into blocks."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks

from .._core.shapes import ELEMENTS, TUPLES
from .._core.spec import Spec
from .._core.targets import is_chunked
from .graphs import Block, Chunks, cut, starts_of
from .places import Geometry, find_places


def paired_dimensions(spec: Spec, a: Any, given: dict[str, Any]) -> list[int]:
    """Return the dimensions that data and indices share: batches, or those off the axis of elements."""
    if spec.addressing == TUPLES:
        return list(range(given["batch_dims"]))
    return [d for d in range(a.ndim) if d != given["axis"] % a.ndim] if spec.addressing == ELEMENTS else []


def with_pairs(spec: Spec, a: Any, indices: Any, given: dict[str, Any]) -> tuple[Any, Any]:
    """Return data and indices with the same chunks in the dimensions that they share; indices follow the data.

    Data in memory become a Dask array whose chunks follow those of the indices.
    """
    shared = paired_dimensions(spec, a, given)
    if not is_chunked(a):
        chunks = [(size,) for size in a.shape]
        for d in shared:
            rest = a.shape[d] - indices.shape[d]
            if rest >= 0 and is_chunked(indices):
                chunks[d] = (*indices.chunks[d], rest) if rest else indices.chunks[d]
        a = da.from_array(a, chunks=tuple(chunks), asarray=False)
    if is_chunked(indices):
        follow: dict[int, Any] = {
            d: cut(a.chunks[d], indices.shape[d]) for d in shared if indices.shape[d] <= a.shape[d]
        }
        if spec.addressing == TUPLES:
            follow[indices.ndim - 1] = -1
        indices = indices.rechunk(follow)
    return a, indices


class IndexBlocks:
    """The indices of a call, cut into blocks: what tasks are given of each, and which chunks it leads to.

    Attributes
    ----------
    direct : bool
        The data have one chunk on the indexed axes: tasks are given indices, else `Places`.
    chunks : tuple of tuple of int
        The sizes of the blocks.
    tasks : dict
        What makes, or holds, what tasks are given.
    inputs : list
        The Dask array of the indices, if they are one.
    """

    def __init__(self, geometry: Geometry, indices: Any, chunks: Chunks, token: str) -> None:
        self.geometry, self.direct = geometry, prod(geometry.grid) == 1
        self.name = f"{geometry.function}-indices-{token}"
        self.tasks: dict[Any, Any] = {}
        self.hit: dict[Block, list[int]] = {}
        self.chunks = chunks
        if not is_chunked(indices):
            try:
                self._hold(indices)
            except IndexError:  # which is raised when the result is computed
                self.tasks.clear()
                indices = da.from_array(indices, chunks=chunks)
        self.inputs: list[Any] = []
        if is_chunked(indices):
            indices = indices.rechunk(chunks)
            self.inputs.append(indices)
            for block in np.ndindex(*indices.numblocks):
                source = (indices.name, *block)
                find = partial(find_places, first=self.first(block), geometry=geometry)
                self.tasks[(self.name, *block)] = source if self.direct else (find, source)

    def _hold(self, indices: Any) -> None:
        """Put what tasks are given of indices in memory into the graph."""
        starts = list(map(starts_of, self.chunks))
        for block in np.ndindex(*map(len, self.chunks)):
            part = tuple(
                slice(start[i], start[i] + sizes[i]) for start, sizes, i in zip(starts, self.chunks, block, strict=True)
            )
            given: Any = indices[part]
            if not self.direct:
                given = find_places(given, self.first(block), self.geometry)
                self.hit[block] = given.hits()
            self.tasks[(self.name, *block)] = given

    def key(self, points: Block) -> Any:
        """Return the key of what a task is given of a block of points."""
        return (self.name, *self._block(points))

    def first(self, points: Block) -> list[int]:
        """Return the position of a block's first index among all of them."""
        return [starts_of(sizes)[i] for sizes, i in zip(self.chunks, self._block(points), strict=True)]

    def hits(self, points: Block) -> list[int]:
        """Return the numbers of the chunks that a block of points leads to: all that it may, if they are not known."""
        return self.hit.get(self._block(points), list(range(prod(self.geometry.grid))))

    def _block(self, points: Block) -> Block:
        return (*points, *[0] * (len(self.chunks) - len(points)))  # a tuple is never cut


def cut_indices(geometry: Geometry, indices: Any, block_points: int) -> Chunks:
    """Return the chunk sizes of indices in memory: a block has about so many points, and follows the data's chunks."""
    chunks: list[Any] = ["auto"] * geometry.points + list(
        map(tuple, np.array(indices.shape[geometry.points :])[:, None])
    )
    for d in geometry.paired:
        follows = geometry.follows(d) and indices.shape[d] <= geometry.shape[d]
        chunks[d] = cut(geometry.chunks[d], indices.shape[d]) if follows else "auto"
    limit = block_points * len(geometry.axes) * np.dtype(np.int64).itemsize
    found: Chunks = normalize_chunks(tuple(chunks), indices.shape, limit=limit, dtype=np.int64)
    return found
