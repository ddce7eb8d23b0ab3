"""Lists in registers, and a thread's own part of shared memory: what the kernels for short and for longer lines need.

As in `_memory`, each step has a plain twin for the simulator.
"""

from __future__ import annotations

import ctypes
from functools import cache
from itertools import pairwise

from . import SIMULATED
from ._memory import pointer_at, ptx

if not SIMULATED:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    _WORD, _SHORT = ir.IntType(64), ir.IntType(32)
    _ZERO = ir.Constant(_SHORT, 0)


def shared_load(bits, count):
    """Return the load of so many numbers from shared memory, by 16 bytes."""
    at_once = 128 // bits
    kind = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    asm = "".join(
        f"ld.shared.v{at_once}.u{bits} {{{', '.join(f'${i + j}' for j in range(at_once))}}}, [a+{i * bits // 8}]; "
        for i in range(0, count, at_once)
    )
    asm = f"{{ .reg .u32 a; cvt.u32.u64 a, ${count}; {asm}}}"
    return ptx(asm, count, 1, lambda address: tuple(pointer_at(kind, address)[:count]), bits=bits)


def shared_store_all(bits, count):
    """Return the store of a tuple of so many numbers to shared memory, by 16 bytes if it has as many."""
    at_once = min(128 // bits, count)
    kind = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    if SIMULATED:

        def store(address, numbers):
            words = pointer_at(kind, address)
            for i in range(count):
                words[i] = int(numbers[i])

        return store

    asm = "{ .reg .u32 a; cvt.u32.u64 a, $0; "
    for i in range(0, count, at_once):
        names = ", ".join(f"${1 + i + j}" for j in range(at_once))
        asm += f"st.shared{f'.v{at_once}' if at_once > 1 else ''}.b{bits} [a+{i * bits // 8}], {{{names}}}; "
    register = ir.IntType(bits)

    @intrinsic
    def store(typingctx, address, numbers):
        def codegen(context, builder, signature, args):
            values = [builder.extract_value(args[1], i) for i in range(count)]
            function = ir.FunctionType(ir.VoidType(), [_WORD] + [register] * count)
            constraints = ",".join(["l"] + ["r" if bits == 32 else "l"] * count + ["~{memory}"])
            builder.call(ir.InlineAsm(function, asm + "}", constraints, side_effect=True), [args[0], *values])
            return context.get_dummy_value()

        return types.void(address, numbers), codegen

    return store


def shifted_unit(width):
    """Return ``shifted(unit, following, shift)``: the 16 bytes that begin so many bytes later, as one or two units are.

    A unit is a tuple, of four words or of two of 64 bits; the shift is less than 16, and a multiple of the width.
    """
    bits = 64 if width == 8 else 32
    if SIMULATED:

        def twin(unit, following, shift):
            whole = sum((int(word) & (1 << bits) - 1) << bits * i for i, word in enumerate((*unit, *following)))
            words = ((whole >> 8 * int(shift) + bits * i) & (1 << bits) - 1 for i in range(128 // bits))
            return tuple(word - (1 << bits) if word >> bits - 1 else word for word in words)

        return twin

    @intrinsic
    def shifted(typingctx, unit, following, shift):
        def codegen(context, builder, signature, args):
            words = [builder.extract_value(a, i) for a in args[:2] for i in range(128 // bits)]
            step = 8
            while step >= max(width, 4):  # so many bytes, or none
                count = step * 8 // bits
                is_set = builder.icmp_signed("!=", builder.and_(args[2], ir.Constant(args[2].type, step)), _ZERO)
                words = [builder.select(is_set, b, a) for a, b in zip(words, words[count:], strict=False)]
                step //= 2
            if width < 4:
                kind = ir.FunctionType(_SHORT, [_SHORT] * 3)
                funnel = ir.InlineAsm(kind, "shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r")
                by = builder.shl(builder.and_(args[2], ir.Constant(_SHORT, 3)), ir.Constant(_SHORT, 3))
                words = [builder.call(funnel, [a, b, by]) for a, b in pairwise(words)]
            return context.make_tuple(builder, unit, words[: 128 // bits])

        return unit(unit, following, types.int32), codegen

    return shifted


def note_reaching(bits, count):
    """Return ``note(place, keys, bar, first)``: which of `count` keys reach a bar, as notes of 16 bits.

    The number of a key is `first` and up, the place is in shared memory. It returns the place after the last note. No
    lane waits for another one.
    """
    if SIMULATED:

        def note(place, keys, bar, first):
            for i in range(count):
                if keys[i] >= bar:
                    pointer_at(ctypes.c_uint16, place)[0] = int(first) + i
                    place += 2
            return place

        return note

    register, letter = ir.IntType(bits), "r" if bits == 32 else "l"
    asm = "{ .reg .pred p; .reg .u32 a, n; cvt.u32.u64 a, $" + f"{count + 2}; "
    for i in range(count):
        asm += (
            f"add.u32 n, ${count + 3}, {i}; setp.ge.s{bits} p, ${1 + i}, ${count + 1}; "
            "@p st.shared.u16 [a], n; @p add.u32 a, a, 2; "
        )
    asm += "cvt.u64.u32 $0, a; }"
    constraints = ",".join(["=l"] + [letter] * (count + 1) + ["l", "r", "~{memory}"])

    @intrinsic
    def note(typingctx, place, keys, bar, first):
        def codegen(context, builder, signature, args):
            values = [builder.extract_value(args[1], i) for i in range(count)]
            function = ir.FunctionType(_WORD, [register] * (count + 1) + [_WORD, ir.IntType(32)])
            code = ir.InlineAsm(function, asm, constraints, side_effect=True)
            return builder.call(code, [*values, args[2], args[0], builder.trunc(args[3], ir.IntType(32))])

        return types.int64(place, keys, bar, first), codegen

    return note


def _merges(span, count):
    """Return the steps of Batcher's odd-even merge of neighbouring parts of `count` elements, each of so many."""
    steps, step = [], span
    while step > 0:
        for start in range(step % span, count - step, 2 * step):
            for i in range(start, min(start + step, count - step)):
                if i // (2 * span) == (i + step) // (2 * span):
                    steps.append((i, i + step))
        step //= 2
    return steps


def _exchanges(count):
    """Return the steps of Batcher's odd-even merge sort of a power of two: 5 for 4, 19 for 8, 63 for 16."""
    return [pair for bit in range(count.bit_length() - 1) for pair in _merges(1 << bit, count)]


@cache
def _steps(most, wanted, is_sorted):
    """Return how to merge a list and `most` new elements behind it, sorted or not, into the `wanted` best ones.

    Each step is an exchange of two places, and whether what comes to the first and to the second one is looked at.
    """
    pairs = [] if is_sorted else [(most + i, most + j) for i, j in _exchanges(most)]
    needed, steps = set(range(wanted)), []
    for i, j in reversed(pairs + _merges(most, 2 * most)):
        if i in needed or j in needed:
            steps.append((i, j, i in needed, j in needed))
            needed |= {i, j}
    return steps[::-1]


def _keep_best(best, new, exchange, next_best=None, is_sorted=False):
    """Let the best of a descending list, and of new ones, so many at a time, be the list, by exchanges alone.

    ``exchange(a, b, first, second)`` returns the better one, if that is wanted, and the other one. `next_best`: the
    best of what was left out, which is returned as well. Of two lists of 8 it is found by one step more: the merge is
    Batcher's, where each place is the end of few steps.
    """
    most = len(best)
    steps = _steps(most, most + (next_best is not None), is_sorted)
    for start in range(0, len(new), most):
        both = [*best, *new[start : start + most]]
        for i, j, first, second in steps:
            both[i], both[j] = exchange(both[i], both[j], first, second)
        best = both[:most]
        if next_best is not None:
            next_best, _ = exchange(next_best, both[most], True, False)
    return best, next_best


def _exchange_twin(a, b, *_):
    return (a, b) if a > b else (b, a)


def keep_best(best, new):
    """Return the best of a descending tuple of integers, and of new ones, a multiple of as many.

    It is a network of minima and maxima, an instruction each up to 32 bits: the same steps for all lanes.
    """
    return tuple(_keep_best(best, new, _exchange_twin)[0])


def keep_best_and_next(best, next_best, new):
    """Return the same, and the best of what was left out: the one before, or one of these."""
    best, next_best = _keep_best(best, new, _exchange_twin, next_best)
    return tuple(best), next_best


def merge_pairs(keys, lows, new_keys, new_lows):
    """Return the best of two descending lists of pairs, which compare by their keys, then by what lies beside them."""
    pairs = [list(zip(*lists, strict=True)) for lists in ((keys, lows), (new_keys, new_lows))]
    return tuple(zip(*_keep_best(*pairs, _exchange_twin, is_sorted=True)[0], strict=True))


def sort_pairs(keys, lows):
    """Return pairs in descending order."""
    return tuple(zip(*sorted(zip(keys, lows, strict=True), reverse=True), strict=True))


def sort_numbers(numbers, count, other):
    """Return the first `count` integers of a tuple in ascending order, then another one, which is not less."""
    return tuple(sorted(numbers[:count])) + (other,) * (len(numbers) - count)


if not SIMULATED:

    def _above(builder, a, b):
        above = builder.icmp_signed(">", a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            equal = builder.icmp_signed("==", a[0], b[0])
            above = builder.or_(above, builder.and_(equal, builder.icmp_signed(">", x, y)))
        return above

    def _exchange_of(builder):
        """Return the exchange of records, tuples of values: a step that nothing looks at is left out."""
        # Of 64 bits a maximum and a minimum would take two comparisons; together, and so written, they take one.
        pair = ir.LiteralStructType([_WORD, _WORD])
        ordered = ir.InlineAsm(
            ir.FunctionType(pair, [_WORD, _WORD]),
            "{ .reg .pred p; setp.gt.s64 p, $2, $3; selp.b64 $0, $2, $3, p; selp.b64 $1, $3, $2, p; }",
            "=&l,=&l,l,l",
        )

        def exchange(a, b, first, second):
            if len(a) == 1 and a[0].type.width == 64 and first and second:
                words = builder.call(ordered, [a[0], b[0]])
                return (builder.extract_value(words, 0),), (builder.extract_value(words, 1),)
            above = _above(builder, a, b)
            better = [builder.select(above, x, y) for x, y in zip(a, b, strict=True)] if first else a
            return better, [builder.select(above, y, x) for x, y in zip(a, b, strict=True)] if second else b

        return exchange

    def _records(builder, *lists):
        """Return the records of which the values lie in several tuples."""
        columns = [[builder.extract_value(a, i) for i in range(a.type.count)] for a in lists]
        return list(zip(*columns, strict=True))

    def _as_tuples(context, builder, kinds, records):
        columns = zip(*records, strict=True)
        return [context.make_tuple(builder, kind, list(a)) for kind, a in zip(kinds, columns, strict=True)]

    @intrinsic
    def keep_best(typingctx, best, new):
        def codegen(context, builder, signature, args):
            records = (_records(builder, a) for a in args)
            return _as_tuples(context, builder, [best], _keep_best(*records, _exchange_of(builder))[0])[0]

        return best(best, new), codegen

    @intrinsic
    def keep_best_and_next(typingctx, best, next_best, new):
        result = types.Tuple((best, best.dtype))

        def codegen(context, builder, signature, args):
            records = (_records(builder, a) for a in args[::2])
            found, beyond = _keep_best(*records, _exchange_of(builder), (args[1],))
            parts = [*_as_tuples(context, builder, [best], found), beyond[0]]
            return context.make_tuple(builder, result, parts)

        return result(best, best.dtype, new), codegen

    @intrinsic
    def merge_pairs(typingctx, keys, lows, new_keys, new_lows):
        result = types.Tuple((keys, lows))

        def codegen(context, builder, signature, args):
            records = (_records(builder, *args[i : i + 2]) for i in (0, 2))
            found, _ = _keep_best(*records, _exchange_of(builder), is_sorted=True)
            return context.make_tuple(builder, result, _as_tuples(context, builder, [keys, lows], found))

        return result(keys, lows, new_keys, new_lows), codegen

    def _sort(builder, records):
        exchange = _exchange_of(builder)
        for i, j in _exchanges(len(records)):
            records[i], records[j] = exchange(records[i], records[j], True, True)
        return records

    @intrinsic
    def sort_pairs(typingctx, keys, lows):
        result = types.Tuple((keys, lows))

        def codegen(context, builder, signature, args):
            found = _sort(builder, _records(builder, *args))
            return context.make_tuple(builder, result, _as_tuples(context, builder, [keys, lows], found))

        return result(keys, lows), codegen

    @intrinsic
    def sort_numbers(typingctx, numbers, count, other):
        def codegen(context, builder, signature, args):
            records = _records(builder, args[0])
            kind = records[0][0].type
            count, other = (a if a.type == kind else builder.trunc(a, kind) for a in args[1:])
            for i, (number,) in enumerate(records):
                is_one = builder.icmp_signed("<", ir.Constant(kind, i), count)
                records[i] = (builder.select(is_one, number, other),)
            return _as_tuples(context, builder, [numbers], _sort(builder, records)[::-1])[0]

        return numbers(numbers, count, other), codegen


def pick(numbers, i):
    """Return a number of a tuple, by selections: a tuple has no addresses."""
    return numbers[i]


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


def keys_over_places(width, count):
    """Return ``join(words, place)``: of so many keys of 1 or 2 bytes, each one over 16 bits, which count down."""
    of_word = 4 // width
    keys = 8 * width
    if SIMULATED:

        def join(words, place):
            bits = (int(words[i // of_word]) >> i % of_word * keys & (1 << keys) - 1 for i in range(count))
            return tuple(_as_int32(b << 32 - keys | place - i) for i, b in enumerate(bits))

        return join

    register = ir.IntType(32)
    kind = ir.FunctionType(register, [register, register])

    @intrinsic
    def join(typingctx, words, place):
        result = types.UniTuple(types.int32, count)

        def codegen(context, builder, signature, args):
            place = builder.trunc(args[1], register)
            joined = []
            for i in range(count):
                j = i % of_word
                selector = 0x1054 + 0x2200 * j if width == 2 else 0x0654 + 0x1000 * j
                code = ir.InlineAsm(kind, f"prmt.b32 $0, $1, $2, {selector};", "=r,r,r")
                word = builder.extract_value(args[0], i // of_word)
                joined.append(builder.call(code, [word, builder.sub(place, ir.Constant(register, i))]))
            return context.make_tuple(builder, result, joined)

        return result(words, place), codegen

    return join


if not SIMULATED:

    @intrinsic
    def pick(typingctx, numbers, i):
        def codegen(context, builder, signature, args):
            chosen = builder.extract_value(args[0], 0)
            for j in range(1, signature.args[0].count):
                this = builder.icmp_signed("==", args[1], ir.Constant(args[1].type, j))
                chosen = builder.select(this, builder.extract_value(args[0], j), chosen)
            return chosen

        return numbers.dtype(numbers, i), codegen


def _as_int32(value):
    return value - (1 << 32) if value >> 31 > 0 else value


def _float_keys(bits, kind, infinity):
    """Return the keys of floats, see `FLOAT_KEYS`."""
    sign, ones = 1 << (bits - 1), sum(1 << shift for shift in range(0, 32, bits))

    def of_one(b, negative, turned):
        magnitude = b & sign - 1
        if magnitude > infinity:
            magnitude = sign - 1
        elif (b & sign != 0) != negative and magnitude != 0:
            magnitude ^= 2 * sign - 1
        return (magnitude ^ turned) & 2 * sign - 1

    def twin(word, scale, turned):
        negative = scale >> 31 & 1 == 1
        parts = (of_one(word >> shift & 2 * sign - 1, negative, turned) << shift for shift in range(0, 32, bits))
        return _as_int32(sum(parts))

    return ptx(
        "{ .reg .b32 x, s, t; cvt.u32.u64 x, $1; cvt.u32.u64 s, $2; mov.b32 t, 0; "
        f"fma.rn.{kind} x, x, s, t; shr.u32 t, x, {bits - 1}; and.b32 t, t, {ones}; mul.lo.u32 t, t, {sign - 1}; "
        "xor.b32 x, x, t; cvt.u32.u64 t, $3; xor.b32 $0, x, t; }",
        1,
        3,
        twin,
        pure=True,
        bits=32,
    )


#: By the bits of infinity: ``keys(word, scale, turned)``, the key of a float of 32 bits, or those of two of 16 bits.
#: A multiplication by `scale`, one or minus one, and an addition of zero leave one zero and one NaN, whose bits are all
#: set but for the sign. So it has the highest key, and if all keys are `turned`, by -1, the lowest.
FLOAT_KEYS = {
    0x7F800000: _float_keys(32, "f32", 0x7F800000),
    0x7C00: _float_keys(16, "f16x2", 0x7C00),
    0x7F80: _float_keys(16, "bf16x2", 0x7F80),
}
#: The bits of one, of a float of 32 bits and of two of 16 bits, and the signs.
FLOAT_ONES = {0x7F800000: 0x3F800000, 0x7C00: 0x3C003C00, 0x7F80: 0x3F803F80}
