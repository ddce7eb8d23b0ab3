"""numba_dml.numpy does what NumPy does: signatures, results, errors, and what is left in the arguments.

NUMBA_DML_TEST_EXAMPLES sets how many random calls each function gets (the full run of 2,400 calls: 400).
"""

import copy
import functools
import inspect
import os
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import numba_dml as dml
from numba_dml import numpy

from .strategies import BFLOAT16, COMPLEX, INDEX_TYPES, LAYOUTS, MOVED, NUMBERS, fill, lay_out, seeds

pytestmark = pytest.mark.cpu

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "60"))
examples = settings(max_examples=EXAMPLES)
#: Most of the time is compiling: a short run has fewer of the types that a top-k has kernels for.
ORDERED = NUMBERS if EXAMPLES > 100 else [np.dtype(t) for t in ("f4", "f2", "i8")]
LIMITS = ("ELEMENTS", "ROW_BYTES", "LINES", "COLUMN_ELEMENTS", "CONTIGUOUS_ELEMENTS", "HALVES")
RUNNING, NONZERO = sys.modules["numba_dml._running"], sys.modules["numba_dml._nonzero"]
NUMPYS = [name for name in numpy.__all__ if hasattr(np, name)]


@pytest.fixture
def small(monkeypatch):
    """Let small arrays reach the kernels."""
    for name in LIMITS:
        monkeypatch.setattr(numpy, name, 2 if name == "ELEMENTS" else 0)
    monkeypatch.setattr(RUNNING, "RUNNING", 0)
    monkeypatch.setattr(RUNNING, "INTEGERS", 0)
    monkeypatch.setattr(NONZERO, "ELEMENTS", 0)
    monkeypatch.setattr(NONZERO, "BOOLS", 0)


class Sub(np.ndarray):
    """A subclass that changes nothing."""


def outcome(function, args, kwargs):
    """Call a function; return what came back and what the arguments are then."""
    out = kwargs.get("out")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = function(*args, **kwargs)
        except Exception as error:
            found = (type(error), str(error))
        else:
            found = "out" if out is not None and found is out else found
    return found, *args, *kwargs.values()


def described(value):
    """Return what must be equal: types, dtypes, shapes, and all bits of the elements."""
    if isinstance(value, tuple):
        return type(value), [described(x) for x in value]
    if isinstance(value, np.ma.MaskedArray):
        return type(value), described(value.data), described(np.ma.getmaskarray(value))
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        elements = repr(array.tolist()) if array.dtype.char in "OgG" else array.tobytes()  # long doubles have padding
        return type(value), array.dtype.char, array.dtype, array.dtype.metadata, array.shape, elements
    return type(value), repr(value)


def agree(name, make):
    """Compare a function with NumPy's on equal arguments of their own."""
    theirs = outcome(getattr(np, name), *make())
    ours = outcome(getattr(numpy, name), *make())
    assert [described(x) for x in ours] == [described(x) for x in theirs]


def draw(rng, choices, usual=0.0):
    """Return one of the choices; with a chance of `usual` the first."""
    return choices[0] if rng.random() < usual else choices[rng.integers(len(choices))]


def shape_of(rng, rank=None):
    ranks = [1, 2, 2, 3, 0, 4]
    return tuple(
        int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 8, draw(rng, ranks) if rank is None else rank)
    )


#: Types that the kernels do not know, and two that equal some that they do.
OTHERS = [np.dtype(t) for t in ("g", "G", "O", "q")] + [np.dtype("f4", metadata={"unit": "m"})]


def data(rng, shape, dtypes=NUMBERS + NUMBERS + COMPLEX + MOVED):
    """Return an array of any dtype, layout and container."""
    dtype = draw(rng, dtypes)
    if rng.random() < 0.1:
        array = np.asarray(rng.integers(-3, 4, shape)).astype(draw(rng, OTHERS))
    else:
        array = lay_out(rng, fill(rng, shape, dtype), draw(rng, LAYOUTS, 0.5))
    container = draw(rng, ["plain", "sub", "matrix", "masked", "list"], 0.85)
    if container == "sub":
        return array.view(Sub)
    if container == "matrix" and array.ndim == 2:
        return array.view(np.matrix)
    if container == "masked" and array.dtype.names is None:
        return np.ma.array(array, mask=rng.random(shape) < 0.3)
    return array.tolist() if container == "list" and dtype.kind in "biu" else array


def index(rng, shape, limit, dtypes=INDEX_TYPES):
    """Return indices that are mostly valid, of any integer dtype, now and then of another type."""
    wild = 3 if rng.random() < 0.1 else 0
    dtype = draw(rng, dtypes)
    low = 0 if dtype.kind == "u" else -limit - wild
    values = np.asarray(rng.integers(low, max(limit + wild, low + 1), shape)).astype(dtype)
    values = np.asarray(lay_out(rng, values, draw(rng, LAYOUTS, 0.5)))
    other = draw(rng, ["plain", "list", "float", "bool", "sub"], 0.93)
    if other in ("float", "bool"):
        return values.astype(other)
    return values.tolist() if other == "list" else values.view(Sub) if other == "sub" else values


def axis_of(rng, rank):
    if rng.random() < 0.08:
        return draw(rng, [rank, -rank - 1, True, 0.0, np.int64(0), "0"])
    return int(rng.integers(-rank, rank)) if rank else 0


def an_out(rng, like, array):
    """Return an `out` for a result, mostly one that fits; it may share memory with an input."""
    like = np.asarray(like)
    kind = draw(rng, ["fits", "strided", "dtype", "shape", "swapped", "read-only", "inside", "masked", "list"], 0.7)
    if kind == "strided" and like.ndim:
        return np.ones((*like.shape[:-1], 2 * like.shape[-1]), like.dtype)[..., ::2]
    if kind == "dtype":
        return np.ones(like.shape, draw(rng, ["i2", "f8", "c16", "i4"]))
    if kind == "shape":
        return np.ones((*like.shape, 1), like.dtype)
    if kind == "inside" and type(array) is np.ndarray and array.dtype == like.dtype and array.flags.c_contiguous:
        flat = array.reshape(-1)
        return flat[: like.size].reshape(like.shape) if flat.size >= like.size else np.ones(like.shape, like.dtype)
    out = np.ones(like.shape, like.dtype.newbyteorder() if kind == "swapped" and like.dtype != BFLOAT16 else like.dtype)
    out.flags.writeable = kind != "read-only"
    return np.ma.array(out) if kind == "masked" else out.tolist() if kind == "list" else out


def result_of(function, *args, **kwargs):
    """Return NumPy's result, or anything where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*copy.deepcopy(args), **kwargs))
        except Exception:
            return np.zeros(2, int)


@examples
@given(seeds)
def test_take(small, seed):
    def make():
        rng = np.random.default_rng(seed)
        shape = shape_of(rng)
        axis = None if rng.random() < 0.25 else axis_of(rng, len(shape))
        a = data(rng, shape)
        limit = (
            int(np.prod(shape))
            if axis is None
            else shape[axis]
            if type(axis) is int and -len(shape) <= axis < len(shape)
            else 3
        )
        indices = index(rng, shape_of(rng), limit)
        kwargs = {"axis": axis} if axis is not None or rng.random() < 0.5 else {}
        if rng.random() < 0.3:
            kwargs["mode"] = draw(rng, ["wrap", "clip", "raise", "raise", "WRAP", 0, "other", None])
        if rng.random() < 0.4:
            kwargs["out"] = an_out(rng, result_of(np.take, a, indices, axis=axis, mode="clip"), a)
        return (a, indices), kwargs

    agree("take", make)


def line_indices(rng, shape, axis):
    """Return indices for a function along an axis, now and then of sizes that broadcast or do not fit."""
    sizes = list(shape)
    at = axis if type(axis) is int and -len(shape) <= axis < len(shape) else 0
    if sizes:
        limit, sizes[at] = sizes[at], int(rng.integers(0, 8))
        if rng.random() < 0.25:
            other = int(rng.integers(len(sizes)))
            sizes[other] = draw(rng, [1, 1, 2, 7])
    else:
        limit = 1
    return index(rng, sizes if rng.random() < 0.95 else [*sizes, 1], limit)


@examples
@given(seeds)
def test_take_along_axis(small, seed):
    def make():
        rng = np.random.default_rng(seed)
        shape = tuple(1 if rng.random() < 0.1 else n for n in shape_of(rng))
        arr = data(rng, shape)
        if rng.random() < 0.15:
            return (arr, index(rng, int(rng.integers(0, 9)), max(int(np.prod(shape)), 1)), None), {}
        axis = axis_of(rng, len(shape))
        return (arr, line_indices(rng, shape, axis), axis), {}

    agree("take_along_axis", make)


@examples
@given(seeds)
def test_put_along_axis(small, seed):
    def make():
        rng = np.random.default_rng(seed)
        shape = shape_of(rng)
        arr = data(rng, shape)
        if rng.random() < 0.1:
            indices = index(rng, int(rng.integers(0, 9)), max(int(np.prod(shape)), 1))
            return (arr, indices, np.arange(np.size(indices)), None), {}
        axis = axis_of(rng, len(shape))
        indices = line_indices(rng, shape, axis)
        kind = draw(rng, ["same", "cast", "scalar", "row", "python", "list", "own", "indices"], 0.5)
        sizes = np.shape(indices)
        if kind in ("same", "own") and isinstance(arr, np.ndarray):
            known = arr.dtype.char not in "OgG"
            values = np.ones(sizes, arr.dtype)
            if known:
                values = lay_out(rng, fill(rng, sizes, arr.dtype), draw(rng, LAYOUTS, 0.5))
            if kind == "own" and arr.shape == sizes:
                values = arr  # the values lie where they are written to
        elif kind == "scalar":
            values = draw(rng, [np.float64(2.7), np.int8(-1), np.bool_(True), np.complex128(1 + 2j), np.str_("7")])
        elif kind == "python":
            values = draw(rng, [3, -1, 2.5, True, 1j, 300, 2**70, None, "x", float("nan")])
        elif kind == "row":
            values = rng.integers(0, 9, sizes[-1:])
        elif kind == "list":
            values = rng.integers(0, 9, sizes).tolist()
        elif kind == "indices":
            values = indices
        else:
            values = data(rng, sizes, NUMBERS + COMPLEX)  # NumPy itself fails at times with other types
        return (arr, indices, values, axis), {}

    agree("put_along_axis", make)


def arg_case(name, seed):
    def make():
        rng = np.random.default_rng(seed)
        shape = shape_of(rng) if rng.random() < 0.8 else (int(rng.integers(1, 90)), int(rng.integers(1, 150)))
        a = data(rng, shape, ORDERED * 6 + COMPLEX + MOVED)
        kwargs = {}
        if rng.random() < 0.8:
            kwargs["axis"] = None if rng.random() < 0.2 else axis_of(rng, len(shape))
        if rng.random() < 0.4:
            kwargs["keepdims"] = draw(rng, [True, False, 1, 0, np._NoValue])
        if rng.random() < 0.3:
            kwargs["out"] = an_out(rng, result_of(getattr(np, name), a, **kwargs), a)
        return (a,), kwargs

    agree(name, make)


@examples
@given(seeds)
def test_argmax(small, seed):
    arg_case("argmax", seed)


@examples
@given(seeds)
def test_argmin(small, seed):
    arg_case("argmin", seed)


def one_nan(function):
    """Let a function return one NaN: which one NumPy's sums have, depends on the machine."""

    def call(*args, **kwargs):
        found = function(*args, **kwargs)
        parts = [found.real, found.imag] if found.dtype.kind == "c" else [found]
        for part in parts if isinstance(found, np.ndarray) and found.flags.writeable else []:
            if part.dtype.kind in "fc" and not np.ma.isMaskedArray(part):
                part[np.isnan(part)] = np.nan
        return found

    return call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cumulative_sum", "cumulative_prod"])
@examples
@given(seeds)
def test_running(small, name, seed):
    function = getattr(np, name, None)
    if function is None:
        pytest.skip("NumPy 2.1 has it")

    def make():
        rng = np.random.default_rng(seed)
        shape = shape_of(rng) if rng.random() < 0.8 else (int(rng.integers(1, 90)), int(rng.integers(1, 300)))
        a = data(rng, shape, [d for d in NUMBERS if d != BFLOAT16] * 6 + COMPLEX + MOVED)
        kwargs = {}
        if rng.random() < 0.8:
            kwargs["axis"] = None if rng.random() < 0.2 else axis_of(rng, len(shape))
        if rng.random() < 0.4:
            kwargs["dtype"] = draw(
                rng, ["f8", "f4", "f2", "i8", "i4", "u1", "?", "c16", ">f4", "q", "M8[s]", float, "x"]
            )
        if "ulative" in name and rng.random() < 0.3:
            kwargs["include_initial"] = draw(rng, [True, False, 1, 0])
        if rng.random() < 0.3:
            kwargs["out"] = an_out(rng, result_of(function, a, **kwargs), a)
        return (a,), kwargs

    theirs = outcome(one_nan(function), *make())
    ours = outcome(one_nan(getattr(numpy, name)), *make())
    assert [described(x) for x in ours] == [described(x) for x in theirs]


@examples
@given(seeds)
def test_nonzero(small, seed):
    def make():
        rng = np.random.default_rng(seed)
        a = data(rng, shape_of(rng), NUMBERS + COMPLEX + MOVED)
        if rng.random() < 0.1:
            a = draw(rng, [[[0, 1], [2, 0]], np.array(["", "a"]), np.array([0, None]), np.float64(3), 0])
        return (a,), {}

    for name in ("nonzero", "flatnonzero", "argwhere"):
        agree(name, make)


def stable_top_k(a, k, axis, mode):
    """The first k of a stable sort with NaN last: one of the results that NumPy allows."""
    with np.errstate(all="ignore"):
        ranks = np.unique(a, return_inverse=True)[1].reshape(a.shape)  # NaNs are its last
        ranks = np.where(a != a, a.size, -ranks if mode == "largest" else ranks)
    indices = np.argsort(ranks, axis=axis, kind="stable").take(np.arange(k), axis)
    return np.take_along_axis(a, indices, axis).astype(a.dtype.newbyteorder("=")), indices


@examples
@given(seeds)
def test_top_k(small, seed):
    rng = np.random.default_rng(seed)
    shape = shape_of(rng, int(rng.integers(1, 4)))
    a = lay_out(rng, fill(rng, shape, draw(rng, [d for d in ORDERED if d != BFLOAT16])), draw(rng, LAYOUTS))
    axis = int(rng.integers(-len(shape), len(shape)))
    k = int(rng.integers(1, shape[axis] + 1)) if shape[axis] else 1
    kwargs = {"axis": axis, "mode": draw(rng, ["largest", "smallest"])}
    if not shape[axis]:
        with pytest.raises(ValueError, match=r"k: found 1|out of bounds"):
            numpy.top_k(a, k, **kwargs)
        return
    values, indices = numpy.top_k(a, k, sorted=True, **kwargs)
    expected_values, expected = stable_top_k(a, k, **kwargs)
    if (a.dtype.isnative and a.dtype.kind != "b") or not hasattr(np, "top_k"):
        assert described(indices) == described(expected)
        assert described(values) == described(expected_values)
    else:
        np.testing.assert_array_equal(values, expected_values)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (([1, 2], 0), {}, "k(=0) provided must be positive."),
        ((np.arange(3), -1), {}, "k(=-1) provided must be positive."),
        ((np.arange(3), 1), {"axis": None}, "axis=None is not supported. Please provide a valid axis."),
        ((np.arange(3), 1), {"mode": "least"}, 'mode(="least") must be either "largest" or "smallest".'),
    ],
)
def test_errors_of_top_k(args, kwargs, message):
    with pytest.raises(ValueError) as found:  # noqa: PT011, the message is compared
        numpy.top_k(*args, **kwargs)
    assert str(found.value) == message


def parameters(function):
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("name", NUMPYS)
def test_signatures(name):
    if name == "take_along_axis" and np.lib.NumpyVersion(np.__version__) < "2.3.0":
        pytest.skip("NumPy 2.3 gave axis its default")
    assert parameters(getattr(numpy, name)) == parameters(getattr(np, name))


def test_signature_of_top_k():
    def expected(a, k, /, *, axis=-1, mode="largest", sorted=True): ...

    assert parameters(numpy.top_k) == parameters(expected)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [(0,), (0, 1), [0], True, 0.0, np.int8(1), np.array(1)], ids=repr)
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_axes_of_argmax(name, axis, dtype):
    agree(name, lambda: ((np.ones((2, 1 << 14), dtype),), {"axis": axis}))


@pytest.mark.parametrize("name", NUMPYS)
def test_wrong_arguments(name):
    agree(name, lambda: ((), {}))
    agree(name, lambda: (([1, 2], [0], 0, 0, 0, 0, 0), {}))
    agree(name, lambda: (([1, 2],), {"other": 1}))


RNG = np.random.default_rng(7)
FLOATS = RNG.integers(-50, 50, (600, 700)).astype(np.float32)  # with ties
FLOATS[RNG.random(FLOATS.shape) < 0.001] = np.nan
LINE = RNG.permutation(FLOATS.size)
SUMMED = RNG.standard_normal((600, 700)).astype(np.float32)
ALONG = {axis: RNG.integers(-FLOATS.shape[axis], FLOATS.shape[axis], FLOATS.shape) for axis in (0, 1)}


def bad(indices):
    """Return indices with one that is out of range for any axis."""
    indices = indices.copy()
    indices.reshape(-1)[-1] = FLOATS.size
    return indices


#: Calls that are large enough, and whether the kernels take them.
LARGE = {
    "flattened": ("take", (FLOATS, LINE), {}, True),
    "of the last axis": ("take", (FLOATS, LINE[:1000] % 700, 1), {}, True),
    "with an out": ("take", (FLOATS.ravel(), LINE), {"out": np.zeros(LINE.size, np.float32)}, True),
    "rows": ("take", (FLOATS, LINE[:6000] % 600, 0), {}, True),
    "few rows": ("take", (FLOATS, LINE[:600] % 600, 0), {}, False),
    "clip": ("take", (FLOATS, LINE), {"mode": "clip"}, False),
    "clip of rows": ("take", (FLOATS, LINE[:6000] % 600, 0), {"mode": "clip"}, True),
    "clip of negative rows": ("take", (FLOATS, -(LINE[:6000] % 600), 0), {"mode": "clip"}, False),
    "wrap of negatives": ("take", (FLOATS, -LINE), {"mode": "wrap"}, True),
    "wrap around": ("take", (FLOATS, bad(LINE)), {"mode": "wrap"}, True),
    "bad index": ("take", (FLOATS, bad(LINE)), {}, True),
    "bad index with an out": ("take", (FLOATS, bad(LINE)), {"out": np.zeros(LINE.size, np.float32)}, False),
    "along rows": ("take_along_axis", (FLOATS, ALONG[1]), {"axis": -1}, True),
    "along columns": ("take_along_axis", (FLOATS, ALONG[0], 0), {}, True),
    "along one row for all": ("take_along_axis", (FLOATS, ALONG[1][:1], 1), {}, True),
    "along the flattened": ("take_along_axis", (FLOATS, LINE, None), {}, True),
    "along, bad": ("take_along_axis", (FLOATS, bad(ALONG[1]), 1), {}, True),
    "put into rows": ("put_along_axis", (FLOATS, ALONG[1], -FLOATS, 1), {}, True),
    "put into columns, cast": ("put_along_axis", (FLOATS, ALONG[0], ALONG[1], 0), {}, True),
    "put a row": ("put_along_axis", (FLOATS, ALONG[0], np.arange(700), 0), {}, True),
    "put a number": ("put_along_axis", (FLOATS, ALONG[0], np.nan, 0), {}, True),
    "put, bad": ("put_along_axis", (FLOATS, bad(ALONG[0]), 1, 0), {}, True),
    "put one number into each column": ("put_along_axis", (FLOATS, ALONG[0][:1], 1, 0), {}, False),
    "put into a line": ("put_along_axis", (FLOATS.ravel(), LINE, FLOATS.ravel(), 0), {}, False),
    "nonzero": ("nonzero", (FLOATS,), {}, True),
    "nonzero of bools": ("flatnonzero", (FLOATS > 3,), {}, True),
    "nonzero of few bools": ("nonzero", (FLOATS[0] > 3,), {}, False),
    "rows of coordinates": ("argwhere", (FLOATS.T > 3,), {}, True),
    "argmax of columns": ("argmax", (FLOATS, 0), {}, True),
    "argmax of rows": ("argmax", (FLOATS, 1), {}, False),
    "argmax of all": ("argmax", (FLOATS,), {}, False),
    "argmin of columns": ("argmin", (FLOATS, 0), {"keepdims": True}, True),
    "argmin of columns with an out": ("argmin", (FLOATS, 0), {"out": np.zeros(700, np.intp)}, True),
    "argmin of halves": ("argmin", (FLOATS.astype(np.float16),), {}, True),
    "sums of columns": ("cumsum", (SUMMED, 0), {}, True),
    "sums of rows": ("cumsum", (SUMMED, 1), {}, True),
    "sums of all, in doubles": ("cumsum", (SUMMED,), {"dtype": "f8"}, True),
    "sums of halves": ("cumsum", (SUMMED.astype("f2"), 0), {}, True),
    "sums in place": ("cumsum", (SUMMED, 0), {"out": SUMMED.copy()}, True),
    "sums of few": ("cumsum", (SUMMED[0],), {}, False),
    "products of rows": ("cumprod", (SUMMED / 1000, 1), {}, True),
    "products of halves": ("cumprod", (SUMMED.astype("f2"), 1), {}, True),
    "products of complex numbers": ("cumprod", (SUMMED + 1j, 1), {}, False),
    "sums of integers": ("cumsum", (LINE.astype("u1"),), {}, True),
    "sums of many integers": ("cumsum", (np.resize(LINE, 1 << 21),), {}, True),
    "sums of few integers": ("cumsum", (LINE[: 1 << 17],), {}, False),
    "sums of few integers, along columns": ("cumsum", (LINE[: 1 << 14].reshape(128, -1), 0), {}, True),
    "argmax of halves": ("argmax", (FLOATS.astype(np.float16), 1), {"keepdims": True}, True),
}


@pytest.mark.parametrize("case", LARGE)
def test_large_calls(case):
    name, args, kwargs, kernels = LARGE[case]
    before = dml.cache_info()
    agree(name, lambda: copy.deepcopy((args, kwargs)))
    after = dml.cache_info()
    assert (after.hits + after.misses > before.hits + before.misses) == kernels


def test_of_duplicates_the_one_that_numpy_puts_last_wins():
    values = np.arange(FLOATS.size).reshape(FLOATS.shape).astype(np.float32)
    for step in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        at, new = ALONG[0][:: step[0]], values[:: step[1]]
        agree("put_along_axis", lambda at=at, new=new: ((FLOATS.copy(), at, new, 0), {}))


A = np.array([[10, 30, 20], [60, 40, 50]])
AI = np.array([[0, 2, 1], [1, 2, 0]])
FIVES = np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
#: The examples of NumPy's documentation.
DOCUMENTED = [
    (lambda xp: xp.take([4, 3, 5, 7, 6, 8], [0, 1, 4]), [4, 3, 6]),
    (lambda xp: xp.take([4, 3, 5, 7, 6, 8], [[0, 1], [2, 3]]), [[4, 3], [5, 7]]),
    (lambda xp: xp.take_along_axis(A, AI, axis=1), [[10, 20, 30], [40, 50, 60]]),
    (lambda xp: xp.take_along_axis(A, xp.argmin(A, axis=1, keepdims=True), axis=1), [[10], [40]]),
    (lambda xp: xp.take_along_axis(A, xp.argmax(A, axis=1, keepdims=True), axis=1), [[30], [60]]),
    (lambda xp: put(xp, A.copy(), np.array([[1], [0]]), 99), [[10, 99, 20], [99, 40, 50]]),
    (lambda xp: xp.argmax(np.arange(6).reshape(2, 3) + 10), 5),
    (lambda xp: xp.argmax(np.arange(6).reshape(2, 3) + 10, axis=0), [1, 1, 1]),
    (lambda xp: xp.argmax(np.arange(6).reshape(2, 3) + 10, axis=1), [2, 2]),
    (lambda xp: xp.argmax(np.array([0, 5, 2, 3, 4, 5])), 1),
    (lambda xp: xp.argmax(np.arange(24).reshape(2, 3, 4), axis=1, keepdims=True).shape, [2, 1, 4]),
    (lambda xp: xp.argmin(np.arange(6).reshape(2, 3) + 10), 0),
    (lambda xp: xp.argmin(np.arange(6).reshape(2, 3) + 10, axis=0), [0, 0, 0]),
    (lambda xp: xp.argmin(np.array([10, 11, 12, 13, 10, 15])), 0),
    (lambda xp: xp.cumsum(np.array([[1, 2, 3], [4, 5, 6]])), [1, 3, 6, 10, 15, 21]),
    (lambda xp: xp.cumsum(np.array([[1, 2, 3], [4, 5, 6]]), axis=1), [[1, 3, 6], [4, 9, 15]]),
    (lambda xp: xp.cumprod(np.array([[1, 2, 3], [4, 5, 6]]), axis=0), [[1, 2, 3], [4, 10, 18]]),
    (lambda xp: xp.nonzero(np.array([[3, 0, 0], [0, 4, 0], [5, 6, 0]])), [[0, 1, 2, 2], [0, 1, 0, 1]]),
    (lambda xp: xp.flatnonzero(np.arange(-2, 3)), [0, 1, 3, 4]),
    (lambda xp: xp.argwhere(np.arange(6).reshape(2, 3) > 1), [[0, 2], [1, 0], [1, 1], [1, 2]]),
]


def put(xp, a, indices, values):
    assert xp.put_along_axis(a, indices, values, axis=1) is None
    return a


@pytest.mark.parametrize("number", range(len(DOCUMENTED)))
def test_documented_examples(small, number):
    call, expected = DOCUMENTED[number]
    for module in (np, numpy):
        np.testing.assert_array_equal(call(module), expected)


@pytest.mark.parametrize("bounds", ["clamp", "drop", "deferred"])
def test_bad_indices_raise_whatever_the_default_is(bounds):
    a, i = np.arange(600_000.0).reshape(2, -1), np.arange(300_000)
    i[7] = 600_000
    rows = np.stack([i, i])
    with dml.config(bounds=bounds):
        for call, args in (
            (numpy.take, (a, i)),
            (numpy.take, (a, i, 1)),
            (numpy.take_along_axis, (a, rows, 1)),
            (numpy.put_along_axis, (a, rows, 0, 1)),
        ):
            with pytest.raises(IndexError):
                call(*args)


@pytest.mark.parametrize(
    ("args", "kwargs", "values", "indices"),
    [
        ((FIVES, 2), {}, [[5, 4], [5, 4]], [[4, 3], [0, 1]]),
        ((FIVES, 2), {"axis": 0}, [[5, 4, 3, 4, 5], [1, 2, 3, 2, 1]], [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]),
        ((FIVES, 2), {"axis": 1, "mode": "smallest"}, [[1, 2], [1, 2]], [[0, 1], [4, 3]]),
        ((np.array([1.0, 2.0, 3.0, np.nan]), 2), {}, [3.0, 2.0], [2, 1]),
    ],
)
def test_documented_examples_of_top_k(args, kwargs, values, indices):
    found = numpy.top_k(*args, **kwargs)
    assert type(found) is tuple
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[1], indices)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_nan_is_found(small, name, dtype):
    lines = np.array([[1, 2, np.nan, -np.nan], [-np.inf, np.inf, -np.inf, np.inf], [0, -0.0, 0, -0.0]], dtype)
    expected = {"argmax": [2, 1, 0], "argmin": [2, 0, 0]}[name]
    for repeats in (1, 50):
        a = np.repeat(lines, repeats, axis=1)
        found = [getattr(numpy, name)(x, axis=axis) for x, axis in ((a, 1), (np.ascontiguousarray(a.T), 0))]
        assert [x.tolist() for x in found] == 2 * [[repeats * at for at in expected]]


def test_an_array_of_another_library_gets_what_was_given():
    class Duck:
        def __array_function__(self, function, types, args, kwargs):
            return function, args, kwargs

    duck = Duck()
    assert numpy.take(duck, [1]) == (np.take, (duck, [1]), {})
    assert numpy.argmax(duck, axis=1) == (np.argmax, (duck,), {"axis": 1})
    assert numpy.take_along_axis(A, duck, axis=1) == (np.take_along_axis, (A, duck), {"axis": 1})


class OnDevice:
    """What is asked of an array on a device before its library is."""

    __cuda_array_interface__ = {}

    def __init__(self, *shape):
        self.shape, self.ndim = shape, len(shape)

    def reshape(self, size):
        return self, size


def test_running_sums_of_any_numpy(monkeypatch):
    """Those of NumPy 2.1 are there before, and have the same errors."""
    for name, ufunc in (("cumulative_sum", np.add), ("cumulative_prod", np.multiply)):
        before = functools.partial(RUNNING._before_2_1, ufunc)
        for function in (before, getattr(numpy, name)):
            assert function([1, 2, 3]).tolist() == ufunc.accumulate([1, 2, 3]).tolist()
            assert function([[1, 2], [3, 4]], axis=0, include_initial=True).tolist() == [
                [ufunc.identity] * 2,
                [1, 2],
                [ufunc(1, 3), ufunc(2, 4)],
            ]
            out = np.zeros(4)
            assert function([1.0, 2, 3], out=out, include_initial=True) is out
            assert out.tolist() == [ufunc.identity, *ufunc.accumulate([1, 2, 3])]
            with pytest.raises(ValueError, match="more than one dimension ``axis`` argument is required"):
                function([[1, 2]])


def test_arrays_on_a_device(monkeypatch):
    def recorded(name):
        return lambda *args, **kwargs: (name, args, kwargs)

    for name in ("gather", "gather_elements"):
        monkeypatch.setattr(numpy.ops, name, recorded(name))
    a, i = OnDevice(2, 3), OnDevice(2, 5)
    assert numpy.take(a, i, 1) == ("gather", (a, i), {"axis": 1, "out": None, "bounds": "raise"})
    assert numpy.take(a, i, out=a) == ("gather", ((a, -1), i), {"axis": 0, "out": a, "bounds": "raise"})
    assert numpy.take_along_axis(a, i) == ("gather_elements", (a, i), {"axis": 1, "bounds": "raise"})
    monkeypatch.setattr(numpy.ops, "top_k", lambda *args, **kwargs: (args, kwargs))
    found = np.array([[1, 2], [3, 4]])
    monkeypatch.setattr(NONZERO, "nonzero_coordinates", lambda a: found)
    assert numpy.argwhere(a) is found
    assert [x.tolist() for x in numpy.nonzero(a)] == [[1, 3], [2, 4]]
    assert numpy.top_k(a, 2) == ((a, 2), {"axis": -1, "mode": "largest", "sorted": True})


def test_errors_of_arrays_on_a_device_stay(monkeypatch):
    def fail(*args, **kwargs):
        raise IndexError("gather: the device's own")

    monkeypatch.setattr(numpy.ops, "gather", fail)
    with pytest.raises(IndexError, match="the device's own"):
        numpy.take(OnDevice(3), indices=OnDevice(2))


def test_only_the_functions_are_listed():
    assert dir(numpy) == sorted(numpy.__all__)


def test_masks_in_lists_are_what_numpy_makes_of_them():
    masked = np.ma.array([4, 5], mask=[1, 0])
    assert numpy.take([masked, masked], [1], axis=0).tolist() == np.take([masked, masked], [1], axis=0).tolist()


@pytest.mark.skipif(hasattr(np, "top_k"), reason="NumPy has its own from 2.6 on")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: numpy.top_k(a), "top_k() missing 1 required positional argument: 'k'"),
        (lambda a: numpy.top_k(a, 1, 0), "top_k() takes 2 positional arguments but 3 were given"),
        (lambda a: numpy.top_k(a, 1, largest=False), "top_k() got an unexpected keyword argument 'largest'"),
        (
            lambda a: numpy.top_k([[1, 2], np.ma.array([1, 2])], 1),
            "top_k: a: found a masked array, expected an array without",
        ),
        (lambda a: numpy.top_k(a, np.array([1])), "top_k: k: found array([1]), expected an integer"),
    ],
)
def test_errors_of_top_k_name_no_private_function(call, message):
    with pytest.raises(TypeError) as caught:
        call(np.arange(6.0).reshape(2, 3))
    assert str(caught.value).startswith(message)


def test_sorted_is_anything_that_is_true_as_in_numpy():
    assert [found.tolist() for found in numpy.top_k(np.array([1, 3, 2]), 2, sorted="no")] == [[3, 2], [1, 2]]
