"""Results: how selected positions and elements are written to the outputs.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import helper
from ...._jit.copies import prefetch
from ...._jit.memory import array_at, itemsize, load, seen_as, store
from ..keys import LANES, bits_of, is_ambiguous, key_of, rule_from
from .compaction import SURPLUS, compact, sort_all
from .plan import INDEX_SIZE, OUT_STRIDE, RULE, SIZE, STRIDE, K, line_bases
from .radix_select import HALF, LOW_HALF, key_of_number
from .short_lines import SHORT_K

#: Lines are only asked whether they are in order if this part of one is selected, or more: else selecting takes no
#: longer than asking.
ORDERED_PART = 16
#: Where elements are written in the order of their keys, they lie anywhere: in lines of FETCHED_BYTES or more, they are
#: prefetched FETCHED_AHEAD elements ahead.
FETCHED_AHEAD, FETCHED_BYTES = 32, 1 << 18


@helper
def write_index(indices, size, at, position):
    """Store one output index of `size` bytes."""
    if size == 8:
        store(seen_as(indices, np.int64), at * 8, position)
    elif size == 4:
        store(seen_as(indices, np.uint32), at * 4, np.uint32(position))
    elif size == 2:
        store(seen_as(indices, np.uint16), at * 2, np.uint16(position))
    else:
        store(seen_as(indices, np.uint8), at, np.uint8(position))


@helper
def write_element(x, source, stride, values, indices, index_size, at, position):
    """Write a position in a line, and the element there, bit by bit."""
    write_index(indices, index_size, at, position)
    store(values, at * itemsize(values), load(x, source + position * stride))


@helper
def write_line(plan, x, source, values, indices, to, positions):
    """Write the selected positions of a line, and the elements there."""
    stride, step, index_size = plan[STRIDE], plan[OUT_STRIDE], plan[INDEX_SIZE]
    for j in range(plan[K]):
        write_element(x, source, stride, values, indices, index_size, to + j * step, positions[j])


@helper
def order_of(x, source, stride, n, rule):
    """Tell whether a line is in order: 1, best first, -1, best last, or 0."""
    rises = falls = False
    row = array_at(x, source, (n,))
    at, end = 1, min(4, n)
    while at < n:
        if stride == itemsize(x):  # a loop that LLVM vectorises
            for i in range(at, end):
                before, key = key_of(row[np.uint64(i - 1)], rule), key_of(row[np.uint64(i)], rule)
                rises |= key > before
                falls |= key < before
        else:
            before = key_of(load(x, source + (at - 1) * stride), rule)
            for i in range(at, end):
                key = key_of(load(x, source + i * stride), rule)
                rises |= key > before
                falls |= key < before
                before = key
        if rises and falls:
            return 0
        at, end = end, min(end + LANES, n)
    return -1 if rises else 1


@helper
def write_ordered(plan, x, values, indices, line, lines):
    """Write the results of those of some lines that are in order; stop at the first that is not, return its number.

    Nothing is looked at if few elements of a line are selected. Of equal elements the earlier one comes first, in lines
    whose best come last, too.
    """
    n, k, stride, step, index_size = plan[SIZE], plan[K], plan[STRIDE], plan[OUT_STRIDE], plan[INDEX_SIZE]
    if k <= SHORT_K or k * ORDERED_PART < n:
        return 0
    rule = rule_from(x, plan, RULE)
    for number in range(lines):
        source, to = line_bases(plan, line + number)
        order = order_of(x, source, stride, n, rule)
        if order == 0:
            return number
        if order > 0:
            for j in range(k):
                write_element(x, source, stride, values, indices, index_size, to + j * step, j)
            continue
        begin, written = n - 1, 0
        key = key_of(load(x, source + begin * stride), rule)
        while written < k:
            end, of_these = begin + 1, key
            while begin >= 0 and key == of_these:
                begin -= 1
                key = key_of(load(x, source + max(begin, 0) * stride), rule)
            for i in range(min(end - begin - 1, k - written)):
                write_element(x, source, stride, values, indices, index_size, to + (written + i) * step, begin + 1 + i)
            written += end - begin - 1
    return lines


@helper
def write_words(plan, x, source, row, values, indices, to, words, rule):
    """Write the positions that sorted words of a line have (see `radix_select`), and the elements there, bit by bit.

    A key that no other bits have says what the element is. Only others are looked for in the line.
    """
    stride = plan[STRIDE]
    step = plan[OUT_STRIDE]
    index_size = plan[INDEX_SIZE]
    size = itemsize(values)
    for j in range(plan[K]):
        position = words[j] & LOW_HALF
        key = key_of_number(row, np.uint64(words[j]) >> np.uint64(HALF))
        bits = load(x, source + position * stride) if is_ambiguous(key, rule) else row.dtype.type(bits_of(key, rule))
        store(values, (to + j * step) * size, bits)
        write_index(indices, index_size, to + j * step, position)


@helper
def write_positions(plan, x, source, values, indices, to, words):
    """Write the positions that words of 8-byte elements have, and these, which lie anywhere in the line."""
    stride, step, index_size, k = plan[STRIDE], plan[OUT_STRIDE], plan[INDEX_SIZE], plan[K]
    is_far = plan[SIZE] * abs(stride) > FETCHED_BYTES
    for j in range(k):
        if is_far:
            prefetch(x, source + (words[min(j + FETCHED_AHEAD, k - 1)] & LOW_HALF) * stride)
        write_element(x, source, stride, values, indices, index_size, to + j * step, words[j] & LOW_HALF)


@helper
def finish_line(plan, x, line, values, indices, keys, positions, count, scratch, scratch_positions):
    """Sort the k best of the buffer of a line, and write them."""
    k = plan[K]
    if count > k + SURPLUS:
        count, _ = compact(keys, positions, count, k)
    in_scratch = sort_all(keys, positions, count, scratch, scratch_positions)
    source, to = line_bases(plan, line)
    write_line(plan, x, source, values, indices, to, scratch_positions if in_scratch else positions)
