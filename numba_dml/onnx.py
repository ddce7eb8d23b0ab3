"""ONNX's operators of this family, for `onnx.reference.ReferenceEvaluator`. Needs the package onnx."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from . import ops
from ._core.targets import resolve_target

__all__ = ["reference_ops"]


def reference_ops(target: str | None = None) -> tuple[type[OpRun], ...]:
    """Return the operators as implementations for ONNX's reference evaluator.

    Pass them as its `new_ops`: then the nodes ArgMax, ArgMin, CumProd, CumSum, Gather, GatherElements, GatherND,
    MaxUnpool, NonZero, OneHot, ReverseSequence, Scatter, ScatterElements, ScatterND and TopK of a model run here, of
    any opset, and all others as before. The evaluator does not pass `new_ops` on to the functions that a model defines:
    nodes inside them run as before, unless you inline them (`onnx.inliner.inline_local_functions`).

    Parameters
    ----------
    target : {"cpu", "cuda"}, optional
        Where they run: the CPU when absent, unless `numba_dml.config` or ``NUMBA_DML_TARGET`` says otherwise.
        ``"cuda"`` copies tensors in and out.

    Returns
    -------
    tuple of type
        One class for each operator.

    Raises
    ------
    ValueError
        If the target is unknown.

    Notes
    -----
    Errors name the arguments of the function that does the same; those of wrong shapes in OneHot, ReverseSequence and
    MaxUnpool name the inputs of the node.

    Ties of TopK go to the lower index, and NaN stands above +inf, as ONNX has it. ArgMax and ArgMin find a NaN before
    any number. Negative indices count from the end. An index out of range is an `IndexError`; of updates of one place
    the last one wins, which ONNX leaves open. Reductions combine in the order of the updates. CumSum adds floats as
    `numba_dml.cumulative_sum` does. OneHot leaves an index out of range without a value, ReverseSequence clamps
    lengths. The indices of MaxUnpool count through the shape that follows from its attributes, which then lies in the
    corner of `output_shape`. Strings in arrays of Python objects are a `TypeError`.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx import parser
    >>> from onnx.reference import ReferenceEvaluator
    >>> import numba_dml.onnx
    >>> model = parser.parse_model('''
    ... <ir_version: 8, opset_import: ["" : 17]>
    ... best (float[n] scores, int64[1] k) => (float[m] values, int64[m] indices)
    ... { values, indices = TopK(scores, k) }
    ... ''')
    >>> evaluator = ReferenceEvaluator(model, new_ops=numba_dml.onnx.reference_ops())
    >>> evaluator.run(None, {"scores": np.array([1, 3, 3], np.float32), "k": np.array([2])})
    [array([3., 3.], dtype=float32), array([1, 2])]
    """
    try:
        resolve_target(target)
    except ValueError as error:
        raise ValueError(f"reference_ops: {error}") from None
    return _operators(target)


def _refusal(node: str, field: str, found: Any, expected: str) -> ValueError:
    """Return the error for an input or an attribute of a node, by ONNX's names."""
    return ValueError(f"{node}: {field}: found {found}, expected {expected}")


def _only(node: str, field: str, value: Any) -> Any:
    """Return the element of an input that has one."""
    if value.size != 1:
        raise _refusal(node, field, f"shape {value.shape}", "one element")
    return value.item()


def _one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1, target: str | None) -> Any:
    whole = indices if indices.dtype.kind in "iu" else indices.astype(np.int64)
    count = _only("OneHot", "depth", np.asarray(depth))
    if not np.isfinite(count):
        raise _refusal("OneHot", "depth", count, "a number of classes")
    if np.shape(values) != (2,):
        raise _refusal("OneHot", "values", f"shape {np.shape(values)}", "(2,): what stands elsewhere and at an index")
    off, on = values
    return ops.one_hot(whole, int(count), axis=axis, on_value=on, off_value=off, bounds="drop", target=target)


def _reverse_sequence(data: Any, lengths: Any, *, batch_axis: int = 1, time_axis: int = 0, target: str | None) -> Any:
    if data.ndim < 2:
        raise _refusal("ReverseSequence", "input", f"{data.ndim} dimensions", "at least 2")
    for name, axis in (("batch_axis", batch_axis), ("time_axis", time_axis)):
        if not 0 <= axis < data.ndim:
            raise _refusal("ReverseSequence", name, axis, f"0 to {data.ndim - 1}")
    if time_axis == batch_axis:
        raise _refusal("ReverseSequence", "time_axis", time_axis, "another axis than batch_axis")
    batch = (data.shape[batch_axis],)
    if lengths.shape != batch:
        raise _refusal("ReverseSequence", "sequence_lens", f"shape {lengths.shape}", f"{batch}, the size of batch_axis")
    sizes = [-1 if d == batch_axis else 1 for d in range(data.ndim)]
    return ops.reverse_subsequences(data, lengths.reshape(sizes), axis=time_axis, bounds="clamp", target=target)


def _max_unpool(
    data: Any,
    indices: Any,
    output_shape: Any = None,
    *,
    kernel_shape: Any,
    pads: Any = None,
    strides: Any = None,
    target: str | None,
) -> Any:
    count = len(kernel_shape)
    steps, around = strides or [1] * count, pads or [0] * (2 * count)
    if data.ndim != count + 2:
        raise _refusal("MaxUnpool", "X", f"{data.ndim} dimensions", f"{count + 2}, two more than kernel_shape tells of")
    if indices.shape != data.shape:
        raise _refusal("MaxUnpool", "I", f"shape {indices.shape}", f"{data.shape}, that of X")
    for name, numbers, wanted in (("strides", steps, count), ("pads", around, 2 * count)):
        if len(numbers) != wanted:
            raise _refusal("MaxUnpool", name, f"{len(numbers)} numbers", f"{wanted}")
    columns = data.shape[2:], steps, around[:count], around[count:], kernel_shape
    inner = [(n - 1) * step - before - after + kernel for n, step, before, after, kernel in zip(*columns, strict=True)]
    shape = (*data.shape[:2], *inner)
    if min(inner, default=0) < 0:
        raise _refusal("MaxUnpool", "pads", around, f"numbers that leave sizes of at least 0, not {shape}")
    whole = shape if output_shape is None else np.asarray(output_shape)
    if np.shape(whole) != (data.ndim,) or np.less(whole, shape).any():
        expected = f"{data.ndim} sizes of at least {shape}, the shape that follows from the attributes"
        raise _refusal("MaxUnpool", "output_shape", np.asarray(whole).tolist(), expected)
    found = ops.max_unpool(data, indices, shape, bounds="raise", target=target)
    if tuple(whole) == shape:
        return found
    larger = np.zeros(whole, found.dtype)
    larger[tuple(map(slice, found.shape))] = found
    return larger


def _nonzero(data: Any, *, target: str | None) -> Any:
    found: Any = ops.nonzero_coordinates(data, index_dtype="int64", target=target)
    return np.ascontiguousarray(found.T)


def _top_k(data: Any, counts: Any = None, *, k: Any = None, largest: int = 1, sorted: int = 1, **given: Any) -> Any:
    count = k if counts is None else _only("TopK", "K", counts)  # up to opset 9 it is an attribute
    mode: Any = "smallest" if largest == 0 else "largest"
    return ops.top_k(data, count, mode=mode, sorted=sorted != 0, nan="largest", index_dtype="int64", **given)


def _cumulative(
    node: str, function: Any, data: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0, target: str | None
) -> Any:
    flags = {"exclusive": exclusive != 0, "reverse": reverse != 0}
    return function(data, axis=_only(node, "axis", axis), dtype=data.dtype, **flags, target=target)


def _extreme(find: Any, data: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0, target: Any) -> Any:
    ties = "last" if select_last_index else "first"
    return find(data, axis=axis, keepdims=keepdims != 0, ties=ties, index_dtype="int64", target=target)


#: What computes each operator.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ArgMax": partial(_extreme, ops.argmax),
    "ArgMin": partial(_extreme, ops.argmin),
    "CumProd": partial(_cumulative, "CumProd", ops.cumulative_prod),
    "CumSum": partial(_cumulative, "CumSum", ops.cumulative_sum),
    "Gather": partial(ops.gather, bounds="raise"),
    "GatherElements": partial(ops.gather_elements, bounds="raise"),
    "GatherND": partial(ops.gather_nd, bounds="raise"),
    "MaxUnpool": _max_unpool,
    "NonZero": _nonzero,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": partial(ops.scatter_elements, bounds="raise"),
    "ScatterElements": partial(ops.scatter_elements, bounds="raise"),
    "ScatterND": partial(ops.scatter_nd, bounds="raise"),
    "TopK": _top_k,
}


def _operator(name: str, function: Callable[..., Any]) -> type[OpRun]:
    """Return the class of an operator: the evaluator goes by its name."""

    def run(self: OpRun, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        found = function(*inputs, **{name: value for name, value in attributes.items() if value is not None})
        return tuple(found) if isinstance(found, tuple) else (found,)

    # Scatter is what ScatterElements was called up to opset 10.
    members = {"op_schema": onnx.defs.get_schema("Scatter", 10)} if name == "Scatter" else {}
    return type(name, (OpRun,), {"_run": run, **members})


@cache
def _operators(target: str | None) -> tuple[type[OpRun], ...]:
    return tuple(_operator(name, partial(function, target=target)) for name, function in _FUNCTIONS.items())
