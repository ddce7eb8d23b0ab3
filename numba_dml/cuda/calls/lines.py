"""Gathers from lines of single elements, and scatters to lines, with lines or their claims in shared memory."""

from __future__ import annotations

from typing import Any

from ..._core.devices.arrays import DeviceArray
from ..dispatch import gather
from ..dispatch import scatter_lines as regions
from ..dispatch.layouts import Lines, lines_of
from ..driver.launch import Kernel
from ..kernels import gather_lines, scatter_lines
from ..primitives.moves import lines
from .scatter_way import ScatterArguments, ScatterWay


class LineGather:
    """Gather from lines that fit into shared memory."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.lines = call.facts.lines
        self.plan: gather.LinePlan = gather.line_plan(call.facts, call.tuning)

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> None:
        call, plan = self.call, self.plan
        gather_lines.gather_lines_kernel(call.run, call.index_name, plan.together > 1, plan.threads)(
            a.device,
            stream,
            plan.blocks,
            a.pointer,
            indices.pointer,
            out.pointer,
            call.plan(a.device, call.run).address,
            record,
            number,
            plan.shares,
            plan.share,
            self.lines.total,
            plan.together,
            lines.row_factor(self.lines.length),
            shared=plan.shared,
        )


class LineScatter(ScatterWay):
    """Scatter to lines whose claims and chains fit into shared memory, or those of their parts."""

    def __init__(self, call: Any, *, transposed: bool = False) -> None:
        """`transposed`: the lines are the call's columns, which are transposed before and after."""
        self.call, facts = call, call.facts
        self.lines: Lines = lines_of(facts.columns) if transposed else facts.lines
        plan_of = regions.column_plan if transposed else regions.line_plan
        self.plan: regions.LinePlan = plan_of(facts, call.tuning)
        self.covers = self.lines.total * self.lines.size * call.run == call.out_bytes

    def __call__(self, given: ScatterArguments) -> Any:
        old, indices, updates, out, stream, record, *_ = given
        call, device = self.call, out.device
        memory, flag, number = call.look_first(given)
        plan = call.plan(device, call.run).address
        addresses = out.pointer, old, indices.pointer, updates.pointer, plan
        self.launch(call.index_name, device, stream, self.lines.total, addresses, record, number, flag)
        return memory

    def launch(
        self,
        index_name: str,
        device: int,
        stream: int,
        count: int,
        addresses: tuple[int, int, int, int, int],
        record: int,
        number: int,
        flag: int,
    ) -> None:
        """Scatter to `count` lines: `addresses` of the output, the old elements, indices, updates and the plan."""
        plan = self.plan
        self.kernel(index_name)(
            device,
            stream,
            -(-count // plan.together) * plan.parts,
            *addresses,
            record,
            number,
            flag,
            *self.division(),
            count,
            plan.together,
            lines.row_factor(self.lines.length),
            shared=plan.shared,
        )

    def division(self) -> tuple[int, ...]:
        """Return how lines are divided into parts, as the kernel takes it."""
        return self.plan.parts, self.plan.part

    def kernel(self, index_name: str) -> Kernel:
        """Return the kernel for a type of indices."""
        call, plan = self.call, self.plan
        kind = plan.together > 1, plan.staged, plan.threads
        reduction = (call.lowering.data_type, call.lowering.reduction) if call.reduces else (None, "none")
        return scatter_lines.scatter_lines_kernel(call.run, index_name, *kind, *reduction)


class LineCombine(LineScatter):
    """Combine integers, in any order, with lines that fit into shared memory."""

    def division(self) -> tuple[int, ...]:
        return ()

    def kernel(self, index_name: str) -> Kernel:
        call, plan = self.call, self.plan
        assert call.combined
        kind = plan.together > 1, plan.threads, call.combined
        return scatter_lines.combine_lines_kernel(call.run, index_name, *kind)
