"""argmin and argmax of Dask arrays: the winner of each chunk, then, eight at a time, the winner of these.

Over several axes chunks do not stand in the order of positions: of equal elements, positions decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from dask.base import tokenize

from .. import ops
from .graphs import Block, in_memory_of, lazy, merge_all, starts_of, task, whole_lines

Winners = tuple[Any, Any]  #: the winners of a chunk or of several, and their positions over the axes of the whole array


@task
def select(chunk: Any, starts: Sequence[int], sizes: Sequence[int], axes: Sequence[int], call: Any) -> Winners:
    """Return the winners of a chunk that begins at `starts`, where the axes have `sizes` as a whole."""
    rest = call(chunk, axis=axes, keepdims=True, index_dtype=np.int64)
    positions, step = np.zeros_like(rest), 1
    places: list[Any] = [
        in_memory_of(np.arange(n).reshape([n if e == d else 1 for e in range(chunk.ndim)]), rest)
        for d, n in enumerate(rest.shape)
    ]
    for d, start, size in reversed(list(zip(axes, starts, sizes, strict=True))):
        places[d] = rest % chunk.shape[d]
        rest = rest // chunk.shape[d]
        positions += (places[d] + start) * step
        step *= size
    return chunk[tuple(places)], positions


@task
def merge(parts: list[Winners], last: bool, call: Any) -> Winners:
    """Return the winners of several chunks; of equal ones that of the lowest position, or the highest."""
    values, positions = (np.stack(arrays) for arrays in zip(*parts, strict=True))
    best = ops.gather_elements(values, call(values, axis=0, keepdims=True), axis=0)
    ties = (values == best) | ((values != values) & (best != best))
    if last:
        return best[0], np.where(ties, positions, -1).max(axis=0)
    return best[0], np.where(ties, positions, np.iinfo(np.int64).max).min(axis=0)


def result(winners: Winners, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return the positions without some axes of size 1."""
    return winners[1].squeeze(axis=axes).astype(dtype, copy=False)


def _merged(name: str, a: Any, block: Block, axes: Sequence[int], select_one: Any, merge_some: Any) -> tuple[Any, Any]:
    """Return the tasks for a block of lines, and the key of their winners."""
    begins = [starts_of(a.chunks[d]) for d in axes]
    tasks: dict[Any, Any] = {}
    for numbers in product(*(range(a.numblocks[d]) for d in axes)):
        source = list(block)
        for d, i in zip(axes, numbers, strict=True):
            source[d] = i
        if all(a.chunks[d][i] for d, i in zip(axes, numbers, strict=True)):
            starts = [starts[i] for starts, i in zip(begins, numbers, strict=True)]
            tasks[(f"{name}-select", *source)] = (partial(select_one, starts=starts), (a.name, *source))
    return tasks, merge_all(tasks, list(tasks), merge_some, name, block)


def build(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy positions."""
    (a,) = arrays
    axes, dtype = tuple(sorted(descriptor.axes)), descriptor.output_tensor.dtype
    keepdims, rules = given["keepdims"], {"ties": given["ties"], "nan": given["nan"]}
    name = f"{descriptor.function}-{tokenize(a.name, axes, keepdims, rules, dtype)}"
    whole = all(a.numblocks[d] == 1 for d in axes)
    call = partial(getattr(ops, descriptor.function), **rules)
    select_one = partial(select, sizes=[a.shape[d] for d in axes], axes=axes, call=call)
    merge_some = partial(merge, last=given["ties"] == "last", call=call)
    find_one = partial(
        whole_lines, function=descriptor.function, axis=axes, keepdims=keepdims, index_dtype=dtype, **rules
    )
    end = partial(result, axes=() if keepdims else axes, dtype=dtype)
    tasks: dict[Any, Any] = {}
    for block in np.ndindex(*(1 if d in axes else n for d, n in enumerate(a.numblocks))):
        key = (name, *(i for d, i in enumerate(block) if keepdims or d not in axes))
        if whole:
            tasks[key] = (find_one, (a.name, *block))
            continue
        steps, winners = _merged(name, a, block, axes, select_one, merge_some)
        tasks.update(steps)
        tasks[key] = (end, winners)
    chunks = [(1,) if d in axes else sizes for d, sizes in enumerate(a.chunks) if keepdims or d not in axes]
    return [lazy(name, tasks, chunks, dtype, [a])]
