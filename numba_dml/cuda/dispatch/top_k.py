"""Which kernels run a top-k: a table, of which the first row that is for a call is taken.

A row's `can` tells what its kernels need, and its `when` whether they are the best, if no earlier row is.
"""

from __future__ import annotations

from ..._core.regions import Region, always
from ..kernels import top_k_best, top_k_block, top_k_columns, top_k_large, top_k_select, top_k_short, top_k_warp
from ..kernels.top_k_short import PLACES
from ..primitives.top_k.plan import MOST_K
from ..primitives.top_k.staging import group_of
from ..tuning.top_k import Tuning
from .top_k_facts import Facts, block_lists, delegate_group, fits_lanes, groups_beside, line_units, selecting_threads


def is_idle(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether there is nothing to select."""
    return facts.lines * facts.k == 0


def has_work(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether there is something to select."""
    return facts.lines > 0 and facts.k > 0


def can_find_best(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether threads can look for the best element of each line."""
    return facts.lines > 0 and facts.k == 1


def is_best_by_lanes(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether elements of a line are few or no neighbours, so that reading 16 bytes at once gains nothing."""
    return not facts.packed or facts.n <= tuning.few_elements


def fits_thread(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a thread can have a line: its list is long enough, and narrow keys leave 16 bits for positions."""
    return (
        facts.lines > 0
        and 0 < facts.k <= facts.thread_list
        and not facts.is_long
        and (facts.width > 2 or facts.n + group_of(facts.width, facts.thread_list) <= PLACES)
    )


def is_short(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are short, and enough that each has a thread."""
    return facts.line_bytes <= short_bytes(facts, tuning) and facts.lines >= enough_lines(facts, tuning)


def enough_lines(facts: Facts, tuning: Tuning) -> int:
    """Return how many lines there must be if each has a thread: with fewer that are very short, each has a warp."""
    of_one = tuning.best_short_lines if is_best_of_packed(facts, tuning) else tuning.short_lines
    return max(facts.n * of_one, tuning.least_short_lines if facts.n <= tuning.very_short else 0)


def short_bytes(facts: Facts, tuning: Tuning) -> int:
    """Return the most bytes of a line that a thread has: of longer ones, blocks or warps are faster."""
    most = tuning.short_elements * facts.width
    if is_best_of_packed(facts, tuning) or is_for_warps(facts, tuning):
        return min(most, tuning.short_bytes if facts.quads else tuning.short_bytes_unaligned)
    return most


def is_best_of_packed(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether the best element of each contiguous line is wanted."""
    return facts.lines > 0 and facts.k == 1 and facts.packed


def fits_warp(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a warp can have a line: contiguous, and neither too long nor too short for k."""
    return facts.lines > 0 and facts.warp_units > 0


def is_for_warps(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are enough for a warp each."""
    return facts.k > 1 and facts.warp_units > 0 and facts.lines >= tuning.warp_lines


def fits_warp_selection(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether the lanes of a warp can hold the keys of a line, and k of them to be sorted."""
    return facts.lines > 0 and facts.k > 0 and fits_lanes(facts)


def is_selected_by_warps(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines are very short; or contiguous, and either many or in any order."""
    return facts.n <= tuning.very_short or (facts.packed and (facts.lines >= tuning.warp_lines or not facts.is_sorted))


def has_rivals(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether groups can have rivals."""
    return facts.lines > 0 and facts.k > 0 and groups_beside(facts, tuning) is not None


def is_beside(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether lines lie beside each other and are much longer than k: rivals save reading groups again."""
    return facts.beside and facts.n >= tuning.beside_elements * facts.k


def can_delegate(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a block can choose from the delegates of a line."""
    return facts.lines > 0 and 0 < facts.k <= MOST_K and not facts.is_long and delegate_group(facts, tuning) > 0


def is_for_delegates(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether k is small, and a block would read a line too slowly, or cannot survey it."""
    return facts.k <= most_chosen(facts, tuning) and is_little(facts, tuning) and needs_delegates(facts, tuning)


def needs_delegates(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a block would be slow with a line. Blocks with long lists survey more, so they need none."""
    if not facts.packed:
        return facts.n > tuning.strided_elements
    lists = block_lists(facts, tuning)
    return line_units(facts) > lists.most_units or (lists.listed <= tuning.long_list and lags(facts, tuning))


def lags(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether all blocks find the delegates of few lines sooner than one block reads a line."""
    size = facts.line_bytes
    saved = size / tuning.block_rate - facts.lines * size / tuning.device_rate
    return saved > tuning.delegates_time + tuning.delegates_time_of_one[facts.width] * facts.k


def can_survey(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a block can keep the maxima of a line."""
    return (
        facts.lines > 0
        and 0 < facts.k <= MOST_K
        and not facts.is_long
        and line_units(facts) <= block_lists(facts, tuning).most_units
    )


def is_chosen(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether k is small enough that choosing is faster than sorting, or needs less memory."""
    return facts.k <= most_chosen(facts, tuning) and is_little(facts, tuning)


def is_little(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether k is a small part of a line, or the input too large for the memory of a sort by many blocks."""
    return tuning.elements_of_k[facts.width] * facts.k < facts.n or (
        facts.lines * facts.line_bytes >= tuning.large_input and not selecting_threads(facts, tuning, facts.n)
    )


def most_chosen(facts: Facts, tuning: Tuning) -> int:
    """Return the largest k that is chosen: with few lines, many blocks sort a line sooner than one chooses."""
    if facts.lines > tuning.few_lines[facts.width] or facts.line_bytes <= tuning.chosen_bytes[facts.width]:
        return MOST_K
    most = tuning.most_chosen[facts.width]
    return min(most, tuning.most_chosen_long) if facts.line_bytes > tuning.long_bytes else most


def fits_sort(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a block can sort a line in shared memory."""
    return facts.is_sorted and facts.lines > 0 and facts.k > 0 and selecting_threads(facts, tuning, facts.n) > 0


def fits_selection(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether a block can keep the keys of a line, and what is selected if it is sorted, in shared memory."""
    return facts.lines > 0 and facts.k > 0 and selecting_threads(facts, tuning, facts.k) > 0


def is_selected(facts: Facts, tuning: Tuning) -> bool:
    """Tell whether k is neither too large nor too small, and lines are enough if they are sorted."""
    return (
        least_selected(facts, tuning) <= facts.n
        and (facts.n <= most_selected(facts, tuning) or not is_chosen(facts, tuning))
        and (facts.lines >= tuning.selected_lines or not facts.is_sorted)
    )


def least_selected(facts: Facts, tuning: Tuning) -> float:
    """Return the least elements of a line: shorter ones are sorted sooner."""
    return max(tuning.selected_of_k[facts.width] * facts.k, tuning.least_selected) if facts.is_sorted else 0


def most_selected(facts: Facts, tuning: Tuning) -> int:
    """Return the most elements of a line: of longer ones k elements are chosen sooner."""
    return (tuning.most_of_k_sorted if facts.is_sorted else tuning.most_of_k) * facts.k


TABLE = (
    Region("nothing", None, is_idle, always, "there is nothing to select", "top_k on a GPU"),
    Region(
        "best by lanes",
        top_k_best.best_by_lanes_kernel,
        can_find_best,
        is_best_by_lanes,
        "k is 1, and elements of a line are few or no neighbours: lanes of a warp have each, or a part",
        "The best element of lines that are short or not contiguous",
    ),
    Region(
        "short lines",
        top_k_short.short_kernel,
        fits_thread,
        is_short,
        "lines are short, many, and k is small: a thread has each",
        "A thread for each short line",
    ),
    Region(
        "best",
        top_k_best.best_kernel,
        is_best_of_packed,
        always,
        "k is 1: blocks look for the best element of each line, several of them if it is long",
        "The best element of each line",
    ),
    Region(
        "selection by warps",
        top_k_select.warp_select_kernel,
        fits_warp_selection,
        is_selected_by_warps,
        "lines are short: a warp selects from each, or sorts it whole",
        "Selection",
    ),
    Region(
        "lines by warps",
        top_k_warp.warp_kernel,
        fits_warp,
        is_for_warps,
        "lines are many, of middle length, and k is small: a warp has each, and looks again at few parts",
        "A warp for each line",
    ),
    Region(
        "lines beside each other",
        top_k_columns.beside_kernel,
        has_rivals,
        is_beside,
        "k is small: groups of each line send their best keys ahead, a warp looks at few parts",
        "Lines beside each other",
    ),
    Region(
        "selection",
        top_k_select.block_select_kernel,
        fits_selection,
        is_selected,
        "much of each line is wanted: a block finds the k-th best key, and sorts k elements if they are to be sorted",
        "Selection",
    ),
    Region(
        "delegates",
        top_k_block.delegate_kernel,
        can_delegate,
        is_for_delegates,
        "lines are long: groups send their best keys ahead, and the best groups are read again",
        "Delegates",
    ),
    Region(
        "block choice",
        top_k_block.choose_kernel,
        can_survey,
        is_chosen,
        "a block reads each line once, and lists what reaches a bar that k of its parts reach",
        "A block chooses from a line",
    ),
    Region(
        "sort of lines",
        top_k_select.block_select_kernel,
        fits_sort,
        always,
        "much of each line is wanted: a block sorts it whole",
        "Lines that are sorted whole",
    ),
    Region(
        "sort",
        top_k_large.list_kernel,
        has_work,
        always,
        "k is large: what can be among the best is sorted digit by digit",
        "A sort by many blocks",
    ),
)
