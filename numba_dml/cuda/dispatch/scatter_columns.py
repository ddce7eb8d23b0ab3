"""Scatters to columns of single elements: by threads, by blocks with claims in shared memory, or transposed."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any

from ..._core.regions import Region
from ..kernels import columns_block, columns_thread, transpose
from ..tuning.scatter import ScatterTuning
from .layouts import MOST_CLAIMED, Tile, TileNeeds, best_tile, elements_of, tile_of, worked_out
from .scatter_lines import column_plan


def tile_needs(facts: Any, tuning: ScatterTuning) -> TileNeeds:
    """Return what the kernel of columns in shared memory needs: claims; narrow rows waste more than in a gather."""
    least_row = tuning.moves.narrow_row_bytes if facts.element >= 4 else tuning.moves.least_row_bytes
    most_bytes = tuning.moves.shared_column_bytes
    return TileNeeds(columns_block.CLAIM_BYTES, most_bytes, least_row, tuning.claims_per_element)


@worked_out
def tile(facts: Any, tuning: ScatterTuning) -> Tile | None:
    """Return the best tile that is worth it, if there is one."""
    return best_tile(facts.columns, facts.element, tile_needs(facts, tuning), tuning.moves)


def tile_or_column(facts: Any, tuning: ScatterTuning) -> Tile:
    """Return the tile of a call: the best one, or where none is worth it a column for each block."""
    best: Tile | None = tile(facts, tuning)
    return best or tile_of(facts.columns, facts.element, 1, tile_needs(facts, tuning), tuning.moves)


def most_column_bytes(facts: Any, tuning: ScatterTuning) -> int:
    """Return how many bytes a column has at most that a thread has."""
    if not facts.reduces:
        return tuning.column_elements * facts.element
    return tuning.chained_column_bytes_in_l2 if facts.out_bytes <= tuning.l2_bytes else tuning.chained_column_bytes


def least_transposed(facts: Any, tuning: ScatterTuning) -> int:
    """Return how many elements columns have at least that are transposed: each part of one reads all its indices."""
    return 0 if facts.reduces else tuning.least_transposed * column_plan(facts, tuning).parts


def has_columns(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether points write to columns."""
    return facts.columns is not None


def columns_are_short(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether columns are short and many."""
    return (
        facts.points <= tuning.moves.most_points
        and (facts.reduces or facts.points >= tuning.moves.least_points)
        and facts.columns.columns >= tuning.moves.least_columns
        and facts.columns.matrices * facts.columns.columns >= tuning.moves.least_own_columns
        and facts.columns.size * facts.element <= most_column_bytes(facts, tuning)
    )


def column_claims_fit(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether updates replace each other in columns whose claims fit into shared memory."""
    return (
        not facts.reduces
        and facts.columns is not None
        and facts.columns.length <= MOST_CLAIMED
        and facts.columns.size * columns_block.CLAIM_BYTES <= facts.shared_bytes
    )


def tile_is_worth_it(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether blocks with the claims of columns in shared memory have enough to do."""
    return (
        tuning.moves.least_points <= facts.points <= tuning.moves.most_points
        and facts.columns.columns >= tuning.moves.least_columns
        and tile(facts, tuning) is not None
    )


def columns_can_be_transposed(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether columns fit into shared memory as lines; claims always do, in parts."""
    return (
        facts.columns is not None
        and (facts.reduces or facts.columns.length <= MOST_CLAIMED)
        and (not facts.reduces or column_plan(facts, tuning) is not None)
    )


def transposing_is_worth_it(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether columns are many, and most of each is updated, where L2 does not combine integers as fast."""
    return (
        facts.points <= tuning.moves.most_points
        and (facts.reduces or facts.points >= tuning.moves.least_points)
        and facts.columns.columns >= tuning.moves.least_columns
        and facts.columns.length * tuning.moves.elements_per_point >= facts.columns.size
        and (not facts.combined or facts.out_bytes > tuning.l2_bytes)
        and column_plan(facts, tuning).parts <= tuning.most_parts
        and elements_of(facts.columns) >= least_transposed(facts, tuning)
    )


BY_THREADS = Region(
    "columns by threads",
    columns_thread.scatter_columns_kernel,
    has_columns,
    columns_are_short,
    "columns are short and many: a thread has each, and goes through its updates in their order",
    "Columns by threads",
)
BY_BLOCKS = Region(
    "columns by blocks",
    columns_block.scatter_shared_kernel,
    column_claims_fit,
    tile_is_worth_it,
    "the last update of each place is found in shared memory, for some columns at a time",
    "Columns by blocks",
)
TRANSPOSED = Region(
    "columns transposed",
    transpose.turn_kernel,
    columns_can_be_transposed,
    transposing_is_worth_it,
    "columns are transposed in strips, and scattered to as lines",
    "Columns transposed",
)
