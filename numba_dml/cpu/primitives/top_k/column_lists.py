"""The lists of the best of neighbouring columns, one lane each.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from numba import types

from ...._jit.compile import helper
from ...._jit.emission import intrinsic, ir
from ...._jit.memory import emit_byte_pointer, itemsize, load, splat
from ..keys import (
    _LIST_BITS,
    ROWS_AT_ONCE,
    _place_of,
    _vector_of,
    emit_key,
    emit_larger,
    emit_levels,
    key_of,
    load_lanes,
    load_vector,
    lowest_of,
    rule_values,
    splat_constant,
)
from .column_limits import _emit_keys_of_rows, insert_width


@intrinsic
def raise_lists(typingctx, keys, at, best, first, k):
    """``raise_lists(keys, at, best, first, k)``: insert `insert_width` keys, from ``keys[at]`` on, into sorted lists.

    Lists are those of `insert_lanes`, all k places of which are taken; they begin at ``best[first]``.
    """

    def codegen(context, builder, signature, args):
        keys, at, best, first, k = args
        array_type = signature.args[2]
        vector = _vector_of(array_type.dtype, _LIST_BITS)
        key = load_lanes(context, builder, signature.args[0], keys, at, vector.count)

        def raise_place(level, carried):
            at = builder.add(first, builder.mul(level, level.type(vector.count)))
            place = _place_of(context, builder, array_type, best, at, vector)
            held = load_vector(builder, place, vector)
            larger = builder.icmp_signed(">", carried, held)
            builder.store(builder.select(larger, carried, held), place).align = 1
            return (builder.select(larger, held, carried),)

        emit_levels(builder, k, (key,), raise_place)
        return context.get_dummy_value()

    word = types.int64
    return types.void(keys, word, best, word, word), codegen


@helper
def raise_lists_plain(keys, at, best, first, k):
    """Do what `raise_lists` does, in plain Numba."""
    width = insert_width(best)
    for lane in range(width):
        key = keys[at + lane]
        for level in range(k):
            held = best[first + lane + level * width]
            best[first + lane + level * width] = max(key, held)
            key = min(key, held)


@intrinsic
def insert_lanes(typingctx, ref, offset, best, where, limits, lane, levels, k, position, rule):
    """``insert_lanes(ref, offset, best, where, limits, lane, levels, k, position, rule)``: put elements into lists.

    There are `insert_width` elements from a byte offset on, and as many sorted lists from number `lane` on: place j of
    list i is ``best[lane * k + j * insert_width + i]``, for j < k, with its position in `where`, and what is in the
    last place also ``limits[lane + i]``; `levels` places are taken. All elements have the same position. Without a
    branch: on ties the earlier one stays.
    """

    def codegen(context, builder, signature, args):
        ref, offset, best, where, limits, lane, levels, k, position, rule = args
        vector = _vector_of(signature.args[2].dtype, _LIST_BITS)
        values = rule_values(builder, signature.args[9], rule)
        ((key,),) = _emit_keys_of_rows(builder, ref, offset, 1, offset, vector, 1, values)
        number = ir.IntType(signature.args[3].dtype.bitwidth)
        position = position if number.width == 64 else builder.trunc(position, number)
        place = splat(builder, position, vector.count)
        first = builder.mul(lane, k)

        def pointers(level):
            at = builder.add(first, builder.mul(level, level.type(vector.count)))
            for i, array, content in ((2, best, key), (3, where, place)):
                yield _place_of(context, builder, signature.args[i], array, at, content.type)

        def insert(level, carried, carried_place):
            at_key, at_place = pointers(level)
            held, held_place = load_vector(builder, at_key, key.type), load_vector(builder, at_place, place.type)
            # Where the element goes, and at all places behind: there what it displaces moves on by one. Positions are
            # exchanged by their difference: LLVM would turn a choice into a masked store, which is slow.
            moved = builder.icmp_signed(">", key, held)
            change = builder.select(moved, builder.xor(carried_place, held_place), ir.Constant(place.type, None))
            larger = builder.icmp_signed(">", carried, held)
            builder.store(builder.select(larger, carried, held), at_key).align = 1
            builder.store(builder.xor(held_place, change), at_place).align = 1
            return builder.select(larger, held, carried), builder.xor(carried_place, change)

        carried, carried_place = emit_levels(builder, levels, (key, place), insert)
        with builder.if_then(builder.icmp_signed("<", levels, k)):  # a free place
            at_key, at_place = pointers(levels)
            builder.store(carried, at_key).align = 1
            builder.store(carried_place, at_place).align = 1
        at_key, _ = pointers(builder.sub(k, k.type(1)))
        last = load_vector(builder, at_key, key.type)
        builder.store(last, _place_of(context, builder, signature.args[4], limits, lane, key.type)).align = 1
        return context.get_dummy_value()

    word = types.int64
    return types.void(ref, word, best, where, limits, word, word, word, word, rule), codegen


@helper
def insert_lanes_plain(ref, offset, best, where, limits, lane, levels, k, position, rule):
    """Do what `insert_lanes` does, in plain Numba."""
    width = insert_width(best)
    for i in range(width):
        key = best.dtype.type(key_of(load(ref, offset + i * itemsize(ref)), rule))
        at = lane * k + i
        level = 0
        while level < levels and best[at + width * level] >= key:
            level += 1
        for j in range(min(levels, k - 1), level, -1):
            best[at + width * j] = best[at + width * (j - 1)]
            where[at + width * j] = where[at + width * (j - 1)]
        if level < k:
            best[at + width * level] = key
            where[at + width * level] = position
        limits[lane + i] = best[at + width * (k - 1)]


#: Lanes of what is sorted or ranked at once.
GROUPS = 16


def _emit_insertion(builder, best, where, key, place, highest):
    """Emit the insertion of a key and its place into a list, best first, that is a vector of each; return the new ones.

    Of equal keys the earlier one comes first. `highest` is a vector of the highest key.
    """
    one_on = ir.Constant(ir.VectorType(ir.IntType(32), GROUPS), [GROUPS, *range(GROUPS - 1)])
    key, place = splat(builder, key, GROUPS), splat(builder, place, GROUPS)
    above = builder.shuffle_vector(best, highest, one_on)
    moved = builder.shuffle_vector(where, where, one_on)
    stays = builder.icmp_signed(">=", best, key)
    lands = builder.icmp_signed(">=", above, key)
    smaller = builder.select(builder.icmp_signed("<", above, key), above, key)
    new_where = builder.select(stays, where, builder.select(lands, place, moved))
    return emit_larger(builder, best, smaller), new_where


def _column_inserter(count):
    @intrinsic
    def insert_column(typingctx, ref, offset, step, keys, places, limits, number, k, position, rule):
        def codegen(context, builder, signature, args):
            ref, offset, step, keys, places, limits, number, k, position, rule = args
            keys_type, places_type, limits_type = signature.args[3:6]
            word, place_type = ir.IntType(64), ir.IntType(32)
            element = ir.IntType(keys_type.dtype.bitwidth)
            vector, numbers = ir.VectorType(element, GROUPS), ir.VectorType(place_type, GROUPS)
            rule = rule_values(builder, signature.args[9], rule)
            start = builder.mul(number, word(GROUPS))
            to_keys = _place_of(context, builder, keys_type, keys, start, vector)
            to_places = _place_of(context, builder, places_type, places, start, numbers)
            to_limit = builder.gep(context.make_array(limits_type)(context, builder, limits).data, [number])
            pointer = emit_byte_pointer(builder, ref, offset)

            def element_of(row):
                at = builder.gep(pointer, [builder.mul(row, step)])
                bits = builder.load(builder.bitcast(at, element.as_pointer()))
                bits.align = 1
                return bits

            hits = word(1)
            if count > 1:
                column = ir.Constant(ir.VectorType(element, count), ir.Undefined)
                for row in range(count):
                    column = builder.insert_element(column, element_of(word(row)), ir.IntType(32)(row))
                of_column = emit_key(builder, column, [splat(builder, value, count) for value in rule])
                above = builder.icmp_signed(">", of_column, splat(builder, builder.load(to_limit), count))
                hits = builder.zext(builder.bitcast(above, ir.IntType(count)), word)
            starts = [load_vector(builder, to_keys, vector), load_vector(builder, to_places, numbers)]
            highest = splat_constant(vector, ~lowest_of(element.width))
            before = builder.block
            body, after = (builder.append_basic_block(name) for name in ("candidate", "inserted"))
            builder.branch(body)
            builder.position_at_end(body)
            left, best, where = (builder.phi(kind) for kind in (word, vector, numbers))
            for phi, value in zip((left, best, where), (hits, *starts), strict=True):
                phi.add_incoming(value, before)
            row = builder.cttz(left, ir.Constant(ir.IntType(1), 1))
            key = emit_key(builder, element_of(row), rule)
            place = builder.trunc(builder.add(position, row), place_type)
            new_best, new_where = _emit_insertion(builder, best, where, key, place, highest)
            best.add_incoming(new_best, body)
            where.add_incoming(new_where, body)
            rest = builder.and_(left, builder.sub(left, word(1)))
            left.add_incoming(rest, body)
            builder.cbranch(builder.icmp_unsigned("!=", rest, word(0)), body, after)
            builder.position_at_end(after)
            builder.store(new_best, to_keys).align = 1
            builder.store(new_where, to_places).align = 1
            place_k = builder.add(start, builder.sub(k, word(1)))
            last = builder.gep(context.make_array(keys_type)(context, builder, keys).data, [place_k])
            builder.store(builder.load(last), to_limit)
            return builder.ctpop(hits)

        word = types.int64
        return word(ref, word, word, keys, places, limits, word, word, word, rule), codegen

    return insert_column


#: ``insert_row(ref, offset, step, keys, places, limits, number, k, position, rule)``: put the element at a byte offset
#: into list `number`, of 16 keys and places, best first, and the key in its place k into `limits`. ``insert_rows``: put
#: those of `ROWS_AT_ONCE` rows, `step` bytes apart, that are above the limit, of which there is one. Return how many.
insert_row, insert_rows = _column_inserter(1), _column_inserter(ROWS_AT_ONCE)


@helper
def insert_rows_plain(ref, offset, count, step, keys, places, limits, number, k, position, rule):
    """Do what `insert_row` does if `count` is 1, and otherwise `insert_rows`, in plain Numba."""
    begin = number * GROUPS
    hits = 0
    for row in range(count):
        key = keys.dtype.type(key_of(load(ref, offset + row * step), rule))
        if count == 1 or key > limits[number]:  # one alone is inserted unasked
            hits += 1
            to = GROUPS
            while to > 0 and keys[begin + to - 1] < key:
                to -= 1
            for i in range(GROUPS - 1, to, -1):
                keys[begin + i], places[begin + i] = keys[begin + i - 1], places[begin + i - 1]
            if to < GROUPS:
                keys[begin + to], places[begin + to] = key, position + row
    limits[number] = keys[begin + k - 1]
    return hits
