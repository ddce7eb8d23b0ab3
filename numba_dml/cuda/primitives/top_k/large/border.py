"""The border of a line: the range of keys between what belongs to the result and what does not."""

from __future__ import annotations

from ..sizes import SIZES

#: Bits of a digit of the keys, by which ranges are cut: 8 KiB of counts.
DIGIT = SIZES.large_digit_bits
DIGITS = 1 << DIGIT

# What is known of a line's border, int64 words, zeros at first.
(
    LOW,  # the lowest key of the range
    BITS,  # of the range; -1: it is narrow enough
    ABOVE,  # elements beyond the range
    TIES,  # 1: the range is one key, and only its first elements belong to the result
    FOUND,  # elements to list
    RANK,  # of the border's digit in the range before, the highest digit's is 0
    HIGH,  # no key is above it
    ARRIVED,  # blocks that have been here
    BORDER,
) = range(9)
