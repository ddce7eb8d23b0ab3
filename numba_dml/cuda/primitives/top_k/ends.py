"""The 16 bytes at the ends of a line, which belong to it only in part."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from .keys import key_access, key_type
from .plan import FLIP


@cache
def end_access(width: int, is_float: bool):
    """Return how to find the best key of 16 bytes that lie in a line only in part, or not at all."""
    key_at = key_access(width, is_float, FLIP).key_at
    key = key_type(width)
    lowest = np.iinfo(key).min
    of_quad = 16 // width

    @helper
    def best_inside(line, plan, first, size):
        best = key(lowest)
        if -of_quad < first < size:
            for i in range(first, first + of_quad):  # an element twice does no harm
                best = max(best, key_at(line + max(np.int64(0), min(i, size - 1)) * width, plan))
        return best

    return best_inside
