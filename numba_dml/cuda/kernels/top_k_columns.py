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

import numpy as np

from ..driver.compile import helper, kernel
from ..driver.launch import Kernel
from ..driver.numba import BLOCK, LANES, cuda
from ..primitives.access import LOAD_INDEX, load_quad, unit_access
from ..primitives.plan import number
from ..primitives.ptx import ARRAY_TYPES, await_inputs
from ..primitives.top_k.keys import key_access, key_type
from ..primitives.top_k.lane_lists import entry_access, lane_lists, lane_sorter
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
EVEN_BYTES = 0x00FF00FF


def scratch_bytes(groups: int, lines: int, width: int) -> int:
    """Return the bytes of what is told of so many groups of each line: two keys, and the number of a seat."""
    return groups * lines * (2 * width + 1)


@cache
def seat_access(width: int, is_float: bool, wide: bool):
    """Return ``put_bests(keys, address, stride, plan)``, the best key of a seat; of the seats of lines if `wide`."""
    access = key_access(width, is_float, FLIP)
    put_keys, load_words, comparable = access.put_keys, access.load_quad, access.comparable
    key_of, load = access.key_of, LOAD_INDEX[f"int{8 * width}"]
    key, of_quad = key_type(width), 16 // width
    in_words = access.words is not None
    mask_of, _, better, _ = access.words or (None,) * 4
    words_at_once, pairs_at_once = 4 * SEAT, 2 * SEAT

    @helper
    def put_bests_by_words(keys, words, plan):
        mask = mask_of(plan)
        if width == 1:  # bytes are compared with zeros before them
            for i in range(4):
                word = np.int32(words[i] ^ mask)
                even, odd = np.int32(word & EVEN_BYTES), np.int32(word >> 8 & EVEN_BYTES)
                for row in range(1, SEAT):
                    word = np.int32(words[4 * row + i] ^ mask)
                    even = better(even, np.int32(word & EVEN_BYTES))
                    odd = better(odd, np.int32(word >> 8 & EVEN_BYTES))
                upper = ((np.int64(odd) << 8) ^ (1 << 31)) - (1 << 31)  # as an int32
                words[i] = np.int32(np.int32(even | np.int32(upper)) ^ mask)
        else:
            for i in range(4):
                best = np.int32(words[i] ^ mask)
                for row in range(1, SEAT):
                    best = better(best, np.int32(words[4 * row + i] ^ mask))
                words[i] = np.int32(best ^ mask)
        put_keys(keys, (words[0], words[1], words[2], words[3]), plan)

    @helper
    def put_bests_of_lines(keys, address, stride, plan):
        # All are loaded before one is looked at.
        if width == 8:
            pairs = cuda.local.array(pairs_at_once, np.int64)
            for row in range(SEAT):
                pairs[2 * row], pairs[2 * row + 1] = load_words(address + row * stride)
            for i in range(2):
                keys[i] = key_of(pairs[i], plan)
                for row in range(1, SEAT):
                    keys[i] = max(keys[i], key_of(pairs[2 * row + i], plan))
        else:
            words = cuda.local.array(words_at_once, np.int32)
            for row in range(SEAT):
                words[4 * row], words[4 * row + 1], words[4 * row + 2], words[4 * row + 3] = load_quad(
                    address + row * stride
                )
            if in_words and comparable(plan):
                put_bests_by_words(keys, words, plan)
            else:
                some = cuda.local.array(of_quad, key)
                put_keys(keys, (words[0], words[1], words[2], words[3]), plan)
                for row in range(1, SEAT):
                    i = 4 * row
                    put_keys(some, (words[i], words[i + 1], words[i + 2], words[i + 3]), plan)
                    for j in range(of_quad):
                        keys[j] = max(keys[j], some[j])

    @helper
    def put_best_of_line(keys, address, stride, plan):
        bits = cuda.local.array(SEAT, key)
        for row in range(SEAT):
            bits[row] = load(address + row * stride)
        keys[0] = key_of(bits[0], plan)
        for row in range(1, SEAT):
            keys[0] = max(keys[0], key_of(bits[row], plan))

    @helper
    def put_keys_of_lines(keys, address, plan):
        put_keys(keys, load_words(address), plan)

    @helper
    def put_key_of_line(keys, address, plan):
        keys[0] = key_of(key(load(address)), plan)

    return (put_bests_of_lines, put_keys_of_lines) if wide else (put_best_of_line, put_key_of_line)


@cache
def rival_kernel(width: int, is_float: bool, wide: bool) -> Kernel:
    """Return the kernel that finds delegates, their seats and their rivals: a thread for each group.

    `wide`: 16 bytes at a multiple of 16 have elements of several lines; a thread has the groups of these.
    """
    put_bests, put_row = seat_access(width, is_float, wide)
    key = key_type(width)
    lowest = np.iinfo(key).min
    together = 16 // width if wide else 1
    of_word = 8 // width
    low_bits = (1 << 8 * width) - 1 if width < 8 else -1
    _, store_key = unit_access(width)
    _, store_pair = unit_access(16)
    _, store_seats = unit_access(together)
    words_of_seats = 2 if together > 8 else 1

    @helper
    def join(keys, first):
        """Return the keys of a word of 64 bits."""
        word = np.int64(0)
        for j in range(of_word):
            word |= (np.int64(keys[first + j]) & low_bits) << (8 * width * j)
        return word

    @helper
    def store_keys(address, keys):
        if wide:
            store_pair(address, join(keys, 0), join(keys, of_word))
        else:
            store_key(address, keys[0], 0)

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
            if count >= SEAT:
                put_bests(bests, address, stride, plan)
            else:
                put_row(bests, address, plan)
                for row in range(1, count):
                    put_row(some, address + row * stride, plan)
                    for j in range(together):
                        bests[j] = max(bests[j], some[j])
            for j in range(together):
                if bests[j] > delegates[j]:
                    at = 8 * (j % 8)
                    seats[j // 8] = (seats[j // 8] & ~(np.int64(255) << at)) | (seat << at)
                rivals[j] = max(rivals[j], min(delegates[j], bests[j]))
                delegates[j] = max(delegates[j], bests[j])
            address += SEAT * stride
            count -= SEAT
            seat += 1
        at = group * lines + line
        store_keys(told + at * width, delegates)
        store_keys(told + (groups * lines + at) * width, rivals)
        store_seats(told + groups * lines * (2 * width) + at, seats[0], seats[words_of_seats - 1])

    return Kernel(find_rivals, 3)


@cache
def beside_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that chooses by what `rival_kernel` tells: a warp for each line."""
    access, load = key_access(width, is_float, FLIP), LOAD_INDEX[f"int{8 * width}"]
    key_of, bits_of = access.key_of, access.bits_of
    _, store = unit_access(width)
    load_seat = LOAD_INDEX["uint8"]
    key = key_type(width)
    lowest = int(np.iinfo(key).min)
    entry_width = max(width, 4)
    word, put, get, _, place_of, *_ = entry_access(entry_width)
    (sort_few, get_few, put_few), (sort_all, get_all, put_all) = (
        (lane_sorter(entry_width, count), *lane_lists(entry_width, count)) for count in (1, LISTED)
    )
    room = LISTED * LANES
    rooms, place_rooms = WARPS * room, WARPS * room if width == 8 else 1
    key_array, part_array = ARRAY_TYPES[key], ARRAY_TYPES[np.int32]
    parts_of_key = key(0).itemsize // 4
    end = np.iinfo(np.int32).max
    lane_value = LANE_VALUE[32]

    @helper
    def key_in(entry):
        return entry[0] if width == 8 else key(entry >> 32)

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
        some = cuda.local.array(AT_ONCE, key)
        at = cuda.local.array(AT_ONCE, np.int32)
        lane, warp = np.int32(cuda.threadIdx.x % LANES), np.int32(cuda.threadIdx.x // LANES)
        lower = np.int32((1 << lane) - 1)  # the lanes before this one
        line = np.int64(cuda.blockIdx.x) * WARPS + warp
        lines = number(plan, LINES)
        if line >= lines:
            return
        from_x, to = line_bases(plan, line)
        source, stride = x + from_x, number(plan, STRIDE)
        size, k, groups = np.int32(number(plan, SIZE)), np.int32(number(plan, K)), np.int32(number(plan, PITCH))
        seat_bits = np.int32(number(plan, GROUP_BITS) - SEAT_BITS)  # of a group
        pitch = lines * number(plan, PITCH)
        delegates, rivals = told + line * width, told + (pitch + line) * width
        begin = np.int32(warp * room)
        # A warp's delegates, and later the seats that it looks at, are in the same memory.
        keys = cuda.shared.array(0, key_array)[warp * groups :]
        seats = cuda.shared.array(0, part_array)[warp * groups * parts_of_key :]

        # The k-th best of the lanes' best delegates is a bar that k of them reach.
        best = key(lowest)
        i = lane
        while i < groups:
            for j in range(LISTED):
                item = np.int32(i + j * LANES)
                item = item if item < groups else i
                its_key = key(load(delegates + np.int64(item) * lines * width))
                keys[item] = its_key
                best = max(best, its_key)
            i = np.int32(i + LISTED * LANES)
        put(listed, places, begin + lane, best, lane)
        sync_lanes()
        few = get_few(listed, places, np.int32(begin + lane), np.int32(begin + min(groups, LANES)))
        sync_lanes()
        put_few(sort_few(few, lane), listed, places, np.int32(begin + lane))
        sync_lanes()
        bar, bar_place = key_in(get(listed, places, begin + k - 1)), np.int32(end)
        sync_lanes()

        # First delegates are listed, then elements of their seats, and then of other seats of groups whose rival can be
        # among these. A list that is long is sorted, which raises the bar to its k-th element.
        count, turn, first, total = np.int32(0), np.int32(0), np.int32(0), groups
        group, seat, rival = np.int32(0), np.int32(0), key(lowest)
        while True:
            if first >= total or count > LANES:
                sync_lanes()
                until = np.int32(begin + count)
                if count <= LANES:
                    few = get_few(listed, places, np.int32(begin + lane), until)
                    sync_lanes()
                    put_few(sort_few(few, lane), listed, places, np.int32(begin + lane))
                else:
                    all_ = get_all(listed, places, np.int32(begin + lane), until)
                    sync_lanes()
                    put_all(sort_all(all_, lane), listed, places, np.int32(begin + lane * LISTED))
                sync_lanes()
                count = min(count, k)
                if count == k:
                    last = get(listed, places, begin + k - 1)
                    bar, bar_place = key_in(last), np.int32(place_of(last))
            if first >= total:
                own = np.int32(0)
                if turn == 0:
                    if lane < k:
                        group = np.int32(place_of(get(listed, places, begin + lane)))
                        seat = np.int32(load_seat(told + pitch * (2 * width) + np.int64(group) * lines + line))
                        rival = key(load(rivals + np.int64(group) * lines * width))
                        seats[lane] = np.int32(np.int32(group << seat_bits) + seat)
                    count, bar_place = np.int32(0), np.int32(end)
                    total = np.int32(k << SEAT_BITS)
                elif turn == 1:
                    start = np.int32(np.int32(group << seat_bits) << SEAT_BITS)
                    if lane < k and (rival > bar or (rival == bar and start < bar_place)):
                        own = np.int32((1 << seat_bits) - 1)
                    until = sum_of_lanes(own)
                    total = np.int32(lane_value(until, LANES - 1) << SEAT_BITS)
                    for j in range(own):
                        other = np.int32(j if j < seat else j + 1)
                        seats[until - own + j] = np.int32(np.int32(group << seat_bits) + other)
                if turn == 2 or total == 0:
                    break
                sync_lanes()
                turn, first = np.int32(turn + 1), np.int32(0)
            for j in range(AT_ONCE):
                item = np.int32(first + j * LANES + lane)
                inside = item < total
                item = min(item, np.int32(total - 1))
                at[j] = item
                if turn == 0:
                    some[j] = keys[item]
                else:
                    row = np.int32(np.int32(seats[item >> SEAT_BITS] << SEAT_BITS) + np.int32(item & (SEAT - 1)))
                    inside = inside and row < size
                    at[j] = min(row, np.int32(size - 1))
                    some[j] = key(load(source + np.int64(at[j]) * stride))
                if not inside:
                    at[j] = -1
            for j in range(AT_ONCE):
                its_key = some[j]
                if turn > 0:
                    its_key = key_of(its_key, plan)
                hit = at[j] >= 0 and (its_key > bar or (its_key == bar and at[j] < bar_place))
                hits = lanes_where(1 if hit else 0)
                if hit:
                    before = np.int32(cuda.popc(np.int32(hits & lower)))
                    put(listed, places, begin + count + before, its_key, at[j])
                count = np.int32(count + cuda.popc(hits))
            first = np.int32(first + AT_ONCE * LANES)

        step, index_size = number(plan, OUT_STRIDE), number(plan, INDEX_SIZE)
        if lane < k:
            entry = get(listed, places, begin + lane)
            place = place_of(entry)
            to += np.int64(lane) * step
            bits, plain = bits_of(key_in(entry), plan)
            if not plain:
                bits = np.int64(load(source + place * stride))
            store(values + to * width, bits, 0)
            write_index(indices, index_size, to, place)

    return Kernel(choose_beside, 5, waits=True, shares=True)
