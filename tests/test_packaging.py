"""What the project's file says of the package: who made it, where it runs, and with which versions it is tested."""

import re
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it first")

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_tests_run_with_the_newest_numpy():
    pins = [one for one in PROJECT["optional-dependencies"]["test"] if re.match(r"numpy\b", one)]
    assert pins == []
    assert not any("<" in one for one in PROJECT["dependencies"])


def test_the_authors_and_where_it_runs():
    assert PROJECT["authors"] == [{"name": "The numba_dml developers"}]
    classifiers = PROJECT["classifiers"]
    assert any(one.startswith("Operating System :: ") for one in classifiers)
    versions = [one.rpartition(" ")[2] for one in classifiers if re.search(r"Python :: 3\.\d+$", one)]
    assert versions == [f"3.{minor}" for minor in range(10, 10 + len(versions))]
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_the_sdist_has_all_that_its_tests_read():
    """Each of these was missing once, and no test could be collected; what is built is checked by .ci/run."""
    manifest = (ROOT / "MANIFEST.in").read_text()
    grafted = set(re.findall(r"^graft (\S+)$", manifest, re.MULTILINE))
    assert {"asv_bench", "docs", "notebooks", "tests"} <= grafted
    assert re.search(r"^include .*\bCHANGELOG\.md\b", manifest, re.MULTILINE)
