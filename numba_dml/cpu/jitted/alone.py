"""A single short line, which jitted code selects from without an entry."""

from __future__ import annotations

from functools import reduce

from numba import types

from ..._core.lowering import TopK
from ..._jit.compile import code_address
from ..._jit.emission import as_dtype, cgutils, intrinsic
from ..._jit.emission_late import NRTContext, populate_array
from ..._jit.memory import ANY, SIGNED, ArrayRef
from ..kernels.top_k_alone import ALONE_K, ALONE_WORDS, alone_kernel
from ..tuning.top_k import TUNING
from .addresses import addresses, emit_call_of
from .requests import WORD, emit_number


def _signature(itemsize, is_float):
    x = ArrayRef(SIGNED[itemsize], is_float)
    return x, x, ANY, ANY


def code(itemsize, is_float):
    """Return the address of what selects from a short line, without an entry."""
    return (code_address(alone_kernel, _signature(itemsize, is_float)),)


def _short_lines(a, index_type, rule):
    """Return ``(is_short, select)`` for arrays of one dimension: whether a line is short, and what selects from it.

    ``is_short(a, k, axis)``; ``select(a, out, k)`` returns 0 if it has done it.
    """
    itemsize, is_float = as_dtype(a.dtype).itemsize, isinstance(a.dtype, types.Float)
    constant, seen = addresses(code, itemsize, is_float), _signature(itemsize, is_float)
    longest = min(TUNING.alone_most, index_type.maxval + 1)

    @intrinsic
    def is_short(typingctx, a, k, axis):
        # As a jitted function it took 0.3 of the 1.1 s that a call takes to compile on a slow machine.
        def codegen(context, builder, signature, args):
            numbers = zip(args[1:], signature.args[1:], strict=True)
            k, axis = (emit_number(context, builder, value, kind) for value, kind in numbers)
            line = context.make_array(a)(context, builder, args[0])
            (stride,) = cgutils.unpack_tuple(builder, line.strides)
            conditions = (
                builder.icmp_signed(">", k, WORD(0)),
                builder.icmp_signed("<=", k, WORD(ALONE_K)),
                builder.icmp_signed("<=", k, line.nitems),
                builder.icmp_signed("<=", line.nitems, WORD(longest)),
                builder.icmp_unsigned("<=", builder.add(axis, WORD(1)), WORD(1)),  # -1 or 0
                builder.icmp_signed("==", stride, line.itemsize),
            )
            return reduce(builder.and_, conditions)

        return types.boolean(a, k, axis), codegen

    @intrinsic
    def select(typingctx, a, out, k):
        def codegen(context, builder, signature, args):
            kinds = (a, *out)
            values = (args[0], *cgutils.unpack_tuple(builder, args[1]))
            line, *results = (
                context.make_array(kind)(context, builder, v) for kind, v in zip(kinds, values, strict=True)
            )
            memory = cgutils.alloca_once(builder, WORD, size=ALONE_WORDS)
            numbers = (line.nitems, args[2], *map(WORD, (index_type.bitwidth // 8, *rule)))
            for at, number in enumerate(numbers):
                builder.store(number, builder.gep(memory, [WORD(at)]))
            references = [builder.ptrtoint(p, WORD) for p in (line.data, *(array.data for array in results), memory)]
            return emit_call_of(context, builder, constant, seen, lambda _: references, raises=False)

        return types.int64(a, out, types.int64), codegen

    return is_short, select


def short_lines_first(otherwise, a, index_type, rule, direct=None):
    """Return what a top-k is compiled to: a short line is selected from at once, without a look at anything else.

    `direct`: whether a kernel can write to ``out``, or None without one.
    """
    ndim, dtype = a.ndim, a.dtype
    is_short, select = _short_lines(a, index_type, rule) if ndim == 1 else (None, None)

    def implementation(a, k, axis=-1, mode="largest", sorted=True, nan="last", index_dtype=None, out=None):
        if ndim == 1 and is_short(a, k, axis):
            results = new_pair(k, dtype, index_type)
            if select(a, results, k) == 0:
                return as_result(results, False)
            free(results)
        return otherwise(a, k, axis)

    def implementation_out(a, k, axis=-1, mode="largest", sorted=True, nan="last", index_dtype=None, out=None):
        if not (ndim == 1 and direct and is_short(a, k, axis) and sizes_are(out, k) and select(a, out, k) == 0):
            otherwise(a, k, axis, out)
        return as_result(out, True)

    return implementation if direct is None else implementation_out


@intrinsic
def new_pair(typingctx, k, dtype, index_dtype):
    """``new_pair(k, dtype, index_dtype)``: two new arrays of k elements, in one piece of memory.

    To allocate and free another one takes as long as a short line: 100,000 rows of 128, k 8, took 15.5 ms and take
    11.9, where the function takes 9.
    """
    kinds = [types.Array(kind.dtype, 1, "C") for kind in (dtype, index_dtype)]
    sizes = [as_dtype(kind.dtype).itemsize for kind in kinds]
    first = int(sizes[1] > sizes[0])  # the one of wider elements: then both are aligned

    def codegen(context, builder, signature, args):
        count = args[0]
        references = NRTContext(context, True)
        memory = references.meminfo_alloc_aligned(builder, builder.mul(count, WORD(sum(sizes))), 32)
        pointer = references.meminfo_data(builder, memory)
        references.incref(builder, types.MemInfoPointer(types.voidptr), memory)  # one reference is there already
        offset = builder.mul(count, WORD(sizes[first]))
        arrays = []
        for i, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
            array = context.make_array(kind)(context, builder)
            start = pointer if i == first else builder.gep(pointer, [offset])
            data = builder.bitcast(start, context.get_data_type(kind.dtype).as_pointer())
            populate_array(array, data, [count], [WORD(size)], WORD(size), meminfo=memory)
            arrays.append(array._getvalue())
        return context.make_tuple(builder, signature.return_type, arrays)

    return types.Tuple(kinds)(types.intp, dtype, index_dtype), codegen


@intrinsic
def sizes_are(typingctx, out, k):
    """``sizes_are(out, k)``: whether all arrays of a tuple, of one dimension, have k elements."""

    def codegen(context, builder, signature, args):
        result = cgutils.true_bit
        for kind, value in zip(signature.args[0], cgutils.unpack_tuple(builder, args[0]), strict=True):
            array = context.make_array(kind)(context, builder, value)
            result = builder.and_(result, builder.icmp_signed("==", array.nitems, args[1]))
        return result

    return types.boolean(out, types.int64), codegen


@intrinsic(prefer_literal=True)
def as_result(typingctx, out, shares):
    """``as_result(out, shares)``: two arrays as a result, which has their references, or if it shares them its own."""
    result = types.BaseTuple.from_types(tuple(out), TopK)

    def codegen(context, builder, signature, args):
        if shares.literal_value:
            NRTContext(context, True).incref(builder, out, args[0])
        return context.make_tuple(builder, result, cgutils.unpack_tuple(builder, args[0]))

    return result(out, shares), codegen


@intrinsic
def free(typingctx, arrays):
    """``free(arrays)``: give up the references of a tuple."""

    def codegen(context, builder, signature, args):
        NRTContext(context, True).decref(builder, arrays, args[0])
        return context.get_dummy_value()

    return types.void(arrays), codegen
