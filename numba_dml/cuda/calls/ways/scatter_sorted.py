"""Reductions in the order of the updates: points are sorted by their place, then the updates of each are folded."""

from __future__ import annotations

from typing import Any

from ...._core.devices.arrays import DeviceArray
from ...driver.arrays import scratch
from ...driver.numba import BLOCK, WARPS
from ...kernels import scatter_folds
from ...primitives.device_sort import Sort
from ...primitives.groups import QUAD_BYTES
from ...primitives.moves.folds import FOLDERS, LONG
from ..move_call import Given
from .layouts import Way


class SortedScatter(Way):
    """Combine the updates of each place with what is there, in their order."""

    copies = True
    looks_before = False

    def __call__(self, given: Given) -> DeviceArray:
        call, out, points = self.call, given.out, self.call.points
        is_long = max(points, call.places) > call.tuning.most_short_pairs
        sort = Sort(1, points, is_long, call.places.bit_length())
        most = points // (LONG + 1)  # places that have many updates
        head = 8 * (2 + most + most % 2)
        sort_bytes = 0 if points <= scatter_folds.MOST_RANKED else sort.bytes + sort.pairs_bytes
        memory: DeviceArray = scratch(out, head + sort_bytes + sort.pairs_bytes)
        # How many places have many updates, less one, and which; then what a sort needs.
        long_count, longs, sorting = (memory.pointer + at for at in (0, 8, head))
        call.fill(given.old, out, given.stream, long_count, QUAD_BYTES if most else 0)
        width = call.unit_width(given.old | given.updates.pointer | out.pointer)
        pairs = sorted_pairs(call, given, sort, sorting, width)
        kind = call.lowering.data_type, call.lowering.reduction
        kernel = scatter_folds.fold_kernel(*kind, width, call.counts, is_long)
        blocks = -(-points * (call.slice_bytes // width) // BLOCK)
        data = out.pointer, given.updates.pointer, call.numbers(kernel, given, width)
        kernel(*given.where, blocks, *data, *given.unless_bad, pairs, points, call.places, long_count, longs)
        if most:
            itemsize = call.dtype.itemsize
            chunks = -(-call.slice_bytes // (itemsize * FOLDERS))
            blocks = min(call.tuning.folding_blocks * call.tuning.multiprocessors, most * chunks)
            kernel = scatter_folds.fold_many_kernel(*kind, itemsize, call.counts, is_long)
            data = out.pointer, given.updates.pointer, call.numbers(kernel, given, itemsize)
            kernel(*given.where, blocks, *data, pairs, points, long_count, longs, blocks)
        return memory


def sorted_pairs(call: Any, given: Given, sort: Sort, sorting: int, width: int) -> int:
    """Look at all indices; return the address of the sorted pairs of all points: numbers of a place and of a point."""
    is_ranked = call.points <= scatter_folds.MOST_RANKED
    pairs = sorting if is_ranked else sorting + sort.bytes
    at_once = WARPS if is_ranked else BLOCK
    make = scatter_folds.rank_kernel if is_ranked else scatter_folds.pair_kernel
    kernel = make(call.index_name, call.counts, sort.is_long)
    head = call.looking_head(kernel, given, width)
    nowhere = call.places  # the key of points that are dropped, behind all others
    kernel(*given.where, -(-call.points // at_once), *head, call.points, nowhere, pairs)
    return pairs if is_ranked else sort.sort(*given.where, sorting, pairs)
