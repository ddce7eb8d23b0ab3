"""Layouts, `out=` and overlapping memory: the result is the one that separate memory would give."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

import numba_dml as dml

from . import reference

# One size for the serial drivers, one for the parallel ones.
SIZES = pytest.mark.parametrize("n", [40, 70_000], ids=["serial", "parallel"])


@SIZES
def test_gather_into_its_own_input(n):
    a = np.arange(float(n))
    i = np.arange(n)[::-1].copy()
    assert dml.gather(a, i, out=a) is a
    np.testing.assert_array_equal(a, np.arange(float(n))[::-1])
    a = np.arange(float(n + 5))
    dml.gather(a[5:], i, out=a[:n])
    np.testing.assert_array_equal(a[:n], np.arange(5.0, n + 5)[::-1])


@SIZES
def test_gather_into_its_own_indices(n):
    a = np.arange(n)[::-1].copy()
    i = np.arange(n)
    dml.gather_elements(a, i, out=i)
    np.testing.assert_array_equal(i, a)


@SIZES
def test_scatter_in_place_returns_the_same_array(n):
    a = np.arange(float(n))
    expected = a.copy()
    expected[1] = 7
    assert dml.scatter_nd(a, np.array([[1]]), np.array([7.0]), out=a) is a
    np.testing.assert_array_equal(a, expected)


@SIZES
def test_scatter_with_updates_in_its_own_output(n):
    a = np.arange(n)
    i = np.arange(n // 2)[:, None] + n // 2
    dml.scatter_nd(a, i, a[: n // 2], out=a)
    np.testing.assert_array_equal(a, np.tile(np.arange(n // 2), 2))
    a = np.arange(n)  # the updates move by one place: read too late, they would all be the first one
    dml.scatter_elements(a, np.arange(1, n), a[:-1], out=a)
    np.testing.assert_array_equal(a, [0, *range(n - 1)])


@SIZES
def test_scatter_with_indices_in_its_own_output(n):
    a = np.arange(n)[::-1].copy()
    expected = reference.scatter_elements(a, a, np.arange(n))
    dml.scatter_elements(a, a, np.arange(n), out=a)
    np.testing.assert_array_equal(a, expected)


@SIZES
def test_scatter_into_a_shifted_view_of_its_input(n):
    base = np.arange(n + 3)
    expected = base[:n].copy()
    expected[0] = -1
    dml.scatter_elements(base[:n], np.array([0]), np.array([-1]), out=base[3:])
    np.testing.assert_array_equal(base[3:], expected)


@SIZES
def test_strided_input_and_strided_output_that_share_memory(n):
    base = np.arange(2 * n)
    expected = base[::2].copy()
    expected[3] = -1
    dml.scatter_elements(base[::2], np.array([3]), np.array([-1]), out=base[1::2])
    np.testing.assert_array_equal(base[1::2], expected)
    i = base[1::2][:2] * 0 + np.array([1, 2])
    base[1::2][:2] = i
    dml.scatter_elements(base[::2], base[1::2][:2], base[1::2][:2], out=base[1::2])
    expected = base[::2].copy()
    expected[[1, 2]] = [1, 2]
    np.testing.assert_array_equal(base[1::2], expected)


@SIZES
def test_top_k_into_its_own_input(n):
    a = np.arange(float(n))
    values, indices = dml.top_k(a, n, mode="largest", out=(a, np.empty(n, np.intp)))
    assert values is a
    np.testing.assert_array_equal(values, np.arange(float(n))[::-1])
    np.testing.assert_array_equal(indices, np.arange(n)[::-1])


@pytest.mark.parametrize("view", [np.s_[:, ::2], np.s_[::-1], np.s_[:, 1:-1]], ids=["steps", "reversed", "columns"])
def test_in_place_scatter_into_a_view_writes_only_the_view(view):
    base = np.arange(400.0).reshape(20, 20)
    expected = base.copy()
    window = base[view]
    i = np.array([[0, 1], [3, 2], [0, 1]])
    u = np.array([-1.0, -2, -3])
    expected[view] = reference.scatter_nd(window, i, u)
    assert dml.scatter_nd(window, i, u, out=window) is window
    np.testing.assert_array_equal(base, expected)


def test_strided_out_of_gather_and_top_k():
    a = np.arange(12.0).reshape(3, 4)
    base = np.zeros((6, 4))
    out = base[::2]
    assert dml.gather(a, [2, 1, 0], out=out) is out
    np.testing.assert_array_equal(base[::2], a[::-1])
    np.testing.assert_array_equal(base[1::2], 0)
    values, indices = np.zeros((3, 4))[:, ::2], np.zeros((3, 4), int)[:, ::2]
    dml.top_k(a, 2, out=(values, indices))
    np.testing.assert_array_equal(indices, [[3, 2]] * 3)


def test_inputs_that_share_memory_with_the_output_survive_an_error():
    a = np.arange(6.0)
    with pytest.raises(IndexError, match=r"indices\[0\] = 9"):
        dml.scatter_elements(a, np.array([9]), np.array([1.0]), out=a[::-1])
    assert a.tolist() == [0, 1, 2, 3, 4, 5]
    base = np.arange(9.0)
    with pytest.raises(IndexError, match=r"indices\[0\] = 9"):
        dml.scatter_elements(base[:6], np.array([9]), np.array([1.0]), out=base[3:])
    assert base.tolist() == list(range(9))
    out = np.zeros(6, int)
    out[0] = 77
    with pytest.raises(IndexError, match=r"indices\[0\] = 77"):
        dml.scatter_elements(np.arange(3), out[:1], np.array([5]), out=out[::2])
    assert out.tolist() == [77, 0, 0, 0, 0, 0]


def test_values_and_indices_in_the_same_memory_are_refused():
    a, out = np.arange(6).reshape(2, 3), np.zeros((2, 2), np.int64)
    with pytest.raises(ValueError, match="found values and indices that share memory, expected two arrays"):
        dml.top_k(a, 2, out=(out, out))
    pairs = np.zeros((2, 2), [("value", np.int64), ("index", np.int64)])  # beside each other
    found = dml.top_k(a, 2, out=(pairs["value"], pairs["index"]))
    assert found.values.tolist() == [[2, 1], [5, 4]]
    assert found.indices.tolist() == [[2, 1], [2, 1]]


def test_outputs_that_overlap_themselves_are_refused():
    holder = np.zeros(8)
    twice = np.lib.stride_tricks.as_strided(holder, (2, 4), (8, 8))
    with pytest.raises(ValueError, match="out: found strides"):
        dml.gather(np.ones((2, 4)), [0, 1], out=twice)
    with pytest.raises(ValueError, match="out: found strides"):
        dml.scatter_nd(np.ones((2, 4)), [[0]], np.ones((1, 4)), out=twice)
    half = np.lib.stride_tricks.as_strided(holder, (4,), (4,))  # elements of 8 bytes every 4 bytes
    with pytest.raises(ValueError, match="out: found strides"):
        dml.gather(np.arange(4.0), [0, 1, 2, 3], out=half)


@pytest.mark.parametrize("dtype", ["f4", "u1", "c16", "V24"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_large_slices_are_shared_among_threads(dtype, order, axis):
    """Few points with large slices: threads share the slices."""
    rng = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    a = np.frombuffer(rng.bytes(7 * 61 * 90 * dtype.itemsize), dtype).reshape(7, 61, 90)
    a = np.asarray(a, order=order)
    i = np.array([3, -1, 0])
    found = dml.gather(a, i, axis=axis)
    assert found.tobytes() == np.take(a, i, axis).tobytes()
    u = np.ascontiguousarray(found[..., ::-1] if axis < 2 else found)
    moved = dml.scatter_nd(np.moveaxis(a, axis, 0), i[:, None], np.moveaxis(u, axis, 0))
    expected = np.moveaxis(a, axis, 0).copy()
    expected[i] = np.moveaxis(u, axis, 0)
    assert moved.tobytes() == expected.tobytes()


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("shape", [(100_000,), (300, 400), (5, 100, 300)], ids=str)
def test_duplicates_are_deterministic_in_parallel(shape, reduction):
    """The last in row-major order wins, sums are those of one thread, whatever way the threads share the work."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal(shape).astype(np.float32)
    n = 200_000
    i = np.stack([rng.integers(-s, max(1, s // 8), n) for s in shape], -1)
    u = rng.standard_normal(n).astype(np.float32)
    expected = a.copy()
    if reduction == "add":
        np.add.at(expected, tuple(i.T), u)
    else:
        last = {tuple(t): x for t, x in zip((i % np.array(shape)).tolist(), u, strict=True)}
        for t, x in last.items():
            expected[t] = x
    np.testing.assert_array_equal(dml.scatter_nd(a, i, u, reduction=reduction), expected)
    for axis in range(len(shape)):
        index_shape = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        i = rng.integers(0, max(1, shape[axis] // 3), index_shape)
        u = rng.standard_normal(index_shape).astype(np.float32)
        found = dml.scatter_elements(a, i, u, axis=axis, reduction=reduction)
        expected = a.copy()
        where = list(np.indices(index_shape, sparse=True))
        where[axis] = i
        if reduction == "add":
            np.add.at(expected, tuple(where), u)
        else:
            for row in range(index_shape[axis]):
                at = (slice(None),) * axis + (slice(row, row + 1),)
                np.put_along_axis(expected, i[at], u[at], axis)
        np.testing.assert_array_equal(found, expected)


def test_unique_updates():
    rng = np.random.default_rng(2)
    a = rng.standard_normal(300_000)
    i = rng.permutation(a.size)[:100_000, None]
    u = rng.standard_normal(i.size)
    expected = a.copy()
    expected[i[:, 0]] = u
    np.testing.assert_array_equal(dml.scatter_nd(a, i, u, unique=True), expected)


def test_ranks_beyond_eight_and_up_to_numpys_limit():
    a = np.arange(2**12).reshape((2,) * 12)
    i = np.array([1, 0, 1])
    np.testing.assert_array_equal(dml.gather(a, i, axis=5), np.take(a, i, 5))
    values, indices = dml.top_k(a, 1, axis=3)
    np.testing.assert_array_equal(indices, 1)
    np.testing.assert_array_equal(values, np.take(a, [1], 3))
    one = np.full((1,) * 31 + (3,), 5)
    np.testing.assert_array_equal(dml.gather_elements(one, np.zeros((1,) * 32, int)), one[..., :1])
    b = dml.scatter_nd(a, np.array([[1] * 12]), np.array([-1]))
    assert b[(1,) * 12] == -1


def test_scalars_and_lists():
    assert dml.gather(5, [0, 0]).tolist() == [5, 5]  # NumPy's take lets a scalar count as one element
    assert dml.gather([1, 2, 3], -1).shape == ()
    assert dml.gather([1, 2, 3], []).shape == (0,)
    assert dml.scatter_elements(np.zeros(2, "f4"), [1], [2.5]).tolist() == [0, 2.5]
    assert dml.top_k([3, 1, 2], 2).values.tolist() == [3, 2]
    assert dml.top_k(np.zeros((3, 0)), 0).values.shape == (3, 0)
    assert dml.top_k(np.zeros((0, 3)), 2).indices.shape == (0, 2)
    assert dml.top_k(np.zeros((0, 200_000)), 1).values.shape == (0, 1)
    assert dml.scatter_elements(np.zeros(3, "u1"), [0], [3]).tolist() == [3, 0, 0]


def test_memory_mapped_and_other_subclasses(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(10.0))
    a = np.load(tmp_path / "a.npy", mmap_mode="r")
    found = dml.gather(a, [3, 4])
    assert type(found) is np.ndarray
    assert found.tolist() == [3, 4]

    class Labelled(np.ndarray):
        pass

    assert type(dml.top_k(np.array([1, 3]).view(Labelled), 1).values) is np.ndarray


def test_kernels_give_back_what_they_allocate():
    """What allocates counts references, what loops does not: neither may leave anything behind.

    But for an error that jitted code raises, of which Numba keeps the text.
    """
    from numba.core.runtime import _nrt_python, rtsys

    rng = np.random.default_rng(0)
    rows, long = rng.standard_normal((70, 40)).astype("f4"), rng.standard_normal((2, 300_000)).astype("f4")
    i, j = rng.integers(0, 40, (70, 40)), rng.integers(0, 70, (50, 1))
    big = np.zeros((1500, 1500), "f4")

    def run():
        for k, axis, a in [(1, 1, rows), (3, 1, rows), (20, 1, rows), (40, 1, rows), (3, 0, rows), (60, 0, rows)]:
            dml.top_k(a, k, axis=axis)
        for k in (5, 1000, 200_000):
            dml.top_k(long, k)
            dml.top_k(np.asfortranarray(long), k)
        dml.top_k(np.zeros((2, 300_000), "f4"), 500)  # ties beyond a bound
        for axis in (0, 1):
            dml.gather_elements(rows, i, axis=axis)
            dml.gather(rows, j, axis=axis, bounds="clamp")
            for reduction in ("none", "add"):
                dml.scatter_elements(rows, i, rows, axis=axis, reduction=reduction)
        dml.gather_nd(rows, j)
        for reduction in ("none", "add"):
            dml.scatter_nd(rows, j, rows[:50], reduction=reduction)
            dml.scatter_nd(rows[:3, 0], j % 3, rows[:50, 0], reduction=reduction)
            dml.scatter_nd(big, rng.integers(0, 1500, (200_000, 2)), np.ones(200_000, "f4"), reduction=reduction)
        with pytest.raises(IndexError):
            dml.gather_nd(rows, j + 70)
        jitted(rows, 20)

    @njit
    def jitted(a, k):
        return dml.top_k(a, k)

    run()  # compiles
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        run()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc > before.alloc
    assert after.alloc - before.alloc == after.free - before.free
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


EARLY = """
import numpy as np
import numba_dml as dml
from numba_dml.cpu.calls import scatter
scatter.TUNING = scatter.TUNING._replace(binned_bytes=1 << 16, bin_bytes=1 << 18)
rng = np.random.default_rng(0)
a, b, u = rng.random((100_000, 4), np.float32), rng.random((700, 2048), np.float32), rng.random(60_000, np.float32)
i = rng.permutation(len(a))[: len(u), None]
i = np.concatenate([i, i % 4], 1)
there = rng.permuted(np.broadcast_to(np.arange(700)[:, None], b.shape), axis=0)
expected = a.copy()
expected[tuple(i.T)] = u
assert (dml.scatter_nd(a, i, u) == expected).all()  # by bins
assert (dml.scatter_elements(b, there, dml.gather_elements(b, there, axis=0), axis=0) == b).all()  # by strips
assert (dml.scatter_nd(b, np.arange(700)[:, None], b[::-1].copy()) == b[::-1]).all()
assert (dml.top_k(a, 9, axis=0).values == np.sort(a, 0)[:-10:-1]).all()
assert (dml.top_k(a.ravel(), 5000).values == np.sort(a.ravel())[:-5001:-1]).all()
"""


def test_memory_is_kept_until_it_was_used():
    """With glibc, large buffers are mappings of their own: if one is freed early, this process ends."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "4096"}
    done = subprocess.run([sys.executable, "-c", EARLY], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
