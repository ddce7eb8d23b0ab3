"""`one_hot` in jitted code."""

from __future__ import annotations

import numpy as np
from numba import types

from ..._core import shapes
from ..._core.config import BOUNDS
from ..._jit.compile import allocating, kernel, shared
from ..._jit.emission import as_dtype
from ..._jit.memory import ANY, SIGNED_REFS, UNSIGNED_REFS, store
from ..calls.one_hot import tile_sizes
from ..drivers import run_here
from ..kernels import one_hot as plans
from ..primitives.moves.plan import CLAMP, DROP, RAISE
from ..tuning.moves import TUNING
from . import arguments, requests
from .addresses import entry_address, kernel_address
from .arguments import bounds_rule, converter, has_dtype, is_absent, refuse
from .calls import OWN, copy_meets, jitted_call, packed
from .entries import finished, index_size, insist, judge_out, product, put_sizes, reference
from .errors import WRONG
from .requests import ARRAYS, next_record, sizes_of, word

DEPTH = requests.K
MODE = OWN
STREAM_BYTES = TUNING.stream_bytes
shared(tile_sizes)


def one_hot(indices, depth, axis=-1, on_value=1, off_value=0, dtype=None, bounds="raise", out=None):
    """Return what a call of `numba_dml.one_hot` is compiled to."""
    index_kind = arguments.check_indices("one_hot", indices, 0)
    arguments.check_result_rank("one_hot", indices, indices.ndim + 1)
    arguments.check_integer("one_hot", "depth", depth)
    arguments.check_integer("one_hot", "axis", axis)
    rule = bounds_rule("one_hot", bounds, BOUNDS)
    result = getattr(dtype, "dtype", None)
    if is_absent(dtype):
        result = next((types.unliteral(one) for one in (on_value, off_value) if has_dtype(one)), types.float32)
    if not isinstance(result, arguments.NUMBERS) or result == types.float16:
        refuse("one_hot", "dtype", result or dtype, "a dtype of bool or numbers, as numpy.float32")
    on = converter("one_hot", "on_value", on_value, result)
    off = converter("one_hot", "off_value", off_value, result)
    made = as_dtype(result)
    element = made.type
    parameters = (..., ..., 1, 0, made, rule)
    constants = (index_kind, {"clamp": CLAMP, "drop": DROP}.get(rule, RAISE))
    types_of = as_dtype(indices.dtype), made
    run = jitted_call(code, "one_hot", types_of, out, (result, indices.ndim + 1), parameters, constants)

    def implementation(indices, depth, axis=-1, on_value=1, off_value=0, dtype=None, bounds="raise", out=None):
        values = np.empty(2, element)
        values[0], values[1] = off(off_value), on(on_value)
        return run((axis, depth), (packed(indices), values), out, not copy_meets(indices, out))

    return implementation


def code(function, dtypes, parameters):
    """Return the addresses of the entry and the kernel."""
    data = SIGNED_REFS.get(dtypes[-1].itemsize, UNSIGNED_REFS[1])
    return entry_address(entry), kernel_address(plans.one_hot_kernel, ANY, data, data, ANY)


@allocating
def run_one_hot(kernels, request, place):
    """Do what `calls.one_hot.OneHotCall` does, for one thread."""
    sizes, depth, width = sizes_of(request, ARRAYS), word(request, DEPTH), word(request, requests.ITEMSIZE)
    outer, inner = product(sizes, 0, place), product(sizes, place, len(sizes))
    blocks, rows, columns = tile_sizes(outer, depth, inner, width)
    out_bytes = outer * depth * inner * width
    plan = np.zeros(plans.STREAM + 1, np.int64)
    plan[plans.OUTER], plan[plans.DEPTH], plan[plans.INNER], plan[plans.WIDTH] = outer, depth, inner, width
    plan[plans.KIND], plan[plans.BOUNDS] = word(request, requests.KIND), word(request, MODE)
    plan[plans.BLOCKS], plan[plans.ROWS], plan[plans.COLUMNS] = blocks, rows, columns
    plan[plans.INDEX_BYTES], plan[plans.OUT_BYTES] = outer * inner * index_size(request), out_bytes
    plan[plans.STREAM] = int(out_bytes >= STREAM_BYTES)
    index, values = reference(word(request, ARRAYS)), reference(word(request, next_record(request, ARRAYS)))
    return run_here(word(kernels, 1), index, reference(word(request, requests.RESULT)), values, index, plan)


@kernel
def entry(kernels, request):
    """Check or run a one-hot; `kernels` are its description and its kernel."""
    sizes, depth = sizes_of(request, ARRAYS), word(request, DEPTH)
    place = shapes.axis_from_start(word(request, requests.AXIS), len(sizes) + 1)
    if place < 0 or depth < 0:
        insist(request, WRONG)
    at = word(request, requests.SIZES_AT)
    put_sizes(request, at, sizes, 0, place)
    store(request, 8 * (at + place), depth)
    put_sizes(request, at + place + 1, sizes, place, len(sizes))
    insist(request, judge_out(request, at, len(sizes) + 1))
    if word(request, requests.RESULT) == 0:
        return np.int64(requests.CHECKED)
    return finished(request, run_one_hot(kernels, request, place))
