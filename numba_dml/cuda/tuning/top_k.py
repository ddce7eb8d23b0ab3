"""The thresholds of top-k. The figures behind them are in docs/measurements/cuda_top_k.md, under the heading named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..driver.numba import BLOCK, LANES, SIMULATED
from ..primitives.top_k.sizes import H100_MULTIPROCESSORS


class Tuning(NamedTuple):
    """The thresholds of one kind of machine."""

    #: Multiprocessors of the device: with fewer lines, some have no line of their own.
    multiprocessors: int
    #: Elements of a line from which positions in it take 64 bits.
    long_line: int

    # Heading "A thread for each short line".
    #: The most elements of a line.
    short_elements: int
    #: Lines for each element of one: with fewer, there are too few threads.
    short_lines: int
    #: The most bytes of a line if k = 1: longer ones are found faster by blocks.
    best_short_bytes: int
    #: The same if lines are no multiple of 16 bytes, or elements have 8.
    best_short_bytes_unaligned: int
    #: Lines for each element of one if k = 1.
    best_short_lines: int
    #: The largest k that counts as few results in the next three.
    few_results: int
    #: The most bytes of a line that a warp could have, for few results: above, a warp is faster.
    short_bytes_few_results: int
    #: The same for more results.
    short_bytes_many_results: int
    #: The same for lines that are no multiple of 16 bytes.
    short_bytes_unaligned: int

    # Heading "A warp for each line".
    #: Lines from which each has a warp: with fewer, a block gives each line more threads.
    warp_lines: int

    # Heading "The best element of each line".
    #: Bytes of a line from which several blocks share it.
    parted_bytes: int
    #: The most blocks of all lines then.
    part_blocks: int
    #: Units of 16 bytes that a thread loads together.
    best_units: int
    #: The most threads of a block that has a line to itself, if there are many lines.
    best_threads: int
    #: Loads of `best_units` that each of these threads has at least.
    best_rounds: int
    #: Parts of a line up to which one warp finds the best of them.
    few_parts: int

    # Heading "The best element of lines that are not contiguous".
    #: Lines from which threads find it: neighbouring threads of fewer lines would load from far apart.
    thread_lines: int
    #: The least elements of a thread's part of a line.
    thread_elements: int
    #: Threads from which lines are not cut into more parts.
    part_threads: int

    # Heading "Lines beside each other".
    #: The least elements of a line, for each of k.
    beside_elements: int
    #: The least groups of a line, for each of k, if groups grow.
    beside_groups: int
    #: The least threads, one for each group, if groups grow.
    beside_threads: int
    #: The most seats of a group, which grows no further.
    most_seats: int
    #: The most groups of a line: the shared memory of its warp holds no more.
    most_groups: int

    # Heading "Delegates".
    #: Elements of a line that is not contiguous from which it has delegates: a block reads it element by element.
    strided_elements: int
    #: Elements of all lines for each element of a strided group: a thread has a group, so smaller ones keep more busy.
    elements_of_group: int
    #: The least that the largest group of such lines may have.
    largest_strided_group: int
    #: Rounds of all warps from which a warp has several.
    busy_warps: int
    #: The most rounds of a warp.
    most_rounds: int
    #: GB/s that a block reads from its line.
    block_rate: int
    #: GB/s that all blocks read while they find delegates.
    device_rate: int
    #: ns that it takes longer to choose by delegates.
    delegates_time: int
    #: The same for each of k, by bytes of an element.
    delegates_time_of_one: Mapping[int, int]

    # Heading "A block chooses from a line".
    #: Bytes of the maxima that a block keeps in shared memory.
    maxima_bytes: int
    #: The same if there are fewer lines than multiprocessors.
    maxima_bytes_few_lines: int
    #: The same, with the lists, for lines from `long_line` on.
    maxima_bytes_long_line: int
    #: Elements of a list from which a multiprocessor has at most two blocks.
    long_list: int
    #: Bytes of shared memory of each of these two blocks.
    half_shared: int
    #: Bytes of shared memory of a multiprocessor.
    all_shared: int
    #: Threads that a multiprocessor should have.
    busy_multiprocessor: int
    #: The least threads of a block that has a line.
    least_threads: int
    #: Units that each thread of a block looks at: above, the block gets more threads.
    units_of_thread: int
    #: Threads of all blocks from which no block gets more.
    busy_threads: int

    # Heading "Choose, or sort". Tables are by bytes of an element.
    #: Elements of a line for each of k, above which the best are chosen, not sorted.
    elements_of_k: Mapping[int, int]
    #: Up to that many lines, `most_chosen` holds.
    few_lines: Mapping[int, int]
    #: The largest k that is chosen from few lines: more are sorted by many blocks.
    most_chosen: Mapping[int, int]
    #: Bytes of a line up to which `most_chosen` does not hold.
    chosen_bytes: Mapping[int, int]
    #: Bytes of a line above which `most_chosen_long` holds.
    long_bytes: int
    #: The largest k that is chosen from few lines of that length.
    most_chosen_long: int
    #: Bytes of an input that is chosen from if possible: a sort needs up to three times its memory.
    large_input: int

    # Heading "A sort by many blocks".
    #: Elements of a line from which its positions take 64 bits; those of its last group must fit into 32 as well.
    sort_long_line: int
    #: Blocks that run at the same time: four on each multiprocessor.
    busy_blocks: int
    #: The least bytes of a part of a line: a block writes 16 KiB of counts for each.
    sort_part_bytes: int
    #: Elements that may be listed beyond k: k shifted right by this.
    spare_shift: int
    #: The same: that many of all lines together.
    spare_of_all: int
    #: Bytes that could be streamed in the time of the six launches that find delegates.
    delegates_bytes: int
    #: How much longer delegates take if a group is smaller than what a warp reads at once.
    narrow_factor: float
    #: Bytes that the memory delivers for one element of a line that is not contiguous.
    sector_bytes: int


H100 = Tuning(
    multiprocessors=H100_MULTIPROCESSORS,
    long_line=1 << 31,
    short_elements=1024,
    short_lines=16,
    best_short_bytes=3072,
    best_short_bytes_unaligned=1536,
    best_short_lines=80,
    few_results=4,
    short_bytes_few_results=4096,
    short_bytes_many_results=3072,
    short_bytes_unaligned=2048,
    warp_lines=640,
    parted_bytes=1 << 18,
    part_blocks=6 * H100_MULTIPROCESSORS,
    best_units=4,
    best_threads=128,
    best_rounds=2,
    few_parts=64,
    thread_lines=LANES,
    thread_elements=32,
    part_threads=1024 * H100_MULTIPROCESSORS,
    beside_elements=16,
    beside_groups=16,
    beside_threads=256 * H100_MULTIPROCESSORS,
    most_seats=16,
    most_groups=1024,
    strided_elements=1024,
    elements_of_group=1 << 17,
    largest_strided_group=4,
    busy_warps=2 * 64 * H100_MULTIPROCESSORS,
    most_rounds=8,
    block_rate=38,
    device_rate=3500,
    delegates_time=8000,
    delegates_time_of_one={1: 0, 2: 8, 4: 5, 8: 12},
    maxima_bytes=1 << 15,
    maxima_bytes_few_lines=1 << 16,
    maxima_bytes_long_line=208 << 10,
    long_list=1 << 10,
    half_shared=107 << 10,
    all_shared=224 << 10,
    busy_multiprocessor=1024,
    least_threads=64,
    units_of_thread=8,
    busy_threads=1024 * H100_MULTIPROCESSORS,
    elements_of_k={1: 26, 2: 14, 4: 6, 8: 9},
    few_lines={1: 16, 2: 4, 4: 16, 8: 16},
    most_chosen={1: 150, 2: 600, 4: 800, 8: 800},
    chosen_bytes={1: 1 << 16, 2: 1 << 18, 4: 1 << 24, 8: 1 << 24},
    long_bytes=1 << 28,
    most_chosen_long=300,
    large_input=1 << 31,
    sort_long_line=(1 << 31) - (1 << 16),
    busy_blocks=4 * H100_MULTIPROCESSORS,
    sort_part_bytes=1 << 15,
    spare_shift=5,
    spare_of_all=1 << 18,
    delegates_bytes=60_000_000,
    narrow_factor=1.12,
    sector_bytes=32,
)

_WIDTHS = (1, 2, 4, 8)
#: Where it differs from an H100: a warp has two threads, and small arrays must reach every row of the table.
SIMULATOR = H100._replace(
    multiprocessors=3,
    short_elements=12,
    short_lines=1,
    best_short_bytes=48,
    best_short_bytes_unaligned=40,
    best_short_lines=2,
    short_bytes_few_results=1 << 13,
    short_bytes_many_results=1 << 13,
    short_bytes_unaligned=1 << 13,
    warp_lines=4,
    parted_bytes=64,
    part_blocks=5,
    best_threads=BLOCK,
    best_rounds=1,
    few_parts=1,
    thread_elements=3,
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
    maxima_bytes_long_line=1600,
    long_list=14,
    half_shared=400,
    all_shared=1 << 20,
    busy_multiprocessor=1,
    least_threads=BLOCK,
    busy_threads=1,
    elements_of_k=dict.fromkeys(_WIDTHS, 2),
    few_lines=dict.fromkeys(_WIDTHS, 0),
    busy_blocks=4,
    sort_part_bytes=256,
    spare_of_all=8,
    delegates_bytes=0,
)

TUNING = (H100, SIMULATOR)[SIMULATED]
