"""Arrays in device memory: what a kernel needs to know of them, and what their libraries must offer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..tensor import packed_strides
from .dlpack import Exchange

#: The legacy default stream: what work that names no stream runs on.
DEFAULT_STREAM = 0


_BYTES = np.dtype(np.uint8)
#: New arrays have the same few shapes again and again: 1 µs each.
_packed_strides = lru_cache(maxsize=4096)(packed_strides)


@lru_cache(maxsize=4096)
def _unaligned_bits(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """Return which bits of its address an array of a layout may not have; -1: it is never aligned."""
    low = (itemsize & -itemsize) - 1
    return -1 if any(step & low for size, step in zip(shape, strides, strict=True) if size > 1) else low


def stream_pointer(function: str, stream: Any) -> int:
    """Return the address of a stream of any library, or of a number that is one."""
    expected = "a CUDA stream or its address"
    if isinstance(stream, int):
        if isinstance(stream, bool) or not (0 <= stream <= 2 or stream >= 4096):  # three stand for default streams
            raise ValueError(f"{function}: stream: found {stream!r}, expected {expected}")
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if (found := getattr(stream, attribute, None)) is not None:
            return int(getattr(found, "value", found) or 0)
    raise TypeError(f"{function}: stream: found {type(stream).__name__}, expected {expected}")


#: Shape, strides (in bytes) and dtype of an array.
Layout = tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]


class DeviceArray:
    """An array on a device: an address and a layout, and the object that the memory belongs to.

    Attributes
    ----------
    owner : object
        The caller's array.
    library : Library
        Where it is from: makes its kind of arrays, and knows their stream.
    pointer, device : int
        The address, and the device's number.
    home : int or None
        The stream that the library works on now. None if nobody knows: the array is complete after the default stream,
        and the host waits until it has been used.
    stream : int
        The stream that a call with this array as its first runs on.
    shape, strides, dtype : tuple of int (strides in bytes), numpy.dtype

    Raises
    ------
    ValueError
        An element's address is not a multiple of its size: no GPU can load it.
    """

    __slots__ = ("device", "dtype", "home", "library", "owner", "pointer", "shape", "stream", "strides")

    def __init__(
        self,
        owner: Any,
        library: Library,
        pointer: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        device: int,
        stream: int,
    ) -> None:
        if pointer & _unaligned_bits(shape, strides, dtype.itemsize):
            raise ValueError(
                f"found the address {pointer:#x} and strides {strides}, "
                f"expected multiples of {dtype.itemsize}, the bytes of an element (use a copy)"
            )
        self.owner = owner
        self.library = library
        self.pointer = pointer
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device
        self.home: int | None = stream
        self.stream = stream

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)


class Library:
    """What the package needs of a library of device arrays."""

    #: Arrays of the library cannot be written.
    read_only = False
    #: Calls for its arrays can be made again (see `cuda.replay`): it has an `exchange`, or `address` and `stream`.
    repeats = False
    #: What C code can ask about the arrays.
    exchange: Exchange | None = None

    def holds(self, array: Any) -> bool:
        """Tell whether an array of the library is on a CUDA device."""
        return True

    def view(self, array: Any) -> DeviceArray | None:
        """Return what a kernel needs to know of an array, or None if it is not on a CUDA device."""
        raise NotImplementedError

    def view_out(self, array: Any) -> DeviceArray | None:
        """Return what a kernel needs to know of an array that it writes."""
        return self.view(array)

    def address(self, array: Any, layout: Layout, device: int) -> int | None:
        """Return the address of an array of a layout that is on a device, or None for another one; never raise."""
        raise NotImplementedError

    def stream(self, device: int) -> int:
        """Return the stream that the library works on now."""
        raise NotImplementedError

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        """Return a new packed array of the library, from its own pool, on the device that is the current one."""
        raise NotImplementedError

    def memory(self, size: int, device: int) -> DeviceArray:
        """Return `size` bytes from the library's pool."""
        return self.new((size,), _BYTES, device)

    def assign(self, array: Any, packed: Any) -> bool:
        """Write the elements of one array of the library to another one, of any strides, if the library can."""
        return False

    def finish(self, result: DeviceArray, stream: int) -> Any:
        """Return a new array to the caller; the library may not know of the stream that it is written on."""
        return result.owner
