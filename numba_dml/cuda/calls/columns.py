"""Gathers from columns of single elements, and scatters to columns: by threads, by blocks, or transposed."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.devices.arrays import DeviceArray
from ..dispatch import gather, scatter_columns
from ..dispatch.layouts import Columns, Tile, elements_of, lines_of
from ..driver.arrays import scratch
from ..driver.numba import BLOCK
from ..kernels import columns_block, columns_thread, gather_lines, transpose
from ..primitives.moves import lines
from ..primitives.plan import DROP, Plan
from .lines import LineCombine, LineScatter
from .scatter_way import ScatterArguments, ScatterWay


def _steps(columns: Columns) -> tuple[int, ...]:
    """Return the steps of columns, as their kernels take them."""
    return columns.matrix_step, columns.row_step, columns.index_matrix_step, columns.index_row_step


def _covers(call: Any) -> bool:
    """Tell whether the columns are the whole output."""
    return bool(elements_of(call.facts.columns) * call.run == call.out_bytes)


class _OwnColumns:
    """Columns that have a thread each."""

    def __init__(self, call: Any) -> None:
        self.call, columns = call, call.facts.columns
        count = columns.matrices * columns.columns
        self.blocks = -(-count // BLOCK)
        self.shape = (*_steps(columns), columns.columns, count, columns.length)


class OwnColumnGather(_OwnColumns):
    """Gather from short columns."""

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> None:
        call = self.call
        plan = call.plan(a.device, call.run).address
        columns_thread.gather_columns_kernel(call.run, call.index_name)(
            a.device, stream, self.blocks, a.pointer, indices.pointer, out.pointer, plan, record, number, *self.shape
        )


class OwnColumnScatter(_OwnColumns, ScatterWay):
    """Scatter to short columns."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.covers = _covers(call)
        self.reduction = (call.lowering.data_type, call.lowering.reduction) if call.reduces else (None, "none")

    def __call__(self, given: ScatterArguments) -> Any:
        old, indices, updates, out, stream, record, *_ = given
        call, device = self.call, out.device
        memory, flag, number = call.look_first(given)
        plan = call.plan(device, call.run).address
        addresses = out.pointer, old, indices.pointer, updates.pointer, plan
        columns_thread.scatter_columns_kernel(call.run, call.index_name, *self.reduction)(
            device, stream, self.blocks, *addresses, record, number, flag, *self.shape
        )
        return memory


class _SharedColumns:
    """Columns of which a block has some in shared memory."""

    def __init__(self, call: Any, tile: Tile) -> None:
        self.call, self.tile, columns = call, tile, call.facts.columns
        self.blocks = columns.matrices * tile.strips
        self.shape = (*_steps(columns), columns.columns, tile.strips, tile.side.bit_length() - 1, columns.length)


class SharedColumnGather(_SharedColumns):
    """Gather from columns that fit into shared memory."""

    def __init__(self, call: Any) -> None:
        super().__init__(call, gather.tile_or_column(call.facts, call.tuning))

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> None:
        call = self.call
        addresses = a.pointer, indices.pointer, out.pointer, call.plan(a.device, call.run).address
        columns_block.gather_shared_kernel(call.run, call.index_name, self.tile.threads)(
            a.device, stream, self.blocks, *addresses, record, number, *self.shape, shared=self.tile.shared
        )


class SharedColumnScatter(_SharedColumns, ScatterWay):
    """Scatter to columns whose claims fit into shared memory."""

    def __init__(self, call: Any) -> None:
        super().__init__(call, scatter_columns.tile_or_column(call.facts, call.tuning))
        self.covers = _covers(call)

    def __call__(self, given: ScatterArguments) -> Any:
        old, indices, updates, out, stream, record, *_ = given
        call, device = self.call, out.device
        memory, flag, number = call.look_first(given)
        plan = call.plan(device, call.run).address
        addresses = out.pointer, old, indices.pointer, updates.pointer, plan
        columns_block.scatter_shared_kernel(call.run, call.index_name, self.tile.threads)(
            device, stream, self.blocks, *addresses, record, number, flag, *self.shape, shared=self.tile.shared
        )
        return memory


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


class _Strips:
    """Columns that are transposed strip by strip."""

    def __init__(self, call: Any) -> None:
        self.call, self.width = call, int(call.run)
        self.columns: Columns = call.facts.columns
        columns, width = self.columns, self.width
        self.position_bytes = 2 if columns.size < 1 << 16 else 4
        parts = [columns.length * self.position_bytes, columns.length * width, columns.size * width]
        most = max(1, call.tuning.moves.strip_bytes // sum(parts))
        #: Matrices and columns of a strip.
        self.matrices = max(1, min(columns.matrices, most // columns.columns))
        self.side = min(columns.columns, -(-most // transpose.SIDE) * transpose.SIDE)
        #: Where the positions, the points and the elements of a strip start in scratch memory, and its size.
        self.starts, self.size = [], 0
        for part in parts:
            self.starts.append(self.size)
            self.size += -(-part * self.matrices * self.side // 16) * 16
        self.plans: dict[int, Plan] = {}
        self.turn = transpose.turn_kernel(width)

    def plan(self, device: int) -> int:
        """Return the address of the plan for the transposed lines, whose bad indices are known already."""
        found = self.plans.get(device)
        if found is None:
            size, length, width = self.columns.size, self.columns.length, self.call.run
            loops = [(self.columns.columns, size * width, length), (length, 0, 1)]
            plan = Plan(device, 1, 1, loops, [(size, width)], [], DROP)
            found = self.plans.setdefault(device, plan)
        return found.address

    def strips(self) -> list[Strip]:
        """Return all strips."""
        matrices, columns = self.columns.matrices, self.columns.columns
        return [
            Strip(m, c, min(self.matrices, matrices - m), min(self.side, columns - c))
            for m in range(0, matrices, self.matrices)
            for c in range(0, columns, self.side)
        ]

    def packed(self, address: int, rows: int) -> Matrices:
        """Return packed matrices of updates or results, of as many rows as a column has points."""
        row = self.columns.columns * self.call.run
        return Matrices(address, rows * row, row, rows)

    def data(self, address: int) -> Matrices:
        """Return the matrices of the input or the output."""
        return Matrices(address, self.columns.matrix_step, self.columns.row_step, self.columns.size)

    def turn_indices(self, strip: Strip, indices: DeviceArray, to: int, stream: int, record: int, number: int) -> None:
        """Turn the indices of a strip into lines of positions."""
        call, columns = self.call, self.columns
        transpose.turn_indices_kernel(call.index_name, self.position_bytes)(
            indices.device,
            stream,
            transpose.tiles(strip.matrices, columns.length, strip.columns),
            indices.pointer,
            strip.matrix * columns.index_matrix_step + strip.column,
            columns.index_matrix_step,
            columns.index_row_step,
            to,
            columns.length,
            strip.columns,
            call.plan(indices.device, call.run).address,
            record,
            number,
        )

    def turn_in(self, strip: Strip, device: int, stream: int, fro: Matrices, to: int) -> None:
        """Turn the columns of a strip into packed lines."""
        _, matrix_step, row_step, rows = fro
        blocks = transpose.tiles(strip.matrices, rows, strip.columns)
        line = rows * self.call.run
        start, count = self.start(strip, fro), strip.columns
        self.turn(device, stream, blocks, start, matrix_step, row_step, to, count * line, line, rows, count)

    def turn_out(self, strip: Strip, device: int, stream: int, fro: int, to: Matrices) -> None:
        """Turn packed lines into the columns of a strip."""
        _, matrix_step, row_step, rows = to
        blocks = transpose.tiles(strip.matrices, strip.columns, rows)
        line = rows * self.call.run
        start, count = self.start(strip, to), strip.columns
        self.turn(device, stream, blocks, fro, count * line, line, start, matrix_step, row_step, count, rows)

    def start(self, strip: Strip, matrices: Matrices) -> int:
        """Return where a strip starts in matrices."""
        return matrices.address + strip.matrix * matrices.matrix_step + strip.column * self.width


class ColumnGather(_Strips):
    """Gather from columns, transposed."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.lines = gather.plan_lines(lines_of(self.columns), call.run, call.tuning)

    def __call__(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, record: int, number: int
    ) -> DeviceArray:
        columns, device, width, plan = self.columns, a.device, self.call.run, self.lines
        memory = scratch(out, self.size)
        positions, results, sources = (memory.pointer + start for start in self.starts)
        kernel = gather_lines.gather_lines_kernel(
            width, f"uint{8 * self.position_bytes}", plan.together > 1, plan.threads
        )
        for strip in self.strips():
            count = strip.matrices * strip.columns
            self.turn_indices(strip, indices, positions, stream, record, number)
            self.turn_in(strip, device, stream, self.data(a.pointer), sources)
            kernel(
                device,
                stream,
                -(-count // plan.together),
                sources,
                positions,
                results,
                self.plan(device),
                record,
                -1,
                1,
                plan.together * columns.length,
                count,
                plan.together,
                lines.row_factor(columns.length),
                shared=plan.shared,
            )
            self.turn_out(strip, device, stream, results, self.packed(out.pointer, columns.length))
        return memory


class ColumnScatter(_Strips, ScatterWay):
    """Scatter to columns, transposed."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.lines = (LineCombine if call.combined else LineScatter)(call, transposed=True)
        self.covers = self.lines.covers

    def __call__(self, given: ScatterArguments) -> Any:
        old, indices, updates, out, stream, record, *_ = given
        columns, device = self.columns, out.device
        memory = scratch(out, self.size)
        positions, news, results = (memory.pointer + start for start in self.starts)
        flag_memory, flag, number = self.call.look_first(given)
        index_name = f"uint{8 * self.position_bytes}"
        for strip in self.strips():
            self.turn_indices(strip, indices, positions, stream, record, number)
            self.turn_in(strip, device, stream, self.packed(updates.pointer, columns.length), news)
            self.turn_in(strip, device, stream, self.data(old), results)
            addresses = results, results, positions, news, self.plan(device)
            count = strip.matrices * strip.columns
            self.lines.launch(index_name, device, stream, count, addresses, record, -1, flag)
            self.turn_out(strip, device, stream, results, self.data(out.pointer))
        return memory, flag_memory
