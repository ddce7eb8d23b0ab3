"""Which kernels run a gather."""

# The facts of predicates are Any, so that mypy takes their results for Any.
# mypy: disable-error-code=no-any-return

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._core.regions import Region, always
from ..kernels import moves_columns, moves_lines, moves_units
from ..tuning.moves import MoveTuning
from .layouts import LayoutFacts, column_plan, columns_are_many, has_columns, layout_facts, line_plan, tile


@dataclass(frozen=True)
class Facts(LayoutFacts):
    """The numbers of a gather that the choice needs."""

    unit: int  #: Bytes of a unit, if the arrays are aligned as well as their steps.
    slice_bytes: int
    contiguous: bool  #: Slices are contiguous, and there are places for them.
    work: int  #: Bytes that are read and written.


def facts_of(call: Any) -> Facts:
    """Return the facts of a call."""
    has_places = all(size > 0 for size, _ in call.lowering.coordinates)  # else a warp has nothing to read instead
    contiguous = has_places and not call.outer and call.moved > 0
    return Facts(
        **layout_facts(call),
        unit=call.unit_width(0),
        slice_bytes=call.slice_bytes,
        contiguous=contiguous,
        work=call.work,
    )


def lines_fit(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether points read from lines that fit into shared memory."""
    return facts.lines is not None and line_plan(facts, tuning) is not None


def lines_are_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether blocks of lines have enough to do."""
    return (
        facts.points >= tuning.least_points
        and facts.lines.length * tuning.elements_per_point >= facts.lines.size
        and line_plan(facts, tuning).blocks >= tuning.least_blocks
        and line_plan(facts, tuning).bytes >= tuning.gather_line_bytes
    )


def columns_are_short(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether columns are short and many, in a matrix that does not stay in L2."""
    return (
        facts.points >= tuning.least_points
        and columns_are_many(facts, tuning)
        and facts.columns.bytes <= tuning.gathered_column_bytes[facts.element.bit_length() - 1]
        and facts.columns.columns * facts.columns.bytes >= tuning.least_gathered_matrix
    )


def columns_fit(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether a column fits into shared memory."""
    return facts.columns is not None and facts.columns.bytes <= facts.shared_bytes


def tile_is_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether blocks with columns in shared memory have enough to do, and are faster than L2."""
    return (
        facts.points >= tuning.least_points
        and facts.columns.columns >= tuning.least_columns
        and tile(facts, tuning) is not None
        and (facts.work >= tuning.most_in_l2 or tile(facts, tuning).cost <= tuning.most_cost)
        and (facts.work >= tuning.most_in_l2 or facts.columns.size >= tuning.least_column_in_l2)
    )


def transposed_columns_fit(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether a column fits into shared memory as a line."""
    return facts.columns is not None and column_plan(facts, tuning) is not None


def transposing_is_worth_it(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether the matrix does not stay in L2, and most of it is read."""
    return (
        facts.points >= tuning.least_points
        and facts.columns.columns >= tuning.least_columns
        and facts.columns.length * tuning.elements_per_point >= facts.columns.size
        and facts.columns.columns * facts.columns.bytes >= tuning.least_gathered_matrix
    )


def slices_are_contiguous(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether a warp can move slices, and count their bytes with 32 bits."""
    return facts.contiguous and facts.slice_bytes < moves_units.MOST_SLICE_BYTES


def units_are_narrow(facts: Any, tuning: MoveTuning) -> bool:
    """Tell whether finding the place of each unit would cost more than the memory."""
    return (
        facts.unit <= tuning.widest_narrow
        and facts.slice_bytes // facts.unit >= tuning.least_slice_units
        and facts.points >= tuning.least_warps
        and facts.points * facts.slice_bytes // facts.unit >= tuning.least_warp_units
    )


LINES = Region(
    "lines",
    moves_lines.gather_lines_kernel,
    lines_fit,
    lines_are_worth_it,
    "lines are read into shared memory, and gathered from there",
    "Lines",
)
COLUMNS_BY_THREADS = Region(
    "columns by threads",
    moves_columns.gather_columns_kernel,
    has_columns,
    columns_are_short,
    "columns are short and many: a thread has each",
    "Columns by threads",
)
COLUMNS_BY_BLOCKS = Region(
    "columns by blocks",
    moves_columns.gather_columns_kernel,
    columns_fit,
    tile_is_worth_it,
    "a block reads some columns into shared memory, and gathers from there",
    "Columns by blocks",
)
COLUMNS_TRANSPOSED = Region(
    "columns transposed",
    moves_columns.turn_kernel,
    transposed_columns_fit,
    transposing_is_worth_it,
    "columns are transposed in strips, and gathered from as lines",
    "Columns transposed",
)
SLICES_BY_WARPS = Region(
    "slices by warps",
    moves_units.gather_slices_kernel,
    slices_are_contiguous,
    units_are_narrow,
    "slices have narrow units: each lane of a warp finds the place of one, and all move neighbouring units",
    "Slices by warps",
)
UNITS = Region(
    "units",
    moves_units.gather_kernel,
    always,
    always,
    "threads move units of up to {facts.unit} bytes, and check each index",
    "Units of a thread",
)
TABLE = (LINES, COLUMNS_BY_THREADS, COLUMNS_BY_BLOCKS, COLUMNS_TRANSPOSED, SLICES_BY_WARPS, UNITS)
