"""Hypothesis strategies: arrays of every dtype in every memory layout, and indices that are mostly valid."""

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from numba_dml._core.regions import first
from numba_dml.cpu.calls.top_k import THREADS
from numba_dml.cpu.dispatch.top_k import TABLE, choice_of, facts_of
from numba_dml.cpu.primitives.top_k.selection import GOLDEN
from numba_dml.cpu.tuning.top_k import TUNING

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NUMBERS = [np.dtype(t) for t in ("f4", "f2", "u4", "u2", "u1", "i4", "i2", "i1", "f8", "u8", "i8", "?")] + [BFLOAT16]
COMPLEX = [np.dtype("c8"), np.dtype("c16")]
MOVED = [np.dtype(t) for t in ("M8[s]", "m8[ns]", "S5", "U2", "V3", "V24")] + [
    np.dtype([("x", "f4"), ("y", "i8")]),
    np.dtype([("x", "<i4"), ("y", ">i2")]),
]
INDEX_TYPES = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
LAYOUTS = ("packed", "fortran", "reversed", "sparse", "unaligned", "swapped", "read-only", "permuted", "broadcast")

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 6)
shapes = st.lists(sizes, min_size=1, max_size=4).map(tuple)


def fill(rng, shape, dtype):
    """Return values with many ties and, in floats, NaNs of both signs, infinities and both zeros."""
    count = int(np.prod(shape))
    kind = rng.integers(3)
    if dtype.kind in "fV" and (dtype == BFLOAT16 or dtype.kind == "f"):
        values = rng.integers(-3, 4, count).astype(dtype) if kind else rng.standard_normal(count).astype(dtype)
        if kind == 1 and count:
            for special in (np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf):
                values[rng.integers(0, count, max(1, count // 6))] = special
    elif dtype.kind in "iu":
        values = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype) if kind else rng.integers(0, 5, count)
    elif dtype.kind == "b":
        values = rng.random(count) < 0.5
    elif dtype.kind == "c":
        values = rng.integers(-3, 4, count) + 1j * rng.integers(-3, 4, count)
    elif dtype.kind == "U":
        values = np.array([chr(c) for c in rng.integers(97, 122, count)], dtype)
    else:
        values = np.frombuffer(rng.integers(97, 122, count * dtype.itemsize).astype(np.uint8).tobytes(), dtype)
    return values.astype(dtype).reshape(shape)


def lay_out(rng, array, layout):
    """Return equal values in another memory layout, where the rank and the dtype allow it."""
    if layout == "fortran" and array.ndim:
        return np.asfortranarray(array)
    if layout == "reversed" and array.ndim:
        flip = tuple(slice(None, None, int(rng.choice([-1, 1]))) for _ in array.shape)
        return array[flip].copy()[flip]
    if layout == "sparse" and array.ndim:
        holder = np.zeros([2 * n + 1 for n in array.shape], array.dtype)
        view = holder[(slice(1, None, 2),) * array.ndim]
        view[...] = array
        return view
    if layout == "unaligned" and array.nbytes:
        view = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        view[...] = array
        return view
    if layout == "swapped" and array.dtype != BFLOAT16:
        return array.astype(array.dtype.newbyteorder(">"))
    if layout == "read-only":
        array = array.copy()
        array.flags.writeable = False
        return array
    if layout == "permuted" and array.ndim > 1:
        order = rng.permutation(array.ndim)
        return np.transpose(np.ascontiguousarray(np.transpose(array, order)), np.argsort(order))
    if layout == "broadcast" and array.ndim and array.shape[0]:
        return np.broadcast_to(array[:1], array.shape)
    return array


@st.composite
def arrays(draw, shape, dtypes):
    """Draw an array of a shape, with a dtype out of `dtypes`."""
    rng = np.random.default_rng(draw(seeds))
    return lay_out(rng, fill(rng, shape, draw(st.sampled_from(dtypes))), draw(st.sampled_from(LAYOUTS)))


@st.composite
def indices(draw, shape, limits, bounds="raise"):
    """Draw indices below `limits` (one number, or one for every place along the last axis), now and then a bad one."""
    rng = np.random.default_rng(draw(seeds))
    dtype = draw(st.sampled_from(INDEX_TYPES))
    info = np.iinfo(dtype)
    limits = np.broadcast_to(np.asarray(limits), shape)
    wild = 3 if bounds != "raise" or draw(st.integers(0, 9)) == 0 else 0
    low = np.maximum(-limits - wild, info.min)
    values = (low + rng.random(shape) * (np.minimum(limits + wild, info.max + 1.0) - low)).astype(np.int64)
    values = np.asarray(np.clip(values, info.min, min(info.max, 2**62)).astype(dtype))
    if values.size and draw(st.integers(0, 19)) == 0:
        values.reshape(-1)[-1] = info.max
    return lay_out(rng, values, draw(st.sampled_from(LAYOUTS)))


batches = st.integers(0, 3)


def sampled_places(n, k, stride):
    """Return which of n elements of 4 bytes a top-k on the CPU samples for a bound, and its row of the table."""
    facts = facts_of(n, stride, k, 4, 1, 1, 0, True, False, THREADS)
    row = TABLE.index(first(TABLE, facts, TUNING))
    size = choice_of(row, facts, TUNING).sample
    step = n // size
    return [i * step + (((i + 1) * GOLDEN % 2**64 >> 32) * step >> 32) for i in range(size)], row
