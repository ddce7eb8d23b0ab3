"""Scatters of many single elements to an output larger than L2: updates are sorted into bins by where they go."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..dispatch import scatter
from ..driver.arrays import scratch
from ..kernels import scatter_binned
from ..primitives import device_sort
from ..primitives.fill import set_words
from ..primitives.moves import claims as moves_claims
from .move_call import Given
from .ways import Way


class Buffers(NamedTuple):
    """Addresses of a launch's scratch memory."""

    flag: int  #: A word that becomes 0 if an index is bad.
    starts: int  #: Where the entries of each bin start, and how many there are in all.
    sizes: int  #: Entries of each coarse bin so far.
    entries: int  #: Entries in coarse bins.
    target: int  #: Entries in bins.


class BinnedScatter(Way):
    """Scatter to an output larger than L2, sorted by its parts; not to lines one after the other that L2 holds."""

    covers = True
    looks_before = False  # the kernel that counts does

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.bins = scatter.bins_of(call.facts)
        self.coarse = -(-self.bins >> scatter_binned.FINE_BITS)

    def __call__(self, given: Given) -> Any:
        old, out, stream = given.old, given.out, given.stream
        call, device = self.call, out.device
        words = (self.bins + 1) + self.coarse
        zeros = (8 * words + 15) & -16
        head = moves_claims.FLAG_BYTES + zeros
        size = scatter_binned.ENTRY_BYTES * call.points
        memory = scratch(out, head + 2 * size)
        flag, starts = memory.pointer, memory.pointer + moves_claims.FLAG_BYTES
        first = memory.pointer + head
        buffers = Buffers(flag, starts, starts + 8 * (self.bins + 1), first, first + size)
        set_words(device, stream, flag, moves_claims.FLAG_BYTES, -1)
        set_words(device, stream, starts, zeros, 0)
        self.count(given, buffers)
        device_sort.add_up(device, stream, starts, 0, 1, self.bins + 1)
        self.sort(given, buffers)
        scatter_binned.apply_kernel(call.run, call.lowering.unique)(
            device,
            stream,
            self.bins,
            out.pointer,
            old,
            call.places,
            flag,
            given.all_or_none,
            starts,
            buffers.target,
            shared=4 * scatter_binned.BIN,
        )
        return memory

    def count(self, given: Given, buffers: Buffers) -> None:
        """Look at all indices, and count the updates of every bin."""
        call, device = self.call, given.out.device
        blocks = call.tuning.counting_blocks * call.tuning.multiprocessors
        share = -(-call.points // (blocks * scatter_binned.TILE)) * scatter_binned.TILE
        kernel = scatter_binned.count_kernel(call.index_name, *call.counts[:2])
        kernel(
            device,
            given.stream,
            -(-call.points // share),
            given.indices.pointer,
            call.plan(device, call.run).for_kernel(kernel),
            given.record,
            given.number,
            buffers.flag,
            call.points,
            self.bins,
            buffers.starts,
            share,
            shared=4 * self.bins,
        )

    def sort(self, given: Given, buffers: Buffers) -> None:
        """Sort the updates into coarse bins, and these into bins."""
        call, device = self.call, given.out.device
        tiles = -(-call.points // scatter_binned.TILE)
        kernel = scatter_binned.coarse_kernel(call.run, call.index_name, *call.counts[:2])
        kernel(
            device,
            given.stream,
            tiles,
            given.indices.pointer,
            given.updates.pointer,
            call.plan(device, call.run).for_kernel(kernel),
            call.points,
            self.coarse,
            buffers.starts,
            buffers.sizes,
            buffers.entries,
        )
        total = buffers.starts + 8 * self.bins
        scatter_binned.fine_kernel()(
            device, given.stream, tiles, buffers.entries, total, buffers.starts, buffers.target
        )
