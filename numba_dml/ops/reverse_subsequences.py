"""REVERSE_SUBSEQUENCES: the first elements of each line along an axis in reverse order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import call_two
from .._core.descriptor import Descriptor, Level
from .._core.enums import FeatureLevel, OperatorType
from .._core.errors import integer
from .._core.shapes import LOOP_FIELDS, collapse_rows, flat, rows_of
from .._core.spec import READ_BOUNDS, Spec
from .._core.spec import axis as axis_parameter
from .._core.tensor import TensorDesc, packed_strides
from ._shared.function import Array, builds, normalize_axis, public, refuse_positional

BOUNDS = ("raise", "clamp")
SPEC = Spec(
    name="reverse_subsequences",
    family="reverse_subsequences",
    summary="reverse the first elements of every line",
    inputs=("a", "lengths"),
    outputs=("output",),
    parameters=(
        axis_parameter(-1),
        READ_BOUNDS._replace(help="what to do with a length out of range (default: raise)", choices=BOUNDS),
    ),
    examples=("reverse-subsequences a.npy lengths.npy --axis 1 -o reversed.npy",),
    explain_examples=("explain reverse-subsequences a.npy lengths.npy --axis 1",),
)


class Reverse(NamedTuple):
    """The lowering: lines of `size` elements, those before and after the axis as rows.

    A row is a size, and the strides in the input (bytes), in the packed output (bytes) and in the packed lengths.
    """

    outer: tuple[tuple[int, int, int, int], ...]
    inner: tuple[tuple[int, int, int, int], ...]
    size: int
    stride: int
    out_stride: int
    bounds: str


@dataclass(frozen=True)
class ReverseSubsequencesDesc(Descriptor):
    """DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC: ``output[:length] = input[:length][::-1]``, the others as they are.

    Parameters
    ----------
    input_tensor : TensorDesc
        The lines.
    sequence_lengths_tensor : TensorDesc
        Of the input's sizes, but with size 1 on the axis. Native: it may have size 1 on others, too.
    output_tensor : TensorDesc
        Of the input's data type and sizes.
    axis : int
        The axis along which elements are reversed.
    bounds : {"clamp", "raise"}
        What happens to a length out of range (native): clamped, as DirectML does, or an error.
    """

    input_tensor: TensorDesc
    sequence_lengths_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    _: KW_ONLY
    bounds: str = "clamp"

    operator_type = OperatorType.REVERSE_SUBSEQUENCES
    spec = SPEC
    levels = (
        Level(FeatureLevel.FL_5_0, core_descriptor.T11, core_descriptor.U2, (1, 8)),
        Level(FeatureLevel.FL_4_0, core_descriptor.T8, core_descriptor.U32, (1, 8)),
        Level(FeatureLevel.FL_3_0, core_descriptor.T8, core_descriptor.U32, (4, 5)),
        Level(FeatureLevel.FL_2_1, core_descriptor.T8, core_descriptor.U32, (4, 4)),
    )
    input_fields = ("input_tensor", "sequence_lengths_tensor")
    index_field = "sequence_lengths_tensor"
    arguments = {"input_tensor": "a", "sequence_lengths_tensor": "lengths", "output_tensor": "out"}

    def __post_init__(self) -> None:
        self.check_tensors()
        self.check_range("axis", 0, self.input_tensor.dimension_count - 1)
        self.check_choice("bounds", BOUNDS)
        found, whole = self.sequence_lengths_tensor.sizes, self.whole_lengths()
        if any(size not in (1, most) for size, most in zip(found, whole, strict=True)):
            raise self.refuse("sequence_lengths_tensor", f"sizes {found}", f"sizes {whole}, or 1 instead of some")
        self.check_output("output_tensor", self.input_tensor.sizes)

    def whole_lengths(self) -> tuple[int, ...]:
        """Return the sizes of a length for each line."""
        sizes = self.input_tensor.sizes
        return (*sizes[: self.axis], 1, *sizes[self.axis + 1 :])

    def check_strict(self, rule: str) -> None:
        found, whole = self.sequence_lengths_tensor.sizes, self.whole_lengths()
        if found != whole:
            raise self.refuse("sequence_lengths_tensor", f"sizes {found}", f"sizes {whole}", rule)

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Reverse:
        """Return the lowering for an input of these strides."""
        sizes, lengths, axis = self.input_tensor.sizes, self.sequence_lengths_tensor.sizes, self.axis
        packed = packed_strides(sizes, self.input_tensor.itemsize)
        steps = [step if size > 1 else 0 for size, step in zip(lengths, packed_strides(lengths), strict=True)]
        rows = list(zip(sizes, strides[0], packed, steps, strict=True))

        def collapsed(part: list[tuple[int, int, int, int]]) -> tuple[Any, ...]:
            numbers = flat(part)
            return rows_of(numbers, LOOP_FIELDS, collapse_rows(numbers, LOOP_FIELDS, len(part)))

        outer, inner = collapsed(rows[:axis]), collapsed(rows[axis + 1 :])
        return Reverse(outer, inner, sizes[axis], strides[0][axis], packed[axis], self.bounds)


@builds(SPEC, ReverseSubsequencesDesc.arguments)
def _build(a: Array, lengths: Array, axis: int, bounds: str) -> Any:
    axis = normalize_axis("reverse_subsequences", axis, len(a.shape))
    data = TensorDesc(*a)
    return ReverseSubsequencesDesc(data, TensorDesc(*lengths), data, axis, bounds=bounds), a.shape


@public("positional")
def reverse_subsequences(
    a: Any,
    lengths: Any,
    /,
    *positional: Any,
    axis: int = -1,
    bounds: str | None = None,
    out: Any = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Return a copy in which the first elements of each line along an axis are reversed.

    For each line ``output[:length] = a[:length][::-1]``, and the elements after these stay as they are.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input, of any fixed-size dtype and memory layout, at least 1-d.
    lengths : array_like of int
        How many elements of each line are reversed, from 0 to n. It has the dimensions of `a`, with size 1 on the axis,
        and 1 or the size of `a` on the others: a length may be that of several lines.
    axis : int
        The axis of the lines.
    bounds : {"raise", "clamp"}, optional
        For a length out of range: raise before anything is written (when absent too, but for `numba_dml.config`); or
        take 0 for a negative one and n for a larger one.
    out : ndarray, optional
        Where to write: the shape of `a`, and its dtype in native byte order. It may overlap the inputs; ``out=a`` works
        in place.
    {where}

    Returns
    -------
    ndarray, shape ``a.shape``
        A new array, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `a` holds objects or has a mask, `lengths` or `axis` are not integers, or `out` is no array of the dtype of
        `a`.
    ValueError
        If `a` is 0-d, `lengths` do not broadcast, `axis`, `bounds` or the shape of `out` do not fit, or `out` is
        read-only or overlaps itself.
    IndexError
        If a length is out of range. `a` and `out` keep their values then.

    Notes
    -----
    ONNX and TensorFlow have 1-d lengths and a batch axis: reshape them, ``lengths.reshape(-1, 1)`` for two dimensions.
    Implements DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> a = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    >>> dml.reverse_subsequences(a, np.array([[2], [4]]))
    array([[2, 1, 3, 4],
           [8, 7, 6, 5]])
    >>> dml.reverse_subsequences(a, np.array([[2, 1, 0, 2]]), axis=0)
    array([[5, 2, 3, 8],
           [1, 6, 7, 4]])
    """
    if positional:
        refuse_positional("reverse_subsequences", 2, "axis", positional)
    if axis.__class__ is not int:
        axis = integer("reverse_subsequences: axis", axis)
    if config.used:
        target, found = config.defaults(target, bounds)
        bounds = found if bounds is None and found in BOUNDS else bounds
    return call_two(SPEC, _build, target, stream, a, lengths, out, (axis, bounds))  # type: ignore[no-any-return]
