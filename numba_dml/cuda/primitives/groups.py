"""Groups of four neighbouring elements, and bytes in dynamic shared memory: what kernels move 16 bytes at a time.

All dynamic shared memory of a block is one; arrays of several types show the same bytes, so a barrier stands between
what is written to one of them and read from another.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from ..driver.compile import helper
from ..driver.context import least_capability
from ..driver.numba import cuda
from .access import LOAD_INDEX, load_quad, unit_access
from .ptx import ptx
from .shared import shared_address

#: ``ask_for(address)``: bring what is there to L2, for a load that comes later.
ask_for = ptx("prefetch.global.L2 [$0];", 0, 1, lambda address: None)
#: Bytes that it brings.
ASKED_BYTES = 128
#: Elements of a group.
GROUP = 4
#: Bytes that are copied to shared memory at once, and the first devices that do it by themselves.
QUAD_BYTES, ASYNC_CAPABILITY = 16, (8, 0)


@cache
def load_four(name: str):
    """Return the load of four neighbours of an integer type that no thread writes, as int64 numbers.

    Their address is a multiple of what all four take, or of 16 bytes.
    """
    width = np.dtype(name).itemsize
    signed = name.startswith("i")
    bits = 8 * width
    mask, top = (1 << bits) - 1, 1 << (bits - 1)
    load, _ = unit_access(min(4 * width, 16))

    @helper
    def load_long(address):
        a, b = load(address)
        c, d = load(address + 16)
        return a, b, c, d

    @helper
    def load_words(address):
        a, b, c, d = load_quad(address)
        if signed:
            return np.int64(a), np.int64(b), np.int64(c), np.int64(d)
        return np.int64(a) & mask, np.int64(b) & mask, np.int64(c) & mask, np.int64(d) & mask

    @helper
    def part(word, k):
        value = (word >> (k * bits)) & mask
        return (value ^ top) - top if signed else value

    @helper
    def load_parts(address):
        word, _ = load(address)
        return part(word, 0), part(word, 1), part(word, 2), part(word, 3)

    return load_long if width == 8 else load_words if width == 4 else load_parts


@cache
def pack_four(width: int):
    """Return how four numbers of up to 4 bytes, without a sign, become a unit: a pair of words."""
    bits = 8 * width
    top = 1 << (bits - 1)

    @helper
    def upper(number, shift):
        """Shift a number to the upper bits of a word, with a sign: the simulator has no more than 64 bits."""
        return ((number ^ top) - top) << shift

    @helper
    def pack_words(a, b, c, d):
        return a | upper(b, 32), c | upper(d, 32)

    @helper
    def pack_parts(a, b, c, d):
        return a | (b << bits) | (c << (2 * bits)) | upper(d, 3 * bits), np.int64(0)

    return pack_words if width == 4 else pack_parts


@cache
def store_four(width: int):
    """Return the store of four neighbours of a width, given as numbers without a sign; 8 bytes as they are."""
    _, store = unit_access(min(4 * width, 16))
    pack = pack_four(width)

    @helper
    def store_long(address, a, b, c, d):
        store(address, a, b)
        store(address + 16, c, d)

    @helper
    def store_packed(address, a, b, c, d):
        first, second = pack(a, b, c, d)
        store(address, first, second)

    return store_long if width == 8 else store_packed


@cache
def mover(width: int, threads: int):
    """Return ``move(to, fro, count)``: the first threads of a block copy units of a width, by 16 bytes if they can."""
    load, store = unit_access(width)
    load_wide, store_wide = unit_access(QUAD_BYTES)
    units = QUAD_BYTES // width

    @helper
    def move(to, fro, count):
        thread = np.int64(cuda.threadIdx.x)
        wide = count // units if (to | fro) % QUAD_BYTES == 0 else np.int64(0)
        values = cuda.local.array((4, 2), np.int64)
        for a in range(thread, wide, 4 * threads):  # the last ones may be copied more than once
            for k in range(4):
                values[k, 0], values[k, 1] = load_wide(fro + QUAD_BYTES * min(a + k * threads, wide - 1))
            for k in range(4):
                store_wide(to + QUAD_BYTES * min(a + k * threads, wide - 1), values[k, 0], values[k, 1])
        for i in range(wide * units + thread, count, threads):
            value = load(fro + i * width)
            store(to + i * width, value[0], value[1])

    return move


@cache
def asker(threads: int):
    """Return ``ask_for_all(address, size)``: all threads of a block bring `size` bytes to L2."""

    @helper
    def ask_for_all(address, size):
        for i in range(ASKED_BYTES * np.int64(cuda.threadIdx.x), size, ASKED_BYTES * threads):
            ask_for(address + i)

    return ask_for_all


_IS_ASYNC = least_capability() >= ASYNC_CAPABILITY
_COPY = "cp.async.cg.shared.global [a], [$1], 16;"
if not _IS_ASYNC:
    _COPY = ".reg .u32 b<4>; ld.global.nc.v4.u32 {b0, b1, b2, b3}, [$1]; st.shared.v4.u32 [a], {b0, b1, b2, b3};"
#: ``copy_quad(to, fro)``: begin to copy 16 aligned bytes to shared memory. A thread has any number of such copies on
#: their way, and they pass no register, on devices that know them.
copy_quad = ptx(
    f"{{ .reg .u32 a; cvt.u32.u64 a, $0; {_COPY} }}", 0, 2, lambda to, fro: ctypes.memmove(to, fro, QUAD_BYTES)
)
#: ``await_copies()``: wait for those that this thread has begun.
await_copies = ptx("cp.async.wait_all;" if _IS_ASYNC else "", 0, 0, lambda: None)


@cache
def fill_line(width: int, threads: int):
    """Return how all threads of a block begin to copy a line of elements of a width to shared memory.

    `await_copies` and a barrier must follow. Dynamic shared memory must start at a multiple of 16 bytes, as it does in
    kernels that have no other.
    """
    load = LOAD_INDEX[f"int{8 * width}"]

    @helper
    def fill(words, elements, start, source, count):
        """Return which element is the first one of the line, of `count` from an address on; 16 bytes behind are free.

        The shared memory, as int32 and as integers of the width, is free from the byte `start` on, a multiple of 16.
        """
        thread = np.int64(cuda.threadIdx.x)
        shift = start + (source & (QUAD_BYTES - 1))  # so that both sides are aligned at the same elements
        first = shift // width
        head = min(count, (-source & (QUAD_BYTES - 1)) // width)
        quads = (count - head) // (QUAD_BYTES // width)
        begin = source + head * width
        to = np.int64(shared_address(words)) + shift + head * width
        for q in range(thread, quads, threads):
            copy_quad(to + QUAD_BYTES * q, begin + QUAD_BYTES * q)
        rest = quads * (QUAD_BYTES // width)
        for s in range(threads - 1 - thread, count - rest, threads):  # what the last threads have time for
            i = s if s < head else s + rest
            elements[np.uint32(first + i)] = load(source + i * width)
        return first

    return fill
