"""Lists in registers, and a thread's own row of shared memory: what the kernel for short lines needs.

As in `_memory`, each step has a plain twin for the simulator.
"""

from __future__ import annotations

import ctypes

from . import SIMULATED
from ._memory import pointer_at, ptx

if not SIMULATED:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    _WORD = ir.IntType(64)


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


def note_reaching(bits, count, of_note=8):
    """Return ``note(place, keys, bar, first)``: which of `count` keys reach a bar, as notes of 8 or 16 bits.

    The number of a key is `first` and up, the place is in shared memory. It returns the place after the last note. No
    lane waits for another one.
    """
    step = of_note // 8
    if SIMULATED:
        kind = ctypes.c_uint8 if of_note == 8 else ctypes.c_uint16

        def note(place, keys, bar, first):
            for i in range(count):
                if keys[i] >= bar:
                    pointer_at(kind, place)[0] = int(first) + i
                    place += step
            return place

        return note

    register, letter = ir.IntType(bits), "r" if bits == 32 else "l"
    asm = "{ .reg .pred p; .reg .u32 a, n; cvt.u32.u64 a, $" + f"{count + 2}; "
    for i in range(count):
        asm += (
            f"add.u32 n, ${count + 3}, {i}; setp.ge.s{bits} p, ${1 + i}, ${count + 1}; "
            f"@p st.shared.u{of_note} [a], n; @p add.u32 a, a, {step}; "
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


def _exchanges(count):
    """Return the steps of Batcher's odd-even merge sort of a power of two: 5 for 4, 19 for 8, 63 for 16."""
    steps = []
    span = 1
    while span < count:
        step = span
        while step > 0:
            for start in range(step % span, count - step, 2 * step):
                for i in range(start, min(start + step, count - step)):
                    if i // (2 * span) == (i + step) // (2 * span):
                        steps.append((i, i + step))
            step //= 2
        span *= 2
    return steps


def _keep_best(best, new, both, better):
    """Let the best of a descending list, and of new ones, so many at a time, be the list, by exchanges alone."""
    most = len(best)
    steps = _exchanges(most)
    for start in range(0, len(new), most):
        part = list(new[start : start + most])
        for i, j in steps:
            part[i], part[j] = both(part[i], part[j])
        best = [better(old, other) for old, other in zip(best, reversed(part), strict=True)]
        step = most // 2
        while step > 0:  # what is left rises at most once, and falls at most once
            for i in range(most):
                if i & step == 0:
                    best[i], best[i + step] = both(best[i], best[i + step])
            step //= 2
    return best


def _both_twin(a, b):
    return (a, b) if a > b else (b, a)


def keep_best(best, new):
    """Return the best of a descending tuple of integers, and of new ones, a multiple of as many.

    It is a network of minima and maxima, an instruction each up to 32 bits: the same steps for all lanes.
    """
    return tuple(_keep_best(best, new, _both_twin, max))


def keep_best_pairs(keys, lows, new_keys, new_lows):
    """Return the same of pairs, which compare by their keys, then by what lies in another tuple."""
    pairs = _keep_best(list(zip(keys, lows, strict=True)), list(zip(new_keys, new_lows, strict=True)), _both_twin, max)
    return tuple(key for key, _ in pairs), tuple(low for _, low in pairs)


if not SIMULATED:

    def _first(builder, a, b):
        above = builder.icmp_signed(">", a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            equal = builder.icmp_signed("==", a[0], b[0])
            above = builder.or_(above, builder.and_(equal, builder.icmp_signed(">", x, y)))
        return above

    def _network(context, builder, result, lists):
        """Emit the network for records that lie in several tuples; return these."""
        columns = [[builder.extract_value(a, i) for i in range(a.type.count)] for a in lists]
        half = len(columns) // 2
        best, new = (list(zip(*columns[i : i + half], strict=True)) for i in (0, half))

        def select(first, a, b):
            return tuple(builder.select(first, x, y) for x, y in zip(a, b, strict=True))

        # Of 64 bits a maximum and a minimum would take two comparisons; together, and so written, they take one.
        pair = ir.LiteralStructType([_WORD, _WORD])
        ordered = ir.InlineAsm(
            ir.FunctionType(pair, [_WORD, _WORD]),
            "{ .reg .pred p; setp.gt.s64 p, $2, $3; selp.b64 $0, $2, $3, p; selp.b64 $1, $3, $2, p; }",
            "=&l,=&l,l,l",
        )

        def both(a, b):
            if half == 1 and a[0].type.width == 64:
                words = builder.call(ordered, [a[0], b[0]])
                return (builder.extract_value(words, 0),), (builder.extract_value(words, 1),)
            first = _first(builder, a, b)
            return select(first, a, b), select(first, b, a)

        best = _keep_best(best, new, both, lambda a, b: select(_first(builder, a, b), a, b))
        return [
            context.make_tuple(builder, kind, list(column))
            for kind, column in zip(result, zip(*best, strict=True), strict=True)
        ]

    @intrinsic
    def keep_best(typingctx, best, new):
        def codegen(context, builder, signature, args):
            return _network(context, builder, [best], args)[0]

        return best(best, new), codegen

    @intrinsic
    def keep_best_pairs(typingctx, keys, lows, new_keys, new_lows):
        result = types.Tuple((keys, lows))

        def codegen(context, builder, signature, args):
            return context.make_tuple(builder, result, _network(context, builder, [keys, lows], args))

        return result(keys, lows, new_keys, new_lows), codegen


def pick(numbers, i):
    """Return a number of a tuple, by selections: a tuple has no addresses."""
    return numbers[i]


def noted_keys(bits, count):
    """Return ``load(start, end, row, none, first)``: the keys that `note_reaching` has noted, up to so many.

    And their places, which are their numbers from `first` on, negated, so that a later one is less. Beyond the end the
    key is `none`, and the place the least number.
    """
    kind = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    least = -(1 << 31)
    if SIMULATED:

        def load(start, end, row, none, first):
            places = [pointer_at(ctypes.c_uint8, at)[0] if at < end else None for at in range(start, start + count)]
            return (
                tuple(none if n is None else pointer_at(kind, row)[n] for n in places),
                tuple(least if n is None else -n - int(first) for n in places),
            )

        return load

    register, letter = ir.IntType(bits), "r" if bits == 32 else "l"
    start, end, row, none, before = (f"${2 * count + i}" for i in range(5))
    asm = f"{{ .reg .pred p; .reg .u32 a, b, n, first, last; cvt.u32.u64 first, {start}; cvt.u32.u64 last, {end}; "
    asm += f".reg .u32 row; cvt.u32.u64 row, {row}; sub.u32 last, last, 1; "
    for i in range(count):
        asm += (
            f"add.u32 a, first, {i}; setp.le.u32 p, a, last; min.u32 a, a, last; ld.shared.u8 n, [a]; "
            f"mad.lo.u32 b, n, {bits // 8}, row; ld.shared.b{bits} ${i}, [b]; add.s32 n, n, {before}; neg.s32 n, n; "
            f"selp.b{bits} ${i}, ${i}, {none}, p; selp.b32 ${count + i}, n, {least}, p; "
        )
    constraints = [f"=&{letter}"] * count + ["=&r"] * count + ["l", "l", "l", letter, "r", "~{memory}"]

    @intrinsic
    def load(typingctx, start, end, row, none, first):
        result = types.Tuple((types.UniTuple(none, count), types.UniTuple(types.int32, count)))

        def codegen(context, builder, signature, args):
            returned = ir.LiteralStructType([register] * count + [ir.IntType(32)] * count)
            function = ir.FunctionType(returned, [_WORD, _WORD, _WORD, register, ir.IntType(32)])
            code = ir.InlineAsm(function, asm + "}", ",".join(constraints), side_effect=True)
            value = builder.call(code, [*args[:4], builder.trunc(args[4], ir.IntType(32))])
            numbers = [builder.extract_value(value, i) for i in range(2 * count)]
            parts = [
                context.make_tuple(builder, kind, part)
                for kind, part in zip(result, (numbers[:count], numbers[count:]), strict=True)
            ]
            return context.make_tuple(builder, result, parts)

        return result(start, end, row, none, first), codegen

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
