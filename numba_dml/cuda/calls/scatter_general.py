"""Scatters of any layout: the last update of each place is found by claims, or the memory combines all of a place."""

from __future__ import annotations

from typing import Any

from ..._core.devices.arrays import DeviceArray
from ..dispatch.scatter_general import MERGED_AT_ONCE
from ..driver.arrays import scratch
from ..driver.numba import BLOCK
from ..kernels import scatter_claims
from ..primitives.groups import GROUP, QUAD_BYTES
from ..primitives.moves import claims as moves_claims
from ..primitives.moves import places as moves_places
from ..primitives.moves.updates import CLAIM_BYTES
from .move_call import Given
from .ways import combine_few


def write(call: Any, given: Given) -> DeviceArray | None:
    """Write the updates over the elements at the address `old`; return memory in use until all is done."""
    old, updates, out = given.old, given.updates, given.out
    general = call.general
    merges = general.merge_bytes > 0 and old != out.pointer
    width = call.dtype.itemsize if call.combined else call.unit_width(old | updates.pointer | out.pointer)
    claim_bytes, entries = (general.merge_bytes, 0) if merges else (general.claim_bytes, general.entries)
    memory = None
    if claim_bytes or given.all_or_none or not call.moved:
        memory = claim(call, given, claim_bytes, entries, merges)
    else:
        call.fill(old, out, given.stream)
    claims = memory.pointer if memory else 0
    if merges:
        merge(call, given, claims, width)
    elif entries and call.moved:
        write_entries(call, given, claims, width)
    elif call.moved:
        write_units(call, given, claims, width)
    return memory


def claim(call: Any, given: Given, claim_bytes: int, entries: int, merges: bool) -> DeviceArray:
    """Look at all indices and claim places, copy the old elements unless they are merged; return the claims' memory."""
    out, stream = given.out, given.stream
    claimed = entries * moves_claims.ENTRY_BYTES if entries else claim_bytes * call.places
    size = moves_claims.FLAG_BYTES + -(-claimed // QUAD_BYTES) * QUAD_BYTES
    memory: DeviceArray = scratch(out, size)
    call.fill(out.pointer if merges else given.old, out, stream, memory.pointer, size)
    blocks = call.general.claiming_blocks
    if claim_bytes == CLAIM_BYTES and not entries and blocks:  # each block has all claims of its own first
        first = memory.pointer + moves_claims.FLAG_BYTES
        combine_few(call, given._replace(flag=memory.pointer), first, blocks, call.places, call.points, None)
    else:
        call.look(given, memory.pointer, claim_bytes, entries)
    return memory


def write_entries(call: Any, given: Given, claims: int, width: int) -> None:
    """Write the updates from the table of claims, in its order."""
    entries, device = call.general.entries, given.out.device
    kernel = scatter_claims.entry_kernel(width, *call.counts)
    kernel(
        device,
        given.stream,
        -(-entries * (call.slice_bytes // width) // (moves_places.UNITS * BLOCK)),
        given.out.pointer,
        given.updates.pointer,
        call.plan(device, width).for_kernel(kernel),
        claims,
        entries.bit_length() - 1,
        given.all_or_none,
    )


def write_units(call: Any, given: Given, claims: int, width: int) -> None:
    """Write the updates whose claims stayed, or combine all; `claims` is 0 if indices are looked at only now."""
    kernel, plan, blocks, *sizes = call.bind(given.out.device, width)
    given = given._replace(flag=claims, number=-1 if claims else given.number)
    out, _, *head = call.head(given, plan)
    kernel(given.out.device, given.stream, blocks, out, *head, given.all_or_none, *sizes)


def merge(call: Any, given: Given, claims: int, width: int) -> None:
    """Write the output, made of the old elements and of the updates whose claims stayed."""
    out, old, claim_bytes = given.out, given.old, call.general.merge_bytes
    is_small = width == call.slice_bytes and width in MERGED_AT_ONCE and claim_bytes == 4
    group = GROUP if is_small and (out.pointer | old) % (GROUP * width) == 0 else 1
    count = call.out_bytes // width
    blocks, share = moves_places.divide(count // group, call.tuning.few_units)
    kernel = scatter_claims.merge_kernel(width, claim_bytes, group)
    kernel(
        out.device,
        given.stream,
        max(blocks, 1),
        out.pointer,
        old,
        given.updates.pointer,
        call.plan(out.device, width).for_kernel(kernel),
        claims + moves_claims.FLAG_BYTES,
        count,
        share,
    )
