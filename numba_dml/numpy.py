"""Drop-in versions of the NumPy functions that the package's kernels can speed up.

``import numba_dml.numpy as nnp``: `take`, `take_along_axis`, `put_along_axis`, `top_k`, `argmax`, `argmin`, `cumsum`,
`cumprod`, `cumulative_sum`, `cumulative_prod`, `nonzero`, `flatnonzero` and `argwhere` have NumPy's signatures, results
and errors. What the kernels do not cover, or where they do not pay, goes to NumPy's function with the same arguments,
and so does a call that fails: the errors are NumPy's own. Only the memory differs: results of the kernels are in C
order (sums and products in the order of the input) and, if large, in the package's pool. And sums and products that
the kernels compute say nothing of overflow and invalid operations: `numpy.errstate` does not reach them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from . import ops
from ._core.devices.libraries import library_of
from ._drop_ins import MOVED, ORDERED, covered, or_numpy, reworded
from ._nonzero import argwhere, flatnonzero, nonzero
from ._running import cumprod, cumsum, cumulative_prod, cumulative_sum

__all__ = ["argmax", "argmin", "put_along_axis", "take", "take_along_axis", "top_k"]
__all__ += ["argwhere", "flatnonzero", "nonzero"]
__all__ += ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]


def __dir__() -> list[str]:
    return __all__


#: Elements from which `take` of single elements and `put_along_axis` run here: below, waking threads costs more.
ELEMENTS = 1 << 18
#: Bytes from which `take` of longer slices runs here. Below, the copies stay in caches, where threads are no help.
ROW_BYTES = 1 << 24
#: `put_along_axis` is only ours if a dimension besides the axis is as long: its lines are what threads share. A single
#: line takes two to five times as long as NumPy.
LINES = 64
#: Elements from which `argmax` and `argmin` along other axes than the last run here: NumPy turns the array around.
COLUMN_ELEMENTS = 1 << 14
CONTIGUOUS_ELEMENTS = 1 << 20  #: the same along the last axis and of contiguous lines: NumPy compares in vectors, too
HALVES = 1 << 10  #: halves, which NumPy compares one by one: 1.8 with 1024, 4.5 with 4096, 40 with 64k


def _broadcast(indices: ndarray[Any, Any], shape: tuple[int, ...], axis: int) -> ndarray[Any, Any]:
    """Return indices along an axis with the sizes of an array off it, where one of the two has size 1 too."""
    if indices.ndim != len(shape):
        raise ValueError
    wanted = tuple(m if d == axis or n == 1 else n for d, (n, m) in enumerate(zip(shape, indices.shape, strict=True)))
    return indices if indices.shape == wanted else np.broadcast_to(indices, wanted)


@or_numpy(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """Take elements from an array along an axis.

    ``output[..., i..., ...] = a[..., indices[i...], ...]``, as `numpy.take`.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input.
    indices : array_like of int, any shape
        Positions along `axis`.
    axis : int, optional
        The axis to take from. The flattened input when absent.
    out : ndarray, optional
        Where to write, of the result's shape and dtype. It may overlap the inputs, and keeps its values after an error.
    mode : {"raise", "wrap", "clip"}
        For an index out of range: raise; count around the axis; or take the nearest element (a negative one means the
        first then).

    Returns
    -------
    ndarray, shape ``a.shape[:axis] + indices.shape + a.shape[axis + 1:]``, for an axis counted from 0
        An array of the type and dtype of `a`, or `out`.

    Raises
    ------
    IndexError
        If an index is out of range and `mode` is ``"raise"``, or the axis is empty and there is any index.
    TypeError
        If `indices` cannot be cast to `numpy.intp` as numbers of the same kind, or the dtype of `out` does not fit.
    ValueError
        If `axis`, `mode` or the shape of `out` do not fit.

    See Also
    --------
    numba_dml.gather : The kernels' own function.

    Notes
    -----
    Duplicate indices are no special case, and no NaN is. Goes to the kernels when `a` and `indices` are plain arrays,
    `a` of a native bool, number or time dtype, and there is enough to take: 256k single elements, or 16 MiB of longer
    slices. Indices out of range that ``"wrap"`` or ``"clip"`` allow go to NumPy, and so do single elements with
    ``"clip"``. Arrays on a CUDA device run there with ``mode="raise"``, as in `numba_dml.gather`; errors are those of
    that function then.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.take(np.array([4, 3, 5, 7, 6, 8]), [[0, 1], [2, -1]])
    array([[4, 3],
           [5, 8]])
    """
    if a.__class__ is not ndarray:
        if mode != "raise" or not library_of(a):
            return NotImplemented
        return _gather(a, indices, axis, out)
    if indices.__class__ is not ndarray or indices.size * a.size < ELEMENTS:
        return NotImplemented
    if axis.__class__ is bool or mode not in ("raise", "wrap", "clip") or not covered(a.dtype, MOVED):
        return NotImplemented
    single = axis is None or axis in (-1, a.ndim - 1)
    size = a.size if axis is None else a.shape[axis]
    least = ELEMENTS if single else ROW_BYTES // a.itemsize
    # NumPy's, without a µs of Python around it. Its "clip" checks nothing, and is faster for single elements.
    if indices.size * (a.size // size) < least or (single and mode == "clip"):
        return a.take(indices, axis, out, mode)
    # Kernels find a bad index on the way: too late for what is in `out`, and "clip" has other negatives.
    if mode == "clip" or out is not None:
        low = 0 if mode == "clip" else -size
        if indices.min() < low or indices.max() >= size:
            return NotImplemented
    return _gather(a, indices, axis, out)


def _gather(a: Any, indices: Any, axis: Any, out: Any) -> Any:
    """Gather, whatever `numba_dml.config` says: NumPy's functions raise."""
    if axis is None:
        a, axis = a.reshape(-1), 0
    return ops.gather(a, indices, axis=axis, out=out, bounds="raise")


@or_numpy(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Take one element along an axis for every position of `indices`.

    ``output[i, j, k] = arr[indices[i, j, k], j, k]`` for axis 0, as `numpy.take_along_axis`.

    Parameters
    ----------
    arr : ndarray, shape (..., n, ...)
        The input.
    indices : ndarray of int, as many dimensions as `arr`
        Positions along `axis`, from ``-n`` to ``n - 1``. Off the axis the sizes broadcast against those of `arr`.
    axis : int or None, optional
        The axis to take along; the last one by default. None: the flattened input, with 1-d `indices`.

    Returns
    -------
    ndarray, the shape of `indices` broadcast against `arr` off the axis
        A new array of the type and dtype of `arr`.

    Raises
    ------
    IndexError
        If an index is out of range, `indices` are not integers, or do not broadcast.
    ValueError
        If `indices` have another number of dimensions, or `axis` does not fit.

    See Also
    --------
    numba_dml.gather_elements : The kernels' own function.

    Notes
    -----
    Duplicate indices are no special case, and no NaN is. Goes to the kernels when `arr` and `indices` are plain arrays,
    `arr` of a native bool, number or time dtype, whatever their size. Arrays on a CUDA device run there, as in
    `numba_dml.gather_elements`, if the sizes off the axis are equal.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> a = np.array([[10, 30, 20], [60, 40, 50]])
    >>> nnp.take_along_axis(a, np.argsort(a, axis=1), axis=1)
    array([[10, 20, 30],
           [40, 50, 60]])
    """
    host = arr.__class__ is ndarray
    if not ((indices.__class__ is ndarray and covered(arr.dtype, MOVED)) if host else library_of(arr)):
        return NotImplemented
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = range(arr.ndim)[axis]
    if host:
        indices = _broadcast(indices, arr.shape, axis)
    elif (*indices.shape[:axis], *indices.shape[axis + 1 :]) != (*arr.shape[:axis], *arr.shape[axis + 1 :]):
        return NotImplemented
    return ops.gather_elements(arr, indices, axis=axis, bounds="raise")


@or_numpy(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> Any:
    """Overwrite one element along an axis for every position of `indices`, in place.

    ``arr[indices[i, j, k], j, k] = values[i, j, k]`` for axis 0, as `numpy.put_along_axis`.

    Parameters
    ----------
    arr : ndarray, shape (..., n, ...)
        The array to write to.
    indices : ndarray of int, as many dimensions as `arr`
        Positions along `axis`, from ``-n`` to ``n - 1``. Off the axis the sizes broadcast against those of `arr`.
    values : array_like
        The new values: broadcast to the indices, and cast to the dtype of `arr` as an assignment does.
    axis : int or None
        The axis to write along. None: the flattened `arr`, with 1-d `indices`.

    Returns
    -------
    None
        The result is in `arr`.

    Raises
    ------
    IndexError
        If an index is out of range, `indices` are not integers, or do not broadcast. Nothing is written then.
    ValueError
        If `arr` is read-only, `indices` have another number of dimensions, or `values` or `axis` do not fit.

    See Also
    --------
    numba_dml.scatter_elements : The kernels' own function; it also adds, multiplies, and takes minima and maxima.

    Notes
    -----
    Duplicate indices: the last value in row-major order wins; with negative strides NumPy, which writes a small array,
    may keep another one. No NaN is a special case. Goes to the kernels when `arr` and `indices` are plain arrays, `arr`
    of a native bool, number or time dtype, with 256k indices or more, and another dimension than the axis is 64 or
    longer.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> a = np.array([[10, 30, 20], [60, 40, 50]])
    >>> nnp.put_along_axis(a, np.array([[1], [0]]), 99, axis=1)
    >>> a
    array([[10, 99, 20],
           [99, 40, 50]])
    """
    if (
        arr.__class__ is not ndarray
        or indices.__class__ is not ndarray
        or arr.size * indices.size < ELEMENTS
        or not covered(arr.dtype, MOVED)
    ):
        return NotImplemented
    axis = range(arr.ndim)[axis]
    if indices.shape != arr.shape:
        others = arr.size // (arr.shape[axis] or 1)
        if indices.ndim != arr.ndim or others * indices.shape[axis] < ELEMENTS:
            return NotImplemented
        indices = _broadcast(indices, arr.shape, axis)
    if indices.size < ELEMENTS:
        return NotImplemented
    lines = max((n for d, n in enumerate(arr.shape) if d != axis), default=1)
    # NumPy walks backwards where all strides are negative, and of duplicates the first one wins then.
    if lines < LINES or min(indices.strides) < 0:
        return NotImplemented
    if values.__class__ is not ndarray or values.dtype != arr.dtype or values.shape != indices.shape:
        if values.__class__ is not ndarray and not isinstance(values, (bool, int, float, complex, np.generic)):
            return NotImplemented
        cast = np.empty(indices.shape, arr.dtype)
        cast[...] = values
        values = cast
    ops.scatter_elements(arr, indices, values, axis=axis, out=arr, bounds="raise")
    return None


def _numpy_top_k(a: Any, k: Any, /, *, axis: Any = -1, mode: Any = "largest", sorted: Any = True) -> tuple[Any, Any]:
    """Stand in for NumPy's `top_k` before 2.6: the same errors for parameters, the package's own for all else."""
    if k <= 0:
        raise ValueError(f"k(={k}) provided must be positive.")
    if axis is None:
        raise ValueError("axis=None is not supported. Please provide a valid axis.")
    if mode not in ["largest", "smallest"]:
        raise ValueError(f'mode(="{mode}") must be either "largest" or "smallest".')
    values, indices = ops.top_k(a, k, axis=axis, mode=mode, sorted=bool(sorted))
    return values, indices


_numpy_top_k.__qualname__ = "top_k"  # what Python's own errors call it


@or_numpy(getattr(np, "top_k", _numpy_top_k))
def top_k(a: Any, k: Any, /, *, axis: Any = -1, mode: Any = "largest", sorted: Any = True) -> Any:
    """Return the k largest or smallest elements along an axis, and where they are.

    As ``numpy.top_k`` of NumPy 2.6, and there with any NumPy.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input.
    k : int
        How many elements to select, 1 to n.
    axis : int
        The axis along which to select.
    mode : {"largest", "smallest"}
        Which end of the order to return.
    sorted : bool
        True: best first. False: any order.

    Returns
    -------
    values : ndarray
        The elements, of the shape of `a` with `k` on `axis`.
    indices : ndarray of intp
        Their positions along the axis, of the same shape.

    Raises
    ------
    TypeError
        If `k` or `axis` is no integer, or `a` has no order.
    ValueError
        If `k` is not in 1 to n, or `axis` or `mode` do not fit.

    See Also
    --------
    numba_dml.top_k : The kernels' own function, with `out`, other index dtypes and other rules for NaN.

    Notes
    -----
    Ties go to the lower index here, in both modes; NumPy leaves that open. A NaN is never selected while a number is
    left. Goes to the kernels when `a` is a plain array of native integers or floats, whatever its size; arrays on a
    CUDA device run there. Before NumPy 2.6 there is nothing to fall back to: array_likes are made plain arrays, bool is
    taken too, and what `numba_dml.top_k` refuses (objects, masks, complex numbers) is an error.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.top_k(np.array([1.0, 2.0, 3.0, np.nan]), 2)
    (array([3., 2.]), array([2, 1]))
    """
    if k < 1 or not (covered(a.dtype, ORDERED) if a.__class__ is ndarray else library_of(a)):
        return NotImplemented
    values, indices = ops.top_k(a, k, axis=axis, mode=mode, sorted=bool(sorted))
    return values, indices


def _arg(find: Any, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    """Return the position of the largest or smallest element, or NotImplemented."""
    if a.__class__ is not ndarray or a.size < HALVES or not covered(a.dtype, ORDERED):
        return NotImplemented
    if axis is not None and (axis.__class__ is bool or not isinstance(axis, (int, np.integer))):
        return NotImplemented
    if a.dtype.char != "e":
        in_vectors = axis is None or axis in (-1, a.ndim - 1) or a.strides[axis] == a.itemsize
        if a.size < (CONTIGUOUS_ELEMENTS if in_vectors else COLUMN_ELEMENTS):
            return NotImplemented
    if out is not None and out.__class__ is not ndarray:
        return NotImplemented
    keepdims = keepdims is not np._NoValue and bool(keepdims)
    found = find(a, axis=axis, keepdims=keepdims, out=out)
    return found[()] if out is None else out  # without dimensions it is a scalar


@or_numpy(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = np._NoValue) -> Any:
    """Return the positions of the largest elements along an axis.

    As `numpy.argmax`.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input.
    axis : int, optional
        The axis along which to search. The flattened input when absent.
    out : ndarray of intp, optional
        Where to write, of the result's shape.
    keepdims : bool, optional
        True: the axis stays, with size 1 (all of them, when `axis` is absent).

    Returns
    -------
    ndarray of intp, or a scalar
        The positions, of the shape of `a` without `axis`, or `out`.

    Raises
    ------
    TypeError
        If `axis` is no integer, or NumPy has no cast from `numpy.intp` to the dtype of `out`.
    ValueError
        If the axis is empty, or `axis` or `out` do not fit.

    See Also
    --------
    numba_dml.argmax : The kernels' own function, for several axes too, and with other rules for ties and NaN.

    Notes
    -----
    Ties go to the first of them. A NaN counts as the largest: the first one is found. Goes to the kernels when `a` is a
    plain array of float16 with 1024 elements or more, or of other native integers or floats with 16k elements, 1M where
    neighbours along `axis` are contiguous: with fewer NumPy is as fast.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.argmax(np.array([[10, 11, 12], [13, 11, 9]]), axis=0)
    array([1, 0, 0])
    """
    return _arg(ops.argmax, a, axis, out, keepdims)


@or_numpy(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = np._NoValue) -> Any:
    return _arg(ops.argmin, a, axis, out, keepdims)


argmin.__doc__ = reworded(
    argmax.__doc__,
    {
        "largest": "smallest",
        "argmax": "argmin",
        "[[10, 11, 12], [13, 11, 9]]": "[[10, np.nan, 12], [13, 11, 9]]",
        "array([1, 0, 0])": "array([0, 0, 1])",
    },
)
