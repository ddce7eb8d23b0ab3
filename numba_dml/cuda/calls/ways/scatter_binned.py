"""Scatters of many single elements to an output larger than L2: updates are sorted into bins by where they go."""

from __future__ import annotations

from typing import Any

from ...dispatch import scatter
from ...driver.arrays import scratch
from ...kernels import scatter_binned
from ...primitives.fill import set_words
from ..move_call import Given
from .layouts import Way


class BinnedScatter(Way):
    """Scatter to an output larger than L2, sorted by its parts; not to lines one after the other that L2 holds."""

    copies = True
    looks_before = False  # the kernel that counts does

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.bins = scatter.bins_of(call.facts)
        self.coarse = -(-self.bins >> scatter_binned.FINE_BITS)

    def __call__(self, given: Given) -> Any:
        call = self.call
        zeros = (8 * (self.bins + 1 + self.coarse) + 15) & -16
        size = scatter_binned.ENTRY_BYTES * call.points
        memory = scratch(given.out, zeros + 2 * size)
        starts = memory.pointer  # where the entries of each bin start, then how many there are in all
        total = starts + 8 * self.bins
        entries = starts + zeros  # in coarse bins
        target = entries + size  # in bins
        set_words(*given.where, starts, zeros, 0)
        self.count(given, starts)
        scatter_binned.start_kernel()(*given.where, 1, starts, self.bins + 1)
        tiles = -(-call.points // scatter_binned.TILE)
        kernel = scatter_binned.coarse_kernel(call.run, call.index_name, call.counts)
        data = given.indices.pointer, given.updates.pointer, call.numbers(kernel, given, call.run)
        kernel(*given.where, tiles, *data, call.points, self.coarse, starts, total + 8, entries)
        scatter_binned.fine_kernel()(*given.where, tiles, entries, total, starts, target)
        apply = scatter_binned.apply_kernel(call.run, call.lowering.unique)
        data = given.out.pointer, given.old, call.places
        apply(*given.where, self.bins, *data, *given.unless_bad, starts, target, shared=4 * scatter_binned.BIN)
        return memory

    def count(self, given: Given, starts: int) -> None:
        """Look at all indices, and count the updates of every bin."""
        call = self.call
        blocks = call.tuning.counting_blocks * call.tuning.multiprocessors
        share = -(-call.points // (blocks * scatter_binned.TILE)) * scatter_binned.TILE
        kernel = scatter_binned.count_kernel(call.index_name, call.counts)
        head = call.looking_head(kernel, given, call.run)
        kernel(
            *given.where, -(-call.points // share), *head, call.points, self.bins, starts, share, shared=4 * self.bins
        )
