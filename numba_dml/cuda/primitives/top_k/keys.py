"""The keys of elements, on the device: integers that compare like the elements (see `numba_dml._order`).

Keys of up to 32 bits are int32: half the steps and half the registers of int64. Where only the best of many is wanted,
the elements need not become keys one by one, which takes seven steps for a float: the device compares single floats,
pairs of half floats, and, as if they were such pairs, pairs of bytes, in one.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.context import least_capability
from ...driver.numba import cuda
from ..access import LOAD_INDEX, load_quad, unit_access
from ..plan import number
from ..ptx import ptx


def _better(form):
    """Return the twin of a maximum of floats in a word, of those numbers that are no NaN."""
    count = struct.calcsize("<i") // struct.calcsize(form)
    bits = 32 // count

    def twin(a, b):
        pairs = zip(
            *(struct.unpack(f"<{count}{form}", struct.pack("<I", word & 0xFFFFFFFF)) for word in (a, b)), strict=True
        )
        found = 0
        for i, (x, y) in enumerate(pairs):
            word = b if y > x or x != x else a
            found |= word & ((1 << bits) - 1) << bits * i
        return found - (found >> 31 << 32)

    return twin


#: ``best_single(a, b)``: the larger of two float32, of which one may be a NaN.
best_single = ptx(
    "{ .reg .f32 a, b; mov.b32 a, $1; mov.b32 b, $2; max.f32 a, a, b; mov.b32 $0, a; }",
    1,
    2,
    _better("f"),
    pure=True,
    bits=32,
    of=32,
)
#: ``best_halves(a, b)``: the same for two pairs of float16, or of bytes with zeros before them.
best_halves = ptx("max.f16x2 $0, $1, $2;", 1, 2, _better("e"), pure=True, bits=32, of=32)
#: The first devices that have it.
HALVES_CAPABILITY = (8, 0)
_HALF_INFINITY = 0x7C00
_EVEN_BYTES = 0x00FF00FF


def key_type(width: int) -> type[np.signedinteger]:
    """Return the type of the keys of elements of `width` bytes."""
    return np.int32 if width <= 4 else np.int64


class Words(NamedTuple):
    """How the device's own maximum finds the best of words of elements, if it follows the rule (`follows_rule`)."""

    mask_of: object  #: ``mask_of(plan)``: what turns words into such that the larger are the better
    best: object  #: ``best(words, mask)``: a word that has the best of four
    better: object  #: ``better(a, b)``: a word that has the best of two of these
    key_of: object  #: ``key_of(word, mask, plan)``: the best key of such a word


class Keys(NamedTuple):
    """How kernels get the keys of the elements of a width and kind."""

    key_of: object  #: ``key_of(bits, plan)``
    key_at: object  #: ``key_at(address, plan)``
    #: ``bits_of(key, plan)``: an element's bits, and whether it has these: zeros have one key, and so have NaNs
    bits_of: object
    best_of_quad: object  #: ``best_of_quad(address, plan)``: the best key of 16 aligned bytes
    bests_of_quads: object  #: ``bests_of_quads(a, b, c, d, plan)``: of 16 bytes at each of four addresses
    best_of_quads: object  #: ``best_of_quads(address, step, plan)``: of four times as many, at equal steps
    best_of_four: object  #: ``best_of_four(a, b, c, d, plan)``: of elements at four addresses
    put_bests: object  #: ``put_bests(keys, address, step, count, plan)``: list the best of each element of 16 bytes
    load_quad: object  #: 16 aligned bytes, as words
    put_keys: object  #: ``put_keys(keys, words, plan)``: list the keys of these
    comparable: object  #: ``comparable(plan)``: whether the device's own maximum follows the rule
    words: Words | None


@cache
def device_maximum(width: int, is_float: bool) -> tuple[bool, bool]:
    """Tell whether the devices compare such elements as pairs of half floats, and whether in words at all."""
    in_halves = (width == 1 or (width == 2 and is_float)) and least_capability() >= HALVES_CAPABILITY
    return in_halves, in_halves or (width == 4 and is_float)


def follows_rule(width: int, is_float: bool, rule: tuple[int, int, int]) -> bool:
    """Tell whether the devices' own maximum follows a rule of keys, as `comparable` does on the device."""
    _, at_once = device_maximum(width, is_float)
    return at_once and (width == 1 or (rule[2] < 0 and (width == 4 or rule[1] == _HALF_INFINITY)))


@cache
def element_keys(width: int, is_float: bool, flip_field: int):
    """Return ``key_of(bits, plan)``, ``bits_of(key, plan)`` and ``key_at(address, plan)``."""
    load, key = LOAD_INDEX[f"int{8 * width}"], key_type(width)
    largest = (1 << (8 * width - 1)) - 1

    @helper
    def key_of_float(bits, plan):
        magnitude = key(bits & largest)
        if magnitude > key(number(plan, flip_field + 1)):
            return key(number(plan, flip_field + 2))
        return key((-magnitude if bits < 0 else magnitude) ^ number(plan, flip_field))

    @helper
    def key_of_integer(bits, plan):
        return key(bits ^ number(plan, flip_field))

    @helper
    def bits_of_float(its_key, plan):
        turned = its_key ^ number(plan, flip_field)
        plain = turned != 0 and its_key != number(plan, flip_field + 2)
        return (-turned ^ (-1 - largest) if turned < 0 else turned), plain

    @helper
    def bits_of_integer(its_key, plan):
        return its_key ^ number(plan, flip_field), True

    key_of, bits_of = (key_of_float, bits_of_float) if is_float else (key_of_integer, bits_of_integer)

    @helper
    def key_at(address, plan):
        return key_of(key(load(address)), plan)

    return key_of, bits_of, key_at


@cache
def word_keys(width: int, is_float: bool, flip_field: int):
    """Return ``best_of_word(word, plan)``, ``best_of_words(words, plan)`` and ``put_keys(keys, words, plan)``.

    They make a key of each element, one by one.
    """
    key_of, *_ = element_keys(width, is_float, flip_field)
    key, of_word = key_type(width), 4 // width
    largest = (1 << (8 * width - 1)) - 1

    @helper
    def key_in_word(word, shift, plan):
        if width == 4:
            return key_of(key(word), plan)
        bits = word >> shift & (2 * largest + 1)
        return key_of(key((bits ^ (largest + 1)) - (largest + 1)), plan)  # the sign comes from the element's upper bit

    @helper
    def best_of_word(word, plan):
        best = key_in_word(word, 0, plan)
        for shift in range(8 * width, 32, 8 * width):
            best = max(best, key_in_word(word, shift, plan))
        return best

    @helper
    def best_of_words(words, plan):
        a, b, c, d = words
        return max(max(best_of_word(a, plan), best_of_word(b, plan)), max(best_of_word(c, plan), best_of_word(d, plan)))

    @helper
    def keys_of_word(keys, at, word, plan):
        for j in range(of_word):
            keys[of_word * at + j] = key_in_word(word, 8 * width * j, plan)

    @helper
    def put_keys(keys, quad, plan):
        if width == 8:
            keys[0], keys[1] = key_of(quad[0], plan), key_of(quad[1], plan)
        else:
            for j in range(4):
                keys_of_word(keys, j, quad[j], plan)

    return best_of_word, best_of_words, put_keys


@cache
def device_words(width: int, is_float: bool, flip_field: int):
    """Return ``comparable(plan)``, whether the device's own maximum follows the rule, and the steps if it does."""
    key_of, *_ = element_keys(width, is_float, flip_field)
    best_of_word, *_ = word_keys(width, is_float, flip_field)
    key = key_type(width)
    better = best_halves if device_maximum(width, is_float)[0] else best_single
    # What is turned over, of the bits that a word's elements have: the order of bytes is an unsigned one.
    turned = {1: 0x01010101 * 0xFF, 2: 0x80008000 - (1 << 32), 4: -1 << 31}.get(width, 0)
    unsigned = 0x80 if width == 1 else 0

    @helper
    def comparable(plan):
        """Tell whether it does: a NaN must never be the best."""
        if width == 1:
            return True
        return number(plan, flip_field + 2) < 0 and (width == 4 or number(plan, flip_field + 1) == _HALF_INFINITY)

    @helper
    def mask_of(plan):
        flip = number(plan, flip_field)
        if width == 1:
            byte = (flip ^ unsigned) & 0xFF
            return np.int32(byte * 0x010101 + (((byte ^ unsigned) - unsigned) << 24))  # the upper one has the sign
        return np.int32(flip & turned)

    @helper
    def best_by_device(words, mask):
        a, b, c, d = words
        a, b, c, d = np.int32(a ^ mask), np.int32(b ^ mask), np.int32(c ^ mask), np.int32(d ^ mask)
        if width == 1:
            even = better(
                better(a & _EVEN_BYTES, b & _EVEN_BYTES),
                better(c & _EVEN_BYTES, d & _EVEN_BYTES),
            )
            odd = better(
                better(a >> 8 & _EVEN_BYTES, b >> 8 & _EVEN_BYTES),
                better(c >> 8 & _EVEN_BYTES, d >> 8 & _EVEN_BYTES),
            )
            return better(even, odd)
        return better(better(a, b), better(c, d))

    @helper
    def key_of_best(word, mask, plan):
        if width == 4:
            return key_of(np.int32(word ^ mask), plan)
        if width == 2:
            return best_of_word(np.int32(word ^ mask), plan)
        return key(max(word & 0xFF, word >> 16 & 0xFF) - unsigned)

    return comparable, Words(mask_of, best_by_device, better, key_of_best)


@cache
def quad_bests(width: int, is_float: bool, flip_field: int):
    """Return `Keys`' steps for the best key of 16 bytes, of four times as many, and of four elements."""
    key_of, _, key_at = element_keys(width, is_float, flip_field)
    _, best_of_words, _ = word_keys(width, is_float, flip_field)
    comparable, (mask_of, best_by_device, better, key_of_best) = device_words(width, is_float, flip_field)
    load, (load_pair, _) = LOAD_INDEX[f"int{8 * width}"], unit_access(16)
    _, at_once = device_maximum(width, is_float)

    @helper
    def best_of_quad(address, plan):
        if width == 8:
            first, second = load_pair(address)
            return max(key_of(first, plan), key_of(second, plan))
        words = load_quad(address)
        if at_once and comparable(plan):
            mask = mask_of(plan)
            return key_of_best(best_by_device(words, mask), mask, plan)
        return best_of_words(words, plan)

    # All are loaded before one is looked at: a question between two loads lets the second wait for the first.

    @helper
    def bests_of_quads(a, b, c, d, plan):
        if width == 8:
            (a, a2), (b, b2), (c, c2), (d, d2) = load_pair(a), load_pair(b), load_pair(c), load_pair(d)
            first, second = max(key_of(a, plan), key_of(a2, plan)), max(key_of(b, plan), key_of(b2, plan))
            return first, second, max(key_of(c, plan), key_of(c2, plan)), max(key_of(d, plan), key_of(d2, plan))
        a, b, c, d = load_quad(a), load_quad(b), load_quad(c), load_quad(d)
        if at_once and comparable(plan):
            mask = mask_of(plan)
            first = key_of_best(best_by_device(a, mask), mask, plan)
            second = key_of_best(best_by_device(b, mask), mask, plan)
            third = key_of_best(best_by_device(c, mask), mask, plan)
            return first, second, third, key_of_best(best_by_device(d, mask), mask, plan)
        return best_of_words(a, plan), best_of_words(b, plan), best_of_words(c, plan), best_of_words(d, plan)

    @helper
    def best_of_quads(address, step, plan):
        if at_once and comparable(plan):
            mask = mask_of(plan)
            a, b = load_quad(address), load_quad(address + step)
            c, d = load_quad(address + 2 * step), load_quad(address + 3 * step)
            first = better(best_by_device(a, mask), best_by_device(b, mask))
            return key_of_best(better(first, better(best_by_device(c, mask), best_by_device(d, mask))), mask, plan)
        # Not by `bests_of_quads`: see docs/measurements/cudakernels.md, "The best of four quads".
        first = max(best_of_quad(address, plan), best_of_quad(address + step, plan))
        return max(first, max(best_of_quad(address + 2 * step, plan), best_of_quad(address + 3 * step, plan)))

    @helper
    def best_of_four(a, b, c, d, plan):
        if at_once and width > 1 and comparable(plan):
            mask = mask_of(plan)
            words = np.int32(load(a)), np.int32(load(b)), np.int32(load(c)), np.int32(load(d))
            best = np.int32(best_by_device(words, mask) ^ mask)
            return key_of(best if width == 4 else np.int32((best & 0xFFFF ^ 0x8000) - 0x8000), plan)
        return max(max(key_at(a, plan), key_at(b, plan)), max(key_at(c, plan), key_at(d, plan)))

    return best_of_quad, bests_of_quads, best_of_quads, best_of_four


@cache
def row_bests(width: int, is_float: bool, flip_field: int):
    """Return ``put_bests(keys, address, step, count, plan)``: it lists the best of each element of 16 bytes in rows."""
    *_, put_keys = word_keys(width, is_float, flip_field)
    comparable, (mask_of, _, better, _) = device_words(width, is_float, flip_field)
    load_words = unit_access(16)[0] if width == 8 else load_quad
    key, of_quad = key_type(width), 16 // width
    _, at_once = device_maximum(width, is_float)

    @helper
    def turned(words, mask):
        a, b, c, d = words
        return np.int32(a ^ mask), np.int32(b ^ mask), np.int32(c ^ mask), np.int32(d ^ mask)

    @helper
    def better_words(words, others):
        a, b, c, d = words
        return better(a, others[0]), better(b, others[1]), better(c, others[2]), better(d, others[3])

    @helper
    def put_bests(keys, address, step, count, plan):
        if at_once and width > 1 and comparable(plan):
            mask = mask_of(plan)
            best = turned(load_quad(address), mask)
            end = address + count * step
            address += step
            while address + step < end:  # two at once
                first, second = load_quad(address), load_quad(address + step)
                best = better_words(best, better_words(turned(first, mask), turned(second, mask)))
                address += 2 * step
            if address < end:
                best = better_words(best, turned(load_quad(address), mask))
            put_keys(keys, turned(best, mask), plan)
        else:
            some = cuda.local.array(of_quad, key)
            put_keys(keys, load_words(address), plan)
            for _ in range(1, count):
                address += step
                put_keys(some, load_words(address), plan)
                for j in range(of_quad):
                    keys[j] = max(keys[j], some[j])

    return put_bests


@cache
def key_access(width: int, is_float: bool, flip_field: int) -> Keys:
    """Return how to get keys; a plan has the rule's three numbers from `flip_field` on."""
    key_of, bits_of, key_at = element_keys(width, is_float, flip_field)
    best_of_quad, bests_of_quads, best_of_quads, best_of_four = quad_bests(width, is_float, flip_field)
    comparable, words = device_words(width, is_float, flip_field)
    return Keys(
        key_of=key_of,
        key_at=key_at,
        bits_of=bits_of,
        best_of_quad=best_of_quad,
        bests_of_quads=bests_of_quads,
        best_of_quads=best_of_quads,
        best_of_four=best_of_four,
        put_bests=row_bests(width, is_float, flip_field),
        load_quad=unit_access(16)[0] if width == 8 else load_quad,
        put_keys=word_keys(width, is_float, flip_field)[2],
        comparable=comparable,
        words=words if device_maximum(width, is_float)[1] else None,
    )
