"""Scatters of single elements along contiguous lines that blocks keep in shared memory."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.atomics import combine_now, load_now
from ..primitives.groups import GROUP, fill_line, load_four, load_two, shared_type, store_four
from ..primitives.moves.line_blocks import asker, bad_finder, lines_of_block, point_walker
from ..primitives.moves.lines import grouped, registers_of, resolver, row_finder
from ..primitives.moves.updates import CLAIM_BYTES, LINK_BYTES, combining, count_links, replacing
from ..primitives.ptx import await_inputs
from ..primitives.shared import shared_address


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
def claimer(index_type: str, width: int, several: bool, staged: bool, data_type, reduction: str):
    """Return ``claim(claims, lines, value, point)``.

    It notes the place of a point's index, if it is one of this block's, and tells whether the index is bad.
    """
    chained = reduction != "none"
    note, *_ = combining(width, staged, data_type, reduction) if chained else replacing(width, staged)
    resolve, start_of_row = resolver(index_type.startswith("i")), row_finder(several)

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
def updater(width: int, threads: int, staged: bool, data_type, reduction: str):
    """Return ``update_all(update, count)``: all threads write the elements of a part that change, or all of them."""
    chained = reduction != "none"
    *_, meet = combining(width, staged, data_type, reduction) if chained else replacing(width, staged)
    load, store = unit_access(width)
    _, store_pair = unit_access(16)
    load_pair, load_elements, store_elements = load_two("int64"), load_four(f"uint{8 * width}"), store_four(width)
    pairs = width == 8  # see `gather_lines_kernel`
    group = 2 if pairs else GROUP
    head_of = grouped(width, width, group)

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
    def put_two(u, j, old):
        a = np.int64(u.claims[np.uint32(j)])
        b = np.int64(u.claims[np.uint32(j + 1)])
        if u.moves or (a | b) > 0:
            store_pair(u.target + j * width, met(u, old[0], a), met(u, old[1], b))

    @helper
    def put_four(u, j, old):
        a = np.int64(u.claims[np.uint32(j)])
        b = np.int64(u.claims[np.uint32(j + 1)])
        c = np.int64(u.claims[np.uint32(j + 2)])
        d = np.int64(u.claims[np.uint32(j + 3)])
        if u.moves or (a | b | c | d) > 0:
            store_elements(
                u.target + j * width, met(u, old[0], a), met(u, old[1], b), met(u, old[2], c), met(u, old[3], d)
            )

    load_some, put_some = (load_pair, put_two) if pairs else (load_elements, put_four)

    @helper
    def update_all(u, count):
        thread = np.int64(cuda.threadIdx.x)
        head = head_of(u.target, u.source, count)
        groups = (count - head) // group
        for j in range(thread, head, threads):
            put(u, j)
        for g in range(thread, groups, 2 * threads):
            h = g + threads
            i = head + group * g
            j = head + group * min(h, groups - 1)
            some = load_some(u.source + i * width)
            more = load_some(u.source + j * width)
            put_some(u, i, some)
            if h < groups:
                put_some(u, j, more)
        for j in range(head + group * groups + thread, count, threads):
            put(u, j)

    return update_all


@cache
def claims_clearer(width: int, threads: int, staged: bool, data_type, reduction: str):
    """Return ``clear_claims(words, claims, part, points)``.

    It lets no place be claimed, and what makes updates up to `JOINED` lead nowhere. It returns the shared address of
    the links, and the first byte of shared memory that is free.
    """
    chained = reduction != "none"
    note, *_ = combining(width, staged, data_type, reduction) if chained else replacing(width, staged)

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
def scatter_lines_kernel(
    width: int, index_type: str, several: bool, staged: bool, threads: int, data_type=None, reduction: str = "none"
) -> Kernel:
    """Return the kernel that scatters elements of a width, blocks each to a line, or several, or a part of one.

    `staged`: the updates of a line are in shared memory too. The type of the elements matters to a reduction alone.
    """
    chained = reduction != "none"
    _, join, origin, _ = combining(width, staged, data_type, reduction) if chained else replacing(width, staged)
    index_bytes = np.dtype(index_type).itemsize
    claim_all = point_walker(index_type, threads, claimer(index_type, width, several, staged, data_type, reduction))
    update_all = updater(width, threads, staged, data_type, reduction)
    clear_claims = claims_clearer(width, threads, staged, data_type, reduction)
    fill, arrive = fill_line(width, threads)
    ask_for_all, record_first = asker(threads), bad_finder(index_type)
    word, claim_word, element = shared_type("int32"), shared_type("int32"), shared_type(f"int{8 * width}")

    def scatter_lines(
        data,  # OUT     address of the output's first element
        old,  # IN      the same of what is there before, maybe the output itself
        index,  # IN      address of the packed indices
        packed,  # IN      address of the packed updates
        plan,  # IN      address of the plan
        record,  # OUT     where a bad index is recorded
        launch,  # IN      the number of this launch, -1: the indices have been looked at
        flag,  # IN      address of a word that is 0 if an index is bad; 0: write in any case
        parts,  # IN      how many blocks a line has
        part,  # IN      how many elements a block handles
        count_of_lines,  # IN      how many lines there are
        together,  # IN      how many lines a block has; if several, they and their indices have no gaps
        factor,  # IN      see `row_factor`
    ):
        await_inputs()
        if flag != 0 and load_now(flag) == 0:
            return
        words = cuda.shared.array(0, word)
        claims = cuda.shared.array(0, claim_word)
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
        ask_for_all(old + offset, (high - low) * width)
        links, free = clear_claims(words, claims, part, points)
        first = np.int64(0)
        if staged:
            first = fill(words, elements, free, updates, points)
        at = origin(elements, first, updates, points)
        arrive()
        cuda.syncthreads()
        bad = claim_all(indices, Claims(claims, links, low, high, part), lines)
        cuda.syncthreads()
        if chained:
            join(claims, links, count_links(points))
            cuda.syncthreads()
        update_all(Update(claims, links, elements, at, old + offset, data + offset, old != data), high - low)
        if bad and launch >= 0:
            record_first(plan, index, record, launch, lines, indices, lines.first_point, points)

    return Kernel(kernel(registers=registers_of(threads))(scatter_lines), 13, waits=True, shares=True, threads=threads)


@cache
def combiner(index_type: str, width: int, several: bool, threads: int, combined: tuple[str, str]):
    """Return ``combine_all(indices, updates, target, lines)``: it combines all updates with elements from a byte on.

    They are in shared memory; it tells whether an index is bad.
    """
    combine = combine_now(*combined, "shared")
    index_bytes = np.dtype(index_type).itemsize
    load_index, load_indices = LOAD_INDEX[index_type], load_four(index_type)
    load_update, load_updates = LOAD_INDEX[f"int{8 * width}"], load_four(f"int{8 * width}")
    resolve, start_of_row = resolver(index_type.startswith("i")), row_finder(several)
    index_head = grouped(index_bytes, width)

    @helper
    def meet(target, lines, value, update, point):
        """Combine an update with its element; tell whether the index is bad."""
        i = resolve(value, lines.size, lines.bounds)
        if i >= 0:
            combine(target + (i + start_of_row(lines.factor, point, lines.size)) * width, update)
        return i < 0

    @helper
    def meet_one(indices, updates, target, lines, i):
        value, update = load_index(indices + i * index_bytes), load_update(updates + i * width)
        return meet(target, lines, value, update, i)

    @helper
    def combine_all(indices, updates, target, lines):
        thread, points = np.int64(cuda.threadIdx.x), lines.points
        bad = False
        head = index_head(indices, updates, points)
        groups = (points - head) // GROUP
        for i in range(thread, head, threads):
            bad |= meet_one(indices, updates, target, lines, i)
        for g in range(thread, groups, threads):
            i = head + GROUP * g
            some = load_indices(indices + i * index_bytes)
            news = load_updates(updates + i * width)
            for k in range(GROUP):
                bad |= meet(target, lines, some[k], news[k], i + k)
        for i in range(head + GROUP * groups + thread, points, threads):
            bad |= meet_one(indices, updates, target, lines, i)
        return bad

    return combine_all


@cache
def line_writer(width: int, threads: int):
    """Return ``write_all(elements, first, target, count)``: elements of shared memory from one on go to memory."""
    _, store = unit_access(width)
    _, store_pair = unit_access(16)
    store_elements = store_four(width)
    pairs = width == 8  # see `gather_lines_kernel`
    group = 2 if pairs else GROUP
    head_of = grouped(width, width, group)
    mask = (1 << (8 * width)) - 1 if width < 8 else -1

    @helper
    def take(elements, i):
        return np.int64(elements[np.uint32(i)]) & mask

    @helper
    def put_some(elements, i, to):
        if pairs:
            store_pair(to, take(elements, i), take(elements, i + 1))
        else:
            store_elements(to, take(elements, i), take(elements, i + 1), take(elements, i + 2), take(elements, i + 3))

    @helper
    def write_all(elements, first, target, count):
        thread = np.int64(cuda.threadIdx.x)
        head = head_of(target, target, count)
        groups = (count - head) // group
        for j in range(thread, head, threads):
            store(target + j * width, take(elements, first + j), 0)
        for g in range(thread, groups, threads):
            j = head + group * g
            put_some(elements, first + j, target + j * width)
        for j in range(head + group * groups + thread, count, threads):
            store(target + j * width, take(elements, first + j), 0)

    return write_all


@cache
def combine_lines_kernel(width: int, index_type: str, several: bool, threads: int, combined: tuple[str, str]) -> Kernel:
    """Return the kernel that combines integers with those of lines: each block has a line or several.

    Lines are in shared memory as they are, see `atomics.combine_now`.
    """
    index_bytes = np.dtype(index_type).itemsize
    combine_all = combiner(index_type, width, several, threads, combined)
    write_all = line_writer(width, threads)
    fill, arrive = fill_line(width, threads)
    ask_for_all, record_first = asker(threads), bad_finder(index_type)
    word, element = shared_type("int32"), shared_type(f"int{8 * width}")

    def combine_lines(
        data,  # OUT     address of the output's first element
        old,  # IN      the same of what is there before, maybe the output itself
        index,  # IN      address of the packed indices
        packed,  # IN      address of the packed updates
        plan,  # IN      address of the plan
        record,  # OUT     where a bad index is recorded
        launch,  # IN      the number of this launch, -1: the indices have been looked at
        flag,  # IN      address of a word that is 0 if an index is bad; 0: write in any case
        count_of_lines,  # IN      how many lines there are
        together,  # IN      how many lines a block has; if several, they and their indices have no gaps
        factor,  # IN      see `row_factor`
    ):
        await_inputs()
        if flag != 0 and load_now(flag) == 0:
            return
        words = cuda.shared.array(0, word)
        elements = cuda.shared.array(0, element)
        line = np.int64(cuda.blockIdx.x) * together
        lines = lines_of_block(plan, line, together, count_of_lines, factor)
        count = lines.rows * lines.size
        updates = packed + lines.first_point * width
        indices = index + lines.at * index_bytes
        ask_for_all(indices, lines.points * index_bytes)
        ask_for_all(updates, lines.points * width)
        first = fill(words, elements, 0, old + lines.offset, count)
        begin = np.int64(shared_address(words)) + first * width
        arrive()
        cuda.syncthreads()
        bad = combine_all(indices, updates, begin, lines)
        cuda.syncthreads()
        write_all(elements, first, data + lines.offset, count)
        if bad and launch >= 0:
            record_first(plan, index, record, launch, lines, indices, lines.first_point, lines.points)

    return Kernel(kernel(registers=registers_of(threads))(combine_lines), 11, waits=True, shares=True, threads=threads)
