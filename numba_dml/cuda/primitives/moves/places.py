"""Where a point reads from or writes to: from its number to an address."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import BLOCK
from .. import plan as fields
from ..access import LOAD_INDEX
from ..bad_indices import record_bad
from ..plan import COORD_FIELDS, HEADER, LOOP_FIELDS, OUTER_FIELDS, number, offsets_of, quotient

#: Where a point leads that is not to be moved.
NOWHERE = -(1 << 63)
#: Units of a thread if there are many; see docs/measurements/cudamoves.md, "Units of a thread".
UNITS = 4
#: Up to this many loops, coordinates and outer dimensions a kernel is compiled for their number; beyond, for any.
MOST_COUNTS = 3, 3, 1


def divide(count: int, few: int) -> tuple[int, int]:
    """Return how many blocks handle units or points, and how many each: one for a thread if they are few."""
    share = BLOCK if count <= few else BLOCK * UNITS
    return -(-count // share), share


@helper
def start_of_point(plan, point, loop_count):
    """Return the offset in data, and the first index, of a point of the first loops."""
    return offsets_of(plan, point, loop_count, HEADER)


@cache
def point_places(index_type: str, loops: int, coords: int):
    """Return how to find the place of a point, and to record a bad index; and a quick way.

    `loops` and `coords` are how many there are, -1: the plan says so.
    """
    load_index = LOAD_INDEX[index_type]
    index_bytes = np.dtype(index_type).itemsize
    signed = index_type.startswith("i")

    @helper
    def place_of_point(plan, index, record, launch, point):
        """Return the place of a point; `NOWHERE`: an index is bad, which is recorded unless `launch` is -1."""
        loop_count = loops if loops >= 0 else number(plan, fields.LOOPS)
        coord_count = coords if coords >= 0 else number(plan, fields.COORDS)
        offset, at = start_of_point(plan, point, loop_count)
        inside = True
        for c in range(coord_count):
            field = HEADER + LOOP_FIELDS * loop_count + COORD_FIELDS * c
            size = number(plan, field)
            value = load_index(index + (at + c) * index_bytes)
            i = value
            if signed and i < 0:
                i += size
            if i < 0 or i >= size:
                bounds = number(plan, fields.BOUNDS)
                if bounds == fields.CLAMP and size > 0:
                    i = np.int64(0) if signed and i < 0 else size - 1
                else:
                    inside = False
                    i = np.int64(0)
                    if launch >= 0 and bounds != fields.DROP:
                        record_bad(record, launch, at + c, value, number(plan, fields.IDENTITY))
            offset += i * number(plan, field + 1)
        return offset if inside else np.int64(NOWHERE)

    @helper
    def place_if_inside(plan, index, point):
        """Return the place of a point, as if all were well, and whether it is not: no step depends on that."""
        loop_count = loops if loops >= 0 else number(plan, fields.LOOPS)
        coord_count = coords if coords >= 0 else number(plan, fields.COORDS)
        offset, at = start_of_point(plan, point, loop_count)
        bad = False
        for c in range(coord_count):
            field = HEADER + LOOP_FIELDS * loop_count + COORD_FIELDS * c
            size = number(plan, field)
            i = load_index(index + (at + c) * index_bytes)
            if signed:
                i += size if i < 0 else np.int64(0)
            outside = i < 0 or i >= size
            bad |= outside
            offset += (np.int64(0) if outside else i) * number(plan, field + 1)
        return offset, bad

    return place_of_point, place_if_inside


@cache
def slice_places(loops: int, coords: int, outer: int):
    """Return ``place_in_slice(plan, unit, width)``, for the units of a slice; see `point_places`."""

    @helper
    def place_in_slice(plan, unit, width):
        if outer == 0:
            return unit * width
        loop_count = loops if loops >= 0 else number(plan, fields.LOOPS)
        coord_count = coords if coords >= 0 else number(plan, fields.COORDS)
        outer_count = outer if outer >= 0 else number(plan, fields.OUTER)
        rest = quotient(unit, plan, fields.RUN)
        offset = (unit - rest * number(plan, fields.RUN)) * width
        for d in range(outer_count - 1, -1, -1):
            field = HEADER + LOOP_FIELDS * loop_count + COORD_FIELDS * coord_count + OUTER_FIELDS * d
            i = rest
            if d > 0:
                rest = quotient(rest, plan, field)
                i -= rest * number(plan, field)
            offset += i * number(plan, field + 3)
        return offset

    return place_in_slice
