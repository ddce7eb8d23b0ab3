"""From indices to byte offsets, in blocks, without branches: any integer type, any number of coordinates.

The *finder* is compiled once for all gathers and scatters, which call it by address for every block of points: as a
part of each kernel it took a fifth of its time to compile. The figures are under "From indices to offsets" in
docs/measurements/cpumoves.md.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import types

from ...._core.shapes import COORD_FIELDS
from ...._jit.compile import PLAN, allocating, code_address, helper, kernel
from ...._jit.emission import intrinsic
from ...._jit.memory import ANY, SIGNED, ArrayRef, array_at, further, load, seen_as, store
from ...drivers import emit_call
from . import plan as fields
from .plan import BLOCK, block_at, block_points, coord_at, last_loop, loop_at

MAX_INT64 = np.int64(2**63 - 1)
MAX_UINT32 = np.int64(2**32 - 1)


@helper
def read_indices(
    index,  # IN   the indices
    kind,  # IN   their type, a position in INDEX_KINDS
    start,  # IN   the first position, in elements
    count,
    buffer,  # OUT  (count,) int64, if they have to be copied
):
    """Return where neighbouring indices of any integer type are int64. What is above int64 is read as its maximum."""
    if kind == fields.INT64:
        return further(seen_as(index, np.int64), start * 8)
    width = kind & 3
    mask = np.int64(-1)
    if kind > 3 and width < 3:  # unsigned: what sign extension added goes away
        mask = (np.int64(1) << (np.int64(8) << width)) - 1
    if width == 3:
        for i in range(count):
            v = load(seen_as(index, np.int64), (start + i) * 8)
            store(buffer, i * 8, MAX_INT64 if v < 0 else v)  # it must stay out of range
    elif width == 2:
        for i in range(count):
            store(buffer, i * 8, load(seen_as(index, np.int32), (start + i) * 4) & mask)
    elif width == 1:
        for i in range(count):
            store(buffer, i * 8, load(seen_as(index, np.int16), (start + i) * 2) & mask)
    else:
        for i in range(count):
            store(buffer, i * 8, load(seen_as(index, np.int8), start + i) & mask)
    return buffer


@helper
def add_coordinate(
    numbers,  # IN   the tuples
    coord,  # IN   which coordinate
    coords,  # IN   of how many
    count,  # IN   tuples
    n,  # IN   the size of its axis
    stride,  # IN   and the stride
    offsets,  # IN OUT  (count,) int64, one per point
):
    """Add a coordinate to offsets. Return a number that is not 0 if any was out of range (it counts as 0 then)."""
    bad = np.int64(0)
    for i in range(count):
        v = load(numbers, (coord + i * coords) * 8)
        v += n & (v >> 63)
        outside = (v | (n - 1 - v)) >> 63
        bad |= outside
        offsets[i] += (v & ~outside) * stride
    return bad


@helper
def single_offsets(numbers, count, size, stride, start, pattern, offsets):
    """Set the offsets of indices; return whether all are 0 or more and in range."""
    outside = np.int64(0)
    for i in range(count):
        u = load(numbers, i * 8)
        outside |= u | (size - 1 - u)
        offsets[i] = start + pattern[i] + (u & MAX_UINT32) * stride
    return outside >= 0


@helper
def pair_offsets(numbers, count, sizes, strides, start, pattern, offsets):
    """Do what `single_offsets` does with tuples of two."""
    (of_u, of_v), (by_u, by_v) = sizes, strides
    outside = np.int64(0)
    for i in range(count):
        u, v = load(numbers, i * 16), load(numbers, i * 16 + 8)
        outside |= u | (of_u - 1 - u) | v | (of_v - 1 - v)
        offsets[i] = start + pattern[i] + (u & MAX_UINT32) * by_u + (v & MAX_UINT32) * by_v
    return outside >= 0


@helper
def triple_offsets(numbers, count, sizes, strides, start, pattern, offsets):
    """Do what `single_offsets` does with tuples of three."""
    (of_u, of_v, of_w), (by_u, by_v, by_w) = sizes, strides
    outside = np.int64(0)
    for i in range(count):
        u, v, w = load(numbers, i * 24), load(numbers, i * 24 + 8), load(numbers, i * 24 + 16)
        outside |= u | (of_u - 1 - u) | v | (of_v - 1 - v) | w | (of_w - 1 - w)
        offset = (u & MAX_UINT32) * by_u + (v & MAX_UINT32) * by_v + (w & MAX_UINT32) * by_w
        offsets[i] = start + pattern[i] + offset
    return outside >= 0


@helper
def tuple_offsets(numbers, count, plan, start, pattern, offsets):
    """Set the offsets of tuples of up to three coordinates; return whether all are 0 or more and in range.

    All coordinates of a tuple at once are read as vectors, turned around in registers. Four products of 32-bit numbers
    are one instruction on AVX2, of 64-bit numbers five.
    """
    field = coord_at(plan, 0)
    for c in range(plan[fields.COORDS]):
        n, stride = plan[field + COORD_FIELDS * c], plan[field + COORD_FIELDS * c + 1]
        if n > MAX_UINT32 or not 0 <= stride <= MAX_UINT32:
            return False
    size, stride = plan[field], plan[field + 1] & MAX_UINT32
    if plan[fields.COORDS] == 1:
        return single_offsets(numbers, count, size, stride, start, pattern, offsets)
    sizes = size, plan[field + COORD_FIELDS]
    strides = stride, plan[field + COORD_FIELDS + 1] & MAX_UINT32
    if plan[fields.COORDS] == 2:
        return pair_offsets(numbers, count, sizes, strides, start, pattern, offsets)
    field += 2 * COORD_FIELDS
    three, by_three = (*sizes, plan[field]), (*strides, plan[field + 1] & MAX_UINT32)
    return triple_offsets(numbers, count, three, by_three, start, pattern, offsets)


@helper
def settle_block(
    plan,  # IN   (fields,) int64
    position,  # IN   of the block's first tuple
    count,  # IN   points in the block
    step,  # IN   from one tuple to the next: `plan[COORDS]`, or 0
    numbers,  # IN   the tuples
    offsets,  # IN OUT  (count,) int64, and the offsets
):
    """Deal with a block that has indices out of range, the rare case: clamp, drop, or return the position to report."""
    field = coord_at(plan, 0)
    mode = plan[fields.BOUNDS]
    for c in range(plan[fields.COORDS]):
        if plan[field + COORD_FIELDS * c] == 0 and plan[fields.FILLED] != 0:
            mode = fields.RAISE  # nothing can be there
    for i in range(count):
        for c in range(plan[fields.COORDS]):
            n = plan[field + COORD_FIELDS * c]
            v = load(numbers, (i * step + c) * 8)
            v += n & (v >> 63)
            if np.uint64(v) >= np.uint64(n):
                if mode == fields.RAISE:
                    return position + i * step + c
                if mode == fields.DROP or n == 0:
                    offsets[i] = fields.DROPPED
                elif offsets[i] != fields.DROPPED:
                    offsets[i] += min(max(v, 0), n - 1) * plan[field + COORD_FIELDS * c + 1]
    return np.int64(-1)


@helper
def block_offsets(
    plan,  # IN   (fields,) int64
    numbers,  # IN   the tuples
    count,  # IN   how many
    start,  # IN   an offset that all points share
    pattern,  # IN   (count,) int64, the offsets of the points from there, without their indices
    offsets,  # OUT  (count,) int64, one per point, inside the data
):
    """Turn tuples of indices into offsets. Return whether any index was out of range (it counts as 0 then)."""
    coords = plan[fields.COORDS]
    if coords < 4 and tuple_offsets(numbers, count, plan, start, pattern, offsets):
        return False
    for i in range(count):
        offsets[i] = start + pattern[i]
    bad = np.int64(0)
    for c in range(coords):
        field = coord_at(plan, c)
        bad |= add_coordinate(numbers, c, coords, count, plan[field], plan[field + 1], offsets)
    return bad != 0


@kernel
def find_offsets_of(plan, index, position, count, pattern, step, index_step, buffer, offsets):
    """Turn tuples of indices into offsets; see `find_offsets`."""
    patterns = array_at(pattern, 0, (min(count, BLOCK),))
    coords = plan[fields.COORDS]
    status = np.int64(fields.ALL_INSIDE)
    for i in range(0, count, block_points(plan)):
        points = min(block_points(plan), count - i)
        at = position + i * index_step
        tuples = points if index_step else 1
        numbers = read_indices(index, plan[fields.KIND], at, tuples * coords, buffer)
        found = array_at(offsets, 8 * i, (points,))
        bad = block_offsets(plan, numbers, tuples, i * step, patterns, found)
        for j in range(tuples, points):
            found[j] = found[0] - patterns[0] + patterns[j]
        if bad:
            status = settle_block(plan, at, points, index_step, numbers, found)
            if status >= 0:
                break
            status = fields.SETTLED
    return status


_NUMBERS = ArrayRef(SIGNED[8])
#: What the finder is given: what `find_offsets` is, arrays as addresses.
FINDS = (PLAN, ANY, types.int64, types.int64, _NUMBERS, types.int64, types.int64, _NUMBERS, _NUMBERS)


@cache
def finder_address() -> int:
    """Return the address of the finder, which is compiled or loaded."""
    return code_address(find_offsets_of, FINDS)


@intrinsic
def call_finder(typingctx, finder, plan, index, position, count, pattern, step, index_step, buffer, offsets):
    """``call_finder(finder, plan, index, ...)``: call the finder at an address."""
    given = [types.int64] + [types.int64 if kind == _NUMBERS else kind for kind in FINDS]
    given[2] = index  # seen as whatever it is
    return types.int64(*given), lambda context, builder, signature, args: emit_call(context, builder, FINDS, *args)


@helper
def find_offsets(
    plan,  # IN   (fields,) int64
    index,  # IN   the indices
    position,  # IN   of the first tuple
    count,  # IN   how many points
    pattern,  # IN   (min(count, BLOCK),) int64, their offsets without their indices ...
    step,  # IN   ... and how much more that is from point to point, if they are more than a block
    index_step,  # IN   from tuple to tuple, 0: all points use the one tuple at `position`
    buffer,  # OUT  (BLOCK,) int64, scratch
    offsets,  # OUT  (count,) int64, one per point; inside the data, or DROPPED
):
    """Turn tuples of indices into offsets, and deal with those out of range; return the position of one to report."""
    of_pattern, of_buffer, of_offsets = pattern.ctypes.data, buffer.ctypes.data, offsets.ctypes.data
    return call_finder(
        plan[fields.FINDER], plan, index, position, count, of_pattern, step, index_step, of_buffer, of_offsets
    )


@allocating
def in_slices(plan, size):
    """Return a plan whose offsets are numbers of slices."""
    numbered = plan.copy()
    numbered[fields.DATA_BASE] //= size
    for loop in range(plan[fields.LOOPS]):
        numbered[loop_at(loop) + 1] //= size
    for coord in range(plan[fields.COORDS]):
        numbered[coord_at(plan, coord) + 1] //= size
    return numbered


@helper
def number_block(
    index,  # IN   the indices, packed
    plan,  # IN   (fields,) int64, `in_slices`
    rows,  # IN   what `find_rows` returns of it
    p,  # IN   the first point
    end,  # IN   only points below this one
    numbers,  # OUT  (count,) int32, which slice of the output each point writes; -1: it is dropped
    buffer,  # IN OUT  (3 * BLOCK,) int64: scratch, what `find_rows` leaves, scratch
):
    """Find out where a block of updates leads; return how many, and -1 or the position of the first bad index."""
    last = last_loop(plan)
    step, index_step = plan[last + 1], plan[last + 2]
    offsets = buffer[2 * BLOCK :]
    place = p // rows[1], p % rows[1]
    count, base, position, _, first, _ = block_at(plan, rows, block_points(plan), place, end - p)
    status = find_offsets(plan, index, position, count, buffer[BLOCK + first :], step, index_step, buffer, offsets)
    for i in range(count):
        numbers[i] = -1 if offsets[i] == fields.DROPPED else base + offsets[i]
    return count, max(status, np.int64(-1))
