"""CUMULATIVE_SUMMATION: the running sums of every line along an axis."""

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
    name="cumulative_sum",
    family="scan",
    summary="add up the elements of every line",
    inputs=("a",),
    outputs=("output",),
    parameters=PARAMETERS,
    compares=True,
    examples=("cumulative-sum a.npy -o sums.npy", "cumulative-sum a.npy --axis 0 --exclusive -o starts.npy"),
    explain_examples=("explain cumulative-sum a.npy --axis 0", "explain cumulative-sum --shape 1000,5000 --axis 1"),
)


@dataclass(frozen=True)
class CumulativeSummationDesc(Cumulative):
    """DML_CUMULATIVE_SUMMATION_OPERATOR_DESC: ``output[i] = input[0] + ... + input[i]`` along an axis.

    Parameters
    ----------
    input_tensor, output_tensor : TensorDesc
        Of one data type and the same sizes.
    axis : int
        The axis along which elements are added.
    axis_direction : AxisDirection
        INCREASING starts at the first element, DECREASING at the last.
    has_exclusive_sum : bool
        True leaves the element itself out of its sum: the first one is 0.
    include_initial : bool
        Native: the output has one more element along the axis, and begins (DECREASING: ends) with 0.
    in_order : bool
        Native: floats are added strictly in order and in their own type, which gives NumPy's bits.
    """

    has_exclusive_sum: bool

    operator_type = OperatorType.CUMULATIVE_SUMMATION
    spec = SPEC
    levels = (*LEVELS, Level(FeatureLevel.FL_2_1, core_descriptor.C4, frozenset(), (4, 4)))
    arguments = {"input_tensor": "a", "output_tensor": "out", "has_exclusive_sum": "exclusive"}
    multiplies = False
    exclusive_field = "has_exclusive_sum"


_build, build_in_order = builders(SPEC, CumulativeSummationDesc)


@public("positional")
def cumulative_sum(
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
    """Return the running sums along an axis.

    ``output[i] = a[0] + ... + a[i]``, as `numpy.cumulative_sum`, but more accurate, and with the same bits everywhere.

    Parameters
    ----------
    a : array_like, shape (..., n, ...)
        The input: bool, numbers of up to 64 bits (float16 and bfloat16 included), or complex numbers, in any memory
        layout, at least 1-d.
    axis : int, optional
        The axis along which to add. It may be left out if there is one dimension.
    dtype : dtype, optional
        Of the result, as of ``a.astype(dtype)``. When absent: that of `a`, but int64 for bool and shorter signed
        integers, and uint64 for shorter unsigned ones, as in NumPy. On a GPU floats cannot become integers, nor
        real numbers complex ones: convert them first.
    include_initial : bool
        Begin with 0 (end with it, if `reverse`): n + 1 results.
    exclusive : bool
        Leave ``a[i]`` out of its sum: the first one is 0.
    reverse : bool
        Add from the end of the axis.
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
    Integers wrap around. Floats are added in float64, in an order that only depends on their positions (see "The order
    of float sums" in the documentation), and rounded once: float32 and float16 results are within 0.502 ulp of the
    exact sums unless ten bits or more cancel, sums of non-negative numbers never decrease, and a line has the same bits
    with any number of threads, in any layout, alone or with others. `numba_dml.numpy.cumsum` has NumPy's bits. Every
    NaN is `numpy.nan`. Implements DML_CUMULATIVE_SUMMATION_OPERATOR_DESC.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.cumulative_sum(np.array([1, 2, 3, 4, 5]), exclusive=True)
    array([ 0,  1,  3,  6, 10])
    >>> dml.cumulative_sum(np.array([[2, 1, 3], [3, 8, 7]]), axis=0)
    array([[ 2,  1,  3],
           [ 5,  9, 10]])
    >>> float(dml.cumulative_sum(np.ones(4096, np.float16))[-1])  # np.cumsum stays at 2048
    4096.0
    """
    if positional:
        refuse_positional("cumulative_sum", 1, "axis", positional)
    parameters = axis, dtype, include_initial, exclusive, reverse
    return cumulate(SPEC, _build, a, out, target, stream, parameters)  # type: ignore[no-any-return]
