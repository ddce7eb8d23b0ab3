"""Device functions: pieces of the operators for `@cuda.jit` kernels of your own.

They follow the rules of `numba_dml.top_k` and `numba_dml.gather_nd`: the best come first, equal elements by their
indices, and NaN comes last, whether the largest or the smallest are wanted; negative indices count from the end. An
element with a negative index is none: it comes last. Values can be of any type that Numba compares, and shuffles in the
case of `warp_top_k`. Blocks must have one dimension.

In numba-cuda's simulator (``NUMBA_ENABLE_CUDASIM=1``) a warp has `LANES` = 2 lanes, and a block that calls
`warp_top_k` 4 threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .driver.compile import helper
from .driver.numba import LANES, SIMULATED, cuda

__all__ = ["LANES", "block_top_k", "checked_offset", "comes_first", "thread_top_k", "warp_top_k"]

if SIMULATED:
    from .driver.simulator import meet

    def _partner(value: Any, mask: int) -> Any:
        lane, values = meet(value)
        return values[lane ^ mask]
else:

    @helper
    def _partner(value, mask):  # type: ignore[no-untyped-def]
        return cuda.shfl_xor_sync(np.uint32(0xFFFFFFFF), value, mask)


@helper
def comes_first(value, index, other_value, other_index, largest=True):  # type: ignore[no-untyped-def]
    """Tell whether an element comes before another one.

    Parameters
    ----------
    value, index
        The element; a negative index says that there is none.
    other_value, other_index
        The other one.
    largest : bool
        Whether larger values come first, or smaller ones.

    Returns
    -------
    bool
    """
    if index < 0 or other_index < 0:
        return index >= 0
    if value != value or other_value != other_value:  # NaN
        return value == value or (other_value != other_value and index < other_index)
    if value == other_value:
        return index < other_index
    return (value > other_value) == largest


@helper
def thread_top_k(values, indices, value, index, largest=True):  # type: ignore[no-untyped-def]
    """Put an element into the lists of a thread, if it is among the k best so far.

    Parameters
    ----------
    values, indices : (k,) arrays
        The best elements so far, the best first, in local memory for instance. To begin with, all indices are -1.
    value, index
        The element. An index that is already there is put in again.
    largest : bool
        Whether the largest are wanted, or the smallest.
    """
    j = len(values) - 1
    if not comes_first(value, index, values[j], indices[j], largest):
        return
    while j > 0 and comes_first(value, index, values[j - 1], indices[j - 1], largest):
        values[j] = values[j - 1]
        indices[j] = indices[j - 1]
        j -= 1
    values[j] = value
    indices[j] = index


@helper
def warp_top_k(value, index, largest=True):  # type: ignore[no-untyped-def]
    """Bring the elements of a warp in order, one of each lane; all lanes take part.

    Parameters
    ----------
    value, index
        The element of this lane. A lane without one comes with the index -1.
    largest : bool
        Whether the largest come first, or the smallest.

    Returns
    -------
    value, index
        The best element in lane 0, the second best in lane 1, and so on; so the k best are in the first k lanes.
    """
    lane = cuda.threadIdx.x % LANES
    span = 2
    while span <= LANES:
        step = span >> 1
        while step > 0:
            other, its_index = _partner(value, step), _partner(index, step)
            wants_first = (lane & step == 0) == (lane & span == 0)
            if comes_first(value, index, other, its_index, largest) != wants_first:
                value, index = other, its_index
            step >>= 1
        span <<= 1
    return value, index


@helper
def block_top_k(values, indices, count, largest=True):  # type: ignore[no-untyped-def]
    """Bring elements in shared memory in order; all threads of the block take part.

    When it returns, all threads see the sorted elements, the k best of which are the first k. It does not wait before
    it begins: call ``cuda.syncthreads()`` when the elements are written.

    Parameters
    ----------
    values, indices : arrays in shared memory
        At least `count` elements each.
    count : int
        How many elements there are, any number. 1024 elements take 55 steps.
    largest : bool
        Whether the largest come first, or the smallest.
    """
    span = 2
    while span < 2 * count:
        half = span >> 1
        step = half
        while step > 0:
            pair = cuda.threadIdx.x
            while pair < (count + span - 1) // span * half:
                low = pair & (step - 1)
                i = 2 * (pair - low) + low
                j = i + step
                if step == half:  # the first step of a merge goes to the mirror image, so that all parts have one order
                    j = i - low + span - 1 - low
                if j < count and comes_first(values[j], indices[j], values[i], indices[i], largest):
                    values[i], values[j] = values[j], values[i]
                    indices[i], indices[j] = indices[j], indices[i]
                pair += cuda.blockDim.x
            cuda.syncthreads()
            step >>= 1
        span <<= 1


@helper
def checked_offset(index, shape):  # type: ignore[no-untyped-def]
    """Return which slice of an array an index tuple leads to, or -1 if a number is out of range.

    Parameters
    ----------
    index : tuple or 1-D array of integers
        Positions along the first axes, such as a row of the indices of `numba_dml.gather_nd`; negative ones count from
        the end.
    shape : tuple of int
        The shape of the array; axes behind those of the tuple do not matter.

    Returns
    -------
    int
        The number of the slice in C order: of the element, if there is a position for each axis. Multiply it by the
        elements of a slice to index the flattened array.
    """
    offset = np.int64(0)
    for d in range(len(index)):
        i, n = np.int64(index[d]), np.int64(shape[d])
        if i < 0:
            if index[d] > 0:  # an unsigned number that int64 does not hold
                return np.int64(-1)
            i += n
        if i < 0 or i >= n:
            return np.int64(-1)
        offset = offset * n + i
    return offset
