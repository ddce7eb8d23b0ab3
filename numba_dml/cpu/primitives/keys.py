"""Keys: integers whose plain ``>`` means "better", for every element type, direction and NaN rule.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import types

from ..._jit.compile import chosen
from ..._jit.emission import intrinsic, ir
from ..._jit.memory import empty, splat

#: How many elements one mask covers.
LANES = 64
#: Elements that every buffer has behind its last one if vector steps scan it: a step that starts at any element reads
#: LANES of them.
SPARE = LANES
#: How many rows of columns are looked at together.
ROWS_AT_ONCE = 8
#: How many blocks of elements are surveyed together.
BLOCKS_AT_ONCE = 4
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
#: The bits of the keys of neighbouring columns that are inserted into their lists together.
_LIST_BITS = 256


def lowest_of(width):
    """Return the lowest integer of `bits` bits; its one bit is the sign."""
    return -(1 << (width - 1))


def _emit_key(builder, bits, rule):
    """Emit the key of an integer or of a vector of integers; `rule` holds values of the same type."""
    if len(rule) == 1:
        return builder.xor(bits, rule[0])
    flip, infinity, nan_key = rule
    width = bits.type.element.width if isinstance(bits.type, ir.VectorType) else bits.type.width
    zero = ir.Constant(bits.type, None)
    magnitude = builder.and_(bits, splat_constant(bits.type, ~lowest_of(width)))
    signed = builder.select(builder.icmp_signed("<", bits, zero), builder.sub(zero, magnitude), magnitude)
    key = builder.xor(signed, flip)
    return builder.select(builder.icmp_signed(">", magnitude, infinity), nan_key, key)


def splat_constant(typ, value):
    return ir.Constant(typ, [value] * typ.count if isinstance(typ, ir.VectorType) else value)


def as_mask(builder, bits):
    """Emit the conversion of a vector of bits to a number.

    The empty instruction keeps LLVM from moving the conversion behind a branch: where two ways to a mask meet, it would
    carry 64 separate bits through, for 37 ns instead of 5.
    """
    return _opaque(builder, builder.bitcast(bits, ir.IntType(bits.type.count)))


def _opaque(builder, number):
    """Emit an empty instruction, behind which LLVM no longer knows what a number is."""
    return builder.asm(ir.FunctionType(number.type, [number.type]), "", "=r,0", [number], False)


def key_maker(builder, rule, lanes=0):
    """Emit what keys need of a rule; return what emits the keys of a vector of `lanes`, or that of a single element."""
    values = [builder.extract_value(rule, i) for i in range(rule.type.count)]
    if lanes:
        values = [splat(builder, value, lanes) for value in values]
    return lambda bits: _emit_key(builder, bits, values)


@intrinsic
def key_of(typingctx, bits, rule):
    """``key_of(bits, rule)``: the key of one element."""

    def codegen(context, builder, signature, args):
        return key_maker(builder, args[1])(args[0])

    return rule.dtype(rule.dtype, rule), codegen


def _vector_of(dtype, bits):
    return ir.VectorType(ir.IntType(dtype.bitwidth), bits // dtype.bitwidth)


def _place_of(context, builder, array_type, array, at, vector):
    """Emit the pointer to a vector in an array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def load_vector(builder, pointer, vector):
    """Emit the load of a vector, at any alignment."""
    lanes = builder.load(pointer, typ=vector)
    lanes.align = 1
    return lanes


def load_lanes(context, builder, array_type, array, at, count=LANES):
    """Emit the load of neighbouring elements of an array."""
    vector = _vector_of(array_type.dtype, count * array_type.dtype.bitwidth)
    return load_vector(builder, _place_of(context, builder, array_type, array, at, vector), vector)


def emit_larger(builder, a, b):
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def emit_rows(builder, pointer, count, step, vector, parts, read):
    """Emit what is read from parts of a row, side by side, for each of `count` rows that are `step` bytes apart.

    `read` turns bits into what is wanted, keys for example. A row's parts come together: where rows are short, the
    memory is then read from one end to the other. 100,000 rows of 64 float64 take 1.7 ms, 6.5 part by part.
    """
    for row in range(count):
        if row:
            pointer = builder.gep(pointer, [step])
        lanes = []
        for part in range(parts):
            at = builder.gep(pointer, [step.type(part * vector.count * vector.element.width // 8)])
            lanes.append(read(load_vector(builder, builder.bitcast(at, vector.as_pointer()), vector)))
        yield lanes


def emit_levels(builder, count, carried, body):
    """Emit a loop over places of lists; ``body(level, *carried)`` emits one, and returns what it carries on."""
    word = ir.IntType(64)
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("level", "insert", "inserted"))
    builder.branch(head)
    builder.position_at_end(head)
    phis = [builder.phi(value.type) for value in (word(0), *carried)]
    for phi, value in zip(phis, (word(0), *carried), strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", phis[0], count), inside, after)
    builder.position_at_end(inside)
    for phi, value in zip(phis, (builder.add(phis[0], word(1)), *body(*phis)), strict=True):
        phi.add_incoming(value, inside)
    builder.branch(head)
    builder.position_at_end(after)
    return phis[1:]


@intrinsic
def lowest_bit(typingctx, mask):
    """``lowest_bit(mask)``: the position of the lowest set bit; the mask must not be 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic
def bit_count(typingctx, mask):
    """``bit_count(mask)``: how many bits are set."""
    return types.int64(types.uint64), lambda context, builder, signature, args: builder.ctpop(args[0])


@chosen
def rule_from(ref, plan, at):
    """Return the rule that a plan holds at position `at` (inside kernels only)."""
    kind = _SIGNED[ref.dtype.bitwidth]
    if ref.is_float:
        return lambda ref, plan, at: (kind(plan[at]), kind(plan[at + 1]), kind(plan[at + 2]))
    return lambda ref, plan, at: (kind(plan[at]),)


@partial(chosen, allocates=True)
def key_buffer(ref, shape):
    """Return an empty array for keys of a reference's elements (inside kernels only)."""
    kind = _SIGNED[ref.dtype.bitwidth]
    return lambda ref, shape: empty(shape, kind)


@partial(chosen, allocates=True)
def place_buffer(ref, shape):
    """Return an empty array for positions, as wide as keys: then one mask chooses both (inside kernels only)."""
    kind = _SIGNED[max(ref.dtype.bitwidth, 32)]
    return lambda ref, shape: empty(shape, kind)


@chosen
def lowest_key(array):
    """Return the lowest key that an array can hold (inside kernels only)."""
    lowest = _SIGNED[array.dtype.bitwidth](lowest_of(array.dtype.bitwidth))
    return lambda array: lowest
