"""`reverse_subsequences` in jitted code."""

from __future__ import annotations

import numpy as np

from ..._core import shapes
from ..._core.shapes import LOOP_FIELDS
from ..._jit.compile import allocating, helper, kernel
from ..._jit.emission import as_dtype
from ..._jit.memory import ANY, UNSIGNED_REFS
from ..drivers import run_here
from ..kernels import reverse_subsequences as plans
from . import arguments, requests
from .addresses import entry_address, kernel_address
from .arguments import bounds_rule
from .calls import OWN, copy_meets, jitted_call, packed
from .entries import finished, index_size, insist, judge_out, put_sizes, reference, whole_of
from .errors import WRONG
from .requests import ARRAYS, next_record, sizes_of, strides_of, word

CHECKS = OWN
MOST_COLUMNS, CACHED_BYTES, ROW_BYTES = plans.MOST_COLUMNS, plans.CACHED_BYTES, plans.ROW_BYTES


def reverse_subsequences(a, lengths, axis=-1, bounds="raise", out=None):
    """Return what a call of `numba_dml.reverse_subsequences` is compiled to."""
    function = "reverse_subsequences"
    arguments.check_data(function, a, arguments.MOVED)
    kind = arguments.check_indices(function, lengths, 1, "lengths")
    arguments.check_same_rank(function, "lengths", lengths, a)
    arguments.check_integer(function, "axis", axis)
    rule = bounds_rule(function, bounds, ("raise", "clamp"))
    dtypes, constants = (as_dtype(a.dtype), as_dtype(lengths.dtype)), (kind, int(rule == "raise"))
    run = jitted_call(code, function, dtypes, out, (a.dtype, a.ndim), (..., rule), constants)

    def implementation(a, lengths, axis=-1, bounds="raise", out=None):
        return run((axis, 0), (a, packed(lengths)), out, not copy_meets(lengths, out))

    return implementation


def code(function, dtypes, parameters):
    """Return the addresses of the entry and the kernel."""
    unit = UNSIGNED_REFS[min(dtypes[0].itemsize, 8)]
    return entry_address(entry), kernel_address(plans.reverse_kernel, unit, unit, ANY, ANY)


@helper
def fits(request, axis):
    """Tell whether lengths have the sizes of the lines, or 1 instead."""
    sizes, lengths = sizes_of(request, ARRAYS), sizes_of(request, next_record(request, ARRAYS))
    for d in range(len(sizes)):
        if lengths[d] != 1 and (d == axis or lengths[d] != sizes[d]):
            return False
    return True


@helper
def lower(request, axis, rows):
    """Write the dimensions but the axis: sizes, and strides in the input, the output and the lengths.

    Return how many they are, the axis's stride in the output, the lengths, and whether the input is packed.
    """
    sizes, strides = sizes_of(request, ARRAYS), strides_of(request, ARRAYS)
    lengths = sizes_of(request, next_record(request, ARRAYS))
    step, count, stride = word(request, requests.ITEMSIZE), np.int64(1), np.int64(0)
    at, same = len(rows), True
    for d in range(len(sizes) - 1, -1, -1):
        same = same and (sizes[d] == 1 or strides[d] == step)
        if d == axis:
            stride = step
        else:
            at -= LOOP_FIELDS
            rows[at], rows[at + 1], rows[at + 2] = sizes[d], strides[d], step
            rows[at + 3] = count if lengths[d] > 1 else 0
        step *= sizes[d]
        count *= lengths[d]
    return shapes.collapse_rows(rows, LOOP_FIELDS, len(rows) // LOOP_FIELDS), stride, count, same


@allocating
def run_reverse(kernels, request, axis):
    """Do what `ReverseCall` does, for one thread; columns behind the axis go together, lines one by one."""
    sizes, strides = sizes_of(request, ARRAYS), strides_of(request, ARRAYS)
    lengths, itemsize = next_record(request, ARRAYS), word(request, requests.ITEMSIZE)
    rows = np.zeros(LOOP_FIELDS * (len(sizes) - 1), np.int64)
    count, out_stride, length_count, same = lower(request, axis, rows)
    plan = np.zeros(plans.HEADER + LOOP_FIELDS * count, np.int64)
    plan[plans.WIDTH] = 1
    if axis < len(sizes) - 1 and count > 0:
        count -= 1
        for i in range(LOOP_FIELDS):
            plan[plans.WIDTH + i] = rows[LOOP_FIELDS * count + i]  # and STEP, OUT_STEP and LENGTH_STEP
    lines, whole = np.int64(1), whole_of(request, ARRAYS, itemsize)
    for i in range(LOOP_FIELDS * count):
        plan[plans.HEADER + i] = rows[i]
    for row in range(count):
        lines *= rows[LOOP_FIELDS * row]
    low, high = shapes.extent(sizes, strides)
    line = max(sizes[axis] * itemsize, 1)
    plan[plans.LINES], plan[plans.ROWS], plan[plans.SIZE] = lines, count, sizes[axis]
    plan[plans.STRIDE], plan[plans.OUT_STRIDE] = strides[axis], out_stride
    plan[plans.UNITS], plan[plans.STRIPS], plan[plans.PARTS] = itemsize // min(itemsize, 8), 1, 1
    plan[plans.BLOCK] = min(max(CACHED_BYTES // line, ROW_BYTES // itemsize, 1), MOST_COLUMNS)
    plan[plans.CHECKS], plan[plans.KIND] = word(request, CHECKS), word(request, requests.KIND)
    plan[plans.LENGTHS], plan[plans.LENGTH_BYTES] = length_count, length_count * index_size(request)
    plan[plans.LOW], plan[plans.HIGH], plan[plans.OUT_BYTES] = low, high + itemsize, whole
    plan[plans.SAME] = int(same and whole > 0)
    x, index = reference(word(request, ARRAYS)), reference(word(request, lengths))
    return run_here(word(kernels, 1), x, reference(word(request, requests.RESULT)), index, x, plan)


@kernel
def entry(kernels, request):
    """Check or run a reversal; `kernels` are its description and its kernel."""
    sizes = sizes_of(request, ARRAYS)
    axis = shapes.axis_from_start(word(request, requests.AXIS), len(sizes))
    if axis < 0 or not fits(request, axis):
        insist(request, WRONG)
    at = word(request, requests.SIZES_AT)
    put_sizes(request, at, sizes, 0, len(sizes))
    insist(request, judge_out(request, at, len(sizes)))
    if word(request, requests.RESULT) == 0:
        return np.int64(requests.CHECKED)
    return finished(request, run_reverse(kernels, request, axis))
