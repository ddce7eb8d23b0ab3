"""The one cache of calls: what computes a descriptor for one memory layout on one target."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from . import targets
from .descriptor import Descriptor
from .devices.libraries import library_of_type
from .operands import operands, out_strides
from .spec import Spec

MAX_CALLS = 4096
#: Up to MAX_KEPT calls are kept beside these, 1 to 2 KB each; one new call in RENEWED replaces the oldest of them.
MAX_KEPT, RENEWED = 2 * MAX_CALLS, 8

#: Of each input its strides, in bytes and in the descriptor's rank, and its dtype, which may have another byte order.
Layouts = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


def build_call(
    target: str | None,
    descriptor: Descriptor,
    layouts: Layouts,
    output_shapes: tuple[tuple[int, ...], ...],
    out_strides: tuple[int, ...] | None = None,
) -> Any:
    """Return what computes a descriptor for inputs of these layouts on a target.

    `output_shapes` are the shapes that the caller sees: a function's have no leading 1s. `out_strides` describe an
    output that is written in place (a scatter's); it is packed when they are absent.
    """
    try:
        if any(tensor.element_count * tensor.itemsize >> 63 for tensor in descriptor.tensors().values()):
            raise OverflowError
        kernels = targets.kernels(targets.resolve_target(target))
        return kernels.call(descriptor, layouts, output_shapes, out_strides)
    except OverflowError:  # offsets are 64-bit numbers; no array can be so large, but a descriptor can
        raise ValueError(
            f"{descriptor.function}: found a tensor of 2**63 bytes or more, expected a smaller one"
        ) from None


#: Calls by their keys, in the order in which they were built: see `cached_call`.
_kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_built = count(1)


@lru_cache(maxsize=MAX_CALLS)
def cached_call(build: Callable[..., Any], *key: Any) -> Any:
    """Return ``build(*key)``, from the one process-wide cache when the key is known.

    That keeps what was used last, and would find nothing in a loop over more shapes than it holds. So others are kept
    beside it, of which only one in RENEWED that are built takes the place of the oldest.
    """
    asked = (build, *key)
    call = _kept.get(asked)
    if call is None:
        call = build(*key)
        full = len(_kept) >= MAX_KEPT
        if full and next(_built) % RENEWED == 0:
            with suppress(KeyError):  # another thread has cleared it
                _kept.popitem(last=False)
            full = False
        if not full:
            _kept[asked] = call
    return call


#: The last call for arrays on a device of what a function was asked for: the next one may be the same.
_last_calls: dict[tuple[Any, ...], Any] = {}


def call_one(
    spec: Spec, build: Any, target: str | None, stream: Any, a: Any, out: Any, parameters: tuple[Any, ...] = ()
) -> Any:
    """Make a call of a function, or of a compiled operator, with one array.

    Functions with two and three arrays have the same spelled out: a loop over arrays would take half a microsecond,
    and so would a number of parameters that is not known, which are one tuple therefore.
    """
    if a.__class__ is not ndarray or target == "cuda" or stream is not None:
        return _call_elsewhere(spec, build, target, stream, (a,), out, parameters)
    try:
        call = cached_call(build, a.shape, a.strides, a.dtype, parameters, target)
    except TypeError:
        _check_hashable(spec, *parameters, target)
        raise
    return call(a, out)


def call_two(
    spec: Spec,
    build: Any,
    target: str | None,
    stream: Any,
    a: Any,
    indices: Any,
    out: Any,
    parameters: tuple[Any, ...] = (),
) -> Any:
    """Make a call with two arrays; see `call_one`."""
    if a.__class__ is not ndarray or indices.__class__ is not ndarray or target == "cuda" or stream is not None:
        return _call_elsewhere(spec, build, target, stream, (a, indices), out, parameters)
    try:
        call = cached_call(
            build, a.shape, a.strides, a.dtype, indices.shape, indices.strides, indices.dtype, parameters, target
        )
    except TypeError:
        _check_hashable(spec, *parameters, target)
        raise
    return call(a, indices, out)


def call_three(
    spec: Spec,
    build: Any,
    target: str | None,
    stream: Any,
    inputs: tuple[Any, Any, Any],
    out: Any,
    parameters: tuple[Any, ...] = (),
) -> Any:
    """Make a call with three arrays, which may write in place, and so depends on the layout of `out`."""
    a, indices, updates = inputs
    if (
        a.__class__ is not ndarray
        or indices.__class__ is not ndarray
        or updates.__class__ is not ndarray
        or target == "cuda"
        or stream is not None
    ):
        return _call_elsewhere(spec, build, target, stream, inputs, out, parameters)
    try:
        call = cached_call(
            build,
            out.strides if out.__class__ is ndarray else out_strides(spec.name, out, target),
            a.shape,
            a.strides,
            a.dtype,
            indices.shape,
            indices.strides,
            indices.dtype,
            updates.shape,
            updates.strides,
            updates.dtype,
            parameters,
            target,
        )
    except TypeError:
        _check_hashable(spec, *parameters, target)
        raise
    return call(a, indices, updates, out)


def _call_elsewhere(
    spec: Spec,
    build: Any,
    target: str | None,
    stream: Any,
    inputs: tuple[Any, ...],
    out: Any,
    parameters: tuple[Any, ...],
) -> Any:
    """Make a call for arrays that are not all NumPy's, or on a device."""
    asked = last = None
    library = library_of_type(inputs[0].__class__)
    if library is not None and library.repeats and stream is None and target in (None, "cuda"):
        # That is not all that a call depends on, but it knows by itself whether it can be repeated.
        asked = (build, inputs[0].dtype, *(getattr(value, "shape", None) for value in inputs), parameters)
        try:
            last = _last_calls.get(asked)
        except TypeError:  # whoever checks the arguments says which one is no number
            asked = None
    if last is not None:
        result = last.repeat(*inputs, out=out)
        if result is not None:
            return result
    if any(map(targets.is_chunked, inputs)):
        return targets.chunked_calls().call(spec, inputs, out, parameters, target, stream)
    *arrays, target = operands(spec.name, target, stream, *inputs)
    layout = [field for array in arrays for field in (array.shape, array.strides, array.dtype)]
    if len(inputs) > 2:
        layout.insert(0, out_strides(spec.name, out, target))
    try:
        call = cached_call(build, *layout, parameters, target)
    except TypeError:
        _check_hashable(spec, *parameters, target)
        raise
    if asked is not None and target == "cuda":
        if len(_last_calls) >= MAX_CALLS:
            _last_calls.pop(next(iter(_last_calls)), None)
        _last_calls[asked] = call
    return call(*arrays, out)


def _check_hashable(spec: Spec, *values: Any) -> None:
    """Find out which parameter cannot even be looked up: a list as `bounds`."""
    for name, value in zip((*(one.name for one in spec.parameters), "target"), values, strict=False):
        try:
            hash(value)
        except TypeError:  # noqa: PERF203
            raise TypeError(f"{spec.name}: {name}: found {value!r}, expected a single value") from None


class CacheInfo(NamedTuple):
    """The state of the cache: calls found, calls built, the most it keeps, and what it holds now."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


def cache_info() -> CacheInfo:
    """Return the statistics of the cache of calls.

    Returns
    -------
    CacheInfo
        ``hits`` counts the calls whose shapes, dtypes, layout and parameters were known; nothing is validated then.
        Of those that were used longer ago than the last ``maxsize``, some are still known too, and count as misses.
        Those for arrays of PyTorch and CuPy on a device that are made again, without a look here, are not counted.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.cache_clear()
    >>> for _ in range(3):
    ...     _ = dml.gather(np.arange(4.0), np.array([3, 0]))
    >>> dml.cache_info()
    CacheInfo(hits=2, misses=1, maxsize=4096, currsize=1)
    """
    info = cached_call.cache_info()
    return CacheInfo(info.hits, info.misses, MAX_CALLS, info.currsize)


def clear_calls() -> None:
    """Forget every cached call, and reset the statistics."""
    cached_call.cache_clear()
    _kept.clear()
    _last_calls.clear()
