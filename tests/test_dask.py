"""The functions on Dask arrays against the same calls in memory, bit by bit.

NUMBA_DML_TEST_EXAMPLES sets how many random cases each function gets (334 for 2,000 in all).
"""

import os

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

from . import reference  # noqa: E402
from .random_cases import CASES, outcome  # noqa: E402

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "34"))
pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def random_chunks(rng, shape):
    """Return chunk sizes: one chunk, equal ones, or any, of which some are empty."""
    chunks = []
    for size in shape:
        kind = rng.integers(4)
        if kind == 0 or size < 2:
            chunks.append((size,))
        elif kind < 3:
            chunks.append(da.core.normalize_chunks(int(rng.integers(max(1, size // 5), size + 1)), (size,))[0])
        else:
            cuts = np.sort(rng.integers(0, size + 1, rng.integers(1, 5)))
            chunks.append(tuple(np.diff([0, *cuts, size]).tolist()))
    return tuple(chunks)


def chunked(rng, inputs):
    """Return inputs of which some, and one at least, are Dask arrays."""
    arrays = [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray)]
    chosen = [i for i in arrays if rng.random() < 0.7] or [arrays[0]]
    return tuple(da.from_array(x, random_chunks(rng, x.shape)) if i in chosen else x for i, x in enumerate(inputs))


def computed(results):
    return dask.compute(*results)


@pytest.mark.parametrize("case", CASES)
def test_random_calls(case):
    for number in range(EXAMPLES):
        rng = np.random.default_rng([CASES.index(case), number])
        function, inputs, parameters = case(rng, int(rng.choice([50, 2000])))
        expected = outcome(function, inputs, parameters)
        lazy = function(*chunked(rng, inputs), **parameters)
        lazy = list(lazy) if isinstance(lazy, tuple) else [lazy]
        place = f"case {number}: {parameters}"
        if isinstance(expected, str):
            with pytest.raises(IndexError, match="is out of range"):
                dask.compute(*lazy)
            continue
        for result, array in zip(lazy, expected, strict=True):
            assert (result.shape, result.dtype) == (array.shape, array.dtype), place
        found = dask.compute(*lazy)
        assert all(map(reference.same, found, expected)), place
