"""The thresholds of top-k. The figures behind them are in docs/measurements/cuda_top_k.md, under the heading named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..driver.numba import BLOCK, SIMULATED
from ..primitives.top_k.sizes import H100_MULTIPROCESSORS


class Tuning(NamedTuple):
    """The thresholds of one kind of machine."""

    #: Multiprocessors of the device: with fewer lines, some have no line of their own.
    multiprocessors: int = H100_MULTIPROCESSORS
    long_line: int = 1 << 31  #: elements of a line from which positions in it take 64 bits: it is sorted by many blocks

    # Heading "A thread for each short line".
    short_elements: int = 1024  #: the most elements of a line
    short_lines: int = 16  #: lines for each element of one: with fewer, there are too few threads
    least_short_lines: int = 4096  #: the least lines, if these are very short: see `very_short`
    best_short_lines: int = 80  #: lines for each element of one if k = 1
    #: The most bytes of a contiguous line: longer ones are faster by warps, or if k = 1 by blocks.
    short_bytes: int = 3072
    short_bytes_unaligned: int = 2048  #: the same for lines that are no multiple of 16 bytes

    # Heading "A warp for each line".
    warp_lines: int = 640  #: lines from which each has a warp: with fewer, a block gives each line more threads

    # Heading "The best element of each line".
    parted_bytes: int = 1 << 18  #: bytes of a line from which several blocks share it
    part_blocks: int = 6 * H100_MULTIPROCESSORS  #: the most blocks of all lines then
    best_units: int = 4  #: units of 16 bytes that a thread loads together
    best_threads: int = 128  #: the most threads of a block that has a line to itself, if there are many lines
    best_rounds: int = 2  #: loads of `best_units` that each of these threads has at least
    few_parts: int = 8  #: parts of a line up to which one thread finds the best of them

    # Heading "The best element of lines that are short or not contiguous".
    few_elements: int = 24  #: elements up to which a contiguous line is short
    thread_elements: int = 32  #: the least elements of a thread, if several have a line
    beside_lanes: int = 128  #: threads of lines beside each other from which no more lanes share a part
    part_threads: int = 1024 * H100_MULTIPROCESSORS  #: threads from which lines are not cut into more parts

    # Heading "Lines beside each other".
    beside_elements: int = 16  #: the least elements of a line, for each of k
    beside_groups: int = 16  #: the least groups of a line, for each of k, if groups grow
    beside_threads: int = 256 * H100_MULTIPROCESSORS  #: the least threads, one for each group, if groups grow
    most_seats: int = 16  #: the most seats of a group, which grows no further
    most_groups: int = 1024  #: the most groups of a line: the shared memory of its warp holds no more

    # Heading "Delegates".
    #: Elements of a line that is not contiguous from which it has delegates: a block reads it element by element.
    strided_elements: int = 1024
    #: Elements of all lines for each element of a strided group: a thread has a group, so smaller ones keep more busy.
    elements_of_group: int = 1 << 17
    largest_strided_group: int = 4  #: the least that the largest group of such lines may have
    busy_warps: int = 2 * 64 * H100_MULTIPROCESSORS  #: rounds of all warps from which a warp has several
    most_rounds: int = 8  #: the most rounds of a warp
    block_rate: int = 38  #: GB/s that a block reads from its line
    device_rate: int = 3500  #: GB/s that all blocks read while they find delegates
    delegates_time: int = 8000  #: ns that it takes longer to choose by delegates
    #: The same for each of k, by bytes of an element.
    delegates_time_of_one: Mapping[int, int] = {1: 0, 2: 8, 4: 5, 8: 12}

    # Heading "A block chooses from a line".
    maxima_bytes: int = 1 << 15  #: bytes of the maxima that a block keeps in shared memory
    maxima_bytes_few_lines: int = 1 << 16  #: the same if there are fewer lines than multiprocessors
    long_list: int = 1 << 10  #: elements of a list from which a multiprocessor has at most two blocks
    half_shared: int = 107 << 10  #: bytes of shared memory of each of these two blocks
    all_shared: int = 224 << 10  #: bytes of shared memory of a multiprocessor
    busy_multiprocessor: int = 1024  #: threads that a multiprocessor should have
    least_threads: int = 64  #: the least threads of a block that has a line
    units_of_thread: int = 8  #: units that each thread of a block looks at: above, the block gets more threads
    busy_threads: int = 1024 * H100_MULTIPROCESSORS  #: threads of all blocks from which no block gets more

    # Heading "Choose, or sort". Tables are by bytes of an element.
    #: Elements of a line for each of k, above which the best are chosen, not sorted.
    elements_of_k: Mapping[int, int] = {1: 26, 2: 14, 4: 6, 8: 9}
    few_lines: Mapping[int, int] = {1: 16, 2: 4, 4: 16, 8: 16}  #: up to that many lines, `most_chosen` holds
    #: The largest k that is chosen from few lines: more are sorted by many blocks.
    most_chosen: Mapping[int, int] = {1: 150, 2: 600, 4: 800, 8: 800}
    #: Bytes of a line up to which `most_chosen` does not hold.
    chosen_bytes: Mapping[int, int] = {1: 1 << 16, 2: 1 << 18, 4: 1 << 24, 8: 1 << 24}
    long_bytes: int = 1 << 28  #: bytes of a line above which `most_chosen_long` holds
    most_chosen_long: int = 300  #: the largest k that is chosen from few lines of that length
    #: Bytes of an input that is chosen from if possible: to sort takes up to three times its memory.
    large_input: int = 1 << 31

    # Heading "Selection".
    very_short: int = 128  #: elements of a line up to which a warp selects from it, whatever the lines are
    most_of_k: int = 16  #: the most elements of a line for each of k: from longer ones k elements are chosen sooner
    most_of_k_sorted: int = 8  #: the same for sorted results
    #: The least elements of a line for each of k, by bytes of an element: with fewer, the whole line is sorted sooner.
    selected_of_k: Mapping[int, float] = {1: 2, 2: 2, 4: 2, 8: 6}
    least_selected: int = 512  #: the least elements of a line
    selected_lines: int = 32  #: the least lines: fewer are sorted sooner by more threads, or by many blocks

    # Heading "A sort by many blocks".
    #: The most elements of a line for each of k if results in any order are not sorted: more are sorted sooner, because
    #: to list k elements exactly takes more reads than to list a few more.
    listed_of_k: int = 12
    #: Elements of a line from which its positions take 64 bits; those of its last group must fit into 32 as well.
    sort_long_line: int = (1 << 31) - (1 << 16)
    busy_blocks: int = 4 * H100_MULTIPROCESSORS  #: blocks that run at the same time: four on each multiprocessor
    sort_part_bytes: int = 1 << 15  #: the least bytes of a part of a line: a block writes 16 KiB of counts for each
    sort_block_bytes: int = 1 << 16  #: bytes that a block could read in the time that it takes for its counts
    spare_shift: int = 5  #: elements that may be listed beyond k: k shifted right by this
    spare_of_all: int = 1 << 18  #: the same: that many of all lines together
    #: Bytes that could be streamed in the time of the six launches that find delegates.
    delegates_bytes: int = 60_000_000
    narrow_factor: float = 1.12  #: how much longer delegates take if a group is smaller than what a warp reads at once
    sector_bytes: int = 32  #: bytes that the memory delivers for one element of a line that is not contiguous


H100 = Tuning()

_WIDTHS = (1, 2, 4, 8)
#: Where it differs from an H100: a warp has two threads, and small arrays must reach every row of the table.
SIMULATOR = H100._replace(
    multiprocessors=3,
    short_elements=12,
    short_lines=1,
    least_short_lines=1,
    best_short_lines=2,
    short_bytes=48,
    short_bytes_unaligned=40,
    warp_lines=4,
    parted_bytes=64,
    part_blocks=5,
    best_threads=BLOCK,
    best_rounds=1,
    few_parts=2,
    few_elements=2,
    thread_elements=3,
    beside_lanes=4,
    part_threads=24,
    beside_elements=4,
    beside_groups=4,
    beside_threads=4,
    most_seats=4,
    most_groups=64,
    strided_elements=16,
    elements_of_group=1,
    busy_warps=2,
    most_rounds=2,
    delegates_time=40,
    maxima_bytes=64,
    maxima_bytes_few_lines=128,
    long_list=14,
    half_shared=400,
    all_shared=1 << 20,
    busy_multiprocessor=1,
    least_threads=BLOCK,
    busy_threads=1,
    very_short=8,
    most_of_k=4,
    most_of_k_sorted=4,
    selected_of_k=dict.fromkeys(_WIDTHS, 1.25),
    least_selected=1,
    selected_lines=1,
    elements_of_k=dict.fromkeys(_WIDTHS, 2),
    few_lines=dict.fromkeys(_WIDTHS, 0),
    busy_blocks=4,
    sort_block_bytes=0,
    sort_part_bytes=256,
    spare_of_all=8,
    delegates_bytes=0,
)

TUNING = (H100, SIMULATOR)[SIMULATED]
