"""GATHER_ELEMENTS: single elements of the input, picked along one axis at every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import call_two
from .._core.enums import OperatorType
from .._core.errors import integer
from .._core.lowering import Move, move
from .._core.shapes import ELEMENTS, first_too_long
from .._core.spec import READ_BOUNDS, Spec
from .._core.spec import axis as axis_parameter
from .._core.tensor import TensorDesc
from ._shared.function import Array, MoveDescriptor, builds, normalize_axis, public, refuse_positional

SPEC = Spec(
    name="gather_elements",
    family="gather",
    summary="pick elements along an axis",
    inputs=("a", "indices"),
    outputs=("output",),
    parameters=(axis_parameter(-1), READ_BOUNDS),
    addressing=ELEMENTS,
    examples=("gather-elements scores.npy order.npy --axis 1 -o ordered.npy",),
    explain_examples=("explain gather-elements --shape 100,64 --indices-shape 100,5",),
)


class ElementsDescriptor(MoveDescriptor):
    """What GATHER_ELEMENTS and SCATTER_ELEMENTS share."""

    axis: int

    def check_sizes(self) -> None:
        """Check that the indices are no longer than the input off the axis; a gather broadcasts an input size of 1."""
        sizes, indices = self.input_tensor.sizes, self.indices_tensor.sizes
        i = first_too_long(sizes, indices, self.axis, broadcasts=not self.spec.writes)
        if i >= 0:
            expected = f"at most {sizes[i]}, the input's size there"
            raise self.refuse("indices_tensor", f"size {indices[i]} in dimension {i}", expected)

    def check_strict(self, rule: str) -> None:
        """Check that the indices have the input's sizes off the axis."""
        sizes, indices, axis = self.input_tensor.sizes, self.indices_tensor.sizes, self.axis
        expected = (*sizes[:axis], indices[axis], *sizes[axis + 1 :])
        if indices != expected:
            raise self.refuse("indices_tensor", f"sizes {indices}", f"sizes {expected}", rule)

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Move:
        """Return the lowering: every position of the indices is a point, and a slice is one element."""
        return move(self, self.axis, self.input_tensor.sizes, strides[0], self.indices_tensor.sizes)


@dataclass(frozen=True)
class GatherElementsDesc(ElementsDescriptor):
    """DML_GATHER_ELEMENTS_OPERATOR_DESC: ``output[i, j, k] = input[indices[i, j, k], j, k]`` for axis 0.

    Parameters
    ----------
    input_tensor, indices_tensor, output_tensor : TensorDesc
        All of one dimension count; the output has the sizes of the indices. Strict: off the axis these are the input's
        sizes. Native: they may be smaller (positions count from 0), and an input size of 1 is broadcast.
    axis : int
        The axis of the input that the indices select along.
    bounds : {"raise", "clamp", "drop", "deferred"}
        What happens to an index out of range (native; see `numba_dml.gather_elements`).
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    _: KW_ONLY
    bounds: str = "raise"

    operator_type = OperatorType.GATHER_ELEMENTS
    spec = SPEC
    levels = core_descriptor.MOVE_LEVELS

    def __post_init__(self) -> None:
        self.check_tensors()
        self.check_range("axis", 0, self.input_tensor.dimension_count - 1)
        self.check_choice("bounds", config.BOUNDS)
        self.check_sizes()
        self.check_output("output_tensor", self.indices_tensor.sizes)


@builds(SPEC, GatherElementsDesc.arguments)
def _build(a: Array, indices: Array, axis: int, bounds: str) -> Any:
    axis = normalize_axis("gather_elements", axis, len(a.shape))
    tensors = TensorDesc(*a), TensorDesc(*indices), TensorDesc(a.kind, indices.shape)
    return GatherElementsDesc(*tensors, axis, bounds=bounds), indices.shape


@public("positional")
def gather_elements(
    a: Any,
    indices: Any,
    *positional: Any,
    axis: int = -1,
    out: Any = None,
    bounds: str | None = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Pick one element along an axis for every position of `indices`.

    ``output[i, j, k] = a[indices[i, j, k], j, k]`` for axis 0, as `numpy.take_along_axis` does.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input, of any fixed-size dtype and memory layout, at least 1-d.
    indices : array_like of int, as many dimensions as `a`
        Positions along `axis`, from ``-n`` to ``n - 1``; a negative one counts from the end. Off the axis the sizes are
        those of `a` or smaller (positions count from 0); a size of 1 in `a` is broadcast.
    axis : int
        The axis of `a` that is indexed.
    {reads}
    {where}

    Returns
    -------
    ndarray, shape ``indices.shape``
        A new array, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `a` holds objects or has a mask, `indices` are not integers, or `out` is no array of the result's dtype.
    ValueError
        If `a` is 0-d, shapes (that of `out` too), `axis` or `bounds` do not fit, or `out` is read-only or overlaps
        itself.
    IndexError
        If an index is out of range, or the axis is empty and there is any index.

    Notes
    -----
    Duplicate indices are no special case. Values are copied bit by bit (NaN payloads and the sign of 0 survive).
    Indices of size 1 are not broadcast. Implements DML_GATHER_ELEMENTS_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> a = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    >>> dml.gather_elements(a, np.array([[1, 2, 0], [2, 0, 0]]), axis=0)
    array([[4, 8, 3],
           [7, 2, 3]])
    """
    if positional:
        refuse_positional("gather_elements", 2, "axis", positional)
    if axis.__class__ is not int:
        axis = integer("gather_elements: axis", axis)
    if config.used:
        target, bounds = config.defaults(target, bounds)
    return call_two(SPEC, _build, target, stream, a, indices, out, (axis, bounds))  # type: ignore[no-any-return]
