"""What the memory allows: a parallel read of the same bytes, and a parallel copy of as many.

The plainest loops, with as many threads as Numba gives our kernels. They are the measure, not a bound: a kernel that
writes past the caches can beat the copy, and one that reads only a part of its input the scan.
"""

from __future__ import annotations

import numba
import numpy as np

from .common import Arrays, Call


@numba.njit(parallel=True, cache=True)
def read(words: np.ndarray) -> int:
    """Add up all words: the least that has to be done with what was read."""
    total = 0
    for i in numba.prange(words.size):
        total += words[i]
    return total


@numba.njit(parallel=True, cache=True)
def write(words: np.ndarray, out: np.ndarray) -> None:
    """Copy all words."""
    for i in numba.prange(words.size):
        out[i] = words[i]


def scan(arrays: Arrays, traffic: int) -> Call:
    """Return a read of the first array (of a copy where it is not contiguous)."""
    raw = arrays[0].ravel("K").view(np.uint8)
    words = raw[: raw.size // 8 * 8].view(np.int64)
    read(words)
    return lambda: read(words)


def copy(arrays: Arrays, traffic: int) -> Call:
    """Return a copy that reads a half of the traffic and writes the other half."""
    words = np.ones(traffic // 16, np.int64)
    out = np.empty_like(words)
    write(words, out)
    return lambda: write(words, out)
