"""The top-k kernels: TOP_K and TOP_K1, for lines along any axis of any layout.

Elements become keys (see `keys`). A line is scanned in index order; what beats the k-th best key so far goes to a
buffer, which is compacted to the k best when it is full. The strict comparison and the stable compaction and sort give
the tie rule (lower index first) for free. There are three kernels:

- `rows`: a line is surveyed if it is long (see `survey`), or a sample tells a bound if much of it is selected. Lines
  that are not contiguous are staged in blocks. Few long lines are cut into pieces, which start from one bound and are
  merged at the end. If lines and k are small, the best go to a list in registers instead (see `list_best`);
- `short`: few elements: a network for eight lines at once, of contiguous lines, or of columns as they are. Others are
  staged in batches;
- `columns`: neighbouring lines are contiguous: tiles of them go down the axis together, never transposed.

Jitted code hands over a single line without a plan (`alone_kernel`).

Figures: docs/measurements/cpu_top_k.md.
"""

from __future__ import annotations

import numpy as np

from ...._core.shapes import LINE_FIELDS
from ...._jit.compile import helper
from ...._jit.memory import address, overlaps
from ...drivers import OVERLAP
from ..lines import tile_of, unravelled

#: The status of a kernel if a bound was too high: the plan shall be run without a sample; or if a line is not one that
#: it can do.
TOO_FEW, REFUSED = 1, 2

# The header of a plan. Strides of the input are in bytes, those of the outputs in elements.
(
    LINES,  # how many lines
    DIMS,  # how many dimensions the lines have
    SIZE,  # elements per line
    STRIDE,  # from element to element
    OUT_STRIDE,
    K,
    INDEX_SIZE,  # bytes per output index
    RULE,  # the rule of the keys: three numbers
    CAPACITY,  # elements of a buffer; rows, 0: a list
    PIECES,  # pieces per line
    GROUP,  # lines that are staged together, 0: they are contiguous
    TILE,  # lines that are looked at together: columns, or those of the network
    LOW,  # the lowest byte of the input, relative to its first element
    HIGH,
    VALUE_BYTES,
    INDEX_BYTES,
    SAMPLE,  # elements of a line that are looked at for a bound, a multiple of 64, 0: none
    SAMPLE_RANK,  # how many of them shall lie above it
    BASE,  # byte where the first line starts, relative to the first element of the input
    ANY_ORDER,  # 1: the result need not be sorted
    HEADER,
) = (*range(8), *range(10, 23))


@helper
def inner_dimension(plan):
    """Return where the innermost dimension of the lines starts in a plan."""
    return HEADER + LINE_FIELDS * (plan[DIMS] - 1)


@helper
def line_bases(plan, line):
    """Return where a line starts in the input and in the outputs."""
    source, to = unravelled(plan, HEADER, plan[DIMS], line)
    return source + plan[BASE], to


@helper
def share_count(plan, threads):
    """How many shares the lines are cut into: more than threads, since lines can differ a lot in what they cost.

    But there are hardly more than groups of lines that are staged together, since each share reads what is between its
    lines.
    """
    if threads == 1:
        return 1
    groups = -(-plan[LINES] // max(plan[GROUP], 1))
    return min(plan[LINES], 4 * threads, -(-groups // threads) * threads)


@helper
def clashes(x, values, indices, plan):
    """Tell whether an output lies in the input or in the other output."""
    low = address(x) + plan[LOW]
    high = address(x) + plan[HIGH]
    v = address(values)
    i = address(indices)
    return (
        overlaps(low, high, v, v + plan[VALUE_BYTES])
        or overlaps(low, high, i, i + plan[INDEX_BYTES])
        or overlaps(v, v + plan[VALUE_BYTES], i, i + plan[INDEX_BYTES])
    )


@helper
def task_count(phase, x, values, indices, plan, count):
    """Tell how many tasks a phase has, if only the first phase has tasks."""
    if phase > 0:
        return np.int64(0)
    return np.int64(OVERLAP) if clashes(x, values, indices, plan) else count


@helper
def tile_count(plan):
    """How many tiles of columns there are."""
    across = plan[inner_dimension(plan)]
    return plan[LINES] // across * -(-across // plan[TILE])


@helper
def tile_of_columns(plan, task, least):
    """Return what `tile_of` tells of a tile of columns."""
    return tile_of(task, plan[inner_dimension(plan)], plan[TILE], least)
