"""The targets to test, and how Hypothesis runs."""

import os
import warnings

import pytest
from hypothesis import HealthCheck, settings

import numba_dml as dml

# A first call compiles for seconds, so no deadline; on shared machines timing says nothing anyway.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

#: A target that is named here and cannot be used is an error, not a skip.
TARGETS = os.environ.get("NUMBA_DML_TEST_TARGETS", "cpu").split(",")


@pytest.fixture(scope="session", params=TARGETS)
def target(request):
    """Name a target that works."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dml.gather([1.0], [0], target=request.param)
    return request.param
