"""What the package uses of Numba's inside, and what happens on a Numba that lacks it; see `numba_dml._jit.compat`."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import numba_dml
from numba_dml._jit import compat

from .test_runtime import run

pytestmark = pytest.mark.cpu
PACKAGE = Path(numba_dml.__file__).parent
#: What Numba documents; `types` is its public name for `numba.core.types`.
PUBLIC = {"numba", "numba.cuda"}


def private_names(folder):
    """Return what the files of a folder import of the inside of Numba and llvmlite: names by their modules."""
    used = defaultdict(set)
    for path in (PACKAGE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                if node.module.partition(".")[0] in ("numba", "llvmlite") and node.module not in PUBLIC:
                    used[node.module] |= {alias.name for alias in node.names}
    return used


@pytest.mark.parametrize("folder", ["cpu", "_cli", "_core", "ops"])
def test_private_names_are_imported_in_one_folder(folder):
    assert private_names("_jit")
    assert not private_names(folder)


def test_this_numba_has_all_of_it():
    from numba_dml._jit import compat

    assert compat.missing(compat.ATTRIBUTES) == []
    assert compat.missing(compat.ATTRIBUTES_FOR_HELPERS) == []
    assert compat.helper_compiler() is not None


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("numba.core.caching.NullCache", "cannot import name 'NullCache' from 'numba.core.caching'"),
        ("numba.core.caching.Cache._load_overload", "there is no numba.core.caching.FunctionCache._load_overload"),
    ],
)
def test_what_is_missing_is_named_at_once(gone, told):
    code = f"""
        import numba.core.caching
        del {gone}
        import numba_dml as dml
        try:
            dml.gather([1, 2, 3], [0])
        except ImportError as error:
            print(error)
    """
    found = run(code).replace("\n", "")
    assert told in found
    oldest, newest = (".".join(map(str, version)) for version in (compat.OLDEST, compat.NEWEST))
    assert found.endswith(f"; expected one that numba_dml was tested with: {oldest} to {newest}")


@pytest.mark.slow
def test_a_numba_that_was_not_tested_compiles_helpers_in_its_own_way(tmp_path):
    code = """
        import numba
        numba.version_info = numba.version_info._replace(short=(9, 9))
        import numpy as np, numba_dml as dml
        from numba_dml._jit import compile
        assert "pipeline_class" not in compile._HELPER_OPTIONS
        a, i = np.random.default_rng(0).random((40, 30), np.float32), np.array([3, 39, 0])
        assert np.array_equal(dml.gather(a, i), a[i])
    """
    run(code, NUMBA_CACHE_DIR=str(tmp_path))
