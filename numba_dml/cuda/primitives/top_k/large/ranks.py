"""Which elements of a tile belong to a list, and where each goes: the order of threads is that of positions."""

from __future__ import annotations

from functools import cache

import numpy as np

from ....driver.compile import helper
from ....driver.numba import BLOCK, LANES, cuda
from ...bits import count_bits
from ...warp import LANE_VALUE
from .tiles import sizes_of

WARPS = BLOCK // LANES
#: Bits that hold the count of a quad's elements in a warp, and of a tile's.
FIELD = 16
lane_value = LANE_VALUE[64]


@helper
def counts_before(counts, warp):
    """Return the sum of the counts of the warps before one, and that of all."""
    total = begin = np.int32(0)
    for other in range(WARPS):
        if other == warp:
            begin = total
        total = np.int32(total + counts[other])
    return begin, total


@cache
def tile_ranks(width: int):
    """Return ``rank_quads(bits, ranks, counts)`` and ``first_bits(bits, left, ranks, counts)``.

    The first lists how many of a tile's bits are set before each quad of this thread, and returns how many are in all.
    The second returns the bits that are among the first of a tile's, and how many it has.
    """
    quads, of_quad = sizes_of(width)
    quad_mask = (1 << of_quad) - 1

    @helper
    def quads_of_lanes(bits):
        """Return the counts of a thread's quads, a field each: its own, and those of its lane and the ones before."""
        lane = np.int32(cuda.threadIdx.x % LANES)
        own = np.int64(0)
        for j in range(quads):
            own |= np.int64(count_bits(bits >> (of_quad * j) & quad_mask)) << (FIELD * j)
        until = own
        step = np.int32(1)
        while step < LANES:
            before = lane_value(until, max(lane - step, 0))
            if lane >= step:
                until += before
            step = np.int32(step << 1)
        return own, until

    @helper
    def rank_quads(bits, ranks, counts):
        thread = np.int32(cuda.threadIdx.x)
        lane, warp = np.int32(thread % LANES), np.int32(thread // LANES)
        own, until = quads_of_lanes(bits)
        of_warp = lane_value(until, LANES - 1)
        until -= own
        begin = np.int32(0)
        for j in range(quads):
            ranks[j] = np.int32(begin + np.int32(until >> (FIELD * j) & ((1 << FIELD) - 1)))
            begin = np.int32(begin + np.int32(of_warp >> (FIELD * j) & ((1 << FIELD) - 1)))
        if lane == 0:
            counts[warp] = begin
        cuda.syncthreads()
        begin, total = counts_before(counts, warp)
        for j in range(quads):
            ranks[j] = np.int32(ranks[j] + begin)
        return total

    @helper
    def first_bits(bits, left, ranks, counts):
        total = rank_quads(bits, ranks, counts)
        few = np.int32(0)
        for j in range(quads):
            rank = np.int64(ranks[j])
            for n in range(of_quad * j, of_quad * (j + 1)):
                if bits >> n & 1 != 0:
                    if rank < left:
                        few = np.int32(few | (1 << n))
                    rank += 1
        return few, total

    return rank_quads, first_bits
