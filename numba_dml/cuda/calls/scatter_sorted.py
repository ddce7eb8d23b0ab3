"""Reductions in the order of the updates: points are sorted by their place, then the updates of each are folded."""

from __future__ import annotations

from typing import Any

from ..._core.devices.arrays import DeviceArray
from ..driver.arrays import scratch
from ..driver.numba import BLOCK
from ..kernels import scatter_folds
from ..primitives import device_sort
from ..primitives.moves import claims as moves_claims
from .move_call import Given


class Fold:
    """One launch of such a reduction, and where its scratch memory is."""

    def __init__(self, call: Any, given: Given) -> None:
        self.call, self.given, self.device = call, given, given.out.device
        self.is_long = max(call.points, call.places) > call.tuning.most_short_pairs
        self.is_ranked = call.points <= scatter_folds.MOST_RANKED
        self.width = call.unit_width(given.old | given.updates.pointer | given.out.pointer)
        #: The most places that have many updates.
        self.most = call.points // (scatter_folds.LONG + 1) + 1
        sort = self.sort = device_sort.Sort(1, call.points, self.is_long, call.places.bit_length())
        head = 8 * (2 + self.most + self.most % 2)
        sort_bytes = 0 if self.is_ranked else sort.bytes + sort.pairs_bytes
        self.memory: DeviceArray = scratch(given.out, head + sort_bytes + sort.pairs_bytes)
        #: A word that becomes 0 if an index is bad; how many places have many updates, and which; what a sort needs.
        self.flag, self.long_count, self.longs, self.sorting = (self.memory.pointer + at for at in (0, 8, 16, head))
        #: Pairs of the number of a place and that of a point.
        self.pairs = self.sorting + (0 if self.is_ranked else sort.bytes)

    def plan_for(self, kernel: Any, width: int) -> int:
        """Return the plan for units of a width, as a kernel takes it."""
        return int(self.call.plan(self.device, width).for_kernel(kernel))

    def make_pairs(self) -> None:
        """Look at all indices, and make the sorted pairs of all points."""
        call, given = self.call, self.given
        at_once = device_sort.WARPS if self.is_ranked else BLOCK
        make = scatter_folds.rank_kernel if self.is_ranked else scatter_folds.pair_kernel
        kernel = make(call.index_name, *call.counts, self.is_long)
        plan = self.plan_for(kernel, self.width)
        head = given.indices.pointer, plan, given.record, given.number, self.flag
        nowhere = call.places  # the key of points that are dropped, behind all others
        kernel(self.device, given.stream, -(-call.points // at_once), *head, call.points, nowhere, self.pairs)
        if not self.is_ranked:
            self.pairs = self.sort.sort(self.device, given.stream, self.sorting, self.pairs)

    def fold_pairs(self) -> None:
        """Combine the updates of each place, a thread for each unit; places with many are listed."""
        call, given, width = self.call, self.given, self.width
        kind = call.lowering.data_type, call.lowering.reduction
        kernel = scatter_folds.fold_kernel(*kind, width, call.counts, self.is_long)
        kernel(
            self.device,
            given.stream,
            -(-call.points * (call.slice_bytes // width) // BLOCK),
            given.out.pointer,
            given.updates.pointer,
            self.plan_for(kernel, width),
            self.flag,
            given.all_or_none,
            self.pairs,
            call.points,
            call.places,
            self.long_count,
            self.longs,
        )

    def fold_long(self) -> None:
        """Combine the updates of places with many, a block for each."""
        call, given, itemsize = self.call, self.given, self.call.dtype.itemsize
        chunks = -(-call.slice_bytes // (itemsize * scatter_folds.FOLDERS))
        blocks = min(call.tuning.folding_blocks * call.tuning.multiprocessors, self.most * chunks)
        kind = call.lowering.data_type, call.lowering.reduction
        kernel = scatter_folds.fold_many_kernel(*kind, itemsize, call.counts, self.is_long)
        data = given.out.pointer, given.updates.pointer, self.plan_for(kernel, itemsize)
        longs = self.long_count, self.longs, blocks
        kernel(self.device, given.stream, blocks, *data, self.pairs, call.points, *longs)


def fold(call: Any, given: Given) -> DeviceArray:
    """Combine the updates with the elements at the address `old`; return memory in use until all is done."""
    run = Fold(call, given)
    call.fill(given.old, given.out, given.stream, run.flag, moves_claims.FLAG_BYTES)
    run.make_pairs()
    run.fold_pairs()
    if call.points > scatter_folds.LONG:
        run.fold_long()
    return run.memory
