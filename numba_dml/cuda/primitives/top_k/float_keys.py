"""Keys of floats by the device's own comparisons, and keys over places in one word."""

from __future__ import annotations

from ...driver.numba import SIMULATED
from ..ptx import ptx

if not SIMULATED:
    from .register_lists import intrinsic, ir, types


def keys_over_places(width, count):
    """Return ``join(words, place)``: of keys of 1 or 2 bytes, each one over 16 bits, which count down."""
    of_word = 4 // width
    keys = 8 * width
    if SIMULATED:

        def join(words, place):
            bits = (int(words[i // of_word]) >> i % of_word * keys & (1 << keys) - 1 for i in range(count))
            return tuple(_as_int32(b << 32 - keys | place - i) for i, b in enumerate(bits))

        return join

    register = ir.IntType(32)
    kind = ir.FunctionType(register, [register, register])

    @intrinsic
    def join(typingctx, words, place):
        result = types.UniTuple(types.int32, count)

        def codegen(context, builder, signature, args):
            place = builder.trunc(args[1], register)
            joined = []
            for i in range(count):
                j = i % of_word
                selector = 0x1054 + 0x2200 * j if width == 2 else 0x0654 + 0x1000 * j
                code = ir.InlineAsm(kind, f"prmt.b32 $0, $1, $2, {selector};", "=r,r,r")
                word = builder.extract_value(args[0], i // of_word)
                joined.append(builder.call(code, [word, builder.sub(place, ir.Constant(register, i))]))
            return context.make_tuple(builder, result, joined)

        return result(words, place), codegen

    return join


def _as_int32(value):
    return value - (1 << 32) if value >> 31 > 0 else value


def _float_keys(bits, kind, infinity):
    """Return the keys of floats, see `FLOAT_KEYS`."""
    sign, ones = 1 << (bits - 1), sum(1 << shift for shift in range(0, 32, bits))

    def of_one(b, negative, turned):
        magnitude = b & sign - 1
        if magnitude > infinity:
            magnitude = sign - 1
        elif (b & sign != 0) != negative and magnitude != 0:
            magnitude ^= 2 * sign - 1
        return (magnitude ^ turned) & 2 * sign - 1

    def twin(word, scale, turned):
        negative = scale >> 31 & 1 == 1
        parts = (of_one(word >> shift & 2 * sign - 1, negative, turned) << shift for shift in range(0, 32, bits))
        return _as_int32(sum(parts))

    return ptx(
        "{ .reg .b32 x, s, t; cvt.u32.u64 x, $1; cvt.u32.u64 s, $2; mov.b32 t, 0; "
        f"fma.rn.{kind} x, x, s, t; shr.u32 t, x, {bits - 1}; and.b32 t, t, {ones}; mul.lo.u32 t, t, {sign - 1}; "
        "xor.b32 x, x, t; cvt.u32.u64 t, $3; xor.b32 $0, x, t; }",
        1,
        3,
        twin,
        pure=True,
        bits=32,
    )


#: By the bits of infinity: ``keys(word, scale, turned)``, the key of a float of 32 bits, or those of two of 16 bits.
#: A multiplication by `scale`, one or minus one, and an addition of zero leave one zero and one NaN, whose bits are all
#: set but for the sign. So it has the highest key, and if all keys are `turned`, by -1, the lowest.
FLOAT_KEYS = {
    0x7F800000: _float_keys(32, "f32", 0x7F800000),
    0x7C00: _float_keys(16, "f16x2", 0x7C00),
    0x7F80: _float_keys(16, "bf16x2", 0x7F80),
}
#: The bits of one, of a float of 32 bits and of two of 16 bits, and the signs.
FLOAT_ONES = {0x7F800000: 0x3F800000, 0x7C00: 0x3C003C00, 0x7F80: 0x3F803F80}
