"""The kernel of reverse_subsequences: it exchanges the slices of a line in pairs, in place too.

The figures are under "Lines that are reversed" in docs/measurements/cpu_small_operators.md.
"""

from __future__ import annotations

import numpy as np

from ..._jit.compile import allocating, helper, kernel
from ..._jit.copies import copy_bytes
from ..._jit.memory import address, empty, further, itemsize, load, overlaps, seen_as, store
from ..drivers import ASK, OVERLAP
from ..primitives.moves.offsets import read_indices
from ..primitives.moves.plan import offsets_in_nest

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
    fro, to, at = offsets_in_nest(plan, HEADER, plan[ROWS], piece // (plan[PARTS] * plan[STRIPS]))
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
