"""Scatters of any layout: the last update of each place is found by claims, or the memory combines all of a place."""

from __future__ import annotations

from typing import Any

from ..._core.devices.arrays import DeviceArray
from ..dispatch import units
from ..dispatch.scatter_general import MERGED_AT_ONCE
from ..driver.arrays import scratch
from ..driver.numba import BLOCK
from ..kernels import scatter_claims
from ..primitives.fill import is_copied_by_kernel
from ..primitives.groups import GROUP, QUAD_BYTES
from ..primitives.moves import claims as moves_claims
from .move_call import Claims
from .scatter_way import ScatterArguments


def write(call: Any, given: ScatterArguments) -> DeviceArray | None:
    """Write the updates over the elements at the address `old`; return memory in use until all is done."""
    old, _, updates, out, stream, *_ = given
    general = call.general
    merges = general.merge_bytes > 0 and old != out.pointer
    width = call.dtype.itemsize if call.combined else call.unit_width(old | updates.pointer | out.pointer)
    claim_bytes, entries = (general.merge_bytes, 0) if merges else (general.claim_bytes, general.entries)
    memory = None
    if claim_bytes or given.all_or_none or not call.moved:
        memory = look_first(call, given, Claims(0, claim_bytes, entries, general.claiming_blocks), merges)
    else:
        call.fill(old, out, stream)
    if merges and memory:
        merge(call, given, memory.pointer, width)
    elif memory and entries and width == call.slice_bytes:
        write_entries(call, given, memory.pointer, width)
    elif call.moved:
        write_units(call, given, memory.pointer if memory else 0, width)
    return memory


def look_first(call: Any, given: ScatterArguments, claims: Claims, merges: bool) -> DeviceArray:
    """Look at all indices and claim places, copy the old elements unless they are merged; return the claims' memory."""
    old, indices, _, out, stream, record, number, _ = given
    claimed = claims.entries * moves_claims.ENTRY_BYTES if claims.entries else claims.claim_bytes * call.places
    size = moves_claims.FLAG_BYTES + -(-claimed // QUAD_BYTES) * QUAD_BYTES
    memory: DeviceArray = scratch(out, size)
    claims = claims._replace(address=memory.pointer)
    copies = claims.entries > 0 and old != out.pointer and is_copied_by_kernel(out.pointer, old, call.out_bytes)
    if copies:  # the launch that fills the table copies meanwhile, so that the memory is waited for once
        claims = claims._replace(to=out.pointer, fro=old, size=call.out_bytes)
    call.fill(out.pointer if merges or copies else old, out, stream, memory.pointer, size)
    call.look(out.device, stream, indices, number, record, claims)
    return memory


def write_entries(call: Any, given: ScatterArguments, claims: int, width: int) -> None:
    """Write the updates of single units from the table of claims, in its order."""
    granule, lowest = call.claims
    blocks = -(-call.general.entries // (moves_claims.ENTRIES * BLOCK))
    scatter_claims.entry_kernel(width)(
        given.out.device,
        given.stream,
        blocks,
        given.out.pointer,
        lowest,
        granule,
        given.updates.pointer,
        claims,
        call.general.entries.bit_length() - 1,
        given.all_or_none,
    )


def write_units(call: Any, given: ScatterArguments, claims: int, width: int) -> None:
    """Write the updates whose claims stayed, or combine all; `claims` is 0 if indices are looked at only now."""
    kernel, plan, blocks, *sizes = call.bind(given.out.device, width)
    kernel(
        given.out.device,
        given.stream,
        blocks,
        given.out.pointer,
        given.indices.pointer,
        given.updates.pointer,
        plan,
        given.record,
        -1 if claims else given.number,
        claims,
        call.general.entries - 1,
        given.all_or_none,
        *sizes,
    )


def merge(call: Any, given: ScatterArguments, claims: int, width: int) -> None:
    """Write the output, made of the old elements and of the updates whose claims stayed."""
    old, _, updates, out, stream, *_ = given
    count = call.out_bytes // width
    quad = min(GROUP * width, QUAD_BYTES)
    is_small = width == call.slice_bytes and width in MERGED_AT_ONCE and call.general.merge_bytes == 4
    if is_small and (out.pointer | old) % quad == 0:
        blocks = max(-(-count // (2 * GROUP * BLOCK)), 1)
        kernel = scatter_claims.merge_elements_kernel(width)
        kernel(out.device, stream, blocks, out.pointer, old, updates.pointer, claims, count)
        return
    region, blocks, count, share = call.divide(units.Facts(width, count, call.places, True))
    merging = scatter_claims.merge_slices_kernel if region is units.BY_WARPS else scatter_claims.merge_kernel
    kernel = merging(width, call.general.merge_bytes)
    plan = call.plan(out.device, width).for_kernel(kernel)
    kernel(out.device, stream, blocks, out.pointer, old, updates.pointer, plan, claims, count, share)
