"""The k-th best of a few groups of keys, by ranks and bitonic merges.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ...._jit.compile import allocating, helper
from ...._jit.emission import intrinsic, ir
from ...._jit.memory import empty, splat
from ..keys import (
    LANES,
    _place_of,
    _vector_of,
    as_mask,
    emit_key,
    emit_larger,
    key_of,
    load_lanes,
    load_vector,
    lowest_bit,
    lowest_key,
    lowest_of,
    rule_values,
    splat_constant,
)
from .column_lists import GROUPS, _emit_insertion


@intrinsic
def rank_of_64(typingctx, keys, at, key, earlier):
    """``rank_of_64(keys, at, key, earlier)``: how many of 64 keys come before a key; a tie if bit i is set."""

    def codegen(context, builder, signature, args):
        found = load_lanes(context, builder, signature.args[0], args[0], args[1])
        limit = splat(builder, args[2], LANES)
        above = as_mask(builder, builder.icmp_signed(">", found, limit))
        equal = as_mask(builder, builder.icmp_signed("==", found, limit))
        return builder.ctpop(builder.or_(above, builder.and_(equal, args[3])))

    return types.int64(keys, types.int64, keys.dtype, types.uint64), codegen


@helper
def rank_of_64_plain(keys, at, key, earlier):
    """Return what `rank_of_64` returns, in plain Numba."""
    rank = 0
    for i in range(LANES):
        tie = keys[at + i] == key and (earlier >> np.uint64(i)) & np.uint64(1) != np.uint64(0)
        rank += keys[at + i] > key or tie
    return rank


def _emit_bitonic(builder, keys, span):
    """Emit the steps by which the lanes of a vector, sorted by turns in halves of a span, are sorted in spans."""
    count = keys.type.count
    number = ir.VectorType(ir.IntType(32), count)
    step = span // 2
    while step:
        other = builder.shuffle_vector(keys, keys, ir.Constant(number, [i ^ step for i in range(count)]))
        above = builder.icmp_signed(">", keys, other)
        first, second = builder.select(above, keys, other), builder.select(above, other, keys)
        picks = [i if (i & step == 0) == (i & span == 0) else count + i for i in range(count)]
        keys = builder.shuffle_vector(first, second, ir.Constant(number, picks))
        step //= 2
    return keys


@intrinsic
def group_bound(typingctx, row, whole, start, low, high, k, rule):
    """``group_bound(row, whole, start, low, high, k, rule)``: the k-th and the best of the best keys of some groups.

    The elements up to `whole`, a multiple of 64, and those from ``start + low`` up to ``start + high`` belong to the
    groups in turn: to 16 for k up to 8, or else, k up to 16, to 32. 64 elements from `start` on are read. Of as many
    groups as k, the k-th is a bad bound.
    """

    def codegen(context, builder, signature, args):
        row, whole, start, low, high, k, rule = args
        array_type = signature.args[0]
        word, number = ir.IntType(64), ir.VectorType(ir.IntType(32), GROUPS)
        vector = ir.VectorType(ir.IntType(array_type.dtype.bitwidth), GROUPS)
        lowest = splat_constant(vector, lowest_of(vector.element.width))
        values = [splat(builder, value, GROUPS) for value in rule_values(builder, signature.args[6], rule)]

        def keys_from(at):
            starts = (builder.add(at, word(i)) for i in range(0, LANES, GROUPS))
            return [emit_key(builder, load_lanes(context, builder, array_type, row, i, GROUPS), values) for i in starts]

        def sort(keys):
            span = 2
            while span <= GROUPS:
                keys = _emit_bitonic(builder, keys, span)
                span *= 2
            return keys

        before = builder.block
        head, body, after, few, many, done = (
            builder.append_basic_block(name) for name in ("blocks", "block", "last", "few", "many", "bound")
        )
        builder.branch(head)
        builder.position_at_end(head)
        at, even, odd = builder.phi(word), builder.phi(vector), builder.phi(vector)
        for phi, value in ((at, word(0)), (even, lowest), (odd, lowest)):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", at, whole), body, after)
        builder.position_at_end(body)
        keys = keys_from(at)
        for phi, pair in ((even, keys[::2]), (odd, keys[1::2])):
            phi.add_incoming(emit_larger(builder, phi, emit_larger(builder, *pair)), body)
        at.add_incoming(builder.add(at, word(LANES)), body)
        builder.branch(head)
        builder.position_at_end(after)
        low, high = (splat(builder, builder.trunc(end, number.element), GROUPS) for end in (low, high))
        both = [even, odd]
        for i, keys in enumerate(keys_from(start)):
            lanes = ir.Constant(number, list(range(GROUPS * i, GROUPS * (i + 1))))
            inside = builder.and_(builder.icmp_signed(">=", lanes, low), builder.icmp_signed("<", lanes, high))
            both[i % 2] = emit_larger(builder, both[i % 2], builder.select(inside, keys, lowest))
        builder.cbranch(builder.icmp_signed(">", k, word(GROUPS // 2)), many, few)
        builder.position_at_end(few)
        best_of_few = sort(emit_larger(builder, *both))
        builder.branch(done)
        builder.position_at_end(many)
        first, second = map(sort, both)
        backwards = ir.Constant(number, list(range(GROUPS - 1, -1, -1)))
        best_of_many = emit_larger(builder, first, builder.shuffle_vector(second, second, backwards))
        best_of_many = _emit_bitonic(builder, best_of_many, GROUPS)
        builder.branch(done)
        builder.position_at_end(done)
        best = builder.phi(vector)
        best.add_incoming(best_of_few, few)
        best.add_incoming(best_of_many, many)
        bound = builder.extract_element(best, builder.sub(k, word(1)))
        return context.make_tuple(builder, signature.return_type, [bound, builder.extract_element(best, word(0))])

    pair = types.UniTuple(row.dtype, 2)
    return pair(row, types.int64, types.int64, types.int64, types.int64, types.int64, rule), codegen


@allocating
def group_bound_plain(row, whole, start, low, high, k, rule):
    """Do what `group_bound` does, in plain Numba."""
    groups = GROUPS if k <= GROUPS // 2 else 2 * GROUPS
    best = empty(groups, row.dtype)
    best[:] = lowest_key(best)
    for at in range(whole):
        best[at % groups] = max(best[at % groups], key_of(row[at], rule))
    for at in range(low, high):
        best[at % groups] = max(best[at % groups], key_of(row[start + at], rule))
    best.sort()
    return best[groups - k], best[groups - 1]


@intrinsic
def insert_best(typingctx, row, at, mask, most, keys, places, rule):
    """``insert_best(row, at, mask, most, keys, places, rule)``: put elements ``at + i`` into a list of the 16 best.

    `mask` tells for which i, in turn, and `most` how many at most; return the mask of the others. `keys` and `places`,
    of 32 bits, are the list, best first; it starts with the lowest key everywhere, and elements that have it are never
    put in. Of equal keys the earlier one comes first.

    The list stays in registers: where candidates were stored one by one and read again at once, by their rank, the
    processor waited for the stores of each line before it read. One thread, in jitted code with `out=`, k 10, before
    and now: 64 float32 156 and 128 ns, 128 195 and 144; 64 float64 179 and 158, 128 229 and 179.
    """

    def codegen(context, builder, signature, args):
        row, at, mask, most, keys, places, rule = args
        row_type, keys_type, places_type = signature.args[0], signature.args[4], signature.args[5]
        word, number = ir.IntType(64), ir.IntType(32)
        data = context.make_array(row_type)(context, builder, row).data
        vector = _vector_of(keys_type.dtype, GROUPS * keys_type.dtype.bitwidth)
        numbers = ir.VectorType(number, GROUPS)
        to_keys = _place_of(context, builder, keys_type, keys, word(0), vector)
        to_places = _place_of(context, builder, places_type, places, word(0), numbers)
        starts = [load_vector(builder, to_keys, vector), load_vector(builder, to_places, numbers)]
        highest = splat_constant(vector, ~lowest_of(vector.element.width))
        rule = rule_values(builder, signature.args[6], rule)
        before = builder.block
        head, body, after = (builder.append_basic_block(name) for name in ("candidates", "candidate", "inserted"))
        builder.branch(head)
        builder.position_at_end(head)
        left, room, best, where = (builder.phi(kind) for kind in (word, word, vector, numbers))
        for phi, start in zip((left, room, best, where), (mask, most, *starts), strict=True):
            phi.add_incoming(start, before)
        goes_on = builder.and_(builder.icmp_unsigned("!=", left, word(0)), builder.icmp_unsigned("!=", room, word(0)))
        builder.cbranch(goes_on, body, after)
        builder.position_at_end(body)
        place = builder.add(at, builder.cttz(left, ir.Constant(ir.IntType(1), 1)))
        key = emit_key(builder, builder.load(builder.gep(data, [place])), rule)
        new_best, new_where = _emit_insertion(builder, best, where, key, builder.trunc(place, number), highest)
        best.add_incoming(new_best, body)
        where.add_incoming(new_where, body)
        left.add_incoming(builder.and_(left, builder.sub(left, word(1))), body)
        room.add_incoming(builder.sub(room, word(1)), body)
        builder.branch(head)
        builder.position_at_end(after)
        builder.store(best, to_keys).align = 1
        builder.store(where, to_places).align = 1
        return left

    return types.uint64(row, types.int64, types.uint64, types.int64, keys, places, rule), codegen


@helper
def insert_best_plain(row, at, mask, most, keys, places, rule):
    """Do what `insert_best` does, in plain Numba."""
    while mask != np.uint64(0) and most > 0:
        place = at + lowest_bit(mask)
        key = key_of(row[place], rule)
        to = GROUPS
        while to > 0 and keys[to - 1] < key:
            to -= 1
        for i in range(GROUPS - 1, to, -1):
            keys[i], places[i] = keys[i - 1], places[i - 1]
        if to < GROUPS:
            keys[to], places[to] = key, place
        mask &= mask - np.uint64(1)
        most -= 1
    return mask
