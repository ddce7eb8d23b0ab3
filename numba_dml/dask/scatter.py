"""Scatters into Dask arrays: each chunk applies the updates that fall into it, block after block of indices.

Blocks are intervals of the row-major order of the updates, and so are the updates of a block that a chunk is given: so
an element meets its updates in the same order as in memory.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks
from dask.base import tokenize

from .. import ops
from .._core.targets import is_chunked
from .arguments import Geometry, IndexBlocks, cut_indices, move_chunk
from .graphs import Block, Chunks, in_memory_of, lazy, rechunked, task
from .places import Places


def pick(places: Places, updates: Any, number: int) -> tuple[Any, Any]:
    """Return where the updates of a block go in a chunk, and those that go there."""
    shared = len(places.shape)
    flat = updates.reshape((prod(places.shape), *updates.shape[shared:]))
    return places.tuples(number), flat[in_memory_of(places.points(number), flat)]


@task
def scatter_part(chunk: Any, picked: tuple[Any, Any], reduction: str, unique: bool) -> Any:
    """Return a chunk with the updates that were picked for it: the chunk itself if there are none."""
    places, updates = picked
    if not len(places):
        return chunk
    return ops.scatter_nd(
        chunk, in_memory_of(places, chunk), in_memory_of(updates, chunk), reduction=reduction, unique=unique
    )


def build(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result."""
    a, indices, updates = arrays
    spec = descriptor.spec
    token = tokenize(spec.name, *(getattr(array, "name", array) for array in arrays), given)
    dtype = descriptor.output_tensor.dtype
    geometry = Geometry(spec, a, indices, given)
    indices, a = geometry.indices, geometry.a.astype(dtype, copy=False)
    example = next((array for array in (indices, updates) if is_chunked(array)), None)
    if example is None:
        index_chunks = cut_indices(geometry, prod(indices.shape))
    else:
        rest = tuple((size,) for size in indices.shape[geometry.points :])
        index_chunks = (*_in_order(geometry, example.chunks[: geometry.points]), *rest)
    blocks = IndexBlocks(geometry, index_chunks, token)
    inner = tuple(a.chunks[d] for d in geometry.inner)
    chunks = (*blocks.chunks[: geometry.points], *inner)
    updates = rechunked(updates, chunks) if is_chunked(updates) else da.from_array(updates, chunks=chunks)
    updates = updates.astype(dtype, copy=False)
    name = f"{spec.name}-{token}"
    tasks: dict[Any, Any] = {}
    keywords = {"reduction": given["reduction"], "unique": given["unique"]}
    for block in np.ndindex(*a.numblocks):
        key = (a.name, *block)
        number = geometry.number(block)
        inner_block = tuple(block[d] for d in geometry.inner)
        for step, points in enumerate(_blocks_of(geometry, blocks.chunks, block)):
            update = (updates.name, *points, *inner_block)
            if blocks.one_chunk:
                call = partial(
                    move_chunk, first=blocks.first(points), rule=geometry.rule, parameters=geometry.parameters
                )
                updated: Any = (call, key, blocks.key(points), update)
            elif blocks.leads_to(points, number):
                picked = (f"{spec.name}-pick-{token}", step, *block)
                tasks[picked] = (partial(pick, number=number), blocks.key(points), update)
                updated = (partial(scatter_part, **keywords), key, picked)
            else:
                continue
            key = (f"{spec.name}-step-{token}", step, *block)
            tasks[key] = updated
        tasks[(name, *block)] = tasks.pop(key, key)
    return [lazy(name, {**blocks.tasks, **tasks}, a.chunks, dtype, [a, updates, *blocks.inputs])]


def _blocks_of(geometry: Geometry, chunks: Chunks, block: Block) -> list[Block]:
    """Return the blocks of points that may lead to a block of the data, in row-major order."""
    ranges = [range(len(sizes)) for sizes in chunks[: geometry.points]]
    for d in geometry.paired:
        ranges[d] = range(block[d], min(block[d] + 1, len(ranges[d])))
    return [tuple(r[i] for r, i in zip(ranges, at, strict=True)) for at in np.ndindex(*map(len, ranges))]


def _in_order(geometry: Geometry, chunks: Chunks) -> Chunks:
    """Return chunks of points of which each is an interval of their row-major order, within what data share.

    Of several dimensions, all but one are whole or single points. Elements meet along one axis only.
    """
    result = list(chunks)
    for d, sizes in geometry.shared_chunks(tuple(map(sum, chunks))).items():
        result[d] = sizes
    free = [d for d in range(len(chunks)) if d not in geometry.paired]
    if len(free) > 1:
        most = prod(max(chunks[d]) for d in free)
        for d in reversed(free):
            size = sum(chunks[d])
            (result[d],) = normalize_chunks((min(max(most, 1), size),), (size,))
            most //= max(size, 1)
    return tuple(result)
