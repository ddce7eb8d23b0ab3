"""NONZERO_COORDINATES: where the elements are that are not zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from .._core import config
from .._core import descriptor as core_descriptor
from .._core.calls import call_one
from .._core.descriptor import Descriptor, Level
from .._core.devices.libraries import library_of
from .._core.enums import FeatureLevel, OperatorType
from .._core.enums import TensorDataType as D
from .._core.errors import integer
from .._core.lowering import SCATTER_BOUNDS, Nonzero, is_float
from .._core.operands import output_pair
from .._core.spec import WRITE_BOUNDS, Parameter, Spec
from .._core.tensor import TensorDesc, data_type_name
from ._shared.function import Array, builds, index_type, public, refuse_positional
from ._shared.scan import NUMBERS, number_type

SPEC = Spec(
    name="nonzero_coordinates",
    family="compaction",
    summary="find the elements that are not zero",
    inputs=("a",),
    outputs=("count", "coordinates"),
    parameters=(
        Parameter("size", None, "rows of the result; their count is returned too (default: as many as are found)", int),
        Parameter("fill_value", -1, "what stands in rows of --size that are left", int),
        Parameter("index_dtype", None, "of the coordinates (default: int64)", "dtype"),
        WRITE_BOUNDS._replace(help="what to do with more elements than --size (default: raise)"),
    ),
    compares=True,
    examples=("nonzero-coordinates mask.npy -o where.npy", "nonzero-coordinates a.npy --size 1000 -o where.npz"),
    explain_examples=(
        "explain nonzero-coordinates a.npy",
        "explain nonzero-coordinates --shape 1000,5000 --dtype bool",
    ),
)
_PARTS = {D.COMPLEX64: D.FLOAT32, D.COMPLEX128: D.FLOAT64}


class Compaction(NamedTuple):
    """The lowering: the elements of which any of certain bits is set, in row-major order."""

    mask: int  #: the bits of an element, or of its first 8 bytes, that say it is not zero: all but the signs of floats
    strides: tuple[int, ...]  #: in bytes
    columns: int  #: how many of the last coordinates a row holds


@dataclass(frozen=True)
class NonzeroCoordinatesDesc(Descriptor):
    """DML_NONZERO_COORDINATES_OPERATOR_DESC: the coordinates of the elements that are not zero, in row-major order.

    Parameters
    ----------
    input_tensor : TensorDesc
        Of any type of numbers.
    output_count_tensor : TensorDesc
        How many elements are not zero. All sizes are 1.
    output_coordinates_tensor : TensorDesc
        Sizes ``(1, ..., 1, M, N)``: there is room for M elements (all of the input; native: any number), and a row
        holds the last N coordinates. Those that are left out are of leading dimensions of size 1.
    fill_value : int, optional
        What rows hold for which there is no element. None: they keep what they held, or hold 0 in a new array.
    bounds : {"raise", "drop", "deferred"}
        For more than M elements: raise an error, write the first M, or write them and raise at `numba_dml.check`.
    """

    input_tensor: TensorDesc
    output_count_tensor: TensorDesc
    output_coordinates_tensor: TensorDesc
    _: KW_ONLY
    fill_value: int | None = None
    bounds: str = "raise"

    operator_type = OperatorType.NONZERO_COORDINATES
    spec = SPEC
    levels = (
        Level(FeatureLevel.FL_4_0, core_descriptor.T8, core_descriptor.U32, (1, 8)),
        Level(FeatureLevel.FL_3_0, core_descriptor.T8, core_descriptor.U32, (4, 5)),
    )
    input_fields = ("input_tensor",)
    output_fields = ("output_count_tensor", "output_coordinates_tensor")
    same_ranks = False
    arguments = {"input_tensor": "a", "output_count_tensor": "out[0]", "output_coordinates_tensor": "index_dtype"}

    def __post_init__(self) -> None:
        self.check_tensors()
        data, count, rows = self.tensors().values()
        if data.data_type not in NUMBERS:
            raise self.refuse("input_tensor", data_type_name(data.data_type), "a data type of numbers")
        if count.element_count != 1:
            raise self.refuse("output_count_tensor", f"sizes {count.sizes}", "size 1 in every dimension")
        if rows.dimension_count < 2:
            raise self.refuse("output_coordinates_tensor", f"{rows.dimension_count} dimensions", "at least 2")
        _, columns = self.effective("output_coordinates_tensor", 2)
        rank = data.dimension_count
        least = max(rank - next((d for d, size in enumerate(data.sizes) if size != 1), rank), min(rank, 1))
        if not least <= columns <= rank:
            expected = f"{least} to {rank}" if least < rank else str(rank)
            raise self.refuse("output_coordinates_tensor", f"{columns} coordinates", expected)
        self._check_holds("output_count_tensor", data.element_count)
        self._check_holds("output_coordinates_tensor", max(data.sizes, default=1) - 1)
        self.check_choice("bounds", SCATTER_BOUNDS)
        if self.fill_value is not None:
            limits = np.iinfo(rows.dtype)
            self.check_range("fill_value", int(limits.min), int(limits.max), f", what {rows.dtype} holds")

    def _check_holds(self, field: str, highest: int) -> None:
        kind = getattr(self, field).dtype
        if highest > np.iinfo(kind).max:
            raise self.refuse(field, kind, f"a type that holds {highest}")

    def holds_indices(self, field: str) -> bool:
        """Tell whether a tensor holds a count or coordinates."""
        return field != "input_tensor"

    def check_strict(self, rule: str) -> None:
        """Check that there is room for all elements, and up to FL_3_1 that all tensors have as many dimensions."""
        elements, rank = self.input_tensor.element_count, self.input_tensor.dimension_count
        rows = self.output_coordinates_tensor.sizes[-2]
        if rows != elements:
            raise self.refuse(
                "output_coordinates_tensor", f"{rows} rows", f"{elements}, all elements of the input", rule
            )
        for name in self.output_fields if FeatureLevel[rule] < FeatureLevel.FL_4_0 else ():
            found = getattr(self, name).dimension_count
            if found != rank:
                raise self.refuse(name, f"{found} dimensions", f"{rank}, as input_tensor has", rule)

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Compaction:
        """Return the lowering for an input of these strides."""
        data = self.input_tensor
        part = _PARTS.get(data.data_type, data.data_type)
        bits = 8 * TensorDesc(part, ()).itemsize
        mask = (1 << (bits - is_float(part))) - 1
        if data.data_type is D.COMPLEX64:
            mask |= mask << bits
        return Compaction(mask, strides[0], self.output_coordinates_tensor.sizes[-1])


@builds(SPEC, NonzeroCoordinatesDesc.arguments, number_type)
def _build(a: Array, size: Any, fill_value: Any, index_dtype: Any, bounds: str) -> Any:
    rank, indices = len(a.shape), index_type("nonzero_coordinates", index_dtype)
    data = TensorDesc(*a)
    rows = TensorDesc(indices, (data.element_count if size is None else size, rank))
    fill_value = None if size is None else fill_value
    descriptor = NonzeroCoordinatesDesc(data, TensorDesc(D.INT64, ()), rows, fill_value=fill_value, bounds=bounds)
    return descriptor, (), (size, rank)


@public("positional")
def nonzero_coordinates(
    a: Any,
    /,
    *positional: Any,
    size: int | None = None,
    fill_value: int = -1,
    index_dtype: Any = None,
    bounds: str | None = None,
    out: Any = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any] | Nonzero:
    """Return where the elements are that are not zero, in row-major order.

    ``output[p]`` is the index of the p-th of them, as in `numpy.argwhere`. `gather_nd` and `scatter_nd` take it as
    their indices: ``gather_nd(a, nonzero_coordinates(a))`` is ``a[a != 0]``.

    Parameters
    ----------
    a : array_like, any shape
        The input: bool, numbers of up to 64 bits (float16 and bfloat16 included), or complex numbers, in any memory
        layout.
    size : int, optional
        The number of rows, whatever is found: the count is returned beside them, and on a device nothing waits for it
        if `bounds` is not ``"raise"``. When absent, there are as many rows as elements that are not zero.
    fill_value : int
        What rows of `size` hold for which there is no element.
    index_dtype : dtype, optional
        The integer dtype of the coordinates; `numpy.intp` when absent.
    bounds : {"raise", "drop", "deferred"}, optional
        For more elements than there is room for: raise (when absent too, but for `numba_dml.config`); return the first
        ones, and the count of all; or do so and raise later, at `numba_dml.check` (on the CPU as raise).
    out : pair of ndarray, optional
        Where to write ``(count, coordinates)``: the count, of shape ``()`` and dtype int64, and rows of `index_dtype`,
        any number of them. Rows for which there is no element keep what they held. They may overlap `a`.
    {where}

    Returns
    -------
    ndarray, shape ``(count, a.ndim)``, or Nonzero
        The coordinates; with `size` or `out` the named tuple ``(count, coordinates)``, the count an array of shape
        ``()``.

    Raises
    ------
    TypeError
        If the elements of `a` are no numbers, it has a mask, `size` or `fill_value` is no integer, `index_dtype` is no
        integer dtype, or `out` is no pair of arrays of the results' dtypes.
    ValueError
        If there are more elements than room for them, `size` is negative, `index_dtype` cannot hold the coordinates or
        `fill_value`, `bounds` is unknown, the shapes of `out` do not fit, or one of them is read-only or overlaps
        itself or the other.

    Notes
    -----
    -0 and +0 are zero; a NaN is not, nor are infinities and subnormal numbers. A complex number is zero if both parts
    are. The order is that of the index, whatever the layout in memory and the number of threads. Implements
    DML_NONZERO_COORDINATES_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> a = np.array([[1, 0], [1, 1]])
    >>> dml.nonzero_coordinates(a)
    array([[0, 0],
           [1, 0],
           [1, 1]])
    >>> count, coordinates = dml.nonzero_coordinates(np.array([1, 0, 1, 1]), size=5)
    >>> int(count)
    3
    >>> coordinates.ravel()
    array([ 0,  2,  3, -1, -1])
    """
    if positional:
        refuse_positional("nonzero_coordinates", 1, "size", positional)
    if size.__class__ is not int and size is not None:
        size = integer("nonzero_coordinates: size", size)
    if size is not None and size < 0:
        raise ValueError(f"nonzero_coordinates: size: found {size}, expected 0 or more")
    filling: int | None = (
        fill_value if fill_value.__class__ is int else integer("nonzero_coordinates: fill_value", fill_value)
    )
    if out is not None:
        filling = None
        if size is None:
            _, rows = output_pair("nonzero_coordinates", out, "(count, coordinates)")
            library = None if hasattr(rows, "shape") else library_of(rows)
            shape = getattr(rows, "shape", ()) if library is None else library.view(rows).shape  # type: ignore[union-attr]
            size = int((*shape, 0)[0])
    if config.used:
        target, bounds = config.defaults(target, bounds, False)
    return call_one(SPEC, _build, target, stream, a, out, (size, filling, index_dtype, bounds))  # type: ignore[no-any-return]
