"""How plans are made, by plain functions: Python's calls fill lists, and jitted calls compile them for vectors."""

from __future__ import annotations

from typing import Any

from ..._core.shapes import COORD_FIELDS, LINE_FIELDS, LOOP_FIELDS, reach
from ..primitives.moves import plan as moves_plan
from ..primitives.top_k import plan as top_k_plan


def by_runs(
    loops: Any,  # INOUT  rows, with room for one per dimension of the slices
    loop_count: int,
    slices: Any,  # IN     rows
    slice_count: int,
    itemsize: int,
    stride: int,  # IN     of the last coordinate
    short_row: int,
) -> tuple[int, int]:
    """Let each slice be one contiguous run: its other dimensions become loops, which repeat their point's index.

    Where rows of them would be short, and their elements are farther apart than those of the indexed axis, points go
    within them: those of one element stay in order. Return how many loops there are, and the bytes of a run.
    """
    outer, run = slice_count, itemsize
    if outer > 0 and slices[outer * COORD_FIELDS - 1] == itemsize:
        outer -= 1
        run *= slices[outer * COORD_FIELDS]
    if outer == 0:
        return loop_count, run
    count = 1
    for i in range(outer):
        count *= slices[i * COORD_FIELDS]
    if count == 0:  # indices are looked at even so
        return loop_count, 0
    for i in range(loop_count):
        loops[i * LOOP_FIELDS + 3] *= count
    if loop_count == 1 and loops[0] == 1:
        loop_count = 0
    at, row = loop_count * LOOP_FIELDS, slices[(outer - 1) * COORD_FIELDS]
    if loop_count > 0 and row < min(short_row, loops[at - LOOP_FIELDS]):
        if abs(slices[outer * COORD_FIELDS - 1]) > abs(stride):
            at -= LOOP_FIELDS
            for field in range(LOOP_FIELDS):
                loops[at + outer * LOOP_FIELDS + field] = loops[at + field]
    for i in range(outer):
        size = slices[i * COORD_FIELDS]
        count //= size
        loops[at], loops[at + 1], loops[at + 2], loops[at + 3] = size, slices[i * COORD_FIELDS + 1], 0, count
        at += LOOP_FIELDS
    return loop_count + outer, run


def move_size(loop_count: int, coordinate_count: int) -> int:
    """Return how many numbers the plan of a gather or a scatter has."""
    return moves_plan.HEADER + LOOP_FIELDS * loop_count + COORD_FIELDS * coordinate_count


def fill_move(plan: Any, loops: Any, loop_count: int, coordinates: Any, coordinate_count: int, run: int) -> None:
    """Write loops and coordinates, and what follows from them; `run` is the bytes of a slice."""
    points, places, low, high = 1, 1, 0, 0
    at = moves_plan.HEADER
    for row in range(0, loop_count * LOOP_FIELDS, LOOP_FIELDS):
        size, stride = loops[row], loops[row + 1]
        plan[at], plan[at + 1], plan[at + 2], plan[at + 3] = size, stride, loops[row + 2], loops[row + 3] * run
        at += LOOP_FIELDS
        points *= size
        first, last = reach(size, stride)
        low += first
        high += last
    for row in range(0, coordinate_count * COORD_FIELDS, COORD_FIELDS):
        size, stride = coordinates[row], coordinates[row + 1]
        plan[at], plan[at + 1] = size, stride
        at += COORD_FIELDS
        places *= size > 0
        first, last = reach(size, stride)
        low += first
        high += last
    plan[moves_plan.POINTS], plan[moves_plan.PACKED_BYTES] = points, points * run
    plan[moves_plan.LOOPS], plan[moves_plan.COORDS] = loop_count, coordinate_count
    plan[moves_plan.LOW], plan[moves_plan.HIGH] = low, high + run if points * run * places > 0 else low
    plan[moves_plan.STARTS_LOW], plan[moves_plan.STARTS_HIGH] = low, high + 1


def widen(plan: Any, low: int, high: int, run: int) -> None:
    """Let a plan touch all of the data, to which its points may not lead: from `low` to the run at `high`."""
    touches = plan[moves_plan.HIGH] > plan[moves_plan.LOW]
    plan[moves_plan.LOW] = low
    plan[moves_plan.HIGH] = high + run if touches else low


def fill_scatter(plan: Any, reduction: int, copied: int, whole: int, stream_bytes: int) -> None:
    """Write what only a scatter has: `copied` are the bytes that its kernel copies first, `whole` those of the data."""
    plan[moves_plan.REDUCTION] = reduction
    plan[moves_plan.COPY] = copied
    plan[moves_plan.STREAM] = whole >= stream_bytes


def sort_lines(lines: Any, count: int) -> None:
    """Sort the dimensions of lines: those whose lines lie closest come last."""
    for i in range(1, count):
        for at in range(i * LINE_FIELDS, 0, -LINE_FIELDS):
            before = at - LINE_FIELDS
            if abs(lines[before + 1]) >= abs(lines[at + 1]):
                break
            for field in range(LINE_FIELDS):
                lines[before + field], lines[at + field] = lines[at + field], lines[before + field]


def spread_of(lines: Any, count: int) -> tuple[int, int, int]:
    """Return how many lines there are, and of those that lie closest the number and the distance."""
    if count == 0:
        return 1, 1, 0
    number, last = 1, (count - 1) * LINE_FIELDS
    for row in range(0, count * LINE_FIELDS, LINE_FIELDS):
        number *= lines[row]
    return number, lines[last], lines[last + 1]


def fill_top_k(plan: Any, lines: Any, count: int, out_stride: int, index_size: int, facts: Any, choice: Any) -> None:
    """Write the plan of a top-k, all but the rule of its keys."""
    low, high = reach(facts.n, facts.stride)
    for row in range(0, count * LINE_FIELDS, LINE_FIELDS):
        for field in range(LINE_FIELDS):
            plan[top_k_plan.HEADER + row + field] = lines[row + field]
        first, last = reach(lines[row], lines[row + 1])
        low += first
        high += last
    plan[top_k_plan.LINES], plan[top_k_plan.DIMS] = facts.lines, count
    plan[top_k_plan.SIZE], plan[top_k_plan.STRIDE], plan[top_k_plan.OUT_STRIDE] = facts.n, facts.stride, out_stride
    plan[top_k_plan.K], plan[top_k_plan.INDEX_SIZE] = facts.k, index_size
    plan[top_k_plan.CAPACITY], plan[top_k_plan.PIECES] = choice.capacity, choice.pieces
    plan[top_k_plan.GROUP], plan[top_k_plan.TILE] = choice.group, choice.tile
    plan[top_k_plan.SAMPLE], plan[top_k_plan.SAMPLE_RANK] = choice.sample, choice.rank
    plan[top_k_plan.LOW], plan[top_k_plan.HIGH] = low, high + facts.itemsize
    results = facts.lines * facts.k
    plan[top_k_plan.VALUE_BYTES], plan[top_k_plan.INDEX_BYTES] = results * facts.itemsize, results * index_size
