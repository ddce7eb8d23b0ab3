"""top_k on Dask arrays: the best of each chunk, then, eight at a time, the best of these.

Candidates stand in the order of their chunks, and equal ones of a chunk by their position: so of equal elements the one
with the lower index stands first, and wins as it does in memory.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np
from dask.base import tokenize

from .._core.spec import Spec
from ..ops import gather_elements, top_k
from .graphs import is_held, lazy, starts_of, task

#: How many chunks' candidates are merged at once.
SPLIT_EVERY = 8


@task
def select(chunk: Any, start: int, k: int, axis: int, **order: Any) -> tuple[Any, Any]:
    """Return the best elements of a chunk that begins at `start`, and their positions in whole lines."""
    values, indices = top_k(chunk, min(k, chunk.shape[axis]), axis=axis, index_dtype=np.int64, **order)
    indices += start
    return values, indices


@task
def merge(parts: list[tuple[Any, Any]], k: int, axis: int, **order: Any) -> tuple[Any, Any]:
    """Return the best of several chunks' candidates, which stand in the order of the chunks."""
    values, indices = (np.concatenate(arrays, axis) for arrays in zip(*parts, strict=True))
    best, places = top_k(values, min(k, values.shape[axis]), axis=axis, **order)
    return best, gather_elements(indices, places, axis=axis)


def positions(pair: tuple[Any, Any], dtype: np.dtype[Any]) -> Any:
    """Return the indices of a selection as the dtype that was asked for."""
    return pair[1].astype(dtype, copy=False)


def build(spec: Spec, descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy values and indices."""
    (a,) = arrays
    axis, k = descriptor.axis, descriptor.k
    how = {"k": k, "axis": axis, "mode": given["mode"], "nan": given["nan"]}
    token = tokenize(a.name, given)
    name = f"top_k-pairs-{token}"
    starts, others = starts_of(a.chunks[axis]), a.numblocks[:axis] + a.numblocks[axis + 1 :]
    begin, held = f"top_k-start-{token}", len(starts) > 1 and is_held(a)
    # Dask would fuse a chunk in memory with its only dependent, which costs more than a small top_k; a second one,
    # the chunk's start, prevents it.
    tasks: dict[Any, Any] = {(begin, i): start for i, start in enumerate(starts)} if held else {}
    for other in product(*map(range, others)):
        block = (*other[:axis], 0, *other[axis:])
        keys = []
        for i, start in enumerate(starts):
            source = (a.name, *other[:axis], i, *other[axis:])
            keys.append((f"top_k-select-{token}", i, *block))
            tasks[keys[-1]] = (partial(select, **how), source, (begin, i) if held else start)
        level = 0
        while len(keys) > 1:
            groups = [keys[first : first + SPLIT_EVERY] for first in range(0, len(keys), SPLIT_EVERY)]
            keys = [(f"top_k-merge-{token}", level, i, *block) for i in range(len(groups))]
            tasks.update({key: (partial(merge, **how), group) for key, group in zip(keys, groups, strict=True)})
            level += 1
        tasks[(name, *block)] = tasks.pop(keys[0])
    chunks = (*a.chunks[:axis], (k,), *a.chunks[axis + 1 :])
    value_type, index_type = (getattr(descriptor, field).dtype for field in descriptor.output_fields)
    pairs = lazy(name, tasks, chunks, value_type, [a])
    results = []
    for output, taken, dtype in (
        ("values", itemgetter(0), value_type),
        ("indices", partial(positions, dtype=index_type), index_type),
    ):
        name = f"top_k-{output}-{token}"
        blocks = product(*map(range, pairs.numblocks))
        tasks = {(name, *block): (taken, (pairs.name, *block)) for block in blocks}
        results.append(lazy(name, tasks, chunks, dtype, [pairs]))
    return results
