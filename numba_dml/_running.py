"""Drop-in versions of NumPy's running sums and products, with NumPy's bits; users find them in `numba_dml.numpy`."""

from __future__ import annotations

import operator
from functools import cache, partial
from typing import Any

import numpy as np
from numpy import ndarray

from ._core.calls import call_one
from ._drop_ins import ORDERED, covered, or_numpy, reworded
from .ops.cumulative_prod import SPEC as PRODUCT
from .ops.cumulative_prod import build_in_order as build_product
from .ops.cumulative_sum import SPEC as SUM
from .ops.cumulative_sum import build_in_order as build_sum

RUNNING = 1 << 12  #: elements from which on sums and products run here: below, a call of NumPy's takes less
#: The same for contiguous integers that need no cast, which NumPy adds as fast on one thread.
INTEGERS = 1 << 21
#: What is added and multiplied. Of complex numbers, the last bits of NumPy's products depend on the machine.
_ADDED, _MULTIPLIED = ORDERED | set("?FD"), ORDERED | {"?"}


@cache
def _result_type(ufunc: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of NumPy's result for a dtype."""
    found: np.dtype[Any] = ufunc.accumulate(np.empty(0, dtype)).dtype
    return found


def _run(ufunc: Any, a: Any, axis: Any, dtype: Any, out: Any, include_initial: Any = False) -> Any:
    """Return the sums or products along an axis with NumPy's bits, or NotImplemented."""
    spec, build, known = (SUM, build_sum, _ADDED) if ufunc is np.add else (PRODUCT, build_product, _MULTIPLIED)
    if a.__class__ is not ndarray or a.size < RUNNING or axis.__class__ is bool or not covered(a.dtype, known):
        return NotImplemented
    result = _result_type(ufunc, a.dtype) if dtype is None else np.dtype(dtype)
    if not covered(result, known) or not np.can_cast(a.dtype, result, "same_kind"):
        return NotImplemented
    if out is not None and (out.__class__ is not ndarray or out.dtype.char != result.char or out.dtype != result):
        return NotImplemented
    axis = None if axis is None else operator.index(axis)  # None is for one dimension, which the call checks
    if (
        result.kind in "iu"
        and result == a.dtype
        and a.size < INTEGERS
        and (axis is None or a.strides[axis] == a.itemsize)
    ):
        return NotImplemented
    parameters = axis, result, bool(include_initial), False, False
    return call_one(spec, build, None, None, a, out, parameters)


def _flat(ufunc: Any, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    """Return what `numpy.cumsum` and `numpy.cumprod` do, or NotImplemented."""
    if axis is None and a.__class__ is ndarray:
        a, axis = a.reshape(-1), 0
    return _run(ufunc, a, axis, dtype, out)


def _before_2_1(
    ufunc: Any, x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any:
    """Stand in for `numpy.cumulative_sum` and `numpy.cumulative_prod` before NumPy 2.1."""
    x = np.atleast_1d(x)
    if axis is None:
        if x.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    found = ufunc.accumulate(x, axis, dtype, None if include_initial else out)
    if include_initial:
        found = np.insert(found, 0, ufunc.identity, axis)
        if out is not None:
            out[...] = found
            return out
    return found


@or_numpy(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the running sums along an axis.

    ``output[i] = a[0] + ... + a[i]``, as `numpy.cumsum`.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input.
    axis : int, optional
        The axis along which to add. The flattened input when absent.
    dtype : dtype, optional
        The type to add in; by default that of `out`, or of `a` with short integers as long as NumPy's own.
    out : ndarray, optional
        Where to write, of the result's shape. It may overlap `a`.

    Returns
    -------
    ndarray
        An array of the shape of `a`, or flat without `axis`, or `out`.

    Raises
    ------
    TypeError
        If `a` cannot be added, or `axis` is no integer.
    ValueError
        If `axis` or `out` do not fit.

    See Also
    --------
    numba_dml.cumulative_sum : The kernels' own function: more accurate, and parallel along one line too.

    Notes
    -----
    Adds strictly in order, in the result's own type: NumPy's bits, but for those of NaNs. A NaN makes all later results
    NaN; where the kernels add, every one is `numpy.nan`. Goes to the kernels when `a` is a plain array of native bool,
    integers, floats or complex numbers, with 4096 elements or more; integers along contiguous lines with 2M, if they
    need no cast. Threads share lines.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.cumsum(np.array([[1, 2, 3], [4, 5, 6]]), axis=0)
    array([[1, 2, 3],
           [5, 7, 9]])
    """
    return _flat(np.add, a, axis, dtype, out)


@or_numpy(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _flat(np.multiply, a, axis, dtype, out)


@or_numpy(getattr(np, "cumulative_sum", partial(_before_2_1, np.add)))
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any:
    """Return the running sums along an axis.

    As ``numpy.cumulative_sum`` of NumPy 2.1, and there with any NumPy.

    Parameters
    ----------
    x : array_like, shape (..., n, ...)
        The input.
    axis : int, optional
        The axis along which to add. It may be left out if there is one dimension.
    dtype : dtype, optional
        The type to add in; by default that of `out`, or of `x` with short integers as long as NumPy's own.
    out : ndarray, optional
        Where to write, of the result's shape. It may overlap `x`.
    include_initial : bool, optional
        True: begin with 0, n + 1 results.

    Returns
    -------
    ndarray
        An array of the shape of `x`, or with n + 1 on `axis`, or `out`.

    Raises
    ------
    TypeError
        If `x` cannot be added, or `axis` is no integer.
    ValueError
        If `axis` or `out` do not fit, or `axis` is left out for several dimensions.

    See Also
    --------
    numba_dml.cumulative_sum : The kernels' own function: more accurate, and parallel along one line too.

    Notes
    -----
    Adds strictly in order, in the result's own type: NumPy's bits, but for those of NaNs. A NaN makes all later results
    NaN; where the kernels add, every one is `numpy.nan`. Goes to the kernels when `x` is a plain array of native bool,
    integers, floats or complex numbers, with 4096 elements or more; integers along contiguous lines with 2M, if they
    need no cast. Threads share lines.

    Examples
    --------
    >>> import numpy as np
    >>> import numba_dml.numpy as nnp
    >>> nnp.cumulative_sum(np.array([1, 2, 3]), include_initial=True)
    array([0, 1, 3, 6])
    """
    return _run(np.add, x, axis, dtype, out, include_initial)


@or_numpy(getattr(np, "cumulative_prod", partial(_before_2_1, np.multiply)))
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any:
    return _run(np.multiply, x, axis, dtype, out, include_initial)


#: What the docstring of a product says in place of what that of a sum says.
_OF_PRODUCTS = {
    "running sums": "running products",
    "a[0] + ... + a[i]": "a[0] * ... * a[i]",
    "cumsum": "cumprod",
    "cumulative_sum": "cumulative_prod",
    "which to add": "which to multiply",
    "can be added": "can be multiplied",
    "cannot be added": "cannot be multiplied",
    "Adds strictly": "Multiplies strictly",
    "begin with 0": "begin with 1",
    "function: more accurate, and parallel along one line too": "function",
    "integers, floats or complex numbers": "integers or floats",
    "array([[1, 2, 3],\n           [5, 7, 9]])": "array([[ 1,  2,  3],\n           [ 4, 10, 18]])",
    "array([0, 1, 3, 6])": "array([1, 1, 2, 6])",
}
cumprod.__doc__ = reworded(cumsum.__doc__, _OF_PRODUCTS)
cumulative_prod.__doc__ = reworded(cumulative_sum.__doc__, _OF_PRODUCTS)
