"""Delegates: the best key of each group of elements of a line."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, cuda
from ..primitives.access import unit_access
from ..primitives.plan import number, quotient
from ..primitives.ptx import await_inputs
from ..primitives.top_k.ends import end_access
from ..primitives.top_k.keys import key_access, key_type
from ..primitives.top_k.plan import (
    FLIP,
    GROUP_BITS,
    LINES,
    PARTS,
    PITCH,
    QUADS,
    ROUNDS,
    SIZE,
    STRIDE,
    WARPS,
    line_bases,
)
from ..primitives.warp import PARTNER_VALUE


class Line(NamedTuple):
    """A line, as the lanes of a warp see it that reads a part of it."""

    number: object
    source: object  #: the address of its first element
    size: object
    shift: object  #: elements that the first 16 bytes begin before the line
    quads: object  #: 16 bytes of a group


@cache
def delegate_writer(width: int):
    """Return ``best_of_lanes(best, lanes)`` and ``put(delegates, plan, line, quad, best)``, for a group's lanes."""
    key_bytes, of_quad = key_type(width)(0).itemsize, 16 // width
    _, store_key = unit_access(key_bytes)
    partner_value = PARTNER_VALUE[8 * key_bytes]

    @helper
    def best_of_lanes(best, lanes):
        step = lanes >> 1
        while step > 0:
            best = max(best, partner_value(best, step))
            step >>= 1
        return best

    @helper
    def put(delegates, plan, line, quad, best):
        bits = number(plan, GROUP_BITS)
        first = quad * of_quad
        if first & ((1 << bits) - 1) == 0 and first >> bits < number(plan, PITCH):
            at = line.number * number(plan, PITCH) + (first >> bits)
            store_key(delegates + key_bytes * at, best, 0)

    return best_of_lanes, put


@cache
def quad_steps(width: int, is_float: bool):
    """Return how the lanes of a warp find the delegates of their four times 16 bytes.

    ``put_whole(delegates, plan, line, quad, address)`` is for what lies in the line, ``put_ends(delegates, plan, line,
    quad)`` for what lies in it in part.
    """
    access = key_access(width, is_float, FLIP)
    bests_of_quads, best_of_quads = access.bests_of_quads, access.best_of_quads
    best_inside, (best_of_lanes, put) = end_access(width, is_float), delegate_writer(width)
    key = key_type(width)
    lowest, of_quad = np.iinfo(key).min, 16 // width
    partner_value = PARTNER_VALUE[8 * key(0).itemsize]
    quarter_bits = of_quad.bit_length() - 1 + 2  # of a group's lanes, less than of its elements

    @helper
    def share(a, b, is_upper, step):
        """Return the best of two lanes' first keys to the lower lane, the best of their second ones to the upper."""
        return max(b if is_upper else a, partner_value(a if is_upper else b, step))

    @helper
    def put_shared(delegates, plan, line, quad, bests):
        """Put the best keys of four groups, which a group's lanes share out: 6 exchanges for 32 lanes, not 20."""
        a, b, c, d = bests
        lane = np.int64(cuda.threadIdx.x % LANES)
        half, quarter = line.quads >> 1, line.quads >> 2
        upper = lane & half != 0
        a, b = share(a, c, upper, half), share(b, d, upper, half)
        a = best_of_lanes(share(a, b, lane & quarter != 0, quarter), quarter)
        if lane & (quarter - 1) == 0:
            own = lane & (line.quads - 1)
            which = own >> (number(plan, GROUP_BITS) - quarter_bits)
            put(delegates, plan, line, quad - own + which * LANES, a)

    @helper
    def put_each(delegates, plan, line, quad, bests):
        """Put the best keys of four groups, or of two, one after the other."""
        a, b, c, d = bests
        if line.quads > LANES:
            a, c = max(a, b), max(c, d)
        lanes = min(line.quads, LANES)
        put(delegates, plan, line, quad, best_of_lanes(a, lanes))
        put(delegates, plan, line, quad + 2 * LANES, best_of_lanes(c, lanes))
        if line.quads <= LANES:
            put(delegates, plan, line, quad + LANES, best_of_lanes(b, lanes))
            put(delegates, plan, line, quad + 3 * LANES, best_of_lanes(d, lanes))

    @helper
    def put_whole(delegates, plan, line, quad, address):
        if line.quads == QUADS * LANES:
            put(delegates, plan, line, quad, best_of_lanes(best_of_quads(address, 16 * LANES, plan), LANES))
        else:
            second, third = address + 16 * LANES, address + 32 * LANES
            bests = bests_of_quads(address, second, third, address + 48 * LANES, plan)
            if line.quads >= QUADS and line.quads <= LANES:
                put_shared(delegates, plan, line, quad, bests)
            else:
                put_each(delegates, plan, line, quad, bests)

    @helper
    def put_ends(delegates, plan, line, quad):
        quads, first = line.quads, quad * of_quad - line.shift
        best = key(lowest)
        for j in range(0, QUADS * LANES, LANES):
            best = max(best, best_inside(line.source, plan, first + j * of_quad, line.size))
            if (j + LANES) % quads == 0 or quads < LANES:
                group = (quad + j) // quads * quads if quads > LANES else quad + j
                put(delegates, plan, line, group, best_of_lanes(best, min(quads, LANES)))
                best = key(lowest)

    return put_whole, put_ends


@cache
def delegate_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that finds the delegates of lines whose elements are neighbours.

    A lane reads 16 bytes, four times at once. A line's groups start at a multiple of 16 bytes, so that its first group
    may have fewer elements.
    """
    put_whole, put_ends = quad_steps(width, is_float)
    of_quad = 16 // width

    @kernel(registers=40)  # six blocks of 256 threads on a multiprocessor
    def find_delegates(
        x,  # IN   address of the first element
        delegates,  # OUT  address of (lines, pitch) keys
        plan,  # IN   address of the plan
    ):
        await_inputs()
        lane = np.int64(cuda.threadIdx.x % LANES)
        warp = np.int64(cuda.blockIdx.x) * WARPS + cuda.threadIdx.x // LANES
        number_of_line = quotient(warp, plan, PARTS)
        if number_of_line >= number(plan, LINES):
            return
        source, _ = line_bases(plan, number_of_line)
        source += x
        shift, size = (source & 15) // width, number(plan, SIZE)
        line = Line(number_of_line, source, size, shift, (1 << number(plan, GROUP_BITS)) // of_quad)
        rounds = number(plan, ROUNDS)
        quad = (warp - number_of_line * number(plan, PARTS)) * rounds * (QUADS * LANES) + lane
        address = source - shift * width + 16 * quad
        for _ in range(rounds):
            first = quad * of_quad - shift
            if first >= lane * of_quad and first + (QUADS * LANES - lane) * of_quad <= size:
                put_whole(delegates, plan, line, quad, address)
            else:
                put_ends(delegates, plan, line, quad)
            quad += QUADS * LANES
            address += 16 * QUADS * LANES

    return Kernel(find_delegates, 3, waits=True)


@cache
def strided_delegate_kernel(width: int, is_float: bool, wide: bool) -> Kernel:
    """Return the kernel that finds the delegates of any other lines: a thread for each group.

    `wide`: lines lie beside each other, 16 bytes of them at a multiple of 16; a thread has the groups of these lines.
    """
    access = key_access(width, is_float, FLIP)
    key_at, best_of_four, put_bests = access.key_at, access.best_of_four, access.put_bests
    lowest = np.iinfo(key_type(width)).min
    key, key_bytes = key_type(width), key_type(width)(0).itemsize
    _, store_key = unit_access(key_bytes)
    together = 16 // width if wide else 1

    @helper
    def best_of_group(address, stride, count, plan):
        best = key(lowest)
        while count >= 4:
            second, third = address + stride, address + 2 * stride
            best = max(best, best_of_four(address, second, third, third + stride, plan))
            address += 4 * stride
            count -= 4
        while count > 0:
            best = max(best, key_at(address, plan))
            address += stride
            count -= 1
        return best

    @kernel
    def find_strided_delegates(
        x,  # IN   address of the first element
        delegates,  # OUT  address of (lines, pitch) keys
        plan,  # IN   address of the plan
    ):
        await_inputs()
        bests = cuda.local.array(together, key)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        of_lines = number(plan, LINES) // together
        group = item // of_lines
        line = (item - group * of_lines) * together
        pitch = number(plan, PITCH)
        if group >= pitch:
            return
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        first = group << number(plan, GROUP_BITS)
        count = min(np.int64(1) << number(plan, GROUP_BITS), number(plan, SIZE) - first)
        address = x + source + first * stride
        for j in range(together):
            bests[j] = lowest
        if count > 0:
            if wide:
                put_bests(bests, address, stride, count, plan)
            else:
                bests[0] = best_of_group(address, stride, count, plan)
        at = delegates + key_bytes * (line * pitch + group)
        for j in range(together):
            store_key(at, bests[j], 0)
            at += key_bytes * pitch

    return Kernel(find_strided_delegates, 3)
