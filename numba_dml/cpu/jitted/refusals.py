"""The texts of the errors of the entries, which jitted code writes byte by byte.

Numba's own texts are slow to compile: they were half of the 7.2 s of top-k's entry. These take 0.8 of 5.0.
"""

from __future__ import annotations

import numpy as np

from ..._core.operands import SHARED_OUTPUTS
from ..._jit.compile import allocating, helper
from ..._jit.emission_late import PY_UNICODE_1BYTE_KIND, _empty_string, _set_code_point
from ..._jit.memory import empty

# Numbers of NumPy's: for each one of Python's, Numba compiles a helper anew that is given it.

GATHER, GATHER_ELEMENTS, GATHER_ND, SCATTER_ELEMENTS, SCATTER_ND, TOP_K = map(np.int64, range(6))
#: Arrays whose sizes are checked.
UPDATES, OUT, OUT_VALUES, OUT_INDICES = map(np.int64, range(6, 10))
_NAMES = (
    *("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "top_k"),
    *("updates", "out", "out[0]", "out[1]"),
)
# The characters of a template that stand for three numbers, two names, sizes, other sizes, coordinates, and the first
# number as an unsigned one.
_A, _B, _C, _FUNCTION, _NAME, _SIZES, _OTHERS, _WHERE, _UNSIGNED = map(chr, range(1, 10))
_TEMPLATES = (
    f"{_FUNCTION}: axis: found {_A}, expected {_B} to {_C}",
    f"{_FUNCTION}: k: found {_A}, expected 0 to {_B}, the size of axis {_C}",
    f"{_FUNCTION}: index_dtype: expected a type that holds {_A}, the last position along the axis",
    f"{_FUNCTION}: {_NAME}: found shape {_SIZES}, expected {_OTHERS}",
    f"{_FUNCTION}: {_NAME}: found strides {_SIZES}, expected elements that do not overlap",
    SHARED_OUTPUTS,
    f"{_FUNCTION}: batch_dims: found {_A}, expected 0 to {_B}",
    f"{_FUNCTION}: indices: found size {_A} in batch dimension {_B}, expected {_C}, the size of a there",
    f"{_FUNCTION}: indices: found {_A} coordinates per tuple (the last size), expected 1 to {_B}",
    f"{_FUNCTION}: indices: found size {_A} in dimension {_B}, expected at most {_C}, the size of a there",
    f"{_FUNCTION}: indices[{_WHERE}] = {_A} is out of range for axis {_B} of size {_C}",
    f"{_FUNCTION}: indices[{_WHERE}] = {_UNSIGNED} is out of range for axis {_B} of size {_C}",
)
(
    BAD_AXIS,
    BAD_K,
    NARROW_INDICES,
    BAD_SIZES,
    OVERLAPPING,
    SHARED,
    BAD_BATCH_DIMS,
    BAD_BATCH,
    BAD_TUPLE,
    BAD_COUNT,
    BAD_INDEX,
    BAD_UNSIGNED_INDEX,
) = map(np.int64, range(len(_NAMES), len(_NAMES) + len(_TEMPLATES)))
_TEXTS = np.frombuffer("".join((*_NAMES, *_TEMPLATES)).encode(), np.uint8)
_STARTS = np.cumsum([0, *map(len, (*_NAMES, *_TEMPLATES))])
#: No template is as long, with names in it; and no number, with what stands beside it.
_ROOM, _NUMBER_ROOM = 256, 24


@helper
def put_digits(out, at, number):
    """Write an unsigned number; return where it ends."""
    ten = np.uint64(10)
    end = at + 1
    rest = number // ten
    while rest != np.uint64(0):
        rest //= ten
        end += 1
    for i in range(end - 1, at - 1, -1):
        out[i] = np.uint8(number % ten) + np.uint8(48)
        number //= ten
    return end


@helper
def put_number(out, at, number):
    """Write a signed number; return where it ends."""
    digits = np.uint64(number)
    if number < 0:
        out[at] = 45  # a minus
        at += 1
        digits = ~digits + np.uint64(1)
    return put_digits(out, at, digits)


@helper
def put_numbers(out, at, numbers, begin, end):
    """Write numbers with commas between them; return where they end."""
    for i in range(begin, end):
        if i > begin:
            out[at], out[at + 1] = 44, 32
            at += 2
        at = put_number(out, at, numbers[i])
    return at


@helper
def put_name(out, at, name):
    """Write a name; return where it ends."""
    for i in range(_STARTS[name], _STARTS[name + 1]):
        out[at] = _TEXTS[i]
        at += 1
    return at


@helper
def put_tuple(out, at, numbers, begin, end):
    """Write numbers as Python shows a tuple; return where it ends."""
    out[at] = 40
    at = put_numbers(out, at + 1, numbers, begin, end)
    if end - begin == 1:
        out[at] = 44
        at += 1
    out[at] = 41
    return at + 1


@helper
def put_text(
    out,  # OUT  (characters,) uint8
    operator,  # IN   the function
    reason,
    a,  # IN   numbers of the template
    b,
    c,
    name,  # IN   of an array
    sizes,  # IN   (count + others,) int64: sizes or coordinates, and others
    count,
):
    """Write the text for a reason; return where it ends."""
    at = np.int64(0)
    for i in range(_STARTS[reason], _STARTS[reason + 1]):
        mark = _TEXTS[i]
        if mark == 1:
            at = put_number(out, at, a)
        elif mark == 2:
            at = put_number(out, at, b)
        elif mark == 3:
            at = put_number(out, at, c)
        elif mark == 4:
            at = put_name(out, at, operator)
        elif mark == 5:
            at = put_name(out, at, name)
        elif mark == 6:
            at = put_tuple(out, at, sizes, 0, count)
        elif mark == 7:
            at = put_tuple(out, at, sizes, count, sizes.size)
        elif mark == 8:
            at = put_numbers(out, at, sizes, 0, count) if count else put_tuple(out, at, sizes, 0, 0)
        elif mark == 9:
            at = put_digits(out, at, np.uint64(a))
        else:
            out[at] = mark
            at += 1
    return at


@allocating
def refuse(operator, reason, a, b, c, name, sizes, count):
    """Raise the error for a reason; see `put_text`."""
    out = empty(_ROOM + _NUMBER_ROOM * (sizes.size + 3), np.uint8)
    end = put_text(out, operator, reason, a, b, c, name, sizes, count)
    text = _empty_string(PY_UNICODE_1BYTE_KIND, end, 1)
    for i in range(end):
        _set_code_point(text, i, np.uint32(out[i]))
    if reason >= BAD_INDEX:
        raise IndexError(text)
    raise ValueError(text)
