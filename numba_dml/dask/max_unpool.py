"""max_unpool of Dask arrays: chunks are those of the batch, and all that indices count through is one chunk."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .._core.spec import Spec
from .._core.targets import is_chunked
from .graphs import in_memory_of, lazy, starts_of, task, with_chunks
from .places import error_at


@task
def unpool_chunk(chunk: Any, indices: Any, first: list[int], rest: tuple[int, ...], given: dict[str, Any]) -> Any:
    """Return what a chunk is unpooled to, with sizes of `rest` behind the batch; it begins at `first` among all."""
    batch = given["batch_dims"]
    indices = in_memory_of(indices, chunk)
    try:
        return ops.max_unpool(chunk, indices, (*chunk.shape[:batch], *rest), **given)
    except IndexError as error:
        size = prod(rest)
        wrong = (indices < -size) | (indices >= size)
        raise error_at("max_unpool", indices, wrong, first, batch, size) from error


def build(spec: Spec, descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result."""
    a, indices, *_ = arrays
    batch, shape = descriptor.batch_dimension_count, descriptor.output_tensor.sizes
    bounds = "raise" if descriptor.bounds == "deferred" else descriptor.bounds
    fill_value = getattr(given["fill_value"], "value", given["fill_value"])
    given = {"batch_dims": batch, "fill_value": fill_value, "unique": given["unique"], "bounds": bounds}
    leader = a if is_chunked(a) else indices
    chunks = (*leader.chunks[:batch], *((size,) for size in a.shape[batch:]))
    a, indices = with_chunks(a, chunks), with_chunks(indices, chunks)
    name = f"{spec.name}-{tokenize(a.name, indices.name, shape, given)}"
    starts = [starts_of(sizes) for sizes in chunks]
    tasks: dict[Any, Any] = {}
    for block in np.ndindex(a.numblocks):
        first = [begins[i] for begins, i in zip(starts, block, strict=True)]
        unpool = partial(unpool_chunk, first=first, rest=shape[batch:], given=given)
        tasks[(name, *block)] = (unpool, (a.name, *block), (indices.name, *block))
    chunks = (*chunks[:batch], *((size,) for size in shape[batch:]))
    return [lazy(name, tasks, chunks, descriptor.output_tensor.dtype, [a, indices])]
