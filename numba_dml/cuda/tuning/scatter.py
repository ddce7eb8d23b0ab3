"""Thresholds of scatters. The figures are in docs/measurements/cudamoves.md."""

from __future__ import annotations

from typing import NamedTuple

from ..driver.numba import SIMULATED
from . import moves


class Sparse(NamedTuple):
    """An output with few points: its places are claimed in a table."""

    least_places_per_point: int  #: Places; with fewer for each point the table is not smaller.
    least_places: int  #: Places of the output.


class ScatterTuning(NamedTuple):
    """Thresholds of one kind of GPU. A place is what one point may write; the last update of a place stays."""

    moves: moves.MoveTuning  #: What gathers share.

    # Lines, with claims and chains of updates in shared memory.
    least_line_bytes: int  #: Bytes of points or elements of a block; with fewer it is not worth its start.
    shared_lines_bytes: int  #: Bytes of shared memory, up to which a block has several short lines.
    staged_bytes: int  #: Bytes of claims and updates, up to which an SM has two blocks; else updates are left to L1.
    part_bytes: int  #: Bytes of the claims of a part of a line that is too long for one block.
    most_parts: int  #: Parts of a line, each of which goes through all of its indices.

    # Columns.
    l2_bytes: int  #: Bytes of an output that stays in L2.
    column_elements: int  #: Elements of a column that has a thread.
    chained_column_bytes: int  #: Bytes of such a column, if updates are combined in their order.
    chained_column_bytes_in_l2: int  #: The same if the output stays in L2.
    claims_per_element: float  #: Elements of a thread in shared memory, for each that it would have in a gather.
    least_transposed: int  #: Elements of a matrix, and of each part of it, from which on it is transposed.

    # Many updates of an output that is larger than L2, sorted into bins.
    least_binned_bytes: int  #: Bytes that are written to at a time, from which on updates are sorted.
    least_binned_claims: int  #: Bytes of their claims, from which on updates are sorted.
    places_per_binned_point: int  #: Places; with more for each point it is not worth sorting.
    counting_blocks: int  #: Blocks for each SM that count the updates of bins.

    # Few points, at all of which every block looks.
    most_few_points: int  #: Points; the number of one must fit into an entry beside that of its place.
    most_few_bytes: int  #: Bytes of an output that the blocks copy; a larger one is copied before.
    least_few_share: int  #: Bytes that a block copies at least.
    most_few_units: int  #: Units of a slice; one block writes all of a place, and is not to take longer than others.

    # Many updates of few places, of which every block has a copy.
    few_places_bytes: int  #: Bytes of such a copy, or of its claims, in shared memory.
    least_few_places_blocks: int  #: Blocks; with fewer copies the memory is as fast.
    updates_per_copy: int  #: Updates of a block for each element of its copy.

    # Claims.
    sparse: tuple[Sparse, ...]  #: Outputs of which few places are claimed: a table of these is smaller.
    places_per_merged: tuple[int, int, int]  #: Places for a point, up to which elements of 1, 2, 4 bytes are merged.
    places_per_merged_alone: int  #: The same if there is no table of claims.

    # Reductions in the order of the updates, which are sorted.
    most_short_pairs: int  #: Points and places, up to which a pair of their numbers takes 8 bytes, otherwise 16.
    folding_blocks: int  #: Blocks for each SM that fold places with many updates.


H100 = ScatterTuning(
    moves=moves.H100,
    least_line_bytes=2 << 10,
    shared_lines_bytes=36 << 10,
    staged_bytes=112 << 10,
    part_bytes=112 << 10,
    most_parts=4,
    l2_bytes=32 << 20,
    column_elements=8,
    chained_column_bytes=128,
    chained_column_bytes_in_l2=1024,
    claims_per_element=0.32,
    least_transposed=4 << 20,
    least_binned_bytes=96 << 20,
    least_binned_claims=64 << 20,
    places_per_binned_point=16,
    counting_blocks=3,
    most_few_points=2048,
    most_few_bytes=32 << 20,
    least_few_share=1 << 10,
    most_few_units=192,
    few_places_bytes=96 << 10,
    least_few_places_blocks=20,
    updates_per_copy=4,
    sparse=(Sparse(4, 1 << 23), Sparse(16, 3 << 20)),
    places_per_merged=(16, 20, 32),
    places_per_merged_alone=128,
    most_short_pairs=(1 << 32) - 1,
    folding_blocks=8,
)
SIMULATOR = ScatterTuning(
    moves=moves.SIMULATOR,
    least_line_bytes=8,
    shared_lines_bytes=96,
    staged_bytes=160,
    part_bytes=224,
    most_parts=4,
    l2_bytes=256,
    column_elements=6,
    chained_column_bytes=24,
    chained_column_bytes_in_l2=24,
    claims_per_element=0.32,
    least_transposed=8,
    least_binned_bytes=64,
    least_binned_claims=64,
    places_per_binned_point=16,
    counting_blocks=1,
    most_few_points=12,
    most_few_bytes=1000,
    least_few_share=24,
    most_few_units=40,
    few_places_bytes=100,
    least_few_places_blocks=1,
    updates_per_copy=2,
    sparse=(Sparse(4, 8),),
    places_per_merged=(16, 20, 32),
    places_per_merged_alone=128,
    most_short_pairs=50,
    folding_blocks=1,
)
TUNING = SIMULATOR if SIMULATED else H100
