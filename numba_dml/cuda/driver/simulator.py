"""How numba-cuda's simulator runs a kernel: threads that wait for each other together, all others in turn."""

from __future__ import annotations

import sys
import threading
from typing import Any

from .numba import BLOCK, LANES, SIMULATED

#: In the simulator: where the lanes of each warp wait for each other.
WARP_BARRIERS = [threading.Barrier(LANES) for _ in range(BLOCK // LANES)] if SIMULATED else []


_simulator_lock = threading.Lock()


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
