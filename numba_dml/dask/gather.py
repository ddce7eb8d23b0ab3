"""Gathers from Dask arrays: the points that fall into a chunk are read there, and put together per block of indices."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .._core.shapes import SLICES
from .._core.spec import Spec
from .._core.targets import is_chunked
from .arguments import IndexBlocks, cut_indices, with_pairs
from .graphs import lazy, near, task
from .places import Geometry, Places, judged


@task
def gather_chunk(chunk: Any, indices: Any, first: list[int], geometry: Geometry) -> Any:
    """Return what a block of indices reads of the only chunk that it can reach."""
    indices = near(indices, chunk)
    try:
        return getattr(ops, geometry.function)(chunk, indices, **geometry.parameters)
    except IndexError:
        judged(geometry, indices, first)  # raises it with the position among all indices
        raise


@task
def gather_part(chunk: Any, places: Places, number: int, geometry: Geometry) -> Any:
    """Return what the points read that fall into a chunk."""
    if geometry.addressing == SLICES:
        (rows,) = places.local(number, geometry)
        return ops.gather(chunk, near(rows, chunk), axis=geometry.outer)
    return ops.gather_nd(chunk, near(places.tuples(number, geometry), chunk))


def assemble(
    places: Places, parts: list[Any], numbers: list[int], shape: tuple[int, ...], outer: int, empty: Any
) -> Any:
    """Return a block of the result: the parts that chunks gave, each at its points; a dropped point is 0."""
    if len(parts) == 1 and len(places.points(numbers[0])) == len(places.order):
        return parts[0].reshape(shape)
    new = np.zeros_like if len(places.order) > places.ends[-1] else np.empty_like
    out = new(parts[0] if parts else empty, shape=shape)
    points = len(places.shape)
    rows = out.reshape((*shape[:outer], prod(places.shape), *shape[outer + points :]))
    for number, part in zip(numbers, parts, strict=True):
        rows[(*[slice(None)] * outer, near(places.points(number), out))] = part
    return out


def build(spec: Spec, descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result."""
    a, indices = arrays
    if not a.ndim:
        a = a.reshape((1,))
    a, indices = with_pairs(spec, a, indices, given)
    geometry = Geometry(spec, a, indices, given)
    token = tokenize(spec.name, a.name, getattr(indices, "name", indices), given)
    chunk_points = max(1, prod(map(max, a.chunks)) // max(1, prod(max(a.chunks[d]) for d in geometry.inner)))
    index_chunks = indices.chunks if is_chunked(indices) else cut_indices(geometry, indices, chunk_points)
    blocks = IndexBlocks(geometry, indices, index_chunks, token)
    name, dtype = f"{spec.name}-{token}", descriptor.output_tensor.dtype
    outer, points = a.chunks[: geometry.outer], blocks.chunks[: geometry.points]
    inner = [a.chunks[d] for d in geometry.inner]
    chunks = (*outer, *points, *inner)
    empty = np.empty_like(a._meta, shape=(0,), dtype=dtype)
    tasks: dict[Any, Any] = {}
    for p in np.ndindex(*map(len, points)):
        for o, i in product(np.ndindex(*map(len, outer)), np.ndindex(*map(len, inner))):
            block = (*o, *p, *i)
            if blocks.direct:
                source = (a.name, *geometry.data_block(o, p, geometry.chunk(0), i))
                call = partial(gather_chunk, first=blocks.first(p), geometry=geometry)
                tasks[(name, *block)] = (call, source, blocks.key(p))
                continue
            numbers = blocks.hits(p)
            keys = []
            for number in numbers:
                source = (a.name, *geometry.data_block(o, p, geometry.chunk(number), i))
                keys.append((f"{spec.name}-part-{token}", number, *block))
                tasks[keys[-1]] = (partial(gather_part, number=number, geometry=geometry), source, blocks.key(p))
            sizes = tuple(sizes[at] for sizes, at in zip(chunks, block, strict=True))
            put = partial(assemble, numbers=numbers, shape=sizes, outer=geometry.outer, empty=empty)
            tasks[(name, *block)] = (put, blocks.key(p), keys)
    return [lazy(name, {**blocks.tasks, **tasks}, chunks, dtype, [a, *blocks.inputs])]
