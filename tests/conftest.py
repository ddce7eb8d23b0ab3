"""The targets to test, and how Hypothesis runs."""

import gc
import os
import sys
import warnings
from importlib import import_module

import pytest
from hypothesis import HealthCheck, settings
from numba.core import event

import numba_dml as dml

from . import guard, simulator

# A first call compiles for seconds, so no deadline; on shared machines timing says nothing anyway.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("suite")


class Untraced(event.Listener):
    """No tracing while Numba compiles what coverage cannot see: that takes twice as long with coverage's tracer.

    What stands for our functions in jitted code builds it while users' functions are compiled, so these are traced; but
    not for other types again.
    """

    def __init__(self):
        self.depth = 0
        self.trace = None
        self.traced = set()

    def on_start(self, event):
        """Stop before the outermost function."""
        function = event.data["dispatcher"].py_func
        module = function.__module__
        ours = module.startswith(("numba_dml.cpu.", "numba_dml._jit.")) and module != "numba_dml.cpu.jitted.functions"
        if self.depth or ours or function.__code__ in self.traced:
            self.depth += 1
            if self.depth == 1:
                self.trace = sys.gettrace()
                sys.settrace(None)
        elif module.startswith("tests."):
            self.traced.add(function.__code__)

    def on_end(self, event):
        """Go on after it, as many calls deep as before: a tracer counts them."""
        if self.depth:
            self.depth -= 1
            if not self.depth:
                sys.settrace(self.trace)


event.register("numba:compile", Untraced())
# Compilers make millions of objects, most of which stay: to look for garbage took a tenth of the time of their tests.
gc.set_threshold(100_000, 50, 100)
if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    simulator.wait_for_threads()

#: A target that is named here and cannot be used is an error, not a skip.
TARGETS = os.environ.get("NUMBA_DML_TEST_TARGETS", "cpu").split(",")
FUNCTIONS = [
    dml.argmax,
    dml.argmin,
    dml.cumulative_prod,
    dml.cumulative_sum,
    dml.gather,
    dml.gather_elements,
    dml.gather_nd,
    dml.nonzero_coordinates,
    dml.max_unpool,
    dml.one_hot,
    dml.reverse_subsequences,
    dml.scatter_elements,
    dml.scatter_nd,
    dml.top_k,
]


os.environ.pop("NUMBA_DML_QUIET", None)  # tests look at what is said
if "PYTEST_XDIST_WORKER" in os.environ:  # threads that wait must not spin: each would steal a core from other processes
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes three quarters of a GPU's memory else
if "GUARD_SIDE" in os.environ:
    guard.mark_arrays()
# What is tested are our kernels, for new shapes too.
import_module("numba_dml.ops.gather").FIRST_BY_NUMPY = 0


@pytest.fixture(scope="session", params=TARGETS)
def usable_target(request):
    """Name a target that works."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dml.gather([1.0], [0], target=request.param)
    return request.param


@pytest.fixture
def simulated(usable_target):
    """Whether kernels run in CUDA's simulator: what a device does at once may take it seconds."""
    return usable_target == "cuda" and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


@pytest.fixture(autouse=True)
def target(request, usable_target):
    """Make a target the default one, for functions and operators; tests of the CPU's own parts skip the others."""
    if usable_target != "cpu" and request.node.get_closest_marker("cpu"):
        pytest.skip("about the CPU only")
    default = None if usable_target == "cpu" else usable_target
    for function in (*FUNCTIONS, dml.compile_operator):
        function.__kwdefaults__["target"] = default
    yield usable_target
    for function in (*FUNCTIONS, dml.compile_operator):
        function.__kwdefaults__["target"] = None


@pytest.fixture
def quiet(tmp_path, monkeypatch):
    """Work in a directory of its own, and say nothing of compilations."""
    monkeypatch.chdir(tmp_path)
    with dml.config(quiet=True):
        yield
