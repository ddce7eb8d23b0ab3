"""What argmin and argmax share: the descriptor's rules, the lowering, and the checks of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._core import config
from ..._core import descriptor as core_descriptor
from ..._core.calls import call_one
from ..._core.descriptor import Descriptor, Level
from ..._core.enums import AxisDirection, FeatureLevel, TensorDataType
from ..._core.errors import flag, integer
from ..._core.lowering import NAN_RULES, nan_is_first
from ..._core.shapes import LINE_FIELDS, collapse_rows, rows_of
from ..._core.spec import Parameter, Spec
from ..._core.tensor import TensorDesc, data_type_name, element_size, product
from ..top_k import ORDERED, ordered_type
from .function import Array, builds, check_not_scalar, index_type, normalize_axis

TIES = {"first": AxisDirection.INCREASING, "last": AxisDirection.DECREASING}
PARAMETERS = (
    Parameter("axis", None, "the axes: one, or several as 0,1 (default: all)", "axes"),
    Parameter("keepdims", False, "keep these axes, with size 1", bool),
    Parameter("ties", "first", "which of equal elements", str, tuple(TIES)),
    Parameter("nan", "first", "where NaN stands", str, NAN_RULES),
    Parameter("index_dtype", None, "of the positions (default: int64)", "dtype"),
)


class Search(NamedTuple):
    """The lowering: of each line, the element of the highest key that is met first.

    A line's elements are met in the order of their linear index, or against it if the last of equal ones is wanted:
    then strides are negated, and `total` - 1 less the position is the index.
    """

    data_type: TensorDataType
    index_itemsize: int
    start: int  #: where the element at position 0 of the first line is, in bytes
    lines: tuple[tuple[int, int, int], ...]  #: of each dimension that stays: size, stride in bytes, output stride
    reduced: tuple[tuple[int, int, int], ...]  #: of each reduced dimension: size, stride in bytes, step of positions
    total: int  #: elements of a line
    backwards: bool
    largest: bool
    nan_first: bool


@dataclass(frozen=True)
class ArgExtreme(Descriptor):
    """What ARGMIN and ARGMAX share."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    axis_direction: AxisDirection
    _: KW_ONLY
    nan: str = "first"

    levels = (
        Level(FeatureLevel.FL_4_1, core_descriptor.T10, core_descriptor.I4, (1, 8)),
        Level(FeatureLevel.FL_3_0, core_descriptor.T8, core_descriptor.I4, (1, 8)),
    )
    input_fields = ("input_tensor",)
    index_field = "output_tensor"
    arguments = {"input_tensor": "a", "output_tensor": "index_dtype", "axes": "axis"}
    counts = {"axis_count": "axes"}
    largest: ClassVar[bool]

    def __post_init__(self) -> None:
        self.check_direction()
        self.check_tensors()
        data = self.input_tensor
        if data.data_type not in ORDERED:
            raise self.refuse("input_tensor", data_type_name(data.data_type), "a data type with an order")
        self.check_axes("axes", data.dimension_count)
        self.check_choice("nan", NAN_RULES)
        reduced = [data.sizes[axis] for axis in self.axes]
        if 0 in reduced:
            raise self.refuse("axes", "a size of 0", f"sizes of at least 1 on axes {self.axes}")
        self.check_output("output_tensor", tuple([1 if d in self.axes else size for d, size in enumerate(data.sizes)]))
        index, last = self.output_tensor, product(reduced) - 1
        if last > int(np.iinfo(index.dtype).max):
            expected = f"a type that holds {last}, the last position over the axes"
            raise self.refuse("output_tensor", data_type_name(index.data_type), expected)

    @property
    def axis_count(self) -> int:
        """How many axes are reduced."""
        return len(self.axes)

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Search:
        """Return the lowering for an input of these strides."""
        sizes, steps = self.input_tensor.sizes, strides[0]
        backwards = self.axis_direction is AxisDirection.DECREASING
        lines: list[int] = []
        reduced: list[int] = []
        start, packed, total = 0, 1, 1
        for d in range(len(sizes) - 1, -1, -1):
            size, step = sizes[d], steps[d]
            if d in self.axes:
                if backwards:
                    start += (size - 1) * step
                    step = -step
                reduced[:0] = size, step, total
                total *= size
            else:
                lines[:0] = size, step, packed
                packed *= max(size, 1)
        counts = [collapse_rows(rows, LINE_FIELDS, len(rows) // LINE_FIELDS) for rows in (lines, reduced)]
        return Search(
            data_type=self.input_tensor.data_type,
            index_itemsize=element_size(self.output_tensor.data_type),
            start=start,
            lines=rows_of(lines, LINE_FIELDS, counts[0]),
            reduced=rows_of(reduced, LINE_FIELDS, counts[1]),
            total=total,
            backwards=backwards,
            largest=self.largest,
            nan_first=nan_is_first(self.nan, self.largest),
        )


def _axes_of(function: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that a parameter names, each once."""
    check_not_scalar(function, ndim)
    if axis is None:
        return tuple(range(ndim))
    if axis.__class__ is int:
        return (normalize_axis(function, axis, ndim),)
    axes = tuple([normalize_axis(function, one, ndim) for one in axis])
    if not axes:
        raise ValueError(f"{function}: axis: found (), expected one axis at least")
    if len(set(axes)) < len(axes):
        raise ValueError(f"{function}: axis: found {axis}, expected each axis once")
    return axes


def builder(spec: Spec, kind: type[ArgExtreme]) -> Callable[..., Any]:
    """Return what builds the calls of a function."""

    @builds(spec, kind.arguments, ordered_type)
    def build(a: Array, axis: Any, keepdims: bool, ties: str, nan: str, index_dtype: Any) -> Any:
        shape = a.shape
        axes = _axes_of(spec.name, axis, len(shape))
        if ties not in TIES:
            raise ValueError(f"{spec.name}: ties: found {ties!r}, expected 'first' or 'last'")
        kept = tuple([1 if d in axes else size for d, size in enumerate(shape)])
        tensors = TensorDesc(*a), TensorDesc(index_type(spec.name, index_dtype), kept)
        result = kept if keepdims else tuple([size for d, size in enumerate(shape) if d not in axes])
        return kind(*tensors, axes, TIES[ties], nan=nan), result

    return build


def find(spec: Spec, build: Callable[..., Any], a: Any, out: Any, target: Any, stream: Any, parameters: Any) -> Any:
    """Check parameters, and make the call."""
    axis, keepdims, *rules = parameters
    if axis.__class__ is tuple:
        axis = tuple([integer(f"{spec.name}: axis", one) for one in axis])
    elif axis.__class__ is not int and axis is not None:
        axis = integer(f"{spec.name}: axis", axis, "an integer, a tuple of integers or None")
    if keepdims.__class__ is not bool:
        keepdims = flag(f"{spec.name}: keepdims", keepdims)
    if config.used:
        target, _ = config.defaults(target, None)
    return call_one(spec, build, target, stream, a, out, (axis, keepdims, *rules))
