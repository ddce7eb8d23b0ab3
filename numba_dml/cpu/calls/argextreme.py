"""The calls of argmin and argmax."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numba
import numpy as np
from numpy import ndarray

from ..._core.enums import TensorDataType
from ..._core.lowering import is_float, rule_numbers
from ..._core.operands import check_out
from ..._core.pool import allocator
from ..._core.regions import Region, first
from ..._core.shapes import LINE_FIELDS, collapse_rows, extent, flat, rows_of
from ..._core.tensor import element_size, packed_strides, product
from ..._jit.memory import ANY, SIGNED, reference_to
from ..dispatch.argextreme import TABLE, Facts, cut_count, fold_of, is_for_columns, tile_of
from ..launch import launcher
from ..primitives import argextreme as plans
from ..primitives.argextreme import VECTOR_BITS
from ..tuning.argextreme import TUNING
from .build import _packed_copy


class ArgExtremeCall:
    """Argmin or argmax of one layout."""

    # What `explain` reads: the table, the row that was chosen, and by which numbers; None if there is nothing to do.
    regions = TABLE
    region: Region | None = None
    facts: Facts | None = None
    tuning = TUNING

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: Any, out_strides: Any) -> None:
        (strides, dtype), *_ = layouts
        self.function, self.shape = descriptor.function, output_shapes[0]
        data = descriptor.input_tensor
        size, self.dtype = data.itemsize, descriptor.output_tensor.dtype
        count = product(output_shapes[0])
        packed = packed_strides(data.sizes, size)
        lowering, in_order = descriptor.lower([strides]), descriptor.lower([packed])
        facts, packed_facts = (facts_of(each, size, count) for each in (lowering, in_order))
        # Measured in docs/measurements/cpu_argextreme.md, "CPU argmin and argmax: copies".
        gains = packed_facts.fold == 1 and fills_vectors(in_order, packed_facts)
        apart = strides != packed and gains and not fills_vectors(lowering, facts)
        repeated = any(n > 1 and step == 0 for n, step in zip(data.sizes, strides, strict=True))
        self.copied = not dtype.isnative or (apart and not repeated)
        if self.copied:
            strides, lowering, facts = packed, in_order, packed_facts
        self.empty = allocator(self.shape, self.dtype)
        self.effort = count * lowering.total * size
        self.work = self.effort + count * self.dtype.itemsize
        self.pieces = 0
        if count == 0:
            self.kernel = f"{self.function} nothing to find"
            return
        lines, *starts = _ascending(lowering.lines)
        self.facts = facts
        self.region = first(TABLE, facts, TUNING)
        plan, low_high = _plan(lowering, facts, lines, starts), extent(data.sizes, strides)
        plan[plans.LOW], plan[plans.HIGH] = low_high[0], low_high[1] + size
        self.plan = np.array(plan, np.int64)
        if plan[plans.PIECES] > 1:
            self.pieces = count * (2 * plan[plans.PIECES] + 1)
        kind = reference_to(SIGNED[size], is_float(lowering.data_type))
        arrays = kind, ANY, reference_to(SIGNED[8]), ANY
        self.launch, driver = launcher(self.region.kernel, arrays, self.effort)
        self.kernel = f"{self.function} {self.region.name} {data.dtype} {driver}"

    def __call__(self, a: ndarray[Any, Any], out: Any) -> Any:
        if out is None:
            result = self.empty(self.shape, self.dtype)
        else:
            result = out
            if not check_out(self.function, "out", out, self.shape, self.dtype):
                out[...] = self(a, None)
                return out
        if self.region is None:
            return result
        if self.copied:
            a = _packed_copy(a)
        scratch = np.zeros(self.pieces, np.int64) if self.pieces else a
        if self.launch(a, result, scratch, a, self.plan):  # the output overlaps the input
            result[...] = self(a, None)
        return result


def facts_of(lowering: Any, size: int, count: int) -> Facts:
    """Return the numbers that the choice needs, of `count` lines of elements of a size."""
    lines, *_ = _ascending(lowering.lines)
    across = lines[-1][0] if lines and lines[-1][1] == size else 1
    stride = lowering.reduced[0][1] if len(lowering.reduced) == 1 else 0
    fold = fold_of(lowering.total, size, count, stride, across, TUNING)
    return Facts(lowering.total, size, count, across, fold, numba.config.NUMBA_NUM_THREADS)


def fills_vectors(lowering: Any, facts: Facts) -> bool:
    """Tell whether lines lie side by side, or the elements of a line do: as many as a vector has, or all of them."""
    reduced, *_ = _ascending(lowering.reduced)
    run = reduced[-1][0] if reduced and reduced[-1][1] == facts.itemsize else 1
    return is_for_columns(facts, TUNING) or run >= min(VECTOR_BITS // (8 * facts.itemsize), facts.n)


def _ascending(rows: Sequence[tuple[int, int, int]]) -> tuple[tuple[Any, ...], int, int]:
    """Return dimensions in the order in which they lie in memory, with positive strides, and where they start then.

    What is broadcast comes first: so the last dimension is contiguous if any is.
    """
    start = other_start = 0
    turned = []
    for size, stride, other in rows:
        if stride < 0:
            start += (size - 1) * stride
            other_start += (size - 1) * other
            stride, other = -stride, -other
        turned.append((size, stride, other))
    numbers = flat(sorted(turned, key=lambda row: -row[1] if row[1] else -inf))
    count = collapse_rows(numbers, LINE_FIELDS, len(turned))
    return rows_of(numbers, LINE_FIELDS, count), start, other_start


def _plan(lowering: Any, facts: Facts, lines: tuple[Any, ...], starts: list[int]) -> list[int]:
    """Return the numbers that kernels read."""
    start, out_start = starts
    reduced, begin, position = lowering.reduced, 0, 0
    tile = 1
    if is_for_columns(facts, TUNING):
        tile = tile_of(facts, TUNING)
        begin = min((facts.fold - 1) * reduced[0][1], 0) if facts.fold > 1 else 0
    else:
        reduced, begin, position = _ascending(reduced)
    *outer, (n, stride, step) = reduced or ((1, 0, 1),)
    ordered = list(flat(reduced)[2::LINE_FIELDS]) == _packed_steps(reduced)
    plan = [0] * plans.HEADER + flat(lines) + flat(outer)
    plan[plans.LINES], plan[plans.DIMS] = facts.lines, len(lines)
    plan[plans.TOTAL], plan[plans.OUTER_DIMS] = facts.n, len(outer)
    plan[plans.SIZE], plan[plans.STRIDE], plan[plans.STEP] = n // facts.fold, stride * facts.fold, step
    plan[plans.START], plan[plans.OUT_START], plan[plans.FIRST] = lowering.start + start + begin, out_start, position
    plan[plans.BACKWARDS], plan[plans.ORDERED] = int(lowering.backwards), int(ordered)
    rule = rule_numbers(lowering.data_type, lowering.largest, lowering.nan_first)
    plan[plans.RULE : plans.RULE + len(rule)] = rule
    plan[plans.BEST] = highest_key(lowering.data_type, lowering.largest)
    plan[plans.INDEX_SIZE] = lowering.index_itemsize
    plan[plans.BLOCK], plan[plans.TILE] = TUNING.block_bytes // facts.itemsize, tile
    plan[plans.ROWS], plan[plans.FOLD] = facts.n // facts.fold, facts.fold
    plan[plans.CUTS] = cuts = cut_count(facts, tile, TUNING)
    plan[plans.PIECES] = cuts * facts.fold + 1 if facts.fold > 1 else cuts
    plan[plans.OUT_BYTES] = facts.lines * lowering.index_itemsize
    return plan


def _packed_steps(rows: Sequence[tuple[int, int, int]]) -> list[int]:
    """Return the distances of positions, if those of dimensions follow each other."""
    return [product([row[0] for row in rows[d + 1 :]]) for d in range(len(rows))]


def highest_key(data_type: TensorDataType, largest: bool) -> int:
    """Return the highest key that an element can have."""
    lowest = -(1 << (8 * element_size(data_type) - 1))
    return lowest + 1 if data_type is TensorDataType.BOOL and largest else -lowest - 1


build = ArgExtremeCall
