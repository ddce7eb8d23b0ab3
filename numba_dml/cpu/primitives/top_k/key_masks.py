"""Masks: which elements of a line have a key above a threshold, 64 at once."""

from __future__ import annotations

from numba import types

from ...._jit.emission import intrinsic
from ...._jit.memory import splat
from ..keys import LANES, as_mask, key_maker, load_lanes


@intrinsic
def beats(typingctx, row, at, threshold, rule):
    """``beats(row, at, threshold, rule)``: bit i: the key of ``row[at + i]`` is above the threshold."""

    def codegen(context, builder, signature, args):
        keys = key_maker(builder, args[3], LANES)(load_lanes(context, builder, signature.args[0], args[0], args[1]))
        above = builder.icmp_signed(">", keys, splat(builder, args[2], LANES))
        return as_mask(builder, above)

    return types.uint64(row, types.int64, row.dtype, rule), codegen


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
