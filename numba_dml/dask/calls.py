"""A call with Dask arrays: its arguments are checked and its results described at once, and computed later."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from .._core.config import current
from .._core.devices.libraries import library_of
from .._core.lowering import Nonzero, TopK
from .._core.operands import INDICES, host_array, index_array, update_array
from .._core.spec import Spec
from .._core.targets import is_chunked
from . import argextreme, chunkwise, compaction, gather, scan, scatter, top_k

#: What makes the graph of a call, by the family of its operator.
_FAMILIES = {
    "argextreme": argextreme.build,
    "compaction": compaction.build,
    "gather": gather.build,
    "max_unpool": chunkwise.max_unpool,
    "one_hot": chunkwise.one_hot,
    "reverse_subsequences": chunkwise.reverse_subsequences,
    "scan": scan.build,
    "scatter": scatter.build,
    "top_k": top_k.build,
}
_RESULTS: dict[str, Any] = {"compaction": Nonzero, "top_k": TopK}  #: what several results of a family are


def takes(spec: Spec, given: dict[str, Any] | None = None) -> bool:
    """Tell whether an operator takes Dask arrays, with certain parameters: the sizes of its results must be known."""
    known = given is None or spec.family != "compaction" or given.get("size") is not None
    return known and spec.family in _FAMILIES


def call(spec: Spec, inputs: tuple[Any, ...], out: Any, parameters: tuple[Any, ...], target: Any, stream: Any) -> Any:
    """Return the lazy results of a function for inputs of which one at least is a Dask array."""
    refusal = f"{spec.name}: found a Dask array, expected arrays in memory (call .compute()"
    if not takes(spec):
        raise TypeError(f"{refusal})")
    where = "chunks are computed where they are"
    target_of_operator = f"{where} (a compiled operator has a target: call the function)"
    for name, value, reason in (
        ("out", out, "a result is made when it is computed"),
        ("target", None if target == current().target else target, target_of_operator),
        ("stream", stream, where),
    ):
        if value is not None:
            found = type(value).__name__ if name == "out" else repr(value)
            raise TypeError(f"{spec.name}: {name}: found {found}, expected None with Dask arrays: {reason}")
    given = {one.name: value for one, value in zip(spec.parameters, parameters, strict=True)}
    if not takes(spec, given):
        raise TypeError(f"{refusal}, or give a size)")
    arrays: list[Any] = []
    for name, value in zip(spec.inputs, inputs, strict=True):
        arrays.append(_checked(spec.name, name, value, arrays))
    descriptor, _ = spec.describe([a.shape for a in arrays], [a.dtype for a in arrays], parameters)
    results = _FAMILIES[spec.family](descriptor, arrays, given)
    return _RESULTS[spec.family](*results) if len(results) > 1 else results[0]


def _checked(function: str, name: str, value: Any, before: list[Any]) -> Any:
    """Return an argument as a Dask array of NumPy's or CuPy's arrays, or as an array in memory."""
    if is_chunked(value):
        if any(map(isnan, value.shape)):
            raise ValueError(
                f"{function}: {name}: found chunks of unknown sizes, expected known ones (call compute_chunk_sizes())"
            )
        kind = type(value._meta)
        if kind is not np.ndarray and kind.__module__.partition(".")[0] != "cupy":
            raise TypeError(
                f"{function}: {name}: found a Dask array of {kind.__name__}, expected one of NumPy's or CuPy's arrays"
            )
        return value
    if library_of(value):
        return value
    if name in INDICES:
        return index_array(function, value, name)
    return host_array(function, name, value) if name == "a" else update_array(function, value, before[0].dtype)
