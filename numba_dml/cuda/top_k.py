"""The top-k kernels: a block selects from a line, or from a piece of one.

Elements become keys (see `_keys`). A histogram of the keys' upper bits tells which of them can belong to the result;
while these are more than the block's buffer holds, the next bits of those at the border are counted. What is left goes
to the buffer, which is sorted: by key, and among equal keys by position, which is the tie rule. Only if all bits are
counted, and too many elements are equal at the border, the first of these are picked in their order.

A long line is cut into pieces, whose results are selected from in the same way.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper, kernel
from ._keys import key_access
from ._launch import BLOCK, Kernel
from ._memory import load_i64, unit_access
from ._plan import number, quotient
from ._sorting import PAIR_BYTES, add_up_threads

# The numbers of a plan.
(
    SIZE,  # elements of a line
    STRIDE,  # bytes from one to the next
    OUT_STRIDE,  # elements from one output to the next
    K,
    INDEX_SIZE,  # bytes of an output index
    FLIP,  # the rule of the keys
    INFINITY,
    NAN_KEY,
    PIECES,  # per line, a divisor
    DIMS,  # dimensions of the lines
    HEADER,
) = (*range(9), 11, 12)
DIM_FIELDS = 5  # size (a divisor), input stride in bytes, output stride in elements

#: Bits of a digit, and how many digits there are: 8 KiB of counts. In the simulator all is small.
DIGIT = 4 if SIMULATED else 11
DIGITS = 1 << DIGIT
#: Elements that a block can sort: 32 KiB of keys and positions.
BUFFER = 64 if SIMULATED else 2048
#: Words for a sum over the threads of a block, and for three numbers that come out of it.
SUMS = BLOCK + 3
#: The largest k of these kernels.
MOST_K = BUFFER // 2
#: What fills the buffer up: it comes last.
LOWEST = -(1 << 63)
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


@helper
def comes_first(key, position, other_key, other_position):
    """Tell whether an element comes before another one in a result."""
    return key > other_key or (key == other_key and position < other_position)


@helper
def sort_buffer(keys, positions, count):
    """Sort a buffer that the threads of a block share, best first (bitonic); `count` is a power of two."""
    thread = cuda.threadIdx.x
    span = 2
    while span <= count:
        step = span >> 1
        while step > 0:
            for pair in range(thread, count >> 1, BLOCK):
                i = ((pair & ~(step - 1)) << 1) | (pair & (step - 1))
                j = i | step
                first = comes_first(keys[i], positions[i], keys[j], positions[j])
                if first != ((i & span) == 0):
                    keys[i], keys[j] = keys[j], keys[i]
                    positions[i], positions[j] = positions[j], positions[i]
            cuda.syncthreads()
            step >>= 1
        span <<= 1


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
def select_kernel(width: int, is_float: bool, merging: bool) -> Kernel:
    """Return the kernel that selects from elements of `width` bytes; `merging`: from what pieces have selected."""
    load_bits, key_of = key_access(width, is_float)
    load, store = unit_access(width)
    key_bits = 8 * width

    @helper
    def key_at(source, stride, plan, i):
        if merging:
            return load_i64(source + PAIR_BYTES * i)
        key = load_bits(source + i * stride)
        return key_of(key, number(plan, FLIP), number(plan, INFINITY), number(plan, NAN_KEY))

    @helper
    def position_at(source, i):
        return load_i64(source + PAIR_BYTES * i + 8) if merging else i

    @helper
    def border(counts, sums, wanted):
        """Find the digit where the best `wanted` elements end; return it, and how many are above it and in it."""
        thread = cuda.threadIdx.x
        share = DIGITS // BLOCK
        total = np.int32(0)
        for i in range(share):
            total += counts[DIGITS - 1 - (thread * share + i)]
        until = add_up_threads(sums, total)
        above = until - total
        if above < wanted <= until:
            for i in range(share):
                digit = DIGITS - 1 - (thread * share + i)
                if above < wanted <= above + counts[digit]:
                    sums[BLOCK] = digit
                    sums[BLOCK + 1] = above
                    sums[BLOCK + 2] = counts[digit]
                above += counts[digit]
        cuda.syncthreads()
        return np.int64(sums[BLOCK]), np.int64(sums[BLOCK + 1]), np.int64(sums[BLOCK + 2])

    @helper
    def pick(source, stride, plan, size, wanted, counts, sums, keys, positions):
        """Put the best `wanted` elements into the buffer, with others perhaps; return how many are there."""
        thread = cuda.threadIdx.x
        fixed = 0  # upper bits of the border that are known
        prefix = np.int64(0)
        above = np.int64(0)  # elements beyond the border's known bits
        inside = size
        while fixed < key_bits and above + inside > BUFFER:
            digit_bits = min(DIGIT, key_bits - fixed)
            rest = key_bits - fixed - digit_bits
            for i in range(thread, DIGITS, BLOCK):
                counts[i] = 0
            cuda.syncthreads()
            for i in range(thread, size, BLOCK):
                upper = key_at(source, stride, plan, i) >> rest
                if fixed == 0 or upper >> digit_bits == prefix:
                    digit = upper - (prefix << digit_bits) if fixed > 0 else upper + (1 << (digit_bits - 1))
                    cuda.atomic.add(counts, digit, 1)
            cuda.syncthreads()
            digit, higher, inside = border(counts, sums, wanted - above)
            prefix = (prefix << digit_bits) + digit if fixed > 0 else digit - (1 << (digit_bits - 1))
            above += higher
            fixed += digit_bits
        bound = prefix << (key_bits - fixed) if fixed > 0 else np.int64(LOWEST)
        ties = above + inside > BUFFER  # all bits are known: the border is one key, which too many elements have
        if thread == 0:
            sums[0] = 0
        cuda.syncthreads()
        for i in range(thread, size, BLOCK):
            key = key_at(source, stride, plan, i)
            if key > bound or (key == bound and not ties):
                at = cuda.atomic.add(sums, 0, 1)
                keys[at] = key
                positions[at] = position_at(source, i)
        cuda.syncthreads()
        count = np.int64(sums[0])
        cuda.syncthreads()
        if ties:
            start = np.int64(0)
            while count < wanted:  # block by block, in their order
                i = start + thread
                tie = i < size and key_at(source, stride, plan, min(i, size - 1)) == bound
                at = count + add_up_threads(sums, 1 if tie else 0) - 1
                if tie and at < wanted:
                    keys[at] = bound
                    positions[at] = position_at(source, i)
                count = min(wanted, count + sums[BLOCK - 1])
                start += BLOCK
                cuda.syncthreads()
        return count

    @kernel
    def select_lines(
        x,  # IN   address of the first element, or of what pieces have selected
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        elements,  # IN   address of the first element
        pieces,  # OUT  address of the (lines, pieces, k) keys and positions that pieces select, 0: write the result
        plan,  # IN   address of the plan
    ):
        counts = cuda.shared.array(DIGITS, np.int32)
        sums = cuda.shared.array(SUMS, np.int32)
        keys = cuda.shared.array(BUFFER, np.int64)
        positions = cuda.shared.array(BUFFER, np.int64)
        thread = cuda.threadIdx.x
        k = number(plan, K)
        size = number(plan, SIZE)
        stride = number(plan, STRIDE)
        count = number(plan, PIECES)
        line = np.int64(cuda.blockIdx.x)
        piece = np.int64(0)
        if pieces != 0:
            line = quotient(line, plan, PIECES)
            piece = np.int64(cuda.blockIdx.x) - line * count
        from_x, to = line_bases(plan, line)
        first = np.int64(0)
        source = x + from_x
        if merging:
            size = count * k
            source = x + PAIR_BYTES * line * size
        elif pieces != 0:
            first = size * piece // count
            size = size * (piece + 1) // count - first
            source += first * stride
        found = pick(source, stride, plan, size, min(k, size), counts, sums, keys, positions)
        room = 1
        while room < found:
            room <<= 1
        for i in range(found + thread, room, BLOCK):
            keys[i] = LOWEST
            positions[i] = END
        cuda.syncthreads()
        sort_buffer(keys, positions, room)
        if pieces != 0:
            at = pieces + PAIR_BYTES * (line * count + piece) * k
            for j in range(thread, k, BLOCK):
                store_word(at + PAIR_BYTES * j, keys[j], 0)
                store_word(at + PAIR_BYTES * j + 8, first + positions[j], 0)
        else:
            step = number(plan, OUT_STRIDE)
            index_size = number(plan, INDEX_SIZE)
            for j in range(thread, k, BLOCK):
                position = positions[j]
                value = load(elements + from_x + position * stride)
                store(values + (to + j * step) * width, value[0], value[1])
                write_index(indices, index_size, to + j * step, position)

    return Kernel(select_lines, 6, waits=True)


@cache
def pair_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that makes pairs of keys and positions, for a sort of whole lines."""
    load_bits, key_of = key_access(width, is_float)

    @kernel
    def make_pairs(
        x,  # IN   address of the first element
        plan,  # IN   address of the plan
        pairs,  # OUT  address of (lines, size) pairs
        blocks,  # IN   blocks per line
    ):
        line = np.int64(cuda.blockIdx.x) // blocks
        i = (np.int64(cuda.blockIdx.x) - line * blocks) * BLOCK + np.int64(cuda.threadIdx.x)
        size = number(plan, SIZE)
        if i < size:
            source, _ = line_bases(plan, line)
            key = load_bits(x + source + i * number(plan, STRIDE))
            at = pairs + PAIR_BYTES * (line * size + i)
            store_word(at, key_of(key, number(plan, FLIP), number(plan, INFINITY), number(plan, NAN_KEY)), 0)
            store_word(at + 8, i, 0)

    return Kernel(make_pairs, 4)


@cache
def first_kernel(width: int) -> Kernel:
    """Return the kernel that writes the first k of sorted pairs."""
    load, store = unit_access(width)

    @kernel
    def write_first(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        pairs,  # IN   address of (lines, size) pairs, best first
        plan,  # IN   address of the plan
        blocks,  # IN   blocks per line
    ):
        line = np.int64(cuda.blockIdx.x) // blocks
        j = (np.int64(cuda.blockIdx.x) - line * blocks) * BLOCK + np.int64(cuda.threadIdx.x)
        if j < number(plan, K):
            source, to = line_bases(plan, line)
            position = load_i64(pairs + PAIR_BYTES * (line * number(plan, SIZE) + j) + 8)
            value = load(x + source + position * number(plan, STRIDE))
            at = to + j * number(plan, OUT_STRIDE)
            store(values + at * width, value[0], value[1])
            write_index(indices, number(plan, INDEX_SIZE), at, position)

    return Kernel(write_first, 6)
