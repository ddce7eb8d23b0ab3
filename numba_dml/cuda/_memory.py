"""Steps of a kernel that Numba does not have: wide loads and stores, and atomics, at addresses.

Each is inline PTX with a plain twin, which is what runs in the simulator: there, addresses lead to host memory.
Addresses and numbers are int64 throughout: a uint64 among them would turn sums into float64.
"""

from __future__ import annotations

import ctypes
import threading

from . import SIMULATED

if not SIMULATED:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    _WORD = ir.IntType(64)


def ptx(asm, results, arguments, twin, *, pure=False):
    """Return inline PTX as a function of int64 numbers, with its twin.

    `results` is how many 64-bit registers it returns: none, one, or a pair. What is pure can be moved and merged.
    """
    if SIMULATED:
        return lambda *numbers: twin(*map(int, numbers))  # a kernel's may be NumPy's, which overflow
    constraints = ",".join(["=l"] * results + ["l"] * arguments + ([] if pure else ["~{memory}"]))
    result = {0: types.void, 1: types.int64, 2: types.UniTuple(types.int64, 2)}[results]
    returned = {0: ir.VoidType(), 1: _WORD, 2: ir.LiteralStructType([_WORD, _WORD])}[results]

    def codegen(context, builder, signature, args):
        args = [builder.sext(a, _WORD) if a.type.width < 64 else a for a in args]
        kind = ir.FunctionType(returned, [_WORD] * arguments)
        value = builder.call(ir.InlineAsm(kind, asm, constraints, side_effect=not pure), args)
        if results == 0:
            return context.get_dummy_value()
        if results == 1:
            return value
        return context.make_tuple(builder, result, [builder.extract_value(value, i) for i in range(2)])

    if arguments == 1:

        @intrinsic
        def step(typingctx, a):
            return result(a), codegen

    elif arguments == 2:

        @intrinsic
        def step(typingctx, a, b):
            return result(a, b), codegen

    else:

        @intrinsic
        def step(typingctx, a, b, c):
            return result(a, b, c), codegen

    return step


def _pointer(kind, address):
    return ctypes.cast(int(address), ctypes.POINTER(kind))


def _load_twin(kind):
    return lambda address: _as_int64(_pointer(kind, address)[0])


def _as_int64(value):
    return value - (1 << 64) if value >> 63 > 0 else value


def _load_integer(name, bits):
    kind = getattr(ctypes, f"c_{name}{bits}")
    return ptx(f"ld.global.nc.{'u' if name == 'uint' else 's'}{bits} $0, [$1];", 1, 1, _load_twin(kind), pure=True)


#: By the name of an integer type: the load of one, as an int64.
LOAD_INDEX = {f"{name}{bits}": _load_integer(name, bits) for name in ("int", "uint") for bits in (8, 16, 32, 64)}
load_i64 = LOAD_INDEX["int64"]


def _unit_twins(width):
    low = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32}.get(width, ctypes.c_int64)

    def load(address):
        words = _pointer(low, address)
        return words[0], words[1] if width == 16 else 0

    def store(address, first, second):
        words = _pointer(low, address)
        words[0] = first
        if width == 16:
            words[1] = second

    return load, store


def unit_access(width):
    """Return the load and the store of a unit of 1, 2, 4, 8 or 16 aligned bytes, as a pair of words.

    Loads are for what no thread writes while the kernel runs.
    """
    load_twin, store_twin = _unit_twins(width)
    if width == 16:
        return (
            ptx("ld.global.nc.v2.u64 {$0, $1}, [$2];", 2, 1, load_twin, pure=True),
            ptx("st.global.v2.u64 [$0], {$1, $2};", 0, 3, store_twin),
        )
    return (
        ptx(f"{{ ld.global.nc.u{8 * width} $0, [$2]; mov.u64 $1, 0; }}", 2, 1, load_twin, pure=True),
        ptx(f"st.global.u{8 * width} [$0], $1;", 0, 3, store_twin),
    )


#: ``high_product(a, b)``: the upper half of the product of two unsigned numbers of 64 bits.
high_product = ptx(
    "mul.hi.u64 $0, $1, $2;", 1, 2, lambda a, b: ((a & 0xFFFFFFFFFFFFFFFF) * (b & 0xFFFFFFFFFFFFFFFF)) >> 64, pure=True
)

_lock = threading.Lock()


def _load_now_twin(address):
    return _pointer(ctypes.c_int64, address)[0]


def _store_now_twin(address, value):
    _pointer(ctypes.c_int64, address)[0] = value


def _exchange_if_twin(address, expected, new):
    with _lock:
        words = _pointer(ctypes.c_int64, address)
        old = words[0]
        if old == expected:
            words[0] = new
        return old


#: ``load_now(address)``: a word that other threads may write.
load_now = ptx("ld.volatile.global.u64 $0, [$1];", 1, 1, _load_now_twin)
#: ``store_now(address, value)``: a word that other threads may read.
store_now = ptx("st.volatile.global.u64 [$0], $1;", 0, 2, _store_now_twin)
#: ``exchange_if(address, expected, new)``: write a word if it holds what is expected; return what it held.
exchange_if = ptx("atom.global.cas.b64 $0, [$1], $2, $3;", 1, 3, _exchange_if_twin)


def claim_access(width):
    """Return how to raise a word of 4 or 8 bytes to a number, and how to load one that an earlier kernel wrote."""
    word = ctypes.c_int32 if width == 4 else ctypes.c_int64

    def raise_twin(address, number):
        with _lock:
            words = _pointer(word, address)
            words[0] = max(words[0], number)

    raised = "{ .reg .s32 t; cvt.s32.s64 t, $1; red.global.max.s32 [$0], t; }"
    return (
        ptx(raised if width == 4 else "red.global.max.s64 [$0], $1;", 0, 2, raise_twin),
        LOAD_INDEX[f"int{8 * width}"],
    )
