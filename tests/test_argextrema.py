"""Argmin and argmax: examples, ties, NaN rules, axes, layouts, threads and errors."""

import json
import os
from itertools import permutations, product

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

import numba_dml as dml
from numba_dml import AxisDirection, DescriptorError, FeatureLevel, TensorDesc

from . import reference
from .reference import same
from .strategies import BFLOAT16, INDEX_TYPES, LAYOUTS, NUMBERS, fill, lay_out, seeds

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "150"))
FUNCTIONS = {"argmax": dml.argmax, "argmin": dml.argmin}
DESCRIPTORS = {"argmax": dml.ArgmaxDesc, "argmin": dml.ArgminDesc}
A = [[1, 2, 3], [3, 0, 4], [2, 5, 2]]
B = [[[1, 5, 2], [5, 0, 3]], [[7, 7, 1], [2, 7, 0]]]
nan, inf = np.nan, np.inf
#: Input, axes; argmax with ties first and last, argmin the same.
EXAMPLES_OF_AXES = {
    "axis 0": (A, 0, [1, 2, 1], [1, 2, 1], [0, 1, 2], [0, 1, 2]),
    "axis 1": (A, 1, [2, 2, 1], [2, 2, 1], [0, 1, 0], [0, 1, 2]),
    "both": (A, (0, 1), 7, 7, 4, 4),
    "none": (A, None, 7, 7, 4, 4),
    "a line": ([3, 2, 1, 2, 3], 0, 0, 4, 2, 2),
    "a hill": ([1, 2, 3, 2, 1], 0, 2, 2, 0, 4),
    "onnx": ([[2, 2], [3, 10]], 1, [0, 1], [1, 1], [0, 0], [1, 0]),
    "inner axes": (B, (1, 2), [1, 0], [3, 4], [4, 5], [4, 5]),
    "outer axes": (B, (0, 2), [3, 4], [4, 4], [0, 1], [5, 5]),
    "all of three": (B, None, 6, 10, 4, 11),
}


@pytest.mark.parametrize("name", EXAMPLES_OF_AXES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "int64", "uint64", "float64", "int8", "bf"])
def test_examples(name, dtype):
    values, axis, *results = EXAMPLES_OF_AXES[name]
    dtype = BFLOAT16 if dtype == "bf" else dtype
    a = np.array(values, dtype)
    axes = tuple(range(a.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    kept = tuple(1 if d in axes else n for d, n in enumerate(a.shape))
    for (kind, ties), expected in zip(product(FUNCTIONS, ("first", "last")), results, strict=True):
        expected = np.array(expected, np.intp)
        assert same(FUNCTIONS[kind](a, axis=axis, ties=ties), expected)
        wide = FUNCTIONS[kind](a, axis=axis, ties=ties, keepdims=True)
        assert same(wide, expected.reshape(kept))
        out = np.empty(kept, np.uint32)
        direction = AxisDirection.INCREASING if ties == "first" else AxisDirection.DECREASING
        for order in permutations(axes):
            fields = TensorDesc(dtype, a.shape), TensorDesc("uint32", kept), order, direction
            descriptor = DESCRIPTORS[kind](*fields)
            strict = np.dtype(dtype) not in (np.dtype("f8"), BFLOAT16)
            operator = dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_4_1 if strict else None)
            assert operator(a, out=out) is out
            assert same(out, expected.reshape(kept).astype("u4"))
            assert same(operator(a), out)


#: Input; for `nan` first, last and largest: argmax with ties first and last, argmin the same.
NANS = {
    "two": ([1, nan, 3, nan], (1, 3, 1, 3), (2, 2, 0, 0), (1, 3, 0, 0)),
    "all": ([nan, nan], (0, 1, 0, 1), (0, 1, 0, 1), (0, 1, 0, 1)),
    "infinities": ([inf, nan, -inf], (1, 1, 1, 1), (0, 0, 2, 2), (1, 1, 2, 2)),
    "zeros": ([-0.0, 0.0], (0, 1, 0, 1), (0, 1, 0, 1), (0, 1, 0, 1)),
    "signs": ([-nan, 1, nan], (0, 2, 0, 2), (1, 1, 1, 1), (0, 2, 1, 1)),
}


@pytest.mark.parametrize("name", NANS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", BFLOAT16])
def test_nan_and_zeros(name, dtype):
    values, *results = NANS[name]
    a = np.array(values, dtype)
    for rule, row in zip(("first", "last", "largest"), results, strict=True):
        for (kind, ties), expected in zip(product(FUNCTIONS, ("first", "last")), row, strict=True):
            function, given = FUNCTIONS[kind], {"ties": ties, "nan": rule}
            assert function(a, **given) == expected
            assert function(np.tile(a[:, None], (1, 70)), axis=0, **given).tolist() == [expected] * 70
            long = np.repeat(a, 100)
            assert function(long, **given) // 100 == expected
            descriptor = DESCRIPTORS[kind](
                TensorDesc(a.dtype, a.shape), TensorDesc("int64", (1,)), [0], int(ties == "last"), nan=rule
            )
            assert dml.compile_operator(descriptor)(a) == [expected]


def test_the_ends_of_integers():
    assert dml.argmin(np.array([0, -(2**63)])) == 1
    assert dml.argmax(np.array([0, -(2**63)])) == 0
    assert dml.argmax(np.array([2**63, 2**63 - 1], "u8")) == 0
    assert dml.argmin(np.array([2**63, 2**63 - 1], "u8")) == 1
    for dtype in INDEX_TYPES:
        ends = np.iinfo(dtype)
        for n in (2, 100):
            a = np.resize(np.array([ends.min, ends.max], dtype), n)
            assert [dml.argmin(a), dml.argmax(a)] == [0, 1]
            assert [dml.argmin(a, ties="last"), dml.argmax(a, ties="last")] == [n - 2, n - 1]
            assert dml.argmax(np.full(n, ends.min, dtype)) == 0
            assert dml.argmax(np.full(n, ends.min, dtype), ties="last") == n - 1


@pytest.mark.cpu
def test_bools():
    a = np.zeros(300_000, bool)
    assert [dml.argmax(a), dml.argmin(a)] == [0, 0]
    assert [dml.argmax(a, ties="last"), dml.argmin(a, ties="last")] == [299_999, 299_999]
    a[200_000:250_000] = True
    assert [dml.argmax(a), dml.argmin(a)] == [200_000, 0]
    assert [dml.argmax(a, ties="last"), dml.argmin(a, ties="last")] == [249_999, 299_999]
    assert same(dml.argmax(a.reshape(300, 1000), axis=0), np.repeat(200, 1000))
    assert [dml.argmax(~a), dml.argmin(~a)] == [0, 200_000]


def test_linear_index_whatever_the_order_in_memory():
    a = np.zeros((3, 4, 5), "f4")
    a[1, 2, 3] = a[2, 1, 0] = a[1, 3, 0] = 1
    for order in permutations(range(3)):
        view = np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))
        for flip in product((1, -1), repeat=3):
            cut = tuple(slice(None, None, step) for step in flip)
            x = view[cut].copy(order="K")[cut]
            assert dml.argmax(x) == 1 * 20 + 2 * 5 + 3
            assert dml.argmax(x, ties="last") == 2 * 20 + 1 * 5
            assert dml.argmax(x, axis=(0, 2))[[2, 3, 1]].tolist() == [8, 5, 10]
            assert dml.argmax(x, axis=(2, 0))[[2, 3, 1]].tolist() == [8, 5, 10]


SHAPES = {
    "a line": ((200,), 0),
    "short": ((7,), 0),
    "a line in pieces": ((700_001,), None),
    "few lines in pieces": ((3, 300_001), 1),
    "short lines": ((1000, 7), 1),
    "lines": ((50, 130), 1),
    "columns": ((600, 70), 0),
    "one vector of columns": ((300, 64), 0),
    "columns in pieces": ((20_000, 100), 0),
    "few columns": ((1000, 3), 0),
    "few columns in pieces": ((100_001, 3), 0),
    "two columns": ((5003, 2), 0),
    "tiles": ((150, 5000), 0),
    "the middle": ((4, 300, 80), 1),
    "the middle, few": ((40, 300, 2), 1),
    "outer and inner": ((20, 30, 40), (0, 2)),
    "outer and inner, short": ((40, 30, 3), (0, 2)),
    "two outer": ((20, 2, 30, 70), (0, 2)),
    "all": ((30, 40, 50), None),
    "ones": ((1, 1, 1), (0, 2)),
    "no lines": ((0, 5), 1),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_shapes(name, kind, simulated):
    shape, axis = SHAPES[name]
    if simulated:
        shape = tuple(min(n, 12) for n in shape)
    rng = np.random.default_rng(len(name))
    for dtype, order in product(("f4", "i8") if simulated else ("f4", "f8", "f2", "i4", "u1", "i8", "?"), "CF"):
        values = rng.standard_normal(shape) * 10
        with np.errstate(invalid="ignore"):
            a = np.asarray(
                (values > 0) if dtype == "?" else values.astype("i4" if dtype[0] != "f" else dtype), order=order
            )
            a = a.astype(dtype, order=order)
        if a.size > 100 and dtype[0] == "f":
            a.reshape(-1)[rng.integers(0, a.size, 2)] = nan
        for ties in ("first", "last"):
            expected = reference.argextreme_by_numpy(a, kind, axis, ties)
            assert same(FUNCTIONS[kind](a, axis=axis, ties=ties), expected)
            with dml.config(threads=1):
                assert same(FUNCTIONS[kind](a, axis=axis, ties=ties), expected)


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_random_calls(data):
    rng = np.random.default_rng(data.draw(seeds))
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 17, 70]), min_size=1, max_size=4)))
    if np.prod(shape) > 5_000:
        shape = shape[:2]
    a = lay_out(rng, fill(rng, shape, data.draw(st.sampled_from(NUMBERS))), data.draw(st.sampled_from(LAYOUTS)))
    kind = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1) | st.permutations(range(len(shape))))
    if isinstance(axis, list):
        count = data.draw(st.integers(1, len(shape)))
        axis = tuple(d - len(shape) * data.draw(st.integers(0, 1)) for d in axis[:count])
    rules = {"ties": data.draw(st.sampled_from(["first", "last"]))}
    rules["nan"] = data.draw(st.sampled_from(["first", "last", "largest"]))
    given = {"axis": axis, "keepdims": data.draw(st.booleans()), **rules}
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    total = int(np.prod([shape[d] for d in axes]))
    function = FUNCTIONS[kind]
    if total == 0:
        with pytest.raises(ValueError, match=f"{kind}: axis: found a size of 0"):
            function(a, **given)
        return
    index_dtype = data.draw(st.sampled_from([None, *INDEX_TYPES]))
    if index_dtype is not None and total - 1 > np.iinfo(index_dtype).max:
        with pytest.raises(ValueError, match="index_dtype: found"):
            function(a, **given, index_dtype=index_dtype)
        index_dtype = None
    expected = reference.argextreme(a, kind, **given).astype(index_dtype or np.intp)
    before = a.tobytes()
    assert same(function(a, **given, index_dtype=index_dtype), expected)
    assert a.tobytes() == before
    out = lay_out(rng, np.zeros_like(expected), data.draw(st.sampled_from(["packed", "fortran", "reversed", "sparse"])))
    assert function(a, **given, index_dtype=index_dtype, out=out) is out
    assert same(out, expected)
    with dml.config(threads=1):
        assert same(function(a, **given, index_dtype=index_dtype), expected)
    if len(axes) == 1 and rules["ties"] == "first":
        mode = "largest" if kind == "argmax" else "smallest"
        best = dml.top_k(a, 1, axis=int(axes[0]), mode=mode, nan=rules["nan"]).indices
        assert same(function(a, **{**given, "keepdims": True}), best)
    if rules == {"ties": "first", "nan": "first"} and a.dtype != BFLOAT16 and not isinstance(axis, tuple):
        assert same(np.asarray(expected, np.intp), np.asarray(getattr(np, kind)(a, axis, keepdims=given["keepdims"])))


@pytest.mark.cpu
@pytest.mark.parametrize("shape", [(40, 50), (300, 20), (20, 300)])
def test_overlaps(shape):
    rng = np.random.default_rng(0)
    for _ in range(40):
        memory = rng.integers(0, 1000, 3 * shape[0] * shape[1])
        size, axis = shape[0] * shape[1], int(rng.integers(2))
        a = memory[(place := rng.integers(0, size)) : place + size].reshape(shape)
        out = memory[(place := rng.integers(0, 2 * size)) : place + shape[1 - axis]]
        expected = dml.argmax(a.copy(), axis=axis)
        assert dml.argmax(a, axis=axis, out=out) is out
        assert same(out, expected)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1, 2)])
def test_layouts_that_are_copied_first(axis, dtype):
    """Elements, and lines, whose neighbours are apart, or fill no vector; not what is broadcast."""
    rng = np.random.default_rng(7)
    a = rng.integers(0, 9, (12, 40, 6)).astype(dtype)
    before = a.copy()
    for view in (
        a.T,
        a[:, ::-1],
        a[..., ::2],
        a[..., :3],
        a[::-3],
        np.broadcast_to(a[..., :1], a.shape),
        a.swapaxes(0, 1),
    ):
        for ties in ("first", "last"):
            found = dml.argmax(view, axis=axis, ties=ties)
            assert same(found, reference.argextreme(view, "argmax", axis, ties=ties))
    memory = np.zeros(4000, "i8")
    view = memory[: 2 * 300].reshape(300, 2)[:, 1].reshape(15, 20)
    view[:] = rng.integers(0, 50, (15, 20))
    expected = np.argmax(view, 1)
    assert same(dml.argmax(view, axis=1, out=memory[5:20]), expected)
    assert same(a, before)


def test_lists_and_results():
    assert same(dml.argmax([1, 3, 3]), np.array(1))
    assert same(dml.argmin([[1.5], [-2.0]], axis=0), np.array([1]))
    assert same(dml.argmin([[1.5], [-2.0]], keepdims=True), np.array([[1]]))
    assert same(dml.argmax(np.zeros((0, 3)), axis=1), np.empty(0, np.intp))
    assert same(dml.argmax(np.zeros((0, 3)), axis=1, keepdims=True, index_dtype="u1"), np.empty((0, 1), "u1"))
    assert same(dml.argmax(np.zeros((2, 0, 3)), axis=(0, 2)), np.empty(0, np.intp))
    assert dml.argmax(np.zeros(256), index_dtype="u1", ties="last") == 255
    a = np.zeros((1,) * 64) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else np.zeros((1,) * 32)
    assert dml.argmax(a) == 0


WRONG = {
    "axis": ({"axis": 2}, ValueError, "axis: found 2, expected -2 to 1 for an array with 2 dimensions"),
    "an axis": ({"axis": (0, -3)}, ValueError, "axis: found -3, expected -2 to 1 for an array with 2 dimensions"),
    "twice": ({"axis": (0, -2)}, ValueError, r"axis: found \(0, -2\), expected each axis once"),
    "no axis": ({"axis": ()}, ValueError, r"axis: found \(\), expected one axis at least"),
    "float axis": ({"axis": 1.0}, TypeError, "axis: found 1.0, expected an integer, a tuple of integers or None"),
    "bool axis": ({"axis": True}, TypeError, "axis: found True, expected an integer"),
    "float axes": ({"axis": (0, 1.0)}, TypeError, "axis: found 1.0, expected an integer"),
    "a list": ({"axis": [0]}, TypeError, r"axis: found \[0\], expected an integer, a tuple of integers or None"),
    "keepdims": ({"keepdims": 2}, TypeError, "keepdims: found 2, expected True or False"),
    "ties": ({"ties": "any"}, ValueError, "ties: found 'any', expected 'first' or 'last'"),
    "nan": ({"nan": "omit"}, ValueError, "nan: found 'omit', expected one of 'last', 'largest', 'first'"),
    "index_dtype": ({"index_dtype": "f4"}, TypeError, "index_dtype: found float32, expected a native integer dtype"),
    "no dtype": ({"index_dtype": "spam"}, TypeError, "index_dtype: found 'spam', expected an integer dtype"),
    "order": ({"index_dtype": ">i4"}, TypeError, "index_dtype: found >i4, expected a native integer dtype"),
    "out": ({"axis": 0, "out": np.zeros(2, "f4")}, TypeError, "out: found dtype float32, expected int64"),
    "out's shape": ({"axis": 0, "out": np.zeros(3, int)}, ValueError, r"out: found shape \(3,\), expected \(2,\)"),
    "target": ({"target": "tpu"}, ValueError, "target: found 'tpu'"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("function", FUNCTIONS.values())
def test_wrong_arguments(name, function):
    arguments, error, text = WRONG[name]
    with pytest.raises(error, match=text if name == "target" else f"{function.__name__}: {text}"):
        function(np.ones((3, 2)), **arguments)


@pytest.mark.parametrize("function", FUNCTIONS.values())
def test_wrong_arrays(function):
    name = function.__name__
    for a in (
        np.array([None]),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.ones(2, "c8"),
        np.ones(2, np.longdouble),
        np.array(["a"]),
        np.ones(2, "m8[s]"),
        np.ones(2, "V4"),
    ):
        with pytest.raises(TypeError, match=f"{name}: a: found"):
            function(a)
    with pytest.raises(TypeError, match=r"found 2 positional arguments, expected 1 \(write axis=1\)"):
        function(np.ones((2, 2)), 1)
    with pytest.raises(ValueError, match=f"{name}: a: found 0 dimensions, expected at least 1"):
        function(3.0)
    for shape, axis in (((0,), 0), ((0, 3), None), ((3, 0), (0, 1)), ((0, 0), 1)):
        with pytest.raises(ValueError, match=f"{name}: axis: found a size of 0, expected sizes of at least 1 on axis"):
            function(np.zeros(shape), axis=axis)
    with pytest.raises(ValueError, match=f"{name}: index_dtype: found int8, expected a type that holds 128, the last"):
        function(np.zeros((3, 43)), index_dtype="i1")


T8 = {"FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"}
LEVELS = [("FL_4_1", T8 | {"INT64", "UINT64"}), ("FL_3_0", T8)]
I4 = {"INT64", "INT32", "UINT64", "UINT32"}


def build(kind, data="FLOAT32", index="UINT32", rank=4, **given):
    data, index = (t if isinstance(t, dml.TensorDataType) else dml.TensorDataType[t] for t in (data, index))
    tensors = TensorDesc(data, (1,) * (rank - 1) + (3,)), TensorDesc(index, (1,) * rank)
    fields = dict(zip(("input_tensor", "output_tensor"), tensors, strict=True))
    return DESCRIPTORS[kind](**(fields | {"axes": (rank - 1,), "axis_direction": 0} | given))


@pytest.mark.parametrize("kind", DESCRIPTORS)
@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
def test_feature_levels(kind, level):
    types = next((types for first, types in LEVELS if FeatureLevel[first] <= level), None)
    if types is None:
        with pytest.raises(DescriptorError, match=f"found {level.name}, expected FL_3_0 or later"):
            build(kind).validate(level)
        return
    for data in dml.TensorDataType:
        if data.name in types:
            build(kind, data).validate(level)
        elif data.name.startswith("COMPLEX"):
            with pytest.raises(DescriptorError, match="expected a data type with an order"):
                build(kind, data)
        else:
            with pytest.raises(DescriptorError, match=f"input_tensor: found {data.name}, expected one of"):
                build(kind, data).validate(level)
    for index in ("INT64", "INT32", "UINT64", "UINT32", "INT16", "UINT8"):
        if index in I4:
            build(kind, index=index).validate(level)
        else:
            with pytest.raises(DescriptorError, match=f"output_tensor: found {index}, expected one of"):
                build(kind, index=index).validate(level)
    for rank in range(1, 10):
        if rank <= 8:
            build(kind, rank=rank).validate(level)
        else:
            with pytest.raises(DescriptorError, match=f"input_tensor: found {rank} dimensions"):
                build(kind, rank=rank).validate(level)
    empty = {"input_tensor": TensorDesc("float32", (0, 3)), "output_tensor": TensorDesc("uint32", (0, 1))}
    descriptor = build(kind, rank=2, **empty)
    with pytest.raises(DescriptorError, match="sizes of at least 1"):
        descriptor.validate(level)


@pytest.mark.parametrize("kind", DESCRIPTORS)
def test_wrong_descriptors(kind):
    def tensor(dtype, *sizes):
        return TensorDesc(dtype, sizes)

    wrong = {
        r"axes: found \(\), expected 1 to 4 axes": {"axes": ()},
        r"axes: found 4, expected 0 to 3": {"axes": (4,)},
        r"axes: found -1, expected 0 to 3": {"axes": (-1,)},
        r"axes: found \(3, 3\), expected each axis once": {"axes": (3, 3)},
        r"axes: found 1.5, expected an integer": {"axes": (1.5,)},
        r"axes: found 3, expected a sequence of integers": {"axes": 3},
        "axis_direction: found 2, expected INCREASING": {"axis_direction": 2},
        "nan: found 'x', expected one of": {"nan": "x"},
        r"output_tensor: found sizes \(1, 1, 1, 3\), expected sizes \(1, 1, 1, 1\)": {
            "output_tensor": tensor("uint32", 1, 1, 1, 3)
        },
        "output_tensor: found float32, expected an integer": {"output_tensor": tensor("float32", 1, 1, 1, 1)},
        "output_tensor: found 1 dimensions, expected 4": {"output_tensor": tensor("uint32", 1)},
        "axes: found a size of 0, expected sizes of at least 1": {
            "input_tensor": tensor("float32", 1, 1, 1, 0),
        },
        "output_tensor: found int8, expected a type that holds 128, the last position": {
            "input_tensor": tensor("float32", 1, 1, 1, 129),
            "output_tensor": tensor("int8", 1, 1, 1, 1),
        },
    }
    for text, fields in wrong.items():
        with pytest.raises(DescriptorError, match=text):
            build(kind, **fields)


@pytest.mark.parametrize("kind", DESCRIPTORS)
def test_descriptors(kind):
    descriptor = build(kind, rank=3, axes=[2, 0], axis_direction="DECREASING")
    assert descriptor.axis_direction is AxisDirection.DECREASING
    assert (descriptor.axes, descriptor.axis_count) == ((0, 2), 2)
    assert descriptor == build(kind, rank=3, axes=(0, 2), axis_direction=1)
    values = json.loads(json.dumps(descriptor.to_dict()))
    assert dml.Descriptor.from_dict(values) == descriptor
    assert dml.Descriptor.from_dict(values | {"axis_count": 2}) == descriptor
    with pytest.raises(DescriptorError, match="axis_count: found 1, expected 2, the number of axes"):
        dml.Descriptor.from_dict(values | {"axis_count": 1})
    assert descriptor.operator_type == (138 if kind == "argmax" else 137)
    operator = dml.compile_operator(descriptor)
    assert operator(np.array([[[2, 1, 2]]], "f4")).tolist() == [[[2 if kind == "argmax" else 1]]]
    assert operator.kernel.startswith(kind)
    assert operator.work == 16
    with pytest.raises(ValueError, match="found shape"):
        operator(np.ones((1, 3), "f4"))
    with pytest.raises(TypeError, match="found dtype float64"):
        operator(np.ones((1, 1, 3)))


@numba.njit
def jitted_over_one(a, axis):
    return dml.argmax(a, axis=axis), dml.argmin(a, axis=axis, ties="last", keepdims=True, index_dtype=np.uint16)


@numba.njit
def jitted_over_several(a):
    return (
        dml.argmax(a, nan="last"),
        dml.argmin(a, axis=(-1, 0)),
        dml.argmax(a, axis=(0, 1), ties="last", keepdims=True),
    )


@numba.njit
def jitted_to(a, out):
    return dml.argmin(a, axis=0, index_dtype=np.int8, out=out)


@pytest.mark.cpu
def test_in_jitted_code():
    rng = np.random.default_rng(0)
    for dtype in ("f4", "?", "u1"):
        for shape in ((7, 1), (40, 130), (3, 1), (200, 2)):
            for layout in ("packed", "reversed", "transposed"):
                a = lay_out(rng, fill(rng, shape, np.dtype(dtype)), layout)
                for axis in (0, -1):
                    found, last = jitted_over_one(a, axis)
                    assert same(found, dml.argmax(a, axis=axis))
                    assert same(last, dml.argmin(a, axis=axis, ties="last", keepdims=True, index_dtype="u2"))
    for shape in ((3, 1, 70), (2, 5, 4)):
        a = rng.choice([nan, -nan, 0.0, -0.0, inf, 3], shape)
        for array in (a, a.T[::-1]):
            found, outer, kept = jitted_over_several(array)
            assert same(found, dml.argmax(array, nan="last"))
            assert same(outer, dml.argmin(array, axis=(-1, 0)))
            assert same(kept, dml.argmax(array, axis=(0, 1), ties="last", keepdims=True))


@pytest.mark.cpu
def test_outputs_and_errors_in_jitted_code():
    a = np.random.default_rng(0).integers(0, 100, (100, 7)).astype("i1")
    expected = dml.argmin(a, axis=0, index_dtype="i1")
    for out in (np.empty(14, "i1")[::2], a[3]):
        assert jitted_to(a, out) is not None
        assert same(out, expected)

    def plain(a, out):
        return dml.argmin(a, axis=0, index_dtype=np.int8, out=out)

    for jitted, function, args in (
        (jitted_to, plain, (a, np.empty(3, "i1"))),
        (jitted_to, plain, (np.zeros((0, 2)), np.empty(2, "i1"))),
        (jitted_to, plain, (np.zeros((300, 2)), np.empty(2, "i1"))),
        (jitted_over_one, lambda a, axis: dml.argmax(a, axis=axis), (a, -3)),
        (jitted_over_one, lambda a, axis: dml.argmax(a, axis=axis), (a, np.uint64(2**64 - 1))),
    ):
        with pytest.raises(ValueError, match="arg") as error:
            function(*args)
        with pytest.raises(ValueError, match="arg") as found:
            jitted(*args)
        assert str(found.value) == str(error.value)

    @numba.njit
    def twice(a):
        return dml.argmin(a, axis=(0, -2))

    with pytest.raises(TypingError, match=r"argmin: axis: found \(0, -2\), expected each axis once"):
        twice(a)
    with pytest.raises(TypingError, match="argmax: a: found an array of complex128"):
        jitted_over_one(a + 0j, 0)
