"""Lowerings: what a descriptor means for one memory layout, in plain numbers.

Two are shared by several operators, and stand here: `Move` (every gather and scatter) and `Select` (top-k, and argmin
and argmax on a GPU). The kernels of a target are chosen and driven by such numbers alone; they know no rank or axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .enums import AxisDirection, TensorDataType
from .enums import TensorDataType as D
from .errors import index_error
from .shapes import COORD_FIELDS, ELEMENTS, LOOP_FIELDS, extent, lower_move, rows_of
from .tensor import element_size

MODES = {"largest": AxisDirection.DECREASING, "smallest": AxisDirection.INCREASING}
NAN_RULES = ("last", "largest", "first")
REDUCTIONS = ("none", "add", "mul", "min", "max")
SUM_BLOCK = 256  #: elements of a block of a running sum, blocks of a superblock; never changed: results depend on it
SCATTER_BOUNDS = ("raise", "drop", "deferred")  #: writes cannot be clamped: two bad updates would meet on one element


@dataclass(slots=True)
class Move:
    """The lowering of every gather and scatter: slices that move between `data` and a packed array.

    The points of a loop nest each read a tuple of indices, add up an offset into `data` and move one slice.
    The packed array (the output of a gather, the updates of a scatter) holds the slices in the order of the points.
    Of the loops, outermost first, the last one steps through neighbouring index tuples, or repeats one (stride 0).
    """

    function: str
    data_type: Any
    itemsize: int
    index_type: TensorDataType
    index_shape: tuple[int, ...]
    loops: tuple[tuple[int, int, int, int], ...]  #: size, stride in data (bytes), indices (elements), packed (slices)
    coordinates: tuple[tuple[int, int], ...]  #: of each indexed axis of `data`: size, stride in bytes
    slices: tuple[tuple[int, int], ...]  #: of each dimension that moves whole: size, stride in bytes
    axes: tuple[int, ...]  #: the axis that each coordinate indexes, counted from the end, for error messages
    bounds: str
    reduction: str = "none"
    unique: bool = False
    reach: tuple[int, int] | None = None  #: first and last offset of `data` in bytes, if points may not lead to them

    def index_error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> IndexError:
        """Return the error for a bad index: its flat position in indices of a shape, for data of `ndim` dimensions."""
        coordinate = position % len(self.coordinates)
        where: Any = np.unravel_index(position, index_shape) if index_shape else ()
        axis, size = max(ndim, 1) + self.axes[coordinate], self.coordinates[coordinate][0]
        return index_error(self.function, where, value, axis, size)

    def first_error(self, a: Any, indices: Any) -> IndexError:
        """Return the error for the first bad index in C order, one per coordinate in turn, as `index_error`."""
        size = self.coordinates[0][0]
        return self.error_at(a, indices, int(np.argmax(((indices < -size) | (indices >= size)).reshape(-1))))

    def error_at(self, a: Any, indices: Any, position: int) -> IndexError:
        """Return the error for the index at a flat position."""
        value = int(indices[np.unravel_index(position, indices.shape)])
        return self.index_error(a.ndim, indices.shape, position, value)


@dataclass(slots=True)
class Select:
    """The lowering of a top-k: lines of `size` elements, of which the best `k` are selected."""

    data_type: TensorDataType
    index_itemsize: int
    lines: tuple[tuple[int, int, int], ...]  #: of each dimension but the axis: size, stride in bytes, output stride
    size: int
    stride: int  #: from element to element along the axis, in bytes
    output_stride: int  #: the same in the outputs, in elements
    k: int
    largest: bool
    nan_first: bool  #: a NaN is better than any number; else worse
    sorted: bool


def move(descriptor: Any, axis: int, sizes: Sequence[int], strides: Sequence[int], indices: tuple[int, ...]) -> Move:
    """Return the lowering of a gather or a scatter, with every dimension collapsed that can be.

    `axis` is the number of batch dimensions where tuples lead to slices. The indices are packed row-major.
    """
    addressing = descriptor.spec.addressing
    loops = [0] * (LOOP_FIELDS * (len(sizes) + len(indices) + 1))
    coordinates, slices = [0] * (COORD_FIELDS * len(sizes)), [0] * (COORD_FIELDS * len(sizes))
    counts = lower_move(addressing, axis, sizes, strides, indices, loops, coordinates, slices)
    data_type, first = descriptor.input_tensor.data_type, axis - len(sizes)
    reads_elements = addressing == ELEMENTS and not descriptor.spec.writes
    return Move(
        function=descriptor.function,
        data_type=data_type,
        itemsize=element_size(data_type),
        index_type=descriptor.indices_tensor.data_type,
        index_shape=indices,
        loops=rows_of(loops, LOOP_FIELDS, counts[0]),
        coordinates=rows_of(coordinates, COORD_FIELDS, counts[1]),
        slices=rows_of(slices, COORD_FIELDS, counts[2]),
        axes=tuple(range(first, first + counts[1])),
        reach=extent(sizes, strides) if reads_elements else None,
        bounds=descriptor.bounds,
        reduction=descriptor.reduction,
        unique=descriptor.unique,
    )


#: The bits of infinity, by float type.
_INFINITY = {D.FLOAT16: 0x7C00, D.BFLOAT16: 0x7F80, D.FLOAT32: 0x7F800000, D.FLOAT64: 0x7FF0000000000000}
_SIGNED = {D.INT8, D.INT16, D.INT32, D.INT64}


def is_float(data_type: D) -> bool:
    """Tell whether a type has NaNs and two zeros."""
    return data_type in _INFINITY


def nan_is_first(nan: str, largest: bool) -> bool:
    """Tell whether a NaN is better than any number, by the rule of a name and which end is wanted."""
    return nan == "first" or (nan == "largest" and largest)


def rule_numbers(data_type: D, largest: bool, nan_first: bool) -> tuple[int, int, int]:
    """Return ``(flip, infinity, nan_key)`` of a type: the better the element, the higher its key.

    A NaN is never chosen while a number is left, or it is before every number.
    """
    lowest = -(1 << (8 * element_size(data_type) - 1))
    flip = 0 if largest else -1
    if not is_float(data_type) and data_type not in _SIGNED:
        flip ^= lowest
    nan_key = -lowest - 1 if nan_first else lowest
    return flip, _INFINITY.get(data_type, 0), nan_key


class Nonzero(NamedTuple):
    """The result of nonzero_coordinates with a capacity: how many elements are not zero, and where they are."""

    count: Any
    coordinates: Any


class TopK(NamedTuple):
    """The result of a top-k: values, and their positions along the axis."""

    values: Any
    indices: Any
