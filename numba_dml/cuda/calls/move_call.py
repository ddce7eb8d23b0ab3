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
from ..._core.shapes import extent
from ..._core.tensor import dtype_of, product
from ..driver.arrays import Output, Span
from ..driver.launch import Kernel, recorder
from ..kernels import scatter_claims
from ..primitives.bad_indices import Record, Records, records_of
from ..primitives.moves import places as moves_places
from ..primitives.plan import CLAMP, DROP, RAISE, Plan
from ..tuning import moves as thresholds
from .one_output import OneOutputCall

_BOUNDS = {"clamp": CLAMP, "drop": DROP}
NO_REDUCTION = None, "none"
#: Unique launch ids, from 2**60 on, so that the recorder cannot mistake another argument for one.
_launches = count(1 << 60)


class Given(NamedTuple):
    """The arrays and numbers of one launch."""

    old: int  #: Address of the elements that are read: a gather's input, or what the updates leave, maybe the output.
    indices: DeviceArray
    updates: DeviceArray  #: Of a gather it is the output.
    out: DeviceArray
    stream: int
    record: int  #: Address where a bad index is recorded.
    number: int  #: Number of the launch that looks for bad indices, -1: they have been looked at.
    unless: int = -1  #: Nothing is written if the launch with this number has recorded a bad index.

    @property
    def where(self) -> tuple[int, int]:
        """The device and the stream."""
        return self.out.device, self.stream

    @property
    def unless_bad(self) -> tuple[int, int]:
        """What a kernel needs that writes nothing if there is a bad index."""
        return self.record, self.unless


class IndexedCall(OneOutputCall):
    """What all calls share that look for bad indices: the plans, and the error."""

    #: It reads what points lead to, so that an empty axis has nothing to stand for what is not there.
    gathers = False
    #: Which input holds the indices.
    index_at = 1

    def __init__(
        self,
        function: str,
        dtype: np.dtype[Any],
        index_dtype: np.dtype[Any],
        shape: tuple[int, ...],
        spans: Sequence[Span],
        bounds: str,
    ) -> None:
        self.function, self.dtype, self.index_dtype, self.spans = function, dtype, index_dtype, spans
        self.output = Output(function, "out", shape, dtype)
        self.out_bytes = self.output.size
        self.bounds = _BOUNDS.get(bounds, RAISE)
        #: A bad index is recorded, and not asked for.
        self.deferred = bounds == "deferred"
        self.checked = bounds == "raise"
        self.plans: dict[tuple[int, int], Plan] = {}

    def plan(self, device: int, width: int) -> Plan:
        """Return the plan for units of a width."""
        found = self.plans.get((device, width))
        if found is None:
            found = self.plans.setdefault((device, width), self.new_plan(device, width))
        return found

    def new_plan(self, device: int, width: int) -> Plan:
        """Return a new plan for units of a width."""
        raise NotImplementedError

    def has_plan(self, identity: int) -> bool:
        """Tell whether one of the plans has an identity."""
        return any(plan.identity == identity for plan in tuple(self.plans.values()))  # another thread may add one

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
        ndim, index_shape = len(again.shapes[0]), again.shapes[self.index_at]
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
        return self.index_error(ndim, index_shape, position, value)

    def index_error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> IndexError:
        """Return the error for a bad index, by its own value."""
        raise NotImplementedError


class _MoveCall(IndexedCall):
    """What gather and scatter calls share: the numbers, and how units and claims are moved."""

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], spans: Sequence[Span]) -> None:
        self.lowering, self.tuning = lowering, thresholds.TUNING
        low = lowering
        bounds = low.bounds
        if self.gathers and any(size == 0 for size, _ in low.coordinates):
            bounds = "raise"  # there is nothing to clamp to, and nothing that could stand for what is not there
        super().__init__(low.function, dtype, dtype_of(low.index_type), shape, spans, bounds)
        self.reduces = low.reduction != "none"
        #: As kernels take it that combine updates in their order.
        self.reduction = (low.data_type, low.reduction) if self.reduces else NO_REDUCTION
        self.index_name = self.index_dtype.name
        self.outer = list(low.slices)
        self.run = low.itemsize
        if self.outer and self.outer[-1][1] == low.itemsize:
            self.run *= self.outer.pop()[0]
        self.slice_bytes = self.run * product([size for size, _ in self.outer])
        self.loops = [(n, step, index_step) for n, step, index_step, _ in low.loops]
        self.points = product(loop[0] for loop in self.loops)
        self.idle = self.gathers and self.points == 0
        self.moved = self.points * self.slice_bytes
        self.index_bytes = product(low.index_shape) * self.index_dtype.itemsize
        self.starts = [(n, step) for n, step, _ in self.loops] + list(low.coordinates)
        places = self.starts + self.outer
        #: A unit must divide these steps, and the addresses.
        self.steps = gcd(16, self.run, *(step for _, step in places))
        reach = extent(*zip(*places, strict=True))
        dimensions: tuple[Sequence[Any], ...] = self.loops, low.coordinates, self.outer
        #: How many loops, coordinates and outer dimensions a kernel is compiled for.
        self.counts = tuple(
            len(dims) if len(dims) <= most else -1
            for dims, most in zip(dimensions, moves_places.MOST_COUNTS, strict=True)
        )
        np.array([reach[0], reach[1] + self.run, self.moved, self.out_bytes], np.int64)  # an error if they are larger
        self.work = 2 * self.moved + self.index_bytes

    def unit_width(self, addresses: int) -> int:
        """Return how wide a unit can be, by the alignment of some addresses."""
        aligned = self.steps | addresses
        return min(aligned & -aligned, 16)

    def new_plan(self, device: int, width: int) -> Plan:
        slice_units, run_units = max(self.slice_bytes // width, 1), max(self.run // width, 1)
        dims = self.loops, self.lowering.coordinates, self.outer
        return Plan(device, slice_units, run_units, *dims, self.bounds, *self.claims)

    def numbers(self, kernel: Kernel, given: Given, width: int) -> int:
        """Return what a kernel is launched with for the plan for units of a width."""
        return self.plan(given.out.device, width).for_kernel(kernel)

    def head(self, given: Given, plan: int) -> tuple[int, ...]:
        """Return the first arguments of a kernel: addresses, a plan, what bad indices need; see `primitives.moves`."""
        if self.gathers:
            return given.old, given.indices.pointer, given.out.pointer, plan, given.record, given.number
        inputs = given.old, given.indices.pointer, given.updates.pointer
        return given.out.pointer, *inputs, plan, given.record, given.number, given.unless

    def looking_head(self, kernel: Kernel, given: Given, width: int) -> tuple[int, ...]:
        """Return the first arguments of a kernel that looks at all indices."""
        return given.indices.pointer, self.numbers(kernel, given, width), given.record, given.number

    #: The granule and the lowest of the places that a scatter claims, and how many places there are.
    claims = (1, 0)
    places = 0
    #: The rows of the family's table, and how those are run that are more than one launch of a kernel for units.
    regions: tuple[Region, ...]
    ways: Mapping[str, Callable[[Any], Any]]

    def choose(self, family: str, facts: Any) -> None:
        """Choose a row of the table."""
        self.facts = facts
        self.region = first(self.regions, facts, self.tuning)
        self.way = self.way_of(self.region)
        self.kernel = f"{family} {8 * self.steps}-bit cuda, {self.region.name}"

    def way_of(self, region: Region) -> Any:
        """Return how a row of the table is run, if that is more than one launch of a kernel for units."""
        make = self.ways.get(region.name)
        return make(self) if make else None

    def look(self, given: Given, claims: int = 0, claim_bytes: int = 0, entries: int = 0) -> None:
        """Look at all indices, and claim the places that they lead to in the memory at an address; see `claimer`."""
        # With a table a thread has one point: to find an entry takes several steps that depend on each other.
        blocks, share = moves_places.divide(self.points, self.points if entries else self.tuning.few_units)
        kernel = scatter_claims.claim_kernel(self.index_name, self.counts, claim_bytes, entries > 0)
        head = self.looking_head(kernel, given, 1)
        kernel(*given.where, blocks, *head, claims, entries - 1, self.points, share)

    def index_error(self, ndim: int, index_shape: tuple[int, ...], position: int, value: int) -> IndexError:
        return self.lowering.index_error(ndim, index_shape, position, value)
