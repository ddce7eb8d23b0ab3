"""`cumulative_sum` and `cumulative_prod` in jitted code."""

from __future__ import annotations

import numpy as np
from numba import types

from ..._core import shapes
from ..._core.shapes import LINE_FIELDS
from ..._core.spec import OPERATORS
from ..._jit.compile import allocating, kernel, shared
from ..._jit.emission import as_dtype
from ..._jit.memory import ANY, store
from ..calls.scan import can_read, fill_scan
from ..drivers import run_here
from ..kernels.scan_lines import lines_kernel
from ..primitives import scan
from . import arguments, requests
from .addresses import entry_address, kernel_address
from .arguments import constant, is_absent, refuse
from .calls import OWN, jitted_call
from .entries import insist, judge_out, put_sizes, reference
from .errors import WRONG
from .requests import ARRAYS, sizes_of, strides_of, word

#: The kind of a result for which no dtype is asked, as in NumPy.
WIDE = {"b": types.int64, "i": types.int64, "u": types.uint64}
# The constants of a request, instead of the kind of indices: whether numbers are multiplied, and the others.
MULTIPLIES = requests.KIND
EXCLUSIVE, INITIAL, REVERSE, SOURCE_SIZE = range(OWN, OWN + 4)
shared(fill_scan)


def cumulative_sum(a, axis=None, dtype=None, include_initial=False, exclusive=False, reverse=False, out=None):
    """Return what a call of `numba_dml.cumulative_sum` is compiled to."""
    return _cumulative("cumulative_sum", False, a, axis, dtype, include_initial, exclusive, reverse, out)


def cumulative_prod(a, axis=None, dtype=None, include_initial=False, exclusive=False, reverse=False, out=None):
    """Return what a call of `numba_dml.cumulative_prod` is compiled to."""
    return _cumulative("cumulative_prod", True, a, axis, dtype, include_initial, exclusive, reverse, out)


def _cumulative(function, multiplies, a, axis, dtype, *rest):
    *flags, out = rest
    arguments.check_data(function, a, arguments.NUMBERS)
    ndim, expected = a.ndim, f"{-a.ndim} to {a.ndim - 1} for an array with {a.ndim} dimensions"
    whole = is_absent(axis)
    if whole and ndim > 1:
        refuse(function, "axis", None, expected)
    if not whole:
        arguments.check_integer(function, "axis", axis)
    names = ("include_initial", "exclusive", "reverse")
    initial, left_out, from_end = (
        constant(function, name, one, (False, True)) for name, one in zip(names, flags, strict=True)
    )
    if initial and left_out:
        refuse(function, "exclusive", True, "False (include_initial is True)")
    source, result = as_dtype(a.dtype), _result_type(function, a, dtype)
    made = as_dtype(result)
    casts, kind = not can_read(source, made), made.type
    source = made if casts else source
    parameters = (..., made, initial, left_out, from_end)
    constants = (int(multiplies), int(left_out), int(initial), int(from_end), source.itemsize)
    run = jitted_call(code, function, (source,), out, (result, ndim), parameters, constants)

    def implementation(a, axis=None, dtype=None, include_initial=False, exclusive=False, reverse=False, out=None):
        return run((0 if whole else axis, 0), (a.astype(kind) if casts else a,), out, True)

    return implementation


def _result_type(function, a, dtype):
    """Return the type of a result's elements."""
    if is_absent(dtype):
        return WIDE.get(as_dtype(a.dtype).kind, a.dtype)
    result = getattr(dtype, "dtype", None)
    if not isinstance(result, arguments.NUMBERS) or result == types.float16:
        refuse(function, "dtype", dtype, "a dtype of bool or numbers, as numpy.float64")
    if isinstance(a.dtype, types.Complex) and not isinstance(result, types.Complex):
        refuse(function, "dtype", result, f"a complex dtype for {a.dtype}")
    return result


def code(function, dtypes, parameters):
    """Return the addresses of the entry and the kernel."""
    source, result = dtypes
    like, _ = OPERATORS[function].describe([(1,)], [np.dtype(np.int64)], (0, None, False, False, False))
    state = scan.state_reference(result, like.multiplies, in_order=False)
    arrays = scan.data_reference(source, is_source=True), scan.data_reference(result), state, ANY
    return entry_address(entry), kernel_address(lines_kernel, *arrays)


@allocating
def run_scan(kernels, request, axis):
    """Do what `calls.scan.ScanCall` does, for one thread."""
    sizes, strides = sizes_of(request, ARRAYS), strides_of(request, ARRAYS)
    n, initial = sizes[axis], word(request, INITIAL)
    lines = np.zeros(LINE_FIELDS * len(sizes), np.int64)
    dims, out_stride = shapes.lower_lines(axis, n + initial, sizes, strides, lines)
    plan = np.zeros(scan.HEADER + LINE_FIELDS * dims, np.int64)
    along = strides[axis], out_stride
    fill_scan(plan, lines, dims, n, along, word(request, requests.ITEMSIZE), initial, word(request, REVERSE) != 0)
    low, high = shapes.extent(sizes, strides)
    without_blocks = n <= scan.BLOCK or word(request, MULTIPLIES) != 0
    plan[scan.BLOCK_SIZE] = scan.NO_BLOCKS if without_blocks else scan.BLOCK
    plan[scan.EXCLUSIVE], plan[scan.PARTS] = word(request, EXCLUSIVE), 1
    plan[scan.DEEP] = int(n > scan.BLOCK**2)
    plan[scan.LOW], plan[scan.HIGH] = low, high + word(request, SOURCE_SIZE)
    x, y = reference(word(request, ARRAYS)), reference(word(request, requests.RESULT))
    return run_here(word(kernels, 1), x, y, x, x, plan)


@kernel
def entry(kernels, request):
    """Check or run a scan; `kernels` are its description and its kernel."""
    sizes = sizes_of(request, ARRAYS)
    axis = shapes.axis_from_start(word(request, requests.AXIS), len(sizes))
    if axis < 0:
        insist(request, WRONG)
    at = word(request, requests.SIZES_AT)
    put_sizes(request, at, sizes, 0, len(sizes))
    store(request, 8 * (at + axis), sizes[axis] + word(request, INITIAL))
    insist(request, judge_out(request, at, len(sizes)))
    return run_scan(kernels, request, axis) if word(request, requests.RESULT) != 0 else np.int64(requests.CHECKED)
