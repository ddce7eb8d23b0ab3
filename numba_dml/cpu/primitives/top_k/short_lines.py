"""Top-k of short lines.

Of many, several go through a network at once, which does the same steps whatever the data are. Its keys carry
positions. For elements of eight bytes there is no room for both, and for those of four both take twice the time: their
keys are cut, and as good where the rest of them differs. It shows in the lists if it does not: then some elements are
put in order, or the lines go through the network a second time (see `cut_lines`).

Longer ones, and those that come alone, are selected from one by one: the maxima of groups of a line tell a key that k
elements reach, and few others do; those go into a list in registers (see `select_alone`).

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import chosen, helper
from ...._jit.copies import prefetch_to_l2
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import array_at, itemsize
from ..keys import LANES, bit_count, key_of, lowest_bit, lowest_key
from .column_lists import GROUPS
from .key_groups import group_bound, insert_best
from .key_masks import beats, differs_at_the_end
from .network import NETWORK_LINES, insert_columns, insert_lines, listed_place
from .network_cut import CUT_BLOCKS, cut_block, insert_cut, tied_lists

#: The largest k for which a line is selected from alone: so long is the list in registers.
SHORT_K = 16
#: After this many candidates for each result, others must beat the k-th best so far (asking always makes each block
#: wait for the one before); then also those of the same block, after this many of them or k.
CANDIDATES, AT_ONCE = 2, 8
#: Lines are prefetched AHEAD bytes ahead: the next groups of them, MOST_AHEAD at most.
AHEAD, MOST_AHEAD = 1 << 13, 4
#: What it can take to select by cut keys, see `cut_lines`.
NONE, ONCE, ORDER, TWICE = range(4)


@helper
def prefetch_ahead(ref, offset, line_step, lines, size, at):
    """Ask for a cache line, from element `at` on, of as many lines as there are, which come some groups later.

    Each line is too short for the hardware to see where it leads.
    """
    width = itemsize(ref)
    if at * width % CACHE_LINE == 0:
        ahead = lines * max(min(AHEAD // (lines * size * width), MOST_AHEAD), 1)
        for line in range(ahead, ahead + lines):
            prefetch_to_l2(ref, offset + line * line_step + at * width)


def network_lines(
    ref,  # IN   the input
    offset,  # IN   where the first line starts, in bytes
    line_step,  # IN   from line to line
    size,  # IN   elements per line
    k,
    rule,
    best,  # OUT  (k or more, lines) keys, scratch, see `list_depth`
    positions,  # OUT  (lines, k) int64, the result, best first
):
    """Select from neighbouring lines, as many as the network takes; not of eight bytes (inside kernels only)."""
    raise NotImplementedError


@chosen(network_lines)
def _network_lines(ref, offset, line_step, size, k, rule, best, positions):
    if ref.dtype.bitwidth == 64:  # it is compiled, but never called: see `Tuning.alone_from`
        return lambda ref, offset, line_step, size, k, rule, best, positions: None

    def select(ref, offset, line_step, size, k, rule, best, positions):
        best[:] = lowest_key(best)
        for at in range(0, size, NETWORK_LINES):
            prefetch_ahead(ref, offset, line_step, NETWORK_LINES, size, at)
            first = min(at, size - NETWORK_LINES)  # the last block lies partly on the one before it
            insert_lines(ref, offset, line_step, first, at - first, best, 0, best.shape[0], rule)
        for line in range(NETWORK_LINES):
            for j in range(k):
                positions[line, j] = listed_place(ref, best[j, line])

    return select


def cut_lines(
    ref,  # IN   the input
    offset,  # IN   where the first line starts, in bytes
    line_step,  # IN   from line to line
    size,  # IN   elements per line, as many as a block has at least
    k,
    rule,
    best,  # OUT  (k + 1 or more, lines) intW, scratch, see `insert_cut`
    stage,  # OUT  (64,) intW, scratch
    positions,  # OUT  (lines, k) int64, the result, best first
    near,  # IN   try the keys that are near the highest one
):
    """Select from neighbouring lines, as many as `cut_block` tells, if elements have cut keys (inside kernels only).

    Return what it took: they went through the network `ONCE`, and most of them were put in `ORDER`, or `TWICE`; or
    `NONE`: the keys near the highest one are too few.
    """
    raise NotImplementedError


@chosen(cut_lines)
def _cut_lines(ref, offset, line_step, size, k, rule, best, stage, positions, near):
    width = ref.dtype.bitwidth
    if width not in CUT_BLOCKS:
        return lambda ref, offset, line_step, size, k, rule, best, stage, positions, near: ONCE

    def select(ref, offset, line_step, size, k, rule, best, stage, positions, near):
        lines, _ = cut_block(ref)
        tops, certain = stage[:lines], stage[lines : 2 * lines]
        place_bits = 1
        while size > 1 << place_bits:
            place_bits += 1
        last = (1 << place_bits) - 1
        tops[:] = lowest_key(tops)
        if near:
            top = lowest_key(tops)
            for line in range(lines):
                top = max(top, highest_key(ref, offset + line * line_step, size, rule))
            tops[:] = top
        fill_cut(ref, offset, line_step, size, rule, best, place_bits, near, tops)
        for line in range(lines):
            for j in range(k):
                positions[line, j] = last - (best[j, line] & last)
        if near:
            lowest = -(1 << (width - 1 - place_bits))
            for line in range(lines):
                if best[k - 1, line] >> place_bits == lowest:  # the key of others, too
                    return NONE
            return ONCE
        tied, tied_above = tied_lists(best, k, place_bits)
        if tied == np.uint64(0) or have_no_last_bits(ref, offset, line_step, lines, size, last):
            return ONCE
        effort = ORDER if bit_count(tied) > lines // 2 else ONCE
        certain[:] = k
        while tied != np.uint64(0):
            line = lowest_bit(tied)
            tied &= tied - np.uint64(1)
            row = array_at(ref, offset + line * line_step, (size,))
            count, bucket = k, best[k - 1, line] >> place_bits
            left_out = k < size and bucket == best[k, line] >> place_bits
            differ = left_out or (k > 1 and bucket == best[k - 2, line] >> place_bits)
            differ = differ and may_differ(row, size, positions[line, k - 1], last, rule)
            if differ and left_out:  # one of these may be better
                while count > 0 and best[count - 1, line] >> place_bits == bucket:
                    count -= 1
                highest = (bucket << place_bits) | last
                tops[line] = highest + (highest < ~lowest_key(tops))
                certain[line] = count
                effort = TWICE
            if (differ and not left_out) or (tied_above >> np.uint64(line)) & np.uint64(1) != np.uint64(0):
                put_in_order(row, size, count, rule, best, line, place_bits, positions)
        if effort == TWICE:
            # What is better than the keys that begin as the k-th does is known; among these, whole ones now tell. (One
            # call in a loop, for both passes, takes 10 to 20 % longer for all lines.)
            fill_cut(ref, offset, line_step, size, rule, best, place_bits, True, tops)
            for line in range(lines):
                for j in range(certain[line], k):
                    positions[line, j] = last - (best[j, line] & last)
        return effort

    return select


@helper
def fill_cut(ref, offset, line_step, size, rule, best, place_bits, near, tops):
    """Put neighbouring lines into lists, see `insert_cut`."""
    lines, together = cut_block(ref)
    depth = best.shape[0] - 1
    best[:] = lowest_key(best)
    for at in range(0, size, together):
        prefetch_ahead(ref, offset, line_step, lines, size, at)
        first = min(at, size - together)
        insert_cut(ref, offset, line_step, first, at - first, best, depth, place_bits, near, tops, rule)


@helper
def highest_key(ref, offset, size, rule):
    """Return the highest key of a line."""
    row = array_at(ref, offset, (size,))
    top = key_of(row[0], rule)
    for i in range(size):
        top = max(top, key_of(row[np.uint64(i)], rule))
    return top


@helper
def have_no_last_bits(ref, offset, line_step, lines, size, last):
    """Tell whether the last bits of all elements are zero, as those of floats that are whole numbers are."""
    bits = array_at(ref, offset, (size,))[0]
    for line in range(lines):
        row = array_at(ref, offset + line * line_step, (size,))
        for i in range(size):
            bits = row.dtype.type(bits | row[np.uint64(i)])
    return bits & last == 0


@helper
def may_differ(row, size, place, last, rule):
    """Tell whether an element of a line may differ from the one at a place in the last bits of its key alone.

    Of a line of 64 elements or more, it tells whether one does.
    """
    differ = size < LANES
    key = key_of(row[place], rule)
    for block in range(0, size if not differ else 0, LANES):
        differ |= differs_at_the_end(row, min(block, size - LANES), key, row.dtype.type(last), rule)
    return differ


@helper
def put_in_order(row, size, count, rule, best, line, place_bits, positions):
    """Put the first elements that were selected from a line in order, where their cut keys do not tell it."""
    last = (1 << place_bits) - 1
    start, bucket = 0, best[0, line] >> place_bits  # of those whose keys begin alike, the first one
    for end in range(1, count + 1):
        before = bucket
        if end < count:
            bucket = best[np.uint64(end), line] >> place_bits
        if end == count or bucket != before:
            if end > start + 1 and may_differ(row, size, positions[line, start], last, rule):
                put_run_in_order(row, start, end, rule, positions[line])
            start = end


@helper
def put_run_in_order(row, start, end, rule, positions):
    """Put ``positions[start:end]`` in order."""
    for j in range(start + 1, end):
        place, to = positions[j], j
        key = key_of(row[place], rule)
        while to > start and key_of(row[positions[to - 1]], rule) < key:
            positions[to] = positions[to - 1]
            to -= 1
        positions[to] = place


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
