"""What the kernels of top-k are told: parts of lines, groups, threads and shared memory, worked out of the facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..driver.numba import BLOCK, LANES
from ..kernels import top_k_columns, top_k_sorted
from ..kernels.top_k_block import AT_ONCE, SORTED
from ..primitives.top_k.block_sort import ITEMS
from ..primitives.top_k.plan import LEAST_ROOM, MOST_ROOM, MOST_THREADS, QUADS
from ..tuning.top_k import Tuning
from .top_k_facts import Facts

#: Units of 16 bytes of the largest group of contiguous elements: what a warp reads at once.
LARGEST_GROUP = QUADS * LANES


Found = TypeVar("Found")


def remembered(function: Callable[[Facts, Tuning], Found]) -> Callable[[Facts, Tuning], Found]:
    """Return a function that remembers its last result: several rows of the table ask, and then the call itself."""
    last: tuple[Any, Any, Any] = (None, None, None)

    def ask(facts: Facts, tuning: Tuning) -> Found:
        nonlocal last
        known = last  # another thread may replace it
        if known[0] is not facts or known[1] is not tuning:
            last = known = facts, tuning, function(facts, tuning)
        found: Found = known[2]
        return found

    ask.__doc__ = function.__doc__
    return ask


def widened(facts: Facts, tuning: Tuning, threads: int, units: int, of_thread: int) -> int:
    """Return more threads for a block, if each would look at more than `of_thread` of its units."""
    while threads < MOST_THREADS and (threads * of_thread < units and 2 * threads * facts.lines <= tuning.busy_threads):
        threads *= 2
    return threads


class Parts(NamedTuple):
    """The parts of a line, of which the best elements are found first, if k = 1."""

    #: How many parts a line has.
    parts: int
    #: Units of 16 bytes of a part, or elements if a thread has it.
    share: int
    #: Threads of a block.
    threads: int


def parts_of_threads(facts: Facts, tuning: Tuning) -> Parts:
    """Cut lines into parts that threads look through."""
    count = max(min(tuning.part_threads // facts.lines, facts.n // tuning.thread_elements), 1)
    share = -(-facts.n // count)
    return Parts(-(-facts.n // share), share, BLOCK)


def parts_of_blocks(facts: Facts, tuning: Tuning) -> Parts:
    """Cut lines into parts that blocks look through: several, if lines are long."""
    units = facts.line_bytes // 16 + 2  # at both ends a unit may lie in the line in part
    count = 1
    if facts.line_bytes >= tuning.parted_bytes:
        count = max(min(units // (tuning.best_units * BLOCK), tuning.part_blocks // facts.lines), 1)
    if count > 1:
        threads = BLOCK
    else:
        threads = LANES
        while threads < tuning.best_threads and 2 * tuning.best_rounds * tuning.best_units * threads <= units:
            threads *= 2
        threads = widened(facts, tuning, threads, units, tuning.best_units)
    at_once = tuning.best_units * threads
    share = -(-units // (count * at_once)) * at_once
    return Parts(-(-units // share), share, threads)


class Groups(NamedTuple):
    """How lines are divided into groups that each have a delegate; the tuples have an entry for each level.

    The delegates of a level are the elements of the next one. Without levels there are no groups.
    """

    #: Elements of a group, as a power of two.
    bits: tuple[int, ...] = ()
    #: Delegates of a line.
    pitches: tuple[int, ...] = ()
    #: Into how many parts a line is cut, of which each is read by a warp.
    parts: tuple[int, ...] = ()
    #: Rounds of a warp: in each it reads `LARGEST_GROUP` units.
    rounds: tuple[int, ...] = ()


def divide(facts: Facts, tuning: Tuning, sizes: tuple[int, ...]) -> Groups:
    """Divide lines into groups of these sizes, level by level."""
    if not sizes:
        return Groups()
    found = []
    count = padded_elements(facts)
    for size, width in zip(sizes, (facts.width, facts.key_bytes), strict=False):
        count = pitch(facts, count, size)
        whole = max(-(-count * width * size // (16 * LARGEST_GROUP)), 1)
        rounds = min(max(facts.lines * whole // tuning.busy_warps, 1), tuning.most_rounds)
        found.append((size.bit_length() - 1, count, -(-whole // rounds), rounds))
    return Groups(*zip(*found, strict=True))


def padded_elements(facts: Facts) -> int:
    """Return the elements of a line with those of its first group that may lie before it."""
    return facts.n + (facts.of_unit - 1 if facts.packed else 0)


def pitch(facts: Facts, count: int, size: int) -> int:
    """Return how many delegates elements have, with padding: delegates are read by 16 bytes."""
    of_unit = 16 // facts.key_bytes
    delegates = -(-count // size)
    return -(-delegates // of_unit) * of_unit


@remembered
def groups_beside(facts: Facts, tuning: Tuning) -> Groups | None:
    """Divide lines that need not be contiguous into groups of a few seats, or return None if that is impossible.

    Groups grow while there are groups and threads enough, and as long as there are too many for shared memory. A warp
    notes the seats of k groups in the memory of the delegates.
    """
    if facts.is_long or facts.k > top_k_columns.MOST_K:
        return None
    n, bits = facts.n, top_k_columns.SEAT_BITS
    threads = facts.lines * n // (facts.of_unit if facts.columns else 1)
    while 2 << bits <= tuning.most_seats * top_k_columns.SEAT and (
        (n >> (bits + 1) >= tuning.beside_groups * facts.k and threads >> (bits + 1) >= tuning.beside_threads)
        or n >> bits > tuning.most_groups
    ):
        bits += 1
    count = -(-n >> bits)
    if not facts.k << (bits - top_k_columns.SEAT_BITS) <= count <= tuning.most_groups:
        return None
    return Groups((bits,), (count,), (1,), (1,))


class Lists(NamedTuple):
    """What the lists of a block that chooses take, and what they leave for the survey of a line."""

    #: Elements that the lists hold.
    room: int
    #: Elements that are sorted by values or digits, 0 if only few are listed.
    listed: int
    #: Bytes of the lists.
    bytes: int
    #: The most units of 16 bytes that a block can survey.
    most_units: int
    #: Chunks that a line should have for each of k.
    chunks_of_one: int


@remembered
def block_lists(facts: Facts, tuning: Tuning) -> Lists:
    """Work out the lists of keys, positions and groups of a block that chooses."""
    k = facts.k
    bytes_of_one = facts.key_bytes + 2 * (8 if facts.is_long else 4)
    wanted = max(k + (k >> 1), min(max(facts.of_unit, AT_ONCE) * k, MOST_ROOM))
    room = max(LEAST_ROOM, 1 << (wanted - 1).bit_length())
    listed = k + (k >> 2) + LANES if k > SORTED // 2 else 0
    memory = tuning.maxima_bytes_few_lines if facts.lines < tuning.multiprocessors else tuning.maxima_bytes
    chunks_of_one = 4
    if facts.is_long:
        memory = tuning.maxima_bytes_long_line - bytes_of_one * room
    elif listed > tuning.long_list:
        # What is sorted by the values or digits of keys needs no power of two.
        if 4 * (k + (k >> 1)) <= 3 * room <= 4 * ITEMS * MOST_THREADS:
            room = listed = 3 * room // 4
        memory = max(memory, tuning.half_shared - bytes_of_one * room)
        chunks_of_one = 8
    return Lists(room, listed, bytes_of_one * room, AT_ONCE * (memory // facts.key_bytes), chunks_of_one)


def line_units(facts: Facts) -> int:
    """Return what a block surveys of a line without delegates: units of 16 bytes, or of one element."""
    return -(-facts.n // facts.of_unit) if facts.packed else facts.n


def largest_group(facts: Facts, tuning: Tuning) -> int:
    """Return the most units of a group. A thread reads a group that is not contiguous by itself: more groups are read
    by more threads."""
    if facts.packed:
        return LARGEST_GROUP
    return max(min(LARGEST_GROUP, facts.lines * facts.n // tuning.elements_of_group), tuning.largest_strided_group)


def group_sizes(facts: Facts, most_units: int, largest: int) -> tuple[int, ...]:
    """Return the sizes of groups, level by level, as powers of two, which make a choice cheap.

    A block can survey `most_units` of 16 bytes. It looks at all uppermost delegates, and at k groups of each level. If
    there were fewer than two delegates for each group that is wanted, all groups would be.
    """
    n, k, of_unit = facts.n, facts.k, 16 // facts.key_bytes
    limit, padded = most_units * of_unit, padded_elements(facts)
    seconds = [of_unit << i for i in range(LARGEST_GROUP.bit_length())]
    best: tuple[int, ...] = ()
    cost = 1 << 62
    first, enough = facts.of_unit, 2 * k
    for _ in range(largest.bit_length()):
        delegates, needed = -(-n // first), pitch(facts, padded, first)
        new = delegates + k * first + (n if delegates < enough else 0)
        if new < cost and needed <= limit:
            best, cost = (first,), new
        read = delegates + k * first  # with a second level, beside that
        for second in seconds:
            upper = -(-delegates // second)
            new = read + upper + k * second
            if upper < enough:
                new += n
            if new < cost and -(-needed // second) <= limit:
                best, cost = (first, second), new
        first <<= 1
    return best


def delegates_fit(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a block can survey the uppermost delegates: those of the largest groups, if of no others."""
    keys = 16 // facts.key_bytes
    first = facts.of_unit << (largest_group(facts, tuning).bit_length() - 1)
    second = keys << (LARGEST_GROUP.bit_length() - 1)
    upper = -(-pitch(facts, padded_elements(facts), first) // second)
    return upper <= block_lists(facts, tuning).most_units * keys


class BlockChoice(NamedTuple):
    """How blocks choose, each from a line or from its uppermost delegates."""

    groups: Groups
    lists: Lists
    #: Threads of a block.
    threads: int
    #: Units of a chunk, a power of two.
    chunk: int
    #: Chunks of a line, at least.
    chunks: int
    #: Maxima that a block keeps.
    maxima: int
    #: Whether there are threads enough to sort lists by values or digits.
    sorts_lists: bool


def block_choice(facts: Facts, tuning: Tuning, by_delegates: bool) -> BlockChoice:
    """Work out how blocks choose, with delegates or without."""
    lists = block_lists(facts, tuning)
    sizes = group_sizes(facts, lists.most_units, largest_group(facts, tuning)) if by_delegates else ()
    groups = divide(facts, tuning, sizes)
    units = groups.pitches[-1] * facts.key_bytes // 16 if sizes else line_units(facts)
    read_again = facts.k * sum(sizes) // facts.of_unit
    threads = widened(facts, tuning, tuning.least_threads, units + read_again, tuning.units_of_thread)
    # Chunks are small enough that there are several for each of k, if their maxima fit.
    chunk, most_maxima = AT_ONCE, lists.most_units // AT_ONCE
    while chunk > 1 and units < lists.chunks_of_one * chunk * facts.k and 2 * units < most_maxima * chunk:
        chunk >>= 1
    # Blocks with long lists, and those of which a multiprocessor holds few, have more threads.
    shared = lists.bytes + facts.key_bytes * units // chunk
    while threads < MOST_THREADS and (
        threads * (tuning.all_shared // shared) < tuning.busy_multiprocessor or ITEMS * threads < lists.listed
    ):
        threads *= 2
    rows, rest = divmod(units, chunk * threads)
    turns = -(-(units + 1) // (AT_ONCE * threads))
    return BlockChoice(
        groups,
        lists,
        threads,
        chunk,
        chunks=rows * threads + min(-(-rest // min(chunk, 2)), threads),
        maxima=turns * AT_ONCE // chunk * threads,
        sorts_lists=ITEMS * threads >= lists.listed > 0,
    )


@remembered
def sorting_threads(facts: Facts, tuning: Tuning) -> int:
    """Return how many threads sort a line whole, 0 if no block can."""
    if facts.n > top_k_sorted.MOST_SORTED:
        return 0
    threads = max(-(-facts.n // (ITEMS * LANES)) * LANES, tuning.least_threads)
    while 2 * threads <= min(facts.n, MOST_THREADS) and 2 * threads * facts.lines <= tuning.busy_threads:
        threads *= 2
    needed = top_k_sorted.sort_bytes(facts.width, facts.n, threads) + top_k_sorted.STATIC_BYTES
    return threads if needed <= facts.shared_bytes else 0
