"""Gathers of single elements along contiguous lines that blocks keep in shared memory."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.groups import GROUP, fill_line, load_four, load_two, shared_type, store_four
from ..primitives.moves.line_blocks import bad_finder, lines_of_block
from ..primitives.moves.lines import grouped, registers_of, resolver, row_finder
from ..primitives.ptx import await_inputs


class Part(NamedTuple):
    """The points that a block gathers."""

    source: object  #: the address of their indices
    to: object  #: the address of their elements


@cache
def index_groups(index_type: str, width: int, threads: int):
    """Return ``starts_of(g, groups)`` and ``load_some(begin, g, groups)`` for the four points of a thread's group.

    They are neighbours, or those of 8 bytes two pairs: then the threads of a warp store 16 bytes side by side. See
    docs/measurements/cudakernels.md, "Elements of 8 bytes in pairs".
    """
    index_bytes = np.dtype(index_type).itemsize
    load_pair, load_indices = load_two(index_type), load_four(index_type)
    pairs, group = width == 8, group_of(width)

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

    return starts_of, load_some


def group_of(width: int) -> int:
    """Return how many neighbouring elements are a group."""
    return 2 if width == 8 else GROUP


@cache
def line_gatherer(width: int, index_type: str, several: bool):
    """Return how a block gathers four points, or one.

    ``take_some(elements, first, lines, part, indices, i, j)`` and ``take_one(elements, first, lines, part, i)`` gather
    from lines in shared memory, which begin at the element `first`, and tell whether an index is bad.
    """
    index_bytes, load_index = np.dtype(index_type).itemsize, LOAD_INDEX[index_type]
    _, store = unit_access(width)
    _, store_pair = unit_access(16)
    store_elements = store_four(width)
    resolve, start_of_row = resolver(index_type.startswith("i")), row_finder(several)
    pairs, mask = width == 8, (1 << (8 * width)) - 1 if width < 8 else -1

    @helper
    def take(elements, first, i):
        """Return an element of the line, and 0 for what is out of range."""
        return np.int64(elements[np.uint32(first + max(i, 0))]) & mask if i >= 0 else np.int64(0)

    @helper
    def take_some(elements, first, lines, part, indices, i, j):
        size, bounds, factor, to = lines.size, lines.bounds, lines.factor, part.to
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

    @helper
    def take_one(elements, first, lines, part, i):
        a = resolve(load_index(part.source + i * index_bytes), lines.size, lines.bounds)
        store(part.to + i * width, take(elements, first + start_of_row(lines.factor, i, lines.size), a), 0)
        return a < 0

    return take_some, take_one


@cache
def gather_lines_kernel(width: int, index_type: str, several: bool, threads: int) -> Kernel:
    """Return the kernel that gathers elements of a width: each block of threads has a line or several."""
    index_bytes = np.dtype(index_type).itemsize
    group, step = group_of(width), 2 * threads if width == 8 else threads
    starts_of, load_some = index_groups(index_type, width, threads)
    take_some, take_one = line_gatherer(width, index_type, several)
    head_of, record_first = grouped(width, index_bytes, group), bad_finder(index_type)
    fill, arrive = fill_line(width, threads)
    word, element = shared_type("int32"), shared_type(f"int{8 * width}")

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
        lines = lines_of_block(plan, line * together, together, count_of_lines, factor)
        first = fill(words, elements, 0, data + lines.offset, lines.rows * lines.size)
        count = min(share, lines.points - begin)
        point = lines.first_point + begin
        source, to = index + (lines.at + begin) * index_bytes, packed + point * width
        head = head_of(to, source, count)
        groups = (count - head) // group
        part = Part(source, to)
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
            bad |= take_some(elements, first, lines, part, some, head + i, head + j)
        for s in range(threads - 1 - thread, count - group * groups, threads):  # what the last threads have time for
            bad |= take_one(elements, first, lines, part, s if s < head else s + group * groups)
        if bad:
            record_first(plan, index, record, launch, lines, source, point, count)

    return Kernel(kernel(registers=registers_of(threads))(gather_lines), 11, waits=True, shares=True, threads=threads)
