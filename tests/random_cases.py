"""Random calls of all functions, of any size: arrays of every dtype and layout, indices of every kind."""

import numpy as np

import numba_dml as dml

from .strategies import COMPLEX, INDEX_TYPES, LAYOUTS, NUMBERS, fill, lay_out


def random_shape(rng, rank, most):
    """Return a shape of about e**x elements, x uniform, divided among the axes at random."""
    logs = rng.dirichlet(np.full(rank, 0.7)) * rng.uniform(0, np.log(most))
    return tuple(int(n) for n in np.exp(logs))


def random_array(rng, shape, dtypes=NUMBERS):
    layout = str(rng.choice(LAYOUTS)) if rng.random() < 0.3 else "packed"
    return lay_out(rng, fill(rng, shape, dtypes[rng.integers(len(dtypes))]), layout)


def random_indices(rng, shape, limits):
    """Return indices, in 6 of 10 cases among few, skewed, ascending or constant ones, in 1 of 10 with a bad one."""
    dtype = INDEX_TYPES[rng.integers(len(INDEX_TYPES))]
    limits = np.broadcast_to(limits, shape)
    low = np.where(rng.random(shape) < 0.3, -limits, 0) if dtype.kind == "i" else np.zeros(shape, int)
    part = rng.random(shape)
    kind = rng.integers(10)
    if kind < 2:
        part = part**6
    elif kind < 4:
        part = np.sort(part.reshape(-1)).reshape(shape)
    elif kind < 6:
        part = np.floor(part * 3) / 3
    values = np.clip(low + (part * limits).astype(np.int64), *(np.iinfo(dtype).min, min(np.iinfo(dtype).max, 2**62)))
    if kind == 9 and values.size:
        values.reshape(-1)[rng.integers(0, values.size, 2)] = min(int(limits.max()), np.iinfo(dtype).max)
    return lay_out(rng, values.astype(dtype), "sparse" if rng.random() < 0.1 else "packed")


def read_bounds(rng):
    return str(rng.choice(["raise", "raise", "clamp", "drop"]))


def write_parameters(rng):
    reduction = str(rng.choice(["none", "none", "none", "add", "mul", "min", "max"]))
    return {"reduction": reduction, "bounds": str(rng.choice(["raise", "raise", "drop"]))}


def a_gather(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), most // 8))
    axis = int(rng.integers(a.ndim))
    points = random_shape(rng, rng.integers(1, 3), max(1, most * a.shape[axis] // a.size))
    return dml.gather, (a, random_indices(rng, points, a.shape[axis])), {"axis": axis, "bounds": read_bounds(rng)}


def elements(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), most))
    axis = int(rng.integers(a.ndim))
    shape = [int(rng.integers(max(1, n // 2), n + 1)) if rng.random() < 0.3 else n for n in a.shape]
    shape[axis] = int(a.shape[axis] * rng.uniform(0.02, 1.5)) + 1
    return a, random_indices(rng, tuple(shape), a.shape[axis]), axis


def a_gather_of_elements(rng, most):
    a, i, axis = elements(rng, most)
    return dml.gather_elements, (a, i), {"axis": axis, "bounds": read_bounds(rng)}


def a_scatter_of_elements(rng, most):
    a, i, axis = elements(rng, most)
    updates = random_array(rng, i.shape, [a.dtype.newbyteorder("=")])
    return dml.scatter_elements, (a, i, updates), {"axis": axis, **write_parameters(rng)}


def tuples(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), most // 4))
    t = int(rng.integers(1, a.ndim + 1))
    points = random_shape(rng, 1, max(1, most // int(np.prod(a.shape[t:]))))
    return a, random_indices(rng, (*points, t), a.shape[:t]), t


def a_gather_of_tuples(rng, most):
    a, i, _ = tuples(rng, most)
    return dml.gather_nd, (a, i), {"bounds": read_bounds(rng)}


def a_scatter_of_tuples(rng, most):
    a, i, t = tuples(rng, most)
    updates = random_array(rng, i.shape[:-1] + a.shape[t:], [a.dtype.newbyteorder("=")])
    return dml.scatter_nd, (a, i, updates), write_parameters(rng)


def a_selection(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), most))
    axis = int(rng.integers(a.ndim))
    n = a.shape[axis]
    k = int(rng.integers(0, n + 1)) if rng.random() < 0.3 else min(n, int(np.exp(rng.uniform(0, 6))))
    modes = {"mode": str(rng.choice(["largest", "smallest"])), "nan": str(rng.choice(["last", "largest"]))}
    return dml.top_k, (a, k), {"axis": axis, **modes}


def a_one_hot(rng, most):
    shape = random_shape(rng, rng.integers(1, 4), max(most // 8, 2))
    depth = int(np.exp(rng.uniform(0, np.log(max(most // int(np.prod(shape)), 2)))))
    off, on = fill(rng, (2, 1), NUMBERS[rng.integers(len(NUMBERS))])
    axis = int(rng.integers(len(shape) + 1))
    given = {"axis": axis, "on_value": on[0], "off_value": off[0], "bounds": read_bounds(rng)}
    return dml.one_hot, (random_indices(rng, shape, depth), depth), given


def a_reversal(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), most))
    axis, bounds = int(rng.integers(a.ndim)), str(rng.choice(["raise", "clamp"]))
    sizes = tuple(1 if d == axis or rng.random() < 0.4 else n for d, n in enumerate(a.shape))
    lengths = np.minimum(np.abs(random_indices(rng, sizes, a.shape[axis] + 1).astype(np.int64)), 2**62)
    if rng.random() < 0.8:
        lengths = np.minimum(lengths, a.shape[axis])
    return dml.reverse_subsequences, (a, lengths), {"axis": axis, "bounds": bounds}


def an_unpooling(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), max(most // 4, 2)))
    batch = int(rng.integers(0, a.ndim + 1))
    shape = (*a.shape[:batch], *(int(n * rng.uniform(1, 2)) + 1 for n in a.shape[batch:]))
    indices = random_indices(rng, a.shape, int(np.prod(shape[batch:])))
    fill_value = fill(rng, (1,), a.dtype.newbyteorder("="))[0]
    given = {"batch_dims": batch, "fill_value": fill_value, "bounds": str(rng.choice(["raise", "drop"]))}
    return dml.max_unpool, (a, indices, shape), given


def coordinates(rng, most):
    shape = random_shape(rng, rng.integers(1, 4), most)
    a = np.array(fill(rng, shape, (NUMBERS + COMPLEX)[rng.integers(len(NUMBERS) + 2)]))
    a[np.asarray(rng.random(shape) >= rng.choice([0.01, 0.2, 0.7]))] = 0
    a = lay_out(rng, a, str(rng.choice(LAYOUTS)))
    size = None if rng.random() < 0.4 else int(a.size * rng.random())
    return dml.nonzero_coordinates, (a,), {"size": size, "bounds": "drop", "index_dtype": str(rng.choice(["i4", "i8"]))}


def running_results(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), most), NUMBERS + COMPLEX)
    function = dml.cumulative_sum if rng.random() < 0.8 else dml.cumulative_prod
    flags = [{}, {"exclusive": True}, {"include_initial": True}][rng.integers(3)]
    return function, (a,), {"axis": int(rng.integers(a.ndim)), "reverse": bool(rng.integers(2)), **flags}


def an_extreme(rng, most):
    a = random_array(rng, random_shape(rng, rng.integers(1, 4), most))
    axes = tuple(int(d) for d in rng.permutation(a.ndim)[: rng.integers(1, a.ndim + 1)])
    rules = {"ties": str(rng.choice(["first", "last"])), "nan": str(rng.choice(["first", "last", "largest"]))}
    given = {"axis": None if rng.random() < 0.2 else axes, "keepdims": bool(rng.integers(2))}
    return dml.argmax if rng.integers(2) else dml.argmin, (a,), {**given, **rules}


#: Of the functions that take Dask arrays.
CASES = [
    a_gather,
    a_gather_of_elements,
    a_gather_of_tuples,
    a_scatter_of_elements,
    a_scatter_of_tuples,
    a_selection,
    a_one_hot,
    a_reversal,
    an_unpooling,
    running_results,
    an_extreme,
]
ALL_CASES = [*CASES, coordinates]


def outcome(function, inputs, parameters):
    """Return the results as a list, or the text of the IndexError."""
    try:
        found = function(*inputs, **parameters)
    except IndexError as error:
        return str(error)
    return list(found) if isinstance(found, tuple) else [found]
