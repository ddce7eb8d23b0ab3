"""The call of a top-k: how a lowering becomes a plan, and which kernel runs it."""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import numba
import numpy as np

from ..._core.descriptor import Descriptor
from ..._core.lowering import Select, TopK, is_float, rule_numbers
from ..._core.operands import SHARED_OUTPUTS, check_out
from ..._core.pool import allocator
from ..._core.tensor import extent_of, product
from ..._jit.machine import CACHE_LINE, HAS_WIDE_VECTORS
from ..._jit.memory import ANY, SIGNED, reference_to
from ..kernels import top_k_columns, top_k_short
from ..kernels.top_k_best import best_kernel
from ..kernels.top_k_columns import columns_kernel, short_columns_kernel
from ..kernels.top_k_rows import pieces_kernel, rows_kernel
from ..kernels.top_k_short import short_kernel
from ..kernels.top_k_singly import singly_kernel
from ..kernels.top_k_sorted import sorted_kernel
from ..launch import launcher
from ..primitives.keys import LANES, SPARE
from ..primitives.top_k import plan as _plan
from ..primitives.top_k import plan as top_k_plan
from ..primitives.top_k import selection
from ..primitives.top_k.network import NETWORK_LINES
from ..primitives.top_k.network_cut import CUT_BLOCKS
from ..primitives.top_k.short_lines import SHORT_K

#: Up to so many elements or bytes, lines are selected from by a network, or by the maxima of groups (see
#: `ALONE_FROM`), if k allows it. This and a survey (see `feed`) took, in µs for k 8, before the former took less:
#: f8 3000 1.15 and 1.29, f4 5000 0.81 and 0.83 (three distinct values 0.47 and 0.81), i4 5000 0.61 and 0.74, u1 16000
#: 0.36 and 0.71; but f4 6000 1.38 and 1.02, f2 12000 1.26 and 1.13.
ALONE_SIZE, ALONE_MOST_BYTES = 3072, 20_000
#: Lines of so many elements, of one, two, four and eight bytes, do not go through the network by whole keys (for eight
#: bytes there are none), but are selected from one by one, where keys are not cut (see `CUT_SIZE`). One thread of an
#: AMD EPYC without AVX-512 (and of an Intel Xeon with it), ns a line, through the network and one by one: k 2 and 8
#: of f4 128 89 and 110, 135 and 159 (78 and 82, 112 and 125), 256 166 and 153, 248 and 211 (153 and 118, 214 and 173),
#: k 16 413 and 395 (268 and 266); f2 256 81 and 123, 116 and 190 (93 and 117, 153 and 177), 512 148 and 161, 198 and
#: 276 (176 and 148, 292 and 249); u1 512 100 and 110, 157 and 199 (100 and 97, 141 and 183). Since lines are asked for
#: piece by piece, on the EPYC, k 8: f2 600 231 and 342, 800 296 and 399, u1 700 206 and 262, 1000 284 and 320, and on
#: the Xeon f2 256 151 and 172, 512 280 and 211, u1 512 152 and 166, 800 228 and 199.
ALONE_FROM = (700, 350, 200, 0) if HAS_WIDE_VECTORS else (800, 600, 200, 0)
#: And for a larger k, lines of fewer elements than these go through the network, if there are as many as it takes. One
#: thread of an Intel Xeon, ns a line, as rows and so, k 17, 32 and 64: f4 64 513 and 143, 665 and 191, 623 and 321, 256
#: 532 and 474, 774 and 603, 1595 and 1029, 400 604 and 745, 792 and 888, 2017 and 1559; f2 128 603 and 152, 681 and
#: 206, 832 and 332, 400 567 and 427, 681 and 539, 1538 and 844; u1 128 674 and 178, 654 and 158, 1469 and 475, 600 523
#: and 485, 616 and 579, 1967 and 1620; i8 64 570 and 217, 710 and 280, 937 and 641; k 128 of f4 128 1572 and 1085, 300
#: 2787 and 2242. Since then, on an AMD EPYC, k 32: f4 390 1400 and 410, f2 700 1032 and 586, 1000 1096 and 800, u1 800
#: 767 and 562, 1200 869 and 801, f8 64 626 and 290, 100 (k 50) 2586 and 743, 400 2390 and 1320 (of three distinct
#: values, k 90, 1600 and 2600), and on the Xeon f2 400 708 and 535, 700 849 and 888, u1 600 611 and 591, 1000 702 and
#: 944, f4 400 824 and 401, 600 883 and 620, f8 400 1316 and 840, 600 1413 and 1243.
NETWORK_SIZE = (*((700, 650) if HAS_WIDE_VECTORS else (1000, 800)), *top_k_short.CUT_SIZE)
#: So few lines, of one, two, four and eight bytes, never go through the network: what it needs is compiled when there
#: are more. A first call with a line of eight took 8.9 to 10.4 s on a busy AMD EPYC, where one of a gather took 4.1 to
#: 6.6, and takes 2.9 to 4.5.
FEW_LINES = tuple(min(NETWORK_LINES, CUT_BLOCKS.get(width, (NETWORK_LINES,))[0]) - 1 for width in (8, 16, 32, 64))
#: Columns of fewer elements than these, of one, two and four bytes (half as many for k 1), go through the network, in
#: tiles of so many bytes a row. One thread of an Intel Xeon, ns a column, as lists and so, k 2, 8 and 32 of f4 64 49
#: and 24, 118 and 46, 319 and 170, 250 89 and 77, 291 and 144, 1114 and 496, 500 136 and 151, 298 and 262, 1345 and
#: 918; f2 250 72 and 59, 228 and 116, 832 and 323, 900 200 and 202, 382 and 377, 1783 and 996; u1 250 88 and 33, 299
#: and 103, 948 and 271, 900 124 and 108, 298 and 209, 1077 and 813; k 1 of f4 64 39 and 17, 250 68 and 62, 500 116 and
#: 122. Rows of 64 bytes take up to twice as long as those of 256 to 4096.
COLUMN_SIZE = (900, 500, 400)
SHORT_COLUMN_ROW = 1024
#: Columns are kept as sorted lists of so many elements; and of so many bytes, single ones counted as two, if a column
#: has so many bytes for each. Two threads, 3M to 5M random elements, in ms, in columns and staged, of 1000, 4096 and
#: 50,000 a column: f4 k 16 1.5 and 2.3, 1.1 and 2.4, 0.9 and 3.3, k 32 3.2 and 2.7, 2.0 and 2.8, 1.1 and 3.4; f2 k 32
#: 2.9 and 2.0, 2.4 and 2.0, 0.9 and 1.7; u1 k 16 1.8 and 1.2, 0.9 and 1.6, 0.5 and 1.1, k 64 8.9 and 2.0, 8.1 and 2.1,
#: 1.2 and 1.2.
COLUMN_K = 16
COLUMN_LIST = 128
#: But those of eight bytes that are short enough for cut keys are staged, if k is so much or more, and one more for
#: each 128 elements. One thread, ns a column, as lists and staged: of an AMD EPYC, k 16, 64 590 and 295, 300 2040 and
#: 1248; of an Intel Xeon in a cache, k 8 and 16, 64 168 and 134, 330 and 164, 128 256 and 242, 551 and 294, 300, k 12
#: and 16, 625 and 615, 886 and 619; from memory 176 and 211, 347 and 245, 261 and 431, 559 and 488, 629 and 973, 898
#: and 1000.
FEW_OF_SHORT = 12
COLUMN_BYTES = 512
#: Columns of up to so many elements are, whatever k is. Two threads, 3M elements, in ns per element of a thread, in
#: columns and staged, n and k: f4 40 and 40 4.9 and 29, 100 and 100 9.0 and 20, 255 and 255 20 and 23, 400 and 64 6.8
#: and 8.3, 400 and 128 15 and 9.5; f8 100 and 100 16 and 28, 255 and 255 39 and 38, 400 and 64 12 and 10; f2 255 and
#: 255 15 and 19, u1 13 and 16.
SHORT_COLUMNS = 256
#: Fewer neighbours than this are staged, if columns are longer, and fewer than a mask if they have so many elements and
#: not all threads would have one. Two threads, k=5, in ms, columns and staged: 50 matrices of (300, 16) f4 0.153 and
#: 0.153, (300, 24) 0.181 and 0.230; 20 of (1000, 16) 0.140 and 0.105, (1000, 24) 0.159 and 0.160, (1000, 32) u1 0.131
#: and 0.154; 2000 of (10, 32), k=3 0.71 and 4.5; one of (200, 40), k=3 0.008 and 0.029, (500, 40) 0.014 and 0.022,
#: (1000, 40) 0.025 and 0.022, (5000, 40), k=10 0.093 and 0.054, (5000, 64) 0.054 and 0.135.
SHORT_ACROSS, ACROSS, LONG_COLUMNS = LANES // 4, 3 * LANES // 8, 1 << 10
#: Bytes of a row of a tile of columns, at most: then its limits stay in L1, and rows are so long that the hardware
#: finds them. Two threads, (4096, 4096) f4 k 8 with rows of 2 KB, 4 KB and 8 KB, in ms: 5.6, 4.8, 3.6.
COLUMN_ROW = 8192
#: And bytes of the keys in its lists, if most rows have something to insert: they stay in L1 too. With 4, 16 and 32 KB,
#: (64, 1000, 200) f4 k 32 takes 22, 17 and 18 ms.
CROWDED_LISTS = 1 << 14
#: Elements that a buffer holds at least, for rows. One thread, 1000 rows of 5000 f4, k 8, random and all equal, in ms:
#: 2.2 and 6.0 with 512, 2.0 and 4.4 with 256, 2.0 and 3.0 with 128; k 64 (256 elements then) 5.0 and 4.8, with 512 6.4.
BUFFER = 128
#: Short lines that are not contiguous are staged in batches of so many bytes, or of 64 lines.
BATCH_BYTES = 1 << 16
#: What the buffers of lines that are staged together may take, in bytes and per thread.
GROUP_BYTES = 1 << 24
#: The shortest piece that a long line is cut into: a piece pays for its own warm-up of the threshold. So there are few:
#: two for each thread, and more only until all threads have as many, or eight. Two threads, 16 pieces of a line and 4,
#: in µs: (1, 1M) f4 k 10 43 and 35, k 100 66 and 39; (1, 4M) k 50 146 and 128; 4 pieces and one of (4, 1M) k 100 201
#: and 170, 6 and 2 of (3, 1M) k 10 103 and 93.
PIECE_SIZE = 1 << 16
#: How many threads there can be.
THREADS = numba.config.NUMBA_NUM_THREADS
#: A line whose pieces would keep more than this part of it gets one bound for all of them from a sample. One thread,
#: f4, with and without: (1, 1M) k 10 (15 pieces) 0.124 and 0.084 ms, k 100 0.133 and 0.124; (10, 1M) k 100 (2 pieces)
#: 1.6 and 1.1; (1, 10M) k 100 1.3 and 1.1, k 1000 1.4 and 1.8, k 10,000 1.9 and 15. Single bytes always do: often all
#: of the best have the highest key, and a bound that is the highest key ends the scan. (1, 10M) u1 k 100: 0.03, 0.19.
SAMPLED_PART = 1024
#: A sample is 2 sqrt(n) + k / 4 elements, and no more than this: a larger one takes longer to read, and lets fewer
#: elements through. With n / 256, this and n / 1024, (1, 131072) f4 k 1000 takes 0.100, 0.086 and 0.117 ms, (1, 1M)
#: k 100 0.106, 0.101 and 0.150, (1, 10M) k 100,000 8.8, 8.8 and 11.3, (10, 1M) k 100 1.66, 1.40 and 1.41.
SAMPLE = 1 << 14
#: The bound is so many standard deviations below where k elements are expected above it: if they are fewer, the call
#: starts again, in 1 of 100,000. Four deviations more of a sample of 16384 are 1.0 times k too many for k = n / 1000.
SAMPLE_DEVIATIONS = 4
#: From this k on, and this part of a line, its elements are collected above a sampled limit and sorted. One thread,
#: f4, this way and as rows, in ms: (2000, 5000) k 128 19 and 17, k 256 23 and 28; (500, 20000) k 256 9.8 and 10.9, k
#: 5000 39 and 151. Two threads, for n / k of 300, 200, 130, 100 and 70: (16, 500k) f4 5.2 and 1.8, 2.9 and 2.0, 3.6 and
#: 2.8, 3.9 and 4.4, 4.2 and 6.1, i8 5.3 and 3.3, 5.9 and 4.2, 6.9 and 5.6, 7.3 and 8.0, 8.7 and 9.4. A line with a
#: smaller part is surveyed.
SORTED_K = 256
SORTED_PART = selection.SURVEYED * LANES
#: And from smaller ones on, the second for 8 bytes, if it is a larger part of a line that is not too short. Two
#: threads, ns per element as rows and so, n and k: f4 300 and 250 7.4 and 5.6, 500 and 250 4.2 and 3.5, 1000 and 150
#: 1.8 and 1.5, 300 and 150 3.5 and 4.2; i8 500 and 100 4.1 and 3.7, 250 9.3 and 4.4, 1000 and 100 2.8 and 2.4, 2000 and
#: 150 1.6 and 2.2, f8 300 and 100 4.0 and 4.1, 100 and 100 7.2 and 8.5.
SORTED_FEW, SORTED_LONG, SORTED_FEW_PART, SORTED_SIZE = 192, 96, 10, 200
#: Lines are only cut into pieces if k is at most this part. In pieces, and sorted: (10, 1M) k 10,000 8.0 and 7.8,
#: k 40,000 20 and 13; (1, 10M) k 100,000 8.7 and 7, k 300,000 17 and 13.
PIECES_PART = 64
#: A sample of a line that is sorted may be larger, since k is: one of 64 takes a quarter longer than one of 16 in
#: (500, 20000), k 64 to 1250, one of 16 a tenth longer in (10, 1M), k 40,000. Its margin may be smaller, since a bound
#: that fails costs no second run: the k-th best is searched digit by digit, in 1 to 2 ns per element and round.
SORTED_STEP = 16
SORTED_DEVIATIONS = 2


class Choice(NamedTuple):
    """How lines are selected from."""

    method: int
    capacity: int  #: elements of the buffer of a line
    group: int  #: lines that are staged together, 0: they are contiguous
    tile: int  #: lines that are looked at together: columns, or lines in the network by whole keys
    pieces: int  #: that a line is cut into
    sample: int  #: elements that are looked at for a bound
    rank: int  #: how many of them shall lie above it


def alone_size(itemsize: int) -> int:
    """Return the size of the longest line that is selected from by itself."""
    return max(ALONE_SIZE, ALONE_MOST_BYTES // itemsize)


def choose(
    n: int,
    stride: int,
    k: int,
    itemsize: int,
    count: int,
    across: int,
    step: int,
    cut: bool = True,
    single: bool = False,
) -> Choice:
    """Choose how to select k of n elements that are `stride` bytes apart from each of `count` lines.

    The lines that lie closest are `across` many, `step` bytes apart. They can be `cut` into pieces, but for jitted
    callers, which have one thread; Numba compiles this for them. A `single` line of theirs that is short and contiguous
    has a kernel of its own (`top_k_singly.alone_kernel`), and another one is not worth the kernel of many, a quarter of
    what a first call compiles: a strided line takes as long as rows. All of their short lines have one kernel.
    """
    buffer = -(-min(max(4 * k, BUFFER), max(n, k)) // LANES) * LANES + LANES + SPARE
    group = 0
    sorts = k >= (SORTED_FEW if itemsize < 8 else SORTED_LONG) and SORTED_FEW_PART * k >= n >= SORTED_SIZE
    if n > 1 and stride != itemsize:
        short = itemsize < 8 and NETWORK_LINES <= n < COLUMN_SIZE[itemsize // 2] // (2 if k == 1 else 1)
        if step == itemsize and across >= NETWORK_LINES and short and not sorts:
            tile = _column_tile(across, count, max(SHORT_COLUMN_ROW // itemsize, NETWORK_LINES), NETWORK_LINES)
            return Choice(top_k_plan.SHORT_COLUMNS, 0, 0, tile, 1, 0, 0)
        busy = not cut or count // across * -(-across // LANES) >= THREADS  # all threads have columns
        few = k <= COLUMN_K or (k * max(itemsize, 2) <= COLUMN_LIST and n * itemsize >= COLUMN_BYTES * k)
        few = few or (busy and n <= SHORT_COLUMNS)
        least = SHORT_ACROSS if n <= SHORT_COLUMNS else ACROSS if busy or n < LONG_COLUMNS else LANES
        if itemsize == 8 and NETWORK_LINES <= n < top_k_short.CUT_SIZE[1] and k >= FEW_OF_SHORT + n // 128:
            few = False
        if step == itemsize and few and n < 1 << 31 and across >= least:
            row = COLUMN_ROW if n > top_k_columns.CROWDED * k else min(CROWDED_LISTS // k, COLUMN_ROW)
            tile = _column_tile(across, count, max(row // itemsize, LANES), LANES)
            return Choice(top_k_plan.COLUMNS, buffer, 0, tile, 1, 0, 0)
        group = max(1, min(across, CACHE_LINE // itemsize))
    batch = max(BATCH_BYTES // (n * itemsize), LANES) if group else 0
    if k == 1 and n >= LANES and (count >= 16 or n < 2 * PIECE_SIZE) and (not group or n <= alone_size(itemsize)):
        return Choice(top_k_plan.BEST, k, batch, 0, 1, 0, 0)
    if k <= SHORT_K and n <= alone_size(itemsize) and not single:
        together = NETWORK_LINES if n < ALONE_FROM[min(itemsize // 2, 3)] else 1
        # Neither whole keys nor cut ones go through the network.
        too_long = together == 1 and (itemsize < 4 or n >= top_k_short.CUT_SIZE[itemsize // 8])
        if cut and (too_long or count <= FEW_LINES[min(itemsize // 2, 3)]):
            return Choice(top_k_plan.SINGLY, k, batch, 0, 1, 0, 0)
        return Choice(top_k_plan.SHORT, k, batch, together, 1, 0, 0)
    if not sorts and count >= NETWORK_LINES and n < NETWORK_SIZE[min(itemsize // 2, 3)]:
        return Choice(top_k_plan.SHORT, k, batch, NETWORK_LINES if itemsize < 8 else 1, 1, 0, 0)
    if cut and count < max(16, 2 * THREADS) and n >= 2 * PIECE_SIZE and PIECES_PART * k <= n:
        pieces = 1
        while count * pieces < 2 * THREADS or (count * pieces % THREADS > 0 and count * pieces < 8 * THREADS):
            pieces += 1
        pieces = min(pieces, n // max(PIECE_SIZE, 8 * k))
        sampled = itemsize == 1 or SAMPLED_PART * pieces * k > n
        sample = min(SAMPLE, 2 * int(sqrt(n)) + k // 4) if sampled else 0
        sample, rank = _rank(sample, k, n, SAMPLE_DEVIATIONS)
        return Choice(top_k_plan.IN_PIECES, buffer, _group(group, buffer * (itemsize + 8)), 0, pieces, sample, rank)
    if (sorts or (k >= SORTED_K and SORTED_PART * k >= n)) and n < 1 << 31:
        sample = min(SAMPLE, n // SORTED_STEP) if k < n else 0
        sample, rank = _rank(sample, k, n, SORTED_DEVIATIONS)
        return Choice(top_k_plan.SORTED, buffer, _group(group, n * itemsize), 0, 1, sample, rank)
    return Choice(top_k_plan.ROWS, buffer, _group(group, buffer * (itemsize + 8)), 0, 1, 0, 0)


def _column_tile(across: int, count: int, most: int, unit: int) -> int:
    """Return how many neighbouring lines are a tile: `most`, or fewer units, so that all threads have as many tiles."""
    tiles = -(-across // most)
    while count // across * tiles % THREADS > 0 and across > tiles * unit:
        tiles += 1
    return -(-across // (tiles * unit)) * unit


def _group(group: int, line_bytes: int) -> int:
    """Return how many lines are staged together, of `group` at most, if each needs so many bytes."""
    return max(1, min(group, GROUP_BYTES // line_bytes)) if group else 0


def _rank(sample: int, k: int, n: int, deviations: int) -> tuple[int, int]:
    """Return the size of a sample of n elements, and how many of it shall lie above a bound that k elements reach."""
    sample -= sample % LANES
    expected = sample * k / n
    return sample, int(expected + deviations * sqrt(expected)) + deviations


#: `TopK` from a pair; NumPy's allocation takes no longer than a named tuple's own constructor.
_result = partial(tuple.__new__, TopK)


class TopKCall:
    """A top-k of one layout."""

    function = "top_k"

    def __init__(self, descriptor: Descriptor, lowering: Select, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        self.shape = output_shapes[0]
        values, indices = [getattr(descriptor, name) for name in descriptor.output_fields]
        self.dtype, self.index_dtype = values.dtype, indices.dtype
        self.empty, self.empty_indices = allocator(self.shape, self.dtype), allocator(self.shape, self.index_dtype)
        low = lowering
        size = values.itemsize
        # Lines are independent: those that lie closest come last.
        lines = sorted(low.lines, key=lambda line: -abs(line[1]))
        count = product([line[0] for line in lines])
        self.work = self.effort = count * low.size * size
        self.idle = low.k == 0 or count == 0
        if self.idle:
            self.kernel = "top_k nothing to select"
            return
        across, step, _ = lines[-1] if lines else (1, 0, 0)
        choice = choose(low.size, low.stride, low.k, size, count, across, step)
        plan = [0] * top_k_plan.HEADER  # it takes numbers in a tenth of the time that an array does
        plan[top_k_plan.LINES] = count
        plan[top_k_plan.DIMS] = len(lines)
        plan[top_k_plan.SIZE] = low.size
        plan[top_k_plan.STRIDE] = low.stride
        plan[top_k_plan.OUT_STRIDE] = low.output_stride
        plan[top_k_plan.K] = low.k
        plan[top_k_plan.INDEX_SIZE] = low.index_itemsize
        plan[top_k_plan.RULE : top_k_plan.RULE + 3] = rule_numbers(low.data_type, low.largest, low.nan_first)
        plan[top_k_plan.CAPACITY] = choice.capacity
        plan[top_k_plan.PIECES] = choice.pieces
        plan[top_k_plan.GROUP] = choice.group
        plan[top_k_plan.TILE] = choice.tile
        plan[top_k_plan.SAMPLE] = choice.sample
        plan[top_k_plan.SAMPLE_RANK] = choice.rank
        dims = [(n, s) for n, s, _ in lines] + [(low.size, low.stride)]
        plan[top_k_plan.LOW], high = extent_of(dims)
        plan[top_k_plan.HIGH] = high + size
        plan[top_k_plan.VALUE_BYTES] = count * low.k * size
        plan[top_k_plan.INDEX_BYTES] = count * low.k * low.index_itemsize
        for line in lines:
            plan += line
        self.plan = np.fromiter(plan, np.int64, len(plan))
        # What the phases of the pieces hand on; see `top_k_rows.piece_buffers`.
        kept = choice.pieces * (choice.capacity * (size + 8) + 8) + size
        self.scratch_bytes = count * kept if choice.method == top_k_plan.IN_PIECES else 0
        floats = is_float(low.data_type)
        x = reference_to(SIGNED[size], floats)
        near = min([abs(stride) for n, stride in dims if n > 1], default=size)
        apart = max(min(near, CACHE_LINE) // size, 1)
        self.launch, driver = launcher(KERNELS[choice.method], (x, x, ANY, ANY), self.effort, apart=apart)
        name = ("short", "rows", "columns", "best", "pieces", "sorted", "short columns", "singly")[choice.method]
        self.kernel = f"top_k {name} {8 * size}-bit {'float' if floats else 'integer'} {driver}"

    def __call__(self, a: Any, out: Any) -> TopK:
        if out is None:
            values, indices = self.empty(self.shape, self.dtype), self.empty_indices(self.shape, self.index_dtype)
            result = _result((values, indices))
        else:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(f"top_k: out: found {type(out).__name__}, expected a pair (values, indices)")
            result = _result(out)
            values, indices = out
            contiguous = check_out("top_k", "out[0]", values, self.shape, self.dtype)
            if not check_out("top_k", "out[1]", indices, self.shape, self.index_dtype) or not contiguous:
                return self._through_copies(a, result)
        if self.idle:
            return result
        scratch = np.empty(self.scratch_bytes, np.uint8) if self.scratch_bytes else a
        status = self.launch(a, values, indices, scratch, self.plan)
        if status == _plan.TOO_FEW:
            plan = self.plan.copy()
            plan[top_k_plan.SAMPLE] = 0
            status = self.launch(a, values, indices, scratch, plan)
        return self._through_copies(a, result) if status else result

    def _through_copies(self, a: Any, out: TopK) -> TopK:
        """Write to an output that is strided, or lies in the input."""
        if np.shares_memory(out.values, out.indices):
            raise ValueError(SHARED_OUTPUTS)
        values, indices = self(a, None)
        out.values[...] = values
        out.indices[...] = indices
        return out


#: A kernel for each way to the elements, by method: one for all of them took 12 s to compile, these take 0.8 to 5.
KERNELS = (
    short_kernel,
    rows_kernel,
    columns_kernel,
    best_kernel,
    pieces_kernel,
    sorted_kernel,
    short_columns_kernel,
    singly_kernel,
)
