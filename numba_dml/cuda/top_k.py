"""The top-k kernels: delegates first, then the elements that they stand for.

A group of neighbours sends its best key as its *delegate* (Dr. Top-k, SC'21). The k best groups, by their delegates and
at equal keys by their order, contain the k best elements: whatever lies in another group is beaten by k delegates. So a
long line is read once, at the speed of the memory, and then k groups of it again, whatever the data are. The delegates
of a very long line are grouped in the same way.

Short lines, if there are many, have a thread each.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper, kernel
from ._keys import key_access, key_type
from ._launch import BLOCK, LANES, Kernel
from ._memory import (
    ARRAY_TYPES,
    LANE_VALUE,
    LOAD_INDEX,
    PARTNER_VALUE,
    bits_between,
    digit_above,
    lowest_bit,
    raise_key,
    sync_lanes,
    unit_access,
)
from ._plan import number, quotient
from ._sorting import add_up_threads

# The numbers of a plan.
(
    SIZE,  # elements of a line
    STRIDE,  # bytes from one to the next
    OUT_STRIDE,  # elements from one output to the next
    K,
    INDEX_SIZE,  # bytes of an output index
    FLIP,  # the rule of the keys, three numbers
    LINES,
    ROOM,  # what the lists of a block hold
    LEVELS,  # of delegates: 0, 1 or 2
    GROUP_BITS,  # the size of a group, as a power of two: of elements, of delegates
    PITCH,  # delegates per line, a multiple of a group: of elements, of delegates
    PARTS,  # of a line, a divisor: each is what a warp reads
    ROUNDS,  # of a warp
    SEGMENT,  # of a short line, in elements
    STAGING,  # how segments come into shared memory
    DIMS,  # dimensions of the lines
    HEADER,
) = (*range(6), 8, 9, 10, 11, 13, 15, 18, 19, 20, 21, 22)
DIM_FIELDS = 5  # size (a divisor), input stride in bytes, output stride in elements

WARPS = BLOCK // LANES
#: Threads of a block of `choose_kernel`, if there are few lines.
MOST_THREADS = BLOCK if SIMULATED else 1024
ENDS = 2 * MOST_THREADS // LANES
#: What a warp reads at once of a line: so many times 16 bytes per lane.
QUADS = 4
#: Bits of a digit, and how many digits there are: 4 KiB of counts. In the simulator all is small.
DIGIT = 4 if SIMULATED else 10
DIGITS = 1 << DIGIT
#: What a block chooses from, in shared memory.
(
    LEVEL,
    SOURCE,  # the address of its first key or element
    STEP,  # bytes from one element to the next
    BITS,  # the size of a group, as a power of two
    SHIFT,  # how far the first group begins before the first element
    COUNT,  # keys or elements of the line
    TOTAL,  # those of the groups to look into
    WHERE,
) = range(8)
#: What the lists of a block hold, at most and at least: keys, positions, and groups to look into, of 24 bytes in all.
MOST_ROOM = 64 if SIMULATED else 8192
LEAST_ROOM = 8 if SIMULATED else 256
#: The largest k of these kernels.
MOST_K = MOST_ROOM // 2
#: Lists in the registers of a thread, for short lines.
THREAD_LISTS = (1, 4, 8, 16)
#: Columns of short lines that are handled together: by a loop, as bits of a word.
COLUMNS, WORD = 16, 32
#: How short lines come into shared memory: by 16 bytes, by elements, or each by its own thread, next to others.
WIDE, NARROW, BESIDE = range(3)
#: The keys of a segment of a short line. 512 bytes take 1.4 times as long: fewer warps fit.
SEGMENT_BYTES = 64 if SIMULATED else 128
#: Threads of a block for short lines.
SHORT_BLOCK = BLOCK if SIMULATED else 64
#: Candidates that a thread looks at together.
AT_ONCE = 4
#: What fills lists up: it comes last.
END = (1 << 63) - 1


@helper
def line_bases(plan, line):
    """Return where a line starts: a byte of the input, an element of the outputs."""
    source = np.int64(0)
    to = np.int64(0)
    for d in range(number(plan, DIMS) - 1, -1, -1):
        field = HEADER + DIM_FIELDS * d
        i = line
        if d > 0:
            line = quotient(line, plan, field)
            i -= line * number(plan, field)
        source += i * number(plan, field + 3)
        to += i * number(plan, field + 4)
    return source, to


_, store_word = unit_access(8)
_, store_half = unit_access(4)
_, store_short = unit_access(2)
_, store_byte = unit_access(1)


@helper
def write_index(indices, size, at, position):
    """Store one output index of `size` bytes."""
    if size == 8:
        store_word(indices + 8 * at, position, 0)
    elif size == 4:
        store_half(indices + 4 * at, position, 0)
    elif size == 2:
        store_short(indices + 2 * at, position, 0)
    else:
        store_byte(indices + at, position, 0)


@cache
def end_access(width: int, is_float: bool):
    """Return how to find the best key of 16 bytes that lie in a line only in part, or not at all."""
    key_at, *_ = key_access(width, is_float, FLIP)
    key = key_type(width)
    lowest = np.iinfo(key).min
    of_quad = 16 // width

    @helper
    def best_inside(line, plan, first, size):
        best = key(lowest)
        if -of_quad < first < size:
            for i in range(first, first + of_quad):  # an element twice does no harm
                best = max(best, key_at(line + max(np.int64(0), min(i, size - 1)) * width, plan))
        return best

    return best_inside


@cache
def delegate_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that finds the delegates of lines whose elements are neighbours.

    A lane reads 16 bytes, four times at once. A line's groups start at a multiple of 16 bytes, so that its first group
    may have fewer elements.
    """
    _, best_of_quad, *_ = key_access(width, is_float, FLIP)
    best_inside = end_access(width, is_float)
    lowest = np.iinfo(key_type(width)).min
    key, key_bytes = key_type(width), key_type(width)(0).itemsize
    _, store_key = unit_access(key_bytes)
    partner_value = PARTNER_VALUE[8 * key_bytes]
    of_quad = 16 // width

    @helper
    def best_of_lanes(best, lanes):
        step = lanes >> 1
        while step > 0:
            best = max(best, partner_value(best, step))
            step >>= 1
        return best

    @helper
    def put(delegates, plan, line, quad, best):
        bits = number(plan, GROUP_BITS)
        first = quad * of_quad
        if first & ((1 << bits) - 1) == 0 and first >> bits < number(plan, PITCH):
            at = line * number(plan, PITCH) + (first >> bits)
            store_key(delegates + key_bytes * at, best, 0)

    @kernel(registers=40)  # six blocks of 256 threads on a multiprocessor
    def find_delegates(
        x,  # IN   address of the first element
        delegates,  # OUT  address of (lines, pitch) keys
        plan,  # IN   address of the plan
    ):
        lane = np.int64(cuda.threadIdx.x % LANES)
        warp = np.int64(cuda.blockIdx.x) * WARPS + cuda.threadIdx.x // LANES
        line = quotient(warp, plan, PARTS)
        if line >= number(plan, LINES):
            return
        source, _ = line_bases(plan, line)
        source += x
        shift = (source & 15) // width
        size = number(plan, SIZE)
        quads = (1 << number(plan, GROUP_BITS)) // of_quad
        rounds = number(plan, ROUNDS)
        quad = (warp - line * number(plan, PARTS)) * rounds * (QUADS * LANES) + lane
        address = source - shift * width + 16 * quad
        for _ in range(rounds):
            first = quad * of_quad - shift
            if first >= lane * of_quad and first + (QUADS * LANES - lane) * of_quad <= size:
                a = best_of_quad(address, plan)
                b = best_of_quad(address + 16 * LANES, plan)
                c = best_of_quad(address + 32 * LANES, plan)
                d = best_of_quad(address + 48 * LANES, plan)
                if quads == QUADS * LANES:
                    put(delegates, plan, line, quad, best_of_lanes(max(max(a, b), max(c, d)), LANES))
                else:
                    if quads > LANES:
                        a, c = max(a, b), max(c, d)
                    lanes = min(quads, LANES)
                    put(delegates, plan, line, quad, best_of_lanes(a, lanes))
                    put(delegates, plan, line, quad + 2 * LANES, best_of_lanes(c, lanes))
                    if quads <= LANES:
                        put(delegates, plan, line, quad + LANES, best_of_lanes(b, lanes))
                        put(delegates, plan, line, quad + 3 * LANES, best_of_lanes(d, lanes))
            else:  # at an end of the line
                best = key(lowest)
                for j in range(0, QUADS * LANES, LANES):
                    best = max(best, best_inside(source, plan, first + j * of_quad, size))
                    if (j + LANES) % quads == 0 or quads < LANES:
                        group = (quad + j) // quads * quads if quads > LANES else quad + j
                        put(delegates, plan, line, group, best_of_lanes(best, min(quads, LANES)))
                        best = key(lowest)
            quad += QUADS * LANES
            address += 16 * QUADS * LANES

    return Kernel(find_delegates, 3, waits=True)


@cache
def best_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that finds the best element of lines whose elements are neighbours, a block for each."""
    key_at, best_of_quad, *_ = key_access(width, is_float, FLIP)
    best_inside = end_access(width, is_float)
    load, store = unit_access(width)
    lowest = int(np.iinfo(key_type(width)).min)
    key = key_type(width)
    partner_value = PARTNER_VALUE[64]
    of_quad = 16 // width

    @kernel(registers=40)
    def find_best(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        keys = cuda.shared.array(ENDS, np.int64)
        quads = cuda.shared.array(ENDS, np.int64)
        thread, threads = np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x)
        from_x, to = line_bases(plan, np.int64(cuda.blockIdx.x))
        source = x + from_x
        size = number(plan, SIZE)
        shift = (source & 15) // width  # the first 16 bytes may begin before the line
        count = (size + shift + of_quad - 1) // of_quad
        quad, best = np.int64(END), key(lowest)
        q = thread
        while q < count:
            first = q * of_quad - shift
            address = source + first * width
            if first >= 0 and first + (3 * threads + 1) * of_quad <= size:
                a, b = best_of_quad(address, plan), best_of_quad(address + 16 * threads, plan)
                c, d = best_of_quad(address + 32 * threads, plan), best_of_quad(address + 48 * threads, plan)
                four = max(max(a, b), max(c, d))
                if four > best or quad == END:
                    best = four
                    quad = q + (0 if a == four else 1 if b == four else 2 if c == four else 3) * threads
                q += 4 * threads
            else:
                whole = first >= 0 and first + of_quad <= size
                one = best_of_quad(address, plan) if whole else best_inside(source, plan, first, size)
                if one > best or quad == END:
                    best, quad = one, q
                q += threads
        high = np.int64(best)
        lanes = LANES >> 1
        while lanes > 0:
            other, its_quad = partner_value(high, lanes), partner_value(quad, lanes)
            if other > high or (other == high and its_quad < quad):
                high, quad = other, its_quad
            lanes >>= 1
        if thread % LANES == 0:
            keys[thread // LANES] = high
            quads[thread // LANES] = quad
        cuda.syncthreads()
        if thread == 0:
            for warp in range(1, threads // LANES):
                if keys[warp] > high or (keys[warp] == high and quads[warp] < quad):
                    high, quad = keys[warp], quads[warp]
            i = max(np.int64(0), quad * of_quad - shift)
            while key_at(source + i * width, plan) != high:
                i += 1
            value = load(source + i * width)
            store(values + to * width, value[0], value[1])
            write_index(indices, number(plan, INDEX_SIZE), to, i)

    return Kernel(find_best, 4, waits=True)


@cache
def strided_delegate_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that finds the delegates of any other lines: a thread for each group."""
    key_at, *_ = key_access(width, is_float, FLIP)
    lowest = np.iinfo(key_type(width)).min
    key, key_bytes = key_type(width), key_type(width)(0).itemsize
    _, store_key = unit_access(key_bytes)

    @kernel
    def find_strided_delegates(
        x,  # IN   address of the first element
        delegates,  # OUT  address of (lines, pitch) keys
        plan,  # IN   address of the plan
    ):
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        lines = number(plan, LINES)
        group = item // lines
        line = item - group * lines
        if group >= number(plan, PITCH):
            return
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        last = number(plan, SIZE) - 1
        i = group << number(plan, GROUP_BITS)
        end = min(i + (1 << number(plan, GROUP_BITS)), last + 1)
        best = key(lowest)
        address = x + source + i * stride
        while i < end:
            b, c, d = min(i + 1, last) - i, min(i + 2, last) - i, min(i + 3, last) - i  # another one twice does no harm
            first = max(key_at(address, plan), key_at(address + b * stride, plan))
            second = max(key_at(address + c * stride, plan), key_at(address + d * stride, plan))
            best = max(best, max(first, second))
            address += 4 * stride
            i += 4
        store_key(delegates + key_bytes * (line * number(plan, PITCH) + group), best, 0)

    return Kernel(find_strided_delegates, 3)


@cache
def choose_kernel(width: int, is_float: bool, is_long: bool) -> Kernel:
    """Return the kernel that chooses from a line: a block finds the best groups, level by level, and sorts the best.

    `is_long`: a line has 2**31 elements or more.
    """
    key_at, *_ = key_access(width, is_float, FLIP)
    load, store = unit_access(width)
    key = key_type(width)
    key_bytes = key(0).itemsize
    lowest = np.iinfo(key).min
    load_delegate = LOAD_INDEX[f"int{8 * key_bytes}"]
    partner_value = PARTNER_VALUE[64]
    place = np.int64 if is_long else np.int32  # of positions: 64 bits take twice the steps
    key_array, place_array = ARRAY_TYPES[key], ARRAY_TYPES[place]
    end = np.iinfo(place).max
    whole = 8 * place(0).itemsize - 2  # bits of a group that has all positions
    keys_in_places = 2 * place(0).itemsize // key_bytes  # keys that would fit where a position and a group are

    # `where` says what to choose from, in shared memory; `form` is the part of it that every candidate needs.

    @helper
    def form_of(where):
        return place(where[LEVEL]), place(where[BITS]), place(where[SHIFT]), place(where[COUNT]), place(where[TOTAL])

    @helper
    def candidate(source, step, form, plan, groups, c):
        """Return the position of a candidate, or -1, and its key."""
        level, bits, shift, size, total = form
        near = min(c, place(total - 1))
        first = place(groups[np.uint32(near >> bits)] << bits)
        i = place(place(first + place(near & place((place(1) << bits) - 1))) - shift)
        inside = c < total and i >= 0 and i < size
        i = max(place(0), min(i, place(size - 1)))
        if level > 0:
            found = key(load_delegate(source + i * np.int64(key_bytes)))
        else:
            found = key_at(source + i * step, plan)
        return (i if inside else place(-1)), found

    @helper
    def fetch(source, step, form, plan, groups, c, keys, positions):
        """Get a few candidates at once, so that their loads are on their way together."""
        for j in range(AT_ONCE):
            positions[j], keys[j] = candidate(source, step, form, plan, groups, place(c + j * cuda.blockDim.x))

    @helper
    def extremes(where, plan, groups, ends, some_keys, some_positions):
        """Return the lowest and the highest key."""
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        low, high = np.int64(END), np.int64(-END - 1)
        c = thread
        while c < form[4]:
            fetch(source, step, form, plan, groups, c, some_keys, some_positions)
            for j in range(AT_ONCE):
                if some_positions[j] >= 0:
                    low, high = min(low, np.int64(some_keys[j])), max(high, np.int64(some_keys[j]))
            c = place(c + AT_ONCE * threads)
        lanes = LANES >> 1
        while lanes > 0:
            low = min(low, partner_value(low, lanes))
            high = max(high, partner_value(high, lanes))
            lanes >>= 1
        if thread % LANES == 0:
            ends[2 * (thread // LANES)] = low
            ends[2 * (thread // LANES) + 1] = high
        cuda.syncthreads()
        for warp in range(threads // LANES):
            low, high = min(low, ends[2 * warp]), max(high, ends[2 * warp + 1])
        cuda.syncthreads()
        return low, high

    @helper
    def border(counts, sums, wanted):
        """Find the digit where the best `wanted` elements end; return it, and how many are above it and in it."""
        thread = cuda.threadIdx.x
        share = DIGITS // cuda.blockDim.x
        total = np.int64(0)
        for i in range(share):
            total += counts[DIGITS - 1 - (thread * share + i)]
        until = add_up_threads(sums, total)
        cuda.syncthreads()
        above = until - total
        if above < wanted <= until:
            for i in range(share):
                digit = DIGITS - 1 - (thread * share + i)
                if above < wanted <= above + counts[digit]:
                    sums[0] = digit
                    sums[1] = above
                    sums[2] = counts[digit]
                above += counts[digit]
        cuda.syncthreads()
        found = np.int64(sums[0]), np.int64(sums[1]), np.int64(sums[2])
        cuda.syncthreads()
        return found

    @helper
    def narrow(where, plan, groups, low, high, wanted, limit, counts, sums, some_keys, some_positions):
        """Raise the lowest key until at most `limit` candidates reach it, and the best `wanted` do.

        Return the key, and whether those equal to it are too many.
        """
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        bits = bits_between(low, high)
        if form[4] <= AT_ONCE * threads:  # a few for each thread: bisect
            fetch(source, step, form, plan, groups, thread, some_keys, some_positions)
            found = limit + 1
            while bits > 0 and found > limit:
                bits -= 1
                if digit_above(high, low, bits) != 0:
                    middle = raise_key(low, 1, bits)
                    count = np.int64(0)
                    for j in range(AT_ONCE):
                        if j * threads < form[4]:
                            reached = some_positions[j] >= 0 and some_keys[j] >= middle
                            count += cuda.syncthreads_count(1 if reached else 0)
                    if count >= wanted:
                        low, found = middle, count
            return low, found > limit
        above = np.int64(0)
        while True:
            fine = max(bits - DIGIT, np.int64(0))
            c = thread
            while c < DIGITS:
                counts[np.uint32(c)] = 0
                c = place(c + threads)
            cuda.syncthreads()
            c = thread
            while c < form[4]:
                fetch(source, step, form, plan, groups, c, some_keys, some_positions)
                for j in range(AT_ONCE):
                    if some_positions[j] >= 0 and some_keys[j] >= low and digit_above(some_keys[j], low, bits) == 0:
                        cuda.atomic.add(counts, digit_above(some_keys[j], low, fine), 1)
                c = place(c + AT_ONCE * threads)
            cuda.syncthreads()
            digit, higher, inside = border(counts, sums, wanted - above)
            low = raise_key(low, digit, fine)
            above += higher
            if fine == 0 or above + inside <= limit:
                return low, above + inside > limit
            bits = fine

    @helper
    def collect(where, plan, groups, low, without, room, sums, keys, positions, some_keys, some_positions):
        """List the candidates from a key on, or without it from the next; return how many there are."""
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        if thread == 0:
            sums[0] = 0
        cuda.syncthreads()
        c = thread
        while c < form[4]:
            fetch(source, step, form, plan, groups, c, some_keys, some_positions)
            for j in range(AT_ONCE):
                if some_positions[j] >= 0 and some_keys[j] >= low and not (without and some_keys[j] == low):
                    at = cuda.atomic.add(sums, 0, 1)
                    if at < room:
                        keys[np.uint32(at)] = some_keys[j]
                        positions[np.uint32(at)] = some_positions[j]
            c = place(c + AT_ONCE * threads)
        cuda.syncthreads()
        count = np.int64(sums[0])
        cuda.syncthreads()
        return count

    @helper
    def collect_ties(where, plan, groups, low, count, wanted, sums, keys, positions):
        """Add the first candidates with a key, in their order, until there are as many as wanted; return how many."""
        source, step, form = where[SOURCE], where[STEP], form_of(where)
        c = place(cuda.threadIdx.x)
        while count < wanted:
            i, found = candidate(source, step, form, plan, groups, c)
            tie = i >= 0 and found == low
            at = count + add_up_threads(sums, np.int64(1 if tie else 0)) - 1
            if tie and at < wanted:
                keys[at] = found
                positions[at] = i
            count = min(wanted, count + sums[cuda.blockDim.x - 1])
            c = place(c + cuda.blockDim.x)
            cuda.syncthreads()
        return count

    @helper
    def sort_lists(keys, positions, count):
        """Sort lists, best first and equal ones by position (bitonic); they have room for a power of two."""
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

    @kernel(registers=64)
    def choose_from_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        delegates,  # IN   address of (lines, pitch) keys, if there are levels
        upper,  # IN   address of the delegates of these
        plan,  # IN   address of the plan
    ):
        counts = cuda.shared.array(DIGITS, np.int32)
        sums = cuda.shared.array(MOST_THREADS, np.int32)
        ends = cuda.shared.array(ENDS, np.int64)
        where = cuda.shared.array(WHERE, np.int64)
        some_keys = cuda.local.array(AT_ONCE, key)
        some_positions = cuda.local.array(AT_ONCE, place)
        room = number(plan, ROOM)
        places = cuda.shared.array(0, place_array)
        positions, groups = places[:room], places[room : 2 * room]
        keys = cuda.shared.array(0, key_array)[keys_in_places * room :]
        thread = np.int64(cuda.threadIdx.x)
        k = number(plan, K)
        line = np.int64(cuda.blockIdx.x)
        from_x, to = line_bases(plan, line)
        levels = number(plan, LEVELS)
        level = levels
        low, high = np.int64(lowest), np.int64(END)
        count = np.int64(1)
        if thread == 0:
            groups[0] = 0  # at first all that there is
        while level >= 0:
            cuda.syncthreads()
            source, shift, size = x + from_x, np.int64(0), number(plan, SIZE)
            if level > 0:
                size = number(plan, PITCH + level - 1)
                source = (delegates if level == 1 else upper) + line * size * key_bytes
            elif levels > 0 and number(plan, STRIDE) == width:
                shift = (source & 15) // width
            bits, total, limit = number(plan, GROUP_BITS + level), count << number(plan, GROUP_BITS + level), room
            wanted = min(k, size)
            over = False
            if level == levels:
                bits, total = np.int64(whole), size
                limit = room if level == 0 else min(room, wanted + (wanted >> 2))
                over = total > limit
            if thread == 0:
                where[LEVEL], where[SOURCE], where[STEP] = level, source, number(plan, STRIDE)
                where[BITS], where[SHIFT], where[COUNT], where[TOTAL] = bits, shift, size, total
            cuda.syncthreads()
            if over:
                low, high = extremes(where, plan, groups, ends, some_keys, some_positions)
            ties = False
            searching = True
            while searching:
                if over:
                    low, ties = narrow(
                        where, plan, groups, low, high, wanted, limit, counts, sums, some_keys, some_positions
                    )
                    if ties and level < levels:  # the first of the groups matter now, so they must be in their order
                        for j in range(thread, count, cuda.blockDim.x):
                            keys[j] = 0
                        sort_lists(keys, groups, np.int32(count))
                found = collect(where, plan, groups, low, ties, room, sums, keys, positions, some_keys, some_positions)
                if ties:
                    found = collect_ties(where, plan, groups, low, found, wanted, sums, keys, positions)
                over = found > limit
                searching = over
            count = found
            if level > 0:
                for j in range(thread, count, cuda.blockDim.x):
                    groups[j] = positions[j]
            level -= 1
        sort_lists(keys, positions, np.int32(count))
        stride = number(plan, STRIDE)
        step = number(plan, OUT_STRIDE)
        index_size = number(plan, INDEX_SIZE)
        for j in range(thread, k, cuda.blockDim.x):
            position = np.int64(positions[j])
            value = load(x + from_x + position * stride)
            store(values + (to + j * step) * width, value[0], value[1])
            write_index(indices, index_size, to + j * step, position)

    return Kernel(choose_from_lines, 6, waits=True, shares=True)


@cache
def short_kernel(width: int, is_float: bool, most: int) -> Kernel:
    """Return the kernel for many short lines: a thread keeps the best `most` of its line in registers.

    A warp brings a segment of its lines into shared memory. The maxima of `most` parts of a segment tell what the best
    `most` of it must reach, and few others do: the threads insert these only, each its own, at the same time.
    """
    key_at, _, load_quad, put_keys = key_access(width, is_float, FLIP)
    load, store = unit_access(width)
    key = key_type(width)
    key_array = ARRAY_TYPES[key]
    lowest, highest = np.iinfo(key).min, np.iinfo(key).max
    address_of_lane = LANE_VALUE[64]
    of_quad = 16 // width

    @helper
    def insert(keys, positions, new, position):
        moving = False
        for j in range(most):
            moving = moving or new > keys[j]  # from there on all move, equal ones too
            if moving:
                new, keys[j] = keys[j], new
                position, positions[j] = positions[j], position

    @helper
    def stage(tile, row, source, first, columns, wide, plan):
        """Bring a segment of a warp's lines into its tile, coalesced: neighbouring lanes have neighbouring units."""
        lane = np.int32(cuda.threadIdx.x % LANES)
        units = np.int32(columns // of_quad if wide else columns)
        bits = np.int32(0)
        while (1 << bits) < min(units, np.int32(LANES)):
            bits = np.int32(bits + 1)
        rows = np.int32(LANES >> bits)  # that a load brings
        step = number(plan, STRIDE)
        addresses = cuda.local.array(AT_ONCE, np.int64)
        places = cuda.local.array(AT_ONCE, np.int32)
        begin = np.int32(0)
        while begin < units:
            unit = np.int32(begin + np.int32(lane & np.int32((1 << bits) - 1)))
            j = np.int32(lane >> bits)
            while j < LANES:
                for i in range(AT_ONCE):
                    line = np.int32(j & (LANES - 1))  # if few loads bring all lines, some come twice
                    j = np.int32(j + rows)
                    addresses[i] = address_of_lane(source, line)
                    places[i] = line * row + unit * (of_quad if wide else 1)
                if unit < units and wide:
                    at = first * width + 16 * unit
                    a, b = load_quad(addresses[0] + at), load_quad(addresses[1] + at)
                    c, d = load_quad(addresses[2] + at), load_quad(addresses[3] + at)
                    put_keys(tile[np.uint32(places[0]) :], a, plan)
                    put_keys(tile[np.uint32(places[1]) :], b, plan)
                    put_keys(tile[np.uint32(places[2]) :], c, plan)
                    put_keys(tile[np.uint32(places[3]) :], d, plan)
                elif unit < units:
                    for i in range(AT_ONCE):
                        tile[np.uint32(places[i])] = key_at(addresses[i] + (first + unit) * step, plan)
            begin = np.int32(begin + np.int32(1 << bits))

    @helper
    def bar_of(own, columns, kth):
        """Return what a key must reach to be among the best `most`."""
        tops = cuda.local.array(most, key)
        for j in range(most):
            tops[j] = lowest
        c = np.int32(0)
        while c < columns:
            part = own[np.uint32(c) :]
            for j in range(most):
                tops[j] = max(tops[j], part[j])
            c = np.int32(c + most)
        bar = tops[0]
        for j in range(1, most):
            bar = min(bar, tops[j])
        return max(bar, key(kth + 1))

    @kernel
    def choose_from_short_lines(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
    ):
        tiles = cuda.shared.array(0, key_array)
        keys = cuda.local.array(most, key)
        positions = cuda.local.array(most, np.int32)
        thread = np.int64(cuda.threadIdx.x)
        lane = thread % LANES
        line = np.int64(cuda.blockIdx.x) * cuda.blockDim.x + thread
        lines = number(plan, LINES)
        from_x, to = line_bases(plan, min(line, lines - 1))
        source = x + from_x
        size = np.int32(number(plan, SIZE))
        stride = number(plan, STRIDE)
        segment = np.int32(number(plan, SEGMENT))
        padded = np.int32((segment + COLUMNS - 1) & ~(COLUMNS - 1))
        row = np.int32(padded + 1)  # one more, so that the lanes' elements lie in different banks
        tile = tiles[(thread - lane) * row :]
        own = tiles[thread * row :]
        for j in range(most):
            keys[j] = lowest
            positions[j] = -1
        way = number(plan, STAGING)
        if way == WIDE and x & 15 != 0:
            way = np.int64(NARROW)
        first = np.int32(0)
        while first < size:
            columns = min(segment, np.int32(size - first))
            if way == BESIDE:
                address = source + first * stride
                c = np.int32(0)
                while c < columns:  # once too often for some, but four loads at once
                    near = np.int32(columns - 1)
                    b, c2 = min(np.int32(c + 1), near), min(np.int32(c + 2), near)
                    d = min(np.int32(c + 3), near)
                    of_a, of_b = key_at(address + c * stride, plan), key_at(address + b * stride, plan)
                    of_c, of_d = key_at(address + c2 * stride, plan), key_at(address + d * stride, plan)
                    own[np.uint32(c)], own[np.uint32(b)], own[np.uint32(c2)], own[np.uint32(d)] = of_a, of_b, of_c, of_d
                    c = np.int32(c + 4)
            else:
                stage(tile, row, source, first, columns, way == WIDE, plan)
            padded = np.int32((columns + COLUMNS - 1) & ~(COLUMNS - 1))
            for c in range(columns, padded):
                own[np.uint32(c)] = lowest
            sync_lanes()
            if keys[most - 1] < highest:
                bar = bar_of(own, padded, keys[most - 1])
                begin = np.int32(0)
                while begin < padded:
                    hits = np.uint32(0)
                    c = begin
                    while c < min(np.int32(begin + WORD), padded):
                        few = np.uint32(0)
                        part = own[np.uint32(c) :]
                        for j in range(COLUMNS):
                            if part[j] >= bar:
                                few = np.uint32(few | np.uint32(1 << j))
                        hits = np.uint32(hits | np.uint32(few << np.uint32(c - begin)))
                        c = np.int32(c + COLUMNS)
                    while hits != 0:
                        c = np.int32(begin + lowest_bit(hits))
                        hits = np.uint32(hits & np.uint32(hits - np.uint32(1)))
                        new = own[np.uint32(c)]
                        if new > keys[most - 1]:
                            insert(keys, positions, new, np.int32(first + c))
                    begin = np.int32(begin + WORD)
            sync_lanes()
            first = np.int32(first + segment)
        if line < lines:
            k = number(plan, K)
            step = number(plan, OUT_STRIDE)
            index_size = number(plan, INDEX_SIZE)
            after = np.int64(-1)
            for j in range(most):
                if j < k:
                    position = np.int64(positions[j])
                    if position < 0:  # what is left has the lowest key, which nothing is less than
                        after += 1
                        while key_at(source + after * stride, plan) > lowest:
                            after += 1
                        position = after
                    value = load(source + position * stride)
                    store(values + (to + j * step) * width, value[0], value[1])
                    write_index(indices, index_size, to + j * step, position)

    return Kernel(choose_from_short_lines, 4, waits=True, shares=True)
