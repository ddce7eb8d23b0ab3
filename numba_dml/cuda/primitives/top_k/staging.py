"""Short lines in shared memory, a row for each thread, as keys: how much of a line, in which room, and how it comes.

The lanes of a warp copy neighbouring units of 16 bytes, of one line after the other or of several lines at once; or
each brings its own line, if the elements of a line are no neighbours.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..access import LOAD_INDEX
from ..groups import await_copies, copy_quad
from ..plan import number
from ..shared import SHARED_STORE
from ..warp import lane_long_word
from .keys import key_access
from .plan import STRIDE
from .register_lists import shared_load, shared_store
from .sizes import SIZES
from .tuples import on_tuples, select, shifted_right

#: How lines come into shared memory: by 16 bytes that are aligned in memory, and in lines too or not; or each line by
#: its own thread.
ALIGNED, SHIFTED, SINGLE = range(3)
#: Elements of a group, of more than two bytes each.
GROUP = SIZES.group
#: Copies of 16 bytes that a thread begins together.
COPIES_AT_ONCE = 1 << SIZES.copy_bits


def group_of(width: int, most: int) -> int:
    """Return how many elements go together: into the network, of keys of up to 16 bits; into a group, of others."""
    return max(16 // width, most) if width <= 2 else GROUP


def segment_of(width: int, most: int, size: int, lines: int) -> int:
    """Return how many elements of a line a thread has at once: all, or whole groups."""
    bytes_ = SIZES.segment_bytes[most > 8 or (width > 2 and lines > SIZES.segment_lines)]
    return min(max(bytes_ // width, group_of(width, most), most), size)


def list_bytes(most: int, width: int) -> int:
    """Return the bytes of a list of the best, which is written by 16 bytes."""
    return max(most * width, 16)


def row_bytes(width: int, most: int, segment: int) -> int:
    """Return the bytes of a thread's row in shared memory.

    There must be room for its part of the result; beside the keys for what lies before and behind a line in aligned
    units, 16 bytes; and if keys are wide for a group that is none, and the table of groups, which come when the units
    have been made keys. The lanes' rows begin in different banks: they are an odd multiple of 16 bytes.
    """
    group = group_of(width, most)
    keys = -(-segment // group) * group * width
    if width > 2:
        bytes_ = max(keys + group * width + list_bytes(most, 4), list_bytes(most, width) + list_bytes(most, 4))
    else:
        bytes_ = max(keys + 16, list_bytes(most, 4))
    return (-(-bytes_ // 16) | 1) * 16


@cache
def _quad_store(width: int, infinity: int):
    """Return ``put_quad(to, quad, plan)``: 16 bytes come to shared memory as keys."""
    keys_of, store_quad = key_access(width, infinity).keys_of, shared_store(64 if width == 8 else 32)

    @helper
    def put_quad(to, quad, plan):
        if width == 8:
            store_quad(to, (keys_of(quad[0], plan), keys_of(quad[1], plan)))
        else:
            a, b = keys_of(quad[0], plan), keys_of(quad[1], plan)
            store_quad(to, (a, b, keys_of(quad[2], plan), keys_of(quad[3], plan)))

    return put_quad


@helper
def lanes_for(units):
    """Return the power of two, of lanes that share a line."""
    bits = np.int64(0)
    while (1 << bits) < min(units, LANES):
        bits += 1
    return bits


@cache
def unit_copier(width: int):
    """Return ``copy_units(tile, pitch, source, jump, size, low, high, is_aligned)``.

    It copies all units of 16 bytes in which a lane's `size` bytes from `source` on lie to the rows of a warp. If they
    are not aligned, others come with them, but none that is outside the input, between two addresses. `jump`: bytes
    between the lines of a warp, 0: they are anywhere.
    """
    load, store = LOAD_INDEX[f"int{8 * width}"], SHARED_STORE[8 * width]

    @helper
    def copy_within(to, unit, low, high):
        """Copy a unit's elements between two addresses: around these there may be none."""
        for i in range(0, 16, width):
            if low <= unit + i and unit + i < high:
                store(to + i, np.int64(load(unit + i)))

    @helper
    def copy_aligned(to, address, bits, to_step, step):
        """Copy a unit of each of several lines that are at equal steps."""
        for _ in range(0, 1 << bits, COPIES_AT_ONCE):
            for i in range(COPIES_AT_ONCE):
                copy_quad(to + i * to_step, address + i * step)
            to += COPIES_AT_ONCE * to_step
            address += COPIES_AT_ONCE * step

    @helper
    def copy_units(tile, pitch, source, jump, size, low, high, is_aligned):
        lane = np.int64(cuda.threadIdx.x % LANES)
        beyond = 0 if is_aligned else 15
        bits = max(lanes_for((size + beyond + 15) // 16), np.int64(SIZES.copy_bits))
        line, step = lane >> bits, LANES >> bits
        at = 16 * (lane & ((1 << bits) - 1))
        origin = lane_long_word(source, 0) + line * jump
        for _ in range(0, size + beyond, 16 << bits):
            if is_aligned and jump != 0:
                if at < size:
                    copy_aligned(tile + line * pitch + at, origin + at, bits, step * pitch, step * jump)
            else:
                for i in range(1 << bits):
                    address = origin + i * step * jump if jump != 0 else lane_long_word(source, line + i * step)
                    unit, end = (address & -16) + at, address + size
                    if unit < end:
                        to = tile + (line + i * step) * pitch + at
                        if low <= unit and unit + 16 <= high:
                            copy_quad(to, unit)
                        else:
                            copy_within(to, unit, low, high)
            at += 16 << bits
        await_copies()

    return copy_units


@cache
def _shifted_unit(width: int):
    """Return ``shifted(unit, following, shift)``: the 16 bytes that begin `shift` bytes later, as one or two units are.

    A unit is a tuple, of four words or of two of 64 bits; the shift is less than 16, and a multiple of the width.
    """
    bits = 64 if width == 8 else 32

    @on_tuples(lambda unit, following, shift: unit)
    def shifted(unit, following, shift):
        words = [*unit, *following]
        step = 8
        while step >= max(width, 4):  # `step` bytes, or none
            is_set, count = shift & step != 0, step * 8 // bits
            words = [select(is_set, b, a) for a, b in zip(words, words[count:], strict=False)]
            step //= 2
        if width < 4:
            words = [shifted_right(a, b, (shift & 3) << 3) for a, b in pairwise(words)]
        return words[: 128 // bits]

    return shifted


@cache
def key_maker(width: int, infinity: int):
    """Return ``keys_in_place(own, source, size, is_aligned, plan)``.

    It puts keys where the bytes of a lane's line are, or just before.
    """
    put_quad, shifted = _quad_store(width, infinity), _shifted_unit(width)
    load_quad = shared_load(64, 2) if width == 8 else shared_load(32, 4)

    @helper
    def keys_in_place(own, source, size, is_aligned, plan):
        if is_aligned:
            whole, end = own + size // 64 * 64, own + size
            while own < whole:
                p, q, r, s = load_quad(own), load_quad(own + 16), load_quad(own + 32), load_quad(own + 48)
                put_quad(own, p, plan)
                put_quad(own + 16, q, plan)
                put_quad(own + 32, r, plan)
                put_quad(own + 48, s, plan)
                own += 64
            while own < end:
                put_quad(own, load_quad(own), plan)
                own += 16
            return
        end = own + (size + 15) // 16 * 16
        shift = np.int32(source & 15)
        p = load_quad(own)
        while own < end:
            q, r = load_quad(own + 16), load_quad(min(own + 32, end))
            put_quad(own, shifted(p, q, shift), plan)
            if own + 16 < end:
                put_quad(own + 16, shifted(q, r, shift), plan)
            own, p = own + 32, r

    return keys_in_place


@cache
def line_stager(width: int, infinity: int):
    """Return ``stage_line(own, source, first, columns, plan)``: a lane brings the keys of a part of its own line."""
    keys_of = key_access(width, infinity).keys_of
    load, store = LOAD_INDEX[f"int{8 * width}"], SHARED_STORE[8 * width]
    put_quad, of_quad, of_word = _quad_store(width, infinity), 16 // width, max(4 // width, 1)
    of_quads, words_of_quad = SIZES.own_quads * of_quad, of_quad // of_word
    all_words = SIZES.own_quads * words_of_quad

    @helper
    def word_at(address, stride):
        """Return four bytes of elements that are not neighbours, or an element of eight."""
        if width >= 4:
            return load(address)
        bits = load(address + (of_word - 1) * stride)  # the sign is that of the last
        for i in range(of_word - 2, -1, -1):
            bits = bits << 8 * width | (load(address + i * stride) & ((1 << 8 * width) - 1))
        return bits

    @helper
    def stage_line(own, source, first, columns, plan):
        words = cuda.local.array(all_words, np.int64)
        stride = number(plan, STRIDE)
        address = source + first * stride
        whole = columns - columns % of_quads
        for c in range(0, whole, of_quads):
            for i in range(all_words):
                words[i] = word_at(address + i * of_word * stride, stride)
            address += of_quads * stride
            for i in range(0, all_words, words_of_quad):
                d, e = words[min(i + 2, all_words - 1)], words[min(i + 3, all_words - 1)]  # of eight bytes: none
                put_quad(own + c * width + 16 // words_of_quad * i, (words[i], words[i + 1], d, e), plan)
        for c in range(whole, columns):
            store(own + c * width, np.int64(keys_of(load(address), plan)))
            address += stride

    return stage_line
