"""ARGMAX: the position of the largest element over some axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy import ndarray

from .._core.enums import OperatorType
from .._core.spec import Spec
from ._shared.extreme import PARAMETERS, ArgExtreme, builder, find
from ._shared.function import public, refuse_positional

SPEC = Spec(
    name="argmax",
    family="argextreme",
    summary="find the largest element of every line, or over several axes",
    inputs=("a",),
    outputs=("output",),
    parameters=PARAMETERS,
    compares=True,
    examples=("argmax scores.npy --axis 1 -o best.npy", "argmax scores.npy --axis 0,2 --ties last -o best.npy"),
    explain_examples=("explain argmax scores.npy --axis 0", "explain argmax --shape 1000,5000 --axis 1"),
)


@dataclass(frozen=True)
class ArgmaxDesc(ArgExtreme):
    """DML_ARGMAX_OPERATOR_DESC: the position of the largest element of each set that some axes span.

    Parameters
    ----------
    input_tensor, output_tensor : TensorDesc
        Of one dimension count; the output, of integers, has the input's sizes with 1 on the axes.
    axes : sequence of int
        The axes, a set: positions count in row-major order over these axes in ascending order. ``axis_count`` is their
        number.
    axis_direction : AxisDirection
        INCREASING takes the first of equal elements, DECREASING the last.
    nan : {"first", "last", "largest"}
        Where NaN stands in the order (see `numba_dml.argmax`).
    """

    operator_type = OperatorType.ARGMAX
    spec = SPEC
    largest = True


_build = builder(SPEC, ArgmaxDesc)


@public("positional")
def argmax(
    a: Any,
    /,
    *positional: Any,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ties: str = "first",
    nan: str = "first",
    index_dtype: Any = None,
    out: Any = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Return the position of the largest element along an axis, or over several.

    As `numpy.argmax`, and for several axes too.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input: bool, integers or floats (float16 and bfloat16 included) in any memory layout, at least 1-d.
    axis : int or tuple of int, optional
        The axis, or several; all when absent. Over several axes the position is the linear index, in row-major order
        over these axes alone in ascending order, whatever their order in the tuple.
    keepdims : bool
        True: the axes stay, with size 1.
    ties : {"first", "last"}
        Which of equal elements is found.
    nan : {"first", "last", "largest"}
        ``first``: a NaN is found before any number, by `argmin` too, as in NumPy. ``last``: only where there is no
        number. ``largest``: NaN stands above +inf. NaNs tie with each other.
    index_dtype : dtype, optional
        The integer dtype of the result; `numpy.intp` when absent.
    out : ndarray, optional
        Where to write: exactly the result's shape and dtype. It may overlap `a`.
    {where}

    Returns
    -------
    ndarray
        The positions, of the shape of `a` without the axes, or with size 1 there. In native byte order.

    Raises
    ------
    TypeError
        If `a` has no order or a mask, `axis` is neither an integer nor a tuple of them, `index_dtype` is no integer
        dtype, or `out` is no array of the result's dtype.
    ValueError
        If `a` is 0-d or has size 0 on an axis, `axis` does not fit or names an axis twice, `ties` or `nan` is no
        choice, `index_dtype` cannot hold the last position, the shape of `out` does not fit, or `out` is read-only or
        overlaps itself.

    Notes
    -----
    -0 and +0 tie. Along one axis, with ``ties="first"``, it is ``top_k(a, 1, nan=nan).indices``. Complex numbers have
    no order here; `numba_dml.numpy.argmax` takes them. Implements DML_ARGMAX_OPERATOR_DESC (``last`` is DECREASING).

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> a = np.array([[1, 2, 3], [3, 0, 4], [2, 5, 2]])
    >>> dml.argmax(a, axis=1)
    array([2, 2, 1])
    >>> dml.argmax(a, axis=(0, 1), keepdims=True)
    array([[7]])
    >>> int(dml.argmax(np.array([3, 2, 1, 2, 3]), ties="last"))
    4
    """
    if positional:
        refuse_positional("argmax", 1, "axis", positional)
    parameters = axis, keepdims, ties, nan, index_dtype
    return find(SPEC, _build, a, out, target, stream, parameters)  # type: ignore[no-any-return]
