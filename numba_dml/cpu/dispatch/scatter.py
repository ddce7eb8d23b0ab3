"""Which kernel runs a scatter, how threads share it, and in which strips or bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..._core.lowering import Move
from ..._core.regions import Region, always
from ..._core.tensor import packed_strides
from ..._jit.machine import CACHE_LINE
from ..kernels.scatter import scatter_kernel
from ..kernels.scatter_binned import bins_kernel
from ..kernels.scatter_own import own_kernel
from ..kernels.scatter_places import places_kernel
from ..primitives.moves.plan import BY_POINT, BY_SLICE, BY_WINDOW
from ..primitives.moves.strips import DENSE
from ..tuning.scatter import ScatterTuning

#: Kernels that note elements or updates by number have 31 bits for each.
NUMBERS = 1 << 31


class Facts(NamedTuple):
    """The numbers that decide how a scatter runs. An update is a slice, which an index or a tuple of them places."""

    points: int  #: updates
    moved: int  #: bytes of all updates
    slice_bytes: int  #: bytes of an update
    units: int  #: units that an update is written in; 1: it is a single element
    itemsize: int  #: bytes of an element
    whole: int  #: bytes of the output
    span: int  #: bytes of the output from the first place that an update can start at to the last
    index_bytes: int  #: bytes of all indices
    raises: bool  #: whether an index out of range is an error
    unique: bool  #: whether the caller promised that no two updates have one place
    reduces: bool  #: whether updates are combined with what is there
    in_order: bool  #: whether another order of the updates gives other bits: sums and products of floats
    copies: bool  #: whether the kernel can copy the input to a new output: both are packed
    split: int  #: the loop that threads share, so that no place has two writers; or BY_WINDOW, BY_SLICE or BY_POINT
    period: int  #: bytes after which the places of that loop repeat; 0: no loop is shared
    threads: int  #: threads that there can be


# How threads share a scatter.


def split_of(lowering: Move, moved: int, slice_bytes: int, whole: int, threads: int, tuning: ScatterTuning) -> int:
    """Return the longest loop that is worth sharing among threads, or how else they share the work."""
    found = []
    for loop, (size, stride, _, _) in enumerate(lowering.loops):
        if abs(stride) >= CACHE_LINE:
            shares = _shares_far(size, slice_bytes, threads, tuning)
        else:
            shares = _shares_near(lowering, size * abs(stride), moved, whole, threads, tuning)
        if shares:
            found.append((size, loop))
    return max(found)[1] if found else split_without_loop(lowering.unique, slice_bytes, tuning)


def split_without_loop(unique: bool, slice_bytes: int, tuning: ScatterTuning) -> int:
    """Return how threads share the work where they share no loop."""
    if unique:
        return BY_POINT
    return BY_SLICE if slice_bytes >= tuning.shared_slice else BY_WINDOW


def _shares_far(size: int, slice_bytes: int, threads: int, tuning: ScatterTuning) -> bool:
    """Return whether threads share a loop of `size` iterations, which write to cache lines of their own.

    They do if there are many iterations; or if at most a quarter of the threads' time is idle, and slices are short: a
    new output of few long slices is written faster in its own order.
    """
    busy = 4 * size >= 3 * threads * -(-size // threads) > 0
    return size >= tuning.shared_iterations or (busy and slice_bytes < tuning.place_bytes)


def _shares_near(lowering: Move, near: int, moved: int, whole: int, threads: int, tuning: ScatterTuning) -> bool:
    """Return whether threads share a loop whose iterations write to `near` neighbouring bytes.

    Rows of a matrix are cut if they have a few cache lines and updates are many: they are done in strips.
    """
    if near and DENSE * moved >= whole and [size for size, _ in lowering.coordinates] == [whole // near]:
        least = CACHE_LINE if lowering.itemsize <= tuning.small_item else tuning.least_cut
        return near >= least and (threads > 1 or whole > tuning.small_tile)
    return near > max(tuning.near_bytes // threads, tuning.least_near)


def period_of(lowering: Move, split: int, shape: Sequence[int], whole: int) -> int:
    """Return the bytes after which the places that the iterations of a shared loop write to repeat."""
    if split < 0:
        return 0
    size, step, _, _ = lowering.loops[split]
    strides = packed_strides(shape, lowering.itemsize)
    return min([stride for stride in strides if stride > (size - 1) * step], default=max(whole, 1))


def writes_alone(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether one thread writes single elements that go anywhere sooner than several.

    Other threads must be woken, and each of them reads all indices.
    """
    if facts.units != 1 or facts.split >= 0:
        return False
    few_threads = facts.threads < tuning.alone_threads
    if facts.span > tuning.alone_bytes:  # no cache holds it
        return few_threads and not facts.unique
    dense_sums = facts.reduces and facts.points * facts.itemsize > facts.span
    return facts.unique or few_threads or facts.points < tuning.alone_points or dense_sums


# What each kernel needs, and what it is for.


def fits_numbers(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether updates are single elements of a packed output, and numbers of 31 bits tell all apart."""
    return (
        facts.copies
        and facts.units == 1
        and facts.points < NUMBERS
        and facts.whole < NUMBERS * facts.itemsize  # elements of the output
    )


def can_go_by_places(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether a new output can be written in its own order."""
    return (
        facts.copies
        and not facts.reduces
        and facts.slice_bytes > 0
        and facts.points < NUMBERS
        and facts.whole // facts.slice_bytes < NUMBERS
    )


def has_slices_for_places(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether that is best: slices are long, and together outweigh what is noted for each place."""
    return (
        facts.split in (BY_WINDOW, BY_POINT)
        and facts.slice_bytes >= tuning.place_bytes
        and tuning.noted_place * facts.whole // facts.slice_bytes <= facts.moved
    )


def is_dense(facts: Facts) -> bool:
    """Return whether there is an update for every few elements."""
    return DENSE * facts.moved >= facts.whole


def least_binned(facts: Facts, tuning: ScatterTuning) -> int:
    """Return from how many bytes of the output on its updates are sorted by bins."""
    return tuning.dense_bytes if is_dense(facts) and facts.threads > 1 else tuning.binned_bytes


def has_much_to_sort(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether updates are best sorted by bins: many go anywhere in an output that no cache holds."""
    return (
        facts.split == BY_WINDOW
        and facts.whole >= least_binned(facts, tuning)
        and facts.points * tuning.binned_part >= facts.whole
    )


def can_own_outputs(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether shares of the updates can be combined later, because any order gives the same bits."""
    return facts.copies and facts.units == 1 and facts.whole > 0 and facts.reduces and not facts.in_order


def shares_of(facts: Facts, tuning: ScatterTuning) -> int:
    """Return how many shares of the updates would have an output of their own."""
    updates = max(tuning.updates_per_own * (facts.whole // facts.itemsize), tuning.least_share)
    return max(min(facts.threads, facts.points // updates), 1)


def has_enough_shares(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether there are shares enough to outweigh the copies."""
    shares = shares_of(facts, tuning)
    by_few = shares > 1 and facts.points >= tuning.combined_by_few
    return shares >= tuning.least_shares or by_few


def has_small_output(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether the output is small and updates are many, so that each share has a copy of it."""
    return (
        facts.split == BY_WINDOW
        and facts.points >= tuning.least_share
        and facts.whole <= tuning.own_bytes
        and has_enough_shares(facts, tuning)
    )


def has_shared_loop(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether there is a loop that threads share."""
    return facts.split >= 0


TABLE: tuple[Region, ...] = (
    Region(
        "places",
        places_kernel,
        can_go_by_places,
        has_slices_for_places,
        "a new result is written in its own order, each slice by the last of its updates",
        "A new output in the order of its places",
    ),
    Region(
        "bins",
        bins_kernel,
        fits_numbers,
        has_much_to_sort,
        "many updates of a large result: they are sorted by where they go first",
        "Updates that are sorted by bins",
    ),
    Region(
        "own",
        own_kernel,
        can_own_outputs,
        has_small_output,
        "the result is small: each share of the updates has one of its own first",
        "A small output for each share",
    ),
    Region(
        "strips",
        scatter_kernel,
        has_shared_loop,
        always,
        "no update leaves its strip of the result: strip by strip, it is copied, then updated in order",
        "Strips of a matrix",
    ),
    Region(
        "general",
        scatter_kernel,
        always,
        always,
        "the input is copied, then updated in the order of the updates",
        "Windows of an output",
    ),
)


# The numbers of a region's plan.


def strip_of(facts: Facts, tuning: ScatterTuning) -> int:
    """Return the bytes of a strip of an output that is cut along the shared loop."""
    return tuning.strip_bytes if facts.whole <= facts.period else tuning.small_tile


def bin_of(facts: Facts, tuning: ScatterTuning) -> int:
    """Return the bytes of a bin, a power of two."""
    size = tuning.bin_bytes
    while size * tuning.most_bins < facts.whole:
        size *= 2
    return size


def prefers_copy(facts: Facts, tuning: ScatterTuning) -> bool:
    """Return whether, in place, it is faster to write a copy and copy it back than to check all indices first."""
    least = tuning.in_place_copy * max(facts.whole, tuning.least_copy)
    return facts.raises and facts.copies and facts.index_bytes > least
