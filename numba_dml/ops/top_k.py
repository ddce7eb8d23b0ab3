"""TOP_K and TOP_K1: the k largest or smallest elements of every line along an axis, with their positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import call_one
from .._core.descriptor import Descriptor, Level
from .._core.enums import AxisDirection, FeatureLevel, OperatorType, TensorDataType
from .._core.errors import flag, integer
from .._core.lowering import MODES, NAN_RULES, Select, TopK, nan_is_first
from .._core.shapes import LINE_FIELDS, lower_lines, rows_of
from .._core.spec import REQUIRED, Parameter, Spec
from .._core.spec import axis as axis_parameter
from .._core.tensor import TensorDesc, data_type_name, element_size
from ._shared.function import Array, builds, check_among, index_type, normalize_axis, public, refuse_positional

#: The data types that have an order.
ORDERED = core_descriptor.T11 | {TensorDataType.BOOL, TensorDataType.BFLOAT16}
#: The feature table, without the level before FL_2_1 that only TOP_K has.
LEVELS = (
    Level(FeatureLevel.FL_5_0, core_descriptor.T10, core_descriptor.U2, (1, 8)),
    Level(FeatureLevel.FL_3_1, core_descriptor.T8, core_descriptor.U32, (1, 8)),
    Level(FeatureLevel.FL_2_1, core_descriptor.T8, core_descriptor.U32, (4, 4)),
)


SPEC = Spec(
    name="top_k",
    family="top_k",
    summary="select the k largest or smallest elements of every line",
    inputs=("a",),
    outputs=("values", "indices"),
    parameters=(
        Parameter("k", REQUIRED, "how many elements to select of every line", int),
        axis_parameter(-1),
        Parameter("mode", "largest", "which end of the order", str, tuple(MODES)),
        Parameter("sorted", True, "best first", bool),
        Parameter("nan", "last", "where NaN stands", str, NAN_RULES),
        Parameter("index_dtype", None, "of the positions (default: int64)", "dtype"),
    ),
    compares=True,
    examples=("top-k scores.npy -k 10 -o best.npz", "top-k data.npz:scores -k 5 --axis 0 --mode smallest -o best.npz"),
    explain_examples=("explain top-k scores.npy -k 10", "explain top-k --shape 1000,5000 --dtype int16 -k 10"),
)


@dataclass(frozen=True)
class _TopK(Descriptor):
    """What TOP_K and TOP_K1 share."""

    input_tensor: TensorDesc
    output_value_tensor: TensorDesc
    output_index_tensor: TensorDesc
    axis: int
    k: int
    _: KW_ONLY
    nan: str = "last"
    sorted: bool = True

    spec = SPEC
    input_fields = ("input_tensor",)
    output_fields = ("output_value_tensor", "output_index_tensor")
    index_field = "output_index_tensor"
    arguments = {"input_tensor": "a", "output_value_tensor": "out[0]", "output_index_tensor": "index_dtype"}

    def __post_init__(self) -> None:
        self.check_tensors()
        data = self.input_tensor
        if data.data_type not in ORDERED:
            raise self.refuse("input_tensor", data_type_name(data.data_type), "a data type with an order")
        self.check_range("axis", 0, data.dimension_count - 1)
        size = data.sizes[self.axis]
        self.check_range("k", 0, size)
        self.check_choice("nan", NAN_RULES)
        self.check_bool("sorted")
        expected = (*data.sizes[: self.axis], self.k, *data.sizes[self.axis + 1 :])
        for name in self.output_fields:
            self.check_output(name, expected)
        highest = int(np.iinfo(self.output_index_tensor.dtype).max)
        if self.k and size - 1 > highest:
            raise self.refuse(
                "output_index_tensor",
                data_type_name(self.output_index_tensor.data_type),
                f"a type that holds {size - 1}, the last position along the axis",
            )

    def check_strict(self, rule: str) -> None:
        """Check that k is at least 1."""
        if self.k < 1:
            raise self.refuse("k", self.k, f"1 to {self.input_tensor.sizes[self.axis]}", rule)

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Select:
        """Return the lowering: every dimension but the axis counts lines."""
        sizes, axis = self.input_tensor.sizes, self.axis
        largest = self.axis_direction is AxisDirection.DECREASING  # type: ignore[attr-defined]
        lines = [0] * (LINE_FIELDS * len(sizes))
        count, out_stride = lower_lines(axis, self.k, sizes, strides[0], lines)
        return Select(
            data_type=self.input_tensor.data_type,
            index_itemsize=element_size(self.output_index_tensor.data_type),
            lines=rows_of(lines, LINE_FIELDS, count),
            size=sizes[axis],
            stride=strides[0][axis],
            output_stride=out_stride,
            k=self.k,
            largest=largest,
            nan_first=nan_is_first(self.nan, largest),
            sorted=self.sorted,
        )


@dataclass(frozen=True)
class TopKDesc(_TopK):
    """DML_TOP_K_OPERATOR_DESC: the k largest elements of every line along an axis.

    Parameters
    ----------
    input_tensor, output_value_tensor, output_index_tensor : TensorDesc
        All have the same number of dimensions; the outputs have the input's sizes with `k` on the axis.
    axis : int
        The axis along which elements are selected.
    k : int
        How many; 1 to the size of the axis (0 too, beyond DirectML).
    nan : {"last", "largest", "first"}
        Where NaN stands in the order (see `numba_dml.top_k`).
    sorted : bool
        False allows any order of the result.
    """

    operator_type = OperatorType.TOP_K
    levels = (*LEVELS, Level(FeatureLevel.FL_2_0, core_descriptor.TF, core_descriptor.U32, (4, 4)))
    axis_direction = AxisDirection.DECREASING


@dataclass(frozen=True)
class TopK1Desc(_TopK):
    """DML_TOP_K1_OPERATOR_DESC: the k largest or smallest elements of every line along an axis.

    Parameters
    ----------
    input_tensor, output_value_tensor, output_index_tensor : TensorDesc
        All have the same number of dimensions; the outputs have the input's sizes with `k` on the axis.
    axis : int
        The axis along which elements are selected.
    k : int
        How many; 1 to the size of the axis (0 too, beyond DirectML).
    axis_direction : AxisDirection
        DECREASING selects the largest, INCREASING the smallest.
    nan : {"last", "largest", "first"}
        Where NaN stands in the order (see `numba_dml.top_k`).
    sorted : bool
        False allows any order of the result.
    """

    axis_direction: AxisDirection

    operator_type = OperatorType.TOP_K1
    levels = LEVELS

    def __post_init__(self) -> None:
        self.check_direction()
        super().__post_init__()


def ordered_type(function: str, argument: str, dtype: np.dtype[Any]) -> Any:
    """Return the data type of a dtype whose elements have an order."""
    expected = "a bool, integer or float dtype of NumPy (at most 64 bits) or bfloat16"
    return check_among(function, argument, dtype, ORDERED, expected)


@builds(SPEC, TopK1Desc.arguments, ordered_type)
def _build(a: Array, k: int, axis: int, mode: str, sorted: bool, nan: str, index_dtype: Any) -> Any:
    shape = a.shape
    axis = normalize_axis("top_k", axis, len(shape))
    if not 0 <= k <= shape[axis]:
        raise ValueError(f"top_k: k: found {k}, expected 0 to {shape[axis]}, the size of axis {axis}")
    if mode not in MODES:
        raise ValueError(f"top_k: mode: found {mode!r}, expected 'largest' or 'smallest'")
    sizes = (*shape[:axis], k, *shape[axis + 1 :])
    indices = index_type("top_k", index_dtype)
    tensors = TensorDesc(*a), TensorDesc(a.kind, sizes), TensorDesc(indices, sizes)
    return TopK1Desc(*tensors, axis, k, MODES[mode], nan=nan, sorted=sorted), sizes, sizes


@public("positional", "largest")
def top_k(
    a: Any,
    k: int,
    /,
    *positional: Any,
    axis: int = -1,
    mode: str = "largest",
    sorted: bool = True,
    nan: str = "last",
    index_dtype: Any = None,
    out: Any = None,
    target: str | None = None,
    stream: Any = None,
    largest: Any = None,
) -> TopK:
    """Return the k largest or smallest elements along an axis, and where they are.

    A superset of NumPy 2.6's ``top_k``: the first `k` of a stable sort of every line along `axis`.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input: bool, integers or floats (float16 and bfloat16 included) in any memory layout, at least 1-d.
    k : int
        How many elements to select, 0 to n.
    axis : int
        The axis along which to select.
    mode : {"largest", "smallest"}
        Which end of the order to return.
    sorted : bool
        True: best first. False: the same elements in any order, which takes less time if `k` is large.
    nan : {"last", "largest", "first"}
        ``last``: a NaN is never selected while a number is left, in both modes. ``largest``: NaN stands above +inf, as
        in ONNX, PyTorch and JAX. ``first``: a NaN is selected before any number, in both modes, as `numpy.argmax` and
        `numpy.argmin` do. NaNs tie with each other.
    index_dtype : dtype, optional
        The integer dtype of the indices; `numpy.intp` when absent.
    out : pair of ndarray, optional
        Where to write ``(values, indices)``: exactly their shapes and dtypes. They may overlap `a`.
    {where}

    Returns
    -------
    TopK
        The named tuple ``(values, indices)``, both of the shape of `a` with `k` on `axis`; indices count from the start
        of the line. In native byte order.

    Raises
    ------
    TypeError
        If `a` has no order or a mask, `k` or `axis` is no integer, `index_dtype` is no integer dtype, or `out` is not a
        pair of arrays of the results' dtypes.
    ValueError
        If `a` is 0-d, `k` is not in 0 to n, `axis`, `mode`, `nan`, `index_dtype` or the shapes of `out` do not fit, or
        an array of `out` is read-only or overlaps itself.

    Notes
    -----
    Ties go to the lower index, in both modes. -0 and +0 tie, and NaNs tie. Values are copied bit by bit. Implements
    DML_TOP_K1_OPERATOR_DESC (``largest`` is DECREASING) and DML_TOP_K_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> values, indices = dml.top_k(np.array([[0, 1, 10, 11], [3, 2, 9, 8]]), 2)
    >>> values
    array([[11, 10],
           [ 9,  8]])
    >>> indices
    array([[3, 2],
           [2, 3]])
    """
    if positional:
        refuse_positional("top_k", 2, "axis", positional)
    if largest is not None:
        instead = "smallest" if largest is False else "largest"
        raise TypeError(f"top_k: found largest={largest!r}, expected mode={instead!r}")
    if k.__class__ is not int:
        k = integer("top_k: k", k)
    if axis.__class__ is not int:
        axis = integer("top_k: axis", axis)
    if sorted.__class__ is not bool:
        sorted = flag("top_k: sorted", sorted)  # type: ignore[unreachable]
    if config.used:
        target, _ = config.defaults(target, None)
    return call_one(SPEC, _build, target, stream, a, out, (k, axis, mode, sorted, nan, index_dtype))  # type: ignore[no-any-return]
