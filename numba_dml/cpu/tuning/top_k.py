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
    alone_most: int = 1_000  #: elements of the longest line that jitted code hands over without a plan
    #: Elements from which a sorted list in registers beats the network, k up to 16.
    list_from: PerWidth = (350, 400, 400, 100)
    #: Elements up to which it beats a buffer, though it reads a line twice.
    list_most: PerWidth = (1 << 15, 5_000, 5_000, 3_500)
    network_below: PerWidth = (1_000, 800, 500, 450)  #: elements up to which the network beats a buffer
    network_below_tiny: int = 128  #: the same for fewer lines than the network takes

    # Columns: neighbouring lines.
    #: Elements up to which the network beats sorted lists, half as many for k = 1.
    short_columns_below: PerWidth = (900, 500, 400, 200)
    short_columns_row: int = 1 << 10  #: bytes of a row of a tile in the network: shorter rows take up to twice as long
    columns_k: int = 16  #: the largest k for sorted lists of columns of any length
    #: Bytes of a list for a larger k, a byte counted as two: longer ones are slow to insert into.
    columns_list: int = 128
    columns_length: int = 512  #: and bytes of a column per result then: few elements of long columns are inserted
    columns_short: int = 256  #: elements of columns that have sorted lists whatever k is
    columns_long: int = 1 << 10  #: elements from which some threads without columns cost more than staging
    columns_across: int = 3 * LANES // 8  #: neighbours from which lists beat staging: fewer use little of each vector
    columns_across_short: int = LANES // 4  #: the same for columns of up to `columns_short` elements
    columns_across_idle: int = LANES  #: the same for long columns where some threads have none
    #: Bytes of a row of a tile: its limits stay in L1, and the hardware prefetches such rows.
    columns_row: int = 1 << 13
    crowded: int = CROWDED  #: elements per result up to which nearly every row has something to insert
    crowded_lists: int = 1 << 14  #: bytes of keys in a tile's lists then: they stay in L1

    # Buffers.
    buffer: int = 128  #: elements of a line's buffer at least: smaller ones are compacted often, larger ones leave L1
    #: Short strided lines are staged in batches of this size (or of 64 lines), to stay in L2.
    batch_bytes: int = 1 << 16
    group_bytes: int = 1 << 24  #: per thread, for the buffers of lines that are staged together: a limit for memory

    # Pieces of long lines.
    piece: int = 1 << 16  #: elements of the shortest piece: each pays for its own first threshold
    pieces_lines: int = 16  #: lines from which none is cut, or twice as many as threads: there is work for all
    pieces_part: int = 64  #: k is at most this part of a line in pieces: a larger k is sorted faster
    piece_results: int = 8  #: elements of a piece per result at least: shorter ones keep most of what they read
    sampled_part: int = 1024  #: a line whose pieces keep more than this part gets a bound from a sample
    sample: int = 1 << 14  #: elements of a sample at most: a larger one takes longer to read than it saves
    sample_deviations: int = 4  #: the bound is so much below the k-th of a sample: it fails once in 100,000 calls

    # A large k.
    sorted_k: int = 256  #: k from which a sample tells a bound
    #: And k is at least this part of a line: with a smaller part, a survey is faster.
    sorted_part: int = SURVEYED * LANES
    sorted_step: int = 16  #: elements of a line per element of its sample
    sorted_deviations: int = 2  #: less than `sample_deviations`: a bound that fails costs one line more


#: Vectors of 256 bits, as of AVX2, or less.
NARROW_VECTORS = Tuning()
#: Vectors of 512 bits, as of AVX-512.
WIDE_VECTORS = NARROW_VECTORS._replace(network_below=(700, 650, 500, 450))
#: That of this machine.
TUNING = WIDE_VECTORS if HAS_WIDE_VECTORS else NARROW_VECTORS
