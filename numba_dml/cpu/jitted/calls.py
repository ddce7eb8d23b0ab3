"""What calls of an operator with one result are compiled to."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..._jit.compile import called, chosen
from ..._jit.emission import as_dtype
from ..._jit.memory import store
from . import arguments, requests
from .addresses import caller
from .arguments import is_absent
from .requests import data, pack, result_sizes

#: Where numbers are that become known later, in bytes.
TO_RESULT, TO_COPIED = 8 * requests.RESULT, 8 * requests.COPIED
#: Where the first of an operator's own constants is.
OWN = requests.KIND + 1


def jitted_call(code, function, inputs, out, result, parameters, constants, updates=False):
    """Return a jitted ``run(given, inputs, out, direct)``; `direct`: whether a kernel may write to a packed `out`.

    `code`: what returns the entry and its kernels (see `addresses`). `inputs`: dtypes. `result`: its element type and
    number of dimensions. `parameters`: all of the function's, ``...`` are `given`: the axis, and another number.
    `constants`: what follows on ITEMSIZE in a request. `updates`: a new result starts as a copy of the first input, and
    `out` need not be packed.
    """
    dtype, ndim = result
    made = as_dtype(dtype)
    enter = caller(code, function, (*inputs, made), parameters)
    constants = (0, made.itemsize, *constants)

    if is_absent(out):

        def run_new(given, inputs, out, direct):
            request = pack(given, constants, inputs, ())
            enter(request, inputs)
            result = np.empty(result_sizes(request, ndim), dtype)
            if updates:
                result[...] = inputs[0]
            store(request, TO_RESULT, data(result))
            enter(request, (inputs, result))
            return result

        return called(run_new)

    arguments.check_out(function, "out", out, dtype, ndim)
    writes_to = updates or out.layout == "C"

    def run_out(given, inputs, out, direct):
        request = pack(given, constants, inputs, (out,))
        if writes_to and direct:
            store(request, TO_RESULT, data(out))
        if enter(request, (inputs, out)) != 0:
            result = np.empty(out.shape, dtype)
            if updates:
                result[...] = inputs[0]
                store(request, TO_COPIED, 1)
            store(request, TO_RESULT, data(result))
            enter(request, (inputs, result))
            out[...] = result
        return out

    return called(run_out)


@partial(chosen, helps=False)
def packed(array):
    """Return an array in row-major order, itself if its type says so."""
    if array.layout == "C":
        return lambda array: array
    return lambda array: np.ascontiguousarray(array)


@called
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
