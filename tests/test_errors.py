"""Errors say what was found, what was expected and for which argument; inputs stay untouched; the next call works."""

import array
import collections
import inspect
import sys

import ml_dtypes
import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core.descriptor import MAX_DIMENSIONS as MOST

A = np.arange(32.0).reshape(4, 8)
I2 = np.zeros((2, 2), np.int64)
U = np.zeros(2)
X = dml.TensorDesc("float32", (2,))
COPY = dml.GatherDesc(X, dml.TensorDesc("uint32", (2,)), X, 0, 1)

MESSAGES = [
    # argument kinds and dtypes
    (lambda: dml.gather(A, [0.5]), TypeError, "gather: indices: found dtype float64, expected an integer dtype"),
    (lambda: dml.gather(A, [True]), TypeError, "gather: indices: found dtype bool, expected an integer dtype"),
    (lambda: dml.gather(np.array([None]), [0]), TypeError, "gather: a: found dtype object"),
    (lambda: dml.gather(np.ma.array(A, mask=A > 3), [0]), TypeError, "gather: a: found a masked array"),
    (lambda: dml.top_k(np.ma.array(A), 1), TypeError, "top_k: a: found a masked array"),
    (lambda: dml.gather_elements(A, np.ma.array(I2)), TypeError, "gather_elements: indices: found a masked array"),
    (lambda: dml.top_k(A + 1j, 1), TypeError, "top_k: a: found dtype complex128, expected a bool, integer or float"),
    (lambda: dml.top_k(np.array(["a"]), 1), TypeError, "top_k: a: found dtype <U1"),
    (lambda: dml.top_k(np.array([None]), 1), TypeError, "top_k: a: found dtype object"),
    (lambda: dml.top_k(A, 1, index_dtype="f4"), TypeError, "top_k: index_dtype: found float32, expected a native int"),
    (lambda: dml.top_k(A, 1, index_dtype="no"), TypeError, "top_k: index_dtype: found 'no', expected an integer dtype"),
    (lambda: dml.top_k(np.zeros(300), 1, index_dtype="u1"), ValueError, "top_k: index_dtype: found uint8.*299"),
    (
        lambda: dml.scatter_nd(A, I2, U.astype("f4")),
        TypeError,
        "scatter_nd: updates: found dtype float32, expected float64, the dtype of a",
    ),
    (lambda: dml.scatter_elements(A, I2, np.ones((2, 2), int)), TypeError, "updates: found dtype int64"),
    (lambda: dml.scatter_elements(A.astype(int), [[0]], [[0.5]]), TypeError, "updates: found dtype float64"),
    # parameters
    (lambda: dml.gather(A, [0], axis=2), ValueError, "gather: axis: found 2, expected -2 to 1 for an array with 2 dim"),
    (lambda: dml.gather(A, [0], axis=1.0), TypeError, "gather: axis: found 1.0, expected an integer"),
    (lambda: dml.gather(A, [0], axis=None), TypeError, "gather: axis: found None, expected an integer"),
    (lambda: dml.gather(A, [0], axis=[0]), TypeError, r"gather: axis: found \[0\], expected an integer"),
    (lambda: dml.gather(A, [0], bounds=["raise"]), TypeError, r"gather: bounds: found \['raise'\], expected a single"),
    (lambda: dml.gather(A, [0], bounds="wrap"), ValueError, "gather: bounds: found 'wrap', expected one of 'raise'"),
    (
        lambda: dml.scatter_nd(A, I2, U, bounds="clamp"),
        ValueError,
        "bounds: found 'clamp', expected one of 'raise', 'd",
    ),
    (lambda: dml.scatter_nd(A, I2, U, reduction="sum"), ValueError, "reduction: found 'sum', expected one of 'none'"),
    (
        lambda: dml.scatter_nd(A + 0j, I2, U + 0j, reduction="max"),
        ValueError,
        "reduction: found 'max', expected 'none', 'add' or 'mul': complex numbers have no order",
    ),
    (
        lambda: dml.scatter_elements(np.zeros(2, "M8[s]"), [0], np.zeros(1, "M8[s]"), reduction="add"),
        ValueError,
        "reduction: found 'add', expected 'none'",
    ),
    (lambda: dml.top_k(A, 9), ValueError, "top_k: k: found 9, expected 0 to 8, the size of axis 1"),
    (lambda: dml.top_k(A, -1), ValueError, "top_k: k: found -1, expected 0 to 8"),
    (lambda: dml.top_k(A, 1.0), TypeError, "top_k: k: found 1.0, expected an integer"),
    (lambda: dml.top_k(A, 1, mode="max"), ValueError, "top_k: mode: found 'max', expected 'largest' or 'smallest'"),
    (
        lambda: dml.top_k(A, 1, nan="lowest"),
        ValueError,
        "top_k: nan: found 'lowest', expected one of 'last', 'largest'",
    ),
    (lambda: dml.gather_nd(A, I2, batch_dims=2), ValueError, "gather_nd: batch_dims: found 2, expected 0 to 1"),
    (lambda: dml.gather_nd(A, I2, batch_dims=-1), ValueError, "gather_nd: batch_dims: found -1"),
    (lambda: dml.gather_nd(A, I2, batch_dims=0.5), TypeError, "gather_nd: batch_dims: found 0.5, expected an integer"),
    (lambda: dml.gather(A, [0], target="tpu"), ValueError, "target: found 'tpu', expected"),
    (
        lambda: dml.compile_operator(COPY, feature_level=5),
        ValueError,
        "feature_level: found 5, expected a FeatureLevel: FL_1_0",
    ),
    # shapes
    (lambda: dml.gather_elements(A, [0]), ValueError, "indices: found 1 dimensions, expected 2, as a has"),
    (lambda: dml.gather_elements(A, np.zeros((5, 2), int)), ValueError, "indices: found size 5 in dimension 0.*most 4"),
    (lambda: dml.scatter_elements(A, I2, np.zeros((2, 3))), ValueError, r"updates: found sizes \(2, 3\).*\(2, 2\)"),
    (lambda: dml.gather_nd(A, np.zeros((2, 3), int)), ValueError, "indices: found 3 coordinates per tuple.*1 to 2"),
    (lambda: dml.gather_nd(A, np.zeros((2, 0), int)), ValueError, "indices: found 0 coordinates per tuple"),
    (
        lambda: dml.one_hot(np.zeros((1,) * MOST, int), 3),
        ValueError,
        f"one_hot: indices: found {MOST} dimensions, expected at most {MOST - 1} .the result would have {MOST + 1}",
    ),
    (
        lambda: dml.gather(np.zeros((1,) * 20), np.zeros((1,) * (MOST - 9), int)),
        ValueError,
        f"gather: indices: found {MOST - 9} dimensions, expected at most {MOST - 19} ",
    ),
    (
        lambda: dml.gather_nd(np.zeros((1,) * 20), np.zeros((1,) * (MOST - 9), int)),
        ValueError,
        f"gather_nd: indices: found {MOST - 9} dimensions, expected at most {MOST - 18} ",
    ),
    (lambda: dml.gather_nd(A, 3), ValueError, "gather_nd: indices: found 0 dimensions, expected at least 1"),
    (lambda: dml.gather_nd(A, np.zeros((3, 1), int), batch_dims=1), ValueError, r"batch sizes \(3,\), expected \(4,\)"),
    (lambda: dml.scatter_nd(A, I2, np.zeros(3)), ValueError, r"updates: found shape \(3,\), expected shape \(2,\)"),
    (lambda: dml.scatter_nd(A, I2, 5.0), ValueError, r"scatter_nd: updates: found shape \(\), expected shape \(2,\)"),
    (lambda: dml.scatter_nd(A, I2, np.zeros((1, 2))), ValueError, r"updates: found .*\(1, 2\), expected .*\(2,\)"),
    *[
        (lambda f=f, args=args: f(np.float64(3), *args), ValueError, "a: found 0 dimensions, expected at least 1")
        for f, args in [
            (dml.gather_elements, ([0],)),
            (dml.gather_nd, ([[0]],)),
            (dml.scatter_elements, ([0], [0.0])),
            (dml.scatter_nd, ([[0]], [0.0])),
            (dml.top_k, (1,)),
        ]
    ],
    # out
    (lambda: dml.gather(A, [0], out=[0]), TypeError, "gather: out: found list, expected a numpy.ndarray"),
    (lambda: dml.gather(A, [0], out=np.zeros(8)), ValueError, r"gather: out: found shape \(8,\), expected \(1, 8\)"),
    (
        lambda: dml.gather(A, [0], out=np.zeros((1, 8), "f4")),
        TypeError,
        "gather: out: found dtype float32, expected fl",
    ),
    (lambda: dml.gather(A, [0], out=np.broadcast_to(0.0, (1, 8))), ValueError, "gather: out: found a read-only array"),
    (lambda: dml.scatter_nd(A, I2, U, out="x"), TypeError, "scatter_nd: out: found str, expected a numpy.ndarray"),
    (lambda: dml.scatter_nd(A, I2, U, out=np.zeros(3)), ValueError, r"scatter_nd: out: found shape \(3,\)"),
    (lambda: dml.scatter_nd(A, I2, U, out=A.astype(">f8")), TypeError, "scatter_nd: out: found dtype >f8"),
    (lambda: dml.top_k(A, 1, out=np.zeros((4, 1))), TypeError, "top_k: out: found ndarray, expected a pair"),
    (lambda: dml.top_k(A, 1, out=(np.zeros((4, 1)), np.zeros((4, 1)))), TypeError, r"out\[1\]: found dtype float64"),
    (lambda: dml.top_k(A, 1, out=(np.zeros((4, 2)), np.zeros((4, 1), int))), ValueError, r"out\[0\]: found shape"),
    (lambda: dml.gather(A, [0], out=np.ma.zeros((1, 8))), TypeError, "gather: out: found MaskedArray"),
    (lambda: dml.scatter_nd(A, I2, U, out=np.ma.array(A)), TypeError, "scatter_nd: out: found MaskedArray"),
    (
        lambda: dml.scatter_nd(A, I2, U, out=np.zeros((4, 2))),
        ValueError,
        r"out: found shape \(4, 2\), expected \(4, 8\)",
    ),
    (lambda: dml.scatter_nd(A, I2, U, out=np.zeros((4, 8), "f4")), TypeError, "out: found dtype float32"),
    (lambda: dml.scatter_elements(np.zeros(3, "i1"), [0], [300]), ValueError, "updates: found .*300.* that int8 holds"),
    (lambda: dml.scatter_elements(np.array(["ab"]), [0], ["abc"]), TypeError, "updates: found dtype <U3"),
    (lambda: dml.top_k(A, 1, mode=([],)), TypeError, r"top_k: mode: found \(\[\],\), expected a single value"),
    # indices
    (
        lambda: dml.gather_nd(np.zeros((4, 8)), np.pad([[0, 9]], ((17, 0), (0, 0)))),
        IndexError,
        r"^gather_nd: indices\[17, 1\] = 9 is out of range for axis 1 of size 8$",
    ),
    (lambda: dml.gather(A, [[0, 1], [-5, 9]]), IndexError, r"^gather: indices\[1, 0\] = -5 is .* axis 0 of size 4$"),
    (
        lambda: dml.gather(A, 8, axis=1),
        IndexError,
        r"^gather: indices\[\(\)\] = 8 is out of range for axis 1 of size 8$",
    ),
    (lambda: dml.gather_elements(A, [[0, 8]]), IndexError, r"^gather_elements: indices\[0, 1\] = 8 is .* axis 1 of"),
    (
        lambda: dml.scatter_elements(A, [[8]], [[1.0]]),
        IndexError,
        r"^scatter_elements: indices\[0, 0\] = 8 is .* axis 1",
    ),
    (
        lambda: dml.scatter_nd(A, [[1, 1], [1, -9]], [1.0, 2]),
        IndexError,
        r"^scatter_nd: indices\[1, 1\] = -9 is .* 1 of",
    ),
    (lambda: dml.gather(A, np.array([2**63], np.uint64)), IndexError, r"indices\[0\] = 9223372036854775808 is out"),
    (lambda: dml.gather(np.zeros((0, 3)), [0]), IndexError, r"indices\[0\] = 0 is out of range for axis 0 of size 0"),
    (lambda: dml.gather(np.zeros((0, 3)), [0], bounds="clamp"), IndexError, "axis 0 of size 0"),
    (lambda: dml.gather(np.zeros((0, 3)), [0], bounds="drop"), IndexError, "axis 0 of size 0"),
]


@pytest.mark.parametrize(("call", "kind", "message"), MESSAGES, ids=[m for _, _, m in MESSAGES])
def test_message(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert caught.type is kind or caught.type is dml.DescriptorError
    assert dml.gather(A, [3, -1]).tolist() == [A[3].tolist()] * 2  # the next call works


def test_float_axis_is_refused_also_when_the_integer_is_known():
    dml.gather(A, [0], axis=1)
    with pytest.raises(TypeError, match="axis"):
        dml.gather(A, [0], axis=1.0)


@pytest.mark.parametrize("rows", [6, 300_000], ids=["serial", "parallel"])
@pytest.mark.parametrize("bad", [0, 3, -1], ids=["first", "middle", "last"])
def test_in_place_scatter_is_untouched_after_an_error(rows, bad, simulated):
    if rows > 6 and simulated:
        pytest.skip("takes the simulator minutes")
    a = np.arange(rows)
    i = np.arange(rows)
    i[bad] = rows
    if bad == 3:
        i[5] = -rows - 1  # the first bad one is reported, at any thread count
    before = a.copy()
    where = np.arange(rows)[bad]
    with pytest.raises(IndexError, match=rf"indices\[{where}\] = {rows} is out of range for axis 0 of size {rows}$"):
        dml.scatter_elements(a, i, np.zeros(rows, int), out=a)
    np.testing.assert_array_equal(a, before)
    with pytest.raises(IndexError, match=rf"indices\[{where}, 0\] = {rows} "):
        dml.scatter_nd(a, i[:, None], np.zeros(rows, int), reduction="add", out=a)
    np.testing.assert_array_equal(a, before)
    with pytest.raises(IndexError, match=rf"indices\[{where}\] = {rows} "):
        dml.gather(a, i)


def test_held_operator_compares_shapes_and_dtypes():
    x = dml.TensorDesc("float32", (2, 2))
    op = dml.compile_operator(dml.GatherNDDesc(x, dml.TensorDesc("uint32", (2, 1)), x, 2, 2))
    a, i = np.zeros((2, 2), "f4"), np.zeros((2, 1), "u4")
    assert op(a, i).shape == (2, 2)
    with pytest.raises(ValueError, match=r"gather_nd operator: a: found shape \(3, 2\), expected \(2, 2\)"):
        op(np.zeros((3, 2), "f4"), i)
    with pytest.raises(TypeError, match="gather_nd operator: indices: found dtype int64, expected uint32"):
        op(a, i.astype(np.int64))
    with pytest.raises(ValueError, match=r"gather_nd: out: found shape \(3, 2\)"):
        op(a, i, out=np.zeros((3, 2), "f4"))
    with pytest.raises(IndexError, match=r"gather_nd: indices\[1, 0\] = 2 is out of range for axis 0 of size 2"):
        op(a, np.array([[0], [2]], "u4"))
    assert op(a.tolist() and a.astype(">f4"), i).dtype == np.float32
    with pytest.raises(TypeError, match="descriptor: found int"):
        dml.compile_operator(3)


def test_device_arrays_are_refused_with_a_reason():
    class OnDevice:
        __cuda_array_interface__ = {}

    with pytest.raises(TypeError, match=r"gather: a: found an array on a CUDA device.*for target 'cpu'"):
        dml.gather(OnDevice(), [0], target="cpu")
    with pytest.raises(ValueError, match="gather: stream: found 0, expected None for arrays in host memory"):
        dml.gather([1], [0], stream=0)


def test_a_tensor_beyond_64_bit_offsets():
    x, i = dml.TensorDesc("uint8", (2**40, 2**40)), dml.TensorDesc("int64", (2**40, 1))
    y = dml.TensorDesc("uint8", (2**40, 2**40))
    with pytest.raises(ValueError, match=r"gather_nd: found a tensor of 2\*\*63 bytes or more"):
        dml.compile_operator(dml.GatherNDDesc(x, i, y, 2, 2))


# What is said to the letter: what was found, what was expected, and what to write instead.
MASK = "found a masked array, expected an array without a mask (use .filled() or .data: the mask would be lost)"
RAGGED = "found nested lists of unequal lengths, expected equal ones in every dimension"
EXACT = [
    # parameters that are no integers, or no flags
    (lambda: dml.top_k(A, np.array([1, 2])), TypeError, "top_k: k: found array([1, 2]), expected an integer"),
    (lambda: dml.top_k(A, 1, axis=np.array([0])), TypeError, "top_k: axis: found array([0]), expected an integer"),
    (
        lambda: dml.gather(A, [0], axis=np.array([1, 0])),
        TypeError,
        "gather: axis: found array([1, 0]), expected an integer",
    ),
    *[
        (call, TypeError, f"{name}: found {value!r}, expected an integer")
        for value in (True, np.True_)
        for call, name in [
            (lambda value=value: dml.top_k(A, value), "top_k: k"),
            (lambda value=value: dml.top_k(A, 1, axis=value), "top_k: axis"),
            (lambda value=value: dml.gather(A, [0], axis=value), "gather: axis"),
            (lambda value=value: dml.gather_elements(A, I2, axis=value), "gather_elements: axis"),
            (lambda value=value: dml.gather_nd(A, I2, batch_dims=value), "gather_nd: batch_dims"),
            (lambda value=value: dml.scatter_elements(A, I2, A[:2, :2], axis=value), "scatter_elements: axis"),
            (lambda value=value: dml.scatter_nd(A, I2, U, batch_dims=value), "scatter_nd: batch_dims"),
        ]
    ],
    (lambda: dml.top_k(A, 1, sorted="no"), TypeError, "top_k: sorted: found 'no', expected True or False"),
    (lambda: dml.top_k(A, 1, sorted=None), TypeError, "top_k: sorted: found None, expected True or False"),
    (lambda: dml.top_k(A, 1, sorted=2), TypeError, "top_k: sorted: found 2, expected True or False"),
    (
        lambda: dml.scatter_nd(A, I2, U, unique="no"),
        TypeError,
        "scatter_nd: unique: found 'no', expected True or False",
    ),
    (
        lambda: dml.scatter_elements(A, I2, A[:2, :2], unique=1.0),
        TypeError,
        "scatter_elements: unique: found 1.0, expected True or False",
    ),
    # arguments of other libraries
    (lambda: dml.gather(A, [0], 1), TypeError, "gather: found 3 positional arguments, expected 2 (write axis=1)"),
    (
        lambda: dml.gather_elements(A, I2, 0),
        TypeError,
        "gather_elements: found 3 positional arguments, expected 2 (write axis=0)",
    ),
    (
        lambda: dml.gather_nd(A, I2, 0),
        TypeError,
        "gather_nd: found 3 positional arguments, expected 2 (write batch_dims=0)",
    ),
    (
        lambda: dml.scatter_elements(A, I2, A[:2, :2], -1, "add"),
        TypeError,
        "scatter_elements: found 5 positional arguments, expected 3 (write axis=-1)",
    ),
    (
        lambda: dml.scatter_nd(A, I2, U, 0),
        TypeError,
        "scatter_nd: found 4 positional arguments, expected 3 (write batch_dims=0)",
    ),
    (lambda: dml.top_k(A, 1, 0), TypeError, "top_k: found 3 positional arguments, expected 2 (write axis=0)"),
    (
        lambda: dml.gather(A, 1, I2),
        TypeError,
        "gather: found 3 positional arguments, expected 2 (write axis=... and so on)",
    ),
    (lambda: dml.top_k(A, 1, largest=False), TypeError, "top_k: found largest=False, expected mode='smallest'"),
    (lambda: dml.top_k(A, 1, largest=True), TypeError, "top_k: found largest=True, expected mode='largest'"),
    # lists that are no arrays
    (lambda: dml.top_k([[1, 2], [3]], 1), ValueError, f"top_k: a: {RAGGED}"),
    (lambda: dml.gather(A, [[1, 2], 3]), ValueError, f"gather: indices: {RAGGED}"),
    (lambda: dml.scatter_nd(A, I2, [[1.0], [1.0, 2.0]]), ValueError, f"scatter_nd: updates: {RAGGED}"),
    # masks as indices
    (
        lambda: dml.gather(A, [True, False]),
        TypeError,
        "gather: indices: found dtype bool, expected an integer dtype (np.flatnonzero finds where a mask is True)",
    ),
    (
        lambda: dml.gather_nd(A, A > 3),
        TypeError,
        "gather_nd: indices: found dtype bool, expected an integer dtype (np.argwhere finds where a mask is True)",
    ),
    (
        lambda: dml.scatter_nd(A, A > 3, U),
        TypeError,
        "scatter_nd: indices: found dtype bool, expected an integer dtype (np.argwhere finds where a mask is True)",
    ),
    (
        lambda: dml.gather_elements(A, A > 3),
        TypeError,
        "gather_elements: indices: found dtype bool, expected an integer dtype",
    ),
    # what is no array at all
    (lambda: dml.gather(None, [0]), TypeError, "gather: a: found None, expected an array of a fixed-size element type"),
    (lambda: dml.gather(A, None), TypeError, "gather: indices: found None, expected an array of integers"),
    (lambda: dml.gather(A, slice(2)), TypeError, "gather: indices: found slice, expected an array of integers"),
    (lambda: dml.gather(A, {0: 1}), TypeError, "gather: indices: found dict, expected an array of integers"),
    (lambda: dml.gather(A, {0, 1}), TypeError, "gather: indices: found set, expected an array of integers"),
    (
        lambda: dml.gather(A, [0, None]),
        TypeError,
        "gather: indices: found None in a list, expected an array of integers",
    ),
    (
        lambda: dml.gather(A, [2**64]),
        TypeError,
        "gather: indices: found an integer of more than 64 bits in a list, expected an array of integers",
    ),
    (
        lambda: dml.scatter_nd(A, I2, None),
        TypeError,
        "scatter_nd: updates: found None, expected an array of a fixed-size element type",
    ),
    (
        lambda: dml.scatter_nd(A, I2, (1.0, slice(2))),
        TypeError,
        "scatter_nd: updates: found slice in a tuple, expected an array of a fixed-size element type",
    ),
    (
        lambda: dml.top_k([None, 1], 1),
        TypeError,
        "top_k: a: found None in a list, expected an array of a fixed-size element type",
    ),
    # streams and limits
    (lambda: dml.check(5), ValueError, "check: stream: found 5, expected a CUDA stream or its address"),
    (lambda: dml.check(-1), ValueError, "check: stream: found -1, expected a CUDA stream or its address"),
    (lambda: dml.check(True), ValueError, "check: stream: found True, expected a CUDA stream or its address"),
    (lambda: dml.check("0"), TypeError, "check: stream: found str, expected a CUDA stream or its address"),
    (
        lambda: setattr(dml.memory_pool, "limit", True),
        TypeError,
        "MemoryPool.limit: found True, expected a number of bytes, 0 or more",
    ),
    (lambda: dml.MemoryPool("1"), TypeError, "MemoryPool.limit: found '1', expected a number of bytes, 0 or more"),
    (
        lambda: dml.config(threads=np.array([1, 2])),
        TypeError,
        "config: threads: found array([1, 2]), expected an integer",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), EXACT, ids=[m for _, _, m in EXACT])
def test_message_to_the_letter(call, kind, message):
    dml.top_k(A, 1)  # so that a call like it is known
    dml.gather(A, [0], axis=1)
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message


def test_flags_and_integers_of_numpy_are_taken():
    found = dml.top_k(A, np.int8(2), axis=np.array(1), sorted=np.True_)
    assert found.indices.tolist() == [[7, 6]] * 4
    assert dml.scatter_nd(A, I2, U, unique=np.False_).shape == A.shape
    assert dml.top_k(A, 2, sorted=0).indices.shape == (4, 2)


def test_addresses_of_streams():
    for stream in (0, 1, 2):
        dml.check(stream)
    if "numba_dml.cuda" not in sys.modules:  # else a driver would read there
        dml.check(1 << 20)


@pytest.mark.parametrize("function", [dml.gather, dml.gather_nd, dml.scatter_elements, dml.top_k])
def test_signatures_show_what_can_be_given(function):
    parameters = inspect.signature(function).parameters
    assert {"positional", "largest"}.isdisjoint(parameters)
    assert parameters["target"].kind is inspect.Parameter.KEYWORD_ONLY


class Converts:
    """Says by itself what its array is, as data frames and Arrow's arrays do: there is no `dtype`."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return self.values


class Shows:
    """Shows its memory."""

    def __init__(self, values):
        self.values = np.array(values)
        self.__array_interface__ = self.values.__array_interface__


class Rows(list):
    """A list that is converted by itself."""

    def __array__(self, dtype=None, copy=None):
        return np.array([300])


TYPED = {
    "scalars": lambda: [np.int64(300)],
    "a tuple of scalars": lambda: (np.int64(300),),
    "arrays": lambda: [np.array(300)],
    "memoryview": lambda: memoryview(np.array([300])),
    "array.array": lambda: array.array("q", [300]),
    "array.array in a list": lambda: [array.array("q", [300])],
    "__array__": lambda: Converts([300]),
    "__array_interface__": lambda: Shows([300]),
    "list with __array__": lambda: Rows([1]),
    "deque": lambda: collections.deque([np.int64(300)]),
    "ndarray": lambda: np.array([300]),
}


@pytest.mark.parametrize("values", TYPED.values(), ids=TYPED)
def test_updates_with_a_dtype_are_never_cast(values):
    message = "updates: found dtype int64, expected uint8, the dtype of a (no silent cast)"
    for call, name in (
        (lambda: dml.scatter_nd(np.zeros(3, "u1"), [[1]], values()), "scatter_nd"),
        (lambda: dml.scatter_elements(np.zeros(3, "u1"), [1], values()), "scatter_elements"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == f"{name}: {message}"


@pytest.mark.parametrize(
    ("library", "make"),
    [("pandas", lambda pandas, x: pandas.DataFrame({"x": x})), ("pyarrow", lambda pyarrow, x: pyarrow.array(x))],
)
def test_updates_of_data_frames_and_of_arrow_are_never_cast(library, make):
    updates = make(pytest.importorskip(library, reason=f"{library}, whose arrays are taken, is not installed"), [300])
    shape = (3, *np.shape(updates)[1:])
    with pytest.raises(TypeError) as caught:
        dml.scatter_nd(np.zeros(shape, "u1"), [[1]], updates)
    assert str(caught.value).startswith("scatter_nd: updates: found dtype int64, expected uint8, the dtype of a")
    assert dml.scatter_nd(np.zeros(shape, "i8"), [[1]], updates).ravel().tolist() == [0, 300, 0]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([np.int32(1), np.int64(2)], "int32"),
        ([np.array([1, 2], "i4"), [3, 4]], "int32"),
        ([1, np.True_], "bool"),
        ([np.float32(1), 2], "float32"),
        ([1, 2.0], "float64"),
        (["a", "b"], "<U1"),
    ],
)
def test_every_typed_update_has_the_dtype(values, found):
    a = np.zeros((3, *np.shape(values)[1:]), "i8")
    with pytest.raises(TypeError, match=f"scatter_nd: updates: found dtype {found}, expected int64"):
        dml.scatter_nd(a, [[0], [1]], values)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("u1", [255, True]),
        ("u1", [np.uint8(7), 255]),
        ("u1", (np.uint8(7), np.uint8(255))),
        ("u8", [2**64 - 1, 1]),
        ("i1", range(-128, -126)),
        ("f4", [1, 2.5]),
        ("f4", [np.float32(0.1), 2]),
        ("f8", [2**70, 1]),
        ("c8", [1j, 2.0]),
        ("?", [True, np.False_]),
        ("bfloat16", [1, 2.5]),
        ("u1", [np.array(3, "u1"), np.uint8(4)]),
        ("u1", memoryview(np.array([3, 4], "u1"))),
        ("u1", collections.deque([3, 4])),
        (">i4", [1, 2]),
        ("U2", ["ab", "cd"]),
    ],
)
def test_python_numbers_become_the_dtype_where_they_fit(dtype, values):
    dtype = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    found = dml.scatter_nd(np.zeros(3, dtype), [[0], [2]], values)
    assert found.dtype == dtype.newbyteorder("=")
    assert found[[0, 2]].tolist() == np.array([*values], dtype).tolist()


@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [
        ("u1", [300, 0], "300"),
        ("u1", [0, -1], "-1"),
        ("u1", [np.uint8(1), 256], "256"),
        ("i8", [2**63, 0], str(2**63)),
        ("u8", [2**64, 0], str(2**64)),
        ("u8", [2**63, -1], "-1"),
        ("i1", range(127, 129), "128"),
        ("f8", [10**400, 0], "an integer too large for a float"),
    ],
)
def test_python_numbers_that_do_not_fit(dtype, values, found):
    with pytest.raises(ValueError, match="scatter_nd: updates") as caught:
        dml.scatter_nd(np.zeros(3, dtype), [[0], [2]], values)
    assert str(caught.value) == f"scatter_nd: updates: found {found}, expected numbers that {np.dtype(dtype)} holds"


def test_empty_lists_are_updates_of_any_dtype():
    for dtype in ("i4", "f2", "M8[s]", "S3"):
        assert dml.scatter_nd(np.zeros(3, dtype), np.zeros((0, 1), int), []).tolist() == np.zeros(3, dtype).tolist()


HIDDEN = np.ma.array([0, 1], mask=[1, 0])


@pytest.mark.parametrize(
    "wrap", [lambda m: m, lambda m: [m], lambda m: [m, m], lambda m: ([m], [m]), lambda m: collections.deque([m])]
)
def test_a_mask_is_refused_at_any_depth(wrap):
    masked = wrap(HIDDEN)
    array = np.zeros((2, 2), int)
    for function, more in (
        (dml.gather, [array]),
        (dml.gather_elements, [array]),
        (dml.gather_nd, [array]),
        (dml.scatter_elements, [array, array]),
        (dml.scatter_nd, [array, array]),
        (dml.top_k, [1]),
    ):
        names = ("a", "indices", "updates") if function is not dml.top_k else ("a",)
        for at, name in enumerate(names[: len(more) + 1]):
            arguments = [array, *more]
            arguments[at] = masked
            with pytest.raises(TypeError) as caught:
                function(*arguments)
            assert str(caught.value) == f"{function.__name__}: {name}: {MASK}"


def test_a_masked_array_from_an_object_is_refused():
    class Mine:
        def __array__(self, dtype=None, copy=None):
            return np.ma.masked_array([1, 2, 0], [1, 0, 0])

    for function, arguments, name in (
        (dml.gather, (Mine(), [0]), "a"),
        (dml.gather, (np.zeros(3), Mine()), "indices"),
        (dml.top_k, ([Mine(), Mine()], 1), "a"),
        (dml.scatter_nd, (np.zeros(3, int), [[0], [1], [2]], Mine()), "updates"),
    ):
        with pytest.raises(TypeError) as caught:
            function(*arguments)
        assert str(caught.value) == f"{function.__name__}: {name}: {MASK}"


@pytest.mark.cpu
def test_an_output_is_what_its_memory_is():
    """Not what a subclass says of itself."""

    class Large(np.ndarray):
        shape = property(lambda self: (10_000, 4))

    with pytest.raises(ValueError, match=r"gather: out: found shape \(1, 4\), expected \(10000, 4\)"):
        dml.gather(np.ones((3, 4)), np.zeros(10_000, int), out=np.zeros((1, 4)).view(Large))


def test_masked_elements_are_refused():
    with pytest.raises(TypeError) as caught:
        dml.scatter_nd(np.zeros(3, int), [[0], [1]], [np.ma.masked, 1])
    assert str(caught.value) == f"scatter_nd: updates: {MASK}"


class Tensor:
    """What NumPy meets in PyTorch's tensors in host memory that it cannot read."""

    dtype, size = "torch.bfloat16", 2

    def __init__(self, text):
        self.text = text

    def element_size(self):
        return self.size

    def __array__(self, dtype=None, copy=None):
        raise TypeError(self.text) if "Scalar" in self.text else RuntimeError(self.text)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no strings of any length")
def test_strings_of_any_length_are_refused():
    text = np.array(["a", "bb"], np.dtypes.StringDType())
    with pytest.raises(TypeError, match=r"gather: a: found dtype StringDType\(\), expected a fixed-size NumPy element"):
        dml.gather(text, [0])
    with pytest.raises(TypeError, match=r"scatter_nd: updates: found dtype StringDType\(\), expected float64"):
        dml.scatter_nd(np.zeros(2), [[0], [1]], text)


def test_a_result_of_too_many_dimensions_after_a_smaller_one():
    """The first call of a kind knows the dtypes; NumPy's take, which is asked for the second one's, may crash."""
    for rank, index_rank in ((MOST - 4, 10), (MOST // 2 + 1, MOST // 2 + 8), (MOST, 2)):
        dml.gather(np.zeros(5), np.array([0]))
        with pytest.raises(ValueError, match=rf"gather: indices: found {index_rank} dimensions, expected at most"):
            dml.gather(np.zeros((1,) * rank), np.zeros((1,) * index_rank, int))


class Tensor8(Tensor):
    dtype, size = "torch.float8_e5m2", 1


GRAD = Tensor("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
BFLOAT16 = Tensor("Got unsupported ScalarType BFloat16")
FLOAT8 = Tensor8("Got unsupported ScalarType Float8_e5m2")
CONJUGATE = Tensor(
    "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead."
)
OF_BFLOAT16 = "found a tensor of torch.bfloat16, expected a dtype that NumPy has"


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x]])
def test_tensors_that_numpy_cannot_read(wrap):
    for tensor, call, message in (
        (
            GRAD,
            lambda x: dml.gather(x, [0]),
            "gather: a: found a tensor that requires grad, expected one without (use .detach())",
        ),
        (
            GRAD,
            lambda x: dml.scatter_nd(A, I2, x),
            "scatter_nd: updates: found a tensor that requires grad, expected one without (use .detach())",
        ),
        (
            BFLOAT16,
            lambda x: dml.gather_nd(x, [[0]]),
            f"gather_nd: a: {OF_BFLOAT16} (use .float(), or .view(torch.int16) to move the bits)",
        ),
        (
            FLOAT8,
            lambda x: dml.scatter_elements(A, I2, x),
            "scatter_elements: updates: found a tensor of torch.float8_e5m2, expected a dtype that NumPy has "
            "(use .float(), or .view(torch.uint8) to move the bits)",
        ),
        (BFLOAT16, lambda x: dml.top_k(x, 1), f"top_k: a: {OF_BFLOAT16} (use .float())"),
        (BFLOAT16, lambda x: dml.gather(A, x), f"gather: indices: {OF_BFLOAT16} (use .long())"),
        (CONJUGATE, lambda x: dml.top_k(x, 1), f"top_k: a: {CONJUGATE.text}"),
    ):
        with pytest.raises(TypeError) as caught:
            call(wrap(tensor))
        assert str(caught.value) == message


SMALL = [
    np.dtype(getattr(ml_dtypes, name))
    for name in ("float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2", "float4_e2m1fn")
    if hasattr(ml_dtypes, name)  # the last two are younger
]


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_elements_of_a_byte_of_ml_dtypes_are_moved(dtype):
    a = np.arange(-6, 6).astype(np.int8).view(np.uint8).reshape(3, 4).view(dtype)
    u = np.array([[1, 0], [0, 1]], np.uint8).view(dtype)

    def bits(x):
        assert x.dtype == dtype
        return x.view(np.uint8).tolist()

    plain, v = a.view(np.uint8), u.view(np.uint8)
    assert bits(dml.gather(a, [2, -3])) == plain[[2, 0]].tolist()
    assert bits(dml.gather(a.T, [2, -3], axis=1)) == plain.T[:, [2, 0]].tolist()
    assert bits(dml.gather_elements(a, I2)) == plain[:2, [0, 0]].tolist()
    assert bits(dml.gather_nd(a, [[1, 2], [0, -1]])) == [plain[1, 2], plain[0, 3]]
    assert bits(dml.scatter_nd(a, [[1, 2], [0, -1]], u[0])) == dml.scatter_nd(plain, [[1, 2], [0, -1]], v[0]).tolist()
    assert bits(dml.scatter_elements(a, I2, u)) == dml.scatter_elements(plain, I2, v).tolist()
    out = np.zeros((1, 4), dtype)
    assert dml.gather(a, [1], out=out) is out
    assert bits(out) == plain[[1]].tolist()
    for call, kind, message in (
        (
            lambda: dml.top_k(a, 1),
            TypeError,
            f"top_k: a: found dtype {dtype}, expected a bool, integer or float dtype of NumPy (at most 64 bits) "
            "or bfloat16",
        ),
        (
            lambda: dml.scatter_elements(a, I2, u, reduction="add"),
            ValueError,
            f"scatter_elements: reduction: found 'add', expected 'none': {dtype} elements are moved, not computed with",
        ),
        (lambda: dml.gather(a, u), TypeError, f"gather: indices: found dtype {dtype}, expected an integer dtype"),
        (
            lambda: dml.scatter_nd(a, [[0, 0]], [1]),
            TypeError,
            f"scatter_nd: updates: found dtype int64, expected {dtype}, the dtype of a (no silent cast)",
        ),
        (
            lambda: dml.scatter_nd(a, [[0, 0]], np.zeros(1, "u1")),
            TypeError,
            f"scatter_nd: updates: found dtype uint8, expected {dtype}, the dtype of a (no silent cast)",
        ),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) == message
