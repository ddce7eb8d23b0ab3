"""Inline PTX as functions of integers, each with its twin in Python for the simulator."""

from __future__ import annotations

import ctypes

import numpy as np

from ..driver.context import can_come_early
from ..driver.numba import SIMULATED

if not SIMULATED:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    _WORD = ir.IntType(64)


#: Types as arrays in dynamic shared memory want them.
ARRAY_TYPES = {
    np.int32: np.dtype(np.int32) if SIMULATED else types.int32,
    np.int64: np.dtype(np.int64) if SIMULATED else types.int64,
}


def ptx(asm, results, arguments, twin, *, pure=False, bits=64, of=64, together=False):
    """Return inline PTX as a function of integers, with its twin.

    `results` is how many registers of `bits` bits it returns: none, one, or a tuple; arguments are registers of `of`
    bits. What is pure can be moved and merged; what the lanes of a warp do together, with registers alone, stays where
    all of them come by.
    """
    if SIMULATED:
        return lambda *numbers: twin(*map(int, numbers))  # a kernel's may be NumPy's, which overflow
    constraints = ",".join(
        ["=l" if bits == 64 else "=r"] * results
        + ["l" if of == 64 else "r"] * arguments
        + ([] if pure or together else ["~{memory}"])
    )
    number, register = (types.int64, _WORD) if bits == 64 else (types.int32, ir.IntType(32))
    result = number if results == 1 else types.UniTuple(number, results) if results else types.void
    taken = ir.IntType(of)
    returned = register if results == 1 else ir.LiteralStructType([register] * results) if results else ir.VoidType()

    def codegen(context, builder, signature, args):
        args = [
            a if a.type.width == of else (builder.sext if a.type.width < of else builder.trunc)(a, taken) for a in args
        ]
        kind = ir.FunctionType(returned, [taken] * arguments)
        code = ir.InlineAsm(kind, asm, constraints, side_effect=not pure)
        value = builder.call(code, args, attrs=() if pure else ("convergent",))
        if results == 0:
            return context.get_dummy_value()
        if results == 1:
            return value
        return context.make_tuple(builder, result, [builder.extract_value(value, i) for i in range(results)])

    if arguments == 1:

        @intrinsic
        def step(typingctx, a):
            return result(a), codegen

    elif arguments == 0:

        @intrinsic
        def step(typingctx):
            return result(), codegen

    elif arguments == 2:

        @intrinsic
        def step(typingctx, a, b):
            return result(a, b), codegen

    elif arguments == 3:

        @intrinsic
        def step(typingctx, a, b, c):
            return result(a, b, c), codegen

    else:

        @intrinsic
        def step(typingctx, a, b, c, d):
            return result(a, b, c, d), codegen

    return step


#: ``await_inputs()``, the first step of every kernel: until all is done that was launched before.
await_inputs = ptx("griddepcontrol.wait;" if can_come_early() else "", 0, 0, lambda: None)


def pointer_at(kind, address):
    return ctypes.cast(int(address), ctypes.POINTER(kind))


def load_twin(kind):
    return lambda address: _as_int64(pointer_at(kind, address)[0])


def _as_int64(value):
    return value - (1 << 64) if value >> 63 > 0 else value
