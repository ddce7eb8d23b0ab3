"""What the choice of kernels for a top-k depends on, and what several of its rows share: groups, threads and lists."""

from __future__ import annotations

from typing import NamedTuple

from ..._core.lowering import Select, is_float
from ..._core.tensor import element_size, product
from ..driver.context import shared_bytes
from ..driver.numba import LANES
from ..kernels import top_k_columns, top_k_select
from ..kernels.top_k_short import THREAD_LISTS
from ..kernels.top_k_warp import units_for
from ..primitives.top_k.block_sort import ITEMS
from ..primitives.top_k.block_units import AT_ONCE
from ..primitives.top_k.column_groups import SEAT, SEAT_BITS
from ..primitives.top_k.plan import MOST_THREADS, QUADS
from ..primitives.top_k.sizes import SIZES
from ..tuning.top_k import Tuning

#: Units of 16 bytes of the largest group of contiguous elements: what a warp reads at once.
LARGEST_GROUP = QUADS * LANES


class Facts(NamedTuple):
    """The numbers of one layout that the choice needs."""

    lines: int  #: how many lines there are
    n: int  #: elements of a line
    k: int  #: how many of them are wanted
    width: int  #: bytes of an element
    key_bytes: int  #: bytes of a key: 4 or 8
    is_float: bool  #: whether elements are floats, which have NaNs and two zeros
    packed: bool  #: whether a line is contiguous
    quads: bool  #: whether packed lines all start and end at a multiple of 16 bytes, if the first one starts there
    beside: bool  #: whether neighbouring lines lie beside each other, one element apart
    #: Whether 16 aligned bytes hold elements of neighbouring lines, if the first line starts at a multiple of 16.
    columns: bool
    is_long: bool  #: whether positions in a line take 64 bits
    thread_list: int  #: the length of the list of a thread that has a short line: 0 if k is too large for one
    warp_units: int  #: units of a chunk of a line that a warp could have, 0: none can
    shared_bytes: int  #: bytes of shared memory that a block can have
    is_sorted: bool  #: whether the result is to be sorted

    @property
    def line_bytes(self) -> int:
        """Return the bytes of a line."""
        return self.n * self.width

    @property
    def of_unit(self) -> int:
        """Return how many elements 16 bytes hold."""
        return 16 // self.width


def facts_of(low: Select, tuning: Tuning) -> Facts:
    """Return the facts of a layout."""
    dims, n, stride, k = low.lines, low.size, low.stride, low.k
    width = element_size(low.data_type)
    step = dims[-1][1] if dims else 0  # from a line to the next one
    packed = stride == width and all(step % width == 0 for _, step, _ in dims)
    return Facts(
        lines=product([dim[0] for dim in dims]),
        n=n,
        k=k,
        width=width,
        key_bytes=8 if width == 8 else 4,
        is_float=is_float(low.data_type),
        packed=packed,
        quads=packed and n * width % 16 == 0 and not any(step % 16 for _, step, _ in dims),
        beside=not packed and abs(step) == width,
        columns=step == width
        and stride > 0
        and not (dims[-1][0] * width % 16 or stride % 16 or any(step % 16 for _, step, _ in dims[:-1])),
        is_long=n >= tuning.long_line,
        thread_list=next((length for length in THREAD_LISTS if length >= k), 0),
        warp_units=units_for(n, k, width) if packed else 0,
        shared_bytes=shared_bytes(),
        is_sorted=low.sorted,
    )


def widened(facts: Facts, tuning: Tuning, threads: int, units: int, of_thread: int) -> int:
    """Return more threads for a block, if each would look at more than `of_thread` of its units."""
    while threads < MOST_THREADS and (threads * of_thread < units and 2 * threads * facts.lines <= tuning.busy_threads):
        threads *= 2
    return threads


class Groups(NamedTuple):
    """How lines are divided into groups that each have a delegate."""

    bits: int  #: elements of a group, as a power of two
    pitch: int  #: delegates of a line
    parts: int = 1  #: into how many parts a line is cut, of which each is read by a warp
    rounds: int = 1  #: rounds of a warp: in each it reads `LARGEST_GROUP` units


def divide(facts: Facts, tuning: Tuning, size: int) -> Groups:
    """Divide lines into groups of `size` elements, a power of two."""
    count = pitch(facts, size)
    whole = max(-(-count * facts.width * size // (16 * LARGEST_GROUP)), 1)
    rounds = min(max(facts.lines * whole // tuning.busy_warps, 1), tuning.most_rounds)
    return Groups(size.bit_length() - 1, count, -(-whole // rounds), rounds)


def pitch(facts: Facts, size: int) -> int:
    """Return how many delegates a line has, with padding: they are read by 16 bytes.

    The first group of a contiguous line begins at a multiple of 16 bytes, maybe before the line.
    """
    keys = 16 // facts.key_bytes
    delegates = -(-(facts.n + (facts.of_unit - 1 if facts.packed else 0)) // size)
    return -(-delegates // keys) * keys


def groups_beside(facts: Facts, tuning: Tuning) -> Groups | None:
    """Divide lines that need not be contiguous into groups of a few seats, or return None if that is impossible.

    Groups grow while there are groups and threads enough, and as long as there are too many for shared memory. A warp
    notes the seats of k groups in the memory of the delegates.
    """
    if facts.is_long or facts.k > top_k_columns.MOST_K:
        return None
    n, bits = facts.n, SEAT_BITS
    threads = facts.lines * n // (facts.of_unit if facts.columns else 1)
    while 2 << bits <= tuning.most_seats * SEAT and (
        (n >> (bits + 1) >= tuning.beside_groups * facts.k and threads >> (bits + 1) >= tuning.beside_threads)
        or n >> bits > tuning.most_groups
    ):
        bits += 1
    count = -(-n >> bits)
    return Groups(bits, count) if facts.k << (bits - SEAT_BITS) <= count <= tuning.most_groups else None


class Lists(NamedTuple):
    """What the lists of a block that chooses take, and what they leave for the survey of a line."""

    room: int  #: elements that the lists hold
    listed: int  #: elements that are sorted, 0 if only few are listed
    bytes: int  #: bytes of the lists
    most_units: int  #: the most units of 16 bytes that a block can survey
    chunks_of_one: int  #: chunks that a line should have for each of k


def block_lists(facts: Facts, tuning: Tuning) -> Lists:
    """Work out the lists of keys, positions and groups of a block that chooses."""
    k, least = facts.k, facts.k + (facts.k >> 1)
    listed = k + (k >> 2) + LANES if k > SIZES.sorted // 2 else 0
    memory = tuning.maxima_bytes_few_lines if facts.lines < tuning.multiprocessors else tuning.maxima_bytes
    if listed > tuning.long_list:
        room, chunks_of_one = max(SIZES.least_room, least), 8
        memory = max(memory, tuning.half_shared - (facts.key_bytes + 8) * room)
    else:
        room, chunks_of_one = max(SIZES.least_room, least, min(max(facts.of_unit, AT_ONCE) * k, SIZES.most_room)), 4
    bytes_ = (facts.key_bytes + 8) * room
    return Lists(room, listed, bytes_, AT_ONCE * (memory // facts.key_bytes), chunks_of_one)


def line_units(facts: Facts) -> int:
    """Return what a block surveys of a line without delegates: units of 16 bytes, or of one element."""
    return -(-facts.n // facts.of_unit) if facts.packed else facts.n


def delegate_group(facts: Facts, tuning: Tuning) -> int:
    """Return the size of groups, a power of two, that makes a choice by delegates cheap, 0: too many delegates.

    A block surveys all delegates, and looks at k groups. If there were fewer than two delegates for each group that is
    wanted, all groups would be. A thread reads a group that is not contiguous by itself: more groups are read by more
    threads.
    """
    largest = LARGEST_GROUP
    if not facts.packed:
        largest = max(min(largest, facts.lines * facts.n // tuning.elements_of_group), tuning.largest_strided_group)
    limit = block_lists(facts, tuning).most_units * (16 // facts.key_bytes)
    best, least = 0, 1 << 62
    for bits in range(largest.bit_length()):
        size = facts.of_unit << bits
        delegates = -(-facts.n // size)
        cost = delegates + facts.k * size + (facts.n if delegates < 2 * facts.k else 0)
        if cost < least and pitch(facts, size) <= limit:
            best, least = size, cost
    return best


def fits_lanes(facts: Facts) -> bool:
    """Tell whether the lanes of a warp can hold the keys of a line, and sort k of them if that is wanted."""
    return facts.n <= top_k_select.own_room(facts.width) * LANES and (
        not facts.is_sorted or facts.k <= top_k_select.SORTED_BY_LANES[-1] * LANES
    )


def sorted_by_lane(facts: Facts) -> int:
    """Return how many elements each lane of a warp sorts: of a very short line all, otherwise what is selected."""
    if not facts.is_sorted:
        return 0
    count = facts.n if facts.n <= top_k_select.MOST_SORTED else facts.k
    return next(own for own in top_k_select.SORTED_BY_LANES if own * LANES >= count)


def selecting_threads(facts: Facts, tuning: Tuning, kept: int) -> int:
    """Return how many threads keep that many elements of a line, and sort them if that is wanted, 0: no block can."""
    own, items = top_k_select.own_room(facts.width), kept if facts.is_sorted else 0
    threads = tuning.least_threads
    while threads < MOST_THREADS and (
        threads * own < facts.n
        or threads * ITEMS < items
        or 2 * threads <= min(items, tuning.busy_threads // facts.lines)
    ):
        threads *= 2
    needed = top_k_select.select_bytes(kept, threads, facts.is_sorted) + top_k_select.STATIC_BYTES
    fits = threads * own >= facts.n and threads * ITEMS >= items and needed <= facts.shared_bytes
    return threads if fits else 0
