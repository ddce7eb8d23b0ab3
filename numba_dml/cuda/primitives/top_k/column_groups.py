"""The best keys of a seat: of a few elements of each of one or several lines, whose elements are no neighbours."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import cuda
from ..access import LOAD_INDEX, unit_access
from .keys import key_access, key_type, put_words
from .sizes import SIZES

#: Elements of a line in a seat, as a power of two.
SEAT_BITS = SIZES.seat_bits
SEAT = 1 << SEAT_BITS


def lines_together(width: int, wide: bool) -> int:
    """Return of how many lines a thread has elements: of those that lie beside each other in 16 bytes if it is wide."""
    return 16 // width if wide else 1


@cache
def seat_reader(width: int, infinity: int, wide: bool):
    """Return ``put_bests(bests, address, stride, count, plan)``: list the best keys of a seat of `count` rows or more.

    All elements are loaded before one is looked at.
    """
    access = key_access(width, infinity)
    keys_of, key_in, load_quad = access.keys_of, access.key_in, access.load_quad
    load, word = LOAD_INDEX[f"int{8 * width}"], key_type(width)
    of_word = max(4 // width, 1) if wide else 1
    of_row = lines_together(width, wide) // of_word
    all_words = SEAT * of_row

    @helper
    def put_bests(bests, address, stride, count, plan):
        words = cuda.local.array(all_words, word)
        for row in range(SEAT):  # a row twice does no harm
            at = address + min(np.int64(row), count - 1) * stride
            if wide:
                put_words(words[of_row * row :], load_quad(at))
            else:
                words[row] = load(at)
        for i in range(of_row):
            keys = keys_of(words[i], plan)
            for j in range(of_word):
                bests[of_word * i + j] = key_in(keys, j)
        for row in range(1, SEAT):
            for i in range(of_row):
                keys = keys_of(words[of_row * row + i], plan)
                for j in range(of_word):
                    bests[of_word * i + j] = max(bests[of_word * i + j], key_in(keys, j))

    return put_bests


@cache
def key_stores(width: int, wide: bool):
    """Return ``store_keys(address, keys)``: those of as many lines as a thread has, side by side."""
    of_word = 8 // width
    low_bits = (1 << 8 * width) - 1 if width < 8 else -1
    _, store_key = unit_access(width)
    _, store_pair = unit_access(16)

    @helper
    def join(keys, first):
        """Return the keys of a word of 64 bits."""
        word = np.int64(0)
        for j in range(of_word):
            word |= (np.int64(keys[first + j]) & low_bits) << (8 * width * j)
        return word

    @helper
    def store_keys(address, keys):
        if wide:
            store_pair(address, join(keys, 0), join(keys, of_word))
        else:
            store_key(address, keys[0], 0)

    return store_keys
