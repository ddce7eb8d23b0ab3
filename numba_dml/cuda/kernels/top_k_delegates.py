"""Delegates: the best key of each group of elements of a line whose elements are neighbours."""

from __future__ import annotations

from functools import cache

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


@cache
def delegate_store(width: int):
    """Return ``put(delegates, plan, group, quad, bests)``: the best keys of a lane's quads become delegates of a line.

    `group`: quads of a group. `quad`: the lane's first one.
    """
    key, lowest, of_quad = key_type(width), lowest_key(width), 16 // width
    key_bytes = key(0).itemsize
    (_, store_key), partner_value = unit_access(key_bytes), PARTNER_VALUE[8 * key_bytes]

    @helper
    def put(delegates, plan, group, quad, bests):
        best = key(lowest)
        for j in range(QUADS):
            best = max(best, bests[j])
            if (j + 1) * LANES & (group - 1) == 0:
                step = min(group, LANES) >> 1
                while step > 0:
                    best = max(best, partner_value(best, step))
                    step >>= 1
                first = quad + (j + 1) * LANES - max(group, LANES)
                at = first * of_quad >> number(plan, GROUP_BITS)
                if first & (group - 1) == 0 and at < number(plan, PITCH):
                    store_key(delegates + key_bytes * at, best, 0)
                best = key(lowest)

    return put


@cache
def delegate_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel that finds the delegates of lines whose elements are neighbours.

    A lane reads 16 bytes, four times at once. A line's groups start at a multiple of 16 bytes, so that its first group
    may have fewer elements.
    """
    bests_of_quads, best_inside = key_access(width, infinity).bests_of_quads, key_access(width, infinity).best_inside
    put, key, of_quad = delegate_store(width), key_type(width), 16 // width
    key_bytes = key(0).itemsize

    @kernel(registers=40)  # six blocks of 256 threads on a multiprocessor
    def find_delegates(
        x,  # IN   address of the first element
        delegates,  # OUT  address of (lines, pitch) keys
        plan,  # IN   address of the plan
    ):
        await_inputs()
        bests = cuda.local.array(QUADS, key)
        lane = np.int64(cuda.threadIdx.x % LANES)
        warp = np.int64(cuda.blockIdx.x) * WARPS + cuda.threadIdx.x // LANES
        number_of_line = quotient(warp, plan, PARTS)
        if number_of_line >= number(plan, LINES):
            return
        source, _ = line_bases(plan, number_of_line)
        source += x
        delegates += key_bytes * number_of_line * number(plan, PITCH)
        shift, size, rounds = (source & 15) // width, number(plan, SIZE), number(plan, ROUNDS)
        group = (1 << number(plan, GROUP_BITS)) // of_quad
        quad = (warp - number_of_line * number(plan, PARTS)) * rounds * (QUADS * LANES) + lane
        address = source - shift * width + 16 * quad
        for _ in range(rounds):
            first = quad * of_quad - shift
            if first >= lane * of_quad and first + (QUADS * LANES - lane) * of_quad <= size:
                second, third = address + 16 * LANES, address + 32 * LANES
                a, b, c, d = bests_of_quads(address, second, third, address + 48 * LANES, plan)
                bests[0], bests[1], bests[2], bests[3] = a, b, c, d
            else:
                for j in range(QUADS):
                    bests[j] = best_inside(source, plan, first + j * LANES * of_quad, size)
            put(delegates, plan, group, quad, bests)
            quad += QUADS * LANES
            address += 16 * QUADS * LANES

    return Kernel(find_delegates, 3, waits=True)
