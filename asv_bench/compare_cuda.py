"""Measure the CUDA target beside PyTorch and CuPy, and print the tables of docs/performance.md.

``python asv_bench/compare_cuda.py [--cases SUBSTRING] [--small]``. Times are medians of CUDA events around single
calls; inputs and outputs rotate, so that nothing is found in L2 that a user's call would not find there. All libraries
share the device, so they are measured in one process, one after the other for each case.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import version
from statistics import geometric_mean, median
from typing import Any

import cupy
import torch

import numba_dml as dml

Call = Callable[[int], Any]
#: Buffers that take turns: together more than any L2.
ROTATED_BYTES = 300_000_000
GENERATOR = torch.Generator(device="cuda").manual_seed(0)


def milliseconds(call: Call, repeats: int = 15) -> float:
    """Return the median time of a call on the device."""
    for turn in range(3):
        call(turn)
    torch.cuda.synchronize()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for turn, (start, stop) in enumerate(events):
        start.record()
        call(turn)
        stop.record()
    torch.cuda.synchronize()
    return median(start.elapsed_time(stop) for start, stop in events)


def rotated(make: Callable[[], torch.Tensor]) -> list[torch.Tensor]:
    """Return equal tensors of which a call takes one after the other."""
    first = make()
    size = first.numel() * first.element_size()
    return [first, *(make() for _ in range(min(7, ROTATED_BYTES // max(size, 1))))]


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return random elements."""
    if dtype.is_floating_point:
        return torch.randn(shape, device="cuda", generator=GENERATOR, dtype=dtype)
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max, shape, device="cuda", generator=GENERATOR, dtype=dtype)


def positions(limit: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Return random indices."""
    return torch.randint(0, limit, shape, device="cuda", generator=GENERATOR, dtype=dtype)


def top_k(rows: int, columns: int, k: int, axis: int, dtype: torch.dtype) -> tuple[dict[str, Call], int]:
    """Return the calls of a top-k, and the bytes that it has to read."""
    x = rotated(lambda: normal(rows, columns, dtype=dtype))
    shape = (k, columns) if axis == 0 else (rows, k)
    out = (torch.empty(shape, device="cuda", dtype=dtype), torch.empty(shape, device="cuda", dtype=torch.int64))
    calls: dict[str, Call] = {
        "numba_dml": lambda turn: dml.top_k(x[turn % len(x)], k, axis=axis, out=out),
        "torch": lambda turn: torch.topk(x[turn % len(x)], k, dim=axis, out=out),
    }
    if k == 1:  # torch.max is faster, and does not promise which of equal elements it finds
        one = tuple(array.squeeze(axis) for array in out)
        calls["torch"] = lambda turn: torch.max(x[turn % len(x)], axis, out=one)
    return calls, rows * columns * dtype.itemsize


def gather_rows(rows: int, width: int, points: int, dtype: torch.dtype) -> tuple[dict[str, Call], int]:
    """Return the calls of a gather along the first axis, and the bytes that it moves."""
    a = normal(rows, width, dtype=dtype) if width > 1 else normal(rows, dtype=dtype)
    indices = rotated(lambda: positions(rows, points))
    out = rotated(lambda: torch.empty((points, *a.shape[1:]), device="cuda", dtype=dtype))
    calls: dict[str, Call] = {
        "numba_dml": lambda t: dml.gather(a, indices[t % len(indices)], out=out[t % len(out)], bounds="deferred"),
        "torch": lambda t: torch.index_select(a, 0, indices[t % len(indices)], out=out[t % len(out)]),
        "cupy": lambda t: cupy.take(
            cupy.asarray(a), cupy.asarray(indices[t % len(indices)]), 0, cupy.asarray(out[t % len(out)])
        ),
    }
    return calls, points * (2 * width * dtype.itemsize + 8)


def gather_tuples(points: int) -> tuple[dict[str, Call], int]:
    """Return the calls of a gather of single elements by pairs of indices."""
    a, tuples = normal(16384, 16384), positions(16384, points, 2)
    out = torch.empty(points, device="cuda")
    calls: dict[str, Call] = {
        "numba_dml": lambda turn: dml.gather_nd(a, tuples, out=out, bounds="deferred"),
        "torch": lambda turn: a[tuples[:, 0], tuples[:, 1]],
    }
    return calls, points * 24


def gather_elements(size: int, axis: int) -> tuple[dict[str, Call], int]:
    """Return the calls of a gather of single elements along an axis."""
    a, indices, out = normal(size, size), positions(size, size, size), torch.empty(size, size, device="cuda")
    calls: dict[str, Call] = {
        "numba_dml": lambda turn: dml.gather_elements(a, indices, axis=axis, out=out, bounds="deferred"),
        "torch": lambda turn: torch.gather(a, axis, indices, out=out),
    }
    return calls, size * size * 16


def scatter_rows(rows: int, width: int, points: int, unique: bool) -> tuple[dict[str, Call], int]:
    """Return the calls of a scatter of rows into a copy, and the bytes that it moves."""
    a = normal(rows, width) if width > 1 else normal(rows)
    indices = torch.randperm(rows, device="cuda")[:points] if unique else positions(rows, points)
    tuples, updates = indices[:, None].contiguous(), normal(points, *a.shape[1:])
    out = torch.empty_like(a)

    def by_torch(turn: int) -> None:
        out.copy_(a)
        out.index_copy_(0, indices, updates)

    calls: dict[str, Call] = {
        "numba_dml": lambda turn: dml.scatter_nd(a, tuples, updates, out=out, unique=unique, bounds="deferred"),
        "torch": by_torch,
    }
    return calls, (rows + points) * width * 8 + points * 8


def scatter_elements(size: int, axis: int, unique: bool) -> tuple[dict[str, Call], int]:
    """Return the calls of a scatter of single elements along an axis."""
    a, updates, out = normal(size, size), normal(size, size), torch.empty(size, size, device="cuda")
    indices = positions(size, size, size)

    def by_torch(turn: int) -> None:
        out.copy_(a)
        out.scatter_(axis, indices, updates)

    calls: dict[str, Call] = {
        "numba_dml": lambda turn: dml.scatter_elements(
            a, indices, updates, axis=axis, out=out, unique=unique, bounds="deferred"
        ),
        "torch": by_torch,
    }
    return calls, size * size * 24


def cases(shrink: int) -> Iterator[tuple[str, Callable[[], tuple[dict[str, Call], int]]]]:
    """Yield the name and the maker of every case; `shrink` divides the largest sizes."""
    f4, f2, i4, i8, u1 = torch.float32, torch.float16, torch.int32, torch.int64, torch.uint8
    million = 1_000_000 // shrink
    for rows, columns, k, axis, dtype in (
        (1, million, 10, 1, f4),
        (1, 100 * million, 100, 1, f4),
        (1, 100 * million, 100, 1, i4),
        (1, 100 * million, 100, 1, u1),
        (1, 100 * million, 10000, 1, f4),
        (64, 131072 // shrink, 50, 1, f4),
        (64, 131072 // shrink, 50, 1, f2),
        (64, 131072 // shrink, 50, 1, i8),
        (1024, 32000 // shrink, 1, 1, f4),
        (256, 131072 // shrink, 131072 // shrink // 64, 1, f4),
        (256, 131072 // shrink, 131072 // shrink // 64, 1, i4),
        (million, 128, 8, 1, f4),
        (million, 128, 8, 1, f2),
        (16 * million, 64, 6, 1, f4),
        (16384 // shrink, 4096, 64, 1, f4),
        (16384 // shrink, 4096, 64, 1, f2),
        (16384 // shrink, 4096, 64, 1, u1),
        (16384 // shrink, 16384, 8, 0, f4),
        (10, 10 * million, 5 * million, 1, f4),
    ):
        name = f"top_k ({rows}, {columns}) k={k} {str(dtype)[6:]}" + (", axis 0" if axis == 0 else "")
        yield name, lambda a=(rows, columns, k, axis, dtype): top_k(*a)
    for rows, width, points in (
        (10 * million, 64, 10 * million),
        (million // 2, 1024, million // 2),
        (64 * million, 4, 40 * million),
        (32 * million, 16, 20 * million),
        (256 * million, 1, 64 * million),
        (million, 1, 64 * million),
    ):
        yield (
            f"gather {points} rows of {4 * width} bytes of {rows}",
            lambda a=(rows, width, points, f4): gather_rows(*a),
        )
    yield f"gather_nd {100 * million} pairs", lambda: gather_tuples(100 * million)
    for axis in (1, 0):
        yield f"gather_elements ({16384 // shrink}², axis {axis})", lambda a=axis: gather_elements(16384 // shrink, a)
    for rows, width, points in ((10 * million, 64, 5 * million), (million, 1024, 300_000 // shrink)):
        for unique in (True, False):
            name = f"scatter_nd {points} rows of {4 * width} bytes into {rows}" + (", unique" if unique else "")
            yield name, lambda a=(rows, width, points, unique): scatter_rows(*a)
    for unique in (True, False):
        name = f"scatter_nd {64 * million} elements into {256 * million}" + (", unique" if unique else "")
        yield name, lambda u=unique: scatter_rows(256 * million, 1, 64 * million, u)
        for axis in (1, 0):
            name = f"scatter_elements ({16384 // shrink}², axis {axis})" + (", unique" if unique else "")
            yield name, lambda a=axis, u=unique: scatter_elements(16384 // shrink, a, u)


def copy_rate(elements: int) -> float:
    """Return how many GB/s a copy reads and writes."""
    source, target = normal(elements), torch.empty(elements, device="cuda")
    return 8 * elements / milliseconds(lambda turn: target.copy_(source)) / 1e6


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="", metavar="SUBSTRING", help="only cases with this in their names")
    parser.add_argument("--small", action="store_true", help="a hundredth of the sizes: does everything run?")
    args = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numba-cuda", "numba", "numpy", "torch"))
    print(f"{date.today()}, {torch.cuda.get_device_name()}; {versions}, cupy {cupy.__version__}\n")
    limit = copy_rate(1 << (20 if args.small else 28))
    print(f"A copy moves {limit:.0f} GB/s, reads and writes together.\n")
    titles = ["case", "numba_dml, ms", "torch", "cupy", "best peer over ours", "GB/s", "of a copy"]
    print(f"| {' | '.join(titles)} |\n" + "|---" * len(titles) + "|")
    ratios = []
    for name, make in cases(100 if args.small else 1):
        if args.cases not in name:
            continue
        calls, moved = make()
        found = {library: milliseconds(call) for library, call in calls.items()}
        ours = found.pop("numba_dml")
        best = min(found, key=lambda library: found[library])
        ratios.append(found[best] / ours)
        rate = moved / ours / 1e6
        times = " | ".join(f"{found[library]:.4g}" if library in found else "" for library in ("torch", "cupy"))
        print(
            f"| {name} | {ours:.4g} | {times} | {best} {ratios[-1]:.2f}x | {rate:.0f} | {rate / limit:.0%} |",
            flush=True,
        )
        calls.clear()
        torch.cuda.empty_cache()
    dml.check()
    print(f"\nGeometric mean of the ratios: {geometric_mean(ratios):.2f}x.")


if __name__ == "__main__":
    main()
