"""Scatters to few places, of which each block has a copy, and scatters of few points, at which every block looks."""

from __future__ import annotations

from math import gcd
from typing import Any

from ..dispatch import scatter, scatter_general
from ..kernels import scatter_combine_few, scatter_few
from ..primitives.groups import QUAD_BYTES
from .scatter_way import ScatterArguments, ScatterWay


class FewPlaceCombine(ScatterWay):
    """Combine integers, in any order, of an output so small that each block has one of its own."""

    covers = False

    def __init__(self, call: Any) -> None:
        self.call = call
        self.count = call.out_bytes // call.dtype.itemsize
        self.units = scatter.updates_of(call.facts)
        self.blocks = max(scatter.copying_blocks(call.facts, call.tuning), 1)

    def __call__(self, given: ScatterArguments) -> Any:
        """Combine the updates with the elements of the output; return memory in use until all is done."""
        _, indices, updates, out, stream, record, *_ = given
        call, device, width = self.call, out.device, self.call.dtype.itemsize
        memory, flag, number = call.look_first(given)
        kernel = scatter_combine_few.combine_few_kernel(width, call.index_name, *call.counts, call.combined)
        kernel(
            device,
            stream,
            self.blocks,
            out.pointer,
            indices.pointer,
            updates.pointer,
            call.plan(device, width).for_kernel(kernel),
            record,
            number,
            flag,
            self.count,
            self.units,
            -(-self.units // self.blocks),
            shared=-(-self.count * width // QUAD_BYTES) * QUAD_BYTES,
        )
        return memory


class OwnPlaceScatter(ScatterWay):
    """Scatter few points: each block has places of its own."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.covers = scatter.copies_few(call.facts, call.tuning)
        step = QUAD_BYTES // gcd(QUAD_BYTES, call.slice_bytes)  # so that all blocks copy by 16 bytes
        tuning = call.tuning
        share = max(-(-call.places // tuning.moves.multiprocessors), -(-tuning.least_few_share // call.slice_bytes))
        #: Places of a block that copies.
        self.share = -(-share // step) * step
        self.entries = scatter_general.table_size(call.points)
        self.shared = scatter.few_shared_bytes(call.points)

    def suits(self, old: int, updates: int, out: int) -> bool:
        units = self.call.slice_bytes // self.call.unit_width(old | updates | out)
        has_few_units = units <= self.call.tuning.most_few_units
        return has_few_units and (not self.call.facts.unique or self.copies(old, out))

    def copies(self, old: int, out: int) -> bool:
        return self.covers and old != out and (old | out) % QUAD_BYTES == 0

    def __call__(self, given: ScatterArguments) -> None:
        old, indices, updates, out, stream, record, number, all_or_none = given
        call, device = self.call, out.device
        width = call.unit_width(old | updates.pointer | out.pointer)
        blocks = -(-call.places // self.share)
        if old == out.pointer:
            blocks = min(call.tuning.moves.multiprocessors, call.points)
        kernel = scatter_few.own_places_kernel(width, call.index_name, *call.counts)
        kernel(
            device,
            stream,
            blocks,
            out.pointer,
            old,
            indices.pointer,
            updates.pointer,
            call.plan(device, width).for_kernel(kernel),
            record,
            number,
            all_or_none,
            call.points,
            self.entries,
            call.out_bytes // width,
            self.share,
            shared=self.shared,
        )
