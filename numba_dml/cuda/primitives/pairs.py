"""Pairs of a key and a position in global memory."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.numba import SIMULATED
from .access import LOAD_INDEX, load_two_long_words, load_two_words, store_two_words, unit_access
from .bits import DIGIT_ABOVE

#: Bits of a digit, and blocks that count the digits of pairs: what 132 multiprocessors hold.
DIGIT, COUNTERS = ((8, 4 * 132), (4, 2))[SIMULATED]
DIGITS = 1 << DIGIT
_, store_long_pair = unit_access(16)


def passes_of(bits: int) -> int:
    """Return how many digits keys of some bits have: a sort has a pass for each."""
    return -(-bits // DIGIT)


class PairAccess(NamedTuple):
    """How kernels get pairs."""

    word: type  #: of a key, and of a position
    bytes: int  #: of both together
    load: object  #: ``load(address)``
    store: object  #: ``store(address, key, position)``
    digit_of: object  #: ``digit_of(key, shift)``: the digit that begins at a bit


@cache
def pair_access(is_long: bool) -> PairAccess:
    """Return how to get pairs of long words, or of short ones."""
    shifted = DIGIT_ABOVE[64 if is_long else 32]

    @helper
    def digit_of(key, shift):
        return np.int32(shifted(key, 0, shift) & (DIGITS - 1))

    if is_long:
        return PairAccess(np.int64, 16, load_two_long_words, store_long_pair, digit_of)
    return PairAccess(np.int32, 8, load_two_words, store_two_words, digit_of)


@cache
def pair_fields(is_long: bool):
    """Return how to load the key, and the position, of a pair that no thread writes."""
    load = LOAD_INDEX["int64" if is_long else "uint32"]
    width = pair_access(is_long).bytes // 2

    @helper
    def load_key(pairs, i):
        return load(pairs + 2 * width * i)

    @helper
    def load_position(pairs, i):
        return load(pairs + 2 * width * i + width)

    return load_key, load_position
