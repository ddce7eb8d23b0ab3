"""MAX_UNPOOLING: elements go to places of a larger array, counted through the whole of it; the others are filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any

import numpy as np
from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import build_call, call_two
from .._core.descriptor import Level
from .._core.enums import FeatureLevel, OperatorType
from .._core.errors import flag, integer
from .._core.lowering import SCATTER_BOUNDS, Move
from .._core.shapes import LOOP_FIELDS, collapse_rows, rows_of
from .._core.spec import BATCH_DIMS, REQUIRED, UNIQUE, WRITE_BOUNDS, Parameter, Spec, number
from .._core.tensor import TensorDesc, product
from ._shared.function import Array, Bound, MoveDescriptor, builds, exact, public, refuse_positional, single_value

SPEC = Spec(
    name="max_unpool",
    family="max_unpool",
    summary="write elements to places of a larger array",
    inputs=("a", "indices"),
    outputs=("output",),
    parameters=(
        Parameter("shape", REQUIRED, "of the result", "sizes"),
        BATCH_DIMS._replace(help="dimensions whose places are counted from 0 each"),
        Parameter("fill_value", 0, "what stands elsewhere", number),
        UNIQUE,
        WRITE_BOUNDS,
    ),
    examples=("max-unpool a.npy places.npy --result-shape 8,8 -o b.npy",),
    explain_examples=("explain max-unpool --shape 4 --indices-shape 4 --result-shape 9",),
)


@dataclass(frozen=True)
class MaxUnpoolingDesc(MoveDescriptor):
    """DML_MAX_UNPOOLING_OPERATOR_DESC: zeros, then ``output.flat[indices[p]] = input[p]``.

    Parameters
    ----------
    input_tensor, indices_tensor : TensorDesc
        Of the same sizes.
    output_tensor : TensorDesc
        Of the input's data type and dimension count.
    batch_dimension_count : int
        How many leading dimensions input and output share: an index counts from the start of its block (native).
    unique : bool
        A promise that no two elements meet (native).
    bounds : {"raise", "drop", "deferred"}
        What happens to an index out of range (native; see `numba_dml.max_unpool`).
    """

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    output_tensor: TensorDesc
    _: KW_ONLY
    batch_dimension_count: int = 0
    unique: bool = False
    bounds: str = "raise"

    operator_type = OperatorType.MAX_UNPOOLING
    spec = SPEC
    levels = (
        Level(FeatureLevel.FL_5_0, core_descriptor.T10, core_descriptor.U2, (4, 4)),
        Level(FeatureLevel.FL_2_0, core_descriptor.TF, core_descriptor.U32, (4, 4)),
    )
    native_only = {"batch_dimension_count": 0}
    arguments = {
        "input_tensor": "a",
        "indices_tensor": "indices",
        "output_tensor": "shape",
        "batch_dimension_count": "batch_dims",
    }

    def __post_init__(self) -> None:
        self.check_tensors()
        self.check_choice("bounds", SCATTER_BOUNDS)
        self.check_bool("unique")
        sizes, found = self.input_tensor.sizes, self.indices_tensor.sizes
        self.check_range("batch_dimension_count", 0, len(sizes))
        if found != sizes:
            raise self.refuse("indices_tensor", f"sizes {found}", f"sizes {sizes}, as the input")
        batch, output = sizes[: self.batch_dimension_count], self.output_tensor.sizes
        self.check_output("output_tensor", (*batch, *output[len(batch) :]))

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Move:
        """Return the lowering: a scatter of single elements to packed blocks."""
        batch, itemsize = self.batch_dimension_count, self.input_tensor.itemsize
        sizes, output = self.input_tensor.sizes, self.output_tensor.sizes
        blocks, count, block = product(sizes[:batch]), product(sizes[batch:]), product(output[batch:])
        loops = [blocks, block * itemsize, count, count, count, 0, 1, 1]
        rows = max(collapse_rows(loops, LOOP_FIELDS, 2), 1)
        return Move(
            function=self.function,
            data_type=self.input_tensor.data_type,
            itemsize=itemsize,
            index_type=self.indices_tensor.data_type,
            index_shape=sizes,
            loops=rows_of(loops, LOOP_FIELDS, rows),
            coordinates=((block, itemsize),),
            slices=(),
            axes=(batch - max(len(sizes), 1),),
            bounds=self.bounds,
            unique=self.unique,
        )


@builds(SPEC, MaxUnpoolingDesc.arguments)
def _describe(
    a: Array, indices: Array, shape: tuple[int, ...], batch_dims: int, fill_value: Any, unique: bool, bounds: str
) -> Any:
    given: dict[str, Any] = {"batch_dimension_count": batch_dims, "unique": unique, "bounds": bounds}
    data = TensorDesc(*a)
    _fill(fill_value, data.dtype)
    return MaxUnpoolingDesc(data, TensorDesc(*indices), TensorDesc(a.kind, shape), **given), shape


def _fill(value: Any, dtype: np.dtype[Any]) -> ndarray[Any, Any]:
    """Return what stands where no element goes, as an array of the result's dtype."""
    zero = value.__class__ is int and value == 0  # of any dtype
    return np.zeros((), dtype) if zero else single_value("max_unpool", "fill_value", value, dtype)


@wraps(_describe)
def _build(*key: Any) -> Bound:
    *layout, given, target = key
    descriptor, results = SPEC.describe(layout[::3], layout[2::3], given)
    call = build_call(target, descriptor, tuple(zip(layout[1::3], layout[2::3], strict=True)), results)
    return Bound(call, _fill(given[2], descriptor.input_tensor.dtype).reshape(()))


SPEC.build = _build


@public("positional")
def max_unpool(
    a: Any,
    indices: Any,
    shape: Any,
    /,
    *positional: Any,
    batch_dims: int = 0,
    fill_value: Any = 0,
    unique: bool = False,
    out: Any = None,
    bounds: str | None = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Return an array with elements at the places that indices tell, and one value elsewhere.

    ``output = np.full(shape, fill_value); output.flat[indices] = a``: what undoes a max pooling that returned indices.

    Parameters
    ----------
    a : array_like
        The elements, of any fixed-size dtype and memory layout.
    indices : array_like of int, shape ``a.shape``
        Where each one goes: counted through the result's last dimensions, but for the first `batch_dims`, in row-major
        order. Negative ones count from the end.
    shape : tuple of int
        The result's shape, with as many dimensions as `a`, of which it shares the first `batch_dims`.
    batch_dims : int
        How many leading dimensions have places of their own, counted from 0. ONNX and DirectML have 0; PyTorch counts
        within each plane of images and channels, which is 2.
    fill_value : scalar
        What stands elsewhere. With a dtype of its own, which is that of `a`, it is moved bit by bit; Python's numbers
        are converted to it, as updates of a scatter. 0 stands for zero bytes in a dtype without numbers.
    unique : bool
        A promise that no place is written twice, which spares the work that makes duplicates deterministic. If it is
        broken, the result there is unspecified.
    out : ndarray, optional
        Where to write: exactly the result's shape and dtype. It is filled first, and may overlap the inputs.
    bounds : {"raise", "drop", "deferred"}, optional
        For an index out of range: raise (when absent too, but for `numba_dml.config`); skip the element; or skip it and
        raise later, at `numba_dml.check` (on the CPU as raise).
    {where}

    Returns
    -------
    ndarray, shape `shape`
        A new array, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `a` holds objects or has a mask, `indices`, `shape` or `batch_dims` are not integers, `fill_value` has
        another dtype than `a`, or `out` is no array of that dtype.
    ValueError
        If shapes (that of `out` too), `batch_dims` or `bounds` do not fit, `fill_value` is no scalar, or an integer
        that the dtype does not hold, or `out` is read-only or overlaps itself.
    IndexError
        If an index is out of range. `a` and `indices` keep their values then; `out` may hold anything.

    Notes
    -----
    Duplicates: the last element in row-major order wins, on every run, at any thread count, on a GPU too. Implements
    DML_MAX_UNPOOLING_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.max_unpool(np.array([[1, 2], [3, 4]]), np.array([[5, 7], [13, 15]]), (4, 4))
    array([[0, 0, 0, 0],
           [0, 1, 0, 2],
           [0, 0, 0, 0],
           [0, 3, 0, 4]])
    >>> dml.max_unpool(np.array([[1, 2], [3, 4]]), np.array([[0, 3], [0, -1]]), (2, 4), batch_dims=1, fill_value=9)
    array([[1, 9, 9, 2],
           [3, 9, 9, 4]])
    """
    if positional:
        refuse_positional("max_unpool", 3, "batch_dims", positional)
    if shape.__class__ is not tuple or not all(size.__class__ is int for size in shape):
        try:
            shape = tuple(integer("max_unpool: shape", size, "integers") for size in shape)
        except TypeError:
            raise TypeError(f"max_unpool: shape: found {shape!r}, expected a tuple of integers") from None
    if batch_dims.__class__ is not int:
        batch_dims = integer("max_unpool: batch_dims", batch_dims)
    if unique.__class__ is not bool:
        unique = flag("max_unpool: unique", unique)  # type: ignore[unreachable]
    if config.used:
        target, bounds = config.defaults(target, bounds, clamps=False)
    parameters = shape, batch_dims, exact(fill_value), unique, bounds
    return call_two(SPEC, _build, target, stream, a, indices, out, parameters)  # type: ignore[no-any-return]
