"""Loads and stores of 16 bytes between shared memory and registers, at any alignment."""

from __future__ import annotations

import ctypes
from itertools import pairwise

from ...driver.numba import SIMULATED
from ..ptx import pointer_at, ptx

if not SIMULATED:
    from .register_lists import _SHORT, _WORD, _ZERO, intrinsic, ir, types


def shared_load(bits, count):
    """Return the load of `count` numbers from shared memory, by 16 bytes."""
    at_once = 128 // bits
    kind = ctypes.c_int32 if bits == 32 else ctypes.c_int64
    asm = "".join(
        f"ld.shared.v{at_once}.u{bits} {{{', '.join(f'${i + j}' for j in range(at_once))}}}, [a+{i * bits // 8}]; "
        for i in range(0, count, at_once)
    )
    asm = f"{{ .reg .u32 a; cvt.u32.u64 a, ${count}; {asm}}}"
    return ptx(asm, count, 1, lambda address: tuple(pointer_at(kind, address)[:count]), bits=bits)


def shared_store_all(bits, count):
    """Return the store of a tuple of numbers to shared memory, by 16 bytes if it has as many."""
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
    """Return ``shifted(unit, following, shift)``: the 16 bytes that begin `shift` bytes later, as one or two units are.

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
            while step >= max(width, 4):  # `step` bytes, or none
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
