"""Loads and stores in shared memory."""

from __future__ import annotations

import ctypes

from ..driver.intrinsics import address_reader
from .atomics import _lock
from .ptx import load_twin, pointer_at, ptx, store_twin

#: ``shared_address(array)``: where an array in shared memory starts, as the functions below take it.
shared_address = address_reader()
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
#: By bits: ``store(address, value)``, one number to shared memory.
SHARED_STORE = {
    bits: ptx(f"{{ .reg .u32 a; cvt.u32.u64 a, $0; st.shared.u{bits} [a], $1; }}", 0, 2, store_twin(kind))
    for bits, kind in ((8, ctypes.c_int8), (16, ctypes.c_int16), (32, ctypes.c_int32), (64, ctypes.c_int64))
}
#: What `SHARED_LOAD` and `SHARED_STORE` are for 32 bits, with addresses of 32 bits, which take half the steps.
load_word = ptx("ld.shared.s32 $0, [$1];", 1, 1, load_twin(ctypes.c_int32), bits=32, of=32)
store_word = ptx("st.shared.s32 [$0], $1;", 0, 2, store_twin(ctypes.c_int32), of=32)


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
