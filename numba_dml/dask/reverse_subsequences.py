"""reverse_subsequences of Dask arrays: the axis becomes one chunk, and lengths follow the chunks of the other ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .._core.spec import Spec
from .._core.targets import is_chunked
from .graphs import in_memory_of, lazy, starts_of, task, with_chunks
from .places import error_at


@task
def reverse_chunk(chunk: Any, lengths: Any, first: list[int], given: dict[str, Any]) -> Any:
    """Return a chunk of whole lines with their first elements reversed; its lengths begin at `first` among all."""
    lengths = in_memory_of(lengths, chunk)
    try:
        return ops.reverse_subsequences(chunk, lengths, **given)
    except IndexError as error:
        axis = given["axis"]
        size = chunk.shape[axis]
        wrong = (lengths < 0) | (lengths > size)
        raise error_at("reverse_subsequences", lengths, wrong, first, axis, size, "lengths") from error


def build(spec: Spec, descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result."""
    a, lengths = arrays
    axis = descriptor.axis
    given = {"axis": axis, "bounds": descriptor.bounds}
    leader = a if is_chunked(a) else lengths
    chunks = tuple(
        leader.chunks[d] if d != axis and leader.shape[d] == size else (size,) for d, size in enumerate(a.shape)
    )
    a = with_chunks(a, chunks)
    own = [d != axis and lengths.shape[d] == size for d, size in enumerate(a.shape)]  # lengths for each chunk
    lengths = with_chunks(
        lengths, tuple(sizes if follows else (1,) for sizes, follows in zip(chunks, own, strict=True))
    )
    name = f"{spec.name}-{tokenize(a.name, lengths.name, given)}"
    starts = [starts_of(sizes) for sizes in lengths.chunks]
    tasks: dict[Any, Any] = {}
    for block in np.ndindex(a.numblocks):
        at = [i if follows else 0 for i, follows in zip(block, own, strict=True)]
        first = [begins[i] for begins, i in zip(starts, at, strict=True)]
        reverse = partial(reverse_chunk, first=first, given=given)
        tasks[(name, *block)] = (reverse, (a.name, *block), (lengths.name, *at))
    return [lazy(name, tasks, chunks, descriptor.output_tensor.dtype, [a, lengths])]
