"""Cumulative sums and products of Dask arrays: each chunk goes on where the one before ended.

What it needs of that is a few numbers for each line: see "The order of float sums" in docs/semantics.md.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from dask.base import tokenize

from .._core.calls import cached_call
from .._core.spec import Spec
from .._core.targets import family_calls, kernels
from .graphs import lazy, rechunked, starts_of, task, whole_lines


@task
def go_on(chunk: Any, state: Any, spec: Spec, position: int, given: dict[str, Any]) -> tuple[Any, Any]:
    """Return the results of a chunk that starts at a position of its lines, and the state that the next chunk needs.

    `state` is what the chunk before left.
    """
    descriptor, _ = spec.describe([chunk.shape], [chunk.dtype], tuple(given.values()))
    kernels("cpu")  # prepares what the calls import
    calls = family_calls("cpu", spec.name, spec.family)
    call = cached_call(calls.build_continued, descriptor, chunk.shape, chunk.dtype)
    results, left = call.go_on(np.ascontiguousarray(chunk), position, state)
    return results, left


def build(descriptor: Any, arrays: list[Any], given: dict[str, Any]) -> list[Any]:
    """Return the lazy result."""
    (a,) = arrays
    spec = descriptor.spec
    axis, reverse = descriptor.axis, given["reverse"]
    given = {**given, "axis": axis, "dtype": descriptor.output_tensor.dtype}
    token = tokenize(spec.name, a.name, given)
    name, both, state = (f"{spec.name}{part}-{token}" for part in ("", "-both", "-state"))
    if not isinstance(a._meta, np.ndarray):  # kernels of a GPU have no way to go on
        a = rechunked(a, (*a.chunks[:axis], (a.shape[axis],), *a.chunks[axis + 1 :]))
    sizes = a.chunks[axis]
    count = len(sizes)
    order = range(count)[::-1] if reverse else range(count)
    positions = dict(zip(order, starts_of(tuple(sizes[i] for i in order)), strict=True))
    tasks: dict[Any, Any] = {}
    for block in np.ndindex(a.numblocks):
        source, i = (a.name, *block), block[axis]
        if count == 1:
            tasks[(name, *block)] = (partial(whole_lines, function=spec.name, **given), source)
            continue
        first = i == order[0]
        here = {**given, "include_initial": given["include_initial"] and first}
        step = partial(go_on, spec=spec, position=positions[i], given=here)
        last = (state, *block[:axis], i + (1 if reverse else -1), *block[axis + 1 :])
        tasks[(both, *block)] = (step, source, None if first else last)
        tasks[(name, *block)] = (itemgetter(0), (both, *block))
        if i != order[-1]:  # a task of its own, so that workers send each other the state alone
            tasks[(state, *block)] = (itemgetter(1), (both, *block))
    extended = list(sizes)
    extended[order[0]] += given["include_initial"]
    chunks = (*a.chunks[:axis], tuple(extended), *a.chunks[axis + 1 :])
    return [lazy(name, tasks, chunks, descriptor.output_tensor.dtype, [a])]
