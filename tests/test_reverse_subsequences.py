"""Reversed subsequences: examples, dtypes, layouts and lengths beside an oracle, in place, overlaps, levels, errors."""

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
from .levels import T8, T11, check_level
from .reference import same
from .strategies import COMPLEX, INDEX_TYPES, LAYOUTS, MOVED, NUMBERS, arrays, fill, lay_out, seeds, shapes

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "150"))
A = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
PAGES = {
    "axis 3": (3, [[2], [4], [3]], [[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]),
    "axis 2": (2, [[2, 3, 1, 0]], [[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]]),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int16", "int64", "float64", "bool", "complex64"])
def test_examples_of_the_page(name, dtype):
    axis, lengths, expected = PAGES[name]
    a, lengths = np.array(A)[None, None].astype(dtype), np.array(lengths, "u4")[None, None]
    expected = np.array(expected)[None, None].astype(dtype)
    assert same(dml.reverse_subsequences(a, lengths, axis=axis), expected)
    data = TensorDesc(dtype, a.shape)
    strict = dtype not in ("bool", "complex64")
    descriptor = dml.ReverseSubsequencesDesc(data, TensorDesc("uint32", lengths.shape), data, axis)
    operator = dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_5_0 if strict else None)
    assert same(operator(a, lengths), expected)
    out = np.empty_like(a)
    assert operator(a, lengths, out=out) is out
    assert same(out, expected)
    assert operator(a, lengths, out=a) is a
    assert same(a, expected)


def test_example_of_onnx():
    found = dml.reverse_subsequences(np.arange(16.0).reshape(4, 4), np.array([0, 2, 3, 4]).reshape(4, 1))
    assert found.tolist() == [[0, 1, 2, 3], [5, 4, 6, 7], [10, 9, 8, 11], [15, 14, 13, 12]]


def test_lengths_out_of_range():
    a, before = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[1, 2, 3], [4, 5, 6]])
    for dtype in ("i1", "i8", "u8"):
        lengths = np.array([[3], [7]], dtype)
        assert dml.reverse_subsequences(a, lengths, bounds="clamp").tolist() == [[3, 2, 1], [6, 5, 4]]
        text = r"reverse_subsequences: lengths\[1, 0\] = 7 is out of range for axis 1 of size 3"
        for out in (None, a, np.full_like(a, 9)):
            with pytest.raises(IndexError, match=text):
                dml.reverse_subsequences(a, lengths, out=out)
            assert out is None or (out == 9).all() or same(out, before)
    assert dml.reverse_subsequences(a, [[-1], [2]], bounds="clamp").tolist() == [[1, 2, 3], [5, 4, 6]]
    with pytest.raises(IndexError, match=r"lengths\[0, 0\] = -1 is out of range for axis 1 of size 3"):
        dml.reverse_subsequences(a, [[-1], [2]])
    for value in (2**32 + 1, 2**63, 2**64 - 1):
        big = np.array([[value]], "u8")
        assert dml.reverse_subsequences(a, big, bounds="clamp").tolist() == [[3, 2, 1], [6, 5, 4]]
        with pytest.raises(IndexError, match=rf"lengths\[0, 0\] = {value} is out"):
            dml.reverse_subsequences(a, big)


def test_zero_sizes():
    empty = np.empty((3, 0), "f4")
    assert dml.reverse_subsequences(empty, np.zeros((3, 1), int)).shape == (3, 0)
    with pytest.raises(IndexError, match=r"lengths\[1, 0\] = 1 is out of range for axis 1 of size 0"):
        dml.reverse_subsequences(empty, [[0], [1], [0]])
    assert dml.reverse_subsequences(empty, [[5]], bounds="clamp").shape == (3, 0)
    assert dml.reverse_subsequences(np.empty((0, 3)), np.empty((0, 1), int)).shape == (0, 3)
    assert dml.reverse_subsequences(np.empty((3, 0)), np.empty((1, 0), int), axis=0).shape == (3, 0)
    assert dml.reverse_subsequences([[1, 2]], [[2]]).tolist() == [[2, 1]]
    assert dml.reverse_subsequences([3, 4], [2]).tolist() == [4, 3]


@st.composite
def calls(draw, dtypes):
    shape = draw(shapes)
    axis, bounds = draw(st.integers(0, len(shape) - 1)), draw(st.sampled_from(["raise", "clamp"]))
    rng = np.random.default_rng(draw(seeds))
    sizes = tuple(1 if d == axis or rng.random() < 0.3 else n for d, n in enumerate(shape))
    kind = INDEX_TYPES[rng.integers(len(INDEX_TYPES))]
    wild = 2 if bounds == "clamp" or draw(st.integers(0, 9)) == 0 else 0
    low = -wild if kind.kind == "i" else 0
    lengths = rng.integers(low, shape[axis] + wild, sizes, endpoint=True).astype(kind)
    return draw(arrays(shape, dtypes)), lay_out(rng, lengths, draw(st.sampled_from(LAYOUTS))), axis, bounds


@settings(max_examples=EXAMPLES)
@given(calls(NUMBERS + COMPLEX + MOVED), st.sampled_from(LAYOUTS[:4]))
def test_random_calls(call, layout):
    a, lengths, axis, bounds = call
    before = a.tobytes()
    out = lay_out(np.random.default_rng(0), np.zeros(a.shape, a.dtype.newbyteorder("=")), layout)
    try:
        expected = reference.reverse_subsequences(a, lengths, axis, bounds)
    except IndexError:
        with pytest.raises(IndexError, match="reverse_subsequences: lengths"):
            dml.reverse_subsequences(a, lengths, axis=axis, bounds=bounds)
        return
    assert same(dml.reverse_subsequences(a, lengths, axis=axis - a.ndim, bounds=bounds), expected)
    assert dml.reverse_subsequences(a, lengths, axis=axis, bounds=bounds, out=out) is out
    assert same(reference.native(out), expected)
    assert a.tobytes() == before
    if a.flags.writeable and a.dtype.isnative and 0 not in a.strides:
        assert dml.reverse_subsequences(a, lengths, axis=axis, bounds=bounds, out=a) is a
        assert same(reference.native(a), expected)


@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [
        ((3, 50_001), 1, (3, 1)),
        ((200, 90), 1, (200, 1)),
        ((40, 30, 50), 1, (40, 1, 1)),
        ((2, 3000, 9), 1, (1, 1, 1)),
        ((300, 700), 0, (1, 700)),
        ((3, 100, 1300), 1, (3, 1, 1300)),
        ((5, 60, 4, 33), 1, (5, 1, 4, 1)),
        ((5, 60, 4, 33), 1, (1, 1, 1, 33)),
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16", "S5"])
def test_large_arrays(shape, axis, sizes, dtype, simulated):
    """Cut into strips and parts, with slices of all sizes, also in place and in another order."""
    if simulated:
        shape, sizes = (tuple(min(n, 9) for n in s) for s in (shape, sizes))
    rng = np.random.default_rng(1)
    a = fill(rng, shape, np.dtype(dtype))
    n = shape[axis]
    t = np.arange(n).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    for lengths in (rng.integers(0, n + 1, sizes), np.full(sizes, n), np.zeros(sizes, int)):
        expected = np.take_along_axis(a, np.broadcast_to(np.where(t < lengths, lengths - 1 - t, t), shape), axis)
        assert same(dml.reverse_subsequences(a, lengths, axis=axis), expected)
        assert same(dml.reverse_subsequences(np.asfortranarray(a), lengths, axis=axis), expected)
        x = a.copy()
        dml.reverse_subsequences(x, lengths.astype("u4"), axis=axis, out=x)
        assert same(x, expected)


@pytest.mark.cpu
def test_overlaps():
    memory = np.arange(20.0)
    expected = reference.reverse_subsequences(memory[:12].reshape(3, 4), np.array([[4], [2], [3]]))
    out = memory[3:15].reshape(3, 4)
    dml.reverse_subsequences(memory[:12].reshape(3, 4), [[4], [2], [3]], out=out)
    assert same(out, expected)
    memory = np.array([2, 1, 3, 4])
    dml.reverse_subsequences(np.array([[5, 6], [7, 8]]), memory[:2].reshape(2, 1), out=memory.reshape(2, 2))
    assert memory.tolist() == [6, 5, 7, 8]
    square = np.arange(9).reshape(3, 3)
    expected = reference.reverse_subsequences(square.T, np.array([[3], [2], [1]]))
    dml.reverse_subsequences(square.T, [[3], [2], [1]], out=square)
    assert same(square, expected)
    memory = np.array([[2, 3, 9, 9]])
    before = memory.copy()
    with pytest.raises(IndexError):
        dml.reverse_subsequences(memory, memory[:, 2:3], out=memory)
    assert same(memory, before)


X = np.zeros((2, 3))
WRONG = {
    "lengths": ((X, [[1.0]]), {}, TypeError, "lengths: found dtype float64, expected an integer dtype"),
    "mask": ((X, [[True]]), {}, TypeError, "lengths: found dtype bool, expected an integer dtype"),
    "rank": ((X, [1]), {}, ValueError, "lengths: found 1 dimensions, expected 2, as a has"),
    "sizes": ((X, [[1], [1], [1]]), {}, ValueError, r"lengths: found sizes \(3, 1\), expected sizes \(2, 1\), or 1"),
    "axis's size": ((X, [[1, 2, 3]]), {}, ValueError, r"lengths: found sizes \(1, 3\), expected sizes \(2, 1\), or 1"),
    "scalar": ((3.0, [1]), {}, ValueError, "a: found 0 dimensions, expected at least 1"),
    "axis": ((X, [[1]]), {"axis": 2}, ValueError, "axis: found 2, expected -2 to 1"),
    "float axis": ((X, [[1]]), {"axis": 1.0}, TypeError, "axis: found 1.0, expected an integer"),
    "bounds": ((X, [[1]]), {"bounds": "drop"}, ValueError, "bounds: found 'drop', expected one of 'raise', 'clamp'"),
    "objects": ((np.array([[None]]), [[1]]), {}, TypeError, "a: found"),
    "masked": ((np.ma.masked_array([1.0]), [1]), {}, TypeError, "a: found a masked array"),
    "out": ((X, [[1]]), {"out": np.zeros((2, 3), "f4")}, TypeError, "out: found dtype float32, expected float64"),
    "out's shape": ((X, [[1]]), {"out": np.zeros(3)}, ValueError, r"out: found shape \(3,\), expected \(2, 3\)"),
    "position": ((X, [[1]], 1), {}, TypeError, r"found 3 positional arguments, expected 2 \(write axis=1\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    inputs, parameters, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        dml.reverse_subsequences(*inputs, **parameters)


def test_defaults_of_bounds():
    with dml.config(bounds="clamp"):
        assert dml.reverse_subsequences([1, 2], [3]).tolist() == [2, 1]
    for bounds in ("drop", "deferred"):  # which it has not
        with dml.config(bounds=bounds), pytest.raises(IndexError):
            dml.reverse_subsequences([1, 2], [3])


TABLE = [
    ("FL_5_0", T11, {"UINT32", "UINT64"}, (1, 8)),
    ("FL_4_0", T8, {"UINT32"}, (1, 8)),
    ("FL_3_0", T8, {"UINT32"}, (4, 5)),
    ("FL_2_1", T8, {"UINT32"}, (4, 4)),
]


def build(data="FLOAT32", index="UINT32", rank=4, **given):
    tensor = TensorDesc(dml.TensorDataType[data], (1,) * (rank - 1) + (3,))
    lengths = TensorDesc(dml.TensorDataType[index], (1,) * rank)
    fields = {"input_tensor": tensor, "sequence_lengths_tensor": lengths, "output_tensor": tensor, "axis": rank - 1}
    return dml.ReverseSubsequencesDesc(**(fields | given))


@pytest.mark.cpu
@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
def test_feature_levels(level):
    check_level(level, TABLE, build, data="input_tensor", indices="sequence_lengths_tensor")


@pytest.mark.cpu
def test_descriptors():
    wrong = {
        "axis: found 4, expected 0 to 3": {"axis": 4},
        "bounds: found 'drop', expected one of": {"bounds": "drop"},
        "sequence_lengths_tensor: found sizes .1, 1, 1, 3., expected sizes .1, 1, 1, 1.": {
            "sequence_lengths_tensor": TensorDesc("uint32", (1, 1, 1, 3))
        },
        "sequence_lengths_tensor: found float32, expected an integer": {
            "sequence_lengths_tensor": TensorDesc("float32", (1, 1, 1, 1))
        },
        "output_tensor: found sizes .1, 1, 1, 4., expected": {"output_tensor": TensorDesc("float32", (1, 1, 1, 4))},
        "output_tensor: found int32, expected float32": {"output_tensor": TensorDesc("int32", (1, 1, 1, 3))},
    }
    for text, fields in wrong.items():
        with pytest.raises(DescriptorError, match=text):
            build(**fields)
    with pytest.raises(DescriptorError, match="sizes of at least 1"):
        build(
            input_tensor=TensorDesc("float32", (1, 1, 1, 0)), output_tensor=TensorDesc("float32", (1, 1, 1, 0))
        ).validate(FeatureLevel.FL_5_0)
    data = TensorDesc("float32", (2, 3))
    broadcast = dml.ReverseSubsequencesDesc(data, TensorDesc("uint32", (1, 1)), data, 1)
    with pytest.raises(DescriptorError, match=r"found sizes \(1, 1\), expected sizes \(2, 1\) \(FL_5_0\)"):
        broadcast.validate(FeatureLevel.FL_5_0)
    descriptor = build()
    assert descriptor.bounds == "clamp"
    assert descriptor.operator_type == 106
    assert dml.Descriptor.from_dict(descriptor.to_dict()) == descriptor
    operator = dml.compile_operator(descriptor)
    assert operator.kernel == "reverse_subsequences 32-bit serial"
    assert operator.work == 28
    a = np.zeros((1, 1, 1, 3), "f4")
    with pytest.raises(ValueError, match=r"reverse_subsequences operator: lengths: found shape \(1,\)"):
        operator(a, np.array([0], "u4"))


@numba.njit
def jitted(a, lengths, axis):
    return dml.reverse_subsequences(a, lengths, axis=axis)


@numba.njit
def jitted_to(a, lengths, out):
    return dml.reverse_subsequences(a, lengths, bounds="clamp", out=out)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["f4", "c16", "M8[s]"])
def test_in_jitted_code(dtype):
    rng = np.random.default_rng(0)
    for shape, axis, sizes in (
        ((5, 30, 7), 1, (5, 1, 7)),
        ((5, 30, 7), 1, (1, 1, 1)),
        ((4, 3, 70), -1, (4, 1, 1)),
        ((6, 2, 9), 0, (1, 2, 9)),
        ((3, 0, 2), 0, (1, 0, 2)),
        ((3, 4, 0), 1, (3, 1, 1)),
    ):
        for layout in ("sparse", "reversed", "transposed"):
            a = lay_out(rng, fill(rng, shape, np.dtype(dtype)), layout)
            lengths = lay_out(rng, rng.integers(0, shape[axis] + 1, sizes).astype("u2"), layout)
            assert same(jitted(a, lengths, axis), dml.reverse_subsequences(a, lengths, axis=axis))


@pytest.mark.cpu
def test_outputs_and_errors_in_jitted_code():
    a, lengths = np.arange(40).reshape(4, 10), np.array([[3], [-1], [99], [10]])
    expected = dml.reverse_subsequences(a, lengths, bounds="clamp")
    memory = np.concatenate([a.reshape(-1), a.reshape(-1)])
    for out in (a.copy(), memory[5:45].reshape(4, 10), np.empty((10, 4), int).T):
        source = out if out.base is None else memory[:40].reshape(4, 10)
        source[...] = a
        assert jitted_to(source, lengths, out) is not None
        assert same(out, expected)
        memory[:40] = a.reshape(-1)
    held = np.concatenate([a, a])
    lying = held[:, :1]
    lying[:4], before = lengths, held.copy()
    assert jitted_to(a, lying[:4], held[:4]) is not None
    assert same(held[:4], expected)
    assert same(held[4:], before[4:])
    for args in (
        (a, lengths, 1),
        (a, lengths.T.copy(), 0),
        (a, lengths[:2], 1),
        (a, lengths, 2),
        (a, 1 + a[:, :1], -1),
    ):
        with pytest.raises((IndexError, ValueError), match="reverse_subsequences: ") as error:
            dml.reverse_subsequences(args[0], args[1], axis=args[2])
        with pytest.raises(IndexError if error.type is IndexError else ValueError, match="reverse_subs") as found:
            jitted(*args)
        assert str(found.value) == str(error.value)
    with pytest.raises(TypingError, match="reverse_subsequences: lengths: found 1 dimensions, expected 2"):
        jitted(a, lengths[0], 1)
    with pytest.raises(TypingError, match="reverse_subsequences: lengths: found an array of float64"):
        jitted(a, lengths * 1.0, 1)
