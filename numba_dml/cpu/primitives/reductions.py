"""How an update meets the value already there: the reductions of the scatters, with NumPy's arithmetic.

16-bit floats have no type on Numba's CPU target: they arrive as uint16, with reduction codes of their own, and are
widened to float32 and rounded back for every step, as NumPy does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from ..._core.enums import TensorDataType as D
from ..._core.tensor import dtype_of
from ..._jit.compile import chosen, helper
from ..._jit.emission import intrinsic, ir
from ..._jit.machine import _converts_halves
from ..._jit.memory import SIGNED, UNSIGNED

NONE, ADD, MUL, MIN, MAX = range(5)
REDUCTIONS = ("none", "add", "mul", "min", "max")
#: Added to the code of a reduction for the bits of float16 and of bfloat16.
FLOAT16 = 10
BFLOAT16 = 20
#: Added to the codes of min and max for unsigned numbers, which arrive as signed ones.
UNSIGNED_ORDER = 30


@cache
def arithmetic_type(data_type: D, reduction: int) -> tuple[Any, int]:
    """Return the Numba type that a reduction computes in, and the code by which kernels know it."""
    if data_type is D.FLOAT16:
        return types.uint16, reduction + FLOAT16
    if data_type is D.BFLOAT16:
        return types.uint16, reduction + BFLOAT16
    if data_type is D.BOOL:  # NumPy's arithmetic of bool: add is or, mul is and
        return types.int8, {ADD: MAX, MUL: MIN}.get(reduction, reduction)
    element = getattr(types, dtype_of(data_type).name)
    if element not in UNSIGNED.values():
        return element, reduction
    # Sums and products of signed numbers have the same bits; unsigned types stand for elements that are only moved.
    return SIGNED[element.bitwidth // 8], reduction + UNSIGNED_ORDER * (reduction in (MIN, MAX))


@intrinsic
def bits_to_float(typingctx, bits):
    """Reinterpret a uint32 as a float32."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.uint32), codegen


@intrinsic
def float_to_bits(typingctx, value):
    """Reinterpret a float32 as a uint32."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.uint32))

    return types.uint32(types.float32), codegen


@helper
def half_to_float(bits):
    """Widen the bits of a float16; exact."""
    sign = (np.uint32(bits) & np.uint32(0x8000)) << np.uint32(16)
    magnitude = np.uint32(bits) & np.uint32(0x7FFF)
    if magnitude >= np.uint32(0x7C00):  # infinity and NaN: the exponent is all ones in float32 too
        return bits_to_float(
            np.uint32(sign | np.uint32(0x7F800000) | ((magnitude & np.uint32(0x3FF)) << np.uint32(13)))
        )
    # Shifted into place, the exponent is short of 112; the multiplication also puts subnormals right.
    value = bits_to_float(np.uint32(magnitude << np.uint32(13))) * np.float32(2.0**112)
    return bits_to_float(np.uint32(float_to_bits(value) | sign))


@helper
def float_to_half(value):
    """Round a float32 to the bits of a float16: to nearest, ties to even."""
    bits = float_to_bits(value)
    sign = (bits >> np.uint32(16)) & np.uint32(0x8000)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    if magnitude > np.uint32(0x7F800000):  # NaN stays NaN, also where its payload is shifted out
        payload = (magnitude >> np.uint32(13)) & np.uint32(0x3FF)
        return np.uint16(sign | np.uint32(0x7C00) | (payload if payload else np.uint32(1)))
    if magnitude >= np.uint32(0x477FF000):  # 65520 and above round to infinity
        return np.uint16(sign | np.uint32(0x7C00))
    if magnitude < np.uint32(0x38800000):  # below 2**-14: adding 0.5 leaves the subnormal in the low bits, rounded
        return np.uint16(sign | (float_to_bits(bits_to_float(magnitude) + np.float32(0.5)) & np.uint32(0x3FF | 0x400)))
    odd = (magnitude >> np.uint32(13)) & np.uint32(1)
    return np.uint16(sign | ((magnitude - np.uint32(0x38000000) + np.uint32(0xFFF) + odd) >> np.uint32(13)))


@intrinsic
def widen_half(typingctx, bits):
    """``widen_half(bits)``: what `half_to_float` does, by an instruction; a signaling NaN becomes a quiet one."""

    def codegen(context, builder, signature, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), codegen


@intrinsic
def narrow_to_half(typingctx, value):
    """``narrow_to_half(value)``: what `float_to_half` does, by an instruction; as above.

    See "Minima, maxima and 16-bit floats" in docs/measurements/cpumoves.md.
    """

    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), codegen


from_half, to_half = (widen_half, narrow_to_half) if _converts_halves() else (half_to_float, float_to_half)


@helper
def bfloat_to_float(bits):
    """Widen the bits of a bfloat16; exact."""
    return bits_to_float(np.uint32(np.uint32(bits) << np.uint32(16)))


@helper
def float_to_bfloat(value):
    """Round a float32 to the bits of a bfloat16: to nearest, ties to even."""
    bits = float_to_bits(value)
    if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@helper
def kind_of(reduction):
    """Return the code of a reduction of numbers, whether they are signed or not."""
    return reduction - UNSIGNED_ORDER if reduction > UNSIGNED_ORDER else reduction


@chosen
def in_order(reduction, value):
    """Return a number by which min and max compare (inside kernels only)."""
    if isinstance(value, types.Complex):  # there is no min or max of them, but code for the type
        return lambda reduction, value: value.real
    sign = np.int64(-1) << np.int64(value.bitwidth - 1)
    return lambda reduction, value: type(value)(value ^ (sign if reduction > UNSIGNED_ORDER else np.int64(0)))


@helper
def pick(reduction, x, y, old, new):
    """Return the minimum or the maximum of `old` and `new`, which are x and y as floats.

    The update is never taken over a NaN, and of equal values the old one stays. Each choice is by one comparison: of
    one by two LLVM makes branches, which are mispredicted where updates go anywhere. `reduction` is best a constant.
    See "Minima, maxima and 16-bit floats" in docs/measurements/cpumoves.md.
    """
    better = (new if y < x else old) if reduction == MIN else (new if y > x else old)
    first = new if x == x else old
    return better if y == y else first


@chosen
def extreme(reduction, code, old, new):
    """Return the minimum or the maximum of two numbers, as `pick` does (inside kernels only).

    `code` says the same as `reduction`, and whether what is compared are the bits of unsigned numbers.
    """

    def of_integers(reduction, code, old, new):
        x, y = in_order(code, old), in_order(code, new)
        return (new if y < x else old) if reduction == MIN else (new if y > x else old)

    floats = isinstance(old, types.Float)
    return (lambda reduction, code, old, new: pick(reduction, old, new, old, new)) if floats else of_integers


@helper
def operand(old, new):
    """Return the second operand: of two NaNs the first comes out then. Compilers swap them, and processors take one."""
    return new if old == old else old


@helper
def combine_floats(reduction, old, new):
    """Add or multiply."""
    return old + operand(old, new) if reduction == ADD else old * operand(old, new)


@chosen
def combine(reduction, old, new):
    """Return the value that an update leaves behind (inside kernels only)."""
    if isinstance(old, types.Complex):
        return _combine_complex
    if old == types.uint16:
        return _combine_16
    # Unsigned types stand for elements that are only moved (see `arithmetic_type`).
    return _combine_numbers if old not in (types.uint8, types.uint32, types.uint64) else lambda reduction, old, new: new


def _combine_complex(reduction, old, new):
    if reduction == ADD:
        return complex(combine_floats(ADD, old.real, new.real), combine_floats(ADD, old.imag, new.imag))
    # NumPy's plain formula; Numba's product follows C99 and repairs infinities.
    left, right = combine_floats(MUL, old.real, new.real), combine_floats(MUL, old.imag, new.imag)
    real = left - operand(left, right)
    imag = combine_floats(ADD, combine_floats(MUL, old.real, new.imag), combine_floats(MUL, old.imag, new.real))
    return complex(real, imag)


def _combine_numbers(reduction, old, new):
    if reduction == ADD:
        return type(old)(old + operand(old, new))
    if reduction == MUL:
        return type(old)(old * operand(old, new))
    if kind_of(reduction) == MIN:
        return extreme(MIN, reduction, old, new)
    return extreme(MAX, reduction, old, new)


def _combine_16(reduction, old, new):
    if reduction > BFLOAT16:
        kind = reduction - BFLOAT16
        x, y = bfloat_to_float(old), bfloat_to_float(new)
        if kind <= MUL:
            return float_to_bfloat(combine_floats(kind, x, y))
    else:
        kind = reduction - FLOAT16
        x, y = from_half(old), from_half(new)
        if kind <= MUL:
            return to_half(combine_floats(kind, x, y))
    return pick(MIN, x, y, old, new) if kind == MIN else pick(MAX, x, y, old, new)
