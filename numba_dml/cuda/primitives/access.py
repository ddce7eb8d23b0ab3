"""Loads and stores at addresses in global memory, of all widths."""

from __future__ import annotations

import ctypes

from .ptx import load_twin, pointer_at, ptx, words_twin


def _loads_of_integers(space, pure):
    loads = {}
    for name, sign in (("int", "s"), ("uint", "u")):
        for bits in (8, 16, 32, 64):
            twin = load_twin(getattr(ctypes, f"c_{name}{bits}"))
            loads[f"{name}{bits}"] = ptx(f"ld.{space}.{sign}{bits} $0, [$1];", 1, 1, twin, pure=pure)
    return loads


#: By the name of an integer type: the load of one that no thread writes, as an int64.
LOAD_INDEX = _loads_of_integers("global.nc", pure=True)
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

    Loads are for what no thread writes while the kernel runs. The compiler may move a pure one down to its first use,
    into a branch, where it is waited for by itself; those that are not pure stay together, and come at once.
    """
    load_twin, store_twin = _unit_twins(width)
    load, store = f"{{ ld.global.nc.u{8 * width} $0, [$2]; mov.u64 $1, 0; }}", f"st.global.u{8 * width} [$0], $1;"
    if width == 16:
        load, store = "ld.global.nc.v2.u64 {$0, $1}, [$2];", "st.global.v2.u64 [$0], {$1, $2};"
    return ptx(load, 2, 1, load_twin, pure=pure), ptx(store, 0, 3, store_twin)


#: The same of one that this thread may have written.
OWN_LOAD = _loads_of_integers("global", pure=False)

_quad_twin = words_twin(ctypes.c_int32, 4)
#: ``load_quad(address)``: 16 aligned bytes that no thread writes, as four int32.
load_quad = ptx("ld.global.nc.v4.u32 {$0, $1, $2, $3}, [$4];", 4, 1, _quad_twin, pure=True, bits=32)


def _store_two_words_twin(address, first, second):
    words = pointer_at(ctypes.c_int32, address)
    words[0], words[1] = first, second


#: ``load_two_words(address)``: 8 aligned bytes, as two int32; their store; 16 as two int64 or four int32. These loads
#: come before the next barrier: pure ones sink to where they are used, and each is waited for by itself.
load_two_words = ptx("ld.global.v2.u32 {$0, $1}, [$2];", 2, 1, words_twin(ctypes.c_int32, 2), bits=32)
load_two_long_words = ptx("ld.global.v2.u64 {$0, $1}, [$2];", 2, 1, words_twin(ctypes.c_int64, 2))
load_four_words = ptx("ld.global.v4.u32 {$0, $1, $2, $3}, [$4];", 4, 1, _quad_twin, bits=32)
_store_two_words = "{ .reg .b32 a, b; cvt.u32.u64 a, $1; cvt.u32.u64 b, $2; st.global.v2.u32 [$0], {a, b}; }"
store_two_words = ptx(_store_two_words, 0, 3, _store_two_words_twin)
