"""Scatters of single elements along contiguous lines that blocks keep in shared memory."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.atomics import combine_now, load_now
from ..primitives.groups import ASKED_BYTES, GROUP, ask_for, fill_line, load_four, load_two, shared_type, store_four
from ..primitives.moves.lines import grouped, registers_of, resolver, row_finder, start_of_line
from ..primitives.moves.places import places
from ..primitives.moves.updates import CLAIM_BYTES, LINK_BYTES, combining, count_links, replacing
from ..primitives.plan import BOUNDS, DROP, HEADER, LOOP_FIELDS, LOOPS, number
from ..primitives.ptx import await_inputs
from ..primitives.shared import shared_address


@cache
def scatter_lines_kernel(
    width: int, index_type: str, several: bool, staged: bool, threads: int, data_type=None, reduction: str = "none"
) -> Kernel:
    """Return the kernel that scatters elements of a width, blocks each to a line, or several, or a part of one.

    `staged`: the updates of a line are in shared memory too. The type of the elements matters to a reduction alone.
    """
    chained = reduction != "none"
    note, join, origin, meet = combining(width, staged, data_type, reduction) if chained else replacing(width, staged)
    signed = index_type.startswith("i")
    index_bytes = np.dtype(index_type).itemsize
    load_index, load_indices = LOAD_INDEX[index_type], load_four(index_type)
    load, store = unit_access(width)
    _, store_pair = unit_access(16)
    load_pair, load_elements, store_elements = load_two("int64"), load_four(f"uint{8 * width}"), store_four(width)
    pairs = width == 8  # see `gather_lines_kernel`
    group = 2 if pairs else GROUP
    resolve, head_of = resolver(signed), grouped(width, width, group)
    fill, arrive = fill_line(width, threads)
    index_head = grouped(index_bytes, index_bytes)
    place_of_point, *_ = places(index_type, -1, 1, 0)
    start_of_row = row_finder(several)
    word, claim_word, element = shared_type("int32"), shared_type("int32"), shared_type(f"int{8 * width}")

    @helper
    def claim(claims, links, value, size, bounds, low, high, part, factor, point, count):
        """Note the place of an index, if it is one of this block's; tell whether the index is bad."""
        i = resolve(value, size, bounds)
        place = i + start_of_row(factor, point, size)
        if chained:
            inside = i >= 0 and low <= place and place < high
            note(claims, links, place - low if inside else part, count - point)
        elif i >= 0 and low <= place and place < high:
            note(claims, links, place - low, point + 1)
        return i < 0

    @helper
    def put(elements, at, claims, links, j, source, moves, target):
        a = np.int64(claims[np.uint32(j)])
        if moves or a > 0:
            old, _ = load(source + j * width)
            store(target + j * width, meet(old, links, elements, at, a) if a > 0 else old, 0)

    @helper
    def put_two(elements, at, claims, links, j, old, moves, target):
        a = np.int64(claims[np.uint32(j)])
        b = np.int64(claims[np.uint32(j + 1)])
        if moves or (a | b) > 0:
            store_pair(
                target + j * width,
                meet(old[0], links, elements, at, a) if a > 0 else old[0],
                meet(old[1], links, elements, at, b) if b > 0 else old[1],
            )

    @helper
    def put_four(elements, at, claims, links, j, old, moves, target):
        a = np.int64(claims[np.uint32(j)])
        b = np.int64(claims[np.uint32(j + 1)])
        c = np.int64(claims[np.uint32(j + 2)])
        d = np.int64(claims[np.uint32(j + 3)])
        if moves or (a | b | c | d) > 0:
            store_elements(
                target + j * width,
                meet(old[0], links, elements, at, a) if a > 0 else old[0],
                meet(old[1], links, elements, at, b) if b > 0 else old[1],
                meet(old[2], links, elements, at, c) if c > 0 else old[2],
                meet(old[3], links, elements, at, d) if d > 0 else old[3],
            )

    load_some, put_some = (load_pair, put_two) if pairs else (load_elements, put_four)

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
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x)
        low = np.int64(0)
        if parts > 1:
            line //= parts
            low = (np.int64(cuda.blockIdx.x) - line * parts) * part
        loops = number(plan, LOOPS)
        length = number(plan, HEADER + LOOP_FIELDS * (loops - 1))
        size = number(plan, HEADER + LOOP_FIELDS * loops)
        bounds = number(plan, BOUNDS)
        moves = old != data
        line *= together
        rows = min(together, count_of_lines - line)
        length_of_all = rows * length
        high = min(low + part, rows * size)
        offset, at = start_of_line(plan, line)
        offset += low * width
        updates = packed + line * length * width
        indices = index + at * index_bytes
        for i in range(ASKED_BYTES * thread, length_of_all * index_bytes, ASKED_BYTES * threads):
            ask_for(indices + i)
        if not staged:
            for i in range(ASKED_BYTES * thread, length_of_all * width, ASKED_BYTES * threads):
                ask_for(updates + i)
        for i in range(ASKED_BYTES * thread, (high - low) * width, ASKED_BYTES * threads):
            ask_for(old + offset + i)
        for i in range(thread, part, threads):
            claims[np.uint32(i)] = 0
        end = (part * CLAIM_BYTES + 15) & -16
        links = end
        if chained:
            end = ((part + 1) * CLAIM_BYTES + 15) & -16
            links = np.int64(shared_address(words) + end)
            numbers = count_links(length_of_all)
            end += (numbers * LINK_BYTES + 15) & -16
            for i in range(length_of_all + 1 + thread, numbers, threads):
                note(claims, links, part, i)
        first = np.int64(0)
        if staged:
            first = fill(words, elements, end, updates, length_of_all)
        at = origin(elements, first, updates, length_of_all)
        arrive()
        cuda.syncthreads()
        bad = False
        head = index_head(indices, indices, length_of_all)
        groups = (length_of_all - head) // GROUP
        for i in range(thread, head, threads):
            value = load_index(indices + i * index_bytes)
            bad |= claim(claims, links, value, size, bounds, low, high, part, factor, i, length_of_all)
        for g in range(thread, groups, 2 * threads):
            h = g + threads
            i = head + GROUP * g
            j = head + GROUP * min(h, groups - 1)
            some = load_indices(indices + i * index_bytes)
            more = load_indices(indices + j * index_bytes)
            for k in range(GROUP):
                bad |= claim(claims, links, some[k], size, bounds, low, high, part, factor, i + k, length_of_all)
            if h < groups:
                for k in range(GROUP):
                    bad |= claim(claims, links, more[k], size, bounds, low, high, part, factor, j + k, length_of_all)
        for i in range(head + GROUP * groups + thread, length_of_all, threads):
            value = load_index(indices + i * index_bytes)
            bad |= claim(claims, links, value, size, bounds, low, high, part, factor, i, length_of_all)
        cuda.syncthreads()
        if chained:
            join(claims, links, count_links(length_of_all))
            cuda.syncthreads()
        count = high - low
        source = old + offset
        target = data + offset
        head = head_of(target, source, count)
        groups = (count - head) // group
        for j in range(thread, head, threads):
            put(elements, at, claims, links, j, source, moves, target)
        for g in range(thread, groups, 2 * threads):
            h = g + threads
            i = head + group * g
            j = head + group * min(h, groups - 1)
            some = load_some(source + i * width)
            more = load_some(source + j * width)
            put_some(elements, at, claims, links, i, some, moves, target)
            if h < groups:
                put_some(elements, at, claims, links, j, more, moves, target)
        for j in range(head + group * groups + thread, count, threads):
            put(elements, at, claims, links, j, source, moves, target)
        if bad and launch >= 0 and bounds != DROP:
            for i in range(length_of_all):
                if resolve(load_index(indices + i * index_bytes), size, bounds) < 0:
                    place_of_point(plan, index, record, launch, line * length + i)
                    break

    return Kernel(kernel(registers=registers_of(threads))(scatter_lines), 13, waits=True, shares=True, threads=threads)


@cache
def combine_lines_kernel(width: int, index_type: str, several: bool, threads: int, combined: tuple[str, str]) -> Kernel:
    """Return the kernel that combines integers with those of lines, blocks of so many threads each a line or several.

    Lines are in shared memory as they are, see `atomics.combine_now`.
    """
    combine = combine_now(*combined, "shared")
    signed = index_type.startswith("i")
    index_bytes = np.dtype(index_type).itemsize
    load_index, load_indices = LOAD_INDEX[index_type], load_four(index_type)
    load_update, load_updates = LOAD_INDEX[f"int{8 * width}"], load_four(f"int{8 * width}")
    _, store = unit_access(width)
    _, store_pair = unit_access(16)
    store_elements = store_four(width)
    pairs = width == 8  # see `gather_lines_kernel`
    group = 2 if pairs else GROUP
    resolve, index_head, head_of = resolver(signed), grouped(index_bytes, width), grouped(width, width, group)
    fill, arrive = fill_line(width, threads)
    place_of_point, *_ = places(index_type, -1, 1, 0)
    start_of_row = row_finder(several)
    word, element = shared_type("int32"), shared_type(f"int{8 * width}")
    mask = (1 << (8 * width)) - 1 if width < 8 else -1

    @helper
    def meet(line, value, update, size, bounds, factor, point):
        """Combine an update with its element; tell whether the index is bad."""
        i = resolve(value, size, bounds)
        if i >= 0:
            combine(line + (i + start_of_row(factor, point, size)) * width, update)
        return i < 0

    @helper
    def take(elements, i):
        return np.int64(elements[np.uint32(i)]) & mask

    @helper
    def put_some(elements, i, to):
        if pairs:
            store_pair(to, take(elements, i), take(elements, i + 1))
        else:
            store_elements(to, take(elements, i), take(elements, i + 1), take(elements, i + 2), take(elements, i + 3))

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
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x) * together
        rows = min(together, count_of_lines - line)
        loops = number(plan, LOOPS)
        length = number(plan, HEADER + LOOP_FIELDS * (loops - 1))
        size = number(plan, HEADER + LOOP_FIELDS * loops)
        bounds = number(plan, BOUNDS)
        offset, at = start_of_line(plan, line)
        length_of_all = rows * length
        updates = packed + line * length * width
        indices = index + at * index_bytes
        for i in range(ASKED_BYTES * thread, length_of_all * index_bytes, ASKED_BYTES * threads):
            ask_for(indices + i)
        for i in range(ASKED_BYTES * thread, length_of_all * width, ASKED_BYTES * threads):
            ask_for(updates + i)
        first = fill(words, elements, 0, old + offset, rows * size)
        begin = np.int64(shared_address(words)) + first * width
        arrive()
        cuda.syncthreads()
        bad = False
        head = index_head(indices, updates, length_of_all)
        groups = (length_of_all - head) // GROUP
        for i in range(thread, head, threads):
            value, update = load_index(indices + i * index_bytes), load_update(updates + i * width)
            bad |= meet(begin, value, update, size, bounds, factor, i)
        for g in range(thread, groups, threads):
            i = head + GROUP * g
            some = load_indices(indices + i * index_bytes)
            news = load_updates(updates + i * width)
            for k in range(GROUP):
                bad |= meet(begin, some[k], news[k], size, bounds, factor, i + k)
        for i in range(head + GROUP * groups + thread, length_of_all, threads):
            value, update = load_index(indices + i * index_bytes), load_update(updates + i * width)
            bad |= meet(begin, value, update, size, bounds, factor, i)
        cuda.syncthreads()
        count = rows * size
        target = data + offset
        head = head_of(target, target, count)
        groups = (count - head) // group
        for j in range(thread, head, threads):
            store(target + j * width, take(elements, first + j), 0)
        for g in range(thread, groups, threads):
            j = head + group * g
            put_some(elements, first + j, target + j * width)
        for j in range(head + group * groups + thread, count, threads):
            store(target + j * width, take(elements, first + j), 0)
        if bad and launch >= 0 and bounds != DROP:
            for i in range(length_of_all):
                if resolve(load_index(indices + i * index_bytes), size, bounds) < 0:
                    place_of_point(plan, index, record, launch, line * length + i)
                    break

    return Kernel(kernel(registers=registers_of(threads))(combine_lines), 11, waits=True, shares=True, threads=threads)
