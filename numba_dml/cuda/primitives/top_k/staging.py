"""How a warp brings a segment of its lines into shared memory, as keys: each lane's into its own row.

Neighbouring lanes bring neighbouring units, of one line after the other or of several lines at once; or each brings its
own line, if this lies next to others.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..access import LOAD_INDEX, load_quad, unit_access
from ..groups import copies
from ..plan import number
from ..shared import SHARED_STORE
from ..warp import LANE_VALUE
from .plan import STRIDE
from .shared_vectors import shared_load, shared_store_all, shifted_unit
from .short_rows import (
    COPIES_AT_ONCE,
    COPY_BITS,
    ELEMENTS_AT_ONCE,
    OF_COLUMNS,
    OWN_QUADS,
    QUADS_AT_ONCE,
    key_steps,
)

address_of_lane = LANE_VALUE[64]


class Staging(NamedTuple):
    """The ways to bring lines into shared memory.

    `tile`, `pitch`: the warp's rows. `own`: the lane's. `source`: where a lane's line starts. `jump`: bytes between the
    lines of a warp, 0: they are anywhere.
    """

    #: By 16 bytes that are aligned, as keys: ``stage_quads(tile, pitch, source, jump, first, columns, plan)``.
    stage_quads: object
    #: By 16 bytes, as they are: ``copy_units(tile, pitch, source, jump, size, low, high, is_aligned)``.
    copy_units: object
    #: What makes these keys: ``keys_in_place(own, source, size, is_aligned, plan)``.
    keys_in_place: object
    #: By elements: ``stage_elements(tile, pitch, source, jump, first, columns, plan)``.
    stage_elements: object
    #: Each line by its own lane: ``stage_own(own, source, first, columns, plan)``.
    stage_own: object


@helper
def lanes_for(units):
    """Return the power of two, of lanes that share a line."""
    bits = np.int64(0)
    while (1 << bits) < min(units, LANES):
        bits += 1
    return bits


@cache
def _key_stores(width: int, infinity: int):
    """Return how words of elements, of a quad, are stored as keys: four words, or two; and a quad as it was loaded."""
    keys_of, _ = key_steps(width, infinity)
    store_quad = shared_store_all(64, 2) if width == 8 else shared_store_all(32, 4)

    @helper
    def put_quad(to, a, b, c, d, plan):
        if width == 8:
            store_quad(to, (keys_of(a, plan), keys_of(b, plan)))
        else:
            store_quad(to, (keys_of(a, plan), keys_of(b, plan), keys_of(c, plan), keys_of(d, plan)))

    @helper
    def put_own(to, quad, plan):
        if width == 8:
            put_quad(to, quad[0], quad[1], quad[0], quad[1], plan)
        else:
            put_quad(to, quad[0], quad[1], quad[2], quad[3], plan)

    return put_quad, put_own


@cache
def quad_stager(width: int, infinity: int):
    """Return ``stage_quads``, see `Staging`."""
    put_quad, _ = _key_stores(width, infinity)
    load_pair, _ = unit_access(16)
    of_quad, word = 16 // width, np.int64 if width == 8 else np.int32
    words_at_once = 4 * QUADS_AT_ONCE

    @helper
    def load_into(words, i, address):
        """Load a quad as the i-th of several."""
        if width == 8:
            words[4 * i], words[4 * i + 1] = load_pair(address)
        else:
            words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3] = load_quad(address)

    @helper
    def stage_quads(tile, pitch, source, jump, first, columns, plan):
        addresses = cuda.local.array(QUADS_AT_ONCE, np.int64)
        rows = cuda.local.array(QUADS_AT_ONCE, np.int64)
        words = cuda.local.array(words_at_once, word)
        lane = np.int64(cuda.threadIdx.x % LANES)
        units = columns // of_quad
        bits = lanes_for(units)
        unit = lane & ((1 << bits) - 1)
        origin = address_of_lane(source, 0)
        for _ in range(0, units, 1 << bits):
            line = lane >> bits
            while line < LANES:
                for i in range(QUADS_AT_ONCE):
                    rows[i] = line & (LANES - 1)  # if few loads bring all lines, some come twice
                    line += LANES >> bits
                if jump != 0:
                    for i in range(QUADS_AT_ONCE):
                        addresses[i] = origin + rows[i] * jump
                else:
                    for i in range(QUADS_AT_ONCE):
                        addresses[i] = address_of_lane(source, rows[i])
                if unit < units:
                    for i in range(QUADS_AT_ONCE):
                        load_into(words, i, addresses[i] + first * width + 16 * unit)
                    for i in range(QUADS_AT_ONCE):
                        a, b, c, d = words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]
                        put_quad(tile + rows[i] * pitch + 16 * unit, a, b, c, d, plan)
            unit += 1 << bits

    return stage_quads


@cache
def unit_copier(width: int):
    """Return ``copy_units``, see `Staging`.

    It copies all units of 16 bytes in which a lane's `size` bytes from `source` on lie. If they are not aligned, others
    come with them, but none that is outside the input, between two addresses.
    """
    load, store = LOAD_INDEX[f"int{8 * width}"], SHARED_STORE[8 * width]
    copy, arrive = copies()

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
                copy(to + i * to_step, address + i * step)
            to += COPIES_AT_ONCE * to_step
            address += COPIES_AT_ONCE * step

    @helper
    def copy_units(tile, pitch, source, jump, size, low, high, is_aligned):
        lane = np.int64(cuda.threadIdx.x % LANES)
        beyond = 0 if is_aligned else 15
        bits = max(lanes_for((size + beyond + 15) // 16), np.int64(COPY_BITS))
        line, step = lane >> bits, LANES >> bits
        at = 16 * (lane & ((1 << bits) - 1))
        origin = address_of_lane(source, 0) + line * jump
        for _ in range(0, size + beyond, 16 << bits):
            if is_aligned and jump != 0:
                if at < size:
                    copy_aligned(tile + line * pitch + at, origin + at, bits, step * pitch, step * jump)
            else:
                for i in range(1 << bits):
                    address = origin + i * step * jump if jump != 0 else address_of_lane(source, line + i * step)
                    unit, end = (address & -16) + at, address + size
                    if unit < end:
                        to = tile + (line + i * step) * pitch + at
                        if low <= unit and unit + 16 <= high:
                            copy(to, unit)
                        else:
                            copy_within(to, unit, low, high)
            at += 16 << bits
        arrive()

    return copy_units


@cache
def key_maker(width: int, infinity: int):
    """Return ``keys_in_place``, see `Staging`: it puts keys where the bytes of a lane's line are, or just before."""
    _, put_own = _key_stores(width, infinity)
    shifted = shifted_unit(width)
    load_own = shared_load(64, 2) if width == 8 else shared_load(32, 4)

    @helper
    def keys_in_place(own, source, size, is_aligned, plan):
        if is_aligned:
            whole, end = own + size // 64 * 64, own + size
            while own < whole:
                p, q, r, s = load_own(own), load_own(own + 16), load_own(own + 32), load_own(own + 48)
                put_own(own, p, plan)
                put_own(own + 16, q, plan)
                put_own(own + 32, r, plan)
                put_own(own + 48, s, plan)
                own += 64
            while own < end:
                put_own(own, load_own(own), plan)
                own += 16
            return
        end = own + (size + 15) // 16 * 16
        shift = np.int32(source & 15)
        p = load_own(own)
        while own < end:
            q, r = load_own(own + 16), load_own(min(own + 32, end))
            put_own(own, shifted(p, q, shift), plan)
            if own + 16 < end:
                put_own(own + 16, shifted(q, r, shift), plan)
            own, p = own + 32, r

    return keys_in_place


@cache
def element_stager(width: int, infinity: int):
    """Return ``stage_elements``, see `Staging`."""
    keys_of, _ = key_steps(width, infinity)
    load, store = LOAD_INDEX[f"int{8 * width}"], SHARED_STORE[8 * width]
    word = np.int64 if width == 8 else np.int32

    @helper
    def stage_elements(tile, pitch, source, jump, first, columns, plan):
        addresses = cuda.local.array(ELEMENTS_AT_ONCE, np.int64)
        targets = cuda.local.array(ELEMENTS_AT_ONCE, np.int64)
        keys = cuda.local.array(ELEMENTS_AT_ONCE, word)
        stride = number(plan, STRIDE)
        origin = address_of_lane(source, 0) + first * stride
        of_columns = (1 << OF_COLUMNS) // columns + 1
        last = LANES * columns - 1
        begin = np.int64(cuda.threadIdx.x % LANES)
        for _ in range(0, last + 1, ELEMENTS_AT_ONCE * LANES):
            for i in range(ELEMENTS_AT_ONCE):
                item = min(begin + i * LANES, last)  # the last one may come more than once
                line = (item * of_columns) >> OF_COLUMNS  # item // columns
                column = item - line * columns
                if jump != 0:
                    addresses[i] = origin + line * jump + column * stride
                else:
                    addresses[i] = address_of_lane(source, line) + (first + column) * stride
                targets[i] = tile + line * pitch + column * width
            for i in range(ELEMENTS_AT_ONCE):
                keys[i] = load(addresses[i])
            for i in range(ELEMENTS_AT_ONCE):
                store(targets[i], np.int64(keys_of(keys[i], plan)))
            begin += ELEMENTS_AT_ONCE * LANES

    return stage_elements


@cache
def own_stager(width: int, infinity: int):
    """Return ``stage_own``, see `Staging`."""
    keys_of, _ = key_steps(width, infinity)
    put_quad, _ = _key_stores(width, infinity)
    load, store = LOAD_INDEX[f"int{8 * width}"], SHARED_STORE[8 * width]
    of_quad, of_word = 16 // width, max(4 // width, 1)
    words_of_quad = min(of_quad, 4)
    own_words, own_at_once = OWN_QUADS * words_of_quad, OWN_QUADS * of_quad

    @helper
    def put(to, address, plan):
        store(to, np.int64(keys_of(load(address), plan)))

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
    def stage_own(own, source, first, columns, plan):
        words = cuda.local.array(own_words, np.int64)
        stride = number(plan, STRIDE)
        address = source + first * stride
        whole = columns - columns % own_at_once
        for c in range(0, whole, own_at_once):
            for i in range(own_words):
                words[i] = word_at(address + i * of_word * stride, stride)
            address += own_at_once * stride
            for i in range(0, own_words, words_of_quad):
                a, b = words[i], words[i + 1]
                d, e = words[min(i + 2, own_words - 1)], words[min(i + 3, own_words - 1)]  # of eight bytes: none
                put_quad(own + c * width + 16 // words_of_quad * i, a, b, d, e, plan)
        for c in range(whole, columns):
            put(own + c * width, address, plan)
            address += stride

    return stage_own


@cache
def staging(width: int, infinity: int) -> Staging:
    """Return the ways for elements of a width; `infinity`: its bits, if they are floats."""
    return Staging(
        quad_stager(width, infinity),
        unit_copier(width),
        key_maker(width, infinity),
        element_stager(width, infinity),
        own_stager(width, infinity),
    )
