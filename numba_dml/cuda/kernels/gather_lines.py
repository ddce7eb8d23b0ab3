"""Gathers of single elements along contiguous lines that blocks keep in shared memory."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.groups import GROUP, fill_line, load_four, load_two, shared_type, store_four
from ..primitives.moves.lines import grouped, registers_of, resolver, row_finder, start_of_line
from ..primitives.moves.places import places
from ..primitives.plan import BOUNDS, DROP, HEADER, LOOP_FIELDS, LOOPS, number
from ..primitives.ptx import await_inputs


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
