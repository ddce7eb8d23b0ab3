"""Every public name has a complete numpydoc docstring."""

import inspect

import pytest

import numba_dml as dml
from numba_dml import numpy
from numba_dml._core.descriptor import Descriptor, _subclasses
from numba_dml._core.spec import OPERATORS

pytestmark = pytest.mark.cpu

numpydoc = pytest.importorskip("numpydoc.validate", reason="numpydoc comes with the extra dev")

#: Not asked of every name: extended summaries, See Also, examples, and a name for the one return value.
IGNORED = {"ES01", "SA01", "EX01", "GL01", "RT03", "YD01", "PR01", "PR02"}
PUBLIC = [n for n in dml.__all__ if callable(getattr(dml, n))]
FUNCTIONS = [n for n in PUBLIC if inspect.isfunction(getattr(dml, n))]


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring(name):
    strict = {"PR01", "PR02"} if name in FUNCTIONS else set()
    found = numpydoc.validate(f"numba_dml.{name}")["errors"]
    assert [error for error in found if error[0] not in IGNORED - strict] == []


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not n.startswith("cache") and n != "check"])
def test_functions_tell_errors_rules_and_examples(name):
    text = inspect.getdoc(getattr(dml, name))
    for section in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"\n{section}\n---" in text
    if name in OPERATORS:
        kinds = [kind for kind in _subclasses(Descriptor) if getattr(kind, "spec", None) is OPERATORS[name]]
        assert ("Implements DML_" in text.replace("\n", " ")) == any(hasattr(kind, "operator_type") for kind in kinds)
        assert ("Duplicate" in text) == name.startswith(("gather", "max_unpool", "scatter"))


@pytest.mark.parametrize("name", numpy.__all__)
def test_functions_of_numpy(name):
    found = numpydoc.validate(f"numba_dml.numpy.{name}")["errors"]
    assert [error for error in found if error[0] not in IGNORED - {"PR01", "PR02"}] == []
    text = inspect.getdoc(getattr(numpy, name))
    for section in ("Parameters", "Returns", "Raises", "See Also", "Notes", "Examples"):
        assert f"\n{section}\n---" in text
    for word in ("NaN", "Goes to the kernels when"):
        assert word in text
