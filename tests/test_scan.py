"""Cumulative sums and products: examples, the fixed order of float sums, layouts, overlaps, threads and errors."""

import os
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

import numba_dml as dml
from numba_dml import AxisDirection, DescriptorError, FeatureLevel, TensorDesc
from numba_dml.cpu.calls import scan as calls
from numba_dml.cpu.tuning.scan import TUNING

from . import reference
from .reference import same
from .strategies import BFLOAT16, COMPLEX, LAYOUTS, NUMBERS, fill, lay_out, seeds

EXAMPLES = int(os.environ.get("NUMBA_DML_TEST_EXAMPLES", "150"))


@pytest.fixture
def on_device(simulated):
    """Skip what takes CUDA's simulator minutes."""
    if simulated:
        pytest.skip("takes the simulator minutes")


FUNCTIONS = {"sum": dml.cumulative_sum, "prod": dml.cumulative_prod}
DESCRIPTORS = {"sum": dml.CumulativeSummationDesc, "prod": dml.CumulativeProductDesc}
A = [[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]
#: Axis, direction, exclusive; sums and products of A.
PAGES = {
    "axis 3": (3, 0, False, "2 3 6 11, 3 11 18 21, 9 15 17 21", "2 2 6 30, 3 24 168 504, 9 54 108 432"),
    "exclusive": (3, 0, True, "0 2 3 6, 0 3 11 18, 0 9 15 17", "1 2 2 6, 1 3 24 168, 1 9 54 108"),
    "decreasing": (3, 1, False, "11 9 8 5, 21 18 10 3, 21 12 6 4", "30 15 15 5, 504 168 21 3, 432 48 8 4"),
    "axis 2": (2, 0, False, "2 1 3 5, 5 9 10 8, 14 15 12 12", "2 1 3 5, 6 8 21 15, 54 48 42 60"),
    "both": (2, 1, True, "12 14 9 7, 9 6 2 4, 0 0 0 0", "27 48 14 12, 9 6 2 4, 1 1 1 1"),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "int64", "uint64", "float64", "int8"])
def test_examples_of_the_pages(name, kind, dtype):
    axis, direction, exclusive, sums, products = PAGES[name]
    a = np.array(A, dtype).reshape(1, 1, 3, 4)
    numbers = (sums if kind == "sum" else products).replace(",", "").split()
    expected = np.array([int(x) for x in numbers]).astype(dtype).reshape(a.shape)
    found = FUNCTIONS[kind](a, axis=axis, dtype=dtype, exclusive=exclusive, reverse=direction == 1)
    assert same(found, expected)
    tensor = TensorDesc(dtype, a.shape)
    descriptor = DESCRIPTORS[kind](tensor, tensor, axis, direction, exclusive)
    strict = dtype not in ("float64", "int8")
    operator = dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_5_0 if strict else None)
    assert same(operator(a), expected)
    out = np.empty_like(a)
    assert operator(a, out=out) is out
    assert same(out, expected)
    assert same(operator(a, out=a), expected)


ONE_TO_FIVE = {
    "inclusive": ({}, [1, 3, 6, 10, 15], [1, 2, 6, 24, 120]),
    "exclusive": ({"exclusive": True}, [0, 1, 3, 6, 10], [1, 1, 2, 6, 24]),
    "reverse": ({"reverse": True}, [15, 14, 12, 9, 5], [120, 120, 60, 20, 5]),
    "both": ({"exclusive": True, "reverse": True}, [14, 12, 9, 5, 0], [120, 60, 20, 5, 1]),
    "initial": ({"include_initial": True}, [0, 1, 3, 6, 10, 15], [1, 1, 2, 6, 24, 120]),
    "initial, reverse": (
        {"include_initial": True, "reverse": True},
        [15, 14, 12, 9, 5, 0],
        [120, 120, 60, 20, 5, 1],
    ),
}


@pytest.mark.parametrize("name", ONE_TO_FIVE)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
def test_one_to_five(name, dtype):
    given, sums, products = ONE_TO_FIVE[name]
    a = np.arange(1, 6).astype(dtype)
    assert same(dml.cumulative_sum(a, dtype=dtype, **given), np.array(sums, dtype))
    assert same(dml.cumulative_prod(a, dtype=dtype, **given), np.array(products, dtype))


def test_result_types():
    assert same(dml.cumulative_sum(np.array([200, 100], "u1")), np.array([200, 300], "u8"))
    assert same(dml.cumulative_sum(np.array([200, 100], "u1"), dtype="uint8"), np.array([200, 44], "u1"))
    most = np.array([2**31 - 1, 1], "i4")
    assert same(dml.cumulative_sum(most, dtype=np.int32), np.array([2**31 - 1, -(2**31)], "i4"))
    assert same(dml.cumulative_sum(np.array([True, False, True])), np.array([1, 1, 2]))
    assert same(dml.cumulative_prod(np.array([True, False, True])), np.array([1, 0, 0]))
    for dtype in NUMBERS + COMPLEX:
        wide = {"b": "i8", "i": "i8", "u": "u8"}.get(dtype.kind, dtype)
        for function in FUNCTIONS.values():
            assert function(np.ones(3, dtype)).dtype == wide
            assert function(np.ones(3, dtype), dtype=dtype).dtype == dtype


@pytest.mark.usefixtures("on_device")
def test_halves_and_singles_are_summed_in_doubles():
    assert dml.cumulative_sum(np.ones(2**24 + 2, "f4"))[-1] == 16777218
    assert dml.cumulative_sum(np.ones(4096, "f2"))[-1] == 4096
    assert float(dml.cumulative_sum(np.ones(600, BFLOAT16))[-1]) == 600


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(("first", "size"), [(256, 512), (65536, 65536 + 256)])
def test_levels(first, size):
    a = np.zeros(size)
    a[0], a[first:] = 1, 2.0**-53
    found = dml.cumulative_sum(a)
    assert [found[first - 1], found[first], found[first + 1], found[-1]] == [1, 1, 1 + 2.0**-52, 1 + 2.0**-45]


def test_nan_infinities_and_zeros():
    a = np.array([1, np.inf, -np.inf, 2])
    assert same(dml.cumulative_sum(a), np.array([1, np.inf, np.nan, np.nan]))
    assert same(dml.cumulative_sum(-a), np.array([-1, -np.inf, np.nan, np.nan]))
    assert same(dml.cumulative_prod(np.array([0.0, np.inf])), np.array([0, np.nan]))
    zeros = np.array([-0.0, -0.0])
    assert same(dml.cumulative_sum(zeros), zeros)
    assert same(dml.cumulative_sum(zeros, exclusive=True), np.array([0.0, -0.0]))
    assert same(dml.cumulative_sum(zeros, include_initial=True), np.array([0.0, -0.0, -0.0]))
    assert same(dml.cumulative_sum(np.full(700, -0.0)), np.full(700, -0.0))
    a = np.array([-1e308] + [0] * 255 + [1e308, 1e308])
    assert dml.cumulative_sum(a)[-1] == np.inf  # the documented limit: the second block alone overflows


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", BFLOAT16])
def test_every_nan_is_the_one_of_numpy(dtype):
    dtype = np.dtype(dtype)
    bits = {2: "u2", 4: "u4", 8: "u8"}[dtype.itemsize // (2 if dtype.kind == "c" else 1)]
    a = np.full(3, -np.nan, dtype)
    a.view(bits)[...] |= 1
    nan = np.array(np.nan, dtype if dtype.kind != "c" else f"f{dtype.itemsize // 2}")
    for function in FUNCTIONS.values():
        for axis in (0, 1):
            found = function(np.tile(a, (20, 20)), axis=axis)
            assert np.isnan(found).all()
            parts = found.view(nan.dtype)
            assert (parts[np.isnan(parts)].view(bits) == nan.view(bits)).all()


def test_a_double_is_rounded_once():
    """Through float32 these would be rounded twice: to a tie, and then to even."""
    assert same(dml.cumulative_sum(np.array([1, 2**-11 + 2**-40]), dtype="f2"), np.array([1, 1], "f2"))  # a's own cast
    a = np.array([1, 2.0**-11, 2.0**-24], "f2")
    assert same(dml.cumulative_sum(a), np.array([1, 1, 1 + 2**-10], "f2"))
    a = np.array([1, 2.0**-8, 2.0**-40], BFLOAT16)
    assert dml.cumulative_sum(a).astype("f8").tolist() == [1, 1, 1 + 2**-7]
    a = np.array([1, 2.0**-11, 2.0**-24], "f2")
    wide = np.tile(a[:, None], (1, 40))
    assert same(dml.cumulative_sum(wide, axis=0)[:, 7], dml.cumulative_sum(a))
    assert same(dml.cumulative_sum(np.array([65504, 15.99], "f2")), np.array([65504, 65504], "f2"))
    assert same(dml.cumulative_sum(np.array([65504, 16], "f2")), np.array([65504, np.inf], "f2"))
    large = np.array([ml_dtypes.finfo(BFLOAT16).max, ml_dtypes.finfo(BFLOAT16).max], BFLOAT16)
    assert np.isinf(dml.cumulative_sum(large)[1])


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("dtype", ["f2", BFLOAT16])
def test_all_halves(dtype):
    """Sums of a value and a far smaller one, around every border of the rounding."""
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    small = np.repeat(np.array([0, 2**-14, -(2**-14), 2**-24, -(2**-24), 3e-5], dtype), len(values))
    with np.errstate(all="ignore"):
        half = np.tile(values, 6) * np.array(0.5, dtype)
        a = np.stack([np.tile(values, 6), half, small], 1)
        sums = a[:, 0].astype("f8") + a[:, 1].astype("f8") + a[:, 2].astype("f8")
        halves = np.where(np.isnan(sums), np.nan, sums).astype("f2")
    found = dml.cumulative_sum(a, axis=1)[:, 2]
    if dtype == "f2":
        assert same(found, halves)
    else:
        pick = np.random.default_rng(0).choice(len(sums), 20_000)
        assert same(found[pick], np.array([reference.rounded(x, np.dtype(dtype)) for x in sums[pick]], dtype))
    assert same(np.ascontiguousarray(dml.cumulative_sum(np.ascontiguousarray(a.T), axis=0)[2]), found)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("n", [100_000, 1_000_000, 3_000_000])
@pytest.mark.parametrize("columns", [1, 20])
def test_sums_of_what_is_not_negative_never_decrease(n, columns):
    rng = np.random.default_rng(0)
    n //= columns
    for dtype in ("f4", "f8", "f2"):
        a = (rng.random((n, columns)) * (rng.random((n, columns)) < 0.5)).astype(dtype)
        found = dml.cumulative_sum(a, axis=0)
        steps = np.diff(found[np.isfinite(found[:, 0])].astype("f8"), axis=0)
        assert (steps >= 0).all()
        assert not steps[a[1 : len(steps) + 1] == 0].any()


@pytest.mark.usefixtures("on_device")
def test_short_lines_have_the_bits_of_numpy():
    a = np.random.default_rng(0).standard_normal((300, 256))
    assert same(dml.cumulative_sum(a, axis=1), np.cumsum(a, 1))
    assert same(dml.cumulative_prod(a, axis=1), np.cumprod(a, 1))
    assert same(dml.cumulative_prod(a.astype("f4"), axis=0), np.cumprod(a.astype("f4"), 0))


SHAPES = {
    "a line": ((200,), 0),
    "a line of some blocks": ((1000,), 0),
    "a line of three levels": ((66000,), 0),
    "a line in parts": ((4 * 65536 + 700,), 0),
    "few lines in parts": ((3, 4 * 65536), 1),
    "short lines": ((1000, 7), 1),
    "columns": ((600, 70), 0),
    "columns, deep": ((65900, 18), 0),
    "few columns": ((1000, 3), 0),
    "tiles": ((300, 1100), 0),
    "many lines of blocks": ((6, 330), 1),
    "many columns of blocks": ((330, 6), 0),
    "lines of more blocks": ((3, 640), 1),
    "columns of more blocks": ((1100, 3), 0),
    "more columns than lanes": ((530, 3), 0),
    "lines of segments": ((9, 40), 1),
    "the middle": ((4, 300, 40), 1),
    "the middle, few": ((40, 300, 2), 1),
    "no lines": ((0, 5), 1),
    "empty lines": ((5, 0), 1),
}


LARGE = {
    "many lines of blocks": ((33_000, 300), 1),
    "many columns of blocks": ((300, 33_000), 0),
    "the middle, many": ((2, 300, 17_000), 1),
    "few columns of many blocks": ((10_000_000, 4), 0),
    "a line of many blocks": ((17_000_003,), 0),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_arrays_on_a_device(name, target, simulated):
    """The ways that need more lines, or blocks, than the other shapes have."""
    if target == "cpu" or simulated:
        pytest.skip("takes the simulator minutes")
    shape, axis = LARGE[name]
    rng = np.random.default_rng(0)
    for dtype, flags in (("f4", {}), ("f8", {"reverse": True}), ("i4", {"exclusive": True})):
        a = rng.standard_normal(shape).astype(dtype) if dtype[0] == "f" else rng.integers(-99, 99, shape, dtype)
        expected = dml.cumulative_sum(a, axis=axis, target="cpu", **flags)
        assert same(dml.cumulative_sum(a, axis=axis, target="cuda", **flags), expected)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("flags", ["", "reverse", "exclusive", "include_initial", "reverse exclusive"])
def test_shapes(name, kind, flags, simulated):
    shape, axis = SHAPES[name]
    if simulated and np.prod(shape) > 2000:
        pytest.skip("takes the simulator minutes")
    rng = np.random.default_rng(len(name))
    given = {"axis": axis, **dict.fromkeys(flags.split(), True)}
    if np.prod(shape) > (300 if simulated else 10_000):
        dtypes = ["f4", "i4"]
    else:
        dtypes = ["f4", "f8", "f2", BFLOAT16, "i4", "u1", "c8", "?"]
    for dtype in dtypes:
        a = (
            fill(rng, shape, np.dtype(dtype))
            if np.dtype(dtype).kind != "f"
            else rng.standard_normal(shape).astype(dtype)
        )
        expected = reference.cumulative(a, kind == "prod", **given)
        function = FUNCTIONS[kind]
        assert same(function(a, **given), expected)
        with dml.config(threads=1):
            assert same(function(a, **given), expected)
        out = np.empty_like(expected)
        assert function(a, **given, out=out) is out
        assert same(out, expected)
        if out.dtype == a.dtype and out.shape == a.shape:
            assert same(function(a, **given, out=a), expected)


@pytest.mark.cpu
@pytest.mark.parametrize("given", [{}, {"exclusive": True}, {"include_initial": True, "reverse": True}])
def test_integers_in_parts(given, monkeypatch):
    monkeypatch.setattr(calls, "TUNING", TUNING._replace(least_integer_part=1, integer_threads=1))
    dml.cache_clear()
    a = np.random.default_rng(0).integers(0, 256, 3 * 65536 + 5).astype("u1")
    try:
        assert same(dml.cumulative_sum(a, **given), reference.cumulative(a, False, **given))
    finally:
        dml.cache_clear()


@given(st.data())
@settings(max_examples=EXAMPLES)
def test_random_calls(simulated, data):
    rng = np.random.default_rng(data.draw(seeds))
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 17, 40]), min_size=1, max_size=4)))
    if np.prod(shape) > (500 if simulated else 20_000):
        shape = shape[:2]
    if data.draw(st.integers(0, 3)) == 0:
        shape = tuple(data.draw(st.permutations([600, *shape[:1]])))
    dtype = data.draw(st.sampled_from(NUMBERS + COMPLEX))
    a = lay_out(rng, fill(rng, shape, dtype), data.draw(st.sampled_from(LAYOUTS)))
    kind = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    flags = data.draw(st.sampled_from([{}, {"exclusive": True}, {"include_initial": True}]))
    given = {"axis": data.draw(st.integers(-len(shape), len(shape) - 1)), "reverse": data.draw(st.booleans()), **flags}
    result = data.draw(
        st.sampled_from([None, None, a.dtype.newbyteorder("="), np.dtype("f8"), np.dtype("f2"), np.dtype("i2")])
    )
    if result is not None and (a.dtype.kind, result.kind) in (("c", "f"), ("c", "i"), ("f", "i"), ("V", "i")):
        result = None
    if result is not None and result.kind == "i" and a.dtype == BFLOAT16:
        result = None
    with np.errstate(all="ignore"):
        expected = reference.cumulative(a, kind == "prod", dtype=result, **given)
        function, before = FUNCTIONS[kind], a.tobytes()
        assert same(function(a, dtype=result, **given), expected)
        assert a.tobytes() == before
        out = lay_out(
            rng, np.zeros_like(expected), data.draw(st.sampled_from(["packed", "fortran", "reversed", "sparse"]))
        )
        assert function(a, dtype=result, **given, out=out) is out
        assert same(out, expected)
    if a.dtype == expected.dtype and a.shape == expected.shape and a.flags.writeable:
        assert same(function(a, dtype=result, **given, out=a), expected)


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("shape", [(40, 50), (300, 20), (20, 300)])
def test_overlaps(shape):
    rng = np.random.default_rng(0)
    for _ in range(60):
        memory = rng.standard_normal(3 * shape[0] * shape[1]).astype("f4")
        size, places = shape[0] * shape[1], rng.integers(0, 3 * shape[0], 2)
        views = [memory[p : p + size] for p in places]
        a, out = (v.reshape(shape) if rng.integers(2) else v.reshape(shape[::-1]).T for v in views)
        a = a[::-1] if rng.integers(3) == 0 else a
        given = {"axis": int(rng.integers(2)), "reverse": bool(rng.integers(2)), "exclusive": bool(rng.integers(2))}
        expected = dml.cumulative_sum(a.copy(), **given)
        assert dml.cumulative_sum(a, **given, out=out) is out
        assert same(out, np.ascontiguousarray(expected))


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 1, 3), (2, 3, 1), (1, 1, 4), (1, 4, 1)], ids=str)
@pytest.mark.parametrize("given", [{}, {"include_initial": True}, {"include_initial": True, "reverse": True}], ids=str)
def test_axes_of_one_element_in_every_order_of_memory(shape, given):
    """What is cast, or has another byte order, is copied in the order in which it lies."""
    for order in permutations(range(3)):
        packed = np.arange(1, 1 + np.prod(shape)).reshape([shape[d] for d in order])
        a = packed.transpose(np.argsort(order))
        for axis in range(3):
            for array, dtype in ((a, np.float64), (a.astype(">f8", order="K"), None), (a, np.int64)):
                for function in FUNCTIONS.values():
                    expected = function(np.ascontiguousarray(a, np.float64), axis=axis, **given)
                    found = function(array, axis=axis, dtype=dtype, **given)
                    assert same(found.astype("f8"), expected)
                    out = np.empty_like(found)
                    assert same(function(array, axis=axis, dtype=dtype, out=out, **given), found)


@pytest.mark.usefixtures("on_device")
def test_a_line_is_the_same_alone_in_a_batch_and_in_every_layout():
    rng = np.random.default_rng(0)
    for n in (300, 70_000, 140_000):
        lines = rng.standard_normal((20, n)).astype("f8")
        alone = np.stack([dml.cumulative_sum(line) for line in lines])
        for a, axis in (
            (lines, 1),
            (np.ascontiguousarray(lines.T), 0),
            (np.asfortranarray(lines), 1),
            (lines[:, None], 2),
        ):
            found = dml.cumulative_sum(a, axis=axis)
            assert same(found.T if axis == 0 else found.reshape(lines.shape), alone)
        spread = np.repeat(lines[:2], 2, axis=1)[:, ::2]
        assert same(dml.cumulative_sum(spread, axis=1), alone[:2])
        assert same(dml.cumulative_sum(lines[:2, ::-1], axis=1, reverse=True)[:, ::-1].copy(), alone[:2])


@pytest.mark.cpu
def test_a_result_has_the_order_of_the_input():
    a = np.asfortranarray(np.ones((30, 20), "f4"))
    assert dml.cumulative_sum(a, axis=0).flags.f_contiguous
    assert dml.cumulative_sum(a, axis=1).flags.f_contiguous
    assert dml.cumulative_sum(a.T, axis=0).flags.c_contiguous


def test_lists_and_scalars():
    assert same(dml.cumulative_sum([1, 2, 3]), np.array([1, 3, 6]))
    assert same(dml.cumulative_prod([[1.5], [2.0]], axis=0), np.array([[1.5], [3.0]]))
    assert same(dml.cumulative_sum([], include_initial=True), np.array([0.0]))
    assert same(dml.cumulative_prod(np.empty((2, 0), "i4"), axis=1, include_initial=True), np.ones((2, 1), "i8"))
    with pytest.raises(ValueError, match="cumulative_sum: a: found 0 dimensions, expected at least 1"):
        dml.cumulative_sum(3.0)


WRONG = {
    "axis": ({"axis": 2}, ValueError, "axis: found 2, expected -2 to 1 for an array with 2 dimensions"),
    "no axis": ({}, ValueError, "axis: found None, expected -2 to 1 for an array with 2 dimensions"),
    "float axis": ({"axis": 1.0}, TypeError, "axis: found 1.0, expected an integer"),
    "both": (
        {"axis": 0, "exclusive": True, "include_initial": True},
        ValueError,
        r"exclusive: found True, expected False \(include_initial is True\)",
    ),
    "flag": ({"axis": 0, "exclusive": 2}, TypeError, "exclusive: found 2, expected True or False"),
    "reverse": ({"axis": 0, "reverse": "no"}, TypeError, "reverse: found 'no', expected True or False"),
    "initial": ({"axis": 0, "include_initial": None}, TypeError, "include_initial: found None, expected True or False"),
    "dtype": ({"axis": 0, "dtype": "spam"}, TypeError, "dtype: found 'spam', expected"),
    "time": ({"axis": 0, "dtype": "M8[s]"}, TypeError, r"dtype: found dtype datetime64\[s\], expected"),
    "order": ({"axis": 0, "dtype": ">f4"}, TypeError, "dtype: found >f4, expected"),
    "out": ({"axis": 0, "out": np.zeros((3, 2), "f4")}, TypeError, "out: found dtype float32, expected float64"),
    "out's shape": ({"axis": 0, "out": np.zeros((2, 3))}, ValueError, r"out: found shape \(2, 3\), expected \(3, 2\)"),
    "a list": ({"axis": [0]}, TypeError, r"axis: found \[0\], expected an integer"),
    "target": ({"axis": 0, "target": "tpu"}, ValueError, "target: found 'tpu'"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("function", FUNCTIONS.values())
def test_wrong_arguments(name, function):
    arguments, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        function(np.ones((3, 2)), **arguments)


@pytest.mark.parametrize("function", FUNCTIONS.values())
def test_wrong_arrays(function):
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for a in (
        np.array([None]),
        masked,
        np.ones(2, np.longdouble),
        np.array(["a"]),
        np.ones(2, "m8[s]"),
        np.ones(2, "V4"),
    ):
        with pytest.raises(TypeError, match=f"{function.__name__}: a: found"):
            function(a)
    with pytest.raises(TypeError, match=r"found 2 positional arguments, expected 1 \(write axis=1\)"):
        function(np.ones((2, 2)), 1)


C4 = {"FLOAT32", "FLOAT16", "INT32", "UINT32"}
TABLE = {
    "sum": [("FL_5_0", C4 | {"INT64", "UINT64"}, (1, 8)), ("FL_4_0", C4, (1, 8)), ("FL_2_1", C4, (4, 4))],
    "prod": [("FL_5_0", C4 | {"INT64", "UINT64"}, (1, 8)), ("FL_4_0", C4, (1, 8)), ("FL_3_1", C4, (4, 4))],
}


def build(kind, data="FLOAT32", rank=4, out=None, **given):
    tensor = TensorDesc(
        data if isinstance(data, dml.TensorDataType) else dml.TensorDataType[data], (1,) * (rank - 1) + (3,)
    )
    fields = {
        "axis": rank - 1,
        "axis_direction": 0,
        "has_exclusive_sum" if kind == "sum" else "has_exclusive_product": 0,
    }
    return DESCRIPTORS[kind](tensor, out or tensor, **(fields | given))


@pytest.mark.parametrize("kind", TABLE)
@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
def test_feature_levels(kind, level):
    row = next((row for row in TABLE[kind] if FeatureLevel[row[0]] <= level), None)
    if row is None:
        with pytest.raises(DescriptorError, match=f"found {level.name}, expected {TABLE[kind][-1][0]} or later"):
            build(kind).validate(level)
        return
    _, types, (low, high) = row
    for data in dml.TensorDataType:
        if data.name in types:
            build(kind, data).validate(level)
        else:
            with pytest.raises(DescriptorError, match=f"input_tensor: found {data.name}, expected one of"):
                build(kind, data).validate(level)
    for rank in range(1, 10):
        if low <= rank <= high:
            build(kind, rank=rank).validate(level)
        else:
            with pytest.raises(DescriptorError, match=f"input_tensor: found {rank} dimensions"):
                build(kind, rank=rank).validate(level)


@pytest.mark.parametrize("kind", TABLE)
def test_wrong_descriptors(kind):
    flag = "has_exclusive_sum" if kind == "sum" else "has_exclusive_product"
    other = TensorDesc("float32", (1, 1, 1, 4))
    wrong = {
        "axis: found 4, expected 0 to 3": {"axis": 4},
        "axis: found -1, expected 0 to 3": {"axis": -1},
        "axis_direction: found 2, expected INCREASING": {"axis_direction": 2},
        f"{flag}: found 3, expected True or False": {flag: 3},
        "output_tensor: found sizes .1, 1, 1, 4., expected sizes .1, 1, 1, 3.": {"out": other},
        "output_tensor: found int32, expected float32": {"out": TensorDesc("int32", (1, 1, 1, 3))},
        "output_tensor: found 1 dimensions": {"out": TensorDesc("float32", (3,))},
        f"{flag}: found True, expected False": {flag: True, "include_initial": True, "out": other},
    }
    for text, fields in wrong.items():
        with pytest.raises(DescriptorError, match=text):
            build(kind, **fields)
    with pytest.raises(DescriptorError, match="sizes of at least 1"):
        DESCRIPTORS[kind](*2 * [TensorDesc("float32", (1, 1, 1, 0))], 3, 0, False).validate(FeatureLevel.FL_5_0)
    with pytest.raises(
        DescriptorError, match=r"include_initial: found True, expected False \(FL_5_0: not in DirectML\)"
    ):
        build(kind, include_initial=True, out=other).validate(FeatureLevel.FL_5_0)


@pytest.mark.parametrize("kind", TABLE)
def test_descriptors(kind):
    descriptor = build(kind, axis_direction="DECREASING", rank=3)
    assert descriptor.axis_direction is AxisDirection.DECREASING
    assert dml.Descriptor.from_dict(descriptor.to_dict()) == descriptor
    assert descriptor.operator_type == (105 if kind == "sum" else 145)
    operator = dml.compile_operator(descriptor)
    assert operator(np.ones((1, 1, 3), "f4")).tolist() == [[[3, 2, 1]]] if kind == "sum" else [[[1, 1, 1]]]
    assert operator.kernel.startswith("cumulative_")
    assert operator.work == 24
    with pytest.raises(ValueError, match="found shape"):
        operator(np.ones((1, 3), "f4"))
    with pytest.raises(TypeError, match="found dtype float64"):
        operator(np.ones((1, 1, 3)))


SMALL_BLOCKS = """
import numpy as np
import numba_dml._core.lowering as lowering

lowering.SUM_BLOCK = {block}  # before anything else reads it

import numba_dml as dml
from tests import reference

reference.block_sums.__defaults__ = ({block},)
rng = np.random.default_rng(0)
for n in {sizes}:
    for columns in (1, 3):
        a = rng.standard_normal((2, n, columns)) * 10.0 ** rng.integers(-8, 8, (2, n, columns))
        for given in ({{}}, {{"exclusive": True, "reverse": True}}):
            found = dml.cumulative_sum(a, axis=1, target="cuda", **given)
            assert reference.same(found, reference.cumulative(a, False, 1, **given)), (n, columns, given)
"""


@pytest.mark.parametrize(
    ("block", "sizes"), [(4, (3, 4, 5, 15, 16, 17, 63, 64, 65, 300, 1023)), (32, (31, 32, 33, 1023, 1024, 1025, 2500))]
)
def test_every_level_in_the_simulator(block, sizes, simulated, tmp_path):
    """Blocks of blocks, and of these, which a device has only for lines of more than 2**16 or 2**24 elements."""
    if not simulated:
        pytest.skip("the simulator is slow enough with small blocks")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DML_QUIET": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SMALL_BLOCKS.format(block=block, sizes=sizes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr[-2000:]


@numba.njit(fastmath=True)
def jitted_sum(a, axis):
    return dml.cumulative_sum(a, axis=axis), dml.cumulative_sum(a, axis=axis, include_initial=True, reverse=True)


@numba.njit
def jitted_sum_to(a, out):
    return dml.cumulative_sum(a, axis=0, out=out)


@numba.njit
def jitted_prod(a):
    return dml.cumulative_prod(a), dml.cumulative_prod(a, exclusive=True, dtype=np.float32)


@pytest.mark.cpu
def test_in_jitted_code():
    rng = np.random.default_rng(0)
    for dtype in ("f4", "u1"):
        for shape in ((0,), (7,), (70000,), (300, 5), (3, 0), (2, 1, 600)):
            for axis in (0, -1):
                a = lay_out(rng, fill(rng, shape, np.dtype(dtype)), "sparse")
                found, initial = jitted_sum(a, axis)
                assert same(found, dml.cumulative_sum(a, axis=axis))
                assert same(initial, dml.cumulative_sum(a, axis=axis, include_initial=True, reverse=True))
    a = rng.standard_normal(1000) + 1
    found, exclusive = jitted_prod(a)
    assert same(found, dml.cumulative_prod(a))
    assert same(exclusive, dml.cumulative_prod(a, exclusive=True, dtype=np.float32))


@pytest.mark.cpu
def test_outputs_and_errors_in_jitted_code():
    a = np.random.default_rng(0).standard_normal((400, 3))
    expected = dml.cumulative_sum(a, axis=0)
    memory = np.concatenate([a, a])
    for out in (a.copy(), np.empty((3, 400)).T, memory[3:403]):
        source = memory[:400] if np.shares_memory(out, memory) else out if out.flags.c_contiguous else a
        assert jitted_sum_to(source, out) is not None
        assert same(out, expected)
    for args, function in (
        ((a, np.empty((3, 3))), lambda a, out: dml.cumulative_sum(a, axis=0, out=out)),
        ((a, 2), lambda a, axis: dml.cumulative_sum(a, axis=axis)),
    ):
        with pytest.raises(ValueError, match="cumulative_sum: ") as error:
            function(*args)
        with pytest.raises(ValueError, match="cumulative_sum: ") as found:
            (jitted_sum if isinstance(args[1], int) else jitted_sum_to)(*args)
        assert str(found.value) == str(error.value)
    for bad, text in (
        (a, "axis: found None, expected -2 to 1 for an"),
        (a[:, 0].astype("f2"), "a: found float16, which"),
    ):
        with pytest.raises(TypingError, match=text):
            jitted_prod(bad)
