"""The call of a gather: from a lowering to the kernel that runs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..._core.enums import TensorDataType
from ..._core.lowering import Move
from ..._core.shapes import COORD_FIELDS, collapse_rows, flat, rows_of
from ..dispatch import gather
from ..driver.arrays import Span, part, spans_of
from ..driver.launch import Kernel, recorder
from ..kernels import moves_units
from ..primitives.moves import places as moves_places
from .move_call import Given, _MoveCall
from .ways.layouts import ColumnsByBlocks, ColumnsByThreads, LineWay
from .ways.transposed import TransposedColumns

#: The ways of single elements, by the name of their row; the rows that are left move units, and slices.
WAYS: dict[str, Callable[[Any], Any]] = {
    gather.LINES.name: LineWay,
    gather.COLUMNS_BY_THREADS.name: ColumnsByThreads,
    gather.COLUMNS_BY_BLOCKS.name: ColumnsByBlocks,
    gather.COLUMNS_TRANSPOSED.name: TransposedColumns,
}


class GatherCall(_MoveCall):
    """A gather of one layout.

    `region` is the row of `regions` that was chosen by `facts` and `tuning`. Only element operators have a `way`.
    """

    gathers = True
    regions = gather.TABLE
    ways = WAYS

    def __init__(
        self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], spans: Sequence[Span] = ()
    ) -> None:
        super().__init__(lowering, dtype, shape, spans)
        self.choose("gather", gather.facts_of(self))
        self.bound: dict[tuple[int, int], tuple[Kernel, int, int, int, int]] = {}

    def bind(self, device: int, width: int) -> tuple[Kernel, int, int, int, int]:
        """Return how units of a width are moved: the kernel, its plan, blocks, units in all, and those of a block.

        If slices are moved by warps, these are slices in all, and those of a warp.
        """
        found = self.bound.get((device, width))
        if found is None:
            if self.region is gather.SLICES_BY_WARPS:
                count, kernel = self.points, moves_units.gather_slices_kernel(width, self.index_name, self.counts)
                blocks, share = moves_units.divide_slices(count, self.tuning.least_warps)
            else:
                count, kernel = self.moved // width, moves_units.gather_kernel(width, self.index_name, self.counts)
                blocks, share = moves_places.divide(count, self.tuning.few_units)
            plan = self.plan(device, width).for_kernel(kernel)
            found = self.bound[device, width] = kernel, plan, blocks, count, share
        return found

    def launch(
        self, a: DeviceArray, indices: DeviceArray, out: DeviceArray, stream: int, others: Collection[int | None] = ()
    ) -> None:
        """Run the kernel, let the other streams wait, and raise for a bad index."""
        device, index_shape = a.device, indices.shape
        if self.spans and not self.spans[1].packed:
            indices = packed(indices, stream)
        records, record, number = self.begin(device, len(a.shape), index_shape)
        given = Given(a.pointer, indices, out, out, stream, record.address, number)
        memory: Any = None
        if self.way:
            memory = self.way(given)
        elif self.moved:
            kernel, plan, blocks, *sizes = self.bind(device, self.unit_width(a.pointer | out.pointer))
            kernel(device, stream, blocks, *self.head(given, plan), *sizes)
        else:
            self.look(given)
        part(device, stream, others)
        self.finish(records, record, stream, len(a.shape), index_shape)
        del memory  # the kernels are done, or the stream orders whoever gets it next


def build(descriptor: Any, layouts: Any, output_shapes: Any) -> GatherCall:
    """Return the call for a descriptor and the layouts of its inputs."""
    tensors = [getattr(descriptor, name) for name in descriptor.input_fields]
    spans, lowering = spans_of(tensors, layouts), descriptor.lower([layouts[0][0]])
    return GatherCall(lowering, tensors[0].dtype, output_shapes[0], spans)


@lru_cache(maxsize=1024)
def _copy(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> GatherCall:
    """Return the gather of one slice, which is all of an array, without any indices."""
    dims = flat(zip(shape, strides, strict=True))
    lowering = Move(
        function="copy",
        data_type=dtype,
        itemsize=dtype.itemsize,
        index_type=TensorDataType.INT64,
        index_shape=(),
        loops=((1, 0, 0, 1),),
        coordinates=(),
        slices=rows_of(dims, COORD_FIELDS, collapse_rows(dims, COORD_FIELDS, len(shape))),
        axes=(),
        bounds="clamp",
    )
    return GatherCall(lowering, dtype, shape)


def copy(array: DeviceArray, to: DeviceArray, stream: int) -> None:
    """Copy a strided array to a packed one; its plan lives in a cache, so that no launch of it is recorded."""
    recorder.note(None)
    _copy(array.shape, array.strides, array.dtype).launch(array, array, to, stream)


def packed(array: DeviceArray, stream: int) -> DeviceArray:
    """Return a packed copy of a strided array."""
    new = array.library.new(array.shape, array.dtype, array.device)
    copy(array, new, stream)
    return new
