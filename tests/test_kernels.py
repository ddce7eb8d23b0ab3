"""The pieces of the kernels that have a twin or an exhaustive check."""

from functools import cache
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from numba import njit, types

from numba_dml._core.lowering import rule_numbers
from numba_dml._core.tensor import normalize_data_type
from numba_dml._jit.memory import ArrayRef, itemsize
from numba_dml.cpu.primitives import argextreme, reductions
from numba_dml.cpu.primitives import keys as primitives_keys
from numba_dml.cpu.primitives.keys import rule_from
from numba_dml.cpu.primitives.top_k import column_limits, compaction, key_masks, key_maxima, line_list, network
from numba_dml.cpu.primitives.top_k import column_limits as top_k_column_limits
from numba_dml.cpu.primitives.top_k import column_lists as top_k_column_lists

from . import twins
from .reference import untraced

pytestmark = pytest.mark.cpu


@cache
@untraced
def compiled(function, *kinds):
    """Compile for a signature, once: elements of one width and kind share it. It takes half as long again if traced."""
    return njit(function).compile(kinds)


FLOATS = {np.dtype("f2"): 0x7C00, np.dtype("f4"): 0x7F800000, np.dtype("f8"): 0x7FF0000000000000}
INTEGERS = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]


def rule_of(dtype, largest, nan_first=False):
    numbers = rule_numbers(normalize_data_type(dtype), largest, nan_first)
    signed = np.dtype(f"i{dtype.itemsize}").type
    return tuple(signed(x) for x in numbers[: 3 if dtype.kind == "f" else 1])


@njit
def masks(row, rule, thresholds):
    found = np.zeros((2, thresholds.size), np.uint64)
    for i in range(thresholds.size):
        found[0, i] = key_masks.beats(row, i, thresholds[i], rule)
        found[1, i] = twins.beats_plain(row, i, thresholds[i], rule)
    return found


@njit
def keys(row, rule):
    found = np.zeros(row.size, row.dtype)
    for i in range(row.size):
        found[i] = primitives_keys.key_of(row[i], rule)
    return found


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize(("largest", "nan_first"), [(True, False), (True, True), (False, False), (False, True)])
def test_masks_equal_their_plain_twins(dtype, largest, nan_first):
    rng = np.random.default_rng(5)
    signed = np.dtype(f"i{dtype.itemsize}")
    row = np.frombuffer(rng.bytes(128 * dtype.itemsize), signed).copy()
    if dtype.kind == "f":
        info = np.finfo(dtype)
        edges = np.array([0, info.tiny, info.max, np.inf], dtype).view(signed)[:, None] + np.arange(-1, 2, dtype=signed)
        row[:24] = np.concatenate([edges.ravel(), edges.ravel() ^ np.iinfo(signed).min])
    rule = rule_of(dtype, largest, nan_first)
    thresholds = keys(row[rng.permutation(64)], rule)
    found = masks(row, rule, thresholds)
    np.testing.assert_array_equal(found[0], found[1])
    assert np.unique(found).size > 50


@njit
def best_lanes(row, rule):
    found = np.zeros((2, row.size - 64), row.dtype)
    fours = np.zeros(
        (row.size - 256, primitives_keys.BLOCKS_AT_ONCE + 2), row.dtype
    )  # with one place more at either end
    for i in range(row.size - 64):
        key_maxima.best_lane(row, i, found[0], i, rule)
        found[1, i] = twins.best_lane_plain(row, i, rule)
    for i in range(len(fours)):
        key_maxima.best_lanes(row, i, fours[i], 1, rule)
    return found[0], found[1], fours


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize(("largest", "nan_largest"), [(True, False), (True, True), (False, False)])
def test_the_best_lane_is_that_of_the_plain_twin(dtype, largest, nan_largest):
    rng = np.random.default_rng(6)
    row = np.frombuffer(rng.bytes(500 * dtype.itemsize), dtype).copy()
    row[200:300] = np.nan if dtype.kind == "f" else 0
    row[300:400] = row[301]
    best, plain, fours = best_lanes(row.view(f"i{dtype.itemsize}"), rule_of(dtype, largest, nan_largest))
    np.testing.assert_array_equal(best, plain)
    for block in range(primitives_keys.BLOCKS_AT_ONCE):
        np.testing.assert_array_equal(fours[:, 1 + block], plain[64 * block :][: len(fours)])
    assert not fours[:, [0, -1]].any()


def vector_steps(x, rule_plan, bests, masks, columns):
    """Put what the vector steps of argmin and argmax find in row 0, and their plain twins in row 1."""
    rule, lanes, size = rule_from(x, rule_plan, 0), argextreme.lanes_of(x), itemsize(x)
    for i in range(bests.shape[1]):
        count = lanes + 5 * i
        bests[0, i] = argextreme.best_key(x, i * size, count, rule)
        bests[1, i] = twins.best_key_plain(x, i * size, count, rule)
        masks[0, i] = argextreme.lanes_equal(x, i * size, bests[0, 0], rule)
        masks[1, i] = twins.lanes_equal_plain(x, i * size, bests[0, 0], rule)
        first, few = i % (lanes - 1), 1 + i % (lanes - 1 - i % (lanes - 1))
        bests[2, i], masks[2, i] = argextreme.best_of_some(x, i * size, first, few, rule)
        bests[3, i], masks[3, i] = twins.best_of_some_plain(x, i * size, first, few, rule)
    for i in range(0, columns.shape[1] - 4 * lanes, 3):
        best, rows, other, rows_of_other = columns[0], columns[1], columns[2], columns[3]
        step, width = 2 * size, lanes if i % 2 else 4 * lanes
        if i % 2:
            argextreme.improve_lanes(x, i * size, step, 5, best, rows, i, 7, rule)
        else:
            argextreme.improve_many(x, i * size, step, 5, best, rows, i, 7, rule)
        for first in range(i, i + width, lanes):
            twins.improve_lanes_plain(x, first * size, step, 5, other, rows_of_other, first, 7, rule)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize(("largest", "nan_first"), [(True, False), (False, True)])
def test_vector_steps_of_argmax_equal_their_plain_twins(dtype, largest, nan_first):
    rng = np.random.default_rng(3)
    signed = np.dtype(f"i{dtype.itemsize}")
    ref = ArrayRef(getattr(types, signed.name), dtype.kind == "f")
    kind, word = getattr(types, signed.name), types.int64
    entry = compiled(vector_steps, ref, word[::1], kind[:, ::1], types.uint64[:, ::1], kind[:, ::1])
    row = np.frombuffer(rng.bytes(800 * dtype.itemsize), dtype).copy()
    row[::7] = row[3]
    row[5::50] = np.nan if dtype.kind == "f" else 0
    bests, masks = np.zeros((4, 40), signed), np.zeros((4, 40), np.uint64)
    columns = np.full((4, 400), np.iinfo(signed).min, signed)
    rule = np.array([*rule_of(dtype, largest, nan_first), 0, 0], np.int64)
    entry(row.view(signed), rule, bests, masks, columns)
    np.testing.assert_array_equal(bests[::2], bests[1::2])
    np.testing.assert_array_equal(masks[::2], masks[1::2])
    np.testing.assert_array_equal(columns[:2], columns[2:])


def search(x, rule_plan, keys, places):
    """Look for the best key of a line, and for one that is not in it, from each end."""
    rule, count = rule_from(x, rule_plan, 0), 3 * argextreme.lanes_of(x) + 5
    keys[0] = argextreme.best_key(x, 0, count, rule)
    for i in range(2):
        places[i, 0] = argextreme.place_of_key(x, 0, count, keys[i], rule, False)
        places[i, 1] = argextreme.place_of_key(x, 0, count, keys[i], rule, True)


def test_the_search_for_a_key_that_is_gone_ends():
    """Another thread may have changed the element: nobody may do so, but the call must end."""
    ref, word = ArrayRef(types.int32, True), types.int64
    entry = compiled(search, ref, word[::1], types.int32[::1], word[:, ::1])
    line, places = np.zeros(500, "f4"), np.empty((2, 2), "i8")
    line[7] = line[20] = 1
    keys = np.array([0, 12345], "i4")
    entry(line.view("i4"), np.array([*rule_of(line.dtype, True), 0, 0], np.int64), keys, places)
    assert places[0].tolist() == [7, 20]


def networks(ref, rule, size, step, places, across):
    """Put all blocks into the second of three lists; write the positions there, return the lists around it."""
    depth = places.shape[1]
    lists = network.network_lists(ref, 3 * depth)
    lists[:] = primitives_keys.lowest_key(lists)
    line_step, apart = (itemsize(ref), step) if across else (step, itemsize(ref))
    for at in range(0, size, network.NETWORK_LINES):
        first = min(at, size - network.NETWORK_LINES)
        args = lists, depth, depth, rule_from(ref, rule, 0)
        network.insert_block(ref, 0, line_step, apart, first, at - first, *args)
    for line in range(network.NETWORK_LINES):
        for j in range(depth):
            places[line, j] = network.listed_place(ref, lists, depth + j, line)
    parts = lists.shape[0] // (3 * depth)
    return lists[: depth * parts], lists[2 * depth * parts :]


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("i1", "u2", "i4", "f2", "f4", "u8", "f8")], ids=str)
@pytest.mark.parametrize("across", [False, True])
def test_the_network_selects_the_best_of_each_line(dtype, across):
    rng = np.random.default_rng(1)
    signed, size = np.dtype(f"i{dtype.itemsize}"), 61
    ref = ArrayRef(getattr(types, signed.name), dtype.kind == "f")
    numbers = types.int64
    entry = compiled(networks, ref, numbers[::1], numbers, numbers, numbers[:, ::1], types.boolean)
    lines = np.frombuffer(rng.bytes(8 * size * dtype.itemsize), dtype).reshape(8, size).copy()
    lines[:, ::5] = np.nan if dtype.kind == "f" else lines[:, :1]
    lines[:, 1::7] = lines[:, 3:4]
    lines[3] = np.iinfo(dtype).min if dtype.kind == "i" else 0
    data = np.ascontiguousarray(lines.T) if across else lines
    for largest, nan_first in ((True, False), (False, True)):
        rule = rule_of(dtype, largest, nan_first)
        of_lines = keys(lines.view(signed).reshape(-1), rule).reshape(lines.shape)
        want = np.argsort(~of_lines, 1, kind="stable")
        for k in (1, 2, 3, 8, 16, 17, 40):
            places = np.zeros((8, network.list_depth.py_func(k)), np.int64)
            around = entry(data, np.array([*rule, 0, 0][:3], np.int64), size, data.strides[0], places, across)
            np.testing.assert_array_equal(places, want[:, : places.shape[1]])
            for untouched in around:
                assert (untouched == untouched[0, 0]).all()


def column_steps(ref, limits, numbers, step):
    """Do all that columns need, in both ways, over some rows."""
    rule = rule_from(ref, numbers, 0)
    k = numbers[3]
    width = top_k_column_limits.insert_width(limits)
    masks = np.zeros((6, 64), np.uint64)
    best, where = np.zeros((2, k * 72), limits.dtype), np.zeros((2, k * 72), primitives_keys.place_buffer(ref, 1).dtype)
    last = np.zeros((2, 72), limits.dtype)
    for at in range(64):  # at any alignment
        offset = at * itemsize(ref)
        masks[0, at] = column_limits.row_beats(ref, offset, step, limits, at, rule)
        masks[1, at] = twins.columns_above_plain(ref, offset, 1, step, limits, at, rule)
        masks[2, at] = column_limits.any_row_beats(ref, offset, step, limits, at, rule)
        masks[3, at] = twins.columns_above_plain(ref, offset, primitives_keys.ROWS_AT_ONCE, step, limits, at, rule)
        masks[4, at] = column_limits.rows_that_beat(ref, offset, step, limits, at, rule)
        masks[5, at] = twins.rows_that_beat_plain(ref, offset, step, limits, at, rule)
    best[:] = primitives_keys.lowest_key(best)
    tops = np.full((2, 72), primitives_keys.lowest_key(limits), limits.dtype)
    lowered = np.full((2, 72), limits[3], limits.dtype)
    for group in range(3):
        offset = (group * primitives_keys.ROWS_AT_ONCE * step) + 3 * itemsize(ref)
        column_limits.lower_limits(ref, offset, step, lowered[0], 5, rule)
        twins.lower_limits_plain(ref, offset, step, lowered[1], 5, rule)
        column_limits.best_of_rows(ref, offset, step, tops[0], 3, rule)
        twins.best_of_rows_plain(ref, offset, step, tops[1], 3, rule)
        top_k_column_lists.raise_lists(tops[0], 5, best[0], width * k, k)
        twins.raise_lists_plain(tops[1], 5, best[1], width * k, k)
    bounds = best.copy()
    for row in range(2 * k + 1):
        for lane in (0, width):
            offset, levels, position = row * step + (lane + 5) * itemsize(ref), min(row, k), 10 * row
            top_k_column_lists.insert_lanes(ref, offset, best[0], where[0], last[0], lane, levels, k, position, rule)
            twins.insert_lanes_plain(ref, offset, best[1], where[1], last[1], lane, levels, k, position, rule)
    return masks, tops, bounds, best, where, last, lowered


def rows_of_columns(dtype, rng, edges):
    """Return 24 rows of random bits: floats have columns of NaNs and zeros, or else few NaNs, and nothing tiny."""
    rows = np.frombuffer(rng.bytes(24 * 150 * dtype.itemsize), dtype).reshape(24, 150).copy()
    if dtype.kind != "f":
        return rows
    if edges:
        rows[:, ::7] = np.nan
        rows[::3, ::5] = 0
        rows[1::3, ::5] = -0.0
        return rows
    rows[~(np.abs(rows) >= np.finfo(dtype).tiny)] = 1.5
    rows[:, ::3] = np.abs(rows[:, ::3])
    rows[:, 1::3] = -np.abs(rows[:, 1::3])
    rows[rng.integers(0, 24, 12), rng.integers(0, 150, 12)] = np.nan
    return rows


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
def test_steps_of_columns_equal_their_plain_twins(dtype):
    rng = np.random.default_rng(7)
    signed = np.dtype(f"i{dtype.itemsize}")
    ref = ArrayRef(getattr(types, signed.name), dtype.kind == "f")
    entry = compiled(column_steps, ref, getattr(types, signed.name)[::1], types.int64[::1], types.int64)
    width = 32 // dtype.itemsize
    either = (True, False)
    of_floats = either if dtype.kind == "f" else either[:1]
    for k, largest, nan_first, edges in product((1, 3, 8), either, of_floats, of_floats):
        rows = rows_of_columns(dtype, rng, edges)
        rule = rule_of(dtype, largest, nan_first)
        of_rows = keys(rows.view(signed).reshape(-1), rule).reshape(rows.shape)
        # Few elements beat them; without edges they are no NaNs, of which a column has two at most.
        at = np.argsort(of_rows, 0)[rng.integers(15, 24 if edges else 22, 128), np.arange(128)]
        limits = of_rows[at, np.arange(128)]
        numbers = np.array([*rule, 0, 0][:3] + [k], np.int64)
        masks, tops, bounds, best, where, last, lowered = entry(rows, limits.astype(signed), numbers, rows.strides[0])
        for one, other in (masks[:2], masks[2:4], masks[4:], tops, bounds, best, where, last, lowered):
            np.testing.assert_array_equal(one, other)
            assert one.any()
        best, where = (x[0, : k * 2 * width].reshape(2, k, width) for x in (best, where))
        of_lists = of_rows[: 2 * k + 1, 5 : 5 + 2 * width].reshape(-1, 2, width).swapaxes(0, 1)
        order = np.argsort(~of_lists, 1, kind="stable")[:, :k]
        np.testing.assert_array_equal(where, 10 * order)
        np.testing.assert_array_equal(best, np.take_along_axis(of_lists, order, 1))
        np.testing.assert_array_equal(last[0, : 2 * width].reshape(2, width), best[:, -1])
        of_fours = of_rows[:, 3 : 3 + width].reshape(6, 4, width).max(1).min(0)
        np.testing.assert_array_equal(lowered[0, 5 : 5 + width], np.minimum(of_fours, limits[3]))
        assert (lowered[0] < limits[3]).any()
        assert (lowered[0] == limits[3]).any()


@njit
def raised(row, rule, best):
    one, other = best.copy(), best.copy()
    for at in (0, 1, 64):
        key_maxima.raise_lanes(row, at, one, 3, rule)
        twins.raise_lanes_plain(row, at, other, 3, rule)
    return one, other


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("i1", "u2", "i4", "f2", "f4", "f8")], ids=str)
def test_raised_lanes_equal_their_plain_twin(dtype):
    rng = np.random.default_rng(2)
    signed = np.dtype(f"i{dtype.itemsize}")
    row = np.frombuffer(rng.bytes(128 * dtype.itemsize), signed)
    before = np.frombuffer(rng.bytes(70 * dtype.itemsize), signed)
    one, other = raised(row, rule_of(dtype, True), before)
    np.testing.assert_array_equal(one, other)
    assert (one >= before).all()
    assert (one[[0, 1, 2, 67, 68, 69]] == before[[0, 1, 2, 67, 68, 69]]).all()
    assert (one != before).any()


@njit
def ranks(keys, i, earlier):
    return key_masks.rank_of_64(keys, 5, keys[i], earlier), twins.rank_of_64_plain(keys, 5, keys[i], earlier)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_ranks_equal_their_plain_twin(dtype):
    rng = np.random.default_rng(6)
    limits = np.iinfo(dtype)
    seen = set()
    for low, high in ((limits.min, limits.max), (-2, 2)):
        keys = rng.integers(low, high, 70, dtype, endpoint=True)
        for i in range(70):
            found, expected = ranks(keys, i, np.uint64(rng.integers(0, 2**64, dtype="u8")))
            assert found == expected
            seen.add(found)
    assert len(seen) > 20


@njit
def bisected(keys, count, k, surplus):
    return compaction.bisect(keys, count, k, surplus)


@pytest.mark.parametrize("part", [8, 1000])
@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_a_bisected_bound_has_enough_keys_above_it(dtype, part):
    rng = np.random.default_rng(4)
    limits = np.iinfo(dtype)
    for low, high in ((limits.min, limits.max), (-3, 3), (limits.max - 1, limits.max), (limits.min, limits.min)):
        for count in (64, 192):
            keys = rng.integers(low, high, count, dtype, endpoint=True)
            for k in (1, 7, 60):
                bound, above = bisected(keys, count, k, k // part)
                assert above == (keys > bound).sum()
                exact = np.sort(keys)[-k]
                assert bound == limits.min or (keys > bound).sum() >= k
                assert bound < exact or exact == limits.min
                # Not much lower than it could be: the next one up has too few, or this one hardly too many.
                assert (keys > bound).sum() <= k + k // part or (keys > bound + 1).sum() < k


@njit
def compacted(keys, positions, count, k, surplus):
    return compaction.compact(keys, positions, count, k, surplus)


@pytest.mark.parametrize("part", [8, 1000])
@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_a_compacted_buffer_keeps_the_first_of_the_best(dtype, part):
    rng = np.random.default_rng(5)
    limits = np.iinfo(dtype)
    for low, high in ((limits.min, limits.max), (-3, 3), (limits.max - 1, limits.max), (limits.min, limits.min)):
        for count in (64, 100, 191):
            for k in (1, 7, 60):
                keys, positions = np.empty(192, dtype), np.arange(192)
                keys[:count] = rng.integers(low, high, count, dtype, endpoint=True)
                before = keys[:count].astype("O")
                best = np.argsort(-before, kind="stable")[:k]
                kept, threshold = compacted(keys, positions, count, k, k // part)
                assert k <= kept <= k + k // part
                assert (np.diff(positions[:kept]) > 0).all()
                assert set(best) <= set(positions[:kept])
                np.testing.assert_array_equal(keys[:kept], before[positions[:kept]])
                # A later element belongs to the result if it beats the k-th best, and only then does it have to pass.
                assert threshold <= before[best[-1]]
                assert (before > threshold).sum() <= kept


@njit
def sorted_both_ways(keys, count):
    positions, best, other = np.arange(keys.size), np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    digits, scratch = keys.copy(), np.empty_like(keys)
    compaction.sort_by_rank(keys, positions, count, best)
    counts = np.empty(1 << compaction.SORT_BITS, np.int64)
    if not compaction.sort_by_digits(digits, positions, count, scratch, other, counts):
        other[:] = positions
    return best, other


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
@pytest.mark.parametrize("kind", ["random", "ties", "equal", "extremes"])
def test_sorting_is_stable_and_best_first(dtype, kind):
    rng = np.random.default_rng(3)
    limits = np.iinfo(dtype)
    for count in (1, 2, 16, 63, 64, 65, 200, 256):
        values = {"random": [limits.min, limits.max], "ties": [-2, 2], "equal": [7, 7], "extremes": [0, 1]}[kind]
        keys = rng.integers(*values, -(-count // 64) * 64, dtype, endpoint=True)
        if kind == "extremes":
            keys = np.where(keys == 0, limits.min, limits.max).astype(dtype)
        expected = np.argsort(-keys[:count].astype(object), kind="stable")
        by_rank, by_digits = sorted_both_ways(keys.copy(), count)
        np.testing.assert_array_equal(by_rank[:count], expected)
        np.testing.assert_array_equal(by_digits[:count], expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("nan_first", [True, False])
def test_float_keys_order_as_floats(dtype, largest, nan_first):
    special = np.array([-np.inf, -1.5, -1e-7, -0.0, 0.0, 1e-7, 1.5, np.inf], dtype)
    bits = special.view(f"i{dtype.itemsize}")
    rule = rule_of(dtype, largest, nan_first)
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
    assert nan_key > max(found) if nan_first else nan_key < min(found)


def over(convert, dtype):
    """Return what converts each number of an array to a type."""

    @njit
    def converted(numbers):
        found = np.zeros(numbers.size, dtype)
        for i in range(numbers.size):
            found[i] = convert(numbers[i])
        return found

    return converted


@pytest.mark.parametrize(
    ("dtype", "to_float", "from_float"),
    [
        (np.dtype("f2"), reductions.half_to_float, reductions.float_to_half),
        (np.dtype("f2"), reductions.from_half, reductions.to_half),  # by instructions, where there are some
        (np.dtype(ml_dtypes.bfloat16), reductions.bfloat_to_float, reductions.float_to_bfloat),
    ],
    ids=["f2", "f2, by instructions", "bfloat16"],
)
def test_sixteen_bit_floats_convert_as_numpy_does(dtype, to_float, from_float):
    widen, narrow = over(to_float, np.float32), over(from_float, np.uint16)
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = bits.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(widen(bits), wide)
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
    found = narrow(values).view(dtype)
    nan = np.isnan(values)
    assert np.isnan(found[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(found[~nan].view(np.uint16), expected[~nan].view(np.uint16))


@pytest.mark.parametrize("reduction", ["MIN", "MAX"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_extremes_of_floats(dtype, reduction):
    """Bit for bit: a NaN stays as it is, of two NaNs the old one, and of 0 and -0 the old one, too."""
    code = getattr(reductions, reduction)

    @njit
    def extremes(old, new):
        return np.array([reductions.extreme(code, code, x, y) for x in old for y in new])

    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan, np.finfo(dtype).smallest_subnormal], dtype)
    other_nan = special[6:7].copy()
    other_nan.view(f"u{special.itemsize}")[:] |= 77
    values = np.concatenate([special, other_nan, np.random.default_rng(4).standard_normal(9).astype(dtype)])
    beats = np.less if reduction == "MIN" else np.greater
    expected = [y if x == x and (beats(y, x) or y != y) else x for x in values for y in values]
    bits = f"u{special.itemsize}"
    np.testing.assert_array_equal(extremes(values, values).view(bits), np.array(expected).view(bits))


@njit
def group_bounds(row, whole, start, inside, k, rule):
    given = row, whole, start, inside, k, rule
    return line_list.group_bound(*given), twins.group_bound_plain(*given)


@njit
def best_of(row, at, mask, most, rule):
    keys, places = np.full((2, 16), -(1 << (8 * row.itemsize - 1))).astype(row.dtype), np.zeros((2, 16), np.int32)
    left = line_list.insert_best(row, at, mask, most, keys[0], places[0], rule)
    plain = twins.insert_best_plain(row, at, mask, most, keys[1], places[1], rule)
    return left, plain, keys, places


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
@pytest.mark.parametrize("highest", [2, 100])
def test_the_kth_of_groups_and_lists_equal_their_plain_twins(dtype, highest):
    rng = np.random.default_rng(highest)
    for count in range(33):
        row = rng.integers(-highest, highest, 80).astype(dtype)
        for whole in (0, 64):
            inside = np.uint64(rng.integers(2**64, dtype=np.uint64))
            found, expected = group_bounds(row, whole, count // 2, inside, min(max(count, 1), 16), (row.dtype.type(0),))
            assert found == expected
        mask = np.uint64(rng.integers(2**64, dtype=np.uint64))
        left, plain, keys, places = best_of(row, 7, mask, count, (row.dtype.type(0),))
        assert left == plain
        np.testing.assert_array_equal(keys[0], keys[1])
        np.testing.assert_array_equal(places[0], places[1])
