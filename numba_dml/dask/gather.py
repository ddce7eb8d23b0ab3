"""Gathers from Dask arrays: the points that fall into a chunk are read there, and put together per block of indices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .._core.shapes import SLICES
from .._core.targets import is_chunked
from .arguments import Geometry, IndexBlocks, cut_indices, move_chunk
from .graphs import in_memory_of, lazy, task
from .places import Places

BLOCK_BYTES = 1 << 24  #: a block of a result has as many elements as a chunk of the data, or as fit into this


@task
def gather_part(chunk: Any, tuples: Any, axis: int | None) -> Any:
    """Return what the points read that fall into a chunk; `axis` is that of whole slices."""
    tuples = in_memory_of(tuples, chunk)
    return ops.gather_nd(chunk, tuples) if axis is None else ops.gather(chunk, tuples[:, 0], axis=axis)


def assemble(
    places: Places, parts: list[Any], numbers: Sequence[int], shape: tuple[int, ...], outer: int, empty: Any
) -> Any:
    """Return a block of the result: the parts that chunks gave, each at its points; a dropped point is 0."""
    if len(parts) == 1 and len(places.points(numbers[0])) == len(places.order):
        return parts[0].reshape(shape)
    new = np.zeros_like if len(places.order) > places.ends[-1] else np.empty_like
    out = new(parts[0] if parts else empty, shape=shape)
    points = len(places.shape)
    rows = out.reshape((*shape[:outer], prod(places.shape), *shape[outer + points :]))
    for number, part in zip(numbers, parts, strict=True):
        found = places.points(number)
        if not len(found):
            continue
        first, last = int(found[0]), int(found[-1])
        run = slice(first, last + 1) if last - first + 1 == len(found) else in_memory_of(found, out)  # they ascend
        rows[(*[slice(None)] * outer, run)] = part
    return out


def build(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result."""
    a, indices = arrays
    spec = descriptor.spec
    if not a.ndim:
        a = a.reshape((1,))
    token = tokenize(spec.name, *(getattr(array, "name", array) for array in arrays), given)
    geometry = Geometry(spec, a, indices, given)
    a, indices = geometry.a, geometry.indices
    moved = prod(max(a.chunks[d]) for d in (*range(geometry.outer), *geometry.inner))
    most = max(prod(map(max, a.chunks)), BLOCK_BYTES // a.dtype.itemsize) // max(moved, 1)
    index_chunks = indices.chunks if is_chunked(indices) else cut_indices(geometry, max(most, 1))
    blocks = IndexBlocks(geometry, index_chunks, token)
    name, dtype = f"{spec.name}-{token}", descriptor.output_tensor.dtype
    outer, points = a.chunks[: geometry.outer], blocks.chunks[: geometry.points]
    inner = [a.chunks[d] for d in geometry.inner]
    chunks = (*outer, *points, *inner)
    empty = np.empty_like(a._meta, shape=(0,), dtype=dtype)
    axis = geometry.outer if spec.addressing == SLICES else None
    tasks: dict[Any, Any] = {}
    for p in np.ndindex(*map(len, points)):
        numbers = blocks.hits(p)
        for o, i in product(np.ndindex(*map(len, outer)), np.ndindex(*map(len, inner))):
            block = (*o, *p, *i)
            if blocks.one_chunk:
                source = (a.name, *geometry.data_block(o, p, 0, i))
                call = partial(move_chunk, first=blocks.first(p), rule=geometry.rule, parameters=geometry.parameters)
                tasks[(name, *block)] = (call, source, blocks.key(p))
                continue
            keys = []
            for number in numbers:
                source = (a.name, *geometry.data_block(o, p, number, i))
                keys.append((f"{spec.name}-part-{token}", number, *block))
                tasks[keys[-1]] = (partial(gather_part, axis=axis), source, blocks.pick(p, number))
            sizes = tuple(sizes[at] for sizes, at in zip(chunks, block, strict=True))
            put = partial(assemble, numbers=numbers, shape=sizes, outer=geometry.outer, empty=empty)
            tasks[(name, *block)] = (put, blocks.key(p), keys)
    return [lazy(name, {**blocks.tasks, **tasks}, chunks, dtype, [a, *blocks.inputs])]
