"""The words that networks keep the best of: keys, or their upper bits, over places or labels. See `short_kernel`."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from .tuples import as_int32, int32, integers, load, on_tuples, select, store, tuple_of_kinds, void


def _least(a, b):
    return select(a < b, a, b)


def _greatest(a, b):
    return select(a > b, a, b)


@cache
def shared_load(bits, count):
    """Return ``load(address)``: a tuple of numbers from shared memory."""
    return on_tuples(lambda address: integers(count, bits))(lambda address: load(address, bits, count))


@cache
def shared_store(bits):
    """Return ``store(address, numbers)``: a tuple of numbers comes to shared memory."""
    return on_tuples(void)(lambda address, numbers: store(address, numbers, bits))


@cache
def keys_over_places(width, count):
    """Return ``join(words, place)``: of keys of 1 or 2 bytes, each one over 16 bits, which count down."""
    of_word, rest = 4 // width, 32 - 8 * width

    @on_tuples(lambda words, place: integers(count))
    def join(words, place):
        keys = [as_int32(words[i // of_word] << rest - 8 * width * (i % of_word)) & -1 << rest for i in range(count)]
        return [key | place - i for i, key in enumerate(keys)]

    return join


@cache
def group_steps(bits, of_group, at_once, listed):
    """Return steps of groups of keys that lie one after the other in a row of shared memory.

    ``maxima(row, first, end)`` returns the best key of each of `at_once` groups from the one of a number on. A group
    from `end` on is the one of that number. ``members(row, table)`` returns the keys of `listed` groups, whose numbers
    are in a table of int32. ``load_keys(row, table, number, first)`` returns a key by its number among the members of
    listed groups, and its place in the line, of which the row begins with the one of number `first`, negated, so that a
    later one is less.
    """
    size, key_bytes = of_group * bits // 8, bits // 8

    @on_tuples(lambda row, first, end: integers(at_once, bits))
    def maxima(row, first, end):
        bests = []
        for i in range(at_once):
            best, *others = load(row + _least(first + i, end) * size, bits, of_group)
            for key in others:
                best = _greatest(best, key)
            bests.append(best)
        return bests

    @on_tuples(lambda row, table: integers(of_group * listed, bits))
    def members(row, table):
        groups = [load(table + 4 * i, 32, 1)[0] for i in range(listed)]
        return [key for group in groups for key in load(row + group * size, bits, of_group)]

    @on_tuples(lambda row, table, numbers, first: tuple_of_kinds(integers(len(numbers), bits), integers(len(numbers))))
    def load_keys(row, table, numbers, first):
        keys, places = [], []
        for number in numbers:
            (group,) = load(table + (number & -of_group) * (4 // of_group), 32, 1)
            place = group * of_group + (number & of_group - 1)
            keys += load(row + place * key_bytes, bits, 1)
            places.append(-first - place)
        return keys, places

    return maxima, members, load_keys


@cache
def word_steps(mask):
    """Return how keys become words that are all different, in which an integer takes the place of the lower bits.

    ``upper(keys, label)``: the upper bits of keys, over labels, which count down. ``within(keys, low, high, label)``:
    how far each is above `low`, if it is between that and `high`, where all are in the mask's range, over the same.
    ``labels(words, last)``: by how much the label of each is below the highest one, or `last`, if that is less.
    ``alike(words)``: not 0 if any two neighbours agree in all bits above the labels.
    """
    shift = mask.bit_length()

    @on_tuples(lambda keys, label: keys)
    def upper(keys, label):
        return [key & ~mask | label - i for i, key in enumerate(keys)]

    @on_tuples(lambda keys, low, high, label: keys)
    def within(keys, low, high, label):
        return [(_least(_greatest(key, low), high) - low << shift) + (label - i) for i, key in enumerate(keys)]

    @on_tuples(lambda words, last: integers(len(words)))
    def labels(words, last):
        return [_least(~word & mask, last) for word in words]

    @on_tuples(lambda words: int32)
    def alike(words):
        found = 0
        for a, b in pairwise(words):
            found = select((a ^ b) & ~mask == 0, 1, found)
        return found

    return upper, within, labels, alike
