"""The top-k kernels for lines whose elements are no neighbours, as along the first axis: delegates, maybe with rivals.

A thread reads a group of a line, or of as many lines as have elements in 16 bytes: a *seat* of neighbouring elements
after the other. It tells the best key of the group, its delegate. Of lines that lie beside each other it also tells
which seat that is from, and the best key of all other seats, the *rival*. A warp then chooses for each line: first the
k best groups by their delegates, at equal keys by their order; of the seats of these delegates the k best elements; and
only groups whose rival could be among these are read whole. Of such lines each element is read by itself, 32 bytes for
it: so it counts how few these are. Delegates that have rivals are written and read line beside line.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, WARPS, cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k.column_groups import SEAT, SEAT_BITS, key_stores, lines_together, seat_reader
from ..primitives.top_k.keys import key_access, key_type, lowest_key, result_writer
from ..primitives.top_k.plan import GROUP_BITS, LINES, OUT_STRIDE, PITCH, SIZE, STRIDE, K, line_bases
from ..primitives.top_k.ranks import lane_sorter
from ..primitives.warp import LANE_VALUE, lanes_where, sum_of_lanes, sync_lanes

#: Elements that a lane lists, and how many of those it looks at before the list is sorted, if it is long by then: there
#: is room for as many as the lanes look at, beside the k best.
LISTED = 4
AT_ONCE = LISTED - 1
#: The largest k: a lane has one of the k groups.
MOST_K = LANES
#: It comes after all places.
END = np.iinfo(np.int32).max


def scratch_bytes(groups: int, lines: int, width: int) -> int:
    """Return the bytes of two keys and the number of a seat for each group of each line."""
    return groups * lines * (2 * width + 1)


@cache
def best_noter(width: int, wide: bool, has_rivals: bool):
    """Return what a thread notes of its groups, one for each of its lines, and how it stores that.

    ``note(bests, delegates, rivals, seats, seat)``: the best keys of a seat become the delegates, if they are better,
    or else the rivals; the delegates' seats are numbers of a byte each. ``store(delegates, rivals, seats, told, plan,
    group, line)``.
    """
    store_rivals, (_, store_seats) = key_stores(width, wide), unit_access(lines_together(width, wide))
    key_bytes = key_type(width)(0).itemsize
    _, store_key = unit_access(key_bytes)
    together = lines_together(width, wide)
    words_of_seats = 2 if together > 8 else 1

    @helper
    def note(bests, delegates, rivals, seats, seat):
        for j in range(together):
            best, delegate = bests[j], delegates[j]
            if has_rivals:
                if best > delegate:
                    at = 8 * (j % 8)
                    seats[j // 8] = (seats[j // 8] & ~(np.int64(255) << at)) | (seat << at)
                rivals[j] = max(rivals[j], min(delegate, best))
            delegates[j] = max(delegate, best)

    @helper
    def store(delegates, rivals, seats, told, plan, group, line):
        lines, groups = number(plan, LINES), number(plan, PITCH)
        if has_rivals:
            at = group * lines + line
            store_rivals(told + at * width, delegates)
            store_rivals(told + (groups * lines + at) * width, rivals)
            store_seats(told + groups * lines * (2 * width) + at, seats[0], seats[words_of_seats - 1])
        else:
            at = told + key_bytes * (line * groups + group)
            for j in range(together):
                store_key(at, delegates[j], 0)
                at += key_bytes * groups

    return note, store


@cache
def column_kernel(width: int, infinity: int, wide: bool, has_rivals: bool) -> Kernel:
    """Return the kernel that finds delegates, and maybe their seats and their rivals: a thread for each group.

    `wide`: 16 bytes at a multiple of 16 have elements of several lines; a thread has the groups of these.
    """
    put_bests, (note, store) = seat_reader(width, infinity, wide), best_noter(width, wide, has_rivals)
    key, lowest = key_type(width), lowest_key(width)
    together = lines_together(width, wide)

    def find_in_columns(x, told, plan):
        """`told`: the address of (lines, groups) delegates; or what `beside_kernel` wants."""
        await_inputs()
        seat_keys = cuda.local.array(together, key)
        delegates = cuda.local.array(together, key)
        rivals = cuda.local.array(together, key)
        seats = cuda.local.array(2, np.int64)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        of_lines = number(plan, LINES) // together
        group = item // of_lines
        line = (item - group * of_lines) * together
        if group >= number(plan, PITCH):
            return
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        bits = number(plan, GROUP_BITS)
        first = group << bits
        count = min(np.int64(1) << bits, number(plan, SIZE) - first)
        address = x + source + first * stride
        for j in range(together):
            delegates[j] = rivals[j] = lowest
        seats[0] = seats[1] = 0
        seat = np.int64(0)
        while count > 0:
            put_bests(seat_keys, address, stride, count, plan)
            note(seat_keys, delegates, rivals, seats, seat)
            address += SEAT * stride
            count -= SEAT
            seat += 1
        store(delegates, rivals, seats, told, plan, group, line)

    return Kernel(find_in_columns, 3)


class Line(NamedTuple):
    """A line, as the lanes of its warp see it."""

    lane: object
    lines: object
    source: object  #: the address of its first element
    stride: object
    size: object
    k: object
    groups: object
    seat_bits: object  #: of a group, as a power of two
    delegates: object  #: the address of its first one, and so on: the next one is behind those of all lines
    rivals: object
    best_seats: object


class Lists(NamedTuple):
    """A warp's part of shared memory."""

    keys: object  #: of the listed elements ...
    places: object  #: ... and their places
    begin: object  #: where its list begins
    delegates: object  #: the keys of its delegates ...
    seats: object  #: ... and later, in the same memory, the seats that it looks at


class Bar(NamedTuple):
    """What elements are compared with: those that come before it are listed."""

    key: object
    place: object


@cache
def bar_finder(width: int):
    """Return how the warp finds a bar, and sorts its list.

    ``first_bar(lists, line)`` lists nothing. ``sort_listed(lists, line, count, bar)`` keeps up to k elements and
    returns how many, and the bar: the k-th, if there are as many.
    """
    sort = lane_sorter(key_type(width), LISTED)
    load, key, lowest = LOAD_INDEX[f"int{8 * width}"], key_type(width), lowest_key(width)

    @helper
    def first_bar(lists, line):
        # The line's delegates come into shared memory. The k-th best of the lanes' best ones is a bar that k of them
        # reach.
        best = key(lowest)
        i = line.lane
        while i < line.groups:
            for j in range(LISTED):
                item = np.int32(i + j * LANES)
                item = item if item < line.groups else i
                its_key = key(load(line.delegates + np.int64(item) * line.lines * width))
                lists.delegates[item] = its_key
                best = max(best, its_key)
            i = np.int32(i + LISTED * LANES)
        at = lists.begin + line.lane
        lists.keys[at], lists.places[at] = best, line.lane
        sort(lists.keys, lists.places, lists.begin, min(line.groups, LANES), line.k, line.lane)
        bar = Bar(key(lists.keys[lists.begin + line.k - 1]), np.int32(END))
        sync_lanes()
        return bar

    @helper
    def sort_listed(lists, line, count, bar):
        sort(lists.keys, lists.places, lists.begin, count, line.k, line.lane)
        if count >= line.k:
            last = lists.begin + line.k - 1
            bar = Bar(key(lists.keys[last]), np.int32(lists.places[last]))
        return min(count, line.k), bar

    return first_bar, sort_listed


@cache
def seat_lister(width: int):
    """Return how the warp lists the seats that it looks at.

    ``seats_of_best(lists, line)``: those of the listed delegates; it returns a lane's group, its seat and its rival.
    ``seats_of_rivals(lists, line, best, bar)``: all other seats of groups whose rival could be among the best; it
    returns how many elements they have.
    """
    load, load_seat, key = LOAD_INDEX[f"int{8 * width}"], LOAD_INDEX["uint8"], key_type(width)
    lowest = lowest_key(width)
    lane_value = LANE_VALUE[32]

    @helper
    def seats_of_best(lists, line):
        group, seat, rival = np.int32(0), np.int32(0), key(lowest)
        if line.lane < line.k:
            group = np.int32(lists.places[lists.begin + line.lane])
            seat = np.int32(load_seat(line.best_seats + np.int64(group) * line.lines))
            rival = key(load(line.rivals + np.int64(group) * line.lines * width))
            lists.seats[line.lane] = np.int32(np.int32(group << line.seat_bits) + seat)
        return group, seat, rival

    @helper
    def seats_of_rivals(lists, line, best, bar):
        group, seat, rival = best
        own = np.int32(0)
        start = np.int32(np.int32(group << line.seat_bits) << SEAT_BITS)
        if line.lane < line.k and (rival > bar.key or (rival == bar.key and start < bar.place)):
            own = np.int32((1 << line.seat_bits) - 1)
        until = sum_of_lanes(own)
        for j in range(own):
            other = np.int32(j if j < seat else j + 1)
            lists.seats[until - own + j] = np.int32(np.int32(group << line.seat_bits) + other)
        return np.int32(lane_value(until, LANES - 1) << SEAT_BITS)

    return seats_of_best, seats_of_rivals


@cache
def item_lister(width: int, infinity: int):
    """Return ``list_items(lists, line, plan, bar, turn, first, total, count)``: how many elements are listed then.

    It looks at a few of `total` items from one on: delegates, if it is turn 0, or elements of the listed seats.
    """
    access, load, key = key_access(width, infinity), LOAD_INDEX[f"int{8 * width}"], key_type(width)
    keys_of, key_in = access.keys_of, access.key_in

    @helper
    def list_items(lists, line, plan, bar, turn, first, total, count):
        some = cuda.local.array(AT_ONCE, key)
        at = cuda.local.array(AT_ONCE, np.int32)
        lower = np.int32((1 << line.lane) - 1)  # the lanes before this one
        for j in range(AT_ONCE):
            item = np.int32(first + j * LANES + line.lane)
            inside = item < total
            item = min(item, np.int32(total - 1))
            at[j] = item
            if turn == 0:
                some[j] = lists.delegates[item]
            else:
                row = np.int32(np.int32(lists.seats[item >> SEAT_BITS] << SEAT_BITS) + np.int32(item & (SEAT - 1)))
                inside = inside and row < line.size
                at[j] = min(row, np.int32(line.size - 1))
                some[j] = key(load(line.source + np.int64(at[j]) * line.stride))
            if not inside:
                at[j] = -1
        for j in range(AT_ONCE):
            its_key = some[j]
            if turn > 0:
                its_key = key_in(keys_of(its_key, plan), 0)
            hit = at[j] >= 0 and (its_key > bar.key or (its_key == bar.key and at[j] < bar.place))
            hits = lanes_where(1 if hit else 0)
            if hit:
                before = np.int32(cuda.popc(np.int32(hits & lower)))
                lists.keys[lists.begin + count + before], lists.places[lists.begin + count + before] = its_key, at[j]
            count = np.int32(count + cuda.popc(hits))
        return count

    return list_items


@cache
def best_lister(width: int, infinity: int):
    """Return ``list_best(lists, line, plan)``: a warp lists the k best elements of its line."""
    first_bar, sort_listed = bar_finder(width)
    seats_of_best, seats_of_rivals = seat_lister(width)
    list_items, key = item_lister(width, infinity), key_type(width)

    @helper
    def list_best(lists, line, plan):
        # First delegates are listed, then elements of their seats, and then of other seats of groups whose rival can be
        # among these. A list that is long is sorted, which raises the bar to its k-th element.
        bar = first_bar(lists, line)
        count, turn, first, total = np.int32(0), np.int32(0), np.int32(0), line.groups
        best = np.int32(0), np.int32(0), key(0)
        while True:
            if first >= total or count > LANES:
                count, bar = sort_listed(lists, line, count, bar)
            if first >= total:
                if turn == 0:
                    best = seats_of_best(lists, line)
                    count, bar = np.int32(0), Bar(bar.key, np.int32(END))
                    total = np.int32(line.k << SEAT_BITS)
                elif turn == 1:
                    total = seats_of_rivals(lists, line, best, bar)
                if turn == 2 or total == 0:
                    break
                sync_lanes()
                turn, first = np.int32(turn + 1), np.int32(0)
            count = list_items(lists, line, plan, bar, turn, first, total, count)
            first = np.int32(first + AT_ONCE * LANES)

    return list_best


@cache
def beside_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel that chooses by delegates and their rivals: a warp for each line."""
    write_result = result_writer(width, infinity)
    key, list_best = key_type(width), best_lister(width, infinity)
    room, rooms = LISTED * LANES, WARPS * LISTED * LANES
    key_array, part_array = ARRAY_TYPES[key], ARRAY_TYPES[np.int32]
    parts_of_key = key(0).itemsize // 4

    def choose_beside(x, values, indices, told, plan):
        """`told`: the address of (groups, lines) delegates, as many rivals, and as many seats of a byte."""
        await_inputs()
        keys = cuda.shared.array(rooms, key)
        places = cuda.shared.array(rooms, np.int32)
        lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES)
        of_all = np.int64(cuda.blockIdx.x) * WARPS + warp
        lines = number(plan, LINES)
        if of_all >= lines:
            return
        from_x, to = line_bases(plan, of_all)
        groups = np.int32(number(plan, PITCH))
        pitch = lines * number(plan, PITCH)
        line = Line(
            lane,
            lines,
            x + from_x,
            number(plan, STRIDE),
            np.int32(number(plan, SIZE)),
            np.int32(number(plan, K)),
            groups,
            np.int32(number(plan, GROUP_BITS) - SEAT_BITS),
            told + of_all * width,
            told + (pitch + of_all) * width,
            told + pitch * (2 * width) + of_all,
        )
        delegates = cuda.shared.array(0, key_array)[warp * groups :]
        seats = cuda.shared.array(0, part_array)[warp * groups * parts_of_key :]
        lists = Lists(keys, places, np.int32(warp * room), delegates, seats)
        list_best(lists, line, plan)
        if lane < line.k:
            own_key, place = keys[lists.begin + lane], np.int64(places[lists.begin + lane])
            to += np.int64(lane) * number(plan, OUT_STRIDE)
            write_result(values, indices, plan, to, own_key, line.source + place * line.stride, place)

    return Kernel(choose_beside, 5, waits=True, shares=True, registers=64)
