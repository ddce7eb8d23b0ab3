"""How functions are jitted: helpers, kernels and drivers, with all their options.

Kernels are compiled once per width and kind of the elements; *drivers* run all of them (see `cpu.drivers`). Variants
of a driver have names of their own: Numba's disk cache does not tell apart one body that is jitted twice, with the
interpreter's lock and without, and would load the wrong variant in the next process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

import numba
from numba import types
from numba.core.caching import NullCache
from numba.core.compiler import Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.targetconfig import ConfigStack

from . import compat
from .disk_cache import _with_disk_cache, lock_path, warn_uncached
from .emission import overload
from .waiting import compiling

# No signature is given and nothing compiles until a call needs it. Divisions by zero need no check: there are none.
# C calls none of it.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}
# What is never called from Python needs no wrapper for that either.
_INNER_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "nogil": True, **_OPTIONS}
#: How helpers are compiled: in half the time on a Numba that was tested.
_HELPER_OPTIONS: dict[str, Any] = {**_INNER_OPTIONS}
if _helper_compiler := compat.helper_compiler():
    _HELPER_OPTIONS["pipeline_class"] = _helper_compiler

PLAN = types.Array(types.int64, 1, "C", readonly=False)  #: what a kernel reads its numbers from


def helper(function: Callable[..., Any]) -> Any:
    """Jit a function that kernels call; it is compiled into them.

    It counts no references, so it can neither allocate an array nor call what returns a new one: see `allocating`.

    Numba compiles it anew for every literal that a kernel or driver gives it, and for a number that starts as one: a
    count that goes to a helper starts as ``np.int64(0)`` there. Other helpers give it none (see `helper_compiler`).
    """
    return numba.njit(_nrt=False, **_HELPER_OPTIONS)(_named(function))


def allocating(function: Callable[..., Any]) -> Any:
    """Jit a helper that allocates what other ones work with, and hands it to them or returns it.

    Numba counts the references to every array that such a function names, slices or is given, by two atomic steps of 5
    ns each. So it has no loop in which it does: with them, these steps took 46 % of a top-k of 20 of 32 elements,
    58 % of a scatter to lines of 20, 17 % of a gather from lines of 4096.

    An address keeps no array alive: who takes that of new memory is a function that was given the array.
    """
    # Said again, or it would be what it is in the function that is being compiled.
    return numba.njit(_nrt=True, **_HELPER_OPTIONS)(_named(function))


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Name a function inside another one by the helpers that it is made for.

    Machine code is linked by names. Of two kernels that were compiled in processes of their own, one would call the
    other's helper, if these were made by one function and take the same types.
    """
    function.__qualname__ += _made_for(function)
    return function


def _made_for(function: Any) -> str:
    """Return the names of what a function inside another one is made for, and what these are made for in turn."""
    parts = []
    for cell in getattr(function, "__closure__", None) or ():
        value = cell.cell_contents
        inner = getattr(value, "_defn", getattr(value, "py_func", value))  # of an intrinsic, or of a helper
        parts.append(getattr(inner, "__name__", repr(value)) + _made_for(inner))
    return f"({','.join(parts)})" if parts else ""


def chosen(choose: Callable[..., Any], allocates: bool = False, helps: bool = True) -> Callable[..., Any]:
    """Return a function for jitted code: what is compiled for a call of it, `choose` returns for the arguments' types.

    Helpers call it, unless it is for users' functions alone.
    """

    @wraps(choose)
    def function(*args: Any) -> Any:
        raise NotImplementedError

    options: Any = {"_nrt": allocates, **_HELPER_OPTIONS} if helps else {}
    overload(function, jit_options=options)(choose)
    return function


def shared(function: Callable[..., Any]) -> None:
    """Let helpers call a plain function that Python calls as well: they compile it as one of theirs."""
    options: Any = {"_nrt": False, **_HELPER_OPTIONS}
    overload(function, jit_options=options, strict=False)(lambda *args: function)


def called(function: Callable[..., Any], **options: Any) -> Any:
    """Jit a function that only users' jitted code calls; it has an environment, which a helper of kernels lacks."""
    return numba.njit(**_INNER_OPTIONS, **options)(function)


def kernel(function: Callable[..., Any]) -> Any:
    """Jit what is called by its address: kernels, by the drivers, and what these call in turn."""
    return _with_disk_cache(numba.njit(**_INNER_OPTIONS)(function))


def unlocking(function: Callable[..., Any]) -> Any:
    """Jit a function that Python calls, and that gives the interpreter's lock away while it runs."""
    # Said, or a helper without references that is compiled first would compile a driver that Python cannot call.
    return _with_disk_cache(numba.njit(_nrt=True, nogil=True, **_OPTIONS)(function))


def locking(function: Callable[..., Any]) -> Any:
    """Jit a function that keeps the interpreter's lock: it deals with Python's objects, or is done at once."""
    return _with_disk_cache(numba.njit(_nrt=True, **_OPTIONS)(function))


#: What Numba takes for options that are not given: else those of a user's function that is being compiled, and
#: `fastmath` would get into kernels, and into the disk cache.
_FLAGS = Flags()
_FLAGS.nrt = True

_compile_lock = threading.RLock()


def pause_compiling() -> None:
    """Wait until no other thread compiles, by Numba or for us, and let none begin."""
    global_compiler_lock.acquire()  # in the order of `compiled`
    _compile_lock.acquire()


def resume_compiling() -> None:
    """Let threads compile again."""
    _compile_lock.release()
    global_compiler_lock.release()


_warned = False


def _warn_once(reason: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warn_uncached("its kernels", reason)


def compiled(dispatcher: Any, signature: tuple[Any, ...]) -> Callable[..., int]:
    """Return the entry point of a jitted function for a signature, from memory, from disk or newly compiled.

    A disk cache that cannot be read or written, or that holds the wrong kernel, costs time, never a result.
    """
    # Numba's lock first: a jitted function that calls one of ours is compiled with that lock, and gets here.
    with global_compiler_lock, _compile_lock:
        entry = dispatcher.overloads.get(signature)
        if entry is not None:
            return entry.entry_point  # type: ignore[no-any-return]
        with compiling(lock_path(dispatcher)), ConfigStack().enter(_FLAGS):
            entry_point = _compiled(dispatcher, signature)
        _set_environments(dispatcher.overloads[signature])
        return entry_point


def _set_environments(found: Any) -> None:
    """Let the helpers in a function know their environments, by which they raise errors with text.

    Numba does it for what it loads from disk, and for functions that are translated by themselves, as helpers are not.
    """
    for environment in found._find_referenced_environments():
        found.library.codegen.set_env(environment.env_name, environment)


def _tried(dispatcher: Any, signature: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """Return the entry point for a signature, or what went wrong with the disk cache."""
    try:
        return dispatcher.compile(signature), None
    except NumbaError:
        raise
    except Exception as error:  # a full disk, a lost permission, a file cut short: whatever pickle and the OS say
        return None, error


def _compiled(dispatcher: Any, signature: tuple[Any, ...]) -> Callable[..., int]:
    if isinstance(dispatcher._cache, NullCache):
        _warn_once("there is no directory for its disk cache")
        dispatcher.targetctx.refresh()  # as `_DiskCache` does
        return dispatcher.compile(signature)  # type: ignore[no-any-return]
    entry, error = _tried(dispatcher, signature)
    if error is not None and signature not in dispatcher.overloads:  # a file that cannot be read
        with suppress(OSError):
            dispatcher._cache.flush()  # an empty index in its place: what is compiled next is kept
        entry, error = _tried(dispatcher, signature)
    if error is not None:
        dispatcher._cache = NullCache()
        _warn_once(f"its disk cache fails ({type(error).__name__}: {error})")
        return dispatcher.compile(signature)  # type: ignore[no-any-return]
    if signature not in dispatcher.overloads:
        # Numba numbers the files of a cache; two processes that start at once can give one number to two kernels,
        # where there are no locks. What was loaded has another signature: compile, and overwrite the file.
        cache, dispatcher._cache = dispatcher._cache, NullCache()
        entry = dispatcher.compile(signature)
        dispatcher._cache = cache
        try:
            cache.save_overload(signature, dispatcher.overloads[signature])
        except OSError as error:
            _warn_once(f"its disk cache fails ({type(error).__name__}: {error})")
    return entry  # type: ignore[no-any-return]


def code_address(function: Any, signature: tuple[Any, ...]) -> int:
    """Return the address of the code for a signature, by which other code calls it; see `drivers.emit_call`."""
    compiled(function, signature)
    code = function.overloads[signature]
    address: int = code.library.get_pointer_to_function(code.fndesc.llvm_func_name)
    return address
