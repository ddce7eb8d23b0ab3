"""one_hot, reverse_subsequences and max_unpool of Dask arrays: a chunk of the result needs one chunk of each input.

Inputs have the same chunks, but for what every result needs as a whole, which is one chunk: the axis of subsequences,
and all that the indices of max_unpool count through.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .._core.coordinates import error_at
from .._core.spec import Spec
from .._core.targets import is_chunked
from .graphs import Chunks, in_memory_of, lazy, starts_of, task, with_chunks


@task
def call_chunk(*arrays: Any, call: Any, spec: Spec, first: list[int], axis: int, size: int, valid: range) -> Any:
    """Return what chunks give; the last are indices along an axis of a size, which begin at `first` among all."""
    *data, indices = arrays
    indices = in_memory_of(indices, arrays[0])
    try:
        return call(*data, indices)
    except IndexError as error:
        wrong = (indices < valid.start) | (indices >= valid.stop)
        raise error_at(spec.name, indices, wrong, first, axis, size, spec.inputs[-1]) from error


def _one_hot(indices: Any, depth: int, **given: Any) -> Any:
    return ops.one_hot(indices, depth, **given)


def _max_unpool(a: Any, indices: Any, rest: tuple[int, ...], batch_dims: int, **given: Any) -> Any:
    return ops.max_unpool(a, indices, (*a.shape[:batch_dims], *rest), batch_dims=batch_dims, **given)


def one_hot(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result, which has one chunk along the new axis."""
    (indices,) = arrays
    place, depth = descriptor.axis, given["depth"]
    values = {name: _plain(given[name]) for name in ("on_value", "off_value")}
    how = {"depth": depth, "axis": place, "dtype": descriptor.output_tensor.dtype, **values}
    chunks = (*indices.chunks[:place], (depth,), *indices.chunks[place:])
    return _lazy(descriptor, arrays, chunks, _one_hot, how, place, depth, range(-depth, depth))


def reverse_subsequences(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result; lengths follow the chunks of `a` where there is one for each line."""
    a, lengths = arrays
    axis = descriptor.axis
    leader = a if is_chunked(a) else lengths
    chunks = tuple(
        leader.chunks[d] if d != axis and leader.shape[d] == size else (size,) for d, size in enumerate(a.shape)
    )
    own = tuple(sizes if d != axis and lengths.shape[d] == a.shape[d] else (1,) for d, sizes in enumerate(chunks))
    inputs = [with_chunks(a, chunks), with_chunks(lengths, own)]
    size, how = a.shape[axis], {"axis": axis}
    return _lazy(descriptor, inputs, chunks, ops.reverse_subsequences, how, axis, size, range(size + 1))


def max_unpool(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result, which has the chunks of the batch."""
    a, indices, *_ = arrays
    batch, rest = descriptor.batch_dimension_count, descriptor.output_tensor.sizes[descriptor.batch_dimension_count :]
    shared = (a if is_chunked(a) else indices).chunks[:batch]
    inputs = [with_chunks(array, (*shared, *((size,) for size in a.shape[batch:]))) for array in (a, indices)]
    how = {"rest": rest, "batch_dims": batch, "fill_value": _plain(given["fill_value"]), "unique": given["unique"]}
    chunks = (*shared, *((size,) for size in rest))
    size = prod(rest)
    return _lazy(descriptor, inputs, chunks, _max_unpool, how, batch, size, range(-size, size))


def _plain(value: Any) -> Any:
    """Return a scalar as the caller gave it."""
    return getattr(value, "value", value)


def _lazy(
    descriptor: Any,
    inputs: list[Any],
    chunks: Chunks,
    call: Any,
    given: dict[str, Any],
    axis: int,
    size: int,
    valid: range,
) -> list[Any]:
    """Return the result, in chunks, of calls with `given`; indices in a range are valid along an axis of a size."""
    given = {**given, "bounds": "raise" if descriptor.bounds == "deferred" else descriptor.bounds}
    name = f"{descriptor.function}-{tokenize([array.name for array in inputs], given)}"
    call = partial(call, **given)
    starts = [starts_of(sizes) for sizes in inputs[-1].chunks]
    tasks: dict[Any, Any] = {}
    for block in np.ndindex(inputs[0].numblocks):
        # Of lengths, one chunk may be for all chunks of the data along a dimension.
        at = [min(i, n - 1) for i, n in zip(block, inputs[-1].numblocks, strict=True)]
        first = [begins[i] for begins, i in zip(starts, at, strict=True)]
        place = block if len(chunks) == len(block) else (*block[:axis], 0, *block[axis:])  # with a new axis
        sources = [*((array.name, *block) for array in inputs[:-1]), (inputs[-1].name, *at)]
        run = partial(call_chunk, call=call, spec=descriptor.spec, first=first, axis=axis, size=size, valid=valid)
        tasks[(name, *place)] = (run, *sources)
    return [lazy(name, tasks, chunks, descriptor.output_tensor.dtype, inputs)]
