"""How a kernel is launched: by the driver that its work is worth."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import numba
from numba import threading_layer, types

from .._jit.compile import PLAN, code_address, compiled
from .threads import _start_threads, _threads, most_threads, thread_count

#: Below this many bytes of work the serial driver is faster: waking a second thread costs 2-5 µs on an idle machine and
#: milliseconds on a busy one. A gather of 72 KB took 6.4 µs on one thread and 7.9 on two, a scatter 28 and 38.
PARALLEL_WORK = 128 * 1024

#: Bytes below which a call keeps the interpreter's lock. Beside a thread that runs Python, taking it back can
#: cost 5 ms, and the slowest such call takes 0.3 ms.
LOCKED_WORK = 32 * 1024


def takes_one(effort: int) -> bool:
    """Tell whether a call is best left to one thread by the bytes that it touches, or that is all there is."""
    return effort < PARALLEL_WORK or bool(numba.config.NUMBA_NUM_THREADS == 1)


#: Calls that are built now compile at their first launch: whoever builds them wants to know what they would do.
later: ContextVar[bool] = ContextVar("numba_dml.cpu.later", default=False)


def launcher(
    kernel: Any,
    arrays: tuple[Any, ...],
    effort: int,
    alone: bool = False,
    apart: int = 1,
    prepare: Callable[[], None] = lambda: None,
) -> tuple[Callable[..., int], str]:
    """Return how to launch a kernel on four arrays and a plan, and whether that is serial or parallel.

    `arrays` are the types that the kernel sees the arrays as, `effort` the bytes it touches, as far as they count;
    `alone`: one thread is the fastest, however many they are; `apart`: a factor for the bytes read. `prepare` is
    called when the kernel is compiled, before its first launch.
    """
    alone = alone or takes_one(effort)
    name = "serial" if alone else "parallel"
    driver = "locked" if effort * apart < LOCKED_WORK else name
    launch = cache(partial(_launch, kernel, arrays, driver, prepare))
    if later.get():
        return lambda *args: launch()(*args), name
    return launch(), name


def _launch(kernel: Any, arrays: tuple[Any, ...], driver: str, prepare: Callable[[], None]) -> Callable[..., int]:
    prepare()
    return _code(kernel, arrays, driver)


@cache
def _code(kernel: Any, arrays: tuple[Any, ...], driver: str) -> Callable[..., int]:
    """Return what launches a kernel on arrays of these types: all calls share it."""
    from .drivers import SIGNATURE, run_locked, run_parallel, run_serial

    if driver == "parallel":
        _start_threads()  # what is loaded from the disk cache finds no name of their layer before
    address = code_address(kernel, (types.int64, types.int64, types.int64, *arrays, PLAN))
    if driver != "parallel":
        return partial(compiled(run_locked if driver == "locked" else run_serial, SIGNATURE), address)
    entry = compiled(run_parallel, (*SIGNATURE, types.int64))

    def launch(*args: Any) -> int:
        if _threads.concurrent or thread_count() == 1:
            return entry(address, *args, most_threads())
        # The layer `workqueue` aborts the process on concurrent launches: one at a time, unless it is another layer.
        with _threads.lock:
            status = entry(address, *args, most_threads())
            _threads.concurrent = threading_layer() != "workqueue"
            return status

    return launch
