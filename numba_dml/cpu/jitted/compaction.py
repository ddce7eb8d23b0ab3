"""`nonzero_coordinates` in jitted code: plain loops on one thread."""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import types

from ..._core.lowering import SCATTER_BOUNDS, Nonzero
from ..._jit.compile import called, kernel
from ..._jit.emission import as_dtype
from ..._jit.memory import overlaps, store
from . import arguments, requests
from .addresses import caller, entry_address
from .entries import insist, judge_out, memory_of
from .errors import PERHAPS
from .requests import ARRAYS, next_record, pack, word

#: Said, or the caller's `fastmath` would take a NaN for zero.
_jit = partial(called, fastmath=False)


@_jit
def _write(a, rows):
    """Write the coordinates of the first elements that are not zero; return how many there are in all."""
    found = 0
    for index, value in np.ndenumerate(np.atleast_1d(a)):
        if value != 0:
            if found < rows.shape[0]:
                for d in range(a.ndim):
                    rows[found, d] = index[d]
            found += 1
    return found


@_jit
def _fail(before, found, after):
    """Raise an error with the number that was found."""
    raise ValueError("nonzero_coordinates: " + before + str(found) + after)


@_jit
def _check_count(count, size):
    """Refuse more elements than there is room for."""
    if count > size:
        _fail("size: found ", count, " nonzero elements, expected at most " + str(size))


def code(function, dtypes, parameters):
    """Return the address of the entry, which needs no kernel."""
    return (entry_address(entry),)


@kernel
def entry(kernels, request):
    """Check the outputs of a call; `kernels` is its description."""
    at, rows = word(request, requests.SIZES_AT), word(request, requests.OUT_AT)
    store(request, 8 * at, word(request, requests.K))  # the shape of the rows: any number, a column for each dimension
    store(request, 8 * (at + 1), word(request, ARRAYS + 1))
    insist(request, judge_out(request, at, 2))
    low, high = memory_of(request, rows, word(request, requests.ITEMSIZE))
    count = word(request, next_record(request, ARRAYS))
    if overlaps(low, high, count, count + 8):
        insist(request, PERHAPS)
    return np.int64(requests.CHECKED)


def _writer(a, index_type, out, rule, check_sizes, check_count):
    """Return what a call with outputs is compiled to."""
    function, ndim, made = "nonzero_coordinates", a.ndim, as_dtype(index_type)
    kind, constants = made.type, (0, made.itemsize)
    if not isinstance(out, types.BaseTuple) or len(out) != 2:
        arguments.refuse(function, "out", out, "a pair (count, coordinates)")
    arguments.check_out(function, "out[0]", out[0], types.int64, 0)
    arguments.check_out(function, "out[1]", out[1], index_type, 2)
    enter = caller(code, function, (as_dtype(a.dtype), np.dtype(np.int64), made), (..., None, made, rule))

    def to_outputs(a, size=None, fill_value=-1, index_dtype=None, bounds="raise", out=None):
        check_sizes(a)
        number, rows = out
        enter(pack((0, len(rows)), constants, (a, number), (rows,)), (a, number, rows))
        source = a.copy()  # rows may lie in the input
        count = _write(source, np.empty((0, ndim), kind))
        check_count(count, rows.shape[0])
        _write(source, rows)
        number[()] = count
        return Nonzero(number, rows)

    return to_outputs


def nonzero_coordinates(a, size=None, fill_value=-1, index_dtype=None, bounds="raise", out=None):
    """Return what a call of `numba_dml.nonzero_coordinates` is compiled to."""
    function = "nonzero_coordinates"
    arguments.check_data(function, a, arguments.NUMBERS, 0)
    arguments.check_integer(function, "fill_value", fill_value)
    index_type = arguments.type_of_indices(function, index_dtype)
    rule = arguments.bounds_rule(function, bounds, SCATTER_BOUNDS)
    dtype, ndim = as_dtype(index_type), a.ndim
    kind, limits = dtype.type, np.iinfo(dtype)
    most, too_high = min(limits.max, np.iinfo(np.intp).max), f"index_dtype: found {dtype}, expected a type that holds "
    fits = f", expected {limits.min} to {limits.max}, what {dtype} holds"
    check_count = _jit(lambda count, size: None) if rule == "drop" else _check_count

    @_jit
    def check_sizes(a):
        highest = max(np.atleast_1d(a).shape) - 1
        if highest > most:
            _fail(too_high, highest, "")

    if not arguments.is_absent(out):
        if not arguments.is_absent(size):
            arguments.refuse(function, "size", size, "None with out, whose shape is the size")
        return _writer(a, index_type, out, rule, check_sizes, check_count)

    if arguments.is_absent(size):

        def all_rows(a, size=None, fill_value=-1, index_dtype=None, bounds="raise", out=None):
            check_sizes(a)
            rows = np.empty((_write(a, np.empty((0, ndim), kind)), ndim), kind)
            _write(a, rows)
            return rows

        return all_rows

    arguments.check_integer(function, "size", size)

    def some_rows(a, size=None, fill_value=-1, index_dtype=None, bounds="raise", out=None):
        check_sizes(a)
        if size < 0:
            _fail("size: found ", size, ", expected 0 or more")
        if np.intp(size) < 0:  # of an unsigned type
            raise ValueError("nonzero_coordinates: found a tensor of 2**63 bytes or more, expected a smaller one")
        if kind(fill_value) != fill_value:
            _fail("fill_value: found ", fill_value, fits)
        rows = np.empty((size, ndim), kind)
        count = _write(a, rows)
        check_count(count, size)
        rows[count:] = fill_value
        number = np.empty((), np.int64)
        number[()] = count
        return Nonzero(number, rows)

    return some_rows
