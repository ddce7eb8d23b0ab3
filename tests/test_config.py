"""Defaults: from the environment, from `config`, and how calls go by them; what is said and locked while compiling."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import numba_dml as dml
from numba_dml import cpu
from numba_dml._core import config, targets
from numba_dml._core.config import Settings, from_environment
from numba_dml._jit import waiting
from numba_dml.cpu import threads as cpu_threads

pytestmark = pytest.mark.cpu

A, OUTSIDE = np.arange(1, 4), np.array([2, 7])
TUPLES = OUTSIDE[:, None]


def run(code, **environment):
    """Run code in a process of its own; return its status, and what it printed and said."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def test_no_default_costs_no_look():
    code = "import numba_dml._core.config as c; print(c.used)"
    clean = {f"NUMBA_DML_{name}": "" for name in ("TARGET", "BOUNDS", "THREADS", "QUIET")}
    assert run(code, **clean)[1].strip() == "False"
    assert run(code, **{**clean, "NUMBA_DML_BOUNDS": "drop"})[1].strip() == "True"


def test_bounds_of_every_function():
    with dml.config(bounds="drop"):
        assert dml.gather(A, OUTSIDE).tolist() == [3, 0]
        assert dml.gather_elements(A, OUTSIDE).tolist() == [3, 0]
        assert dml.gather_nd(A, TUPLES).tolist() == [3, 0]
        assert dml.scatter_elements(A, OUTSIDE, A[:2]).tolist() == [1, 2, 1]
        assert dml.scatter_nd(A, TUPLES, A[:2]).tolist() == [1, 2, 1]
    with dml.config(bounds="clamp"):
        assert dml.gather(A, OUTSIDE).tolist() == [3, 3]
        for scatter, indices in ((dml.scatter_elements, OUTSIDE), (dml.scatter_nd, TUPLES)):
            with pytest.raises(IndexError):  # it has no "clamp"
                scatter(A, indices, A[:2])
    with pytest.raises(IndexError):
        dml.gather(A, OUTSIDE)


def test_arguments_beat_the_innermost_block_which_beats_those_around():
    with dml.config(bounds="drop", threads=1):
        with pytest.raises(IndexError):
            dml.gather(A, OUTSIDE, bounds="raise")
        with dml.config(bounds="clamp"):
            assert dml.gather(A, OUTSIDE).tolist() == [3, 3]
            assert config.current().threads == 1
        with dml.config(bounds=None), pytest.raises(IndexError):
            dml.gather(A, OUTSIDE)
        assert dml.gather(A, OUTSIDE).tolist() == [3, 0]


def test_target(monkeypatch):
    asked = []
    monkeypatch.setattr(targets, "kernels", lambda target: asked.append(target) or cpu)
    x = dml.TensorDesc("float32", (2, 3))
    descriptor = dml.TopKDesc(x, x, dml.TensorDesc("uint32", (2, 3)), 1, 3)
    dml.cache_clear()
    with dml.config(target="cuda"):
        assert dml.compile_operator(descriptor).target == "cuda"
        assert dml.compile_operator(descriptor, target="cpu").target == "cpu"
        with dml.config(target=None):
            assert dml.compile_operator(descriptor).target == "cpu"
        dml.gather(A, [0], target="cpu")
    assert asked[0] == "cuda"
    assert set(asked[1:]) == {"cpu"}
    dml.cache_clear()


def test_a_block_may_be_used_again_and_decorates():
    drop = dml.config(bounds="drop")
    with drop, drop:
        assert config.current().bounds == "drop"
    assert config.current().bounds is None

    @drop
    def function(depth):
        assert dml.gather(A, OUTSIDE).tolist() == [3, 0]
        return function(depth - 1) if depth else repr(drop)

    assert function(2) == "config(bounds='drop')"

    @drop
    async def coroutine():
        await asyncio.sleep(0)
        return dml.gather(A, OUTSIDE).tolist()

    assert asyncio.run(coroutine()) == [3, 0]
    assert config.current().bounds is None

    async def later():
        yield 1

    for generator in (lambda: (yield 1), later, partial(later)):
        with pytest.raises(TypeError, match="a generator, expected a function that returns"):
            drop(generator)
    with pytest.raises(IndexError), drop:
        dml.gather(A, OUTSIDE, bounds="raise")
    assert config.current().bounds is None


def test_threads_and_tasks_have_their_own():
    found = []
    with dml.config(threads=1):
        thread = threading.Thread(target=lambda: found.append(config.current().threads))
        thread.start()
        thread.join()
    assert found == [None]

    async def task(count, turns):
        with dml.config(threads=count):
            for _ in range(turns):
                await asyncio.sleep(0)
                assert config.current().threads == count

    async def both():
        await asyncio.gather(task(1, 5), task(2, 3))

    asyncio.run(both())


def test_results_do_not_depend_on_threads():
    import numba

    rng = np.random.default_rng(3)
    a = rng.standard_normal(300_000).astype(np.float32)
    indices = rng.integers(0, 5000, a.size)
    before, results = numba.get_num_threads(), []
    for threads in (None, 1, 2, 1000, 2**63):
        with dml.config(threads=threads):
            assert cpu_threads.thread_count() == min(before, threads or before)
            results.append((dml.scatter_elements(a, indices, a, reduction="add"), *dml.top_k(a, 100)))
        assert numba.get_num_threads() == before
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"target": "gpu"}, ValueError, "config: target: found 'gpu', expected one of 'cpu', 'cuda'"),
        ({"bounds": "wrap"}, ValueError, "config: bounds: found 'wrap', expected one of 'raise', 'clamp'"),
        ({"bounds": ["drop"]}, ValueError, "config: bounds: found"),
        ({"threads": 0}, ValueError, "config: threads: found 0, expected 1 or more"),
        ({"threads": 1.5}, TypeError, "config: threads: found 1.5, expected an integer"),
        ({"threads": True}, TypeError, "config: threads: found True, expected an integer"),
        ({"quiet": None}, TypeError, "config: quiet: found None, expected True or False"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error) as raised:
        dml.config(**arguments)
    assert message in str(raised.value)


def test_environment():
    assert from_environment({}) == Settings()
    assert from_environment({"NUMBA_DML_TARGET": "", "NUMBA_DML_THREADS": " "}) == Settings()
    found = from_environment(
        {"NUMBA_DML_TARGET": "cuda", "NUMBA_DML_BOUNDS": "drop", "NUMBA_DML_THREADS": "3", "NUMBA_DML_QUIET": "Yes"}
    )
    assert found == Settings("cuda", "drop", 3, True)
    assert not from_environment({"NUMBA_DML_QUIET": "0"}).quiet


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("NUMBA_DML_TARGET", "gpu", "one of 'cpu', 'cuda'"),
        ("NUMBA_DML_BOUNDS", "wrap", "one of 'raise', 'clamp', 'drop', 'deferred'"),
        ("NUMBA_DML_THREADS", "0", "a number of threads, 1 or more"),
        ("NUMBA_DML_THREADS", "two", "a number of threads, 1 or more"),
        ("NUMBA_DML_QUIET", "maybe", "one of '1', 'true', 'yes', 'on', '0', 'false', 'no', 'off'"),
    ],
)
def test_bad_environment(name, text, expected):
    with pytest.raises(ValueError, match=name) as raised:
        from_environment({name: text})
    assert str(raised.value) == f"{name}: found {text!r}, expected {expected}"


def test_the_environment_is_the_default():
    code = """
        import numpy as np, numba_dml as dml
        print(dml.gather(np.arange(1, 4), [2, 7]).tolist())
        with dml.config(bounds="clamp"):
            print(dml.gather(np.arange(1, 4), [2, 7]).tolist())
    """
    status, out, _ = run(code, NUMBA_DML_BOUNDS="drop")
    assert (status, out) == (0, "[3, 0]\n[3, 3]\n")
    status, _, err = run("import numba_dml as dml; dml.gather([1], [0])", NUMBA_DML_THREADS="many")
    assert status == 1
    assert err.endswith("ValueError: NUMBA_DML_THREADS: found 'many', expected a number of threads, 1 or more\n")


def test_every_variable_is_documented():
    page = (Path(__file__).parent.parent / "docs/configuration.md").read_text()
    for field in (*Settings._fields, "pool_bytes"):
        assert f"`NUMBA_DML_{field.upper()}`" in page
    assert "`NUMBA_DISABLE_JIT=1` is not supported" in page


def test_every_long_compilation_says_so_once(monkeypatch, capsys):
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    notice = waiting._Notice()
    for quiet, lines in ((True, 0), (False, 1), (False, 1)):
        with dml.config(quiet=quiet), notice(), notice():  # what compiles may need another kernel
            threading.Event().wait(0.2)
        with notice():  # and another one right after it
            threading.Event().wait(0.1)
        err = capsys.readouterr().err
        assert err.count("\n") == lines or quiet
        assert not lines or ("compiling" in err and "kept on disk" in err and "NUMBA_DML_QUIET=1" in err)
        threading.Event().wait(2 * waiting.PAUSE)
    with notice(kept=False):
        threading.Event().wait(0.2)
    err = capsys.readouterr().err
    assert "this process only" in err
    assert "kept on disk" not in err
    monkeypatch.setattr(waiting, "PATIENCE", 30.0)
    quick = waiting._Notice()
    with quick():
        pass
    since = quick.since
    with quick():  # right after it: the same wait
        pass
    assert quick.since == since
    assert not quick.told
    assert capsys.readouterr().err == ""


def test_a_lock_keeps_others_out_and_never_fails(tmp_path, monkeypatch):
    path = str(tmp_path / "kernel.lock")
    times = []

    def other():
        with waiting.locked(path):
            times.append("other")

    with waiting.locked(path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.1)
        times.append("first")
    thread.join()
    assert times == ["first", "other"]
    with waiting.locked(str(tmp_path / "missing" / "kernel.lock")), waiting.locked(None):
        pass
    monkeypatch.setattr(waiting, "LOCK_PATIENCE", 0.05)
    with waiting.locked(path), waiting.locked(path):  # whoever holds it may hang
        pass

    def none(file):
        raise OSError(38, "no locks here")

    monkeypatch.setattr(waiting, "_try_lock", none)
    with waiting.locked(path), waiting.locked(path):
        pass


def test_no_garbage_is_looked_for_while_compiling():
    assert gc.isenabled()
    with waiting.compiling(None):
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), waiting.compiling(None):
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with waiting.compiling(None):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_of_two_processes_one_compiles(tmp_path):
    code = """
        import sys, numpy as np, numba_dml as dml
        from numba_dml.cpu.kernels.gather import gather_kernel
        from numba_dml.cpu.drivers import run_locked
        sys.stdin.readline()
        assert dml.gather(np.arange(4, dtype="u1"), [3, 1]).tolist() == [3, 1]
        print(sum(sum(d.stats.cache_misses.values()) for d in (gather_kernel, run_locked)))
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "NUMBA_CACHE_DIR": str(tmp_path),
        "NUMBA_DML_QUIET": "1",
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    done = [process.communicate(timeout=240) for process in running]
    assert [err for _, err in done] == ["", ""]
    assert sum(int(out) for out, _ in done) == 2
    # A kernel whose lock cannot be made is found all the same.
    for path in tmp_path.rglob("*.lock"):
        path.unlink()
        path.mkdir()
    assert run(code.replace("sys.stdin.readline()", ""), NUMBA_CACHE_DIR=str(tmp_path))[1].strip() == "0"
