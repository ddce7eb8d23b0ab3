"""Masks: which elements of a line have a key above a threshold, 64 at once."""

from __future__ import annotations

import numpy as np
from numba import types

from ...._jit.compile import chosen, helper
from ...._jit.emission import intrinsic, ir
from ...._jit.memory import splat
from ..keys import (
    _NORMAL,
    _SIGNED,
    LANES,
    WIDE,
    _are_compared,
    _floats_of,
    _opaque,
    as_mask,
    emit_key,
    key_of,
    load_lanes,
    lowest_of,
    rule_values,
    splat_constant,
)


@intrinsic
def beats_keys(typingctx, row, at, threshold, rule):
    """``beats_keys(row, at, threshold, rule)``: bit i: the key of ``row[at + i]`` is above the threshold."""

    def codegen(context, builder, signature, args):
        lanes = load_lanes(context, builder, signature.args[0], args[0], args[1])
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[3], args[3])]
        above = builder.icmp_signed(">", emit_key(builder, lanes, values), splat(builder, args[2], LANES))
        return as_mask(builder, above)

    return types.uint64(row, types.int64, row.dtype, rule), codegen


@intrinsic
def differs_at_the_end(typingctx, row, at, key, last, rule):
    """``differs_at_the_end(row, at, key, last, rule)``: whether a key of ``row[at : at + 64]`` differs from `key`.

    That is, in the bits of `last` alone.
    """

    def codegen(context, builder, signature, args):
        row, at, key, last, rule = args
        lanes = load_lanes(context, builder, signature.args[0], row, at)
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[4], rule)]
        apart = builder.xor(emit_key(builder, lanes, values), splat(builder, key, LANES))
        less = builder.add(apart, splat_constant(apart.type, -1))  # 0, which is none, becomes more than `last`
        found = builder.icmp_unsigned("<", less, splat(builder, last, LANES))
        mask = builder.bitcast(found, ir.IntType(LANES))
        return builder.icmp_signed("!=", mask, mask.type(0))

    return types.boolean(row, types.int64, row.dtype, row.dtype, rule), codegen


@helper
def differs_at_the_end_plain(row, at, key, last, rule):
    """Return what `differs_at_the_end` returns, in plain Numba."""
    for i in range(LANES):
        other = key_of(row[at + i], rule)
        if other != key and other & ~last == key & ~last:
            return True
    return False


@intrinsic
def beats_floats(typingctx, row, at, limit, turn, rest):
    """``beats_floats(row, at, limit, turn, rest)``: bit i: ``row[at + i] ^ turn``, a float, is above a limit.

    The bits of `rest` are inverted. NaNs are above nothing.
    """

    def codegen(context, builder, signature, args):
        # LLVM must not see that `beats_keys` loads the same: it would load before the choice, more than registers hold.
        bits = load_lanes(context, builder, signature.args[0], args[0], _opaque(builder, args[1]))
        floats = _floats_of(args[2].type.width, LANES)
        limits = builder.bitcast(splat(builder, args[2], LANES), floats)
        lanes = builder.bitcast(builder.xor(bits, splat(builder, args[3], LANES)), floats)
        return builder.xor(as_mask(builder, builder.fcmp_ordered(">", lanes, limits)), args[4])

    return types.uint64(row, types.int64, row.dtype, row.dtype, types.uint64), codegen


def beats(row, at, threshold, rule):
    """``beats(row, at, threshold, rule)``: bit i tells whether the key of ``row[at + i]`` is above the threshold."""
    raise NotImplementedError


@chosen(beats)
def _beats(row, at, threshold, rule):
    if not _are_compared(rule, row.dtype.bitwidth):
        return lambda row, at, threshold, rule: beats_keys(row, at, threshold, rule)
    kind = _SIGNED[row.dtype.bitwidth]
    sign = kind(lowest_of(row.dtype.bitwidth))
    normal = kind(_NORMAL[row.dtype.bitwidth])

    def choose(row, at, threshold, rule):
        # Comparing floats is several times as fast as making and comparing their keys. Subnormal numbers may count as
        # zero there (a library may have switched them off), which a normal limit does not feel.
        number = threshold ^ rule[0]
        turn, rest = kind(0), np.uint64(0)
        if rule[2] > threshold:  # NaNs beat it too: what is not (x or -x > the number before the limit)
            turn, number, rest = (sign, ~number, ~rest) if rule[0] == 0 else (turn, number - 1, ~rest)
        elif rule[0] != 0:  # the smallest are wanted: both signs turn
            turn, number = sign, -number
        magnitude = -number if number < 0 else number
        if normal <= magnitude <= rule[1]:
            return beats_floats(row, at, kind(magnitude | (number & sign)), turn, rest)
        return beats_keys(row, at, threshold, rule)

    return choose


@intrinsic
def any_beats(typingctx, row, at, threshold, rule):
    """``any_beats(row, at, threshold, rule)``: whether any of 256 keys from ``row[at]`` on is above the threshold."""

    def codegen(context, builder, signature, args):
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[3], args[3])]
        limits = splat(builder, args[2], LANES)
        found = ir.Constant(ir.VectorType(ir.IntType(1), LANES), None)
        for part in range(WIDE // LANES):
            place = builder.add(args[1], args[1].type(part * LANES))
            lanes = load_lanes(context, builder, signature.args[0], args[0], place)
            found = builder.or_(found, builder.icmp_signed(">", emit_key(builder, lanes, values), limits))
        mask = as_mask(builder, found)
        return builder.icmp_unsigned("!=", mask, mask.type(0))

    return types.boolean(row, types.int64, row.dtype, rule), codegen


def skip_lanes(row, at, end, threshold, rule):
    """``skip_lanes(row, at, end, threshold, rule)``: leave out single bytes none of which beats the threshold."""
    raise NotImplementedError


@chosen(skip_lanes)
def _skip_lanes(row, at, end, threshold, rule):
    if row.dtype.bitwidth > 8:
        return lambda row, at, end, threshold, rule: at

    def skip(row, at, end, threshold, rule):
        while at + WIDE <= end and not any_beats(row, at, threshold, rule):
            at += WIDE
        return at

    return skip


@helper
def beats_plain(row, at, threshold, rule):
    """Return what `beats` returns, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        if key_of(row[at + i], rule) > threshold:
            mask |= np.uint64(1) << np.uint64(i)
    return mask
