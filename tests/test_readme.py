"""The examples of the README and the site do what they say, and the README's first block holds the two commands."""

import doctest
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
JITTED = (ROOT / "docs/jitted.md").read_text()
CALL = "\nnearest(np.array([[3.0, 1.0, 2.0]]), 2)"


def blocks(language, text=README):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_example(tmp_path):
    (tmp_path / "example.py").write_text(blocks("python")[0])
    found = runpy.run_path(str(tmp_path / "example.py"))
    np.testing.assert_array_equal(found["values"], np.array([[0.9, 0.4], [0.7, 0.7]], np.float32))
    assert found["indices"].tolist() == [[1, 2], [0, 2]]
    np.testing.assert_array_equal(found["rows"], found["scores"][[1, 0, -1]])
    assert found["votes"].tolist() == [1, 1, 2]
    assert found["y"].tolist() == [[2, 3], [0, 1]]


def test_example_of_numpy(tmp_path):
    (tmp_path / "example.py").write_text(blocks("python")[2])
    found = runpy.run_path(str(tmp_path / "example.py"))
    assert found["best"].shape == (1000, 5)


@pytest.mark.parametrize("code", [blocks("python")[1], blocks("python", JITTED)[0] + CALL], ids=["README", "jitted"])
def test_jitted_example(code, tmp_path):
    (tmp_path / "example.py").write_text(code.replace("nearest(np", "result = nearest(np"))
    found = runpy.run_path(str(tmp_path / "example.py"))
    assert found["result"].tolist() == [[1, 2]]
    assert found["nearest"].stats.cache_misses  # it is kept on disk, as the page says


def test_every_block_is_run():
    assert [len(blocks("python", text)) for text in (README, JITTED)] == [3, 2]  # the last is for a GPU


def test_example_of_the_front_page(tmp_path):
    (block,) = blocks("python", (ROOT / "docs/index.md").read_text())
    (tmp_path / "example.py").write_text(block)
    assert runpy.run_path(str(tmp_path / "example.py"))["indices"].tolist() == [[1, 2], [0, 2]]


def test_size_and_commands():
    assert README.count("\n") <= 150
    run, test = blocks("bash")[0].splitlines()
    assert run.endswith("numba_dml demo")
    assert test.endswith("pytest -q")


def test_the_quick_start(tmp_path):
    on_cpu = [block for block in blocks("python", (ROOT / "docs/quickstart.md").read_text()) if "torch" not in block]
    (tmp_path / "example.py").write_text("\n".join(on_cpu))
    found = runpy.run_path(str(tmp_path / "example.py"))
    assert found["indices"].tolist() == [[1, 2], [0, 2]]
    np.testing.assert_array_equal(found["best"], found["values"])
    np.testing.assert_array_equal(found["cells"], found["scores"][[0, 1], [2, 1]])
    np.testing.assert_array_equal(found["zeroed"], np.array([[0.1, 0, 0], [0, 0.2, 0]], np.float32))
    assert found["counts"].tolist() == [1, 1, 2]


@pytest.mark.parametrize("page", ["semantics", "configuration"])
def test_the_examples_of_a_page(page):
    failed, tried = doctest.testfile(str(ROOT / f"docs/{page}.md"), module_relative=False)
    assert tried > 0
    assert failed == 0
