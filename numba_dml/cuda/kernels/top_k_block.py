"""The kernel that chooses the best of a line, which it reads once if it is not too long, or of its delegates.

A block surveys a line: the best keys of its chunks, of some 16 bytes each, stay in shared memory, and a key that k of
them reach is a bar that the k best elements reach, and few others do. Only chunks that reach it are looked into again.

If there are levels of delegates (see `top_k`), the uppermost ones are the line; the best of them tell which groups to
look into below. The bar holds for these too.

Elements at the bar can be too many to list. Then those beyond it are listed, and the first at it, in their order.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import LANES, cuda
from ..primitives.access import load_quad, unit_access
from ..primitives.bits import DIGIT_ABOVE, bits_between, digit_above, raise_key
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.sums import add_up_threads
from ..primitives.top_k.block_sort import ITEMS, sorter, spread_sorter, spreader
from ..primitives.top_k.ends import end_access
from ..primitives.top_k.keys import key_access, key_type
from ..primitives.top_k.plan import (
    CHUNK,
    ENDS,
    FLIP,
    GROUP_BITS,
    INDEX_SIZE,
    LEVELS,
    MAXIMA,
    MOST_THREADS,
    OUT_STRIDE,
    PITCH,
    ROOM,
    SIZE,
    STRIDE,
    K,
    line_bases,
)
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.writing import write_index
from ..primitives.warp import sum_of_lanes, sync_lanes

#: Bits of a digit of the keys, by which a border is found, and how many digits there are.
DIGIT = SIZES.digit_bits
DIGITS = 1 << DIGIT
SUMS = max(MOST_THREADS, DIGITS)
#: Units that a thread looks at together, so that their loads are on their way together: 16 bytes, or one element of
#: lines whose elements are no neighbours.
AT_ONCE = 4
#: Of groups of up to so many units, as a power of two, all elements become keys; of others a unit's best element first,
#: to tell whether there is any that is wanted.
FEW_UNITS = 2
#: Lists are ranked, each element by a thread that looks at all others, if their length squared is up to so many times
#: the threads: 128 elements take a sort 28 steps and barriers.
RANKED = SIZES.ranked
#: Lists that are longer than that, and than they need be, are shortened before they are sorted; and then digit by
#: digit, if they are up to `ITEMS` for each thread.
SORTED = SIZES.sorted

#: What a block chooses from, in shared memory.
(
    LEVEL,
    SOURCE,  # the address of its first key or element
    STEP,  # bytes from one element to the next
    UNIT,  # elements of a unit, as a power of two
    BITS,  # units of a group, as a power of two
    SCALE,  # units between the beginnings of neighbouring groups, as a power of two
    APART,  # units from one pair of neighbours in a group to the next
    SHIFT,  # how far the first unit begins before the first element
    COUNT,  # keys or elements of the line
    TOTAL,  # units to look into
    WHERE,
) = range(11)


@cache
def choose_kernel(width: int, is_float: bool, is_long: bool, moves: bool) -> Kernel:
    """Return the kernel.

    `is_long`: a line has 2**31 elements or more. `moves`: it can sort long lists digit by digit; without that its code
    is shorter, which counts where it runs once, from cold instruction caches.
    """
    access = key_access(width, is_float, FLIP)
    key_at, best_of_quad, bests_of_quads = access.key_at, access.best_of_quad, access.bests_of_quads
    load_words, put_keys = access.load_quad, access.put_keys
    comparable, in_words, bits_of = access.comparable, access.words is not None, access.bits_of
    best_inside = end_access(width, is_float)
    load, store = unit_access(width)
    key = key_type(width)
    key_bytes = key(0).itemsize
    lowest, highest = int(np.iinfo(key).min), int(np.iinfo(key).max)
    load_pair, _ = unit_access(16)
    spread = spreader(key_bytes)
    place = np.int64 if is_long else np.int32  # of positions: 64 bits take twice the steps
    key_array, place_array = ARRAY_TYPES[key], ARRAY_TYPES[place]
    end = np.iinfo(place).max
    _, sort_lists = sorter(key_bytes, place(0).itemsize)
    sort_spread = spread_sorter(key_bytes, place(0).itemsize)
    count_array = ARRAY_TYPES[np.int32]
    counts_in_lists = (2 * place(0).itemsize + key_bytes) // 4
    keys_in_places = 2 * place(0).itemsize // key_bytes  # keys that would fit where a position and a group are
    of_quad, of_lane, digit_of = 16 // width, DIGITS // LANES, DIGIT_ABOVE[8 * key_bytes]
    together = max(1, min(AT_ONCE, 8 // of_quad))  # units whose keys a thread has in registers
    of_batch, all_hit = together * of_quad, (1 << together) - 1
    quad_bits, key_quad_bits = of_quad.bit_length() - 1, (16 // key_bytes).bit_length() - 1

    mask_of, best_of_words, _, key_of_best = access.words or (None,) * 4

    # Of the four units that a thread looks at together, the second is so many bytes from the first, and the third.

    @helper
    def load_units(address, near, far):
        return (
            load_quad(address),
            load_quad(address + near),
            load_quad(address + far),
            load_quad(address + far + near),
        )

    @helper
    def bests_of_words(units, mask, plan):
        a, b, c, d = units
        return (
            key_of_best(best_of_words(a, mask), mask, plan),
            key_of_best(best_of_words(b, mask), mask, plan),
            key_of_best(best_of_words(c, mask), mask, plan),
            key_of_best(best_of_words(d, mask), mask, plan),
        )

    @helper
    def bests_of_units(address, near, far, plan):
        """Return the best key of each of four units."""
        return bests_of_quads(address, address + near, address + far, address + far + near, plan)

    @helper
    def bests_of_batches(address, near, far, plan):
        """Return the best keys of four units and of the four after them, which are loaded before, too."""
        after = address + 2 * far
        if in_words and comparable(plan):
            first, second, mask = load_units(address, near, far), load_units(after, near, far), mask_of(plan)
            return bests_of_words(first, mask, plan), bests_of_words(second, mask, plan)
        return bests_of_units(address, near, far, plan), bests_of_units(after, near, far, plan)

    @helper
    def bests_of_delegates(address, near, far):
        """Return the best key of each of four units of delegates."""
        first, second = best_of_keys(address), best_of_keys(address + near)
        return first, second, best_of_keys(address + far), best_of_keys(address + far + near)

    @helper
    def put_maxima(maxima, at, threads, chunk_bits, bests, low, high):
        """Store the best keys of the chunks of four units; return the lowest and the highest, of these too."""
        a, b, c, d = bests
        if chunk_bits > 0:
            a, c = max(a, b), max(c, d)
        if chunk_bits > 1:
            a = max(a, c)
        maxima[np.uint32(at)] = a
        low, high = min(low, a), max(high, a)
        if chunk_bits == 0:
            maxima[np.uint32(at + threads)] = b
            maxima[np.uint32(at + 3 * threads)] = d
            low, high = min(low, min(b, d)), max(high, max(b, d))
        if chunk_bits < 2:
            maxima[np.uint32(at + (2 >> chunk_bits) * threads)] = c
            low, high = min(low, c), max(high, c)
        return low, high

    # `form` is what every unit needs to know of `where`.

    @helper
    def form_of(where):
        return place(where[LEVEL]), place(where[UNIT]), place(where[SHIFT]), place(where[COUNT])

    @helper
    def best_of_keys(address):
        if key_bytes == 8:
            first, second = load_pair(address)
            return max(first, second)
        a, b, c, d = load_quad(address)
        return max(max(a, b), max(c, d))

    @helper
    def best_of_unit(source, step, form, plan, unit):
        """Return the best key of a unit that has an element, or more, of the line."""
        level, bits, shift, size = form
        i = place(place(unit << bits) - shift)
        if level > 0:
            return best_of_keys(source + np.int64(i) * key_bytes)
        if bits == 0:
            return key_at(source + np.int64(i) * step, plan)
        if i >= 0 and i <= place(size - of_quad):
            return best_of_quad(source + np.int64(i) * width, plan)
        return best_inside(source, plan, np.int64(i), np.int64(size))

    @helper
    def keys_of_unit(source, step, form, plan, unit, some):
        """List the keys of a unit; return the position of the first, which may lie outside the line."""
        first = place(place(unit << form[1]) - form[2])
        keys_from(source, step, form, plan, first, some)
        return first

    @helper
    def keys_from(source, step, form, plan, i, some):
        """List the keys of the unit that has such a first position."""
        level, bits, _, size = form
        inside = np.int64(min(i, place(size - place(place(1) << bits))))
        if level > 0:
            if key_bytes == 8:
                some[0], some[1] = load_pair(source + inside * key_bytes)
            else:
                some[0], some[1], some[2], some[3] = load_quad(source + inside * key_bytes)
        elif bits == 0:
            some[0] = key_at(source + inside * step, plan)
        elif i >= 0 and i <= place(size - of_quad):
            put_keys(some, load_words(source + np.int64(i) * width), plan)
        else:
            for j in range(of_quad):
                some[j] = key_at(source + max(np.int64(0), np.int64(min(place(i + j), place(size - 1)))) * width, plan)

    @helper
    def unit_of(where, groups, item):
        """Return the unit that has a number, of all in the groups."""
        bits = place(where[BITS])
        own = place(item & place((place(1) << bits) - 1))
        return place(
            place(groups[np.uint32(item >> bits)] << place(where[SCALE]))
            + place(own >> 1) * place(where[APART])
            + place(own & 1)
        )

    @helper
    def elements_from(form, first, some, bar, ties):
        """Return, as bits, which keys of a unit reach a bar, or are equal to it, and belong to the line."""
        _, bits, _, size = form
        found = np.uint32(0)
        for j in range(of_quad):
            if some[j] == bar or (some[j] > bar and not ties):
                found = np.uint32(found | np.uint32(1 << j))
        before = max(place(0), place(-first))
        until = min(place(place(1) << bits), max(place(0), place(size - first)))
        return np.uint32(found & np.uint32(np.uint32(1 << until) - np.uint32(1 << before)))

    @helper
    def survey(where, plan, maxima, ends):
        """Find the best key of every chunk; return the lowest and the highest of these, and how many chunks there are.

        A chunk of a thread is so many of the units that it looks at together. If it has several, two are neighbours:
        memory is read by 32 bytes.
        """
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        level, bits, shift, size = form
        total = place(where[TOTAL])
        chunk_bits = place(number(plan, CHUNK))
        chunk = place(place(1) << chunk_bits)
        low, high = key(highest), key(lowest)
        unit, at = place(thread << min(chunk_bits, place(1))), thread
        next_unit, far_unit = threads if chunk_bits == 0 else place(1), place(2 * threads)
        address = source + np.int64(place(unit << bits) - shift) * (key_bytes if level > 0 else width)
        near, far = 16 * np.int64(next_unit), 16 * np.int64(far_unit)
        begin = place(0)
        batch, step_at = place(AT_ONCE * threads), place((AT_ONCE >> chunk_bits) * threads)
        while begin < total:
            # How much of the line there is after this batch; less than none if it has units in part.
            left = np.int64(-1)
            if bits > 0 and (begin > 0 or shift == 0):
                left = size + shift - (np.int64(begin + batch) << bits)
            if level == 0 and left >= np.int64(batch) << bits:
                first, second = bests_of_batches(address, near, far, plan)
                low, high = put_maxima(maxima, at, threads, chunk_bits, first, low, high)
                at = place(at + step_at)
                unit = place(unit + batch)
                begin = place(begin + batch)
                address += 2 * far
                low, high = put_maxima(maxima, at, threads, chunk_bits, second, low, high)
            elif left >= 0:
                if level == 0:
                    bests = bests_of_units(address, near, far, plan)
                else:
                    bests = bests_of_delegates(address, near, far)
                low, high = put_maxima(maxima, at, threads, chunk_bits, bests, low, high)
            else:
                best = key(lowest)
                to = start = at
                for j in range(AT_ONCE):
                    now = place(unit + (j & 1) * next_unit + (j >> 1) * far_unit)
                    if j & (chunk - 1) == 0:
                        start = now
                    if now < total:
                        best = max(best, best_of_unit(source, step, form, plan, now))
                    if (j + 1) & (chunk - 1) == 0:
                        if start < total:
                            low, high = min(low, best), max(high, best)
                        maxima[np.uint32(to)] = best
                        to = place(to + threads)
                        best = key(lowest)
            at = place(at + step_at)
            unit = place(unit + batch)
            begin = place(begin + batch)
            address += 2 * far
        low, high = spread(low, high, ends)
        return low, high, np.int32(at - thread)

    @helper
    def border(counts, wanted, ends):
        """Find the digit where the best `wanted` elements end; return it, and how many are above it and in it."""
        thread = np.int32(cuda.threadIdx.x)
        if thread < LANES:
            first = np.int32(DIGITS - 1 - thread * of_lane)
            own = np.int32(0)
            for j in range(of_lane):
                own = np.int32(own + counts[np.uint32(first - j)])
            above = np.int32(sum_of_lanes(own) - own)
            for j in range(of_lane):
                inside = counts[np.uint32(first - j)]
                # The lowest digit has all that is left.
                if above < wanted and (above + inside >= wanted or first - j == 0):
                    ends[0], ends[1], ends[2] = first - j, above, inside
                above = np.int32(above + inside)
        cuda.syncthreads()
        found = ends[0], ends[1], ends[2]
        cuda.syncthreads()
        return found

    @helper
    def raise_bar(keys, count, low, high, wanted, most, counts, ends):
        """Return a listed key that at least `wanted` of them reach, and at most `most` if possible.

        The keys from `low` to `high` are at least as many.
        """
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        bits = bits_between(np.int64(low), np.int64(high))
        above, inside = np.int64(0), np.int64(count)
        while bits > 0 and above + inside > most:
            fine = max(bits - DIGIT, np.int64(0))
            i = thread
            while i < DIGITS:
                counts[np.uint32(i)] = 0
                i = np.int32(i + threads)
            cuda.syncthreads()
            i = thread
            while i < count:
                its_key = keys[np.uint32(i)]
                if its_key >= low and digit_of(its_key, low, bits) == 0:
                    cuda.atomic.add(counts, np.uint32(digit_of(its_key, low, fine)), 1)
                i = np.int32(i + threads)
            cuda.syncthreads()
            digit, higher, inside = border(counts, wanted - above, ends)
            low = key(raise_key(np.int64(low), digit, fine))
            above += higher
            bits = min(fine, bits_between(np.int64(low), np.int64(high)))  # few values are told apart at once
        # The key may lie far below the next listed one: then elements that are not listed reach it, and need not. With
        # this step 16384 ascending lines of 4096 take 0.24 ms for k = 64, without it 0.46.
        least = high
        if low < high:
            i = thread
            while i < count:
                least = min(least, keys[np.uint32(i)] if keys[np.uint32(i)] >= low else high)
                i = np.int32(i + threads)
            least, _ = spread(least, least, ends)
        return least

    @helper
    def list_hits(where, groups, bar, room, sums, maxima, chunks):
        """List the first units of the chunks that reach a key; return how many there are, or one more than the room."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        bits = place(where[BITS])
        own = place(thread << min(bits, place(1)))
        c = thread
        while c < chunks:
            if maxima[np.uint32(c)] >= bar:
                slot = cuda.atomic.add(sums, 1, 1)
                if slot >= room:
                    break
                groups[np.uint32(slot)] = place(place(place(c - thread) << bits) + own)
            c = np.int32(c + threads)
        cuda.syncthreads()
        return place(min(np.int64(sums[1]), room + 1))

    @helper
    def place_units(where, groups, c, total, count, firsts):
        """List where so many of a thread's units begin, of `total`; return the least of these, or 0, and the most.

        Past the end of the units the last one is listed again.
        """
        form = form_of(where)
        threads, last = place(cuda.blockDim.x), place(total - 1)
        least, most = place(0), place(0)
        for j in range(count):
            unit = unit_of(where, groups, min(place(c + j * threads), last))
            firsts[j] = place(place(unit << form[1]) - form[2])
            least, most = min(least, firsts[j]), max(most, firsts[j])
        return least, most

    @helper
    def units_with(where, plan, groups, bar, c, total):
        """Return, as bits, which of four of `total` units reach a key; all are loaded before one is looked at."""
        source, step = where[SOURCE], where[STEP]
        level, bits, _, size = form_of(where)
        threads = place(cuda.blockDim.x)
        firsts = cuda.local.array(AT_ONCE, place)
        bests = cuda.local.array(AT_ONCE, key)
        least, highest_first = place_units(where, groups, c, total, AT_ONCE, firsts)
        most = place(size - place(place(1) << bits))
        if level > 0:
            for j in range(AT_ONCE):
                bests[j] = best_of_keys(source + np.int64(min(firsts[j], most)) * key_bytes)
        elif bits == 0:
            for j in range(AT_ONCE):
                bests[j] = key_at(source + np.int64(min(firsts[j], most)) * step, plan)
        elif least == 0 and highest_first <= most:
            first, second = source + np.int64(firsts[0]) * width, source + np.int64(firsts[1]) * width
            third, fourth = source + np.int64(firsts[2]) * width, source + np.int64(firsts[3]) * width
            bests[0], bests[1], bests[2], bests[3] = bests_of_quads(first, second, third, fourth, plan)
        else:
            for j in range(AT_ONCE):
                bests[j] = best_inside(source, plan, np.int64(firsts[j]), np.int64(size))
        hits = np.uint32(0)
        for j in range(AT_ONCE):
            if bests[j] >= bar and firsts[j] < size and c + j * threads < total:
                hits = np.uint32(hits | np.uint32(1 << j))
        return hits

    @helper
    def find_in_units(where, plan, groups, bar, c, hits, total, some, firsts):
        """List the keys of a few of `total` units; return, as bits, which reach a key, of the units that are hits."""
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        level, bits, _, size = form
        least, highest_first = place_units(where, groups, c, total, together, firsts)
        most = place(size - place(place(1) << bits))
        if level > 0 or bits == 0 or least < 0 or highest_first > most:
            for j in range(together):
                keys_from(source, step, form, plan, firsts[j], some[of_quad * j :])
        else:  # all are loaded before one is looked at
            a = load_words(source + np.int64(firsts[0]) * width)
            if together > 1:
                b = load_words(source + np.int64(firsts[1 % together]) * width)
            if together > 2:
                e = load_words(source + np.int64(firsts[2 % together]) * width)
                f = load_words(source + np.int64(firsts[3 % together]) * width)
            put_keys(some, a, plan)
            if together > 1:
                put_keys(some[of_quad:], b, plan)
            if together > 2:
                put_keys(some[2 * of_quad :], e, plan)
                put_keys(some[3 * of_quad :], f, plan)
        found = np.uint32(0)
        for j in range(together):
            if hits >> j & 1 != 0:
                those = elements_from(form, firsts[j], some[of_quad * j :], bar, False)
                found = np.uint32(found | np.uint32(those << (of_quad * j)))
        return found

    @helper
    def collect(where, plan, groups, bar, room, sums, keys, positions, maxima, chunks):
        """List the elements from a key on, as far as there is room; return how many there are."""
        some = cuda.local.array(of_batch, key)
        firsts = cuda.local.array(together, place)
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        if thread == 0:
            sums[0] = sums[1] = 0
        cuda.syncthreads()
        total = place(where[TOTAL])
        if chunks > 0:
            hit = list_hits(where, groups, bar, room, sums, maxima, chunks)
            if hit > room:
                cuda.syncthreads()
                return np.int64(hit)
            total = place(hit << place(where[BITS]))
        short = place(where[BITS]) <= FEW_UNITS
        c = thread
        while c < total:
            hits = np.uint32(0)
            if short:
                for j in range(AT_ONCE):
                    if c + j * threads < total:
                        hits = np.uint32(hits | np.uint32(1 << j))
            else:
                hits = units_with(where, plan, groups, bar, c, total)
            part = c
            while hits != 0:
                found = np.uint32(0)
                if hits & all_hit != 0:
                    found = find_in_units(where, plan, groups, bar, part, hits, total, some, firsts)
                if found != 0:
                    slot = np.int32(cuda.atomic.add(sums, 0, cuda.popc(found)))
                    for n in range(of_batch):
                        if found & np.uint32(1 << n) != 0:
                            if slot < room:
                                keys[np.uint32(slot)] = some[n]
                                positions[np.uint32(slot)] = place(firsts[n // of_quad] + n % of_quad)
                            slot = np.int32(slot + 1)
                hits = np.uint32(hits >> together)
                part = place(part + together * threads)
            c = place(c + AT_ONCE * threads)
        cuda.syncthreads()
        count = np.int64(sums[0])
        cuda.syncthreads()
        return count

    @helper
    def keep(keys, positions, count, bar, sums):
        """Keep the listed elements from a key on; return how many there are."""
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

    @helper
    def collect_ties(where, plan, groups, bar, count, wanted, sums, keys, positions, whole, some):
        """Add the first elements with a key, in their order, until there are as many as wanted."""
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        total = place(where[TOTAL])
        begin = place(0)
        while count < wanted and begin < total:
            item = min(place(begin + thread), place(total - 1))
            unit = item if whole else unit_of(where, groups, item)
            first = place(place(unit << form[1]) - form[2])
            ties = np.uint32(0)
            if begin + thread < total and first < form[3] and best_of_unit(source, step, form, plan, unit) >= bar:
                keys_of_unit(source, step, form, plan, unit, some)
                ties = elements_from(form, first, some, bar, True)
            if cuda.syncthreads_or(1 if ties != 0 else 0):
                own = np.int64(cuda.popc(ties))
                at = count + add_up_threads(sums, own) - own
                for j in range(of_quad):
                    if ties & np.uint32(1 << j) != 0:
                        if at < wanted:
                            keys[at] = bar
                            positions[at] = place(first + j)
                        at += 1
                count = min(wanted, count + sums[threads - 1])
                cuda.syncthreads()
            begin = place(begin + threads)
        return wanted

    @helper
    def narrow(where, plan, groups, low, high, wanted, room, counts, ends, whole, some):
        """Raise the lowest key until at most as many elements as there is room for reach it, and the best `wanted` do.

        Return the key, and whether those equal to it are too many.
        """
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        total = place(where[TOTAL])
        bits = bits_between(low, high)
        above = np.int64(0)
        while True:
            fine = max(bits - DIGIT, np.int64(0))
            c = thread
            while c < DIGITS:
                counts[np.uint32(c)] = 0
                c = place(c + threads)
            cuda.syncthreads()
            c = thread
            while c < total:
                unit = c if whole else unit_of(where, groups, c)
                if place(place(unit << form[1]) - form[2]) < form[3]:
                    first = keys_of_unit(source, step, form, plan, unit, some)
                    found = elements_from(form, first, some, key(low), False)
                    for j in range(of_quad):
                        if found & np.uint32(1 << j) != 0 and digit_above(some[j], low, bits) == 0:
                            cuda.atomic.add(counts, digit_above(some[j], low, fine), 1)
                c = place(c + threads)
            cuda.syncthreads()
            digit, higher, inside = border(counts, wanted - above, ends)
            low = raise_key(low, digit, fine)
            above += higher
            if fine == 0 or above + inside <= room:
                return low, above + inside > room
            bits = fine

    @helper
    def sort_short(keys, positions, count):
        """Sort short lists, best first and equal ones by position (bitonic); they have room for a power of two."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        room = np.int32(1)
        while room < count:
            room = np.int32(room << 1)
        pad = np.int32(count + thread)
        while pad < room:
            keys[np.uint32(pad)] = lowest
            positions[np.uint32(pad)] = end
            pad = np.int32(pad + threads)
        cuda.syncthreads()
        span = np.int32(2)
        while span <= room:
            step = np.int32(span >> 1)
            while step > 0:
                pair = thread
                while pair < np.int32(room >> 1):
                    low = np.int32(pair & np.int32(step - 1))
                    i = np.uint32(np.int32(np.int32(pair - low) << 1) + low)
                    j = np.uint32(i + step)
                    a, b = keys[i], keys[j]
                    p, q = positions[i], positions[j]
                    first = a > b or (a == b and p < q)
                    if first != ((np.int32(i) & span) == 0):
                        keys[i], keys[j] = b, a
                        positions[i], positions[j] = q, p
                    pair = np.int32(pair + threads)
                if step > LANES:
                    cuda.syncthreads()
                else:  # a warp goes on with what it has written itself
                    sync_lanes()
                step = np.int32(step >> 1)
            span = np.int32(span << 1)
            cuda.syncthreads()

    @helper
    def sort(keys, positions, counts, sums, count, low, high, most):
        """Sort the lists, whose keys lie between two, and no position is higher than the most.

        Ties can fill a list up to its room, more than the threads have items for; but that is a power of two.
        """
        if moves and SORTED < count <= ITEMS * np.int64(cuda.blockDim.x):
            if not sort_spread(keys, positions, counts, sums, np.int32(count), low, high):
                sort_lists(keys, positions, counts, sums, np.int32(count), low, high, place(most))
        else:
            sort_short(keys, positions, np.int32(count))

    @helper
    def rank_of(keys, positions, count, its_key, position):
        """Return how many of the listed elements come before one."""
        higher = equal = np.int32(0)
        j = np.int32(0)
        while j < count:
            other = keys[np.uint32(j)]
            higher = np.int32(higher + (1 if other > its_key else 0))
            equal = np.int32(equal + (1 if other == its_key else 0))
            j = np.int32(j + 1)
        j = np.int32(0)
        while equal > 1 and j < count:
            if keys[np.uint32(j)] == its_key and positions[np.uint32(j)] < position:
                higher = np.int32(higher + 1)
            j = np.int32(j + 1)
        return higher

    @kernel(registers=64)
    def choose_from_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        delegates,  # IN   address of (lines, pitch) keys, if there are levels
        upper,  # IN   address of the delegates of these
        plan,  # IN   address of the plan
    ):
        await_inputs()
        sums = cuda.shared.array(SUMS, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        where = cuda.shared.array(WHERE, np.int64)
        some = cuda.local.array(of_quad, key)
        room = number(plan, ROOM)
        places = cuda.shared.array(0, place_array)
        positions, groups = places[:room], places[room : 2 * room]
        keys = cuda.shared.array(0, key_array)[keys_in_places * room :]
        maxima = keys[room:]
        counts = cuda.shared.array(0, count_array)[counts_in_lists * room :]
        thread = np.int64(cuda.threadIdx.x)
        k = number(plan, K)
        line = np.int64(cuda.blockIdx.x)
        from_x, to = line_bases(plan, line)
        levels = number(plan, LEVELS)
        packed = number(plan, STRIDE) == width
        level = levels
        low, high = key(lowest), key(highest)
        count = listed = np.int64(0)
        while level >= 0:
            cuda.syncthreads()
            source, shift, size = x + from_x, np.int64(0), number(plan, SIZE)
            unit = np.int64(quad_bits) if packed else np.int64(0)
            if level > 0:
                size = number(plan, PITCH + level - 1)
                source = (delegates if level == 1 else upper) + line * size * key_bytes
                unit = np.int64(key_quad_bits)
            elif packed:
                shift = (source & 15) // width
            bits = number(plan, GROUP_BITS + level) - unit
            total = listed << bits
            whole = level == levels
            wanted = min(k, size)
            if whole:
                total = (size + shift + (1 << unit) - 1) >> unit
            if thread == 0:
                where[LEVEL], where[SOURCE], where[STEP] = level, source, number(plan, STRIDE)
                where[UNIT], where[SHIFT], where[COUNT], where[TOTAL] = unit, shift, size, total
                # The chunks that a survey finds are groups, too.
                where[BITS], where[SCALE], where[APART] = bits, bits, 2
                if whole:
                    where[BITS], where[SCALE], where[APART] = number(plan, CHUNK), 0, 2 * cuda.blockDim.x
            cuda.syncthreads()
            chunks = np.int32(0)
            if whole:
                low, high, chunks = survey(where, plan, maxima, ends)
                cuda.syncthreads()
                if number(plan, MAXIMA) >= wanted:
                    low = raise_bar(maxima, chunks, low, high, wanted, wanted + (wanted >> 3), sums, ends)
                else:
                    low = key(lowest)
            count = collect(where, plan, groups, low, room, sums, keys, positions, maxima, chunks)
            few = wanted + (wanted >> 2) + LANES
            if count <= room and count > (few if level > 0 else max(SORTED, few)):
                # To look into more groups, or to sort a longer list, would take longer than to shorten it.
                low = raise_bar(keys, count, low, high, wanted, wanted, sums, ends)
                count = keep(keys, positions, count, low, sums)
            if count > (few if level > 0 else room):
                if level < levels:  # the first of the groups may matter, so they must be in their order
                    for j in range(thread, listed, cuda.blockDim.x):
                        keys[j] = 0
                        positions[j] = groups[j]
                    cuda.syncthreads()
                    # Groups are counted from 16 bytes that begin before the line, and to the end of the pitch.
                    last = number(plan, PITCH + level)
                    sort(keys, positions, counts, sums, listed, key(0), key(0), last)
                    for j in range(thread, listed, cuda.blockDim.x):
                        groups[j] = positions[j]
                    cuda.syncthreads()
                beyond = np.int64(0)
                ties = True
                if low < highest:
                    bar = key(low + 1)
                    beyond = collect(where, plan, groups, bar, room, sums, keys, positions, maxima, chunks)
                    if beyond > room:
                        new, ties = narrow(
                            where, plan, groups, np.int64(bar), np.int64(high), wanted, room, sums, ends, whole, some
                        )
                        low = key(new)
                        if not ties or low < highest:
                            bar = key(low + 1) if ties else low
                            beyond = collect(where, plan, groups, bar, room, sums, keys, positions, maxima, chunks)
                        else:
                            beyond = np.int64(0)
                count = beyond
                if ties and beyond < wanted:
                    count = collect_ties(where, plan, groups, low, beyond, wanted, sums, keys, positions, whole, some)
            if level > 0:
                listed = count
                for j in range(thread, listed, cuda.blockDim.x):
                    groups[j] = positions[j]
            level -= 1
        stride = number(plan, STRIDE)
        step = number(plan, OUT_STRIDE)
        index_size = number(plan, INDEX_SIZE)
        ranked = count * count <= RANKED * cuda.blockDim.x
        if not ranked:
            low, high = key(highest), key(lowest)
            for j in range(thread, count, cuda.blockDim.x):
                low, high = min(low, keys[j]), max(high, keys[j])
            low, high = spread(low, high, ends)
            sort(keys, positions, counts, sums, count, low, high, number(plan, SIZE))
        last = np.int32(count if ranked else k)
        i = np.int32(thread)
        while i < last:
            position = np.int64(positions[np.uint32(i)])
            rank = np.int32(i)
            if ranked:
                rank = rank_of(keys, positions, np.int32(count), keys[np.uint32(i)], positions[np.uint32(i)])
            if rank < k:
                at = to + np.int64(rank) * step
                bits, plain = bits_of(keys[np.uint32(i)], plan)
                if not plain:
                    bits = np.int64(load(x + from_x + position * stride)[0])
                store(values + at * width, bits, 0)
                write_index(indices, index_size, at, position)
            i = np.int32(i + cuda.blockDim.x)

    return Kernel(choose_from_lines, 6, waits=True, shares=True)
