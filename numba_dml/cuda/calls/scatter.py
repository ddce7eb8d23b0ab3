"""The call of a scatter: from a lowering to the kernels that run it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Move
from ..._core.regions import first
from ..._core.shapes import extent
from ..._core.tensor import packed_strides
from ..dispatch import scatter, scatter_general
from ..driver.arrays import Span, part, spans_of
from ..primitives.fill import copy_and_set
from .gather import copy, packed
from .move_call import Given, _MoveCall
from .ways.layouts import ColumnsByBlocks, ColumnsByThreads, FewPlaces, LineWay
from .ways.scatter_binned import BinnedScatter
from .ways.scatter_general import Claimed, FewPoints, Merged, Tabled, Units
from .ways.scatter_sorted import SortedScatter
from .ways.transposed import TransposedColumns

#: How each row of the table is run.
WAYS: dict[str, Callable[[Any], Any]] = {
    scatter.LINES_COMBINED.name: LineWay,
    scatter.LINES_CLAIMED.name: LineWay,
    scatter.LINES_CHAINED.name: LineWay,
    scatter.FEW_PLACES.name: FewPlaces,
    scatter.COLUMNS_BY_THREADS.name: ColumnsByThreads,
    scatter.COLUMNS_BY_BLOCKS.name: ColumnsByBlocks,
    scatter.COLUMNS_TRANSPOSED.name: TransposedColumns,
    scatter.BINNED.name: BinnedScatter,
    scatter_general.COMBINED.name: Units,
    scatter_general.SORTED.name: SortedScatter,
    scatter_general.MERGED.name: Merged,
    scatter_general.FEW_POINTS.name: FewPoints,
    scatter_general.UNIQUE.name: Units,
    scatter_general.TABLED.name: Tabled,
    scatter_general.CLAIMED.name: Claimed,
}


class ScatterCall(_MoveCall):
    """A scatter of one layout, to an output that is packed.

    `region` is the row of `regions` that was chosen by `facts` and `tuning` for an output of its own.
    """

    in_place = True
    regions = scatter.TABLE
    ways = WAYS

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
        self.work += 2 * self.out_bytes
        facts = scatter.facts_of(self)
        #: How the memory combines updates with what is there: an operation, and the type.
        self.combined: tuple[str, str] | None = None
        if facts.combined:
            self.combined = lowering.reduction, lowering.data_type.name.lower()
        self.choose("scatter", facts)

    @cached_property
    def over(self) -> Any:
        """How the old elements are written over, in place or a copy. It is worked out when it is asked for."""
        region = first(self.regions, replace(self.facts, in_place=True), self.tuning)
        return self.way if region is self.region else self.way_of(region)

    def fill(self, old: int, out: DeviceArray, stream: int, memory: int = 0, size: int = 0) -> None:
        """Copy the old elements to the output, unless they are there, and set all bits of memory."""
        copied = self.out_bytes if old != out.pointer else 0
        if copied or size:
            copy_and_set(out.device, stream, out.pointer, old, copied, memory, size, -1)

    def old_elements(self, a: DeviceArray, out: DeviceArray, stream: int) -> int:
        """Return where the elements are that the updates leave: in the output, or where the kernels copy them from."""
        if self.out_bytes:
            if self.spans[0].packed:
                return a.pointer
            copy(a, out, stream)
        return out.pointer

    def launch(
        self,
        a: DeviceArray,
        indices: DeviceArray,
        updates: DeviceArray,
        out: DeviceArray,
        stream: int,
        others: Collection[int | None],
    ) -> None:
        """Run the kernels, let the other streams wait, and raise for a bad index."""
        index_shape = indices.shape
        if not self.spans[2].packed:
            updates = packed(updates, stream)
        old = self.old_elements(a, out, stream)
        if not self.points:
            self.fill(old, out, stream)
            part(a.device, stream, others)
            return
        if not self.spans[1].packed:
            indices = packed(indices, stream)
        records, record, number = self.begin(a.device, len(a.shape), index_shape)
        unless = number if a.pointer == out.pointer and self.checked else -1
        memory = self.write(Given(old, indices, updates, out, stream, record.address, number, unless))
        part(a.device, stream, others)
        self.finish(records, record, stream, len(a.shape), index_shape)
        del memory  # the kernels are done, or the stream orders whoever gets it next

    def write(self, given: Given) -> Any:
        """Write the updates over the elements at the address `old`; return memory in use until all is done."""
        if not self.moved:
            return self.look(given)
        way = self.over if given.old == given.out.pointer else self.way
        if not way.copies:
            self.fill(given.old, given.out, given.stream)
            given = given._replace(old=given.out.pointer)
        if given.unless >= 0 and way.looks_before:
            self.look(given)
            given = given._replace(number=-1)
        return way(given)


def build(descriptor: Any, layouts: Any, output_shapes: Any) -> ScatterCall:
    """Return the call for a descriptor and the layouts of its inputs."""
    tensors = [getattr(descriptor, name) for name in descriptor.input_fields]
    data, spans = tensors[0], spans_of(tensors, layouts)
    lowering = descriptor.lower([packed_strides(data.sizes, data.itemsize)])
    return ScatterCall(lowering, data.dtype, output_shapes[0], spans)
