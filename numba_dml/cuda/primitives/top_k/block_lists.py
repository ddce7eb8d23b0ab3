"""Which elements of a block's source reach a bar, a key that the k best elements reach, and few others.

Only chunks and groups whose best key reaches the bar are looked into. A bar is raised digit by digit, by counts of the
keys' digits.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...driver.compile import helper
from ...driver.numba import LANES, cuda
from ..bits import DIGIT_ABOVE, bits_between, digit_above, raise_key
from ..sums import add_up_threads
from ..warp import sum_of_lanes
from .block_units import BITS, first_of, source_of, source_units, unit_of
from .keys import key_access, key_type
from .plan import MOST_THREADS
from .ranks import range_finder
from .sizes import SIZES

#: Bits of a digit of the keys, by which a bar is found, and how many digits there are.
DIGIT = SIZES.digit_bits
DIGITS = 1 << DIGIT
#: Counters of a block: one for each digit, or for each thread.
SUMS = max(MOST_THREADS, DIGITS)
OF_LANE = DIGITS // LANES
#: Keys that a thread has in registers, of the units that it looks into together.
KEYS_AT_ONCE = 8


@helper
def clear_digits(counts):
    """Set the count of each digit to zero."""
    i = np.int32(cuda.threadIdx.x)
    while i < DIGITS:
        counts[np.uint32(i)] = 0
        i = np.int32(i + cuda.blockDim.x)
    cuda.syncthreads()


@helper
def border(counts, wanted, ends):
    """Find the digit where the best `wanted` elements end; return it, and how many are above it and in it."""
    thread = np.int32(cuda.threadIdx.x)
    if thread < LANES:
        first = np.int32(DIGITS - 1 - thread * OF_LANE)
        own = np.int32(0)
        for j in range(OF_LANE):
            own = np.int32(own + counts[np.uint32(first - j)])
        above = np.int32(sum_of_lanes(own) - own)
        for j in range(OF_LANE):
            inside = counts[np.uint32(first - j)]
            # The lowest digit has all that is left.
            if above < wanted and (above + inside >= wanted or first - j == 0):
                ends[0], ends[1], ends[2] = first - j, above, inside
            above = np.int32(above + inside)
    cuda.syncthreads()
    found = ends[0], ends[1], ends[2]
    cuda.syncthreads()
    return found


@cache
def bar_raiser(key_bytes: int):
    """Return ``raise_bar(keys, count, low, high, wanted, most, sums, ends)`` for keys of a width.

    It returns a listed key that at least `wanted` of them reach, and at most `most` if possible. The keys from `low` to
    `high` are at least as many.
    """
    key, digit_of = key_type(key_bytes), DIGIT_ABOVE[8 * key_bytes]
    _, spread = range_finder(key_bytes)

    @helper
    def count_digits(keys, count, low, bits, fine, counts):
        """Count the next digit of the keys that agree with the lowest one in those before it."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        i = thread
        while i < count:
            its_key = keys[np.uint32(i)]
            if its_key >= low and digit_of(its_key, low, bits) == 0:
                cuda.atomic.add(counts, np.uint32(digit_of(its_key, low, fine)), 1)
            i = np.int32(i + threads)
        cuda.syncthreads()

    @helper
    def least_from(keys, count, low, high, ends):
        """Return the lowest listed key from one on."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        least = high
        i = thread
        while i < count:
            least = min(least, keys[np.uint32(i)] if keys[np.uint32(i)] >= low else high)
            i = np.int32(i + threads)
        least, _ = spread(least, least, ends)
        return least

    @helper
    def raise_bar(keys, count, low, high, wanted, most, sums, ends):
        bits = bits_between(np.int64(low), np.int64(high))
        above, inside = np.int64(0), np.int64(count)
        while bits > 0 and above + inside > most:
            fine = max(bits - DIGIT, np.int64(0))
            clear_digits(sums)
            count_digits(keys, count, low, bits, fine, sums)
            digit, higher, inside = border(sums, wanted - above, ends)
            low = key(raise_key(np.int64(low), digit, fine))
            above += higher
            bits = min(fine, bits_between(np.int64(low), np.int64(high)))  # few values are told apart at once
        # The key may lie far below the next listed one: then elements that are not listed would reach it, too.
        # Measured in docs/measurements/cudakernels.md, "A bar is a listed key".
        return least_from(keys, count, low, high, ends) if low < high else high

    return raise_bar


@cache
def narrower(width: int, infinity: int):
    """Return ``narrow(memory, plan, low, high, wanted, room, whole)``.

    It raises the bar `low` until at most as many elements of the source as there is room for reach it, and the best
    `wanted` do. It returns the bar, and whether the elements equal to it are too many. `whole`: all units are looked
    into, not those of the groups.
    """
    (_, _, keys_from, reaching), key, of_quad = source_units(width, infinity), key_type(width), 16 // width

    @helper
    def count_digits(memory, plan, low, bits, fine, whole):
        """Count the next digit of the elements whose keys agree with the lowest one in those before it."""
        some = cuda.local.array(of_quad, key)
        source = source_of(memory.where)
        c = np.int32(cuda.threadIdx.x)
        while c < source.total:
            first = first_of(source, unit_of(memory, c, whole))
            if first < source.size:
                keys_from(source, plan, first, some)
                found = reaching(source, first, some, key(low), False)
                for j in range(of_quad):
                    if found & np.uint32(1 << j) != 0 and digit_above(some[j], low, bits) == 0:
                        cuda.atomic.add(memory.sums, digit_above(some[j], low, fine), 1)
            c = np.int32(c + cuda.blockDim.x)
        cuda.syncthreads()

    @helper
    def narrow(memory, plan, low, high, wanted, room, whole):
        bits = bits_between(low, high)
        above = np.int64(0)
        while True:
            fine = max(bits - DIGIT, np.int64(0))
            clear_digits(memory.sums)
            count_digits(memory, plan, low, bits, fine, whole)
            digit, higher, inside = border(memory.sums, wanted - above, memory.ends)
            low = raise_key(low, digit, fine)
            above += higher
            if fine == 0 or above + inside <= room:
                return low, above + inside > room
            bits = fine

    return narrow


def units_together(width: int) -> int:
    """Return of how many units, of elements of a width, a thread lists the keys together: 1, 2 or 4."""
    return max(1, KEYS_AT_ONCE * width // 16)


@cache
def element_finder(width: int, infinity: int):
    """Return ``find_in_units(memory, plan, bar, c, total, some, firsts)``.

    It lists the keys of a batch of a thread's `total` units, and where each unit begins, and returns, as bits, which
    keys reach a bar.
    """
    access, (_, _, keys_from, reaching) = key_access(width, infinity), source_units(width, infinity)
    load_words, put_keys = access.load_quad, access.put_keys
    of_quad, together = 16 // width, units_together(width)

    @helper
    def find_in_units(memory, plan, bar, c, total, some, firsts):
        source = source_of(memory.where)
        threads, last = np.int32(cuda.blockDim.x), np.int32(total - 1)
        least = most = np.int32(0)
        for j in range(together):  # past the end of the units the last one is listed again
            firsts[j] = first_of(source, unit_of(memory, min(np.int32(c + j * threads), last), False))
            least, most = min(least, firsts[j]), max(most, firsts[j])
        bits = source.unit_bits
        if source.level > 0 or bits == 0 or least < 0 or most > source.size - (1 << bits):
            for j in range(together):
                keys_from(source, plan, firsts[j], some[of_quad * j :])
        else:
            for j in range(together):
                put_keys(some[of_quad * j :], load_words(source.address + np.int64(firsts[j]) * width), plan)
        found = np.uint32(0)
        for j in range(together):
            if c + j * threads < total:
                those = reaching(source, firsts[j], some[of_quad * j :], bar, False)
                found = np.uint32(found | np.uint32(those << (of_quad * j)))
        return found

    return find_in_units


@helper
def list_hits(memory, bar, room, chunks):
    """List the first units of the chunks that reach a key; return how many there are, or one more than the room."""
    thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
    bits = np.int32(memory.where[BITS])
    own = np.int32(thread << min(bits, np.int32(1)))
    c = thread
    while c < chunks:
        if memory.maxima[np.uint32(c)] >= bar:
            slot = cuda.atomic.add(memory.sums, 1, 1)
            if slot >= room:
                break
            memory.groups[np.uint32(slot)] = np.int32(((c - thread) << bits) + own)
        c = np.int32(c + threads)
    cuda.syncthreads()
    return np.int32(min(np.int64(memory.sums[1]), room + 1))


@cache
def collector(width: int, infinity: int):
    """Return ``collect(memory, plan, bar, room, chunks)``: how many elements reach a bar.

    They are listed as far as there is room. `chunks`: how many a survey has found, 0: units of the groups are looked
    into.
    """
    find_in_units, key = element_finder(width, infinity), key_type(width)
    of_quad, together = 16 // width, units_together(width)
    of_batch = of_quad * together

    @helper
    def append(memory, room, found, some, firsts):
        """List the elements that were found in a batch of units, while there is room."""
        slot = np.int32(cuda.atomic.add(memory.sums, 0, cuda.popc(found)))
        for n in range(of_batch):
            if found & np.uint32(1 << n) != 0:
                if slot < room:
                    memory.keys[np.uint32(slot)] = some[n]
                    memory.positions[np.uint32(slot)] = np.int32(firsts[n // of_quad] + n % of_quad)
                slot = np.int32(slot + 1)

    @helper
    def collect(memory, plan, bar, room, chunks):
        some = cuda.local.array(of_batch, key)
        firsts = cuda.local.array(together, np.int32)
        where, sums = memory.where, memory.sums
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        if thread == 0:
            sums[0] = sums[1] = 0
        cuda.syncthreads()
        total = source_of(where).total
        if chunks > 0:
            hit = list_hits(memory, bar, room, chunks)
            if hit > room:
                cuda.syncthreads()
                return np.int64(hit)
            total = np.int32(hit << np.int32(where[BITS]))
        c = thread
        while c < total:
            found = find_in_units(memory, plan, bar, c, total, some, firsts)
            if found != 0:
                append(memory, room, found, some, firsts)
            c = np.int32(c + together * threads)
        cuda.syncthreads()
        count = np.int64(sums[0])
        cuda.syncthreads()
        return count

    return collect


@helper
def keep(memory, count, bar):
    """Keep the listed elements from a key on; return how many there are."""
    keys, positions, sums = memory.keys, memory.positions, memory.sums
    thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
    if thread == 0:
        sums[0] = 0
    begin = np.int32(0)
    while begin < count:
        i = np.uint32(min(np.int32(begin + thread), np.int32(count - 1)))
        its_key, position = keys[i], positions[i]
        cuda.syncthreads()  # what others write lies before what is read next
        if begin + thread < count and its_key >= bar:
            at = np.uint32(cuda.atomic.add(sums, 0, 1))
            keys[at], positions[at] = its_key, position
        begin = np.int32(begin + threads)
    cuda.syncthreads()
    kept = np.int64(sums[0])
    cuda.syncthreads()
    return kept


@cache
def tie_collector(width: int, infinity: int):
    """Return ``collect_ties(memory, plan, bar, count, wanted, whole)``: how many elements are listed then.

    It adds the first elements at the bar, in their order, to `count` others until there are as many as wanted. `whole`:
    all units are looked into, not those of the groups.
    """
    (_, _, keys_from, reaching), key, of_quad = source_units(width, infinity), key_type(width), 16 // width

    @helper
    def append(memory, bar, count, wanted, ties, first):
        """List what all threads have found, thread by thread; return how many are listed then."""
        own = np.int64(cuda.popc(ties))
        at = count + add_up_threads(memory.sums, own) - own
        for j in range(of_quad):
            if ties & np.uint32(1 << j) != 0:
                if at < wanted:
                    memory.keys[at] = bar
                    memory.positions[at] = np.int32(first + j)
                at += 1
        count = min(wanted, count + memory.sums[cuda.blockDim.x - 1])
        cuda.syncthreads()
        return count

    @helper
    def collect_ties(memory, plan, bar, count, wanted, whole):
        some = cuda.local.array(of_quad, key)
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        source = source_of(memory.where)
        begin = np.int32(0)
        while count < wanted and begin < source.total:
            item = min(np.int32(begin + thread), np.int32(source.total - 1))
            first = first_of(source, unit_of(memory, item, whole))
            ties = np.uint32(0)
            if begin + thread < source.total and first < source.size:
                keys_from(source, plan, first, some)
                ties = reaching(source, first, some, bar, True)
            if cuda.syncthreads_or(1 if ties != 0 else 0):
                count = append(memory, bar, count, wanted, ties, first)
            begin = np.int32(begin + threads)
        return wanted

    return collect_ties
