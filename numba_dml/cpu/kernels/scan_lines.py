"""Running sums and products along lines; threads share lines, or parts of a line.

Each total of floats waits for the one before. So several chains of totals go on together, of blocks of a line or of
neighbouring lines, into a buffer, from which vectors make the results.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import types

from ..._core.shapes import LINE_FIELDS
from ..._jit.compile import allocating, chosen, helper, kernel
from ..._jit.memory import itemsize, load, seen_as, store
from ..drivers import ASK
from ..primitives.scan import (
    BLOCK,
    BLOCK_SIZE,
    CONTINUES,
    DIMS,
    EXCLUSIVE,
    HEADER,
    INITIAL,
    LINES,
    NO_BLOCKS,
    OUT_STRIDE,
    PARTS,
    POSITION,
    SIZE,
    STRIDE,
    SUPERBLOCKS,
    TOTALS,
    absent,
    begun,
    buffer,
    carried,
    combine,
    computed_type,
    identity,
    keep_line,
    lifted,
    line_bases,
    read,
    task_count,
    write,
)

#: Chains of totals that go on together: an addition takes as many cycles.
CHAINS = 4
#: Places of a chain in the buffer: what was before it, and its totals.
ROW = BLOCK + 8
#: Shares of the lines for each thread, since other processes may hold up one.
SHARES = 4


@helper
def total_chains(x, state, at, far, chains, step, count, sums, begins):
    """Write the totals of chains whose elements are `far` apart; if they do not begin, what was before is combined.

    Where there are less than CHAINS, the last one is done again: that takes no longer.
    """
    second, third, fourth = at + far * min(1, chains - 1), at + far * min(2, chains - 1), at + far * min(3, chains - 1)
    a, b, c, d = read(x, state, at), read(x, state, second), read(x, state, third), read(x, state, fourth)
    if not begins:
        a, b = combine(state, sums[0], a), combine(state, sums[ROW], b)
        c, d = combine(state, sums[2 * ROW], c), combine(state, sums[3 * ROW], d)
    sums[1], sums[ROW + 1], sums[2 * ROW + 1], sums[3 * ROW + 1] = a, b, c, d
    for j in range(1, count):
        a = combine(state, a, read(x, state, at + j * step))
        b = combine(state, b, read(x, state, second + j * step))
        c = combine(state, c, read(x, state, third + j * step))
        d = combine(state, d, read(x, state, fourth + j * step))
        sums[j + 1], sums[ROW + j + 1], sums[2 * ROW + j + 1], sums[3 * ROW + j + 1] = a, b, c, d


@helper
def write_totals(y, state, to, step, count, levels, sums, first):
    """Write results from the totals of a chain, which start at `first`."""
    if step == itemsize(y):
        for j in range(count):
            write(y, to + j * itemsize(y), lifted(state, levels, sums[first + j]))
    else:
        for j in range(count):
            write(y, to + j * step, lifted(state, levels, sums[first + j]))


@helper
def scan_lines(x, y, state, plan, sums, first, lines):
    """Scan neighbouring lines in order, up to CHAINS of them."""
    n, step, out_step, shown = plan[SIZE], plan[STRIDE], plan[OUT_STRIDE], 1 - plan[EXCLUSIVE]
    none, start, begins = absent(state), identity(state), plan[POSITION] == 0
    levels = none, none, none, none
    source, to = line_bases(plan, first)
    last = HEADER + LINE_FIELDS * (plan[DIMS] - 1)
    far, out_far = (plan[last + 1], plan[last + 2]) if lines > 1 else (0, 0)
    for k in range(lines):
        sums[k * ROW] = begun(state, plan, first + k)[0]
        if plan[INITIAL] != 0:
            write(y, to + k * out_far - out_step, start)
    for i in range(0, n, BLOCK):
        count = min(BLOCK, n - i)
        total_chains(x, state, source + i * step, far, lines, step, count, sums, begins and i == 0)
        for k in range(lines):
            row = k * ROW
            write_totals(y, state, to + k * out_far + i * out_step, out_step, count, levels, sums, row + shown)
            sums[row] = sums[row + count]
    for k in range(lines):
        keep_line(state, plan, first + k, sums[k * ROW], levels)


def _has_blocks(state):
    """Tell whether lines of a state go by blocks: those that are not scanned strictly in order."""
    return isinstance(state.dtype, types.Number) and state.dtype != types.float16 and not state.is_float


@helper
def part_of(plan, part):
    """Return where a part of a line starts and ends: with a superblock, or the line."""
    parts, superblocks = plan[PARTS], plan[SUPERBLOCKS]
    start, end = superblocks * part // parts, superblocks * (part + 1) // parts
    return start * (BLOCK * BLOCK), min(end * (BLOCK * BLOCK), plan[SIZE])


@helper
def levels_before(state, plan, line, count):
    """Return the levels behind the first superblocks of a line."""
    none = absent(state)
    levels = none, none, none, none
    for i in range(count):
        total = load(state, (line * plan[TOTALS] + i) * itemsize(state))
        levels = carried(state, levels, total, (i + 1) * BLOCK)
    return levels


@helper
def scan_blocks(x, y, state, plan, sums, line, part):
    """Scan a part of a line, which starts with a superblock."""
    step, out_step, shown = plan[STRIDE], plan[OUT_STRIDE], 1 - plan[EXCLUSIVE]
    i, end = part_of(plan, part)
    levels = levels_before(state, plan, line, i // (BLOCK * BLOCK))
    source, to = line_bases(plan, line)
    before = absent(state)
    if i == 0:
        before = identity(state)
        if plan[INITIAL] != 0:
            write(y, to - out_step, before)
    while i < end:
        count, chains = min(BLOCK, end - i), max(min((end - i) // BLOCK, CHAINS), 1)
        total_chains(x, state, source + i * step, BLOCK * step, chains, step, count, sums, True)
        for k in range(chains):
            sums[k * ROW] = before
            write_totals(y, state, to + i * out_step, out_step, count, levels, sums, k * ROW + shown)
            i += count
            levels = carried(state, levels, sums[k * ROW + count], i // BLOCK)
            before = absent(state)


@helper
def scan_chunk(x, y, state, plan, line):
    """Scan a chunk of a longer line from any position on."""
    step, out_step, exclusive, position = plan[STRIDE], plan[OUT_STRIDE], plan[EXCLUSIVE] != 0, plan[POSITION]
    last, levels = begun(state, plan, line)
    total = absent(state) if position == 0 else last
    source, to = line_bases(plan, line)
    if plan[INITIAL] != 0:
        write(y, to - out_step, last)
    for i in range(plan[SIZE]):
        total = combine(state, total, read(x, state, source + i * step))
        write(y, to + i * out_step, lifted(state, levels, last if exclusive else total))
        if (position + i + 1) % BLOCK == 0:
            levels = carried(state, levels, total, (position + i + 1) // BLOCK)
            total = absent(state)
        last = total
    keep_line(state, plan, line, total, levels)


@helper
def superblock_total(x, state, plan, at):
    """Return the sum of a superblock; CHAINS blocks at once."""
    step, far = plan[STRIDE], BLOCK * plan[STRIDE]
    total = absent(state)
    for _ in range(BLOCK // CHAINS):
        a, b = read(x, state, at), read(x, state, at + far)
        c, d = read(x, state, at + 2 * far), read(x, state, at + 3 * far)
        for j in range(1, BLOCK):
            here = at + j * step
            a = combine(state, a, read(x, state, here))
            b = combine(state, b, read(x, state, here + far))
            c = combine(state, c, read(x, state, here + 2 * far))
            d = combine(state, d, read(x, state, here + 3 * far))
        total = total + a + b + c + d
        at += CHAINS * far
    return total


@chosen
def scan_part(x, y, state, plan, sums, line, part):
    """Scan a part of a line, or a chunk of a longer one, by blocks (inside kernels only)."""

    def scan_blocks_or_chunk(x, y, state, plan, sums, line, part):
        if plan[CONTINUES] != 0:
            scan_chunk(x, y, state, plan, line)
        else:
            scan_blocks(x, y, state, plan, sums, line, part)

    return scan_blocks_or_chunk if _has_blocks(state) else lambda x, y, state, plan, sums, line, part: None


@chosen
def keep_total(x, state, plan, task):
    """Keep the sum of a superblock for the next phase (inside kernels only)."""

    def keep(x, state, plan, task):
        source, _ = line_bases(plan, task // plan[TOTALS])
        at = source + task % plan[TOTALS] * (BLOCK * BLOCK * plan[STRIDE])
        store(state, task * itemsize(state), superblock_total(x, state, plan, at))

    return keep if _has_blocks(state) else lambda x, state, plan, task: None


@helper
def scan_integers(x, y, state, plan, begin, end):
    """Scan some pieces of integers: their additions take a cycle, and their order leaves no trace."""
    step, out_step, exclusive = plan[STRIDE], plan[OUT_STRIDE], plan[EXCLUSIVE] != 0
    for piece in range(begin, end):
        line, part = piece // plan[PARTS], piece % plan[PARTS]
        first, stop = part_of(plan, part)
        total, levels = begun(state, plan, line)
        for i in range(first // (BLOCK * BLOCK)):  # none of products
            total = combine(state, total, load(seen_as(state, np.int64), (line * plan[TOTALS] + i) * 8))
        source, to = line_bases(plan, line)
        if first == 0 and plan[INITIAL] != 0:
            write(y, to - out_step, total)
        for i in range(first, stop):
            last = total
            total = combine(state, total, read(x, state, source + i * step))
            write(y, to + i * out_step, last if exclusive else total)
        keep_line(state, plan, line, total, levels)


@helper
def scan_share(x, y, state, plan, sums, begin, end):
    """Scan some pieces: lines, or parts of them."""
    parts, across = plan[PARTS], np.int64(1)
    if plan[DIMS] > 0:
        across = plan[HEADER + LINE_FIELDS * (plan[DIMS] - 1)]
    piece = begin
    while piece < end:
        lines = np.int64(1)
        if plan[BLOCK_SIZE] == NO_BLOCKS:
            lines = min(CHAINS, end - piece, across - piece % across)
            scan_lines(x, y, state, plan, sums, piece, lines)
        else:
            scan_part(x, y, state, plan, sums, piece // parts, piece % parts)
        piece += lines


@allocating
def scan_floats(x, y, state, plan, begin, end):
    """Scan some pieces with a buffer of their own."""
    scan_share(x, y, state, plan, buffer(state, CHAINS * ROW), begin, end)


@partial(chosen, allocates=True)
def scan_pieces(x, y, state, plan, begin, end):
    """Scan some pieces: lines, or parts of them (inside kernels only)."""
    if computed_type(state) == types.int64:
        return lambda x, y, state, plan, begin, end: scan_integers(x, y, state, plan, begin, end)
    return lambda x, y, state, plan, begin, end: scan_floats(x, y, state, plan, begin, end)


@kernel
def lines_kernel(phase, task, tasks, x, y, state, _, plan):
    """Run a task, or tell how many there are: totals first, if lines are cut into parts, then the results."""
    pieces = plan[LINES] * plan[PARTS]
    last = np.int64(plan[PARTS] > 1)
    if task == ASK:
        if phase < last:
            return task_count(x, y, plan, plan[LINES] * plan[TOTALS])
        shares = min(pieces, SHARES * tasks)
        return np.int64(0) if phase > last else shares if phase > 0 else task_count(x, y, plan, shares)
    if phase < last:
        keep_total(x, state, plan, task)
    else:
        scan_pieces(x, y, state, plan, pieces * task // tasks, pieces * (task + 1) // tasks)
    return np.int64(0)
