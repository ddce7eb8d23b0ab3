"""The rules of shapes and axes, as plain functions: Python calls them, and jitted calls compile the same ones.

So they take what both have: numbers, and sizes or strides that can be counted and read by position. Rows of numbers,
as the loops of a move, stand one behind another: in a list of Python's or in a vector, which they change.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from typing import Any

#: How indices address the data: slices along an axis, elements along an axis, slices by tuples of indices.
SLICES, ELEMENTS, TUPLES = 1, 2, 3

LOOP_FIELDS = 4  #: the numbers of a loop of a move: its size, and its strides in data, indices and packed array
COORD_FIELDS = 2  #: those of a coordinate or a dimension of slices: its size, and its stride in data
LINE_FIELDS = 3  #: those of a dimension of the lines of a top-k: its size, and its strides in input and outputs


def axis_from_start(axis: int, ndim: int) -> int:
    """Return a non-negative axis, or -1 if there is no such axis."""
    if axis < -ndim or axis >= ndim:
        return -1
    return axis + ndim if axis < 0 else axis


def most_batch_dims(ndim: int, index_ndim: int) -> int:
    """Return how many batch dimensions leave one to index, and one for the tuples."""
    return min(ndim, index_ndim) - 1


def shares_batch(sizes: Sequence[int], indices: Sequence[int], batch: int) -> bool:
    """Tell whether the first `batch` sizes of data and indices are the same."""
    for i in range(batch):  # noqa: SIM110 (compiled, and for vectors)
        if sizes[i] != indices[i]:
            return False
    return True


def has_coordinates(sizes: Sequence[int], indices: Sequence[int], batch: int) -> bool:
    """Tell whether tuples have a coordinate, and the data an axis for each."""
    count = indices[len(indices) - 1]
    return 1 <= count <= len(sizes) - batch


def first_too_long(sizes: Sequence[int], indices: Sequence[int], axis: int, broadcasts: bool) -> int:
    """Return the first dimension off the axis where indices are longer than the data, or -1.

    Data of size 1 may be broadcast.
    """
    for i in range(len(sizes)):
        if i != axis and indices[i] > sizes[i] and not (broadcasts and sizes[i] == 1):
            return i
    return -1


def tuple_size(addressing: int, indices: Sequence[int]) -> int:
    """Return how many indices lead to a slice."""
    return indices[len(indices) - 1] if addressing == TUPLES else 1


def packed_parts(addressing: int, axis: int, ndim: int, indices: Sequence[int]) -> tuple[int, int, int]:
    """Return ``(start, points, stop)``: what is gathered has sizes[:start], indices[:points] and sizes[stop:].

    So have the updates of a scatter. `axis` is the number of batch dimensions where tuples lead to slices.
    """
    if addressing == SLICES:
        return axis, len(indices), axis + 1
    if addressing == TUPLES:
        return 0, len(indices) - 1, axis + tuple_size(addressing, indices)
    return 0, len(indices), ndim


def packed_sizes(addressing: int, axis: int, sizes: Sequence[int], indices: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of what is gathered, or of the updates of a scatter; jitted calls need only the parts."""
    start, points, stop = packed_parts(addressing, axis, len(sizes), indices)
    return (*sizes[:start], *indices[:points], *sizes[stop:])


def reach(size: int, stride: int) -> tuple[int, int]:
    """Return the lowest and the highest offset that a dimension reaches."""
    last = (size - 1) * stride if size > 1 else 0
    return (last, 0) if last < 0 else (0, last)


def extent(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the lowest and highest offset that the elements of an array reach."""
    low = high = 0
    for i in range(len(sizes)):
        first, last = reach(sizes[i], strides[i])
        low += first
        high += last
    return low, high


def nests(sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Tell whether each dimension steps over all that those of shorter strides touch: then no elements overlap."""
    for i in range(len(sizes)):
        if sizes[i] == 0:
            return True
    for i in range(len(sizes)):
        stride, touched = abs(strides[i]), itemsize
        for j in range(len(sizes)):
            other = abs(strides[j])
            if j != i and sizes[j] > 1 and (other < stride or (other == stride and j < i)):
                touched += (sizes[j] - 1) * other
        if sizes[i] > 1 and stride < touched:
            return False
    return True


def flat(rows: Iterable[tuple[int, ...]]) -> list[int]:
    """Return rows one behind another, for Python; `rows_of` returns them as they were."""
    return [number for row in rows for number in row]


def rows_of(numbers: Sequence[int], fields: int, count: int) -> tuple[Any, ...]:
    """Return the first rows as tuples, for Python."""
    return tuple([tuple(numbers[at : at + fields]) for at in range(0, count * fields, fields)])


def collapse_rows(rows: MutableSequence[int], fields: int, count: int) -> int:
    """Join neighbouring dimensions that are one in memory; return how many are left.

    A dimension is a size followed by any number of strides. Two neighbours join when every stride of the outer one is
    the inner size times the inner stride; dimensions of size 1 vanish.
    """
    kept = 0
    for at in range(0, count * fields, fields):
        size = rows[at]
        if size == 1:
            continue
        to, same = kept - fields, 1
        while kept > 0 and same < fields and rows[to + same] == size * rows[at + same]:
            same += 1
        if same == fields:
            size *= rows[to]
        else:
            to = kept
            kept += fields
        if to != at:
            for field in range(1, fields):
                rows[to + field] = rows[at + field]
            rows[to] = size
    return kept // fields


def lower_move(
    addressing: int,
    axis: int,  # or the number of batch dimensions
    sizes: Sequence[int],
    strides: Sequence[int],
    indices: Sequence[int],
    loops: MutableSequence[int],  # room for a row per dimension of data and indices, and for one at least
    coordinates: MutableSequence[int],
    slices: MutableSequence[int],
) -> tuple[int, int, int]:
    """Write the loops, coordinates and slices of a gather or a scatter (see `lowering.Move`); return how many each are.

    The indices are packed. Where slices are addressed along an axis, the dimensions before it are loops, too.
    """
    start, points, stop = packed_parts(addressing, axis, len(sizes), indices)
    at = 0
    for i in range(start):
        loops[at], loops[at + 1] = sizes[i], strides[i]
        at += LOOP_FIELDS
    for i in range(points):
        if addressing == TUPLES:
            follows = i < axis
        else:  # data stands still along the axis and where it is broadcast
            follows = addressing == ELEMENTS and i != axis and sizes[i] != 1
        loops[at], loops[at + 1] = indices[i], strides[i] if follows else 0
        at += LOOP_FIELDS
    count, packed = tuple_size(addressing, indices), 1
    for row in range(at - LOOP_FIELDS, -1, -LOOP_FIELDS):
        loops[row + 2] = count * packed if row >= start * LOOP_FIELDS else 0
        loops[row + 3] = packed
        packed *= max(loops[row], 1)
    loop_count = collapse_rows(loops, LOOP_FIELDS, start + points)
    if loop_count == 0:
        loops[0], loops[1], loops[2], loops[3] = 1, 0, 0, 1
        loop_count = 1
    for c in range(count):
        coordinates[c * COORD_FIELDS], coordinates[c * COORD_FIELDS + 1] = sizes[axis + c], strides[axis + c]
    for i in range(stop, len(sizes)):
        to = (i - stop) * COORD_FIELDS
        slices[to], slices[to + 1] = sizes[i], strides[i]
    return loop_count, count, collapse_rows(slices, COORD_FIELDS, len(sizes) - stop)


def lower_lines(
    axis: int,
    k: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    lines: MutableSequence[int],  # room for a row per dimension
) -> tuple[int, int]:
    """Write the dimensions of the lines of a top-k (see `lowering.Select`).

    Return how many they are, and the distance of neighbours along the axis in the outputs.
    """
    packed = out_stride = 1
    at = (len(sizes) - 1) * LINE_FIELDS
    for i in range(len(sizes) - 1, -1, -1):
        if i == axis:
            out_stride = packed
            packed *= max(k, 1)
        else:
            at -= LINE_FIELDS
            lines[at], lines[at + 1], lines[at + 2] = sizes[i], strides[i], packed
            packed *= max(sizes[i], 1)
    return collapse_rows(lines, LINE_FIELDS, len(sizes) - 1), out_stride
