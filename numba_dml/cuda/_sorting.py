"""A stable sort of pairs, best key first: a radix sort from the lowest digit on, of all segments at once.

A pair is two int64 words, a key and a position. Every pass counts the digits of each tile, adds the counts up over the
tiles of a segment, and moves the pairs of a tile behind those of earlier tiles with the same digit.
"""

from __future__ import annotations

import numpy as np

from . import SIMULATED, cuda, helper, kernel
from ._launch import BLOCK, LANES, Kernel
from ._memory import LANE_VALUE, load_now, store_now

#: Bits of a digit: a thread counts its own, so that the sort is stable.
DIGIT = 4
DIGITS = 1 << DIGIT
#: Pairs of a thread, which are neighbours, and of a tile.
ITEMS = 32 if SIMULATED else 8
TILE = BLOCK * ITEMS
COUNTS = DIGITS * BLOCK
PAIR_BYTES = 16
lane_value = LANE_VALUE[64]


@helper
def digit_of(pairs, i, shift, sign):
    """Return a digit of a pair's key, 0 for the best one; `sign` is the digit's bit that holds the key's sign, or 0."""
    return (~(load_now(pairs + PAIR_BYTES * i) >> shift) & (DIGITS - 1)) ^ sign


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


@helper
def add_up_counts(counts, sums):
    """Turn the counts of (digit, thread) into where each starts."""
    thread = cuda.threadIdx.x
    total = np.int32(0)
    for i in range(DIGITS):
        total += counts[thread * DIGITS + i]
    start = add_up_threads(sums, total) - total
    for i in range(DIGITS):
        count = counts[thread * DIGITS + i]
        counts[thread * DIGITS + i] = start
        start += count
    cuda.syncthreads()


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
    thread = cuda.threadIdx.x
    segment = np.int64(cuda.blockIdx.x) // tiles
    tile = np.int64(cuda.blockIdx.x) - segment * tiles
    source = pairs + PAIR_BYTES * segment * size
    for i in range(thread, DIGITS, BLOCK):
        counts[i] = 0
    cuda.syncthreads()
    for i in range(tile * TILE + thread, min(size, (tile + 1) * TILE), BLOCK):
        cuda.atomic.add(counts, digit_of(source, i, shift, sign), 1)
    cuda.syncthreads()
    for i in range(thread, DIGITS, BLOCK):
        store_now(starts + 8 * ((segment * DIGITS + i) * tiles + tile), counts[i])


@kernel
def scan_counts(
    starts,  # IN OUT  address of (segments, count) int64: counts, which become their sums before each
    count,
):
    sums = cuda.shared.array(BLOCK, np.int64)
    thread = cuda.threadIdx.x
    first = starts + 8 * np.int64(cuda.blockIdx.x) * count
    share = (count + BLOCK - 1) // BLOCK
    begin = min(thread * share, count)
    end = min(begin + share, count)
    total = np.int64(0)
    for i in range(begin, end):
        total += load_now(first + 8 * i)
    start = add_up_threads(sums, total) - total
    for i in range(begin, end):
        value = load_now(first + 8 * i)
        store_now(first + 8 * i, start)
        start += value


@kernel
def move_pairs(
    pairs,  # IN   address of (segments, size) pairs
    size,
    shift,  # IN   of the digit
    sign,  # IN   its bit that holds the key's sign, or 0
    tiles,  # IN   per segment
    starts,  # IN   address of (segments, DIGITS, tiles) int64: where the pairs of a tile with a digit go
    target,  # OUT  address of as many pairs
):
    counts = cuda.shared.array(COUNTS, np.int32)
    sums = cuda.shared.array(BLOCK, np.int32)
    bases = cuda.shared.array(DIGITS, np.int64)
    thread = cuda.threadIdx.x
    segment = np.int64(cuda.blockIdx.x) // tiles
    tile = np.int64(cuda.blockIdx.x) - segment * tiles
    source = pairs + PAIR_BYTES * segment * size
    to = target + PAIR_BYTES * segment * size
    begin = min(tile * TILE + thread * ITEMS, size)
    end = min(begin + ITEMS, size)
    for i in range(DIGITS):
        counts[i * BLOCK + thread] = 0
    for i in range(begin, end):
        counts[digit_of(source, i, shift, sign) * BLOCK + thread] += 1
    cuda.syncthreads()
    add_up_counts(counts, sums)
    for i in range(thread, DIGITS, BLOCK):
        bases[i] = load_now(starts + 8 * ((segment * DIGITS + i) * tiles + tile)) - counts[i * BLOCK]
    cuda.syncthreads()
    for i in range(begin, end):
        digit = digit_of(source, i, shift, sign)
        place = bases[digit] + counts[digit * BLOCK + thread]
        store_now(to + PAIR_BYTES * place, load_now(source + PAIR_BYTES * i))
        store_now(to + PAIR_BYTES * place + 8, load_now(source + PAIR_BYTES * i + 8))
        counts[digit * BLOCK + thread] += 1


_COUNT = Kernel(count_digits, 6, waits=True)
_SCAN = Kernel(scan_counts, 2, waits=True)
_MOVE = Kernel(move_pairs, 7, waits=True)


def scratch_bytes(segments: int, size: int) -> int:
    """Return how many bytes a sort needs besides the pairs and as many others."""
    return 8 * segments * DIGITS * -(-size // TILE)


def add_up(device: int, stream: int, starts: int, segments: int, count: int) -> None:
    """Turn the counts of every segment into the sums of those before."""
    _SCAN(device, stream, segments, starts, count)


def sort_pairs(
    device: int, stream: int, pairs: int, other: int, segments: int, size: int, bits: int, scratch: int
) -> int:
    """Sort the pairs of every segment, given keys of so many bits; return where they are then: `pairs` or `other`."""
    tiles = -(-size // TILE)
    for shift in range(0, bits, DIGIT):
        sign = DIGITS >> 1 if shift + DIGIT >= bits else 0
        _COUNT(device, stream, segments * tiles, pairs, size, shift, sign, tiles, scratch)
        _SCAN(device, stream, segments, scratch, DIGITS * tiles)
        _MOVE(device, stream, segments * tiles, pairs, size, shift, sign, tiles, scratch, other)
        pairs, other = other, pairs
    return pairs
