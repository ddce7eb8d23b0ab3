"""What the NumPy-style functions share: how arguments become descriptors, and how errors name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Signature, signature
from typing import Any, NoReturn, TypeVar

import numpy as np

from .._core.descriptor import Descriptor
from .._core.errors import DescriptorError
from .._core.operands import mask_hint
from .._core.tensor import TensorDesc, normalize_data_type

F = TypeVar("F", bound=Callable[..., Any])
Layout = tuple[tuple[int, ...], np.dtype[Any]]


def normalize_axis(function: str, axis: int, ndim: int) -> int:
    """Return a non-negative axis."""
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"{function}: axis: found {axis}, expected {-ndim} to {ndim - 1} for an array with {ndim} dimension"
            + ("s" if ndim > 1 else "")
        )
    return axis % ndim


def check_data(function: str, name: str, dtype: np.dtype[Any]) -> Any:
    """Return the data type of elements; refuse those that are neither numbers nor fixed-size bytes."""
    try:
        return normalize_data_type(dtype)
    except DescriptorError as error:
        raise TypeError(f"{function}: {name}: found dtype {error.found}, expected {error.expected}") from None


def check_indices(function: str, dtype: np.dtype[Any]) -> None:
    """Refuse indices that are not integers."""
    if dtype.kind not in "iu":
        hint = mask_hint(function) if dtype.kind == "b" else ""
        raise TypeError(f"{function}: indices: found dtype {dtype}, expected an integer dtype{hint}")


def check_not_scalar(function: str, shape: tuple[int, ...]) -> None:
    """Refuse a 0-d input."""
    if not shape:
        raise ValueError(f"{function}: a: found 0 dimensions, expected at least 1")


def padded(data_type: Any, sizes: tuple[int, ...], rank: int) -> TensorDesc:
    """Describe an array with as many leading 1s as the common DimensionCount needs."""
    lead = rank - len(sizes)
    return TensorDesc(data_type, (1,) * lead + sizes if lead else sizes)


def padded_layout(strides: tuple[int, ...], dtype: np.dtype[Any], rank: int) -> Layout:
    """Return the strides that go with `padded`."""
    lead = rank - len(strides)
    return (0,) * lead + strides if lead else strides, dtype


def reject(function: str, error: DescriptorError, descriptor: type[Descriptor]) -> NoReturn:
    """Raise a descriptor's error in the words of the function."""
    raise error.for_function(function, descriptor.arguments) from None


def refuse_positional(function: str, count: int, name: str, values: Sequence[Any]) -> NoReturn:
    """Refuse arguments after the first `count`, which are given by name."""
    hint = f"write {name}={values[0]!r}" if isinstance(values[0], int) else f"write {name}=... and so on"
    raise TypeError(f"{function}: found {count + len(values)} positional arguments, expected {count} ({hint})")


def hide(*names: str) -> Callable[[F], F]:
    """Leave parameters that exist for the sake of an error message out of a function's signature."""

    def decorate(function: F) -> F:
        shown = [p for p in signature(function).parameters.values() if p.name not in names]
        function.__signature__ = Signature(shown)  # type: ignore[attr-defined]
        return function

    return decorate


def check_parameters(function: str, others: dict[str, Any]) -> None:
    """Find out which parameter cannot even be looked up: a list as `bounds`."""
    for name, value in others.items():
        _check_hashable(function, name, value)


def _check_hashable(function: str, name: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"{function}: {name}: found {value!r}, expected a single value") from None
