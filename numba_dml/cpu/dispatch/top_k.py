"""Which kernel selects, and with which sizes: a table that Python's calls and jitted callers read."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

from ..._core.regions import Region, always
from ..._jit.machine import CACHE_LINE
from ..kernels.top_k_best import best_kernel
from ..kernels.top_k_columns import columns_kernel, short_columns_kernel
from ..kernels.top_k_rows import pieces_kernel, rows_kernel
from ..kernels.top_k_short import short_kernel
from ..kernels.top_k_singly import singly_kernel
from ..kernels.top_k_sorted import sorted_kernel
from ..primitives.keys import LANES, SPARE
from ..primitives.top_k.network import MOST_PLACES, NETWORK_LINES
from ..primitives.top_k.short_lines import SHORT_K
from ..tuning.top_k import Tuning

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
    staged: int  #: lines that are copied to a buffer together if no kernel reads them as columns, 0: contiguous
    masks: int  #: tiles of 64 neighbours, as few as a thread can have


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


def takes_most(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether most of a short line is selected, which is sorted fastest."""
    return (
        facts.k >= tuning.sorted_most_k[facts.width]
        and facts.n >= tuning.sorted_most_from
        and facts.n <= tuning.sorted_most_part * facts.k
    )


def cut_keys_win(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether columns of 8 bytes are faster if they are staged, and go through the network by cut keys."""
    return (
        facts.itemsize == 8
        and NETWORK_LINES <= facts.n < tuning.cut_below[facts.width]
        and facts.k >= tuning.staged_k + facts.n // tuning.staged_k_step
    )


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


def can_short_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether there are eight contiguous neighbours of eight elements, and keys have room for positions."""
    return (
        facts.itemsize < 8
        and facts.step == facts.itemsize
        and facts.across >= NETWORK_LINES
        and NETWORK_LINES <= facts.n <= MOST_PLACES
    )


def short_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether columns are short enough for the network, and not better sorted."""
    return (
        facts.staged > 0
        and facts.n < tuning.short_columns_below[facts.width] // (2 if facts.k == 1 else 1)
        and not takes_most(facts, tuning)
    )


def can_columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether neighbours are contiguous: vectors hold an element of each."""
    return facts.step == facts.itemsize and facts.n <= MOST_ELEMENTS


def columns(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether sorted lists of neighbours are worth it."""
    return (
        facts.staged > 0
        and lists_are_short(facts, tuning)
        and facts.across >= least_across(facts, tuning)
        and not cut_keys_win(facts, tuning)
    )


def columns_any_k(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether columns are so short that lists are worth it whatever k is, if all threads have some."""
    return (
        facts.staged > 0
        and facts.n <= tuning.columns_short
        and facts.masks >= facts.threads
        and facts.across >= tuning.columns_across_short
        and not cut_keys_win(facts, tuning)
    )


def can_best(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether one element is wanted."""
    return facts.k == 1


def best(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether one pass is best: not for tiny lines, few long ones, or long ones that have to be staged."""
    return (
        facts.n >= LANES
        and (facts.lines >= tuning.best_lines or facts.n < 2 * tuning.piece)
        and (facts.staged == 0 or facts.n <= tuning.alone_most[facts.width])
    )


def can_singly(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether the best of a line fit into a vector; jitted callers have one kernel for all short lines."""
    return facts.cut and facts.k <= SHORT_K and facts.n <= MOST_ELEMENTS


def few_singly(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are too few for the network, which takes longer to compile."""
    return facts.n <= tuning.alone_most[facts.width] and facts.lines <= tuning.few_lines[facts.width]


def long_singly(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are too long for the network, by whole keys and by cut ones."""
    return (
        facts.n <= tuning.alone_most[facts.width]
        and facts.n >= tuning.alone_from[facts.width]
        and facts.n >= tuning.cut_below[facts.width]
    )


def can_short(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether the best of a line fit into a vector; for a jitted caller's single line, nothing is compiled."""
    return not facts.single and facts.k <= SHORT_K and facts.n <= MOST_ELEMENTS


def short(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are short."""
    return facts.n <= tuning.alone_most[facts.width]


def can_short_any_k(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether keys of the network have room for positions; for a single line, nothing is compiled."""
    return not facts.single and facts.n <= MOST_PLACES


def short_any_k(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines fill the network, are short enough for it, and not better sorted."""
    return (
        facts.lines >= NETWORK_LINES and facts.n < tuning.network_below[facts.width] and not takes_most(facts, tuning)
    )


def can_pieces(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a line has one piece at least."""
    return facts.cut and facts.n >= tuning.piece and facts.n >= tuning.piece_results * facts.k


def pieces(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether threads have too few lines otherwise, and k is a small part of each."""
    return (
        facts.lines < max(tuning.pieces_lines, 2 * facts.threads)
        and facts.n >= 2 * tuning.piece
        and facts.n >= tuning.pieces_part * facts.k
    )


def can_sorted(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a position fits into the words that are sorted."""
    return facts.n <= MOST_ELEMENTS


def sorted_large_k(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether k is large, and too large a part of a line for a survey."""
    return facts.k >= tuning.sorted_k and facts.n <= tuning.sorted_part * facts.k


TABLE = (
    Region(
        "short columns",
        short_columns_kernel,
        can_short_columns,
        short_columns,
        "lines are short and lie side by side: a sorting network takes many at once",
        "CPU top-k: short columns",
    ),
    Region(
        "columns",
        columns_kernel,
        can_columns,
        columns,
        "lines lie side by side: sorted lists of neighbouring lines are kept together",
        "CPU top-k: columns",
    ),
    Region(
        "columns, any k",
        columns_kernel,
        can_columns,
        columns_any_k,
        "lines are short and lie side by side: sorted lists of neighbouring lines are kept together, whatever k is",
        "CPU top-k: columns",
    ),
    Region(
        "best",
        best_kernel,
        can_best,
        best,
        "k is 1: one pass finds the best of every line",
        "CPU top-k: best",
    ),
    Region(
        "singly, few lines",
        singly_kernel,
        can_singly,
        few_singly,
        "k is small, and lines are too few for a sorting network: each is taken by itself",
        "CPU top-k: single lines",
    ),
    Region(
        "singly, long lines",
        singly_kernel,
        can_singly,
        long_singly,
        "k is small, and lines are too long for a sorting network: each is taken by itself",
        "CPU top-k: single lines",
    ),
    Region(
        "short",
        short_kernel,
        can_short,
        short,
        "lines are short: a sorting network takes many at once",
        "CPU top-k: short lines",
    ),
    Region(
        "short, any k",
        short_kernel,
        can_short_any_k,
        short_any_k,
        "lines are short and many: a sorting network takes many at once, whatever k is",
        "CPU top-k: short lines",
    ),
    Region(
        "pieces",
        pieces_kernel,
        can_pieces,
        pieces,
        "few long lines: each is cut into pieces, and the best of these compete",
        "CPU top-k: pieces",
    ),
    Region(
        "sorted, most of a line",
        sorted_kernel,
        can_sorted,
        takes_most,
        "k is most of a short line: what is above a limit from a sample is collected and sorted",
        "CPU top-k: sorting",
    ),
    Region(
        "sorted",
        sorted_kernel,
        can_sorted,
        sorted_large_k,
        "k is large: what is above a limit from a sample is collected and sorted",
        "CPU top-k: sorting",
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
(
    SHORT_COLUMNS,
    COLUMNS,
    COLUMNS_ANY_K,
    BEST,
    FEW_SINGLY,
    LONG_SINGLY,
    SHORT,
    SHORT_ANY_K,
    PIECES,
    SORTED_MOST,
    SORTED,
    ROWS,
) = range(len(TABLE))


class Choice(NamedTuple):
    """The sizes in a plan that depend on its kernel."""

    capacity: int  #: elements of the buffer of a line
    group: int  #: lines that are staged together, 0: they are contiguous
    tile: int  #: lines that are looked at together: columns, or lines in the network by whole keys
    pieces: int  #: that a line is cut into
    sample: int  #: elements that are looked at for a bound
    rank: int  #: how many of them shall lie above it


def choice_of(row: int, facts: Facts, tuning: Tuning) -> Choice:
    """Return the sizes for a row of the table; jitted callers compile this."""
    n, k, itemsize = facts.n, facts.k, facts.itemsize
    if row == SHORT_COLUMNS:
        most = max(tuning.short_columns_row // itemsize, NETWORK_LINES)
        return Choice(0, 0, column_tile(facts, most, NETWORK_LINES), 1, 0, 0)
    if row == COLUMNS or row == COLUMNS_ANY_K:
        row_bytes = tuning.columns_row if n > tuning.crowded * k else min(tuning.crowded_lists // k, tuning.columns_row)
        return Choice(0, 0, column_tile(facts, max(row_bytes // itemsize, LANES), LANES), 1, 0, 0)
    if row <= SHORT_ANY_K:  # lines that are staged whole, in batches
        batch = max(tuning.batch_bytes // (n * itemsize), LANES) if facts.staged else 0
        network = itemsize < 8 and (row == SHORT_ANY_K or (row == SHORT and n < tuning.alone_from[facts.width]))
        return Choice(0, batch, NETWORK_LINES if network else 1, 1, 0, 0)
    if row == SORTED_MOST or row == SORTED:
        sample = min(tuning.sample, n // tuning.sorted_step) if k < n else 0
        sample, rank = sample_rank(facts, sample, tuning.sorted_deviations)
        return Choice(0, group_size(facts, tuning, n * itemsize), 0, 1, sample, rank)
    buffer = -(-min(max(4 * k, tuning.buffer), max(n, k)) // LANES) * LANES + LANES + SPARE
    group = group_size(facts, tuning, buffer * (itemsize + 8))
    if row == ROWS:
        return Choice(buffer, group, 0, 1, 0, 0)
    parts = piece_count(facts, tuning)
    sampled = itemsize == 1 or tuning.sampled_part * parts * k > n
    sample = min(tuning.sample, 2 * int(sqrt(n)) + k // 4) if sampled else 0
    sample, rank = sample_rank(facts, sample, tuning.sample_deviations)
    return Choice(buffer, group, 0, parts, sample, rank)


def column_tile(facts: Facts, most: int, unit: int) -> int:
    """Return how many neighbouring lines are a tile: `most`, or fewer units, so that all threads have as many tiles."""
    across, blocks = facts.across, facts.lines // facts.across
    tiles = -(-across // most)
    while blocks * tiles % facts.threads > 0 and across > tiles * unit:
        tiles += 1
    return -(-across // (tiles * unit)) * unit


def group_size(facts: Facts, tuning: Tuning, line_bytes: int) -> int:
    """Return how many lines are staged together, if each needs `line_bytes`."""
    return max(1, min(facts.staged, tuning.group_bytes // line_bytes)) if facts.staged else 0


def piece_count(facts: Facts, tuning: Tuning) -> int:
    """Return the number of pieces of a line: two per thread, more only until all threads have as many, or eight."""
    lines, threads, found = facts.lines, facts.threads, 1
    while lines * found < 2 * threads or (lines * found % threads > 0 and lines * found < 8 * threads):
        found += 1
    return min(found, facts.n // max(tuning.piece, tuning.piece_results * facts.k))


def sample_rank(facts: Facts, sample: int, deviations: int) -> tuple[int, int]:
    """Return the size of a sample in whole masks, and how many of it shall lie above a bound that k elements reach."""
    sample -= sample % LANES
    expected = sample * facts.k / facts.n
    return sample, int(expected + deviations * sqrt(expected)) + deviations


#: What the functions of this file that jitted callers compile call in turn.
SHARED = (takes_most, cut_keys_win, lists_are_short, least_across, column_tile, group_size, piece_count, sample_rank)


def jitted_kernels(itemsize: int, lines: bool) -> list[Any]:
    """Return for each row of the table the kernel that jitted callers need, or None; without `lines`, for one line."""
    of_one = {rows_kernel, sorted_kernel, best_kernel}
    of_lines = {short_kernel, columns_kernel, *([short_columns_kernel] if itemsize < 8 else [])}
    needed = of_one | of_lines if lines else of_one
    return [region.kernel if region.kernel in needed else None for region in TABLE]
