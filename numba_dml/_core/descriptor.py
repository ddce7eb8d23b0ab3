"""Descriptors: what is computed on which sizes and data types; the only validators."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from inspect import cleandoc
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .enums import AxisDirection, FeatureLevel, OperatorType, TensorDataType
from .errors import DescriptorError, flag
from .spec import Spec
from .tensor import TensorDesc, data_type_name, elements_overlap

D = TensorDataType
#: DirectML's sets of data types, by the names that the feature tables use.
TF = frozenset({D.FLOAT32, D.FLOAT16})
C4 = TF | {D.INT32, D.UINT32}
T8 = TF | {D.INT32, D.INT16, D.INT8, D.UINT32, D.UINT16, D.UINT8}
T10 = T8 | {D.INT64, D.UINT64}
T11 = T10 | {D.FLOAT64}
C6 = C4 | {D.INT64, D.UINT64}
I4 = frozenset({D.INT64, D.INT32, D.UINT64, D.UINT32})
U2 = frozenset({D.UINT64, D.UINT32})
U32 = frozenset({D.UINT32})

#: Types that can index: the functions take them all, DirectML the four of I4.
INDEX_TYPES = I4 | {D.INT16, D.INT8, D.UINT16, D.UINT8}

_ALIASES = {"Scatter": "ScatterElements"}  #: DirectML's older names of operators
MAX_ELEMENTS = 2**32 - 1
MAX_DIMENSIONS: int = getattr(np, "MAXDIMS", 64)  #: NumPy 1 has fewer, and says so


class Level(NamedTuple):
    """One row of an operator's feature table; it holds until the next row's level."""

    level: FeatureLevel
    data: frozenset[TensorDataType]
    indices: frozenset[TensorDataType]
    dimensions: tuple[int, int]


#: The tables of operators that move elements, without the levels before FL_2_1, at which they differ.
MOVE_LEVELS = (
    Level(FeatureLevel.FL_4_1, T11, I4, (1, 8)),
    Level(FeatureLevel.FL_3_0, T8, I4, (1, 8)),
    Level(FeatureLevel.FL_2_1, T8, U32, (4, 4)),
)


def known_level(value: Any) -> FeatureLevel:
    """Return a feature level, given as a member or its number."""
    try:
        return FeatureLevel(value)
    except ValueError:
        names = ", ".join(level.name for level in FeatureLevel)
        raise ValueError(f"feature_level: found {value!r}, expected a FeatureLevel: {names}") from None


def check_result_rank(function: str, argument: str, found: int, result: int) -> None:
    """Refuse an argument if the result would have more dimensions than NumPy's arrays can."""
    if result > MAX_DIMENSIONS:
        reason = f"the result would have {result}, and NumPy's limit is {MAX_DIMENSIONS}"
        raise DescriptorError(
            function, argument, f"{found} dimensions", f"at most {found + MAX_DIMENSIONS - result}", reason
        )


@dataclass(frozen=True)
class Descriptor:
    """What the descriptors of all operators share: strict validation, dicts, and the way to a lowering."""

    operator_type: ClassVar[OperatorType]
    spec: ClassVar[Spec]  #: the operator, of which a descriptor is one call
    levels: ClassVar[tuple[Level, ...]]
    input_fields: ClassVar[tuple[str, ...]] = ("input_tensor", "indices_tensor")
    output_fields: ClassVar[tuple[str, ...]] = ("output_tensor",)
    index_field: ClassVar[str] = "indices_tensor"  #: the tensor of indices; for a top-k it is an output
    same_ranks: ClassVar[bool] = True  #: all tensors have the input's number of dimensions
    #: The names of the function's arguments, by descriptor fields.
    arguments: ClassVar[dict[str, str]] = {
        "input_tensor": "a",
        "indices_tensor": "indices",
        "updates_tensor": "updates",
        "output_tensor": "out",
    }
    native_only: ClassVar[dict[str, Any]] = {}  #: fields that DirectML lacks, and what strict validation lets pass
    counts: ClassVar[dict[str, str]] = {}  #: DirectML's fields that count the members of another one: properties here

    def __init_subclass__(cls) -> None:
        raises = "Raises\n------\nDescriptorError\n    If sizes, types or parameters do not fit each other.\n"
        cls.__doc__ = f"{cleandoc(cls.__doc__ or '')}\n\n{raises}"

    @property
    def function(self) -> str:
        """The function of the package that does the same."""
        return self.spec.name

    def refuse(self, field: str, found: Any, expected: Any, rule: str = "") -> DescriptorError:
        """Return the error to raise for `field`."""
        return DescriptorError(type(self).__name__, field, found, expected, rule)

    def holds_indices(self, field: str) -> bool:
        """Tell whether a tensor holds indices, whose type is not that of the data."""
        return field == self.index_field

    def tensors(self) -> dict[str, TensorDesc]:
        """Return the tensor descriptors by field, inputs first."""
        return {name: getattr(self, name) for name in (*self.input_fields, *self.output_fields)}

    def check_tensors(self) -> None:
        """Check what holds for every operator in native mode: ranks, data types and outputs without overlap."""
        tensors = self.tensors()
        for name, tensor in tensors.items():
            if not isinstance(tensor, TensorDesc):
                raise self.refuse(name, f"a {type(tensor).__name__}", "a TensorDesc")
        index_field = self.index_field
        first = next(name for name in self.input_fields if name != index_field)
        kind, leader = tensors[first].data_type, self.rank_leader(first)
        rank = len(tensors[leader].sizes)
        if rank > MAX_DIMENSIONS:
            raise self.refuse(leader, f"{rank} dimensions", f"at most {MAX_DIMENSIONS}, NumPy's limit")
        for name, tensor in tensors.items():
            if self.same_ranks and len(tensor.sizes) != rank:
                raise self.refuse(name, f"{len(tensor.sizes)} dimensions", f"{rank}, as {leader} has")
            if self.holds_indices(name):
                if tensor.data_type not in INDEX_TYPES:
                    raise self.refuse(name, data_type_name(tensor.data_type), "an integer data type")
            elif tensor.data_type != kind:
                expected = f"{data_type_name(kind)}, the type of {first}"
                raise self.refuse(name, data_type_name(tensor.data_type), expected)
        for name in self.output_fields:
            tensor = tensors[name]
            if tensor.strides is not None and elements_overlap(tensor.sizes, tensor.strides):
                raise self.refuse(name, f"strides {tensor.strides}", "elements that do not overlap", "it is an output")

    def rank_leader(self, data: str) -> str:
        """Return the tensor whose number of dimensions the others must have: that of the data."""
        return data

    def check_output(self, field: str, expected: tuple[int, ...]) -> None:
        """Check the sizes of an output, or of updates, against the operator's shape rule."""
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

    def check_direction(self) -> None:
        """Check the direction along the axis, which may be a member, its name or its number."""
        value = self.axis_direction  # type: ignore[attr-defined]
        try:
            if isinstance(value, bool):
                raise ValueError
            found = AxisDirection[value] if isinstance(value, str) else AxisDirection(value)
        except (KeyError, ValueError):
            raise self.refuse("axis_direction", repr(value), "INCREASING (0) or DECREASING (1)") from None
        object.__setattr__(self, "axis_direction", found)

    def check_range(self, field: str, low: int, high: int, reason: str = "") -> None:
        """Check an integer field against an inclusive range; the error ends with the reason for it."""
        value = getattr(self, field)
        if value.__class__ is int and low <= value <= high:
            return
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise self.refuse(field, repr(value), "an integer")
        if not low <= value <= high:
            expected = f"{low} to {high}{reason}" if low <= high else "no value: the input has no dimension"
            raise self.refuse(field, value, expected)
        object.__setattr__(self, field, type(value)(value) if isinstance(value, IntEnum) else int(value))

    def check_axes(self, field: str, rank: int) -> None:
        """Check a field of axes, one at least and none twice; it becomes a tuple in ascending order."""
        value = getattr(self, field)
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise self.refuse(field, repr(value), "a sequence of integers")
        axes = list(value)
        for axis in axes:
            if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
                raise self.refuse(field, repr(axis), "an integer")
            if not 0 <= axis < rank:
                raise self.refuse(field, axis, f"0 to {rank - 1}")
        if not axes:
            raise self.refuse(field, "()", f"1 to {rank} axes")
        if len(set(axes)) < len(axes):
            raise self.refuse(field, tuple(axes), "each axis once")
        object.__setattr__(self, field, tuple(sorted(map(int, axes))))

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
        if not self.levels:
            raise self.refuse("feature_level", feature_level.name, "None", "DirectML has no such operator")
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
        types = row.indices if self.holds_indices(name) else row.data
        if tensor.data_type not in types:
            expected = "one of " + ", ".join(sorted(kind.name for kind in types))
            raise self.refuse(name, data_type_name(tensor.data_type).upper(), expected, rule)
        if 0 in tensor.sizes:
            raise self.refuse(name, f"sizes {tensor.sizes}", "sizes of at least 1", rule)
        if tensor.element_count > MAX_ELEMENTS:
            raise self.refuse(name, f"{tensor.element_count} elements", f"at most {MAX_ELEMENTS}", rule)
        if tensor.strides is not None and any(not 0 <= stride <= MAX_ELEMENTS for stride in tensor.strides):
            raise self.refuse(name, f"strides {tensor.strides}", "unsigned 32-bit strides", rule)

    def check_strict(self, rule: str) -> None:
        """Check what only this operator restricts in strict mode."""

    def lower(self, strides: Sequence[tuple[int, ...]]) -> Any:
        """Return the lowering for arrays with these strides (in bytes), in the order of the fields.

        It is a `Move`, a `Select`, or what the calls of the operator's family read.
        """
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
        if not isinstance(values, Mapping):
            raise DescriptorError(cls.__name__, "values", type(values).__name__, "a mapping of fields")
        fields = dict(values)
        name = fields.pop("operator", None if cls is Descriptor else cls.__name__.removesuffix("Desc"))
        name = _ALIASES.get(name, name) if isinstance(name, str) else name
        kinds = {kind.__name__: kind for kind in _subclasses(cls) if kind.__name__.endswith("Desc")}
        kind = kinds.get(f"{name}Desc")
        if kind is None:
            expected = ", ".join(sorted(n.removesuffix("Desc") for n in kinds))
            raise DescriptorError(
                cls.__name__, "operator", "nothing" if name is None else repr(name), f"one of {expected}"
            )
        counts = {field: fields.pop(field) for field in kind.counts if field in fields}
        known = {field.name for field in dataclasses.fields(kind)}
        needed = [
            one.name for one in dataclasses.fields(kind) if one.default is one.default_factory is dataclasses.MISSING
        ]
        if missing := [n for n in needed if n not in fields]:
            is_tensor = missing[0] in (*kind.input_fields, *kind.output_fields)
            raise DescriptorError(kind.__name__, missing[0], "nothing", "a tensor" if is_tensor else "a value")
        if unknown := [n for n in fields if n not in known]:
            raise DescriptorError(
                kind.__name__, unknown[0], "a field of this name", "one of " + ", ".join(sorted(known))
            )
        made = kind(**{k: TensorDesc.from_dict(v) if isinstance(v, Mapping) else v for k, v in fields.items()})
        for field, count in counts.items():
            if isinstance(count, (bool, float)) or count != getattr(made, field):
                raise made.refuse(field, repr(count), f"{getattr(made, field)}, the number of {kind.counts[field]}")
        return made


def _subclasses(cls: type[Descriptor]) -> list[type[Descriptor]]:
    """Return a class and everything below it."""
    return [cls, *(kind for child in cls.__subclasses__() for kind in _subclasses(child))]
