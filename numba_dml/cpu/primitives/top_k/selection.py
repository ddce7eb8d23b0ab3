"""Selection from a line: bounds that k elements reach, and the buffer of those above.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...._jit.compile import helper
from ...._jit.memory import array_at, itemsize, load
from ..keys import BLOCKS_AT_ONCE, LANES, key_of, lowest_bit, lowest_key, rule_from
from .compaction import bisect, compact, pad
from .key_masks import beats
from .key_maxima import best_lane, best_lanes, prefetch_lanes, raise_lanes
from .plan import RULE, SAMPLE, SAMPLE_RANK, SIZE, STRIDE, K, line_bases


@helper
def reaching(row, size, threshold, rule):
    """Return the mask of the first `size` elements, of 64 at most, whose key is at least the threshold."""
    mask = ~np.uint64(0)
    if threshold > lowest_key(row):
        mask = beats(row, np.int64(0), row.dtype.type(threshold - 1), rule)
    return mask & (~np.uint64(0) >> np.uint64(LANES - size))


@helper
def add_ties(plan, x, line, bound, keys, positions, count, stage):
    """Put the first elements of a line whose key is the bound behind the better ones; return how many there are now.

    `stage` is scratch for 64 elements.
    """
    n = plan[SIZE]
    stride = plan[STRIDE]
    rule = rule_from(x, plan, RULE)
    source, _ = line_bases(plan, line)
    for at in range(0, n, LANES):
        row = stage
        size = min(LANES, n - at)
        if stride == itemsize(x) and size == LANES:
            row = array_at(x, source + at * stride, (LANES,))
        else:
            for i in range(size):
                stage[i] = load(x, source + (at + i) * stride)
        mask = reaching(row, size, bound, rule)
        while mask != np.uint64(0):
            i = lowest_bit(mask)
            mask &= mask - np.uint64(1)
            if key_of(row[i], rule) == bound:
                keys[count] = bound
                positions[count] = at + i
                count += 1
                if count == plan[K]:
                    return count
    return count


#: A buffer that is full again after fewer elements than this many times its size asks for a better threshold.
EAGER = 4
#: Lines of SURVEYED blocks of 64 elements per result, and of SURVEYED_BLOCKS, are surveyed: one pass finds the best key
#: of each block, then few blocks are read again. If these lie closely together, the line may be in order: they are
#: looked at for a better bound.
SURVEYED = 2
SURVEYED_BLOCKS = 32
#: How many blocks ahead a survey prefetches.
SURVEYED_AHEAD = 16
#: Elements that are looked at for a better threshold: first the nearest ones, which stay in L2, then some from all over
#: the line.
LOOK_AHEAD = 16384
LOOK_AROUND = 4096
#: The most parts into which the nearest elements are divided.
LOOK_PARTS = 64
#: How many parts ahead are prefetched.
PARTS_AHEAD = 4
#: 2**64 times the golden ratio's fraction: its multiples fill an interval evenly.
GOLDEN = 0x9E3779B97F4A7C15


@helper
def bound_ahead(
    row,  # IN   (n,) intW, elements
    begin,  # IN   look at parts of row[begin:end], which has room for four at least
    end,
    most,  # IN   elements to look at
    k,
    groups,  # IN   elements of a part, at least k, a multiple of 64
    rule,
    best,  # OUT  (groups,) intW, scratch
):
    """Return a key that at least k elements of a part of a line are above: k of the maxima of groups are.

    The parts are spread evenly, with one at either end, so that a line that ascends or descends shows what is best;
    each group has one element of every part. An odd distance keeps what is special in every second place from filling
    half of the groups.
    """
    for g in range(groups):
        best[g] = lowest_key(best)
    parts = min((end - begin) // (groups + 2), max(most // groups, 4))  # they must not overlap
    distance = ((end - begin - groups) // (parts - 1) - 1) | 1
    for part in range(parts):
        at = begin + part * distance if part < parts - 1 else end - groups
        for g in range(0, groups, LANES):
            raise_lanes(row, at + g, best, g, rule)
            prefetch_lanes(row, at + PARTS_AHEAD * distance + g)
    return bisect(best, groups, k, k // 8)[0]


@helper
def bound_of_sample(x, plan, line, best):
    """Return a key that very likely at least k elements of a line, and not many more, are above.

    If it is the key of many elements, fewer may be above it: then the first of these belong to the result. `best` is
    scratch. The sample has one element of each part of the line, at places that shift from part to part: a period in
    the data cannot hide from it.
    """
    size = plan[SAMPLE]
    rank = plan[SAMPLE_RANK]
    rule = rule_from(x, plan, RULE)
    source, _ = line_bases(plan, line)
    part = plan[SIZE] // size
    shift = np.uint64(0)
    for i in range(size):
        shift += np.uint64(GOLDEN)
        place = i * part + np.int64(((shift >> np.uint64(32)) * np.uint64(part)) >> np.uint64(32))
        best[i] = key_of(load(x, source + place * plan[STRIDE]), rule)
    bound, above = bisect(best, size, rank, rank // 8)
    # Too many above it, yet too few above the next key: that is the one of many elements.
    return best.dtype.type(bound + 1) if above > rank + rank // 8 else bound


@helper
def next_above(keys, at, count, limit):
    """Return the place of the next key above a limit, from `at` on, or else `count`."""
    while at < count:
        mask = beats(keys, at, limit, (keys.dtype.type(0),))
        if mask != np.uint64(0):
            return min(at + lowest_bit(mask), count)
        at += LANES
    return count


@helper
def span_above(keys, count, limit):
    """Return where the first key above a limit is, and the place behind the last one."""
    begin, end = count, 0
    for at in range(0, count, LANES):
        mask = beats(keys, at, limit, (keys.dtype.type(0),))
        while mask != np.uint64(0):
            end = at + lowest_bit(mask) + 1
            begin = min(begin, end - 1)
            mask &= mask - np.uint64(1)
    return begin, end


@helper
def survey(
    row,  # IN   (n,) intW, elements
    end,  # IN   how many of them, a multiple of 64
    k,
    rule,
    blocks,  # OUT  (end / 64,) intW, the best key of each block, and room to scan them
    best,  # OUT  (4 * k, rounded up to 64,) intW, scratch
):
    """Look at all blocks; return a key that the best of at least k blocks are above, and the best key of all."""
    count = end // LANES
    together = count - count % BLOCKS_AT_ONCE
    for b in range(0, together, BLOCKS_AT_ONCE):
        for ahead in range(SURVEYED_AHEAD, SURVEYED_AHEAD + BLOCKS_AT_ONCE):
            prefetch_lanes(row, (b + ahead) * LANES)
        best_lanes(row, b * LANES, blocks, b, rule)
    for b in range(together, count):
        best_lane(row, b * LANES, blocks, b, rule)
    padded = pad(blocks, count)
    groups = -(-4 * k // LANES) * LANES
    for g in range(groups):
        best[g] = lowest_key(best)
    for b in range(0, padded, LANES):
        raise_lanes(blocks, b, best, b % groups, (best.dtype.type(0),))
    top = lowest_key(best)
    for g in range(groups):
        top = max(top, best[g])
    return bisect(best, groups, k, k // 8)[0], top


class Buffers(NamedTuple):
    """What a line is fed to."""

    keys: Any  #: (capacity,) intW, the k best so far, and perhaps more, in index order
    positions: Any  #: (capacity,) int64, where they are
    blocks: Any  #: (elements / 64,) intW, scratch, and room to scan it
    scratch: Any  #: (capacity,) intW


@helper
def survey_line(row, end, k, rule, buffers):
    """Survey a line; return a threshold, whether k elements beat it, and what that tells.

    That is whether no others than the first of many equal elements are wanted; and where the blocks above the
    threshold begin and end, if they lie so closely together that these should be looked at for a better one.
    """
    whole = end // LANES * LANES
    threshold, top = survey(row, whole, k, rule, buffers.blocks, buffers.scratch)
    full = threshold > lowest_key(row)
    is_top = full and threshold == top - 1
    begin, stop = 0, 0
    if full and not is_top:
        begin, stop = span_above(buffers.blocks, whole // LANES, threshold)
        if stop - begin >= k + k // 2:
            begin, stop = 0, 0
    return threshold, full, is_top, begin * LANES, stop * LANES


@helper
def fill(row, begin, end, first, rule, buffers, count):
    """Put elements into the buffer unasked; return how many it holds then."""
    for i in range(begin, end):
        buffers.keys[count] = key_of(row[i], rule)
        buffers.positions[count] = i + first
        count += 1
    return count


@helper
def scan(row, begin, end, first, rule, whole, threshold, limit, buffers, count):
    """Let elements through that beat a threshold, until there are more than a limit.

    Return how far it came, and how many the buffer holds. The best keys of the blocks up to `whole` are known.
    """
    keys, positions = buffers.keys, buffers.positions
    i = begin
    while count <= limit and i < end:
        if i < whole:
            i = next_above(buffers.blocks, i // LANES, whole // LANES, threshold) * LANES
        if i + LANES > end:
            while i < end:
                key = key_of(row[i], rule)
                if key > threshold:
                    keys[count] = key
                    positions[count] = i + first
                    count += 1
                i += 1
            break
        mask = beats(row, i, threshold, rule)
        while mask != np.uint64(0):
            j = i + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            keys[count] = key_of(row[j], rule)
            positions[count] = j + first
            count += 1
        i += LANES
    return i, count


@helper
def feed(row, end, first, k, rule, buffers, count, full, threshold):
    """Let elements through that beat the threshold; return the new count, full and threshold.

    `row` has `end` elements, of which the first has position `first` in its line. The buffer holds `count` elements;
    if it was `full`, the threshold is the k-th best key so far, or another one that k elements beat.
    """
    limit = buffers.keys.size - LANES
    groups = -(-2 * k // LANES) * LANES
    i, whole = 0, 0
    seen = -end  # where the threshold was raised last
    most = min(LOOK_AHEAD, LOOK_PARTS * groups)
    near = min(end, max(most, 4 * groups))
    ask = not full and count == 0
    if ask and end >= max(SURVEYED * k, SURVEYED_BLOCKS) * LANES:
        whole = end // LANES * LANES
        threshold, full, is_top, begin, stop = survey_line(row, end, k, rule, buffers)
        if is_top:
            limit = min(limit, k + k // 8 + 1)
        ask = stop > 0  # as in a line that ascends or descends: most of it is above the bound
        if ask:
            i, most = begin, LOOK_AROUND
            near = stop if stop < whole else end
    while i < end and not (full and threshold == ~lowest_key(row)):  # nothing beats the highest key
        if ask and near - i >= 4 * groups:
            # What lies ahead holds at least k elements above the bound: nothing else belongs to the result. First the
            # nearest elements are looked at, which stay in L2; if that was not enough, some from all over the line.
            bound = bound_ahead(row, i, near, most, k, groups, rule, buffers.scratch)
            threshold = max(threshold, bound) if full else bound
            full = full or bound > lowest_key(row)
        ask = False
        near, most = end, LOOK_AROUND
        if full:
            i, count = scan(row, i, end, first, rule, whole, threshold, limit, buffers, count)
        else:
            stop = min(end, i + limit - count)
            count = fill(row, i, stop, first, rule, buffers, count)
            i = stop
        if count >= limit:
            count, threshold = compact(buffers.keys, buffers.positions, count, k, k // 8)
            full = True
            ask = i - seen < EAGER * limit  # too many elements beat the threshold, as in a line that ascends
            seen = i
    return count, full, threshold
