"""The errors of the entries, which jitted code raises as numbers: Python makes texts of them when they arrive there.

With texts of its own the entry of top-k took 7.2 s to compile, without them 3.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._operator import SHARED_OUTPUTS

# Numbers of NumPy's: for each one of Python's, Numba compiles a helper anew that is given it.

#: Where the entries' numbers of operators are names.
FUNCTIONS = ("gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "top_k")
GATHER, GATHER_ELEMENTS, GATHER_ND, SCATTER_ELEMENTS, SCATTER_ND, TOP_K = map(np.int64, range(6))
#: The same for arrays whose sizes are checked.
ARRAYS = ("updates", "out", "out[0]", "out[1]")
UPDATES, OUT, OUT_VALUES, OUT_INDICES = map(np.int64, range(4))
#: The reasons, each with numbers of its own.
(
    BAD_AXIS,  # it, dimensions
    BAD_K,  # it, the size of the axis, the axis
    NARROW_INDICES,  # the last position
    BAD_SIZES,  # of which array; the sizes found, and expected
    OVERLAPPING,  # of which array; its strides
    SHARED,
    BAD_BATCH_DIMS,  # them, the most
    BAD_BATCH,  # the size of the indices, the dimension, the size of a
    BAD_TUPLE,  # coordinates, the most
    BAD_COUNT,  # the size of the indices, the dimension, the size of a
    BAD_INDEX,  # its bits, 1: unsigned, its flat position, the axis, its size; the sizes of the indices
) = map(np.int64, range(11))
#: Numbers before those that are sizes: operator, reason, five for it, and how many are the first sizes.
NUMBERS = 8


class Refused(Exception):  # noqa: N818 - nobody sees it
    """What jitted code raises; what arrives is the error that the function of the same name raises."""

    def __new__(cls, numbers: Any) -> Any:
        """Make the error; CPython asks for it twice, and the second time it has the first one's."""
        return numbers if isinstance(numbers, BaseException) else _error(*(int(number) for number in numbers))


def _error(operator: int, reason: int, a: int, b: int, c: int, d: int, e: int, count: int, *rest: int) -> Exception:
    function, sizes, others = FUNCTIONS[operator], rest[:count], rest[count:]
    if reason == BAD_INDEX:
        value = a % 2**64 if b else a
        where = ", ".join(str(int(i)) for i in np.unravel_index(c, sizes)) if sizes else "()"
        return IndexError(f"{function}: indices[{where}] = {value} is out of range for axis {d} of size {e}")
    if reason == SHARED:
        return ValueError(SHARED_OUTPUTS)
    if reason == BAD_AXIS:
        text = f"axis: found {a}, expected {-b} to {b - 1}"
    elif reason == BAD_K:
        text = f"k: found {a}, expected 0 to {b}, the size of axis {c}"
    elif reason == NARROW_INDICES:
        text = f"index_dtype: expected a type that holds {a}, the last position along the axis"
    elif reason == BAD_SIZES:
        text = f"{ARRAYS[a]}: found shape {sizes}, expected {others}"
    elif reason == OVERLAPPING:
        text = f"{ARRAYS[a]}: found strides {sizes}, expected elements that do not overlap"
    elif reason == BAD_BATCH_DIMS:
        text = f"batch_dims: found {a}, expected 0 to {b}"
    elif reason == BAD_BATCH:
        text = f"indices: found size {a} in batch dimension {b}, expected {c}, the size of a there"
    elif reason == BAD_TUPLE:
        text = f"indices: found {a} coordinates per tuple (the last size), expected 1 to {b}"
    else:
        text = f"indices: found size {a} in dimension {b}, expected at most {c}, the size of a there"
    return ValueError(f"{function}: {text}")
