"""top_k on Dask arrays: the best of each chunk, then, eight at a time, the best of these.

Candidates stand in the order of their chunks, and equal ones of a chunk by their position: so of equal elements the one
with the lower index stands first, and wins as it does in memory.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
from dask.base import tokenize

from ..ops import gather_elements, top_k
from .graphs import Block, is_held, lazy, merge_all, starts_of, task

#: Bytes of neighbouring chunks in memory that one task selects from: Dask takes as long for a task as `top_k` for 2 MB.
TOGETHER = 4 << 20

Pair = tuple[Any, Any]  #: the best elements of a chunk or of several, and their positions in whole lines
Tasks = dict[Any, Any]
Places = dict[Block, tuple[Any, int]]  #: of each chunk of the results the task that selects it, and its number there


@task
def select(chunks: list[Any], start: int, k: int, axis: int, **order: Any) -> list[Pair]:
    """Return the best elements of each chunk, and their positions in whole lines, where it begins at `start`."""
    pairs = []
    for chunk in chunks:
        values, indices = top_k(chunk, min(k, chunk.shape[axis]), axis=axis, index_dtype=np.int64, **order)
        indices += start
        pairs.append((values, indices))
    return pairs


@task
def merge(parts: list[list[Pair]], k: int, axis: int, **order: Any) -> list[Pair]:
    """Return the best of several chunks' candidates, which stand in the order of the chunks."""
    pairs = [pair for part in parts for pair in part]
    values, indices = (np.concatenate(arrays, axis) for arrays in zip(*pairs, strict=True))
    best, places = top_k(values, min(k, values.shape[axis]), axis=axis, **order)
    return [(best, gather_elements(indices, places, axis=axis))]


def part_of(pairs: list[Pair], number: int, which: int, dtype: np.dtype[Any]) -> Any:
    """Return the values or the indices of one of the selections of a task, as the dtype that was asked for."""
    return pairs[number][which].astype(dtype, copy=False)


def select_whole_lines(a: Any, how: dict[str, Any], name: str) -> tuple[Tasks, Places]:
    """Return the tasks if chunks have whole lines."""
    tasks: Tasks = {}
    places: Places = {}
    blocks = list(np.ndindex(a.numblocks))
    largest = prod(map(max, a.chunks)) * a.dtype.itemsize
    count = max(TOGETHER // max(largest, 1), 1) if is_held(a) else 1  # others are fused with the tasks that make them
    for first in range(0, len(blocks), count):
        group, key = blocks[first : first + count], (name, first)
        tasks[key] = (partial(select, **how), [(a.name, *block) for block in group], 0)
        places.update({block: (key, number) for number, block in enumerate(group)})
    return tasks, places


def select_and_merge(a: Any, how: dict[str, Any], name: str) -> tuple[Tasks, Places]:
    """Return the tasks if lines are in several chunks."""
    tasks: Tasks = {}
    places: Places = {}
    axis = how["axis"]
    starts, others = starts_of(a.chunks[axis]), a.numblocks[:axis] + a.numblocks[axis + 1 :]
    held = is_held(a)
    # Dask would fuse a chunk in memory with its only dependent, which costs more than a small top_k; a second one,
    # the chunk's start, prevents it.
    if held:
        tasks.update({(f"{name}-start", i): start for i, start in enumerate(starts)})
    for other in product(*map(range, others)):
        block = (*other[:axis], 0, *other[axis:])
        keys: list[Any] = []
        for i, start in enumerate(starts):
            source = (a.name, *other[:axis], i, *other[axis:])
            keys.append((f"{name}-select", i, *block))
            tasks[keys[-1]] = (partial(select, **how), [source], (f"{name}-start", i) if held else start)
        places[block] = merge_all(tasks, keys, partial(merge, **how), name, block), 0
    return tasks, places


def build(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy values and indices."""
    (a,) = arrays
    axis, k = descriptor.axis, descriptor.k
    how = {"k": k, "axis": axis, "mode": given["mode"], "nan": given["nan"]}
    token = tokenize(a.name, given)
    name = f"top_k-pairs-{token}"
    tasks, places = (select_whole_lines if a.numblocks[axis] == 1 else select_and_merge)(a, how, name)
    chunks = (*a.chunks[:axis], (k,), *a.chunks[axis + 1 :])
    types = [getattr(descriptor, field).dtype for field in descriptor.output_fields]
    pairs = lazy(name, tasks, chunks, types[0], [a])
    results = []
    for which, (output, dtype) in enumerate(zip(descriptor.spec.outputs, types, strict=True)):
        name, part = f"top_k-{output}-{token}", partial(part_of, which=which, dtype=dtype)
        tasks = {(name, *block): (part, key, number) for block, (key, number) in places.items()}
        results.append(lazy(name, tasks, chunks, dtype, [pairs]))
    return results
