"""What the calls of gathers and of scatters share: the plans on devices, and the error for a bad index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Move
from ..._core.regions import Region, first
from ..._core.tensor import dtype_of, extent, product
from ..dispatch import units
from ..driver.arrays import Output, Span
from ..driver.launch import Kernel, recorder
from ..kernels import scatter_claims, scatter_combine_few
from ..primitives.bad_indices import Record, Records, records_of
from ..primitives.fill import divide_copy
from ..primitives.groups import QUAD_BYTES
from ..primitives.moves import claims as moves_claims
from ..primitives.moves import places as moves_places
from ..primitives.moves.slices import divide_slices
from ..primitives.plan import CLAMP, DROP, RAISE, Plan
from ..replay.repeat import Repeatable

_BOUNDS = {"clamp": CLAMP, "drop": DROP}
#: Unique launch ids, from 2**60 on, so that the recorder cannot mistake another argument for one.
_launches = count(1 << 60)


class Claims(NamedTuple):
    """Memory for the claims of places, which follow a flag that says that an index is bad."""

    address: int  #: Of the flag; 0: there is none.
    claim_bytes: int = 0  #: Bytes of a place's claim; 0: nothing is claimed.
    entries: int = 0  #: Entries of the table that is there instead.
    blocks: int = 0  #: Blocks that have all claims of their own first; 0: points claim in this memory.
    to: int = 0  #: With a table, bytes are copied meanwhile: to this address,
    fro: int = 0  #: from this address,
    size: int = 0  #: and how many.


NO_CLAIMS = Claims(0)


class _MoveCall(Repeatable):
    """What gather and scatter calls share: the numbers, the plans, and the error for a bad index.

    `spans` say where the inputs lie; a copy, which nobody calls with an output, has none.
    """

    #: It reads what points lead to, so that an empty axis has nothing to stand for what is not there.
    gathers = False

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
                (self.loops, moves_places.MOST_LOOPS),
                (low.coordinates, moves_places.MOST_COORDS),
                (self.outer, moves_places.MOST_OUTER),
            )
        )
        np.array([reach[0], reach[1] + self.run, self.moved, self.out_bytes], np.int64)  # an error if they are larger
        self.plans: dict[tuple[int, int], Plan] = {}
        self.bound: dict[tuple[int, int], tuple[Kernel, int, int, int, int]] = {}
        self.bounds = low.bounds
        if self.gathers and any(size == 0 for size, _ in low.coordinates):
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

    def unit_facts(self, width: int) -> units.Facts:
        """Return what the choice of how to move units of a width needs."""
        has_places = all(size > 0 for size, _ in self.lowering.coordinates)  # else a warp has nothing to read instead
        return units.Facts(width, self.moved // width, self.points, has_places and not self.outer)

    def bind(self, device: int, width: int) -> tuple[Kernel, int, int, int, int]:
        """Return how units of a width are moved: the kernel, its plan, blocks, units in all, and those of a block.

        If warps move slices, it is the slices in all, and those of a warp.
        """
        found = self.bound.get((device, width))
        if found is None:
            region, blocks, count, share = self.divide(self.unit_facts(width))
            if region is units.BY_WARPS:
                kernel = self.slice_kernel(width)
            else:
                kernel = self.unit_kernel(width, region is units.ONE_EACH)
            plan = self.plan(device, width).for_kernel(kernel)
            found = self.bound[device, width] = kernel, plan, blocks, count, share
        return found

    def divide(self, facts: units.Facts) -> tuple[Region, int, int, int]:
        """Return who moves units, the blocks, and units (or slices) in all and of a block (or warp)."""
        tuning = self.tuning.moves
        region = first(units.TABLE, facts, tuning)
        if region is units.BY_WARPS:
            count = facts.slices
            blocks, share = divide_slices(count, tuning.least_warps)
        else:
            count = facts.units
            blocks, share = moves_places.divide(count, count if region is units.ONE_EACH else -1)
        return region, blocks, count, share

    def has_plan(self, identity: int) -> bool:
        """Tell whether one of the plans has an identity."""
        return any(plan.identity == identity for plan in tuple(self.plans.values()))  # another thread may add one

    #: The granule and the lowest of the places that a scatter claims, and how many places there are.
    claims = (1, 0)
    places = 0
    #: The thresholds of the family, which have those that gathers and scatters share.
    tuning: Any
    #: The row of the family's table that was chosen.
    region: Region
    #: How the row's kernels are run, None: by those for any layout.
    way: Any

    def way_of(self, ways: Mapping[str, Callable[[Any], Any]]) -> Any:
        """Return the way of the chosen row, or None for the kernels that are for any layout."""
        make = ways.get(self.region.name)
        return make(self) if make else None

    def kernel_name(self, family: str) -> str:
        """Return the kernel's name, as users see it."""
        return f"{family} {8 * self.steps}-bit cuda" + (f", {type(self.way).__name__}" if self.way else "")

    def look(
        self, device: int, stream: int, indices: DeviceArray, number: int, record: int, claims: Claims = NO_CLAIMS
    ) -> None:
        """Look at all indices, and claim the places that they lead to, if there are claims; see `claims.claiming`."""
        if claims.claim_bytes == 4 and not claims.entries and claims.blocks:
            self.claim_in_blocks(device, stream, indices, number, record, claims)
            return
        # With a table a thread has one point: to find an entry takes several steps that depend on each other.
        few = self.points if claims.entries else self.tuning.moves.few_units
        blocks, share = moves_places.divide(self.points, few)
        copying, copied = divide_copy(claims.size)
        kernel = scatter_claims.claim_kernel(self.index_name, *self.counts, claims.claim_bytes, claims.entries > 0)
        kernel(
            device,
            stream,
            blocks + copying,
            indices.pointer,
            self.plan(device, 1).for_kernel(kernel),
            record,
            number,
            claims.address,
            claims.entries - 1,
            self.points,
            share,
            blocks,
            claims.to,
            claims.fro,
            claims.size,
            copied,
        )

    def claim_in_blocks(
        self, device: int, stream: int, indices: DeviceArray, number: int, record: int, claims: Claims
    ) -> None:
        """Look at all indices; each block has all claims of its own first."""
        width = 4
        kernel = scatter_combine_few.combine_few_kernel(width, self.index_name, *self.counts, None)
        kernel(
            device,
            stream,
            claims.blocks,
            claims.address + moves_claims.FLAG_BYTES,
            indices.pointer,
            0,
            self.plan(device, 1).for_kernel(kernel),
            record,
            number,
            claims.address,
            self.places,
            self.points,
            -(-self.points // claims.blocks),
            shared=-(-width * self.places // QUAD_BYTES) * QUAD_BYTES,
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
