"""Results: how selected positions and elements are written to the outputs.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from ...._jit.compile import helper
from ...._jit.copies import prefetch
from ...._jit.memory import itemsize, load, store
from ..lines import write_index
from .compaction import RANKED, SURPLUS, compact, sort_all
from .plan import ANY_ORDER, INDEX_SIZE, OUT_STRIDE, SIZE, STRIDE, K, line_bases

#: Elements are written in the order of their keys, and lie anywhere in the line: if it has FETCHED_BYTES or more, they
#: are prefetched FETCHED_AHEAD elements ahead.
FETCHED_AHEAD, FETCHED_BYTES = 32, 1 << 18


@helper
def write_element(x, source, stride, values, indices, index_size, at, position):
    """Write a position in a line, and the element there, bit by bit."""
    write_index(indices, index_size, at, position)
    store(values, at * itemsize(values), load(x, source + position * stride))


@helper
def write_line(plan, x, source, values, indices, to, positions):
    """Write the selected positions of a line, and the elements there."""
    stride, step, index_size, k = plan[STRIDE], plan[OUT_STRIDE], plan[INDEX_SIZE], plan[K]
    is_far = plan[SIZE] * abs(stride) > FETCHED_BYTES
    for j in range(k):
        if is_far:
            prefetch(x, source + positions[min(j + FETCHED_AHEAD, k - 1)] * stride)
        write_element(x, source, stride, values, indices, index_size, to + j * step, positions[j])


@helper
def finish_line(plan, x, line, values, indices, keys, positions, count, scratch, scratch_positions):
    """Sort the k best of the buffer of a line, unless they are many and may have any order, and write them."""
    k = plan[K]
    is_sorted = plan[ANY_ORDER] == 0 or k <= RANKED
    surplus = k // 8 if is_sorted else 0
    if count > k + (max(SURPLUS, surplus) if is_sorted else 0):
        count, _ = compact(keys, positions, count, k, surplus)
    in_scratch = is_sorted and sort_all(keys, positions, count, scratch, scratch_positions)
    source, to = line_bases(plan, line)
    write_line(plan, x, source, values, indices, to, scratch_positions if in_scratch else positions)
