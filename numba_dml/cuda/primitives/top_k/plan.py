"""The plan of a top-k: its numbers, where a line starts, and how an index of the result is written."""

from __future__ import annotations

from functools import cache

from ...driver.compile import helper
from ...driver.numba import LANES
from ..access import unit_access
from ..plan import number, offsets_of
from .sizes import SIZES

# The numbers of a plan.
(
    SIZE,  # elements of a line
    STRIDE,  # bytes from one to the next
    OUT_STRIDE,  # elements from one output to the next
    K,
    INDEX_SIZE,  # bytes of an output index
    FLIP,  # the rule of the keys, three numbers
    LINES,
    ROOM,  # what the lists of a block hold; if k = 1: lanes that share a part, as a power of two
    LEVELS,  # of delegates: 0 or 1
    GROUP_BITS,  # elements of a group, as a power of two
    PITCH,  # delegates of a line
    PARTS,  # of a line, a divisor: each is what a warp reads; if k = 1: a block, or some lanes
    ROUNDS,  # of a warp; if k = 1: units of 16 bytes, or elements, of a part
    SEGMENT,  # of a short line, in elements
    STAGING,  # how segments come into shared memory
    CHUNK,  # units of a chunk, as a power of two: 1, 2 or 4
    MAXIMA,  # chunks of a line, at least
    LOW,  # the lowest byte of the input, relative to its first element
    HIGH,
    LIST_PARTS,  # parts of a line in which all blocks look for what is among the best of it; each has a block
    LIST_ROOM,  # elements, or groups, that may be listed of a line
    GROUP_ROOM,  # groups of a line that may be listed
    BORDERS_AT,  # in the memory of a call: the borders, of (lines, BORDER) words
    UPPER_AT,  # those of the groups, 0: there are none
    GROUPS_AT,  # (lines, group room) pairs: groups to look into, or zeros: one group
    COUNTS_AT,  # (lines, DIGITS) int64, zeros, by rank
    TABLE_AT,  # (lines, parts, DIGITS) int64: what a part has of a rank or a higher one
    TALLIES_AT,  # (lines, parts) int64: what a part has beyond the range
    LIST_AT,  # (lines, room) pairs: what is listed
    HEADS_AT,  # what a sort of these wants to know, 0: there is none
    STARTS_AT,  # (lines, passes, digits) int64, zeros: the counts of its digits
    DIMS,  # dimensions of the lines; each has `LOOP_FIELDS`: strides of the input in bytes, of the outputs in elements
    HEADER,
) = (*range(6), *range(8, 14), *range(16, 37))
#: Of the numbers that only a sort by all blocks has.
LIST_FIELDS = DIMS - LIST_PARTS

#: Threads of a block that has a line, if there are few lines.
MOST_THREADS = SIZES.most_threads
#: The lowest and the highest key of each warp of such a block.
ENDS = 2 * MOST_THREADS // LANES
#: Times 16 bytes that each lane reads of a line at once.
QUADS = 4
#: The largest k of these kernels.
MOST_K = SIZES.most_room // 2
#: What fills lists up: it comes last.
END, LOWEST = (1 << 63) - 1, -1 << 63


@helper
def line_bases(plan, line):
    """Return where a line starts: a byte of the input, an element of the outputs."""
    return offsets_of(plan, line, number(plan, DIMS), HEADER)


store_byte, store_short, store_half, store_word = (unit_access(size)[1] for size in (1, 2, 4, 8))


@helper
def write_index(indices, size, at, position):
    """Store one output index of `size` bytes."""
    if size == 8:
        store_word(indices + 8 * at, position, 0)
    elif size == 4:
        store_half(indices + 4 * at, position, 0)
    elif size == 2:
        store_short(indices + 2 * at, position, 0)
    else:
        store_byte(indices + at, position, 0)


@cache
def result_copier(width: int):
    """Return ``copy_result(values, indices, plan, at, address, position)``, for an element at an address.

    `values` is 0 if they are not wanted.
    """
    load, store = unit_access(width)

    @helper
    def copy_result(values, indices, plan, at, address, position):
        if values != 0:
            value = load(address)
            store(values + at * width, value[0], value[1])
        write_index(indices, number(plan, INDEX_SIZE), at, position)

    return copy_result
