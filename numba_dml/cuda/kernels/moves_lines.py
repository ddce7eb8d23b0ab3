"""Gathers and scatters of single elements along contiguous lines, of which blocks keep one or several in shared memory.

A gather keeps the elements. A scatter keeps claims and chains of updates, and goes through the line in its order; or
the elements, with which it combines integers in any order.

Of the arguments of kernels see `primitives.moves`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.intrinsics import shared_type
from ..driver.launch import Kernel
from ..driver.numba import cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.atomics import combine_now
from ..primitives.bad_indices import has_bad
from ..primitives.groups import GROUP, asker, await_copies, fill_line, load_four, store_four
from ..primitives.moves.lines import bad_finder, grouped, lines_of_block, point_walker, resolver, row_finder
from ..primitives.moves.sizes import registers_of
from ..primitives.moves.updates import CLAIM_BYTES, LINK_BYTES, count_links, update_steps
from ..primitives.ptx import await_inputs
from ..primitives.shared import shared_address


@cache
def line_gatherer(width: int, index_type: str, several: bool):
    """Return how a block gathers four points, or one.

    ``take_four(elements, first, lines, to, indices, i)`` and ``take_one(elements, first, lines, to, source, i)`` gather
    from lines in shared memory, which begin at the element `first`, and tell whether an index is bad.
    """
    index_bytes, load_index = np.dtype(index_type).itemsize, LOAD_INDEX[index_type]
    _, store = unit_access(width)
    store_elements = store_four(width)
    resolve, start_of_row = resolver(index_type), row_finder(several)
    mask = (1 << (8 * width)) - 1 if width < 8 else -1

    @helper
    def take(elements, first, i):
        """Return an element of the line, and 0 for what is out of range."""
        return np.int64(elements[np.uint32(first + max(i, 0))]) & mask if i >= 0 else np.int64(0)

    @helper
    def take_four(elements, first, lines, to, indices, i):
        found = cuda.local.array(GROUP, np.int64)
        bad = False
        for k in range(GROUP):
            at = resolve(indices[k], lines.size, lines.bounds)
            bad |= at < 0
            found[k] = take(elements, first + start_of_row(lines.factor, i + k, lines.size), at)
        store_elements(to + i * width, found[0], found[1], found[2], found[3])
        return bad

    @helper
    def take_one(elements, first, lines, to, source, i):
        a = resolve(load_index(source + i * index_bytes), lines.size, lines.bounds)
        store(to + i * width, take(elements, first + start_of_row(lines.factor, i, lines.size), a), 0)
        return a < 0

    return take_four, take_one


@cache
def gather_lines_kernel(width: int, index_type: str, several: bool, threads: int) -> Kernel:
    """Return the kernel that gathers elements of a width: each block of threads has a line or several."""
    index_bytes = np.dtype(index_type).itemsize
    load_indices = load_four(index_type)
    take_four, take_one = line_gatherer(width, index_type, several)
    head_of, record_first = grouped(width, index_bytes), bad_finder(index_type)
    fill = fill_line(width, threads)
    word, element = shared_type("int32"), shared_type(f"int{8 * width}")

    def gather_lines(data, index, packed, plan, record, launch, shares, share, count_of_lines, together, factor):
        """A line has `shares` blocks, each for `share` points. A block has `together` of `count_of_lines` lines.

        If these are several, they and their indices have no gaps. `factor`: see `row_factor`.
        """
        await_inputs()
        words = cuda.shared.array(0, word)
        elements = cuda.shared.array(0, element)
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x)
        begin = np.int64(0)
        if shares > 1:  # a division takes a GPU 100 steps
            line //= shares
            begin = (np.int64(cuda.blockIdx.x) - line * shares) * share
        lines = lines_of_block(plan, line * together, together, count_of_lines, factor)
        first = fill(words, elements, 0, data + lines.offset, lines.rows * lines.size)
        count = min(share, lines.points - begin)
        point = lines.first_point + begin
        source, to = index + (lines.at + begin) * index_bytes, packed + point * width
        head = head_of(to, source, count)
        groups = (count - head) // GROUP
        begin_of_groups = source + head * index_bytes
        indices = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        if thread < groups:  # the first ones come with the line, others while those before are used
            indices = load_indices(begin_of_groups + GROUP * thread * index_bytes)
        await_copies()
        cuda.syncthreads()
        bad = False
        for g in range(thread, groups, threads):
            some = indices
            if g + threads < groups:
                indices = load_indices(begin_of_groups + GROUP * (g + threads) * index_bytes)
            bad |= take_four(elements, first, lines, to, some, head + GROUP * g)
        for s in range(threads - 1 - thread, count - GROUP * groups, threads):  # what the last threads have time for
            bad |= take_one(elements, first, lines, to, source, s if s < head else s + GROUP * groups)
        if bad:
            record_first(plan, index, record, launch, lines, source, point, count)

    return Kernel(gather_lines, 11, waits=True, shares=True, threads=threads, registers=registers_of(threads))


class Claims(NamedTuple):
    """Which updates the places of a block's part of its lines have."""

    claims: object  #: of each place, in shared memory
    links: object  #: of updates that are combined
    low: object  #: the first place of the part
    high: object  #: the end of it
    nowhere: object  #: what stands for all other places


class Update(NamedTuple):
    """What becomes of the elements of a part."""

    claims: object
    links: object
    elements: object  #: the updates, if they are in shared memory
    at: object  #: where they are
    source: object  #: the address of the elements before
    target: object  #: and after
    moves: object  #: whether these are different, so that all elements are written


@cache
def claimer(index_type: str, several: bool, chained: bool, note):
    """Return ``claim(claims, lines, value, point)``.

    It notes the place of a point's index, if it is one of this block's, and tells whether the index is bad.
    """
    resolve, start_of_row = resolver(index_type), row_finder(several)

    @helper
    def claim(claims, lines, value, point):
        i = resolve(value, lines.size, lines.bounds)
        place = i + start_of_row(lines.factor, point, lines.size)
        inside = i >= 0 and claims.low <= place and place < claims.high
        if chained:
            to = place - claims.low if inside else claims.nowhere
            note(claims.claims, claims.links, to, lines.points - point)
        elif inside:
            note(claims.claims, claims.links, place - claims.low, point + 1)
        return i < 0

    return claim


@cache
def updater(width: int, threads: int, meet):
    """Return ``update_all(update, count)``: all threads write the elements of a part that change, or all of them."""
    load, store = unit_access(width)
    load_elements, store_elements = load_four(f"uint{8 * width}"), store_four(width)
    head_of = grouped(width, width)

    @helper
    def met(u, old, claimed):
        return meet(old, u.links, u.elements, u.at, claimed) if claimed > 0 else old

    @helper
    def put(u, j):
        a = np.int64(u.claims[np.uint32(j)])
        if u.moves or a > 0:
            old, _ = load(u.source + j * width)
            store(u.target + j * width, met(u, old, a), 0)

    @helper
    def put_four(u, j, old):
        claimed = cuda.local.array(GROUP, np.int64)
        changes = u.moves
        for k in range(GROUP):
            claimed[k] = np.int64(u.claims[np.uint32(j + k)])
            changes |= claimed[k] > 0
        if changes:
            a, b = met(u, old[0], claimed[0]), met(u, old[1], claimed[1])
            c, d = met(u, old[2], claimed[2]), met(u, old[3], claimed[3])
            store_elements(u.target + j * width, a, b, c, d)

    @helper
    def update_all(u, count):
        thread = np.int64(cuda.threadIdx.x)
        head = head_of(u.target, u.source, count)
        groups = (count - head) // GROUP
        for j in range(thread, head, threads):
            put(u, j)
        for g in range(thread, groups, 2 * threads):
            h = g + threads
            i = head + GROUP * g
            j = head + GROUP * min(h, groups - 1)
            some = load_elements(u.source + i * width)
            more = load_elements(u.source + j * width)
            put_four(u, i, some)
            if h < groups:
                put_four(u, j, more)
        for j in range(head + GROUP * groups + thread, count, threads):
            put(u, j)

    return update_all


@cache
def claims_clearer(threads: int, chained: bool, note):
    """Return ``clear_claims(words, claims, part, points)``.

    It lets no place be claimed, and what makes updates up to `JOINED` lead nowhere. It returns the shared address of
    the links, and the first byte of shared memory that is free.
    """

    @helper
    def clear_claims(words, claims, part, points):
        thread = np.int64(cuda.threadIdx.x)
        for i in range(thread, part, threads):
            claims[np.uint32(i)] = 0
        end = (part * CLAIM_BYTES + 15) & -16
        links = end
        if chained:
            end = ((part + 1) * CLAIM_BYTES + 15) & -16
            links = np.int64(shared_address(words) + end)
            numbers = count_links(points)
            end += (numbers * LINK_BYTES + 15) & -16
            for i in range(points + 1 + thread, numbers, threads):
                note(claims, links, part, i)
        return links, end

    return clear_claims


@cache
def combiner(index_type: str, width: int, several: bool, combined: tuple[str, str]):
    """Return ``combine(target, lines, value, point)``: combine the update of a point; tell whether its index is bad.

    The target is the shared address of the lines' first element, and the address of the updates.
    """
    combine_shared = combine_now(*combined, "shared")
    load_update = LOAD_INDEX[f"int{8 * width}"]
    resolve, start_of_row = resolver(index_type), row_finder(several)

    @helper
    def combine(target, lines, value, point):
        begin, updates = target
        i = resolve(value, lines.size, lines.bounds)
        update = load_update(updates + point * width)
        if i >= 0:
            combine_shared(begin + (i + start_of_row(lines.factor, point, lines.size)) * width, update)
        return i < 0

    return combine


@cache
def scatter_lines_kernel(
    width: int,
    index_type: str,
    several: bool,
    staged: bool,
    threads: int,
    data_type=None,
    reduction: str = "none",
    combined: tuple[str, str] | None = None,
) -> Kernel:
    """Return the kernel that scatters elements of a width, blocks each to a line, or several, or a part of one.

    `staged`: the updates of a line are in shared memory too. The type of the elements matters to a reduction alone.
    `combined`: integers are combined in any order by an operation for a type, see `atomics.combine_now`.
    """
    chained = reduction != "none"
    note, join, origin, meet = update_steps(width, staged, data_type, reduction)
    index_bytes = np.dtype(index_type).itemsize
    if combined:
        visit = combiner(index_type, width, several, combined)
    else:
        visit = claimer(index_type, several, chained, note)
    visit_all = point_walker(index_type, threads, visit)
    _, store = unit_access(width)
    update_all, clear_claims = updater(width, threads, meet), claims_clearer(threads, chained, note)
    fill = fill_line(width, threads)
    ask_for_all, record_first = asker(threads), bad_finder(index_type)
    word, element = shared_type("int32"), shared_type(f"int{8 * width}")

    def scatter_lines(
        data, old, index, packed, plan, record, launch, unless, parts, part, count_of_lines, together, factor
    ):
        """A line has `parts` blocks, each for `part` of its elements; of all other arguments see `gather_lines`."""
        await_inputs()
        if has_bad(record, unless):
            return
        words = cuda.shared.array(0, word)
        claims = cuda.shared.array(0, word)
        elements = cuda.shared.array(0, element)
        line = np.int64(cuda.blockIdx.x)
        low = np.int64(0)
        if parts > 1:
            line //= parts
            low = (np.int64(cuda.blockIdx.x) - line * parts) * part
        lines = lines_of_block(plan, line * together, together, count_of_lines, factor)
        points = lines.points
        high = min(low + part, lines.rows * lines.size)
        offset = lines.offset + low * width
        updates = packed + lines.first_point * width
        indices = index + lines.at * index_bytes
        ask_for_all(indices, points * index_bytes)
        if not staged:
            ask_for_all(updates, points * width)
        if combined:
            first = fill(words, elements, 0, old + offset, high - low)
            await_copies()
            cuda.syncthreads()
            bad = visit_all(indices, (np.int64(shared_address(words)) + first * width, updates), lines)
            cuda.syncthreads()
            for j in range(np.int64(cuda.threadIdx.x), high - low, threads):
                store(data + offset + j * width, np.int64(elements[np.uint32(first + j)]), 0)
        else:
            ask_for_all(old + offset, (high - low) * width)
            links, free = clear_claims(words, claims, part, points)
            first = np.int64(0)
            if staged:
                first = fill(words, elements, free, updates, points)
            at = origin(elements, first, updates, points)
            await_copies()
            cuda.syncthreads()
            bad = visit_all(indices, Claims(claims, links, low, high, part), lines)
            cuda.syncthreads()
            if chained:
                join(claims, links, count_links(points))
                cuda.syncthreads()
            update_all(Update(claims, links, elements, at, old + offset, data + offset, old != data), high - low)
        if bad and launch >= 0:
            record_first(plan, index, record, launch, lines, indices, lines.first_point, points)

    return Kernel(scatter_lines, 13, waits=True, shares=True, threads=threads, registers=registers_of(threads))
