"""Top-k of a single short line, which jitted code hands over without a plan."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import kernel
from ..._jit.memory import address, array_at, itemsize, overlaps, seen_as, store
from ..primitives.keys import LANES, rule_from
from ..primitives.lines import write_index
from ..primitives.top_k.line_list import LISTED, list_best
from ..primitives.top_k.plan import REFUSED

#: The largest k: so long is the list of the best.
ALONE_K = LISTED
#: What the kernel has in its memory first: the size, k, the bytes of an index, and the rule; and how many words it has,
#: with room to work: for positions of 32 bits, keys, and the elements of a block.
ALONE_NUMBERS = 6
ALONE_WORDS = ALONE_NUMBERS + ALONE_K // 2 + ALONE_K + LANES


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
    list_best(row, k, rule_from(x, numbers, 3), keys, places, rest)
    for j in range(k):
        store(values, j * itemsize(x), row[places[j]])
        write_index(indices, index_size, j, places[j])
    return np.int64(0)
