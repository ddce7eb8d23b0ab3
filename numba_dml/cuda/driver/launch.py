"""Launches with packed arguments, and the recorder that notes them."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from .compile import _compile_lock, cubin_of, load_kernel
from .context import _checked, _function, can_come_early, capability_of, check, on_device, shared_memory_of
from .machine import on_gpu
from .numba import BLOCK, SIMULATED, driver, types

_launch_kernel = _function("cuLaunchKernelEx", 4)


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
    """What a thread has the driver do, while somebody wants to know: see `repeat`."""

    #: Launches, memory from a library's pool, and None for anything else.
    steps: list[Any] | None = None
    #: An address and a number that each call has anew: of the record for bad indices, and of the launch.
    #: Or of the host's memory for a count, and 0.
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


@on_gpu
def run(kernel: Kernel, device: int, stream: int, blocks: int, *args: int, threads: int = 0, shared: int = 0) -> None:
    """Launch blocks of a kernel on a stream of the current device.

    `threads` of a block replaces the kernel's own number; `shared` is the bytes of dynamic shared memory.
    """
    if blocks == 0:
        return
    if recorder.steps is not None:
        kernel.note(blocks, threads, shared, args)
    try:
        launch = kernel.free.pop()
    except IndexError:
        launch = _Launch(kernel.count, kernel.plan_at, kernel.plan_size)
    plan = args[kernel.plan_at] if kernel.plan_size else 0
    key = device, stream, blocks, threads, shared, plan
    if key != launch.key:
        size = threads or kernel.threads
        launch.set(key, kernel.handle(device), (blocks, 1, 1, size, 1, 1, shared, stream), plan)
    launch.words[:] = args
    status = _launch_kernel(launch.config, launch.handle, launch.pointers, None)
    kernel.free.append(launch)
    if status:
        check(status)


class Kernel:
    """A kernel, as it is launched: a function of `count` arguments, which are int64.

    It is compiled when it is first launched. Its first step must be `ptx.await_inputs`: it is launched before what it
    reads is there.

    `plan`: which one of them is a plan, and how many of its numbers the kernel is given, 0: its address in device
    memory. `waits`: its threads wait for each other. `shares`: its launches say how much shared memory a block has.
    `threads`: how many a block has. `registers`: how many a thread may have, if that is limited.

    Numbers that are arguments are there when a block starts, and take no registers: gathers of some kilobytes take 3.6
    µs, and 3.74 if the numbers are in memory.
    """

    def __init__(
        self,
        function: Callable[..., None],
        count: int,
        *,
        plan: tuple[int, int] = (0, 0),
        waits: bool = False,
        shares: bool = False,
        threads: int = BLOCK,
        registers: int | None = None,
    ) -> None:
        self.function = function
        self.count = count
        self.plan_at, self.plan_size = (0, 0) if SIMULATED else plan  # the simulator's kernels read plans from memory
        self.waits = waits
        self.shares = shares
        self.threads = threads
        self.registers = registers
        self.loaded: dict[tuple[int, int], Any] = {}
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
        capability = capability_of(device)
        with _compile_lock, on_device(device):
            if capability not in self.loaded:
                code = cubin_of(self.function, tuple(signature), self.registers, capability)
                self.loaded[capability] = load_kernel(code)
            handle = _checked(driver.cuKernelGetFunction(self.loaded[capability]))
            if self.shares:
                _allow_shared_memory(handle, device)
        self.handles[device] = int(handle)
        return int(handle)

    def note(self, blocks: int, threads: int, shared: int, args: tuple[int, ...]) -> None:
        """Record a launch, if launches are recorded."""
        recorder.note(Step(self, blocks, threads or self.threads, shared, args))

    __call__ = run
