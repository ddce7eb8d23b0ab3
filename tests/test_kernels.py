"""The pieces of the kernels that have a twin or an exhaustive check."""

import ml_dtypes
import numpy as np
import pytest
from numba import njit

from numba_dml.cpu import _arithmetic, _keys

FLOATS = {np.dtype("f2"): 0x7C00, np.dtype("f4"): 0x7F800000, np.dtype("f8"): 0x7FF0000000000000}
INTEGERS = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]


def rule_of(dtype, largest, nan_largest=False):
    width = 8 * dtype.itemsize
    numbers = _keys.rule_numbers(
        width, dtype.kind == "f", dtype.kind == "i", largest, nan_largest, FLOATS.get(dtype, 0)
    )
    signed = np.dtype(f"i{dtype.itemsize}").type
    return tuple(signed(x) for x in numbers[: 3 if dtype.kind == "f" else 1])


@njit
def masks(row, rule, thresholds):
    found = np.zeros((4, thresholds.size), np.uint64)
    for i in range(thresholds.size):
        found[0, i] = _keys.beats(row, i, thresholds[i], rule)
        found[1, i] = _keys.beats_plain(row, i, thresholds[i], rule)
        found[2, i] = _keys.beats_each(row, i, thresholds, 0, rule)
        found[3, i] = _keys.beats_each_plain(row, i, thresholds, 0, rule)
    return found


@njit
def keys(row, rule):
    found = np.zeros(row.size, row.dtype)
    for i in range(row.size):
        found[i] = _keys.key_of(row[i], rule)
    return found


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_masks_equal_their_plain_twins(dtype, largest):
    rng = np.random.default_rng(5)
    signed = np.dtype(f"i{dtype.itemsize}")
    row = np.frombuffer(rng.bytes(128 * dtype.itemsize), signed)
    rule = rule_of(dtype, largest)
    thresholds = keys(row[rng.permutation(64)], rule)
    found = masks(row, rule, thresholds)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[3])
    assert np.unique(found).size > 60


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("nan_largest", [True, False])
def test_float_keys_order_as_floats(dtype, largest, nan_largest):
    special = np.array([-np.inf, -1.5, -1e-7, -0.0, 0.0, 1e-7, 1.5, np.inf], dtype)
    bits = special.view(f"i{dtype.itemsize}")
    rule = rule_of(dtype, largest, nan_largest)
    found = keys(bits, rule).astype(object)
    want = special if largest else -special
    for i in range(special.size):
        for j in range(special.size):
            assert (found[i] > found[j]) == bool(want[i] > want[j])
    nans = np.array([np.nan, -np.nan], dtype).view(bits.dtype)
    nans[1] |= 1
    nan_keys = set(keys(nans, rule).tolist())
    assert len(nan_keys) == 1
    nan_key = nan_keys.pop()
    assert nan_key > max(found) if largest and nan_largest else nan_key < min(found)


@njit
def widen(bits, bfloat):
    found = np.zeros(bits.size, np.float32)
    for i in range(bits.size):
        found[i] = _arithmetic.bfloat_to_float(bits[i]) if bfloat else _arithmetic.half_to_float(bits[i])
    return found


@njit
def narrow(values, bfloat):
    found = np.zeros(values.size, np.uint16)
    for i in range(values.size):
        found[i] = _arithmetic.float_to_bfloat(values[i]) if bfloat else _arithmetic.float_to_half(values[i])
    return found


@pytest.mark.parametrize("dtype", [np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_sixteen_bit_floats_convert_as_numpy_does(dtype):
    bfloat = dtype != np.float16
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = bits.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(widen(bits, bfloat), wide)
    rng = np.random.default_rng(6)
    finite = np.sort(wide[np.isfinite(wide)])
    between = finite[:-1] / 2 + finite[1:] / 2  # the ties of rounding
    values = np.concatenate(
        [
            wide,
            between,
            np.nextafter(between, np.float32(np.inf)),
            np.nextafter(between, np.float32(-np.inf)),
            np.frombuffer(rng.bytes(400_000), np.float32),
        ]
    )
    with np.errstate(all="ignore"):
        expected = values.astype(dtype)
    found = narrow(values, bfloat).view(dtype)
    nan = np.isnan(values)
    assert np.isnan(found[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(found[~nan].view(np.uint16), expected[~nan].view(np.uint16))
