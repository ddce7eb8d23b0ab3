"""The entries: what jitted code calls to run an operator, by address, so that nothing of it is compiled again.

An entry is ``entry(kernels, request)``: the addresses of the kernels that it may need, and a request, one row of int64
numbers in the caller's memory: parameters first, then a record for each array (address, rank, sizes, strides in
bytes). An entry is called twice: the first time it validates, and writes the sizes of the result into the request; then
it lowers the operator, makes the plan that a kernel reads, and runs it on the calling thread. It raises what the
function of the same name raises.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np
from numba import types

from ..._core.regions import compiled_first
from ..._jit.compile import allocating, helper, kernel
from ..._jit.emission import intrinsic, register_jitable
from ..._jit.memory import ANY, ArrayRef, empty, load, overlaps, seen_as
from ..dispatch import gather as dispatch_gather
from ..dispatch import top_k
from ..drivers import OVERLAP, run_here
from ..primitives.moves import plan as moves_plan
from ..primitives.moves.offsets import read_indices
from ..primitives.top_k import plan as top_k_plan
from ..tuning import gather as tuning_gather
from ..tuning import moves as tuning_moves
from ..tuning import scatter as tuning_scatter
from ..tuning.top_k import TUNING
from .refusals import (
    BAD_AXIS,
    BAD_BATCH,
    BAD_BATCH_DIMS,
    BAD_COUNT,
    BAD_INDEX,
    BAD_K,
    BAD_SIZES,
    BAD_TUPLE,
    BAD_UNSIGNED_INDEX,
    GATHER,
    GATHER_ELEMENTS,
    GATHER_ND,
    NARROW_INDICES,
    OUT,
    OUT_INDICES,
    OUT_VALUES,
    OVERLAPPING,
    SCATTER_ELEMENTS,
    SCATTER_ND,
    SHARED,
    TOP_K,
    UPDATES,
    refuse,
)

WORDS = ArrayRef(types.int64)
#: Where a refusal has no number.
NONE = np.int64(0)
#: Of the entries.
SIGNATURE = (WORDS, WORDS)

# The first numbers of every request.
STAGE, SHAPE_AT, OUT_AT, AXIS, ITEMSIZE = range(5)
CHECK, RUN = range(2)
# Those of a top-k.
K, INDEX_SIZE, FLIP, INFINITY, NAN_KEY, INDEX_MAX, VALUES, INDICES, TOP_K_ARRAYS = range(5, 14)
# Those of the others.
OPERATOR, UNIT, KIND, BOUNDS, REDUCTION, UNIQUE, SOURCE, RESULT, MOVE_ARRAYS = range(5, 14)
#: The status of a scatter to memory that the kernel does not copy to.
NEEDS_COPY = -2


@intrinsic
def reference(typingctx, number):
    """``reference(number)``: an address as a reference to memory."""
    return ANY(types.int64), lambda context, builder, signature, args: args[0]


@intrinsic
def set_word(typingctx, ref, at, number):
    """``set_word(ref, at, number)``: write a number of a request."""

    def codegen(context, builder, signature, args):
        word = context.get_data_type(types.int64)
        pointer = builder.inttoptr(args[0], word.as_pointer())
        builder.store(args[2], builder.gep(pointer, [args[1]]))
        return context.get_dummy_value()

    return types.void(WORDS, types.int64, types.int64), codegen


@helper
def word(request, at):
    """Return a number of a request."""
    return load(request, 8 * at)


# The thresholds and the choice of a kernel have one home, which Python calls as well.
for function in top_k.SHARED:
    register_jitable(function)
facts_of, choice_of = helper(top_k.facts_of), helper(top_k.choice_of)
#: The thresholds as a module, whose names are constants to Numba; each function would be handed all of a tuple.
thresholds = ModuleType("thresholds")
vars(thresholds).update(TUNING._asdict())
#: ``row_of(facts)``: the position of the row of `top_k.TABLE` that is for a call.
row_of = compiled_first(top_k.TABLE, thresholds, cache(helper))
for function in (
    dispatch_gather.facts_of,
    dispatch_gather.keeps_offsets,
    dispatch_gather.row_ahead,
    dispatch_gather.tile_of,
    dispatch_gather.packed_tile,
    dispatch_gather.plan_gather,
):
    register_jitable(function)
#: Numba takes them for constants.
GATHERS, SCATTERS, MOVES = tuning_gather.TUNING, tuning_scatter.TUNING, tuning_moves.TUNING


@helper
def size_of(request, record, dim):
    """Return a size of the array of a record."""
    return word(request, record + 2 + dim)


@helper
def stride_of(request, record, dim):
    """Return a stride of the array of a record."""
    return word(request, record + 2 + word(request, record + 1) + dim)


@helper
def next_record(request, record):
    """Return where the next record starts."""
    return record + 2 + 2 * word(request, record + 1)


@allocating
def refuse_number(operator, reason, a, b, c):
    """Raise the error for a reason that has numbers."""
    refuse(operator, reason, a, b, c, NONE, empty(0, np.int64), NONE)


@allocating
def refuse_sizes(request, operator, reason, name, at, count, other, others):
    """Raise the error for an array, about numbers that stand at two places of the request."""
    sizes = empty(count + others, np.int64)
    for i in range(count):
        sizes[i] = word(request, at + i)
    for i in range(others):
        sizes[count + i] = word(request, other + i)
    refuse(operator, reason, NONE, NONE, NONE, name, sizes, count)


@allocating
def normalized(request, operator, ndim):
    """Return a non-negative axis."""
    axis = word(request, AXIS)
    if axis < -ndim or axis >= ndim:
        refuse_number(operator, BAD_AXIS, axis, -ndim, ndim - 1)
    return axis + ndim if axis < 0 else axis


@allocating
def check_sizes(request, operator, name, record, at, ndim):
    """Refuse an array that does not have the sizes that stand in a request."""
    found = word(request, record + 1)
    same = found == ndim
    for i in range(ndim):
        same = same and size_of(request, record, i) == word(request, at + i)
    if not same:
        refuse_sizes(request, operator, BAD_SIZES, name, record + 2, found, at, ndim)


@helper
def memory_of(request, record, itemsize):
    """Return the addresses where the memory of an array begins and ends; both are 0 if it has gaps, or no elements."""
    low = word(request, record)
    high = low + itemsize
    size = itemsize
    for i in range(word(request, record + 1)):
        below, above = reach(size_of(request, record, i), stride_of(request, record, i))
        low += below
        high += above
        size *= size_of(request, record, i)
    return (low, high) if high - low == size else (0, 0)


@helper
def surely_overlaps(request, record, itemsize):
    """Tell whether elements of an array share memory, as far as sizes and strides say it without a look at all."""
    ndim = word(request, record + 1)
    count, room, nested = np.int64(1), itemsize, True
    for i in range(ndim):
        count *= size_of(request, record, i)
    for i in range(ndim):
        size, stride = size_of(request, record, i), abs(stride_of(request, record, i))
        if size < 2 or count == 0:
            continue
        if stride < itemsize:
            return True
        room += (size - 1) * stride
        touched = itemsize - 1  # the last byte of elements along the shorter strides
        for j in range(ndim):
            other, length = abs(stride_of(request, record, j)), size_of(request, record, j)
            if j != i and length > 1 and other == stride:
                return True
            if other < stride:
                touched += (length - 1) * other
        nested = nested and stride > touched
    return not nested and count * itemsize > room


@allocating
def check_out(request, operator, name, record, itemsize, at, ndim):
    """Refuse an output that does not have the sizes that stand in a request, or whose elements overlap."""
    check_sizes(request, operator, name, record, at, ndim)
    if surely_overlaps(request, record, itemsize):
        refuse_sizes(request, operator, OVERLAPPING, name, record + 2 + ndim, ndim, NONE, NONE)


@helper
def collapse(rows, count):
    """Join neighbouring dimensions that are one in memory, as `tensor.collapse`; return how many are left."""
    kept = 0
    for i in range(count):
        if rows[i, 0] == 1:
            continue
        joins = kept > 0
        for field in range(1, rows.shape[1]):
            joins = joins and rows[kept - 1, field] == rows[i, 0] * rows[i, field]
        size = rows[i, 0]
        if joins:
            kept -= 1
            size *= rows[kept, 0]
        for field in range(1, rows.shape[1]):
            rows[kept, field] = rows[i, field]
        rows[kept, 0] = size
        kept += 1
    return kept


@helper
def reach(size, stride):
    """Return the lowest and the highest offset that a dimension reaches."""
    last = (size - 1) * stride if size > 1 else 0
    return min(last, 0), max(last, 0)


@allocating
def check_top_k(request):
    """Validate a top-k, and write the sizes of its results."""
    record = TOP_K_ARRAYS
    ndim = word(request, record + 1)
    axis = normalized(request, TOP_K, ndim)
    k = word(request, K)
    n = size_of(request, record, axis)
    if k < 0 or k > n:
        refuse_number(TOP_K, BAD_K, k, n, axis)
    if k > 0 and n - 1 > word(request, INDEX_MAX):
        refuse_number(TOP_K, NARROW_INDICES, n - 1, NONE, NONE)
    set_word(request, AXIS, axis)
    shape_at = word(request, SHAPE_AT)
    for i in range(ndim):
        set_word(request, shape_at + i, k if i == axis else size_of(request, record, i))
    if word(request, OUT_AT):
        record = word(request, OUT_AT)
        other = next_record(request, record)
        check_out(request, TOP_K, OUT_VALUES, record, word(request, ITEMSIZE), shape_at, ndim)
        check_out(request, TOP_K, OUT_INDICES, other, word(request, INDEX_SIZE), shape_at, ndim)
        values, after_values = memory_of(request, record, word(request, ITEMSIZE))
        indices, after_indices = memory_of(request, other, word(request, INDEX_SIZE))
        if overlaps(values, after_values, indices, after_indices):
            refuse_number(TOP_K, SHARED, NONE, NONE, NONE)


@helper
def lines_of(request, rows):
    """Write the dimensions of the lines of a top-k, the ones that lie closest last; return how many they are."""
    record = TOP_K_ARRAYS
    axis = word(request, AXIS)
    ndim = word(request, record + 1)
    count = 0
    for i in range(ndim):
        if i != axis:
            rows[count, 0] = size_of(request, record, i)
            rows[count, 1] = stride_of(request, record, i)
            step = 1
            for later in range(i + 1, ndim):
                step *= max(word(request, K) if later == axis else size_of(request, record, later), 1)
            rows[count, 2] = step
            count += 1
    count = collapse(rows, count)
    for i in range(1, count):
        for j in range(i, 0, -1):
            if abs(rows[j - 1, 1]) >= abs(rows[j, 1]):
                break
            for field in range(3):
                rows[j - 1, field], rows[j, field] = rows[j, field], rows[j - 1, field]
    return count


@allocating
def run_top_k(kernels, request):
    """Do what `top_k.TopKCall` does: make the plan, and run its kernel."""
    record = TOP_K_ARRAYS
    axis, k, itemsize = word(request, AXIS), word(request, K), word(request, ITEMSIZE)
    ndim = word(request, record + 1)
    n, stride = size_of(request, record, axis), stride_of(request, record, axis)
    plan = np.zeros(top_k_plan.HEADER + top_k_plan.DIM_FIELDS * ndim, np.int64)
    rows = plan[top_k_plan.HEADER :].reshape(ndim, top_k_plan.DIM_FIELDS)
    dims = lines_of(request, rows) if ndim > 1 else 0
    low, high = reach(n, stride)
    count = 1
    for i in range(dims):
        count *= rows[i, 0]
        first, last = reach(rows[i, 0], rows[i, 1])
        low += first
        high += last
    if k == 0 or count == 0:
        return np.int64(0)
    out_stride = 1
    for i in range(axis + 1, ndim):
        out_stride *= max(size_of(request, record, i), 1)
    across, step = (rows[dims - 1, 0], rows[dims - 1, 1]) if dims else (1, 0)
    facts = facts_of(n, stride, k, itemsize, count, across, step, False, ndim == 1, 1)
    row = row_of(facts)
    choice = choice_of(row, facts, thresholds)
    plan[top_k_plan.LINES] = count
    plan[top_k_plan.DIMS] = dims
    plan[top_k_plan.SIZE] = n
    plan[top_k_plan.STRIDE] = stride
    plan[top_k_plan.OUT_STRIDE] = out_stride
    plan[top_k_plan.K] = k
    plan[top_k_plan.INDEX_SIZE] = word(request, INDEX_SIZE)
    plan[top_k_plan.RULE] = word(request, FLIP)
    plan[top_k_plan.RULE + 1] = word(request, INFINITY)
    plan[top_k_plan.RULE + 2] = word(request, NAN_KEY)
    plan[top_k_plan.CAPACITY] = choice.capacity
    plan[top_k_plan.PIECES] = choice.pieces
    plan[top_k_plan.GROUP] = choice.group
    plan[top_k_plan.TILE] = choice.tile
    plan[top_k_plan.SAMPLE] = choice.sample
    plan[top_k_plan.SAMPLE_RANK] = choice.rank
    plan[top_k_plan.LOW] = low
    plan[top_k_plan.HIGH] = high + itemsize
    plan[top_k_plan.VALUE_BYTES] = count * k * itemsize
    plan[top_k_plan.INDEX_BYTES] = count * k * word(request, INDEX_SIZE)
    x = reference(word(request, record))
    values, indices = reference(word(request, VALUES)), reference(word(request, INDICES))
    return run_here(word(kernels, row), x, values, indices, x, plan)


@kernel
def top_k_entry(kernels, request):
    """Check or run a top-k; `kernels` are by row of the table."""
    if word(request, STAGE) == CHECK:
        check_top_k(request)
        return np.int64(0)
    return run_top_k(kernels, request)


@helper
def tuple_size(request, operator, indices):
    """Return how many coordinates a tuple of indices has."""
    if operator == GATHER_ND or operator == SCATTER_ND:
        return size_of(request, indices, word(request, indices + 1) - 1)
    return np.int64(1)


@allocating
def check_tuples(request, operator, a, indices):
    """Validate batch dimensions and tuples."""
    ndim, depth = word(request, a + 1), word(request, indices + 1)
    batch = word(request, AXIS)
    limit = min(ndim, depth) - 1
    if batch < 0 or batch > limit:
        refuse_number(operator, BAD_BATCH_DIMS, batch, limit, NONE)
    for i in range(batch):
        size, count = size_of(request, a, i), size_of(request, indices, i)
        if count != size:
            refuse_number(operator, BAD_BATCH, count, i, size)
    t = size_of(request, indices, depth - 1)
    if t < 1 or t > ndim - batch:
        refuse_number(operator, BAD_TUPLE, t, ndim - batch, NONE)


@allocating
def check_positions(request, operator, a, indices):
    """Validate the sizes of indices that have a position for every element."""
    for i in range(word(request, a + 1)):
        size, count = size_of(request, a, i), size_of(request, indices, i)
        if i != word(request, AXIS) and count > size and (size != 1 or operator == SCATTER_ELEMENTS):
            refuse_number(operator, BAD_COUNT, count, i, size)


@allocating
def check_move(request):
    """Validate a gather or a scatter, and write the sizes of the packed array and then of the result."""
    operator = word(request, OPERATOR)
    a = MOVE_ARRAYS
    indices = next_record(request, a)
    ndim, depth = word(request, a + 1), word(request, indices + 1)
    at = word(request, SHAPE_AT)
    if operator == GATHER_ND or operator == SCATTER_ND:
        check_tuples(request, operator, a, indices)
        start, stop = np.int64(0), word(request, AXIS) + tuple_size(request, operator, indices)
        depth -= 1
    else:
        start = normalized(request, operator, ndim)
        set_word(request, AXIS, start)
        stop = start + 1
        if operator != GATHER:
            check_positions(request, operator, a, indices)
            start, stop = np.int64(0), ndim
    packed = 0
    for i in range(start):
        set_word(request, at + packed, size_of(request, a, i))
        packed += 1
    for i in range(depth):
        set_word(request, at + packed, size_of(request, indices, i))
        packed += 1
    for i in range(stop, ndim):
        set_word(request, at + packed, size_of(request, a, i))
        packed += 1
    out = word(request, OUT_AT)
    if operator >= SCATTER_ELEMENTS:
        check_sizes(request, operator, UPDATES, next_record(request, indices), at, packed)
        if out:
            check_out(request, operator, OUT, out, word(request, ITEMSIZE), a + 2, ndim)
    elif out:
        check_out(request, operator, OUT, out, word(request, ITEMSIZE), at, packed)
    return packed


@helper
def lower_move(request, data_at, loops, coords, slices):
    """Write the loops, coordinates and slices of an operator (see `lowering.Move`); return how many each are.

    `data_at` is where the strides of the data stand.
    """
    operator, axis = word(request, OPERATOR), word(request, AXIS)
    a = MOVE_ARRAYS
    indices = next_record(request, a)
    ndim, depth = word(request, a + 1), word(request, indices + 1)
    tuples = operator == GATHER_ND or operator == SCATTER_ND
    t = tuple_size(request, operator, indices)
    loop_count = 0
    if operator == GATHER:
        for i in range(axis):
            loops[i, 0] = size_of(request, a, i)
            loops[i, 1] = word(request, data_at + i)
            loops[i, 2] = 0
        loop_count = axis
    points = depth - 1 if tuples else depth
    for i in range(points):
        step = np.int64(0)
        if operator == GATHER_ELEMENTS or operator == SCATTER_ELEMENTS:
            step = word(request, data_at + i) if i != axis and size_of(request, a, i) != 1 else 0
        elif tuples and i < axis:
            step = word(request, data_at + i)
        loops[loop_count, 0] = size_of(request, indices, i)
        loops[loop_count, 1] = step
        index_step = t
        for later in range(i + 1, points):
            index_step *= max(size_of(request, indices, later), 1)
        loops[loop_count, 2] = index_step
        loop_count += 1
    packed = 1
    for i in range(loop_count - 1, -1, -1):
        loops[i, 3] = packed
        packed *= max(loops[i, 0], 1)
    loop_count = collapse(loops, loop_count)
    if loop_count == 0:
        loops[0, 0], loops[0, 1], loops[0, 2], loops[0, 3] = 1, 0, 0, 1
        loop_count = 1
    for c in range(t):
        coords[c, 0] = size_of(request, a, axis + c)
        coords[c, 1] = word(request, data_at + axis + c)
    first = ndim if operator == GATHER_ELEMENTS or operator == SCATTER_ELEMENTS else axis + t
    for i in range(first, ndim):
        slices[i - first, 0] = size_of(request, a, i)
        slices[i - first, 1] = word(request, data_at + i)
    return loop_count, t, collapse(slices, ndim - first)


@helper
def loop_over_runs(loops, loop_count, slices, outer, count, stride):
    """Let the outer dimensions of slices, of `count` runs, be loops too; return how many there are.

    `stride` is that of the last coordinate; see `move_call._by_runs`.
    """
    for i in range(loop_count):
        loops[i, 3] *= count
    if loop_count == 1 and loops[0, 0] == 1:
        loop_count = 0
    last = loop_count - 1
    before = loop_count > 0 and slices[outer - 1, 0] < min(MOVES.short_row, loops[last, 0])
    before = before and abs(slices[outer - 1, 1]) > abs(stride)
    if before:
        for field in range(moves_plan.LOOP_FIELDS):
            loops[last + outer, field] = loops[last, field]
    for i in range(outer):
        at = loop_count + i - before
        count //= slices[i, 0]
        loops[at, 0], loops[at, 1], loops[at, 2], loops[at, 3] = slices[i, 0], slices[i, 1], 0, count
    return loop_count + outer


@allocating
def plan_move(request, data_at, finder):
    """Do what `move_call.MoveCall.make_plan` does."""
    a = MOVE_ARRAYS
    indices = next_record(request, a)
    itemsize = word(request, ITEMSIZE)
    rank = word(request, a + 1) + word(request, indices + 1) + 1
    room = empty((3 * rank, moves_plan.LOOP_FIELDS), np.int64)
    loops = room[:rank]
    coords, slices = room[rank : 2 * rank, : moves_plan.COORD_FIELDS], room[2 * rank :, : moves_plan.COORD_FIELDS]
    loop_count, coord_count, outer = lower_move(request, data_at, loops, coords, slices)
    run = itemsize
    if outer and slices[outer - 1, 1] == itemsize:
        outer -= 1
        run *= slices[outer, 0]
    count = 1
    for i in range(outer):
        count *= slices[i, 0]
    if count == 0:
        run = 0
    elif outer:
        stride = coords[coord_count - 1, 1]
        loop_count = loop_over_runs(loops, loop_count, slices, outer, count, stride)
    points, low, high = 1, 0, 0
    for i in range(loop_count):
        points *= loops[i, 0]
        first, last = reach(loops[i, 0], loops[i, 1])
        low += first
        high += last
    nothing = points * run == 0
    for i in range(coord_count):
        nothing = nothing or coords[i, 0] == 0
        first, last = reach(coords[i, 0], coords[i, 1])
        low += first
        high += last
    lowest, highest = low, high
    if word(request, OPERATOR) == GATHER_ELEMENTS:  # points may not lead everywhere
        lowest, highest = 0, 0
        for i in range(word(request, a + 1)):
            first, last = reach(size_of(request, a, i), stride_of(request, a, i))
            lowest += first
            highest += last
    index_bytes = np.int64(1) << (word(request, KIND) & 3)
    for i in range(word(request, indices + 1)):
        index_bytes *= size_of(request, indices, i)
    size = moves_plan.HEADER + moves_plan.LOOP_FIELDS * loop_count + moves_plan.COORD_FIELDS * coord_count
    plan = np.zeros(size, np.int64)
    plan[moves_plan.POINTS] = points
    plan[moves_plan.LOOPS] = loop_count
    plan[moves_plan.COORDS] = coord_count
    plan[moves_plan.RUN] = run // word(request, UNIT)
    plan[moves_plan.KIND] = word(request, KIND)
    plan[moves_plan.BOUNDS] = word(request, BOUNDS)
    plan[moves_plan.LOW] = lowest
    plan[moves_plan.HIGH] = lowest if nothing else highest + run
    plan[moves_plan.STARTS_LOW] = low
    plan[moves_plan.STARTS_HIGH] = high + 1
    plan[moves_plan.PACKED_BYTES] = points * run
    plan[moves_plan.INDEX_BYTES] = index_bytes
    plan[moves_plan.FINDER] = finder
    at = moves_plan.HEADER
    for i in range(loop_count):
        for field in range(3):
            plan[at + field] = loops[i, field]
        plan[at + 3] = loops[i, 3] * run
        at += moves_plan.LOOP_FIELDS
    for i in range(coord_count):
        plan[at], plan[at + 1] = coords[i, 0], coords[i, 1]
        at += moves_plan.COORD_FIELDS
    return plan


@helper
def plan_scatter(request, plan, fresh):
    """Set the numbers that only a scatter has, as `scatter.ScatterCall`, for one thread."""
    whole = word(request, ITEMSIZE)
    for i in range(word(request, MOVE_ARRAYS + 1)):
        whole *= size_of(request, MOVE_ARRAYS, i)
    plan[moves_plan.REDUCTION] = word(request, REDUCTION)
    plan[moves_plan.COPY] = whole if fresh else 0
    plan[moves_plan.STREAM] = whole >= SCATTERS.stream_bytes
    plan[moves_plan.SPLIT] = moves_plan.BY_POINT if word(request, UNIQUE) else moves_plan.BY_WINDOW


@allocating
def refuse_index(request, operator, position):
    """Raise the error for the index at a flat position."""
    a = MOVE_ARRAYS
    indices = next_record(request, a)
    source, kind = reference(word(request, indices)), word(request, KIND)
    if kind == moves_plan.UINT64:
        value = load(seen_as(source, np.int64), 8 * position)
    else:
        number = empty(1, np.int64)
        read_indices(source, kind, position, 1, 1, number)
        value = number[0]
    axis = word(request, AXIS) + position % tuple_size(request, operator, indices)
    where = empty(word(request, indices + 1), np.int64)
    rest = position
    for i in range(where.size - 1, -1, -1):
        size = size_of(request, indices, i)
        where[i] = rest % size
        rest //= size
    reason = BAD_UNSIGNED_INDEX if kind == moves_plan.UINT64 else BAD_INDEX
    refuse(operator, reason, value, axis, size_of(request, a, axis), NONE, where, where.size)


@helper
def kernel_of(kernels, request, plan):
    """Return the kernel for a plan: slices of several elements are moved as bytes."""
    if plan[moves_plan.RUN] == 1 or word(request, UNIT) == 1 or word(request, REDUCTION) != 0:
        return word(kernels, 0)
    plan[moves_plan.RUN] *= word(request, UNIT)
    return word(kernels, 2)


@allocating
def run_move(kernels, request):
    """Make the plan of a gather or a scatter, and run its kernel."""
    operator = word(request, OPERATOR)
    a = MOVE_ARRAYS
    indices = next_record(request, a)
    index = reference(word(request, indices))
    source, result = word(request, SOURCE), word(request, RESULT)
    data_at = a + 2 + word(request, a + 1)
    if operator >= SCATTER_ELEMENTS:
        out = word(request, OUT_AT)
        fresh = source != result
        if out:
            data_at = out + 2 + word(request, out + 1)
            packed = word(request, ITEMSIZE)
            for i in range(word(request, a + 1) - 1, -1, -1):
                same = word(request, data_at + i) == stride_of(request, a, i)
                if size_of(request, a, i) != 1 and (not same or (fresh and packed != word(request, data_at + i))):
                    return np.int64(NEEDS_COPY)
                packed *= size_of(request, a, i)
        else:  # the result is packed
            data_at = word(request, SHAPE_AT)
            packed = word(request, ITEMSIZE)
            for i in range(word(request, a + 1) - 1, -1, -1):
                set_word(request, data_at + i, packed)
                packed *= max(size_of(request, a, i), 1)
        plan = plan_move(request, data_at, word(kernels, 1))
        plan_scatter(request, plan, fresh)
        code = kernel_of(kernels, request, plan)
        updates = reference(word(request, next_record(request, indices)))
        status = run_here(code, reference(source), reference(result), index, updates, plan)
    else:
        plan = plan_move(request, data_at, word(kernels, 1))
        facts = dispatch_gather.facts_of(plan)
        dispatch_gather.plan_gather(plan, facts, GATHERS)
        code = kernel_of(kernels, request, plan)
        status = run_here(code, reference(source), index, reference(result), index, plan)
    if status > 0:
        refuse_index(request, operator, status - 1)
    return np.int64(OVERLAP) if status < 0 else np.int64(0)


@kernel
def move_entry(kernels, request):
    """Check or run a gather or a scatter; `kernels` are its kernel, the finder, and the kernel for longer slices."""
    if word(request, STAGE) == CHECK:
        return check_move(request)
    return run_move(kernels, request)
