"""Scatters of any layout: how the last update of each place is found, or all of a place are combined."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any

from ..._core.regions import Region, always
from ..kernels import moves_units, scatter_claims, scatter_folds
from ..primitives.moves import claims as moves_claims
from ..tuning.moves import MoveTuning
from .layouts import SECTOR_BYTES

#: Points whose numbers fit into a claim of 4 bytes.
MOST_SHORT_CLAIMS = (1 << 31) - 1
#: Places times entries of a table: an entry holds the number of a place and that of a point.
MOST_TABLED = 1 << 63
#: Bytes of elements that are merged four at a time.
MERGED_AT_ONCE = (1, 2, 4)


def table_entries(facts: Any) -> int:
    """Return how many entries a table of claims has: a power of two, of which half stay empty or more."""
    return max(1 << (2 * facts.points - 1).bit_length(), moves_claims.ENTRIES)


def bytes_saved(facts: Any) -> int:
    """Return how many bytes less it takes to merge than to copy, and to write over the copy.

    Then the slices that are replaced are not copied, and no claim is looked up at random, of a sector each. If points
    are unique, claims come on top: each is set, raised and read once.
    """
    moved, looked_up = facts.points * facts.slice_bytes, SECTOR_BYTES * facts.points
    if facts.unique:
        return 2 * moved - looked_up - 2 * 4 * facts.places
    return 2 * moved + looked_up - 4 * facts.places


def places_per_merged(facts: Any, tuning: MoveTuning) -> int:
    """Return how many places an output has at most, for each point, whose small elements are merged."""
    if can_be_tabled(facts, tuning) and is_sparse(facts, tuning):
        return tuning.places_per_merged[facts.slice_bytes.bit_length() - 1]
    return tuning.places_per_merged_alone


def can_be_combined(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether the memory can combine updates."""
    return facts.combined


def is_reduction(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates are combined with what is there."""
    return facts.reduces


def can_be_merged(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates replace each other, in an output of its own that is nothing but places."""
    return not facts.reduces and facts.covered and not facts.in_place


def has_small_elements(facts: Any) -> bool:
    """Tell whether small elements are merged, four at a time, which takes little longer than a copy."""
    return not facts.unique and facts.slice_bytes in MERGED_AT_ONCE


def merging_is_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether points are many, if elements are small; if not, whether to copy first would move more bytes."""
    return (
        facts.points * places_per_merged(facts, tuning) >= facts.places
        if has_small_elements(facts)
        else bytes_saved(facts) > 0
    )


def points_are_few(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates replace each other, and points have numbers of 32 bits."""
    return not facts.reduces and facts.points <= MOST_SHORT_CLAIMS


def one_launch_is_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether all blocks look at all points sooner than there are launches that claim places, or look before."""
    return (
        facts.points <= tuning.few_points
        and facts.slice_bytes <= tuning.few_points_slice
        and (not facts.unique or (facts.in_place and facts.checked))
    )


def is_unique(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether no place is claimed twice."""
    return not facts.reduces and facts.unique


def can_be_tabled(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether an entry holds the numbers of a place and of a point."""
    return not facts.reduces and facts.places * table_entries(facts) <= MOST_TABLED


def is_sparse(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether so few places of a large output are claimed that a table of them is smaller than all claims."""
    return (
        any(
            facts.places >= sparse.least_places and facts.places > sparse.least_places_per_point * facts.points
            for sparse in tuning.sparse
        )
        and table_entries(facts) * moves_claims.ENTRY_BYTES <= facts.places * facts.claim_bytes
    )


def replaces(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates replace what is there."""
    return not facts.reduces


_COPIED = "the input is copied; then each update that is the last of its place is written"
COMBINED = Region(
    "combined by the memory",
    moves_units.scatter_kernel,
    can_be_combined,
    always,
    "as a rule the memory combines integers with what is there, in any order: the bits are the same",
    "Integers that the memory combines",
)
SORTED = Region(
    "sorted and folded",
    scatter_folds.fold_kernel,
    is_reduction,
    always,
    "updates are sorted by where they go, and combined in their order",
    "Reductions in order",
)
MERGED = Region(
    "merged",
    scatter_claims.merge_kernel,
    can_be_merged,
    merging_is_worth_it,
    "places are claimed by their last update; then the result is written in its order",
    "Merged outputs",
)
FEW_POINTS = Region(
    "few points",
    scatter_claims.few_points_kernel,
    points_are_few,
    one_launch_is_worth_it,
    "points are few: each block looks at all of them, to write those of its own that are the last of their places",
    "Few points",
)
UNIQUE = Region(
    "written at once",
    moves_units.scatter_kernel,
    is_unique,
    always,
    "the input is copied; then each update is written, since no two have one place",
    "Merged outputs",
)
TABLED = Region(
    "claims in a table",
    scatter_claims.entry_kernel,
    can_be_tabled,
    is_sparse,
    _COPIED,
    "Tables of claims",
)
CLAIMED = Region(
    "claims of all places",
    scatter_claims.claim_kernel,
    replaces,
    always,
    _COPIED,
    "Tables of claims",
)
TABLE = (COMBINED, SORTED, MERGED, FEW_POINTS, UNIQUE, TABLED, CLAIMED)
