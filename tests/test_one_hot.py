"""One-hot: examples, every dtype, layout, axis and rule for bad indices beside an oracle, overlaps, levels, errors."""

import os

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

import numba_dml as dml
from numba_dml import DescriptorError, FeatureLevel, TensorDesc
from numba_dml._core.descriptor import MAX_DIMENSIONS as MOST

from . import reference
from .levels import I4, T8, T11, TF, check_level
from .reference import same
from .strategies import COMPLEX, INDEX_TYPES, LAYOUTS, MOVED, NUMBERS, fill, indices, lay_out, seeds

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "150"))
#: Indices, their sizes, values, axis, size, and the result.
PAGES = {
    "axis 3": ([0, 3, 2], (1, 1, 3, 1), [0, 1], 3, 4, [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]),
    "axis 2": ([0, 2, 1, 0], (1, 1, 1, 4), [0, 1], 2, 3, [[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]),
    "three values": ([0, 3, 2], (1, 1, 3, 1), [2, 4, 9], 3, 4, [[4, 2, 2, 2], [2, 2, 2, 4], [2, 2, 4, 2]]),
    "outside": ([-3, 100, 3], (1, 1, 3, 1), [0, 1], 3, 4, [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int16", "int64", "float64", "bool"])
def test_examples_of_the_page(name, dtype):
    numbers, sizes, values, axis, depth, expected = PAGES[name]
    i, values = np.array(numbers, "i4").reshape(sizes), np.array(values).reshape(1, 1, -1, 1).astype(dtype)
    expected = np.array(expected)[None, None].astype(dtype)
    tensors = TensorDesc("int32", sizes), TensorDesc(dtype, values.shape), TensorDesc(dtype, expected.shape)
    operator = dml.compile_operator(dml.OneHotDesc(*tensors, axis), feature_level=None if dtype == "bool" else 0x4100)
    assert same(operator(i, values), expected)
    out = np.full_like(expected, 1)
    assert operator(i, values, out=out) is out
    assert same(out, expected)
    off, on = values.reshape(-1)[:2]
    found = dml.one_hot(i.squeeze(axis), depth, axis=axis, on_value=on, off_value=off, bounds="drop")
    assert same(found, expected)


def test_examples_of_onnx():
    found = dml.one_hot(np.array([0, -7, -8]), 10, axis=1, off_value=1, on_value=3, dtype="f4")
    expected = np.ones((3, 10), "f4")
    expected[[0, 1, 2], [0, 3, 2]] = 3
    assert same(found, expected)
    found = dml.one_hot(np.array([5, -6, -1]), 5, bounds="drop", dtype="i8")
    assert found.tolist() == [[0] * 5, [0] * 5, [0, 0, 0, 0, 1]]


@pytest.mark.parametrize("value", [2**32 + 1, 2**63 + 1, 2**64 - 1])
def test_indices_are_compared_at_full_width(value):
    i = np.array([value], "u8")
    assert not dml.one_hot(i, 4, bounds="drop").any()
    assert dml.one_hot(i, 4, bounds="clamp").tolist() == [[0, 0, 0, 1]]
    with pytest.raises(IndexError, match=rf"one_hot: indices\[0\] = {value} is out of range for axis 1 of size 4"):
        dml.one_hot(i, 4)


def test_bad_indices():
    i = np.array([[-3, 100, 3]])
    before = i.copy()
    with pytest.raises(IndexError, match=r"one_hot: indices\[0, 1\] = 100 is out of range for axis 2 of size 4"):
        dml.one_hot(i, 4)
    with pytest.raises(IndexError, match=r"one_hot: indices\[0, 1\] = 100 is out of range for axis 0 of size 4"):
        dml.one_hot(i, 4, axis=0)
    assert same(i, before)
    assert dml.one_hot([-100, 100], 3, bounds="clamp").tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(IndexError, match=r"one_hot: indices\[\(\)\] = -4 is out of range for axis 0 of size 3"):
        dml.one_hot(-4, 3)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
@pytest.mark.parametrize("depth", [16, 17, 19, 33])
def test_bad_indices_of_rows_that_end_within_16_bytes(depth, dtype):
    off, on = np.zeros((), dtype), np.ones((), dtype)
    given = {"on_value": on, "off_value": off}
    i = np.random.default_rng(5).integers(-depth - 3, depth + 3, 23)
    for bounds in ("drop", "clamp"):
        assert same(dml.one_hot(i, depth, bounds=bounds, **given), reference.one_hot(i, depth, off, on, -1, bounds))
    for place in range(0, 23, 2):
        i = np.arange(23) % depth
        i[place] = depth
        with pytest.raises(IndexError, match=rf"indices\[{place}\] = {depth} is out of range"):
            dml.one_hot(i, depth, **given)


@pytest.mark.cpu
def test_a_deferred_index_is_raised_at_once_on_the_cpu():
    with pytest.raises(IndexError, match=r"indices\[1\] = 5"):
        dml.one_hot([0, 5], 3, bounds="deferred")


def test_a_deferred_index_is_raised_at_the_check_on_a_device(target):
    if target != "cuda":
        pytest.skip("about the target cuda")
    dml.check()
    for depth, bad in ((3, r"\[1\] = 5 is out of range for axis 1 of size 3"), (0, r"\[0\] = 0 is out of range")):
        found = dml.one_hot(np.array([0, 5, 1]), depth, bounds="deferred", off_value=2)
        assert same(found, reference.one_hot(np.array([0, 5, 1]), depth, np.float32(2), np.float32(1), bounds="drop"))
        with pytest.raises(IndexError, match="one_hot: indices" + bad):
            dml.check()
    dml.check()


def test_without_depth_every_index_is_bad():
    assert dml.one_hot(np.array([1, 2]), 0, bounds="drop").shape == (2, 0)
    for bounds in ("raise", "clamp"):
        with pytest.raises(IndexError, match=r"one_hot: indices\[0, 0\] = 1 is out of range for axis 0 of size 0"):
            dml.one_hot(np.array([[1, 2]]), 0, axis=0, bounds=bounds)
    assert dml.one_hot(np.empty((0, 3), "i4"), 0).shape == (0, 3, 0)
    assert dml.one_hot([], 5).shape == (0, 5)


def test_scalars_lists_and_types():
    assert same(dml.one_hot(2, 3), np.array([0, 0, 1], "f4"))
    assert same(dml.one_hot([0, -1], 2, dtype=bool), np.eye(2, dtype=bool))
    assert same(dml.one_hot([0], 2, on_value=np.int16(7)), np.array([[7, 0]], "i2"))
    assert same(dml.one_hot([0], 2, on_value=2.5, off_value=-0.0), np.array([[2.5, -0.0]], "f4"))
    assert same(dml.one_hot([0], 2, on_value=0.0, off_value=-0.0), np.array([[0.0, -0.0]], "f4"))
    assert same(dml.one_hot([0], 2, dtype="c8"), np.array([[1, 0]], "c8"))
    nan = np.array(0x7F800001, "u4").view("f4")
    assert same(
        dml.one_hot([0], 2, on_value=nan, off_value=np.float32(-0.0)).view("u4"),
        np.array([[0x7F800001, 1 << 31]], "u4"),
    )
    on, off = np.array("yes"), np.array("no ")
    assert same(dml.one_hot([1, 0], 2, on_value=on, off_value=off), np.array([[off, on], [on, off]]))
    assert same(dml.one_hot([1], 2, on_value=np.array(5, ">i4")), np.array([[0, 5]], "i4"))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4", "uint2", "bfloat16"])
def test_zero_and_one_become_elements_of_ml_dtypes(name):
    kind = getattr(pytest.importorskip("ml_dtypes"), name, None)
    if kind is None:
        pytest.skip("this ml_dtypes has no such dtype")
    dtype = np.dtype(kind)
    refused = f"value: found dtype int64, expected {name}, the dtype of the result"
    if name == "float8_e8m0fnu":  # it has no 0
        with pytest.raises(TypeError, match=f"one_hot: off_{refused}"):
            dml.one_hot([1], 2, dtype=dtype)
        return
    assert same(dml.one_hot([1, 0], 2, dtype=dtype), np.array([[0, 1], [1, 0]]).astype(dtype))
    assert same(dml.one_hot([1, 0], 2, on_value=0, off_value=1, dtype=dtype), np.eye(2).astype(dtype))
    if name != "bfloat16":
        with pytest.raises(TypeError, match=f"one_hot: on_{refused}"):
            dml.one_hot([1], 2, on_value=2, dtype=dtype)


@pytest.mark.parametrize("dtype", NUMBERS + COMPLEX + MOVED, ids=str)
def test_every_dtype(dtype):
    rng = np.random.default_rng(3)
    off, on = fill(rng, (2, 1), dtype)
    i = rng.integers(-5, 5, (4, 3))
    for axis in range(3):
        found = dml.one_hot(i, 5, axis=axis, on_value=on.reshape(()), off_value=off.reshape(()))
        assert same(found, reference.one_hot(i, 5, off, on, axis))


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_random_calls(data):
    shape = data.draw(st.lists(st.integers(0, 5), max_size=3).map(tuple))
    depth, bounds = data.draw(st.integers(0, 7)), data.draw(st.sampled_from(["raise", "drop", "clamp"]))
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    i = data.draw(indices(shape, depth, bounds))
    off, on = fill(np.random.default_rng(data.draw(seeds)), (2, 1), data.draw(st.sampled_from(NUMBERS + COMPLEX)))
    given = {"axis": axis, "on_value": on[0], "off_value": off[0], "bounds": bounds}
    try:
        expected = reference.one_hot(i, depth, off, on, axis, bounds)
    except IndexError:
        with pytest.raises(IndexError, match="one_hot: indices"):
            dml.one_hot(i, depth, **given)
        return
    assert same(dml.one_hot(i, depth, **given), expected)
    out = lay_out(np.random.default_rng(1), np.zeros_like(expected), data.draw(st.sampled_from(LAYOUTS[:4])))
    assert dml.one_hot(i, depth, out=out, **given) is out
    assert same(np.ascontiguousarray(out), expected)


@pytest.mark.parametrize(
    ("shape", "depth", "axis"),
    [
        ((300,), 10, -1),
        ((70, 3), 5, 1),
        ((3, 2500), 7, 1),
        ((2, 700), 40, 0),
        ((2,), 30000, -1),
        ((5000,), 2, 0),
        ((3000,), 1, 1),
        ((2, 20, 40), 30, 1),
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16", "S5"])
def test_tiles(shape, depth, axis, dtype, simulated):
    """Of every kind: whole blocks, parts of one, and rows that do not fit."""
    if simulated:
        shape, depth = tuple(min(n, 40) for n in shape), min(depth, 40)
    rng = np.random.default_rng(5)
    off, on = np.array([b"a", b"b"], "S5") if dtype == "S5" else np.array([7, 9], dtype)
    for kind in INDEX_TYPES:
        limit = min(depth, np.iinfo(kind).max)
        i = rng.integers(-limit if kind.kind == "i" else 0, limit, shape).astype(kind)
        found = dml.one_hot(i, depth, axis=axis, on_value=on, off_value=off)
        assert same(found, reference.one_hot(i, depth, off, on, axis))


@pytest.mark.cpu
@pytest.mark.parametrize("axis", [0, 1])
def test_large_outputs_past_the_caches(axis):
    i = np.random.default_rng(0).integers(0, 70, 150_001)
    found = dml.one_hot(i, 70, axis=axis, bounds="drop")
    expected = np.eye(70, dtype="f4")[i]
    assert same(found, expected if axis else np.ascontiguousarray(expected.T))
    i[149_999] = i[17] = 99
    with pytest.raises(IndexError, match=r"indices\[17\] = 99"):
        dml.one_hot(i, 70, axis=axis)


@pytest.mark.cpu
def test_overlaps():
    memory = np.arange(12) % 4
    expected = np.eye(4, dtype=int)[memory[:3]]
    out = memory.reshape(3, 4)
    assert dml.one_hot(memory[:3], 4, dtype=int, out=out) is out
    assert same(out, expected)
    memory[:3] = 1, 9, 2
    before = memory.copy()
    with pytest.raises(IndexError):
        dml.one_hot(memory[:3], 4, dtype=int, out=out)
    assert same(memory, before)
    for dtype, step in (("<i8", 2), (">i8", 1), ("<u2", 2), (">i4", 3)):  # which are copied for the kernel
        memory = np.zeros(400_000, "u1")
        size = np.dtype(dtype).itemsize
        indices = np.ndarray(6000, dtype, memory, 0, step * size)
        out = np.ndarray((6000, 4), "f4", memory)
        indices[:] = np.arange(6000) % 4
        expected = np.eye(4, dtype="f4")[indices.astype(int)]
        assert dml.one_hot(indices, 4, out=out) is out
        assert same(out, expected)
        indices[:] = np.arange(6000) % 4
        indices[-1] = 99
        before = memory.copy()
        with pytest.raises(IndexError, match=r"one_hot: indices\[5999\] = 99 is out of range"):
            dml.one_hot(indices, 4, out=out)
        assert same(memory, before)
    values = np.array([5, 6, 7, 8])
    tensors = TensorDesc("int64", (2, 1)), TensorDesc("int64", (2, 2)), TensorDesc("int64", (2, 2))
    operator = dml.compile_operator(dml.OneHotDesc(*tensors, 1))
    operator(np.array([[1], [0]]), values.reshape(2, 2), out=values.reshape(2, 2))
    assert values.tolist() == [5, 6, 6, 5]
    assert operator([[1], [0]], np.array([[5, 9], [6, 9]]).T).tolist() == [[5, 6], [6, 5]]


WRONG = {
    "indices": (([1.0], 3), {}, TypeError, "indices: found dtype float64, expected an integer dtype"),
    "mask": (([True], 3), {}, TypeError, "indices: found dtype bool, expected an integer dtype"),
    "masked": ((np.ma.masked_array([1]), 3), {}, TypeError, "indices: found a masked array"),
    "objects": ((np.array([None]), 3), {}, TypeError, "indices: found dtype object, expected an"),
    "depth": (([1], 3.0), {}, TypeError, "depth: found 3.0, expected an integer"),
    "negative": (([1], -1), {}, ValueError, "depth: found -1, expected 0 or more"),
    "axis": (([1], 3), {"axis": 2}, ValueError, "axis: found 2, expected -2 to 1 for a result with 2 dimensions"),
    "low axis": (([1], 3), {"axis": -3}, ValueError, "axis: found -3, expected -2 to 1"),
    "float axis": (([1], 3), {"axis": 1.0}, TypeError, "axis: found 1.0, expected an integer"),
    "bounds": (([1], 3), {"bounds": "wrap"}, ValueError, "bounds: found 'wrap', expected one of 'raise', 'clamp'"),
    "two dtypes": (
        ([1], 3),
        {"on_value": np.int8(1), "off_value": np.int16(0)},
        TypeError,
        r"off_value: found dtype int16, expected int8, the dtype of the result \(no silent cast\)",
    ),
    "cast": (([1], 3), {"on_value": 1.5, "dtype": "i4"}, TypeError, "on_value: found dtype float64, expected int32"),
    "large": (
        ([1], 3),
        {"on_value": 300, "dtype": "i1"},
        ValueError,
        "on_value: found 300, expected numbers that int8",
    ),
    "bool": (([1], 3), {"on_value": 2, "dtype": bool}, TypeError, "on_value: found dtype int64, expected bool"),
    "shape": (([1], 3), {"on_value": [1, 2]}, ValueError, r"on_value: found shape \(2,\), expected a single value"),
    "dtype": (([1], 3), {"dtype": "spam"}, TypeError, "dtype: found 'spam', expected a dtype"),
    "object": (([1], 3), {"dtype": object}, TypeError, "dtype: found dtype object"),
    "order": (([1], 3), {"dtype": ">f4"}, TypeError, "dtype: found >f4, expected a native dtype"),
    "out": (([1], 3), {"out": np.zeros((1, 3))}, TypeError, "out: found dtype float64, expected float32"),
    "out's shape": (([1], 3), {"out": np.zeros(3, "f4")}, ValueError, r"out: found shape \(3,\), expected \(1, 3\)"),
    "target": (([1], 3), {"target": "tpu"}, ValueError, "target: found 'tpu'"),
    "position": (([1], 3, 1), {}, TypeError, r"found 3 positional arguments, expected 2 \(write axis=1\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    arguments, parameters, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        dml.one_hot(*arguments, **parameters)


def test_defaults_of_bounds():
    with dml.config(bounds="drop"):
        assert not dml.one_hot([9], 3).any()
        with pytest.raises(IndexError):
            dml.one_hot([9], 3, bounds="raise")


TABLE = [
    ("FL_4_1", T11, I4, (1, 8)),
    ("FL_3_0", T8, I4, (1, 8)),
    ("FL_2_1", T8, {"UINT32"}, (4, 4)),
    ("FL_2_0", TF, {"UINT32"}, (4, 4)),
]


def build(data="FLOAT32", index="UINT32", rank=4, **given):
    kinds = [dml.TensorDataType[index], dml.TensorDataType[data]]
    fields = {
        "indices_tensor": TensorDesc(kinds[0], (1,) * rank),
        "values_tensor": TensorDesc(kinds[1], (1,) * (rank - 1) + (2,)),
        "output_tensor": TensorDesc(kinds[1], (1,) * (rank - 1) + (3,)),
        "axis": rank - 1,
    }
    return dml.OneHotDesc(**(fields | given))


@pytest.mark.cpu
@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
def test_feature_levels(level):
    check_level(level, TABLE, build, data="values_tensor", indices="indices_tensor", dimensions="indices_tensor")


@pytest.mark.cpu
def test_descriptors():
    wrong = {
        "axis: found 4, expected 0 to 3": {"axis": 4},
        "bounds: found 'wrap', expected one of": {"bounds": "wrap"},
        "indices_tensor: found sizes .1, 1, 1, 2., expected size 1 on axis 3": {
            "indices_tensor": TensorDesc("uint32", (1, 1, 1, 2))
        },
        "values_tensor: found sizes .1, 1, 1, 1., expected at least 2 elements": {
            "values_tensor": TensorDesc("float32", (1, 1, 1, 1))
        },
        "output_tensor: found sizes .1, 2, 1, 3., expected sizes .1, 1, 1, 3.": {
            "output_tensor": TensorDesc("float32", (1, 2, 1, 3))
        },
        "output_tensor: found int32, expected float32, the type of values_tensor": {
            "output_tensor": TensorDesc("int32", (1, 1, 1, 3))
        },
        "indices_tensor: found float32, expected an integer": {"indices_tensor": TensorDesc("float32", (1, 1, 1, 1))},
        "values_tensor: found 1 dimensions, expected 4, as indices_tensor has": {
            "values_tensor": TensorDesc("float32", (2,))
        },
        "indices_tensor: found 1 dimensions, expected 4, as values_tensor has": {
            "indices_tensor": TensorDesc("uint32", (1,))
        },
        "output_tensor: found 1 dimensions, expected 4, as indices_tensor has": {
            "output_tensor": TensorDesc("float32", (3,))
        },
        f"indices_tensor: found {MOST + 1} dimensions, expected at most {MOST}, NumPy's limit": {
            "indices_tensor": TensorDesc("uint32", (1,) * (MOST + 1)),
            "values_tensor": TensorDesc("float32", (*(1,) * MOST, 2)),
            "output_tensor": TensorDesc("float32", (*(1,) * MOST, 3)),
        },
    }
    for text, fields in wrong.items():
        with pytest.raises(DescriptorError, match=text):
            build(**fields)
    with pytest.raises(DescriptorError, match=r"output_tensor: found sizes .1, 1, 1, 0., expected sizes of at least 1"):
        build(output_tensor=TensorDesc("float32", (1, 1, 1, 0))).validate(FeatureLevel.FL_5_0)
    descriptor = build()
    assert descriptor.bounds == "drop"
    assert descriptor.operator_type == 95
    assert dml.Descriptor.from_dict(descriptor.to_dict()) == descriptor


@pytest.mark.cpu
def test_operators():
    operator = dml.compile_operator(build())
    assert operator.kernel == "one_hot 32-bit serial"
    assert operator.work == 16
    i, values = np.zeros((1, 1, 1, 1), "u4"), np.array([0, 1], "f4").reshape(1, 1, 1, 2)
    assert operator(i, values).tolist() == [[[[1, 0, 0]]]]
    with pytest.raises(ValueError, match=r"one_hot operator: values: found shape \(2,\), expected \(1, 1, 1, 2\)"):
        operator(i, np.array([0, 1], "f4"))
    with pytest.raises(TypeError, match="one_hot operator: values: found dtype float64, expected float32"):
        operator(i, values.astype("f8"))


@numba.njit
def jitted(i, depth, axis):
    return dml.one_hot(i, depth, axis=axis)


@numba.njit
def jitted_values(i, depth, on_value, out):
    first = dml.one_hot(i, depth, on_value=on_value, off_value=3, bounds="drop", axis=0)
    return first, dml.one_hot(i, depth, bounds="clamp", dtype=np.uint8, off_value=True, out=out)


@pytest.mark.cpu
def test_in_jitted_code():
    rng = np.random.default_rng(0)
    for shape, depth in (((), 3), ((40,), 7), ((0, 3), 2), ((5, 300), 40), ((3, 2), 1)):
        i = lay_out(rng, rng.integers(-depth, depth, shape), "reversed" if shape else "packed")
        for axis in (-1, 0):
            assert same(jitted(i, depth, axis), dml.one_hot(i, depth, axis=axis))
    i = np.array([[0, -9], [4, 2**32 + 1]])
    memory = np.zeros(64, "u1")
    memory[:32] = i.reshape(-1).view("u1")
    expected = dml.one_hot(i, 4, bounds="clamp", dtype="u1", off_value=True)
    for source, out in ((i, np.empty((4, 2, 2), "u1").T), (memory[:32].view("i8").reshape(2, 2), memory[8:24])):
        out = out.reshape(2, 2, 4)
        first, _ = jitted_values(source, 4, np.int16(-5), out)
        assert same(first, dml.one_hot(i, 4, on_value=np.int16(-5), off_value=3, bounds="drop", axis=0))
        assert same(out, expected)


@pytest.mark.cpu
def test_errors_in_jitted_code():
    i, largest = np.array([[0, 1], [-4, 2]], "i4"), np.uint64(2**64 - 1)
    for args in (
        (i, 3, 0),
        (np.array(3), 3, 0),
        (i.T, 2, -1),
        (i, 0, 0),
        (i, -1, 0),
        (i, 5, 3),
        (i, 5, largest),
    ):
        with pytest.raises((IndexError, ValueError), match="one_hot: ") as error:
            dml.one_hot(args[0], args[1], axis=args[2])
        with pytest.raises(IndexError if error.type is IndexError else ValueError, match="one_hot: ") as found:
            jitted(*args)
        assert str(found.value) == str(error.value)
    for some in (i, i[:0]):
        with pytest.raises(ValueError, match="array is too big"):
            jitted(some, largest, 0)
    with pytest.raises(TypingError, match=f"one_hot: indices: found {MOST} dimensions, expected at most {MOST - 1} "):
        jitted(np.zeros((1,) * MOST, int), 5, 0)
    with pytest.raises(ValueError, match=r"one_hot: out: found shape \(2, 2, 4\), expected \(2, 2, 5\)"):
        jitted_values(i, 5, np.float32(1), np.empty((2, 2, 4), "u1"))

    @numba.njit
    def short(i, on_value):
        return dml.one_hot(i, 3, on_value=on_value, dtype=np.int8)

    assert same(short(i[0], 7), dml.one_hot(i[0], 3, on_value=7, dtype="i1"))
    with pytest.raises(ValueError, match="one_hot: on_value: found 200, expected numbers that int8 holds"):
        short(i, 200)

    @numba.njit
    def large(i):
        first = dml.one_hot(i, 3, on_value=9223372036854775808)
        return first, dml.one_hot(i, 3, on_value=9223372036854775808, dtype=np.uint64)

    found, whole = large(i[0])
    assert same(found, dml.one_hot(i[0], 3, on_value=2**63))
    assert same(whole, dml.one_hot(i[0], 3, on_value=2**63, dtype="u8"))
    with pytest.raises(TypingError, match="one_hot: on_value: found dtype float64, expected int8"):
        short(i, 2.0)
    with pytest.raises(TypingError, match="one_hot: indices: found an array of float64, expected an array of integers"):
        jitted(i * 1.0, 3, 0)
