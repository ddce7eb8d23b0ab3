"""The examples of the README and the site do what they say, and the README's first block holds the two commands."""

import doctest
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import numba_dml as dml

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
    assert found["high"].tolist() == [[0, 1], [1, 0], [1, 2]]
    assert found["classes"].tolist() == [[0, 1, 0], [1, 0, 0]]
    assert found["y"].tolist() == [[2, 3], [0, 1]]


def test_example_of_numpy(tmp_path):
    (tmp_path / "example.py").write_text(blocks("python")[2])
    found = runpy.run_path(str(tmp_path / "example.py"))
    assert found["best"].shape == (1000, 5)


def test_example_of_dask(tmp_path):
    pytest.importorskip("dask.array")
    (tmp_path / "example.py").write_text(blocks("python")[3])
    found = runpy.run_path(str(tmp_path / "example.py"))
    scores = found["scores"].compute()
    for result, expected in zip((found["values"], found["indices"]), dml.top_k(scores, 50), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("code", [blocks("python")[1], blocks("python", JITTED)[0] + CALL], ids=["README", "jitted"])
def test_jitted_example(code, tmp_path):
    (tmp_path / "example.py").write_text(code.replace("nearest(np", "result = nearest(np"))
    found = runpy.run_path(str(tmp_path / "example.py"))
    assert found["result"].tolist() == [[1, 2]]
    assert found["nearest"].stats.cache_misses  # it is kept on disk, as the page says


@pytest.mark.parametrize("page", ["README.md", "docs/mapping.md"])
def test_what_numpy_has_for_tuples(page, tmp_path):
    """Of indices with any number of dimensions: the page's own two lines are run."""
    text, rng = (ROOT / page).read_text(), np.random.default_rng(0)
    gathers = re.search(r"^\| `gather_nd\(.*?` \| `(.*?)`", text, re.MULTILINE)[1]
    scatters = re.search(r"^\| `scatter_nd\(.*?` \| `(.*?)`", text, re.MULTILINE)[1]
    (tmp_path / "page.py").write_text(f"gathered = {gathers}\n{scatters}\n")
    for shape in ((2,), (5, 2), (2, 4, 2), (3, 1, 4, 3)):
        a = rng.random((6, 7, 8))
        i = rng.integers(0, 6, shape)
        u = rng.random(dml.gather_nd(a, i).shape)
        found = runpy.run_path(str(tmp_path / "page.py"), {"np": np, "a": a, "i": i, "u": u})
        np.testing.assert_array_equal(dml.gather_nd(a, i), found["gathered"])
        np.testing.assert_array_equal(dml.scatter_nd(a, i, u), found["b"])


PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert "://" in link or (page.parent / link).exists(), link


@pytest.mark.parametrize(
    "claim",
    [
        "new shape compiles nothing",
        "compiles the operator",
        "only place that imports numba-cuda",
        "operators are immutable",
        "nothing more to write",
    ],
)
def test_claims_that_did_not_hold_are_gone(claim):
    """Some kinds of shapes have kernels of their own, for one."""
    files = [*PAGES, *(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "numba_dml").rglob("*.py")]
    assert len(files) > 20
    assert [file.name for file in files if claim.lower() in " ".join(file.read_text().split()).lower()] == []


def test_the_front_page_shows_no_compiled_function_of_a_user():
    assert "njit(parallel=True)" not in README + (ROOT / "docs/index.md").read_text()


def test_commands_for_benchmarks_store_what_they_measure():
    """asv stores nothing of the Python that runs it unless it is told the commit."""
    commands = re.findall(r"^asv run .*--python=same.*$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert commands
    assert all("--set-commit-hash" in command for command in commands)


def test_every_block_is_run():
    assert [len(blocks("python", text)) for text in (README, JITTED)] == [4, 2]  # the last is for a GPU


def test_example_of_the_front_page(tmp_path):
    (block,) = blocks("python", (ROOT / "docs/index.md").read_text())
    (tmp_path / "example.py").write_text(block)
    assert runpy.run_path(str(tmp_path / "example.py"))["indices"].tolist() == [[1, 2], [0, 2]]


def test_size_and_commands():
    assert README.count("\n") <= 150
    run, test = blocks("bash")[0].splitlines()
    assert run.endswith("numba_dml demo")
    assert 'pytest -q -n 2 --dist loadfile -m "not slow"' in test


def test_the_quick_start(tmp_path):
    on_cpu = [block for block in blocks("python", (ROOT / "docs/quickstart.md").read_text()) if "torch" not in block]
    (tmp_path / "example.py").write_text("\n".join(on_cpu))
    found = runpy.run_path(str(tmp_path / "example.py"))
    assert found["indices"].tolist() == [[1, 2], [0, 2]]
    np.testing.assert_array_equal(found["best"], found["values"])
    np.testing.assert_array_equal(found["cells"], found["scores"][[0, 1], [2, 1]])
    np.testing.assert_array_equal(found["zeroed"], np.array([[0.1, 0, 0], [0, 0.2, 0]], np.float32))
    assert found["counts"].tolist() == [1, 1, 2]
    np.testing.assert_allclose(found["sums"], np.cumsum(found["scores"], 1), rtol=1e-6)
    assert found["high"].tolist() == [[0, 1], [1, 0], [1, 2]]
    assert found["classes"].tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("page", ["semantics", "configuration"])
def test_the_examples_of_a_page(page):
    failed, tried = doctest.testfile(str(ROOT / f"docs/{page}.md"), module_relative=False)
    assert tried > 0
    assert failed == 0
