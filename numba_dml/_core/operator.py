"""Compiled operators: a descriptor for one target, called with arrays."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from . import config, targets
from .calls import MAX_CALLS, build_call, call_one, call_three, call_two, clear_calls
from .descriptor import Descriptor, known_level
from .enums import FeatureLevel
from .tensor import native_dtype, packed_strides


class CompiledOperator:
    """A descriptor compiled for one target: call it with arrays.

    The arrays must have the descriptor's sizes and data types (anything else is an error); their strides are free.
    The descriptor is not validated again, and no result is allocated when `out` is given; some kernels take memory
    while they run. Do not change these attributes: equal descriptors share one operator, and several threads may call
    it at once. Strict validation judges what DirectML knows: `bounds`, `unique`, `nan` and `sorted` say how the package
    fills its gaps, and pass. Made by `compile_operator`.

    Attributes
    ----------
    descriptor : Descriptor
    target : str
    feature_level : FeatureLevel or None
    kernel : str
        The kernel that packed arrays run, with its driver.
    work : int
        The bytes that one call reads and writes.
    """

    __slots__ = (
        "_build",
        "_inputs",
        "_output_shapes",
        "descriptor",
        "feature_level",
        "kernel",
        "spec",
        "target",
        "work",
    )

    def __init__(self, descriptor: Descriptor, target: str, feature_level: FeatureLevel | None) -> None:
        self.descriptor, self.spec = descriptor, descriptor.spec
        self.target = target
        self.feature_level = feature_level
        tensors = descriptor.tensors()
        self._inputs = tuple(
            (descriptor.arguments[name], tensors[name].sizes, tensors[name].dtype) for name in descriptor.input_fields
        )
        self._output_shapes = tuple(tensors[name].sizes for name in descriptor.output_fields)
        self._build = partial(self._checked_call)  # part of the cache key: a partial hashes faster than a bound method
        packed = build_call(
            target,
            descriptor,
            tuple((packed_strides(shape, dtype.itemsize), dtype) for _, shape, dtype in self._inputs),
            self._output_shapes,
        )
        self.kernel = packed.kernel
        self.work = packed.work

    def _checked_call(self, *key: Any) -> Any:
        function = self.descriptor.function
        *layout, _, _ = key  # no parameters, and the target
        out_strides = layout.pop(0) if len(self._inputs) > 2 else None
        for (name, shape, dtype), found_shape, found_dtype in zip(self._inputs, layout[::3], layout[2::3], strict=True):
            if found_shape != shape:
                raise ValueError(f"{function} operator: {name}: found shape {found_shape}, expected {shape}")
            if native_dtype(found_dtype) != dtype:
                raise TypeError(f"{function} operator: {name}: found dtype {found_dtype}, expected {dtype}")
        layouts = tuple(zip(layout[1::3], layout[2::3], strict=True))
        return build_call(self.target, self.descriptor, layouts, self._output_shapes, out_strides)

    def __repr__(self) -> str:
        level = "native" if self.feature_level is None else self.feature_level.name
        return (
            f"<CompiledOperator {self.descriptor!r} target={self.target!r} validation={level} "
            f"kernel={self.kernel!r} work={self.work} bytes>"
        )


class OneArrayOperator(CompiledOperator):
    """A compiled operator with one input, as TOP_K."""

    __slots__ = ()

    def __call__(self, a: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Return (or write to `out`, of several results a tuple) what the descriptor says."""
        return call_one(self.spec, self._build, self.target, stream, a, out)


class TwoArrayOperator(CompiledOperator):
    """A compiled operator with two inputs: GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1."""

    __slots__ = ()

    def __call__(self, a: Any, indices: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Return (or write to `out`) what the descriptor says."""
        return call_two(self.spec, self._build, self.target, stream, a, indices, out)


class ThreeArrayOperator(CompiledOperator):
    """A compiled operator with three inputs: SCATTER, SCATTER_ND."""

    __slots__ = ()

    def __call__(self, a: Any, indices: Any, updates: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Return (or write to `out`, which may be `a`) the updated array."""
        return call_three(self.spec, self._build, self.target, stream, (a, indices, updates), out)


_KINDS = (OneArrayOperator, TwoArrayOperator, ThreeArrayOperator)  #: by the number of inputs


@lru_cache(maxsize=MAX_CALLS)
def _compile(descriptor: Descriptor, target: str, feature_level: FeatureLevel | None) -> CompiledOperator:
    if feature_level is not None:
        descriptor.validate(feature_level)
    return _KINDS[len(descriptor.input_fields) - 1](descriptor, target, feature_level)


def compile_operator(
    descriptor: Descriptor, *, target: str | None = None, feature_level: FeatureLevel | int | None = None
) -> Any:
    """Compile a descriptor for a target.

    Parameters
    ----------
    descriptor : Descriptor
        What to compute. It was validated by the package's own (native) rules when it was made.
    target : {"cpu", "cuda"}, optional
        Where to run. When absent: the CPU, or what `config` says.
    feature_level : FeatureLevel, optional
        Validate strictly: refuse what DirectML refuses at this level.

    Returns
    -------
    CompiledOperator
        To be called with arrays: ``op(a, indices, out=...)``, ``op(a, indices, updates, out=...)`` or
        ``op(a, out=...)``. Equal descriptors share one operator.

    Raises
    ------
    DescriptorError
        If the feature level refuses the descriptor.
    ValueError
        If the target is unknown.
    RuntimeError
        If the target cannot be used on this machine.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> x = dml.TensorDesc("float32", (2, 2)); i = dml.TensorDesc("uint32", (2, 1))
    >>> desc = dml.GatherNDDesc(x, i, x, input_dimension_count=2, indices_dimension_count=2)
    >>> op = dml.compile_operator(desc, feature_level=dml.FeatureLevel.FL_3_0)
    >>> op(np.array([[0, 1], [2, 3]], np.float32), np.array([[1], [0]], np.uint32))
    array([[2., 3.],
           [0., 1.]], dtype=float32)
    """
    if not isinstance(descriptor, Descriptor) or type(descriptor) is Descriptor:
        found = type(descriptor).__name__
        raise TypeError(f"compile_operator: descriptor: found {found}, expected a descriptor of an operator")
    if feature_level is not None:
        feature_level = known_level(feature_level)
    if target is None and config.used:
        target = config.current().target
    return _compile(descriptor, targets.resolve_target(target), feature_level)


def cache_clear() -> None:
    """Forget every cached call and operator, and reset the statistics. Compiled kernels stay."""
    clear_calls()
    _compile.cache_clear()
