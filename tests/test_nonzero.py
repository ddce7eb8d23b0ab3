"""Coordinates of nonzero elements: examples, layouts, capacities, bounds, threads, descriptors and errors."""

import os

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

import numba_dml as dml
from numba_dml import DescriptorError, FeatureLevel, NonzeroCoordinatesDesc, TensorDesc

from . import reference
from .reference import same
from .strategies import BFLOAT16, COMPLEX, LAYOUTS, NUMBERS, fill, lay_out, seeds

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "200"))
PAGE = np.array([[[[1, 0, 0, 2], [-0.0, 3.5, 0, -5.2]]]], "f4")
#: The coordinates of PAGE, by how many of them a row holds.
COORDINATES = {
    2: [[0, 0], [0, 3], [1, 1], [1, 3]],
    3: [[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3]],
    4: [[0, 0, 0, 0], [0, 0, 0, 3], [0, 0, 1, 1], [0, 0, 1, 3]],
}


def describe(shape, columns, dtype="float32", rank=4, capacity=None, indices="uint32", **given):
    """Return the descriptor that DirectML's page shows, with as many leading 1s as `rank` needs."""
    capacity = int(np.prod(shape)) if capacity is None else capacity
    count = TensorDesc(indices, (1,) * rank)
    coordinates = TensorDesc(indices, (1,) * (rank - 2) + (capacity, columns))
    return NonzeroCoordinatesDesc(TensorDesc(dtype, shape), count, coordinates, **given)


@pytest.mark.parametrize("columns", COORDINATES)
def test_example_of_the_page(columns):
    operator = dml.compile_operator(describe(PAGE.shape, columns), feature_level=FeatureLevel.FL_3_0)
    expected = np.array(COORDINATES[columns], "u4")
    out = np.zeros((1, 1, 1, 1), "u4"), np.full((1, 1, 8, columns), 9, "u4")
    found = operator(PAGE, out=out)
    assert found.count is out[0]
    assert found.coordinates is out[1]
    assert same(out[0], np.full((1, 1, 1, 1), 4, "u4"))
    assert same(out[1][0, 0, :4], expected)
    assert (out[1][0, 0, 4:] == 9).all()  # not written
    count, coordinates = operator(PAGE)
    assert same(count, out[0])
    assert same(coordinates[0, 0], np.concatenate([expected, np.zeros_like(expected)]))


@pytest.mark.parametrize("columns", [1, 5])
def test_rows_hold_all_that_differs(columns):
    with pytest.raises(
        DescriptorError, match=f"output_coordinates_tensor: found {columns} coordinates, expected 2 to 4"
    ):
        describe(PAGE.shape, columns)


def test_the_page_by_the_function():
    assert same(dml.nonzero_coordinates(PAGE), np.array(COORDINATES[4]))
    assert same(dml.nonzero_coordinates(PAGE[0], index_dtype="u1"), np.array(COORDINATES[3], "u1"))


@pytest.mark.parametrize("order", "CF")
def test_bool(order):
    a = np.array([[1, 0], [1, 1]], bool, order=order)
    assert same(dml.nonzero_coordinates(a), np.array([[0, 0], [1, 0], [1, 1]]))


@pytest.mark.parametrize(("dtype", "least"), [("f8", 5e-324), ("f4", 1e-45), ("f2", 6e-8), (BFLOAT16, 9.2e-41)])
def test_only_zeros_are_zero(dtype, least):
    a = np.array([np.nan, -0.0, 0.0, least, np.inf, -np.nan, -least]).astype(dtype)
    assert a[3] != 0
    assert same(dml.nonzero_coordinates(a), np.array([[0], [3], [4], [5], [6]]))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_a_complex_number_is_zero_if_both_parts_are(dtype):
    a = np.zeros(6, dtype)
    a.real[:] = [0, -0.0, 1, 0, np.nan, -0.0]
    a.imag[:] = [0, -0.0, 0, 1, 0, -1e-45]
    assert same(dml.nonzero_coordinates(a), np.array([[2], [3], [4], [5]]))


def test_sizes():
    a = np.array([1, 0, 1, 1])
    found = dml.nonzero_coordinates(a, size=2, bounds="drop")
    assert same(found.count, np.array(3))
    assert same(found.coordinates, np.array([[0], [2]]))
    with pytest.raises(ValueError, match=r"^nonzero_coordinates: size: found 3 nonzero elements, expected at most 2$"):
        dml.nonzero_coordinates(a, size=2)
    count, coordinates = dml.nonzero_coordinates(a, size=5)
    assert same(count, np.array(3))
    assert same(coordinates, np.array([[0], [2], [3], [-1], [-1]]))
    assert dml.nonzero_coordinates(a, size=5, fill_value=7).coordinates.tolist()[3:] == [[7], [7]]
    assert same(dml.nonzero_coordinates(a, size=0, bounds="drop").coordinates, np.empty((0, 1), int))
    assert same(dml.nonzero_coordinates(a, size=3).coordinates, np.array([[0], [2], [3]]))


def test_no_dimensions_and_no_elements():
    assert same(dml.nonzero_coordinates(np.array(7)), np.empty((1, 0), int))
    assert same(dml.nonzero_coordinates(np.array(0)), np.empty((0, 0), int))
    assert same(dml.nonzero_coordinates(3.5), np.empty((1, 0), int))
    assert same(dml.nonzero_coordinates(np.zeros((0, 3))), np.empty((0, 2), int))
    assert same(dml.nonzero_coordinates([]), np.empty((0, 1), int))
    count, coordinates = dml.nonzero_coordinates(np.zeros((4, 0, 3)), size=2)
    assert same(count, np.array(0))
    assert same(coordinates, np.full((2, 3), -1))
    count, coordinates = dml.nonzero_coordinates(np.array(7), size=3)
    assert same(count, np.array(1))
    assert same(coordinates, np.empty((3, 0), int))


def test_outputs():
    a = np.array([[1, 0, 2], [0, 3, 4]])
    out = np.array(9), np.full((6, 2), 9)
    found = dml.nonzero_coordinates(a, out=out)
    assert found.count is out[0]
    assert found.coordinates is out[1]
    assert out[0] == 4
    assert out[1].tolist() == [[0, 0], [0, 2], [1, 1], [1, 2], [9, 9], [9, 9]]
    small = np.array(9), np.full((3, 2), 9)
    with pytest.raises(ValueError, match="nonzero_coordinates: size: found 4 nonzero elements, expected at most 3"):
        dml.nonzero_coordinates(a, out=small)
    assert (small[1] == 9).all()
    dml.nonzero_coordinates(a, out=small, bounds="drop")
    assert small[0] == 4
    assert small[1].tolist() == [[0, 0], [0, 2], [1, 1]]
    strided = np.array(9), np.full((6, 4), 9)[:, ::2]
    dml.nonzero_coordinates(a, out=strided, size=6)
    assert strided[1].tolist() == out[1].tolist()


@pytest.mark.cpu
def test_coordinates_may_lie_in_the_input():
    rng = np.random.default_rng(0)
    for shift in (-3, 0, 5):
        memory = rng.integers(0, 2, 4000)
        a, out = memory[100:2100].reshape(40, 50), memory[100 + shift : 100 + shift + 3000].reshape(1500, 2)
        expected = np.argwhere(a)
        count, coordinates = dml.nonzero_coordinates(a, out=(np.array(0), out))
        assert same(coordinates[: int(count)], expected)
    shared = np.zeros(4, int)
    with pytest.raises(ValueError, match="out: found count and coordinates that share memory, expected two arrays"):
        dml.nonzero_coordinates(a, out=(shared[1:2].reshape(()), shared.reshape(2, 2)))


SHAPES = [
    (1,), (63,), (64,), (65,), (70_000,), (131_072,), (300, 1), (1, 300), (2, 5000), (5000, 3), (300, 500), (17, 64),
    (65, 4096), (9, 4097), (40, 3, 70), (5, 1, 7, 1, 300), (3, 2, 2, 2, 2, 2, 2), (0,), (3, 0), (70, 1, 1), (1, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.9, 1])
def test_shapes(shape, share, simulated):
    if simulated and np.prod(shape) > 5000:
        pytest.skip("takes the simulator minutes")
    rng = np.random.default_rng(int(np.prod(shape)))
    for dtype in ("?", "f4", "i2", "f8", "c16", "u1"):
        a = (rng.random(shape) < share).astype(dtype)
        views = [a, np.asfortranarray(a), a[::-1], a[..., ::-1], np.repeat(a, 2, axis=-1)[..., ::2]]
        if a.ndim > 1:
            views += [np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0), np.broadcast_to(a[:, :1], shape)]
        for view in views if dtype in "?f4" else views[:3]:
            expected = np.argwhere(view)
            assert same(dml.nonzero_coordinates(view), expected)
            if not simulated:  # which has no threads to be limited
                with dml.config(threads=1):
                    assert same(dml.nonzero_coordinates(view), expected)
        assert same(dml.nonzero_coordinates(a, index_dtype="u4"), np.argwhere(a).astype("u4"))


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_random_calls(data):
    rng = np.random.default_rng(data.draw(seeds))
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 17, 70]), min_size=0, max_size=4)))
    if np.prod(shape) > (1000 if os.environ.get("NUMBA_ENABLE_CUDASIM") else 50_000):
        shape = shape[:2]
    a = np.array(fill(rng, shape, data.draw(st.sampled_from(NUMBERS + COMPLEX))))
    a[np.asarray(rng.random(shape) >= data.draw(st.sampled_from([0, 0.1, 0.6])))] = 0
    a = lay_out(rng, a, data.draw(st.sampled_from(LAYOUTS)))
    dtype = np.dtype(data.draw(st.sampled_from(["i8", "i4", "u4", "i1", "u1", "u8", "i2"])))
    expected, before = reference.nonzero_coordinates(a), a.tobytes()
    if "V" not in a.dtype.kind:
        assert same(expected, np.argwhere(a))
    count = len(expected)
    size = data.draw(st.sampled_from([None, 0, count // 2, count, count + 1, 2 * count + 5]))
    bounds = data.draw(st.sampled_from([None, "raise", "drop"]))
    fill_value = data.draw(st.sampled_from([-1, 0, 99])) if dtype.kind == "i" else 99
    given = {"index_dtype": dtype, "bounds": bounds, "fill_value": fill_value}
    if size is None:
        assert same(dml.nonzero_coordinates(a, **given), expected.astype(dtype))
    elif size < count and bounds != "drop":
        with pytest.raises(ValueError, match=f"found {count} nonzero elements, expected at most {size}"):
            dml.nonzero_coordinates(a, size=size, **given)
    else:
        rest = max(size - count, 0)
        wanted = np.concatenate([expected[:size], np.full((rest, a.ndim), fill_value)]).astype(dtype)
        found = dml.nonzero_coordinates(a, size=size, **given)
        assert same(found.count, np.array(count))
        assert same(found.coordinates, wanted)
        out = np.array(0), lay_out(rng, np.full((size, a.ndim), 55, dtype), data.draw(st.sampled_from(LAYOUTS[:4])))
        dml.nonzero_coordinates(a, out=out, index_dtype=dtype, bounds=bounds)
        wanted[count:] = 55
        assert same(out[0], np.array(count))
        assert same(out[1], wanted)
    assert a.tobytes() == before


def test_they_are_indices_of_gather_nd():
    rng = np.random.default_rng(0)
    for shape in ((7,), (6, 5), (3, 4, 5)):
        for layout in LAYOUTS:
            a = lay_out(rng, fill(rng, shape, np.dtype("f4")), layout)
            found = dml.gather_nd(a, dml.nonzero_coordinates(a))
            assert same(found, a[a != 0].astype("f4"))


@pytest.mark.cpu
def test_deferred_raises_at_once_on_the_cpu():
    with pytest.raises(ValueError, match="found 3 nonzero elements, expected at most 2"):
        dml.nonzero_coordinates(np.ones(3), size=2, bounds="deferred")
    with dml.config(bounds="drop"):
        assert dml.nonzero_coordinates(np.ones(3), size=2).count == 3
    with dml.config(bounds="clamp"), pytest.raises(ValueError, match="found 3 nonzero elements"):
        dml.nonzero_coordinates(np.ones(3), size=2)


def test_deferred_raises_later_on_a_device(usable_target):
    if usable_target != "cuda":
        pytest.skip("on the CPU it raises at once")
    found = dml.nonzero_coordinates(np.array([0, 1, 1, 1]), size=2, bounds="deferred")
    assert found.count == 3
    assert found.coordinates.tolist() == [[1], [2]]
    with pytest.raises(ValueError, match="nonzero_coordinates: size: found 3 nonzero elements, expected at most 2"):
        dml.check()
    assert dml.nonzero_coordinates(np.ones(3), size=3, bounds="deferred").count == 3
    dml.check()


def test_bytes_of_bools_that_are_not_1():
    a = np.array([0, 2, 255, 128, 0], "u1").view("?")
    assert same(dml.nonzero_coordinates(a), np.array([[1], [2], [3]]))


A = np.ones((3, 300))
WRONG = {
    "size": ({"size": 1.0}, TypeError, "size: found 1.0, expected an integer"),
    "a bool": ({"size": True}, TypeError, "size: found True, expected an integer"),
    "a negative size": ({"size": -1}, ValueError, "size: found -1, expected 0 or more"),
    "fill_value": ({"size": 900, "fill_value": 0.5}, TypeError, "fill_value: found 0.5, expected an integer"),
    "bounds": ({"bounds": "clamp"}, ValueError, "bounds: found 'clamp', expected one of 'raise', 'drop', 'deferred'"),
    "no word": ({"bounds": ["drop"]}, TypeError, r"bounds: found \['drop'\], expected a single value"),
    "index_dtype": ({"index_dtype": "f4"}, TypeError, "index_dtype: found float32, expected a native integer dtype"),
    "spam": ({"index_dtype": "spam"}, TypeError, "index_dtype: found 'spam', expected an integer dtype"),
    "too small": ({"index_dtype": "u1"}, ValueError, "index_dtype: found uint8, expected a type that holds 299"),
    "unsigned": (
        {"index_dtype": "u2", "size": 900},
        ValueError,
        "fill_value: found -1, expected 0 to 65535, what uint16 holds",
    ),
    "no pair": ({"out": np.zeros((900, 2), int)}, TypeError, r"out: found ndarray, expected a pair \(count, coord"),
    "no arrays": ({"out": (0, np.zeros((900, 2), int))}, TypeError, r"out\[0\]: found int, expected a numpy.ndarray"),
    "a list": ({"out": (np.array(0), [[0, 0]])}, TypeError, r"out\[1\]: found list, expected a numpy.ndarray"),
    "dtype": ({"out": (np.array(0), np.zeros((900, 2)))}, TypeError, r"out\[1\]: found dtype float64, expected int64"),
    "count": ({"out": (np.zeros(1, int), np.zeros((900, 2), int))}, ValueError, r"out\[0\]: found shape \(1,\), exp"),
    "shape": ({"out": (np.array(0), np.zeros((900, 3), int))}, ValueError, r"out\[1\]: found shape \(900, 3\), expec"),
    "capacity": ({"size": 5, "out": (np.array(0), np.zeros((9, 2), int))}, ValueError, r"found shape \(9, 2\), expe"),
    "target": ({"target": "tpu"}, ValueError, "found 'tpu', expected one of"),
    "huge": ({"size": 2**59}, ValueError, r"found a tensor of 2\*\*63 bytes or more, expected a smaller one"),
    "huger": ({"size": 2**63}, ValueError, r"found a tensor of 2\*\*63 bytes or more, expected a smaller one"),
}


@pytest.mark.cpu
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    arguments, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        dml.nonzero_coordinates(A, **arguments)
    assert dml.nonzero_coordinates(A, index_dtype="u2").shape == (900, 2)


@pytest.mark.cpu
def test_wrong_arrays():
    for a in (
        np.array([None]),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.ones(2, np.longdouble),
        np.array(["a"]),
        np.array([b"a"]),
        np.ones(2, "m8[s]"),
        np.ones(2, "i4,i4"),
        np.ones(2, "V4"),
    ):
        with pytest.raises(TypeError, match="nonzero_coordinates: a: found"):
            dml.nonzero_coordinates(a)
    with pytest.raises(TypeError, match=r"found 2 positional arguments, expected 1 \(write size=1\)"):
        dml.nonzero_coordinates(np.ones((2, 2)), 1)


T8 = {"FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"}


@pytest.mark.cpu
@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
def test_feature_levels(level):
    if level < FeatureLevel.FL_3_0:
        with pytest.raises(DescriptorError, match=f"found {level.name}, expected FL_3_0 or later"):
            describe(PAGE.shape, 4).validate(level)
        return
    low, high = (1, 8) if level >= FeatureLevel.FL_4_0 else (4, 5)
    for data in dml.TensorDataType:
        if data.name in T8:
            describe(PAGE.shape, 4, data).validate(level)
        else:
            with pytest.raises(DescriptorError, match=f"input_tensor: found {data.name}, expected one of"):
                describe(PAGE.shape, 4, data).validate(level)
    for rank in range(1, 10):
        descriptor = describe((1,) * (rank - 1) + (3,), rank, rank=max(rank, 2))
        if low <= rank <= high:
            descriptor.validate(level)
        else:
            with pytest.raises(DescriptorError, match=f"{rank} dimensions|expected {rank}, as"):
                descriptor.validate(level)
    for indices in ("int64", "int32", "uint64"):
        with pytest.raises(DescriptorError, match=f"output_count_tensor: found {indices.upper()}, expected one of UI"):
            describe(PAGE.shape, 4, indices=indices).validate(level)
    mixed = NonzeroCoordinatesDesc(
        TensorDesc("float32", PAGE.shape), TensorDesc("uint32", (1,)), TensorDesc("uint32", (8, 4))
    )
    if level >= FeatureLevel.FL_4_0:
        mixed.validate(level)
    else:
        with pytest.raises(DescriptorError, match="output_count_tensor: found 1 dimensions, expected 4"):
            mixed.validate(level)
    with pytest.raises(DescriptorError, match="output_coordinates_tensor: found 7 rows, expected 8"):
        describe(PAGE.shape, 4, capacity=7).validate(level)
    with pytest.raises(DescriptorError, match="sizes of at least 1"):
        describe((1, 1, 0, 4), 4).validate(level)
    with pytest.raises(DescriptorError, match="count_tensor: found uint32, expected a type that holds 4294967296"):
        describe((1, 1, 2**16, 2**16), 2)


@pytest.mark.cpu
def test_wrong_descriptors():
    x, count, rows = TensorDesc("float32", (2, 3)), TensorDesc("uint32", (1,)), TensorDesc("uint32", (6, 2))
    wrong = {
        "output_count_tensor: found sizes .2,., expected size 1": (x, TensorDesc("uint32", (2,)), rows),
        "output_count_tensor: found float32, expected an integer data type": (x, TensorDesc("float32", (1,)), rows),
        "output_count_tensor: found uint8, expected a type that holds 300": (
            TensorDesc("float32", (3, 100)), TensorDesc("uint8", (1,)), rows
        ),
        "output_coordinates_tensor: found float16, expected an integer": (x, count, TensorDesc("float16", (6, 2))),
        "output_coordinates_tensor: found 1 dimensions, expected at least 2": (x, count, TensorDesc("uint32", (6,))),
        "output_coordinates_tensor: found sizes .2, 6, 2., expected size 1 in the first 1": (
            x, count, TensorDesc("uint32", (2, 6, 2))
        ),
        "output_coordinates_tensor: found 3 coordinates, expected 2": (x, count, TensorDesc("uint32", (6, 3))),
        "output_coordinates_tensor: found int8, expected a type that holds 199": (
            TensorDesc("float32", (2, 200)), count, TensorDesc("int8", (6, 2))
        ),
        "output_coordinates_tensor: found strides .0, 1., expected elements that do not overlap": (
            x, count, TensorDesc("uint32", (6, 2), (0, 1))
        ),
        r"input_tensor: found \|S4, expected a data type of numbers": (TensorDesc("S4", (2, 3)), count, rows),
        "input_tensor: found a int, expected a TensorDesc": (3, count, rows),
    }  # fmt: skip
    for text, tensors in wrong.items():
        with pytest.raises(DescriptorError, match=text):
            NonzeroCoordinatesDesc(*tensors)
    with pytest.raises(DescriptorError, match="bounds: found 'clamp', expected one of"):
        NonzeroCoordinatesDesc(x, count, rows, bounds="clamp")
    with pytest.raises(DescriptorError, match="fill_value: found -1, expected 0 to 4294967295"):
        NonzeroCoordinatesDesc(x, count, rows, fill_value=-1)
    for value in (1.5, True, "x"):
        with pytest.raises(DescriptorError, match=f"fill_value: found {value!r}, expected an integer"):
            NonzeroCoordinatesDesc(x, count, rows, fill_value=value)
    assert type(NonzeroCoordinatesDesc(x, count, rows, fill_value=np.int64(3)).to_dict()["fill_value"]) is int


@pytest.mark.cpu
def test_descriptors():
    descriptor = describe(PAGE.shape, 3, bounds="drop", fill_value=5)
    assert dml.Descriptor.from_dict(descriptor.to_dict()) == descriptor
    assert descriptor.operator_type == 133
    operator = dml.compile_operator(descriptor)
    assert operator(PAGE).coordinates[0, 0, 3:].tolist() == [[0, 1, 3], *[[5, 5, 5]] * 4]
    assert operator.kernel.startswith("nonzero_coordinates")
    assert operator.work == 32
    with pytest.raises(ValueError, match="found shape"):
        operator(PAGE[0])
    with pytest.raises(TypeError, match="found dtype float64"):
        operator(PAGE.astype("f8"))
    few = dml.compile_operator(describe(PAGE.shape, 2, capacity=3))
    with pytest.raises(ValueError, match="size: found 4 nonzero elements, expected at most 3"):
        few(PAGE)
    assert few(0 * PAGE).count.item() == 0


@numba.njit(fastmath=True)
def all_rows(a):
    return dml.nonzero_coordinates(a)


@numba.njit
def short_rows(a):
    return dml.nonzero_coordinates(a, index_dtype=np.uint8)


@numba.njit
def some_rows(a, size, fill_value):
    return dml.nonzero_coordinates(a, size=size, fill_value=fill_value)


@numba.njit
def first_rows(a, size):
    return dml.nonzero_coordinates(a, size=size, bounds="drop")


@numba.njit
def to_outputs(a, count, rows):
    return dml.nonzero_coordinates(a, out=(count, rows))


@pytest.mark.cpu
def test_in_jitted_code():
    rng = np.random.default_rng(0)
    for dtype in ("?", "f4", "c16"):
        for shape in ((0,), (7,), (4, 5), (3, 1, 4)):
            for layout in ("packed", "reversed"):
                a = lay_out(rng, fill(rng, shape, np.dtype(dtype)), layout)
                expected = np.argwhere(a)
                assert same(all_rows(a), expected)
    a = np.array([[1, 0, 2], [0, 3, np.nan]])
    assert same(short_rows(a), np.argwhere(a).astype("u1"))
    count, rows = some_rows(a, 6, -7)
    assert same(count, np.array(4))
    assert same(rows, dml.nonzero_coordinates(a, size=6, fill_value=-7).coordinates)
    found = first_rows(a, 3)
    assert type(found) is dml.Nonzero
    assert found.count == 4
    assert same(found.coordinates, np.argwhere(a)[:3])
    out = np.array(0), np.full((5, 2), 9)
    assert to_outputs(a, *out).coordinates is not None
    assert out[0] == 4
    assert out[1].tolist() == [[0, 0], [0, 2], [1, 1], [1, 2], [9, 9]]
    memory = np.arange(12).reshape(6, 2)
    expected = np.argwhere(memory[:3])
    to_outputs(memory[:3], out[0], memory)
    assert same(memory[:5], expected)
    with pytest.raises(ValueError, match="nonzero_coordinates: size: found 4 nonzero elements, expected at most 3"):
        some_rows(a, 3, 0)
    with pytest.raises(ValueError, match="size: found -3, expected 0 or more"):
        some_rows(a, -3, 0)
    with pytest.raises(ValueError, match="index_dtype: found uint8, expected a type that holds 299"):
        short_rows(np.ones((2, 300)))
    for size in (2**63, 2**64 - 1):
        with pytest.raises(ValueError, match=r"nonzero_coordinates: found a tensor of 2\*\*63 bytes or more"):
            some_rows(a, np.uint64(size), 0)


@pytest.mark.cpu
def test_outputs_in_jitted_code():
    a = np.array([[0, 1.0], [1, 1]])
    memory = np.zeros(8, np.int64)
    count, strided = memory[7:].reshape(()), np.lib.stride_tricks.as_strided
    for rows in (
        memory[2:].reshape(3, 2),
        memory[1::2].reshape(2, 2),
        memory[1:].reshape(7, 1),
        memory[:6].reshape(2, 3),
        memory[:4].reshape(2, 2),
        strided(memory, (3, 2), (0, 8)),
        strided(memory, (3, 2), (8, 8)),
    ):
        with pytest.raises(ValueError, match="nonzero_coordinates: ") as error:
            dml.nonzero_coordinates(a, out=(count, rows))
        with pytest.raises(ValueError, match="nonzero_coordinates: ") as found:
            to_outputs(a, count, rows)
        assert str(found.value) == str(error.value)
        assert not memory.any()
    for rows in (memory[:6].reshape(3, 2), memory[:6].reshape(2, 3).T, strided(memory, (3, 2), (8, 24))):
        to_outputs(a, count, rows)
        assert count == 3
        assert rows.tolist() == [[0, 1], [1, 0], [1, 1]]
    table = np.zeros((3, 3), np.int64)  # the count lies between the rows
    to_outputs(a, table[1, 1:2].reshape(()), table[:, ::2])
    assert table.tolist() == [[0, 0, 1], [1, 3, 0], [1, 0, 1]]
    for source in (memory[:4].reshape(2, 2), memory[4:].reshape(2, 2), memory.reshape(4, 2)[:2].T):
        memory[:] = 5, 0, 6, 7, 8, 0, 9, 3
        expected = np.argwhere(source)
        to_outputs(source, count, memory[:6].reshape(3, 2))
        assert count == 3
        assert same(memory[:6].reshape(3, 2), expected)


@pytest.mark.cpu
def test_no_dimensions_in_jitted_code():
    for value in (3.0, 0.0):
        a = np.array(value)
        assert same(all_rows(a), dml.nonzero_coordinates(a))
        count, rows = some_rows(a, 2, -1)
        assert same(count, np.array(int(value != 0)))
        assert same(rows, np.empty((2, 0), np.intp))
        to_outputs(a, count, rows)
        assert count == (value != 0)


@pytest.mark.cpu
def test_typing_errors_in_jitted_code():
    with pytest.raises(TypingError, match="nonzero_coordinates: a: found float16, which has no arithmetic"):
        all_rows(np.ones(3, "f2"))

    @numba.njit
    def floats(a):
        return dml.nonzero_coordinates(a, index_dtype=np.float32)

    with pytest.raises(TypingError, match="nonzero_coordinates: index_dtype"):
        floats(np.ones(3))


@pytest.mark.cpu
def test_a_large_array_has_positions_of_64_bits():
    a = np.lib.stride_tricks.as_strided(np.array([1], "u1"), (1, 1), (0, 0))
    far = np.zeros(2**32 + 70, "u1") if os.environ.get("NUMBA_DML_TEST_LARGE") else None
    assert same(dml.nonzero_coordinates(a), np.array([[0, 0]]))
    if far is not None:
        far[[5, 2**31, 2**32 + 1]] = 1
        assert dml.nonzero_coordinates(far).ravel().tolist() == [5, 2**31, 2**32 + 1]
