"""The call of a scatter: from a lowering to the kernels that run it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Move
from ..._core.regions import first
from ..._core.shapes import extent
from ..dispatch import scatter, scatter_general
from ..driver.arrays import Span, part, scratch
from ..driver.launch import Kernel
from ..kernels import moves_units
from ..primitives.fill import copy_and_set
from ..primitives.moves import claims as moves_claims
from . import scatter_general as general
from .gather import copy, packed
from .move_call import Given, _MoveCall
from .scatter_binned import BinnedScatter
from .scatter_sorted import fold
from .transposed import TransposedColumns
from .ways import ColumnWay, FewPlaces, LineWay

#: The ways that need a certain layout, by the name of their row; `scatter_general.TABLE` has the rows that are left.
WAYS: dict[str, Callable[[Any], Any]] = {
    scatter.LINES_COMBINED.name: LineWay,
    scatter.LINES_CLAIMED.name: LineWay,
    scatter.LINES_CHAINED.name: LineWay,
    scatter.FEW_PLACES.name: FewPlaces,
    scatter.COLUMNS_BY_THREADS.name: ColumnWay,
    scatter.COLUMNS_BY_BLOCKS.name: ColumnWay,
    scatter.COLUMNS_TRANSPOSED.name: TransposedColumns,
    scatter.BINNED.name: BinnedScatter,
}


class General(NamedTuple):
    """How the kernels for any layout find the last update of a place, for an output of its own and in place."""

    folds: bool  #: Updates are sorted and combined in their order.
    merge_bytes: int  #: Bytes of a claim if an output of its own is merged, 0: it is copied and written over.
    claim_bytes: int  #: Bytes of a claim if it is written over, 0: nothing is claimed.
    entries: int  #: Entries of a table of these claims, 0: every place has one.
    claiming_blocks: int  #: Blocks that have all claims of their own first, if they do.


class ScatterCall(_MoveCall):
    """A scatter of one layout, to an output that is packed.

    `region` is the row of `regions` that was chosen by `facts` and `tuning`, for an output of its own. Where it has no
    `way`, the rows for any layout decide once more for calls in place.
    """

    regions = scatter.TABLE

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
        self.choose("scatter", facts, WAYS)

    @cached_property
    def general(self) -> General:
        """What the kernels for any layout do. It is worked out when it is asked for: most ways never need it."""
        rows, facts, tuning = scatter_general.TABLE, self.facts, self.tuning
        new = self.region if self.region in rows else first(rows, facts, tuning)
        merges = new is scatter_general.MERGED
        over = first(scatter_general.OVER, facts, tuning) if merges else new
        tabled = over is scatter_general.TABLED
        claim_bytes = facts.claim_bytes if tabled or over is scatter_general.CLAIMED else 0
        return General(
            new is scatter_general.SORTED,
            facts.claim_bytes if merges else 0,
            claim_bytes,
            scatter_general.table_entries(facts) if tabled else 0,
            scatter.blocks_with_copies(self.points, self.places, claim_bytes, tuning) if claim_bytes else 0,
        )

    def fill(self, old: int, out: DeviceArray, stream: int, memory: int = 0, size: int = 0) -> None:
        """Copy the old elements to the output, unless they are there, and set all bits of memory."""
        copied = self.out_bytes if old != out.pointer else 0
        if copied or size:
            copy_and_set(out.device, stream, out.pointer, old, copied, memory, size, -1)

    def old_elements(self, a: DeviceArray, out: DeviceArray, stream: int, in_place: bool) -> int:
        """Return where the elements are that the updates leave: in the output, or where the kernels copy them from."""
        if not in_place and self.out_bytes:
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
        in_place: bool,
    ) -> None:
        """Run the kernels, let the other streams wait, and raise for a bad index."""
        index_shape = indices.shape
        if not self.spans[2].packed:
            updates = packed(updates, stream)
        old = self.old_elements(a, out, stream, in_place)
        if not self.points:
            self.fill(old, out, stream)
            part(a.device, stream, others)
            return
        if not self.spans[1].packed:
            indices = packed(indices, stream)
        records, record, number = self.begin(a.device, len(a.shape), index_shape)
        all_or_none = int(in_place and self.checked)
        if self.way and not self.way.covers:
            self.fill(old, out, stream)
            old = out.pointer
        memory = self.write(Given(old, indices, updates, out, stream, record.address, number, all_or_none))
        part(a.device, stream, others)
        self.finish(records, record, stream, len(a.shape), index_shape)
        del memory  # the kernels are done, or the stream orders whoever gets it next

    def write(self, given: Given) -> Any:
        """Write the updates over the elements at the address `old`; return memory in use until all is done."""
        if self.way is None:
            return fold(self, given) if self.general.folds else general.write(self, given)
        memory = None
        if given.all_or_none and self.way.looks_before:
            memory = scratch(given.out, moves_claims.FLAG_BYTES)
            self.fill(given.out.pointer, given.out, given.stream, memory.pointer, moves_claims.FLAG_BYTES)
            self.look(given, memory.pointer)
            given = given._replace(flag=memory.pointer, number=-1)
        return memory, self.way(given)

    def unit_kernel(self, width: int) -> Kernel:
        return moves_units.scatter_kernel(width, self.index_name, *self.counts, self.general.claim_bytes, self.combined)
