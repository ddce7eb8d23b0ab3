"""ONNX's own backend tests of the operators that have the same meaning here, run through the functions.

ONNX ships, for every operator, models of one node with inputs and expected outputs. The adapter below is all that it
takes to run them: ONNX's defaults for absent attributes, and its rule that a NaN is the largest value.
"""

from __future__ import annotations

import importlib
from collections import Counter

import numpy as np
import pytest

import numba_dml as dml

onnx = pytest.importorskip("onnx", reason="the package onnx, which holds these tests, is not installed")

# How many tests of each operator onnx 1.23 has.
COUNTS = {
    "CumProd": 9,
    "CumSum": 9,
    "Gather": 4,
    "GatherElements": 3,
    "GatherND": 3,
    "MaxUnpool": 2,
    "OneHot": 6,
    "ReverseSequence": 3,
    "Scatter": 2,
    "ScatterElements": 7,
    "ScatterND": 7,
    "TopK": 7,
}
if not onnx.defs.has("CumProd"):  # before opset 26
    del COUNTS["CumProd"]


def collect():
    """Return ONNX's single-node tests of the operators in `COUNTS`."""
    from onnx.backend.test.case import node

    # A module for each operator, which builds its cases when it is imported. All of them, as `collect_testcases` has
    # them, take 8 s.
    for operator in COUNTS:
        importlib.import_module(f"{node.__name__}.{operator.lower()}")
    cases = node._NodeTestCases
    return [c for c in cases if len(c.model.graph.node) == 1 and c.model.graph.node[0].op_type in COUNTS]


def gather(inputs, *, axis=0):
    return [dml.gather(*inputs, axis=axis)]


def gather_elements(inputs, *, axis=0):
    return [dml.gather_elements(*inputs, axis=axis)]


def gather_nd(inputs, *, batch_dims=0):
    return [dml.gather_nd(*inputs, batch_dims=batch_dims)]


def scatter(inputs, *, axis=0):
    return [dml.scatter_elements(*inputs, axis=axis)]


def scatter_elements(inputs, *, axis=0, reduction=b"none"):
    return [dml.scatter_elements(*inputs, axis=axis, reduction=reduction.decode())]


def scatter_nd(inputs, *, reduction=b"none"):
    return [dml.scatter_nd(*inputs, reduction=reduction.decode())]


def top_k(inputs, *, axis=-1, largest=1, sorted=1):
    data, k = inputs
    mode = "largest" if largest else "smallest"
    return list(
        dml.top_k(data, k.item(), axis=axis, mode=mode, sorted=bool(sorted), nan="largest", index_dtype="int64")
    )


def cumulative_sum(inputs, **flags):
    return [dml.cumulative_sum(inputs[0], axis=inputs[1].item(), dtype=inputs[0].dtype, **flags)]


def cumulative_prod(inputs, **flags):
    return [dml.cumulative_prod(inputs[0], axis=inputs[1].item(), dtype=inputs[0].dtype, **flags)]


def max_unpool(inputs, *, kernel_shape, strides):
    """Unpool to the shape that follows from the attributes: an output_shape has that in its corner."""
    a, indices, *output_shape = inputs
    inner = [(n - 1) * step + size for n, step, size in zip(a.shape[2:], strides, kernel_shape, strict=True)]
    found = dml.max_unpool(a, indices, (*a.shape[:2], *inner))
    if output_shape:
        missing = output_shape[0] - found.shape
        found = np.pad(found, [(0, n) for n in missing])
    return [found]


def one_hot(inputs, *, axis=-1):
    indices, depth, (off, on) = inputs
    return [dml.one_hot(indices.astype("i8"), int(depth), axis=axis, on_value=on, off_value=off, bounds="drop")]


def reverse_sequence(inputs, *, batch_axis=1, time_axis=0):
    a, lengths = inputs
    return [dml.reverse_subsequences(a, lengths.reshape((-1, 1) if batch_axis == 0 else (1, -1)), axis=time_axis)]


ADAPTERS = {
    "CumProd": cumulative_prod,
    "CumSum": cumulative_sum,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "MaxUnpool": max_unpool,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "Scatter": scatter,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
}

CASES = collect()


def test_every_operator_is_collected():
    found = Counter(case.model.graph.node[0].op_type for case in CASES)
    assert found.keys() == COUNTS.keys()


@pytest.mark.skipif(
    tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23), reason="the counts are those of onnx 1.23 and later"
)
def test_no_case_is_missing():
    found = Counter(case.model.graph.node[0].op_type for case in CASES)
    assert {name: min(found[name], count) for name, count in COUNTS.items()} == COUNTS
    assert len(CASES) >= 62


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_node(case):
    node = case.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert case.data_sets
    for inputs, expected in case.data_sets:
        before = [x.copy() for x in inputs]
        results = ADAPTERS[node.op_type](inputs, **attributes)
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            assert result.dtype == wanted.dtype
            np.testing.assert_array_equal(result, wanted, strict=True)
        for x, y in zip(inputs, before, strict=True):
            np.testing.assert_array_equal(x, y, strict=True)
