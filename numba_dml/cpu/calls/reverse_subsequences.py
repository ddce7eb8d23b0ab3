# mypy: ignore-errors
"""The call of reverse_subsequences, and its kernel, which exchanges the slices of a line in pairs, in place too.

The figures are under "Lines that are reversed" in docs/measurements/cpu_small_operators.md.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..._core.errors import index_error
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.shapes import LOOP_FIELDS, extent, flat
from ..._core.tensor import data_type_name, is_packed, packed_strides, product
from ..._jit.compile import allocating, helper, kernel
from ..._jit.copies import copy_bytes
from ..._jit.memory import ANY, UNSIGNED_REFS, address, empty, further, itemsize, load, overlaps, seen_as, store
from ..drivers import ASK, OVERLAP
from ..launch import launcher
from ..primitives.moves.offsets import read_indices
from ..primitives.moves.plan import INDEX_KINDS

# What the kernel reads. A row is the last one after the axis whose lines have lengths of their own; a slice is what
# follows, as units. Then the rows of all other lines, as in the lowering.
(
    LINES,  # how many lines the other rows have, and how many rows they are
    ROWS,
    SIZE,  # of the axis, with its strides
    STRIDE,
    OUT_STRIDE,
    WIDTH,  # columns of the row, and their strides, also in the lengths
    STEP,
    OUT_STEP,
    LENGTH_STEP,
    UNITS,  # of a slice
    STRIPS,  # that the row is cut into
    PARTS,  # that the axis is cut into
    BLOCK,  # columns that are moved together
    CHECKS,  # 1: a length out of range is an error
    KIND,  # of the lengths, and how many there are
    LENGTHS,
    LENGTH_BYTES,
    LOW,  # the bytes of the input, relative to its first element
    HIGH,
    OUT_BYTES,
    SAME,  # 1: input and output have the same strides
    HEADER,
) = range(22)
#: Columns that are moved together, and lengths that are checked together, at most; bytes of the columns, which stay in
#: a cache since each goes its own way, and of one of their rows at least.
MOST_COLUMNS, CACHED_BYTES, ROW_BYTES = 512, 1 << 18, 64
#: Bytes of a slice from which on it is copied by memcpy.
LONG_BYTES = 64
#: Elements of a part of an axis, and of a strip of a row, at least.
LEAST_PART = 1 << 12


@helper
def line_bases(plan, line):
    """Return where a line starts in the input, in the output and in the lengths."""
    source = to = at = np.int64(0)
    for row in range(plan[ROWS] - 1, -1, -1):
        field = HEADER + LOOP_FIELDS * row
        rest = line // plan[field]
        i = line - rest * plan[field]
        source += i * plan[field + 1]
        to += i * plan[field + 2]
        at += i * plan[field + 3]
        line = rest
    return source, to, at


@helper
def exchange(x, y, fro, to, gap, out_gap, units, in_place):
    """Write a slice to where another one, `gap` bytes after it, belongs, and that one to its place."""
    size = itemsize(x)
    if units * size >= LONG_BYTES and not in_place:
        copy_bytes(y, to, x, fro + gap, units * size)
        copy_bytes(y, to + out_gap, x, fro, units * size)
        return
    for k in range(units):
        first, second = load(x, fro + k * size), load(x, fro + gap + k * size)
        store(y, to + k * size, second)
        store(y, to + out_gap + k * size, first)


@helper
def keep(x, y, fro, to, units):
    """Copy a slice."""
    size = itemsize(x)
    if units * size >= LONG_BYTES:
        copy_bytes(y, to, x, fro, units * size)
        return
    for k in range(units):
        store(y, to + k * size, load(x, fro + k * size))


@helper
def move_columns(x, y, plan, fro, to, lengths, count, low, high, in_place):
    """Move the elements low <= t < high of neighbouring lines, and those that they change places with."""
    step, out_step, units = plan[STEP], plan[OUT_STEP], plan[UNITS]
    for t in range(low, high):
        source, place = fro + t * plan[STRIDE], to + t * plan[OUT_STRIDE]
        for j in range(count):
            far = lengths[np.uint64(j)] - 1 - 2 * t
            if far >= 0:  # 0: the middle
                gap, out_gap = far * plan[STRIDE], far * plan[OUT_STRIDE]
                exchange(x, y, source + j * step, place + j * out_step, gap, out_gap, units, in_place)
            elif far < -t and not in_place:  # behind the length
                keep(x, y, source + j * step, place + j * out_step, units)


@helper
def turn_elements(x, y, fro, to, length, low, high):
    """Do what `move_line` does with contiguous elements up to the length, in vectors."""
    size = itemsize(x)
    for t in range(low, high):
        left, right = t * size, (length - 1 - t) * size
        first, second = load(x, fro + left), load(x, fro + right)
        store(y, to + left, second)
        store(y, to + right, first)


@helper
def move_line(x, y, plan, fro, to, length, low, high, in_place):
    """Do what `move_columns` does with a line."""
    stride, out_stride, units = plan[STRIDE], plan[OUT_STRIDE], plan[UNITS]
    size, half = units * itemsize(x), min((length + 1) // 2, high)
    contiguous = stride == size and out_stride == size
    if contiguous and units == 1:
        turn_elements(x, y, fro, to, length, low, half)
        low = max(low, half)
    for t in range(low, half):
        far = length - 1 - 2 * t
        exchange(x, y, fro + t * stride, to + t * out_stride, far * stride, far * out_stride, units, in_place)
    rest = high if in_place else max(low, length)
    if contiguous:
        copy_bytes(y, to + rest * size, x, fro + rest * size, max(high - rest, 0) * size)
        return
    for t in range(rest, high):
        keep(x, y, fro + t * stride, to + t * out_stride, units)


@helper
def move_piece(x, y, index, plan, piece, lengths, numbers):
    """Move a piece: a strip of the columns of a row, or a part of the axis with its mirror image."""
    in_place = address(x) == address(y)
    part, strip = piece % plan[PARTS], piece // plan[PARTS] % plan[STRIPS]
    fro, to, at = line_bases(plan, piece // (plan[PARTS] * plan[STRIPS]))
    size, half = plan[SIZE], (plan[SIZE] + 1) // 2
    low, high = half * part // plan[PARTS], half * (part + 1) // plan[PARTS]
    begin, end = plan[WIDTH] * strip // plan[STRIPS], plan[WIDTH] * (strip + 1) // plan[STRIPS]
    for column in range(begin, end, plan[BLOCK]):
        count = min(plan[BLOCK], end - column)
        several = count if plan[LENGTH_STEP] == 1 else 1
        found = read_indices(index, plan[KIND], at + column * plan[LENGTH_STEP], several, numbers)
        for j in range(count):
            lengths[j] = min(max(load(found, min(j, several - 1) * 8), 0), size)
        source, place = fro + column * plan[STEP], to + column * plan[OUT_STEP]
        for side in range(2):
            first, last = (low, high) if side == 0 else (max(size - high, half), size - low)
            if count == 1:
                move_line(x, y, plan, source, place, lengths[0], first, last, in_place)
            else:
                move_columns(x, y, plan, source, place, lengths, count, first, last, in_place)


@helper
def bad_length(index, plan, begin, end, numbers):
    """Return the position of the first length out of range, or -1."""
    for at in range(begin, end, MOST_COLUMNS):
        count = min(MOST_COLUMNS, end - at)
        found = read_indices(index, plan[KIND], at, count, numbers)
        for i in range(count):
            length = load(found, i * 8)
            if length < 0 or length > plan[SIZE]:
                return at + i
    return np.int64(-1)


@helper
def run_share(stage, x, y, index, plan, task, tasks, lengths):
    """Check a share of the lengths, or move a share of the pieces; return the first bad position, or -1."""
    numbers = further(seen_as(x, np.int64), lengths.ctypes.data - address(x))
    if stage == 0:
        return bad_length(index, plan, plan[LENGTHS] * task // tasks, plan[LENGTHS] * (task + 1) // tasks, numbers)
    pieces = plan[LINES] * plan[STRIPS] * plan[PARTS]
    for piece in range(pieces * task // tasks, pieces * (task + 1) // tasks):
        move_piece(x, y, index, plan, piece, lengths, numbers)
    return np.int64(-1)


@allocating
def share_with_buffer(stage, x, y, index, plan, task, tasks):
    """Do what `run_share` does, in a new buffer."""
    return run_share(stage, x, y, index, plan, task, tasks, empty(MOST_COLUMNS, np.int64))


@kernel
def reverse_kernel(phase, task, tasks, x, y, index, _, plan):
    """Run a task, or tell how many there are: lengths are checked first, if that is asked for."""
    stage = phase + 1 - plan[CHECKS]
    if task != ASK:
        return share_with_buffer(stage, x, y, index, plan, task, tasks) + 1
    to, at = address(y), address(index)
    high = to + plan[OUT_BYTES]
    if phase == 0 and (
        overlaps(to, high, at, at + plan[LENGTH_BYTES])
        or (
            overlaps(to, high, address(x) + plan[LOW], address(x) + plan[HIGH])
            and not (address(x) == to and plan[SAME] != 0)
        )
    ):
        return np.int64(OVERLAP)
    if stage == 0:
        return max(min(plan[LENGTHS] // MOST_COLUMNS, tasks), 1)
    return min(plan[LINES] * plan[STRIPS] * plan[PARTS], 4 * tasks) if stage == 1 else np.int64(0)


class ReverseCall:
    """The call for one layout."""

    def __init__(self, descriptor: Any, layouts: Any, shape: tuple[int, ...]) -> None:
        data, lengths = descriptor.input_tensor, descriptor.sequence_lengths_tensor
        self.function, self.axis, self.shape, self.dtype = descriptor.function, descriptor.axis, shape, data.dtype
        self.empty = allocator(shape, self.dtype)
        (strides, dtype), (length_strides, length_dtype) = layouts
        self.copies = not dtype.isnative
        if self.copies:
            strides = packed_strides(data.sizes, data.itemsize)
        self.copies_lengths = not (
            length_dtype.isnative and is_packed(lengths.sizes, length_strides, length_dtype.itemsize)
        )
        self.size = data.sizes[self.axis]
        count = lengths.element_count
        unit, numbers = _lines(descriptor.lower([strides]), data.itemsize)
        low, high = extent(data.sizes, strides)
        out_bytes = data.element_count * data.itemsize
        same = out_bytes > 0 and all(
            size == 1 or step == packed
            for size, step, packed in zip(data.sizes, strides, packed_strides(data.sizes, data.itemsize), strict=True)
        )
        kind = INDEX_KINDS.index(data_type_name(lengths.data_type))
        about = [int(descriptor.bounds == "raise"), kind, count, count * lengths.itemsize]
        about += [low, high + data.itemsize, out_bytes, int(same)]
        self.plan = np.array([*numbers[:CHECKS], *about, *numbers[CHECKS:]], np.int64)
        self.work = self.effort = 2 * out_bytes + count * lengths.itemsize
        ref = UNSIGNED_REFS[unit]
        self.launch, driver = launcher(reverse_kernel, (ref, ref, ANY, ANY), self.effort)
        self.kernel = f"reverse_subsequences {8 * unit}-bit {driver}"

    def __call__(self, a: Any, lengths: Any, out: Any) -> Any:
        if out is None:
            result = self.empty(self.shape, self.dtype)
        elif check_out(self.function, "out", out, self.shape, self.dtype):
            result = out
        else:
            out[...] = self(a, lengths, None)
            return out
        source = a.astype(self.dtype, "C") if self.copies else a
        packed = np.ascontiguousarray(lengths, lengths.dtype.newbyteorder("=")) if self.copies_lengths else lengths
        status = self.launch(source, result, packed, packed, self.plan)
        if status == 0:
            return result
        if status == OVERLAP:
            out[...] = self(a, lengths, None)
            return out
        raise self.error_at(a, lengths, status - 1)

    def error_at(self, a: Any, lengths: Any, position: int) -> IndexError:
        """Return the error for the length at a flat position."""
        where = np.unravel_index(position, lengths.shape)
        return index_error(self.function, where, int(lengths[where]), self.axis, self.size, "lengths")


def _lines(low: Any, itemsize: int) -> tuple[int, list[int]]:
    """Return the bytes of a unit, and the numbers of a plan up to CHECKS, then those of the rows."""
    inner, run = list(low.inner), itemsize
    if inner and inner[-1][1:] == (itemsize, itemsize, 0):
        run *= inner.pop()[0]
    unit = next(unit for unit in (8, 4, 2, 1) if run % unit == 0)
    row = inner.pop() if inner else (1, 0, 0, 0)
    rows = [*low.outer, *inner]
    lines, threads = product([size for size, *_ in rows]), numba.config.NUMBA_NUM_THREADS
    if run == 0:  # slices of nothing, whose lengths may be nothing too
        lines = 0
    strips = parts = 1
    if 0 < lines < 4 * threads:
        strips = max(min(row[0] * low.size // LEAST_PART, row[0] // 64, 4 * threads), 1)
        parts = max(min(row[0] * low.size * run // itemsize // LEAST_PART, low.size // 2, 4 * threads // strips), 1)
    block = max(CACHED_BYTES // max(low.size * run, 1), ROW_BYTES // max(run, 1), 1)
    header = [lines, len(rows), low.size, low.stride, low.out_stride, *row, run // unit, strips, parts]
    header.append(min(block, MOST_COLUMNS))
    return unit, header + flat(rows)


def build(descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> ReverseCall:
    """Return the call for a descriptor and the layouts of its inputs."""
    return ReverseCall(descriptor, layouts, output_shapes[0])
