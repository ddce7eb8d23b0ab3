"""The command line and its demo, run as a user runs them."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from numba_dml.__main__ import main

pytestmark = pytest.mark.cpu

pytest.importorskip("sklearn", reason="scikit-learn comes with the extra demo")
pytest.importorskip("matplotlib", reason="matplotlib comes with the extra demo")

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def short(monkeypatch, tmp_path):
    """Measure little, and leave no picture behind."""
    monkeypatch.setattr("numba_dml._cli.digits.REPEATS", 2)
    monkeypatch.chdir(tmp_path)


def refusal(capsys, *arguments):
    """Return the one line that a refused command leaves on the standard error stream."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    out, err = capsys.readouterr()
    assert stopped.value.code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err


def test_demo_prints_and_draws(capsys, tmp_path):
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == "numba-dml demo: running; a first run compiles kernels, for some seconds\n"
    assert "\x1b" not in out  # not a terminal: no colours, no progress
    assert max(map(len, out.splitlines())) <= 80
    words = out.split()
    assert float(words[words.index("accuracy") + 1]) > 0.97
    assert "1198 train, 599 queries" in out
    assert "identical" in out
    for kernel in ("top_k", "gather", "scatter"):
        assert f" {kernel} " in out

    from matplotlib.image import imread

    picture = tmp_path / "digits.png"
    assert picture.read_bytes().startswith(PNG)
    assert 20_000 < picture.stat().st_size < 500_000
    height, width, _ = imread(picture).shape
    assert 500 < width < 2000
    assert 500 < height < 2000


def test_a_narrow_terminal_shows_each_step_in_a_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["demo", "--no-plot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    for step in ("neighbours", "labels", "votes", "winners", "all"):
        assert any(re.fullmatch(rf"{step} +\S+ \w?s +\S+ \w?s +\S+x", line.rstrip()) for line in lines)


def test_demo_says_something_before_it_compiles(capsys, monkeypatch):
    monkeypatch.setattr("numba_dml._cli.digits._timed", lambda _: pytest.fail(capsys.readouterr().err))
    with pytest.raises(pytest.fail.Exception, match="a first run compiles kernels"):
        main(["demo", "--no-plot"])


@pytest.mark.parametrize("k", [1, 3, 40])
def test_every_k_is_accurate_and_equals_numpy(k):
    from numba_dml._cli import digits

    result = digits.demonstrate(k)
    assert result.same_as_numpy
    assert result.accuracy > (0.97 if k < 10 else 0.95)
    assert result.neighbours.indices.shape == (599, k)


def test_a_difference_from_numpy_is_told(monkeypatch, capsys):
    monkeypatch.setattr("numba_dml._cli.digits.numpy_votes", lambda labels, weights: np.zeros((599, 10), "f4"))
    assert main(["demo", "--no-plot"]) == 1
    assert "differ in: votes." in capsys.readouterr().out


def test_no_plot(tmp_path):
    assert main(["demo", "--no-plot", "--k", "1"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_plot_path_and_format(tmp_path):
    assert main(["demo", "--plot", "few.svg", "--k", "2"]) == 0
    assert "</svg>" in (tmp_path / "few.svg").read_text()


@pytest.mark.parametrize("package", ["sklearn", "matplotlib"])
def test_missing_package(package, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.partition(".")[0] == package or name == "numba_dml._cli.digits"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("numba_dml._cli.digits", raising=False)  # else the import system finds it there
    monkeypatch.setitem(sys.modules, package, None)
    message = refusal(capsys, "demo")
    assert package in message
    assert 'in a clone of numba_dml with: pip install ".[demo]"' in message


def test_missing_matplotlib_outside_of_the_demo(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    assert refusal(capsys, "bench", "--plot", "x.png").endswith('pip install ".[cli]"\n')


def test_a_missing_package_of_ours_is_a_bug(monkeypatch):
    monkeypatch.setattr("numba_dml._cli.digits.demonstrate", lambda *_: __import__("no_such_package"))
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        main(["demo"])


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["nothing"], "nothing"),
        (["demo", "--k", "0"], "--k: found 0, expected 1 to 1198"),
        (["demo", "--k", "1199"], "--k: found 1199"),
        (["demo", "--k", "few"], "--k"),
        (["demo", "--plot", "nowhere/digits.png"], "nowhere"),
        (["demo", "--plot", "digits.xyz"], ".png"),
        (["demo", "--plot", "digits"], ".png"),
        (["demo", "--plot", "a.png", "--no-plot"], "not allowed"),
    ],
)
def test_bad_input_takes_one_line(arguments, found, capsys):
    assert found in refusal(capsys, *arguments)


def test_help_without_a_command(capsys):
    assert main([]) == 0
    assert "demo" in capsys.readouterr().out


def test_as_a_module(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "numba_dml", "demo", "--k", "0"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("python -m numba_dml: --k: found 0")
