"""one_hot of Dask arrays: each chunk of indices gives a chunk with the whole new axis."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .._core.spec import Spec
from .graphs import lazy, starts_of, task
from .places import error_at


@task
def write_chunk(indices: Any, depth: int, first: list[int], place: int, given: dict[str, Any]) -> Any:
    """Return what stands for a chunk of indices, which begins at `first` among all."""
    try:
        return ops.one_hot(indices, depth, axis=place, **given)
    except IndexError as error:
        wrong = (indices < -depth) | (indices >= depth)
        raise error_at("one_hot", indices, wrong, first, place, depth) from error


def build(spec: Spec, descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result."""
    (indices,) = arrays
    place, dtype = descriptor.axis, descriptor.output_tensor.dtype
    values = {name: getattr(given[name], "value", given[name]) for name in ("on_value", "off_value")}
    bounds = "raise" if descriptor.bounds == "deferred" else descriptor.bounds
    depth, given = given["depth"], {**values, "dtype": dtype, "bounds": bounds}
    name = f"{spec.name}-{tokenize(indices.name, depth, place, given)}"
    starts = [starts_of(sizes) for sizes in indices.chunks]
    tasks: dict[Any, Any] = {}
    for block in np.ndindex(indices.numblocks):
        first = [begins[at] for begins, at in zip(starts, block, strict=True)]
        write = partial(write_chunk, depth=depth, first=first, place=place, given=given)
        tasks[(name, *block[:place], 0, *block[place:])] = (write, (indices.name, *block))
    chunks = (*indices.chunks[:place], (depth,), *indices.chunks[place:])
    return [lazy(name, tasks, chunks, dtype, [indices])]
