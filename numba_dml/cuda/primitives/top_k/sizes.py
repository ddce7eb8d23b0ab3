"""The sizes that the kernels of top-k are compiled with.

The figures behind them are in docs/measurements/cuda_top_k.md. Thresholds, which calls read, are in `tuning.top_k`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...driver.numba import BLOCK, LANES, SIMULATED

H100_MULTIPROCESSORS = 132


class Sizes(NamedTuple):
    """The sizes for one kind of machine."""

    #: The most threads of a block that has a line.
    most_threads: int
    #: Elements that a thread loads together from a line that is not contiguous.
    rows_at_once: int
    #: What the lists of a block hold at most: keys, positions and groups to look into, 24 bytes in all.
    most_room: int
    #: The same, at least.
    least_room: int
    #: Bits of a digit by which a block finds a border.
    digit_bits: int
    #: Lists are ranked if their length squared is up to this times the threads: a sort takes 28 steps and barriers.
    ranked: int
    #: Lists that are longer, and than they need be, are shortened before they are sorted.
    sorted: int
    #: The most elements of a bucket.
    most_in_bucket: int
    #: The longest run of equal keys that one thread puts in order.
    short_run: int
    #: Elements of a seat, as a power of two: their loads are on their way together.
    seat_bits: int
    #: Bits of a digit by which all blocks find a border: they take 8 KiB of counts.
    large_digit_bits: int
    #: The largest k for which a lane of a warp that has a line keeps few chunks.
    few_chunks_k: int
    #: Threads of a block that has short lines.
    short_block: int
    #: Bytes of a segment, what a thread has of its short line at once: up to k = 8, and above.
    segment_bytes: tuple[int, int]
    #: Lines from which wide keys have the longer segment for every k: more are not worked on at once.
    segment_lines: int
    #: Bytes of a segment from which it is copied before keys are made, if its lines are aligned.
    least_copied: int
    #: Copies of 16 bytes that a thread begins together, as a power of two.
    copy_bits: int
    #: Loads of 16 bytes that a thread does together.
    quads_at_once: int
    #: For how many of these it collects the elements of its own line.
    own_quads: int
    #: Loads of single elements that a thread does together.
    elements_at_once: int
    #: Elements of a group of a short line, of more than two bytes each.
    group: int
    #: The most groups of a segment.
    most_groups: int


H100 = Sizes(
    most_threads=1024,
    rows_at_once=8,
    most_room=4096,
    least_room=256,
    digit_bits=8,
    ranked=128,
    sorted=512,
    most_in_bucket=32,
    short_run=16,
    seat_bits=2,
    large_digit_bits=11,
    few_chunks_k=LANES // 2,
    short_block=64,
    segment_bytes=(256, 512),
    segment_lines=20 * 32 * H100_MULTIPROCESSORS,
    least_copied=256,
    copy_bits=2,
    quads_at_once=8,
    own_quads=4,
    elements_at_once=8,
    group=4,
    most_groups=32,
)

#: Small, so that small arrays reach every branch of the kernels; a block has few threads.
SIMULATOR = Sizes(
    most_threads=BLOCK,
    rows_at_once=2,
    most_room=64,
    least_room=8,
    digit_bits=3,
    ranked=16,
    sorted=12,
    most_in_bucket=3,
    short_run=2,
    seat_bits=1,
    large_digit_bits=6,
    few_chunks_k=3,
    short_block=BLOCK,
    segment_bytes=(16, 128),
    segment_lines=20,
    least_copied=32,
    copy_bits=1,
    quads_at_once=2,
    own_quads=1,
    elements_at_once=2,
    group=2,
    most_groups=16,
)

SIZES = (H100, SIMULATOR)[SIMULATED]
