"""Groups of keys in a row of shared memory, and the words that tell keys alike apart."""

from __future__ import annotations

import ctypes
from itertools import pairwise

from ...driver.numba import SIMULATED
from ..ptx import pointer_at

if not SIMULATED:
    from .register_lists import _as_tuples, intrinsic, ir, types


def group_steps(bits, of_group, at_once, listed):
    """Return steps of groups of keys that lie one after the other in a row of shared memory.

    ``maxima(row, first, end)`` returns the best key of each of `at_once` groups from the one of a number on. A group
    from `end` on is the one of that number. ``members(row, table)`` returns the keys of `listed` groups, whose numbers
    are in a table of int32.
    """
    kind = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    size = of_group * bits // 8
    if SIMULATED:

        def group(row, number):
            return tuple(pointer_at(kind, row + size * int(number))[:of_group])

        def maxima(row, first, end):
            return tuple(max(group(row, min(first + i, end))) for i in range(at_once))

        def members(row, table):
            return sum((group(row, n) for n in pointer_at(ctypes.c_int32, table)[:listed]), ())

        return maxima, members

    word, register, letter = ir.IntType(32), ir.IntType(bits), "r" if bits == 32 else "l"
    of_load = 128 // bits
    loads = "".join(
        f"ld.shared.v{of_load}.u{bits} {{{', '.join(f'${i + j}' for j in range(of_load))}}}, [a+{i * bits // 8}]; "
        for i in range(0, of_group, of_load)
    )
    returned = ir.LiteralStructType([register] * of_group)
    constraints = ",".join([f"=&{letter}"] * of_group + ["r", "r", "~{memory}"])
    asm = f"{{ .reg .u32 a; mad.lo.u32 a, ${of_group + 1}, {size}, ${of_group}; {loads}}}"
    load = ir.InlineAsm(ir.FunctionType(returned, [word, word]), asm, constraints, side_effect=True)
    number_kind = ir.FunctionType(word, [word])

    def keys_of(builder, row, number):
        keys = builder.call(load, [row, number])
        return [builder.extract_value(keys, i) for i in range(of_group)]

    def highest(builder, keys):
        best = keys[0]
        for other in keys[1:]:
            best = builder.select(builder.icmp_signed(">", best, other), best, other)
        return best

    key = types.int32 if bits == 32 else types.int64

    @intrinsic
    def maxima(typingctx, row, first, end):
        result = types.UniTuple(key, at_once)

        def codegen(context, builder, signature, args):
            row, first, end = (builder.trunc(a, word) for a in args)
            whole = builder.icmp_signed("<=", builder.add(first, ir.Constant(word, at_once)), end)
            bests = []
            with builder.if_else(whole) as (then, otherwise):
                with then:
                    numbers = [builder.add(first, ir.Constant(word, i)) for i in range(at_once)]
                    bests.append([highest(builder, keys_of(builder, row, n)) for n in numbers])
                    blocks = [builder.block]
                with otherwise:
                    numbers = [builder.add(first, ir.Constant(word, i)) for i in range(at_once)]
                    numbers = [builder.select(builder.icmp_signed("<", n, end), n, end) for n in numbers]
                    bests.append([highest(builder, keys_of(builder, row, n)) for n in numbers])
                    blocks.append(builder.block)
            joined = []
            for pair in zip(*bests, strict=True):
                value = builder.phi(register)
                for one, block in zip(pair, blocks, strict=True):
                    value.add_incoming(one, block)
                joined.append(value)
            return context.make_tuple(builder, result, joined)

        return result(row, first, end), codegen

    @intrinsic
    def members(typingctx, row, table):
        result = types.UniTuple(key, of_group * listed)

        def codegen(context, builder, signature, args):
            row, table = (builder.trunc(a, word) for a in args)
            keys = []
            for i in range(listed):
                asm = f"ld.shared.u32 $0, [$1+{4 * i}];"
                number = builder.call(ir.InlineAsm(number_kind, asm, "=r,r,~{memory}", side_effect=True), [table])
                keys += keys_of(builder, row, number)
            return context.make_tuple(builder, result, keys)

        return result(row, table), codegen

    return maxima, members


def word_steps(bits, mask):
    """Return how keys become words that are all different, in which an integer takes the place of the lower bits.

    ``upper(keys, label)``: the upper bits of keys, over labels, which count down. ``within(keys, low, high, label)``:
    how far each is above `low`, if it is between that and `high`, where all are in the mask's range, over the same.
    ``labels(words, last)``: by how much the label of each is below the highest one, or `last`, if that is less.
    ``alike(words)``: whether any two neighbours agree in all bits above the labels.
    """
    shift = mask.bit_length()
    if SIMULATED:

        def upper(keys, label):
            return tuple(int(key) & ~mask | int(label) - i for i, key in enumerate(keys))

        def within(keys, low, high, label):
            raised = (min(max(int(key), int(low)), int(high)) - int(low) for key in keys)
            return tuple((above << shift) + int(label) - i for i, above in enumerate(raised))

        def labels(words, last):
            return tuple(min(~int(word) & mask, int(last)) for word in words)

        def alike(words):
            return any((a ^ b) & ~mask == 0 for a, b in pairwise(words))

        return upper, within, labels, alike

    register, word = ir.IntType(bits), ir.IntType(32)

    def values(builder, numbers):
        return [builder.extract_value(numbers, i) for i in range(numbers.type.count)]

    def labelled(builder, label, count):
        label = label if label.type.width == bits else builder.trunc(label, register)
        return [builder.sub(label, ir.Constant(register, i)) for i in range(count)]

    def limit(builder, a, b, operator):
        return builder.select(builder.icmp_signed(operator, a, b), a, b)

    @intrinsic
    def upper(typingctx, keys, label):
        def codegen(context, builder, signature, args):
            keys = values(builder, args[0])
            masked = (builder.and_(key, ir.Constant(register, ~mask)) for key in keys)
            pairs = zip(masked, labelled(builder, args[1], len(keys)), strict=True)
            return context.make_tuple(builder, signature.return_type, [builder.or_(*pair) for pair in pairs])

        return keys(keys, label), codegen

    @intrinsic
    def within(typingctx, keys, low, high, label):
        def codegen(context, builder, signature, args):
            keys, low, high = values(builder, args[0]), args[1], args[2]
            raised = (limit(builder, limit(builder, key, low, ">"), high, "<") for key in keys)
            raised = (builder.shl(builder.sub(key, low), ir.Constant(register, shift)) for key in raised)
            pairs = zip(raised, labelled(builder, args[3], len(keys)), strict=True)
            return context.make_tuple(builder, signature.return_type, [builder.add(*pair) for pair in pairs])

        return keys(keys, keys.dtype, keys.dtype, label), codegen

    @intrinsic
    def labels(typingctx, words, last):
        result = types.UniTuple(types.int32, words.count)

        def codegen(context, builder, signature, args):
            last = builder.trunc(args[1], word)
            numbers = values(builder, args[0])
            numbers = [a if bits == 32 else builder.trunc(a, word) for a in numbers]
            numbers = (builder.and_(builder.not_(a), ir.Constant(word, mask)) for a in numbers)
            return context.make_tuple(builder, result, [limit(builder, a, last, "<") for a in numbers])

        return result(words, last), codegen

    @intrinsic
    def alike(typingctx, words):
        def codegen(context, builder, signature, args):
            numbers, found = values(builder, args[0]), ir.Constant(ir.IntType(1), 0)
            for a, b in pairwise(numbers):
                agree = builder.icmp_unsigned("<=", builder.xor(a, b), ir.Constant(register, mask))
                found = builder.or_(found, agree)
            return found

        return types.boolean(words), codegen

    return upper, within, labels, alike


def listed_keys(bits, of_group, count):
    """Return ``load(row, table, numbers, first)``: keys, by their numbers among the members of listed groups.

    And their places in the line, of which the row begins with the one of number `first`, negated, so that a later one
    is less.
    """
    kind, size = ctypes.c_int32 if bits == 32 else ctypes.c_int64, bits // 8
    if SIMULATED:

        def load(row, table, numbers, first):
            of_groups = pointer_at(ctypes.c_int32, table)
            places = [of_group * of_groups[n // of_group] + n % of_group for n in map(int, numbers)]
            keys = pointer_at(kind, row)
            return tuple(keys[place] for place in places), tuple(-int(first) - place for place in places)

        return load

    word, register, letter = ir.IntType(32), ir.IntType(bits), "r" if bits == 32 else "l"
    last = of_group - 1
    asm = (
        f"{{ .reg .u32 a; and.b32 a, $4, {~last & 0xFFFFFFFF}; mad.lo.u32 a, a, {4 // of_group}, $3; "
        f"ld.shared.u32 $1, [a]; and.b32 a, $4, {last}; mad.lo.u32 $1, $1, {of_group}, a; "
        f"mad.lo.u32 a, $1, {size}, $2; ld.shared.b{bits} $0, [a]; }}"
    )
    returned = ir.LiteralStructType([register, word])
    kinds = ir.FunctionType(returned, [word] * 3)
    code = ir.InlineAsm(kinds, asm, f"=&{letter},=&r,r,r,r,~{{memory}}", side_effect=True)

    @intrinsic
    def load(typingctx, row, table, numbers, first):
        kinds = types.UniTuple(types.int32 if bits == 32 else types.int64, count), types.UniTuple(types.int32, count)
        result = types.Tuple(kinds)

        def codegen(context, builder, signature, args):
            row, table, first = (builder.trunc(args[i], word) for i in (0, 1, 3))
            found = [builder.call(code, [row, table, builder.extract_value(args[2], i)]) for i in range(count)]
            start = builder.neg(first)
            records = [
                (builder.extract_value(pair, 0), builder.sub(start, builder.extract_value(pair, 1))) for pair in found
            ]
            return context.make_tuple(builder, result, _as_tuples(context, builder, kinds, records))

        return result(row, table, numbers, first), codegen

    return load
