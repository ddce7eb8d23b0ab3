"""Atomic and volatile steps in global memory."""

from __future__ import annotations

import ctypes
import operator
import threading

from .ptx import load_twin, pointer_at, ptx, store_twin, words_twin

_lock = threading.Lock()


def _twin(step, word=ctypes.c_int64):
    """Return the twin that replaces a word by ``step(word, ...)``, if that is another one; it returns the old one."""

    def twin(address, *given):
        with _lock:
            words = pointer_at(word, address)
            old = words[0]
            new = step(old, *given)
            if new != old:
                words[0] = new
            return old

    return twin


#: ``load_now(address)``: a word that other threads may write.
load_now = ptx("ld.volatile.global.u64 $0, [$1];", 1, 1, load_twin(ctypes.c_int64))
#: ``load_two_now(address)``: two words, at a multiple of 16.
load_two_now = ptx("ld.volatile.global.v2.u64 {$0, $1}, [$2];", 2, 1, words_twin(ctypes.c_int64, 2))
#: ``store_now(address, value)``: a word that other threads may read.
store_now = ptx("st.volatile.global.u64 [$0], $1;", 0, 2, store_twin(ctypes.c_int64))
#: ``exchange_if(address, expected, new)``: write a word if it holds what is expected; return what it held.
exchange_if = ptx(
    "atom.global.cas.b64 $0, [$1], $2, $3;", 1, 3, _twin(lambda old, expected, new: new if old == expected else old)
)


def combine_now(operation, name, space="global"):
    """Return how to combine (add, min, max) an integer of 4 or 8 bytes with a number, as other threads do.

    It is in device memory, or in the shared memory of a block.
    """
    word, step = getattr(ctypes, f"c_{name}"), {"add": operator.add, "min": min, "max": max}[operation]
    twin = _twin(lambda old, value: step(old, word(value).value), word)
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
#: ``fetch_and_add(address, number)``: add to a word; return what it held.
fetch_and_add = ptx("atom.global.add.u64 $0, [$1], $2;", 1, 2, _twin(operator.add))
