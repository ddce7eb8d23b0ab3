"""Reductions in the order of the updates: points are sorted by their place, then the updates of each are folded."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.devices.arrays import DeviceArray
from ..driver.arrays import scratch
from ..driver.numba import BLOCK
from ..kernels import scatter_folds
from ..primitives import device_sort
from ..primitives.moves import claims as moves_claims
from .move_call import Given


class Buffers(NamedTuple):
    """Addresses of a launch's scratch memory."""

    flag: int  #: A word that becomes 0 if an index is bad.
    long_count: int  #: How many places have many updates.
    longs: int  #: Which places these are.
    sorting: int  #: Memory for the sort.
    pairs: int  #: Pairs of the number of a place and that of a point.


def fold(call: Any, given: Given) -> DeviceArray:
    """Combine the updates with the elements at the address `old`; return memory in use until all is done."""
    points, out, stream = call.points, given.out, given.stream
    is_long = max(points, call.places) > call.tuning.most_short_pairs
    is_ranked = points <= scatter_folds.MOST_RANKED
    sort = device_sort.Sort(1, points, is_long, call.places.bit_length())
    most = points // (scatter_folds.LONG + 1) + 1
    head = 8 * (2 + most + most % 2)
    sort_bytes = 0 if is_ranked else sort.bytes + sort.pairs_bytes
    memory = scratch(out, head + sort_bytes + sort.pairs_bytes)
    flag, long_count, longs, sorting = (memory.pointer + offset for offset in (0, 8, 16, head))
    buffers = Buffers(flag, long_count, longs, sorting, sorting + (0 if is_ranked else sort.bytes))
    call.fill(given.old, out, stream, flag, moves_claims.FLAG_BYTES)
    make_pairs(call, given, buffers, is_long, is_ranked)
    if not is_ranked:
        buffers = buffers._replace(pairs=sort.sort(out.device, stream, sorting, buffers.pairs))
    fold_pairs(call, given, buffers, is_long)
    if points > scatter_folds.LONG:
        fold_long(call, given, buffers, is_long, most)
    return memory


def make_pairs(call: Any, given: Given, buffers: Buffers, is_long: bool, is_ranked: bool) -> None:
    """Look at all indices, and make a pair of every point; `is_ranked`: in the order of a sort."""
    device, at_once = given.out.device, device_sort.WARPS if is_ranked else BLOCK
    make = scatter_folds.rank_kernel if is_ranked else scatter_folds.pair_kernel
    kernel = make(call.index_name, *call.counts, is_long)
    kernel(
        device,
        given.stream,
        -(-call.points // at_once),
        given.indices.pointer,
        plan_for(call, given, unit_width(call, given), kernel),
        given.record,
        given.number,
        buffers.flag,
        call.points,
        call.places,  # the key of points that are dropped, behind all others
        buffers.pairs,
    )


def fold_pairs(call: Any, given: Given, buffers: Buffers, is_long: bool) -> None:
    """Combine the updates of each place, a thread for each unit; places with many are listed."""
    device, width = given.out.device, unit_width(call, given)
    kernel = scatter_folds.fold_kernel(call.lowering.data_type, call.lowering.reduction, width, call.counts, is_long)
    kernel(
        device,
        given.stream,
        -(-call.points * (call.slice_bytes // width) // BLOCK),
        given.out.pointer,
        given.updates.pointer,
        plan_for(call, given, width, kernel),
        buffers.flag,
        given.all_or_none,
        buffers.pairs,
        call.points,
        call.places,
        buffers.long_count,
        buffers.longs,
    )


def fold_long(call: Any, given: Given, buffers: Buffers, is_long: bool, most: int) -> None:
    """Combine the updates of places with many, at most `most` of them, a block for each."""
    device, itemsize = given.out.device, call.dtype.itemsize
    blocks = min(
        call.tuning.folding_blocks * call.tuning.multiprocessors,
        most * -(-call.slice_bytes // (itemsize * scatter_folds.FOLDERS)),
    )
    kind = call.lowering.data_type, call.lowering.reduction
    kernel = scatter_folds.fold_many_kernel(*kind, itemsize, call.counts, is_long)
    kernel(
        device,
        given.stream,
        blocks,
        given.out.pointer,
        given.updates.pointer,
        plan_for(call, given, itemsize, kernel),
        buffers.pairs,
        call.points,
        buffers.long_count,
        buffers.longs,
        blocks,
    )


def unit_width(call: Any, given: Given) -> int:
    """Return how wide a unit can be."""
    return int(call.unit_width(given.old | given.updates.pointer | given.out.pointer))


def plan_for(call: Any, given: Given, width: int, kernel: Any) -> int:
    """Return the plan for units of a width, as a kernel takes it."""
    return int(call.plan(given.out.device, width).for_kernel(kernel))
