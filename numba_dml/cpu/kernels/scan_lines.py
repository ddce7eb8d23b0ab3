"""Running sums and products along lines; threads share lines, or parts of a line.

Each total of floats waits for the one before. So several chains of totals go on together, of blocks of a line or of
neighbouring lines, into a buffer, from which vectors make the results.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import types

from ..._jit.compile import allocating, chosen, helper, kernel
from ..._jit.memory import itemsize, load, seen_as, store
from ..drivers import ASK
from ..primitives import scan
from ..primitives.scan import BLOCK, combine, lifted, read, write

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
    n, step, out_step, shown = plan[scan.SIZE], plan[scan.STRIDE], plan[scan.OUT_STRIDE], 1 - plan[scan.EXCLUSIVE]
    none, start, begins = scan.absent(state), scan.identity(state), plan[scan.POSITION] == 0
    levels = none, none, none, none
    source, to = scan.line_bases(plan, first)
    last = scan.inner_dimension(plan)
    far, out_far = (plan[last + 1], plan[last + 2]) if lines > 1 else (0, 0)
    for k in range(lines):
        sums[k * ROW] = scan.begun(state, plan, first + k)[0]
        if plan[scan.INITIAL] != 0:
            write(y, to + k * out_far - out_step, start)
    for i in range(0, n, BLOCK):
        count = min(BLOCK, n - i)
        total_chains(x, state, source + i * step, far, lines, step, count, sums, begins and i == 0)
        for k in range(lines):
            row = k * ROW
            write_totals(y, state, to + k * out_far + i * out_step, out_step, count, levels, sums, row + shown)
            sums[row] = sums[row + count]
    for k in range(lines):
        scan.keep_line(state, plan, first + k, sums[k * ROW], levels)


def _has_blocks(state):
    """Tell whether lines of a state go by blocks: those that are not scanned strictly in order."""
    return isinstance(state.dtype, types.Number) and state.dtype != types.float16 and not state.is_float


@helper
def part_of(plan, part):
    """Return where a part of a line starts and ends: with a superblock, or the line."""
    parts, superblocks = plan[scan.PARTS], plan[scan.SUPERBLOCKS]
    start, end = superblocks * part // parts, superblocks * (part + 1) // parts
    return start * (BLOCK * BLOCK), min(end * (BLOCK * BLOCK), plan[scan.SIZE])


@helper
def levels_before(state, plan, line, count):
    """Return the levels behind the first superblocks of a line."""
    none = scan.absent(state)
    levels = none, none, none, none
    for i in range(count):
        total = load(state, (line * plan[scan.TOTALS] + i) * itemsize(state))
        levels = scan.carried(state, levels, total, (i + 1) * BLOCK)
    return levels


@helper
def scan_blocks(x, y, state, plan, sums, line, part):
    """Scan a part of a line, which starts with a superblock."""
    step, out_step, shown = plan[scan.STRIDE], plan[scan.OUT_STRIDE], 1 - plan[scan.EXCLUSIVE]
    i, end = part_of(plan, part)
    levels = levels_before(state, plan, line, i // (BLOCK * BLOCK))
    source, to = scan.line_bases(plan, line)
    before = scan.absent(state)
    if i == 0:
        before = scan.identity(state)
        if plan[scan.INITIAL] != 0:
            write(y, to - out_step, before)
    while i < end:
        count, chains = min(BLOCK, end - i), max(min((end - i) // BLOCK, CHAINS), 1)
        total_chains(x, state, source + i * step, BLOCK * step, chains, step, count, sums, True)
        for k in range(chains):
            sums[k * ROW] = before
            write_totals(y, state, to + i * out_step, out_step, count, levels, sums, k * ROW + shown)
            i += count
            levels = scan.carried(state, levels, sums[k * ROW + count], i // BLOCK)
            before = scan.absent(state)


@helper
def scan_chunk(x, y, state, plan, line):
    """Scan a chunk of a longer line from any position on."""
    step, out_step, exclusive = plan[scan.STRIDE], plan[scan.OUT_STRIDE], plan[scan.EXCLUSIVE] != 0
    position = plan[scan.POSITION]
    last, levels = scan.begun(state, plan, line)
    total = scan.absent(state) if position == 0 else last
    source, to = scan.line_bases(plan, line)
    if plan[scan.INITIAL] != 0:
        write(y, to - out_step, last)
    for i in range(plan[scan.SIZE]):
        total = combine(state, total, read(x, state, source + i * step))
        write(y, to + i * out_step, lifted(state, levels, last if exclusive else total))
        if (position + i + 1) % BLOCK == 0:
            levels = scan.carried(state, levels, total, (position + i + 1) // BLOCK)
            total = scan.absent(state)
        last = total
    scan.keep_line(state, plan, line, total, levels)


@helper
def superblock_total(x, state, plan, at):
    """Return the sum of a superblock; CHAINS blocks at once."""
    step, far = plan[scan.STRIDE], BLOCK * plan[scan.STRIDE]
    total = scan.absent(state)
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
        if plan[scan.CONTINUES] != 0:
            scan_chunk(x, y, state, plan, line)
        else:
            scan_blocks(x, y, state, plan, sums, line, part)

    return scan_blocks_or_chunk if _has_blocks(state) else lambda x, y, state, plan, sums, line, part: None


@chosen
def keep_total(x, state, plan, task):
    """Keep the sum of a superblock for the next phase (inside kernels only)."""

    def keep(x, state, plan, task):
        source, _ = scan.line_bases(plan, task // plan[scan.TOTALS])
        at = source + task % plan[scan.TOTALS] * (BLOCK * BLOCK * plan[scan.STRIDE])
        store(state, task * itemsize(state), superblock_total(x, state, plan, at))

    return keep if _has_blocks(state) else lambda x, state, plan, task: None


@helper
def scan_integers(x, y, state, plan, begin, end):
    """Scan some pieces of integers: their additions take a cycle, and their order leaves no trace."""
    step, out_step, exclusive = plan[scan.STRIDE], plan[scan.OUT_STRIDE], plan[scan.EXCLUSIVE] != 0
    for piece in range(begin, end):
        line, part = piece // plan[scan.PARTS], piece % plan[scan.PARTS]
        first, stop = part_of(plan, part)
        total, levels = scan.begun(state, plan, line)
        for i in range(first // (BLOCK * BLOCK)):  # none of products
            total = combine(state, total, load(seen_as(state, np.int64), (line * plan[scan.TOTALS] + i) * 8))
        source, to = scan.line_bases(plan, line)
        if first == 0 and plan[scan.INITIAL] != 0:
            write(y, to - out_step, total)
        for i in range(first, stop):
            last = total
            total = combine(state, total, read(x, state, source + i * step))
            write(y, to + i * out_step, last if exclusive else total)
        scan.keep_line(state, plan, line, total, levels)


@helper
def scan_share(x, y, state, plan, sums, begin, end):
    """Scan some pieces: lines, or parts of them."""
    parts, across = plan[scan.PARTS], np.int64(1)
    if plan[scan.DIMS] > 0:
        across = plan[scan.inner_dimension(plan)]
    piece = begin
    while piece < end:
        lines = np.int64(1)
        if plan[scan.BLOCK_SIZE] == scan.NO_BLOCKS:
            lines = min(CHAINS, end - piece, across - piece % across)
            scan_lines(x, y, state, plan, sums, piece, lines)
        else:
            scan_part(x, y, state, plan, sums, piece // parts, piece % parts)
        piece += lines


@allocating
def scan_floats(x, y, state, plan, begin, end):
    """Scan some pieces with a buffer of their own."""
    scan_share(x, y, state, plan, scan.buffer(state, CHAINS * ROW), begin, end)


@partial(chosen, allocates=True)
def scan_pieces(x, y, state, plan, begin, end):
    """Scan some pieces: lines, or parts of them (inside kernels only)."""
    if scan.computed_type(state) == types.int64:
        return lambda x, y, state, plan, begin, end: scan_integers(x, y, state, plan, begin, end)
    return lambda x, y, state, plan, begin, end: scan_floats(x, y, state, plan, begin, end)


@kernel
def lines_kernel(phase, task, tasks, x, y, state, _, plan):
    """Run a task, or tell how many there are: totals first, if lines are cut into parts, then the results."""
    pieces = plan[scan.LINES] * plan[scan.PARTS]
    last = np.int64(plan[scan.PARTS] > 1)
    if task == ASK:
        if phase < last:
            return scan.task_count(x, y, plan, plan[scan.LINES] * plan[scan.TOTALS])
        shares = min(pieces, SHARES * tasks)
        return np.int64(0) if phase > last else shares if phase > 0 else scan.task_count(x, y, plan, shares)
    if phase < last:
        keep_total(x, state, plan, task)
    else:
        scan_pieces(x, y, state, plan, pieces * task // tasks, pieces * (task + 1) // tasks)
    return np.int64(0)
