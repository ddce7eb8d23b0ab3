"""Delegates: the best key of each group of elements of a line whose elements are neighbours."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.access import unit_access
from ..primitives.plan import number, quotient
from ..primitives.ptx import await_inputs
from ..primitives.top_k.keys import key_access, key_type, lowest_key
from ..primitives.top_k.plan import (
    GROUP_BITS,
    LINES,
    PARTS,
    PITCH,
    QUADS,
    ROUNDS,
    SIZE,
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
def quad_steps(width: int, infinity: int):
    """Return how the lanes of a warp find the delegates of their four times 16 bytes.

    ``put_whole(delegates, plan, line, quad, address)`` is for what lies in the line, ``put_ends(delegates, plan, line,
    quad)`` for what lies in it in part.
    """
    bests_of_quads, best_inside = key_access(width, infinity).bests_of_quads, key_access(width, infinity).best_inside
    key, lowest, of_quad = key_type(width), lowest_key(width), 16 // width
    key_bytes = key(0).itemsize
    (_, store_key), partner_value = unit_access(key_bytes), PARTNER_VALUE[8 * key_bytes]

    @helper
    def put(delegates, plan, line, quad, best, lanes):
        """Store the best of some lanes' keys, if the first of these begins a group."""
        step = lanes >> 1
        while step > 0:
            best = max(best, partner_value(best, step))
            step >>= 1
        bits = number(plan, GROUP_BITS)
        first = quad * of_quad
        if first & ((1 << bits) - 1) == 0 and first >> bits < number(plan, PITCH):
            at = line.number * number(plan, PITCH) + (first >> bits)
            store_key(delegates + key_bytes * at, best, 0)

    @helper
    def put_whole(delegates, plan, line, quad, address):
        second, third = address + 16 * LANES, address + 32 * LANES
        a, b, c, d = bests_of_quads(address, second, third, address + 48 * LANES, plan)
        lanes = min(line.quads, LANES)
        if line.quads > LANES:  # two groups, or one
            a, c = max(a, b), max(c, d)
        if line.quads > 2 * LANES:
            a = max(a, c)
        put(delegates, plan, line, quad, a, lanes)
        if line.quads <= 2 * LANES:
            put(delegates, plan, line, quad + 2 * LANES, c, lanes)
        if line.quads <= LANES:
            put(delegates, plan, line, quad + LANES, b, lanes)
            put(delegates, plan, line, quad + 3 * LANES, d, lanes)

    @helper
    def put_ends(delegates, plan, line, quad):
        quads, first = line.quads, quad * of_quad - line.shift
        best = key(lowest)
        for j in range(0, QUADS * LANES, LANES):
            best = max(best, best_inside(line.source, plan, first + j * of_quad, line.size))
            if (j + LANES) % quads == 0 or quads < LANES:
                group = (quad + j) // quads * quads if quads > LANES else quad + j
                put(delegates, plan, line, group, best, min(quads, LANES))
                best = key(lowest)

    return put_whole, put_ends


@cache
def delegate_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel that finds the delegates of lines whose elements are neighbours.

    A lane reads 16 bytes, four times at once. A line's groups start at a multiple of 16 bytes, so that its first group
    may have fewer elements.
    """
    put_whole, put_ends = quad_steps(width, infinity)
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
