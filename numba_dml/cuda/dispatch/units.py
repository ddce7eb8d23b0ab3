"""How the general kernels move units, the bytes that a thread moves at once: their width is known at a launch."""

from __future__ import annotations

from typing import NamedTuple

from ..._core.regions import Region, always
from ..primitives.moves import places, slices
from ..tuning.moves import MoveTuning


class Facts(NamedTuple):
    """The numbers of a launch that the choice needs."""

    width: int  #: Bytes of a unit.
    units: int  #: Units in all.
    slices: int  #: Slices in all.
    contiguous: bool  #: Slices are contiguous, there are places for them, and they are moved as they are.


def slice_units(facts: Facts) -> int:
    """Return how many units a slice has."""
    return facts.units // facts.slices


def are_contiguous(facts: Facts, tuning: MoveTuning) -> bool:
    """Tell whether a warp can move slices, and count their units with 32 bits."""
    return facts.contiguous and facts.slices > 0 and slice_units(facts) < slices.MOST_UNITS


def are_narrow(facts: Facts, tuning: MoveTuning) -> bool:
    """Tell whether finding the place of each unit would cost more than the memory."""
    return (
        facts.width <= tuning.widest_narrow
        and slice_units(facts) >= tuning.least_slice_units
        and slice_units(facts) <= tuning.most_slice_units
        and facts.slices >= tuning.least_warps
        and facts.units >= tuning.least_warp_units
    )


def are_few(facts: Facts, tuning: MoveTuning) -> bool:
    """Tell whether each unit has a thread."""
    return facts.units <= tuning.few_units


BY_WARPS = Region(
    "slices by warps",
    slices.slice_mover,
    are_contiguous,
    are_narrow,
    "slices have few narrow units: each lane of a warp finds the place of one, and all move neighbouring units",
    "Slices by warps",
)
ONE_EACH = Region(
    "a unit for each thread",
    places.places,
    always,
    are_few,
    "units are few: each has a thread, so that more threads wait for memory",
    "Units of a thread",
)
SEVERAL_EACH = Region(
    "units by threads",
    places.places,
    always,
    always,
    "units are many: a thread loads four before it stores the first",
    "Units of a thread",
)
TABLE = (BY_WARPS, ONE_EACH, SEVERAL_EACH)
