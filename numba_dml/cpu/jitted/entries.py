"""The entries: what jitted code calls to run an operator, by address, so that nothing of it is compiled again.

An entry is ``entry(kernels, request)``: the addresses of the kernels that it may need, and a request (see `requests`).
It checks the arguments and writes the sizes of the result into the request; then, if there is an address for the
result, it lowers the operator, makes the plan that a kernel reads, and runs it on the calling thread. For all this it
compiles the functions that Python's calls run.
"""

from __future__ import annotations

from functools import cache
from inspect import isfunction
from types import ModuleType

import numpy as np

from ..._core import shapes
from ..._core.regions import compiled_first
from ..._core.shapes import COORD_FIELDS, ELEMENTS, LINE_FIELDS, LOOP_FIELDS, TUPLES
from ..._jit.compile import allocating, helper, kernel, shared
from ..._jit.emission import intrinsic
from ..._jit.memory import ANY, array_at, empty, overlaps, store
from ..calls import plans
from ..dispatch import gather as dispatch_gather
from ..dispatch import tiles, top_k
from ..dispatch.top_k import choice_of, facts_of
from ..drivers import run_here
from ..primitives.moves import plan as moves_plan
from ..primitives.top_k import plan as top_k_plan
from ..tuning import gather as tuning_gather
from ..tuning import moves as tuning_moves
from ..tuning import scatter as tuning_scatter
from ..tuning.top_k import TUNING
from . import requests
from .errors import FITS, NO_RANK, PERHAPS, WRONG, raise_error
from .requests import ARRAYS, next_record, sizes_of, strides_of, word

# These have one home, which Python calls as well.
for module in (shapes, plans, dispatch_gather, tiles, top_k):
    for function in vars(module).values():
        if isfunction(function) and function.__module__ == module.__name__:
            shared(function)
#: The thresholds as a module, whose names are constants to Numba; each function would be handed all of a tuple.
thresholds = ModuleType("thresholds")
vars(thresholds).update(TUNING._asdict())
#: ``row_of(facts)``: the position of the row of `top_k.TABLE` that is for a call.
row_of = compiled_first(top_k.TABLE, thresholds, cache(helper))
#: Numba takes them for constants.
GATHERS, SCATTERS, MOVES = tuning_gather.TUNING, tuning_scatter.TUNING, tuning_moves.TUNING


@intrinsic
def reference(typingctx, number):
    """``reference(number)``: an address as a reference to memory."""
    return ANY(number), lambda context, builder, signature, args: args[0]


@helper
def index_size(request):
    """Return the bytes of an index."""
    return np.int64(1) << (word(request, requests.KIND) & 3)


@helper
def product(sizes, begin, end):
    """Return how many elements some dimensions have."""
    found = np.int64(1)
    for i in range(begin, end):
        found *= sizes[i]
    return found


@helper
def whole_of(request, record, itemsize):
    """Return the bytes of all elements of an array."""
    sizes = sizes_of(request, record)
    return itemsize * product(sizes, 0, len(sizes))


@helper
def memory_of(request, record, itemsize):
    """Return the addresses where the memory of an array begins and ends."""
    below, above = shapes.extent(sizes_of(request, record), strides_of(request, record))
    return word(request, record) + below, word(request, record) + above + itemsize


@helper
def has_sizes(request, record, at, ndim):
    """Tell whether an array has the sizes that stand in a request."""
    sizes = sizes_of(request, record)
    if len(sizes) != ndim:
        return False
    for i in range(ndim):
        if sizes[i] != word(request, at + i):
            return False
    return True


@helper
def put_sizes(request, at, sizes, begin, end):
    """Write sizes into a request; return where they end."""
    for i in range(begin, end):
        store(request, 8 * at, sizes[i])
        at += 1
    return at


@helper
def may_overlap(request, record, itemsize):
    """Tell whether elements of an output may share memory."""
    return not shapes.nests(sizes_of(request, record), strides_of(request, record), itemsize)


@helper
def judge_out(request, at, ndim):
    """Return FITS, WRONG or PERHAPS for an output: whether it has the sizes that stand in a request."""
    out = word(request, requests.OUT_AT)
    if out == 0:
        return FITS
    if not has_sizes(request, out, at, ndim):
        return WRONG
    return PERHAPS if may_overlap(request, out, word(request, requests.ITEMSIZE)) else FITS


@helper
def insist(request, verdict):
    """Raise the error for arguments that do not fit."""
    if verdict != FITS:
        raise_error(request, verdict)


@helper
def finished(request, status):
    """Return what a kernel has returned, or raise the error for the index that it found."""
    if status > 0:
        raise_error(request, status - 1)
    return status


@helper
def judge_top_k(request):
    """Return FITS, WRONG or PERHAPS for the arguments of a top-k; write its axis and the sizes of its results."""
    sizes = sizes_of(request, ARRAYS)
    axis = shapes.axis_from_start(word(request, requests.AXIS), len(sizes))
    if axis < 0:
        return WRONG
    k, n = word(request, requests.K), sizes[axis]
    bits = 8 * index_size(request) - (1 if word(request, requests.KIND) < 4 else 0)  # without the sign
    if k < 0 or k > n or (k > 0 and bits < 63 and (n - 1) >> bits != 0):
        return WRONG
    store(request, 8 * requests.AXIS, axis)
    at = word(request, requests.SIZES_AT)
    put_sizes(request, at, sizes, 0, len(sizes))
    store(request, 8 * (at + axis), k)
    values = word(request, requests.OUT_AT)
    verdict = judge_out(request, at, len(sizes))
    if values == 0 or verdict == WRONG:
        return verdict
    indices = next_record(request, values)
    if not has_sizes(request, indices, at, len(sizes)):
        return WRONG
    low_values, high_values = memory_of(request, values, word(request, requests.ITEMSIZE))
    low_indices, high_indices = memory_of(request, indices, index_size(request))
    # Those with gaps may lie beside each other.
    overlap = overlaps(low_values, high_values, low_indices, high_indices)
    return PERHAPS if overlap or may_overlap(request, indices, index_size(request)) else verdict


@helper
def judge_move(request):
    """Return the same for a gather or a scatter, or NO_RANK; write its axis and the sizes of its result."""
    axis, addressing = word(request, requests.AXIS), word(request, requests.ADDRESSING)
    record, writes = next_record(request, ARRAYS), word(request, requests.WRITES) != 0
    sizes, indices = sizes_of(request, ARRAYS), sizes_of(request, record)
    if addressing == TUPLES:
        if axis < 0 or axis > shapes.most_batch_dims(len(sizes), len(indices)):
            return WRONG
        if not shapes.shares_batch(sizes, indices, axis) or not shapes.has_coordinates(sizes, indices, axis):
            return WRONG
    else:
        axis = shapes.axis_from_start(axis, len(sizes))
        if axis < 0 or (addressing == ELEMENTS and shapes.first_too_long(sizes, indices, axis, not writes) >= 0):
            return WRONG
    store(request, 8 * requests.AXIS, axis)
    start, points, stop = shapes.packed_parts(addressing, axis, len(sizes), indices)
    at = word(request, requests.SIZES_AT)
    end = put_sizes(request, at, sizes, 0, start)
    end = put_sizes(request, end, indices, 0, points)
    end = put_sizes(request, end, sizes, stop, len(sizes))
    if writes:
        if not has_sizes(request, next_record(request, record), at, end - at):
            return WRONG
        end = put_sizes(request, at, sizes, 0, len(sizes))
    elif word(request, requests.OUT_AT) == 0 and end - at != word(request, requests.RANK):
        return NO_RANK
    return judge_out(request, at, end - at)


@allocating
def run_top_k(kernels, request):
    """Do what `top_k.TopKCall` does: make the plan, and run its kernel."""
    sizes, strides = sizes_of(request, ARRAYS), strides_of(request, ARRAYS)
    axis, k = word(request, requests.AXIS), word(request, requests.K)
    lines = empty(LINE_FIELDS * len(sizes), np.int64)
    dims, out_stride = shapes.lower_lines(axis, k, sizes, strides, lines)
    plans.sort_lines(lines, dims)
    count, across, step = plans.spread_of(lines, dims)
    if k == 0 or count == 0:
        return np.int64(0)
    itemsize, single = word(request, requests.ITEMSIZE), len(sizes) == 1
    facts = facts_of(sizes[axis], strides[axis], k, itemsize, count, across, step, False, single, 1)
    row = row_of(facts)
    plan = np.zeros(top_k_plan.HEADER + LINE_FIELDS * dims, np.int64)
    choice = choice_of(row, facts, thresholds)
    plans.fill_top_k(plan, lines, dims, out_stride, index_size(request), facts, choice)
    for i in range(3):
        plan[top_k_plan.RULE + i] = word(request, requests.RULE + i)
    x = reference(word(request, ARRAYS))
    values, indices = reference(word(request, requests.RESULT)), reference(word(request, requests.INDICES))
    return run_here(word(kernels, row + 1), x, values, indices, x, plan)


@kernel
def top_k_entry(kernels, request):
    """Check or run a top-k; `kernels` are its description, and by row of the table."""
    insist(request, judge_top_k(request))
    return run_top_k(kernels, request) if word(request, requests.RESULT) != 0 else np.int64(requests.CHECKED)


@helper
def put_packed_strides(request, at):
    """Write the strides of a packed result of a scatter into a request."""
    sizes, packed = sizes_of(request, ARRAYS), word(request, requests.ITEMSIZE)
    for i in range(len(sizes) - 1, -1, -1):
        store(request, 8 * (at + i), packed)
        packed *= max(sizes[i], 1)


@helper
def needs_copy(request, out, fresh):
    """Tell whether the kernel of a scatter cannot copy the input to an output, or update it there, as it is."""
    sizes, strides, result = sizes_of(request, ARRAYS), strides_of(request, ARRAYS), strides_of(request, out)
    packed = word(request, requests.ITEMSIZE)
    for i in range(len(sizes) - 1, -1, -1):
        if sizes[i] != 1 and (result[i] != strides[i] or (fresh and result[i] != packed)):
            return True
        packed *= sizes[i]
    return False


@allocating
def plan_move(request, strides, finder):
    """Do what `move_call.MoveCall` does: return the plan, of bytes; `strides` are those of the data."""
    sizes, record = sizes_of(request, ARRAYS), next_record(request, ARRAYS)
    indices, itemsize = sizes_of(request, record), word(request, requests.ITEMSIZE)
    axis, addressing = word(request, requests.AXIS), word(request, requests.ADDRESSING)
    rank = len(sizes) + len(indices) + 1
    loops = empty(LOOP_FIELDS * (rank + len(sizes)), np.int64)
    coordinates, slices = empty(COORD_FIELDS * rank, np.int64), empty(COORD_FIELDS * rank, np.int64)
    loop_count, coordinate_count, slice_count = shapes.lower_move(
        addressing, axis, sizes, strides, indices, loops, coordinates, slices
    )
    stride = coordinates[COORD_FIELDS * coordinate_count - 1]
    loop_count, run = plans.by_runs(loops, loop_count, slices, slice_count, itemsize, stride, MOVES.short_row)
    plan = np.zeros(plans.move_size(loop_count, coordinate_count), np.int64)
    plans.fill_move(plan, loops, loop_count, coordinates, coordinate_count, run)
    if addressing == ELEMENTS and word(request, requests.WRITES) == 0:  # points may not lead everywhere
        low, high = shapes.extent(sizes, strides)
        plans.widen(plan, low, high, run)
    plan[moves_plan.RUN] = run
    plan[moves_plan.KIND] = word(request, requests.KIND)
    plan[moves_plan.BOUNDS] = word(request, requests.BOUNDS)
    plan[moves_plan.INDEX_BYTES] = whole_of(request, record, index_size(request))
    plan[moves_plan.FINDER] = finder
    return plan


@helper
def kernel_of(kernels, request, plan):
    """Return the kernel for a plan, and set its units: slices of several elements are moved as bytes."""
    itemsize = word(request, requests.ITEMSIZE)
    reduces = word(request, requests.REDUCTION) != 0
    if reduces or (plan[moves_plan.RUN] == itemsize and itemsize <= 8):
        plan[moves_plan.RUN] //= itemsize
    elif 1 < itemsize <= 8:
        return word(kernels, 3)
    return word(kernels, 1)


@allocating
def run_gather(kernels, request):
    """Make the plan of a gather, and run its kernel."""
    plan = plan_move(request, strides_of(request, ARRAYS), word(kernels, 2))
    facts = dispatch_gather.facts_of(plan)
    dispatch_gather.plan_gather(plan, facts, GATHERS)
    a, index = reference(word(request, ARRAYS)), reference(word(request, next_record(request, ARRAYS)))
    return run_here(kernel_of(kernels, request, plan), a, index, reference(word(request, requests.RESULT)), index, plan)


@allocating
def run_scatter(kernels, request):
    """Make the plan of a scatter, for one thread, and run its kernel."""
    result, out, record = word(request, requests.RESULT), word(request, requests.OUT_AT), next_record(request, ARRAYS)
    copied = word(request, requests.COPIED) != 0
    source = result if copied else word(request, ARRAYS)
    fresh = source != result
    if out != 0 and not copied:
        if needs_copy(request, out, fresh):
            return np.int64(requests.NEEDS_COPY)
        strides = strides_of(request, out)
    else:
        put_packed_strides(request, word(request, requests.SIZES_AT))
        strides = array_at(request, 8 * word(request, requests.SIZES_AT), (word(request, ARRAYS + 1),))
    plan = plan_move(request, strides, word(kernels, 2))
    whole = whole_of(request, ARRAYS, word(request, requests.ITEMSIZE))
    plans.fill_scatter(plan, word(request, requests.REDUCTION), whole if fresh else 0, whole, SCATTERS.stream_bytes)
    plan[moves_plan.SPLIT] = moves_plan.BY_POINT if word(request, requests.UNIQUE) != 0 else moves_plan.BY_WINDOW
    index, updates = reference(word(request, record)), reference(word(request, next_record(request, record)))
    return run_here(kernel_of(kernels, request, plan), reference(source), reference(result), index, updates, plan)


@kernel
def move_entry(kernels, request):
    """Check or run a gather or a scatter.

    `kernels` are its description, its kernel, the finder, and the kernel for longer slices.
    """
    insist(request, judge_move(request))
    if word(request, requests.RESULT) == 0:
        return np.int64(requests.CHECKED)
    status = run_scatter(kernels, request) if word(request, requests.WRITES) != 0 else run_gather(kernels, request)
    return finished(request, status)
