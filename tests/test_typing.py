"""The stub of the package's public names says what they are at run time."""

import ast
import inspect
from pathlib import Path

import pytest

import numba_dml as dml

pytestmark = pytest.mark.cpu

STUB = ast.parse(Path(dml.__file__).with_suffix(".pyi").read_text())
FUNCTIONS = [node for node in STUB.body if isinstance(node, ast.FunctionDef)]


def test_every_public_name_is_there():
    imported = {name.asname for node in STUB.body if isinstance(node, ast.ImportFrom) for name in node.names}
    defined = {node.name for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    variables = {node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign) and node.simple}
    names = {name for name in imported | defined | variables if name and not name.startswith("_")} | {"__version__"}
    assert names == set(dml.__all__)


@pytest.mark.parametrize("stub", FUNCTIONS, ids=lambda stub: f"{stub.name}-{stub.lineno}")
def test_parameters(stub):
    """Every overload has the parameters of the function, and those with a default in common."""
    parameters = inspect.signature(getattr(dml, stub.name)).parameters
    kinds = {
        inspect.Parameter.POSITIONAL_ONLY: stub.args.posonlyargs,
        inspect.Parameter.POSITIONAL_OR_KEYWORD: stub.args.args,
        inspect.Parameter.KEYWORD_ONLY: stub.args.kwonlyargs,
    }
    for kind, found in kinds.items():
        assert [a.arg for a in found] == [name for name, p in parameters.items() if p.kind is kind]
    with_default = {
        a.arg for a, default in zip(stub.args.kwonlyargs, stub.args.kw_defaults, strict=True) if default is not None
    }
    optional = {name for name, p in parameters.items() if p.default is not p.empty}
    assert with_default <= optional
    assert optional - with_default <= {"out", "index_dtype"}  # an overload of its own needs them
