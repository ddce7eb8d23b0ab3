"""Short lines in shared memory, a row for each thread, as keys."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..access import LOAD_INDEX, load_quad, unit_access
from ..groups import copies
from ..plan import number
from ..shared import SHARED_STORE
from ..warp import LANE_VALUE
from .float_keys import FLOAT_KEYS, FLOAT_ONES
from .keys import key_type
from .plan import FLIP, STRIDE
from .shared_vectors import shared_load, shared_store_all, shifted_unit
from .sizes import SIZES

#: How lines come into shared memory: by 16 bytes that are aligned in memory, and in lines too or not; by elements; or
#: each by its own thread, next to others.
WIDE, SHIFTED, NARROW, BESIDE = range(4)
#: What a thread has of its line at once, in bytes: up to k = 8, and above; and lines from which wide keys have the
#: second for every k.
SEGMENT_BYTES = SIZES.segment_bytes
AT_ONCE_LINES = SIZES.segment_lines
#: Bytes of a segment from which on it is copied before keys are made, and not on its way, if its lines are aligned.
LEAST_COPIED = SIZES.least_copied
#: Copies of 16 bytes that a thread begins together, and their power of two.
COPIES_AT_ONCE, COPY_BITS = 1 << SIZES.copy_bits, SIZES.copy_bits
#: Loads of 16 bytes that a thread does together, and for how many of these it collects the elements of its own line.
QUADS_AT_ONCE, OWN_QUADS = SIZES.quads_at_once, SIZES.own_quads
#: Loads of single elements that a thread does together.
ELEMENTS_AT_ONCE = SIZES.elements_at_once
#: Bits of the reciprocal that divides the number of an element by up to 2**10 columns: it is less than 2**15.
OF_COLUMNS = 26
#: Elements of a group, of more than two bytes each, and groups of a segment, at most.
GROUP, MOST_GROUPS = SIZES.group, SIZES.most_groups


def group_of(width: int, most: int) -> int:
    """Return how many elements go together: into the network, of keys of up to 16 bits; into a group, of others."""
    return max(16 // width, most) if width <= 2 else GROUP


def segment_of(width: int, most: int, size: int, lines: int) -> int:
    """Return how many elements of a line a thread has at once: all, or whole groups."""
    bytes_ = SEGMENT_BYTES[most > 8 or (width > 2 and lines > AT_ONCE_LINES)]
    return min(max(bytes_ // width, group_of(width, most), most), size)


def list_bytes(most: int, width: int) -> int:
    """Return the bytes of a list of the best, which is written by 16 bytes."""
    return max(most * width, 16)


def row_bytes(width: int, most: int, segment: int, staging: int) -> int:
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
        bytes_ = max(keys + 16 * (staging == SHIFTED), list_bytes(most, 4))
    return (-(-bytes_ // 16) | 1) * 16


@cache
def key_steps(width: int, infinity: int):
    """Return how to make keys of a word of elements, or of an element of 8 bytes; and an element's bits of its key.

    The latter also tells if these are the bits: zeros have one key, and so have NaNs. `infinity`: its bits, if the
    elements are floats.
    """
    key = key_type(width)
    lowest = np.iinfo(key).min
    sign = 1 << (8 * width - 1)
    words = sum(1 << shift for shift in range(0, 32, 8 * width))
    float_keys, one = FLOAT_KEYS.get(infinity), FLOAT_ONES.get(infinity, 0)
    signs = sign * words

    @helper
    def of_float(word, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)  # NaN comes last
        return float_keys(word, ((number(plan, FLIP) ^ turned) & signs) ^ one, turned)

    @helper
    def of_wide_float(bits, plan):
        flip, limit, of_nan = number(plan, FLIP), number(plan, FLIP + 1), number(plan, FLIP + 2)  # no load in a branch
        magnitude = np.int64(bits & (sign - 1))
        its_key = np.int64((-magnitude if bits < 0 else magnitude) ^ flip)
        return of_nan if magnitude > limit else its_key

    @helper
    def of_integers(word, plan):
        flip = number(plan, FLIP)
        if width < 4:
            flip = ((flip & (2 * sign - 1)) * words ^ (1 << 31)) - (1 << 31)
        return key(word ^ flip)

    @helper
    def float_of(key, plan):
        turned = np.int64(-1 if number(plan, FLIP + 2) < 0 else 0)
        y = np.int64(key) ^ turned
        bits = y ^ (sign - 1) if y < 0 else y
        return bits ^ ((number(plan, FLIP) ^ turned) & -sign), y != 0 and y != sign - 1

    @helper
    def wide_float_of(key, plan):
        y = key ^ number(plan, FLIP)
        return (-y ^ lowest if y < 0 else y), y != 0 and key != number(plan, FLIP + 2)

    @helper
    def integer_of(key, plan):
        return np.int64(key) ^ number(plan, FLIP), True

    if infinity == 0:
        return of_integers, integer_of
    return (of_wide_float, wide_float_of) if width == 8 else (of_float, float_of)


@cache
def staging(width: int, infinity: int):
    """Return how a warp brings a segment of its lines into shared memory, as keys: each lane's into its own row."""
    keys_of, _ = key_steps(width, infinity)
    load, store = LOAD_INDEX[f"int{8 * width}"], SHARED_STORE[8 * width]
    load_pair, _ = unit_access(16)
    copy, arrive = copies()
    shifted = shifted_unit(width)
    store_quad = shared_store_all(64, 2) if width == 8 else shared_store_all(32, 4)
    load_own = shared_load(64, 2) if width == 8 else shared_load(32, 4)
    address_of_lane = LANE_VALUE[64]
    of_quad = 16 // width
    word = np.int64 if width == 8 else np.int32
    of_word, words_of_quad = max(4 // width, 1), min(of_quad, 4)
    words_at_once = 4 * QUADS_AT_ONCE
    own_words = OWN_QUADS * words_of_quad
    own_at_once = OWN_QUADS * of_quad

    @helper
    def put_quad(to, a, b, c, d, plan):
        if width == 8:
            store_quad(to, (keys_of(a, plan), keys_of(b, plan)))
        else:
            store_quad(to, (keys_of(a, plan), keys_of(b, plan), keys_of(c, plan), keys_of(d, plan)))

    @helper
    def put(to, address, plan):
        store(to, np.int64(keys_of(load(address), plan)))

    @helper
    def put_own(to, quad, plan):
        if width == 8:
            put_quad(to, quad[0], quad[1], quad[0], quad[1], plan)
        else:
            put_quad(to, quad[0], quad[1], quad[2], quad[3], plan)

    # Neighbouring lanes bring neighbouring units, of one line after the other or of several lines at once.

    @helper
    def lanes_for(units):
        """Return the power of two, of lanes that share a line."""
        bits = np.int64(0)
        while (1 << bits) < min(units, LANES):
            bits += 1
        return bits

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
                        address = addresses[i] + first * width + 16 * unit
                        if width == 8:
                            words[4 * i], words[4 * i + 1] = load_pair(address)
                        else:
                            words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3] = load_quad(address)
                    for i in range(QUADS_AT_ONCE):
                        a, b, c, d = words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]
                        put_quad(tile + rows[i] * pitch + 16 * unit, a, b, c, d, plan)
            unit += 1 << bits

    @helper
    def copy_within(to, unit, low, high):
        """Copy a unit's elements between two addresses: around these there may be none."""
        for i in range(0, 16, width):
            if low <= unit + i and unit + i < high:
                store(to + i, np.int64(load(unit + i)))

    @helper
    def copy_units(tile, pitch, source, jump, size, low, high, is_aligned):
        """Copy all units of 16 bytes in which a lane's bytes lie, of which there are so many from `source` on.

        If they are not aligned, others come with them, but none that is outside the input, between two addresses.
        """
        lane = np.int64(cuda.threadIdx.x % LANES)
        beyond = 0 if is_aligned else 15
        bits = max(lanes_for((size + beyond + 15) // 16), np.int64(COPY_BITS))
        line, step = lane >> bits, LANES >> bits
        at = 16 * (lane & ((1 << bits) - 1))
        origin = address_of_lane(source, 0) + line * jump
        for _ in range(0, size + beyond, 16 << bits):
            if is_aligned and jump != 0:
                to, address = tile + line * pitch + at, origin + at
                if at < size:
                    for _ in range(0, 1 << bits, COPIES_AT_ONCE):
                        for i in range(COPIES_AT_ONCE):
                            copy(to + i * step * pitch, address + i * step * jump)
                        to += COPIES_AT_ONCE * step * pitch
                        address += COPIES_AT_ONCE * step * jump
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

    @helper
    def keys_in_place(own, source, size, is_aligned, plan):
        """Put keys where the bytes of a lane's line are, or so many bytes before them."""
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

    return stage_quads, copy_units, keys_in_place, stage_elements, stage_own
