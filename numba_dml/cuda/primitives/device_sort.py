"""A stable sort of pairs, lowest key first: a radix sort from the lowest digit on, of all segments at once.

A pair is a key, without a sign, and a position: two words of 4 or of 8 bytes. The digits of all keys are counted in one
pass, which also tells what digits are the same everywhere. Every other digit then moves the pairs once: a tile's are
brought into order in shared memory, and go behind those of earlier tiles with the same digit. How many these are a tile
learns from what the earlier ones write when they have counted theirs (Adinets and Merrill's "Onesweep", 2022), so each
pass reads and writes a pair once. See docs/measurements/cudakernels.md, "Sorts of a device".
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, WARPS, cuda
from .access import load_i64
from .atomics import fetch_and_add, load_now, store_now
from .fill import set_words
from .pairs import COUNTERS, DIGIT, DIGITS, pair_access, pair_fields, passes_of
from .ptx import await_inputs
from .sort_tiles import COUNTS, SHARE, Memory, Own, base_steps, pairs_of_tile, result_writer, tile_steps
from .sums import add_counts, add_up_lanes, arrive
from .warp import lane_long_word

LANE_SHARE = DIGITS // LANES
#: The most passes: digits of 64 bits.
MOST_PASSES = 64 // DIGIT
ALL_DIGITS = MOST_PASSES * DIGITS
#: Shared memory of `plan_passes`.
SUMS = max(BLOCK, MOST_PASSES)
#: Words for the numbers of tiles, one for each pass, and one for how many blocks have counted.
TICKETS = MOST_PASSES + 2
# What is known of a segment, int64 words. A way is for each pass: 0, or the bits of FROM_PAIRS, FROM_OTHER and LAST.
SIZE, WAYS, HEAD = 0, 1, 1 + MOST_PASSES
FROM_PAIRS, FROM_OTHER, LAST = 1, 2, 4


@helper
def plan_passes(head, starts, size, passes, skips, sums):
    """Turn a segment's counts of digits into the sums of those before, and say which passes move its pairs.

    Threads of one block do it, when all is counted. `skips`: digits that are the same everywhere are passed over.
    """
    thread = np.int64(cuda.threadIdx.x)
    lane = thread % LANES
    counts = cuda.local.array(LANE_SHARE, np.int64)
    for turn in range(thread // LANES, passes, WARPS):  # a warp for each, whose loads are on their way together
        at = starts + 8 * (turn * DIGITS + lane * LANE_SHARE)
        for i in range(LANE_SHARE):
            counts[i] = load_now(at + 8 * i)
        before = np.int64(0)
        alone = np.int64(0)
        for i in range(LANE_SHARE):
            alone += 1 if counts[i] == size else 0
            before += counts[i]
        before = add_up_lanes(before) - before
        alone = lane_long_word(add_up_lanes(alone), LANES - 1)
        for i in range(LANE_SHARE):
            store_now(at + 8 * i, before)
            before += counts[i]
        if lane == 0:
            sums[turn] = alone
    cuda.syncthreads()
    if thread == 0:
        moves = np.int64(0)
        for turn in range(passes):
            if sums[turn] == 0 or skips == 0:
                moves |= 1 << turn
        if moves == 0:
            moves |= 1  # one pass is what brings the pairs to their target
        source = FROM_PAIRS
        for turn in range(passes):
            way = np.int64(0)
            if moves >> turn & 1 != 0:
                way |= source if moves >> (turn + 1) != 0 else source | LAST
                source = FROM_PAIRS + FROM_OTHER - source
            store_now(head + 8 * (WAYS + turn), way)
        store_now(head + 8 * SIZE, size)


@cache
def count_kernel(is_long: bool) -> Kernel:
    """Return the kernel that counts the digits of all keys."""
    load_key, _ = pair_fields(is_long)

    def count_digits(pairs, size, passes, head, starts, arrived, blocks):
        """Count the digits of `size` pairs by some blocks. `arrived`: the address of how many blocks are done.

        `head`: that of the segment's words. `starts`: of (passes, DIGITS) int64, zeros; then what is before a digit.
        """
        await_inputs()
        counts = cuda.shared.array(ALL_DIGITS, np.int32)
        sums = cuda.shared.array(SUMS, np.int64)
        thread = np.int64(cuda.threadIdx.x)
        for i in range(thread, passes * DIGITS, BLOCK):
            counts[i] = 0
        cuda.syncthreads()
        for i in range(np.int64(cuda.blockIdx.x) * BLOCK + thread, size, blocks * BLOCK):
            key = load_key(pairs, i)
            for turn in range(passes):
                cuda.atomic.add(counts, turn * DIGITS + (key >> (DIGIT * turn) & (DIGITS - 1)), 1)
        cuda.syncthreads()
        add_counts(counts, starts, passes * DIGITS)
        if arrive(arrived, sums, blocks):
            plan_passes(head, starts, size, passes, 0, sums)

    return Kernel(count_digits, 7, waits=True)


@cache
def move_kernel(is_long: bool, write) -> Kernel:
    """Return the kernel that moves the pairs by one digit.

    `write`: two steps by which the last pass writes results, instead of pairs. What the first returns for a segment,
    the second gets with each pair and its place. None: there are only pairs.
    """
    word, pair_bytes, *_ = pair_access(is_long)
    tile_pairs = pairs_of_tile(is_long)
    items = tile_pairs // BLOCK
    load_tile, rank_tile, order_tile, write_tile = tile_steps(is_long)
    count_tile, find_bases = base_steps(is_long)
    writes = write is not None
    prepare, put = write or (None, None)
    put_results = result_writer(is_long, put)

    def move_pairs(
        pairs,  # IN OUT  address of (segments, room) pairs
        other,  # IN OUT  address of as many: a pass moves from one to the other
        room,
        segments,
        tiles,  # IN      per segment
        turn,  # IN      the number of the pass
        passes,
        heads,  # IN      address of (segments, HEAD) words
        starts,  # IN      address of (segments, passes, DIGITS) int64: pairs with lower digits
        states,  # IN OUT  address of (segments, tiles, DIGITS) int64
        tickets,  # IN OUT  address of (passes,) int64, zeros
        x,  # IN      what `write` wants
        values,
        indices,
        plan,
        border,
    ):
        await_inputs()
        counts = cuda.shared.array(COUNTS, np.int32)  # of each warp; then where its pairs go in the tile
        bases = cuda.shared.array(DIGITS, np.int64)  # where a digit begins in the target, less where in the tile
        sums = cuda.shared.array(BLOCK, np.int64)
        tile_keys = cuda.shared.array(tile_pairs, word)
        tile_positions = cuda.shared.array(tile_pairs, word)
        memory = Memory(counts, bases, sums, tile_keys, tile_positions)
        own_keys = cuda.local.array(items, word)
        own_positions = cuda.local.array(items, word)
        ranks = cuda.local.array(items, np.int32)
        own_counts = cuda.local.array(SHARE, np.int64)
        own_starts = cuda.local.array(SHARE, np.int64)
        thread = np.int32(cuda.threadIdx.x)
        own = Own(thread, np.int32(thread % LANES), own_keys, own_positions, ranks, own_counts, own_starts)
        if thread == 0:  # tiles are numbered as they start, so what they wait for is under way
            sums[0] = fetch_and_add(tickets + 8 * turn, np.int64(1))
        for i in range(thread, COUNTS, BLOCK):
            counts[i] = 0
        cuda.syncthreads()
        tile = np.int64(np.int32(sums[0]) // np.int32(segments))
        segment = sums[0] - tile * segments
        way = load_i64(heads + 8 * (segment * HEAD + WAYS + turn))
        left = load_i64(heads + 8 * (segment * HEAD + SIZE)) - tile * tile_pairs
        if way == 0 or left <= 0:
            return
        shift = DIGIT * turn
        inside = np.int32(min(left, np.int64(tile_pairs)))
        source = (pairs if way & FROM_PAIRS != 0 else other) + pair_bytes * (segment * room + tile * tile_pairs)
        load_tile(own, source, inside)
        cuda.syncthreads()  # now all loads are on their way
        rank_tile(memory, own, shift)
        cuda.syncthreads()
        state = states + 8 * (((segment * tiles + tile) * DIGITS) + np.int64(thread) * SHARE)
        starts += 8 * ((segment * passes + turn) * DIGITS + np.int64(thread) * SHARE)
        count_tile(memory, own, starts, state, inside, tile, turn)
        cuda.syncthreads()
        order_tile(memory, own, shift)
        find_bases(memory, own, state, tile, turn)
        cuda.syncthreads()
        if writes and way & LAST != 0:
            put_results(memory, prepare(x, values, indices, plan, border, segment), plan, inside, shift)
            return
        target = (other if way & FROM_PAIRS != 0 else pairs) + pair_bytes * segment * room
        write_tile(memory, own, target, inside, shift)

    # Three blocks of 256 threads on a multiprocessor.
    return Kernel(move_pairs, 16, waits=True, registers=80)


class Sort:
    """The memory and the passes of a sort of segments of up to `room` pairs, by the lower bits of their keys."""

    def __init__(self, segments: int, room: int, is_long: bool, bits: int) -> None:
        self.segments, self.room, self.is_long = segments, room, is_long
        #: Bytes of a pair.
        self.pair_bytes = pair_access(is_long).bytes
        #: How many digits there are.
        self.passes = passes_of(bits)
        #: How many tiles a segment has at most.
        self.tiles = -(-room // pairs_of_tile(is_long))
        #: Bytes of all pairs, of which there are two sets, at a multiple of 16.
        self.pairs_bytes = -(-segments * room * self.pair_bytes // 16) * 16
        words = TICKETS + segments * (HEAD + (self.passes + self.tiles) * DIGITS)
        #: Bytes of what comes before the pairs; they are to be zeros.
        self.bytes = -(-8 * words // 16) * 16

    def heads(self, memory: int) -> int:
        """Return where the segments' words are."""
        return memory + 8 * TICKETS

    def starts(self, memory: int) -> int:
        """Return where the counts of digits are."""
        return self.heads(memory) + 8 * HEAD * self.segments

    def move(
        self, device: int, stream: int, memory: int, pairs: int, write: object = None, args: tuple[int, ...] = (0,) * 5
    ) -> None:
        """Move the pairs by all their digits, given these are counted; `write` has its own arguments."""
        run, starts = move_kernel(self.is_long, write), self.starts(memory)
        data = pairs, pairs + self.pairs_bytes, self.room, self.segments, self.tiles
        words = self.heads(memory), starts, starts + 8 * self.segments * self.passes * DIGITS, memory
        for turn in range(self.passes):
            run(device, stream, self.segments * self.tiles, *data, turn, self.passes, *words, *args)

    def sort(self, device: int, stream: int, memory: int, pairs: int) -> int:
        """Sort all pairs of the one segment; return where they are then."""
        set_words(device, stream, memory, self.bytes, 0)
        blocks = min(COUNTERS, self.tiles)
        words = self.heads(memory), self.starts(memory), memory + 8 * MOST_PASSES
        count_kernel(self.is_long)(device, stream, blocks, pairs, self.room, self.passes, *words, blocks)
        self.move(device, stream, memory, pairs)
        return pairs + self.pairs_bytes * (self.passes % 2)
