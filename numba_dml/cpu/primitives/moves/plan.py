"""The plan of a gather or a scatter, and how its points are gone through, in blocks.

A `numba_dml._core.lowering.Move` arrives as a *plan*, one int64 array: a header, then the loops and the
coordinates. Gather and scatter share everything here. A kernel that finds a bad index returns 1 + its
position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ...._jit.compile import PLAN, allocating, helper
from ...._jit.emission import intrinsic, ir
from ...._jit.memory import ANY, SIGNED, ArrayRef, emit_byte_pointer, itemsize, load, splat
from ...drivers import emit_call
from ..keys import LANES

#: Points are handled in blocks: offsets first (vectorised), then the moves. 512 offsets stay in L1 beside the data.
BLOCK = 512
#: Single elements are copied in groups of this many, the indices of which are tested together.
GROUP = 16
#: Bits of a vector whose signs are tested at once.
_SIGN_BITS = 256
#: The offset of a point whose update is dropped. No real offset is this low.
DROPPED = np.int64(-(2**63))

INDEX_KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
INT32, INT64, UINT64 = map(INDEX_KINDS.index, ("int32", "int64", "uint64"))
RAISE, CLAMP, DROP = 0, 1, 2
PACK_NEW, PACK_IN_PLACE = 1, 2

# The header of a plan. Offsets and strides are in bytes; index positions are in elements.
(
    POINTS,  # how many points
    LOOPS,  # how many loops
    COORDS,  # how many coordinates per tuple
    RUN,  # elements per slice, which is contiguous
    KIND,  # the index type, a position in INDEX_KINDS
    BOUNDS,  # RAISE, CLAMP or DROP
    FILLED,  # 1: an empty axis is an error in every mode (gather has nothing to give)
    LOW,  # the lowest byte of data, relative to its first element, or of what can be touched
    HIGH,  # one past the highest
    STARTS_LOW,  # the lowest offset of a slice
    STARTS_HIGH,  # one past the highest
    PACKED_BYTES,
    INDEX_BYTES,
    DATA_BASE,  # where the points start: a thread's share is a plan of its own
    INDEX_BASE,
    PACKED_BASE,
    COMMON,  # 1: all rows of the last loop read the same indices, which are few
    TILE,  # iterations of a loop that are done together, so that what they reach stays in a cache; 0: no tiles. In a
    # scatter by bins: bytes of the output, a power of two
    STREAM,  # 1: the output is written past the caches, since it is larger than they are
    CACHED,  # 1: the data of a gather are small enough for the L2
    AHEAD,  # bytes that the next row will read all over, 0: too many, or too few of them
    SPLIT,  # how a scatter is shared among threads
    COPY,  # bytes to copy from the input of a scatter before it, 0: the output already holds them
    PERIOD,  # with a split loop: the bytes after which the places that its iterations write to repeat
    TILE_IN_PLACE,  # with a split loop: what TILE is for a scatter in place; by bins, 0: in place it is not done so
    PACKS,  # with a split loop: which strips are packed, PACK_NEW, PACK_IN_PLACE, or both; of a gather: a tile's bytes
    REDUCTION,
    SHARES,  # of the points, in a scatter by bins: as many as threads at most
    ALONE,  # one thread writes, whatever their number
    SCRATCH,  # the address of its memory
    FINDER,  # the address of the code that turns tuples of indices into offsets
    HEADER,
) = range(32)
LOOP_FIELDS = 4  # size, data stride, index stride, packed stride
COORD_FIELDS = 2  # size, data stride


def index_width(plan: Any) -> int:
    """Return the bytes of indices that kernels read where they are, 0: they work out offsets first.

    They must be signed neighbours of 4 or 8 bytes, one for each element that is moved, whose results are neighbours
    too. Python calls this, and jitted callers compile it.
    """
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    single = plan[RUN] == 1 and plan[COORDS] == 1
    neighbours = plan[last + 2] == 1 or plan[last] == 1
    packed = plan[last + 3] * plan[POINTS] == plan[PACKED_BYTES]
    if not (single and neighbours and packed):
        return 0
    return 8 if plan[KIND] == INT64 else 4 if plan[KIND] == INT32 else 0


@helper
def coords_at(plan):
    """Return where the coordinates start in a plan."""
    return HEADER + LOOP_FIELDS * plan[LOOPS]


@helper
def block_points(plan):
    """Return how many points a block may have: one buffer holds all their coordinates."""
    return max(BLOCK // plan[COORDS], 1)


@helper
def all_inside(ref, at, count, n):
    """Return whether neighbouring indices, integers of the reference's type, are 0 or more and below `n`."""
    outside = np.int64(0)
    for i in range(count):
        v = np.int64(load(ref, at + i * itemsize(ref)))
        outside |= v | (n - 1 - v)
    return outside >= 0


def _emit_numbers(builder, ref, dtype, at, count):
    """Emit the load of neighbouring indices as they are."""
    lanes = ir.VectorType(ir.IntType(dtype.bitwidth), count)
    pointer = emit_byte_pointer(builder, ref, at)
    numbers = builder.load(builder.bitcast(pointer, lanes.as_pointer()), typ=lanes)
    numbers.align = 1
    return numbers


def _emit_everywhere(builder, value, most, lanes):
    """Emit what repeats a number in every lane; where lanes are narrower than it, `most` if it is more."""
    if lanes.element.width < value.type.width:
        value = builder.select(builder.icmp_signed("<", value, value.type(most)), value, value.type(most))
        value = builder.trunc(value, lanes.element)
    return splat(builder, value, lanes.count)


def _emit_inside(builder, numbers, n):
    """Emit what tells whether indices are all 0 or more and below n.

    Signs are combined before they are tested: LLVM would make a bit of each. See "Single elements by neighbouring
    indices" in docs/measurements/cpumoves.md.
    """
    lanes = numbers.type
    most = (1 << (lanes.element.width - 1)) - 1
    rest = builder.sub(_emit_everywhere(builder, builder.sub(n, n.type(1)), most, lanes), numbers)
    outside = builder.or_(numbers, rest)
    while outside.type.count * lanes.element.width > _SIGN_BITS:
        half = outside.type.count // 2
        parts = (ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(i, i + half))) for i in (0, half))
        outside = builder.or_(*(builder.shuffle_vector(outside, outside, part) for part in parts))
    found = builder.icmp_signed("<", outside, ir.Constant(outside.type, None))
    mask = ir.IntType(outside.type.count)
    return builder.icmp_unsigned("==", builder.bitcast(found, mask), mask(0))


@intrinsic
def group_inside(typingctx, ref, at, n):
    """``group_inside(ref, at, n)``: what `all_inside` tells of a group, where LLVM would not use vectors."""

    def codegen(context, builder, signature, args):
        numbers = _emit_numbers(builder, args[0], signature.args[0].dtype, args[1], GROUP)
        return _emit_inside(builder, numbers, args[2])

    return types.boolean(ref, types.int64, types.int64), codegen


@intrinsic
def owned_numbers(typingctx, ref, at, n, low, size):
    """``owned_numbers(ref, at, n, low, size)``: which of `LANES` neighbouring indices are a thread's.

    Bit i: ``low <= number < low + size``; and whether all are 0 or more and below `n`, as ``low + size`` is.
    """

    def codegen(context, builder, signature, args):
        ref, at, n, low, size = args
        numbers = _emit_numbers(builder, ref, signature.args[0].dtype, at, LANES)
        lanes = numbers.type
        end = 1 << (lanes.element.width - 1)
        # If no number of the type is as high as `low`, none is the thread's.
        size = builder.select(builder.icmp_signed("<=", low, low.type(end - 1)), size, size.type(0))
        from_low = builder.sub(numbers, _emit_everywhere(builder, low, end - 1, lanes))
        # As many as there are from any lowest one on: a number below that is further away, around the end.
        owned = builder.icmp_unsigned("<", from_low, _emit_everywhere(builder, size, end, lanes))
        which = builder.bitcast(owned, ir.IntType(LANES))
        return context.make_tuple(builder, signature.return_type, [which, _emit_inside(builder, numbers, n)])

    result = types.Tuple([types.uint64, types.boolean])
    return result(ref, types.int64, types.int64, types.int64, types.int64), codegen


@helper
def owned_numbers_plain(ref, at, count, n, low, size):
    """Return what `owned_numbers` returns, of up to `LANES` indices, in plain Numba."""
    mask = np.uint64(0)
    for i in range(count):
        number = np.int64(load(ref, at + i * itemsize(ref)))
        mask |= np.uint64(np.uint64(number - low) < np.uint64(size)) << np.uint64(i)
    return mask, all_inside(ref, at, count, n)


#: What `find_offsets` returns beside the position of a bad index.
ALL_INSIDE, SETTLED = -1, -2
_NUMBERS = ArrayRef(SIGNED[8])
#: Of a finder, see `offsets`: what `find_offsets` is given, arrays as addresses.
FINDS = (PLAN, ANY, types.int64, types.int64, _NUMBERS, types.int64, types.int64, _NUMBERS, _NUMBERS)


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
    return call_finder(plan[FINDER], plan, index, position, count, of_pattern, step, index_step, of_buffer, of_offsets)


@helper
def find_rows(plan, pattern):
    """Return which loop makes the rows, the points of a row, and those of each iteration of this loop: of a *unit*.

    Inner loops whose points are neighbours in indices and packed array are one unit if a block has room for two: one by
    one, short rows take six times as long. `pattern`, (block_points(plan),) int64, is set to the offsets of a block's
    points from the start of a unit, without their indices.
    """
    loop = plan[LOOPS] - 1
    field = HEADER + LOOP_FIELDS * loop
    block = block_points(plan)
    unit = 1
    for i in range(min(plan[field], block)):
        pattern[i] = i * plan[field + 1]
    while loop > 0 and 0 < 2 * unit * plan[field] <= block:
        outer = field - LOOP_FIELDS
        size = plan[field]
        if plan[outer + 2] != size * plan[field + 2] or plan[outer + 3] != size * plan[field + 3]:
            break
        unit *= size
        for i in range(1, min(plan[outer], block // unit)):
            for j in range(unit):
                pattern[i * unit + j] = pattern[j] + i * plan[outer + 1]
        loop, field = loop - 1, outer
    return loop, plan[field] * unit, unit


@helper
def block_at(
    plan,  # IN   (fields,) int64
    rows,  # IN   what `find_rows` returns
    block,  # IN   points of a block
    p,  # IN   the number of its first point
    end,  # IN   it ends before this point
):
    """Return the block that begins with a point.

    These are how many points it has; where they start in data, indices and packed array (in data it is the start of a
    unit, see `find_rows`); which point of the unit is the first; the number of the row, and of the point in it.
    """
    loop, length, unit = rows
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    row = p // length
    j = p - row * length
    number = j // unit
    first = j - number * unit
    base, start, to = row_bases(plan, loop, row)
    base += number * plan[HEADER + LOOP_FIELDS * loop + 1]
    count = min(block // unit * unit - first, min(length - j, end - p))
    return count, base, start + j * plan[last + 2], to + j * plan[last + 3], first, row, j


@allocating
def share_of_loop(plan, loop, begin, end):
    """Return a plan for the iterations begin <= i < end of a loop."""
    share = plan.copy()
    field = HEADER + LOOP_FIELDS * loop
    share[field] = end - begin
    share[DATA_BASE] += begin * plan[field + 1]
    share[INDEX_BASE] += begin * plan[field + 2]
    share[PACKED_BASE] += begin * plan[field + 3]
    share[POINTS] = plan[POINTS] // plan[field] * (end - begin)
    return share


@helper
def row_bases(plan, loop, row):
    """Return where row `row` of the nest of the loops before `loop` starts in data, indices and packed array.

    One behind the last is where the outermost loop would go on, outside of them: it may be prefetched, not read.
    """
    data = plan[DATA_BASE]
    index = plan[INDEX_BASE]
    packed = plan[PACKED_BASE]
    for d in range(loop - 1, -1, -1):
        field = HEADER + LOOP_FIELDS * d
        rest = row // plan[field] if d else 0  # a division takes as long as some elements
        i = row - rest * plan[field]
        data += i * plan[field + 1]
        index += i * plan[field + 2]
        packed += i * plan[field + 3]
        row = rest
    return data, index, packed


@helper
def first_of(a, b):
    """Return the lower of two positions; -1 is none."""
    return b if a < 0 or 0 <= b < a else a
