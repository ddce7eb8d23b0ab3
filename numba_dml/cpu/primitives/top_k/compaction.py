"""Selecting and sorting buffers of keys and positions, best key first and stable.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import allocating, helper
from ...._jit.memory import empty
from ..keys import LANES, bit_count, lowest_key
from .key_groups import rank_of_64
from .key_masks import beats_keys

#: Up to this many keys are sorted by rank: 64 comparisons at once, without a branch that depends on the data.
RANKED = 256
#: With more than this many keys beyond k, a buffer is compacted before it is sorted: a sort by rank is quadratic.
SURPLUS = 32
#: Bits of a digit of a sort, for numbers of 8 and 16 bits, and for wider ones: with more, the counts leave L1.
SHORT_BITS, SORT_BITS = 8, 10


@helper
def count_above(keys, count, key):
    """Return how many of the first `count` keys, a multiple of 64, are above a key."""
    above = 0
    for at in range(0, count, LANES):
        above += bit_count(beats_keys(keys, at, key, (keys.dtype.type(0),)))
    return above


@helper
def number_of(keys, key):
    """Return a key as an unsigned number, 0 for the best one."""
    bits = np.uint64(np.int64(key ^ ~lowest_key(keys)))  # a difference overflows, which LLVM takes for impossible
    return bits & (~np.uint64(0) >> np.uint64(64 - 8 * keys.itemsize))


@helper
def bisect(keys, count, k):
    """Return a key that at least k of the first `count` keys are above, or else the lowest one, and how many are.

    It is not much lower than it could be: they are k + k // 8 at most, or the next key is that of many. `count` is a
    multiple of 64. For a bound the exact k-th key is not needed, and a quickselect takes 16 times as long.
    It is looked for at some distances from the best key first, and then between the last two of them.
    """
    low = lowest_key(keys)
    high = low
    for i in range(count):
        high = max(high, keys[i])
    if high > low:  # ties of the best key are frequent, and need no search
        high = keys.dtype.type(high - 1)
        above_high = count_above(keys, count, high)
        if above_high >= k:
            return high, above_high
    above_low = 0
    for bits in range(8, 8 * keys.itemsize, 8):
        if high == low or number_of(keys, low) - number_of(keys, high) <= np.uint64(1) << np.uint64(bits):
            break
        below = keys.dtype.type(np.int64(high) - (np.int64(1) << bits))
        above = count_above(keys, count, below)
        if above >= k:
            low, above_low = below, above
            break
        high = below
    if above_low == 0:
        above_low = count_above(keys, count, low)
    while above_low > k + k // 8:
        middle = keys.dtype.type((low & high) + ((low ^ high) >> 1))  # their mean, without an overflow
        if middle == low:
            break
        above = count_above(keys, count, middle)
        if above < k:
            high = middle
        else:
            low = middle
            above_low = above
    return low, above_low


@helper
def pad(keys, count):
    """Fill a buffer up to the next multiple of 64 with the lowest key; return that multiple."""
    padded = -(-count // LANES) * LANES
    for i in range(count, padded):
        keys[i] = lowest_key(keys)
    return padded


@helper
def compact(keys, positions, count, k):
    """Keep the k best of a buffer, or an eighth more, in index order.

    Return how many are kept, and the key that others must beat to belong to the result. `keys` must have room up to the
    next multiple of 64.
    """
    padded = pad(keys, count)
    threshold, above = bisect(keys, padded, k)
    if above > k + k // 8:  # of many elements with the same key only the first ones belong to the result
        threshold = keys.dtype.type(threshold + 1)
        above = count_above(keys, padded, threshold)
    ties = max(k - above, 0)
    kept = 0
    for j in range(count):
        key = keys[j]
        keys[kept] = key
        positions[kept] = positions[j]
        tied = key == threshold
        kept += (key > threshold) or (tied and ties > 0)
        ties -= tied
    return kept, threshold


@helper
def sort_by_rank(keys, positions, count, best):
    """Write the positions of all keys to `best`, in order: each goes where its rank says.

    `keys` must have room up to the next multiple of 64.
    """
    ordered = 1
    while ordered < count and keys[ordered] <= keys[ordered - 1]:
        ordered += 1
    if ordered >= count:
        for j in range(count):
            best[j] = positions[j]
        return
    blocks = pad(keys, count) // LANES
    nothing = (keys.dtype.type(0),)
    for i in range(count):
        key = keys[i]
        rank = 0
        # Of equal keys the earlier one comes first.
        own = i // LANES
        for block in range(own):
            if key == lowest_key(keys):
                rank += LANES
            else:
                rank += bit_count(beats_keys(keys, block * LANES, keys.dtype.type(key - 1), nothing))
        rank += rank_of_64(keys, own * LANES, key, (np.uint64(1) << np.uint64(i - own * LANES)) - np.uint64(1))
        for block in range(own + 1, blocks):
            rank += bit_count(beats_keys(keys, block * LANES, key, nothing))
        best[rank] = positions[i]


@helper
def digit_bits(width):
    """How many bits a digit of a sort has, for numbers of a width in bits."""
    return SHORT_BITS if width <= 16 else SORT_BITS


@helper
def to_starts(counts, buckets, start):
    """Turn the counts of the buckets into where they start, the first one at `start`."""
    total = start
    for bucket in range(buckets):
        size = counts[bucket]
        counts[bucket] = total
        total += size


@allocating
def sort_by_digits(keys, positions, count, scratch_keys, scratch_positions):
    """Sort all keys and their positions (a radix sort from the lowest digit on); return whether they are in scratch."""
    width = 8 * keys.itemsize
    bits = digit_bits(width)
    digits = -(-width // bits)
    buckets = 1 << bits
    mask = np.uint64(buckets - 1)
    counts = empty((digits, buckets), np.int64)
    for digit in range(digits):
        for bucket in range(buckets):
            counts[digit, bucket] = 0
    for i in range(count):
        number = number_of(keys, keys[i])
        for digit in range(digits):
            counts[digit, (number >> np.uint64(bits * digit)) & mask] += 1
    a, a_positions, b, b_positions = keys, positions, scratch_keys, scratch_positions
    swapped = False
    for digit in range(digits):
        shift = np.uint64(bits * digit)
        starts = counts[digit]
        if starts[(number_of(keys, a[0]) >> shift) & mask] == count:
            continue  # all have the same digit
        to_starts(starts, buckets, np.int64(0))
        for i in range(count):
            key = a[i]
            bucket = (number_of(keys, key) >> shift) & mask
            place = np.uint64(starts[bucket])
            starts[bucket] += 1
            b[place] = key
            b_positions[place] = a_positions[i]
        a, a_positions, b, b_positions = b, b_positions, a, a_positions
        swapped = not swapped
    return swapped


@helper
def sort_all(keys, positions, count, scratch_keys, scratch_positions):
    """Sort a buffer, all of it; return whether the positions are in scratch then.

    The processor would guess wrong which ranks are below k: 100,000 lines of 32, k 20, took 39 ms so, and take 23.
    """
    if count <= RANKED:
        sort_by_rank(keys, positions, count, scratch_positions)
        return True
    return sort_by_digits(keys, positions, count, scratch_keys, scratch_positions)
