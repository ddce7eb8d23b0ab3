"""The regions of the gather and scatter kernels: blocks, common indices, tiles, strips, windows, shares of slices."""

import numpy as np
import pytest

import numba_dml as dml
from numba_dml import cpu
from numba_dml.cpu import _calls

from . import reference

SHAPES = [(5, 1300), (300, 9), (3, 40, 80), (1, 70, 20)]


@pytest.fixture(params=["serial", "parallel"])
def small_regions(request, monkeypatch):
    """Every tile and strip is small, and calls of any size run on the driver of the parameter."""
    monkeypatch.setattr(cpu, "PARALLEL_WORK", 0 if request.param == "parallel" else 1 << 60)
    for name, size in {"TILE_BYTES": 2048, "TILE_ROW": 256, "STRIP_BYTES": 1024, "COMMON_POINTS": 800}.items():
        monkeypatch.setattr(_calls, name, size)
    dml.cache_clear()
    yield
    dml.cache_clear()


def indices_of(rng, size, shape, dtype="i8"):
    return rng.integers(-size, size, shape, dtype)


def check(function, oracle, *inputs, **parameters):
    """Compare with the oracle, and the error for the first and the last index gone wrong; in place nothing changes."""
    expected = oracle(*inputs, **parameters)
    np.testing.assert_array_equal(function(*inputs, **parameters), expected)
    a, indices, *updates = inputs
    if updates:
        target = a.copy()
        assert function(target, indices, *updates, out=target, **parameters) is target
        np.testing.assert_array_equal(target, expected)
    bad = indices.copy()
    middle = bad.size // 2
    bad.reshape(-1)[[middle, -1]] = np.iinfo(bad.dtype).max
    position = ", ".join(map(str, np.unravel_index(middle, bad.shape)))
    with pytest.raises(IndexError, match=rf"indices\[{position}\] = "):
        function(a, bad, *updates, **parameters)
    if updates:
        target = a.copy()
        with pytest.raises(IndexError, match=rf"indices\[{position}\] = "):
            function(target, bad, *updates, out=target, **parameters)
        np.testing.assert_array_equal(target, a)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["u1", "c16"])
def test_gathers(shape, dtype):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 99, shape).astype(dtype)
    for axis in range(a.ndim):
        for count in (3, 700, 1100):
            check(dml.gather, reference.gather, a, indices_of(rng, shape[axis], count, "i2"), axis=axis)
        there = indices_of(rng, shape[axis], shape)
        check(dml.gather_elements, reference.gather_elements, a, there, axis=axis)
        check(dml.gather_elements, reference.gather_elements, np.asfortranarray(a), there, axis=axis)
    for length in range(1, a.ndim + 1):
        tuples = np.stack([indices_of(rng, n, 1200) for n in shape[:length]], -1)
        check(dml.gather_nd, reference.gather_nd, a, tuples)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "reduction"), [("u1", "none"), ("f4", "none"), ("f4", "add")])
def test_scatters(shape, dtype, reduction):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, shape).astype(dtype)
    for axis in range(a.ndim):
        # The indices may cover a part of the other axes: the rest of every strip is copied all the same.
        for cover in (shape, tuple(n if d == axis else max(n - 3, 1) for d, n in enumerate(shape))):
            there = indices_of(rng, shape[axis], cover)
            updates = rng.integers(0, 9, cover).astype(dtype)
            oracle = reference.scatter_elements
            check(dml.scatter_elements, oracle, a, there, updates, axis=axis, reduction=reduction)
    for length in range(1, a.ndim + 1):
        tuples = np.stack([indices_of(rng, n, 1200) for n in shape[:length]], -1)
        updates = rng.integers(0, 9, (1200, *shape[length:])).astype(dtype)
        check(dml.scatter_nd, reference.scatter_nd, a, tuples, updates, reduction=reduction)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("bounds", ["clamp", "drop"])
def test_bounds_by_region(bounds):
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        a = rng.integers(0, 99, shape).astype("f4")
        for axis in range(a.ndim):
            row = rng.integers(-2 * shape[axis], 2 * shape[axis], 700)
            there = rng.integers(-2 * shape[axis], 2 * shape[axis], shape)
            n = shape[axis]
            for function, oracle, indices in (
                (dml.gather, reference.gather, row),
                (dml.gather_elements, reference.gather_elements, there),
            ):
                wrapped = np.where(indices < 0, indices + n, indices)
                inside = np.clip(wrapped, 0, n - 1)
                expected = oracle(a, inside, axis=axis)
                if bounds == "drop":
                    good = np.broadcast_to(wrapped == inside, expected.shape) if indices is there else None
                    if good is None:
                        spread = [1] * a.ndim
                        spread[axis] = -1
                        good = (wrapped == inside).reshape(spread)
                    expected = np.where(good, expected, np.float32(0))
                np.testing.assert_array_equal(function(a, indices, axis=axis, bounds=bounds), expected)
            if bounds == "drop":
                updates = rng.integers(0, 9, shape).astype("f4")
                wrapped = np.where(there < 0, there + n, there)
                padded = np.concatenate([a, np.take(a, [0], axis)], axis)  # what is dropped goes to one more place
                outside = (wrapped < 0) | (wrapped >= n)
                full = reference.scatter_elements(padded, np.where(outside, n, wrapped), updates, axis=axis)
                np.testing.assert_array_equal(
                    dml.scatter_elements(a, there, updates, axis=axis, bounds="drop"), np.take(full, range(n), axis)
                )
