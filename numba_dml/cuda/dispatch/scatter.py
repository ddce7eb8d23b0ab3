"""Which kernels run a scatter: rows for lines, columns, few places and bins, and those for any layout."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._core.regions import Region
from ..kernels import moves_columns, moves_lines, moves_units, scatter_binned, scatter_combine_few
from ..tuning.moves import MoveTuning
from . import scatter_general
from .layouts import LayoutFacts, column_plan, columns_are_many, has_columns, layout_facts, line_plan, tile

#: Bins that can be sorted in two steps.
MOST_BINS = scatter_binned.SLOTS << scatter_binned.FINE_BITS


@dataclass(frozen=True)
class Facts(LayoutFacts):
    """The numbers of a scatter that the choice needs."""

    unit: int  #: Bytes of a unit, if the arrays are aligned as well as their steps.
    itemsize: int  #: Bytes of an element.
    slice_bytes: int
    out_bytes: int
    places: int  #: Places that a point may write, from the first to the last.
    covered: bool  #: The slices at all places are the whole output, one after the other.
    unique: bool  #: No two points have the same place.
    checked: bool  #: A bad index is an error: in place nothing is written then.
    in_place: bool  #: The old elements are where the output is.
    reduces: bool  #: Updates are combined with what is there.
    combined: bool  #: The memory can combine them, in any order.
    claim_bytes: int  #: Bytes of a claim, which holds the number of a point.


def facts_of(call: Any) -> Facts:
    """Return the facts of a call."""
    low = call.lowering
    combined = low.reduction in moves_units.COMBINED[0] and low.data_type in moves_units.COMBINED[1]
    return Facts(
        **layout_facts(call),
        unit=call.unit_width(0),
        itemsize=low.itemsize,
        slice_bytes=call.slice_bytes,
        out_bytes=call.out_bytes,
        places=call.places,
        covered=call.covered,
        unique=low.unique,
        checked=call.checked,
        in_place=False,
        reduces=call.reduces,
        combined=combined,
        claim_bytes=4 if call.points <= scatter_general.MOST_SHORT_CLAIMS else 8,
    )


def lines_are_apart(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether points write to lines, no two of which are the same elements, that fit into shared memory."""
    return facts.lines is not None and facts.lines.apart and line_plan(facts, tuning) is not None


def lines_can_be_combined(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether integers go to lines that fit into shared memory."""
    return facts.combined and lines_are_apart(facts, tuning)


def combined_lines_are_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether blocks of lines have enough to do."""
    return (
        line_plan(facts, tuning).blocks >= tuning.least_blocks
        and lines_are_dense(facts, tuning)
        and line_plan(facts, tuning).bytes >= tuning.scatter_line_bytes
    )


def lines_can_be_claimed(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates that replace each other go to lines whose claims fit into shared memory."""
    return (
        not facts.reduces and lines_are_apart(facts, tuning) and facts.lines.length <= scatter_general.MOST_SHORT_CLAIMS
    )


def lines_are_dense(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether points are many beside the elements of their lines."""
    return facts.lines.length * tuning.elements_per_point >= facts.lines.size


def claimed_lines_are_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether blocks of lines have enough to do, or so little that one launch is sooner done than three."""
    return (
        (not facts.in_place or lines_are_dense(facts, tuning))
        and line_plan(facts, tuning).parts <= tuning.most_parts
        and (
            max(facts.out_bytes, facts.points * facts.itemsize) <= tuning.one_launch_bytes
            or claimed_blocks_are_busy(facts, tuning)
        )
    )


def claimed_blocks_are_busy(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether blocks of lines have enough to do."""
    return (
        facts.points >= tuning.least_points
        and line_plan(facts, tuning).blocks >= tuning.least_blocks
        and line_plan(facts, tuning).bytes >= tuning.scatter_line_bytes
    )


def lines_can_be_chained(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates go to lines whose chains fit into shared memory."""
    return facts.reduces and not facts.combined and lines_are_apart(facts, tuning)


def chained_lines_are_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether most of the lines is updated: else a sort is faster."""
    return lines_are_dense(facts, tuning) and line_plan(facts, tuning).parts <= tuning.most_parts


def blocks_with_copies(updates: int, elements: int, width: int, tuning: MoveTuning) -> int:
    """Return how many blocks have a copy of all elements of a width; 0: updates are too few, or elements too many."""
    if not 0 < elements * width <= tuning.few_places_bytes:
        return 0
    blocks = min(tuning.multiprocessors, updates // (tuning.updates_per_copy * elements))
    return blocks if blocks >= tuning.least_few_places_blocks else 0


def updates_of(facts: Any) -> int:
    """Return how many elements all updates have."""
    return facts.points * facts.slice_bytes // facts.itemsize


def copying_blocks(facts: Any, tuning: MoveTuning) -> int:
    """Return how many blocks combine updates with a copy of the output; 0: it is not worth it."""
    return blocks_with_copies(updates_of(facts), facts.out_bytes // facts.itemsize, facts.itemsize, tuning)


def places_can_be_copied(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether blocks can have a copy of an output of integers."""
    return (
        facts.combined
        and facts.covered
        and facts.points * facts.slice_bytes > 0
        and facts.out_bytes <= facts.shared_bytes
    )


def copies_are_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether there are many updates for each element of a copy."""
    return copying_blocks(facts, tuning) > 0


def most_column_bytes(facts: Any, tuning: MoveTuning) -> int:
    """Return how many bytes a column has at most that a thread has."""
    if not facts.reduces:
        return tuning.scattered_column * facts.element
    return tuning.chained_column_bytes_in_l2 if facts.out_bytes <= tuning.l2_bytes else tuning.chained_column_bytes


def columns_are_short(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether columns are short and many."""
    return (
        (facts.reduces or facts.points >= tuning.least_points)
        and columns_are_many(facts, tuning)
        and facts.columns.bytes <= most_column_bytes(facts, tuning)
    )


def column_claims_fit(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates replace each other in columns whose claims fit into shared memory."""
    return (
        not facts.reduces
        and facts.columns is not None
        and facts.columns.length <= scatter_general.MOST_SHORT_CLAIMS
        and facts.columns.size * facts.kept_bytes <= facts.shared_bytes
    )


def tile_is_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether blocks with the claims of columns in shared memory have enough to do."""
    return (
        facts.points >= tuning.least_points
        and facts.columns.columns >= tuning.least_columns
        and tile(facts, tuning) is not None
    )


def columns_can_be_transposed(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether columns fit into shared memory as lines; claims always do, in parts."""
    return (
        facts.columns is not None
        and (facts.reduces or facts.columns.length <= scatter_general.MOST_SHORT_CLAIMS)
        and column_plan(facts, tuning) is not None
    )


def least_transposed(facts: Any, tuning: MoveTuning) -> int:
    """Return how many elements columns have at least that are transposed: each part of one reads all its indices."""
    return 0 if facts.reduces else tuning.least_scattered_matrix * column_plan(facts, tuning).parts


def transposing_is_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether columns are many, and most of each is updated, where L2 does not combine integers as fast."""
    return (
        (facts.reduces or facts.points >= tuning.least_points)
        and facts.columns.columns >= tuning.least_columns
        and facts.columns.length * tuning.elements_per_point >= facts.columns.size
        and (not facts.combined or facts.out_bytes > tuning.l2_bytes)
        and column_plan(facts, tuning).parts <= tuning.most_parts
        and facts.columns.elements >= least_transposed(facts, tuning)
    )


def bins_of(facts: Any) -> int:
    """Return how many bins the places have."""
    return -(-facts.places >> scatter_binned.BIN_BITS)


def places_at_a_time(facts: Any) -> int:
    """Return how many places are written to at a time: those of a line, if points go to one line after the other."""
    return facts.lines.size if facts.lines else facts.places


def claims_at_a_time(facts: Any) -> int:
    """Return how many bytes the claims of these take."""
    return 0 if facts.unique else places_at_a_time(facts) * facts.claim_bytes


def updates_can_be_binned(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether single elements replace each other, and the claims of a bin fit into shared memory."""
    return (
        not facts.reduces
        and facts.element > 0
        and facts.covered
        and facts.points <= scatter_general.MOST_SHORT_CLAIMS
        and bins_of(facts) <= MOST_BINS
        and 4 * max(bins_of(facts), scatter_binned.BIN) <= facts.shared_bytes
    )


def binning_is_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether updates are many, and L2 does not hold all places that are written to at a time, or their claims."""
    return facts.points * tuning.places_per_binned_point >= facts.places and (
        places_at_a_time(facts) * facts.element >= tuning.least_binned_bytes
        or claims_at_a_time(facts) >= tuning.least_binned_claims
    )


LINES_COMBINED = Region(
    "lines combined in any order",
    moves_lines.scatter_lines_kernel,
    lines_can_be_combined,
    combined_lines_are_worth_it,
    "lines are read into shared memory, and integers combined there in any order: the bits are the same",
    "Lines",
)
LINES_CLAIMED = Region(
    "lines by their last updates",
    moves_lines.scatter_lines_kernel,
    lines_can_be_claimed,
    claimed_lines_are_worth_it,
    "the last update of each place is found in shared memory, then lines are written in their order",
    "Lines",
)
LINES_CHAINED = Region(
    "lines combined in order",
    moves_lines.scatter_lines_kernel,
    lines_can_be_chained,
    chained_lines_are_worth_it,
    "the updates of each place are chained in shared memory, then lines are combined with theirs in their order",
    "Lines",
)
FEW_PLACES = Region(
    "few places",
    scatter_combine_few.combine_few_kernel,
    places_can_be_copied,
    copies_are_worth_it,
    "the output is small: each block combines integers with one of its own first, in any order",
    "Few places",
)
COLUMNS_BY_THREADS = Region(
    "columns by threads",
    moves_columns.scatter_columns_kernel,
    has_columns,
    columns_are_short,
    "columns are short and many: a thread has each, and goes through its updates in their order",
    "Columns by threads",
)
COLUMNS_BY_BLOCKS = Region(
    "columns by blocks",
    moves_columns.scatter_columns_kernel,
    column_claims_fit,
    tile_is_worth_it,
    "the last update of each place is found in shared memory, for some columns at a time",
    "Columns by blocks",
)
COLUMNS_TRANSPOSED = Region(
    "columns transposed",
    moves_columns.turn_kernel,
    columns_can_be_transposed,
    transposing_is_worth_it,
    "columns are transposed in strips, and scattered to as lines",
    "Columns transposed",
)
BINNED = Region(
    "bins",
    scatter_binned.apply_kernel,
    updates_can_be_binned,
    binning_is_worth_it,
    "many single elements of a large array: they are sorted by where they go first",
    "Bins",
)
TABLE = (
    LINES_COMBINED,
    LINES_CLAIMED,
    LINES_CHAINED,
    FEW_PLACES,
    COLUMNS_BY_THREADS,
    COLUMNS_BY_BLOCKS,
    COLUMNS_TRANSPOSED,
    BINNED,
    *scatter_general.TABLE,
)
