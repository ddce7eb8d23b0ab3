"""Arithmetic on bits that takes one or two instructions."""

from __future__ import annotations

from .ptx import ptx


def wrapped(number: int, bits: int = 64) -> int:
    """Return what a register of some bits holds of a number, as one with a sign: for twins in Python."""
    half = 1 << bits - 1
    return (number + half) % (2 * half) - half


def _step(asm, arguments, twin, bits=64, of=64):
    """Return a step that can be moved and merged: its result has some bits, and its arguments have."""
    return ptx(asm, 1, arguments, twin, pure=True, bits=bits, of=of)


#: ``count_bits(word)``: how many bits of 64 are set.
count_bits = _step("popc.b64 $0, $1;", 1, int.bit_count, bits=32)
#: ``lowest_bit(word)``: the number of the lowest bit that is set in a word of 32.
lowest_bit = _step(
    "{ .reg .b32 t; cvt.u32.u64 t, $1; brev.b32 t, t; clz.b32 $0, t; }",
    1,
    lambda word: (word & -word).bit_length() - 1,
    bits=32,
)
#: ``digit_above(key, low, shift)``: how far a key is above a lowest one, as an unsigned number, without its low bits.
digit_above = _step(
    "{ .reg .u64 t; .reg .u32 n; sub.s64 t, $1, $2; cvt.u32.u64 n, $3; shr.u64 $0, t, n; }",
    3,
    lambda key, low, shift: (key - low & 0xFFFFFFFFFFFFFFFF) >> shift,
)
#: By bits of the keys: what `digit_above` is for 64. With 32 it is an int32, which is negative from 2**31 on.
DIGIT_ABOVE = {
    32: _step(
        "{ .reg .u32 a, b, n; cvt.u32.u64 a, $1; cvt.u32.u64 b, $2; cvt.u32.u64 n, $3; sub.u32 a, a, b; "
        "shr.u32 $0, a, n; }",
        3,
        lambda key, low, shift: (key - low & 0xFFFFFFFF) >> shift,
        bits=32,
    ),
    64: digit_above,
}
#: ``bits_between(low, high)``: how many bits the difference of two keys has.
bits_between = _step(
    "{ .reg .s64 t; .reg .u32 n; sub.s64 t, $2, $1; clz.b64 n, t; sub.u32 n, 64, n; cvt.u64.u32 $0, n; }",
    2,
    lambda low, high: (high - low & 0xFFFFFFFFFFFFFFFF).bit_length(),
)
#: ``raise_key(low, digit, shift)``: the key that is `digit` digits above the lowest one.
raise_key = _step(
    "{ .reg .u64 t; .reg .u32 n; cvt.u32.u64 n, $3; shl.b64 t, $2, n; add.s64 $0, $1, t; }",
    3,
    lambda low, digit, shift: wrapped(low + (digit << shift)),
)
#: ``high_product(a, b)``: the upper half of the product of two unsigned numbers of 64 bits.
high_product = _step(
    "mul.hi.u64 $0, $1, $2;", 2, lambda a, b: ((a & 0xFFFFFFFFFFFFFFFF) * (b & 0xFFFFFFFFFFFFFFFF)) >> 64
)


def _count_if(test, bits, twin):
    count = "mov.b32 n, $1;" if bits == 32 else "cvt.u32.u64 n, $1;"
    asm = f"{{ .reg .pred p; .reg .b32 n; {count} setp.{test}.s{bits} p, $2, $3; @p add.s32 n, n, 1; mov.b32 $0, n; }}"
    return _step(asm, 3, twin, bits=32, of=bits)


#: By bits of the keys: ``count_reaching(count, key, bar)``, one more than a count if a key reaches a bar, and
#: ``count_above(count, key, bar)``, the same if it is above. From Numba's own code each takes an instruction more.
COUNT_REACHING = {bits: _count_if("ge", bits, lambda count, key, bar: count + (key >= bar)) for bits in (32, 64)}
COUNT_ABOVE = {bits: _count_if("gt", bits, lambda count, key, bar: count + (key > bar)) for bits in (32, 64)}
#: ``negative_word(number)``: the lower 32 bits of what a number is below 0.
negative_word = _step(
    "{ .reg .u32 t; cvt.u32.u64 t, $1; neg.s32 $0, t; }", 1, lambda number: wrapped(-number, 32), bits=32
)
#: By bits of the keys: ``reversed_key(key, low)``, how far a key is above a lowest one, with all bits turned around: as
#: a number without a sign it is the lower, the better the key.
REVERSED_KEY = {
    32: _step(
        "{ .reg .u32 a, b; cvt.u32.u64 a, $1; cvt.u32.u64 b, $2; sub.u32 a, a, b; not.b32 $0, a; }",
        2,
        lambda key, low: wrapped(~(key - low), 32),
        bits=32,
    ),
    64: _step("{ .reg .u64 t; sub.u64 t, $1, $2; not.b64 $0, t; }", 2, lambda key, low: wrapped(~(key - low))),
}
#: ``half_word(word, shift)``: the 16 bits of a word from one on.
half_word = _step(
    "{ .reg .u32 t; shr.u32 t, $1, $2; and.b32 $0, t, 0xFFFF; }",
    2,
    lambda word, shift: word >> shift & 0xFFFF,
    bits=32,
    of=32,
)
