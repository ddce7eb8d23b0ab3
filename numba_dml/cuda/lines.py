"""Gathers and scatters of single elements along contiguous lines, which blocks keep in shared memory.

All memory is read and written in its order, 16 bytes at a time; only shared memory is met at random. A block gathers
from one line, or from several short ones that follow each other. Or it scatters to such lines, or to a part of one: in
a table of claims it notes which updates each place has, and then goes through its elements, and takes for each what its
updates make of it, or what was there. Integers that can be combined in any order are so where they are.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import cuda, helper, kernel
from ._groups import ASKED_BYTES, GROUP, ask_for, fill_line, load_four, load_two, shared_type, store_four
from ._launch import Kernel
from ._memory import LOAD_INDEX, await_inputs, combine_now, load_now, shared_address, unit_access
from ._plan import BOUNDS, CLAMP, DROP, HEADER, LOOP_FIELDS, LOOPS, number, quotient
from ._updates import CLAIM_BYTES, LINK_BYTES, combining, count_links, replacing
from .gather import places

#: Registers of a multiprocessor, and the threads that it should have, if a block has fewer.
REGISTERS, BUSY = 65536, 1024


@cache
def resolver(signed: bool):
    """Return how an index becomes a position, -1: it is out of range."""

    @helper
    def resolve(value, size, bounds):
        i = value
        if signed and i < 0:
            i += size
        if i < 0 or i >= size:
            if bounds == CLAMP and size > 0:
                return np.int64(0) if signed and i < 0 else size - 1
            return np.int64(-1)
        return i

    return resolve


def registers_of(threads: int) -> int:
    """Return how many registers a thread can have when blocks of so many are to keep a multiprocessor busy."""
    return REGISTERS // max(threads, BUSY)


@helper
def start_of_line(plan, line):
    """Return the offset in data, and the first index, of the points that the last loop steps through."""
    last = number(plan, LOOPS) - 1
    offset = np.int64(0)
    at = np.int64(0)
    for loop in range(last - 1, -1, -1):
        field = HEADER + LOOP_FIELDS * loop
        i = line
        if loop > 0:
            line = quotient(line, plan, field)
            i -= line * number(plan, field)
        offset += i * number(plan, field + 3)
        at += i * number(plan, field + 4)
    return offset, at


def row_factor(length: int) -> int:
    """Return by what `row_finder` multiplies to divide a point's number by the points of a line.

    Both multiplied are below 2**32 where a block has several lines.
    """
    return (1 << 32) // length + 1


@cache
def row_finder(several: bool):
    """Return how to find where the line of a point starts among those of a block, of which each has `size` elements."""

    @helper
    def start_of_row(factor, point, size):
        if not several:
            return np.int64(0)
        return ((point * factor) >> 32) * size

    return start_of_row


@cache
def grouped(width: int, other_width: int, group: int = GROUP):
    """Return how many elements stand before the first group that can be moved at once, on both sides of a move."""
    align = min(16, group * width) - 1
    other_align = min(16, group * other_width) - 1

    @helper
    def head_of(address, other, count):
        head = np.int64(0)
        while head < group and (((address + head * width) & align) | ((other + head * other_width) & other_align)) != 0:
            head += 1
        return min(head, count) if head < group else count  # they never meet

    return head_of


@cache
def gather_lines_kernel(width: int, index_type: str, several: bool, threads: int) -> Kernel:
    """Return the kernel that gathers elements of a width, blocks of so many threads each from a line or several."""
    signed = index_type.startswith("i")
    index_bytes = np.dtype(index_type).itemsize
    load_index, load_pair, load_indices = LOAD_INDEX[index_type], load_two(index_type), load_four(index_type)
    _, store = unit_access(width)
    _, store_pair = unit_access(16)
    store_elements = store_four(width)
    # A thread handles four elements at a time. Those of 8 bytes are two pairs, so that the threads of a warp store 16
    # bytes side by side: from 73,670 lines of 782 a gather takes 0.375 ms, and 0.414 if all four are neighbours.
    pairs = width == 8
    group, step = (2, 2 * threads) if pairs else (GROUP, threads)
    resolve, head_of = resolver(signed), grouped(width, index_bytes, group)
    fill, arrive = fill_line(width, threads)
    place_of_point, *_ = places(index_type, -1, 1, 0)
    start_of_row = row_finder(several)
    word, element = shared_type("int32"), shared_type(f"int{8 * width}")
    mask = (1 << (8 * width)) - 1 if width < 8 else -1

    @helper
    def take(elements, first, i):
        """Return an element of the line, and 0 for what is out of range."""
        return np.int64(elements[np.uint32(first + max(i, 0))]) & mask if i >= 0 else np.int64(0)

    @helper
    def starts_of(g, groups):
        """Return where the first two elements are, and the other two."""
        i = group * g
        return i, group * min(g + threads, groups - 1) if pairs else i + 2

    @helper
    def load_some(begin, g, groups):
        i, j = starts_of(g, groups)
        if not pairs:
            return load_indices(begin + i * index_bytes)
        a, b = load_pair(begin + i * index_bytes)
        c, d = load_pair(begin + j * index_bytes)
        return a, b, c, d

    @helper
    def take_some(elements, first, size, bounds, indices, to, factor, i, j):
        a = resolve(indices[0], size, bounds)
        b = resolve(indices[1], size, bounds)
        c = resolve(indices[2], size, bounds)
        d = resolve(indices[3], size, bounds)
        from_a = take(elements, first + start_of_row(factor, i, size), a)
        from_b = take(elements, first + start_of_row(factor, i + 1, size), b)
        from_c = take(elements, first + start_of_row(factor, j, size), c)
        from_d = take(elements, first + start_of_row(factor, j + 1, size), d)
        if pairs:
            store_pair(to + i * width, from_a, from_b)
            store_pair(to + j * width, from_c, from_d)
        else:
            store_elements(to + i * width, from_a, from_b, from_c, from_d)
        return (a | b | c | d) < 0

    def gather_lines(
        data,  # IN   address of the input's first element
        index,  # IN   address of the packed indices
        packed,  # OUT  address of the packed output
        plan,  # IN   address of the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        shares,  # IN   how many blocks a line has
        share,  # IN   how many points a block handles
        count_of_lines,  # IN   how many lines there are
        together,  # IN   how many lines a block has; if several, they and their indices have no gaps
        factor,  # IN   see `row_factor`
    ):
        await_inputs()
        words = cuda.shared.array(0, word)
        elements = cuda.shared.array(0, element)
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x)
        begin = np.int64(0)
        if shares > 1:  # a division takes a GPU 100 steps
            line //= shares
            begin = (np.int64(cuda.blockIdx.x) - line * shares) * share
        line *= together
        rows = min(together, count_of_lines - line)
        loops = number(plan, LOOPS)
        length = number(plan, HEADER + LOOP_FIELDS * (loops - 1))
        size = number(plan, HEADER + LOOP_FIELDS * loops)
        bounds = number(plan, BOUNDS)
        offset, at = start_of_line(plan, line)
        first = fill(words, elements, 0, data + offset, rows * size)
        count = min(share, rows * length - begin)
        point = line * length + begin
        source = index + (at + begin) * index_bytes
        to = packed + point * width
        head = head_of(to, source, count)
        groups = (count - head) // group
        begin_of_groups = source + head * index_bytes
        indices = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        if thread < groups:  # the first ones come with the line, others while those before are used
            indices = load_some(begin_of_groups, thread, groups)
        arrive()
        cuda.syncthreads()
        bad = False
        for g in range(thread, groups, step):
            some = indices
            if g + step < groups:
                indices = load_some(begin_of_groups, g + step, groups)
            i, j = starts_of(g, groups)
            bad |= take_some(elements, first, size, bounds, some, to, factor, head + i, head + j)
        for s in range(threads - 1 - thread, count - group * groups, threads):  # what the last threads have time for
            i = s if s < head else s + group * groups
            a = resolve(load_index(source + i * index_bytes), size, bounds)
            store(to + i * width, take(elements, first + start_of_row(factor, i, size), a), 0)
            bad |= a < 0
        if bad and bounds != DROP:  # seldom: find them again
            for i in range(count):
                if resolve(load_index(source + i * index_bytes), size, bounds) < 0:
                    place_of_point(plan, index, record, launch, point + i)
                    break

    return Kernel(kernel(registers=registers_of(threads))(gather_lines), 11, waits=True, shares=True, threads=threads)


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

    Lines are in shared memory as they are, see `_memory.combine_now`.
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
