"""GATHER_ND and GATHER_ND1: slices of the input, picked by tuples of indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import call_two
from .._core.descriptor import check_result_rank
from .._core.enums import OperatorType
from .._core.errors import integer
from .._core.lowering import Move, move
from .._core.shapes import TUPLES, has_coordinates, most_batch_dims, packed_sizes, shares_batch
from .._core.spec import BATCH_DIMS, READ_BOUNDS, Spec
from .._core.tensor import TensorDesc
from ._shared.function import Array, MoveDescriptor, builds, check_not_scalar, padded, public, refuse_positional

SPEC = Spec(
    name="gather_nd",
    family="gather",
    summary="pick slices by tuples of indices",
    inputs=("a", "indices"),
    outputs=("output",),
    parameters=(BATCH_DIMS, READ_BOUNDS),
    addressing=TUPLES,
    mask_function="argwhere",
    examples=("gather-nd image.npy points.npy -o values.npy", "gather-nd a.npy i.npy --batch-dims 1 -o picked.npy"),
    explain_examples=("explain gather-nd --shape 100,64 --indices-shape 500,2",),
)


class NDDescriptor(MoveDescriptor):
    """What the ND operators share."""

    arguments = {
        **MoveDescriptor.arguments,
        "input_dimension_count": "a.ndim",
        "indices_dimension_count": "indices.ndim",
        "batch_dimension_count": "batch_dims",
    }
    input_dimension_count: int
    indices_dimension_count: int
    batch_dimension_count: int

    def check_counts(self) -> None:
        """Check the tensors, and how many of their dimensions count."""
        self.check_tensors()
        rank = self.input_tensor.dimension_count
        self.check_range("input_dimension_count", 1, rank)
        self.check_range("indices_dimension_count", 1, rank)
        if self.operator_type is not OperatorType.GATHER_ND:
            limit = most_batch_dims(self.input_dimension_count, self.indices_dimension_count)
            self.check_range("batch_dimension_count", 0, limit)

    def counted(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the sizes of input and indices that count; refuse tuples that do not fit the input."""
        sizes = self.effective("input_tensor", self.input_dimension_count)
        indices = self.effective("indices_tensor", self.indices_dimension_count)
        batch = self.batch_dimension_count
        if not shares_batch(sizes, indices, batch):
            expected = f"{sizes[:batch]}, the input's first {batch} sizes"
            raise self.refuse("indices_tensor", f"batch sizes {indices[:batch]}", expected)
        if not has_coordinates(sizes, indices, batch):
            found = f"{indices[-1]} coordinates per tuple (the last size)"
            raise self.refuse("indices_tensor", found, f"1 to {len(sizes) - batch}")
        return sizes, indices

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Move:
        """Return the lowering: tuples are points; the dimensions after the indexed ones are slices."""
        sizes, indices = self.counted()
        return move(self, self.batch_dimension_count, sizes, strides[0][len(strides[0]) - len(sizes) :], indices)


@dataclass(frozen=True)
class _GatherND(NDDescriptor):
    """What GATHER_ND and GATHER_ND1 share."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    _: KW_ONLY
    bounds: str = "raise"

    spec = SPEC

    def __post_init__(self) -> None:
        self.check_counts()
        self.check_choice("bounds", config.BOUNDS)
        rank = self.input_tensor.dimension_count
        output = packed_sizes(TUPLES, self.batch_dimension_count, *self.counted())
        if len(output) > rank:
            raise self.refuse(
                "output_tensor",
                f"{rank} dimensions",
                f"sizes {output}, which need {len(output)} dimensions",
                "the ND operators never crop",
            )
        self.check_output("output_tensor", (1,) * (rank - len(output)) + output)


@dataclass(frozen=True)
class GatherNDDesc(_GatherND):
    """DML_GATHER_ND_OPERATOR_DESC: ``output[p] = input[indices[p], ...]``.

    Parameters
    ----------
    input_tensor, indices_tensor, output_tensor : TensorDesc
        All of one dimension count. The output's sizes are ``indices[:q - 1] ++ input[t:]``, with 1s before them; t is
        the size of the last index dimension.
    input_dimension_count, indices_dimension_count : int
        How many trailing dimensions count; those before them have size 1.
    bounds : {"raise", "clamp", "drop", "deferred"}
        What happens to an index out of range (native; see `numba_dml.gather_nd`).
    """

    operator_type = OperatorType.GATHER_ND
    levels = core_descriptor.MOVE_LEVELS
    batch_dimension_count = 0


@dataclass(frozen=True)
class GatherND1Desc(_GatherND):
    """DML_GATHER_ND1_OPERATOR_DESC: ``output[batch, p] = input[batch, indices[batch, p], ...]``.

    Parameters
    ----------
    input_tensor, indices_tensor, output_tensor : TensorDesc
        All of one dimension count. The output's sizes are ``indices[:q - 1] ++ input[b + t:]``, with 1s before them;
        t is the size of the last index dimension.
    input_dimension_count, indices_dimension_count : int
        How many trailing dimensions count; those before them have size 1.
    batch_dimension_count : int
        How many leading (counted) dimensions input and indices share; smaller than both counts.
    bounds : {"raise", "clamp", "drop", "deferred"}
        What happens to an index out of range (native; see `numba_dml.gather_nd`).
    """

    batch_dimension_count: int

    operator_type = OperatorType.GATHER_ND1
    levels = core_descriptor.MOVE_LEVELS[:2]


@builds(SPEC, GatherND1Desc.arguments)
def _build(a: Array, indices: Array, batch_dims: int, bounds: str) -> Any:
    check_ranks("gather_nd", len(a.shape), len(indices.shape), batch_dims)
    output = Array(a.kind, packed_sizes(TUPLES, batch_dims, a.shape, indices.shape))
    check_result_rank("gather_nd", "indices", len(indices.shape), len(output.shape))
    _, (x, i, y) = padded(a, indices, output)
    return GatherND1Desc(x, i, y, len(a.shape), len(indices.shape), batch_dims, bounds=bounds), output.shape


def check_ranks(function: str, ndim: int, index_ndim: int, batch_dims: int) -> None:
    """Refuse arrays without dimensions, and batch dimensions that leave none to index, or none for the tuples."""
    check_not_scalar(function, ndim)
    if index_ndim == 0:
        raise ValueError(
            f"{function}: indices: found 0 dimensions, expected at least 1 (the last one holds the tuples)"
        )
    limit = most_batch_dims(ndim, index_ndim)
    if not 0 <= batch_dims <= limit:
        raise ValueError(
            f"{function}: batch_dims: found {batch_dims}, expected 0 to {limit} "
            f"for {ndim}-d a and {index_ndim}-d indices"
        )


@public("positional")
def gather_nd(
    a: Any,
    indices: Any,
    *positional: Any,
    batch_dims: int = 0,
    out: Any = None,
    bounds: str | None = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Pick slices of an array by tuples of indices.

    ``output[batch, p] = a[batch, indices[batch, p], ...]``: without batches, ``a[tuple(indices.T)]`` for 2-d indices.

    Parameters
    ----------
    a : array_like, shape (batch..., n_1, ..., n_t, slice...)
        The input, of any fixed-size dtype and memory layout, at least 1-d.
    indices : array_like of int, shape (batch..., points..., t)
        Tuples of `t` coordinates; coordinate c runs from ``-n_c`` to ``n_c - 1``, negative ones count from the end.
    batch_dims : int
        How many leading dimensions `a` and `indices` share.
    {reads}
    {where}

    Returns
    -------
    ndarray, shape ``indices.shape[:-1] + a.shape[batch_dims + t:]``
        A new array, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `a` holds objects or has a mask, `indices` are not integers, or `out` is no array of the result's dtype.
    ValueError
        If shapes (that of `out` too), `batch_dims` or `bounds` do not fit, or `out` is read-only or overlaps itself.
    IndexError
        If an index is out of range, or an indexed axis is empty and there is any index.

    Notes
    -----
    Duplicate tuples are no special case. Values are copied bit by bit (NaN payloads and the sign of 0 survive).
    Implements DML_GATHER_ND_OPERATOR_DESC and, with `batch_dims`, DML_GATHER_ND1_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> a = np.arange(8).reshape(2, 2, 2)
    >>> dml.gather_nd(a, np.array([[0, 1], [1, 0]]))
    array([[2, 3],
           [4, 5]])
    >>> dml.gather_nd(a, np.array([[1], [0]]), batch_dims=1)
    array([[2, 3],
           [4, 5]])
    """
    if positional:
        refuse_positional("gather_nd", 2, "batch_dims", positional)
    if batch_dims.__class__ is not int:
        batch_dims = integer("gather_nd: batch_dims", batch_dims)
    if config.used:
        target, bounds = config.defaults(target, bounds)
    return call_two(SPEC, _build, target, stream, a, indices, out, (batch_dims, bounds))  # type: ignore[no-any-return]
