"""Sizes that kernels of gathers and scatters are compiled for, as data.

Which kernel runs a call is decided by the thresholds in `tuning`. The figures are in docs/measurements/cudamoves.md.
"""

from __future__ import annotations

from typing import NamedTuple

from ...driver.numba import BLOCK, LANES, SIMULATED


class Sizes(NamedTuple):
    """Sizes for one kind of GPU: by themselves those of an H100 or H200."""

    tile_side: int = 64  #: Rows and columns of a tile that a block transposes.
    few_quads: int = 1 << 16  #: Units of 16 bytes to copy or set, up to which each has a thread.
    most_copied: int = 128 << 20  #: Bytes; more the driver copies: 256 MiB take 0.129 ms, and 0.133 by a kernel.
    slice_loads: int = 8  #: Units of a lane that are loaded before the first is stored: they hide the memory's latency.
    #: Threads of a block that has a copy of few places: as many as fit, since copies cost as well.
    copy_threads: int = 1024
    bin_bits: int = 15  #: Places of a bin, as a power of two: their claims fit into shared memory.
    fine_bits: int = 6  #: Bins of a coarse bin, as a power of two.
    bin_items: int = 8  #: Updates of a thread that are loaded together.
    bin_threads: int = 1024  #: Threads of a block that writes a bin.
    bin_registers: int | None = 64  #: Registers of such a thread, so that an SM holds the block.
    most_ranked: int = 2048  #: Points, up to which each is compared with all others instead of a sort.
    own_points: int = 128  #: Points of a block that looks at all others, too.
    own_threads: int = 512  #: Threads of such a block.
    long_fold: int = 256  #: Updates of a place, above which a block folds them, not a thread.
    folders: int = LANES  #: Threads of such a block that fold, an element each; the others load the next updates.
    loaded_words: int = 2048  #: Words that these load at a time.


H100 = Sizes()
#: Few threads, and small enough that small arrays reach every branch.
SIMULATOR = Sizes(
    tile_side=4,
    few_quads=8,
    most_copied=400,
    slice_loads=2,
    copy_threads=BLOCK,
    bin_bits=4,
    fine_bits=2,
    bin_items=3,
    bin_threads=BLOCK,
    bin_registers=None,
    most_ranked=30,
    own_points=4,
    own_threads=BLOCK,
    long_fold=5,
    folders=2,
    loaded_words=8,
)
SIZES = (H100, SIMULATOR)[SIMULATED]
#: Registers of a multiprocessor, and the threads that it should have, if a block has fewer.
REGISTERS, BUSY = 65536, 1024


def registers_of(threads: int) -> int:
    """Return how many registers a thread can have when blocks of this size are to keep a multiprocessor busy."""
    return REGISTERS // max(threads, BUSY)
