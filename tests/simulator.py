"""CUDA's simulator, made to wait for the threads of a block; imported where it is used (see conftest)."""

import os
import threading

from numba_dml.cuda import cuda  # numba-cuda, which the package knows how to import

kernel = cuda.simulator.kernel


class WaitingThread(kernel.BlockThread):
    """A thread of a block that tells when it stops, at a barrier or at its end.

    The simulator asks all threads again and again, and takes their interpreter's lock for it: the tests of
    `test_delegates_and_their_rivals` took 91 s, and take 33.
    """

    def __init__(self, *args):
        self.stops = threading.Semaphore(0)
        self.ended = False
        super().__init__(*args)

    def run(self):
        super().run()
        self.ended = True
        self.stops.release()

    @property
    def syncthreads_blocked(self):
        """Whether it waits at a barrier."""
        return self.blocked

    @syncthreads_blocked.setter
    def syncthreads_blocked(self, blocked):
        self.blocked = blocked
        if blocked:
            self.stops.release()

    def is_alive(self):
        """Wait for the next stop, unless it was there before; this may be an earlier one, then it is asked again."""
        if not (self.blocked or self.ended):
            self.stops.acquire()
        return not self.ended


kernel.BlockThread = WaitingThread

# Only one thread of a process runs at a time, and the next one starts sooner where the last one ran (31 s instead of 43
# for `test_which_of_many_nans_comes_out` and its neighbour), so pytest-xdist's processes have a core each.
if hasattr(os, "sched_setaffinity") and "PYTEST_XDIST_WORKER" in os.environ:
    CORES = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {CORES[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % len(CORES)]})
