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
from ..._jit.emission import as_dtype
from ..._jit.memory import ANY, SIGNED, SIGNED_REFS, UNSIGNED, reference_to, store
from ..dispatch.top_k import TABLE
from ..kernels.gather import gather_kernel
from ..kernels.scatter import scatter_kernel
from ..kernels.top_k_rows import rows_kernel
from ..primitives import reductions
from ..primitives.moves import plan
from ..primitives.moves.offsets import finder_address
from . import alone, argextreme, arguments, compaction, max_unpool, one_hot, requests, reverse_subsequences, scan
from .addresses import addresses, caller, entry_address, kernel_address
from .arguments import bounds_rule, constant, is_absent, refuse
from .calls import copy_meets, jitted_call, packed
from .entries import move_entry, top_k_entry
from .requests import data, pack, result_sizes

#: How a function is compiled that jitted code calls where one that counts no references is in between.
_jit_counting = numba.njit(_nrt=True, forceinline=False)
#: Where numbers are that become known later, in bytes.
TO_RESULT, TO_INDICES = 8 * requests.RESULT, 8 * requests.INDICES


def top_k(a, k, axis=-1, mode="largest", sorted=True, nan="last", index_dtype=None, out=None):
    """Return what a call of `numba_dml.top_k` is compiled to.

    It becomes part of the caller and counts no references, but those of its result, at its end, where LLVM sees that
    the caller gives them up: of a loop over rows of 64 float32 with k=8 and ``out=`` each takes 90 ns, and took 121. A
    third of that is what Numba counts for the caller, which slices three arrays for something that may raise.
    """
    arguments.check_data("top_k", a, arguments.ORDERED)
    arguments.check_integer("top_k", "k", k)
    arguments.check_integer("top_k", "axis", axis)
    end = constant("top_k", "mode", mode, tuple(MODES))
    constant("top_k", "sorted", sorted, (True, False))
    nan_rule = constant("top_k", "nan", nan, NAN_RULES)
    index_type = arguments.type_of_indices("top_k", index_dtype)
    dtype, ndim, largest = a.dtype, a.ndim, end == "largest"
    made, index = as_dtype(dtype), as_dtype(index_type)
    rule = rule_numbers(normalize_data_type(made), largest, nan_is_first(nan_rule, largest))
    enter = caller(top_k_code, "top_k", (made, made, index), (..., ..., end, True, nan_rule, index), ndim > 1)
    constants = (0, made.itemsize, arguments.kind_of(index_type), 0, *rule)

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

        return alone.short_lines_first(_jit_counting(otherwise), a, index_type, rule)

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

    return alone.short_lines_first(_jit_counting(otherwise_out), a, index_type, rule, direct)


def gather(a, indices, axis=0, out=None, bounds="raise"):
    """Return what a call of `numba_dml.gather` is compiled to."""
    run = _gather("gather", a, indices, axis, out, bounds)

    def implementation(a, indices, axis=0, out=None, bounds="raise"):
        return run((axis, 0), (a, packed(indices)), out, not copy_meets(indices, out))

    return implementation


def gather_elements(a, indices, axis=-1, out=None, bounds="raise"):
    """Return what a call of `numba_dml.gather_elements` is compiled to."""
    run = _gather("gather_elements", a, indices, axis, out, bounds)

    def implementation(a, indices, axis=-1, out=None, bounds="raise"):
        return run((axis, 0), (a, packed(indices)), out, not copy_meets(indices, out))

    return implementation


def gather_nd(a, indices, batch_dims=0, out=None, bounds="raise"):
    """Return what a call of `numba_dml.gather_nd` is compiled to."""
    run = _gather("gather_nd", a, indices, batch_dims, out, bounds)

    def implementation(a, indices, batch_dims=0, out=None, bounds="raise"):
        return run((batch_dims, 0), (a, packed(indices)), out, not copy_meets(indices, out))

    return implementation


def scatter_elements(a, indices, updates, axis=-1, reduction="none", unique=False, out=None, bounds="raise"):
    """Return what a call of `numba_dml.scatter_elements` is compiled to."""
    run = _scatter("scatter_elements", a, indices, updates, axis, reduction, unique, out, bounds)

    def implementation(a, indices, updates, axis=-1, reduction="none", unique=False, out=None, bounds="raise"):
        inputs = a, packed(indices), packed(updates)
        return run((axis, 0), inputs, out, not (copy_meets(indices, out) or copy_meets(updates, out)))

    return implementation


def scatter_nd(a, indices, updates, batch_dims=0, reduction="none", unique=False, out=None, bounds="raise"):
    """Return what a call of `numba_dml.scatter_nd` is compiled to."""
    run = _scatter("scatter_nd", a, indices, updates, batch_dims, reduction, unique, out, bounds)

    def implementation(a, indices, updates, batch_dims=0, reduction="none", unique=False, out=None, bounds="raise"):
        inputs = a, packed(indices), packed(updates)
        return run((batch_dims, 0), inputs, out, not (copy_meets(indices, out) or copy_meets(updates, out)))

    return implementation


def _check(function: str, a: Any, indices: Any, axis: Any) -> tuple[Any, int]:
    """Check what gathers and scatters have; return the operator, and the kind of indices."""
    spec = OPERATORS[function]
    arguments.check_data(function, a, arguments.MOVED)
    kind = arguments.check_indices(function, indices, 0 if spec.addressing == SLICES else 1)
    arguments.check_integer(function, "batch_dims" if spec.addressing == TUPLES else "axis", axis)
    if spec.addressing == ELEMENTS:
        arguments.check_same_rank(function, "indices", indices, a)
    return spec, kind


def _gather(function: str, a: Any, indices: Any, axis: Any, out: Any, bounds: Any) -> Any:
    """Return what `jitted_call` does."""
    spec, kind = _check(function, a, indices, axis)
    rule = bounds_rule(function, bounds, config.BOUNDS)
    #: Of the result. Where tuples lead to slices, it has to be known when the call is compiled.
    ndim = {SLICES: a.ndim - 1 + indices.ndim, ELEMENTS: a.ndim, TUPLES: indices.ndim - 1}[spec.addressing]
    arguments.check_result_rank(function, indices, ndim)
    if spec.addressing == TUPLES and isinstance(out, types.Array):
        ndim = out.ndim
    code = {"clamp": plan.CLAMP, "drop": plan.DROP}.get(rule, plan.RAISE)
    constants = (kind, 0, spec.addressing, 0, code, reductions.NONE, ndim)
    inputs = as_dtype(a.dtype), as_dtype(indices.dtype)
    return jitted_call(move_code, function, inputs, out, (a.dtype, ndim), (..., rule), constants)


def _reduction(function: str, a: Any, reduction: Any) -> str:
    """Return the reduction, which fits the elements."""
    reduced: str = constant(function, "reduction", reduction, lowering.REDUCTIONS)
    if reduced != "none" and not isinstance(a.dtype, (types.Boolean, types.Number)):
        refuse(function, "reduction", repr(reduced), f"'none': {a.dtype} elements are not computed with")
    if reduced in ("min", "max") and isinstance(a.dtype, types.Complex):
        refuse(function, "reduction", repr(reduced), "'none', 'add' or 'mul': complex numbers have no order")
    return reduced


def _arithmetic(dtype: np.dtype[Any], reduction: str) -> tuple[Any, int]:
    """Return the type that the kernel of a gather or a scatter sees elements as, and the code of the reduction."""
    if reduction == "none":  # bytes move where no number is as wide as an element
        return UNSIGNED.get(dtype.itemsize, UNSIGNED[1]), reductions.NONE
    return reductions.arithmetic_type(normalize_data_type(dtype), lowering.REDUCTIONS.index(reduction))


def _scatter(
    function: str, a: Any, indices: Any, updates: Any, axis: Any, reduction: Any, unique: Any, out: Any, bounds: Any
) -> Any:
    """Return what `jitted_call` does."""
    spec, kind = _check(function, a, indices, axis)
    arguments.check_array(function, "updates", updates, 0)
    if updates.dtype != a.dtype:
        refuse(function, "updates", f"an array of {updates.dtype}", f"{a.dtype}, the dtype of a (no silent cast)")
    if spec.addressing == ELEMENTS:
        arguments.check_same_rank(function, "updates", updates, a)
    rule = bounds_rule(function, bounds, SCATTER_BOUNDS)
    reduced = _reduction(function, a, reduction)
    once = constant(function, "unique", unique, (True, False))
    made, copied = as_dtype(a.dtype), a.layout != "C" and is_absent(out)  # a kernel copies what is packed
    code = plan.DROP if rule == "drop" else plan.RAISE
    _, combination = _arithmetic(made, reduced)
    constants = (kind, int(copied), spec.addressing, 1, code, combination, int(once))
    inputs, parameters = (made, as_dtype(indices.dtype), made), (..., reduced, once, rule)
    updates_result = copied or not is_absent(out)
    return jitted_call(move_code, function, inputs, out, (a.dtype, a.ndim), parameters, constants, updates_result)


def top_k_code(function, dtypes, parameters, lines):
    """Return the addresses of the entry, and of the kernel for each row of the table; without `lines`, for one line."""
    x = reference_to(SIGNED[dtypes[0].itemsize], dtypes[0].kind == "f")
    needed = [region.kernel if lines or region.kernel is rows_kernel else None for region in TABLE]
    return entry_address(top_k_entry), *(kernel_address(kernel, x, x, ANY, ANY) if kernel else 0 for kernel in needed)


def move_code(function, dtypes, parameters):
    """Return the addresses of the entry, the kernel, the finder, and of the kernel for slices of several elements."""
    spec, (data, index, *_) = OPERATORS[function], dtypes
    element, combination = _arithmetic(data, parameters[1] if spec.writes else "none")
    x, moves = reference_to(element), combination == reductions.NONE
    kernel, arrays = gather_kernel, (x, ANY, x, ANY)
    if spec.writes:
        indices = SIGNED_REFS[4 if index == np.int32 else 8] if moves else ANY  # see `calls.scatter`
        kernel, arrays = scatter_kernel, (ANY, x, indices, x)
    code = [entry_address(move_entry), kernel_address(kernel, *arrays), finder_address()]
    return code + [kernel_address(kernel, ANY, ANY, ANY, ANY)] if moves and spec.addressing != ELEMENTS else code


#: The other operators by family: a module with a function for each, and with `code`, as `addresses` takes it.
FAMILIES = {
    "argextreme": argextreme,
    "compaction": compaction,
    "max_unpool": max_unpool,
    "one_hot": one_hot,
    "reverse_subsequences": reverse_subsequences,
    "scan": scan,
}


def function_of(name: str) -> Any:
    """Return the function that returns what calls of an operator are compiled to."""
    family = FAMILIES.get(OPERATORS[name].family)
    found = getattr(family, name) if family else globals().get(name)
    if found is None:
        raise TypeError(f"{name}: found a call in jitted code, expected one outside of it: there are no kernels for it")
    return found


def compile_ahead(function: str, dtype: np.dtype[Any]) -> None:
    """Compile what calls of a function in jitted code run, without reductions; nothing for a dtype that Numba lacks."""
    spec, index = OPERATORS[function], np.dtype(np.int64)
    parameters = tuple([one.default for one in spec.parameters])
    has_arithmetic = dtype.kind in "biuc" or (dtype.kind == "f" and dtype.itemsize >= 4)
    if spec.addressing:
        addresses(move_code, function, (dtype, index), parameters)
    elif not has_arithmetic:
        return
    elif spec.family == "top_k":
        addresses(alone.code, dtype.itemsize, dtype.kind == "f")
        for lines in (False, True):
            addresses(top_k_code, function, (dtype,), parameters, lines)
    elif spec.family in FAMILIES:
        wide = scan.WIDE.get(dtype.kind) if spec.family == "scan" else None
        addresses(FAMILIES[spec.family].code, function, (dtype, as_dtype(wide) if wide else dtype), parameters)
