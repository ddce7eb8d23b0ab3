"""The driver: contexts, memory of our own, and launches with packed arguments.

numba-cuda compiles; its own launch takes 15 µs and more, 1 to 2 for each argument. Here the arguments of a kernel are
int64 words of one buffer, which the driver copies. What every call needs of the driver is called through ctypes, with
numbers alone. All launches are for the current device: a call sees to that once (`is_current`, `on_device`). A graph
of three kernels, its arguments set anew for each call, would take 8.4 µs where three launches take 9.9, and it could
not be captured. In the simulator the same functions work on host memory.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from .._compiling import compiling
from .._device import DEFAULT_STREAM
from . import SIMULATED, _compile_lock, cuda

if not SIMULATED:
    from cuda.bindings import driver
    from numba.cuda import types

#: Threads per block, and of a warp. In the simulator each is a thread of the system, so they are few: two warps of two.
BLOCK = 4 if SIMULATED else 256
LANES = 2 if SIMULATED else 32
#: In the simulator: where the lanes of each warp wait for each other.
WARP_BARRIERS = [threading.Barrier(LANES) for _ in range(BLOCK // LANES)] if SIMULATED else []


def _checked(result: Any) -> Any:
    """Return what a function of the driver returned, without its status."""
    status, *values = result
    if int(status):
        text = f"CUDA: {driver.cuGetErrorString(status)[1].decode()} ({status.name})"
        if status.name.startswith("CUDA_ERROR_STREAM_CAPTURE"):
            text += ": expected a call before the capture with arrays of the same layout, which makes kernels and plans"
        raise RuntimeError(text)
    return values[0] if values else None


def driver_address(name: str) -> int:
    """Return the address of a function of the driver."""
    return int(_checked(driver.cuGetProcAddress(name.encode(), 12000, 0)))


def _function(name: str, count: int) -> Any:
    """Return a function of the driver that takes so many numbers (addresses too) and returns its status.

    A launch through `cuda.bindings` spends 0.6 µs on its 11 arguments and the result, such a function 0.35 on 4.
    """
    if SIMULATED:
        return None
    return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)(driver_address(name))


_launch_kernel = _function("cuLaunchKernelEx", 4)
_synchronize = _function("cuStreamSynchronize", 1)
_copy_bytes = _function("cuMemcpyDtoDAsync", 4)
_set_bytes = _function("cuMemsetD8Async", 4)


def check(status: int) -> None:
    """Raise what a function of the driver reports."""
    if status:
        _checked((driver.CUresult(status),))


def is_current(device: int) -> bool:
    """Tell whether a device is the current one of this thread."""
    if SIMULATED:
        return True
    _, found = driver.cuCtxGetDevice()
    return found is not None and int(found) == device


@cache
def _context(device: int) -> Any:
    """Return the primary context of a device, which all libraries share."""
    _checked(driver.cuInit(0))
    return _checked(driver.cuDevicePrimaryCtxRetain(_checked(driver.cuDeviceGet(device))))


@contextmanager
def on_device(device: int) -> Iterator[None]:
    """Make a device the current one, for what is not on the fast way."""
    if SIMULATED:
        yield
        return
    _checked(driver.cuCtxPushCurrent(_context(device)))
    try:
        yield
    finally:
        _checked(driver.cuCtxPopCurrent())


def device_of(pointer: int) -> int:
    """Return the device that an address belongs to."""
    if SIMULATED or not pointer:
        return 0
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(_checked(driver.cuPointerGetAttribute(attribute, pointer)))


def shared_memory_of(device: int) -> int:
    """Return how much shared memory a block of a device can have, if its kernel is allowed to."""
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    _checked(driver.cuInit(0))
    return int(_checked(driver.cuDeviceGetAttribute(attribute, _checked(driver.cuDeviceGet(device)))))


@cache
def least_capability() -> tuple[int, int]:
    """Return the lowest compute capability of all devices."""
    return (9, 0) if SIMULATED else min(device.compute_capability for device in cuda.gpus)


@cache
def can_come_early() -> bool:
    """Tell whether a kernel's blocks can come to the devices as soon as the last ones of the kernel before have ended.

    They wait there until all it has written can be seen (`_memory.await_inputs`). In a row of small kernels each takes
    1.0 µs so, and 2.2 otherwise. If kernels let the next one's blocks come even before they end, those go where there
    is room first, and some multiprocessors have more of them than others: `choose` took 1.3 times as long.
    """
    if SIMULATED or least_capability() < (9, 0):
        return False
    return int(_checked(driver.cuDriverGetVersion())) >= 12030  # which captures such launches in graphs


def _attributes() -> tuple[ctypes.Array[Any], int]:
    """Return the attributes of a launch that lets blocks come early, a number and 64 bytes each, and how many."""
    if not can_come_early():
        return (ctypes.c_int32 * 18)(), 0
    number = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    return (ctypes.c_int32 * 18)(int(number), 0, 1), 1


_ATTRIBUTES, _ATTRIBUTE_COUNT = _attributes()


def _allow_shared_memory(handle: Any, device: int) -> None:
    """Let a kernel have all the shared memory that a block can; without being asked it is 48 KiB."""
    fixed = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    dynamic = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    most = shared_memory_of(device) - _checked(driver.cuFuncGetAttribute(fixed, handle))
    _checked(driver.cuFuncSetAttribute(handle, dynamic, most))


#: A CUlaunchConfig: three sizes of the grid and of a block, the shared memory, the stream, and attributes.
_CONFIG = struct.Struct("7I4xqqI4x")


class Step(NamedTuple):
    """A launch that was recorded."""

    kernel: Kernel
    blocks: int
    threads: int
    shared: int
    args: tuple[int, ...]

    def config(self) -> list[int]:
        """Return the words of the launch's CUlaunchConfig, for stream 0."""
        sizes = self.blocks, 1, 1, self.threads, 1, 1, self.shared
        packed = _CONFIG.pack(*sizes, 0, ctypes.addressof(_ATTRIBUTES), _ATTRIBUTE_COUNT)
        return list(struct.unpack(f"{_CONFIG.size // 8}q", packed))

    def arguments(self) -> list[tuple[int, bool]]:
        """Return what the kernel was given, and whether it may be an address; the words of a plan are not."""
        found = [(value, True) for value in self.args]
        at, size = self.kernel.plan_at, self.kernel.plan_size
        if size:
            words = (ctypes.c_int64 * size).from_address(self.args[at])
            found[at : at + 1] = [(word, False) for word in words]
        return found


class _Recorder(threading.local):
    """What a thread has the driver do, while somebody wants to know: see `_repeat`."""

    #: Launches, memory from a library's pool, and None for anything else.
    steps: list[Any] | None = None
    #: The address of the record for bad indices, and the number of the launch.
    given: tuple[int, int] | None = None

    def note(self, step: Any) -> None:
        """Record a step, if they are recorded."""
        if self.steps is not None:
            self.steps.append(step)


recorder = _Recorder()


class _Launch:
    """What the driver is given for a launch. As a rule the next one differs in the arguments alone: 0.9 µs, not 1.2.

    Of `count` arguments the one at `plan_at` stands for `plan_size` words at an address of the host, if that is not 0.
    """

    __slots__ = ("config", "config_bytes", "handle", "key", "plan_words", "pointer_words", "pointers", "words")

    def __init__(self, count: int, plan_at: int, plan_size: int) -> None:
        self.key: Any = None
        self.handle = 0
        self.config_bytes = ctypes.create_string_buffer(_CONFIG.size)
        self.config = ctypes.addressof(self.config_bytes)
        self.words: Any = (ctypes.c_int64 * count)()
        start = ctypes.addressof(self.words)
        addresses = list(range(start, start + 8 * count, 8))
        self.plan_words = slice(plan_at, plan_at + plan_size)
        if plan_size:
            addresses[plan_at : plan_at + 1] = [0] * plan_size
        self.pointer_words: Any = (ctypes.c_int64 * len(addresses))(*addresses)
        self.pointers = ctypes.addressof(self.pointer_words)

    def set(self, key: Any, handle: int, config: tuple[int, ...], plan: int) -> None:
        """Prepare for another kernel, configuration or plan, which a key stands for."""
        words = self.plan_words
        self.pointer_words[words] = range(plan, plan + 8 * (words.stop - words.start), 8)
        _CONFIG.pack_into(self.config_bytes, 0, *config, ctypes.addressof(_ATTRIBUTES), _ATTRIBUTE_COUNT)
        self.handle = handle
        self.key = key


class Kernel:
    """A jitted kernel, as it is launched: `count` arguments, which are int64.

    `plan`: which one of them is a plan, and how many of its numbers the kernel is given, 0: its address in device
    memory. `waits`: its threads wait for each other. `shares`: its launches say how much shared memory a block has.
    `threads`: how many a block has.

    Numbers that are arguments are there when a block starts, and take no registers: gathers of some kilobytes take 3.6
    µs, and 3.74 if the numbers are in memory.
    """

    def __init__(
        self,
        jitted: Any,
        count: int,
        *,
        plan: tuple[int, int] = (0, 0),
        waits: bool = False,
        shares: bool = False,
        threads: int = BLOCK,
    ) -> None:
        self.jitted = jitted
        self.count = count
        self.plan_at, self.plan_size = (0, 0) if SIMULATED else plan
        self.waits = waits
        self.shares = shares
        self.threads = threads
        self.handles: dict[int, int] = {}
        self.free: deque[_Launch] = deque()  # an append and a pop are atomic

    def handle(self, device: int) -> int:
        """Return the handle of the kernel on a device."""
        return self.handles.get(device) or self.compile(device)

    def compile(self, device: int) -> int:
        """Return the handle of the kernel on a device, from memory, from disk or newly compiled."""
        signature = [types.int64] * self.count
        if self.plan_size:
            signature[self.plan_at] = types.UniTuple(types.int64, self.plan_size)
        with _compile_lock, cuda.gpus[device]:
            with compiling(self.jitted):
                compiled = self.jitted.compile(tuple(signature))
            handle = compiled._codelibrary.get_cufunc().handle
            if not isinstance(handle, driver.CUfunction):
                handle = _checked(driver.cuKernelGetFunction(driver.CUkernel(int(handle))))
            if self.shares:
                _allow_shared_memory(handle, device)
        self.handles[device] = int(handle)
        return int(handle)

    def __call__(self, device: int, stream: int, blocks: int, *args: int, threads: int = 0, shared: int = 0) -> None:
        """Launch blocks on a stream of the current device.

        They have so many threads, if not as many as always, and so many bytes of dynamic shared memory.
        """
        if blocks == 0:
            return
        if recorder.steps is not None:
            recorder.note(Step(self, blocks, threads or self.threads, shared, args))
        if SIMULATED:
            with _simulator_lock:
                if self.waits:
                    _run_together(self.jitted, blocks, args, shared)
                else:
                    _run_in_turn(self.jitted, blocks, args)
            return
        try:
            launch = self.free.pop()
        except IndexError:
            launch = _Launch(self.count, self.plan_at, self.plan_size)
        plan = args[self.plan_at] if self.plan_size else 0
        key = device, stream, blocks, threads, shared, plan
        if key != launch.key:
            launch.set(key, self.handle(device), (blocks, 1, 1, threads or self.threads, 1, 1, shared, stream), plan)
        launch.words[:] = args
        status = _launch_kernel(launch.config, launch.handle, launch.pointers, None)
        self.free.append(launch)
        if status:
            check(status)


_simulator_lock = threading.Lock()

if SIMULATED:
    from numba.cuda.simulator.kernelapi import FakeCUDAShared

    _simulators_array, _allocating = FakeCUDAShared.array, threading.Lock()

    def _array(self: Any, shape: Any, dtype: Any, alignment: int | None = None) -> ndarray[Any, Any]:
        """Return an array of a block: the simulator's own makes two of it for threads that come at once."""
        if shape == 0:  # dynamic shared memory, which is there
            return _simulators_array(self, shape, dtype, alignment)  # type: ignore[no-any-return]
        frame = sys._getframe(1)
        place = frame.f_code, frame.f_lineno
        with _allocating:
            if place not in self._allocations:
                self._allocations[place] = np.empty(shape, dtype)
            return self._allocations[place]  # type: ignore[no-any-return]

    FakeCUDAShared.array = _array


def _run_together(jitted: Any, blocks: int, args: tuple[int, ...], shared: int) -> None:
    """Simulate threads that wait for each other.

    Who looks after them asks all the time whether all wait, and Python lets it do so for 5 ms before it is a thread's
    turn: with 0.1 ms kernels take a sixth of the time.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        jitted[blocks, BLOCK, 0, shared](*args)
    except BaseException:  # other lanes may still wait for the one that failed
        for barrier in WARP_BARRIERS:
            barrier.abort()
            barrier.reset()
        raise
    finally:
        sys.setswitchinterval(interval)


def _run_in_turn(jitted: Any, blocks: int, args: tuple[int, ...]) -> None:
    """Simulate threads that do not wait for each other, one after the other: to start one would take 70 µs."""
    from numba.cuda.simulator.kernel import _push_kernel_context, swapped_cuda_module
    from numba.cuda.simulator.kernelapi import Dim3, FakeCUDAModule

    module = FakeCUDAModule(Dim3(blocks, 1, 1), Dim3(BLOCK, 1, 1), 0)
    place: Any = threading.current_thread()
    with _push_kernel_context(module), swapped_cuda_module(jitted.fn, module):
        for block in range(blocks):
            place.blockIdx = Dim3(block, 0, 0)
            for thread in range(BLOCK):
                place.threadIdx = Dim3(thread, 0, 0)
                jitted.fn(*args)


def _free_with(memory: DeviceMemory | HostWords, free: Any) -> None:
    """Free memory when its object dies; what lives until the process ends goes with the context."""

    def release(device: int, address: int) -> None:
        with on_device(device):
            free(address)

    weakref.finalize(memory, release, memory.device, memory.address).atexit = False


class DeviceMemory:
    """Memory of our own on a device, for as long as this object lives."""

    #: What there is of it, by address.
    known: weakref.WeakValueDictionary[int, DeviceMemory] = weakref.WeakValueDictionary()

    def __init__(self, device: int, contents: ndarray[Any, Any]) -> None:
        self.device = device
        self.size = contents.nbytes
        self.address = self.allocate(contents)
        self.known[self.address] = self

    def allocate(self, contents: ndarray[Any, Any]) -> int:
        """Return the address of new memory with these contents."""
        if SIMULATED:
            self.host = contents.copy()
            return self.host.ctypes.data
        with on_device(self.device):
            self.address = int(_checked(driver.cuMemAlloc(max(self.size, 1))))
            _free_with(self, driver.cuMemFree)
            _checked(driver.cuMemcpyHtoD(self.address, contents.ctypes.data, self.size))
        return self.address


class HostWords:
    """A few int64 words in host memory that kernels of all devices reach: pinned, and mapped."""

    def __init__(self, device: int, contents: ndarray[Any, Any]) -> None:
        self.device = device
        if SIMULATED:
            self.words = contents.copy()
            self.address = self.words.ctypes.data
            return
        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        with on_device(device):
            self.address = int(_checked(driver.cuMemHostAlloc(contents.nbytes, flags)))
            _free_with(self, driver.cuMemFreeHost)
        self.words = np.ctypeslib.as_array((ctypes.c_int64 * contents.size).from_address(self.address))
        self.words[...] = contents


def synchronize(stream: int | None) -> None:
    """Wait for a stream of the current device, or for all of them."""
    if stream is not None and not SIMULATED:
        check(_synchronize(stream))
    elif not SIMULATED:
        _checked(driver.cuCtxSynchronize())


def copy_bytes(to: int, fro: int, count: int, stream: int) -> None:
    """Copy bytes on a device, in the order of a stream."""
    recorder.note(None)
    if SIMULATED:
        ctypes.memmove(to, fro, count)
    else:
        check(_copy_bytes(to, fro, count, stream))


def set_bytes(to: int, value: int, count: int, stream: int) -> None:
    """Set bytes on a device, in the order of a stream."""
    recorder.note(None)
    if SIMULATED:
        ctypes.memset(to, value, count)
    else:
        check(_set_bytes(to, value, count, stream))


def wait_for(device: int, stream: int | None, other: int | None) -> None:
    """Let a stream of a device wait for what another one was given so far; None is the host.

    What the host gives is complete after the default stream.
    """
    other = other or DEFAULT_STREAM
    if SIMULATED or stream == other:
        return
    with on_device(device):
        if stream is None:
            refuse_capture(other, "CUDA: found an array that has __dlpack__ alone", "one of a library that has streams")
            synchronize(other)
            return
        event = _checked(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        _checked(driver.cuEventRecord(event, other))
        _checked(driver.cuStreamWaitEvent(stream, event, 0))
        _checked(driver.cuEventDestroy(event))


def refuse_capture(stream: int, found: str, expected: str) -> None:
    """Refuse a stream that is being captured in a CUDA graph, before a wait for it would break the capture."""
    if SIMULATED:
        return
    status, captured = driver.cuStreamIsCapturing(stream)
    # The default stream cannot tell while a stream that it waits for is captured; what it is given would break that.
    if int(captured) or int(status) == int(driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT):
        raise RuntimeError(
            f"{found} on a stream that is captured in a CUDA graph, expected {expected}: a capture cannot wait"
        )
