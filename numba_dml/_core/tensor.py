"""Tensor descriptors: data types, sizes, strides, and the arithmetic on dimensions.

Everything here is host code without Numba; it runs once per shape, never per call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .enums import TensorDataType, TensorFlags
from .errors import DescriptorError, integer
from .shapes import extent, nests

_NAMES = {member: member.name.lower() for member in TensorDataType}
_DTYPES = {member: np.dtype(name) for member, name in _NAMES.items() if member not in {TensorDataType.BFLOAT16}}
_MEMBERS = {dtype: member for member, dtype in _DTYPES.items()}
#: What is expected of a data type, for errors.
_DATA_TYPES = f"a TensorDataType ({', '.join(_NAMES.values())}) or a fixed-size NumPy dtype"
_SIZES = {member: dtype.itemsize for member, dtype in _DTYPES.items()} | {TensorDataType.BFLOAT16: 2}
_MOVED_KINDS = "mMSUV"  #: moved as bytes, never compared or added: times, their differences, strings and void
_NO_FLAGS = TensorFlags.NONE
MAX_OFFSETS = 1 << 24  #: how many offsets `elements_overlap` looks at, one by one (8 bytes each)

_refusal = partial(DescriptorError, "TensorDesc")  #: the error to raise for a field


def normalize_data_type(value: Any) -> TensorDataType | np.dtype[Any]:
    """Turn an enum member, its number, a NumPy dtype or a dtype's name into a data type.

    Datetimes, strings, structured elements and those of ``ml_dtypes`` that fill a byte have no number; their (native)
    dtype stands for itself.
    """
    if isinstance(value, TensorDataType):
        return value
    if isinstance(value, np.dtype) and value in _MEMBERS:
        return _MEMBERS[value]
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if int(value) in (12, 13):
            rule = "UINT4 and INT4 have no NumPy element"
            raise _refusal("data_type", int(value), "a type of at least 8 bits", rule)
        try:
            return TensorDataType(int(value))
        except ValueError:
            raise _refusal("data_type", int(value), _DATA_TYPES) from None
    if isinstance(value, str) and value.upper() in TensorDataType.__members__:
        return TensorDataType[value.upper()]
    try:
        if value is None:  # NumPy would take it for float64
            raise TypeError
        longer = isinstance(value, str) and value.startswith("ml_dtypes.")
        dtype = ml_dtype(value.removeprefix("ml_dtypes.")) if longer else np.dtype(value)
        if isinstance(value, str) and _is_small(dtype) != longer:  # NumPy knows short names once that is imported
            raise TypeError
    except (TypeError, ValueError, SyntaxError, IndexError):  # what NumPy raises for what is no dtype
        raise _refusal("data_type", repr(value), _DATA_TYPES) from None
    native = native_dtype(dtype)
    member: TensorDataType | None = _MEMBERS.get(native)
    if member is not None:
        return member
    if native.name == "bfloat16":
        return TensorDataType.BFLOAT16
    plain = native.kind in _MOVED_KINDS and native.itemsize > 0 and not native.hasobject and native.isbuiltin != 2
    if plain or _is_small(native):
        moved: np.dtype[Any] = native
        return moved
    raise _refusal("data_type", str(dtype), "a fixed-size NumPy element type without objects")


def native_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype in native byte order; a dtype that has no order, as NumPy's StringDType, stays."""
    try:
        return dtype.newbyteorder("=")
    except TypeError:
        return dtype


def _is_small(dtype: np.dtype[Any]) -> bool:
    """Tell whether elements are those of ``ml_dtypes`` that fill a byte, such as float8_e5m2 and int4."""
    return dtype.itemsize == 1 and dtype.type.__module__ == "ml_dtypes"


def dtype_of(data_type: TensorDataType | np.dtype[Any]) -> np.dtype[Any]:
    """Return the NumPy dtype of a data type; bfloat16 needs ``ml_dtypes``."""
    if isinstance(data_type, np.dtype):
        return data_type
    if data_type in _DTYPES:
        return _DTYPES[data_type]
    return ml_dtype("bfloat16")


def ml_dtype(name: str) -> np.dtype[Any]:
    """Return a dtype of ``ml_dtypes`` by its name there; NumPy knows the name too from then on."""
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"{name} arrays need the package ml_dtypes: pip install ml_dtypes") from None
    kind = getattr(ml_dtypes, name, None)
    if kind is None:
        raise TypeError(f"found {name}, expected a dtype of the installed ml_dtypes {ml_dtypes.__version__}")
    found: np.dtype[Any] = np.dtype(kind)
    return found


def element_size(data_type: TensorDataType | np.dtype[Any]) -> int:
    """Return the size of one element in bytes."""
    return data_type.itemsize if isinstance(data_type, np.dtype) else _SIZES[data_type]


def data_type_name(data_type: TensorDataType | np.dtype[Any]) -> str:
    """Return the name that error messages and ``repr`` show."""
    if not isinstance(data_type, np.dtype):
        return _NAMES[data_type]
    return f"ml_dtypes.{data_type}" if _is_small(data_type) else str(data_type)


def packed_strides(sizes: Sequence[int], unit: int = 1) -> tuple[int, ...]:
    """Return the row-major strides of packed `sizes`, in multiples of `unit`."""
    if len(sizes) < 2:
        return (unit,) * len(sizes)
    strides = [unit] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(sizes[i + 1], 1)
    return tuple(strides)


def is_packed(sizes: Sequence[int], strides: Sequence[int], unit: int = 1) -> bool:
    """Tell whether strides are those of packed `sizes`; where there is one element they do not matter."""
    expected = unit
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if stride != expected and size != 1:
            return 0 in sizes
        expected *= size
    return True


def product(sizes: Iterable[int]) -> int:
    """Multiply in unbounded integers."""
    return prod(sizes)


def elements_overlap(sizes: Sequence[int], strides: Sequence[int], width: int = 1) -> bool:
    """Tell whether two elements share memory; `width` is the size of an element in the unit of the strides."""
    if nests(sizes, strides, width):
        return False
    dims = [(abs(stride), size) for size, stride in zip(sizes, strides, strict=True) if size > 1]
    # Interleaved dimensions may still be disjoint (sizes (2, 3), strides (3, 2)): look at every offset. Rare; exact.
    count = product(size for _, size in dims)
    room = width + sum((size - 1) * stride for stride, size in dims)
    if count * width > room or count > MAX_OFFSETS:  # no room for all, or too many to look at: refused
        return True
    offsets = np.zeros(1, np.int64)
    for stride, size in dims:
        offsets = np.add.outer(offsets, np.arange(size, dtype=np.int64) * stride).ravel()
    return bool(np.diff(np.sort(offsets)).min() < width)


def _integers(name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple([v if v.__class__ is int else integer(name, v) for v in values])  # mostly they are
    except TypeError:
        raise _refusal(name, repr(values), "integers") from None


@dataclass(frozen=True, init=False)
class TensorDesc:
    """A tensor's element type, sizes and layout (DML_TENSOR_DESC, DML_BUFFER_TENSOR_DESC).

    Parameters
    ----------
    data_type : TensorDataType, int, numpy.dtype or str
        The element type.
    sizes : sequence of int
        The size of every dimension. A size of 0 is native only.
    strides : sequence of int, optional
        The distance between neighbours along every dimension, in elements. Packed row-major when absent.
    flags : TensorFlags
        OWNED_BY_DML is accepted and has no effect.
    total_tensor_size_in_bytes : int, optional
        The size of the buffer; at least `minimum_size_in_bytes`, which is also the default.
    guaranteed_base_offset_alignment : int
        0, or a power of two not smaller than the element size, in bytes.

    Raises
    ------
    DescriptorError
        If a field breaks one of these rules.

    Examples
    --------
    >>> from numba_dml import TensorDesc
    >>> TensorDesc("float16", (2, 3), (5, 1)).minimum_size_in_bytes
    16
    >>> TensorDesc("float32", (2, 2))
    TensorDesc('float32', (2, 2))
    """

    data_type: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    flags: TensorFlags = field(default=TensorFlags.NONE, kw_only=True)
    total_tensor_size_in_bytes: int | None = field(default=None, kw_only=True)
    guaranteed_base_offset_alignment: int = field(default=0, kw_only=True)

    def __init__(
        self,
        data_type: Any,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        flags: TensorFlags = _NO_FLAGS,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
    ) -> None:
        # The dataclass is frozen, and this its constructor. What is not given is a default, which the class has.
        put = object.__setattr__
        put(self, "data_type", normalize_data_type(data_type))
        sizes = _integers("sizes", sizes)
        put(self, "sizes", sizes)
        if sizes and min(sizes) < 0:
            raise _refusal("sizes", sizes, "sizes of at least 0")
        if strides is not None:
            strides = _integers("strides", strides)
            if len(strides) != len(sizes):
                raise _refusal("strides", strides, f"{len(sizes)} strides, one for every size")
            put(self, "strides", strides)
        if flags is not _NO_FLAGS:
            known = isinstance(flags, (int, np.integer)) and not isinstance(flags, bool)
            if not known or flags not in (0, 1):  # IntFlag itself lets unknown bits pass
                raise _refusal("flags", flags, "a TensorFlags value")
            put(self, "flags", TensorFlags(int(flags)))
        total, alignment = total_tensor_size_in_bytes, guaranteed_base_offset_alignment
        if total is not None or alignment.__class__ is not int or alignment != 0:
            self._set_buffer(total, alignment)

    def _set_buffer(self, total: Any, alignment: Any) -> None:
        """Set what is said about the buffer."""
        if total is not None:
            (total,) = _integers("total_tensor_size_in_bytes", (total,))
        (alignment,) = _integers("guaranteed_base_offset_alignment", (alignment,))
        object.__setattr__(self, "total_tensor_size_in_bytes", total)
        object.__setattr__(self, "guaranteed_base_offset_alignment", alignment)
        if total is not None and total < self.minimum_size_in_bytes:
            raise _refusal("total_tensor_size_in_bytes", total, f"at least {self.minimum_size_in_bytes}")
        if alignment and (alignment < self.itemsize or alignment & (alignment - 1)):
            expected = f"0 or a power of two not smaller than the element size, {self.itemsize}"
            raise _refusal("guaranteed_base_offset_alignment", alignment, expected)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return dtype_of(self.data_type)

    @property
    def itemsize(self) -> int:
        """The size of one element in bytes."""
        return element_size(self.data_type)

    @property
    def dimension_count(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of elements."""
        return product(self.sizes)

    @property
    def minimum_size_in_bytes(self) -> int:
        """The smallest buffer, rounded up to 4 bytes (DMLCalcBufferTensorSize, in unbounded arithmetic)."""
        if 0 in self.sizes:
            return 0
        low, high = extent(self.sizes, self.strides if self.strides is not None else packed_strides(self.sizes))
        return -(-(1 + high - low) * self.itemsize // 4) * 4

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that JSON can hold; `from_dict` turns it back without loss."""
        kind = self.data_type
        return {
            "data_type": _described(kind),
            "sizes": list(self.sizes),
            "strides": None if self.strides is None else list(self.strides),
            "flags": int(self.flags),
            "total_tensor_size_in_bytes": self.total_tensor_size_in_bytes,
            "guaranteed_base_offset_alignment": self.guaranteed_base_offset_alignment,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TensorDesc:
        """Build a descriptor from the result of `to_dict`, also after a trip through JSON."""
        known = dict(values)
        for name in ("data_type", "sizes"):
            if name not in known:
                raise _refusal(name, "nothing", "a value")
        names = [field.name for field in fields(cls)]
        if unknown := [name for name in known if name not in names]:
            raise _refusal(str(unknown[0]), "a field of this name", f"one of {', '.join(names)}")
        data_type = _dtype_of_description(known.pop("data_type"))
        return cls(data_type, known.pop("sizes"), known.pop("strides", None), **known)

    def __repr__(self) -> str:
        parts = [repr(data_type_name(self.data_type)), repr(self.sizes)]
        if self.strides is not None:
            parts.append(repr(self.strides))
        for name in ("flags", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"):
            if getattr(self, name) != getattr(TensorDesc, name):  # what is a default says nothing
                parts.append(f"{name}={getattr(self, name)!r}")
        return f"TensorDesc({', '.join(parts)})"


def _described(kind: TensorDataType | np.dtype[Any]) -> Any:
    if not isinstance(kind, np.dtype):
        return kind.name
    if _is_small(kind):
        return data_type_name(kind)
    try:
        return np.lib.format.dtype_to_descr(kind)
    except ValueError:  # of fields that overlap, or are not in order
        parts = [(name, kind[name], kind.fields[name][1]) for name in kind.names or ()]  # type: ignore[index]
        names, kinds, offsets = map(list, zip(*parts, strict=True))
        return {"names": names, "formats": list(map(_described, kinds)), "offsets": offsets, "itemsize": kind.itemsize}


def _dtype_of_description(found: Any) -> Any:
    """Return what `_described` has described, or what is no description of a structured dtype."""
    try:
        if isinstance(found, Mapping):
            description: Any = {**found, "formats": [_dtype_of_description(part) for part in found["formats"]]}
            return np.dtype(description)
        if isinstance(found, (list, tuple)):  # JSON has made lists of its tuples
            return np.lib.format.descr_to_dtype([_as_field(entry) for entry in found])
    except (TypeError, ValueError, IndexError, KeyError):
        raise _refusal("data_type", repr(found), _DATA_TYPES) from None
    return found


def _as_field(entry: Sequence[Any]) -> tuple[Any, ...]:
    name = tuple(entry[0]) if isinstance(entry[0], list) else entry[0]
    kind = [_as_field(e) for e in entry[1]] if isinstance(entry[1], list) else entry[1]
    return (name, kind, *(tuple(part) for part in entry[2:]))
