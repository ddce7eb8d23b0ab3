"""Groups of four neighbouring elements, and bytes in dynamic shared memory: what kernels move 16 bytes at a time.

All dynamic shared memory of a block is one; arrays of several types show the same bytes, so a barrier stands between
what is written to one of them and read from another.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper
from ._launch import shared_memory_of
from ._memory import LOAD_INDEX, _lock, load_quad, pointer_at, ptx, unit_access

if not SIMULATED:
    from numba.cuda import types


def _add_twin(address, number):
    with _lock:
        words = pointer_at(ctypes.c_int64, address)
        words[0] += number
        return words[0] - number


#: ``fetch_and_add(address, number)``: add to a word; return what it held.
fetch_and_add = ptx("atom.global.add.u64 $0, [$1], $2;", 1, 2, _add_twin)
#: ``ask_for(address)``: bring what is there to L2, for a load that comes later.
ask_for = ptx("prefetch.global.L2 [$0];", 0, 1, lambda address: None)
#: Bytes that it brings.
ASKED_BYTES = 128
#: Elements of a group.
GROUP = 4


@cache
def shared_bytes() -> int:
    """Return how much dynamic shared memory a block can have on every device: 227 KiB on an H200."""
    return 384 if SIMULATED else min(shared_memory_of(device) for device in range(len(cuda.gpus)))


def shared_type(name: str):
    """Return the type of an array in dynamic shared memory."""
    return np.dtype(name) if SIMULATED else getattr(types, name)


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
def store_four(width: int):
    """Return the store of four neighbours of a width, given as numbers without a sign; 8 bytes as they are."""
    _, store = unit_access(min(4 * width, 16))
    bits = 8 * width
    top = 1 << (bits - 1)

    @helper
    def upper(number, shift):
        """Shift a number to the upper bits of a word, with a sign: the simulator has no more than 64 bits."""
        return ((number ^ top) - top) << shift

    @helper
    def store_long(address, a, b, c, d):
        store(address, a, b)
        store(address + 16, c, d)

    @helper
    def store_words(address, a, b, c, d):
        store(address, a | upper(b, 32), c | upper(d, 32))

    @helper
    def store_parts(address, a, b, c, d):
        store(address, a | (b << bits) | (c << (2 * bits)) | upper(d, 3 * bits), 0)

    return store_long if width == 8 else store_words if width == 4 else store_parts


@cache
def fill_line(width: int, threads: int):
    """Return how all threads of a block copy a line of elements of a width to shared memory."""
    load = LOAD_INDEX[f"int{8 * width}"]

    @helper
    def put(words, place, quad):
        words[np.uint32(place)] = quad[0]
        words[np.uint32(place + 1)] = quad[1]
        words[np.uint32(place + 2)] = quad[2]
        words[np.uint32(place + 3)] = quad[3]

    @helper
    def fill(
        words,  # OUT  the shared memory as int32
        elements,  # OUT  the same as integers of the width
        start,  # IN   a byte of it, a multiple of 16, from where on it is free
        source,  # IN   address of the line
        count,  # IN   how many elements it has
    ):
        """Return which element is the first one of the line; 16 bytes after it are free."""
        thread = np.int64(cuda.threadIdx.x)
        shift = start + (source & 15)  # so that both sides are aligned at the same elements
        first = shift // width
        head = min(count, (-source & 15) // width)
        quads = ((count - head) * width) >> 4
        for i in range(thread, head, threads):
            elements[np.uint32(first + i)] = load(source + i * width)
        begin = source + head * width
        to = (shift + head * width) >> 2
        for q in range(thread, quads, 4 * threads):
            a = load_quad(begin + 16 * q)
            b = load_quad(begin + 16 * min(q + threads, quads - 1))
            c = load_quad(begin + 16 * min(q + 2 * threads, quads - 1))
            d = load_quad(begin + 16 * min(q + 3 * threads, quads - 1))
            put(words, to + 4 * q, a)
            if q + threads < quads:
                put(words, to + 4 * (q + threads), b)
            if q + 2 * threads < quads:
                put(words, to + 4 * (q + 2 * threads), c)
            if q + 3 * threads < quads:
                put(words, to + 4 * (q + 3 * threads), d)
        for i in range(head + quads * (16 // width) + thread, count, threads):
            elements[np.uint32(first + i)] = load(source + i * width)
        return first

    return fill
