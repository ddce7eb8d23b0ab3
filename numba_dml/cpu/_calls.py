"""From a lowering to a call: the plan that a kernel reads, the driver that runs it, and what Python does around it.

A call belongs to one descriptor and one memory layout. On the way of a known layout nothing is validated but `out`.
What is rare happens elsewhere: operands that a kernel cannot read as they are (`_Prepared`), an `out` that is strided
or lies in an input, a bad index.
"""

from __future__ import annotations

from functools import cached_property, partial
from math import sqrt
from typing import Any

import numpy as np
from numba import types
from numpy import ndarray

from .._enums import TensorDataType as D
from .._lowering import Move, Select
from .._operator import Descriptor
from .._pool import allocator
from .._tensor import dtype_of, elements_overlap, extent, packed_strides, product
from ..ops.top_k import TopK
from . import _arithmetic, _indices, gather, launcher, scatter, top_k
from ._keys import LANES, rule_numbers
from ._memory import CACHE_LINE, ArrayRef
from ._short_lines import NETWORK_K

_UNSIGNED = {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}
_SIGNED = {1: types.int8, 2: types.int16, 4: types.int32, 8: types.int64}
_ANY = ArrayRef(types.uint8)

_INFINITY = {D.FLOAT16: 0x7C00, D.BFLOAT16: 0x7F80, D.FLOAT32: 0x7F800000, D.FLOAT64: 0x7FF0000000000000}
_SIGNED_TYPES = {D.INT8, D.INT16, D.INT32, D.INT64}

#: Offsets that all rows of a gather have in common are kept up to this many points: 512 KiB, half of a common L2.
COMMON_POINTS = 1 << 16
#: A row of data up to this size is asked for before it is read, if there is a point for every line of it.
ROW_AHEAD_BYTES = 1 << 17
#: From this size on an output is written past the caches. Two threads copy 16 MiB with 39 GB/s and past the caches with
#: 26, 32 MiB with 26 either way, 256 MiB with 18 and 25.
STREAM_BYTES = 1 << 25
#: What the tile of an operation along another axis than the last should touch. Strips of (2048, 4096) f4 took 47 ms on
#: one thread with 2 MiB, 52 with 1, 64 with 0.5 (short rows cost), whole rows 55. A tile is at least a cache line wide,
#: and not worth its while where the axis is so long that even that is too much.
TILE_BYTES = 1 << 21
TILE_LIMIT = 1 << 22
#: What a strip of a scatter's output should be, which is copied and written to in one go, where it is contiguous.
STRIP_BYTES = 1 << 18
#: A new output of a scatter is written in its own order if its slices have this many bytes, and if the 4 bytes that are
#: noted for each are no more than the updates. On one thread, of 64 MB in slices of 16 bytes a half is updated in 48 ms
#: (by copy and updates 87), an eighth in 25 (21); of 64 bytes in 18 (38) and 9 (12); of 8 bytes in 100 (45).
PLACE_BYTES = 16
#: Tiles are shared among threads, so there must be a line for each of many.
TILE_ROW = 64 * CACHE_LINE

#: Up to this many elements, and the network's k, lines go through the network. One thread, k 8: 1.2 ns per f4 in lines
#: of 128 and 0.6 in lines of 1024, against 15 and 1.8 as rows; 2.6 per f8 in lines of 1024 against 3.0, with k 16 4.1
#: against 3.4.
SHORT_SIZE = 1024
#: Columns are kept as sorted lists of so many bytes, single ones counted as two. On one thread 8M elements take 15 ms
#: in columns for f4 and k 32, staged 36 (k 64: 38 and 39), for f8 and k 16 18 and 27 (k 32: 40 and 31), for f2 and k 64
#: 33 and 41.
COLUMN_LIST = 128
#: Lines per tile of columns: 512 thresholds and the first places of their lists stay in L1.
COLUMN_TILE = 512
#: What the buffers of lines that are staged together may take, in bytes and per thread.
GROUP_BYTES = 1 << 24
#: The shortest piece that a long line is cut into: a piece pays for its own warm-up of the threshold.
PIECE_SIZE = 1 << 16
#: A line whose pieces would keep this many elements together gets one bound for all of them from a sample. One thread,
#: f4, with and without: (1, 10M) k 100 1.3 and 1.7 ms, k 10,000 2.0 and 19.7; (1, 1M) k 10 (15 pieces) 0.12 and 0.15;
#: (10, 1M) k 10 (2 pieces) 1.5 and 1.3, k 100 1.7 and 2.0; (1, 131072) k 10 0.022 and 0.021, k 100 0.028 and 0.031.
SAMPLE_KEPT = 128
#: A sample has one of so many elements, and is no larger than this: (10, 1M) k 10,000 takes 7.6 ms with one of 256, 9.0
#: with one of 512; (10, 1M) k 10 1.6 and 1.4.
SAMPLE_STEP = 256
SAMPLE = 1 << 14
#: The bound is so many standard deviations below where k elements are expected above it: if they are fewer, the call
#: starts again, in 1 of 100,000. Four deviations more of a sample of 16384 are 1.0 times k too many for k = n / 1000.
SAMPLE_DEVIATIONS = 4
#: From this k on, and this part of a line, its elements are collected above a sampled limit and sorted. One thread, f4,
#: this way and as rows, in ms: (2000, 5000) k 128 19 and 17, k 256 23 and 28; (500, 20000) k 128 8.9 and 8.4, k 256 9.8
#: and 10.9, k 5000 39 and 151; (64, 50257) k 256 1.9 and 2.5; (20, 500k) k 300 3.9 and 2.9, k 1000 4.4 and 5.9.
SORTED_K = 256
SORTED_PART = 1024
#: Lines are only cut into pieces if k is at most this part. In pieces, and sorted: (10, 1M) k 10,000 8.0 and 7.8,
#: k 40,000 20 and 13; (1, 10M) k 100,000 8.7 and 7, k 300,000 17 and 13.
PIECES_PART = 64
#: A sample of a line that is sorted may be larger, since k is: one of 64 takes a quarter longer than one of 16 in
#: (500, 20000), k 64 to 1250, one of 16 a tenth longer in (10, 1M), k 40,000. Its margin may be smaller, since a bound
#: that fails costs no second run: the k-th best is searched digit by digit, in 1 to 2 ns per element and round.
SORTED_STEP = 16
SORTED_DEVIATIONS = 2


def build(*args: Any) -> Any:
    """Return the call for a descriptor and the layouts of its inputs."""
    try:
        return _build(*args)
    except OverflowError:  # offsets are 64-bit numbers; no array can be so large, but a descriptor can
        raise ValueError(f"{args[0].function}: found a tensor of 2**63 bytes or more, expected a smaller one") from None


def _build(
    descriptor: Descriptor,
    layouts: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
    output_shapes: tuple[tuple[int, ...], ...],
    out_strides: tuple[int, ...] | None,
) -> Any:
    tensors = [getattr(descriptor, name) for name in descriptor.input_fields]
    native = [dtype.isnative for _, dtype in layouts]
    packed = [_is_packed(t.sizes, strides, t.itemsize) for t, (strides, _) in zip(tensors, layouts, strict=True)]
    if descriptor.function == "top_k":
        lowering = descriptor.lower([layouts[0][0]])
        assert isinstance(lowering, Select)
        return _prepared(_TopKCall(descriptor, lowering, output_shapes), [_native_copy if not native[0] else None])
    # Indices and updates are read whole, so a copy costs little; of the data only a part may be read.
    fixes: list[Any] = [None if n and p else _packed_copy for n, p in zip(native, packed, strict=True)]
    if descriptor.function.startswith("gather"):
        lowering = descriptor.lower([layouts[0][0]])
        assert isinstance(lowering, Move)
        call = _prepared(_GatherCall(lowering, tensors[0].dtype, output_shapes[0]), [None, fixes[1]])
        return call if native[0] else _SwappedGather(call, tensors[0].dtype)
    if out_strides is not None and len(out_strides) != tensors[0].dimension_count:
        out_strides = None  # of another rank: the call will say so
    data_strides = packed_strides(tensors[0].sizes, tensors[0].itemsize) if out_strides is None else out_strides
    lowering = descriptor.lower([data_strides])
    assert isinstance(lowering, Move)
    kernel_copies = packed[0] and _is_packed(tensors[0].sizes, data_strides, tensors[0].itemsize)
    return _prepared(
        _ScatterCall(lowering, tensors[0].dtype, output_shapes[0], kernel_copies),
        [None if native[0] else _native_copy, fixes[1], fixes[2]],
    )


def _is_packed(sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    expected = packed_strides(sizes, itemsize)
    return 0 in sizes or all(n == 1 or s == e for n, s, e in zip(sizes, strides, expected, strict=True))


def _native_copy(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    return array.astype(array.dtype.newbyteorder("="))


def _packed_copy(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)


def _prepared(call: Any, fixes: list[Any]) -> Any:
    return _Prepared(call, fixes) if any(fixes) else call


class _Around:
    """A call around another one."""

    def __init__(self, call: Any) -> None:
        self.call, self.function, self.kernel, self.work = call, call.function, call.kernel, call.work


class _Prepared(_Around):
    """A call whose inputs are copied first where a kernel cannot read them as they are."""

    def __init__(self, call: Any, fixes: list[Any]) -> None:
        super().__init__(call)
        self.fixes = fixes

    def __call__(self, *args: Any) -> Any:
        *inputs, out = args
        fixed = [fix(array) if fix else array for fix, array in zip(self.fixes, inputs, strict=True)]
        if out is not None and inputs[0] is out and fixed[0] is not out:
            raise TypeError(f"{self.function}: out: found dtype {out.dtype}, expected {fixed[0].dtype}")
        return self.call(*fixed, out)


class _SwappedGather(_Around):
    """A gather from an input in foreign byte order: only what was gathered is swapped."""

    def __init__(self, call: Any, dtype: np.dtype[Any]) -> None:
        super().__init__(call)
        self.dtype = dtype

    def __call__(self, a: Any, indices: Any, out: Any) -> Any:
        # The bytes as they are, then NumPy's conversion: of a structured element only some fields may be foreign.
        result = self.call(a.view(self.dtype), indices, None).view(a.dtype).astype(self.dtype)
        if out is None:
            return result
        _check_out(self.function, "out", out, result.shape, result.dtype)
        out[...] = result
        return out


def _check_out(function: str, name: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Check an output that the caller gave; return whether it is contiguous."""
    if out.__class__ is ndarray and out.dtype == dtype and out.shape == shape and out.flags.carray:
        return True  # contiguous, aligned, and can be written
    if not isinstance(out, ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{function}: {name}: found {type(out).__name__}, expected a numpy.ndarray")
    if out.dtype != dtype:
        raise TypeError(f"{function}: {name}: found dtype {out.dtype}, expected {dtype}")
    if out.shape != shape:
        raise ValueError(f"{function}: {name}: found shape {out.shape}, expected {shape}")
    flags = out.flags
    if not flags.writeable:
        raise ValueError(f"{function}: {name}: found a read-only array, expected one that can be written")
    if flags.c_contiguous:
        return True
    if elements_overlap(out.shape, out.strides, dtype.itemsize):
        raise ValueError(f"{function}: {name}: found strides {out.strides}, expected elements that do not overlap")
    return False


class _MoveCall:
    """What gather and scatter calls share: the plan, and the error for a bad index."""

    function: str
    kernel: str

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.lowering = lowering
        self.function = lowering.function
        self.dtype = dtype
        self.shape = shape
        self.empty = allocator(shape, dtype)
        points = product(loop[0] for loop in lowering.loops)
        elements = product(size for size, _ in lowering.slices)
        index_bytes = product(lowering.index_shape) * dtype_of(lowering.index_type).itemsize
        self.moved = points * elements * lowering.itemsize
        self.work = 2 * self.moved + index_bytes
        self.points = points
        self.index_bytes = index_bytes

    def make_plan(self, unit: int) -> ndarray[Any, Any]:
        """Return the numbers for a kernel that moves units of `unit` bytes."""
        low = self.lowering
        outer = list(low.slices)
        run = low.itemsize
        if outer and outer[-1][1] == low.itemsize:
            run *= outer.pop()[0]
        slice_bytes = run * product([size for size, _ in outer])
        places = [(n, s) for n, s, _, _ in low.loops] + list(low.coordinates)
        starts = extent(*zip(*places, strict=True))
        inside = extent(*zip(*outer, strict=True)) if outer else (0, 0)
        plan = np.zeros(
            _indices.HEADER
            + _indices.LOOP_FIELDS * len(low.loops)
            + _indices.COORD_FIELDS * len(low.coordinates)
            + _indices.OUTER_FIELDS * len(outer),
            np.int64,
        )
        plan[_indices.POINTS] = self.points
        plan[_indices.LOOPS] = len(low.loops)
        plan[_indices.COORDS] = len(low.coordinates)
        plan[_indices.OUTER] = len(outer)
        plan[_indices.RUNS] = product([size for size, _ in outer])
        plan[_indices.RUN] = run // unit
        plan[_indices.KIND] = _indices.INDEX_KINDS.index(dtype_of(low.index_type).name)
        plan[_indices.BOUNDS] = {"clamp": _indices.CLAMP, "drop": _indices.DROP}.get(low.bounds, _indices.RAISE)
        plan[_indices.LOW] = starts[0] + inside[0]
        empty_data = any(size == 0 for size, _ in places + outer) or run == 0
        plan[_indices.HIGH] = plan[_indices.LOW] if empty_data else starts[1] + inside[1] + run
        plan[_indices.STARTS_LOW] = starts[0]
        plan[_indices.STARTS_HIGH] = starts[1] + 1
        plan[_indices.PACKED_BYTES] = self.moved
        plan[_indices.INDEX_BYTES] = self.index_bytes
        tail = [(n, s, i, p * slice_bytes) for n, s, i, p in low.loops] + list(low.coordinates) + outer
        plan[_indices.HEADER :] = [number for dim in tail for number in dim]
        return plan

    def widest_unit(self) -> int:
        """Return the widest unit that the contiguous runs of the slices consist of."""
        low = self.lowering
        run = low.itemsize
        if low.slices and low.slices[-1][1] == low.itemsize:
            run *= low.slices[-1][0]
        return next(unit for unit in (8, 4, 2, 1) if run % unit == 0)

    def index_error(self, a: Any, indices: Any, position: int) -> IndexError:
        """Return the error for the index at a flat position."""
        low = self.lowering
        coordinate = position % len(low.coordinates)
        at = np.unravel_index(position, indices.shape)
        where = ", ".join(str(int(i)) for i in at) if indices.ndim else "()"
        axis = max(a.ndim, 1) + low.axes[coordinate]
        return IndexError(
            f"{low.function}: indices[{where}] = {int(indices[at])} is out of range "
            f"for axis {axis} of size {low.coordinates[coordinate][0]}"
        )


class _GatherCall(_MoveCall):
    """A gather of one layout."""

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(lowering, dtype, shape)
        unit = self.widest_unit()
        self.plan = self.make_plan(unit)
        self.plan[_indices.FILLED] = 1
        self.plan[_indices.STREAM] = self.moved >= STREAM_BYTES
        *rows, (length, step, index_step, _) = lowering.loops
        common = rows and index_step and not any(index for _, _, index, _ in rows)
        self.plan[_indices.COMMON] = bool(common and length <= COMMON_POINTS)
        if rows and len(lowering.coordinates) == 1 and not step:
            span = product(lowering.coordinates[0])
            if 0 < span <= min(ROW_AHEAD_BYTES, CACHE_LINE * length):
                self.plan[_indices.AHEAD] = span
        self.plan[_indices.TILE] = 0 if common else _tile(lowering, self.moved // max(self.points, 1))
        data = ArrayRef(_UNSIGNED[unit])
        self.launch, driver = launcher(gather.gather_kernel, (data, _ANY, data, _ANY), self.work)
        self.kernel = f"gather {8 * unit}-bit {driver}"

    def __call__(self, a: Any, indices: Any, out: Any) -> Any:
        if out is None:
            result = self.empty(self.shape, self.dtype)
        elif _check_out(self.function, "out", out, self.shape, self.dtype):
            result = out
        else:
            out[...] = self(a, indices, None)
            return out
        status = self.launch(a, indices, result, indices, self.plan)
        if status == 0:
            return result
        if status == gather.OVERLAP:
            out[...] = self(a, indices, None)
            return out
        raise self.index_error(a, indices, status - 1)


class _ScatterCall(_MoveCall):
    """A scatter of one layout."""

    def __init__(self, lowering: Move, dtype: np.dtype[Any], shape: tuple[int, ...], kernel_copies: bool) -> None:
        super().__init__(lowering, dtype, shape)
        self.kernel_copies = kernel_copies
        whole = product(shape) * lowering.itemsize
        reduction = _arithmetic.REDUCTIONS.index(lowering.reduction)
        if reduction == _arithmetic.NONE:
            unit = self.widest_unit()
            element: Any = _UNSIGNED[unit]
        else:
            unit = lowering.itemsize
            element, reduction = _arithmetic_type(lowering.data_type, reduction)
        self.plan = self.make_plan(unit)
        self.plan[_indices.REDUCTION] = reduction
        self.plan[_indices.COPY] = whole if kernel_copies else 0
        self.plan[_indices.STREAM] = whole >= STREAM_BYTES
        split = _split(lowering, self.moved // max(self.points, 1))
        self.plan[_indices.SPLIT] = split
        if split >= 0:
            size, step, _, _ = lowering.loops[split]
            strides = packed_strides(shape, lowering.itemsize)
            period = min([s for s in strides if s > (size - 1) * step], default=max(whole, 1))
            self.plan[_indices.PERIOD] = period
            strip = STRIP_BYTES if period == whole else TILE_BYTES * period // max(whole, 1)
            self.plan[_indices.TILE] = max(strip // abs(step), CACHE_LINE // abs(step), 1)
        self.work += 2 * whole if kernel_copies else 0
        code = scatter.scatter_kernel
        self.arrays = (_ANY, ArrayRef(element), _ANY, ArrayRef(element))
        if kernel_copies and split in (scatter.BY_WINDOW, scatter.BY_POINT) and self._by_place(whole, reduction):
            code = scatter.places_kernel
        self.by_place = code is scatter.places_kernel
        self.launch, driver = launcher(code, self.arrays, self.work)
        work = f"{8 * unit}-bit" if reduction == _arithmetic.NONE else f"{lowering.reduction} {dtype}"
        self.kernel = f"scatter {'places ' if self.by_place else ''}{work} {driver}"

    def _by_place(self, whole: int, reduction: int) -> bool:
        """Tell whether a new output is best written in its own order."""
        slice_bytes = self.moved // max(self.points, 1)
        return bool(
            reduction == _arithmetic.NONE
            and not self.plan[_indices.OUTER]
            and slice_bytes >= PLACE_BYTES
            and 4 * whole // slice_bytes <= self.moved
            and self.points < 1 << 31
        )

    def __call__(self, a: Any, indices: Any, updates: Any, out: Any) -> Any:
        if out is None:
            result = self.empty(self.shape, self.dtype)
        else:
            _check_out(self.function, "out", out, self.shape, self.dtype)
            result = out
        source = a
        if a is not result and not self.kernel_copies and not _same_memory(a, result):
            if any(np.may_share_memory(result, array) for array in (a, indices, updates)):
                return self.through_copies(a, indices, updates, result)
            np.copyto(result, a)
            source = result
        status = self.launch(source, result, indices, updates, self.plan)
        if status == 0:
            return result
        if status == gather.OVERLAP and self.by_place:  # in place, perhaps
            status = self.launch_anywhere(source, result, indices, updates, self.plan)
            if status == 0:
                return result
        if status == gather.OVERLAP:
            return self.through_copies(a, indices, updates, result)
        raise self.index_error(a, indices, status - 1)

    @cached_property
    def launch_anywhere(self) -> Any:
        """The launch that can write in place; compiled when it is needed."""
        return launcher(scatter.scatter_kernel, self.arrays, self.work)[0]

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


def _arithmetic_type(data_type: D, reduction: int) -> tuple[Any, int]:
    """Return the Numba type that a reduction computes in, and the reduction's code."""
    if data_type is D.FLOAT16:
        return types.uint16, reduction + _arithmetic.FLOAT16
    if data_type is D.BFLOAT16:
        return types.uint16, reduction + _arithmetic.BFLOAT16
    if data_type is D.BOOL:  # NumPy's arithmetic of bool: add is or, mul is and
        codes = {_arithmetic.ADD: _arithmetic.MAX, _arithmetic.MUL: _arithmetic.MIN}
        return types.uint8, codes.get(reduction, reduction)
    return getattr(types, dtype_of(data_type).name), reduction


def _tile(lowering: Move, slice_bytes: int) -> int:
    """Return how many iterations of the last loop to do together, for all rows, 0: go row by row.

    Along the last axis the elements that a row reaches are neighbours. Along another axis each index leads to another
    row of data; then narrow strips of all rows stay in a cache.
    """
    length, step, index_step, _ = lowering.loops[-1]
    if len(lowering.loops) == 1 or not index_step or step != slice_bytes or length * step < TILE_ROW:
        return 0
    lines = product(size for size, _ in lowering.coordinates)
    if lines * length * step <= TILE_BYTES or lines * CACHE_LINE > TILE_LIMIT:
        return 0
    return max(TILE_BYTES // (lines * step), CACHE_LINE // step, 1)


def _split(lowering: Move, slice_bytes: int) -> int:
    """Choose how threads share a scatter so that no element has two writers."""
    if lowering.unique:
        return scatter.BY_POINT
    moving = [(size, loop) for loop, (size, stride, _, _) in enumerate(lowering.loops) if stride and size >= 64]
    if moving:  # iterations of these loops write to different places; 64 of them are enough for any machine
        return max(moving)[1]
    if slice_bytes >= 1 << 16:  # a share of a slice is still many cache lines
        return scatter.BY_SLICE
    return scatter.BY_WINDOW


#: `TopK` from a pair; NumPy's allocation takes no longer than a named tuple's own constructor.
_result = partial(tuple.__new__, TopK)


class _TopKCall:
    """A top-k of one layout."""

    function = "top_k"

    def __init__(self, descriptor: Descriptor, lowering: Select, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        self.shape = output_shapes[0]
        values, indices = (getattr(descriptor, name) for name in descriptor.output_fields)
        self.dtype, self.index_dtype = values.dtype, indices.dtype
        self.empty, self.empty_indices = (allocator(self.shape, tensor.dtype) for tensor in (values, indices))
        low = lowering
        size = values.itemsize
        # Lines are independent: those that lie closest come last.
        lines = sorted(low.lines, key=lambda line: -abs(line[1]))
        count = product([line[0] for line in lines])
        self.idle = low.k == 0 or count == 0
        self.work = count * low.size * size
        is_float = low.data_type in _INFINITY
        method, group, tile = top_k.ROWS, 0, 0
        if low.size > 1 and low.stride != size:
            across = lines[-1][0] if lines else 1
            if (
                lines
                and lines[-1][1] == size
                and low.k * max(size, 2) <= COLUMN_LIST
                and low.size < 1 << 31
                and across >= LANES // 4
            ):
                method, tile = top_k.COLUMNS, min(COLUMN_TILE, max(LANES, across // 16 // LANES * LANES))
            else:
                group = max(1, min(across, 64 // size))
        elif low.k == 1 and low.size >= LANES and (count >= 16 or low.size < 2 * PIECE_SIZE):
            method = top_k.BEST
        elif low.size <= SHORT_SIZE and low.k <= NETWORK_K:
            method = top_k.SHORT
        pieces = 1
        sample, deviations = 0, SAMPLE_DEVIATIONS
        if method == top_k.ROWS and 0 < count < 16 and low.size >= 2 * PIECE_SIZE and PIECES_PART * low.k <= low.size:
            method = top_k.IN_PIECES
            pieces = min(-(-16 // count), low.size // max(PIECE_SIZE, 8 * low.k))
            if pieces * low.k >= SAMPLE_KEPT:
                sample = min(SAMPLE, low.size // SAMPLE_STEP)
        elif method == top_k.ROWS and low.k >= SORTED_K and SORTED_PART * low.k >= low.size and low.size < 1 << 31:
            method = top_k.SORTED
            if low.k < low.size:
                sample, deviations = min(SAMPLE, low.size // SORTED_STEP), SORTED_DEVIATIONS
        sample -= sample % LANES
        expected = sample * low.k / max(low.size, 1)
        capacity = (
            low.k if method in (top_k.SHORT, top_k.BEST) else min(max(4 * low.k, 512), max(low.size, low.k)) + 2 * LANES
        )
        if group:  # every line of a group has a buffer
            line_bytes = low.size * size if method == top_k.SORTED else capacity * (size + 8)
            group = max(1, min(group, GROUP_BYTES // line_bytes))
        self.plan = np.zeros(top_k.HEADER + top_k.DIM_FIELDS * len(lines), np.int64)
        plan = self.plan
        plan[top_k.SAMPLE] = sample
        plan[top_k.SAMPLE_RANK] = int(expected + deviations * sqrt(expected)) + deviations
        plan[top_k.LINES] = count
        plan[top_k.DIMS] = len(lines)
        plan[top_k.SIZE] = low.size
        plan[top_k.STRIDE] = low.stride
        plan[top_k.OUT_STRIDE] = low.output_stride
        plan[top_k.K] = low.k
        plan[top_k.INDEX_SIZE] = low.index_itemsize
        plan[top_k.RULE : top_k.RULE + 3] = rule_numbers(
            8 * size,
            is_float,
            low.data_type in _SIGNED_TYPES,
            low.largest,
            low.nan_largest,
            _INFINITY.get(low.data_type, 0),
        )
        plan[top_k.CAPACITY] = capacity
        plan[top_k.METHOD] = method
        plan[top_k.PIECES] = pieces
        plan[top_k.GROUP] = group
        plan[top_k.TILE] = tile
        dims = [(n, s) for n, s, _ in lines] + [(low.size, low.stride)]
        plan[top_k.LOW], high = extent(*zip(*dims, strict=True))
        plan[top_k.HIGH] = high + size
        plan[top_k.VALUE_BYTES] = count * low.k * size
        plan[top_k.INDEX_BYTES] = count * low.k * low.index_itemsize
        plan[top_k.HEADER :] = [number for line in lines for number in line]
        # What the phases of the pieces hand on; see `top_k.piece_buffers`.
        self.scratch_bytes = count * (pieces * (capacity * (size + 8) + 8) + size) if method == top_k.IN_PIECES else 0
        x = ArrayRef(_SIGNED[size], is_float)
        name = ("short", "rows", "columns", "best", "pieces", "sorted")[method]
        if self.idle:
            self.kernel = "top_k nothing to select"
            return
        self.launch, driver = launcher(top_k.KERNELS[method], (x, x, _ANY, _ANY), self.work)
        self.kernel = f"top_k {name} {8 * size}-bit {'float' if is_float else 'integer'} {driver}"

    def __call__(self, a: Any, out: Any) -> TopK:
        if out is None:
            values, indices = self.empty(self.shape, self.dtype), self.empty_indices(self.shape, self.index_dtype)
            result = _result((values, indices))
        else:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(f"top_k: out: found {type(out).__name__}, expected a pair (values, indices)")
            result = _result(out)
            values, indices = out
            contiguous = _check_out("top_k", "out[0]", values, self.shape, self.dtype)
            if not _check_out("top_k", "out[1]", indices, self.shape, self.index_dtype) or not contiguous:
                return self._through_copies(a, result)
        if self.idle:
            return result
        scratch = np.empty(self.scratch_bytes, np.uint8) if self.scratch_bytes else a
        status = self.launch(a, values, indices, scratch, self.plan)
        if status == top_k.TOO_FEW:
            plan = self.plan.copy()
            plan[top_k.SAMPLE] = 0
            status = self.launch(a, values, indices, scratch, plan)
        return self._through_copies(a, result) if status else result

    def _through_copies(self, a: Any, out: TopK) -> TopK:
        """Write to an output that is strided, or lies in the input."""
        values, indices = self(a, None)
        out.values[...] = values
        out.indices[...] = indices
        return out
