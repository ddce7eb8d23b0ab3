"""The network that selects from several short lines, or columns, at once.

A block of elements becomes keys (see `keys`), which are sorted column by column of vectors, one lane for each line,
and merged into a list of the best of each line. It does the same steps whatever the data are. As in `keys`, its steps
are in portable vector IR, each with a plain twin.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numba import types

from ...._jit.compile import chosen, helper
from ...._jit.emission import as_dtype, intrinsic, ir
from ...._jit.machine import HAS_WIDE_VECTORS
from ...._jit.memory import emit_byte_pointer, empty, load, splat
from ..keys import emit_levels, emit_rows, key_of, load_vector, lowest_of, read_keys, rule_values, splat_constant

#: How many lines go through the network together: 512 bits of keys, or two vectors of 256.
NETWORK_LINES = 8
#: Low bits of a key that hold the element's position, and how many elements a line has at most, therefore.
PLACE_BITS = 16
MOST_PLACES = 1 << PLACE_BITS
#: How long their lists are, if not longer: then some times as many as go in together.
_DEPTHS = (1, 2, 4, 8, 16)


def _network_key(width):
    """Return the type of a key in the network, and how many of its low bits are the element's position.

    With positions, what is sorted is the result: the first of equal elements has the highest key. Eight bytes have
    no room for them. Four get a float64, whose 53 bits hold both, where there is no instruction for the maximum of two
    int64.
    """
    both = types.int64 if HAS_WIDE_VECTORS else types.float64
    return {8: types.int32, 16: types.int32, 32: both}[width], PLACE_BITS


@helper
def list_depth(k, together):
    """Return how many keys, at least k, a list of the network has: a power of two, or some times `together`."""
    depth = 1
    while depth < min(k, _DEPTHS[-1]):
        depth *= 2
    return depth if depth >= k else -(-k // together) * together


def network_lists(ref, keys):
    """Return room for the keys of the lines that go through the network together (inside kernels only)."""
    raise NotImplementedError


@chosen(network_lists, allocates=True)
def _network_lists(ref, keys):
    width = ref.dtype.bitwidth
    kind = np.int64 if width == 64 else as_dtype(_network_key(width)[0]).type
    return lambda ref, keys: empty((keys, NETWORK_LINES), kind)


def _emit_sorted(builder, columns, exchange):
    """Emit the odd-even merge sort of vectors, lane by lane, best first; they are a power of two."""
    columns = list(columns)

    def merge(first, step, count):
        if 2 * step < count:
            merge(first, 2 * step, count)
            merge(first + step, 2 * step, count)
            for i in range(first + step, first + count - step, 2 * step):
                columns[i], columns[i + step] = exchange(columns[i], columns[i + step])
        else:
            columns[first], columns[first + step] = exchange(columns[first], columns[first + step])

    def sort(first, count):
        if count > 1:
            sort(first, count // 2)
            sort(first + count // 2, count // 2)
            merge(first, 1, count)

    sort(0, len(columns))
    return columns


def _emit_ordered(builder, vectors, exchange):
    """Emit the merge of vectors that rise and fall at most once, lane by lane, best first; they are a power of two."""
    vectors = list(vectors)
    step = len(vectors) // 2
    while step:
        for i in range(len(vectors)):
            if i & step == 0:
                vectors[i], vectors[i + step] = exchange(vectors[i], vectors[i + step])
        step //= 2
    return vectors


def _emit_best_of_both(builder, one, other, exchange, left_out):
    """Emit the best of two lists of vectors, as many as the first has; both are in order, best first."""
    one = list(one)
    for i, vector in enumerate(other[: len(one)]):
        one[-1 - i], less = exchange(one[-1 - i], vector)
        left_out.append(less)
    return _emit_ordered(builder, one, exchange)


def _emit_transposed(builder, rows):
    """Emit the columns of a square of vectors, by as many steps as their number has bits.

    The first steps mix lanes within 16 bytes, the others move 16 bytes, so that each shuffle is an instruction.
    """
    count = len(rows)
    near = min(16 * 8 // rows[0].type.element.width, count)  # lanes that share 16 bytes
    number = ir.VectorType(ir.IntType(32), count)

    def two_shuffles(first, more):
        mixes = [ir.Constant(number, [lane + other for lane in first]) for other in (0, more)]
        return lambda one, two: [builder.shuffle_vector(one, two, mix) for mix in mixes]

    lower = [lane for lane in range(count) if lane % near < near // 2]
    mix = two_shuffles([lane for pair in lower for lane in (pair, count + pair)], near // 2)
    move = two_shuffles([lane for lane in range(2 * count) if lane // near % 2 == 0], near)

    def mixed(group):
        pairs = zip(group[: near // 2], group[near // 2 :], strict=True)
        return [vector for pair in pairs for vector in mix(*pair)]

    def moved(vectors):
        if len(vectors) == 1:
            return vectors
        even, odd = zip(*(move(*pair) for pair in zip(vectors[::2], vectors[1::2], strict=True)), strict=True)
        return [vector for pair in zip(moved(even), moved(odd), strict=True) for vector in pair]

    groups = [rows[first : first + near] for first in range(0, count, near)]
    for _ in range(near.bit_length() - 1):
        groups = list(map(mixed, groups))
    return [vector for of_place in zip(*map(moved, zip(*groups, strict=True)), strict=True) for vector in of_place]


def _emit_placed(builder, columns, at, vector, place_bits):
    """Emit keys with positions, see `_network_key`, of neighbouring columns from position `at` on."""
    is_float = not isinstance(vector.element, ir.IntType)
    last = builder.sub(at.type((1 << place_bits) - 1), at)
    if is_float:
        wider, times, plus, minus = builder.sitofp, builder.fmul, builder.fadd, builder.fsub
        last = builder.sitofp(last, vector.element)
    else:
        wider, times, plus, minus = builder.sext, builder.mul, builder.add, builder.sub
        last = builder.trunc(last, vector.element)
    last, unit = splat(builder, last, vector.count), splat_constant(vector, 1 << place_bits)
    return [
        plus(times(wider(keys, vector), unit), minus(last, splat_constant(vector, i))) for i, keys in enumerate(columns)
    ]


def _emit_without_first(builder, columns, skip):
    """Emit columns of which the first ones have the lowest key; `skip`, how many, is seldom above 0."""
    vector = columns[0].type
    # As `lowest_key` of a list, which fits a float64 too.
    width = 64 if isinstance(vector.element, ir.DoubleType) else vector.element.width
    lowest = splat_constant(vector, lowest_of(width))
    whole, cut, ready = builder.block, *(builder.append_basic_block(name) for name in ("cut", "ready"))
    builder.cbranch(builder.icmp_signed(">", skip, skip.type(0)), cut, ready)
    builder.position_at_end(cut)
    rest = [
        builder.select(builder.icmp_signed("<", skip.type(i), skip), lowest, keys) for i, keys in enumerate(columns)
    ]
    builder.branch(ready)
    builder.position_at_end(ready)
    return _emit_choice(builder, [(columns, whole), (rest, cut)])


def _emit_choice(builder, ways):
    """Emit what values are, of which there are as many for each of the blocks that lead here."""
    chosen_values = [builder.phi(value.type) for value in ways[0][0]]
    for values, block in ways:
        for phi, value in zip(chosen_values, values, strict=True):
            phi.add_incoming(value, block)
    return chosen_values


def _emit_insertion_of_columns(builder, columns, first, depth, tells=False):
    """Emit what puts columns into the lists of their lanes, of the vectors from the pointer `first` on.

    If it `tells`, the vector after these becomes the best of what is in no list.
    """
    vector, lines, word = columns[0].type, len(columns), depth.type
    compare = builder.icmp_signed if isinstance(vector.element, ir.IntType) else builder.fcmp_ordered

    def exchange(a, b):
        better = compare(">", b, a)
        return builder.select(better, b, a), builder.select(better, a, b)

    def places_of(begin, count):
        places = [builder.gep(begin, [word(i)]) for i in range(count)]
        return places, [load_vector(builder, place, vector) for place in places]

    def store(vectors, places):
        for keys, place in zip(vectors, places, strict=True):
            builder.store(keys, place).align = 1

    def pass_on(part, *carried):
        places, listed = places_of(builder.gep(first, [builder.mul(part, word(lines))]), lines)
        both = [exchange(old, new) for old, new in zip(listed, carried[::-1], strict=True)]
        better, others = zip(*both, strict=True)
        store(_emit_ordered(builder, better, exchange), places)
        return _emit_ordered(builder, others, exchange)

    def tell(left_out):
        if tells:
            place = builder.gep(first, [depth])
            best = reduce(lambda a, b: exchange(a, b)[0], left_out, load_vector(builder, place, vector))
            builder.store(best, place).align = 1

    done, longer = builder.append_basic_block("done"), builder.append_basic_block("longer")
    cases = builder.switch(depth, longer)
    for count in _DEPTHS:
        block = builder.append_basic_block(f"list_of_{count}")
        cases.add_case(word(count), block)
        builder.position_at_end(block)
        places, listed = places_of(first, count)
        size = min(count, lines)
        groups = [_emit_sorted(builder, columns[i : i + size], exchange) for i in range(0, lines, size)]
        left_out = []
        while len(groups) > 1:
            pairs = zip(groups[::2], groups[1::2], strict=True)
            groups = [_emit_best_of_both(builder, one, other, exchange, left_out) for one, other in pairs]
        store(_emit_best_of_both(builder, listed, groups[0], exchange, left_out), places)
        tell(left_out)
        builder.branch(done)
    builder.position_at_end(longer)
    parts = builder.sdiv(depth, word(lines))
    best, *_ = emit_levels(builder, parts, _emit_sorted(builder, columns, exchange), pass_on)
    tell([best])
    builder.branch(done)
    builder.position_at_end(done)


def _emit_block(builder, ref, offset, step, at, width, shape, across, rule):
    """Emit the keys of a block, its lines and elements, column by column; see `insert_block`."""
    lines, count = shape
    bits = ir.VectorType(ir.IntType(width), lines)
    start = builder.add(offset, builder.mul(at, step if across else at.type(width // 8)))
    pointer = emit_byte_pointer(builder, ref, start)
    read = read_keys(builder, rule, bits.count)
    if across:
        return [keys for (keys,) in emit_rows(builder, pointer, count, step, bits, 1, read)]
    rows = emit_rows(builder, pointer, lines, step, bits, count // lines, read)
    return [keys for square in zip(*rows, strict=True) for keys in _emit_transposed(builder, list(square))]


def _lists_of(context, builder, array_type, array, vector):
    """Emit the pointer to the first vector of lists."""
    return builder.bitcast(context.make_array(array_type)(context, builder, array).data, vector.as_pointer())


def _block_inserter(across):
    @intrinsic
    def insert_block(typingctx, ref, offset, step, at, skip, best, first, depth, rule):
        """``insert_block(ref, offset, step, at, skip, best, first, depth, rule)``: put a square block into lists.

        It has eight elements of eight lines, from element `at` of each on. For `insert_lines` the elements of a line
        are contiguous, and the lines `step` bytes apart; for `insert_columns` it is the other way round. The first line
        starts at `offset`. The first `skip` elements per line are left out. The lists are ``best[first : first +
        depth]``, the best keys of each line so far (see `list_depth`).

        Lines are transposed in registers; then the columns are sorted, in groups as long as the list, and the best of
        both are merged: for a list of 8, 35 comparisons of 8 columns, where putting one after the other down the list
        takes 64. A list of more than 16 takes what is better by parts of 8, and hands on what was there.
        """
        width = ref.dtype.bitwidth
        key_type, place_bits = _network_key(width)

        def codegen(context, builder, signature, args):
            ref, offset, step, at, skip, best, first, depth, rule = args
            values = rule_values(builder, signature.args[8], rule)
            shape = NETWORK_LINES, NETWORK_LINES
            columns = _emit_block(builder, ref, offset, step, at, width, shape, across, values)
            vector = ir.VectorType(context.get_data_type(key_type), NETWORK_LINES)
            columns = _emit_placed(builder, columns, at, vector, place_bits)
            columns = _emit_without_first(builder, columns, skip)
            lists = _lists_of(context, builder, signature.args[5], best, vector)
            _emit_insertion_of_columns(builder, columns, builder.gep(lists, [first]), depth)
            return context.get_dummy_value()

        numbers = [types.int64] * 4
        return types.void(ref, *numbers, best, types.int64, types.int64, rule), codegen

    return insert_block


insert_lines, insert_columns = _block_inserter(False), _block_inserter(True)


@helper
def insert_block_plain(ref, offset, line_step, step, at, skip, best, first, depth, rule):
    """Do what `insert_lines` and `insert_columns` do, in plain Numba; elements are `step` bytes apart."""
    for line in range(NETWORK_LINES):
        for i in range(at + skip, at + NETWORK_LINES):
            key = listed_key(best, key_of(load(ref, offset + line * line_step + i * step), rule), i)
            for j in range(first, first + depth):
                if key > best[j, line]:
                    key, best[j, line] = best[j, line], key


def listed_key(best, key, place):
    """Return a key of the network: that of an element, and its position (inside kernels only)."""
    raise NotImplementedError


@chosen(listed_key)
def _listed_key(best, key, place):
    kind = as_dtype(best.dtype).type
    _, place_bits = _network_key(key.bitwidth)
    return lambda best, key, place: kind((np.int64(key) << place_bits) + (1 << place_bits) - 1 - place)


def listed_place(ref, key):
    """Return the position of the element that a key of the network stands for (inside kernels only)."""
    raise NotImplementedError


@chosen(listed_place)
def _listed_place(ref, key):
    _, place_bits = _network_key(ref.dtype.bitwidth)
    last = (1 << place_bits) - 1
    return lambda ref, key: last - (np.int64(key) & last)
