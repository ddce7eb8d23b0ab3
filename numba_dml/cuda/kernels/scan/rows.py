"""Running sums in the fixed order: a warp adds up rows, a segment at a time.

A row is what one lane sums: a whole line, a block of 256 elements, or one segment of 32. The warp brings a segment of
its rows to shared memory, in the order in which they lie in memory, and takes the results back in the same way: by
pieces, of which each lane moves one element.

Lines of several blocks take several passes. In the first one rows are blocks, and their totals are written. Then each
total is replaced by the sum of those before it in its block of 256 totals (see `totals`); the totals of these blocks
go to the next level. The last pass adds these sums, of all levels, to the sums within a row. If there are few blocks,
the first pass also marks the sum before each segment, and rows of the last one are segments, which start from the
marks. If there are many lines, one pass is enough: rows are lines, and a lane keeps the sums of two levels.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...._core.enums import TensorDataType as D
from ...._core.lowering import SUM_BLOCK
from ...._core.tensor import element_size
from ...driver.compile import helper
from ...driver.launch import Kernel
from ...driver.numba import LANES, SIMULATED, cuda
from ...primitives import scan as fields
from ...primitives.access import OWN_LOAD, unit_access
from ...primitives.plan import number, quotient
from ...primitives.ptx import ARRAY_TYPES, await_inputs
from ...primitives.scan import SEGMENT, fetch_of, slot_of, sums
from ...primitives.shared import SHARED_LOAD, SHARED_STORE, load_word, shared_address, store_word
from ...primitives.warp import lane_long_word, lane_word, sync_lanes

#: Warps of a thread block; pieces of a segment that are listed together; elements that a lane adds up together.
WARPS, PART, UNROLLED = ((4, 16, 8), (2, 2, 2))[SIMULATED]
#: Cells of shared memory that a warp has, with one behind each piece that stays free; and cells and pieces of a block.
CELLS = SEGMENT * (LANES + 1)
ALL_CELLS, ALL_PIECES = WARPS * CELLS, WARPS * SEGMENT
LANE_BITS = LANES.bit_length() - 1
#: The index of a lane without a column: above the count of every piece, even after all segments of a row.
NEVER = 1 << 30
load_total, (_, store_total) = OWN_LOAD["uint64"], unit_access(8)
load_long_word, store_long_word = SHARED_LOAD[64], SHARED_STORE[64]
#: By type of a cell: its load and store in shared memory, and its bytes.
CELL_ACCESS = {np.int32: (load_word, store_word, 4), np.int64: (load_long_word, store_long_word, 8)}


class Row(NamedTuple):
    """The row of a lane."""

    there: object
    set: object  #: Which set of the warp it is in.
    sets_left: object  #: How many sets there are from it on.
    column: object  #: Which column of its set.
    outer: object  #: Which of the groups of lines side by side.
    number: object  #: Which row of its line.
    first: object  #: Which of the `INNER` lines side by side is the first one of its set.
    count: object  #: How many elements it has, 0 if it is not there.


@helper
def row_of(plan, tile, lane):
    """Return the row of a lane."""
    columns = np.int32(number(plan, fields.COLUMNS))
    own_set = np.int32(lane // columns)
    at = tile * number(plan, fields.SETS) + own_set
    row = quotient(at, plan, fields.GROUPS)
    first = (at - row * number(plan, fields.GROUPS)) * columns
    outer = quotient(row, plan, fields.ROWS)
    row -= outer * number(plan, fields.ROWS)
    column, sets_left = np.int32(lane - own_set * columns), number(plan, fields.ALL_SETS) - at
    there = own_set < number(plan, fields.SETS) and sets_left > 0 and first + column < number(plan, fields.INNER)
    length = number(plan, fields.LENGTH)
    count = min(number(plan, fields.SIZE) - row * length, length) if there else np.int64(0)
    return Row(there, own_set, sets_left, column, outer, row, first, np.int32(count))


@helper
def list_pieces(plan, row, lane, listed, x, step, y, out_step):
    """List the pieces of the first segment: where each is in the input and in the output, and its count.

    Apart, a piece has one element of each column; else it has 32 elements of a chunk that are neighbours in memory. A
    lane has an element of a piece if its index, from `first_index`, is less than the piece's count.
    """
    froms, tos, counts = listed
    inner, columns = number(plan, fields.INNER), np.int32(number(plan, fields.COLUMNS))
    is_apart, sets = number(plan, fields.GROUPS) > 1, number(plan, fields.SETS)
    start = row.outer * number(plan, fields.SIZE) + row.number * number(plan, fields.LENGTH)
    place, count, pieces_of_chunk = start * inner + row.first, row.count, np.int32(number(plan, fields.CHUNK_PIECES))
    out_place = place + (row.outer + 1) * number(plan, fields.INITIAL) * inner
    if number(plan, fields.CHUNKS) < sets:  # all sets are one chunk, which ends with the last of them
        count = np.int32(min(row.sets_left, sets) * number(plan, fields.SIZE))
    for begin in range(0, SEGMENT, LANES):
        piece = np.int32(begin + lane)
        chunk = np.int32(piece // pieces_of_chunk)
        k, of_lane = np.int32(piece - chunk * pieces_of_chunk), np.int32(chunk * columns)
        further, there = np.int64(k) * (inner if is_apart else LANES), lane_word(count, of_lane)
        there = np.int32(there - k if is_apart else there * columns - k * LANES)
        store_long_word(froms + 8 * piece, x + step * (lane_long_word(place, of_lane) + further))
        store_long_word(tos + 8 * piece, y + out_step * (lane_long_word(out_place, of_lane) + further))
        store_word(counts + 4 * piece, there if chunk < number(plan, fields.CHUNKS) else np.int32(0))
    sync_lanes()


@helper
def lists_of(warp):
    """Return where a warp's lists of pieces are in shared memory: where they come from, where they go, and counts."""
    froms = np.int64(shared_address(cuda.shared.array(ALL_PIECES, np.int64))) + 8 * SEGMENT * warp
    tos = np.int64(shared_address(cuda.shared.array(ALL_PIECES, np.int64))) + 8 * SEGMENT * warp
    counts = np.int64(shared_address(cuda.shared.array(ALL_PIECES, np.int32))) + 4 * SEGMENT * warp
    return froms, tos, counts


@helper
def first_index(plan, row, lane):
    """Return the index of a lane in the pieces of the first segment, and how much greater it is in the next one."""
    if number(plan, fields.GROUPS) == 1:
        return lane, np.int32(SEGMENT * number(plan, fields.COLUMNS))
    return np.int32(0 if lane < number(plan, fields.COLUMNS) and row.there else NEVER), np.int32(SEGMENT)


@helper
def cells_of(elements):
    """Return how many cells are before an element of a segment: one more for every 32, against bank conflicts."""
    return np.int32(elements + (elements >> LANE_BITS))


@helper
def sum_before(plan, carries, row, level):
    """Return the sum before a row's block, or before the block of blocks that it is in, at a level."""
    blocks = (number(plan, fields.SIZE) + SUM_BLOCK - 1) // SUM_BLOCK
    block = row.number * number(plan, fields.LENGTH) // SUM_BLOCK
    for _ in range(level):
        carries += 8 * number(plan, fields.LINES) * blocks
        blocks, block = (blocks + SUM_BLOCK - 1) // SUM_BLOCK, block // SUM_BLOCK
    at = (row.outer * blocks + block) * number(plan, fields.INNER) + row.first + row.column
    return load_total(carries + 8 * at)


@helper
def first_segment(plan, row):
    """Return the number of a row's first segment, in lines of whole blocks."""
    blocks = (number(plan, fields.SIZE) + SUM_BLOCK - 1) // SUM_BLOCK
    return (row.outer * blocks * SUM_BLOCK + row.number * number(plan, fields.LENGTH)) // SEGMENT


@cache
def moves(source: D, result: D):
    """Return ``load_segment(...)`` and ``store_segment(...)``, between memory and the cells of a warp."""
    (cell_type, cell_of), bits_type, steps = slot_of(result), fetch_of(source)[0], sums(source, result)
    fetch, take, store = steps.fetch, steps.take, steps.store
    load_cell, store_cell, cell_bytes = CELL_ACCESS[cell_type]
    next_cell = cell_bytes * (LANES + 1)

    @helper
    def load_segment(cell, froms, counts, piece_index, offset, pieces):
        words, places = cuda.local.array(SEGMENT, bits_type), cuda.local.array(PART, np.int64)
        limits = cuda.local.array(PART, np.int32)
        for some in range(0, SEGMENT, PART):
            if some < pieces:
                for k in range(PART):
                    limits[k], places[k] = load_word(counts + 4 * (some + k)), load_long_word(froms + 8 * (some + k))
                for k in range(PART):
                    if piece_index < limits[k]:
                        words[some + k] = fetch(places[k] + offset)
        for some in range(0, SEGMENT, PART):
            if some < pieces:
                for k in range(some, some + PART):
                    store_cell(cell + next_cell * k, cell_of(take(words[k])))

    @helper
    def store_segment(cell, tos, counts, piece_index, offset, pieces):
        words, places = cuda.local.array(PART, cell_type), cuda.local.array(PART, np.int64)
        limits = cuda.local.array(PART, np.int32)
        for _ in range(0, pieces, PART):
            for k in range(PART):
                limits[k], places[k] = load_word(counts + 4 * k), load_long_word(tos + 8 * k)
                words[k] = load_cell(cell + next_cell * k)
            for k in range(PART):
                if piece_index < limits[k]:
                    store(places[k] + offset, np.int64(words[k]), 0)
            cell, tos, counts = cell + next_cell * PART, tos + 8 * PART, counts + 4 * PART

    return load_segment, store_segment


@cache
def segment_adder(result: D, writes: bool):
    """Return ``add_segment(...)``: a lane's total of a row, after a segment.

    If it `writes`, it puts the results of the segment in place of its elements.
    """
    steps, (cell_type, cell_of) = sums(result, result), slot_of(result)
    read, plus, write = steps.read, steps.add, steps.write
    load_cell, store_cell, cell_bytes = CELL_ACCESS[cell_type]

    @helper
    def read_one(cells, element):
        return read(np.int64(load_cell(cells + cell_bytes * cells_of(element))))

    @helper
    def write_one(cells, element, word):
        store_cell(cells + cell_bytes * cells_of(element), cell_of(word))

    @helper
    def result_of(plan, before, total):
        if number(plan, fields.LEVELS) > 0:
            total = plus(before[0], total)
        if number(plan, fields.LEVELS) > 1:
            total = plus(before[1], total)
        if number(plan, fields.LEVELS) > 2:
            total = plus(before[3], plus(before[2], total))
        return write(total)

    @helper
    def add_segment(cells, element, step, count, total, plan, before):
        values, leaves_out = cuda.local.array(UNROLLED, np.int64), number(plan, fields.EXCLUSIVE) != 0
        for first in range(0, count, UNROLLED):
            if first + UNROLLED <= count:
                for k in range(UNROLLED):
                    values[k] = read_one(cells, np.int32(element + k * step))
                for k in range(UNROLLED):
                    old, total = total, plus(total, values[k])
                    if writes:
                        values[k] = result_of(plan, before, old if leaves_out else total)
                if writes:
                    for k in range(UNROLLED):
                        write_one(cells, np.int32(element + k * step), values[k])
                element = np.int32(element + UNROLLED * step)
            else:
                for _ in range(first, count):
                    old, total = total, plus(total, read_one(cells, element))
                    if writes:
                        write_one(cells, element, result_of(plan, before, old if leaves_out else total))
                    element = np.int32(element + step)
        return total

    return add_segment


@cache
def level_raiser(result: D):
    """Return ``raised(before, total, end)``: the sums of a row that is a whole line; blocks that end go up a level."""
    plus, none = sums(result, result).add, sums(result, result).absent

    @helper
    def raised(before, total, end):
        first, second, third, fourth = before
        if end % SUM_BLOCK == 0:
            first, total = plus(first, total), np.int64(none)
        if end % SUM_BLOCK**2 == 0:
            second, first = plus(second, first), np.int64(none)
        return (first, second, third, fourth), total

    return raised


@cache
def rows_kernel(source: D, result: D) -> Kernel:
    """Return the kernel of a pass over lines."""
    load_segment, store_segment = moves(source, result)
    add_segment, write_segment, raised = segment_adder(result, False), segment_adder(result, True), level_raiser(result)
    cell_type, cell_of = slot_of(result)
    shared_type, (_, store_cell, cell_bytes) = ARRAY_TYPES[cell_type], CELL_ACCESS[cell_type]
    store, none = sums(source, result).store, sums(source, result).absent
    width, out_width = element_size(source), element_size(result)

    def sum_rows(
        x,  # IN   address of the packed input, (outer, size, inner); of its last element if lines are reversed
        y,  # OUT  address of the packed output, likewise; 0: this is the first pass
        plan,  # IN   address of the plan
        totals,  # OUT  address of the totals of rows, (outer, rows, inner); or 0
        marks,  # IN OUT  address of the sums before segments, (outer, segments, inner), written in the first pass; or 0
        carries,  # IN   address of the sums before blocks, (outer, blocks, inner), level after level; or 0
    ):
        await_inputs()
        lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int64(cuda.threadIdx.x // LANES)
        cells = np.int64(shared_address(cuda.shared.array(ALL_CELLS, shared_type))) + cell_bytes * CELLS * warp
        froms, tos, counts = lists_of(warp)
        tile = np.int64(cuda.blockIdx.x) * WARPS + warp
        if tile * number(plan, fields.SETS) >= number(plan, fields.ALL_SETS):
            return
        inner, row = number(plan, fields.INNER), row_of(plan, tile, lane)
        step, out_step = (-width, -out_width) if number(plan, fields.REVERSE) != 0 else (width, out_width)
        list_pieces(plan, row, lane, (froms, tos, counts), x, step, y, out_step)
        levels, at = number(plan, fields.LEVELS) if carries != 0 and row.there else np.int64(0), row.first + row.column
        before = (
            sum_before(plan, carries, row, 0) if levels > 0 else np.int64(none),
            sum_before(plan, carries, row, 1) if levels > 1 else np.int64(none),
            sum_before(plan, carries, row, 2) if levels > 2 else np.int64(none),
            sum_before(plan, carries, row, 3) if levels > 3 else np.int64(none),
        )
        total = np.int64(none)
        mark = marks + 8 * (first_segment(plan, row) * inner + at)
        if marks != 0 and y != 0 and row.there:
            total = load_total(mark)
        piece_index, index_step = first_index(plan, row, lane)
        offset, out_offset = np.int64(step * lane), np.int64(out_step * lane)
        pieces = np.int32(number(plan, fields.CHUNKS) * number(plan, fields.CHUNK_PIECES))
        cell_step = np.int32(number(plan, fields.COLUMNS) if number(plan, fields.GROUPS) == 1 else LANES)
        element, cell = np.int32(row.set * number(plan, fields.SET_STRIDE) + row.column), cells + cell_bytes * lane
        for segment in range(number(plan, fields.SEGMENTS)):
            count = min(np.int32(row.count - segment * SEGMENT), np.int32(SEGMENT))
            load_segment(cell, froms, counts, piece_index, offset, pieces)
            sync_lanes()
            if y == 0:
                if marks != 0 and count > 0:
                    store_total(mark + 8 * segment * inner, total, 0)
                total = add_segment(cells, element, cell_step, count, total, plan, before)
            else:
                total = write_segment(cells, element, cell_step, count, total, plan, before)
                if number(plan, fields.EXCLUSIVE) != 0 and row.number == 0 and segment == 0 and count > 0:
                    store_cell(cells + cell_bytes * cells_of(element), cell_of(np.int64(0)))
                sync_lanes()
                store_segment(cell, tos, counts, piece_index, out_offset, pieces)
            sync_lanes()
            if number(plan, fields.LENGTH) > SUM_BLOCK:
                before, total = raised(before, total, (segment + 1) * SEGMENT)
            piece_index = np.int32(piece_index + index_step)
            offset, out_offset = offset + step * SEGMENT * inner, out_offset + out_step * SEGMENT * inner
        if row.there and totals != 0:
            store_total(totals + 8 * ((row.outer * number(plan, fields.ROWS) + row.number) * inner + at), total, 0)
        if row.there and y != 0 and number(plan, fields.INITIAL) != 0 and row.number == 0:
            store(y + out_step * (row.outer * (number(plan, fields.SIZE) + 1) * inner + at), np.int64(0), 0)

    return Kernel(sum_rows, 6, plan=(2, fields.FIELDS), waits=True, threads=WARPS * LANES, registers=128)
