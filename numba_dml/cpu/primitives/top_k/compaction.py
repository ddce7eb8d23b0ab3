"""Selecting and sorting buffers of keys and positions, best key first and stable.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import allocating, helper
from ...._jit.memory import empty
from ..keys import LANES, bit_count, lowest_key
from .key_masks import beats, rank_of_64

#: Up to this many keys are sorted by rank: 64 comparisons at once, without a branch that depends on the data.
RANKED = 256
#: With more than this many keys beyond k, or an eighth of k, a buffer is compacted before it is sorted: a sort by rank
#: is quadratic.
SURPLUS = 32
#: Bits of a digit of a sort: with more, the counts leave L1.
SORT_BITS = 10
#: Up to this many keys are sorted by two digits first, more by three: then few are equal so far.
FEW_KEYS = 1 << 9
#: How far a key is moved to settle the order of keys that have these digits in common.
SETTLED = 16


@helper
def count_above(keys, count, key):
    """Return how many of the first `count` keys, a multiple of 64, are above a key."""
    above = 0
    for at in range(0, count, LANES):
        above += bit_count(beats(keys, at, key, (keys.dtype.type(0),)))
    return above


@helper
def number_of(keys, key):
    """Return a key as an unsigned number, 0 for the best one."""
    bits = np.uint64(np.int64(key ^ ~lowest_key(keys)))  # a difference overflows, which LLVM takes for impossible
    return bits & (~np.uint64(0) >> np.uint64(64 - 8 * keys.itemsize))


@helper
def bisect(keys, count, k, surplus):
    """Return a key that at least k of the first `count` keys are above, or else the lowest one, and how many are.

    It is not much lower than it could be: they are k + `surplus` at most, or the next key is that of many. `count` is a
    multiple of 64. For a bound the exact k-th key is not needed, and a quickselect takes 16 times as long.
    It is looked for at some distances from the best key first, and then between the last two of them.
    """
    lowest = lowest_key(keys)
    best = lowest
    for i in range(count):
        best = max(best, keys[i])
    low, high = lowest, best
    range_of_all = number_of(keys, lowest) - number_of(keys, best)
    above_low = -1
    bits = 0
    while True:
        if above_low >= 0:
            key = keys.dtype.type((low & high) + ((low ^ high) >> 1))  # their mean, without an overflow
        elif bits >= 8 * keys.itemsize or range_of_all <= np.uint64(1) << np.uint64(bits):
            key = lowest
        else:
            key = keys.dtype.type(np.int64(best) - (np.int64(1) << bits))
            bits += 8
        if above_low >= 0 and key == low:
            return low, above_low
        above = count_above(keys, count, key)
        if above >= k or key == lowest:
            low, above_low = key, above
        else:
            high = key
        if 0 <= above_low <= k + surplus:
            return low, above_low


@helper
def pad(keys, count):
    """Fill a buffer up to the next multiple of 64 with the lowest key; return that multiple."""
    padded = -(-count // LANES) * LANES
    for i in range(count, padded):
        keys[i] = lowest_key(keys)
    return padded


@helper
def compact(keys, positions, count, k, surplus):
    """Keep the k best of a buffer, or up to `surplus` more, in index order.

    Return how many are kept, and the key that others must beat to belong to the result. `keys` must have room up to the
    next multiple of 64.
    """
    padded = pad(keys, count)
    threshold, above = bisect(keys, padded, k, surplus)
    if above > k + surplus:  # of many elements with the same key only the first ones belong to the result
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
def are_ordered(keys, count):
    """Tell whether keys are in order already, best first."""
    for i in range(1, count):
        if keys[i] > keys[i - 1]:
            return False
    return True


@helper
def sort_by_rank(keys, positions, count, best):
    """Write the positions of all keys to `best`, in order: each goes where its rank says.

    `keys` must have room up to the next multiple of 64.
    """
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
                rank += bit_count(beats(keys, block * LANES, keys.dtype.type(key - 1), nothing))
        rank += rank_of_64(keys, own * LANES, key, (np.uint64(1) << np.uint64(i - own * LANES)) - np.uint64(1))
        for block in range(own + 1, blocks):
            rank += bit_count(beats(keys, block * LANES, key, nothing))
        best[rank] = positions[i]


@helper
def spread_of(keys, count):
    """Return the lowest of the numbers of some keys, and how many bits tell them apart."""
    low, high = ~np.uint64(0), np.uint64(0)
    for i in range(count):
        number = number_of(keys, keys[i])
        low, high = min(low, number), max(high, number)
    width = 0
    while width < 64 and (high - low) >> np.uint64(width) != np.uint64(0):
        width += 1
    return low, width


@helper
def move_by_digit(keys, positions, count, to_keys, to_positions, low, shift, counts):
    """Move keys and their positions to where a digit of their numbers says, stably; tell whether they were moved."""
    mask = np.uint64(counts.size - 1)
    for bucket in range(counts.size):
        counts[bucket] = 0
    for i in range(count):
        counts[((number_of(keys, keys[i]) - low) >> np.uint64(shift)) & mask] += 1
    if counts[((number_of(keys, keys[0]) - low) >> np.uint64(shift)) & mask] == count:
        return False  # all have the same digit
    total = 0
    for bucket in range(counts.size):
        size = counts[bucket]
        counts[bucket] = total
        total += size
    for i in range(count):
        key = keys[np.uint64(i)]
        bucket = ((number_of(keys, key) - low) >> np.uint64(shift)) & mask
        place = np.uint64(counts[bucket])
        counts[bucket] += 1
        to_keys[place] = key
        to_positions[place] = positions[np.uint64(i)]
    return True


@helper
def settle(keys, positions, count):
    """Sort keys that are nearly in order, by moving each a few places at most; tell whether that was enough."""
    for i in range(1, count):
        key, position = keys[i], positions[i]
        j = i
        while j > 0 and keys[j - 1] < key and i - j < SETTLED:
            keys[j], positions[j] = keys[j - 1], positions[j - 1]
            j -= 1
        keys[j], positions[j] = key, position
        if j > 0 and keys[j - 1] < key:
            return False
    return True


@helper
def sort_by_digits(keys, positions, count, scratch_keys, scratch_positions, counts):
    """Sort all keys and their positions (a radix sort from the lowest digit on); return whether they are in scratch.

    The first digits in which the keys differ come first: then most are in order, and those few that are equal so far
    are settled as they lie.
    """
    low, width = spread_of(keys, count)
    digits = 2 if count <= FEW_KEYS else 3
    shift = max(width - digits * SORT_BITS, 0)
    swapped = False
    while True:
        for at in range(shift, width, SORT_BITS):
            if move_by_digit(keys, positions, count, scratch_keys, scratch_positions, low, at, counts):
                keys, positions, scratch_keys, scratch_positions = scratch_keys, scratch_positions, keys, positions
                swapped = not swapped
        if shift == 0 or settle(keys, positions, count):
            return swapped
        shift = 0


@allocating
def sort_all(keys, positions, count, scratch_keys, scratch_positions):
    """Sort a buffer, all of it; return whether the positions are in scratch then.

    The processor would guess wrong which ranks are below k: 100,000 lines of 32, k 20, took 39 ms so, and take 23.
    """
    if are_ordered(keys, count):
        return False
    if count <= RANKED:
        sort_by_rank(keys, positions, count, scratch_positions)
        return True
    counts = empty(1 << SORT_BITS, np.int64)
    return sort_by_digits(keys, positions, count, scratch_keys, scratch_positions, counts)
