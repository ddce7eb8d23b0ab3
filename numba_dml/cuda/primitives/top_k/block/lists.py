"""Lists of the elements that reach a bar: only chunks, groups and units whose best key does are looked into."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ....driver.compile import helper
from ....driver.numba import cuda
from ...sums import add_up_threads
from ..ends import end_access
from ..keys import key_access, key_type
from ..plan import FLIP
from .units import AT_ONCE, BITS, place_type, source_units

#: Of groups of up to this many units, as a power of two, all elements become keys; of others a unit's best one first,
#: to tell whether there is any that is wanted.
FEW_UNITS = 2
#: Keys that a thread has in registers, of some of the units that it looks at together.
KEYS_AT_ONCE = 8


class Batch(NamedTuple):
    """How many units a thread lists the keys of together."""

    of_quad: int  #: keys of a unit
    together: int  #: units
    keys: int  #: of these


def batch_of(width: int) -> Batch:
    """Return what a thread lists together, of elements of a width."""
    of_quad = 16 // width
    together = max(1, min(AT_ONCE, KEYS_AT_ONCE // of_quad))
    return Batch(of_quad, together, together * of_quad)


@cache
def _placing(width: int, is_float: bool, is_long: bool):
    """Return ``place_units(memory, source, c, total, count, firsts)``.

    It lists where a batch of a thread's units begins, of `total`, and returns the least of these, or 0, and the most.
    Past the end of the units the last one is listed again.
    """
    units, place = source_units(width, is_float, is_long), place_type(is_long)
    unit_of, first_of = units.unit_of, units.first_of

    @helper
    def place_units(memory, source, c, total, count, firsts):
        threads, last = place(cuda.blockDim.x), place(total - 1)
        least, most = place(0), place(0)
        for j in range(count):
            firsts[j] = first_of(source, unit_of(memory, min(place(c + j * threads), last)))
            least, most = min(least, firsts[j]), max(most, firsts[j])
        return least, most

    return place_units


@cache
def hit_finder(width: int, is_float: bool, is_long: bool):
    """Return ``units_with(memory, plan, bar, c, total, all_of_them)``.

    It returns, as bits, which of a thread's four of `total` units reach a bar, or those that exist if all of them do.
    All are loaded before one is looked at.
    """
    access = key_access(width, is_float, FLIP)
    key_at, bests_of_quads = access.key_at, access.bests_of_quads
    best_inside = end_access(width, is_float)
    units = source_units(width, is_float, is_long)
    source_of, best_of_keys = units.source_of, units.best_of_keys
    place_units = _placing(width, is_float, is_long)
    key, place = key_type(width), place_type(is_long)
    key_bytes = key(0).itemsize

    @helper
    def put_bests(source, plan, firsts, bests, least, most):
        """List the best keys of four units, of which the first ones' positions lie between two."""
        address, size = source.address, source.size
        last = place(size - place(place(1) << source.unit_bits))
        if source.level > 0:
            for j in range(AT_ONCE):
                bests[j] = best_of_keys(address + np.int64(min(firsts[j], last)) * key_bytes)
        elif source.unit_bits == 0:
            for j in range(AT_ONCE):
                bests[j] = key_at(address + np.int64(min(firsts[j], last)) * source.step, plan)
        elif least == 0 and most <= last:
            first, second = address + np.int64(firsts[0]) * width, address + np.int64(firsts[1]) * width
            third, fourth = address + np.int64(firsts[2]) * width, address + np.int64(firsts[3]) * width
            bests[0], bests[1], bests[2], bests[3] = bests_of_quads(first, second, third, fourth, plan)
        else:
            for j in range(AT_ONCE):
                bests[j] = best_inside(address, plan, np.int64(firsts[j]), np.int64(size))

    @helper
    def units_with(memory, plan, bar, c, total, all_of_them):
        threads = place(cuda.blockDim.x)
        hits = np.uint32(0)
        if all_of_them:
            for j in range(AT_ONCE):
                if c + j * threads < total:
                    hits = np.uint32(hits | np.uint32(1 << j))
            return hits
        firsts = cuda.local.array(AT_ONCE, place)
        bests = cuda.local.array(AT_ONCE, key)
        source = source_of(memory.where)
        least, most = place_units(memory, source, c, total, AT_ONCE, firsts)
        put_bests(source, plan, firsts, bests, least, most)
        for j in range(AT_ONCE):
            if bests[j] >= bar and firsts[j] < source.size and c + j * threads < total:
                hits = np.uint32(hits | np.uint32(1 << j))
        return hits

    return units_with


@cache
def element_finder(width: int, is_float: bool, is_long: bool):
    """Return ``find_in_units(memory, plan, bar, c, hits, total, some, firsts)``.

    It lists the keys of a few of `total` units, and returns, as bits, which reach a bar, of the units that are hits.
    """
    access = key_access(width, is_float, FLIP)
    load_words, put_keys = access.load_quad, access.put_keys
    units = source_units(width, is_float, is_long)
    source_of, keys_from, reaching = units.source_of, units.keys_from, units.reaching
    place_units, place = _placing(width, is_float, is_long), place_type(is_long)
    of_quad, together, _ = batch_of(width)

    @helper
    def put_whole_units(address, plan, firsts, some):
        """List the keys of units that lie in the line; all are loaded before one is looked at."""
        a = load_words(address + np.int64(firsts[0]) * width)
        if together > 1:
            b = load_words(address + np.int64(firsts[1 % together]) * width)
        if together > 2:
            e = load_words(address + np.int64(firsts[2 % together]) * width)
            f = load_words(address + np.int64(firsts[3 % together]) * width)
        put_keys(some, a, plan)
        if together > 1:
            put_keys(some[of_quad:], b, plan)
        if together > 2:
            put_keys(some[2 * of_quad :], e, plan)
            put_keys(some[3 * of_quad :], f, plan)

    @helper
    def find_in_units(memory, plan, bar, c, hits, total, some, firsts):
        source = source_of(memory.where)
        bits = source.unit_bits
        least, most = place_units(memory, source, c, total, together, firsts)
        if source.level > 0 or bits == 0 or least < 0 or most > place(source.size - place(place(1) << bits)):
            for j in range(together):
                keys_from(source, plan, firsts[j], some[of_quad * j :])
        else:
            put_whole_units(source.address, plan, firsts, some)
        found = np.uint32(0)
        for j in range(together):
            if hits >> j & 1 != 0:
                those = reaching(source, firsts[j], some[of_quad * j :], bar, False)
                found = np.uint32(found | np.uint32(those << (of_quad * j)))
        return found

    return find_in_units


@cache
def _list_steps(width: int, is_long: bool):
    """Return ``list_hits(memory, bar, room, chunks)`` and ``append(memory, room, found, some, firsts)``."""
    place = place_type(is_long)
    of_quad, _, of_batch = batch_of(width)

    @helper
    def list_hits(memory, bar, room, chunks):
        """List the first units of the chunks that reach a key; return how many there are, or one more than the room."""
        thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
        bits = place(memory.where[BITS])
        own = place(thread << min(bits, place(1)))
        c = thread
        while c < chunks:
            if memory.maxima[np.uint32(c)] >= bar:
                slot = cuda.atomic.add(memory.sums, 1, 1)
                if slot >= room:
                    break
                memory.groups[np.uint32(slot)] = place(place(place(c - thread) << bits) + own)
            c = np.int32(c + threads)
        cuda.syncthreads()
        return place(min(np.int64(memory.sums[1]), room + 1))

    @helper
    def append(memory, room, found, some, firsts):
        """List the elements that were found in a batch of units, while there is room."""
        slot = np.int32(cuda.atomic.add(memory.sums, 0, cuda.popc(found)))
        for n in range(of_batch):
            if found & np.uint32(1 << n) != 0:
                if slot < room:
                    memory.keys[np.uint32(slot)] = some[n]
                    memory.positions[np.uint32(slot)] = place(firsts[n // of_quad] + n % of_quad)
                slot = np.int32(slot + 1)

    return list_hits, append


@cache
def collector(width: int, is_float: bool, is_long: bool):
    """Return ``collect(memory, plan, bar, room, chunks)``: how many elements reach a bar.

    They are listed as far as there is room. `chunks`: how many a survey has found, 0: units of the groups are looked
    into.
    """
    units_with = hit_finder(width, is_float, is_long)
    find_in_units = element_finder(width, is_float, is_long)
    list_hits, append = _list_steps(width, is_long)
    key, place = key_type(width), place_type(is_long)
    _, together, of_batch = batch_of(width)
    all_hit = (1 << together) - 1
    source_of = source_units(width, is_float, is_long).source_of

    @helper
    def collect(memory, plan, bar, room, chunks):
        some = cuda.local.array(of_batch, key)
        firsts = cuda.local.array(together, place)
        where, sums = memory.where, memory.sums
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        if thread == 0:
            sums[0] = sums[1] = 0
        cuda.syncthreads()
        total = source_of(where).total
        if chunks > 0:
            hit = list_hits(memory, bar, room, chunks)
            if hit > room:
                cuda.syncthreads()
                return np.int64(hit)
            total = place(hit << place(where[BITS]))
        few = place(where[BITS]) <= FEW_UNITS
        c = thread
        while c < total:
            hits = units_with(memory, plan, bar, c, total, few)
            part = c
            while hits != 0:
                found = np.uint32(0)
                if hits & all_hit != 0:
                    found = find_in_units(memory, plan, bar, part, hits, total, some, firsts)
                if found != 0:
                    append(memory, room, found, some, firsts)
                hits = np.uint32(hits >> together)
                part = place(part + together * threads)
            c = place(c + AT_ONCE * threads)
        cuda.syncthreads()
        count = np.int64(sums[0])
        cuda.syncthreads()
        return count

    return collect


@helper
def keep(memory, count, bar):
    """Keep the listed elements from a key on; return how many there are."""
    keys, positions, sums = memory.keys, memory.positions, memory.sums
    thread, threads = np.int32(cuda.threadIdx.x), np.int32(cuda.blockDim.x)
    if thread == 0:
        sums[0] = 0
    begin = np.int32(0)
    while begin < count:
        i = np.uint32(min(np.int32(begin + thread), np.int32(count - 1)))
        its_key, position = keys[i], positions[i]
        cuda.syncthreads()  # what others write lies before what is read next
        if begin + thread < count and its_key >= bar:
            at = np.uint32(cuda.atomic.add(sums, 0, 1))
            keys[at], positions[at] = its_key, position
        begin = np.int32(begin + threads)
    cuda.syncthreads()
    kept = np.int64(sums[0])
    cuda.syncthreads()
    return kept


@cache
def tie_collector(width: int, is_float: bool, is_long: bool):
    """Return ``collect_ties(memory, plan, bar, count, wanted, whole, some)``: how many elements are listed then.

    It adds the first elements at the bar, in their order, to `count` others until there are as many as wanted. `whole`:
    all units are looked into, not those of the groups.
    """
    units = source_units(width, is_float, is_long)
    source_of, unit_of, first_of = units.source_of, units.unit_of, units.first_of
    best_of_unit, keys_from, reaching = units.best_of_unit, units.keys_from, units.reaching
    place, of_quad = place_type(is_long), 16 // width

    @helper
    def append(memory, bar, count, wanted, ties, first):
        """List what all threads have found, thread by thread; return how many are listed then."""
        own = np.int64(cuda.popc(ties))
        at = count + add_up_threads(memory.sums, own) - own
        for j in range(of_quad):
            if ties & np.uint32(1 << j) != 0:
                if at < wanted:
                    memory.keys[at] = bar
                    memory.positions[at] = place(first + j)
                at += 1
        count = min(wanted, count + memory.sums[cuda.blockDim.x - 1])
        cuda.syncthreads()
        return count

    @helper
    def collect_ties(memory, plan, bar, count, wanted, whole, some):
        thread, threads = place(cuda.threadIdx.x), place(cuda.blockDim.x)
        source = source_of(memory.where)
        begin = place(0)
        while count < wanted and begin < source.total:
            item = min(place(begin + thread), place(source.total - 1))
            unit = item if whole else unit_of(memory, item)
            first = first_of(source, unit)
            ties = np.uint32(0)
            if begin + thread < source.total and first < source.size and best_of_unit(source, plan, unit) >= bar:
                keys_from(source, plan, first, some)
                ties = reaching(source, first, some, bar, True)
            if cuda.syncthreads_or(1 if ties != 0 else 0):
                count = append(memory, bar, count, wanted, ties, first)
            begin = place(begin + threads)
        return wanted

    return collect_ties
