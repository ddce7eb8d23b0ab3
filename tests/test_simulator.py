"""The package in numba-cuda's simulator: what it replaces there, and what it leaves alone."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import numba_dml


@pytest.fixture(autouse=True)
def in_the_simulator(target, simulated):
    if target != "cuda" or not simulated:
        pytest.skip("about the simulator")


def test_each_function_that_needs_a_gpu_has_one_in_the_simulator():
    from numba_dml.cuda.driver import simulator

    found = set()
    for path in (Path(numba_dml.__file__).parent / "cuda").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            decorators = {ast.unparse(one).partition("(")[0] for one in node.decorator_list}
            if decorators & {"on_gpu", "in_simulator"}:
                found.add(node.name)
            if "on_gpu" in decorators:
                wanted = [argument.arg for argument in node.args.args]
                parameters = inspect.signature(getattr(simulator, node.name)).parameters
                assert list(parameters)[: len(wanted)] == wanted, node.name
    assert len(found) > 20


def test_kernels_of_others_stay_as_they_are():
    """Importing the package, and calling it, changes nothing that numba-cuda's simulator does."""
    code = """
import numba_dml.cuda.driver.numba as ours
from numba.cuda.simulator import kernel, kernelapi, api

def parts():
    modules = [kernel, kernelapi, api]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return {(owner.__name__, name): value for owner in [*modules, *classes] for name, value in vars(owner).items()
            if callable(value)}

before = parts()
import numpy as np
import numba_dml as dml
dml.gather(np.arange(9.0), np.array([3, 1]), target="cuda")
dml.top_k(np.arange(9.0), 2, target="cuda")
after = parts()
assert before.keys() == after.keys()
assert all(after[name] is value for name, value in before.items())
"""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=300)
