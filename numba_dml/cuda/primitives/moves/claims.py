"""Claims: of all updates of a place, the last point's claim stays."""

from __future__ import annotations

from functools import cache

from ...driver.compile import helper
from ..access import LOAD_INDEX
from ..atomics import combine_now, exchange_if, load_two_now
from ..plan import GRANULE, LOWEST, number, quotient

#: Bytes of an entry of the table that few points have instead of a claim for each place, and what it holds at first;
#: how many are looked at at once.
ENTRY_BYTES, EMPTY, ENTRIES = 8, -1, 4


@helper
def number_of_place(plan, place):
    """Return the number of a place, counted from the lowest."""
    return quotient(place - number(plan, LOWEST), plan, GRANULE)


@helper
def spread(place):
    """Return 32 bits that any two neighbours, or multiples, have in no order: where a table has its entry."""
    word = (place ^ (place >> 32)) & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return word ^ (word >> 16)


#: ``raise_claim(entry, word)``: raise an entry of the table to a word.
raise_claim = combine_now("max", f"int{8 * ENTRY_BYTES}")


@helper
def take_entry(entry, found, last_entry, word):
    """Claim an entry that held something a while ago; tell whether it is that of the place."""
    if found == EMPTY:
        found = exchange_if(entry, EMPTY, word)
        if found == EMPTY:
            return True
    if found ^ word > last_entry:
        return False
    if found < word:
        raise_claim(entry, word)
    return True


@helper
def claim_in_table(claims, last_entry, place, point):
    """Do what `claimer` does for a table of ``last_entry + 1`` entries, a power of two, of which half stay empty.

    A place has the entry where `spread` leads, or the first of its group, or of the next ones, that was empty when it
    came. It holds both numbers, in one that counts the places.
    """
    word = place * (last_entry + 1) + point
    at = spread(place) & last_entry
    entry = claims + ENTRY_BYTES * at
    # Most places find this one empty, and have not to look first.
    found = exchange_if(entry, EMPTY, word)
    waiting = found != EMPTY and not take_entry(entry, found, last_entry, word)
    at &= -ENTRIES
    while waiting:
        entry = claims + ENTRY_BYTES * at
        a, b = load_two_now(entry)
        c, d = load_two_now(entry + 2 * ENTRY_BYTES)
        waiting = not (
            take_entry(entry, a, last_entry, word)
            or take_entry(entry + ENTRY_BYTES, b, last_entry, word)
            or take_entry(entry + 2 * ENTRY_BYTES, c, last_entry, word)
            or take_entry(entry + 3 * ENTRY_BYTES, d, last_entry, word)
        )
        at = (at + ENTRIES) & last_entry


@cache
def claimer(claim_bytes: int):
    """Return ``claim(claims, last_entry, place, point)``.

    A place is a number. Each has a claim of 4 or 8 bytes, for the number of a point; 0: there are none.
    """
    raise_claim = combine_now("max", f"int{8 * (claim_bytes or 4)}")

    @helper
    def claim(claims, last_entry, place, point):
        if claim_bytes > 0:
            raise_claim(claims + claim_bytes * place, point)

    return claim


@cache
def holder(claim_bytes: int):
    """Return ``holds(claims, place, point)``: whether a claim that is not in a table has stayed."""
    load_claim = LOAD_INDEX[f"int{8 * (claim_bytes or 4)}"]

    @helper
    def holds(claims, place, point):
        return claim_bytes == 0 or load_claim(claims + claim_bytes * place) == point

    return holds
