"""Top-k of short lines.

Of many, several go through a network at once, which does the same steps whatever the data are, so no distribution is
slower than another. Its keys carry positions, but for elements of eight bytes, which are looked for in their lines.

Longer ones, and those that come alone, are selected from one by one: the maxima of groups of a line tell a key that k
elements reach, and few others do; those go into a list in registers (see `select_alone`).
"""

from __future__ import annotations

import numpy as np

from . import helper
from ._keys import (
    GROUPS,
    LANES,
    beats,
    bit_count,
    group_bound,
    insert_best,
    lowest_bit,
    lowest_key,
)
from ._memory import CACHE_LINE, itemsize, prefetch_to_l2
from ._network import NETWORK_LINES, insert_columns, insert_lines, network_places

#: The largest k for which a line is selected from alone: so long is the list in registers.
SHORT_K = 16
#: After so many candidates for each result, others must beat the k-th best so far (asking always would make each block
#: wait for the one before); then also those of the same block, after so many of them or k.
CANDIDATES, AT_ONCE = 2, 8


@helper
def network_lines(
    ref,  # IN   the input
    offset,  # IN   where the first line starts, in bytes
    line_step,  # IN   from line to line
    size,  # IN   elements per line
    limit,  # IN   where what may be looked at ends, in bytes
    k,
    rule,
    best,  # OUT  (k or more, lines) keys, scratch, see `list_depth`
    stage,  # OUT  (64,) elements, scratch
    positions,  # OUT  (lines, k) int64, the result, best first
):
    """Select from neighbouring lines, as many as the network takes."""
    # Each line is too short for the hardware to see where it leads. One thread, f4 64, k 2 and 6, ns a line with and
    # without: AMD EPYC 50 and 58, 75 and 82; f8 64, k 6 Intel Xeon 91 and 123.
    for line in range(NETWORK_LINES, 2 * NETWORK_LINES):
        for byte in range(0, size * itemsize(ref), CACHE_LINE):
            prefetch_to_l2(ref, offset + line * line_step + byte)
    best[:] = lowest_key(best)
    for at in range(0, size, NETWORK_LINES):
        first = min(at, size - NETWORK_LINES)  # the last block lies partly on the one before it
        insert_lines(ref, offset, line_step, first, at - first, best, 0, best.shape[0], rule)
    network_places(ref, offset, line_step, size, limit, k, rule, best, stage, positions)


@helper
def select_alone(
    row,  # IN   (size,) intW, elements
    size,
    k,  # IN   up to `SHORT_K`
    rule,
    rest,  # OUT  (64,) intW, scratch
    keys,  # OUT  (16,) keys, scratch
    places,  # OUT  (16,) int32, scratch
    positions,  # OUT  (16,) int64, the first k are the result, best first
):
    """Select from a line by a key that k groups of its elements reach."""
    whole = (size - 1) // LANES * LANES
    start, low, high = size - LANES, LANES - (size - whole), LANES  # the last block lies on the one before it in part
    if size < LANES:
        for i in range(LANES):  # or what was there, maybe a NaN, were compared, which raises a flag that ufuncs look at
            rest[i] = row[0]
        for i in range(1, size):
            rest[i] = row[i]
        row, start, low, high = rest, 0, 0, size
    bound, top = group_bound(row, whole, start, low, high, k, rule)
    last = (~np.uint64(0) >> np.uint64(LANES - high)) & (~np.uint64(0) << np.uint64(low))
    lowest = lowest_key(keys)
    few = bound == lowest  # of groups with a better element, which the list begins with, as do groups without elements
    equal = few or bound == top  # of many elements with the best key the first ones are wanted
    below = row.dtype.type(bound - (not few))
    keys[:] = lowest
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
    if few and keys[k - 1] == lowest:
        add_lowest(row, size, whole, start, last, k, rule, keys, positions)


@helper
def add_lowest(row, size, whole, start, last, k, rule, keys, positions):
    """Put the first elements with the lowest key behind the better ones, whose keys are in a list."""
    lowest = lowest_key(keys)
    found = 0
    while keys[found] > lowest:
        found += 1
    at = 0
    while at < size and found < k:
        block = at if at < whole else start
        mask = ~beats(row, block, lowest, rule)
        if at == whole:
            mask &= last
        while mask != np.uint64(0) and found < k:
            positions[found] = block + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            found += 1
        at += LANES


@helper
def network_columns(
    ref,  # IN   the input
    offset,  # IN   where the first column starts, in bytes
    step,  # IN   from element to element of a column
    size,  # IN   elements per column, at least as many as go through the network together
    lanes,  # IN   how many columns, as many at least
    depth,  # IN   see `list_depth`
    rule,
    best,  # OUT  (groups of columns * depth, lines) keys
):
    """Select from columns side by side; of those that the last group shares with the one before, from both."""
    best[:] = lowest_key(best)
    for at in range(0, size, NETWORK_LINES):
        first = min(at, size - NETWORK_LINES)
        for group in range(best.shape[0] // depth):
            lane = min(group * NETWORK_LINES, lanes - NETWORK_LINES)
            start = offset + lane * itemsize(ref)
            insert_columns(ref, start, step, first, at - first, best, group * depth, depth, rule)
