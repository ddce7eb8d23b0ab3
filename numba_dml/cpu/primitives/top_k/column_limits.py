"""Limits of neighbouring columns: which rows have an element above the limit of its column.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import chain, islice

import numpy as np
from numba import types

from ...._jit.compile import chosen, helper
from ...._jit.emission import intrinsic, ir
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import emit_byte_pointer, itemsize, load, splat
from ..keys import (
    _LIST_BITS,
    _NORMAL,
    LANES,
    ROWS_AT_ONCE,
    _are_compared,
    _emit_larger_float,
    _floats_of,
    _opaque,
    _place_of,
    _vector_of,
    as_mask,
    emit_larger,
    emit_levels,
    emit_rows,
    key_of,
    load_lanes,
    load_vector,
    lowest_key,
    lowest_of,
    read_keys,
    rule_values,
    splat_constant,
)


def _emit_keys_of_rows(builder, ref, offset, count, step, vector, parts, rule):
    pointer = emit_byte_pointer(builder, ref, offset)
    return emit_rows(builder, pointer, count, step, vector, parts, read_keys(builder, rule, vector.count))


def _emit_larger_rows(builder, rows, larger=emit_larger):
    """Emit the larger of each place of some rows, see `emit_rows`."""
    return reduce(lambda best, row: list(map(partial(larger, builder), row, best)), rows)


def _emit_best_of_rows(builder, ref, offset, count, step, vector, parts, rule):
    """Emit the best keys of some rows.

    Those of floats, which are needed where `_emit_largest_of_rows` does not tell, take an eighth of the code, row by
    row: that is faster to compile, and hardly slower.
    """
    if count == 1 or not _are_compared(rule, vector.element.width):
        return _emit_larger_rows(builder, _emit_keys_of_rows(builder, ref, offset, count, step, vector, parts, rule))

    def raise_best(_, at, *best):
        rows = _emit_keys_of_rows(builder, ref, at, 1, step, vector, parts, rule)
        return builder.add(at, step), *_emit_larger_rows(builder, [best, *rows])

    lowest = splat_constant(vector, lowest_of(vector.element.width))
    return emit_levels(builder, step.type(count), (offset, *[lowest] * parts), raise_best)[1:]


def _emit_largest_of_rows(builder, ref, offset, count, step, vector, parts, turn):
    """Emit the largest floats of some rows, see `emit_rows`, whose bits are ``bits ^ turn``.

    NaNs are passed over; if there are no others, it is -infinity. A vector takes two instructions so, with AVX-512, and
    seven by keys.
    """
    floats = _floats_of(vector.element.width, vector.count)
    turns = splat(builder, turn, vector.count)

    def read(bits):
        return builder.bitcast(builder.xor(bits, turns), floats)

    lowest = [splat_constant(floats, float("-inf"))] * parts
    # LLVM must not see that keys load the same, see `beats_floats`.
    pointer = emit_byte_pointer(builder, ref, _opaque(builder, offset))
    rows = emit_rows(builder, pointer, count, step, vector, parts, read)
    return _emit_larger_rows(builder, chain([lowest], rows), _emit_larger_float)


def _emit_turn(builder, rule):
    """Emit what turns the signs of floats if the smallest are wanted."""
    flip = rule[0]
    return builder.and_(flip, flip.type(lowest_of(flip.type.width)))


def _are_ordered(builder, rule):
    """Emit whether NaNs come last."""
    return builder.icmp_signed("<", rule[2], rule[1])


def _emit_either(builder, condition, one, other):
    """Emit the choice between two ways to a value, if they have one; the first is the likely one."""
    values = []
    with builder.if_else(condition, likely=True) as branches:
        for branch, way in zip(branches, (one, other), strict=True):
            with branch:
                values.append((way(), builder.block))
    if values[0][0] is None:
        return None
    found = builder.phi(values[0][0].type)
    for value, block in values:
        found.add_incoming(value, block)
    return found


def _emit_limit(builder, limit, rule):
    """Emit the floats that others, turned, are above where their keys are above the limits; and for which that holds.

    Not for limits that are subnormal or zero, since subnormal numbers may count as zeros (see `beats`), or NaN.
    """
    count, width = limit.type.count, limit.type.element.width
    flip, infinity, _ = (splat(builder, value, count) for value in rule)
    number = builder.sub(limit, flip)
    sign = builder.and_(number, splat_constant(limit.type, lowest_of(width)))
    magnitude = builder.select(builder.icmp_signed("<", number, sign.type(None)), builder.neg(number), number)
    least = splat_constant(limit.type, _NORMAL[width])
    normal = builder.icmp_unsigned("<=", builder.sub(magnitude, least), builder.sub(infinity, least))
    return builder.bitcast(builder.or_(magnitude, sign), _floats_of(width, count)), normal


def _columns_above(count):
    @intrinsic
    def columns_above(typingctx, ref, offset, step, limits, first, rule):
        def codegen(context, builder, signature, args):
            ref, offset, step, limits, first, rule = args
            array_type = signature.args[3]
            vector = _vector_of(array_type.dtype, 8 * CACHE_LINE)
            parts = LANES // vector.count
            values = rule_values(builder, signature.args[5], rule)
            word = ir.IntType(LANES)
            least = [
                load_lanes(context, builder, array_type, limits, builder.add(first, first.type(lane)), vector.count)
                for lane in range(0, LANES, vector.count)
            ]

            def mask_of(above):
                found = word(0)
                for part, bits in enumerate(above):
                    mask = as_mask(builder, bits)
                    if vector.count < LANES:
                        mask = builder.shl(builder.zext(mask, word), word(part * vector.count))
                    found = builder.or_(found, mask)
                return found

            def by_keys():
                best = _emit_best_of_rows(builder, ref, offset, count, step, vector, parts, values)
                return mask_of(map(partial(builder.icmp_signed, ">"), best, least))

            def by_floats():
                turn = _emit_turn(builder, values)
                best = _emit_largest_of_rows(builder, ref, offset, count, step, vector, parts, turn)
                return mask_of(map(partial(builder.fcmp_ordered, ">"), best, floats))

            if count == 1 or not _are_compared(values, vector.element.width):
                return by_keys()
            floats, normal = zip(*(_emit_limit(builder, part, values) for part in least), strict=True)
            normal = as_mask(builder, reduce(builder.and_, normal))
            usable = builder.and_(_are_ordered(builder, values), builder.icmp_signed("==", normal, normal.type(-1)))
            return _emit_either(builder, usable, by_floats, by_keys)

        return types.uint64(ref, types.int64, types.int64, limits, types.int64, rule), codegen

    return columns_above


#: ``row_beats(ref, offset, step, limits, first, rule)``: bit i: the key of column i, of 64 from a byte offset on, is
#: above its limit, ``limits[first + i]``; ``any_row_beats``: in any of `ROWS_AT_ONCE` rows, `step` bytes apart.
row_beats, any_row_beats = _columns_above(1), _columns_above(ROWS_AT_ONCE)


@helper
def columns_above_plain(ref, offset, count, step, limits, first, rule):
    """Return what `row_beats` and `any_row_beats` return for one row or several, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        for row in range(count):
            if key_of(load(ref, offset + row * step + i * itemsize(ref)), rule) > limits[first + i]:
                mask |= np.uint64(1) << np.uint64(i)
    return mask


@intrinsic
def rows_that_beat(typingctx, ref, offset, step, limits, first, rule):
    """``rows_that_beat(ref, offset, step, limits, first, rule)``: which rows have a key above its column's limit.

    Bit i is the one of row i; of `insert_width` columns, see `any_row_beats`.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, limits, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, _LIST_BITS)
        values = rule_values(builder, signature.args[5], rule)
        least = load_lanes(context, builder, array_type, limits, first, vector.count)
        word, number = ir.IntType(64), ir.IntType(vector.count)
        found = word(0)
        rows = _emit_keys_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, 1, values)
        for row, (keys,) in enumerate(rows):
            above = builder.bitcast(builder.icmp_signed(">", keys, least), number)
            bit = builder.zext(builder.icmp_unsigned("!=", above, number(0)), word)
            found = builder.or_(found, builder.shl(bit, word(row)))
        return found

    return types.uint64(ref, types.int64, types.int64, limits, types.int64, rule), codegen


@helper
def rows_that_beat_plain(ref, offset, step, limits, first, rule):
    """Return what `rows_that_beat` returns, in plain Numba."""
    mask = np.uint64(0)
    for row in range(ROWS_AT_ONCE):
        for i in range(insert_width(limits)):
            if key_of(load(ref, offset + row * step + i * itemsize(ref)), rule) > limits[first + i]:
                mask |= np.uint64(1) << np.uint64(row)
    return mask


@intrinsic
def best_of_rows(typingctx, ref, offset, step, best, first, rule):
    """``best_of_rows(ref, offset, step, best, first, rule)``: write the best key of each column in some rows.

    Rows and columns are those of `any_row_beats`; they go to ``best[first : first + 64]``. Of floats, unless
    NaN comes first, a subnormal one or a zero may stand for another subnormal one (see `lane_limit`), even if the zero
    is not there, and the lowest key for the infinity that comes last.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, best, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, 8 * CACHE_LINE)
        parts = LANES // vector.count
        values = rule_values(builder, signature.args[5], rule)

        def write(found):
            for part, keys in enumerate(found):
                at = builder.add(first, first.type(part * vector.count))
                builder.store(keys, _place_of(context, builder, array_type, best, at, vector)).align = 1

        def by_keys():
            write(_emit_best_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, parts, values))

        def by_floats():
            turn = _emit_turn(builder, values)
            read, turns = read_keys(builder, values, vector.count), splat(builder, turn, vector.count)
            lowest = splat_constant(vector, lowest_of(vector.element.width))

            def key(largest):
                none = builder.fcmp_ordered("==", largest, splat_constant(largest.type, float("-inf")))
                return builder.select(none, lowest, read(builder.xor(builder.bitcast(largest, vector), turns)))

            write(map(key, _emit_largest_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, parts, turn)))

        if _are_compared(values, vector.element.width):
            _emit_either(builder, _are_ordered(builder, values), by_floats, by_keys)
        else:
            by_keys()
        return context.get_dummy_value()

    word = types.int64
    return types.void(ref, word, word, best, word, rule), codegen


@helper
def best_of_rows_plain(ref, offset, step, best, first, rule):
    """Do what `best_of_rows` does, in plain Numba."""
    for lane in range(LANES):
        best[first + lane] = lowest_key(best)
        for row in range(ROWS_AT_ONCE):
            key = best.dtype.type(key_of(load(ref, offset + row * step + lane * itemsize(ref)), rule))
            best[first + lane] = max(best[first + lane], key)


@intrinsic
def lower_limits(typingctx, ref, offset, step, limits, first, rule):
    """``lower_limits(ref, offset, step, limits, first, rule)``: lower limits to the best of each half of some rows.

    Rows and columns are those of `rows_that_beat`. What is lower already stays.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, limits, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, _LIST_BITS)
        values = rule_values(builder, signature.args[5], rule)
        rows = _emit_keys_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, 1, values)
        place = _place_of(context, builder, array_type, limits, first, vector)
        limit = load_vector(builder, place, vector)
        for _ in range(2):
            (key,) = _emit_larger_rows(builder, islice(rows, ROWS_AT_ONCE // 2))
            limit = builder.select(builder.icmp_signed("<", key, limit), key, limit)
        builder.store(limit, place).align = 1
        return context.get_dummy_value()

    return types.void(ref, types.int64, types.int64, limits, types.int64, rule), codegen


@helper
def lower_limits_plain(ref, offset, step, limits, first, rule):
    """Do what `lower_limits` does, in plain Numba."""
    half = ROWS_AT_ONCE // 2
    for lane in range(insert_width(limits)):
        for begin in (0, half):
            key = lowest_key(limits)
            for row in range(begin, begin + half):
                key = max(key, limits.dtype.type(key_of(load(ref, offset + row * step + lane * itemsize(ref)), rule)))
            limits[first + lane] = min(limits[first + lane], key)


def insert_width(best):
    """Return how many lists `insert_lanes` inserts into (inside kernels only)."""
    raise NotImplementedError


@chosen(insert_width)
def _insert_width(best):
    lanes = _LIST_BITS // best.dtype.bitwidth
    return lambda best: lanes
