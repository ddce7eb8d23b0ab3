"""Models whose nodes run here, by ONNX's reference evaluator, next to ONNX Runtime and ONNX's own results."""

import numpy as np
import pytest

from .test_onnx_backend import CASES, onnx

ort = pytest.importorskip("onnxruntime", reason="onnxruntime, to compare with, is not installed")

from onnx import parser  # noqa: E402
from onnx.inliner import inline_local_functions  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import numba_dml.onnx  # noqa: E402

# What follows a detector: the best boxes by their best class, and the scores without them.
HEAD = """
<ir_version: 8, opset_import: ["" : 18]>
head (float[B,N,4] boxes, float[B,N,C] logits, int64[1] k)
  => (float[B,K,4] best_boxes, float[B,K] best, int64[B,K] indices, float[B,N] left)
{
  last = Constant <value_ints = [-1]> ()
  scores = ReduceMax <keepdims = 0> (logits, last)
  best, indices = TopK <axis = 1> (scores, k)
  anchors = Unsqueeze (indices, last)
  best_boxes = GatherND <batch_dims = 1> (boxes, anchors)
  shape = Shape (anchors)
  one = Constant <value_ints = [1]> ()
  ones = Expand (one, shape)
  first = Constant <value_int = 0> ()
  images = CumSum <exclusive = 1> (ones, first)
  tuples = Concat <axis = -1> (images, anchors)
  gone = Constant <value = float {-1.0}> ()
  best_shape = Shape (indices)
  updates = Expand (gone, best_shape)
  left = ScatterND (scores, tuples, updates)
}
"""


@pytest.fixture(scope="module")
def head():
    model = parser.parse_model(HEAD)
    onnx.checker.check_model(model)
    return model


def test_a_detection_head(head):
    rng = np.random.default_rng(0)
    feeds = {
        "boxes": rng.random((3, 200, 4), dtype=np.float32),
        "logits": rng.random((3, 200, 5), dtype=np.float32).round(1),  # with many ties
        "k": np.array([20]),
    }
    results = ReferenceEvaluator(head, new_ops=numba_dml.onnx.reference_ops()).run(None, feeds)
    expected = ort.InferenceSession(head.SerializeToString()).run(None, feeds)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted, strict=True)
    best_boxes, best, indices, left = results
    assert (left == -1).sum() == 60
    scores = feeds["logits"].max(-1)
    np.testing.assert_array_equal(indices, np.argsort(-scores, axis=1, kind="stable")[:, :20])
    np.testing.assert_array_equal(best, np.take_along_axis(scores, indices, 1))
    np.testing.assert_array_equal(best_boxes, np.take_along_axis(feeds["boxes"], indices[..., None], 1))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_node(case):
    """ONNX's own test models, as a whole."""
    evaluator = ReferenceEvaluator(case.model, new_ops=numba_dml.onnx.reference_ops())
    for inputs, expected in case.data_sets:
        names = [i.name for i in case.model.graph.input]
        results = evaluator.run(None, dict(zip(names, inputs, strict=True)))
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, wanted, strict=True)


@pytest.mark.parametrize(
    ("opset", "attributes", "inputs"),
    [
        (1, "<k = 2, axis = 0>", "(x)"),
        (10, "<axis = 0>", "(x, k)"),
        (11, "<axis = 0, largest = 0, sorted = 0>", "(x, k)"),
    ],
)
def test_top_k_of_every_opset(opset, attributes, inputs):
    model = parser.parse_model(
        f'<ir_version: 4, opset_import: ["" : {opset}]>\n'
        "best (float[n] x, int64[1] k) => (float[m] values, int64[m] indices)\n"
        f"{{ values, indices = TopK {attributes} {inputs} }}"
    )
    x = np.array([1, 3, np.nan, 3], np.float32)
    values, indices = ReferenceEvaluator(model, new_ops=numba_dml.onnx.reference_ops()).run(
        None, {"x": x, "k": np.array([2])}
    )
    expected = [0, 1] if opset == 11 else [2, 1]
    np.testing.assert_array_equal(indices, expected, strict=True)
    np.testing.assert_array_equal(values, x[expected])


def test_the_operators_are_those_of_the_target():
    ops = numba_dml.onnx.reference_ops()
    assert ops is numba_dml.onnx.reference_ops()
    assert ops is not numba_dml.onnx.reference_ops("cuda")
    assert sorted(op.__name__ for op in ops) == [
        "ArgMax",
        "ArgMin",
        "CumProd",
        "CumSum",
        "Gather",
        "GatherElements",
        "GatherND",
        "MaxUnpool",
        "NonZero",
        "OneHot",
        "ReverseSequence",
        "Scatter",
        "ScatterElements",
        "ScatterND",
        "TopK",
    ]


@pytest.mark.parametrize("target", ["gpu", True, ["cpu"]])
def test_an_unknown_target_is_refused_at_once(target):
    with pytest.raises(ValueError, match="reference_ops") as caught:
        numba_dml.onnx.reference_ops(target)
    assert str(caught.value) == f"reference_ops: target: found {target!r}, expected one of 'cpu', 'cuda'"


def test_functions_of_a_model_are_inlined_first():
    """Their nodes do not run here, as the docstring says: the evaluator does not tell them of `new_ops`."""
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 18, "own" : 1]>
        g (float[n] x, int64[m] i) => (float[m] y) { y = own.pick (x, i) }
        <domain: "own", opset_import: ["" : 18]>
        pick (x, i) => (y) { y = Gather (x, i) }
        """
    )
    feeds = {"x": np.arange(3, dtype=np.float32), "i": np.array([2, 7])}
    for known, text in (
        (model, "index 7 is out of bounds"),
        (inline_local_functions(model), r"gather: indices\[1\] = 7"),
    ):
        evaluator = ReferenceEvaluator(known, new_ops=numba_dml.onnx.reference_ops())
        with pytest.raises(IndexError, match=text):
            evaluator.run(None, feeds)


def test_a_bad_index_says_where():
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, int64[m] i) => (float[m] y) { y = Gather (x, i) }'
    )
    evaluator = ReferenceEvaluator(model, new_ops=numba_dml.onnx.reference_ops())
    with numba_dml.config(bounds="drop"), pytest.raises(IndexError, match=r"indices\[1\] = 7 is out of"):
        evaluator.run(None, {"x": np.zeros(3, np.float32), "i": np.array([0, 7])})


def run(text, **feeds):
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    return ReferenceEvaluator(model, new_ops=numba_dml.onnx.reference_ops()).run(None, feeds)[0]


def test_max_unpool_with_pads_and_a_larger_shape():
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    i = np.array([[[[0, 2], [4, 8]]]])
    text = "(float[1,1,2,2] x, int64[1,1,2,2] i, int64[4] s) => (float[a,b,c,d] y)"
    node = "y = MaxUnpool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>"
    small = run(f"g {text} {{ {node} (x, i) }}", x=x, i=i, s=np.zeros(4, int))
    assert small[0, 0].tolist() == [[1, 0, 2], [0, 3, 0], [0, 0, 4]]
    large = run(f"g {text} {{ {node} (x, i, s) }}", x=x, i=i, s=np.array([1, 1, 4, 5]))
    assert large[0, 0].tolist() == [[1, 0, 2, 0, 0], [0, 3, 0, 0, 0], [0, 0, 4, 0, 0], [0] * 5]


def test_lengths_and_places_out_of_range():
    x = np.arange(3, dtype=np.float32).reshape(3, 1)
    text = "g (float[3,1] x, int64[1] n) => (float[a,b] y) { y = ReverseSequence (x, n) }"
    assert run(text, x=x, n=np.array([9])).tolist() == [[2], [1], [0]]
    text = "g (float[2] i, int64[1] d, int32[2] v) => (int32[a,b] y) { y = OneHot (i, d, v) }"
    found = run(text, i=np.array([1.5, 7], np.float32), d=np.array([2]), v=np.array([3, 4], np.int32))
    np.testing.assert_array_equal(found, np.array([[3, 4], [3, 3]], np.int32), strict=True)
    text = text.replace("int64[1] d", "float[1] d")
    for depth in (np.inf, np.nan):
        with pytest.raises(ValueError, match=f"OneHot: depth: found {depth}, expected a number of classes"):
            run(text, i=np.zeros(2, np.float32), d=np.array([depth], np.float32), v=np.array([3, 4], np.int32))
