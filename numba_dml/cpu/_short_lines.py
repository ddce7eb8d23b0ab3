"""Top-k of many short lines: a network finds the k-th best key of several lines at once, then each line is searched.

The network does the same steps whatever the data are, so no distribution is slower than another. Its keys carry no
positions: the k-th best key, and how many of the k best tie with it, say which elements belong to the result. In lines
of up to 64 elements each of the best keys is looked for.

Longer ones, and those that come alone, are selected from one by one: the maxima of 16 groups of a line tell a key that
k elements reach, and few others do; those go into a list in registers (see `select_alone`).
"""

from __future__ import annotations

import numpy as np

from . import helper
from ._keys import (
    GROUPS,
    LANES,
    beats,
    bit_count,
    find_keys,
    group_bound,
    insert_best,
    insert_block,
    key_of,
    lowest_bit,
    lowest_key,
    rank_of_16,
)
from ._memory import CACHE_LINE, array_at, itemsize, prefetch_to_l2

#: The largest k of the network: the ranks of its results are found by comparing 16 keys at once.
NETWORK_K = 16
#: After so many candidates for each result, others must beat the k-th best so far (asking always would make each block
#: wait for the one before); then also those of the same block, after so many of them or k.
CANDIDATES, AT_ONCE = 2, 8


@helper
def network(ref, offset, line_step, size, k, rule, best):
    """Fill `best`, (k, lines), with the best keys of neighbouring lines, in order."""
    best[:] = lowest_key(best)
    lines = best.shape[1]
    whole = size // lines * lines
    width = itemsize(ref)
    for at in range(0, whole, lines):
        insert_block(ref, offset + at * width, line_step, 0, best, k, rule)
    if whole < size:  # the last block lies partly on the one before it
        at = size - lines
        insert_block(ref, offset + at * width, line_step, whole - at, best, k, rule)


@helper
def reaching(row, at, size, threshold, rule):
    """Return the mask of the elements from `at` on, of 64 at most, whose key is at least the threshold."""
    count = min(size - at, LANES)
    if threshold == lowest_key(row):
        mask = ~np.uint64(0)
    else:
        mask = beats(row, at, row.dtype.type(threshold - 1), rule)
    return mask if count == LANES else mask & ((np.uint64(1) << np.uint64(count)) - np.uint64(1))


@helper
def collect(row, size, k, threshold, ties, rule, masks, keys, positions):
    """Collect the k elements above a threshold, and the first ones equal to it, in the order of the line.

    `ties` says how many of the k are equal to it. Elements up to the next multiple of 64 are read.
    """
    total = 0
    for at in range(0, size, LANES):
        masks[at // LANES] = reaching(row, at, size, threshold, rule)
        total += bit_count(masks[at // LANES])
    surplus = total > k  # more ties than belong to the result; without the question each line takes half the time
    count = np.uint64(0)
    for at in range(0, size, LANES):
        mask = masks[at // LANES]
        while mask != np.uint64(0):
            position = at + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            key = key_of(row[position], rule)
            if surplus:
                if count == np.uint64(k):  # in a constant line all that follow reach the threshold
                    return
                ties -= key == threshold
                if key == threshold and ties < 0:
                    continue
            keys[count] = key
            positions[count] = position
            count += np.uint64(1)


@helper
def network_lines(
    ref,  # IN   the input
    offset,  # IN   where the first line starts, in bytes
    line_step,  # IN   from line to line
    size,  # IN   elements per line
    limit,  # IN   where what may be looked at ends, in bytes
    k,
    rule,
    best,  # OUT  (k, lines) keys, scratch
    keys,  # OUT  (NETWORK_K,) keys, scratch
    found,  # OUT  (NETWORK_K,) int64, scratch
    stage,  # OUT  (size, rounded up to 64,) elements, scratch
    masks,  # OUT  (stage.size / 64,) uint64, scratch
    positions,  # OUT  (lines, k) int64, the result, best first
):
    """Select from neighbouring lines, as many as the network takes."""
    network(ref, offset, line_step, size, k, rule, best)
    for i in range(keys.size):
        keys[i] = lowest_key(keys)
    for line in range(best.shape[1]):
        start = offset + line * line_step
        row = array_at(ref, start, (size,))
        if start + stage.size * itemsize(ref) > limit:  # the last lines of an array
            for i in range(size):
                stage[i] = row[i]
            row = stage
        if size <= LANES:  # for 4 of 32 f4 47 ns a line instead of 83, for 16 of 64 131 instead of 178
            find_keys(row, size, best, line, k, positions, rule)
            continue
        # The network reads several lines at once, and each is too short for the hardware to see where it leads. One
        # thread, f4: (100k, 128) k 8 15.5 ms instead of 17.5, (30000, 300) k 3 5.6 instead of 6.9.
        for byte in range(0, size * itemsize(ref), CACHE_LINE):
            prefetch_to_l2(ref, start + best.shape[1] * line_step + byte)
        threshold = best[k - 1, line]
        ties = 1
        while ties < k and best[k - 1 - ties, line] == threshold:
            ties += 1
        collect(row, size, k, keys.dtype.type(threshold), ties, rule, masks, keys, found)
        for i in range(k):
            earlier = (np.uint64(1) << np.uint64(i)) - np.uint64(1)
            positions[line, rank_of_16(keys, 0, keys[i], earlier)] = found[i]


@helper
def select_alone(
    row,  # IN   (size,) intW, elements
    size,
    k,  # IN   up to `NETWORK_K`
    rule,
    rest,  # OUT  (64,) intW, scratch
    keys,  # OUT  (16,) keys, scratch
    places,  # OUT  (16,) int32, scratch
    positions,  # OUT  (16,) int64, the first k are the result, best first
):
    """Select from a line by a key that k groups of its elements reach; tell whether there is one above the lowest key.

    The lowest key is what groups without elements have, and what the list starts with.
    """
    whole = (size - 1) // LANES * LANES
    start, low, high = size - LANES, LANES - (size - whole), LANES  # the last block lies on the one before it in part
    if size < LANES:
        for i in range(LANES):  # or what was there, maybe a NaN, were compared, which raises a flag that ufuncs look at
            rest[i] = row[0]
        for i in range(1, size):
            rest[i] = row[i]
        row, start, low, high = rest, 0, 0, size
    bound, top = group_bound(row, whole, start, low, high, k, rule)
    if bound == lowest_key(keys):
        return False
    last = (~np.uint64(0) >> np.uint64(LANES - high)) & (~np.uint64(0) << np.uint64(low))
    equal = bound == top  # of many elements with the best key the first ones are wanted
    below = row.dtype.type(bound - 1)
    keys[:] = lowest_key(keys)
    count = at = 0
    while at < size and below != top:
        block = at if at < whole else start
        mask = beats(row, block, below, rule)
        if at == whole:
            mask &= last
        count += bit_count(mask)
        many = equal or count > CANDIDATES * k
        while mask != np.uint64(0):
            mask = insert_best(row, block, mask, max(k, AT_ONCE), keys, places, rule)
            if many:
                below = max(below, keys[k - 1])
            if mask != np.uint64(0):
                mask &= beats(row, block, below, rule)
        at += LANES
    for i in range(GROUPS):
        positions[i] = places[i]
    return True
