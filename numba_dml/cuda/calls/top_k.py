"""The call of a top-k: its plans in device memory, its outputs, and how it is made again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Select, TopK, rule_numbers
from ..._core.operands import check_apart, check_out, output_pair, shared_outputs
from ..._core.regions import first
from ..._core.shapes import extent
from ..dispatch.top_k import TABLE
from ..dispatch.top_k_facts import facts_of
from ..driver.arrays import OWN, Output, assign, join, part
from ..driver.context import is_current, on_device
from ..driver.memory import DeviceMemory
from ..primitives.plan import reciprocal
from ..replay.repeat import Repeatable
from ..tuning.top_k import TUNING
from .ways.top_k import WAYS, Launch


class TopKCall(Repeatable):
    """A top-k of one layout."""

    function = "top_k"

    def __init__(self, dtypes: Sequence[np.dtype[Any]], lowering: Select, shape: tuple[int, ...]) -> None:
        values, indices = (Output("top_k", f"out[{i}]", shape, dtype) for i, dtype in enumerate(dtypes))
        self.outputs = values, indices
        self.lowering = low = lowering
        self.rule = rule_numbers(low.data_type, low.largest, low.nan_first)
        #: The table that the kernels are chosen from, what the choice depends on, and the row that is chosen.
        self.regions, self.tuning = TABLE, TUNING
        self.facts = facts = facts_of(low, TUNING)
        self.region = first(TABLE, facts, TUNING)
        self.way = WAYS[self.region.name](facts, TUNING, infinity=self.rule[1])
        #: The lowest byte of the input and the end of the highest one, relative to its first element.
        dims = [(low.size, low.stride), *((n, step) for n, step, _ in low.lines)]
        self.low, high = extent(*zip(*dims, strict=True))
        self.high = high + facts.width
        self.work = facts.lines * facts.line_bytes
        self.idle = facts.lines * facts.k == 0
        self.kernel = f"top_k {8 * facts.width}-bit {'float' if facts.is_float else 'integer'} {self.region.name} cuda"
        self.plans: dict[int, list[DeviceMemory]] = {}

    def numbers(self, of_delegates: bool) -> ndarray[Any, Any]:
        """Return the numbers of a plan: for the elements, or for their delegates."""
        low, facts, way, groups = self.lowering, self.facts, self.way, self.way.groups
        lines, size, stride, rule = low.lines, low.size, low.stride, self.rule
        bits = pitch = 0
        parts, rounds = way.parts, way.share
        if groups and of_delegates:
            size, stride, rule = groups.pitch, facts.key_bytes, (0, 0, 0)
            lines = ((facts.lines, size * stride, 0),)
        elif groups:
            bits, pitch, parts, rounds = groups
        numbers = [size, stride, low.output_stride, low.k, low.index_itemsize, *rule, facts.lines, way.room]
        numbers += [int(groups is not None), bits, pitch, *reciprocal(parts), rounds, way.segment, way.staging]
        numbers += [way.chunk.bit_length() - 1, way.chunks, self.low, self.high, *way.listing(of_delegates), len(lines)]
        for count, step, out_step in lines:
            numbers += [*reciprocal(max(count, 1)), step, out_step]
        return np.array(numbers, np.int64)

    def __call__(self, a: DeviceArray, out: Any) -> TopK:
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, out)
        of_values, of_indices = self.outputs
        if out is None:
            values, indices = of_values.new(a), of_indices.new(a)
        else:
            output_pair("top_k", out, "(values, indices)")
            if out[0].__class__ is ndarray and a.library is OWN:  # the input is a copy
                for output, array in zip(self.outputs, out, strict=True):
                    check_out(output.function, output.name, array, output.shape, output.dtype)
                check_apart("top_k", *out)
                return self.through_copies(a, TopK(*out))
            values, packed = of_values.view(a, out[0])
            indices, both = of_indices.view(a, out[1])
            if packed and both and self.meet(values.pointer, indices.pointer):
                raise shared_outputs("top_k")
            if not (packed and both) or self.clash(a, values.pointer, indices.pointer):
                return self.through_copies(a, TopK(*out))
        if not self.idle:
            self.launch_recorded((a,), (values, indices), partial(self.launch, a, values, indices))
        if out is not None:
            return TopK(*out)
        return TopK(a.library.finish(values, a.stream), a.library.finish(indices, a.stream))

    def repeat(self, a: Any, *, out: Any) -> TopK | None:
        """Make the call again with arrays of a library; return None if they are not like the recorded ones."""
        again = self.again
        if again is None or (out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2)):
            return None
        result = TopK(*out) if out is not None else TopK(*map(again.new, self.outputs))
        return None if again((a, *result)) is None else result

    def clash(self, a: DeviceArray, values: int, indices: int) -> bool:
        """Tell whether a packed output lies in the input."""
        low, high = a.pointer + self.low, a.pointer + self.high
        after_values, after_indices = values + self.outputs[0].size, indices + self.outputs[1].size
        return (low < after_values and values < high) or (low < after_indices and indices < high)

    def meet(self, values: int, indices: int) -> bool:
        """Tell whether packed outputs share memory."""
        return values < indices + self.outputs[1].size and indices < values + self.outputs[0].size

    def launch(self, a: DeviceArray, values: DeviceArray, indices: DeviceArray) -> None:
        """Run the kernels."""
        device, stream = a.device, a.stream
        plans = self.plans.get(device)
        if plans is None:
            new = [DeviceMemory(device, self.numbers(level > 0)) for level in range(self.way.plans)]
            plans = self.plans.setdefault(device, new)
        addresses = [plan.address for plan in plans]
        others = join(stream, a, values, indices)
        tensors = a.pointer, values.pointer, indices.pointer
        memory = self.way(Launch((device, stream), addresses, a, tensors))
        part(device, stream, others)
        del memory  # only now

    def through_copies(self, a: DeviceArray, out: TopK) -> TopK:
        """Write to an output that is strided, lies in the input, or is in host memory."""
        found = self(a, None)
        for array, new in zip(out, found, strict=True):
            if array.__class__ is ndarray:
                array[...] = new
            else:
                assign(a, array, new)
        return out


def build(descriptor: Any, layouts: Any, output_shapes: Any) -> TopKCall:
    """Return the call for a descriptor and the layout of its input."""
    dtypes = [getattr(descriptor, name).dtype for name in descriptor.output_fields]
    return TopKCall(dtypes, descriptor.lower([layouts[0][0]]), output_shapes[0])
