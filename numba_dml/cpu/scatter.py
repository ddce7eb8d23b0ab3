"""The scatter kernel: SCATTER_ELEMENTS and SCATTER_ND are the gather's loop nest with the arrow turned around.

In place every index is validated before the first update is written. Duplicates are deterministic at any number of
threads, because every element of the output has one thread that writes it, and a thread goes through its updates in
row-major order; or because it leaves the same bits to combine shares of them first, and these in their order.
"""

from __future__ import annotations

import numpy as np

from . import allocating, chosen, helper, kernel
from ._arithmetic import ADD, MAX, MIN, MUL, NONE, combine, extreme, kind_of
from ._drivers import ASK, OVERLAP
from ._indices import (
    ALL_INSIDE,
    ALONE,
    BLOCK,
    BOUNDS,
    COORD_FIELDS,
    COORDS,
    COPY,
    DATA_BASE,
    DROPPED,
    GROUP,
    HEADER,
    HIGH,
    INDEX_BYTES,
    KIND,
    LOOP_FIELDS,
    LOOPS,
    LOW,
    PACK_IN_PLACE,
    PACK_NEW,
    PACKED_BYTES,
    PACKS,
    PERIOD,
    POINTS,
    RAISE,
    REDUCTION,
    RUN,
    SCRATCH,
    SHARES,
    SPLIT,
    STARTS_HIGH,
    STARTS_LOW,
    STREAM,
    TILE,
    TILE_IN_PLACE,
    all_inside,
    block_at,
    block_points,
    coords_at,
    find_offsets,
    find_rows,
    first_of,
    group_inside,
    owned_numbers,
    owned_numbers_plain,
    share_of_loop,
)
from ._keys import LANES, beats_keys, lowest_bit
from ._memory import (
    ANY,
    CACHE_LINE,
    UNSIGNED,
    address,
    array_at,
    copy_bytes,
    empty,
    finish_streams,
    further,
    itemsize,
    load,
    overlaps,
    prefetch,
    prefetch_to_write,
    seen_as,
    store,
    stream_bytes,
)
from .gather import (
    ASKED_BYTES,
    ASKS_TO_WRITE,
    BLOCKS_AHEAD,
    FAR_BLOCK,
    IS_ZEN,
    ROWS_AHEAD,
    SHORT_AHEAD,
    SHORT_BYTES,
    ask_for_some,
    copy_run,
    move_strip,
    take_runs,
)

# How threads share the work (SPLIT). A number from 0 on names a loop whose iterations write to different places.
BY_WINDOW = -1  # each thread goes through all points, and writes those that fall into its part of the output
BY_SLICE = -2  # each thread writes its part of every slice
BY_POINT = -3  # each thread has its own points: the caller promised that they are unique


@helper
def put_run(target, to, source, fro, count, reduction):
    """Write or combine `count` elements that are contiguous on both sides."""
    size = itemsize(target)
    if reduction == NONE:
        copy_run(target, to, source, fro, count)
    else:
        for j in range(count):
            store(target, to + j * size, combine(reduction, load(target, to + j * size), load(source, fro + j * size)))


#: The indices of so many updates are looked at before these are combined.
COMBINED = 64
#: Places in more bytes than this are asked for a group ahead: a core that stores waits for one line after the other.
#: Two threads of an Intel Xeon, f4, in ms, without and with that: (1000, 1000) along axis 0 2.2 and 1.6, (100, 20000)
#: along axis 1 2.9 and 2.2, (1, 20000) 0.048 and 0.037. An AMD EPYC (Zen 3) loses by it: (1, 2000000) 11.3 and 13.5.
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

    They ask for what will be read soon in passing, as in `gather.take_found`. (111, 3480) f4 along axis 1, which is not
    stepped, takes one thread 0.26 ms, and 0.34 if zeros are loaded and added; that elements are neighbours there, too,
    a tenth less than any stride.
    """
    size = itemsize(data)
    width = itemsize(index)
    at = position * width
    field = coords_at(plan)
    n, stride = plan[field], plan[field + 1]
    index_ahead, packed_ahead = soon
    whole = count // GROUP * GROUP
    asked = GROUP if ASKS_TO_WRITE and n * abs(stride) > SMALL_BYTES else 0
    for i in range(0, whole, GROUP):
        for ahead in range(0, GROUP * width, CACHE_LINE):
            prefetch(index, index_ahead + i * width + ahead)
        for ahead in range(0, GROUP * size, CACHE_LINE):
            prefetch(packed, packed_ahead + i * size + ahead)
        if not group_inside(index, at + i * width, n):
            return False
        if stepped or stride != size:
            for j in range(i, i + asked):
                number = np.int64(load(index, at + j * width))
                prefetch_to_write(data, base + pattern[np.uint64(j)] + number * stride)
            for j in range(i, i + GROUP):
                number = np.int64(load(index, at + j * width))
                store(data, base + pattern[np.uint64(j)] + number * stride, load(packed, fro + j * size))
        else:
            for j in range(i, i + asked):
                prefetch_to_write(data, base + np.int64(load(index, at + j * width)) * size)
            for j in range(i, i + GROUP):
                number = np.int64(load(index, at + j * width))
                store(data, base + number * size, load(packed, fro + j * size))
    ask_for_some(index, index_ahead + whole * width, (count - whole) * width)
    ask_for_some(packed, packed_ahead + whole * size, (count - whole) * size)
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
    `far`: ask for their places first. What is read soon is asked for, too, which spared a thread of an Intel Xeon a
    tenth of 1M sums into 2000 float32 by 1 KB ahead; an AMD EPYC takes as long with what `put_elements` is given.
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
        ask_for_some(index, index_ahead + first * width, (last - first) * width)
        ask_for_some(packed, packed_ahead + first * size, (last - first) * size)
        if not all_inside(index, at + first * width, last - first, n):
            return first
        for j in range(first, last if far else first):
            number = np.int64(load(index, at + j * width))
            prefetch(data, base + (pattern[np.uint64(j)] if stepped else 0) + number * stride)
        # By constants, but for products without a step, which are rare: 1M maxima took a thread of an Intel Xeon 1.9
        # to 2.7 ms by a number, and 1.0 to 1.4 so; 200,000 of 100,000 i4 one of an AMD EPYC 0.58 with a step of 0, and
        # 0.42 without.
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
        # By constants: 1M sums into 1M took two threads of an Intel Xeon 3.3 ms by a number, and take 2.2 so.
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
        ask_for_some(index, index_ahead + first * width, some * width)
        ask_for_some(packed, packed_ahead + first * size, some * size)
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
    and what is asked for in passing is `ahead` by as much; `far`: so are places to combine with. Only a thread's points
    are written if it has `owned` indices, see `put_owned`. Return how many points are done before one that has an index
    below 0, perhaps, or out of range. Some that follow may have been written, which will be written again, but none
    combined. Not `writing`: only look at the indices. What sees them as bytes works out offsets, and so does what
    combines floats of 16 bits.
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
    offsets,  # IN   ... by so many of which they are further, (BLOCK,)
    places,  # IN   (BLOCK,), what tells whose they are, the same or what the index adds to it ...
    packed,  # IN   the updates
    fro,  # IN   where the first one is
    step,  # IN   from one to the next
    count,
    low,  # IN   ... write or combine those from this place on ...
    high,  # IN   ... and below that one
    reduction,
    ask,  # IN   True: ask for all places first
):
    """Write updates of one element, or combine them with what is there, in their order, if that is in a window.

    They are found by masks: 10M sums into 1000 float32 take 9.4 ms, and 21 if they are compressed first.
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


def put_slices(index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window):
    """Write or combine elements `low` to `high` of the slices that start in a window.

    What sees indices as more than bytes has slices of one element, and no use for this.
    """
    raise NotImplementedError


@chosen(put_slices)
def _put_slices(index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window):
    if index != ANY:
        return lambda index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window: None

    def slices(index, plan, data, origin, offsets, kept, packed, fro, step, count, low, high, window):
        # Compressed without a branch: about half of the points are another thread's, in no order.
        count_kept = 0
        for i in range(count):
            kept[count_kept] = i
            here = offsets[i] != DROPPED
            here &= (origin + offsets[i] >= window[0]) & (origin + offsets[i] < window[1])
            count_kept += np.int64(here)
        begin, length = low * itemsize(data), (high - low) * itemsize(data)
        distance = SHORT_AHEAD if length < SHORT_BYTES else SLICES_AHEAD
        rolls = plan[HIGH] - plan[LOW] > ROLLED_BYTES
        for c in range(min(distance, count_kept) if rolls else count_kept):
            prefetch(data, origin + offsets[kept[c]])
        for c in range(count_kept):
            if rolls:
                soon = origin + offsets[kept[min(c + distance, count_kept - 1)]] + begin
                ask_for_some(data, soon, min(length, ASKED_BYTES))
            to, at = origin + offsets[kept[c]] + begin, fro + kept[c] * step + begin
            put_run(data, to, packed, at, high - low, plan[REDUCTION])

    return slices


#: Places in a window of so many bytes are in a cache, as those of strips are, and need not be asked for: 5000 sums into
#: each of 2000 rows of 256 take 5.7 ms, 8.6 if they are.
CACHED_BYTES = 1 << 20
#: Slices in a larger window are asked for some ahead, others of a block all at once. In place, two threads, in ms,
#: asked for at once and some ahead, and PyTorch, which promises nothing for duplicates: an Intel Xeon, 1M of 64 bytes
#: 44, 27 and 35, 500k of 128 26, 17 and 27, 2M of 32 69, 41 and 49, of 80 41, 23 and 35, 300k of 192 17, 12 and 21;
#: 20,000 of 64, in its L2, 0.19, 0.24 and 0.27; an AMD EPYC, whose L2 is smaller, 500k of 128 40, 29 and 40, 200k of
#: 64 12.7, 6.0 and 12.8. Of 16 bytes it is no faster: the Xeon takes 59 and 63 for 4M, 12.4 and 13.9 for 1M.
ROLLED_BYTES = CACHED_BYTES if IS_ZEN else 2 * CACHED_BYTES
#: So many ahead, if they have 64 bytes or more; shorter ones as far as those that are gathered. The EPYC, 8, 16 and 32
#: ahead, and PyTorch: 1M of 64 bytes 26, 25, 32 and 58, 1M of 2M of 80 42, 32, 36 and 60; the Xeon takes as long.
SLICES_AHEAD = 16


@helper
def scatter_range(
    writing,  # IN   False: only look for a bad index
    data,  # OUT  the output, which already holds the input
    index,  # IN   the indices, packed
    packed,  # IN   the updates, packed
    plan,  # IN   (fields,) int64
    begin,  # IN   the points begin <= p < end ...
    end,
    low,  # IN   ... of their slices the elements low <= j < high ...
    high,
    window_low,  # IN   ... and only those that start in this window of offsets, unless ...
    window_high,
    owned,  # IN   ... those with one of these indices: the lowest, and how many; -1: that is not how they are shared
    everywhere,  # IN   True: all
    buffer,  # OUT  (4 * BLOCK,) int64, scratch
):
    """Write a share of the updates, in row-major order; return the position of the first bad index, or -1."""
    single = plan[RUN] == 1
    reduction = plan[REDUCTION]
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    step = plan[last + 1]
    index_step = plan[last + 2]
    packed_step = plan[last + 3]
    plain = single and reduction == NONE and everywhere
    far = plan[SPLIT] < 0 and window_high - window_low > CACHED_BYTES and (reduction != NONE or ASKS_TO_WRITE)
    by_number = owned[1] >= 0
    directly = (single and (everywhere or by_number)) or not writing
    pattern, offsets, kept = buffer[BLOCK : 2 * BLOCK], buffer[2 * BLOCK : 3 * BLOCK], buffer[3 * BLOCK :]
    rows = find_rows(plan, pattern)
    _, length, unit = rows
    stepped = unit > 1 or step != 0
    p = begin
    while p < end:
        count, origin, position, fro, first, _, _ = block_at(plan, rows, block_points(plan), p, end)
        shape = pattern[first:]
        if directly:
            at, alike, steps = (origin, position, fro), 1, (np.int64(0), np.int64(0), np.int64(0))
            ahead = BLOCKS_AHEAD * BLOCK, BLOCK * packed_step
            if count == length:  # short rows, of a strip: the next ones are elsewhere
                alike, steps = rows_from(plan, rows, p, end)
                ahead = ROWS_AHEAD * steps[1], ROWS_AHEAD * steps[2]
            done = put_directly(
                writing, far, owned, plan, data, shape, stepped, index, packed, at, count, alike, steps, ahead
            )
            if done:
                p += done
                continue
            if single and writing:
                shift = plan[KIND] & 3
                ask_for_some(index, (position + ahead[0]) << shift, count * plan[COORDS] << shift)
                ask_for_some(packed, fro + ahead[1], count * packed_step)
        p += count
        status = find_offsets(plan, index, position, count, shape, step, index_step, buffer, offsets)
        if status >= 0:
            return status
        if not writing:
            continue
        if plain and status == ALL_INSIDE:
            for i in range(count):
                store(data, origin + offsets[np.uint64(i)], load(packed, fro + i * packed_step))
        elif single and everywhere and status == ALL_INSIDE:
            for i in range(count if far and reduction != NONE else 0):
                prefetch(data, origin + offsets[np.uint64(i)])
            for i in range(count):
                at = origin + offsets[np.uint64(i)]
                store(data, at, combine(reduction, load(data, at), load(packed, fro + i * packed_step)))
        elif single and by_number:
            stride = plan[coords_at(plan) + 1]
            for i in range(count):  # without the pattern: the index, times its stride
                kept[i] = offsets[i] if offsets[i] == DROPPED else offsets[i] - shape[i]
            begins, ends = owned[0] * stride, (owned[0] + owned[1]) * stride
            put_some(data, origin, 1, offsets, kept, packed, fro, packed_step, count, begins, ends, reduction, far)
        elif single:
            begins, ends = window_low - origin, window_high - origin
            put_some(data, origin, 1, offsets, offsets, packed, fro, packed_step, count, begins, ends, reduction, far)
        else:
            window = window_low, window_high
            put_slices(index, plan, data, origin, offsets, kept, packed, fro, packed_step, count, low, high, window)
    return np.int64(-1)


#: The least width in bytes of packed strips whose iterations write to neighbours; of others it is a line. 16 threads,
#: f4 along axis 0, in ms, with a line and so: (16000, 100) 2.6 and 1.8, (16000, 128) 2.6 and 1.7.
LEAST_STRIP = 16
#: If every thread has one strip, and rows do not begin at lines, strips do so only if they are this wide: otherwise
#: some would be twice as wide as others. 16 threads, in ms, before and now: (20000, 300) 7.3 and 5.1, (8000, 300) 1.9
#: and 1.6. If threads have several, lines count: two of an AMD EPYC take 24 ms for (16000, 300), and 34 without.
LINED_STRIP = 3 * CACHE_LINE
#: A strip of up to so many bytes is packed: where an axis is long, one is larger than it should be.
MOST_PACKED = 1 << 22
#: In place strips are packed, if they are, where there is an update for so many elements, or more, and they have more
#: rows than that: it copies them twice. So it is with bins.
SPARSE, FEW_ROWS = 4, 16
#: A window of this many bytes to both sides is the whole output.
FAR = np.int64(2**62)
#: Indices that are not shared among threads.
ANYONE = np.int64(0), np.int64(-1)
#: Threads share the indices of single elements, not the places these lead to, if each has so many. Then no offsets are
#: worked out for the updates of other threads. Two threads of an Intel Xeon, f4, in ms, by places, by indices, and
#: PyTorch: (433712, 33) along axis 0 131, 72 and 66, (100000, 20) 9.2, 6.8 and 7.8, (923296, 4) i8 22, 18 and 23, 3M of
#: 3M 12.9, 8.9 and 27, 1M sums into 1M 4.2, 2.3 and 3.0, 16 threads (433712, 33) 46, 29 and 22. Two of an AMD EPYC take
#: as long either way.
OWNED = 64


@helper
def count_strips(plan, tile, packs, threads):
    """Return how many strips the split loop is cut into: as many for each thread, if they are not too narrow."""
    field = HEADER + LOOP_FIELDS * plan[SPLIT]
    size, step = plan[field], abs(plan[field + 1])
    least = max((LEAST_STRIP if packs else CACHE_LINE) // max(step, 1), 1)
    width = max(min(tile, -(-size // threads)), least)
    return max(min(-(-size // (width * threads)) * threads, size // least), 1)


@helper
def strip_start(data, plan, strip, strips, threads):
    """Return the first iteration of the split loop that is a strip's.

    Two threads that write to one cache line wait for each other. If rows are a multiple of it, a line has one thread,
    wherever the array starts.
    """
    field = HEADER + LOOP_FIELDS * plan[SPLIT]
    size, step = plan[field], plan[field + 1]
    start = size * strip // strips
    least = LINED_STRIP if strips == threads and plan[PERIOD] % CACHE_LINE else CACHE_LINE
    if 0 < strip < strips and 0 < step < CACHE_LINE and size * step >= strips * least:
        rest = (address(data) + plan[DATA_BASE] + start * step) % CACHE_LINE
        start -= min(rest // step, start)
    return start


@helper
def copy_strip(source, data, plan, start, count):
    """Copy what some iterations of the split loop can write to: `count` bytes from `start` on, in every period."""
    for at in range(start, plan[COPY] if count else 0, plan[PERIOD]):
        copy_bytes(data, at, source, at, count)


@helper
def packed_strip(plan, tile, threads):
    """Return how many bytes a strip has whose rows follow each other, 0: it is written where it belongs.

    Rows are often a power of two apart, and a cache has few places for a strip of them: (2048, 4096) f4 takes two
    threads 22 to 28 ms so, and 41 to 57 without; (20, 300, 2048) 28 and 86.
    """
    field = HEADER + LOOP_FIELDS * plan[SPLIT]
    size, step = plan[field], plan[field + 1]
    if step >= CACHE_LINE or plan[RUN] != 1:
        return 0
    room = plan[COPY] // plan[PERIOD] * (-(-size // count_strips(plan, tile, True, threads)) * step + CACHE_LINE)
    return room if room <= MOST_PACKED else 0


@helper
def pack_plan(share, period, width, start, at):
    """Let a strip's plan write rows of `width` bytes that follow each other, not one every `period` from `start` on."""
    share[DATA_BASE] = (share[DATA_BASE] - start) // period * width + at
    for d in range(share[LOOPS] + share[COORDS]):
        field = HEADER + LOOP_FIELDS * d + 1
        if d >= share[LOOPS]:
            field = coords_at(share) + COORD_FIELDS * (d - share[LOOPS]) + 1
        if share[field] >= period:
            share[field] = share[field] // period * width


@allocating
def scatter_strips(fresh, source, data, index, packed, plan, tile, thread, threads, buffer, room):
    """Write one thread's share of the updates, strip by strip; return the position of the first bad index, or -1.

    `fresh` says that it must be copied before; if there is `room`, a strip is updated there, and copied from there.
    """
    split, period = plan[SPLIT], plan[PERIOD]
    strips = count_strips(plan, tile, room.size > 0, threads)
    first = np.int64(-1)
    at = room.ctypes.data - address(data)
    rows = plan[COPY] // period if room.size else 0
    for strip in range(strips * thread // threads, strips * (thread + 1) // threads):
        left = strip_start(data, plan, strip, strips, threads)
        right = strip_start(data, plan, strip + 1, strips, threads)
        share = share_of_loop(plan, split, left, right)
        step = plan[HEADER + LOOP_FIELDS * split + 1]
        start, width = left * step, (right - left) * step
        move_strip(data, at, width, source, start, period, width, rows, False)
        if room.size:
            pack_plan(share, period, width, start, at)
        if fresh:
            done = start + width if room.size else start
            last = period if strip == strips - 1 else start + width
            copy_strip(source, data, plan, done, last - done)
        points, elements = share[POINTS], plan[RUN]
        position = scatter_range(
            True, data, index, packed, share, 0, points, 0, elements, -FAR, FAR, ANYONE, True, buffer
        )
        move_strip(data, start, period, data, at, width, width, rows, plan[STREAM] != 0)
        first = first_of(first, position)
    return first


def points_inside(index, plan, begin, end):
    """Tell whether the indices of some points are 0 or more and in range, without a look at what they are for."""
    raise NotImplementedError


@chosen(points_inside)
def _points_inside(index, plan, begin, end):
    if index == ANY:
        return lambda index, plan, begin, end: False

    def inside(index, plan, begin, end):
        size = itemsize(index)
        each_once = plan[POINTS] * size == plan[INDEX_BYTES]
        return each_once and all_inside(index, begin * size, end - begin, plan[coords_at(plan)])

    return inside


@helper
def may_own(plan, threads):
    """Tell whether threads share indices, not places: single elements, one coordinate, and enough indices."""
    field = coords_at(plan)
    single = plan[RUN] == 1 and plan[COORDS] == 1
    return single and plan[field] >= OWNED * threads and plan[field + 1] > 0


@allocating
def share_by_window(writing, fresh, source, data, index, packed, plan, thread, threads):
    """Check or write one thread's share of the updates; return the position of the first bad index, or -1."""
    begin, end, low, high = 0, plan[POINTS], 0, plan[RUN]
    window_low, window_high, owned, everywhere = plan[STARTS_LOW], plan[STARTS_HIGH], ANYONE, True
    if plan[SPLIT] == BY_POINT or not writing:
        begin, end = end * thread // threads, end * (thread + 1) // threads
    elif plan[SPLIT] == BY_SLICE:
        low, high = high * thread // threads, high * (thread + 1) // threads
    elif threads > 1:
        span = (window_high - window_low + threads - 1) // threads
        window_low += span * thread
        window_high = window_low + span
        everywhere = False
        if may_own(plan, threads):
            size = plan[coords_at(plan)]
            owned = size * thread // threads, size * (thread + 1) // threads - size * thread // threads
    if not writing and points_inside(index, plan, begin, end):
        return np.int64(-1)
    buffer = empty(4 * BLOCK, np.int64)
    return scatter_range(
        writing, data, index, packed, plan, begin, end, low, high, window_low, window_high, owned, everywhere, buffer
    )


@allocating
def share_by_strips(writing, fresh, source, data, index, packed, plan, thread, threads):
    """Check one thread's share of the indices, or do what `scatter_strips` does, with memory for it."""
    if not writing:
        return share_by_window(writing, fresh, source, data, index, packed, plan, thread, threads)
    buffer = empty(4 * BLOCK, np.int64)
    field = HEADER + LOOP_FIELDS * plan[SPLIT]
    row = plan[field] * abs(plan[field + 1])
    if fresh:
        tile, packs = plan[TILE], plan[PACKS] & PACK_NEW != 0 or row < threads * LINED_STRIP
    else:
        tile, packs = plan[TILE_IN_PLACE], plan[PACKS] & PACK_IN_PLACE != 0 or row < threads * CACHE_LINE
        packs &= SPARSE * plan[POINTS] * itemsize(data) >= plan[COPY] > FEW_ROWS * plan[PERIOD]
    room = empty(packed_strip(plan, tile, threads) if packs else 0, np.uint8)
    return scatter_strips(fresh, source, data, index, packed, plan, tile, thread, threads, buffer, room)


@allocating
def in_slices(plan, size):
    """Return a plan whose offsets are numbers of slices."""
    numbered = plan.copy()
    numbered[DATA_BASE] //= size
    for loop in range(plan[LOOPS]):
        numbered[HEADER + LOOP_FIELDS * loop + 1] //= size
    for coord in range(plan[COORDS]):
        numbered[coords_at(plan) + COORD_FIELDS * coord + 1] //= size
    return numbered


@helper
def number_block(
    index,  # IN   the indices, packed
    plan,  # IN   (fields,) int64, `in_slices`
    rows,  # IN   what `find_rows` returns of it
    p,  # IN   the first point
    end,  # IN   only points below this one
    numbers,  # OUT  (count,) int32, which slice of the output each point writes; -1: it is dropped
    buffer,  # IN OUT  (3 * BLOCK,) int64: scratch, what `find_rows` leaves, scratch
):
    """Find out where a block of updates leads; return how many, and -1 or the position of the first bad index."""
    last = HEADER + LOOP_FIELDS * (plan[LOOPS] - 1)
    step, index_step = plan[last + 1], plan[last + 2]
    offsets = buffer[2 * BLOCK :]
    count, base, position, _, first, _, _ = block_at(plan, rows, block_points(plan), p, end)
    status = find_offsets(plan, index, position, count, buffer[BLOCK + first :], step, index_step, buffer, offsets)
    for i in range(count):
        numbers[i] = -1 if offsets[i] == DROPPED else base + offsets[i]
    return count, max(status, np.int64(-1))


@helper
def note_numbers(index, plan, begin, end, noted, buffer):
    """Note which slice each of the points begin <= p < end writes; return the position of the first bad index, or -1.

    The arguments are as in `number_block`, `noted` for all points.
    """
    rows = find_rows(plan, buffer[BLOCK : 2 * BLOCK])
    p = begin
    while p < end:
        count, status = number_block(index, plan, rows, p, end, noted[p:], buffer)
        if status >= 0:
            return status
        p += count
    return np.int64(-1)


@helper
def put_noted(data, packed, plan, noted, low, high, ask):
    """Write or combine, in their order, the updates whose numbers are low <= number < high; see `put_some`.

    Each thread goes through all numbers, but tuples are turned into them once, by one thread each. In place, 2, 4 and 8
    threads of an Intel Xeon, f4, ms, each with all tuples, and so: 1M into 64 MB 10.2, 5.0, 3.8 and 6.8, 3.5, 2.2; 10M
    120, 62, 51 and 67, 38, 27; 500k into 16 MB 3.0, 2.1, 1.9 and 2.6, 1.3, 1.0. Two of an AMD EPYC 15.3 and 10.4, 131
    and 95, 6.2 and 4.2.
    """
    size = itemsize(data)
    for p in range(0, plan[POINTS], BLOCK):
        count = min(BLOCK, plan[POINTS] - p)
        put_some(data, 0, size, noted[p:], noted[p:], packed, p * size, size, count, low, high, plan[REDUCTION], ask)


@allocating
def share_by_notes(writing, fresh, source, data, index, packed, plan, thread, threads):
    """Note the numbers of one thread's share of the points, or write its part of the output by those of all."""
    noted = array_at(seen_as(data, np.int32), plan[SCRATCH] - address(data), (plan[POINTS],))
    size = itemsize(data)
    if not writing:
        begin, end = plan[POINTS] * thread // threads, plan[POINTS] * (thread + 1) // threads
        return note_numbers(index, in_slices(plan, size), begin, end, noted, empty(3 * BLOCK, np.int64))
    count = plan[COPY] // size
    low, high = count * thread // threads, count * (thread + 1) // threads
    ask = (high - low) * size > CACHED_BYTES and (plan[REDUCTION] != NONE or ASKS_TO_WRITE)
    put_noted(data, packed, plan, noted, low, high, ask)
    return np.int64(-1)


@allocating
def scatter_places(source, data, index, packed, plan, thread, threads):
    """Write one thread's part of an output that is not the input; return the position of the first bad index, or -1.

    Every slice of it is one of the input or one of the updates, the last that leads there: once these are known, the
    output is gathered from both, in its own order. Nothing is written twice, or read to be overwritten: 100k rows of
    256 bytes into 200k take 3.2 ms where a copy and the updates take 6.3.
    """
    size = plan[RUN] * itemsize(data)
    count = plan[COPY] // size
    first = count * thread // threads
    count = count * (thread + 1) // threads - first
    sources = empty(count + 1, np.int32)  # the update of each slice, -1: none; then a place for other threads' ones
    for i in range(count):
        sources[i] = -1
    numbered = in_slices(plan, size)
    numbers = empty(BLOCK, np.int32)
    buffer = empty(3 * BLOCK, np.int64)
    rows = find_rows(numbered, buffer[BLOCK : 2 * BLOCK])
    p = 0
    while p < plan[POINTS]:
        points, status = number_block(index, numbered, rows, p, plan[POINTS], numbers, buffer)
        if status >= 0:
            return status
        for i in range(points):
            here = np.uint64(numbers[i] - first)  # dropped: far away
            sources[min(here, np.uint64(count))] = p + i
        p += points
    offsets = empty(FAR_BLOCK, np.int64)
    updates = address(packed) - address(source)
    large = plan[STREAM] != 0
    for start in range(0, count, FAR_BLOCK):
        slices = min(FAR_BLOCK, count - start)
        for i in range(slices):
            number = sources[start + i]
            offsets[i] = (first + start + i) * size if number < 0 else updates + number * size
        at = (first + start) * size
        take_runs(source, 0, offsets, data, at, size, slices, 0, size, False, large, buffer[:BLOCK])
    finish_streams()
    return np.int64(-1)


# The phases of a scatter by bins: strips of the output that stay in a cache.
COUNT, ORDER, SORT, FILL = range(4)
#: Bins are so many elements further apart than their updates take: of a permutation they are all as large, a power of
#: two, and a cache has few places for what is that far apart. Two threads of an AMD EPYC sort 14M of f4 by 220 bins in
#: 82 ms without, in 50 with it, 3M by 46 in 10.1 and 7.9.
BIN_SKEW = 72
#: So many places further on are asked for, since a core that stores waits for one line after the other: 70 and 50 ms,
#: 12.8 and 7.9, two threads of an Intel Xeon 94 and 59. With 16 ahead it takes as long on the EPYC, 61 on the Xeon.
BIN_AHEAD = 32


@helper
def bin_buffers(data, plan):
    """Return what the phases hand on, in memory of the caller.

    These are where the updates of each share start in each bin, with one bin more for those that are dropped; the
    number of the element that each update writes, in their order, below 0 of those that are dropped; and, as offsets in
    `data`, where the updates are bin by bin, each after its number, and by how much they are apart.
    """
    bins = -(-plan[COPY] // plan[TILE])
    at = plan[SCRATCH] - address(data)
    starts = array_at(seen_as(data, np.int64), at, (plan[SHARES], bins + 1))
    at += starts.size * 8
    apart = 2 * max(itemsize(data), 4)
    room = plan[POINTS] + BIN_SKEW * (bins + 1)
    return starts, array_at(seen_as(data, np.int32), at + room * apart, (plan[POINTS],)), at, apart


@helper
def bin_shift(data, plan):
    """Return by how many bits the number of an element is shifted to get its bin."""
    shift = 0
    while itemsize(data) << shift < plan[TILE]:
        shift += 1
    return np.uint32(shift)


@helper
def fill_bins(source, data, plan, begin, end, room):
    """Copy strips begin <= b < end into a buffer, `room`, update them there, and write them past the caches."""
    size = itemsize(data)
    starts, _, binned, apart = bin_buffers(data, plan)
    at = room.ctypes.data - address(data)
    within = (np.int32(1) << np.int32(bin_shift(data, plan))) - np.int32(1)
    for b in range(begin, end):
        low = b * plan[TILE]
        length = min(plan[TILE], plan[COPY] - low)
        copy_bytes(data, at, source, low, length)
        # The last share of a bin ends where the bin ends.
        first = starts[plan[SHARES] - 1, b - 1] + BIN_SKEW if b > 0 else 0
        for i in range(first, starts[plan[SHARES] - 1, b]):
            number = load(seen_as(data, np.int32), binned + i * apart)
            update = load(data, binned + i * apart + apart // 2)
            to = at + np.int64(number & within) * size
            if plan[REDUCTION] == NONE:
                store(data, to, update)
            else:
                store(data, to, combine(plan[REDUCTION], load(data, to), update))
        stream_bytes(data, low, data, at, length)
    finish_streams()


@helper
def count_share(data, index, plan, task, begin, end, numbered, buffer):
    """Note which element each of a share's updates writes, and count those of each bin.

    Return the position of the first bad index, or -1. Indices are read once: 1M pairs take two threads of an AMD EPYC
    16.6 ms if they are again when updates are sorted, and 13.0 so, 4M 41 and 32. And another thread that changes them
    meanwhile does no harm.
    """
    shift = bin_shift(data, plan)
    starts, noted, _, _ = bin_buffers(data, plan)
    status = note_numbers(index, numbered, begin, end, noted, buffer)
    dropped = np.uint64(starts.shape[1] - 1)
    counts = starts[task]
    counts[:] = 0
    for p in range(begin, end if status < 0 else begin):
        counts[min(np.uint64(np.uint32(noted[np.uint64(p)]) >> shift), dropped)] += 1
    return status


@helper
def sort_share(data, packed, plan, task, begin, end):
    """Put a share's updates where those of their bins are."""
    size = itemsize(data)
    shift = bin_shift(data, plan)
    starts, noted, binned, apart = bin_buffers(data, plan)
    dropped = np.uint64(starts.shape[1] - 1)
    place_of = starts[task]
    for p in range(begin, end):
        number = noted[np.uint64(p)]
        b = min(np.uint64(np.uint32(number) >> shift), dropped)
        to = binned + place_of[b] * apart
        place_of[b] += 1
        prefetch_to_write(data, to + BIN_AHEAD * apart)
        store(seen_as(data, np.int32), to, number)
        store(data, to + apart // 2, load(packed, p * size))


@allocating
def scatter_bins(phase, source, data, index, packed, plan, task, tasks):
    """Run a task of a phase; return the position of the first bad index, or -1.

    Updates are sorted by the strip of the output that they write to, and stay in their order within it; then a strip is
    copied into a buffer, updated there, and written past the caches. A new output is not read, and none written twice:
    1M updates of f4 into 64 MB take 7.0 ms where a copy and the updates take 10.4.
    """
    bins = -(-plan[COPY] // plan[TILE])
    starts, _, _, _ = bin_buffers(data, plan)
    begin, end = plan[POINTS] * task // tasks, plan[POINTS] * (task + 1) // tasks
    if phase == COUNT:
        numbered = in_slices(plan, itemsize(data))
        return count_share(data, index, plan, task, begin, end, numbered, empty(3 * BLOCK, np.int64))
    if phase == SORT:
        sort_share(data, packed, plan, task, begin, end)
    elif phase == ORDER:
        total = 0
        for b in range(bins + 1):
            for share in range(plan[SHARES]):
                count = starts[share, b]
                starts[share, b] = total
                total += count
            total += BIN_SKEW
    else:
        fill_bins(source, data, plan, bins * task // tasks, bins * (task + 1) // tasks, empty(plan[TILE], np.uint8))
    return np.int64(-1)


#: Outputs of so many bytes are joined by several threads.
JOINED_BYTES = 1 << 16
# The phases of a scatter to a small output, of which every share of the points has one of its own.
SCAN, JOIN = range(2)


@helper
def own_place(ref, plan, share, count):
    """Return where a share has elements of its own: one for each of the output, and one for what is dropped."""
    room = -(-(count + 1) * itemsize(ref) // CACHE_LINE) * CACHE_LINE
    return plan[SCRATCH] - address(ref) + share * room


@helper
def join_own(data, old, packed, plan, begin, end):
    """Write the elements begin <= i < end of a small output: what is there, and what each share has for it."""
    size = itemsize(data)
    reduction = plan[REDUCTION]
    count = plan[COPY] // size
    last = seen_as(data, np.int32)
    for i in range(begin, end):
        value = load(data, old + i * size)
        update = np.int32(-1)
        for share in range(plan[SHARES]):
            if reduction == NONE:
                update = max(update, load(last, own_place(last, plan, share, count) + i * 4))
            else:
                value = combine(reduction, value, load(data, own_place(data, plan, share, count) + i * size))
        store(data, i * size, load(packed, update * size) if update >= 0 else value)


@helper
def fill_own(data, old, own, plan):
    """Fill a share's elements with what changes nothing: 0, 1, and for the lowest or highest number what is there."""
    size = itemsize(data)
    reduction = kind_of(plan[REDUCTION])
    for at in range(0, plan[COPY], size):
        value = load(data, old + at)
        store(own, at, type(value)(reduction == MUL) if reduction <= MUL else value)


@allocating
def combine_own(own, index, packed, plan, begin, end):
    """Combine a share of the updates with elements of its own; return the position of the first bad index, or -1."""
    buffer = empty(4 * BLOCK, np.int64)
    low, high = plan[STARTS_LOW], plan[STARTS_HIGH]
    return scatter_range(True, own, index, packed, plan, begin, end, 0, 1, low, high, ANYONE, True, buffer)


@allocating
def find_last(last, index, plan, size, begin, end):
    """Find a share's last update of each place, or -1; return the position of the first bad index, or -1."""
    count = plan[COPY] // size
    numbered = in_slices(plan, size)
    numbers = empty(BLOCK, np.int32)
    buffer = empty(3 * BLOCK, np.int64)
    rows = find_rows(numbered, buffer[BLOCK : 2 * BLOCK])
    own_last = array_at(last, 0, (count + 1,))
    own_last[:] = -1
    p = begin
    while p < end:
        points, status = number_block(index, numbered, rows, p, end, numbers, buffer)
        if status >= 0:
            return status
        for i in range(points):
            own_last[min(np.uint64(numbers[i]), np.uint64(count))] = p + i  # dropped: far away
        p += points
    return np.int64(-1)


@helper
def scatter_own(phase, source, data, index, packed, plan, task, tasks):
    """Run a task of a phase; return the position of the first bad index, or -1.

    A share combines its updates with an output of its own, or keeps for each place the last update that leads there;
    then the shares are combined in their order. Only for what leaves the same bits however the updates are cut into
    shares: numbers but for sums and products of floats, and last updates. Elsewhere each thread goes through all
    points, to find those that are its own: 10M sums into 1000 int32 take 7.2 ms so, 21 if they are compressed as well.
    """
    size = itemsize(data)
    count = plan[COPY] // size
    old = address(source) - address(data)
    if phase == JOIN:
        join_own(data, old, packed, plan, count * task // tasks, count * (task + 1) // tasks)
        return np.int64(-1)
    begin, end = plan[POINTS] * task // tasks, plan[POINTS] * (task + 1) // tasks
    if plan[REDUCTION] == NONE:
        last = seen_as(data, np.int32)
        return find_last(further(last, own_place(last, plan, task, count)), index, plan, size, begin, end)
    own = further(data, own_place(data, plan, task, count))
    fill_own(data, old, own, plan)
    return combine_own(own, index, packed, plan, begin, end)


# The phases of a scatter; every thread has finished the first one before the second one begins. In place every index is
# checked before anything is written. Elsewhere the first phase copies, or with strips the second one does it as it
# goes, while they are in the cache; no output is promised to survive an error then, and indices are read once only.
PREPARE, WRITE = range(2)


def by_phases(scatter_share, notes=False):
    """Return a function that runs one thread's share of a phase, by one for a share of the updates.

    `notes`: the first phase looks at the indices, always, and the second one does not.
    """

    @helper
    def scatter_phase(phase, source, data, index, packed, plan, thread, threads):
        """Run one thread's share of a phase; return the position of the first bad index, or -1."""
        in_place = address(source) == address(data)
        if phase == PREPARE:
            if not in_place and plan[SPLIT] < 0:
                begin = plan[COPY] * thread // threads
                end = plan[COPY] * (thread + 1) // threads
                if plan[STREAM] != 0:
                    stream_bytes(data, begin, source, begin, end - begin)
                    finish_streams()
                else:
                    copy_bytes(data, begin, source, begin, end - begin)
            if not notes and (not in_place or plan[BOUNDS] != RAISE):
                return np.int64(-1)
        writing = phase == WRITE
        return scatter_share(writing, writing and not in_place, source, data, index, packed, plan, thread, threads)

    return scatter_phase


window_phase, strips_phase = by_phases(share_by_window), by_phases(share_by_strips)
noted_phase = by_phases(share_by_notes, notes=True)


@helper
def clashes(source, data, index, packed, plan):
    """Tell whether the output lies in an input, other than exactly on the one that it updates."""
    to, at = address(data), address(source)
    copied = np.int64(0) if at == to else plan[COPY]
    # A copy writes the whole output; updates alone only what the indices can lead to.
    low, high = (np.int64(0), copied) if copied > 0 else (plan[LOW], plan[HIGH])
    return (
        overlaps(to + low, to + high, address(index), address(index) + plan[INDEX_BYTES])
        or overlaps(to + low, to + high, address(packed), address(packed) + plan[PACKED_BYTES])
        or (at != to and overlaps(to + low, to + high, at + low, at + high))
    )


#: Where one thread writes, several copy the output before, or look at the indices, if these are so many bytes.
PREPARED_BYTES = 1 << 21


@helper
def count_tasks(phase, tasks, source, data, index, packed, plan):
    """Tell how many tasks a phase of a scatter has."""
    if phase > WRITE:
        return np.int64(0)
    if plan[ALONE] != 0:
        to_prepare = plan[INDEX_BYTES] if address(source) == address(data) else plan[COPY]
        tasks = tasks if phase == PREPARE and to_prepare >= PREPARED_BYTES else np.int64(1)
    return np.int64(OVERLAP) if phase == PREPARE and clashes(source, data, index, packed, plan) else tasks


@kernel
def scatter_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter, or tell how many there are."""
    if task != ASK:
        return window_phase(phase, source, data, index, packed, plan, task, tasks) + 1
    return count_tasks(phase, tasks, source, data, index, packed, plan)


@kernel
def noted_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter by numbers that are noted, or tell how many there are."""
    if task != ASK:
        return noted_phase(phase, source, data, index, packed, plan, task, tasks) + 1
    return count_tasks(phase, tasks, source, data, index, packed, plan)


@kernel
def strips_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter with a split loop, or tell how many there are."""
    if task != ASK:
        return strips_phase(phase, source, data, index, packed, plan, task, tasks) + 1
    return count_tasks(phase, tasks, source, data, index, packed, plan)


@kernel
def places_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a scatter to a new output, in its order, or tell how many there are."""
    if task != ASK:
        return scatter_places(source, data, index, packed, plan, task, tasks) + 1
    if phase > 0:
        return np.int64(0)
    in_place = address(source) == address(data)
    return np.int64(OVERLAP) if in_place or clashes(source, data, index, packed, plan) else tasks


@kernel
def own_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter to a small output, or tell how many there are."""
    if task != ASK:
        return scatter_own(phase, source, data, index, packed, plan, task, tasks) + 1
    if phase == SCAN:
        return np.int64(OVERLAP) if clashes(source, data, index, packed, plan) else plan[SHARES]
    return np.int64(0) if phase > JOIN else tasks if plan[COPY] >= JOINED_BYTES else np.int64(1)


@kernel
def bins_kernel(phase, task, tasks, source, data, index, packed, plan):
    """Run a task of a phase of a scatter strip by strip, or tell how many there are; in place if the plan says so."""
    if task != ASK:
        return scatter_bins(phase, source, data, index, packed, plan, task, tasks) + 1
    in_place = address(source) == address(data) and plan[TILE_IN_PLACE] == 0
    if phase == COUNT and (in_place or clashes(source, data, index, packed, plan)):
        return np.int64(OVERLAP)
    if phase == FILL:
        return min(-(-plan[COPY] // plan[TILE]), 4 * tasks)
    if phase == ORDER:
        return np.int64(1)
    return plan[SHARES] if phase < FILL else np.int64(0)
