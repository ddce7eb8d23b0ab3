"""Numba's threads: when they start, how long they wait for work, how many a call uses."""

from __future__ import annotations

import os
import threading
from functools import cache
from time import perf_counter

import numba
from numba import threading_layer, types

from .._core import config
from .._jit.compile import compiled, pause_compiling, resume_compiling

#: How long threads of GNU OpenMP ask for work before they sleep, in seconds, if nobody has said: enough to meet the
#: next of calls that follow each other, and about what it takes to wake a thread on a virtual machine. It would be
#: 300,000 questions, 3 to 14 ms, in which they take a core from whoever wants it. Two cores of a virtual machine, top_k
#: of 1M and of 10M f4, in ms, for 0.03, 0.1, 0.3 and 10 ms: 0.24, 0.12, 0.10, 0.11 and 1.4, 1.1, 1.1, 1.0; beside a
#: busy process 0.24, 0.32, 0.52, 8 and 1.8, 1.9, 2.6, 8. Where a question takes 10 ns, and not 33 as there, a gather of
#: 3 MB that comes 20 µs after the one before takes 0.13 ms with 10,000 questions, and 0.24 with 3000.
SPINNING = 1e-4


class _Threads:
    """What is known about Numba's threading layer in this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may call the package while the thread has it
        #: The layer takes launches from several threads at once. Unknown (False) until the first launch.
        self.concurrent = False
        #: A parallel region would abort: this is a forked child, and the parent had started GNU OpenMP.
        self.broken = False

    def after_fork(self) -> None:
        resume_compiling()
        self.lock = threading.RLock()
        try:
            self.broken = threading_layer() == "omp"
        except ValueError:  # no layer was started
            self.broken = False


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    # A fork waits for a compilation in another thread: the child would wait for its locks for ever.
    os.register_at_fork(before=pause_compiling, after_in_parent=resume_compiling, after_in_child=_threads.after_fork)


@cache
def _spins() -> int:
    """Return how often a thread asks for work in `SPINNING` seconds: 3000 to 10,000 times, as processors go."""
    from .drivers import spin

    entry, count = compiled(spin, (types.int64,)), 2000
    times = []
    for _ in range(4):  # the first one warms up; whoever is interrupted takes longer
        begin = perf_counter()
        entry(count)
        times.append(perf_counter() - begin)
    return max(int(count * SPINNING / min(times)), 1)


def _start_threads() -> None:
    """Start Numba's threads, unless they run; GNU OpenMP reads the environment when it is loaded, and only then."""
    spins = str(_spins())  # before the lock, since it may wait for a compilation
    with _threads.lock:  # or one thread would take for the user's what another one has set
        told = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
        if not told:
            os.environ["GOMP_SPINCOUNT"] = spins
        try:
            numba.get_num_threads()
        finally:
            if not told:
                del os.environ["GOMP_SPINCOUNT"]


def most_threads() -> int:
    """Return the most threads that a launch may use, or 0 if it may use all that Numba would."""
    if _threads.broken:
        return 1
    return min(config.current().threads or 0, numba.config.NUMBA_NUM_THREADS) if config.used else 0


def thread_count() -> int:
    """Return how many threads a launch would use now."""
    count: int = numba.get_num_threads()
    return min(count, most_threads() or count)
