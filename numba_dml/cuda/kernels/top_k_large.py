"""The kernels for a large k: all blocks work on the border between what belongs to a result and what does not.

A range of keys that holds the border is cut into digits, and its elements are counted by digit: the border's digit is
the next range, until it holds few elements more than are wanted, or one key. Then the elements that reach it are listed
in their order, to be sorted. The host waits for none of this: rounds that are not needed do nothing.

If k is much smaller than a line, its delegates (see `top_k`) go this way first, and list the groups to look into. So
what is looked at is always a list of groups; of a whole line it is one group.

The last block that has counted finds the border, and the last one that has listed plans the sort: a launch for each
would take 3 µs.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, cuda
from ..primitives.access import LOAD_INDEX, load_four_words, load_i64, load_two_long_words, unit_access
from ..primitives.atomics import add_now, load_now, store_now
from ..primitives.bits import DIGIT_ABOVE, REVERSED_KEY, bits_between, count_bits, raise_key
from ..primitives.device_sort import HEAD, SUMS, TILE_BYTES, WARPS, plan_passes
from ..primitives.pairs import DIGIT as SORT_DIGIT
from ..primitives.pairs import DIGITS as SORT_DIGITS
from ..primitives.pairs import pair_access
from ..primitives.plan import number
from ..primitives.ptx import await_inputs
from ..primitives.sums import add_counts, add_up_threads, arrive
from ..primitives.top_k.keys import key_access, key_type
from ..primitives.top_k.plan import FLIP, GROUP_BITS, INDEX_SIZE, OUT_STRIDE, SIZE, STRIDE, K, line_bases
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.writing import write_index
from ..primitives.warp import LANE_VALUE

#: Bits of a digit: 8 KiB of counts.
DIGIT = SIZES.large_digit_bits
DIGITS = 1 << DIGIT
#: The last one is for what lies outside of a range: to count it there is faster than not to.
COUNTERS = DIGITS + 1

# What is known of a line's border, int64 words, zeros at first.
(
    LOW,  # the lowest key of the range
    BITS,  # of the range; -1: it is narrow enough
    ABOVE,  # elements beyond the range
    TIES,  # 1: the range is one key, and only its first elements belong to the result
    FOUND,  # elements to list
    RANK,  # of the border's digit in the range before, the highest digit's is 0
    HIGH,  # no key is above it
    ARRIVED,  # blocks that have been here
    BORDER,
) = range(9)


def rounds(width: int) -> int:
    """Return how many digits a key has."""
    return -(-8 * width // DIGIT)


@cache
def quad_access(width: int, is_float: bool, is_long: bool):
    """Return how a thread gets the elements of a tile, 16 bytes of neighbours from each of a few places.

    `is_long`: positions, or keys, have 64 bits.
    """
    access = key_access(width, is_float, FLIP)
    key_at, put_keys = access.key_at, access.put_keys
    load = load_two_long_words if width == 8 else load_four_words
    place = np.int64 if is_long else np.int32
    load_place = LOAD_INDEX["int64" if is_long else "int32"]
    _, pair_bytes, *_ = pair_access(is_long)
    of_quad = 16 // width
    quads = min(4, max(1, 16 // of_quad))
    key, lowest = key_type(width), -(1 << (8 * width - 1))
    whole = 8 * place(0).itemsize - 2  # bits of a group that has all quads
    all_bits = (1 << (quads * of_quad)) - 1
    quad_bits = of_quad.bit_length() - 1

    @helper
    def no_words():
        return np.int32(0), np.int32(0), np.int32(0), np.int32(0)

    @helper
    def no_long_words():
        return np.int64(0), np.int64(0)

    load_nothing = no_long_words if width == 8 else no_words

    @helper
    def form_of(plan, line, x, upper, groups, room):
        """Return what is to know of a line: where it is, its form, its groups, and how many quads these have.

        `upper` has the border of the groups, in lists of `room`; 0: there is one, which has number 0.
        """
        source, _ = line_bases(plan, line)
        source += x
        size, stride = number(plan, SIZE), number(plan, STRIDE)
        shift = (source & 15) // width if stride == width else np.int64(0)  # the first quad may begin before the line
        bits, count = np.int64(whole), (size + shift + of_quad - 1) >> quad_bits
        if upper != 0:
            groups += pair_bytes * line * room
            bits = number(plan, GROUP_BITS) - quad_bits
            count = load_i64(upper + 8 * (line * BORDER + FOUND)) << bits
        return source, groups, place(size), place(shift), place(bits), place(count)

    @helper
    def few(keys, firsts, form, plan, quad, j):
        """Get the elements of one quad, each by itself."""
        source, _, size, _, _, count = form
        exist = np.int32(0)
        for n in range(of_quad):
            i = place(firsts[j] + n)
            near = min(max(i, place(0)), place(size - 1))
            found = key_at(source + np.int64(near) * number(plan, STRIDE), plan)
            inside = i >= 0 and i < size and quad + j * LANES < count
            keys[of_quad * j + n] = found if inside else key(lowest)
            if inside:
                exist = np.int32(exist | (1 << (of_quad * j + n)))
        return exist

    @helper
    def fetch(keys, firsts, form, plan, quad):
        """Get a thread's quads of elements, and the positions of their first ones; return which exist, as bits.

        The others seem to have the lowest key. All threads of a block take part.
        """
        source, groups, size, shift, bits, count = form
        stride = number(plan, STRIDE)
        inside = stride == width
        if bits == whole:  # the one group: most of the time
            first = place(place(quad << quad_bits) - shift)
            for j in range(quads):
                firsts[j] = place(first + j * LANES * of_quad)
            inside = inside and first >= 0 and firsts[quads - 1] <= size - of_quad
        else:
            for j in range(quads):
                near = min(place(quad + j * LANES), place(count - 1))
                group = place(load_place(groups + pair_bytes * np.int64(near >> bits) + (pair_bytes >> 1)))
                of_line = place(place(group << bits) + place(near & place((place(1) << bits) - 1)))
                firsts[j] = place(place(of_line << quad_bits) - shift)
                inside = inside and firsts[j] >= 0 and firsts[j] <= size - of_quad and quad + j * LANES < count
        a = b = c = d = load_nothing()
        if inside:
            a = load(source + np.int64(firsts[0]) * width)
            if quads > 1:
                b = load(source + np.int64(firsts[1 % quads]) * width)
            if quads > 2:
                c = load(source + np.int64(firsts[2 % quads]) * width)
                d = load(source + np.int64(firsts[3 % quads]) * width)
        cuda.syncthreads()  # all loads are on their way: without it each is waited for by itself
        exist = np.int32(all_bits)
        if inside:
            put_keys(keys, a, plan)
            if quads > 1:
                put_keys(keys[of_quad:], b, plan)
            if quads > 2:
                put_keys(keys[2 * of_quad :], c, plan)
                put_keys(keys[3 * of_quad :], d, plan)
        else:
            exist = few(keys, firsts, form, plan, quad, 0)
            if quads > 1:
                exist = np.int32(exist | few(keys, firsts, form, plan, quad, 1 % quads))
            if quads > 2:
                exist = np.int32(exist | few(keys, firsts, form, plan, quad, 2 % quads))
                exist = np.int32(exist | few(keys, firsts, form, plan, quad, 3 % quads))
        return exist

    return form_of, fetch, quads, of_quad, place


@helper
def part_of(count, part, parts):
    """Return where a part of so many tiles begins and ends."""
    return count * part // parts, count * (part + 1) // parts


@cache
def count_kernel(width: int, is_float: bool, is_long: bool) -> Kernel:
    """Return the kernel that counts the elements of a range by digit, and finds the digit of the border."""
    form_of, fetch, quads, of_quad, place = quad_access(width, is_float, is_long)
    key = key_type(width)
    digit_above = DIGIT_ABOVE[8 * key(0).itemsize]
    unsigned = np.uint32 if width <= 4 else np.uint64
    lowest, highest, whole = -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1, 8 * width
    share = DIGITS // BLOCK
    items, tile_quads = quads * of_quad, quads * BLOCK

    @helper
    def find_border(border, counts, plan, low, bits, most, first, sums):
        """Narrow the range to the digit of the border; the counts become zeros again."""
        thread = np.int64(cuda.threadIdx.x)
        beyond = np.int64(0) if first else load_now(border + 8 * ABOVE)
        fine = max(bits - DIGIT, np.int64(0))
        wanted = number(plan, K) - beyond
        total = np.int64(0)
        some = cuda.local.array(share, np.int64)
        for i in range(share):
            some[i] = load_now(counts + 8 * (thread * share + i))
            store_now(counts + 8 * (thread * share + i), 0)
            total += some[i]
        until = add_up_threads(sums, total)
        above = until - total
        for i in range(share):
            rank = thread * share + i
            inside = some[i]
            at = raise_key(low, DIGITS - 1 - rank, fine)
            if first and above == 0 and inside > 0:
                store_now(border + 8 * HIGH, raise_key(at, (1 << fine) - 1, 0))
            if above < wanted <= above + inside:
                found = beyond + above + inside
                ties = found > most and fine == 0
                store_now(border + 8 * LOW, at)
                store_now(border + 8 * BITS, -1 if fine == 0 or found <= most else fine)
                store_now(border + 8 * ABOVE, beyond + above)
                store_now(border + 8 * TIES, 1 if ties else 0)
                store_now(border + 8 * FOUND, number(plan, K) if ties else found)
                store_now(border + 8 * RANK, rank)
            above += inside

    @kernel(registers=64)  # four blocks of 256 threads on a multiprocessor, like `list_elements`
    def count_range(
        x,  # IN      address of the first element
        border,  # IN OUT  address of (lines, BORDER) words
        counts,  # IN OUT  address of (lines, DIGITS) int64, zeros, by rank
        table,  # OUT     address of (lines, parts, DIGITS) int64: what a part has of a rank or a higher one
        tallies,  # IN OUT  address of (lines, parts) int64: what it has beyond the range
        plan,  # IN      address of the plan
        upper,  # IN      address of the border of the groups, 0: there are none
        groups,  # IN      address of (lines, group_room) pairs, or of zeros
        group_room,
        parts,  # IN      per line
        most,  # IN      elements that may be listed
        first,  # IN      1: the range is that of all keys
    ):
        await_inputs()
        own = cuda.shared.array(COUNTERS, np.int32)
        sums = cuda.shared.array(BLOCK, np.int64)
        keys = cuda.local.array(items, key)
        firsts = cuda.local.array(quads, place)
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x) // parts
        part = np.int64(cuda.blockIdx.x) - line * parts
        border += 8 * line * BORDER
        table += 8 * DIGITS * np.int64(cuda.blockIdx.x)
        low, bits = np.int64(lowest), np.int64(whole)
        if first == 0:
            low, bits = load_now(border + 8 * LOW), load_now(border + 8 * BITS)
        elif upper != 0:  # what is worse than all groups in the list does not matter
            least = max(load_i64(upper + 8 * (line * BORDER + LOW)), low)
            bits = max(bits_between(least, min(load_i64(upper + 8 * (line * BORDER + HIGH)), highest)), np.int64(1))
            if bits < whole:  # a range does not go beyond the highest key: it would go on with the lowest
                low = min(least, highest - ((np.int64(1) << bits) - 1))
        if bits < 0:
            return
        fine = max(bits - DIGIT, np.int64(0))
        span = unsigned(1 << min(bits, np.int64(DIGIT)))
        if parts > 1 and thread == 0:
            tally = np.int64(0)
            if first == 0:
                rank = load_now(border + 8 * RANK)
                tally = load_now(tallies + 8 * np.int64(cuda.blockIdx.x))
                if rank > 0:
                    tally += load_now(table + 8 * (rank - 1))
            store_now(tallies + 8 * np.int64(cuda.blockIdx.x), tally)
        for i in range(thread, COUNTERS, BLOCK):
            own[i] = 0
        cuda.syncthreads()
        form = form_of(plan, line, x, upper, groups, group_room)
        tile, end = part_of((np.int64(form[5]) + tile_quads - 1) // tile_quads, part, parts)
        quad = place(tile * tile_quads + (thread // LANES) * LANES * quads + thread % LANES)
        while tile < end:
            exist = fetch(keys, firsts, form, plan, quad)
            for n in range(items):
                cuda.atomic.add(own, np.uint32(min(unsigned(digit_above(keys[n], low, fine)), span)), 1)
            missing = items - count_bits(exist)
            if missing > 0:
                cuda.atomic.add(own, np.uint32(min(unsigned(digit_above(lowest, low, fine)), span)), -missing)
            quad = place(quad + tile_quads)
            tile += 1
        cuda.syncthreads()
        if thread == 0:
            own[np.uint32(span)] = 0
        cuda.syncthreads()
        total = np.int64(0)
        for i in range(share):
            total += own[DIGITS - 1 - (thread * share + i)]
        total = add_up_threads(sums, total) - total
        for i in range(share):
            total += own[DIGITS - 1 - (thread * share + i)]
            own[DIGITS - 1 - (thread * share + i)] = total
        cuda.syncthreads()
        counts += 8 * line * DIGITS
        for i in range(thread, DIGITS, BLOCK):
            until, before = own[DIGITS - 1 - i], own[DIGITS - i]
            if parts > 1:
                store_now(table + 8 * i, until)
            if until != before:
                add_now(counts + 8 * i, until - before)
        if arrive(border + 8 * ARRIVED, sums, parts):
            find_border(border, counts, plan, low, bits, most, first != 0, sums)

    return Kernel(count_range, 12, waits=True)


@cache
def list_kernel(width: int, is_float: bool, is_long: bool) -> Kernel:
    """Return the kernel that lists the elements which reach the border, in their order.

    Of those at it, if they are too many, the first.
    """
    form_of, fetch, quads, of_quad, place = quad_access(width, is_float, is_long)
    word, pair_bytes, _, store_pair, digit_of = pair_access(is_long)
    key = key_type(width)
    reversed_key = REVERSED_KEY[8 * word(0).itemsize]
    lowest = -(1 << (8 * width - 1))
    items, tile_quads = quads * of_quad, quads * BLOCK
    room_of_tile = TILE_BYTES // pair_bytes
    fits = items * BLOCK <= room_of_tile
    passes = -(-8 * width // SORT_DIGIT)
    all_digits, all_counts = passes * SORT_DIGITS, 3 * WARPS
    lane_value = LANE_VALUE[64]
    field, quad_mask = 16, (1 << of_quad) - 1

    @helper
    def rank_quads(bits, ranks, counts):
        """Find how many of a tile's bits are set before each quad of this thread; return how many are in all."""
        thread = np.int32(cuda.threadIdx.x)
        lane, warp = np.int32(thread % LANES), np.int32(thread // LANES)
        own = np.int64(0)
        for j in range(quads):
            own |= np.int64(count_bits(bits >> (of_quad * j) & quad_mask)) << (field * j)
        until = own
        step = np.int32(1)
        while step < LANES:
            before = lane_value(until, max(lane - step, 0))
            if lane >= step:
                until += before
            step = np.int32(step << 1)
        of_warp = lane_value(until, LANES - 1)
        until -= own
        begin = np.int32(0)
        for j in range(quads):
            ranks[j] = np.int32(begin + np.int32(until >> (field * j) & ((1 << field) - 1)))
            begin = np.int32(begin + np.int32(of_warp >> (field * j) & ((1 << field) - 1)))
        if lane == 0:
            counts[warp] = begin
        cuda.syncthreads()
        total = np.int32(0)
        begin = np.int32(0)
        for other in range(WARPS):
            if other == warp:
                begin = total
            total = np.int32(total + counts[other])
        for j in range(quads):
            ranks[j] = np.int32(ranks[j] + begin)
        return total

    @helper
    def first_bits(bits, left, ranks, counts):
        """Return the bits that are among the first so many of a tile's, and how many it has."""
        total = rank_quads(bits, ranks, counts)
        few = np.int32(0)
        for j in range(quads):
            rank = np.int64(ranks[j])
            for n in range(of_quad * j, of_quad * (j + 1)):
                if bits >> n & 1 != 0:
                    if rank < left:
                        few = np.int32(few | (1 << n))
                    rank += 1
        return few, total

    @kernel(registers=64)  # four blocks of 256 threads on a multiprocessor
    def list_elements(
        x,  # IN      address of the first element
        border,  # IN OUT  address of (lines, BORDER) words
        table,  # IN      address of (lines, parts, DIGITS) int64: what a part has of a rank or a higher one
        tallies,  # IN      address of (lines, parts) int64: what it has beyond the last range
        pairs,  # OUT     address of (lines, room) pairs
        room,
        plan,  # IN      address of the plan
        upper,  # IN      address of the border of the groups, 0: there are none
        groups,  # IN      address of (lines, group_room) pairs, or of zeros
        group_room,
        parts,  # IN      per line
        heads,  # OUT     what a sort wants to know, 0: there is none
        starts,  # IN OUT  address of (lines, passes, SORT_DIGITS) int64, zeros
        everything,  # IN      1: all elements are listed, there is no border
    ):
        await_inputs()
        sums = cuda.shared.array(SUMS, np.int64)
        counts = cuda.shared.array(all_counts, np.int32)
        digits = cuda.shared.array(all_digits, np.int32)
        tile_keys = cuda.shared.array(room_of_tile, word)
        tile_positions = cuda.shared.array(room_of_tile, word)
        keys = cuda.local.array(items, key)
        firsts = cuda.local.array(quads, place)
        ranks = cuda.local.array(quads, np.int32)
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x) // parts
        part = np.int64(cuda.blockIdx.x) - line * parts
        border += 8 * line * BORDER
        form = form_of(plan, line, x, upper, groups, group_room)
        tile, end = part_of((np.int64(form[5]) + tile_quads - 1) // tile_quads, part, parts)
        low, ties, found = np.int64(lowest), np.int64(0), number(plan, SIZE)
        to = max(tile * (tile_quads * of_quad) - form[3], np.int64(0))
        left = np.int64(0)  # of the elements at the border
        if everything == 0:
            low, ties = load_i64(border + 8 * LOW), load_i64(border + 8 * TIES)
            found = load_i64(border + 8 * FOUND)
            rank = load_i64(border + 8 * RANK)
            table += 8 * (line * parts * DIGITS + rank)
            beyond = at = np.int64(0)
            for other in range(thread, part, BLOCK):
                until = load_i64(table + 8 * other * DIGITS)
                above = load_i64(table + 8 * other * DIGITS - 8) if rank > 0 else np.int64(0)
                beyond += load_i64(tallies + 8 * (line * parts + other)) + above
                at += until - above
            add_up_threads(sums, beyond)
            to = sums[BLOCK - 1]
            cuda.syncthreads()
            add_up_threads(sums, at)
            at = sums[BLOCK - 1]
            left = found - load_i64(border + 8 * ABOVE) - at
            to += at + min(left, np.int64(0)) if ties != 0 else at
        bar = key(low)
        for i in range(thread, all_digits, BLOCK):
            digits[i] = 0
        pairs += pair_bytes * line * room
        quad = place(tile * tile_quads + (thread // LANES) * LANES * quads + thread % LANES)
        turn = np.int32(0)
        cuda.syncthreads()
        while tile < end:
            exist = fetch(keys, firsts, form, plan, quad)
            chosen = at_border = np.int32(0)
            for n in range(items):
                if keys[n] > bar:
                    chosen = np.int32(chosen | (1 << n))
                if keys[n] == bar:
                    at_border = np.int32(at_border | (1 << n))
            if ties == 0:
                chosen = np.int32(chosen | at_border)
            elif left > 0:
                few, some = first_bits(np.int32(at_border & exist), left, ranks, counts[2 * WARPS :])
                chosen = np.int32(chosen | few)
                left -= some
            chosen = np.int32(chosen & exist)
            total = rank_quads(chosen, ranks, counts[turn:])
            turn = np.int32(WARPS - turn)
            begin = np.int32(0)
            while begin < total:  # once, but for keys of 1 to 4 bytes with positions of 8
                for j in range(quads):
                    rank = np.int32(ranks[j] - begin)
                    for n in range(of_quad):
                        if chosen >> (of_quad * j + n) & 1 != 0:
                            if fits or 0 <= rank < room_of_tile:
                                tile_keys[np.uint32(rank)] = reversed_key(keys[of_quad * j + n], low)
                                tile_positions[np.uint32(rank)] = firsts[j] + n
                            rank = np.int32(rank + 1)
                cuda.syncthreads()
                i = np.int32(thread)
                while i < min(np.int32(total - begin), np.int32(room_of_tile)):
                    new = tile_keys[np.uint32(i)]
                    store_pair(pairs + pair_bytes * (to + np.int64(i)), new, tile_positions[np.uint32(i)])
                    if heads != 0:
                        for digit in range(passes):
                            at_digit = digit * SORT_DIGITS + digit_of(new, SORT_DIGIT * digit)
                            cuda.atomic.add(digits, at_digit, 1)
                    i = np.int32(i + BLOCK)
                to += np.int64(min(np.int32(total - begin), np.int32(room_of_tile)))
                begin = np.int32(begin + room_of_tile)
                if not fits:
                    cuda.syncthreads()
            quad = place(quad + tile_quads)
            tile += 1
        if heads != 0:
            cuda.syncthreads()
            starts += 8 * line * all_digits
            add_counts(digits, starts, all_digits)
            if arrive(border + 8 * ARRIVED, sums, parts):
                if everything != 0 and thread == 0:
                    store_now(border + 8 * LOW, low)
                plan_passes(heads + 8 * line * HEAD, starts, found, passes, 1, sums)

    return Kernel(list_elements, 14, waits=True)


@cache
def write_access(width: int, is_float: bool, is_long: bool):
    """Return how the last pass of a sort writes the results: what it prepares, and how it puts one; see `move_kernel`.

    The bits of a value come back from its key; zeros and NaNs, which share one, are read: of each line they lie one
    after the other in the order of their positions, so this is no gather.
    """
    load, store = unit_access(width)
    lowest = -(1 << (8 * width - 1))

    @helper
    def prepare(x, values, indices, plan, border, line):
        source, to = line_bases(plan, line)
        low = load_i64(border + 8 * (line * BORDER + LOW))
        step, index_size = number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        return x + source, values + to * width, indices + to * index_size, step, index_size, low

    @helper
    def put(form, plan, word, position, place):
        source, values, indices, step, index_size, low = form
        if place < number(plan, K):
            new = raise_key(low, ~np.int64(word), 0) if is_long else low + (~np.int64(word) & 0xFFFFFFFF)
            bits = new ^ number(plan, FLIP)
            again = False
            if is_float:
                again = bits == 0 or new == number(plan, FLIP + 2)
                bits = bits if bits >= 0 else lowest - bits
            if again:
                bits, _ = load(source + np.int64(position) * number(plan, STRIDE))
            store(values + place * step * width, bits, 0)
            write_index(indices, index_size, place * step, np.int64(position))

    return prepare, put
