"""The command line: operators on files in parts, what the commands print, and how bad input is refused."""

import json
import mmap
import os
import re
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

import numba_dml as dml
from numba_dml import __main__
from numba_dml.__main__ import main
from numba_dml._cli import _files, _terminal, bench, cache, explain, info, run, warmup
from numba_dml._core.spec import OPERATORS
from numba_dml.cpu import launch as cpu_launch
from numba_dml.cpu import threads as cpu_threads
from numba_dml.cpu.calls import gather as calls_gather
from numba_dml.cpu.calls import top_k as calls_top_k
from numba_dml.cpu.dispatch import gather as dispatch_gather
from numba_dml.cpu.dispatch import scatter as dispatch_scatter
from numba_dml.cpu.dispatch.top_k import TABLE
from numba_dml.cpu.tuning import gather as tuning_gather
from numba_dml.cpu.tuning import scatter as tuning_scatter

pytestmark = [pytest.mark.cpu, pytest.mark.usefixtures("quiet")]

RNG = np.random.default_rng(11)


@pytest.fixture
def small_parts(monkeypatch):
    """Cut files into parts of 4000 bytes."""
    monkeypatch.setattr(run, "MEGABYTE", 1000)
    monkeypatch.setattr(run, "PART_MB", 4)
    monkeypatch.setattr(run, "AROUND", 16)
    monkeypatch.setattr(run, "ASIDE", 4)


def call(*arguments):
    assert main([str(a) for a in arguments]) == 0


def refusal(capsys, *arguments):
    """Return the one line that a refused command leaves on the standard error stream."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err


def same(file, *expected):
    if str(file).endswith(".npz"):
        with np.load(file) as found:
            arrays = [found[name] for name in found.files]
    else:
        arrays = [np.load(file)]
    for one, other in zip(arrays, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("shape", "axis", "order", "dtype"),
    [
        ((70, 90), -1, "C", "f4"),
        ((900, 70), 0, "C", "f4"),
        ((900, 70), 0, "F", "f4"),
        ((1, 20_000), 1, "C", "f4"),
        ((20_000,), 0, "C", ">f8"),
        ((30, 40, 50), 1, "C", ">f8"),
        ((30, 40, 50), 1, "F", "f4"),
    ],
)
@pytest.mark.parametrize("nan", ["last", "largest", "first"])
@pytest.mark.parametrize("mode", ["largest", "smallest"])
def test_top_k_in_parts(shape, axis, order, dtype, mode, nan, small_parts):
    a = np.asarray(RNG.integers(-9, 9, shape).astype(dtype), order=order)
    a[RNG.random(shape) < 0.2] = np.nan
    np.save("a.npy", a)
    for k in (0, 1, 30):
        call("top-k", "a.npy", "-k", k, "--axis", axis, "--mode", mode, "--nan", nan, "-o", "best.npz", "-q")
        same("best.npz", *dml.top_k(a, k, axis=axis, mode=mode, nan=nan))
    assert sorted(os.listdir()) == ["a.npy", "best.npz"]


def test_commands_of_operators_that_have_no_way_by_parts():
    a, i, n = np.arange(6.0).reshape(2, 3), np.array([[0, 5, -1], [9, 2, 3]]), np.array([[2], [3]])
    for name, array in (("a", a), ("i", i), ("n", n)):
        np.save(f"{name}.npy", array)
    call("one-hot", "i.npy", "--depth", 6, "--axis", 0, "--bounds", "drop", "--on-value", 2.5, "-o", "o.npz", "-q")
    same("o.npz", dml.one_hot(i, 6, axis=0, bounds="drop", on_value=2.5))
    call("one-hot", "i.npy", "--depth", 10, "--on-value", 3, "--result-dtype", "int8", "-o", "o.npz", "-q")
    same("o.npz", dml.one_hot(i, 10, on_value=3, dtype="int8"))
    call("reverse-subsequences", "a.npy", "n.npy", "-o", "o.npz", "-q")
    same("o.npz", dml.reverse_subsequences(a, n))
    call("max-unpool", "a.npy", "i.npy", "--result-shape", "4,4", "--fill-value", -1, "--unique", "-o", "o.npz", "-q")
    same("o.npz", dml.max_unpool(a, i, (4, 4), fill_value=-1))


def random_call(rng, function):
    """Return the arrays of a random call, each in either order, and what it has besides."""
    rank = int(rng.integers(1, 5))
    shape = tuple(rng.integers(1, 4, rank).tolist())
    if rng.random() < 0.4:  # equal sizes hide arrays that are in the wrong order
        shape = (int(rng.integers(2, 4)),) * rank
    axis = int(rng.integers(-rank, rank))
    arrays = [rng.integers(-9, 9, shape).astype("f4")]
    if function == "top_k":
        arguments = {"axis": axis, "mode": str(rng.choice(["largest", "smallest"]))}
    elif function.startswith("nonzero"):
        arguments = {"index_dtype": "int32"}
    elif function.startswith(("cumulative", "arg")):
        arguments = {"axis": axis}
    elif function.endswith("_nd"):
        batch = int(rng.integers(0, rank))
        count = int(rng.integers(1, rank - batch + 1))
        points = (*shape[:batch], *rng.integers(1, 4, rng.integers(batch == 0 and function == "gather_nd", 3)).tolist())
        sizes = np.array(shape[batch : batch + count])
        arrays.append(rng.integers(-sizes, sizes, (*points, count)))
        arguments = {"batch_dims": batch}
        taken = (*points, *shape[batch + count :])
    else:
        taken, sizes = list(shape), shape[axis]
        taken[axis] = int(rng.integers(1, 5))
        picked = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist()) if function == "gather" else taken
        arrays.append(rng.integers(-sizes, sizes, picked))
        arguments = {"axis": axis}
    if function.startswith("scatter"):
        arrays.append(rng.integers(-9, 9, taken).astype("f4"))
        arguments["reduction"] = str(rng.choice(["none", "add"]))
    if len(arrays) > 1 and rng.random() < 0.4:
        arguments["bounds"] = str(rng.choice(["drop"] if len(arrays) > 2 else ["clamp", "drop"]))
        arrays[1] = np.where(rng.random(arrays[1].shape) < 0.2, arrays[1] * 9, arrays[1])
    if len(arrays) > 1 and rng.random() < 0.3:
        unsigned = np.abs(arrays[1]) if "bounds" in arguments else arrays[1] % sizes
        arrays[1] = unsigned.astype(str(rng.choice(["u1", "<u8", ">u8"])))
    return [np.asarray(array, order=str(rng.choice(["C", "F"]))) for array in arrays], arguments


@pytest.mark.parametrize("part", [1 << 20, 50, 300])
@pytest.mark.parametrize("function", [name for name, spec in OPERATORS.items() if spec.family in run._WAYS])
def test_commands_return_what_functions_do(function, part, monkeypatch):
    """Of random shapes, ranks, axes and orders, in parts of any size."""
    monkeypatch.setattr(run, "MEGABYTE", part)
    monkeypatch.setattr(run, "AROUND", 16)
    monkeypatch.setattr(run, "ASIDE", 2)
    rng = np.random.default_rng(part)
    for _ in range(40):
        arrays, arguments = random_call(rng, function)
        for name, array in enumerate(arrays):
            np.save(f"{name}.npy", array)
        files = [f"{name}.npy" for name in range(len(arrays))]
        options = [f"--{key.replace('_', '-')}={value}" for key, value in arguments.items()]
        k = int(rng.integers(0, arrays[0].shape[arguments["axis"]] + 1)) if function == "top_k" else 0
        options += ["-k", k] if function == "top_k" else []
        call(function.replace("_", "-"), *files, *options, "--part-mb", 1, "-o", "o.npz", "-q")
        if function == "top_k":
            same("o.npz", *dml.top_k(*arrays, k, **arguments))
        else:
            same("o.npz", getattr(dml, function)(*arrays, **arguments))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("part", [1, 1 << 20])
def test_top_k_of_cubes_in_either_order(order, part, monkeypatch):
    """The result has the shape of the lines as they lie in the file, whatever its own order."""
    monkeypatch.setattr(run, "MEGABYTE", part)
    a = np.arange(8, dtype="i4").reshape(2, 2, 2)
    np.save("a.npy", np.asarray(a, order=order))
    for axis in range(3):
        for k in (1, 2):
            call("top-k", "a.npy", "-k", k, "--axis", axis, "--part-mb", 1, "-o", "o.npz", "-q")
            same("o.npz", *dml.top_k(a, k, axis=axis))


def test_the_best_of_a_cube_in_fortran_order():
    np.save("a.npy", np.asfortranarray(np.arange(8, dtype="i4").reshape(2, 2, 2)))
    call("top-k", "a.npy", "-k", 1, "--axis", 1, "-o", "o.npz")
    same("o.npz", np.array([[[2, 3]], [[6, 7]]], "i4"), np.ones((2, 1, 2), np.intp))


def test_index_dtype_and_what_is_printed(capsys):
    a = np.arange(12, dtype=np.int16).reshape(3, 4)
    np.save("a.npy", a)
    call("run", "top-k", "a.npy", "-k", 2, "--index-dtype", "uint32", "-o", "best.npz", "--threads", 1)
    same("best.npz", *dml.top_k(a, 2, index_dtype="uint32"))
    out, err = capsys.readouterr()
    assert out.startswith("best.npz: values (3, 2) int16, indices (3, 2) uint32; 24 bytes in ")
    assert err == ""


@pytest.mark.parametrize(
    ("shape", "axis", "order", "dtype"),
    [((70, 90), 1, "C", "f4"), ((70, 90), 0, "F", "f2"), ((9, 8, 7), 1, "C", ">i4"), ((5000,), 0, "C", "i8")],
)
def test_moves_in_parts(shape, axis, order, dtype, small_parts):
    a = np.asarray(RNG.integers(-99, 99, shape).astype(dtype), order=order)
    native = a.dtype.newbyteorder("=")
    np.savez("a.npz", a=a)

    i = RNG.integers(-shape[axis], shape[axis], (11, 23))
    np.save("i.npy", i)
    call("gather", "a.npz", "i.npy", "--axis", axis, "-o", "o.npy", "-q")
    same("o.npy", dml.gather(a, i, axis=axis))

    sizes = [40 if d == axis else size for d, size in enumerate(shape)]
    i, u = RNG.integers(-shape[axis], shape[axis], sizes), RNG.integers(0, 9, sizes).astype(native)
    np.savez_compressed("iu.npz", i=i, u=u)
    call("gather-elements", "a.npz", "iu.npz:i", "--axis", axis, "-o", "o.npz", "-q")
    same("o.npz", dml.gather_elements(a, i, axis=axis))
    for reduction in ("none", "add"):
        rest = ("--axis", axis, "--reduction", reduction, "-o", "o.npy", "-q")
        call("scatter-elements", "a.npz:a", "iu.npz:i", "iu.npz:u", *rest)
        same("o.npy", dml.scatter_elements(a, i, u, axis=axis, reduction=reduction))

    i = np.stack([RNG.integers(-size, size, 300) for size in shape[:2]], -1)
    np.save("i.npy", i)
    call("gather-nd", "a.npz", "i.npy", "-o", "o.npy", "-q")
    picked = dml.gather_nd(a, i)
    same("o.npy", picked)
    np.save("u.npy", picked[::-1])
    call("scatter-nd", "a.npz", "i.npy", "u.npy", "-o", "o.npy", "-q")
    same("o.npy", dml.scatter_nd(a, i, picked[::-1]))


@pytest.mark.parametrize("function", ["gather_elements", "scatter_elements", "gather_nd", "scatter_nd"])
def test_few_points_of_long_lines_take_small_parts(function, monkeypatch):
    """What a part reads counts, not its points alone: each line is needed whole."""
    a = RNG.random((2000, 700), np.float32)
    indices = RNG.integers(0, 700, (2000, 3))
    arguments = {"axis": -1} if function.endswith("elements") else {"batch_dims": 1}
    given = indices if function.endswith("elements") else indices[..., None]
    arrays = [a, given, *([RNG.random((2000, 3), np.float32)] if function.startswith("scatter") else [])]
    names = [f"{i}.npy" for i in range(len(arrays))]
    for name, array in zip(names, arrays, strict=True):
        np.save(name, array)
    reached, data = [], run._Cuts.data

    def noted(cuts, part):
        found = data(cuts, part)
        reached.append(np.empty(a.shape, "b")[found].size * a.itemsize)
        return found

    monkeypatch.setattr(run._Cuts, "data", noted)
    ((option, value),) = arguments.items()
    option = f"--{option.replace('_', '-')}={value}"
    call(function.replace("_", "-"), *names, option, "--part-mb", 1, "-o", "o.npy", "-q")
    assert max(reached) <= 1 << 20 < sum(reached)
    np.testing.assert_array_equal(np.load("o.npy"), getattr(dml, function)(*arrays, **arguments))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "function", ["gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "top_k"]
)
def test_points_all_over_a_file_are_taken_in_its_order(function, order, monkeypatch):
    """No stretch of it is mapped that is longer than a part, unless there are few points in it."""
    monkeypatch.setattr(run, "MEGABYTE", 1 << 14)
    monkeypatch.setattr(run, "AROUND", 1 << 11)
    monkeypatch.setattr(run, "ASIDE", 4)
    a = np.asarray(RNG.random((200, 400), np.float32), order=order)
    np.save("a.npy", a)
    axis, arrays = 0, [a]
    if function == "top_k":
        axis = 0 if order == "C" else 1
    elif function == "gather":
        arrays.append(RNG.integers(0, 200, 90))
    elif function.endswith("_nd"):
        arrays.append(RNG.integers(0, 200, (2000, 2)))
    else:
        arrays.append(RNG.integers(0, 200, (30, 400)))
    if function.startswith("scatter"):
        arrays.append(RNG.random(2000 if function.endswith("_nd") else (30, 400), np.float32))
    for name, array in enumerate(arrays[1:], 1):
        np.save(f"{name}.npy", array)
    seen, map_pieces = [], _files.map_pieces

    def noted(file, starts, size, *mode):
        assert (np.diff(starts) >= 0).all()
        found = map_pieces(file, starts, size, *mode)
        seen.append(found.size * 4 <= 1 << 14 or len(starts) <= 8 or function == "top_k")
        return found

    monkeypatch.setattr(_files, "map_pieces", noted)
    rest = [] if function.endswith("_nd") else ["--axis", axis]
    rest += ["-k", 3] if function == "top_k" else []
    files = ["a.npy", *(f"{name}.npy" for name in range(1, len(arrays)))]
    call(function.replace("_", "-"), *files, *rest, "--part-mb", 1, "-o", "o.npz", "-q")
    assert len(seen) > 10
    assert all(seen)
    if function == "top_k":
        same("o.npz", *dml.top_k(a, 3, axis=axis))
    else:
        given = {} if function.endswith("_nd") else {"axis": axis}
        same("o.npz", getattr(dml, function)(*arrays, **given))


@pytest.mark.parametrize("function", ["gather", "gather_elements", "scatter_nd", "scatter_elements"])
def test_a_file_in_fortran_order_is_read_once(function, monkeypatch, capsys):
    """Points that fit into a part are taken column by column; of all bad indices the first is told."""
    monkeypatch.setattr(run, "MEGABYTE", 1 << 14)
    a, points = np.asfortranarray(RNG.random((2000, 60), np.float32)), 200
    indices = RNG.integers(0, 2000, (points, 60) if function.endswith("elements") else points)
    bad = indices.copy()
    bad[(50, 9) if bad.ndim == 2 else 50] = 2000
    bad[(70, 0) if bad.ndim == 2 else 70] = 2001
    if function == "scatter_nd":
        indices, bad = indices[:, None], bad[:, None]
    files, arrays = ["a.npy", "i.npy"], [a, indices]
    if function.startswith("scatter"):
        files, arrays = [*files, "u.npy"], [*arrays, RNG.random((points, 60), np.float32)]
    for name, array in zip(files, arrays, strict=True):
        np.save(name, array)
    read, map_pieces = [], _files.map_pieces

    def noted(*arguments):
        read.append(map_pieces(*arguments))
        return read[-1]

    monkeypatch.setattr(_files, "map_pieces", noted)
    axis = {} if function.endswith("_nd") else {"axis": 0}
    command = (
        function.replace("_", "-"),
        *files,
        *(["--axis", 0] if axis else []),
        "--part-mb",
        1,
        "-o",
        "o.npy",
        "-q",
    )
    call(*command)
    assert sum(array.nbytes for array in read) <= a.nbytes
    same("o.npy", getattr(dml, function)(*arrays, **axis))
    assert np.load("o.npy").flags.f_contiguous
    np.save("i.npy", bad)
    with pytest.raises(IndexError) as raised:
        getattr(dml, function)(a, bad, *arrays[2:], **axis)
    assert refusal(capsys, *command) == f"python -m numba_dml: {raised.value}\n"


@pytest.mark.skipif(not hasattr(mmap, "MADV_RANDOM"), reason="this system cannot be told")
def test_only_the_pages_of_pieces_are_read(monkeypatch):
    told = []

    class Noted(mmap.mmap):
        def madvise(self, *advice):
            told.append(advice)
            super().madvise(*advice)

    page = mmap.PAGESIZE
    np.arange(50 * page, dtype="u1").tofile("a.bin")
    file = _files.Source("a", Path("a.bin"), (49 * page,), np.dtype("u1"), "C", page)
    monkeypatch.setattr(_files.mmap, "mmap", Noted)
    starts = np.array([page + 5, 2 * page - 1, 3 * page, 30 * page, 30 * page, 48 * page])
    found = _files.map_pieces(file, starts, 2)
    assert found.tobytes() == Path("a.bin").read_bytes()[2 * page + 5 : 49 * page + 2]
    will = mmap.MADV_WILLNEED
    assert told[0] == (mmap.MADV_RANDOM,)
    base = (2 * page) % mmap.ALLOCATIONGRANULARITY
    assert told[1:] == [(will, base, 3 * page), (will, base + 29 * page, page), (will, base + 47 * page, page)]
    assert not found.flags.writeable
    monkeypatch.delattr(_files.mmap, "MADV_RANDOM")  # some systems have no such advice
    written = _files.map_pieces(file, starts, 2, "r+")
    written[0] = 77
    del written
    assert Path("a.bin").read_bytes()[2 * page + 5] == 77
    assert len(told) == 4


def test_a_result_that_cannot_be_written_is_named(monkeypatch, capsys):
    np.save("a.npy", np.arange(9))

    def refuse(path, mode="r", open_file=_files.Path.open):
        if "w" in mode:
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, mode)

    monkeypatch.setattr(_files.Path, "open", refuse)
    assert refusal(capsys, "top-k", "a.npy", "-k", "1", "-o", "o.npz").endswith(": o.npz: Permission denied\n")


def test_a_full_disk_is_told_with_what_was_needed(monkeypatch, capsys):
    np.save("a.npy", np.arange(9.0))

    def full(*_):
        raise OSError(28, "No space left on device")

    arguments = ("top-k", "a.npy", "-k", 2, "-o", "o.npz")
    expected = ": o.npz: No space left on device, expected room for 32 bytes of values and indices\n"
    monkeypatch.setattr(dml, "top_k", None)  # it is told before anything is computed
    monkeypatch.setattr(_files.os, "posix_fallocate", full, raising=False)
    assert refusal(capsys, *arguments).endswith(expected)
    monkeypatch.delattr(_files.os, "posix_fallocate")
    monkeypatch.setattr(_files.shutil, "disk_usage", lambda path: SimpleNamespace(free=200))
    assert refusal(capsys, *arguments).endswith(expected)
    assert os.listdir() == ["a.npy"]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="files have no room of their own here")
def test_an_archive_takes_no_more_room_than_it_has_at_the_end(monkeypatch):
    a = RNG.random((300, 40))
    np.save("a.npy", a)
    sizes, top_k = [], dml.top_k

    def watched(*given, **named):
        sizes.append(sum(os.stat(name).st_blocks * 512 for name in os.listdir() if name != "a.npy"))
        return top_k(*given, **named)

    monkeypatch.setattr(dml, "top_k", watched)
    call("top-k", "a.npy", "-k", 30, "-o", "o.npz", "-q")
    same("o.npz", *top_k(a, 30))
    content = os.path.getsize("o.npz")
    assert 300 * 30 * 16 < content <= sizes[0] < content + 20_000
    with zipfile.ZipFile("o.npz") as archive:
        assert archive.testzip() is None
        assert all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
    for name in ("values", "indices"):  # aligned, so that they can be mapped where they are
        assert _files.open_source(f"o.npz:{name}").offset % 64 == 0


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_a_link_is_written_through(capsys):
    os.mkdir("far")
    np.save("a.npy", np.arange(4.0))
    np.save("i.npy", [2])
    np.save("far/o.npy", [1])
    os.symlink("far/o.npy", "o.npy")
    os.symlink("far/new.npz", "o.npz")  # which is not there yet
    call("gather", "a.npy", "i.npy", "-o", "o.npy", "-q")
    call("gather", "a.npy", "i.npy", "-o", "o.npz", "-q")
    same("far/o.npy", np.array([2.0]))
    same("far/new.npz", np.array([2.0]))
    assert (os.readlink("o.npy"), os.readlink("o.npz")) == ("far/o.npy", "far/new.npz")
    assert sorted(os.listdir("far")) == ["new.npz", "o.npy"]
    os.symlink("nowhere/o.npy", "lost.npy")
    os.symlink("a.npy", "in.npy")
    expected = "-o: found lost.npy, expected a file in a directory that exists\n"
    assert refusal(capsys, "gather", "a.npy", "i.npy", "-o", "lost.npy").endswith(expected)
    assert "the file of the input a.npy" in refusal(capsys, "gather", "a.npy", "i.npy", "-o", "in.npy")


def test_no_result_replaces_an_input(capsys):
    a, i = np.arange(4.0), np.array([2, 0])
    np.save("a.npy", a)
    np.savez("s.npz", a=a, i=i)
    os.link("a.npy", "link.npy")
    for output, source in (("a.npy", "a.npy"), ("link.npy", "a.npy"), ("s.npz", "s.npz:i"), ("./s.npz", "s.npz:i")):
        expected = f"-o: found {output.removeprefix('./')}, the file of the input {source}, expected another one"
        assert expected in refusal(capsys, "gather", "a.npy", "s.npz:i", "-o", output)
    same("a.npy", a)
    same("s.npz", a, i)
    np.save("o.npy", i)
    call("gather", "a.npy", "s.npz:i", "-o", "o.npy", "-q")  # any other file
    same("o.npy", a[i])


def test_a_bad_environment_takes_one_line(monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_DML_POOL_BYTES", "abc")
    monkeypatch.setattr(dml.memory_pool, "_limit", None)
    expected = "NUMBA_DML_POOL_BYTES: found 'abc', expected a number of bytes, 0 or more\n"
    assert refusal(capsys, "info").endswith(expected)


@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((3, 0), -1, 0), ((3, 4, 0), 1, 2), ((0, 4), 0, 0), ((0,), 0, 0), ((3, 0), 0, 1)]
)
def test_top_k_of_nothing(shape, axis, k):
    np.save("a.npy", np.zeros(shape, "f4"))
    call("top-k", "a.npy", "-k", k, "--axis", axis, "-o", "o.npz", "-q")
    same("o.npz", *dml.top_k(np.zeros(shape, "f4"), k, axis=axis, index_dtype="int64"))


def test_a_size_of_one_is_broadcast_in_every_part(small_parts):
    a, i = RNG.random((1, 64)), RNG.integers(0, 64, (400, 64))
    np.save("a.npy", a)
    np.save("i.npy", i)
    call("gather-elements", "a.npy", "i.npy", "--axis", 1, "-o", "o.npy", "-q")
    same("o.npy", dml.gather_elements(a, i, axis=1))


def test_a_bad_index_in_the_last_of_whole_tuples(capsys):
    np.save("a.npy", np.zeros((2, 3)))
    np.save("i.npy", np.array([[0, 1], [1, 7]]))
    np.save("u.npy", np.zeros(2))
    for command in (("gather-nd", "a.npy", "i.npy"), ("scatter-nd", "a.npy", "i.npy", "u.npy")):
        said = refusal(capsys, *command, "-o", "o.npy", "-q")
        assert "indices[1, 1] = 7 is out of range for axis 1 of size 3" in said


@pytest.mark.parametrize("indices", [[9, 0], [0, -4]])
def test_a_bad_index_in_a_single_tuple(indices, small_parts, capsys):
    """The error is the function's own, also where the file is taken in its order."""
    i = np.array(indices)
    for size in (3, 3000):
        a = np.zeros((size, 3)) if indices[0] else np.zeros((3, 3))
        i[0] = size + 6 if indices[0] else 0
        with pytest.raises(IndexError) as raised:
            dml.gather_nd(a, i)
        for name, array in (("a", a), ("i", i), ("u", np.float64(1))):
            np.save(f"{name}.npy", array)
        for command, *files in (("gather-nd",), ("scatter-nd", "u.npy")):
            said = refusal(capsys, command, "a.npy", "i.npy", *files, "-o", "o.npy", "-q")
            expected = str(raised.value).replace("gather_nd", command.replace("-", "_"))
            assert said == f"python -m numba_dml: {expected}\n"


@pytest.mark.parametrize("name", ["größe", "size", "\\N", "it's", "日本"])
def test_names_of_fields_in_any_script(name, monkeypatch, capsys):
    a = np.array([(1, 2.5), (3, 4.5), (5, 6.5)], [(name, "i4"), ("x", "f8")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the version that NumPy chooses
        np.save("a.npy", a)
        np.savez("a.npz", a=a)
        np.savez_compressed("c.npz", a=a)
    np.save("i.npy", [2, 0])
    for file in ("a.npy", "a.npz", "c.npz"):
        for output in ("o.npy", "o.npz"):
            call("gather", file, "i.npy", "-o", output, "-q")
            same(output, a[[2, 0]])


def test_archives_that_are_odd_or_damaged(capsys):
    x, y = np.arange(5000.0), np.arange(3.0)
    np.savez_compressed("m.npz", **{"x": x, "x.npy": y, "a:b": x + 1})
    for name, array in (("x", x), ("x.npy", y), ("a:b", x + 1)):
        call("top-k", f"m.npz:{name}", "-k", 3, "-o", "o.npz", "-q")
        same("o.npz", *dml.top_k(array, 3, index_dtype="int64"))
    np.savez_compressed("one.npz", x=x)
    content = Path("one.npz").read_bytes()
    for at in (60, len(content) // 2):
        Path("damaged.npz").write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
        assert "expected an .npz file" in refusal(capsys, "top-k", "damaged.npz", "-k", 1, "-o", "o.npz")
    np.savez("stored.npz", x=x)
    stored = Path("stored.npz").read_bytes()
    entry = stored.rfind(b"PK\1\2")
    for damaged in (
        content[:28] + (22).to_bytes(2, "little") + content[30:],  # what follows the entry's name is longer
        content[:1000] + content[2000:],
        stored[3000:],
        stored[: entry + 42] + (len(stored) - 10).to_bytes(4, "little") + stored[entry + 46 :],  # and where it begins
    ):
        Path("damaged.npz").write_bytes(damaged)
        found = refusal(capsys, "top-k", "damaged.npz", "-k", 1, "-o", "o.npz")
        assert "damaged.npz: " in found
        assert "expected an " in found
    np.save("header.npy", y)
    header = Path("header.npy")
    header.write_bytes(header.read_bytes().replace(b"{'descr'", b"{('desc:"))
    assert "as numpy.save writes it" in refusal(capsys, "top-k", "header.npy", "-k", 1, "-o", "o.npz")


def test_a_bad_index_is_named_by_its_place_among_all(small_parts, capsys):
    a = RNG.random((6, 50, 4))
    np.save("a.npy", a)
    batch, rows, elements = (RNG.integers(0, 6, shape) for shape in ((6, 70, 1), (20, 100), (80, 50, 4)))
    batch[4, 33], rows[13, 77], elements[79, 3, 1] = 50, -9, 6
    for name, i, arguments in (
        ("gather-nd", batch, {"batch_dims": 1}),
        ("gather", rows, {}),
        ("gather-elements", elements, {"axis": 0}),
    ):
        with pytest.raises(IndexError) as raised:
            getattr(dml, name.replace("-", "_"))(a, i, **arguments)
        np.save("i.npy", i)
        options = [part for key, value in arguments.items() for part in (f"--{key.replace('_', '-')}", value)]
        assert str(raised.value) in refusal(capsys, name, "a.npy", "i.npy", *options, "-o", "o.npy")
        call(name, "a.npy", "i.npy", *options, "--bounds", "clamp", "-o", "o.npy", "-q")
        same("o.npy", getattr(dml, name.replace("-", "_"))(a, i, **arguments, bounds="clamp"))
        os.unlink("o.npy")
    np.save("u.npy", elements * 1.0)
    assert "indices[79, 3, 1] = 6" in refusal(
        capsys, "scatter-elements", "a.npy", "i.npy", "u.npy", "--axis", 0, "-o", "o.npy"
    )
    assert sorted(os.listdir()) == ["a.npy", "i.npy", "u.npy"]  # nothing is left of a result


def test_blocks_cover_everything_once_in_order():
    for shape in ((), (0,), (7,), (3, 4, 5), (2, 0, 3)):
        for most in (1, 3, 6, 1000):
            places = np.arange(int(np.prod(shape))).reshape(shape)
            parts = [places[part].ravel() for part in _files.blocks(shape, most)]
            assert all(part.size <= most for part in parts)
            assert np.concatenate([*parts, []]).tolist() == places.ravel().tolist()


def test_an_old_result_stays_when_a_run_fails(capsys):
    np.save("a.npy", np.arange(4.0))
    np.save("i.npy", [9])
    np.save("o.npy", [1])
    refusal(capsys, "gather", "a.npy", "i.npy", "-o", "o.npy")
    same("o.npy", np.array([1]))
    assert sorted(os.listdir()) == ["a.npy", "i.npy", "o.npy"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["run"], "arguments are required: OP"),
        (["top-k", "a.npy", "-k", "3"], "required: -o"),
        (["top-k", "a.npy", "-k", "9", "-o", "o.npz"], "top_k: k: found 9, expected 0 to 4, the size of axis 1"),
        (["top-k", "a.npy", "-k", "1", "--axis", "2", "-o", "o.npz"], "axis: found 2, expected -2 to 1"),
        (["top-k", "a.npy", "-k", "1", "-o", "o.npy"], "expected a name that ends in .npz: there are several arrays"),
        (["top-k", "a.npy", "-k", "1", "-o", "o.csv"], "-o: found o.csv, expected a name that ends in .npy or .npz"),
        (["top-k", "a.npy", "-k", "1", "-o", "no/o.npz"], "expected a file in a directory that exists"),
        (["top-k", "a.npy", "-k", "1", "-o", "dir.npz"], "-o: found the directory dir.npz, expected a file"),
        (["top-k", "dir.npz", "-k", "1", "-o", "o.npz"], "dir.npz: found a directory, expected an .npy or .npz file"),
        (
            ["top-k", "a.npy:x", "-k", "1", "-o", "o.npz"],
            "a.npy:x: found an array's name after an .npy file, expected one only after an .npz file",
        ),
        (["top-k", "a.npy", "-k", "1", "--threads", "0", "-o", "o.npz"], "expected a whole number, 1 or more"),
        (["top-k", "none.npy", "-k", "1", "-o", "o.npz"], "none.npy: No such file or directory"),
        (["top-k", "text.npy", "-k", "1", "-o", "o.npz"], "expected an array as numpy.save writes it"),
        (["top-k", "text.npz", "-k", "1", "-o", "o.npz"], "File is not a zip file, expected an .npz file"),
        (["top-k", "text.csv", "-k", "1", "-o", "o.npz"], "neither .npy nor .npz"),
        (["top-k", "cut.npy", "-k", "1", "-o", "o.npz"], "it was cut short"),
        (["top-k", "objects.npy", "-k", "1", "-o", "o.npz"], "found Python objects"),
        (["top-k", "objects.npz", "-k", "1", "-o", "o.npz"], "objects.npz: "),
        (["top-k", "a.npy", "-k", "1", "--index-dtype", "i4,(", "-o", "o.npz"], "found 'i4,(', expected a dtype"),
        (["top-k", "complex.npy", "-k", "1", "-o", "o.npz"], "found dtype complex128"),
        (
            ["top-k", "two.npz", "-k", "1", "-o", "o.npz"],
            "found the arrays x, y, expected the name of one: two.npz:NAME",
        ),
        (["top-k", "two.npz:z", "-k", "1", "-o", "o.npz"], "found the arrays x, y"),
        (
            ["gather", "a.npy", "a.npy", "-o", "o.npz"],
            "gather: indices: found dtype float64, expected an integer dtype",
        ),
        (["scatter-nd", "a.npy", "i.npy", "i.npy", "-o", "o.npz"], "updates: found dtype int64, expected float64"),
        (["scatter-nd", "a.npy", "i.npy", "a.npy", "--bounds", "clamp", "-o", "o.npz"], "invalid choice: 'clamp'"),
        (["explain", "top-k", "--shape", "3,a", "-k", "1"], "found '3,a', expected sizes like 1000,64"),
        (["explain", "top-k", "--shape", "3", "-k", "1", "--dtype", "floaty"], "found 'floaty', expected a dtype"),
        (["explain", "top-k", "--shape", "3", "-k", "4"], "k: found 4, expected 0 to 3"),
        (["explain", "top-k", "-k", "4"], "explain: found nothing, expected INPUT, or --shape in place of files"),
        (
            ["explain", "gather", "a.npy"],
            "explain: found a.npy, expected INPUT INDICES, or --shape and --indices-shape in place of files",
        ),
        (["explain", "top-k", "a.npy", "--dtype", "int8", "-k", "4"], "explain: found a.npy --dtype, expected INPUT"),
        (["explain", "gather", "--shape", "3"], "explain: found --shape, expected INPUT INDICES, or --shape and"),
        (
            ["argmax", "a.npy", "--axis", "-1,0"],
            "--axis: expected one argument; one that begins with - is given with =",
        ),
        (["warmup", "sort"], "warmup: found 'sort', expected one of top-k, gather"),
        (["warmup", "top-k", "--dtypes", "complex64"], "found dtype complex64"),
        (["warmup", "top-k", "--jitted", "--target", "cuda"], "--jitted: found target 'cuda', expected 'cpu'"),
        (["bench", "--plot", "no/bench.png"], "expected a file in a directory that exists"),
        (["bench", "--plot", "dir.npz"], "--plot: found the directory dir.npz, expected a file"),
        (["cache", "burn"], "invalid choice: 'burn'"),
    ],
)
def test_bad_input_takes_one_line(arguments, found, capsys):
    np.save("a.npy", np.ones((3, 4)))
    np.save("i.npy", np.ones((2, 1), int))
    np.save("objects.npy", np.array([{}]))
    np.savez_compressed("objects.npz", np.array([{}]))
    np.save("complex.npy", np.ones(3) * 1j)
    np.savez("two.npz", x=np.ones(2), y=np.ones(2))
    for name in ("text.npy", "text.npz", "text.csv"):
        (__main__.Path(name)).write_text("1,2,3")
    __main__.Path("cut.npy").write_bytes(__main__.Path("a.npy").read_bytes()[:-1])
    os.mkdir("dir.npz")
    before = sorted(os.listdir())
    assert found in refusal(capsys, *arguments)
    assert sorted(os.listdir()) == before


def test_interrupt_leaves_nothing_behind(monkeypatch, capsys):
    np.save("a.npy", np.ones((3, 4)))

    def interrupted(*_, **__):
        assert len(os.listdir()) > 1
        raise KeyboardInterrupt

    monkeypatch.setattr(dml, "top_k", interrupted)
    assert main(["top-k", "a.npy", "-k", "1", "-o", "o.npz"]) == 130
    assert capsys.readouterr() == ("", "")
    assert os.listdir() == ["a.npy"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_interrupted_from_outside():
    code = """
        import signal, sys, time
        from numba_dml import __main__ as m
        import numba_dml._cli.info as info
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have it ignore
        info.collect = lambda: (print("started", flush=True), time.sleep(60))
        sys.exit(m.main(["info"]))
    """
    command = [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_ended_from_outside_it_leaves_nothing_behind(name):
    np.save("a.npy", np.ones((3, 4)))
    code = """
        import os, signal, sys, time
        import numba_dml as dml
        from numba_dml import __main__ as m
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which a runner of tests may ignore
        dml.top_k = lambda *_, **__: (print(len(os.listdir()), flush=True), time.sleep(60))
        sys.exit(m.main(["top-k", "a.npy", "-k", "1", "-o", "o.npz"]))
    """
    command = [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "2\n"
    process.send_signal(getattr(signal, name))
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 128 + getattr(signal, name)
    assert os.listdir() == ["a.npy"]


def test_no_error_names_the_package_twice(monkeypatch, capsys):
    def fail(*_, **__):
        raise MemoryError("numba_dml: no memory for what a kernel works with")

    np.save("a.npy", np.ones((3, 4)))
    monkeypatch.setattr(dml, "top_k", fail)
    said = refusal(capsys, "top-k", "a.npy", "-k", 1, "-o", "o.npz")
    assert said == "python -m numba_dml: no memory for what a kernel works with\n"


def test_info_of_a_machine_that_tells_little(monkeypatch):
    def fail(*args):
        raise OSError

    assert info.installed("numba") == numba.__version__
    assert info.installed("no-such-package") is None
    monkeypatch.setattr(Path, "read_text", fail)
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    assert info.processor() == "abacus"

    def no_layer():
        raise ValueError("Threading layer is not initialized.")

    monkeypatch.setattr(numba, "threading_layer", no_layer)
    assert info.layer() == "none (Threading layer is not initialized.)"


def test_info(capsys):
    call("info", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["numba_dml"] == dml.__version__
    assert found["threads"] >= 1
    assert found["threading_layer"] in ("omp", "tbb", "workqueue")
    assert found["cache"]["writable"] in (True, False)
    assert isinstance(found["gpu"]["usable"], bool)
    assert found["pool_bytes"] == dml.memory_pool.limit
    with dml.config(threads=1, bounds="drop"):
        call("info")
    out = capsys.readouterr().out
    assert "bounds=drop, threads=1, quiet=True" in out
    assert "\nGPU " in out
    assert [line.split()[0] for line in out.splitlines()][-2:] == ["cache", "GPU"]


def test_elements_of_files_in_fortran_order(tmp_path, monkeypatch, capsys):
    """The call runs in the order of the files, and its result has the shape that NumPy's has."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    a, indices = np.asfortranarray(rng.random((6, 4))), np.asfortranarray(rng.integers(0, 6, (6, 4)))
    np.save("a.npy", a)
    np.save("i.npy", indices.astype(">i8", order="F"))  # copied within that call
    call("gather-elements", "a.npy", "i.npy", "--axis", 0, "-o", "o.npy")
    np.testing.assert_array_equal(np.load("o.npy"), np.take_along_axis(a, indices, 0))
    capsys.readouterr()
    for name, updates in (("gather-elements", []), ("scatter-elements", ["a.npy"])):
        call("explain", name, "a.npy", "i.npy", *updates, "--axis", 0, "--json")
        found = json.loads(capsys.readouterr().out)
        assert found["outputs"] == [{"shape": [6, 4], "dtype": "float64"}]


def test_explain_compiles_and_runs_nothing(monkeypatch, capsys):
    def never(*_):
        raise AssertionError

    monkeypatch.setattr(cpu_launch, "_launch", never)
    dml.cache_clear()
    call("explain", "top-k", "--shape", "1000,5000", "--dtype", "int16", "-k", 20, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"] == [{"shape": [1000, 20], "dtype": "int16"}, {"shape": [1000, 20], "dtype": "int64"}]
    assert found["kernel"].startswith("top_k rows 16-bit integer")
    assert found["work_bytes"] == 10_000_000
    call("explain", "top-k", "--shape", "9", "-k", 3)
    out = capsys.readouterr().out
    assert "top_k list 32-bit float serial" in out
    assert "less than 131 KB" in out
    for name, kernel in (
        ("gather", "gather slices"),
        ("gather-elements", "gather 32-bit"),
        ("gather-nd", "gather slices"),
        ("scatter-elements", "scatter strips 32-bit"),
        ("scatter-nd", "scatter places slices"),
    ):
        call("explain", name, "--shape", "100x64", "--indices-shape", "100,1", *(["--axis", 1] if "l" in name else []))
        assert re.search(rf"kernel +{kernel}", capsys.readouterr().out)
    call("explain", "scatter-nd", "--shape", "9000", "--indices-shape", "9000,1")
    assert "one thread writes them sooner" in capsys.readouterr().out
    call("explain", "scatter-elements", "--shape", 1 << 18, "--indices-shape", 1 << 18, "--axis", 0)
    text = " ".join(capsys.readouterr().out.split())
    threads = numba.config.NUMBA_NUM_THREADS
    assert ("one thread writes them sooner" in text) == (threads < tuning_scatter.TUNING.alone_threads)
    assert ("threads share the copy before" in text) == (1 < threads < tuning_scatter.TUNING.alone_threads)
    call("explain", "gather", "--shape", "99x64", "--indices-shape", "800")
    part = "(neighbours are copied together, so their bytes count in part)"
    expected = f"the work counts as 87.5 KB {part}, less than 131 KB: "
    assert expected in capsys.readouterr().out
    monkeypatch.undo()
    dml.top_k(np.arange(9, dtype=np.float32), 3)  # what was explained can run


#: What some operators need besides the shapes of an input of 4 elements and of one index.
DESCRIBED = {"max_unpool": "--indices-shape 4 --result-shape 9", "one_hot": "--depth 4", "top_k": "-k 2"}


@pytest.mark.parametrize("spec", OPERATORS.values(), ids=OPERATORS)
def test_explain_needs_no_dtypes(spec, capsys):
    """Positions and lengths are integers where nothing is said of them, and all else is float32."""
    shapes = "--shape 4" + (" --indices-shape 1" if len(spec.inputs) > 1 else "")
    call("explain", spec.command, *shapes.split(), *DESCRIBED.get(spec.name, "").split(), "--json")
    found = json.loads(capsys.readouterr().out)
    integers = [name in ("indices", "lengths") for name in spec.inputs]
    assert [one["dtype"] for one in found["inputs"]] == ["int64" if one else "float32" for one in integers]


#: Calls that go each way, on eight threads.
WAYS = {
    "top_k nothing to select": "top-k --shape 5 -k 0",
    "top_k short": "top-k --shape 64x100 -k 5",
    "top_k short columns": "top-k --shape 22x54 -k 2 --axis 0",
    "top_k columns": "top-k --shape 5000x64 -k 8 --axis 0",
    "top_k list": "top-k --shape 64x1000 -k 5",
    "top_k rows": "top-k --shape 64x40000 -k 8",
    "top_k pieces": "top-k --shape 1x1000000 -k 10",
    "gather": "gather --shape 100x64 --indices-shape 100",
    "scatter": "scatter-nd --shape 100 --indices-shape 9x1",
    "scatter strips": "scatter-elements --shape 100x64 --indices-shape 100x1 --axis 1",
    "scatter places": "scatter-nd --shape 1000x64 --indices-shape 900x1",
    "scatter own": "scatter-nd --shape 100 --indices-shape 300000x1 --reduction min",
    "scatter bins": "scatter-nd --shape 4096x4096 --indices-shape 1000000x2",
}


@pytest.mark.parametrize("threads", [1, 8])
def test_explain_has_a_sentence_for_every_way(monkeypatch, threads):
    """And one that says who shares what only if there are several threads."""
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 8)
    monkeypatch.setattr(calls_top_k, "THREADS", 8)
    monkeypatch.setattr(cpu_threads, "thread_count", lambda: threads)
    sentences, shared = set(), 0
    for way, arguments in WAYS.items():
        command = ["explain", *arguments.split()]
        found = explain.explained(__main__.build_parser(command).parse_args(command))
        assert re.fullmatch(rf"{way}(| (add|min) float32| (\d+-bit|slices) .*)( serial| parallel|)", found["kernel"]), (
            way
        )
        assert found["threads"] in (1, threads)
        shared += any("threads share" in text for text in found["why"])
        assert shared == 0 or threads > 1
        assert found["threads"] > 1 or not any("threads share" in text for text in found["why"])
        sentences.add(found["why"][0])
    assert len(sentences) == len(WAYS)
    assert (shared > 0) == (threads > 1)
    # All ways that the tables know.
    tables = {"gather": dispatch_gather.TABLE, "scatter": dispatch_scatter.TABLE}
    rows = {f"{name} {row.name}".removesuffix(" general"): row for name, table in tables.items() for row in table}
    ways = {*rows} | {f"top_k {name}" for name in ("nothing to select", *(region.name for region in TABLE))}
    assert ways == WAYS.keys()


def test_explain_takes_files(capsys):
    a, i, u = RNG.random((9, 8)), RNG.integers(0, 8, (9, 3)), RNG.random((9, 3))
    np.savez("s.npz", a=np.asfortranarray(a), i=i, u=u)
    for name, given in (("top-k", "a"), ("gather-elements", "ai"), ("scatter-elements", "aiu")):
        k = ["-k", "3"] if name == "top-k" else []
        call("explain", name, *k, *(f"s.npz:{letter}" for letter in given), "--json")
        files = capsys.readouterr().out
        shapes = ["--shape", "9,8", "--dtype", "float64", "--order", "F"]
        shapes += ["--indices-shape", "9,3"] if name != "top-k" else []
        call("explain", name, *k, *shapes, "--json")
        assert files == capsys.readouterr().out


def test_bfloat16_is_a_dtype_with_ml_dtypes(monkeypatch, capsys):
    if not __main__.has("ml_dtypes"):
        pytest.skip("bfloat16 arrays come from the package ml_dtypes")
    # In a process of its own: NumPy does not know the name before somebody imports that package.
    arguments = ["explain", "top-k", "--shape", "9", "--dtype", "bfloat16", "-k", "2", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-m", "numba_dml", *arguments], env=environment, capture_output=True)
    assert json.loads(done.stdout)["outputs"][0]["dtype"] == "bfloat16"
    call("warmup", "gather-elements", "--dtypes", "bfloat16", "-q")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert "pip install ml_dtypes" in refusal(capsys, "warmup", "top-k", "--dtypes", "bfloat16")


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float4_e2m1fn", "int4"])
def test_dtypes_of_ml_dtypes_come_back_as_they_were(name, monkeypatch, capsys):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the dtypes come from the package ml_dtypes")
    a = np.arange(-4, 4).reshape(4, 2).astype(getattr(ml_dtypes, name))
    with _files.Results(Path("a.npy")) as results:
        results.add("a", a.shape, a.dtype)
        results.make()
        results.map("a")[...] = a
    np.save("i.npy", [2, 0])
    for file, method in (("s.npz", zipfile.ZIP_STORED), ("c.npz", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.write("a.npy")
    for file in ("a.npy", "s.npz", "c.npz"):
        for output in ("o.npy", "o.npz"):
            call("gather", file, "i.npy", "-o", output, "-q")
            same(output, a[[2, 0]])
    # In a process of its own: NumPy does not know the name before somebody imports that package.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    arguments = ["explain", "gather", "a.npy", "i.npy", "--json"]
    done = subprocess.run([sys.executable, "-m", "numba_dml", *arguments], env=environment, capture_output=True)
    assert json.loads(done.stdout)["outputs"][0]["dtype"] == name
    call("explain", "gather", "--shape", "4,2", "--dtype", f"ml_dtypes.{name}", "--indices-shape", "2")
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert f"{name} arrays need the package ml_dtypes: pip install ml_dtypes" in refusal(
        capsys, "gather", "a.npy", "i.npy", "-o", "o.npy"
    )


def test_a_dtype_that_ml_dtypes_has_not(capsys):
    pytest.importorskip("ml_dtypes", reason="the dtypes come from the package ml_dtypes")
    assert "found float8_no, expected a dtype of the installed ml_dtypes" in refusal(
        capsys, "explain", "gather", "--shape", 3, "--indices-shape", 2, "--dtype", "float8_no"
    )


def test_bfloat16_sums_in_files_go_on(capsys):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 arrays come from the package ml_dtypes")
    np.save("a.npy", np.arange(6, dtype="f4"))
    call("cumulative-sum", "a.npy", "--result-dtype", "bfloat16", "-o", "s.npy", "-q")
    call("cumulative-sum", "s.npy", "-o", "t.npy", "-q")
    expected = dml.cumulative_sum(np.arange(6, dtype="f4"), dtype=ml_dtypes.bfloat16)
    same("t.npy", dml.cumulative_sum(expected))


def test_warmup_is_idempotent_and_covers_every_way(capsys, monkeypatch):
    ways = set()
    for function, cases in warmup.CASES.items():
        for case in cases:
            kind = np.dtype("f4")
            planned = run.planned(function, warmup._layouts(kind, case), warmup._parameters(kind, case))
            ways.add(" ".join(planned.kernel.split()[:2]))
    assert {f"top_k {way}" for way in ("short", "columns", "rows", "pieces")} < ways
    assert {"gather 32-bit", "gather slices"} < ways
    assert {"scatter 32-bit", "scatter strips", "scatter places", "scatter bins", "scatter add"} < ways
    call("warmup", "gather-elements", "--dtypes", "float32")
    capsys.readouterr()
    call("warmup", "gather-elements", "--dtypes", "float32")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["gather_elements", "0"]


def calls_of_many_shapes(function, count):
    """Return calls of an operator whose shapes are random, from single elements to some hundred MB."""
    rng, calls = np.random.default_rng(2), []

    def size(most):
        return int(2 ** rng.uniform(0, np.log2(most)))

    while len(calls) < count:
        shape = tuple(size(1 << 22) for _ in range(rng.integers(1, 4)))
        axis, points = int(rng.integers(len(shape))), size(1 << 18)
        reduction = {"reduction": ("none", "none", "add", "min")[rng.integers(4)]} if "scatter" in function else {}
        parameters, indices, updates = {"axis": axis, **reduction}, (points,), ()
        if function.endswith("elements"):
            updates = indices = (*shape[:axis], size(1 << 12), *shape[axis + 1 :])
        elif function.startswith(("cumulative", "arg")):
            indices = ()
        elif function.startswith("nonzero"):
            parameters, indices = {}, ()
        elif function.endswith("nd"):
            taken = int(rng.integers(1, len(shape) + 1))
            parameters, indices, updates = reduction, (points, taken), (points, *shape[taken:])
        elif function == "one_hot":
            parameters["depth"], indices, shape = size(1 << 12), shape, ()
        elif function == "reverse_subsequences":
            indices = (*shape[:axis], 1, *shape[axis + 1 :])
        elif function == "max_unpool":
            parameters, indices = {"shape": tuple(2 * one for one in shape)}, shape
        if function == "top_k":
            parameters["k"], indices = min(size(2 * shape[axis]), shape[axis]), ()
        names = ("int64", "int32")
        if max(np.prod(one, dtype=float) for one in (shape, indices, updates)) < 1 << 26:
            case = warmup.Case(shape, indices, updates if reduction else (), parameters)
            calls.append(case._replace(index_dtype=names[rng.integers(2)]))
    return calls


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("l2", ["LARGE_L2", "SMALL_L2"])
def test_warmup_covers_all_shapes(threads, l2, monkeypatch):
    """It compiles whatever calls of its dtypes need, and so does `warmup` of one operator."""
    kernels = set()

    def launch(kernel, arrays, driver, prepare):
        kernels.add((kernel.__name__, *map(str, arrays)))

    monkeypatch.setattr(cpu_launch, "_launch", launch)
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    monkeypatch.setattr(calls_top_k, "THREADS", threads)
    monkeypatch.setattr(calls_gather, "TUNING", getattr(tuning_gather, l2))
    listed = [((2, 3), 1, -1), ((64, 100), 5, -1), ((1000, 1000), 5, 0), ((64, 40_000), 50, -1), ((20, 5000), 500, -1)]
    listed += [((1_000_000,), 5, -1), ((1_000_000,), 1, -1), ((22, 54), 2, 0)]
    for function, cases in warmup.CASES.items():
        kernels.clear()
        for kind in map(np.dtype, ("f4", "i8")):
            for case in cases:
                warmup._compile(function, kind, case)
        assert len(kernels) > 1
        warm = kernels.copy()
        more = [warmup.Case(shape, parameters={"k": k, "axis": axis}) for shape, k, axis in listed]
        for case in [*calls_of_many_shapes(function, 200), *(more if function == "top_k" else ())]:
            for kind in map(np.dtype, ("f4", "i8")):
                warmup._compile(function, kind, case)
                assert kernels == warm, case


def test_a_family_without_a_way_by_parts_runs_on_whole_arrays(tmp_path, monkeypatch):
    for family in ("gather", "top_k"):
        monkeypatch.delitem(run._WAYS, family)
    a, i = np.arange(12.0).reshape(3, 4), np.array([2, 0])
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "i.npy", i)
    files = [str(tmp_path / name) for name in ("a.npy", "i.npy")]
    assert main(["gather", *files, "--axis", "1", "-o", str(tmp_path / "o.npy"), "-q"]) == 0
    assert np.load(tmp_path / "o.npy").tolist() == a[:, i].tolist()
    assert main(["top-k", files[0], "-k", "2", "-o", str(tmp_path / "o.npz"), "-q"]) == 0
    with np.load(tmp_path / "o.npz") as found:
        assert found["values"].tolist() == [[3, 2], [7, 6], [11, 10]]
        assert found["indices"].tolist() == [[3, 2]] * 3


@pytest.mark.slow
def test_after_warmup_nothing_compiles(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_DML_QUIET": "1"}
    code = """
import numpy as np, numba_dml as dml
from numba.core.dispatcher import Dispatcher
from numba_dml.cpu import drivers
from numba_dml.cpu.dispatch.top_k import TABLE

x = np.random.default_rng(1).random(2_600_000, np.float32)
for shape, k, axis in ((2, 3), 2, 1), ((64, 100), 5, 1), ((1000, 1000), 5, 0), ((64, 40_000), 50, 1):
    dml.top_k(x[: np.prod(shape)].reshape(shape), k, axis=axis)
for shape, k in ((20, 5000), 500), ((1_000_000,), 9), ((900, 8), 1), ((300, 24), 4):
    dml.top_k(x[: np.prod(shape)].reshape(shape), k, axis=0 if k == 4 else -1)
kernels = [region.kernel for region in TABLE]
found = {value for value in [*vars(drivers).values(), *kernels] if isinstance(value, Dispatcher)}
print(all(sum(d.stats.cache_hits.values()) for d in kernels))
print([d for d in found if sum(d.stats.cache_misses.values())])
"""
    commands = ["-m", "numba_dml", "warmup", "top-k", "--dtypes", "float32", "-q"], ["-c", code]
    outputs = [subprocess.run([sys.executable, *c], env=environment, capture_output=True, text=True) for c in commands]
    assert [done.stderr for done in outputs] == ["", ""]
    assert outputs[1].stdout.splitlines() == ["True", "[]"]


@pytest.mark.slow
def test_warmup_compiles_what_jitted_code_runs(capsys):
    from numba_dml.cpu.jitted import entries
    from numba_dml.cpu.kernels.gather import gather_kernel
    from numba_dml.cpu.kernels.scatter import scatter_kernel
    from numba_dml.cpu.kernels.top_k_alone import alone_kernel

    call("warmup", "top-k", "gather", "scatter-nd", "--dtypes", "float32", "--jitted")
    call("warmup", "gather", "--dtypes", "float16", "--jitted")  # which jitted code has not

    kernels = *(region.kernel for region in TABLE), gather_kernel, scatter_kernel, alone_kernel
    dispatchers = *kernels, entries.top_k_entry, entries.move_entry
    before = [len(one.signatures) for one in dispatchers]

    @numba.njit
    def jitted(a, i):
        return (
            dml.top_k(a, 2),
            dml.top_k(a.reshape(2, 2), 1),
            dml.gather(a, i),
            dml.scatter_nd(a, i.reshape(2, 1), a[:2]),
        )

    jitted(np.arange(4, dtype=np.float32), np.array([3, 0]))
    assert [len(one.signatures) for one in dispatchers] == before
    assert min(before) > 0


@pytest.mark.slow
def test_warmup_compiles_scans_and_searches_of_jitted_code(capsys):
    from numba_dml.cpu.jitted import argextreme, scan

    call("warmup", "cumulative-sum", "argmin", "--dtypes", "int16", "--jitted")
    call("warmup", "cumulative-sum", "--dtypes", "float16", "--jitted")  # which jitted code has not
    dispatchers = scan.entry, scan.lines_kernel, argextreme.entry, argextreme.lines_kernel
    before = [len(one.signatures) for one in dispatchers]

    @numba.njit
    def jitted(a):
        return dml.cumulative_sum(a), dml.argmin(a)

    jitted(np.arange(4, dtype=np.int16))
    assert [len(one.signatures) for one in dispatchers] == before
    assert min(before) > 0


@pytest.mark.slow
def test_warmup_compiles_the_small_operators_of_jitted_code(capsys):
    from numba_dml.cpu.jitted import max_unpool, one_hot, reverse_subsequences
    from numba_dml.cpu.kernels.one_hot import one_hot_kernel
    from numba_dml.cpu.kernels.reverse_subsequences import reverse_kernel

    call("warmup", "one-hot", "reverse-subsequences", "max-unpool", "--dtypes", "int16", "--jitted")
    dispatchers = one_hot.entry, reverse_subsequences.entry, max_unpool.entry, one_hot_kernel, reverse_kernel
    before = [len(one.signatures) for one in dispatchers]

    @numba.njit
    def jitted(a, i):
        return dml.one_hot(i, 5, dtype=np.int16), dml.reverse_subsequences(a, i[:1]), dml.max_unpool(a, i, (9,))

    hot, backwards, unpooled = jitted(np.arange(3, dtype=np.int16), np.array([2, 0, 1]))
    assert hot.sum() == 3
    assert backwards.tolist() == [1, 0, 2]
    assert unpooled.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0]
    assert [len(one.signatures) for one in dispatchers] == before
    assert min(before) > 0


def test_cache_clear_takes_ours_alone(monkeypatch, capsys, tmp_path):
    folders = [tmp_path / "kernels", tmp_path / "moves"]
    for folder in folders:
        folder.mkdir()
        for name in ("a.nbi", "a.1.nbc", "a.cubin", "a.nbi.lock", "mine.txt"):
            (folder / name).write_text("12345")
    monkeypatch.setattr(cache, "places", lambda target: folders if target == "cpu" else [])
    call("cache")
    cpu_line, cuda_line = capsys.readouterr().out.splitlines()
    assert "4 kernels, 40 bytes" in cpu_line
    assert "no directory can be written" in cuda_line
    call("cache", "clear")
    assert capsys.readouterr().out == "removed 4 kernels, 40 bytes\n"
    assert [os.listdir(folder) for folder in folders] == [["mine.txt"], ["mine.txt"]]
    (folders[1] / "a.1.nbc").write_text("12345")
    call("cache", "clear", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["cpu"] == {"directory": str(tmp_path), "removed": 1, "removed_bytes": 5}
    assert found["cuda"] == {"directory": None, "removed": 0, "removed_bytes": 0}


def test_the_files_of_the_cache(tmp_path):
    """Numba has a directory for each folder of sources. What is damaged is made anew, and all of it can be cleared."""
    code = "import numpy as np, numba_dml as dml; print(dml.gather(np.ones((3, 40), 'f4'), [0]).sum())"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def call():
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == "40.0", done.stderr
        assert "disk cache" not in done.stderr
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ic]")}

    whole = call()
    for pattern in ("gather*.nbi", "gather*.nbc"):
        for path in tmp_path.rglob(pattern):
            path.write_bytes(path.read_bytes()[:50])
        repaired = call()
        assert repaired.keys() == whole.keys()
        assert repaired != whole
        assert call() == repaired
        whole = repaired
    kept = [path for path in whole if path.suffix == ".nbc"]
    assert len({path.parent for path in kept}) > 1
    command = [sys.executable, "-m", "numba_dml", "cache"]
    shown = json.loads(subprocess.run([*command, "--json"], env=environment, check=True, capture_output=True).stdout)
    assert shown["cpu"]["kernels"] == len(kept)
    assert Path(shown["cpu"]["directory"]) == tmp_path
    subprocess.run([*command, "clear"], env=environment, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_without_a_standard_output(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    for command in ("top-k a.npy -k 2 -o b.npz", "info", "cache", "explain top-k --shape 9 -k 2"):
        run, quiet = f"exec {sys.executable} -m numba_dml {command} >&-", {**os.environ, "NUMBA_DML_QUIET": "1"}
        done = subprocess.run(["sh", "-c", run], cwd=tmp_path, env=quiet, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
    assert np.load(tmp_path / "b.npz")["values"].tolist() == [5, 4]


def test_warmup_fails_where_nothing_can_be_kept(tmp_path, monkeypatch, capsys):
    from numba_dml._jit import compile as jit_compile

    monkeypatch.setattr(warmup, "_compile", lambda *_: jit_compile.warn_uncached("its kernels", "the disk is full"))
    assert main(["warmup", "gather", "--dtypes", "float32", "-q"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("numba-dml warmup: numba_dml compiles its kernels anew in every process: the disk is full.")


@pytest.mark.parametrize("library", bench.LIBRARIES)
def test_bench_measures_the_same_of_all(library, monkeypatch):
    if not __main__.has(library) or not __main__.has(bench.NEEDED.get(library, library)):
        pytest.skip(f"{library} is not installed")
    arrays = bench._arrays(100)
    arrays["places"][:] = np.argsort(RNG.random(arrays["places"].shape), 1)  # each place once: no order of updates
    results = zip(bench.CALLS[bench.OURS](arrays), bench.CALLS[library](arrays), bench.CASES, strict=True)
    for ours, theirs, case in results:
        found, expected = theirs(), ours()
        if case.startswith("top_k") or library == "onnxruntime":  # of a pair, or a list of one, the first
            found, expected = found[0], expected[0] if case.startswith("top_k") else expected
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6, err_msg=case)
    monkeypatch.setattr(bench, "_arrays", lambda: arrays)
    monkeypatch.setattr(bench, "BUDGET", 0)
    assert min(bench.measure(library)) > 0


def test_bench_prints_and_draws(monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra cli")
    monkeypatch.setattr(bench, "LIBRARIES", ("numba_dml", "numpy"))
    monkeypatch.setattr(bench, "_apart", lambda name: [0.001 * (len(name) + i) for i in range(len(bench.CASES))])
    monkeypatch.setattr(bench._Load, "others", lambda load: 0.0)
    call("bench", "--plot", "bench.png")
    out = capsys.readouterr().out
    assert all(case in out for case in bench.CASES)
    assert "numpy 0.56x" in out
    assert "NumPy's top-k" in out
    assert "PyTorch" not in out  # which was not measured
    assert "JAX" not in out
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    call("bench", "--json")
    assert len(json.loads(capsys.readouterr().out)["seconds"]) == len(bench.CASES)


@pytest.mark.parametrize(("busy", "said"), [(1.2, False), (2.0, True)])
def test_bench_tells_of_a_busy_machine(busy, said, monkeypatch, capsys):
    """By the two turns of each library."""
    monkeypatch.setattr(bench, "LIBRARIES", ("numba_dml", "numpy"))
    turns = iter([1.0, 1.0, busy, busy])
    monkeypatch.setattr(bench, "_apart", lambda name: [next(turns)] * len(bench.CASES))
    monkeypatch.setattr(bench._Load, "others", lambda load: 0.0)
    call("bench", "--json")
    out, err = capsys.readouterr()
    assert ("times of the two turns differ by 2.0x" in err) is said
    found = json.loads(out)
    assert (found["busy"], found["turns_differ_by"]) == (said, busy)
    assert all(case["numpy"] == 1.0 for case in found["seconds"])


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="this system tells no load")
@pytest.mark.parametrize(
    ("before", "after", "own", "others"),
    [(0, 1, 120, 0), (0, 1.4, 120, 0.8), (0, 6, 120, 10), (9, 4.5, 0, 0), (9, 9, 60, 8)],
)
def test_bench_tells_of_threads_beside_its_own(before, after, own, others, monkeypatch, capsys):
    """By the load of the last minute, without what it was before and without its own threads."""
    monkeypatch.setattr(bench, "LIBRARIES", ("numba_dml", "numpy"))
    monkeypatch.setattr(bench, "_apart", lambda name: [1.0] * len(bench.CASES))
    monkeypatch.setattr(info, "cores", lambda: 4)
    seconds = 60 * np.log(2)  # in which half of a load fades away
    clock, loads = iter([100.0, 100.0 + seconds]), iter([before, after])
    spent = iter([5.0, 5.0 + own / 60 * seconds])
    monkeypatch.setattr(bench, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(bench.os, "getloadavg", lambda: (next(loads), 0, 0))
    monkeypatch.setattr(bench.os, "times", lambda: SimpleNamespace(children_user=next(spent), children_system=1.0))
    call("bench", "--json")
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["other_threads"] == pytest.approx(others)
    assert (f"{found['other_threads']} other threads ran or waited" in err) == (found["other_threads"] > 1)
    assert found["busy"] == (found["other_threads"] > 1)


@pytest.mark.parametrize("exists", [False, True])
def test_a_picture_that_cannot_be_written_is_refused_at_once(exists, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra cli")
    os.mkdir("ro")
    if exists:
        __main__.Path("ro/x.png").touch()
    closed = __main__.Path("ro/x.png" if exists else "ro")
    monkeypatch.setattr(_terminal.os, "access", lambda path, mode: (path, mode) != (closed, os.W_OK))
    monkeypatch.setattr(bench, "_apart", None)
    monkeypatch.setattr("numba_dml._cli.digits.load_digits", None)
    expected = f"--plot: found {__main__.Path('ro/x.png')}, expected a file that can be written\n"
    for command in ("bench", "demo"):
        assert refusal(capsys, command, "--plot", "ro/x.png").endswith(expected)


def test_the_picture_has_points(monkeypatch):
    """A bar would have to start somewhere, and a logarithmic axis has no zero."""
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib comes with the extra cli")
    drawn = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda figure, path, dpi: drawn.append(figure))
    bench.save_picture(__main__.Path("x.png"), ["numba_dml", "numpy"], {"numba_dml": [1.0] * 7, "numpy": [2.0] * 7})
    (axes,) = drawn[0].axes
    points = {line.get_label(): list(line.get_xdata()) for line in axes.lines if line.get_marker() == "o"}
    assert points == {"numba_dml": [1.0] * 7, "numpy": [2.0] * 7}
    assert list(axes.patches) == []


def test_libraries_agree_in_the_benchmark(monkeypatch):
    arrays = {name: a[:300] for name, a in bench._arrays().items()}
    arrays |= {"rows": arrays["rows"] % 300, "places": arrays["places"] % 300, "pairs": arrays["pairs"] % 300}
    for ours, theirs in zip(bench._numba_dml(arrays), bench._numpy(arrays), strict=True):
        one, other = ours(), theirs()
        pairs = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
        for mine, peers in pairs:
            np.testing.assert_allclose(mine, peers, rtol=1e-5)


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


def test_tables_and_progress_on_a_terminal(monkeypatch):
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    _terminal.print_table(["name", "count"], [["one", "1"], ["[b]two", "22"]], right=["count"])
    assert all(word in out.text for word in ("name", "[b]two", "22"))
    with _terminal.Progress("working", 4) as shown:
        shown.advance(3, "nearly")
    assert "working" in err.text
    assert "nearly: 75 %" in err.text


def test_facts_go_on_below_themselves_on_a_terminal(monkeypatch):
    facts = [("why", "a line that is longer than the terminal"), ("", "/a/path/that/is/too/long")]
    monkeypatch.setenv("COLUMNS", "24")
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    _terminal.print_facts(facts)
    assert out.text == "why  a line that is\n     longer than the\n     terminal\n     /a/path/that/is/too/long\n"
    out.text = ""
    monkeypatch.setattr(out, "isatty", lambda: False)
    _terminal.print_facts(facts)
    assert out.text == "why  a line that is longer than the terminal\n     /a/path/that/is/too/long\n"


def test_every_command_has_help_with_examples(capsys):
    commands = [spec.command for spec in OPERATORS.values()]
    operators = [f"{command} {name}" for command in ("run", "explain") for name in commands]
    for name in (*commands, *__main__.COMMANDS, *operators, ""):
        with pytest.raises(SystemExit) as stopped:
            main([*name.split(), "--help"])
        assert stopped.value.code == 0
        out = capsys.readouterr().out
        assert "usage:" in out
        lines = out.split("\nexample", 1)[1].splitlines()[1:]
        assert lines
        for line in lines:
            program, *arguments = line.split()
            assert program == "numba-dml"
            assert name in line
            assert len(line) <= 80
            if "--help" not in arguments:
                assert "run" in __main__.build_parser(arguments).parse_args(arguments)


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"numba_dml {dml.__version__}\n"
