"""Scatters of any layout: the last update of each place is found by claims, or the memory combines all of a place."""

from __future__ import annotations

from typing import Any

from ...._core.devices.arrays import DeviceArray
from ...dispatch import scatter_general
from ...dispatch.scatter import blocks_with_copies
from ...driver.arrays import scratch
from ...driver.launch import Kernel
from ...driver.numba import BLOCK
from ...kernels import moves_units, scatter_claims
from ...primitives.groups import GROUP, QUAD_BYTES
from ...primitives.moves import claims as moves_claims
from ...primitives.moves import places as moves_places
from ...primitives.moves.updates import CLAIM_BYTES
from ..move_call import Given
from .layouts import Way, combine_few


class Units(Way):
    """Threads write units of updates, or let the memory combine them with what is there."""

    #: Bytes of a claim; 0: no point claims its place, and all are written.
    claim_bytes = 0

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.bound: dict[tuple[int, int], tuple[Kernel, int, int, int, int]] = {}

    def __call__(self, given: Given) -> Any:
        self.write(given, 0)

    def write(self, given: Given, claims: int) -> None:
        """Write the updates of all points, or of those whose claims, at an address, have stayed."""
        call, updates, out = self.call, given.updates, given.out
        width = call.dtype.itemsize if call.combined else call.unit_width(updates.pointer | out.pointer)
        kernel, plan, blocks, *sizes = self.bind(out.device, width)
        data = out.pointer, given.indices.pointer, updates.pointer, plan
        kernel(*given.where, blocks, *data, given.record, given.number, given.unless, claims, *sizes)

    def bind(self, device: int, width: int) -> tuple[Kernel, int, int, int, int]:
        """Return how units of a width are written: the kernel, its plan, blocks, units in all, and those of a block."""
        found = self.bound.get((device, width))
        if found is None:
            call = self.call
            kernel = moves_units.scatter_kernel(width, call.index_name, call.counts, self.claim_bytes, call.combined)
            units = call.moved // width
            blocks, share = moves_places.divide(units, call.tuning.few_units)
            plan = call.plan(device, width).for_kernel(kernel)
            found = self.bound[device, width] = kernel, plan, blocks, units, share
        return found


class Claimed(Units):
    """Every place has a claim, and the points whose claims stay are written."""

    copies = True
    looks_before = False

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.claim_bytes = call.facts.claim_bytes

    def __call__(self, given: Given) -> DeviceArray:
        memory = claim(self.call, given, self.claim_bytes)
        self.write(given._replace(number=-1), memory.pointer)
        return memory


class Tabled(Way):
    """A table has the claims of the few places that are written, and the updates are written in its order."""

    copies = True
    looks_before = False

    def __call__(self, given: Given) -> DeviceArray:
        call, out, updates = self.call, given.out, given.updates
        entries = scatter_general.table_entries(call.facts)
        memory = claim(call, given, call.facts.claim_bytes, entries)
        width = call.unit_width(updates.pointer | out.pointer)
        kernel = scatter_claims.entry_kernel(width, call.counts)
        blocks = -(-entries * (call.slice_bytes // width) // (moves_places.UNITS * BLOCK))
        data = out.pointer, updates.pointer, call.numbers(kernel, given, width)
        kernel(*given.where, blocks, *data, *given.unless_bad, memory.pointer, entries.bit_length() - 1)
        return memory


class Merged(Way):
    """The output is made of the old elements and of the updates whose claims stay."""

    copies = True
    looks_before = False

    def __call__(self, given: Given) -> DeviceArray:
        call, out, old, updates = self.call, given.out, given.old, given.updates
        claim_bytes = call.facts.claim_bytes
        memory = claim(call, given._replace(old=out.pointer), claim_bytes)
        width = call.unit_width(old | updates.pointer | out.pointer)
        is_small = width == call.slice_bytes and width in scatter_general.MERGED_AT_ONCE and claim_bytes == CLAIM_BYTES
        group = GROUP if is_small and (out.pointer | old) % (GROUP * width) == 0 else 1
        count = call.out_bytes // width
        blocks, share = moves_places.divide(count // group, call.tuning.few_units)
        kernel = scatter_claims.merge_kernel(width, claim_bytes, group)
        data = out.pointer, old, updates.pointer, call.numbers(kernel, given, width)
        kernel(*given.where, max(blocks, 1), *data, memory.pointer, count, share)
        return memory


class FewPoints(Way):
    """Each block writes some of the points, and looks at all others to know which of its own are the last."""

    looks_before = False

    def __call__(self, given: Given) -> None:
        call, out, updates = self.call, given.out, given.updates
        width = call.unit_width(updates.pointer | out.pointer)
        kernel = scatter_claims.few_points_kernel(width, call.index_name, call.counts)
        share = min(scatter_claims.OWN_POINTS, -(-call.points // call.tuning.multiprocessors))
        data, _, *head = call.head(given, call.numbers(kernel, given, width))
        kernel(*given.where, -(-call.points // share), data, *head, call.points, share)


def claim(call: Any, given: Given, claim_bytes: int, entries: int = 0) -> DeviceArray:
    """Let points claim their places, and copy the old elements, unless they are there; return the claims' memory.

    Every place has a claim, or those that are written have one of the entries of a table.
    """
    size = -(-(entries * moves_claims.ENTRY_BYTES or call.places * claim_bytes) // QUAD_BYTES) * QUAD_BYTES
    memory: DeviceArray = scratch(given.out, size)
    call.fill(given.old, given.out, given.stream, memory.pointer, size)
    blocks = 0
    if claim_bytes == CLAIM_BYTES and not entries:
        blocks = blocks_with_copies(call.points, call.places, claim_bytes, call.tuning)
    if blocks:  # each has all claims of its own first
        combine_few(call, given._replace(unless=-1), memory.pointer, blocks, call.places, call.points, None)
    else:
        call.look(given, memory.pointer, claim_bytes, entries)
    return memory
