"""The best key of a warp, and of a block."""

from __future__ import annotations

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..access import unit_access
from ..warp import PARTNER_VALUE
from .plan import END, LOWEST

partner_word = PARTNER_VALUE[64]
load_pair, store_pair = unit_access(16)


@helper
def best_of_warp(high, place):
    """Return the best key of a warp's threads, and the least place of those that have it, to its first one."""
    lanes = LANES >> 1
    while lanes > 0:
        other, its_place = partner_word(high, lanes), partner_word(place, lanes)
        if other > high or (other == high and its_place < place):
            high, place = other, its_place
        lanes >>= 1
    return high, place


@helper
def best_of_block(keys, places, high, place):
    """Return the best key of all threads, and the least place of those that have it, to thread 0."""
    thread = np.int64(cuda.threadIdx.x)
    high, place = best_of_warp(high, place)
    if thread % LANES == 0:
        keys[thread // LANES] = high
        places[thread // LANES] = place
    cuda.syncthreads()
    if thread < LANES:
        high, place = np.int64(LOWEST), np.int64(END)
        if thread < np.int64(cuda.blockDim.x) // LANES:
            high, place = keys[thread], places[thread]
        high, place = best_of_warp(high, place)
    return high, place
