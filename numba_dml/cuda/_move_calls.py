"""The calls of gather and scatter: how a lowering becomes a plan in device memory, and which kernel runs it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from itertools import count
from math import gcd
from typing import Any

import numpy as np
from numpy import ndarray

from .._device import DeviceArray
from .._enums import TensorDataType
from .._lowering import Move
from .._operator import check_out
from .._tensor import collapse, dtype_of, extent, product
from . import SIMULATED, _sorting, gather, scatter
from ._arrays import OWN, Output, Span, join, part, scratch
from ._bounds import Record, Records, records_of
from ._element_calls import (
    BinnedScatter,
    ColumnGather,
    ColumnScatter,
    FewPlaceCombine,
    LineGather,
    OwnColumnGather,
    OwnColumnScatter,
    OwnPlaceScatter,
    ScatterArguments,
    SharedColumnGather,
    SharedColumnScatter,
    blocks_with_own,
    by_lines,
)
from ._fill import copy_and_set, divide_copy, is_copied_by_kernel
from ._groups import GROUP, QUAD_BYTES
from ._launch import BLOCK, Kernel, is_current, on_device, recorder, refuse_capture
from ._plan import CLAMP, DROP, RAISE, Plan
from ._repeat import Repeatable
from ._slices import divide_slices, moves_by_warps

_BOUNDS = {"clamp": CLAMP, "drop": DROP}
#: The numbers of launches, which no other argument of a kernel equals.
_launches = count(1 << 60)

#: Up to so many points claim a place by 4 bytes.
MOST_SHORT_CLAIMS = (1 << 31) - 1
#: With fewer than one point for so many places, and from so many places on, there is a table of those that are claimed,
#: if it is smaller, and the numbers of a place and a point fit into its entries. In µs, with it and without: 40k points
#: of 8M elements of 4 bytes 22 and 34, 20k of 4M 14 and 17, 10k of 2M 10.3 and 11.0, of 1 byte 12 and 19, 8.5 and 10.3,
#: 7.7 and 7.1. In place, 100k of 256M take 12 and 260, 200k of 4M 18 and 22, 500k of 4M 49 and 42, 1M of 8M 93 and 97.
TABLED = ((4, 8),) if SIMULATED else ((4, 1 << 23), (16, 3 << 20))
#: Numbers of places, times entries, of which an entry has room for both.
MOST_TABLED = 1 << 63
#: With one point for so many places, or more, an output whose elements have so many bytes is merged, and not copied and
#: its table written over it. In µs, merged and not: 670k of 16M of 4 bytes 89 and 96, 133k of 8M 35 and 29, 400k 40 and
#: 51; 800k of 15M of 2 bytes 74 and 72, 1.5M 98 and 119; 300k of 9M of 1 byte 30 and 24, 600k 36 and 39, 1M 44 and 59,
#: 1.5M of 30M 146 and 116.
PLACES_PER_MERGED = {1: 16, 2: 20, 4: 32}
#: And so without a table: 42k of 4M elements of 4 bytes take 21.3 and 21.9 µs, of 1 byte 14.8 and 14.5; with fewer it
#: was not measured.
PLACES_PER_MERGED_ALONE = 128
#: Elements of so many bytes are merged four at a time: 1.7M of 16M of 1 byte take 108 µs, one by one 128; 70k of 2M of
#: 8 bytes 21 and 19.5.
MERGED_AT_ONCE = tuple(PLACES_PER_MERGED)


def _name(way: object) -> str:
    """Return the end of a kernel's name that says which way it goes."""
    return f", {type(way).__name__}" if way else ""


class _MoveCall(Repeatable):
    """What gather and scatter calls share: the numbers, the plans, and the error for a bad index.

    `spans` say where the inputs lie; a copy, which nobody calls with an output, has none.
    """

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], spans: Sequence[Span]) -> None:
        self.lowering = low = lowering
        self.spans = spans
        self.function = low.function
        self.reduces = low.reduction != "none"
        self.dtype = dtype
        self.output = Output(low.function, "out", shape, dtype)
        self.out_bytes = self.output.size
        self.index_dtype = dtype_of(low.index_type)
        self.index_name = self.index_dtype.name
        self.outer = list(low.slices)
        self.run = low.itemsize
        if self.outer and self.outer[-1][1] == low.itemsize:
            self.run *= self.outer.pop()[0]
        self.slice_bytes = self.run * product([size for size, _ in self.outer])
        self.loops = [(n, step, index_step) for n, step, index_step, _ in low.loops]
        self.points = product(loop[0] for loop in self.loops)
        self.moved = self.points * self.slice_bytes
        self.index_bytes = product(low.index_shape) * self.index_dtype.itemsize
        self.starts = [(n, step) for n, step, _ in self.loops] + list(low.coordinates)
        places = self.starts + self.outer
        #: A unit must divide these steps, and the addresses.
        self.steps = gcd(16, self.run, *(step for _, step in places))
        reach = extent(*zip(*places, strict=True))
        #: How many loops, coordinates and outer dimensions a kernel is compiled for.
        self.counts = tuple(
            len(dims) if len(dims) <= most else -1
            for dims, most in (
                (self.loops, gather.MOST_LOOPS),
                (low.coordinates, gather.MOST_COORDS),
                (self.outer, gather.MOST_OUTER),
            )
        )
        np.array([reach[0], reach[1] + self.run, self.moved, self.out_bytes], np.int64)  # an error if they are larger
        self.plans: dict[tuple[int, int], Plan] = {}
        self.bound: dict[tuple[int, int], tuple[Kernel, int, int, int, int]] = {}
        self.bounds = low.bounds
        if low.function.startswith("gather") and any(size == 0 for size, _ in low.coordinates):
            self.bounds = "raise"  # there is nothing to clamp to, and nothing that could stand for what is not there
        self.deferred = self.bounds == "deferred"
        self.checked = self.bounds == "raise"
        self.work = 2 * self.moved + self.index_bytes

    def lies_in(self, out: DeviceArray, array: DeviceArray, span: Span) -> bool:
        """Tell whether the memory of a packed output may overlap an input's."""
        distance = out.pointer - array.pointer
        return distance < span.high and span.low < distance + self.out_bytes

    def unit_width(self, addresses: int) -> int:
        """Return how wide a unit can be, by the alignment of some addresses."""
        aligned = self.steps | addresses
        return min(aligned & -aligned, 16)

    def plan(self, device: int, width: int) -> Plan:
        """Return the plan for units of a width."""
        found = self.plans.get((device, width))
        if found is None:
            plan = Plan(
                device,
                max(self.slice_bytes // width, 1),
                max(self.run // width, 1),
                self.loops,
                self.lowering.coordinates,
                self.outer,
                _BOUNDS.get(self.bounds, RAISE),
                *self.claims,
            )
            found = self.plans.setdefault((device, width), plan)
        return found

    def unit_kernel(self, width: int, alone: bool) -> Kernel:
        """Return the kernel that moves units of a width, a thread one alone or several."""
        raise NotImplementedError

    def slice_kernel(self, width: int) -> Kernel:
        """Return the kernel whose warps move slices of such units."""
        raise NotImplementedError

    def goes_by_warps(self, width: int) -> bool:
        """Tell whether warps move the slices."""
        has_places = all(size > 0 for size, _ in self.lowering.coordinates)  # or there is nothing to read instead
        return not self.outer and has_places and moves_by_warps(width, self.slice_bytes // width, self.points)

    def bind(self, device: int, width: int) -> tuple[Kernel, int, int, int, int]:
        """Return the kernel for units of a width, what it is given of the plan, and how many blocks.

        And how many units there are, and each block's; or if they go by warps how many slices, and each warp's.
        """
        found = self.bound.get((device, width))
        if found is None:
            if self.goes_by_warps(width):
                kernel, count = self.slice_kernel(width), self.points
                blocks, share = divide_slices(count)
            else:
                count = self.moved // width
                kernel = self.unit_kernel(width, count <= self.few_units)
                blocks, share = gather.divide(count, self.few_units)
            plan = self.plan(device, width).for_kernel(kernel)
            found = self.bound[device, width] = kernel, plan, blocks, count, share
        return found

    def has_plan(self, identity: int) -> bool:
        """Tell whether one of the plans has an identity."""
        return any(plan.identity == identity for plan in tuple(self.plans.values()))  # another thread may add one

    #: The granule and the lowest of the places that a scatter claims, and the bytes of a claim if there is no table.
    claims = (1, 0)
    claim_bytes = 0
    #: The places of a scatter, and the blocks that have all claims of their own, if they do.
    places = blocks_with_claims = 0
    #: Up to so many units a thread moves one.
    few_units: int

    def look(
        self,
        device: int,
        stream: int,
        indices: DeviceArray,
        number: int,
        record: int,
        claims: int,
        claim_bytes: int = 0,
        entries: int = 0,
        to: int = 0,
        fro: int = 0,
        size: int = 0,
    ) -> None:
        """Look at all indices, and claim the places that they lead to, if there are claims; see `scatter.claiming`.

        With a table of claims, that is with `entries`, so many bytes are copied on the way.
        """
        if claim_bytes == 4 and not entries and self.blocks_with_claims:
            kernel = scatter.combine_few_kernel(claim_bytes, self.index_name, *self.counts, None)
            kernel(
                device,
                stream,
                self.blocks_with_claims,
                claims + scatter.FLAG_BYTES,
                indices.pointer,
                0,
                self.plan(device, 1).for_kernel(kernel),
                record,
                number,
                claims,
                self.places,
                self.points,
                -(-self.points // self.blocks_with_claims),
                shared=-(-claim_bytes * self.places // QUAD_BYTES) * QUAD_BYTES,
            )
            return
        # To find an entry takes several steps, of which a thread has one point's on their way.
        blocks, share = gather.divide(self.points, self.points if entries else self.few_units)
        copying, copied = divide_copy(size)
        kernel = scatter.claim_kernel(self.index_name, *self.counts, claim_bytes, entries > 0)
        kernel(
            device,
            stream,
            blocks + copying,
            indices.pointer,
            self.plan(device, 1).for_kernel(kernel),
            record,
            number,
            claims,
            entries - 1,
            self.points,
            share,
            blocks,
            to,
            fro,
            size,
            copied,
        )

    def begin(self, device: int, ndim: int, index_shape: tuple[int, ...]) -> tuple[Records, Record, int]:
        """Return the records of a device, the one for a launch, and the launch's number.

        The caller's input and indices, of this rank and shape, are named if a bad index is found later.
        """
        records = records_of(device)
        if self.deferred:
            records.defer(self, ndim, index_shape)
        record, number = records.deferred if self.deferred else records.take(), next(_launches)
        if recorder.steps is not None:
            recorder.given = record.address, number
        return records, record, number

    def repeat(self, *arrays: Any, out: Any) -> Any:
        """Make the call again with arrays of a library; return None if they are not like the recorded ones."""
        again = self.again
        if again is None or (self.checked and not records_of(again.device).free):  # a new record cannot be captured
            return None
        result = again.new(self.output) if out is None else out
        ndim, index_shape = len(again.shapes[0]), again.shapes[1]
        records, record, number = self.begin(again.device, ndim, index_shape)
        stream = None
        try:
            stream = again((*arrays, result), record.address, number)
        finally:
            if stream is None and not self.deferred:
                records.free.append(record)
        if stream is None:
            return None
        self.finish(records, record, stream, ndim, index_shape)
        return result

    def finish(self, records: Records, record: Record, stream: int, ndim: int, index_shape: tuple[int, ...]) -> None:
        """Raise for a bad index, unless that is deferred; the caller's input and indices are of a rank and shape."""
        if self.deferred:
            return
        found = records.read(record, stream) if self.checked else None
        records.free.append(record)
        if found:
            position, value, _ = found
            raise self.error(ndim, index_shape, position, value)

    def error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> IndexError:
        """Return the error for a bad index that was recorded."""
        if self.index_dtype.kind == "u":
            value %= 1 << 64
        return self.lowering.index_error(ndim, index_shape, position, value)


class GatherCall(_MoveCall):
    """A gather of one layout."""

    few_units = gather.FEW_UNITS

    def __init__(
        self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], spans: Sequence[Span] = ()
    ) -> None:
        super().__init__(lowering, dtype, shape, spans)
        self.way = (
            LineGather.find(self)
            or OwnColumnGather.find(self)
            or SharedColumnGather.find(self)
            or ColumnGather.find(self)
        )
        self.kernel = f"gather {8 * self.steps}-bit cuda{_name(self.way)}"

    def __call__(self, a: DeviceArray, indices: DeviceArray, out: Any) -> Any:
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, indices, out)
        if out.__class__ is ndarray and a.library is OWN:  # the inputs are copies
            check_out(self.function, "out", out, self.output.shape, self.dtype)
            out[...] = self(a, indices, None)
            return out
        stream = a.stream
        if self.checked:  # takes under a microsecond, and the wait at the end many
            refuse_capture(stream, f"{self.function}: bounds: found 'raise'", "'deferred' or 'drop'")
        if out is None:
            target = self.output.new(a)
        else:
            target, is_target_packed = self.output.view(a, out)
            of_a, of_indices = self.spans
            if not is_target_packed or self.lies_in(target, a, of_a) or self.lies_in(target, indices, of_indices):
                a.library.assign(out, self(a, indices, None))
                return out
        if self.points:
            others = join(stream, a, indices, target)
            launch = partial(self.launch, a, indices, target, stream, others)
            self.launch_recorded((a, indices), (target,), launch)
        return out if out is not None else a.library.finish(target, stream)

    def unit_kernel(self, width: int, alone: bool) -> Kernel:
        return gather.gather_kernel(width, self.index_name, *self.counts, alone)

    def slice_kernel(self, width: int) -> Kernel:
        return gather.gather_slices_kernel(width, self.index_name, *self.counts[:2])

    def launch(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, others: Collection[int | None] = ()
    ) -> None:
        """Run the kernel, let the other streams wait, and raise for a bad index."""
        device, index_shape = a.device, indices.shape
        if self.spans and not self.spans[1].packed:
            indices = packed(indices, stream)
        records, record, number = self.begin(device, len(a.shape), index_shape)
        memory: Any = None
        if self.way:
            memory = self.way(a, indices, out, stream, record.address, number)
        elif self.moved:
            kernel, plan, blocks, *sizes = self.bind(device, self.unit_width(a.pointer | out.pointer))
            pointers = a.pointer, indices.pointer, out.pointer
            kernel(device, stream, blocks, *pointers, plan, record.address, number, *sizes)
        else:
            self.look(device, stream, indices, number, record.address, 0)
        part(device, stream, others)
        self.finish(records, record, stream, len(a.shape), index_shape)
        del memory  # only now


class ScatterCall(_MoveCall):
    """A scatter of one layout, to an output that is packed."""

    few_units = scatter.FEW_UNITS

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], spans: Sequence[Span]) -> None:
        super().__init__(lowering, dtype, shape, spans)
        low, high = extent(*zip(*self.starts, strict=True))
        granule = gcd(*(step for size, step in self.starts if size > 1)) or max(self.slice_bytes, 1)
        self.claims = (granule, low)
        #: How many places there are, from the first to the last.
        self.places = (high - low) // granule + 1
        #: The slices at all places are the whole output, one after the other.
        self.covered = (
            not self.outer and self.claims == (self.slice_bytes, 0) and self.places * self.slice_bytes == self.out_bytes
        )
        claim_bytes = 4 if self.points <= MOST_SHORT_CLAIMS else 8
        #: The entries of a table of claims, 0: every place has a claim.
        self.entries = 0
        if not lowering.unique and not self.reduces:
            self.claim_bytes = claim_bytes
            self.blocks_with_claims = blocks_with_own(self.points, self.places, claim_bytes)
            entries = max(1 << (2 * self.points - 1).bit_length(), scatter.ENTRIES)
            if (
                any(places <= self.places > points * self.points for points, places in TABLED)
                and entries * scatter.ENTRY_BYTES <= self.places * claim_bytes
                and self.places * entries <= MOST_TABLED
            ):
                self.entries = entries
        #: The bytes of a claim when the output is made of what is there and the updates, 0: a copy is written over.
        self.merge_bytes = claim_bytes if self.is_merged() else 0
        reductions, data_types = scatter.COMBINED
        #: How the memory combines updates with what is there: an operation, and the type.
        self.combined: tuple[str, str] | None = None
        if lowering.reduction in reductions and lowering.data_type in data_types:
            self.combined = lowering.reduction, lowering.data_type.name.lower()
        self.work += 2 * self.out_bytes
        self.way = (
            by_lines(self).find(self)
            or FewPlaceCombine.find(self)
            or OwnColumnScatter.find(self)
            or SharedColumnScatter.find(self)
            or ColumnScatter.find(self)
            or BinnedScatter.find(self)
            or OwnPlaceScatter.find(self)
        )
        self.kernel = f"scatter {8 * self.steps}-bit cuda{_name(self.way)}"

    def is_merged(self) -> bool:
        """Tell whether an output that is not the input is better merged than copied and written over.

        Then the slices that are replaced are not copied, and no claim is looked up at random, of 32 bytes each. If the
        points are unique, claims come on top: set, raised, and read once for each place. Small elements are merged
        four at a time, which takes little longer than a copy: see `PLACES_PER_MERGED`.
        """
        if self.reduces or not self.covered:
            return False
        looked_up = 32 * self.points
        if self.lowering.unique:
            return 2 * self.moved - looked_up > 8 * self.places
        if self.slice_bytes in MERGED_AT_ONCE:
            most = PLACES_PER_MERGED[self.slice_bytes] if self.entries else PLACES_PER_MERGED_ALONE
            return most * self.points >= self.places
        return 2 * self.moved + looked_up > 4 * self.places

    def __call__(self, a: DeviceArray, indices: DeviceArray, updates: DeviceArray, out: Any) -> Any:
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, indices, updates, out)
        if out.__class__ is ndarray and a.library is OWN:  # the inputs are copies
            check_out(self.function, "out", out, self.output.shape, self.dtype)
            out[...] = self(a, indices, updates, None)
            return out
        stream = a.stream
        if self.checked:  # takes under a microsecond, and the wait at the end many
            refuse_capture(stream, f"{self.function}: bounds: found 'raise'", "'deferred' or 'drop'")
        in_place = False
        if out is None:
            target = self.output.new(a)
        else:
            target, is_target_packed = self.output.view(a, out)
            in_place = target.pointer == a.pointer and target.strides == a.strides
            of_a, of_indices, of_updates = self.spans
            if (
                not is_target_packed
                or (not in_place and self.lies_in(target, a, of_a))
                or self.lies_in(target, indices, of_indices)
                or self.lies_in(target, updates, of_updates)
            ):
                a.library.assign(out, self(a, indices, updates, None))
                return out
        others = join(stream, a, indices, updates, target)
        launch = partial(self.launch, a, indices, updates, target, stream, others, in_place)
        self.launch_recorded((a, indices, updates), (target,), launch)
        return out if out is not None else a.library.finish(target, stream)

    def fill(self, old: int, out: DeviceArray, stream: int, memory: int = 0, size: int = 0) -> None:
        """Copy what is old to the output, unless it is there, and set all bits of memory."""
        copied = self.out_bytes if old != out.pointer else 0
        if copied or size:
            copy_and_set(out.device, stream, out.pointer, old, copied, memory, size, -1)

    def launch(
        self,
        a: DeviceArray,
        indices: DeviceArray,
        updates: DeviceArray,
        out: DeviceArray,
        stream: int,
        others: Collection[int | None],
        in_place: bool,
    ) -> None:
        """Run the kernels, let the other streams wait, and raise for a bad index."""
        index_shape = indices.shape
        if not self.spans[2].packed:
            updates = packed(updates, stream)
        old = out.pointer  # what is there before
        if not in_place and self.out_bytes:
            if self.spans[0].packed:
                old = a.pointer  # what the updates leave is copied on the way
            else:
                copy(a, out, stream)
        if not self.points:
            self.fill(old, out, stream)
            part(a.device, stream, others)
            return
        if not self.spans[1].packed:
            indices = packed(indices, stream)
        records, record, number = self.begin(a.device, len(a.shape), index_shape)
        all_or_none = int(in_place and self.checked)
        write = self.fold if self.reduces and not self.combined else self.write
        if self.way and self.way.suits(old, updates.pointer, out.pointer):
            write = self.way
            if not self.way.copies(old, out.pointer):
                self.fill(old, out, stream)
                old = out.pointer
        memory = write(ScatterArguments(old, indices, updates, out, stream, record.address, number, all_or_none))
        part(a.device, stream, others)
        self.finish(records, record, stream, len(a.shape), index_shape)
        del memory  # only now

    def unit_kernel(self, width: int, alone: bool) -> Kernel:
        claims = self.claim_bytes, self.entries > 0
        return scatter.scatter_kernel(width, self.index_name, *self.counts, *claims, self.combined)

    def slice_kernel(self, width: int) -> Kernel:
        claims = self.claim_bytes, self.entries > 0
        return scatter.scatter_slices_kernel(width, self.index_name, *self.counts[:2], *claims)

    def goes_by_warps(self, width: int) -> bool:
        return not self.combined and super().goes_by_warps(width)

    def look_first(self, given: ScatterArguments) -> tuple[DeviceArray | None, int, int]:
        """If nothing may be written when an index is bad, look at all of them before.

        Return the memory of a flag, its address or 0, and the number of the launch that is to record what it finds.
        """
        _, indices, _, out, stream, record, number, all_or_none = given
        if not all_or_none:
            return None, 0, number
        memory = scratch(out, scatter.FLAG_BYTES)
        self.fill(out.pointer, out, stream, memory.pointer, scatter.FLAG_BYTES)
        self.look(out.device, stream, indices, number, record, memory.pointer)
        return memory, memory.pointer, -1

    def write(self, given: ScatterArguments) -> DeviceArray | None:
        """Write the updates over what is there, or beside what is old; return memory in use until all is done."""
        old, indices, updates, out, stream, record, number, all_or_none = given
        device = out.device
        merges = self.merge_bytes > 0 and old != out.pointer
        width = self.dtype.itemsize if self.combined else self.unit_width(old | updates.pointer | out.pointer)
        claim_bytes, entries = (self.merge_bytes, 0) if merges else (self.claim_bytes, self.entries)
        claims = entries * scatter.ENTRY_BYTES if entries else claim_bytes * self.places
        memory = None
        if claim_bytes or all_or_none or not self.moved:  # look at the indices first
            size = scatter.FLAG_BYTES + -(-claims // QUAD_BYTES) * QUAD_BYTES
            memory = scratch(out, size)
            copied = 0, 0, 0
            if entries and not merges and old != out.pointer and is_copied_by_kernel(out.pointer, old, self.out_bytes):
                copied = out.pointer, old, self.out_bytes
            self.fill(out.pointer if merges or any(copied) else old, out, stream, memory.pointer, size)
            self.look(device, stream, indices, number, record, memory.pointer, claim_bytes, entries, *copied)
        else:
            self.fill(old, out, stream)
        if merges and memory:
            self.merge(old, updates, out, stream, memory.pointer, width)
        elif memory and entries and width == self.slice_bytes:
            granule, lowest = self.claims
            blocks = -(-entries // (scatter.ENTRIES * BLOCK))
            scatter.entry_kernel(width)(
                device,
                stream,
                blocks,
                out.pointer,
                lowest,
                granule,
                updates.pointer,
                memory.pointer,
                entries.bit_length() - 1,
                all_or_none,
            )
        elif self.moved:
            kernel, plan, blocks, *sizes = self.bind(device, width)
            kernel(
                device,
                stream,
                blocks,
                out.pointer,
                indices.pointer,
                updates.pointer,
                plan,
                record,
                -1 if memory else number,
                memory.pointer if memory else 0,
                entries - 1,
                all_or_none,
                *sizes,
            )
        return memory

    def merge(self, old: int, updates: DeviceArray, out: DeviceArray, stream: int, claims: int, width: int) -> None:
        """Write the output, made of what is old and of the updates whose claims stayed."""
        device, units = out.device, self.out_bytes // width
        quad = min(GROUP * width, QUAD_BYTES)
        if (
            width == self.slice_bytes
            and width in MERGED_AT_ONCE
            and self.merge_bytes == 4
            and (out.pointer | old) % quad == 0
        ):
            blocks = max(-(-units // (2 * GROUP * BLOCK)), 1)
            scatter.merge_elements_kernel(width)(
                device, stream, blocks, out.pointer, old, updates.pointer, claims, units
            )
        else:
            if moves_by_warps(width, self.slice_bytes // width, self.places):
                kernel, count = scatter.merge_slices_kernel(width, self.merge_bytes), self.places
                blocks, share = divide_slices(count)
            else:
                kernel, count = scatter.merge_kernel(width, self.merge_bytes), units
                blocks, share = gather.divide(count, self.few_units)
            plan = self.plan(device, width).for_kernel(kernel)
            kernel(device, stream, blocks, out.pointer, old, updates.pointer, plan, claims, count, share)

    def fold(self, given: ScatterArguments) -> DeviceArray:
        """Combine the updates with what is there; return memory that is in use until all is done.

        Points are sorted by their place, and then a thread goes through the updates of each, in their order.
        """
        old, indices, updates, out, stream, record, number, all_or_none = given
        device, points, itemsize = out.device, self.points, self.dtype.itemsize
        width = self.unit_width(old | updates.pointer | out.pointer)
        plan, item_plan = self.plan(device, width), self.plan(device, itemsize)
        is_long = max(points, self.places) > scatter.MOST_SHORT
        sort = _sorting.Sort(1, points, is_long, self.places.bit_length())
        most = points // (scatter.LONG + 1) + 1
        head = 8 * (2 + most + most % 2)
        few = points <= scatter.MOST_RANKED
        memory = scratch(out, head + (0 if few else sort.bytes + sort.pairs_bytes) + sort.pairs_bytes)
        flag, long_count, longs, sorting = (memory.pointer + offset for offset in (0, 8, 16, head))
        pairs = sorting + (0 if few else sort.bytes)
        self.fill(old, out, stream, flag, scatter.FLAG_BYTES)
        make, at_once = (scatter.rank_kernel, _sorting.WARPS) if few else (scatter.pair_kernel, BLOCK)
        nowhere = self.places
        kernel = make(self.index_name, *self.counts, is_long)
        kernel(
            device,
            stream,
            -(-points // at_once),
            indices.pointer,
            plan.for_kernel(kernel),
            record,
            number,
            flag,
            points,
            nowhere,
            pairs,
        )
        if not few:
            pairs = sort.sort(device, stream, sorting, pairs)
        blocks = -(-points * (self.slice_bytes // width) // BLOCK)
        kind = self.lowering.data_type, self.lowering.reduction
        kernel = scatter.fold_kernel(*kind, width, self.counts, is_long)
        kernel(
            device,
            stream,
            blocks,
            out.pointer,
            updates.pointer,
            plan.for_kernel(kernel),
            flag,
            all_or_none,
            pairs,
            points,
            nowhere,
            long_count,
            longs,
        )
        if points > scatter.LONG:
            blocks = min(scatter.LONG_BLOCKS, most * -(-self.slice_bytes // (itemsize * scatter.FOLDERS)))
            kernel = scatter.fold_many_kernel(*kind, itemsize, self.counts, is_long)
            addresses = out.pointer, updates.pointer, item_plan.for_kernel(kernel), pairs
            kernel(device, stream, blocks, *addresses, points, long_count, longs, blocks)
        return memory


@lru_cache(maxsize=1024)
def _copy(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> GatherCall:
    """Return the gather of one slice, which is all of an array, without any indices."""
    lowering = Move(
        function="copy",
        data_type=dtype,
        itemsize=dtype.itemsize,
        index_type=TensorDataType.INT64,
        index_shape=(),
        loops=((1, 0, 0, 1),),
        coordinates=(),
        slices=tuple(collapse(list(zip(shape, strides, strict=True)))),  # type: ignore[arg-type]
        axes=(),
        bounds="clamp",
    )
    return GatherCall(lowering, dtype, shape)


def copy(array: DeviceArray, to: DeviceArray, stream: int) -> None:
    """Copy a strided array to a packed one; its plan lives in a cache, so it is not for those who record launches."""
    recorder.note(None)
    _copy(array.shape, array.strides, array.dtype).launch(array, array, to, stream)


def packed(array: DeviceArray, stream: int) -> DeviceArray:
    """Return a packed copy of a strided array."""
    new = array.library.new(array.shape, array.dtype, array.device)
    copy(array, new, stream)
    return new
