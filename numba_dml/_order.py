"""The order of elements: which numbers make their bits into keys that compare like integers.

The bits of an element are read as a signed integer b of its width. Integers: ``b ^ flip``. Floats: the magnitude,
negated below zero, ``^ flip``; what has a magnitude above infinity's is NaN, and has one key of its own.
"""

from __future__ import annotations

from ._enums import TensorDataType as D
from ._tensor import element_size

#: The bits of infinity, by float type.
_INFINITY = {D.FLOAT16: 0x7C00, D.BFLOAT16: 0x7F80, D.FLOAT32: 0x7F800000, D.FLOAT64: 0x7FF0000000000000}
_SIGNED = {D.INT8, D.INT16, D.INT32, D.INT64}


def is_float(data_type: D) -> bool:
    """Tell whether a type has NaNs and two zeros."""
    return data_type in _INFINITY


def is_signed(data_type: D) -> bool:
    """Tell whether a type is one of signed integers."""
    return data_type in _SIGNED


def nan_is_first(nan: str, largest: bool) -> bool:
    """Tell whether a NaN is better than any number, by the rule of a name and which end is wanted."""
    return nan == "first" or (nan == "largest" and largest)


def rule_numbers(data_type: D, largest: bool, nan_first: bool) -> tuple[int, int, int]:
    """Return ``(flip, infinity, nan_key)`` of a type: the better the element, the higher its key.

    A NaN is never chosen while a number is left, or it is before every number.
    """
    lowest = -(1 << (8 * element_size(data_type) - 1))
    flip = 0 if largest else -1
    if not is_float(data_type) and not is_signed(data_type):
        flip ^= lowest
    nan_key = -lowest - 1 if nan_first else lowest
    return flip, _INFINITY.get(data_type, 0), nan_key
