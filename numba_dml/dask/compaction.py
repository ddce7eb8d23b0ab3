"""nonzero_coordinates of Dask arrays with a size: the first ones of each chunk, then, eight at a time, of these.

A place is one number, the position in row-major order of the whole array: in any chunks, the lowest are the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .graphs import lazy, merge_all, starts_of, task

Found = tuple[int, Any]  #: how many elements are not zero, and the places of the first ones, ascending


@task
def select(chunk: Any, starts: Sequence[int], shape: Sequence[int], size: int) -> Found:
    """Return what a chunk has that begins at `starts` in an array of a shape."""
    room = min(size, chunk.size)
    count, rows = ops.nonzero_coordinates(chunk, size=room, bounds="drop", index_dtype=np.int64)
    places, step = np.zeros_like(rows, shape=len(rows)), 1
    for d in reversed(range(len(shape))):
        places += (rows[:, d] + starts[d]) * step
        step *= shape[d]
    return int(count), places[: int(count)]


@task
def merge(parts: list[Found], size: int) -> Found:
    """Return what several chunks have."""
    counts, places = zip(*parts, strict=True)
    return sum(counts), np.sort(np.concatenate(places), kind="stable")[:size]


@task
def finish(found: Found, shape: Sequence[int], size: int, fill_value: int, types: Any, bounds: str) -> tuple[Any, Any]:
    """Return the count and the rows."""
    count, places = found
    if count > size and bounds == "raise":
        raise ValueError(f"nonzero_coordinates: size: found {count} nonzero elements, expected at most {size}")
    number = np.full_like(places, count, types[0], shape=())
    rows = np.full_like(places, fill_value, types[1], shape=(size, len(shape)))
    for d in reversed(range(len(shape))):
        rows[: len(places), d] = places % max(shape[d], 1)
        places = places // max(shape[d], 1)
    return number, rows


def build(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy count and coordinates."""
    (a,) = arrays
    size, types = given["size"], tuple(getattr(descriptor, field).dtype for field in descriptor.output_fields)
    bounds = "drop" if descriptor.bounds == "drop" else "raise"
    how = {"size": size, "fill_value": given["fill_value"], "types": types, "bounds": bounds}
    token = tokenize(a.name, how)
    name = f"nonzero-found-{token}"
    starts = [starts_of(sizes) for sizes in a.chunks]
    tasks: dict[Any, Any] = {}
    for block in np.ndindex(a.numblocks):
        begins = [begins[i] for begins, i in zip(starts, block, strict=True)]
        tasks[(f"{name}-select", *block)] = (partial(select, starts=begins, shape=a.shape, size=size), (a.name, *block))
    merged = merge_all(tasks, list(tasks), partial(merge, size=size), name)
    tasks[(name,)] = (partial(finish, shape=a.shape, **how), merged)
    found = lazy(name, tasks, (), types[0], [a])
    results = []
    for i, chunks in enumerate(((), ((size,), (a.ndim,)))):
        name = f"nonzero-{descriptor.spec.outputs[i]}-{token}"
        block = (0,) * len(chunks)
        results.append(lazy(name, {(name, *block): (itemgetter(i), (found.name,))}, chunks, types[i], [found]))
    return results
