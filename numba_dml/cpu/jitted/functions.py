"""The functions in jitted code: what calls of them are compiled to.

A call becomes little code: it writes a request on its stack, and calls an entry by its address. So kernels are compiled
once, as for the functions, whoever calls them.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types

from ..._core import config, lowering
from ..._core.lowering import MODES, NAN_RULES, SCATTER_BOUNDS, TopK, nan_is_first, rule_numbers
from ..._core.shapes import ELEMENTS, SLICES, TUPLES
from ..._core.spec import OPERATORS
from ..._core.tensor import normalize_data_type
from ..._jit.compile import _INNER_OPTIONS
from ..._jit.emission import as_dtype
from ..._jit.memory import UNSIGNED, store
from ..primitives import reductions
from ..primitives.moves import plan
from . import argextreme, arguments, requests, scan
from .addresses import addresses, caller, unit_of
from .alone import short_lines_first, short_lines_first_out
from .argextreme import argmax, argmin  # noqa: F401
from .arguments import constant, is_absent, refuse
from .compaction import code as compaction_code
from .compaction import nonzero_coordinates  # noqa: F401
from .copies import copy_meets, packed
from .max_unpool import code as max_unpool_code
from .max_unpool import max_unpool  # noqa: F401
from .one_hot import code as one_hot_code
from .one_hot import one_hot  # noqa: F401
from .requests import data, pack, result_sizes
from .reverse_subsequences import code as reverse_code
from .reverse_subsequences import reverse_subsequences  # noqa: F401
from .scan import cumulative_prod, cumulative_sum  # noqa: F401

#: How a function that only jitted code calls is compiled; it has an environment, which a helper of kernels lacks.
_jit = numba.njit(**_INNER_OPTIONS)
#: The same where a function that counts no references is in between.
_jit_counting = numba.njit(_nrt=True, forceinline=False)
#: Where numbers are that become known later, in bytes.
TO_RESULT, TO_INDICES, TO_COPIED = (8 * word for word in (requests.RESULT, requests.INDICES, requests.COPIED))


def top_k(a, k, axis=-1, mode="largest", sorted=True, nan="last", index_dtype=None, out=None):
    """Return what a call of `numba_dml.top_k` is compiled to.

    It becomes part of the caller and counts no references, but those of its result, at its end, where LLVM sees that
    the caller gives them up: of a loop over rows of 64 float32 with k=8 and ``out=`` each takes 90 ns, and took 121. A
    third of that is what Numba counts for the caller, which slices three arrays for something that may raise.
    """
    itemsize = arguments.check_data("top_k", a, arguments.ORDERED, "an array of bool, integers, float32 or float64")
    arguments.check_integer("top_k", "k", k)
    arguments.check_integer("top_k", "axis", axis)
    largest = constant("top_k", "mode", mode, tuple(MODES)) == "largest"
    constant("top_k", "sorted", sorted, (True, False))
    nan_first = nan_is_first(constant("top_k", "nan", nan, NAN_RULES), largest)
    index_type = types.intp if is_absent(index_dtype) else getattr(index_dtype, "dtype", None)
    if not arguments.is_integer(index_type):
        refuse("top_k", "index_dtype", index_dtype, "an integer dtype, as numpy.uint32")
    rule = rule_numbers(normalize_data_type(as_dtype(a.dtype)), largest, nan_first)
    dtype, ndim = a.dtype, a.ndim
    enter = caller("top_k_entry", itemsize, isinstance(dtype, types.Float), ndim > 1)
    constants = (list(OPERATORS).index("top_k"), itemsize, arguments.kind_of(index_type), 0, *rule)

    if is_absent(out):

        def otherwise(a, k, axis):
            request = pack((axis, k), constants, (a,), ())
            enter(request, (a,))
            shape = result_sizes(request, ndim)
            values = np.empty(shape, dtype)
            indices = np.empty(shape, index_type)
            store(request, TO_RESULT, data(values))
            store(request, TO_INDICES, data(indices))
            enter(request, (a, values, indices))
            return TopK(values, indices)

        return short_lines_first(_jit_counting(otherwise), a, index_type, rule)

    if not isinstance(out, types.BaseTuple) or len(out) != 2:
        refuse("top_k", "out", out, "a pair (values, indices)")
    arguments.check_out("top_k", "out[0]", out[0], dtype, ndim)
    arguments.check_out("top_k", "out[1]", out[1], index_type, ndim)
    direct = out[0].layout == "C" and out[1].layout == "C"

    def otherwise_out(a, k, axis, out):
        values, indices = out
        request = pack((axis, k), constants, (a,), (values, indices))
        if direct:
            store(request, TO_RESULT, data(values))
            store(request, TO_INDICES, data(indices))
        if enter(request, (a, values, indices)) != 0:
            new_values = np.empty(values.shape, dtype)
            new_indices = np.empty(values.shape, index_type)
            store(request, TO_RESULT, data(new_values))
            store(request, TO_INDICES, data(new_indices))
            enter(request, (a, new_values, new_indices))
            values[...] = new_values
            indices[...] = new_indices

    return short_lines_first_out(_jit_counting(otherwise_out), a, index_type, rule, direct)


def gather(a, indices, axis=0, out=None, bounds="raise"):
    """Return what a call of `numba_dml.gather` is compiled to."""
    run = _gather("gather", a, indices, axis, out, bounds)

    def implementation(a, indices, axis=0, out=None, bounds="raise"):
        return run(a, indices, axis, out)

    return implementation


def gather_elements(a, indices, axis=-1, out=None, bounds="raise"):
    """Return what a call of `numba_dml.gather_elements` is compiled to."""
    run = _gather("gather_elements", a, indices, axis, out, bounds)

    def implementation(a, indices, axis=-1, out=None, bounds="raise"):
        return run(a, indices, axis, out)

    return implementation


def gather_nd(a, indices, batch_dims=0, out=None, bounds="raise"):
    """Return what a call of `numba_dml.gather_nd` is compiled to."""
    run = _gather("gather_nd", a, indices, batch_dims, out, bounds)

    def implementation(a, indices, batch_dims=0, out=None, bounds="raise"):
        return run(a, indices, batch_dims, out)

    return implementation


def scatter_elements(a, indices, updates, axis=-1, reduction="none", unique=False, out=None, bounds="raise"):
    """Return what a call of `numba_dml.scatter_elements` is compiled to."""
    run = _scatter("scatter_elements", a, indices, updates, axis, reduction, unique, out, bounds)

    def implementation(a, indices, updates, axis=-1, reduction="none", unique=False, out=None, bounds="raise"):
        return run(a, indices, updates, axis, out)

    return implementation


def scatter_nd(a, indices, updates, batch_dims=0, reduction="none", unique=False, out=None, bounds="raise"):
    """Return what a call of `numba_dml.scatter_nd` is compiled to."""
    run = _scatter("scatter_nd", a, indices, updates, batch_dims, reduction, unique, out, bounds)

    def implementation(a, indices, updates, batch_dims=0, reduction="none", unique=False, out=None, bounds="raise"):
        return run(a, indices, updates, batch_dims, out)

    return implementation


def _check(function: str, a: Any, indices: Any, axis: Any) -> tuple[Any, int, int]:
    """Check what gathers and scatters have; return the operator, the size of its elements, and the kind of indices."""
    spec = OPERATORS[function]
    itemsize = arguments.check_data(function, a, arguments.MOVED, "an array of bool, numbers, datetimes or timedeltas")
    kind = arguments.check_indices(function, indices, 0 if spec.addressing == SLICES else 1)
    arguments.check_integer(function, "batch_dims" if spec.addressing == TUPLES else "axis", axis)
    if spec.addressing == ELEMENTS:
        arguments.check_same_rank(function, "indices", indices, a)
    return spec, itemsize, kind


def _constants(spec: Any, itemsize: int, kind: int, copied: bool, *others: int) -> tuple[int, ...]:
    """Return what a request for a gather or a scatter has from OPERATOR on."""
    number = list(OPERATORS).index(spec.name)
    return number, itemsize, kind, int(copied), spec.addressing, int(spec.writes), *others


def _gather(function: str, a: Any, indices: Any, axis: Any, out: Any, bounds: Any) -> Any:
    """Return a jitted ``run(a, indices, axis, out)``."""
    spec, itemsize, kind = _check(function, a, indices, axis)
    code = {"clamp": plan.CLAMP, "drop": plan.DROP}.get(constant(function, "bounds", bounds, config.BOUNDS), plan.RAISE)
    enter = caller("move_entry", "gather", UNSIGNED[unit_of(itemsize)], 0, spec.addressing != ELEMENTS)
    constants = _constants(spec, itemsize, kind, False, code)
    #: Of the result. Where tuples lead to slices, it has to be known when the call is compiled.
    ndim = {SLICES: a.ndim - 1 + indices.ndim, ELEMENTS: a.ndim, TUPLES: indices.ndim - 1}[spec.addressing]
    leaves_none, dtype = spec.addressing == TUPLES, a.dtype

    if is_absent(out):

        def gather_new(a, indices, axis, out):
            rows = packed(indices)
            request = pack((axis, 0), constants, (a, rows), ())
            enter(request, (a, rows))
            if leaves_none and axis + indices.shape[-1] != a.ndim:
                raise ValueError(
                    "gather_nd: indices: expected a.ndim - batch_dims coordinates per tuple (the last size) without out"
                )
            result = np.empty(result_sizes(request, ndim), dtype)
            store(request, TO_RESULT, data(result))
            enter(request, (a, rows, result))
            return result

        return _jit(gather_new)

    arguments.check_out(function, "out", out, dtype, getattr(out, "ndim", 0) if leaves_none else ndim)
    direct = out.layout == "C"

    def gather_out(a, indices, axis, out):
        rows = packed(indices)
        request = pack((axis, 0), constants, (a, rows), (out,))
        if direct and not copy_meets(indices, out):
            store(request, TO_RESULT, data(out))
        if enter(request, (a, rows, out)) != 0:
            result = np.empty(out.shape, dtype)
            store(request, TO_RESULT, data(result))
            enter(request, (a, rows, result))
            out[...] = result
        return out

    return _jit(gather_out)


def _combination(function: str, a: Any, itemsize: int, reduction: Any) -> tuple[Any, int]:
    """Return the type that the kernel of a scatter sees elements as, and the code of the reduction."""
    reduced = constant(function, "reduction", reduction, lowering.REDUCTIONS)
    if reduced == "none":
        return UNSIGNED[unit_of(itemsize)], reductions.NONE
    if not isinstance(a.dtype, (types.Boolean, types.Number)):
        refuse(function, "reduction", repr(reduced), f"'none': {a.dtype} elements are not computed with")
    if reduced in ("min", "max") and isinstance(a.dtype, types.Complex):
        refuse(function, "reduction", repr(reduced), "'none', 'add' or 'mul': complex numbers have no order")
    return reductions.arithmetic_type(normalize_data_type(as_dtype(a.dtype)), lowering.REDUCTIONS.index(reduced))


def _scatter(
    function: str, a: Any, indices: Any, updates: Any, axis: Any, reduction: Any, unique: Any, out: Any, bounds: Any
) -> Any:
    """Return a jitted ``run(a, indices, updates, axis, out)``."""
    spec, itemsize, kind = _check(function, a, indices, axis)
    arguments.check_array(function, "updates", updates, 0)
    if updates.dtype != a.dtype:
        refuse(function, "updates", f"an array of {updates.dtype}", f"{a.dtype}, the dtype of a (no silent cast)")
    if spec.addressing == ELEMENTS:
        arguments.check_same_rank(function, "updates", updates, a)
    code = plan.DROP if constant(function, "bounds", bounds, SCATTER_BOUNDS) == "drop" else plan.RAISE
    element, combination = _combination(function, a, itemsize, reduction)
    moves = combination == reductions.NONE
    width = (4 if kind == plan.INT32 else 8) if moves else 0  # which the kernel sees indices as, see `calls.scatter`
    enter = caller("move_entry", "scatter", element, width, moves and spec.addressing == TUPLES)
    dtype, strided = a.dtype, a.layout != "C" and is_absent(out)
    once = int(constant(function, "unique", unique, (True, False)))
    constants = _constants(spec, itemsize, kind, strided, code, combination, once)

    if is_absent(out):

        def scatter_new(a, indices, updates, axis, out):
            rows, news = packed(indices), packed(updates)
            request = pack((axis, 0), constants, (a, rows, news), ())
            enter(request, (a, rows, news))
            result = np.empty(a.shape, dtype)
            store(request, TO_RESULT, data(result))
            if strided:
                result[...] = a
            enter(request, (a, rows, news, result))
            return result

        return _jit(scatter_new)

    arguments.check_out(function, "out", out, dtype, a.ndim)

    def scatter_out(a, indices, updates, axis, out):
        rows, news = packed(indices), packed(updates)
        request = pack((axis, 0), constants, (a, rows, news), (out,))
        if not (copy_meets(indices, out) or copy_meets(updates, out)):
            store(request, TO_RESULT, data(out))
        if enter(request, (a, rows, news, out)) != 0:
            result = np.empty(a.shape, dtype)
            result[...] = a
            store(request, TO_RESULT, data(result))
            store(request, TO_COPIED, 1)
            enter(request, (rows, news, result))
            out[...] = result
        return out

    return _jit(scatter_out)


#: By family: what returns an entry and its kernels for dtypes of data and results (see `addresses`).
CODES = {
    "argextreme": argextreme.code,
    "compaction": compaction_code,
    "max_unpool": max_unpool_code,
    "one_hot": one_hot_code,
    "reverse_subsequences": reverse_code,
    "scan": scan.code,
}


def compile_ahead(function: str, dtype: np.dtype[Any]) -> None:
    """Compile what calls of a function in jitted code run, without reductions; nothing for a dtype that Numba lacks."""
    spec = OPERATORS[function]
    has_arithmetic = dtype.kind in "biuc" or (dtype.kind == "f" and dtype.itemsize >= 4)
    if spec.addressing:
        slices = spec.addressing != ELEMENTS
        addresses("move_entry", spec.family, UNSIGNED[unit_of(dtype.itemsize)], 8 if spec.writes else 0, slices)
    elif not has_arithmetic:
        return
    elif spec.family == "top_k":
        is_float = dtype.kind == "f"
        addresses("alone", dtype.itemsize, is_float)
        for lines in (False, True):
            addresses("top_k_entry", dtype.itemsize, is_float, lines)
    elif spec.family in CODES:
        wide = scan.WIDE.get(dtype.kind) if spec.family == "scan" else None
        addresses(CODES[spec.family], function, (dtype, as_dtype(wide) if wide else dtype), ())
