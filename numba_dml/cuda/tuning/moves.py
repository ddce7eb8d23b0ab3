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
    """Thresholds of one kind of GPU.

    Points are tuples of indices; lines and columns are those of element operators. A place is what one point of a
    scatter may write; the last update of a place stays.
    """

    # The machine.
    multiprocessors: int  #: Streaming multiprocessors (SMs) of the GPU.
    busy_blocks: int  #: Blocks, to keep all SMs busy several times over.
    least_blocks: int  #: Blocks; with fewer most SMs would be idle.
    l2_bytes: int  #: Bytes of an output that stays in L2.

    # Units: what a thread moves at once.
    few_units: int  #: Units; up to this many a thread has one, so that more threads wait for memory.
    widest_narrow: int  #: Bytes; up to this width units are narrow, and finding their place costs more than memory.
    least_slice_units: int  #: Units of a slice, from which on warps move it.
    least_warp_units: int  #: Units in all, from which on warps move slices.
    least_warps: int  #: Warps that share the slices; with fewer slices threads move units.

    # Single elements along lines and columns.
    least_points: int  #: Points; below, the general kernels are done before a block has read its line.
    most_points: int  #: Points; the simulator starts an operating system's thread for each thread of these kernels.
    elements_per_point: int  #: Elements; a line is read if it has at least one point per this many.

    # Lines in shared memory, of gathers and of scatters, which have claims and chains of updates there.
    gather_line_bytes: int  #: Bytes of points or elements of a block; with fewer it is not worth its start.
    scatter_line_bytes: int  #: The same of a scatter.
    one_launch_bytes: int  #: Bytes of an output, and of updates, up to which one launch is sooner done than three.
    gathered_together_bytes: int  #: Bytes of shared memory, up to which a block has several short lines.
    scattered_together_bytes: int  #: The same of a scatter.
    long_line_bytes: int  #: Bytes of a block's lines, from which on it has more threads than `BLOCK`.
    line_threads: int  #: Threads of a block with long lines, if an SM holds two such blocks.
    lone_threads: int  #: Threads of a block that has an SM to itself.
    staged_bytes: int  #: Bytes of claims and updates, up to which an SM has two blocks; else updates are left to L1.
    part_bytes: int  #: Bytes of the claims of a part of a line that is too long for one block.
    most_parts: int  #: Parts of a line, each of which goes through all of its indices.

    # Columns that have a thread each.
    least_columns: int  #: Columns of a matrix; fewer are not worth a tile.
    least_own_columns: int  #: Columns in all, from which on each has a thread.
    gathered_column_bytes: tuple[int, int, int, int]  #: Bytes of such a column, for elements of 1, 2, 4, 8 bytes.
    scattered_column: int  #: Elements of such a column.
    chained_column_bytes: int  #: Bytes of such a column, if updates are combined in their order.
    chained_column_bytes_in_l2: int  #: The same if the output stays in L2.

    # Columns in shared memory.
    least_shared_column: int  #: Elements of a column, from which on blocks keep columns in shared memory.
    shared_column_bytes: int  #: Bytes of shared memory of a block whose rows are wide.
    least_row_bytes: int  #: Bytes of a row of a block; shorter ones waste most of each sector of 32 bytes.
    narrow_row_bytes: int  #: Bytes of a row, up to which it is narrow: an SM has one such block.
    narrow_row_columns: int  #: Columns of a row, up to which it is narrow.
    block_sizes: tuple[BlockSize, ...]  #: Threads of a block, from few to many; the last one holds any.
    claims_per_element: float  #: Claims of a thread in shared memory, for each element that it would have in a gather.
    few_in_block: int  #: Elements of a block; with so few it takes twice as long for each.
    most_in_l2: int  #: Bytes that a gather moves, up to which they stay in L2, which may be as fast as shared memory.
    most_cost: float  #: How much longer than at best its blocks may take then.
    least_column_in_l2: int  #: Elements of a column, from which on shared memory is faster than L2.

    # Columns that are transposed.
    strip_bytes: int  #: Bytes of scratch memory for the strips that are transposed.
    least_gathered_matrix: int  #: Bytes of a matrix; a smaller one stays in L2, where gathers need no transposing.
    least_scattered_matrix: int  #: Elements of a matrix, and of each part of it, from which on scatters transpose it.

    # Many updates of an output that is larger than L2, sorted into bins.
    least_binned_bytes: int  #: Bytes that are written to at a time, from which on updates are sorted.
    least_binned_claims: int  #: Bytes of their claims, from which on updates are sorted.
    places_per_binned_point: int  #: Places; with more for each point it is not worth sorting.
    counting_blocks: int  #: Blocks for each SM that count the updates of bins.

    # Many updates of few places, of which every block has a copy.
    few_places_bytes: int  #: Bytes of such a copy, or of its claims, in shared memory.
    least_few_places_blocks: int  #: Blocks; with fewer copies the memory is as fast.
    updates_per_copy: int  #: Updates of a block for each element of its copy.

    # Claims.
    few_points: int  #: Points, up to which every block looks at all of them instead of claims in device memory.
    few_points_slice: int  #: Bytes of a slice up to which it does: a block writes all of its slices.
    sparse: tuple[Sparse, ...]  #: Outputs of which few places are claimed: a table of these is smaller.
    places_per_merged: tuple[int, int, int]  #: Places for a point, up to which elements of 1, 2, 4 bytes are merged.
    places_per_merged_alone: int  #: The same if there is no table of claims.

    # Reductions in the order of the updates, which are sorted.
    most_short_pairs: int  #: Points and places, up to which a pair of their numbers takes 8 bytes, otherwise 16.
    folding_blocks: int  #: Blocks for each SM that fold places with many updates.


H100 = MoveTuning(
    multiprocessors=132,
    busy_blocks=1056,
    least_blocks=96,
    l2_bytes=32 << 20,
    few_units=1 << 18,
    widest_narrow=4,
    least_slice_units=5,
    least_warp_units=1 << 19,
    least_warps=2048,
    least_points=1 << 16,
    most_points=1 << 60,
    elements_per_point=8,
    gather_line_bytes=8 << 10,
    scatter_line_bytes=2 << 10,
    one_launch_bytes=16 << 10,
    gathered_together_bytes=24 << 10,
    scattered_together_bytes=36 << 10,
    long_line_bytes=24 << 10,
    line_threads=512,
    lone_threads=1024,
    staged_bytes=112 << 10,
    part_bytes=112 << 10,
    most_parts=4,
    least_columns=32,
    least_own_columns=1 << 15,
    gathered_column_bytes=(4, 128, 128, 128),
    scattered_column=8,
    chained_column_bytes=128,
    chained_column_bytes_in_l2=1024,
    least_shared_column=5,
    shared_column_bytes=132 << 10,
    least_row_bytes=16,
    narrow_row_bytes=32,
    narrow_row_columns=16,
    block_sizes=(
        BlockSize(BLOCK, 40 << 10, 20 << 10),
        BlockSize(512, 72 << 10, 80 << 10),
        BlockSize(1024, 1 << 20, 1 << 20),
    ),
    claims_per_element=0.32,
    few_in_block=600,
    most_in_l2=100 << 20,
    most_cost=1.4,
    least_column_in_l2=24,
    strip_bytes=512 << 20,
    least_gathered_matrix=48 << 20,
    least_scattered_matrix=4 << 20,
    least_binned_bytes=96 << 20,
    least_binned_claims=64 << 20,
    places_per_binned_point=16,
    counting_blocks=3,
    few_places_bytes=96 << 10,
    least_few_places_blocks=20,
    updates_per_copy=4,
    few_points=12_000,
    few_points_slice=16 << 10,
    sparse=(Sparse(4, 1 << 23), Sparse(16, 3 << 20)),
    places_per_merged=(16, 20, 32),
    places_per_merged_alone=128,
    most_short_pairs=(1 << 32) - 1,
    folding_blocks=8,
)
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
