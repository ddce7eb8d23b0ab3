"""One spec per operator, and what reads it; see `numba_dml._core.spec`."""

import ast
import inspect
import subprocess
import sys
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


TWICE = """
from dataclasses import dataclass
from typing import ClassVar

import pytest

import numba_dml as dml
from numba_dml._core.descriptor import Descriptor
from numba_dml._core.spec import Spec
from numba_dml.cpu.jitted.functions import function_of
from numba_dml.ops._shared.function import builds

SPEC = Spec("twice", "twice", "", ("a",), (), ())


@dataclass(frozen=True)
class TwiceDesc(Descriptor):
    spec: ClassVar = SPEC
    levels: ClassVar = ()
    input_fields: ClassVar = ("input_tensor",)
    input_tensor: dml.TensorDesc
    output_tensor: dml.TensorDesc


@builds(SPEC, {})
def build(a):
    return TwiceDesc(dml.TensorDesc(a.kind, a.shape), dml.TensorDesc(a.kind, a.shape)), a.shape


tensor = dml.TensorDesc("float32", (3,))
one = TwiceDesc(tensor, tensor)
assert dml.Descriptor.from_dict(one.to_dict()) == TwiceDesc.from_dict(one.to_dict()) == one
with pytest.raises(dml.DescriptorError, match="feature_level: found FL_5_0, expected None .DirectML has no such"):
    one.validate(dml.FeatureLevel.FL_5_0)
with pytest.raises(TypeError, match="twice: found a call in jitted code, expected one outside"):
    function_of("twice")
"""


def test_an_operator_that_directml_and_jitted_code_lack():
    """Its descriptor makes dicts and back, and says what it lacks; it needs no parameters."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", TWICE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _rest():
    return dml.TensorDesc("int64", (1, 2)), dml.TensorDesc("float32", (2, 4)), 0, 1


def test_two_operators_of_one_name_are_refused():
    with pytest.raises(ValueError, match="gather: found two operators of this name, expected one"):
        Spec("gather", "gather", "", (), (), ())
