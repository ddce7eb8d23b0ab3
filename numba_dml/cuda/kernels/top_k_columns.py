"""The top-k kernels for lines that lie beside each other, as along the first axis: delegates that have rivals.

A thread reads a group of a line, or of as many lines as have elements in 16 bytes: a *seat* of neighbouring elements
after the other. It tells the best key of the group, its delegate, which seat that is from, and the best key of all
other seats, the *rival*. A warp then chooses for each line: first the k best groups by their delegates, at equal keys
by their order; of the seats of these delegates the k best elements; and only groups whose rival could be among these
are read whole. Of lines that lie beside each other each element is read by itself, 32 bytes for it: so it counts how
few these are. Delegates are written and read line beside line.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k.keys import key_access, key_type
from ..primitives.top_k.lane_lists import entry_access, list_sorter, part_sorter
from ..primitives.top_k.plan import (
    FLIP,
    GROUP_BITS,
    INDEX_SIZE,
    LINES,
    OUT_STRIDE,
    PITCH,
    SIZE,
    STRIDE,
    WARPS,
    K,
    line_bases,
)
from ..primitives.top_k.seats import key_stores, seat_access
from ..primitives.top_k.sizes import SIZES
from ..primitives.top_k.writing import write_index
from ..primitives.warp import LANE_VALUE, lanes_where, sum_of_lanes, sync_lanes

#: Elements of a seat, as a power of two.
SEAT_BITS = SIZES.seat_bits
SEAT = 1 << SEAT_BITS
#: Elements that a lane lists, and how many of those it looks at before the list is sorted, if it is long by then: there
#: is room for as many as the lanes look at, beside the k best.
LISTED = 4
AT_ONCE = LISTED - 1
#: The largest k: a lane has one of the k groups.
MOST_K = LANES


def scratch_bytes(groups: int, lines: int, width: int) -> int:
    """Return the bytes of two keys and the number of a seat for each group of each line."""
    return groups * lines * (2 * width + 1)


@cache
def seat_steps(width: int, is_float: bool, wide: bool):
    """Return the steps for one seat of as many lines as a thread has.

    ``put_bests_of_seat(bests, some, address, stride, count, plan)``, ``note_seat(bests, delegates, rivals, seats,
    seat)``.
    """
    put_bests, put_row = seat_access(width, is_float, wide, SEAT)
    together = 16 // width if wide else 1

    @helper
    def put_bests_of_seat(bests, some, address, stride, count, plan):
        """List the best key of a seat, of which there are maybe fewer elements than usual."""
        if count >= SEAT:
            put_bests(bests, address, stride, plan)
        else:
            put_row(bests, address, plan)
            for row in range(1, count):
                put_row(some, address + row * stride, plan)
                for j in range(together):
                    bests[j] = max(bests[j], some[j])

    @helper
    def note_seat(bests, delegates, rivals, seats, seat):
        """Let the best keys of a seat be the delegates, if they are better, or else the rivals."""
        for j in range(together):
            if bests[j] > delegates[j]:
                at = 8 * (j % 8)
                seats[j // 8] = (seats[j // 8] & ~(np.int64(255) << at)) | (seat << at)
            rivals[j] = max(rivals[j], min(delegates[j], bests[j]))
            delegates[j] = max(delegates[j], bests[j])

    return put_bests_of_seat, note_seat


@cache
def rival_kernel(width: int, is_float: bool, wide: bool) -> Kernel:
    """Return the kernel that finds delegates, their seats and their rivals: a thread for each group.

    `wide`: 16 bytes at a multiple of 16 have elements of several lines; a thread has the groups of these.
    """
    put_bests_of_seat, note_seat = seat_steps(width, is_float, wide)
    store_keys = key_stores(width, wide)
    key = key_type(width)
    lowest = np.iinfo(key).min
    together = 16 // width if wide else 1
    _, store_seats = unit_access(together)
    words_of_seats = 2 if together > 8 else 1

    @kernel
    def find_rivals(
        x,  # IN   address of the first element
        told,  # OUT  address of (groups, lines) delegates, as many rivals, and as many seats of a byte
        plan,  # IN   address of the plan
    ):
        await_inputs()
        bests = cuda.local.array(together, key)
        some = cuda.local.array(together, key)
        delegates = cuda.local.array(together, key)
        rivals = cuda.local.array(together, key)
        seats = cuda.local.array(words_of_seats, np.int64)
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        lines, groups = number(plan, LINES), number(plan, PITCH)
        of_lines = lines // together
        group = item // of_lines
        line = (item - group * of_lines) * together
        if group >= groups:
            return
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        bits = number(plan, GROUP_BITS)
        first = group << bits
        count = min(np.int64(1) << bits, number(plan, SIZE) - first)
        address = x + source + first * stride
        for j in range(together):
            delegates[j] = rivals[j] = lowest
        for j in range(words_of_seats):
            seats[j] = 0
        seat = np.int64(0)
        while count > 0:
            put_bests_of_seat(bests, some, address, stride, count, plan)
            note_seat(bests, delegates, rivals, seats, seat)
            address += SEAT * stride
            count -= SEAT
            seat += 1
        at = group * lines + line
        store_keys(told + at * width, delegates)
        store_keys(told + (groups * lines + at) * width, rivals)
        store_seats(told + groups * lines * (2 * width) + at, seats[0], seats[words_of_seats - 1])

    return Kernel(find_rivals, 3)


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

    listed: object  #: the listed elements, with their places or beside them
    places: object
    begin: object  #: where its list begins
    keys: object  #: its delegates ...
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
    entry_width = max(width, 4)
    _, put, get, _, place_of, *_ = entry_access(entry_width)
    sort_few, sort_list = part_sorter(entry_width, 1), list_sorter(entry_width, LISTED)
    load, key = LOAD_INDEX[f"int{8 * width}"], key_type(width)
    lowest, end = int(np.iinfo(key).min), np.iinfo(np.int32).max

    @helper
    def key_in(entry):
        return entry[0] if width == 8 else key(entry >> 32)

    @helper
    def fetch_delegates(lists, line):
        """Bring the line's delegates into shared memory; return the best of the lane's."""
        best = key(lowest)
        i = line.lane
        while i < line.groups:
            for j in range(LISTED):
                item = np.int32(i + j * LANES)
                item = item if item < line.groups else i
                its_key = key(load(line.delegates + np.int64(item) * line.lines * width))
                lists.keys[item] = its_key
                best = max(best, its_key)
            i = np.int32(i + LISTED * LANES)
        return best

    @helper
    def first_bar(lists, line):
        # The k-th best of the lanes' best delegates is a bar that k of them reach.
        best = fetch_delegates(lists, line)
        put(lists.listed, lists.places, lists.begin + line.lane, best, line.lane)
        sync_lanes()
        sort_few(lists.listed, lists.places, lists.begin, min(line.groups, LANES), line.lane)
        sync_lanes()
        bar = Bar(key_in(get(lists.listed, lists.places, lists.begin + line.k - 1)), np.int32(end))
        sync_lanes()
        return bar

    @helper
    def sort_listed(lists, line, count, bar):
        sync_lanes()
        sort_list(lists.listed, lists.places, lists.begin, count, line.lane)
        sync_lanes()
        count = min(count, line.k)
        if count == line.k:
            last = get(lists.listed, lists.places, lists.begin + line.k - 1)
            bar = Bar(key_in(last), np.int32(place_of(last)))
        return count, bar

    return first_bar, sort_listed, key_in


@cache
def seat_lister(width: int):
    """Return how the warp lists the seats that it looks at.

    ``seats_of_best(lists, line)``: those of the listed delegates; it returns a lane's group, its seat and its rival.
    ``seats_of_rivals(lists, line, best, bar)``: all other seats of groups whose rival could be among the best; it
    returns how many elements they have.
    """
    _, _, get, _, place_of, *_ = entry_access(max(width, 4))
    load, load_seat, key = LOAD_INDEX[f"int{8 * width}"], LOAD_INDEX["uint8"], key_type(width)
    lowest = int(np.iinfo(key).min)
    lane_value = LANE_VALUE[32]

    @helper
    def seats_of_best(lists, line):
        group, seat, rival = np.int32(0), np.int32(0), key(lowest)
        if line.lane < line.k:
            group = np.int32(place_of(get(lists.listed, lists.places, lists.begin + line.lane)))
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
def item_lister(width: int, is_float: bool):
    """Return ``list_items(lists, line, plan, bar, turn, first, total, count)``: how many elements are listed then.

    It looks at a few of `total` items from one on: delegates, if it is turn 0, or elements of the listed seats.
    """
    key_of, load = key_access(width, is_float, FLIP).key_of, LOAD_INDEX[f"int{8 * width}"]
    _, put, *_ = entry_access(max(width, 4))
    key = key_type(width)

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
                some[j] = lists.keys[item]
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
                its_key = key_of(its_key, plan)
            hit = at[j] >= 0 and (its_key > bar.key or (its_key == bar.key and at[j] < bar.place))
            hits = lanes_where(1 if hit else 0)
            if hit:
                before = np.int32(cuda.popc(np.int32(hits & lower)))
                put(lists.listed, lists.places, lists.begin + count + before, its_key, at[j])
            count = np.int32(count + cuda.popc(hits))
        return count

    return list_items


@cache
def best_lister(width: int, is_float: bool):
    """Return ``list_best(lists, line, plan)``: a warp lists the k best elements of its line."""
    first_bar, sort_listed, _ = bar_finder(width)
    seats_of_best, seats_of_rivals = seat_lister(width)
    list_items, key = item_lister(width, is_float), key_type(width)
    end = np.iinfo(np.int32).max

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
                    count, bar = np.int32(0), Bar(bar.key, np.int32(end))
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
def beside_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that chooses by what `rival_kernel` tells: a warp for each line."""
    bits_of, load = key_access(width, is_float, FLIP).bits_of, LOAD_INDEX[f"int{8 * width}"]
    _, store = unit_access(width)
    key = key_type(width)
    word, _, get, _, place_of, *_ = entry_access(max(width, 4))
    *_, key_in = bar_finder(width)
    list_best = best_lister(width, is_float)
    room = LISTED * LANES
    rooms, place_rooms = WARPS * room, WARPS * room if width == 8 else 1
    key_array, part_array = ARRAY_TYPES[key], ARRAY_TYPES[np.int32]
    parts_of_key = key(0).itemsize // 4

    @helper
    def write_best(lists, line, plan, values, indices, to):
        step, index_size = number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        if line.lane < line.k:
            entry = get(lists.listed, lists.places, lists.begin + line.lane)
            place = place_of(entry)
            to += np.int64(line.lane) * step
            bits, plain = bits_of(key_in(entry), plan)
            if not plain:
                bits = np.int64(load(line.source + place * line.stride))
            store(values + to * width, bits, 0)
            write_index(indices, index_size, to, place)

    @kernel(registers=64)
    def choose_beside(
        x,  # IN   address of the first element
        values,  # OUT  address of the values
        indices,  # OUT  address of the indices
        told,  # IN   address of (groups, lines) delegates, as many rivals, and as many seats of a byte
        plan,  # IN   address of the plan
    ):
        await_inputs()
        listed = cuda.shared.array(rooms, word)
        places = cuda.shared.array(place_rooms, np.int32)
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
        keys = cuda.shared.array(0, key_array)[warp * groups :]
        seats = cuda.shared.array(0, part_array)[warp * groups * parts_of_key :]
        lists = Lists(listed, places, np.int32(warp * room), keys, seats)
        list_best(lists, line, plan)
        write_best(lists, line, plan, values, indices, to)

    return Kernel(choose_beside, 5, waits=True, shares=True)
