"""Thresholds of scatters. The figures are in docs/measurements/cpumoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..._jit.machine import CACHE_LINE
from ..primitives.moves.updates import CACHED_BYTES
from . import moves


class ScatterTuning(NamedTuple):
    """Which kernel runs a scatter, and how threads share it."""

    #: Bytes of an output from which on it is written by non-temporal stores.
    stream_bytes: int

    # Whether threads share a loop: each has its own part of the output, but they all read their part of every row.
    #: Iterations of a loop over far places from which on threads share it.
    shared_iterations: int
    #: Bytes of neighbouring places, times the threads, above which these share the loop over them: otherwise each
    #: thread reads all indices, which is the slower the more there are.
    near_bytes: int
    #: Bytes of neighbouring places above which threads share the loop, however many they are (false sharing).
    least_near: int
    #: Bytes of a row of a matrix from which on its updates are cut into strips, if they are many.
    least_cut: int
    #: Bytes of an element up to which one cache line of a row is enough for that: it has many elements.
    small_item: int
    #: Bytes of a slice from which on threads share every slice: a part of it is still many cache lines.
    shared_slice: int

    # Strips: parts of the output that one thread copies and then updates while they are in a cache.
    #: Bytes of a strip of an output that is one row.
    strip_bytes: int
    #: Bytes of a strip of a matrix, whose updates go through the same cache.
    small_tile: int
    #: Bytes of a strip's row, unless a thread's part of a row has fewer: each row costs more than its points do.
    least_width: int

    # A new output in the order of its places.
    #: Bytes of a slice from which on it pays to find the last update of each slice first.
    place_bytes: int
    #: Bytes of updates that there must be for each slice of the output: what is noted for each of them.
    noted_place: int

    # Updates that are sorted by bins, strips of the output that stay in a cache.
    #: Bytes of an output from which on single elements are sorted by bins.
    binned_bytes: int
    #: The same where there is an update for every few elements (`strips.SPARSE`), and more than one thread.
    dense_bytes: int
    #: Bytes of the output for each of which there must be an update.
    binned_part: int
    #: Bytes of a bin: more would not stay in the cache, fewer make too many bins.
    bin_bytes: int
    #: Bins; more cannot be written to in turn, so that bins become larger instead.
    most_bins: int

    # A small output, of which each share of the points has a copy of its own.
    #: Bytes of such an output.
    own_bytes: int
    #: Points of a share for each element of the output: below it, the copies cost more than they save.
    updates_per_own: int
    #: Points of a share.
    least_share: int
    #: Shares that there must be ...
    least_shares: int
    #: ... unless updates are this many.
    combined_by_few: int

    # In place, where every index is looked at before anything is written.
    #: Bytes of indices per byte of the output from which on a new output is made and copied instead.
    in_place_copy: int
    #: Bytes that an output counts as at least for that.
    least_copy: int

    # One thread that writes alone: others wake first, and each of them reads all indices.
    #: Threads below which one alone writes single elements anywhere in a cached output.
    alone_threads: int
    #: Points below which one alone does, however many threads there are.
    alone_points: int
    #: Bytes of an output that counts as cached.
    alone_bytes: int


#: The thresholds of every machine.
TUNING = ScatterTuning(
    stream_bytes=moves.TUNING.stream_bytes,
    shared_iterations=64,
    near_bytes=128 * CACHE_LINE,
    least_near=16 * CACHE_LINE,
    least_cut=6 * CACHE_LINE,
    small_item=2,
    shared_slice=1 << 16,
    strip_bytes=1 << 18,
    small_tile=moves.TUNING.small_tile,
    least_width=256,
    place_bytes=16,
    noted_place=4,
    binned_bytes=1 << 25,
    dense_bytes=10 << 20,
    binned_part=128,
    bin_bytes=1 << 18,
    most_bins=1 << 10,
    own_bytes=1 << 20,
    updates_per_own=4,
    least_share=1 << 12,
    least_shares=4,
    combined_by_few=1 << 18,
    in_place_copy=8,
    least_copy=1 << 15,
    alone_threads=4,
    alone_points=1 << 15,
    alone_bytes=CACHED_BYTES,
)
