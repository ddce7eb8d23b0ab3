"""DLPack: the memory that an array of any library lends by ``__dlpack__``.

cuda.core's StridedMemoryView reads the same structs, but up to 1.1 without their byte offset: it would return other
elements than the array's. And the structs are few.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from ..enums import TensorDataType
from ..tensor import dtype_of, packed_strides

#: The consumer's stream in `__dlpack__`: the legacy default one, which CUDA's convention calls 1.
_LEGACY_STREAM = 1
#: The newest version whose struct this is; a newer minor version only adds flags and types.
_VERSION = (1, 0)
#: Memory that cannot be written, and a copy, in which nobody would see what was written.
_READ_ONLY, _COPIED = 1, 2
#: Names of data types, without their bits, by DLPack's codes.
_KINDS = {0: "int", 1: "uint", 2: "float", 5: "complex"}
_BFLOAT, _BOOL = 4, 6


class Tensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; null if they are packed
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _ManagedVersioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


class _Api(ctypes.Structure):
    """``DLPackExchangeAPI``: a library's functions, by their addresses."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("before", ctypes.c_void_p),  # the functions of the major version before
        ("allocate", ctypes.c_void_p),
        ("lend", ctypes.c_void_p),
        ("take", ctypes.c_void_p),
        ("describe", ctypes.c_void_p),  # null if the library has none
        ("current_stream", ctypes.c_void_p),
    ]


#: A capsule's struct, and its name once it is taken: who renames it has to call the deleter.
_CAPSULES: dict[bytes, tuple[Any, bytes]] = {
    b"dltensor": (_Managed, b"used_dltensor"),
    b"dltensor_versioned": (_ManagedVersioned, b"used_dltensor_versioned"),
}


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of Python's C API."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_name = _function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


class Exchange(NamedTuple):
    """What a library lets C code ask about its arrays, by addresses of functions.

    Attributes
    ----------
    kind : type
        The arrays' type.
    describe : int
        ``int (PyObject *array, DLTensor *out)``: 0, or an exception is set; its sizes and strides live in the array.
    current_stream : int
        ``int (int device_type, int device, void **out)``.
    """

    kind: type
    describe: int
    current_stream: int

    @classmethod
    def of(cls, kind: type) -> Exchange | None:
        """Return what a type of arrays has, if it has anything."""
        capsule, name = getattr(kind, "__dlpack_c_exchange_api__", None), b"dlpack_exchange_api"
        if type(capsule).__name__ != "PyCapsule" or _name(capsule) != name:
            return None
        api = _Api.from_address(_pointer(capsule, name))
        while api.major > _VERSION[0] and api.before:
            api = _Api.from_address(api.before)
        known = api.major == _VERSION[0] and api.describe and api.current_stream
        return cls(kind, api.describe, api.current_stream) if known else None


class Borrowed:
    """Memory that an array lends; it is given back when this object dies.

    Attributes
    ----------
    array : object
        The array.
    pointer, device : int
        The address, and the device's number.
    shape, strides, dtype : tuple of int (strides in bytes), numpy.dtype
    read_only : bool
        Nothing may be written, or nobody would see it.

    Notes
    -----
    Who borrows may read (and write) after the legacy default stream, and has to be done when this object dies.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        capsule = self._capsule_of(array)
        name = _name(capsule)
        if name not in _CAPSULES:
            raise TypeError(f"found a capsule {name!r} of {type(array).__name__}, expected one that nobody took")
        struct, taken = _CAPSULES[name]
        self._address = _pointer(capsule, name)
        self._managed: Any = struct.from_address(self._address)
        _rename(capsule, taken)
        versioned = struct is _ManagedVersioned
        if versioned and self._managed.major > _VERSION[0]:  # only what comes before the flags is known then
            raise TypeError(f"found DLPack {self._managed.major}, expected version {_VERSION[0]} or older")
        self.read_only = bool(versioned and self._managed.flags & (_READ_ONLY | _COPIED))
        tensor = self._managed.tensor
        self.dtype = _dtype(tensor)
        self.device: int = tensor.device
        self.shape: tuple[int, ...] = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
        self.pointer: int = (tensor.data or 0) + tensor.byte_offset
        size = self.dtype.itemsize
        steps = tensor.strides[: tensor.ndim] if tensor.ndim and tensor.strides else packed_strides(self.shape)
        self.strides = tuple(step * size for step in steps)

    @staticmethod
    def _capsule_of(array: Any) -> Any:
        """Return the capsule of an array; its library refuses by a BufferError, and an older one knows no versions."""
        try:
            try:
                return array.__dlpack__(stream=_LEGACY_STREAM, max_version=_VERSION)
            except TypeError:
                return array.__dlpack__(stream=_LEGACY_STREAM)
        except (BufferError, TypeError) as error:
            raise TypeError(
                f"found {type(array).__name__}, which does not lend its memory ({error}), expected another array"
            ) from error

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.deleter:
            managed.deleter(self._address)


def _dtype(tensor: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a tensor's elements."""
    code, bits, lanes = tensor.code, tensor.bits, tensor.lanes
    if lanes == 1:
        if code == _BOOL and bits == 8:
            return np.dtype(bool)
        if code == _BFLOAT and bits == 16:
            return dtype_of(TensorDataType.BFLOAT16)
        if code in _KINDS and bits in (8, 16, 32, 64, 128):
            try:
                return np.dtype(f"{_KINDS[code]}{bits}")
            except TypeError:
                pass
    raise TypeError(f"found DLPack data type {code} of {lanes} x {bits} bits, expected a number of 8 to 64 bits")
