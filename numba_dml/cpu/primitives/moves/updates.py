"""How updates of one element are written or combined.

The figures are under "Single updates" in docs/measurements/cpumoves.md. Reductions are constants in the loops: a loop
that finds out for every update which one it is takes up to twice as long.
"""

from __future__ import annotations

import numpy as np

from ...._jit.compile import chosen, helper
from ...._jit.copies import prefetch, prefetch_to_write
from ...._jit.machine import CACHE_LINE
from ...._jit.memory import ANY, UNSIGNED, itemsize, load, store
from ..keys import LANES, lowest_bit
from ..reductions import ADD, MAX, MIN, MUL, NONE, combine, extreme, kind_of
from ..top_k.key_masks import beats_keys
from .plan import (
    GROUP,
    HEADER,
    LOOP_FIELDS,
    REDUCTION,
    all_inside,
    coords_at,
    group_inside,
    owned_numbers,
    owned_numbers_plain,
)
from .runs import PREFETCHES_WRITES, copy_run, prefetch_span


@helper
def put_run(target, to, source, fro, count, reduction):
    """Write or combine `count` elements that are contiguous on both sides."""
    size = itemsize(target)
    if reduction == NONE:
        copy_run(target, to, source, fro, count)
    else:
        for j in range(count):
            store(target, to + j * size, combine(reduction, load(target, to + j * size), load(source, fro + j * size)))


#: Updates whose indices are tested together before they are combined.
COMBINED = 64
#: Bytes of the places above which they are prefetched a group ahead: a core that stores waits for one line after the
#: other.
SMALL_BYTES = 1 << 15


@helper
def put_elements(
    plan,  # IN   (fields,) int64
    data,  # OUT  the output
    base,  # IN   the offset that all elements share
    pattern,  # IN   (count,) int64, how much more it is for each ...
    stepped,  # IN   ... False: nothing
    index,  # IN   the indices
    position,  # IN   the first one
    packed,  # IN   the updates
    fro,  # IN   where the first one is
    count,
    soon,  # IN   what is read soon: a byte of the indices, and of the updates
):
    """Write updates of one element while their indices are 0 or more and in range; return whether all were.

    In passing, they prefetch what is read soon, as in `elements.take_found`. Along the last axis there is no step to
    add, and places are neighbours: that case has a loop of its own.
    """
    size = itemsize(data)
    width = itemsize(index)
    at = position * width
    field = coords_at(plan)
    n, stride = plan[field], plan[field + 1]
    index_ahead, packed_ahead = soon
    whole = count // GROUP * GROUP
    prefetched = GROUP if PREFETCHES_WRITES and n * abs(stride) > SMALL_BYTES else 0
    for i in range(0, whole, GROUP):
        for ahead in range(0, GROUP * width, CACHE_LINE):
            prefetch(index, index_ahead + i * width + ahead)
        for ahead in range(0, GROUP * size, CACHE_LINE):
            prefetch(packed, packed_ahead + i * size + ahead)
        if not group_inside(index, at + i * width, n):
            return False
        if stepped or stride != size:
            for j in range(i, i + prefetched):
                number = np.int64(load(index, at + j * width))
                prefetch_to_write(data, base + pattern[np.uint64(j)] + number * stride)
            for j in range(i, i + GROUP):
                number = np.int64(load(index, at + j * width))
                store(data, base + pattern[np.uint64(j)] + number * stride, load(packed, fro + j * size))
        else:
            for j in range(i, i + prefetched):
                prefetch_to_write(data, base + np.int64(load(index, at + j * width)) * size)
            for j in range(i, i + GROUP):
                number = np.int64(load(index, at + j * width))
                store(data, base + number * size, load(packed, fro + j * size))
    prefetch_span(index, index_ahead + whole * width, (count - whole) * width)
    prefetch_span(packed, packed_ahead + whole * size, (count - whole) * size)
    if not all_inside(index, at + whole * width, count - whole, n):
        return False
    for j in range(whole, count):
        number = np.int64(load(index, at + j * width))
        store(data, base + pattern[np.uint64(j)] + number * stride, load(packed, fro + j * size))
    return True


@helper
def combine_one(reduction, code, data, to, new):
    """Combine an update by a constant with what is at an offset; `code` is as in `extreme`."""
    old = load(data, to)
    if reduction > MUL:
        store(data, to, extreme(reduction, code, old, new))
    else:
        store(data, to, combine(reduction, old, new))


@helper
def combine_some(reduction, code, stepped, data, base, stride, pattern, index, at, packed, fro, first, last):
    """Combine updates `first` to `last` of `combine_elements`; see `combine_one`."""
    size, width = itemsize(data), itemsize(index)
    for j in range(first, last):
        to = base + np.int64(load(index, at + j * width)) * stride
        if stepped:
            to += pattern[np.uint64(j)]
        combine_one(reduction, code, data, to, load(packed, fro + j * size))


@helper
def combine_elements(stepped, far, plan, data, base, pattern, index, position, packed, fro, count, soon):
    """Combine updates of one element with what is there, in their order; return how many.

    These are the ones before a group with an index below 0 or out of range; all arguments are as in `put_elements`.
    `far`: prefetch their places first.
    """
    size, width = itemsize(data), itemsize(index)
    at = position * width
    field = coords_at(plan)
    n, stride = plan[field], plan[field + 1]
    code = plan[REDUCTION]
    reduction = kind_of(code)
    index_ahead, packed_ahead = soon
    for first in range(0, count, COMBINED):
        last = min(first + COMBINED, count)
        prefetch_span(index, index_ahead + first * width, (last - first) * width)
        prefetch_span(packed, packed_ahead + first * size, (last - first) * size)
        if not all_inside(index, at + first * width, last - first, n):
            return first
        for j in range(first, last if far else first):
            number = np.int64(load(index, at + j * width))
            prefetch(data, base + (pattern[np.uint64(j)] if stepped else 0) + number * stride)
        # All are constants but for products without a step, which are rare.
        if reduction == ADD and not stepped:
            combine_some(ADD, code, False, data, base, stride, pattern, index, at, packed, fro, first, last)
        elif reduction == ADD:
            combine_some(ADD, code, True, data, base, stride, pattern, index, at, packed, fro, first, last)
        elif reduction == MIN and not stepped:
            combine_some(MIN, code, False, data, base, stride, pattern, index, at, packed, fro, first, last)
        elif reduction == MIN:
            combine_some(MIN, code, True, data, base, stride, pattern, index, at, packed, fro, first, last)
        elif reduction == MAX and not stepped:
            combine_some(MAX, code, False, data, base, stride, pattern, index, at, packed, fro, first, last)
        elif reduction == MAX:
            combine_some(MAX, code, True, data, base, stride, pattern, index, at, packed, fro, first, last)
        else:
            combine_some(MUL, code, True, data, base, stride, pattern, index, at, packed, fro, first, last)
    return count


@helper
def combine_masked(reduction, code, mask, first, data, base, stride, pattern, index, at, packed, fro):
    """Combine those of the updates from `first` on whose bits are set, in their order; see `combine_one`."""
    size, width = itemsize(data), itemsize(index)
    while mask:
        j = np.uint64(first + lowest_bit(mask))
        mask &= mask - np.uint64(1)
        to = base + pattern[j] + np.int64(load(index, at + j * width)) * stride
        combine_one(reduction, code, data, to, load(packed, fro + j * size))


def put_masked(code, mask, first, data, base, stride, pattern, index, at, packed, fro):
    """Write or combine those of the updates from `first` on whose bits are set, in their order."""
    raise NotImplementedError


@chosen(put_masked)
def _put_masked(code, mask, first, data, base, stride, pattern, index, at, packed, fro):
    def combined(code, mask, first, data, base, stride, pattern, index, at, packed, fro):
        reduction = kind_of(code)
        if reduction == ADD:
            combine_masked(ADD, code, mask, first, data, base, stride, pattern, index, at, packed, fro)
        elif reduction == MIN:
            combine_masked(MIN, code, mask, first, data, base, stride, pattern, index, at, packed, fro)
        elif reduction == MAX:
            combine_masked(MAX, code, mask, first, data, base, stride, pattern, index, at, packed, fro)
        else:
            combine_masked(MUL, code, mask, first, data, base, stride, pattern, index, at, packed, fro)

    def written(code, mask, first, data, base, stride, pattern, index, at, packed, fro):
        while mask:
            j = np.uint64(first + lowest_bit(mask))
            mask &= mask - np.uint64(1)
            to = base + pattern[j] + np.int64(load(index, at + j * itemsize(index))) * stride
            store(data, to, load(packed, fro + j * itemsize(data)))

    return written if data.dtype in UNSIGNED.values() else combined


@helper
def put_owned(owned, far, plan, data, base, pattern, index, position, packed, fro, count, soon):
    """Write or combine the updates whose indices are a thread's; return how many points are done.

    These are the ones before the first `LANES` one of which has an index below 0 or out of range; `owned` are the
    lowest of the thread's indices and how many, other arguments are as in `combine_elements`. The last ones of a block
    are looked at together with some before them.
    """
    size, width = itemsize(data), itemsize(index)
    at = position * width
    field = coords_at(plan)
    n, stride = plan[field], plan[field + 1]
    code = plan[REDUCTION]
    index_ahead, packed_ahead = soon
    low, numbers = owned
    for first in range(0, count, LANES):
        some = min(count - first, LANES)
        prefetch_span(index, index_ahead + first * width, some * width)
        prefetch_span(packed, packed_ahead + first * size, some * size)
        if count >= LANES:
            begin = first + some - LANES
            mask, inside = owned_numbers(index, at + begin * width, n, low, numbers)
            mask &= ~np.uint64(0) << np.uint64(first - begin)
        else:
            begin = first
            mask, inside = owned_numbers_plain(index, at, count, n, low, numbers)
        if not inside:
            return first
        places = mask if far else np.uint64(0)
        while places:
            j = np.uint64(begin + lowest_bit(places))
            places &= places - np.uint64(1)
            prefetch_to_write(data, base + pattern[j] + np.int64(load(index, at + j * width)) * stride)
        put_masked(code, mask, begin, data, base, stride, pattern, index, at, packed, fro)
    return count


def put_directly(writing, far, owned, plan, data, pattern, stepped, index, packed, at, count, rows, steps, ahead):
    """Write or combine updates of one element by indices that are neighbours: `rows` rows, each of `count` points.

    The first row is `at` an offset in data, a position in indices and a byte in packed, the next one `steps` further,
    and what is prefetched in passing is `ahead` by as much; `far`: so are places to combine with. Only a thread's
    points are written if it has `owned` indices, see `put_owned`. Return how many points are done before one that has
    an index below 0, perhaps, or out of range. Some that follow may have been written, which will be written again, but
    none combined. Not `writing`: only look at the indices. Nothing is done where indices are seen as bytes, or floats
    of 16 bits are combined: the caller works out offsets.
    """
    raise NotImplementedError


@chosen(put_directly)
def _put_directly(writing, far, owned, plan, data, pattern, stepped, index, packed, at, count, rows, steps, ahead):
    if index == ANY:
        return lambda writing, far, owned, plan, data, pattern, stepped, index, packed, at, count, rows, steps, ahead: 0

    def combined(writing, far, owned, plan, data, pattern, stepped, index, packed, at, count, rows, steps, ahead):
        base, position, fro = at
        for row in range(rows):
            soon = (position + ahead[0]) * itemsize(index), fro + ahead[1]
            if not writing:
                inside = all_inside(index, position * itemsize(index), count, plan[coords_at(plan)])
                done = count if inside else 0
            elif owned[1] >= 0:
                done = put_owned(owned, far, plan, data, base, pattern, index, position, packed, fro, count, soon)
            else:
                done = combine_elements(
                    stepped, far, plan, data, base, pattern, index, position, packed, fro, count, soon
                )
            if done < count:
                return row * count + done
            base, position, fro = base + steps[0], position + steps[1], fro + steps[2]
        return rows * count

    def written(writing, far, owned, plan, data, pattern, stepped, index, packed, at, count, rows, steps, ahead):
        base, position, fro = at
        if writing and plan[REDUCTION] != NONE:
            return 0
        for row in range(rows):
            soon = (position + ahead[0]) * itemsize(index), fro + ahead[1]
            if not writing:
                inside = all_inside(index, position * itemsize(index), count, plan[coords_at(plan)])
                done = count if inside else 0
            elif owned[1] >= 0:
                done = put_owned(owned, far, plan, data, base, pattern, index, position, packed, fro, count, soon)
            else:
                inside = put_elements(plan, data, base, pattern, stepped, index, position, packed, fro, count, soon)
                done = count if inside else 0
            if done < count:
                return row * count + done
            base, position, fro = base + steps[0], position + steps[1], fro + steps[2]
        return rows * count

    # What is moved, and not computed with, is seen as unsigned numbers.
    return written if data.dtype in UNSIGNED.values() else combined


@helper
def rows_from(plan, rows, p, end):
    """Return how many rows are evenly apart from point `p` on, which starts one, by how much: see `put_directly`."""
    loop, length, _ = rows
    if loop == 0:
        return 1, (np.int64(0), np.int64(0), np.int64(0))
    field = HEADER + LOOP_FIELDS * (loop - 1)
    row = p // length
    count = min(plan[field] - row % plan[field], (end - p) // length)
    return count, (plan[field + 1], plan[field + 2], plan[field + 3])


@helper
def mask_between(offsets, i, count, low, high):
    """Return which of the offsets from the i-th on, of `count`, are low <= offset < high, a bit for each of `LANES`."""
    kind = offsets.dtype.type
    mask = beats_keys(offsets, i, kind(low - 1), (kind(0),)) & ~beats_keys(offsets, i, kind(high - 1), (kind(0),))
    if count - i < LANES:
        mask &= (np.uint64(1) << np.uint64(count - i)) - np.uint64(1)
    return mask


@helper
def put_some(
    data,  # IN OUT  the output
    origin,  # IN   the offset that all elements share
    unit,  # IN   the bytes of a unit ...
    offsets,  # IN   (BLOCK,), how many units each element is from there
    places,  # IN   (BLOCK,), what tells whether an element is in the window: the same, or what its index adds
    packed,  # IN   the updates
    fro,  # IN   where the first one is
    step,  # IN   from one to the next
    count,
    low,  # IN   the window: places from this one on ...
    high,  # IN   ... and below that one
    reduction,
    ask,  # IN   True: prefetch all places first
):
    """Write updates of one element, or combine them with what is there, in their order, if that is in a window.

    They are found by masks, which takes less than half of the time that compressing them first takes.
    """
    for i in range(0, count if ask else 0, LANES):
        mask = mask_between(places, i, count, low, high)
        while mask:
            prefetch_to_write(data, origin + np.int64(offsets[np.uint64(i + lowest_bit(mask))]) * unit)
            mask &= mask - np.uint64(1)
    for i in range(0, count, LANES):
        mask = mask_between(places, i, count, low, high)
        while mask:
            j = i + lowest_bit(mask)
            mask &= mask - np.uint64(1)
            at = origin + np.int64(offsets[np.uint64(j)]) * unit
            value = load(packed, fro + j * step)
            if reduction != NONE:
                value = combine(reduction, load(data, at), value)
            store(data, at, value)
