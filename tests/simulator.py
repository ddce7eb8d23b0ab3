"""CUDA's simulator, made to wait for the threads of a block."""

import os
import threading


def wait_for_threads():
    """Let the simulator wait for threads until they stop, and each process of pytest-xdist keep to a core.

    It asks them again and again, and takes their interpreter's lock for it: the tests of
    `test_delegates_and_their_rivals` took 91 s, and take 33. Only one thread of a process runs at a time, and the next
    one starts sooner where the last one ran: `test_which_of_many_nans_comes_out` and its neighbour took 43 s, then 31.
    """
    from numba_dml.cuda.driver.numba import cuda  # numba-cuda, which the package knows how to import

    kernel = cuda.simulator.kernel

    class WaitingThread(kernel.BlockThread):
        """A thread of a block that tells when it stops, at a barrier or at its end."""

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
            """Wait for the next stop, unless it was there before; an earlier one makes it ask again."""
            if not (self.blocked or self.ended):
                self.stops.acquire()
            return not self.ended

    kernel.BlockThread = WaitingThread
    if hasattr(os, "sched_setaffinity") and "PYTEST_XDIST_WORKER" in os.environ:
        cores = sorted(os.sched_getaffinity(0))
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
