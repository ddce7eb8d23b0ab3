"""What goes on around a compilation: a notice to the user, a lock between processes, no garbage collector."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from .._core import config

PATIENCE = 2.0  #: seconds of compiling after which a call says so
PAUSE = 0.1  #: compilations that follow each other this closely are one wait: a call needs a kernel and a driver
#: Seconds to wait for a process that compiles the same kernel. It may hang, or its machine be gone: then both compile.
LOCK_PATIENCE = 60.0
LOCK_POLL = 0.02

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class _Notice:
    """Says that a call compiles, once for all that it waits for."""

    def __init__(self) -> None:
        self.told = False
        self.running = 0  #: blocks, of which one may compile what another one needs
        self.since = self.until = float("-inf")

    @contextmanager
    def __call__(self, kept: bool = True) -> Iterator[None]:
        """Say so if the block, and what was compiled right before it, takes long; `kept`: there is a disk cache."""
        now = monotonic()
        if not self.running and now - self.until > PAUSE:
            self.since, self.told = now, False
        self.running += 1
        timer = None
        if not self.told and not (config.used and config.current().quiet):
            timer = threading.Timer(max(self.since + PATIENCE - now, 0), self.tell, (kept,))
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()
            self.running -= 1
            self.until = monotonic()

    def tell(self, kept: bool) -> None:
        if self.told:
            return
        self.told = True
        place = "they are kept on disk" if kept else "for this process only, as no directory for them can be written"
        with suppress(OSError, ValueError, AttributeError):  # no stream, or a closed one
            sys.stderr.write(
                f"numba_dml: compiling kernels for a first call of its kind; {place} (NUMBA_DML_QUIET=1 hides this)\n"
            )
            sys.stderr.flush()


notice = _Notice()


@contextmanager
def locked(path: str | None) -> Iterator[None]:
    """Hold a lock file while the block runs: of two processes that want the same kernel, one compiles, and one loads.

    Where the file cannot be made or locked (a read-only directory, a file system without locks), the block runs anyway:
    a lock saves time, no result depends on it.
    """
    file = None
    if path is not None:
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if file is not None:
            _wait(file)
        yield
    finally:
        if file is not None:
            os.close(file)  # which unlocks it


def _wait(file: int) -> None:
    """Take the lock of a file, unless another process has it for too long."""
    end = monotonic() + LOCK_PATIENCE
    with suppress(OSError):  # where there are no locks
        while monotonic() < end:
            with suppress(BlockingIOError, PermissionError):  # another process has it
                _try_lock(file)
                return
            sleep(LOCK_POLL)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage while the block runs.

    A compiler makes millions of small objects that refer to each other and are needed to its end. To look through them
    again and again took a twelfth of the first gather; without, 246 MB were the most it had instead of 215.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def compiling(path: str | None) -> Iterator[None]:
    """Compile a kernel, or load it, in the block. `path`: the file of its lock; None: no kernel is kept on disk."""
    with notice(path is not None), locked(path), _uncollected():
        yield


def require_jit() -> None:
    """Refuse a Numba that compiles nothing."""
    import numba

    if numba.config.DISABLE_JIT:
        raise RuntimeError(
            f"numba_dml: found NUMBA_DISABLE_JIT={numba.config.DISABLE_JIT}, expected 0: Numba compiles the kernels, "
            "and there are no others; unset it before Python starts"
        )
