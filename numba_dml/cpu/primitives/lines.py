"""Where the lines and tiles of a plan start, and how an index is written: what operators along lines have in common."""

from __future__ import annotations

import numpy as np

from ..._core.shapes import LINE_FIELDS
from ..._jit.compile import helper
from ..._jit.memory import seen_as, store


@helper
def unravelled(plan, field, dims, number):
    """Return the offsets of a number that is counted over some dimensions of a plan, by their two strides."""
    first = second = np.int64(0)
    for d in range(dims - 1, -1, -1):
        at = field + LINE_FIELDS * d
        rest = number // plan[at]
        i = number - rest * plan[at]
        first += i * plan[at + 1]
        second += i * plan[at + 2]
        number = rest
    return first, second


@helper
def tile_of(number, across, most, least):
    """Return the first line of a tile, and how many it has: `most` of `across` neighbours.

    The last one of these begins earlier, if it had fewer than `least`.
    """
    tiles = -(-across // most)
    first = max(min(number % tiles * most, across - least), 0)
    return number // tiles * across + first, min(most, across - first)


@helper
def write_index(indices, size, at, position):
    """Store one output index of `size` bytes."""
    if size == 8:
        store(seen_as(indices, np.int64), at * 8, position)
    elif size == 4:
        store(seen_as(indices, np.uint32), at * 4, np.uint32(position))
    elif size == 2:
        store(seen_as(indices, np.uint16), at * 2, np.uint16(position))
    else:
        store(seen_as(indices, np.uint8), at, np.uint8(position))
