"""Which kernel runs a gather, and in which tiles. Python calls these functions, and jitted callers compile them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.regions import Region, always
from ..._core.shapes import COORD_FIELDS, LOOP_FIELDS
from ..._jit.machine import CACHE_LINE
from ..kernels.gather import gather_kernel
from ..primitives.moves import plan as moves_plan
from ..tuning.gather import GatherTuning


class Facts(NamedTuple):
    """The numbers that decide how a gather runs. A row is the points of the innermost loop."""

    points: int  #: slices that are moved, one per tuple of indices
    slice_bytes: int  #: bytes of a slice, which is contiguous
    coordinates: int  #: indices of a tuple
    loops: int  #: nested loops over the points
    length: int  #: points of a row
    step: int  #: bytes in the data from one point of a row to the next, without their indices
    index_step: int  #: elements of the indices from one point of a row to the next; 0: all have one tuple
    outer_step: int  #: bytes in the data from one iteration of the outermost loop to the next
    rows_share_indices: bool  #: whether there are several rows, and all have the same indices
    places: int  #: how many places in the data tuples of indices can lead to
    place_step: int  #: bytes in the data from one value of the first index to the next
    data_bytes: int  #: bytes of the data that can be touched
    output_bytes: int  #: bytes of the output


def facts_of(plan: Any) -> Facts:
    """Return the facts of a gather that has this plan."""
    last = moves_plan.HEADER + LOOP_FIELDS * (plan[moves_plan.LOOPS] - 1)
    coordinate = last + LOOP_FIELDS
    rows_share_indices = plan[moves_plan.LOOPS] > 1 and plan[last + 2] != 0
    for loop in range(plan[moves_plan.LOOPS] - 1):
        index_step = plan[moves_plan.HEADER + LOOP_FIELDS * loop + 2]
        rows_share_indices = rows_share_indices and index_step == 0
    places = 1
    for i in range(plan[moves_plan.COORDS]):
        places *= plan[coordinate + COORD_FIELDS * i]
    return Facts(
        plan[moves_plan.POINTS],
        plan[moves_plan.PACKED_BYTES] // max(plan[moves_plan.POINTS], 1),
        plan[moves_plan.COORDS],
        plan[moves_plan.LOOPS],
        plan[last],
        plan[last + 1],
        plan[last + 2],
        plan[moves_plan.HEADER + 1],
        rows_share_indices,
        places,
        plan[coordinate + 1],
        plan[moves_plan.HIGH] - plan[moves_plan.LOW],
        plan[moves_plan.PACKED_BYTES],
    )


TABLE: tuple[Region, ...] = (
    Region(
        "general",
        gather_kernel,
        always,
        always,
        "each slice of {facts.slice_bytes} bytes moves at once, after the bounds of a block of indices are checked",
        "Slices have loops of their own by length",
    ),
)


def row_ahead(facts: Facts, tuning: GatherTuning) -> int:
    """Return the bytes of the next row of data that each row prefetches; 0: none, or too many."""
    several = facts.loops > 1 and facts.coordinates == 1 and facts.index_step != 0 and facts.step == 0
    row = facts.places * facts.place_step
    return row if several and 0 < row <= min(tuning.row_ahead_bytes, CACHE_LINE * facts.length) else 0


def tile_of(facts: Facts, tuning: GatherTuning) -> int:
    """Return how many points of each row are gathered together, for all rows, 0: go row by row.

    Along the last axis the elements that a row reaches are neighbours. Along another axis each index leads to another
    row of data; then narrow tiles, parts of all rows, stay in a cache.
    """
    step, places = facts.step, facts.places
    along_rows = facts.index_step != 0 and step == facts.slice_bytes
    if facts.loops == 1 or facts.rows_share_indices or not along_rows or facts.length * step < tuning.tile_row:
        return 0
    tile = tuning.tile_bytes
    if places * facts.length * step <= tile or places * tuning.least_tile * step > tile:
        return 0
    return max(tile // (places * step), CACHE_LINE // step)


def packed_tile(facts: Facts, tuning: GatherTuning) -> int:
    """Return how many points of each row are gathered together from a copy of their tile, 0: it is not copied.

    It pays where the rows of a matrix conflict in a cache, or the L2 is small. `tile_of` has found tiles.
    """
    if facts.loops != 2 or facts.coordinates != 1 or facts.outer_step != 0:
        return 0
    step, elements = facts.step, facts.places * facts.length
    conflict = facts.place_step % tuning.conflict_bytes == 0 or tuning.packs_all_tiles
    apart = abs(facts.place_step) >= facts.length * step
    dense = tuning.packed_part * facts.points >= elements
    large = elements * step > tuning.packed_tiles * tuning.small_tile
    line = max(CACHE_LINE // step, 1)
    width = tuning.small_tile // (facts.places * step * line) * line
    return width if conflict and apart and dense and large and width >= tuning.packed_width else 0


def plan_gather(plan: Any, facts: Facts, tuning: GatherTuning) -> None:
    """Set the numbers of a plan that thresholds decide."""
    plan[moves_plan.FILLED] = 1
    plan[moves_plan.STREAM] = facts.output_bytes >= tuning.stream_bytes
    plan[moves_plan.CACHED] = 2 * facts.data_bytes <= tuning.l2_bytes
    plan[moves_plan.COMMON] = facts.rows_share_indices and facts.length <= tuning.common_points
    plan[moves_plan.AHEAD] = row_ahead(facts, tuning)
    tile = tile_of(facts, tuning)
    packed = packed_tile(facts, tuning) if tile > 0 else 0
    plan[moves_plan.TILE] = packed if packed > 0 else tile
    plan[moves_plan.PACKS] = facts.places * min(packed, facts.length) * facts.step
