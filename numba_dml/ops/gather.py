"""GATHER: slices of the input, picked along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import call_two
from .._core.descriptor import MAX_DIMENSIONS, Level, check_result_rank
from .._core.enums import FeatureLevel, OperatorType
from .._core.errors import integer
from .._core.lowering import Move, move
from .._core.shapes import SLICES, packed_sizes
from .._core.spec import READ_BOUNDS, Spec
from .._core.spec import axis as axis_parameter
from .._core.tensor import TensorDesc
from ._shared.function import Array, MoveDescriptor, builds, normalize_axis, padded, public, refuse_positional

SPEC = Spec(
    name="gather",
    family="gather",
    summary="pick slices along an axis",
    inputs=("a", "indices"),
    outputs=("output",),
    parameters=(axis_parameter(0), READ_BOUNDS),
    addressing=SLICES,
    mask_function="flatnonzero",
    examples=("gather table.npy rows.npy -o picked.npy", "gather table.npy columns.npy --axis 1 -o picked.npz"),
    explain_examples=("explain gather table.npy rows.npy", "explain gather --shape 1000,64 --indices-shape 200"),
)


@dataclass(frozen=True)
class GatherDesc(MoveDescriptor):
    """DML_GATHER_OPERATOR_DESC: ``output[..., i..., ...] = input[..., indices[i...], ...]``.

    Parameters
    ----------
    input_tensor, indices_tensor, output_tensor : TensorDesc
        All of one dimension count; the output's sizes are ``input[:axis] ++ indices ++ input[axis + 1:]``, brought to
        that count by cropping or adding leading 1s.
    axis : int
        The axis of the input that the indices select along.
    index_dimensions : int
        How many trailing dimensions of the indices count; 0 removes the axis.
    bounds : {"raise", "clamp", "drop", "deferred"}
        What happens to an index out of range (native; see `numba_dml.gather`).
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    index_dimensions: int
    _: KW_ONLY
    bounds: str = "raise"

    operator_type = OperatorType.GATHER
    spec = SPEC
    levels = (*core_descriptor.MOVE_LEVELS, Level(FeatureLevel.FL_1_0, core_descriptor.TF, core_descriptor.U32, (4, 4)))

    def __post_init__(self) -> None:
        self.check_tensors()
        rank = self.input_tensor.dimension_count
        self.check_range("axis", 0, rank - 1)
        self.check_range("index_dimensions", 0, rank)
        self.check_choice("bounds", config.BOUNDS)
        indices = self.effective("indices_tensor", self.index_dimensions)
        full = packed_sizes(SLICES, self.axis, self.input_tensor.sizes, indices)
        surplus = len(full) - rank
        if surplus > 0 and full[:surplus].count(1) != surplus:
            raise self.refuse(
                "output_tensor", f"sizes {self.output_tensor.sizes}", f"sizes {full}, which need {len(full)} dimensions"
            )
        self.check_output("output_tensor", full[surplus:] if surplus >= 0 else (1,) * -surplus + full)

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Move:
        """Return the lowering: points are outer dimensions times indices; the inner dimensions move whole."""
        indices = self.indices_tensor.sizes
        return move(
            self, self.axis, self.input_tensor.sizes, strides[0], indices[len(indices) - self.index_dimensions :]
        )


@builds(SPEC, GatherDesc.arguments)
def _build(a: Array, indices: Array, axis: int, bounds: str) -> Any:
    a = Array(a.kind, a.shape or (1,))  # NumPy's take lets a scalar count as one element
    axis = normalize_axis("gather", axis, len(a.shape))
    output = Array(a.kind, packed_sizes(SLICES, axis, a.shape, indices.shape))
    check_result_rank("gather", "indices", len(indices.shape), len(output.shape))
    rank, (x, i, y) = padded(a, indices, output)
    return GatherDesc(x, i, y, axis + rank - len(a.shape), len(indices.shape), bounds=bounds), output.shape


#: A call with a result of up to this many bytes goes to NumPy when its shape is new; 0: none does.
FIRST_BY_NUMPY = 1 << 16
#: The data types of which a call was built, if NumPy does the same with them: a first call compiles, not the second.
_known: set[tuple[np.dtype[Any], np.dtype[Any]]] = set()


class _NewShape:
    """A call of a new shape: NumPy's `take` is done before a call would be built, which the second one does."""

    __slots__ = ("axis", "call", "is_new", "key")

    def __init__(self, key: tuple[Any, ...], axis: int) -> None:
        self.key, self.axis = key, axis
        self.call: Any = None
        self.is_new = True

    def __call__(self, a: Any, indices: Any, out: Any) -> Any:
        call = self.call
        if call is None:
            if self.is_new and out is None and a.flags.c_contiguous:  # NumPy would copy all of another `a`
                self.is_new = False
                try:
                    return a.take(indices, self.axis)
                except IndexError:  # which our call raises in its own words
                    pass
            call = self.call = _build(*self.key)
        return call(a, indices, out)


def _build_or_take(*key: Any) -> Any:
    """Return the call for a key, or what asks NumPy first, where it does the same and sooner."""
    shape, _, dtype, index_shape, _, index_dtype, (axis, bounds), target = key
    if (
        target is None
        and (dtype, index_dtype) in _known
        and -len(shape) <= axis < len(shape)
        and len(shape) + len(index_shape) <= MAX_DIMENSIONS  # beyond that NumPy's take may crash
        and bounds in (None, "raise")
    ):
        size = prod(shape) * prod(index_shape) * dtype.itemsize // (shape[axis] or 1)
        if 0 < size <= FIRST_BY_NUMPY:
            return _NewShape(key, axis)
    call = _build(*key)
    if dtype.kind in "biufc" and dtype.isnative and index_dtype.kind == "i" and index_dtype.isnative:
        _known.add((dtype, index_dtype))
    return call


@public("positional")
def gather(
    a: Any,
    indices: Any,
    *positional: Any,
    axis: int = 0,
    out: Any = None,
    bounds: str | None = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Pick slices of an array along one axis.

    ``output[..., i..., ...] = a[..., indices[i...], ...]``, as `numpy.take` does.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input, of any fixed-size dtype and memory layout.
    indices : array_like of int, any shape
        Positions along `axis`, from ``-n`` to ``n - 1``; a negative one counts from the end.
    axis : int
        The axis of `a` that is indexed.
    {reads}
    {where}

    Returns
    -------
    ndarray, shape ``a.shape[:axis] + indices.shape + a.shape[axis + 1:]``, for an axis counted from 0
        A new array, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `a` holds objects or has a mask, `indices` are not integers, or `out` is no array of the result's dtype.
    ValueError
        If `axis`, `bounds` or the shape of `out` do not fit, or `out` is read-only or overlaps itself.
    IndexError
        If an index is out of range, or the axis is empty and there is any index.

    Notes
    -----
    Duplicate indices are no special case. Values are copied bit by bit (NaN payloads and the sign of 0 survive). An
    empty `indices` gives an empty result. A 0-d `a` counts as one element. Implements DML_GATHER_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.gather(np.array([11, 12, 13, 14]), np.array([3, 1, 3, 0, 2]))
    array([14, 12, 14, 11, 13])
    >>> dml.gather(np.array([[1, 2], [3, 4], [5, 6]]), np.array([1, 0]), axis=1)
    array([[2, 1],
           [4, 3],
           [6, 5]])
    """
    if positional:
        refuse_positional("gather", 2, "axis", positional)
    if axis.__class__ is not int:
        axis = integer("gather: axis", axis)
    if config.used:
        target, bounds = config.defaults(target, bounds)
    return call_two(SPEC, _build_or_take, target, stream, a, indices, out, (axis, bounds))  # type: ignore[no-any-return]
