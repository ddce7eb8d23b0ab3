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
from .runs import ASKED_BYTES, ask_for_some

#: So many points of such an output are a block, since the first slices of one are not asked for: in blocks of 512 the
#: Xeon takes 22.7 ms for 2M of 128 bytes, not 20.7.
FAR_BLOCK = 4 * BLOCK

ROWS_AHEAD = 8


@helper
def move_strip(target, to, to_step, source, fro, fro_step, width, rows, past):
    """Copy the rows of a strip, of so many bytes; `past` the caches or not.

    The next rows are asked for, since they are elsewhere (long ones the processor reads ahead). (14500, 200) f8 along
    axis 0 in strips of 9 columns took two threads of an AMD EPYC 57 ms without this, and takes 22.
    """
    for row in range(rows):
        ask_for_some(source, fro + (row + ROWS_AHEAD) * fro_step, min(width, ASKED_BYTES))
        if past:
            stream_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
        else:
            copy_bytes(target, to + row * to_step, source, fro + row * fro_step, width)
    if past and rows:
        finish_streams()


@helper
def pack_tile(data, share, step, width, room):
    """Copy the rows that a tile's indices lead to, so that they follow each other; see `moves.pack_tiles`.

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
    """Tell whether the output lies in one of the inputs."""
    to = address(packed)
    return overlaps(to, to + plan[PACKED_BYTES], address(data) + plan[LOW], address(data) + plan[HIGH]) or overlaps(
        to, to + plan[PACKED_BYTES], address(index), address(index) + plan[INDEX_BYTES]
    )
