"""The calls of scatters."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy import ndarray

from ..._core.lowering import Move
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.regions import first
from ..._core.tensor import data_type_name, product
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import ANY, SIGNED_REFS, UNSIGNED_REFS, reference_to
from ..dispatch import scatter as dispatch
from ..drivers import OVERLAP
from ..kernels import scatter_binned, scatter_general, scatter_noted
from ..launch import launcher, takes_one
from ..primitives import reductions
from ..primitives.keys import SPARE
from ..primitives.moves import plan as moves_plan
from ..primitives.moves import scatter_phases
from ..tuning import moves as tuning_moves
from ..tuning.scatter import TUNING
from .move_call import MoveCall

_BYTES = np.dtype(np.uint8)


class ScatterCall(MoveCall):
    """A scatter of one layout."""

    regions = dispatch.TABLE

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], kernel_copies: bool) -> None:
        super().__init__(lowering, dtype, shape)
        self.kernel_copies = kernel_copies
        self.whole = product(shape) * dtype.itemsize
        self.effort_in_place = self.effort
        if kernel_copies:
            self.work += 2 * self.whole
            self.effort += 2 * self.whole // tuning_moves.TUNING.copy_speed
        unit, data, reduction = self._elements()
        self.tuning = TUNING
        self.plan = plan = self.make_plan(unit)
        plan[moves_plan.REDUCTION] = reduction
        plan[moves_plan.COPY] = self.whole if kernel_copies else 0
        plan[moves_plan.STREAM] = self.whole >= self.tuning.stream_bytes
        self.facts = facts = self._facts()
        self.region = region = first(self.regions, facts, self.tuning)
        self._plan_region(unit)
        plan[moves_plan.ALONE] = self.alone
        index = SIGNED_REFS[facts.index_width] if facts.index_width else ANY
        #: The types that kernels see the arrays as, if they can read indices where they are.
        self.direct_arrays = (ANY, data, index, data)
        direct = region.name in ("general", "strips") or (region.name == "own" and facts.reduces)
        self.launched = region.kernel, self.direct_arrays if direct else (ANY, data, ANY, data)
        prepared = max(plan[moves_plan.COPY], self.index_bytes)
        serial = self.alone and prepared < scatter_phases.PREPARED_BYTES
        self.launch, driver = launcher(*self.launched, self.effort, bool(serial), prepare=self.set_finder)
        self.finish_plan()
        name = "" if region.name == "general" else f"{region.name} "
        low = self.lowering
        work = f"{low.reduction} {data_type_name(low.data_type)}" if facts.reduces else f"{8 * unit}-bit"
        self.kernel = f"scatter {name}{work} {driver}"

    def _elements(self) -> tuple[int, Any, int]:
        """Return the bytes of a unit, the type that kernels see it as, and the code of the reduction."""
        low = self.lowering
        reduction = reductions.REDUCTIONS.index(low.reduction)
        if reduction == reductions.NONE:
            unit = self.widest_unit()
            return unit, UNSIGNED_REFS[unit], reduction
        element, reduction = reductions.arithmetic_type(low.data_type, reduction)
        return low.itemsize, reference_to(element), reduction

    def _facts(self) -> dispatch.Facts:
        low, plan, threads = self.lowering, self.plan, numba.config.NUMBA_NUM_THREADS
        slice_bytes = self.moved // max(self.points, 1)
        split = dispatch.split_of(low, self.moved, slice_bytes, self.whole, threads, self.tuning)
        return dispatch.Facts(
            points=self.points,
            moved=self.moved,
            slice_bytes=slice_bytes,
            units=plan[moves_plan.RUN],
            itemsize=low.itemsize,
            whole=self.whole,
            span=plan[moves_plan.STARTS_HIGH] - plan[moves_plan.STARTS_LOW],
            coordinates=len(low.coordinates),
            axis_size=low.coordinates[0][0] if len(low.coordinates) == 1 else 0,
            index_bytes=self.index_bytes,
            index_width=moves_plan.index_width(plan),
            raises=low.bounds == "raise",
            unique=low.unique,
            reduces=low.reduction != "none",
            in_order=low.reduction in ("add", "mul") and self.dtype.kind not in "iub",
            copies=self.kernel_copies,
            split=split,
            period=dispatch.period_of(low, split, self.shape, self.whole),
            threads=threads,
            takes_one=takes_one(self.effort_in_place),
        )

    def _plan_region(self, unit: int) -> None:
        """Set what the region of the call has in its plan, the memory it needs, and how it writes in place."""
        facts, tuning, name = self.facts, self.tuning, self.region.name
        plan = self.plan
        plan[moves_plan.SPLIT] = facts.split
        if facts.split >= 0 and name != "strips":  # only if a test wants another kernel
            plan[moves_plan.SPLIT] = dispatch.split_without_loop(facts.unique, facts.slice_bytes, tuning)
        self.alone = name == "general" and dispatch.writes_alone(facts, tuning)
        #: In place, bins are for dense updates only: whole strips are copied.
        bins_in_place = name == "bins" and dispatch.is_dense(facts)
        #: The kernel cannot write in place; another one does.
        self.new_only = name == "places" or (name == "bins" and not bins_in_place)
        notes = name == "noted" or (name == "bins" and dispatch.has_tuples_to_share(facts, tuning))
        self.note_bytes = 4 * (self.points + SPARE) if notes else 0
        #: In place, whether a new output is made and copied.
        self.copies_in_place = not notes and not bins_in_place and dispatch.prefers_copy(facts, tuning)
        self.scratch_bytes = self.note_bytes if name == "noted" else 0
        if name == "strips":
            self._plan_strips()
        elif name == "bins":
            self._plan_bins(unit, bins_in_place)
        elif name == "own":
            shares = plan[moves_plan.SHARES] = dispatch.shares_of(facts, tuning)
            self.scratch_bytes = shares * (self.whole // unit * max(unit, 4) + 2 * CACHE_LINE)

    def _plan_strips(self) -> None:
        facts, plan = self.facts, self.plan
        step = abs(self.lowering.loops[facts.split][1])
        strips = dispatch.strips_of(facts, self.tuning)
        plan[moves_plan.PERIOD] = facts.period
        for tile, strip in ((moves_plan.TILE, strips.new), (moves_plan.TILE_IN_PLACE, strips.in_place)):
            plan[tile] = max(strip * facts.period // max(self.whole, 1) // step, CACHE_LINE // step, 1)
        plan[moves_plan.PACKS] = strips.packs

    def _plan_bins(self, unit: int, in_place: bool) -> None:
        strip, shares = dispatch.bin_of(self.facts, self.tuning), self.facts.threads
        self.plan[moves_plan.TILE] = strip
        self.plan[moves_plan.TILE_IN_PLACE] = strip if in_place else 0
        self.plan[moves_plan.SHARES] = shares
        # See `scatter_binned.bin_buffers`.
        bins = -(-self.whole // strip) + 1
        room = self.points + scatter_binned.BIN_SKEW * bins
        self.scratch_bytes = 8 * shares * bins + room * 2 * max(unit, 4) + 4 * self.points

    def __call__(self, a: Any, indices: Any, updates: Any, out: Any) -> Any:
        if out is None:
            result = self.empty(self.shape, self.dtype)
        else:
            check_out(self.function, "out", out, self.shape, self.dtype)
            result = out
        source = a
        if self.copies_in_place and (a is result or _same_memory(a, result)):
            np.copyto(result, self(a, indices, updates, None))
            return result
        if a is not result and not self.kernel_copies and not _same_memory(a, result):
            if any(np.may_share_memory(result, array) for array in (a, indices, updates)):
                return self.through_copies(a, indices, updates, result)
            np.copyto(result, a)
            source = result
        plan, _scratch = self.plan, None
        if self.scratch_bytes and (source is not result or not self.new_only):
            plan, _scratch = self.plan_with(self.scratch_bytes)
        launch = self.launch_in_place if source is result else self.launch
        status = launch(source, result, indices, updates, plan)
        if status == 0:
            return result
        if status == OVERLAP and self.new_only:  # in place, perhaps
            plan, _scratch = self.plan_with(self.note_bytes)
            status = self.launch_anywhere(source, result, indices, updates, plan)
            if status == 0:
                return result
        if status == OVERLAP:
            return self.through_copies(a, indices, updates, result)
        raise self.index_error(a, indices, status - 1)

    def plan_with(self, scratch_bytes: int) -> tuple[ndarray[Any, Any], ndarray[Any, Any]]:
        """Return a plan with scratch memory for the kernel, and this memory, which must live as long as it runs."""
        scratch = allocator((scratch_bytes,), _BYTES)((scratch_bytes,), _BYTES)
        self.set_finder()  # a first launch may be what sets it, in the plan that is copied here
        plan = self.plan.copy()
        plan[moves_plan.SCRATCH] = scratch.ctypes.data
        return plan, scratch

    @cached_property
    def launch_in_place(self) -> Any:
        """The launch for an input that is the output: it is not copied, so its size says nothing about the driver."""
        if takes_one(self.effort) or not takes_one(self.effort_in_place):
            return self.launch
        return launcher(*self.launched, self.effort_in_place, prepare=self.set_finder)[0]

    @cached_property
    def launch_anywhere(self) -> Any:
        """The launch that can write in place; compiled when it is needed."""
        code = scatter_noted.noted_kernel if self.note_bytes else scatter_general.scatter_kernel
        return launcher(code, self.direct_arrays, self.effort_in_place, prepare=self.set_finder)[0]

    def through_copies(self, a: Any, indices: Any, updates: Any, out: Any) -> Any:
        """Write to an output that lies in an input; after an error it is, and so the input is, what it was."""
        if a is out or _same_memory(a, out):
            return self(out, indices.copy(), updates.copy(), out)
        before = out.copy()
        try:
            return self(a.copy(), indices.copy(), updates.copy(), out)
        except IndexError:
            out[...] = before
            raise


def _same_memory(a: ndarray[Any, Any], b: ndarray[Any, Any]) -> bool:
    """Return whether two arrays are the same elements in the same places."""
    same: bool = a.__array_interface__["data"] == b.__array_interface__["data"] and a.strides == b.strides
    return same
