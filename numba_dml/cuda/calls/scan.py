"""The call of a cumulative sum or product."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..._core.enums import TensorDataType as D
from ..._core.lowering import SUM_BLOCK
from ..._core.operands import check_out
from ..._core.regions import first
from ..._core.tensor import packed_strides, product
from ..dispatch import scan
from ..driver.arrays import OWN, Output, Span, join, part, scratch
from ..driver.context import is_current, on_device
from ..driver.memory import DeviceMemory
from ..driver.numba import BLOCK, LANES
from ..kernels.scan import columns, in_order, rows
from ..primitives import scan as scan_plan
from ..primitives.fill import set_words
from ..primitives.groups import QUAD_BYTES
from ..replay.repeat import Repeatable
from .gather import packed


class ScanCall(Repeatable):
    """Running sums or products of one layout, to an output that is packed."""

    regions, tuning = scan.TABLE, None

    def __init__(self, descriptor: Any, strides: tuple[int, ...], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        source, result = descriptor.input_tensor, descriptor.output_tensor
        self.function = descriptor.function
        if not scan_plan.can_cast(dtype, result.dtype):
            raise TypeError(
                f"{self.function}: dtype: found {result.dtype} for an input of {dtype}, expected a dtype of its kind "
                "on target 'cuda'; convert the input before"
            )
        self.output = Output(self.function, "out", shape, result.dtype)
        self.span = Span.of(source.sizes, strides, dtype.itemsize)
        axis, sizes = descriptor.axis, source.sizes
        low = descriptor.lower([packed_strides(sizes, dtype.itemsize)])
        self.low, inner = low, product(sizes[axis + 1 :])
        self.types = source_type(dtype), result.data_type
        by_threads = low.in_order or low.multiplies
        if self.types[1] in scan_plan.PARTS_OF and not by_threads:
            self.types = scan_plan.PARTS_OF[self.types[0]], scan_plan.PARTS_OF[self.types[1]]
            inner *= 2
        self.facts = facts = scan.Facts(sizes[axis], product(sizes[:axis]) * inner, inner, by_threads)
        self.region = first(self.regions, facts, self.tuning)
        self.kernel = f"{self.function} {result.dtype} cuda, {self.region.name}"
        self.idle = self.output.size == 0
        self.work = product(sizes) * dtype.itemsize + self.output.size
        self.plans: dict[int, DeviceMemory] = {}

    @property
    def together(self) -> int:
        """Lines that a block of the kernel for rows has; or warps that share columns, a power of two."""
        blocks = self.facts.blocks
        if self.region is scan.ROWS:
            return max(SUM_BLOCK // blocks, 1)
        return min(columns.WARPS, 1 << (blocks - 1).bit_length())

    def numbers(self) -> ndarray[Any, Any]:
        """Return the numbers of the plan."""
        facts, low = self.facts, self.low
        flags = low.exclusive, low.initial, low.reverse
        numbers = [facts.size, facts.lines, facts.inner, facts.blocks, facts.parts, self.together, *map(int, flags)]
        return np.array(numbers, np.int64)

    def __call__(self, a: DeviceArray, out: Any) -> Any:
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, out)
        if out.__class__ is ndarray and a.library is OWN:  # the input is a copy
            check_out(self.function, "out", out, self.output.shape, self.output.dtype)
            out[...] = self(a, None)
            return out
        if out is None:
            target = self.output.new(a)
        else:
            target, is_target_packed = self.output.view(a, out)
            if not is_target_packed or (self.span.packed and self.meets(a, target)):
                a.library.assign(out, self(a, None))
                return out
        if not self.idle:
            self.launch_recorded((a,), (target,), partial(self.launch, a, target))
        return out if out is not None else a.library.finish(target, a.stream)

    def meets(self, a: DeviceArray, out: DeviceArray) -> bool:
        """Tell whether a packed output overlaps a packed input otherwise than element by element."""
        if out.pointer == a.pointer and a.dtype.itemsize == out.dtype.itemsize and not self.low.initial:
            return False
        return out.pointer < a.pointer + self.span.high and a.pointer < out.pointer + self.output.size

    def repeat(self, a: Any, *, out: Any) -> Any:
        """Make the call again with an array of a library; return None if it is not like the recorded one."""
        again = self.again
        if again is None:
            return None
        result = again.new(self.output) if out is None else out
        return None if again((a, result)) is None else result

    def launch(self, a: DeviceArray, out: DeviceArray) -> None:
        """Run the kernel, and let the other streams wait."""
        device, stream = a.device, a.stream
        others = join(stream, a, out)
        if not self.span.packed:
            a = packed(a, stream)
        plan = self.plans.get(device)
        if plan is None:
            plan = self.plans.setdefault(device, DeviceMemory(device, self.numbers()))
        run = {scan.IN_ORDER: self.run_in_order, scan.ROWS: self.run_rows}.get(self.region, self.run_columns)
        memory = run((device, stream), a.pointer, out, plan.address)
        part(device, stream, others)
        del memory  # only now

    def run_in_order(self, where: tuple[int, int], a: int, out: DeviceArray, plan: int) -> None:
        """Scan every line in order."""
        bits = np.ones(1, self.output.dtype) if self.low.multiplies else np.zeros(1, self.output.dtype)
        words = np.frombuffer(bits.tobytes().ljust(16, b"\0"), np.int64)
        identity = int(words[0]), int(words[1])
        kernel = in_order.in_order_kernel(*self.types, self.low.multiplies, self.low.in_order, identity)
        kernel(*where, -(-self.facts.lines // BLOCK), a, out.pointer, plan)

    def run_rows(self, where: tuple[int, int], a: int, out: DeviceArray, plan: int) -> Any:
        """Sum lines of neighbours; return memory in use until all is done."""
        facts = self.facts
        states = self.states(where, out, facts.lines * facts.parts * 8 * scan_plan.STATE)
        blocks = facts.lines * facts.parts if facts.parts > 1 else -(-facts.lines // self.together)
        shared = SUM_BLOCK * rows.PITCH * scan_plan.slot_of(self.types[1])[0](0).itemsize
        address = states.pointer if states else 0
        rows.rows_kernel(*self.types)(*where, blocks, a, out.pointer, plan, address, shared=shared)
        return states

    def run_columns(self, where: tuple[int, int], a: int, out: DeviceArray, plan: int) -> Any:
        """Sum lines side by side; return memory in use until all is done."""
        facts, tasks_of_block = self.facts, columns.WARPS // self.together
        tasks = facts.lines // facts.inner * -(-facts.inner // LANES)
        states = self.states(where, out, tasks * facts.parts * 8 * (1 + 3 * LANES))
        own_rows = tasks_of_block * min(facts.blocks, SUM_BLOCK) if facts.parts == 1 else SUM_BLOCK + 4
        blocks = -(-tasks // tasks_of_block) * facts.parts
        address = states.pointer if states else 0
        kernel = columns.columns_kernel(*self.types)
        kernel(*where, blocks, a, out.pointer, plan, address, shared=8 * LANES * own_rows)
        return states

    def states(self, where: tuple[int, int], out: DeviceArray, size: int) -> DeviceArray | None:
        """Return memory for the states of superblocks, all 0; None: every line has one."""
        if self.facts.parts == 1:
            return None
        size = -(-size // QUAD_BYTES) * QUAD_BYTES
        memory: DeviceArray = scratch(out, size)
        set_words(*where, memory.pointer, size, 0)
        return memory


def source_type(dtype: np.dtype[Any]) -> D:
    """Return the data type of an input."""
    return D[dtype.name.upper()]


def build(descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> ScanCall:
    """Return the call for a descriptor and the layout of its input."""
    (strides, dtype), *_ = layouts
    return ScanCall(descriptor, strides, dtype, output_shapes[0])
