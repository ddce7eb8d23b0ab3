"""The stub of the package's public names says what they are at run time."""

import ast
import inspect
import sys
from pathlib import Path

import pytest

import numba_dml as dml
from numba_dml._core import config, lowering, operator, targets

pytestmark = pytest.mark.cpu

STUB = ast.parse(Path(dml.__file__).with_suffix(".pyi").read_text())
MODULES = ("dask", "numpy", "onnx")  # imported when they are first used
FUNCTIONS = [node for node in STUB.body if isinstance(node, ast.FunctionDef)]


def test_every_public_name_is_there():
    imported = {name.asname for node in STUB.body if isinstance(node, ast.ImportFrom) for name in node.names}
    defined = {node.name for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    variables = {node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign) and node.simple}
    names = {name for name in imported | defined | variables if name and not name.startswith("_")} | {"__version__"}
    assert names == {*dml.__all__, *MODULES}


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
    assert optional - with_default <= {"out", "index_dtype", "dtype", "size"}  # an overload of its own needs them


def test_choices():
    """Words that are refused at run time are refused by type checkers too."""
    found = {
        node.target.id: ast.literal_eval(node.value.slice)
        for node in STUB.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Subscript)
    }
    scatters, selection = sys.modules["numba_dml.ops.scatter_elements"], sys.modules["numba_dml.ops.top_k"]
    assert found == {
        "_Bounds": config.BOUNDS,
        "_ScatterBounds": scatters.SCATTER_BOUNDS,
        "_ReverseBounds": sys.modules["numba_dml.ops.reverse_subsequences"].BOUNDS,
        "_Reduction": lowering.REDUCTIONS,
        "_Mode": tuple(selection.MODES),
        "_Nan": selection.NAN_RULES,
        "_Ties": tuple(sys.modules["numba_dml.ops._shared.extreme"].TIES),
        "_Target": targets.TARGETS,
    }
    for stub in FUNCTIONS:
        for argument in stub.args.kwonlyargs:
            if argument.arg == "bounds":
                own = {
                    "reverse_subsequences": "_ReverseBounds",
                    **dict.fromkeys(("max_unpool", "nonzero_coordinates"), "_ScatterBounds"),
                }
                name = "_ScatterBounds" if stub.name.startswith("scatter") else own.get(stub.name, "_Bounds")
                assert ast.unparse(argument.annotation) == f"{name} | None"


@pytest.mark.parametrize(
    ("name", "functions"),
    [("_Cumulative", (dml.cumulative_sum, dml.cumulative_prod)), ("_ArgExtreme", (dml.argmax, dml.argmin))],
)
def test_functions_that_are_variables(name, functions):
    """They have one type in the stub."""
    (stub,) = [node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == name]
    for function in functions:
        expected = [*inspect.signature(function).parameters]
        for call in stub.body:
            arguments = call.args
            assert [a.arg for a in (*arguments.posonlyargs[1:], *arguments.kwonlyargs)] == expected


OPERATORS = {
    "ArgExtreme": operator.OneArrayOperator,
    "Cumulative": operator.OneArrayOperator,
    "Gather": operator.TwoArrayOperator,
    "Nonzero": operator.OneArrayOperator,
    "Scatter": operator.ThreeArrayOperator,
    "TopK": operator.OneArrayOperator,
}


@pytest.mark.parametrize("family", OPERATORS)
def test_operators(family):
    """Every overload of an operator's call has the parameters that the call has, and `out` and `stream` by keyword."""
    expected = [*inspect.signature(OPERATORS[family].__call__).parameters]
    (stub,) = [node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == f"_{family}Operator"]
    for call in stub.body:
        assert [a.arg for a in (*call.args.args, *call.args.kwonlyargs)] == expected
        assert [a.arg for a in call.args.kwonlyargs] == ["out", "stream"]
