"""What ``explain`` says of the rows of a table that were passed over."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from numba_dml._cli import explain
from numba_dml._core.regions import Region, always

from .test_regions import TABLE, TUNING, Facts, has_a_line

pytestmark = pytest.mark.cpu


def fits_or_is_empty(facts, tuning):
    return facts.n < tuning.short or not has_a_line(facts, tuning)


def is_left_over(facts, tuning):
    return not fits_or_is_empty(facts, tuning) and facts.k > 0


class Wide(NamedTuple):
    """A threshold is a table."""

    short: int
    large_k: int
    by_width: Mapping[int, int] = {2: 7}


def is_worth_it(facts, tuning):
    """Tell by statements, as helpers may."""
    if facts.n > tuning.short:
        return False
    return needs_more(facts, tuning)


def needs_more(facts, tuning):
    if facts.n < 0:
        return tuning.by_width[facts.k]  # a branch that is not reached
    return facts.k > {1: 2, 4: 9}[tuning.large_k]


@pytest.mark.parametrize(
    ("facts", "chosen", "expected"),
    [
        (Facts(8, 3), 0, []),
        (Facts(9, 6), 1, ["short: needs n <= short (n 9, short 8)"]),
        (Facts(8, 6), 1, ["short: needs k < large_k (k 6, large_k 4)"]),
        (Facts(0, 3), 2, ["short: needs n > 0 (n 0)", "large k: needs k >= large_k (k 3, large_k 4)"]),
    ],
)
def test_the_comparison_that_ruled_a_row_out(facts, chosen, expected):
    call = SimpleNamespace(regions=TABLE, region=TABLE[chosen], facts=facts, tuning=TUNING)
    assert [explain.sentence(ruled) for ruled in explain.passed_over(call)] == expected


def test_helpers_and_alternatives_are_shown_as_they_stand():
    rows = (
        Region("first", None, always, fits_or_is_empty, "", ""),
        Region("second", None, always, is_left_over, "", ""),
        Region("last", None, always, always, "", ""),
    )
    call = SimpleNamespace(regions=rows, region=rows[2], facts=Facts(9, 0), tuning=TUNING)
    assert [explain.sentence(ruled) for ruled in explain.passed_over(call)] == [
        "first: needs n < short or not has_a_line (n 9, short 8)",
        "second: needs k > 0 (k 0)",
    ]


def test_the_numbers_of_helpers_are_shown():
    def is_for_it(facts, tuning):
        return is_worth_it(facts, tuning)

    rows = (Region("first", None, always, is_for_it, "", ""), Region("last", None, always, always, "", ""))
    call = SimpleNamespace(regions=rows, region=rows[1], facts=Facts(9, 0), tuning=Wide(8, 4))
    (found,) = explain.passed_over(call)
    assert explain.sentence(found) == "first: needs is_worth_it (n 9, k 0, large_k 4, short 8)"
    call = SimpleNamespace(regions=rows, region=rows[1], facts=Facts(9, 2), tuning=Wide(8, 4))
    (found,) = explain.passed_over(call)
    assert explain.sentence(found).endswith("(n 9, by_width 7, k 2, large_k 4, short 8)")
