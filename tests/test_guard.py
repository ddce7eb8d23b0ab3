"""Reads and writes past the ends of arrays and of what kernels work with, which no result shows; see tests/guard.py."""

import subprocess

import pytest

from . import guard

pytestmark = [pytest.mark.cpu, pytest.mark.skipif(bool(guard.missing()), reason=guard.missing())]

PAST = """
import ctypes, sys, numpy as np
a = np.zeros(1001, np.uint8)
print(ctypes.string_at(a.ctypes.data, a.size)[-1], flush=True)
ctypes.string_at(a.ctypes.data + int(sys.argv[1]), 1)
"""
SURVEYS = """
import numpy as np, numba_dml as dml
for size, dtype, k in [(20415, "i8", 7), (216428, "f8", 1), (995830, "f4", 11)]:
    line = np.random.default_rng(0).standard_normal((1, size)).astype(dtype)
    assert (dml.top_k(line, k).values == np.sort(line)[:, ::-1][:, :k]).all()
"""


def python(side, *arguments):
    return guard.run("-c", *arguments, side=side, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("side", "offset"), [("high", 1001), ("low", -1)])
def test_the_guard_stops_at_either_end_of_an_array(side, offset):
    found = python(side, PAST, str(offset))
    assert (found.returncode, found.stdout) == (139, "0\n")
    assert found.stderr == f"guard: an access at offset {offset} of a block of 1001 bytes\n"


@pytest.mark.parametrize("side", ["high", "low"])
def test_long_lines_of_a_top_k_are_surveyed_within_their_buffers(side):
    found = python(side, SURVEYS)
    assert found.returncode == 0, found.stderr
