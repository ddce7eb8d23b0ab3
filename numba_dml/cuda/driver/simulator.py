"""numba-cuda's simulator: what it does in place of functions that need a GPU, by their names; see `machine.on_gpu`."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel as simulated
from numba.cuda.simulator.kernelapi import Dim3, FakeCUDAModule, FakeCUDAShared, swapped_cuda_module
from numpy import ndarray

from .numba import BLOCK, LANES, cuda

#: Where the lanes of each warp wait for each other, and what each has come with.
WARP_BARRIERS = [threading.Barrier(LANES) for _ in range(BLOCK // LANES)]
_met = [[0] * LANES for _ in WARP_BARRIERS]
#: numba-cuda's simulator runs one kernel at a time; and a block's threads ask for arrays at once.
_running, _allocating = threading.Lock(), threading.Lock()


class _Shared(FakeCUDAShared):  # type: ignore[misc]
    """The arrays of a block: numba-cuda's own makes two of one for threads that come at once."""

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> ndarray[Any, Any]:
        if shape == 0:  # dynamic shared memory, which is there
            return super().array(shape, dtype, alignment)  # type: ignore[no-any-return]
        frame = sys._getframe(1)
        place = frame.f_code, frame.f_lineno
        with _allocating:
            if place not in self._allocations:
                self._allocations[place] = np.empty(shape, dtype)
            return self._allocations[place]  # type: ignore[no-any-return]


def run(kernel: Any, device: int, stream: int, blocks: int, *args: int, threads: int = 0, shared: int = 0) -> None:
    """Simulate a launch."""
    if blocks == 0:
        return
    kernel.note(blocks, threads, shared, args)
    function, module = kernel.function, FakeCUDAModule((blocks, 1, 1), (BLOCK, 1, 1), shared)
    module._shared = _Shared(shared)
    with _running, simulated._push_kernel_context(module), swapped_cuda_module(function, module):
        (_run_together if kernel.waits else _run_in_turn)(function, blocks, args)


def _run_together(function: Any, blocks: int, args: tuple[int, ...]) -> None:
    """Simulate threads that wait for each other.

    Who looks after them asks all the time whether all wait, and Python lets it do so for 5 ms before it is a thread's
    turn: with 0.1 ms kernels take a sixth of the time.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for block in range(blocks):
            simulated.BlockManager(function, (blocks, 1, 1), (BLOCK, 1, 1), False).run((block, 0, 0), *args)
    except BaseException:  # other lanes may still wait for the one that failed
        for barrier in WARP_BARRIERS:
            barrier.abort()
            barrier.reset()
        raise
    finally:
        sys.setswitchinterval(interval)


def _run_in_turn(function: Any, blocks: int, args: tuple[int, ...]) -> None:
    """Simulate threads that do not wait for each other, one after the other: to start one would take 70 µs."""
    place: Any = threading.current_thread()
    for block in range(blocks):
        place.blockIdx = Dim3(block, 0, 0)
        for thread in range(BLOCK):
            place.threadIdx = Dim3(thread, 0, 0)
            function(*args)


def meet(value: int) -> tuple[int, list[int]]:
    """Return this thread's number in its warp, and what every lane of it has come with."""
    thread: Any = threading.current_thread()
    warp, lane = divmod(thread.threadIdx.x, LANES)
    _met[warp][lane] = value
    WARP_BARRIERS[warp].wait()
    values = list(_met[warp])
    WARP_BARRIERS[warp].wait()
    return lane, values


def sync_lanes() -> None:
    """Let the lanes of this thread's warp wait for each other."""
    thread: Any = threading.current_thread()
    WARP_BARRIERS[thread.threadIdx.x // LANES].wait()


def helper(function: Callable[..., Any]) -> Any:
    return cuda.jit(device=True)(function) if "cuda" in function.__code__.co_names else function


def ptx(asm: str, results: int, arguments: int, twin: Callable[..., Any], **kinds: Any) -> Callable[..., Any]:
    return lambda *numbers: twin(*map(int, numbers))  # a kernel's may be NumPy's, which overflow


def number_reader(load: Callable[[int], int]) -> Callable[[int, int], int]:
    return lambda plan, field: load(plan + 8 * field)


def address_reader() -> Callable[[Any], int]:
    return lambda array: array.ctypes.data


def shared_type(name: str) -> np.dtype[Any]:
    return np.dtype(name)


def copy_bytes(to: int, fro: int, count: int, stream: int) -> None:
    ctypes.memmove(to, fro, count)


def copy_rows(to: tuple[int, int], fro: tuple[int, int], width: int, rows: int, stream: int) -> None:
    for row in range(rows):
        ctypes.memmove(to[0] + row * to[1], fro[0] + row * fro[1], width)


def set_bytes(to: int, value: int, count: int, stream: int) -> None:
    ctypes.memset(to, value, count)


def allocate(memory: Any, contents: ndarray[Any, Any]) -> int:
    memory.host = contents.copy()
    return memory.host.ctypes.data  # type: ignore[no-any-return]


def allocate_words(memory: Any, contents: ndarray[Any, Any]) -> ndarray[Any, Any]:
    words = contents.copy()
    memory.address = words.ctypes.data
    return words


def new_bytes(size: int, device: int) -> tuple[Any, int]:
    memory = cuda.device_array(max(size, 1), np.uint8)
    return memory, memory.ctypes.data
