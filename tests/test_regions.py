"""The tables of regions: what holds for all of them; see `numba_dml._core.regions`."""

from typing import NamedTuple

import numba
import pytest

from numba_dml._core.regions import Region, always, compiled_first, first, forced, passed_over


class Facts(NamedTuple):
    n: int
    k: int


class Tuning(NamedTuple):
    short: int
    large_k: int


TUNING = Tuning(short=8, large_k=4)


def has_a_line(facts, tuning):
    return facts.n > 0


def is_short(facts, tuning):
    return facts.n <= tuning.short and facts.k < tuning.large_k


def is_large_k(facts, tuning):
    return facts.k >= tuning.large_k


TABLE = (
    Region("short", None, has_a_line, is_short, "", ""),
    Region("large k", None, always, is_large_k, "", ""),
    Region("other", None, always, always, "", ""),
)
CASES = {(8, 3): "short", (0, 3): "other", (8, 4): "large k", (9, 3): "other", (9, 9): "large k"}


@pytest.mark.parametrize(("case", "name"), CASES.items())
def test_the_first_row_that_holds(case, name):
    facts = Facts(*case)
    assert first(TABLE, facts, TUNING).name == name
    assert TABLE[compiled_first(TABLE, TUNING, numba.njit)(facts)].name == name


def test_a_row_is_forced_where_its_kernel_can():
    token = forced.set("short")
    try:
        assert first(TABLE, Facts(100, 50), TUNING).name == "short"
        assert first(TABLE, Facts(0, 3), TUNING).name == "other"
    finally:
        forced.reset(token)


def test_a_row_is_passed_over():
    token = passed_over.set(frozenset({"short"}))
    try:
        assert first(TABLE, Facts(8, 3), TUNING).name == "other"
    finally:
        passed_over.reset(token)
