"""`max_unpool` in jitted code: a fill, and a plain loop over the elements."""

from __future__ import annotations

import numpy as np
from numba import types

from ..._core.lowering import SCATTER_BOUNDS
from ..._jit.compile import allocating, called, helper, kernel
from ..._jit.copies import copy_bytes
from ..._jit.emission import as_dtype, cgutils, intrinsic
from ..._jit.memory import array_at, empty, load, overlaps, seen_as
from ..drivers import OVERLAP
from ..primitives.moves.offsets import read_indices
from ..primitives.moves.runs import copy_run
from . import arguments, requests
from .addresses import entry_address
from .arguments import bounds_rule, constant, converter
from .calls import OWN, copy_meets, jitted_call, packed
from .entries import finished, has_sizes, index_size, insist, judge_out, product, put_sizes, reference, whole_of
from .errors import WRONG
from .requests import ARRAYS, emit_number, next_record, sizes_of, word

BATCH_DIMS, DROPS = requests.AXIS, OWN
#: Indices that are read together.
CHUNK = 512


def max_unpool(a, indices, shape, batch_dims=0, fill_value=0, unique=False, out=None, bounds="raise"):
    """Return what a call of `numba_dml.max_unpool` is compiled to."""
    function = "max_unpool"
    arguments.check_data(function, a, arguments.MOVED, 0)
    kind = arguments.check_indices(function, indices, 0)
    arguments.check_same_rank(function, "indices", indices, a)
    arguments.check_integer(function, "batch_dims", batch_dims)
    if not isinstance(shape, types.BaseTuple) or not all(map(arguments.is_integer, map(types.unliteral, shape))):
        arguments.refuse(function, "shape", shape, "a tuple of integers")
    if len(shape) != a.ndim:
        arguments.refuse(function, "shape", f"{len(shape)} dimensions", f"{a.ndim}, as a has")
    once = constant(function, "unique", unique, (False, True))
    rule = bounds_rule(function, bounds, SCATTER_BOUNDS)
    is_zero = arguments.is_zero(fill_value)
    fill = called(lambda value: 0) if is_zero else converter(function, "fill_value", fill_value, a.dtype)
    dtype, made = a.dtype, as_dtype(a.dtype)
    dtypes, parameters = (made, as_dtype(indices.dtype), made, np.dtype(np.int64)), (..., ..., 0, once, rule)
    run = jitted_call(code, function, dtypes, out, (dtype, a.ndim), parameters, (kind, int(rule == "drop")))

    def implementation(a, indices, shape, batch_dims=0, fill_value=0, unique=False, out=None, bounds="raise"):
        value = np.zeros(1, dtype)
        if not is_zero:
            value[0] = fill(fill_value)
        sizes = np.array(_sizes((*shape, 0)))[:-1]  # an empty tuple makes no array
        inputs = packed(a), packed(indices), value, sizes
        return run((batch_dims, 0), inputs, out, not (copy_meets(a, out) or copy_meets(indices, out)))

    return implementation


@intrinsic
def _sizes(typingctx, shape):
    """``_sizes(shape)``: a tuple of integers, as int64 all of them."""
    result = types.UniTuple(types.int64, len(shape))

    def codegen(context, builder, signature, args):
        sizes = zip(shape, cgutils.unpack_tuple(builder, args[0]), strict=True)
        words = [emit_number(context, builder, size, kind) for kind, size in sizes]
        return context.make_tuple(builder, result, words)

    return result(shape), codegen


def code(function, dtypes, parameters):
    """Return the address of the entry, which needs no kernel."""
    return (entry_address(entry),)


@helper
def judge(request, batch_dims, indices, shape):
    """Write the sizes of the result; return FITS, WRONG or PERHAPS."""
    sizes = sizes_of(request, ARRAYS)
    if batch_dims < 0 or batch_dims > len(sizes) or not has_sizes(request, indices, ARRAYS + 2, len(sizes)):
        return WRONG
    for d in range(len(sizes)):
        if shape[d] < 0 or (d < batch_dims and shape[d] != sizes[d]):
            return WRONG
    at = word(request, requests.SIZES_AT)
    put_sizes(request, at, shape, 0, len(sizes))
    return judge_out(request, at, len(sizes))


@helper
def fill_all(result, whole, value, itemsize):
    """Write a value all over the result: what is written is copied behind itself."""
    if whole > 0:
        copy_bytes(result, 0, value, 0, itemsize)
    done = itemsize
    while done < whole:
        count = min(done, whole - done)
        copy_bytes(result, done, result, 0, count)
        done += count


@helper
def write_block(request, a, index, result, first, count, block, buffer):
    """Write elements to a block; return the position of the first bad index that is not dropped, or -1."""
    itemsize, kind, drops = word(request, requests.ITEMSIZE), word(request, requests.KIND), word(request, DROPS) != 0
    for start in range(first, first + count, CHUNK):
        number = min(CHUNK, first + count - start)
        found = read_indices(index, kind, start, number, seen_as(reference(buffer.ctypes.data), np.int64))
        for i in range(number):
            place = load(found, 8 * i)
            place += block & (place >> 63)
            if np.uint64(place) < np.uint64(block):
                copy_run(result, place * itemsize, a, (start + i) * itemsize, itemsize)
            elif not drops:
                return start + i
    return np.int64(-1)


@allocating
def run_unpool(request, batch_dims, indices, value, shape):
    """Fill the result, and write the elements block by block."""
    sizes, itemsize = sizes_of(request, ARRAYS), word(request, requests.ITEMSIZE)
    blocks, count = product(sizes, 0, batch_dims), product(sizes, batch_dims, len(sizes))
    block = product(shape, batch_dims, len(sizes))
    to, whole = word(request, requests.RESULT), blocks * block * itemsize
    at, index_bytes = word(request, indices), whole_of(request, indices, index_size(request))
    low, high = word(request, ARRAYS), word(request, ARRAYS) + whole_of(request, ARRAYS, itemsize)
    if overlaps(to, to + whole, low, high) or overlaps(to, to + whole, at, at + index_bytes):
        return np.int64(OVERLAP)
    fill_all(reference(to), whole, value, itemsize)
    buffer = empty(CHUNK, np.int64)
    for i in range(blocks):
        result = reference(to + i * block * itemsize)
        bad = write_block(request, reference(low), reference(at), result, i * count, count, block, buffer)
        if bad >= 0:
            return bad + 1
    return np.int64(0)


@kernel
def entry(kernels, request):
    """Check or run a max-unpooling; `kernels` is its description."""
    batch_dims, indices = word(request, BATCH_DIMS), next_record(request, ARRAYS)
    value = next_record(request, indices)
    sizes = seen_as(reference(word(request, next_record(request, value))), np.int64)
    shape = array_at(sizes, 0, (word(request, ARRAYS + 1),))
    insist(request, judge(request, batch_dims, indices, shape))
    if word(request, requests.RESULT) == 0:
        return np.int64(requests.CHECKED)
    return finished(request, run_unpool(request, batch_dims, indices, reference(word(request, value)), shape))
