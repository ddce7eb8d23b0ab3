"""The calls of gather and scatter: how a lowering becomes a plan in device memory, and which kernel runs it."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from math import gcd
from typing import Any

import numpy as np
from numpy import ndarray

from .._device import DeviceArray
from .._enums import TensorDataType
from .._lowering import Move
from .._operator import check_out
from .._tensor import collapse, dtype_of, extent, is_packed, product
from . import _sorting, gather, scatter
from ._arrays import join, part, scratch, view_out
from ._bounds import Record, Records, records_of
from ._element_calls import BinnedScatter, ColumnGather, ColumnScatter, LineGather, LineScatter
from ._launch import BLOCK, DeviceMemory, copy_bytes, set_bytes
from ._plan import CLAMP, DROP, RAISE, make_plan

_BOUNDS = {"clamp": CLAMP, "drop": DROP}
_launches = count()

#: Up to so many points claim a place by 4 bytes.
MOST_SHORT_CLAIMS = (1 << 31) - 1


def _name(way: object) -> str:
    """Return the end of a kernel's name that says which way it goes."""
    return f", {type(way).__name__}" if way else ""


class _MoveCall:
    """What gather and scatter calls share: the numbers, the plans, and the error for a bad index."""

    def __init__(
        self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], index_packed: bool = False
    ) -> None:
        self.lowering = low = lowering
        self.index_packed = index_packed
        self.function = low.function
        self.dtype = dtype
        self.shape = shape
        self.out_bytes = product(shape) * dtype.itemsize
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
        self.low, self.high = extent(*zip(*places, strict=True))
        self.high += self.run
        #: How many loops, coordinates and outer dimensions a kernel is compiled for.
        self.counts = tuple(
            len(dims) if len(dims) <= most else -1
            for dims, most in (
                (self.loops, gather.MOST_LOOPS),
                (low.coordinates, gather.MOST_COORDS),
                (self.outer, gather.MOST_OUTER),
            )
        )
        np.array([self.low, self.high, self.moved, self.out_bytes], np.int64)  # an error if they are larger
        self.plans: dict[tuple[int, int], DeviceMemory] = {}
        self.bounds = low.bounds
        if low.function.startswith("gather") and any(size == 0 for size, _ in low.coordinates):
            self.bounds = "raise"  # there is nothing to clamp to, and nothing that could stand for what is not there
        self.deferred = self.bounds == "deferred"
        self.checked = self.bounds == "raise"
        self.work = 2 * self.moved + self.index_bytes

    def lies_in(self, out: DeviceArray, array: DeviceArray) -> bool:
        """Tell whether the memory of a packed output may overlap an input's."""
        low, high = extent(array.shape, array.strides)
        return self.lies_between(out, array.pointer + low, array.pointer + high + array.dtype.itemsize)

    def lies_in_indices(self, out: DeviceArray, indices: DeviceArray) -> bool:
        """Tell the same of the indices, which as a rule are packed."""
        if self.index_packed:
            return self.lies_between(out, indices.pointer, indices.pointer + self.index_bytes)
        return self.lies_in(out, indices)

    def lies_between(self, out: DeviceArray, low: int, high: int) -> bool:
        """Tell whether a packed output has bytes between two addresses."""
        return low < out.pointer + self.out_bytes and out.pointer < high

    def plan(self, device: int, width: int) -> DeviceMemory:
        """Return the plan for units of a width."""
        found = self.plans.get((device, width))
        if found is None:
            plan = make_plan(
                max(self.slice_bytes // width, 1),
                max(self.run // width, 1),
                self.loops,
                self.lowering.coordinates,
                self.outer,
                _BOUNDS.get(self.bounds, RAISE),
                *self.claims,
            )
            found = self.plans.setdefault((device, width), DeviceMemory(device, plan))
        return found

    #: The granule and the lowest of the places that a scatter claims, and the bytes of a claim.
    claims = (1, 0)
    claim_bytes = 0

    def look(self, device: int, stream: int, indices: DeviceArray, number: int, record: int, claims: int) -> None:
        """Look at all indices, and claim the places that they lead to, if there are claims."""
        scatter.claim_kernel(self.index_name, *self.counts, self.claim_bytes)(
            device,
            stream,
            self.blocks(self.points),
            indices.pointer,
            self.plan(device, 1).address,
            record,
            number,
            claims,
            self.points,
        )

    def blocks(self, count: int) -> int:
        """Return how many blocks handle so many units or points."""
        return -(-count // (BLOCK * gather.UNITS))

    def begin(self, device: int) -> tuple[Records, Record, int]:
        """Return the records of a device, the one for a launch, and the launch's number."""
        records = records_of(device)
        return records, records.deferred if self.deferred else records.take(), next(_launches)

    def finish(self, records: Records, record: Record, stream: int, a: DeviceArray, *others: DeviceArray) -> None:
        """Raise for a bad index, or remember to do it later; `others` are the indices, and what else was used."""
        part(stream, a, *others)
        indices = others[0]
        if self.deferred:
            for plan in self.plans.values():
                records.defer(plan.address, self, len(a.shape), indices.shape)
            return
        found = records.read(record, stream) if self.checked else None
        records.free.append(record)
        if found:
            position, value, _ = found
            raise self.error(len(a.shape), indices.shape, position, value)

    def error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> IndexError:
        """Return the error for a bad index that was recorded."""
        if self.index_dtype.kind == "u":
            value %= 1 << 64
        return self.lowering.index_error(ndim, index_shape, position, value)


class GatherCall(_MoveCall):
    """A gather of one layout."""

    def __init__(
        self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], index_packed: bool = False
    ) -> None:
        super().__init__(lowering, dtype, shape, index_packed)
        self.way = LineGather.find(self) or ColumnGather.find(self)
        self.kernel = f"gather {8 * self.steps}-bit cuda{_name(self.way)}"

    def __call__(self, a: DeviceArray, indices: DeviceArray, out: Any) -> Any:
        if out.__class__ is ndarray:  # and so are the inputs; they were copied
            check_out(self.function, "out", out, self.shape, self.dtype)
            out[...] = self(a, indices, None)
            return out
        library, stream = a.library, a.stream
        if out is None:
            result = library.empty(self.shape, self.dtype, a.device)
            target = library.view(result)
        else:
            result = out
            target, is_target_packed = view_out(self.function, "out", a, out, self.shape, self.dtype)
            if (
                not is_target_packed
                or self.lies_between(target, a.pointer + self.low, a.pointer + self.high)
                or self.lies_in_indices(target, indices)
            ):
                library.assign(out, self(a, indices, None))
                return out
        if self.points:
            join(stream, a, indices, target)
            self.launch(a, indices if self.index_packed else packed(indices, stream), target, stream)
        return result if out is not None else library.finish(result, stream)

    def launch(self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int) -> None:
        """Run the kernel, and raise for a bad index."""
        device = a.device
        aligned = self.steps | a.pointer | out.pointer
        width = min(aligned & -aligned, 16)
        units = self.moved // width
        records, record, number = self.begin(device)
        memory: Any = None
        if self.way and width == self.run:
            memory = self.way(a, indices, out, stream, record.address, number)
        elif units:
            gather.gather_kernel(width, self.index_name, *self.counts)(
                device,
                stream,
                self.blocks(units),
                a.pointer,
                indices.pointer,
                out.pointer,
                self.plan(device, width).address,
                record.address,
                number,
                units,
            )
        else:
            self.look(device, stream, indices, number, record.address, 0)
        self.finish(records, record, stream, a, indices, out)
        del memory  # only now


class ScatterCall(_MoveCall):
    """A scatter of one layout, to an output that is packed."""

    def __init__(
        self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], index_packed: bool = False
    ) -> None:
        super().__init__(lowering, dtype, shape, index_packed)
        low, high = extent(*zip(*self.starts, strict=True))
        granule = gcd(*(step for size, step in self.starts if size > 1)) or 1
        self.claims = (granule, low)
        #: How many places there are, from the first to the last.
        self.places = (high - low) // granule + 1
        if not lowering.unique and lowering.reduction == "none":
            self.claim_bytes = 4 if self.points <= MOST_SHORT_CLAIMS else 8
        self.work += 2 * self.out_bytes
        self.way: LineScatter | ColumnScatter | BinnedScatter | None = None
        if lowering.reduction == "none":
            self.way = LineScatter.find(self) or ColumnScatter.find(self) or BinnedScatter.find(self)
        self.kernel = f"scatter {8 * self.steps}-bit cuda{_name(self.way)}"

    def __call__(self, a: DeviceArray, indices: DeviceArray, updates: DeviceArray, out: Any) -> Any:
        if out.__class__ is ndarray:  # and so are the inputs; they were copied
            check_out(self.function, "out", out, self.shape, self.dtype)
            out[...] = self(a, indices, updates, None)
            return out
        library, stream = a.library, a.stream
        in_place = False
        if out is None:
            result = library.empty(self.shape, self.dtype, a.device)
            target = library.view(result)
        else:
            result = out
            target, is_target_packed = view_out(self.function, "out", a, out, self.shape, self.dtype)
            in_place = target.pointer == a.pointer and target.strides == a.strides
            if (
                not is_target_packed
                or (not in_place and self.lies_in(target, a))
                or self.lies_in_indices(target, indices)
                or self.lies_in(target, updates)
            ):
                library.assign(out, self(a, indices, updates, None))
                return out
        join(stream, a, indices, updates, target)
        updates = packed(updates, stream)
        old = target.pointer
        way = self.way if self.way and (updates.pointer | target.pointer) % self.run == 0 else None
        if self.out_bytes and not in_place:
            if way and way.covers and is_packed(a.shape, a.strides, self.dtype.itemsize) and a.pointer % self.run == 0:
                old = a.pointer  # what the updates leave is copied on the way
            else:
                copy(a, target, stream)
        if self.points:
            self.launch(a, packed(indices, stream), updates, target, stream, in_place, way, old)
        else:
            part(stream, a, target)
        return result if out is not None else library.finish(result, stream)

    def launch(
        self,
        a: DeviceArray,
        indices: DeviceArray,
        updates: DeviceArray,
        out: DeviceArray,
        stream: int,
        in_place: bool,
        way: LineScatter | ColumnScatter | BinnedScatter | None,
        old: int,
    ) -> None:
        """Run the kernels, and raise for a bad index."""
        records, record, number = self.begin(a.device)
        all_or_none = int(in_place and self.checked)
        memory: Any
        if way:
            memory = way(old, indices, updates, out, stream, record.address, number, all_or_none)
        else:
            write = self.write if self.lowering.reduction == "none" else self.fold
            memory = write(indices, updates, out, stream, record.address, number, all_or_none)
        self.finish(records, record, stream, a, indices, updates, out)
        del memory  # only now

    def look_first(
        self, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int, all_or_none: int
    ) -> tuple[DeviceArray | None, int, int]:
        """If nothing may be written when an index is bad, look at all of them before.

        Return the memory of a flag, its address or 0, and the number of the launch that is to record what it finds.
        """
        if not all_or_none:
            return None, 0, number
        memory = scratch(out, scatter.FLAG_BYTES)
        set_bytes(memory.pointer, 0xFF, scatter.FLAG_BYTES, stream)
        scatter.claim_kernel(self.index_name, *self.counts, 0)(
            out.device,
            stream,
            self.blocks(self.points),
            indices.pointer,
            self.plan(out.device, self.run).address,
            record,
            number,
            memory.pointer,
            self.points,
        )
        return memory, memory.pointer, -1

    def write(
        self,
        indices: DeviceArray,
        updates: DeviceArray,
        out: DeviceArray,
        stream: int,
        record: int,
        number: int,
        all_or_none: int,
    ) -> DeviceArray | None:
        """Write the updates; return memory that is in use until all is done."""
        device = out.device
        aligned = self.steps | updates.pointer | out.pointer
        width = min(aligned & -aligned, 16)
        units = self.moved // width
        memory = None
        if self.claim_bytes or all_or_none or not units:  # look at the indices first
            size = scatter.FLAG_BYTES + self.claim_bytes * self.places
            memory = scratch(out, size)
            set_bytes(memory.pointer, 0xFF, size, stream)
            self.look(device, stream, indices, number, record, memory.pointer)
        if units:
            scatter.scatter_kernel(width, self.index_name, *self.counts, self.claim_bytes)(
                device,
                stream,
                self.blocks(units),
                out.pointer,
                indices.pointer,
                updates.pointer,
                self.plan(device, width).address,
                record,
                -1 if memory else number,
                memory.pointer if memory else 0,
                all_or_none,
                units,
            )
        return memory

    def fold(
        self,
        indices: DeviceArray,
        updates: DeviceArray,
        out: DeviceArray,
        stream: int,
        record: int,
        number: int,
        all_or_none: int,
    ) -> DeviceArray:
        """Combine the updates with what is there; return memory that is in use until all is done.

        Points are sorted by their place, and then a thread goes through the updates of each, in their order.
        """
        device, points = out.device, self.points
        width = self.dtype.itemsize
        plan = self.plan(device, width).address
        sort = _sorting.Sort(1, points, True, self.places.bit_length())
        most = points // (scatter.LONG + 1) + 1
        head = 8 * (2 + most + most % 2)
        memory = scratch(out, head + sort.bytes + 2 * sort.pairs_bytes)
        flag, long_count, longs, sorting = (memory.pointer + offset for offset in (0, 8, 16, head))
        pairs = sorting + sort.bytes
        set_bytes(flag, 0xFF, scatter.FLAG_BYTES, stream)
        set_bytes(long_count, 0, 8, stream)
        nowhere = self.places
        scatter.pair_kernel(self.index_name, *self.counts)(
            device, stream, -(-points // BLOCK), indices.pointer, plan, record, number, flag, points, nowhere, pairs
        )
        pairs = sort.sort(device, stream, sorting, pairs)
        blocks = -(-points * (self.slice_bytes // width) // BLOCK)
        scatter.fold_kernel(self.lowering.data_type, self.lowering.reduction, width, self.counts)(
            device,
            stream,
            blocks,
            out.pointer,
            updates.pointer,
            plan,
            flag,
            all_or_none,
            pairs,
            points,
            nowhere,
            long_count,
            longs,
        )
        if points > scatter.LONG:
            blocks = min(scatter.LONG_BLOCKS, most * -(-self.slice_bytes // (width * scatter.FOLDERS)))
            scatter.fold_many_kernel(self.lowering.data_type, self.lowering.reduction, width, self.counts)(
                device, stream, blocks, out.pointer, updates.pointer, plan, pairs, points, long_count, longs, blocks
            )
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
    """Copy an array to a packed one."""
    if is_packed(array.shape, array.strides, array.dtype.itemsize):
        copy_bytes(to.pointer, array.pointer, product(array.shape) * array.dtype.itemsize, stream)
    else:
        _copy(array.shape, array.strides, array.dtype).launch(array, array, to, stream)


def packed(array: DeviceArray, stream: int) -> DeviceArray:
    """Return an array whose elements are packed: itself or a copy."""
    if is_packed(array.shape, array.strides, array.dtype.itemsize):
        return array
    new = array.library.view(array.library.empty(array.shape, array.dtype, array.device))
    copy(array, new, stream)
    return new
