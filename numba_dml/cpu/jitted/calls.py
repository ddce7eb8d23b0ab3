"""What calls of an operator with one result are compiled to."""

from __future__ import annotations

import numba
import numpy as np

from ..._jit.compile import _INNER_OPTIONS
from ..._jit.emission import as_dtype
from ..._jit.memory import store
from . import arguments, requests
from .addresses import caller
from .requests import data, pack, result_sizes

_jit = numba.njit(**_INNER_OPTIONS)
TO_RESULT = 8 * requests.RESULT
#: Where the first of an operator's own constants is.
OWN = requests.KIND + 1


def jitted_call(code, function, inputs, out, result, parameters, constants):
    """Return a jitted ``run(given, inputs, out, direct)``; `direct`: whether a kernel may write to a packed `out`.

    `code`: what returns the entry and its kernels (see `addresses`). `inputs`: dtypes. `result`: its element type and
    number of dimensions. `parameters`: all of the function's, ``...`` are `given`: the axis, and another number.
    `constants`: what follows on ITEMSIZE in a request.
    """
    dtype, ndim = result
    made = as_dtype(dtype)
    enter = caller(code, function, (*inputs, made), parameters)
    constants = (0, made.itemsize, *constants)

    if arguments.is_absent(out):

        def run_new(given, inputs, out, direct):
            request = pack(given, constants, inputs, ())
            enter(request, inputs)
            result = np.empty(result_sizes(request, ndim), dtype)
            store(request, TO_RESULT, data(result))
            enter(request, (inputs, result))
            return result

        return _jit(run_new)

    arguments.check_out(function, "out", out, dtype, ndim)
    is_packed = out.layout == "C"

    def run_out(given, inputs, out, direct):
        request = pack(given, constants, inputs, (out,))
        if is_packed and direct:
            store(request, TO_RESULT, data(out))
        if enter(request, (inputs, out)) != 0:
            result = np.empty(out.shape, dtype)
            store(request, TO_RESULT, data(result))
            enter(request, (inputs, result))
            out[...] = result
        return out

    return _jit(run_out)
