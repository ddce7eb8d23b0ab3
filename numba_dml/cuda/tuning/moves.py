"""Thresholds of gathers and scatters. The figures are in docs/measurements/cudamoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..driver.numba import BLOCK, SIMULATED


class BlockSize(NamedTuple):
    """Threads of a block, by what it has in shared memory."""

    threads: int
    most_bytes: int  #: Shared memory, in bytes, up to which a block has so few threads.
    most_elements: int  #: Elements, up to which it has so few.


class Sparse(NamedTuple):
    """An output with few points: its places are claimed in a table."""

    least_places_per_point: int  #: Places; with fewer for each point the table is not smaller.
    least_places: int  #: Places of the output.


class MoveTuning(NamedTuple):
    """Thresholds of one kind of GPU: by themselves those of an H100 or H200.

    Points are tuples of indices; lines and columns are those of element operators. A place is what one point of a
    scatter may write; the last update of a place stays.
    """

    # The machine.
    multiprocessors: int = 132  #: Streaming multiprocessors (SMs) of the GPU.
    busy_blocks: int = 1056  #: Blocks, to keep all SMs busy several times over.
    least_blocks: int = 96  #: Blocks; with fewer most SMs would be idle.
    l2_bytes: int = 32 << 20  #: Bytes of an output that stays in L2.

    # Units: what a thread moves at once.
    few_units: int = 1 << 18  #: Units; up to this many a thread has one, so that more threads wait for memory.
    widest_narrow: int = 4  #: Bytes; up to this width units are narrow, and finding their place costs more than memory.
    least_slice_units: int = 5  #: Units of a slice, from which on warps move it.
    least_warp_units: int = 1 << 19  #: Units in all, from which on warps move slices.
    least_warps: int = 2048  #: Warps that share the slices; with fewer slices threads move units.

    # Single elements along lines and columns.
    least_points: int = 1 << 16  #: Points; below, the general kernels are done before a block has read its line.
    #: Points; the simulator starts an operating system's thread for each thread of these kernels.
    most_points: int = 1 << 60
    elements_per_point: int = 8  #: Elements; a line is read if it has at least one point per this many.

    # Lines in shared memory, of gathers and of scatters, which have claims and chains of updates there.
    gather_line_bytes: int = 8 << 10  #: Bytes of points or elements of a block; with fewer it is not worth its start.
    scatter_line_bytes: int = 2 << 10  #: The same of a scatter.
    #: Bytes of an output, and of updates, up to which one launch is sooner done than three.
    one_launch_bytes: int = 16 << 10
    gathered_together_bytes: int = 24 << 10  #: Bytes of shared memory, up to which a block has several short lines.
    scattered_together_bytes: int = 36 << 10  #: The same of a scatter.
    long_line_bytes: int = 24 << 10  #: Bytes of a block's lines, from which on it has more threads than `BLOCK`.
    line_threads: int = 512  #: Threads of a block with long lines, if an SM holds two such blocks.
    lone_threads: int = 1024  #: Threads of a block that has an SM to itself.
    #: Bytes of claims and updates, up to which an SM has two blocks; else updates are left to L1.
    staged_bytes: int = 112 << 10
    part_bytes: int = 112 << 10  #: Bytes of the claims of a part of a line that is too long for one block.
    most_parts: int = 4  #: Parts of a line, each of which goes through all of its indices.

    # Columns that have a thread each.
    least_columns: int = 32  #: Columns of a matrix; fewer are not worth a tile.
    least_own_columns: int = 1 << 15  #: Columns in all, from which on each has a thread.
    #: Bytes of such a column, for elements of 1, 2, 4, 8 bytes.
    gathered_column_bytes: tuple[int, int, int, int] = (4, 128, 128, 128)
    scattered_column: int = 8  #: Elements of such a column.
    chained_column_bytes: int = 128  #: Bytes of such a column, if updates are combined in their order.
    chained_column_bytes_in_l2: int = 1024  #: The same if the output stays in L2.

    # Columns in shared memory.
    least_shared_column: int = 5  #: Elements of a column, from which on blocks keep columns in shared memory.
    shared_column_bytes: int = 132 << 10  #: Bytes of shared memory of a block whose rows are wide.
    least_row_bytes: int = 16  #: Bytes of a row of a block; shorter ones waste most of each sector of 32 bytes.
    narrow_row_bytes: int = 32  #: Bytes of a row, up to which it is narrow: an SM has one such block.
    narrow_row_columns: int = 16  #: Columns of a row, up to which it is narrow.
    #: Threads of a block, from few to many; the last one holds any.
    block_sizes: tuple[BlockSize, ...] = (
        BlockSize(BLOCK, 40 << 10, 20 << 10),
        BlockSize(512, 72 << 10, 80 << 10),
        BlockSize(1024, 1 << 20, 1 << 20),
    )
    #: Claims of a thread in shared memory, for each element that it would have in a gather.
    claims_per_element: float = 0.32
    few_in_block: int = 600  #: Elements of a block; with so few it takes twice as long for each.
    #: Bytes that a gather moves, up to which they stay in L2, which may be as fast as shared memory.
    most_in_l2: int = 100 << 20
    most_cost: float = 1.4  #: How much longer than at best its blocks may take then.
    least_column_in_l2: int = 24  #: Elements of a column, from which on shared memory is faster than L2.

    # Columns that are transposed.
    strip_bytes: int = 512 << 20  #: Bytes of scratch memory for the strips that are transposed.
    #: Bytes of a matrix; a smaller one stays in L2, where gathers need no transposing.
    least_gathered_matrix: int = 48 << 20
    #: Elements of a matrix, and of each part of it, from which on scatters transpose it.
    least_scattered_matrix: int = 4 << 20

    # Many updates of an output that is larger than L2, sorted into bins.
    least_binned_bytes: int = 96 << 20  #: Bytes that are written to at a time, from which on updates are sorted.
    least_binned_claims: int = 64 << 20  #: Bytes of their claims, from which on updates are sorted.
    places_per_binned_point: int = 16  #: Places; with more for each point it is not worth sorting.
    counting_blocks: int = 3  #: Blocks for each SM that count the updates of bins.

    # Many updates of few places, of which every block has a copy.
    few_places_bytes: int = 96 << 10  #: Bytes of such a copy, or of its claims, in shared memory.
    least_few_places_blocks: int = 20  #: Blocks; with fewer copies the memory is as fast.
    updates_per_copy: int = 4  #: Updates of a block for each element of its copy.

    # Claims.
    #: Points, up to which every block looks at all of them instead of claims in device memory.
    few_points: int = 12_000
    few_points_slice: int = 16 << 10  #: Bytes of a slice up to which it does: a block writes all of its slices.
    #: Outputs of which few places are claimed: a table of these is smaller.
    sparse: tuple[Sparse, ...] = (Sparse(4, 1 << 23), Sparse(16, 3 << 20))
    #: Places for a point, up to which elements of 1, 2, 4 bytes are merged.
    places_per_merged: tuple[int, int, int] = (16, 20, 32)
    places_per_merged_alone: int = 128  #: The same if there is no table of claims.

    # Reductions in the order of the updates, which are sorted.
    #: Points and places, up to which a pair of their numbers takes 8 bytes, otherwise 16.
    most_short_pairs: int = (1 << 32) - 1
    folding_blocks: int = 8  #: Blocks for each SM that fold places with many updates.


H100 = MoveTuning()
#: Small enough that small arrays reach every row of the tables.
SIMULATOR = H100._replace(
    multiprocessors=3,
    busy_blocks=4,
    least_blocks=1,
    l2_bytes=256,
    few_units=12,
    least_slice_units=2,
    least_warp_units=24,
    least_warps=4,
    least_points=1,
    most_points=600,
    gather_line_bytes=8,
    scatter_line_bytes=8,
    one_launch_bytes=16,
    gathered_together_bytes=48,
    scattered_together_bytes=96,
    long_line_bytes=100,
    line_threads=BLOCK,
    lone_threads=BLOCK,
    staged_bytes=160,
    part_bytes=224,
    least_columns=2,
    least_own_columns=24,
    gathered_column_bytes=(24, 24, 24, 24),
    scattered_column=6,
    chained_column_bytes=24,
    chained_column_bytes_in_l2=24,
    least_shared_column=1,
    shared_column_bytes=40,
    least_row_bytes=1,
    narrow_row_bytes=2,
    narrow_row_columns=2,
    block_sizes=(BlockSize(BLOCK, 1 << 20, 1 << 20),),
    few_in_block=1,
    most_in_l2=0,
    strip_bytes=256,
    least_gathered_matrix=64,
    least_scattered_matrix=8,
    least_binned_bytes=64,
    least_binned_claims=64,
    counting_blocks=1,
    few_places_bytes=100,
    least_few_places_blocks=1,
    updates_per_copy=2,
    few_points=2,
    sparse=(Sparse(4, 8),),
    most_short_pairs=50,
    folding_blocks=1,
)
TUNING = (H100, SIMULATOR)[SIMULATED]
