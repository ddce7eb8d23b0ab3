"""The call that finds the elements that are not zero: only one of unknown size, or that raises, waits for the count."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Nonzero
from ..._core.operands import check_apart, check_out, output_pair, shared_outputs
from ..._core.shapes import COORD_FIELDS, collapse_rows
from ..driver.arrays import OWN, Output, join, part, scratch
from ..driver.context import is_current, on_device
from ..driver.launch import recorder
from ..driver.memory import HostWords, OnDevices, copy_elements
from ..driver.numba import BLOCK
from ..driver.streams import refuse_capture, synchronize
from ..kernels import compaction
from ..primitives.bad_indices import records_of
from ..primitives.plan import new_identity, reciprocal
from ..replay.repeat import Repeatable

#: Integers of a thread that fills rows, at least, and the most blocks that fill.
FILLED, MOST_BLOCKS = 16, 1 << 12
#: What host memory holds until a count is there, and how often the host looks before it lets the driver wait, which
#: takes some microseconds longer.
UNKNOWN, MOST_LOOKS = -1, 500
#: Unique launch ids, above those of gathers and scatters: one check reports all of them.
_launches = count(1 << 61)
#: Host memory where kernels put a count, by device, that no call uses now.
_free: defaultdict[int, deque[HostWords]] = defaultdict(deque)


class CompactionCall(Repeatable):
    """The coordinates of one layout."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: Any) -> None:
        self.function, self.bounds, self.fill_value = descriptor.function, descriptor.bounds, descriptor.fill_value or 0
        data, number, rows = descriptor.tensors().values()
        count_shape, self.shape = output_shapes
        self.sized = None not in self.shape
        self.checked = not self.sized
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
        self.plans = OnDevices(np.array(numbers, np.int64))
        self.is_line = len(dims) == COORD_FIELDS
        self.identity = new_identity()
        self.tiles = -(-size // compaction.TILE)
        #: Where the bits begin in memory, behind the counts of tiles and of all.
        self.bits_at = 8 * (self.tiles + 1)
        self.widths = data.itemsize, number.itemsize, rows.itemsize
        self.work = size * data.itemsize
        self.kernel = f"{self.function} {8 * data.itemsize}-bit cuda"

    def __call__(self, a: DeviceArray, out: Any) -> Any:
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, out)
        if out is not None:
            return self.to_outputs(a, out)
        if not self.sized:
            return a.library.finish(self.launch(a, None, None, False), a.stream)
        number, rows = self.number.new(a), self.rows.new(a)
        launch = partial(self.launch, a, number, rows, True)
        if self.bounds == "raise":
            launch()
        else:
            self.launch_recorded((a,), (number, rows), launch)
        return Nonzero(a.library.finish(number, a.stream), a.library.finish(rows, a.stream))

    def to_outputs(self, a: DeviceArray, out: Any) -> Nonzero:
        """Write to arrays of the caller, which may lie in the input: that is read before."""
        pair = output_pair(self.function, out, "(count, coordinates)")
        if pair[1].__class__ is ndarray and a.library is OWN:  # the input is a copy
            for output, array in zip((self.number, self.rows), pair, strict=True):
                check_out(output.function, output.name, array, output.shape, output.dtype)
            check_apart(self.function, *pair)
            number, rows = self.number.new(a), self.rows.new(a)
            self.launch(a, number, rows, False)
            pair[0][...] = a.library.finish(number, a.stream)
            found = min(int(pair[0].item()), self.capacity)
            pair[1][..., :found, :] = a.library.finish(rows, a.stream)[..., :found, :]
            return Nonzero(*pair)
        (number, _), (target, packed) = self.number.view(a, pair[0]), self.rows.view(a, pair[1])
        rows = target if packed else self.rows.new(a)
        overlap = number.pointer < rows.pointer + self.rows.size and rows.pointer < number.pointer + self.number.size
        if packed and overlap:
            raise shared_outputs(self.function)
        if not packed:  # rows that are not written keep what they held
            waiting = join(a.stream, rows, target)
            copy_elements(rows, target, a.stream)
        self.launch(a, number, rows, False)
        if not packed:
            copy_elements(target, rows, a.stream)
            part(a.device, a.stream, waiting)
        return Nonzero(*pair)

    def launch(self, a: DeviceArray, number: DeviceArray | None, rows: DeviceArray | None, fills: bool) -> Any:
        """Run the kernels; return the rows, which are made here if it has to be known how many there are."""
        device, stream, words = a.device, a.stream, None
        if rows is None or self.bounds == "raise":
            found = "size: found None" if rows is None else "bounds: found 'raise'"
            expected = "a number of rows" if rows is None else "'deferred' or 'drop'"
            refuse_capture(stream, f"{self.function}: {found}", expected)
            words = _words_of(device)
        others = join(stream, *[array for array in (a, number, rows) if array is not None])
        if rows is None:
            memory = self.launch_recorded((a,), (), partial(self.count, a, None, words, False))
        else:
            memory = self.count(a, number, words, self.bounds == "deferred")
        if words:
            total = self.wait_for(words, stream)
            if rows is None:
                rows = a.library.new((total, self.columns), self.rows.dtype, device)
        assert rows is not None
        self.write(rows, stream, memory, fills)
        part(device, stream, others)
        return rows

    def count(self, a: DeviceArray, number: DeviceArray | None, words: HostWords | None, deferred: bool) -> DeviceArray:
        """Mark the elements and count them; return memory with the counts of tiles and the bits of elements."""
        where, (read, count_width, _) = (a.device, a.stream), self.widths
        memory = scratch(a, self.bits_at + compaction.WORD_BYTES * BLOCK * self.tiles)
        mark = compaction.mark_kernel(read, self.is_line)
        mark(*where, self.tiles, a.pointer, memory.pointer + self.bits_at, memory.pointer, self.plans[a.device].address)
        totals = number.pointer if number else 0, words.address if words else 0
        record = self.record(a.device, len(a.shape)) if deferred else (0, 0)
        if recorder.steps is not None:
            recorder.given = record if deferred else (words.address, 0) if words else None
        add_up = compaction.sum_kernel(count_width)
        threads = compaction.MOST_THREADS if self.tiles > BLOCK else BLOCK
        given = memory.pointer, self.tiles, *totals, self.capacity, *record, self.identity
        add_up(*where, 1, *given, threads=threads)
        return memory

    def record(self, device: int, ndim: int) -> tuple[int, int]:
        """Return the address of the record of too many elements, and the number of a launch."""
        records = records_of(device)
        records.defer(self, ndim, ())
        return records.deferred.address, next(_launches)

    def wait_for(self, words: HostWords, stream: int) -> int:
        """Return how many elements are not zero, once that is known."""
        found = words.words
        for _ in range(MOST_LOOKS):
            if found[0] != UNKNOWN:
                break
        else:
            synchronize(stream)
        total = int(found[0])
        found[0] = UNKNOWN
        _free[words.device].append(words)
        if total > self.capacity:
            raise self.error(0, (), 0, total)
        return total

    def write(self, rows: DeviceArray, stream: int, memory: DeviceArray, fills: bool) -> None:
        """Write the rows, and fill those for which there is no element."""
        room, where, width = rows.shape[-2], (rows.device, stream), self.widths[-1]
        if room == 0 or self.columns == 0:
            return
        counts, bits = memory.pointer, memory.pointer + self.bits_at
        staged = self.columns >= compaction.LEAST_STAGED
        write = compaction.write_kernel(width, staged)
        given = bits, counts, rows.pointer, room, self.plans[rows.device].address
        write(*where, self.tiles, *given, shared=BLOCK * self.columns * width if staged else 0)
        if fills:
            end = room * self.columns
            blocks = min(-(-end // (FILLED * BLOCK)), MOST_BLOCKS)
            fill = compaction.fill_kernel(width)
            fill(*where, blocks, rows.pointer, counts + 8 * self.tiles, self.columns, end, self.fill_value, blocks)

    def repeat(self, a: Any, *, out: Any) -> Any:
        """Make the call again with an array of a library; return None if it is not like the recorded one."""
        again = self.again
        if again is None or out is not None:
            return None
        device, library = again.device, again.library
        if self.sized:
            number, rows = again.new(self.number), again.new(self.rows)
            record = self.record(device, len(again.shapes[0])) if self.bounds == "deferred" else (0, 0)
            return None if again((a, number, rows), *record) is None else Nonzero(number, rows)
        words = _words_of(device)
        memory = library.memory(again.scratch_size, device)
        stream = None
        try:
            stream = again((a,), words.address, 0, memory)
        finally:
            if stream is None:
                _free[device].append(words)
        if stream is None:
            return None
        found = library.new((self.wait_for(words, stream), self.columns), self.rows.dtype, device)
        self.write(found, stream, memory, False)
        return library.finish(found, stream)

    def has_plan(self, identity: int) -> bool:
        """Tell whether a record is of this call."""
        return identity == self.identity

    def error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> ValueError:
        """Return the error for more elements than there is room for."""
        return ValueError(f"{self.function}: size: found {value} nonzero elements, expected at most {self.capacity}")


def _words_of(device: int) -> HostWords:
    """Return host memory for a count."""
    try:
        return _free[device].pop()
    except IndexError:
        return HostWords(device, np.array([UNKNOWN], np.int64))


build = CompactionCall
