"""Thresholds that gathers and scatters share. The figures are in docs/measurements/cudamoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..driver.numba import BLOCK, SIMULATED


class BlockSize(NamedTuple):
    """Threads of a block, by what it has in shared memory."""

    threads: int
    most_bytes: int  #: Shared memory, in bytes, up to which a block has so few threads.
    most_elements: int  #: Elements, up to which it has so few.


class MoveTuning(NamedTuple):
    """Thresholds of one kind of GPU. Points are tuples of indices; lines and columns are those of element operators."""

    # The machine.
    multiprocessors: int  #: Streaming multiprocessors (SMs) of the GPU.
    busy_blocks: int  #: Blocks, to keep all SMs busy several times over.
    least_blocks: int  #: Blocks; with fewer most SMs would be idle.

    # Units: what a thread moves at once.
    few_units: int  #: Units; up to this many a thread has one, so that more threads wait for memory.
    widest_narrow: int  #: Bytes; up to this width units are narrow, and finding their place costs more than memory.
    least_slice_units: int  #: Units of a slice, from which on warps move it.
    most_slice_units: int  #: Units of a slice, up to which warps move it.
    least_warp_units: int  #: Units in all, from which on warps move slices.
    least_warps: int  #: Warps that share the slices; with fewer slices threads move units.

    # Single elements along lines and columns.
    least_points: int  #: Points; below, the general kernels are done before a block has read its line.
    most_points: int  #: Points; the simulator starts an operating system's thread for each thread of these kernels.
    elements_per_point: int  #: Elements; a line is read if it has at least one point per this many.
    long_line_bytes: int  #: Bytes of a block's lines, from which on it has more threads than `BLOCK`.
    line_threads: int  #: Threads of a block with long lines, if an SM holds two such blocks.
    lone_threads: int  #: Threads of a block that has an SM to itself.
    shared_lines_bytes: int  #: Bytes of shared memory, up to which a block has several short lines.
    least_columns: int  #: Columns of a matrix; fewer are not worth a tile.
    least_own_columns: int  #: Columns in all, from which on each has a thread.
    strip_bytes: int  #: Bytes of scratch memory for the strips that are transposed.

    # Columns in shared memory.
    least_shared_column: int  #: Elements of a column, from which on blocks keep columns in shared memory.
    shared_column_bytes: int  #: Bytes of shared memory of a block whose rows are wide.
    least_row_bytes: int  #: Bytes of a row of a block; shorter ones waste most of each sector of 32 bytes.
    narrow_row_bytes: int  #: Bytes of a row, up to which it is narrow: an SM has one such block.
    narrow_row_columns: int  #: Columns of a row, up to which it is narrow.
    block_sizes: tuple[BlockSize, ...]  #: Threads of a block, from few to many; the last one holds any.
    few_in_block: int  #: Elements of a block; with so few it takes twice as long for each.


H100 = MoveTuning(
    multiprocessors=132,
    busy_blocks=1056,
    least_blocks=96,
    few_units=1 << 20,
    widest_narrow=4,
    least_slice_units=5,
    most_slice_units=(1 << 24) - 1,
    least_warp_units=1 << 19,
    least_warps=2048,
    least_points=1 << 16,
    most_points=1 << 60,
    elements_per_point=8,
    long_line_bytes=24 << 10,
    line_threads=512,
    lone_threads=1024,
    shared_lines_bytes=24 << 10,
    least_columns=32,
    least_own_columns=1 << 15,
    strip_bytes=512 << 20,
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
    few_in_block=600,
)
#: Small enough that small arrays reach every row of the tables.
SIMULATOR = MoveTuning(
    multiprocessors=3,
    busy_blocks=4,
    least_blocks=1,
    few_units=12,
    widest_narrow=4,
    least_slice_units=2,
    most_slice_units=4,
    least_warp_units=24,
    least_warps=4,
    least_points=1,
    most_points=600,
    elements_per_point=8,
    long_line_bytes=100,
    line_threads=BLOCK,
    lone_threads=BLOCK,
    shared_lines_bytes=48,
    least_columns=2,
    least_own_columns=24,
    strip_bytes=256,
    least_shared_column=1,
    shared_column_bytes=40,
    least_row_bytes=1,
    narrow_row_bytes=2,
    narrow_row_columns=2,
    block_sizes=(BlockSize(BLOCK, 1 << 20, 1 << 20),),
    few_in_block=1,
)
TUNING = SIMULATOR if SIMULATED else H100
