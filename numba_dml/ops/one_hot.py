"""ONE_HOT: at each index one value along a new axis, another one elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import build_call, call_one
from .._core.config import BOUNDS
from .._core.descriptor import Descriptor, Level, check_result_rank
from .._core.enums import FeatureLevel, OperatorType
from .._core.errors import integer
from .._core.shapes import axis_from_start
from .._core.spec import READ_BOUNDS, REQUIRED, Parameter, Spec, number
from .._core.spec import axis as axis_parameter
from .._core.tensor import TensorDesc, native_dtype, product
from ._shared.function import (
    Array,
    Bound,
    Exact,
    builds,
    check_data,
    check_indices,
    exact,
    public,
    refuse_positional,
    single_value,
)

SPEC = Spec(
    name="one_hot",
    family="one_hot",
    summary="write one value at each index, another one elsewhere",
    inputs=("indices",),
    operands=("indices", "values"),
    outputs=("output",),
    parameters=(
        Parameter("depth", REQUIRED, "size of the new axis", int),
        axis_parameter(-1),
        Parameter("on_value", 1, "what stands at an index", number),
        Parameter("off_value", 0, "what stands elsewhere", number),
        Parameter("dtype", None, "of the result (default: float32)", "dtype"),
        READ_BOUNDS,
    ),
    examples=("one-hot labels.npy --depth 10 -o hot.npy",),
    explain_examples=("explain one-hot --shape 1000 --depth 10",),
)


class OneHot(NamedTuple):
    """The lowering: `outer` blocks of `depth` rows with `inner` elements; each block has `inner` indices."""

    outer: int
    depth: int
    inner: int
    bounds: str


@dataclass(frozen=True)
class OneHotDesc(Descriptor):
    """DML_ONE_HOT_OPERATOR_DESC: ``output[i, j] = values[j == indices[i, 0]]``, for the last axis of two.

    Parameters
    ----------
    indices_tensor : TensorDesc
        With size 1 on the axis; elsewhere it has the output's sizes.
    values_tensor : TensorDesc
        At least two elements: the first one is for all places but those of the indices, the second for these.
    output_tensor : TensorDesc
        Of the values' data type.
    axis : int
        The axis of the output that indices lead to.
    bounds : {"drop", "raise", "clamp", "deferred"}
        What happens to an index out of range (native; see `numba_dml.one_hot`). Dropped, as DirectML does: nothing
        stands at it.
    """

    indices_tensor: TensorDesc
    values_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    _: KW_ONLY
    bounds: str = "drop"

    operator_type = OperatorType.ONE_HOT
    spec = SPEC
    levels = (*core_descriptor.MOVE_LEVELS, Level(FeatureLevel.FL_2_0, core_descriptor.TF, core_descriptor.U32, (4, 4)))
    input_fields = ("indices_tensor", "values_tensor")
    arguments = {"indices_tensor": "indices", "values_tensor": "values", "output_tensor": "out"}

    def __post_init__(self) -> None:
        self.check_tensors()
        sizes = self.indices_tensor.sizes
        self.check_range("axis", 0, len(sizes) - 1)
        self.check_choice("bounds", BOUNDS)
        if sizes[self.axis] != 1:
            raise self.refuse("indices_tensor", f"sizes {sizes}", f"size 1 on axis {self.axis}")
        if self.values_tensor.element_count < 2:
            raise self.refuse("values_tensor", f"sizes {self.values_tensor.sizes}", "at least 2 elements")
        depth = self.output_tensor.sizes[self.axis]
        self.check_output("output_tensor", (*sizes[: self.axis], depth, *sizes[self.axis + 1 :]))

    def rank_leader(self, data: str) -> str:
        """Return one of the two tensors that have the same number of dimensions: the third is wrong."""
        indices, values, output = (len(tensor.sizes) for tensor in self.tensors().values())
        return "values_tensor" if values == output != indices else "indices_tensor"

    def lower(self, strides: Sequence[tuple[int, ...]]) -> OneHot:
        """Return the lowering; the indices are packed."""
        sizes = self.output_tensor.sizes
        outer, inner = product(sizes[: self.axis]), product(sizes[self.axis + 1 :])
        return OneHot(outer, sizes[self.axis], inner, self.bounds)


def _values(on_value: Any, off_value: Any, dtype: Any) -> ndarray[Any, Any]:
    """Return both values, what stands elsewhere first, as an array of the result's dtype."""
    given = {"off_value": off_value, "on_value": on_value}
    if dtype is None:
        found = [value.value for value in given.values() if isinstance(value, Exact)]
        typed = [np.asarray(value).dtype for value in found if hasattr(value, "dtype")]
        dtype = native_dtype(typed[-1]) if typed else np.float32
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"one_hot: dtype: found {dtype!r}, expected a dtype") from None
    if not dtype.isnative:
        raise TypeError(f"one_hot: dtype: found {dtype}, expected a native dtype")
    check_data("one_hot", "dtype", dtype)
    return np.array([single_value("one_hot", name, value, dtype) for name, value in given.items()], dtype)


def _index_type(function: str, _: str, dtype: np.dtype[Any]) -> Any:
    check_indices(function, dtype)
    return dtype


@builds(SPEC, OneHotDesc.arguments, _index_type)
def _describe(indices: Array, depth: int, axis: int, on_value: Any, off_value: Any, dtype: Any, bounds: str) -> Any:
    rank = len(indices.shape)
    check_result_rank("one_hot", "indices", rank, rank + 1)
    place = axis_from_start(axis, rank + 1)
    if place < 0:
        raise ValueError(
            f"one_hot: axis: found {axis}, expected {-rank - 1} to {rank} for a result with {rank + 1} dimensions"
        )
    if depth < 0:
        raise ValueError(f"one_hot: depth: found {depth}, expected 0 or more")
    dtype = _values(on_value, off_value, dtype).dtype
    before, after = indices.shape[:place], indices.shape[place:]
    output = TensorDesc(dtype, (*before, depth, *after))
    values = TensorDesc(dtype, (1,) * rank + (2,))
    return OneHotDesc(
        TensorDesc(indices.kind, (*before, 1, *after)), values, output, place, bounds=bounds
    ), output.sizes


@wraps(_describe)
def _build(*key: Any) -> Bound:
    shape, strides, dtype, given, target = key
    descriptor, results = SPEC.describe([shape], [dtype], given)
    place, values = descriptor.axis, _values(*given[2:5])
    layouts = ((*strides[:place], 0, *strides[place:]), dtype), ((0,) * len(shape) + values.strides, values.dtype)
    return Bound(build_call(target, descriptor, layouts, results), values)


SPEC.build = _build


@public("positional")
def one_hot(
    indices: Any,
    depth: int,
    /,
    *positional: Any,
    axis: int = -1,
    on_value: Any = 1,
    off_value: Any = 0,
    dtype: Any = None,
    bounds: str | None = None,
    out: Any = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Return an array that has one value at each index along a new axis, and another one elsewhere.

    ``output[..., j] = on_value if j == indices[...] else off_value``, with the new axis at the end.

    Parameters
    ----------
    indices : array_like of int
        The places along the new axis, from ``-depth`` to ``depth - 1``, negative ones count from the end.
    depth : int
        The size of the new axis.
    axis : int
        Where the new axis stands in the result.
    on_value, off_value : scalar
        What stands at an index, and elsewhere. With a dtype of their own, the same for both, they are moved bit by
        bit. Python's numbers are converted to the result's dtype, by NumPy's rules, if it is of their kind or of a
        later one: bool, integers, floats, complex; 0 and 1 stand for False and True too, and become elements of
        every dtype of `ml_dtypes` that has them.
    dtype : dtype, optional
        Of the result, of any fixed size. When absent: that of the values, float32 if they are Python's numbers.
    bounds : {"raise", "drop", "clamp", "deferred"}, optional
        For an index out of range: raise before a result is seen (when absent too, but for `numba_dml.config`);
        `off_value` everywhere; wrap a negative once and clamp; or raise later, at `numba_dml.check` (on a device:
        `off_value` everywhere; on the CPU as raise).
    out : ndarray, optional
        Where to write: exactly the result's shape and dtype. It may overlap `indices`.
    {where}

    Returns
    -------
    ndarray, the shape of `indices` with `depth` inserted, so that it stands at position `axis` of the result
        A new array, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `indices`, `depth` or `axis` are not integers, a value has another dtype than the result, or `out` is no
        array of that dtype.
    ValueError
        If `depth` is negative, `axis`, `bounds` or the shape of `out` do not fit, a value is no scalar, or an integer
        that the dtype does not hold, or `out` is read-only or overlaps itself.
    IndexError
        If an index is out of range. With a depth of 0 every index is, unless `bounds` leaves such an index out.

    Notes
    -----
    Indices are compared at full width: 2**32 + 1 is never 1. Every element is written once. Implements
    DML_ONE_HOT_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.one_hot(np.array([0, 3, -2]), 4, dtype=int)
    array([[1, 0, 0, 0],
           [0, 0, 0, 1],
           [0, 0, 1, 0]])
    >>> dml.one_hot(np.array([1, 7]), 3, axis=0, off_value=-1.0, bounds="drop")
    array([[-1., -1.],
           [ 1., -1.],
           [-1., -1.]], dtype=float32)
    """
    if positional:
        refuse_positional("one_hot", 2, "axis", positional)
    if depth.__class__ is not int:
        depth = integer("one_hot: depth", depth)
    if axis.__class__ is not int:
        axis = integer("one_hot: axis", axis)
    if config.used:
        target, bounds = config.defaults(target, bounds)
    parameters = depth, axis, exact(on_value), exact(off_value), dtype, bounds
    return call_one(SPEC, _build, target, stream, indices, out, parameters)  # type: ignore[no-any-return]
