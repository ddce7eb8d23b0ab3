"""Copies of contiguous slices, with prefetches, and past the caches where the output is large.

The figures behind the constants are in docs/measurements/cpumoves.md, under "Gathers".
"""

from __future__ import annotations

import numpy as np
from numba import types

from ...._jit import copies
from ...._jit.compile import chosen, helper
from ...._jit.copies import copy_bytes, finish_streams, prefetch, prefetch_to_l2, prefetch_to_write, stream_bytes
from ...._jit.machine import CACHE_LINE, IS_ZEN
from ...._jit.memory import address, itemsize, load, seen_as, store
from .plan import CACHED, STREAM

#: Bytes. Shorter runs are copied by two overlapping halves, longer ones in a loop of vectors ...
SHORT_BYTES = 64
#: ... up to this many bytes; above, memcpy is faster.
VECTOR_BYTES = 4096
#: Slices ahead of which a short one is prefetched into the L1. Every slice is prefetched with its last byte, which is
#: often in one more cache line than its bytes fill: the hardware cannot guess where slices are.
SHORT_AHEAD = 32
#: Slices ahead of which a longer one is prefetched into the L1, and before that into the L2 if the output is large:
#: the L2 can have more misses under way.
NEAR_AHEAD, FAR_AHEAD = 8, 64
#: Rows of a strip or tile ahead of which one is prefetched.
ROWS_AHEAD = 8
#: Bytes of a longer slice that are prefetched; the hardware finds the rest.
PREFETCHED_BYTES = 8 * CACHE_LINE
#: Bytes from which on a slice of a large output is written past the caches whatever its alignment: the lines that it
#: shares with its neighbours are few.
STREAM_SLICE = 1024
#: Bytes ahead of which lines of a cached output are prefetched for writing, and the bytes of a slice from which on
#: they are. Otherwise a store waits for its line until those before it are done.
WRITTEN_AHEAD, LEAST_WRITTEN = 1024, 160
#: Bytes of an output from which on lines are prefetched for writing single elements: the L2 does not hold it.
LEAST_OUTPUT = 1 << 21
#: Whether lines are prefetched for writing at all: Zen processors lose by it.
PREFETCHES_WRITES = not IS_ZEN


@helper
def copy_1(target, to, source, fro):
    """Copy one byte."""
    store(seen_as(target, np.uint8), to, load(seen_as(source, np.uint8), fro))


@helper
def copy_16(target, to, source, fro, length):
    """Copy 16 bytes, as one vector."""
    copies.copy_16_to_32(target, to, source, fro, 16)


@helper
def copy_short(target, to, source, fro, length):
    """Copy up to 64 bytes without a loop."""
    if length < 2:
        if length == 1:
            copy_1(target, to, source, fro)
    elif length < 4:
        copies.copy_2_to_4(target, to, source, fro, length)
    elif length < 8:
        copies.copy_4_to_8(target, to, source, fro, length)
    elif length < 16:
        copies.copy_8_to_16(target, to, source, fro, length)
    elif length == 16:
        copy_16(target, to, source, fro, length)
    elif length <= 32:
        copies.copy_16_to_32(target, to, source, fro, length)
    else:
        copies.copy_32_to_64(target, to, source, fro, length)


@helper
def copy_long(target, to, source, fro, length):
    """Copy 64 bytes or more."""
    if length <= VECTOR_BYTES:
        copies.copy_vectors(target, to, source, fro, length)
    else:
        copy_bytes(target, to, source, fro, length)


@chosen
def copy_run(target, to, source, fro, count):
    """Copy `count` elements that are contiguous on both sides; wider ones than bytes are few, or one."""

    def by_bytes(target, to, source, fro, count):
        if count >= SHORT_BYTES:
            copy_long(target, to, source, fro, count)
        else:
            copy_short(target, to, source, fro, count)

    def one_by_one(target, to, source, fro, count):
        for j in range(count):
            store(target, to + j * itemsize(target), load(source, fro + j * itemsize(target)))

    return by_bytes if target.dtype == types.uint8 else one_by_one


@helper
def prefetch_lines(ref, at, lines):
    """Prefetch cache lines from a byte on into the L2."""
    for line in range(lines):
        prefetch_to_l2(ref, at + line * CACHE_LINE)


@helper
def prefetch_lines_to_write(ref, at, lines):
    """Prefetch cache lines that will be written, WRITTEN_AHEAD bytes behind one."""
    for line in range(lines):
        prefetch_to_write(ref, at + WRITTEN_AHEAD + line * CACHE_LINE)


def _span_prefetcher(prefetch):
    @helper
    def prefetch_span(ref, first, length):
        """Prefetch some bytes, wherever in a line they begin."""
        for at in range(first, first + length, CACHE_LINE):
            prefetch(ref, at)
        prefetch(ref, first + length - 1)

    return prefetch_span


prefetch_span, prefetch_span_to_l2 = _span_prefetcher(prefetch), _span_prefetcher(prefetch_to_l2)


@helper
def prefetch_near(data, base, offsets, i, count, length):
    """Prefetch a slice NEAR_AHEAD behind the i-th, which is copied soon."""
    prefetch_span(data, base + offsets[np.uint64(min(i + NEAR_AHEAD, count - 1))], min(length, PREFETCHED_BYTES))


@helper
def prefetch_far(data, base, offsets, i, count, length):
    """Prefetch a slice FAR_AHEAD behind the i-th, and one that is copied soon."""
    prefetch_span_to_l2(data, base + offsets[np.uint64(min(i + FAR_AHEAD, count - 1))], min(length, PREFETCHED_BYTES))
    prefetch_near(data, base, offsets, i, count, length)


@helper
def stream_runs(data, base, offsets, packed, to, length, count):
    """Copy slices that are neighbours in the output past the caches; see `take_runs`.

    A line that two of them share is written once, with bytes of both, so they must begin at multiples of 16 bytes.
    """
    if (address(packed) + to | length) & (CACHE_LINE - 1) == 0:  # no line is shared
        for i in range(count):
            prefetch_far(data, base, offsets, i, count, length)
            copies.stream_lines(packed, to + i * length, data, base + offsets[np.uint64(i)], length // CACHE_LINE)
        return
    head = -(address(packed) + to) & (CACHE_LINE - 1)  # of a slice, in the line that it shares with the one before
    copy_short(packed, to, data, base + offsets[0], head)
    for i in range(count - 1):
        prefetch_far(data, base, offsets, i, count, length)
        fro = base + offsets[np.uint64(i)]
        lines = (length - head) // CACHE_LINE
        copies.stream_lines(packed, to + head, data, fro + head, lines)
        rest = length - head - lines * CACHE_LINE
        to += length
        head = -rest & (CACHE_LINE - 1)
        if rest > 0:
            copies.stream_joint(packed, to - rest, data, fro + length, base + offsets[np.uint64(i + 1)], head)
    stream_bytes(packed, to + head, data, base + offsets[count - 1] + head, length - head)


@helper
def copy_to_cached(target, to, source, fro, length):
    """Copy 129 to 256 bytes to an output that the caches hold."""
    if PREFETCHES_WRITES and length >= LEAST_WRITTEN:
        prefetch_lines_to_write(target, to, 4)
    copies.copy_128_to_256(target, to, source, fro, length)


def _taker(copy, ahead, lines):
    @helper
    def take(data, base, offsets, packed, to, step, some, length, cached):
        """Copy slices by `copy`, and prefetch `lines` lines of one `ahead`, unless they are cached."""
        first, last, count = some
        if cached:
            for i in range(first, last):
                copy(packed, to + (i - first) * step, data, base + offsets[np.uint64(i)], length)
            return
        for i in range(first, last):
            soon = base + offsets[np.uint64(min(i + ahead, count - 1))]
            for line in range(lines):
                prefetch(data, soon + min(line * CACHE_LINE, length - 1))
            prefetch(data, soon + length - 1)
            copy(packed, to + (i - first) * step, data, base + offsets[np.uint64(i)], length)

    return take


# Each length has a loop of its own, in which the copy is a few vectors: a loop that chooses for every slice takes up to
# 1.8 times as long.
take_2_to_3 = _taker(copies.copy_2_to_4, SHORT_AHEAD, 1)
take_4_to_7 = _taker(copies.copy_4_to_8, SHORT_AHEAD, 1)
take_8_to_15 = _taker(copies.copy_8_to_16, SHORT_AHEAD, 1)
take_16 = _taker(copy_16, SHORT_AHEAD, 1)
take_17_to_32 = _taker(copies.copy_16_to_32, SHORT_AHEAD, 1)
take_33_to_64 = _taker(copies.copy_32_to_64, SHORT_AHEAD, 1)
take_65_to_128 = _taker(copies.copy_64_to_128, NEAR_AHEAD, 2)
take_129_to_256 = _taker(copy_to_cached, NEAR_AHEAD, 4)


@helper
def take_some(
    data,  # IN   the input
    base,  # IN   the offset that all slices share
    offsets,  # IN   (count,) int64, where the slices start from there
    packed,  # OUT  the slices
    to,  # IN   where the first one goes
    step,  # IN   from one to the next
    some,  # IN   the first slice to copy, one past the last, and how many there are to prefetch
    length,
    cached,  # IN   True: the data are small enough for the L2
    large,  # IN   True: the output is larger than the caches
):
    """Copy some slices that are contiguous."""
    first, last, count = some
    if length <= SHORT_BYTES or (length <= 4 * CACHE_LINE and not large):
        # Long ones are always prefetched: cached ones take up to a twelfth longer, but another loop time to compile.
        if length > 128:
            take_129_to_256(data, base, offsets, packed, to, step, some, length, False)
        elif length > 64:
            take_65_to_128(data, base, offsets, packed, to, step, some, length, False)
        elif length > 32:
            take_33_to_64(data, base, offsets, packed, to, step, some, length, cached)
        elif length > 16:
            take_17_to_32(data, base, offsets, packed, to, step, some, length, cached)
        elif length == 16:
            take_16(data, base, offsets, packed, to, step, some, length, cached)
        elif length >= 8:
            take_8_to_15(data, base, offsets, packed, to, step, some, length, cached)
        elif length >= 4:
            take_4_to_7(data, base, offsets, packed, to, step, some, length, cached)
        elif length >= 2:
            take_2_to_3(data, base, offsets, packed, to, step, some, length, cached)
        elif length == 1:  # a thread's part of two or three
            for i in range(first, last):
                copy_1(packed, to + (i - first) * step, data, base + offsets[np.uint64(i)])
        return
    if not large and length <= VECTOR_BYTES:  # in the loop below, others would take a tenth longer
        lines = -(-length // CACHE_LINE) if PREFETCHES_WRITES else 0
        for i in range(first, last):
            at = to + (i - first) * step
            prefetch_lines_to_write(packed, at, lines)
            prefetch_near(data, base, offsets, i, count, length)
            copies.copy_vectors(packed, at, data, base + offsets[np.uint64(i)], length)
        return
    for i in range(first, last):
        at, fro = to + (i - first) * step, base + offsets[np.uint64(i)]
        if large:
            prefetch_far(data, base, offsets, i, count, length)
        else:
            prefetch_near(data, base, offsets, i, count, length)
        if large and length >= STREAM_SLICE:
            stream_bytes(packed, at, data, fro, length)
        else:
            copy_long(packed, at, data, fro, length)


@helper
def take_runs(
    data,  # IN   the input
    base,  # IN   the offset that all slices share
    offsets,  # IN   (count,) int64, where the slices start from there
    packed,  # OUT  the slices
    to,  # IN   where the first one goes
    step,  # IN   from one to the next
    count,
    length,  # IN   the bytes of every slice to copy
    plan,  # IN   (fields,) int64
    room,  # OUT  (BLOCK,) int64, scratch
):
    """Copy slices that are contiguous.

    Those of a large output that are no multiple of 16 bytes, or short, are staged: put together in the L1, and written
    past the caches from there.
    """
    large, cached = plan[STREAM] != 0, plan[CACHED] != 0
    aligned = (address(packed) + to | length) & 15 == 0
    if large and step == length >= SHORT_BYTES and aligned:
        stream_runs(data, base, offsets, packed, to, length, count)
        return
    staged = large and step == length < STREAM_SLICE
    some = room.size * 8 // length if staged else count
    place = room.ctypes.data - address(packed)
    for first in range(0, count, some):
        last = min(first + some, count)
        at = place if staged else to + first * step
        take_some(data, base, offsets, packed, at, step, (first, last, count), length, cached, large)
        if staged:
            stream_bytes(packed, to + first * length, packed, place, (last - first) * length)


@helper
def move_strip(target, to, to_step, source, fro, fro_step, width, rows, past):
    """Copy the rows of a strip, of `width` bytes each; `past` the caches or not.

    The next rows are prefetched, since they are elsewhere; the processor only reads long ones ahead.
    """
    for row in range(rows):
        prefetch_span(source, fro + (row + ROWS_AHEAD) * fro_step, min(width, PREFETCHED_BYTES))
        if past:
            stream_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
        else:
            copy_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
    if past and rows:
        finish_streams()
