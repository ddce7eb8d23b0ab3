"""The keys of elements, on the device: integers that are the higher, the better the element.

This is the order of elements in the kernels of top-k, argmin and argmax. Keys are made without branches, those of a
word of 32 bits side by side: one of 4 bytes, two of 2 or four of 1; an element of 8 bytes is a word of its own. A
kernel is compiled for the width of elements and, if they are floats, the bits of infinity, which tell float16 and
bfloat16 apart; 0: they are integers. The plan has the rest of the rule, three numbers from `FLIP` on: see
`_core.lowering.rule_numbers`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ..access import LOAD_INDEX, load_quad, unit_access
from ..bits import wrapped
from ..plan import number
from ..ptx import ptx
from .plan import FLIP, INDEX_SIZE, write_index


def key_type(width: int) -> type[np.signedinteger]:
    """Return the type of the keys of elements of `width` bytes: 32 bits take half the steps of 64, and registers."""
    return np.int32 if width <= 4 else np.int64


def lowest_key(width: int) -> int:
    """Return the lowest number of that type, which stands for no element."""
    return int(np.iinfo(key_type(width)).min)


def _float_keys(bits, product, infinity):
    """Return ``keys(word, scale, turned)``: the key of a float of 32 bits, or those of two of 16 bits.

    ``x * scale + 0``, with a `scale` of one or minus one, makes -0 zero, and every NaN the one with all bits but the
    sign, which has the highest key. If NaN comes last, `turned` is -1: all keys are complemented, so that NaN has the
    lowest one, and `scale` has the other sign to make up for it.
    """
    sign, shifts = 1 << (bits - 1), range(0, 32, bits)

    def of_one(b, negative, turned):
        magnitude = b & sign - 1
        if magnitude > infinity:
            magnitude = sign - 1
        elif (b & sign != 0) != negative and magnitude != 0:
            magnitude ^= 2 * sign - 1
        return (magnitude ^ turned) & 2 * sign - 1

    def twin(word, scale, turned):
        negative = scale >> 31 & 1 == 1
        return wrapped(sum(of_one(word >> shift & 2 * sign - 1, negative, turned) << shift for shift in shifts), 32)

    signs = 0xBBBB if bits == 32 else 0xBB99  # of each byte: copies of the sign of its float
    return ptx(
        f"{{ .reg .b32 s, t, u; mov.b32 t, 0; {product} prmt.b32 t, s, s, {signs}; "
        f"and.b32 t, t, {sum(sign - 1 << shift for shift in shifts)}; xor.b32 s, s, t; xor.b32 $0, s, $3; }}",
        1,
        3,
        twin,
        pure=True,
        bits=32,
        of=32,
    )


#: Two bfloat16 are multiplied as the upper halves of two float32, which every device can.
_BFLOAT_PRODUCT = (
    "and.b32 s, $1, 0xFFFF0000; shl.b32 u, $1, 16; fma.rn.f32 s, s, $2, t; fma.rn.f32 u, u, $2, t; "
    "prmt.b32 s, u, s, 0x7632;"
)
#: By the bits of infinity: the keys of floats, the bits of one, as a factor, and those of its sign.
FLOAT_KEYS = {
    0x7F800000: (_float_keys(32, "fma.rn.f32 s, $1, $2, t;", 0x7F800000), 0x3F800000, 1 << 31),
    0x7C00: (_float_keys(16, "fma.rn.f16x2 s, $1, $2, t;", 0x7C00), 0x3C003C00, 0x80008000),
    0x7F80: (_float_keys(16, _BFLOAT_PRODUCT, 0x7F80), 0x3F800000, 1 << 31),
}


@cache
def word_keys(width: int, infinity: int):
    """Return ``keys_of(word, plan)``, the keys of a word, and ``bits_of(key, plan)``, an element's bits by its key.

    The latter also tells if these are the bits: zeros have one key, and so have NaNs.
    """
    key, sign = key_type(width), 1 << (8 * width - 1)
    words = sum(1 << shift for shift in range(0, 32, 8 * width))
    float_keys, one, signs = FLOAT_KEYS.get(infinity, (None, 0, 0))

    @helper
    def of_float(word, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)  # NaN comes last
        return float_keys(word, ((number(plan, FLIP) ^ turned) & signs) ^ one, turned)

    @helper
    def of_wide_float(bits, plan):
        flip, limit, of_nan = number(plan, FLIP), number(plan, FLIP + 1), number(plan, FLIP + 2)  # no load in a branch
        magnitude = np.int64(bits & (sign - 1))
        its_key = np.int64((-magnitude if bits < 0 else magnitude) ^ flip)
        return of_nan if magnitude > limit else its_key

    @helper
    def of_integers(word, plan):
        flip = number(plan, FLIP)
        if width < 4:
            flip = ((flip & (2 * sign - 1)) * words ^ (1 << 31)) - (1 << 31)
        return key(word ^ flip)

    @helper
    def float_of(its_key, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)
        y = np.int64(its_key) ^ turned
        bits = y ^ (sign - 1) if y < 0 else y
        return bits ^ ((number(plan, FLIP) ^ turned) & -sign), y != 0 and y != sign - 1

    @helper
    def wide_float_of(its_key, plan):
        y = its_key ^ number(plan, FLIP)
        # Not -y: of the key of NaN that overflows, which the simulator reports.
        return ((~y ^ -sign) + 1 if y < 0 else y), y != 0 and its_key != number(plan, FLIP + 2)

    @helper
    def integer_of(its_key, plan):
        return np.int64(its_key) ^ number(plan, FLIP), True

    if infinity == 0:
        return of_integers, integer_of
    return (of_wide_float, wide_float_of) if width == 8 else (of_float, float_of)


class Keys(NamedTuple):
    """How kernels get the keys of the elements of a width and kind."""

    keys_of: object  #: ``keys_of(word, plan)``: those of a word, side by side
    bits_of: object  #: ``bits_of(key, plan, address)``: an element's bits; zeros and NaNs, which share a key, are read
    key_in: object  #: ``key_in(keys, j)``: one of those of a word
    key_at: object  #: ``key_at(address, plan)``: the key of an element
    load_quad: object  #: ``load_quad(address)``: 16 aligned bytes, as words
    put_keys: object  #: ``put_keys(keys, quad, plan)``: list the keys of these
    best_of_quad: object  #: ``best_of_quad(quad, plan)``: the best of them
    bests_of_quads: object  #: ``bests_of_quads(address, near, far, plan)``: of four times 16 bytes, see below
    best_inside: object  #: ``best_inside(line, plan, first, size)``: of 16 bytes that lie in a line in part, or not


@cache
def key_access(width: int, infinity: int) -> Keys:
    """Return how to get keys."""
    keys_of, plain_bits = word_keys(width, infinity)
    load, load_words = LOAD_INDEX[f"int{8 * width}"], unit_access(16)[0] if width == 8 else load_quad
    key, of_word, of_quad, key_bits = key_type(width), max(4 // width, 1), 16 // width, 8 * width
    words, lowest = of_quad // of_word, lowest_key(width)

    @helper
    def bits_of(its_key, plan, address):
        bits, plain = plain_bits(its_key, plan)
        return bits if plain else np.int64(load(address))

    @helper
    def key_in(keys, j):
        if width >= 4:
            return key(keys)
        part = (np.int64(keys) >> (key_bits * j)) & ((1 << key_bits) - 1)
        return key((part ^ (1 << (key_bits - 1))) - (1 << (key_bits - 1)))

    @helper
    def key_at(address, plan):
        return key_in(keys_of(load(address), plan), 0)

    @helper
    def put_keys(keys, quad, plan):
        for i in range(words):
            word = keys_of(quad[i], plan)
            for j in range(of_word):
                keys[of_word * i + j] = key_in(word, j)

    @helper
    def best_of_word(word, plan):
        keys = keys_of(word, plan)
        best = key_in(keys, 0)
        for j in range(1, of_word):
            best = max(best, key_in(keys, j))
        return best

    @helper
    def best_of_quad(quad, plan):
        best = max(best_of_word(quad[0], plan), best_of_word(quad[1], plan))
        if words > 2:
            best = max(best, max(best_of_word(quad[2 % words], plan), best_of_word(quad[3 % words], plan)))
        return best

    @helper
    def bests_of_quads(address, near, far, plan):
        """The second is `near` bytes from the first, the third `far`. All are loaded before one is looked at."""
        second, third, fourth = address + near, address + far, address + far + near
        a, b, c, d = load_words(address), load_words(second), load_words(third), load_words(fourth)
        return best_of_quad(a, plan), best_of_quad(b, plan), best_of_quad(c, plan), best_of_quad(d, plan)

    @helper
    def best_inside(line, plan, first, size):
        best = key(lowest)
        if -of_quad < first < size:
            for i in range(first, first + of_quad):  # an element twice does no harm
                best = max(best, key_at(line + max(np.int64(0), min(i, size - 1)) * width, plan))
        return best

    return Keys(keys_of, bits_of, key_in, key_at, load_words, put_keys, best_of_quad, bests_of_quads, best_inside)


@helper
def put_words(words, loaded):
    """List words that were loaded together."""
    for i in range(len(loaded)):
        words[i] = loaded[i]


@cache
def result_writer(width: int, infinity: int):
    """Return ``write_result(values, indices, plan, at, key, address, position)``: the value comes back from its key."""
    bits_of, (_, store) = key_access(width, infinity).bits_of, unit_access(width)

    @helper
    def write_result(values, indices, plan, at, key, address, position):
        store(values + at * width, bits_of(key, plan, address), 0)
        write_index(indices, number(plan, INDEX_SIZE), at, position)

    return write_result


@cache
def bar_tester(count: int):
    """Return ``reaching(keys, bar, ties)``: which of `count` keys reach a bar, or are equal, as bits."""

    @helper
    def reaching(keys, bar, ties):
        found = np.uint32(0)
        for j in range(count):
            if keys[j] == bar or (keys[j] > bar and not ties):
                found = np.uint32(found | np.uint32(1 << j))
        return found

    return reaching
