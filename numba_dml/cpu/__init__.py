"""The CPU room: how kernels are compiled, cached, chosen and launched.

Kernels are compiled once per width and kind of the elements; *drivers* run all of them, on one thread or on several
(see `_drivers`). These have different names because Numba's disk cache does not tell one body that is jitted twice,
with the interpreter's lock and without: it would load the wrong variant in the next process. All jit options live here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numba
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
from numba.core.compiler import Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.extending import overload
from numba.core.runtime import rtsys
from numba.core.targetconfig import ConfigStack
from numba.np.ufunc.parallel import threading_layer

from .. import _config, _jit
from .._compiling import cache_locators, compiling, require_jit, source_stamp, warn_uncached
from ._compiler import HelperCompiler

require_jit()
_jit.register()

# No signature is given and nothing compiles until a call needs it. Divisions by zero need no check: there are none.
# C calls none of it.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "boundscheck": False, "no_cfunc_wrapper": True}
# What is never called from Python needs no wrapper for that either.
_INNER_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "nogil": True, **_OPTIONS}

#: Below this many bytes of work the serial driver is faster: waking a second thread costs 2-5 µs on an idle machine and
#: milliseconds on a busy one. A gather of 72 KB took 6.4 µs on one thread and 7.9 on two, a scatter 28 and 38.
PARALLEL_WORK = 128 * 1024

#: Below so many the interpreter's lock is kept. Whoever gives it away beside a thread that runs Python waits for a turn
#: of his own, up to 5 ms, whenever that thread takes it: 8 elements were gathered 300 to 2000 times a second there, and
#: are 100,000 times (np.take 3000 to 7000). The slowest such call, which sorts 32,767 bytes, takes 0.3 ms, if they are
#: in memory; others wait while pages of a file are read.
LOCKED_WORK = 32 * 1024

#: How long threads of GNU OpenMP ask for work before they sleep, in seconds, if nobody has said: enough to meet the
#: next of calls that follow each other, and about what it takes to wake a thread on a virtual machine. It would be
#: 300,000 questions, 3 to 14 ms, in which they take a core from whoever wants it. Two cores of a virtual machine, top_k
#: of 1M and of 10M f4, in ms, for 0.03, 0.1, 0.3 and 10 ms: 0.24, 0.12, 0.10, 0.11 and 1.4, 1.1, 1.1, 1.0; beside a
#: busy process 0.24, 0.32, 0.52, 8 and 1.8, 1.9, 2.6, 8. Where a question takes 10 ns, and not 33 as there, a gather of
#: 3 MB that comes 20 µs after the one before takes 0.13 ms with 10,000 questions, and 0.24 with 3000.
SPINNING = 1e-4

#: What a kernel reads its numbers from.
PLAN = types.Array(types.int64, 1, "C", readonly=False)


def helper(function: Callable[..., Any]) -> Any:
    """Jit a function that kernels call; it is compiled into them.

    It counts no references, so it can neither allocate an array nor call what returns a new one: see `allocating`.

    Numba compiles it anew for every literal that a kernel or driver gives it, and for a number that starts as one: a
    count that goes to a helper starts as ``np.int64(0)`` there. Other helpers give it none (see `_compiler`).
    """
    return numba.njit(pipeline_class=HelperCompiler, _nrt=False, **_INNER_OPTIONS)(_named(function))


def allocating(function: Callable[..., Any]) -> Any:
    """Jit a helper that allocates what other ones work with, and hands it to them or returns it.

    Numba counts the references to every array that such a function names, slices or is given, by two atomic steps of 5
    ns each. So it has no loop in which it does: with them, these steps took 46 % of a top-k of 20 of 32 elements,
    58 % of a scatter to lines of 20, 17 % of a gather from lines of 4096.

    An address keeps no array alive: who takes that of new memory is a function that was given the array.
    """
    # Said again, or it would be what it is in the function that is being compiled.
    return numba.njit(pipeline_class=HelperCompiler, _nrt=True, **_INNER_OPTIONS)(_named(function))


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


def chosen(function: Callable[..., Any], allocates: bool = False) -> Any:
    """Decorate what returns the helper that is compiled for calls of a function, by the types of its arguments."""
    options: Any = {"pipeline_class": HelperCompiler, "_nrt": allocates, **_INNER_OPTIONS}
    return overload(function, jit_options=options)


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


@cache
def _source_stamp() -> tuple[float, int, int | None]:
    """Return a stamp over all kernel sources: Numba looks at a driver's own file only, and would miss its helpers.

    And over what drivers know of NumPy's objects.
    """
    from ._memory import DATA_AT  # it needs the decorators below

    return *source_stamp(Path(__file__).parent), DATA_AT


class _CacheFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = cache_locators(CompileResultCacheImpl._locator_classes)


class _DiskCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache of a function, which a change of any kernel's source empties."""

    _impl_class = _CacheFiles

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (*self._cache_file._source_stamp, *_source_stamp())

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what is on disk for a signature, or None.

        Numba would load all that it compiles with first, and SciPy, for what is compiled already: a first call took
        0.46 to 0.58 s beside the import of Numba, and takes 0.14 to 0.2.
        """
        rtsys.initialize(target_context)  # the functions that allocate; the compiler does the rest, if it is needed
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target_context)


def _with_disk_cache(dispatcher: Any) -> Any:
    try:
        dispatcher._cache = _DiskCache(dispatcher.py_func)
    except (RuntimeError, OSError):  # neither the package's folder nor a user cache can be written
        dispatcher._cache = NullCache()
    return dispatcher


#: What Numba takes for options that are not given: else those of a user's function that is being compiled, and
#: `fastmath` would get into kernels, and into the disk cache.
_FLAGS = Flags()
_FLAGS.nrt = True

_compile_lock = threading.RLock()
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
        with compiling(dispatcher), ConfigStack().enter(_FLAGS):
            entry_point = _compiled(dispatcher, signature)
        _set_environments(dispatcher.overloads[signature])
        return entry_point


def _set_environments(found: Any) -> None:
    """Let the helpers in a function know their environments, by which they raise errors with text.

    Numba does it for what it loads from disk, and for functions that are translated by themselves, as helpers are not.
    """
    for environment in found._find_referenced_environments():
        found.library.codegen.set_env(environment.env_name, environment)


def _compiled(dispatcher: Any, signature: tuple[Any, ...]) -> Callable[..., int]:
    if isinstance(dispatcher._cache, NullCache):
        _warn_once("there is no directory for its disk cache")
        return dispatcher.compile(signature)  # type: ignore[no-any-return]
    try:
        entry = dispatcher.compile(signature)
    except NumbaError:
        raise
    except Exception as error:  # a full disk, a lost permission, a file cut short: whatever pickle and the OS say
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
    """Return the address of the code for a signature, by which other code calls it; see `_drivers.emit_call`."""
    compiled(function, signature)
    code = function.overloads[signature]
    address: int = code.library.get_pointer_to_function(code.fndesc.llvm_func_name)
    return address


class _Threads:
    """What is known about Numba's threading layer in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: The layer takes launches from several threads at once. Unknown (False) until the first launch.
        self.concurrent = False
        #: A parallel region would abort: this is a forked child, and the parent had started GNU OpenMP.
        self.broken = False

    def after_fork(self) -> None:
        _compile_lock.release()
        self.lock = threading.Lock()
        try:
            self.broken = threading_layer() == "omp"
        except ValueError:  # no layer was started
            self.broken = False


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    # A fork waits for a compilation in another thread: the child would wait for its locks for ever.
    os.register_at_fork(
        before=_compile_lock.acquire, after_in_parent=_compile_lock.release, after_in_child=_threads.after_fork
    )


@cache
def _spins() -> int:
    """Return how often a thread asks for work in `SPINNING` seconds: 3000 to 10,000 times, as processors go."""
    from ._drivers import spin

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
    return min(_config.current().threads or 0, numba.config.NUMBA_NUM_THREADS) if _config.used else 0


def thread_count() -> int:
    """Return how many threads a launch would use now."""
    count: int = numba.get_num_threads()
    return min(count, most_threads() or count)


def takes_one(effort: int) -> bool:
    """Tell whether a call that touches so many bytes is best left to one thread, or that is all there is."""
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
    `alone`: one thread is the fastest, however many they are; `apart`: so many times as many are read. `prepare` is
    called when the kernel is compiled, before its first launch.
    """
    alone = alone or takes_one(effort)
    name = "serial" if alone else "parallel"
    driver = "locked" if effort * apart < LOCKED_WORK else name
    if later.get():
        return _Later(kernel, arrays, driver, prepare), name
    return _launch(kernel, arrays, driver, prepare), name


class _Later:
    """A launch that compiles when it is called."""

    def __init__(self, *what: Any) -> None:
        self.what = what

    def __call__(self, *args: Any) -> int:
        return self.launch(*args)

    @cached_property
    def launch(self) -> Callable[..., int]:
        return _launch(*self.what)


def _launch(kernel: Any, arrays: tuple[Any, ...], driver: str, prepare: Callable[[], None]) -> Callable[..., int]:
    prepare()
    return _code(kernel, arrays, driver)


@cache
def _code(kernel: Any, arrays: tuple[Any, ...], driver: str) -> Callable[..., int]:
    """Return what launches a kernel on arrays of these types: all calls share it."""
    from ._drivers import SIGNATURE, run_locked, run_parallel, run_serial  # they need the decorators above

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


@cache
def _builder() -> Callable[..., Any]:
    from ._calls import build  # the calls need the drivers above

    return build


def call(*args: Any) -> Any:
    """Build the call for a descriptor and a layout; see `numba_dml._operator.build_call`."""
    return _builder()(*args)
