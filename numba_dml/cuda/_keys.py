"""The keys of elements, on the device: integers that compare like the elements (see `numba_dml._order`).

Keys of up to 32 bits are int32: half the steps and half the registers of int64.
"""

from __future__ import annotations

import numpy as np

from . import helper
from ._memory import LOAD_INDEX, load_quad, unit_access
from ._plan import number


def key_type(width: int) -> type[np.signedinteger]:
    """Return the type of the keys of elements of `width` bytes."""
    return np.int32 if width <= 4 else np.int64


def key_access(width: int, is_float: bool, flip_field: int):
    """Return how to load the key of an element; the best of 16 aligned bytes; these bytes; and how to list their keys.

    A plan has the rule's three numbers from `flip_field` on.
    """
    load = LOAD_INDEX[f"int{8 * width}"]
    load_pair, _ = unit_access(16)
    largest = (1 << (8 * width - 1)) - 1
    key = key_type(width)
    of_word = 4 // width

    @helper
    def key_of_float(bits, plan):
        magnitude = key(bits & largest)
        if magnitude > key(number(plan, flip_field + 1)):
            return key(number(plan, flip_field + 2))
        return key((-magnitude if bits < 0 else magnitude) ^ number(plan, flip_field))

    @helper
    def key_of_integer(bits, plan):
        return key(bits ^ number(plan, flip_field))

    key_of = key_of_float if is_float else key_of_integer

    @helper
    def key_at(address, plan):
        return key_of(key(load(address)), plan)

    @helper
    def key_in_word(word, shift, plan):
        bits = word >> shift & (2 * largest + 1)
        return key_of(key((bits ^ (largest + 1)) - (largest + 1)), plan)  # the sign comes from the element's upper bit

    @helper
    def best_of_word(word, plan):
        best = key_in_word(word, 0, plan)
        for shift in range(8 * width, 32, 8 * width):
            best = max(best, key_in_word(word, shift, plan))
        return best

    @helper
    def best_of_quad(address, plan):
        if width == 8:
            first, second = load_pair(address)
            return max(key_of(first, plan), key_of(second, plan))
        a, b, c, d = load_quad(address)
        return max(max(best_of_word(a, plan), best_of_word(b, plan)), max(best_of_word(c, plan), best_of_word(d, plan)))

    @helper
    def keys_of_word(keys, at, word, plan):
        for j in range(of_word):
            keys[of_word * at + j] = key_in_word(word, 8 * width * j, plan)

    @helper
    def put_keys(keys, quad, plan):
        if width == 8:
            keys[0], keys[1] = key_of(quad[0], plan), key_of(quad[1], plan)
        else:
            for j in range(4):
                keys_of_word(keys, j, quad[j], plan)

    return key_at, best_of_quad, load_pair if width == 8 else load_quad, put_keys
