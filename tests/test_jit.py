"""The functions inside a user's jitted functions: the same results, bit by bit, and the same errors."""

import gc
import os
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.runtime import _nrt_python, rtsys

import numba_dml as dml
from numba_dml import _overloads
from numba_dml._core.regions import first
from numba_dml.cpu.dispatch.top_k import PIECES, TABLE, choice_of, facts_of
from numba_dml.cpu.jitted import functions
from numba_dml.cpu.jitted.addresses import addresses
from numba_dml.cpu.tuning.top_k import TUNING

from .reference import same
from .reference import top_k as reference_top_k
from .strategies import fill, lay_out, sampled_places

pytestmark = pytest.mark.cpu

ROUNDS = 40


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def strided(rng, shape, dtype):
    """Return an array whose layout Numba calls A."""
    return lay_out(rng, fill(rng, tuple(shape), np.dtype(dtype)), "sparse")


def outcome(function, *args):
    """Return what a function returns or raises."""
    try:
        return function(*args)
    except (IndexError, ValueError) as error:
        return type(error), str(error).split("expected")[0]


def check(jitted, function, *args):
    """Compare a jitted call with the function's."""
    found, expected = outcome(jitted, *args), outcome(function, *args)
    if isinstance(expected, dml.TopK):
        assert type(found) is dml.TopK
        assert same(found.values, expected.values)
        assert same(found.indices, expected.indices)
    elif isinstance(expected, np.ndarray):
        assert same(found, expected)
    else:
        assert found[0] is expected[0] or issubclass(expected[0], found[0])
        assert found[1] == expected[1]


@numba.njit
def top_k(a, k, axis):
    return dml.top_k(a, k, axis=axis)


@numba.njit
def top_k_smallest(a, k, axis):
    return dml.top_k(a, k, axis=axis, mode="smallest", nan="largest", index_dtype=np.uint32)


LINES = {
    "random": lambda rng, n: rng.standard_normal(n) * 50,
    "equal": lambda rng, n: np.full(n, 3.0),
    "few": lambda rng, n: rng.integers(0, 3, n),
    "ascending": lambda rng, n: np.arange(n) % 251,
    "descending": lambda rng, n: -np.arange(n) % 251,
    "special": lambda rng, n: rng.choice([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-42], n),
    "lowest": lambda rng, n: np.where(rng.random(n) < 0.1, rng.random(n), -np.inf),
}


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "i8"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_top_k_of_short_lines(rng, dtype):
    """Lines that come alone, packed or not, around the sizes and k that have a way of their own."""

    @numba.njit
    def jitted(a, k):
        return dml.top_k(a, k), dml.top_k(a, k, mode="smallest", nan="first"), dml.top_k(a, k, nan="largest")

    @numba.njit
    def of_strided(a, k):  # which goes one way under all rules
        return dml.top_k(a, k, mode="smallest", nan="first")

    rules = ({}, {"mode": "smallest", "nan": "first"}, {"nan": "largest"})

    for n in (1, 2, 12, 13, 15, 16, 17, 63, 64, 65, 100, 127, 128, 130, 1000, 1024, 1025, 2000, 3072, 3073, 5001):
        for kind, make in LINES.items():
            a = (
                make(rng, n).astype(dtype)
                if dtype[0] == "f"
                else np.nan_to_num(make(rng, n)).clip(-100, 100).astype(dtype)
            )
            for k in {1, 2, 8, 11, 12, 13} & set(range(n + 1)):
                expected = [reference_top_k(a, k, **rule) for rule in rules]
                for found, best in zip(jitted(a, k), expected, strict=True):
                    assert all(map(same, found, best)), (n, kind, k)
                if kind == "random":
                    assert all(map(same, of_strided(np.repeat(a, 2)[::2], k), expected[1])), (n, k)


@numba.njit
def top_k_nan(a, k):
    return dml.top_k(a, k, nan="largest", sorted=False)


@pytest.mark.parametrize(("dtype", "layout"), [("f4", "C"), ("i8", "A")])
def test_top_k(rng, dtype, layout):
    for _ in range(ROUNDS):
        shape = rng.integers(0, [5, 300][rng.integers(2)], 2)
        shape[rng.integers(2)] = rng.integers(1, 20)
        a = fill(rng, tuple(shape), np.dtype(dtype)) if layout == "C" else strided(rng, shape, dtype)
        axis = int(rng.integers(-2, 2))
        k = int(rng.integers(0, shape[axis] + 1)) if rng.integers(4) else int(rng.integers(-1, 4))
        check(top_k, lambda a, k, axis: dml.top_k(a, k, axis=axis), a, k, axis)
    for axis in (2, -3):
        check(top_k, lambda a, k, axis: dml.top_k(a, k, axis=axis), a, 0, axis)


@pytest.mark.parametrize("dtype", ["?"])
def test_top_k_smallest(rng, dtype):
    options = {"mode": "smallest", "nan": "largest", "index_dtype": np.uint32}
    for _ in range(ROUNDS):
        a = fill(rng, tuple(rng.integers(1, 40, 2)), np.dtype(dtype))
        axis = int(rng.integers(2))
        k = int(rng.integers(0, a.shape[axis] + 1))
        check(top_k_smallest, lambda a, k, axis: dml.top_k(a, k, axis=axis, **options), a, k, axis)


def test_every_rule_for_nan():
    a = np.array([1, np.nan, 0, np.nan], "f4")
    for mode, nan, expected in (
        ("largest", "last", [0, 2, 1]),
        ("largest", "largest", [1, 3, 0]),
        ("largest", "first", [1, 3, 0]),
        ("smallest", "last", [2, 0, 1]),
        ("smallest", "largest", [2, 0, 1]),
        ("smallest", "first", [1, 3, 2]),
    ):
        assert numba.njit(lambda a: dml.top_k(a, 3, mode=mode, nan=nan).indices)(a).tolist() == expected  # noqa: B023
        assert dml.top_k(a, 3, mode=mode, nan=nan).indices.tolist() == expected


@pytest.mark.parametrize("n", [1, 5, 63, 64, 65, 128, 129, 1000, 1025, 5000, 140_000])
def test_top_k_of_a_line(rng, n):
    for k in {1, 2, 8, 16, 17, 50, 300, n // 3, n}:
        for kind in range(3):
            a = fill(rng, (n,), np.dtype("f4")) if kind else np.arange(n, dtype="f4")
            check(top_k_nan, lambda a, k: dml.top_k(a, k, nan="largest"), a, k)


@numba.njit
def top_k_out(a, k, values, indices):
    return dml.top_k(a, k, out=(values, indices))


def test_top_k_of_a_line_out(rng):
    """Outputs beside the line, over it, of another size, and strided."""
    a = fill(rng, (40,), np.dtype("f4"))
    expected = dml.top_k(a, 4)
    holder = np.zeros(8, "f4"), np.zeros(8, np.intp)
    for values, indices in (
        (np.zeros(4, "f4"), np.zeros(4, np.intp)),
        (holder[0][::2], holder[1][::2]),
        (a[:4], np.zeros(4, np.intp)),
        (a[36:], np.zeros(4, np.intp)),
    ):
        line = a.copy() if not np.shares_memory(a, values) else a
        before = line.copy()
        top_k_out(line, 4, values, indices)
        assert same(values, expected.values)
        assert same(indices, expected.indices)
        a[:] = before
    with pytest.raises(ValueError, match=r"top_k: out\[0\]: found shape \(3,\), expected \(4,\)"):
        top_k_out(a, 4, np.zeros(3, "f4"), np.zeros(4, np.intp))


def test_top_k_out(rng):
    a = fill(rng, (3, 40), np.dtype("f4"))
    expected = dml.top_k(a, 4)
    holder = np.zeros((3, 8), "f4"), np.zeros((3, 8), np.intp)
    for values, indices in (
        (np.zeros((3, 4), "f4"), np.zeros((3, 4), np.intp)),
        (holder[0][:, ::2], holder[1][:, ::2]),
        (a.reshape(-1)[:12].reshape(3, 4), np.zeros((3, 4), np.intp)),
    ):
        result = top_k_out(a, 4, values, indices)
        assert same(values, expected.values)
        assert same(indices, expected.indices)
        assert result.values.__array_interface__["data"] == values.__array_interface__["data"]
    with pytest.raises(ValueError, match=r"top_k: out\[1\]: found shape \(3, 5\), expected \(3, 4\)"):
        top_k_out(a, 4, np.zeros((3, 4), "f4"), np.zeros((3, 5), np.intp))


@numba.njit
def gather(a, indices, axis):
    return dml.gather(a, indices, axis)


@numba.njit
def gather_out(a, indices, out):
    return dml.gather(a, indices, out=out)


@numba.njit
def gather_clamp(a, indices, axis):
    return dml.gather(a, indices, axis=axis, bounds="clamp")


@numba.njit
def gather_drop(a, indices, axis):
    return dml.gather_elements(a, indices, axis=axis, bounds="drop")


@numba.njit
def gather_elements(a, indices, axis):
    return dml.gather_elements(a, indices, axis=axis)


def some_indices(rng, shape, n, dtype, wild):
    low, high = -n - wild, n + wild
    if np.dtype(dtype).kind == "u":
        low = 0
    return rng.integers(low, max(high, low + 1), shape).astype(dtype)


@pytest.mark.parametrize(("dtype", "index_dtype", "layout"), [("f4", "i8", "C"), ("c16", "i4", "A"), ("?", "u8", "C")])
def test_gathers(rng, dtype, index_dtype, layout):
    for trial in range(ROUNDS):
        shape = rng.integers(0 if trial % 8 == 0 else 1, 9, 3)
        a = fill(rng, tuple(shape), np.dtype(dtype)) if layout == "C" else strided(rng, shape, dtype)
        axis = int(rng.integers(-3, 3))
        n = int(shape[axis])
        indices = some_indices(rng, rng.integers(0, 7, 2), n, index_dtype, trial % 5 == 0)
        check(gather, lambda a, i, axis: dml.gather(a, i, axis=axis), a, indices, axis)
        check(gather_clamp, lambda a, i, axis: dml.gather(a, i, axis=axis, bounds="clamp"), a, indices, axis)
        shape[axis] = rng.integers(1, 9)
        indices = some_indices(rng, shape, n, index_dtype, trial % 5 == 0)
        check(gather_elements, lambda a, i, axis: dml.gather_elements(a, i, axis=axis), a, indices, axis)
        check(gather_drop, lambda a, i, axis: dml.gather_elements(a, i, axis=axis, bounds="drop"), a, indices, axis)
    check(gather, lambda a, i, axis: dml.gather(a, i, axis=axis), a, indices[0], 3)


def test_large_gathers(rng):
    """The ways of large gathers: common rows, tiles, packed ones, rows that are asked for ahead, blocks."""
    a = rng.random((600, 2048), "f4")
    for shape in ((700, 2048), (290, 2048), (600, 900)):
        axis = int(shape[0] == 600)
        indices = rng.integers(-a.shape[axis], a.shape[axis], shape)
        check(gather_elements, lambda a, i, axis: dml.gather_elements(a, i, axis=axis), a, indices, axis)
        indices = indices[:2, :600].copy()
        check(gather, lambda a, i, axis: dml.gather(a, i, axis=axis), a, indices % a.shape[axis], axis)


@pytest.mark.slow
def test_slices_in_pieces(rng):
    """Slices that are no single run of memory, of few points and of many, and empty ones, whose indices count too."""
    put = [scatter_nd, lambda a, i, u, b: dml.scatter_nd(a, i, u, batch_dims=b)]
    for shape in ((9, 80), (80, 3), (7, 5, 4), (5, 6, 0)):
        for trial in range(10):
            a = np.moveaxis(fill(rng, (*shape[::-1], 2), np.dtype("f4"))[..., trial % 2], 0, -1)
            a = a[:, ::-1] if trial % 3 else a.T
            for axis in range(a.ndim):
                indices = some_indices(rng, (4, 30), a.shape[axis], "i8", trial == 7)
                check(gather, lambda a, i, axis: dml.gather(a, i, axis=axis), a, indices, axis)
            indices = some_indices(rng, (20, 1), len(a), "i8", trial == 7)
            updates = rng.random((20, *a.shape[1:]), "f4")
            check(*put, a, indices, updates, 0)
            add = partial(dml.scatter_nd, a.copy(), reduction="add")
            check(scatter_out, lambda a, i, u, o, add=add: add(i, u), a, indices, updates, a)


@numba.njit
def gather_nd(a, indices, batch_dims):
    return dml.gather_nd(a, indices, batch_dims=batch_dims)


@numba.njit
def gather_nd_out(a, indices, out):
    return dml.gather_nd(a, indices, out=out)


def test_gather_nd(rng):
    for trial in range(ROUNDS):
        a = fill(rng, tuple(rng.integers(1, 6, 3)), np.dtype("f4"))
        batch = trial % 3
        points = (*a.shape[:batch], *rng.integers(0, 4, 2 - batch))
        indices = np.stack([rng.integers(-n, n + (trial % 7 == 0), points) for n in a.shape[batch:]], -1)
        check(gather_nd, lambda a, i, b: dml.gather_nd(a, i, batch_dims=b), a, indices, batch)
        indices = rng.integers(-1, 1, (4, 2))
        out = np.empty((4, a.shape[2]), "f4")
        assert same(gather_nd_out(a, indices, out), dml.gather_nd(a, indices))
    with pytest.raises(ValueError, match=r"coordinates per tuple \(the last size\) without out"):
        gather_nd(a, np.zeros((1, 1, 2), int), 0)
    with pytest.raises(ValueError, match="gather_nd: batch_dims: found 3, expected 0 to 2"):
        gather_nd(a, np.zeros((1, 1, 2), int), 3)
    with pytest.raises(ValueError, match="gather_nd: indices: found 4 coordinates per tuple"):
        gather_nd(a, np.zeros((1, 1, 4), int), 0)


def test_gather_in_place(rng):
    @numba.njit
    def reverse(a, indices):
        return dml.gather(a, indices, out=a)

    for a in (rng.random(100, "f4"), rng.random(200, "f4")[::2]):
        expected = a[::-1].copy()
        assert reverse(a, np.arange(99, -1, -1)) is not None
        assert same(a, expected)


@numba.njit
def scatter_elements(a, indices, updates, axis):
    return dml.scatter_elements(a, indices, updates, axis=axis)


@numba.njit
def scatter_add(a, indices, updates, axis):
    return dml.scatter_elements(a, indices, updates, axis=axis, reduction="add", bounds="drop")


@numba.njit
def scatter_max(a, indices, updates, batch_dims):
    return dml.scatter_nd(a, indices, updates, batch_dims=batch_dims, reduction="max")


@numba.njit
def scatter_nd(a, indices, updates, batch_dims):
    return dml.scatter_nd(a, indices, updates, batch_dims=batch_dims)


@pytest.mark.parametrize(("dtype", "layout"), [("f4", "C"), ("c16", "A")])
def test_scatter_elements(rng, dtype, layout):
    for trial in range(ROUNDS):
        shape = rng.integers(1, 12, 2)
        a = fill(rng, tuple(shape), np.dtype(dtype)) if layout == "C" else strided(rng, shape, dtype)
        axis = int(rng.integers(-2, 2))
        n = int(shape[axis])
        shape[axis] = rng.integers(0, 20)
        indices = some_indices(rng, shape, n, "i8", trial % 6 == 0)
        updates = fill(rng, tuple(shape), np.dtype(dtype))
        before = a.copy()
        check(scatter_elements, lambda a, i, u, x: dml.scatter_elements(a, i, u, axis=x), a, indices, updates, axis)
        check(
            scatter_add,
            lambda a, i, u, x: dml.scatter_elements(a, i, u, axis=x, reduction="add", bounds="drop"),
            a,
            indices,
            updates,
            axis,
        )
        assert same(a, before)
    with pytest.raises(ValueError, match="scatter_elements: updates: found sizes"):
        scatter_elements(a, indices, updates[:, :0].copy(), axis)


def test_scatter_nd(rng):
    for trial in range(ROUNDS):
        a = fill(rng, tuple(rng.integers(1, 6, 3)), np.dtype("f4"))
        t = int(rng.integers(1, 3))
        indices = np.stack([rng.integers(-n, n + (trial % 7 == 0), 9) for n in a.shape[:t]], -1)
        updates = fill(rng, (9, *a.shape[t:]), np.dtype("f4"))
        for jitted, reduction in ((scatter_nd, "none"), (scatter_max, "max")):
            check(jitted, lambda a, i, u, b, r=reduction: dml.scatter_nd(a, i, u, reduction=r), a, indices, updates, 0)
        indices = rng.integers(0, a.shape[1], (a.shape[0], 1))
        updates = fill(rng, (a.shape[0], a.shape[2]), np.dtype("f4"))
        check(scatter_nd, lambda a, i, u, b: dml.scatter_nd(a, i, u, batch_dims=b), a, indices, updates, 1)


@numba.njit
def scatter_out(a, indices, updates, out):
    return dml.scatter_nd(a, indices, updates, out=out, reduction="add")


def test_scatter_out(rng):
    indices = rng.integers(0, 30, (50, 1))
    updates = rng.random(50, "f4")
    holder = rng.random(61, "f4")
    for a, out in (
        (holder[:30].copy(), holder[30:60]),
        (holder[:30], holder[:30]),
        (holder[1:60:2], holder[1:60:2]),
        (holder[:30], holder[5:35]),
        (holder[:60:2], rng.random(30, "f4")),
    ):
        expected = dml.scatter_nd(a, indices, updates, reduction="add")
        assert same(scatter_out(a, indices, updates, out), expected)
        assert same(out, expected)
    before = out.copy()
    with pytest.raises(IndexError, match=r"scatter_nd: indices\[1, 0\] = 30 is out of range for axis 0 of size 30"):
        scatter_out(out, np.array([[0], [30]]), updates[:2], out)
    assert same(out, before)


def test_errors_say_where():
    a = np.zeros((2, 3), "f4")
    for jitted, args, message in (
        (
            gather,
            (a, np.array([[0, 1], [1, -3]]), 0),
            r"gather: indices\[1, 1\] = -3 is out of range for axis 0 of size 2",
        ),
        (
            gather_nd,
            (a, np.array([[[0, 0], [1, 3]]]), 0),
            r"indices\[0, 1, 1\] = 3 is out of range for axis 1 of size 3",
        ),
        (gather, (a.astype("?"), np.array([[2**64 - 1]], "u8"), 1), r"indices\[0, 0\] = 18446744073709551615 is"),
    ):
        with pytest.raises(IndexError, match=message):
            jitted(*args)
    with pytest.raises(ValueError, match="top_k: k: found 4, expected 0 to 3, the size of axis 1"):
        top_k(a, 4, -1)


@numba.njit
def with_bounds_that_are_none(a, indices):
    found = dml.gather(a, indices, bounds=None), dml.gather_elements(a, indices, bounds=None)
    scattered = dml.scatter_elements(a, indices, a, bounds=None)
    rows = dml.nonzero_coordinates(a, size=9, bounds=None).coordinates
    hot = dml.one_hot(indices, 9, bounds=None)
    turned = dml.reverse_subsequences(a, indices[:1], bounds=None)
    return (*found, scattered, rows, hot, turned, dml.max_unpool(a, indices, (9,), bounds=None))


def test_bounds_that_are_none_raise():
    a, indices = np.arange(5.0), np.array([4, 0, 2, 1, 3])
    expected = with_bounds_that_are_none.py_func(a, indices)
    for found, one in zip(with_bounds_that_are_none(a, indices), expected, strict=True):
        assert same(found, one)
    with pytest.raises(IndexError, match=r"gather: indices\[2\] = 5 is out of range"):
        with_bounds_that_are_none(a, np.array([0, 1, 5, 1, 1]))


def test_errors_are_those_of_python():
    with pytest.raises(IndexError) as caught:
        gather(np.zeros(3), np.array([3]), 0)
    text = "gather: indices[0] = 3 is out of range for axis 0 of size 3"
    assert caught.value.args == (text,)
    assert repr(caught.value) == f"IndexError({text!r})"
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is IndexError
    assert copied.args == (text,)

    class Sequence:
        def __getitem__(self, i):
            return gather(np.arange(3.0), np.array([i]), 0)[0]

    assert list(Sequence()) == [0, 1, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda a, i, out: dml.top_k(a, 9),
        lambda a, i, out: dml.top_k(a, 1, axis=2),
        lambda a, i, out: dml.top_k(np.zeros(300), 1, index_dtype=np.uint8),
        lambda a, i, out: dml.top_k(a, 2, out=(a[:, 1:], i)),
        lambda a, i, out: dml.gather(a, i[0], out=out),
        lambda a, i, out: dml.gather_elements(a, np.zeros((5, 3), np.int64)),
        lambda a, i, out: dml.gather_nd(a, np.zeros((3, 1), np.int64), batch_dims=1),
        lambda a, i, out: dml.gather_nd(a, i, batch_dims=2, out=out),
        lambda a, i, out: dml.scatter_elements(a, i, out),
        lambda a, i, out: dml.scatter_elements(a, i + 7, a),
        lambda a, i, out: dml.scatter_nd(a, i[:, :1], out, bounds="drop"),
    ],
)
def test_errors_have_the_texts_of_the_functions(call):
    args = np.zeros((2, 3)), np.zeros((2, 3), np.int64), np.zeros((1, 3))
    with pytest.raises((ValueError, IndexError)) as expected:
        call(*args)
    with pytest.raises((ValueError, IndexError)) as found:
        numba.njit(call)(*args)
    assert str(found.value) == str(expected.value)


LOST = """
import numba, numpy as np
import numba_dml as dml

inner = numba.njit(lambda a, i: dml.gather(a, i))

# `outer` returns no array: to make one, Numba runs Python code while the error is set, and CPython clears an error
# where it looks up a name that its cache of types happens to lack.
@numba.njit(parallel=True)
def outer(a, i, result):
    for j in numba.prange(len(i)):
        result[j] = inner(a, i[j])

bad = np.zeros((5000, 3), int)
bad[100, 1] = 77
try:
    outer(np.arange(5.0), bad, np.zeros((5000, 3)))
except (IndexError, SystemError) as error:
    assert "77 is out of range" in str(error) + str(error.__cause__)
else:
    raise AssertionError("no error")
"""


@pytest.mark.parametrize("rows", ["100", "::3"])
def test_the_first_error_in_a_loop_is_not_lost(tmp_path, rows):
    """Of several, too: Python is asked about the others while the first is set."""
    run(LOST.replace("100, 1", f"{rows}, 1"), tmp_path)


@numba.njit(nogil=True)
def counts_errors(a, indices, count):
    found = 0
    for _ in range(count):
        try:
            dml.gather(a, indices)
        except Exception:  # noqa: PERF203
            found += 1
    return found


def test_threads_that_raise_errors_at_once():
    """Without the interpreter's lock, which each of them takes to ask Python."""
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(counts_errors, np.arange(3.0), np.array([3 + i]), 50) for i in range(4)]
        assert [job.result() for job in jobs] == [50] * 4


LOWEST = -(2**63)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: dml.gather(a, np.array([LOWEST])),
        lambda a: dml.gather(a, np.array([0]), axis=LOWEST),
        lambda a: dml.gather_nd(a, np.array([[0]]), batch_dims=LOWEST),
        lambda a: dml.top_k(a, LOWEST),
        lambda a: dml.top_k(a, 1, axis=LOWEST),
    ],
)
def test_the_lowest_integer_has_its_error_too(call):
    """Numba cannot print it."""
    a = np.arange(3.0)
    found, expected = outcome(numba.njit(call), a), outcome(call, a)
    assert issubclass(expected[0], found[0])
    assert found[1] == expected[1]
    assert str(LOWEST) in found[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda a, i, n: dml.top_k(a, n),
        lambda a, i, n: dml.top_k(a, 1, axis=n),
        lambda a, i, n: dml.gather(a, i, axis=n),
        lambda a, i, n: dml.gather_elements(a, i, axis=n),
        lambda a, i, n: dml.gather_nd(a, i.reshape(-1, 1), batch_dims=n),
        lambda a, i, n: dml.scatter_elements(a, i, a, axis=n),
        lambda a, i, n: dml.cumulative_sum(a, axis=n),
        lambda a, i, n: dml.reverse_subsequences(a, i[:1], axis=n),
    ],
)
def test_parameters_of_unsigned_types(call):
    """They are not taken for negative numbers."""
    a, i, jitted = np.arange(3.0), np.zeros(3, np.int64), numba.njit(call)
    for n in (2**64 - 1, 2**63):
        found, expected = outcome(jitted, a, i, np.uint64(n)), outcome(call, a, i, n)
        assert issubclass(expected[0], found[0])
        assert found[1] == expected[1]
        assert str(n) in found[1]
    check(jitted, call, a, i, np.uint64(0))


@pytest.mark.parametrize("strides", [(0,), (4,), (-8,), (16, 16), (8, 4), (0, 800), (24, 8), (8, 24), (24, 16)])
def test_an_output_whose_elements_overlap(strides):
    """It is refused as by the functions; others are written to."""
    shape = (2, 3)[2 - len(strides) :]
    room = np.zeros(200)
    a, i = np.arange(9.0), np.arange(6)[: np.prod(shape)].reshape(shape)
    out = np.lib.stride_tricks.as_strided(room[100:], shape, strides)
    found = outcome(gather_out, a, i, out)
    found = found.tolist() if isinstance(found, np.ndarray) else found
    expected = outcome(gather_out.py_func, a, i, out)
    assert found == (expected.tolist() if isinstance(expected, np.ndarray) else expected)
    arguments = np.ones(shape), shape[-1], out, np.zeros(shape, np.int64)
    if isinstance(expected, tuple):
        with pytest.raises(ValueError, match=r"top_k: out\[0\]: found strides .* elements that do not overlap"):
            top_k_out(*arguments)
    else:
        assert top_k_out(*arguments).values.tolist() == np.ones(shape).tolist()


def refused(function, *args):
    """Return the text of a typing error."""
    with pytest.raises(TypingError) as caught:
        numba.njit(function)(*args)
    return str(caught.value)


def test_typing_errors():
    f = np.zeros((2, 3), "f4")
    i = np.zeros((2, 3), "i8")
    out = np.zeros((2, 3))
    fixed = np.zeros((2, 3), "f4")
    fixed.flags.writeable = False
    for function, args, message in (
        (lambda a: dml.top_k(a, 1.5), (f,), "top_k: k: found float64, expected an integer"),
        (lambda a: dml.top_k(a, 1, axis=None), (f,), "top_k: axis: found none, expected an integer"),
        (lambda a: dml.top_k(a, 1), (f.astype("f2"),), "top_k: a: found float16, which has no arithmetic"),
        (
            lambda a: dml.top_k(a, 1),
            (f.astype("c8"),),
            "top_k: a: found an array of complex64, expected an array of bool",
        ),
        (lambda a: dml.top_k(a, 1), (3,), "top_k: a: found int64, expected an array"),
        (lambda a: dml.top_k(a, 1), (np.zeros(()),), "top_k: a: found 0 dimensions, expected at least 1"),
        (lambda a, m: dml.top_k(a, 1, mode=m), (f, "largest"), "top_k: mode: found unicode_type known at run time"),
        (lambda a: dml.top_k(a, 1, mode="best"), (f,), "top_k: mode: found 'best', expected 'largest' or 'smallest'"),
        (
            lambda a: dml.top_k(a, 1, nan="least"),
            (f,),
            "top_k: nan: found 'least', expected 'last', 'largest' or 'first'",
        ),
        (lambda a: dml.top_k(a, 1, index_dtype=np.float32), (f,), "top_k: index_dtype: found class(float32)"),
        (lambda a: dml.top_k(a, 1, out=a), (f,), "top_k: out: found array(float32, 2d, C), expected a pair"),
        (lambda a, o: dml.top_k(a, 1, out=(o, o)), (f, out), "top_k: out[0]: found a 2-d array of float64"),
        (lambda a, i: dml.gather(a, i), (f, f), "gather: indices: found an array of float32, expected an array of int"),
        (
            lambda a, i: dml.gather(a, i),
            (f, i > 0),
            "gather: indices: found an array of bool, expected an array of integers (np.flatnonzero finds where",
        ),
        (lambda a: dml.top_k(a, True), (f,), "top_k: k: found bool, expected an integer"),
        (lambda a, axis: dml.gather(a, a, axis=axis), (f.astype(int), True), "gather: axis: found bool, expected an"),
        (lambda a, i: dml.gather_nd(a, i, batch_dims=False), (f, i), "gather_nd: batch_dims: found bool, expected an"),
        (lambda a: dml.top_k(a, 1, sorted="no"), (f,), "top_k: sorted: found 'no', expected True or False"),
        (lambda a: dml.gather(a, None), (f,), "gather: indices: found none, expected an array"),
        (lambda a, i: dml.gather(a, i, out=a), (fixed, i[0]), "gather: out: found a read-only array"),
        (
            lambda a, i: dml.gather(a, i, bounds="wrap"),
            (f, i),
            "gather: bounds: found 'wrap', expected 'raise', 'clamp'",
        ),
        (lambda a, i: dml.gather_elements(a, i), (f, i[0]), "gather_elements: indices: found 1 dimensions, expected 2"),
        (
            lambda a, i: dml.scatter_nd(a, i, i),
            (f, i),
            "scatter_nd: updates: found an array of int64, expected float32",
        ),
        (lambda a, i: dml.scatter_nd(a, i, a, bounds="clamp"), (f, i), "scatter_nd: bounds: found 'clamp', expected"),
        (
            lambda a, i: dml.scatter_nd(a, i, a, reduction="min"),
            (f + 0j, i),
            "reduction: found 'min', expected 'none', 'a",
        ),
        (lambda a, i: dml.scatter_nd(a, i, a, unique=2), (f, i), "scatter_nd: unique: found 2, expected True or False"),
    ):
        assert message in refused(function, *args)


def test_what_jitted_code_refuses_and_the_functions_take():
    """As the table of the page on jitted code has it."""
    a, i, u = np.arange(6.0).reshape(2, 3), np.array([1, 0]), np.zeros(2)
    for function, args, message in (
        (lambda i: dml.gather([1.0, 2.0], i), (i,), "gather: a: found"),
        (lambda a: dml.gather(a, [1, 0]), (a,), "gather: indices: found"),
        (lambda a: dml.gather(a, (1, 0)), (a,), "gather: indices: found"),
        (lambda a: dml.gather(a, 1), (a,), "gather: indices: found"),
        (lambda u, i: dml.scatter_nd(u, i, 1.0), (u, i[:1]), "scatter_nd: updates: found"),
        (lambda a, i, word: dml.gather(a, i, bounds=word), (a, i, "drop"), "gather: bounds: found unicode_type known"),
        (lambda a, flag: dml.top_k(a, 1, sorted=flag), (a, True), "top_k: sorted: found"),
        (lambda a, i: dml.gather(a, i), (a.astype("f2"), i), "gather: a: found"),
        (lambda a, i: dml.gather(a, i), (a.astype(">f8"), i), "Unsupported array dtype"),
        (lambda a, i: dml.gather(a, i), (np.array([b"ab", b"c"]), i), "gather: a: found"),
        (lambda a, i: dml.gather(a, i), (np.zeros(2, "i4,f4"), i), "gather: a: found"),
        (lambda a, i: dml.gather(a, i, target="cpu"), (a, i), "target"),
        (lambda a, i: dml.gather(a, i, stream=None), (a, i), "stream"),
    ):
        assert message in refused(function, *args)
        function(*args)
    tuples = np.array([[1]])
    with pytest.raises(ValueError, match=r"gather_nd: indices: expected .* coordinates per tuple .* without out"):
        gather_nd(a, tuples, 0)
    assert dml.gather_nd(a, tuples).tolist() == [[3, 4, 5]]


@pytest.mark.slow
def test_arrays_that_a_caught_error_loses():
    """Numba loses those of any function that ends with an exception; what ends without one loses nothing."""

    @numba.njit
    def raises(a, i):
        if i[0] >= len(a):
            raise IndexError("out of range")
        return a[i]

    @numba.njit
    def numbas(a, i):
        return raises(a + 1, i)

    @numba.njit
    def ours(a, i):
        return dml.gather(a + 1, i)

    @numba.njit
    def drops(a, i):
        return dml.gather(a + 1, i, bounds="drop")

    def lost(function, i, error):
        for count in (1, 3):  # what a first call makes and keeps is none
            gc.collect()
            before = rtsys.get_allocation_stats()
            for _ in range(count):
                with pytest.raises(IndexError, match="out of range") if error else nullcontext():
                    function(np.arange(3.0), np.array([i]))
            gc.collect()
            after = rtsys.get_allocation_stats()
        return (after.mi_alloc - before.mi_alloc) - (after.mi_free - before.mi_free)

    _nrt_python.memsys_enable_stats()
    try:
        assert [lost(function, 2, False) for function in (numbas, ours, drops)] == [0, 0, 0]
        assert lost(drops, 7, False) == 0
        of_numba, of_ours = lost(numbas, 7, True), lost(ours, 7, True)
    finally:
        _nrt_python.memsys_disable_stats()
    assert of_numba > 0 or of_ours == 0, "Numba loses nothing any more, and we do"


@numba.njit(parallel=True)
def rows_in_parallel(a, k):
    values = np.empty((len(a), k), a.dtype)
    indices = np.empty((len(a), k), np.intp)
    for i in numba.prange(len(a)):
        values[i], indices[i] = dml.top_k(a[i], k)
    return values, indices


def test_prange(rng):
    a = fill(rng, (50, 3000), np.dtype("f4"))
    for k in (1, 8, 50, 1000):
        values, indices = rows_in_parallel(a, k)
        expected = dml.top_k(a, k)
        assert same(values, expected.values)
        assert same(indices, expected.indices)


@numba.njit
def parts(a, k):
    both = dml.top_k(a, k, index_dtype=np.uint32)
    return dml.top_k(a, k).values, dml.top_k(a, k, mode="smallest").indices, both


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_results_that_share_memory(dtype, rng):
    """Of a short line's result either part may outlive the other; nothing is lost, nor freed twice."""
    a = rng.permutation(60).astype(dtype)
    parts(a, 3)
    gc.collect()
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for k in (1, 3, 7):
            values, indices, both = parts(a, k)
            mark = np.full(1000, 7)  # what is freed may be given to others
            assert values.tolist() == sorted(a)[: -k - 1 : -1]
            assert (a[indices] == np.arange(k)).all()
            first = both.indices
            del both
            assert (a[first] == values).all()
            assert mark.all()
        del values, indices, first
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0


@numba.njit
def into_rows(a, k, values, indices):
    for i in range(len(a)):
        last = dml.top_k(a[i], k, out=(values[i], indices[i]))
    return last


@numba.njit
def kept_rows(a, k):
    return [dml.top_k(a[i], k) for i in range(len(a))]


@numba.njit
def of_new_arrays(size, k):
    a = np.arange(size) % 7
    out = np.empty(k, a.dtype), np.empty(k, np.int64)
    return dml.top_k(a, k, out=out), out[1]


def test_references_of_results(rng):
    """Outputs and results live as long as they are used, of lines that are refused for their bad keys, or size, too."""
    a = rng.standard_normal((20, 64)).astype("f4")
    a[3], a[5], a[7, 9:] = np.nan, -np.inf, 1
    values, indices = np.empty((20, 8), "f4"), np.empty((20, 8), "i8")

    def call_all():
        last = into_rows(a, 8, values, indices)
        expected = dml.top_k(a, 8)
        assert same(values, expected.values)
        assert same(indices, expected.indices)
        assert np.shares_memory(last.values, values)
        for size in (5, 8, 40, 64):
            for row, kept in enumerate(kept_rows(a[:, :size], 5)):
                assert same(kept.indices, dml.top_k(a[row, :size], 5).indices)
        for size, k in ((50, 3), (50, 20), (5000, 3)):
            result, own = of_new_arrays(size, k)
            assert result.indices.tolist() == own.tolist() == dml.top_k(np.arange(size) % 7, k).indices.tolist()

    call_all()
    gc.collect()
    _nrt_python.memsys_enable_stats()
    try:
        counts = [sys.getrefcount(x) for x in (a, values, indices)]
        before = rtsys.get_allocation_stats()
        call_all()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert [sys.getrefcount(x) for x in (a, values, indices)] == counts
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free > 0


def run(code, cache, *args, **environment):
    """Run a module in a new process, and return what it prints."""
    file, text = cache / "user.py", textwrap.dedent(code)
    if not file.exists() or file.read_text() != text:  # Numba may take a file that is written again for another one
        file.write_text(text)
    environment = {**os.environ, "NUMBA_DML_TEST_TARGETS": "cpu", **environment}
    result = subprocess.run(
        [sys.executable, "user.py", *args], cwd=cache, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


FIRST = """
import numba, numpy as np
import numba_dml as dml

@numba.njit(fastmath=True)
def highest(a, i, u):
    return dml.scatter_nd(a, i, u, reduction="max")

# Before any other call: no kernel is as fast, and as wrong, as the function that it is compiled for.
a, i, u = np.zeros(3, np.float32), np.array([[0], [1]]), np.array([np.nan, 5], np.float32)
assert highest(a, i, u).tobytes() == dml.scatter_nd(a, i, u, reduction="max").tobytes()
assert np.isnan(highest(a, i, u)).tolist() == [True, False, False]
"""


@pytest.mark.slow
def test_jitted_code_comes_first(tmp_path):
    """Nothing is in the cache."""
    run(FIRST, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))


MISLED = """
import numba, numpy as np
import numba_dml as dml

@numba.njit
def best(a, k):
    return dml.top_k(a, k).indices

a = np.load("misleading.npy")
for k in (1000, 5000):
    assert (best(a, k) == np.argsort(-a, kind="stable")[:k]).all()
    assert (dml.top_k(a, k).indices == best(a, k)).all()
"""


def test_a_selection_that_begins_again(tmp_path):
    """What jitted code has compiled serves Python too; memory in use is not freed."""
    misleading = np.random.default_rng(3).random(1 << 18, np.float32)
    places, row = sampled_places(len(misleading), 1000, 4)
    assert row == PIECES  # the function selects twice
    misleading[places] += 1
    np.save(tmp_path / "misleading.npy", misleading)
    run(MISLED, tmp_path, MALLOC_MMAP_THRESHOLD_="4096")


CACHED = """
import sys
import numba, numpy as np
import numba_dml as dml
from numba_dml.cpu.jitted import addresses as jitted

if "stale" in sys.argv:
    jitted._STAMP = ("another", jitted._STAMP[1])

@numba.njit(cache=True)
def inner(a, k):
    return dml.top_k(a, k).indices

@numba.njit(cache=True, parallel=True)
def outer(a, k):
    out = np.zeros(len(a), np.int64)
    for i in numba.prange(len(a)):
        out[i] = inner(a[i], k)[k - 1]
    return out

print(outer(np.array([[1, 3, 2], [9, 7, 8]], np.float32), 2).tolist(), sum(outer.stats.cache_hits.values()))
"""


def test_a_user_function_in_the_disk_cache(tmp_path):
    """It finds the kernels in a new process; what was compiled with other sources is compiled anew."""
    assert run(CACHED, tmp_path).split("] ")[0] == "[2, 2"
    assert run(CACHED, tmp_path) == "[2, 2] 1\n"
    assert run(CACHED, tmp_path, "stale") == "[2, 2] 0\n"


def test_values_and_indices_in_the_same_memory_are_refused():
    @numba.njit
    def select(a, k, values, indices):
        return dml.top_k(a, k, out=(values, indices))

    memory, pairs = np.zeros(60), np.zeros((6, 3), [("value", np.float64), ("index", np.int64)])
    lines = np.arange(60.0).reshape(6, 10)
    for a, shape in ((lines, (6, 3)), (lines[0], (3,))):
        size = 3 * len(a) if a.ndim == 2 else 3
        for start in (0, 1, size - 1):
            values, indices = memory[:size].reshape(shape), memory[start : start + size].reshape(shape).view(np.int64)
            with pytest.raises(ValueError, match="found values and indices that share memory, expected two arrays"):
                select(a, 3, values, indices)
    with pytest.raises(ValueError, match="found values and indices that share memory, expected two arrays"):
        select(lines[0], 3, memory[:6:2], memory[:6:2].view(np.int64))
    assert select(lines, 3, pairs["value"], pairs["index"]).indices.tolist() == [[9, 8, 7]] * 6  # beside each other


@pytest.mark.parametrize("mode", ["largest", "smallest"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_numbers_raise_no_floating_point_error(dtype, mode):
    """A ufunc looks for those, as NumPy's do: nothing but the line is compared, whatever was in memory before."""
    kind = numba.from_dtype(np.dtype(dtype))

    @numba.guvectorize([(kind[:], numba.int64[:])], "(n)->()")
    def best(a, index):
        index[0] = dml.top_k(a, 1, mode=mode).indices[0]

    for n in range(1, 70):
        with np.errstate(invalid="ignore"):
            best(np.full((2, 63), np.nan, dtype))
        with np.errstate(all="raise"):
            assert best(np.ones((2, n), dtype)).tolist() == [0, 0]


CALLED_FROM_C = """
import gc
import numba, numpy as np
import numba_dml as dml

@numba.njit(cache=True)
def lower(s):
    return dml.top_k(np.array([s, 1.0]), 1, mode="smallest").indices[0]

@numba.cfunc("int64(float64)", cache=True)
def called(s):
    return lower(s)

@numba.cfunc("int64(float64)", cache=True)
def best(s):
    return dml.top_k(np.array([s, 1.0]), 1).indices[0]

@numba.vectorize(["int64(float64)"], cache=True, target="parallel")
def bests(s):
    return dml.top_k(np.array([s, 1.0]), 1).indices[0]

@numba.guvectorize(["(float64[:],int64[:],float64[:])"], "(n),(m)->(m)", cache=True, target="parallel")
def picked(a, i, out):
    dml.gather(a, i, out=out)

gc.collect()
others = [[bytes(i % 400)] for i in range(100_000)]  # where memory is free
i = np.array([1, 0])
print(called.ctypes(0.0), best.ctypes(0.0), bests(np.array([0.0, 2])).tolist(), picked(np.eye(2), i).tolist())
print(best.cache_hits)
"""


def test_code_that_c_calls_in_the_disk_cache(tmp_path):
    """Numba forgets the environments of cached callbacks and parallel ufuncs when it has loaded them."""
    expected = "0 1 [1, 0] [[0.0, 1.0], [1.0, 0.0]]\n"
    assert run(CALLED_FROM_C, tmp_path) == expected + "0\n"
    assert run(CALLED_FROM_C, tmp_path) == expected + "1\n"


def test_registered_before_or_after_numba(tmp_path):
    """However the two are imported; Numba is not imported for those who do not use it."""
    code = """
        import sys
        import numba_dml as dml
        assert "numba" not in sys.modules
        import numba, numpy as np
        dml._overloads.register()  # what Numba does through the entry point, where the package is installed
        print(numba.njit(lambda a: dml.gather(a, a))(np.array([1, 0])))
    """
    assert run(code, tmp_path) == "[0 1]\n"


def test_registering_again_does_nothing():
    _overloads.register()
    _overloads.register_if_imported()
    assert _overloads._registered


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_kernels_that_are_chosen_are_compiled(itemsize, lines):
    """A single line needs fewer; what is not compiled has no address."""
    dtypes = np.dtype(f"i{itemsize}"), np.dtype(np.int64)
    kernels = np.frombuffer(addresses(functions.top_k_code, "top_k", dtypes, (), lines), np.int64)[2:]
    chosen = set()
    for n in np.unique(np.geomspace(1, 1 << 21, 120).astype(int)):
        for k in {int(k) for k in (1, 2, 16, 17, n // 8, n // 2, n) if 0 < k <= n}:
            for stride in (itemsize, 64, 64 * itemsize):
                for count, across, step in ((1, 1, 0), (64, 64, itemsize), (5, 5, itemsize), (500, 500, n * itemsize)):
                    if lines or count == 1:
                        facts = facts_of(n, stride, k, itemsize, count, across, step, False, not lines, 1)
                        chosen.add(first(TABLE, facts, TUNING).kernel)
    assert chosen == {region.kernel for region, address in zip(TABLE, kernels, strict=True) if address}


def test_jitted_callers_choose_as_python_does():
    """They compile the same table and sizes."""
    from numba_dml.cpu.jitted import entries

    @numba.njit
    def chosen(n, stride, k, itemsize, lines, across, step, single):
        facts = entries.facts_of(n, stride, k, itemsize, lines, across, step, False, single, 1)
        row = entries.row_of(facts)
        return row, entries.choice_of(row, facts, entries.thresholds)

    rng = np.random.default_rng(6)
    calls = [(250, 160, 200, 4, 40, 40, 4, False)]
    for _ in range(4000):
        itemsize, n = 2 ** int(rng.integers(4)), int(2 ** rng.uniform(0, 21))
        k, across = int(n ** rng.uniform(0, 1)), int(2 ** rng.uniform(0, 11))
        lines = across * int(2 ** rng.uniform(0, 6))
        stride, step = [(itemsize, n * itemsize), (across * itemsize, itemsize), (64, n * 64)][rng.integers(3)]
        calls += [(n, stride, k, itemsize, lines, across, step, False), (n, stride, k, itemsize, 1, 1, 0, True)]
    rows = set()
    for *numbers, single in calls:
        facts = facts_of(*numbers, False, single, 1)
        row = TABLE.index(first(TABLE, facts, TUNING))
        assert chosen(*numbers, single) == (row, choice_of(row, facts, TUNING))
        rows.add(row)
    assert len(rows) == len({region.name for region in TABLE if region.name != "pieces"})


def test_a_cache_of_other_sources_is_not_read():
    constant = addresses(functions.move_code, "gather", (np.dtype(np.float32), np.dtype(np.int64)), (0, "raise"))
    reload, arguments = constant.__reduce__()
    assert reload(*arguments) is constant
    with pytest.raises(OSError, match="other sources"):
        reload(("0", ()), *arguments[1:])
