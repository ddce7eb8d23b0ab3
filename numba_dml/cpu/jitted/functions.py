"""The functions in jitted code: what calls of them are compiled to.

A call becomes little code: it writes a request on its stack, and calls an entry (see `entries`) by its address. So
kernels are compiled once, as for the functions, whoever calls them. The addresses stand in a constant of the calling
function's environment, which Numba keeps beside the machine code: where Numba loads that from its disk cache, it makes
the constant anew, and with it come the kernels. While jitted code runs, no kernel has to be compiled or looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any, NoReturn

import numba
import numpy as np
from numba import types

from ..._core import config, lowering
from ..._core.lowering import MODES, NAN_RULES, SCATTER_BOUNDS, TopK, nan_is_first, rule_numbers
from ..._core.operands import mask_hint
from ..._core.spec import ELEMENTS, OPERATORS
from ..._core.tensor import normalize_data_type
from ..._jit.compile import _INNER_OPTIONS, PLAN, code_address
from ..._jit.disk_cache import _source_stamp
from ..._jit.emission import as_dtype, cgutils, intrinsic, ir, overload
from ..._jit.emission_late import Environment, NRTContext, TypingError, populate_array
from ..._jit.memory import ANY, SIGNED, UNSIGNED, ArrayRef
from ..._version import __version__
from ..dispatch.top_k import jitted_kernels
from ..drivers import emit_call
from ..kernels.gather import gather_kernel
from ..kernels.scatter import scatter_kernel
from ..kernels.top_k_alone import ALONE_K, ALONE_WORDS, alone_kernel
from ..primitives import reductions
from ..primitives.moves import plan
from ..primitives.moves.offsets import finder_address
from ..tuning.top_k import TUNING
from . import entries, refusals
from .entries import set_word

_WORD = ir.IntType(64)
#: What code in a disk cache was compiled for: with another package, requests would not mean the same.
_STAMP = (__version__, _source_stamp())


class _Addresses(bytes):
    """The addresses of an entry and of its kernels, as the bytes of 64-bit words."""

    arguments: tuple[Any, ...]

    def __reduce__(self) -> Any:
        return _reload, (_STAMP, *self.arguments)


def _reload(stamp: Any, *arguments: Any) -> _Addresses:
    if stamp != _STAMP:  # Numba compiles anew what it cannot read
        raise OSError("compiled with other sources of numba_dml")
    return _addresses(*arguments)


@cache
def _addresses(entry: str, *arguments: Any) -> _Addresses:
    """Return the addresses for an entry, whose kernels are compiled or loaded now if they have not been before."""
    code = [] if entry == "alone" else [code_address(getattr(entries, entry), entries.SIGNATURE)]
    if entry == "alone":
        x = ArrayRef(SIGNED[arguments[0]], arguments[1])
        code.append(code_address(alone_kernel, (x, x, ANY, ANY)))
    elif entry == "top_k_entry":
        itemsize, floats, lines = arguments
        x = ArrayRef(SIGNED[itemsize], floats)
        for kernel in jitted_kernels(lines):
            code.append(_kernel_address(kernel, (x, x, ANY, ANY)) if kernel else 0)
    else:
        family, element, width, slices = arguments
        data, index = ArrayRef(element), ArrayRef(SIGNED[width]) if width else ANY
        if family == "scatter":
            code += [_kernel_address(scatter_kernel, (ANY, data, index, data)), finder_address()]
            code += [_kernel_address(scatter_kernel, (ANY, ANY, ANY, ANY))] if slices else []
        else:
            code += [_kernel_address(gather_kernel, (data, ANY, data, ANY)), finder_address()]
            code += [_kernel_address(gather_kernel, (ANY, ANY, ANY, ANY))] if slices else []
    result = _Addresses(np.array(code, np.int64).tobytes())
    result.arguments = (entry, *arguments)
    return result


def _kernel_address(kernel: Any, arrays: tuple[Any, ...]) -> int:
    return code_address(kernel, (types.int64, types.int64, types.int64, *arrays, PLAN))


class _Kept(Environment):  # type: ignore[misc]
    """An environment with addresses, which stays when it was loaded.

    Numba keeps it for what Python calls. That of a `cfunc` or of a parallel ufunc it would forget as soon as the code
    is loaded, which has its address.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _keep, super().__reduce__()


_kept: list[_Kept] = []


def _keep(rebuild: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    environment = rebuild(*arguments)
    environment.__class__ = _Kept
    _kept.append(environment)
    return environment


def _emit_call(
    context: Any, builder: Any, constant: _Addresses, signature: Any, arguments: Any, raises: bool = True
) -> Any:
    """Emit the call of the first of the addresses; `arguments` tells them, with the others at hand."""
    environment = context.get_env_manager(builder)
    environment.env.__class__ = _Kept
    holder = environment.read_const(environment.add_const(constant))
    # Neither this nor reading a constant needs the interpreter's lock: both only follow pointers.
    kind = ir.FunctionType(_WORD.as_pointer(), [holder.type])
    words = builder.call(cgutils.get_or_insert_function(builder.module, kind, "PyBytes_AsString"), [holder])
    others = builder.ptrtoint(builder.gep(words, [_WORD(1)]), _WORD)
    return emit_call(context, builder, signature, builder.load(words), *arguments(others), raises=raises)


def _caller(*arguments: Any) -> Any:
    """Return ``enter(request, arrays)``, which calls an entry while `arrays` are alive."""
    constant = _addresses(*arguments)

    @intrinsic
    def enter(typingctx: Any, request: Any, arrays: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _emit_call(context, builder, constant, entries.SIGNATURE, lambda kernels: [kernels, args[0]])

        return types.int64(request, arrays), codegen

    return enter


def _alone_caller(itemsize: int, is_float: bool) -> Any:
    """Return ``select(a, values, indices, numbers)``, which calls `alone_kernel`; 0: it has done it."""
    constant = _addresses("alone", itemsize, is_float)
    x = ArrayRef(SIGNED[itemsize], is_float)

    @intrinsic
    def select(typingctx: Any, a: Any, out: Any, numbers: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = cgutils.alloca_once(builder, _WORD, size=ALONE_WORDS)
            for at, number in enumerate(cgutils.unpack_tuple(builder, args[2])):
                kind = signature.args[2][at]
                number = context.cast(builder, number, types.unliteral(kind), types.int64)
                builder.store(number, builder.gep(memory, [_WORD(at)]))
            kinds = (signature.args[0], *signature.args[1])
            arrays = zip(kinds, (args[0], *cgutils.unpack_tuple(builder, args[1])), strict=True)
            pointers = [context.make_array(kind)(context, builder, value).data for kind, value in arrays]
            references = [builder.ptrtoint(pointer, _WORD) for pointer in (*pointers, memory)]
            return _emit_call(context, builder, constant, (x, x, ANY, ANY), lambda _: references, raises=False)

        return types.int64(a, out, numbers), codegen

    return select


@intrinsic(prefer_literal=True)
def _pack(typingctx: Any, numbers: Any, arrays: Any, spare: Any) -> Any:
    """``_pack(numbers, arrays, spare)``: a new request; `spare` is a constant, how many words follow."""
    count = len(numbers) + sum(2 + 2 * array.ndim for array in arrays) + spare.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        room = cgutils.alloca_once(builder, _WORD, size=count)
        words = [
            context.cast(builder, value, types.unliteral(kind), types.int64)
            for value, kind in zip(cgutils.unpack_tuple(builder, args[0]), numbers, strict=True)
        ]
        for value, kind in zip(cgutils.unpack_tuple(builder, args[1]), arrays, strict=True):
            array = context.make_array(kind)(context, builder, value)
            words += [builder.ptrtoint(array.data, _WORD), _WORD(kind.ndim)]
            for field in (array.shape, array.strides):
                words += cgutils.unpack_tuple(builder, field)
        for at, value in enumerate(words):
            builder.store(value, builder.gep(room, [_WORD(at)]))
        return builder.ptrtoint(room, _WORD)

    return entries.WORDS(numbers, arrays, spare), codegen


@intrinsic(prefer_literal=True)
def _sizes(typingctx: Any, request: Any, at: Any, ndim: Any) -> Any:
    """``_sizes(request, at, ndim)``: sizes that stand in a request, as a tuple; `ndim` is a constant."""
    shape = types.UniTuple(types.intp, ndim.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.inttoptr(args[0], _WORD.as_pointer())
        sizes = [builder.load(builder.gep(words, [builder.add(args[1], _WORD(i))])) for i in range(shape.count)]
        return context.make_tuple(builder, shape, sizes)

    return shape(request, types.int64, ndim), codegen


@intrinsic
def _pair(typingctx: Any, k: Any, dtype: Any, index_dtype: Any) -> Any:
    """``_pair(k, dtype, index_dtype)``: two new arrays of k elements, in one piece of memory.

    To allocate and free another one takes as long as a short line: 100,000 rows of 128, k 8, took 15.5 ms and take
    11.9, where the function takes 9.
    """
    kinds = [types.Array(kind.dtype, 1, "C") for kind in (dtype, index_dtype)]
    sizes = [as_dtype(kind.dtype).itemsize for kind in kinds]
    first = int(sizes[1] > sizes[0])  # the one of wider elements: then both are aligned

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = args[0]
        references = NRTContext(context, True)
        memory = references.meminfo_alloc_aligned(builder, builder.mul(count, _WORD(sum(sizes))), 32)
        pointer = references.meminfo_data(builder, memory)
        references.incref(builder, types.MemInfoPointer(types.voidptr), memory)  # one reference is there already
        offset = builder.mul(count, _WORD(sizes[first]))
        arrays = []
        for i, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
            array = context.make_array(kind)(context, builder)
            start = pointer if i == first else builder.gep(pointer, [offset])
            data = builder.bitcast(start, context.get_data_type(kind.dtype).as_pointer())
            populate_array(array, data, [count], [_WORD(size)], _WORD(size), meminfo=memory)
            arrays.append(array._getvalue())
        return context.make_tuple(builder, signature.return_type, arrays)

    return types.Tuple(kinds)(types.intp, dtype, index_dtype), codegen


@intrinsic
def _is_alone(typingctx: Any, a: Any, k: Any, axis: Any, most: Any, longest: Any) -> Any:
    """``_is_alone(a, k, axis, most, longest)``: whether k elements of a line, both not too many, can be selected alone.

    As a jitted function it took 0.3 of the 1.1 s that a call takes to compile on a slow machine.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        k, axis, most, longest = args[1:]
        line = context.make_array(a)(context, builder, args[0])
        (stride,) = cgutils.unpack_tuple(builder, line.strides)
        conditions = (
            builder.icmp_signed(">", k, _WORD(0)),
            builder.icmp_signed("<=", k, most),
            builder.icmp_signed("<=", k, line.nitems),
            builder.icmp_signed("<=", line.nitems, longest),
            builder.icmp_unsigned("<=", builder.add(axis, _WORD(1)), _WORD(1)),  # -1 or 0
            builder.icmp_signed("==", stride, line.itemsize),
        )
        return reduce(builder.and_, conditions)

    return types.boolean(a, *[types.int64] * 4), codegen


@intrinsic
def _sizes_are(typingctx: Any, out: Any, k: Any) -> Any:
    """``_sizes_are(out, k)``: whether all arrays of a tuple, of one dimension, have k elements."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        result = cgutils.true_bit
        for kind, value in zip(signature.args[0], cgutils.unpack_tuple(builder, args[0]), strict=True):
            array = context.make_array(kind)(context, builder, value)
            result = builder.and_(result, builder.icmp_signed("==", array.nitems, args[1]))
        return result

    return types.boolean(out, types.int64), codegen


@intrinsic(prefer_literal=True)
def _result(typingctx: Any, out: Any, shares: Any) -> Any:
    """``_result(out, shares)``: two arrays as a result, which has their references, or if it shares them its own."""
    result = types.BaseTuple.from_types(tuple(out), TopK)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if shares.literal_value:
            NRTContext(context, True).incref(builder, out, args[0])
        return context.make_tuple(builder, result, cgutils.unpack_tuple(builder, args[0]))

    return result(out, shares), codegen


@intrinsic
def _free(typingctx: Any, arrays: Any) -> Any:
    """``_free(arrays)``: give up the references of a tuple."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        NRTContext(context, True).decref(builder, arrays, args[0])
        return context.get_dummy_value()

    return types.void(arrays), codegen


@intrinsic
def _data(typingctx: Any, array: Any) -> Any:
    """``_data(array)``: the address of its first element."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(context.make_array(array)(context, builder, args[0]).data, _WORD)

    return types.int64(array), codegen


def _packed(array):
    """Return an array in row-major order, itself if its type says so (inside jitted code only)."""
    raise NotImplementedError


@overload(_packed)
def _packed_overload(array):
    if array.layout == "C":
        return lambda array: array
    return lambda array: np.ascontiguousarray(array)


@numba.njit(**_INNER_OPTIONS)
def _bounds_of(array):
    """Return the first byte of an array, and the one behind the last."""
    low = high = _data(array)
    for size, stride in zip(array.shape, array.strides):  # noqa: B905 (Numba has no `strict`)
        if size == 0:
            return low, low
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


def _copy_meets(array, out):
    """Tell whether `_packed` copies an array that may lie in the output (inside jitted code only)."""
    raise NotImplementedError


@overload(_copy_meets)
def _copy_meets_overload(array, out):
    if array.layout == "C":
        return lambda array, out: False

    def meets(array, out):
        low, high = _bounds_of(array)
        out_low, out_high = _bounds_of(out)
        return low < out_high and out_low < high

    return meets


# What the types of arguments tell.


def _refuse(function: str, name: str, found: Any, expected: str) -> NoReturn:
    raise TypingError(f"{function}: {name}: found {found}, expected {expected}")


def _is_absent(kind: Any) -> bool:
    return kind is None or isinstance(kind, types.NoneType) or (isinstance(kind, types.Omitted) and kind.value is None)


def _constant(function: str, name: str, kind: Any, choices: tuple[Any, ...]) -> Any:
    """Return the value of an argument that must be a constant."""
    value = kind
    if isinstance(kind, types.Omitted):
        value = kind.value
    elif isinstance(kind, types.Literal):
        value = kind.literal_value
    elif isinstance(kind, types.Type):
        _refuse(function, name, f"{kind} known at run time", "a constant: " + _choices(choices))
    if value not in choices or (isinstance(value, bool) != isinstance(choices[0], bool)):
        _refuse(function, name, repr(value), _choices(choices))
    return value


def _choices(choices: tuple[Any, ...]) -> str:
    *first, last = [repr(choice) for choice in choices]
    return f"{', '.join(first)} or {last}"


def _check_integer(function: str, name: str, kind: Any) -> None:
    kind = types.unliteral(kind) if isinstance(kind, types.Type) else kind
    if not isinstance(kind, (int, types.Integer)) and not (isinstance(kind, types.Omitted) and kind.value is not None):
        _refuse(function, name, kind, "an integer")


def _check_array(function: str, name: str, kind: Any, least: int = 1) -> None:
    if not isinstance(kind, types.Array):
        _refuse(function, name, kind, "an array")
    if kind.ndim < least:
        _refuse(function, name, f"{kind.ndim} dimensions", f"at least {least}")


_MOVED = (types.Boolean, types.Integer, types.Float, types.Complex, types.NPDatetime, types.NPTimedelta)
_ORDERED = (types.Boolean, types.Integer, types.Float)


def _check_data(function: str, a: Any, allowed: tuple[Any, ...], expected: str) -> int:
    """Check the input, and return the size of its elements."""
    _check_array(function, "a", a)
    if a.dtype == types.float16:
        _refuse(function, "a", "float16, which has no arithmetic in Numba's CPU code", expected)
    if not isinstance(a.dtype, allowed):
        _refuse(function, "a", f"an array of {a.dtype}", expected)
    return int(as_dtype(a.dtype).itemsize)


def _check_indices(function: str, indices: Any, least: int) -> int:
    """Check indices, and return their kind."""
    _check_array(function, "indices", indices, least)
    if not isinstance(indices.dtype, types.Integer) or isinstance(indices.dtype, types.Boolean):
        hint = mask_hint(function) if isinstance(indices.dtype, types.Boolean) else ""
        _refuse(function, "indices", f"an array of {indices.dtype}", f"an array of integers{hint}")
    return plan.INDEX_KINDS.index(as_dtype(indices.dtype).name)


def _check_out(function: str, name: str, out: Any, dtype: Any, ndim: int | None) -> None:
    """Check an output; what its sizes must be is known at run time."""
    if not isinstance(out, types.Array):
        _refuse(function, name, out, "an array")
    if out.dtype != dtype or (ndim is not None and out.ndim != ndim):
        rank = "" if ndim is None else f"{ndim}-d "
        _refuse(function, name, f"a {out.ndim}-d array of {out.dtype}", f"a {rank}array of {dtype}")
    if not out.mutable:
        _refuse(function, name, "a read-only array", "one to write to")


def top_k(a: Any, k: Any, axis: Any, mode: Any, sorted: Any, nan: Any, index_dtype: Any, out: Any) -> Any:
    """Return what a call of `numba_dml.top_k` is compiled to.

    It becomes part of the caller and counts no references, but those of its result, at its end, where LLVM sees that
    the caller gives them up: of a loop over rows of 64 float32 with k=8 and ``out=`` each takes 90 ns, and took 121. A
    third of that is what Numba counts for the caller, which slices three arrays for something that may raise.
    """
    itemsize = _check_data("top_k", a, _ORDERED, "an array of bool, integers, float32 or float64")
    _check_integer("top_k", "k", k)
    _check_integer("top_k", "axis", axis)
    largest = _constant("top_k", "mode", mode, tuple(MODES)) == "largest"
    _constant("top_k", "sorted", sorted, (True, False))
    nan_first = nan_is_first(_constant("top_k", "nan", nan, NAN_RULES), largest)
    index_type: Any = types.intp
    if not _is_absent(index_dtype):
        index_type = getattr(index_dtype, "dtype", None)
        if not isinstance(index_type, types.Integer) or isinstance(index_type, types.Boolean):
            _refuse("top_k", "index_dtype", index_dtype, "an integer dtype, as numpy.uint32")
    indices_dtype = as_dtype(index_type)
    data_type: Any = normalize_data_type(as_dtype(a.dtype))
    flip, infinity, nan_key = rule_numbers(data_type, largest, nan_first)
    enter = _caller("top_k_entry", itemsize, isinstance(a.dtype, types.Float), a.ndim > 1)
    index_size, index_max = indices_dtype.itemsize, min(int(np.iinfo(indices_dtype).max), 2**63 - 1)
    ndim = a.ndim
    at = entries.TOP_K_ARRAYS + 2 + 2 * ndim
    stage, to_values, to_indices = entries.STAGE, entries.VALUES, entries.INDICES
    check, run = entries.CHECK, entries.RUN
    dtype = a.dtype
    # A short line is selected from at once, without a look at anything else.
    most, longest = (ALONE_K, min(TUNING.alone_most, index_max + 1)) if ndim == 1 else (0, 0)
    select = _alone_caller(itemsize, isinstance(a.dtype, types.Float)) if ndim == 1 else None

    if _is_absent(out):

        def otherwise(a, k, axis):
            numbers = (check, at, 0, axis, itemsize, k, index_size, flip, infinity, nan_key, index_max, 0, 0)
            request = _pack(numbers, (a,), ndim)
            enter(request, (a,))
            shape = _sizes(request, at, ndim)
            values = np.empty(shape, dtype)
            indices = np.empty(shape, index_type)
            set_word(request, stage, run)
            set_word(request, to_values, _data(values))
            set_word(request, to_indices, _data(indices))
            enter(request, (a, values, indices))
            return TopK(values, indices)

        otherwise = numba.njit(_nrt=True, forceinline=False)(otherwise)

        def implementation(a, k, axis=-1, mode="largest", sorted=True, nan="last", index_dtype=None, out=None):
            if ndim == 1 and _is_alone(a, k, axis, most, longest):
                results = _pair(k, dtype, index_type)
                if select(a, results, (a.size, k, index_size, flip, infinity, nan_key)) == 0:
                    return _result(results, False)
                _free(results)
            return otherwise(a, k, axis)

        return implementation

    if not isinstance(out, types.BaseTuple) or len(out) != 2:
        _refuse("top_k", "out", out, "a pair (values, indices)")
    _check_out("top_k", "out[0]", out[0], dtype, ndim)
    _check_out("top_k", "out[1]", out[1], index_type, ndim)
    direct = out[0].layout == "C" and out[1].layout == "C"
    at += 2 * (2 + 2 * ndim)
    out_at = entries.TOP_K_ARRAYS + 2 + 2 * ndim

    def otherwise_out(a, k, axis, out):
        values, indices = out
        numbers = (check, at, out_at, axis, itemsize, k, index_size, flip, infinity, nan_key, index_max, 0, 0)
        request = _pack(numbers, (a, values, indices), ndim)
        set_word(request, to_values, _data(values))
        set_word(request, to_indices, _data(indices))
        enter(request, (a,))
        set_word(request, stage, run)
        if not direct or enter(request, (a, values, indices)) != 0:
            new_values = np.empty(values.shape, dtype)
            new_indices = np.empty(values.shape, index_type)
            set_word(request, to_values, _data(new_values))
            set_word(request, to_indices, _data(new_indices))
            enter(request, (a, new_values, new_indices))
            values[...] = new_values
            indices[...] = new_indices

    otherwise_out = numba.njit(_nrt=True, forceinline=False)(otherwise_out)

    def implementation_out(a, k, axis=-1, mode="largest", sorted=True, nan="last", index_dtype=None, out=None):
        if not (
            ndim == 1
            and direct
            and _is_alone(a, k, axis, most, longest)
            and _sizes_are(out, k)
            and select(a, out, (a.size, k, index_size, flip, infinity, nan_key)) == 0
        ):
            otherwise_out(a, k, axis, out)
        return _result(out, True)

    return implementation_out


def gather(a: Any, indices: Any, axis: Any, out: Any, bounds: Any) -> Any:
    """Return what a call of `numba_dml.gather` is compiled to."""
    run = _gather("gather", refusals.GATHER, a, indices, "axis", axis, out, bounds, _rank(a) - 1 + _rank(indices))

    def implementation(a, indices, axis=0, out=None, bounds="raise"):
        return run(a, indices, axis, out)

    return implementation


def gather_elements(a: Any, indices: Any, axis: Any, out: Any, bounds: Any) -> Any:
    """Return what a call of `numba_dml.gather_elements` is compiled to."""
    run = _gather("gather_elements", refusals.GATHER_ELEMENTS, a, indices, "axis", axis, out, bounds, _rank(indices))

    def implementation(a, indices, axis=-1, out=None, bounds="raise"):
        return run(a, indices, axis, out)

    return implementation


def gather_nd(a: Any, indices: Any, batch_dims: Any, out: Any, bounds: Any) -> Any:
    """Return what a call of `numba_dml.gather_nd` is compiled to."""
    rank = _rank(indices) - 1 if _is_absent(out) else _rank(out)
    run = _gather("gather_nd", refusals.GATHER_ND, a, indices, "batch_dims", batch_dims, out, bounds, rank)

    def implementation(a, indices, batch_dims=0, out=None, bounds="raise"):
        return run(a, indices, batch_dims, out)

    return implementation


def scatter_elements(
    a: Any, indices: Any, updates: Any, axis: Any, reduction: Any, unique: Any, out: Any, bounds: Any
) -> Any:
    """Return what a call of `numba_dml.scatter_elements` is compiled to."""
    run = _scatter(
        "scatter_elements", refusals.SCATTER_ELEMENTS, a, indices, updates, "axis", axis, reduction, unique, out, bounds
    )

    def implementation(a, indices, updates, axis=-1, reduction="none", unique=False, out=None, bounds="raise"):
        return run(a, indices, updates, axis, out)

    return implementation


def scatter_nd(
    a: Any, indices: Any, updates: Any, batch_dims: Any, reduction: Any, unique: Any, out: Any, bounds: Any
) -> Any:
    """Return what a call of `numba_dml.scatter_nd` is compiled to."""
    run = _scatter(
        "scatter_nd", refusals.SCATTER_ND, a, indices, updates, "batch_dims", batch_dims, reduction, unique, out, bounds
    )

    def implementation(a, indices, updates, batch_dims=0, reduction="none", unique=False, out=None, bounds="raise"):
        return run(a, indices, updates, batch_dims, out)

    return implementation


#: How a function that only jitted code calls is compiled; it has an environment, which a helper of kernels lacks.
_jit = numba.njit(**_INNER_OPTIONS)


def _index_width(kind: int) -> int:
    """Return the bytes that a scatter's kernel sees indices as (see `calls.scatter`)."""
    return 4 if kind == plan.INT32 else 8


def _unit(itemsize: int) -> int:
    """Return the bytes that move at once: those of an element, or one where no number is as wide."""
    return itemsize if itemsize in UNSIGNED else 1


def compile_ahead(function: str, dtype: np.dtype[Any]) -> None:
    """Compile what calls of a function in jitted code run, without reductions; nothing for a dtype that Numba lacks."""
    spec = OPERATORS[function]
    if spec.family == "top_k":
        is_float = dtype.kind not in "biu"
        if not is_float or dtype.itemsize >= 4:
            _addresses("alone", dtype.itemsize, is_float)
            for lines in (False, True):
                _addresses("top_k_entry", dtype.itemsize, is_float, lines)
    else:
        slices = spec.addressing != ELEMENTS
        _addresses("move_entry", spec.family, UNSIGNED[_unit(dtype.itemsize)], 8 if spec.writes else 0, slices)


def _rank(array: Any) -> int:
    return getattr(array, "ndim", 0)


def _gather(
    function: str, operator: int, a: Any, indices: Any, name: str, axis: Any, out: Any, bounds: Any, rank: int
) -> Callable[..., Any]:
    """Return a jitted ``run(a, indices, axis, out)``; `rank` is the result's."""
    itemsize = _check_data(function, a, _MOVED, "an array of bool, numbers, datetimes or timedeltas")
    kind = _check_indices(function, indices, 0 if operator == refusals.GATHER else 1)
    _check_integer(function, name, axis)
    if operator == refusals.GATHER_ELEMENTS and indices.ndim != a.ndim:
        _refuse(function, "indices", f"{indices.ndim} dimensions", f"{a.ndim}, as a has")
    code = {"clamp": plan.CLAMP, "drop": plan.DROP}.get(
        _constant(function, "bounds", bounds, config.BOUNDS), plan.RAISE
    )
    unit = _unit(itemsize)
    enter = _caller("move_entry", "gather", UNSIGNED[unit], 0, operator != refusals.GATHER_ELEMENTS)
    at = entries.MOVE_ARRAYS + 4 + 2 * (a.ndim + indices.ndim)
    spare = a.ndim + indices.ndim
    stage, run, to_source, to_result = entries.STAGE, entries.RUN, entries.SOURCE, entries.RESULT
    dtype = a.dtype

    if _is_absent(out):

        def gather_new(a, indices, axis, out):
            packed = _packed(indices)
            request = _pack((0, at, 0, axis, itemsize, operator, unit, kind, code, 0, 0, 0, 0), (a, packed), spare)
            if enter(request, (a, packed)) != rank:
                raise ValueError(
                    "gather_nd: indices: expected a.ndim - batch_dims coordinates per tuple (the last size) without out"
                )
            result = np.empty(_sizes(request, at, rank), dtype)
            set_word(request, stage, run)
            set_word(request, to_source, _data(a))
            set_word(request, to_result, _data(result))
            enter(request, (a, packed, result))
            return result

        return _jit(gather_new)

    _check_out(function, "out", out, dtype, rank)
    direct = out.layout == "C"
    out_at = at
    at += 2 + 2 * rank

    def gather_out(a, indices, axis, out):
        packed = _packed(indices)
        numbers = (0, at, out_at, axis, itemsize, operator, unit, kind, code, 0, 0, 0, 0)
        request = _pack(numbers, (a, packed, out), spare)
        enter(request, (a, packed))
        set_word(request, stage, run)
        set_word(request, to_source, _data(a))
        set_word(request, to_result, _data(out))
        if not direct or _copy_meets(indices, out) or enter(request, (a, packed, out)) != 0:
            result = np.empty(out.shape, dtype)
            set_word(request, to_result, _data(result))
            enter(request, (a, packed, result))
            out[...] = result
        return out

    return _jit(gather_out)


def _scatter(
    function: str,
    operator: int,
    a: Any,
    indices: Any,
    updates: Any,
    name: str,
    axis: Any,
    reduction: Any,
    unique: Any,
    out: Any,
    bounds: Any,
) -> Callable[..., Any]:
    """Return a jitted ``run(a, indices, updates, axis, out)``."""
    itemsize = _check_data(function, a, _MOVED, "an array of bool, numbers, datetimes or timedeltas")
    kind = _check_indices(function, indices, 1)
    _check_array(function, "updates", updates, 0)
    if updates.dtype != a.dtype:
        _refuse(function, "updates", f"an array of {updates.dtype}", f"{a.dtype}, the dtype of a (no silent cast)")
    _check_integer(function, name, axis)
    if operator == refusals.SCATTER_ELEMENTS:
        for argument, array in (("indices", indices), ("updates", updates)):
            if array.ndim != a.ndim:
                _refuse(function, argument, f"{array.ndim} dimensions", f"{a.ndim}, as a has")
    code = plan.DROP if _constant(function, "bounds", bounds, SCATTER_BOUNDS) == "drop" else plan.RAISE
    reduced = _constant(function, "reduction", reduction, lowering.REDUCTIONS)
    once = _constant(function, "unique", unique, (True, False))
    if reduced == "none":
        unit = _unit(itemsize)
        element, combination = UNSIGNED[unit], reductions.NONE
    else:
        if not isinstance(a.dtype, (types.Boolean, types.Number)):
            _refuse(function, "reduction", repr(reduced), f"'none': {a.dtype} elements are not computed with")
        if reduced in ("min", "max") and isinstance(a.dtype, types.Complex):
            _refuse(function, "reduction", repr(reduced), "'none', 'add' or 'mul': complex numbers have no order")
        data_type: Any = normalize_data_type(as_dtype(a.dtype))
        unit = itemsize
        element, combination = reductions.arithmetic_type(data_type, lowering.REDUCTIONS.index(reduced))
    moves = reduced == "none"
    slices = moves and operator == refusals.SCATTER_ND
    enter = _caller("move_entry", "scatter", element, _index_width(kind) if moves else 0, slices)
    at = entries.MOVE_ARRAYS + 6 + 2 * (a.ndim + indices.ndim + updates.ndim)
    spare = a.ndim + indices.ndim
    stage, run, with_out = entries.STAGE, entries.RUN, entries.OUT_AT
    to_source, to_result = entries.SOURCE, entries.RESULT
    dtype = a.dtype
    fresh = a.layout == "C"

    if _is_absent(out):

        def scatter_new(a, indices, updates, axis, out):
            packed, packed_updates = _packed(indices), _packed(updates)
            numbers = (0, at, 0, axis, itemsize, operator, unit, kind, code, combination, once, 0, 0)
            request = _pack(numbers, (a, packed, packed_updates), spare)
            enter(request, (a, packed, packed_updates))
            result = np.empty(a.shape, dtype)
            set_word(request, stage, run)
            set_word(request, to_source, _data(a))
            set_word(request, to_result, _data(result))
            if not fresh:
                result[...] = a
                set_word(request, to_source, _data(result))
            enter(request, (a, packed, packed_updates, result))
            return result

        return _jit(scatter_new)

    _check_out(function, "out", out, dtype, a.ndim)
    out_at = at
    at += 2 + 2 * a.ndim

    def scatter_out(a, indices, updates, axis, out):
        packed, packed_updates = _packed(indices), _packed(updates)
        numbers = (0, at, out_at, axis, itemsize, operator, unit, kind, code, combination, once, 0, 0)
        request = _pack(numbers, (a, packed, packed_updates, out), spare)
        enter(request, (a, packed, packed_updates))
        set_word(request, stage, run)
        set_word(request, to_source, _data(a))
        set_word(request, to_result, _data(out))
        apart = not (_copy_meets(indices, out) or _copy_meets(updates, out))
        if not apart or enter(request, (a, packed, packed_updates, out)) != 0:
            result = np.empty(a.shape, dtype)
            result[...] = a
            set_word(request, with_out, 0)
            set_word(request, to_source, _data(result))
            set_word(request, to_result, _data(result))
            enter(request, (packed, packed_updates, result))
            out[...] = result
        return out

    return _jit(scatter_out)
