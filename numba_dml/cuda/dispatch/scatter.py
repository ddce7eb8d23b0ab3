"""Which kernels run a scatter: rows for single elements, for few places or points, and for any layout."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.regions import Region
from ..kernels import scatter_binned, scatter_combine_few, scatter_few, scatter_units
from ..primitives.groups import QUAD_BYTES
from ..primitives.moves import claims as moves_claims
from ..tuning.scatter import ScatterTuning
from . import scatter_columns, scatter_general, scatter_lines
from .layouts import MOST_CLAIMED, Columns, Lines, layout_facts

#: Points and places whose numbers fit into an entry of a scatter of few points.
MOST_FEW_POINTS, MOST_NUMBERED = 1 << scatter_few.POINT_BITS, 1 << (62 - scatter_few.POINT_BITS)
#: Bins that can be sorted in two steps.
MOST_BINS = scatter_binned.SLOTS << scatter_binned.FINE_BITS


class Facts(NamedTuple):
    """The numbers of a scatter that the choice needs."""

    points: int  #: Tuples of indices.
    element: int  #: Bytes of the single elements that the points move, 0: they move other slices.
    lines: Lines | None
    columns: Columns | None
    shared_bytes: int  #: Bytes of shared memory that a block can have.
    known: dict[str, Any]  #: Numbers that were worked out from the others: `line_plan`, `column_plan` and `tile`.
    unit: int  #: Bytes of a unit, if the arrays are aligned as well as their steps.
    itemsize: int  #: Bytes of an element.
    slice_bytes: int
    out_bytes: int
    places: int  #: Places that a point may write, from the first to the last.
    covered: bool  #: The slices at all places are the whole output, one after the other.
    unique: bool  #: No two points have the same place.
    reduces: bool  #: Updates are combined with what is there.
    combined: bool  #: The memory can combine them, in any order.
    claim_bytes: int  #: Bytes of a claim, which holds the number of a point.


def facts_of(call: Any) -> Facts:
    """Return the facts of a call."""
    layout, low = layout_facts(call), call.lowering
    combined = low.reduction in scatter_units.COMBINED[0] and low.data_type in scatter_units.COMBINED[1]
    return Facts(
        *layout,
        unit=call.unit_width(0),
        itemsize=low.itemsize,
        slice_bytes=call.slice_bytes,
        out_bytes=call.out_bytes,
        places=call.places,
        covered=call.covered,
        unique=low.unique,
        reduces=call.reduces,
        combined=combined,
        claim_bytes=scatter_general.claim_bytes(layout.points),
    )


def blocks_with_copies(updates: int, elements: int, width: int, tuning: ScatterTuning) -> int:
    """Return how many blocks have a copy of all elements of a width; 0: updates are too few, or elements too many."""
    if not 0 < elements * width <= tuning.few_places_bytes:
        return 0
    blocks = min(tuning.moves.multiprocessors, updates // (tuning.updates_per_copy * elements))
    return blocks if blocks >= tuning.least_few_places_blocks else 0


def updates_of(facts: Any) -> int:
    """Return how many elements all updates have."""
    return facts.points * facts.slice_bytes // facts.itemsize


def copying_blocks(facts: Any, tuning: ScatterTuning) -> int:
    """Return how many blocks combine updates with a copy of the output; 0: it is not worth it."""
    return blocks_with_copies(updates_of(facts), facts.out_bytes // facts.itemsize, facts.itemsize, tuning)


def copy_bytes(facts: Any) -> int:
    """Return how many bytes of shared memory a copy of the output takes."""
    return -(-facts.out_bytes // QUAD_BYTES) * QUAD_BYTES


def bins_of(facts: Any) -> int:
    """Return how many bins the places have."""
    return -(-facts.places >> scatter_binned.BIN_BITS)


def places_at_a_time(facts: Any) -> int:
    """Return how many places are written to at a time: those of a line, if points go to one line after the other."""
    return facts.lines.size if facts.lines else facts.places


def claims_at_a_time(facts: Any) -> int:
    """Return how many bytes the claims of these take."""
    return 0 if facts.unique else places_at_a_time(facts) * facts.claim_bytes


def few_shared_bytes(points: int) -> int:
    """Return how many bytes of shared memory a block needs that looks at all of few points."""
    return scatter_general.table_size(points) * moves_claims.ENTRY_BYTES + points * scatter_few.LISTED_BYTES


def copies_few(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether the blocks of a scatter of few points copy what the updates leave."""
    return facts.covered and facts.out_bytes <= tuning.most_few_bytes


def places_can_be_copied(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether blocks can have a copy of an output of integers."""
    return (
        facts.combined
        and facts.covered
        and facts.points * facts.slice_bytes > 0
        and copy_bytes(facts) <= facts.shared_bytes
    )


def copies_are_worth_it(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether there are many updates for each element of a copy."""
    return copying_blocks(facts, tuning) > 0


def updates_can_be_binned(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether single elements replace each other, and the claims of a bin fit into shared memory."""
    return (
        not facts.reduces
        and facts.element > 0
        and facts.covered
        and facts.points <= MOST_CLAIMED
        and bins_of(facts) <= MOST_BINS
        and 4 * max(bins_of(facts), scatter_binned.BIN) <= facts.shared_bytes
    )


def binning_is_worth_it(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether updates are many, and L2 does not hold all places that are written to at a time, or their claims."""
    return (
        facts.points <= tuning.moves.most_points
        and facts.points * tuning.places_per_binned_point >= facts.places
        and (
            places_at_a_time(facts) * facts.element >= tuning.least_binned_bytes
            or claims_at_a_time(facts) >= tuning.least_binned_claims
        )
    )


def points_fit_into_blocks(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether the entries of all points fit into shared memory."""
    return (
        not facts.reduces
        and facts.points > 0
        and facts.slice_bytes > 0
        and facts.points <= MOST_FEW_POINTS
        and facts.places < MOST_NUMBERED
        and few_shared_bytes(facts.points) + QUAD_BYTES <= facts.shared_bytes
    )


def points_are_few(facts: Any, tuning: ScatterTuning) -> bool:
    """Tell whether points are few, of slices with few units; unique ones alone are written at once."""
    return (
        facts.points <= tuning.most_few_points
        and (not facts.unique or copies_few(facts, tuning))
        and facts.slice_bytes // facts.unit <= tuning.most_few_units
    )


FEW_PLACES = Region(
    "few places",
    scatter_combine_few.combine_few_kernel,
    places_can_be_copied,
    copies_are_worth_it,
    "the output is small: each block combines integers with one of its own first, in any order",
    "Few places",
)
BINNED = Region(
    "bins",
    scatter_binned.apply_kernel,
    updates_can_be_binned,
    binning_is_worth_it,
    "many single elements of a large array: they are sorted by where they go first",
    "Bins",
)
FEW_POINTS = Region(
    "few points",
    scatter_few.own_places_kernel,
    points_fit_into_blocks,
    points_are_few,
    "points are few: each block looks at all of them, and copies and writes its own part",
    "Few points",
)
TABLE = (
    scatter_lines.COMBINED,
    scatter_lines.CLAIMED,
    scatter_lines.CHAINED,
    FEW_PLACES,
    scatter_columns.BY_THREADS,
    scatter_columns.BY_BLOCKS,
    scatter_columns.TRANSPOSED,
    BINNED,
    FEW_POINTS,
    *scatter_general.TABLE,
)
