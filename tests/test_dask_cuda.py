"""Dask arrays of CuPy's arrays: chunks stay on their GPU, and have the bits of the same call on the CPU."""

import os

import numpy as np
import pytest

import numba_dml as dml

from . import reference
from .random_cases import CASES, outcome
from .test_dask import as_list, random_chunks

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.cpu  # the fixture of targets would name one, and chunks have theirs
EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "34"))
#: What CuPy has no arrays of.
UNKNOWN = ("bfloat16",)


@pytest.fixture(scope="module")
def cupy():
    """CuPy, with a GPU."""
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"needs a GPU: {error}")
    assert count
    return cupy


def on_device(cupy, value):
    if not isinstance(value, np.ndarray):
        return value
    return cupy.asarray(np.asarray(value, value.dtype.newbyteorder("=")))


@pytest.mark.parametrize("case", CASES)
def test_random_calls(case, cupy):
    for number in range(EXAMPLES):
        rng = np.random.default_rng([CASES.index(case), number])
        function, inputs, parameters = case(rng, int(rng.choice([50, 2000])))
        if any(getattr(getattr(x, "dtype", None), "name", "") in UNKNOWN for x in (inputs[0], *parameters.values())):
            continue
        expected = outcome(function, inputs, parameters)
        arrays = [
            da.from_array(on_device(cupy, x), random_chunks(rng, x.shape), asarray=False)
            if isinstance(x, np.ndarray) and (i != 1 or rng.random() < 0.5)  # indices may be NumPy's
            else x
            for i, x in enumerate(inputs)
        ]
        results = as_list(function(*arrays, **parameters))
        assert all(isinstance(result._meta, cupy.ndarray) for result in results)
        if isinstance(expected, str):
            with pytest.raises(IndexError, match="is out of range"):
                dask.compute(*results, scheduler="synchronous")
            continue
        found = dask.compute(*results, scheduler="synchronous")
        for result, array in zip(found, expected, strict=True):
            assert isinstance(result, cupy.ndarray)
            assert reference.same(cupy.asnumpy(result), array), f"case {number}: {parameters}"


def make(seed):
    import cupy

    return cupy.asarray(np.random.default_rng(seed).standard_normal((20, 5000), np.float32))


@pytest.mark.filterwarnings("ignore")
def test_one_worker_per_device(cupy, monkeypatch):
    """Two workers, on two GPUs where there are two; they share one otherwise."""
    distributed = pytest.importorskip("distributed")
    count = cupy.cuda.runtime.getDeviceCount()
    workers = {
        i: {
            "cls": distributed.Nanny,
            "options": {"nthreads": 1, "env": {"CUDA_VISIBLE_DEVICES": str(i % count)}},
        }
        for i in range(2)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False}}
    whole = np.concatenate(
        [np.random.default_rng(seed).standard_normal((20, 5000), np.float32) for seed in range(8)], 1
    )
    with distributed.SpecCluster(workers, scheduler) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        parts = [
            da.from_delayed(dask.delayed(make)(seed), (20, 5000), meta=cupy.empty((0, 0), np.float32))
            for seed in range(8)
        ]
        values, indices = dask.compute(*dml.top_k(da.concatenate(parts, axis=1), 100))
    expected = dml.top_k(whole, 100)
    assert reference.same(cupy.asnumpy(values), expected.values)
    assert reference.same(cupy.asnumpy(indices), expected.indices)
