"""What the ways to compute a top-k share: where they run, and what they write into a plan."""

from __future__ import annotations

from typing import NamedTuple

from ..._core.devices.arrays import DeviceArray
from ..dispatch.top_k_facts import Facts
from ..dispatch.top_k_numbers import Groups
from ..driver.numba import BLOCK
from ..kernels import top_k_delegates
from ..primitives.top_k.plan import WARPS
from ..tuning.top_k import Tuning


class Launch(NamedTuple):
    """Where a top-k runs, its plans, level by level, and its arrays."""

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
    """One way to compute a top-k: the numbers of its kernels, for the plan, and how to launch them."""

    #: What it is called for people, if that is not the name of its row in the table.
    method: str | None = None
    #: How many plans there are: for the elements, and for the delegates of each level but the uppermost.
    plans = 1
    groups = Groups()
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

    def start(self, to: Launch) -> DeviceArray | None:
        """Launch the kernels; return memory that is in use until they are done."""
        raise NotImplementedError

    @property
    def kind(self) -> tuple[int, bool]:
        """Return what most kernels are compiled for: the bytes of an element, and whether it is a float."""
        return self.facts.width, self.facts.is_float

    @property
    def blocks_of_warps(self) -> int:
        """Return how many blocks there are if each line has a warp."""
        return -(-self.facts.lines // WARPS)

    def find_delegates(self, to: Launch, delegates: int) -> None:
        """Find the delegates of the elements."""
        facts, groups, x = self.facts, self.groups, to.a.pointer
        if facts.packed:
            blocks = -(-facts.lines * groups.parts[0] // WARPS)
            top_k_delegates.delegate_kernel(*self.kind)(*to.where, blocks, x, delegates, to.plans[0])
        else:
            wide = self.reads_columns(x)
            kernel = top_k_delegates.strided_delegate_kernel(*self.kind, wide)
            kernel(*to.where, self.blocks_of_groups(wide), x, delegates, to.plans[0])

    def reads_columns(self, x: int) -> bool:
        """Tell whether a thread reads 16 bytes of neighbouring lines at once."""
        return self.facts.columns and x % 16 == 0

    def blocks_of_groups(self, wide: bool) -> int:
        """Return how many blocks there are if each group has a thread, or those of neighbouring lines if `wide`."""
        threads = self.facts.lines * self.groups.pitches[0] // (self.facts.of_unit if wide else 1)
        return -(-threads // BLOCK)
