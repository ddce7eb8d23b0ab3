"""Data on the device, made by PyTorch, and calls of libraries that share them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

from . import common, gather_nd


def library(name: str) -> Any:
    """Return a library that can use a GPU."""
    if name == "jax":  # else it takes three quarters of the memory when it starts
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    module = common.library(name)
    if name == "torch" and not module.cuda.is_available():
        raise NotImplementedError("no GPU")
    if name == "cupy" and not module.cuda.is_available():
        raise NotImplementedError("CuPy finds no GPU")
    if name == "jax":
        if module.default_backend() != "gpu":
            raise NotImplementedError("JAX finds no GPU")
        module.config.update("jax_enable_x64", True)
    return module


@lru_cache
def generator() -> Any:
    """Return the source of random numbers on the device."""
    return library("torch").Generator(device="cuda").manual_seed(7)


def torch_dtype(dtype: str) -> Any:
    """Return PyTorch's dtype for the short name of NumPy's."""
    names = {"f2": "float16", "f4": "float32", "f8": "float64", "i4": "int32", "i8": "int64", "u1": "uint8"}
    return getattr(library("torch"), names[dtype])


def values(shape: tuple[int, ...], dtype: str, distribution: str = "random") -> Any:
    """Return what `common.values` does, on the device: of its distributions those without blocks."""
    torch, kind = library("torch"), torch_dtype(dtype)
    if distribution == "equal":
        return torch.full(shape, 3, device="cuda", dtype=kind)
    if distribution in ("ties", "2 values"):
        return positions(10 if distribution == "ties" else 2, shape).to(kind)
    if kind.is_floating_point:
        array = torch.randn(shape, device="cuda", generator=generator(), dtype=kind)
    else:
        limits = torch.iinfo(kind)
        array = torch.randint(limits.min, limits.max, shape, device="cuda", generator=generator(), dtype=kind)
    if distribution == "half nan":
        array[torch.rand(shape, device="cuda", generator=generator()) < 0.5] = torch.nan
    elif distribution in ("ascending", "descending"):
        array = array.sort(-1, descending=distribution == "descending").values
    return array


def positions(limit: int, shape: tuple[int, ...], dtype: str = "i8") -> Any:
    """Return random indices."""
    torch = library("torch")
    return torch.randint(0, limit, shape, device="cuda", generator=generator(), dtype=torch_dtype(dtype))


def permutations(shape: tuple[int, ...], axis: int, dtype: str) -> Any:
    """Return indices for the elements operators: along `axis` every position once, in random order."""
    order = library("torch").rand(shape, device="cuda", generator=generator()).argsort(axis)
    return order.to(torch_dtype(dtype))


def tuples(case: gather_nd.Case, repeated: bool) -> Any:
    """Return index tuples for the ND operators."""
    torch, indexed = library("torch"), common.sizes(case.shape)[: case.coordinates]
    count, total = common.size(case.count), prod(indexed)
    flat = positions(total, (count,)) if repeated else torch.randperm(total, device="cuda")[:count]
    columns = []
    for size in indexed[::-1]:
        columns.append((flat % size).to(torch_dtype(case.index_dtype)))
        flat = flat // size
    return torch.stack(columns[::-1], -1)


def columns(indices: Any) -> tuple[Any, ...]:
    """Return index tuples in the form that advanced indexing takes, contiguous; made outside of the measurement."""
    return tuple(indices[:, d].clone() for d in range(indices.shape[1]))


def to_cupy(*tensors: Any) -> list[Any]:
    """Return tensors as CuPy's arrays, which share their memory."""
    return [library("cupy").asarray(tensor) for tensor in tensors]


#: JAX's jitted functions, by case: the sets of arrays share one.
JITTED: dict[Any, Callable[..., Any]] = {}


def jax_call(case: Any, function: Callable[..., Any], *tensors: Any) -> common.Call:
    """Return the call of a jitted function on JAX's arrays, which share the tensors' memory; it does not wait."""
    jax = library("jax")
    library("torch").cuda.synchronize()
    compiled, data = JITTED.setdefault(case, jax.jit(function)), [jax.dlpack.from_dlpack(tensor) for tensor in tensors]
    return lambda: compiled(*data)


def lines_first(case: Any, make: Callable[[tuple[int, ...]], Any]) -> Any:
    """Return an array whose lines along the case's axis are the last axis of what is made."""
    shape = list(common.sizes(case.shape))
    shape.append(shape.pop(case.axis))
    return make(tuple(shape)).movedim(-1, case.axis).contiguous()
