"""The survey of a line: one pass for the best key of each of its chunks.

A chunk is 1, 2 or 4 of the four units that a thread looks at together. If it has several, two are neighbours: memory is
read by 32 bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....driver.compile import helper
from ....driver.numba import cuda
from ...access import load_quad
from ...plan import number
from ..block_sort import spreader
from ..keys import key_access, key_type
from ..plan import CHUNK, FLIP
from .units import AT_ONCE, place_type, source_units


@cache
def _batches(width: int, is_float: bool, is_long: bool):
    """Return how the best keys of a thread's four units are found: of elements, of twice as many, and of delegates.

    The second unit is `near` bytes from the first, the third `far`.
    """
    access = key_access(width, is_float, FLIP)
    bests_of_quads, comparable, in_words = access.bests_of_quads, access.comparable, access.words is not None
    mask_of, best_of_words, _, key_of_best = access.words or (None,) * 4
    best_of_keys = source_units(width, is_float, is_long).best_of_keys

    @helper
    def load_units(address, near, far):
        return (
            load_quad(address),
            load_quad(address + near),
            load_quad(address + far),
            load_quad(address + far + near),
        )

    @helper
    def bests_of_words(units, mask, plan):
        a, b, c, d = units
        return (
            key_of_best(best_of_words(a, mask), mask, plan),
            key_of_best(best_of_words(b, mask), mask, plan),
            key_of_best(best_of_words(c, mask), mask, plan),
            key_of_best(best_of_words(d, mask), mask, plan),
        )

    @helper
    def bests_of_elements(address, near, far, plan):
        return bests_of_quads(address, address + near, address + far, address + far + near, plan)

    @helper
    def bests_of_two_batches(address, near, far, plan):
        """Return the best keys of four units and of the four after them, which are loaded before, too."""
        after = address + 2 * far
        if in_words and comparable(plan):
            first, second, mask = load_units(address, near, far), load_units(after, near, far), mask_of(plan)
            return bests_of_words(first, mask, plan), bests_of_words(second, mask, plan)
        return bests_of_elements(address, near, far, plan), bests_of_elements(after, near, far, plan)

    @helper
    def bests_of_delegates(address, near, far):
        first, second = best_of_keys(address), best_of_keys(address + near)
        return first, second, best_of_keys(address + far), best_of_keys(address + far + near)

    return bests_of_elements, bests_of_two_batches, bests_of_delegates


@cache
def maxima_steps(width: int, is_float: bool, is_long: bool):
    """Return how the best keys of four units become those of chunks.

    ``put_maxima(maxima, at, threads, chunk_bits, bests, low, high)`` and, by the units themselves,
    ``survey_ends(maxima, plan, source, at, unit, chunk_bits, low, high)`` store these, and return the lowest and the
    highest, of them too.
    """
    best_of_unit = source_units(width, is_float, is_long).best_of_unit
    key, place = key_type(width), place_type(is_long)
    lowest = int(np.iinfo(key).min)

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
        threads = place(cuda.blockDim.x)
        chunk = place(place(1) << chunk_bits)
        next_unit, far_unit = threads if chunk_bits == 0 else place(1), place(2 * threads)
        best = key(lowest)
        to = start = at
        for j in range(AT_ONCE):
            now = place(unit + (j & 1) * next_unit + (j >> 1) * far_unit)
            if j & (chunk - 1) == 0:
                start = now
            if now < source.total:
                best = max(best, best_of_unit(source, plan, now))
            if (j + 1) & (chunk - 1) == 0:
                if start < source.total:
                    low, high = min(low, best), max(high, best)
                maxima[np.uint32(to)] = best
                to = place(to + threads)
                best = key(lowest)
        return low, high

    return put_maxima, survey_ends


@cache
def surveyor(width: int, is_float: bool, is_long: bool):
    """Return ``survey(memory, plan)``: the lowest and the highest of the chunks' best keys, and how many there are."""
    bests_of_elements, bests_of_two_batches, bests_of_delegates = _batches(width, is_float, is_long)
    put_maxima, survey_ends = maxima_steps(width, is_float, is_long)
    source_of = source_units(width, is_float, is_long).source_of
    key, place = key_type(width), place_type(is_long)
    key_bytes = key(0).itemsize
    lowest, highest = int(np.iinfo(key).min), int(np.iinfo(key).max)
    spread = spreader(key_bytes)

    @helper
    def survey(memory, plan):
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        maxima, source = memory.maxima, source_of(memory.where)
        level, bits = source.level, source.unit_bits
        chunk_bits = place(number(plan, CHUNK))
        low, high = key(highest), key(lowest)
        unit, at = place(thread << min(chunk_bits, place(1))), thread
        next_unit, far_unit = threads if chunk_bits == 0 else place(1), place(2 * threads)
        address = source.address + np.int64(place(unit << bits) - source.shift) * (key_bytes if level > 0 else width)
        near, far = 16 * np.int64(next_unit), 16 * np.int64(far_unit)
        begin = place(0)
        batch, step_at = place(AT_ONCE * threads), place((AT_ONCE >> chunk_bits) * threads)
        while begin < source.total:
            # How much of the line there is after this batch; less than none if it has units in part.
            left = np.int64(-1)
            if bits > 0 and (begin > 0 or source.shift == 0):
                left = source.size + source.shift - (np.int64(begin + batch) << bits)
            if level == 0 and left >= np.int64(batch) << bits:
                first, second = bests_of_two_batches(address, near, far, plan)
                low, high = put_maxima(maxima, at, threads, chunk_bits, first, low, high)
                at = place(at + step_at)
                unit = place(unit + batch)
                begin = place(begin + batch)
                address += 2 * far
                low, high = put_maxima(maxima, at, threads, chunk_bits, second, low, high)
            elif left >= 0:
                if level == 0:
                    bests = bests_of_elements(address, near, far, plan)
                else:
                    bests = bests_of_delegates(address, near, far)
                low, high = put_maxima(maxima, at, threads, chunk_bits, bests, low, high)
            else:
                low, high = survey_ends(maxima, plan, source, at, unit, chunk_bits, low, high)
            at = place(at + step_at)
            unit = place(unit + batch)
            begin = place(begin + batch)
            address += 2 * far
        low, high = spread(low, high, memory.ends)
        return low, high, np.int32(at - thread)

    return survey
