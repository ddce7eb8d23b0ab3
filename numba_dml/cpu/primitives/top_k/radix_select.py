"""Top-k with a large k: a limit near the k-th best is found, what is above it is collected, and sorted by digits.

The limit comes from a sample of the line. Where that misleads, the k-th best is searched digit by digit: each round
counts the digits of the keys that are still in question. What is sorted are words of 64 bits: 32 of a key, as an
unsigned number (0 is the best), and the position; by two or three digits, counted from the first bit in which any two
of them differ, and if they are many part by part. Those few that are equal so far are settled as they lie.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import helper
from ..keys import LANES, bit_count, key_of, lowest_bit, lowest_key
from .compaction import SORT_BITS, digit_bits, number_of, to_starts
from .key_masks import beats

#: Bits of a digit on the way to the k-th best: its counts fill half of a common L1.
SELECT_BITS = 12
#: Lines of up to this many elements are searched bit by bit: clearing thousands of counts takes longer.
FEW = 4096
#: Up to this many numbers are sorted by 20 bits first, more by 30: then few are equal so far.
FEW_WORDS = 1 << 9
#: From this many words on, they are sorted part by part, by their first PART_BITS: two arrays of all leave the L2,
#: which has room for each part. Parts of fewer than SMALL_PART words take three shorter digits, with fewer counts.
MANY_WORDS = 1 << 16
PART_BITS, SMALL_PART = 8, 1 << 10
#: How far an element is moved to settle the order of numbers that have these bits in common.
SETTLED = 16
HALF = 32
#: Room for the counts: of all digits of the sort together, or of one on the way to the k-th best.
SORT_DIGITS, DIGIT_COUNTS = -(-HALF // SORT_BITS), 1 << SORT_BITS
assert SORT_DIGITS * DIGIT_COUNTS >= 1 << SELECT_BITS
LOW_HALF = (1 << HALF) - 1


@helper
def number_at(row, i, rule):
    """Return the key of an element as an unsigned number, 0 for the best key."""
    return number_of(row, key_of(row[i], rule))


@helper
def key_of_number(row, number):
    """Return the key that has an unsigned number, as wide as the elements."""
    return row.dtype.type(np.int64(number) ^ np.int64(~lowest_key(row)))


@helper
def count_from(row, n, threshold, inclusive, rule):
    """Return how many elements of a line are above a key, or reach it."""
    if inclusive and threshold == lowest_key(row):
        return n
    limit = row.dtype.type(threshold - inclusive)
    whole = n // LANES * LANES
    count = 0
    for at in range(0, whole, LANES):
        count += bit_count(beats(row, at, limit, rule))
    if whole < n and n >= LANES:  # the others are the last of a block that begins earlier
        return count + bit_count(beats(row, n - LANES, limit, rule) >> np.uint64(LANES - (n - whole)))
    for i in range(whole, n):
        count += key_of(row[i], rule) > limit
    return count


@helper
def ties_of(row, n, k, room, bound, rule):
    """Return how many elements equal to a bound belong to the result; -1: it is no bound, or too many are above it."""
    above = 0
    for inclusive in range(2):
        count = count_from(row, n, bound, inclusive, rule)
        if count >= k:
            if inclusive:
                return k - above
            return 0 if count <= room else -1
        above = count
    return -1


@helper
def last_key_of_few(row, n, k, room, rule):
    """Do what `last_key` does, bit by bit."""
    lowest = np.int64(lowest_key(row))
    key = lowest_key(row)
    bits = np.uint64(0)  # how far it is above the lowest key
    for bit in range(8 * row.itemsize - 1, -1, -1):
        higher = bits | np.uint64(1) << np.uint64(bit)
        candidate = row.dtype.type(np.int64(higher) ^ lowest)
        count = count_from(row, n, candidate, True, rule)
        if count >= k:
            key, bits = candidate, higher
            if count <= room:
                return key, n
    return key, k - count_from(row, n, key, False, rule)


@helper
def last_key(row, n, k, room, rule, counts):
    """Return the last key that belongs to the result, or may, and how many elements that have it belong to it.

    The search stops where all that is left fits in the room for it.
    """
    if room < n and n <= FEW:
        return last_key_of_few(row, n, k, room, rule)
    width = 8 * row.itemsize
    shift = width
    prefix = np.uint64(0)  # the digits of the k-th best number that are known
    above = 0  # elements with a lower prefix
    inside = n  # elements with this one
    while shift > 0 and above + inside > room:
        bits = min(SELECT_BITS, shift)
        shift -= bits
        for bucket in range(1 << bits):
            counts[bucket] = 0
        mask = np.uint64((1 << bits) - 1)
        for i in range(n):
            digits = number_at(row, i, rule) >> np.uint64(shift)
            if digits >> np.uint64(bits) == prefix:
                counts[digits & mask] += 1
        bucket = 0
        while above + counts[bucket] < k:
            above += counts[bucket]
            bucket += 1
        inside = counts[bucket]
        prefix = prefix << np.uint64(bits) | np.uint64(bucket)
    if shift == width:
        return lowest_key(row), n
    last = ((prefix + np.uint64(1)) << np.uint64(shift)) - np.uint64(1)
    return key_of_number(row, last), k - above if shift == 0 else n


@helper
def word_at(row, i, rule):
    """Return the word of an element; of 8 bytes it holds the position alone, see `sort_line`."""
    return np.int64(number_at(row, i, rule) << np.uint64(HALF)) | i if row.itemsize < 8 else np.int64(i)


@helper
def collect_words(row, n, rule, last, ties, words):
    """Collect the words of elements above a key, and of the first ones equal to it; return how many they are."""
    count = 0
    for at in range(0, n, LANES):
        size = min(LANES, n - at)
        if size == LANES and (ties == 0 or last != lowest_key(row)):
            mask = beats(row, at, row.dtype.type(last - (ties > 0)), rule)
        else:
            mask = ~np.uint64(0) >> np.uint64(LANES - size)
        while mask != np.uint64(0):
            i = at + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            key = key_of(row[i], rule)
            if key <= last:
                if key < last or ties == 0:
                    continue
                ties -= 1
            words[np.uint64(count)] = word_at(row, i, rule)
            count += 1
    return count


@helper
def bit_length(number):
    """Return how many bits an unsigned number has, 1 for 0."""
    length = 1
    while length < 64 and number >> np.uint64(length) != np.uint64(0):
        length += 1
    return length


@helper
def number_of_word(row, word, rule):
    """Return the number of the element that a word stands for."""
    return number_at(row, word & LOW_HALF, rule) if row.itemsize == 8 else np.uint64(word) >> np.uint64(HALF)


@helper
def are_in_order(row, rule, words, count):
    """Tell whether the elements that words stand for are in order."""
    before = np.uint64(0)
    for i in range(count):
        number = number_of_word(row, words[i], rule)
        if number < before:
            return False
        before = number
    return True


@helper
def spread_of(row, rule, words, count):
    """Return the lowest number of the elements that words stand for, and how far above it the highest is."""
    low, high = ~np.uint64(0), np.uint64(0)
    for i in range(count):
        number = number_of_word(row, words[i], rule)
        low, high = min(low, number), max(high, number)
    return low, high - low


@helper
def set_halves(row, rule, words, count, low, shift):
    """Let words of 8-byte elements have 32 bits of their numbers, counted from the lowest one, from a bit on."""
    for i in range(count):
        position = words[i] & LOW_HALF
        words[i] = np.int64((number_at(row, position, rule) - low) >> np.uint64(shift) << np.uint64(HALF)) | position


@helper
def digits_of(word, base, shift):
    """Return what words are sorted by: how far they are above the lowest one, from a bit on."""
    return (np.uint64(word) - base) >> np.uint64(shift)


@helper
def settle(row, rule, words, count, base, shift):
    """Sort words with the same `digits_of` by their numbers, if these are near; tell whether they were."""
    for i in range(1, count):
        word = words[i]
        digits = digits_of(word, base, shift)
        j = i
        if digits_of(words[i - 1], base, shift) == digits:
            number = number_of_word(row, word, rule)
            while (
                j > 0
                and digits_of(words[j - 1], base, shift) == digits
                and number_of_word(row, words[j - 1], rule) > number
            ):
                words[j] = words[j - 1]
                j -= 1
                if i - j > SETTLED:
                    words[j] = word
                    return False
            words[j] = word
    return True


@helper
def count_digits(words, begin, end, base, shift, bits, counts):
    """Count the next three digits of `bits` bits, from a bit on, of some words; at once, since a loop is slower."""
    low, middle, high = counts[0], counts[1], counts[2]
    mask = np.uint64((1 << bits) - 1)
    for bucket in range(1 << bits):
        low[bucket] = middle[bucket] = high[bucket] = 0
    for i in range(begin, end):
        number = digits_of(words[np.uint64(i)], base, shift)
        low[number & mask] += 1
        middle[(number >> np.uint64(bits)) & mask] += 1
        high[(number >> np.uint64(2 * bits)) & mask] += 1


@helper
def move_by_digit(words, other, begin, end, base, shift, mask, places):
    """Move some words to `other`, each to the next of the places for its digit."""
    for i in range(begin, end):
        word = words[np.uint64(i)]
        bucket = digits_of(word, base, shift) & mask
        place = np.uint64(places[bucket])
        places[bucket] += 1
        other[place] = word


@helper
def sort_part(words, other, begin, end, base, shift, width, bits, counts):
    """Sort some words by their `digits_of`, of `width` bits, stably; return whether they are in `other` then."""
    mask = np.uint64((1 << bits) - 1)
    swapped = False
    step = shift
    while step < shift + width:
        count_digits(words, begin, end, base, step, bits, counts)
        for digit in range(min(-(-(shift + width - step) // bits), 3)):
            places = counts[digit]
            if places[digits_of(words[begin], base, step) & mask] < end - begin:  # else all have the same digit
                to_starts(places, 1 << bits, begin)
                move_by_digit(words, other, begin, end, base, step, mask, places)
                words, other = other, words
                swapped = not swapped
            step += bits
    return swapped


@helper
def sort_words(words, other, count, base, shift, width, counts):
    """Sort words by their `digits_of`, of `width` bits, stably; return the sorted array, and the one left over."""
    if sort_part(words, other, np.int64(0), count, base, shift, width, digit_bits(width), counts):
        return other, words
    return words, other


@helper
def sort_parts(words, other, count, base, shift, width, counts):
    """Do what `sort_words` does part by part, which have the same first bits: each is in a cache then.

    What is left is two digits, or three if these would be longer than `SORT_BITS`, or in a small part.
    """
    start = np.int64(0)
    low = max(width - PART_BITS, start)
    by_three = low > 2 * SORT_BITS
    short = -(-low // 3)
    long = short if by_three else -(-low // 2)
    places = counts[3]  # `sort_part` has the others
    parts = 1 << PART_BITS
    for part in range(parts):
        places[part] = 0
    for i in range(count):
        places[digits_of(words[i], base, shift + low)] += 1
    to_starts(places, parts, start)
    move_by_digit(words, other, start, count, base, shift + low, ~np.uint64(0), places)
    result, spare = (words, other) if by_three else (other, words)  # where most parts end up
    begin = start
    for part in range(parts):
        end = places[part]
        if end > begin:
            bits = short if end - begin < SMALL_PART else long
            if sort_part(other, words, begin, end, base, shift, low, bits, counts) != by_three:
                for i in range(begin, end):
                    result[np.uint64(i)] = spare[np.uint64(i)]
        begin = end
    return result, spare


@helper
def sort_line(row, rule, words, other, count, counts):
    """Sort the words of a line; return the sorted array, and the one left over.

    They are sorted by the first 20 or 30 bits in which their numbers differ, and settled where these are equal.
    """
    if are_in_order(row, rule, words, count):
        return words, other
    half = np.int64(HALF)
    if row.itemsize <= 2:
        return sort_words(words, other, count, np.uint64(0), half, np.int64(8 * row.itemsize), counts)
    low, spread = spread_of(row, rule, words, count)
    width = bit_length(spread)
    in_parts = count >= MANY_WORDS and width > 2 * SORT_BITS
    known = HALF if in_parts else SORT_BITS * (2 if count <= FEW_WORDS else 3)
    rest = max(width - known, 0)
    base, shift = low << np.uint64(HALF), half + rest
    if row.itemsize == 8:
        set_halves(row, rule, words, count, low, rest)
        base, shift = np.uint64(0), half
    if in_parts:
        words, other = sort_parts(words, other, count, base, shift, width - rest, counts)
    else:
        words, other = sort_words(words, other, count, base, shift, width - rest, counts)
    if rest > 0 and not settle(row, rule, words, count, base, shift):
        if row.itemsize < 8:
            return sort_words(words, other, count, base, half, width, counts)
        for start in (0, HALF):  # by the lower half, and by the upper one
            set_halves(row, rule, words, count, low, start)
            words, other = sort_words(words, other, count, base, half, half, counts)
    return words, other
