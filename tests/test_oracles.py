"""Every function against its slow oracle, over dtypes, ranks, memory layouts and parameters; compared bit by bit.

NUMBA_DML_TEST_EXAMPLES sets how many examples each property gets (the full run of 10,000 cases: 1700).
"""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numba_dml as dml

from . import reference
from .strategies import COMPLEX, MOVED, NUMBERS, arrays, indices, shapes, sizes

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "150"))
examples = settings(max_examples=EXAMPLES)
ALL = NUMBERS + COMPLEX + MOVED


def agree(function, oracle, inputs, **parameters):
    """Compare results or the IndexError; inputs stay as they were, and `out=` gives the same again."""
    before = [x.tobytes() if isinstance(x, np.ndarray) else x for x in inputs]
    deferred = parameters.get("bounds") == "deferred" and function.__kwdefaults__["target"] == "cuda"
    try:
        with np.errstate(all="ignore"):
            expected = oracle(*inputs, **parameters)
    except IndexError:
        if deferred:
            function(*inputs, **parameters)
        with pytest.raises(IndexError, match="is out of range for axis"):
            dml.check() if deferred else function(*inputs, **parameters)
        return
    found = function(*inputs, **parameters)
    compare(found, expected, parameters)
    assert before == [x.tobytes() if isinstance(x, np.ndarray) else x for x in inputs]
    if isinstance(expected, tuple):
        out = tuple(np.full_like(x, 1) for x in expected)
        found = function(*inputs, out=out, **parameters)
        assert found[0] is out[0]
        assert found[1] is out[1]
    else:
        out = np.empty_like(expected)
        found = function(*inputs, out=out, **parameters)
        assert found is out
    compare(found, expected, parameters)


def compare(found, expected, parameters):
    if isinstance(expected, tuple):
        assert all(reference.same(x, y) for x, y in zip(found, expected, strict=True)), (found, expected)
    elif parameters.get("reduction", "none") in ("add", "mul") and expected.dtype.kind in "fcV":
        # NumPy leaves open which NaN comes out of an addition.
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        wide = np.float64 if expected.dtype.kind != "c" else np.complex128
        np.testing.assert_array_equal(found.astype(wide), expected.astype(wide))
    else:
        assert reference.same(found, expected), (found, expected)


bounds_of_reads = st.sampled_from(["raise", "clamp", "drop", "deferred"])
bounds_of_writes = st.sampled_from(["raise", "drop", "deferred"])


def oracle_bounds(bounds):
    return "raise" if bounds == "deferred" else bounds


def with_bounds(oracle):
    """Let an oracle take `deferred`, which raises on the CPU."""
    return lambda *a, bounds, **k: oracle(*a, bounds=oracle_bounds(bounds), **k)


@st.composite
def gathers(draw):
    shape = draw(shapes)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    bounds = draw(bounds_of_reads) if shape[axis] else "raise"
    index_shape = tuple(draw(st.lists(sizes, max_size=3)))
    return draw(arrays(shape, ALL)), draw(indices(index_shape, shape[axis], bounds)), {"axis": axis, "bounds": bounds}


@examples
@given(gathers())
def test_gather(case):
    a, i, parameters = case
    agree(dml.gather, with_bounds(reference.gather), (a, i), **parameters)


@st.composite
def element_cases(draw, dtypes, broadcast):
    shape = draw(shapes)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    index_shape = [draw(st.integers(0, 4 if broadcast and n == 1 else n)) for n in shape]
    index_shape[axis] = draw(sizes)
    bounds = draw(bounds_of_reads if broadcast else bounds_of_writes) if shape[axis] else "raise"
    a = draw(arrays(shape, dtypes))
    return a, draw(indices(tuple(index_shape), shape[axis], bounds)), {"axis": axis, "bounds": bounds}


@examples
@given(element_cases(ALL, broadcast=True))
def test_gather_elements(case):
    a, i, parameters = case
    agree(dml.gather_elements, with_bounds(reference.gather_elements), (a, i), **parameters)


@st.composite
def tuple_cases(draw, bounds):
    shape = draw(shapes)
    batch = draw(st.integers(0, len(shape) - 1))
    t = draw(st.integers(1, len(shape) - batch))
    index_shape = shape[:batch] + tuple(draw(st.lists(sizes, max_size=2))) + (t,)
    limits = shape[batch : batch + t]
    mode = draw(bounds) if min(limits) else "raise"
    i = draw(indices(index_shape, limits, mode))
    return draw(arrays(shape, ALL)), i, {"batch_dims": batch, "bounds": mode}


@examples
@given(tuple_cases(bounds_of_reads))
def test_gather_nd(case):
    a, i, parameters = case
    agree(dml.gather_nd, with_bounds(reference.gather_nd), (a, i), **parameters)


def reductions_of(dtype):
    if dtype in NUMBERS:
        return ["none", "add", "mul", "min", "max"]
    return ["none", "add", "mul"] if dtype in COMPLEX else ["none"]


@examples
@given(st.data())
def test_scatter_elements(data):
    a, i, parameters = data.draw(element_cases(ALL, broadcast=False))
    native = a.dtype.newbyteorder("=")
    updates = data.draw(arrays(i.shape, [native]))
    parameters["reduction"] = data.draw(st.sampled_from(reductions_of(native)))
    agree(dml.scatter_elements, with_bounds(reference.scatter_elements), (a, i, updates), **parameters)


@examples
@given(st.data())
def test_scatter_nd(data):
    a, i, parameters = data.draw(tuple_cases(bounds_of_writes))
    native = a.dtype.newbyteorder("=")
    start = parameters["batch_dims"] + i.shape[-1]
    updates = data.draw(arrays(i.shape[:-1] + a.shape[start:], [native]))
    parameters["reduction"] = data.draw(st.sampled_from(reductions_of(native)))
    agree(dml.scatter_nd, with_bounds(reference.scatter_nd), (a, i, updates), **parameters)


@st.composite
def selections(draw):
    shape = draw(
        st.one_of(
            shapes,
            st.tuples(st.integers(1, 3), st.integers(1, 1500)),  # long lines: buffers fill, thresholds rise
            st.tuples(st.integers(1, 150), st.integers(1, 90)),  # tiles of columns
        )
    )
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    k = draw(st.one_of(st.integers(0, shape[axis]), st.integers(0, min(shape[axis], 5))))
    modes = {
        "mode": draw(st.sampled_from(["largest", "smallest"])),
        "nan": draw(st.sampled_from(["last", "largest", "first"])),
    }
    return draw(arrays(shape, NUMBERS)), k, {"axis": axis, **modes}


@settings(max_examples=2 * EXAMPLES)
@given(selections())
def test_top_k(case):
    a, k, parameters = case
    agree(dml.top_k, reference.top_k, (a, k), **parameters)
