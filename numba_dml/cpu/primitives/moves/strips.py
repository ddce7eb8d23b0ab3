"""Strips: parts of an output that threads share, so that each place has one writer.

The figures are under "Strips of a matrix" in docs/measurements/cpumoves.md.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import helper
from ...._jit.copies import copy_bytes, stream_bytes
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import address
from . import plan as fields
from .plan import coord_at, loop_at

#: Bytes of a row of the narrowest packed strip whose iterations write to neighbours; of others it is a cache line.
LEAST_STRIP = 16
#: Bytes of a row from which on strips begin at cache lines where every thread has one, and rows do not: narrower ones
#: would differ by a factor of two.
LINED_STRIP = 3 * CACHE_LINE
#: Bytes of a strip up to which it is packed: where an axis is long, one is larger than it should be.
MOST_PACKED = 1 << 22
#: Elements per update up to which updates are dense: only then do strips or bins in place pay, which are copied twice.
DENSE = 4
#: Rows above which strips in place are packed.
FEW_ROWS = 16


@helper
def count_strips(plan, packs, threads):
    """Return how many strips the split loop is cut into: as many for each thread, if they are not too narrow."""
    field = loop_at(plan[fields.SPLIT])
    size, step = plan[field], abs(plan[field + 1])
    least = max((LEAST_STRIP if packs else CACHE_LINE) // max(step, 1), 1)
    width = max(min(plan[fields.TILE], -(-size // threads)), least)
    return max(min(-(-size // (width * threads)) * threads, size // least), 1)


@helper
def strip_start(data, plan, strip, strips, threads):
    """Return the first iteration of the split loop that is a strip's.

    Two threads that write to one cache line wait for each other. If rows are a multiple of it, a line has one thread,
    wherever the array starts.
    """
    field = loop_at(plan[fields.SPLIT])
    size, step = plan[field], plan[field + 1]
    start = size * strip // strips
    least = LINED_STRIP if strips == threads and plan[fields.PERIOD] % CACHE_LINE else CACHE_LINE
    if 0 < strip < strips and 0 < step < CACHE_LINE and size * step >= strips * least:
        rest = (address(data) + plan[fields.DATA_BASE] + start * step) % CACHE_LINE
        start -= min(rest // step, start)
    return start


@helper
def copy_old(source, data, plan, at, count):
    """Copy `count` bytes from `at` on to the output, of the input or of what is repeated there."""
    size = plan[fields.FILL] if plan[fields.FILL] else at + count
    done = np.int64(0)
    while done < count:
        fro = (at + done) % size if plan[fields.FILL] else at
        part = min(size - fro, count - done)
        if plan[fields.STREAM] != 0 and plan[fields.SPLIT] < 0:
            stream_bytes(data, at + done, source, fro, part)
        else:
            copy_bytes(data, at + done, source, fro, part)
        done += part


@helper
def copy_strip(source, data, plan, start, count):
    """Copy what some iterations of the split loop can write to: `count` bytes from `start` on, in every period."""
    for at in range(start, plan[fields.COPY] if count else 0, plan[fields.PERIOD]):
        copy_old(source, data, plan, at, count)


@helper
def packed_strip(plan, fresh, threads):
    """Return how many bytes a strip has whose rows follow each other, 0: it is written where it belongs.

    Rows are often a power of two apart, and a cache has few places for a strip of them. In place a packed strip is
    copied twice, which pays if updates are dense.
    """
    field = loop_at(plan[fields.SPLIT])
    size, step = plan[field], plan[field + 1]
    dense = DENSE * plan[fields.PACKED_BYTES] >= plan[fields.COPY] > FEW_ROWS * plan[fields.PERIOD]
    if step >= CACHE_LINE or plan[fields.RUN] != 1 or plan[fields.FILL] or not (fresh or dense):
        return 0
    width = -(-size // count_strips(plan, True, threads)) * step
    room = plan[fields.COPY] // plan[fields.PERIOD] * (width + CACHE_LINE)
    return room if room <= MOST_PACKED else 0


@helper
def pack_plan(share, period, width, start, at):
    """Let a strip's plan write rows of `width` bytes that follow each other, not one every `period` from `start` on."""
    share[fields.DATA_BASE] = (share[fields.DATA_BASE] - start) // period * width + at
    for d in range(share[fields.LOOPS] + share[fields.COORDS]):
        field = loop_at(d) + 1
        if d >= share[fields.LOOPS]:
            field = coord_at(share, d - share[fields.LOOPS]) + 1
        if share[field] >= period:
            share[field] = share[field] // period * width
