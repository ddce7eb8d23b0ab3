"""The ways to compute a top-k, one class for each row of the table in `dispatch.top_k`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...._core.devices.arrays import DeviceArray
from ...dispatch.top_k_facts import (
    LARGEST_GROUP,
    Facts,
    Groups,
    block_lists,
    delegate_group,
    divide,
    groups_beside,
    line_units,
    selecting_threads,
    sorted_by_lane,
    widened,
)
from ...driver.arrays import scratch
from ...driver.launch import Kernel
from ...driver.numba import BLOCK, LANES, WARPS
from ...kernels import top_k_best, top_k_block, top_k_columns, top_k_large, top_k_select, top_k_short, top_k_warp
from ...primitives.device_sort import Sort
from ...primitives.fill import set_words
from ...primitives.top_k import staging
from ...primitives.top_k.block_sort import ITEMS, count_bytes
from ...primitives.top_k.block_units import AT_ONCE
from ...primitives.top_k.large_tiles import BORDER, DIGITS
from ...primitives.top_k.plan import LIST_FIELDS, MOST_THREADS
from ...primitives.top_k.sizes import SIZES
from ...tuning.top_k import Tuning


class Launch(NamedTuple):
    """Where a top-k runs, and on what."""

    where: tuple[int, int]  #: The device and the stream.
    plans: list[int]  #: Of the elements, and of their delegates.
    a: DeviceArray
    tensors: tuple[int, int, int]  #: The addresses of the input, the values and the indices.


class Way:
    """One way to compute a top-k: the numbers of its kernels, for the plan, and how to launch them.

    Called, it launches the kernels, and returns memory that is in use until they are done, if there is any. This base
    class launches nothing: it is the way of calls with nothing to select.
    """

    #: How many plans there are: for the elements, and for their delegates, if these are a line of their own.
    plans = 1
    groups: Groups | None = None
    #: Parts of a line, and what each has: see `PARTS` and `ROUNDS` of a plan.
    parts = share = 1
    #: Bytes or elements that a thread's row or a block's lists hold, or the binary logarithm of the lanes that share a
    #: part; see `ROOM` of a plan.
    room = 0
    #: Elements of a segment of a short line, and how it comes into shared memory.
    segment = staging = 0
    #: Units of a chunk, and chunks of a line.
    chunk, chunks = 1, 0
    #: Whether its kernels write no values if their address is 0.
    can_omit_values = False

    def __init__(self, facts: Facts, tuning: Tuning, infinity: int) -> None:
        self.facts, self.tuning = facts, tuning
        #: What kernels are compiled for: the bytes of an element, and the bits of infinity, if it is a float.
        self.kind = facts.width, infinity

    def listing(self, of_delegates: bool) -> tuple[int, ...]:
        """Return the numbers of a plan from `LIST_PARTS` on."""
        return (0,) * LIST_FIELDS

    def __call__(self, to: Launch) -> DeviceArray | None:
        return None

    @property
    def blocks_of_warps(self) -> int:
        """Return how many blocks there are if each line has a warp."""
        return -(-self.facts.lines // WARPS)

    def find_delegates(self, to: Launch, delegates: int, has_rivals: bool = False) -> None:
        """Find the delegates of the elements."""
        facts, groups, x = self.facts, self.groups, to.a.pointer
        assert groups
        if facts.packed and not has_rivals:
            blocks = -(-facts.lines * groups.parts // WARPS)
            top_k_block.delegate_kernel(*self.kind)(*to.where, blocks, x, delegates, to.plans[0])
        else:  # a thread reads 16 bytes of neighbouring lines at once, if that is possible
            wide = facts.columns and x % 16 == 0
            blocks = -(-facts.lines * groups.pitch // ((facts.of_unit if wide else 1) * BLOCK))
            top_k_columns.column_kernel(*self.kind, wide, has_rivals)(*to.where, blocks, x, delegates, to.plans[0])


class ShortLines(Way):
    """A thread has each short line."""

    can_omit_values = True

    def __init__(self, facts: Facts, tuning: Tuning, infinity: int) -> None:
        super().__init__(facts, tuning, infinity)
        self.staging = staging.ALIGNED if facts.quads else staging.SHIFTED if facts.packed else staging.SINGLE
        self.segment = staging.segment_of(facts.width, facts.thread_list, facts.n, facts.lines)
        self.room = staging.row_bytes(facts.width, facts.thread_list, self.segment)

    def __call__(self, to: Launch) -> None:
        kernel = top_k_short.short_kernel(*self.kind, self.facts.thread_list)
        threads = SIZES.short_block
        blocks = -(-self.facts.lines // threads)
        kernel(*to.where, blocks, *to.tensors, to.plans[0], threads=threads, shared=threads * self.room)


class LinesByWarps(Way):
    """A warp chooses the best of each line."""

    def __call__(self, to: Launch) -> None:
        kernel = top_k_warp.warp_kernel(*self.kind, self.facts.warp_units)
        kernel(*to.where, self.blocks_of_warps, *to.tensors, to.plans[0])


class Best(Way):
    """Find the best element of each line, or of its parts and then of these: a block has each part of a line."""

    can_omit_values = True

    def __init__(self, facts: Facts, tuning: Tuning, infinity: int) -> None:
        super().__init__(facts, tuning, infinity)
        self.parts, self.share, self.threads = self.divided()

    def divided(self) -> tuple[int, int, int]:
        """Return how many parts a line has, several if it is long, units of 16 bytes of each, and a block's threads."""
        facts, tuning = self.facts, self.tuning
        units = facts.line_bytes // 16 + 2  # at both ends a unit may lie in the line in part
        count = 1
        if facts.line_bytes >= tuning.parted_bytes:
            count = max(min(units // (tuning.best_units * BLOCK), tuning.part_blocks // facts.lines), 1)
        if count > 1:
            threads = BLOCK
        else:
            threads = LANES
            while threads < tuning.best_threads and 2 * tuning.best_rounds * tuning.best_units * threads <= units:
                threads *= 2
            threads = widened(facts, tuning, threads, units, tuning.best_units)
        at_once = tuning.best_units * threads
        share = -(-units // (count * at_once)) * at_once
        return -(-units // share), share, threads

    def kernel(self) -> tuple[Kernel, int]:
        """Return the kernel for the parts, and how many blocks it has."""
        return top_k_best.best_kernel(*self.kind), self.facts.lines * self.parts

    def __call__(self, to: Launch) -> DeviceArray | None:
        lines, parts, (kernel, blocks) = self.facts.lines, self.parts, self.kernel()
        memory = scratch(to.a, 16 * lines * parts) if parts > 1 else None
        arguments = (*to.tensors, to.plans[0], memory.pointer if memory else 0)
        kernel(*to.where, blocks, *arguments, threads=self.threads)
        if memory:
            if parts <= self.tuning.few_parts:
                top_k_best.best_of_few_parts_kernel(self.facts.width)(*to.where, -(-lines // BLOCK), *arguments)
            else:
                threads = min(MOST_THREADS, max(LANES, 1 << parts.bit_length() - 1))
                top_k_best.best_part_kernel(self.facts.width)(*to.where, lines, *arguments, threads=threads)
        return memory


class BestByLanes(Best):
    """The same: lanes of a warp share each part of a line; one has it if lines are short, or many beside each other."""

    def divided(self) -> tuple[int, int, int]:
        """Return how many parts a line has, elements of each, and a block's threads."""
        facts, tuning = self.facts, self.tuning
        while 2 << self.room <= LANES and facts.n >= 2 * tuning.thread_elements << self.room:
            if facts.beside and facts.lines << self.room >= tuning.beside_lanes:
                break
            self.room += 1
        threads, least = facts.lines << self.room, tuning.thread_elements << self.room
        count = max(min(tuning.part_threads // threads, facts.n // least), 1)
        share = -(-facts.n // count)
        return -(-facts.n // share), share, BLOCK

    def kernel(self) -> tuple[Kernel, int]:
        threads = self.facts.lines * self.parts << self.room
        return top_k_best.best_by_lanes_kernel(*self.kind), -(-threads // BLOCK)


class SelectionByWarps(Way):
    """A warp selects from each line."""

    def __call__(self, to: Launch) -> None:
        kernel = top_k_select.warp_select_kernel(*self.kind, sorted_by_lane(self.facts))
        kernel(*to.where, self.blocks_of_warps, *to.tensors, to.plans[0])


class Rivals(Way):
    """Find delegates and their rivals; warps choose by them."""

    def __init__(self, facts: Facts, tuning: Tuning, infinity: int) -> None:
        super().__init__(facts, tuning, infinity)
        self.groups = groups_beside(facts, tuning)

    def __call__(self, to: Launch) -> DeviceArray:
        facts, groups = self.facts, self.groups
        assert groups
        memory = scratch(to.a, top_k_columns.scratch_bytes(groups.pitch, facts.lines, facts.width))
        self.find_delegates(to, memory.pointer, has_rivals=True)
        choose = top_k_columns.beside_kernel(*self.kind)
        shared = WARPS * groups.pitch * facts.key_bytes
        choose(*to.where, self.blocks_of_warps, *to.tensors, memory.pointer, to.plans[0], shared=shared)
        return memory


class BlockChoice(Way):
    """A block chooses from each line, or from its delegates."""

    by_delegates = False

    def __init__(self, facts: Facts, tuning: Tuning, infinity: int) -> None:
        super().__init__(facts, tuning, infinity)
        lists = block_lists(facts, tuning)
        size = delegate_group(facts, tuning) if self.by_delegates else 0
        self.groups = divide(facts, tuning, size) if size else None
        units = self.groups.pitch * facts.key_bytes // 16 if self.groups else line_units(facts)
        read_again = facts.k * size // facts.of_unit
        threads = widened(facts, tuning, tuning.least_threads, units + read_again, tuning.units_of_thread)
        # Chunks are small enough that there are several for each of k, if their maxima fit.
        chunk, most_maxima = AT_ONCE, lists.most_units // AT_ONCE
        while chunk > 1 and units < lists.chunks_of_one * chunk * facts.k and 2 * units < most_maxima * chunk:
            chunk >>= 1
        # Blocks with long lists, and those of which a multiprocessor holds few, have more threads.
        shared = lists.bytes + facts.key_bytes * units // chunk
        while threads < MOST_THREADS and (
            threads * (tuning.all_shared // shared) < tuning.busy_multiprocessor or ITEMS * threads < lists.listed
        ):
            threads *= 2
        rows, rest = divmod(units, chunk * threads)
        turns = -(-(units + 1) // (AT_ONCE * threads))
        maxima = turns * AT_ONCE // chunk * threads
        self.room, self.threads, self.chunk = lists.room, threads, chunk
        self.shared = lists.bytes + max(facts.key_bytes * maxima, count_bytes(threads))
        self.chunks = rows * threads + min(-(-rest // min(chunk, 2)), threads)

    def __call__(self, to: Launch) -> DeviceArray | None:
        facts, memory, delegates = self.facts, None, 0
        if self.groups:
            memory = scratch(to.a, facts.lines * self.groups.pitch * facts.key_bytes)
            delegates = memory.pointer
            self.find_delegates(to, delegates)
        kernel = top_k_block.choose_kernel(*self.kind)
        arguments = (*to.tensors, delegates, to.plans[0])
        kernel(*to.where, facts.lines, *arguments, threads=self.threads, shared=self.shared)
        return memory


class DelegateChoice(BlockChoice):
    """Find delegates; a block chooses from those of each line."""

    by_delegates = True


class Selection(Way):
    """A block selects from each line."""

    sorts_all = False

    def __init__(self, facts: Facts, tuning: Tuning, infinity: int) -> None:
        super().__init__(facts, tuning, infinity)
        self.room = facts.n if self.sorts_all else facts.k

    def __call__(self, to: Launch) -> None:
        facts, threads = self.facts, selecting_threads(self.facts, self.tuning, self.room)
        kernel = top_k_select.block_select_kernel(*self.kind, facts.is_sorted)
        shared = top_k_select.select_bytes(self.room, threads, facts.is_sorted)
        kernel(*to.where, facts.lines, *to.tensors, to.plans[0], threads=threads, shared=shared)


class SortOfLines(Selection):
    """A block sorts each line."""

    sorts_all = True


def group_size(facts: Facts, tuning: Tuning) -> int:
    """Return the size of groups that makes a choice of k elements of every line cheap, or 0: without delegates.

    The cost is in bytes that are read: without delegates all elements 2.5 times, on average; with them all elements
    once, and the delegates and the elements of k groups 2.5 times.
    """
    lines, n, k, width = facts.lines, facts.n, facts.k, facts.width
    apart = 1 if facts.packed else max(tuning.sector_bytes // width, 1)
    best, cost = 0, 2.5 * lines * n * width * apart
    for bits in range(LARGEST_GROUP.bit_length()):
        group = facts.of_unit << bits
        delegates = -(-n // group)
        looked_at = delegates * facts.key_bytes + k * group * width * apart
        found = n * width * (1 if group >= LARGEST_GROUP * facts.of_unit else tuning.narrow_factor)
        new = tuning.delegates_bytes + lines * (found + 2.5 * looked_at)
        if delegates >= 2 * k and new < cost:
            best, cost = group, new
    return best


def parts_of(lines: int, line_bytes: int, tuning: Tuning) -> int:
    """Return into how many parts lines are cut: so that all waves of blocks take the least time together."""
    most = max(line_bytes // tuning.sort_part_bytes, 1)

    def cost(parts: int) -> float:
        waves = -(-lines * parts // tuning.busy_blocks)
        return waves * (line_bytes / parts + tuning.sort_block_bytes)

    return min((min(max(waves * tuning.busy_blocks // lines, 1), most) for waves in (1, 2, 3, 4)), key=cost)


class Memory(NamedTuple):
    """The parts of a sort's memory: how many bytes each has, or where it begins."""

    sorting: int  #: what the sort counts
    zeros: int  #: the one group of a line without delegates
    borders: int  #: the border of the elements
    upper: int  #: that of the groups
    counts: int  #: of all digits; up to here all must be zeros
    pairs: int  #: elements that are listed, with their keys
    other_pairs: int  #: the same, for every other pass of the sort
    table: int  #: counts of the digits by part of a line
    tallies: int  #: what each part lists
    delegates: int
    groups: int  #: those that are listed


class SortByBlocks(Way):
    """Find what can be among the best of each line, and sort it; all blocks share each step."""

    def __init__(self, facts: Facts, tuning: Tuning, infinity: int) -> None:
        super().__init__(facts, tuning, infinity)
        lines, n, k, width = facts.lines, facts.n, facts.k, facts.width
        self.is_long = width == 8 or n >= tuning.sort_long_line
        self.is_sorted = facts.is_sorted or n > tuning.listed_of_k * k
        spare = (k >> tuning.spare_shift) + min(k, tuning.spare_of_all // lines) + 1
        listed = k + spare if self.is_sorted else k
        self.sorts_all = listed >= n
        self.sort = Sort(lines, n if self.sorts_all else listed, self.is_long, 8 * width)
        self.line_parts, self.group_parts, self.group_room = parts_of(lines, facts.line_bytes, tuning), 0, 0
        group = group_size(facts, tuning)
        if group:
            self.groups, self.plans, self.group_room = divide(facts, tuning, group), 2, k + (k >> 3) + 1
            self.line_parts = parts_of(lines, self.group_room * group * width, tuning)
            self.group_parts = parts_of(lines, self.groups.pitch * facts.key_bytes, tuning)
        self.at, self.bytes = self.offsets()

    def offsets(self) -> tuple[Memory, int]:
        """Return where the parts of the memory begin, and how many bytes it has."""
        lines, sort, digits = self.facts.lines, self.sort, 8 * DIGITS * self.facts.lines
        most_parts = max(self.line_parts, self.group_parts)
        sizes = Memory(
            sorting=sort.bytes if self.is_sorted else 0,
            zeros=16,
            borders=8 * BORDER * lines,
            upper=8 * BORDER * lines if self.groups else 0,
            counts=digits,
            pairs=sort.pairs_bytes if self.is_sorted else 0,
            other_pairs=sort.pairs_bytes if self.is_sorted else 0,
            table=digits * most_parts if most_parts > 1 else 0,
            tallies=8 * lines * most_parts,
            delegates=lines * self.groups.pitch * self.facts.key_bytes if self.groups else 0,
            groups=lines * self.group_room * sort.pair_bytes,
        )
        *offsets, end = np.cumsum([0, *(-(-size // 16) * 16 for size in sizes)]).tolist()
        return Memory(*offsets), end

    def listing(self, of_delegates: bool) -> tuple[int, ...]:
        at, tables = self.at, (self.at.counts, self.at.table, self.at.tallies)
        if of_delegates:
            return self.group_parts, self.group_room, 0, at.upper, 0, at.zeros, *tables, at.groups, 0, 0
        upper, groups = (at.upper, at.groups) if self.groups else (0, at.zeros)
        if not self.is_sorted:
            return self.line_parts, self.facts.k, self.group_room, at.borders, upper, groups, *tables, 0, 0, 0
        sort = at.pairs, self.sort.heads(at.sorting), self.sort.starts(at.sorting)
        return self.line_parts, self.sort.room, self.group_room, at.borders, upper, groups, *tables, *sort

    def __call__(self, to: Launch) -> DeviceArray:
        memory, at = scratch(to.a, self.bytes), self.at
        base = memory.pointer
        set_words(*to.where, base + at.sorting, at.pairs - at.sorting, 0)
        if self.groups:
            self.find_delegates(to, base + at.delegates)
            self.find_and_list(to, base, of_delegates=True)
        self.find_and_list(to, base, of_delegates=False)
        if self.is_sorted:
            write = top_k_large.write_access(*self.kind, self.is_long)
            args = (*to.tensors, to.plans[0], base + at.borders)
            self.sort.move(*to.where, base + at.sorting, base + at.pairs, write, args)
        return memory

    def find_and_list(self, to: Launch, base: int, of_delegates: bool) -> None:
        """Find a border, and list what reaches it, of elements or of delegates; or list all elements."""
        kind, parts, source = (*self.kind, self.is_long), self.line_parts, to.a.pointer
        if of_delegates:
            kind, parts, source = (self.facts.key_bytes, 0, self.is_long), self.group_parts, base + self.at.delegates
        everything, is_result = self.sorts_all and not of_delegates, not (of_delegates or self.is_sorted)
        blocks, args = self.facts.lines * parts, (source, base, to.plans[of_delegates])
        for turn in range(0 if everything else top_k_large.rounds(kind[0])):
            top_k_large.count_kernel(*kind)(*to.where, blocks, *args, int(turn == 0))
        list_them = top_k_large.list_kernel(*kind, is_result)
        list_them(*to.where, blocks, *args, int(everything), *to.tensors[1:])


#: By the name of the row.
WAYS: dict[str, type[Way]] = {
    "nothing": Way,
    "best by lanes": BestByLanes,
    "short lines": ShortLines,
    "best": Best,
    "selection by warps": SelectionByWarps,
    "lines by warps": LinesByWarps,
    "lines beside each other": Rivals,
    "selection": Selection,
    "delegates": DelegateChoice,
    "block choice": BlockChoice,
    "sort of lines": SortOfLines,
    "sort": SortByBlocks,
}
