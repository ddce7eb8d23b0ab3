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
from ..._core.tensor import data_type_name, is_packed, packed_strides, product
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import ANY, SIGNED_REFS, UNSIGNED_REFS, reference_to
from ..dispatch import scatter as dispatch
from ..drivers import OVERLAP
from ..kernels import scatter, scatter_binned
from ..launch import launcher, takes_one
from ..primitives import reductions
from ..primitives.moves import plan as moves_plan
from ..tuning import moves as tuning_moves
from ..tuning.scatter import TUNING
from .build import _fixes, _prepared
from .move_call import MoveCall
from .plans import fill_scatter

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
        plan = self.plan
        plan[moves_plan.RUN] = self.run // unit
        fill_scatter(plan, reduction, self.whole if kernel_copies else 0, self.whole, self.tuning.stream_bytes)
        self.facts = facts = self._facts()
        self.region = region = first(self.regions, facts, self.tuning)
        self._plan_region(unit)
        plan[moves_plan.ALONE] = self.alone
        self.launched = self._launched(region.kernel, data)
        prepared = max(plan[moves_plan.COPY], self.index_bytes)
        serial = self.alone and prepared < scatter.PREPARED_BYTES
        self.launch, driver = launcher(*self.launched, self.effort, bool(serial), prepare=self.set_finder)
        self.finish_plan()
        name = "" if region.name == "general" else f"{region.name} "
        low = self.lowering
        work = f"{low.reduction} {data_type_name(low.data_type)}" if facts.reduces else self.moves_by(unit)
        self.kernel = f"scatter {name}{work} {driver}"

    def _elements(self) -> tuple[int, Any, int]:
        """Return the bytes of a unit, the type that kernels see it as, and the code of the reduction."""
        low = self.lowering
        reduction = reductions.REDUCTIONS.index(low.reduction)
        if reduction == reductions.NONE:
            unit = self.unit()
            return unit, UNSIGNED_REFS[unit], reduction
        element, reduction = reductions.arithmetic_type(low.data_type, reduction)
        return low.itemsize, reference_to(element), reduction

    def _launched(self, kernel: Any, data: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return a kernel with the types that it sees the arrays as: single elements are written by signed indices."""
        index = ANY
        if kernel is scatter.scatter_kernel and self.facts.units == 1 and not self.facts.reduces:
            index = SIGNED_REFS[4 if self.plan[moves_plan.KIND] == moves_plan.INT32 else 8]
        return kernel, (ANY, data, index, data)

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
            index_bytes=self.index_bytes,
            raises=low.bounds == "raise",
            unique=low.unique,
            reduces=low.reduction != "none",
            in_order=low.reduction in ("add", "mul") and self.dtype.kind not in "iub",
            copies=self.kernel_copies,
            split=split,
            period=dispatch.period_of(low, split, self.shape, self.whole),
            threads=threads,
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
        #: In place, whether a new output is made and copied.
        self.copies_in_place = not bins_in_place and dispatch.prefers_copy(facts, tuning)
        self.scratch_bytes = 0
        if name == "strips":
            self._plan_strips()
        elif name == "bins":
            self._plan_bins(unit, bins_in_place)
        elif name == "own":
            shares = plan[moves_plan.SHARES] = dispatch.shares_of(facts, tuning)
            self.scratch_bytes = shares * (self.whole + CACHE_LINE)

    def _plan_strips(self) -> None:
        facts, plan = self.facts, self.plan
        step = abs(self.lowering.loops[facts.split][1])
        strip = dispatch.strip_of(facts, self.tuning)
        plan[moves_plan.PERIOD] = facts.period
        width = max(strip * facts.period // max(self.whole, 1), self.tuning.least_width)
        plan[moves_plan.TILE] = max(width // step, 1)

    def _plan_bins(self, unit: int, in_place: bool) -> None:
        strip, shares = dispatch.bin_of(self.facts, self.tuning), self.facts.threads
        self.plan[moves_plan.TILE] = strip
        self.plan[moves_plan.IN_PLACE] = in_place
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
            status = self.launch_anywhere(source, result, indices, updates, self.plan)
            if status == 0:
                return result
        if status == OVERLAP:
            return self.through_copies(a, indices, updates, result)
        raise self.lowering.error_at(a, indices, status - 1)

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
        launched = self._launched(scatter.scatter_kernel, self.launched[1][1])
        return launcher(*launched, self.effort_in_place, prepare=self.set_finder)[0]

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


def _native_copy(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    return array.astype(array.dtype.newbyteorder("="))


def build(descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> Any:
    """Return the call for a descriptor and the layouts of its inputs."""
    data, (strides, dtype) = descriptor.input_tensor, layouts[0]
    if out_strides is None or len(out_strides) != data.dimension_count:  # of another rank: the call will say so
        out_strides = packed_strides(data.sizes, data.itemsize)
    kernel_copies = all(is_packed(data.sizes, each, data.itemsize) for each in (strides, out_strides))
    call = ScatterCall(descriptor.lower([out_strides]), data.dtype, output_shapes[0], kernel_copies)
    return _prepared(call, [None if dtype.isnative else _native_copy, *_fixes(descriptor, layouts)])
