"""The best keys of blocks of 64 elements."""

from __future__ import annotations

from functools import reduce

from numba import types

from ...._jit.compile import chosen, helper
from ...._jit.copies import emit_prefetch
from ...._jit.emission import intrinsic, ir
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import splat
from ..keys import (
    _NORMAL,
    _SIGNED,
    BLOCKS_AT_ONCE,
    LANES,
    _are_compared,
    _emit_larger_float,
    _floats_of,
    _opaque,
    _place_of,
    emit_key,
    emit_larger,
    key_of,
    load_lanes,
    lowest_key,
    lowest_of,
    rule_values,
    splat_constant,
)


def _load_parts(context, builder, array_type, array, at):
    """Emit the loads of 64 elements, in vectors of 64 bytes."""
    lanes = 8 * CACHE_LINE // array_type.dtype.bitwidth
    for part in range(0, LANES, lanes):
        yield load_lanes(context, builder, array_type, array, builder.add(at, at.type(part)), lanes)


def _emit_best(builder, blocks, larger):
    """Emit a vector of the largest lane of each block, in their order; the blocks are a power of two, of vectors.

    Of each block one vector is left; then two of these become one whose lanes are turn and turn about of their blocks,
    by shuffles that stay within 16 bytes where they can: four blocks of 16 lanes take 13 steps more, where each alone
    takes 8.
    """

    def fold(first, second, low, high):
        low, high = (
            builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))
            for lanes in (low, high)
        )
        return larger(builder, high, low)

    blocks = [reduce(lambda best, vector: larger(builder, vector, best), vectors) for vectors in blocks]
    groups, count = 1, blocks[0].type.count
    while len(blocks) > 1:
        units = count // groups  # of a lane for each block
        near = max(units // (CACHE_LINE // 16), 2)  # of these, how many share 16 bytes
        sides = [
            [
                vector * count + unit * groups + lane
                for unit in range(units)
                if (unit % near < near // 2) == is_low
                for vector in range(2)
                for lane in range(groups)
            ]
            for is_low in (True, False)
        ]
        blocks = [fold(first, second, *sides) for first, second in zip(blocks[::2], blocks[1::2], strict=True)]
        groups *= 2
    (best,) = blocks
    while (half := best.type.count // 2) >= groups:
        best = fold(best, best, list(range(half)), list(range(half, 2 * half)))
    return best


def _emit_best_keys(context, builder, array_type, row, at, values, blocks):
    """Emit a vector of the best key of neighbouring blocks; `values` are those of the rule."""

    def keys(block):
        parts = _load_parts(context, builder, array_type, row, builder.add(at, at.type(block * LANES)))
        return [emit_key(builder, part, [splat(builder, value, part.type.count) for value in values]) for part in parts]

    return _emit_best(builder, [keys(block) for block in range(blocks)], emit_larger)


def _emit_best_floats(context, builder, array_type, row, at, turn, blocks):
    """Emit a vector of the bits of the largest float of neighbouring blocks, whose bits are ``row[at + i] ^ turn``.

    NaNs are passed over; if there are no others, it is -infinity.
    """

    def floats(block):
        parts = list(_load_parts(context, builder, array_type, row, builder.add(at, at.type(block * LANES))))
        count = parts[0].type.count
        turns, kind = splat(builder, turn, count), _floats_of(turn.type.width, count)
        lowest = splat_constant(kind, float("-inf"))
        return [lowest, *(builder.bitcast(builder.xor(part, turns), kind) for part in parts)]

    found = _emit_best(builder, [floats(block) for block in range(blocks)], _emit_larger_float)
    return builder.bitcast(found, ir.VectorType(turn.type, blocks))


def _first(builder, vector):
    """Emit the first lane of a vector."""
    return builder.extract_element(vector, ir.IntType(32)(0))


@intrinsic
def best_key(typingctx, row, at, rule):
    """``best_key(row, at, rule)``: the best of 64 keys, from ``row[at]`` on."""

    def codegen(context, builder, signature, args):
        values = rule_values(builder, signature.args[2], args[2])
        return _first(builder, _emit_best_keys(context, builder, signature.args[0], *args[:2], values, 1))

    return row.dtype(row, types.int64, rule), codegen


@intrinsic
def best_float(typingctx, row, at, turn):
    """``best_float(row, at, turn)``: the bits of the largest of 64 floats, see `_emit_best_floats`."""

    def codegen(context, builder, signature, args):
        return _first(builder, _emit_best_floats(context, builder, signature.args[0], *args, 1))

    return row.dtype(row, types.int64, row.dtype), codegen


@intrinsic
def best_keys(typingctx, row, at, best, first, rule):
    """``best_keys(row, at, best, first, rule)``: write the best key of each of four blocks, from ``best[first]`` on."""

    def codegen(context, builder, signature, args):
        values = rule_values(builder, signature.args[4], args[4])
        found = _emit_best_keys(context, builder, signature.args[0], *args[:2], values, BLOCKS_AT_ONCE)
        builder.store(found, _place_of(context, builder, signature.args[2], *args[2:4], found.type)).align = 1
        return context.get_dummy_value()

    return types.void(row, types.int64, best, types.int64, rule), codegen


@intrinsic
def best_floats(typingctx, row, at, best, first, turn, rule):
    """``best_floats(row, at, best, first, turn, rule)``: the same for floats, as `best_float` compares them."""

    def codegen(context, builder, signature, args):
        turn = args[4]
        values = [splat(builder, value, BLOCKS_AT_ONCE) for value in rule_values(builder, signature.args[5], args[5])]
        found = _emit_best_floats(context, builder, signature.args[0], *args[:2], turn, BLOCKS_AT_ONCE)
        found = emit_key(builder, builder.xor(found, splat(builder, turn, BLOCKS_AT_ONCE)), values)
        builder.store(found, _place_of(context, builder, signature.args[2], *args[2:4], found.type)).align = 1
        return context.get_dummy_value()

    return types.void(row, types.int64, best, types.int64, row.dtype, rule), codegen


def best_lane(row, at, rule):
    """``best_lane(row, at, rule)``: the best of 64 keys, from ``row[at]`` on, or what may stand for it.

    For floats alone, which are compared as such: where all are NaN, and NaN comes last, it is the key of an infinity
    (see `least_bound`); where the best is subnormal, it may be that of another subnormal or a zero (see `lane_limit`).
    """
    raise NotImplementedError


@chosen(best_lane)
def _best_lane(row, at, rule):
    if not _are_compared(rule, row.dtype.bitwidth):
        return lambda row, at, rule: best_key(row, at, rule)
    sign = _SIGNED[row.dtype.bitwidth](lowest_of(row.dtype.bitwidth))

    def choose(row, at, rule):
        if rule[2] > rule[1]:  # NaN comes first
            return best_key(row, at, rule)
        turn = sign & rule[0]
        return key_of(row.dtype.type(best_float(row, at, turn) ^ turn), rule)

    return choose


def best_lanes(row, at, best, first, rule):
    """``best_lanes(row, at, best, first, rule)``: write `best_lane` of four neighbouring blocks."""
    raise NotImplementedError


@chosen(best_lanes)
def _best_lanes(row, at, best, first, rule):
    if not _are_compared(rule, row.dtype.bitwidth):
        return lambda row, at, best, first, rule: best_keys(row, at, best, first, rule)
    sign = _SIGNED[row.dtype.bitwidth](lowest_of(row.dtype.bitwidth))

    def choose(row, at, best, first, rule):
        if rule[2] > rule[1]:  # NaN comes first
            best_keys(row, at, best, first, rule)
        else:
            best_floats(row, at, best, first, sign & rule[0], rule)

    return choose


@helper
def best_lane_plain(row, at, rule):
    """Return what `best_lane` returns, in plain Numba; the keys of NaNs too."""
    best = lowest_key(row)
    for i in range(LANES):
        best = max(best, key_of(row[at + i], rule))
    return best


def least_bound(row, rule):
    """``least_bound(row, rule)``: the least bound from which on what `best_lane` finds above it is an element's key."""
    raise NotImplementedError


@chosen(least_bound)
def _least_bound(row, rule):
    least = _SIGNED[row.dtype.bitwidth](lowest_of(row.dtype.bitwidth) + 1)
    if len(rule) == 1:
        return lambda row, rule: least
    return lambda row, rule: row.dtype.type(-rule[1])  # the key of an infinity, or the next one


def lane_limit(threshold, rule):
    """``lane_limit(threshold, rule)``: what `best_lane` is above where any element is above a threshold."""
    raise NotImplementedError


@chosen(lane_limit)
def _lane_limit(threshold, rule):
    if not _are_compared(rule, threshold.bitwidth):
        return lambda threshold, rule: threshold
    normal = _NORMAL[threshold.bitwidth]
    kind = _SIGNED[threshold.bitwidth]

    def limit(threshold, rule):
        # The processor may compare subnormal numbers as zeros.
        return kind(-normal - 1) if -normal <= threshold <= normal else threshold

    return limit


@intrinsic
def raise_lanes(typingctx, row, at, best, first, rule):
    """``raise_lanes(row, at, best, first, rule)``: raise 64 of the best keys to those of ``row[at:]``."""

    def codegen(context, builder, signature, args):
        lanes = load_lanes(context, builder, signature.args[0], args[0], args[1])
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[4], args[4])]
        keys = emit_key(builder, lanes, values)
        before = load_lanes(context, builder, signature.args[2], args[2], args[3])
        # If LLVM saw that it is the same place, it would store by masks: 64-bit keys took four times as long.
        place = _place_of(context, builder, signature.args[2], args[2], _opaque(builder, args[3]), before.type)
        builder.store(emit_larger(builder, keys, before), place).align = 1
        return context.get_dummy_value()

    return types.void(row, types.int64, best, types.int64, rule), codegen


@helper
def raise_lanes_plain(row, at, best, first, rule):
    """Do what `raise_lanes` does, in plain Numba."""
    for i in range(LANES):
        best[first + i] = max(best[first + i], key_of(row[at + i], rule))


@intrinsic
def prefetch_lanes(typingctx, row, at):
    """``prefetch_lanes(row, at)``: ask for 64 elements; they need not belong to the array. It has no twin."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        for byte in range(0, LANES * row.dtype.bitwidth // 8, CACHE_LINE):
            emit_prefetch(builder, builder.gep(pointer, [ir.Constant(ir.IntType(64), byte)]))
        return context.get_dummy_value()

    return types.void(row, types.int64), codegen
