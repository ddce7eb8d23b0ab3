"""Slow, obvious oracles in NumPy and plain Python, straight from the specification."""

from __future__ import annotations

import sys
from fractions import Fraction
from functools import wraps

import numpy as np


def untraced(function):
    """Run a function without coverage's tracer, which sees nothing in it, and takes as long as all else."""

    @wraps(function)
    def call(*args, **parameters):
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*args, **parameters)
        finally:
            sys.settrace(trace)

    return call


def resolve(value: int, size: int, bounds: str) -> int | None:
    """Return the place that an index means, None for a dropped one."""
    value = int(value)
    place = value + size if value < 0 else value
    if 0 <= place < size:
        return place
    if bounds == "clamp" and size > 0:
        return min(max(place, 0), size - 1)
    if bounds == "drop":
        return None
    raise IndexError(value)


def resolve_all(indices: np.ndarray, size: int, bounds: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the places that indices mean, in a row, and which of them count: a dropped one has any place."""
    places = [resolve(value, size, bounds) for value in indices.reshape(-1).tolist()]
    kept = np.array([place is not None for place in places], bool)
    return np.array([place or 0 for place in places], np.intp), kept


def native(array: np.ndarray) -> np.ndarray:
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


@untraced
def gather(a, indices, axis=0, bounds="raise"):
    a = native(a)
    axis %= a.ndim
    if bounds == "drop" and a.shape[axis] == 0 and indices.size and a.size != 0:
        raise IndexError
    out = np.zeros(a.shape[:axis] + indices.shape + a.shape[axis + 1 :], a.dtype)
    if 0 not in a.shape[:axis]:
        places, kept = resolve_all(indices, a.shape[axis], bounds)
        rows = out.reshape(a.shape[:axis] + (indices.size,) + a.shape[axis + 1 :])
        before = (slice(None),) * axis
        rows[(*before, kept)] = a[(*before, places[kept])]
    return out


@untraced
def gather_elements(a, indices, axis=-1, bounds="raise"):
    a = native(a)
    axis %= a.ndim
    out = np.zeros(indices.shape, a.dtype)
    # Of a dimension of size 1 its only element is meant.
    at = [i if n > 1 else 0 * i for n, i in zip(a.shape, positions(indices.shape), strict=True)]
    at[axis], kept = resolve_all(indices, a.shape[axis], bounds)
    out.reshape(-1)[kept] = a[tuple(i[kept] for i in at)]
    return out


@untraced
def gather_nd(a, indices, batch_dims=0, bounds="raise"):
    a = native(a)
    points = indices.shape[:-1]
    at, kept = tuples_at(a, indices, batch_dims, bounds)
    rest = a.shape[len(at) :]
    out = np.zeros(points + rest, a.dtype)
    out.reshape((len(kept), *rest))[kept] = a[tuple(i[kept] for i in at)]
    return out


def positions(shape):
    """Return the coordinates of all positions of a shape, each in a row."""
    return list(np.indices(shape).reshape(len(shape), np.prod(shape, dtype=int)))


def tuples_at(a, indices, batch_dims, bounds):
    """Return the coordinates that tuples of indices mean, those of batches first, and which tuples count."""
    at = positions(indices.shape[:-1])[:batch_dims]
    kept = np.ones(indices.shape[:-1], bool).reshape(-1)
    for c in range(indices.shape[-1]):
        places, here = resolve_all(indices[..., c], a.shape[batch_dims + c], bounds)
        at.append(places)
        kept &= here
    return at, kept


def keep_nan(operation, old, new):
    """NumPy's arithmetic, but of two NaNs the old one comes out: there it depends on the machine."""
    return operation(old, np.where(old == old, new, old), dtype=old.dtype)


def combine(reduction, old, new):
    """Return what updates leave; of equal values, min and max keep the old one."""
    if reduction == "none":
        return new
    if reduction in ("add", "mul"):
        operation = {"add": np.add, "mul": np.multiply}[reduction]
        if old.dtype.kind != "c":
            return keep_nan(operation, old, new)
        result = np.empty_like(old)
        (a, b), (c, d) = (old.real, old.imag), (new.real, new.imag)
        if reduction == "add":
            result.real, result.imag = keep_nan(np.add, a, c), keep_nan(np.add, b, d)
        else:  # NumPy's SIMD loops fuse, so its last bits depend on the machine
            ac, bd, ad, bc = (keep_nan(np.multiply, x, y) for x, y in ((a, c), (b, d), (a, d), (b, c)))
            result.real, result.imag = keep_nan(np.subtract, ac, bd), keep_nan(np.add, ad, bc)
        return result
    stays = (old != old) | (old == new)
    better = new < old if reduction == "min" else new > old
    return np.where(~stays & (better | (new != new)), new, old)


def update(out, places, updates, reduction):
    """Combine updates with a flat array: the first ones of all places, then their second ones, and so on."""
    seen: dict[int, int] = {}
    nth = np.zeros(len(places), np.intp)
    for i, place in enumerate(places.tolist()):
        nth[i] = seen[place] = seen.get(place, -1) + 1
    order = np.argsort(nth, kind="stable")
    for part in np.split(order, np.cumsum(np.bincount(nth))[:-1]):
        out[places[part]] = combine(reduction, out[places[part]], updates[part])


@untraced
def scatter_elements(a, indices, updates, axis=-1, reduction="none", bounds="raise"):
    out = native(a)
    at = positions(indices.shape)
    at[axis], kept = resolve_all(indices, a.shape[axis], bounds)
    if kept.any():
        places = np.ravel_multi_index([i[kept] for i in at], a.shape)
        update(out.reshape(-1), places, native(updates).reshape(-1)[kept], reduction)
    return out


@untraced
def scatter_nd(a, indices, updates, batch_dims=0, reduction="none", bounds="raise"):
    out = native(a)
    at, kept = tuples_at(a, indices, batch_dims, bounds)
    length = np.prod(a.shape[len(at) :], dtype=int)
    if kept.any() and length:
        slices = np.ravel_multi_index([i[kept] for i in at], a.shape[: len(at)])
        places = slices[:, None] * length + np.arange(length)
        update(out.reshape(-1), places.reshape(-1), native(updates).reshape(len(kept), -1)[kept].reshape(-1), reduction)
    return out


@untraced
def top_k(a, k, axis=-1, mode="largest", nan="last"):
    """The first k of a stable sort, by Python's own ordering of numbers."""
    a = native(a)
    lines = np.moveaxis(a, axis, -1)
    indices = np.zeros(lines.shape[:-1] + (k,), np.intp)
    for outer in np.ndindex(lines.shape[:-1]):
        line = lines[outer].tolist() if a.dtype.kind in "biu" else lines[outer].astype(np.float64).tolist()

        def rank(i, line=line):
            x = line[i]
            if x != x:  # NaN: worst of all, or best of all
                best = nan == "first" or (nan == "largest" and mode == "largest")
                return (0, 0) if best else (2, 0)
            return (1, -x if mode == "largest" else x)

        indices[outer] = sorted(range(len(line)), key=rank)[:k]
    values = np.take_along_axis(lines, indices, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)


@untraced
def argextreme(a, kind, axis=None, keepdims=False, ties="first", nan="first"):
    """Return the position of the best element over some axes, counted over these alone."""
    a = native(a)
    axes = sorted(range(a.ndim) if axis is None else [d % a.ndim for d in np.atleast_1d(axis)])
    kept = [d for d in range(a.ndim) if d not in axes]
    total = int(np.prod([a.shape[d] for d in axes]))
    lines = a.transpose(*kept, *axes).reshape(*[a.shape[d] for d in kept], total)
    sign = 1 if kind == "argmax" else -1
    nan_rank = {"first": 2, "last": 0, "largest": 1 + sign}[nan]

    def order(x):
        x = int(x) if a.dtype.kind in "biu" else float(x)
        return (nan_rank, 0) if x != x else (1, sign * x)

    out = np.zeros(lines.shape[:-1], np.intp)
    for outer in np.ndindex(out.shape):
        keys = [order(x) for x in lines[outer]]
        places = [i for i, key in enumerate(keys) if key == max(keys)]
        out[outer] = places[0 if ties == "first" else -1]
    return out.reshape([1 if d in axes else n for d, n in enumerate(a.shape)]) if keepdims else out


def argextreme_by_numpy(a, kind, axis, ties):
    """Return the same for large arrays, a NaN first."""
    axes = sorted(range(a.ndim) if axis is None else np.atleast_1d(axis))
    kept = [d for d in range(a.ndim) if d not in axes]
    total = int(np.prod([a.shape[d] for d in axes]))
    lines = np.ascontiguousarray(a.transpose(*kept, *axes)).reshape(*[a.shape[d] for d in kept], total)
    if ties == "last":
        lines = np.ascontiguousarray(lines[..., ::-1])
    found = np.asarray(getattr(np, kind)(lines, axis=-1))
    return np.asarray(total - 1 - found if ties == "last" else found)


@np.errstate(over="ignore")
def rounded(value: float, dtype: np.dtype) -> np.ndarray:
    """Round a float64 to a float type once: to the nearest, ties to even; NumPy rounds twice to bfloat16."""
    value = np.float64(value)
    near = np.array(np.nan if np.isnan(value) else value).astype(dtype)
    if dtype.name != "bfloat16" or not np.isfinite(value):
        return near
    bits = int(near.view(np.uint16))
    around = [b for b in (bits - 1, bits, bits + 1) if 0 <= b & 0x7FFF <= 0x7F80 and b >> 15 == bits >> 15]

    def distance(b):
        found = float(np.uint16(b).view(dtype))
        return abs(Fraction(found if np.isfinite(found) else np.copysign(2.0**128, found)) - Fraction(value)), b & 1

    return np.array(np.uint16(min(around, key=distance)).view(dtype))


def block_sums(values: list[float], block: int = 256) -> list[float]:
    """Return the sums of a line in the order that the specification fixes: level by level, by blocks of 256."""
    sums: list[float] = []
    for i, value in enumerate(values):
        sums.append(value if i % block == 0 else sums[-1] + value)
    size = block
    while size < len(values):
        carried, raised = None, []
        for i, value in enumerate(sums):
            if i % (size * block) == 0:
                carried = None
            elif i % size == 0:
                carried = sums[i - 1] if carried is None else carried + sums[i - 1]
            raised.append(value if carried is None else carried + value)
        sums = raised
        size *= block
    return sums


def products(line: np.ndarray) -> list:
    """Return the products of a line from its start on, of complex numbers by the plain formula."""
    found = list(line[:1])
    for x in line[1:]:
        last = found[-1]
        if line.dtype.kind == "c":
            real = last.real * x.real - last.imag * x.imag
            imag = last.real * x.imag + last.imag * x.real
            found.append(_complex(real, imag, line.dtype))
        else:
            found.append(last * x)
    return found


def _complex(real, imag, dtype):
    """Return a complex number of two parts, none of which is changed by an addition."""
    pair = np.empty((), dtype)
    pair.real, pair.imag = real, imag
    return pair[()]


def running(line: np.ndarray, multiplies: bool) -> np.ndarray:
    """Return the inclusive sums or products of a line in its type."""
    dtype, kind = line.dtype, line.dtype.kind
    found = np.empty_like(line)
    if kind == "b":
        found[...] = (np.logical_and if multiplies else np.logical_or).accumulate(line)
    elif kind in "iu":
        total, mask = int(multiplies), (1 << 8 * dtype.itemsize) - 1
        bits = []
        for x in line.tolist():
            total = (total * x if multiplies else total + x) & mask
            bits.append(total)
        found[...] = np.array(bits, np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    elif kind == "c":
        if multiplies:
            found[...] = products(line)
        else:
            found.real, found.imag = running(line.real, False), running(line.imag, False)
        found.real[np.isnan(found.real)] = np.nan
        found.imag[np.isnan(found.imag)] = np.nan
    elif multiplies:
        narrow = dtype.itemsize == 2
        found[...] = [rounded(x, dtype) for x in products(line.astype(np.float32) if narrow else line)]
    else:
        found[...] = [rounded(x, dtype) for x in block_sums(line.astype(np.float64).tolist())]
    return found


@untraced
def cumulative(a, multiplies, axis=None, dtype=None, include_initial=False, exclusive=False, reverse=False):
    """Return the sums or products along an axis."""
    a = native(a)
    a = a.astype({"b": "i8", "i": "i8", "u": "u8"}.get(a.dtype.kind, a.dtype) if dtype is None else dtype)
    axis = 0 if axis is None else axis
    lines = np.moveaxis(a, axis, -1)
    n = lines.shape[-1]
    out = np.empty((*lines.shape[:-1], n + include_initial), a.dtype)
    for outer in np.ndindex(lines.shape[:-1]):
        line = lines[outer][::-1] if reverse else lines[outer]
        with np.errstate(all="ignore"):
            found = running(line, multiplies)
        if exclusive or include_initial:
            found = np.concatenate([np.full(1, int(multiplies), a.dtype), found])[: n + include_initial]
        out[outer] = found[::-1] if reverse else found
    return np.moveaxis(out, -1, axis)


def nonzero_coordinates(a: np.ndarray) -> np.ndarray:
    """Return the index of every element that is not zero, one after the other."""
    found = [place for place in np.ndindex(a.shape) if a[place] != 0]
    return np.array(found, np.intp).reshape(len(found), a.ndim)


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether two arrays have the same dtype, shape and bits."""
    return (
        x.dtype == y.dtype
        and x.shape == y.shape
        and np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()
    )


@untraced
def one_hot(indices, depth, off, on, axis=-1, bounds="raise"):
    off, on = (native(value).reshape(1) for value in (off, on))
    places, kept = resolve_all(indices, depth, bounds)
    rows = np.empty((indices.size, depth), off.dtype)
    rows[...] = off
    for i in range(indices.size):
        if kept[i]:
            rows[i, places[i]] = on[0]
    return np.ascontiguousarray(np.moveaxis(rows.reshape(*indices.shape, depth), -1, axis))


@untraced
def reverse_subsequences(a, lengths, axis=-1, bounds="raise"):
    out = native(a)
    axis %= a.ndim
    limit = a.shape[axis]
    if bounds == "raise" and any(not 0 <= length <= limit for length in lengths.reshape(-1).tolist()):
        raise IndexError
    sizes = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    whole = np.broadcast_to(lengths, sizes)
    for place in np.ndindex(sizes):
        line = (*place[:axis], slice(None), *place[axis + 1 :])
        length = min(max(int(whole[place]), 0), limit)
        out[line][:length] = native(a)[line][:length][::-1]
    return out


@untraced
def max_unpool(a, indices, shape, batch_dims=0, fill_value=0, bounds="raise"):
    a = native(a)
    out = np.zeros(shape, a.dtype)
    if not (fill_value.__class__ is int and fill_value == 0):
        out[...] = fill_value
    blocks = int(np.prod(shape[:batch_dims]))
    block = int(np.prod(shape[batch_dims:]))
    places, kept = resolve_all(indices, block, bounds)
    count = int(np.prod(a.shape[batch_dims:]))
    flat, elements = out.reshape(blocks, block), a.reshape(-1)
    for p in range(a.size):
        if kept[p]:
            flat[p // count, places[p]] = elements[p]
    return out
