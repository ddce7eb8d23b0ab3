"""How tasks run, and how they become a Dask array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from .. import ops
from .._core.config import config
from .._core.devices.libraries import library_of
from .._core.targets import is_chunked

F = TypeVar("F", bound=Callable[..., Any])

SPLIT_EVERY = 8  #: how many chunks' results are merged at once

Sizes = tuple[int, ...]  #: the chunk sizes of one dimension
Chunks = tuple[Sizes, ...]  #: those of all dimensions
Block = tuple[int, ...]  #: the position of a chunk: a number for each dimension


def task(function: F) -> F:
    """Decorate the function of a task: kernels use one thread, since tasks run beside each other."""

    @wraps(function)
    def alone(*args: Any, **keywords: Any) -> Any:
        with config(threads=1):
            return function(*args, **keywords)

    return alone  # type: ignore[return-value]


@task
def whole_lines(chunk: Any, function: str, **given: Any) -> Any:
    """Return the results of a chunk that has whole lines."""
    return getattr(ops, function)(chunk, **given)


def in_memory_of(array: Any, chunk: Any) -> Any:
    """Return an array in the memory where a chunk is: NumPy's indices for chunks on a GPU."""
    return np.asarray(array, like=chunk) if library_of(chunk) and not library_of(array) else array


def lazy(
    name: str, tasks: dict[Any, Any], chunks: Iterable[Sizes], dtype: np.dtype[Any], inputs: Sequence[Any]
) -> da.Array:
    """Return the Dask array whose chunks the tasks of a name make; its memory is that of the first input."""
    chunks = tuple(chunks)
    graph = HighLevelGraph.from_collections(name, tasks, inputs)
    meta = np.empty_like(inputs[0]._meta, dtype)  # Dask would cast, and NumPy warn where that loses something
    return da.Array(graph, name, chunks, meta=meta_from_array(meta, ndim=len(chunks), dtype=dtype))


def rechunked(array: da.Array, chunks: Chunks) -> da.Array:
    """Return an array with other chunks; Dask leaves those of an array without elements as they are."""
    return array.rechunk(chunks) if array.size else da.zeros_like(array, chunks=chunks)


def with_chunks(array: Any, chunks: Chunks) -> da.Array:
    """Return an array as a Dask array of certain chunks."""
    return rechunked(array, chunks) if is_chunked(array) else da.from_array(array, chunks=chunks, asarray=False)


def merge_all(tasks: dict[Any, Any], keys: list[Any], merge: Any, name: str, block: Block = ()) -> Any:
    """Add the tasks that merge results, SPLIT_EVERY neighbours at once; return the key of the last one."""
    level = 0
    while len(keys) > 1:
        groups = [keys[first : first + SPLIT_EVERY] for first in range(0, len(keys), SPLIT_EVERY)]
        keys = [(f"{name}-merge", level, i, *block) for i in range(len(groups))]
        tasks.update({key: (merge, group) for key, group in zip(keys, groups, strict=True)})
        level += 1
    return keys[0]


def is_held(array: da.Array) -> bool:
    """Tell whether the chunks of an array are known, so that they have no tasks."""
    layer = array.dask.layers[array.name]
    return isinstance(layer, MaterializedLayer) and isinstance(next(iter(layer.values())), type(array._meta))


def starts_of(sizes: Sizes) -> list[int]:
    """Return where the chunks of a dimension start."""
    return [0, *np.cumsum(sizes[:-1], dtype=np.int64).tolist()]


def first_chunks(sizes: Sizes, length: int) -> Sizes:
    """Return the chunk sizes of the first `length` elements of a dimension."""
    kept: list[int] = []
    left = length
    for size in sizes:
        if left <= 0 and kept:
            break
        kept.append(min(size, left))
        left -= size
    return tuple(kept)
