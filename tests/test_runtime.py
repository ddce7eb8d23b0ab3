"""Processes, threads, forks and caches: what happens around the kernels."""

import ctypes
import importlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

import numba_dml as dml
from numba_dml import cpu
from numba_dml._core import calls
from numba_dml._jit import compile
from numba_dml._jit.compile import kernel
from numba_dml._jit.memory import ANY, load
from numba_dml.cpu import launch as cpu_launch
from numba_dml.cpu import threads
from numba_dml.cpu.calls import top_k as calls_top_k
from numba_dml.cpu.drivers import ASK

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).parent.parent


def run(code, *, ok=True, **environment):
    """Run Python code in a process of its own; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **environment}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout if ok else done.stderr


# A kernel of each family, with each driver, and what they must return.
ALL_KERNELS = """
    import numba, numpy as np, numba_dml as dml
    from numba_dml.cpu.dispatch.top_k import TABLE
    from numba_dml.cpu.kernels import gather, scatter
    from numba_dml.cpu.drivers import run_locked, run_parallel, run_serial
    from numba_dml.cpu.primitives.moves import offsets

    def started():
        try:
            return bool(numba.threading_layer())
        except ValueError:
            return False

    some = np.arange(3000)
    assert (dml.gather(some, some[::-1].copy()) == some[::-1]).all()
    for n in (8, 50_000):
        assert not started()
        a, i = np.arange(float(n)), np.arange(n)[::-1].copy()
        assert (dml.gather(a, i) == a[::-1]).all()
        assert (dml.gather_nd(a, i.reshape(-1, 1).astype(np.uint32)) == a[::-1]).all()
        assert (dml.gather_nd(a.reshape(2, -1), np.stack([i % 2, i // 2], 1)) == a.reshape(2, -1)[i % 2, i // 2]).all()
        assert (dml.scatter_elements(a, i, a) == a[::-1]).all()
        wide = np.tile(a[:8], (max(n // 8, 64), 1))
        assert (dml.scatter_elements(wide, np.tile(i[-8:], (len(wide), 1)), wide) == wide[:, ::-1]).all()
        lines = np.tile(a[:8], (max(n, 20), 1))
        assert (dml.top_k(lines, 3).indices == [7, 6, 5]).all()
        assert (dml.top_k(np.asfortranarray(lines), 3).indices == [7, 6, 5]).all()
        assert (dml.top_k(np.ascontiguousarray(lines.T), 3, axis=0).indices.T == [7, 6, 5]).all()
        assert (dml.top_k(np.tile(np.arange(70.0), (len(lines), 1)), 1).indices == 69).all()
        long = np.arange(float(max(n, 2000)))
        assert (dml.top_k(a[-8:], 3).indices == [7, 6, 5]).all()
        assert (dml.top_k(long, 2).indices == [long.size - 1, long.size - 2]).all()
        deep = np.tile(np.arange(600.0)[:, None], (1, max(n // 600, 24)))
        assert (dml.top_k(deep, 3, axis=0).indices.T == [599, 598, 597]).all()
        assert (dml.top_k(long, 900).indices == np.arange(long.size)[: -901 : -1]).all()
    assert started(), "the large calls ran on the parallel drivers, the small ones before them did not"
    longest = np.arange(1e6)
    assert dml.top_k(longest, 2).indices.tolist() == [999_999, 999_998]
    places = np.stack(np.divmod(np.arange(0, 1_000_000, 10), 1000), 1)
    assert dml.scatter_nd(np.zeros((1000, 1000)), places, np.ones(100_000)).sum() == 100_000
    threads = numba.get_num_threads()
    numba.set_num_threads(1)  # lines that are cut into pieces run without other threads here only
    assert dml.top_k(longest, 2).indices.tolist() == [999_999, 999_998]
    numba.set_num_threads(threads)
    jitted = [run_locked, run_serial, run_parallel, gather.gather_kernel, scatter.scatter_kernel]
    jitted += [offsets.find_offsets_of]
    jitted += {region.kernel for region in TABLE}
"""


def test_import_compiles_nothing_and_is_quick():
    lazy = """
        import sys, time
        import numpy
        start = time.perf_counter()
        import numba_dml
        took = time.perf_counter() - start
        assert "numba" not in sys.modules, "numba is imported on the first call only"
        print(took)
    """
    assert float(run(lazy)) < 0.5


def test_modules_that_are_imported_when_they_are_used():
    run("""
        import sys, numba_dml
        assert "numba_dml.numpy" not in sys.modules and "onnx" not in sys.modules
        assert numba_dml.numpy.take is sys.modules["numba_dml.numpy"].take
        assert len(numba_dml.onnx.reference_ops()) == 15
        assert not hasattr(numba_dml, "torch")
    """)


@pytest.mark.parametrize(("given", "least", "most"), [(None, 500, 1_000_000), ("77", 77, 77)])
def test_waiting_threads_sleep_soon_unless_told_otherwise(given, least, most):
    """GNU OpenMP says what it has read from the environment, which then is as it was."""
    said = run(
        f"""
        import os
        os.dup2(1, 2)
        os.environ.pop("GOMP_SPINCOUNT", None)
        os.environ.pop("OMP_WAIT_POLICY", None)
        if {given!r}:
            os.environ["GOMP_SPINCOUNT"] = {given!r}
        os.environ["OMP_DISPLAY_ENV"] = "VERBOSE"
        import numba, numpy as np, numba_dml as dml
        dml.gather(np.zeros(100_000), np.zeros(100_000, np.int64))
        assert os.environ.get("GOMP_SPINCOUNT") == {given!r}
        print(numba.threading_layer())
        """
    )
    found = re.search("GOMP_SPINCOUNT = '(\\d+)'", said)
    assert least <= int(found[1]) <= most if found else "OPENMP" not in said  # another OpenMP, or another layer


def test_two_processes_that_start_at_once_share_a_cache(tmp_path):
    """Both compile the same kernels; whoever comes later loads them."""
    code = """
        import numpy as np, numba_dml as dml
        from numba_dml.cpu.kernels.gather import gather_kernel
        from numba_dml.cpu.drivers import run_locked
        a, i = np.arange(8.0), np.arange(8)[::-1].copy()
        assert (dml.gather(a, i) == a[::-1]).all()
        assert (dml.gather(a.astype("u1"), i) == a[::-1]).all()
        jitted = [run_locked, gather_kernel]
        print(sum(sum(d.stats.cache_misses.values()) for d in jitted))
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert sum(map(int, printed)) >= 3  # or more, where files have no locks
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).strip() == "0"


def test_a_second_process_loads_every_kernel_and_the_right_driver():
    run(ALL_KERNELS)  # in the cache of all tests, for which most are compiled anyway
    second = run(
        ALL_KERNELS
        + """
    for d in jitted:
        assert sum(d.stats.cache_misses.values()) == 0, d
        assert sum(d.stats.cache_hits.values()) == 1, d
        assert bool(d.targetoptions.get("nogil")) == (d is not run_locked)
    print("loaded")
    """
    )
    assert second.strip() == "loaded"


@pytest.mark.slow
def test_a_second_process_loads_nothing_to_compile_with(tmp_path):
    """That took three quarters of a first call beside the import of Numba; it is there when it is needed."""
    code = """
        import sys
        import numpy as np, numba_dml as dml

        a, i = np.arange(8.0), np.arange(8)[::-1].copy()
        compiler = {"numba.np.linalg", "scipy.linalg"}
        for n in (1, 10_000):
            assert (dml.gather(np.tile(a, n), i) == a[::-1]).all()
            assert (dml.scatter_elements(np.tile(a, n), i, a, axis=-1)[:8] == a[::-1]).all()
            assert (dml.top_k(np.tile(a, (n, 1)), 3).indices == [7, 6, 5]).all()
        print(not compiler.isdisjoint(sys.modules))
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).strip() == "True"
    later = """
        import numba

        @numba.njit
        def jitted(a, i):
            return np.sort(dml.gather(a, i))

        assert (jitted(a, i) == a).all()
        try:
            jitted(a, i + 1)
        except IndexError as error:
            print(error)
        assert (dml.gather(a.astype("u1"), i) == a[::-1]).all()
        print(not compiler.isdisjoint(sys.modules))
    """
    printed = run(code + later, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    assert (printed[0], "indices[0] = 8 is out of range" in printed[1], printed[2]) == ("False", True, "True"), printed


def test_an_array_keeps_its_address_where_kernels_read_it():
    from numba_dml._jit.machine import DATA_AT

    for a in (np.arange(8.0), np.zeros((3, 4), np.int8)[::2, ::-1]):
        assert ctypes.c_size_t.from_address(id(a) + DATA_AT).value == a.ctypes.data


def test_a_function_compiles_what_it_runs_and_nothing_else(tmp_path):
    """Not the kernel of packed arrays, too, which `describe` names."""
    run(
        """
        import numpy as np, numba_dml as dml
        from numba_dml.cpu.dispatch.top_k import TABLE
        dml.top_k(np.zeros((20, 8), np.float32, order="F"), 3)
        assert [row.kernel.__name__ for row in TABLE if row.kernel.overloads] == ["short_kernel"] * 2
        """,
        NUMBA_CACHE_DIR=str(tmp_path),
    )


@pytest.mark.slow
def test_kernels_that_were_compiled_apart_call_their_own_helpers(tmp_path):
    """Numba numbers what it compiles from 1 on in every process, and links machine code by names and numbers."""
    parts = {
        "gather": "assert (dml.gather(a, i[:, 0]) == a[i[:, 0]]).all()",
        "gather_nd": "assert (dml.gather_nd(a, i) == a[i[:, 0], i[:, 1]]).all()",
        "gather_elements": "assert (dml.gather_elements(a, i, axis=1) == np.take_along_axis(a, i, 1)).all()",
        "scatter_elements": "assert (dml.scatter_elements(a, i, -a[:, :2], axis=1) < 0).sum() == 160",
        "scatter_nd": "assert (dml.scatter_nd(a, i[:4], -a[:4, 0]) < 0).sum() == 4",
    }
    start = """
import numpy as np, numba_dml as dml
a = np.arange(1.0, 6401.0).reshape(80, 80)
i = np.stack([np.arange(80), np.arange(80)[::-1]], 1)
"""
    for part in (*parts.values(), "\n".join(parts.values()), "\n".join(reversed(parts.values()))):
        run(start + part, NUMBA_CACHE_DIR=str(tmp_path))


def test_no_two_helpers_have_one_name():
    """Those of a factory are named by what they are made for, too: by its name alone one could be linked as another."""
    from numba.core.dispatcher import Dispatcher

    functions = {}
    for path in sorted(Path(cpu.__file__).parent.rglob("*.py")):
        module = importlib.import_module(
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        )
        for value in vars(module).values():
            if isinstance(value, Dispatcher):
                function = value.py_func
                known = functions.setdefault((function.__module__, function.__qualname__), function)
                assert known is function, function.__qualname__
    assert len(functions) > 100


@kernel
def first_kernel(phase, task, tasks, a, b, c, d, plan):
    """Note the first element."""
    if task == ASK:
        return np.int64(1 - phase)
    plan[0] = load(a, 0)
    return np.int64(0)


def test_a_cache_that_holds_the_wrong_kernel_is_noticed(tmp_path):
    """Two processes that start at once can give one file number to two signatures of one kernel."""
    two = """
        import numpy as np
        from numba import types
        from numba_dml._jit.memory import ANY, ArrayRef
        from numba_dml.cpu.launch import launcher
        from tests.test_runtime import first_kernel

        for dtype in (types.uint8, types.int64):
            launch, _ = launcher(first_kernel, (ArrayRef(dtype), ANY, ANY, ANY), 0)
            a, plan = np.full(8, 3, str(dtype)), np.zeros(1, np.int64)
            assert launch(a, a, a, a, plan) == 0
            assert plan.tolist() == [3]
    """
    run(two, NUMBA_CACHE_DIR=str(tmp_path))
    files = sorted(tmp_path.rglob("test_runtime.first_kernel*.nbc"))
    assert len(files) == 2
    one, other = (f.read_bytes() for f in files)
    files[0].write_bytes(other)
    files[1].write_bytes(one)
    run(two, NUMBA_CACHE_DIR=str(tmp_path))
    files[0].write_bytes(b"torn")
    run(two, NUMBA_CACHE_DIR=str(tmp_path))  # a warning would be an error
    assert files[0].read_bytes() != b"torn"


#: Numba finds no directory that it can write to.
NOWHERE = """
    import sys, warnings
    from numba.core import caching
    for locator in caching.CacheImpl._locator_classes:
        locator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError("read-only"))
"""


def test_read_only_home_and_package():
    """Without any directory to write to, the package warns once, at the user's line, and computes."""
    code = """
    import numba, numpy as np, numba_dml as dml, numba_dml.numpy as nnp
    from numba_dml._jit import compile, waiting

    jitted = numba.njit(lambda a, i: dml.gather(a, i))
    a, i = np.arange(3), np.array([2])
    calls = (
        lambda: dml.gather(a, i),
        lambda: nnp.take_along_axis(
            a, i.repeat(100_000), 0),
        lambda: jitted(a, i),
    )
    waiting.PATIENCE = 0.1
    for call in calls:
        compile._warned = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert call()[0] == 2
            if call is calls[0]:
                assert dml.gather(a.astype("u1"), i).tolist() == [2]
        (found,) = caught
        assert "compiles its kernels anew" in str(found.message)
        assert "Set NUMBA_CACHE_DIR" in str(found.message)
        line = found.lineno - call.__code__.co_firstlineno
        assert found.filename == "<string>", found
        assert 0 <= line <= 1, (found, line)
        assert found.category is RuntimeWarning
    print("computed")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NOWHERE) + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "computed", done.stderr
    assert "for this process only" in done.stderr
    assert "on disk" not in done.stderr


@pytest.mark.parametrize("name", ["numba_dml.zip", "numba_dml.pyz"])
def test_imported_from_an_archive(name, tmp_path):
    """Its kernels are kept where Numba has a place for them, which is by its name."""
    archive = tmp_path / name
    with zipfile.ZipFile(archive, "w") as file:
        for path in (ROOT / "numba_dml").rglob("*.py"):
            file.write(path, path.relative_to(ROOT))
    code = f"""
        import sys
        sys.path.insert(0, {str(archive)!r})
        import numpy as np, numba_dml as dml
        assert dml.__file__.startswith({str(archive)!r})
        from numba_dml._jit.disk_cache import _source_stamp
        from numba_dml.cpu.kernels.gather import gather_kernel
        assert dml.gather(np.arange(9, dtype="u1"), [7, 2]).tolist() == [7, 2]
        stamp = _source_stamp()[1]
        if "NUMBA_ENABLE_CUDASIM" in __import__("os").environ:
            from numba_dml.cuda.driver import cache
            assert cache._source_stamp()[2] == stamp
        print(stamp, sum(gather_kernel.stats.cache_hits.values()))
    """
    places = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    places |= {"NUMBA_ENABLE_CUDASIM": "1"} if find_spec("numba_cuda") else {}
    if archive.suffix == ".pyz":
        assert "there is no directory for its disk cache" in run(code, ok=False, **places)  # the warning is an error
    else:
        run(code, **places)
    size, loaded = map(int, run(code, PYTHONWARNINGS="ignore", **places).split())
    assert size == archive.stat().st_size
    assert loaded == (archive.suffix == ".zip")


@pytest.mark.parametrize("cached", [True, False])
def test_a_first_call_that_is_interrupted(cached, tmp_path):
    """The next one finds all that Numba compiles with, whether or not the first one had loaded it."""
    code = """
        from numba.core.cpu import CPUContext
        import numpy as np, numba_dml as dml
        a, i = np.arange(12.0).reshape(4, 3), np.array([2, 0])
        whole, interrupted = CPUContext.load_additional_registries, []

        def interrupt(context):
            if not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt
            whole(context)

        CPUContext.load_additional_registries = interrupt
        try:
            dml.gather(a, i)
        except KeyboardInterrupt:
            pass
        assert interrupted
        assert dml.gather(a, i).tolist() == a[i].tolist()
    """
    home = str(tmp_path if cached else "/dev/null/none")
    places = {"NUMBA_CACHE_DIR": home, "HOME": home, "XDG_CACHE_HOME": home}
    run(code, PYTHONWARNINGS="ignore", **places)


def test_warmup_refuses_where_nothing_can_be_kept():
    for target in ("cpu", "cuda"):
        command = (
            f"from numba_dml.__main__ import main; assert main(['warmup', '--target', '{target}']) == 1; sys.exit(1)"
        )
        err = run(textwrap.dedent(NOWHERE) + command, ok=False)
        assert err.count("\n") == 1
        assert "NUMBA_CACHE_DIR" in err


def test_kernels_are_kept_outside_of_the_package(tmp_path):
    """pip would leave them behind, and Python take the folder that they keep alive for an empty package."""
    code = """
        import os
        from pathlib import Path
        import numba_dml
        from numba_dml._cli import cache
        from numba_dml.cpu.drivers import run_serial
        place = Path(run_serial._cache.cache_path)
        assert place.is_relative_to(os.environ["HOME"]), place
        assert place in cache.places("cpu")
        assert all(path.is_relative_to(os.environ["HOME"]) for path in cache.places("cuda"))
    """
    home = str(tmp_path)
    run(code, NUMBA_CACHE_DIR="", NUMBA_CACHE_LOCATOR_CLASSES="", HOME=home, XDG_CACHE_HOME=home, LOCALAPPDATA=home)


def test_a_cache_that_cannot_be_written(monkeypatch):
    """A disk that fills up after the start costs a warning."""
    from numba_dml.cpu.kernels import gather

    class FullDisk:
        def load_overload(self, *args):
            return None

        def save_overload(self, *args):
            raise OSError("no space left on device")

    kernel = gather.gather_kernel
    monkeypatch.setattr(kernel, "_cache", FullDisk())
    monkeypatch.setattr(kernel, "overloads", type(kernel.overloads)())
    monkeypatch.setattr(compile, "_warned", False)
    cpu_launch._code.cache_clear()
    dml.cache_clear()
    with pytest.warns(RuntimeWarning, match="its disk cache fails \\(OSError: no space left"):
        assert dml.gather(np.arange(3, dtype="u2"), [2]).tolist() == [2]


def test_helpers_are_translated_with_their_kernel_only():
    from numba_dml._jit.helper_compiler import _WaitingLibrary
    from numba_dml.cpu.kernels import gather

    dml.gather(np.arange(3, dtype="i2"), [2])
    assert gather.gather_range.overloads
    assert all(isinstance(code.library, _WaitingLibrary) for code in gather.gather_range.overloads.values())
    assert not any(isinstance(code.library, _WaitingLibrary) for code in gather.gather_kernel.overloads.values())


def test_new_shapes_add_no_signature():
    from numba_dml.cpu.dispatch.top_k import TABLE
    from numba_dml.cpu.kernels import gather, scatter

    kernels = [gather.gather_kernel, scatter.scatter_kernel, *{region.kernel for region in TABLE}]

    def work(shape):
        a = np.zeros(shape, np.float32)
        a[0] = 1
        for layout in (a, a[::-1], np.asfortranarray(a), np.broadcast_to(a, (2, *shape))):
            for axis in range(layout.ndim):
                i = np.zeros(layout.shape, np.int64)
                dml.gather_elements(layout, i, axis=axis)
                dml.gather(layout, i[0], axis=axis)
                dml.scatter_elements(layout, i, layout, axis=axis)
                dml.top_k(layout, 1, axis=axis)
                dml.top_k(layout, layout.shape[axis], axis=axis, mode="smallest")

    for shape in [(8, 5, 8), (20, 20), (70, 300)]:
        work(shape)
    for lines in (2, 70):
        for k in (3, 20):
            dml.top_k(np.zeros((lines, 2000), np.float32), k)
    dml.top_k(np.zeros((600, 40), np.float32), 3, axis=0)
    before = [len(kernel.signatures) for kernel in kernels]
    assert min(before) > 0
    misses = dml.cache_info().misses
    for shape in [(7,), (6, 9), (3, 4, 5, 2), (900,), (80, 310), (20, 10, 130)]:
        work(shape)
    assert [len(kernel.signatures) for kernel in kernels] == before
    assert dml.cache_info().misses > misses  # other shapes did go through the builders


def test_known_shapes_are_not_validated_again(monkeypatch):
    a, i = np.arange(6.0).reshape(2, 3), np.array([1, 0])
    dml.cache_clear()
    first = dml.gather(a, i)
    assert dml.cache_info() == (0, 1, 4096, 1)
    monkeypatch.setattr(dml.GatherDesc, "__post_init__", None)  # building a descriptor would fail
    np.testing.assert_array_equal(dml.gather(a + 1, i), first + 1)
    assert dml.cache_info() == (1, 1, 4096, 1)


def test_the_cache_is_bounded():
    dml.cache_clear()
    for n in range(1, dml.cache_info().maxsize + 10):
        dml.gather(np.zeros(n, np.uint8), [0])
    assert dml.cache_info().currsize == dml.cache_info().maxsize
    dml.cache_clear()
    assert dml.cache_info() == (0, 0, 4096, 0)


def test_a_loop_over_more_shapes_than_the_cache_holds_builds_few_calls_again(monkeypatch):
    module = importlib.import_module("numba_dml.ops._shared.function")
    built, build_call = [], module.build_call
    monkeypatch.setattr(module, "build_call", lambda *args: built.append(args) or build_call(*args))
    a = np.zeros(1, np.uint8)
    indices = np.zeros(dml.cache_info().maxsize + 500, np.intp)

    def loop():
        built.clear()
        for n in range(1, indices.size):
            assert dml.gather(a, indices[:n]).size == n
        return len(built)

    dml.cache_clear()
    assert loop() == indices.size - 1
    assert loop() == 0
    monkeypatch.setattr(calls, "MAX_KEPT", 3000)
    dml.cache_clear()
    assert loop() == indices.size - 1
    assert len(calls._kept) == 3000
    assert loop() < 2400  # with the last ones used alone, all
    assert len(calls._kept) == 3000
    dml.cache_clear()
    assert not calls._kept


THREADS = """
    import threading, time
    import numpy as np, numba_dml as dml
    rng = np.random.default_rng(0)
    a = rng.standard_normal((300, 400)).astype(np.float32)
    rows = rng.integers(-300, 300, 500)
    tuples = np.stack([rng.integers(0, 300, 40_000), rng.integers(0, 400, 40_000)], -1)
    order = np.argsort(a, 1)
    updates = rng.standard_normal(40_000).astype(np.float32)
    added = a.copy(); np.add.at(added, tuple(tuples.T), updates)
    best = np.argsort(-a, 1, kind="stable")[:, :7]
    checks = [
        lambda: np.array_equal(dml.gather(a, rows), a[rows]),
        lambda: np.array_equal(dml.gather_elements(a, order, axis=1), np.sort(a, 1)),
        lambda: np.array_equal(dml.gather_nd(a, tuples), a[tuple(tuples.T)]),
        lambda: np.array_equal(dml.scatter_elements(a, order, np.sort(a, 1), axis=1), a),
        lambda: np.array_equal(dml.scatter_nd(a, tuples, updates, reduction="add"), added),
        lambda: np.array_equal(dml.top_k(a, 7).indices, best),
        lambda: np.array_equal(dml.top_k(a[:3, :9], 2).indices, np.argsort(-a[:3, :9], 1)[:, :2]),
        lambda: np.array_equal(dml.gather(a[:2], [1, 0]), a[[1, 0]]),
    ]
    calls = [0] * len(checks)
    compiled = threading.Barrier(len(checks), timeout=240)
    def loop(n):
        assert checks[n]()  # eight threads may compile at once
        compiled.wait()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            assert checks[n]()
            calls[n] += 1
    failed = []
    threading.excepthook = lambda args: failed.append(args)
    workers = [threading.Thread(target=loop, args=(n,)) for n in range(len(checks))]
    for w in workers: w.start()
    for w in workers: w.join()
    assert not failed, failed
    assert min(calls) > 1, calls
    import numba
    print(numba.threading_layer())
"""


@pytest.mark.parametrize("layer", ["default", "workqueue", "omp"])
def test_eight_threads(layer):
    found = run(THREADS.replace("SECONDS", os.environ.get("NUMBA_DML_TEST_SECONDS", "3")), NUMBA_THREADING_LAYER=layer)
    assert layer in ("default", found.strip())


FORK = """
    import os
    import numpy as np, numba_dml as dml
    a, i = np.arange(50_000.0), np.arange(50_000)[::-1].copy()
    if PARENT_FIRST:
        dml.gather(a, i)
    child = os.fork()
    if child == 0:
        good = (dml.gather(a, i) == a[::-1]).all() and (dml.scatter_elements(a, i, a) == a[::-1]).all()
        good &= (dml.top_k(a, 2).indices == [49_999, 49_998]).all()
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert (dml.gather(a, i) == a[::-1]).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
@pytest.mark.parametrize("parent_first", [True, False])
def test_forked_child_computes(layer, parent_first):
    run(FORK.replace("PARENT_FIRST", str(parent_first)), NUMBA_THREADING_LAYER=layer, PYTHONWARNINGS="ignore")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_waits_for_what_the_user_compiles():
    """The child would wait for Numba's lock for ever, in a call whose kernel is not loaded yet."""
    code = """
        import os, threading, time
        import numba, numpy as np, numba_dml as dml
        from numba.core.compiler_lock import global_compiler_lock

        dml.top_k(np.zeros((3, 50), "f4"), 5)
        held = threading.Event()

        def compile_for_long():
            with global_compiler_lock:
                held.set()
                time.sleep(1)

        threading.Thread(target=compile_for_long).start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            dml.gather(np.zeros((3, 50), "f4"), [1])
            os._exit(0)
        end = time.monotonic() + 60
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(pid, 9)
                raise AssertionError("the child hangs")
            time.sleep(0.05)
    """
    run(code, PYTHONWARNINGS="ignore")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_a_signal_handler_may_call_functions(layer):
    code = """
        import faulthandler, signal, time
        import numpy as np, numba_dml as dml

        a = np.random.default_rng(0).standard_normal((2000, 1000)).astype("f4")
        called = []

        def handle(*_):
            called.append(dml.top_k(a[:300], 5))

        dml.top_k(a, 50), dml.top_k(a[:300], 5)
        faulthandler.dump_traceback_later(60, exit=True)
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            dml.top_k(a, 50)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert called
    """
    run(code, NUMBA_THREADING_LAYER=layer, PYTHONWARNINGS="ignore")


@pytest.mark.parametrize(
    "call",
    [
        "dml.gather(a, [1])",
        "dml.top_k(a, 2)",
        "nnp.take_along_axis(a, np.zeros(9, int), 0)",
        "dml.compile_operator(dml.GatherDesc(tensor, tensor, tensor, 0, 1))",
        "numba.njit(lambda a: dml.gather(a, a))(a)",
        "dml.gather(a, [1], target='cuda')",
    ],
)
def test_without_a_jit_there_are_no_kernels(call):
    """One error says so, at every first use; what needs no kernel works."""
    code = f"""
        import numba, numpy as np, numba_dml as dml, numba_dml.numpy as nnp

        a, tensor = np.arange(100_000), dml.TensorDesc("int64", (3,))
        for _ in range(2):
            try:
                {call}
            except RuntimeError as error:
                print(error)
    """
    expected = "numba_dml: found NUMBA_DISABLE_JIT=1, expected 0: Numba compiles the kernels, "
    lines = run(code, NUMBA_DISABLE_JIT="1").splitlines()
    assert len(lines) == 2
    assert all(line.startswith(expected) and line.endswith("unset it before Python starts") for line in lines)


def test_commands_without_a_jit():
    code = "import sys; from numba_dml.__main__ import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    for command, status in (("warmup -q", 2), ("explain gather --shape 9 --indices-shape 3", 2), ("cache", 0)):
        done = subprocess.run([sys.executable, "-c", code, *command.split()], env=environment, capture_output=True)
        assert done.returncode == status, done.stderr
        assert done.stderr.count(b"\n") == (status == 2)
        assert (b"found NUMBA_DISABLE_JIT=1, expected 0" in done.stderr) == (status == 2)


def test_one_thread_uses_the_serial_drivers():
    code = """
        import numpy as np, numba_dml as dml
        a = dml.TensorDesc("float64", (100_000,)); i = dml.TensorDesc("int64", (100_000,))
        op = dml.compile_operator(dml.GatherDesc(a, i, a, 0, 1))
        assert op.kernel.endswith(DRIVER), op
        assert (op(np.arange(1e5), np.arange(100_000)) == np.arange(1e5)).all()
    """
    run(code.replace("DRIVER", "'serial'"), NUMBA_NUM_THREADS="1")
    run(code.replace("DRIVER", "'parallel'"), NUMBA_NUM_THREADS="2")


@kernel
def asked_kernel(phase, task, tasks, a, b, c, d, plan):
    """Note for how many threads it is asked, and on which one each task runs."""
    if task == ASK:
        if phase == 0:
            plan[0] = tasks
        return np.int64(1 - phase) * 64
    plan[1 + task] = numba.get_thread_id()
    return np.int64(0)


def test_a_launch_uses_as_many_threads_as_it_may():
    code = """
        import numba, numpy as np, numba_dml as dml
        from numba_dml._jit.memory import ANY
        from numba_dml.cpu.launch import launcher
        from tests.test_runtime import asked_kernel

        launch, driver = launcher(asked_kernel, (ANY,) * 4, 1 << 30)
        assert driver == "parallel"
        a = np.zeros(1)
        for most, mask in ((None, 4), (1, 4), (3, 4), (1000, 4), (None, 1), (2, 1), (None, 2), (3, 2)):
            numba.set_num_threads(mask)
            plan = np.full(65, -1)
            with dml.config(threads=most):
                assert launch(a, a, a, a, plan) == 0
            assert numba.get_num_threads() == mask
            count = min(most or mask, mask)
            assert plan[0] == count
            assert set(plan[1:].tolist()) <= set(range(count))
        print("as many")
    """
    assert run(code, NUMBA_NUM_THREADS="4").strip() == "as many"


@kernel
def noting_kernel(phase, task, tasks, a, b, c, d, plan):
    """Note on which thread each task runs; there are as many as the plan has numbers."""
    if task == ASK:
        return np.int64(plan.size if phase == 0 else 0)
    plan[task] = numba.get_thread_id()
    return np.int64(0)


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_threads_have_even_parts_of_the_tasks(layer):
    """Even where these are fewer than the threads."""
    code = """
        import numpy as np
        from numba_dml._jit.memory import ANY
        from numba_dml.cpu.launch import launcher
        from tests.test_runtime import noting_kernel

        launch, _ = launcher(noting_kernel, (ANY,) * 4, 1 << 30)
        a = np.zeros(1)
        for tasks in (2, 3, 4, 5, 7, 31, 100):
            plan = np.full(tasks, -1)
            assert launch(a, a, a, a, plan) == 0
            assert np.bincount(plan).max() <= -(-tasks // 4), plan
        print("even")
    """
    assert run(code, NUMBA_NUM_THREADS="4", NUMBA_THREADING_LAYER=layer).strip() == "even"


@kernel
def failing_kernel(phase, task, tasks, a, b, c, d, plan):
    """Return the statuses of the plan's tasks; below 0, there is no memory."""
    if task == ASK:
        return np.int64(plan.size if phase == 0 else 0)
    if plan[task] < 0:
        raise MemoryError
    return plan[task]


@pytest.mark.parametrize("layer", ["omp", "workqueue", "tbb"])
def test_the_lowest_status_of_all_tasks_comes_out_and_what_a_task_raises(layer):
    code = """
        import sys
        import numba, numpy as np
        from numba_dml._jit.memory import ANY
        from numba_dml.cpu.launch import launcher
        from tests.test_runtime import failing_kernel

        try:
            numba.get_num_threads()
        except ValueError as error:
            assert "tbb" in str(error)
            print("missing")
            sys.exit()
        a, rng = np.zeros(1), np.random.default_rng(5)
        for effort, name in ((1 << 30, "parallel"), (1 << 16, "serial"), (0, "serial")):
            launch, driver = launcher(failing_kernel, (ANY,) * 4, effort)
            assert driver == name
            for tasks in (1, 2, 3, 4, 5, 64, 1000):
                none = np.zeros(tasks, np.int64)
                assert launch(a, a, a, a, none) == 0
                for status in (1, 7, 1 << 40):
                    plan = rng.choice([0, status, status + 1, 1 << 62], tasks)
                    plan[rng.integers(tasks)] = status
                    assert launch(a, a, a, a, plan) == status
                none[rng.integers(tasks)] = -1
                try:
                    raise AssertionError(launch(a, a, a, a, none))
                except MemoryError:
                    pass
                assert numba.get_num_threads() == 4
        print(numba.threading_layer())
    """
    found = run(code, NUMBA_NUM_THREADS="4", NUMBA_THREADING_LAYER=layer).strip()
    if found == "missing":
        pytest.skip("needs TBB")
    assert found == layer


holds_the_lock = types.ExternalFunction("PyGILState_Check", types.int32())


@kernel
def lock_kernel(phase, task, tasks, a, b, c, d, plan):
    """Note whether this thread has the interpreter's lock."""
    if task == ASK:
        return np.int64(1 - phase) * 2
    plan[task] = holds_the_lock()
    return np.int64(0)


@pytest.mark.parametrize(
    ("effort", "alone", "apart", "kept"),
    [(0, True, 1, 1), (20_000, False, 1, 1), (20_000, False, 2, 0), (1 << 20, True, 1, 0), (1 << 20, False, 1, 0)],
)
def test_short_launches_keep_the_interpreter_s_lock_and_long_ones_do_not(effort, alone, apart, kept):
    """Who gives it away beside a thread that runs Python gets it back when that one's turn is over, 5 ms later."""
    launch, _ = cpu_launch.launcher(lock_kernel, (ANY,) * 4, effort, alone, apart)
    plan = np.full(2, -1)
    a = np.zeros(1)
    assert launch(a, a, a, a, plan) == 0
    assert plan.tolist() == [kept, kept]


@pytest.mark.parametrize(("row_bytes", "kept"), [(1, True), (2, False), (64, False), (4096, False)])
def test_strided_lines_count_as_all_that_is_read(row_bytes, kept, monkeypatch):
    """A column of single bytes reads a cache line for each, and may wait for the memory as long."""
    seen = []
    launcher = cpu_launch.launcher

    def watching(kernel, arrays, effort, alone=False, apart=1, **options):
        seen.append(effort * apart < cpu_launch.LOCKED_WORK)
        return launcher(kernel, arrays, effort, alone, apart, **options)

    monkeypatch.setattr(calls_top_k, "launcher", watching)
    dml.cache_clear()
    column = np.zeros((30_000, row_bytes), "u1")[:, 0]
    column[7] = 1
    values, indices = dml.top_k(column, 2)
    assert (values.tolist(), indices.tolist()) == ([1, 0], [7, 0])
    assert seen == [kept]


def test_a_mask_of_one_thread_runs_serially(monkeypatch):
    a, i = np.arange(1e5), np.arange(100_000)
    monkeypatch.setattr(threads._threads, "broken", True)  # as it is in the child of a fork
    assert threads.thread_count() == 1
    np.testing.assert_array_equal(dml.gather(a, i), a)
    monkeypatch.undo()
    before = numba.get_num_threads()
    assert threads.thread_count() == before
    numba.set_num_threads(1)
    try:
        assert threads.thread_count() == 1
        np.testing.assert_array_equal(dml.gather(a, i), a)
        assert numba.get_num_threads() == 1
    finally:
        numba.set_num_threads(before)


def test_rooms_are_in_step():
    """The room of a target can build a call for every operator."""
    operators = [d for d in dml.ops.__all__ if d.endswith("Desc")]
    f, i, one = dml.TensorDesc("float32", (4,)), dml.TensorDesc("int64", (4,)), dml.TensorDesc("int64", (1,))
    t = dml.TensorDesc("int64", (4, 1))
    m = dml.TensorDesc("float32", (4, 1))
    examples = {
        "GatherDesc": dml.GatherDesc(f, i, f, 0, 1),
        "GatherElementsDesc": dml.GatherElementsDesc(f, i, f, 0),
        "GatherNDDesc": dml.GatherNDDesc(m, t, m, 2, 2),
        "GatherND1Desc": dml.GatherND1Desc(m, t, dml.TensorDesc("float32", (1, 4)), 2, 2, 1),
        "ScatterDesc": dml.ScatterDesc(f, i, f, f, 0),
        "ScatterElementsDesc": dml.ScatterElementsDesc(f, i, f, f, 0),
        "ScatterNDDesc": dml.ScatterNDDesc(m, t, m, m, 2, 2),
        "TopKDesc": dml.TopKDesc(f, f, i, 0, 4),
        "TopK1Desc": dml.TopK1Desc(f, f, i, 0, 4, 0),
        "ArgmaxDesc": dml.ArgmaxDesc(f, one, (0,), 0),
        "ArgminDesc": dml.ArgminDesc(f, one, (0,), 1),
        "CumulativeProductDesc": dml.CumulativeProductDesc(f, f, 0, 0, False),
        "CumulativeSummationDesc": dml.CumulativeSummationDesc(f, f, 0, 1, True),
        "MaxUnpoolingDesc": dml.MaxUnpoolingDesc(f, i, f),
        "NonzeroCoordinatesDesc": dml.NonzeroCoordinatesDesc(f, one, t),
        "OneHotDesc": dml.OneHotDesc(one, dml.TensorDesc("float32", (2,)), f, 0),
        "ReverseSubsequencesDesc": dml.ReverseSubsequencesDesc(f, one, f, 0),
    }
    assert set(examples) == set(operators)
    for name, descriptor in examples.items():
        op = dml.compile_operator(descriptor, target="cpu")
        assert op.kernel, name
        assert "target='cpu'" in repr(op)
        assert op.kernel in repr(op)
        assert f"work={op.work} bytes" in repr(op)
    with pytest.raises(ValueError, match="target: found 'abacus', expected"):
        dml.compile_operator(examples["GatherDesc"], target="abacus")


def test_a_small_gather_of_a_new_shape_is_built_when_it_comes_again(monkeypatch):
    gather = importlib.import_module("numba_dml.ops.gather")
    built = []
    build = gather._build
    monkeypatch.setattr(gather, "FIRST_BY_NUMPY", 1 << 16)
    monkeypatch.setattr(gather, "_build", lambda *key: built.append(key[3]) or build(*key))
    monkeypatch.setattr(gather, "_known", set())
    dml.cache_clear()
    a = np.random.default_rng(0).random((50, 3))
    dml.gather(a, np.arange(4))  # the first of its data type compiles
    assert built == [(4,)]
    for axis in (0, 1, -1):
        for _ in range(3):
            i = np.array([[2, -1, 0, 1, -3]])
            found = dml.gather(a, i, axis=axis)
            assert found.tobytes() == np.take(a, i, axis).tobytes()
            assert found.flags.c_contiguous
    assert built == [(4,), *[(1, 5)] * 3]
    for length in range(5, 40):
        dml.gather(a, np.arange(length))
    assert len(built) == 4
    with pytest.raises(IndexError, match=r"gather: indices\[1\] = 50 is out of range for axis 0 of size 50"):
        dml.gather(a, np.array([0, 50]))
    out = np.empty((41, 3))
    assert dml.gather(a, np.arange(41), out=out) is out
    assert np.array_equal(out, a[:41])
    assert dml.gather(a, np.array([3, 99]), bounds="clamp").tolist() == [a[3].tolist(), a[49].tolist()]
    dml.gather(a[::2], np.arange(6))  # NumPy would copy all of it
    dml.gather(np.arange(50 * 3).reshape(50, 3), np.arange(4))
    dml.gather(a, np.zeros(5000, int))
    assert [len(built)] + built[-3:] == [10, (6,), (4,), (5000,)]
