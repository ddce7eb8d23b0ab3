"""A top-k with a large k: how many blocks, which memory, and which kernels in turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..dispatch.top_k_facts import Facts
from ..dispatch.top_k_numbers import LARGEST_GROUP, divide
from ..driver.arrays import scratch
from ..kernels import top_k_large
from ..primitives.device_sort import Sort
from ..primitives.fill import set_words
from ..tuning.top_k import Tuning
from .top_k_ways import Launch, Way


def group_size(facts: Facts, tuning: Tuning) -> int:
    """Return the size of groups that makes a choice of k elements of every line cheap, or 0: without delegates.

    The cost is in bytes that are read. Elements are read twice, and half of all times once more; so are delegates, and
    the elements of k groups.
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


def most_listed(facts: Facts, tuning: Tuning) -> int:
    """Return how many elements of a line may be listed where k are wanted."""
    return facts.k + (facts.k >> tuning.spare_shift) + min(facts.k, tuning.spare_of_all // facts.lines) + 1


def parts_of(lines: int, line_bytes: int, tuning: Tuning) -> int:
    """Return into how many parts lines are cut: so that all blocks run at once, or that there are many more."""
    busy = tuning.busy_blocks
    parts = busy // lines if 4 * lines <= busy else -(-4 * busy // lines)
    return max(min(parts, line_bytes // tuning.sort_part_bytes), 1)


class Level(NamedTuple):
    """Where one of the two borders is looked for, that of the groups or that of the elements."""

    #: The address of the first element, or delegate.
    x: int
    #: What the kernels are compiled for: see `Way.kind`; and whether positions have 64 bits.
    kind: tuple[int, int, bool]
    plan: int
    #: The address of the border, and of the border of the groups, if these are known.
    border: int
    upper: int
    #: The address of the list of groups to look into, and how many fit there.
    groups: int
    group_room: int
    #: Parts of a line: each has a block.
    parts: int
    #: The address of the list of what reaches the border, and how many fit there.
    pairs: int
    room: int


class Memory(NamedTuple):
    """The parts of a sort's memory: how many bytes each has, or where it is."""

    #: What the sort counts.
    sorting: int
    #: Zeros: the one group of a line without delegates.
    zeros: int
    #: The border of the elements, and that of the groups.
    borders: int
    upper: int
    #: Counts of all digits; up to here all must be zeros.
    counts: int
    #: Elements that are listed, with their keys; and the same, for every other pass of the sort.
    pairs: int
    other_pairs: int
    #: Counts of the digits by part of a line, and what each part lists.
    table: int
    tallies: int
    delegates: int
    #: Groups that are listed.
    groups: int


class SortByBlocks(Way):
    """Sort what can be among the best of each line: all blocks share each step."""

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        lines, n, k, width = facts.lines, facts.n, facts.k, facts.width
        self.is_long = width == 8 or n >= tuning.sort_long_line
        listed = most_listed(facts, tuning)
        self.sorts_all = listed >= n
        self.sort = Sort(lines, n if self.sorts_all else listed, self.is_long, 8 * width)
        self.line_parts = parts_of(lines, facts.line_bytes, tuning)
        self.pitch = self.group_parts = self.group_room = 0
        group = group_size(facts, tuning)
        if group:
            self.groups, self.plans = divide(facts, tuning, group), 2
            self.pitch, self.group_room = self.groups.pitch, k + (k >> 3) + 1
            self.line_parts = parts_of(lines, self.group_room * group * width, tuning)
            self.group_parts = parts_of(lines, self.pitch * facts.key_bytes, tuning)

    def start(self, to: Launch) -> DeviceArray:
        """Launch the kernels; return memory that is in use until all is done."""
        facts, sort = self.facts, self.sort
        scratch_memory, memory = self.allocate(to.a)
        set_words(*to.where, memory.sorting, memory.pairs - memory.sorting, 0)
        kind, upper, groups = (*self.kind, self.is_long), 0, memory.zeros
        if self.pitch:
            upper, groups = memory.upper, memory.groups
            self.find_delegates(to, memory.delegates)
            key_kind, room, no_groups = (facts.key_bytes, 0, self.is_long), self.group_room, (0, memory.zeros, 0)
            self.list_level(
                to,
                memory,
                Level(
                    memory.delegates, key_kind, to.plans[1], upper, *no_groups, self.group_parts, memory.groups, room
                ),
            )
        looked_into, parts = (memory.borders, upper, groups, self.group_room), self.line_parts
        level = Level(to.a.pointer, kind, to.plans[0], *looked_into, parts, memory.pairs, sort.room)
        self.list_level(to, memory, level, sorted_next=True)
        args = (*to.tensors, to.plans[0], memory.borders)
        sort.move(*to.where, memory.sorting, memory.pairs, top_k_large.write_access(*kind), args)
        return scratch_memory

    def allocate(self, a: DeviceArray) -> tuple[DeviceArray, Memory]:
        """Return memory, and the addresses of its parts; what comes before the pairs must be set to zeros."""
        lines, sort, digits = self.facts.lines, self.sort, 8 * top_k_large.DIGITS * self.facts.lines
        most_parts = max(self.line_parts, self.group_parts)
        sizes = Memory(
            sorting=sort.bytes,
            zeros=16,
            borders=8 * top_k_large.BORDER * lines,
            upper=8 * top_k_large.BORDER * lines if self.pitch else 0,
            counts=digits,
            pairs=sort.pairs_bytes,
            other_pairs=sort.pairs_bytes,
            table=digits * most_parts if most_parts > 1 else 0,
            tallies=8 * lines * most_parts,
            delegates=lines * self.pitch * self.facts.key_bytes,
            groups=lines * self.group_room * sort.pair_bytes,
        )
        *offsets, end = np.cumsum([0, *(-(-size // 16) * 16 for size in sizes)]).tolist()
        memory = scratch(a, end)
        return memory, Memory(*(memory.pointer + offset for offset in offsets))

    def list_level(self, to: Launch, memory: Memory, level: Level, sorted_next: bool = False) -> None:
        """Find a border, and list what reaches it; `sorted_next`: it is sorted then, and its digits are counted."""
        blocks = self.facts.lines * level.parts
        sorts_all = self.sorts_all and sorted_next
        where = (level.plan, level.upper, level.groups, level.group_room, level.parts)
        tables = (memory.table, memory.tallies)
        for turn in range(0 if sorts_all else top_k_large.rounds(level.kind[0])):
            kernel = top_k_large.count_kernel(*level.kind)
            kernel(*to.where, blocks, level.x, level.border, memory.counts, *tables, *where, level.room, int(turn == 0))
        heads, starts = (self.sort.heads(memory.sorting), self.sort.starts(memory.sorting)) if sorted_next else (0, 0)
        found = (*tables, level.pairs, level.room, *where, heads, starts, int(sorts_all))
        top_k_large.list_kernel(*level.kind)(*to.where, blocks, level.x, level.border, *found)
