"""Max unpooling: examples, dtypes, layouts, blocks and duplicates beside an oracle, bad indices, overlaps, levels."""

import os

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

import numba_dml as dml
from numba_dml import DescriptorError, FeatureLevel, TensorDesc

from . import reference
from .levels import T10, TF, check_level
from .reference import same
from .strategies import COMPLEX, INDEX_TYPES, LAYOUTS, MOVED, NUMBERS, arrays, fill, indices, lay_out, seeds

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "150"))
PLANE = [[0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 0, 0], [0, 3, 0, 4]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int16", "int64", "float64", "bool", "complex64"])
def test_example_of_the_page(dtype):
    a, expected = np.array([[[[1, 2], [3, 4]]]]).astype(dtype), np.array([[PLANE]]).astype(dtype)
    i = np.array([[[[5, 7], [13, 15]]]], "u4")
    assert same(dml.max_unpool(a, i, (1, 1, 4, 4)), expected)
    data = TensorDesc(dtype, a.shape), TensorDesc("uint32", i.shape), TensorDesc(dtype, expected.shape)
    strict = dtype not in ("bool", "complex64", "float64")
    descriptor = dml.MaxUnpoolingDesc(*data)
    operator = dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_5_0 if strict else None)
    assert same(operator(a, i), expected)
    out = np.full_like(expected, 1)
    assert operator(a, i, out=out) is out
    assert same(out, expected)


def test_blocks():
    a = np.array([[1, 2], [3, 4]]).reshape(2, 1, 1, 2)
    expected = np.array([[1, 0, 0, 2], [3, 0, 0, 4]]).reshape(2, 1, 1, 4)
    whole, blocks = np.array([0, 3, 4, 7]).reshape(a.shape), np.array([0, 3, 0, 3]).reshape(a.shape)
    assert same(dml.max_unpool(a, whole, (2, 1, 1, 4)), expected)
    for batch_dims in (1, 2, 3):
        assert same(dml.max_unpool(a, blocks, (2, 1, 1, 4), batch_dims=batch_dims), expected)
        assert same(dml.max_unpool(a, blocks - 4, (2, 1, 1, 4), batch_dims=batch_dims), expected)
    assert dml.max_unpool([[7, 8]], [[0, -1]], (1, 2), batch_dims=2, bounds="drop").tolist() == [[7, 8]]
    assert dml.max_unpool(5, 0, ()).tolist() == 5
    assert dml.max_unpool([5], [-1], [3]).tolist() == [0, 0, 5]


def test_duplicates_and_bad_indices():
    a = np.array([[1, 2], [3, 4]])
    assert dml.max_unpool(a, [[5, 5], [13, 15]], (4, 4))[1, 1] == 2
    for shape, batch, text in (((4, 4), 0, "axis 0 of size 16"), ((2, 8), 1, "axis 1 of size 8")):
        i = np.array([[5, 0], [16, 15 - 8 * batch]])
        with pytest.raises(IndexError, match=rf"max_unpool: indices\[1, 0\] = 16 is out of range for {text}"):
            dml.max_unpool(a, i, shape, batch_dims=batch)
        found = dml.max_unpool(a, i, shape, batch_dims=batch, bounds="drop")
        assert found.sum() == 7
        assert 3 not in found
    for value in (2**32 + 3, 2**63 + 1, 2**64 - 1):
        i = np.array([[0, 1], [2, value]], "u8")
        with pytest.raises(IndexError, match=rf"max_unpool: indices\[1, 1\] = {value} is out of range"):
            dml.max_unpool(a, i, (4, 4))
        assert dml.max_unpool(a, i, (2, 2), bounds="drop").tolist() == [[1, 2], [3, 0]]


def test_a_deferred_index(target):
    call = lambda: dml.max_unpool([1, 2], [0, 9], (3,), fill_value=5, bounds="deferred")  # noqa: E731
    text = r"max_unpool: indices\[1\] = 9 is out of range for axis 0 of size 3"
    if target == "cuda":
        dml.check()
        assert call().tolist() == [1, 5, 5]
    with pytest.raises(IndexError, match=text):
        dml.check() if target == "cuda" else call()


def test_fill_values():
    a, i = np.array([1.0], "f4"), [1]
    for fill_value in (0.0, -0.0, 0, 2.5, np.float32(-0.0), np.float32(np.nan), np.array(7, ">f4")):
        found = dml.max_unpool(a, i, (3,), fill_value=fill_value)
        assert same(found, np.array([fill_value, 1, fill_value], "f4"))
    assert dml.max_unpool([True], [0], (2,), fill_value=1).tolist() == [True, True]
    assert dml.max_unpool(np.array(["a"]), [0], (2,)).tolist() == ["a", ""]
    assert dml.max_unpool(np.array(["a"]), [0], (2,), fill_value=np.array("z")).tolist() == ["a", "z"]


def test_zero_sizes():
    assert dml.max_unpool(np.empty((0, 2)), np.empty((0, 2), int), (3, 2), fill_value=1.5).tolist() == [[1.5] * 2] * 3
    assert dml.max_unpool(np.empty((2, 0)), np.empty((2, 0), int), (2, 0), batch_dims=1).shape == (2, 0)
    with pytest.raises(IndexError, match=r"indices\[0\] = 0 is out of range for axis 0 of size 0"):
        dml.max_unpool([1], [0], (0,))
    assert dml.max_unpool([1], [0], (0,), bounds="drop").shape == (0,)


@st.composite
def calls(draw, dtypes):
    shape = draw(st.lists(st.integers(0, 4), max_size=4).map(tuple))
    batch_dims, bounds = draw(st.integers(0, len(shape))), draw(st.sampled_from(["raise", "drop"]))
    result = shape[:batch_dims] + tuple(draw(st.integers(0, 6)) for _ in shape[batch_dims:])
    i = draw(indices(shape, int(np.prod(result[batch_dims:])), bounds))
    return draw(arrays(shape, dtypes)), i, result, batch_dims, bounds


@settings(max_examples=EXAMPLES)
@given(calls(NUMBERS + COMPLEX + MOVED), st.sampled_from(LAYOUTS[:4]), seeds)
def test_random_calls(call, layout, seed):
    a, i, shape, batch_dims, bounds = call
    before, dtype = (a.tobytes(), i.tobytes()), a.dtype.newbyteorder("=")
    value = fill(np.random.default_rng(seed), (1,), dtype).reshape(()) if seed % 2 else 0
    given = {"batch_dims": batch_dims, "fill_value": value, "bounds": bounds}
    out = lay_out(np.random.default_rng(0), np.zeros(shape, dtype), layout)
    try:
        expected = reference.max_unpool(a, i, shape, **given)
    except IndexError:
        with pytest.raises(IndexError, match="max_unpool: indices"):
            dml.max_unpool(a, i, shape, **given)
        with pytest.raises(IndexError, match="max_unpool: indices"):
            dml.max_unpool(a, i, shape, **given, out=out)
    else:
        assert same(dml.max_unpool(a, i, shape, **given), expected)
        assert dml.max_unpool(a, i, shape, **given, out=out) is out
        assert same(reference.native(out), expected)
    assert (a.tobytes(), i.tobytes()) == before


@pytest.mark.parametrize(("shape", "planes"), [((2, 3, 40, 50), True), ((5, 400), False), ((4000,), False)])
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16", "S5"])
def test_large_arrays(shape, planes, dtype, simulated):
    """With many duplicates, for indices of every type that hold the places."""
    if simulated:
        shape = tuple(min(n, 6) for n in shape)
    rng = np.random.default_rng(1)
    a, batch = fill(rng, shape, np.dtype(dtype)), 2 if planes else 0
    result = (*shape[:batch], *(2 * n for n in shape[batch:]))
    size = int(np.prod(result[batch:]))
    for kind in INDEX_TYPES:
        i = rng.integers(0, min(size, np.iinfo(kind).max), shape).astype(kind)
        expected = reference.max_unpool(a, i, result, batch)
        assert same(dml.max_unpool(a, i, result, batch_dims=batch), expected)
        assert same(dml.max_unpool(np.asfortranarray(a), np.asfortranarray(i), result, batch_dims=batch), expected)
    i = rng.permutation(size)[: int(np.prod(shape[batch:]))].reshape((1,) * batch + shape[batch:])
    i = np.ascontiguousarray(np.broadcast_to(i, shape))
    expected = reference.max_unpool(a, i, result, batch)
    assert same(dml.max_unpool(a, i, result, batch_dims=batch, unique=True), expected)


@pytest.mark.cpu
def test_overlaps():
    memory = np.arange(12.0)
    a, i, out = memory[2:5].copy(), np.array([7, 0, 3]), memory[:8]
    expected = reference.max_unpool(a, i, (8,), fill_value=-1.0)
    assert same(dml.max_unpool(memory[2:5], i, (8,), fill_value=-1, out=out), expected)
    memory = np.array([3, 1, 9, 9])
    dml.max_unpool([5, 6], memory[:2], (4,), out=memory)
    assert memory.tolist() == [0, 6, 0, 5]
    memory = np.array([3, 9, 1, 2])
    before = memory.copy()
    for view in (memory[:2], memory[1::-1]):
        with pytest.raises(IndexError):
            dml.max_unpool([5, 6], view, (4,), out=memory)
        assert same(memory, before)


A, J = np.zeros((2, 3)), np.zeros((2, 3), int)
WRONG = {
    "indices": ((A, A, (4, 4)), {}, TypeError, "indices: found dtype float64, expected an integer dtype"),
    "sizes": ((A, J[:1], (4, 4)), {}, ValueError, r"indices: found sizes \(1, 3\), expected sizes \(2, 3\), as the"),
    "rank": ((A, J[0], (4, 4)), {}, ValueError, "indices: found 1 dimensions, expected 2"),
    "shape": ((A, J, (4,)), {}, ValueError, "shape: found 1 dimensions, expected 2, as a has"),
    "no shape": ((A, J, 4), {}, TypeError, "shape: found 4, expected a tuple of integers"),
    "float shape": ((A, J, (4, 4.0)), {}, TypeError, r"shape: found \(4, 4.0\), expected a tuple of integers"),
    "negative": ((A, J, (4, -4)), {}, ValueError, r"sizes: found \(4, -4\), expected sizes of at least 0"),
    "batch": ((A, J, (4, 4)), {"batch_dims": 1}, ValueError, r"shape: found sizes \(4, 4\), expected sizes \(2, 4\)"),
    "batch_dims": ((A, J, (4, 4)), {"batch_dims": 3}, ValueError, "batch_dims: found 3, expected 0 to 2"),
    "float batch": ((A, J, (4, 4)), {"batch_dims": 1.0}, TypeError, "batch_dims: found 1.0, expected an integer"),
    "bounds": ((A, J, (4, 4)), {"bounds": "clamp"}, ValueError, "bounds: found 'clamp', expected one of 'raise'"),
    "unique": ((A, J, (4, 4)), {"unique": 2}, TypeError, "unique: found 2, expected True or False"),
    "fill": ((J, J, (4, 4)), {"fill_value": 1.5}, TypeError, "fill_value: found dtype float64, expected int64"),
    "typed": (
        (A, J, (4, 4)),
        {"fill_value": np.float32(1)},
        TypeError,
        r"fill_value: found dtype float32, expected float64, the dtype of the result \(no silent cast\)",
    ),
    "fills": ((A, J, (4, 4)), {"fill_value": [1, 2]}, ValueError, r"fill_value: found shape \(2,\), expected a single"),
    "masked": ((np.ma.masked_array([1.0]), [0], (3,)), {}, TypeError, "a: found a masked array"),
    "objects": ((np.array([None]), [0], (3,)), {}, TypeError, "a: found"),
    "out": ((A, J, (4, 4)), {"out": np.zeros((4, 4), "f4")}, TypeError, "out: found dtype float32, expected float64"),
    "out's shape": ((A, J, (4, 4)), {"out": np.zeros(4)}, ValueError, r"out: found shape \(4,\), expected \(4, 4\)"),
    "position": ((A, J, (4, 4), 1), {}, TypeError, r"found 4 positional arguments, expected 3 \(write batch_dims=1\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    arguments, parameters, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        dml.max_unpool(*arguments, **parameters)


def test_defaults_of_bounds():
    with dml.config(bounds="drop"):
        assert dml.max_unpool([1], [3], (3,)).tolist() == [0, 0, 0]
    with dml.config(bounds="clamp"), pytest.raises(IndexError):
        dml.max_unpool([1], [3], (3,))


TABLE = [("FL_5_0", T10, {"UINT32", "UINT64"}, (4, 4)), ("FL_2_0", TF, {"UINT32"}, (4, 4))]


def build(data="FLOAT32", index="UINT32", rank=4, **given):
    fields = {
        "input_tensor": TensorDesc(dml.TensorDataType[data], (1,) * rank),
        "indices_tensor": TensorDesc(dml.TensorDataType[index], (1,) * rank),
        "output_tensor": TensorDesc(dml.TensorDataType[data], (1,) * (rank - 1) + (4,)),
    }
    return dml.MaxUnpoolingDesc(**(fields | given))


@pytest.mark.cpu
@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
def test_feature_levels(level):
    check_level(level, TABLE, build, data="input_tensor", indices="indices_tensor")


@pytest.mark.cpu
def test_descriptors():
    wrong = {
        "bounds: found 'clamp', expected one of": {"bounds": "clamp"},
        "batch_dimension_count: found 5, expected 0 to 4": {"batch_dimension_count": 5},
        "indices_tensor: found sizes .1, 1, 1, 2., expected": {"indices_tensor": TensorDesc("uint32", (1, 1, 1, 2))},
        "indices_tensor: found float32, expected an integer": {"indices_tensor": TensorDesc("float32", (1,) * 4)},
        "output_tensor: found sizes .2, 1, 1, 4., expected sizes .1, 1, 1, 4.": {
            "output_tensor": TensorDesc("float32", (2, 1, 1, 4)),
            "batch_dimension_count": 1,
        },
        "output_tensor: found int32, expected float32": {"output_tensor": TensorDesc("int32", (1, 1, 1, 4))},
        "unique: found 2, expected True or False": {"unique": 2},
    }
    for text, fields in wrong.items():
        with pytest.raises(DescriptorError, match=text):
            build(**fields)
    with pytest.raises(DescriptorError, match="sizes of at least 1"):
        build(output_tensor=TensorDesc("float32", (1, 1, 1, 0))).validate(FeatureLevel.FL_5_0)
    with pytest.raises(DescriptorError, match=r"batch_dimension_count: found 1, expected 0 \(FL_5_0: not in DirectML"):
        build(batch_dimension_count=1).validate(FeatureLevel.FL_5_0)
    build(unique=True, bounds="drop").validate(FeatureLevel.FL_5_0)
    descriptor = build()
    assert descriptor.bounds == "raise"
    assert descriptor.operator_type == 92
    assert dml.Descriptor.from_dict(descriptor.to_dict()) == descriptor
    operator = dml.compile_operator(descriptor)
    assert operator.work == 28
    with pytest.raises(ValueError, match=r"max_unpool operator: indices: found shape \(1,\)"):
        operator(np.zeros((1, 1, 1, 1), "f4"), np.array([0], "u4"))


@numba.njit
def jitted(a, i, shape, batch_dims):
    return dml.max_unpool(a, i, shape, batch_dims=batch_dims)


@numba.njit
def jitted_to(a, i, n, fill_value, out):
    return dml.max_unpool(a, i, (n, 7), fill_value=fill_value, bounds="drop", out=out)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["f4", "c16", "M8[s]"])
def test_in_jitted_code(dtype):
    rng = np.random.default_rng(0)
    for sizes, shape, batch_dims in (
        ((3, 700), (3, 900), 1),
        ((4, 5), (40, 2), 0),
        ((2, 0), (2, 3), 1),
        ((0, 2), (0, 5), 1),
        ((3, 1), (3, 1), 2),
    ):
        block = int(np.prod(shape[batch_dims:]))
        for layout in ("packed", "reversed"):
            a = lay_out(rng, fill(rng, sizes, np.dtype(dtype)), layout)
            i = lay_out(rng, rng.integers(-block, block, sizes).astype("i2"), layout)
            assert same(jitted(a, i, shape, batch_dims), dml.max_unpool(a, i, shape, batch_dims=batch_dims))


@pytest.mark.cpu
def test_no_dimensions_in_jitted_code():
    a, i = np.array(3.0), np.array(-1)
    assert same(jitted(a, i, (), 0), dml.max_unpool(a, i, ()))
    with pytest.raises(IndexError, match=r"max_unpool: indices\[\(\)\] = 1 is out of range for axis 0 of size 1"):
        jitted(a, np.array(1), (), 0)


@pytest.mark.cpu
def test_outputs_and_errors_in_jitted_code():
    a, i = np.array([[1, 2], [3, 4.0]]), np.array([[5, -9], [2**32 + 3, 5]])
    expected = dml.max_unpool(a, i, (2, 7), fill_value=-3.0, bounds="drop")
    held = np.zeros((2, 7))
    held[0, :4] = a.reshape(-1)
    for source, out in ((a, np.empty((7, 2)).T), (held[0, :4].reshape(2, 2), held)):
        assert jitted_to(source, i, 2, -3.0, out) is not None
        assert same(out, expected)
    assert same(jitted_to(a, i, 2, -3, None), expected)

    @numba.njit
    def to_largest(a, i):
        return dml.max_unpool(a, i, (2, 7), fill_value=18446744073709551615, bounds="drop")

    for large in (a, a.astype("u8")):
        assert same(to_largest(large, i), dml.max_unpool(large, i, (2, 7), fill_value=2**64 - 1, bounds="drop"))
    assert same(jitted_to(a.astype("i1"), i, 2, 9, None), expected.astype("i1") + 12 * (expected == -3).astype("i1"))

    def plain_to(a, i, n, fill_value, out):
        return dml.max_unpool(a, i, (n, 7), fill_value=fill_value, bounds="drop", out=out)

    def plain(a, i, shape, batch_dims):
        return dml.max_unpool(a, i, shape, batch_dims=batch_dims)

    for compiled, function, args in (
        (jitted, plain, (a, i, (2, 7), 0)),
        (jitted, plain, (a, i.astype("u8"), (2, 7), 1)),
        (jitted, plain, (a, i, (3, 7), 1)),
        (jitted, plain, (a, i, (2, 7), 3)),
        (jitted, plain, (a, i, (2, 7), np.uint64(2**64 - 1))),
        (jitted, plain, (a, i, (2, -1), 0)),
        (jitted, plain, (a, i[:1], (2, 7), 0)),
        (jitted_to, plain_to, (a, i, 3, 0.0, held)),
        (jitted_to, plain_to, (a.astype("i1"), i, 2, 200, None)),
    ):
        with pytest.raises((IndexError, ValueError), match="max_unpool: ") as error:
            function(*args)
        with pytest.raises(IndexError if error.type is IndexError else ValueError, match="max_unpool: ") as found:
            compiled(*args)
        assert str(found.value) == str(error.value)
    with pytest.raises(ValueError, match="array is too big"):
        jitted(a, i, (np.uint64(2**63), 7), 0)
    with pytest.raises(TypingError, match="max_unpool: shape: found 1 dimensions, expected 2"):
        jitted(a, i, (4,), 0)
    with pytest.raises(TypingError, match="max_unpool: fill_value: found dtype complex128, expected float64"):
        jitted_to(a, i, 2, 1j, None)
