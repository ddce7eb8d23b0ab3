"""Keys: int64 numbers whose plain ``>`` means "better"; see `numba_dml.cpu._keys`, whose rules these are."""

from __future__ import annotations

from functools import cache

from . import helper
from ._memory import LOAD_INDEX


@cache
def key_access(width: int, is_float: bool):
    """Return how to load the bits of an element of `width` bytes, sign-extended, and how to make them a key."""
    load = LOAD_INDEX[f"int{8 * width}"]
    largest = (1 << (8 * width - 1)) - 1

    @helper
    def key_of_float(bits, flip, infinity, nan_key):
        magnitude = bits & largest
        if magnitude > infinity:
            return nan_key
        return (-magnitude if bits < 0 else magnitude) ^ flip

    @helper
    def key_of_integer(bits, flip, infinity, nan_key):
        return bits ^ flip

    return load, key_of_float if is_float else key_of_integer
