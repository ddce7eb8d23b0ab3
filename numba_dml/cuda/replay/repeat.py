"""Calls that are made again: what one launched is launched for other arrays, once they are known to be like the first.

A call asks a library some eight questions about each array, and decides anew what it has decided before. So a call now
and then records what it launches, and whoever makes it again goes through one function of machine code. That looks
whether the new arrays are what the recorded ones were: their type, device, data type, sizes, strides and alignment,
which of them are one, and which outputs lie apart from the rest. If so, it has the driver launch the kernels with the
new addresses on the library's current stream; if not, nothing has happened, and the call goes its way. It asks by
DLPack's C functions, which PyTorch has. CuPy has none: there Python compares types, devices, data types, sizes and
strides, and hands addresses and stream to the machine code, which does the rest.

A held gather with `out=` takes the host 5 µs instead of 13: 0.9 for all these questions, 2.8 in the driver, the rest in
Python; a function 7. With CuPy's arrays it is 7 and 8.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.devices.arrays import DeviceArray
from ..._core.devices.dlpack import Exchange, Tensor
from ..._core.devices.libraries import library_of_type
from ..._core.shapes import extent
from ..driver.arrays import Output
from ..driver.context import check, driver_address
from ..driver.launch import Step, recorder
from ..driver.memory import DeviceMemory
from . import entry

#: The first launch that is recorded, and then each time that there were twice as many.
FIRST_RECORDED = 8
#: Calls one after the other that are not like what is recorded, after which nobody asks any more.
MOST_MISSES = 3
#: Bytes by which new memory of every library is aligned.
MEMORY_ALIGNED = 256
#: DLPack's codes of real and complex types.
_REAL, _COMPLEX = (2, 4), 5
#: What says that an element is not what its memory holds.
_REQUIRES_GRAD, _IS_NEG = "requires_grad", "is_neg"


class Repeat:
    """What a call launched, for arrays of a library, of the same shapes and on the same device."""

    def __init__(
        self, call: Repeatable, arrays: Sequence[DeviceArray], words: list[int], scratch_size: int, kernels: list[Any]
    ) -> None:
        self.call = call
        self.kernels = kernels  # of which the words have handles alone
        self.device = arrays[0].device
        self.library = arrays[0].library
        self.shapes = tuple(array.shape for array in arrays)
        self.layouts = tuple((array.shape, array.strides, array.dtype) for array in arrays)
        self.words = np.array(words, np.int64)
        self.address = self.words.ctypes.data
        self.scratch_size = scratch_size
        self.misses = 0
        #: The machine code asks about the arrays, so that it is given these; else their addresses, and the stream.
        self.given_arrays = self.library.exchange is not None
        self.missing: tuple[Any, ...] = (None if self.given_arrays else 0,) * (entry.MOST_ARRAYS - len(arrays))
        self.entry = entry.machine_code(self.given_arrays)

    def new(self, output: Output) -> Any:
        """Return a new array of the library."""
        return self.library.new(output.shape, output.dtype, self.device).owner

    def __call__(
        self, arrays: tuple[Any, ...], record: int = 0, number: int = 0, memory: DeviceArray | None = None
    ) -> int | None:
        """Launch it for other arrays; return the stream, or None if these are not like the recorded ones.

        `memory`: of `scratch_size` bytes, if the caller wants to read what it holds then.
        """
        given = (*arrays, *self.missing) if self.given_arrays else self.addresses(arrays)
        scratch = memory.pointer if memory else 0
        status = self.entry(self.address, *given, scratch, record, number) if given else entry.DIFFERENT
        if status >= 0 and self.scratch_size and not memory:  # nothing is different
            memory = self.library.memory(self.scratch_size, self.device)
            status = self.entry(self.address, *given, memory.pointer, record, number)
        if status >= 0:
            self.misses = 0
            return status
        check(entry.DIFFERENT - status)
        self.misses += 1
        if self.misses >= MOST_MISSES and self.call.again is self:
            self.call.again = None
        return None

    def addresses(self, arrays: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the addresses of arrays that have the recorded layouts, and their stream; else nothing."""
        library, device = self.library, self.device
        found = []
        for array, layout in zip(arrays, self.layouts, strict=True):
            if library_of_type(array.__class__) is not library:
                return ()
            address = library.address(array, layout, device)
            if address is None:
                return ()
            found.append(address)
        return (*found, *self.missing, library.stream(device))


class Repeatable:
    """What the calls share: now and then what one launches is recorded, and `again` is the last record."""

    again: Repeat | None = None
    launches = 0
    #: It waits for the device, to say which index is bad; a capture cannot.
    checked = False

    def launch_recorded(
        self, inputs: tuple[DeviceArray, ...], outputs: tuple[DeviceArray, ...], launch: Callable[[], Any]
    ) -> Any:
        """Launch; return what `launch` does. Now and then record what is launched.

        More than once, since the arrays of a layout may come with another alignment later, or as views of each other.
        """
        self.launches += 1
        stream, library = inputs[0].stream, inputs[0].library
        if self.launches == 1 and library.repeats:  # compiled with the kernels: no later call waits for a compiler
            entry.machine_code(library.exchange is not None)
        arrays = (*inputs, *outputs)
        if (
            recorder.steps is not None
            or self.launches < FIRST_RECORDED
            or self.launches & (self.launches - 1)
            or not library.repeats
            or not all(array.library is library and array.home == stream for array in arrays)
        ):
            return launch()
        steps: list[Any] = []
        recorder.steps, recorder.given = steps, None
        try:
            result = launch()
        finally:
            recorder.steps = None
        known = _recorded(library.exchange, arrays, len(inputs), steps, self.checked)
        if known:
            kernels = [step.kernel for step in steps if isinstance(step, Step)]
            scratch_size = sum(_room(step) for step in steps if isinstance(step, DeviceArray))
            self.again = Repeat(self, arrays, known, scratch_size, kernels)
        return result


def _recorded(
    exchange: Exchange | None, arrays: tuple[DeviceArray, ...], inputs: int, steps: list[Any], checked: bool
) -> list[int] | None:
    """Return what `repeat` needs to know of some steps, or None if that is not all that they depend on."""
    memories = [step for step in steps if isinstance(step, DeviceArray)]
    launches = [step for step in steps if isinstance(step, Step)]
    if None in steps or not launches or len(arrays) > entry.MOST_ARRAYS:
        return None
    kind, *functions = exchange or (None, 0, 0)
    words = [
        len(arrays),
        id(kind),
        *functions,
        driver_address("cuCtxGetDevice"),
        driver_address("cuStreamIsCapturing") if checked else 0,
        driver_address("cuLaunchKernelEx"),
        bool(memories),
        id(_REQUIRES_GRAD),
        id(_IS_NEG),
        id(False),
        len(launches),
        0,  # where they are, which is known below
    ]
    layouts, spans = [], []
    for array in arrays:
        described = _described(exchange, array)
        if described is None or 0 in array.shape:
            return None
        device, rank_and_type, is_real, *layout = described
        layouts += layout
        low, high = extent(array.shape, array.strides)
        high += array.dtype.itemsize
        spans.append((array.pointer + low, array.pointer + high))
        words += [device, rank_and_type, array.pointer % entry.ALIGNED, low, high, is_real]
    words += [0] * (entry.PAIRS_AT - len(words))
    for i, j in entry.PAIRS:
        relation = entry.ANY
        if j < len(arrays):
            (low, high), (other_low, other_high) = spans[i], spans[j]
            if arrays[i].pointer == arrays[j].pointer:
                relation = entry.SAME
            elif j >= inputs:
                if low < other_high and other_low < high:
                    return None
                relation = entry.APART
        words.append(relation)
    words += layouts
    words[entry.LAUNCHES_AT] = 8 * len(words)
    for step in launches:
        given = step.arguments()
        if len(given) > entry.MOST_ARGUMENTS:
            return None
        words += [step.kernel.handle(arrays[0].device), len(given), *step.config()]
        for value, may_be_address in given:
            argument = _argument(value, arrays, spans, memories) if may_be_address else (entry.NUMBER, value)
            if argument is None:
                return None
            words += argument
    return words


def _room(memory: DeviceArray) -> int:
    """Return the bytes of a part of a call's memory: the next one is aligned as new memory is."""
    return -(-memory.shape[0] // MEMORY_ALIGNED) * MEMORY_ALIGNED


def _described(exchange: Exchange | None, array: DeviceArray) -> list[int] | None:
    """Return three words on an array, its sizes and strides, or None if there is more to know.

    If only Python can ask about it, the device is all that the machine code needs.
    """
    if exchange is None:
        return [array.device << 32, 0, 0]
    tensor, owner = Tensor(), array.owner
    describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(exchange.describe)
    if type(owner) is not exchange.kind or describe(owner, ctypes.addressof(tensor)) or tensor.byte_offset:
        return None
    if tensor.code == _COMPLEX or (tensor.ndim and not tensor.strides) or tensor.data != array.pointer:
        return None
    sizes = tensor.shape[: tensor.ndim]
    _, device, rank_and_type = (ctypes.c_int64 * 3).from_buffer(tensor)
    known = [device, rank_and_type, int(tensor.code in _REAL), *sizes, *tensor.strides[: tensor.ndim]]
    return known if sizes == list(array.shape) else None


def _argument(
    value: int, arrays: tuple[DeviceArray, ...], spans: list[tuple[int, int]], memories: list[DeviceArray]
) -> tuple[int, int] | None:
    """Return what an argument of a kernel is, and a number, or None if nobody knows of which array it is an address."""
    for i, array in enumerate(arrays):
        if value is array.pointer:  # not a number that happens to be the same
            return entry.ARRAY + i, 0
    if recorder.given and value in recorder.given:
        return (entry.RECORD, entry.LAUNCH_NUMBER)[recorder.given.index(value)], 0
    if value in DeviceMemory.known:  # a plan, which may lie right behind an array
        return entry.NUMBER, value
    found, start = {}, 0  # memories are parts of one, when the call is made again
    for memory in memories:
        if 0 <= value - memory.pointer <= memory.shape[0]:
            found[memory.pointer - start] = entry.SCRATCH
        start += _room(memory)
    for i, (low, high) in enumerate(spans):
        if low <= value < high:
            found[arrays[i].pointer] = entry.ARRAY + i
    if len(found) > 1:
        return None
    return next(((what, value - pointer) for pointer, what in found.items()), (entry.NUMBER, value))
