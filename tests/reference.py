"""Slow, obvious oracles in NumPy and plain Python: loops over positions, straight from the specification."""

from __future__ import annotations

from itertools import product

import numpy as np


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


def native(array: np.ndarray) -> np.ndarray:
    return np.array(array, dtype=array.dtype.newbyteorder("="))


def gather(a, indices, axis=0, bounds="raise"):
    a = native(a)
    axis %= a.ndim
    if bounds == "drop" and a.shape[axis] == 0 and indices.size and a.size != 0:
        raise IndexError
    out = np.zeros(a.shape[:axis] + indices.shape + a.shape[axis + 1 :], a.dtype)
    for outer in np.ndindex(a.shape[:axis]):
        for i in np.ndindex(indices.shape):
            place = resolve(indices[i], a.shape[axis], bounds)
            if place is not None:
                out[outer + i] = a[(*outer, place)]
    return out


def gather_elements(a, indices, axis=-1, bounds="raise"):
    a = native(a)
    axis %= a.ndim
    out = np.zeros(indices.shape, a.dtype)
    for i in np.ndindex(indices.shape):
        at = [0 if n == 1 else j for n, j in zip(a.shape, i, strict=True)]
        place = resolve(indices[i], a.shape[axis], bounds)
        if place is not None:
            at[axis] = place
            out[i] = a[tuple(at)]
    return out


def gather_nd(a, indices, batch_dims=0, bounds="raise"):
    a = native(a)
    t = indices.shape[-1]
    out = np.zeros(indices.shape[:-1] + a.shape[batch_dims + t :], a.dtype)
    for p in np.ndindex(indices.shape[:-1]):
        places = [resolve(indices[p][c], a.shape[batch_dims + c], bounds) for c in range(t)]
        if None not in places:
            out[p] = a[p[:batch_dims] + tuple(places)]
    return out


def combine(reduction, old, new):
    """NumPy's own arithmetic on 0-d arrays of the dtype; of equal values, min and max keep the old one."""
    if reduction == "none":
        return new
    if reduction == "mul" and old.dtype.kind == "c":  # NumPy's SIMD loops fuse, so its last bits depend on the machine
        result = np.empty((), old.dtype)
        result.real = old.real * new.real - old.imag * new.imag
        result.imag = old.real * new.imag + old.imag * new.real
        return result
    if reduction in ("add", "mul"):
        return {"add": np.add, "mul": np.multiply}[reduction](old, new, dtype=old.dtype)
    if np.any(old != old) or old == new:
        return old
    if np.any(new != new):
        return new
    return new if (new < old) == (reduction == "min") else old


def scatter_elements(a, indices, updates, axis=-1, reduction="none", bounds="raise"):
    out = native(a)
    updates = native(updates)
    for i in np.ndindex(indices.shape):
        place = resolve(indices[i], a.shape[axis], bounds)
        if place is not None:
            at = list(i)
            at[axis] = place
            out[tuple(at)] = combine(reduction, out[tuple(at)], updates[i])
    return out


def scatter_nd(a, indices, updates, batch_dims=0, reduction="none", bounds="raise"):
    out = native(a)
    updates = native(updates)
    t = indices.shape[-1]
    for p in np.ndindex(indices.shape[:-1]):
        places = [resolve(indices[p][c], a.shape[batch_dims + c], bounds) for c in range(t)]
        if None not in places:
            at = p[:batch_dims] + tuple(places)
            rest = a.shape[batch_dims + t :]
            for s in product(*map(range, rest)):
                out[at + s] = combine(reduction, out[at + s], updates[p + s])
    return out


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


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether two arrays have the same dtype, shape and bits."""
    return (
        x.dtype == y.dtype
        and x.shape == y.shape
        and np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()
    )
