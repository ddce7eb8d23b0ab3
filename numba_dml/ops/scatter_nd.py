"""SCATTER_ND: slices of a copy of the input are overwritten, picked by tuples of indices."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import call_three
from .._core.enums import OperatorType
from .._core.errors import DescriptorError, flag, integer
from .._core.shapes import TUPLES, packed_sizes
from .._core.spec import BATCH_DIMS, REDUCTION, UNIQUE, WRITE_BOUNDS, Spec
from .._core.tensor import TensorDesc
from ._shared.function import Array, builds, padded, public, refuse_positional
from .gather_nd import NDDescriptor, check_ranks
from .scatter_elements import check_scatter

SPEC = Spec(
    name="scatter_nd",
    family="scatter",
    summary="write slices by tuples of indices",
    inputs=("a", "indices", "updates"),
    outputs=("output",),
    parameters=(BATCH_DIMS, REDUCTION, UNIQUE, WRITE_BOUNDS),
    addressing=TUPLES,
    mask_function="argwhere",
    examples=("scatter-nd a.npy points.npy new.npy --reduction add -o sums.npy",),
    explain_examples=("explain scatter-nd --shape 9,64 --indices-shape 9,2 --reduction add",),
)


@dataclass(frozen=True)
class ScatterNDDesc(NDDescriptor):
    """DML_SCATTER_ND_OPERATOR_DESC: ``output = input; output[indices[p]] = updates[p]``.

    Parameters
    ----------
    input_tensor, indices_tensor, updates_tensor, output_tensor : TensorDesc
        All of one dimension count. The updates' sizes are ``indices[:q - 1] ++ input[b + t:]``, with 1s before them;
        t is the size of the last index dimension. The output has the sizes of the input.
    input_dimension_count, indices_dimension_count : int
        How many trailing dimensions count; those before them have size 1.
    batch_dimension_count : int
        How many leading (counted) dimensions input and indices share (native).
    reduction : {"none", "add", "mul", "min", "max"}
        How an update meets the value already there (native).
    unique : bool
        A promise that no two updates meet (native).
    bounds : {"raise", "drop", "deferred"}
        What happens to an index out of range (native; see `numba_dml.scatter_nd`).
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    updates_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    _: KW_ONLY
    batch_dimension_count: int = 0
    reduction: str = "none"
    unique: bool = False
    bounds: str = "raise"

    operator_type = OperatorType.SCATTER_ND
    spec = SPEC
    levels = core_descriptor.MOVE_LEVELS
    input_fields = ("input_tensor", "indices_tensor", "updates_tensor")
    native_only = {"reduction": "none", "batch_dimension_count": 0}

    def __post_init__(self) -> None:
        self.check_counts()
        check_scatter(self)
        updates = packed_sizes(TUPLES, self.batch_dimension_count, *self.counted())
        self.check_output("updates_tensor", (1,) * (self.input_tensor.dimension_count - len(updates)) + updates)


@builds(SPEC, ScatterNDDesc.arguments)
def _build(a: Array, indices: Array, updates: Array, batch_dims: int, reduction: str, unique: bool, bounds: str) -> Any:
    check_ranks("scatter_nd", len(a.shape), len(indices.shape), batch_dims)
    expected = packed_sizes(TUPLES, batch_dims, a.shape, indices.shape)
    _, (x, i, u) = padded(a, indices, updates)
    try:
        descriptor = ScatterNDDesc(
            *(x, i, u, x, len(a.shape), len(indices.shape)),
            batch_dimension_count=batch_dims,
            reduction=reduction,
            unique=unique,
            bounds=bounds,
        )
    except DescriptorError as error:
        if error.field != "updates_tensor" or updates.shape == expected:
            raise
    if updates.shape != expected:  # in the words of the caller: the descriptor has leading 1s more
        raise DescriptorError("scatter_nd", "updates", f"shape {updates.shape}", f"shape {expected}")
    return descriptor, a.shape


@public("positional")
def scatter_nd(
    a: Any,
    indices: Any,
    updates: Any,
    *positional: Any,
    batch_dims: int = 0,
    reduction: str = "none",
    unique: bool = False,
    out: Any = None,
    bounds: str | None = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Copy an array and overwrite slices picked by tuples of indices.

    ``output = a; output[batch, indices[batch, p]] = updates[batch, p]``: without batches and duplicates,
    ``output[tuple(indices.T)] = updates`` for 2-d indices.

    Parameters
    ----------
    a : array_like, shape (batch..., n_1, ..., n_t, slice...)
        The input, of any fixed-size dtype and memory layout, at least 1-d.
    indices : array_like of int, shape (batch..., points..., t)
        Tuples of `t` coordinates; coordinate c runs from ``-n_c`` to ``n_c - 1``, negative ones count from the end.
    updates : array_like, shape ``indices.shape[:-1] + a.shape[batch_dims + t:]``
        The new slices, of the dtype of `a`. Python's numbers, also in lists, are converted to it, by NumPy's
        rules, if it is of their kind or of a later one: bool, integers, floats, complex. Nothing else is, in lists too.
    batch_dims : int
        How many leading dimensions `a` and `indices` share.
    {reduction}
    unique : bool
        A promise that no slice is updated twice, which spares the work that makes duplicates deterministic. If it is
        broken, the result in such a slice is unspecified.
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
        If shapes (that of `out` too), `batch_dims`, `reduction` or `bounds` do not fit, `updates` hold an integer that
        the dtype does not, or `out` is read-only or overlaps itself.
    IndexError
        If an index is out of range. The inputs are untouched then, in place too; another `out` may hold anything.

    Notes
    -----
    Duplicates: the last update in row-major order wins; reductions combine in row-major order, so that the result is
    the same on every run and at any thread count. An empty `indices` gives a copy. Implements
    DML_SCATTER_ND_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.scatter_nd(np.arange(1, 9), np.array([[4], [3], [1], [7]]), np.array([9, 10, 11, 12]))
    array([ 1, 11,  3, 10,  9,  6,  7, 12])
    >>> votes = dml.scatter_nd(np.zeros(3, int), np.array([[2], [0], [2]]), np.array([1, 1, 1]), reduction="add")
    >>> votes
    array([1, 0, 2])
    """
    if positional:
        refuse_positional("scatter_nd", 3, "batch_dims", positional)
    if batch_dims.__class__ is not int:
        batch_dims = integer("scatter_nd: batch_dims", batch_dims)
    if unique.__class__ is not bool:
        unique = flag("scatter_nd: unique", unique)  # type: ignore[unreachable]
    if config.used:
        target, bounds = config.defaults(target, bounds, clamps=False)
    arrays = a, indices, updates
    return call_three(SPEC, _build, target, stream, arrays, out, (batch_dims, reduction, unique, bounds))  # type: ignore[no-any-return]
