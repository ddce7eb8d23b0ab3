"""The sizes that the kernels of top-k are compiled with.

The figures behind them are in docs/measurements/cuda_top_k.md. Thresholds, which calls read, are in `tuning.top_k`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...driver.numba import BLOCK, SIMULATED

H100_MULTIPROCESSORS = 132


class Sizes(NamedTuple):
    """The sizes for one kind of machine."""

    most_threads: int = 1024  #: the most threads of a block that has a line
    rows_at_once: int = 8  #: elements that a thread loads together from a line that is not contiguous
    own_keys: int = 32  #: keys of a line that a thread keeps in registers at most, if they have 4 bytes
    #: What the lists of a block hold at most: keys, positions and groups to look into, 24 bytes in all.
    most_room: int = 4096
    least_room: int = 256  #: the same, at least
    digit_bits: int = 8  #: bits of a digit by which a block finds a border
    #: Lists are ranked, each element by a thread that looks at all others, if their length squared is up to this times
    #: the threads: a pass of a sort takes 5 barriers.
    ranked: int = 512
    sorted: int = 512  #: lists that are longer, and than they need be, are shortened before they are sorted
    short_run: int = 16  #: the longest run of equal keys that one thread puts in order
    seat_bits: int = 2  #: elements of a seat, as a power of two: their loads are on their way together
    large_digit_bits: int = 11  #: bits of a digit by which all blocks find a border: they take 8 KiB of counts
    short_block: int = 64  #: threads of a block that has short lines
    #: Bytes of a segment, what a thread has of its short line at once: up to k = 8, and above.
    segment_bytes: tuple[int, int] = (256, 512)
    #: Lines from which wide keys have the longer segment for every k: more are not worked on at once.
    segment_lines: int = 20 * 32 * H100_MULTIPROCESSORS
    copy_bits: int = 2  #: copies of 16 bytes that a thread begins together, as a power of two
    own_quads: int = 4  #: times 16 bytes that a thread collects together, of elements that are no neighbours
    group: int = 4  #: elements of a group of a short line, of more than two bytes each
    most_groups: int = 32  #: the most groups of a segment


H100 = Sizes()

#: Small, so that small arrays reach every branch of the kernels; a block has few threads.
SIMULATOR = Sizes(
    most_threads=BLOCK,
    rows_at_once=2,
    own_keys=20,
    most_room=64,
    least_room=8,
    digit_bits=3,
    ranked=16,
    sorted=12,
    short_run=2,
    seat_bits=1,
    large_digit_bits=6,
    short_block=BLOCK,
    segment_bytes=(16, 128),
    segment_lines=20,
    copy_bits=1,
    own_quads=1,
    group=2,
    most_groups=16,
)

SIZES = (H100, SIMULATOR)[SIMULATED]
