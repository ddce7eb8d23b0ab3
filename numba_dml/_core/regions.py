"""Regions: which kernel runs a call, as tables that the dispatch, ``explain`` and tests read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple


class Region(NamedTuple):
    """A row of a table: one way to compute a family of operators, and the calls it is for.

    `can` and `when` are plain functions that return one expression, its parts joined by ``and``: ``explain`` shows the
    part that ruled a row out, and jitted callers compile the same functions.
    """

    name: str
    kernel: Any
    can: Callable[[Any, Any], bool]  #: ``can(facts, tuning)``: whether the kernel can run the call at all
    when: Callable[[Any, Any], bool]  #: ``when(facts, tuning)``: whether it is the best way, if no earlier row is
    why: str  #: one sentence for the user: what is done, and why it is fast
    evidence: str  #: the heading in a file of docs/measurements/ that has the figures


#: For tests: the row that is taken wherever its kernel can run the call.
forced: ContextVar[str | None] = ContextVar("numba_dml.forced", default=None)
#: For measurements of what a row is worth: the rows that are passed over.
passed_over: ContextVar[frozenset[str]] = ContextVar("numba_dml.passed_over", default=frozenset())
#: For measurements: a list that gets the name of every row that is chosen.
noted: ContextVar[list[str] | None] = ContextVar("numba_dml.noted", default=None)


def always(facts: Any, tuning: Any) -> bool:
    """Hold for every call: the last row of a table."""
    return True


def first(regions: Sequence[Region], facts: Any, tuning: Any) -> Region:
    """Return the first row that is for a call."""
    wanted, left_out, notes = forced.get(), passed_over.get(), noted.get()
    if wanted is not None:
        for region in regions:
            if region.name == wanted and region.can(facts, tuning):
                return region
    for region in regions:
        if region.can(facts, tuning) and region.when(facts, tuning) and region.name not in left_out:
            if notes is not None:
                notes.append(region.name)
            return region
    raise LookupError("no row of the table is left for this call")


def compiled_first(regions: Sequence[Region], tuning: Any, jit: Callable[..., Any]) -> Any:
    """Return ``position(facts)`` for jitted callers: the position of the row that `first` returns."""

    def step(position: int, region: Region, otherwise: Any) -> Any:
        can, when = jit(region.can), jit(region.when)

        def first_from(facts):  # type: ignore[no-untyped-def]
            return position if can(facts, tuning) and when(facts, tuning) else otherwise(facts)

        return jit(first_from)

    last = len(regions) - 1

    def found(facts):  # type: ignore[no-untyped-def]
        return last

    position = jit(found)
    for number in range(last - 1, -1, -1):
        position = step(number, regions[number], position)
    return position
