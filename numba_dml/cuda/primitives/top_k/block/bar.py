"""Bars: keys that the k best elements reach, and few others; found digit by digit, by counts of the keys' digits."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ....driver.compile import helper
from ....driver.numba import LANES, cuda
from ...bits import DIGIT_ABOVE, bits_between, digit_above, raise_key
from ...warp import sum_of_lanes
from ..block_sort import spreader
from ..keys import key_type
from ..plan import MOST_THREADS
from ..sizes import SIZES
from .units import place_type, source_units

#: Bits of a digit of the keys, by which a bar is found, and how many digits there are.
DIGIT = SIZES.digit_bits
DIGITS = 1 << DIGIT
#: Counters of a block: one for each digit, or for each thread.
SUMS = max(MOST_THREADS, DIGITS)
OF_LANE = DIGITS // LANES


@helper
def clear_digits(counts):
    """Set the count of each digit to zero."""
    i = np.int32(cuda.threadIdx.x)
    while i < DIGITS:
        counts[np.uint32(i)] = 0
        i = np.int32(i + cuda.blockDim.x)
    cuda.syncthreads()


@helper
def border(counts, wanted, ends):
    """Find the digit where the best `wanted` elements end; return it, and how many are above it and in it."""
    thread = np.int32(cuda.threadIdx.x)
    if thread < LANES:
        first = np.int32(DIGITS - 1 - thread * OF_LANE)
        own = np.int32(0)
        for j in range(OF_LANE):
            own = np.int32(own + counts[np.uint32(first - j)])
        above = np.int32(sum_of_lanes(own) - own)
        for j in range(OF_LANE):
            inside = counts[np.uint32(first - j)]
            # The lowest digit has all that is left.
            if above < wanted and (above + inside >= wanted or first - j == 0):
                ends[0], ends[1], ends[2] = first - j, above, inside
            above = np.int32(above + inside)
    cuda.syncthreads()
    found = ends[0], ends[1], ends[2]
    cuda.syncthreads()
    return found


@cache
def bar_raiser(key_bytes: int):
    """Return ``raise_bar(keys, count, low, high, wanted, most, sums, ends)`` for keys of a width.

    It returns a listed key that at least `wanted` of them reach, and at most `most` if possible. The keys from `low` to
    `high` are at least as many.
    """
    key, digit_of, spread = np.int32 if key_bytes == 4 else np.int64, DIGIT_ABOVE[8 * key_bytes], spreader(key_bytes)

    @helper
    def count_digits(keys, count, low, bits, fine, counts):
        """Count the next digit of the keys that agree with the lowest one in those before it."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        i = thread
        while i < count:
            its_key = keys[np.uint32(i)]
            if its_key >= low and digit_of(its_key, low, bits) == 0:
                cuda.atomic.add(counts, np.uint32(digit_of(its_key, low, fine)), 1)
            i = np.int32(i + threads)
        cuda.syncthreads()

    @helper
    def least_from(keys, count, low, high, ends):
        """Return the lowest listed key from one on."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        least = high
        i = thread
        while i < count:
            least = min(least, keys[np.uint32(i)] if keys[np.uint32(i)] >= low else high)
            i = np.int32(i + threads)
        least, _ = spread(least, least, ends)
        return least

    @helper
    def raise_bar(keys, count, low, high, wanted, most, sums, ends):
        bits = bits_between(np.int64(low), np.int64(high))
        above, inside = np.int64(0), np.int64(count)
        while bits > 0 and above + inside > most:
            fine = max(bits - DIGIT, np.int64(0))
            clear_digits(sums)
            count_digits(keys, count, low, bits, fine, sums)
            digit, higher, inside = border(sums, wanted - above, ends)
            low = key(raise_key(np.int64(low), digit, fine))
            above += higher
            bits = min(fine, bits_between(np.int64(low), np.int64(high)))  # few values are told apart at once
        # The key may lie far below the next listed one: then elements that are not listed would reach it, too.
        # Measured in docs/measurements/cudakernels.md, "A bar is a listed key".
        return least_from(keys, count, low, high, ends) if low < high else high

    return raise_bar


class Narrowed(NamedTuple):
    """A raised bar."""

    low: object
    ties: object  #: whether the elements equal to it are too many


@cache
def narrower(width: int, is_float: bool, is_long: bool):
    """Return ``narrow(memory, plan, low, high, wanted, room, whole, some)``.

    It raises the bar `low` until at most as many elements of the source as there is room for reach it, and the best
    `wanted` do, and returns the bar. `whole`: all units are looked into, not those of the groups.
    """
    units = source_units(width, is_float, is_long)
    source_of, unit_of, first_of, keys_from, reaching = (
        units.source_of,
        units.unit_of,
        units.first_of,
        units.keys_from,
        units.reaching,
    )
    key, place, of_quad = key_type(width), place_type(is_long), 16 // width

    @helper
    def count_digits(memory, plan, low, bits, fine, whole, some):
        """Count the next digit of the elements whose keys agree with the lowest one in those before it."""
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source = source_of(memory.where)
        c = thread
        while c < source.total:
            unit = c if whole else unit_of(memory, c)
            first = first_of(source, unit)
            if first < source.size:
                keys_from(source, plan, first, some)
                found = reaching(source, first, some, key(low), False)
                for j in range(of_quad):
                    if found & np.uint32(1 << j) != 0 and digit_above(some[j], low, bits) == 0:
                        cuda.atomic.add(memory.sums, digit_above(some[j], low, fine), 1)
            c = place(c + threads)
        cuda.syncthreads()

    @helper
    def narrow(memory, plan, low, high, wanted, room, whole, some):
        bits = bits_between(low, high)
        above = np.int64(0)
        while True:
            fine = max(bits - DIGIT, np.int64(0))
            clear_digits(memory.sums)
            count_digits(memory, plan, low, bits, fine, whole, some)
            digit, higher, inside = border(memory.sums, wanted - above, memory.ends)
            low = raise_key(low, digit, fine)
            above += higher
            if fine == 0 or above + inside <= room:
                return Narrowed(low, above + inside > room)
            bits = fine

    return narrow
