"""What becomes of all updates of a place, in shared memory: the last one stays, or all are combined in their order.

Every place has a claim, the highest number of its updates. Updates that replace each other are numbered from the first
to the last, from 1 on. Those that are combined are numbered from the last to the first: the claim is the head of a
chain, in which every update has a link to the next one. One warp makes the chains, from the lowest number up, of as
many updates at a time as it has lanes: their places are raised to their numbers, and what was claimed before is what
follows. Only if several of them have the same place, which seldom is so, lanes look for each other. No update takes
more than a few steps, wherever the others go; a sort would move each several times through memory.

Both kinds are the same four steps, see `update_steps`:

- ``note(claims, links, place, number)`` notes which place of the block an update is for.
- ``join(claims, links, numbers)`` makes the chains, between two barriers.
- ``origin(elements, first, updates, count)`` returns `at`, where an update with the number 0 would be: updates are in
  shared memory from the element `first` on, or at the address `updates`.
- ``meet(old, links, elements, at, number)`` returns what an element becomes by the updates from `number` on.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..access import unit_access
from ..bits import lowest_bit
from ..groups import GROUP
from ..shared import SHARED_LOAD, SHARED_STORE, load_short, raise_shared, shared_address
from ..warp import lanes_with, sync_lanes
from .reductions import unit_steps

#: Bytes of a claim, and of a link.
CLAIM_BYTES, LINK_BYTES = 4, 2
#: Updates that `join` looks at at once: four of each lane's, so that memory is not waited for each time.
JOINED = GROUP * LANES
#: Places and numbers are below.
MOST_LINKED = 1 << (8 * LINK_BYTES)
EVERY_LANE = (1 << LANES) - 1


def link_count(updates: int) -> int:
    """Return how many numbers there are, from 0 on, for the updates, filled up to `JOINED`."""
    return 1 + (updates + JOINED - 1) // JOINED * JOINED


count_links = helper(link_count)


@cache
def replacing(width: int, staged: bool):
    """Return the steps for updates of which the last one stays; `staged`: they are in shared memory."""
    load, _ = unit_access(width)
    mask = (1 << (8 * width)) - 1 if width < 8 else -1

    @helper
    def note(claims, links, place, number):
        cuda.atomic.max(claims, np.uint32(place), np.int32(number))

    @helper
    def join(claims, links, numbers):
        return

    @helper
    def origin(elements, first, updates, count):
        return first - 1 if staged else updates - width

    @helper
    def meet(old, links, elements, at, number):
        if staged:
            return np.int64(elements[np.uint32(at + number)]) & mask
        value, _ = load(at + number * width)
        return value

    return note, join, origin, meet


load_head, store_link = SHARED_LOAD[8 * CLAIM_BYTES], SHARED_STORE[8 * LINK_BYTES]
#: The lanes that have the same flag, and those that have the same place.
lanes_alike, lanes_of_place = lanes_with(1), lanes_with(8 * LINK_BYTES)


@helper
def claim_head(heads, place, number):
    """Claim a place; return what claimed it before, and whether another lane has done it by a higher number."""
    head = heads + CLAIM_BYTES * place
    before = load_head(head)
    sync_lanes()
    raise_shared(head, number)
    sync_lanes()
    return before, load_head(head) != number


@helper
def link_update(links, place, number, later, beaten):
    """Link an update to the next one, that of a higher lane or what claimed the place before."""
    alike = lanes_alike(np.int64(beaten))
    if beaten | (alike != EVERY_LANE):  # all lanes do, or none
        lane = np.int64(cuda.threadIdx.x)
        others = lanes_of_place(place) >> (lane + 1)
        if others != 0:
            later = number - 1 - lowest_bit(others)
    store_link(links + LINK_BYTES * number, later)


@helper
def make_chains(claims, links, numbers):
    """Make the chains, by one warp. The places of all numbers, at a shared address, become their `links`.

    `claims`: (places + 1,) int32, zeros; the last one is for what leads nowhere. Of `numbers` see `link_count`.
    """
    heads = np.int64(shared_address(claims))
    lane = np.int64(cuda.threadIdx.x)
    places, before = cuda.local.array(GROUP, np.int64), cuda.local.array(GROUP, np.int64)
    beaten = cuda.local.array(GROUP, np.bool_)
    if lane < LANES:
        for a in range(LANES - lane, numbers, JOINED):
            for k in range(GROUP):
                places[k] = load_short(links + LINK_BYTES * (a + k * LANES))
            for k in range(GROUP):
                before[k], beaten[k] = claim_head(heads, places[k], a + k * LANES)
            for k in range(GROUP):
                link_update(links, places[k], a + k * LANES, before[k], beaten[k])


@cache
def combining(width: int, staged: bool, data_type, reduction: str):
    """Return the steps for updates that are combined with what is there, in their order."""
    fast, exact, has_nan = unit_steps(data_type, reduction, width)
    load, _ = unit_access(width)
    load_shared = SHARED_LOAD[8 * width]
    mask = (1 << (8 * width)) - 1 if width < 8 else -1

    @helper
    def note(claims, links, place, number):
        store_link(links + LINK_BYTES * number, place)

    @helper
    def origin(elements, first, updates, count):
        """Return where that is: behind all others, whose numbers count down."""
        begin = shared_address(elements) + first * width if staged else updates
        return np.int64(begin + count * width)

    @helper
    def update(at, number):
        if staged:
            return load_shared(at - number * width) & mask
        value, _ = load(at - number * width)
        return value

    def following(combine):
        @helper
        def follow(value, links, at, number):
            here = np.int32(number)
            while here > 0:
                value, _ = combine(value, np.int64(0), update(at, here), np.int64(0))
                here = load_short(links + LINK_BYTES * here)
            return value

        return follow

    follow_fast, follow_exactly = following(fast), following(exact)

    @helper
    def meet(old, links, elements, at, number):
        value = follow_fast(old, links, at, number)
        if has_nan(value, np.int64(0)):
            value = follow_exactly(old, links, at, number)
        return value & mask

    return note, make_chains, origin, meet


def update_steps(width: int, staged: bool, data_type, reduction: str):
    """Return the steps of a scatter, which is a reduction or replaces what is there."""
    return replacing(width, staged) if reduction == "none" else combining(width, staged, data_type, reduction)
