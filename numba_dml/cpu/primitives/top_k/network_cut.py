"""The network on cut keys, whose low bits hold the positions.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ...._jit.compile import chosen, helper
from ...._jit.emission import intrinsic, ir
from ...._jit.machine import HAS_WIDE_VECTORS
from ...._jit.memory import itemsize, load, splat
from ..keys import emit_larger, emit_levels, key_of, load_vector, lowest_of, rule_values, splat_constant
from .network import _emit_block, _emit_choice, _emit_insertion_of_columns, _emit_without_first, _lists_of

#: How many lines go through the network together by cut keys of 32 and of 64 bits, and how many elements of each.
CUT_BLOCKS = {32: (16, 16), 64: (8, 8)} if HAS_WIDE_VECTORS else {32: (8, 8), 64: (4, 8)}


def cut_block(ref):
    """Return how many lines go through the network together by cut keys, and how many elements of each.

    Elements of one and two bytes, one at a time, do not. (Inside kernels only.)
    """
    raise NotImplementedError


@chosen(cut_block)
def _cut_block(ref):
    shape = CUT_BLOCKS.get(ref.dtype.bitwidth, (1, 1))
    return lambda ref: shape


def _emit_cut(builder, columns, place_bits, near, tops):
    """Emit keys whose last bits are free for a position: cut off, or, if `near`, moved out; see `insert_cut`."""
    vector = columns[0].type
    element = vector.element
    lowest = element(lowest_of(element.width))
    half = builder.lshr(lowest, place_bits)  # of how many keys there is room for
    most = builder.sub(builder.add(half, half), element(1))
    size, most, base, limit, bits = (
        splat(builder, number, vector.count)
        for number in (
            builder.neg(builder.shl(element(1), place_bits)),
            most,
            builder.sub(half, element(1)),
            builder.add(lowest, most),
            place_bits,
        )
    )
    near_block, far_block, ready = (builder.append_basic_block(name) for name in ("moved", "cut", "free"))
    builder.cbranch(near, near_block, far_block)
    builder.position_at_end(near_block)
    below = builder.sub(emit_larger(builder, tops, limit), most)
    base = builder.sub(tops, base)
    moved = []
    for keys in columns:
        keys = builder.select(builder.icmp_signed("<", keys, tops), keys, tops)
        moved.append(builder.shl(builder.sub(emit_larger(builder, keys, below), base), bits))
    builder.branch(ready)
    builder.position_at_end(far_block)
    cut = [builder.and_(keys, size) for keys in columns]
    builder.branch(ready)
    builder.position_at_end(ready)
    return _emit_choice(builder, [(moved, near_block), (cut, far_block)])


@intrinsic
def insert_cut(typingctx, ref, offset, step, at, skip, best, depth, place_bits, near, tops, rule):
    """``insert_cut(ref, offset, step, at, skip, best, depth, place_bits, near, tops, rule)``: put a block into lists.

    As `insert_lines`, for the block of lines that `cut_block` tells, by keys as wide as elements. The last `place_bits`
    of a key are its element's position. So the element's own last bits are cut off, and of those that are equal but for
    these, the first one comes first, whatever they are. Or, if `near`, keys are whole that are not above ``tops[i]``,
    in line i, nor so far below that there is no room for them: these become equal to the last ones that there is.

    The lists are ``best[:depth]``; ``best[depth]`` has the best of what is in no list, so that whoever compares
    neighbours there (see `tied_lists`) knows what is certain. That takes 16 of 190 instructions, for 8 lines of 8.
    """
    width = ref.dtype.bitwidth
    lines, count = CUT_BLOCKS[width]

    def codegen(context, builder, signature, args):
        ref, offset, step, at, skip, best, depth, place_bits, near, tops, rule = args
        values = rule_values(builder, signature.args[10], rule)
        columns = _emit_block(builder, ref, offset, step, at, width, (lines, count), False, values)
        vector = columns[0].type
        last = builder.sub(builder.sub(builder.shl(at.type(1), place_bits), at.type(1)), at)
        if width < 64:
            last, place_bits = (builder.trunc(number, vector.element) for number in (last, place_bits))
        last = splat(builder, last, lines)
        tops = load_vector(builder, _lists_of(context, builder, signature.args[9], tops, vector), vector)
        columns = [
            builder.or_(keys, builder.sub(last, splat_constant(vector, i)))
            for i, keys in enumerate(_emit_cut(builder, columns, place_bits, near, tops))
        ]
        columns = _emit_without_first(builder, columns, skip)
        lists = _lists_of(context, builder, signature.args[5], best, vector)
        _emit_insertion_of_columns(builder, columns, lists, depth, tells=True)
        return context.get_dummy_value()

    word = types.int64
    return types.void(ref, word, word, word, word, best, word, word, types.boolean, tops, rule), codegen


@helper
def insert_cut_plain(ref, offset, step, at, skip, best, depth, place_bits, near, tops, rule):
    """Do what `insert_cut` does, in plain Numba."""
    lines, count = cut_block(ref)
    last = (1 << place_bits) - 1
    half = np.uint64(1) << np.uint64(8 * itemsize(ref) - 1 - place_bits)
    for line in range(lines):
        top = np.int64(tops[line])
        for i in range(at + skip, at + count):
            key = np.int64(key_of(load(ref, offset + line * step + i * itemsize(ref)), rule))
            if near:
                below = min(np.uint64(top) - np.uint64(min(key, top)), half + half - np.uint64(1))
                key = np.int64(half - np.uint64(1) - below)
            else:
                key >>= place_bits
            key = (key << place_bits) + last - i
            for j in range(depth + 1):
                if key > best[j, line]:
                    key, best[j, line] = best[j, line], key


@intrinsic
def tied_lists(typingctx, best, k, place_bits):
    """``tied_lists(best, k, place_bits)``: bit i: neighbours among the first k + 1 cut keys of list i are equal so far.

    That is, but for their positions. The second result tells where this holds for keys that are higher than the k-th.
    """
    width = best.dtype.bitwidth
    lines, _ = CUT_BLOCKS[width]

    def codegen(context, builder, signature, args):
        best, k, place_bits = args
        vector = ir.VectorType(ir.IntType(width), lines)
        lists = _lists_of(context, builder, signature.args[0], best, vector)

        def level_of(level):
            return load_vector(builder, builder.gep(lists, [level]), vector)

        def less(one, other):
            return builder.select(builder.icmp_unsigned("<", one, other), one, other)

        def next_keys(level, before, least, least_above):
            keys = level_of(builder.add(level, level.type(1)))
            apart = builder.xor(before, keys)
            is_above = builder.icmp_unsigned(">=", builder.xor(before, last), size)
            return keys, less(least, apart), less(least_above, builder.select(is_above, apart, none))

        last, none = level_of(builder.sub(k, k.type(1))), splat_constant(vector, -1)
        size = builder.shl(k.type(1), place_bits)
        size = splat(builder, size if width == 64 else builder.trunc(size, vector.element), lines)
        _, least, least_above = emit_levels(builder, k, (level_of(k.type(0)), none, none), next_keys)
        masks = [
            builder.zext(builder.bitcast(builder.icmp_unsigned("<", apart, size), ir.IntType(lines)), ir.IntType(64))
            for apart in (least, least_above)
        ]
        return context.make_tuple(builder, signature.return_type, masks)

    return types.UniTuple(types.uint64, 2)(best, types.int64, types.int64), codegen


@helper
def tied_lists_plain(best, k, place_bits):
    """Return what `tied_lists` returns, in plain Numba."""
    tied = above = np.uint64(0)
    for line in range(best.shape[1]):
        for j in range(k):
            if best[j, line] >> place_bits == best[j + 1, line] >> place_bits:
                tied |= np.uint64(1) << np.uint64(line)
                if best[j, line] >> place_bits != best[k - 1, line] >> place_bits:
                    above |= np.uint64(1) << np.uint64(line)
    return tied, above
