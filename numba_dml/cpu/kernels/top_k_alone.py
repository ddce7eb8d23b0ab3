"""Top-k of a single short line, which jitted code hands over without a plan."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import helper, kernel
from ..._jit.memory import address, array_at, itemsize, overlaps, seen_as, store
from ..primitives.keys import LANES, key_of, lowest_key, rule_from
from ..primitives.top_k.key_masks import beats
from ..primitives.top_k.key_maxima import raise_lanes
from ..primitives.top_k.line_list import LISTED, insert_best, kth_group, kth_of_few_groups
from ..primitives.top_k.plan import REFUSED
from ..primitives.top_k.writing import write_index

#: The largest k: so long is the list of the best.
ALONE_K = LISTED
#: What the kernel has in its memory first: the size, k, the bytes of an index, and the rule; and how many words it has,
#: with room to work: for positions of 32 bits, keys, and the elements of a block.
ALONE_NUMBERS = 6
ALONE_WORDS = ALONE_NUMBERS + ALONE_K // 2 + ALONE_K + LANES
#: Candidates of a block that are inserted before the others must beat the k-th best so far.
AT_ONCE = 8


@helper
def block_above(row, start, count, limit, rest, rule):
    """Return which of `count` elements have a key above a limit, 64 at most, from a number of a line on.

    The last block lies partly on the one before it; a line that is shorter is copied to `rest`.
    """
    if row.size >= LANES:
        return beats(row, start + count - LANES, limit, rule) >> np.uint64(LANES - count)
    for i in range(count):
        rest[i] = row[i]
    return beats(rest, np.int64(0), limit, rule) & (~np.uint64(0) >> np.uint64(LANES - count))


@helper
def bound_of(row, k, rule, tops):
    """Return a key that k elements of a line reach, or the lowest one; `tops` gets the best keys of 64 groups."""
    n = row.size
    whole = n // LANES * LANES
    tops[:] = lowest_key(tops)
    for start in range(0, whole, LANES):
        raise_lanes(row, start, tops, 0, rule)
    for i in range(n - whole):
        tops[i] = max(tops[i], key_of(row[np.uint64(whole + i)], rule))
    return kth_of_few_groups(tops, k) if k <= LISTED // 2 else kth_group(tops, k)


@helper
def select_alone(row, k, rule, keys, places, rest):
    """Put the best of a line into a list, best first; what has the lowest key is put behind them in turn."""
    n, lowest = row.size, lowest_key(keys)
    keys[:] = lowest
    bound = bound_of(row, k, rule, rest)
    limit = row.dtype.type(bound - (bound > lowest))
    for start in range(0, n, LANES):
        if k == 1 and keys[0] == bound:  # the best of all
            break
        count = min(LANES, n - start)
        mask = block_above(row, start, count, limit, rest, rule)
        while mask != np.uint64(0):
            mask = insert_best(row, start, mask, max(k, AT_ONCE), keys, places, rule)
            limit = max(limit, keys[k - 1])
            if mask != np.uint64(0):
                mask &= block_above(row, start, count, limit, rest, rule)
    found = 0
    while found < k and keys[found] > lowest:
        found += 1
    for i in range(n if found < k else 0):
        if found < k and key_of(row[i], rule) == lowest:
            places[found] = i
            found += 1


@kernel
def alone_kernel(x, values, indices, memory):
    """Select from one line, whose elements are neighbours, without a plan; `memory` is the caller's, `ALONE_WORDS`."""
    words = seen_as(x, np.int64)
    at = address(memory) - address(x)
    numbers = array_at(words, at, (ALONE_NUMBERS,))
    size, k, index_size = numbers[0], numbers[1], numbers[2]
    begin, end = address(x), address(x) + size * itemsize(x)
    v, i = address(values), address(indices)
    after_v, after_i = v + k * itemsize(x), i + k * index_size
    if overlaps(begin, end, v, after_v) or overlaps(begin, end, i, after_i) or overlaps(v, after_v, i, after_i):
        return np.int64(REFUSED)
    at += 8 * ALONE_NUMBERS
    places = array_at(seen_as(x, np.int32), at, (ALONE_K,))
    at += 4 * ALONE_K
    keys, rest = array_at(x, at, (ALONE_K,)), array_at(x, at + ALONE_K * itemsize(x), (LANES,))
    row = array_at(x, 0, (size,))
    select_alone(row, k, rule_from(x, numbers, 3), keys, places, rest)
    for j in range(k):
        store(values, j * itemsize(x), row[places[j]])
        write_index(indices, index_size, j, places[j])
    return np.int64(0)
