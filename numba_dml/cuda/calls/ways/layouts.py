"""How gathers and scatters of single elements use the kernels for lines, columns and few places."""

from __future__ import annotations

from typing import Any

from ...dispatch import layouts, scatter
from ...dispatch.layouts import LinePlan, Lines
from ...driver.numba import BLOCK
from ...kernels import moves_columns, moves_lines, scatter_combine_few
from ...primitives.groups import QUAD_BYTES
from ...primitives.moves import lines as moves_lines_of
from ...primitives.moves.updates import CLAIM_BYTES
from ..move_call import NO_REDUCTION, Given


class Way:
    """A way to gather or scatter that needs a certain layout. Called, it returns memory in use until all is done."""

    #: It copies a scatter's old elements to an output of its own; if not, they are copied before.
    copies = False
    #: All indices are looked at before, if nothing may be written when one is bad.
    looks_before = True

    def __init__(self, call: Any) -> None:
        self.call = call


class ColumnsByThreads(Way):
    """Columns that have a thread each."""

    #: A block has some columns in shared memory.
    is_shared = False

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        facts, tuning, columns = call.facts, call.tuning, call.facts.columns
        self.copies = columns.elements * call.run == call.out_bytes
        count = columns.matrices * columns.columns
        self.blocks, self.threads, self.shared, self.division = -(-count // BLOCK), BLOCK, 0, (count, 0)
        if self.is_shared:
            tile = layouts.tile(facts, tuning) or layouts.tile_of(facts, 1, tuning)  # worth it or not
            self.blocks, self.threads, self.shared = columns.matrices * tile.strips, tile.threads, tile.shared
            self.division = tile.strips, tile.side.bit_length() - 1

    def __call__(self, given: Given) -> None:
        call = self.call
        kind = call.run, call.index_name, len(call.loops), self.threads, self.is_shared
        if call.gathers:
            kernel = moves_columns.gather_columns_kernel(*kind)
        else:
            kernel = moves_columns.scatter_columns_kernel(*kind, *call.reduction)
        head = call.head(given, call.numbers(kernel, given, call.run))
        kernel(*given.where, self.blocks, *head, *self.division, shared=self.shared)


class ColumnsByBlocks(ColumnsByThreads):
    """Columns of which a block has some in shared memory."""

    is_shared = True


class LineWay(Way):
    """Lines that fit into shared memory, or whose claims and chains do, or those of their parts."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.use(call.facts.lines, layouts.line_plan(call.facts, call.tuning))

    def use(self, lines: Lines, plan: LinePlan) -> None:
        """Divide some lines as planned."""
        self.lines, self.plan = lines, plan
        self.copies = lines.total * lines.size * self.call.run == self.call.out_bytes

    def __call__(self, given: Given) -> Any:
        call = self.call
        head = call.head(given, call.plan(given.out.device, call.run).address)
        self.launch(given, call.index_name, self.lines.total, head)

    def launch(self, given: Given, index_name: str, count: int, head: tuple[int, ...]) -> None:
        """Move the elements of `count` lines."""
        call, plan = self.call, self.plan
        several = plan.together > 1
        if call.gathers:
            kernel = moves_lines.gather_lines_kernel(call.run, index_name, several, plan.threads)
        else:
            reduction = NO_REDUCTION if call.combined else call.reduction
            kind = several, plan.staged, plan.threads, *reduction, call.combined
            kernel = moves_lines.scatter_lines_kernel(call.run, index_name, *kind)
        factor = moves_lines_of.row_factor(self.lines.length)
        blocks = -(-count // plan.together) * plan.parts
        division = plan.parts, plan.part, count, plan.together, factor
        kernel(*given.where, blocks, *head, *division, shared=plan.shared)


class FewPlaces(Way):
    """Combine integers, in any order, of an output so small that each block has one of its own."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self.count = call.out_bytes // call.dtype.itemsize
        self.units = scatter.updates_of(call.facts)
        self.blocks = max(scatter.copying_blocks(call.facts, call.tuning), 1)

    def __call__(self, given: Given) -> None:
        combine_few(self.call, given, given.out.pointer, self.blocks, self.count, self.units, self.call.combined)


def combine_few(
    call: Any, given: Given, data: int, blocks: int, count: int, units: int, combined: tuple[str, str] | None
) -> None:
    """Combine `units` updates with `count` elements at an address; or claim places there, without `combined`."""
    width = call.dtype.itemsize if combined else CLAIM_BYTES
    kernel = scatter_combine_few.combine_few_kernel(width, call.index_name, call.counts, combined)
    _, _, *head = call.head(given, call.numbers(kernel, given, width if combined else 1))
    shared = -(-count * width // QUAD_BYTES) * QUAD_BYTES
    kernel(*given.where, blocks, data, *head, count, units, -(-units // blocks), shared=shared)
