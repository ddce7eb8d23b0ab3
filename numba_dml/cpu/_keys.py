"""Keys: integers whose plain ``>`` means "better", for every element type, direction and NaN rule.

The bits of an element are read as a signed integer b of its width W. Integers: ``b ^ flip``, where `flip` moves the
sign of unsigned types and complements for "smallest". Floats: the magnitude, negated below zero (-0 and +0 become one
key), ``^ flip``, and one key for all NaNs: the lowest or the highest integer, which no number has. A rule is the tuple
``(flip,)`` or ``(flip, infinity, nan_key)``; its length tells integers from floats at compile time.

The scan of a top-k asks 64 elements at once which of them beat a threshold. LLVM does not vectorise the plain loop into
a bit mask (3-4 times slower), so such steps are intrinsics in portable vector IR, each with a plain twin; all of them
are in this file and in `_network`. The scalar key and the vector one come from the same emitter.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import chain, islice

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.extending import intrinsic

from . import allocating, chosen, helper
from ._memory import CACHE_LINE, emit_byte_pointer, emit_prefetch, empty, itemsize, load, splat

#: How many elements one mask covers.
LANES = 64
#: Elements that every buffer has behind its last one if vector steps scan it: a step that starts at any element reads
#: LANES of them.
SPARE = LANES
#: How many rows of columns are looked at together.
ROWS_AT_ONCE = 8
#: How many single bytes are looked at together where few beat a threshold.
WIDE = 256
#: How many blocks of elements are surveyed together. Two threads, 131,072 elements that are in L2, one block at a time
#: and four, in µs: i1 5.8 and 4.8, i4 9.0 and 8.4, f4 11.5 and 10.8, i8 8.9 and 7.7; a top_k of (1, 10M) f4, k 100,
#: 1.13 and 1.04 ms.
BLOCKS_AT_ONCE = 4
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
#: The bits of the least normal float.
_NORMAL = {32: 1 << 23, 64: 1 << 52}
#: The bits of the keys of neighbouring columns that are inserted into their lists together.
_LIST_BITS = 256


def lowest_of(width):
    """Return the lowest integer of so many bits; its one bit is the sign."""
    return -(1 << (width - 1))


def _are_compared(rule, width):
    """Tell whether elements of so many bits are compared as floats, by the processor; by their rule, of any kind."""
    return len(rule) > 1 and width in _NORMAL


def _floats_of(width, count):
    """Return the type of so many floats."""
    return ir.VectorType(ir.FloatType() if width == 32 else ir.DoubleType(), count)


def emit_key(builder, bits, rule):
    """Emit the key of an integer or of a vector of integers; `rule` holds values of the same type."""
    if len(rule) == 1:
        return builder.xor(bits, rule[0])
    flip, infinity, nan_key = rule
    width = bits.type.element.width if isinstance(bits.type, ir.VectorType) else bits.type.width
    zero = ir.Constant(bits.type, None)
    magnitude = builder.and_(bits, splat_constant(bits.type, ~lowest_of(width)))
    signed = builder.select(builder.icmp_signed("<", bits, zero), builder.sub(zero, magnitude), magnitude)
    key = builder.xor(signed, flip)
    return builder.select(builder.icmp_signed(">", magnitude, infinity), nan_key, key)


def splat_constant(typ, value):
    return ir.Constant(typ, [value] * typ.count if isinstance(typ, ir.VectorType) else value)


def as_mask(builder, bits):
    """Emit the conversion of a vector of bits to a number.

    The empty instruction keeps LLVM from moving the conversion behind a branch: where two ways to a mask meet, it would
    carry 64 separate bits through, for 37 ns instead of 5.
    """
    return _opaque(builder, builder.bitcast(bits, ir.IntType(bits.type.count)))


def _opaque(builder, number):
    """Emit an empty instruction, behind which LLVM no longer knows what a number is."""
    return builder.asm(ir.FunctionType(number.type, [number.type]), "", "=r,0", [number], False)


def rule_values(builder, rule_type, rule):
    return [builder.extract_value(rule, i) for i in range(len(rule_type))]


@intrinsic
def key_of(typingctx, bits, rule):
    """``key_of(bits, rule)``: the key of one element."""

    def codegen(context, builder, signature, args):
        return emit_key(builder, args[0], rule_values(builder, signature.args[1], args[1]))

    return rule.dtype(rule.dtype, rule), codegen


def is_ambiguous(key, rule):
    """Tell whether elements with different bits have a key: zeros, and NaNs (inside kernels only)."""
    raise NotImplementedError


@chosen(is_ambiguous)
def _is_ambiguous(key, rule):
    if len(rule) == 1:
        return lambda key, rule: False
    return lambda key, rule: key == rule[0] or key == rule[2]


def bits_of(key, rule):
    """Return the bits of the element with a key that is not ambiguous (inside kernels only)."""
    raise NotImplementedError


@chosen(bits_of)
def _bits_of(key, rule):
    if len(rule) == 1:
        return lambda key, rule: key ^ rule[0]
    lowest = lowest_of(key.bitwidth)

    def bits(key, rule):
        signed = key ^ rule[0]
        return signed if signed >= 0 else lowest - signed

    return bits


def _vector_of(dtype, bits):
    return ir.VectorType(ir.IntType(dtype.bitwidth), bits // dtype.bitwidth)


def _place_of(context, builder, array_type, array, at, vector):
    """Emit the pointer to a vector in an array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def load_vector(builder, pointer, vector):
    """Emit the load of a vector, at any alignment."""
    lanes = builder.load(pointer, typ=vector)
    lanes.align = 1
    return lanes


def load_lanes(context, builder, array_type, array, at, count=LANES):
    """Emit the load of neighbouring elements of an array."""
    vector = _vector_of(array_type.dtype, count * array_type.dtype.bitwidth)
    return load_vector(builder, _place_of(context, builder, array_type, array, at, vector), vector)


def emit_larger(builder, a, b):
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def _emit_larger_float(builder, a, b):
    """Emit the larger of two floats; if they cannot be compared, the second."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def emit_rows(builder, pointer, count, step, vector, parts, read):
    """Emit what is read from parts of a row, side by side, for each of `count` rows that are `step` bytes apart.

    `read` turns bits into what is wanted, keys for example. A row's parts come together: where rows are short, the
    memory is then read from one end to the other. 100,000 rows of 64 float64 take 1.7 ms, 6.5 part by part.
    """
    for row in range(count):
        if row:
            pointer = builder.gep(pointer, [step])
        lanes = []
        for part in range(parts):
            at = builder.gep(pointer, [step.type(part * vector.count * vector.element.width // 8)])
            lanes.append(read(load_vector(builder, builder.bitcast(at, vector.as_pointer()), vector)))
        yield lanes


def read_keys(builder, rule, count):
    """Emit what vectors of so many keys need; return what reads them (see `emit_rows`)."""
    values = [splat(builder, value, count) for value in rule]
    return lambda bits: emit_key(builder, bits, values)


def emit_levels(builder, count, carried, body):
    """Emit a loop over so many places of lists; ``body(level, *carried)`` emits one, and returns what it carries on."""
    word = ir.IntType(64)
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("level", "insert", "inserted"))
    builder.branch(head)
    builder.position_at_end(head)
    phis = [builder.phi(value.type) for value in (word(0), *carried)]
    for phi, value in zip(phis, (word(0), *carried), strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", phis[0], count), inside, after)
    builder.position_at_end(inside)
    for phi, value in zip(phis, (builder.add(phis[0], word(1)), *body(*phis)), strict=True):
        phi.add_incoming(value, inside)
    builder.branch(head)
    builder.position_at_end(after)
    return phis[1:]


@intrinsic
def beats_keys(typingctx, row, at, threshold, rule):
    """``beats_keys(row, at, threshold, rule)``: bit i: the key of ``row[at + i]`` is above the threshold."""

    def codegen(context, builder, signature, args):
        lanes = load_lanes(context, builder, signature.args[0], args[0], args[1])
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[3], args[3])]
        above = builder.icmp_signed(">", emit_key(builder, lanes, values), splat(builder, args[2], LANES))
        return as_mask(builder, above)

    return types.uint64(row, types.int64, row.dtype, rule), codegen


@intrinsic
def differs_at_the_end(typingctx, row, at, key, last, rule):
    """``differs_at_the_end(row, at, key, last, rule)``: whether a key of ``row[at : at + 64]`` differs from `key`.

    That is, in the bits of `last` alone.
    """

    def codegen(context, builder, signature, args):
        row, at, key, last, rule = args
        lanes = load_lanes(context, builder, signature.args[0], row, at)
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[4], rule)]
        apart = builder.xor(emit_key(builder, lanes, values), splat(builder, key, LANES))
        less = builder.add(apart, splat_constant(apart.type, -1))  # 0, which is none, becomes more than `last`
        found = builder.icmp_unsigned("<", less, splat(builder, last, LANES))
        mask = builder.bitcast(found, ir.IntType(LANES))
        return builder.icmp_signed("!=", mask, mask.type(0))

    return types.boolean(row, types.int64, row.dtype, row.dtype, rule), codegen


@helper
def differs_at_the_end_plain(row, at, key, last, rule):
    """Return what `differs_at_the_end` returns, in plain Numba."""
    for i in range(LANES):
        other = key_of(row[at + i], rule)
        if other != key and other & ~last == key & ~last:
            return True
    return False


@intrinsic
def beats_floats(typingctx, row, at, limit, turn, rest):
    """``beats_floats(row, at, limit, turn, rest)``: bit i: ``row[at + i] ^ turn``, a float, is above a limit.

    The bits of `rest` are inverted. NaNs are above nothing.
    """

    def codegen(context, builder, signature, args):
        # LLVM must not see that `beats_keys` loads the same: it would load before the choice, more than registers hold.
        bits = load_lanes(context, builder, signature.args[0], args[0], _opaque(builder, args[1]))
        floats = _floats_of(args[2].type.width, LANES)
        limits = builder.bitcast(splat(builder, args[2], LANES), floats)
        lanes = builder.bitcast(builder.xor(bits, splat(builder, args[3], LANES)), floats)
        return builder.xor(as_mask(builder, builder.fcmp_ordered(">", lanes, limits)), args[4])

    return types.uint64(row, types.int64, row.dtype, row.dtype, types.uint64), codegen


def beats(row, at, threshold, rule):
    """``beats(row, at, threshold, rule)``: bit i tells whether the key of ``row[at + i]`` is above the threshold."""
    raise NotImplementedError


@chosen(beats)
def _beats(row, at, threshold, rule):
    if not _are_compared(rule, row.dtype.bitwidth):
        return lambda row, at, threshold, rule: beats_keys(row, at, threshold, rule)
    kind = _SIGNED[row.dtype.bitwidth]
    sign = kind(lowest_of(row.dtype.bitwidth))
    normal = kind(_NORMAL[row.dtype.bitwidth])

    def choose(row, at, threshold, rule):
        # Comparing floats is several times as fast as making and comparing their keys. Subnormal numbers may count as
        # zero there (a library may have switched them off), which a normal limit does not feel.
        number = threshold ^ rule[0]
        turn, rest = kind(0), np.uint64(0)
        if rule[2] > threshold:  # NaNs beat it too: what is not (x or -x > the number before the limit)
            turn, number, rest = (sign, ~number, ~rest) if rule[0] == 0 else (turn, number - 1, ~rest)
        elif rule[0] != 0:  # the smallest are wanted: both signs turn
            turn, number = sign, -number
        magnitude = -number if number < 0 else number
        if normal <= magnitude <= rule[1]:
            return beats_floats(row, at, kind(magnitude | (number & sign)), turn, rest)
        return beats_keys(row, at, threshold, rule)

    return choose


@intrinsic
def any_beats(typingctx, row, at, threshold, rule):
    """``any_beats(row, at, threshold, rule)``: whether any of 256 keys from ``row[at]`` on is above the threshold."""

    def codegen(context, builder, signature, args):
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[3], args[3])]
        limits = splat(builder, args[2], LANES)
        found = ir.Constant(ir.VectorType(ir.IntType(1), LANES), None)
        for part in range(WIDE // LANES):
            place = builder.add(args[1], args[1].type(part * LANES))
            lanes = load_lanes(context, builder, signature.args[0], args[0], place)
            found = builder.or_(found, builder.icmp_signed(">", emit_key(builder, lanes, values), limits))
        mask = as_mask(builder, found)
        return builder.icmp_unsigned("!=", mask, mask.type(0))

    return types.boolean(row, types.int64, row.dtype, rule), codegen


def skip_lanes(row, at, end, threshold, rule):
    """``skip_lanes(row, at, end, threshold, rule)``: leave out single bytes none of which beats the threshold."""
    raise NotImplementedError


@chosen(skip_lanes)
def _skip_lanes(row, at, end, threshold, rule):
    if row.dtype.bitwidth > 8:
        return lambda row, at, end, threshold, rule: at

    def skip(row, at, end, threshold, rule):
        while at + WIDE <= end and not any_beats(row, at, threshold, rule):
            at += WIDE
        return at

    return skip


def _load_parts(context, builder, array_type, array, at):
    """Emit the loads of 64 elements, in vectors of 64 bytes."""
    lanes = 8 * CACHE_LINE // array_type.dtype.bitwidth
    for part in range(0, LANES, lanes):
        yield load_lanes(context, builder, array_type, array, builder.add(at, at.type(part)), lanes)


def _emit_best(builder, blocks, larger):
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
        return larger(builder, high, low)

    blocks = [reduce(lambda best, vector: larger(builder, vector, best), vectors) for vectors in blocks]
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


def _emit_best_keys(context, builder, array_type, row, at, values, blocks):
    """Emit a vector of the best key of neighbouring blocks; `values` are those of the rule."""

    def keys(block):
        parts = _load_parts(context, builder, array_type, row, builder.add(at, at.type(block * LANES)))
        return [emit_key(builder, part, [splat(builder, value, part.type.count) for value in values]) for part in parts]

    return _emit_best(builder, [keys(block) for block in range(blocks)], emit_larger)


def _emit_best_floats(context, builder, array_type, row, at, turn, blocks):
    """Emit a vector of the bits of the largest float of neighbouring blocks, whose bits are ``row[at + i] ^ turn``.

    NaNs are passed over; if there are no others, it is -infinity.
    """

    def floats(block):
        parts = list(_load_parts(context, builder, array_type, row, builder.add(at, at.type(block * LANES))))
        count = parts[0].type.count
        turns, kind = splat(builder, turn, count), _floats_of(turn.type.width, count)
        lowest = splat_constant(kind, float("-inf"))
        return [lowest, *(builder.bitcast(builder.xor(part, turns), kind) for part in parts)]

    found = _emit_best(builder, [floats(block) for block in range(blocks)], _emit_larger_float)
    return builder.bitcast(found, ir.VectorType(turn.type, blocks))


def _first(builder, vector):
    """Emit the first lane of a vector."""
    return builder.extract_element(vector, ir.IntType(32)(0))


@intrinsic
def best_key(typingctx, row, at, rule):
    """``best_key(row, at, rule)``: the best of 64 keys, from ``row[at]`` on."""

    def codegen(context, builder, signature, args):
        values = rule_values(builder, signature.args[2], args[2])
        return _first(builder, _emit_best_keys(context, builder, signature.args[0], *args[:2], values, 1))

    return row.dtype(row, types.int64, rule), codegen


@intrinsic
def best_float(typingctx, row, at, turn):
    """``best_float(row, at, turn)``: the bits of the largest of 64 floats, see `_emit_best_floats`."""

    def codegen(context, builder, signature, args):
        return _first(builder, _emit_best_floats(context, builder, signature.args[0], *args, 1))

    return row.dtype(row, types.int64, row.dtype), codegen


@intrinsic
def best_keys(typingctx, row, at, best, first, rule):
    """``best_keys(row, at, best, first, rule)``: write the best key of each of four blocks, from ``best[first]`` on."""

    def codegen(context, builder, signature, args):
        values = rule_values(builder, signature.args[4], args[4])
        found = _emit_best_keys(context, builder, signature.args[0], *args[:2], values, BLOCKS_AT_ONCE)
        builder.store(found, _place_of(context, builder, signature.args[2], *args[2:4], found.type)).align = 1
        return context.get_dummy_value()

    return types.void(row, types.int64, best, types.int64, rule), codegen


@intrinsic
def best_floats(typingctx, row, at, best, first, turn, rule):
    """``best_floats(row, at, best, first, turn, rule)``: the same for floats, as `best_float` compares them."""

    def codegen(context, builder, signature, args):
        turn = args[4]
        values = [splat(builder, value, BLOCKS_AT_ONCE) for value in rule_values(builder, signature.args[5], args[5])]
        found = _emit_best_floats(context, builder, signature.args[0], *args[:2], turn, BLOCKS_AT_ONCE)
        found = emit_key(builder, builder.xor(found, splat(builder, turn, BLOCKS_AT_ONCE)), values)
        builder.store(found, _place_of(context, builder, signature.args[2], *args[2:4], found.type)).align = 1
        return context.get_dummy_value()

    return types.void(row, types.int64, best, types.int64, row.dtype, rule), codegen


def best_lane(row, at, rule):
    """``best_lane(row, at, rule)``: the best of 64 keys, from ``row[at]`` on, or what may stand for it.

    For floats alone, which are compared as such: where all are NaN, and NaN comes last, it is the key of an infinity
    (see `least_bound`); where the best is subnormal, it may be that of another subnormal or a zero (see `lane_limit`).
    """
    raise NotImplementedError


@chosen(best_lane)
def _best_lane(row, at, rule):
    if not _are_compared(rule, row.dtype.bitwidth):
        return lambda row, at, rule: best_key(row, at, rule)
    sign = _SIGNED[row.dtype.bitwidth](lowest_of(row.dtype.bitwidth))

    def choose(row, at, rule):
        if rule[2] > rule[1]:  # NaN comes first
            return best_key(row, at, rule)
        turn = sign & rule[0]
        return key_of(row.dtype.type(best_float(row, at, turn) ^ turn), rule)

    return choose


def best_lanes(row, at, best, first, rule):
    """``best_lanes(row, at, best, first, rule)``: write `best_lane` of four neighbouring blocks."""
    raise NotImplementedError


@chosen(best_lanes)
def _best_lanes(row, at, best, first, rule):
    if not _are_compared(rule, row.dtype.bitwidth):
        return lambda row, at, best, first, rule: best_keys(row, at, best, first, rule)
    sign = _SIGNED[row.dtype.bitwidth](lowest_of(row.dtype.bitwidth))

    def choose(row, at, best, first, rule):
        if rule[2] > rule[1]:  # NaN comes first
            best_keys(row, at, best, first, rule)
        else:
            best_floats(row, at, best, first, sign & rule[0], rule)

    return choose


@helper
def best_lane_plain(row, at, rule):
    """Return what `best_lane` returns, in plain Numba; the keys of NaNs too."""
    best = lowest_key(row)
    for i in range(LANES):
        best = max(best, key_of(row[at + i], rule))
    return best


def least_bound(row, rule):
    """``least_bound(row, rule)``: the least bound from which on what `best_lane` finds above it is an element's key."""
    raise NotImplementedError


@chosen(least_bound)
def _least_bound(row, rule):
    least = _SIGNED[row.dtype.bitwidth](lowest_of(row.dtype.bitwidth) + 1)
    if len(rule) == 1:
        return lambda row, rule: least
    return lambda row, rule: row.dtype.type(-rule[1])  # the key of an infinity, or the next one


def lane_limit(threshold, rule):
    """``lane_limit(threshold, rule)``: what `best_lane` is above where any element is above a threshold."""
    raise NotImplementedError


@chosen(lane_limit)
def _lane_limit(threshold, rule):
    if not _are_compared(rule, threshold.bitwidth):
        return lambda threshold, rule: threshold
    normal = _NORMAL[threshold.bitwidth]
    kind = _SIGNED[threshold.bitwidth]

    def limit(threshold, rule):
        # The processor may compare subnormal numbers as zeros.
        return kind(-normal - 1) if -normal <= threshold <= normal else threshold

    return limit


@helper
def beats_plain(row, at, threshold, rule):
    """Return what `beats` returns, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        if key_of(row[at + i], rule) > threshold:
            mask |= np.uint64(1) << np.uint64(i)
    return mask


@intrinsic
def raise_lanes(typingctx, row, at, best, first, rule):
    """``raise_lanes(row, at, best, first, rule)``: raise 64 of the best keys to those of ``row[at:]``."""

    def codegen(context, builder, signature, args):
        lanes = load_lanes(context, builder, signature.args[0], args[0], args[1])
        values = [splat(builder, value, LANES) for value in rule_values(builder, signature.args[4], args[4])]
        keys = emit_key(builder, lanes, values)
        before = load_lanes(context, builder, signature.args[2], args[2], args[3])
        # If LLVM saw that it is the same place, it would store by masks: 64-bit keys took four times as long.
        place = _place_of(context, builder, signature.args[2], args[2], _opaque(builder, args[3]), before.type)
        builder.store(emit_larger(builder, keys, before), place).align = 1
        return context.get_dummy_value()

    return types.void(row, types.int64, best, types.int64, rule), codegen


@helper
def raise_lanes_plain(row, at, best, first, rule):
    """Do what `raise_lanes` does, in plain Numba."""
    for i in range(LANES):
        best[first + i] = max(best[first + i], key_of(row[at + i], rule))


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


def insert_width(best):
    """Return how many lists `insert_lanes` inserts into (inside kernels only)."""
    raise NotImplementedError


@chosen(insert_width)
def _insert_width(best):
    lanes = _LIST_BITS // best.dtype.bitwidth
    return lambda best: lanes


def _emit_keys_of_rows(builder, ref, offset, count, step, vector, parts, rule):
    pointer = emit_byte_pointer(builder, ref, offset)
    return emit_rows(builder, pointer, count, step, vector, parts, read_keys(builder, rule, vector.count))


def _emit_larger_rows(builder, rows, larger=emit_larger):
    """Emit the larger of each place of some rows, see `emit_rows`."""
    return reduce(lambda best, row: list(map(partial(larger, builder), row, best)), rows)


def _emit_best_of_rows(builder, ref, offset, count, step, vector, parts, rule):
    """Emit the best keys of some rows.

    Those of floats, which are needed where `_emit_largest_of_rows` does not tell, take an eighth of the code, row by
    row: a first call of top_k along axis 0 took 1.22 times as long without that as it took without any floats, and
    takes 1.05 times. Without and with it, in ms, two threads, (2048, 2048) f4, k 8: NaN first 1.50 and 1.57, a column
    of zeros in each mask 1.49 and 1.57 (an AMD EPYC).
    """
    if count == 1 or not _are_compared(rule, vector.element.width):
        return _emit_larger_rows(builder, _emit_keys_of_rows(builder, ref, offset, count, step, vector, parts, rule))

    def raise_best(_, at, *best):
        rows = _emit_keys_of_rows(builder, ref, at, 1, step, vector, parts, rule)
        return builder.add(at, step), *_emit_larger_rows(builder, [best, *rows])

    lowest = splat_constant(vector, lowest_of(vector.element.width))
    return emit_levels(builder, step.type(count), (offset, *[lowest] * parts), raise_best)[1:]


def _emit_largest_of_rows(builder, ref, offset, count, step, vector, parts, turn):
    """Emit the largest floats of some rows, see `emit_rows`, whose bits are ``bits ^ turn``.

    NaNs are passed over; if there are no others, it is -infinity. A vector takes two instructions so, with AVX-512, and
    seven by keys: top_k of (4096, 4096) f4 along axis 0, k 8, two threads of an Intel Xeon 2.56 and 2.49, 2.30 and 2.22
    ms, of an AMD EPYC 3.6 and 3.3.
    """
    floats = _floats_of(vector.element.width, vector.count)
    turns = splat(builder, turn, vector.count)

    def read(bits):
        return builder.bitcast(builder.xor(bits, turns), floats)

    lowest = [splat_constant(floats, float("-inf"))] * parts
    # LLVM must not see that keys load the same, see `beats_floats`.
    pointer = emit_byte_pointer(builder, ref, _opaque(builder, offset))
    rows = emit_rows(builder, pointer, count, step, vector, parts, read)
    return _emit_larger_rows(builder, chain([lowest], rows), _emit_larger_float)


def _emit_turn(builder, rule):
    """Emit what turns the signs of floats if the smallest are wanted."""
    flip = rule[0]
    return builder.and_(flip, flip.type(lowest_of(flip.type.width)))


def _are_ordered(builder, rule):
    """Emit whether NaNs come last."""
    return builder.icmp_signed("<", rule[2], rule[1])


def _emit_either(builder, condition, one, other):
    """Emit the choice between two ways to a value, if they have one; the first is the likely one."""
    values = []
    with builder.if_else(condition, likely=True) as branches:
        for branch, way in zip(branches, (one, other), strict=True):
            with branch:
                values.append((way(), builder.block))
    if values[0][0] is None:
        return None
    found = builder.phi(values[0][0].type)
    for value, block in values:
        found.add_incoming(value, block)
    return found


def _emit_limit(builder, limit, rule):
    """Emit the floats that others, turned, are above where their keys are above the limits; and for which that holds.

    Not for limits that are subnormal or zero, since subnormal numbers may count as zeros (see `beats`), or NaN.
    """
    count, width = limit.type.count, limit.type.element.width
    flip, infinity, _ = (splat(builder, value, count) for value in rule)
    number = builder.sub(limit, flip)
    sign = builder.and_(number, splat_constant(limit.type, lowest_of(width)))
    magnitude = builder.select(builder.icmp_signed("<", number, sign.type(None)), builder.neg(number), number)
    least = splat_constant(limit.type, _NORMAL[width])
    normal = builder.icmp_unsigned("<=", builder.sub(magnitude, least), builder.sub(infinity, least))
    return builder.bitcast(builder.or_(magnitude, sign), _floats_of(width, count)), normal


def _columns_above(count):
    @intrinsic
    def columns_above(typingctx, ref, offset, step, limits, first, rule):
        def codegen(context, builder, signature, args):
            ref, offset, step, limits, first, rule = args
            array_type = signature.args[3]
            vector = _vector_of(array_type.dtype, 8 * CACHE_LINE)
            parts = LANES // vector.count
            values = rule_values(builder, signature.args[5], rule)
            word = ir.IntType(LANES)
            least = [
                load_lanes(context, builder, array_type, limits, builder.add(first, first.type(lane)), vector.count)
                for lane in range(0, LANES, vector.count)
            ]

            def mask_of(above):
                found = word(0)
                for part, bits in enumerate(above):
                    mask = as_mask(builder, bits)
                    if vector.count < LANES:
                        mask = builder.shl(builder.zext(mask, word), word(part * vector.count))
                    found = builder.or_(found, mask)
                return found

            def by_keys():
                best = _emit_best_of_rows(builder, ref, offset, count, step, vector, parts, values)
                return mask_of(map(partial(builder.icmp_signed, ">"), best, least))

            def by_floats():
                turn = _emit_turn(builder, values)
                best = _emit_largest_of_rows(builder, ref, offset, count, step, vector, parts, turn)
                return mask_of(map(partial(builder.fcmp_ordered, ">"), best, floats))

            if count == 1 or not _are_compared(values, vector.element.width):
                return by_keys()
            floats, normal = zip(*(_emit_limit(builder, part, values) for part in least), strict=True)
            normal = as_mask(builder, reduce(builder.and_, normal))
            usable = builder.and_(_are_ordered(builder, values), builder.icmp_signed("==", normal, normal.type(-1)))
            return _emit_either(builder, usable, by_floats, by_keys)

        return types.uint64(ref, types.int64, types.int64, limits, types.int64, rule), codegen

    return columns_above


#: ``row_beats(ref, offset, step, limits, first, rule)``: bit i: the key of column i, of 64 from a byte offset on, is
#: above its limit, ``limits[first + i]``; ``any_row_beats``: in any of `ROWS_AT_ONCE` rows, `step` bytes apart.
row_beats, any_row_beats = _columns_above(1), _columns_above(ROWS_AT_ONCE)


@helper
def columns_above_plain(ref, offset, count, step, limits, first, rule):
    """Return what `row_beats` and `any_row_beats` return for one row or several, in plain Numba."""
    mask = np.uint64(0)
    for i in range(LANES):
        for row in range(count):
            if key_of(load(ref, offset + row * step + i * itemsize(ref)), rule) > limits[first + i]:
                mask |= np.uint64(1) << np.uint64(i)
    return mask


@intrinsic
def rows_that_beat(typingctx, ref, offset, step, limits, first, rule):
    """``rows_that_beat(ref, offset, step, limits, first, rule)``: which rows have a key above its column's limit.

    Bit i is the one of row i; of `insert_width` columns, see `any_row_beats`.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, limits, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, _LIST_BITS)
        values = rule_values(builder, signature.args[5], rule)
        least = load_lanes(context, builder, array_type, limits, first, vector.count)
        word, number = ir.IntType(64), ir.IntType(vector.count)
        found = word(0)
        rows = _emit_keys_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, 1, values)
        for row, (keys,) in enumerate(rows):
            above = builder.bitcast(builder.icmp_signed(">", keys, least), number)
            bit = builder.zext(builder.icmp_unsigned("!=", above, number(0)), word)
            found = builder.or_(found, builder.shl(bit, word(row)))
        return found

    return types.uint64(ref, types.int64, types.int64, limits, types.int64, rule), codegen


@helper
def rows_that_beat_plain(ref, offset, step, limits, first, rule):
    """Return what `rows_that_beat` returns, in plain Numba."""
    mask = np.uint64(0)
    for row in range(ROWS_AT_ONCE):
        for i in range(insert_width(limits)):
            if key_of(load(ref, offset + row * step + i * itemsize(ref)), rule) > limits[first + i]:
                mask |= np.uint64(1) << np.uint64(row)
    return mask


@intrinsic
def best_of_rows(typingctx, ref, offset, step, best, first, rule):
    """``best_of_rows(ref, offset, step, best, first, rule)``: write the best key of each column in some rows.

    Rows and columns are those of `any_row_beats`; they go to ``best[first : first + 64]``. Of floats, unless
    NaN comes first, a subnormal one or a zero may stand for another subnormal one (see `lane_limit`), even if the zero
    is not there, and the lowest key for the infinity that comes last.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, best, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, 8 * CACHE_LINE)
        parts = LANES // vector.count
        values = rule_values(builder, signature.args[5], rule)

        def write(found):
            for part, keys in enumerate(found):
                at = builder.add(first, first.type(part * vector.count))
                builder.store(keys, _place_of(context, builder, array_type, best, at, vector)).align = 1

        def by_keys():
            write(_emit_best_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, parts, values))

        def by_floats():
            turn = _emit_turn(builder, values)
            read, turns = read_keys(builder, values, vector.count), splat(builder, turn, vector.count)
            lowest = splat_constant(vector, lowest_of(vector.element.width))

            def key(largest):
                none = builder.fcmp_ordered("==", largest, splat_constant(largest.type, float("-inf")))
                return builder.select(none, lowest, read(builder.xor(builder.bitcast(largest, vector), turns)))

            write(map(key, _emit_largest_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, parts, turn)))

        if _are_compared(values, vector.element.width):
            _emit_either(builder, _are_ordered(builder, values), by_floats, by_keys)
        else:
            by_keys()
        return context.get_dummy_value()

    word = types.int64
    return types.void(ref, word, word, best, word, rule), codegen


@helper
def best_of_rows_plain(ref, offset, step, best, first, rule):
    """Do what `best_of_rows` does, in plain Numba."""
    for lane in range(LANES):
        best[first + lane] = lowest_key(best)
        for row in range(ROWS_AT_ONCE):
            key = best.dtype.type(key_of(load(ref, offset + row * step + lane * itemsize(ref)), rule))
            best[first + lane] = max(best[first + lane], key)


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
def lower_limits(typingctx, ref, offset, step, limits, first, rule):
    """``lower_limits(ref, offset, step, limits, first, rule)``: lower limits to the best of each half of some rows.

    Rows and columns are those of `rows_that_beat`. What is lower already stays.
    """

    def codegen(context, builder, signature, args):
        ref, offset, step, limits, first, rule = args
        array_type = signature.args[3]
        vector = _vector_of(array_type.dtype, _LIST_BITS)
        values = rule_values(builder, signature.args[5], rule)
        rows = _emit_keys_of_rows(builder, ref, offset, ROWS_AT_ONCE, step, vector, 1, values)
        place = _place_of(context, builder, array_type, limits, first, vector)
        limit = load_vector(builder, place, vector)
        for _ in range(2):
            (key,) = _emit_larger_rows(builder, islice(rows, ROWS_AT_ONCE // 2))
            limit = builder.select(builder.icmp_signed("<", key, limit), key, limit)
        builder.store(limit, place).align = 1
        return context.get_dummy_value()

    return types.void(ref, types.int64, types.int64, limits, types.int64, rule), codegen


@helper
def lower_limits_plain(ref, offset, step, limits, first, rule):
    """Do what `lower_limits` does, in plain Numba."""
    half = ROWS_AT_ONCE // 2
    for lane in range(insert_width(limits)):
        for begin in (0, half):
            key = lowest_key(limits)
            for row in range(begin, begin + half):
                key = max(key, limits.dtype.type(key_of(load(ref, offset + row * step + lane * itemsize(ref)), rule)))
            limits[first + lane] = min(limits[first + lane], key)


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
            # exchanged by their difference: LLVM would turn a choice into a masked store, which is slow (19 ms, not
            # 10).
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
    groups as k, the k-th is a bad bound. One thread of an AMD EPYC, ns a line, with 16 groups and 32: f4 k 16 256 357
    and 272, k 12 1000 714 and 592, k 12 3000 1960 and 1725, f8 k 16 100 572 and 398.
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


@intrinsic
def lowest_bit(typingctx, mask):
    """``lowest_bit(mask)``: the position of the lowest set bit; the mask must not be 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic
def bit_count(typingctx, mask):
    """``bit_count(mask)``: how many bits are set."""
    return types.int64(types.uint64), lambda context, builder, signature, args: builder.ctpop(args[0])


def rule_from(ref, plan, at):
    """Return the rule that a plan holds at position `at` (inside kernels only)."""
    raise NotImplementedError


@chosen(rule_from)
def _rule_from(ref, plan, at):
    kind = _SIGNED[ref.dtype.bitwidth]
    if ref.is_float:
        return lambda ref, plan, at: (kind(plan[at]), kind(plan[at + 1]), kind(plan[at + 2]))
    return lambda ref, plan, at: (kind(plan[at]),)


def key_buffer(ref, shape):
    """Return an empty array for keys of a reference's elements (inside kernels only)."""
    raise NotImplementedError


@chosen(key_buffer, allocates=True)
def _key_buffer(ref, shape):
    kind = _SIGNED[ref.dtype.bitwidth]
    return lambda ref, shape: empty(shape, kind)


def scanned_buffer(ref, count):
    """Return an empty array for `count` keys that vector steps scan, with `SPARE` behind them (inside kernels only)."""
    raise NotImplementedError


@chosen(scanned_buffer, allocates=True)
def _scanned_buffer(ref, count):
    kind = _SIGNED[ref.dtype.bitwidth]
    return lambda ref, count: empty(count + SPARE, kind)


def place_buffer(ref, shape):
    """Return an empty array for positions, as wide as keys: then one mask chooses both (inside kernels only)."""
    raise NotImplementedError


@chosen(place_buffer, allocates=True)
def _place_buffer(ref, shape):
    kind = _SIGNED[max(ref.dtype.bitwidth, 32)]
    return lambda ref, shape: empty(shape, kind)


def lowest_key(array):
    """Return the lowest key that an array can hold (inside kernels only)."""
    raise NotImplementedError


@chosen(lowest_key)
def _lowest_key(array):
    lowest = _SIGNED[array.dtype.bitwidth](lowest_of(array.dtype.bitwidth))
    return lambda array: lowest
