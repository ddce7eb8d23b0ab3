"""The lists of the best of neighbouring columns, one lane each.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from numba import types

from ...._jit.emission import intrinsic, ir
from ...._jit.memory import splat
from ..keys import _LIST_BITS, _place_of, _vector_of, emit_levels, load_lanes, load_vector
from .column_limits import _emit_keys_of_rows


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
        ((key,),) = _emit_keys_of_rows(builder, ref, offset, 1, offset, vector, 1, rule)
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
