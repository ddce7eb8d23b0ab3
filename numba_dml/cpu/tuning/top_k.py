"""The thresholds that choose how the CPU selects, and the sizes of its buffers.

Figures are in docs/measurements/cpu_top_k.md. A tuple has a number for each width of elements: 1, 2, 4 and 8 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from ..._jit.machine import HAS_WIDE_VECTORS
from ..kernels.top_k_columns import CROWDED
from ..primitives.keys import LANES
from ..primitives.top_k.selection import SURVEYED

PerWidth = tuple[int, int, int, int]


class Tuning(NamedTuple):
    """The thresholds of top-k on the CPU."""

    # Short lines.
    alone_most: int  #: elements of the longest line that jitted code hands over without a plan
    list_from: PerWidth  #: elements from which a sorted list in registers beats the network, k up to 16
    list_most: PerWidth  #: and up to which it beats a buffer, though it reads a line twice
    network_below: PerWidth  #: elements up to which the network beats a buffer
    network_below_tiny: int  #: the same for fewer lines than the network takes

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

    # A large k.
    sorted_k: int  #: k from which a sample tells a bound
    sorted_part: int  #: and k is at least this part of a line: with a smaller part, a survey is faster
    sorted_step: int  #: elements of a line per element of its sample
    sorted_deviations: int  #: less than `sample_deviations`: a bound that fails costs one line more


#: Vectors of 256 bits, as of AVX2, or less.
NARROW_VECTORS = Tuning(
    alone_most=1_000,
    list_from=(350, 400, 400, 100),
    list_most=(1 << 15, 5_000, 5_000, 3_500),
    network_below=(1_000, 800, 500, 450),
    network_below_tiny=128,
    short_columns_below=(900, 500, 400, 200),
    short_columns_row=1 << 10,
    columns_k=16,
    columns_list=128,
    columns_length=512,
    columns_short=256,
    columns_long=1 << 10,
    columns_across=3 * LANES // 8,
    columns_across_short=LANES // 4,
    columns_across_idle=LANES,
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
    sorted_step=16,
    sorted_deviations=2,
)
#: Vectors of 512 bits, as of AVX-512.
WIDE_VECTORS = NARROW_VECTORS._replace(network_below=(700, 650, 500, 450))
#: That of this machine.
TUNING = WIDE_VECTORS if HAS_WIDE_VECTORS else NARROW_VECTORS
