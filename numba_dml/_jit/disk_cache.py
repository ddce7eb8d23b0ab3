"""Where compiled kernels are kept, and Numba's disk cache, emptied by a change of any source of the package."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.runtime import rtsys


def cache_locators(kinds: Iterable[Any]) -> list[Any]:
    """Return Numba's cache locators with those that write into the package's own folder last.

    pip does not remove what Numba wrote there, and Python takes a folder that is left for an empty package.
    """
    return sorted(kinds, key=lambda kind: "InTree" in kind.__name__)


def source_stamp(folder: Path) -> tuple[float, int]:
    """Return a stamp over the sources in a folder and below, or over the archive that they are imported from."""
    paths = list(folder.rglob("*.py")) or [parent for parent in folder.parents if parent.is_file()]
    stats = [path.stat() for path in paths]
    return max((s.st_mtime for s in stats), default=0.0), sum(s.st_size for s in stats)


def warn_uncached(what: str, reason: str) -> None:
    """Warn that kernels are compiled in every process, at the user's line: the first one outside of what calls us."""
    names = (__package__.partition(".")[0], "numba", "numba_cuda", "numba.cuda", "importlib")
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


@cache
def _source_stamp() -> tuple[float, int, int | None]:
    """Return a stamp over all sources of the package, and over what drivers know of NumPy's objects.

    Numba looks at a driver's own file only, and would miss its helpers.
    """
    from .machine import DATA_AT

    return *source_stamp(Path(__file__).parents[1]), DATA_AT


class CacheFiles(CompileResultCacheImpl):  # type: ignore[misc]
    """Where Numba keeps a function's machine code."""

    _locator_classes = cache_locators(CompileResultCacheImpl._locator_classes)


def directories_of(*folders: str) -> list[Path]:
    """Return where kernels are kept, a directory for each folder of sources; none if no directory can be written."""
    files = [f"{folder}{os.sep}__init__.py" for folder in folders]
    for kind in CacheFiles._locator_classes:
        if kind.from_function(directories_of, files[0]) is not None:
            return [Path(kind(directories_of, file).get_cache_path()) for file in files]
    return []


class _DiskCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache of a function, which a change of any kernel's source empties."""

    _impl_class = CacheFiles

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (*self._cache_file._source_stamp, *_source_stamp())

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what is on disk for a signature, or None.

        Numba would load all that it compiles with first, and SciPy, for what is compiled already: a first call took
        0.46 to 0.58 s beside the import of Numba, and takes 0.14 to 0.2.
        """
        rtsys.initialize(target_context)  # the functions that allocate
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target_context)
        if found is None:
            # The compiler does it, too, but in the middle of a list: interrupted, it would never load the list's rest.
            target_context.refresh()
        return found


def lock_path(dispatcher: Any) -> str | None:
    """Return the file that processes lock while they compile, or load, a kernel; one for each, in the cache."""
    files = getattr(dispatcher._cache, "_cache_file", None)  # there is none without a directory
    return None if files is None else f"{files._index_path}.lock"


def _with_disk_cache(dispatcher: Any) -> Any:
    try:
        dispatcher._cache = _DiskCache(dispatcher.py_func)
    except (RuntimeError, OSError):  # neither the package's folder nor a user cache can be written
        dispatcher._cache = NullCache()
    return dispatcher
