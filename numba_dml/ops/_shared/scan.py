"""What cumulative sums and products share: the descriptor's rules, the lowering, and the checks of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._core import config
from ..._core import descriptor as core_descriptor
from ..._core.calls import call_one
from ..._core.descriptor import Descriptor, Level
from ..._core.enums import AxisDirection, FeatureLevel
from ..._core.enums import TensorDataType as D
from ..._core.errors import flag, integer
from ..._core.shapes import LINE_FIELDS, lower_lines, rows_of
from ..._core.spec import Parameter, Spec
from ..._core.tensor import TensorDesc, data_type_name
from .function import Array, builds, check_among, check_not_scalar, normalize_axis

#: The data types that can be added and multiplied.
NUMBERS = core_descriptor.T11 | {D.BOOL, D.BFLOAT16, D.COMPLEX64, D.COMPLEX128}
_NUMBERS = "a bool, integer, float or complex dtype of NumPy (at most 64 bits a number) or bfloat16"
#: The type of a result for which none is asked, as in NumPy.
_WIDE = {
    **dict.fromkeys((D.BOOL, D.INT8, D.INT16, D.INT32), D.INT64),
    **dict.fromkeys((D.UINT8, D.UINT16, D.UINT32), D.UINT64),
}
#: The feature table, without the level at which each operator came.
LEVELS = (
    Level(FeatureLevel.FL_5_0, core_descriptor.C6, frozenset(), (1, 8)),
    Level(FeatureLevel.FL_4_0, core_descriptor.C4, frozenset(), (1, 8)),
)
PARAMETERS = (
    Parameter("axis", None, "the axis; may be left out if there is one dimension", int),
    Parameter("dtype", None, "of the result (default: as NumPy)", "dtype"),
    Parameter("include_initial", False, "begin with the result for no element: one more", bool),
    Parameter("exclusive", False, "leave out the element itself", bool),
    Parameter("reverse", False, "from the end of the axis", bool),
)


class Scan(NamedTuple):
    """The lowering: running sums or products of lines of `size` elements.

    An output has the input's order of dimensions in memory, and is packed.
    """

    multiplies: bool
    in_order: bool  #: NumPy's bits, see `Cumulative`
    data_type: Any  #: of the output
    order: tuple[int, ...]  #: the dimensions as they lie in memory, the outermost first
    lines: tuple[tuple[int, int, int], ...]  #: of each dimension but the axis: size, stride in bytes, output stride
    size: int
    stride: int  #: from element to element along the axis, in bytes
    output_stride: int  #: the same in the output, in elements
    initial: bool
    exclusive: bool
    reverse: bool


@dataclass(frozen=True)
class Cumulative(Descriptor):
    """What CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT share."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    axis_direction: AxisDirection
    _: KW_ONLY
    include_initial: bool = False
    in_order: bool = False

    input_fields = ("input_tensor",)
    native_only = {"include_initial": False, "in_order": False}
    multiplies: ClassVar[bool]
    exclusive_field: ClassVar[str]  #: the field for `exclusive`, which has another name in each struct

    def __post_init__(self) -> None:
        self.check_direction()
        self.check_tensors()
        data = self.input_tensor
        if data.data_type not in NUMBERS:
            raise self.refuse("input_tensor", data_type_name(data.data_type), "a data type of numbers")
        self.check_range("axis", 0, data.dimension_count - 1)
        for name in (self.exclusive_field, "include_initial", "in_order"):
            self.check_bool(name)
        if self.include_initial and self.exclusive:
            raise self.refuse(self.exclusive_field, True, False, "include_initial is True")
        sizes = list(data.sizes)
        sizes[self.axis] += self.include_initial
        self.check_output("output_tensor", tuple(sizes))

    @property
    def exclusive(self) -> bool:
        """Whether a result leaves its own element out."""
        return bool(getattr(self, self.exclusive_field))

    def lower(self, strides: Sequence[tuple[int, ...]], order: Sequence[int] = ()) -> Scan:
        """Return the lowering for an input of these strides, and for an order of its dimensions, if one is given."""
        sizes, steps = self.input_tensor.sizes, strides[0]
        if not order:  # what is broadcast comes first: so the last dimension is contiguous if any is
            order = sorted(range(len(sizes)), key=lambda d: -abs(steps[d]) if steps[d] else -inf)
        lines = [0] * (LINE_FIELDS * len(sizes))
        count, out_stride = lower_lines(
            order.index(self.axis),
            self.output_tensor.sizes[self.axis],
            [sizes[d] for d in order],
            [steps[d] for d in order],
            lines,
        )
        return Scan(
            multiplies=self.multiplies,
            in_order=self.in_order,
            data_type=self.input_tensor.data_type,
            order=tuple(order),
            lines=rows_of(lines, LINE_FIELDS, count),
            size=sizes[self.axis],
            stride=steps[self.axis],
            output_stride=out_stride,
            initial=self.include_initial,
            exclusive=self.exclusive,
            reverse=self.axis_direction is AxisDirection.DECREASING,
        )


def number_type(function: str, argument: str, dtype: np.dtype[Any]) -> Any:
    """Return the data type of a dtype whose elements are numbers."""
    return check_among(function, argument, dtype, NUMBERS, _NUMBERS)


def _result_type(function: str, kind: Any, dtype: Any) -> Any:
    """Return the data type of a result."""
    if dtype is None:
        return _WIDE.get(kind, kind)
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{function}: dtype: found {dtype!r}, expected {_NUMBERS}") from None
    if not found.isnative:
        raise TypeError(f"{function}: dtype: found {found}, expected a native dtype")
    return number_type(function, "dtype", found)


def builders(spec: Spec, kind: type[Cumulative]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what builds the calls of a function, and of the drop-in for NumPy's, which has NumPy's bits."""

    def builder(in_order: bool) -> Callable[..., Any]:
        @builds(spec, kind.arguments, number_type)
        def build(a: Array, axis: Any, dtype: Any, include_initial: bool, exclusive: bool, reverse: bool) -> Any:
            rank = len(a.shape)
            if axis is None:
                check_not_scalar(spec.name, rank)
                if rank > 1:
                    expected = f"{-rank} to {rank - 1} for an array with {rank} dimensions"
                    raise ValueError(f"{spec.name}: axis: found None, expected {expected}")
                axis = 0
            axis = normalize_axis(spec.name, axis, rank)
            sizes = list(a.shape)
            sizes[axis] += include_initial
            result = _result_type(spec.name, a.kind, dtype)
            direction = AxisDirection.DECREASING if reverse else AxisDirection.INCREASING
            tensors = TensorDesc(result, a.shape), TensorDesc(result, tuple(sizes))
            flags: Any = {kind.exclusive_field: exclusive, "include_initial": include_initial, "in_order": in_order}
            return kind(*tensors, axis, direction, **flags), tuple(sizes)

        return build

    in_order = builder(True)  # first: the spec keeps the builder that is made last
    return builder(False), in_order


def cumulate(
    spec: Spec, build: Callable[..., Any], a: Any, out: Any, target: str | None, stream: Any, parameters: Any
) -> Any:
    """Check parameters, and make the call."""
    axis, _, initial, exclusive, reverse = parameters
    if (
        (axis is not None and axis.__class__ is not int)
        or initial.__class__ is not bool
        or exclusive.__class__ is not bool
        or reverse.__class__ is not bool
    ):
        parameters = _plain(spec.name, *parameters)
    if config.used:
        target, _ = config.defaults(target, None)
    return call_one(spec, build, target, stream, a, out, parameters)


def _plain(function: str, axis: Any, dtype: Any, *flags: Any) -> tuple[Any, ...]:
    """Return parameters as Python's own values."""
    names = [one.name for one in PARAMETERS[2:]]
    plain = [flag(f"{function}: {name}", value) for name, value in zip(names, flags, strict=True)]
    return (axis if axis is None else integer(f"{function}: axis", axis), dtype, *plain)
