"""The libraries of device arrays: PyTorch, CuPy, JAX, and whoever speaks DLPack or the CUDA array interface.

Nothing here imports a library that the caller has not imported, and nothing needs a GPU.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from ..enums import TensorDataType
from ..targets import kernels
from ..tensor import dtype_of, packed_strides
from .arrays import _BYTES, DEFAULT_STREAM, DeviceArray, Layout, Library, _packed_strides
from .dlpack import Borrowed, Exchange

#: DLPack's numbers of devices whose memory a CUDA kernel reads: CUDA and CUDA managed memory.
_DLPACK_CUDA = (2, 13)


class _TorchMemory:
    """Memory of PyTorch's pool, for as long as this object lives. With its release 0.8 µs, where a tensor takes 2.5."""

    __slots__ = ("pointer", "release")

    def __init__(self, pointer: int, release: Any) -> None:
        self.pointer, self.release = pointer, release

    def __del__(self) -> None:
        self.release(self.pointer)


class _Torch(Library):
    """PyTorch."""

    def __init__(self) -> None:
        self.torch = torch = sys.modules["torch"]
        names = [member.name.lower() for member in TensorDataType if hasattr(torch, member.name.lower())]
        self.from_torch = {getattr(torch, name): name for name in (*names, "bool", "complex64", "complex128")}
        self.own_dtypes: dict[np.dtype[Any], Any] = {}
        self.exchange = Exchange.of(torch.Tensor)
        self.repeats = self.exchange is not None
        self.layout = lru_cache(maxsize=4096)(self.read_layout)
        # Behind `torch.cuda.caching_allocator_alloc`, without its 3 µs in Python; not there without CUDA.
        self.allocate: Any = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", None)
        self.release: Any = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_delete", None)
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda device: torch.cuda.current_stream(device).cuda_stream
        )

    def read_layout(self, dtype: Any, shape: Any, stride: Any) -> tuple[Layout, int]:
        """Return a tensor's layout, and whether its kind is integer, real or complex."""
        name = self.from_torch.get(dtype)
        if name is None:
            raise TypeError(f"found a tensor of {dtype}, expected one of {', '.join(self.from_torch.values())}")
        found = dtype_of(TensorDataType.BFLOAT16) if name == "bfloat16" else np.dtype(name)
        strides = tuple(step * found.itemsize for step in stride)
        return (tuple(shape), strides, found), 1 if dtype.is_floating_point else 2 * dtype.is_complex

    def holds(self, array: Any) -> bool:
        return array.is_cuda  # type: ignore[no-any-return]

    def view(self, array: Any) -> DeviceArray | None:
        if not array.is_cuda:
            return None
        layout, kind = self.layout(array.dtype, array.shape, array.stride())
        # Each of these questions takes 0.06 to 0.1 µs.
        if kind and (array.requires_grad or array.is_neg() or (kind == 2 and array.is_conj())):
            return self.view(self.resolve(array))
        device = array.get_device()
        return DeviceArray(array, self, array.data_ptr(), *layout, device, self.raw_stream(device))

    def resolve(self, array: Any) -> Any:
        """Return a tensor whose memory holds its elements as they are."""
        if array.requires_grad:
            raise TypeError("found a tensor that requires grad, expected one without (use .detach())")
        return array.resolve_conj().resolve_neg()

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        own = self.own_dtypes.get(dtype)
        if own is None:  # a dtype's name takes NumPy a microsecond
            own = self.own_dtypes[dtype] = getattr(self.torch, dtype.name)
        # 1.9 µs; `torch.empty` needs 3.1 for a tuple of sizes.
        array = self.torch.empty_strided(shape, _packed_strides(shape), dtype=own, device=device)
        strides = _packed_strides(shape, dtype.itemsize)
        return DeviceArray(array, self, array.data_ptr(), shape, strides, dtype, device, self.raw_stream(device))

    def memory(self, size: int, device: int) -> DeviceArray:
        stream = self.raw_stream(device)
        pointer = self.allocate(size, stream)
        return DeviceArray(_TorchMemory(pointer, self.release), self, pointer, (size,), (1,), _BYTES, device, stream)

    def assign(self, array: Any, packed: Any) -> bool:
        array.copy_(packed)
        return True


class _CuPy(Library):
    """CuPy."""

    repeats = True

    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]
        self.current_stream = self.cupy.cuda.get_current_stream

    def view(self, array: Any) -> DeviceArray:
        memory = array.data
        device = memory.device_id
        stream = self.stream(device)
        return DeviceArray(array, self, memory.ptr, array.shape, array.strides, array.dtype, device, stream)

    def address(self, array: Any, layout: Layout, device: int) -> int | None:
        memory = array.data
        same = memory.device_id == device and (array.shape, array.strides, array.dtype) == layout
        return memory.ptr if same else None

    def stream(self, device: int) -> int:
        return self.current_stream(device).ptr  # type: ignore[no-any-return]

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        return self.view(self.cupy.empty(shape, dtype))

    def assign(self, array: Any, packed: Any) -> bool:
        array[...] = packed
        return True


class _Interface(Library):
    """Whoever has ``__cuda_array_interface__``, such as Numba; new arrays are Numba's."""

    def holds(self, array: Any) -> bool:
        return hasattr(array, "__cuda_array_interface__")

    def view(self, array: Any) -> DeviceArray | None:
        face = getattr(array, "__cuda_array_interface__", None)  # which an array in host memory may refuse
        if face is None:
            return None
        if face.get("mask") is not None:
            raise TypeError("found a masked array, expected an array without a mask")
        is_record = face["typestr"][1] == "V" and "descr" in face
        dtype = np.dtype([tuple(field) for field in face["descr"]] if is_record else face["typestr"])
        if not dtype.isnative:
            raise TypeError(f"found dtype {dtype}, expected the byte order of the machine")
        shape = tuple(face["shape"])
        strides = face.get("strides") or packed_strides(shape, dtype.itemsize)
        pointer, stream = face["data"][0] or 0, face.get("stream") or DEFAULT_STREAM
        device = kernels("cuda").device_of(pointer)
        return DeviceArray(array, self, pointer, shape, tuple(strides), dtype, device, stream)

    def view_out(self, array: Any) -> DeviceArray | None:
        if self.holds(array) and array.__cuda_array_interface__["data"][1]:
            raise ValueError("found a read-only array, expected one that can be written")
        return self.view(array)

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        return self.view(kernels("cuda").empty(shape, dtype, device))  # type: ignore[return-value]


class _Jax(Library):
    """JAX: its arrays are complete when they are seen, and so results must be."""

    read_only = True

    def __init__(self) -> None:
        self.jax = sys.modules["jax"]

    def holds(self, array: Any) -> bool:
        return any(device.platform == "gpu" for device in array.devices())

    def view(self, array: Any) -> DeviceArray | None:
        return self.view_ready(array) if self.holds(array) else None

    def view_ready(self, array: Any) -> DeviceArray:
        """Return what a kernel needs to know of an array on a device, once it is complete."""
        array.block_until_ready()
        dtype, device, pointer = np.dtype(array.dtype), array.device.local_hardware_id, array.unsafe_buffer_pointer()
        strides = packed_strides(array.shape, dtype.itemsize)
        return DeviceArray(array, self, pointer, array.shape, strides, dtype, device, DEFAULT_STREAM)

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        devices = {d.local_hardware_id: d for d in self.jax.local_devices()}
        return self.view_ready(self.jax.numpy.empty(shape, dtype, device=devices[device]))

    def finish(self, result: DeviceArray, stream: int) -> Any:
        kernels("cuda").synchronize(stream)
        return result.owner


class _DLPack(Library):
    """A type of arrays that has ``__dlpack__`` alone: an object for each such type.

    New arrays come from ``empty`` of the array's namespace, as the array API standard has it, else from Numba. Nobody
    can tell such a library of a stream, so that a call waits for the device.
    """

    def __init__(self) -> None:
        #: By the number of a device, the namespace of an array that was there, and what it calls the device.
        self.places: dict[int, tuple[Any, Any]] = {}

    def holds(self, array: Any) -> bool:
        return array.__dlpack_device__()[0] in _DLPACK_CUDA

    def view(self, array: Any) -> DeviceArray | None:
        if not self.holds(array):
            return None
        if hasattr(array, "__cuda_array_interface__"):  # a result that is Numba's
            return _library("interface").view(array)
        memory = Borrowed(array)
        if hasattr(array, "__array_namespace__"):
            self.places[memory.device] = array.__array_namespace__(), array.device
        layout = memory.shape, memory.strides, memory.dtype
        view = DeviceArray(memory, self, memory.pointer, *layout, memory.device, DEFAULT_STREAM)
        view.home = None
        return view

    def view_out(self, array: Any) -> DeviceArray | None:
        view = self.view(array)
        if view is not None and isinstance(view.owner, Borrowed) and view.owner.read_only:
            raise ValueError("found a read-only array, expected one that can be written")
        return view

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        namespace, place = self.places.get(device, (None, None))
        own = getattr(namespace, dtype.name, None)
        if own is not None and hasattr(namespace, "empty"):
            view = self.view(namespace.empty(shape, dtype=own, device=place))
            if view is not None and not (isinstance(view.owner, Borrowed) and view.owner.read_only):
                return view
        return _library("interface").new(shape, dtype, device)

    def finish(self, result: DeviceArray, stream: int) -> Any:
        return result.owner.array if isinstance(result.owner, Borrowed) else result.owner

    def memory(self, size: int, device: int) -> DeviceArray:
        return kernels("cuda").memory(size, device)  # type: ignore[no-any-return]


@cache
def _library(name: str) -> Library:
    """Return the library of a name; there is one of each."""
    kinds = {"torch": _Torch, "cupy": _CuPy, "jax": _Jax}
    return kinds.get(name, _Interface)()


@cache
def library_of_type(kind: type) -> Library | None:
    """Return the library of a type of arrays, or None if they are never on a device."""
    roots = {base.__module__.partition(".")[0] for base in kind.__mro__}
    for root in ("torch", "cupy"):
        if root in roots:
            return _library(root) if hasattr(kind, "__cuda_array_interface__") else None
    if "jaxlib" in roots:
        return _library("jax") if hasattr(kind, "unsafe_buffer_pointer") else None
    if hasattr(kind, "__cuda_array_interface__"):
        return _library("interface")
    return _DLPack() if hasattr(kind, "__dlpack_device__") and not issubclass(kind, ndarray) else None


def library_of(array: Any) -> Library | None:
    """Return the library that an array on a device is from, or None for anything else."""
    library = library_of_type(array.__class__)
    return library if library is not None and library.holds(array) else None
