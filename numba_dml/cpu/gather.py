"""The gather kernel: GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1 are one loop nest with different numbers."""

from __future__ import annotations

import numpy as np
from llvmlite import binding as llvm

from . import allocating, helper, kernel
from ._drivers import ASK, OVERLAP
from ._indices import (
    AHEAD,
    ALL_INSIDE,
    BLOCK,
    CACHED,
    COMMON,
    COORDS,
    DATA_BASE,
    DROPPED,
    HEADER,
    HIGH,
    INDEX_BYTES,
    KIND,
    LOOP_FIELDS,
    LOOPS,
    LOW,
    PACKED_BYTES,
    PACKS,
    POINTS,
    RUN,
    STREAM,
    TILE,
    block_at,
    block_points,
    coords_at,
    find_offsets,
    find_rows,
    first_of,
    row_bases,
    share_of_loop,
)
from ._memory import (
    CACHE_LINE,
    address,
    copy_2_to_4,
    copy_4_to_8,
    copy_8_to_16,
    copy_16_to_32,
    copy_32_to_64,
    copy_64_to_128,
    copy_128_to_256,
    copy_bytes,
    copy_vectors,
    empty,
    finish_streams,
    itemsize,
    load,
    overlaps,
    prefetch,
    prefetch_to_l2,
    prefetch_to_write,
    seen_as,
    store,
    stream_bytes,
    stream_joint,
    stream_lines,
)

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
#: So many points of such an output are a block, since the first slices of one are not asked for: in blocks of 512 the
#: Xeon takes 22.7 ms for 2M of 128 bytes, not 20.7.
FAR_BLOCK = 4 * BLOCK
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
IS_ZEN = llvm.get_host_cpu_name().startswith("znver")
ASKS_TO_WRITE = not IS_ZEN
#: Single elements are copied in groups, and these in chunks of so many elements. In passing, each chunk asks for its
#: share of what will be read soon: of the indices this many blocks ahead, or rows if they are short, and of the next
#: row of data, up to this many lines. Into the L2: the L1 is for the row of data that is read. (2048, 4096) f4, int64
#: indices, one thread: 8.5 ms, 10.2 if they go into the L1, 9.6 with chunks of 16 elements.
CHUNK = 64
BLOCKS_AHEAD = 2
ROWS_AHEAD = 8
AHEAD_LINES = 16


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


@helper
def read_soon(
    plan,  # IN   (fields,) int64
    rows,  # IN   what `find_rows` returns
    p,  # IN   the number of the block's first point
    block,  # IN   where it starts in data and indices, the number of its row, and of the point in it
    end,  # IN   no point from here on is read
    lines,  # IN   of the indices and of the data, that each chunk asks for
):
    """Return where what is read soon starts in the indices and in the data."""
    loop, length, _ = rows
    base, position, row, j = block
    index_lines, data_lines, _ = lines
    ahead = base
    index_ahead = position + BLOCKS_AHEAD * BLOCK * plan[COORDS]
    if data_lines and p - j + length < end:
        ahead = row_bases(plan, loop, row + 1)[0] + j // CHUNK * data_lines * CACHE_LINE
    elif index_lines and length <= BLOCK:  # short rows, of a tile: the next ones are elsewhere
        last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
        index_ahead = row_bases(plan, loop, row + ROWS_AHEAD)[1] + j * plan[last + 2]
    return index_ahead << (plan[KIND] & 3), ahead


@helper
def tuple_bytes(plan):
    """Return how many bytes a tuple of indices has."""
    return plan[COORDS] << (plan[KIND] & 3)


@helper
def lines_ahead(plan, length, size):
    """Return for how many lines of indices, data and output each chunk of rows of so many points asks."""
    index_lines = -(-CHUNK * tuple_bytes(plan) // CACHE_LINE)
    data_lines = min(-(-plan[AHEAD] * CHUNK // (CACHE_LINE * length)), AHEAD_LINES)
    # What is behind a row of a tile is another tile's.
    asks = ASKS_TO_WRITE and plan[PACKED_BYTES] >= LEAST_OUTPUT and plan[TILE] == 0
    return index_lines, data_lines, CHUNK * size // CACHE_LINE if asks else 0


@helper
def take_found(
    data,  # IN   the input
    base,  # IN   the offset that all elements share
    found,  # IN   (count,) int64, where the elements are from there
    packed,  # OUT  the elements
    to,  # IN   where the first one goes
    count,
    index,  # IN   the indices
    soon,  # IN   what `read_soon` returns
    lines,  # IN   and `lines_ahead`
):
    """Copy slices of one element, and ask for what will be read soon.

    The hardware loses a stream of indices between two blocks: asked for in passing, they took 1.2 ns per element, not
    1.9 (a block in one go, 2.1: the core has no more than some 24 misses under way).
    """
    size = itemsize(data)
    index_ahead, data_ahead = soon
    for chunk in range(0, count, CHUNK):
        ask_for(index, index_ahead, lines[0])
        ask_for(data, data_ahead, lines[1])
        ask_to_write(packed, to + chunk * size, lines[2])
        index_ahead += lines[0] * CACHE_LINE
        data_ahead += lines[1] * CACHE_LINE
        for j in range(chunk, min(chunk + CHUNK, count)):
            store(packed, to + j * size, load(data, base + found[np.uint64(j)]))


@helper
def gather_blocks(
    data,  # IN   the input
    index,  # IN   the indices, packed
    packed,  # OUT  the slices of all points
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end ...
    end,
    low,  # IN   ... and of their slices the elements low <= j < high
    high,
    common,  # IN   True: all rows have the same indices, whose offsets are found once
    buffer,  # OUT  (2 * BLOCK + points of a block,) int64, scratch
):
    """Gather a share of the points, block by block; return the position of the first bad index, or -1."""
    size = itemsize(data)
    large = plan[STREAM] != 0
    cached = plan[CACHED] != 0
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    step = plan[last + 1]
    index_step = plan[last + 2]
    packed_step = plan[last + 3]
    room, pattern, offsets = buffer[:BLOCK], buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK :]
    rows = find_rows(plan, pattern)
    _, length, unit = rows
    points = offsets.size if unit == 1 else min(offsets.size, block_points(plan))
    known = False
    status = ALL_INSIDE
    single = high - low == 1 and packed_step == size  # so low is 0
    index_lines, data_lines, output_lines = lines_ahead(plan, length, size)
    lines = (0 if common or index_step == 0 else index_lines), data_lines, output_lines
    p = begin
    while p < end:
        count, base, position, place, first, row, j = block_at(plan, rows, points, p, end)
        soon = read_soon(plan, rows, p, (base, position, row, j), end, lines)
        shape = pattern[first:]
        found = offsets
        if common:  # offsets are from the start of the row
            base -= j * step
            found = offsets[j:]
        if not known:
            at, some = (position - j * index_step, length) if common else (position, count)
            status = find_offsets(plan, index, at, some, shape, step, index_step, room, offsets)
            if status >= 0:
                return status
            known = common
        if status == ALL_INSIDE and single:
            take_found(data, base, found, packed, place, count, index, soon, lines)
        elif status == ALL_INSIDE:
            begin_byte, end_byte = low * size, high * size
            take_runs(data, base, found, packed, place, packed_step, count, begin_byte, end_byte, cached, large, room)
        else:
            for i in range(count):
                if found[i] == DROPPED:
                    for k in range(low, high):
                        store(packed, place + i * packed_step + k * size, 0)
                else:
                    at = low * size
                    copy_run(packed, place + i * packed_step + at, data, base + found[i] + at, high - low)
        p += count
    if large:
        finish_streams()
    return np.int64(-1)


@allocating
def gather_range(data, index, packed, plan, begin, end, low, high):
    """Gather a share of the points; see `gather_blocks`."""
    length = plan[HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)]
    common = plan[COMMON] != 0 and end - begin > length
    far = plan[STREAM] != 0 and high - low > 1
    points = length if common else FAR_BLOCK if far else block_points(plan)
    buffer = empty(2 * BLOCK + points, np.int64)  # each takes 0.05 us
    return gather_blocks(data, index, packed, plan, begin, end, low, high, common, buffer)


@helper
def move_strip(target, to, to_step, source, fro, fro_step, width, rows, past):
    """Copy the rows of a strip, of so many bytes; `past` the caches or not.

    The next rows are asked for, since they are elsewhere (long ones the processor reads ahead). (14500, 200) f8 along
    axis 0 in strips of 9 columns took two threads of an AMD EPYC 57 ms without this, and takes 22.
    """
    for row in range(rows):
        ask_for_some(source, fro + (row + ROWS_AHEAD) * fro_step, min(width, ASKED_BYTES))
        if past:
            stream_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
        else:
            copy_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
    if past and rows:
        finish_streams()


@helper
def pack_tile(data, share, step, width, room):
    """Copy the rows that a tile's indices lead to, so that they follow each other; see `_move_calls.pack_tiles`.

    Rows are often a power of two apart, and a cache has few places for a tile of them.
    """
    field = coords_at(share)
    at, bytes_of_row = room.ctypes.data - address(data), width * step
    move_strip(data, at, bytes_of_row, data, share[DATA_BASE], share[field + 1], bytes_of_row, share[field], False)
    share[DATA_BASE], share[field + 1] = at, bytes_of_row


def by_shares(gather_range):
    """Return a function that gathers one thread's share of the points, by one for a range of them."""

    @allocating
    def gather_share(data, index, packed, plan, thread, threads):
        """Gather one thread's share of the points; return the position of the first bad index, or -1."""
        elements = plan[RUN]
        loop = plan[LOOPS] - 1
        length = plan[HEADER + LOOP_FIELDS * loop]
        low, high, left, right, tile = 0, elements, 0, length, max(plan[TILE], 1)
        begin, end = plan[POINTS] * thread // threads, plan[POINTS] * (thread + 1) // threads
        if plan[POINTS] < 4 * threads and 1 < elements >= plan[POINTS]:  # few slices: a part of each
            begin, end = 0, plan[POINTS]
            low, high = elements * thread // threads, elements * (thread + 1) // threads
        elif plan[TILE]:
            left, right = length * thread // threads, length * (thread + 1) // threads
        if plan[TILE] == 0:
            left, right, tile = 0, 1, 1
        first = np.int64(-1)
        share = plan
        room = empty(plan[PACKS], np.uint8)
        for at in range(left, right, tile):  # one call: a second one would be compiled, inlined, once more
            if plan[TILE]:
                width = min(tile, right - at)
                share = share_of_loop(plan, loop, at, at + width)
                begin, end = 0, share[POINTS]
                if room.size:
                    pack_tile(data, share, plan[HEADER + LOOP_FIELDS * loop + 1], width, room)
            first = first_of(first, gather_range(data, index, packed, share, begin, end, low, high))
        return first

    return gather_share


gather_share = by_shares(gather_range)


@helper
def clashes(data, index, packed, plan):
    """Tell whether the output lies in one of the inputs."""
    to = address(packed)
    return overlaps(to, to + plan[PACKED_BYTES], address(data) + plan[LOW], address(data) + plan[HIGH]) or overlaps(
        to, to + plan[PACKED_BYTES], address(index), address(index) + plan[INDEX_BYTES]
    )


@kernel
def gather_kernel(phase, task, tasks, data, index, packed, _, plan):
    """Run a task of a gather, or tell how many there are."""
    if task != ASK:
        return gather_share(data, index, packed, plan, task, tasks) + 1
    if phase > 0:
        return np.int64(0)
    return np.int64(OVERLAP) if clashes(data, index, packed, plan) else tasks
