"""What the types of arguments tell, when a call in jitted code is compiled."""

from __future__ import annotations

from typing import Any, NoReturn

import numba
import numpy as np
from numba import types

from ..._core import descriptor
from ..._core.operands import mask_hint
from ..._jit.compile import called
from ..._jit.emission import as_dtype
from ..._jit.emission_late import TypingError
from ..primitives.moves.plan import INDEX_KINDS

ORDERED = (types.Boolean, types.Integer, types.Float)
NUMBERS = (*ORDERED, types.Complex)
MOVED = (*NUMBERS, types.NPDatetime, types.NPTimedelta)
_EXPECTED = {
    ORDERED: "an array of bool, integers, float32 or float64",
    NUMBERS: "an array of bool or numbers",
    MOVED: "an array of bool, numbers, datetimes or timedeltas",
}
#: The types that Python's own numbers have in jitted code; each holds those before.
_PYTHON = {types.boolean: 0, types.int64: 1, types.float64: 2, types.complex128: 3}
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def refuse(function: str, name: str, found: Any, expected: str) -> NoReturn:
    """Raise the error for an argument."""
    raise TypingError(f"{function}: {name}: found {found}, expected {expected}")


def is_absent(kind: Any) -> bool:
    """Tell whether an argument is None, or not given."""
    return kind is None or isinstance(kind, types.NoneType) or (isinstance(kind, types.Omitted) and kind.value is None)


def constant(function: str, name: str, kind: Any, choices: tuple[Any, ...]) -> Any:
    """Return the value of an argument that must be a constant."""
    value = kind
    if isinstance(kind, types.Omitted):
        value = kind.value
    elif isinstance(kind, types.Literal):
        value = kind.literal_value
    elif isinstance(kind, types.Type):
        refuse(function, name, f"{kind} known at run time", "a constant: " + _listed(choices))
    if value not in choices or (isinstance(value, bool) != isinstance(choices[0], bool)):
        refuse(function, name, repr(value), _listed(choices))
    return value


def bounds_rule(function: str, kind: Any, choices: tuple[str, ...]) -> str:
    """Return the rule for bad indices, whose default is the first one."""
    return choices[0] if is_absent(kind) else str(constant(function, "bounds", kind, choices))


def _listed(choices: tuple[Any, ...]) -> str:
    *first, last = [repr(choice) for choice in choices]
    return f"{', '.join(first)} or {last}"


def check_integer(function: str, name: str, kind: Any) -> None:
    """Refuse what is no integer."""
    kind = types.unliteral(kind) if isinstance(kind, types.Type) else kind
    if not isinstance(kind, (int, types.Integer)) and not (isinstance(kind, types.Omitted) and kind.value is not None):
        refuse(function, name, kind, "an integer")


def check_array(function: str, name: str, kind: Any, least: int = 1) -> None:
    """Refuse what is no array of `least` dimensions or more."""
    if not isinstance(kind, types.Array):
        refuse(function, name, kind, "an array")
    if kind.ndim < least:
        refuse(function, name, f"{kind.ndim} dimensions", f"at least {least}")


def check_result_rank(function: str, indices: Any, ndim: int) -> None:
    """Refuse indices if the result would have more dimensions than NumPy's arrays can."""
    try:
        descriptor.check_result_rank(function, "indices", indices.ndim, ndim)
    except ValueError as error:
        raise TypingError(str(error)) from None


def is_integer(kind: Any) -> bool:
    """Tell whether a type is one of integers; Numba's bool counts as one."""
    return isinstance(kind, types.Integer) and not isinstance(kind, types.Boolean)


def check_data(function: str, a: Any, allowed: tuple[Any, ...], least: int = 1) -> None:
    """Check the input."""
    check_array(function, "a", a, least)
    expected = _EXPECTED[allowed]
    if a.dtype == types.float16:
        refuse(function, "a", "float16, which has no arithmetic in Numba's CPU code", expected)
    if not isinstance(a.dtype, allowed):
        refuse(function, "a", f"an array of {a.dtype}", expected)


def type_of_indices(function: str, index_dtype: Any) -> Any:
    """Return the type of the positions that a call returns."""
    kind = types.intp if is_absent(index_dtype) else getattr(index_dtype, "dtype", None)
    if not is_integer(kind):
        refuse(function, "index_dtype", index_dtype, "an integer dtype, as numpy.uint32")
    return kind


def check_indices(function: str, indices: Any, least: int, name: str = "indices") -> int:
    """Check indices, and return their kind."""
    check_array(function, name, indices, least)
    if not is_integer(indices.dtype):
        hint = mask_hint(function) if isinstance(indices.dtype, types.Boolean) else ""
        refuse(function, name, f"an array of {indices.dtype}", f"an array of integers{hint}")
    return kind_of(indices.dtype)


def kind_of(dtype: Any) -> int:
    """Return the kind of an integer type, as plans have it."""
    return INDEX_KINDS.index(as_dtype(dtype).name)


def check_same_rank(function: str, name: str, array: Any, a: Any) -> None:
    """Refuse an array that does not have the dimensions of `a`."""
    if array.ndim != a.ndim:
        refuse(function, name, f"{array.ndim} dimensions", f"{a.ndim}, as a has")


def check_out(function: str, name: str, out: Any, dtype: Any, ndim: int) -> None:
    """Check an output; what its sizes must be is known at run time."""
    if not isinstance(out, types.Array):
        refuse(function, name, out, "an array")
    if out.dtype != dtype or out.ndim != ndim:
        refuse(function, name, f"a {out.ndim}-d array of {out.dtype}", f"a {ndim}-d array of {dtype}")
    if not out.mutable:
        refuse(function, name, "a read-only array", "one to write to")


def _known(value: Any) -> Any:
    """Return the value of an argument that is a constant, or None."""
    return getattr(value, "literal_value", getattr(value, "value", None)) if isinstance(value, types.Type) else value


def is_zero(value: Any) -> bool:
    """Tell whether an argument is the constant 0, which every dtype has."""
    known = _known(value)
    return known.__class__ is int and known == 0


def has_dtype(value: Any) -> bool:
    """Tell whether an argument has a type that Python's own numbers do not have; Numba takes large ones for uint64."""
    return (
        _known(value).__class__ is not int
        and isinstance(value, types.Number | types.Boolean)
        and types.unliteral(value) not in _PYTHON
    )


def converter(function: str, name: str, value: Any, result: Any) -> Any:
    """Return a jitted function that makes an argument an element of a result; see `single_value` of functions."""
    known = _known(value)
    kind = types.unliteral(value) if known is None else numba.typeof(known)
    made = as_dtype(result)
    element, expected = made.type, f"{result}, the dtype of the result (no silent cast)"
    if kind == result and known is None:
        return called(lambda value: value)
    if known.__class__ is int and made.kind in "iufc":
        if made.kind in "iu" and not np.iinfo(made).min <= known <= np.iinfo(made).max:
            refuse(function, name, known, f"numbers that {made} holds")
    elif not (made.kind == "b" and known in (0, 1)):
        if kind not in _PYTHON or _PYTHON[kind] > _RANKS.get(made.kind, -1):
            refuse(function, name, f"dtype {kind}", expected)
    if known is not None:
        constant = element(known)
        return called(lambda value: constant)
    if made.kind in "iu" and kind == types.int64:
        limits = np.iinfo(made)
        low, high = max(limits.min, -(1 << 63)), min(limits.max, (1 << 63) - 1)
        before, after = f"{function}: {name}: found ", f", expected numbers that {made} holds"

        def checked(value):
            if value < low or value > high:
                raise ValueError(before + str(value) + after)
            return element(value)

        return called(checked)
    return called(lambda value: element(value))
