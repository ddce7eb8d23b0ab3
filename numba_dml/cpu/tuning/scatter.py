"""Thresholds of scatters. The figures are in docs/measurements/cpumoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..._jit.machine import CACHE_LINE
from ..primitives.moves.updates import CACHED_BYTES
from . import moves


class ScatterTuning(NamedTuple):
    """Which kernel runs a scatter, and how threads share it."""

    #: Bytes of an output from which on it is written by non-temporal stores.
    stream_bytes: int = moves.TUNING.stream_bytes

    # Whether threads share a loop: each has its own part of the output, but they all read their part of every row.
    shared_iterations: int = 64  #: iterations of a loop over far places from which on threads share it
    #: Bytes of neighbouring places, times the threads, above which these share the loop over them: otherwise each
    #: thread reads all indices, which is the slower the more there are.
    near_bytes: int = 128 * CACHE_LINE
    #: Bytes of neighbouring places above which threads share the loop, however many they are (false sharing).
    least_near: int = 16 * CACHE_LINE
    #: Bytes of a row of a matrix from which on its updates are cut into strips, if they are many.
    least_cut: int = 6 * CACHE_LINE
    #: Bytes of an element up to which one cache line of a row is enough for that: it has many elements.
    small_item: int = 2
    #: Bytes of a slice from which on threads share every slice: a part of it is still many cache lines.
    shared_slice: int = 1 << 16

    # Strips: parts of the output that one thread copies and then updates while they are in a cache.
    strip_bytes: int = 1 << 18  #: bytes of a strip of an output that is one row
    small_tile: int = moves.TUNING.small_tile  #: bytes of a strip of a matrix, whose updates go through the same cache
    #: Bytes of a strip's row, unless a thread's part of a row has fewer: each row costs more than its points do.
    least_width: int = 256

    # A new output in the order of its places.
    place_bytes: int = 16  #: bytes of a slice from which on it pays to find the last update of each slice first
    #: Bytes of updates that there must be for each slice of the output: what is noted for each of them.
    noted_place: int = 4

    # Updates that are sorted by bins, strips of the output that stay in a cache.
    binned_bytes: int = 1 << 25  #: bytes of an output from which on single elements are sorted by bins
    #: The same where there is an update for every few elements (`strips.DENSE`), and more than one thread.
    dense_bytes: int = 10 << 20
    binned_part: int = 128  #: bytes of the output for each of which there must be an update
    bin_bytes: int = 1 << 18  #: bytes of a bin: more would not stay in the cache, fewer make too many bins
    most_bins: int = 1 << 10  #: bins; more cannot be written to in turn, so that bins become larger instead

    # A small output, of which each share of the points has a copy of its own.
    own_bytes: int = 1 << 20  #: bytes of such an output
    #: Points of a share for each element of the output: below it, the copies cost more than they save.
    updates_per_own: int = 4
    least_share: int = 1 << 12  #: points of a share
    least_shares: int = 4  #: shares that there must be ...
    combined_by_few: int = 1 << 18  #: ... unless updates are this many

    # In place, where every index is looked at before anything is written.
    #: Bytes of indices per byte of the output from which on a new output is made and copied instead.
    in_place_copy: int = 8
    least_copy: int = 1 << 15  #: bytes that an output counts as at least for that

    # One thread that writes alone: others wake first, and each of them reads all indices.
    alone_threads: int = 4  #: threads below which one alone writes single elements anywhere in a cached output
    alone_points: int = 1 << 15  #: points below which one alone does, however many threads there are
    alone_bytes: int = CACHED_BYTES  #: bytes of an output that counts as cached


#: The thresholds of every machine.
TUNING = ScatterTuning()
