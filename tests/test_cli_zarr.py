"""The operators' commands on zarr stores: the results are those of the calls in memory, bit by bit."""

import os
import sys

import numpy as np
import pytest

import numba_dml as dml
from numba_dml import __main__
from numba_dml.__main__ import main
from numba_dml._cli import stores
from numba_dml._core.spec import OPERATORS

from .test_cli import Terminal, call, random_call, refusal

zarr = pytest.importorskip("zarr", reason="zarr comes with the extra dask")
dask = pytest.importorskip("dask", reason="dask comes with the extra dask")

pytestmark = pytest.mark.cpu

RNG = np.random.default_rng(23)


@pytest.fixture(autouse=True)
def quiet_workers(quiet, monkeypatch):
    """Say nothing of compilations in other processes either; this one has read its environment."""
    monkeypatch.setenv("NUMBA_DML_QUIET", "1")


def save(path, array, chunks=None):
    stored = zarr.open_array(path, mode="w", shape=array.shape, chunks=chunks or array.shape, dtype=array.dtype)
    stored[...] = array


def same(found, expected):
    found = np.asarray(found[...])
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.tobytes() == expected.tobytes()


def scores():
    a = RNG.integers(-9, 9, (40, 100)).astype("f4")
    a[RNG.random(a.shape) < 0.1] = np.nan
    a[RNG.random(a.shape) < 0.1] = -0.0
    return a


def random_call_of_any(rng, function):
    """Return the arrays of a random call, its required arguments, the same as options, and the others."""
    if function not in ("one_hot", "reverse_subsequences", "max_unpool"):
        arrays, arguments = random_call(rng, function)
        return (arrays, (1,), ["-k", 1], arguments) if function == "top_k" else (arrays, (), [], arguments)
    shape = tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())
    a, axis = rng.integers(-9, 9, shape).astype("f4"), int(rng.integers(-len(shape), len(shape)))
    if function == "one_hot":
        return [rng.integers(-4, 4, shape)], (4,), ["--depth", 4], {"axis": axis}
    if function == "max_unpool":
        indices, larger = rng.integers(0, a.size, shape), (*shape[:-1], 2 * shape[-1])
        return [a, indices], (larger,), ["--result-shape", ",".join(map(str, larger))], {}
    sizes = [1 if d == axis % len(shape) else n for d, n in enumerate(shape)]
    return [a, rng.integers(0, shape[axis] + 1, sizes)], (), [], {"axis": axis}


@pytest.mark.parametrize("function", OPERATORS)
def test_commands_return_what_functions_do(function):
    """Of stores with any chunks, beside files, into a store or a file."""
    rng = np.random.default_rng(7)
    spec = OPERATORS[function]
    for n in range(12):
        arrays, required, options, arguments = random_call_of_any(rng, function)
        names = []
        for number, array in enumerate(arrays):
            names.append(f"{n}-{number}.{'zarr' if not number or rng.random() < 0.5 else 'npy'}")
            if names[-1].endswith(".zarr"):
                save(names[-1], array, tuple(rng.integers(1, array.shape[d] + 1) for d in range(array.ndim)))
            else:
                np.save(names[-1], array)
        options += [f"--{key.replace('_', '-')}={value}" for key, value in arguments.items()]
        output = f"{n}-o.{'zarr' if n % 3 else 'npz'}"
        call("run", spec.command, *names, *options, "-o", output, "-q", "--scheduler", "synchronous")
        expected = getattr(dml, function)(*arrays, *required, **arguments)
        found = zarr.open(output, mode="r") if n % 3 else np.load(output)
        if function == "top_k":
            assert sorted(found) == ["indices", "values"]
            same(found["values"], expected.values)
            same(found["indices"], expected.indices)
        else:
            same(found if n % 3 else found[spec.outputs[-1]], expected)
    assert not [name for name in os.listdir() if name.endswith(".tmp")]


@pytest.mark.parametrize(
    "options", [("--threads", 2), ("--scheduler", "processes"), ("--workers", 2, "--memory-limit", "1GB")]
)
def test_schedulers(options, capsys):
    a = scores()
    save("a.zarr", a, (9, 30))
    np.savez_compressed("i.npz", i=RNG.integers(0, 40, 50))
    call("top-k", "a.zarr", "-k", 40, "-o", "o.zarr", *options)
    out, err = capsys.readouterr()
    assert out.startswith("o.zarr: values (40, 40) float32, indices (40, 40) int64; 16 KB in ")
    assert err == ""
    found, expected = zarr.open("o.zarr", mode="r"), dml.top_k(a, 40)
    same(found["values"], expected.values)
    same(found["indices"], expected.indices)
    if options[0] != "--threads":
        call("gather", "a.zarr", "i.npz", "-o", "o.npy", "-q", *options)
        same(np.load("o.npy"), dml.gather(a, np.load("i.npz")["i"]))


def test_arrays_of_groups_and_chunks_of_results():
    a = scores()
    zarr.open_group("g.zarr", mode="w")
    zarr.open_group("plain", mode="w")
    save("g.zarr/a", a, (9, 30))
    save("g.zarr/i", np.array([3, 39, 3, 0, 7]), (2,))
    save("plain/only", a, (9, 30))
    for number, name in enumerate(("g.zarr:a", "g.zarr/a", "plain", "plain/only")):
        call("gather", name, "g.zarr:i", "--axis", 1, "-o", f"{number}.zarr", "-q")
        found = zarr.open(f"{number}.zarr", mode="r")
        same(found, dml.gather(a, np.array([3, 39, 3, 0, 7]), axis=1))
        assert found.chunks[0] == 9
    np.save("a.npy", a)  # a store may be the output alone
    call("gather", "a.npy", "g.zarr:i", "-o", "only.zarr", "-q")
    same(zarr.open("only.zarr", mode="r"), a[[3, 39, 3, 0, 7]])


@pytest.mark.filterwarnings("ignore:The data type")  # zarr's, of strings of bytes
@pytest.mark.parametrize("options", [(), ("--scheduler", "processes")])
def test_results_keep_zeros_with_a_sign_and_strings_their_size(options):
    """zarr leaves out chunks of zeros if it may, and makes a string of an array without dimensions."""
    a = np.full((3, 2), complex(-0.0, -0.0), "c8")
    fields = np.array([(-0.0, 0)] * 3, [("x", "f4"), ("y", "i4")])
    for array in (a, fields):
        np.save("a.npy", array)
        np.save("i.npy", np.array([2, 0]))
        call("gather", "a.npy", "i.npy", "-o", f"{array.ndim}.zarr", "-q", *options)
        same(zarr.open(f"{array.ndim}.zarr", mode="r"), array[[2, 0]])
    text, update = np.array([b"a", b"b", b"c"], "S3"), np.array(b"zz", "S3")
    save("text.zarr", text)
    save("update.zarr", update)
    np.save("i.npy", np.array([1]))
    call("scatter-nd", "text.zarr", "i.npy", "update.zarr", "-o", "o.npy", "-q", *options)
    same(np.load("o.npy"), dml.scatter_nd(text, np.array([1]), update))


def test_few_classes_are_read_a_chunk_at_a_time():
    """Indices that are the data are not those of other data, which are read before."""
    indices = RNG.integers(0, 5, (10, 4))
    save("classes.zarr", indices, (3, 4))
    call("one-hot", "classes.zarr", "--depth", 5, "-o", "hot.zarr")
    found = zarr.open_array("hot.zarr", mode="r")
    assert found.chunks == (3, 4, 5)
    same(found, dml.one_hot(indices, 5))


def test_large_indices_are_read_a_chunk_at_a_time(monkeypatch):
    """Where they have more bytes than a part, and with the same error as in memory."""
    monkeypatch.setattr(stores, "MEGABYTE", 100)
    a, i = scores(), RNG.integers(0, 40, (70, 5))
    save("a.zarr", a, (9, 30))
    np.save("i.npy", i)
    call("gather", "a.zarr", "i.npy", "-o", "o.zarr", "-q", "--part-mb", 1)
    same(zarr.open("o.zarr", mode="r"), dml.gather(a, i))


def test_progress_is_for_terminals(monkeypatch):
    save("a.zarr", scores(), (9, 30))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    call("top-k", "a.zarr", "-k", 1, "-o", "quiet.zarr", "-q")
    assert terminal.text == ""
    call("top-k", "a.zarr", "-k", 1, "-o", "o.zarr")
    assert "100%" in terminal.text


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["a.zarr", "i.npy", "-o", "o.csv"], "-o: found o.csv, expected a name that ends in .npy or .npz (or .zarr,"),
        (["a.zarr", "i.npy", "-o", "a.zarr"], "-o: found a.zarr, which exists, expected a new name"),
        (["a.zarr", "i.npy", "-o", "i.npy"], "-o: found i.npy, the file of the input i.npy, expected another one"),
        (["a.zarr", "i.npy", "-o", "no/o.zarr"], "expected a file in a directory that exists"),
        (["none.zarr", "i.npy", "-o", "o.zarr"], "none.zarr: No such file or directory"),
        (["a.zarr", "i.npy", "-o", "a.zarr/o.zarr"], "-o: found a.zarr/o.zarr, inside of the store a.zarr, expected"),
        (["a.zarr", "i.npy", "-o", "a.zarr/o.npy"], "-o: found a.zarr/o.npy, inside of the store a.zarr, expected"),
        (["empty.zarr", "i.npy", "-o", "o.zarr"], "empty.zarr: found a directory without zarr's metadata"),
        (["bad.zarr", "i.npy", "-o", "o.zarr"], "expected a zarr array or group"),
        (["g.zarr", "i.npy", "-o", "o.zarr"], "g.zarr: found the arrays x, y, expected the name of one: g.zarr:NAME"),
        (["g.zarr:z", "i.npy", "-o", "o.zarr"], "g.zarr:z: found the arrays x, y, expected the name of one"),
        (["a.zarr:z", "i.npy", "-o", "o.zarr"], "a.zarr:z: found an array, not a group, at a.zarr"),
        (["a.zarr", "b.npy", "-o", "o.zarr"], "gather: indices[1, 2] = 47 is out of range for axis 0 of size 40"),
        (["a.zarr", "a.zarr", "-o", "o.zarr"], "gather: indices: found dtype float32, expected an integer dtype"),
        (["a.zarr", "i.npy", "-o", "o.zarr", "--target", "cuda"], "--target: found cuda, expected cpu"),
        (["a.zarr", "i.npy", "-o", "o.zarr", "--workers", "0"], "expected a whole number, 1 or more"),
        (
            ["a.zarr", "i.npy", "-o", "o.zarr", "--workers", "1", "--threads", "1"],
            "--threads: found --workers beside it",
        ),
        (["a.zarr", "i.npy", "-o", "o.zarr", "--memory-limit", "1GB"], "--memory-limit: found no --workers"),
        (
            ["a.zarr", "i.npy", "-o", "o.zarr", "--workers", "1", "--memory-limit", "x"],
            "--memory-limit: found 'x', expected a size like 2GB, 500 MB or more",
        ),
        (
            ["a.zarr", "i.npy", "-o", "o.zarr", "--workers", "1", "--memory-limit", "9MB"],
            "found '9MB', expected a size",
        ),
        (["i.npy", "i.npy", "-o", "o.npy", "--workers", "1"], "--workers: found 1, expected a zarr store among"),
        (["wide.npy", "i.npy", "-o", "o.zarr"], "expected .npy or .npz: zarr cannot hold"),
    ],
)
def test_bad_input_takes_one_line(arguments, found, capsys):
    save("a.zarr", scores(), (9, 30))
    zarr.open_group("g.zarr", mode="w")
    for name in "xy":
        save(f"g.zarr/{name}", np.arange(40))
    np.save("i.npy", np.array([[3, 1, 2], [3, 9, 2]]))
    np.save("b.npy", np.array([[3, 1, 2], [3, 9, 47]]))
    np.save("wide.npy", np.zeros(40, [("x", "V3"), ("y", "M8[s]")]))
    os.mkdir("empty.zarr")
    os.mkdir("bad.zarr")
    (__main__.Path("bad.zarr") / "zarr.json").write_text("{")
    before = sorted(os.listdir())
    assert found in refusal(capsys, "gather", *arguments)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("scheduler", ["processes", "threads"])
def test_a_bad_index_is_the_functions_own_error(scheduler, capsys):
    save("a.zarr", scores(), (9, 30))
    save("i.zarr", np.array([[3, 1, 2], [3, 9, 47]]), (1, 2))
    arguments = ("gather", "a.zarr", "i.zarr", "--scheduler", scheduler, "--part-mb", 1, "-o", "o.npy")
    expected = "python -m numba_dml: gather: indices[1, 2] = 47 is out of range for axis 0 of size 40\n"
    assert refusal(capsys, *arguments) == expected
    assert sorted(os.listdir()) == ["a.zarr", "i.zarr"]


def test_interrupt_leaves_nothing_behind(monkeypatch, capsys):
    import dask.array as da

    save("a.zarr", scores(), (9, 30))

    def interrupted(*_, **__):
        assert len(os.listdir()) > 1
        raise KeyboardInterrupt

    monkeypatch.setattr(da, "store", interrupted)
    assert main(["top-k", "a.zarr", "-k", "1", "-o", "o.zarr"]) == 130
    assert os.listdir() == ["a.zarr"]


@pytest.mark.parametrize("package", ["dask", "zarr"])
def test_a_missing_extra_is_named(package, monkeypatch, capsys):
    save("a.zarr", scores(), (9, 30))
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    said = refusal(capsys, "top-k", "a.zarr", "-k", "1", "-o", "o.zarr")
    assert said.endswith(f'{package} is missing; install it in a clone of numba_dml with: pip install ".[dask]"\n')
