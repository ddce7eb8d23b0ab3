"""The best keys of blocks of 64 elements."""

from __future__ import annotations

from functools import partial, reduce

from numba import types

from ...._jit.copies import emit_prefetch
from ...._jit.emission import intrinsic, ir
from ...._jit.machine import CACHE_LINE
from ..keys import BLOCKS_AT_ONCE, LANES, _opaque, _place_of, emit_larger, key_maker, load_lanes


def _emit_best(builder, blocks):
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
        return emit_larger(builder, high, low)

    blocks = [reduce(partial(emit_larger, builder), vectors) for vectors in blocks]
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


def _best_lanes(blocks):
    @intrinsic
    def best_lanes(typingctx, row, at, best, first, rule):
        def codegen(context, builder, signature, args):
            row, at, best, first, rule = args
            array_type = signature.args[0]
            lanes = 8 * CACHE_LINE // array_type.dtype.bitwidth
            keys_of = key_maker(builder, rule, lanes)

            def keys(block):
                for part in range(block * LANES, (block + 1) * LANES, lanes):
                    yield keys_of(load_lanes(context, builder, array_type, row, builder.add(at, at.type(part)), lanes))

            found = _emit_best(builder, [list(keys(block)) for block in range(blocks)])
            builder.store(found, _place_of(context, builder, signature.args[2], best, first, found.type)).align = 1
            return context.get_dummy_value()

        return types.void(row, types.int64, best, types.int64, rule), codegen

    return best_lanes


#: ``best_lane(row, at, best, first, rule)``: write the best of 64 keys, from ``row[at]`` on, to ``best[first]``;
#: ``best_lanes``: write that of each of `BLOCKS_AT_ONCE` blocks, from ``best[first]`` on.
best_lane, best_lanes = _best_lanes(1), _best_lanes(BLOCKS_AT_ONCE)


@intrinsic
def raise_lanes(typingctx, row, at, best, first, rule):
    """``raise_lanes(row, at, best, first, rule)``: raise 64 of the best keys to those of ``row[at:]``."""

    def codegen(context, builder, signature, args):
        lanes = load_lanes(context, builder, signature.args[0], args[0], args[1])
        keys = key_maker(builder, args[4], LANES)(lanes)
        before = load_lanes(context, builder, signature.args[2], args[2], args[3])
        # If LLVM saw that it is the same place, it would store by masks: 64-bit keys took four times as long.
        place = _place_of(context, builder, signature.args[2], args[2], _opaque(builder, args[3]), before.type)
        builder.store(emit_larger(builder, keys, before), place).align = 1
        return context.get_dummy_value()

    return types.void(row, types.int64, best, types.int64, rule), codegen


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
