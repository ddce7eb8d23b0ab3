"""The top-k kernels: delegates first, then the elements that they stand for.

A group of neighbours sends its best key as its *delegate* (Dr. Top-k, SC'21). The k best groups, by their delegates and
at equal keys by their order, contain the k best elements: whatever lies in another group is beaten by k delegates. So a
long line is read once, at the speed of the memory, and then k groups of it again, whatever the data are. The delegates
of a very long line are grouped in the same way.

Short lines, if there are many, have a thread each, longer ones a warp (`short_lines`, `warp_lines`). Those that
lie beside each other have delegates of their own kind (`beside`).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper, kernel
from ._keys import key_access, key_type
from ._launch import BLOCK, LANES, Kernel
from ._memory import LOAD_INDEX, PARTNER_VALUE, await_inputs, unit_access
from ._plan import number, quotient

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
    PARTS,  # of a line, a divisor: each is what a warp reads; if k = 1, a block or a thread
    ROUNDS,  # of a warp; if k = 1: units of 16 bytes that a block reads, or elements of a thread
    SEGMENT,  # of a short line, in elements
    STAGING,  # how segments come into shared memory
    CHUNK,  # units of a chunk, as a power of two: 1, 2 or 4
    MAXIMA,  # chunks of a line, at least
    LOW,  # the lowest byte of the input, relative to its first element
    HIGH,
    DIMS,  # dimensions of the lines
    HEADER,
) = (*range(6), 8, 9, 10, 11, 13, 15, *range(18, 27))
DIM_FIELDS = 5  # size (a divisor), input stride in bytes, output stride in elements

WARPS = BLOCK // LANES
#: Threads of a block that has a line, if there are few lines.
MOST_THREADS = BLOCK if SIMULATED else 1024
ENDS = 2 * MOST_THREADS // LANES
#: What a warp reads at once of a line: so many times 16 bytes per lane.
QUADS = 4
#: What a thread reads at once of a line whose elements are no neighbours.
ROWS_AT_ONCE = 2 if SIMULATED else 8
#: What the lists of a block hold, at most and at least: keys, positions, and groups to look into, of 24 bytes in all.
MOST_ROOM = 64 if SIMULATED else 4096
LEAST_ROOM = 8 if SIMULATED else 256
#: The largest k of these kernels.
MOST_K = MOST_ROOM // 2
#: What fills lists up: it comes last.
END, LOWEST = (1 << 63) - 1, -1 << 63


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
    key_at = key_access(width, is_float, FLIP).key_at
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
    access = key_access(width, is_float, FLIP)
    bests_of_quads, best_of_quads = access.bests_of_quads, access.best_of_quads
    best_inside = end_access(width, is_float)
    lowest = np.iinfo(key_type(width)).min
    key, key_bytes = key_type(width), key_type(width)(0).itemsize
    _, store_key = unit_access(key_bytes)
    partner_value = PARTNER_VALUE[8 * key_bytes]
    of_quad = 16 // width
    quarter_bits = of_quad.bit_length() - 1 + 2  # of a group's lanes, less than of its elements

    @helper
    def best_of_lanes(best, lanes):
        step = lanes >> 1
        while step > 0:
            best = max(best, partner_value(best, step))
            step >>= 1
        return best

    @helper
    def share(a, b, is_upper, step):
        """Return the best of two lanes' first keys to the lower lane, the best of their second ones to the upper."""
        return max(b if is_upper else a, partner_value(a if is_upper else b, step))

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
        await_inputs()
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
                if quads == QUADS * LANES:
                    put(delegates, plan, line, quad, best_of_lanes(best_of_quads(address, 16 * LANES, plan), LANES))
                else:
                    second, third = address + 16 * LANES, address + 32 * LANES
                    a, b, c, d = bests_of_quads(address, second, third, address + 48 * LANES, plan)
                    if quads >= QUADS and quads <= LANES:
                        # A group's lanes share the four groups out among them: 6 exchanges for 32 lanes, not 20.
                        half, quarter = quads >> 1, quads >> 2
                        upper = lane & half != 0
                        a, b = share(a, c, upper, half), share(b, d, upper, half)
                        a = best_of_lanes(share(a, b, lane & quarter != 0, quarter), quarter)
                        if lane & (quarter - 1) == 0:
                            own = lane & (quads - 1)
                            which = own >> (number(plan, GROUP_BITS) - quarter_bits)
                            put(delegates, plan, line, quad - own + which * LANES, a)
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


partner_word = PARTNER_VALUE[64]
load_pair, store_pair = unit_access(16)


@helper
def best_of_warp(high, place):
    """Return the best key of a warp's threads, and the least place of those that have it, to its first one."""
    lanes = LANES >> 1
    while lanes > 0:
        other, its_place = partner_word(high, lanes), partner_word(place, lanes)
        if other > high or (other == high and its_place < place):
            high, place = other, its_place
        lanes >>= 1
    return high, place


@helper
def best_of_block(keys, places, high, place):
    """Return the best key of all threads, and the least place of those that have it, to thread 0."""
    thread = np.int64(cuda.threadIdx.x)
    high, place = best_of_warp(high, place)
    if thread % LANES == 0:
        keys[thread // LANES] = high
        places[thread // LANES] = place
    cuda.syncthreads()
    if thread < LANES:
        high, place = np.int64(LOWEST), np.int64(END)
        if thread < np.int64(cuda.blockDim.x) // LANES:
            high, place = keys[thread], places[thread]
        high, place = best_of_warp(high, place)
    return high, place


@cache
def best_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that finds the best element of lines whose elements are neighbours, a block for each part."""
    access = key_access(width, is_float, FLIP)
    key_at, best_of_quad, bests_of_quads = access.key_at, access.best_of_quad, access.bests_of_quads
    best_inside = end_access(width, is_float)
    load, store = unit_access(width)
    lowest = int(np.iinfo(key_type(width)).min)
    key = key_type(width)
    of_quad = 16 // width

    @kernel(registers=40)
    def find_best(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
        found,  # OUT  address of the best key and its position of each part, if lines have several
    ):
        await_inputs()
        keys = cuda.shared.array(ENDS, np.int64)
        quads = cuda.shared.array(ENDS, np.int64)
        thread, threads = np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x)
        part = np.int64(cuda.blockIdx.x)
        line = quotient(part, plan, PARTS)
        from_x, to = line_bases(plan, line)
        source = x + from_x
        size = number(plan, SIZE)
        shift = (source & 15) // width  # the first 16 bytes may begin before the line
        begin = (part - line * number(plan, PARTS)) * number(plan, ROUNDS)
        count = min((size + shift + of_quad - 1) // of_quad, begin + number(plan, ROUNDS))
        quad, best = np.int64(END), key(lowest)
        q = begin + thread
        while q < count:
            first = q * of_quad - shift
            address = source + first * width
            if first >= 0 and first + (3 * threads + 1) * of_quad <= size:
                second, third = address + 16 * threads, address + 32 * threads
                a, b, c, d = bests_of_quads(address, second, third, address + 48 * threads, plan)
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
        high, quad = best_of_block(keys, quads, np.int64(best), quad)
        if thread == 0:
            i = np.int64(END)  # of a part without elements
            if quad < END:
                i = max(np.int64(0), quad * of_quad - shift)
                while key_at(source + i * width, plan) != high:
                    i += 1
            if found != 0:
                store_pair(found + 16 * part, high, i)
            else:
                value = load(source + i * width)
                store(values + to * width, value[0], value[1])
                write_index(indices, number(plan, INDEX_SIZE), to, i)

    return Kernel(find_best, 5, waits=True)


@cache
def best_by_threads_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that finds the best element of any other lines, a thread for each part of one.

    Neighbouring threads have lines that may lie beside each other.
    """
    key_of = key_access(width, is_float, FLIP).key_of
    load, store = LOAD_INDEX[f"int{8 * width}"], unit_access(width)[1]
    key = key_type(width)
    lowest = np.iinfo(key).min

    @kernel
    def find_best_by_threads(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
        found,  # OUT  address of the best key and its position of each part, if lines have several
    ):
        await_inputs()
        some = cuda.local.array(ROWS_AT_ONCE, key)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        lines, parts = number(plan, LINES), number(plan, PARTS)
        if item >= lines * parts:
            return
        part = np.int64(0)
        if parts > 1:
            part = item // lines
        line = item - part * lines
        from_x, to = line_bases(plan, line)
        stride = number(plan, STRIDE)
        begin = part * number(plan, ROUNDS)
        end = min(begin + number(plan, ROUNDS), number(plan, SIZE))
        best, place = key(lowest), begin
        address = x + from_x + begin * stride
        i = begin
        while i + ROWS_AT_ONCE <= end:
            for j in range(ROWS_AT_ONCE):
                some[j] = load(address + j * stride)
            for j in range(ROWS_AT_ONCE):
                one = key_of(some[j], plan)
                if one > best:
                    best, place = one, i + j
            address += ROWS_AT_ONCE * stride
            i += ROWS_AT_ONCE
        while i < end:
            one = key_of(key(load(address)), plan)
            if one > best:
                best, place = one, i
            address += stride
            i += 1
        if found != 0:
            store_pair(found + 16 * (line * parts + part), np.int64(best), place)
        else:
            store(values + to * width, load(x + from_x + place * stride), 0)
            write_index(indices, number(plan, INDEX_SIZE), to, place)

    return Kernel(find_best_by_threads, 5)


@cache
def best_part_kernel(width: int) -> Kernel:
    """Return the kernel that finds the best element of lines by the best ones of their parts, a block for each line."""
    load, store = unit_access(width)

    @kernel
    def find_best_part(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        plan,  # IN   address of the plan
        found,  # IN   address of the best key and its position of each part
    ):
        await_inputs()
        keys = cuda.shared.array(ENDS, np.int64)
        places = cuda.shared.array(ENDS, np.int64)
        line = np.int64(cuda.blockIdx.x)
        parts = number(plan, PARTS)
        part = np.int64(cuda.threadIdx.x)
        high, i = np.int64(LOWEST), np.int64(END)
        while part < parts:
            key, position = load_pair(found + 16 * (line * parts + part))
            if key > high or i == END:  # a thread meets its parts in their order
                high, i = key, position
            part += np.int64(cuda.blockDim.x)
        high, i = best_of_block(keys, places, high, i)
        if cuda.threadIdx.x == 0:
            from_x, to = line_bases(plan, line)
            value = load(x + from_x + i * number(plan, STRIDE))
            store(values + to * width, value[0], value[1])
            write_index(indices, number(plan, INDEX_SIZE), to, i)

    return Kernel(find_best_part, 5, waits=True)


@cache
def strided_delegate_kernel(width: int, is_float: bool, wide: bool) -> Kernel:
    """Return the kernel that finds the delegates of any other lines: a thread for each group.

    `wide`: lines lie beside each other, 16 bytes of them at a multiple of 16; a thread has the groups of these lines.
    """
    access = key_access(width, is_float, FLIP)
    key_at, best_of_four, put_bests = access.key_at, access.best_of_four, access.put_bests
    lowest = np.iinfo(key_type(width)).min
    key, key_bytes = key_type(width), key_type(width)(0).itemsize
    _, store_key = unit_access(key_bytes)
    together = 16 // width if wide else 1

    @helper
    def best_of_group(address, stride, count, plan):
        best = key(lowest)
        while count >= 4:
            second, third = address + stride, address + 2 * stride
            best = max(best, best_of_four(address, second, third, third + stride, plan))
            address += 4 * stride
            count -= 4
        while count > 0:
            best = max(best, key_at(address, plan))
            address += stride
            count -= 1
        return best

    @kernel
    def find_strided_delegates(
        x,  # IN   address of the first element
        delegates,  # OUT  address of (lines, pitch) keys
        plan,  # IN   address of the plan
    ):
        await_inputs()
        bests = cuda.local.array(together, key)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        of_lines = number(plan, LINES) // together
        group = item // of_lines
        line = (item - group * of_lines) * together
        pitch = number(plan, PITCH)
        if group >= pitch:
            return
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        first = group << number(plan, GROUP_BITS)
        count = min(np.int64(1) << number(plan, GROUP_BITS), number(plan, SIZE) - first)
        address = x + source + first * stride
        for j in range(together):
            bests[j] = lowest
        if count > 0:
            if wide:
                put_bests(bests, address, stride, count, plan)
            else:
                bests[0] = best_of_group(address, stride, count, plan)
        at = delegates + key_bytes * (line * pitch + group)
        for j in range(together):
            store_key(at, bests[j], 0)
            at += key_bytes * pitch

    return Kernel(find_strided_delegates, 3)
