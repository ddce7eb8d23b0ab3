"""The regions of the gather and scatter kernels: blocks, common indices, tiles, strips, windows, shares of slices."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core import regions
from numba_dml.cpu import launch as cpu_launch
from numba_dml.cpu.calls import gather as calls_gather
from numba_dml.cpu.calls import scatter as calls_scatter
from numba_dml.cpu.dispatch import gather as dispatch_gather
from numba_dml.cpu.dispatch import scatter as dispatch_scatter
from numba_dml.cpu.primitives.moves import plan as moves_plan
from numba_dml.cpu.primitives.moves import updates as moves_updates
from numba_dml.cpu.tuning import gather as tuning_gather
from numba_dml.cpu.tuning import scatter as tuning_scatter

from . import reference

GATHERS, SCATTERS = tuning_gather.TUNING, tuning_scatter.TUNING
SHAPES = [(5, 1300), (300, 9), (3, 40, 80), (1, 70, 20)]


SMALL_GATHERS = GATHERS._replace(tile_bytes=2048, least_tile=8, tile_row=256, common_points=800, stream_bytes=4096)
SMALL_SCATTERS = SCATTERS._replace(
    strip_bytes=1024,
    stream_bytes=4096,
    near_bytes=64,
    least_near=64,
    binned_bytes=1024,
    dense_bytes=1024,
    binned_part=1 << 30,
    bin_bytes=256,
    most_bins=40,
)


def retune(monkeypatch, gathers=None, scatters=None):
    """Replace thresholds of the calls that are built from now on."""
    for calls, values in ((calls_gather, gathers), (calls_scatter, scatters)):
        if values:
            monkeypatch.setattr(calls, "TUNING", calls.TUNING._replace(**values))
    dml.cache_clear()


@pytest.fixture(params=["serial", "parallel"])
def small_regions(request, monkeypatch):
    """Every tile and strip is small, and calls of any size run on the driver of the parameter.

    Compiling both drivers takes time: where the driver makes no difference, a test may ask for one.
    """
    monkeypatch.setattr(cpu_launch, "PARALLEL_WORK", 0 if request.param == "parallel" else 1 << 60)
    monkeypatch.setattr(cpu_launch, "LOCKED_WORK", 0)
    monkeypatch.setattr(calls_gather, "TUNING", SMALL_GATHERS)
    monkeypatch.setattr(calls_scatter, "TUNING", SMALL_SCATTERS)
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


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4"])
@pytest.mark.parametrize("length", [2, 3, 4])
def test_tuples(length, dtype):
    """Blocks of tuples that are all 0 or more are read at once, others one coordinate after the other."""
    rng = np.random.default_rng(length)
    a = rng.random((7, 9, 5, 6), np.float32)
    for count in (1, 15, 170, 171, 256, 257, 700):
        tuples = np.stack([rng.integers(0, n, count) for n in a.shape[:length]], -1).astype(dtype)
        updates = rng.random((count, *a.shape[length:]), np.float32)
        check(dml.gather_nd, reference.gather_nd, a, tuples)
        check(dml.gather_nd, reference.gather_nd, a.transpose(3, 1, 2, 0)[:, ::-1], tuples % 5)  # steps below 0
        check(dml.scatter_nd, reference.scatter_nd, a, tuples, updates)
        if dtype[0] == "i":  # one block has some below 0
            tuples[count // 2 :][:2] -= a.shape[:length]
            check(dml.gather_nd, reference.gather_nd, a, tuples)
    wide = np.stack([rng.integers(0, n, (11, 300)) for n in a.shape[1 : 1 + min(length, 3)]], -1).astype(dtype)
    b = rng.random((11, *a.shape[1:]), np.float32)
    check(dml.gather_nd, reference.gather_nd, b, wide, batch_dims=1)


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


#: The same values in other memory: each slice along axis 0 is no single run of it, or one that repeats.
LAYOUTS = {
    "Fortran": np.asfortranarray,
    "transposed": lambda a: a.swapaxes(0, 1).copy().swapaxes(0, 1),
    "channels last": lambda a: np.moveaxis(np.moveaxis(a, 1, -1).copy(), -1, 1),
    "steps": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "steps of rows": lambda a: np.repeat(np.repeat(a, 3, 1), 2, 0)[::2, ::3],
    "reversed": lambda a: a[..., ::-1].copy()[..., ::-1],
    "short runs": lambda a: np.concatenate([a, a[..., :2]], -1)[..., :-2],
    "field": lambda a: np.rec.fromarrays([a, a > 0], names="x,y")["x"],
}


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(30, 90), (90, 6), (20, 7, 5), (6, 5, 20, 3)], ids=str)
def test_gathers_in_every_layout(shape, layout, target, monkeypatch):
    """Of few indices the elements are found one by one; for many the input is copied first, if slices are no runs."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 99, shape, "i4")
    copies = []
    monkeypatch.setattr(calls_gather, "_input_copy", lambda a: copies.append(a.shape) or np.ascontiguousarray(a))
    for a in (LAYOUTS[layout](values), np.broadcast_to(values[..., :1], shape)):
        for axis, size in enumerate(shape):
            for count in (max(size // 4, 1), 3 * size):
                there = indices_of(rng, size, count)
                copies.clear()
                found = dml.gather(a, there, axis=axis)
                np.testing.assert_array_equal(found, np.take(a, there, axis))
                assert found.flags.c_contiguous
                assert len(copies) <= (count > size)
                out = np.empty_like(found, order="F")
                assert dml.gather(a, there, axis=axis, out=out) is out
                np.testing.assert_array_equal(out, found)
                np.testing.assert_array_equal(
                    dml.gather_nd(a.swapaxes(0, axis), there[:, None]), a.swapaxes(0, axis)[there]
                )
                there[[count // 2, -1]] = size
                with pytest.raises(IndexError, match=rf"indices\[{count // 2}\] = {size} .* axis {axis} "):
                    dml.gather(a, there, axis=axis)
        for length in range(2, a.ndim + 1):
            tuples = np.stack([indices_of(rng, n, (4, 20)) for n in shape[:length]], -1)
            np.testing.assert_array_equal(dml.gather_nd(a, tuples), a[tuple(np.moveaxis(tuples, -1, 0))])
    copied = np.asfortranarray(values)
    dml.gather(copied, indices_of(rng, len(copied), len(copied)), axis=0, out=copied)  # in what it reads
    assert copies or target != "cpu"


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("shape", [(30, 90), (20, 7, 5), (6, 5, 20, 3)], ids=str)
def test_scatters_in_every_layout(shape, reduction, layout):
    """Of duplicates the last one in row-major order of the indices wins, and sums are combined in it."""
    rng = np.random.default_rng(1)
    values = rng.random(shape, "f4")
    for length in range(1, len(shape)):
        tuples = np.stack([indices_of(rng, n, 25) for n in shape[:length]], -1)
        updates = rng.random((25, *shape[length:]), "f4")
        expected = reference.scatter_nd(values, tuples, updates, reduction=reduction)
        a = LAYOUTS[layout](values)
        new = dml.scatter_nd(a, tuples, LAYOUTS[layout](updates) if length == 1 else updates, reduction=reduction)
        assert new.tobytes() == expected.tobytes()
        a = a if a.flags.writeable else a.copy(order="K")
        dml.scatter_nd(a, tuples, updates, reduction=reduction, out=a)
        assert a.tobytes() == expected.tobytes()


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("order", [(1, 0), (2, 1, 0), (1, 2, 0), (0, 2, 1), (3, 1, 0, 2)], ids=str)
def test_elements_in_the_order_of_their_arrays(order, monkeypatch):
    """Arrays that share an order are not copied into C order, and what comes first among indices stays what it was."""
    from numba_dml.cpu.calls import build

    def laid_out(a):
        return a.transpose(order).copy().transpose(np.argsort(order))

    monkeypatch.setattr(build, "_packed_copy", None)
    rng = np.random.default_rng(1)
    shape = (30, 9, 13, 4)[: len(order)]
    values = rng.random(shape, "f4")
    for axis, size in enumerate(shape):
        cover = tuple(20 if d == axis else n - (n > 9) for d, n in enumerate(shape))
        there, updates = indices_of(rng, size, cover), rng.random(cover, "f4")
        expected = reference.gather_elements(values, there, axis=axis)
        arrays = laid_out(values), laid_out(there), laid_out(updates)
        found = dml.gather_elements(*arrays[:2], axis=axis)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, expected)
        for out in (np.empty_like(expected), laid_out(np.empty_like(expected))):
            assert dml.gather_elements(*arrays[:2], axis=axis, out=out) is out
            np.testing.assert_array_equal(out, expected)
        for reduction in ("none", "add"):
            expected = reference.scatter_elements(values, there, updates, axis=axis, reduction=reduction)
            new = dml.scatter_elements(*arrays, axis=axis, reduction=reduction)
            assert new.flags.c_contiguous
            assert new.tobytes() == expected.tobytes()
            for out in (laid_out(values), laid_out(np.zeros_like(values))):
                a = arrays[0] if out.any() is np.False_ else out
                assert dml.scatter_elements(a, *arrays[1:], axis=axis, reduction=reduction, out=out) is out
                assert out.tobytes() == expected.tobytes()
        bad = arrays[1].copy(order="K")
        first = tuple(0 if d == np.argmin(order) else n - 1 for d, n in enumerate(cover))
        bad[first], bad[tuple(n - 1 for n in cover)] = size, -size - 1
        position = min(first, tuple(n - 1 for n in cover))
        text = rf"indices\[{', '.join(map(str, position))}\] = "
        a = laid_out(values)
        with pytest.raises(IndexError, match=text):
            dml.gather_elements(a, bad, axis=axis)
        for out in (None, a):
            with pytest.raises(IndexError, match=text):
                dml.scatter_elements(a, bad, arrays[2], axis=axis, out=out)
        assert a.tobytes() == values.tobytes()


@pytest.mark.cpu
def test_the_driver_in_place_is_chosen_by_what_is_written(monkeypatch):
    drivers = []
    launch = cpu_launch._launch
    monkeypatch.setattr(cpu_launch, "_launch", lambda *what: drivers.append(what[2]) or launch(*what))
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    monkeypatch.setattr(cpu_launch, "PARALLEL_WORK", 1 << 16)
    dml.cache_clear()
    a, updates = np.zeros((80_000, 16), "f4"), np.ones((2, 16), "f4")
    put_elements = partial(dml.scatter_elements, axis=0)
    for put, there in ((dml.scatter_nd, [[3], [7]]), (put_elements, [[3] * 16, [7] * 16])):
        drivers.clear()
        expected = put(a, np.array(there), updates)
        assert drivers == ["parallel"]
        target = a.copy()
        put(target, np.array(there), updates, out=target)
        np.testing.assert_array_equal(target, expected)
        assert drivers[-1] == "locked"
    dml.cache_clear()


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("start", [0, 16, 32, 48, 4])
@pytest.mark.parametrize(
    "length",
    [2, 3, 12, 16, 20, 33, 48, 63, 64, 68, 80, 100, 112, 128, 144, 250, 256, 400, 1000, 1023, 1024, 1072, 1100],
)
def test_slices_that_share_cache_lines(length, start):
    """A large output is written by whole cache lines, with the bytes of two slices, wherever it begins; and no more."""
    rng = np.random.default_rng(length)
    a = rng.integers(0, 255, (300, length), np.uint8)
    for count in (1, 2, 3, 64, 513, 1100, 2 * moves_plan.FAR_BLOCK + 9):
        indices = indices_of(rng, len(a), count)
        memory = np.full(count * length + 256, 7, np.uint8)
        begin = -memory.ctypes.data % 64 + start
        out = memory[begin : begin + count * length].reshape(count, length)
        dml.gather(a, indices, out=out)
        np.testing.assert_array_equal(out, a[indices])
        assert (memory[:begin] == 7).all()
        assert (memory[begin + out.size :] == 7).all()
        batches = a[: 300 // 4 * 4].reshape(4, 75, length)
        there = indices_of(rng, 75, (4, count, 1))
        found = dml.gather_nd(batches, there, batch_dims=1)
        np.testing.assert_array_equal(found, batches[np.arange(4)[:, None], there[..., 0]])


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("width", [3, 16, 25, 300])
def test_blocks_of_slices_of_a_large_output(width):
    """Each is of more points than one of single elements; tuples, rows of several loops, and bad ones in any part."""
    rng = np.random.default_rng(width)
    count = 2 * moves_plan.FAR_BLOCK + 9
    a = rng.integers(0, 99, (40, 7, width)).astype("f4")
    tuples = np.stack([indices_of(rng, 40, count), indices_of(rng, 7, count)], -1)
    check(dml.gather_nd, reference.gather_nd, a, tuples)
    check(dml.gather, reference.gather, a, indices_of(rng, 7, 1 + count // 40), axis=1)
    check(dml.gather, reference.gather, a.swapaxes(0, 1), indices_of(rng, 40, 1 + count // 7), axis=1)
    for first in (3, 513, moves_plan.FAR_BLOCK + 1, count - 1):
        bad = tuples.copy()
        bad[first:, 0] = 40
        with pytest.raises(IndexError, match=rf"\b{first}\b"):
            dml.gather_nd(a, bad)
        for bounds, row in (("clamp", a[39, bad[first, 1]]), ("drop", np.zeros(width, "f4"))):
            found = dml.gather_nd(a, bad, bounds=bounds)
            np.testing.assert_array_equal(found[:first], a[tuple(tuples[:first].T)])
            np.testing.assert_array_equal(found[first], row)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("count", [1, 2, 3, 100, 300])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5000, 4), 1),
        ((40, 30, 5), 2),
        ((30, 4, 7), 1),
        ((6, 5, 4, 3, 9), 3),
        ((900, 3, 2), 1),
        ((3, 3, 3, 3, 3, 3), 5),
    ],
)
@pytest.mark.usefixtures("small_regions")
def test_few_indices_that_all_rows_share(shape, axis, count):
    """Several rows are one block; a thread's share begins and ends anywhere in one."""
    rng = np.random.default_rng(count)
    size = shape[axis]
    for dtype in ("u1", "f4", "f8"):
        a = rng.integers(0, 100, shape).astype(dtype)
        for view in (a, np.asfortranarray(a), a[::-1], np.repeat(a, 2, axis=-1)[..., ::2]):
            i = rng.integers(-size, size, count)
            found = dml.gather(view, i, axis=axis)
            assert reference.same(found, np.take(view, i, axis=axis))
            i[count // 2] = size + 5
            clamped = np.take(view, np.where(i > size, size - 1, i), axis=axis)
            assert reference.same(dml.gather(view, i, axis=axis, bounds="clamp"), clamped)
            clamped[(slice(None),) * axis + (count // 2,)] = 0
            assert reference.same(dml.gather(view, i, axis=axis, bounds="drop"), clamped)
            with pytest.raises(IndexError, match=rf"gather: indices\[{count // 2}\] = {size + 5} is out of range"):
                dml.gather(view, i, axis=axis)


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


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize(
    "shape",
    [
        (700, 3),
        (40, 3, 5),
        (7, 20, 2, 3),
        (300, 2, 9),
        (90, 2, 2, 2),
        (600, 2),
        (3, 170, 3),
        (40, 255),
        (30, 300),
        (5, 1300),
    ],
    ids=str,
)
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_rows_and_blocks(shape, reduction):
    """A block is points of many rows, of several loops, or of one; a thread's share may begin within any of these."""
    rng = np.random.default_rng(4)
    a = rng.integers(0, 99, shape).astype("f4")
    for axis, n in enumerate(shape):
        for cover in (shape, tuple(m if d == axis else max(m - 1, 1) for d, m in enumerate(shape))):
            for dtype in ("i4", "i8"):
                there = rng.integers(0, n, cover, dtype)
                updates = rng.integers(0, 9, cover).astype("f4")
                put = partial(dml.scatter_elements, reduction=reduction, axis=axis)
                oracle = partial(reference.scatter_elements, reduction=reduction, axis=axis)
                check(put, oracle, a, there, updates)
                for data in (a, a[..., ::-1], np.asfortranarray(a)):
                    check(dml.gather_elements, reference.gather_elements, data, there, axis=axis)
            np.put(there, [0, there.size // 3, there.size // 2, -1], -1)
            check(put, oracle, a, there, updates)
            check(dml.gather_elements, reference.gather_elements, a, there, axis=axis)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("view", [np.s_[:], np.s_[:, ::2], np.s_[::-1, 3:40, 1::2]], ids=str)
def test_slices_in_an_output_larger_than_a_cache(view, reduction):
    """They are asked for some ahead; in place they may lie in pieces."""
    rng = np.random.default_rng(7)
    room = rng.integers(0, 99, (9000, 46, 4))
    data = room[view]
    assert data.nbytes > moves_updates.ROLLED_BYTES
    there = rng.integers(0, len(data), (12_000, 1))
    there[::7] = 5
    updates = rng.integers(0, 99, (len(there), *data.shape[1:]))
    expected = room.copy()
    if reduction == "none":
        expected[view][there[:, 0]] = updates
    else:
        np.add.at(expected[view], there[:, 0], updates)
    np.testing.assert_array_equal(dml.scatter_nd(data, there, updates, reduction=reduction), expected[view])
    dml.scatter_nd(data, there, updates, reduction=reduction, out=data)
    np.testing.assert_array_equal(room, expected)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("dtype", ["f2", "f8", "i4"])
def test_windows_of_a_large_output(dtype, reduction, monkeypatch):
    """Threads look for what is in their windows, which are larger than the caches."""
    retune(monkeypatch, scatters={"alone_bytes": 0})
    rng = np.random.default_rng(5)
    size = (moves_updates.CACHED_BYTES + 1000) // np.dtype(dtype).itemsize + 1
    a = rng.integers(-99, 99, size).astype(dtype)
    for low in (0, -size):
        there = rng.integers(low, size, (SCATTERS.alone_points + 100, 1))
        there[::3] = there[0]
        updates = rng.integers(-9, 9, len(there)).astype(dtype)
        check(partial(dml.scatter_nd, reduction=reduction), partial(ordered, reduction=reduction), a, there, updates)
    dml.cache_clear()


@pytest.fixture
def shared_indices(monkeypatch):
    """No thread is alone, nothing is sorted or cut: each goes through all indices, for its own."""
    monkeypatch.setattr(cpu_launch, "PARALLEL_WORK", 0)
    monkeypatch.setattr(cpu_launch, "LOCKED_WORK", 0)
    monkeypatch.setattr(dispatch_scatter, "split_of", lambda *layout: moves_plan.BY_WINDOW)
    retune(monkeypatch, scatters={"alone_bytes": 0, "dense_bytes": 1 << 60, "own_bytes": 0})
    yield
    dml.cache_clear()


@pytest.mark.usefixtures("shared_indices")
@pytest.mark.parametrize("shape", [(1700,), (1303, 3), (2, 900)], ids=str)
@pytest.mark.parametrize(("dtype", "index_dtype"), [("u1", "i8"), ("f2", "i4"), ("i4", "i8"), ("f8", "i4")])
def test_threads_share_the_indices(shape, dtype, index_dtype):
    """In blocks of any length, with indices below 0, out of range, and many that are equal."""
    rng = np.random.default_rng(6)
    axis = int(np.argmax(shape))
    n = shape[axis]
    a = rng.integers(0, 9, shape).astype(dtype)
    for count in (5, 63, 64, 65, 129, 1500):
        cover = tuple(count if d == axis else size for d, size in enumerate(shape))
        there = rng.integers(0, n, cover, index_dtype)
        there[..., ::3] = there.reshape(-1)[0]
        updates = rng.integers(0, 9, cover).astype(dtype)
        for reduction in ("none", "add", "min"):
            put = partial(dml.scatter_elements, axis=axis, reduction=reduction)
            oracle = partial(reference.scatter_elements, axis=axis, reduction=reduction)
            check(put, oracle, a, there, updates)
            some = there.copy()
            some.reshape(-1)[[3, -1]] -= n
            check(put, oracle, a, some, updates)
            some.reshape(-1)[[1, -2]] = n, -n - 1
            kept = some.clip(-n, n - 1)
            padded = np.concatenate([a, np.zeros_like(a.take([0], axis))], axis)
            moved = np.where(some == kept, some % n, n)
            expected = oracle(padded, moved, updates).take(range(n), axis)
            np.testing.assert_array_equal(put(a, some, updates, bounds="drop"), expected)


def ordered(a, indices, updates, reduction):
    """Update single elements, one after the other."""
    result = a.copy()
    places = indices[:, 0]
    if reduction == "none":  # the last one stays
        places, last = np.unique(places[::-1] % a.size, return_index=True)
        result[places] = updates[::-1][last]
    else:
        {"add": np.add, "max": np.maximum}[reduction].at(result, places, updates)
    return result


#: Around the lengths from which on rows are copied in another way.
ROW_WIDTHS = [*range(1, 18), 24, *range(31, 34), 48, *range(63, 66), *range(127, 130), 159, 160, 192, 193, 250]
ROW_WIDTHS += [*range(255, 258), 960, *range(1023, 1026), 2048, *range(4095, 4098)]


def aligned(shape, offset):
    """Return written bytes that begin `offset` bytes after a cache line."""
    memory = np.full(np.prod(shape) + 128, 77, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    return memory[begin : begin + np.prod(shape)].reshape(shape)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("small_regions", ["serial"], indirect=True)
@pytest.mark.parametrize("l2_bytes", [0, 1 << 21])
@pytest.mark.parametrize("stream_bytes", [1 << 12, 1 << 25])
@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("width", ROW_WIDTHS, ids=str)
def test_rows_of_every_length(width, offset, l2_bytes, stream_bytes, monkeypatch):
    """From an array that the L2 holds, or a larger one, rows of which are asked for; to a small and a large output."""
    retune(monkeypatch, {"l2_bytes": l2_bytes, "stream_bytes": stream_bytes}, {"stream_bytes": stream_bytes})
    rng = np.random.default_rng(width)
    shape = (60, width)
    a = rng.integers(0, 255, shape, np.uint8)
    rows = indices_of(rng, 60, 700)
    out = aligned((700, width), offset)
    assert dml.gather(a, rows, out=out) is out
    np.testing.assert_array_equal(out, a[rows])
    updates = rng.integers(0, 255, (50, width), np.uint8)
    tuples = np.where(rng.random((50, 1)) < 0.2, 60, indices_of(rng, 60, (50, 1)))
    kept = tuples[:, 0] < 60
    out = aligned(shape, offset)
    assert dml.scatter_nd(a, tuples, updates, bounds="drop", out=out) is out
    np.testing.assert_array_equal(out, reference.scatter_nd(a, tuples[kept], updates[kept]))


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("small_regions", ["parallel"], indirect=True)
@pytest.mark.parametrize("width", [2, 3, 5, 7, 9, 15, 17, 33, 47, 65, 130, 257, 300])
def test_few_slices_are_cut(width):
    """Each thread copies a part of every slice, of one byte at least, and touches nothing else."""
    rng = np.random.default_rng(width)
    a = rng.integers(0, 255, (20, width), np.uint8)
    for count in (1, 2, 3):
        rows = indices_of(rng, 20, count)
        memory = np.full(count * width + 2, 77, np.uint8)
        out = memory[1:-1].reshape(count, width)
        dml.gather(a, rows, out=out)
        np.testing.assert_array_equal(out, a[rows])
        assert memory[0] == memory[-1] == 77


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("shape", [(2, 30, 16), (3, 4, 5, 40)], ids=str)
@pytest.mark.parametrize("unique", [False, True])
def test_outputs_written_in_their_order(shape, unique):
    """Several coordinates and batches: a slice of the output is a number made of all of them."""
    rng = np.random.default_rng(2)
    a = rng.integers(0, 255, shape).astype("i2")
    assert "places" in repr(dml.compile_operator(scatter_rows(a, shape[:-1]), target="cpu"))
    places = np.stack(np.unravel_index(rng.permutation(np.prod(shape[:-1])), shape[:-1]), -1)
    updates = rng.integers(0, 255, (len(places), shape[-1])).astype("i2")
    check(partial(dml.scatter_nd, unique=unique), reference.scatter_nd, a, places, updates)
    batched = places[: shape[0] * 7, 1:].reshape(shape[0], 7, -1)
    slices = updates[: shape[0] * 7].reshape(shape[0], 7, -1)
    check(dml.scatter_nd, reference.scatter_nd, a, batched, slices, batch_dims=1)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("shape", [(3000,), (31, 47), (5, 9, 70)], ids=str)
@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
@pytest.mark.parametrize("points", [2500, 300])
def test_single_elements_sorted_by_strips(shape, dtype, points):
    """In place, too, if they are many."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 99, shape).astype(dtype)
    tuples = np.stack([indices_of(rng, n, points) for n in shape], -1)  # many of them twice
    updates = rng.integers(0, 99, points).astype(dtype)
    x, i, u = (
        dml.TensorDesc(array.dtype, (1,) * (a.ndim - array.ndim) + array.shape) for array in (a, tuples, updates)
    )
    if a.ndim > 1:
        descriptor = dml.ScatterNDDesc(x, i, u, x, input_dimension_count=a.ndim, indices_dimension_count=2)
        operator = dml.compile_operator(descriptor, target="cpu")
        assert "bins" in repr(operator)
    for reduction in ("none", "add", "max"):
        check(dml.scatter_nd, reference.scatter_nd, a, tuples, updates, reduction=reduction)
    far = np.where(rng.random(tuples.shape) < 0.1, 2 * max(shape), tuples)
    kept = (far < shape).all(-1)
    np.testing.assert_array_equal(
        dml.scatter_nd(a, far, updates, bounds="drop"), reference.scatter_nd(a, tuples[kept], updates[kept])
    )
    np.testing.assert_array_equal(
        dml.scatter_nd(a, np.full_like(tuples, 2 * max(shape)), updates, bounds="drop", unique=True), a
    )


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("small_regions", ["parallel"], indirect=True)
@pytest.mark.parametrize("points", [1, 64, 65, 257, 2500])
@pytest.mark.parametrize("dtype", ["u1", "f4", "c8"])
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS == 1, reason="threads share the work")
def test_tuples_that_threads_share_by_windows(dtype, points, monkeypatch):
    """The last of equal tuples wins, and sums are in order, bit by bit, NaN and zeros too; also with one thread."""
    others = {"binned_bytes": 1 << 60, "dense_bytes": 1 << 60, "own_bytes": 0}
    retune(monkeypatch, scatters={**others, "alone_bytes": 0})
    rng = np.random.default_rng(points)
    shape = (7, 9, 31)
    a = rng.integers(0, 99, shape).astype(dtype)
    tuples = np.stack([indices_of(rng, n, points) for n in shape], -1)  # many of them twice
    updates = (99 * rng.random(points)).astype(dtype)
    for x in (a, updates) if dtype != "u1" else ():
        x[rng.random(x.shape) < 0.1] = np.nan
        zeros = rng.random(x.shape) < 0.3
        x[zeros] = rng.choice([0.0, -0.0], zeros.sum())
    far = np.where(rng.random(tuples.shape) < 0.1, 99, tuples)
    kept = (far < shape).all(-1)
    for threads in (None, 1):
        with dml.config(threads=threads):
            for reduction in ("none", "add", *(["max"] if dtype != "c8" else [])):
                scatter = partial(dml.scatter_nd, reduction=reduction)
                check(scatter, partial(reference.scatter_nd, reduction=reduction), a, tuples, updates)
                expected = reference.scatter_nd(a, tuples[kept], updates[kept], reduction=reduction)
                assert reference.same(scatter(a, far, updates, bounds="drop"), expected)
                result = a.copy()
                assert reference.same(scatter(result, far, updates, bounds="drop", out=result), expected)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("dtype", "own"),
    [*((dtype, True) for dtype in ["i1", "u2", "i4", "u8", "?", "f2", "f4", "f8"]), ("i4", False), ("f2", False)],
)
def test_many_updates_of_a_small_output(size, dtype, own, monkeypatch):
    """Each share of the points has an output of its own, looks for its own part, or is the only one.

    In place, which is a copy of a new output or is looked at first, it is all or nothing.
    """
    retune(monkeypatch, scatters={"least_shares": 2 if own else 1 << 30})
    rng = np.random.default_rng(size)
    points = 30_001
    limits = {"?": (0, 2), "f2": (-999, 999), "f4": (-9999, 9999), "f8": (-(1 << 40), 1 << 40)}
    low, high = limits.get(dtype) or (np.iinfo(dtype).min, int(np.iinfo(dtype).max))
    draw = np.uint64 if dtype == "u8" else np.int64
    a, u = (rng.integers(low, high, n, draw).astype(dtype) for n in (size, points))
    i = rng.integers(-size, size - size // 3, (points, 1))  # some places have no update
    i[i % size == size // 2] = size - 1
    operator = dml.compile_operator(
        dml.ScatterNDDesc(
            *(dml.TensorDesc(x.dtype, x.shape) for x in (a[:, None], i, u[:, None], a[:, None])), 2, 2, reduction="max"
        ),
        target="cpu",
    )
    assert ("own" in repr(operator)) == own
    ufuncs = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    for reduction in ("none", *ufuncs):
        expected = a.copy()
        with np.errstate(all="ignore"):
            if reduction == "none":
                expected[i[:, 0]] = u  # NumPy's last one wins too
            else:
                ufuncs[reduction].at(expected, i[:, 0], u)
            found = dml.scatter_nd(a, i, u, reduction=reduction)
        assert reference.same(found, expected)
        result = a.copy()
        assert dml.scatter_nd(result, i, u, out=result, reduction=reduction) is result
        assert reference.same(result, expected)
        bad = i.copy()
        bad[points - 3] = size
        result = a.copy()
        with pytest.raises(IndexError, match=rf"indices\[{points - 3}, 0\] = {size} is out of range"):
            dml.scatter_nd(result, bad, u, out=result, reduction=reduction)
        assert reference.same(result, a)
        kept = np.delete(np.arange(points), points - 3)
        dropped = dml.scatter_nd(a, bad, u, reduction=reduction, bounds="drop")
        assert reference.same(dropped, dml.scatter_nd(a, i[kept], u[kept], reduction=reduction))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("reduction", ["min", "max", "add", "mul"])
@pytest.mark.parametrize("shape", [(40,), (5, 6)])
def test_shares_leave_the_bits_of_floats_that_one_thread_leaves(shape, reduction, dtype, monkeypatch):
    """Which NaN, and which zero; sums and products are in the order of the updates."""
    rng = np.random.default_rng(len(shape))
    size, points = int(np.prod(shape)), 6000
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    a, u = (rng.integers(-3, 4, n).astype(dtype) for n in (size, points))
    for x in (a, u):
        special = rng.integers(0, np.iinfo(bits).max, x.size, bits).view(dtype)  # some are NaN, with any payload
        special[rng.random(x.size) < 0.5] = np.nan
        chosen = rng.random(x.size) < 0.002
        x[chosen] = special[chosen]
        x[x == 0] *= rng.choice([-1, 1], np.count_nonzero(x == 0)).astype(dtype)
    a[:2] = np.nan, -0.0
    i = np.stack([rng.integers(-n, n, points) for n in shape], 1)
    found = []
    for least in (1 << 30, 2):
        retune(monkeypatch, scatters={"least_shares": least, "combined_by_few": 1 << 30})
        with np.errstate(all="ignore"):
            found.append(dml.scatter_nd(a.reshape(shape), i, u, reduction=reduction))
            in_place = a.reshape(shape).copy()
            dml.scatter_nd(in_place, i, u, reduction=reduction, out=in_place)
            assert in_place.tobytes() == found[-1].tobytes()
    assert found[0].tobytes() == found[1].tobytes()
    assert np.isnan(found[0]).sum() > 1


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("small_regions", ["serial"], indirect=True)
@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
@pytest.mark.parametrize("negative", [None, 0, 63, 64, 511, 512, 700, 1299])
def test_sums_begin_again_where_an_index_is_negative(negative, reduction, index_dtype):
    """Of a row some groups are combined before an index below 0 is met; none of them twice."""
    rng = np.random.default_rng(3)
    a, u = (rng.integers(1, 4, shape).astype("i4") for shape in [(3, 40), (3, 1300)])
    i = rng.integers(0, 40, u.shape).astype(index_dtype)
    if negative is not None:
        i[:2, negative] -= 40
    check(dml.scatter_elements, reference.scatter_elements, a, i, u, axis=1, reduction=reduction)


@pytest.mark.parametrize("reduction", ["min", "max"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", "f2", "f4", "f8"])
def test_the_order_of_all_numbers(dtype, reduction):
    """Numbers of any bits, also of unsigned ones that would be negative; few places, so most of them meet others."""
    rng = np.random.default_rng(11)
    if dtype == "?":
        a, u = (rng.random(shape) < 0.5 for shape in [(3, 40), (3, 700)])
    else:
        size = np.dtype(dtype).itemsize
        a, u = (np.frombuffer(rng.bytes(3 * n * size), dtype).reshape(3, n) for n in (40, 700))
    i = rng.integers(0, 40, u.shape)
    expected = reference.scatter_elements(a, i, u, axis=1, reduction=reduction)
    in_place = a.copy()
    dml.scatter_elements(in_place, i, u, axis=1, reduction=reduction, out=in_place)
    assert reference.same(in_place, expected)
    i[1, 600] -= 40
    assert reference.same(dml.scatter_elements(a, i, u, axis=1, reduction=reduction), expected)
    at = np.stack(np.broadcast_arrays(np.arange(3)[:, None], i), -1)
    assert reference.same(dml.scatter_nd(a, at, u, reduction=reduction), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("reduction", ["add", "min", "max"])
def test_floats_are_combined_in_their_order_in_a_small_output(dtype, reduction):
    """Zeros of both signs and NaNs tell: every thread finds its part of the output among all points."""
    rng = np.random.default_rng(7)
    a, u = (rng.choice([0.0, -0.0, 1.0, 0.3, -2.5], n).astype(dtype) for n in (9, 20_000))
    if reduction != "add":
        u[rng.permutation(20_000)[:2]] = np.nan
    i = rng.integers(-9, 9, (20_000, 1))
    assert reference.same(
        dml.scatter_nd(a, i, u, reduction=reduction), reference.scatter_nd(a, i, u, reduction=reduction)
    )


def scatter_rows(a, places):
    x = dml.TensorDesc("int16", a.shape)
    ones = (1,) * (a.ndim - 2)
    indices = dml.TensorDesc("int64", (*ones, np.prod(places), len(places)))
    updates = dml.TensorDesc("int16", (*ones, np.prod(places), a.shape[-1]))
    return dml.ScatterNDDesc(
        input_tensor=x,
        indices_tensor=indices,
        updates_tensor=updates,
        output_tensor=x,
        input_dimension_count=a.ndim,
        indices_dimension_count=2,
    )


def test_an_empty_axis_behind_an_index_that_is_dropped(target):
    """Nothing can be there, so any index is an error, wherever the others lead: the first one that is out of range."""
    for indices, axis in (([0, 0, 0], 1), ([7, 0, 0], 0)):
        for bounds in ("raise", "clamp", "drop"):
            with pytest.raises(
                IndexError, match=rf"indices\[0, {axis}\] = {indices[0]} is out of range for axis {axis}"
            ):
                dml.gather_nd(np.zeros((1, 0, 5)), np.array([indices]), bounds=bounds)


@pytest.mark.parametrize("indices", [np.array([3, 9]), np.array(-5), np.zeros((0, 2), int)])
def test_indices_where_there_is_nothing_to_gather(indices, target):
    """Before the axis, as in NumPy's take, no index is looked at; behind it all are."""
    for shape, axis in (((2, 0, 4), 2), ((0, 4), 1), ((0, 0), 1)):
        a = np.zeros(shape)
        assert dml.gather(a, indices, axis=axis).shape == a.take(indices, axis).shape
    if indices.size:
        for shape, axis in (((4, 0), 0), ((3, 4, 0), 1), ((2, 0), 1)):
            with pytest.raises(IndexError, match=rf"gather: indices.* is out of range for axis {axis} of size"):
                dml.gather(np.zeros(shape), indices, axis=axis)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *((shape, "f4") for shape in [(500, 95), (500, 97), (17_000, 96), (1024, 240), (2049, 240)]),
        *((shape, "f4") for shape in [(4096, 96), (4097, 100), (600, 256), (8193, 110)]),
        *((shape, "f8") for shape in [(512, 127), (512, 129), (4100, 128)]),
        *(((800, columns), dtype) for columns in (63, 64, 131) for dtype in ("u1", "i1")),
        *(((800, columns), dtype) for columns in (31, 33, 75) for dtype in ("f2", "i2")),
        ((9000, 130), "u1"),
    ],
    ids=str,
)
def test_rows_of_strips_with_indices_of_every_kind(shape, dtype, reduction):
    """Rows that follow each other, some with negative indices; around the widths from which they are cut."""
    rng = np.random.default_rng(shape[0])
    a, u = (rng.integers(0, 99, shape).astype(dtype) for _ in range(2))
    i = rng.integers(0, shape[0] // 2, shape)  # so there are duplicates
    i[300:303] -= shape[0]
    i[-1, -1] = -1
    expected = reference.scatter_elements(a, i, u, axis=0, reduction=reduction)
    for where in ("new", "in place"):
        out = a.copy() if where == "in place" else None
        found = dml.scatter_elements(a if out is None else out, i, u, axis=0, reduction=reduction, out=out)
        np.testing.assert_array_equal(found, expected)
    i[400, 7] = shape[0]
    before = a.copy()
    with pytest.raises(IndexError, match=rf"scatter_elements: indices\[400, 7\] = {shape[0]} is out of range"):
        dml.scatter_elements(a, i, u, axis=0, reduction=reduction, out=a)
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("count", [1000, (1 << 18) - 1, 1 << 18])
@pytest.mark.parametrize("size", [(1 << 19) - 1, 1 << 19, (1 << 20) + 1])
def test_one_thread_writes_what_several_prepare(size, count, reduction):
    """A cached output; from 2 MiB on several threads copy it, or look at as many bytes of indices."""
    rng = np.random.default_rng(count)
    a, u = rng.integers(0, 9, size).astype("f4"), rng.integers(0, 9, count).astype("f4")
    i = rng.integers(-size, size, count)
    expected = a.copy()
    if reduction == "none":
        expected[i] = u
    else:
        np.add.at(expected, i, u)
    np.testing.assert_array_equal(dml.scatter_elements(a, i, u, axis=0, reduction=reduction), expected)
    out = a.copy()
    assert dml.scatter_elements(out, i, u, axis=0, reduction=reduction, out=out) is out
    np.testing.assert_array_equal(out, expected)
    i[-1] = size
    before = a.copy()
    with pytest.raises(IndexError, match=rf"indices\[{count - 1}\] = {size} is out of range for axis 0"):
        dml.scatter_elements(a, i, u, axis=0, reduction=reduction, out=a)
    np.testing.assert_array_equal(a, before)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("size", "count", "parameters", "threads", "expected"),
    [
        (1 << 18, 20_000, {}, 8, True),  # 1 MiB is cached
        ((1 << 18) + 1, 20_000, {}, 8, False),
        ((1 << 18) + 1, 20_000, {}, 2, True),
        (1 << 18, 40_000, {}, 8, False),
        (1 << 18, 40_000, {}, 2, True),
        (1 << 16, 60_000, {"reduction": "max"}, 8, False),
        (1 << 20, 20_000, {"unique": True}, 2, False),
        (1 << 18, 40_000, {"unique": True}, 8, True),
    ],
)
def test_one_thread_writes_alone_where_that_is_sooner(size, count, parameters, threads, expected, monkeypatch):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    found, choose = [], dispatch_scatter.writes_alone
    monkeypatch.setattr(dispatch_scatter, "writes_alone", lambda *given: found.append(choose(*given)) or found[-1])
    dml.cache_clear()
    a, u, i = np.zeros(size, "f4"), np.ones(count, "f4"), np.arange(count)
    np.testing.assert_array_equal(dml.scatter_elements(a, i, u, axis=0, **parameters), np.arange(size) < count)
    assert found == [expected]
    dml.cache_clear()


def watch_plans(monkeypatch, field):
    """Return a list of a number in the plan of each gather that is built from now on."""
    found = []
    plan_gather = calls_gather.plan_gather

    def watching(plan, facts, tuning):
        plan_gather(plan, facts, tuning)
        found.append(plan[field])

    monkeypatch.setattr(calls_gather, "plan_gather", watching)
    dml.cache_clear()
    return found


@pytest.mark.cpu
def test_rows_that_overlap_and_wide_elements_are_not_packed(monkeypatch):
    """There is nothing to gain, or a tile would be as large as a few columns are."""
    retune(monkeypatch, {"small_tile": 1 << 14})
    packed = watch_plans(monkeypatch, moves_plan.PACKS)
    line = np.arange(6000, dtype="f4")
    for a in (np.broadcast_to(line[:2048], (60, 2048)), np.lib.stride_tricks.sliding_window_view(line, 2048)[::60]):
        i = np.random.default_rng(1).integers(0, len(a), a.shape)
        np.testing.assert_array_equal(dml.gather_elements(a, i, axis=0), np.take_along_axis(a, i, 0))
    wide = np.arange(200 * 64 * 24).reshape(200, 64, 24).view([("x", "i8", 24)])[..., 0]
    i = np.random.default_rng(1).integers(0, 200, wide.shape)
    np.testing.assert_array_equal(dml.gather_elements(wide, i, axis=0)["x"], wide["x"][i, np.arange(64)])
    assert set(packed) == {0}


@pytest.mark.cpu
@pytest.mark.parametrize("least", [32, 160])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_an_axis_that_is_too_long_has_no_tiles(dtype, least, monkeypatch):
    """They would be too narrow; the results are the same."""
    retune(monkeypatch, {"least_tile": least, "tile_bytes": 1 << 15, "small_tile": 1 << 13, "packed_tiles": 1 << 20})
    tiles = watch_plans(monkeypatch, moves_plan.TILE)
    step = np.dtype(dtype).itemsize
    for rows in ((1 << 15) // (least * step), (1 << 15) // (least * step) + 1):
        a = np.random.default_rng(rows).integers(0, 99, (rows, 4500)).astype(dtype)
        i = np.random.default_rng(least).integers(0, rows, (20, 4500))
        dml.cache_clear()
        np.testing.assert_array_equal(dml.gather_elements(a, i, axis=0), np.take_along_axis(a, i, 0))
    assert tiles[0] >= least
    assert tiles[1] == 0


@pytest.mark.cpu
@pytest.mark.parametrize("bounds", ["raise", "clamp", "drop"])
@pytest.mark.parametrize("roomy", [False, True])
@pytest.mark.parametrize(
    ("shape", "dtype", "rows", "least"),
    [
        *(((60, 2048), "f4", rows, 64) for rows in (29, 30, 64)),
        ((60, 1100), "f4", 60, 8),
        *(((16, columns), "f4", 16, 256) for columns in (1024, 1280)),
        ((16, 1280), "f4", 16, 257),
        ((140, 4096), "u1", 140, 64),
        ((140, 4096), "u1", 140, 65),
        ((256, 512), "f8", 256, 8),
        ((257, 512), "f8", 256, 8),
    ],
    ids=str,
)
def test_tiles_of_a_gather_are_packed(shape, dtype, rows, least, roomy, bounds, monkeypatch):
    """Whether rows are a power of two apart or not, turned around, and where an axis is too long for that."""
    tuning = tuning_gather.LARGE_L2 if roomy else tuning_gather.SMALL_L2
    tuning = tuning._replace(small_tile=1 << 14, tile_bytes=1 << 15, least_tile=8, packed_width=least)
    monkeypatch.setattr(calls_gather, "TUNING", tuning)
    packed = watch_plans(monkeypatch, moves_plan.PACKS)
    rng = np.random.default_rng(rows)
    a = rng.integers(0, 99, shape).astype(dtype)
    i = rng.integers(-shape[0], shape[0], (rows, shape[1]))
    i[::2] = np.abs(i[::2]) % shape[0]  # rows without negative indices
    if bounds != "raise":
        i[5, 3:7], i[-1, -1] = shape[0], -shape[0] - 1
    for data in (a, a[::-1]):
        expected = reference.gather_elements(data, i, axis=0, bounds=bounds)
        np.testing.assert_array_equal(dml.gather_elements(data, i, axis=0, bounds=bounds), expected)
    large = a.nbytes > 4 << 14
    wide = shape[0] <= 256 and least not in (65, 257)
    assert {number > 0 for number in packed} == {
        large and 2 * rows >= shape[0] and wide and not (roomy and shape[1] == 1100)
    }
    if bounds == "raise":
        i[rows - 2, 9] = shape[0]
        with pytest.raises(IndexError, match=rf"indices\[{rows - 2}, 9\] = {shape[0]} is out of range for axis 0"):
            dml.gather_elements(a, i, axis=0)


class Case(NamedTuple):
    """A small call, the row of a table that runs it, and the thresholds for that."""

    row: str
    function: str
    shape: tuple
    indices: tuple
    parameters: dict = {}
    dtype: str = "f4"
    changes: dict = {}
    packed: bool = True


UNSORTED = {"own_bytes": 0, "alone_bytes": 0}
BINNED = {**UNSORTED, "binned_bytes": 1024, "dense_bytes": 1024, "bin_bytes": 256}
OWN = {"least_shares": 2}
SUM = {"reduction": "add"}
CASES = [
    Case("gather general", "gather_elements", (30, 40), (30, 40), {"axis": 1}),
    Case("gather general", "gather", (90,), (700,), {"axis": 0}),
    Case("gather general", "gather", (30, 5), (70,), {"axis": 0}),
    Case("gather general", "gather", (6, 50), (20,), {"axis": 1}),
    Case("gather general", "gather_nd", (6, 50), (0, 2)),
    Case("gather general", "gather", (6, 50), (20,), {"axis": 1}, changes={"common_points": 0}),
    Case("scatter places", "scatter_nd", (100, 8), (60, 1)),
    Case("scatter places", "scatter_nd", (100, 8), (60, 1), {"unique": True}),
    Case("scatter bins", "scatter_nd", (3000,), (2500, 1), changes=BINNED),
    Case("scatter bins", "scatter_nd", (30, 100), (25, 2), SUM, "i4", {**BINNED, "binned_part": 1 << 20}),
    Case("scatter own", "scatter_nd", (40,), (40_000, 1), SUM, "i4", OWN),
    Case("scatter own", "scatter_nd", (4, 10), (40_000, 2), SUM, "i4", OWN),
    Case("scatter general", "scatter_nd", (7, 9, 31), (2500, 3), changes={**UNSORTED, "dense_bytes": 1 << 60}),
    Case("scatter general", "scatter_nd", (63, 31), (2500, 2), SUM, "f4", {**UNSORTED, "dense_bytes": 1 << 60}),
    Case("scatter strips", "scatter_elements", (64, 200), (64, 200), {"axis": 0}),
    Case("scatter strips", "scatter_elements", (64, 300), (64, 300), {"axis": 0, **SUM}, "i4"),
    Case("scatter strips", "scatter_elements", (64, 200), (64, 200), {"axis": 1}, packed=False),
    Case("scatter general", "scatter_nd", (50,), (9, 1)),
    Case("scatter general", "scatter_nd", (50,), (9, 1), SUM, "f4"),
    Case("scatter general", "scatter_nd", (50,), (9, 1), packed=False),
    Case("scatter general", "scatter_nd", (5, 2000), (9, 1), changes={"shared_slice": 1 << 10}),
    Case("scatter general", "scatter_nd", (50,), (0, 1)),
    Case("scatter general", "scatter_nd", (0, 5), (0, 2)),
]


@pytest.fixture
def built(monkeypatch):
    """The calls that were built, on two threads, by a parallel driver."""
    monkeypatch.setattr(cpu_launch, "PARALLEL_WORK", 0)
    monkeypatch.setattr(cpu_launch, "LOCKED_WORK", 0)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", max(numba.config.NUMBA_NUM_THREADS, 2))
    calls = []

    def watch(kind):
        make = kind.__init__

        def init(call, *given):
            make(call, *given)
            calls.append(call)

        monkeypatch.setattr(kind, "__init__", init)

    watch(calls_gather.GatherCall)
    watch(calls_scatter.ScatterCall)
    yield calls
    dml.cache_clear()


def arguments_of(case):
    """Return the arrays of a case, whose indices repeat and are negative in part, unless they are unique."""
    rng = np.random.default_rng(8)
    a = rng.integers(0, 99, case.shape).astype(case.dtype)
    a = a if case.packed else np.repeat(a, 2, -1)[..., ::2]
    axis = case.parameters.get("axis", 0)
    sizes = case.shape[: case.indices[-1]] if case.function.endswith("_nd") else (case.shape[axis],)
    indices = np.zeros(case.indices, np.int64)
    if indices.size:
        indices += rng.integers(np.negative(sizes), sizes, case.indices)
    if case.parameters.get("unique"):
        indices[:, 0] = rng.permutation(sizes[0])[: len(indices)]
    if case.function.startswith("gather"):
        return a, indices
    shape = case.indices if case.function == "scatter_elements" else (*case.indices[:-1], *case.shape[len(sizes) :])
    return a, indices, rng.integers(0, 99, shape).astype(case.dtype)


def expected_of(case, arrays):
    """Return the result by the oracle."""
    parameters = {name: value for name, value in case.parameters.items() if name != "unique"}
    if case.function == "gather":
        return np.take(*arrays, **parameters)
    return getattr(reference, case.function)(*arrays, **parameters)


def results_of(case, arrays):
    """Yield the results in a new array, in one of the caller's, and for a scatter in place."""
    put = partial(getattr(dml, case.function), **case.parameters)
    result = put(*arrays)
    yield result
    yield put(*arrays, out=np.empty_like(result))
    if case.function.startswith("scatter"):
        a, *rest = arrays
        target = a.copy() if case.packed else np.repeat(a, 2, -1)[..., ::2]
        yield put(target, *rest, out=target)


def test_every_row_of_a_table_has_a_case_and_evidence():
    tables = {"gather": dispatch_gather.TABLE, "scatter": dispatch_scatter.TABLE}
    assert {f"{name} {row.name}" for name, table in tables.items() for row in table} == {case.row for case in CASES}
    documents = Path(__file__).parents[1].glob("docs/measurements/*.md")
    headings = {line.lstrip("# ") for document in documents for line in document.read_text().splitlines()}
    assert {row.evidence for table in tables.values() for row in table} <= headings


@pytest.mark.cpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row} {case.shape} {case.dtype}")
def test_every_row_that_can_run_a_call_gives_the_same_bits(case, built, monkeypatch):
    """The first choice is the case's; every other row that can run it is forced to."""
    family, name = case.row.split()
    retune(monkeypatch, **{f"{family}s": case.changes})
    arrays = arguments_of(case)
    expected = expected_of(case, arrays)
    for found in results_of(case, arrays):
        assert reference.same(found, expected)
    chosen = built[0]
    assert chosen.region.name == name
    assert chosen.region in chosen.regions
    possible = [row for row in chosen.regions if row.can(chosen.facts, chosen.tuning)]
    assert chosen.region in possible
    for row in possible:
        built.clear()
        dml.cache_clear()
        token = regions.forced.set(row.name)
        try:
            for found in results_of(case, arrays):
                assert reference.same(found, expected), row.name
        finally:
            regions.forced.reset(token)
        assert {call.region.name for call in built} == {row.name}
