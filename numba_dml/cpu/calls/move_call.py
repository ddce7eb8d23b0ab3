"""What the calls of gathers and scatters share: how a lowering becomes a plan, and the error for a bad index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.lowering import Move
from ..._core.pool import allocator
from ..._core.regions import Region
from ..._core.shapes import LOOP_FIELDS, flat, rows_of
from ..._core.tensor import data_type_name, element_size, product
from ..._jit.memory import UNSIGNED_REFS
from ..primitives.moves import plan as moves_plan
from ..primitives.moves.offsets import finder_address
from ..tuning import moves as tuning_moves
from . import plans

_BOUNDS = {"clamp": moves_plan.CLAMP, "drop": moves_plan.DROP}


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
        itemsize, tuning = lowering.itemsize, tuning_moves.TUNING
        loops, coordinates, slices = map(flat, (lowering.loops, lowering.coordinates, lowering.slices))
        loops += [0] * (LOOP_FIELDS * len(lowering.slices))
        count, run = plans.by_runs(
            loops, len(lowering.loops), slices, len(lowering.slices), itemsize, coordinates[-1], tuning.short_row
        )
        # A list takes numbers in a tenth of the time that an array does.
        self.plan = plan = [0] * plans.move_size(count, len(lowering.coordinates))
        plans.fill_move(plan, loops, count, coordinates, len(lowering.coordinates), run)
        if lowering.reach:
            plans.widen(plan, *lowering.reach, run)
        if count != len(lowering.loops) or loops[0] != lowering.loops[0][0]:
            lowering = replace(lowering, loops=rows_of(loops, LOOP_FIELDS, count))
        self.lowering = lowering
        self.function = lowering.function
        self.dtype = dtype
        self.shape = shape
        self.empty = allocator(shape, dtype)
        self.points = points = plan[moves_plan.POINTS]
        self.index_bytes = index_bytes = product(lowering.index_shape) * element_size(lowering.index_type)
        plan[moves_plan.INDEX_BYTES] = index_bytes
        plan[moves_plan.KIND] = moves_plan.INDEX_KINDS.index(data_type_name(lowering.index_type))
        plan[moves_plan.BOUNDS] = _BOUNDS.get(lowering.bounds, moves_plan.RAISE)
        #: Bytes of a slice, and of all.
        self.run = run
        self.moved = plan[moves_plan.PACKED_BYTES]
        #: The bytes that it touches, and as many as they count when the driver is chosen.
        self.work = self.effort = 2 * self.moved + index_bytes
        if run > itemsize:
            copies = 2 * self.moved // tuning.copy_speed + tuning.slice_work * points
            self.effort = min(self.work, copies + index_bytes)

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
