"""The network that selects from eight short lines, or columns, at once.

A block of elements becomes keys (see `keys`), which are sorted column by column of vectors, one lane for each line,
and merged into a list of the best of each line. It does the same steps whatever the data are. A key carries the
element's position, so that what is sorted is the result: the first of equal elements has the highest key. Elements of
eight bytes have no room for it: they have a pair of vectors, compared by their keys first.

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import types

from ...._jit.compile import chosen, helper
from ...._jit.copies import prefetch_to_l2
from ...._jit.emission import as_dtype, intrinsic, ir
from ...._jit.machine import CACHE_LINE, HAS_WIDE_VECTORS
from ...._jit.memory import emit_byte_pointer, empty, itemsize, splat
from ..keys import emit_levels, emit_rows, key_maker, load_vector, lowest_key, lowest_of, splat_constant

#: How many lines go through the network together, and how many elements of each.
NETWORK_LINES = 8
#: Low bits of a key that hold the element's position, and how many elements a line has at most, therefore.
PLACE_BITS = 16
MOST_PLACES = 1 << PLACE_BITS
#: How long lists are, if not longer: then some times as many as lines go in together.
_DEPTHS = (1, 2, 4, 8, 16)
#: Lines are prefetched AHEAD bytes ahead: the next groups of them, MOST_AHEAD at most.
AHEAD, MOST_AHEAD = 1 << 13, 4


def _key_type(width):
    """Return the type of a key in the network.

    Of four bytes it is a float64, whose 53 bits hold key and position, where there is no instruction for the maximum
    of two int64.
    """
    both = types.int64 if HAS_WIDE_VECTORS else types.float64
    return {8: types.int32, 16: types.int32, 32: both, 64: types.int64}[width]


def _parts(width):
    """Return how many vectors a place of the lists has: eight bytes have one for keys and one for positions."""
    return 2 if width == 64 else 1


@helper
def list_depth(k):
    """Return how many keys, at least k, a list of the network has: a power of two, or some times as many as lines."""
    depth = 1
    while depth < min(k, _DEPTHS[-1]):
        depth *= 2
    return depth if depth >= k else -(-k // NETWORK_LINES) * NETWORK_LINES


@partial(chosen, allocates=True)
def network_lists(ref, places):
    """Return room for a number of places in the lists of lines that go through the network (inside kernels only)."""
    kind, parts = as_dtype(_key_type(ref.dtype.bitwidth)).type, _parts(ref.dtype.bitwidth)
    return lambda ref, places: empty((parts * places, NETWORK_LINES), kind)


@chosen
def listed_place(ref, best, place, line):
    """Return the position of the element that a list of the network has in a place (inside kernels only)."""
    if ref.dtype.bitwidth == 64:
        return lambda ref, best, place, line: ~best[2 * place + 1, line]
    last = MOST_PLACES - 1
    return lambda ref, best, place, line: last - (np.int64(best[place, line]) & last)


def _exchanger(builder, is_float):
    """Return what emits the better and the other of two keys, lane by lane, each a tuple of vectors."""

    def exchange(one, other):
        better = builder.fcmp_ordered(">", other[-1], one[-1]) if is_float else None
        for a, b in zip(reversed(one), reversed(other), strict=True):
            if better is None:
                better = builder.icmp_signed(">", b, a)
            elif not is_float:
                tied = builder.and_(builder.icmp_signed("==", b, a), better)
                better = builder.or_(builder.icmp_signed(">", b, a), tied)
        pairs = list(zip(one, other, strict=True))
        return (
            tuple(builder.select(better, b, a) for a, b in pairs),
            tuple(builder.select(better, a, b) for a, b in pairs),
        )

    return exchange


def _sorted(columns, exchange):
    """Emit the odd-even merge sort of keys, lane by lane, best first; they are a power of two."""
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


def _ordered(columns, exchange):
    """Emit the merge of keys that rise and fall at most once, lane by lane, best first; they are a power of two."""
    columns = list(columns)
    step = len(columns) // 2
    while step:
        for i in range(len(columns)):
            if i & step == 0:
                columns[i], columns[i + step] = exchange(columns[i], columns[i + step])
        step //= 2
    return columns


def _best_of_both(one, other, exchange):
    """Emit the best of two lists of keys, as many as the first has; both are in order, best first."""
    one = list(one)
    for i, key in enumerate(other[: len(one)]):
        one[-1 - i], _ = exchange(one[-1 - i], key)
    return _ordered(one, exchange)


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


def _emit_block(builder, ref, offset, line_step, step, width):
    """Emit the elements of a block, column by column; see `insert_block`."""
    bits = ir.VectorType(ir.IntType(width), NETWORK_LINES)
    pointer = emit_byte_pointer(builder, ref, offset)

    def rows(apart):
        return [row for (row,) in emit_rows(builder, pointer, NETWORK_LINES, apart, bits, 1, lambda vector: vector)]

    across, along, ready = (builder.append_basic_block(name) for name in ("across", "along", "ready"))
    builder.cbranch(builder.icmp_signed("==", step, step.type(width // 8)), along, across)
    ways = []
    for block, of_block in ((across, lambda: rows(step)), (along, lambda: _emit_transposed(builder, rows(line_step)))):
        builder.position_at_end(block)
        ways.append((of_block(), block))
        builder.branch(ready)
    builder.position_at_end(ready)
    return _emit_choice(builder, ways)


def _emit_placed(builder, columns, at, vector):
    """Emit keys of the network for the keys of neighbouring columns from position `at` on."""
    if _parts(columns[0].type.element.width) == 2:
        places = splat(builder, builder.sub(at.type(-1), at), vector.count)  # the complements: the first is the best
        return [(keys, builder.sub(places, splat_constant(vector, i))) for i, keys in enumerate(columns)]
    last = builder.sub(at.type(MOST_PLACES - 1), at)
    if isinstance(vector.element, ir.IntType):
        wider, times, plus, minus = builder.sext, builder.mul, builder.add, builder.sub
        last = builder.trunc(last, vector.element)
    else:
        wider, times, plus, minus = builder.sitofp, builder.fmul, builder.fadd, builder.fsub
        last = builder.sitofp(last, vector.element)
    last, unit = splat(builder, last, vector.count), splat_constant(vector, MOST_PLACES)
    return [
        (plus(times(wider(keys, vector), unit), minus(last, splat_constant(vector, i))),)
        for i, keys in enumerate(columns)
    ]


def _emit_without_first(builder, columns, skip):
    """Emit columns of which the first ones have the lowest key; `skip`, how many, is seldom above 0."""
    vector = columns[0][0].type
    # As `lowest_key` of a list, which fits a float64 too.
    width = 64 if isinstance(vector.element, ir.DoubleType) else vector.element.width
    lowest = splat_constant(vector, lowest_of(width))
    whole, cut, ready = builder.block, *(builder.append_basic_block(name) for name in ("cut", "whole"))
    builder.cbranch(builder.icmp_signed(">", skip, skip.type(0)), cut, ready)
    builder.position_at_end(cut)
    rest = []
    for i, column in enumerate(columns):
        left_out = builder.icmp_signed("<", skip.type(i), skip)
        rest += [builder.select(left_out, lowest, part) for part in column]
    builder.branch(ready)
    builder.position_at_end(ready)
    parts = len(columns[0])
    found = _emit_choice(builder, [([part for column in columns for part in column], whole), (rest, cut)])
    return [tuple(found[i : i + parts]) for i in range(0, len(found), parts)]


def _emit_choice(builder, ways):
    """Emit what values are, of which there are as many for each of the blocks that lead here."""
    found = [builder.phi(value.type) for value in ways[0][0]]
    for values, block in ways:
        for phi, value in zip(found, values, strict=True):
            phi.add_incoming(value, block)
    return found


def _emit_insertion(builder, columns, first, depth):
    """Emit what puts columns into the lists of their lanes, of the vectors from the pointer `first` on."""
    lines, parts, word = len(columns), len(columns[0]), depth.type
    vector = columns[0][0].type
    exchange = _exchanger(builder, not isinstance(vector.element, ir.IntType))

    def listed(begin, count):
        places = [builder.gep(begin, [word(i)]) for i in range(count * parts)]
        vectors = [load_vector(builder, place, vector) for place in places]
        return places, [tuple(vectors[i : i + parts]) for i in range(0, len(vectors), parts)]

    def store(keys, places):
        for part, place in zip((part for key in keys for part in key), places, strict=True):
            builder.store(part, place).align = 1

    def pass_on(part, *carried):
        begin = builder.gep(first, [builder.mul(part, word(lines * parts))])
        places, held = listed(begin, lines)
        keys = [tuple(carried[i : i + parts]) for i in range(0, len(carried), parts)]
        both = [exchange(old, new) for old, new in zip(held, keys[::-1], strict=True)]
        better, others = zip(*both, strict=True)
        store(_ordered(better, exchange), places)
        return [part for key in _ordered(others, exchange) for part in key]

    done, longer = builder.append_basic_block("done"), builder.append_basic_block("longer")
    cases = builder.switch(depth, longer)
    for count in _DEPTHS:
        block = builder.append_basic_block(f"list_of_{count}")
        cases.add_case(word(count), block)
        builder.position_at_end(block)
        places, held = listed(first, count)
        size = min(count, lines)
        groups = [_sorted(columns[i : i + size], exchange) for i in range(0, lines, size)]
        while len(groups) > 1:
            groups = [_best_of_both(*pair, exchange) for pair in zip(groups[::2], groups[1::2], strict=True)]
        store(_best_of_both(held, groups[0], exchange), places)
        builder.branch(done)
    builder.position_at_end(longer)
    new = [part for key in _sorted(columns, exchange) for part in key]
    emit_levels(builder, builder.sdiv(depth, word(lines)), new, pass_on)
    builder.branch(done)
    builder.position_at_end(done)


@intrinsic
def insert_block(typingctx, ref, offset, line_step, step, at, skip, best, first, depth, rule):
    """``insert_block(ref, offset, line_step, step, at, skip, best, first, depth, rule)``: put a block into lists.

    It has eight elements of eight lines, from element `at` of each on, which are `step` bytes apart; the lines are
    `line_step` bytes apart, and the first starts at `offset`. Either elements are neighbours, and the block is
    transposed in registers, or lines are. The first `skip` elements per line are left out. The lists have `depth`
    places, from place `first` of `best` on (see `list_depth`).

    The columns are sorted, in groups as long as the list, and the best of both are merged: for a list of 8, 35
    comparisons of 8 columns, where putting one after the other down the list takes 64. A list of more than 16 takes
    what is better by parts of 8, and hands on what was there.
    """
    width = ref.dtype.bitwidth

    def codegen(context, builder, signature, args):
        ref, offset, line_step, step, at, skip, best, first, depth, rule = args
        start = builder.add(offset, builder.mul(at, step))
        columns = _emit_block(builder, ref, start, line_step, step, width)
        columns = list(map(key_maker(builder, rule, NETWORK_LINES), columns))
        vector = ir.VectorType(context.get_data_type(_key_type(width)), NETWORK_LINES)
        columns = _emit_without_first(builder, _emit_placed(builder, columns, at, vector), skip)
        data = context.make_array(signature.args[6])(context, builder, best).data
        lists = builder.bitcast(data, vector.as_pointer())
        _emit_insertion(builder, columns, builder.gep(lists, [builder.mul(first, first.type(_parts(width)))]), depth)
        return context.get_dummy_value()

    numbers = [types.int64] * 5
    return types.void(ref, *numbers, best, types.int64, types.int64, rule), codegen


@helper
def prefetch_ahead(ref, offset, line_step, size, at):
    """Ask for a cache line, from element `at` on, of as many lines as there are, which come some groups later.

    Each line is too short for the hardware to see where it leads.
    """
    width = itemsize(ref)
    if at * width % CACHE_LINE == 0:
        ahead = NETWORK_LINES * max(min(AHEAD // (NETWORK_LINES * size * width), MOST_AHEAD), 1)
        for line in range(ahead, ahead + NETWORK_LINES):
            prefetch_to_l2(ref, offset + line * line_step + at * width)


@helper
def select_lines(
    ref,  # IN   the input
    offset,  # IN   where the first line starts, in bytes
    line_step,  # IN   from line to line
    step,  # IN   from element to element
    size,  # IN   elements per line
    lanes,  # IN   how many lines: as many as go through the network together at least
    depth,  # IN   see `list_depth`
    rule,
    best,  # OUT  (groups of lines * depth, lines) keys
):
    """Select from neighbouring lines; of those that the last group shares with the one before, from both.

    Of lines that are shorter than a block the network reads what lies before them.
    """
    best[:] = lowest_key(best)
    for at in range(0, size, NETWORK_LINES):
        if step == itemsize(ref):
            prefetch_ahead(ref, offset, line_step, size, at)
        first = min(at, size - NETWORK_LINES)  # the last block lies partly on the one before it
        for group in range(-(-lanes // NETWORK_LINES)):
            start = offset + min(group * NETWORK_LINES, lanes - NETWORK_LINES) * line_step
            insert_block(ref, start, line_step, step, first, at - first, best, group * depth, depth, rule)
