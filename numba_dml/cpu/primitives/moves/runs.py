"""Copies of contiguous slices, with prefetches, and past the caches where the output is large."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import helper
from ...._jit.copies import (
    copy_2_to_4,
    copy_4_to_8,
    copy_8_to_16,
    copy_16_to_32,
    copy_32_to_64,
    copy_64_to_128,
    copy_128_to_256,
    copy_bytes,
    copy_vectors,
    prefetch,
    prefetch_to_l2,
    prefetch_to_write,
    stream_bytes,
    stream_joint,
    stream_lines,
)
from ...._jit.machine import CACHE_LINE, IS_ZEN
from ...._jit.memory import address, itemsize, load, seen_as, store

#: Runs of fewer bytes are copied by their ends, and others up to so many by vectors: where source and output are in a
#: cache, 4096 rows of 512 bytes take 0.24 ms, and 0.30 if memcpy is called.
SHORT_BYTES, VECTOR_BYTES = 64, 4096
#: Slices are asked for ahead, since the hardware cannot guess where they are: all of their lines. NumPy's large arrays
#: begin 16 bytes behind a multiple of 64, so that the last byte of a slice is often in one more line than its bytes
#: fill, and a core that meets it unasked waits. Two threads of an Intel Xeon, in ms, without and with its last byte, 32
#: ahead: 4M rows of 64 bytes 97 and 41, 1M of 256 38 and 25; 1M of 24 6.7 and 5.3, of 48 12.4 and 11.5. Short slices
#: so many ahead, into the L1:
SHORT_AHEAD = 32
#: Longer ones so many ahead, up to so many of their bytes; if the output is large, farther ahead into the L2 before,
#: where the core can have more misses under way. In ms, 32 ahead into the L2, and 64 ahead and then 8 into the L1: 1M
#: of 256 bytes 25 and 20 (PyTorch 42), 2M of 128 24 and 20 (34), 600k of 400 20 and 16 (39), 4M of 64 as long; an AMD
#: EPYC (Zen 3) 37 and 30 (45), 51 and 44 (77), 35 and 31 (49). To a small output 1000 of 256 bytes from 256 MB take the
#: EPYC 45 µs without, and 36 with 8 ahead, of 512 49 and 36; from a cache both take as long, but for a twelfth.
NEAR_AHEAD, FAR_AHEAD = 8, 64
ASKED_BYTES = 8 * CACHE_LINE
#: From this many bytes on, a slice of a large output is written past the caches whatever its alignment: the lines that
#: it shares with its neighbours are few.
STREAM_SLICE = 1024
#: Lines of an output that the caches hold are asked for so many bytes before they are written, if slices have so many
#: bytes or more: or each store waits for its line until those before it are done. 1 MB from a table of 1 MB, two
#: threads of an Intel Xeon, in µs, without and with that: rows of 160 bytes 21.9 and 20.2, of 192 22 and 19, of 256 22
#: and 18.5, of 1 KB 17.7 and 16.6; of 128 22 and 25. 5 MB of rows of 256 from a table in L1 107 and 84; 8 MB from 8 MB
#: 311 and 299. An AMD EPYC (Zen 3) loses by it: 1000 of 70 rows of 1 KB 33 and 35, 1287 of 2553 of 2 KB 88 and 109,
#: 4000 of 256 bytes 40 and 46, 10,000 of 100,000 of 256 bytes 324 and 448.
WRITTEN_AHEAD, LEAST_WRITTEN = 1024, 160
#: So it is with single elements of an output that the L2 does not hold. The Xeon, in ms, without and with that:
#: (2048, 4096) along axis 1 f4 6.5 and 5.8 (a copy of as many bytes 4.9), f8 11.6 and 9.4 (8.4), 10M pairs of indices
#: into 64 MB 47 and 43, 4M into 4 MB 8.4 and 6.5; past the caches by way of the L1 f4 7.6, f8 9.6. 30,000 elements take
#: 27 µs, and 31 with that.
LEAST_OUTPUT = 1 << 21
ASKS_TO_WRITE = not IS_ZEN


@helper
def copy_1(target, to, source, fro):
    """Copy one byte."""
    store(seen_as(target, np.uint8), to, load(seen_as(source, np.uint8), fro))


@helper
def copy_16(target, to, source, fro, length):
    """Copy 16 bytes, as one vector: 16 ms where two halves take 27."""
    copy_16_to_32(target, to, source, fro, 16)


@helper
def copy_short(target, to, source, fro, length):
    """Copy up to 64 bytes without a loop."""
    if length < 2:
        if length == 1:
            copy_1(target, to, source, fro)
    elif length < 4:
        copy_2_to_4(target, to, source, fro, length)
    elif length < 8:
        copy_4_to_8(target, to, source, fro, length)
    elif length < 16:
        copy_8_to_16(target, to, source, fro, length)
    elif length == 16:
        copy_16(target, to, source, fro, length)
    elif length <= 32:
        copy_16_to_32(target, to, source, fro, length)
    else:
        copy_32_to_64(target, to, source, fro, length)


@helper
def copy_long(target, to, source, fro, length):
    """Copy 64 bytes or more."""
    if length <= VECTOR_BYTES:
        copy_vectors(target, to, source, fro, length)
    else:
        copy_bytes(target, to, source, fro, length)


@helper
def copy_run(target, to, source, fro, count):
    """Copy `count` elements that are contiguous on both sides."""
    length = count * itemsize(target)
    if length >= SHORT_BYTES:
        copy_long(target, to, source, fro, length)
    else:
        copy_short(target, to, source, fro, length)


@helper
def ask_for(ref, at, lines):
    """Ask for cache lines from a byte on."""
    for line in range(lines):
        prefetch_to_l2(ref, at + line * CACHE_LINE)


@helper
def ask_to_write(ref, at, lines):
    """Ask for cache lines that will be written, some behind a byte."""
    for line in range(lines):
        prefetch_to_write(ref, at + WRITTEN_AHEAD + line * CACHE_LINE)


def _asker(prefetch):
    @helper
    def ask_for_some(ref, first, length):
        """Ask for some bytes, wherever in a line they begin."""
        for at in range(first, first + length, CACHE_LINE):
            prefetch(ref, at)
        prefetch(ref, first + length - 1)

    return ask_for_some


ask_for_some, ask_for_some_in_l2 = _asker(prefetch), _asker(prefetch_to_l2)


@helper
def ask_for_near(data, base, offsets, i, count, length):
    """Ask for a slice some behind the i-th, which is copied soon."""
    ask_for_some(data, base + offsets[np.uint64(min(i + NEAR_AHEAD, count - 1))], min(length, ASKED_BYTES))


@helper
def ask_for_far(data, base, offsets, i, count, length):
    """Ask for a slice many behind the i-th, and for one that is copied soon."""
    ask_for_some_in_l2(data, base + offsets[np.uint64(min(i + FAR_AHEAD, count - 1))], min(length, ASKED_BYTES))
    ask_for_near(data, base, offsets, i, count, length)


@helper
def stream_runs(data, base, offsets, packed, to, length, count):
    """Copy slices that are neighbours in the output past the caches; see `take_runs`.

    A line that two of them share is written once, with bytes of both, so they must begin at multiples of 16 bytes. Two
    threads, in ms, and if such lines are not (or none, as before, of slices of less than 1 KB): 2M slices of 64 bytes
    4.3 and 8.7, 500k of 256 3.2 and 8.3 (from a table in L2), 250k of 512 from anywhere 6.5 and 14.6.
    """
    if (address(packed) + to | length) & (CACHE_LINE - 1) == 0:  # none is shared: 12.6 ms on one thread, else 15.4
        for i in range(count):
            ask_for_far(data, base, offsets, i, count, length)
            stream_lines(packed, to + i * length, data, base + offsets[np.uint64(i)], length // CACHE_LINE)
        return
    head = -(address(packed) + to) & (CACHE_LINE - 1)  # of a slice, in the line that it shares with the one before
    copy_short(packed, to, data, base + offsets[0], head)
    for i in range(count - 1):
        ask_for_far(data, base, offsets, i, count, length)
        fro = base + offsets[np.uint64(i)]
        lines = (length - head) // CACHE_LINE
        stream_lines(packed, to + head, data, fro + head, lines)
        rest = length - head - lines * CACHE_LINE
        to += length
        head = -rest & (CACHE_LINE - 1)
        if rest > 0:
            stream_joint(packed, to - rest, data, fro + length, base + offsets[np.uint64(i + 1)], head)
    stream_bytes(packed, to + head, data, base + offsets[count - 1] + head, length - head)


@helper
def copy_to_cached(target, to, source, fro, length):
    """Copy 129 to 256 bytes to an output that the caches hold."""
    if ASKS_TO_WRITE and length >= LEAST_WRITTEN:
        ask_to_write(target, to, 4)
    copy_128_to_256(target, to, source, fro, length)


def _taker(copy, ahead, lines):
    @helper
    def take(data, base, offsets, packed, to, step, some, length, cached):
        """Copy slices by `copy`, and ask for so many lines of one `ahead`, unless they are cached; see `take_some`."""
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


#: Slices have loops of their own by length, and copies without a loop: where one loop chose for each, 6216 of 28 bytes
#: from a table in L2 took an AMD EPYC 27 µs, and 1M from memory 30 ms; now 19 and 19. Where the L2 holds the data none
#: is asked for. One thread, 12,000 slices in µs, where those of less than 8 bytes were copied one by one, up to 16
#: chosen in the loop, and from 64 on copied in a loop of vectors, and now: the EPYC from 16 KB of 3 bytes 53 and 40, of
#: 6 40 and 25, of 16 42 and 25, of 64 88 and 48, of 128 97 and 79, of 256 94 and 78, from 64 MB of 64 160 and 126, of
#: 256 292 and 190; an Intel Xeon from 64 KB of 16 32 and 21, of 28 40 and 30, of 48 56 and 42, of 128 98 and 59.
take_2_to_3 = _taker(copy_2_to_4, SHORT_AHEAD, 1)
take_4_to_7 = _taker(copy_4_to_8, SHORT_AHEAD, 1)
take_8_to_15 = _taker(copy_8_to_16, SHORT_AHEAD, 1)
take_16 = _taker(copy_16, SHORT_AHEAD, 1)
take_17_to_32 = _taker(copy_16_to_32, SHORT_AHEAD, 1)
take_33_to_64 = _taker(copy_32_to_64, SHORT_AHEAD, 1)
take_65_to_128 = _taker(copy_64_to_128, NEAR_AHEAD, 2)
take_129_to_256 = _taker(copy_to_cached, NEAR_AHEAD, 4)


@helper
def take_some(
    data,  # IN   the input
    base,  # IN   the offset that all slices share
    offsets,  # IN   (count,) int64, where the slices start from there
    packed,  # OUT  the slices
    to,  # IN   where the first one goes
    step,  # IN   from one to the next
    some,  # IN   the first and the last slice to copy, and how many there are, some of which are asked for
    length,
    cached,  # IN   True: the data are small enough for the L2
    large,  # IN   True: the output is larger than the caches
):
    """Copy some slices that are contiguous."""
    first, last, count = some
    if length <= SHORT_BYTES or (length <= 4 * CACHE_LINE and not large):
        # Long ones are always asked for: cached ones take up to a twelfth longer, but another loop time to compile.
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
    if not large and length <= VECTOR_BYTES:  # a loop of its own, or that of others took a tenth more
        lines = -(-length // CACHE_LINE) if ASKS_TO_WRITE else 0
        for i in range(first, last):
            at = to + (i - first) * step
            ask_to_write(packed, at, lines)
            ask_for_near(data, base, offsets, i, count, length)
            copy_vectors(packed, at, data, base + offsets[np.uint64(i)], length)
        return
    for i in range(first, last):
        at, fro = to + (i - first) * step, base + offsets[np.uint64(i)]
        if large:
            ask_for_far(data, base, offsets, i, count, length)
        else:
            ask_for_near(data, base, offsets, i, count, length)
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
    begin,  # IN   the bytes of every slice to copy: begin <= byte < end
    end,
    cached,  # IN   True: the data are small enough for the L2
    large,  # IN   True: the output is larger than the caches
    room,  # OUT  (BLOCK,) int64, scratch
):
    """Copy slices that are contiguous.

    Those of a large output that are no multiple of 16 bytes, or short, are put together in the L1, and written past the
    caches from there. Two threads of an Intel Xeon, in ms, one by one and so, and PyTorch: 400k slices of 500 bytes 24,
    14.5 and 28, 1M of 200 29, 19 and 34, 2M of 100 26, 21 and 30, 2M of 60 16, 13 and 35, 4M of 12 21, 18 and 64; of
    an AMD EPYC 1M of 200 40, 33 and 50, 2M of 48 25, 20 and 53, 2M of 100 42, 41 and 76.
    """
    length = end - begin
    base += begin
    to += begin
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
