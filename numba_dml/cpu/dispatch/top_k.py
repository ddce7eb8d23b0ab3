"""Which kernel selects, and with which sizes: a table that Python's calls and jitted callers read."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from ..._core.regions import Region, always
from ..._jit.machine import CACHE_LINE
from ..kernels.top_k_columns import columns_kernel
from ..kernels.top_k_rows import rows_kernel
from ..kernels.top_k_short import short_kernel
from ..primitives.keys import LANES, SPARE
from ..primitives.top_k.line_list import LISTED
from ..primitives.top_k.network import MOST_PLACES, NETWORK_LINES
from ..tuning.top_k import Tuning
from .tiles import tile_width

#: Positions within a line are 32-bit numbers in most kernels.
MOST_ELEMENTS = 2**31 - 1


class Facts(NamedTuple):
    """The numbers that the choice needs; `facts_of` makes them."""

    n: int  #: elements of a line
    stride: int  #: bytes from one to the next
    k: int
    itemsize: int  #: bytes of an element
    lines: int  #: how many there are
    across: int  #: neighbours among them: the size of the dimension whose lines lie closest
    step: int  #: bytes from one of these to the next, 0: there is one line
    cut: bool  #: whether lines may be cut into pieces: jitted callers, which have one thread, have no kernel for it
    single: bool  #: a jitted caller's array of one dimension: only few kernels are compiled for it
    threads: int  #: that the call may use
    # These follow from the others.
    width: int  #: the place of the itemsize in the tuples of `Tuning`
    staged: int  #: lines that are copied to a buffer together if no kernel reads them as columns, 0: none need it
    masks: int  #: tiles of 64 neighbours, the smallest share of a thread


def facts_of(
    n: int,
    stride: int,
    k: int,
    itemsize: int,
    lines: int,
    across: int,
    step: int,
    cut: bool,
    single: bool,
    threads: int,
) -> Facts:
    """Return the facts of a call; jitted callers compile this."""
    staged = max(1, min(across, CACHE_LINE // itemsize)) if n > 1 and stride != itemsize else 0
    masks = lines // across * -(-across // LANES)
    width = min(itemsize // 2, 3)
    return Facts(n, stride, k, itemsize, lines, across, step, cut, single, threads, width, staged, masks)


def lists_are_short(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether sorted lists are short, or hardly anything is inserted into them."""
    return facts.k <= tuning.columns_k or (
        facts.k * max(facts.itemsize, 2) <= tuning.columns_list
        and facts.n * facts.itemsize >= tuning.columns_length * facts.k
    )


def least_across(facts: Facts, tuning: Tuning) -> int:
    """Return how many neighbours are worth lists: more if columns are long, and not all threads have some."""
    if facts.n <= tuning.columns_short:
        return tuning.columns_across_short
    busy = facts.masks >= facts.threads or facts.n < tuning.columns_long
    return tuning.columns_across if busy else tuning.columns_across_idle


def can_network(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether keys of the network have room for positions; for a single line, nothing is compiled."""
    return not facts.single and facts.n <= MOST_PLACES


def can_short_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether there are eight contiguous neighbours of eight elements, and keys have room for positions."""
    return (
        facts.step == facts.itemsize
        and facts.across >= NETWORK_LINES
        and facts.staged > 0
        and NETWORK_LINES <= facts.n <= MOST_PLACES
    )


def has_short_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether columns are short enough for the network."""
    return facts.n < tuning.short_columns_below[facts.width] // (2 if facts.k == 1 else 1)


def can_be_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether neighbours are contiguous: vectors hold an element of each."""
    return facts.step == facts.itemsize and facts.n <= MOST_ELEMENTS


def is_for_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether sorted lists of neighbours are worth it."""
    return facts.staged > 0 and lists_are_short(facts, tuning) and facts.across >= least_across(facts, tuning)


def fits_list(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether the best fit into a list in registers."""
    return facts.k <= LISTED and facts.n <= MOST_ELEMENTS


def least_listed(facts: Facts, tuning: Tuning) -> int:
    """Return the size from which lists beat the network, which is never better for fewer lines than it takes."""
    return tuning.list_from[facts.width] if facts.lines >= NETWORK_LINES else 1


def is_for_list(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are too long for the network, and so short that two passes cost less than a buffer."""
    return least_listed(facts, tuning) <= facts.n <= tuning.list_most[facts.width]


def network_limit(facts: Facts, tuning: Tuning) -> int:
    """Return the size from which a buffer is faster than the network: less for too few lines."""
    return tuning.network_below[facts.width] if facts.lines >= NETWORK_LINES else tuning.network_below_tiny


def is_short(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are short enough for the network."""
    return facts.n < network_limit(facts, tuning)


def can_be_cut(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a line has one piece at least."""
    return facts.cut and facts.n >= tuning.piece and facts.n >= tuning.piece_results * facts.k


def needs_pieces(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether threads have too few lines otherwise, and k is a small part of each."""
    return (
        facts.lines < max(tuning.pieces_lines, 2 * facts.threads)
        and facts.n >= 2 * tuning.piece
        and facts.n >= tuning.pieces_part * facts.k
    )


TABLE = (
    Region(
        "short columns",
        short_kernel,
        can_short_columns,
        has_short_columns,
        "lines are short and lie side by side: a sorting network takes many at once",
        "CPU top-k: short columns",
    ),
    Region(
        "columns",
        columns_kernel,
        can_be_columns,
        is_for_columns,
        "lines lie side by side: sorted lists of neighbouring lines are kept together",
        "CPU top-k: columns",
    ),
    Region(
        "list",
        rows_kernel,
        fits_list,
        is_for_list,
        "k is small: a first pass finds a bound, and what reaches it goes to a sorted list in registers",
        "CPU top-k: lists",
    ),
    Region(
        "short",
        short_kernel,
        can_network,
        is_short,
        "lines are short and many: a sorting network takes many at once",
        "CPU top-k: short lines",
    ),
    Region(
        "pieces",
        rows_kernel,
        can_be_cut,
        needs_pieces,
        "few long lines: each is cut into pieces, and the best of these compete",
        "CPU top-k: pieces",
    ),
    Region(
        "rows",
        rows_kernel,
        always,
        always,
        "each line is read once; what beats the k-th best so far is kept in a buffer",
        "CPU top-k: rows",
    ),
)
#: Where the rows stand in the table.
SHORT_COLUMNS, COLUMNS, LIST, SHORT, PIECES, ROWS = range(len(TABLE))


class Choice(NamedTuple):
    """The sizes in a plan that depend on its kernel."""

    capacity: int  #: elements of the buffer of a line, 0: it has a list
    group: int  #: lines that are staged together, 0: they are contiguous
    tile: int  #: lines that are looked at together: columns, or those of the network
    pieces: int  #: that a line is cut into
    sample: int  #: elements that are looked at for a bound
    rank: int  #: how many of them shall lie above it


def choice_of(row: int, facts: Facts, tuning: Tuning) -> Choice:
    """Return the sizes for a row of the table; jitted callers compile this."""
    n, k, itemsize, blocks = facts.n, facts.k, facts.itemsize, facts.lines // facts.across
    if row == SHORT_COLUMNS:
        most = max(tuning.short_columns_row // itemsize, NETWORK_LINES)
        return Choice(0, 0, tile_width(facts.across, blocks, facts.threads, most, NETWORK_LINES), 1, 0, 0)
    if row == COLUMNS:
        row_bytes = tuning.columns_row if n > tuning.crowded * k else min(tuning.crowded_lists // k, tuning.columns_row)
        most = max(row_bytes // itemsize, LANES)
        return Choice(0, 0, tile_width(facts.across, blocks, facts.threads, most, LANES), 1, 0, 0)
    if row == SHORT or row == LIST:  # lines that are staged whole, in batches
        batch = max(tuning.batch_bytes // (n * itemsize), LANES) if facts.staged else 0
        return Choice(0, batch, NETWORK_LINES, 1, 0, 0)
    parts, sample, deviations = 1, 0, tuning.sample_deviations
    room = min(max(4 * k, tuning.buffer), max(n, k))
    if row == PIECES:
        parts = piece_count(facts, tuning)
        if itemsize == 1 or tuning.sampled_part * parts * k > n:
            sample = min(tuning.sample, 2 * int(sqrt(n)) + k // 4)
    elif k >= tuning.sorted_k and k < n <= tuning.sorted_part * k:
        sample, deviations = min(tuning.sample, n // tuning.sorted_step), tuning.sorted_deviations
    sample, rank = sample_rank(facts, sample, deviations)
    if row == ROWS and sample:
        room = min(n, k + k // 4 + n // 16)
    capacity = -(-room // LANES) * LANES + LANES + SPARE
    return Choice(capacity, group_size(facts, tuning, capacity * (itemsize + 8)), 0, parts, sample, rank)


def group_size(facts: Facts, tuning: Tuning, line_bytes: int) -> int:
    """Return how many lines are staged together, if each needs `line_bytes`."""
    return max(1, min(facts.staged, tuning.group_bytes // line_bytes)) if facts.staged else 0


def piece_count(facts: Facts, tuning: Tuning) -> int:
    """Return the pieces of a line: two per thread or more, up to eight, until they divide evenly among threads."""
    lines, threads, found = facts.lines, facts.threads, 1
    while lines * found < 2 * threads or (lines * found % threads > 0 and lines * found < 8 * threads):
        found += 1
    return min(found, facts.n // max(tuning.piece, tuning.piece_results * facts.k))


def sample_rank(facts: Facts, sample: int, deviations: int) -> tuple[int, int]:
    """Return the size of a sample in whole masks, and how many of it shall lie above a bound that k elements reach."""
    sample -= sample % LANES
    expected = sample * facts.k / facts.n
    return sample, int(expected + deviations * sqrt(expected)) + deviations
