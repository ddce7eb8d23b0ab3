"""The call of a top-k with a large k: how many blocks, which memory, and which kernels in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..driver.arrays import scratch
from ..driver.numba import LANES, SIMULATED
from ..kernels import top_k_large
from ..primitives.device_sort import Sort
from ..primitives.fill import set_words
from ..primitives.top_k.keys import key_type

#: From so many elements on, positions in a line have 64 bits: below, those of the last group have 32 as well.
LONG_LINE = (1 << 31) - (1 << 16)
#: Blocks that run at the same time: four on each of 132 multiprocessors.
BUSY_BLOCKS = 4 if SIMULATED else 4 * 132
#: A part of a line has at least so many bytes: each has 16 KiB of counts to write.
LEAST_PART = 256 if SIMULATED else 1 << 15
#: More elements than wanted may be listed: a share of k, and so many of all lines together.
MORE, MORE_OF_ALL = 5, 8 if SIMULATED else 1 << 18
#: What delegates cost, in bytes that could be streamed: six launches, about 15 µs.
DELEGATES_COST = 0 if SIMULATED else 60_000_000
#: The most elements of a group, in units of the least: `delegate_kernel` finds no larger ones.
MOST_GROUP = 4 * LANES
#: How much longer it takes to find delegates of groups that are smaller than what a warp reads at once: of 100M
#: float32, the 10,000 best take 0.229 ms with groups of 128, 0.218 with groups of 512.
NARROW_COST = 1.12
#: What reads single elements of neighbouring lines fetches so many bytes each.
SECTOR = 32


def group_size(lines: int, size: int, k: int, width: int, packed: bool) -> int:
    """Return the size of groups that makes a choice of k elements of every line cheap, or 0: without delegates.

    Elements are read twice, and half of all times once more. So are delegates, and the elements of k groups.
    """
    apart = 1 if packed else max(SECTOR // width, 1)
    best, cost = 0, 2.5 * lines * size * width * apart
    for bits in range(MOST_GROUP.bit_length()):
        group = 16 // width << bits
        delegates = -(-size // group)
        looked_at = delegates * np.dtype(key_type(width)).itemsize + k * group * width * apart
        found = size * width * (1 if bits >= MOST_GROUP.bit_length() - 1 else NARROW_COST)
        new = DELEGATES_COST + lines * (found + 2.5 * looked_at)
        if delegates >= 2 * k and new < cost:
            best, cost = group, new
    return best


def more_than(k: int, lines: int) -> int:
    """Return how many elements of a line may be listed where k are wanted."""
    return k + (k >> MORE) + min(k, MORE_OF_ALL // lines) + 1


def parts_of(lines: int, line_bytes: int) -> int:
    """Return into how many parts lines are cut: so that all blocks run at once, or that there are many more."""
    parts = BUSY_BLOCKS // lines if 4 * lines <= BUSY_BLOCKS else -(-4 * BUSY_BLOCKS // lines)
    return max(min(parts, line_bytes // LEAST_PART), 1)


@dataclass(frozen=True)
class Level:
    """What is looked at for one of the two borders, that of the groups or that of the elements, and its memory."""

    x: int
    width: int
    is_float: bool
    plan: int
    border: int
    upper: int
    groups: int
    group_room: int
    parts: int
    pairs: int
    room: int


class LargeK:
    """A top-k of one layout, for a large k."""

    def __init__(self, lines: int, size: int, k: int, width: int, is_float: bool, group: int, pitch: int) -> None:
        self.lines, self.size, self.k, self.width, self.is_float = lines, size, k, width, is_float
        self.is_long = width == 8 or size >= LONG_LINE
        self.key_bytes = np.dtype(key_type(width)).itemsize
        self.pitch = pitch
        room = more_than(k, lines)
        self.everything = room >= size
        self.sort = Sort(lines, size if self.everything else room, self.is_long, 8 * width)
        self.parts = parts_of(lines, size * width)
        self.group_parts, self.group_room = 0, 0
        if group:
            self.group_room = k + (k >> 3) + 1
            self.parts = parts_of(lines, self.group_room * group * width)
            self.group_parts = parts_of(lines, pitch * self.key_bytes)

    def __call__(
        self,
        device: int,
        stream: int,
        plans: list[int],
        a: DeviceArray,
        values: DeviceArray,
        indices: DeviceArray,
        find: Callable[[int], None],
    ) -> DeviceArray:
        """Run the kernels; `find` those that find delegates. Return memory that is in use until all is done."""
        lines, sort = self.lines, self.sort
        levels = 2 if self.pitch else 1
        most_parts = max(self.parts, self.group_parts)
        sizes = (
            sort.bytes,
            16,  # zeros: the one group of a line
            levels * 8 * top_k_large.BORDER * lines,
            8 * top_k_large.DIGITS * lines,
            # From here on there need not be zeros.
            sort.pairs_bytes,
            sort.pairs_bytes,
            8 * top_k_large.DIGITS * lines * (most_parts if most_parts > 1 else 0),
            8 * lines * most_parts,
            lines * self.pitch * self.key_bytes,
            lines * self.group_room * sort.pair_bytes,
        )
        offsets = np.cumsum([0, *(-(-size // 16) * 16 for size in sizes)]).tolist()
        memory = scratch(a, offsets[-1])
        sorting, zeros, border, counts, pairs, _, table, tallies, delegates, groups = (
            memory.pointer + offset for offset in offsets[:-1]
        )
        set_words(device, stream, sorting, offsets[4], 0)
        level = Level(a.pointer, self.width, self.is_float, plans[0], border, 0, zeros, 0, self.parts, pairs, sort.room)
        if self.pitch:
            find(delegates)
            upper = border + 8 * top_k_large.BORDER * lines
            over = Level(
                delegates,
                self.key_bytes,
                False,
                plans[1],
                upper,
                0,
                zeros,
                0,
                self.group_parts,
                groups,
                self.group_room,
            )
            self.list(device, stream, over, counts, table, tallies, 0)
            level = Level(
                a.pointer,
                self.width,
                self.is_float,
                plans[0],
                border,
                upper,
                groups,
                self.group_room,
                self.parts,
                pairs,
                sort.room,
            )
        self.list(device, stream, level, counts, table, tallies, sorting)
        write = top_k_large.write_access(self.width, self.is_float, self.is_long)
        args = (a.pointer, values.pointer, indices.pointer, plans[0], border)
        sort.move(device, stream, sorting, pairs, write, args)
        return memory

    def list(self, device: int, stream: int, level: Level, counts: int, table: int, tallies: int, sorting: int) -> None:
        """Find a border, and list what reaches it; `sorting` is the memory of a sort, if there is one."""
        kind, parts = (level.width, level.is_float, self.is_long), level.parts
        blocks = self.lines * parts
        everything = self.everything and sorting != 0
        where = (level.plan, level.upper, level.groups, level.group_room, parts)
        for turn in range(0 if everything else top_k_large.rounds(level.width)):
            first = int(turn == 0)
            top_k_large.count_kernel(*kind)(
                device, stream, blocks, level.x, level.border, counts, table, tallies, *where, level.room, first
            )
        heads, starts = (self.sort.heads(sorting), self.sort.starts(sorting)) if sorting else (0, 0)
        top_k_large.list_kernel(*kind)(
            device,
            stream,
            blocks,
            level.x,
            level.border,
            table,
            tallies,
            level.pairs,
            level.room,
            *where,
            heads,
            starts,
            int(everything),
        )
