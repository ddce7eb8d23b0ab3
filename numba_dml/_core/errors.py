"""The exceptions of the package that are not plain built-ins, and the checks that all parameters share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np


def integer(where: str, value: Any, expected: str = "an integer") -> int:
    """Return an integer of Python, NumPy or anyone else; a bool is none."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return index(value)
    except TypeError:
        raise TypeError(f"{where}: found {value!r}, expected {expected}") from None


def flag(where: str, value: Any) -> bool:
    """Return a bool of Python or NumPy; 0 and 1 are taken too."""
    if not isinstance(value, (int, np.bool_)) or value not in (0, 1):
        raise TypeError(f"{where}: found {value!r}, expected True or False")
    return bool(value)


def index_error(
    function: str, position: Iterable[int], value: int, axis: int, size: int, argument: str = "indices"
) -> IndexError:
    """Return the error for an index out of range, which stands at a position of the indices."""
    where = ", ".join(str(int(i)) for i in position) or "()"
    return IndexError(f"{function}: {argument}[{where}] = {value} is out of range for axis {axis} of size {size}")


class DescriptorError(ValueError):
    """A descriptor breaks a rule of its operator or of a feature level.

    Attributes
    ----------
    subject : str
        The descriptor class, or the function whose argument it is.
    field : str
        The field or argument that is refused.
    found, expected : Any
        What it holds and what the rule wants.
    rule : str
        Where the rule comes from; empty when it needs no explanation.
    """

    def __init__(self, subject: str, field: str, found: Any, expected: Any, rule: str = "") -> None:
        self.subject, self.field, self.rule = subject, field, rule
        self.found, self.expected = found, expected
        where = f"{subject}.{field}" if subject[:1].isupper() else f"{subject}: {field}"
        super().__init__(f"{where}: found {found}, expected {expected}" + (f" ({rule})" if rule else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.subject, self.field, self.found, self.expected, self.rule)

    def for_function(self, name: str, arguments: dict[str, str]) -> DescriptorError:
        """Return the same error in the words of the function that built the descriptor."""
        expected = self.expected
        if isinstance(expected, str):  # it may name other fields
            expected = re.sub(r"\w+", lambda word: arguments.get(word[0], word[0]), expected)
        return DescriptorError(name, arguments.get(self.field, self.field), self.found, expected, self.rule)
