"""The ways to compute a top-k, one class for each row of the table in `dispatch.top_k`; `top_k_large` has the last."""

from __future__ import annotations

from typing import NamedTuple

from ..._core.devices.arrays import DeviceArray
from ..dispatch.top_k_facts import Facts
from ..dispatch.top_k_numbers import (
    Groups,
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
from ..primitives.top_k import staging
from ..primitives.top_k.plan import WARPS
from ..tuning.top_k import Tuning


class Launch(NamedTuple):
    """Where a top-k runs, its plans, of elements and of delegates, and its arrays."""

    device: int
    stream: int
    plans: list[int]
    a: DeviceArray
    values: DeviceArray
    indices: DeviceArray

    @property
    def where(self) -> tuple[int, int]:
        """Return the device and the stream."""
        return self.device, self.stream

    @property
    def tensors(self) -> tuple[int, int, int]:
        """Return the addresses of the arrays."""
        return self.a.pointer, self.values.pointer, self.indices.pointer


class Way:
    """One way to compute a top-k: the numbers of its kernels, for the plan, and how to launch them.

    By itself it is the way if there is nothing to select.
    """

    #: How many plans there are: for the elements, and for their delegates, if these are a line of their own.
    plans = 1
    groups: Groups | None = None
    #: Parts of a line, and what each has: see `PARTS` and `ROUNDS` of a plan.
    parts = share = 1
    #: Bytes or elements that a thread's row or a block's lists hold.
    room = 0
    #: Elements of a segment of a short line, and how it comes into shared memory.
    segment = staging = 0
    #: Units of a chunk, and chunks of a line.
    chunk, chunks = 1, 0

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        self.facts, self.tuning, self.rule = facts, tuning, rule
        #: What kernels are compiled for: the bytes of an element, and the bits of infinity, if it is a float.
        self.kind = facts.width, rule[1]

    def start(self, to: Launch) -> DeviceArray | None:
        """Launch the kernels; return memory that is in use until they are done."""
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
            top_k_delegates.delegate_kernel(*self.kind)(*to.where, blocks, x, delegates, to.plans[0])
        else:  # a thread reads 16 bytes of neighbouring lines at once, if that is possible
            wide = facts.columns and x % 16 == 0
            blocks = -(-facts.lines * groups.pitch // ((facts.of_unit if wide else 1) * BLOCK))
            top_k_columns.column_kernel(*self.kind, wide, has_rivals)(*to.where, blocks, x, delegates, to.plans[0])


class ShortLines(Way):
    """A thread has each short line."""

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        self.staging = staging.ALIGNED if facts.quads else staging.SHIFTED if facts.packed else staging.SINGLE
        self.segment = staging.segment_of(facts.width, facts.thread_list, facts.n, facts.lines)
        self.room = staging.row_bytes(facts.width, facts.thread_list, self.segment)

    def start(self, to: Launch) -> None:
        """Launch the kernel."""
        kernel = top_k_short.short_kernel(*self.kind, self.facts.thread_list)
        blocks = -(-self.facts.lines // SHORT_BLOCK)
        kernel(*to.where, blocks, *to.tensors, to.plans[0], threads=SHORT_BLOCK, shared=SHORT_BLOCK * self.room)


class LinesByWarps(Way):
    """A warp chooses the best of each line."""

    def start(self, to: Launch) -> None:
        """Launch the kernel."""
        sizes = self.facts.warp_sizes
        assert sizes
        top_k_warp.warp_kernel(*self.kind, *sizes)(*to.where, self.blocks_of_warps, *to.tensors, to.plans[0])


class Best(Way):
    """Find the best element of each line, or of its parts and then of these: a block has each part of a line."""

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        self.parts, self.share, self.threads = self.numbers()

    def numbers(self) -> Parts:
        """Return the parts of a line."""
        return parts_of_blocks(self.facts, self.tuning)

    def kernel(self) -> tuple[Kernel, int]:
        """Return the kernel for the parts, and how many blocks it has."""
        return top_k_best.best_kernel(*self.kind), self.facts.lines * self.parts

    def start(self, to: Launch) -> DeviceArray | None:
        """Launch the kernel, and the one for the best elements of parts."""
        lines, parts, (kernel, blocks) = self.facts.lines, self.parts, self.kernel()
        memory = scratch(to.a, 16 * lines * parts) if parts > 1 else None
        arguments = (*to.tensors, to.plans[0], memory.pointer if memory else 0)
        kernel(*to.where, blocks, *arguments, threads=self.threads)
        if memory:
            threads = BLOCK if parts > self.tuning.few_parts else LANES
            top_k_best.best_part_kernel(self.facts.width)(*to.where, lines, *arguments, threads=threads)
        return memory


class BestByThreads(Best):
    """The same: a thread has each part of a line."""

    def numbers(self) -> Parts:
        """Return the parts of a line."""
        return parts_of_threads(self.facts, self.tuning)

    def kernel(self) -> tuple[Kernel, int]:
        """Return the kernel for the parts, and how many blocks it has."""
        return top_k_best.best_by_threads_kernel(*self.kind), -(-self.facts.lines * self.parts // BLOCK)


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
        self.groups = groups_beside(facts, tuning)

    def start(self, to: Launch) -> DeviceArray:
        """Launch the kernels."""
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

    def __init__(self, facts: Facts, tuning: Tuning, rule: tuple[int, int, int]) -> None:
        super().__init__(facts, tuning, rule)
        choice = block_choice(facts, tuning, self.by_delegates)
        self.groups, self.room, self.threads, self.shared, self.chunk, self.chunks = choice

    def start(self, to: Launch) -> DeviceArray | None:
        """Launch the kernels."""
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


class SortOfLines(Way):
    """A block sorts each line."""

    def start(self, to: Launch) -> None:
        """Launch the kernel."""
        facts = self.facts
        threads = sorting_threads(facts, self.tuning)
        shared = top_k_sorted.sort_bytes(facts.n, threads)
        kernel = top_k_sorted.sort_kernel(*self.kind)
        kernel(*to.where, facts.lines, *to.tensors, to.plans[0], threads=threads, shared=shared)
