"""SCATTER_ELEMENTS (DirectML's SCATTER): single elements of a copy of the input are overwritten along one axis."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from .._core import config, lowering
from .._core import descriptor as core_descriptor
from .._core.calls import call_three
from .._core.descriptor import Level
from .._core.enums import FeatureLevel, OperatorType
from .._core.errors import flag, integer
from .._core.lowering import SCATTER_BOUNDS
from .._core.shapes import ELEMENTS
from .._core.spec import REDUCTION, UNIQUE, WRITE_BOUNDS, Spec
from .._core.spec import axis as axis_parameter
from .._core.tensor import TensorDesc
from ._shared.function import Array, builds, normalize_axis, public, refuse_positional
from .gather_elements import ElementsDescriptor

SPEC = Spec(
    name="scatter_elements",
    family="scatter",
    summary="write elements along an axis",
    inputs=("a", "indices", "updates"),
    outputs=("output",),
    parameters=(axis_parameter(-1), REDUCTION, UNIQUE, WRITE_BOUNDS),
    addressing=ELEMENTS,
    examples=("scatter-elements a.npy places.npy values.npy --axis 1 -o new.npy",),
    explain_examples=("explain scatter-elements --shape 100,64 --indices-shape 100,5",),
)


def check_scatter(descriptor: Any) -> None:
    """Check the parameters that both scatters have, and that the reduction is defined for the data type."""
    descriptor.check_choice("bounds", SCATTER_BOUNDS)
    descriptor.check_choice("reduction", lowering.REDUCTIONS)
    descriptor.check_bool("unique")
    kind, reduction = descriptor.input_tensor.data_type, descriptor.reduction
    if reduction != "none" and isinstance(kind, np.dtype):
        raise descriptor.refuse("reduction", repr(reduction), f"'none': {kind} elements are moved, not computed with")
    if reduction in ("min", "max") and kind in (core_descriptor.D.COMPLEX64, core_descriptor.D.COMPLEX128):
        raise descriptor.refuse("reduction", repr(reduction), "'none', 'add' or 'mul': complex numbers have no order")
    descriptor.check_output("output_tensor", descriptor.input_tensor.sizes)


@dataclass(frozen=True)
class ScatterElementsDesc(ElementsDescriptor):
    """DML_SCATTER_ELEMENTS_OPERATOR_DESC: ``output[indices[i, j, k], j, k] = updates[i, j, k]`` for axis 0.

    Its older name DML_SCATTER_OPERATOR_DESC is `ScatterDesc`.

    Parameters
    ----------
    input_tensor, indices_tensor, updates_tensor, output_tensor : TensorDesc
        All of one dimension count. Updates have the sizes of the indices, the output those of the input. Strict: off
        the axis the indices have the input's sizes. Native: they may be smaller.
    axis : int
        The axis of the output that the indices select along.
    reduction : {"none", "add", "mul", "min", "max"}
        How an update meets the value already there (native).
    unique : bool
        A promise that no two updates meet (native).
    bounds : {"raise", "drop", "deferred"}
        What happens to an index out of range (native; see `numba_dml.scatter_elements`).
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int
    _: KW_ONLY
    reduction: str = "none"
    unique: bool = False
    bounds: str = "raise"

    operator_type = OperatorType.SCATTER_ELEMENTS
    spec = SPEC
    levels = (*core_descriptor.MOVE_LEVELS, Level(FeatureLevel.FL_2_0, core_descriptor.TF, core_descriptor.U32, (4, 4)))
    input_fields = ("input_tensor", "indices_tensor", "updates_tensor")
    native_only = {"reduction": "none"}

    def __post_init__(self) -> None:
        self.check_tensors()
        self.check_range("axis", 0, self.input_tensor.dimension_count - 1)
        check_scatter(self)
        self.check_sizes()
        found, indices = self.updates_tensor.sizes, self.indices_tensor.sizes
        if found != indices:
            raise self.refuse("updates_tensor", f"sizes {found}", f"sizes {indices}, as the indices")


#: DirectML's older name of the same operator.
ScatterDesc = ScatterElementsDesc


@builds(SPEC, ScatterElementsDesc.arguments)
def _build(a: Array, indices: Array, updates: Array, axis: int, reduction: str, unique: bool, bounds: str) -> Any:
    axis = normalize_axis("scatter_elements", axis, len(a.shape))
    data = TensorDesc(*a)
    tensors = data, TensorDesc(*indices), TensorDesc(*updates), data
    return ScatterElementsDesc(*tensors, axis, reduction=reduction, unique=unique, bounds=bounds), a.shape


@public("positional")
def scatter_elements(
    a: Any,
    indices: Any,
    updates: Any,
    *positional: Any,
    axis: int = -1,
    reduction: str = "none",
    unique: bool = False,
    out: Any = None,
    bounds: str | None = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Copy an array and overwrite one element along an axis for every position of `indices`.

    ``output = a; output[indices[i, j, k], j, k] = updates[i, j, k]`` for axis 0, as `numpy.put_along_axis` on a copy.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input, of any fixed-size dtype and memory layout, at least 1-d.
    indices : array_like of int, as many dimensions as `a`
        Positions along `axis`, from ``-n`` to ``n - 1``; a negative one counts from the end. Off the axis the sizes are
        those of `a` or smaller (positions count from 0).
    updates : array_like, shape ``indices.shape``
        The new values, of the dtype of `a`. Python's numbers, also in lists, are converted to it, by NumPy's
        rules, if it is of their kind or of a later one: bool, integers, floats, complex. Nothing else is, in lists too.
    axis : int
        The axis of `a` that is indexed.
    {reduction}
    unique : bool
        A promise that no element is updated twice, which spares the work that makes duplicates deterministic. If it is
        broken, the result at such an element is unspecified.
    {writes}
    {where}

    Returns
    -------
    ndarray, shape ``a.shape``
        A new array, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `a` holds objects or has a mask, `indices` are not integers, `updates` have another dtype than `a`, or `out`
        is no array of that dtype.
    ValueError
        If `a` is 0-d, shapes (that of `out` too), `axis`, `reduction` or `bounds` do not fit, `updates` hold an integer
        that the dtype does not, or `out` is read-only or overlaps itself.
    IndexError
        If an index is out of range. The inputs are untouched then, in place too; another `out` may hold anything.

    Notes
    -----
    Duplicates: the last update in row-major order wins; reductions combine in row-major order, so that the result is
    the same on every run and at any thread count. An empty `indices` gives a copy. Implements
    DML_SCATTER_ELEMENTS_OPERATOR_DESC, also known as DML_SCATTER_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.scatter_elements(np.arange(5), np.array([3, 1, 3, 0]), np.array([5, 6, 7, 8]))
    array([8, 6, 2, 7, 4])
    >>> dml.scatter_elements(np.arange(5), np.array([3, 1, 3, 0]), np.array([5, 6, 7, 8]), reduction="add")
    array([ 8,  7,  2, 15,  4])
    """
    if positional:
        refuse_positional("scatter_elements", 3, "axis", positional)
    if axis.__class__ is not int:
        axis = integer("scatter_elements: axis", axis)
    if unique.__class__ is not bool:
        unique = flag("scatter_elements: unique", unique)  # type: ignore[unreachable]
    if config.used:
        target, bounds = config.defaults(target, bounds, clamps=False)
    arrays = a, indices, updates
    return call_three(SPEC, _build, target, stream, arrays, out, (axis, reduction, unique, bounds))  # type: ignore[no-any-return]
