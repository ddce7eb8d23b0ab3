"""The memory of large results: recycled, bounded, and never in two arrays at once."""

import copy
import gc
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core import pool as core_pool

pytestmark = pytest.mark.cpu

MIB = 1 << 20


@pytest.fixture
def pool():
    return dml.MemoryPool(8 * MIB)


def bytes_of(pool, size):
    return pool.empty((size,), np.dtype(np.uint8))


def test_large_results_come_from_the_pool():
    dml.memory_pool.clear()
    a = np.arange(3 * MIB // 8).reshape(-1, 64)
    rows = np.arange(len(a))[::-1]
    for function in (dml.gather, dml.gather_elements):
        result = function(a, rows if function is dml.gather else np.broadcast_to(rows[:, None], a.shape), axis=0)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, a[::-1])
        assert result.ctypes.data % 64 == 0
        assert not result.flags.owndata
        address = result.ctypes.data
        del result
        assert dml.memory_pool.free_bytes == 3 * MIB
        again = dml.scatter_nd(a, rows[:, None], a)
        assert again.ctypes.data == address
        assert dml.memory_pool.free_bytes == 0
        del again
    values, indices = dml.top_k(a, 40)
    assert values.base is not None
    assert indices.base is not None
    assert not np.may_share_memory(values, indices)


def test_small_results_own_their_memory():
    assert dml.gather(np.arange(100), [1, 2]).flags.owndata


@pytest.mark.parametrize("dtype", ["f4", "c16", "?", "M8[ns]", "S3", [("a", "u1"), ("b", "f8")]], ids=str)
def test_any_dtype_and_shape(pool, dtype):
    dtype = np.dtype(dtype)
    result = pool.empty((7, 11, 13), dtype)
    assert (result.shape, result.dtype) == ((7, 11, 13), dtype)
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result.flags.aligned
    result[...] = np.zeros((), dtype)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)), result)


def test_a_view_keeps_the_memory(pool):
    result = bytes_of(pool, MIB)
    result[:] = 1
    view = memoryview(result[10:20].reshape(2, 5).T)
    del result
    gc.collect()
    assert pool.free_bytes == 0
    other = bytes_of(pool, MIB)
    other[:] = 2
    assert view.tolist() == [[1, 1]] * 5
    del view
    assert pool.free_bytes == MIB


def test_memory_may_be_a_little_larger_than_the_result(pool):
    address = bytes_of(pool, 5 * MIB).ctypes.data
    assert bytes_of(pool, 3 * MIB).ctypes.data != address  # the waste would be too large
    fitting = bytes_of(pool, 4 * MIB)
    assert fitting.ctypes.data == address
    assert fitting.size == 4 * MIB


def test_what_waits_is_limited(pool):
    arrays = [bytes_of(pool, 3 * MIB) for _ in range(3)]
    del arrays[:]
    assert pool.free_bytes == 6 * MIB
    large = bytes_of(pool, 9 * MIB)
    del large
    assert pool.free_bytes == 6 * MIB
    pool.limit = 4 * MIB
    assert pool.free_bytes == 3 * MIB
    pool.clear()
    assert pool.free_bytes == 0
    pool.limit = 0
    bytes_of(pool, MIB)
    assert pool.free_bytes == 0
    with pytest.raises(ValueError, match="limit: found -1, expected a number of bytes, 0 or more"):
        pool.limit = -1


def test_the_latest_memory_is_taken_first_and_the_oldest_released(pool):
    pool.limit = 5 * MIB
    arrays = [bytes_of(pool, size * MIB) for size in (1, 1, 3)]
    second = arrays[1].ctypes.data
    for _ in range(3):
        del arrays[0]
    again = bytes_of(pool, MIB)  # the last one that waits is too large for it, and stays the last
    assert again.ctypes.data == second
    pool.limit = 3 * MIB
    assert pool.free_bytes == 3 * MIB
    del again
    assert pool.free_bytes == MIB


def test_memory_that_waits_is_given_up_when_there_is_no_other(pool, monkeypatch):
    bytes_of(pool, MIB)
    block, failures = core_pool._Block, [MemoryError()]

    def scarce(size):
        if failures:
            raise failures.pop()
        return block(size)

    monkeypatch.setattr(core_pool, "_Block", scarce)
    assert bytes_of(pool, 4 * MIB).size == 4 * MIB
    assert pool.free_bytes == 4 * MIB


def test_memory_that_nobody_has(pool, monkeypatch):
    def none(size):
        raise MemoryError("Unable to allocate 4.00 MiB for an array with shape (4194304,) and data type uint8")

    monkeypatch.setattr(core_pool, "_Block", none)
    with pytest.raises(MemoryError, match=r"unable to allocate \d+ bytes for a result of shape \(\d+,\) and data type"):
        bytes_of(pool, 4 * MIB)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_the_owner_of_memory_is_not_copied(take, pool):
    """The copy would give the memory back when it dies."""
    lease = bytes_of(pool, MIB)
    array = lease
    while isinstance(lease, np.ndarray):
        lease = lease.base
    with pytest.raises(TypeError, match="memory of a pool cannot be copied"):
        take(lease)
    assert pool.free_bytes == 0
    take(array)  # but an array in it


def test_cycles_do_not_lose_memory(pool):
    class Node:
        pass

    node = Node()
    node.self, node.result = node, bytes_of(pool, MIB)
    del node
    gc.collect()
    assert pool.free_bytes == MIB


def test_no_memory_is_in_two_arrays(pool):
    def work(seed):
        rng = np.random.default_rng(seed)
        held = []
        for step in range(300):
            result = bytes_of(pool, int(rng.integers(1, 4)) * 1000)
            result[:] = seed
            held.append(result)
            if len(held) > 5:
                array = held.pop(int(rng.integers(len(held))))
                assert (array == seed).all(), step
        return all((array == seed).all() for array in held)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


@pytest.mark.parametrize(("text", "limit"), [("123", 123), (" 0 ", 0), ("", 1 << 28)])
def test_limit_from_the_environment(text, limit, monkeypatch):
    monkeypatch.setenv("NUMBA_DML_POOL_BYTES", text)
    assert dml.MemoryPool().limit == limit
    assert dml.MemoryPool(7).limit == 7


def test_a_bad_limit_in_the_environment_is_told_when_it_is_needed(monkeypatch):
    """Not by the import, and not by a finalizer, whose errors nobody can catch."""
    monkeypatch.setenv("NUMBA_DML_POOL_BYTES", "1GB")
    code = "import numpy, numba_dml; print('imported'); numba_dml.gather(numpy.zeros(1 << 20, 'u1'), range(1 << 20))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "imported\n")
    message = "NUMBA_DML_POOL_BYTES: found '1GB', expected a number of bytes, 0 or more"
    assert done.stderr.endswith(f"ValueError: {message}\n")
    pool = dml.MemoryPool()
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            bytes_of(pool, MIB)
    pool.limit = MIB
    bytes_of(pool, MIB)
    assert pool.free_bytes == MIB
