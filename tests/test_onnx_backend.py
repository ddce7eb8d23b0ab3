"""ONNX's own backend tests of the operators that have the same meaning here, run through the functions.

ONNX ships, for every operator, models of one node with inputs and expected outputs. The adapter below is all that it
takes to run them: ONNX's defaults for absent attributes, and its rule that a NaN is the largest value.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter

import numpy as np
import pytest

import numba_dml as dml

onnx = pytest.importorskip("onnx", reason="the package onnx, which holds these tests, is not installed")

from onnx import parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import numba_dml.onnx  # noqa: E402

# How many tests of each operator onnx 1.23 has.
COUNTS = {
    "ArgMax": 16,
    "ArgMin": 16,
    "CumProd": 9,
    "CumSum": 9,
    "Gather": 4,
    "GatherElements": 3,
    "GatherND": 3,
    "NonZero": 1,
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


def nonzero(inputs):
    return [dml.nonzero_coordinates(*inputs, index_dtype="int64").T]


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


def extreme(function):
    def adapter(inputs, *, axis=0, keepdims=1, select_last_index=0):
        ties = "last" if select_last_index else "first"
        return [function(*inputs, axis=axis, keepdims=bool(keepdims), ties=ties, index_dtype="int64")]

    return adapter


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
    "ArgMax": extreme(dml.argmax),
    "ArgMin": extreme(dml.argmin),
    "CumProd": cumulative_prod,
    "CumSum": cumulative_sum,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": nonzero,
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
    assert len(CASES) >= 95


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


X = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
PLACES = np.zeros((1, 1, 2, 2), int)
WRONG = {
    "ReverseSequence: sequence_lens: found shape (3,), expected (2,)": ("ReverseSequence", X[0, 0], [1, 2, 1]),
    "ReverseSequence: sequence_lens: found shape (1, 2), expected (2,)": ("ReverseSequence", X[0, 0], [[1, 2]]),
    "ReverseSequence: sequence_lens: found shape (), expected (2,)": ("ReverseSequence", X[0, 0], 1),
    "ReverseSequence: input: found 1 dimensions, expected at least 2": ("ReverseSequence", X[0, 0, 0], [1]),
    "ReverseSequence: batch_axis: found 2, expected 0 to 1": ("ReverseSequence <batch_axis = 2>", X[0, 0], [1, 1]),
    "ReverseSequence: time_axis: found -1, expected 0 to 1": ("ReverseSequence <time_axis = -1>", X[0, 0], [1, 1]),
    "ReverseSequence: time_axis: found 1, expected another axis than batch_axis": (
        "ReverseSequence <time_axis = 1>",
        X[0, 0],
        [1, 1],
    ),
    "OneHot: depth: found shape (2,), expected one element": ("OneHot", [0, 1], [3, 4], [0, 1]),
    "OneHot: depth: found shape (0,), expected one element": ("OneHot", [0, 1], [], [0, 1]),
    "OneHot: values: found shape (3,), expected (2,)": ("OneHot", [0, 1], 3, [0, 1, 2]),
    "OneHot: values: found shape (2, 1), expected (2,)": ("OneHot", [0, 1], 3, [[0], [1]]),
    "OneHot: values: found shape (), expected (2,)": ("OneHot", [0, 1], 3, 1),
    "MaxUnpool: X: found 1 dimensions, expected 4": ("MaxUnpool <kernel_shape = [2, 2]>", X[0, 0, 0], PLACES),
    "MaxUnpool: I: found shape (1, 2, 2), expected (1, 1, 2, 2)": (
        "MaxUnpool <kernel_shape = [2, 2]>",
        X,
        PLACES[0],
    ),
    "MaxUnpool: strides: found 1 numbers, expected 2": ("MaxUnpool <kernel_shape = [2, 2], strides = [2]>", X, PLACES),
    "MaxUnpool: pads: found 2 numbers, expected 4": ("MaxUnpool <kernel_shape = [2, 2], pads = [1, 1]>", X, PLACES),
    "MaxUnpool: pads: found [9, 0, 0, 0], expected numbers that leave sizes of at least 0, not (1, 1, -6, 3)": (
        "MaxUnpool <kernel_shape = [2, 2], pads = [9, 0, 0, 0]>",
        X,
        PLACES,
    ),
    "MaxUnpool: output_shape: found [1, 1, 2, 9], expected 4 sizes of at least (1, 1, 3, 3)": (
        "MaxUnpool <kernel_shape = [2, 2]>",
        X,
        PLACES,
        [1, 1, 2, 9],
    ),
    "MaxUnpool: output_shape: found [1, 3, 3], expected 4 sizes": (
        "MaxUnpool <kernel_shape = [2, 2]>",
        X,
        PLACES,
        [1, 3, 3],
    ),
    "MaxUnpool: output_shape: found [[1, 1, 3, 3]], expected 4 sizes": (
        "MaxUnpool <kernel_shape = [2, 2]>",
        X,
        PLACES,
        [[1, 1, 3, 3]],
    ),
    "TopK: K: found shape (2,), expected one element": ("TopK", X, [1, 2]),
    "CumSum: axis: found shape (2,), expected one element": ("CumSum", X, [1, 2]),
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_shapes_are_refused_by_the_names_of_onnx(text):
    node, *inputs = WRONG[text]
    arrays = [x if isinstance(x, np.ndarray) else np.array(x, np.int64) for x in inputs]
    names = "xyz"[: len(arrays)]
    kinds = [f"{'float' if x.dtype == np.float32 else 'int64'} {name}" for name, x in zip(names, arrays, strict=True)]
    outputs = "a, b" if node == "TopK" else "a"
    graph = f"g ({', '.join(kinds)}) => (float a) {{ {outputs} = {node} ({', '.join(names)}) }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{graph}')
    evaluator = ReferenceEvaluator(model, new_ops=numba_dml.onnx.reference_ops())
    with pytest.raises(ValueError, match=re.escape(text)):
        evaluator.run(None, dict(zip(names, arrays, strict=True)))
