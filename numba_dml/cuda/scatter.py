"""The scatter kernels: the gather's loop nest with the arrow turned around.

Of updates that lead to one place the last one wins, whatever the threads do first: every point *claims* its place with
its number, the highest stays, and only its update is written. Points that are promised to be unique claim nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .._enums import TensorDataType as D
from . import SIMULATED, cuda, helper, kernel
from ._arithmetic import ROUNDED, combiner, unit_steps
from ._groups import GROUP, fetch_and_add, load_four, mover, shared_type, store_four
from ._launch import BLOCK, LANES, Kernel
from ._memory import (
    await_inputs,
    claim_access,
    combine_now,
    exchange_if,
    load_i64,
    load_now,
    load_two_now,
    shared_address,
    store_now,
    sum_of_lanes,
    unit_access,
)
from ._plan import BOUNDS, DROP, GRANULE, HEADER, LOWEST, SLICE, number, numbers_in, quotient
from ._slices import NOWHERE, slice_mover, slices_of_warp
from ._sorting import WARPS, pair_access, pair_fields
from .gather import places

#: Up to so many units or points a thread has one, see `gather.FEW_UNITS`; where they go is met at random, so that it is
#: more of them: 1M units of 16 bytes, of which half are replaced, take 19 µs and 21, 4M 47 and 46.
FEW_UNITS = 12 if SIMULATED else 1 << 20
#: Before the claims: a word that says that an index is bad, and what aligns an entry.
FLAG_BYTES = 16
#: Bytes of an entry of the table that few points have instead of a claim for each place, and what it holds at first;
#: how many are looked at at once.
ENTRY_BYTES, EMPTY, ENTRIES = 8, -1, 4

#: Reductions of integers of 4 and 8 bytes leave the same bits in any order: the memory combines them. 10M sums into
#: 100M int32 take 0.78 ms, 1.28 if updates are sorted first; into three places 3.1 and 7.1.
COMBINED = ("add", "min", "max"), (D.INT32, D.UINT32, D.INT64, D.UINT64)
#: Up to so many points and places a pair of them takes 8 bytes, otherwise 16.
MOST_SHORT = 50 if SIMULATED else (1 << 32) - 1
#: Threads of a block that has an output, or claims, of its own; as many as can be, since what blocks have of their own
#: comes on top: 10M sums into 14,000 int32 take 0.21 ms with 256, and 0.12.
OWNERS = BLOCK if SIMULATED else 1024
#: Up to so many points each is compared with all others, instead of a sort.
MOST_RANKED = 30 if SIMULATED else 2048
#: A place with more updates than that is folded by a block, not by a thread: 10M updates of 3 places take 32 ms to add
#: up float32, 7.6 int32, where a thread for each takes 1.5 s.
LONG = 5 if SIMULATED else 256
#: Threads of such a block that fold, an element each; the others load what comes next, into so many words at a time.
FOLDERS = 2 if SIMULATED else LANES
LOADED = 8 if SIMULATED else 2048
#: Blocks for the places with many updates.
LONG_BLOCKS = 3 if SIMULATED else 1056


@helper
def number_of_place(plan, place):
    """Return the number of a place, counted from the lowest."""
    return quotient(place - number(plan, LOWEST), plan, GRANULE)


@helper
def spread(place):
    """Return 32 bits that any two neighbours, or multiples, have in no order: where a table has its entry."""
    word = (place ^ (place >> 32)) & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return word ^ (word >> 16)


@cache
def claiming(claim_bytes: int, tabled: bool):
    """Return ``claim(claims, last_entry, place, point)``, and ``holds``, which tells later whether the claim stayed.

    A place is a number. Each has a claim of 4 or 8 bytes, for the number of a point; 0: there are none. Or there is a
    table of ``last_entry + 1`` entries, a power of two, of which half stay empty or more. A place has the one where
    `spread` leads, or the first of its group, or of the next ones, that was empty when it came. It holds both numbers,
    in one that counts the places.
    """
    raise_claim, load_claim = claim_access(ENTRY_BYTES if tabled else claim_bytes or 4)
    load_two, _ = unit_access(2 * ENTRY_BYTES)

    @helper
    def claim(claims, last_entry, place, point):
        if claim_bytes > 0:
            raise_claim(claims + FLAG_BYTES + claim_bytes * place, point)

    @helper
    def holds(claims, last_entry, place, point):
        if claim_bytes == 0:
            return True
        return load_claim(claims + FLAG_BYTES + claim_bytes * place) == point

    @helper
    def take(entry, found, last_entry, word):
        """Claim an entry that held something a while ago; tell whether it is that of the place."""
        if found == EMPTY:
            found = exchange_if(entry, EMPTY, word)
            if found == EMPTY:
                return True
        if found ^ word > last_entry:
            return False
        if found < word:
            raise_claim(entry, word)
        return True

    @helper
    def enter(claims, last_entry, place, point):
        word = place * (last_entry + 1) + point
        at = spread(place) & last_entry
        entry = claims + FLAG_BYTES + ENTRY_BYTES * at
        # Most places find this one empty, and have not to look first.
        found = exchange_if(entry, EMPTY, word)
        waiting = found != EMPTY and not take(entry, found, last_entry, word)
        at &= -ENTRIES
        while waiting:
            entry = claims + FLAG_BYTES + ENTRY_BYTES * at
            a, b = load_two_now(entry)
            c, d = load_two_now(entry + 2 * ENTRY_BYTES)
            waiting = not (
                take(entry, a, last_entry, word)
                or take(entry + ENTRY_BYTES, b, last_entry, word)
                or take(entry + 2 * ENTRY_BYTES, c, last_entry, word)
                or take(entry + 3 * ENTRY_BYTES, d, last_entry, word)
            )
            at = (at + ENTRIES) & last_entry

    @helper
    def has_entry(claims, last_entry, place, point):
        word = place * (last_entry + 1) + point
        at = spread(place) & last_entry & -ENTRIES
        while True:
            entry = claims + FLAG_BYTES + ENTRY_BYTES * at
            a, b = load_two(entry)
            c, d = load_two(entry + 2 * ENTRY_BYTES)
            if a == word or b == word or c == word or d == word:
                return True
            if min(a ^ word, b ^ word, c ^ word, d ^ word) <= last_entry:  # another point has it
                return False
            at = (at + ENTRIES) & last_entry

    return (enter, has_entry) if tabled else (claim, holds)


@cache
def claim_kernel(index_type: str, loops: int, coords: int, outer: int, claim_bytes: int, tabled: bool) -> Kernel:
    """Return the kernel that looks at all indices, and claims the places that they lead to; see `claiming`.

    Blocks behind those copy: the memory is waited for once.
    """
    place_of_point, *_ = places(index_type, loops, coords, outer)
    claim, _ = claiming(claim_bytes, tabled)
    move = mover(1, BLOCK)

    @helper
    def look(plan, index, record, claims, last_entry, point, end):
        """Tell whether the index of a point is bad; claim the place of a good one."""
        if point < end:
            place = place_of_point(plan, index, record, -1, point)
            if place == NOWHERE:
                return True
            claim(claims, last_entry, number_of_place(plan, place), point)
        return False

    @kernel
    def claim_places(
        index,  # IN      address of the packed indices
        plan,  # IN      the plan
        record,  # OUT     where a bad index is recorded
        launch,  # IN      the number of this launch
        claims,  # IN OUT  address of the flag, whose bits are set, and of the claims; 0: there are none
        last_entry,  # IN      the last entry of a table
        points,  # IN      how many points there are
        share,  # IN      how many points a block handles
        claimers,  # IN      how many blocks do
        to,  # OUT     address of a copy
        fro,  # IN      address of what is copied
        size,  # IN      how many bytes that is
        copied,  # IN      how many of them a block copies
    ):
        await_inputs()
        block = np.int64(cuda.blockIdx.x)
        if block >= claimers:
            begin = (block - claimers) * copied
            move(to + begin, fro + begin, min(copied, size - begin))
            return
        begin = block * share
        a = begin + np.int64(cuda.threadIdx.x)
        end = min(begin + share, points)
        bad = look(plan, index, record, claims, last_entry, a, end)
        bad |= look(plan, index, record, claims, last_entry, a + BLOCK, end)
        bad |= look(plan, index, record, claims, last_entry, a + 2 * BLOCK, end)
        bad |= look(plan, index, record, claims, last_entry, a + 3 * BLOCK, end)
        if bad:
            if claims != 0:
                store_now(claims, 0)
            for point in range(a, end, BLOCK):
                place_of_point(plan, index, record, launch, point)

    return Kernel(claim_places, 13, plan=(1, numbers_in(loops, coords, outer)))


@cache
def combine_few_kernel(
    width: int, index_type: str, loops: int, coords: int, outer: int, combined: tuple[str, str] | None
) -> Kernel:
    """Return the kernel that combines many updates with few integers: those of a block among themselves first.

    10M sums into 256 int32 take 0.084 ms so, and 2.6 if the memory combines them all; into one of them 0.089 and 7.3.

    Without `combined` it claims places, to be exact it combines their claims, of 4 bytes, with the numbers of points,
    of which the highest stays: for 64M updates of 1000 float32 that takes 0.30 ms, and 5.6 if all claim in device
    memory; of one of them 0.35 and 47.
    """
    claims = combined is None
    operation, name = combined or ("max", "int32")
    combine_own, combine = combine_now(operation, name, "shared"), combine_now(operation, name)
    limits = np.iinfo(name)
    # What changes nothing, as a signed number.
    neutral = int({"add": np.dtype(name).type(0), "min": limits.max, "max": limits.min}[operation])
    neutral -= 1 << (8 * width) if neutral > np.iinfo(f"int{8 * width}").max else 0
    load, _ = unit_access(width)
    place_of_point, place_in_slice, _ = places(index_type, loops, coords, outer)
    word = shared_type(f"int{8 * width}")

    @helper
    def point_of(plan, unit):
        return unit if claims else quotient(unit, plan, SLICE)

    @helper
    def place_of(plan, index, unit, end):
        if unit >= end:
            return np.int64(0)
        point = point_of(plan, unit)
        place = place_of_point(plan, index, np.int64(0), -1, point)
        if place == NOWHERE:
            return place
        if claims:
            return width * number_of_place(plan, place)
        return place + place_in_slice(plan, unit - point * number(plan, SLICE), width)

    @helper
    def meet(own, packed, place, unit, end):
        """Combine an update with the block's element; tell whether the index is bad."""
        if unit < end and place != NOWHERE:
            value = unit
            if not claims:
                value, _ = load(packed + unit * width)
            combine_own(own + place, value)
        return place == NOWHERE

    @kernel(registers=64)
    def combine_few(
        data,  # IN OUT  address of the output's first element, or of the claims, whose bits are set
        index,  # IN      address of the packed indices
        packed,  # IN      address of the packed updates, if there are any
        plan,  # IN      the plan
        record,  # OUT     where a bad index is recorded
        launch,  # IN      the number of this launch, -1: the indices have been looked at
        flag,  # IN OUT  address of a word that is 0 if an index is bad; 0: write in any case. Claims say so there
        count,  # IN      how many elements the output has, or claims
        units,  # IN      how many the updates have, or points
        share,  # IN      how many of them a block handles
    ):
        await_inputs()
        if not claims and flag != 0 and load_now(flag) == 0:
            return
        own = cuda.shared.array(0, word)
        thread = np.int64(cuda.threadIdx.x)
        for i in range(thread, count, OWNERS):
            own[np.uint32(i)] = neutral
        cuda.syncthreads()
        begin = np.int64(cuda.blockIdx.x) * share
        end = min(begin + share, units)
        to = np.int64(shared_address(own))
        bad = False
        for a in range(begin + thread, end, 4 * OWNERS):
            b, c, d = a + OWNERS, a + 2 * OWNERS, a + 3 * OWNERS
            place_a, place_b = place_of(plan, index, a, end), place_of(plan, index, b, end)
            place_c, place_d = place_of(plan, index, c, end), place_of(plan, index, d, end)
            bad |= meet(to, packed, place_a, a, end)
            bad |= meet(to, packed, place_b, b, end)
            bad |= meet(to, packed, place_c, c, end)
            bad |= meet(to, packed, place_d, d, end)
        if bad:
            if claims:
                store_now(flag, 0)
            if launch >= 0 and number(plan, BOUNDS) != DROP:
                for unit in range(begin + thread, end, OWNERS):
                    place_of_point(plan, index, record, launch, point_of(plan, unit))
        cuda.syncthreads()
        for i in range(thread, count, OWNERS):
            if own[np.uint32(i)] != neutral:
                combine(data + width * i, np.int64(own[np.uint32(i)]))

    given = numbers_in(loops, coords, outer)
    return Kernel(combine_few, 10, plan=(3, given), waits=True, shares=True, threads=OWNERS)


@cache
def scatter_kernel(
    width: int,
    index_type: str,
    loops: int,
    coords: int,
    outer: int,
    claim_bytes: int,
    tabled: bool,
    combined: tuple[str, str] | None,
) -> Kernel:
    """Return the kernel that writes units of `width` bytes to where their points' indices lead; see `claiming`.

    Or that combines them, by an operation for a type, with what is there: see `_memory.combine_now`.
    """
    load, store = unit_access(width)
    if combined:
        combine = combine_now(*combined)

        @helper
        def store(address, first, second):
            combine(address, first)

    _, holds = claiming(claim_bytes, tabled)
    place_of_point, place_in_slice, _ = places(index_type, loops, coords, outer)

    @helper
    def place_of(plan, index, record, claims, last_entry, unit, end):
        if unit >= end:
            return np.int64(NOWHERE)
        point = quotient(unit, plan, SLICE)
        place = place_of_point(plan, index, record, -1, point)
        if place == NOWHERE:
            return place
        if not holds(claims, last_entry, number_of_place(plan, place), point):
            return np.int64(NOWHERE)
        return place + place_in_slice(plan, unit - point * number(plan, SLICE), width)

    @helper
    def load_update(packed, unit, place):
        if place == NOWHERE:
            return np.int64(0), np.int64(0)
        return load(packed + unit * width)

    @helper
    def put(data, place, value):
        if place != NOWHERE:
            store(data + place, value[0], value[1])

    @kernel(registers=40)  # it would take 48
    def scatter_units(
        data,  # OUT  address of the output's first element
        index,  # IN   address of the packed indices
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: the indices have been looked at
        claims,  # IN   address of the flag and of the claims
        last_entry,  # IN   the last entry of a table
        all_or_none,  # IN   1: write nothing if an index is bad
        units,  # IN   how many units the updates have
        share,  # IN   how many of them a block moves
    ):
        await_inputs()
        if all_or_none != 0 and load_now(claims) == 0:
            return
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        b, c, d = a + BLOCK, a + 2 * BLOCK, a + 3 * BLOCK
        end = min(begin + share, units)
        to_a = place_of(plan, index, record, claims, last_entry, a, end)
        to_b = place_of(plan, index, record, claims, last_entry, b, end)
        to_c = place_of(plan, index, record, claims, last_entry, c, end)
        to_d = place_of(plan, index, record, claims, last_entry, d, end)
        value_a = load_update(packed, a, to_a)
        value_b = load_update(packed, b, to_b)
        value_c = load_update(packed, c, to_c)
        value_d = load_update(packed, d, to_d)
        put(data, to_a, value_a)
        put(data, to_b, value_b)
        put(data, to_c, value_c)
        put(data, to_d, value_d)
        bad = to_a == NOWHERE or to_b == NOWHERE or to_c == NOWHERE or to_d == NOWHERE
        if launch >= 0 and bad and (to_a == NOWHERE or b < end):  # a thread with one unit has no others
            for unit in range(a, end, BLOCK):
                place_of_point(plan, index, record, launch, quotient(unit, plan, SLICE))

    return Kernel(scatter_units, 11, plan=(3, numbers_in(loops, coords, outer)))


@cache
def scatter_slices_kernel(
    width: int, index_type: str, loops: int, coords: int, claim_bytes: int, tabled: bool
) -> Kernel:
    """Return what `scatter_kernel` is for slices of narrow units, by warps, without combining; see `_slices`."""
    _, holds = claiming(claim_bytes, tabled)
    place_of_point, _, _ = places(index_type, loops, coords, 0)
    move_slices = slice_mover(width, True)

    @kernel
    def scatter_slices(
        data,  # OUT  address of the output's first element
        index,  # IN   address of the packed indices
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch, -1: the indices have been looked at
        claims,  # IN   address of the flag and of the claims
        last_entry,  # IN   the last entry of a table
        all_or_none,  # IN   1: write nothing if an index is bad
        points,  # IN   how many points there are
        share,  # IN   how many of them a warp has
    ):
        await_inputs()
        if all_or_none != 0 and load_now(claims) == 0:
            return
        first, count, lane = slices_of_warp(points, share)
        if count <= 0:
            return
        at = np.int64(NOWHERE)
        if lane < count:
            place = place_of_point(plan, index, record, launch, first + lane)
            if place != NOWHERE and holds(claims, last_entry, number_of_place(plan, place), first + lane):
                at = data + place
        move_slices(packed + first * number(plan, SLICE) * width, at, plan, count, lane)

    return Kernel(scatter_slices, 11, plan=(3, numbers_in(loops, coords, 0)), waits=True)


@cache
def entry_kernel(width: int) -> Kernel:
    """Return the kernel that writes the updates in a table of claims, slices of one unit; see `claiming`.

    It reads the table in its order, and neither the indices again nor entries at random: 900k updates of 30M elements
    of 1 byte are written in 28 µs, and in 50 point by point.
    """
    load, store = unit_access(width)
    load_two, _ = unit_access(2 * ENTRY_BYTES)

    @helper
    def load_update(packed, last_entry, word):
        return load(packed + (word & last_entry) * width) if word != EMPTY else (np.int64(0), np.int64(0))

    @helper
    def put(start, granule, bits, word, value):
        if word != EMPTY:
            store(start + (word >> bits) * granule, value[0], value[1])

    @kernel
    def write_entries(
        data,  # OUT  address of the output's first element
        lowest,  # IN   where the lowest place is from there
        granule,  # IN   bytes from one place to the next
        packed,  # IN   address of the packed updates
        claims,  # IN   address of the flag and of the table
        bits,  # IN   how many bits of an entry are a point
        all_or_none,  # IN   1: write nothing if an index is bad
    ):
        await_inputs()
        if all_or_none != 0 and load_now(claims) == 0:
            return
        last_entry = (np.int64(1) << bits) - 1
        start = data + lowest
        i = ENTRIES * (np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x))
        if i <= last_entry:
            a, b = load_two(claims + FLAG_BYTES + ENTRY_BYTES * i)
            c, d = load_two(claims + FLAG_BYTES + ENTRY_BYTES * (i + 2))
            value_a, value_b = load_update(packed, last_entry, a), load_update(packed, last_entry, b)
            value_c, value_d = load_update(packed, last_entry, c), load_update(packed, last_entry, d)
            put(start, granule, bits, a, value_a)
            put(start, granule, bits, b, value_b)
            put(start, granule, bits, c, value_c)
            put(start, granule, bits, d, value_d)

    return Kernel(write_entries, 7)


@cache
def merge_kernel(width: int, claim_bytes: int) -> Kernel:
    """Return the kernel that writes a whole output: to each place the update that claims it, or what was there.

    Nothing is copied that an update replaces: 5M rows of 256 bytes into 10M take 1.36 ms, and 2.05 after a copy.
    """
    load, store = unit_access(width)
    _, load_claim = claim_access(claim_bytes)

    @helper
    def source_of(old, packed, plan, claims, unit):
        place = quotient(unit, plan, SLICE)
        point = load_claim(claims + FLAG_BYTES + claim_bytes * place)
        if point < 0:
            return old + unit * width
        return packed + (unit + (point - place) * number(plan, SLICE)) * width

    @kernel
    def merge_units(
        data,  # OUT  address of the output's first element
        old,  # IN   the same of what is there otherwise; packed, as the output is
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        claims,  # IN   address of the flag and of the claims, of which each slice of the output has one
        units,  # IN   how many units the output has
        share,  # IN   how many of them a block writes
    ):
        await_inputs()
        begin = np.int64(cuda.blockIdx.x) * share
        a = begin + np.int64(cuda.threadIdx.x)
        last = min(begin + share, units) - 1
        if share == BLOCK:
            if a <= last:
                value = load(source_of(old, packed, plan, claims, a))
                store(data + a * width, value[0], value[1])
            return
        b, c, d = min(a + BLOCK, last), min(a + 2 * BLOCK, last), min(a + 3 * BLOCK, last)
        if a <= last:  # the last unit may be written more than once
            from_a = source_of(old, packed, plan, claims, a)
            from_b = source_of(old, packed, plan, claims, b)
            from_c = source_of(old, packed, plan, claims, c)
            from_d = source_of(old, packed, plan, claims, d)
            value_a, value_b, value_c, value_d = load(from_a), load(from_b), load(from_c), load(from_d)
            store(data + a * width, value_a[0], value_a[1])
            store(data + b * width, value_b[0], value_b[1])
            store(data + c * width, value_c[0], value_c[1])
            store(data + d * width, value_d[0], value_d[1])

    return Kernel(merge_units, 7, plan=(3, HEADER))


@cache
def merge_slices_kernel(width: int, claim_bytes: int) -> Kernel:
    """Return what `merge_kernel` is for slices of narrow units, by warps; see `_slices`."""
    _, load_claim = claim_access(claim_bytes)
    move_slices = slice_mover(width, False)

    @kernel
    def merge_slices(
        data,  # OUT  address of the output's first element
        old,  # IN   the same of what is there otherwise; packed, as the output is
        packed,  # IN   address of the packed updates
        plan,  # IN   the plan
        claims,  # IN   address of the flag and of the claims, of which each slice of the output has one
        slices,  # IN   how many slices the output has
        share,  # IN   how many of them a warp has
    ):
        await_inputs()
        first, count, lane = slices_of_warp(slices, share)
        if count <= 0:
            return
        bytes_of_slice = number(plan, SLICE) * width
        place = min(first + lane, slices - 1)
        point = load_claim(claims + FLAG_BYTES + claim_bytes * place)
        at = old + place * bytes_of_slice if point < 0 else packed + point * bytes_of_slice
        move_slices(data + first * bytes_of_slice, at, plan, count, lane)

    return Kernel(merge_slices, 7, plan=(3, HEADER), waits=True)


@cache
def merge_elements_kernel(width: int) -> Kernel:
    """Return the same for elements of 1, 2 or 4 bytes, and claims of 4: four neighbours are written at once."""
    load, store = unit_access(width)
    _, load_claim = claim_access(4)
    load_claims, load_elements, store_elements = load_four("int32"), load_four(f"uint{8 * width}"), store_four(width)

    @helper
    def choose(packed, claim, old):
        if claim < 0:
            return old
        value, _ = load(packed + claim * width)
        return value

    @helper
    def merge_four(target, packed, claims, old):
        store_elements(
            target,
            choose(packed, claims[0], old[0]),
            choose(packed, claims[1], old[1]),
            choose(packed, claims[2], old[2]),
            choose(packed, claims[3], old[3]),
        )

    @kernel
    def merge_elements(
        data,  # OUT  address of the output's first element, a multiple of what four take, or of 16
        old,  # IN   the same of what is there otherwise
        packed,  # IN   address of the packed updates
        claims,  # IN   address of the flag and of the claims, of which each element of the output has one
        count,  # IN   how many elements the output has
    ):
        await_inputs()
        thread = np.int64(cuda.threadIdx.x)
        first_claim = claims + FLAG_BYTES
        groups = count // GROUP
        a = np.int64(cuda.blockIdx.x) * 2 * BLOCK + thread
        b = min(a + BLOCK, groups - 1)
        if a < groups:
            claims_a = load_claims(first_claim + 4 * GROUP * a)
            claims_b = load_claims(first_claim + 4 * GROUP * b)
            old_a, old_b = load_elements(old + GROUP * width * a), load_elements(old + GROUP * width * b)
            merge_four(data + GROUP * width * a, packed, claims_a, old_a)
            merge_four(data + GROUP * width * b, packed, claims_b, old_b)
        i = GROUP * groups + a
        if i < count:  # the first threads have what is left over
            value, _ = load(old + i * width)
            store(data + i * width, choose(packed, load_claim(first_claim + 4 * i), value), 0)

    return Kernel(merge_elements, 5)


@cache
def pair_kernel(index_type: str, loops: int, coords: int, outer: int, is_long: bool) -> Kernel:
    """Return the kernel that makes a pair of every point: the number of its place, and its own number."""
    _, pair_bytes, _, store_pair, _ = pair_access(is_long)
    place_of_point, *_ = places(index_type, loops, coords, outer)

    @kernel
    def make_pairs(
        index,  # IN   address of the packed indices
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        flag,  # OUT  address of a word that becomes 0 if an index is bad
        points,  # IN   how many points there are
        nowhere,  # IN   the key of points that are dropped, behind all others
        pairs,  # OUT  address of (points,) pairs
    ):
        await_inputs()
        point = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if point < points:
            place = place_of_point(plan, index, record, launch, point)
            key = nowhere
            if place == NOWHERE:
                store_now(flag, 0)
            else:
                key = number_of_place(plan, place)
            store_pair(pairs + pair_bytes * point, key, point)

    return Kernel(make_pairs, 8, plan=(1, numbers_in(loops, coords, outer)))


@cache
def rank_kernel(index_type: str, loops: int, coords: int, outer: int, is_long: bool) -> Kernel:
    """Return the kernel that makes the pairs of few points in the order of their places; see `pair_kernel`.

    Every block looks at all points, and its warps count how many pairs come before one.
    """
    _, pair_bytes, _, store_pair, _ = pair_access(is_long)
    place_of_point, *_ = places(index_type, loops, coords, outer)
    most = MOST_RANKED

    @helper
    def key_of(plan, index, nowhere, point, points):
        place = place_of_point(plan, index, np.int64(0), -1, min(point, points - 1))
        return nowhere if place == NOWHERE else number_of_place(plan, place)

    @helper
    def keep(keys, key, nowhere, point, points):
        """Keep the key of a point; tell whether its index is bad."""
        if point < points:
            keys[point] = key
        return point < points and key == nowhere

    @kernel
    def rank_pairs(
        index,  # IN   address of the packed indices
        plan,  # IN   the plan
        record,  # OUT  where a bad index is recorded
        launch,  # IN   the number of this launch
        flag,  # OUT  address of a word that becomes 0 if an index is bad
        points,  # IN   how many points there are
        nowhere,  # IN   the key of points that are dropped, behind all others
        pairs,  # OUT  address of (points,) pairs
    ):
        await_inputs()
        keys = cuda.shared.array(most, np.int64)
        thread = np.int64(cuda.threadIdx.x)
        bad = False
        for a in range(thread, points, 4 * BLOCK):
            b, c, d = a + BLOCK, a + 2 * BLOCK, a + 3 * BLOCK
            key_a, key_b = key_of(plan, index, nowhere, a, points), key_of(plan, index, nowhere, b, points)
            key_c, key_d = key_of(plan, index, nowhere, c, points), key_of(plan, index, nowhere, d, points)
            bad |= keep(keys, key_a, nowhere, a, points)
            bad |= keep(keys, key_b, nowhere, b, points)
            bad |= keep(keys, key_c, nowhere, c, points)
            bad |= keep(keys, key_d, nowhere, d, points)
        if bad and cuda.blockIdx.x == 0:
            store_now(flag, 0)
            if number(plan, BOUNDS) != DROP:
                for point in range(thread, points, BLOCK):
                    place_of_point(plan, index, record, launch, point)
        cuda.syncthreads()
        lane = thread % LANES
        point = np.int64(cuda.blockIdx.x) * WARPS + thread // LANES
        if point < points:  # all lanes of a warp, or none
            own = keys[point]
            before = np.int32(0)
            for other in range(lane, points, LANES):
                if keys[other] < own or (keys[other] == own and other < point):
                    before += np.int32(1)
            before = sum_of_lanes(before)
            if lane == LANES - 1:
                store_pair(pairs + pair_bytes * np.int64(before), own, point)

    return Kernel(rank_pairs, 8, plan=(1, numbers_in(loops, coords, outer)), waits=True)


@cache
def fold_kernel(data_type, reduction: str, width: int, counts: tuple[int, int, int], is_long: bool) -> Kernel:
    """Return the kernel that combines all updates of a place with what is there, in their order, by units of a width.

    Places with many updates it puts on a list, for `fold_many_kernel`.

    What is there and the first two updates are loaded before it is known whether another thread folds the place, and
    later updates four at a time: 1M rows of 64 float32 into as many take 0.25 ms in place so, and 0.47 by single
    elements, one load after the other; 5M rows into 100,000 1.1 and 1.9.
    """
    load, store = unit_access(width)
    load_key, load_point = pair_fields(is_long)
    combine, exact, has_nan = unit_steps(data_type, reduction, width)
    _, place_in_slice, _ = places("int64", *counts)

    @helper
    def load_update(packed, plan, point, unit):
        return load(packed + (point * number(plan, SLICE) + unit) * width)

    @helper
    def fold_four(value, packed, plan, pairs, points, key, i, unit):
        """Combine a value with the updates of the next four pairs that have a key; return how many these are."""
        last = points - 1
        b, c, d = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        point = load_point(pairs, i)
        point_b, point_c, point_d = load_point(pairs, b), load_point(pairs, c), load_point(pairs, d)
        count = np.int64(1)
        count += i + 1 < points and load_key(pairs, b) == key
        count += i + 2 < points and load_key(pairs, c) == key
        count += i + 3 < points and load_key(pairs, d) == key
        new_a = load_update(packed, plan, point, unit)
        new_b = load_update(packed, plan, point_b if count > 1 else point, unit)
        new_c = load_update(packed, plan, point_c if count > 2 else point, unit)
        new_d = load_update(packed, plan, point_d if count > 3 else point, unit)
        value = combine(value[0], value[1], new_a[0], new_a[1])
        if count > 1:
            value = combine(value[0], value[1], new_b[0], new_b[1])
        if count > 2:
            value = combine(value[0], value[1], new_c[0], new_c[1])
        if count > 3:
            value = combine(value[0], value[1], new_d[0], new_d[1])
        return value, count

    @kernel(registers=40)
    def fold_updates(
        data,  # IN OUT  address of the output's first element
        packed,  # IN      address of the packed updates
        plan,  # IN      the plan
        flag,  # IN      address of a word that is 0 if an index is bad
        all_or_none,  # IN      1: write nothing if an index is bad
        pairs,  # IN      address of (points,) sorted pairs
        points,
        nowhere,  # IN      the key of points that are dropped
        long_count,  # IN OUT  address of the number of places with many updates, less one
        longs,  # OUT     address of the first pairs of these places
    ):
        await_inputs()
        if all_or_none != 0 and load_now(flag) == 0:
            return
        item = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        i = quotient(item, plan, SLICE)
        if i >= points:
            return
        unit = item - i * number(plan, SLICE)
        second = min(i + 1, points - 1)
        key, point = load_key(pairs, i), load_point(pairs, i)
        before, far = load_key(pairs, max(i - 1, 0)), load_key(pairs, min(i + LONG, points - 1))
        after, next_point = load_key(pairs, second), load_point(pairs, second)
        place = data + number(plan, LOWEST) + key * number(plan, GRANULE) + place_in_slice(plan, unit, width)
        several = second > i and after == key
        value = load(place if key != nowhere else packed)  # which can be read as well
        new = load_update(packed, plan, point, unit)
        newer = load_update(packed, plan, next_point if several else point, unit)
        if key == nowhere or (i > 0 and before == key):
            return  # the first point of a place does it for all
        if i + LONG < points and far == key:
            if unit == 0:
                store_now(longs + 8 * (fetch_and_add(long_count, np.int64(1)) + 1), i)
            return
        value = combine(value[0], value[1], new[0], new[1])
        if several:
            value = combine(value[0], value[1], newer[0], newer[1])
            at = i + 2
            while at < points and load_key(pairs, at) == key:
                value, count = fold_four(value, packed, plan, pairs, points, key, at, unit)
                at += count
        if has_nan(value[0], value[1]):
            value = load(place)
            while i < points and load_key(pairs, i) == key:
                new = load_update(packed, plan, load_point(pairs, i), unit)
                value = exact(value[0], value[1], new[0], new[1])
                i += 1
        store(place, value[0], value[1])

    return Kernel(fold_updates, 10, plan=(2, numbers_in(*counts)))


@cache
def place_finder(is_long: bool):
    """Return how to find where a place's pairs end."""
    load_key, _ = pair_fields(is_long)

    @helper
    def end_of_place(pairs, points, i):
        """Return where the pairs of a place end, of which the one at `i` and at `i + LONG` are two."""
        key = load_key(pairs, i)
        step = np.int64(LONG)
        low = i
        while low + step < points and load_key(pairs, low + step) == key:
            low += step
            step *= 2
        high = min(low + step, points)  # another place's, or the end
        while high - low > 1:
            middle = (low + high) >> 1
            if load_key(pairs, middle) == key:
                low = middle
            else:
                high = middle
        return high

    return end_of_place


@cache
def fold_many_kernel(data_type, reduction: str, width: int, counts: tuple[int, int, int], is_long: bool) -> Kernel:
    """Return the kernel that folds the updates of places that have many, a block those of one.

    Sums and products of floats are combined in their order by one warp, while the others bring the next updates to
    shared memory. All else can be combined in any order, by all threads, if of two equal numbers, which may be zeros of
    either sign, the earlier one stays.
    """
    if reduction in ("min", "max") or data_type not in ROUNDED:
        return _fold_in_any_order_kernel(data_type, reduction, width, counts, is_long)
    load, store = unit_access(width)
    load_key, load_point = pair_fields(is_long)
    end_of_place = place_finder(is_long)
    fast, exact, has_nan = unit_steps(data_type, reduction, width)
    _, place_in_slice, _ = places("int64", *counts)
    words = 2 if width == 16 else 1
    buffer = 2 * LOADED
    word = shared_type("int64")

    @helper
    def bring(loaded, begin, pairs, packed, i, rows, elements, j, wide):
        """Load `wide` elements from `j` on of the updates of `rows` pairs."""
        for k in range(np.int64(cuda.threadIdx.x) - FOLDERS, rows * wide, BLOCK - FOLDERS):
            row = k // wide
            point = load_point(pairs, i + row)
            first, second = load(packed + (point * elements + j + k - row * wide) * width)
            loaded[np.uint32(begin + words * k)] = first
            if words == 2:
                loaded[np.uint32(begin + words * k + 1)] = second

    @helper
    def take(loaded, at):
        return loaded[np.uint32(at)], loaded[np.uint32(at + 1)] if words == 2 else np.int64(0)

    def folding(combine):
        @helper
        def fold(first, second, loaded, at, rows, step):
            row = np.int64(0)
            while row + 4 <= rows:  # four at a time, so that they come while others are combined
                a, b = take(loaded, at), take(loaded, at + step)
                c, d = take(loaded, at + 2 * step), take(loaded, at + 3 * step)
                first, second = combine(first, second, a[0], a[1])
                first, second = combine(first, second, b[0], b[1])
                first, second = combine(first, second, c[0], c[1])
                first, second = combine(first, second, d[0], d[1])
                at += 4 * step
                row += 4
            for _ in range(row, rows):
                a = take(loaded, at)
                first, second = combine(first, second, a[0], a[1])
                at += step
            return first, second

        return fold

    fold_fast, fold_exactly = folding(fast), folding(exact)

    @kernel
    def fold_many(
        data,  # IN OUT  address of the output's first element
        packed,  # IN      address of the packed updates
        plan,  # IN      the plan, for units of one element
        pairs,  # IN      address of (points,) sorted pairs
        points,
        long_count,  # IN      address of the number of places, less one
        longs,  # IN      address of their first pairs
        blocks,  # IN      how many blocks there are
    ):
        await_inputs()
        loaded = cuda.shared.array(buffer, word)
        thread = np.int64(cuda.threadIdx.x)
        elements = number(plan, SLICE)
        chunks = (elements + FOLDERS - 1) // FOLDERS
        for item in range(np.int64(cuda.blockIdx.x), (load_i64(long_count) + 1) * chunks, blocks):
            place_number = item // chunks
            j = (item - place_number * chunks) * FOLDERS
            wide = min(elements - j, FOLDERS)
            i = load_i64(longs + 8 * place_number)
            end = end_of_place(pairs, points, i)
            place = data + number(plan, LOWEST) + load_key(pairs, i) * number(plan, GRANULE)
            first, second = np.int64(0), np.int64(0)
            folds = thread < wide
            if folds:
                place += place_in_slice(plan, j + thread, width)
                first, second = load(place)
            most = LOADED // (words * wide)
            if thread >= FOLDERS:
                bring(loaded, 0, pairs, packed, i, min(most, end - i), elements, j, wide)
            cuda.syncthreads()
            begin = np.int64(0)
            while i < end:
                rows = min(most, end - i)
                i += rows
                if folds:
                    at = begin + words * thread
                    found = fold_fast(first, second, loaded, at, rows, words * wide)
                    if has_nan(found[0], found[1]):
                        found = fold_exactly(first, second, loaded, at, rows, words * wide)
                    first, second = found
                elif thread >= FOLDERS and i < end:
                    bring(loaded, LOADED - begin, pairs, packed, i, min(most, end - i), elements, j, wide)
                begin = LOADED - begin
                cuda.syncthreads()
            if folds:
                store(place, first, second)

    return Kernel(fold_many, 8, plan=(2, numbers_in(*counts)), waits=True)


@cache
def _fold_in_any_order_kernel(
    data_type, reduction: str, width: int, counts: tuple[int, int, int], is_long: bool
) -> Kernel:
    """Return the kernel for integers, and for min and max."""
    load, store = unit_access(width)
    load_key, load_point = pair_fields(is_long)
    end_of_place = place_finder(is_long)
    combine = combiner(data_type, reduction, width)
    _, place_in_slice, _ = places("int64", *counts)
    word = shared_type("int64")
    threads = BLOCK

    @helper
    def fold(value, row, new, new_row):
        """Combine two numbers, the earlier one first; rows say where each is from."""
        if row <= new_row:
            folded, _ = combine(value, np.int64(0), new, np.int64(0))
            return folded, row if folded == value else new_row
        folded, _ = combine(new, np.int64(0), value, np.int64(0))
        return folded, new_row if folded == new else row

    @kernel
    def fold_many_in_any_order(
        data,  # IN OUT  address of the output's first element
        packed,  # IN      address of the packed updates
        plan,  # IN      the plan, for units of one element
        pairs,  # IN      address of (points,) sorted pairs
        points,
        long_count,  # IN      address of the number of places, less one
        longs,  # IN      address of their first pairs
        blocks,  # IN      how many blocks there are
    ):
        await_inputs()
        values = cuda.shared.array(threads, word)
        rows = cuda.shared.array(threads, word)
        thread = np.int64(cuda.threadIdx.x)
        elements = number(plan, SLICE)
        chunks = (elements + FOLDERS - 1) // FOLDERS
        for item in range(np.int64(cuda.blockIdx.x), (load_i64(long_count) + 1) * chunks, blocks):
            place_number = item // chunks
            j = (item - place_number * chunks) * FOLDERS
            wide = min(elements - j, FOLDERS)
            i = load_i64(longs + 8 * place_number)
            end = end_of_place(pairs, points, i)
            lanes = BLOCK // wide  # threads that share an element
            lane = thread // wide
            j += thread - lane * wide
            value, row = np.int64(0), np.int64(-1)
            if lane < lanes and i + lane < end:
                for k in range(i + lane, end, 4 * lanes):
                    a = load_point(pairs, k)
                    b = load_point(pairs, min(k + lanes, end - 1))
                    c = load_point(pairs, min(k + 2 * lanes, end - 1))
                    d = load_point(pairs, min(k + 3 * lanes, end - 1))
                    new_a, _ = load(packed + (a * elements + j) * width)
                    new_b, _ = load(packed + (b * elements + j) * width)
                    new_c, _ = load(packed + (c * elements + j) * width)
                    new_d, _ = load(packed + (d * elements + j) * width)
                    if row < 0:
                        value, row = new_a, k
                    else:
                        value, row = fold(value, row, new_a, k)
                    if k + lanes < end:
                        value, row = fold(value, row, new_b, k + lanes)
                    if k + 2 * lanes < end:
                        value, row = fold(value, row, new_c, k + 2 * lanes)
                    if k + 3 * lanes < end:
                        value, row = fold(value, row, new_d, k + 3 * lanes)
            values[np.uint32(thread)] = value
            rows[np.uint32(thread)] = row
            cuda.syncthreads()
            if lane == 0:
                place = data + number(plan, LOWEST) + load_key(pairs, i) * number(plan, GRANULE)
                place += place_in_slice(plan, j, width)
                value, _ = load(place)
                row = np.int64(-1)
                for other in range(thread, lanes * wide, wide):
                    if rows[np.uint32(other)] >= 0:
                        value, row = fold(value, row, values[np.uint32(other)], rows[np.uint32(other)])
                store(place, value, np.int64(0))
            cuda.syncthreads()

    return Kernel(fold_many_in_any_order, 8, plan=(2, numbers_in(*counts)), waits=True)
