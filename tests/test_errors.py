"""Errors say what was found, what was expected and for which argument; inputs stay untouched; the next call works."""

import numpy as np
import pytest

import numba_dml as dml

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
