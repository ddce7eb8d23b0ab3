"""The call of a top-k: how a lowering becomes a plan, and which kernel runs it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np

from ..._core.descriptor import Descriptor
from ..._core.lowering import Select, TopK, is_float, rule_numbers
from ..._core.operands import check_apart, check_out
from ..._core.pool import allocator
from ..._core.regions import Region, first
from ..._core.shapes import LINE_FIELDS, flat
from ..._core.tensor import packed_strides
from ..._jit.machine import CACHE_LINE
from ..._jit.memory import ANY, SIGNED, reference_to
from ..dispatch.top_k import TABLE, Facts, choice_of, facts_of
from ..launch import launcher
from ..primitives.top_k import plan as top_k_plan
from ..tuning.top_k import TUNING
from . import plans
from .build import _packed_copy, _Prepared

#: The most threads that there can be.
THREADS = numba.config.NUMBA_NUM_THREADS
#: `TopK` from a pair; NumPy's allocation takes no longer than a named tuple's own constructor.
_result = partial(tuple.__new__, TopK)


class TopKCall:
    """A top-k of one layout."""

    function = "top_k"
    # What `explain` reads: the table, the row that was chosen, and by which numbers; None if there is nothing to do.
    regions = TABLE
    region: Region | None = None
    facts: Facts | None = None
    tuning = TUNING

    def __init__(self, descriptor: Descriptor, lowering: Select, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        self.shape = output_shapes[0]
        values, indices = [getattr(descriptor, name) for name in descriptor.output_fields]
        self.dtype, self.index_dtype = values.dtype, indices.dtype
        self.empty, self.empty_indices = allocator(self.shape, self.dtype), allocator(self.shape, self.index_dtype)
        size = values.itemsize
        lines, dims = flat(lowering.lines), len(lowering.lines)
        plans.sort_lines(lines, dims)  # they are independent
        count, across, step = plans.spread_of(lines, dims)
        self.work = self.effort = count * lowering.size * size
        self.idle = lowering.k == 0 or count == 0
        if self.idle:
            self.kernel = "top_k nothing to select"
            return
        self.facts = facts_of(
            lowering.size, lowering.stride, lowering.k, size, count, across, step, True, False, THREADS
        )
        self.region = first(TABLE, self.facts, TUNING)
        row = TABLE.index(self.region)
        choice = choice_of(row, self.facts, TUNING)
        plan = [0] * (top_k_plan.HEADER + len(lines))  # it takes numbers in a tenth of the time that an array does
        plans.fill_top_k(plan, lines, dims, lowering.output_stride, lowering.index_itemsize, self.facts, choice)
        rule = rule_numbers(lowering.data_type, lowering.largest, lowering.nan_first)
        plan[top_k_plan.RULE : top_k_plan.RULE + 3] = rule
        plan[top_k_plan.ANY_ORDER] = int(not lowering.sorted)
        self.plan = np.fromiter(plan, np.int64, len(plan))
        # What the phases of the pieces hand on; see `top_k_rows.piece_buffers`.
        kept = choice.pieces * (choice.capacity * (size + 8) + 8) + size
        self.scratch_bytes = count * kept if choice.pieces > 1 else 0
        floats = is_float(lowering.data_type)
        x = reference_to(SIGNED[size], floats)
        strides = [(lowering.size, lowering.stride), *zip(lines[::LINE_FIELDS], lines[1::LINE_FIELDS], strict=True)]
        near = min([abs(stride) for n, stride in strides if n > 1], default=size)
        apart = max(min(near, CACHE_LINE) // size, 1)
        self.launch, driver = launcher(self.region.kernel, (x, x, ANY, ANY), self.effort, apart=apart)
        self.kernel = f"top_k {self.region.name} {8 * size}-bit {'float' if floats else 'integer'} {driver}"

    def __call__(self, a: Any, out: Any) -> TopK:
        if out is None:
            values, indices = self.empty(self.shape, self.dtype), self.empty_indices(self.shape, self.index_dtype)
            result = _result((values, indices))
        else:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(f"top_k: out: found {type(out).__name__}, expected a pair (values, indices)")
            result = _result(out)
            values, indices = out
            contiguous = check_out("top_k", "out[0]", values, self.shape, self.dtype)
            if not check_out("top_k", "out[1]", indices, self.shape, self.index_dtype) or not contiguous:
                return self._through_copies(a, result)
        if self.idle:
            return result
        scratch = np.empty(self.scratch_bytes, np.uint8) if self.scratch_bytes else a
        status = self.launch(a, values, indices, scratch, self.plan)
        if status == top_k_plan.TOO_FEW:
            plan = self.plan.copy()
            plan[top_k_plan.SAMPLE] = 0
            status = self.launch(a, values, indices, scratch, plan)
        return self._through_copies(a, result) if status else result

    def _through_copies(self, a: Any, out: TopK) -> TopK:
        """Write to an output that is strided, or lies in the input."""
        check_apart("top_k", *out)
        values, indices = self(a, None)
        out.values[...] = values
        out.indices[...] = indices
        return out


def build(descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> Any:
    """Return the call for a descriptor and the layouts of its inputs."""
    data, (strides, dtype) = descriptor.input_tensor, layouts[0]
    # What a kernel sees of foreign byte order is a packed copy, whatever strides the array has.
    lowering = descriptor.lower([strides if dtype.isnative else packed_strides(data.sizes, data.itemsize)])
    call = TopKCall(descriptor, lowering, output_shapes)
    return call if dtype.isnative else _Prepared(call, [_packed_copy])
