"""Sums over the lanes of a warp, the threads of a block and all blocks."""

from __future__ import annotations

import numpy as np

from ..driver.compile import helper
from ..driver.numba import BLOCK, LANES, cuda
from .atomics import add_now, fetch_and_add
from .warp import lane_long_word


@helper
def add_up_lanes(own):
    """Return the sum of the numbers of this lane and of those before it."""
    lane = cuda.threadIdx.x % LANES
    total = np.int64(own)
    step = 1
    while step < LANES:
        before = lane_long_word(total, max(lane - step, 0))
        if lane >= step:
            total += before
        step <<= 1
    return total


@helper
def add_up_threads(sums, own):
    """Return the sum of the numbers of this thread and of those before it; `sums` then holds it for every thread."""
    thread = cuda.threadIdx.x
    lane, warp = thread % LANES, thread // LANES
    total = add_up_lanes(own)
    if lane == LANES - 1:
        sums[warp] = total
    cuda.syncthreads()
    warps = add_up_lanes(sums[lane] if lane < cuda.blockDim.x // LANES else 0)
    before = lane_long_word(warps, max(warp - 1, 0)) if warp > 0 else np.int64(0)
    cuda.syncthreads()
    sums[thread] = before + total
    cuda.syncthreads()
    return before + total


@helper
def add_counts(counts, to, number):
    """Add a block's counts in shared memory to words that all blocks add to."""
    for i in range(np.int64(cuda.threadIdx.x), number, BLOCK):
        if counts[i] != 0:
            add_now(to + 8 * i, counts[i])


@helper
def arrive(arrived, sums, blocks):
    """Tell whether a block is the last one to arrive; it then sees what all of them have written."""
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:  # its fences are for all threads, by the barriers
        cuda.threadfence()
        sums[0] = fetch_and_add(arrived, np.int64(1))
        cuda.threadfence()
    cuda.syncthreads()
    last = sums[0] % blocks == blocks - 1
    cuda.syncthreads()
    return last
