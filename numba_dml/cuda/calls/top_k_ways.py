"""The ways to compute a top-k, one class for each row of the table in `dispatch.top_k`."""

from __future__ import annotations

from ..._core.devices.arrays import DeviceArray
from ..dispatch.top_k_facts import Facts
from ..dispatch.top_k_numbers import (
    Parts,
    block_choice,
    groups_beside,
    parts_of_blocks,
    parts_of_threads,
    sorting_threads,
)
from ..driver.arrays import scratch
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES
from ..kernels import top_k_best, top_k_block, top_k_columns, top_k_delegates, top_k_short, top_k_sorted, top_k_warp
from ..kernels.top_k_short import SHORT_BLOCK
from ..primitives.top_k import short_rows
from ..primitives.top_k.block_sort import count_bytes
from ..primitives.top_k.keys import follows_rule
from ..primitives.top_k.plan import WARPS
from ..primitives.top_k.short_rows import BESIDE, NARROW, SHIFTED, WIDE
from ..tuning.top_k import Tuning
from .top_k_base import Launch, Way
from .top_k_large import SortByBlocks


class Nothing(Way):
    """There is nothing to select."""

    def start(self, to: Launch) -> None:
        """Launch nothing."""


class ShortLines(Way):
    """A thread has each short line."""

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        self.staging = WIDE if facts.quads else SHIFTED if facts.packed else BESIDE if facts.beside else NARROW
        self.segment = short_rows.segment_of(facts.width, facts.thread_list, facts.n, facts.lines)
        self.room = short_rows.row_bytes(facts.width, facts.thread_list, self.segment, self.staging)

    def start(self, to: Launch) -> None:
        """Launch the kernel."""
        kernel = top_k_short.short_kernel(self.facts.width, self.rule[1], self.facts.thread_list)
        blocks = -(-self.facts.lines // SHORT_BLOCK)
        kernel(*to.where, blocks, *to.tensors, to.plans[0], threads=SHORT_BLOCK, shared=SHORT_BLOCK * self.room)


class LinesByWarps(Way):
    """A warp chooses the best of each line."""

    def start(self, to: Launch) -> None:
        """Launch the kernel."""
        facts = self.facts
        assert facts.warp_sizes
        by_words = follows_rule(*self.kind, self.rule)
        kernel = top_k_warp.warp_kernel(facts.width, self.rule[1], by_words, *facts.warp_sizes)
        kernel(*to.where, self.blocks_of_warps, *to.tensors, to.plans[0])


class Best(Way):
    """Find the best element of each line, or of its parts and then of these."""

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        numbers = self.numbers()
        self.parts, self.share, self.threads = numbers

    def numbers(self) -> Parts:
        """Return the parts of a line."""
        raise NotImplementedError

    def find(self, to: Launch, kernel: Kernel, blocks: int) -> DeviceArray | None:
        """Launch the kernel, and the one for the best elements of parts; return memory that is in use."""
        lines, parts = self.facts.lines, self.parts
        memory = scratch(to.a, 16 * lines * parts) if parts > 1 else None
        arguments = (*to.tensors, to.plans[0], memory.pointer if memory else 0)
        kernel(*to.where, blocks, *arguments, threads=self.threads)
        if memory:
            threads = BLOCK if parts > self.tuning.few_parts else LANES
            top_k_best.best_part_kernel(self.facts.width)(*to.where, lines, *arguments, threads=threads)
        return memory


class BestByBlocks(Best):
    """A block has each part of a line."""

    def numbers(self) -> Parts:
        """Return the parts of a line."""
        return parts_of_blocks(self.facts, self.tuning)

    def start(self, to: Launch) -> DeviceArray | None:
        """Launch the kernels."""
        return self.find(to, top_k_best.best_kernel(*self.kind), self.facts.lines * self.parts)


class BestByThreads(Best):
    """A thread has each part of a line."""

    def numbers(self) -> Parts:
        """Return the parts of a line."""
        return parts_of_threads(self.facts, self.tuning)

    def start(self, to: Launch) -> DeviceArray | None:
        """Launch the kernels."""
        kernel = top_k_best.best_by_threads_kernel(*self.kind)
        return self.find(to, kernel, -(-self.facts.lines * self.parts // BLOCK))


class Ranks(Way):
    """A warp ranks the elements of each line."""

    def start(self, to: Launch) -> None:
        """Launch the kernel."""
        own_count = next(count for count in top_k_sorted.OWN_COUNTS if count * LANES >= self.facts.n)
        kernel = top_k_sorted.rank_kernel(*self.kind, own_count)
        kernel(*to.where, self.blocks_of_warps, *to.tensors, to.plans[0])


class Rivals(Way):
    """Find delegates and their rivals; warps choose by them."""

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        groups = groups_beside(facts, tuning)
        assert groups
        self.groups = groups

    def start(self, to: Launch) -> DeviceArray:
        """Launch the kernels."""
        facts, groups, x = self.facts, self.groups.pitches[0], to.a.pointer
        memory = scratch(to.a, top_k_columns.scratch_bytes(groups, facts.lines, facts.width))
        wide = self.reads_columns(x)
        find = top_k_columns.rival_kernel(*self.kind, wide)
        find(*to.where, self.blocks_of_groups(wide), x, memory.pointer, to.plans[0])
        choose = top_k_columns.beside_kernel(*self.kind)
        shared = WARPS * groups * facts.key_bytes
        choose(*to.where, self.blocks_of_warps, *to.tensors, memory.pointer, to.plans[0], shared=shared)
        return memory


class BlockChoice(Way):
    """A block chooses from each line, or from its delegates."""

    by_delegates = False

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        self.choice = choice = block_choice(facts, tuning, self.by_delegates)
        self.groups, self.room, self.chunk, self.chunks = choice.groups, choice.lists.room, choice.chunk, choice.chunks
        self.plans = max(len(choice.groups.pitches), 1)
        self.method = f"{len(choice.groups.pitches)} levels of delegates"

    def start(self, to: Launch) -> DeviceArray | None:
        """Launch the kernels."""
        memory, delegates, upper = self.find_levels(to)
        facts, choice = self.facts, self.choice
        sort_bytes = count_bytes(choice.threads) if choice.sorts_lists else 0
        top_k_block.choose_kernel(*self.kind, facts.is_long, choice.sorts_lists)(
            *to.where,
            facts.lines,
            *to.tensors,
            delegates,
            upper,
            to.plans[0],
            threads=choice.threads,
            shared=choice.lists.bytes + max(facts.key_bytes * choice.maxima, sort_bytes),
        )
        return memory

    def find_levels(self, to: Launch) -> tuple[DeviceArray | None, int, int]:
        """Find the delegates of all levels, if there are any; return their memory, and the addresses of two levels."""
        facts, groups = self.facts, self.groups
        if not groups.pitches:
            return None, 0, 0
        counts = [facts.lines * pitch for pitch in groups.pitches]
        memory = scratch(to.a, sum(counts) * facts.key_bytes)
        delegates = memory.pointer
        upper = delegates + counts[0] * facts.key_bytes
        self.find_delegates(to, delegates)
        if len(counts) == 2:
            kernel = top_k_delegates.delegate_kernel(facts.key_bytes, False)
            kernel(*to.where, -(-facts.lines * groups.parts[1] // WARPS), delegates, upper, to.plans[1])
        return memory, delegates, upper


class DelegateChoice(BlockChoice):
    """Find delegates; a block chooses from the uppermost of each line."""

    by_delegates = True


class SortOfLines(Way):
    """A block sorts each line."""

    def start(self, to: Launch) -> None:
        """Launch the kernel."""
        facts = self.facts
        threads = sorting_threads(facts, self.tuning)
        kernel = top_k_sorted.sort_kernel(*self.kind)
        shared = top_k_sorted.sort_bytes(facts.width, facts.n, threads)
        kernel(*to.where, facts.lines, *to.tensors, to.plans[0], threads=threads, shared=shared)


#: By the name of the row.
WAYS: dict[str, type[Way]] = {
    "nothing": Nothing,
    "best of lines by threads": BestByThreads,
    "short lines": ShortLines,
    "best": BestByBlocks,
    "lines by warps": LinesByWarps,
    "ranks": Ranks,
    "lines beside each other": Rivals,
    "levels of delegates": DelegateChoice,
    "block choice": BlockChoice,
    "sort of lines": SortOfLines,
    "sort": SortByBlocks,
}
