"""The call of a top-k: how a lowering becomes a plan in device memory, and which kernels run it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from ..._core.descriptor import Descriptor
from ..._core.devices.arrays import DeviceArray
from ..._core.lowering import Select, TopK, is_float, rule_numbers
from ..._core.operands import SHARED_OUTPUTS, check_out
from ..._core.tensor import extent, product
from ..driver.arrays import OWN, Output, join, part, scratch
from ..driver.context import is_current, on_device
from ..driver.launch import Kernel
from ..driver.memory import DeviceMemory
from ..driver.numba import BLOCK, LANES, SIMULATED
from ..kernels import top_k_best, top_k_block, top_k_columns, top_k_delegates, top_k_short, top_k_sorted, top_k_warp
from ..kernels.top_k_block import AT_ONCE, SORTED
from ..kernels.top_k_short import SHORT_BLOCK, THREAD_LISTS
from ..primitives.groups import shared_bytes
from ..primitives.plan import reciprocal
from ..primitives.top_k import short_rows
from ..primitives.top_k.block_sort import ITEMS, count_bytes
from ..primitives.top_k.keys import follows_rule, key_type
from ..primitives.top_k.plan import LEAST_ROOM, MOST_K, MOST_ROOM, MOST_THREADS, QUADS, WARPS
from ..primitives.top_k.short_rows import BESIDE, NARROW, SHIFTED, WIDE
from ..replay.repeat import Repeatable
from . import top_k_large
from .top_k_large import LargeK

#: Lines beside each other up to this size are not worth delegates: a block that has one reads it by single elements.
LEAST_SIZE = 16 if SIMULATED else 1024
#: How many times 16 bytes, or delegates, a group has at most. Where elements are no neighbours a thread reads a group
#: by itself, so that there are threads enough if it has only one for `SERIAL` elements of all lines, or
#: `LEAST_SERIAL`: the largest of (42574, 6) along axis 0 took 0.07 ms in groups of 128, 0.02 in groups of 8.
WIDEST, SERIAL, LEAST_SERIAL = 4 * LANES, 1 if SIMULATED else 1 << 17, 4
#: Bytes of the maxima that a block can keep: of some lines; if they are fewer than multiprocessors; and, with its
#: lists, of lines so long that positions in them take 64 bits.
MAXIMA_BYTES, FEW_MAXIMA_BYTES, LONG_LINE_BYTES = (64, 128, 1600) if SIMULATED else (1 << 15, 1 << 16, 208 << 10)
#: A warp has several rounds, up to the most, if there are others enough: twice what 132 multiprocessors hold.
BUSY_WARPS, MOST_ROUNDS = (2, 2) if SIMULATED else (2 * 64 * 132, 8)
#: Threads of a block that has a line: more, if each would look at so many units, and while all are fewer than what 132
#: multiprocessors hold, at 64 registers.
LEAST_THREADS, LOOKS, BUSY_THREADS = (BLOCK, 8, 1) if SIMULATED else (64, 8, 132 * 1024)
#: From so many elements on, positions in a line need 64 bits.
LONG_LINE = 1 << 31
#: With fewer lines there are multiprocessors without any.
MANY_LINES = 3 if SIMULATED else 132
#: A block that has a line to itself reads it more slowly than all together find the delegates of so few lines: GB/s.
#: Choosing by these takes longer, in ns, and for each of the best, by bytes of an element. In µs, without and with
#: delegates, k = 50: a line of 1 MB float32 32 and 17, 40 of them 36 and 28; of 512 KB 20.3 and 17.7, 24 of them 22.7
#: and 20.4; of 256 KB 17 and 18; k = 600, of 1 MB 42 and 30, of 384 KB 27 and 28; 512 KB of int64 32 and 37.
BLOCK_RATE, ALL_RATE, CHOICE_TIME = (38, 3500, 40) if SIMULATED else (38, 3500, 8000)
TIME_FOR_EACH = {1: 0, 2: 8, 4: 5, 8: 12}
#: Bytes of a line from which on several blocks look for its one best element, how many blocks there are then at most,
#: and how many units of 16 bytes a thread reads together.
LEAST_PARTED, PART_BLOCKS, UNITS = (64, 5, 4) if SIMULATED else (1 << 18, 6 * 132, 4)
#: Of others a block has up to so many threads, if each then reads together so many times; and more, if there are few
#: lines. With 32, 64, 128 and 256 threads (16384, 4096) takes, in µs, f4 68, 69, 66 and 76, u1 26, 33, 45 and 67;
#: (1024, 32000) f4 52, 39, 37 and 41.
MOST_ALONE, ROUNDS_ALONE = (BLOCK, 1) if SIMULATED else (128, 2)
#: Up to so many parts a warp looks through.
FEW_PARTS = 1 if SIMULATED else 64
#: From so many lines on whose elements are no neighbours, a thread looks for the one best element of each, or of a part
#: of so many elements at least, until there are so many threads: 16384 float32 of 16384 columns take 0.32 ms, 0.39 by
#: delegates; 35 of 759,552 0.043, 0.057 as short lines. With fewer lines neighbouring threads would have parts of one.
LEAST_OWN_LINES, LEAST_ROWS, OWN_THREADS = (LANES, 3, 24) if SIMULATED else (LANES, 32, 132 * 1024)
#: By bytes of an element: the best of a line are chosen if so many times k are less than the line. Of 2000 lines of
#: 16,000, single bytes, the 2000 best take 1.37 ms when they are chosen, and 0.32 when the lines are sorted; of lines
#: of 4096 of 4 bytes, the 512 best 0.58 and 0.84, the 1024 best 1.3 and 0.85.
LEAST_LEFT = dict.fromkeys((1, 2, 4, 8), 2) if SIMULATED else {1: 26, 2: 14, 4: 6, 8: 9}
#: Of few lines, by bytes of an element, at most so many are chosen; more are sorted, by many blocks where one cannot.
#: Of a line of 1M of 2 bytes, the 300 best take 0.034 ms when they are chosen and 0.044, the 1000 best 0.051 and 0.045;
#: the 300 best of single bytes 0.080 and 0.049; of 16M float32 the 800 best 0.113 and 0.109. But of six lines of 1M
#: float16 the 1000 best 0.046 and 0.058, of 16 0.053 and 0.090.
FEW_LINES = dict.fromkeys((1, 2, 4, 8), 0) if SIMULATED else {1: 16, 2: 4, 4: 16, 8: 16}
MOST_CHOSEN = {1: 150, 2: 600, 4: 800, 8: 800}
#: Of lines of up to so many bytes, more are chosen. The 2000 best of 1M float32 take 0.062 ms when they are chosen and
#: 0.068, of 4M 0.097 and 0.089, of four lines of 1M 0.069 and 0.091; of 1M int64 0.080 and 0.103, of six such lines
#: 0.097 and 0.227; of 131,072 float16 0.035 and 0.041, of 262,144 0.045 and 0.041; of 65,536 single bytes 0.043 and
#: 0.040, the 1000 best 0.036 and 0.039.
CHOSEN_BYTES = {1: 1 << 16, 2: 1 << 18, 4: 1 << 24, 8: 1 << 24}
#: Of lines of more bytes than that fewer are: of 100M float32 the 300 best take 0.187 ms and 0.184, the 800 best 0.36
#: and 0.19.
LONG_BYTES, MOST_OF_LONG = 1 << 28, 300
#: Inputs of so many bytes are chosen from if that is possible: a sort by many blocks takes up to three times as many
#: for itself.
LARGE_INPUT = 1 << 31
#: Of blocks with lists of more than so many elements a multiprocessor has two at most: with their lists, each has so
#: many bytes for maxima. Then chunks are smaller, and less is read again: the 2048 best of 256 lines of 131072 float32
#: take 0.118 ms on an H100, and 0.154 before, where a chunk was four times 16 bytes in four places.
LONG_LISTS, HALF_SHARED = (14, 400) if SIMULATED else (1 << 10, 107 << 10)
#: What blocks have of a multiprocessor's shared memory, and threads that it should have.
ALL_SHARED, BUSY = (1 << 20, 1) if SIMULATED else (224 << 10, 1024)
#: Lines up to this size, and so many times as many as elements in one, have a thread each.
MOST_SHORT, SHORT_LINES = (12, 1) if SIMULATED else (1024, 16)
#: If only the best is wanted, up to so many bytes, or so many if lines are no multiple of 16 or elements have 8 bytes,
#: and so many times as many: otherwise blocks find it. With threads and with blocks, in µs: 76,800 lines of 768 float32
#: 70 and 82, of 1024 118 and 107, of 513 78 and 64; float16 513 47 and 72; int64 384 47 and 44, 512 70 and 61; 20000 of
#: 1000 float32 79 and 34, 5000 of 300 26 and 10.
MOST_SHORT_BYTES, MOST_UNALIGNED, SHORT_LINES_BEST = (48, 40, 2) if SIMULATED else (3072, 1536, 80)
#: Lines that could have a warp each have a thread up to so many bytes: for up to 4 results, for more, and if they are
#: no multiple of 16. In µs, by threads, with k = 4, 8 and 16, and by warps: float32, 76,800 lines of 768 80, 101, 123,
#: and 136; 102,400 of 1024 132, 147, 207, and 181; 51,300 of 513 88, 100, 115, and 97; int64, 38,400 of 384 68, 88, 99,
#: and 88, 51,200 of 512 108, 141, 166, and 115; float16, 102,400 of 1024 99, 121, 151, and 183 (an H200).
FEW_RESULTS, MOST_OF_FEW, MOST_OF_MANY, MOST_SHIFTED = (4, *(1 << 13,) * 3) if SIMULATED else (4, 4096, 3072, 2048)
#: With fewer lines a block has more threads for each than a warp: 528 of 4096 float32, k = 64, take 0.016 ms by blocks
#: and 0.017 by warps, 1056 0.024 and 0.018, 16384 0.21 and 0.125.
WARP_LINES = 4 if SIMULATED else 640
#: Of lines beside each other that are longer than so many times k, groups have rivals; a group has several seats if
#: there are so many times as many groups as k, and as many threads as that, up to so many seats. Their numbers, for k
#: groups, come where a warp had its delegates: there are no fewer groups. On an H100, k = 8, 1000 columns of 4096
#: float32 take 0.019 ms so, 0.024 with four times as many threads at least, 0.029 by delegates without rivals.
LEAST_OF_K, GROUPS_OF_K, RIVAL_THREADS, MOST_SEATS = (4, 4, 4, 4) if SIMULATED else (16, 16, 132 * 256, 16)
#: More delegates than that find no room.
MOST_GROUPS = 64 if SIMULATED else 1024


def group_sizes(size: int, k: int, least: int, key_bytes: int, most: int, widest: int) -> tuple[int, ...]:
    """Return the sizes of groups, level by level, as powers of two, which make a choice cheap.

    A block can survey `most` units of 16 bytes. It looks at all uppermost delegates, and at k groups of each level. A
    group has as many elements as `least`, or more; at most `widest` times as many, and one of delegates 128 times as
    many. If there were fewer than two delegates for each group that is wanted, all groups would be.
    """
    best: tuple[int, ...] = ()
    cost = None
    of_unit = 16 // key_bytes
    for first in (least << i for i in range(widest.bit_length())):
        delegates = -(-size // first)
        for second in (1, *(of_unit << i for i in range(WIDEST.bit_length()))):
            upper = -(-delegates // second)
            new = upper + k * (first + (second if second > 1 else 0)) + (delegates if second > 1 else 0)
            new += size if upper < 2 * k else 0
            if upper <= most * of_unit and (cost is None or new < cost):
                best, cost = (first, second) if second > 1 else (first,), new
    return best


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


class TopKCall(Repeatable):
    """A top-k of one layout."""

    function = "top_k"

    def __init__(self, descriptor: Descriptor, lowering: Select, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        values, indices = (getattr(descriptor, name) for name in descriptor.output_fields)
        shape = output_shapes[0]
        self.outputs = Output("top_k", "out[0]", shape, values.dtype), Output("top_k", "out[1]", shape, indices.dtype)
        low = lowering
        self.k, self.size = low.k, low.size
        self.lines = product(line[0] for line in low.lines)
        self.width = values.itemsize
        self.is_float = is_float(low.data_type)
        self.lowering = low
        places = [(n, step) for n, step, _ in low.lines] + [(low.size, low.stride)]
        self.low, self.high = extent(*zip(*places, strict=True))
        self.high += self.width
        self.work = self.lines * low.size * self.width
        self.idle = low.k == 0 or self.lines == 0
        self.key_bytes = np.dtype(key_type(self.width)).itemsize
        self.rule = rule_numbers(low.data_type, low.largest, low.nan_first)
        self.packed = low.stride == self.width and all(step % self.width == 0 for _, step, _ in low.lines)
        #: All of every line is 16 bytes at a multiple of that, if the first ones are.
        self.quads = self.packed and low.size * self.width % 16 == 0 and not any(step % 16 for _, step, _ in low.lines)
        #: Lines lie beside each other.
        self.beside = not self.packed and bool(low.lines) and abs(low.lines[-1][1]) == self.width
        #: How short lines come to their threads.
        self.staging = WIDE if self.quads else SHIFTED if self.packed else BESIDE if self.beside else NARROW
        #: 16 aligned bytes have elements of neighbouring lines, if the first ones are aligned.
        self.columns = (
            bool(low.lines)
            and low.lines[-1][1] == self.width
            and low.stride > 0
            and not (
                low.lines[-1][0] * self.width % 16 or low.stride % 16 or any(step % 16 for _, step, _ in low.lines[:-1])
            )
        )
        self.group_bits: list[int] = []
        #: Delegates of a line, level by level.
        self.pitches: list[int] = []
        #: The blocks that find the delegates of each level.
        self.blocks: list[int] = []
        self.is_long = self.size >= LONG_LINE
        self.threads = LEAST_THREADS
        self.most = next((count for count in THREAD_LISTS if count >= self.k), 0)  # of a short line
        self.segment = short_rows.segment_of(self.width, self.most, self.size, self.lines)
        self.room = self.chunk = self.chunks = self.maxima = 0
        #: Whether there are threads enough to sort lists digit by digit.
        self.moves = False
        #: What the kernel for a line by a warp is compiled for, if there is one: see `top_k_warp.sizes_for`.
        self.warps: tuple[int, int, int] | None = None
        self.by_words = follows_rule(self.width, self.is_float, self.rule)
        #: Blocks of a line, if k = 1, and units of 16 bytes for each; or threads, and elements.
        self.parts = self.share = 1
        #: The kernels that do it, and how to start them.
        self.method, self.start = self.find_method()
        self.plans: dict[int, list[DeviceMemory]] = {}
        self.kernel = f"top_k {8 * self.width}-bit {'float' if self.is_float else 'integer'} {self.method} cuda"

    def find_method(self) -> tuple[str, Callable[[Launch], DeviceArray | None]]:
        """Choose the kernels, and work out the numbers that they need."""
        if self.idle:
            return "nothing", lambda to: None
        if self.packed and self.k > 1 and self.lines >= WARP_LINES and self.size > top_k_sorted.MOST_RANKED:
            self.warps = top_k_warp.sizes_for(self.size, self.k, self.width)
        most, lines = MOST_SHORT * self.width, SHORT_LINES
        if self.warps:
            before_warps = MOST_OF_FEW if self.k <= FEW_RESULTS else MOST_OF_MANY
            most = min(most, before_warps if self.quads else MOST_SHIFTED)
        if self.k == 1 and self.packed:
            wide = self.quads and self.width <= 4
            most, lines = min(most, MOST_SHORT_BYTES if wide else MOST_UNALIGNED), SHORT_LINES_BEST
        short = self.k <= THREAD_LISTS[-1] and self.size * self.width <= most and self.lines >= lines * self.size
        if self.k == 1 and not self.packed and self.lines >= LEAST_OWN_LINES and (self.beside or not short):
            parts = max(min(OWN_THREADS // self.lines, self.size // LEAST_ROWS), 1)
            self.share = -(-self.size // parts)
            self.parts = -(-self.size // self.share)
            return "best of lines by threads", self.start_best_by_threads
        if short:
            self.room = short_rows.row_bytes(self.width, self.most, self.segment, self.staging)
            return "short lines", self.start_short
        if self.k == 1 and self.packed:
            self.prepare_best()
            return "best", self.start_best
        if self.warps:
            return "lines by warps", self.start_warps
        if self.size <= top_k_sorted.MOST_RANKED:
            return "ranks", self.start_rank
        if self.prepare_beside():
            return "lines beside each other", self.start_beside
        sorting = self.sorting_threads()
        little = LEAST_LEFT[self.width] * self.k < self.size or (not sorting and self.work >= LARGE_INPUT)
        if little and self.k <= self.most_chosen() and self.prepare_choice():
            return f"{len(self.pitches)} levels of delegates", self.start_choice
        if sorting:
            self.threads = sorting
            return "sort of lines", self.start_sort_of_lines
        group = top_k_large.group_size(self.lines, self.size, self.k, self.width, self.packed)
        self.divide((group,) if group else ())
        kind = (self.width, self.is_float)
        self.large = LargeK(self.lines, self.size, self.k, *kind, group or 0, *(self.pitches or (0,)))
        return "sort", self.start_sort

    def most_chosen(self) -> int:
        """Return how many elements of a line are chosen at most, instead of sorted."""
        size = self.size * self.width
        if self.lines > FEW_LINES[self.width] or size <= CHOSEN_BYTES[self.width]:
            return MOST_K
        most = MOST_CHOSEN[self.width]
        return min(most, MOST_OF_LONG) if size > LONG_BYTES else most

    def sorting_threads(self) -> int:
        """Return how many threads sort a line whole, 0 if no block can."""
        threads = max(-(-self.size // (ITEMS * LANES)) * LANES, LEAST_THREADS)
        while 2 * threads <= min(self.size, MOST_THREADS) and 2 * threads * self.lines <= BUSY_THREADS:
            threads *= 2
        needed = top_k_sorted.sort_bytes(self.width, self.size, threads) + top_k_sorted.STATIC_BYTES
        return threads if self.size <= top_k_sorted.MOST_SORTED and needed <= shared_bytes() else 0

    def prepare_best(self) -> None:
        """Work out how many blocks look for the best element of a line: several, if the line is long."""
        units = self.size * self.width // 16 + 2  # at both ends they may lie in the line in part
        parts = 1
        if self.size * self.width >= LEAST_PARTED:
            parts = max(min(units // (UNITS * BLOCK), PART_BLOCKS // self.lines), 1)
        if parts > 1:
            self.threads = BLOCK
        else:
            self.threads = LANES
            while self.threads < MOST_ALONE and 2 * ROUNDS_ALONE * UNITS * self.threads <= units:
                self.threads *= 2
            self.widen(units, UNITS)
        at_once = UNITS * self.threads
        self.share = -(-units // (parts * at_once)) * at_once
        self.parts = -(-units // self.share)

    def prepare_beside(self) -> bool:
        """Work out the groups of lines beside each other, if their delegates are to have rivals; tell whether."""
        if not self.beside or self.is_long or self.k > top_k_columns.MOST_K or self.size < LEAST_OF_K * self.k:
            return False
        bits, threads = top_k_columns.SEAT_BITS, self.lines * self.size // (16 // self.width if self.columns else 1)
        while 2 << bits <= MOST_SEATS * top_k_columns.SEAT and (
            (self.size >> (bits + 1) >= GROUPS_OF_K * self.k and threads >> (bits + 1) >= RIVAL_THREADS)
            or self.size >> bits > MOST_GROUPS
        ):
            bits += 1
        groups = -(-self.size >> bits)
        self.group_bits, self.pitches = [bits], [groups]
        return groups <= MOST_GROUPS

    def prepare_choice(self) -> bool:
        """Work out how blocks choose: levels of delegates, chunks, lists and threads; tell whether they can."""
        least = 16 // self.width
        wanted = max(self.k + (self.k >> 1), min(max(least, AT_ONCE) * self.k, MOST_ROOM))
        self.room = LEAST_ROOM
        while self.room < wanted:
            self.room *= 2
        memory = FEW_MAXIMA_BYTES if self.lines < MANY_LINES else MAXIMA_BYTES
        chunks_for_each = 4
        listed = self.k + (self.k >> 2) + LANES if self.k > SORTED // 2 else 0
        if self.is_long:
            memory = LONG_LINE_BYTES - self.list_bytes()
        elif listed > LONG_LISTS:
            # What is sorted by the values or digits of keys needs no power of two.
            if 4 * (self.k + (self.k >> 1)) <= 3 * self.room <= 4 * ITEMS * MOST_THREADS:
                self.room = listed = 3 * self.room // 4
            memory = max(memory, HALF_SHARED - self.list_bytes())
            chunks_for_each = 8
        most = memory // self.key_bytes  # maxima
        units = -(-self.size // least) if self.packed else self.size
        longest = AT_ONCE * most if self.packed else LEAST_SIZE
        widest = WIDEST if self.packed else max(min(WIDEST, self.lines * self.size // SERIAL), LEAST_SERIAL)
        sizes: tuple[int, ...] = ()
        # Blocks with long lists have room for more maxima, and were not measured with delegates.
        if units > longest or (self.packed and listed <= LONG_LISTS and self.lags()):
            sizes = group_sizes(self.size, self.k, least, self.key_bytes, AT_ONCE * most, widest)
        if sizes:
            units = self.divide(sizes)
        if units > AT_ONCE * most:
            return False
        self.widen(units + self.k * sum(sizes) // least)
        # A chunk is small enough that there are four for each element that is wanted, if so many fit; or eight.
        self.chunk = AT_ONCE
        while self.chunk > 1 and units < chunks_for_each * self.chunk * self.k and 2 * units < most * self.chunk:
            self.chunk >>= 1
        # Blocks with so much memory that a multiprocessor has few of them have more threads, and so have those with
        # long lists.
        needed = self.list_bytes() + self.key_bytes * units // self.chunk
        while self.threads < MOST_THREADS and (
            self.threads * (ALL_SHARED // needed) < BUSY or ITEMS * self.threads < listed
        ):
            self.threads *= 2
        self.moves = ITEMS * self.threads >= listed > 0
        rows, rest = divmod(units, self.chunk * self.threads)
        self.chunks = rows * self.threads + min(-(-rest // min(self.chunk, 2)), self.threads)
        turns = -(-(units + 1) // (AT_ONCE * self.threads))
        self.maxima = turns * AT_ONCE // self.chunk * self.threads
        return True

    def lags(self) -> bool:
        """Tell whether all multiprocessors find the delegates of few lines sooner than blocks read a line each."""
        size: int = self.size * self.width
        sooner = size / BLOCK_RATE - self.lines * size / ALL_RATE  # never with 93 lines or more
        return sooner > CHOICE_TIME + TIME_FOR_EACH[self.width] * self.k

    def list_bytes(self) -> int:
        """Return the bytes of the lists of keys, positions and groups of a block that chooses."""
        return (self.key_bytes + 2 * (8 if self.is_long else 4)) * self.room

    def divide(self, sizes: tuple[int, ...]) -> int:
        """Divide lines into groups, level by level; return how many units of 16 bytes the uppermost delegates have."""
        self.group_bits, self.pitches = [size.bit_length() - 1 for size in sizes], []
        count = self.size + (16 // self.width - 1 if self.packed else 0)  # the first group may begin before the line
        for size in sizes:
            count = -(-count // size)
            count = -(-count * self.key_bytes // 16) * 16 // self.key_bytes  # delegates are read by 16 bytes
            self.pitches.append(count)
        self.blocks = [
            -(-self.lines * self.shares(level, width)[0] // WARPS)
            for level, width in zip(range(len(sizes)), (self.width, self.key_bytes), strict=False)
        ]
        return count * self.key_bytes // 16

    def widen(self, units: int, looks: int = LOOKS) -> None:
        """Let blocks have more threads, if each would look at more units than that."""
        while self.threads < MOST_THREADS and (
            self.threads * looks < units and 2 * self.threads * self.lines <= BUSY_THREADS
        ):
            self.threads *= 2

    def numbers(self, level: int) -> ndarray[Any, Any]:
        """Return the numbers of a plan; `level` is what delegates are found for: elements, delegates."""
        low, levels = self.lowering, len(self.pitches)
        lines = low.lines
        size, stride, rule, width = low.size, low.stride, self.rule, self.width
        if level:
            size, stride, rule, width = self.pitches[0], self.key_bytes, (0, 0, 0), self.key_bytes
            lines = ((self.lines, size * stride, 0),)
        bits, pitches = [*self.group_bits[level:], 0, 0][:2], [*self.pitches[level:], 0, 0][:2]
        parts, rounds = self.shares(level, width) if level < len(self.pitches) else (self.parts, self.share)
        numbers = [size, stride, low.output_stride, low.k, low.index_itemsize, *rule, self.lines, self.room, levels]
        numbers += [*bits, *pitches, *reciprocal(parts), rounds, self.segment, self.staging]
        numbers += [max(self.chunk.bit_length() - 1, 0), self.chunks, self.low, self.high, len(lines)]
        for count, step, out_step in lines:
            numbers += [*reciprocal(max(count, 1)), step, out_step]
        return np.array(numbers, np.int64)

    def __call__(self, a: DeviceArray, out: Any) -> TopK:
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, out)
        of_values, of_indices = self.outputs
        if out is None:
            values, indices = of_values.new(a), of_indices.new(a)
        else:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(f"top_k: out: found {type(out).__name__}, expected a pair (values, indices)")
            if out[0].__class__ is ndarray and a.library is OWN:  # the input is a copy
                for output, array in zip(self.outputs, out, strict=True):
                    check_out(output.function, output.name, array, output.shape, output.dtype)
                if np.shares_memory(*out):
                    raise ValueError(SHARED_OUTPUTS)
                return self.through_copies(a, TopK(*out))
            values, packed = of_values.view(a, out[0])
            indices, both = of_indices.view(a, out[1])
            if packed and both and self.meet(values.pointer, indices.pointer):
                raise ValueError(SHARED_OUTPUTS)
            if not (packed and both) or self.clash(a, values.pointer, indices.pointer):
                return self.through_copies(a, TopK(*out))
        if not self.idle:
            self.launch_recorded((a,), (values, indices), partial(self.launch, a, values, indices))
        if out is not None:
            return TopK(*out)
        return TopK(a.library.finish(values, a.stream), a.library.finish(indices, a.stream))

    def repeat(self, a: Any, *, out: Any) -> TopK | None:
        """Make the call again with arrays of a library; return None if they are not like the recorded ones."""
        again = self.again
        if again is None or (out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2)):
            return None
        result = TopK(*out) if out is not None else TopK(*map(again.new, self.outputs))
        return None if again((a, *result)) is None else result

    def clash(self, a: DeviceArray, values: int, indices: int) -> bool:
        """Tell whether a packed output lies in the input."""
        low, high = a.pointer + self.low, a.pointer + self.high
        after_values, after_indices = values + self.outputs[0].size, indices + self.outputs[1].size
        return (low < after_values and values < high) or (low < after_indices and indices < high)

    def meet(self, values: int, indices: int) -> bool:
        """Tell whether packed outputs share memory."""
        return values < indices + self.outputs[1].size and indices < values + self.outputs[0].size

    def launch(self, a: DeviceArray, values: DeviceArray, indices: DeviceArray) -> None:
        """Run the kernels."""
        device, stream = a.device, a.stream
        plans = self.plans.get(device)
        if plans is None:
            levels = max(len(self.pitches) + (self.start == self.start_sort), 1)
            new = [DeviceMemory(device, self.numbers(level)) for level in range(levels)]
            plans = self.plans.setdefault(device, new)
        addresses = [plan.address for plan in plans]
        others = join(stream, a, values, indices)
        memory = self.start(Launch(device, stream, addresses, a, values, indices))
        part(device, stream, others)
        del memory  # only now

    def start_short(self, to: Launch) -> None:
        """Let threads each have a short line."""
        kernel = top_k_short.short_kernel(self.width, self.rule[1], self.most)
        blocks = -(-self.lines // SHORT_BLOCK)
        kernel(*to.where, blocks, *to.tensors, to.plans[0], threads=SHORT_BLOCK, shared=SHORT_BLOCK * self.room)

    def start_warps(self, to: Launch) -> None:
        """Let warps each choose the best of a line."""
        assert self.warps
        kernel = top_k_warp.warp_kernel(self.width, self.rule[1], self.by_words, *self.warps)
        kernel(*to.where, -(-self.lines // WARPS), *to.tensors, to.plans[0])

    def start_best(self, to: Launch) -> DeviceArray | None:
        """Let blocks find the best element of each line, or of its parts and then of these."""
        kernel = top_k_best.best_kernel(self.width, self.is_float)
        return self.find_best(to, kernel, self.lines * self.parts, self.threads)

    def start_best_by_threads(self, to: Launch) -> DeviceArray | None:
        """Let threads do that."""
        kernel = top_k_best.best_by_threads_kernel(self.width, self.is_float)
        return self.find_best(to, kernel, -(-self.lines * self.parts // BLOCK), BLOCK)

    def find_best(self, to: Launch, kernel: Kernel, blocks: int, threads: int) -> DeviceArray | None:
        """Run the kernel, and the one for the best elements of parts; return memory that is in use."""
        memory = scratch(to.a, 16 * self.lines * self.parts) if self.parts > 1 else None
        arguments = (*to.tensors, to.plans[0], memory.pointer if memory else 0)
        kernel(*to.where, blocks, *arguments, threads=threads)
        if memory:
            threads = BLOCK if self.parts > FEW_PARTS else LANES
            top_k_best.best_part_kernel(self.width)(*to.where, self.lines, *arguments, threads=threads)
        return memory

    def start_rank(self, to: Launch) -> None:
        """Let warps each rank a line."""
        own_count = next(count for count in top_k_sorted.OWN_COUNTS if count * LANES >= self.size)
        kernel = top_k_sorted.rank_kernel(self.width, self.is_float, own_count)
        kernel(*to.where, -(-self.lines // WARPS), *to.tensors, to.plans[0])

    def start_sort_of_lines(self, to: Launch) -> None:
        """Let blocks each sort a line."""
        kernel = top_k_sorted.sort_kernel(self.width, self.is_float)
        shared = top_k_sorted.sort_bytes(self.width, self.size, self.threads)
        kernel(*to.where, self.lines, *to.tensors, to.plans[0], threads=self.threads, shared=shared)

    def start_sort(self, to: Launch) -> DeviceArray:
        """Sort what can be among the best of each line; return memory that is in use until all is done."""
        find = partial(self.find_delegates, to)
        return self.large(*to.where, to.plans, to.a, to.values, to.indices, find)

    def start_choice(self, to: Launch) -> DeviceArray | None:
        """Find delegates, and choose by them; return memory that is in use until all is done."""
        memory = None
        delegates = upper = 0
        if self.pitches:
            counts = [self.lines * pitch for pitch in self.pitches]
            memory = scratch(to.a, sum(counts) * self.key_bytes)
            delegates = memory.pointer
            upper = delegates + counts[0] * self.key_bytes
            self.find_delegates(to, delegates)
            if len(counts) == 2:
                kernel = top_k_delegates.delegate_kernel(self.key_bytes, False)
                kernel(*to.where, self.blocks[1], delegates, upper, to.plans[1])
        top_k_block.choose_kernel(self.width, self.is_float, self.is_long, self.moves)(
            *to.where,
            self.lines,
            *to.tensors,
            delegates,
            upper,
            to.plans[0],
            threads=self.threads,
            shared=self.list_bytes()
            + max(self.key_bytes * self.maxima, count_bytes(self.threads) if self.moves else 0),
        )
        return memory

    def start_beside(self, to: Launch) -> DeviceArray:
        """Find delegates and their rivals, and let warps choose by them; return memory that is in use until then."""
        groups, x, plan = self.pitches[0], to.a.pointer, to.plans[0]
        memory = scratch(to.a, top_k_columns.scratch_bytes(groups, self.lines, self.width))
        wide = self.columns and x % 16 == 0
        threads = self.lines * groups // (16 // self.width if wide else 1)
        top_k_columns.rival_kernel(self.width, self.is_float, wide)(
            *to.where, -(-threads // BLOCK), x, memory.pointer, plan
        )
        blocks, shared = -(-self.lines // WARPS), WARPS * groups * self.key_bytes
        kernel = top_k_columns.beside_kernel(self.width, self.is_float)
        kernel(*to.where, blocks, *to.tensors, memory.pointer, plan, shared=shared)
        return memory

    def find_delegates(self, to: Launch, delegates: int) -> None:
        """Find the delegates of the elements."""
        x, plan = to.a.pointer, to.plans[0]
        if self.packed:
            top_k_delegates.delegate_kernel(self.width, self.is_float)(*to.where, self.blocks[0], x, delegates, plan)
        else:
            wide = self.columns and x % 16 == 0
            threads = self.lines * self.pitches[0] // (16 // self.width if wide else 1)
            kernel = top_k_delegates.strided_delegate_kernel(self.width, self.is_float, wide)
            kernel(*to.where, -(-threads // BLOCK), x, delegates, plan)

    def shares(self, level: int, width: int) -> tuple[int, int]:
        """Return into how many parts a line is cut for its delegates, and how many rounds a warp needs for one."""
        rounds = max(-(-(self.pitches[level] * width << self.group_bits[level]) // (16 * QUADS * LANES)), 1)
        of_warp = min(max(self.lines * rounds // BUSY_WARPS, 1), MOST_ROUNDS)
        return -(-rounds // of_warp), of_warp

    def through_copies(self, a: DeviceArray, out: TopK) -> TopK:
        """Write to an output that is strided, lies in the input, or is in host memory."""
        found = self(a, None)
        for array, new in zip(out, found, strict=True):
            if array.__class__ is ndarray:
                array[...] = new
            else:
                a.library.assign(array, new)
        return out
