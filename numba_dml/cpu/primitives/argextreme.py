"""Argmin and argmax: the plan, the vector steps, and how the best of lines are kept and written.

Elements become keys (see `keys`). The elements of a line are counted by positions; of the highest key the element with
the lowest position is wanted. A key and its position are kept as two int64.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from numba import types

from ..._core.shapes import LINE_FIELDS
from ..._jit.compile import chosen, helper
from ..._jit.copies import emit_prefetch
from ..._jit.emission import intrinsic, ir
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import emit_byte_pointer, emit_load, itemsize, load, splat
from .keys import (
    _place_of,
    _vector_of,
    as_mask,
    emit_larger,
    emit_levels,
    emit_rows,
    key_maker,
    key_of,
    load_vector,
    lowest_bit,
    lowest_key,
    lowest_of,
    splat_constant,
)
from .lines import unravelled, write_index

#: The bits of a vector, and how many vectors of a line are looked at together.
VECTOR_BITS, AT_ONCE = 512, 4
#: Bytes of a line that are prefetched ahead: also those of the next line, while the place in this one is looked for.
AHEAD = 4096
#: A key below all, and the position of no element.
NOTHING, NOWHERE = -(1 << 63), (1 << 63) - 1
# The header of a plan; all strides of the input are in bytes, those of the output in elements. There follow the
# dimensions of the lines, and those of a line, but for the innermost: `LINE_FIELDS` each.
(
    LINES,  # how many lines
    DIMS,  # how many dimensions the lines have
    TOTAL,  # elements of a line
    OUTER_DIMS,  # how many dimensions a line has, but for the innermost
    SIZE,  # elements of the innermost dimension
    STRIDE,  # from one of these to the next
    STEP,  # the same of their positions
    START,  # where the first line starts in the input, in the output, and its first position
    OUT_START,
    FIRST,
    BACKWARDS,  # 1: indices are counted from the end
    ORDERED,  # 1: elements lie in memory in the order of their positions
    BEST,  # the highest key that an element can have
    INDEX_SIZE,  # bytes of an index
    RULE,  # the rule of the keys: three numbers
    BLOCK,  # elements that are compared before the best of them is looked for
    TILE,  # columns that are looked at together; 1: a line
    CUTS,  # pieces of a line or of a tile that threads share
    ROWS,  # what is cut: elements of a line, or rows of columns
    FOLD,  # rows of columns that are taken for one row: then columns stand for every `FOLD`th element
    PIECES,  # pieces of a line whose best are compared: CUTS, with folded rows CUTS * FOLD and what is left of them
    LOW,  # the lowest byte of the input, relative to its first element
    HIGH,
    OUT_BYTES,
    HEADER,
) = (*range(15), *range(17, 27))


@helper
def inner_dimension(plan):
    """Return where the innermost dimension of the lines starts in a plan."""
    return HEADER + LINE_FIELDS * (plan[DIMS] - 1)


@helper
def line_start(plan, line):
    """Return where a line starts in the input and in the output."""
    source, to = unravelled(plan, HEADER, plan[DIMS], line)
    return source + plan[START], to + plan[OUT_START]


@helper
def run_start(plan, outer):
    """Return where a row of the innermost dimension starts in a line, in bytes, and its first position."""
    offset, position = unravelled(plan, HEADER + LINE_FIELDS * plan[DIMS], plan[OUTER_DIMS], outer)
    return offset, position + plan[FIRST]


@helper
def write_position(out, plan, to, position):
    """Write the index of a position."""
    index = plan[TOTAL] - 1 - position if plan[BACKWARDS] != 0 else position
    write_index(out, plan[INDEX_SIZE], to, index)


@chosen
def lanes_of(x):
    """Return how many elements a vector has (inside kernels only)."""
    lanes = VECTOR_BITS // x.dtype.bitwidth
    return lambda x: lanes


@chosen
def counted_rows(x):
    """Return how many rows are counted by numbers as wide as an element (inside kernels only)."""
    count = np.int64(1 << min(x.dtype.bitwidth - (x.dtype.bitwidth > 8), 31))
    return lambda x: count


def _emit_highest(builder, keys):
    """Emit the highest lane of a vector."""
    while keys.type.count > 1:
        half = keys.type.count // 2
        low, high = (
            builder.shuffle_vector(keys, keys, ir.Constant(ir.VectorType(ir.IntType(32), half), list(lanes)))
            for lanes in (range(half), range(half, 2 * half))
        )
        keys = emit_larger(builder, low, high)
    return builder.extract_element(keys, ir.IntType(32)(0))


@intrinsic
def best_key(typingctx, x, offset, count, rule):
    """``best_key(x, offset, count, rule)``: the highest key of neighbours, as many as a vector has or more."""

    def codegen(context, builder, signature, args):
        x, offset, count, rule = args
        vector = _vector_of(signature.args[0].dtype, VECTOR_BITS)
        keys_of = key_maker(builder, rule, vector.count)
        lanes = count.type(vector.count)
        larger = partial(emit_larger, builder)

        def keys_at(at):
            return keys_of(emit_load(builder, x, at, vector))

        def raised(_, at, *best):
            if len(best) > 1:
                for byte in range(0, AT_ONCE * VECTOR_BITS // 8, CACHE_LINE):
                    emit_prefetch(builder, emit_byte_pointer(builder, x, builder.add(at, at.type(AHEAD + byte))))
            places = [builder.add(at, at.type(i * VECTOR_BITS // 8)) for i in range(len(best) + 1)]
            return places[-1], *(larger(keys_at(place), one) for place, one in zip(places, best, strict=False))

        vectors = builder.udiv(count, lanes)
        many = offset.type(AT_ONCE)
        lowest = splat_constant(vector, lowest_of(vector.element.width))
        at, *best = emit_levels(builder, builder.udiv(vectors, many), (offset, *[lowest] * AT_ONCE), raised)
        _, best = emit_levels(builder, builder.urem(vectors, many), (at, reduce(larger, best)), raised)
        width = count.type(vector.element.width // 8)
        last = builder.add(offset, builder.mul(width, builder.sub(count, lanes)))  # some of it a second time
        return _emit_highest(builder, larger(keys_at(last), best))

    return x.dtype(x, types.int64, types.int64, rule), codegen


@intrinsic
def best_of_some(typingctx, x, offset, first, count, rule):
    """``best_of_some(x, offset, first, count, rule)``: the highest key of some lanes of a vector, and which have it."""

    def codegen(context, builder, signature, args):
        x, offset, first, count, rule = args
        vector = _vector_of(signature.args[0].dtype, VECTOR_BITS)
        keys = key_maker(builder, rule, vector.count)(emit_load(builder, x, offset, vector))
        ones = builder.sub(builder.shl(count.type(1), count), count.type(1))
        inside = builder.trunc(builder.shl(ones, first), ir.IntType(vector.count))
        inside = builder.bitcast(inside, ir.VectorType(ir.IntType(1), vector.count))
        keys = builder.select(inside, keys, splat_constant(vector, lowest_of(vector.element.width)))
        best = _emit_highest(builder, keys)
        found = builder.and_(builder.icmp_signed("==", keys, splat(builder, best, vector.count)), inside)
        mask = builder.zext(as_mask(builder, found), ir.IntType(64))
        return context.make_tuple(builder, signature.return_type, [best, mask])

    word = types.int64
    return types.Tuple((x.dtype, types.uint64))(x, word, word, word, rule), codegen


@intrinsic
def lanes_equal(typingctx, x, offset, key, rule):
    """``lanes_equal(x, offset, key, rule)``: bit i: element i of a vector has a key."""

    def codegen(context, builder, signature, args):
        x, offset, key, rule = args
        vector = _vector_of(signature.args[0].dtype, VECTOR_BITS)
        keys = key_maker(builder, rule, vector.count)(emit_load(builder, x, offset, vector))
        found = builder.icmp_signed("==", keys, splat(builder, key, vector.count))
        return builder.zext(as_mask(builder, found), ir.IntType(64))

    return types.uint64(x, types.int64, x.dtype, rule), codegen


@intrinsic
def highest_bit(typingctx, mask):
    """``highest_bit(mask)``: the position of the highest set bit; the mask must not be 0."""

    def codegen(context, builder, signature, args):
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(zeros.type(63), zeros)

    return types.int64(types.uint64), codegen


@helper
def place_of_key(x, offset, count, key, rule, from_end):
    """Return which of neighbours is the first that has a key, or the last; they fill a vector or more."""
    lanes = lanes_of(x)
    at, last = (count - lanes, np.int64(0)) if from_end else (np.int64(0), count - lanes)
    mask = lanes_equal(x, offset + at * itemsize(x), key, rule)
    while mask == 0 and at != last:  # one of them has it, unless another thread has changed it
        at = max(at - lanes, 0) if from_end else min(at + lanes, count - lanes)
        mask = lanes_equal(x, offset + at * itemsize(x), key, rule)
    return at + (highest_bit(mask) if from_end else lowest_bit(mask))


@helper
def best_of_few(x, offset, low, high, count, rule, from_end):
    """Return what `best_single` returns, of too few neighbours for a vector; memory from `low` to `high` holds one."""
    start = max(min(offset, high - VECTOR_BITS // 8), low)
    first = (offset - start) // itemsize(x)
    best, mask = best_of_some(x, start, first, count, rule)
    return np.int64(best), (highest_bit(mask) if from_end else lowest_bit(mask)) - first


@helper
def best_single(x, offset, stride, count, rule, from_end):
    """Return the highest key of elements of any stride, and which of them is the first that has it, or the last."""
    place = count - 1 if from_end else np.int64(0)
    best = key_of(load(x, offset + place * stride), rule)
    for i in range(1, count):
        at = count - 1 - i if from_end else i
        key = key_of(load(x, offset + at * stride), rule)
        place = at if key > best else place
        best = max(key, best)
    return np.int64(best), np.int64(place)


def _improving(vectors):
    @intrinsic
    def improve_lanes(typingctx, x, offset, step, count, best, rows, first, row, rule):
        def codegen(context, builder, signature, args):
            x, offset, step, count, best, rows, first, row, rule = args
            kind = signature.args[4]
            vector = _vector_of(kind.dtype, VECTOR_BITS)
            keys_of = key_maker(builder, rule, vector.count)
            firsts = [builder.add(first, first.type(i * vector.count)) for i in range(vectors)]
            places = [_place_of(context, builder, kind, array, at, vector) for array in (best, rows) for at in firsts]
            before = [load_vector(builder, place, vector) for place in places]
            number = builder.trunc(row, vector.element) if vector.element.width < 64 else row
            one = splat_constant(vector, 1)

            def improve(_, at, number, *before):
                (new,) = emit_rows(builder, emit_byte_pointer(builder, x, at), 1, step, vector, vectors, keys_of)
                keys, rows = before[:vectors], before[vectors:]
                above = [builder.icmp_signed(">", *pair) for pair in zip(new, keys, strict=True)]
                keys = [builder.select(*three) for three in zip(above, new, keys, strict=True)]
                rows = [builder.select(is_above, number, old) for is_above, old in zip(above, rows, strict=True)]
                return builder.add(at, step), builder.add(number, one), *keys, *rows

            start = (offset, splat(builder, number, vector.count), *before)
            for place, after in zip(places, emit_levels(builder, count, start, improve)[2:], strict=True):
                builder.store(after, place).align = 1
            return context.get_dummy_value()

        word = types.int64
        return types.void(x, word, word, word, best, rows, word, word, rule), codegen

    return improve_lanes


#: ``improve_lanes(x, offset, step, count, best, rows, first, row, rule)``: go down some rows of a vector of columns.
#: The highest key of each column is in ``best[first:]``, and the row where it was met first in ``rows[first:]``; the
#: new rows are counted from `row` on. ``improve_many``: the same for `AT_ONCE` vectors.
improve_lanes, improve_many = _improving(1), _improving(AT_ONCE)


@helper
def forget(best, rows):
    """Let keys be the lowest, met first in row 0."""
    for c in range(best.size):
        best[c] = lowest_key(best)
        rows[c] = 0
