"""The call of a top-k: how a lowering becomes a plan in device memory, and which kernels run it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy import ndarray

from .._device import DeviceArray
from .._lowering import Select
from .._operator import Descriptor, check_out
from .._order import is_float, rule_numbers
from .._tensor import extent, product
from ..ops.top_k import TopK
from . import SIMULATED, _sorting, top_k
from ._arrays import join, part, scratch, view_out
from ._launch import BLOCK, DeviceMemory
from ._plan import reciprocal

#: Lines are cut into pieces of this size or more, as long as there are blocks without work.
PIECE_SIZE = 1 << 6 if SIMULATED else 1 << 14
#: How many blocks keep a device busy: 4 for each of 132 multiprocessors.
BUSY_BLOCKS = 528


class TopKCall:
    """A top-k of one layout."""

    function = "top_k"

    def __init__(self, descriptor: Descriptor, lowering: Select, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        self.shape = output_shapes[0]
        values, indices = (getattr(descriptor, name) for name in descriptor.output_fields)
        self.dtype, self.index_dtype = values.dtype, indices.dtype
        low = lowering
        self.k, self.size = low.k, low.size
        self.lines = product(line[0] for line in low.lines)
        self.width = values.itemsize
        self.is_float = is_float(low.data_type)
        places = [(n, step) for n, step, _ in low.lines] + [(low.size, low.stride)]
        self.low, self.high = extent(*zip(*places, strict=True))
        self.high += self.width
        self.work = self.lines * low.size * self.width
        self.idle = low.k == 0 or self.lines == 0
        self.pieces = 1
        while self.lines * self.pieces < BUSY_BLOCKS and low.size >= 2 * self.pieces * max(PIECE_SIZE, 4 * low.k):
            self.pieces *= 2
        rule = rule_numbers(low.data_type, low.largest, low.nan_largest)
        numbers = [low.size, low.stride, low.output_stride, low.k, low.index_itemsize, *rule]
        numbers += [*reciprocal(self.pieces), len(low.lines)]
        for size, stride, out_stride in low.lines:
            numbers += [*reciprocal(max(size, 1)), stride, out_stride]
        self.numbers = np.array(numbers, np.int64)
        self.plans: dict[int, DeviceMemory] = {}
        self.kernel = f"top_k {8 * self.width}-bit {'float' if self.is_float else 'integer'} cuda"

    def __call__(self, a: DeviceArray, out: Any) -> TopK:
        if out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2):
            raise TypeError(f"top_k: out: found {type(out).__name__}, expected a pair (values, indices)")
        if out is not None and out[0].__class__ is ndarray:  # and so is the input; it was copied
            check_out("top_k", "out[0]", out[0], self.shape, self.dtype)
            check_out("top_k", "out[1]", out[1], self.shape, self.index_dtype)
            return self.through_copies(a, TopK(*out))
        library = a.library
        if out is None:
            result = TopK(*(library.empty(self.shape, d, a.device) for d in (self.dtype, self.index_dtype)))
            values, indices = map(library.view, result)
        else:
            result = TopK(*out)
            values, packed = view_out("top_k", "out[0]", a, out[0], self.shape, self.dtype)
            indices, both = view_out("top_k", "out[1]", a, out[1], self.shape, self.index_dtype)
            if not (packed and both) or self.clash(a, values, indices):
                return self.through_copies(a, result)
        if not self.idle:
            self.launch(a, values, indices)
        if out is not None:
            return result
        return TopK(*(library.finish(array, a.stream) for array in result))

    def clash(self, a: DeviceArray, values: DeviceArray, indices: DeviceArray) -> bool:
        """Tell whether a packed output lies in the input or in the other output."""
        count = product(self.shape)
        spans = sorted(
            [
                (a.pointer + self.low, a.pointer + self.high),
                (values.pointer, values.pointer + count * self.width),
                (indices.pointer, indices.pointer + count * self.index_dtype.itemsize),
            ]
        )
        return any(high > low for (_, high), (low, _) in pairwise(spans))

    def launch(self, a: DeviceArray, values: DeviceArray, indices: DeviceArray) -> None:
        """Run the kernels."""
        device, stream = a.device, a.stream
        plan = (self.plans.get(device) or self.plans.setdefault(device, DeviceMemory(device, self.numbers))).address
        join(stream, a, values, indices)
        memory = (self.sort if self.k > top_k.MOST_K else self.select)(device, stream, plan, a, values, indices)
        part(stream, a, values, indices)
        del memory  # only now

    def select(
        self, device: int, stream: int, plan: int, a: DeviceArray, values: DeviceArray, indices: DeviceArray
    ) -> DeviceArray | None:
        """Select from lines, or from pieces of them; return memory that is in use until all is done."""
        x, to = a.pointer, (values.pointer, indices.pointer)
        select = top_k.select_kernel(self.width, self.is_float, False)
        if self.pieces == 1:
            select(device, stream, self.lines, x, *to, x, 0, plan)
            return None
        blocks = self.lines * self.pieces
        memory = scratch(a, _sorting.PAIR_BYTES * blocks * self.k)
        select(device, stream, blocks, x, 0, 0, x, memory.pointer, plan)
        merge = top_k.select_kernel(self.width, self.is_float, True)
        merge(device, stream, self.lines, memory.pointer, *to, x, 0, plan)
        return memory

    def sort(
        self, device: int, stream: int, plan: int, a: DeviceArray, values: DeviceArray, indices: DeviceArray
    ) -> DeviceArray:
        """Sort whole lines, for a large k; return memory that is in use until all is done."""
        lines, size = self.lines, self.size
        count = _sorting.PAIR_BYTES * lines * size
        memory = scratch(a, 2 * count + _sorting.scratch_bytes(lines, size))
        pairs = memory.pointer
        blocks = -(-size // BLOCK)
        top_k.pair_kernel(self.width, self.is_float)(device, stream, lines * blocks, a.pointer, plan, pairs, blocks)
        pairs = _sorting.sort_pairs(
            device, stream, pairs, pairs + count, lines, size, 8 * self.width, pairs + 2 * count
        )
        blocks = -(-self.k // BLOCK)
        top_k.first_kernel(self.width)(
            device, stream, lines * blocks, a.pointer, values.pointer, indices.pointer, pairs, plan, blocks
        )
        return memory

    def through_copies(self, a: DeviceArray, out: TopK) -> TopK:
        """Write to an output that is strided, lies in the input, or is in host memory."""
        found = self(a, None)
        for array, new in zip(out, found, strict=True):
            if array.__class__ is ndarray:
                array[...] = new
            else:
                a.library.assign(array, new)
        return out
