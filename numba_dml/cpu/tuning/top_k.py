"""The thresholds that choose how the CPU selects, and the sizes of its buffers.

Figures are in docs/measurements/cpu_top_k.md. A tuple has a number for each width of elements: 1, 2, 4 and 8 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from ..._jit.machine import HAS_WIDE_VECTORS
from ..kernels.top_k_columns import CROWDED
from ..kernels.top_k_short import CUT_SIZE
from ..primitives.keys import LANES
from ..primitives.top_k.selection import SURVEYED

PerWidth = tuple[int, int, int, int]


class Tuning(NamedTuple):
    """The thresholds of top-k on the CPU."""

    # Short lines.
    alone_most: PerWidth  #: elements of the longest line for `select_alone`: a survey of longer ones is faster
    alone_from: PerWidth  #: elements from which `select_alone` beats the network of whole keys; 8 bytes have none
    cut_below: PerWidth  #: elements up to which the network of cut keys beats `select_alone`; 1 and 2 bytes have none
    network_below: PerWidth  #: the same for a k above `SHORT_K`: longer lines go through a buffer
    few_lines: PerWidth  #: so few lines do not pay for the longer compilation of the network
    best_lines: int  #: fewer long lines, k = 1, are cut into pieces instead: all threads get some

    # Columns: neighbouring lines.
    short_columns_below: PerWidth  #: elements up to which the network beats sorted lists, half as many for k = 1
    short_columns_row: int  #: bytes of a row of a tile in the network: shorter rows take up to twice as long
    columns_k: int  #: the largest k for sorted lists of columns of any length
    columns_list: int  #: bytes of a list for a larger k, a byte counted as two: longer ones are slow to insert into
    columns_length: int  #: and bytes of a column per result then: few elements of long columns are inserted
    columns_short: int  #: elements of columns that have sorted lists whatever k is
    columns_long: int  #: elements from which some threads without columns cost more than staging
    columns_across: int  #: neighbours from which lists beat staging: fewer use little of each vector
    columns_across_short: int  #: the same for columns of up to `columns_short` elements
    columns_across_idle: int  #: the same for long columns where some threads have none
    staged_k: int  #: k from which short columns of 8 bytes are staged: then cut keys beat lists
    staged_k_step: int  #: elements of such a column that raise `staged_k` by one
    columns_row: int  #: bytes of a row of a tile: its limits stay in L1, and the hardware prefetches such rows
    crowded: int  #: elements per result up to which nearly every row has something to insert
    crowded_lists: int  #: bytes of keys in a tile's lists then: they stay in L1

    # Buffers.
    buffer: int  #: elements of a line's buffer at least: smaller ones are compacted often, larger ones leave L1
    batch_bytes: int  #: short strided lines are staged in batches of this size (or of 64 lines), to stay in L2
    group_bytes: int  #: per thread, for the buffers of lines that are staged together: a limit for memory

    # Pieces of long lines.
    piece: int  #: elements of the shortest piece: each pays for its own first threshold
    pieces_lines: int  #: lines from which none is cut, or twice as many as threads: there is work for all
    pieces_part: int  #: k is at most this part of a line in pieces: a larger k is sorted faster
    piece_results: int  #: elements of a piece per result at least: shorter ones keep most of what they read
    sampled_part: int  #: a line whose pieces keep more than this part gets a bound from a sample
    sample: int  #: elements of a sample at most: a larger one takes longer to read than it saves
    sample_deviations: int  #: the bound is so much below the k-th of a sample: it fails once in 100,000 calls

    # Sorting.
    sorted_k: int  #: k from which what is above a sampled limit is sorted
    sorted_part: int  #: and k is at least this part of a line: with a smaller part, a survey is faster
    sorted_most_k: PerWidth  #: k from which most of a short line is sorted
    sorted_most_part: int  #: and k is at least this part of it
    sorted_most_from: int  #: and its elements at least
    sorted_step: int  #: elements of a line per element of its sample
    sorted_deviations: int  #: less than `sample_deviations`: a bound that fails costs no second run


#: Vectors of 256 bits, as of AVX2, or less.
NARROW_VECTORS = Tuning(
    alone_most=(20_000, 10_000, 5_000, 3_072),
    alone_from=(800, 600, 200, 0),
    cut_below=(0, 0, *CUT_SIZE),
    network_below=(1_000, 800, *CUT_SIZE),
    few_lines=(7, 7, 7, 3),
    best_lines=16,
    short_columns_below=(900, 500, 400, 0),
    short_columns_row=1 << 10,
    columns_k=16,
    columns_list=128,
    columns_length=512,
    columns_short=256,
    columns_long=1 << 10,
    columns_across=3 * LANES // 8,
    columns_across_short=LANES // 4,
    columns_across_idle=LANES,
    staged_k=12,
    staged_k_step=128,
    columns_row=1 << 13,
    crowded=CROWDED,
    crowded_lists=1 << 14,
    buffer=128,
    batch_bytes=1 << 16,
    group_bytes=1 << 24,
    piece=1 << 16,
    pieces_lines=16,
    pieces_part=64,
    piece_results=8,
    sampled_part=1024,
    sample=1 << 14,
    sample_deviations=4,
    sorted_k=256,
    sorted_part=SURVEYED * LANES,
    sorted_most_k=(192, 192, 192, 96),
    sorted_most_part=10,
    sorted_most_from=200,
    sorted_step=16,
    sorted_deviations=2,
)
#: Vectors of 512 bits, as of AVX-512.
WIDE_VECTORS = NARROW_VECTORS._replace(
    alone_from=(700, 350, 200, 0),
    network_below=(700, 650, *CUT_SIZE),
    few_lines=(7, 7, 7, 7),
)
#: That of this machine.
TUNING = WIDE_VECTORS if HAS_WIDE_VECTORS else NARROW_VECTORS
