"""Keys: integers whose plain ``>`` means "better", for every element type, direction and NaN rule.

The bits of an element are read as a signed integer b of its width W. Integers: ``b ^ flip``, where `flip` moves the
sign of unsigned types and complements for "smallest". Floats: the magnitude, negated below zero (-0 and +0 become one
key), ``^ flip``, and one key for all NaNs: the lowest or the highest integer, which no number has. A rule is the tuple
``(flip,)`` or ``(flip, infinity, nan_key)``; its length tells integers from floats at compile time.

The scan of a top-k asks 64 elements at once which of them beat a threshold. LLVM does not vectorise the plain loop into
a bit mask (3-4 times slower), so `beats` is an intrinsic in portable vector IR, with the plain twin `beats_plain`. Both
the scalar key and the vector one come from the same emitter.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic, overload

from . import helper

#: How many elements one mask covers.
LANES = 64
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _emit_key(builder, bits, rule):
    """Emit the key of an integer or of a vector of integers; `rule` holds values of the same type."""
    if len(rule) == 1:
        return builder.xor(bits, rule[0])
    flip, infinity, nan_key = rule
    width = bits.type.element.width if isinstance(bits.type, ir.VectorType) else bits.type.width
    zero = ir.Constant(bits.type, None)
    magnitude = builder.and_(bits, _splat_constant(bits.type, (1 << (width - 1)) - 1))
    signed = builder.select(builder.icmp_signed("<", bits, zero), builder.sub(zero, magnitude), magnitude)
    key = builder.xor(signed, flip)
    return builder.select(builder.icmp_signed(">", magnitude, infinity), nan_key, key)


def _splat_constant(typ, value):
    return ir.Constant(typ, [value] * typ.count if isinstance(typ, ir.VectorType) else value)


def _splat(builder, value, count):
    """Repeat a scalar in every lane of a vector."""
    vector = ir.VectorType(value.type, count)
    lane = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), None)
    return builder.shuffle_vector(lane, ir.Constant(vector, ir.Undefined), zeros)


def _rule_values(builder, rule_type, rule):
    return [builder.extract_value(rule, i) for i in range(len(rule_type))]


@intrinsic
def key_of(typingctx, bits, rule):
    """``key_of(bits, rule)``: the key of one element."""

    def codegen(context, builder, signature, args):
        return _emit_key(builder, args[0], _rule_values(builder, signature.args[1], args[1]))

    return rule.dtype(rule.dtype, rule), codegen


def _load_lanes(context, builder, array_type, array, at):
    """Emit the load of 64 neighbouring elements of an array, at any alignment."""
    data = context.make_array(array_type)(context, builder, array).data
    vector = ir.VectorType(ir.IntType(array_type.dtype.bitwidth), LANES)
    pointer = builder.bitcast(builder.gep(data, [at]), vector.as_pointer())
    lanes = builder.load(pointer, typ=vector)
    lanes.align = 1
    return lanes


@intrinsic
def beats(typingctx, row, at, threshold, rule):
    """``beats(row, at, threshold, rule)``: bit i tells whether the key of ``row[at + i]`` is above the threshold."""

    def codegen(context, builder, signature, args):
        lanes = _load_lanes(context, builder, signature.args[0], args[0], args[1])
        values = [_splat(builder, value, LANES) for value in _rule_values(builder, signature.args[3], args[3])]
        above = builder.icmp_signed(">", _emit_key(builder, lanes, values), _splat(builder, args[2], LANES))
        return builder.bitcast(above, ir.IntType(LANES))

    return types.uint64(row, types.int64, row.dtype, rule), codegen


@intrinsic
def beats_each(typingctx, row, at, thresholds, first, rule):
    """``beats_each(row, at, thresholds, first, rule)``: as `beats`, with a threshold for every element."""

    def codegen(context, builder, signature, args):
        lanes = _load_lanes(context, builder, signature.args[0], args[0], args[1])
        limits = _load_lanes(context, builder, signature.args[2], args[2], args[3])
        values = [_splat(builder, value, LANES) for value in _rule_values(builder, signature.args[4], args[4])]
        above = builder.icmp_signed(">", _emit_key(builder, lanes, values), limits)
        return builder.bitcast(above, ir.IntType(LANES))

    return types.uint64(row, types.int64, thresholds, types.int64, rule), codegen


@helper
def beats_plain(row, at, threshold, rule):
    """Return what `beats` returns, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        if key_of(row[at + i], rule) > threshold:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@helper
def beats_each_plain(row, at, thresholds, first, rule):
    """Return what `beats_each` returns, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        if key_of(row[at + i], rule) > thresholds[first + i]:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@intrinsic
def lowest_bit(typingctx, mask):
    """``lowest_bit(mask)``: the position of the lowest set bit; the mask must not be 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


def rule_from(ref, plan, at):
    """Return the rule that a plan holds at position `at` (inside kernels only)."""
    raise NotImplementedError


@overload(rule_from)
def _rule_from(ref, plan, at):
    kind = _SIGNED[ref.dtype.bitwidth]
    if ref.is_float:
        return lambda ref, plan, at: (kind(plan[at]), kind(plan[at + 1]), kind(plan[at + 2]))
    return lambda ref, plan, at: (kind(plan[at]),)


def key_buffer(ref, shape):
    """Return an empty array for keys of a reference's elements (inside kernels only)."""
    raise NotImplementedError


@overload(key_buffer)
def _key_buffer(ref, shape):
    kind = _SIGNED[ref.dtype.bitwidth]
    return lambda ref, shape: np.empty(shape, kind)


def rule_numbers(
    width: int, is_float: bool, is_signed: bool, largest: bool, nan_largest: bool, infinity: int
) -> tuple[int, int, int]:
    """Return ``(flip, infinity, nan_key)`` of an element type, as a plan holds them.

    `width` in bits; `infinity` the bits of +inf. NaN keys: a NaN is never chosen while a number is left, unless it
    counts as the largest and the largest are wanted.
    """
    lowest = -(1 << (width - 1))
    flip = 0 if largest else -1
    if not is_float and not is_signed:
        flip ^= lowest
    nan_key = -lowest - 1 if nan_largest and largest else lowest
    return flip, infinity, nan_key
