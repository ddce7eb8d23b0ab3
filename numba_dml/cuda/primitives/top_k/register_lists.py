"""Lists in registers, kept by networks of exchanges: the same steps for all lanes, whatever the data are.

Networks keep the best of words: keys, or their upper bits, over places or labels. See `short_kernel`.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from .tuples import as_int32, int32, integers, load, on_tuples, ordered, select, store, store_if, tuple_of_kinds, void


def _merges(span, count):
    """Return the steps of Batcher's odd-even merge of neighbouring parts of equal length among `count` elements."""
    steps, step = [], span
    while step > 0:
        for start in range(step % span, count - step, 2 * step):
            for i in range(start, min(start + step, count - step)):
                if i // (2 * span) == (i + step) // (2 * span):
                    steps.append((i, i + step))
        step //= 2
    return steps


def _exchanges(count):
    """Return the steps of Batcher's odd-even merge sort of a power of two: 5 for 4, 19 for 8, 63 for 16."""
    return [pair for bit in range(count.bit_length() - 1) for pair in _merges(1 << bit, count)]


@cache
def _steps(most, wanted, is_sorted):
    """Return how to merge a list and `most` new elements behind it, sorted or not, into the `wanted` best ones.

    Each step is an exchange of two places; one whose results nothing looks at is left out.
    """
    pairs = [] if is_sorted else [(most + i, most + j) for i, j in _exchanges(most)]
    needed, steps = set(range(wanted)), []
    for i, j in reversed(pairs + _merges(most, 2 * most)):
        if i in needed or j in needed:
            steps.append((i, j))
            needed |= {i, j}
    return steps[::-1]


def _keep_best(best, new, exchange, next_best=None, is_sorted=False):
    """Let the best of a descending list, and of new ones, a few at a time, be the list, by exchanges alone.

    `next_best`: the best of what was left out, which is returned as well. Of two lists of 8 it is found by one step
    more: the merge is Batcher's, where each place is the end of few steps.
    """
    most = len(best)
    steps = _steps(most, most + (next_best is not None), is_sorted)
    for start in range(0, len(new), most):
        both = [*best, *new[start : start + most]]
        for i, j in steps:
            both[i], both[j] = exchange(both[i], both[j])
        best = both[:most]
        if next_best is not None:
            next_best, _ = exchange(next_best, both[most])
    return best, next_best


def _exchange_pairs(a, b):
    """Return two pairs, the higher one first, which compare by their keys, then by what lies beside them."""
    above = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] > b[1]))
    return tuple(map(select, (above,) * 2, a, b)), tuple(map(select, (above,) * 2, b, a))


@on_tuples(lambda best, new: best)
def keep_best(best, new):
    """Return the best of a descending tuple of integers, and of new ones, a multiple of as many."""
    return _keep_best(best, new, ordered)[0]


@on_tuples(lambda best, next_best, new: tuple_of_kinds(best, best.dtype))
def keep_best_and_next(best, next_best, new):
    """Return the same, and the best of what was left out: the one before, or one of these."""
    return _keep_best(best, new, ordered, next_best)


@on_tuples(lambda keys, lows, new_keys, new_lows: tuple_of_kinds(keys, lows))
def merge_pairs(keys, lows, new_keys, new_lows):
    """Return the best of two descending lists of pairs, which compare by their keys, then by what lies beside them."""
    old, new = list(zip(keys, lows, strict=True)), list(zip(new_keys, new_lows, strict=True))
    return list(zip(*_keep_best(old, new, _exchange_pairs, is_sorted=True)[0], strict=True))


def _sort(records, exchange):
    for i, j in _exchanges(len(records)):
        records[i], records[j] = exchange(records[i], records[j])
    return records


@on_tuples(lambda keys, lows: tuple_of_kinds(keys, lows))
def sort_pairs(keys, lows):
    """Return pairs in descending order."""
    return list(zip(*_sort(list(zip(keys, lows, strict=True)), _exchange_pairs), strict=True))


@on_tuples(lambda numbers, count, other: numbers)
def sort_numbers(numbers, count, other):
    """Return the first `count` integers of a tuple in ascending order, then another one, which is not less."""
    return _sort([select(count > i, number, other) for i, number in enumerate(numbers)], ordered)[::-1]


@on_tuples(lambda numbers, i: numbers.dtype)
def pick(numbers, i):
    """Return a number of a tuple, by selections: a tuple has no addresses."""
    chosen = numbers[0]
    for j, number in enumerate(numbers[1:], 1):
        chosen = select(i == j, number, chosen)
    return chosen


@on_tuples(lambda keys, bar: int32)
def count_reaching(keys, bar):
    """Return how many keys of a tuple reach a bar."""
    count = 0
    for key in keys:
        count = select(key >= bar, count + 1, count)
    return count


@on_tuples(lambda place, keys, bar, first: place)
def note_reaching(place, keys, bar, first):
    """Note which keys of a tuple reach a bar, from a place in shared memory on, as numbers of 16 bits.

    The number of a key is `first` and up. It returns the place after the last one. No lane waits for another one.
    """
    for i, key in enumerate(keys):
        reaches = key >= bar
        store_if(reaches, place, first + i)
        place = select(reaches, place + 2, place)
    return place


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
