"""What the NumPy-style functions share: how arguments become descriptors, and how errors name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from .._errors import DescriptorError
from .._operator import Descriptor
from .._tensor import TensorDesc

Layout = tuple[tuple[int, ...], np.dtype[Any]]


def normalize_axis(function: str, axis: int, ndim: int) -> int:
    """Return a non-negative axis."""
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"{function}: axis: found {axis}, expected {-ndim} to {ndim - 1} for an array with {ndim} dimension"
            + ("s" if ndim > 1 else "")
        )
    return axis % ndim


def check_data(function: str, name: str, dtype: np.dtype[Any]) -> None:
    """Refuse element types that are neither numbers nor fixed-size bytes."""
    try:
        TensorDesc(dtype, (1,))
    except DescriptorError as error:
        raise TypeError(f"{function}: {name}: found dtype {error.found}, expected {error.expected}") from None


def check_indices(function: str, dtype: np.dtype[Any]) -> None:
    """Refuse indices that are not integers."""
    if dtype.kind not in "iu":
        raise TypeError(f"{function}: indices: found dtype {dtype}, expected an integer dtype")


def check_same_type(function: str, updates: np.dtype[Any], data: np.dtype[Any]) -> None:
    """Refuse updates that would need a cast."""
    if updates.newbyteorder("=") != data.newbyteorder("="):
        raise TypeError(f"{function}: updates: found dtype {updates}, expected {data}, the dtype of a (no silent cast)")


def check_not_scalar(function: str, shape: tuple[int, ...]) -> None:
    """Refuse a 0-d input."""
    if not shape:
        raise ValueError(f"{function}: a: found 0 dimensions, expected at least 1")


def padded(dtype: np.dtype[Any], sizes: Sequence[int], rank: int) -> TensorDesc:
    """Describe an array with as many leading 1s as the common DimensionCount needs."""
    return TensorDesc(dtype, (1,) * (rank - len(sizes)) + tuple(sizes))


def padded_layout(strides: tuple[int, ...], dtype: np.dtype[Any], rank: int) -> Layout:
    """Return the strides that go with `padded`."""
    return (0,) * (rank - len(strides)) + strides, dtype


def reject(function: str, error: DescriptorError, descriptor: type[Descriptor]) -> NoReturn:
    """Raise a descriptor's error in the words of the function."""
    raise error.for_function(function, descriptor.arguments) from None


def check_parameters(function: str, integers: dict[str, Any], others: dict[str, Any]) -> None:
    """Find out which parameter cannot even be looked up: a float as `axis`, a list as `bounds`."""
    for name, value in integers.items():
        if not hasattr(value, "__index__"):
            raise TypeError(f"{function}: {name}: found {value!r}, expected an integer")
    for name, value in others.items():
        _check_hashable(function, name, value)


def _check_hashable(function: str, name: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"{function}: {name}: found {value!r}, expected a single value") from None
