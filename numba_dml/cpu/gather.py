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
    OUTER,
    PACKED_BYTES,
    PACKS,
    POINTS,
    RUN,
    RUNS,
    STREAM,
    TILE,
    block_at,
    block_points,
    coords_at,
    find_offsets,
    find_rows,
    first_of,
    row_bases,
    run_offset,
    share_of_loop,
)
from ._memory import (
    CACHE_LINE,
    address,
    copy_8_to_16,
    copy_16_to_32,
    copy_32_to_64,
    copy_64_to_128,
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
    store,
    stream_bytes,
    stream_joint,
    stream_lines,
)

#: Runs of fewer bytes are copied by their ends, and others up to so many by vectors: where source and output are in a
#: cache, a row of 128 bytes takes 7.4 ns, 10.2 if memcpy is called, and 4096 rows of 512 bytes 0.24 ms, not 0.30.
SHORT_BYTES, VECTOR_BYTES = 64, 4096
#: Short slices are asked for ahead, since the hardware cannot guess where they are: so many bytes of them, but at least
#: and at most so many slices. 4M rows of 32 bytes take 52 ms on one thread instead of 84; of 16 bytes a distance of 32
#: is better than one of 8 by a quarter.
LEAST_AHEAD, MOST_AHEAD = 8, 32
#: Longer ones only for a large output: to a small one they are copied as quickly without, and from a cache in a tenth
#: less time; only rows of 64 bytes from memory take a tenth more. Into the L2, farther ahead, and of each its first
#: bytes: there the core can have more misses under way. One thread, in ms, 8 ahead into the L1, and 8 and 32 into the
#: L2: 2M rows of 64 bytes 26, 28 and 18, 1M of 128 18.0, 17.3 and 12.9, 500k of 256 13.0, 12.5 and 11.5, 250k of 512
#: 12.9, 16.2 and 10.7.
AHEAD_BYTES = 512
#: An AMD EPYC (Zen 3) can have fewer under way. Rows of so many from so many, two threads, in ms, 4, 8, 12, 16 and 32
#: ahead, and PyTorch: 4M of 64 bytes 123, 98, 98, 110, 175 and 134, 2M of 128 73, 68, 86, 103, 102 and 84, 1M of 256
#: 53, 50, 49, 55, 56 and 57, 3M of 80 87, 73, 73, 89, 135; 4M of 32 65, 53, 55, 53, 66, of 16 95, 79, 77, 69, 71; from
#: a table in a cache as before or less, 2M of 10,000 of 128 17 and 22.
IS_ZEN = llvm.get_host_cpu_name().startswith("znver")
BYTES_AHEAD, LONG_AHEAD = (1 << 9, 1 << 9) if IS_ZEN else (1 << 10, 1 << 14)
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
def copy_short(target, to, source, fro, length):
    """Copy fewer than 64 bytes, without a loop if they are 8 or more."""
    if length < 8:
        for byte in range(0, length, itemsize(target)):
            store(target, to + byte, load(source, fro + byte))
    elif length < 16:
        copy_8_to_16(target, to, source, fro, length)
    elif length == 16:  # as one vector: 16 ms where two halves take 27
        copy_16_to_32(target, to, source, fro, 16)
    elif length < 32:
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
def take_slice(plan, data, offset, packed, to, low, high):
    """Copy elements `low` to `high` of one slice from `data` to the packed array."""
    size = itemsize(data)
    if plan[OUTER] == 0:
        copy_run(packed, to + low * size, data, offset + low * size, high - low)
        return
    length = plan[RUN]
    for run in range(low // length, -(-high // length)):
        first = max(low - run * length, 0)
        last = min(high - run * length, length)
        place = to + (run * length + first) * size
        copy_run(packed, place, data, offset + run_offset(plan, run) + first * size, last - first)


@helper
def ask_for(ref, at, lines):
    """Ask for cache lines from a byte on."""
    for line in range(lines):
        prefetch_to_l2(ref, at + line * CACHE_LINE)


@helper
def slices_ahead(length):
    """Return how many slices ahead one is asked for."""
    ahead = BYTES_AHEAD if length < SHORT_BYTES else LONG_AHEAD
    return min(max(ahead // length, LEAST_AHEAD), MOST_AHEAD)


@helper
def stream_runs(data, base, offsets, packed, to, length, count, distance):
    """Copy slices that are neighbours in the output past the caches; see `take_runs`.

    A line that two of them share is written once, with bytes of both, so they must begin at multiples of 16 bytes. Two
    threads, in ms, and if such lines are not (or none, as before, of slices of less than 1 KB): 2M slices of 64 bytes
    4.3 and 8.7, 500k of 256 3.2 and 8.3 (from a table in L2), 250k of 512 from anywhere 6.5 and 14.6.
    """
    asked = min(length, AHEAD_BYTES) // CACHE_LINE
    if (address(packed) + to | length) & (CACHE_LINE - 1) == 0:  # none is shared: 12.6 ms on one thread, else 15.4
        for i in range(count):
            ask_for(data, base + offsets[np.uint64(min(i + distance, count - 1))], asked)
            stream_lines(packed, to + i * length, data, base + offsets[np.uint64(i)], length // CACHE_LINE)
        return
    head = -(address(packed) + to) & (CACHE_LINE - 1)  # of a slice, in the line that it shares with the one before
    copy_short(packed, to, data, base + offsets[0], head)
    for i in range(count - 1):
        ask_for(data, base + offsets[np.uint64(min(i + distance, count - 1))], asked)
        fro = base + offsets[np.uint64(i)]
        lines = (length - head) // CACHE_LINE
        stream_lines(packed, to + head, data, fro + head, lines)
        rest = length - head - lines * CACHE_LINE
        to += length
        head = -rest & (CACHE_LINE - 1)
        if rest > 0:
            stream_joint(packed, to - rest, data, fro + length, base + offsets[np.uint64(i + 1)], head)
    stream_bytes(packed, to + head, data, base + offsets[count - 1] + head, length - head)


def _short_taker(copy):
    @helper
    def take_short(data, base, offsets, packed, to, step, count, length, distance):
        """Copy slices that are short enough for `copy`, and ask for those that are some ahead; see `take_runs`."""
        for i in range(count):
            prefetch(data, base + offsets[np.uint64(min(i + distance, count - 1))])
            copy(packed, to + i * step, data, base + offsets[np.uint64(i)], length)

    return take_short


#: Slices of 17 to 31 bytes and of 32 to 63 have loops of their own: where one loop chose for each slice, 6216 slices of
#: 28 bytes from a table in L2 took 27 µs, and 1M from memory 30 ms; now 19 and 19 (one thread of an AMD EPYC).
take_1_to_16, take_17_to_31, take_32_to_63 = map(_short_taker, (copy_short, copy_16_to_32, copy_32_to_64))


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
    large,  # IN   True: the output is larger than the caches
):
    """Copy slices that are contiguous."""
    length = end - begin
    base += begin
    to += begin
    distance = slices_ahead(length)
    if length < SHORT_BYTES:
        if length >= 32:
            take_32_to_63(data, base, offsets, packed, to, step, count, length, distance)
        elif length > 16:
            take_17_to_31(data, base, offsets, packed, to, step, count, length, distance)
        else:
            take_1_to_16(data, base, offsets, packed, to, step, count, length, distance)
        return
    if large and step == length and (address(packed) + to | length) & 15 == 0:
        stream_runs(data, base, offsets, packed, to, length, count, distance)
        return
    if not large and CACHE_LINE < length < 2 * CACHE_LINE:
        # Two threads, 4096 slices of 4096, in µs, by vectors, and so: an Intel Xeon, 80 bytes 19.6 and 18.5, 100 21.0
        # and 19.6 (20.9 if both ends are asked for ahead); an AMD EPYC, 80 bytes 28.1 and 27.2, 100 31.5 and 30.5.
        for i in range(count):
            copy_64_to_128(packed, to + i * step, data, base + offsets[np.uint64(i)], length)
        return
    if not large and LEAST_WRITTEN <= length <= VECTOR_BYTES:  # a loop of its own, or that of others took a tenth more
        written = length if ASKS_TO_WRITE else 0
        for i in range(count):
            for byte in range(WRITTEN_AHEAD, WRITTEN_AHEAD + written, CACHE_LINE):
                prefetch_to_write(packed, to + i * step + byte)
            copy_vectors(packed, to + i * step, data, base + offsets[np.uint64(i)], length)
        return
    for i in range(count):
        fro = base + offsets[np.uint64(i)]
        if large:
            ahead = base + offsets[np.uint64(min(i + distance, count - 1))]
            ask_for(data, ahead, min(length, AHEAD_BYTES) // CACHE_LINE)
        if large and length >= STREAM_SLICE:
            stream_bytes(packed, to + i * step, data, fro, length)
        else:
            copy_long(packed, to + i * step, data, fro, length)


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
    index_lines, data_lines = lines
    ahead = base
    index_ahead = position + BLOCKS_AHEAD * BLOCK * plan[COORDS]
    if data_lines and p - j + length < end:
        ahead = row_bases(plan, loop, row + 1)[0] + j // CHUNK * data_lines * CACHE_LINE
    elif index_lines and length <= BLOCK:  # short rows, of a tile: the next ones are elsewhere
        last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
        index_ahead = row_bases(plan, loop, row + ROWS_AHEAD)[1] + j * plan[last + 2]
    return index_ahead // plan[COORDS] * tuple_bytes(plan), ahead


@helper
def tuple_bytes(plan):
    """Return how many bytes a tuple of indices has."""
    return plan[COORDS] << (plan[KIND] & 3)


@helper
def lines_ahead(plan, length):
    """Return for how many lines of the indices and of the data each chunk of rows of so many points asks."""
    index_lines = -(-CHUNK * tuple_bytes(plan) // CACHE_LINE)
    return index_lines, min(-(-plan[AHEAD] * CHUNK // (CACHE_LINE * length)), AHEAD_LINES)


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
    plain = plan[OUTER] == 0
    large = plan[STREAM] != 0
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    step = plan[last + 1]
    index_step = plan[last + 2]
    packed_step = plan[last + 3]
    pattern, offsets = buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK :]
    rows = find_rows(plan, pattern)
    _, length, _ = rows
    known = False
    status = ALL_INSIDE
    single = high - low == 1 and packed_step == size  # so low is 0
    index_lines, data_lines = lines_ahead(plan, length)
    lines = (0 if common or index_step == 0 else index_lines), data_lines
    p = begin
    while p < end:
        count, base, position, place, first, row, j = block_at(plan, rows, offsets.size, p, end)
        soon = read_soon(plan, rows, p, (base, position, row, j), end, lines)
        shape = pattern[first:]
        found = offsets
        if common:  # offsets are from the start of the row
            base -= j * step
            found = offsets[j:]
        if not known:
            at, points = (position - j * index_step, length) if common else (position, count)
            status = find_offsets(plan, index, at, points, shape, step, index_step, buffer, offsets)
            if status >= 0:
                return status
            known = common
        if status == ALL_INSIDE and single:
            take_found(data, base, found, packed, place, count, index, soon, lines)
        elif status == ALL_INSIDE and plain:
            take_runs(data, base, found, packed, place, packed_step, count, low * size, high * size, large)
        else:
            for i in range(count):
                if found[i] == DROPPED:
                    for k in range(low, high):
                        store(packed, place + i * packed_step + k * size, 0)
                else:
                    take_slice(plan, data, base + found[i], packed, place + i * packed_step, low, high)
        p += count
    if large:
        finish_streams()
    return np.int64(-1)


@allocating
def gather_range(data, index, packed, plan, begin, end, low, high):
    """Gather a share of the points; see `gather_blocks`."""
    length = plan[HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)]
    common = plan[COMMON] != 0 and end - begin > length
    buffer = empty(2 * BLOCK + (length if common else block_points(plan)), np.int64)  # each takes 0.05 us
    return gather_blocks(data, index, packed, plan, begin, end, low, high, common, buffer)


@helper
def ask_for_some(array, first, length):
    """Ask for some bytes, wherever in a line they begin.

    The rows of a narrow strip are short, and the next ones elsewhere. (14500, 200) f8 along axis 0 in strips of 9
    columns took two threads of an AMD EPYC 57 ms without this, and takes 22.
    """
    for at in range(first, first + length, CACHE_LINE):
        prefetch(array, at)
    prefetch(array, first + length - 1)


#: What is asked for of a strip's next rows, when it is copied: of long ones the processor does so.
ASKED_BYTES = 8 * CACHE_LINE


@helper
def move_strip(target, to, to_step, source, fro, fro_step, width, rows, past):
    """Copy the rows of a strip, of so many bytes; `past` the caches or not."""
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
        elements = plan[RUNS] * plan[RUN]
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
