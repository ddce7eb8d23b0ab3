"""The calls of gather and scatter: how a lowering becomes a plan in device memory, and which kernel runs it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from math import gcd
from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..._core.enums import TensorDataType
from ..._core.lowering import Move
from ..._core.operands import check_out
from ..._core.tensor import collapse, extent
from ..driver.arrays import OWN, Span, join, part, scratch
from ..driver.context import is_current, on_device
from ..driver.launch import Kernel, recorder
from ..driver.numba import BLOCK, SIMULATED
from ..driver.streams import refuse_capture
from ..kernels import gather_units, scatter_claims, scatter_folds, scatter_units
from ..primitives import device_sort
from ..primitives.fill import copy_and_set, is_copied_by_kernel
from ..primitives.groups import GROUP, QUAD_BYTES
from ..primitives.moves import claims as moves_claims
from ..primitives.moves import places as moves_places
from ..primitives.moves.slices import divide_slices, moves_by_warps
from .elements import (
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
from .move_call import _MoveCall

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


class GatherCall(_MoveCall):
    """A gather of one layout."""

    few_units = moves_places.FEW_UNITS

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
        return gather_units.gather_kernel(width, self.index_name, *self.counts, alone)

    def slice_kernel(self, width: int) -> Kernel:
        return gather_units.gather_slices_kernel(width, self.index_name, *self.counts[:2])

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

    few_units = scatter_units.FEW_UNITS

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
            entries = max(1 << (2 * self.points - 1).bit_length(), moves_claims.ENTRIES)
            if (
                any(places <= self.places > points * self.points for points, places in TABLED)
                and entries * moves_claims.ENTRY_BYTES <= self.places * claim_bytes
                and self.places * entries <= MOST_TABLED
            ):
                self.entries = entries
        #: The bytes of a claim when the output is made of what is there and the updates, 0: a copy is written over.
        self.merge_bytes = claim_bytes if self.is_merged() else 0
        reductions, data_types = scatter_units.COMBINED
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
        return scatter_units.scatter_kernel(width, self.index_name, *self.counts, *claims, self.combined)

    def slice_kernel(self, width: int) -> Kernel:
        claims = self.claim_bytes, self.entries > 0
        return scatter_units.scatter_slices_kernel(width, self.index_name, *self.counts[:2], *claims)

    def goes_by_warps(self, width: int) -> bool:
        return not self.combined and super().goes_by_warps(width)

    def look_first(self, given: ScatterArguments) -> tuple[DeviceArray | None, int, int]:
        """If nothing may be written when an index is bad, look at all of them before.

        Return the memory of a flag, its address or 0, and the number of the launch that is to record what it finds.
        """
        _, indices, _, out, stream, record, number, all_or_none = given
        if not all_or_none:
            return None, 0, number
        memory = scratch(out, moves_claims.FLAG_BYTES)
        self.fill(out.pointer, out, stream, memory.pointer, moves_claims.FLAG_BYTES)
        self.look(out.device, stream, indices, number, record, memory.pointer)
        return memory, memory.pointer, -1

    def write(self, given: ScatterArguments) -> DeviceArray | None:
        """Write the updates over what is there, or beside what is old; return memory in use until all is done."""
        old, indices, updates, out, stream, record, number, all_or_none = given
        device = out.device
        merges = self.merge_bytes > 0 and old != out.pointer
        width = self.dtype.itemsize if self.combined else self.unit_width(old | updates.pointer | out.pointer)
        claim_bytes, entries = (self.merge_bytes, 0) if merges else (self.claim_bytes, self.entries)
        claims = entries * moves_claims.ENTRY_BYTES if entries else claim_bytes * self.places
        memory = None
        if claim_bytes or all_or_none or not self.moved:  # look at the indices first
            size = moves_claims.FLAG_BYTES + -(-claims // QUAD_BYTES) * QUAD_BYTES
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
            blocks = -(-entries // (moves_claims.ENTRIES * BLOCK))
            scatter_claims.entry_kernel(width)(
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
            scatter_claims.merge_elements_kernel(width)(
                device, stream, blocks, out.pointer, old, updates.pointer, claims, units
            )
        else:
            if moves_by_warps(width, self.slice_bytes // width, self.places):
                kernel, count = scatter_claims.merge_slices_kernel(width, self.merge_bytes), self.places
                blocks, share = divide_slices(count)
            else:
                kernel, count = scatter_claims.merge_kernel(width, self.merge_bytes), units
                blocks, share = moves_places.divide(count, self.few_units)
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
        is_long = max(points, self.places) > scatter_folds.MOST_SHORT
        sort = device_sort.Sort(1, points, is_long, self.places.bit_length())
        most = points // (scatter_folds.LONG + 1) + 1
        head = 8 * (2 + most + most % 2)
        few = points <= scatter_folds.MOST_RANKED
        memory = scratch(out, head + (0 if few else sort.bytes + sort.pairs_bytes) + sort.pairs_bytes)
        flag, long_count, longs, sorting = (memory.pointer + offset for offset in (0, 8, 16, head))
        pairs = sorting + (0 if few else sort.bytes)
        self.fill(old, out, stream, flag, moves_claims.FLAG_BYTES)
        make, at_once = (scatter_folds.rank_kernel, device_sort.WARPS) if few else (scatter_folds.pair_kernel, BLOCK)
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
        kernel = scatter_folds.fold_kernel(*kind, width, self.counts, is_long)
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
        if points > scatter_folds.LONG:
            blocks = min(scatter_folds.LONG_BLOCKS, most * -(-self.slice_bytes // (itemsize * scatter_folds.FOLDERS)))
            kernel = scatter_folds.fold_many_kernel(*kind, itemsize, self.counts, is_long)
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
