"""Device functions in kernels of a user: equal to the functions, or to NumPy."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import numba_dml as dml

from . import reference
from .conftest import TARGETS

# Numba's warnings of what is slow: few blocks, and arrays in host memory.
pytestmark = pytest.mark.filterwarnings("ignore:.*(Grid size|Host array)")

if "cuda" in TARGETS:
    from numba_dml.cuda.driver.numba import cuda


@pytest.fixture
def device(target):
    """Give the module."""
    if target != "cuda":
        pytest.skip("about the target cuda")
    from numba_dml.cuda import device

    return device


def data(dtype, n):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 9, n).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(n) < 0.2] = np.nan
        x[rng.random(n) < 0.2] = -0.0
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_lists_of_a_thread(device, dtype, largest):
    thread_top_k, element = device.thread_top_k, np.dtype(dtype).type

    @cuda.jit
    def best_of_columns(x, values, indices):
        best, places = cuda.local.array(3, element), cuda.local.array(3, np.int64)
        column = cuda.grid(1)
        for j in range(3):
            places[j] = -1
        if column < x.shape[1]:
            for i in range(x.shape[0]):
                thread_top_k(best, places, x[i, column], i, largest)
            for j in range(3):
                values[j, column], indices[j, column] = best[j], places[j]

    x = data(dtype, 110).reshape(11, 10)
    values, indices = np.empty((3, 10), dtype), np.empty((3, 10), np.int64)
    best_of_columns[3, 4](x, values, indices)
    expected = reference.top_k(x, 3, axis=0, mode="largest" if largest else "smallest")
    assert all(map(reference.same, (values, indices), expected))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_order_of_a_warp(device, dtype, largest):
    warp_top_k, lanes = device.warp_top_k, device.LANES

    @cuda.jit
    def sort_warps(x, values, indices):
        i = cuda.threadIdx.x
        there = i % lanes < lanes - 1 or i < lanes  # the last lane of the other warps has no element
        value, index = warp_top_k(x[i], i if there else -1, largest)
        values[i], indices[i] = value, index

    x = data(dtype, 2 * lanes)
    values, indices = np.empty_like(x), np.empty(2 * lanes, np.int64)
    sort_warps[1, 2 * lanes](x, values, indices)
    for start, count in ((0, lanes), (lanes, lanes - 1)):
        expected = reference.top_k(x[start : start + count], count, mode="largest" if largest else "smallest")
        assert reference.same(values[start : start + count], expected[0])
        assert reference.same(indices[start : start + count] - start, expected[1])
    assert indices[-1] == -1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 13, 29])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_order_of_a_block(device, dtype, count):
    block_top_k, element = device.block_top_k, np.dtype(dtype).type

    @cuda.jit
    def sort_block(x, values, indices):
        some = cuda.shared.array(32, element)
        places = cuda.shared.array(32, np.int64)  # the simulator tells arrays apart by their lines
        i = cuda.threadIdx.x
        while i < count:
            some[i], places[i] = x[i], i
            i += cuda.blockDim.x
        cuda.syncthreads()
        block_top_k(some, places, count)
        i = cuda.threadIdx.x
        while i < count:
            values[i], indices[i] = some[i], places[i]
            i += cuda.blockDim.x

    x = data(dtype, count)
    values, indices = np.empty_like(x), np.empty(count, np.int64)
    sort_block[1, 4](x, values, indices)
    expected = reference.top_k(x, count)
    assert all(map(reference.same, (values, indices), expected))


def test_offsets_are_checked(device):
    checked_offset = device.checked_offset

    @cuda.jit
    def gather_slices(a, tuples, out):
        p = cuda.grid(1)
        if p < len(tuples):
            at = checked_offset(tuples[p], a.shape)
            for j in range(out.shape[1]):
                out[p, j] = a[at // a.shape[1], at % a.shape[1], j] if at >= 0 else -1
            if p == 0:
                out[p, 0] = checked_offset((1, -1, 2), a.shape)

    a = np.arange(24).reshape(2, 3, 4)
    tuples = np.array([[0, 0], [1, 2], [-1, -3], [2, 0], [0, -4], [-3, 1]])
    out = np.empty((len(tuples), 4), np.int64)
    gather_slices[2, 4](a, tuples, out)
    assert out[0, 0] == 1 * 12 + 2 * 4 + 2
    assert out[1:3].tolist() == dml.gather_nd(a, tuples[1:3], target="cpu").tolist()
    assert (out[3:] == -1).all()


@pytest.mark.usefixtures("device")
def test_the_example_of_the_site(tmp_path):
    page = (Path(__file__).parents[1] / "docs/jitted.md").read_text()
    (tmp_path / "example.py").write_text(page.split("```python\n")[2].split("```")[0])
    nearest = runpy.run_path(str(tmp_path / "example.py"))["nearest"]
    rng = np.random.default_rng(0)
    points, queries = rng.integers(0, 4, (20, 2)).astype("f4"), rng.integers(0, 4, (5, 2)).astype("f4")
    indices = np.empty((5, 5), np.int64)
    nearest[2, 4](points, queries, indices)
    distances = ((queries[:, None] - points) ** 2).sum(-1)
    assert reference.same(indices, reference.top_k(distances, 5, mode="smallest")[1])
