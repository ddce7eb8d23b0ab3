"""Ways that are faster than the general kernels: which layouts they are for, and how they run.

A way is for a whole call; `None` stands for the general kernels. All but one move single elements, of 1, 2, 4 or 8
bytes.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._core.devices.arrays import DeviceArray
from ..._core.tensor import product
from ..driver.arrays import scratch
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, SIMULATED
from ..kernels import (
    columns_block,
    columns_thread,
    gather_lines,
    scatter_binned,
    scatter_combine_few,
    scatter_few,
    scatter_lines,
    transpose,
)
from ..primitives import device_sort
from ..primitives.fill import set_words
from ..primitives.groups import QUAD_BYTES, shared_bytes
from ..primitives.moves import claims as moves_claims
from ..primitives.moves import lines
from ..primitives.moves import updates as moves_updates
from ..primitives.plan import DROP, Plan

if TYPE_CHECKING:
    from .move_call import _MoveCall


#: Below so many points the general kernels have it done before a block has its line. The simulator starts a thread for
#: each thread of these ways, which takes too long for larger arrays. Reductions would be sorted otherwise, and are
#: always faster by lines: 10 lines of 100 take 0.03 and 0.08 ms, 64 of 32768 0.13 and 0.19, 4096² 0.20 and 1.42.
LEAST_POINTS, MOST_POINTS = (1, 600) if SIMULATED else (1 << 16, 1 << 60)
#: So many blocks keep all multiprocessors busy (132 of an H200, with 3 blocks of 64 KiB, several times over); with
#: fewer than these, most would be idle.
BLOCKS, LEAST_BLOCKS = (4, 1) if SIMULATED else (1056, 96)
#: Threads of a block whose lines have so many bytes or more; with fewer it is `BLOCK`. A gather from 16384 lines of
#: 64 KiB takes 0.98 ms with 512, 1.01 with 256, 1.13 with 1024; from 16384 of 16 KiB 0.25 with 256, 0.34 with 512. And
#: of a block that has a multiprocessor for itself: from 16384 lines of 128 KiB 1.47 ms, and 1.73 with 512.
LONG_LINE_BYTES, LINE_THREADS, LONE_THREADS = (100, BLOCK, BLOCK) if SIMULATED else (24 << 10, 512, 1024)
#: Shorter lines are taken together, up to so much shared memory: a gather from 100,000 lines of 4000 bytes takes 0.38
#: ms, and 0.58 by the general kernel; from 9681 of 8340 bytes 0.087, and 0.097 one by one; a scatter to 14,670 lines of
#: 1163 elements of 8 bytes 0.153 and 0.196. If there are fewer lines, up to half as much, but for so many blocks.
GATHERED_BYTES, SCATTERED_BYTES = (48, 96) if SIMULATED else (24 << 10, 36 << 10)
#: With more shared memory than that for claims and updates, a multiprocessor would have one block; then the updates are
#: left to L1: a scatter to 16384 lines of 64 KiB takes 1.70 ms instead of 1.91.
STAGED_BYTES = 160 if SIMULATED else 112 << 10
#: Into so many parts, of so many bytes of claims, a line is split; each block goes through all indices of the line. A
#: scatter to 2048 lines of 220 KB takes 1.22 ms in three parts, 1.84 in one. Where updates are combined each part
#: has the links of all of them, and is as large as it can be.
MOST_PARTS, PART_BYTES = 4, 224 if SIMULATED else 112 << 10
#: More parts than that: it does not fit at all.
NO_PARTS = MOST_PARTS + 1
#: A block with fewer bytes of points or elements than that is not worth its start: by lines of 4000 bytes a gather took
#: 1.32 ms where the general kernel took 0.58, a scatter 1.08 where it took 2.48; by lines of 400 bytes 7.6 and 1.9.
LEAST_GATHERED_LINE, LEAST_SCATTERED_LINE = (8, 8) if SIMULATED else (8 << 10, 2 << 10)
#: A line is read for the sake of at least one point per so many elements.
LINE_PER_POINT = 8
#: A smaller matrix stays in L2, and gathers along its columns need not be transposed: 2048² of 4 bytes take 0.085 ms
#: transposed and 0.040 as they are, 4096² 0.20 and 0.28. Scatters would need claims of 4 bytes in L2, whatever the
#: elements: 2048² take 0.11 ms transposed and 0.17 by claims, 4096² 0.27 and 1.57. Each part of a column reads all of
#: its indices, so for parts there must be as many times more: 43 columns of 106,986, in four, take 0.22 and 0.10.
LEAST_MATRIX_BYTES, LEAST_SCATTERED = (64, 8) if SIMULATED else (48 << 20, 4 << 20)
#: Columns of so many bytes, or elements, at most have a thread each, if there are so many columns; longer ones go by
#: shared memory. In ms, so and by that: a gather from 1M columns of 32 float32 takes 0.173 and 0.170, from 700,000 of
#: 48 0.24 and 0.18, from 4M of 8 single bytes 0.179 and 0.147; a scatter to 4M columns of 8 float32 0.255 and 0.246, to
#: 2M of 16 0.31 and 0.21. What is combined in the order of its updates, so and transposed: 2M columns of 16 0.31 and
#: 1.07, 1M of 64 1.9 and 1.0; where the matrix stays in L2, 32768 columns of 200 0.165 and 0.228.
MOST_GATHERED = dict.fromkeys((1, 2, 4, 8), 24) if SIMULATED else {1: 4, 2: 128, 4: 128, 8: 128}
MOST_SCATTERED, MOST_CHAINED, MOST_COMBINED, LEAST_OWN = (6, 24, 24, 24) if SIMULATED else (8, 128, 1024, 1 << 15)
L2_BYTES = 256 if SIMULATED else 32 << 20
#: Shared memory of a block that has columns of at least so many elements there, and of one with narrow rows, of which a
#: multiprocessor has one only: a gather from 2**26 float32 in columns of 4096 takes 0.45 ms by rows of 32 bytes, which
#: take 128 KB, and 0.59 by 16; from 2**25 of 2 bytes in columns of 6000 0.200 by 32, 192 KB, and 0.224.
SHARED_COLUMN_BYTES, LEAST_SHARED_COLUMN = (40, 1) if SIMULATED else (132 << 10, 5)
LEAST_SHARED_ROW, NARROW_ROW, NARROW_COLUMNS = (1, 2, 2) if SIMULATED else (16, 32, 16)
#: Threads of such a block, and how many bytes of shared memory and elements it has at most. One that has a
#: multiprocessor to itself has as many threads as can be: 2**26 float32 in columns of 256 take 0.34 ms with 256, and
#: 0.39 with 512; of 4096 0.45 with 1024, and 0.83 with 512; 1000² of them 0.0088 with 1024, and 0.0097 with 512.
SHARED_THREADS = (
    ((BLOCK, 1 << 20, 1 << 20),)
    if SIMULATED
    else ((BLOCK, 40 << 10, 20 << 10), (512, 72 << 10, 80 << 10), (1024, 1 << 20, 1 << 20))
)
MULTIPROCESSORS = 3 if SIMULATED else 132
#: With so few elements a block takes twice as long for each.
FEW_IN_BLOCK = 1 if SIMULATED else 600
#: The highest number of a point that its claim can hold.
MOST_CLAIMING = (1 << 31) - 1
#: A thread has so many claims for each element that it would gather: 2**25 float32 in columns of 64 are scattered in
#: 0.211 ms with 4096 claims for 256 threads, and in 0.245 with 8192.
CLAIMS_PER_ELEMENT = 0.32
#: If so many bytes are moved in all, they stay in L2, from where a gather is as fast if blocks would take so much
#: longer than at best, or have columns of fewer elements: 4M float32 in columns of 6 take 0.027 ms from there and 0.032
#: by shared memory, of 16 0.0273 and 0.0280, of 32 0.0286 and 0.0279; of 7000, by rows of 16 bytes, 0.037 and 0.052.
MOST_IN_L2, MOST_COST, LEAST_IN_L2 = (0, 1.4, 24) if SIMULATED else (100 << 20, 1.4, 24)
#: Fewer columns are not worth a tile.
LEAST_COLUMNS = 2 if SIMULATED else 32
#: Scratch memory for the strips that are transposed. A gather from 16384² elements of 4 bytes takes
#: 3.47 ms with 64 MiB, 2.92 with 256, 2.72 with 1024, 2.68 at once.
STRIP_BYTES = 256 if SIMULATED else 512 << 20
#: Updates are sorted into bins when the output (or the line, if they go to one line after the other), or what claims
#: it, is larger than L2, and when there are many: one per so many places. In µs, beside what is merged: 1.7M of 16M
#: elements of 4 bytes 129 and 135, 5.6M 274 and 297, of 10M of 1 byte 173 and 114.
LEAST_BINNED_BYTES, LEAST_BINNED_CLAIMS = (64, 64) if SIMULATED else (96 << 20, 64 << 20)
PLACES_PER_POINT = 16
#: Up to so many points are looked at by every block, of which each multiprocessor has one; they copy up to so many
#: bytes, each so many or more. In µs, beside three launches: 2000 points of 16K elements of 4 bytes take 8.0 and 6.7,
#: of 1M 8.4 and 10.0, of 4M 15 and 21; 4000 points 13 and 7, 13 and 10, 19 and 20. The host has one launch to make.
MOST_OWNED, OWN_BLOCKS = (12, 3) if SIMULATED else (1 << scatter_few.POINT_BITS, 132)
MOST_OWN_BYTES, LEAST_SHARE = (1000, 24) if SIMULATED else (32 << 20, 1 << 10)
#: A place belongs to one block, and is not to take it longer than the others: 1746 updates of as many places take 20 µs
#: if these have 424 units of 16 bytes, and 16 otherwise; 1026 of 163 of 8 bytes 8.9 and 10.
MOST_OWN_UNITS = 40 if SIMULATED else 192
#: Numbers of places that fit into an entry, beside a point's.
MOST_NUMBERED = 1 << (62 - scatter_few.POINT_BITS)
#: An output of up to so many bytes, or its claims, is in the shared memory of each block. Of these there are so many:
#: each has a multiprocessor for itself, and so many times as many updates as elements. In ms, and without that: 100k
#: sums into 1000 int32 take 0.008 and 0.014, 10M into 24,000 0.105 and 0.195, but 3M 0.067 and 0.061; 1M rows of 64
#: into 50 take 0.47 and 0.31, all into one of them 0.47 and 4.7 (with up to 264 blocks).
OWN_BYTES, LEAST_WITH_OWN, MOST_WITH_OWN, UPDATES_PER_OWN = (100, 1, 3, 2) if SIMULATED else (96 << 10, 20, 132, 4)
#: A block sorts into so many coarse bins.
MOST_BINS = scatter_binned.SLOTS << scatter_binned.FINE_BITS


class Lines(NamedTuple):
    """Points in contiguous lines, each of which reads from, or writes to, one contiguous line of data."""

    lines: int
    length: int  #: points
    size: int  #: elements
    packed: bool  #: neither they nor their indices have gaps


class Columns(NamedTuple):
    """The same for the columns of matrices."""

    matrices: int
    matrix_step: int  #: bytes of data
    index_matrix_step: int
    row_step: int  #: bytes of data
    index_row_step: int
    columns: int
    length: int  #: points of a column
    size: int  #: elements of a column


def find_lines(call: _MoveCall) -> Lines | None:
    """Return the lines of a layout, if it has any."""
    if not _is_single(call) or call.lowering.coordinates[0][1] != call.run:
        return None
    *outer, (length, step, index_step) = call.loops
    if step != 0 or index_step != 1:
        return None
    size = call.lowering.coordinates[0][0]
    packed = len(outer) == 1 and outer[0][1:] == (size * call.run, length)
    return Lines(product(n for n, _, _ in outer), length, size, packed)


def find_columns(call: _MoveCall) -> Columns | None:
    """Return the columns of a layout, if it has any."""
    if not _is_single(call) or not 2 <= len(call.loops) <= 3:
        return None
    size, row_step = call.lowering.coordinates[0]
    (length, still, index_row_step), (columns_, step, index_step) = call.loops[-2:]
    if still != 0 or step != call.run or index_step != 1 or columns_ < LEAST_COLUMNS:
        return None
    matrices, matrix_step, index_matrix_step = call.loops[0] if len(call.loops) == 3 else (1, 0, 0)
    return Columns(matrices, matrix_step, index_matrix_step, row_step, index_row_step, columns_, length, size)


def _is_single(call: _MoveCall) -> bool:
    return (
        call.run == call.slice_bytes == call.lowering.itemsize
        and call.run in (1, 2, 4, 8)
        and len(call.lowering.coordinates) == 1
        and call.lowering.coordinates[0][0] > 0
        and (call.reduces or call.points >= LEAST_POINTS)
        and call.points <= MOST_POINTS
    )


def together(found: Lines, width: int, most_bytes: int) -> int:
    """Return how many lines a block takes, whose elements need so many bytes of shared memory each, without links."""
    if not found.packed:
        return 1
    most = most_bytes // (max(found.size, found.length) * width)
    return max(1, min(most, max(-(-most // 2), found.lines // BLOCKS), found.lines))


def line_bytes(elements: int, width: int) -> int:
    """Return how much shared memory a line takes, wherever it begins."""
    return -(-elements * width // 16) * 16 + 16


def threads_for(size: int, shared: int) -> int:
    """Return how many threads a block has whose lines have so many bytes, and which needs so much shared memory."""
    if size < LONG_LINE_BYTES:
        return BLOCK
    return LINE_THREADS if 2 * shared <= shared_bytes() else LONE_THREADS


class LineGather:
    """Gather from lines that fit into shared memory."""

    def __init__(self, call: Any, found: Lines) -> None:
        self.call = call
        self.found = found
        self.together = together(found, call.run, GATHERED_BYTES)
        self.shares = max(1, min(-(-BLOCKS // found.lines), found.length // found.size)) if self.together == 1 else 1
        self.share = -(-self.together * found.length // self.shares)
        self.shares = -(-self.together * found.length // self.share)
        self.blocks = -(-found.lines // self.together) * self.shares
        size = self.together * found.size
        self.shared = line_bytes(size, call.run)
        self.threads = threads_for(size * call.run, self.shared)

    @classmethod
    def find(cls, call: Any) -> LineGather | None:
        """Return the way for a layout, if it is one for it."""
        found = find_lines(call)
        if (
            found is None
            or line_bytes(found.size, call.run) > shared_bytes()
            or found.length * LINE_PER_POINT < found.size
        ):
            return None
        way = cls(call, found)
        most = way.together * max(found.size, found.length) * call.run
        return way if way.blocks >= LEAST_BLOCKS and most >= LEAST_GATHERED_LINE else None

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> None:
        call = self.call
        gather_lines.gather_lines_kernel(call.run, call.index_name, self.together > 1, self.threads)(
            a.device,
            stream,
            self.blocks,
            a.pointer,
            indices.pointer,
            out.pointer,
            call.plan(a.device, call.run).address,
            record,
            number,
            self.shares,
            self.share,
            self.found.lines,
            self.together,
            lines.row_factor(self.found.length),
            shared=self.shared,
        )


class ScatterArguments(NamedTuple):
    """What a scatter is given when it runs."""

    old: int  #: the address of what is there before, maybe the output's
    indices: DeviceArray
    updates: DeviceArray
    out: DeviceArray
    stream: int
    record: int  #: the address where a bad index is recorded
    number: int  #: of the launch
    all_or_none: int  #: 1: nothing may be written if an index is bad


class _ScatterWay:
    """What the ways to scatter share; `covers`: they can copy what the updates leave, since they come by all of it."""

    call: Any
    covers: bool

    def suits(self, old: int, updates: int, out: int) -> bool:
        """Tell whether the way is one for arrays at these addresses."""
        return True

    def copies(self, old: int, out: int) -> bool:
        """Tell whether it copies what the updates leave, from such an address to another."""
        return self.covers


class LineScatter(_ScatterWay):
    """Scatter to lines whose claims and chains fit into shared memory, or those of their parts."""

    def __init__(self, call: Any, found: Lines) -> None:
        self.call, self.found = call, found
        width, chained = call.run, call.reduces
        self.together = together(found, moves_updates.CLAIM_BYTES + width, SCATTERED_BYTES)
        self.part, self.parts = self.together * found.size, 1
        updates = self.together * found.length
        claims = line_bytes(self.part, moves_updates.CLAIM_BYTES)
        links = line_bytes(moves_updates.link_count(updates), moves_updates.LINK_BYTES) if chained else 0
        self.shared = claims + links + line_bytes(updates, width)
        self.staged = self.shared <= min(STAGED_BYTES, shared_bytes())
        if not self.staged:
            most = shared_bytes() if chained else min(PART_BYTES, shared_bytes())
            room = most - links - line_bytes(0, 1)
            self.parts = -(-claims // room) if room > 0 else NO_PARTS
            self.part = -(-self.part // self.parts)
            self.shared = line_bytes(self.part, moves_updates.CLAIM_BYTES) + links
        if chained and max(moves_updates.link_count(updates), self.part + 1) > moves_updates.MOST_LINKED:
            self.parts = NO_PARTS
        self.threads = threads_for(self.part * width, self.shared)
        self.blocks = -(-found.lines // self.together) * self.parts
        self.covers = found.lines * found.size * width == call.out_bytes
        #: What a kernel is told of the parts.
        self.division: tuple[int, ...] = self.parts, self.part
        #: What a kernel is compiled for, but for the type of the indices.
        self.kind = self.together > 1, self.staged, self.threads
        self.reduction = (call.lowering.data_type, call.lowering.reduction) if chained else (None, "none")

    @classmethod
    def find(cls, call: Any) -> LineScatter | None:
        """Return the way for a layout, if it is one for it."""
        found = find_lines(call)
        if found is None or not all(step for _, step, _ in call.loops[:-1]):
            return None
        way = cls(call, found)
        most = way.together * max(found.size, found.length) * call.run
        worth = way.blocks >= LEAST_BLOCKS and most >= LEAST_SCATTERED_LINE
        if call.reduces:
            worth = (worth or not call.combined) and found.length * LINE_PER_POINT >= found.size
        return way if worth and way.parts <= MOST_PARTS else None

    def __call__(self, given: ScatterArguments) -> Any:
        """Write the updates over what is at the address `old`; return memory that is in use until all is done."""
        old, indices, updates, out, stream, record, *_ = given
        call, device = self.call, out.device
        memory, flag, number = call.look_first(given)
        plan = call.plan(device, call.run).address
        addresses = out.pointer, old, indices.pointer, updates.pointer, plan
        self.launch(call.index_name, device, stream, self.found.lines, addresses, record, number, flag)
        return memory

    def launch(
        self,
        index_name: str,
        device: int,
        stream: int,
        count: int,
        addresses: tuple[int, int, int, int, int],
        record: int,
        number: int,
        flag: int,
    ) -> None:
        """Scatter to so many lines: `addresses` of the output, what is there, indices, updates and the plan."""
        self.kernel(index_name)(
            device,
            stream,
            -(-count // self.together) * self.parts,
            *addresses,
            record,
            number,
            flag,
            *self.division,
            count,
            self.together,
            lines.row_factor(self.found.length),
            shared=self.shared,
        )

    def kernel(self, index_name: str) -> Kernel:
        """Return the kernel for a type of indices."""
        return scatter_lines.scatter_lines_kernel(self.call.run, index_name, *self.kind, *self.reduction)


class LineCombine(LineScatter):
    """Combine integers, in any order, with lines that fit into shared memory.

    4096 lines of 4096 int32 take 0.092 ms so, 0.19 by chains of updates, which come in their order, and 0.26 if the
    memory combines them, as PyTorch's `scatter_add` does; with all updates of a line in one place 0.12, 1.19 and 0.38.
    """

    def __init__(self, call: Any, found: Lines) -> None:
        self.call, self.found = call, found
        width = call.run
        self.together = together(found, width, GATHERED_BYTES)
        size = self.together * found.size
        self.shared = line_bytes(size, width)
        self.parts, self.division = 1 if self.shared <= shared_bytes() else NO_PARTS, ()
        self.threads = threads_for(size * width, self.shared)
        self.blocks = -(-found.lines // self.together)
        self.covers = found.lines * found.size * width == call.out_bytes

    def kernel(self, index_name: str) -> Kernel:
        assert self.call.combined
        kind = self.together > 1, self.threads, self.call.combined
        return scatter_lines.combine_lines_kernel(self.call.run, index_name, *kind)


def by_lines(call: Any) -> type[LineScatter]:
    """Return how updates get to lines."""
    return LineCombine if call.combined else LineScatter


class _OwnColumns:
    """Columns that have a thread each."""

    def __init__(self, call: Any, found: Columns) -> None:
        self.call = call
        count = found.matrices * found.columns
        self.blocks = -(-count // BLOCK)
        steps = found.matrix_step, found.row_step, found.index_matrix_step, found.index_row_step
        self.shape = (*steps, found.columns, count, found.length)

    @staticmethod
    def suit(call: _MoveCall, found: Columns, most: int) -> bool:
        """Tell whether there are many columns, and of so many bytes at most."""
        return found.size * call.run <= most and found.matrices * found.columns >= LEAST_OWN


class OwnColumnGather(_OwnColumns):
    """Gather from short columns."""

    @classmethod
    def find(cls, call: Any) -> OwnColumnGather | None:
        """Return the way for a layout, if it is one for it."""
        found = find_columns(call)
        if not found or found.size * found.columns * call.run < LEAST_MATRIX_BYTES:
            return None
        return cls(call, found) if cls.suit(call, found, MOST_GATHERED[call.run]) else None

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> None:
        call = self.call
        plan = call.plan(a.device, call.run).address
        columns_thread.gather_columns_kernel(call.run, call.index_name)(
            a.device, stream, self.blocks, a.pointer, indices.pointer, out.pointer, plan, record, number, *self.shape
        )


class OwnColumnScatter(_OwnColumns, _ScatterWay):
    """Scatter to short columns."""

    def __init__(self, call: Any, found: Columns) -> None:
        super().__init__(call, found)
        self.covers = found.matrices * found.size * found.columns * call.run == call.out_bytes
        self.reduction = (call.lowering.data_type, call.lowering.reduction) if call.reduces else (None, "none")

    @classmethod
    def find(cls, call: Any) -> OwnColumnScatter | None:
        """Return the way for a layout, if it is one for it."""
        found = find_columns(call)
        most = MOST_SCATTERED * call.run
        if call.reduces:
            most = MOST_COMBINED if call.out_bytes <= L2_BYTES else MOST_CHAINED
        return cls(call, found) if found and cls.suit(call, found, most) else None

    def __call__(self, given: ScatterArguments) -> Any:
        """Write the updates over what is at the address `old`; return memory that is in use until all is done."""
        old, indices, updates, out, stream, record, *_ = given
        call, device = self.call, out.device
        memory, flag, number = call.look_first(given)
        plan = call.plan(device, call.run).address
        addresses = out.pointer, old, indices.pointer, updates.pointer, plan
        columns_thread.scatter_columns_kernel(call.run, call.index_name, *self.reduction)(
            device, stream, self.blocks, *addresses, record, number, flag, *self.shape
        )
        return memory


class Tile(NamedTuple):
    """What a block has of columns in shared memory."""

    cost: float  #: how much longer it takes than it would at best, estimated
    side: int  #: columns
    strips: int  #: blocks of a matrix
    shared: int  #: bytes
    threads: int


class _SharedColumns:
    """Columns of which a block has some in shared memory."""

    def __init__(self, call: Any, found: Columns, tile: Tile) -> None:
        self.call, self.tile = call, tile
        self.blocks = found.matrices * tile.strips
        steps = found.matrix_step, found.row_step, found.index_matrix_step, found.index_row_step
        self.shape = (*steps, found.columns, tile.strips, tile.side.bit_length() - 1, found.length)

    @staticmethod
    def tile_for(
        found: Columns, width: int, element_bytes: int, narrow_bytes: int, least_row: int, elements: float
    ) -> Tile | None:
        """Return the best tile, if there is one: an element takes so much shared memory.

        Narrow rows may take so much in all, and have so many bytes of data at least. `elements`: those of a thread,
        beside what they are in a gather.
        """
        if not found.length * LINE_PER_POINT >= found.size >= LEAST_SHARED_COLUMN:
            return None
        tiles = []
        for bit in range(BLOCK.bit_length()):
            side = 1 << bit
            row, count = side * width, side * found.size
            shared = count * element_bytes
            strips = -(-found.columns // side)
            blocks = found.matrices * strips
            is_narrow = row <= NARROW_ROW and side <= NARROW_COLUMNS
            if (
                row < least_row
                or shared > (narrow_bytes if is_narrow else SHARED_COLUMN_BYTES)
                or blocks < LEAST_BLOCKS
            ):
                continue
            of_size = (n for n, size, many in SHARED_THREADS if shared <= size and count <= many * elements)
            lone = blocks <= MULTIPROCESSORS
            threads = SHARED_THREADS[-1][0] if lone else next(of_size)
            # Sectors of 32 bytes that are read and written in part; blocks with little to do; more threads to wait for;
            # multiprocessors that wait for the others.
            cost = (8 + 2 * width * max(1.0, 32 / row)) / (8 + 2 * width) * (1.05 if row <= NARROW_ROW else 1.0)
            cost *= 1 + (FEW_IN_BLOCK / count) ** 2
            cost *= 1.05 if threads > BLOCK and not lone else 1.0
            cost *= -(-blocks // MULTIPROCESSORS) * MULTIPROCESSORS / blocks
            tiles.append(Tile(cost, side, strips, shared, threads))
        return min(tiles, default=None)


class SharedColumnGather(_SharedColumns):
    """Gather from columns that fit into shared memory."""

    @classmethod
    def find(cls, call: Any) -> SharedColumnGather | None:
        """Return the way for a layout, if it is one for it."""
        found = find_columns(call)
        tile = found and cls.tile_for(found, call.run, call.run, shared_bytes(), LEAST_SHARED_ROW, 1)
        if not found or not tile:
            return None
        if call.work < MOST_IN_L2 and (tile.cost > MOST_COST or found.size < LEAST_IN_L2):
            return None
        return cls(call, found, tile)

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> None:
        call = self.call
        addresses = a.pointer, indices.pointer, out.pointer, call.plan(a.device, call.run).address
        columns_block.gather_shared_kernel(call.run, call.index_name, self.tile.threads)(
            a.device, stream, self.blocks, *addresses, record, number, *self.shape, shared=self.tile.shared
        )


class SharedColumnScatter(_SharedColumns, _ScatterWay):
    """Scatter to columns whose claims fit into shared memory."""

    @classmethod
    def find(cls, call: Any) -> SharedColumnScatter | None:
        """Return the way for a layout, if it is one for it."""
        found = find_columns(call)
        if not found or call.reduces or found.length > MOST_CLAIMING:
            return None
        claim_bytes = columns_block.CLAIM_BYTES
        # Of few bytes in a row more updates come along that no claim wants.
        least_row = NARROW_ROW if call.run >= 4 else LEAST_SHARED_ROW
        tile = cls.tile_for(found, call.run, claim_bytes, SHARED_COLUMN_BYTES, least_row, CLAIMS_PER_ELEMENT)
        if not tile:
            return None
        way = cls(call, found, tile)
        way.covers = found.matrices * found.size * found.columns * call.run == call.out_bytes
        return way

    def __call__(self, given: ScatterArguments) -> Any:
        """Write the updates over what is at the address `old`; return memory that is in use until all is done."""
        old, indices, updates, out, stream, record, *_ = given
        call, device = self.call, out.device
        memory, flag, number = call.look_first(given)
        plan = call.plan(device, call.run).address
        addresses = out.pointer, old, indices.pointer, updates.pointer, plan
        columns_block.scatter_shared_kernel(call.run, call.index_name, self.tile.threads)(
            device, stream, self.blocks, *addresses, record, number, flag, *self.shape, shared=self.tile.shared
        )
        return memory


class _Strips:
    """Columns that are transposed strip by strip."""

    def __init__(self, call: Any, found: Columns, *, lengths: int, sizes: int) -> None:
        """`lengths`, `sizes`: how many lines of elements there are for every line of positions, of either length."""
        self.call = call
        self.found = found
        self.position_bytes = 2 if found.size < 1 << 16 else 4
        self.parts = [found.length * self.position_bytes, *[found.length * call.run] * lengths]
        self.parts += [found.size * call.run] * sizes
        most = max(1, STRIP_BYTES // sum(self.parts))
        #: Matrices and columns of a strip.
        self.matrices = max(1, min(found.matrices, most // found.columns))
        self.columns = min(found.columns, -(-most // transpose.SIDE) * transpose.SIDE)
        count = self.matrices * self.columns
        self.starts, self.size = [], 0
        for part in self.parts:
            self.starts.append(self.size)
            self.size += -(-part * count // 16) * 16
        self.plans: dict[int, Plan] = {}
        self.turn = transpose.turn_kernel(call.run)

    def plan(self, device: int) -> int:
        """Return the address of the plan for the transposed lines, whose bad indices are known already."""
        found = self.plans.get(device)
        if found is None:
            size, length, width = self.found.size, self.found.length, self.call.run
            loops = [(self.found.columns, size * width, length), (length, 0, 1)]
            plan = Plan(device, 1, 1, loops, [(size, width)], [], DROP)
            found = self.plans.setdefault(device, plan)
        return found.address

    def strips(self) -> list[tuple[int, int, int, int]]:
        """Return the first matrix and column of each strip, and how many of both it has."""
        return [
            (m, c, min(self.matrices, self.found.matrices - m), min(self.columns, self.found.columns - c))
            for m in range(0, self.found.matrices, self.matrices)
            for c in range(0, self.found.columns, self.columns)
        ]

    def turn_indices(
        self,
        strip: tuple[int, int, int, int],
        indices: DeviceArray,
        to: int,
        stream: int,
        record: int,
        number: int,
    ) -> None:
        """Turn the indices of a strip into lines of positions."""
        call, found = self.call, self.found
        matrix, column, matrices, count = strip
        transpose.turn_indices_kernel(call.index_name, self.position_bytes)(
            indices.device,
            stream,
            transpose.tiles(matrices, found.length, count),
            indices.pointer,
            matrix * found.index_matrix_step + column,
            found.index_matrix_step,
            found.index_row_step,
            to,
            found.length,
            count,
            call.plan(indices.device, call.run).address,
            record,
            number,
        )

    def turn_in(
        self,
        strip: tuple[int, int, int, int],
        device: int,
        stream: int,
        fro: int,
        matrix_step: int,
        row_step: int,
        to: int,
        rows: int,
    ) -> None:
        """Turn the columns of a strip into packed lines."""
        matrix, column, matrices, count = strip
        width = self.call.run
        start = fro + matrix * matrix_step + column * width
        blocks = transpose.tiles(matrices, rows, count)
        line = rows * width
        self.turn(device, stream, blocks, start, matrix_step, row_step, to, count * line, line, rows, count)

    def turn_out(
        self,
        strip: tuple[int, int, int, int],
        device: int,
        stream: int,
        fro: int,
        to: int,
        matrix_step: int,
        row_step: int,
        rows: int,
    ) -> None:
        """Turn packed lines into the columns of a strip."""
        matrix, column, matrices, count = strip
        width = self.call.run
        start = to + matrix * matrix_step + column * width
        blocks = transpose.tiles(matrices, count, rows)
        line = rows * width
        self.turn(device, stream, blocks, fro, count * line, line, start, matrix_step, row_step, count, rows)


class ColumnGather(_Strips):
    """Gather from columns, transposed."""

    def __init__(self, call: Any, found: Columns) -> None:
        super().__init__(call, found, lengths=1, sizes=1)
        self.lines = LineGather(call, Lines(found.matrices * found.columns, found.length, found.size, True))

    @classmethod
    def find(cls, call: Any) -> ColumnGather | None:
        """Return the way for a layout, if it is one for it."""
        found = find_columns(call)
        if (
            found is None
            or line_bytes(found.size, call.run) > shared_bytes()
            or found.length * LINE_PER_POINT < found.size
            or found.size * found.columns * call.run < LEAST_MATRIX_BYTES
        ):
            return None
        return cls(call, found)

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> DeviceArray:
        found, device, width, way = self.found, a.device, self.call.run, self.lines
        memory = scratch(out, self.size)
        positions, results, sources = (memory.pointer + start for start in self.starts)
        out_matrix, out_row = found.length * found.columns * width, found.columns * width
        for strip in self.strips():
            self.turn_indices(strip, indices, positions, stream, record, number)
            self.turn_in(strip, device, stream, a.pointer, found.matrix_step, found.row_step, sources, found.size)
            gather_lines.gather_lines_kernel(width, f"uint{8 * self.position_bytes}", way.together > 1, way.threads)(
                device,
                stream,
                -(-strip[2] * strip[3] // way.together),
                sources,
                positions,
                results,
                self.plan(device),
                record,
                -1,
                1,
                way.together * found.length,
                strip[2] * strip[3],
                way.together,
                lines.row_factor(found.length),
                shared=way.shared,
            )
            self.turn_out(strip, device, stream, results, out.pointer, out_matrix, out_row, found.length)
        return memory


class ColumnScatter(_Strips, _ScatterWay):
    """Scatter to columns, transposed."""

    def __init__(self, call: Any, found: Columns) -> None:
        super().__init__(call, found, lengths=1, sizes=1)
        self.lines = by_lines(call)(call, Lines(found.matrices * found.columns, found.length, found.size, True))
        self.covers = self.lines.covers

    @classmethod
    def find(cls, call: Any) -> ColumnScatter | None:
        """Return the way for a layout, if it is one for it."""
        found = find_columns(call)
        if found is None or found.length * LINE_PER_POINT < found.size:
            return None
        # In L2 the memory combines integers, without transposing: 2048² int32 take 0.062 ms so and 0.073 transposed,
        # 20000 by 300 0.087 and 0.109; beyond it 4096² 0.64 and 0.24, 20000 by 300 of int64 0.204 and 0.176.
        if call.combined and call.out_bytes <= L2_BYTES:
            return None
        way = cls(call, found)
        least = 0 if call.reduces else LEAST_SCATTERED * way.lines.parts
        return way if found.matrices * found.size * found.columns >= least and way.lines.parts <= MOST_PARTS else None

    def __call__(self, given: ScatterArguments) -> Any:
        """Write the updates over what is at the address `old`; return memory that is in use until all is done."""
        old, indices, updates, out, stream, record, *_ = given
        found, device, width, way = self.found, out.device, self.call.run, self.lines
        memory = scratch(out, self.size)
        positions, news, results = (memory.pointer + start for start in self.starts)
        flag_memory, flag, number = self.call.look_first(given)
        matrix_step, row_step = found.matrix_step, found.row_step
        news_row = found.columns * width
        for strip in self.strips():
            self.turn_indices(strip, indices, positions, stream, record, number)
            self.turn_in(strip, device, stream, updates.pointer, found.length * news_row, news_row, news, found.length)
            self.turn_in(strip, device, stream, old, matrix_step, row_step, results, found.size)
            addresses = results, results, positions, news, self.plan(device)
            way.launch(
                f"uint{8 * self.position_bytes}", device, stream, strip[2] * strip[3], addresses, record, -1, flag
            )
            self.turn_out(strip, device, stream, results, out.pointer, matrix_step, row_step, found.size)
        return memory, flag_memory


def blocks_with_own(updates: int, elements: int, width: int) -> int:
    """Return how many blocks have a copy of all elements of a width; 0: the updates are too few for that."""
    if not 0 < elements * width <= OWN_BYTES:
        return 0
    blocks = min(MOST_WITH_OWN, updates // (UPDATES_PER_OWN * elements))
    return blocks if blocks >= LEAST_WITH_OWN else 0


class FewPlaceCombine(_ScatterWay):
    """Combine integers, in any order, of an output so small that each block has one of its own."""

    covers = False

    def __init__(self, call: Any) -> None:
        self.call = call
        self.count = call.out_bytes // call.dtype.itemsize
        self.units = call.moved // call.dtype.itemsize
        self.blocks = blocks_with_own(self.units, self.count, call.dtype.itemsize)

    @classmethod
    def find(cls, call: Any) -> FewPlaceCombine | None:
        """Return the way for a layout, if it is one for it."""
        if not call.combined or not call.covered or not call.moved:
            return None
        way = cls(call)
        return way if way.blocks else None

    def __call__(self, given: ScatterArguments) -> Any:
        """Combine the updates with what is in the output; return memory that is in use until all is done."""
        _, indices, updates, out, stream, record, *_ = given
        call, device, width = self.call, out.device, self.call.dtype.itemsize
        memory, flag, number = call.look_first(given)
        kernel = scatter_combine_few.combine_few_kernel(width, call.index_name, *call.counts, call.combined)
        kernel(
            device,
            stream,
            self.blocks,
            out.pointer,
            indices.pointer,
            updates.pointer,
            call.plan(device, width).for_kernel(kernel),
            record,
            number,
            flag,
            self.count,
            self.units,
            -(-self.units // self.blocks),
            shared=-(-self.count * width // QUAD_BYTES) * QUAD_BYTES,
        )
        return memory


class BinnedScatter(_ScatterWay):
    """Scatter to an output larger than L2, sorted by its parts; not to lines one after the other that L2 holds."""

    covers = True

    def __init__(self, call: Any) -> None:
        self.call = call
        self.bins = -(-call.places >> scatter_binned.BIN_BITS)

    @classmethod
    def find(cls, call: Any) -> BinnedScatter | None:
        """Return the way for a layout, if it is one for it."""
        way = cls(call)
        found = find_lines(call)
        near = found.size if found else call.places  # what is written to at a time
        if (
            not call.reduces
            and call.run == call.slice_bytes == call.lowering.itemsize
            and call.run in (1, 2, 4, 8)
            and call.covered
            and (near * call.run >= LEAST_BINNED_BYTES or near * call.claim_bytes >= LEAST_BINNED_CLAIMS)
            and call.points * PLACES_PER_POINT >= call.places
            and call.points <= min(MOST_POINTS, (1 << 31) - 1)
            and way.bins <= MOST_BINS
            and 4 * max(way.bins, scatter_binned.BIN) <= shared_bytes()
        ):
            return way
        return None

    def __call__(self, given: ScatterArguments) -> Any:
        """Write the updates over what is at the address `old`; return memory that is in use until all is done."""
        old, indices, updates, out, stream, record, number, all_or_none = given
        call, device, count = self.call, out.device, self.bins
        loops, coords, _ = call.counts
        coarse = -(-count >> scatter_binned.FINE_BITS)
        words = (count + 1) + coarse
        zeros = (8 * words + 15) & -16
        head = moves_claims.FLAG_BYTES + zeros
        size = scatter_binned.ENTRY_BYTES * call.points
        memory = scratch(out, head + 2 * size)
        flag, starts = memory.pointer, memory.pointer + moves_claims.FLAG_BYTES
        sizes = starts + 8 * (count + 1)
        entries, target = memory.pointer + head, memory.pointer + head + size
        plan = call.plan(device, call.run)
        set_words(device, stream, flag, moves_claims.FLAG_BYTES, -1)
        set_words(device, stream, starts, zeros, 0)
        share = -(-call.points // (scatter_binned.COUNTERS * scatter_binned.TILE)) * scatter_binned.TILE
        kernel = scatter_binned.count_kernel(call.index_name, loops, coords)
        kernel(
            device,
            stream,
            -(-call.points // share),
            indices.pointer,
            plan.for_kernel(kernel),
            record,
            number,
            flag,
            call.points,
            count,
            starts,
            share,
            shared=4 * count,
        )
        device_sort.add_up(device, stream, starts, 0, 1, count + 1)
        tiles = -(-call.points // scatter_binned.TILE)
        kernel = scatter_binned.coarse_kernel(call.run, call.index_name, loops, coords)
        kernel(
            device,
            stream,
            tiles,
            indices.pointer,
            updates.pointer,
            plan.for_kernel(kernel),
            call.points,
            coarse,
            starts,
            sizes,
            entries,
        )
        scatter_binned.fine_kernel()(device, stream, tiles, entries, starts + 8 * count, starts, target)
        scatter_binned.apply_kernel(call.run, call.lowering.unique)(
            device,
            stream,
            count,
            out.pointer,
            old,
            call.places,
            flag,
            all_or_none,
            starts,
            target,
            updates.pointer,
            shared=4 * scatter_binned.BIN,
        )
        return memory


class OwnPlaceScatter(_ScatterWay):
    """Scatter few points: each block has places of its own."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.covers = call.covered and call.out_bytes <= MOST_OWN_BYTES
        step = QUAD_BYTES // gcd(QUAD_BYTES, call.slice_bytes)  # so that all blocks copy by 16 bytes
        share = max(-(-call.places // OWN_BLOCKS), -(-LEAST_SHARE // call.slice_bytes))
        #: How many places a block has that copies.
        self.share = -(-share // step) * step
        self.entries = 1 << (2 * call.points - 1).bit_length()
        self.shared = self.entries * moves_claims.ENTRY_BYTES + call.points * scatter_few.LISTED_BYTES

    @classmethod
    def find(cls, call: Any) -> OwnPlaceScatter | None:
        """Return the way for a layout, if it is one for it."""
        if call.reduces or not 0 < call.points <= MOST_OWNED or not call.moved or call.places >= MOST_NUMBERED:
            return None
        way = cls(call)
        if call.lowering.unique and not way.covers:
            return None
        return way if way.shared + QUAD_BYTES <= shared_bytes() and way.has_few_units(call.steps) else None

    def has_few_units(self, addresses: int) -> bool:
        """Tell whether a slice has few units, by the alignment of some addresses."""
        return bool(self.call.slice_bytes // self.call.unit_width(addresses) <= MOST_OWN_UNITS)

    def suits(self, old: int, updates: int, out: int) -> bool:
        return self.has_few_units(old | updates | out) and (not self.call.lowering.unique or self.copies(old, out))

    def copies(self, old: int, out: int) -> bool:
        return self.covers and old != out and (old | out) % QUAD_BYTES == 0

    def __call__(self, given: ScatterArguments) -> None:
        """Write the updates over what is at the address `old`."""
        old, indices, updates, out, stream, record, number, all_or_none = given
        call, device = self.call, out.device
        width = call.unit_width(old | updates.pointer | out.pointer)
        blocks = -(-call.places // self.share) if old != out.pointer else min(OWN_BLOCKS, call.points)
        kernel = scatter_few.own_places_kernel(width, call.index_name, *call.counts)
        kernel(
            device,
            stream,
            blocks,
            out.pointer,
            old,
            indices.pointer,
            updates.pointer,
            call.plan(device, width).for_kernel(kernel),
            record,
            number,
            all_or_none,
            call.points,
            self.entries,
            call.out_bytes // width,
            self.share,
            shared=self.shared,
        )
