"""The best key of a seat: a few elements of a line that are no neighbours in memory.

All elements are loaded before one is looked at.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import cuda
from ..access import LOAD_INDEX, load_quad, unit_access
from .keys import key_access, key_type
from .plan import FLIP

EVEN_BYTES = 0x00FF00FF


@cache
def _bests_by_words(width: int, is_float: bool, seat: int):
    """Return ``put_bests_by_words(keys, words, plan)``: of rows of four words, as the device's own maximum has it."""
    access = key_access(width, is_float, FLIP)
    put_keys = access.put_keys
    mask_of, _, better, _ = access.words or (None,) * 4

    @helper
    def put_bests_by_words(keys, words, plan):
        mask = mask_of(plan)
        if width == 1:  # bytes are compared with zeros before them
            for i in range(4):
                word = np.int32(words[i] ^ mask)
                even, odd = np.int32(word & EVEN_BYTES), np.int32(word >> 8 & EVEN_BYTES)
                for row in range(1, seat):
                    word = np.int32(words[4 * row + i] ^ mask)
                    even = better(even, np.int32(word & EVEN_BYTES))
                    odd = better(odd, np.int32(word >> 8 & EVEN_BYTES))
                upper = ((np.int64(odd) << 8) ^ (1 << 31)) - (1 << 31)  # as an int32
                words[i] = np.int32(np.int32(even | np.int32(upper)) ^ mask)
        else:
            for i in range(4):
                best = np.int32(words[i] ^ mask)
                for row in range(1, seat):
                    best = better(best, np.int32(words[4 * row + i] ^ mask))
                words[i] = np.int32(best ^ mask)
        put_keys(keys, (words[0], words[1], words[2], words[3]), plan)

    return put_bests_by_words


@cache
def seats_of_lines(width: int, is_float: bool, seat: int):
    """Return `seat_access` for 16 bytes, which have elements of several lines."""
    access = key_access(width, is_float, FLIP)
    put_keys, load_words, comparable, key_of = access.put_keys, access.load_quad, access.comparable, access.key_of
    put_bests_by_words, in_words = _bests_by_words(width, is_float, seat), access.words is not None
    key, of_quad = key_type(width), 16 // width
    words_at_once, pairs_at_once = 4 * seat, 2 * seat

    @helper
    def put_bests_of_pairs(keys, address, stride, plan):
        pairs = cuda.local.array(pairs_at_once, np.int64)
        for row in range(seat):
            pairs[2 * row], pairs[2 * row + 1] = load_words(address + row * stride)
        for i in range(2):
            keys[i] = key_of(pairs[i], plan)
            for row in range(1, seat):
                keys[i] = max(keys[i], key_of(pairs[2 * row + i], plan))

    @helper
    def put_bests_of_lines(keys, address, stride, plan):
        if width == 8:
            put_bests_of_pairs(keys, address, stride, plan)
            return
        words = cuda.local.array(words_at_once, np.int32)
        for row in range(seat):
            words[4 * row], words[4 * row + 1], words[4 * row + 2], words[4 * row + 3] = load_quad(
                address + row * stride
            )
        if in_words and comparable(plan):
            put_bests_by_words(keys, words, plan)
        else:
            some = cuda.local.array(of_quad, key)
            put_keys(keys, (words[0], words[1], words[2], words[3]), plan)
            for row in range(1, seat):
                i = 4 * row
                put_keys(some, (words[i], words[i + 1], words[i + 2], words[i + 3]), plan)
                for j in range(of_quad):
                    keys[j] = max(keys[j], some[j])

    @helper
    def put_keys_of_lines(keys, address, plan):
        put_keys(keys, load_words(address), plan)

    return put_bests_of_lines, put_keys_of_lines


@cache
def seats_of_line(width: int, is_float: bool, seat: int):
    """Return `seat_access` for elements of one line."""
    key_of, load, key = key_access(width, is_float, FLIP).key_of, LOAD_INDEX[f"int{8 * width}"], key_type(width)

    @helper
    def put_best_of_line(keys, address, stride, plan):
        bits = cuda.local.array(seat, key)
        for row in range(seat):
            bits[row] = load(address + row * stride)
        keys[0] = key_of(bits[0], plan)
        for row in range(1, seat):
            keys[0] = max(keys[0], key_of(bits[row], plan))

    @helper
    def put_key_of_line(keys, address, plan):
        keys[0] = key_of(key(load(address)), plan)

    return put_best_of_line, put_key_of_line


def seat_access(width: int, is_float: bool, wide: bool, seat: int):
    """Return ``put_bests(keys, address, stride, plan)`` and ``put_row(keys, address, plan)``.

    They list the best key of a seat, and the key of one; of several lines' if it is wide.
    """
    return (seats_of_lines if wide else seats_of_line)(width, is_float, seat)


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
