"""Arrays of one call that overlap each other anywhere: the result is the one that separate memory would give.

NUMBA_DML_TEST_EXAMPLES sets how many calls each operator gets, times three (100,000 in all: 6000).
"""

import os
import re
from functools import cache

import numpy as np
import pytest
from numba import njit, types

import numba_dml as dml

from .reference import same

CALLS = 3 * int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "100"))
OPERATORS = ["gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "top_k"]


def test_a_copy_that_writes_more_than_the_updates_does():
    memory = np.arange(30.0) * 10
    out, updates = memory[0:6].reshape(1, 6), memory[2:4].reshape(1, 2)
    found = dml.scatter_elements(-np.ones((1, 6)), np.zeros((1, 2), int), updates, axis=0, out=out)
    assert found.tolist() == [[20, 30, -1, -1, -1, -1]]
    memory = np.arange(30.0) * 10
    out, updates = memory[0:6].reshape(1, 6), memory[2:4].reshape(1, 2)
    found = dml.scatter_elements(-np.ones((1, 6)), np.zeros((1, 2), int), updates, axis=0, reduction="add", out=out)
    assert found.tolist() == [[19, 29, -1, -1, -1, -1]]
    memory = np.arange(30) * 10
    out, indices = memory[0:6].reshape(1, 6), memory[2:4].reshape(1, 2)
    indices[...] = 0
    found = dml.scatter_elements(-np.ones((1, 6), int), indices, np.array([[2, 3]]), axis=0, reduction="add", out=out)
    assert found.tolist() == [[1, 2, -1, -1, -1, -1]]


def view(rng, memory, shape):
    """Return an array of this shape somewhere in the memory, packed, transposed or in steps, as far as it fits."""
    kind = rng.integers(4)
    steps = [1 if kind < 2 else int(rng.integers(1, 3)) for _ in shape]
    whole = [n * step for n, step in zip(shape, steps, strict=True)]
    count = int(np.prod(whole))
    if count > memory.size:
        steps, whole, count = [1] * len(shape), list(shape), int(np.prod(shape))
    start = int(rng.integers(0, memory.size - count + 1))
    order = rng.permutation(len(shape)) if kind == 3 else np.arange(len(shape))
    block = memory[start : start + count].reshape([whole[axis] for axis in order]).transpose(np.argsort(order))
    block = block[(..., *(slice(None, None, step) for step in steps))]
    return block[::-1] if kind == 2 and shape else block


def shapes_of(rng, operator, rank):
    """Return the shapes of a, indices, updates and the outputs, and the parameters."""
    most = 60 if rng.integers(8) == 0 else 7
    shape = [int(n) for n in rng.integers(1, most, rank or rng.integers(1, 4))]
    axis = int(rng.integers(len(shape)))
    if operator == "top_k":
        k = int(rng.integers(1, shape[axis] + 1))
        chosen = [*shape[:axis], k, *shape[axis + 1 :]]
        modes = {"mode": str(rng.choice(["largest", "smallest"])), "axis": axis}
        return shape, k, None, [chosen, chosen], modes
    if operator == "gather":
        indices = [int(n) for n in rng.integers(1, most, rng.integers(0, 3))]
        return shape, indices, None, [[*shape[:axis], *indices, *shape[axis + 1 :]]], {"axis": axis}
    if operator.endswith("elements"):
        indices = [int(rng.integers(1, n + 1)) for n in shape]
        indices[axis] = int(rng.integers(1, most))
        parameters = {"axis": axis}
    else:
        batch = int(rng.integers(len(shape)))
        length = int(rng.integers(1, len(shape) - batch + 1))
        indices = [*shape[:batch], int(rng.integers(1, most)), length]
        parameters = {"batch_dims": batch}
    if operator == "gather_elements":
        return shape, indices, None, [indices], parameters
    moved = indices if operator == "scatter_elements" else [*indices[:-1], *shape[batch + length :]]
    if operator == "gather_nd":
        return shape, indices, None, [moved], parameters
    parameters["reduction"] = str(rng.choice(["none", "none", "add", "min"]))
    return shape, indices, moved, [shape], parameters


def call_of(rng, operator, dtype, rank=None):
    """Return the inputs, the outputs and the parameters of a call, all in one memory, and the memory."""
    shape, indices, updates, outs, parameters = shapes_of(rng, operator, rank)
    arrays = [shape, *outs] + [x for x in (indices, updates) if isinstance(x, list)]
    room = max(int(np.prod(x)) for x in arrays)
    memory = np.empty(int(room * rng.uniform(1, 2)) + 8, dtype)
    lowest = min(shape)
    low = 0 if memory.dtype.kind == "u" else -lowest
    memory[...] = rng.integers(low, lowest, memory.size)
    if rng.integers(10) == 0:
        memory[rng.integers(memory.size)] = 100  # a bad index, for most axes
    a = view(rng, memory, shape)
    inputs = [a, view(rng, memory, indices) if isinstance(indices, list) else indices]
    if updates is not None:
        inputs.append(view(rng, memory, updates))
    outs = [view(rng, memory, out) for out in outs]
    if updates is not None and rng.integers(3) == 0:
        outs = [a]
    if operator == "top_k":  # outputs that overlap each other are refused
        outs[1] = np.empty(outs[1].shape, np.intp)
    return memory, inputs, outs, parameters


def apart(inputs):
    return [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]


def check(function, operator, memory, inputs, outs, parameters):
    """Compare a call with the same call in separate memory; after an error all inputs hold what they held."""
    before = apart(inputs)
    try:
        expected = getattr(dml, operator)(*before, **parameters)
    except IndexError as error:
        with pytest.raises(IndexError, match=re.escape(str(error))):
            function(*inputs, out=outs[0], **parameters)
        assert all(same(x, y) for x, y in zip(inputs, before, strict=True)), "inputs changed"
        return
    elsewhere = np.ones(memory.shape, bool)
    for out in outs[:1]:
        start, steps = out.ctypes.data - memory.ctypes.data, [stride // memory.itemsize for stride in out.strides]
        np.ndarray(out.shape, bool, elsewhere, start // memory.itemsize, steps)[...] = False
    others = memory[elsewhere]
    function(*inputs, out=tuple(outs) if len(outs) > 1 else outs[0], **parameters)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert all(same(out.copy(), values) for out, values in zip(outs, expected, strict=True)), "another result"
    assert same(memory[elsewhere], others), "memory outside of the output changed"


@pytest.mark.parametrize("operator", OPERATORS)
def test_overlaps_anywhere(operator):
    for seed in range(CALLS):
        rng = np.random.default_rng([seed, OPERATORS.index(operator)])
        memory, inputs, outs, parameters = call_of(rng, operator, rng.choice(["i1", "i2", "i4", "i8"]))
        try:
            check(getattr(dml, operator), operator, memory, inputs, outs, parameters)
        except AssertionError as error:
            shapes = [(getattr(x, "shape", x), getattr(x, "strides", None)) for x in (*inputs, *outs)]
            raise AssertionError(f"{operator}, seed {seed}: {error}; {memory.dtype} {shapes} {parameters}") from error


def _gather_elements(a, indices, axis, out):
    return dml.gather_elements(a, indices, axis=axis, out=out)


def _scatter_elements(a, indices, updates, axis, out):
    return dml.scatter_elements(a, indices, updates, axis=axis, out=out)


def _add_elements(a, indices, updates, axis, out):
    return dml.scatter_elements(a, indices, updates, axis=axis, reduction="add", out=out)


@cache
def compiled(code):
    array = types.Array(types.int64, 2, "A")  # in any layout: each function is compiled once
    return njit([(*[array] * (code.__code__.co_argcount - 2), types.int64, array)])(code)


@pytest.mark.cpu
@pytest.mark.parametrize(("code", "expected"), [(_scatter_elements, [20, 30]), (_add_elements, [19, 29])])
def test_a_copy_that_writes_more_than_the_updates_do_in_jitted_code(code, expected):
    memory = np.arange(30, dtype=np.int64) * 10
    out, updates = memory[0:6].reshape(1, 6), memory[2:4].reshape(1, 2)
    found = compiled(code)(-np.ones((1, 6), np.int64), np.zeros((1, 2), np.int64), updates, 0, out)
    assert found.tolist() == [[*expected, -1, -1, -1, -1]]


@pytest.mark.cpu
@pytest.mark.parametrize("code", [_gather_elements, _scatter_elements, _add_elements])
def test_overlaps_in_jitted_code(code):
    jitted, arrays = compiled(code), code.__code__.co_argcount - 2
    operator = "gather_elements" if arrays == 2 else "scatter_elements"
    for seed in range(CALLS):
        rng = np.random.default_rng([seed, len(OPERATORS)])
        memory, inputs, outs, parameters = call_of(rng, operator, "i8", rank=2)
        if arrays == 3:
            parameters["reduction"] = "add" if code is _add_elements else "none"
        check(lambda *given, axis, out, **_: jitted(*given, axis, out), operator, memory, inputs, outs, parameters)
