"""The functions on Dask arrays against the same calls in memory, bit by bit.

NUMBA_DML_TEST_EXAMPLES sets how many random cases each function gets (334 for 2,000 in all).
"""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import numba_dml as dml
from numba_dml.cpu.threads import thread_count

from . import reference
from .random_cases import CASES, outcome

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
from numba_dml.dask import calls, graphs  # noqa: E402

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "34"))
pytestmark = pytest.mark.cpu
RNG = np.random.default_rng(0)
A = RNG.integers(0, 9, (12, 10)).astype(np.float32)


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def random_chunks(rng, shape):
    """Return chunk sizes: one chunk, equal ones, or any, of which some are empty."""
    chunks = []
    for size in shape:
        kind = rng.integers(4)
        if size < 2 and kind:
            chunks.append([(size,), (0, size), (size, 0)][rng.integers(3)])
        elif kind == 0:
            chunks.append((size,))
        elif kind < 3:
            chunks += da.core.normalize_chunks(int(rng.integers(max(1, size // 5), size + 1)), (size,))
        else:
            cuts = np.sort(rng.integers(0, size + 1, rng.integers(1, 5)))
            chunks.append(tuple(np.diff([0, *cuts, size]).tolist()))
    return tuple(chunks)


def chunked(rng, inputs):
    """Return inputs of which some, and one at least, are Dask arrays."""
    arrays = [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray)]
    chosen = [i for i in arrays if rng.random() < 0.7] or [arrays[0]]
    return tuple(da.from_array(x, random_chunks(rng, x.shape)) if i in chosen else x for i, x in enumerate(inputs))


def as_list(results):
    return list(results) if isinstance(results, tuple) else [results]


def check_error(text, indices, expected):
    """Check that an error names a bad index: the one that is named in memory, if all have the same value."""
    where, value, size = re.search(r"(?:indices|lengths)\[(.*)\] = (-?\d+) is .* size (\d+)", text).groups()
    position = tuple(map(int, where.split(", "))) if where != "()" else ()
    assert int(indices[position]) == int(value)
    assert not -int(size) <= int(value) < int(size)
    assert re.sub(r"\[.*?\] = -?\d+|\d+ of size \d+", "", text) == re.sub(
        r"\[.*?\] = -?\d+|\d+ of size \d+", "", expected
    )


@pytest.mark.parametrize("case", CASES)
def test_random_calls(case):
    for number in range(EXAMPLES):
        rng = np.random.default_rng([CASES.index(case), number])
        function, inputs, parameters = case(rng, int(rng.choice([50, 2000])))
        expected = outcome(function, inputs, parameters)
        results = as_list(function(*chunked(rng, inputs), **parameters))
        place = f"case {number}: {parameters}"
        if isinstance(expected, str):
            with pytest.raises(IndexError) as caught:
                dask.compute(*results)
            check_error(str(caught.value), inputs[function is not dml.one_hot], expected)
            continue
        for result, array in zip(results, expected, strict=True):
            assert (result.shape, result.dtype) == (array.shape, array.dtype), place
        assert all(map(reference.same, dask.compute(*results), expected)), place


def a_small_call(rng):
    """Return a call of which any size may be 0, with batches, points of several dimensions and odd indices."""
    a = rng.integers(0, 9, rng.integers(0, 4, rng.integers(1, 4))).astype(rng.choice(["<f4", ">f4", "i2"]))
    batch = int(rng.integers(0, a.ndim))
    tuples = int(rng.integers(1, a.ndim - batch + 1))
    axis = int(rng.integers(a.ndim))
    points = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 3)))
    off = [int(rng.integers(0, n + 1)) for n in a.shape]
    off[axis] = int(rng.integers(0, 5))
    kind = str(rng.choice(["gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd"]))
    shape, limit = {
        "gather": (points, a.shape[axis]),
        "gather_elements": (tuple(n if m != 1 else 3 for n, m in zip(off, a.shape, strict=True)), a.shape[axis]),
        "scatter_elements": (tuple(off), a.shape[axis]),
    }.get(kind, ((*a.shape[:batch], *points, tuples), min(a.shape[batch : batch + tuples])))
    indices = rng.integers(0, max(limit, 1), shape).astype(rng.choice(["i8", "u1", ">u8", ">i4"]))
    if rng.random() < 0.3 and indices.size and indices.dtype.kind == "u":
        indices.reshape(-1)[rng.integers(indices.size)] = np.iinfo(indices.dtype).max
    inputs, parameters = (a, indices), {"batch_dims": batch} if kind.endswith("nd") else {"axis": axis}
    parameters["bounds"] = str(rng.choice(["raise", "drop"]))
    if kind.startswith("scatter"):
        packed = indices.shape if "elements" in kind else indices.shape[:-1] + a.shape[batch + tuples :]
        inputs = (*inputs, rng.integers(0, 9, packed).astype(a.dtype))
        parameters["reduction"] = str(rng.choice(["none", "add"]))
    return getattr(dml, kind), inputs, parameters


@pytest.mark.parametrize("block", range(5))
def test_small_calls(block):
    for number in range(10 * EXAMPLES):
        rng = np.random.default_rng([block, number])
        function, inputs, parameters = a_small_call(rng)
        expected = outcome(function, inputs, parameters)
        result = function(*chunked(rng, inputs), **parameters)
        place = f"{block}, {number}: {function.__name__} {[x.shape for x in inputs]} {parameters}"
        if isinstance(expected, str):
            with pytest.raises(IndexError):
                result.compute()
        else:
            assert reference.same(result.compute(), expected[0]), place


def test_indices_that_change_after_the_call():
    buffer, found = np.zeros(2, int), []
    for chunks in (12, 5):
        d = da.from_array(np.arange(12.0), chunks=chunks)
        for place in range(3):
            buffer[:] = place
            found.append(dml.gather(d, buffer))
    assert [x.tolist() for x in dask.compute(*found)] == [[0, 0], [1, 1], [2, 2]] * 2


def test_many_indices_of_a_small_table():
    table = da.from_array(np.arange(256.0, dtype="f4"), chunks=128)
    indices = RNG.integers(0, 256, (1000, 1000))
    result = dml.gather(table, indices)
    assert len(dict(result.dask)) < 100
    assert np.array_equal(result.compute(), np.arange(256.0, dtype="f4")[indices])


class Read:
    """An array whose chunks count how often they are read."""

    def __init__(self, array, chunks):
        self.array, self.counts, self.lock = array, {}, threading.Lock()
        self.dask = da.from_array(self, chunks=chunks, asarray=False, fancy=False)

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)
    ndim = property(lambda self: self.array.ndim)

    def __getitem__(self, part):
        if self.array[part].size:  # Dask asks for nothing to see what it is
            with self.lock:
                start = tuple(s.start for s in part)
                self.counts[start] = self.counts.get(start, 0) + 1
        return self.array[part]


def test_each_chunk_is_read_once():
    source = Read(A, (4, 5))
    values, indices = dml.top_k(source.dask, 3)
    assert source.counts == {}, "nothing is read at the call"
    found = dask.compute(values, indices)
    assert all(map(reference.same, found, dml.top_k(A, 3)))
    assert source.counts == {(i, j): 1 for i in (0, 4, 8) for j in (0, 5)}


@pytest.mark.parametrize("chunks", [(2, 5), (12, 10)])
def test_only_chunks_that_are_hit_are_read(chunks):
    source = Read(A, chunks)
    result = dml.gather(source.dask, np.array([5, 4, 9, 5]))
    tuples = dml.gather_nd(source.dask, np.array([[4, 1], [-3, 2]]))
    assert source.counts == {}
    assert np.array_equal(result.compute(), A[[5, 4, 9, 5]])
    hit = {(4, 0), (4, 5), (8, 0), (8, 5)} if chunks == (2, 5) else {(0, 0)}
    assert set(source.counts) == hit
    source.counts.clear()
    assert np.array_equal(tuples.compute(), A[[4, 9], [1, 2]])
    assert set(source.counts) == (hit & {(4, 0), (8, 0)} or hit)


def test_parts_of_a_result_need_parts_of_the_input():
    source = Read(A, (4, 5))
    values = dml.top_k(source.dask, 3).values
    assert np.array_equal(values[5:6].compute(), dml.top_k(A, 3).values[5:6])
    assert {start[0] for start in source.counts} == {4}


def test_chunks_of_results():
    d = da.from_array(A, chunks=((4, 8), (5, 2, 3)))
    assert dml.top_k(d, 7).indices.chunks == ((4, 8), (7,))
    assert dml.top_k(d, 7, axis=0).values.chunks == ((7,), (5, 2, 3))
    i = da.from_array(np.arange(6).reshape(2, 3), chunks=(1, 2))
    assert dml.gather(d, i, axis=1).chunks == ((4, 8), (1, 1), (2, 1))
    assert dml.gather_nd(d, i.T.rechunk((2, 2))).chunks == ((2, 1),)
    elements = dml.gather_elements(d, da.from_array(np.zeros((10, 4), int), chunks=(3, 3)))
    assert elements.chunks == ((4, 6), (3, 1)), "off the axis they follow the data"
    assert dml.scatter_nd(d, np.array([[1]]), A[:1]).chunks == d.chunks
    assert isinstance(dml.top_k(d, 2), dml.TopK)
    assert type(elements._meta) is np.ndarray


def test_steps_are_the_same_on_every_call():
    d = da.from_array(A, chunks=5)
    assert dml.top_k(d, 2).values.name == dml.top_k(d, 2).values.name != dml.top_k(d, 3).values.name


BAD = {
    "top_k": (lambda a, i, u: dml.top_k(a, 11), lambda a, i, u: dml.top_k(a, 2, axis=2)),
    "gather": (lambda a, i, u: dml.gather(a, i.astype("f4")), lambda a, i, u: dml.gather(a, i, bounds="wrap")),
    "gather_elements": (lambda a, i, u: dml.gather_elements(a, i[0]),),
    "gather_nd": (lambda a, i, u: dml.gather_nd(a, i), lambda a, i, u: dml.gather_nd(a, i, batch_dims=2)),
    "scatter_elements": (
        lambda a, i, u: dml.scatter_elements(a, i, u.astype("f8")),
        lambda a, i, u: dml.scatter_elements(a, i, u[:1]),
    ),
    "scatter_nd": (lambda a, i, u: dml.scatter_nd(a, i[:, :1], u, reduction="mean"),),
}


@pytest.mark.parametrize("call", [call for calls in BAD.values() for call in calls])
def test_bad_arguments_are_refused_at_the_call(call):
    arrays = A, np.zeros((12, 4), int), A[:, :4]
    with pytest.raises((TypeError, ValueError)) as expected:
        call(*arrays)
    with pytest.raises(type(expected.value)) as found:
        call(*(da.from_array(array, chunks=3) for array in arrays))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("lazy", [True, False])
def test_a_bad_index_is_named_by_its_place_among_all(whole, lazy):
    d = da.from_array(A, chunks=(12, 10) if whole else (5, 4))
    rows = np.zeros((4, 6), int)
    rows[3, 5] = 12
    tuples = np.zeros((5, 4, 2), np.uint8)
    tuples[4, 2, 1] = 200
    elements = np.zeros((11, 9), np.int16)
    elements[10, 8] = -13
    updates = np.zeros((11, 9), np.float32)
    for call, indices in (
        (lambda a, i: dml.gather(a, i), rows),
        (lambda a, i: dml.gather_nd(a, i), tuples),
        (lambda a, i: dml.gather_elements(a, i, axis=0), elements),
        (lambda a, i: dml.scatter_elements(a, i, updates, axis=0, bounds="deferred"), elements),
        (lambda a, i: dml.scatter_nd(a, i, np.ones((5, 4), np.float32), reduction="add"), tuples),
    ):
        with pytest.raises(IndexError) as expected:
            call(A, indices)
        result = call(d, da.from_array(indices, chunks=2) if lazy else indices)
        with pytest.raises(IndexError) as found:
            result.compute()
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [("out", A[:2], "when it is computed"), ("target", "cpu", "where they are"), ("stream", 1, "where they are")],
)
def test_arguments_that_lazy_calls_do_not_have(argument, value, reason):
    with pytest.raises(TypeError, match=rf"gather: {argument}: .* expected None with Dask arrays: .*{reason}"):
        dml.gather(da.from_array(A, chunks=5), np.array([0, 1]), **{argument: value})


def test_compiled_operators_take_arrays_in_memory():
    x, y = dml.TensorDesc("float32", (12, 10)), dml.TensorDesc("float32", (12, 1))
    operator = dml.compile_operator(dml.GatherElementsDesc(x, dml.TensorDesc("uint32", (12, 1)), y, 1))
    with pytest.raises(TypeError, match=r"Dask arrays.*call the function"):
        operator(da.from_array(A, chunks=5), np.zeros((12, 1), np.uint32))


def test_a_default_target_is_no_argument():
    with dml.config(target="cpu"):
        assert dml.gather(da.from_array(A, chunks=5), np.array([7])).compute().shape == (1, 10)


def test_families_without_a_way_for_chunks_are_refused(monkeypatch):
    monkeypatch.delitem(calls._FAMILIES, "gather")
    with pytest.raises(TypeError, match="gather_nd: found a Dask array, expected arrays in memory"):
        dml.gather_nd(da.from_array(A, chunks=5), np.array([[0]]))


def test_unknown_chunks_are_refused():
    d = da.from_array(A, chunks=5)
    with pytest.raises(ValueError, match=r"top_k: a: found chunks of unknown sizes.*compute_chunk_sizes"):
        dml.top_k(d[d[:, 0] > 3], 1, axis=0)


def test_masks_and_objects_are_refused():
    masked = da.ma.masked_equal(da.from_array(A, chunks=5), 3)
    with pytest.raises(TypeError, match=r"gather: a: found a Dask array of MaskedArray"):
        dml.gather(masked, np.array([0]))
    objects, numbers = np.array([None, 1, 2], object), np.zeros(3)
    for call in (  # in the words of calls in memory
        lambda a, _: dml.gather(a, np.array([0])),
        lambda a, _: dml.max_unpool(a, np.array([0, 1, 2]), (4,)),
        lambda a, _: dml.reverse_subsequences(a, [1]),
        lambda a, x: dml.scatter_nd(x, np.array([[0], [1], [2]]), a),
        lambda a, x: dml.gather(x, a),
        lambda a, _: dml.top_k(a, 1),
    ):
        with pytest.raises(TypeError) as in_memory:
            call(objects, numbers)
        assert "found dtype object" in str(in_memory.value)
        with pytest.raises(TypeError) as raised:
            call(da.from_array(objects, chunks=2), da.from_array(numbers, chunks=2))
        assert str(raised.value) == str(in_memory.value)


def test_data_in_memory_follow_the_indices():
    indices = np.argsort(A, axis=1)
    result = dml.gather_elements(A, da.from_array(indices, chunks=(5, 4)), axis=1)
    assert result.chunks == ((5, 5, 2), (4, 4, 2))
    assert np.array_equal(result.compute(), np.sort(A, axis=1))


def test_python_numbers_as_updates():
    d = da.zeros((6, 3), chunks=2, dtype=np.float32)
    expected = dml.scatter_nd(np.zeros((6, 3), np.float32), [[4, 1], [0, 0]], [1, 2])
    assert reference.same(dml.scatter_nd(d, [[4, 1], [0, 0]], [1, 2]).compute(), expected)


def test_updates_of_many_blocks_meet_in_their_order():
    """Sums of floats depend on their order: here every update meets the same element."""
    updates = RNG.standard_normal((40, 30)).astype(np.float32)
    indices = np.zeros((40, 30, 1), int)
    expected = dml.scatter_nd(np.zeros(7, np.float32), indices, updates, reduction="add")
    for chunks in ((40, 30), (7, 4), (1, 1), (3, 30)):
        d = da.zeros(7, chunks=2, dtype=np.float32)
        i, u = da.from_array(indices, chunks=(*chunks, 1)), da.from_array(updates, chunks=(11, 11))
        assert reference.same(dml.scatter_nd(d, i, u, reduction="add").compute(), expected)


def all_calls():
    """Return lazy results of every function, and what they are in memory."""
    a = RNG.standard_normal((60, 50)).astype(np.float32)
    i, t = RNG.integers(0, 60, (30, 50)), RNG.integers(-50, 50, (200, 2))
    u = RNG.standard_normal(200).astype(np.float32)
    d, di, dt = da.from_array(a, chunks=20), da.from_array(i, chunks=11), da.from_array(t, chunks=70)
    lazy = [*dml.top_k(d, 30, axis=0), dml.gather(d, i[0]), dml.gather_elements(d, di, axis=0), dml.gather_nd(d, dt)]
    lazy += [dml.scatter_elements(d, di, a[:30], axis=0), dml.scatter_nd(d, dt, u, reduction="add")]
    found = [*dml.top_k(a, 30, axis=0), dml.gather(a, i[0]), dml.gather_elements(a, i, axis=0), dml.gather_nd(a, t)]
    found += [dml.scatter_elements(a, i, a[:30], axis=0), dml.scatter_nd(a, t, u, reduction="add")]
    return lazy, found


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers(scheduler):
    lazy, expected = all_calls()
    assert all(map(reference.same, dask.compute(*lazy, scheduler=scheduler, num_workers=2), expected))


def test_tasks_use_one_thread():
    assert graphs.task(thread_count)() == 1


def test_graphs_can_be_pickled():
    lazy, expected = all_calls()
    assert all(map(reference.same, dask.compute(*pickle.loads(pickle.dumps(lazy))), expected))
    for function in (dml.top_k, dml.gather_nd, dml.scatter_nd):
        assert pickle.loads(pickle.dumps(function)) is function
    x = dml.TensorDesc("float32", (4, 6))
    desc = dml.TopK1Desc(x, dml.TensorDesc("float32", (4, 2)), dml.TensorDesc("uint32", (4, 2)), 1, 2, "DECREASING")
    operator = pickle.loads(pickle.dumps(dml.compile_operator(desc)))
    assert np.array_equal(operator(A[:4, :6]).values, dml.top_k(A[:4, :6], 2).values)


@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_dies():
    """Its tasks are done again by another one, and the bits are the same."""
    distributed = pytest.importorskip("distributed")
    a = RNG.integers(0, 99, (40, 2000)).astype(np.float32)
    t, u = RNG.integers(0, 40, (500, 1)), RNG.standard_normal((500, 2000)).astype(np.float32)

    def slow(block):
        time.sleep(0.1)
        return block

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        d = da.from_array(a, chunks=(40, 100)).map_blocks(slow)
        lazy = [*dml.top_k(d, 150), dml.scatter_nd(d, da.from_array(t, chunks=100), u, reduction="add")]
        futures = client.compute(lazy)
        pids = list(client.run(os.getpid).values())
        while not any(client.has_what().values()):  # until something is done, which is lost
            time.sleep(0.01)
        os.kill(pids[0], signal.SIGKILL)
        found = client.gather(futures)
    expected = [*dml.top_k(a, 150), dml.scatter_nd(a, t, u, reduction="add")]
    assert all(map(reference.same, found, expected))


@pytest.mark.filterwarnings("ignore")
def test_workers_warm_up():
    distributed = pytest.importorskip("distributed")
    from numba_dml.dask import WarmUp

    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        plugin = WarmUp("gather_elements", dtypes=["float32"])
        client.register_plugin(plugin)
        assert plugin.name in next(iter(cluster.workers.values())).plugins
        with pytest.raises(ValueError, match="kernels could not be compiled"):
            client.register_plugin(WarmUp(dtypes=["float31"]))
    with pytest.raises(ValueError, match=r"WarmUp: found 'sort', expected one of .*gather,"):
        WarmUp("sort")
    assert repr(WarmUp("gather")) == "WarmUp('gather', dtypes=['float32', 'float64', 'int32', 'int64'], target='cpu')"


WORKQUEUE = """
import dask
from tests.test_dask import all_calls, reference
lazy, expected = all_calls()
for _ in range(20):
    found = dask.compute(*lazy, scheduler="threads", num_workers=4)
    assert all(map(reference.same, found, expected))
"""


def test_a_threading_layer_that_takes_one_caller():
    """Numba's workqueue ends the process where two threads launch a parallel kernel at once."""
    environment = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue"}
    subprocess.run([sys.executable, "-c", WORKQUEUE], env=environment, check=True, timeout=300)


@pytest.mark.parametrize("chunks_of_task", [1, 2, 3, 100])
def test_small_chunks_in_memory_share_tasks(chunks_of_task, monkeypatch):
    """Neighbours with whole lines, of different sizes, up to the bytes that a task takes; lazy chunks do not."""
    from numba_dml.dask import top_k as selection

    rng = np.random.default_rng(chunks_of_task)
    a = rng.integers(0, 9, (14, 6, 5)).astype("f4")
    chunks = ((3, 3, 3, 3, 2), 6, (2, 3))
    held = da.from_array(a, chunks=chunks)
    monkeypatch.setattr(selection, "TOGETHER", chunks_of_task * 3 * 6 * 3 * 4)
    expected = dml.top_k(a, 4, axis=1)
    for x, tasks in ((held, -(-10 // chunks_of_task)), (held + 0, 10)):
        best = dml.top_k(x, 4, axis=1)
        assert best.values.chunks == best.indices.chunks == (chunks[0], (4,), chunks[2])
        layer = next(layer for name, layer in best.values.dask.layers.items() if name.startswith("top_k-pairs"))
        assert len(layer) == tasks
        assert all(map(reference.same, dask.compute(*best), expected))
    assert reference.same(dml.top_k(held, 4, axis=1).values[4:7].compute(), expected.values[4:7])
