"""What the package uses of Numba's inside, and what happens on a Numba that lacks it; see `numba_dml._jit.compat`."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import numba_dml

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


def test_every_private_name_is_listed():
    """They are imported in `_jit` only; what is not used any more is not listed."""
    from numba_dml._jit import compat

    for folder in ("cpu", "_cli", "_core", "ops"):
        assert not private_names(folder)
    used = private_names("_jit")
    listed = defaultdict(set)
    for table in (compat.REQUIRED, compat.REQUIRED_IN_JITTED_CODE, compat.FOR_HELPERS):
        for module, names in table.items():
            listed[module] |= set(names)
    assert used == listed


def test_this_numba_has_all_of_it():
    from numba_dml._jit import compat

    for table in (compat.REQUIRED, compat.REQUIRED_IN_JITTED_CODE, compat.FOR_HELPERS, compat.ATTRIBUTES):
        assert compat.missing(table) == []


def test_what_is_missing_is_named_at_once():
    code = """
        import numba.core.caching
        from numba.core.caching import Cache
        del numba.core.caching.NullCache, Cache._load_overload
        import numba_dml as dml
        try:
            dml.gather([1, 2, 3], [0])
        except ImportError as error:
            print(error)
    """
    found = run(code).replace("\n", "")
    assert "without numba.core.caching.NullCache, numba.core.caching.FunctionCache._load_overload; expected" in found
    assert found.endswith("expected one that numba_dml was tested with: 0.63 to 0.68")


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
