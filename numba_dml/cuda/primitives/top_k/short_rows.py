"""Short lines in shared memory, a row for each thread, as keys: how much of a line, in which room. See `staging`."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ..plan import number
from .float_keys import FLOAT_KEYS, FLOAT_ONES
from .keys import key_type
from .plan import FLIP
from .sizes import SIZES

#: How lines come into shared memory: by 16 bytes that are aligned in memory, and in lines too or not; by elements; or
#: each by its own thread, next to others.
WIDE, SHIFTED, NARROW, BESIDE = range(4)
#: What a thread has of its line at once, in bytes: up to k = 8, and above; and lines from which wide keys have the
#: second for every k.
SEGMENT_BYTES = SIZES.segment_bytes
AT_ONCE_LINES = SIZES.segment_lines
#: Bytes of a segment from which on it is copied before keys are made, and not on its way, if its lines are aligned.
LEAST_COPIED = SIZES.least_copied
#: Copies of 16 bytes that a thread begins together, and their power of two.
COPIES_AT_ONCE, COPY_BITS = 1 << SIZES.copy_bits, SIZES.copy_bits
#: Loads of 16 bytes that a thread does together, and for how many of these it collects the elements of its own line.
QUADS_AT_ONCE, OWN_QUADS = SIZES.quads_at_once, SIZES.own_quads
#: Loads of single elements that a thread does together.
ELEMENTS_AT_ONCE = SIZES.elements_at_once
#: Bits of the reciprocal that divides the number of an element by up to 2**10 columns: it is less than 2**15.
OF_COLUMNS = 26
#: Elements of a group, of more than two bytes each, and groups of a segment, at most.
GROUP, MOST_GROUPS = SIZES.group, SIZES.most_groups


def group_of(width: int, most: int) -> int:
    """Return how many elements go together: into the network, of keys of up to 16 bits; into a group, of others."""
    return max(16 // width, most) if width <= 2 else GROUP


def segment_of(width: int, most: int, size: int, lines: int) -> int:
    """Return how many elements of a line a thread has at once: all, or whole groups."""
    bytes_ = SEGMENT_BYTES[most > 8 or (width > 2 and lines > AT_ONCE_LINES)]
    return min(max(bytes_ // width, group_of(width, most), most), size)


def list_bytes(most: int, width: int) -> int:
    """Return the bytes of a list of the best, which is written by 16 bytes."""
    return max(most * width, 16)


def row_bytes(width: int, most: int, segment: int, staging: int) -> int:
    """Return the bytes of a thread's row in shared memory.

    There must be room for its part of the result; beside the keys for what lies before and behind a line in aligned
    units, 16 bytes; and if keys are wide for a group that is none, and the table of groups, which come when the units
    have been made keys. The lanes' rows begin in different banks: they are an odd multiple of 16 bytes.
    """
    group = group_of(width, most)
    keys = -(-segment // group) * group * width
    if width > 2:
        bytes_ = max(keys + group * width + list_bytes(most, 4), list_bytes(most, width) + list_bytes(most, 4))
    else:
        bytes_ = max(keys + 16 * (staging == SHIFTED), list_bytes(most, 4))
    return (-(-bytes_ // 16) | 1) * 16


@cache
def key_steps(width: int, infinity: int):
    """Return how to make keys of a word of elements, or of an element of 8 bytes; and an element's bits of its key.

    The latter also tells if these are the bits: zeros have one key, and so have NaNs. `infinity`: its bits, if the
    elements are floats.
    """
    key = key_type(width)
    lowest = np.iinfo(key).min
    sign = 1 << (8 * width - 1)
    words = sum(1 << shift for shift in range(0, 32, 8 * width))
    float_keys, one = FLOAT_KEYS.get(infinity), FLOAT_ONES.get(infinity, 0)
    signs = sign * words

    @helper
    def of_float(word, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)  # NaN comes last
        return float_keys(word, ((number(plan, FLIP) ^ turned) & signs) ^ one, turned)

    @helper
    def of_wide_float(bits, plan):
        flip, limit, of_nan = number(plan, FLIP), number(plan, FLIP + 1), number(plan, FLIP + 2)  # no load in a branch
        magnitude = np.int64(bits & (sign - 1))
        its_key = np.int64((-magnitude if bits < 0 else magnitude) ^ flip)
        return of_nan if magnitude > limit else its_key

    @helper
    def of_integers(word, plan):
        flip = number(plan, FLIP)
        if width < 4:
            flip = ((flip & (2 * sign - 1)) * words ^ (1 << 31)) - (1 << 31)
        return key(word ^ flip)

    @helper
    def float_of(key, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)
        y = np.int64(key) ^ turned
        bits = y ^ (sign - 1) if y < 0 else y
        return bits ^ ((number(plan, FLIP) ^ turned) & -sign), y != 0 and y != sign - 1

    @helper
    def wide_float_of(key, plan):
        y = key ^ number(plan, FLIP)
        return (-y ^ lowest if y < 0 else y), y != 0 and key != number(plan, FLIP + 2)

    @helper
    def integer_of(key, plan):
        return np.int64(key) ^ number(plan, FLIP), True

    if infinity == 0:
        return of_integers, integer_of
    return (of_wide_float, wide_float_of) if width == 8 else (of_float, float_of)
