"""The CUDA kernels against those of the CPU, bit by bit, on random arrays that are large enough for every region.

NUMBA_DML_TEST_EXAMPLES sets how many cases each function gets (840 for 5,000 cases in all).
"""

import os

import numpy as np
import pytest

from . import reference
from .random_cases import ALL_CASES, outcome

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "60"))
AT_ONCE = 30


@pytest.fixture
def most(target):
    """The most elements of an array: a million reach every kernel on a device, hundreds do in the simulator."""
    if target != "cuda":
        pytest.skip("compares the target cuda with the CPU")
    from numba_dml.cuda.driver import numba

    return 300 if numba.SIMULATED else 1_000_000


@pytest.mark.parametrize("case", ALL_CASES)
@pytest.mark.parametrize("block", range(-(-EXAMPLES // AT_ONCE)))
def test_both_targets_agree(case, block, most):
    for number in range(block * AT_ONCE, min(EXAMPLES, (block + 1) * AT_ONCE)):
        function, inputs, parameters = case(np.random.default_rng([ALL_CASES.index(case), number]), most)
        found, expected = (outcome(function, inputs, {**parameters, "target": t}) for t in ("cuda", "cpu"))
        place = f"case {number}: {parameters}"
        if isinstance(expected, str):
            assert found == expected, place
        else:
            assert all(map(reference.same, found, expected)), place
