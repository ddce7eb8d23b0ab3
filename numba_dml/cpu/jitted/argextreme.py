"""`argmin` and `argmax` in jitted code."""

from __future__ import annotations

import numpy as np
from numba import types

from ..._core import shapes
from ..._core.lowering import NAN_RULES, is_float, nan_is_first, rule_numbers
from ..._core.shapes import LINE_FIELDS
from ..._core.spec import OPERATORS
from ..._core.tensor import normalize_data_type
from ..._jit.compile import allocating, helper, kernel
from ..._jit.emission import as_dtype
from ..._jit.emission_late import TypingError
from ..._jit.memory import ANY, SIGNED, SIGNED_REFS, reference_to, store
from ..calls.argextreme import highest_key
from ..drivers import run_here
from ..kernels.argextreme import lines_kernel
from ..primitives import argextreme as plans
from ..tuning.argextreme import TUNING
from . import arguments, requests
from .addresses import entry_address, kernel_address
from .arguments import constant, is_absent, refuse
from .calls import OWN, jitted_call
from .entries import index_size, insist, judge_out, reference, whole_of
from .errors import WRONG
from .requests import ARRAYS, sizes_of, strides_of, word

#: A bit for each axis, 0: there is one, which is a number.
AXES = requests.K
# The constants of a request behind the kind of the indices. FLAGS: 1 goes backwards, 2 keeps the dimensions.
RULE, BEST, FLAGS, SOURCE_SIZE = OWN, OWN + 3, OWN + 4, OWN + 5
BLOCK_BYTES = TUNING.block_bytes


def argmax(a, axis=None, keepdims=False, ties="first", nan="first", index_dtype=None, out=None):
    """Return what a call of `numba_dml.argmax` is compiled to."""
    return _search("argmax", True, a, axis, keepdims, ties, nan, index_dtype, out)


def argmin(a, axis=None, keepdims=False, ties="first", nan="first", index_dtype=None, out=None):
    """Return what a call of `numba_dml.argmin` is compiled to."""
    return _search("argmin", False, a, axis, keepdims, ties, nan, index_dtype, out)


def _search(function, largest, a, axis, keepdims, ties, nan, index_dtype, out):
    arguments.check_data(function, a, arguments.ORDERED)
    keeps = constant(function, "keepdims", keepdims, (False, True))
    backwards = constant(function, "ties", ties, ("first", "last")) == "last"
    rule_name = constant(function, "nan", nan, NAN_RULES)
    index_type = arguments.type_of_indices(function, index_dtype)
    dtype, result = as_dtype(a.dtype), as_dtype(index_type)
    axes = _axes(function, a, axis)
    parameters = (... if axes == () else axes, keeps, "last" if backwards else "first", rule_name, result)
    mask = sum(1 << one for one in axes)
    data_type = normalize_data_type(dtype)
    best = highest_key(data_type, largest)
    rule = rule_numbers(data_type, largest, nan_is_first(rule_name, largest))
    constants = (arguments.kind_of(index_type), *rule, best, int(backwards) + 2 * int(keeps), dtype.itemsize)
    ndim = a.ndim if keeps else a.ndim - max(len(axes), 1)
    run = jitted_call(code, function, (dtype,), out, (index_type, ndim), parameters, constants)

    several = len(axes) > 0

    def implementation(a, axis=None, keepdims=False, ties="first", nan="first", index_dtype=None, out=None):
        return run((0 if several else axis, mask), (a,), out, True)

    return implementation


def _axes(function, a, axis):
    """Return the axes of a call that are known, or none if there is one that is not."""
    if is_absent(axis):
        return tuple(range(a.ndim))
    if not isinstance(axis, types.BaseTuple):
        arguments.check_integer(function, "axis", axis)
        return ()
    axes = tuple(getattr(one, "literal_value", None) for one in axis)
    if None in axes:
        refuse(function, "axis", axis, "a tuple of constants (in a prange loop one in a global variable)")
    try:
        descriptor, _ = OPERATORS[function].describe(
            [(1,) * a.ndim], [as_dtype(a.dtype)], (axes, False, "first", "first", None)
        )
    except ValueError as error:
        raise TypingError(str(error)) from None
    return descriptor.axes


def code(function, dtypes, parameters):
    """Return the addresses of the entry and the kernel."""
    dtype, _ = dtypes
    x = reference_to(SIGNED[dtype.itemsize], is_float(normalize_data_type(dtype)))
    return entry_address(entry), kernel_address(lines_kernel, x, ANY, SIGNED_REFS[8], ANY)


@helper
def judge(request, axes):
    """Write the sizes of the result; return FITS, WRONG or PERHAPS."""
    sizes, keeps = sizes_of(request, ARRAYS), word(request, FLAGS) & 2 != 0
    total, at, ndim = np.int64(1), word(request, requests.SIZES_AT), np.int64(0)
    for d in range(len(sizes)):
        reduced = (axes >> d) & 1 != 0
        if reduced:
            total *= sizes[d]
        if keeps or not reduced:
            store(request, 8 * (at + ndim), 1 if reduced else sizes[d])
            ndim += 1
    bits = 8 * index_size(request) - (1 if word(request, requests.KIND) < 4 else 0)  # without the sign
    if total == 0 or (bits < 63 and (total - 1) >> bits != 0):
        return WRONG
    return judge_out(request, at, ndim)


@helper
def lower(request, axes, lines, reduced):
    """Write the dimensions that stay, and those of a line (see `extreme.Search`).

    Return how many these are, the elements of a line, and where the first of them is.
    """
    sizes, strides = sizes_of(request, ARRAYS), strides_of(request, ARRAYS)
    backwards = word(request, FLAGS) & 1 != 0
    packed, total, start = np.int64(1), np.int64(1), np.int64(0)
    line, inner = len(lines), len(reduced)
    for d in range(len(sizes) - 1, -1, -1):
        size, step = sizes[d], strides[d]
        if (axes >> d) & 1 != 0:
            if backwards:
                start += (size - 1) * step
                step = -step
            inner -= LINE_FIELDS
            reduced[inner], reduced[inner + 1], reduced[inner + 2] = size, step, total
            total *= size
        else:
            line -= LINE_FIELDS
            lines[line], lines[line + 1], lines[line + 2] = size, step, packed
            packed *= max(size, 1)
    dims = shapes.collapse_rows(lines, LINE_FIELDS, len(lines) // LINE_FIELDS)
    return dims, shapes.collapse_rows(reduced, LINE_FIELDS, len(reduced) // LINE_FIELDS), total, start


@allocating
def run_search(kernels, request, axes):
    """Do what `calls.argextreme.ArgExtremeCall` does, for one thread, and lines one by one."""
    sizes, strides = sizes_of(request, ARRAYS), strides_of(request, ARRAYS)
    count = np.int64(0)
    for d in range(len(sizes)):
        count += (axes >> d) & 1
    lines = np.zeros(LINE_FIELDS * (len(sizes) - count), np.int64)
    reduced = np.zeros(LINE_FIELDS * count, np.int64)
    dims, inner, total, start = lower(request, axes, lines, reduced)
    outer = max(inner - 1, 0)
    plan = np.zeros(plans.HEADER + LINE_FIELDS * (dims + outer), np.int64)
    number = whole_of(request, ARRAYS, np.int64(1)) // total
    for i in range(LINE_FIELDS * dims):
        plan[plans.HEADER + i] = lines[i]
    for i in range(LINE_FIELDS * outer):
        plan[plans.HEADER + LINE_FIELDS * dims + i] = reduced[i]
    plan[plans.SIZE], plan[plans.STEP] = 1, 1
    for i in range(3 if inner > 0 else 0):
        plan[plans.SIZE + i] = reduced[LINE_FIELDS * outer + i]  # and STRIDE, and STEP
    for i in range(3):
        plan[plans.RULE + i] = word(request, RULE + i)
    itemsize = word(request, SOURCE_SIZE)
    low, high = shapes.extent(sizes, strides)
    plan[plans.LINES], plan[plans.DIMS], plan[plans.TOTAL], plan[plans.OUTER_DIMS] = number, dims, total, outer
    plan[plans.START], plan[plans.BACKWARDS], plan[plans.ORDERED] = start, word(request, FLAGS) & 1, 1
    plan[plans.BEST], plan[plans.INDEX_SIZE] = word(request, BEST), index_size(request)
    plan[plans.BLOCK], plan[plans.TILE], plan[plans.CUTS] = BLOCK_BYTES // itemsize, 1, 1
    plan[plans.ROWS], plan[plans.FOLD], plan[plans.PIECES] = total, 1, 1
    plan[plans.LOW], plan[plans.HIGH], plan[plans.OUT_BYTES] = low, high + itemsize, number * index_size(request)
    x = reference(word(request, ARRAYS))
    return run_here(word(kernels, 1), x, reference(word(request, requests.RESULT)), x, x, plan)


@kernel
def entry(kernels, request):
    """Check or run a search; `kernels` are its description and its kernel."""
    axes = word(request, AXES)
    if axes == 0:
        axis = shapes.axis_from_start(word(request, requests.AXIS), word(request, ARRAYS + 1))
        if axis < 0:
            insist(request, WRONG)
        axes = np.int64(1) << axis
    insist(request, judge(request, axes))
    return run_search(kernels, request, axes) if word(request, requests.RESULT) != 0 else np.int64(requests.CHECKED)
