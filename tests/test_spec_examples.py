"""The examples of the operators' reference pages, as literal tables, and the shape rules that they illustrate.

Every example runs through the function (on the sizes that count) and through a compiled descriptor (on DirectML's
padded sizes) that was validated strictly, at several feature levels. The lowest levels know four dimensions only: there
the same examples run with leading 1s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import numba_dml as dml
from numba_dml import AxisDirection, DescriptorError, FeatureLevel, TensorDesc

# (feature level, data, indices): types that the level accepts for every operator.
LEVELS = [
    ("FL_3_0", "float32", "uint32"),
    ("FL_3_0", "int8", "int32"),
    ("FL_4_1", "int64", "int64"),
    ("FL_6_4", "float64", "uint64"),
]
TOP_K_LEVELS = [
    ("FL_3_1", "float16", "uint32"),
    ("FL_4_1", "int8", "uint32"),
    ("FL_5_0", "uint64", "uint64"),
    ("FL_6_4", "float32", "uint32"),
]


def exact(result, expected, dtype):
    np.testing.assert_array_equal(result, np.asarray(expected).astype(dtype), strict=True)


def tensor(array):
    return TensorDesc(array.dtype, array.shape)


def junk(shape, dtype):
    """An output that holds something else: 77 is in no example."""
    return np.full(shape, 77, dtype)


def call_operator(descriptor, level, arrays, expected):
    """Run a strictly validated operator without and with `out`; neither touches the inputs."""
    operator = dml.compile_operator(descriptor, feature_level=FeatureLevel[level])
    before = [x.copy() for x in arrays]
    exact(operator(*arrays), expected, arrays[0].dtype)
    out = junk(np.shape(expected), arrays[0].dtype)
    assert operator(*arrays, out=out) is out
    exact(out, expected, arrays[0].dtype)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy, strict=True)


def call_function(function, arrays, expected, **parameters):
    """Run a function without and with `out`; neither touches the inputs."""
    before = [x.copy() for x in arrays]
    exact(function(*arrays, **parameters), expected, arrays[0].dtype)
    out = junk(np.shape(expected), arrays[0].dtype)
    assert function(*arrays, out=out, **parameters) is out
    exact(out, expected, arrays[0].dtype)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy, strict=True)


def in_four_dimensions(*values):
    return [np.array(v, ndmin=4) for v in values]


# ---------------------------------------------------------------------------------------------------------- GATHER


@dataclass(frozen=True)
class Gather:
    name: str
    input: object
    indices: object
    axis: int
    index_dimensions: int
    output: object
    # The function's words for it: shape of a, shape of indices, axis, shape of the result.
    function: tuple


GATHER = [
    Gather("1: one dimension", [11, 12, 13, 14], [3, 1, 3, 0, 2], 0, 1, [14, 12, 14, 11, 13], ((4,), (5,), 0, (5,))),
    Gather(
        "2: rows",
        [[1, 2], [3, 4], [5, 6]],
        [[0, 1, 1, 2]],
        0,
        1,
        [[1, 2], [3, 4], [3, 4], [5, 6]],
        ((3, 2), (4,), 0, (4, 2)),
    ),
    Gather(
        "3: columns",
        [[1, 2], [3, 4], [5, 6]],
        [[1, 0]],
        1,
        1,
        [[2, 1], [4, 3], [6, 5]],
        ((3, 2), (2,), 1, (3, 2)),
    ),
    Gather(
        "4: the leading 1 is cropped",
        [[[1, 2, 3], [4, 5, 6], [7, 8, 9]]],
        [[[0, 2]]],
        2,
        2,
        [[[1, 3]], [[4, 6]], [[7, 9]]],
        ((3, 3), (1, 2), 1, (3, 1, 2)),
    ),
    Gather(
        "5: two index dimensions",
        [[[1, 2], [3, 4], [5, 6]]],
        [[[0, 1], [1, 2]]],
        1,
        2,
        [[[1, 2], [3, 4]], [[3, 4], [5, 6]]],
        ((3, 2), (2, 2), 0, (2, 2, 2)),
    ),
    # No index dimension: the axis goes, and a leading 1 comes.
    Gather("index_dimensions 0, rows", [[1, 2], [3, 4], [5, 6]], [[1]], 0, 0, [[3, 4]], ((3, 2), (), 0, (2,))),
    Gather("index_dimensions 0, columns", [[1, 2], [3, 4], [5, 6]], [[1]], 1, 0, [[2, 4, 6]], ((3, 2), (), 1, (3,))),
    Gather(
        "index_dimensions 0, inner axis",
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        [[[0]]],
        1,
        0,
        [[[1, 2], [5, 6]]],
        ((2, 2, 2), (), 1, (2, 2)),
    ),
    # All dimensions of the indices count: {1} ++ {1, 2} loses its leading 1.
    Gather("index_dimensions DC, cropped", [[5, 6, 7, 8]], [[3, 1]], 1, 2, [[8, 6]], ((4,), (1, 2), 0, (1, 2))),
    # {1} ++ {1, 1, 2} in three dimensions: one leading 1 is lost and two stay.
    Gather("index_dimensions DC of 3", [[[5, 6, 7]]], [[[2, 0]]], 2, 3, [[[7, 5]]], ((3,), (1, 1, 2), 0, (1, 1, 2))),
]
gather_cases = pytest.mark.parametrize("case", GATHER, ids=lambda c: c.name)


@gather_cases
@pytest.mark.parametrize(("data", "index"), [("int32", "uint32"), ("float64", "int64")])
def test_gather_function(case, data, index):
    shape, index_shape, axis, result_shape = case.function
    a = np.array(case.input, data).reshape(shape)
    indices = np.array(case.indices, index).reshape(index_shape)
    call_function(dml.gather, (a, indices), np.reshape(case.output, result_shape), axis=axis)
    call_function(dml.gather, (a, indices), np.reshape(case.output, result_shape), axis=axis - len(shape))


@gather_cases
@pytest.mark.parametrize(("level", "data", "index"), LEVELS)
def test_gather_operator(case, level, data, index):
    a, indices, output = np.array(case.input, data), np.array(case.indices, index), np.array(case.output, data)
    descriptor = dml.GatherDesc(tensor(a), tensor(indices), tensor(output), case.axis, case.index_dimensions)
    call_operator(descriptor, level, (a, indices), case.output)


@gather_cases
@pytest.mark.parametrize(("level", "data"), [("FL_1_0", "float32"), ("FL_2_0", "float16"), ("FL_2_1", "uint8")])
def test_gather_operator_in_four_dimensions(case, level, data):
    a, indices, output = in_four_dimensions(case.input, case.indices, case.output)
    a, indices, output = a.astype(data), indices.astype("uint32"), output.astype(data)
    axis = case.axis + 4 - np.ndim(case.input)
    descriptor = dml.GatherDesc(tensor(a), tensor(indices), tensor(output), axis, case.index_dimensions)
    call_operator(descriptor, level, (a, indices), output)


@pytest.mark.parametrize(
    ("input", "indices", "output", "axis", "index_dimensions", "field"),
    [
        # A surplus dimension that is not 1: {2} ++ {1, 3}, {2} ++ {2, 3}.
        ((2, 4), (1, 3), (1, 3), 1, 2, "output_tensor"),
        ((2, 4), (2, 3), (2, 3), 1, 2, "output_tensor"),
        # Index dimensions that do not count must be 1.
        ((4, 2), (2, 3), (3, 2), 0, 1, "indices_tensor"),
        ((4, 2), (1, 3), (1, 2), 0, 0, "indices_tensor"),
        # The output has one right size, also where the element count is the same.
        ((3, 2), (1, 4), (2, 4), 0, 1, "output_tensor"),
        ((3, 2), (1, 1), (2, 1), 0, 0, "output_tensor"),
        # axis in [0, DC), index_dimensions in [0, DC].
        ((3, 2), (1, 4), (4, 2), 2, 1, "axis"),
        ((3, 2), (1, 4), (4, 2), -1, 1, "axis"),
        ((3, 2), (1, 4), (4, 2), 0, 3, "index_dimensions"),
        ((3, 2), (1, 4), (4, 2), 0, -1, "index_dimensions"),
    ],
)
def test_gather_shapes_refused(input, indices, output, axis, index_dimensions, field):
    with pytest.raises(DescriptorError) as caught:
        dml.GatherDesc(
            TensorDesc("int32", input),
            TensorDesc("uint32", indices),
            TensorDesc("int32", output),
            axis,
            index_dimensions,
        )
    assert caught.value.field == field


def test_gather_function_keeps_what_the_descriptor_crops():
    a = np.array([[[1, 2, 3], [4, 5, 6], [7, 8, 9]]])
    exact(dml.gather(a, np.array([[0, 2]]), axis=2), [[[[1, 3]], [[4, 6]], [[7, 9]]]], a.dtype)


# ------------------------------------------------------------------------------------------------- GATHER_ELEMENTS

THREE_BY_THREE = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
# name, input, indices, axis, output
GATHER_ELEMENTS = [
    ("the page's", THREE_BY_THREE, [[1, 2, 0], [2, 0, 0]], 0, [[4, 8, 3], [7, 2, 3]]),
    ("axis 1", THREE_BY_THREE, [[1, 2], [2, 0], [0, 0]], 1, [[2, 3], [6, 4], [7, 7]]),
    ("one dimension", [10, 20, 30], [2, 2, 0, 1], 0, [30, 30, 10, 20]),
    (
        "middle axis",
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
        [[[1, 0]], [[0, 1]]],
        1,
        [[[3, 2]], [[5, 8]]],
    ),
]
# Native only: indices that are smaller than the input off the axis, and input sizes of 1 that are broadcast.
GATHER_ELEMENTS_NATIVE = [
    ("smaller indices", THREE_BY_THREE, [[2], [0]], 1, [[3], [4]]),
    ("indices of size 1", THREE_BY_THREE, [[1]], 0, [[4]]),
    ("input of size 1", [[1, 2, 3]], [[0, 2], [1, 1]], 1, [[1, 3], [2, 2]]),
    ("column of size 1", [[1], [2], [3]], [[2, 0, 1, 1]], 0, [[3, 1, 2, 2]]),
]


def by_name(cases):
    return [pytest.param(*case[1:], id=case[0]) for case in cases]


@pytest.mark.parametrize(
    ("input", "indices", "axis", "output"), by_name(GATHER_ELEMENTS) + by_name(GATHER_ELEMENTS_NATIVE)
)
def test_gather_elements_function(input, indices, axis, output):
    a, indices = np.array(input, "int32"), np.array(indices, "int64")
    call_function(dml.gather_elements, (a, indices), output, axis=axis)
    call_function(dml.gather_elements, (a, indices), output, axis=axis - a.ndim)


@pytest.mark.parametrize(("level", "data", "index"), LEVELS)
@pytest.mark.parametrize(("input", "indices", "axis", "output"), by_name(GATHER_ELEMENTS))
def test_gather_elements_operator(input, indices, axis, output, level, data, index):
    a, indices = np.array(input, data), np.array(indices, index)
    descriptor = dml.GatherElementsDesc(tensor(a), tensor(indices), TensorDesc(data, np.shape(output)), axis)
    call_operator(descriptor, level, (a, indices), output)


@pytest.mark.parametrize(("input", "indices", "axis", "output"), by_name(GATHER_ELEMENTS))
def test_gather_elements_operator_in_four_dimensions(input, indices, axis, output):
    axis += 4 - np.ndim(input)
    a, indices, output = in_four_dimensions(input, indices, output)
    a, indices = a.astype("float16"), indices.astype("uint32")
    descriptor = dml.GatherElementsDesc(tensor(a), tensor(indices), TensorDesc("float16", output.shape), axis)
    call_operator(descriptor, "FL_2_1", (a, indices), output)


@pytest.mark.parametrize(("input", "indices", "axis", "output"), by_name(GATHER_ELEMENTS_NATIVE))
def test_gather_elements_native_shapes_are_not_strict(input, indices, axis, output):
    a, indices = np.array(input, "int32"), np.array(indices, "int32")
    descriptor = dml.GatherElementsDesc(tensor(a), tensor(indices), TensorDesc("int32", np.shape(output)), axis)
    exact(dml.compile_operator(descriptor)(a, indices), output, "int32")
    with pytest.raises(DescriptorError, match="indices_tensor") as caught:
        dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_6_4)
    assert caught.value.field == "indices_tensor"


# ------------------------------------------------------------------------------------------ GATHER_ND, GATHER_ND1


@dataclass(frozen=True)
class GatherND:
    name: str
    input: object
    r: int
    indices: object
    q: int
    output: object
    # The shapes of a, indices and result that the function sees.
    function: tuple
    b: int = 0


GATHER_ND = [
    GatherND("1: rows", [[0, 1], [2, 3]], 2, [[1], [0]], 2, [[2, 3], [0, 1]], ((2, 2), (2, 1), (2, 2))),
    GatherND(
        "2: pairs",
        [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],
        3,
        [[[[0, 1], [1, 0]]]],
        2,
        [[[[2, 3], [4, 5]]]],
        ((2, 2, 2), (2, 2), (2, 2)),
    ),
    GatherND(
        "3: one batch dimension",
        [[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]],
        3,
        [[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]],
        3,
        [[[[0, 3], [7, 4], [9, 10]]]],
        ((3, 2, 2), (3, 2, 2), (3, 2)),
        b=1,
    ),
    GatherND("one tuple", [[0, 1], [2, 3]], 2, [[1, 0]], 1, [[2]], ((2, 2), (2,), ()), b=0),
    GatherND(
        "two batch dimensions",
        [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]],
        3,
        [[[2], [0]], [[1], [1]]],
        3,
        [[[2, 3], [7, 10]]],
        ((2, 2, 3), (2, 2, 1), (2, 2)),
        b=2,
    ),
    GatherND(
        "a batch dimension and a slice",
        [[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
        3,
        [[[1], [0]]],
        2,
        [[[2, 3], [4, 5]]],
        ((2, 2, 2), (2, 1), (2, 2)),
        b=1,
    ),
]
gather_nd_cases = pytest.mark.parametrize("case", GATHER_ND, ids=lambda c: c.name)


@gather_nd_cases
@pytest.mark.parametrize(("data", "index"), [("int32", "uint32"), ("float64", "int64")])
def test_gather_nd_function(case, data, index):
    shape, index_shape, result_shape = case.function
    a = np.array(case.input, data).reshape(shape)
    indices = np.array(case.indices, index).reshape(index_shape)
    call_function(dml.gather_nd, (a, indices), np.reshape(case.output, result_shape), batch_dims=case.b)


def gather_nd_descriptors(case, a, indices, output):
    """GATHER_ND1, and GATHER_ND where there is no batch."""
    tensors = tensor(a), tensor(indices), tensor(output)
    yield dml.GatherND1Desc(*tensors, case.r, case.q, case.b)
    if case.b == 0:
        yield dml.GatherNDDesc(*tensors, case.r, case.q)


@gather_nd_cases
@pytest.mark.parametrize(("level", "data", "index"), LEVELS)
def test_gather_nd_operator(case, level, data, index):
    a, indices, output = np.array(case.input, data), np.array(case.indices, index), np.array(case.output, data)
    for descriptor in gather_nd_descriptors(case, a, indices, output):
        call_operator(descriptor, level, (a, indices), output)


@pytest.mark.parametrize("case", [c for c in GATHER_ND if c.b == 0], ids=lambda c: c.name)
def test_gather_nd_operator_in_four_dimensions(case):
    a, indices, output = in_four_dimensions(case.input, case.indices, case.output)
    a, indices, output = a.astype("float16"), indices.astype("uint32"), output.astype("float16")
    descriptor = dml.GatherNDDesc(tensor(a), tensor(indices), tensor(output), case.r, case.q)
    call_operator(descriptor, "FL_2_1", (a, indices), output)


# The page's shape example: {3,4,5,6,7}, r 5, indices {1,1,1,2,t}, q 3. Slices of arange(2520) are ranges again.
FIVE = (3, 4, 5, 6, 7)
FIRST_AND_LAST = {  # t: two tuples, where their slices start, the output's sizes
    2: ([[0, 0], [2, 3]], (0, 2 * 840 + 3 * 210), (1, 2, 5, 6, 7)),
    3: ([[0, 0, 0], [2, 3, 4]], (0, 2 * 840 + 3 * 210 + 4 * 42), (1, 1, 2, 6, 7)),
    4: ([[0, 0, 0, 1], [2, 3, 4, 5]], (7, 2520 - 7), (1, 1, 1, 2, 7)),
    5: ([[0, 0, 0, 0, 1], [2, 3, 4, 5, 6]], (1, 2519), (1, 1, 1, 1, 2)),
}


@pytest.mark.parametrize("t", FIRST_AND_LAST)
@pytest.mark.parametrize("kind", [dml.GatherNDDesc, dml.GatherND1Desc])
def test_gather_nd_shape_rule(kind, t):
    tuples, starts, sizes = FIRST_AND_LAST[t]
    a = np.arange(2520, dtype="int32").reshape(FIVE)
    indices = np.array(tuples, "uint32").reshape(1, 1, 1, 2, t)
    length = {2: 210, 3: 42, 4: 7, 5: 1}[t]
    output = np.concatenate([np.arange(s, s + length) for s in starts]).reshape(sizes)
    batch = {"batch_dimension_count": 0} if kind is dml.GatherND1Desc else {}
    tensors = tensor(a), tensor(indices), TensorDesc("int32", sizes)
    descriptor = kind(*tensors, input_dimension_count=5, indices_dimension_count=3, **batch)
    call_operator(descriptor, "FL_3_0", (a, indices), output)
    # The function drops nothing but the padding: the result starts with the {1, 2} of the indices.
    call_function(dml.gather_nd, (a, indices[0, 0]), output.reshape(1, 2, *FIVE[t:]))


ND_REFUSED = [  # input, r, indices, q, b, output, field
    # t = 1 gives {1, 2, 4, 5, 6, 7}: six dimensions, and no ND operator crops, not even a 1.
    (FIVE, 5, (1, 1, 1, 2, 1), 3, 0, (2, 4, 5, 6, 7), "output_tensor"),
    # The page's formula for the trailing slice would give these.
    (FIVE, 5, (1, 1, 1, 2, 3), 3, 0, (1, 2, 5, 6, 7), "output_tensor"),
    # t in [1, r - b]
    (FIVE, 5, (1, 1, 1, 2, 0), 3, 0, (1, 1, 1, 1, 2), "indices_tensor"),
    (FIVE, 5, (1, 1, 1, 2, 6), 3, 0, (1, 1, 1, 1, 2), "indices_tensor"),
    ((3, 2, 2), 3, (3, 2, 3), 3, 1, (1, 3, 2), "indices_tensor"),
    # r and q in [1, DC]
    ((2, 2), 0, (2, 1), 2, 0, (2, 2), "input_dimension_count"),
    ((2, 2), 3, (2, 1), 2, 0, (2, 2), "input_dimension_count"),
    ((2, 2), 2, (2, 1), 0, 0, (2, 2), "indices_dimension_count"),
    ((2, 2), 2, (2, 1), 3, 0, (2, 2), "indices_dimension_count"),
    # Dimensions that do not count must be 1.
    ((2, 2), 1, (1, 1), 1, 0, (1, 1), "input_tensor"),
    ((2, 2), 2, (2, 1), 1, 0, (1, 2), "indices_tensor"),
    # b < r, b < q, and equal batch sizes
    ((1, 2), 1, (2, 1), 2, 1, (1, 2), "batch_dimension_count"),
    ((2, 2), 2, (1, 1), 1, 1, (1, 1), "batch_dimension_count"),
    ((2, 2), 2, (2, 1), 2, -1, (1, 2), "batch_dimension_count"),
    ((3, 2), 2, (2, 1), 2, 1, (1, 2), "indices_tensor"),
    # The padding of the output is on the left.
    ((2, 2), 2, (1, 2), 2, 0, (2, 1), "output_tensor"),
    ((2, 2), 2, (2, 2), 2, 0, (2, 1), "output_tensor"),
]


@pytest.mark.parametrize(("input", "r", "indices", "q", "b", "output", "field"), ND_REFUSED)
def test_gather_nd_shapes_refused(input, r, indices, q, b, output, field):
    tensors = TensorDesc("int32", input), TensorDesc("uint32", indices), TensorDesc("int32", output)
    with pytest.raises(DescriptorError) as caught:
        dml.GatherND1Desc(*tensors, r, q, b)
    assert caught.value.field == field
    if b == 0:
        with pytest.raises(DescriptorError) as caught:
            dml.GatherNDDesc(*tensors, r, q)
        assert caught.value.field == field


def test_gather_nd_function_has_no_dimension_limit():
    a = np.arange(2520).reshape(FIVE)
    result = dml.gather_nd(a, np.array([[[0], [2]]]))
    assert result.shape == (1, 2, 4, 5, 6, 7)
    exact(result.ravel(), np.r_[0:840, 1680:2520], a.dtype)


# ------------------------------------------------------------------------------------------------ SCATTER_ELEMENTS

# name, input, indices, updates, axis, output
SCATTER_ELEMENTS = [
    ("1: a duplicate", [0, 1, 2, 3, 4], [3, 1, 3, 0], [5, 6, 7, 8], 0, [8, 6, 2, 7, 4]),
    (
        "2: axis 0",
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        [[1, 0, 2], [0, 2, 1]],
        [[10, 11, 12], [20, 21, 22]],
        0,
        [[20, 11, 0], [10, 0, 22], [0, 21, 12]],
    ),
    ("axis 1", [[1, 2, 3], [4, 5, 6]], [[2, 2], [0, 1]], [[10, 20], [30, 40]], 1, [[1, 2, 20], [30, 40, 6]]),
]
# Native only: indices that are smaller than the input off the axis.
SCATTER_ELEMENTS_NATIVE = [
    ("smaller indices", [[1, 2, 3], [4, 5, 6]], [[2, 0]], [[10, 20]], 1, [[20, 2, 10], [4, 5, 6]]),
    ("one element", [[1, 2], [3, 4]], [[1]], [[10]], 0, [[1, 2], [10, 4]]),
]


@pytest.mark.parametrize(
    ("input", "indices", "updates", "axis", "output"), by_name(SCATTER_ELEMENTS) + by_name(SCATTER_ELEMENTS_NATIVE)
)
def test_scatter_elements_function(input, indices, updates, axis, output):
    a, indices, updates = np.array(input, "int32"), np.array(indices, "int64"), np.array(updates, "int32")
    call_function(dml.scatter_elements, (a, indices, updates), output, axis=axis)
    call_function(dml.scatter_elements, (a, indices, updates), output, axis=axis - a.ndim)
    assert dml.scatter_elements(a, indices, updates, axis=axis, out=a) is a
    exact(a, output, "int32")


def scatter_tensors(a, indices, updates):
    return tensor(a), tensor(indices), tensor(updates), tensor(a)


@pytest.mark.parametrize(("level", "data", "index"), LEVELS)
@pytest.mark.parametrize(("input", "indices", "updates", "axis", "output"), by_name(SCATTER_ELEMENTS))
def test_scatter_elements_operator(input, indices, updates, axis, output, level, data, index):
    a, indices, updates = np.array(input, data), np.array(indices, index), np.array(updates, data)
    descriptor = dml.ScatterElementsDesc(*scatter_tensors(a, indices, updates), axis)
    call_operator(descriptor, level, (a, indices, updates), output)
    operator = dml.compile_operator(descriptor, feature_level=FeatureLevel[level])
    assert operator(a, indices, updates, out=a) is a
    exact(a, output, data)


@pytest.mark.parametrize(("level", "data"), [("FL_2_0", "float16"), ("FL_2_1", "uint16")])
@pytest.mark.parametrize(("input", "indices", "updates", "axis", "output"), by_name(SCATTER_ELEMENTS))
def test_scatter_operator_in_four_dimensions(input, indices, updates, axis, output, level, data):
    axis += 4 - np.ndim(input)
    a, indices, updates, output = in_four_dimensions(input, indices, updates, output)
    a, indices, updates = a.astype(data), indices.astype("uint32"), updates.astype(data)
    descriptor = dml.ScatterDesc(*scatter_tensors(a, indices, updates), axis)
    call_operator(descriptor, level, (a, indices, updates), output)


@pytest.mark.parametrize(("input", "indices", "updates", "axis", "output"), by_name(SCATTER_ELEMENTS_NATIVE))
def test_scatter_elements_native_shapes_are_not_strict(input, indices, updates, axis, output):
    a, indices, updates = np.array(input, "int32"), np.array(indices, "int32"), np.array(updates, "int32")
    descriptor = dml.ScatterElementsDesc(*scatter_tensors(a, indices, updates), axis)
    exact(dml.compile_operator(descriptor)(a, indices, updates), output, "int32")
    with pytest.raises(DescriptorError, match="indices_tensor") as caught:
        dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_6_4)
    assert caught.value.field == "indices_tensor"


@pytest.mark.parametrize(
    ("indices", "updates", "output", "field"),
    [
        ((2, 3), (2, 2), (3, 3), "updates_tensor"),
        ((2, 3), (3, 3), (3, 3), "updates_tensor"),
        ((2, 3), (2, 3), (2, 3), "output_tensor"),
        ((2, 4), (2, 4), (3, 3), "indices_tensor"),
    ],
)
def test_scatter_elements_shapes_refused(indices, updates, output, field):
    with pytest.raises(DescriptorError) as caught:
        dml.ScatterElementsDesc(
            TensorDesc("int32", (3, 3)),
            TensorDesc("uint32", indices),
            TensorDesc("int32", updates),
            TensorDesc("int32", output),
            0,
        )
    assert caught.value.field == field


# ------------------------------------------------------------------------------------------------------ SCATTER_ND


@dataclass(frozen=True)
class ScatterND:
    name: str
    input: object
    r: int
    indices: object
    q: int
    updates: object
    output: object
    # The shapes of a, indices and updates that the function sees.
    function: tuple


SCATTER_ND = [
    ScatterND(
        "1: elements",
        [[1, 2, 3, 4, 5, 6, 7, 8]],
        1,
        [[4], [3], [1], [7]],
        2,
        [[9, 10, 11, 12]],
        [[1, 11, 3, 10, 9, 6, 7, 12]],
        ((8,), (4, 1), (4,)),
    ),
    ScatterND(
        "rows, one of them twice",
        [[1, 2], [3, 4], [5, 6]],
        2,
        [[2], [0], [2]],
        2,
        [[10, 20], [30, 40], [50, 60]],
        [[30, 40], [3, 4], [50, 60]],
        ((3, 2), (3, 1), (3, 2)),
    ),
    ScatterND("one tuple", [[1, 2], [3, 4]], 2, [[1, 0]], 1, [[9]], [[1, 2], [9, 4]], ((2, 2), (2,), ())),
]
scatter_nd_cases = pytest.mark.parametrize("case", SCATTER_ND, ids=lambda c: c.name)


@scatter_nd_cases
@pytest.mark.parametrize(("data", "index"), [("int32", "uint32"), ("float64", "int64")])
def test_scatter_nd_function(case, data, index):
    shape, index_shape, update_shape = case.function
    a = np.array(case.input, data).reshape(shape)
    indices = np.array(case.indices, index).reshape(index_shape)
    updates = np.array(case.updates, data).reshape(update_shape)
    output = np.reshape(case.output, shape)
    call_function(dml.scatter_nd, (a, indices, updates), output)
    assert dml.scatter_nd(a, indices, updates, out=a) is a
    exact(a, output, data)


@scatter_nd_cases
@pytest.mark.parametrize(("level", "data", "index"), LEVELS)
def test_scatter_nd_operator(case, level, data, index):
    a, indices, updates = np.array(case.input, data), np.array(case.indices, index), np.array(case.updates, data)
    descriptor = dml.ScatterNDDesc(*scatter_tensors(a, indices, updates), case.r, case.q)
    call_operator(descriptor, level, (a, indices, updates), case.output)
    operator = dml.compile_operator(descriptor, feature_level=FeatureLevel[level])
    assert operator(a, indices, updates, out=a) is a
    exact(a, case.output, data)


@scatter_nd_cases
def test_scatter_nd_operator_in_four_dimensions(case):
    a, indices, updates, output = in_four_dimensions(case.input, case.indices, case.updates, case.output)
    a, indices, updates = a.astype("float16"), indices.astype("uint32"), updates.astype("float16")
    descriptor = dml.ScatterNDDesc(*scatter_tensors(a, indices, updates), case.r, case.q)
    call_operator(descriptor, "FL_2_1", (a, indices, updates), output)


@pytest.mark.parametrize("t", FIRST_AND_LAST)
def test_scatter_nd_shape_rule(t):
    tuples, starts, sizes = FIRST_AND_LAST[t]
    length = {2: 210, 3: 42, 4: 7, 5: 1}[t]
    a = np.arange(2520, dtype="int32").reshape(FIVE)
    indices = np.array(tuples, "uint32").reshape(1, 1, 1, 2, t)
    updates = -np.arange(1, 2 * length + 1, dtype="int32").reshape(sizes)
    output = np.arange(2520)
    output[starts[0] : starts[0] + length] = -np.arange(1, length + 1)
    output[starts[1] : starts[1] + length] = -np.arange(length + 1, 2 * length + 1)
    descriptor = dml.ScatterNDDesc(*scatter_tensors(a, indices, updates), 5, 3)
    call_operator(descriptor, "FL_3_0", (a, indices, updates), output.reshape(FIVE))
    call_function(dml.scatter_nd, (a, indices[0, 0], updates.reshape(1, 2, *FIVE[t:])), output.reshape(FIVE))


@pytest.mark.parametrize(
    ("input", "r", "indices", "q", "updates", "field"),
    [
        # The updates of t = 1 have six dimensions.
        (FIVE, 5, (1, 1, 1, 2, 1), 3, (2, 4, 5, 6, 7), "updates_tensor"),
        (FIVE, 5, (1, 1, 1, 2, 3), 3, (1, 2, 5, 6, 7), "updates_tensor"),
        (FIVE, 5, (1, 1, 1, 2, 3), 3, (1, 1, 1, 6, 7), "updates_tensor"),
        (FIVE, 5, (1, 1, 1, 2, 0), 3, (1, 1, 1, 1, 2), "indices_tensor"),
        (FIVE, 5, (1, 1, 1, 2, 6), 3, (1, 1, 1, 1, 2), "indices_tensor"),
        ((1, 8), 0, (4, 1), 2, (1, 4), "input_dimension_count"),
        ((1, 8), 3, (4, 1), 2, (1, 4), "input_dimension_count"),
        ((1, 8), 1, (4, 1), 0, (1, 4), "indices_dimension_count"),
        ((1, 8), 1, (4, 1), 3, (1, 4), "indices_dimension_count"),
        ((2, 8), 1, (4, 1), 2, (1, 4), "input_tensor"),
        ((1, 8), 1, (4, 1), 1, (1, 1), "indices_tensor"),
        ((1, 8), 1, (4, 1), 2, (4, 1), "updates_tensor"),
    ],
)
def test_scatter_nd_shapes_refused(input, r, indices, q, updates, field):
    data = TensorDesc("int32", input)
    with pytest.raises(DescriptorError) as caught:
        dml.ScatterNDDesc(data, TensorDesc("uint32", indices), TensorDesc("int32", updates), data, r, q)
    assert caught.value.field == field


# ------------------------------------------------------------------------------- what DirectML's scatters do not have

# reduction, result of [1, 2, 3, 4] with updates 5, 6, 7 at 1, 3, 1: the value already there takes part.
REDUCED = [
    ("none", [1, 7, 3, 6]),
    ("add", [1, 14, 3, 10]),
    ("mul", [1, 70, 3, 24]),
    ("min", [1, 2, 3, 4]),
    ("max", [1, 7, 3, 6]),
]


@pytest.mark.parametrize(("reduction", "output"), REDUCED)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64"])
def test_scatter_reductions(reduction, output, dtype):
    a, updates = np.array([1, 2, 3, 4], dtype), np.array([5, 6, 7], dtype)
    call_function(dml.scatter_elements, (a, np.array([1, 3, 1]), updates), output, axis=0, reduction=reduction)
    call_function(dml.scatter_nd, (a, np.array([[1], [3], [1]]), updates), output, reduction=reduction)


def test_scatter_min_takes_a_smaller_update():
    a = np.array([5, 6, 7], "int32")
    exact(dml.scatter_elements(a, np.array([0, 1]), np.array([4, 9], "int32"), reduction="min"), [4, 6, 7], "int32")


def test_scatter_nd_batch():
    # Per batch of {2}: one tuple of one coordinate, a slice of {2}.
    a = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "int32")
    updates = np.array([[10, 20], [30, 40]], "int32")
    call_function(
        dml.scatter_nd,
        (a, np.array([[1], [0]]), updates),
        [[[1, 2], [10, 20]], [[30, 40], [7, 8]]],
        batch_dims=1,
    )


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16"])
def test_updates_of_another_dtype(dtype):
    a, updates = np.zeros(3, "float32"), np.ones(1, dtype)
    with pytest.raises(TypeError, match=rf"updates: found dtype {dtype}, expected float32"):
        dml.scatter_elements(a, np.array([0]), updates)
    with pytest.raises(TypeError, match=rf"updates: found dtype {dtype}, expected float32"):
        dml.scatter_nd(a, np.array([[0]]), updates)
    assert not a.any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "complex64"])
def test_indices_that_are_no_integers(dtype):
    """The SCATTER_ND page gives its indices as FLOAT32."""
    a, updates = np.arange(1, 9, dtype="float32"), np.array([9, 10, 11, 12], "float32")
    indices = np.array([[4], [3], [1], [7]]).astype(dtype)
    with pytest.raises(TypeError, match=f"scatter_nd: indices: found dtype {dtype}"):
        dml.scatter_nd(a, indices, updates)
    with pytest.raises(TypeError, match=f"gather_nd: indices: found dtype {dtype}"):
        dml.gather_nd(a, indices)
    data = TensorDesc("float32", (1, 8))
    with pytest.raises(DescriptorError) as caught:
        dml.ScatterNDDesc(data, TensorDesc(dtype, (4, 1)), TensorDesc("float32", (1, 4)), data, 1, 2)
    assert caught.value.field == "indices_tensor"


# ----------------------------------------------------------------------------------------------------- TOP_K, TOP_K1

DOWN, UP = AxisDirection.DECREASING, AxisDirection.INCREASING


@dataclass(frozen=True)
class TopK:
    name: str
    input: object
    axis: int
    k: int
    direction: AxisDirection
    values: object
    indices: object


ROWS = [[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]]
TIES = [[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]]
TOP_K = [
    TopK("1: rows", ROWS, 3, 2, DOWN, [[[[11, 10], [9, 8], [7, 6]]]], [[[[3, 2], [2, 3], [3, 2]]]]),
    TopK("2: columns", ROWS, 2, 2, DOWN, [[[[4, 5, 10, 11], [3, 2, 9, 8]]]], [[[[2, 2, 0, 0], [1, 1, 1, 1]]]]),
    TopK("3: ties", TIES, 3, 3, DOWN, [[[[3, 2, 2], [5, 5, 4], [6, 6, 6]]]], [[[[3, 1, 2], [2, 3, 1], [0, 1, 2]]]]),
    TopK("4: ties, up", TIES, 3, 3, UP, [[[[1, 2, 2], [3, 4, 5], [6, 6, 6]]]], [[[[0, 1, 2], [0, 1, 2], [0, 1, 2]]]]),
    TopK(
        "k is the size",
        TIES,
        3,
        4,
        DOWN,
        [[[[3, 2, 2, 1], [5, 5, 4, 3], [6, 6, 6, 6]]]],
        [[[[3, 1, 2, 0], [2, 3, 1, 0], [0, 1, 2, 3]]]],
    ),
    TopK("axis 0 is of size 1", ROWS, 0, 1, UP, ROWS, [[[[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]]]),
    TopK("k is 1, ties across the axis", TIES, 2, 1, UP, [[[[1, 2, 2, 3]]]], [[[[0, 0, 0, 0]]]]),
]
top_k_cases = pytest.mark.parametrize("case", TOP_K, ids=lambda c: c.name)


def top_k_descriptors(case, data, index):
    """TOP_K1, and TOP_K where the direction is its own."""
    tensors = (
        TensorDesc(data, np.shape(case.input)),
        TensorDesc(data, np.shape(case.values)),
        TensorDesc(index, np.shape(case.indices)),
    )
    yield dml.TopK1Desc(*tensors, case.axis, case.k, case.direction)
    if case.direction is DOWN:
        yield dml.TopKDesc(*tensors, case.axis, case.k)


def check_top_k_operator(case, level, data, index):
    a = np.array(case.input, data)
    for descriptor in top_k_descriptors(case, data, index):
        operator = dml.compile_operator(descriptor, feature_level=FeatureLevel[level])
        values, indices = operator(a)
        exact(values, case.values, data)
        exact(indices, case.indices, index)
        out = junk(np.shape(case.values), data), junk(np.shape(case.indices), index)
        result = operator(a, out=out)
        assert result[0] is out[0]
        assert result[1] is out[1]
        exact(out[0], case.values, data)
        exact(out[1], case.indices, index)
    exact(a, case.input, data)


@top_k_cases
@pytest.mark.parametrize(("level", "data", "index"), TOP_K_LEVELS)
def test_top_k_operator(case, level, data, index):
    check_top_k_operator(case, level, data, index)


@top_k_cases
@pytest.mark.parametrize("data", ["float32", "uint16"])
def test_top_k_operator_at_the_first_level(case, data):
    check_top_k_operator(case, "FL_2_1", data, "uint32")


@pytest.mark.parametrize("case", [c for c in TOP_K if c.direction is DOWN], ids=lambda c: c.name)
@pytest.mark.parametrize("data", ["float32", "float16"])
def test_top_k_without_direction_at_its_first_level(case, data):
    a = np.array(case.input, data)
    descriptor = list(top_k_descriptors(case, data, "uint32"))[-1]
    assert type(descriptor) is dml.TopKDesc
    values, indices = dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_2_0)(a)
    exact(values, case.values, data)
    exact(indices, case.indices, "uint32")


@top_k_cases
@pytest.mark.parametrize("data", ["int32", "float64", "uint8"])
def test_top_k_function(case, data):
    a = np.array(case.input, data)
    mode = {DOWN: "largest", UP: "smallest"}[case.direction]
    for axis in (case.axis, case.axis - 4):
        values, indices = dml.top_k(a, case.k, axis=axis, mode=mode)
        exact(values, case.values, data)
        exact(indices, case.indices, np.intp)
    out = junk(np.shape(case.values), data), junk(np.shape(case.indices), "uint32")
    result = dml.top_k(a, case.k, axis=case.axis, mode=mode, index_dtype="uint32", out=out)
    assert result.values is out[0]
    assert result.indices is out[1]
    exact(out[0], case.values, data)
    exact(out[1], case.indices, "uint32")
    exact(a, case.input, data)


def test_top_k_in_one_dimension():
    case = TopK("", [3, 1, 3, 2], 0, 3, DOWN, [3, 3, 2], [0, 2, 3])
    check_top_k_operator(case, "FL_3_1", "int32", "uint32")
    check_top_k_operator(replace(case, direction=UP, values=[1, 2, 3], indices=[1, 3, 0]), "FL_3_1", "int32", "uint32")


def test_top_k_of_none():
    """k = 0 is native only: an empty result."""
    case = replace(TOP_K[0], k=0, values=np.zeros((1, 1, 3, 0)), indices=np.zeros((1, 1, 3, 0)))
    for descriptor in top_k_descriptors(case, "float32", "uint32"):
        values, indices = dml.compile_operator(descriptor)(np.array(ROWS, "float32"))
        exact(values, case.values, "float32")
        exact(indices, case.indices, "uint32")
        with pytest.raises(DescriptorError) as caught:
            dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_6_4)
        assert caught.value.field == "k"
    assert [x.shape for x in dml.top_k(np.array(ROWS), 0, axis=2)] == [(1, 1, 0, 4)] * 2


def test_top_k_of_more_than_there_are():
    case = replace(TOP_K[0], k=5, values=np.zeros((1, 1, 3, 5)), indices=np.zeros((1, 1, 3, 5)))
    with pytest.raises(DescriptorError) as caught:
        list(top_k_descriptors(case, "float32", "uint32"))
    assert (caught.value.field, caught.value.found) == ("k", 5)
    with pytest.raises(ValueError, match="top_k: k: found 5, expected 0 to 4"):
        dml.top_k(np.array(ROWS), 5)


@pytest.mark.parametrize(
    ("values", "indices", "axis", "field"),
    [
        # k stands on the axis, not on the last dimension.
        ((1, 1, 3, 2), (1, 1, 3, 2), 2, "output_value_tensor"),
        ((1, 1, 2, 4), (1, 1, 3, 2), 2, "output_index_tensor"),
        ((1, 1, 3, 2), (1, 1, 3, 2), 4, "axis"),
        ((1, 1, 3, 2), (1, 1, 3, 2), -1, "axis"),
    ],
)
def test_top_k_shapes_refused(values, indices, axis, field):
    with pytest.raises(DescriptorError) as caught:
        dml.TopKDesc(
            TensorDesc("float32", (1, 1, 3, 4)), TensorDesc("float32", values), TensorDesc("uint32", indices), axis, 2
        )
    assert caught.value.field == field


# ---------------------------------------------------------------------------------- negative indices, level 3_0 and up


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_negative_indices(index):
    def check(descriptor, arrays, expected):
        call_operator(descriptor, "FL_3_0", arrays, expected)

    a = np.array([11, 12, 13, 14], "float32")
    i = np.array([-1, 1, -4], index)
    result = TensorDesc("float32", (3,))
    check(dml.GatherDesc(tensor(a), tensor(i), result, 0, 1), (a, i), [14, 12, 11])
    check(dml.GatherElementsDesc(tensor(a), tensor(i), result, 0), (a, i), [14, 12, 11])
    u = np.array([1, 2, 3], "float32")
    check(dml.ScatterElementsDesc(*scatter_tensors(a, i, u), 0), (a, i, u), [3, 2, 13, 1])

    square, tuples = np.array([[0, 1], [2, 3]], "float32"), np.array([[-1, 0], [0, -1]], index)
    picked = np.array([[8, 9]], "float32")
    check(dml.GatherNDDesc(tensor(square), tensor(tuples), tensor(picked), 2, 2), (square, tuples), [[2, 1]])
    check(dml.ScatterNDDesc(*scatter_tensors(square, tuples, picked), 2, 2), (square, tuples, picked), [[0, 9], [8, 3]])


def nan_or(operator, old, new):
    """Return the sum or product of floats; a NaN is the old one, or else the new one, or else the processor's."""
    word = np.dtype(f"u{old.itemsize}")
    quiet = np.array(np.nan, old.dtype).view(word)
    with np.errstate(all="ignore"):
        result = operator(old, new)
        made = operator(old.dtype.type(np.inf) * np.zeros((), old.dtype), old.dtype.type(0))
    found = np.where(np.isnan(result), made, result).view(word)
    for operand in (new, old):
        found = np.where(np.isnan(operand), operand.view(word) | quiet, found)
    return found.view(old.dtype)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("reduction", ["add", "mul"])
@pytest.mark.parametrize("columns", [None, 1, 7])
def test_which_nan_comes_out(columns, reduction, dtype, simulated):
    """A place keeps its NaN; else it gets that of the update, and of infinities what the processor makes of them."""
    part = np.dtype(dtype) if dtype[0] == "f" else np.dtype(f"f{int(dtype[1:]) // 2}")
    word, sign = np.dtype(f"u{part.itemsize}"), 1 << 8 * part.itemsize - 1
    nans = np.array(np.nan, part).view(word) + np.arange(5, dtype=word)
    signalling = np.array(np.inf, part).view(word) + np.arange(1, 4, dtype=word)
    numbers = np.array([0, -0.0, 1, -2, np.inf, -np.inf], part)
    some = np.concatenate([nans, nans | word.type(sign), signalling, numbers.view(word)]).view(part)
    old, new = (np.ascontiguousarray(x) for x in np.broadcast_arrays(some[:, None], some))
    if dtype[0] == "c":
        rng = np.random.default_rng(0)
        old, new = (np.stack([x, rng.permutation(x.reshape(-1)).reshape(x.shape)], -1) for x in (old, new))
    if dtype[0] == "f" or reduction == "add":
        expected = nan_or({"add": np.add, "mul": np.multiply}[reduction], old, new)
    else:
        (a, b), (c, d) = (np.moveaxis(x.copy(), -1, 0) for x in (old, new))
        products = [nan_or(np.multiply, x.copy(), y.copy()) for x, y in ((a, c), (b, d), (a, d), (b, c))]
        expected = np.stack([nan_or(np.subtract, *products[:2]), nan_or(np.add, *products[2:])], -1)
    old, new, expected = (x.reshape(-1).view(dtype) for x in (old, new, np.ascontiguousarray(expected)))
    if columns == 7 and simulated:  # which takes 10 s for all pairs; without columns it has them all
        old, new, expected = (x[::5] for x in (old, new, expected))
    if columns:
        old, new, expected = (np.repeat(x[:, None], columns, 1) for x in (old, new, expected))
    found = dml.scatter_nd(old, np.arange(len(old))[:, None], new, reduction=reduction)
    assert found.tobytes() == expected.tobytes()
    if columns:
        points = np.broadcast_to(np.arange(len(old))[:, None], old.shape)
        assert dml.scatter_elements(old, points, new, axis=0, reduction=reduction).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(("count", "elements"), [(2, 5), (3, 1), (6, 5), (40, 1), (70, 1)])
def test_which_of_many_nans_comes_out(count, elements, dtype):
    """The first one that a place sees, in the order of its updates; some places see none."""
    rng = np.random.default_rng(count)
    word = np.dtype(f"u{dtype[1]}")
    nans = (np.array(np.nan, dtype).view(word) + np.arange(9, dtype=word)).view(dtype)
    values = rng.choice(np.array([0, -0.0, 1, -3, 0.5, 2], dtype), (1 + count, 12, elements))
    rare = rng.random(values.shape) < np.linspace(0, 0.3, 12)[:, None]
    values[rare] = rng.choice(np.concatenate([nans, np.array([np.inf, -np.inf], dtype)]), rare.sum())
    order = np.tile(np.arange(12), count)[:, None]
    for reduction, operator in (("add", np.add), ("mul", np.multiply)):
        expected = values[0]
        for updates in values[1:]:
            expected = nan_or(operator, expected, updates)
        updates = values[1:].reshape(-1, elements)
        assert dml.scatter_nd(values[0], order, updates, reduction=reduction).tobytes() == expected.tobytes()
        points = np.broadcast_to(order, updates.shape)
        found = dml.scatter_elements(values[0], points, updates, axis=0, reduction=reduction)
        assert found.tobytes() == expected.tobytes()
        found = dml.scatter_elements(
            np.ascontiguousarray(values[0].T), points.T.copy(), updates.T.copy(), axis=1, reduction=reduction
        )
        assert found.tobytes() == np.ascontiguousarray(expected.T).tobytes()
