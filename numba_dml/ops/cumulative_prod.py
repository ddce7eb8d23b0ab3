"""CUMULATIVE_PRODUCT: the running products of every line along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy import ndarray

from .._core import descriptor as core_descriptor
from .._core.descriptor import Level
from .._core.enums import FeatureLevel, OperatorType
from .._core.spec import Spec
from ._shared.function import public, refuse_positional
from ._shared.scan import LEVELS, PARAMETERS, Cumulative, builders, cumulate

SPEC = Spec(
    name="cumulative_prod",
    family="scan",
    summary="multiply the elements of every line",
    inputs=("a",),
    outputs=("output",),
    parameters=PARAMETERS,
    compares=True,
    examples=("cumulative-prod a.npy -o products.npy", "cumulative-prod a.npy --axis 0 --reverse -o products.npy"),
    explain_examples=("explain cumulative-prod a.npy --axis 0", "explain cumulative-prod --shape 1000,5000 --axis 1"),
)


@dataclass(frozen=True)
class CumulativeProductDesc(Cumulative):
    """DML_CUMULATIVE_PRODUCT_OPERATOR_DESC: ``output[i] = input[0] * ... * input[i]`` along an axis.

    Parameters
    ----------
    input_tensor, output_tensor : TensorDesc
        Of one data type and the same sizes.
    axis : int
        The axis along which elements are multiplied.
    axis_direction : AxisDirection
        INCREASING starts at the first element, DECREASING at the last.
    has_exclusive_product : bool
        True leaves the element itself out of its product: the first one is 1.
    include_initial : bool
        Native: the output has one more element along the axis, and begins (DECREASING: ends) with 1.
    in_order : bool
        Native: float16 and bfloat16 are rounded at each step, which gives NumPy's bits.
    """

    has_exclusive_product: bool

    operator_type = OperatorType.CUMULATIVE_PRODUCT
    spec = SPEC
    levels = (*LEVELS, Level(FeatureLevel.FL_3_1, core_descriptor.C4, frozenset(), (4, 4)))
    arguments = {"input_tensor": "a", "output_tensor": "out", "has_exclusive_product": "exclusive"}
    multiplies = True
    exclusive_field = "has_exclusive_product"


_build, build_in_order = builders(SPEC, CumulativeProductDesc)


@public("positional")
def cumulative_prod(
    a: Any,
    /,
    *positional: Any,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
    out: Any = None,
    target: str | None = None,
    stream: Any = None,
) -> ndarray[Any, Any]:
    """Return the running products along an axis.

    ``output[i] = a[0] * ... * a[i]``, as `numpy.cumulative_prod`.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input: bool, numbers of up to 64 bits (float16 and bfloat16 included), or complex numbers, in any memory
        layout, at least 1-d.
    axis : int, optional
        The axis along which to multiply. It may be left out if there is one dimension.
    dtype : dtype, optional
        Of the result, as of ``a.astype(dtype)``. When absent: that of `a`, but int64 for bool and shorter signed
        integers, and uint64 for shorter unsigned ones, as in NumPy. On a GPU floats cannot become integers, nor
        real numbers complex ones: convert them first.
    include_initial : bool
        Begin with 1 (end with it, if `reverse`): n + 1 results.
    exclusive : bool
        Leave ``a[i]`` out of its product: the first one is 1.
    reverse : bool
        Multiply from the end of the axis.
    out : ndarray, optional
        Where to write: exactly the result's shape and dtype. It may overlap `a`; ``out=a`` works in place if that is
        the result's dtype.
    {where}

    Returns
    -------
    ndarray, shape ``(..., n, ...)``, or with n + 1 on `axis`
        A new array, whose dimensions lie in memory in the order of those of `a`, or `out`. In native byte order.

    Raises
    ------
    TypeError
        If `a` or `dtype` are no numbers, `a` has a mask, `axis` is no integer, or `out` is no array of the result's
        dtype.
    ValueError
        If `a` is 0-d, `axis` does not fit, or is left out for several dimensions, both `exclusive` and
        `include_initial` are true, the shape of `out` does not fit, or `out` is read-only or overlaps itself.

    Notes
    -----
    Integers wrap around. Floats are multiplied strictly in order, in the result's type: float32, float64 and integers
    have the bits of `numpy.cumprod`, but for NaNs; float16 and bfloat16 are multiplied in float32 and rounded for the
    output alone. Complex products follow the textbook formula. Lines are shared by threads, a single line is not. Every
    NaN is `numpy.nan`. Implements DML_CUMULATIVE_PRODUCT_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.cumulative_prod(np.array([1, 2, 3, 4, 5]), exclusive=True)
    array([ 1,  1,  2,  6, 24])
    >>> dml.cumulative_prod(np.array([[2, 1, 3], [3, 8, 7]]), axis=0)
    array([[ 2,  1,  3],
           [ 6,  8, 21]])
    """
    if positional:
        refuse_positional("cumulative_prod", 1, "axis", positional)
    parameters = axis, dtype, include_initial, exclusive, reverse
    return cumulate(SPEC, _build, a, out, target, stream, parameters)  # type: ignore[no-any-return]
