"""Every kernel region of top_k around its thresholds, with distributions that are hard for it; compared exactly."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core.regions import first, forced
from numba_dml.cpu import launch as cpu_launch
from numba_dml.cpu.calls import top_k
from numba_dml.cpu.dispatch.top_k import PIECES, TABLE
from numba_dml.cpu.primitives.top_k.compaction import FEW_KEYS
from numba_dml.cpu.primitives.top_k.plan import TOO_FEW
from numba_dml.cpu.tuning.top_k import TUNING

from .reference import same, untraced
from .strategies import sampled_places

DTYPES = ["f4", "f2", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", ml_dtypes.bfloat16]
KINDS = ["random", "ascending", "descending", "constant", "few", "nan", "zeros"]


def distribution(kind, shape, dtype, rng, axis=-1):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    is_float = dtype.kind not in "iub"
    if kind == "constant":
        x = np.full(count, 1)
    elif kind == "few":
        x = rng.integers(0, 3, count)
    elif kind == "zeros":
        x = np.where(rng.random(count) < 0.5, 0.0, -0.0) if is_float else np.zeros(count)
    elif is_float:
        x = rng.standard_normal(count)
    else:
        x = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype if dtype.kind != "b" else "u1")
        x = x % 2 == 1 if dtype.kind == "b" else x
    x = x.astype(dtype).reshape(shape)
    if kind == "nan" and is_float:
        x.reshape(-1)[rng.random(count) < 0.5] = np.nan
        x.reshape(-1)[rng.random(count) < 0.1] = -np.nan
    if kind in ("ascending", "descending"):
        x = np.sort(x, axis)
        x = np.flip(x, axis).copy() if kind == "descending" else x
    return x


@untraced
def expected(x, k, axis, mode, nan):
    """A stable sort of keys: NaN first or last, then the value; both zeros are one."""
    lines = np.moveaxis(x, axis, -1)
    if x.dtype.kind in "iub":
        order = np.argsort(~lines if mode == "largest" else lines, -1, kind="stable")
    else:
        lines = lines.astype(np.promote_types(np.float32, x.dtype))
        order = np.argsort(-lines if mode == "largest" else lines, -1, kind="stable")  # NumPy puts NaN last
        if nan == "first" or (nan, mode) == ("largest", "largest"):
            number = ~np.isnan(np.take_along_axis(lines, order, -1))
            order = np.take_along_axis(order, np.argsort(number, -1, kind="stable"), -1)
    indices = np.moveaxis(order[..., :k], -1, axis)
    return np.take_along_axis(x, indices, axis), indices


REGIONS = {
    "short": ((70, 33), -1, 5),
    "short, one": ((70, 33), -1, 1),
    "short, fewer lines than the network takes": ((7, 33), -1, 5),
    "short, one line": ((1, 8), -1, 3),
    "short, few lines, just short enough": ((3, TUNING.network_below_tiny - 1), -1, 5),
    "rows, few lines, just long enough": ((3, TUNING.network_below_tiny), -1, 5),
    "rows, staged": ((130, 7), 0, 5),
    "network, several batches": ((70, 801, 3), 1, 7),
    "short, just enough lines": ((8, 33), -1, 5),
    "short, shorter than a block of the network": ((70, 6), -1, 3),
    "short, two elements": ((70, 2), -1, 1),
    "short, sorted": ((70, 15), -1, 15),
    "short, lines left over": ((37, 64), -1, 8),
    "short, a tail": ((40, 131), -1, 16),
    "short, a small k, just short enough": ((17, TUNING.list_from[2] - 1), -1, 8),
    "list, just long enough": ((9, TUNING.list_from[2]), -1, 8),
    "list, just short enough": ((9, TUNING.list_most[2]), -1, 16),
    "rows, just too long for a list": ((9, TUNING.list_most[2] + 1), -1, 16),
    "list, of 1 byte, just long enough": ((9, TUNING.list_from[0]), -1, 1),
    "list, of 2 bytes, just long enough": ((9, TUNING.list_from[1]), -1, 10),
    "list, of 8 bytes, just long enough": ((9, TUNING.list_from[3]), -1, 16),
    "list, of 8 bytes, just short enough": ((9, TUNING.list_most[3]), -1, 4),
    "list, too few lines for the network": ((7, 63), -1, 9),
    "list, a whole block": ((3, 64), -1, 16),
    "list, one element": ((3, 1), -1, 1),
    "list, staged": ((700, 5), 0, 12),
    "list, staged, several batches": ((30, 701, 9), 1, 3),
    "network, just too large a k for a list of 16": ((17, 40), -1, 17),
    "network, k just as long as a list": ((8, 40), -1, 24),
    "network, k just too large for a list": ((23, 64), -1, 25),
    "network, everything": ((33, 50), -1, 50),
    "rows, just too few lines for the network": ((7, 240), -1, 17),
    "network, of 1 byte, a large k, just short enough": ((9, TUNING.network_below[0] - 1), -1, 40),
    "rows, of 1 byte, k too large, just long enough": ((9, TUNING.network_below[0]), -1, 40),
    "network, of 2 bytes, a large k, just short enough": ((9, TUNING.network_below[1] - 1), -1, 33),
    "rows, of 2 bytes, k too large, just long enough": ((9, TUNING.network_below[1]), -1, 33),
    "network, of 4 bytes, a large k, just short enough": ((9, TUNING.network_below[2] - 1), -1, 100),
    "rows, of 4 bytes, k too large, just long enough": ((9, TUNING.network_below[2]), -1, 20),
    "network, as many elements as lines": ((35, 8), -1, 8),
    "network, of 8 bytes, a large k, just short enough": ((11, TUNING.network_below[3] - 1), -1, 64),
    "rows, of 8 bytes, k too large, just long enough": ((11, TUNING.network_below[3]), -1, 65),
    "network, everything of more": ((13, 86), -1, 86),
    "network, a k that is sorted in longer lines": ((9, 250), -1, 191),
    "network, a large k, staged": ((30, 70, 3), 1, 30),
    "network, a large k, staged, several batches": ((1500, 33, 3), 1, 20),
    "network, one more element": ((9, 257), -1, 2),
    "rows, a tail": ((7, 2001), -1, 7),
    "rows, k just too large for a vector": ((7, 1024), -1, 17),
    "rows, just long enough for a survey": ((5, 2048), -1, 16),
    "rows, just too short for a survey": ((5, 2047), -1, 16),
    "rows, a survey, many blocks": ((3, 20_001), -1, 156),
    "rows, just too large a k for a survey": ((3, 20_001), -1, 157),
    "rows, just too short for a first bound": ((9, 255), -1, 32),
    "rows, k just too small for a sample": ((3, 3001), -1, 255),
    "rows, k just large enough for a sample": ((3, 3001), -1, 256),
    "rows, just few enough keys to be ranked": ((3, 400), -1, 256),
    "rows, just too many keys for that": ((3, 400), -1, 257),
    "rows, half of a line": ((3, 3001), -1, 1501),
    "rows, too short for a sample": ((5, 600), -1, 300),
    "rows, everything": ((4, 777), -1, 777),
    "rows, all but one": ((2, 2000), -1, 1999),
    "rows, one": ((40, 3001), -1, 1),
    "rows, buffer never full": ((5, 600), -1, 100),
    "rows, buffer often full": ((3, 20_001), -1, 70),
    "pieces": ((2, 2 * 65536 + 77), -1, 9),
    "pieces, too small a k for a sample": ((1, 2 * 65536 + 77), -1, 64),
    "pieces, a sample": ((1, 2 * 65536 + 77), -1, 65),
    "pieces, k as large as can be": ((1, 2 * 65536 + 77), -1, 2049),
    "rows, too large a k for pieces": ((1, 2 * 65536 + 77), -1, 2050),
    "columns": ((930, 40), 0, 7),
    "short columns": ((130, 200), 0, 7),
    "short columns, as few as the network takes": ((8, 8), 0, 8),
    "columns, fewer elements than the network takes": ((7, 100), 0, 3),
    "staged, fewer columns than the network takes": ((60, 7), 0, 5),
    "short columns, not a whole group": ((61, 203), 0, 17),
    "short columns, a narrow last tile": ((20, 1025), 0, 2),
    "short columns, middle axis, all": ((3, 33, 21), 1, 33),
    "short columns, one, of 4 bytes, just short enough": ((199, 40), 0, 1),
    "columns, one, of 4 bytes, just long enough": ((200, 40), 0, 1),
    "short columns of 4 bytes, just short enough": ((399, 70), 0, 20),
    "columns of 4 bytes, just too long for the network": ((400, 70), 0, 9),
    "short columns of 2 bytes, just short enough": ((499, 70), 0, 40),
    "columns of 2 bytes, just too long for the network": ((500, 70), 0, 9),
    "short columns of 1 byte, just short enough": ((899, 40), 0, 30),
    "columns of 1 byte, just too long for the network": ((900, 40), 0, 9),
    "short columns, a large k": ((250, 40), 0, 192),
    "columns of 8 bytes, just short enough for the network": ((TUNING.short_columns_below[3] - 1, 66), 0, 13),
    "columns of 8 bytes, just too long": ((TUNING.short_columns_below[3], 66), 0, 13),
    "columns, two tiles": ((50, 1200), 0, 32),
    "columns, middle axis": ((3, 40, 70), 1, 4),
    "columns, all": ((32, 64), 0, 32),
    "columns, long enough for a sample": ((96, 70), 0, 2),
    "columns, too short for a sample": ((95, 70), 0, 2),
    "columns, a sample, middle axis": ((2, 300, 80), 1, 3),
    "columns, rows together": ((135, 1030), 0, 3),
    "columns, rows together without a sample": ((135, 1030), 0, 4),
    "columns, rows together, less than a mask": ((135, 37), 0, 3),
    "columns, the same without a sample": ((135, 37), 0, 4),
    "columns, rows together, one mask": ((135, 64), 0, 3),
    "columns, two tiles of a mask, one of both": ((135, 66), 0, 3),
    "columns, a vector each, k as large as can be": ((560, 200), 0, 16),
    "columns, a vector each, rows together": ((560, 1030), 0, 16),
    "columns, a vector each, less than a mask": ((560, 37), 0, 16),
    "columns, k just too large for a vector": ((577, 70), 0, 17),
    "columns, just short enough for any k": ((256, 130), 0, 150),
    "columns, sorted": ((99, 66), 0, 99),
    "columns, sorted, less than a mask": ((65, 20), 0, 65),
    "columns, most of a middle axis": ((3, 70, 80), 1, 66),
    "staged, just too long for any k": ((257, 130), 0, 150),
    "columns, k just small enough": ((257, 200), 0, 16),
    "staged, k just too large for columns": ((257, 200), 0, 17),
    "columns of 4 bytes, just long enough": ((4096, 70), 0, 32),
    "staged, k just too large for columns of 4 bytes": ((4224, 70), 0, 33),
    "rows, staged, half of a line": ((640, 5), 0, 300),
    "staged, few columns": ((9000, 3), 0, 20),
    "staged, not a whole part, nor a multiple of four": ((6003, 17), 0, 9),
    "staged, parts of the fewest rows": ((300, 1100), 0, 40),
    "short, staged, a network of lines of several matrices": ((30, 20, 3), 1, 4),
    "short, staged, several batches": ((1500, 33, 3), 1, 5),
    "network, staged, one batch": ((3, 801, 4), 1, 7),
    "short, staged, two elements": ((70, 2, 3), 1, 1),
    "short, staged, a tail": ((5, 131, 7), 1, 16),
    "short, one, staged": ((40, 131, 5), 1, 1),
    "short, one, staged, several batches": ((700, 70, 2), 1, 1),
    "columns, one, one matrix": ((641, 15), 0, 1),
    "columns, just enough of them": ((257, 24), 0, 5),
    "short, staged, just too few for columns": ((257, 23), 0, 5),
    "columns, less than a mask, just short enough": ((1023, 40), 0, 9),
    "short, staged, less than a mask": ((1024, 40), 0, 9),
    "staged, a sample": ((3001, 3), 0, 300),
    "staged, pieces": ((200_000, 3), 0, 6),
    "staged, pieces, a sample": ((140_003, 2), 0, 300),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("region", REGIONS)
def test_region(region, kind):
    shape, axis, k = REGIONS[region]
    rng = np.random.default_rng(3)
    large = np.prod(shape) > 50_000
    for dtype in DTYPES if not large else ["f4", "u1", "i8"]:
        x = distribution(kind, shape, dtype, rng, axis)
        wanted = {}
        for mode, nan in [("largest", "last"), ("smallest", "last"), ("largest", "largest"), ("smallest", "first")]:
            rule = (mode, nan) if np.isnan(x).any() else mode
            if rule not in wanted:
                wanted[rule] = expected(x, k, axis, mode, nan)
            values, indices = dml.top_k(x, k, axis=axis, mode=mode, nan=nan)
            np.testing.assert_array_equal(indices, wanted[rule][1], err_msg=f"{dtype} {mode} {nan}")
            assert values.tobytes() == wanted[rule][0].tobytes()
        unsorted = dml.top_k(x, k, axis=axis, sorted=False)
        want = next(iter(wanted.values()))[1]
        np.testing.assert_array_equal(np.sort(unsorted.indices, axis), np.sort(want, axis))
        assert unsorted.values.tobytes() == np.take_along_axis(x, unsorted.indices, axis).tobytes()


@pytest.mark.parametrize("dtype", ["u1", "f2"])
def test_columns_of_narrow_elements_with_rows_together(dtype):
    x = np.random.default_rng(6).integers(0, 255, (100, 4500)).astype(dtype)
    for mode in ("largest", "smallest"):
        found = dml.top_k(x, 3, axis=0, mode=mode)
        np.testing.assert_array_equal(found.indices, expected(x, 3, 0, mode, "last")[1])


def columns_of_all_kinds(n, across, dtype, rng):
    """Return columns whose best, and limits, are normal, subnormal, zeros, infinities, negative or NaN."""
    tiny = np.finfo(dtype).smallest_subnormal
    x = rng.standard_normal((11, n, across)).astype(dtype)
    rare = rng.random(x.shape) < 0.01
    x[1] = -np.abs(x[1]) - 1
    x[2] = np.maximum(x[2], 0) * np.where(rng.random(x[2].shape) < 0.5, 1, -1)
    x[2][x[2] > 0] *= rare[2][x[2] > 0]
    x[3] = rng.integers(-99, 99, x[3].shape) * tiny
    x[4] = np.where(rare[4], x[4], -np.inf)
    x[5] = np.where(rare[5], x[5], np.nan)
    x[6] = np.where(rare[6], rng.integers(-2, 3, x[6].shape) * tiny, np.copysign(0, x[6]))
    x[7] = np.where(rare[7], -rng.integers(1, 9, x[7].shape) * np.finfo(dtype).tiny, -1)
    x[8] = np.where(rng.random(x[8].shape) < 0.002, np.nan, x[8])
    x[9] = np.where(rare[9], -np.inf, -rng.integers(1, 9, x[9].shape) * tiny)
    x[10] = -x[9]
    return x


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("axis", "n", "k"), [(0, 700, 3), (0, 1100, 1), (0, 1100, 16), (1, 700, 1), (1, 1100, 16), (1, 5000, 10)]
)
def test_whatever_the_limits_are(dtype, axis, n, k):
    dtype = np.dtype(dtype)
    kinds = columns_of_all_kinds(n, 70, dtype, np.random.default_rng(k))
    mixed = np.moveaxis(kinds, 0, 2).reshape(n, -1)[:, :200]
    for columns in (*kinds, mixed):
        x = np.ascontiguousarray(columns.T)
        if axis == 0:  # with rows so far apart that they are looked at together
            x = np.empty((n, 1100), dtype)[:, : columns.shape[1]]
            x[...] = columns
        for mode, nan in [("largest", "last"), ("smallest", "last"), ("largest", "largest"), ("smallest", "first")]:
            want_values, want = expected(x, k, axis, mode, nan)
            found = dml.top_k(x, k, axis=axis, mode=mode, nan=nan)
            np.testing.assert_array_equal(found.indices, want)
            assert found.values.tobytes() == want_values.tobytes()


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8"])
@pytest.mark.parametrize("across", [37, 64, 200, 1030])
@pytest.mark.parametrize("k", [1, 5, 16])
def test_columns_of_which_all_change_late(dtype, across, k):
    """Then whole rows are inserted into lists that had single elements; sooner, if narrow. Some columns keep theirs."""
    rng = np.random.default_rng(across + k)
    x = rng.integers(0, 50, (640, across))
    for row in range(0, 640, 32):  # where no bound is looked for, and where it is: few are high
        x[row, rng.random(across) < 0.1] += 40
    rises = [row for row in range(400, 500) if row % 32 >= 8]  # seen by no sample of every fourth eight rows
    x[rises] = np.arange(len(rises))[:, None] // 2 + 90
    x[:, ::9] = rng.integers(0, 3, (640, len(range(0, across, 9))))
    x[2:20, ::9] += 80  # and stay the best
    x = x.astype(dtype)
    for mode in ("largest", "smallest"):
        turned = x if mode == "largest" else 200 - x
        values, indices = dml.top_k(turned, k, axis=0, mode=mode)
        want_values, want = expected(turned, k, 0, mode, "last")
        np.testing.assert_array_equal(indices, want)
        np.testing.assert_array_equal(values, want_values)


@pytest.mark.parametrize("dtype", ["u1", "f4", "i8"])
@pytest.mark.parametrize("across", [20, 64, 70, 200, 600])
@pytest.mark.parametrize("which", [0, 11, -1], ids=["first", "a middle one", "last"])
def test_a_column_that_has_hardly_anything_but_the_lowest(dtype, across, which):
    """A bound below that would be above all."""
    x = np.random.default_rng(across).integers(1, 99, (200, across)).astype(dtype)
    x[:, which] = np.nan if dtype == "f4" else np.iinfo(dtype).min
    x[[5, 150], which] = 7
    for k in (1, 3):
        found = dml.top_k(x, k, axis=0)
        np.testing.assert_array_equal(found.indices, expected(x, k, 0, "largest", "last")[1])


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "u8", "f8"])
@pytest.mark.parametrize("n", [20, 64, 100, 200, 520, 1000])
@pytest.mark.parametrize("k", [3, 9, 16])
def test_a_line_that_has_hardly_anything_but_the_lowest(dtype, n, k):
    """Then there is no element that is a bound of k: the first of the lowest ones belong to the result."""
    rng = np.random.default_rng(n)
    dtype = np.dtype(dtype)
    for high in (0, 1, k - 1, k, n // 2):
        x = np.full((9, n), np.nan if dtype.kind == "f" else np.iinfo(dtype).min, dtype)
        for line in x:  # in places that share groups of a line, and anywhere
            line[rng.choice(range(0, n, 16), min(high, -(-n // 16)), replace=False)] = 3
            line[rng.choice(n, high // 2, replace=False)] = 5
        found = dml.top_k(x, k)
        np.testing.assert_array_equal(found.indices, expected(x, k, -1, "largest", "last")[1])
        for line, indices in zip(x, found.indices, strict=True):
            np.testing.assert_array_equal(dml.top_k(line, k).indices, indices)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [600, 1111])
def test_the_best_of_lines_that_ascend(dtype, n):
    """Their ends are looked at early; the first of equal elements counts, and what comes last need not be better."""
    rng = np.random.default_rng(n)
    dtype = np.dtype(dtype)
    x = np.sort(rng.integers(0, 2 if dtype == "?" else 120, (24, n)), 1)
    x[1:4, 550:] = x[1:4, 549:550]  # the best is there before
    x[4, :] = 0
    x[5] = 50 + (np.arange(n) >= n - 1)
    x[6, -64:] = 0
    x[7, 530] = x[7].max()
    x = x.astype(dtype)
    if dtype.kind not in "iub":
        tiny = np.finfo("f4" if dtype.itemsize == 2 else dtype).smallest_subnormal
        x[8:11, -64:], x[11, -70:] = np.nan, np.nan
        x[12:16] = (np.arange(n) * tiny).astype(dtype)
        x[13, -64:], x[14, -30:] = 0, -0.0
        x[16, -1], x[17, -64:] = np.inf, -np.inf
    for y in (x, x[:, ::-1].copy(), -x if dtype.kind == "f" else x):
        for mode in ("largest", "smallest"):
            for nan in ("last", "first"):
                values, indices = dml.top_k(y, 1, mode=mode, nan=nan)
                want_values, want = expected(y, 1, -1, mode, nan)
                np.testing.assert_array_equal(indices, want)
                assert values.tobytes() == want_values.tobytes()


@pytest.mark.parametrize("dtype", ["f4", "i4", "u4", "f8", "i8", "u8"])
@pytest.mark.parametrize(
    ("n", "k"), [(16, 16), (19, 1), (64, 6), (64, 64), (100, 17), (128, 8), (150, 40), (300, 3), (399, 25), (599, 16)]
)
def test_lines_whose_best_are_equal_but_for_the_last_bits(dtype, n, k):
    """These are the position while lines are selected from, and elements have them back where it matters.

    That is nowhere in most of the lines, in some lines here and there, or in many lines, whose best are near the
    highest one of a group, or not; and after many of those come some that are like the first again.
    """
    rng = np.random.default_rng(n)
    dtype = np.dtype(dtype)
    signed = np.dtype(f"i{dtype.itemsize}")
    steps = rng.integers(-40, 40, (2000, n))
    if dtype.kind == "f":
        near = (np.full((2000, n), 1.0, dtype).view(signed) + steps).astype(signed).view(dtype)
        wide = rng.standard_normal((2000, n)).astype(dtype)
        far = np.where(rng.random((2000, n)) < 0.2, near, -np.abs(wide))
        far[1100:1200] = np.maximum(np.round(far[1100:1200]), 0)
        far[::3] *= dtype.type(2.0 ** (-20 if dtype == "f4" else -200))
    else:
        wide = np.frombuffer(rng.bytes(2000 * n * dtype.itemsize), dtype).reshape(2000, n).copy()
        near = (steps + np.iinfo(signed).max // 3).astype(dtype)
        far = np.where(rng.random((2000, n)) < 0.2, near, near // 1000)
        far[::3] //= 1000
    x = wide.copy()
    x[100:160], x[180:800] = near[100:160], near[180:800]  # a few groups, and many, until all are tried again
    x[1000:1040], x[1060:1070], x[1080:1400] = far[1000:1040], far[1060:1070], far[1080:1400]
    x[1500:1600:7, : n // 2] = near[1500:1600:7, : n // 2]
    x[1610:1640, ::5] = x[1610:1640, :1]
    for line in range(1700, 1990, 13):  # pairs whose order the last bit tells, among the best and behind them
        best = np.argsort(x[line])[::-1]
        for rank in (0, k // 2, k - 1):
            if rank + 1 < n:
                x.view(signed)[line, best[rank + 1]] = x.view(signed)[line, best[rank]] - (rank % 2)
    for mode in ("largest", "smallest"):
        values, indices = dml.top_k(x, k, mode=mode)
        want_values, want = expected(x, k, -1, mode, "last")
        np.testing.assert_array_equal(indices, want)
        assert values.tobytes() == want_values.tobytes()
        few = dml.top_k(x[96:192].reshape(24, 4, n)[:, :3], k, mode=mode)  # too few lines are neighbours
        np.testing.assert_array_equal(few.indices, want[96:192].reshape(24, 4, k)[:, :3])


@pytest.mark.parametrize("dtype", ["u1", "f4", "i8"])
@pytest.mark.parametrize(("n", "k"), [(40, 40), (130, 33), (500, 40), (700, 300)])
@pytest.mark.parametrize("axis", [0, 1])
def test_lines_of_which_some_are_in_order(dtype, n, k, axis):
    """Those are not looked at further; the others are, and so is one that is in order but for its last elements."""
    rng = np.random.default_rng(n)
    x = distribution("random", (90, n), dtype, rng)
    order = rng.integers(0, 3, 90)
    order[:12], order[20:] = 1, 2  # whole groups, whatever a group is
    x[order == 1] = np.sort(x[order == 1], 1)
    x[order == 2] = np.sort(x[order == 2], 1)[:, ::-1]
    x[3], x[35] = x[3, 0], 0
    x[40:45, -1] = x[40:45, 0]
    for line in range(47, 90, 9):  # one of each group
        x[line, [line % n, line % n - 9]] = x[line, [line % n - 9, line % n]]
    if dtype == "f4":  # lines of which the ends have equal keys
        x[4:12] = np.sort(np.abs(x[4:12]), 1)
        x[4:8, :7] = [0, -0.0, -0.0, 0, 0, -0.0, 0]
        x[6:10, -3:] = [np.nan, -np.nan, np.nan]
        x[10, :5] = np.nan
    for mode in ("largest", "smallest"):
        for nan in ("last", "largest", "first"):
            values, indices = dml.top_k(x if axis else np.ascontiguousarray(x.T), k, axis=axis, mode=mode, nan=nan)
            want_values, want = expected(x, k, 1, mode, nan)
            assert np.array_equal(indices if axis else indices.T, want)
            assert np.array(values if axis else values.T, order="C").tobytes() == want_values.tobytes()


#: Of each row of the table a call that is for it, with two threads; and others.
ROWS = {
    "short columns": ((20, 30), 0, 5),
    "columns": ((600, 70), 0, 5),
    "list": ((20, 500), 1, 5),
    "short": ((20, 50), 1, 5),
    "pieces": ((2, 2 * 65536 + 77), 1, 9),
    "rows": ((3, 6000), 1, 40),
    "one": ((20, 100), 1, 1),
    "a large k": ((3, 3001), 1, 300),
    "a single line": ((70,), 0, 1),
    "tiny lines": ((30, 3), 1, 2),
    "tiny columns": ((2, 9), 0, 2),
    "staged lines": ((300, 7), 0, 1),
    "staged lines, few": ((4, 90, 5), 1, 16),
    "staged lines, everything": ((40, 9), 0, 40),
    "staged lines, long": ((65_600, 3), 0, 20),
}


@pytest.mark.parametrize("case", ROWS)
def test_every_row_of_the_table(case, target, monkeypatch):
    """It is the first for some call; and wherever its kernel can run a call, it gives the same bits as any other."""
    if target != "cpu":
        pytest.skip("about the table of the CPU")
    shape, axis, k = ROWS[case]
    chosen = []

    def noted(regions, facts, tuning):
        chosen.append((first(regions, facts, tuning).name, facts))
        return first(regions, facts, tuning)

    monkeypatch.setattr(top_k, "first", noted)
    monkeypatch.setattr(top_k, "THREADS", 2)
    for dtype in ("f4", "u1", "i8"):
        rng = np.random.default_rng(8)
        for kind in ("random", "few", "nan"):
            x = distribution(kind, shape, dtype, rng)
            for mode in ("largest", "smallest"):
                want_values, want = expected(x, k, axis, mode, "last")
                for name in (None, *(region.name for region in TABLE)):
                    dml.cache_clear()
                    token = forced.set(name)
                    try:
                        values, indices = dml.top_k(x, k, axis=axis, mode=mode)
                    finally:
                        forced.reset(token)
                    found, facts = chosen[-1]
                    if name is None and dtype == "f4" and case in [region.name for region in TABLE]:
                        assert found == case
                    can = name and next(region.can for region in TABLE if region.name == name)(facts, TUNING)
                    assert not can or found == name
                    assert np.array_equal(indices, want), (dtype, kind, mode, name)
                    assert values.tobytes() == want_values.tobytes(), (dtype, kind, mode, name)
    dml.cache_clear()


def test_the_table_is_whole():
    """Each row has a call in the test before, and figures."""
    names = [region.name for region in TABLE]
    assert len(set(names)) == len(names)
    assert set(names) <= set(ROWS)
    text = (Path(__file__).parents[1] / "docs" / "measurements" / "cpu_top_k.md").read_text()
    assert {region.evidence for region in TABLE} <= set(re.findall("^## (.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("threads", [1, 3, 8])
@pytest.mark.parametrize(("shape", "k"), [((100, 1000), 3), ((50, 130), 9), ((4, 130, 200), 4), ((97, 17), 2)])
def test_however_many_tiles_columns_have(shape, k, threads, target, monkeypatch):
    """As there would be for so many threads."""
    if target != "cpu":
        pytest.skip("about tiles of columns")
    from numba_dml.cpu.calls import top_k

    monkeypatch.setattr(top_k, "THREADS", threads)
    dml.cache_clear()
    x = np.random.default_rng(threads).integers(0, 50, shape).astype("f4")
    found = dml.top_k(x, k, axis=-2)
    np.testing.assert_array_equal(found.indices, expected(x, k, -2, "largest", "last")[1])
    dml.cache_clear()


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8", "u8", "f8"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 13])
def test_tiny_lines_anywhere(dtype, n):
    """The network looks at what lies before tiny lines, if that is in the array."""
    rng = np.random.default_rng(n)
    whole = rng.integers(0, 50, (3, 90, 2 * n + 1)).astype(dtype)
    k = min(n, 3)
    for x in (whole[..., :n], whole[..., n + 1 :], whole[:, ::-1, :n], whole[:, ::3, 1 : n + 1], whole[::-1, 7:, n:-1]):
        found = dml.top_k(x, k)
        values, indices = expected(x, k, -1, "largest", "last")
        np.testing.assert_array_equal(found.indices, indices)
        assert found.values.tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", ["i8", "u8", "f8"])
@pytest.mark.parametrize("n", range(1, 10))
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_tiny_lines_of_wide_elements(dtype, n):
    """They are ranked eight lines together: ties, NaN, both zeros, all rules, lines that are left over, and strides."""
    rng = np.random.default_rng(n)
    some = np.array([0, 1, 2, 2**63 - 1, 2**62], np.int64) if dtype != "f8" else [np.nan, -np.nan, 0.0, -0.0, 1, np.inf]
    whole = rng.choice(some, (101, 2 * n)).astype(dtype)
    if dtype == "i8":
        whole *= rng.choice([-1, 1], whole.shape)
    for x in (
        whole[:, :n].copy(),
        whole[:, ::2],
        whole[::-1, :n],
        whole[:7, :n].copy(),
        np.asfortranarray(whole[:, :n]),
    ):
        for k in range(1, n + 1):
            for mode, nan in [("largest", "last"), ("smallest", "last"), ("largest", "largest"), ("smallest", "first")]:
                found = dml.top_k(x, k, mode=mode, nan=nan)
                values, indices = expected(x, k, -1, mode, nan)
                assert same(found.values, values)
                assert np.array_equal(found.indices, indices)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [20_001, 140_001], ids=["rows", "pieces"])
@pytest.mark.parametrize("common", [np.nan, -np.inf, 0.0, np.inf])
def test_a_survey_that_finds_little(dtype, n, common):
    """Most blocks have nothing but one value; others hold subnormal numbers or numbers around it."""
    rng = np.random.default_rng(4)
    x = np.full((2, n), common, dtype)
    for special in (5, 40):  # fewer than k, and more
        for line in x:
            places = rng.permutation(n)[:special]
            line[places] = rng.integers(-9, 9, special) * np.finfo(dtype).smallest_subnormal
            line[rng.permutation(n)[:3]] = [-np.inf, -1, 1]
        for mode, nan in [("largest", "last"), ("smallest", "last"), ("largest", "largest")]:
            for k in (1, 20):
                found = dml.top_k(x, k, mode=mode, nan=nan)
                want_values, want = expected(x, k, -1, mode, nan)
                np.testing.assert_array_equal(found.indices, want)
                assert found.values.tobytes() == want_values.tobytes()


@pytest.mark.parametrize(("n", "k"), [(1 << 18, 1000), (1 << 15, 4000)], ids=["pieces", "sorted"])
@pytest.mark.parametrize("stride", ["contiguous", "staged"])
def test_a_sample_that_misleads(n, k, stride, target, monkeypatch, request):
    """The places of a sample are known: where it sees only the best, too few lie above its bound; else too many do."""
    places, row = sampled_places(n, k, 8 if stride == "staged" else 4)
    rng = np.random.default_rng(8)
    statuses = set()
    launcher = cpu_launch.launcher

    def watched(*args, **options):
        launch, driver = launcher(*args, **options)
        return lambda *arrays: statuses.add(status := launch(*arrays)) or status, driver

    monkeypatch.setattr(top_k, "launcher", watched)
    dml.cache_clear()
    request.addfinalizer(dml.cache_clear)
    for low, high in ((0, 1), (1, 0), (0.5, 0.5)):
        x = np.full((n, 1), low) + 0.25 * rng.random((n, 1))
        x[places, 0] += high - low
        x = x.astype(np.float32)
        x = np.repeat(x, 2, 1)[:, :1] if stride == "staged" else x
        for mode in ("largest", "smallest"):
            found = dml.top_k(x, k, axis=0, mode=mode)
            np.testing.assert_array_equal(found.indices, expected(x, k, 0, mode, "last")[1])
    if target == "cpu":  # a line in pieces is selected from once more
        assert statuses == ({0, TOO_FEW} if row == PIECES else {0})


@pytest.mark.parametrize("dtype", ["i8", "u8", "f8"])
@pytest.mark.parametrize("upper", [1, 40, 700])
def test_wide_elements_with_few_upper_halves(dtype, upper):
    """They are sorted by the upper halves first."""
    rng = np.random.default_rng(9)
    bits = rng.integers(0, upper, (3, 3001)) << 32 | rng.integers(0, 1 << 32, (3, 3001))
    bits[:, ::7] = bits[:, :1]
    x = (bits + (1 << 62 if dtype == "f8" else 0)).view(dtype)
    for k in (400, 3001):
        for mode in ("largest", "smallest"):
            found = dml.top_k(x, k, mode=mode)
            np.testing.assert_array_equal(found.indices, expected(x, k, -1, mode, "last")[1])


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u4", "u8"])
@pytest.mark.parametrize("size", [300, 2000])  # by 20 bits at first, and by 30
def test_numbers_that_first_differ_in_any_bit(dtype, size):
    """Of a line that is sorted: in the lowest bits alone, in all, or all but one near each other."""
    rng = np.random.default_rng(4)
    bits = 8 * np.dtype(dtype).itemsize
    lines = [rng.integers(0, 1 << width, size, np.uint64, True) for width in range(1, bits - 2, 3)]
    lines += [np.where(np.arange(size) == rng.integers(size), np.uint64(1) << np.uint64(bits - 2), x) for x in lines]
    x = np.stack(lines).astype(f"u{bits // 8}").view(dtype)
    x = x if x.dtype.kind == "f" else x - x.dtype.type(3)  # around zero
    for k in (size // 2, size):
        for mode in ("largest", "smallest"):
            for found, wanted in zip(dml.top_k(x, k, mode=mode), expected(x, k, -1, mode, "last"), strict=True):
                np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), wanted.view(f"u{wanted.itemsize}"))


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(dtype, bits) for dtype in ("f4", "i4", "f8", "i8") for bits in (9, 20, 21, 29, 31)]
    + [("f8", 33), ("f8", 51), ("i8", 33), ("i8", 62)],
)
@pytest.mark.parametrize("n", [FEW_KEYS, FEW_KEYS + 1, 5000])
def test_keys_that_differ_in_so_many_bits_are_sorted(dtype, bits, n):
    """Around the sizes and widths that take a digit more; with many ties, and with those that are not settled."""
    rng = np.random.default_rng(bits)
    word = f"i{dtype[1]}"
    spread = rng.integers(0, 1 << bits, n, word)
    spread[:2] = 0, (1 << bits) - 1
    spread[n // 4 : n // 2] >>= 8  # many ties
    if bits > 32:
        spread[::3] &= 0xFFFFF  # of 51 bits and more too many agree in the first ones to be settled as they lie
    x = spread if dtype[0] == "i" else (spread + np.array(1, dtype).view(word)).view(dtype)
    for k in (n, n - 30):
        found = dml.top_k(x, k)
        values, indices = expected(x, k, -1, "largest", "last")
        assert np.array_equal(found.indices, indices)
        assert same(found.values, values)


def test_short_lines_of_a_window():
    """Neighbours of the network must not cross the end of an outer dimension."""
    x = np.random.default_rng(5).integers(0, 50, (3, 20, 64)).astype(np.float32)[:, :13, :40]
    for view in (x, x[::-1, ::-1], np.broadcast_to(x[:, :1], (3, 19, 40))):
        found = dml.top_k(view, 6)
        np.testing.assert_array_equal(found.indices, expected(view, 6, -1, "largest", "last")[1])


@pytest.mark.parametrize("order", ["F", "negative", "steps"])
def test_layouts_of_large_inputs(order):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 1000, (300, 500)).astype(np.float32)
    x = {"F": np.asfortranarray(x), "negative": x[::-1, ::-1], "steps": np.repeat(x, 2, 1)[:, ::2]}[order]
    for axis in (0, 1):
        for k in (5, 40):
            found = dml.top_k(x, k, axis=axis)
            np.testing.assert_array_equal(found.indices, expected(x, k, axis, "largest", "last")[1])


@pytest.mark.parametrize("index_dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_index_dtype(index_dtype):
    x = np.arange(100.0)
    found = dml.top_k(x, 3, index_dtype=index_dtype)
    assert found.indices.dtype == index_dtype
    assert found.indices.tolist() == [99, 98, 97]


def test_result_is_a_named_tuple_as_in_numpy():
    found = dml.top_k([1, 3, 2], 2)
    assert found._fields == ("values", "indices")
    assert found.indices.dtype == np.intp


def test_nan_payloads_and_signs_of_zero_survive():
    bits = np.array([0x7FC00001, 0xFFC0DEAD, 0x80000000, 0x00000000], np.uint32)
    values, indices = dml.top_k(bits.view(np.float32), 4)
    assert indices.tolist() == [2, 3, 0, 1]
    assert values.view(np.uint32).tolist() == bits[[2, 3, 0, 1]].tolist()
    values, indices = dml.top_k(bits.view(np.float32), 4, nan="largest")
    assert indices.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["f2", "i2", "u2", "f4", "i4", "u4", "f8", ml_dtypes.bfloat16])
def test_all_bits_survive_a_large_k(dtype):
    """Elements come back from their keys, but for zeros and NaNs, which are looked for."""
    width = np.dtype(dtype).itemsize
    bits = np.random.default_rng(3).permutation(1 << 16).astype(f"u{width}")
    bits = bits << 8 * width - 16 | bits % 3 if width > 2 else bits  # every exponent, zeros, infinities, and payloads
    x = bits.view(dtype)
    for k in (30_000, x.size):
        for mode, nan in (("largest", "last"), ("largest", "first"), ("smallest", "last")):
            values, indices = dml.top_k(x, k, mode=mode, nan=nan)
            assert np.array_equal(values.view(bits.dtype), bits[indices])
            with np.errstate(invalid="ignore"):  # signalling NaNs are cast
                assert np.array_equal(indices, expected(x, k, -1, mode, nan)[1])


@pytest.mark.parametrize("threads", [1, 3, 8])
@pytest.mark.parametrize("dtype", ["f4", "i8", "u1"])
@pytest.mark.parametrize("lines", [1, 5])
def test_however_many_pieces_a_line_has(lines, dtype, threads, target, monkeypatch):
    """As there would be for so many threads: the first of equal elements, in whichever piece."""
    if target != "cpu":
        pytest.skip("about pieces of lines")
    from numba_dml.cpu.calls import top_k

    monkeypatch.setattr(top_k, "THREADS", threads)
    dml.cache_clear()
    x = np.random.default_rng(threads).integers(0, 120, (lines, 9 * 65536 + 5)).astype(dtype)
    for k in (3, 700):
        values, indices = dml.top_k(x, k)
        best = np.argsort(-x.astype("i8"), -1, kind="stable")[:, :k]
        assert np.array_equal(indices, best)
        assert np.array_equal(values, np.take_along_axis(x, best, -1))
    dml.cache_clear()


@pytest.mark.parametrize("dtype", [">f4", ">i8"])
def test_foreign_byte_order_in_any_layout(dtype):
    a = np.random.default_rng(5).integers(-99, 99, (40, 30, 6)).astype(dtype)
    for layout in (
        a[:, :20],
        a[::2, ::-1],
        a[..., 1:3],
        np.asfortranarray(a)[3:],
        a.T,
        np.broadcast_to(a[:1], a.shape),
    ):
        for axis in range(3):
            expected = np.argsort(-layout.astype("f8"), axis, kind="stable").take(range(2), axis)
            values, indices = dml.top_k(layout, 2, axis=axis)
            np.testing.assert_array_equal(indices, expected)
            np.testing.assert_array_equal(values, np.take_along_axis(layout, expected, axis))
