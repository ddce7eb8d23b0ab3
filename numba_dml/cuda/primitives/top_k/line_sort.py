"""How a block sorts elements of its line, of which it has words of 32 bits and places in shared memory.

Words have the upper bits of keys, as far as keys differ at all. Then elements that agree in these are compared; and if
they are many, all are sorted by the lower bits, and by the upper ones again. Equal keys stay in their order.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import cuda
from ..bits import DIGIT_ABOVE, bits_between, negative_word
from .block_sort import run_sorter, sorter
from .keys import key_access, key_type

#: By bytes of a key: how many bits are sorted by at first. Of 4096 normal float32 some 30 pairs agree in these.
FIRST_BITS = {4: 24, 8: 32}


class Sorted(NamedTuple):
    """What a block sorts, and the shared memory for it."""

    words: object  #: (count,) int32: how far each key is below the highest one, negated, by some of its bits
    places: object  #: (count,) int32: where the elements are in the line
    counts: object  #: see `block_sort.count_bytes`
    sums: object  #: an int32 for each warp
    count: object  #: how many elements are listed
    high: object  #: the highest key
    bits: object  #: of the difference between it and the lowest key
    left_out: object  #: the lower bits, which words do not have at first


@cache
def line_sorter(width: int, infinity: int):
    """Return how a block lists elements, and sorts them.

    ``lists_of(words, count, low, high, sums)`` divides memory, ``put_word(at, key, position, lists)`` lists an element,
    and ``sort(lists, line, plan)`` brings their places in order.
    """
    key_at, key_bytes = key_access(width, infinity).key_at, key_type(width)(0).itemsize
    distance, first_bits, (sort_words, _) = DIGIT_ABOVE[8 * key_bytes], FIRST_BITS[key_bytes], sorter(4)

    @helper
    def key_of(place, line, plan):
        return key_at(line.source + np.int64(place) * line.stride, plan)

    order_runs = run_sorter(
        helper(lambda place, other, known: key_of(place, known[0], known[1]) > key_of(other, known[0], known[1]))
    )

    @helper
    def lists_of(words, count, low, high, sums):
        bits = np.int64(bits_between(np.int64(low), np.int64(high)))
        places = words[count:]
        left_out = max(np.int64(bits - first_bits), np.int64(0))
        return Sorted(words, places, places[count:], sums, count, high, bits, left_out)

    @helper
    def put_word(at, its_key, position, lists):
        lists.words[np.uint32(at)] = negative_word(distance(lists.high, its_key, lists.left_out))
        lists.places[np.uint32(at)] = position

    @helper
    def is_disordered(lists, line, plan):
        """Tell whether there are neighbours with equal words of which the second should be the first."""
        words, places = lists.words, lists.places
        wrong = 0
        i = np.int32(cuda.threadIdx.x + 1)
        while i < lists.count:
            here, before = np.uint32(i), np.uint32(i - 1)
            if words[here] == words[before] and key_of(places[here], line, plan) > key_of(places[before], line, plan):
                wrong = 1
            i = np.int32(i + cuda.blockDim.x)
        return cuda.syncthreads_or(wrong)

    @helper
    def list_words(lists, line, plan, begin):
        """List words anew, with the bits of keys from one on."""
        i = np.int32(cuda.threadIdx.x)
        while i < lists.count:
            its_key = key_of(lists.places[np.uint32(i)], line, plan)
            lists.words[np.uint32(i)] = negative_word(distance(lists.high, its_key, begin))
            i = np.int32(i + cuda.blockDim.x)
        cuda.syncthreads()

    @helper
    def sort(lists, line, plan):
        words, places, count = lists.words, lists.places, lists.count
        turn = 0
        while turn < 3:  # by the upper bits; and if that does not do, by the lower ones, and by the upper ones again
            begin, end = (np.int64(0), lists.left_out) if turn == 1 else (lists.left_out, lists.bits)
            if turn > 0:
                list_words(lists, line, plan, begin)
            sort_words(words, places, lists.counts, lists.sums, count, np.int32(0), end - begin, False)
            turn += 1
            if turn == 1 and not (
                lists.left_out > 0
                and order_runs(words, places, count, (line, plan))
                and is_disordered(lists, line, plan)
            ):
                turn = 3

    return lists_of, put_word, sort
