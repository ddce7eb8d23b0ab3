"""What goes on around a compilation: a word to whoever waits, a lock that other processes see, no garbage collector."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from . import _config

#: Seconds of compiling after which a call says so.
PATIENCE = 2.0
#: Compilations that follow each other this closely are one wait: a call needs a kernel and a driver.
PAUSE = 0.1
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
        if not self.told and not (_config.used and _config.current().quiet):
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


def cache_locators(kinds: Iterable[Any]) -> list[Any]:
    """Return Numba's cache locators with those that write into the package's own folder last.

    pip does not remove what Numba wrote there, and Python takes a folder that is left for an empty package.
    """
    return sorted(kinds, key=lambda kind: "InTree" in kind.__name__)


def lock_path(dispatcher: Any) -> str | None:
    """Return the file that processes lock while they compile, or load, a kernel; one for each, in the cache."""
    files = getattr(dispatcher._cache, "_cache_file", None)  # there is none without a directory
    return None if files is None else f"{files._index_path}.lock"


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
    end = monotonic() + LOCK_PATIENCE
    while not _taken(file) and monotonic() < end:
        sleep(LOCK_POLL)


def _taken(file: int) -> bool:
    """Take the lock of a file, or tell that another process has it."""
    try:
        _try_lock(file)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # there are no locks here: as good as taken
        return True
    return True


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage while the block runs.

    A compiler makes millions of small objects that refer to each other and are needed to its end. To look through them
    again and again took a twelfth of the first gather; without, 246 MB were the most it had instead of 215.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def compiling(dispatcher: Any) -> Iterator[None]:
    """Compile a kernel, or load it, in the block."""
    path = lock_path(dispatcher)
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


def source_stamp(folder: Path) -> tuple[float, int]:
    """Return a stamp over the sources in a folder and below, or over the archive that they are imported from."""
    paths = list(folder.rglob("*.py")) or [parent for parent in folder.parents if parent.is_file()]
    stats = [path.stat() for path in paths]
    return max((s.st_mtime for s in stats), default=0.0), sum(s.st_size for s in stats)


def warn_uncached(what: str, reason: str) -> None:
    """Warn that kernels are compiled in every process, at the user's line: the first one outside of what calls us."""
    names = (__package__, "numba", "numba_cuda", "numba.cuda", "importlib")
    folders = [folder + os.sep for name in names for folder in getattr(sys.modules.get(name), "__path__", ())]
    inside = (*folders, functools.__file__, contextlib.__file__, "<frozen ")
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    warnings.warn_explicit(
        f"numba_dml compiles {what} anew in every process: {reason}. "
        "Set NUMBA_CACHE_DIR to a directory that can be written",
        RuntimeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", "<unknown>"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )
