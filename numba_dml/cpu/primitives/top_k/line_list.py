"""The best of a single line: a bound for them, and a list that stays in registers.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
from numba import types

from ...._jit.compile import allocating, helper
from ...._jit.emission import intrinsic, ir
from ...._jit.memory import empty, splat
from ..keys import (
    LANES,
    _place_of,
    emit_key,
    emit_larger,
    emit_levels,
    key_of,
    load_lanes,
    lowest_bit,
    lowest_of,
    rule_values,
    splat_constant,
)

#: The places of the list.
LISTED = 16


def _emit_sorted(builder, keys):
    """Emit the bitonic sort of the lanes of a vector, best first."""
    count = keys.type.count
    numbers = ir.VectorType(ir.IntType(32), count)
    for span in (2**i for i in range(1, count.bit_length())):
        for step in (span >> i for i in range(1, span.bit_length())):
            other = builder.shuffle_vector(keys, keys, ir.Constant(numbers, [i ^ step for i in range(count)]))
            above = builder.icmp_signed(">", keys, other)
            both = builder.select(above, keys, other), builder.select(above, other, keys)
            picks = [i if (i & step == 0) == (i & span == 0) else count + i for i in range(count)]
            keys = builder.shuffle_vector(*both, ir.Constant(numbers, picks))
    return keys


def _kth_group(count):
    @intrinsic
    def kth_group(typingctx, keys, k):
        def codegen(context, builder, signature, args):
            starts = (args[1].type(at) for at in range(0, LANES, count))
            parts = [load_lanes(context, builder, signature.args[0], args[0], at, count) for at in starts]
            best = _emit_sorted(builder, reduce(partial(emit_larger, builder), parts))
            return builder.extract_element(best, builder.sub(args[1], args[1].type(1)))

        return keys.dtype(keys, types.int64), codegen

    return kth_group


#: ``kth_group(keys, k)``: the k-th of the best keys of `2 * LISTED` groups, to which 64 keys belong in turn;
#: ``kth_of_few_groups``: that of `LISTED` groups. Of as many groups as k, it is a bad bound.
kth_group, kth_of_few_groups = _kth_group(2 * LISTED), _kth_group(LISTED)


@allocating
def kth_group_plain(keys, k, count):
    """Return what `kth_group` returns for `count` groups, in plain Numba."""
    best = empty(count, keys.dtype)
    best[:] = keys[:count]
    for i in range(count, LANES):
        best[i % count] = max(best[i % count], keys[i])
    best.sort()
    return best[count - k]


def _emit_insertion(builder, best, where, key, place):
    """Emit the insertion of a key and its place into a list, best first, that is a vector of each; return the new ones.

    Of equal keys the earlier one comes first.
    """
    one_on = ir.Constant(ir.VectorType(ir.IntType(32), LISTED), [LISTED, *range(LISTED - 1)])
    highest = splat_constant(best.type, ~lowest_of(best.type.element.width))
    key, place = splat(builder, key, LISTED), splat(builder, place, LISTED)
    above = builder.shuffle_vector(best, highest, one_on)
    moved = builder.shuffle_vector(where, where, one_on)
    stays = builder.icmp_signed(">=", best, key)
    lands = builder.icmp_signed(">=", above, key)
    smaller = builder.select(lands, key, above)
    new_where = builder.select(stays, where, builder.select(lands, place, moved))
    return emit_larger(builder, best, smaller), new_where


@intrinsic
def insert_best(typingctx, row, at, mask, most, keys, places, rule):
    """``insert_best(row, at, mask, most, keys, places, rule)``: put elements ``at + i`` into a list of the best.

    `mask` tells for which i, in turn, and `most` how many at most; return the mask of the others. `keys` and `places`,
    of 32 bits, are the list of `LISTED` places, best first; it starts with the lowest key everywhere, and elements that
    have it are never put in. The list stays in registers: an insertion never waits for the stores of the one before.
    """

    def codegen(context, builder, signature, args):
        row, at, mask, most, keys, places, rule = args
        rule = rule_values(builder, signature.args[6], rule)
        data = context.make_array(signature.args[0])(context, builder, row).data
        lists = list(zip(signature.args[4:6], (keys, places), strict=True))
        starts = [load_lanes(context, builder, kind, array, at.type(0), LISTED) for kind, array in lists]

        def insert(_, left, best, where):
            place = builder.add(at, builder.cttz(left, ir.Constant(ir.IntType(1), 1)))
            key = emit_key(builder, builder.load(builder.gep(data, [place])), rule)
            place = builder.trunc(place, where.type.element)
            rest = builder.and_(left, builder.sub(left, left.type(1)))
            return rest, *_emit_insertion(builder, best, where, key, place)

        found = builder.ctpop(mask)
        count = builder.select(builder.icmp_signed("<", found, most), found, most)
        left, *ends = emit_levels(builder, count, (mask, *starts), insert)
        for (kind, array), end in zip(lists, ends, strict=True):
            builder.store(end, _place_of(context, builder, kind, array, at.type(0), end.type)).align = 1
        return left

    return types.uint64(row, types.int64, types.uint64, types.int64, keys, places, rule), codegen


@helper
def insert_best_plain(row, at, mask, most, keys, places, rule):
    """Do what `insert_best` does, in plain Numba."""
    while mask != np.uint64(0) and most > 0:
        key, place, to = key_of(row[at + lowest_bit(mask)], rule), at + lowest_bit(mask), LISTED
        while to > 0 and keys[to - 1] < key:
            if to < LISTED:
                keys[to], places[to] = keys[to - 1], places[to - 1]
            to -= 1
        if to < LISTED:
            keys[to], places[to] = key, place
        mask &= mask - np.uint64(1)
        most -= 1
    return mask
