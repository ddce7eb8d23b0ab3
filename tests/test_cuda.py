"""What only arrays on a CUDA device have: their libraries, streams, deferred checks, and regions of the kernels.

In the simulator the kernels' buffers are small, so that small arrays reach every region; on a device large ones do.
"""

import importlib.util
import os
import subprocess
import sys
import types
from functools import partial
from itertools import product
from operator import methodcaller
from pathlib import Path

import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core.regions import first, forced, noted

from . import reference
from .strategies import BFLOAT16


@pytest.fixture(autouse=True)
def room(target):
    if target != "cuda":
        pytest.skip("about the target cuda")
    from numba_dml.cuda.driver import numba

    return numba


def tune(monkeypatch, **thresholds):
    """Replace thresholds of gathers and scatters."""
    from numba_dml.cuda.tuning import moves

    monkeypatch.setattr(moves, "TUNING", moves.TUNING._replace(**thresholds))


@pytest.fixture
def methods(room, monkeypatch):
    """The ways that calls of top-k have chosen, as they are built."""
    from numba_dml.cuda.calls import top_k as calls_top_k

    found = []
    build = calls_top_k.TopKCall.__init__

    def noted(call, *args):
        build(call, *args)
        found.append(call.region.name)

    monkeypatch.setattr(calls_top_k.TopKCall, "__init__", noted)
    return found


@pytest.fixture
def tune_top_k(room, monkeypatch):
    """``tune_top_k(threshold=number)``: replace thresholds of top-k for the calls that are built from now on."""
    from numba_dml.cuda.calls import top_k as calls_top_k

    def replace(**thresholds):
        monkeypatch.setattr(calls_top_k, "TUNING", calls_top_k.TUNING._replace(**thresholds))
        dml.cache_clear()

    yield replace
    dml.cache_clear()


@pytest.fixture
def scale(room):
    """By how much lines are longer on a device than in the simulator, to reach the same region."""
    return 1 if room.SIMULATED else 64


@pytest.fixture
def torch(room):
    if room.SIMULATED:
        pytest.skip("needs a device")
    return pytest.importorskip("torch")


DISTRIBUTIONS = {
    "random": lambda rng, n: rng.standard_normal(n),
    "ascending": lambda rng, n: np.arange(n, dtype=float),
    "equal": lambda rng, n: np.full(n, 3.0),
    "few": lambda rng, n: rng.integers(0, 3, n).astype(float),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, -0.0),
    "nan": lambda rng, n: np.where(rng.random(n) < 0.7, np.nan, rng.standard_normal(n)),
}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize(
    ("lines", "n", "k"),
    [(3, 10, 10), (1, 60, 60), (2, 260, 40), (2, 60, 25), (2, 61, 3), (1, 900, 1), (5, 70, 1)],
    ids=["all", "all, sorted", "large k", "no delegates", "delegates", "best of parts", "best"],
)
def test_regions_of_top_k(lines, n, k, kind, scale):
    rng = np.random.default_rng(7)
    n, k, lines = n * scale, k * (scale * 2 if k > 9 else 1), lines * (scale if lines > 3 else 1)
    k = min(n, k)
    line = np.stack([DISTRIBUTIONS[kind](rng, n) for _ in range(lines)])
    cases = [
        (line.astype("f4"), "largest", "last"),
        (line.astype("f8")[:, ::-1], "smallest", "largest"),
        (np.nan_to_num(line).astype("i1"), "smallest", "last"),
        (line.astype("f2"), "largest", "largest"),
    ]
    for number, (a, mode, nan) in enumerate(cases):
        # The simulator takes a second for each, and more for a sort of wide keys.
        chosen = number == (3 if kind == "nan" else 2) if k > 30 else number % 2 == len(kind) % 2
        if scale > 1 or chosen:
            found = dml.top_k(a, k, mode=mode, nan=nan)
            expected = reference.top_k(a, k, mode=mode, nan=nan)
            assert all(reference.same(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("part", [1, 2, 9])
@pytest.mark.parametrize("axis", [0, 1])
def test_lines_in_order(part, axis, kind, room):
    """Lines that a warp sorts, with one element of a lane or more, and lines that a block sorts."""
    from numba_dml.cuda.kernels import top_k_select
    from numba_dml.cuda.primitives.top_k import block_sort, plan

    rng = np.random.default_rng(part)
    short, most = top_k_select.MOST_SORTED, block_sort.ITEMS * plan.MOST_THREADS
    longest = (most, "u2" if room.SIMULATED else "f8")
    for n, dtype in [(short // 4, "f4"), (short // 2 - 1, "u1"), (short, "i8"), (short + 1, "f2"), longest]:
        lines = np.stack([DISTRIBUTIONS[kind](rng, n) for _ in range(5)])
        a = (lines if dtype[0] == "f" else np.abs(np.nan_to_num(lines)) % 100).astype(dtype)
        a = np.ascontiguousarray(a if axis else a.T)
        k = max(2, n // part)
        for mode, nan in (("largest", "first"), ("smallest", "last")):
            if room.SIMULATED and n > short and (mode == "largest") is (part == 1):
                continue  # takes a second each
            found = dml.top_k(a, k, axis=axis, mode=mode, nan=nan)
            assert all(map(reference.same, found, reference.top_k(a, k, axis=axis, mode=mode, nan=nan)))


@pytest.mark.parametrize("dtype", ["i4", "u4", "f4", "i8", "u8", "f8"])
def test_long_keys_in_order(dtype, room):
    """Lines are sorted by the upper bits of keys first: none, some or many elements agree in these."""
    from numba_dml.cuda.primitives.top_k import block_sort, line_sort, plan

    rng = np.random.default_rng(0)
    n, bits = 24 if room.SIMULATED else block_sort.ITEMS * plan.MOST_THREADS, 8 * int(dtype[1])
    far = np.linspace(-(2 ** (bits - 2)), 2 ** (bits - 2), n // 2).astype(f"i{dtype[1]}")
    few, below = far[:: n // 4], 2 ** (bits - line_sort.FIRST_BITS[bits // 8])
    lines = [
        rng.permutation(np.concatenate([far, far + rng.integers(0, 9, n // 2)])),  # pairs
        rng.choice(few, n),  # many, all equal
        rng.choice(few, n) + rng.integers(0, 9, n),  # many, out of order
        rng.choice(few, n) + rng.integers(0, below, n),
        rng.choice(few, n) + rng.integers(0, 16 * below, n),
        rng.integers(0, 2 * below, n),
        rng.integers(0, 9, n),
    ]
    a = np.stack(lines).astype(far.dtype)
    a = (np.abs(a) if dtype[0] == "f" else a).view(dtype)  # floats of any magnitude, but no NaN
    for mode in ("largest", "smallest"):
        found = dml.top_k(a, n - 1, mode=mode)
        assert all(map(reference.same, found, reference.top_k(a, n - 1, mode=mode)))


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (8, 2), (12, 7), (12, 12)])
@pytest.mark.parametrize("axis", [0, 1])
def test_short_lines(n, k, axis, kind, scale):
    rng = np.random.default_rng(7)
    lines = np.stack([DISTRIBUTIONS[kind](rng, n) for _ in range(13 * scale)])
    a = lines.astype("f4" if k % 2 else "i8") if kind not in ("nan", "zeros") else lines.astype("f2")
    a = np.ascontiguousarray(a if axis else a.T)
    found = dml.top_k(a, k, axis=axis)
    assert all(reference.same(x, y) for x, y in zip(found, reference.top_k(a, k, axis=axis), strict=True))


def keys_alike(rng, n, k, bits, below):
    """Lines of integers that agree in all but so many of their lower bits, many or some of them: those around the k-th.

    What is above or below them is at any place, or all at one end.
    """
    near = 5 * below + rng.integers(0, 1 << bits, (12, n))
    yield from near[:2]
    for other in (-1, 2):  # the last group has the best element, or the worst
        yield 5 * below + 1 + other * (np.arange(n) == n - 2)
    yield from np.sort(near[2:4])
    yield np.sort(near[4])[::-1]
    yield np.where(rng.random(n) < 0.5, near[5], rng.integers(0, 9, n) * below)
    for line, above in zip(near[6:], (0, 1, k - 1, k, n - k, n - 1), strict=True):
        others = np.arange(n) < min(above, n)
        line[others] = (7 - 4 * (above >= k)) * below + rng.integers(0, 1 << bits, others.sum())
        yield line
        yield line[::-1]
        yield rng.permutation(line)


@pytest.mark.parametrize("bits", [0, 2, 5, 6, 9])
@pytest.mark.parametrize("dtype", ["i4", "u4", "f4", "i8", "f8"])
@pytest.mark.parametrize("k", [1, 3, 6, 8, 16])
def test_short_lines_of_keys_alike(k, dtype, bits, room, methods, tune_top_k):
    """The network works on upper bits of keys, which tell elements apart in all lines, in some, or in none."""
    rng = np.random.default_rng(k)
    tune_top_k(
        short_lines=0,
        best_short_lines=0,
        few_elements=0,
        short_elements=1 << 13,
        least_short_lines=0,
        short_bytes=1 << 13,
        short_bytes_unaligned=1 << 13,
    )
    for n in [(17, 40)[(k + bits) % 2]] if room.SIMULATED else (16, 17, 31, 64, 97, 128, 131, 300):
        width = int(dtype[1])
        lines = [line for _ in range(1 if room.SIMULATED else 9) for line in keys_alike(rng, n, k, bits, 1 << 20)]
        a = np.stack(lines).astype(f"i{width}")
        a = ((a << 8 * width - 26) if bits == 9 else a).view(dtype)
        for mode, some in (("largest", a), ("smallest", a), ("largest", a[::2])):  # of few lines, a part at a time
            found = dml.top_k(some, k, mode=mode)
            assert all(map(reference.same, found, reference.top_k(some, k, mode=mode)))
    assert set(methods) == {"short lines"}


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["i1", "u2", "f2", "f4", "f8", "i8"])
@pytest.mark.parametrize("lines", [1, 3])
def test_the_best_of_parts(lines, dtype, kind, room, scale):
    """One block or several for a line, which begins anywhere, and ends so; the first of equal ones, in any part."""
    from numba_dml.cuda.tuning.top_k import TUNING

    rng = np.random.default_rng(len(kind))
    least = TUNING.parted_bytes // np.dtype(dtype).itemsize
    for n in {1, 2, least - 1, least, least + 1, 5 * least + 3}:
        line = np.stack([DISTRIBUTIONS[kind](rng, n) for _ in range(lines)])
        line = line if dtype[0] == "f" else np.abs(np.nan_to_num(line, nan=1.0))
        a = np.pad((line % 120).astype(dtype), ((0, 0), (1, 2)))[:, 1:-2]
        for mode, nan in (("largest", "first"), ("smallest", "last")):
            found = dml.top_k(a, 1, mode=mode, nan=nan)
            assert all(map(reference.same, found, reference.top_k(a, 1, mode=mode, nan=nan)))


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "u1"])
@pytest.mark.parametrize(("shape", "parts"), [((2, 3), 1), ((17, 33), 1), ((3, 40, 2), 1), ((300, 3), 7)])
def test_the_best_of_columns(shape, parts, dtype, kind, methods, scale, tune_top_k):
    """One thread or several for a column, with the lowest elements and NaNs too; the first of equal ones."""
    tune_top_k(part_threads=parts * shape[-1] * scale)
    shape = (*shape[:-1], shape[-1] * scale)
    a = DISTRIBUTIONS[kind](np.random.default_rng(len(shape)), int(np.prod(shape))).reshape(shape)
    a = (a if dtype[0] == "f" else np.abs(10 * np.nan_to_num(a, nan=3.0)) % 100).astype(dtype)
    limits = np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
    a[..., 0], a[..., -1] = limits.min, limits.max
    for mode, nan in (("largest", "last"), ("smallest", "first")):
        found = dml.top_k(a, 1, axis=-2, mode=mode, nan=nan)
        assert all(map(reference.same, found, reference.top_k(a, 1, axis=-2, mode=mode, nan=nan)))
    assert methods[0] == "best by lanes"


@pytest.mark.parametrize("kind", ["few", "nan", "ascending"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "u1"])
@pytest.mark.parametrize(
    ("shape", "axis", "step"),
    [
        ((500, 2), 0, 1),
        ((3000, 3), 0, 1),
        ((7, 40), 1, 2),
        ((3, 5000), 1, 2),
        ((400, 2), 1, 1),
        ((5, 3), 1, 2),
        ((30, 50, 4), 1, 1),
    ],
)
def test_the_best_by_lanes(shape, axis, step, dtype, kind, methods, room):
    """Few columns, elements that are no neighbours, and short lines: some lanes share a line, or each has one."""
    a = DISTRIBUTIONS[kind](np.random.default_rng(step), int(np.prod(shape))).reshape(shape)
    a = (a if dtype[0] == "f" else np.abs(np.nan_to_num(a, nan=3.0)) % 100).astype(dtype)
    part = (*(slice(None),) * (len(shape) - 1), slice(None, None, step))
    there = (a if room.SIMULATED else importlib.import_module("numba.cuda").to_device(a))[part]
    a = a[part]
    host = np.asarray if room.SIMULATED else methodcaller("copy_to_host")
    dml.cache_clear()
    for mode, nan in (("largest", "last"), ("smallest", "first")):
        found = map(host, dml.top_k(there, 1, axis=axis, mode=mode, nan=nan))
        assert all(map(reference.same, found, reference.top_k(a, 1, axis=axis, mode=mode, nan=nan)))
    assert reference.same(host(dml.argmax(there, axis=axis)), np.argmax(a, axis))
    last = a.shape[axis] - 1 - np.argmin(np.flip(a, axis), axis)
    assert reference.same(host(dml.argmin(there, axis=axis, ties="last")), last)
    if step == 1 or not room.SIMULATED:  # the copy of a host array has no gaps
        assert set(methods) == {"best by lanes"}


def test_no_lines(room):
    for k in (0, 1, 3):
        values, indices = dml.top_k(np.empty((0, 100_000), "f4"), k)
        assert values.shape == indices.shape == (0, k)


WARP_LINES = {
    **DISTRIBUTIONS,
    "steep": lambda rng, n: np.linspace(0, 40, n) ** 3 * rng.choice([-1, 1], n),
    "ends": lambda rng, n: np.where(np.abs(np.arange(n) - n / 2) > n / 2 - 5, 9.0, rng.integers(0, 3, n)),
    "lowest": lambda rng, n: np.where(rng.random(n) < 5 / n, rng.integers(0, 9, n), -np.inf),
    "one chunk": lambda rng, n: np.where(np.arange(n) // 64 == n // 100, 5.0 + np.arange(n) % 7, rng.random(n)),
}


@pytest.mark.parametrize("kind", WARP_LINES)
@pytest.mark.parametrize("dtype", ["u1", "f2", "bfloat16", "f4", "f8"])
def test_a_warp_for_each_line(dtype, kind, room, methods):
    """Lines that begin anywhere, of the sizes of several variants, and elements that are too many to list."""
    from numba_dml.cuda.driver import numba
    from numba_dml.cuda.kernels import top_k_warp
    from numba_dml.cuda.tuning.top_k import TUNING

    dml.cache_clear()
    rng = np.random.default_rng(len(kind))
    dtype = BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    most = top_k_warp.MOST_K
    sizes = [(3, 8), (most // 2, 16), (most, 32)] + ([] if room.SIMULATED else [(2, 16), (16, 64), (most, 64)])
    modes = ("largest", "last"), ("smallest", "last"), ("largest", "first")
    token = forced.set("lines by warps")
    for number, (k, units) in enumerate(sizes):  # for each lane
        n = (units * numba.LANES * 16 - 40) // dtype.itemsize | 1  # so lines begin at any element of 16 bytes
        a = np.stack([WARP_LINES[kind](rng, n) for _ in range(TUNING.warp_lines + 1)])
        if dtype.kind in "iu":
            a = np.nan_to_num(np.abs(a), nan=3.0, posinf=0.0) % 120
        a = a.astype(dtype)
        for mode, nan in [modes[(number + len(kind)) % 3]] if room.SIMULATED else modes:
            found = dml.top_k(a, k, mode=mode, nan=nan)
            expected = dml.top_k(a, k, mode=mode, nan=nan, target="cpu")
            assert all(map(reference.same, found, expected))
    forced.reset(token)
    assert set(methods) == {"lines by warps"}
    dml.cache_clear()


@pytest.mark.parametrize("kind", ["few", "equal", "clusters"])
@pytest.mark.parametrize("dtype", ["f4", "u1", "i8"])
def test_long_lists_with_ties(kind, dtype, room):
    """Ties fill lists up to their room, beyond what the threads of a block sort by digits."""
    rng = np.random.default_rng(2)
    lines, n, ks = (3, 300, (7, 10)) if room.SIMULATED else (1000, 20_000, (300, 1000, 2000))
    a = {
        "few": lambda: rng.integers(0, 10, (lines, n)),
        "equal": lambda: np.where(rng.random((lines, n)) < 0.002, 9, 3),
        "clusters": lambda: np.where(np.arange(n) // 40 % 9 == 3, 9, rng.integers(0, 5, (lines, n))),
    }[kind]().astype(dtype)
    for k in ks:
        order = np.argsort(-a.astype(np.int64), axis=-1, kind="stable")[:, :k]
        values, indices = dml.top_k(a, k)
        assert np.array_equal(indices, order)
        assert np.array_equal(values, np.take_along_axis(a, order, -1))


def for_every_width(number):
    return dict.fromkeys((1, 2, 4, 8), number)


SELECTED = {"selected_of_k": for_every_width(1.25), "least_selected": 1, "selected_lines": 1}
FEW = {"few_lines": for_every_width(99), "chosen_bytes": for_every_width(0)}


@pytest.mark.parametrize(
    ("settings", "n", "k", "method"),
    [
        ({}, 300, 3, "chosen"),
        ({**FEW, "most_chosen": for_every_width(2)}, 300, 3, "sort"),
        ({**FEW, "most_chosen": for_every_width(2), "chosen_bytes": for_every_width(10**6)}, 300, 3, "chosen"),
        ({**FEW, "long_bytes": 99, "most_chosen_long": 2}, 300, 3, "sort"),
        ({}, 60, 2, "block choice"),
        ({"delegates_time": 0, "delegates_time_of_one": for_every_width(0)}, 60, 2, "delegates"),
        ({"elements_of_k": for_every_width(10**6)}, 300, 20, "sort"),
        ({"elements_of_k": for_every_width(10**6), "large_input": 1}, 300, 20, "chosen"),
        (SELECTED, 20, 12, "selection"),
        (SELECTED, 20, 19, "sort of lines"),
        ({"shared_bytes": lambda: 0}, 20, 12, "sort"),
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "f4", "i8"])
def test_what_is_chosen_or_sorted(settings, n, k, method, dtype, methods, scale, tune_top_k, monkeypatch):
    """Few lines, large inputs, and devices with less shared memory."""
    from numba_dml.cuda.dispatch import top_k_facts

    n, k = n * scale, k * scale
    thresholds = {"few_lines": for_every_width(0), **settings}
    if "shared_bytes" in thresholds:
        monkeypatch.setattr(top_k_facts, "shared_bytes", thresholds.pop("shared_bytes"))
    tune_top_k(**thresholds)
    a = np.random.default_rng(n).integers(0, 9, (3, n)).astype(dtype)
    found = dml.top_k(a, k)
    assert all(map(reference.same, found, reference.top_k(a, k)))
    assert methods[0] in (("delegates", "block choice") if method == "chosen" else (method,))


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8"])
def test_lines_that_a_block_reads_in_batches(dtype, kind, room):
    """Of lines with several batches of units, those at both ends of a line, and a chunk of few units or of one."""
    from numba_dml.cuda.primitives.top_k import block_units, plan

    rng = np.random.default_rng(len(dtype))
    threads, ks = (plan.MOST_THREADS, (2, 9)) if room.SIMULATED else (1024, (30, 2000))
    n = 7 * block_units.AT_ONCE * threads * 16 // (2 * np.dtype(dtype).itemsize) + 3
    a = np.stack([DISTRIBUTIONS[kind](rng, n) for _ in range(2)])
    a = (a / 4 if dtype[0] == "f" else 50 * np.nan_to_num(a, nan=2.0) % 120).astype(dtype)
    for x, nan in ((np.pad(a, ((0, 0), (0, 13)))[:, :n], "last"), (a, "first")):
        for k in ks:
            found = dml.top_k(x, k, nan=nan)
            assert all(map(reference.same, found, reference.top_k(x, k, nan=nan)))


def test_lines_with_positions_of_64_bits_are_sorted(tune_top_k):
    tune_top_k(long_line=1)
    a = np.random.default_rng(1).integers(0, 9, (2, 300))
    tensor = dml.TensorDesc(a.dtype, a.shape)
    out = dml.TensorDesc(a.dtype, (2, 3)), dml.TensorDesc("u4", (2, 3))
    operator = dml.compile_operator(dml.TopK1Desc(tensor, *out, 1, 3, "DECREASING"), target="cuda")
    assert "sort" in repr(operator)
    assert all(map(reference.same, dml.top_k(a, 3), reference.top_k(a, 3)))


LAYOUTS = {
    "aligned": lambda a: a,
    "offset": lambda a: np.pad(a, ((0, 0), (1, 2)))[:, 1:-2],
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1],
    "turned": lambda a: np.moveaxis(a.reshape(4, -1, a.shape[1]), 0, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["i1", "u2", "f2", "f4", "u4", "f8"])
@pytest.mark.parametrize(("mode", "nan"), [("largest", "last"), ("largest", "largest"), ("smallest", "first")])
def test_layouts_of_short_lines(layout, dtype, mode, nan, scale):
    rng = np.random.default_rng(11)
    a = rng.integers(0, 4, (16 * scale, 12)).astype(dtype)
    if a.dtype.kind == "f":  # NaNs with several bits, both zeros, and too few numbers for some lines
        a = np.where(rng.random(a.shape) < 0.7, rng.choice([np.nan, -np.nan, -0.0, np.inf, -np.inf], a.shape), a)
        a = a.astype(dtype)
    a = LAYOUTS[layout](a)
    k = 5 if mode == "largest" else 3
    expected = reference.top_k(a, k, mode=mode, nan=nan)
    found = dml.top_k(a, k, mode=mode, nan=nan)
    assert all(reference.same(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize(("n", "k"), [(40, 1), (130, 2), (130, 13), (257, 30)])
def test_lists_that_are_too_long(n, k, kind, scale):
    """What reaches the bar of a survey is listed, kept in part, or counted by digits; ties follow in their order."""
    rng = np.random.default_rng(n + k)
    line = np.nan_to_num(np.stack([DISTRIBUTIONS[kind](rng, n * scale) for _ in range(2)]) * 50)
    dtype = ["f4", "u1", "i8", "f2", "i2"][(n + k + len(kind)) % 5]
    a = (np.abs(line) if dtype == "u1" else line).clip(-30000, 30000 if dtype != "u1" else 255).astype(dtype)
    for mode in ("largest", "smallest"):
        expected = reference.top_k(a, k, mode=mode)
        assert all(map(reference.same, dml.top_k(a, k, mode=mode), expected))


@pytest.mark.parametrize("nan", ["last", "largest"])
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8", "u2"])
def test_lines_beside_each_other(dtype, nan, scale):
    """Sixteen bytes of neighbouring lines are read together, where they are aligned; else single elements."""
    rng = np.random.default_rng(5)
    together = 16 // np.dtype(dtype).itemsize
    a = rng.integers(0, 200, (20 * scale, together + 1)).astype(dtype)
    if dtype[0] == "f":
        a[rng.random(a.shape) < 0.1] = np.nan
        a[rng.random(a.shape) < 0.1] = -0.0
    aligned = a[:, :-1].copy()
    for x, mode in [(aligned, "smallest"), (a, "largest")] if nan == "last" else [(aligned, "largest")]:
        expected = reference.top_k(x, 3, axis=0, mode=mode, nan=nan)
        assert all(map(reference.same, dml.top_k(x, 3, axis=0, mode=mode, nan=nan), expected))


@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_positions_of_64_bits(tune_top_k, dtype, scale):
    tune_top_k(long_line=1)
    a = np.random.default_rng(4).integers(0, 9, (2, 90 * scale)).astype(dtype)
    assert all(reference.same(x, y) for x, y in zip(dml.top_k(a, 5), reference.top_k(a, 5), strict=True))


def large_selection(tune_top_k, a, k, scale, **parameters):
    """Check a large k, with delegates wherever these are possible."""
    tune_top_k(delegates_bytes=0)
    k *= 1 if scale == 1 else 2 * scale
    found, expected = dml.top_k(a, k, **parameters), reference.top_k(a, k, **parameters)
    assert all(reference.same(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_large_k_of_zeros_and_nans(tune_top_k, mode, scale):
    special = np.array([0, 0x8000, 0x7C00, 0xFC00, 0x7C01, 0xFE12, 0x3C00, 0xBC00, 1], np.uint16)
    a = np.random.default_rng(1).choice(special, (1, 170 * scale)).view(np.float16)
    large_selection(tune_top_k, a, 80, scale, mode=mode, nan="largest")


@pytest.mark.parametrize(("dtype", "n"), [("i4", 500), ("u1", 1500), ("i8", 200)])
def test_large_k_by_delegates_up_to_the_highest_keys(tune_top_k, dtype, n, scale):
    limits = np.iinfo(dtype)
    n *= scale if scale == 1 else 16 * scale
    a = np.random.default_rng(2).integers(limits.min, limits.max, (1, n + 1), dtype, endpoint=True)[:, 1:]
    large_selection(tune_top_k, a, 34, scale)


def test_large_k_of_columns_by_delegates(tune_top_k, scale):
    n = 280 * (scale if scale == 1 else 16 * scale)
    large_selection(tune_top_k, np.random.default_rng(3).integers(0, 50, (n, 2)).astype("f4"), 34, scale, axis=0)


@pytest.mark.parametrize(("dtype", "n"), [("u1", 1200), ("f4", 130)])
def test_large_k_with_positions_of_64_bits(tune_top_k, dtype, n, scale):
    tune_top_k(sort_long_line=1)
    large_selection(tune_top_k, np.random.default_rng(4).integers(0, 9, (1, n * scale)).astype(dtype), 34, scale)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
def test_groups_of_every_size(dtype, lanes, room, methods, scale, tune_top_k, monkeypatch):
    """Of as many times 16 bytes: lanes share several groups out, have one, or a group has several of each lane."""
    from numba_dml.cuda.calls.ways import top_k as top_k_ways

    if room.SIMULATED and lanes > 8:
        pytest.skip("longer than what a warp of the simulator reads")
    width, maxima_bytes = np.dtype(dtype).itemsize, 32 if room.SIMULATED else 2048
    tune_top_k(maxima_bytes=maxima_bytes, maxima_bytes_few_lines=maxima_bytes)
    monkeypatch.setattr(top_k_ways, "delegate_group", lambda *_: lanes * 16 // width)
    a = np.random.default_rng(lanes).integers(0, 120, (2, 960 * scale // width + 5)).astype(dtype)
    for x in (np.ascontiguousarray(a[:, :-1]), a[:, 1:]):
        assert all(map(reference.same, dml.top_k(x, 3), reference.top_k(x, 3)))
    assert set(methods) == {"delegates"}


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
def test_groups_that_begin_before_a_line(start, dtype, scale):
    a = np.random.default_rng(3).integers(0, 99, (3, 77 * scale + 4)).astype(dtype)[:, start : start + 77 * scale]
    assert all(reference.same(x, y) for x, y in zip(dml.top_k(a, 3), reference.top_k(a, 3), strict=True))
    columns = dml.top_k(a.T, 3, axis=0, mode="smallest")
    assert all(
        reference.same(x, y) for x, y in zip(columns, reference.top_k(a.T, 3, axis=0, mode="smallest"), strict=True)
    )


RIVALS = DISTRIBUTIONS | {
    # The best are in few groups, which have rivals among the best; and beside each other.
    "close": lambda rng, n: rng.standard_normal(n) + 9 * (np.arange(n) // 8 % 5 == 1) * (rng.random(n) < 0.5),
    "wave": lambda rng, n: np.sin(np.arange(n) * (6.3 / n) + rng.random() * 6.3) * 50 + 60,
    "descending": lambda rng, n: np.arange(n, 0, -1.0),
}


@pytest.mark.parametrize("kind", RIVALS)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f2", "i4", "f4", "i8", "f8"])
def test_delegates_and_their_rivals(dtype, kind, room, methods):
    """Lines beside each other, some of 16 bytes together; groups of one seat and of several, the last one in part."""
    rng = np.random.default_rng(len(kind))
    shapes = [(1030, 160), (4001, 77), (65000, 320), (9000, 2048), (700, 96)]
    cases = list(zip(shapes, (8, 32, 5, 9, 32), strict=True))
    if room.SIMULATED:
        cases = [((33, 16), 2)] if len(dtype + kind) % 2 else [((61, 5), 2)]
    dml.cache_clear()
    for (n, count), k in cases:
        lines = np.stack([RIVALS[kind](rng, n) for _ in range(count)], -1)
        a = (lines if dtype[0] == "f" else np.abs(np.nan_to_num(lines)) % 100).astype(dtype)
        middle = np.ascontiguousarray(np.stack([a, a[::-1]]))
        for x, axis in ((a, 0), (middle, 1)):
            for mode, nan in (("largest", "first"), ("smallest", "last"), ("largest", "last")):
                if room.SIMULATED and (mode, nan, axis) != ("largest", "last", 0) and len(dtype + kind + mode) % 2:
                    continue
                found = dml.top_k(x, k, axis=axis, mode=mode, nan=nan)
                expected = dml.top_k(x, k, axis=axis, mode=mode, nan=nan, target="cpu")
                assert all(map(reference.same, found, expected))
    assert set(methods) == {"lines beside each other"}


@pytest.mark.parametrize("kind", RIVALS)
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8"])
def test_long_lists_of_the_best(dtype, kind, room, methods):
    """Chunks of every size, lists without a power of two as their room, sorted by values or by digits."""
    rng = np.random.default_rng(5)
    dml.cache_clear()
    cases = [(400, 14), (64, 12)] if room.SIMULATED else [(131072, 2048), (70001, 1500), (30000, 1000)]
    for n, k in cases:
        if room.SIMULATED and len(dtype + kind) % 2 == (n > 64):
            continue
        lines = np.stack([RIVALS[kind](rng, n) for _ in range(2 if room.SIMULATED else 20)])
        with np.errstate(over="ignore"):  # of long lines that ascend many are infinite as float16: ties
            a = (lines if dtype[0] == "f" else np.abs(np.nan_to_num(lines)) % 100).astype(dtype)
        mode = "largest" if dtype < "f4" else "smallest"
        expected = dml.top_k(a, k, mode=mode, target="cpu")
        assert all(map(reference.same, dml.top_k(a, k, mode=mode), expected))
    assert {"delegates", "block choice"} & set(methods)


#: Small calls by their shape, k, axis and data type, and the row of the table that each takes: in the simulator, and on
#: a GPU like those that the thresholds are for.
REGIONS = {
    "nothing": (((3, 5), 0, 1, "f4"),) * 2,
    "best by lanes": (((9, 2), 1, 1, "f2"), ((9, 24), 1, 1, "f2")),
    "short lines": (((12, 10), 2, 1, "i4"), ((5000, 20), 2, 1, "i4")),
    "best": (((2, 70), 1, 1, "u1"), ((5, 3000), 1, 1, "u1")),
    "selection by warps": (((2, 7), 6, 1, "i8"), ((2, 100), 60, 1, "i8")),
    "lines by warps": (((5, 44), 2, 1, "f4"), ((1000, 2000), 5, 1, "f4")),
    "lines beside each other": (((25, 5), 2, 0, "f4"), ((4096, 300), 3, 0, "f4")),
    "selection": (((3, 18), 9, 1, "u1"), ((150, 3000), 1400, 1, "u1")),
    "delegates": (((60, 3), 3, 0, "f2"), ((400000,), 7, 0, "f2")),
    "block choice": (((2, 60), 2, 1, "f4"), ((2, 1300), 50, 1, "f4")),
    "sort of lines": (((2, 17), 15, 1, "u1"), ((2, 3000), 2900, 1, "u1")),
    "sort": (((40,), 29, 0, "f4"), ((300000,), 9000, 0, "f4")),
}


def case_of_region(name, room):
    """Return an array with ties, NaNs and two zeros, k, and how to select."""
    shape, k, axis, dtype = REGIONS[name][not room.SIMULATED]
    rng = np.random.default_rng(len(name))
    a = rng.integers(0, 9, shape).astype(dtype)
    if dtype[0] == "f":
        a[rng.random(shape) < 0.2] = np.nan
        a[rng.random(shape) < 0.1] = -0.0
    return a, k, {"axis": axis, "mode": "largest" if len(name) % 2 else "smallest"}


@pytest.fixture
def regions(room, monkeypatch):
    """The rows of the table that calls of top-k have taken, as they are built."""
    from numba_dml.cuda.calls import top_k as calls_top_k

    found = []

    def noted(*args):
        region = first(*args)
        found.append(region.name)
        return region

    monkeypatch.setattr(calls_top_k, "first", noted)
    dml.cache_clear()
    yield found
    dml.cache_clear()


def region_of(a, k, regions, axis, mode):
    """Return the row that a call takes; nothing runs."""
    shape = tuple(k if d == axis else n for d, n in enumerate(a.shape))
    outputs = dml.TensorDesc(a.dtype, shape), dml.TensorDesc("i8", shape)
    direction = "DECREASING" if mode == "largest" else "INCREASING"
    dml.cache_clear()
    dml.compile_operator(dml.TopK1Desc(dml.TensorDesc(a.dtype, a.shape), *outputs, axis, k, direction), target="cuda")
    return regions.pop()


def test_each_row_of_top_k_has_a_case(room, regions):
    from numba_dml.cuda.calls.top_k import WAYS as CLASSES
    from numba_dml.cuda.dispatch.top_k import TABLE

    assert [region.name for region in TABLE] == list(REGIONS) == list(CLASSES)
    for name in REGIONS:
        a, k, parameters = case_of_region(name, room)
        assert region_of(a, k, regions, **parameters) == name


@pytest.mark.parametrize("row", REGIONS)
def test_each_row_of_top_k_can_what_it_says(row, room, regions):
    """Wherever a row's `can` allows it, its kernels return the right bits, whether they are fast there or not."""
    token = forced.set(row)
    try:
        tried = []
        for name in REGIONS:
            a, k, parameters = case_of_region(name, room)
            if region_of(a, k, regions, **parameters) == row:
                tried.append(name)
                found = dml.top_k(a, k, **parameters)
                expected = reference.top_k(a, k, **parameters)
                assert set(regions) == {row}
                assert all(map(reference.same, found, expected)), name
                values, indices = dml.top_k(a, k, sorted=False, **parameters)
                axis = parameters["axis"]
                assert np.array_equal(np.sort(indices, axis), np.sort(expected[1], axis)), name
                assert reference.same(values, np.take_along_axis(a, indices, axis)), name
                regions.clear()
    finally:
        forced.reset(token)
    assert row in tried


#: Bits of float16 from the largest to the smallest, equal ones together; and those of NaNs.
LARGEST_FIRST = [[0x7C00], [0x7BFF], [0x3C00], [1], [0, 0x8000], [0x8001], [0xFBFF], [0xFC00]]
NANS = [0x7E00, 0xFE00, 0x7C01]


@pytest.mark.parametrize(
    ("mode", "nan", "is_first"),
    [
        ("largest", "last", False),
        ("largest", "first", True),
        ("largest", "largest", True),
        ("smallest", "last", False),
        ("smallest", "first", True),
        ("smallest", "largest", False),  # the largest is the last of the smallest
    ],
)
@pytest.mark.parametrize("row", [row for row in REGIONS if row != "nothing"])
def test_each_row_of_top_k_has_the_order_of_float16(row, mode, nan, is_first, room, regions):
    order = LARGEST_FIRST if mode == "largest" else LARGEST_FIRST[::-1]
    order = [NANS, *order] if is_first else [*order, NANS]
    rank = {bits: place for place, equal in enumerate(order) for bits in equal}
    a, k, parameters = case_of_region(row, room)
    axis, n = parameters["axis"], a.shape[parameters["axis"]]
    kinds = [np.resize(np.roll([*rank], kind), n).astype("u2") for kind in range(len(rank))]  # lines are of these
    best = [sorted(range(n), key=lambda i, line=line: (rank[line[i]], i))[:k] for line in kinds]
    count = a.size // n
    x = np.moveaxis(np.array([kinds[i % len(kinds)] for i in range(count)]).reshape(-1, n), 1, axis - a.ndim)
    x = np.ascontiguousarray(x.reshape(a.shape)).view("f2")
    token = forced.set(row)
    try:
        found = dml.top_k(x, k, axis=axis, mode=mode, nan=nan)
    finally:
        forced.reset(token)
    assert regions == [row]
    expected = np.array([best[i % len(kinds)] for i in range(count)])
    assert np.array_equal(np.moveaxis(found.indices, axis, -1).reshape(count, k), expected)
    assert np.array_equal(found.values.view("u2"), np.take_along_axis(x.view("u2"), found.indices, axis))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # the simulator's; that number is not used
@pytest.mark.parametrize("row", ["selection", "selection by warps", "sort"])
@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f2", "f4", "i8", "f8"])
def test_a_selection_of_much_of_a_line(dtype, kind, row, room, regions):
    """The same elements, sorted or not, from contiguous lines and from others; ties go to the lower index."""
    rng = np.random.default_rng(len(kind))
    sizes = [(23, 9), (16, 11)] if room.SIMULATED else [(129, 100), (1000, 500), (8191, 4000), (16_000, 3000)]
    if row == "selection by warps":
        sizes = [(9, 9), (13, 9), (16, 16)] if room.SIMULATED else [(100, 100), (200, 31), (500, 256), (512, 100)]
    token = forced.set(row)
    try:
        for n, k in sizes:
            lines = np.stack([DISTRIBUTIONS[kind](rng, n) for _ in range(3)])
            a = (lines if dtype[0] == "f" else np.nan_to_num(lines)).astype(dtype)
            for x, axis in ((a, 1), (np.ascontiguousarray(a.T), 0)):
                mode = "largest" if axis else "smallest"
                expected = reference.top_k(x, k, axis=axis, mode=mode)
                assert all(map(reference.same, dml.top_k(x, k, axis=axis, mode=mode), expected))
                values, indices = dml.top_k(x, k, axis=axis, mode=mode, sorted=False)
                assert np.array_equal(np.sort(indices, axis), np.sort(expected[1], axis))
                assert reference.same(values, np.take_along_axis(x, indices, axis))
    finally:
        forced.reset(token)
    assert set(regions) == {row}


def test_no_line_that_a_block_can_select_from_is_sorted_by_many_blocks(room):
    """Between the rows that select and those that choose there is no gap, which would take much memory and time."""
    from numba_dml.cuda.dispatch import top_k as table
    from numba_dml.cuda.dispatch.top_k_facts import Facts
    from numba_dml.cuda.driver.context import shared_bytes
    from numba_dml.cuda.kernels.top_k_short import THREAD_LISTS
    from numba_dml.cuda.kernels.top_k_warp import units_for
    from numba_dml.cuda.tuning.top_k import TUNING

    rng = np.random.default_rng(0)
    names = []
    for _ in range(20_000):
        n = int(2 ** rng.uniform(0, 7 if room.SIMULATED else 16))
        k = int(np.ceil(n * 2 ** rng.uniform(-6, 0)))
        lines, width = int(2 ** rng.uniform(0, 20)), int(2 ** rng.integers(0, 4))
        packed, is_sorted = bool(rng.random() < 0.7), bool(rng.random() < 0.5)
        thread_list = next((length for length in THREAD_LISTS if length >= k), 0)
        units = units_for(n, k, width) if packed else 0
        layout = (packed, False, False, False, False)
        facts = Facts(lines, n, k, width, max(width, 4), False, *layout, thread_list, units, shared_bytes(), is_sorted)
        name = first(table.TABLE, facts, TUNING).name
        names.append(name)
        if table.fits_selection(facts, TUNING) and (
            not is_sorted or (lines >= TUNING.selected_lines and n >= table.least_selected(facts, TUNING))
        ):
            assert name != "sort", facts
    assert {"sort", "selection", "block choice", "selection by warps"} <= set(names)


@pytest.mark.parametrize("points", [1, 31, 33, 64, 200])
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_updates_around_the_size_of_a_block(points, reduction):
    rng = np.random.default_rng(8)
    a = rng.standard_normal((12, 3)).astype("f4")
    i = rng.integers(-12, 12, (points, 1))
    u = rng.standard_normal((points, 3)).astype("f4")
    found = dml.scatter_nd(a, i, u, reduction=reduction)
    np.testing.assert_array_equal(found, reference.scatter_nd(a, i, u, reduction=reduction))


@pytest.mark.parametrize("few_units", [0, 1 << 40])
@pytest.mark.parametrize("points", [1, 33, 300])
def test_units_of_a_thread(points, few_units, room, monkeypatch):
    """A thread moves one or several, whole blocks of them and what is left."""
    tune(monkeypatch, few_units=few_units)
    dml.cache_clear()
    points *= 1 if room.SIMULATED else 8  # several blocks of 1024
    rng = np.random.default_rng(points)
    a = rng.standard_normal((2 * points, 3)).astype("f4")
    i = rng.integers(-points, points, (points, 1))
    u = rng.standard_normal((points, 3)).astype("f4")
    agree(dml.gather_nd, reference.gather_nd, a, i, sizes=[2 * points])
    agree(dml.scatter_nd, reference.scatter_nd, a, i, u, sizes=[2 * points])
    in_place(None, lambda *tensors: dml.ScatterNDDesc(*tensors, 2, 2), reference.scatter_nd, a, i, u)
    i = rng.permutation(2 * points)[:points, None]
    agree(partial(dml.scatter_nd, unique=True), reference.scatter_nd, a, i, u, sizes=[2 * points])
    dml.cache_clear()


@pytest.mark.parametrize("most", [1 << 63, 1])
@pytest.mark.parametrize("kind", ["the last entries", "few places", "many"])
def test_a_table_of_places(kind, most, room, monkeypatch):
    """Places that come to the last entries of the table at once, updates that race for one, and a table half full."""
    from numba_dml.cuda.dispatch import scatter_general
    from numba_dml.cuda.primitives.moves import claims
    from numba_dml.cuda.tuning.moves import Sparse

    tune(monkeypatch, places_per_merged=(0, 0, 0), sparse=(Sparse(4, 2),), few_points=0)
    monkeypatch.setattr(scatter_general, "MOST_TABLED", most)
    dml.cache_clear()
    scale = 1 if room.SIMULATED else 256
    rng = np.random.default_rng(3)
    if kind == "the last entries":
        spread = getattr(claims.spread, "py_func", claims.spread)
        i = np.array([place for place in range(3000) if spread(place) & 31 >= 28][:16])
        assert len(i) == 16
    else:
        i = rng.integers(0, 3 if kind == "few places" else 3000 * scale, 128 * scale)
    a, u = np.zeros(3000 * scale, "i4"), np.arange(1, len(i) + 1, dtype="i4")
    expected = a.copy()
    expected[i] = u  # the last one stays
    tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a[:, None], i[:, None], u[:, None], a[:, None])]
    layouts = tuple((x.strides, x.dtype) for x in (a[:, None], i[:, None], u[:, None]))
    from numba_dml.cuda import call as build

    call = build(dml.ScatterNDDesc(*tensors, 2, 2), layouts, (a.shape,), None)
    assert (call.region is scatter_general.TABLED) is (most > 1)
    assert dml.scatter_nd(a, i[:, None], u).tolist() == expected.tolist()
    dml.cache_clear()


def test_claims_of_many_points(room, monkeypatch):
    from numba_dml.cuda.dispatch import scatter_general

    a, i = np.zeros(7), np.array([[3], [3], [0], [3]])
    expected = [3, 0, 0, 4, 0, 0, 0]
    assert dml.scatter_nd(a, i, np.array([1.0, 2, 3, 4])).tolist() == expected
    monkeypatch.setattr(scatter_general, "MOST_SHORT_CLAIMS", 2)
    dml.cache_clear()
    assert dml.scatter_nd(a, i, np.array([1.0, 2, 3, 4])).tolist() == expected
    dml.cache_clear()


def test_the_first_deferred_error_is_raised_at_the_check():
    a = np.arange(5.0)
    dml.check()
    assert dml.gather(a, [1, 9], bounds="deferred").tolist() == [1.0, 0.0]
    dml.gather(a, [-7], bounds="deferred")
    assert dml.scatter_nd(a, [[7], [2]], [1.0, 2.0], bounds="deferred").tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(IndexError, match=r"gather: indices\[1\] = 9 is out of range for axis 0 of size 5"):
        dml.check()
    dml.check()


def test_a_bad_index_of_a_call_that_is_gone_is_raised_all_the_same(room):
    """As of a graph that is replayed after its operator was dropped."""
    from numba_dml.cuda.primitives import bad_indices

    dml.check()
    words = bad_indices.records_of(0).deferred.words
    words[[bad_indices.POSITION, bad_indices.VALUE, bad_indices.PLAN]] = 3, 7, 0  # of no plan
    words[bad_indices.LAUNCH] = 1
    with pytest.raises(IndexError, match="index 7 at flat position 3 of a deferred call's indices is out of range"):
        dml.check()
    dml.check()


def test_without_a_device_the_sentence_says_so():
    code = "import numba_dml as dml; dml.gather([1], [0], target='cuda')"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "NUMBA_ENABLE_CUDASIM": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "RuntimeError: target 'cuda': no GPU can be used" in done.stderr


def test_the_arrays_of_every_library(torch):
    a, i = np.arange(12.0, dtype="f4").reshape(4, 3), np.array([[2], [0]])
    expected = reference.gather_nd(a, i)
    makers = {"torch": lambda x: torch.as_tensor(x, device="cuda")}
    if importlib.util.find_spec("cupy"):
        makers["cupy"] = importlib.import_module("cupy").asarray
    if importlib.util.find_spec("jax"):
        makers["jax"] = importlib.import_module("jax.numpy").asarray
    makers["numba"] = importlib.import_module("numba.cuda").to_device
    for name, make in makers.items():
        x, j = make(a), make(i)
        found = dml.gather_nd(x, j)
        assert type(found) is type(x), name
        host = found.copy_to_host() if name == "numba" else found.cpu().numpy() if name == "torch" else found
        np.testing.assert_array_equal(host.get() if name == "cupy" else np.asarray(host), expected)
        with pytest.raises(IndexError, match=r"gather: indices\[1\] = 4 is out of range for axis 0 of size 4"):
            dml.gather(x, make(np.array([1, 4])))


def test_tensors_on_streams_in_graphs_and_strided(torch):
    x = torch.arange(24.0, device="cuda").reshape(4, 6)
    i = torch.tensor([[1, 2]], device="cuda")
    out = torch.empty(2, 6, device="cuda")
    descriptor = dml.GatherDesc(
        dml.TensorDesc("float32", (4, 6)),
        dml.TensorDesc("int64", (1, 2)),
        dml.TensorDesc("float32", (2, 6)),
        0,
        1,
        bounds="deferred",
    )
    operator = dml.compile_operator(descriptor, target="cuda")
    assert operator(x, i, out=out) is out
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        operator(x, i, out=out)
    out.zero_()
    graph.replay()
    assert torch.equal(out, x[1:3])
    for _ in range(2):  # a replay is checked, too, and again
        dml.check()
        i[0, 1] = 4
        graph.replay()
        with pytest.raises(IndexError, match=r"gather: indices\[0, 1\] = 4 is out of range for axis 0 of size 4"):
            dml.check()
        i[0, 1] = 2
    graph.replay()
    dml.check()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert torch.equal(dml.gather(x, i[0]), x[1:3])
    result = dml.gather(x * 2, i[0], stream=stream)
    stream.synchronize()
    assert torch.equal(result, x[1:3] * 2)
    columns = x.T[:, ::2]
    assert torch.equal(dml.gather(columns, torch.tensor([1, 0], device="cuda"), axis=1), columns.flip(1))
    strided = torch.zeros(2, 12, device="cuda")
    assert dml.gather(x, i[0], out=strided[:, ::2]) is not None
    assert torch.equal(strided[:, ::2], x[1:3])
    assert not strided[:, 1::2].any()
    values, indices = dml.top_k(x.T, 2, axis=1)
    assert torch.equal(indices, torch.tensor([[3, 2]] * 6, device="cuda"))
    assert torch.equal(values, x.T.gather(1, indices))


def test_calls_run_where_their_arrays_are(torch):
    """Not on the device that is current: the same operators, on one device and on the other."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    rng = np.random.default_rng(0)
    a, i = rng.standard_normal((2000, 5)).astype("f4"), rng.integers(-2000, 2000, (300, 1))
    u, columns = rng.standard_normal((300, 5)).astype("f4"), rng.integers(0, 2000, (100, 5))
    bad = i.copy()
    bad[7] = 5000
    tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a, columns, a[:100])]
    held = dml.compile_operator(dml.GatherElementsDesc(*tensors, axis=0), target="cuda")
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        x, j, new, lines = (torch.as_tensor(array, device=device) for array in (a, i, u, columns))
        results = {
            "gather_nd": (dml.gather_nd(x, j), reference.gather_nd(a, i)),
            "held": (held(x, lines, out=x.new_empty(100, 5)), reference.gather_elements(a, columns, axis=0)),
            "add": (dml.scatter_nd(x, j, new, reduction="add"), reference.scatter_nd(a, i, u, reduction="add")),
            "in place": (dml.scatter_nd(x, j, new, out=x.clone()), reference.scatter_nd(a, i, u)),
            "top_k": (dml.top_k(x, 40, axis=0).indices, reference.top_k(a, 40, axis=0)[1]),
            "a long line": (dml.top_k(x.reshape(-1), 700).values, reference.top_k(a.reshape(-1), 700)[0]),
        }
        for name, (found, expected) in results.items():
            assert found.device == x.device, name
            assert reference.same(found.cpu().numpy(), expected), name
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(x.device))
        found = dml.gather_nd(x, j, stream=stream)
        stream.synchronize()
        assert reference.same(found.cpu().numpy(), reference.gather_nd(a, i))
        wrong = torch.as_tensor(bad, device=device)
        error = r"indices\[7, 0\] = 5000 is out of range"
        with pytest.raises(IndexError, match=error):
            dml.gather_nd(x, wrong)
        dml.scatter_nd(x, wrong, new, bounds="deferred")
        with pytest.raises(IndexError, match=error):
            dml.check()
    assert torch.cuda.current_device() == 0
    with pytest.raises(ValueError, match=r"gather_nd: indices: found an array on device 0, .*device 1"):
        dml.gather_nd(x, j.to("cuda:0"))
    with pytest.raises(ValueError, match=r"gather_nd: out: found an array on device 0, expected device 1"):
        dml.gather_nd(x, j, out=torch.empty(300, 5, device="cuda:0"))


def test_a_capture_is_refused_before_it_breaks(torch):
    x, out = torch.arange(12.0, device="cuda").reshape(4, 3), torch.empty(2, 3, device="cuda")
    i, u = torch.tensor([[1], [3]], device="cuda"), torch.ones(2, 3, device="cuda")
    dml.gather_nd(x, i, out=out, bounds="deferred")
    graph = torch.cuda.CUDAGraph()
    found = "found 'raise' on a stream that is captured in a CUDA graph, expected 'deferred' or 'drop'"
    with torch.cuda.graph(graph):
        with pytest.raises(RuntimeError, match=f"gather_nd: bounds: {found}"):
            dml.gather_nd(x, i, out=out)
        with pytest.raises(RuntimeError, match=f"scatter_nd: bounds: {found}"):
            dml.scatter_nd(x, i, u, out=x)
        dml.gather_nd(x, i, out=out, bounds="deferred")
    out.zero_()
    graph.replay()
    assert torch.equal(out, x[[1, 3]])
    dml.gather_nd(x, i)
    dml.check()


def test_what_is_made_at_the_first_call_cannot_be_captured(torch):
    from cuda.bindings import driver

    x = torch.arange(12.0, device="cuda").reshape(4, 3)
    out, stream = dml.top_k(x, 1), torch.cuda.Stream()
    dml.cache_clear()
    driver.cuStreamBeginCapture(stream.cuda_stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    try:
        error = "expected a call before the capture with arrays of the same layout, which makes kernels and plans"
        with pytest.raises(RuntimeError, match=error), torch.cuda.stream(stream):
            dml.top_k(x, 1, out=out)
    finally:
        driver.cuStreamEndCapture(stream.cuda_stream)
    assert torch.equal(dml.top_k(x, 1).values, x[:, 2:])


def test_a_first_gather_can_be_captured(torch):
    """Its kernel is there; its plan, which is not, needs no memory."""
    x, i = torch.arange(12.0, device="cuda").reshape(4, 3), torch.tensor([1], device="cuda")
    out, graph = dml.gather(x, i), torch.cuda.CUDAGraph()
    dml.cache_clear()
    with torch.cuda.graph(graph):
        dml.gather(x, i, out=out, bounds="deferred")
    dml.cache_clear()
    i.fill_(2)
    graph.replay()
    assert torch.equal(out, x[2:3])
    i.fill_(4)
    graph.replay()
    with pytest.raises(IndexError, match=r"gather: indices\[0\] = 4 is out of range for axis 0 of size 4"):
        dml.check()


def test_a_second_process_finds_the_kernels(room, tmp_path):
    """They are kept on disk, closures too, and told apart; what is damaged is compiled again."""
    if room.SIMULATED:
        pytest.skip("needs a device")
    code = """
import gc
import numpy as np
import numba_dml as dml
from numba import cuda
from numba_dml.cuda.driver.launch import Kernel

compiled, compile = [], cuda.compile
cuda.compile = lambda function, *args, **options: compiled.append(function) or compile(function, *args, **options)
a, i, u = np.arange(12.0).reshape(4, 3), np.array([[1], [3]]), np.ones((2, 3))
for dtype in ("f4", "f8", "u1", "i8"):
    x = a.astype(dtype)
    assert dml.gather_nd(x, i, target="cuda").tolist() == x[[1, 3]].tolist()
    found = dml.scatter_nd(x, i, u.astype(dtype), reduction="add", target="cuda")
    assert (found - x).sum() == 6
    assert dml.scatter_nd(x, i, u.astype(dtype), target="cuda")[3].tolist() == [1, 1, 1]
    for axis in (0, 1):
        assert dml.top_k(x, 2, axis=axis, target="cuda").indices[0, 0] == (2 if axis else 3)
    assert dml.top_k(np.arange(9000).astype(dtype), 3, target="cuda").values.size == 3
kernels = [kernel for kernel in gc.get_objects() if type(kernel) is Kernel and kernel.handles]
print(len(kernels), len(compiled))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def numbers():
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [int(word) for word in done.stdout.split()]

    count, compiled = numbers()
    assert compiled == count > 15
    assert numbers() == [count, 0]
    files = sorted(tmp_path.rglob("*.cubin"))
    assert len(files) == count
    for file in files[:3]:
        file.write_bytes(file.read_bytes()[:-1])
    assert numbers() == [count, 3]
    assert numbers() == [count, 0]


def test_the_file_of_a_kernel(room, tmp_path, monkeypatch):
    from numba_dml.cuda.driver import cache

    monkeypatch.setattr(cache, "_directory", lambda: tmp_path)

    def kernel(x):
        return x

    file = cache.file_of(kernel, 1, (9, 0))
    assert file == cache.file_of(kernel, 1, (9, 0)) != cache.file_of(kernel, 2, (9, 0))
    assert file.parent == tmp_path
    assert file.suffix == ".cubin"
    assert cache.load(file) is None
    cache.save(file, b"code")
    assert os.listdir(tmp_path) == [file.name]
    assert cache.load(file) == b"code"
    whole = file.read_bytes()
    for other in (whole[:-1], whole + b"!", b"", b"\0" + whole[1:]):
        file.write_bytes(other)
        assert cache.load(file) is None
    cache.save(file, b"new")
    assert cache.load(file) == b"new"
    monkeypatch.setattr(cache, "_versions", lambda: ("another",))
    assert cache.file_of(kernel, 1, (9, 0)) != file
    monkeypatch.setattr(cache, "_source_stamp", lambda: ("another",))
    assert cache.load(file) is None


def test_a_cache_of_kernels_that_fails(room, tmp_path, monkeypatch):
    from numba_dml.cuda.driver import cache

    cache._warn.cache_clear()
    monkeypatch.setattr(cache, "_directory", lambda: tmp_path / "new" / "one")
    file = cache.file_of(test_the_file_of_a_kernel)
    cache.save(file, b"code")
    assert cache.load(file) == b"code"
    (tmp_path / "file").write_text("no directory")
    with pytest.warns(RuntimeWarning, match="its disk cache fails .FileExistsError.*Set NUMBA_CACHE_DIR"):
        cache.save(tmp_path / "file" / file.name, b"code")
    (tmp_path / "folder").mkdir()
    with pytest.warns(RuntimeWarning, match="its disk cache fails .IsADirectoryError"):
        assert cache.load(tmp_path / "folder") is None
    monkeypatch.setattr(cache, "_directory", lambda: None)
    assert cache.file_of(test_the_file_of_a_kernel) is None
    assert cache.load(None) is None
    cache.save(None, b"code")


def test_closures_are_told_apart_by_what_they_close_over():
    from numba_dml.cuda.driver.cache import describe

    def make(*numbers, inner=None, outer=np.float32):
        def kernel(x):
            return numbers, inner, outer, x

        return kernel

    variants = [make(1), make(2), make(1.0), make("1"), make(1, 2), make((1, 2)), make(inner=make(1))]
    variants += [make(inner=make(2)), make(outer=np.dtype("f4")), make(outer={"a": 1}), make(outer=np)]
    texts = [describe(variant) for variant in variants]
    assert len(set(texts)) == len(texts)
    assert describe(make(1, inner=make(2))) == describe(make(1, inner=make(2)))
    assert describe(types.SimpleNamespace(py_func=make(1))) == texts[0]
    with pytest.raises(TypeError, match="found object in a kernel's closure"):
        describe(make(object()))


def test_an_output_that_is_negated_when_it_is_read(torch):
    """Its memory has other bits than its elements, so that the result is copied to it."""
    z = torch.zeros(3, dtype=torch.complex64, device="cuda")
    out = z.conj().imag
    assert out.is_neg()
    x = torch.tensor([1.0, -2.0, 3.0], device="cuda")
    assert dml.gather(x, torch.tensor([2, 1, 0], device="cuda"), out=out) is out
    assert out.tolist() == [3.0, -2.0, 1.0]
    assert z.imag.tolist() == [-3.0, 2.0, -1.0]


class Bare:
    """An array of a library that has the interface alone; no method of it copies."""

    __cuda_array_interface__ = property(lambda self: self.face)

    def __init__(self, memory, pointer, view):
        self.memory, data = memory, (pointer, False)
        self.face = {
            "shape": view.shape,
            "strides": view.strides,
            "typestr": view.dtype.str,
            "data": data,
            "version": 3,
        }


OUTPUTS = {
    "every second column": lambda m: m[:4, :6:2],
    "transposed": lambda m: m[:3, :4].T,
    "reversed": lambda m: m[3::-1, 2::-1],
    "rows apart": lambda m: m[::2, 1:4],
    "in the input": lambda m: m.reshape(-1)[4:16].reshape(4, 3),
    "deep": lambda m: m.reshape(4, 4, 4)[:, 1, :3],
}


@pytest.mark.parametrize("dtype", ["f4", "u1", "S5"])
@pytest.mark.parametrize("layout", OUTPUTS)
def test_outputs_of_a_library_that_cannot_copy(layout, dtype, room, monkeypatch):
    """Of any strides, and in the memory of the input; the memory around them stays as it is."""
    from numba import cuda

    import numba_dml.cuda

    def pointer_of(memory):
        return memory.ctypes.data if room.SIMULATED else memory.__cuda_array_interface__["data"][0]

    def empty(shape, dtype, device):
        view = np.empty(shape, dtype)
        memory = cuda.device_array(max(view.nbytes, 1), np.uint8)
        return Bare(memory, pointer_of(memory), view)

    if room.SIMULATED:  # whose arrays have no interface
        monkeypatch.setattr(numba_dml.cuda, "empty", empty)

    def both(call, *views):
        """Make a call on the host, and on copies of all memory on the device; compare the memory afterwards."""
        base = views[0]
        while isinstance(base.base, np.ndarray):
            base = base.base
        copy = cuda.to_device(base.reshape(-1).view(np.uint8).copy())
        arrays = [Bare(copy, pointer_of(copy) + view.ctypes.data - base.ctypes.data, view) for view in views]
        call(lambda array: array, *views)
        call(on_device, *arrays)
        numba_dml.cuda.synchronize(None)
        assert copy.copy_to_host().tobytes() == base.tobytes()

    def on_device(array):
        memory = cuda.to_device(array.reshape(-1).view(np.uint8))
        return Bare(memory, pointer_of(memory), np.ascontiguousarray(array))

    def matrix():
        return (np.arange(64) * 7 % 50).reshape(8, 8).astype(dtype)

    m, rows = matrix(), np.array([6, 0, 6, 3])
    both(lambda index, a, out: dml.gather(a, index(rows), out=out), m[:, 5:8], OUTPUTS[layout](m))
    if dtype != "S5":
        m = matrix()
        both(lambda _, a, out: dml.cumulative_sum(a, axis=0, dtype=dtype, out=out), m[4:, 5:8], OUTPUTS[layout](m))
    memory = np.zeros(64 * 8 + 8, "u1")
    count, places = memory[512:].view("i8").reshape(()), OUTPUTS[layout](memory[:512].view("i8").reshape(8, 8))
    a = np.arange(12).reshape(3, 2, 2) % 4 == 0

    both(lambda index, count, out: dml.nonzero_coordinates(index(a), out=(count, out)), count, places)


def test_an_array_that_refuses_the_interface_is_in_host_memory():
    """As NVIDIA Warp's are, where they are on the CPU."""

    class Host:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0)

        @property
        def __cuda_array_interface__(self):
            raise AttributeError("not supported because device is cpu")

    assert dml.gather(Host(), [2, 0], target="cpu").tolist() == [2, 0]
    assert dml.gather(Host(), [2, 0]).tolist() == [2, 0]


def test_mixed_and_wrong_arrays_are_refused(torch):
    x = torch.arange(4.0, device="cuda")
    with pytest.raises(TypeError, match="gather: indices: found list in host memory, expected an array on the device"):
        dml.gather(x, [0])
    with pytest.raises(TypeError, match=r"gather: a: found an array on a CUDA device.*for target 'cpu'"):
        dml.gather(x, x, target="cpu")
    with pytest.raises(TypeError, match="gather: a: found a tensor that requires grad"):
        dml.gather(x.requires_grad_(), torch.tensor([0], device="cuda"))
    with pytest.raises(TypeError, match="top_k: out: found Tensor, expected a pair"):
        dml.top_k(x.detach(), 1, out=x.detach())


INDEX_TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
DTYPES = ["u1", "f4", "i8", "f2"]


def test_values_and_indices_in_the_same_memory_are_refused(room):
    a, out = np.arange(6).reshape(2, 3), np.zeros((2, 2), np.int64)
    cases = [(a, out)]
    if not room.SIMULATED:
        cases.append(tuple(map(importlib.import_module("numba.cuda").to_device, (a, out))))
    for array, both in cases:
        with pytest.raises(ValueError, match="found values and indices that share memory, expected two arrays"):
            dml.top_k(array, 2, out=(both, both), index_dtype="int64", target="cuda")


@pytest.fixture
def small_regions(room, monkeypatch):
    """Small arrays go the ways of large ones, also on a device."""
    tune(
        monkeypatch,
        least_points=2,
        least_blocks=2,
        least_columns=2,
        strip_bytes=256,
        long_line_bytes=100,
        gathered_together_bytes=48,
        scattered_together_bytes=96,
        least_gathered_matrix=2,
        least_scattered_matrix=2,
        gather_line_bytes=2,
        scatter_line_bytes=2,
        least_binned_bytes=2,
        staged_bytes=160,
        part_bytes=224,
    )
    dml.cache_clear()
    yield monkeypatch
    dml.cache_clear()


def agree(function, oracle, a, i, *updates, sizes, **parameters):
    """Compare with the oracle, for good indices, and for bad ones in every mode."""
    assert reference.same(function(a, i, *updates, **parameters), oracle(a, i, *updates, **parameters))
    bad = i.copy()
    bad.reshape(-1)[[i.size // 3, -1]] = min(np.iinfo(i.dtype).max, max(sizes) + 1)
    assert bad.max() >= max(sizes)
    place = ", ".join(map(str, np.unravel_index(i.size // 3, i.shape)))
    error = rf"indices\[{place}\] = \d+ is out of range"
    with pytest.raises(IndexError, match=error):
        function(a, bad, *updates, **parameters)
    for bounds in ("drop", "deferred", *([] if updates else ["clamp"])):
        expected = oracle(a, bad, *updates, bounds="clamp" if bounds == "clamp" else "drop", **parameters)
        assert reference.same(function(a, bad, *updates, bounds=bounds, **parameters), expected)
    with pytest.raises(IndexError, match=error):
        dml.check()


def way_of(descriptor, *arrays):
    """Return a descriptor's row, None: it is for any layout; and a function that runs it in place, all or nothing."""
    from numba_dml.cuda import call as build
    from numba_dml.cuda.calls.move_call import Given
    from numba_dml.cuda.dispatch import scatter_general
    from numba_dml.cuda.driver.arrays import OWN

    layouts = tuple((x.strides, x.dtype) for x in arrays)
    call = build(descriptor, layouts, (arrays[0].shape,), None)

    def run(a, i, u):
        target, indices, updates = (OWN.to_device(x, 0) for x in (a, i, u))
        _, record, number = call.begin(0, 0, ())
        memory = call.write(Given(target.pointer, indices, updates, target, 0, record.address, number, unless=number))
        result = OWN.to_host(target)
        del memory
        return result, record.words[2]

    return None if call.region in scatter_general.TABLE else call.region.name, run


def in_place(name, make, oracle, a, i, u, **parameters):
    """Scatter in place: nothing is written if an index is bad."""
    tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a, i, u, a)]
    way, run = way_of(make(*tensors), a, i, u)
    assert way == name
    expected = oracle(a, i, u, **parameters)
    assert reference.same(run(a, i, u)[0], expected)
    bad = i.copy()
    bad.reshape(-1)[i.size // 2] = np.iinfo(i.dtype).max
    result, position = run(a, bad, u)
    assert position == i.size // 2
    assert reference.same(result, a)


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("step", [1, 16])
@pytest.mark.parametrize(("rows", "points"), [(100, 3), (50, 40), (5000, 256)])
def test_updates_of_rows(rows, points, step, monkeypatch):
    """Few points, which have a table, and many, where the output is merged; with duplicates, and in place."""
    from numba_dml.cuda import call as build
    from numba_dml.cuda.tuning.moves import Sparse

    tune(monkeypatch, sparse=(Sparse(4, 2),), few_points=0)
    dml.cache_clear()
    rng = np.random.default_rng(points)
    a = rng.standard_normal((rows, 3)).astype("f4")
    few = rows > 4 * points
    assert few is (points != 40)
    i = rng.integers(-(rows // step), rows // step, (points, 1)) * step
    i[-1] = i[0] % rows
    u = rng.standard_normal((points, 3)).astype("f4")
    agree(dml.scatter_nd, reference.scatter_nd, a, i, u, sizes=[rows])

    def make(*tensors):
        descriptor = dml.ScatterNDDesc(*tensors, 2, 2)
        layouts = tuple((x.strides, x.dtype) for x in (a, i, u))
        call = build(descriptor, layouts, (a.shape,), None)
        assert call.region.name == ("claims in a table" if few else "merged")
        return descriptor

    in_place(None, make, reference.scatter_nd, a, i, u)
    dml.cache_clear()


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("points", [1, 5, 12])
@pytest.mark.parametrize(
    ("shape", "coordinates", "dtype", "index_dtype"),
    [
        ((7, 1), 1, "u1", "i1"),
        ((101, 1), 1, "f8", "u1"),
        ((33, 3), 1, "u1", "i8"),
        ((9, 5), 2, "i2", "i2"),
        ((4, 2, 40), 2, "f4", "i4"),
    ],
)
def test_few_updates(shape, coordinates, dtype, index_dtype, points, room, monkeypatch):
    """Slices of one unit and of several, with duplicates, and in place."""
    tune(monkeypatch, most_points=0)  # or single elements would go by lines or bins
    dml.cache_clear()
    scale = 1 if room.SIMULATED or index_dtype[1] == "1" else 170
    rng = np.random.default_rng(points)
    a = rng.integers(0, 99, (shape[0] * scale, *shape[1:])).astype(dtype)
    sizes = a.shape[:coordinates]
    i = rng.integers(0, sizes, (points * scale, coordinates)).astype(index_dtype)
    if index_dtype[0] == "i":
        i[::3] -= np.array(sizes, index_dtype)
    i[-1] = i[0]
    u = rng.integers(100, 200, (len(i), *a.shape[coordinates:])).astype(dtype)
    agree(dml.scatter_nd, reference.scatter_nd, a, i, u, sizes=sizes)
    if a.ndim == 2 > coordinates:
        in_place(None, lambda *x: dml.ScatterNDDesc(*x, 2, 2), reference.scatter_nd, a, i, u)
    i = rng.permutation(len(a))[: len(i), None].astype(index_dtype)
    u = rng.integers(100, 200, (len(i), *a.shape[1:])).astype(dtype)
    agree(partial(dml.scatter_nd, unique=True), reference.scatter_nd, a, i, u, sizes=a.shape[:1])
    dml.cache_clear()


@pytest.mark.parametrize(("old_offset", "out_offset"), [(0, 0), (1, 0), (0, 3), (None, 0), (None, 1)])
@pytest.mark.parametrize("unique", [False, True])
def test_few_updates_anywhere(old_offset, out_offset, unique, room):
    """From and to any bytes, in place too (None)."""
    from numba_dml.cuda import call as build
    from numba_dml.cuda.driver.arrays import OWN

    rng = np.random.default_rng(4)
    rows, points = (50, 12) if room.SIMULATED else (20_000, 2000)
    a = rng.integers(0, 99, (rows, 3)).astype("u1")
    i = (rng.permutation(rows) if unique else rng.integers(-rows, rows, rows))[:points, None]
    u = rng.integers(100, 199, (points, 3)).astype("u1")
    tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a, i, u, a)]
    descriptor = dml.ScatterNDDesc(*tensors, 2, 2, unique=unique, bounds="drop")
    call = build(descriptor, tuple((x.strides, x.dtype) for x in (a, i, u)), (a.shape,), None)
    in_place = old_offset is None
    padded = np.full(a.size + 32, 7, "u1")
    start = 16 + out_offset
    if in_place:
        padded[start : start + a.size] = a.ravel()
    out, indices, updates = (OWN.to_device(x, 0) for x in (padded, i, u))
    old = OWN.to_device(np.concatenate([padded[: old_offset or 0], a.ravel()]), 0)
    out.pointer += start
    old.pointer += old_offset or 0
    call.launch(out if in_place else old, indices, updates, out, 0, ())
    padded[start : start + a.size] = reference.scatter_nd(a, i, u).ravel()
    np.testing.assert_array_equal(OWN.to_host(out), padded)


def test_kernels_wait_first():
    """A kernel is launched before what it reads is there, so `await_inputs` comes before all else."""
    import ast

    import numba_dml

    found = 0
    for path in (Path(numba_dml.__file__).parent / "cuda").rglob("*.py"):
        makers = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        for nodes in ([*ast.walk(maker)] for maker in makers):
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            kernels = {ast.unparse(node.args[0]) for node in calls if ast.unparse(node.func) == "Kernel"}
            for node in nodes:
                if isinstance(node, ast.FunctionDef) and node.name in kernels:
                    body = node.body[1:] if ast.get_docstring(node) else node.body
                    assert ast.unparse(body[0]) == "await_inputs()", f"{path.name}: {node.name}"
                    found += 1
    assert found > 30


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
@pytest.mark.parametrize(("size", "points"), [(2, 2), (3, 1), (37, 5), (64, 64), (100, 3), (131, 300)])
def test_elements_that_are_merged(size, points, dtype, offset, room, monkeypatch):
    """Four at a time if they are small and aligned, and what is left over; few or all of them are replaced."""
    from numba_dml.cuda import call as build
    from numba_dml.cuda.calls.move_call import Given
    from numba_dml.cuda.driver.arrays import OWN

    tune(monkeypatch, most_points=0, places_per_merged=(1 << 40,) * 3, places_per_merged_alone=1 << 40)
    rng = np.random.default_rng(size)
    size, points = (n if room.SIMULATED else 100 * n for n in (size, points))
    a = rng.integers(0, 99, size, "i4").astype(dtype)[:, None]
    i = rng.integers(0, len(a), (points, 1))
    u = rng.integers(100, 199, (points, 1)).astype(dtype)
    tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a, i, u, a)]
    call = build(dml.ScatterNDDesc(*tensors, 2, 2), tuple((x.strides, x.dtype) for x in (a, i, u)), (a.shape,), None)
    assert call.region.name == "merged" or dtype == "f8"
    indices, updates = OWN.to_device(i, 0), OWN.to_device(u, 0)
    old = OWN.to_device(np.concatenate([a[:offset], a]), 0)
    out = OWN.to_device(np.full((offset + len(a) + 1, 1), 7, dtype), 0)
    out.pointer += offset * a.itemsize
    call.write(Given(old.pointer + offset * a.itemsize, indices, updates, out, 0, 0, -1))
    result = OWN.to_host(out)
    assert reference.same(result[offset : offset + len(a)], reference.scatter_nd(a, i, u))
    assert (result[:offset] == 7).all()
    assert result[-1] == 7


@pytest.fixture
def by_warps(room, monkeypatch):
    """How many slices warps have moved, for each launch."""
    from numba_dml.cuda.kernels import moves_units

    found, divide_slices = [], moves_units.divide_slices

    def noted(slices, warps):
        found.append(slices)
        return divide_slices(slices, warps)

    monkeypatch.setattr(moves_units, "divide_slices", noted)
    dml.cache_clear()
    yield found
    dml.cache_clear()


@pytest.mark.parametrize("index_dtype", ["i8", "u4"])
@pytest.mark.parametrize(
    ("shape", "dtype", "axis", "are_narrow"),
    [
        ((40, 3), "f4", 0, True),
        ((41, 3), "i2", 0, True),
        ((5, 9, 3), "u1", 1, True),
        ((3, 2, 9, 3), "f4", -2, True),
        ((3, 9, 2, 2), "f4", 1, False),  # units of 16 bytes
        ((40, 2), "f4", 0, False),
        ((50, 4), "u1", 0, False),  # one unit
        ((20, 5), "u1", 0, True),
    ],
)
def test_slices_that_warps_gather(shape, dtype, axis, are_narrow, index_dtype, by_warps, room):
    """Slices of few narrow units, some of which no warp has in full, and those whose index is bad."""
    rng = np.random.default_rng(len(shape))
    size, points = shape[axis], 31
    if not room.SIMULATED:
        shape, points = (*shape[:-1], 11 * shape[-1]), 20_003
    a = rng.integers(0, 99, shape, "i4").astype(dtype)
    i = rng.integers(0 if index_dtype == "u4" else -size, size, points).astype(index_dtype)
    agree(partial(dml.gather, axis=axis), partial(reference.gather, axis=axis), a, i, sizes=[size])
    if room.SIMULATED or are_narrow:
        assert bool(by_warps) is are_narrow


def test_slices_without_places(room, by_warps):
    """Where there is nothing to gather from, the first index is bad, and no memory is read."""
    i = np.zeros(31 if room.SIMULATED else 200_000, "i8")
    for bounds in ("raise", "drop", "clamp"):
        with pytest.raises(IndexError, match=r"indices\[0\] = 0 is out of range for axis 0 of size 0"):
            dml.gather(np.empty((0, 3), "f4"), i, bounds=bounds)
    assert not by_warps


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("kind", ["unique", "merged", "claimed", "tabled", "few points"])
@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_slices_of_narrow_units(dtype, kind, in_place, room, monkeypatch):
    """Slices of few narrow units, in place or beside what is left; and nothing at all if an index is bad."""
    from numba_dml.cuda import call as build
    from numba_dml.cuda.calls.ways import scatter_general
    from numba_dml.cuda.driver.arrays import OWN

    tune(monkeypatch, most_points=0, few_points=1 << 30 if kind == "few points" else 0)
    rng = np.random.default_rng(3)
    width, places, points = 3, 100, 12 if kind == "tabled" else 81
    if not room.SIMULATED:
        width = 7 if dtype == "f4" else 5
        places, points = (3_300_000, 140_003) if kind == "tabled" else (150_001, 120_003)
    a = rng.integers(0, 99, (places, width), "i4").astype(dtype)
    i = (rng.permutation(places) if kind == "unique" else rng.integers(-places, places, places))[:points, None]
    u = rng.integers(100, 199, (points, width)).astype(dtype)
    tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a, i, u, a)]
    layouts = tuple((x.strides, x.dtype) for x in (a, i, u))

    def scattered(i, bounds):
        descriptor = dml.ScatterNDDesc(*tensors, 2, 2, unique=kind == "unique", bounds=bounds)
        call = build(descriptor, layouts, (a.shape,), None)
        over = {"merged": "Claimed", "unique": "Units"}.get(kind, kind.title().replace(" ", ""))
        assert type(call.over) is getattr(scatter_general, over)
        if kind == "merged":
            assert call.region.name == kind
        else:
            call.way = call.over
        old, indices, updates = (OWN.to_device(x, 0) for x in (a, i, u))
        out = old if in_place else OWN.to_device(np.full_like(a, 7), 0)
        error = None
        try:
            call.launch(old, indices, updates, out, 0, ())
        except IndexError as raised:
            error = str(raised)
        return OWN.to_host(out), error

    found, error = scattered(i, "raise")
    assert reference.same(found, reference.scatter_nd(a, i, u))
    assert error is None
    i[5] = places
    found, error = scattered(i, "drop")
    assert reference.same(found, reference.scatter_nd(a, i, u, bounds="drop"))
    found, error = scattered(i, "raise")
    assert error == f"scatter_nd: indices[5, 0] = {places} is out of range for axis 0 of size {places}"
    if in_place:
        assert reference.same(found, a)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31, 200, 1000])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("quads", [0, 1, 9, 40])
def test_copies_and_sets(size, offset, quads, room):
    """What is copied and set at once, and nothing else; aligned or not, and more than a kernel copies."""
    from numba_dml.cuda.driver.arrays import OWN
    from numba_dml.cuda.primitives import fill

    size *= 1 if room.SIMULATED else 1000
    data = np.arange(2 * size + 64).astype("u1")
    source, target = OWN.to_device(data, 0), OWN.to_device(np.zeros_like(data), 0)
    memory = OWN.to_device(np.full(16 * quads + 16, 7, "u1"), 0)
    to, fro = target.pointer + 16, source.pointer + 32 + offset
    fill.copy_and_set(0, 0, to, fro, size, memory.pointer, 16 * quads, -1)
    expected = np.zeros_like(data)
    expected[16 : 16 + size] = data[32 + offset : 32 + offset + size]
    np.testing.assert_array_equal(OWN.to_host(target), expected)
    np.testing.assert_array_equal(OWN.to_host(memory), [255] * 16 * quads + [7] * 16)


LINES = [((3, 41), 30), ((2, 3, 5), 7), ((2, 90), 60), ((4, 4), 33), ((1, 130), 50)]


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("number", range(8))
def test_elements_of_lines(number):
    """Lines that are long, taken together, too long for their updates, shared, split into parts."""
    rng = np.random.default_rng(number)
    (*outer, size), points = LINES[number % len(LINES)]
    index_type, dtype = INDEX_TYPES[number], DTYPES[(number + number // 4) % 4]
    if number == 0:
        size = 127  # which is the most that an int8 can be too large for
        points = 9
    i = rng.integers(0 if index_type[0] == "u" else -min(size, 128), size, (*outer, points)).astype(index_type)
    a, u = (rng.integers(0, 99, shape).astype(dtype) for shape in ((*outer, size), i.shape))
    if number:
        agree(dml.gather_elements, reference.gather_elements, a, i, axis=-1, sizes=[size])
        agree(dml.scatter_elements, reference.scatter_elements, a, i, u, axis=-1, sizes=[size])
    else:
        assert reference.same(dml.gather_elements(a, i, axis=-1), reference.gather_elements(a, i, axis=-1))
    make = lambda *tensors: dml.ScatterElementsDesc(*tensors, axis=a.ndim - 1)  # noqa: E731
    in_place("lines by their last updates", make, reference.scatter_elements, a, i, u, axis=-1)


@pytest.mark.usefixtures("small_regions")
@pytest.mark.parametrize("dtype", ["f8", "i4", "u1"])
@pytest.mark.parametrize("size", [33, 5000, 20_001])
def test_elements_of_long_lines(size, dtype, room):
    """A thread has several groups of a line, or pairs; a block has a multiprocessor for itself."""
    size = min(size, 64) if room.SIMULATED else size
    rng = np.random.default_rng(size)
    i = rng.integers(-size, size, (3, size + 1))[:, 1:]  # which begin anywhere
    a, u = (rng.integers(0, 99, (3, size)).astype(dtype) for _ in range(2))
    for x, j in ((a, i), (a, i[:, : size // 2].astype("i4"))):
        found = dml.gather_elements(x, j, axis=1)
        np.testing.assert_array_equal(found, np.take_along_axis(x, j.astype("i8"), 1))
        expected = x.copy()
        for line in range(3):
            expected[line, j[line]] = u[line, : j.shape[1]]
        np.testing.assert_array_equal(dml.scatter_elements(x, j, u[:, : j.shape[1]], axis=1), expected)
    bad = i.copy()
    bad[1, size - 2] = size
    with pytest.raises(IndexError, match=rf"indices\[1, {size - 2}\] = {size} is out of range"):
        dml.gather_elements(a, bad, axis=1)


@pytest.fixture
def column_way(request, small_regions):
    """Columns are transposed, have a thread each, or are in shared memory; which is a test's parameter."""
    changes = {"least_shared_column": 999}
    if request.param == "columns by threads":
        changes |= {"least_own_columns": 2, "gathered_column_bytes": (999,) * 4}
        changes |= dict.fromkeys(["scattered_column", "chained_column_bytes", "chained_column_bytes_in_l2"], 999)
    if request.param == "columns by blocks":
        changes = {"least_shared_column": 1, "shared_column_bytes": 1000, "least_own_columns": 999, "most_in_l2": 0}
    tune(small_regions, **changes)
    return request.param


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("column_way", ["columns transposed", "columns by threads", "columns by blocks"], indirect=True)
def test_elements_of_columns(number, column_way):
    rng = np.random.default_rng(number)
    (*outer, size, columns), points = [((9, 13), 9), ((2, 7, 5), 12), ((30, 6), 7)][number % 3]
    index_type, dtype = INDEX_TYPES[number], DTYPES[(number + number // 4) % 4]
    i = rng.integers(0 if index_type[0] == "u" else -size, size, (*outer, points, columns)).astype(index_type)
    a, u = (rng.integers(0, 99, shape).astype(dtype) for shape in ((*outer, size, columns), i.shape))
    agree(dml.gather_elements, reference.gather_elements, a, i, axis=-2, sizes=[size])
    agree(dml.scatter_elements, reference.scatter_elements, a, i, u, axis=-2, sizes=[size])
    make = lambda *tensors: dml.ScatterElementsDesc(*tensors, axis=a.ndim - 2)  # noqa: E731
    in_place(column_way, make, reference.scatter_elements, a, i, u, axis=-2)
    from numba_dml.cuda import call as build

    tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a, i, u)]
    gather = dml.GatherElementsDesc(*tensors, axis=a.ndim - 2)
    call = build(gather, tuple((x.strides, x.dtype) for x in (a, i)), (u.shape,), None)
    assert call.region.name == column_way
    # The indices may cover a part of the columns: the others are copied all the same.
    i, u = i[..., : columns - 2].copy(), u[..., : columns - 2].copy()
    expected = reference.scatter_elements(a, i, u, axis=-2)
    assert reference.same(dml.scatter_elements(a, i, u, axis=-2), expected)


@pytest.mark.parametrize("dtype", ["u1", "f2", "i4", "f8"])
@pytest.mark.parametrize(
    ("small", "large"),
    [((5, 9), (33, 13_001)), ((2, 9, 7), (3, 257, 1111)), ((10, 13), (2048, 1600)), ((3, 21), (7000, 1601))],
)
def test_columns_in_shared_memory(small, large, dtype, room, monkeypatch):
    """Blocks with many columns, and with few long ones; a scatter that keeps the last of thousands of updates."""
    from numba_dml.cuda import call as build

    tune(monkeypatch, most_in_l2=0, **({"shared_column_bytes": 1000} if room.SIMULATED else {}))
    shape = small if room.SIMULATED else large
    rng = np.random.default_rng(len(shape))
    size, columns = shape[-2:]
    for points in (size, size // 3 + 1):
        i = rng.integers(-size, size, (*shape[:-2], points, columns))
        i[..., :3, 0] = 1  # duplicates in a row
        a, u = (rng.integers(-99, 99, x).astype(dtype) for x in (shape, i.shape))
        tensors = [dml.TensorDesc(x.dtype, x.shape) for x in (a, i, u)]
        layouts = tuple((x.strides, x.dtype) for x in (a, i, u))
        gather = build(dml.GatherElementsDesc(*tensors, axis=a.ndim - 2), layouts[:2], (u.shape,), None)
        assert gather.region.name == "columns by blocks"
        scatter = build(dml.ScatterElementsDesc(*tensors, tensors[0], axis=a.ndim - 2), layouts, (a.shape,), None)
        has_room = {1: 64, 2: 32, 4: 32, 8: 16}[a.itemsize] * size < 132 << 10  # claims of a row of 16 bytes, or 32
        assert (scatter.region.name == "columns by blocks") is (room.SIMULATED or has_room)
        np.testing.assert_array_equal(dml.gather_elements(a, i, axis=-2), np.take_along_axis(a, i, -2))
        expected = a.copy()
        for row in range(points):
            np.put_along_axis(expected, i[..., row : row + 1, :], u[..., row : row + 1, :], -2)
        np.testing.assert_array_equal(dml.scatter_elements(a, i, u, axis=-2), expected)


REDUCTIONS = [
    ("add", "f4"),
    ("mul", "f2"),
    ("add", "i1"),
    ("mul", "c8"),
    ("min", "f4"),
    ("max", "f2"),
    ("max", "u8"),
    ("mul", "i8"),
    ("add", "f8"),
    ("add", "bfloat16"),
    ("add", "?"),
    ("min", "i2"),
    ("add", "u4"),
    ("add", "i8"),
    ("min", "i4"),
]
DUPLICATES = {
    "none": lambda rng, n, points: rng.permutation(n)[:points],
    "some": lambda rng, n, points: rng.integers(-n, n, points),
    "neighbours": lambda rng, n, points: np.arange(points) // 3,
    "many": lambda rng, n, points: rng.integers(0, 3, points) * (n // 3),
    "all": lambda rng, n, points: np.full(points, n - 1),
}


def to_reduce(rng, reduction, dtype, shape):
    """Return values of which sums and products depend on the order, and zeros of either sign and NaNs to compare."""
    values = rng.choice([-1.0, 1.0, 0.3, 1.7, 5.0, 0.125], shape)
    if reduction in ("min", "max"):
        values = rng.choice([0.0, -0.0, 1.0, -2.0], shape)
        values[rng.random(shape) < 0.02] = np.nan
        values = values if dtype[0] == "f" else rng.integers(0, 99, shape)
    elif dtype == "i8":
        values = rng.integers(-(1 << 62), 1 << 62, shape)
    elif dtype[0] == "c":
        values = values + 1j * values[::-1]
        values /= np.abs(values)  # products stay finite: NumPy leaves open which NaN comes out
    return values.astype(BFLOAT16 if dtype == "bfloat16" else dtype)


@pytest.fixture
def small_lines(room, small_regions):
    """Lines that are small for a warp, and shared memory for which they are large; by how much larger on a device."""
    from numba_dml.cuda.dispatch import layouts

    scale = 1 if room.SIMULATED else 16
    together = {"gathered_together_bytes": 48 * scale, "scattered_together_bytes": 96 * scale}
    tune(small_regions, **together, staged_bytes=208 * scale)
    small_regions.setattr(layouts, "shared_bytes", lambda: 384 * scale)
    return scale


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("kind", DUPLICATES)
@pytest.mark.parametrize(("reduction", "dtype"), REDUCTIONS)
def test_reductions_of_lines(reduction, dtype, kind, small_lines):
    """Short lines together, a line with its updates, a line alone, one in parts; then bad indices, and in place."""
    number = REDUCTIONS.index((reduction, dtype)) + 2 * list(DUPLICATES).index(kind)
    rng = np.random.default_rng(number)
    rows, n, points = [(14, 4, 3), (5, 12, 12), (2, 60, 40), (1, 75, 75)][number % 4]
    n, points = n * small_lines, points * small_lines
    index_type = ["i2", "i4", "i8"][number % 3]
    i = np.stack([DUPLICATES[kind](rng, n, points) for _ in range(rows)]).astype(index_type)
    a, u = to_reduce(rng, reduction, dtype, (rows, n)), to_reduce(rng, reduction, dtype, i.shape)
    agree(dml.scatter_elements, reference.scatter_elements, a, i, u, axis=-1, sizes=[n], reduction=reduction)
    make = lambda *tensors: dml.ScatterElementsDesc(*tensors, axis=1, reduction=reduction)  # noqa: E731
    way = "lines combined in order"
    if dtype in ("i4", "u4", "i8", "u8") and reduction != "mul":  # else the memory combines them
        way = "lines combined in any order" if (n + 2) * a.itemsize < 384 * small_lines else None
    in_place(way, make, reference.scatter_elements, a, i, u, axis=-1, reduction=reduction)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("column_way", ["columns transposed", "columns by threads"], indirect=True)
@pytest.mark.parametrize("kind", DUPLICATES)
def test_reductions_of_columns(kind, column_way):
    number = list(DUPLICATES).index(kind)
    reduction, dtype = REDUCTIONS[number]
    rng = np.random.default_rng(number)
    n, points, columns = (9, 9, 13) if number % 4 == 0 else (7, 12, 5)
    i = np.stack([DUPLICATES[kind](rng, n, points) for _ in range(columns)], -1).astype(INDEX_TYPES[number])
    a, u = to_reduce(rng, reduction, dtype, (n, columns)), to_reduce(rng, reduction, dtype, i.shape)
    agree(dml.scatter_elements, reference.scatter_elements, a, i, u, axis=0, sizes=[n], reduction=reduction)
    make = lambda *tensors: dml.ScatterElementsDesc(*tensors, axis=0, reduction=reduction)  # noqa: E731
    in_place(column_way, make, reference.scatter_elements, a, i, u, axis=0, reduction=reduction)


def test_reductions_that_are_sorted(small_regions):
    """Elements of 16 bytes, and lines with more updates than a link has numbers."""
    from numba_dml.cuda.primitives.moves import updates as moves_updates

    rng = np.random.default_rng(3)
    i = rng.integers(0, 20, (3, 30))
    make = lambda *tensors: dml.ScatterElementsDesc(*tensors, axis=1, reduction="add")  # noqa: E731
    for dtype, most in [("c16", moves_updates.MOST_LINKED), ("f4", 31)]:
        small_regions.setattr(moves_updates, "MOST_LINKED", most)
        a, u = rng.standard_normal((3, 20)).astype(dtype), rng.standard_normal(i.shape).astype(dtype)
        way, _ = way_of(make(*(dml.TensorDesc(x.dtype, x.shape) for x in (a, i, u, a))), a, i, u)
        assert way is None
        found = dml.scatter_elements(a, i, u, axis=1, reduction="add")
        assert reference.same(found, reference.scatter_elements(a, i, u, axis=1, reduction="add"))


@pytest.mark.parametrize(
    ("shape", "points", "index_type", "dtype"),
    [((150,), 90, "i8", "f4"), ((100,), 70, "u1", "u1"), ((13, 11), 200, "i4", "f8"), ((90,), 9, "u2", "f2")],
)
@pytest.mark.parametrize("unique", [False, True])
def test_elements_sorted_into_bins(small_regions, shape, points, index_type, dtype, unique):
    tune(small_regions, least_blocks=1 << 60)  # no lines
    rng = np.random.default_rng(points)
    low = 0 if index_type[0] == "u" else -1
    i = np.stack([rng.integers(low * n, n, points) for n in shape], -1).astype(index_type)
    if unique:
        flat = rng.permutation(np.prod(shape))[:points]
        i = np.stack(np.unravel_index(flat, shape), -1).astype(index_type)
        points = len(i)
    a, u = (rng.integers(0, 99, s).astype(dtype) for s in (shape, points))
    found = dml.scatter_nd(a, i, u, unique=unique)
    assert reference.same(found, reference.scatter_nd(a, i, u))
    if unique:
        return
    agree(dml.scatter_nd, reference.scatter_nd, a, i, u, sizes=shape)
    many = i.copy()
    many[: points - points // 8] = i[:1]  # a bin with more updates than places
    assert reference.same(dml.scatter_nd(a, many, u), reference.scatter_nd(a, many, u))
    if len(shape) > 1:
        x, y, z = (dml.TensorDesc(w.dtype, (1,) * (2 - w.ndim) + w.shape) for w in (a, i, u))
        way, run = way_of(
            dml.ScatterNDDesc(x, y, z, x, input_dimension_count=2, indices_dimension_count=2), a, i, u[None]
        )
        assert way == "bins"
        assert reference.same(run(a, i, u)[0], reference.scatter_nd(a, i, u))
        i[points // 2] = 99
        assert reference.same(run(a, i, u)[0], a)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i2", "u8", "c16", "?"])
@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("elements", [1, 3, 7])
def test_many_updates_of_few_places(dtype, reduction, elements):
    """A block folds the updates of a place; zeros of both signs and NaNs tell in which order."""
    if dtype == "c16" and reduction in ("min", "max"):
        return
    rng = np.random.default_rng(elements)
    values = rng.choice([0.0, -0.0, 1.0, 3.0, 0.3, 2.0], (2 + 60, elements))
    if dtype[0] == "f" and elements == 3:
        values[40, 1] = np.nan
    with np.errstate(all="ignore"):
        values = (values.astype(int) if dtype == "u8" else values).astype(dtype)
    i = np.where(rng.random((60, 1)) < 0.8, 1, 0)
    found = dml.scatter_nd(values[:2], i, values[2:], reduction=reduction)
    assert reference.same(found, reference.scatter_nd(values[:2], i, values[2:], reduction=reduction))


@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
@pytest.mark.parametrize(
    ("dtype", "elements"),
    [("f4", 1), ("f4", 4), ("f4", 6), ("f2", 8), ("f2", 6), ("u1", 16), ("i1", 4), ("i2", 12), ("?", 8)]
    + [("f8", 2), ("f8", 3), ("c8", 2), ("c16", 1), ("c16", 2), ("bfloat16", 8), ("bfloat16", 2)],
)
def test_units_are_folded(dtype, elements, reduction, room):
    """Units of one element and of several; places with 0 to 10 updates, the last ones of which are the last pairs."""
    if dtype[0] == "c" and reduction in ("min", "max"):
        pytest.skip("complex numbers have no order")
    rng = np.random.default_rng(elements)
    counts = np.array([1, 0, 2, 3, 4, 5, 0, 6, 7, 9, 10])
    if not room.SIMULATED:  # many of each, and more points than are ranked
        counts = np.repeat(counts, 97)
    i = rng.permutation(np.repeat(np.arange(len(counts)), counts))[:, None]
    rows = len(counts) + len(i)
    values = rng.choice([0.0, -0.0, 1.0, 3.0, 0.3, -2.0], (rows, elements))
    values = (abs(values) if dtype == "u1" else values).astype(BFLOAT16 if dtype == "bfloat16" else dtype)
    a, u = values[: len(counts)], values[len(counts) :]
    for bounds in ("raise", "drop"):
        found = dml.scatter_nd(a, i, u, reduction=reduction, bounds=bounds)
        assert reference.same(found, reference.scatter_nd(a, i, u, reduction=reduction, bounds=bounds))
        out = a.copy()
        dml.scatter_nd(out, i, u, reduction=reduction, bounds=bounds, out=out)
        assert reference.same(out, found)
        i[rng.integers(0, len(i), 5)] = len(a)


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("reduction", ["add", "min", "max"])
@pytest.mark.parametrize("elements", [2, 5])
def test_integers_are_combined_by_the_memory(dtype, reduction, elements):
    """In any order: the bits are those of any. Nothing is written in place if an index is bad, and they may be."""
    rng = np.random.default_rng(elements)
    limits = np.iinfo(dtype)
    a, u = (rng.integers(limits.min, limits.max, (n, elements), dtype, endpoint=True) for n in (20, 90))
    i = np.where(rng.random((90, 1)) < 0.5, -3, rng.integers(-20, 20, (90, 1)))
    expected = reference.scatter_nd(a, i, u, reduction=reduction)
    assert reference.same(dml.scatter_nd(a, i, u, reduction=reduction), expected)
    make = lambda *tensors: dml.ScatterNDDesc(*tensors, 2, 2, reduction=reduction)  # noqa: E731
    in_place(None, make, reference.scatter_nd, a, i, u, reduction=reduction)
    i[70] = 20
    with pytest.raises(IndexError, match=r"indices\[70, 0\] = 20 is out of range for axis 0 of size 20"):
        dml.scatter_nd(a, i, u, reduction=reduction)
    dropped = dml.scatter_nd(a, i, u, reduction=reduction, bounds="drop")
    assert reference.same(dropped, reference.scatter_nd(a, i, u, reduction=reduction, bounds="drop"))


@pytest.mark.parametrize("length", [40, 41, 42, 43])
@pytest.mark.parametrize(("dtype", "index_type"), [("i4", "i8"), ("u8", "i4"), ("i8", "u1"), ("u4", "i2")])
def test_lines_of_integers_of_any_length(length, dtype, index_type, room):
    """Indices and updates are aligned together, if not at the first ones."""
    rng = np.random.default_rng(length)
    rows, size = (3, 20) if room.SIMULATED else (300, 500)
    length *= 1 if room.SIMULATED else 25
    a, u = (rng.integers(0, 1 << 30, (rows, n)).astype(dtype) for n in (size, length))
    i = rng.integers(0, min(size, 255), (rows, length)).astype(index_type)
    found = dml.scatter_elements(a, i, u, axis=1, reduction="add")
    expected = a.copy()
    np.add.at(expected, (np.arange(rows)[:, None], i), u)
    assert reference.same(found, expected)


@pytest.mark.parametrize("shape", [(1,), (1, 3)])
def test_all_updates_into_one_place(shape, room):
    points = 90 if room.SIMULATED else 50_000
    u = np.arange(points * shape[-1], dtype="i8").reshape(points, *shape[1:])
    i = np.zeros((points, 1), "i4")
    found = dml.scatter_nd(np.ones(shape, "i8"), i, u, reduction="add")
    np.testing.assert_array_equal(found, 1 + u.sum(0, keepdims=True))
    np.testing.assert_array_equal(dml.scatter_nd(np.ones(shape, "i8"), i, u), u[-1:])
    i[::3] = 1
    found = dml.scatter_nd(np.ones(shape, "i8"), i, u, reduction="max", bounds="drop")
    np.testing.assert_array_equal(found, np.maximum(u[i[:, 0] == 0].max(0, keepdims=True), 1))


@pytest.mark.parametrize("reduction", ["none", "add", "min", "max"])
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("elements", [2, 3])
def test_many_updates_of_a_small_output(reduction, dtype, elements, room):
    """Blocks combine them with an output of their own, or claim places of their own."""
    points = 90 if room.SIMULATED else 50_000
    rng = np.random.default_rng(elements)
    limits = np.iinfo(dtype)
    a, u = (rng.integers(limits.min, limits.max, (n, elements), dtype, endpoint=True) for n in (4, points))
    if reduction == "max":  # what changes nothing
        u[::2] = limits.min
    i = rng.integers(-4, 4, (points, 1)).astype({2: "i4", 3: "i1"}[elements])
    expected = a.copy()
    if reduction == "none":
        last = {int(place): point for point, place in enumerate(i[:, 0] % 4)}
        for place, point in last.items():
            expected[place] = u[point]
    else:
        {"add": np.add, "min": np.minimum, "max": np.maximum}[reduction].at(expected, i[:, 0] % 4, u)
    assert reference.same(dml.scatter_nd(a, i, u, reduction=reduction), expected)
    make = lambda *tensors: dml.ScatterNDDesc(*tensors, 2, 2, reduction=reduction)  # noqa: E731
    way = None if reduction == "none" else "few places"
    in_place(way, make, lambda *arrays, **parameters: expected, a, i, u)
    i[points // 3] = 5
    with pytest.raises(IndexError, match=rf"indices\[{points // 3}, 0\] = 5 is out of range for axis 0 of size 4"):
        dml.scatter_nd(a, i, u, reduction=reduction)


def test_the_first_of_many_bad_indices():
    i = np.full(300, 9)
    i[:17] = 1
    error = r"indices\[17\] = 9 is out of range for axis 0 of size 5"
    with pytest.raises(IndexError, match=error):
        dml.gather(np.arange(5.0), i)
    dml.gather(np.arange(5.0), i, bounds="deferred")
    with pytest.raises(IndexError, match=error):
        dml.check()


def test_the_command_line_knows_the_target(room, capsys, monkeypatch):
    from numba_dml.__main__ import main
    from numba_dml._cli import warmup

    kernels = {
        ("top-k", "--shape", "40000x10", "-k", "2"): "short lines",
        ("top-k", "--shape", "2,130", "-k", "5"): "block choice",
        ("top-k", "--shape", "10,200" if room.SIMULATED else "1000,4000", "-k", "5"): "lines by warps",
        ("top-k", "--shape", "5,300000", "-k", "1"): "best",
        ("gather", "--shape", "100x64", "--indices-shape", "10"): "gather 128-bit cuda",
        ("scatter-nd", "--shape", "1000x64", "--indices-shape", "900,1"): "scatter 128-bit cuda",
    }
    for arguments, kernel in kernels.items():
        assert main(["explain", *arguments, "--target", "cuda"]) == 0
        out = capsys.readouterr().out
        assert kernel in out
        assert "why" in out
        assert "threads  " not in out
        assert ("the simulator" in out) == room.SIMULATED
    for order in (True, False):
        assert main(["explain", "top-k", "--shape", "9", "-k", "3", *["--no-sorted"][order:], "--target", "cuda"]) == 0
        assert f"is_sorted {order}" in capsys.readouterr().out
    monkeypatch.setattr(warmup, "CASES_ON_GPU", {})
    monkeypatch.setattr(
        warmup, "CASES", {"top_k": [warmup.Case((3, 9), parameters={"k": 2})], "gather": [warmup.Case((9,), (3,))]}
    )
    assert main(["warmup", "--target", "cuda", "--dtypes", "float32"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:3]] == ["top_k", "gather"]


def test_warmup_makes_all_kernels_of_nonzero_coordinates(room):
    from numba_dml.__main__ import main
    from numba_dml.cuda.kernels import compaction

    makers = compaction.mark_kernel, compaction.sum_kernel, compaction.write_kernel, compaction.fill_kernel
    for maker in makers:
        maker.cache_clear()
    assert main(["warmup", "nonzero-coordinates", "--target", "cuda", "--dtypes", "float32", "-q"]) == 0
    made = [maker.cache_info().currsize for maker in makers]
    for a in np.ones(20, "f4"), np.ones((4, 5), "f4"), np.ones((2, 2, 5), "f4"), np.ones((2, 1, 2, 5), "f4"):
        assert len(dml.nonzero_coordinates(a)) == 20
        assert dml.nonzero_coordinates(a, size=30).count == 20
    assert made == [maker.cache_info().currsize for maker in makers]


def test_warmup_covers_all_rows(room):
    from numba_dml._cli import run, warmup
    from numba_dml.cuda.dispatch import gather, scan, scatter, top_k

    if room.SIMULATED:
        pytest.skip("the rows of the simulator are for small arrays")
    rows = []
    token = noted.set(rows)
    try:
        dml.cache_clear()
        for function in warmup.CASES:
            for dtype, case in product(("f4", "i4"), warmup.cases_of(function, "cuda")):
                kind = np.dtype(dtype)
                run.planned(function, warmup._layouts(kind, case), warmup._parameters(kind, case), target="cuda")
    finally:
        noted.reset(token)
    known = {region.name for region in (*gather.TABLE, *scan.TABLE, *scatter.TABLE, *top_k.TABLE)}
    assert set(rows) == known - {"nothing"}


#: Calls that go each way: in the simulator, and on a GPU like those that the thresholds are for.
WAYS = {
    "nothing": ("top-k --shape 5 -k 0",) * 2,
    "short lines": ("top-k --shape 40000x10 -k 2",) * 2,
    "best by lanes": ("top-k --shape 9x40 -k 1 --axis 0",) * 2,
    "best": ("top-k --shape 5,300000 -k 1",) * 2,
    "lines by warps": ("top-k --shape 10,200 -k 5", "top-k --shape 1000,4000 -k 5"),
    "selection by warps": ("top-k --shape 7 -k 6",) * 2,
    "lines beside each other": ("top-k --shape 25x5 -k 2 --axis 0", "top-k --shape 4096x4096 -k 8 --axis 0"),
    "block choice": ("top-k --shape 2,130 -k 5",) * 2,
    "delegates": ("top-k --shape 70x4 -k 7 --axis 0", "top-k --shape 400000 -k 7"),
    "selection": ("top-k --shape 2x17 -k 12", "top-k --shape 2000x3000 -k 1000"),
    "sort of lines": ("top-k --shape 9 -k 9", "top-k --shape 2000x3000 -k 2900"),
    "sort": ("top-k --shape 74 -k 58", "top-k --shape 300000 -k 9000"),
    "lines": ("gather-elements --shape 9x9 --indices-shape 9x9", "gather --shape 36 --indices-shape 200000"),
    "gathers from columns by threads": (
        "gather-elements --shape 3x60 --indices-shape 3x60 --axis 0",
        "gather-elements --shape 5x7000000 --indices-shape 9x7000000 --axis 0",
    ),
    "gathers from columns by blocks": (
        "gather-elements --shape 6x3 --indices-shape 9x3 --axis 0 --dtype int8",
        "gather-elements --shape 539x38698 --indices-shape 260x38698 --axis 0",
    ),
    "gathers from columns transposed": (
        "gather-elements --shape 26x5 --indices-shape 8x5 --axis 0",
        "gather-elements --shape 20000x8000 --indices-shape 20000x8000 --axis 0",
    ),
    "lines by their last updates": (
        "scatter-elements --shape 9x9 --indices-shape 9x9",
        "scatter-elements --shape 999x999 --indices-shape 999x999",
    ),
    "lines combined in order": (
        "scatter-elements --shape 9x9 --indices-shape 9x9 --reduction add",
        "scatter-elements --shape 999x999 --indices-shape 999x999 --reduction add",
    ),
    "lines combined in any order": (
        "scatter-elements --shape 9x9 --indices-shape 9x9 --reduction add --dtype int32",
        "scatter-elements --shape 999x999 --indices-shape 999x999 --reduction add --dtype int32",
    ),
    "few places": (
        "scatter-nd --shape 2x4 --indices-shape 8x1 --reduction add --dtype int32",
        "scatter-nd --shape 1000x2 --indices-shape 500000x1 --reduction add --dtype int32",
    ),
    "columns by threads": (
        "scatter-elements --shape 2x46 --indices-shape 2x46 --axis 0",
        "scatter-elements --shape 2x700000 --indices-shape 6x700000 --axis 0",
    ),
    "columns by blocks": (
        "scatter-elements --shape 4x2 --indices-shape 30x2 --axis 0 --dtype int8",
        "scatter-elements --shape 2299x439 --indices-shape 9756x439 --axis 0 --dtype float64",
    ),
    "columns transposed": (
        "scatter-elements --shape 20x3 --indices-shape 9x3 --axis 0",
        "scatter-elements --shape 40000x8000 --indices-shape 40000x8000 --axis 0",
    ),
    "bins": (
        "scatter-nd --shape 247 --indices-shape 16x1",
        "scatter-nd --shape 40000000 --indices-shape 9000000x1",
    ),
}
#: And those that the general kernels go.
GENERAL = (
    ("gather --shape 9x9 --indices-shape 3", "threads move units"),
    ("scatter-nd --shape 99x9 --indices-shape 3x2 --reduction add --dtype int32", "the memory combines"),
    ("scatter-nd --shape 99x9 --indices-shape 3x2 --reduction add", "updates are sorted"),
    ("scatter-nd --shape 24x2 --indices-shape 6928x1", "places are claimed"),
    ("scatter-nd --shape 167739x38 --indices-shape 20000x2", "the input is copied; then"),
    ("scatter-nd --shape 99x9 --indices-shape 2x1", "points are few"),
)


def test_explain_has_a_sentence_for_every_way(room):
    from numba_dml.__main__ import build_parser
    from numba_dml._cli import explain
    from numba_dml.cuda.calls import gather, scatter
    from numba_dml.cuda.dispatch import scatter_general
    from numba_dml.cuda.dispatch.top_k import TABLE

    def explained(arguments):
        command = ["explain", *arguments.split(), "--target", "cuda"]
        found = explain.explained(build_parser(command).parse_args(command))
        (sentence,) = found["why"]
        assert len(sentence) > 20
        return found["kernel"], sentence

    sentences = set()
    for way, calls in WAYS.items():
        kernel, sentence = explained(calls[not room.SIMULATED])
        row = way.removeprefix("gathers from ")
        assert kernel.endswith((f"float {row} cuda", f" cuda, {row}")), (kernel, way)
        sentences.add(sentence)
    assert len(sentences) == len(WAYS)
    general = {region.name for region in scatter_general.TABLE}
    for arguments, start in GENERAL:
        kernel, sentence = explained(arguments)
        assert kernel.rpartition(", ")[2] in {"units", *general}
        assert start in sentence
    # All ways that the sources know.
    ways = {region.name for region in TABLE}
    ways |= {row.replace("columns", "gathers from columns") for row in gather.WAYS}
    ways |= scatter.WAYS.keys() - general
    assert ways == WAYS.keys()


#: Small calls of the simulator, each of which has a row as its first choice: the function, the shapes of the input and
#: the indices, the data type, and arguments.
ROWS = {
    "gather": {
        "lines": ("gather_elements", (9, 9), (9, 9), "f4", {"axis": 1}),
        "columns by threads": ("gather_elements", (3, 60), (3, 60), "f4", {"axis": 0}),
        "columns by blocks": ("gather_elements", (6, 3), (9, 3), "i1", {"axis": 0}),
        "columns transposed": ("gather_elements", (26, 5), (8, 5), "f4", {"axis": 0}),
        "slices by warps": ("gather", (40, 3), (31,), "f4", {"axis": 0}),
        "units": ("gather", (9, 9), (3,), "f4", {"axis": 0}),
    },
    "scatter": {
        "lines combined in any order": ("scatter_elements", (9, 9), (9, 9), "i4", {"axis": 1, "reduction": "add"}),
        "lines by their last updates": ("scatter_elements", (9, 9), (9, 9), "f4", {"axis": 1}),
        "lines combined in order": ("scatter_elements", (9, 9), (9, 9), "f4", {"axis": 1, "reduction": "add"}),
        "few places": ("scatter_nd", (2, 4), (8, 1), "i4", {"reduction": "add"}),
        "columns by threads": ("scatter_elements", (2, 46), (2, 46), "f4", {"axis": 0}),
        "columns by blocks": ("scatter_elements", (4, 2), (30, 2), "i1", {"axis": 0}),
        "columns transposed": ("scatter_elements", (20, 3), (9, 3), "f4", {"axis": 0}),
        "bins": ("scatter_nd", (247,), (16, 1), "f4", {}),
        "combined by the memory": ("scatter_nd", (99, 9), (3, 1), "i4", {"reduction": "max"}),
        "sorted and folded": ("scatter_nd", (9, 9), (30, 1), "f4", {"reduction": "add"}),
        "merged": ("scatter_nd", (24, 3), (100, 1), "f4", {}),
        "few points": ("scatter_nd", (100, 9), (2, 1), "f4", {}),
        "written at once": ("scatter_nd", (100, 9), (13, 1), "f4", {"unique": True}),
        "claims in a table": ("scatter_nd", (400, 9), (13, 1), "f4", {}),
        "claims of all places": ("scatter_elements", (5, 7), (4, 13), "c16", {"axis": 1}),
    },
}
#: Scatters that replace, combine integers, and combine floats in their order: rows for some can run all of them.
MORE = [
    ("scatter_elements", (5, 12), (5, 12), "i4", {"axis": 1, "reduction": "min"}),
    ("scatter_elements", (12, 5), (9, 5), "f2", {"axis": 0, "reduction": "mul"}),
    ("scatter_elements", (12, 5), (9, 5), "i4", {"axis": 0, "reduction": "add"}),
    ("scatter_nd", (9, 2), (9, 1), "u1", {"unique": True}),
    ("scatter_nd", (3, 5), (13, 2), "u1", {}),
    ("scatter_nd", (30,), (11, 1), "f4", {"unique": True}),
    ("gather_elements", (2, 5, 7), (2, 9, 7), "f8", {"axis": 1}),
    ("gather_nd", (6, 5), (7, 2), "f4", {}),
]


def small_call(function, shape, index_shape, dtype, arguments):
    """Return a call for the thresholds of now, its inputs, and what it should return."""
    from numba_dml._cli import explain
    from numba_dml._cli import run as cli_run

    rng = np.random.default_rng(len(shape) * sum(index_shape))
    axis = arguments.get("axis", 0)
    sizes = shape[axis : axis + 1] if "axis" in arguments else shape[: index_shape[-1]]
    i = rng.integers(-np.array(sizes), sizes, (*index_shape[:-1], index_shape[-1]))
    if arguments.get("unique"):
        i = rng.permutation(shape[0])[: len(i), None]
    arrays = [rng.integers(0, 9, shape).astype(dtype), i]
    if function == "scatter_elements":
        arrays.append(rng.integers(1, 9, i.shape).astype(dtype))
    elif function == "scatter_nd":
        arrays.append(rng.integers(1, 9, (*i.shape[:-1], *shape[i.shape[-1] :])).astype(dtype))
    given = {"bounds": "raise", **({} if "axis" in arguments else {"batch_dims": 0}), **arguments}
    if function.startswith("scatter"):
        given = {"reduction": "none", "unique": False, **given}
    layouts = [explain.Layout(x.shape, x.dtype) for x in arrays]
    known = {name: value for name, value in arguments.items() if name != "unique"}
    expected = getattr(reference, function)(*arrays, **known)
    return cli_run.planned(function, layouts, given, target="cuda"), arrays, expected


def check_call(call, arrays, expected):
    """Run a call that was built, to an output of its own, and in place."""
    from numba_dml.cuda.driver.arrays import OWN

    a, *others = (OWN.to_device(x, 0) for x in arrays)
    out = OWN.to_device(np.full_like(expected, 7), 0)
    if len(others) == 1:
        call.launch(a, *others, out, 0)
    else:
        call.launch(a, *others, out, 0, ())
        call.launch(a, *others, a, 0, ())
        assert reference.same(OWN.to_host(a), expected)
    assert reference.same(OWN.to_host(out), expected)


def tables():
    """Return the tables of gathers and scatters, by their families."""
    from numba_dml.cuda.dispatch import gather, scatter

    return {"gather": gather.TABLE, "scatter": scatter.TABLE}


@pytest.fixture
def small_thresholds(monkeypatch):
    """The simulator's thresholds, on a device too."""
    from numba_dml.cuda.tuning import moves

    monkeypatch.setattr(moves, "TUNING", moves.SIMULATOR)


@pytest.mark.usefixtures("small_thresholds")
def test_each_row_is_the_first_choice_of_a_call(room):
    for family, table in tables().items():
        assert [row.name for row in table] == list(ROWS[family])
        for name, case in ROWS[family].items():
            call, arrays, expected = small_call(*case)
            row = call.region
            if room.SIMULATED:  # on a device more fits into shared memory
                assert row.name == name
                assert call.kernel.endswith(f"cuda, {name}")
            assert row in table
            assert len(row.why) > 20
            check_call(call, arrays, expected)


@pytest.mark.usefixtures("small_thresholds")
@pytest.mark.parametrize(("family", "name"), [(family, name) for family in ROWS for name in ROWS[family]])
def test_a_row_runs_every_call_that_it_can(family, name):
    """Whether it is worth it or not, a row whose kernel can run a call gives the same bits."""
    from numba_dml._core.regions import forced

    (wanted,) = (row for row in tables()[family] if row.name == name)
    ran = 0
    token = forced.set(name)
    try:
        for case in [*(case for cases in ROWS.values() for case in cases.values()), *MORE]:
            call, arrays, expected = small_call(*case)
            if call.regions is tables()[family] and wanted.can(call.facts, call.tuning):
                assert call.region is wanted
                check_call(call, arrays, expected)
                ran += 1
    finally:
        forced.reset(token)
    assert ran > 0


def test_info_tells_what_runs_the_kernels(room):
    from numba_dml._cli import info

    usable, verdict = info.gpu()
    assert usable
    assert verdict.endswith("runs the kernels on the host" if room.SIMULATED else "can be used")
