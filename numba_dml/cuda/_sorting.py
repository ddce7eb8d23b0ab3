"""A stable sort of pairs, best key first: a radix sort from the lowest digit on, of all segments at once.

A pair is two int64 words, a key and a position, at a multiple of 16 bytes. Every pass counts the digits of each
tile, adds the counts up over the tiles of a segment, and moves the pairs of a tile behind those of earlier tiles with
the same digit: they are brought into order in shared memory first, so that neighbours are written together.
"""

from __future__ import annotations

import numpy as np

from . import SIMULATED, cuda, helper, kernel
from ._launch import BLOCK, LANES, Kernel
from ._memory import LANE_VALUE, count_bits, load_i64, load_now, matching_lanes, store_now, sync_lanes, unit_access

#: Bits of a digit.
DIGIT = 4 if SIMULATED else 8
DIGITS = 1 << DIGIT
#: Pairs of a thread, and of a tile.
ITEMS = 8
TILE = BLOCK * ITEMS
WARPS = BLOCK // LANES
COUNTS = WARPS * DIGITS
SHARE = DIGITS // BLOCK
PAIR_BYTES = 16
#: Rows of counts up to this length have a thread each, others a block: 256,000 rows of 4 took blocks 0.75 ms.
SHORT_ROW = 16
lane_value = LANE_VALUE[64]
load_pair, store_pair = unit_access(16)


@helper
def digit_of(key, shift, sign):
    """Return a digit of a key, 0 for the best one; `sign` is the digit's bit that holds the key's sign, or 0."""
    return (~(key >> shift) & (DIGITS - 1)) ^ sign


@helper
def add_up_threads(sums, own):
    """Return the sum of the numbers of this thread and of those before it; `sums` then holds it for every thread."""
    thread = cuda.threadIdx.x
    lane = thread % LANES
    total = np.int64(own)
    step = 1
    while step < LANES:
        before = lane_value(total, max(lane - step, 0))
        if lane >= step:
            total += before
        step <<= 1
    sums[thread] = total
    cuda.syncthreads()
    before = np.int64(0)
    for other in range(LANES - 1, thread - lane, LANES):
        before += sums[other]
    cuda.syncthreads()
    sums[thread] += before
    cuda.syncthreads()
    return before + total


@kernel
def count_digits(
    pairs,  # IN   address of (segments, size) pairs
    size,
    shift,  # IN   of the digit
    sign,  # IN   its bit that holds the key's sign, or 0
    tiles,  # IN   per segment
    starts,  # OUT  address of (segments, DIGITS, tiles) int64: how many pairs of a tile have a digit
):
    counts = cuda.shared.array(DIGITS, np.int32)
    thread = np.int64(cuda.threadIdx.x)
    segment = np.int64(cuda.blockIdx.x) // tiles
    tile = np.int64(cuda.blockIdx.x) - segment * tiles
    pairs += PAIR_BYTES * segment * size
    for i in range(thread, DIGITS, BLOCK):
        counts[i] = 0
    cuda.syncthreads()
    i = tile * TILE + thread
    for _ in range(ITEMS):
        if i < size:
            cuda.atomic.add(counts, digit_of(load_i64(pairs + PAIR_BYTES * i), shift, sign), 1)
        i += BLOCK
    cuda.syncthreads()
    for i in range(thread, DIGITS, BLOCK):
        store_now(starts + 8 * ((segment * DIGITS + i) * tiles + tile), counts[i])


@kernel
def add_up_rows(
    starts,  # IN OUT  address of (rows, count) int64: counts, which become the sums of those before
    totals,  # OUT     address of (rows,) int64, 0: they are not wanted
    count,
    rows,
):
    sums = cuda.shared.array(BLOCK, np.int64)
    thread = np.int64(cuda.threadIdx.x)
    short = count <= SHORT_ROW
    row = np.int64(cuda.blockIdx.x) * (BLOCK if short else 1) + (thread if short else 0)
    starts += 8 * row * count
    before = np.int64(0)
    if short:  # a thread for each
        if row < rows:
            for i in range(count):
                own = load_now(starts + 8 * i)
                store_now(starts + 8 * i, before)
                before += own
            if totals != 0:
                store_now(totals + 8 * row, before)
        return
    first = np.int64(0)
    while first < count:
        i = first + thread
        own = load_now(starts + 8 * i) if i < count else np.int64(0)
        until = before + add_up_threads(sums, own)
        before += sums[BLOCK - 1]
        if i < count:
            store_now(starts + 8 * i, until - own)
        first += BLOCK
        cuda.syncthreads()
    if totals != 0 and thread == 0:
        store_now(totals + 8 * row, before)


@kernel(registers=80)  # 106 without, and two blocks on a multiprocessor instead of three
def move_pairs(
    pairs,  # IN   address of (segments, size) pairs
    size,
    shift,  # IN   of the digit
    sign,  # IN   its bit that holds the key's sign, or 0
    tiles,  # IN   per segment
    starts,  # IN   address of (segments, DIGITS, tiles) int64: pairs with the digit in earlier tiles
    totals,  # IN   address of (segments, DIGITS) int64: pairs with the digit
    target,  # OUT  address of as many pairs
):
    counts = cuda.shared.array(COUNTS, np.int32)  # of each warp; then what earlier warps have
    firsts = cuda.shared.array(DIGITS, np.int32)  # where a digit begins in the tile
    bases = cuda.shared.array(DIGITS, np.int64)  # and in the target, less that
    sums = cuda.shared.array(BLOCK, np.int64)
    tile_keys = cuda.shared.array(TILE, np.int64)
    tile_positions = cuda.shared.array(TILE, np.int64)
    keys = cuda.local.array(ITEMS, np.int64)
    positions = cuda.local.array(ITEMS, np.int64)
    ranks = cuda.local.array(ITEMS, np.int32)
    thread = np.int64(cuda.threadIdx.x)
    lane = thread % LANES
    segment = np.int64(cuda.blockIdx.x) // tiles
    tile = np.int64(cuda.blockIdx.x) - segment * tiles
    pairs += PAIR_BYTES * segment * size
    target += PAIR_BYTES * segment * size
    for i in range(thread, COUNTS, BLOCK):
        counts[i] = 0
    first = tile * TILE + (thread - lane) * ITEMS + lane  # a warp's pairs are neighbours, so are its lanes'
    for j in range(ITEMS):
        keys[j], positions[j] = load_pair(pairs + PAIR_BYTES * min(first + j * LANES, size - 1))
    cuda.syncthreads()
    own = (thread // LANES) * DIGITS
    for j in range(ITEMS):
        inside = first + j * LANES < size
        digit = digit_of(keys[j], shift, sign)
        same = matching_lanes(digit if inside else DIGITS)
        earlier = count_bits(same & ((np.int64(1) << lane) - 1))
        before = counts[own + digit]
        sync_lanes()
        if inside and earlier == 0:
            counts[own + digit] = before + count_bits(same)
        sync_lanes()
        ranks[j] = before + earlier
    cuda.syncthreads()
    total = np.int64(0)
    whole = np.int64(0)
    for i in range(SHARE):
        digit = thread * SHARE + i
        firsts[digit] = total
        for warp in range(0, COUNTS, DIGITS):
            count = counts[warp + digit]
            counts[warp + digit] = total - firsts[digit]
            total += count
        bases[digit] = whole
        whole += load_i64(totals + 8 * (segment * DIGITS + digit))
    before = add_up_threads(sums, total) - total
    cuda.syncthreads()
    before_all = add_up_threads(sums, whole) - whole
    for i in range(SHARE):
        digit = thread * SHARE + i
        firsts[digit] += before
        bases[digit] += before_all - firsts[digit] + load_i64(starts + 8 * ((segment * DIGITS + digit) * tiles + tile))
    cuda.syncthreads()
    for j in range(ITEMS):
        if first + j * LANES < size:
            digit = digit_of(keys[j], shift, sign)
            place = firsts[digit] + counts[own + digit] + ranks[j]
            tile_keys[place] = keys[j]
            tile_positions[place] = positions[j]
    cuda.syncthreads()
    i = thread
    for _ in range(ITEMS):
        if tile * TILE + i < size:
            key = tile_keys[i]
            store_pair(target + PAIR_BYTES * (bases[digit_of(key, shift, sign)] + i), key, tile_positions[i])
        i += BLOCK


_COUNT = Kernel(count_digits, 6, waits=True)
_ADD_UP = Kernel(add_up_rows, 4, waits=True)
_MOVE = Kernel(move_pairs, 8, waits=True)


def scratch_bytes(segments: int, size: int) -> int:
    """Return how many bytes a sort needs besides the pairs and as many others."""
    return 8 * segments * DIGITS * (-(-size // TILE) + 1)


def add_up(device: int, stream: int, starts: int, totals: int, rows: int, count: int) -> None:
    """Turn the counts of every row into the sums of those before; see `add_up_rows`."""
    _ADD_UP(device, stream, -(-rows // BLOCK) if count <= SHORT_ROW else rows, starts, totals, count, rows)


def sort_pairs(
    device: int, stream: int, pairs: int, other: int, segments: int, size: int, bits: int, scratch: int
) -> int:
    """Sort the pairs of every segment, given keys of so many bits; return where they are then: `pairs` or `other`."""
    tiles = -(-size // TILE)
    totals = scratch + 8 * segments * DIGITS * tiles
    for shift in range(0, bits, DIGIT):
        sign = DIGITS >> 1 if shift + DIGIT >= bits else 0
        _COUNT(device, stream, segments * tiles, pairs, size, shift, sign, tiles, scratch)
        add_up(device, stream, scratch, totals, segments * DIGITS, tiles)
        _MOVE(device, stream, segments * tiles, pairs, size, shift, sign, tiles, scratch, totals, other)
        pairs, other = other, pairs
    return pairs
