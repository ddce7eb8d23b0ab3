"""Steps of a kernel that Numba does not have: wide loads and stores, and atomics, at addresses.

Each is inline PTX with a plain twin, which is what runs in the simulator: there, addresses lead to host memory.
Addresses and numbers are int64 throughout: a uint64 among them would turn sums into float64.
"""

from __future__ import annotations

import ctypes
import operator
import threading

import numpy as np

from . import SIMULATED
from ._launch import LANES, WARP_BARRIERS, can_come_early

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


def _load_integer(name, bits):
    kind = getattr(ctypes, f"c_{name}{bits}")
    return ptx(f"ld.global.nc.{'u' if name == 'uint' else 's'}{bits} $0, [$1];", 1, 1, load_twin(kind), pure=True)


#: By the name of an integer type: the load of one, as an int64.
LOAD_INDEX = {f"{name}{bits}": _load_integer(name, bits) for name in ("int", "uint") for bits in (8, 16, 32, 64)}
load_i64 = LOAD_INDEX["int64"]


def _unit_twins(width):
    low = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32}.get(width, ctypes.c_int64)

    def load(address):
        words = pointer_at(low, address)
        return words[0], words[1] if width == 16 else 0

    def store(address, first, second):
        words = pointer_at(low, address)
        words[0] = first
        if width == 16:
            words[1] = second

    return load, store


def unit_access(width, pure=True):
    """Return the load and the store of a unit of 1, 2, 4, 8 or 16 aligned bytes, as a pair of words.

    Loads are for what no thread writes while the kernel runs. What is not pure stays where it is: pure ones sink to
    where they are used, if that depends on something, and each is waited for by itself.
    """
    load_twin, store_twin = _unit_twins(width)
    if width == 16:
        return (
            ptx("ld.global.nc.v2.u64 {$0, $1}, [$2];", 2, 1, load_twin, pure=pure),
            ptx("st.global.v2.u64 [$0], {$1, $2};", 0, 3, store_twin),
        )
    return (
        ptx(f"{{ ld.global.nc.u{8 * width} $0, [$2]; mov.u64 $1, 0; }}", 2, 1, load_twin, pure=pure),
        ptx(f"st.global.u{8 * width} [$0], $1;", 0, 3, store_twin),
    )


#: By bytes: ``load(address)``, the bits of one number that this thread may have written.
OWN_LOAD = {
    width: ptx(f"ld.global.u{8 * width} $0, [$1];", 1, 1, load_twin(kind))
    for width, kind in ((1, ctypes.c_uint8), (2, ctypes.c_uint16), (4, ctypes.c_uint32), (8, ctypes.c_int64))
}


def _quad_twin(address):
    words = pointer_at(ctypes.c_int32, address)
    return words[0], words[1], words[2], words[3]


#: ``load_quad(address)``: 16 aligned bytes that no thread writes, as four int32.
load_quad = ptx("ld.global.nc.v4.u32 {$0, $1, $2, $3}, [$4];", 4, 1, _quad_twin, pure=True, bits=32)


def _meet(value):
    """Return this thread's number in its warp, and what every lane of it has come with."""
    thread = threading.current_thread()
    warp, lane = divmod(thread.threadIdx.x, LANES)
    _met[warp][lane] = value
    WARP_BARRIERS[warp].wait()
    values = list(_met[warp])
    WARP_BARRIERS[warp].wait()
    return lane, values


_met = [[0] * LANES for _ in WARP_BARRIERS]


def _partner_twin(value, mask):
    lane, values = _meet(value)
    return values[lane ^ mask]


def _lane_twin(value, lane):
    return _meet(value)[1][lane % LANES]


def _shuffle(mode, twin, bits):
    word, halves = "{ .reg .b32 a, n; cvt.u32.u64 n, $2; ", "{ .reg .b32 a, b, n; cvt.u32.u64 n, $2; "
    shuffle = "shfl.sync." + mode + ".b32 {0}, {0}, n, 31, -1; "
    if bits == 32:
        asm = word + "cvt.u32.u64 a, $1; " + shuffle.format("a") + "mov.b32 $0, a; }"
    else:
        asm = halves + "mov.b64 {a, b}, $1; " + shuffle.format("a") + shuffle.format("b") + "mov.b64 $0, {a, b}; }"
    return ptx(asm, 1, 2, twin, bits=bits, together=True)


#: By bits: ``partner_value(value, mask)``, what the lane with the number ``lane ^ mask`` has. All lanes take part.
PARTNER_VALUE = {bits: _shuffle("bfly", _partner_twin, bits) for bits in (32, 64)}
#: By bits: ``lane_value(value, lane)``, what a lane has; its number is taken modulo those of a warp.
LANE_VALUE = {bits: _shuffle("idx", _lane_twin, bits) for bits in (32, 64)}


def _sum_twin(value):
    lane, values = _meet(value)
    return sum(values[: lane + 1])


#: ``sum_of_lanes(value)``: the sum of the 32-bit numbers of this lane and of those before it. All lanes take part.
sum_of_lanes = ptx(
    "{ .reg .pred p; .reg .u32 t, s; mov.u32 s, $1; "
    + "".join(f"shfl.sync.up.b32 t|p, s, {1 << i}, 0, -1; @p add.u32 s, s, t; " for i in range(LANES.bit_length() - 1))
    + "mov.u32 $0, s; }",
    1,
    1,
    _sum_twin,
    bits=32,
    of=32,
    together=True,
)


def _sync_lanes_twin():
    WARP_BARRIERS[threading.current_thread().threadIdx.x // LANES].wait()


#: ``sync_lanes()``: the lanes of a warp wait for each other, and see what they have written to shared memory.
sync_lanes = ptx("bar.warp.sync -1;", 0, 0, _sync_lanes_twin)


def _matching_twin(value):
    _, values = _meet(value)
    return sum(1 << lane for lane, other in enumerate(values) if other == value)


def _where_twin(flag):
    _, values = _meet(flag)
    return sum(1 << lane for lane, other in enumerate(values) if other != 0)


#: ``lanes_where(flag)``: the lanes whose flag is not 0, as the bits of a word. All lanes take part.
lanes_where = ptx(
    "{ .reg .pred p; setp.ne.u32 p, $1, 0; vote.sync.ballot.b32 $0, p, -1; }",
    1,
    1,
    _where_twin,
    bits=32,
    of=32,
    together=True,
)
#: ``count_bits(word)``: how many bits of 64 are set.
count_bits = ptx("popc.b64 $0, $1;", 1, 1, int.bit_count, pure=True, bits=32)
#: ``lowest_bit(word)``: the number of the lowest bit that is set in a word of 32.
lowest_bit = ptx(
    "{ .reg .b32 t; cvt.u32.u64 t, $1; brev.b32 t, t; clz.b32 $0, t; }",
    1,
    1,
    lambda word: (word & -word).bit_length() - 1,
    pure=True,
    bits=32,
)


def _digit_above_twin(key, low, shift):
    return (key - low & 0xFFFFFFFFFFFFFFFF) >> shift if shift < 64 else 0


#: ``digit_above(key, low, shift)``: how far a key is above a lowest one, as an unsigned number, without its low bits.
digit_above = ptx(
    "{ .reg .u64 t; .reg .u32 n; sub.s64 t, $1, $2; cvt.u32.u64 n, $3; shr.u64 $0, t, n; }",
    1,
    3,
    _digit_above_twin,
    pure=True,
)

#: ``bits_between(low, high)``: how many bits the difference of two keys has.
bits_between = ptx(
    "{ .reg .s64 t; .reg .u32 n; sub.s64 t, $2, $1; clz.b64 n, t; sub.u32 n, 64, n; cvt.u64.u32 $0, n; }",
    1,
    2,
    lambda low, high: (high - low).bit_length(),
    pure=True,
)
#: ``raise_key(low, digit, shift)``: the key that is so many digits above a lowest one.
raise_key = ptx(
    "{ .reg .u64 t; .reg .u32 n; cvt.u32.u64 n, $3; shl.b64 t, $2, n; add.s64 $0, $1, t; }",
    1,
    3,
    lambda low, digit, shift: _as_int64(low + (digit << shift) & 0xFFFFFFFFFFFFFFFF),
    pure=True,
)

#: ``high_product(a, b)``: the upper half of the product of two unsigned numbers of 64 bits.
high_product = ptx(
    "mul.hi.u64 $0, $1, $2;", 1, 2, lambda a, b: ((a & 0xFFFFFFFFFFFFFFFF) * (b & 0xFFFFFFFFFFFFFFFF)) >> 64, pure=True
)

_lock = threading.Lock()


def _load_now_twin(address):
    return pointer_at(ctypes.c_int64, address)[0]


def _store_now_twin(address, value):
    pointer_at(ctypes.c_int64, address)[0] = value


def _exchange_if_twin(address, expected, new):
    with _lock:
        words = pointer_at(ctypes.c_int64, address)
        old = words[0]
        if old == expected:
            words[0] = new
        return old


#: ``load_now(address)``: a word that other threads may write.
load_now = ptx("ld.volatile.global.u64 $0, [$1];", 1, 1, _load_now_twin)
#: ``load_two_now(address)``: two words, at a multiple of 16.
load_two_now = ptx(
    "ld.volatile.global.v2.u64 {$0, $1}, [$2];", 2, 1, lambda at: (_load_now_twin(at), _load_now_twin(at + 8))
)
#: ``store_now(address, value)``: a word that other threads may read.
store_now = ptx("st.volatile.global.u64 [$0], $1;", 0, 2, _store_now_twin)
#: ``exchange_if(address, expected, new)``: write a word if it holds what is expected; return what it held.
exchange_if = ptx("atom.global.cas.b64 $0, [$1], $2, $3;", 1, 3, _exchange_if_twin)


def combine_now(operation, name, space="global"):
    """Return how to combine (add, min, max) an integer of 4 or 8 bytes with a number, as other threads do.

    It is in device memory, or in the shared memory of a block.
    """
    word, step = getattr(ctypes, f"c_{name}"), {"add": operator.add, "min": min, "max": max}[operation]

    def twin(address, value):
        with _lock:
            words = pointer_at(word, address)
            words[0] = step(words[0], word(value).value)

    bits = 8 * ctypes.sizeof(word)
    if (operation, space, bits) == ("add", "shared", 64):  # as one it would be a loop, until no other thread came by
        return ptx(
            "{ .reg .u32 a, low, high, old; .reg .pred p; cvt.u32.u64 a, $0; mov.b64 {low, high}, $1; "
            "atom.shared.add.u32 old, [a], low; add.cc.u32 low, low, old; addc.u32 high, high, 0; "
            "setp.ne.u32 p, high, 0; @p red.shared.add.u32 [a+4], high; }",
            0,
            2,
            twin,
        )
    kind = f"{'u' if operation == 'add' or name.startswith('u') else 's'}{bits}"
    at, value, before = "$0", "$1", ""
    if space == "shared":
        at, before = "a", ".reg .u32 a; cvt.u32.u64 a, $0;"
    if bits == 32:
        value, before = "t", f"{before} .reg .b32 t; cvt.u32.u64 t, $1;"
    return ptx(f"{{ {before} red.{space}.{operation}.{kind} [{at}], {value}; }}", 0, 2, twin)


#: ``add_now(address, value)``: add to a word that other threads add to.
add_now = combine_now("add", "int64")


def claim_access(width):
    """Return how to raise a word of 4 or 8 bytes to a number, and how to load one that an earlier kernel wrote."""
    name = f"int{8 * width}"
    return combine_now("max", name), LOAD_INDEX[name]


def _short_digit_twin(key, low, shift):
    return (key - low & 0xFFFFFFFF) >> shift


#: By bits of the keys: what `digit_above` is for 64. With 32 it is an int32, which is negative from 2**31 on.
DIGIT_ABOVE = {
    32: ptx(
        "{ .reg .u32 a, b, n; cvt.u32.u64 a, $1; cvt.u32.u64 b, $2; cvt.u32.u64 n, $3; sub.u32 a, a, b; "
        "shr.u32 $0, a, n; }",
        1,
        3,
        _short_digit_twin,
        pure=True,
        bits=32,
    ),
    64: digit_above,
}

#: ``negative_word(number)``: the lower 32 bits of what a number is below 0.
negative_word = ptx(
    "{ .reg .u32 t; cvt.u32.u64 t, $1; neg.s32 $0, t; }",
    1,
    1,
    lambda number: (-number + (1 << 31) & 0xFFFFFFFF) - (1 << 31),
    pure=True,
    bits=32,
)


def _reversed_twin(bits):
    def twin(key, low):
        word = ~(key - low) & ((1 << bits) - 1)
        return word - (1 << bits) if word >> (bits - 1) else word

    return twin


#: By bits of the keys: ``reversed_key(key, low)``, how far a key is above a lowest one, with all bits turned around: as
#: a number without a sign it is the lower, the better the key.
REVERSED_KEY = {
    32: ptx(
        "{ .reg .u32 a, b; cvt.u32.u64 a, $1; cvt.u32.u64 b, $2; sub.u32 a, a, b; not.b32 $0, a; }",
        1,
        2,
        _reversed_twin(32),
        pure=True,
        bits=32,
    ),
    64: ptx("{ .reg .u64 t; sub.u64 t, $1, $2; not.b64 $0, t; }", 1, 2, _reversed_twin(64), pure=True),
}


def _two_words_twin(address):
    words = pointer_at(ctypes.c_int32, address)
    return words[0], words[1]


def _store_two_words_twin(address, first, second):
    words = pointer_at(ctypes.c_int32, address)
    words[0], words[1] = first, second


#: ``load_two_words(address)``: 8 aligned bytes, as two int32; their store; 16 as two int64 or four int32. These loads
#: come before the next barrier: pure ones sink to where they are used, and each is waited for by itself.
load_two_words = ptx("ld.global.v2.u32 {$0, $1}, [$2];", 2, 1, _two_words_twin, bits=32)
load_two_long_words = ptx("ld.global.v2.u64 {$0, $1}, [$2];", 2, 1, _unit_twins(16)[0])
load_four_words = ptx("ld.global.v4.u32 {$0, $1, $2, $3}, [$4];", 4, 1, _quad_twin, bits=32)
store_two_words = ptx(
    "{ .reg .b32 a, b; cvt.u32.u64 a, $1; cvt.u32.u64 b, $2; st.global.v2.u32 [$0], {a, b}; }",
    0,
    3,
    _store_two_words_twin,
)


def lanes_with(bits):
    """Return ``same(value)``: the lanes that have the same value of so many bits, as the bits of a word."""
    step = "and.b32 t, v, {}; setp.ne.u32 p, t, 0; vote.sync.ballot.b32 b, p, -1; @!p not.b32 b, b; and.b32 m, m, b; "
    steps = "".join(step.format(1 << bit) for bit in range(bits))
    asm = "{ .reg .pred p; .reg .b32 v, t, b, m; cvt.u32.u64 v, $1; mov.b32 m, -1; " + steps
    return ptx(asm + "cvt.u64.u32 $0, m; }", 1, 1, _matching_twin, together=True)


# Shared memory, by addresses of its own.


def shared_address(array):
    """Return where an array in shared memory starts, as the functions below take it."""
    return array.ctypes.data


if not SIMULATED:

    @intrinsic
    def shared_address(typingctx, array):
        def codegen(context, builder, signature, args):
            from numba.cuda.np import arrayobj

            data = arrayobj.make_array(signature.args[0])(context, builder, args[0]).data
            return builder.ptrtoint(builder.addrspacecast(data, ir.PointerType(ir.IntType(8), addrspace=3)), _WORD)

        return types.int64(array), codegen


#: By bits: ``load(address)``, one number from shared memory, with its sign but for bytes.
SHARED_LOAD = {
    bits: ptx(f"{{ .reg .u32 a; cvt.u32.u64 a, $1; ld.shared.{name}{bits} $0, [a]; }}", 1, 1, load_twin(kind), bits=64)
    for bits, name, kind in (
        (8, "u", ctypes.c_uint8),
        (16, "s", ctypes.c_int16),
        (32, "s", ctypes.c_int32),
        (64, "s", ctypes.c_int64),
    )
}


def _shared_store(bits):
    kind = getattr(ctypes, f"c_int{bits}")

    def twin(address, value):
        pointer_at(kind, address)[0] = value

    return ptx(f"{{ .reg .u32 a; cvt.u32.u64 a, $0; st.shared.u{bits} [a], $1; }}", 0, 2, twin)


#: By bits: ``store(address, value)``, one number to shared memory.
SHARED_STORE = {bits: _shared_store(bits) for bits in (8, 16, 32, 64)}
#: What `SHARED_LOAD` and `SHARED_STORE` are for 32 bits, with addresses of 32 bits, which take half the steps.
load_word = ptx("ld.shared.s32 $0, [$1];", 1, 1, load_twin(ctypes.c_int32), bits=32, of=32)
store_word = ptx("st.shared.s32 [$0], $1;", 0, 2, lambda at, value: SHARED_STORE[32](at, value), of=32)
#: ``half_word(word, shift)``: the 16 bits of a word from one on.
half_word = ptx(
    "{ .reg .u32 t; shr.u32 t, $1, $2; and.b32 $0, t, 0xFFFF; }",
    1,
    2,
    lambda word, shift: word >> shift & 0xFFFF,
    pure=True,
    bits=32,
    of=32,
)


def _store_if(bits):
    kind = getattr(ctypes, f"c_int{bits}")

    def twin(address, value, number, limit):
        if number < limit:
            pointer_at(kind, address)[0] = value

    if bits == 32:
        return ptx("{ .reg .pred p; setp.lt.s32 p, $2, $3; @p st.shared.s32 [$0], $1; }", 0, 4, twin, of=32)
    asm = "{ .reg .pred p; .reg .u32 a; cvt.u32.u64 a, $0; setp.lt.s64 p, $2, $3; @p st.shared.s64 [a], $1; }"
    return ptx(asm, 0, 4, twin)


#: By bits: ``store(address, value, number, limit)``, one number to shared memory if another one is below a limit.
SHARED_STORE_IF = {bits: _store_if(bits) for bits in (32, 64)}
#: ``load_short(address)``: an unsigned number of 16 bits from shared memory, as an int32.
load_short = ptx("ld.shared.u16 $0, [$1];", 1, 1, load_twin(ctypes.c_uint16), bits=32, of=32)


def _raise_shared_twin(address, number):
    with _lock:
        words = pointer_at(ctypes.c_int32, address)
        words[0] = max(words[0], number)


#: ``raise_shared(address, number)``: raise an int32 in shared memory to a number.
raise_shared = ptx("red.shared.max.s32 [$0], $1;", 0, 2, _raise_shared_twin, of=32)
