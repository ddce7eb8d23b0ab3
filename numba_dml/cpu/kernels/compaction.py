"""The coordinates of elements that are not zero, in two kernels: what is found first says how large the result is."""

from __future__ import annotations

import numpy as np

from ..._jit.compile import helper, kernel
from ..._jit.memory import load, seen_as, store
from ..drivers import ASK
from ..primitives import compaction as fields
from ..primitives.compaction import BLOCK, CHUNK, LIST_BYTES, WORD, list_block, list_few, mark_chunk, write_block

#: Shares of the chunks for each thread, since other processes may hold up one.
SHARES = 4
#: If fewer than one of FEW elements is not zero, words of bits have two at most, as a rule.
FEW = 32


@helper
def places(plan):
    """Return how many chunks there are, and the bytes of the scratch memory at which bits and lists start."""
    chunks = -(-plan[fields.SIZE] // CHUNK)
    bits = 8 * (chunks + 1)
    return chunks, bits, bits + -(-plan[fields.SIZE] // WORD) * 8


@kernel
def mark_kernel(phase, task, tasks, x, scratch, _, __, plan):
    """Write a bit for each element and count them, then replace the count of each chunk by that of those before it."""
    chunks, bits, _ = places(plan)
    if task == ASK:
        return np.int64(0) if phase > 1 else np.int64(1) if phase == 1 else min(chunks, SHARES * tasks)
    counts = seen_as(scratch, np.int64)
    if phase == 0:
        for chunk in range(chunks * task // tasks, chunks * (task + 1) // tasks):
            store(counts, 8 * chunk, mark_chunk(x, scratch, plan, chunk, bits))
        return np.int64(0)
    total = np.int64(0)
    for chunk in range(chunks + 1):
        count = load(counts, 8 * chunk) if chunk < chunks else np.int64(0)
        store(counts, 8 * chunk, total)
        total += count
    return np.int64(0)


@kernel
def write_kernel(phase, task, tasks, scratch, y, table, _, plan):
    """Write the coordinates of the bits that are 1, as far as there is room."""
    chunks, bits, lists = places(plan)
    if task == ASK:
        return np.int64(0) if phase > 0 else min(plan[fields.LISTS], SHARES * tasks)
    lists += task * LIST_BYTES
    for chunk in range(chunks * task // tasks, chunks * (task + 1) // tasks):
        counts = seen_as(scratch, np.int64)
        row = load(counts, 8 * chunk)
        few = load(counts, 8 * chunk + 8) - row < CHUNK // FEW
        end = min((chunk + 1) * CHUNK, plan[fields.SIZE])
        for start in range(chunk * CHUNK, end, BLOCK):
            at, count = bits + start // 8, min(BLOCK, end - start)
            if few:
                found = list_few(scratch, at, count, scratch, lists)
            else:
                found = list_block(scratch, at, count, table, scratch, lists)
            write_block(y, plan, row, scratch, lists, min(found, plan[fields.CAPACITY] - row), start // BLOCK)
            row += found
    return np.int64(0)
