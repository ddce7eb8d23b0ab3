"""The operators beside gathers, scatters and top-k on Dask arrays, against the same calls in memory, bit by bit."""

import pickle

import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core.spec import OPERATORS

from . import reference

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
scan = pytest.importorskip("numba_dml.dask.scan")

pytestmark = pytest.mark.cpu
#: Sizes of chunks around those of blocks.
SIZES = [0, 1, 2, 255, 256, 257, 511, 512, 1000]


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def random_sizes(rng, total, sizes=SIZES):
    """Return chunk sizes of which many do not end with a block."""
    found = []
    while sum(found) < total:
        found.append(min(int(rng.choice(sizes)), total - sum(found)))
    return tuple(found) or (0,)


def check(function, array, chunks, **given):
    """Compare all results of a lazy call with those in memory: shapes, dtypes and bits."""
    expected = function(array, **given)
    lazy = function(da.from_array(array, chunks), **given)
    many = isinstance(expected, tuple)
    for result, whole in zip(lazy if many else [lazy], expected if many else [expected], strict=True):
        assert (result.shape, result.dtype, type(result._meta)) == (whole.shape, whole.dtype, np.ndarray)
    found = dask.compute(*lazy) if many else [lazy.compute()]
    for result, whole in zip(found, expected if many else [expected], strict=True):
        assert result.dtype == whole.dtype
        assert reference.same(result, whole), (chunks, given)


def numbers(rng, shape, dtype):
    """Return numbers whose sums and products stay finite, with some negative zeros."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    a = rng.choice([-1, 1], shape) * np.exp(rng.normal(0, 0.3, shape))
    a = np.where(rng.random(shape) < 0.01, -0.0 if rng.random() < 0.5 else 1e9, a)
    if dtype.kind == "c":
        a = a * np.exp(1j * rng.normal(0, 1, shape))
    with np.errstate(over="ignore"):
        return a.astype(dtype)


@pytest.mark.parametrize("function", [dml.cumulative_sum, dml.cumulative_prod])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f4", "c8", "c16", "?", "i1", "u4", "i8"])
def test_running_totals_go_on_from_chunk_to_chunk(function, dtype):
    rng = np.random.default_rng([3, len(dtype), ord(dtype[-1])])
    for number in range(12):
        n = int(rng.choice([1, 300, 1500, 4000]))
        shape, axis = [((n,), 0), ((3, n), -1), ((n, 70), 0), ((2, n, 5), 1)][number % 4]
        chunks = [random_sizes(rng, size, [1, 2, 40]) if size < 100 else (size,) for size in shape]
        chunks[axis] = random_sizes(rng, n)
        how = [{}, {"exclusive": True}, {"include_initial": True}][int(rng.integers(3))]
        a = numbers(rng, shape, dtype)
        check(function, a, tuple(chunks), axis=axis, reverse=bool(rng.integers(2)), **how)


@pytest.mark.parametrize("size", [1, 255, 256, 257])
@pytest.mark.parametrize("columns", [1, 80])
def test_running_sums_of_equal_chunks(size, columns):
    a = numbers(np.random.default_rng(size), (2000, columns), "f8")
    for how in ({}, {"reverse": True}, {"exclusive": True}):
        check(dml.cumulative_sum, a, (size, -1), axis=0, **how)
        check(dml.cumulative_sum, np.asfortranarray(a), (size, -1), axis=0, **how)


def test_running_sums_over_several_levels():
    a = numbers(np.random.default_rng(0), 3 * 256**2 + 700, "f8")
    for sizes in ((65536, 65536, len(a) - 131072), (70_001, len(a) - 70_001), (50_000, 100_000, len(a) - 150_000)):
        check(dml.cumulative_sum, a, (sizes,))
        check(dml.cumulative_sum, a, (sizes,), reverse=True, dtype=np.float32)


def test_running_totals_of_what_is_empty():
    for shape, chunks in (((0,), ((0,),)), ((0, 4), ((0, 0), (2, 2))), ((5, 0), ((2, 3), (0,)))):
        for how in ({}, {"include_initial": True}, {"exclusive": True}):
            check(dml.cumulative_sum, np.zeros(shape), chunks, axis=0, **how)
    check(dml.cumulative_sum, np.arange(6.0), ((0, 3, 0, 3, 0),), include_initial=True)


def test_running_totals_with_other_dtypes():
    a = np.arange(600, dtype="i4")
    check(dml.cumulative_sum, a, 7, dtype=np.int8)
    check(dml.cumulative_sum, a, 300, dtype=np.float32)
    check(dml.cumulative_prod, a % 3 + 1, 11, dtype=np.uint8)
    check(dml.cumulative_sum, a.reshape(20, 30), (1, 7), axis=1, dtype=np.complex64)
    check(dml.cumulative_sum, a.reshape(1, 4, 150), (1, 3, 1), axis=-1)


def test_running_totals_may_be_computed_again():
    """A task does not change the state that it is given, and depends on no result of another chunk."""
    lazy = dml.cumulative_sum(da.from_array(np.arange(900.0), 300))
    tasks = dict(lazy.dask)
    steps = {key: task for key, task in tasks.items() if "-both-" in str(key)}
    assert len(steps) == 3
    needed = [key for keys in lazy.dask.get_all_dependencies().values() for key in keys if "-both-" in str(key)]
    users = [key for key, keys in lazy.dask.get_all_dependencies().items() if any("-both-" in str(k) for k in keys)]
    assert needed
    assert not any("-both-" in str(key) for key in users)
    spec = OPERATORS["cumulative_sum"]
    given = {"axis": 0, "dtype": np.dtype("f8"), "include_initial": False, "exclusive": False, "reverse": False}
    _, state = scan.go_on(np.arange(300.0), None, spec=spec, position=0, given=given)
    before = state.copy()
    first, second = (scan.go_on(np.arange(300.0), state, spec=spec, position=300, given=given)[0] for _ in range(2))
    assert reference.same(first, second)
    assert np.array_equal(state, before)


def test_one_hot_of_chunks():
    indices = np.arange(-6, 18).reshape(4, 6)[:, ::-1]
    for axis in range(-3, 3):
        check(lambda a, axis=axis: dml.one_hot(a, 6, axis=axis, bounds="clamp"), indices, (3, (1, 0, 5)))
    check(lambda a: dml.one_hot(a, 18, on_value=np.float16(2), off_value=np.float16(-0.0)), indices, (1, 4))
    check(lambda a: dml.one_hot(a, 18, dtype="?", axis=0), indices[0], 4)
    check(lambda a: dml.one_hot(a, 20), np.array(3), ())
    check(lambda a: dml.one_hot(a, 20, on_value=np.nan), indices[:0], 2)
    check(lambda a: dml.one_hot(a, 0), indices[:0], 2)


def test_what_callers_change_later_does_not_change_a_graph():
    indices = da.from_array(np.array([0, 2]), chunks=1)
    on_value, fill_value = np.array(7.0), np.array(7)
    hot = dml.one_hot(indices, 3, on_value=on_value)
    filled = dml.max_unpool(indices, indices, (3,), fill_value=fill_value)
    on_value[()] = fill_value[()] = 9
    assert hot.compute().tolist() == [[7, 0, 0], [0, 0, 7]]
    assert filled.compute().tolist() == [0, 7, 2]


def test_a_wrong_fill_value_is_an_error_of_the_call():
    indices = da.from_array(np.array([0, 2]), chunks=1)
    for wrong in (1.5, np.int32(1), [1, 2]):
        with pytest.raises((TypeError, ValueError)) as expected:
            dml.max_unpool(np.array([0, 2]), np.array([0, 2]), (3,), fill_value=wrong)
        with pytest.raises(type(expected.value)) as found:
            dml.max_unpool(indices, indices, (3,), fill_value=wrong)
        assert str(found.value) == str(expected.value)


def test_a_bad_class_is_named_by_its_place_among_all():
    indices = np.zeros((4, 6), int)
    indices[3, 2] = 7
    with pytest.raises(IndexError) as expected:
        dml.one_hot(indices, 7, axis=0)
    with pytest.raises(IndexError) as found:
        dml.one_hot(da.from_array(indices, (3, 2)), 7, axis=0).compute()
    assert str(found.value) == str(expected.value)
    assert dml.one_hot(da.from_array(indices, (3, 2)), 7, axis=0, bounds="drop").sum().compute() == 23


@pytest.mark.parametrize("which", [(True, True), (True, False), (False, True)])
def test_reversals_of_chunks(which):
    rng = np.random.default_rng(5)
    a = rng.integers(0, 100, (6, 7, 5)).astype("f4")
    for axis in range(3):
        for ones in ((), (0,), (1, 2), (0, 1, 2)):
            shape = [1 if d == axis or d in ones else n for d, n in enumerate(a.shape)]
            lengths = rng.integers(0, a.shape[axis] + 1, shape)
            expected = dml.reverse_subsequences(a, lengths, axis=axis)
            lazy = da.from_array(a, (4, 3, 2)) if which[0] else a
            counts = da.from_array(lengths, (3, 2, 3)) if which[1] else lengths
            found = dml.reverse_subsequences(lazy, counts, axis=axis)
            assert found.numblocks[axis] == 1
            assert reference.same(found.compute(), expected)


def test_a_bad_length_is_named_by_its_place_among_all():
    a, lengths = np.zeros((6, 4)), np.ones((6, 1), int)
    lengths[5] = 9
    with pytest.raises(IndexError) as expected:
        dml.reverse_subsequences(a, lengths)
    with pytest.raises(IndexError) as found:
        dml.reverse_subsequences(da.from_array(a, 2), lengths).compute()
    assert str(found.value) == str(expected.value)
    with pytest.raises(TypeError, match="lengths: found dtype float64, expected an integer dtype"):
        dml.reverse_subsequences(da.from_array(a, 2), lengths * 1.0)


@pytest.mark.parametrize("function", [dml.argmax, dml.argmin])
@pytest.mark.parametrize("dtype", ["f8", "f2", ">f4", "i1", "u8", "?"])
def test_winners_over_axes(function, dtype):
    """Few different values, so that most winners meet equal ones in other chunks."""
    rng = np.random.default_rng([len(dtype), ord(dtype[-1])])
    for number in range(25):
        shape = tuple(int(n) for n in rng.integers(1, 8, rng.integers(1, 4)))
        a = np.asarray(rng.integers(0, 2 if dtype == "?" else 4, shape)).astype(dtype)
        if a.dtype.kind == "f":
            a[rng.random(shape) < 0.1] = -0.0
            a[rng.random(shape) < rng.choice([0, 0.1, 1], p=[0.4, 0.5, 0.1])] = np.nan
        axes = tuple(int(d) for d in rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)])
        chunks = tuple(random_sizes(rng, size, [0, 1, 2, 3]) for size in shape)
        check(
            function,
            a,
            chunks,
            axis=[axes, None, axes[0], -1][number % 4],
            keepdims=bool(rng.integers(2)),
            ties=["first", "last"][rng.integers(2)],
            nan=["first", "last", "largest"][rng.integers(3)],
            index_dtype=[None, "i4", "u8"][rng.integers(3)],
        )


def test_winners_of_many_chunks():
    a = np.random.default_rng(1).integers(0, 50, (300, 40)).astype("f4")
    for axis in (0, 1, None):
        for ties in ("first", "last"):
            check(dml.argmax, a, (7, 3), axis=axis, ties=ties)
    check(dml.argmin, np.zeros((0, 5)), ((0,), (2, 3)), axis=1)
    with pytest.raises(ValueError, match="a size of 0"):
        dml.argmax(da.zeros((0, 5), chunks=2), axis=0)
    with pytest.raises(ValueError, match="index_dtype"):
        dml.argmax(da.zeros(500, chunks=100), index_dtype="i1")


def test_coordinates_of_what_is_not_zero():
    rng = np.random.default_rng(9)
    for number in range(60):
        shape = tuple(int(n) for n in rng.integers(0 if number % 5 == 0 else 1, 9, rng.integers(0, 4)))
        a = np.asarray(rng.integers(0, 3, shape)).astype(["?", "f4", "c8", ">i2"][number % 4])
        chunks = tuple(random_sizes(rng, size, [0, 1, 2, 3]) for size in shape)
        given = {"size": int(rng.integers(0, a.size + 3)), "bounds": "drop", "index_dtype": [None, "u2"][number % 2]}
        check(dml.nonzero_coordinates, a, chunks, fill_value=7, **given)
    a = np.asarray(rng.random((40, 50)) < 0.3, "i8")
    check(dml.nonzero_coordinates, a, (3, 7), size=2000)
    check(dml.nonzero_coordinates, a, (3, 7), size=100, bounds="drop")


def test_more_that_is_not_zero_than_there_is_room_for():
    lazy = da.from_array(np.ones((4, 4)), 3)
    with pytest.raises(ValueError, match="size: found 16 nonzero elements, expected at most 15"):
        dml.nonzero_coordinates(lazy, size=15).count.compute()
    with pytest.raises(TypeError, match=r"expected arrays in memory \(call .compute\(\), or give a size\)"):
        dml.nonzero_coordinates(lazy)
    with pytest.raises(TypeError, match="out: found tuple, expected None"):
        dml.nonzero_coordinates(lazy, out=(np.zeros((), int), np.zeros((3, 2), int)))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(scheduler):
    a = np.random.default_rng(2).standard_normal((60, 50))
    a[a < 0] = 0
    lengths = np.arange(60)[:, np.newaxis] % 51

    def calls(a, lengths):
        yield dml.cumulative_sum(a, axis=0)
        yield dml.cumulative_prod(a, axis=1, reverse=True)
        yield dml.argmax(a, axis=(0, 1), ties="last")
        yield from dml.nonzero_coordinates(a, size=3000)
        yield dml.reverse_subsequences(a, lengths)
        yield dml.one_hot(lengths, 51, on_value=np.float16(1))

    lazy = pickle.loads(pickle.dumps(list(calls(da.from_array(a, 20), da.from_array(lengths, 20)))))
    found = dask.compute(*lazy, scheduler=scheduler, num_workers=2)
    assert all(map(reference.same, found, calls(a, lengths)))


@pytest.mark.parametrize("batch", range(3))
def test_a_bad_place_is_named_by_its_place_among_all(batch):
    a, indices = np.ones((4, 6)), np.zeros((4, 6), "u1")
    indices[3, 4] = 100
    shape = (*a.shape[:batch], *(9,) * (2 - batch))
    with pytest.raises(IndexError) as expected:
        dml.max_unpool(a, indices, shape, batch_dims=batch)
    with pytest.raises(IndexError) as found:
        dml.max_unpool(da.from_array(a, (3, 2)), indices, shape, batch_dims=batch).compute()
    assert str(found.value) == str(expected.value)
    lazy = dml.max_unpool(da.from_array(a, (3, 2)), indices, shape, batch_dims=batch, bounds="drop")
    assert reference.same(lazy.compute(), dml.max_unpool(a, indices, shape, batch_dims=batch, bounds="drop"))
