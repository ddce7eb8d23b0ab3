"""The best of a single line: a bound for them, and a list that stays in registers.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ...._jit.compile import helper
from ...._jit.emission import intrinsic, ir
from ...._jit.memory import splat
from ..keys import (
    LANES,
    _place_of,
    bit_count,
    emit_larger,
    emit_levels,
    key_maker,
    key_of,
    load_lanes,
    lowest_key,
    lowest_of,
    splat_constant,
)
from .key_masks import beats

#: The places of the list.
LISTED = 16
#: After this many candidates for each result, others must beat the k-th best so far: asking makes each block wait for
#: the one before; then also those of the same block, after this many of them or k.
CANDIDATES, AT_ONCE = 2, 8


def _emit_merged(builder, keys, span):
    """Emit the steps by which the lanes of a vector, sorted by turns in halves of a span, are sorted in spans."""
    count = keys.type.count
    numbers = ir.VectorType(ir.IntType(32), count)
    for step in (span >> i for i in range(1, span.bit_length())):
        other = builder.shuffle_vector(keys, keys, ir.Constant(numbers, [i ^ step for i in range(count)]))
        above = builder.icmp_signed(">", keys, other)
        both = builder.select(above, keys, other), builder.select(above, other, keys)
        picks = [i if (i & step == 0) == (i & span == 0) else count + i for i in range(count)]
        keys = builder.shuffle_vector(*both, ir.Constant(numbers, picks))
    return keys


def _emit_best_of(builder, even, odd):
    """Emit the best of the lanes of two vectors, best first."""
    for span in (2**i for i in range(1, LISTED.bit_length())):
        even, odd = _emit_merged(builder, even, span), _emit_merged(builder, odd, span)
    backwards = ir.Constant(ir.VectorType(ir.IntType(32), LISTED), list(range(LISTED - 1, -1, -1)))
    return _emit_merged(builder, emit_larger(builder, even, builder.shuffle_vector(odd, odd, backwards)), LISTED)


@intrinsic
def group_bound(typingctx, row, whole, start, inside, k, rule):
    """``group_bound(row, whole, start, inside, k, rule)``: the k-th and the best of the best keys of 32 groups.

    To these belong in turn the elements up to `whole`, a multiple of 64, and those of the 64 from `start` on for which
    `inside` has a bit. All of it stays in registers.
    """

    def codegen(context, builder, signature, args):
        row, whole, start, inside, k, rule = args
        vector = ir.VectorType(ir.IntType(signature.args[0].dtype.bitwidth), LISTED)
        lowest = splat_constant(vector, lowest_of(vector.element.width))
        keys_of = key_maker(builder, rule, LISTED)

        def keys_from(at):
            starts = (builder.add(at, at.type(i)) for i in range(0, LANES, LISTED))
            return [keys_of(load_lanes(context, builder, signature.args[0], row, i, LISTED)) for i in starts]

        def raised(even, odd, keys):
            pairs = ((even, keys[::2]), (odd, keys[1::2]))
            return [emit_larger(builder, best, emit_larger(builder, *pair)) for best, pair in pairs]

        size = whole.type(LANES)
        both = emit_levels(
            builder,
            builder.udiv(whole, size),
            (lowest, lowest),
            lambda block, *both: raised(*both, keys_from(builder.mul(block, size))),
        )
        mask = builder.bitcast(inside, ir.VectorType(ir.IntType(1), LANES))
        last = []
        for i, keys in enumerate(keys_from(start)):
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), LISTED), list(range(LISTED * i, LISTED * (i + 1))))
            last.append(builder.select(builder.shuffle_vector(mask, mask, lanes), keys, lowest))
        best = _emit_best_of(builder, *raised(*both, last))
        found = [builder.extract_element(best, at) for at in (builder.sub(k, k.type(1)), k.type(0))]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(row.dtype, 2)(row, types.int64, types.int64, types.uint64, types.int64, rule), codegen


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
        key_at = key_maker(builder, rule)
        data = context.make_array(signature.args[0])(context, builder, row).data
        lists = list(zip(signature.args[4:6], (keys, places), strict=True))
        starts = [load_lanes(context, builder, kind, array, at.type(0), LISTED) for kind, array in lists]

        def insert(_, left, best, where):
            place = builder.add(at, builder.cttz(left, ir.Constant(ir.IntType(1), 1)))
            key = key_at(builder.load(builder.gep(data, [place])))
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
def list_best(
    row,  # IN   (n,) intW, elements
    k,  # IN   up to `LISTED`
    rule,
    keys,  # OUT  (16,) keys, scratch
    places,  # OUT  (16,) int32, where the k best are, best first
    rest,  # OUT  (64,) intW, scratch
):
    """Select from a line by a key that k groups of its elements reach: few others do, and go into a list."""
    n, lowest = row.size, lowest_key(keys)
    whole = (n - 1) // LANES * LANES
    start, last = n - LANES, ~np.uint64(0) << np.uint64(LANES - n + whole)  # the last block lies partly on another
    if n < LANES:
        for i in range(LANES):  # a number that is not of the line may be a NaN, whose comparison raises a flag
            rest[i] = row[min(i, n - 1)]
        row, start, last = rest, 0, ~np.uint64(0) >> np.uint64(LANES - n)
    bound, top = group_bound(row, whole, start, last, k, rule)
    few = bound == lowest  # of groups with a better element, which the list begins with, as do groups without elements
    equal = few or bound == top  # of many elements with the best key the first ones are wanted
    below = row.dtype.type(bound - (not few))
    keys[:] = lowest
    at = count = 0
    while at < n and below != top:
        block = at if at < whole else start
        mask = beats(row, block, below, rule)
        if at == whole:
            mask &= last
        count += bit_count(mask)
        while mask != np.uint64(0):
            mask = insert_best(row, block, mask, max(k, AT_ONCE), keys, places, rule)
            if equal or count > CANDIDATES * k:
                below = max(below, keys[k - 1])
            if mask != np.uint64(0):
                mask &= beats(row, block, below, rule)
        at += LANES
    if few and keys[k - 1] == lowest:
        add_lowest(row, n, k, rule, keys, places)


@helper
def add_lowest(row, n, k, rule, keys, places):
    """Put the first elements with the lowest key behind the better ones, whose keys are in a list."""
    found = 0
    while keys[found] > lowest_key(keys):
        found += 1
    for i in range(n):
        if found < k and key_of(row[i], rule) == lowest_key(keys):
            places[found] = i
            found += 1
