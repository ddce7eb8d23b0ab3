"""One spec per operator, and what reads it; see `numba_dml._core.spec`."""

import ast
import inspect
from pathlib import Path

import pytest

import numba_dml as dml
from numba_dml._core.descriptor import Descriptor, _subclasses
from numba_dml._core.spec import OPERATORS, REQUIRED, Spec

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("spec", OPERATORS.values(), ids=OPERATORS)
def test_a_spec_says_what_the_function_and_its_builder_take(spec):
    function = getattr(dml, spec.name)
    found = inspect.signature(function).parameters
    arrays = [name for name in found if name in ("a", "indices", "updates", "lengths")]
    assert arrays == [*spec.inputs]
    for one in spec.parameters:
        default = inspect.Parameter.empty if one.default is REQUIRED else one.default
        assert found[one.name].default == default
    names = [*inspect.signature(spec.build).parameters]
    assert names == [*spec.inputs, *(one.name for one in spec.parameters)]


def test_every_descriptor_has_a_spec():
    kinds = [kind for kind in _subclasses(Descriptor) if not kind.__subclasses__()]
    assert {kind.spec.name for kind in kinds} == set(OPERATORS)


def test_no_code_asks_for_the_name_of_a_function():
    """It asks the spec. What names a function in code that is for it alone is no question."""
    found = []
    for path in sorted(Path(dml.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("startswith", "endswith"):
                compared = node.args
            parts = [one for part in compared for one in getattr(part, "elts", [part])]
            words = {part.value for part in parts if isinstance(part, ast.Constant)}
            about_families = any("family" in ast.unparse(part) for part in compared)
            if words & {*OPERATORS, "gather", "scatter", "_nd", "_elements"} and not about_families:
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert found == []


def test_a_family_without_calls_is_refused(monkeypatch):
    monkeypatch.setattr(dml.GatherDesc.spec, "family", "reverse")
    descriptor = dml.GatherDesc(*(dml.TensorDesc("float32", (3, 4)) for _ in range(1)), *_rest())
    with pytest.raises(ValueError, match="gather: target 'cpu' has no calls of the family 'reverse'"):
        dml.compile_operator(descriptor)


def _rest():
    return dml.TensorDesc("int64", (1, 2)), dml.TensorDesc("float32", (2, 4)), 0, 1


def test_two_operators_of_one_name_are_refused():
    with pytest.raises(ValueError, match="gather: found two operators of this name, expected one"):
        Spec("gather", "gather", "", (), (), ())
