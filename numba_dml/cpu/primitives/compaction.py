"""Finding the elements that are not zero: a bit for each element, in row-major order, and the coordinates of the bits.

The bits make the second step the same for all layouts and types of elements, and need not be made again once the
results, whose size they tell, have their memory. Scratch memory holds, in this order, a count for each chunk and one
for all, the bits, and a list of positions for each task.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..._core.shapes import COORD_FIELDS
from ..._jit.compile import chosen, helper
from ..._jit.emission import intrinsic, ir
from ..._jit.memory import emit_load, emit_store, itemsize, load, seen_as, splat, store
from .keys import bit_count, lowest_bit

#: Elements of a word of bits.
WORD = 64
#: Elements whose positions are listed together: they take 16 bits, and the list stays in the L1.
BLOCK = 1 << 12
#: Elements that are counted together. Threads share chunks.
CHUNK = 1 << 16
#: Bytes of a list: eight positions are written at once.
LIST_BYTES = 2 * (BLOCK + 8)
# The header of a plan. The dimensions of the input as they lie in memory follow, a size and a stride in bytes each, and
# then the sizes of the axes whose coordinates are written.
(
    SIZE,  # elements of the input
    MASK,  # the bits of an element that say it is not zero
    DIMS,  # dimensions in memory
    COLUMNS,  # coordinates of a row
    CAPACITY,  # rows that there is room for
    LISTS,  # lists that there is room for in scratch memory
    HEADER,
) = range(7)

_BITS_OF_WORD = ir.IntType(WORD)


def positions_of_bits() -> np.ndarray:
    """Return, for each byte, the numbers of its bits that are 1, the lowest first, in a row of eight."""
    rows = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]
    return np.array([row + [0] * (8 - len(row)) for row in rows], np.uint16)


@intrinsic
def flags_of_word(typingctx, x, offset, mask):
    """``flags_of_word(x, offset, mask)``: a bit for each of 64 neighbouring elements; of 16 bytes, either half."""
    width = x.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        x, offset, mask = args
        kind = ir.IntType(8 * min(width, 8))
        lanes = max(64 // width, 8)
        mask = builder.trunc(mask, kind) if width < 8 else mask
        word = ir.Constant(_BITS_OF_WORD, 0)
        for start in range(0, WORD, lanes):
            at = builder.add(offset, ir.Constant(_BITS_OF_WORD, start * width))
            count = lanes * max(width // 8, 1)
            bits = emit_load(builder, x, at, ir.VectorType(kind, count))
            bits = builder.and_(bits, splat(builder, mask, count))
            if width == 16:
                halves = [
                    ir.Constant(ir.VectorType(ir.IntType(32), lanes), [2 * i + half for i in range(lanes)])
                    for half in (0, 1)
                ]
                bits = builder.or_(*[builder.shuffle_vector(bits, bits, half) for half in halves])
            flags = builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, None))
            part = builder.bitcast(flags, ir.IntType(lanes))
            part = builder.zext(part, _BITS_OF_WORD) if lanes < WORD else part
            word = builder.or_(word, builder.shl(part, ir.Constant(_BITS_OF_WORD, start)))
        return word

    return types.uint64(x, types.int64, types.uint64), codegen


@intrinsic
def list_bits(typingctx, positions, to, table, byte, base):
    """``list_bits(list, offset, table, byte, base)``: write the positions of a byte's bits, and some more: always 8."""
    vector = ir.VectorType(ir.IntType(16), 8)

    def codegen(context, builder, signature, args):
        positions, to, table, byte, base = args
        row = builder.shl(builder.zext(byte, _BITS_OF_WORD), ir.Constant(_BITS_OF_WORD, 4))
        found = emit_load(builder, table, row, vector)
        found = builder.add(found, splat(builder, builder.trunc(base, ir.IntType(16)), 8))
        emit_store(builder, found, positions, to)
        return context.get_dummy_value()

    return types.void(positions, types.int64, table, types.uint8, types.int64), codegen


@chosen
def flag(x, offset, mask):
    """Tell whether an element is not zero (inside kernels only)."""
    if x.dtype.bitwidth == 128:
        pair = np.uint64
        return lambda x, offset, mask: np.uint64(
            ((load(seen_as(x, pair), offset) | load(seen_as(x, pair), offset + 8)) & mask) != 0
        )
    return lambda x, offset, mask: np.uint64((np.uint64(load(x, offset)) & mask) != 0)


@helper
def line_base(plan, line):
    """Return where a line, the elements along the last dimension in memory, starts."""
    at = np.int64(0)
    for d in range(plan[DIMS] - 2, -1, -1):
        size, stride = plan[HEADER + COORD_FIELDS * d], plan[HEADER + COORD_FIELDS * d + 1]
        rest = line // size
        at += (line - rest * size) * stride
        line = rest
    return at


@helper
def mark_chunk(x, bits, plan, chunk, to):
    """Write the bits of a chunk, from a byte of `bits` on, and return how many are 1."""
    last = HEADER + COORD_FIELDS * (plan[DIMS] - 1)
    length, step, mask = plan[last], plan[last + 1], np.uint64(plan[MASK])
    packed = step == itemsize(x)
    start = chunk * CHUNK
    end = min(start + CHUNK, plan[SIZE])
    line = start // length
    left = length - (start - line * length)
    at = line_base(plan, line) + (length - left) * step
    total = np.int64(0)
    for p in range(start, end, WORD):
        word = np.uint64(0)
        count = min(WORD, end - p)
        if count == WORD and left >= WORD and packed:
            word = flags_of_word(x, at, mask)
            at += WORD * step
            left -= WORD
        else:
            for i in range(count):
                if left == 0:
                    line += 1
                    at, left = line_base(plan, line), length
                word |= flag(x, at, mask) << np.uint64(i)
                at += step
                left -= 1
        store(seen_as(bits, np.uint64), to + (p >> 3), word)
        total += bit_count(word)
    return total


@helper
def list_block(bits, at, count, table, positions, to):
    """List the positions of the bits of a block, which starts at a byte; return how many there are."""
    found = np.int64(0)
    for i in range(0, count, WORD):
        word = load(seen_as(bits, np.uint64), at + (i >> 3))
        if word != 0:
            for byte in range(8):
                part = np.uint8(word >> np.uint64(8 * byte))
                list_bits(positions, to + 2 * found, table, part, i + 8 * byte)
                found += bit_count(np.uint64(part))
    return found


@helper
def list_few(bits, at, count, positions, to):
    """Do what `list_block` does, faster if most words have at most two bits."""
    kind = seen_as(positions, np.uint16)
    found = np.int64(0)
    for i in range(0, count, WORD):
        word = load(seen_as(bits, np.uint64), at + (i >> 3))
        for _ in range(2):  # without a branch: what is written for no bit, any number, is overwritten
            store(kind, to + 2 * found, np.uint16(i + lowest_bit(word)))
            found += word != 0
            word &= word - np.uint64(1)
        while word != 0:
            store(kind, to + 2 * found, np.uint16(i + lowest_bit(word)))
            found += 1
            word &= word - np.uint64(1)
    return found


@helper
def position_of(positions, at, i):
    """Return a number of a list."""
    return np.int64(load(seen_as(positions, np.uint16), at + 2 * i))


@helper
def factor_of(size):
    """Return what `passed` needs of a size."""
    return np.int64(0) if size > BLOCK else ((1 << 32) + size - 1) // size


@helper
def passed(here, size, factor):
    """Return how often an axis has been gone along at a position in the line where a block starts."""
    if size > BLOCK:
        return np.int64(here >= size)  # once at most
    return (here * factor) >> 32  # exact, since `here` is below 2 * BLOCK


@helper
def write_column(y, to, row_bytes, positions, at, count, first, size):
    """Write a coordinate of `count` rows, and replace each position by that along the axis before.

    `first` is the coordinate at position 0 of the block.
    """
    factor = factor_of(size)
    for i in range(count):
        here = first + position_of(positions, at, i)
        over = passed(here, size, factor)
        write_index(y, to + i * row_bytes, here - over * size)
        store(seen_as(positions, np.uint16), at + 2 * i, np.uint16(over))


@helper
def write_pairs(y, to, positions, at, count, outer, first, size):
    """Write rows of two coordinates, which are `outer` and `first` at position 0 of the block."""
    width, factor = itemsize(y), factor_of(size)
    for i in range(count):
        here = first + position_of(positions, at, i)
        over = passed(here, size, factor)
        write_index(y, to + 2 * i * width, outer + over)
        write_index(y, to + (2 * i + 1) * width, here - over * size)


@chosen
def write_index(y, offset, value):
    """Write a coordinate (inside kernels only)."""
    kind = y.dtype
    return lambda y, offset, value: store(y, offset, kind(value))


@helper
def write_first(y, to, row_bytes, positions, at, count, first):
    """Write the first coordinate of `count` rows."""
    for i in range(count):
        write_index(y, to + i * row_bytes, first + position_of(positions, at, i))


@helper
def write_block(y, plan, row, positions, at, count, block):
    """Write `count` rows from a row on: the coordinates of listed positions behind the start of a block."""
    columns, width = plan[COLUMNS], itemsize(y)
    sizes = HEADER + COORD_FIELDS * plan[DIMS]
    row_bytes = columns * width
    to = row * row_bytes
    rest = block * BLOCK
    if columns == 1:  # with distances that are known, these two are vectorised
        write_first(y, to, width, positions, at, count, rest)
        return
    if columns == 2:
        over = rest // plan[sizes + 1]
        write_pairs(y, to, positions, at, count, over, rest - over * plan[sizes + 1], plan[sizes + 1])
        return
    for d in range(columns - 1, 0, -1):
        size = plan[sizes + d]
        over = rest // size
        write_column(y, to + d * width, row_bytes, positions, at, count, rest - over * size, size)
        rest = over
    write_first(y, to, row_bytes, positions, at, count, rest)
