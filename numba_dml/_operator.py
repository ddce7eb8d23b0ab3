"""Descriptors, lowerings and compiled operators: what stands between a function and a kernel.

A *descriptor* says what is computed on which sizes and types, and is the only validator. A *lowering* says the same in
plain numbers for one memory layout. An *operator* is a descriptor compiled for a *target*; it finds (or builds) the
*call* for the layout of the arrays it is given. Every call that was ever built waits in one bounded cache; beside it,
as bounded, are the last ones for arrays on a device, by what they were asked for.
"""

from __future__ import annotations

import dataclasses
from array import array as typed_array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from itertools import chain, count
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy import ndarray

from . import _config, _dispatch
from ._config import BOUNDS as BOUNDS
from ._device import DeviceArray, library_of, library_of_type, stream_pointer
from ._enums import FeatureLevel, OperatorType, TensorDataType
from ._errors import DescriptorError, flag
from ._lowering import Move, Select
from ._tensor import TensorDesc, data_type_name, elements_overlap, packed_strides

D = TensorDataType
#: DirectML's sets of data types, by the names that the feature tables use.
TF = frozenset({D.FLOAT32, D.FLOAT16})
T8 = TF | {D.INT32, D.INT16, D.INT8, D.UINT32, D.UINT16, D.UINT8}
T10 = T8 | {D.INT64, D.UINT64}
T11 = T10 | {D.FLOAT64}
I4 = frozenset({D.INT64, D.INT32, D.UINT64, D.UINT32})
U2 = frozenset({D.UINT64, D.UINT32})
U32 = frozenset({D.UINT32})

#: Types that can index: the functions take them all, DirectML the four of I4.
INDEX_TYPES = I4 | {D.INT16, D.INT8, D.UINT16, D.UINT8}

REDUCTIONS = ("none", "add", "mul", "min", "max")
#: The error for two outputs in the same memory: what is written last would be in both.
SHARED_OUTPUTS = "top_k: out: found values and indices that share memory, expected two arrays"

MAX_ELEMENTS = 2**32 - 1
MAX_DIMENSIONS = 64
MAX_CALLS = 4096
#: Up to MAX_KEPT calls are kept beside these, 1 to 2 KB each; one new call in RENEWED replaces the oldest of them.
MAX_KEPT, RENEWED = 2 * MAX_CALLS, 8


class Level(NamedTuple):
    """One row of an operator's feature table; it holds until the next row's level."""

    level: FeatureLevel
    data: frozenset[TensorDataType]
    indices: frozenset[TensorDataType]
    dimensions: tuple[int, int]


def known_level(value: Any) -> FeatureLevel:
    """Return a feature level, given as a member or its number."""
    try:
        return FeatureLevel(value)
    except ValueError:
        names = ", ".join(level.name for level in FeatureLevel)
        raise ValueError(f"feature_level: found {value!r}, expected a FeatureLevel: {names}") from None


def _type_names(types: frozenset[TensorDataType]) -> str:
    return "one of " + ", ".join(sorted(t.name for t in types))


@dataclass(frozen=True)
class Descriptor:
    """What the descriptors of all operators share: strict validation, dicts, and the way to a lowering."""

    operator_type: ClassVar[OperatorType]
    #: The function of the package that does the same, for error messages.
    function: ClassVar[str]
    levels: ClassVar[tuple[Level, ...]]
    input_fields: ClassVar[tuple[str, ...]]
    output_fields: ClassVar[tuple[str, ...]]
    #: The tensor of indices; for a top-k it is an output.
    index_field: ClassVar[str]
    #: Descriptor fields by the name of the function's argument.
    arguments: ClassVar[dict[str, str]]
    #: Extra fields that DirectML does not have, and the only value that strict validation lets pass.
    native_only: ClassVar[dict[str, Any]] = {}

    def refuse(self, field: str, found: Any, expected: Any, rule: str = "") -> DescriptorError:
        """Return the error to raise for `field`."""
        return DescriptorError(type(self).__name__, field, found, expected, rule)

    def tensors(self) -> dict[str, TensorDesc]:
        """Return the tensor descriptors by field, inputs first."""
        return {name: getattr(self, name) for name in (*self.input_fields, *self.output_fields)}

    def check_tensors(self) -> None:
        """Check what holds for every operator in native mode: ranks, data types and outputs without overlap."""
        tensors = self.tensors()
        for name, tensor in tensors.items():
            if not isinstance(tensor, TensorDesc):
                raise self.refuse(name, f"a {type(tensor).__name__}", "a TensorDesc")
        first, index_field = self.input_fields[0], self.index_field
        data = tensors[first]
        rank, kind = len(data.sizes), data.data_type
        if rank > MAX_DIMENSIONS:
            raise self.refuse(first, f"{rank} dimensions", f"at most {MAX_DIMENSIONS}, NumPy's limit")
        for name, tensor in tensors.items():
            if len(tensor.sizes) != rank:
                raise self.refuse(name, f"{len(tensor.sizes)} dimensions", f"{rank}, as {first} has")
            if name == index_field:
                if tensor.data_type not in INDEX_TYPES:
                    raise self.refuse(name, data_type_name(tensor.data_type), "an integer data type")
            elif tensor.data_type != kind:
                expected = f"{data_type_name(kind)}, the type of {first}"
                raise self.refuse(name, data_type_name(tensor.data_type), expected)
        for name in self.output_fields:
            tensor = tensors[name]
            if tensor.strides is not None and elements_overlap(tensor.sizes, tensor.strides):
                raise self.refuse(name, f"strides {tensor.strides}", "elements that do not overlap", "it is an output")

    def check_output(self, field: str, expected: tuple[int, ...]) -> None:
        """Check the sizes of an output against the operator's shape rule."""
        found = getattr(self, field).sizes
        if found != expected:
            raise self.refuse(field, f"sizes {found}", f"sizes {expected}")

    def check_choice(self, field: str, choices: Sequence[str]) -> None:
        """Check a field that holds one of a few words."""
        if getattr(self, field) not in choices:
            raise self.refuse(field, repr(getattr(self, field)), "one of " + ", ".join(map(repr, choices)))

    def check_bool(self, field: str) -> None:
        """Check a field that is true or false."""
        value = getattr(self, field)
        if value.__class__ is bool:
            return
        try:
            object.__setattr__(self, field, flag(field, value))
        except TypeError:
            raise self.refuse(field, repr(value), "True or False") from None

    def check_range(self, field: str, low: int, high: int) -> None:
        """Check an integer field against an inclusive range."""
        value = getattr(self, field)
        if value.__class__ is int and low <= value <= high:
            return
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise self.refuse(field, repr(value), "an integer")
        if not low <= value <= high:
            raise self.refuse(
                field, value, f"{low} to {high}" if low <= high else "no value: the input has no dimension"
            )
        object.__setattr__(self, field, type(value)(value) if isinstance(value, IntEnum) else int(value))

    def effective(self, field: str, count: int) -> tuple[int, ...]:
        """Return the last `count` sizes of a tensor; the dimensions before them must have size 1."""
        sizes: tuple[int, ...] = getattr(self, field).sizes
        lead = len(sizes) - count
        if lead == 0:
            return sizes
        if sizes[:lead].count(1) != lead:
            raise self.refuse(
                field, f"sizes {sizes}", f"size 1 in the first {lead} dimensions", f"only the last {count} are counted"
            )
        return sizes[lead:]

    def validate(self, feature_level: FeatureLevel | int) -> None:
        """Refuse what DirectML refuses at a feature level.

        Parameters
        ----------
        feature_level : FeatureLevel
            The level to check against.

        Raises
        ------
        DescriptorError
            Naming the field, what was found and what the level expects.
        """
        feature_level = known_level(feature_level)
        rows = [row for row in self.levels if row.level <= feature_level]
        if not rows:
            first = min(row.level for row in self.levels)
            raise self.refuse(
                "feature_level", feature_level.name, f"{first.name} or later", "the operator's first level"
            )
        row = max(rows, key=lambda r: r.level)
        self.check_strict(feature_level.name)
        for name, tensor in self.tensors().items():
            self._validate_tensor(name, tensor, row, feature_level.name)
        for name, value in self.native_only.items():
            if getattr(self, name) != value:
                raise self.refuse(
                    name, repr(getattr(self, name)), repr(value), f"{feature_level.name}: not in DirectML"
                )

    def _validate_tensor(self, name: str, tensor: TensorDesc, row: Level, rule: str) -> None:
        low, high = row.dimensions
        if not low <= tensor.dimension_count <= high:
            wanted = f"{low} dimensions" if low == high else f"{low} to {high} dimensions"
            raise self.refuse(name, f"{tensor.dimension_count} dimensions", wanted, rule)
        types = row.indices if name == self.index_field else row.data
        if tensor.data_type not in types:
            raise self.refuse(name, data_type_name(tensor.data_type).upper(), _type_names(types), rule)
        if 0 in tensor.sizes:
            raise self.refuse(name, f"sizes {tensor.sizes}", "sizes of at least 1", rule)
        if tensor.element_count > MAX_ELEMENTS:
            raise self.refuse(name, f"{tensor.element_count} elements", f"at most {MAX_ELEMENTS}", rule)
        if tensor.strides is not None and any(not 0 <= stride <= MAX_ELEMENTS for stride in tensor.strides):
            raise self.refuse(name, f"strides {tensor.strides}", "unsigned 32-bit strides", rule)

    def check_strict(self, rule: str) -> None:
        """Check what only this operator restricts in strict mode."""

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Move | Select:
        """Return the lowering for arrays with these strides (in bytes), in the order of the fields."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that JSON can hold; `from_dict` turns it back without loss."""
        values: dict[str, Any] = {"operator": type(self).__name__.removesuffix("Desc")}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            values[field.name] = value.to_dict() if isinstance(value, TensorDesc) else value
            if isinstance(value, IntEnum):
                values[field.name] = value.name
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Descriptor:
        """Build a descriptor from the result of `to_dict`.

        Called on `Descriptor` itself, it returns the class that the dict names.
        """
        fields = dict(values)
        name = fields.pop("operator", cls.__name__.removesuffix("Desc"))
        name = _ALIASES.get(name, name)
        kinds = {kind.__name__: kind for kind in _subclasses(cls) if dataclasses.fields(kind)}
        kind = kinds.get(f"{name}Desc")
        if kind is None:
            expected = ", ".join(sorted(n.removesuffix("Desc") for n in kinds))
            raise DescriptorError(cls.__name__, "operator", repr(name), f"one of {expected}")
        known = {field.name for field in dataclasses.fields(kind)}
        if missing := [n for n in (*kind.input_fields, *kind.output_fields) if n not in fields]:
            raise DescriptorError(kind.__name__, missing[0], "nothing", "a tensor")
        if unknown := [n for n in fields if n not in known]:
            raise DescriptorError(
                kind.__name__, unknown[0], "a field of this name", "one of " + ", ".join(sorted(known))
            )
        return kind(**{k: TensorDesc.from_dict(v) if isinstance(v, Mapping) else v for k, v in fields.items()})


#: DirectML's older names of operators.
_ALIASES = {"Scatter": "ScatterElements"}


def _subclasses(cls: type[Descriptor]) -> list[type[Descriptor]]:
    """Return a class and everything below it."""
    return [cls, *(kind for child in cls.__subclasses__() for kind in _subclasses(child))]


#: Of each input its strides, in bytes and in the descriptor's rank, and its dtype, which may have another byte order.
Layouts = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


def build_call(
    target: str | None,
    descriptor: Descriptor,
    layouts: Layouts,
    output_shapes: tuple[tuple[int, ...], ...],
    out_strides: tuple[int, ...] | None = None,
) -> Any:
    """Return what computes a descriptor for inputs of these layouts on a target.

    `output_shapes` are the shapes that the caller sees: a function's have no leading 1s. `out_strides` describe an
    output that is written in place (a scatter's); it is packed when they are absent.
    """
    try:
        kernels = _dispatch.kernels(_dispatch.resolve_target(target))
        return kernels.call(descriptor, layouts, output_shapes, out_strides)
    except OverflowError:  # offsets are 64-bit numbers; no array can be so large, but a descriptor can
        raise ValueError(
            f"{descriptor.function}: found a tensor of 2**63 bytes or more, expected a smaller one"
        ) from None


class CompiledOperator:
    """A descriptor compiled for one target: call it with arrays.

    The arrays must have the descriptor's sizes and data types (anything else is an error); their strides are free.
    The descriptor is not validated again, and nothing is allocated when `out` is given. These attributes do not change,
    and an operator may be called from several threads at once. Strict validation judges what DirectML knows: `bounds`,
    `unique`, `nan` and `sorted` say how the package fills its gaps, and pass. Made by `compile_operator`.

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
        "_last",
        "_output_shapes",
        "descriptor",
        "feature_level",
        "kernel",
        "target",
        "work",
    )

    def __init__(self, descriptor: Descriptor, target: str, feature_level: FeatureLevel | None) -> None:
        self.descriptor = descriptor
        self.target = target
        self.feature_level = feature_level
        tensors = descriptor.tensors()
        self._inputs = tuple(
            (descriptor.arguments[name], tensors[name].sizes, tensors[name].dtype) for name in descriptor.input_fields
        )
        self._output_shapes = tuple(tensors[name].sizes for name in descriptor.output_fields)
        #: The last call for arrays on a device: the next one may be the same (see `cuda._repeat`).
        self._last: Any = None
        self._build = partial(self._checked_call)  # part of the cache key: a partial hashes faster than a bound method
        packed = build_call(
            target,
            descriptor,
            tuple((packed_strides(shape, dtype.itemsize), dtype) for _, shape, dtype in self._inputs),
            self._output_shapes,
        )
        self.kernel = packed.kernel
        self.work = packed.work

    def _checked_call(self, out_strides: tuple[int, ...] | None, *layout: Any) -> Any:
        function = self.descriptor.function
        for (name, shape, dtype), found_shape, found_dtype in zip(self._inputs, layout[::3], layout[2::3], strict=True):
            if found_shape != shape:
                raise ValueError(f"{function} operator: {name}: found shape {found_shape}, expected {shape}")
            if found_dtype.newbyteorder("=") != dtype:
                raise TypeError(f"{function} operator: {name}: found dtype {found_dtype}, expected {dtype}")
        layouts = tuple(zip(layout[1::3], layout[2::3], strict=True))
        return build_call(self.target, self.descriptor, layouts, self._output_shapes, out_strides)

    def _repeated(self, stream: Any, *inputs: Any, out: Any) -> Any:
        """Make the last call again, if it was for arrays on a device that are like these; else return None."""
        return self._last.repeat(*inputs, out=out) if self._last is not None and stream is None else None

    def __repr__(self) -> str:
        level = "native" if self.feature_level is None else self.feature_level.name
        return (
            f"<CompiledOperator {self.descriptor!r} target={self.target!r} validation={level} "
            f"kernel={self.kernel!r} work={self.work} bytes>"
        )


class GatherOperator(CompiledOperator):
    """A compiled GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1."""

    __slots__ = ()

    def __call__(self, a: Any, indices: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Return (or write to `out`) the gathered elements."""
        if a.__class__ is not ndarray or indices.__class__ is not ndarray or self.target != "cpu" or stream is not None:
            if (result := self._repeated(stream, a, indices, out=out)) is not None:
                return result
            a, indices, _ = operands(self.descriptor.function, self.target, stream, a, indices)
        call = cached_call(
            self._build, None, a.shape, a.strides, a.dtype, indices.shape, indices.strides, indices.dtype
        )
        if self.target != "cpu":
            self._last = call
        return call(a, indices, out)


class ScatterOperator(CompiledOperator):
    """A compiled SCATTER or SCATTER_ND."""

    __slots__ = ()

    def __call__(self, a: Any, indices: Any, updates: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Return (or write to `out`, which may be `a`) the updated array."""
        if (
            a.__class__ is not ndarray
            or indices.__class__ is not ndarray
            or updates.__class__ is not ndarray
            or self.target != "cpu"
            or stream is not None
        ):
            if (result := self._repeated(stream, a, indices, updates, out=out)) is not None:
                return result
            a, indices, updates, _ = operands(self.descriptor.function, self.target, stream, a, indices, updates)
        call = cached_call(
            self._build,
            out.strides if out.__class__ is ndarray else out_strides(self.descriptor.function, out, self.target),
            a.shape,
            a.strides,
            a.dtype,
            indices.shape,
            indices.strides,
            indices.dtype,
            updates.shape,
            updates.strides,
            updates.dtype,
        )
        if self.target != "cpu":
            self._last = call
        return call(a, indices, updates, out)


class TopKOperator(CompiledOperator):
    """A compiled TOP_K or TOP_K1."""

    __slots__ = ()

    def __call__(self, a: Any, *, out: Any = None, stream: Any = None) -> Any:
        """Return (or write to the pair `out`) the selected values and their indices."""
        if a.__class__ is not ndarray or self.target != "cpu" or stream is not None:
            if (result := self._repeated(stream, a, out=out)) is not None:
                return result
            a, _ = operands(self.descriptor.function, self.target, stream, a)
        call = cached_call(self._build, None, a.shape, a.strides, a.dtype)
        if self.target != "cpu":
            self._last = call
        return call(a, out)


_OPERATORS: dict[str, type[CompiledOperator]] = {
    "gather": GatherOperator,
    "scatter": ScatterOperator,
    "top_k": TopKOperator,
}


#: Calls by their keys, in the order in which they were built: see `cached_call`.
_kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_built = count(1)


@lru_cache(maxsize=MAX_CALLS)
def cached_call(build: Callable[..., Any], *key: Any) -> Any:
    """Return ``build(*key)``, from the one process-wide cache when the key is known.

    That keeps what was used last, and would find nothing in a loop over more shapes than it holds. So others are kept
    beside it, of which only one in RENEWED that are built takes the place of the oldest.
    """
    asked = (build, *key)
    call = _kept.get(asked)
    if call is None:
        call = build(*key)
        full = len(_kept) >= MAX_KEPT
        if full and next(_built) % RENEWED == 0:
            with suppress(KeyError):  # another thread has cleared it
                _kept.popitem(last=False)
            full = False
        if not full:
            _kept[asked] = call
    return call


#: The last call for arrays on a device of what a function was asked for: the next one may be the same.
_last_calls: dict[tuple[Any, ...], Any] = {}


def call_elsewhere(
    function: str,
    build: Callable[..., Any],
    target: str | None,
    stream: Any,
    inputs: tuple[Any, ...],
    out: Any,
    *parameters: Any,
) -> Any:
    """Make a function's call for arrays that are not all NumPy's, or where it names a target."""
    asked = last = None
    library = library_of_type(inputs[0].__class__)
    if library is not None and library.repeats and stream is None and target in (None, "cuda"):
        # That is not all that a call depends on, but it knows by itself whether it can be repeated.
        asked = (function, inputs[0].dtype, *(getattr(value, "shape", None) for value in inputs), *parameters)
        try:
            last = _last_calls.get(asked)
        except TypeError:  # whoever checks the arguments says which one is no number
            asked = None
    if last is not None:
        result = last.repeat(*inputs, out=out)
        if result is not None:
            return result
    *arrays, target = operands(function, target, stream, *inputs)
    layout = [field for array in arrays for field in (array.shape, array.strides, array.dtype)]
    if len(inputs) > 2:
        layout.insert(0, out_strides(function, out, target))
    call = cached_call(build, *layout, *parameters, target)
    if asked is not None and target == "cuda":
        if len(_last_calls) >= MAX_CALLS:
            _last_calls.pop(next(iter(_last_calls)), None)
        _last_calls[asked] = call
    return call(*arrays, out)


@lru_cache(maxsize=MAX_CALLS)
def _compile(descriptor: Descriptor, target: str, feature_level: FeatureLevel | None) -> CompiledOperator:
    if feature_level is not None:
        descriptor.validate(feature_level)
    family = "top_k" if descriptor.function == "top_k" else descriptor.function.split("_")[0]
    return _OPERATORS[family](descriptor, target, feature_level)


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
    if not isinstance(descriptor, Descriptor):
        raise TypeError(f"compile_operator: descriptor: found {type(descriptor).__name__}, expected a descriptor")
    if feature_level is not None:
        feature_level = known_level(feature_level)
    if target is None and _config.used:
        target = _config.current().target
    return _compile(descriptor, _dispatch.resolve_target(target), feature_level)


class CacheInfo(NamedTuple):
    """The state of the cache: calls found, calls built, the most it keeps, and what it holds now."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


def cache_info() -> CacheInfo:
    """Return the statistics of the cache of calls.

    Returns
    -------
    CacheInfo
        ``hits`` counts the calls whose shapes, dtypes, layout and parameters were known; nothing is validated then.
        Of those that were used longer ago than the last ``maxsize``, some are still known too, and count as misses.
        Those for arrays of PyTorch and CuPy on a device that are made again, without a look here, are not counted.

    Examples
    --------
    >>> import numpy as np, numba_dml as dml
    >>> dml.cache_clear()
    >>> for _ in range(3):
    ...     _ = dml.gather(np.arange(4.0), np.array([3, 0]))
    >>> dml.cache_info()
    CacheInfo(hits=2, misses=1, maxsize=4096, currsize=1)
    """
    info = cached_call.cache_info()
    return CacheInfo(info.hits, info.misses, MAX_CALLS, info.currsize)


def cache_clear() -> None:
    """Forget every cached call and operator, and reset the statistics. Compiled kernels stay."""
    cached_call.cache_clear()
    _kept.clear()
    _compile.cache_clear()
    _last_calls.clear()


def operands(function: str, target: str | None, stream: Any, *inputs: Any) -> tuple[Any, ...]:
    """Return the inputs of a call (a, indices, updates: as many as it has) as its target takes them, then the target.

    Arrays in host memory run on the CPU unless `target` says otherwise, arrays on a device there.
    """
    if target == "cpu":
        for name, value in zip(_INPUTS, inputs, strict=False):
            if library_of(value):
                raise TypeError(
                    f"{function}: {name}: found an array on a CUDA device, "
                    "expected an array in host memory for target 'cpu'"
                )
    elif arrays := _device_arrays(function, inputs):
        if stream is not None:
            arrays[0].stream = stream_pointer(function, stream)
        return (*arrays, "cuda" if target is None else _dispatch.resolve_target(target))
    if stream is not None:
        raise ValueError(f"{function}: stream: found {stream!r}, expected None for arrays in host memory")
    hosts = [host_array(function, "a", inputs[0])]
    if len(inputs) > 1:
        hosts.append(index_array(function, inputs[1]))
    if len(inputs) > 2:
        hosts.append(update_array(function, inputs[2], hosts[0].dtype))
    if target == "cuda":
        to_device = _dispatch.kernels("cuda").to_device
        return (*(to_device(array) for array in hosts), target)
    return (*hosts, target)


_INPUTS = ("a", "indices", "updates")


def _device_arrays(function: str, inputs: tuple[Any, ...]) -> list[DeviceArray] | None:
    """Return what kernels need to know of the inputs of a call, or None if they are all in host memory."""
    arrays: list[DeviceArray] = []
    for name, value in zip(_INPUTS, inputs, strict=False):
        library = library_of_type(value.__class__)
        try:
            array = None if library is None else library.view(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{function}: {name}: {error}") from None
        if array is None:
            if arrays or any(map(library_of, inputs)):
                raise TypeError(
                    f"{function}: {name}: found {type(value).__name__} in host memory, expected an array on the device"
                )
            return None
        arrays.append(array)
        if array.device != arrays[0].device:
            raise ValueError(
                f"{function}: {name}: found an array on device {array.device}, "
                f"expected device {arrays[0].device}, that of a"
            )
    return arrays


#: The ranks of dtypes, by their kinds: each holds the numbers of the ones before. Text is above them all.
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_PYTHON_RANKS: dict[type, int] = {bool: 0, int: 1, range: 1, float: 2, complex: 3, str: 4, bytes: 4}
#: What else NumPy makes arrays of: sequences, by their elements, and what is an array, or a scalar of one, by itself.
_NESTED, _TYPED = 5, 6


@lru_cache(maxsize=256)
def _rank_of(kind: type) -> int:
    """Return the rank of a type of Python's own values, or which of the others it is."""
    if not issubclass(kind, np.generic):
        for base, rank in _PYTHON_RANKS.items():
            if issubclass(kind, base):
                return rank
    memory = issubclass(kind, (bytearray, memoryview, typed_array)) or hasattr(kind, "__array__")
    return _NESTED if issubclass(kind, Sequence) and not memory else _TYPED


def _leaves(value: Any) -> tuple[int, list[Any]]:
    """Return the highest rank of Python's own values in nested lists, -1 without any, and what is an array by itself.

    This counts types, level by level: with a million numbers it takes about as long as `numpy.asarray` after it.
    """
    highest, typed, level = -1, [], [value]
    for _ in range(MAX_DIMENSIONS + 1):  # a list may hold itself
        ranks = {kind: _rank_of(kind) for kind in set(map(type, level))}
        found = set(ranks.values())
        highest = max(highest, *(rank for rank in found if rank < _NESTED), -1)
        if _TYPED in found:
            typed += [x for x in level if ranks[type(x)] == _TYPED]
        if _NESTED not in found:
            break
        lists = level if len(found) == 1 else [x for x in level if ranks[type(x)] == _NESTED]
        level = list(chain.from_iterable(lists))
    return highest, typed


def _converted(function: str, argument: str, value: Any) -> tuple[ndarray[Any, Any], int, list[Any]]:
    """Return what is no array as one, which may hold objects, and what `_leaves` says of it."""
    highest, typed = _leaves(value)
    if any(isinstance(leaf, np.ma.MaskedArray) for leaf in typed):
        _refuse_mask(function, argument)
    try:
        return np.asarray(value), highest, typed
    except (TypeError, ValueError, RuntimeError) as error:  # also whatever somebody's `__array__` raises
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{function}: {argument}: {_explain(function, argument, str(error), typed)}") from None


def _refuse_mask(function: str, argument: str) -> NoReturn:
    raise TypeError(
        f"{function}: {argument}: found a masked array, expected an array without a mask "
        "(use .filled() or .data: the mask would be lost)"
    )


def _explain(function: str, argument: str, text: str, typed: list[Any]) -> str:
    """Return the text of an error of NumPy's, or of an array's own conversion, in our words where we know better."""
    if "inhomogeneous shape" in text:
        return "found nested lists of unequal lengths, expected equal ones in every dimension"
    if "requires grad" in text:
        return "found a tensor that requires grad, expected one without (use .detach())"
    if "unsupported ScalarType" in text:  # PyTorch's, of what NumPy has no dtype for
        tensor = next(leaf for leaf in typed if hasattr(leaf, "element_size"))
        hint = ".long()" if argument == "indices" else ".float()"
        if argument != "indices" and function != "top_k":
            hint += f", or .view(torch.{'uint8' if tensor.element_size() == 1 else 'int16'}) to move the bits"
        return f"found a tensor of {tensor.dtype}, expected a dtype that NumPy has (use {hint})"
    return text


def _refuse_objects(function: str, argument: str, value: Any, array: ndarray[Any, Any]) -> None:
    """Refuse Python objects by their type."""
    if not array.dtype.hasobject:
        return
    found = f"dtype {array.dtype}"
    if not hasattr(value, "dtype"):
        culprit = next(x for x in chain(array.flat, [value]) if np.asarray(x).dtype.hasobject)
        found = "None" if culprit is None else type(culprit).__name__
        if isinstance(culprit, int):
            found = "an integer of more than 64 bits"
        if culprit is not value:
            found += f" in a {type(value).__name__}"
    expected = "an array of integers" if argument == "indices" else "an array of a fixed-size element type"
    raise TypeError(f"{function}: {argument}: found {found}, expected {expected}")


def host_array(function: str, argument: str, value: Any) -> ndarray[Any, Any]:
    """Return `value` as a plain NumPy array, without a copy where it is one already."""
    if isinstance(value, np.ma.MaskedArray):
        _refuse_mask(function, argument)
    array = np.asarray(value) if isinstance(value, ndarray) else _converted(function, argument, value)[0]
    _refuse_objects(function, argument, value, array)
    return array


def index_array(function: str, value: Any) -> ndarray[Any, Any]:
    """Return `indices` as an array; an empty list counts as integers."""
    array = host_array(function, "indices", value)
    if array.size == 0 and not hasattr(value, "dtype"):
        return array.astype(np.intp)
    return array


def update_array(function: str, value: Any, dtype: np.dtype[Any]) -> ndarray[Any, Any]:
    """Return `updates` as an array; Python's own numbers become the dtype of `a` if they fit, nothing else does."""
    if isinstance(value, ndarray):
        return host_array(function, "updates", value)
    array, highest, typed = _converted(function, "updates", value)
    if not typed and array.dtype == dtype:
        return array
    rank = _RANKS.get(dtype.kind, -1)
    if dtype.isbuiltin == 2:  # another package's
        rank = _RANKS["f"] if dtype.name == "bfloat16" else -1
    if typed or highest > rank:
        _refuse_objects(function, "updates", value, array)
    for leaf in typed:
        check_same_type(function, np.asarray(leaf).dtype, dtype)
    if highest > rank or (typed and highest < 0):
        return array
    if dtype.kind in "iu" and array.size:  # NumPy 1 would wrap them
        numbers = array if array.dtype.kind in "biu" else np.asarray(value, object)
        limits = np.iinfo(dtype)
        for number in (int(numbers.min()), int(numbers.max())):
            if not limits.min <= number <= limits.max:
                raise ValueError(f"{function}: updates: found {number}, expected numbers that {dtype} holds")
    try:
        return np.asarray(value, dtype)
    except OverflowError:
        raise ValueError(
            f"{function}: updates: found an integer too large for a float, expected numbers that {dtype} holds"
        ) from None


def check_same_type(function: str, updates: np.dtype[Any], data: np.dtype[Any]) -> None:
    """Refuse updates that would need a cast."""
    if updates.newbyteorder("=") != data.newbyteorder("="):
        raise TypeError(f"{function}: updates: found dtype {updates}, expected {data}, the dtype of a (no silent cast)")


def out_strides(function: str, out: Any, target: str | None) -> tuple[int, ...] | None:
    """Return the strides of an `out` array on the CPU, if there is one."""
    if out is None or target == "cuda":
        return None
    if not isinstance(out, ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{function}: out: found {type(out).__name__}, expected a numpy.ndarray")
    return out.strides


def check_out(function: str, name: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Check an output that the caller gave; return whether it is contiguous."""
    if out.__class__ is ndarray and out.dtype == dtype and out.shape == shape and out.flags.carray:
        return True  # contiguous, aligned, and can be written
    if not isinstance(out, ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{function}: {name}: found {type(out).__name__}, expected a numpy.ndarray")
    if out.dtype != dtype:
        raise TypeError(f"{function}: {name}: found dtype {out.dtype}, expected {dtype}")
    if out.shape != shape:
        raise ValueError(f"{function}: {name}: found shape {out.shape}, expected {shape}")
    flags = out.flags
    if not flags.writeable:
        raise ValueError(f"{function}: {name}: found a read-only array, expected one that can be written")
    if flags.c_contiguous:
        return True
    if elements_overlap(out.shape, out.strides, dtype.itemsize):
        raise ValueError(f"{function}: {name}: found strides {out.strides}, expected elements that do not overlap")
    return False
