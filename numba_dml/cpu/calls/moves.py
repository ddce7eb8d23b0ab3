"""The calls of gather and scatter: how a lowering becomes a plan, and which kernel runs it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, cached_property
from math import gcd
from typing import Any

import numba
import numpy as np
from numba import types
from numpy import ndarray

from ..._core.enums import TensorDataType as D
from ..._core.lowering import Move
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.tensor import data_type_name, dtype_of, element_size, extent_of, packed_strides, product
from ..._jit.machine import CACHE_LINE, cache_bytes
from ..._jit.memory import ANY, SIGNED, SIGNED_REFS, UNSIGNED, UNSIGNED_REFS, reference_to
from ..drivers import OVERLAP
from ..kernels import (
    gather_blocks,
    gather_direct,
    scatter_binned,
    scatter_general,
    scatter_noted,
    scatter_own,
    scatter_places,
)
from ..launch import launcher, takes_one
from ..primitives import reductions
from ..primitives.keys import SPARE
from ..primitives.moves import plan as moves_plan
from ..primitives.moves import scatter_phases, update_slices
from ..primitives.moves import strips as moves_strips
from ..primitives.moves.offsets import finder_address

_BYTES = np.dtype(np.uint8)
_BOUNDS = {"clamp": moves_plan.CLAMP, "drop": moves_plan.DROP}

#: Offsets that all rows of a gather have in common are kept up to this many points: 512 KiB, half of a common L2.
COMMON_POINTS = 1 << 16
#: A row of data up to this size is asked for before it is read, if there is a point for every line of it.
ROW_AHEAD_BYTES = 1 << 17
#: From this size on an output is written past the caches. Two threads copy 16 MiB with 39 GB/s and past the caches with
#: 26, 32 MiB with 26 either way, 256 MiB with 18 and 25.
STREAM_BYTES = 1 << 25
#: What the tile of an operation along another axis than the last should touch. Strips of (2048, 4096) f4 took 47 ms on
#: one thread with 2 MiB, 52 with 1, 64 with 0.5 (short rows cost), whole rows 55.
TILE_BYTES = 1 << 21
#: Strips of a scatter's output that stay in a cache, beside indices and updates that go through it. Two threads, f4
#: along axis 0, in ms, not cut (each thread reads all indices), by threads alone, and in strips of 2, 1 and 0.5 MiB:
#: (1000, 1000) 2.5, 1.7, 1.7, 1.3 and 1.1; (2000, 2000) 16, 11, 8, 6.0 and 6.2; (8000, 2000) 90, 52, 39, 39 and 45.
#: Sums: (1000, 1000) 2.0, 1.3, 1.3 and 1.2; (2000, 300) 1.1, 0.86, 0.85 and 0.98; (5000, 1000) 20, 16, 16 and 20;
#: (8000, 1000) 37, 28, 42 and 45.
SMALL_TILE = 1 << 20
L2_BYTES = cache_bytes(2, assumed=1 << 21)
ROOMY = L2_BYTES >= 2 * SMALL_TILE
#: A gather's tile is so many elements wide, or the axis is too long for tiles: their rows are short, and elsewhere. In
#: ms, in tiles, row by row, and PyTorch, two threads of an Intel Xeon with an L2 of 2 MB, what tiles touch, and with
#: a large L3: (20000, 2000) f8 398 and 178, (10000, 1000) 64 and 21, (8000, 1024) 60, 33 and 92, f4 36, 22 and 58, f8
#: (3000, 1000) 10.3, 8.1 and 15.3, (2000, 2048) 16.6, 11.6 and 26, f4 (4000, 4096) 50 and 39, but (5000, 3000) 49, 53
#: and 162, (2000, 2000) 6.5 and 5.5 (on one thread 10.7 and 12.0), (1000, 3000) 2.8 and 3.7. Of an AMD EPYC with 512
#: KB: (20000, 2000) f8 845 and 448, (10000, 1000) 125 and 112, (8000, 1024) 90, 90 and 217, f4 71, 89 and 200.
LEAST_TILE = 160 if ROOMY else 32
#: Rows of them have so many bytes at least, and so many if updates are combined: where the L2 has room for two of them,
#: threads alone are sooner done than with narrower ones, and with any up to so many bytes of an output. Two threads of
#: an Intel Xeon with 2 MB, in ms, in strips, alone, and PyTorch: (16000, 300) 23.8, 13.6 and 20.2, (8000, 300) 10.6,
#: 7.1 and 10.4, (10000, 600) 30, 20 and 29, (14500, 200) f8 20, 12 and 15.8, but (5000, 1000) 12.8, 14.7 and 20.1; sums
#: of f8 (14500, 200) 21, 13 and 26, (4000, 700) 17.6, 11 and 18. Of an AMD EPYC with 512 KB: (16000, 100) 11.2, 6.4 and
#: 11.8, (10000, 300) 17.7, 13.6 and 19.6, but (9000, 400) 17.2, 20.2 and 23.9; sums (4000, 1000) 15, 48 and 101,
#: (14500, 313) 23, 62 and 104, f8 (8000, 300) 15, 34 and 52.
LEAST_WIDTHS = {True: (256, 1 << 10), False: (128, 128)}
MOST_ALONE = 13 << 20
#: Strips are packed where rows are so many bytes apart, or a multiple: a cache has few places for them. Elsewhere it
#: does not pay if the L2 is large, in ms, packed and not: (2000, 1000) 4.2 and 3.7, in place 5.6 and 3.5, (1000, 1000)
#: f8 2.9 and 2.4, in place 3.5 and 2.2; (2000, 2048) in place 11 and 14, (2048, 4096) 17 and 31. If it is small, new
#: outputs are packed, (8000, 1000) 27 and 37, and larger ones in place, (4000, 1000) 20 and 22; smaller ones have no
#: strips in place: (1000, 1000) 2.9 and 2.3, PyTorch 3.5, f8 5.1, 3.7 and 4.1, (500, 500) f8 0.56, 0.38 and 0.82.
CONFLICT_BYTES = 1 << 10
#: And new ones are if a thread's part of a row has less than so many bytes, and of all rows less than so many: two of
#: them share a line of each row, and wait for it. Two threads of an Intel Xeon, in µs, not packed, packed, and PyTorch:
#: (1212, 55) f8 270, 227 and 270, (3000, 52) f8 626, 532 and 573, (1212, 110) f4 370, 280 and 454, (3000, 200) f4 1456,
#: 1395 and 1836, but (6000, 120) f8 2110, 2522 and 3104; in place, where that copies twice, 213, 241 and 212, 537, 575
#: and 401, 362, 348 and 392. On four and eight threads it changes little.
NARROW_STRIP, MOST_NARROW = 8 * CACHE_LINE, 1 << 21
#: A gather's tiles are packed where rows are as far apart, or the L2 is small, if it takes one of so many elements or
#: more, of a matrix of more than so many tiles. Two threads of an AMD EPYC, in ms, not packed, packed, and PyTorch:
#: (2048, 4096) f4 45, 26 and 211, f8 66, 37 and 221, (4000, 1024) f4 21, 16 and 94, (2000, 2000) 16, 12 and 81, but
#: (8000, 300) 16.9, 17.8 and 42, (20000, 256) 47, 48 and 111, and (1000, 512) f8 1.5, 1.8 and 2.6. They are so many
#: elements wide, or not packed; in ms, not packed and packed, of 16 to 40 on the EPYC f4 (16000, 2048) 415 and 255,
#: (8000, 1024) 65 and 53, f8 (8000, 1024) 109 and 83, (3000, 2048) 62 and 39, of 8 slower than row by row; of an Intel
#: Xeon f4 (1000, 2048) 5.2 and 3.8, (1000, 16384) 54 and 30, (2048, 4096) 25.6 and 19.8, but of 65 (4000, 2048) 31 and
#: 32, f8 of 32 and 16 (4000, 1024) 20 and 23, (8000, 1024) 54 and 82, and with rows that are not in each other's way
#: (3000, 3000) 36 and 50.
PACKED_PART, PACKED_TILES = 2, 4
PACKED_WIDTH = 96 if ROOMY else 16
#: Rows of such an output are cut if they have so many bytes, or so many if updates are combined: 100 f4, not cut and in
#: strips, 1000 rows 0.132 and 0.116, 5000 0.74 and 0.80, 16,000 4.2 and 3.4, sums 0.136 and 0.130, 0.74 and 1.04, 3.2
#: and 5.2. If elements have one or two bytes, a line is enough, since it has so many: (14500, 313) u1 takes two threads
#: of an AMD EPYC 14 ms if each reads all indices, 8.0 in strips, PyTorch 16, sums 21, 12 and 42; of an Intel Xeon 23,
#: 11 and 18.5. Rows of 32 and 52 f4 and f8 take 0.8 to 1.8 times as long if they are cut.
LEAST_CUT, LEAST_SUM_CUT = 6 * CACHE_LINE, 15 * CACHE_LINE
SMALL_ITEM = 2
#: Elements of a row of a gather's tile that is as small. Two threads, in ms, before and now, f4: (413, 3533) 1.3 and
#: 1.13, (1000, 3533) 4.1 and 3.2, (100, 14000) 1.24 and 0.83, (60, 80000) 4.3 and 2.9; not for several matrices, (20,
#: 300, 2048) 19 and 23, nor for narrower ones, (2048, 4096) 17 and 21, (1000, 1000) f8 1.0 and 1.15.
WIDE_TILE = 256
#: What a strip of a scatter's output should be, which is copied and written to in one go, where it is contiguous.
STRIP_BYTES = 1 << 18
#: A new output of a scatter is written in its own order if its slices have this many bytes, and if the 4 bytes that are
#: noted for each are no more than the updates. On one thread, of 64 MB in slices of 16 bytes a half is updated in 48 ms
#: (by copy and updates 87), an eighth in 25 (21); of 64 bytes in 18 (38) and 9 (12); of 8 bytes in 100 (45).
PLACE_BYTES = 16
#: Single elements that go anywhere are sorted by strips of the output if it has BINNED_BYTES, and an update for each
#: BINNED_PART of them, or DENSE_BYTES, one for every few elements (`strips.SPARSE`), and more than one thread. Two
#: threads of an AMD EPYC with an L2 of 512 KB, in ms, directly, sorted, and PyTorch: 64 MB of f4 with an update per 64
#: bytes 16.1, 14.1 and 26, per 8 bytes 89, 54 and 109, sums 160, 64 and 220, (923296, 4) i8 along axis 0 39, 27 and
#: 37, (3000000,) f4 23, 18 and 39, 1M of 3M 7.4, 7.1 and 14; but (100000, 20) f4 7.4, 9.9 and 8.7, 1M of 1M 4.0, 5.5
#: and 3.2, one thread 3M of 3M 18, 26 and 22, 125,000 of 2M 0.8, 1.3 and 0.6, of 4M 2.0, 2.2 and 2.0. Where the L2 is
#: large, fewer than BINNED_THREADS write directly, if indices are read where they are, but combine sorted: an Intel
#: Xeon with 2, 4, 8, 16 threads, 256 MB with an update per 64 bytes, directly 47, 30, 22, 15, sorted 59, 32, 19, 12;
#: 64 MB with one per 8 bytes 50, 32, 21, 23 and 64, 44, 20, 13; sums 68, 53, 42, 24 and 65, 40, 21, 13.
BINNED_BYTES, DENSE_BYTES = 1 << 25, 1 << 25 if ROOMY else 10 << 20
BINNED_PART = 128
BINNED_THREADS = 8 if ROOMY else 1
#: A strip, and how many there are at most (then strips are larger): as many as can be written to in turn.
#: 64 MB take 7.6 ms with strips of 256 KiB to 1 MiB, 9 with 64 KiB, 11 with 32.
BIN_BYTES = 1 << 18
MOST_BINS = 1 << 10
#: An output of up to so many bytes is small: each share of the points has one of its own, if it has so many times as
#: many points as there are elements, and so many. 1M updates of 2000 float32 take two threads of an Intel Xeon 1.8 ms
#: so, four 0.80, eight 0.59, 16 0.32, and one alone 0.7; 1M maxima of float32, when each was a branch, 0.9, 0.57,
#: 0.39, 0.33, and 1.5.
OWN_BYTES, UPDATES_PER_OWN, LEAST_SHARE = 1 << 20, 4, 1 << 12
#: So there must be four shares, or for reductions so many updates: two threads take 0.65 to 0.7 times as long as one
#: for 200,000 and 300,000 into 2000, 1.3 times for 100,000; an AMD EPYC 0.7 to 1.0 times for 1M.
LEAST_SHARES, COMBINED_BY_FEW = 4, 1 << 18
#: In place a new output is made and copied if the indices have so many times as many bytes, and it counts as so many at
#: least: 1M sums into 2000 float32 take one thread of an AMD EPYC 2.2 ms so, and 2.9 if indices are looked at first,
#: into 100,000 3.4 and 4.1, 1M updates of 2000 1.3 and 1.9.
IN_PLACE_COPY, LEAST_COPY = 8, 1 << 15
#: A slice of several elements counts as so many bytes for the choice of the driver, beside its own, which count less,
#: since they are copied so many times as fast as single elements. One thread and two, in µs: an Intel Xeon, 4000 slices
#: of 16 bytes 11.2 and 11.9, 2000 of 28 8.1 and 8.4, 4000 13.9 and 11.7, 2000 of 64 15.8 and 12.7, 1000 of 256 10.4
#: and 9.6; an AMD EPYC, where threads wake later, 2000 of 28 7.3 and 12.6, 2000 of 256 32 and 29.
SLICE_WORK, COPY_SPEED = 16, 6
#: One thread writes elements anywhere in a cached output sooner than so few threads, or so few points than any: others
#: wake first, and each of them reads all indices. 10,000 sums take one thread 0.016 ms and two 0.033, 400,000 updates
#: of 100,000 float32 one of an AMD EPYC 0.6 and two 1.1. And it combines them sooner than any number of threads, if
#: they are more than the elements: 1M float32 into 2000 take one thread of an Intel Xeon 1.0 ms, four 1.8, 16 2.0, into
#: 50,000 1.4, 1.9 and 2.0, into 200,000 1.7, 1.9 and 2.0, but 200,000 into as many 0.40 to 0.53, 0.40 and 0.39. Threads
#: with points of their own wait for each other's cache lines.
ALONE_THREADS, ALONE_POINTS = 4, 1 << 15
#: So many bytes of an output count as cached, or more where the L2 is small: beyond that, two threads of an Intel Xeon
#: with a large one, one, and PyTorch take, in ms, for 1M updates of 300,000 f4 2.1, 2.1 and 4.9, for sums 2.9, 3.4 and
#: 3.0, for 50,000 of 500,000 0.20, 0.31 and 0.75.
ALONE_BYTES = {False: update_slices.CACHED_BYTES, True: 1 << 22}
#: More of them only for few threads and fewer points than these, without and with a reduction, that are not unique. Two
#: threads of an AMD EPYC, and one, in place: 50,000 of 500,000 f4 0.12 and 0.09, sums 0.19 and 0.12, 100,000 0.26 and
#: 0.20, 0.37 and 0.39, 400,000 of 900,000 1.1 and 1.0, 1.9 and 2.6; 1M in a new output of 300,000 2.4 and 3.4, of
#: 900,000 3.7 and 4.3, sums 3.4 and 4.2, 4.8 and 6.3; unique 300,000 of 900,000 0.44 and 0.74, sums 0.77 and 1.45.
ALONE_POINTS_BEYOND = 1 << 19, 1 << 16
#: Threads share a loop whose iterations write to neighbours if these are more than so many bytes, divided by the
#: threads, and than so many. Otherwise each of them reads all indices, so it is the more worth the more there are; but
#: threads that write to one cache line wait for each other, and strips are rows of few points. f4 along axis 0 in ms,
#: as one and in strips: two threads (20000, 300) 35 and 44, (10000, 600) 33 and 30, (10000, 1100) 93 and 54; four
#: (10000, 600) 21 and 15, (10000, 256) 6.6 and 9.3; 16 (10000, 256) 5.2 and 5.6, (20000, 300) 14 and 9, (4096, 2048)
#: 12 and 6.5.
NEAR_BYTES, LEAST_NEAR = 128 * CACHE_LINE, 16 * CACHE_LINE
#: Rows of fewer points cost more than their points do.
SHORT_ROW = 64
#: Tiles are shared among threads, so there must be a line for each of many.
TILE_ROW = 64 * CACHE_LINE


def _by_runs(lowering: Move) -> Move:
    """Return the same move with one contiguous run per slice: other dimensions of the slices are loops.

    The loops repeat their point's index (stride 0). Where rows of them would be short, and their elements are farther
    apart than those of the indexed axis, points go within them: those of one element stay in order.
    """
    outer = list(lowering.slices)
    runs = tuple(outer[-1:])
    if outer and outer[-1][1] == lowering.itemsize:
        outer.pop()
    else:
        runs = ()
    if not outer:
        return lowering
    count = product([n for n, _ in outer])
    if count == 0:  # indices are looked at even so
        return replace(lowering, slices=((0, lowering.itemsize),))
    packed = packed_strides([n for n, _ in outer])
    *loops, last = [(n, s, i, p * count) for n, s, i, p in lowering.loops]
    repeats = [(n, s, 0, p) for (n, s), p in zip(outer, packed, strict=True)]
    short = outer[-1][0] < min(SHORT_ROW, last[0])
    apart = abs(outer[-1][1]) > abs(lowering.coordinates[-1][1])
    inner = [*repeats, last] if short and apart else [last, *repeats]
    return replace(lowering, loops=tuple(loop for loop in (*loops, *inner) if loop[0] != 1), slices=runs)


class _MoveCall:
    """What gather and scatter calls share: the plan, and the error for a bad index."""

    function: str
    kernel: str
    #: The numbers that a kernel reads: a list until all are set, then an array.
    plan: Any
    #: One thread writes, since it is sooner done than several.
    alone = False

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.lowering = lowering = _by_runs(lowering)
        self.function = lowering.function
        self.dtype = dtype
        self.shape = shape
        self.empty = allocator(shape, dtype)
        points = product([loop[0] for loop in lowering.loops])
        elements = product([size for size, _ in lowering.slices])
        index_bytes = product(lowering.index_shape) * element_size(lowering.index_type)
        self.moved = points * elements * lowering.itemsize
        self.work = 2 * self.moved + index_bytes
        # What counts when the driver is chosen.
        self.effort = self.work
        if elements > 1:
            self.effort = min(self.work, 2 * self.moved // COPY_SPEED + SLICE_WORK * points + index_bytes)
        self.points = points
        self.index_bytes = index_bytes

    def make_plan(self, unit: int) -> list[int]:
        """Return the numbers for a kernel that moves units of `unit` bytes."""
        low = self.lowering
        run = low.itemsize * product([size for size, _ in low.slices])
        places = [(n, s) for n, s, _, _ in low.loops]
        places += low.coordinates
        starts_low, starts_high = extent_of(places)
        # A list takes these numbers in a tenth of the time that an array does.
        plan = [0] * moves_plan.HEADER
        plan[moves_plan.POINTS] = self.points
        plan[moves_plan.LOOPS] = len(low.loops)
        plan[moves_plan.COORDS] = len(low.coordinates)
        plan[moves_plan.RUN] = run // unit
        plan[moves_plan.KIND] = moves_plan.INDEX_KINDS.index(data_type_name(low.index_type))
        plan[moves_plan.BOUNDS] = _BOUNDS.get(low.bounds, moves_plan.RAISE)
        first, last = low.reach or (starts_low, starts_high)
        plan[moves_plan.LOW] = first
        empty_data = not (self.points and run and product([size for size, _ in low.coordinates]))
        plan[moves_plan.HIGH] = first if empty_data else last + run
        plan[moves_plan.STARTS_LOW] = starts_low
        plan[moves_plan.STARTS_HIGH] = starts_high + 1
        plan[moves_plan.PACKED_BYTES] = self.moved
        plan[moves_plan.INDEX_BYTES] = self.index_bytes
        for n, s, i, p in low.loops:
            plan += (n, s, i, p * run)
        for place in low.coordinates:
            plan += place
        return plan

    def set_finder(self) -> None:
        """Compile or load the finder that the kernel calls, and put its address into the plan."""
        self.plan[moves_plan.FINDER] = finder_address(self.plan[moves_plan.COORDS] > 1)

    def widest_unit(self) -> int:
        """Return the widest unit that the contiguous runs of the slices consist of."""
        run = self.lowering.itemsize * product([size for size, _ in self.lowering.slices])
        return gcd(run, 8)

    def index_error(self, a: Any, indices: Any, position: int) -> IndexError:
        """Return the error for the index at a flat position."""
        value = int(indices[np.unravel_index(position, indices.shape)])
        return self.lowering.index_error(a.ndim, indices.shape, position, value)


class GatherCall(_MoveCall):
    """A gather of one layout."""

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(lowering, dtype, shape)
        lowering = self.lowering
        unit = self.widest_unit()
        self.plan = plan = self.make_plan(unit)
        plan[moves_plan.FILLED] = 1
        plan[moves_plan.STREAM] = self.moved >= STREAM_BYTES
        plan[moves_plan.CACHED] = 2 * (plan[moves_plan.HIGH] - plan[moves_plan.LOW]) <= L2_BYTES
        *rows, (length, step, index_step, _) = lowering.loops
        if rows:  # a single loop has neither rows with indices in common nor tiles
            common = index_step and not any(index for _, _, index, _ in rows)
            plan[moves_plan.COMMON] = bool(common and length <= COMMON_POINTS)
            if len(lowering.coordinates) == 1 and index_step and not step:
                span = product(lowering.coordinates[0])
                if 0 < span <= min(ROW_AHEAD_BYTES, CACHE_LINE * length):
                    plan[moves_plan.AHEAD] = span
            lines = product([size for size, _ in lowering.coordinates])
            slice_bytes = self.moved // max(self.points, 1)
            tile = _tile(len(lowering.loops), length, step, index_step, lines, slice_bytes)
            plan[moves_plan.TILE] = 0 if common else tile
            pack_tiles(plan)
        width = index_width(plan)
        data = UNSIGNED_REFS[unit]
        code, index = (gather_direct.take_kernel, SIGNED_REFS[width]) if width else (gather_blocks.gather_kernel, ANY)
        self.launch, driver = launcher(code, (data, index, data, ANY), self.effort, prepare=self.set_finder)
        self.plan = np.fromiter(self.plan, np.int64, len(self.plan))
        self.kernel = f"gather {'direct ' if width else ''}{8 * unit}-bit {driver}"

    def __call__(self, a: Any, indices: Any, out: Any) -> Any:
        if out is None:
            result = self.empty(self.shape, self.dtype)
        elif check_out(self.function, "out", out, self.shape, self.dtype):
            result = out
        else:
            out[...] = self(a, indices, None)
            return out
        status = self.launch(a, indices, result, indices, self.plan)
        if status == 0:
            return result
        if status == OVERLAP:
            out[...] = self(a, indices, None)
            return out
        raise self.index_error(a, indices, status - 1)


class ScatterCall(_MoveCall):
    """A scatter of one layout."""

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], kernel_copies: bool) -> None:
        super().__init__(lowering, dtype, shape)
        lowering = self.lowering
        self.kernel_copies = kernel_copies
        whole = product(shape) * lowering.itemsize
        reduction = reductions.REDUCTIONS.index(lowering.reduction)
        if reduction == reductions.NONE:
            unit = self.widest_unit()
            data = UNSIGNED_REFS[unit]
        else:
            unit = lowering.itemsize
            element, reduction = _arithmetic_type(lowering.data_type, reduction)
            data = reference_to(element)
        self.plan = plan = self.make_plan(unit)
        plan[moves_plan.REDUCTION] = reduction
        plan[moves_plan.COPY] = whole if kernel_copies else 0
        plan[moves_plan.STREAM] = whole >= STREAM_BYTES
        split = _split(lowering, self.moved, self.points, whole)
        plan[moves_plan.SPLIT] = split
        if split >= 0:
            size, step, _, _ = lowering.loops[split]
            strides = packed_strides(shape, lowering.itemsize)
            period = min([s for s in strides if s > (size - 1) * step], default=max(whole, 1))
            plan[moves_plan.PERIOD] = period
            *strips, packs = _strips(lowering, period, whole, numba.config.NUMBA_NUM_THREADS)
            tiles = (moves_plan.TILE, moves_plan.TILE_IN_PLACE)
            for tile, strip in zip(tiles, strips, strict=True):
                plan[tile] = max(strip * period // max(whole, 1) // abs(step), CACHE_LINE // abs(step), 1)
            plan[moves_plan.PACKS] = packs
        self.effort_in_place = self.effort
        if kernel_copies:
            self.work += 2 * whole
            self.effort += 2 * whole // COPY_SPEED
        code, name = (scatter_general.strips_kernel, "strips ") if split >= 0 else (scatter_general.scatter_kernel, "")
        width = index_width(plan)
        arrays = (ANY, data, ANY, data)
        self.direct_arrays = (ANY, data, SIGNED_REFS[width] if width else ANY, data)
        self.scratch_bytes = 0
        dense = moves_strips.SPARSE * self.moved >= whole
        if kernel_copies and split in (scatter_phases.BY_WINDOW, scatter_phases.BY_POINT):
            if self._by_place(whole, reduction):
                code, name = scatter_places.places_kernel, "places "
            elif split == scatter_phases.BY_WINDOW and self._by_bin(whole, reduction, dense):
                code, name = scatter_binned.bins_kernel, "bins "
                self._plan_bins(whole, unit, dense)
            elif split == scatter_phases.BY_WINDOW and (shares := self._shares_with_own(whole, reduction)):
                code, name = scatter_own.own_kernel, "own "
                plan[moves_plan.SHARES] = shares
                self.scratch_bytes = shares * (whole // unit * max(unit, 4) + 2 * CACHE_LINE)
        bins_in_place = code is scatter_binned.bins_kernel and plan[moves_plan.TILE_IN_PLACE] != 0
        self.new_only = code in (scatter_places.places_kernel, scatter_binned.bins_kernel) and not bins_in_place
        direct = code in (scatter_general.scatter_kernel, scatter_general.strips_kernel)
        self.alone = direct and self._best_alone()
        # By bins, this is for what is in place.
        notes = code in (scatter_general.scatter_kernel, scatter_binned.bins_kernel) and self._notes(whole)
        self.note_bytes = 4 * (self.points + SPARE) if notes else 0
        if code is scatter_general.scatter_kernel and self.note_bytes:
            code, name, self.scratch_bytes = scatter_noted.noted_kernel, "noted ", self.note_bytes
        elif direct or (code is scatter_own.own_kernel and reduction != reductions.NONE):
            arrays = self.direct_arrays
        # In place others read indices twice, first to look for a bad one, unless a new output is copied there at last.
        twice = lowering.bounds == "raise" and not self.note_bytes and not bins_in_place
        self.copies_in_place = twice and kernel_copies and self.index_bytes > IN_PLACE_COPY * max(whole, LEAST_COPY)
        plan[moves_plan.ALONE] = self.alone
        serial = self.alone and max(plan[moves_plan.COPY], self.index_bytes) < scatter_phases.PREPARED_BYTES
        self.launch, driver = launcher(code, arrays, self.effort, bool(serial), prepare=self.set_finder)
        self.launched = code, arrays
        self.plan = np.fromiter(self.plan, np.int64, len(self.plan))
        work = f"{8 * unit}-bit"
        if reduction != reductions.NONE:
            work = f"{lowering.reduction} {data_type_name(lowering.data_type)}"
        self.kernel = f"scatter {name}{work} {driver}"

    def _best_alone(self) -> bool:
        """Tell whether one thread writes single elements that go anywhere sooner than several."""
        plan, threads = self.plan, numba.config.NUMBA_NUM_THREADS
        split = plan[moves_plan.SPLIT]
        if split >= 0:
            return False
        span = plan[moves_plan.STARTS_HIGH] - plan[moves_plan.STARTS_LOW]
        few = threads < ALONE_THREADS or self.points < ALONE_POINTS
        combined = bool(plan[moves_plan.REDUCTION] != reductions.NONE)
        beyond = not ROOMY and few and split != scatter_phases.BY_POINT and self.points < ALONE_POINTS_BEYOND[combined]
        if plan[moves_plan.RUN] != 1 or span > ALONE_BYTES[beyond]:
            return False
        dense = combined and self.points * self.lowering.itemsize > span
        return bool(split == scatter_phases.BY_POINT or few or dense)

    def _notes(self, whole: int) -> bool:
        """Tell whether threads share the work to find out where each update leads, see `scatter_noted.put_noted`."""
        plan = self.plan
        return bool(
            plan[moves_plan.SPLIT] == scatter_phases.BY_WINDOW
            and plan[moves_plan.RUN] == 1
            and plan[moves_plan.COORDS] > 1
            and self.kernel_copies
            and not self.alone
            and not takes_one(self.effort_in_place)
            and max(self.points, whole // self.dtype.itemsize) < 1 << 31
        )

    def _by_place(self, whole: int, reduction: int) -> bool:
        """Tell whether a new output is best written in its own order."""
        slice_bytes = self.moved // max(self.points, 1)
        return bool(
            reduction == reductions.NONE
            and slice_bytes >= PLACE_BYTES
            and 4 * whole // slice_bytes <= self.moved
            and self.points < 1 << 31
        )

    def _by_bin(self, whole: int, reduction: int, dense: bool) -> bool:
        """Tell whether the updates are best sorted by where they go."""
        threads = numba.config.NUMBA_NUM_THREADS
        return bool(
            whole >= (DENSE_BYTES if dense and threads > 1 else BINNED_BYTES)
            and self.plan[moves_plan.RUN] == 1
            and not (reduction == reductions.NONE and index_width(self.plan) and threads < BINNED_THREADS)
            and self.points * BINNED_PART >= whole
            and max(self.points, whole // self.dtype.itemsize) < 1 << 31
        )

    def _shares_with_own(self, whole: int, reduction: int) -> int:
        """Return how many shares of the points have an output of their own; 0: they have none."""
        if self.points < LEAST_SHARE:
            return 0
        single = self.plan[moves_plan.RUN] == 1
        in_order = self.lowering.reduction in ("add", "mul") and self.dtype.kind not in "iub"
        if in_order or not (single and 0 < whole <= OWN_BYTES and self.points < 1 << 31):
            return 0
        updates_of_share = max(UPDATES_PER_OWN * (whole // self.dtype.itemsize), LEAST_SHARE)
        shares = int(min(numba.config.NUMBA_NUM_THREADS, self.points // updates_of_share))
        by_few = shares > 1 and reduction != reductions.NONE and self.points >= COMBINED_BY_FEW
        return shares if shares >= LEAST_SHARES or by_few else 0

    def _plan_bins(self, whole: int, unit: int, dense: bool) -> None:
        """Set the numbers for a scatter by bins; in place only dense updates are worth the copies of whole strips."""
        strip = BIN_BYTES
        while strip * MOST_BINS < whole:
            strip *= 2
        shares = numba.config.NUMBA_NUM_THREADS
        self.plan[moves_plan.TILE] = strip
        self.plan[moves_plan.TILE_IN_PLACE] = strip if dense else 0
        self.plan[moves_plan.SHARES] = shares
        # See `scatter_binned.bin_buffers`.
        bins = -(-whole // strip) + 1
        room = self.points + scatter_binned.BIN_SKEW * bins
        self.scratch_bytes = 8 * shares * bins + room * 2 * max(unit, 4) + 4 * self.points

    def __call__(self, a: Any, indices: Any, updates: Any, out: Any) -> Any:
        if out is None:
            result = self.empty(self.shape, self.dtype)
        else:
            check_out(self.function, "out", out, self.shape, self.dtype)
            result = out
        source = a
        if self.copies_in_place and (a is result or _same_memory(a, result)):
            np.copyto(result, self(a, indices, updates, None))
            return result
        if a is not result and not self.kernel_copies and not _same_memory(a, result):
            if any(np.may_share_memory(result, array) for array in (a, indices, updates)):
                return self.through_copies(a, indices, updates, result)
            np.copyto(result, a)
            source = result
        plan, _scratch = self.plan, None
        if self.scratch_bytes and (source is not result or not self.new_only):
            plan, _scratch = self.plan_with(self.scratch_bytes)
        launch = self.launch_in_place if source is result else self.launch
        status = launch(source, result, indices, updates, plan)
        if status == 0:
            return result
        if status == OVERLAP and self.new_only:  # in place, perhaps
            plan, _scratch = self.plan_with(self.note_bytes)
            status = self.launch_anywhere(source, result, indices, updates, plan)
            if status == 0:
                return result
        if status == OVERLAP:
            return self.through_copies(a, indices, updates, result)
        raise self.index_error(a, indices, status - 1)

    def plan_with(self, scratch_bytes: int) -> tuple[ndarray[Any, Any], ndarray[Any, Any]]:
        """Return a plan with so much memory for the kernel, and that, which must live as long as it runs."""
        scratch = allocator((scratch_bytes,), _BYTES)((scratch_bytes,), _BYTES)
        self.set_finder()  # a first launch may be what sets it, in the plan that is copied here
        plan = self.plan.copy()
        plan[moves_plan.SCRATCH] = scratch.ctypes.data
        return plan, scratch

    @cached_property
    def launch_in_place(self) -> Any:
        """The launch for an input that is the output: it is not copied, so its size says nothing about the driver."""
        if takes_one(self.effort) or not takes_one(self.effort_in_place):
            return self.launch
        return launcher(*self.launched, self.effort_in_place, prepare=self.set_finder)[0]

    @cached_property
    def launch_anywhere(self) -> Any:
        """The launch that can write in place; compiled when it is needed."""
        code = scatter_noted.noted_kernel if self.note_bytes else scatter_general.scatter_kernel
        return launcher(code, self.direct_arrays, self.effort_in_place, prepare=self.set_finder)[0]

    def through_copies(self, a: Any, indices: Any, updates: Any, out: Any) -> Any:
        """Write to an output that lies in an input; after an error it is, and so the input is, what it was."""
        if a is out or _same_memory(a, out):
            return self(out, indices.copy(), updates.copy(), out)
        before = out.copy()
        try:
            return self(a.copy(), indices.copy(), updates.copy(), out)
        except IndexError:
            out[...] = before
            raise


def _same_memory(a: ndarray[Any, Any], b: ndarray[Any, Any]) -> bool:
    """Tell whether two arrays are the same elements in the same places."""
    same: bool = a.__array_interface__["data"] == b.__array_interface__["data"] and a.strides == b.strides
    return same


@cache
def _arithmetic_type(data_type: D, reduction: int) -> tuple[Any, int]:
    """Return the Numba type that a reduction computes in, and the reduction's code."""
    if data_type is D.FLOAT16:
        return types.uint16, reduction + reductions.FLOAT16
    if data_type is D.BFLOAT16:
        return types.uint16, reduction + reductions.BFLOAT16
    if data_type is D.BOOL:  # NumPy's arithmetic of bool: add is or, mul is and
        codes = {reductions.ADD: reductions.MAX, reductions.MUL: reductions.MIN}
        return types.int8, codes.get(reduction, reduction)
    element = getattr(types, dtype_of(data_type).name)
    if element not in UNSIGNED.values():
        return element, reduction
    # The sums and products of signed numbers have the same bits, and what is seen as unsigned is moved only.
    ordered = reduction in (reductions.MIN, reductions.MAX)
    return SIGNED[element.bitwidth // 8], reduction + reductions.UNSIGNED_ORDER * ordered


def index_width(plan: Any) -> int:
    """Return the bytes of indices that are used where they are, signed neighbours; 0: offsets are worked out first.

    Numba compiles this too, for jitted callers.
    """
    single = plan[moves_plan.RUN] == 1 and plan[moves_plan.COORDS] == 1
    last = moves_plan.HEADER + moves_plan.LOOP_FIELDS * (plan[moves_plan.LOOPS] - 1)
    neighbours = plan[last + 2] == 1 or plan[last] == 1
    if not single or not neighbours or plan[moves_plan.COMMON]:
        return 0
    kind = plan[moves_plan.KIND]
    if plan[last + 3] * plan[moves_plan.POINTS] != plan[moves_plan.PACKED_BYTES]:  # results are not neighbours
        return 0
    return 8 if kind == moves_plan.INT64 else 4 if kind == moves_plan.INT32 else 0


def _tile(loops: int, length: int, step: int, index_step: int, lines: int, slice_bytes: int) -> int:
    """Return how many iterations of the last loop to do together, for all rows, 0: go row by row.

    Of `loops` loops the last one has `length` iterations, which step through data and indices. `lines` is how many
    places the coordinates can lead to. Along the last axis the elements that a row reaches are neighbours. Along
    another axis each index leads to another row of data; then narrow strips of all rows stay in a cache. Numba compiles
    this too, for jitted callers.
    """
    if loops == 1 or not index_step or step != slice_bytes or length * step < TILE_ROW:
        return 0
    tile = SMALL_TILE if loops == 2 and lines * WIDE_TILE * step <= SMALL_TILE else TILE_BYTES
    if lines * length * step <= tile or lines * LEAST_TILE * step > tile:
        return 0
    return max(tile // (lines * step), CACHE_LINE // step)


def pack_tiles(plan: Any) -> None:
    """Let a gather copy each tile of a matrix first, where its rows would be in each other's way, or the L2 is small.

    Numba compiles this too, for jitted callers.
    """
    first, last = moves_plan.HEADER, moves_plan.HEADER + moves_plan.LOOP_FIELDS
    coordinate = last + moves_plan.LOOP_FIELDS
    if plan[moves_plan.TILE] == 0 or plan[moves_plan.LOOPS] != 2 or plan[moves_plan.COORDS] != 1:
        return
    length, step, lines, stride = plan[last], plan[last + 1], plan[coordinate], plan[coordinate + 1]
    apart = (stride % CONFLICT_BYTES != 0 and ROOMY) or abs(stride) < length * step
    few = PACKED_PART * plan[moves_plan.POINTS] < lines * length or lines * length * step <= PACKED_TILES * SMALL_TILE
    line = max(CACHE_LINE // step, 1)
    tile = SMALL_TILE // (lines * step * line) * line
    if plan[first + 1] != 0 or apart or few or tile < PACKED_WIDTH:
        return
    plan[moves_plan.TILE] = tile
    plan[moves_plan.PACKS] = lines * min(tile, length) * step


def _strips(lowering: Move, near: int, whole: int, threads: int) -> tuple[int, int, int]:
    """Return how large a strip should be of a new output, of which so many bytes are side by side, and of one in place.

    The third number tells which strips are packed, as the plan does.
    """
    rows, sums, both = (
        whole // max(near, 1),
        lowering.reduction != "none",
        moves_plan.PACK_NEW | moves_plan.PACK_IN_PLACE,
    )
    if rows <= 1:
        return STRIP_BYTES, STRIP_BYTES, moves_plan.PACK_NEW
    if not _is_matrix(lowering, rows):
        return TILE_BYTES, TILE_BYTES, both
    least, size = rows * LEAST_WIDTHS[ROOMY][sums], whole
    if least <= SMALL_TILE:
        size = SMALL_TILE
    elif (whole > MOST_ALONE or sums) and least <= TILE_BYTES:
        size = TILE_BYTES
    if sums or near % CONFLICT_BYTES == 0 or (whole > MOST_ALONE and not ROOMY):
        return size, size, both
    if not ROOMY:
        return size, whole, moves_plan.PACK_NEW
    narrow = near < threads * NARROW_STRIP and whole < threads * MOST_NARROW
    return size, size, moves_plan.PACK_NEW if narrow else 0


def _is_matrix(lowering: Move, rows: int) -> bool:
    """Tell whether indices lead to so many rows, which are all that there is."""
    return [size for size, _ in lowering.coordinates] == [rows]


def _split(lowering: Move, moved: int, points: int, whole: int) -> int:
    """Choose how threads share a scatter of so many bytes to so many so that no element has two writers."""
    threads = numba.config.NUMBA_NUM_THREADS
    slice_bytes = moved // max(points, 1)
    shared = []  # iterations of these loops write to different places
    for loop, (size, stride, _, _) in enumerate(lowering.loops):
        if abs(stride) < CACHE_LINE:
            near = size * abs(stride)
            enough = near > max(NEAR_BYTES // threads, LEAST_NEAR)
            if near and moves_strips.SPARSE * moved >= whole and _is_matrix(lowering, whole // near):
                least = LEAST_CUT if lowering.reduction == "none" else LEAST_SUM_CUT
                least = CACHE_LINE if lowering.itemsize <= SMALL_ITEM else least
                enough = near >= least and (threads > 1 or whole > SMALL_TILE)
        else:  # threads are busy three quarters of the time, or as many as matter; few batches of slices: see _by_place
            busy = 4 * size >= 3 * threads * -(-size // threads) > 0
            enough = size >= 64 or (busy and slice_bytes < PLACE_BYTES)
        if enough:
            shared.append((size, loop))
    if shared:
        return max(shared)[1]
    if lowering.unique:
        return scatter_phases.BY_POINT
    if slice_bytes >= 1 << 16:  # a share of a slice is still many cache lines
        return scatter_phases.BY_SLICE
    return scatter_phases.BY_WINDOW
