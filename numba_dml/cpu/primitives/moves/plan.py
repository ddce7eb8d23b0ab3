"""The plan of a gather or a scatter, and how its points are gone through, in blocks.

A `numba_dml._core.lowering.Move` arrives as a *plan*, one int64 array: a header, then the loops and the
coordinates. Gather and scatter share everything here. A kernel that finds a bad index returns 1 + its
position.
"""

from __future__ import annotations

import numpy as np

from ...._core.shapes import COORD_FIELDS, LOOP_FIELDS
from ...._jit.compile import allocating, helper
from ...._jit.memory import address, itemsize, load, overlaps

#: Points are handled in blocks: offsets first (vectorised), then the moves. 512 offsets stay in L1 beside the data.
BLOCK = 512
#: Points of a block of an output larger than the caches: the first slices of a block are not prefetched. See "How far
#: ahead slices are prefetched" in docs/measurements/cpumoves.md.
FAR_BLOCK = 4 * BLOCK
#: The offset of a point whose update is dropped. No real offset is this low.
DROPPED = np.int64(-(2**63))
#: What `offsets.find_offsets` returns beside the position of a bad index.
ALL_INSIDE, SETTLED = -1, -2

INDEX_KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
INT32, INT64, UINT64 = map(INDEX_KINDS.index, ("int32", "int64", "uint64"))
RAISE, CLAMP, DROP = 0, 1, 2
# How threads share a scatter (SPLIT). A number from 0 on names a loop whose iterations write to different places.
BY_WINDOW = -1  # each thread goes through all points, and writes those that fall into its part of the output
BY_SLICE = -2  # each thread writes its part of every slice
BY_POINT = -3  # each thread has its own points: the caller promised that they are unique

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
    STARTS_LOW,  # the lowest offset of a slice, or of a thread's window
    STARTS_HIGH,  # one past the highest
    WINDOW,  # 1: only slices that start in this window are a thread's
    PACKED_BYTES,
    INDEX_BYTES,
    DATA_BASE,  # where the points start: a thread's share is a plan of its own
    INDEX_BASE,
    PACKED_BASE,
    COMMON,  # 1: all rows of the last loop read the same indices, which are few
    TILE,  # iterations of a loop that are done together, so that what they reach stays in a cache; 0: no tiles. In a
    # scatter by bins: bytes of the output, a power of two
    STREAM,  # 1: slices are written past the caches, since the output is larger than they are
    CACHED,  # 1: the data of a gather are small enough for the L2
    AHEAD,  # bytes that the next row will read all over, 0: too many, or too few of them
    SPLIT,  # how a scatter is shared among threads
    COPY,  # bytes to copy from the input of a scatter before it, 0: the output already holds them
    PERIOD,  # with a split loop: the bytes after which the places that its iterations write to repeat
    IN_PLACE,  # 1: updates are sorted by bins in place, too
    PACKS,  # bytes of a packed tile of a gather, 0: it is not packed
    REDUCTION,
    SHARES,  # of the points, in a scatter by bins: as many as threads at most
    ALONE,  # one thread writes, whatever their number
    FILL,  # bytes of a scatter's input, which is then repeated all over the output; 0: it has the output's size
    SCRATCH,  # the address of its memory
    FINDER,  # the address of the code that turns tuples of indices into offsets
    HEADER,
) = range(34)


@helper
def loop_at(loop):
    """Return where a loop starts in a plan."""
    return HEADER + LOOP_FIELDS * loop


@helper
def last_loop(plan):
    """Return where the innermost loop starts in a plan."""
    return loop_at(plan[LOOPS] - 1)


@helper
def coord_at(plan, coord):
    """Return where a coordinate starts in a plan, behind the loops."""
    return loop_at(plan[LOOPS]) + COORD_FIELDS * coord


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


@helper
def find_rows(plan, pattern, common):
    """Return which loop makes the rows, the points of a row, and those of each iteration of this loop: of a *unit*.

    Inner loops whose points are neighbours in indices and packed array are one unit if a block has room for two: one by
    one, short rows take six times as long. `common`: all iterations of the outer loops have the same indices; then only
    the packed points need be neighbours. `pattern`, (block_points(plan),) int64, is set to the offsets of a block's
    points from the start of a unit, without their indices.
    """
    loop = plan[LOOPS] - 1
    field = loop_at(loop)
    block = block_points(plan)
    unit = 1
    for i in range(min(plan[field], block)):
        pattern[i] = i * plan[field + 1]
    while loop > 0 and 0 < 2 * unit * plan[field] <= block:
        outer = field - LOOP_FIELDS
        size = plan[field]
        neighbours = common or plan[outer + 2] == size * plan[field + 2]
        if not neighbours or plan[outer + 3] != size * plan[field + 3]:
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
    place,  # IN   its first point: the number of the row, and of the point in it
    left,  # IN   points from there on
):
    """Return the block that begins with a point.

    These are how many points it has; where they start in data, indices and packed array (in data it is the start of a
    unit, see `find_rows`); which point of the unit is the first; and the place of the next block.
    """
    loop, length, unit = rows
    last = last_loop(plan)
    row, j = place
    number = j // unit if j > 0 else 0
    first = j - number * unit
    base, start, to = row_bases(plan, loop, row)
    base += number * plan[loop_at(loop) + 1]
    whole = block if unit == 1 else block // unit * unit
    count = min(whole - first, min(length - j, left))
    after = (row, j + count) if j + count < length else (row + 1, np.int64(0))
    return count, base, start + j * plan[last + 2], to + j * plan[last + 3], first, after


@allocating
def share_of_loop(plan, loop, begin, end):
    """Return a plan for the iterations begin <= i < end of a loop."""
    share = plan.copy()
    field = loop_at(loop)
    share[field] = end - begin
    share[DATA_BASE] += begin * plan[field + 1]
    share[INDEX_BASE] += begin * plan[field + 2]
    share[PACKED_BASE] += begin * plan[field + 3]
    share[POINTS] = plan[POINTS] // plan[field] * (end - begin)
    return share


@helper
def offsets_in_nest(plan, field, loops, row):
    """Return the offsets of row `row` of a nest of loops, which start at a field of a plan, by their three strides."""
    first = second = third = np.int64(0)
    for d in range(loops - 1, -1, -1):
        at = field + LOOP_FIELDS * d
        rest = row // plan[at] if d else 0  # a division takes as long as some elements
        i = row - rest * plan[at]
        first += i * plan[at + 1]
        second += i * plan[at + 2]
        third += i * plan[at + 3]
        row = rest
    return first, second, third


@helper
def row_bases(plan, loop, row):
    """Return where row `row` of the nest of the loops before `loop` starts in data, indices and packed array.

    One behind the last is where the outermost loop would go on, outside of them: it may be prefetched, not read.
    """
    data, index, packed = offsets_in_nest(plan, HEADER, loop, row)
    return plan[DATA_BASE] + data, plan[INDEX_BASE] + index, plan[PACKED_BASE] + packed


@helper
def scatter_clashes(source, data, index, packed, plan):
    """Return whether the output of a scatter lies in an input, other than exactly on the one that it updates."""
    to, at = address(data), address(source)
    copied = np.int64(0) if at == to else plan[COPY]
    # A copy writes the whole output; updates alone only what the indices can lead to.
    low, high = (np.int64(0), copied) if copied > 0 else (plan[LOW], plan[HIGH])
    return (
        overlaps(to + low, to + high, address(index), address(index) + plan[INDEX_BYTES])
        or overlaps(to + low, to + high, address(packed), address(packed) + plan[PACKED_BYTES])
        or (at != to and plan[FILL] == 0 and overlaps(to + low, to + high, at + low, at + high))
    )
