"""Packed copies of what a kernel reads packed, inside jitted code."""

from __future__ import annotations

from functools import partial

import numba
import numpy as np

from ..._jit.compile import _INNER_OPTIONS, chosen
from .arguments import is_absent
from .requests import data


@partial(chosen, helps=False)
def packed(array):
    """Return an array in row-major order, itself if its type says so."""
    if array.layout == "C":
        return lambda array: array
    return lambda array: np.ascontiguousarray(array)


@numba.njit(**_INNER_OPTIONS)
def _bounds_of(array):
    """Return the first byte of an array, and the one behind the last."""
    low = high = data(array)
    for size, stride in zip(array.shape, array.strides):  # noqa: B905 (Numba has no `strict`)
        if size == 0:
            return low, low
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


@partial(chosen, helps=False)
def copy_meets(array, out):
    """Tell whether `packed` copies an array that may lie in the output."""
    if array.layout == "C" or is_absent(out):
        return lambda array, out: False

    def meets(array, out):
        low, high = _bounds_of(array)
        out_low, out_high = _bounds_of(out)
        return low < out_high and out_low < high

    return meets
