"""Lists in registers, and a thread's own part of shared memory: what the kernels for short and for longer lines need.

As in `memory`, each step has a plain twin for the simulator.
"""

from __future__ import annotations

import ctypes
from functools import cache

from ...driver.numba import SIMULATED
from ..ptx import pointer_at

if not SIMULATED:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    _WORD, _SHORT = ir.IntType(64), ir.IntType(32)
    _ZERO = ir.Constant(_SHORT, 0)


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
    """Return the steps of Batcher's odd-even merge of neighbouring parts of equal length among `count` elements."""
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
    """Let the best of a descending list, and of new ones, a few at a time, be the list, by exchanges alone.

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
