"""What a block chooses from, and the keys of its units.

The source is a line of elements or, with levels of delegates, a line of these, whose keys are there already. A unit is
16 aligned bytes of it, or one element if the elements of a line are no neighbours. At an end of a line a unit can lie
in it in part.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ....driver.compile import helper
from ...access import load_quad, unit_access
from ..ends import end_access
from ..keys import key_access, key_type
from ..plan import FLIP

#: Units that a thread looks at together, so that their loads are on their way together.
AT_ONCE = 4

# The source, as int64 words in shared memory: where it is, and which of its units are looked into. These are in groups
# whose numbers are listed; units of a group come in pairs of neighbours.
(
    LEVEL,  # of delegates; 0: the source is the elements themselves
    SOURCE,  # the address of the first key or element
    STEP,  # bytes from one element to the next
    UNIT,  # elements of a unit, as a power of two
    BITS,  # units of a group, as a power of two
    SCALE,  # units between the beginnings of neighbouring groups, as a power of two
    APART,  # units from one pair of neighbours in a group to the next
    SHIFT,  # how far the first unit begins before the first element
    COUNT,  # keys or elements of the line
    TOTAL,  # units to look into
    WHERE,
) = range(11)


class Memory(NamedTuple):
    """The shared memory of a block."""

    where: object  #: (WHERE,) int64: the source
    groups: object  #: (room,) places: the groups of units to look into, if that is not the whole source
    keys: object  #: (room,) keys of the listed elements ...
    positions: object  #: ... and where these are in the line
    maxima: object  #: the best key of each chunk; behind the lists
    counts: object  #: the counts of a sort by digits; in the same memory
    sums: object  #: int32 counters: of a digit's values, of threads
    ends: object  #: (ENDS,) int64: the lowest and the highest key of each warp


class Source(NamedTuple):
    """The source, as its words are read once."""

    address: object
    step: object
    level: object
    unit_bits: object
    shift: object
    size: object
    total: object


class Units(NamedTuple):
    """How the kernel gets the keys of units."""

    source_of: object  #: ``source_of(where)``
    unit_of: object  #: ``unit_of(memory, item)``: the unit that has a number, of all in the groups
    first_of: object  #: ``first_of(source, unit)``: the position of its first element, which may lie outside the line
    best_of_keys: object  #: ``best_of_keys(address)``: of 16 bytes of delegates
    best_of_unit: object  #: ``best_of_unit(source, plan, unit)``: of one that has an element of the line
    keys_from: object  #: ``keys_from(source, plan, first, keys)``: list the keys of the unit that begins there
    reaching: object  #: ``reaching(source, first, keys, bar, ties)``: which reach a bar, or are equal to it, as bits


def place_type(is_long: bool) -> type[np.signedinteger]:
    """Return the type of positions in a line: 64 bits take twice the steps."""
    return np.int64 if is_long else np.int32


@cache
def source_units(width: int, is_float: bool, is_long: bool) -> Units:
    """Return the steps for elements of a width and kind, in lines of 2**31 or more of them if they are long."""
    access = key_access(width, is_float, FLIP)
    key_at, best_of_quad, load_words, put_keys = access.key_at, access.best_of_quad, access.load_quad, access.put_keys
    best_inside = end_access(width, is_float)
    key, place = key_type(width), place_type(is_long)
    key_bytes, of_quad = key(0).itemsize, 16 // width
    load_pair, _ = unit_access(16)

    @helper
    def source_of(where):
        return Source(
            where[SOURCE],
            where[STEP],
            place(where[LEVEL]),
            place(where[UNIT]),
            place(where[SHIFT]),
            place(where[COUNT]),
            place(where[TOTAL]),
        )

    @helper
    def unit_of(memory, item):
        where = memory.where
        bits = place(where[BITS])
        own = place(item & place((place(1) << bits) - 1))
        return place(
            place(memory.groups[np.uint32(item >> bits)] << place(where[SCALE]))
            + place(own >> 1) * place(where[APART])
            + place(own & 1)
        )

    @helper
    def first_of(source, unit):
        return place(place(unit << source.unit_bits) - source.shift)

    @helper
    def best_of_keys(address):
        if key_bytes == 8:
            first, second = load_pair(address)
            return max(first, second)
        a, b, c, d = load_quad(address)
        return max(max(a, b), max(c, d))

    @helper
    def best_of_unit(source, plan, unit):
        i = first_of(source, unit)
        if source.level > 0:
            return best_of_keys(source.address + np.int64(i) * key_bytes)
        if source.unit_bits == 0:
            return key_at(source.address + np.int64(i) * source.step, plan)
        if i >= 0 and i <= place(source.size - of_quad):
            return best_of_quad(source.address + np.int64(i) * width, plan)
        return best_inside(source.address, plan, np.int64(i), np.int64(source.size))

    @helper
    def keys_from(source, plan, first, keys):
        address, size = source.address, source.size
        inside = np.int64(min(first, place(size - place(place(1) << source.unit_bits))))
        if source.level > 0:
            if key_bytes == 8:
                keys[0], keys[1] = load_pair(address + inside * key_bytes)
            else:
                keys[0], keys[1], keys[2], keys[3] = load_quad(address + inside * key_bytes)
        elif source.unit_bits == 0:
            keys[0] = key_at(address + inside * source.step, plan)
        elif first >= 0 and first <= place(size - of_quad):
            put_keys(keys, load_words(address + np.int64(first) * width), plan)
        else:
            for j in range(of_quad):
                i = max(np.int64(0), np.int64(min(place(first + j), place(size - 1))))
                keys[j] = key_at(address + i * width, plan)

    @helper
    def reaching(source, first, keys, bar, ties):
        found = np.uint32(0)
        for j in range(of_quad):
            if keys[j] == bar or (keys[j] > bar and not ties):
                found = np.uint32(found | np.uint32(1 << j))
        before = max(place(0), place(-first))
        until = min(place(place(1) << source.unit_bits), max(place(0), place(source.size - first)))
        return np.uint32(found & np.uint32(np.uint32(1 << until) - np.uint32(1 << before)))

    return Units(source_of, unit_of, first_of, best_of_keys, best_of_unit, keys_from, reaching)
