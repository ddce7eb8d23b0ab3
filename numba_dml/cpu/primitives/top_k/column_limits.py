"""Limits of neighbouring columns: which rows have an element above the limit of its column.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import islice

from numba import types

from ...._jit.compile import chosen
from ...._jit.emission import intrinsic, ir
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import emit_byte_pointer
from ..keys import (
    _LIST_BITS,
    LANES,
    ROWS_AT_ONCE,
    _place_of,
    _vector_of,
    as_mask,
    emit_larger,
    emit_levels,
    emit_rows,
    key_maker,
    load_lanes,
    load_vector,
    lowest_of,
    splat_constant,
)


def _emit_keys_of_rows(builder, ref, offset, count, step, vector, parts, rule):
    pointer = emit_byte_pointer(builder, ref, offset)
    return emit_rows(builder, pointer, count, step, vector, parts, key_maker(builder, rule, vector.count))


def _emit_best_of_rows(builder, ref, offset, count, step, vector, parts, rule):
    """Emit the best keys of some rows, in a loop: without it, that of floats takes eight times the code."""
    if count == 1:
        return next(iter(_emit_keys_of_rows(builder, ref, offset, 1, step, vector, parts, rule)))

    def raise_best(_, at, *best):
        (row,) = _emit_keys_of_rows(builder, ref, at, 1, step, vector, parts, rule)
        return builder.add(at, step), *map(partial(emit_larger, builder), row, best)

    lowest = splat_constant(vector, lowest_of(vector.element.width))
    return emit_levels(builder, step.type(count), (offset, *[lowest] * parts), raise_best)[1:]


def _columns_above(count):
    @intrinsic
    def columns_above(typingctx, ref, offset, step, limits, first, rule):
        def codegen(context, builder, signature, args):
            ref, offset, step, limits, first, rule = args
            array_type = signature.args[3]
            vector = _vector_of(array_type.dtype, 8 * CACHE_LINE)
            parts = LANES // vector.count
            word = ir.IntType(LANES)
            least = [
                load_lanes(context, builder, array_type, limits, builder.add(first, first.type(lane)), vector.count)
                for lane in range(0, LANES, vector.count)
            ]

            best = _emit_best_of_rows(builder, ref, offset, count, step, vector, parts, rule)
            found = word(0)
            for part, (keys, limit) in enumerate(zip(best, least, strict=True)):
                mask = as_mask(builder, builder.icmp_signed(">", keys, limit))
                if vector.count < LANES:
                    mask = builder.shl(builder.zext(mask, word), word(part * vector.count))
                found = builder.or_(found, mask)
            return found

        return types.uint64(ref, types.int64, types.int64, limits, types.int64, rule), codegen

    return columns_above


#: ``row_beats(ref, offset, step, limits, first, rule)``: bit i: the key of column i, of 64 from a byte offset on, is
#: above its limit, ``limits[first + i]``; ``any_row_beats``: in any of `ROWS_AT_ONCE` rows, `step` bytes apart.
row_beats, any_row_beats = _columns_above(1), _columns_above(ROWS_AT_ONCE)


@intrinsic
def rows_that_beat(typingctx, ref, offset, step, limits, first, rule):
    """``rows_that_beat(ref, offset, step, limits, first, rule)``: which rows have a key above its column's limit.

    Bit i is the one of row i; of `insert_width` columns, see `any_row_beats`.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, limits, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, _LIST_BITS)
        least = load_lanes(context, builder, array_type, limits, first, vector.count)
        word, number = ir.IntType(64), ir.IntType(vector.count)
        found = word(0)
        rows = _emit_keys_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, 1, rule)
        for row, (keys,) in enumerate(rows):
            above = builder.bitcast(builder.icmp_signed(">", keys, least), number)
            bit = builder.zext(builder.icmp_unsigned("!=", above, number(0)), word)
            found = builder.or_(found, builder.shl(bit, word(row)))
        return found

    return types.uint64(ref, types.int64, types.int64, limits, types.int64, rule), codegen


@intrinsic
def best_of_rows(typingctx, ref, offset, step, best, first, rule):
    """``best_of_rows(ref, offset, step, best, first, rule)``: write the best key of each column in some rows.

    Rows and columns are those of `any_row_beats`; they go to ``best[first : first + 64]``.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, best, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, 8 * CACHE_LINE)
        parts = LANES // vector.count

        found = _emit_best_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, parts, rule)
        for part, keys in enumerate(found):
            at = builder.add(first, first.type(part * vector.count))
            builder.store(keys, _place_of(context, builder, array_type, best, at, vector)).align = 1
        return context.get_dummy_value()

    word = types.int64
    return types.void(ref, word, word, best, word, rule), codegen


@intrinsic
def lower_limits(typingctx, ref, offset, step, limits, first, rule):
    """``lower_limits(ref, offset, step, limits, first, rule)``: lower limits to the best of each half of some rows.

    Rows and columns are those of `rows_that_beat`. What is lower already stays.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, limits, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, _LIST_BITS)
        rows = _emit_keys_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, 1, rule)
        place = _place_of(context, builder, array_type, limits, first, vector)
        limit = load_vector(builder, place, vector)
        for _ in range(2):
            key = reduce(partial(emit_larger, builder), (keys for (keys,) in islice(rows, ROWS_AT_ONCE // 2)))
            limit = builder.select(builder.icmp_signed("<", key, limit), key, limit)
        builder.store(limit, place).align = 1
        return context.get_dummy_value()

    return types.void(ref, types.int64, types.int64, limits, types.int64, rule), codegen


@chosen
def insert_width(best):
    """Return how many lists `insert_lanes` inserts into (inside kernels only)."""
    lanes = _LIST_BITS // best.dtype.bitwidth
    return lambda best: lanes
