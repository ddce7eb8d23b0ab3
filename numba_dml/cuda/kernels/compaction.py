"""The coordinates of elements that are not zero: a bit for each element, sums of their counts, and the rows.

The bits make the last step the same for all layouts and types of elements. A tile has a word of bits for each thread of
a block, and the words hold a bit for each lane of a warp.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper
from ..driver.intrinsics import shared_type
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, cuda
from ..primitives.access import LOAD_INDEX, load_i64, unit_access
from ..primitives.atomics import load_now, store_now
from ..primitives.bad_indices import record_bad
from ..primitives.bits import count_bits, lowest_bit
from ..primitives.plan import number, quotient
from ..primitives.ptx import await_inputs
from ..primitives.shared import SHARED_LOAD, SHARED_STORE, shared_address
from ..primitives.sums import add_up_threads
from ..primitives.warp import lanes_where, sync_lanes

#: Elements of a tile, which a block looks at; their positions take 16 bits.
TILE = BLOCK * LANES
WORD_BYTES = 4
#: Threads of the one block that adds up the counts, if tiles are more than `BLOCK`: as many warps as a warp has lanes.
MOST_THREADS = LANES * LANES
#: Elements that a lane loads before it looks at them.
AT_ONCE = min(8, LANES)
#: Coordinates of a row from which on rows are staged: lanes that store a coordinate each waste most of what is moved.
LEAST_STAGED = 3
# The header of a plan. The dimensions of the input as they lie in memory follow, a size (a divisor) and a stride in
# bytes each, and then the sizes of the axes whose coordinates are written, divisors too.
(
    SIZE,  # elements of the input
    MASK,  # the bits of an element that say it is not zero
    DIMS,  # dimensions in memory
    COLUMNS,  # coordinates of a row
    HEADER,
) = range(5)
DIM_FIELDS, COLUMN_FIELDS = 4, 3


@helper
def place_of(plan, position):
    """Return where an element lies from its position in row-major order, in bytes from the first."""
    at = np.int64(0)
    for d in range(number(plan, DIMS) - 1, 0, -1):
        field = HEADER + DIM_FIELDS * d
        over = quotient(position, plan, field)
        at += (position - over * number(plan, field)) * number(plan, field + 3)
        position = over
    return at + position * number(plan, HEADER + 3)


@helper
def place_in_line(plan, position):
    """Return the same if there is one dimension in memory."""
    return position * number(plan, HEADER + 3)


@cache
def mark_kernel(width: int, is_line: bool) -> Kernel:
    """Return the kernel that writes the bits of elements of a width, and counts those of each tile."""
    place = place_in_line if is_line else place_of
    load, _ = unit_access(width, pure=False)
    _, store_word = unit_access(WORD_BYTES)

    def mark(
        x,  # IN   address of the elements
        bits,  # OUT  address of (tiles, BLOCK) words of bits
        counts,  # OUT  address of (tiles,) int64
        plan,  # IN   address
    ):
        await_inputs()
        sums = cuda.shared.array(BLOCK, np.int64)
        own = cuda.local.array(AT_ONCE, np.int64)
        thread, tile = np.int64(cuda.threadIdx.x), np.int64(cuda.blockIdx.x)
        lane = thread % LANES
        size, mask = number(plan, SIZE), number(plan, MASK)
        first = tile * TILE + (thread - lane) * LANES + lane
        word = np.int64(0)
        for start in range(0, LANES, AT_ONCE):
            for i in range(AT_ONCE):
                position = first + (start + i) * LANES
                own[i] = 0
                if position < size:
                    low, high = load(x + place(plan, position))
                    own[i] = (low | high) & mask
            for i in range(AT_ONCE):  # each lane keeps the word of its own number
                found = np.int64(lanes_where(np.int32(own[i] != 0))) & 0xFFFFFFFF
                if lane == start + i:
                    word = found
        store_word(bits + WORD_BYTES * (tile * BLOCK + thread), word, 0)
        total = add_up_threads(sums, np.int64(count_bits(word)))
        if thread == BLOCK - 1:
            store_now(counts + 8 * tile, total)

    return Kernel(mark, 4, waits=True)


@cache
def sum_kernel(width: int) -> Kernel:
    """Return the kernel that replaces the count of each tile by that of those before it; one block does it."""
    _, store = unit_access(width)

    def add_counts(
        counts,  # IN OUT  address of (tiles + 1,) int64, whose last becomes the count of all
        tiles,
        output,  # OUT     address of the count of all, as an integer of the width, 0: there is none
        host,  # OUT     address of the same as an int64 in host memory, 0: there is none
        capacity,  # IN      more is to be recorded
        record,  # IN OUT  address where it is, 0: it is not
        launch,
        identity,
    ):
        await_inputs()
        sums = cuda.shared.array(MOST_THREADS, np.int64)
        thread, threads = np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x)
        share = (tiles + threads - 1) // threads
        begin, end = min(thread * share, tiles), min((thread + 1) * share, tiles)
        own = np.int64(0)
        for i in range(begin, end):
            own += load_now(counts + 8 * i)
        before = add_up_threads(sums, own) - own
        for i in range(begin, end):
            count = load_now(counts + 8 * i)
            store_now(counts + 8 * i, before)
            before += count
        if thread == threads - 1:
            store_now(counts + 8 * tiles, before)
            if output != 0:
                store(output, before, 0)
            if host != 0:
                store_now(host, before)
            if record != 0 and before > capacity:
                record_bad(record, launch, np.int64(0), before, identity)

    return Kernel(add_counts, 8, waits=True)


@cache
def write_kernel(width: int, staged: bool) -> Kernel:
    """Return the kernel that writes the rows, as integers of a width.

    `staged`: lanes leave their rows in shared memory, and store what lies beside each other together.
    """
    load_word = LOAD_INDEX["uint32"]
    _, store = unit_access(width)
    kind, load_staged, store_staged = shared_type(f"int{8 * width}"), SHARED_LOAD[8 * width], SHARED_STORE[8 * width]

    @helper
    def put(address, coordinate):
        if staged:
            store_staged(address, coordinate)
        else:
            store(address, coordinate, 0)

    def write_rows(
        bits,  # IN   address of (tiles, BLOCK) words of bits
        counts,  # IN   address of (tiles,) int64: what is found before a tile
        rows,  # OUT  address of (capacity, COLUMNS) integers
        capacity,
        plan,  # IN   address
    ):
        await_inputs()
        sums = cuda.shared.array(BLOCK, np.int64)
        positions = cuda.shared.array(TILE, np.int16)
        thread, tile = np.int64(cuda.threadIdx.x), np.int64(cuda.blockIdx.x)
        word = load_word(bits + WORD_BYTES * (tile * BLOCK + thread))
        own = np.int64(count_bits(word))
        to = add_up_threads(sums, own) - own
        while word != 0:
            positions[to] = thread * LANES + lowest_bit(word)
            word &= word - 1
            to += 1
        cuda.syncthreads()
        before, columns = load_i64(counts + 8 * tile), number(plan, COLUMNS)
        sizes = HEADER + DIM_FIELDS * number(plan, DIMS)
        end, row, lane = min(sums[BLOCK - 1], capacity - before), columns * width, thread % LANES
        warp_rows = shared_address(cuda.shared.array(0, kind)) + (thread - lane) * row
        for first in range(thread - lane, end, BLOCK):
            to = rows + (before + first) * row
            at = (warp_rows if staged else to) + lane * row
            if first + lane < end:
                rest = tile * TILE + positions[first + lane]
                for d in range(columns - 1, 0, -1):
                    field = sizes + COLUMN_FIELDS * d
                    over = quotient(rest, plan, field)
                    put(at + d * width, rest - over * number(plan, field))
                    rest = over
                put(at, rest)
            if staged:
                sync_lanes()
                for i in range(lane * width, min(end - first, LANES) * row, LANES * width):
                    store(to + i, load_staged(warp_rows + i), 0)
                sync_lanes()

    return Kernel(write_rows, 5, waits=True, shares=True)


@cache
def fill_kernel(width: int) -> Kernel:
    """Return the kernel that fills the rows for which there is no element."""
    _, store = unit_access(width)

    def fill(
        rows,  # OUT  address of (capacity, columns) integers of the width
        count,  # IN   address of how many rows are written, an int64
        columns,
        end,  # IN   capacity times columns
        value,
        blocks,
    ):
        await_inputs()
        begin = load_i64(count) * columns + np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        for i in range(begin, end, blocks * BLOCK):
            store(rows + width * i, value, 0)

    return Kernel(fill, 6)
