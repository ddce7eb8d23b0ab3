"""Gathers and scatters along columns that are transposed, strip by strip, into lines and back."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from ...dispatch.layouts import Columns, column_plan
from ...driver.arrays import scratch
from ...kernels import moves_columns
from ...primitives.plan import DROP, Plan
from ..move_call import Given
from .layouts import LineWay


class Strip(NamedTuple):
    """Columns that are transposed at a time."""

    matrix: int  #: First matrix.
    column: int  #: First column.
    matrices: int
    columns: int


class Matrices(NamedTuple):
    """Matrices in memory whose columns are transposed."""

    address: int
    matrix_step: int  #: Bytes from a matrix to the next.
    row_step: int  #: Bytes from a row to the next.
    rows: int


class TransposedColumns(LineWay):
    """Columns that become lines in scratch memory."""

    def __init__(self, call: Any) -> None:
        self.call, self.width = call, int(call.run)
        self.columns: Columns = call.facts.columns
        columns, width = self.columns, self.width
        plan = column_plan(call.facts, call.tuning)
        self.use(columns.lines, plan)
        self.position_bytes = 2 if columns.size < 1 << 16 else 4
        parts = [columns.length * self.position_bytes, columns.length * width, columns.size * width]
        most = max(1, call.tuning.strip_bytes // sum(parts))
        #: Matrices and columns of a strip.
        self.matrices = max(1, min(columns.matrices, most // columns.columns))
        self.side = min(columns.columns, -(-most // moves_columns.SIDE) * moves_columns.SIDE)
        #: Where the positions, the points and the elements of a strip start in scratch memory, and its size.
        self.starts, self.size = [], 0
        for part in parts:
            self.starts.append(self.size)
            self.size += -(-part * self.matrices * self.side // 16) * 16
        self.plans: dict[int, Plan] = {}
        self.turn = moves_columns.turn_kernel(width)

    def __call__(self, given: Given) -> Any:
        columns = self.columns
        memory = scratch(given.out, self.size)
        positions, points, elements = (memory.pointer + start for start in self.starts)
        data = Matrices(given.old, columns.matrix_step, columns.row_step, columns.size)
        target = data._replace(address=given.out.pointer)
        row = columns.columns * self.width
        packed = Matrices(given.updates.pointer, columns.length * row, row, columns.length)
        index_name, plan = f"uint{8 * self.position_bytes}", self.line_numbers(given.out.device)
        firsts = range(0, columns.matrices, self.matrices), range(0, columns.columns, self.side)
        for matrix, column in product(*firsts):
            sizes = min(self.matrices, columns.matrices - matrix), min(self.side, columns.columns - column)
            strip = Strip(matrix, column, *sizes)
            self.turn_indices(strip, given, positions)
            self.turn_strip(strip, given, data, elements)
            count = strip.matrices * strip.columns
            if self.call.gathers:
                head: tuple[int, ...] = elements, positions, points, plan, given.record, -1
                self.launch(given, index_name, count, head)
                self.turn_strip(strip, given, packed, points, back=True)
            else:
                self.turn_strip(strip, given, packed, points)
                head = elements, elements, positions, points, plan, given.record, -1, given.unless
                self.launch(given, index_name, count, head)
                self.turn_strip(strip, given, target, elements, back=True)
        return memory

    def line_numbers(self, device: int) -> int:
        """Return the address of the plan for the transposed lines, whose bad indices are known already."""
        found = self.plans.get(device)
        if found is None:
            size, length, width = self.columns.size, self.columns.length, self.width
            loops = [(self.columns.columns, size * width, length), (length, 0, 1)]
            found = self.plans.setdefault(device, Plan(device, 1, 1, loops, [(size, width)], [], DROP))
        return found.address

    def turn_indices(self, strip: Strip, given: Given, to: int) -> None:
        """Turn the indices of a strip into lines of positions."""
        call, columns = self.call, self.columns
        kernel = moves_columns.turn_indices_kernel(call.index_name, self.position_bytes)
        blocks = moves_columns.tiles(strip.matrices, columns.length, strip.columns)
        begin = strip.matrix * columns.index_matrix_step + strip.column
        steps, sizes = (columns.index_matrix_step, columns.index_row_step), (columns.length, strip.columns)
        indices, *looking = call.looking_head(kernel, given, call.run)
        kernel(*given.where, blocks, indices, begin, *steps, to, *sizes, *looking)

    def turn_strip(self, strip: Strip, given: Given, matrices: Matrices, lines: int, *, back: bool = False) -> None:
        """Turn the columns of a strip into packed lines at an address, or back."""
        address, matrix_step, row_step, rows = matrices
        start = address + strip.matrix * matrix_step + strip.column * self.width
        line, count = rows * self.width, strip.columns
        blocks = moves_columns.tiles(strip.matrices, rows, count)
        fro, to, sizes = (start, matrix_step, row_step), (lines, count * line, line), (rows, count)
        if back:
            fro, to, sizes = to, fro, (count, rows)
        self.turn(*given.where, blocks, *fro, *to, *sizes)
