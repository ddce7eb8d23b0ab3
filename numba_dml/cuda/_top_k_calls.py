"""The call of a top-k: how a lowering becomes a plan in device memory, and which kernels run it."""

from __future__ import annotations

from functools import partial
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
from . import SIMULATED, _large_k_calls, top_k
from ._arrays import join, part, scratch, view_out
from ._keys import key_type
from ._large_k_calls import LargeK
from ._launch import BLOCK, LANES, DeviceMemory
from ._plan import reciprocal
from .top_k import (
    BESIDE,
    COLUMNS,
    LEAST_ROOM,
    MOST_K,
    MOST_THREADS,
    NARROW,
    QUADS,
    SEGMENT_BYTES,
    SHORT_BLOCK,
    THREAD_LISTS,
    WARPS,
    WIDE,
)

#: The least size of a line that is worth delegates.
LEAST_SIZE = 16 if SIMULATED else 1024
#: What a level of delegates costs, in elements that a block of `choose_kernel` looks at.
LEVEL_COST = 4 if SIMULATED else 2000
#: An element costs a delegate kernel so many times less than a block of `choose_kernel`.
STREAMED = 8
#: A warp has several rounds, up to the most, if there are others enough: twice what 132 multiprocessors hold.
BUSY_WARPS, MOST_ROUNDS = (2, 2) if SIMULATED else (2 * 64 * 132, 8)
#: Threads of a block of `choose_kernel`: more, if each would look at so many elements, and while all are fewer
#: than what 132 multiprocessors hold.
LEAST_THREADS, LOOKS, BUSY_THREADS = (BLOCK, 8, 1) if SIMULATED else (128, 8, 132 * 2048)
#: From so many elements on, positions in a line need 64 bits.
LONG_LINE = 1 << 31
#: With so many lines a block for each finds the one best element; with fewer the delegates keep more blocks busy.
MANY_LINES = 3 if SIMULATED else 132
#: Lines up to this size, and so many times as many as elements in one, have a thread each.
MOST_SHORT, SHORT_LINES = (12, 1) if SIMULATED else (1024, 16)


def group_sizes(size: int, k: int, least: int, key_bytes: int) -> tuple[int, ...]:
    """Return the sizes of groups, level by level, as powers of two, which make a choice cheap.

    Each level streams over what is below it. Then the uppermost delegates are looked at three times, and k groups of
    each level. `least` elements have 16 bytes; a group has at most 128 times as many.
    """
    best: tuple[int, ...] = ()
    cost = 3 * size
    most = 4 * LANES
    if size < LEAST_SIZE:
        return best
    for first in (least << i for i in range(most.bit_length())):
        delegates = -(-size // first)
        streamed = LEVEL_COST + size // STREAMED
        new = streamed + 3 * delegates + k * first
        if delegates >= 2 * k and new < cost:
            best, cost = (first,), new
        streamed += LEVEL_COST + delegates // STREAMED
        for second in (16 // key_bytes << i for i in range(most.bit_length())):
            upper = -(-delegates // second)
            new = streamed + 3 * upper + k * (first + second)
            if upper >= 2 * k and new < cost:
                best, cost = (first, second), new
    return best


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
        self.lowering = low
        places = [(n, step) for n, step, _ in low.lines] + [(low.size, low.stride)]
        self.low, self.high = extent(*zip(*places, strict=True))
        self.high += self.width
        self.work = self.lines * low.size * self.width
        self.idle = low.k == 0 or self.lines == 0
        self.key_bytes = np.dtype(key_type(self.width)).itemsize
        self.rule = rule_numbers(low.data_type, low.largest, low.nan_largest)
        self.room = LEAST_ROOM
        while self.room < self.k + (self.k >> 1):
            self.room *= 2
        self.short = self.k <= THREAD_LISTS[-1] and self.size <= MOST_SHORT and self.lines >= SHORT_LINES * self.size
        self.packed = low.stride == self.width and all(step % self.width == 0 for _, step, _ in low.lines)
        self.one = self.k == 1 and self.packed and not self.short and self.lines >= MANY_LINES
        least = 16 // self.width
        sizes: tuple[int, ...] = ()
        if self.k > MOST_K:
            group = _large_k_calls.group_size(self.lines, self.size, self.k, self.width, self.packed)
            sizes = (group,) if group else ()
        elif not (self.short or self.one):
            sizes = group_sizes(self.size, self.k, least, self.key_bytes)
        #: The bits of the groups, and how many delegates a line has.
        self.group_bits = [size.bit_length() - 1 for size in sizes]
        self.pitches: list[int] = []
        count = self.size + (least - 1 if self.packed else 0)  # the first group may begin before the line
        for size in sizes:
            count = -(-count // size)
            if len(sizes) == 2 or self.k > MOST_K:  # delegates are read by 16 bytes
                count = -(-count * self.key_bytes // 16) * 16 // self.key_bytes
            self.pitches.append(count)
        self.segment = min(SEGMENT_BYTES // self.key_bytes, self.size)
        self.is_long = self.size >= LONG_LINE
        looked_at = (
            self.size // least if self.one else 3 * (self.pitches[-1] if sizes else self.size) + self.k * sum(sizes)
        )
        self.threads = LEAST_THREADS
        while self.threads < MOST_THREADS and (
            self.threads * LOOKS < looked_at and self.threads * self.lines < BUSY_THREADS
        ):
            self.threads *= 2
        if self.k > MOST_K:
            kind = (self.width, self.is_float)
            self.large = LargeK(self.lines, self.size, self.k, *kind, *(sizes or (0,)), *(self.pitches or (0,)))
        self.plans: dict[int, list[DeviceMemory]] = {}
        method = f"{len(sizes)} levels of delegates"
        if self.short or self.one or self.k > MOST_K:
            method = "short lines" if self.short else "best" if self.one else "sort"
        self.kernel = f"top_k {8 * self.width}-bit {'float' if self.is_float else 'integer'} {method} cuda"

    def numbers(self, level: int) -> ndarray[Any, Any]:
        """Return the numbers of a plan; `level` is what delegates are found for: elements, delegates."""
        low, levels = self.lowering, len(self.pitches)
        lines = low.lines
        size, stride, rule, width = low.size, low.stride, self.rule, self.width
        if level:
            size, stride, rule, width = self.pitches[0], self.key_bytes, (0, 0, 0), self.key_bytes
            lines = ((self.lines, size * stride, 0),)
        bits, pitches = [*self.group_bits[level:], 0, 0][:2], [*self.pitches[level:], 0, 0][:2]
        parts, rounds = self.shares(level, width) if level < len(self.pitches) else (1, 1)
        beside = not self.packed and bool(lines) and abs(lines[-1][1]) == width
        quads = self.packed and all(step % 16 == 0 for _, step, _ in lines) and size * width % 16 == 0
        staging = BESIDE if beside else WIDE if quads else NARROW
        numbers = [size, stride, low.output_stride, low.k, low.index_itemsize, *rule, self.lines, self.room, levels]
        numbers += [*bits, *pitches, *reciprocal(parts), rounds, self.segment, staging, len(lines)]
        for count, step, out_step in lines:
            numbers += [*reciprocal(max(count, 1)), step, out_step]
        return np.array(numbers, np.int64)

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
        plans = self.plans.get(device)
        if plans is None:
            levels = max(len(self.pitches) + (self.k > MOST_K), 1)
            new = [DeviceMemory(device, self.numbers(level)) for level in range(levels)]
            plans = self.plans.setdefault(device, new)
        addresses = [plan.address for plan in plans]
        join(stream, a, values, indices)
        if self.k > MOST_K:
            find = partial(self.find_delegates, device, stream, addresses[0], a)
            memory = self.large(device, stream, addresses, a, values, indices, find)
        elif self.short:
            memory = None
            most = next(count for count in THREAD_LISTS if count >= self.k)
            top_k.short_kernel(self.width, self.is_float, most)(
                device,
                stream,
                -(-self.lines // SHORT_BLOCK),
                a.pointer,
                values.pointer,
                indices.pointer,
                addresses[0],
                threads=SHORT_BLOCK,
                shared=SHORT_BLOCK * (-(-self.segment // COLUMNS) * COLUMNS + 1) * self.key_bytes,
            )
        elif self.one:
            memory = None
            top_k.best_kernel(self.width, self.is_float)(
                device,
                stream,
                self.lines,
                a.pointer,
                values.pointer,
                indices.pointer,
                addresses[0],
                threads=self.threads,
            )
        else:
            memory = self.choose(device, stream, addresses, a, values, indices)
        part(stream, a, values, indices)
        del memory  # only now

    def choose(
        self, device: int, stream: int, plans: list[int], a: DeviceArray, values: DeviceArray, indices: DeviceArray
    ) -> DeviceArray | None:
        """Find delegates, and choose by them; return memory that is in use until all is done."""
        memory = None
        delegates = upper = 0
        if self.pitches:
            counts = [self.lines * pitch for pitch in self.pitches]
            memory = scratch(a, sum(counts) * self.key_bytes)
            delegates = memory.pointer
            upper = delegates + counts[0] * self.key_bytes
            self.find_delegates(device, stream, plans[0], a, delegates)
            if len(counts) == 2:
                self.find(device, stream, delegates, upper, plans[1], self.key_bytes, False, 1)
        top_k.choose_kernel(self.width, self.is_float, self.is_long)(
            device,
            stream,
            self.lines,
            a.pointer,
            values.pointer,
            indices.pointer,
            delegates,
            upper,
            plans[0],
            threads=self.threads,
            shared=(self.key_bytes + 2 * (8 if self.is_long else 4)) * self.room,
        )
        return memory

    def find_delegates(self, device: int, stream: int, plan: int, a: DeviceArray, delegates: int) -> None:
        """Find the delegates of the elements."""
        if self.packed:
            self.find(device, stream, a.pointer, delegates, plan, self.width, self.is_float, 0)
        else:
            top_k.strided_delegate_kernel(self.width, self.is_float)(
                device, stream, -(-self.lines * self.pitches[0] // BLOCK), a.pointer, delegates, plan
            )

    def find(
        self, device: int, stream: int, x: int, delegates: int, plan: int, width: int, is_float: bool, level: int
    ) -> None:
        """Find the delegates of packed lines."""
        parts, _ = self.shares(level, width)
        top_k.delegate_kernel(width, is_float)(device, stream, -(-self.lines * parts // WARPS), x, delegates, plan)

    def shares(self, level: int, width: int) -> tuple[int, int]:
        """Return into how many parts a line is cut for its delegates, and how many rounds a warp needs for one."""
        rounds = max(-(-(self.pitches[level] * width << self.group_bits[level]) // (16 * QUADS * LANES)), 1)
        of_warp = min(max(self.lines * rounds // BUSY_WARPS, 1), MOST_ROUNDS)
        return -(-rounds // of_warp), of_warp

    def through_copies(self, a: DeviceArray, out: TopK) -> TopK:
        """Write to an output that is strided, lies in the input, or is in host memory."""
        found = self(a, None)
        for array, new in zip(out, found, strict=True):
            if array.__class__ is ndarray:
                array[...] = new
            else:
                a.library.assign(array, new)
        return out
