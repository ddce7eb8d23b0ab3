"""Reads and writes past the ends of arrays and of what kernels work with, which no result shows; see tests/guard.py."""

import subprocess

import pytest

from . import guard

pytestmark = [pytest.mark.cpu, pytest.mark.skipif(bool(guard.missing()), reason=guard.missing())]

PAST = """
import ctypes, sys, numba, numpy as np
from tests import guard
guard.mark_arrays()
a = {}
print(ctypes.string_at(a.ctypes.data, a.size)[-1], flush=True)
ctypes.string_at(a.ctypes.data + int(sys.argv[1]), 1)
"""
NUMPY, NUMBA = "np.ones(1001, np.uint8)", "numba.njit(lambda: np.ones(1024, np.uint8))()"
SURVEYS = """
import numpy as np, numba_dml as dml
from tests import guard
guard.mark_arrays()
for size, dtype, k in [(20415, "i8", 7), (158965, "i8", 1), (216428, "f8", 1), (293894, "i2", 31), (995830, "f4", 11)]:
    line = np.random.default_rng(0).standard_normal((1, size)).astype(dtype)
    assert (dml.top_k(line, k).values == np.sort(line)[:, ::-1][:, :k]).all()
"""

EXTREMES = """
import numpy as np, numba_dml as dml
from tests import guard
guard.mark_arrays()
for shape in [(5,), (16,), (17,), (300,), (7, 3), (9, 5), (40, 33), (50, 3), (900, 3), (300, 65), (30, 70), (3, 5000)]:
    for dtype in ("i1", "f2", "f4", "i8"):
        a = np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)
        for axis in range(len(shape)):
            assert (dml.argmax(a, axis=axis) == np.argmax(a, axis)).all()
            assert (dml.argmax(a[::-1], axis=axis) == np.argmax(a[::-1], axis)).all()
"""


def python(side, *arguments):
    return guard.run("-c", *arguments, side=side, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("side", "array", "offset", "said"),
    [("high", NUMPY, 1001, "1001 of a block of 1001"), ("low", NUMPY, -1, "-1 of a block of 1001")]
    + [("high", NUMBA, 1024, "1072 of a block of 1072")],
)
def test_the_guard_stops_at_either_end_of_an_array(side, array, offset, said):
    found = python(side, PAST.format(array), str(offset))
    assert (found.returncode, found.stdout) == (139, "1\n")
    assert found.stderr == f"guard: an access at offset {said} bytes\n"


@pytest.mark.parametrize("side", ["high", "low"])
@pytest.mark.parametrize("program", [SURVEYS, EXTREMES], ids=["top_k", "argmax"])
def test_vectors_stay_within_arrays_and_buffers(side, program):
    found = python(side, program)
    assert found.returncode == 0, found.stderr
