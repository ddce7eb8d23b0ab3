"""Why a call runs one kernel and not another: the rows of its table, and the comparison that ruled each out."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple


class Ruled(NamedTuple):
    """A row that was passed over."""

    region: str
    #: The part of its condition that does not hold, as the source has it.
    rule: str
    #: The numbers in it, by name.
    numbers: dict[str, Any]


def passed_over(call: Any) -> list[Ruled]:
    """Return the rows of a call's table before the chosen one."""
    found = []
    for region in call.regions[: call.regions.index(call.region)]:
        for condition in (region.can, region.when):
            failed = _failed(condition, call.facts, call.tuning)
            if failed is not None:
                found.append(Ruled(region.name, *failed))
                break
    return found


def _failed(condition: Callable[..., bool], facts: Any, tuning: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the first part of a condition that does not hold, without `facts` and `tuning`, and its numbers."""
    if condition(facts, tuning):
        return None
    given = {"facts": facts, "tuning": tuning}
    function = ast.parse(textwrap.dedent(inspect.getsource(condition))).body[0]
    assert isinstance(function, ast.FunctionDef)
    last = function.body[-1]
    assert isinstance(last, ast.Return)
    assert last.value is not None
    parts = (
        last.value.values if isinstance(last.value, ast.BoolOp) and isinstance(last.value.op, ast.And) else [last.value]
    )
    known = {**condition.__globals__, **given}
    for part in parts:
        if not eval(compile(ast.Expression(part), "<condition>", "eval"), known):
            return _plain(part), _numbers(part, given)
    raise AssertionError("a condition that does not hold has a part that does not")


def _plain(part: ast.expr) -> str:
    """Return a part as text; helpers are shown by their names."""
    return ast.unparse(part).replace("(facts, tuning)", "").replace("facts.", "").replace("tuning.", "")


def _numbers(part: ast.expr, given: dict[str, Any]) -> dict[str, Any]:
    """Return the facts and thresholds that a part names, as plain numbers."""
    found = {}
    for node in ast.walk(part):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in given:
            value = getattr(given[node.value.id], node.attr)
            found[node.attr] = value.item() if hasattr(value, "item") else value
    return found


def sentence(ruled: Ruled) -> str:
    """Return a row that was passed over in one line."""
    numbers = ", ".join(f"{name} {value}" for name, value in ruled.numbers.items())
    return f"{ruled.region}: needs {ruled.rule}" + (f" ({numbers})" if numbers else "")
