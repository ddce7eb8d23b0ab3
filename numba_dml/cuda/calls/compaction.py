"""The call that finds the elements that are not zero: only one of unknown size, or that raises, waits for the count."""

from __future__ import annotations

import threading
from collections import deque
from itertools import count
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Nonzero
from ..._core.operands import SHARED_COORDINATES, check_out, output_pair
from ..._core.shapes import COORD_FIELDS, collapse_rows
from ..driver.arrays import OWN, Output, join, part, scratch
from ..driver.context import is_current, on_device
from ..driver.memory import DeviceMemory, HostWords
from ..driver.numba import BLOCK
from ..driver.streams import refuse_capture, synchronize
from ..kernels import compaction
from ..primitives.bad_indices import records_of
from ..primitives.plan import new_identity, reciprocal

#: Integers of a thread that fills rows, at least, and the most blocks that fill.
FILLED, MOST_BLOCKS = 16, 1 << 12
#: Unique launch ids, above those of gathers and scatters: one check reports all of them.
_launches = count(1 << 61)
#: Host memory where kernels put a count, by device, that no call uses now.
_free: dict[int, deque[HostWords]] = {}
_lock = threading.Lock()


class CompactionCall:
    """The coordinates of one layout."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: Any) -> None:
        self.function, self.bounds, self.fill_value = descriptor.function, descriptor.bounds, descriptor.fill_value or 0
        data, number, rows = descriptor.tensors().values()
        count_shape, self.shape = output_shapes
        self.sized = None not in self.shape
        self.capacity, self.columns = rows.sizes[-2:]
        self.number = Output(self.function, "out[0]", count_shape, number.dtype)
        self.rows = Output(self.function, "out[1]", self.shape if self.sized else rows.sizes, rows.dtype)
        self.output = self.rows
        strides = layouts[0][0]
        lowering = descriptor.lower([strides])
        size = data.element_count
        dims = [value for pair in zip(data.sizes, strides, strict=True) for value in pair]
        dims = dims[: COORD_FIELDS * collapse_rows(dims, COORD_FIELDS, len(data.sizes))] or [1, data.itemsize]
        signed = lowering.mask - (1 << 64) if lowering.mask >> 63 else lowering.mask
        numbers = [size, signed, len(dims) // COORD_FIELDS, self.columns]
        for at in range(0, len(dims), COORD_FIELDS):
            numbers += [*reciprocal(max(dims[at], 1)), dims[at + 1]]
        for extent in data.sizes[len(data.sizes) - self.columns :]:
            numbers += reciprocal(max(extent, 1))
        self.numbers = np.array(numbers, np.int64)
        self.is_line = len(dims) == COORD_FIELDS
        self.identity = new_identity()
        self.tiles = -(-size // compaction.TILE)
        self.widths = data.itemsize, number.itemsize, rows.itemsize
        self.work = size * data.itemsize
        self.kernel = f"{self.function} {8 * data.itemsize}-bit cuda"
        self.plans: dict[int, DeviceMemory] = {}

    def __call__(self, a: DeviceArray, out: Any) -> Any:
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, out)
        if out is not None:
            return self.to_outputs(a, out)
        if not self.sized:
            return a.library.finish(self.launch(a, None, None, True), a.stream)
        number, rows = self.number.new(a), self.rows.new(a)
        self.launch(a, number, rows, True)
        return Nonzero(a.library.finish(number, a.stream), a.library.finish(rows, a.stream))

    def to_outputs(self, a: DeviceArray, out: Any) -> Nonzero:
        """Write to arrays of the caller, which may lie in the input: that is read before."""
        pair = output_pair(self.function, out, "(count, coordinates)")
        if pair[1].__class__ is ndarray and a.library is OWN:  # the input is a copy
            for output, array in zip((self.number, self.rows), pair, strict=True):
                check_out(output.function, output.name, array, output.shape, output.dtype)
            if np.shares_memory(*pair):
                raise ValueError(SHARED_COORDINATES)
            number, rows = self.number.new(a), self.rows.new(a)
            self.launch(a, number, rows, False)
            pair[0][...] = a.library.finish(number, a.stream)
            found = min(int(pair[0].item()), self.capacity)
            pair[1][..., :found, :] = a.library.finish(rows, a.stream)[..., :found, :]
            return Nonzero(*pair)
        (number, _), (rows, packed) = self.number.view(a, pair[0]), self.rows.view(a, pair[1])
        if (
            packed
            and number.pointer < rows.pointer + self.rows.size
            and rows.pointer < number.pointer + self.number.size
        ):
            raise ValueError(SHARED_COORDINATES)
        if packed:
            self.launch(a, number, rows, False)
        else:  # rows that are not written keep what they held
            copy = self.rows.new(a)
            a.library.assign(copy.owner, pair[1])
            self.launch(a, number, copy, False)
            a.library.assign(pair[1], copy.owner)
        return Nonzero(*pair)

    def launch(self, a: DeviceArray, number: DeviceArray | None, rows: DeviceArray | None, fills: bool) -> Any:
        """Run the kernels; return the rows, which are made here if it has to be known how many there are."""
        device, stream = a.device, a.stream
        deferred = self.bounds == "deferred" and rows is not None
        waits = rows is None or self.bounds == "raise"
        if waits:
            found = "size: found None" if rows is None else "bounds: found 'raise'"
            expected = "a number of rows" if rows is None else "'deferred' or 'drop'"
            refuse_capture(stream, f"{self.function}: {found}", expected)
        others = join(stream, *[array for array in (a, number, rows) if array is not None])
        memory = scratch(a, 8 * (self.tiles + 1) + compaction.WORD_BYTES * BLOCK * self.tiles)
        counts, bits = memory.pointer, memory.pointer + 8 * (self.tiles + 1)
        plan = self.plans.get(device) or self.plans.setdefault(device, DeviceMemory(device, self.numbers))
        read, count_width, width = self.widths
        mark = compaction.mark_kernel(read, self.is_line)
        mark(device, stream, self.tiles, a.pointer, bits, counts, plan.address)
        record = records_of(device) if deferred else None
        if record:
            record.defer(self, len(a.shape), ())
        words = _words_of(device) if waits else None
        where = (number.pointer if number else 0), (words.address if words else 0)
        at = (record.deferred.address, next(_launches)) if record else (0, 0)
        add_up = compaction.sum_kernel(count_width)
        add_up(device, stream, 1, counts, self.tiles, *where, self.capacity, *at, self.identity)
        if words:
            synchronize(stream)
            total = int(words.words[0])
            _free[device].append(words)
            if total > self.capacity:
                raise self.error(0, (), 0, total)
            if rows is None:
                rows = a.library.new((total, self.columns), self.rows.dtype, device)
        assert rows is not None
        room = rows.shape[-2]
        if room and self.columns:
            compaction.write_kernel(width)(device, stream, self.tiles, bits, counts, rows.pointer, room, plan.address)
            if fills and self.sized:
                end = room * self.columns
                blocks = min(-(-end // (FILLED * BLOCK)), MOST_BLOCKS)
                last = counts + 8 * self.tiles
                fill = compaction.fill_kernel(width)
                fill(device, stream, blocks, rows.pointer, last, self.columns, end, self.fill_value, blocks)
        part(device, stream, others)
        del memory  # only now
        return rows

    def has_plan(self, identity: int) -> bool:
        """Tell whether a record is of this call."""
        return identity == self.identity

    def error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> ValueError:
        """Return the error for more elements than there is room for."""
        return ValueError(f"{self.function}: size: found {value} nonzero elements, expected at most {self.capacity}")

    def repeat(self, *arrays: Any, out: Any) -> None:
        """Make the call anew: launches are not recorded."""


def _words_of(device: int) -> HostWords:
    """Return host memory for a count."""
    with _lock:
        free = _free.setdefault(device, deque())
    try:
        return free.pop()
    except IndexError:
        return HostWords(device, np.zeros(1, np.int64))


build = CompactionCall
