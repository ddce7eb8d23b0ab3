"""The survey of a line by the lanes of a warp: the best key of each chunk, in registers."""

from __future__ import annotations

from functools import cache

import numpy as np

from ....driver.compile import helper
from ....driver.numba import LANES
from ...access import LOAD_INDEX, load_quad, unit_access
from ..keys import key_access, key_type
from ..lane_lists import tuple_of
from ..plan import FLIP
from ..short_rows import key_steps

#: A unit as four words, or as two of 64 bits.
LOAD_WORDS = load_quad, unit_access(16)[0]


@cache
def key_lists(width: int, infinity: int):
    """Return the key of an element, how to list those of 16 bytes, and the highest of the keys in a word.

    Keys are those of `key_steps`, without branches: of 16 and of 8 bits side by side in a word.
    """
    keys_of, _ = key_steps(width, infinity)
    load, count, key_bits = LOAD_INDEX[f"int{8 * width}"], max(4 // width, 1), 8 * width
    key, words = key_type(width), min(16 // width, 4)

    @helper
    def key_in(word, j):
        if width >= 4:
            return key(word)
        part = (np.int64(word) >> (key_bits * j)) & ((1 << key_bits) - 1)
        return key((part ^ (1 << (key_bits - 1))) - (1 << (key_bits - 1)))

    @helper
    def key_at(address, plan):
        return key_in(keys_of(load(address), plan), 0)

    @helper
    def put_keys(keys, quad, plan):
        for i in range(words):
            word = keys_of(quad[i], plan)
            for j in range(count):
                keys[count * i + j] = key_in(word, j)

    @helper
    def highest_in(word):
        best = key_in(word, 0)
        for j in range(1, count):
            best = max(best, key_in(word, j))
        return best

    @helper
    def highest_of_quad(quad, plan):
        best = highest_in(keys_of(quad[0], plan))
        for i in range(1, words):
            best = max(best, highest_in(keys_of(quad[i], plan)))
        return best

    return key_at, put_keys, keys_of, highest_in, highest_of_quad


@cache
def surveyor(width: int, infinity: int, by_words: bool, units: int, chunks: int):
    """Return ``survey(source, lane, whole, plan)``: the best key of each chunk of a lane.

    `whole`: the whole units from `source` on. A chunk without any has the lowest key. `by_words`: the device's
    own maximum follows the rule.
    """
    load_words, words = LOAD_WORDS[width == 8], key_access(width, infinity != 0, FLIP).words
    _, _, keys_of, highest_in, highest_of_quad = key_lists(width, infinity)
    key = key_type(width)
    lowest = int(np.iinfo(key).min)

    if by_words:
        mask_of, best_of_unit, better, key_of_best = words

        @helper
        def key_of(best, mask, plan):
            return key_of_best(best, mask, plan) if width == 1 else highest_in(keys_of(np.int32(best ^ mask), plan))

    else:

        @helper
        def mask_of(plan):
            return plan

        @helper
        def best_of_unit(quad, plan):
            return highest_of_quad(quad, plan)

        @helper
        def better(a, b):
            return max(a, b)

        @helper
        def key_of(best, mask, plan):
            return best

    def bests_of(chunk):
        start = chunk * units * LANES

        @helper
        def best_of_chunk(source, lane, whole, plan, mask):
            first = np.int32(lane + start)
            begin = first if first < whole else np.int32(0)
            best = best_of_unit(load_words(source + 16 * np.int64(begin)), mask)
            for j in range(1, units):
                unit = np.int32(first + LANES * j)
                address = source + 16 * np.int64(unit if unit < whole else begin)  # a unit twice does no harm
                best = better(best, best_of_unit(load_words(address), mask))
            its_key = key_of(best, mask, plan)
            return its_key if first < whole else key(lowest)

        return best_of_chunk

    bests_of_chunks = tuple_of([bests_of(chunk) for chunk in range(chunks)])

    @helper
    def survey(source, lane, whole, plan):
        return bests_of_chunks(source, lane, whole, plan, mask_of(plan))

    return survey


@cache
def counter(chunks: int):
    """Return ``count(keys, bar)``: how many keys of a tuple reach a bar."""
    last = chunks - 1
    if last == 0:

        @helper
        def is_reached(keys, bar):
            return np.int32(1 if keys[0] >= bar else 0)

        return is_reached
    of_others = counter(last)

    @helper
    def count(keys, bar):
        return np.int32(of_others(keys, bar) + (1 if keys[last] >= bar else 0))

    return count
