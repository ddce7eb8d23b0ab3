"""How threads share a gather: shares of points, and tiles of packed rows."""

from __future__ import annotations

import numpy as np

from ...._jit.compile import allocating, helper
from ...._jit.copies import copy_bytes, finish_streams, stream_bytes
from ...._jit.memory import address, empty, overlaps
from .plan import (
    BLOCK,
    DATA_BASE,
    HEADER,
    HIGH,
    INDEX_BYTES,
    LOOP_FIELDS,
    LOOPS,
    LOW,
    PACKED_BYTES,
    PACKS,
    POINTS,
    RUN,
    TILE,
    coords_at,
    first_of,
    share_of_loop,
)
from .runs import PREFETCHED_BYTES, prefetch_span

#: Points of a block of an output larger than the caches: the first slices of a block are not prefetched. See "How far
#: ahead slices are prefetched" in docs/measurements/cpumoves.md.
FAR_BLOCK = 4 * BLOCK
#: Rows of a strip or tile ahead of which one is prefetched.
ROWS_AHEAD = 8


@helper
def move_strip(target, to, to_step, source, fro, fro_step, width, rows, past):
    """Copy the rows of a strip, of `width` bytes each; `past` the caches or not.

    The next rows are prefetched, since they are elsewhere; the processor only reads long ones ahead.
    """
    for row in range(rows):
        prefetch_span(source, fro + (row + ROWS_AHEAD) * fro_step, min(width, PREFETCHED_BYTES))
        if past:
            stream_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
        else:
            copy_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
    if past and rows:
        finish_streams()


@helper
def pack_tile(data, share, step, width, room):
    """Copy the rows that a tile's indices lead to, so that they follow each other; see `dispatch.gather.packed_tile`.

    Rows are often a power of two apart, and a cache has few places for a tile of them.
    """
    field = coords_at(share)
    at, bytes_of_row = room.ctypes.data - address(data), width * step
    move_strip(data, at, bytes_of_row, data, share[DATA_BASE], share[field + 1], bytes_of_row, share[field], False)
    share[DATA_BASE], share[field + 1] = at, bytes_of_row


def by_shares(gather_range):
    """Return a function that gathers one thread's share of the points, by one for a range of them."""

    @allocating
    def gather_share(data, index, packed, plan, thread, threads):
        """Gather one thread's share of the points; return the position of the first bad index, or -1."""
        elements = plan[RUN]
        loop = plan[LOOPS] - 1
        length = plan[HEADER + LOOP_FIELDS * loop]
        low, high, left, right, tile = 0, elements, 0, length, max(plan[TILE], 1)
        begin, end = plan[POINTS] * thread // threads, plan[POINTS] * (thread + 1) // threads
        if plan[POINTS] < 4 * threads and 1 < elements >= plan[POINTS]:  # few slices: a part of each
            begin, end = 0, plan[POINTS]
            low, high = elements * thread // threads, elements * (thread + 1) // threads
        elif plan[TILE]:
            left, right = length * thread // threads, length * (thread + 1) // threads
        if plan[TILE] == 0:
            left, right, tile = 0, 1, 1
        first = np.int64(-1)
        share = plan
        room = empty(plan[PACKS], np.uint8)
        for at in range(left, right, tile):  # one call: a second one would be compiled, inlined, once more
            if plan[TILE]:
                width = min(tile, right - at)
                share = share_of_loop(plan, loop, at, at + width)
                begin, end = 0, share[POINTS]
                if room.size:
                    pack_tile(data, share, plan[HEADER + LOOP_FIELDS * loop + 1], width, room)
            first = first_of(first, gather_range(data, index, packed, share, begin, end, low, high))
        return first

    return gather_share


@helper
def clashes(data, index, packed, plan):
    """Return whether the output lies in one of the inputs."""
    to = address(packed)
    return overlaps(to, to + plan[PACKED_BYTES], address(data) + plan[LOW], address(data) + plan[HIGH]) or overlaps(
        to, to + plan[PACKED_BYTES], address(index), address(index) + plan[INDEX_BYTES]
    )
