"""What a block chooses from: the units of a line, their keys, and a survey of them.

The source is a line of elements or, at level 1, a line of delegates, whose keys are there already. A unit is 16 aligned
bytes of it, or one element if the elements of a line are no neighbours. At an end of a line a unit can lie in it in
part.

A survey reads all once, for the best key of each chunk. A chunk is 1, 2 or 4 of the four units that a thread looks at
together. If it has several, two are neighbours: memory is read by 32 bytes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import cuda
from ..plan import number
from .keys import bar_tester, key_access, key_type, lowest_key, put_words
from .plan import CHUNK
from .ranks import range_finder

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
    groups: object  #: (room,) int32: the groups of units to look into, if that is not the whole source
    keys: object  #: (room,) keys of the listed elements ...
    positions: object  #: ... and where these are in the line, int32
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


@helper
def source_of(where):
    """Return the source."""
    return Source(
        where[SOURCE],
        where[STEP],
        np.int32(where[LEVEL]),
        np.int32(where[UNIT]),
        np.int32(where[SHIFT]),
        np.int32(where[COUNT]),
        np.int32(where[TOTAL]),
    )


@helper
def unit_of(memory, item, whole):
    """Return the unit that has a number, of the whole source or of all in the groups."""
    if whole:
        return np.int32(item)
    where = memory.where
    bits = np.int32(where[BITS])
    own = np.int32(item & ((1 << bits) - 1))
    start = np.int32(memory.groups[np.uint32(item >> bits)] << np.int32(where[SCALE]))
    return np.int32(start + (own >> 1) * np.int32(where[APART]) + (own & 1))


@helper
def first_of(source, unit):
    """Return the position of a unit's first element, which may lie outside of the line."""
    return np.int32((unit << source.unit_bits) - source.shift)


@cache
def source_units(width: int, infinity: int):
    """Return how a block gets the keys of units, of elements of a width and kind.

    ``best_of_keys(address)``: of 16 bytes of delegates. ``best_of_unit(source, plan, unit)``: of one that has an
    element of the line. ``keys_from(source, plan, first, keys)``: list the keys of the unit that begins there.
    ``reaching(source, first, keys, bar, ties)``: which of these reach a bar, or are equal to it, as bits.
    """
    access = key_access(width, infinity)
    key_at, load_words, put_keys, best_of_quad = access.key_at, access.load_quad, access.put_keys, access.best_of_quad
    best_inside = access.best_inside
    key_bytes, of_quad = key_type(width)(0).itemsize, 16 // width
    those_reaching = bar_tester(of_quad)

    @helper
    def best_of_keys(address):
        keys = load_words(address)
        best = keys[0]
        for j in range(1, len(keys)):
            best = max(best, keys[j])
        return best

    @helper
    def best_of_unit(source, plan, unit):
        i = first_of(source, unit)
        if source.level > 0:
            return best_of_keys(source.address + np.int64(i) * key_bytes)
        if source.unit_bits == 0:
            return key_at(source.address + np.int64(i) * source.step, plan)
        if i >= 0 and i <= source.size - of_quad:
            return best_of_quad(load_words(source.address + np.int64(i) * width), plan)
        return best_inside(source.address, plan, np.int64(i), np.int64(source.size))

    @helper
    def keys_from(source, plan, first, keys):
        address, size = source.address, source.size
        inside = np.int64(min(first, np.int32(size - (1 << source.unit_bits))))
        if source.level > 0:
            put_words(keys, load_words(address + inside * key_bytes))
        elif source.unit_bits == 0:
            keys[0] = key_at(address + inside * source.step, plan)
        elif first >= 0 and first <= size - of_quad:
            put_keys(keys, load_words(address + np.int64(first) * width), plan)
        else:
            for j in range(of_quad):
                i = max(np.int64(0), np.int64(min(np.int32(first + j), np.int32(size - 1))))
                keys[j] = key_at(address + i * width, plan)

    @helper
    def reaching(source, first, keys, bar, ties):
        before = max(np.int32(0), np.int32(-first))
        until = min(np.int32(1 << source.unit_bits), max(np.int32(0), np.int32(source.size - first)))
        return np.uint32(those_reaching(keys, bar, ties) & np.uint32(np.uint32(1 << until) - np.uint32(1 << before)))

    return best_of_keys, best_of_unit, keys_from, reaching


@cache
def _maxima_steps(width: int, infinity: int):
    """Return how the best keys of four units become those of chunks.

    ``put_maxima(maxima, at, threads, chunk_bits, bests, low, high)`` and, by the units themselves,
    ``survey_ends(maxima, plan, source, at, unit, chunk_bits, low, high)`` store these, and return the lowest and the
    highest, of them too.
    """
    (_, best_of_unit, _, _), key, lowest = source_units(width, infinity), key_type(width), lowest_key(width)

    @helper
    def put_maxima(maxima, at, threads, chunk_bits, bests, low, high):
        a, b, c, d = bests
        if chunk_bits > 0:
            a, c = max(a, b), max(c, d)
        if chunk_bits > 1:
            a = max(a, c)
        maxima[np.uint32(at)] = a
        low, high = min(low, a), max(high, a)
        if chunk_bits == 0:
            maxima[np.uint32(at + threads)] = b
            maxima[np.uint32(at + 3 * threads)] = d
            low, high = min(low, min(b, d)), max(high, max(b, d))
        if chunk_bits < 2:
            maxima[np.uint32(at + (2 >> chunk_bits) * threads)] = c
            low, high = min(low, c), max(high, c)
        return low, high

    @helper
    def survey_ends(maxima, plan, source, at, unit, chunk_bits, low, high):
        """Do the same for units of which some lie past an end of the line, or in it in part."""
        threads = np.int32(cuda.blockDim.x)
        chunk = np.int32(1 << chunk_bits)
        next_unit, far_unit = threads if chunk_bits == 0 else np.int32(1), np.int32(2 * threads)
        best = key(lowest)
        to = start = at
        for j in range(AT_ONCE):
            now = np.int32(unit + (j & 1) * next_unit + (j >> 1) * far_unit)
            if j & (chunk - 1) == 0:
                start = now
            if now < source.total:
                best = max(best, best_of_unit(source, plan, now))
            if (j + 1) & (chunk - 1) == 0:
                if start < source.total:
                    low, high = min(low, best), max(high, best)
                maxima[np.uint32(to)] = best
                to = np.int32(to + threads)
                best = key(lowest)
        return low, high

    return put_maxima, survey_ends


@cache
def surveyor(width: int, infinity: int):
    """Return ``survey(memory, plan)``: the lowest and the highest of the chunks' best keys, and how many there are."""
    bests_of_quads, (best_of_keys, *_) = key_access(width, infinity).bests_of_quads, source_units(width, infinity)
    put_maxima, survey_ends = _maxima_steps(width, infinity)
    key, lowest = key_type(width), lowest_key(width)
    key_bytes, highest = key(0).itemsize, ~lowest
    _, spread = range_finder(key_bytes)

    @helper
    def survey(memory, plan):
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        maxima, source = memory.maxima, source_of(memory.where)
        level, bits = source.level, source.unit_bits
        chunk_bits = np.int32(number(plan, CHUNK))
        low, high = key(highest), key(lowest)
        unit, at = np.int32(thread << min(chunk_bits, np.int32(1))), thread
        next_unit, far_unit = threads if chunk_bits == 0 else np.int32(1), np.int32(2 * threads)
        address = source.address + np.int64((unit << bits) - source.shift) * (key_bytes if level > 0 else width)
        near, far = 16 * np.int64(next_unit), 16 * np.int64(far_unit)
        begin = np.int32(0)
        batch, step_at = np.int32(AT_ONCE * threads), np.int32((AT_ONCE >> chunk_bits) * threads)
        while begin < source.total:
            # How much of the line there is after this batch; less than none if it has units in part.
            left = np.int64(-1)
            if bits > 0 and (begin > 0 or source.shift == 0):
                left = np.int64(source.size) + source.shift - (np.int64(begin + batch) << bits)
            if level == 0 and left >= np.int64(batch) << bits:  # two batches, whose loads are on their way together
                first = bests_of_quads(address, near, far, plan)
                second = bests_of_quads(address + 2 * far, near, far, plan)
                low, high = put_maxima(maxima, at, threads, chunk_bits, first, low, high)
                at = np.int32(at + step_at)
                unit = np.int32(unit + batch)
                begin = np.int32(begin + batch)
                address += 2 * far
                low, high = put_maxima(maxima, at, threads, chunk_bits, second, low, high)
            elif left >= 0:
                if level == 0:
                    bests = bests_of_quads(address, near, far, plan)
                else:
                    a, b = best_of_keys(address), best_of_keys(address + near)
                    bests = a, b, best_of_keys(address + far), best_of_keys(address + far + near)
                low, high = put_maxima(maxima, at, threads, chunk_bits, bests, low, high)
            else:
                low, high = survey_ends(maxima, plan, source, at, unit, chunk_bits, low, high)
            at = np.int32(at + step_at)
            unit = np.int32(unit + batch)
            begin = np.int32(begin + batch)
            address += 2 * far
        low, high = spread(low, high, memory.ends)
        return low, high, np.int32(at - thread)

    return survey
