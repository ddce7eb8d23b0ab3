"""What the calls of gathers and scatters share: how a lowering becomes a plan, and the error for a bad index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.lowering import Move
from ..._core.pool import allocator
from ..._core.regions import Region
from ..._core.tensor import data_type_name, element_size, extent_of, packed_strides, product
from ..._jit.memory import UNSIGNED_REFS
from ..primitives.moves import plan as moves_plan
from ..primitives.moves.offsets import finder_address
from ..tuning import moves as tuning_moves

_BOUNDS = {"clamp": moves_plan.CLAMP, "drop": moves_plan.DROP}


def _by_runs(lowering: Move) -> Move:
    """Return the same move with one contiguous run per slice: other dimensions of the slices are loops.

    The loops repeat their point's index (stride 0). Where rows of them would be short, and their elements are farther
    apart than those of the indexed axis, points go within them: those of one element stay in order.
    """
    outer = list(lowering.slices)
    runs = tuple(outer[-1:])
    if outer and outer[-1][1] == lowering.itemsize:
        outer.pop()
    else:
        runs = ()
    if not outer:
        return lowering
    count = product([n for n, _ in outer])
    if count == 0:  # indices are looked at even so
        return replace(lowering, slices=((0, lowering.itemsize),))
    packed = packed_strides([n for n, _ in outer])
    *loops, last = [(n, s, i, p * count) for n, s, i, p in lowering.loops]
    repeats = [(n, s, 0, p) for (n, s), p in zip(outer, packed, strict=True)]
    short = outer[-1][0] < min(tuning_moves.TUNING.short_row, last[0])
    apart = abs(outer[-1][1]) > abs(lowering.coordinates[-1][1])
    inner = [*repeats, last] if short and apart else [last, *repeats]
    return replace(lowering, loops=tuple(loop for loop in (*loops, *inner) if loop[0] != 1), slices=runs)


class MoveCall:
    """A gather or a scatter of one layout.

    `regions` is the table of its family, `region` the row that runs it, and `facts` and `tuning` are what chose that.
    """

    function: str
    kernel: str
    regions: Sequence[Region]
    region: Region
    facts: Any
    tuning: Any
    #: The numbers that a kernel reads: a list until all are set, then an array.
    plan: Any
    #: Whether one thread writes, since it is sooner done than several.
    alone = False

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.lowering = lowering = _by_runs(lowering)
        self.function = lowering.function
        self.dtype = dtype
        self.shape = shape
        self.empty = allocator(shape, dtype)
        points = product([loop[0] for loop in lowering.loops])
        elements = product([size for size, _ in lowering.slices])
        index_bytes = product(lowering.index_shape) * element_size(lowering.index_type)
        #: Bytes of a slice, and of all.
        self.run = elements * lowering.itemsize
        self.moved = points * self.run
        #: The bytes that it touches, and as many as they count when the driver is chosen.
        self.work = self.effort = 2 * self.moved + index_bytes
        if elements > 1:
            tuning = tuning_moves.TUNING
            copies = 2 * self.moved // tuning.copy_speed + tuning.slice_work * points
            self.effort = min(self.work, copies + index_bytes)
        self.points = points
        self.index_bytes = index_bytes

    def make_plan(self, unit: int) -> list[int]:
        """Return the numbers for a kernel that moves units of `unit` bytes."""
        low, run = self.lowering, self.run
        places = [(n, s) for n, s, _, _ in low.loops]
        places += low.coordinates
        starts_low, starts_high = extent_of(places)
        # A list takes these numbers in a tenth of the time that an array does.
        plan = [0] * moves_plan.HEADER
        plan[moves_plan.POINTS] = self.points
        plan[moves_plan.LOOPS] = len(low.loops)
        plan[moves_plan.COORDS] = len(low.coordinates)
        plan[moves_plan.RUN] = run // unit
        plan[moves_plan.KIND] = moves_plan.INDEX_KINDS.index(data_type_name(low.index_type))
        plan[moves_plan.BOUNDS] = _BOUNDS.get(low.bounds, moves_plan.RAISE)
        first, last = low.reach or (starts_low, starts_high)
        plan[moves_plan.LOW] = first
        empty_data = not (self.points and run and product([size for size, _ in low.coordinates]))
        plan[moves_plan.HIGH] = first if empty_data else last + run
        plan[moves_plan.STARTS_LOW] = starts_low
        plan[moves_plan.STARTS_HIGH] = starts_high + 1
        plan[moves_plan.PACKED_BYTES] = self.moved
        plan[moves_plan.INDEX_BYTES] = self.index_bytes
        for n, s, i, p in low.loops:
            plan += (n, s, i, p * run)
        for place in low.coordinates:
            plan += place
        return plan

    def set_finder(self) -> None:
        """Compile or load the finder that the kernel calls, and put its address into the plan."""
        self.plan[moves_plan.FINDER] = finder_address()

    def finish_plan(self) -> None:
        """Turn the plan into the array that kernels read: all its numbers are set."""
        self.plan = np.fromiter(self.plan, np.int64, len(self.plan))

    def moves_by(self, unit: int) -> str:
        """Return how `explain` calls what moves at once."""
        return f"{8 * unit}-bit" if unit == self.run else "slices"

    def unit(self) -> int:
        """Return the bytes that move at once: a single element's; longer slices, which share one kernel, are bytes."""
        return self.run if self.run in UNSIGNED_REFS else 1

    def index_error(self, a: Any, indices: Any, position: int) -> IndexError:
        """Return the error for the index at a flat position."""
        value = int(indices[np.unravel_index(position, indices.shape)])
        return self.lowering.index_error(a.ndim, indices.shape, position, value)
