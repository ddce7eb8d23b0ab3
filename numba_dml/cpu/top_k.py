"""The top-k kernels: TOP_K and TOP_K1, for lines along any axis of any layout.

Elements become keys (see `_keys`). A line is scanned in index order; what beats the k-th best key so far goes to a
buffer, which is compacted to the k best when it is full. The strict comparison and the stable compaction and sort give
the tie rule (lower index first) for free. There are eight ways to a line's elements:

- `best`: k is 1: a running maximum, and the place where it came from;
- `short`: few elements: a network for several lines at once, or, for a small k, groups of one (see `_short_lines`).
  Lines that are not contiguous are staged in batches;
- `singly`: the same for lines that the network never takes; a first call compiles it in half the time. Jitted code
  hands over a single line without a plan (`alone_kernel`);
- `rows`: lines are contiguous, or are staged in blocks; long ones are surveyed first (see `survey`);
- `pieces`: as rows, for few long lines: they are cut into pieces, which start from one bound and are merged at the end;
- `sorted`: a large k (see `_digits`);
- `columns`: neighbouring lines are contiguous: tiles of them go down the axis together, never transposed;
- `short columns`: the same for few elements, which go through the network of short lines as they are.
"""

from __future__ import annotations

import numpy as np

from . import allocating, chosen, helper, kernel
from ._digits import (
    DIGIT_COUNTS,
    HALF,
    LOW_HALF,
    SORT_DIGITS,
    collect_words,
    key_of_number,
    last_key,
    sort_line,
    ties_of,
)
from ._drivers import ASK, OVERLAP
from ._keys import (
    BLOCKS_AT_ONCE,
    GROUPS,
    LANES,
    ROWS_AT_ONCE,
    any_row_beats,
    beats,
    beats_keys,
    best_lane,
    best_lanes,
    best_of_rows,
    bits_of,
    insert_lanes,
    insert_row,
    insert_rows,
    insert_width,
    is_ambiguous,
    key_buffer,
    key_of,
    lane_limit,
    least_bound,
    lower_limits,
    lowest_bit,
    lowest_key,
    place_buffer,
    prefetch_lanes,
    raise_lanes,
    raise_lists,
    row_beats,
    rows_that_beat,
    rule_from,
    scanned_buffer,
    skip_lanes,
)
from ._memory import (
    CACHE_LINE,
    address,
    array_at,
    cache_bytes,
    empty,
    itemsize,
    load,
    overlaps,
    prefetch,
    seen_as,
    store,
)
from ._network import NETWORK_LINES, cut_block, list_depth, listed_place, network_lists
from ._short_lines import NONE, ONCE, SHORT_K, TWICE, cut_lines, network_columns, network_lines, select_alone
from ._sorting import SURPLUS, bisect, compact, pad, sort_all

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
    CAPACITY,  # elements of a buffer
    PIECES,  # pieces per line
    GROUP,  # lines that are staged together, 0: they are contiguous
    TILE,  # lines that are looked at together: columns, or lines in the network by whole keys
    LOW,  # the lowest byte of the input, relative to its first element
    HIGH,
    VALUE_BYTES,
    INDEX_BYTES,
    SAMPLE,  # elements of a long line that are looked at for a bound, a multiple of 64, 0: none
    SAMPLE_RANK,  # how many of them shall lie above it
    BASE,  # byte where the first line starts, relative to the first element of the input
    HEADER,
) = (*range(8), *range(10, 22))
DIM_FIELDS = 3  # size, input stride, output stride
# The ways to a line's elements; each has a kernel.
SHORT, ROWS, COLUMNS, BEST, IN_PIECES, SORTED, SHORT_COLUMNS, SINGLY = range(8)

#: Elements per staged block: with 64 bytes of neighbouring lines, 512 KiB, half of a common L2.
STAGE = 8192
#: They are staged line by line, four elements at once, in parts that stay in L1: of so many rows, or so many bytes from
#: the first row to the last, but of so many rows at least. On two threads, row by row and so, in ms: (31891, 5) f4 k=2
#: 0.115 and 0.035, (34303, 4) u1 k=10 0.070 and 0.023, (300000, 15) f4 k=10 1.43 and 0.89, (3000, 100) f4 k=700 0.92
#: and 0.71; (5000, 24) f4 k=10 0.032, and 0.049 if parts of rows that are more than a cache line have 8.
STAGED_ROWS, STAGED_BYTES, LEAST_STAGED = 256, 1 << 15, 8
#: A buffer that is full again after fewer elements than this many times its size asks for a better threshold.
EAGER = 4
#: Single bytes are looked at 256 at once after so many none of which beat the threshold. One thread, (1, 10M) k 100:
#: 0.22 ms, not 0.49; (64, 50257) k 50 0.21, not 0.23, and 0.34 without the wait.
SPARSE = 1024
#: A line of so many blocks of 64 elements for each result, and of so many at least, is surveyed: it is read once for
#: the best key of each block, and few blocks are read again. One thread, without and with it, in ms: (64, 50257) k 50
#: f4 0.69 and 0.37, f8 1.8 and 1.2, i8 1.3 and 1.0, f2 0.38 and 0.28, k 250 f4 1.7 and 1.1; (4096, 4096) f4 k 32 15.7
#: and 12.8, k 64 (one block for each) 17 and 34; (9973, 1025) f4 k 8 (16 blocks) 13.7 and 15.5. Blocks that lie closely
#: together tell of a line in order, all of whose best are in few: these are looked at for a better bound. Ascending
#: and descending lines took 0.58 and 0.40 ms of (64, 50257) without that, 5.0 and 4.4 of (2000, 3000) k 8 (random 2.3).
SURVEYED = 2
SURVEYED_BLOCKS = 32
#: Blocks are asked for so many ahead. Two threads, (1, 10M) k 100, without and with that, in ms: of an Intel Xeon f4
#: 1.09 and 1.05 (91 and 94 % of a scan), i8 2.87 and 2.53, (1, 1M) k 10 0.063 and 0.054; 4 and 8 ahead are between. Of
#: an AMD EPYC f4 2.0 and 1.6, f8 4.0 and 3.7, but i8 2.85 and 2.91.
SURVEYED_AHEAD = 16
#: Elements that are looked at for one, the nearest ones, and all over the line. Two threads, (64, 50257) k 50: f4 0.35
#: ms, i8 0.9 with the nearest 16384; with as many from all over 0.67 and 1.9.
LOOK_AHEAD = 16384
LOOK_AROUND = 4096
#: But no more parts of the nearest ones than these. With 32, 64, 128 and any number, (64, 50257) k 10 takes 0.82, 0.79,
#: 0.90 and 1.05 ms for i8, (100, 20000) f4 k 4 0.27, 0.28, 0.33 and 0.41, k 64 0.54, 0.52, 0.57 and 0.60, f2 0.41,
#: 0.36, 0.36 and 0.37.
LOOK_PARTS = 64
#: Parts that are asked for ahead: lines all of which is looked at take up to half as long again without it.
PARTS_AHEAD = 4
#: 2**64 times the golden ratio's fraction: its multiples fill an interval evenly.
GOLDEN = 0x9E3779B97F4A7C15
#: If so many of so many first blocks of a line have a better element than those before (one of 20 random ones), the
#: last block is looked at: what is worse than its best need not be looked at closely. One thread of an AMD EPYC, k 1,
#: ns a line that ascends, without and with it: u1 4096 172 and 109, 65536 3020 and 1476, f2 4096 609 and 382, f4 16384
#: 3676 and 1910.
BETTER, FIRST_BLOCKS = 8, 64
#: For k 1, too, blocks are asked for so many ahead. Two threads, without and with that, in ms: of an Intel Xeon (1024,
#: 32000) f4 8.1 and 6.3, i8 12.3 and 10.9, (20000, 1000) f4 3.3 and 2.8; of an AMD EPYC (20000, 1000) f4 3.6 and 2.9,
#: (4096, 4096) f2 1.6 and 1.4, (1024, 32000) f4 5.5 either way, i8 8.9 and 9.3.
BEST_AHEAD = 8
#: Lines are only asked whether they are in order if this part of one is selected, or more: else selecting takes no
#: longer than asking.
ORDERED_PART = 16
#: Elements of a line of so many bytes are asked for so many ahead, where they are written in the order of their keys.
#: Two threads of an AMD EPYC, ms, not, 16 and 48 ahead, and PyTorch: 10 lines of 1M f8, k 500,000, 163, 140, 130 and
#: 335, i8 122, 96, 95 and 193, 8 of 262,144 f8 23.4, 22.2, 20.3 and 67; 64 of 8000 f8 5.1, 5.4, 5.4.
FETCHED_AHEAD, FETCHED_BYTES = 32, 1 << 18
#: Cut keys (see `cut_lines`) are for lines of fewer elements than this, of four and eight bytes. One thread, ns a line,
#: alone and so, k 8: of an AMD EPYC f4 400 270 and 170 (evenly distributed 274 and 190), 600 314 and 245 (309 and 307),
#: f8 64, k 6 150 and 85, 400 677 and 521, 690 578 and 700; of an Intel Xeon with AVX-512 f4 400 235 and 174 (229 and
#: 223), 600 277 and 270 (265 and 345), f8 300 296 and 247, 400 343 and 317, 500 372 and 395.
CUT_SIZE = (500, 450)
#: A group of lines that goes through the network twice, or most of whose lines have keys that are equal so far, takes
#: as much trust as so many others give. If there is none left (there is so much at first, and never more than twice as
#: much), the keys near the highest one of a group are tried for so many lines, and if these are too few, cut ones as
#: before, or whole ones, if any group went twice and there are some. One thread of an AMD EPYC, ns a line, without cut
#: keys, with them, and without that: f4 64, k 6 random 83, 50 and 50, three distinct values 81, 72 and 105; k 32 random
#: 216, 117 and 117, whole numbers 222, 225 and 351.
COSTLY, TRUST, UNTRUSTED = 3, 6, 512
#: The status of a kernel if a bound was too high: the plan shall be run without a sample; or if a line is not one that
#: it can do.
TOO_FEW, REFUSED = 1, 2
#: What the kernel for a line alone has in its memory first: the size, k, the bytes of an index, and the rule; and how
#: many words that is, with room to work.
ALONE_NUMBERS = 6
ALONE_WORDS = ALONE_NUMBERS + LANES + 5 * GROUPS // 2

#: Rows of columns are looked at in groups of eight. Of long columns one group in eight is looked at first, or four
#: for each result if these are more, but one in four at most, and sixteen for each: they tell what not to insert.
#: (4096, 4096) f4, k 8: 3.4 ms, and 3.5 without it, but 12 if the columns ascend. With one group in four, and so, 3.04
#: and 2.88, 3.15 and 2.93, if they ascend 2.76 and 2.55 (two threads of an Intel Xeon). One thread, 100,000 rows of 64
#: float64, k 8: 1.7 ms, with every fourth group, however many, 3.3.
COLUMN_SAMPLED = 4, 8
COLUMN_SAMPLES = 4, 16
#: So are the last rows, in groups of four, one for each result: if columns ascend, that is where their best are. Two
#: threads, with and without, k 16: if they ascend (4096, 2048) f4 1.13 and 1.95 ms, (600, 10000) 1.6 and 6.0, (2048,
#: 2048) f8 1.26 and 2.95; random ones 1.22 and 1.18, 2.90 and 2.85, 1.25 and 1.25.
#: Rows that lie so many bytes apart are looked at together, and so are those without anything between them; of others,
#: which lie in few pages, the hardware finds no streams. One thread, 8 rows of 1, 2 and 4 KB together: 9, 13 and 22
#: GB/s. They are looked at one by one, and rows so far ahead are asked for.
LONG_ROW = 4096
ROWS_AHEAD = 4
#: So are those of columns with at most so many elements for each result: nearly all groups have one to insert.
CROWDED = 32
#: Of rows that are looked at together, what lies so many columns ahead is asked for. Two threads, k 8, in ms, without
#: and with that: of an Intel Xeon (4096, 4096) f4 2.88 and 2.67, 3.73 and 3.45, i4 3.81 and 3.46, (2048, 4096) f8 4.14
#: and 3.94; of an AMD EPYC (4096, 4100) f4 4.35 and 4.14, (10000, 2000) 4.76 and 4.34, (4000, 5000) f2 3.24 and 2.90.
#: But (4096, 4096) 2.71 and 2.98 there: rows whose distance is a multiple of a page share places of the L1, which has
#: as many of these as pages. Known when a kernel is compiled: with a disk cache from another processor, only the speed
#: differs.
ASKED = 2 * LANES
PAGE = 4096
FEW_PLACES = cache_bytes(0, assumed=1 << 16) <= ROWS_AT_ONCE * PAGE
#: What it takes to insert an element alone, and those of a row whose lists are side by side, `insert_width` of them:
#: for each place of these, and once; only their ratios count. Two threads, in ms, rows always, and elements alone while
#: that takes less: (4096, 4096) f4 k 8 2.35 and 2.0, k 16 3.4 and 2.4, if columns ascend 2.2 and 2.3, 3.8 and 3.9
#: (always alone: 3.2 and 6.1). With 8 for an element 8-byte columns that ascend never changed over with k 16: 7.1, not
#: 6.1.
ALONE, PER_LEVEL, PER_ROW = 12, 2, 5


@helper
def line_bases(plan, line):
    """Return where a line starts in the input and in the outputs."""
    source = plan[BASE]
    to = np.int64(0)
    for d in range(plan[DIMS] - 1, -1, -1):
        field = HEADER + DIM_FIELDS * d
        rest = line // plan[field]
        i = line - rest * plan[field]
        source += i * plan[field + 1]
        to += i * plan[field + 2]
        line = rest
    return source, to


@helper
def bound_ahead(
    row,  # IN   (n,) intW, elements
    begin,  # IN   look at parts of row[begin:end], which has room for four at least
    end,
    most,  # IN   elements to look at
    k,
    groups,  # IN   elements of a part, at least k, a multiple of 64
    rule,
    best,  # OUT  (groups,) intW, scratch
):
    """Return a key that at least k elements of a part of a line are above: k of the maxima of groups are.

    The parts are spread evenly, with one at either end, so that a line that ascends or descends shows what is best;
    each group has one element of every part. An odd distance keeps what is special in every second place from filling
    half of the groups.
    """
    for g in range(groups):
        best[g] = lowest_key(best)
    parts = min((end - begin) // (groups + 2), max(most // groups, 4))  # they must not overlap
    distance = ((end - begin - groups) // (parts - 1) - 1) | 1
    for part in range(parts):
        at = begin + part * distance if part < parts - 1 else end - groups
        for g in range(0, groups, LANES):
            raise_lanes(row, at + g, best, g, rule)
            prefetch_lanes(row, at + PARTS_AHEAD * distance + g)
    return bisect(best, groups, k)[0]


@helper
def bound_of_sample(x, plan, line, best):
    """Return a key that very likely at least k elements of a line, and not many more, are above.

    If it is the key of many elements, fewer may be above it: then the first of these belong to the result. `best` is
    scratch. The sample has one element of each part of the line, at places that shift from part to part: a period in
    the data cannot hide from it.
    """
    size = plan[SAMPLE]
    rank = plan[SAMPLE_RANK]
    rule = rule_from(x, plan, RULE)
    source, _ = line_bases(plan, line)
    part = plan[SIZE] // size
    shift = np.uint64(0)
    for i in range(size):
        shift += np.uint64(GOLDEN)
        place = i * part + np.int64(((shift >> np.uint64(32)) * np.uint64(part)) >> np.uint64(32))
        best[i] = key_of(load(x, source + place * plan[STRIDE]), rule)
    bound, above = bisect(best, size, rank)
    # Too many above it, yet too few above the next key: that is the one of many elements.
    return best.dtype.type(bound + 1) if above > rank + rank // 8 else bound


@helper
def next_above(keys, at, count, limit):
    """Return the place of the next key above a limit, from `at` on, or else `count`."""
    while at < count:
        mask = beats_keys(keys, at, limit, (keys.dtype.type(0),))
        if mask != np.uint64(0):
            return min(at + lowest_bit(mask), count)
        at += LANES
    return count


@helper
def span_above(keys, count, limit):
    """Return where the first key above a limit is, and the place behind the last one."""
    begin, end = count, 0
    for at in range(0, count, LANES):
        mask = beats_keys(keys, at, limit, (keys.dtype.type(0),))
        while mask != np.uint64(0):
            end = at + lowest_bit(mask) + 1
            begin = min(begin, end - 1)
            mask &= mask - np.uint64(1)
    return begin, end


@helper
def survey(
    row,  # IN   (n,) intW, elements
    end,  # IN   how many of them, a multiple of 64
    k,
    rule,
    blocks,  # OUT  (end / 64,) intW, the best key of each block, and room to scan them
    best,  # OUT  (4 * k, rounded up to 64,) intW, scratch
):
    """Look at all blocks; return a key that the best of at least k blocks are above, and the best key of all."""
    count = end // LANES
    together = count - count % BLOCKS_AT_ONCE
    for b in range(0, together, BLOCKS_AT_ONCE):
        for ahead in range(SURVEYED_AHEAD, SURVEYED_AHEAD + BLOCKS_AT_ONCE):
            prefetch_lanes(row, (b + ahead) * LANES)
        best_lanes(row, b * LANES, blocks, b, rule)
    for b in range(together, count):
        blocks[np.uint64(b)] = best_lane(row, b * LANES, rule)
    padded = pad(blocks, count)
    groups = -(-4 * k // LANES) * LANES
    for g in range(groups):
        best[g] = lowest_key(best)
    for b in range(0, padded, LANES):
        raise_lanes(blocks, b, best, b % groups, (best.dtype.type(0),))
    top = lowest_key(best)
    for g in range(groups):
        top = max(top, best[g])
    return bisect(best, groups, k)[0], top


@helper
def feed(
    row,  # IN      (n,) intW, elements
    end,  # IN      how many of them
    first,  # IN      the position of the first in its line
    k,
    rule,
    keys,  # IN OUT  (capacity,) intW, the buffer
    positions,  # IN OUT  (capacity,) int64
    count,  # IN      how many the buffer holds
    full,  # IN      True: `threshold` is the k-th best key so far
    threshold,
    blocks,  # OUT     (end / 64,) intW, scratch, and room to scan it
    scratch,  # OUT     (capacity,) intW
):
    """Let elements through that beat the threshold; return the new count, full and threshold."""
    limit = keys.size - LANES
    groups = -(-2 * k // LANES) * LANES
    seen = -end  # where the threshold was raised last
    i = 0
    most = min(LOOK_AHEAD, LOOK_PARTS * groups)
    near = min(end, max(most, 4 * groups))
    whole = 0  # where the blocks end whose best keys are known
    ask = not full and count == 0
    if ask and end >= max(SURVEYED * k, SURVEYED_BLOCKS) * LANES:
        whole = end // LANES * LANES
        threshold, top = survey(row, whole, k, rule, blocks, scratch)
        full = threshold >= least_bound(row, rule)
        ask = False
        if full and threshold == top - 1:  # no others than the first of many elements with the best key are wanted
            limit = min(limit, k + k // 8 + 1)
        elif full:
            begin, stop = span_above(blocks, whole // LANES, lane_limit(threshold, rule))
            if stop - begin < k + k // 2:  # as in a line that ascends or descends: most of it is above the bound
                i, most = begin * LANES, LOOK_AROUND
                near = stop * LANES if stop * LANES < whole else end
                ask = True
        threshold = lane_limit(threshold, rule)  # the best of a block may have been a zero that there is not
    while i < end and not (full and threshold == ~lowest_key(row)):  # nothing beats the highest key
        if ask and near - i >= 4 * groups:
            # What lies ahead holds at least k elements above the bound: nothing else belongs to the result. First the
            # nearest elements are looked at, which stay in L2; if that was not enough, some from all over the line.
            bound = bound_ahead(row, i, near, most, k, groups, rule, scratch)
            threshold = max(threshold, bound) if full else bound
            full = full or bound > lowest_key(row)
        ask = False
        near, most = end, LOOK_AROUND
        if not full:
            stop = min(end, i + limit - count)
            for j in range(i, stop):
                keys[count] = key_of(row[j], rule)
                positions[count] = j + first
                count += 1
            i = stop
        else:
            hit = i
            low = lane_limit(threshold, rule)
            while count <= limit:
                if i < whole:
                    i = next_above(blocks, i // LANES, whole // LANES, low) * LANES
                elif i - hit >= SPARSE:
                    i = skip_lanes(row, i, end, threshold, rule)
                if i + LANES > end:
                    break
                mask = beats(row, i, threshold, rule)
                if mask != np.uint64(0):
                    hit = i
                while mask != np.uint64(0):
                    j = i + lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    keys[count] = key_of(row[j], rule)
                    positions[count] = j + first
                    count += 1
                i += LANES
            if i + LANES > end and count <= limit:
                while i < end:
                    key = key_of(row[i], rule)
                    if key > threshold:
                        keys[count] = key
                        positions[count] = i + first
                        count += 1
                    i += 1
        if count >= limit:
            count, threshold = compact(keys, positions, count, k)
            full = True
            ask = i - seen < EAGER * limit  # too many elements beat the threshold, as in a line that ascends
            seen = i
    return count, full, threshold


@helper
def find_best(row, size, rule):
    """Return the position of the best element of a line, the first of equal ones."""
    best = key_of(row[0], rule)
    found = 0
    block = -1
    better = 0
    whole = size if size >= LANES else 0
    for start in range(0, whole, LANES):
        at = min(start, size - LANES)  # the last block lies on the one before it in part, which beats nothing again
        prefetch_lanes(row, at + BEST_AHEAD * LANES)
        if beats(row, at, best, rule) != np.uint64(0):  # in random lines seldom, in ascending ones always
            block = at
            best = best_lane(row, at, rule)
            if best != lane_limit(best, rule):  # it stands for another one, perhaps, or for a zero that there is not
                best = lowest_key(row)
                for i in range(at, at + LANES):
                    best = max(best, key_of(row[i], rule))
            better += 1
            if better == BETTER and at < FIRST_BLOCKS * LANES:  # perhaps the line ascends to its end
                last = best_lane(row, size - LANES, rule)
                if last > least_bound(row, rule):
                    best = max(best, row.dtype.type(lane_limit(last, rule) - 1))
    if block >= 0:
        found = block + lowest_bit(beats(row, block, row.dtype.type(best - 1), rule))
    for i in range(whole, size):
        key = key_of(row[i], rule)
        if key > best:
            best = key
            found = i
    return found


@helper
def write_index(indices, size, at, position):
    """Store one output index of `size` bytes."""
    if size == 8:
        store(seen_as(indices, np.int64), at * 8, position)
    elif size == 4:
        store(seen_as(indices, np.uint32), at * 4, np.uint32(position))
    elif size == 2:
        store(seen_as(indices, np.uint16), at * 2, np.uint16(position))
    else:
        store(seen_as(indices, np.uint8), at, np.uint8(position))


@helper
def write_element(x, source, stride, values, indices, index_size, at, position):
    """Write a position in a line, and the element there, bit by bit."""
    write_index(indices, index_size, at, position)
    store(values, at * itemsize(values), load(x, source + position * stride))


@helper
def write_line(plan, x, source, values, indices, to, positions):
    """Write the selected positions of a line, and the elements there."""
    stride, step, index_size = plan[STRIDE], plan[OUT_STRIDE], plan[INDEX_SIZE]
    for j in range(plan[K]):
        write_element(x, source, stride, values, indices, index_size, to + j * step, positions[j])


@helper
def order_of(x, source, stride, n, rule):
    """Tell whether a line is in order: 1, best first, -1, best last, or 0."""
    rises = falls = False
    row = array_at(x, source, (n,))
    at, end = 1, min(4, n)
    while at < n:
        if stride == itemsize(x):  # a loop that LLVM vectorises
            for i in range(at, end):
                before, key = key_of(row[np.uint64(i - 1)], rule), key_of(row[np.uint64(i)], rule)
                rises |= key > before
                falls |= key < before
        else:
            before = key_of(load(x, source + (at - 1) * stride), rule)
            for i in range(at, end):
                key = key_of(load(x, source + i * stride), rule)
                rises |= key > before
                falls |= key < before
                before = key
        if rises and falls:
            return 0
        at, end = end, min(end + LANES, n)
    return -1 if rises else 1


@helper
def write_ordered(plan, x, values, indices, line, lines):
    """Write the results of those of some lines that are in order; stop at the first that is not, return its number.

    Nothing is looked at if few elements of a line are selected. Of equal elements the earlier one comes first, in lines
    whose best come last, too.
    """
    n, k, stride, step, index_size = plan[SIZE], plan[K], plan[STRIDE], plan[OUT_STRIDE], plan[INDEX_SIZE]
    if k <= SHORT_K or k * ORDERED_PART < n:
        return 0
    rule = rule_from(x, plan, RULE)
    for number in range(lines):
        source, to = line_bases(plan, line + number)
        order = order_of(x, source, stride, n, rule)
        if order == 0:
            return number
        if order > 0:
            for j in range(k):
                write_element(x, source, stride, values, indices, index_size, to + j * step, j)
            continue
        begin, written = n - 1, 0
        key = key_of(load(x, source + begin * stride), rule)
        while written < k:
            end, of_these = begin + 1, key
            while begin >= 0 and key == of_these:
                begin -= 1
                key = key_of(load(x, source + max(begin, 0) * stride), rule)
            for i in range(min(end - begin - 1, k - written)):
                write_element(x, source, stride, values, indices, index_size, to + (written + i) * step, begin + 1 + i)
            written += end - begin - 1
    return lines


@helper
def write_words(plan, x, source, row, values, indices, to, words, rule):
    """Write the positions that sorted words of a line have (see `_digits`), and the elements there, bit by bit.

    A key that no other bits have says what the element is. Only others are looked for in the line.
    """
    stride = plan[STRIDE]
    step = plan[OUT_STRIDE]
    index_size = plan[INDEX_SIZE]
    size = itemsize(values)
    for j in range(plan[K]):
        position = words[j] & LOW_HALF
        key = key_of_number(row, np.uint64(words[j]) >> np.uint64(HALF))
        bits = load(x, source + position * stride) if is_ambiguous(key, rule) else row.dtype.type(bits_of(key, rule))
        store(values, (to + j * step) * size, bits)
        write_index(indices, index_size, to + j * step, position)


@helper
def write_positions(plan, x, source, values, indices, to, words):
    """Write the positions that words of 8-byte elements have, and these, which lie anywhere in the line."""
    stride, step, index_size, k = plan[STRIDE], plan[OUT_STRIDE], plan[INDEX_SIZE], plan[K]
    is_far = plan[SIZE] * abs(stride) > FETCHED_BYTES
    for j in range(k):
        if is_far:
            prefetch(x, source + (words[min(j + FETCHED_AHEAD, k - 1)] & LOW_HALF) * stride)
        write_element(x, source, stride, values, indices, index_size, to + j * step, words[j] & LOW_HALF)


@helper
def finish_line(plan, x, line, values, indices, keys, positions, count, scratch, scratch_positions):
    """Sort the k best of the buffer of a line, and write them."""
    k = plan[K]
    if count > k + SURPLUS:
        count, _ = compact(keys, positions, count, k)
    in_scratch = sort_all(keys, positions, count, scratch, scratch_positions)
    source, to = line_bases(plan, line)
    write_line(plan, x, source, values, indices, to, scratch_positions if in_scratch else positions)


@helper
def stage_lines(x, bases, stride, start, count, stage, lines):
    """Stage so many elements, from number `start` on, of the lines of a group."""
    at_once = max(min(STAGED_ROWS, STAGED_BYTES // max(abs(stride), 1)), LEAST_STAGED)
    for first in range(0, count, at_once):
        last = min(first + at_once, count)
        rest = last - (last - first) % 4
        for g in range(lines):
            at = bases[g] + (start + first) * stride
            for i in range(first, rest, 4):
                a, b = load(x, at), load(x, at + stride)
                c, d = load(x, at + 2 * stride), load(x, at + 3 * stride)
                stage[g, np.uint64(i)], stage[g, np.uint64(i + 1)] = a, b
                stage[g, np.uint64(i + 2)], stage[g, np.uint64(i + 3)] = c, d
                at += 4 * stride
            for i in range(rest, last):
                stage[g, np.uint64(i)] = load(x, at + (i - rest) * stride)


@allocating
def packed_plan(x, plan):
    """Return a plan for lines that follow each other."""
    packed = plan.copy()
    packed[STRIDE] = itemsize(x)
    step = plan[SIZE] * itemsize(x)
    for d in range(plan[DIMS] - 1, -1, -1):
        field = HEADER + DIM_FIELDS * d
        packed[field + 1] = step
        step *= plan[field]
    return packed


@allocating
def batches(x, plan, lines):
    """Return how many of so many lines are a batch, and the plan for one: all, and `plan`, if they are not staged.

    And what `stage_batch` needs beside them.
    """
    staged = plan[GROUP] > 0
    batch = max(plan[GROUP] if staged else lines, 1)
    stage = key_buffer(x, (batch if staged else 0, plan[SIZE]))
    return batch, packed_plan(x, plan) if staged else plan, (stage, empty(stage.shape[0], np.int64))


@helper
def stage_batch(x, plan, first, last, packed, staging):
    """Stage the lines first <= line < last, if they are to be, and let a packed plan lead there."""
    if plan[GROUP] == 0:
        return
    stage, bases = staging
    for line in range(first, last):
        bases[line - first] = line_bases(plan, line)[0]
    stage_lines(x, bases, plan[STRIDE], 0, plan[SIZE], stage, last - first)
    low, step = stage.ctypes.data - address(x), plan[SIZE] * itemsize(x)
    packed[BASE], packed[LOW], packed[HIGH] = low - first * step, low, low + (last - first) * step


@helper
def best_of_lines_in(x, values, indices, plan, begin, end):
    """Find the best element of each of the lines begin <= line < end."""
    rule = rule_from(x, plan, RULE)
    size = itemsize(x)
    for line in range(begin, end):
        source, to = line_bases(plan, line)
        position = find_best(array_at(x, source, (plan[SIZE],)), plan[SIZE], rule)
        write_index(indices, plan[INDEX_SIZE], to, position)
        store(values, to * size, load(x, source + position * size))


@allocating
def best_of_lines(x, values, indices, plan, begin, end):
    """Do the same for lines that are not contiguous, too: these are staged in batches."""
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        best_of_lines_in(x, values, indices, packed, first, last)


def select_left_over(x, plan, line, lines, rule, best, cut, few, stage, positions):
    """Select from lines that are fewer than the network takes, or are not neighbours (inside kernels only).

    They are staged in `few`. What the network makes of lines that are not there is not looked at.
    """
    raise NotImplementedError


@chosen(select_left_over)
def _select_left_over(x, plan, line, lines, rule, best, cut, few, stage, positions):
    def select(x, plan, line, lines, rule, best, cut, few, stage, positions):
        n, at = stage_left_over(x, plan, line, lines, few), few.ctypes.data - address(x)
        network_lines(x, at, n * itemsize(x), n, plan[K], rule, best, positions)

    def select_cut(x, plan, line, lines, rule, best, cut, few, stage, positions):
        n, at = stage_left_over(x, plan, line, lines, few), few.ctypes.data - address(x)
        cut_lines(x, at, n * itemsize(x), n, plan[K], rule, cut, stage, positions, False)

    return select_cut if x.dtype.bitwidth == 64 else select


@helper
def stage_left_over(x, plan, line, lines, few):
    """Stage so many lines, and return how many elements each has."""
    n = plan[SIZE]
    for i in range(lines):
        row = array_at(x, line_bases(plan, line + i)[0], (n,))
        for j in range(n):
            few[i, j] = row[j]
    return n


def rank_lines(x, source, step, n, k, rule, keys, ranks, positions):
    """Select from `NETWORK_LINES` lines of too few 8-byte elements for cut keys (inside kernels only).

    Each goes where it says how many of its line are better. One thread of an AMD EPYC, 6000 lines, in µs, one line at a
    time and so, and PyTorch: of 2 int64, k 1 691, 126 and 83, of 3 700, 147 and 134, of 7, k 2 763, 283 and 382; of 4
    float64, k 2 918, 205 and 265, of 7, k 7 1259, 496 and 794.
    """
    raise NotImplementedError


@chosen(rank_lines)
def _rank_lines(x, source, step, n, k, rule, keys, ranks, positions):
    def nothing(x, source, step, n, k, rule, keys, ranks, positions):
        return

    def by_rank(x, source, step, n, k, rule, keys, ranks, positions):
        lines = NETWORK_LINES
        for j in range(n):
            for line in range(lines):
                keys[j * lines + line] = key_of(load(x, source + line * step + j * itemsize(x)), rule)
                ranks[j * lines + line] = j
        for i in range(1, n):
            for j in range(i):
                for line in range(lines):  # as vectors
                    is_better = np.int64(keys[i * lines + line] > keys[j * lines + line])
                    ranks[i * lines + line] -= is_better
                    ranks[j * lines + line] += is_better
        order = ranks[n * lines :]
        for line in range(lines):
            for j in range(n):
                order[ranks[j * lines + line]] = j
            for j in range(k):
                positions[line, j] = order[j]

    return by_rank if x.dtype.bitwidth == 64 else nothing


@helper
def short_lines_in(
    x,  # IN   the input
    values,  # OUT  the selected elements
    indices,  # OUT  and where they are
    plan,  # IN   (fields,) int64
    begin,  # IN   the lines begin <= line < end
    end,
    best,  # OUT  (k or more, lines) keys of the network
    cut,  # OUT  (k + 1 or more, lines) cut keys
    few,  # OUT  (lines, n) elements, if k is above `SHORT_K`
    room,  # OUT  (64 + 16 + 64,) keys
    places,  # OUT  (max(most lines * k, 16),) int64
    listed,  # OUT  (16,) int32
):
    """Select from short lines; the last six are scratch."""
    k = plan[K]
    n = plan[SIZE]
    stage, keys, ranks = room[:LANES], room[LANES : LANES + GROUPS], room[LANES + GROUPS :]
    # Of one line there can be more. (`reshape` takes Numba 0.1 s.)
    cut_count, cut_least = cut_block(x)
    positions = array_at(seen_as(x, np.int64), places.ctypes.data - address(x), (max(NETWORK_LINES, cut_count), k))
    # The network reads so many elements of a line at least: of shorter ones, what lies before them.
    first_byte = plan[LOW] + max(NETWORK_LINES - n, 0) * itemsize(x)
    rule = rule_from(x, plan, RULE)
    inner = HEADER + DIM_FIELDS * (plan[DIMS] - 1)
    neighbours = plan[inner] if plan[DIMS] else 1
    step = plan[inner + 1] if plan[DIMS] else 0
    out_step = plan[inner + 2] if plan[DIMS] else 0
    can_cut = cut_count > 1 and cut_least <= n < CUT_SIZE[itemsize(x) // 8]
    is_tiny = itemsize(x) == 8 and n < cut_least
    # Whether the keys near the highest one are tried; the line from which on cut ones are trusted again, 0: they are;
    # whether whole ones are better than these; and the line from which on keys are cut at all.
    near, trust, again, whole, cut_from = False, TRUST, 0, False, begin
    line = begin
    while line < end:
        if 0 < again <= line:
            near, trust, again, whole = False, TRUST, 0, False
        cuts = can_cut and cut_from <= line <= end - cut_count
        cuts = cuts and (plan[GROUP] > 0 or line % neighbours + cut_count <= neighbours)
        lines = cut_count if cuts else min(NETWORK_LINES if itemsize(x) < 8 or is_tiny else cut_count, end - line)
        ordered = write_ordered(plan, x, values, indices, line, lines)
        if ordered > 0:
            line += ordered
            continue
        source, to = line_bases(plan, line)
        if cuts:
            effort = cut_lines(x, source, step, n, k, rule, cut, stage, positions, near)
            if effort == NONE:
                near, cut_from = False, again if whole else line
                continue
            if again == 0:
                trust = min(trust + 1, 2 * TRUST) if effort == ONCE else trust - COSTLY
                whole = whole or (effort == TWICE and plan[TILE] > 1)
                if trust < 0:
                    near, again = True, line + UNTRUSTED
        elif (
            (is_tiny or plan[TILE] > 1)
            and lines == NETWORK_LINES
            and (plan[GROUP] > 0 or line % neighbours + NETWORK_LINES <= neighbours)
            and (is_tiny or min(source, source + (NETWORK_LINES - 1) * step) >= first_byte)
        ):
            if is_tiny:
                rank_lines(x, source, step, n, k, rule, stage, ranks, positions)
            else:
                network_lines(x, source, step, n, k, rule, best, positions)
        elif k <= SHORT_K:
            lines = 1
            select_alone(array_at(x, source, (n,)), n, k, rule, stage, keys, listed, places)
        else:
            select_left_over(x, plan, line, lines, rule, best, cut, few, stage, positions)
        for i in range(lines):
            if i > 0:
                if (line + i) % neighbours:
                    source, to = source + step, to + out_step
                else:
                    source, to = line_bases(plan, line + i)
            write_line(plan, x, source, values, indices, to, positions[i])
        line += lines


@allocating
def short_lines(x, values, indices, plan, begin, end):
    """Select from the lines begin <= line < end, which are short; others than contiguous ones are staged in batches."""
    # The lists of both kinds of keys lie in the same memory: 64 bits for each line, or 32 for up to twice as many.
    depth = list_depth(plan[K], NETWORK_LINES)
    cut_count, together = cut_block(x)
    cut_depth = list_depth(plan[K], together) + 1
    lists = network_lists(x, max(depth, cut_depth))
    best, cut = lists[:depth], array_at(x, lists.ctypes.data - address(x), (cut_depth, cut_count))
    few = key_buffer(x, (NETWORK_LINES, plan[SIZE] if plan[K] > SHORT_K else 0))
    room = key_buffer(x, LANES + GROUPS + LANES)  # few allocations: each takes 0.05 us
    places = empty(max(max(NETWORK_LINES, cut_count) * plan[K], GROUPS), np.int64)
    listed = empty(GROUPS, np.int32)
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        short_lines_in(x, values, indices, packed, first, last, best, cut, few, room, places, listed)


@helper
def lines_alone_in(x, values, indices, plan, begin, end, rest, keys, places, positions):
    """Select from the lines begin <= line < end one by one; the last four are scratch, see `select_alone`."""
    n, k = plan[SIZE], plan[K]
    rule = rule_from(x, plan, RULE)
    for line in range(begin, end):
        source, to = line_bases(plan, line)
        select_alone(array_at(x, source, (n,)), n, k, rule, rest, keys, places, positions)
        write_line(plan, x, source, values, indices, to, positions)


@allocating
def lines_alone(x, values, indices, plan, begin, end):
    """Select from lines for which there is no network; others than contiguous ones are staged in batches."""
    room = key_buffer(x, LANES + GROUPS)
    rest, keys, places, positions = room[:LANES], room[LANES:], empty(GROUPS, np.int32), empty(GROUPS, np.int64)
    batch, packed, staging = batches(x, plan, end - begin)
    for first in range(begin, end, batch):
        last = min(first + batch, end)
        stage_batch(x, plan, first, last, packed, staging)
        lines_alone_in(x, values, indices, packed, first, last, rest, keys, places, positions)


@allocating
def stage_for(x, plan, most):
    """Return where up to so many elements of each line of a group are staged.

    They lie an odd number of cache lines apart: at powers of two all meet in a few places of L1. When each had 8192
    elements, (8192, 300), k 100, axis 0, took 4.5 ms for f4 and 4.1 for u1, and takes 2.0 and 0.9 on two threads.
    """
    if plan[GROUP] == 0:
        return key_buffer(x, (1, 0))
    of_line = CACHE_LINE // itemsize(x)
    return key_buffer(x, (plan[GROUP], (-(-most // LANES) * LANES // of_line | 1) * of_line))


@allocating
def group_buffers(x, plan):
    """Return what `feed_lines` works with, for a group of lines."""
    group = max(plan[GROUP], 1)
    rows = STAGE if plan[GROUP] > 0 else -(-plan[SIZE] // plan[PIECES])
    return (
        key_buffer(x, group),  # the thresholds
        empty(group, np.bool_),  # whether there are any
        empty(group, np.int64),  # where the lines start
        stage_for(x, plan, min(STAGE, -(-plan[SIZE] // plan[PIECES]))),
        scanned_buffer(x, -(-rows // LANES)),  # the best keys of blocks
        key_buffer(x, plan[CAPACITY]),  # scratch
    )


@helper
def feed_lines(
    x,  # IN   the input
    plan,  # IN   (fields,) int64
    line,  # IN   the first line of a group
    lines,  # IN   how many lines
    piece,  # IN   of each, the piece to look at
    buffers,  # IN OUT  of the group; there may be thresholds already
    keys,  # OUT  (lines, capacity) intW, the k best at least, in index order
    positions,  # OUT  (lines, capacity) int64, where they are
    found,  # OUT  (lines,) int64, how many they are
):
    """Feed a piece of the lines of a group to their buffers."""
    thresholds, full, bases, stage, blocks, scratch = buffers
    stride = plan[STRIDE]
    staged = plan[GROUP] > 0
    first = plan[SIZE] * piece // plan[PIECES]
    last = plan[SIZE] * (piece + 1) // plan[PIECES]
    block = STAGE if staged else max(last - first, 1)
    rule = rule_from(x, plan, RULE)
    for g in range(lines):
        bases[g] = line_bases(plan, line + g)[0]
        found[g] = 0
    for start in range(first, last, block):
        stop = min(start + block, last)
        if staged:
            stage_lines(x, bases, stride, start, stop - start, stage, lines)
        for g in range(lines):
            row = stage[g] if staged else array_at(x, bases[g] + start * stride, (stop - start,))
            found[g], full[g], thresholds[g] = feed(
                row,
                stop - start,
                start,
                plan[K],
                rule,
                keys[g],
                positions[g],
                found[g],
                full[g],
                thresholds[g],
                blocks,
                scratch,
            )


@helper
def whole_lines_in(x, values, indices, plan, begin, end, buffers, keys, positions, found, scratch_positions):
    """Select from the lines begin <= line < end, in groups, with memory for one."""
    thresholds, full, _, _, _, scratch = buffers
    group = found.size
    for line in range(begin, end, group):
        lines = min(group, end - line)
        done = write_ordered(plan, x, values, indices, line, lines)
        line, lines = line + done, lines - done
        for g in range(lines):
            full[g] = False
            thresholds[g] = 0
        feed_lines(x, plan, line, lines, 0, buffers, keys, positions, found)
        for g in range(lines):
            finish_line(plan, x, line + g, values, indices, keys[g], positions[g], found[g], scratch, scratch_positions)


@allocating
def whole_lines(x, values, indices, plan, begin, end):
    """Select from the lines begin <= line < end."""
    group = max(plan[GROUP], 1)
    keys = key_buffer(x, (group, plan[CAPACITY]))
    positions = empty(keys.shape, np.int64)
    found = empty(group, np.int64)
    buffers = group_buffers(x, plan)
    scratch_positions = empty(plan[CAPACITY], np.int64)
    whole_lines_in(x, values, indices, plan, begin, end, buffers, keys, positions, found, scratch_positions)


@allocating
def piece_of_lines(x, plan, task, bounds, keys, positions, found):
    """Select from one piece of the lines of a group: the task says which. What is not above the bounds is left out."""
    piece = task % plan[PIECES]
    buffers = group_buffers(x, plan)
    thresholds, full, _, _, _, _ = buffers
    begin = task // plan[PIECES] * full.size
    end = min(begin + full.size, plan[LINES])
    for g in range(end - begin):
        full[g] = plan[SAMPLE] > 0
        thresholds[g] = bounds[begin + g] if full[g] else 0
    feed_lines(
        x,
        plan,
        begin,
        end - begin,
        piece,
        buffers,
        keys[piece, begin:end],
        positions[piece, begin:end],
        found[piece, begin:end],
    )


@allocating
def merge_pieces(
    x,  # IN   the input
    values,  # OUT  the selected elements
    indices,  # OUT  and where they are
    plan,  # IN   (fields,) int64
    line,  # IN   which line
    bounds,  # IN   (lines,) intW
    piece_keys,  # IN   (pieces, lines, capacity) intW, the best of every piece, in index order
    piece_positions,  # IN   (pieces, lines, capacity) int64
    found,  # IN   (pieces, lines) int64, how many they are
):
    """Select from what the pieces of a line sent; tell whether that was enough."""
    k = plan[K]
    total = np.int64(0)
    for piece in range(plan[PIECES]):
        total += found[piece, line]
    capacity = max(k, total)
    keys = scanned_buffer(x, capacity)
    positions = empty(capacity, np.int64)
    scratch = scanned_buffer(x, capacity)
    scratch_positions = empty(capacity, np.int64)
    count = np.int64(0)
    for piece in range(plan[PIECES]):
        for j in range(found[piece, line]):
            keys[count] = piece_keys[piece, line, j]
            positions[count] = piece_positions[piece, line, j]
            count += 1
    if count < k and plan[SAMPLE] > 0:
        count = add_ties(plan, x, line, bounds[line], keys, positions, count, key_buffer(x, LANES))
    if count >= k:
        finish_line(plan, x, line, values, indices, keys, positions, count, scratch, scratch_positions)
    return count >= k


@helper
def reaching(row, size, threshold, rule):
    """Return the mask of the first `size` elements, of 64 at most, whose key is at least the threshold."""
    mask = ~np.uint64(0)
    if threshold > lowest_key(row):
        mask = beats(row, np.int64(0), row.dtype.type(threshold - 1), rule)
    return mask & (~np.uint64(0) >> np.uint64(LANES - size))


@helper
def add_ties(plan, x, line, bound, keys, positions, count, stage):
    """Put the first elements of a line whose key is the bound behind the better ones; return how many there are now.

    `stage` is scratch for 64 elements.
    """
    n = plan[SIZE]
    stride = plan[STRIDE]
    rule = rule_from(x, plan, RULE)
    source, _ = line_bases(plan, line)
    for at in range(0, n, LANES):
        row = stage
        size = min(LANES, n - at)
        if stride == itemsize(x) and size == LANES:
            row = array_at(x, source + at * stride, (LANES,))
        else:
            for i in range(size):
                stage[i] = load(x, source + (at + i) * stride)
        mask = reaching(row, size, bound, rule)
        while mask != np.uint64(0):
            i = lowest_bit(mask)
            mask &= mask - np.uint64(1)
            if key_of(row[i], rule) == bound:
                keys[count] = bound
                positions[count] = at + i
                count += 1
                if count == plan[K]:
                    return count
    return count


@helper
def sorted_lines_in(x, values, indices, plan, begin, end, stage, words, other, sample, counts, bases):
    """Find the k-th best of the lines begin <= line < end, collect what is as good, and sort it."""
    k = plan[K]
    n = plan[SIZE]
    stride = plan[STRIDE]
    staged = plan[GROUP] > 0
    group = bases.size
    rule = rule_from(x, plan, RULE)
    for line in range(begin, end, group):
        lines = min(group, end - line)
        done = write_ordered(plan, x, values, indices, line, lines)
        line, lines = line + done, lines - done
        for g in range(lines):
            bases[g] = line_bases(plan, line + g)[0]
        if staged:
            stage_lines(x, bases, stride, 0, n, stage, lines)
        for g in range(lines):
            source, to = line_bases(plan, line + g)
            row = stage[g] if staged else array_at(x, source, (n,))
            last = bound_of_sample(x, plan, line + g, sample) if sample.size > 0 else lowest_key(row)
            ties = ties_of(row, n, k, words.size, last, rule) if sample.size > 0 else -1
            if ties < 0:
                last, ties = last_key(row, n, k, words.size, rule, counts.reshape(-1))
            count = collect_words(row, n, rule, last, ties, words)
            words, other = sort_line(row, rule, words, other, count, counts)
            if itemsize(x) < 8:
                write_words(plan, x, source, row, values, indices, to, words, rule)
            else:
                write_positions(plan, x, source, values, indices, to, words)


@allocating
def sorted_lines(x, values, indices, plan, begin, end):
    """Select from the lines begin <= line < end, a large part of each."""
    k = plan[K]
    n = plan[SIZE]
    group = max(plan[GROUP], 1)
    stage = stage_for(x, plan, n)
    # It is cheaper to sort some too many than to search on. Two allocations can go back to the system after each share
    # of the lines: 10 lines of 1M float32, k 500,000, then took 8408 page faults, and 53 ms instead of 37.
    # Both begin at the same place of a cache line: else 8 bytes take a tenth longer.
    room = min(n, k + k // 4 + n // 16)
    words, other = empty((2, -(-room // LANES) * LANES), np.int64)
    sample = key_buffer(x, plan[SAMPLE])
    counts = empty((SORT_DIGITS, DIGIT_COUNTS), np.int64)
    bases = empty(group, np.int64)
    sorted_lines_in(x, values, indices, plan, begin, end, stage, words, other, sample, counts, bases)


# The columns of a tile are looked at in masks, and have a list for each bit. If they are no multiple of a mask, the
# last one begins earlier: the first of its lists are not used, since the mask before has those columns.


@helper
def first_of_mask(first, lanes):
    """Return the first column of the mask whose lists start with number `first`."""
    return max(min(first, lanes - LANES), 0)


@helper
def list_of(lane, lanes, width):
    """Return the number of a column's list."""
    return lane if lane < width - LANES or lanes < LANES else width - lanes + lane


@helper
def place_of_list(number, k, together):
    """Return where a list starts, among those of `together` columns each."""
    return number // together * together * k + number % together


@helper
def column_rows(x, offset, step, count, lanes, staged):
    """Return where rows of columns are, and how far apart: where they lie, or staged if they have less than a mask."""
    if lanes >= LANES:
        return offset, step
    for j in range(count):
        for lane in range(lanes):
            staged[j * LANES + lane] = load(x, offset + j * step + lane * itemsize(x))
    return staged.ctypes.data - address(x), LANES * itemsize(x)


@helper
def ask_for_rows(x, rows, next_rows, stride, first, lanes, width):
    """Ask for some columns of rows that are looked at together: those behind a mask, or the first ones of next rows.

    Rows that have no more columns than a mask ask for the next ones' start.
    """
    if FEW_PLACES and stride % PAGE == 0:
        return
    start, ahead = rows, first + ASKED
    if ahead >= width:
        start, ahead = next_rows, min(ahead - width, width - LANES)
    start += first_of_mask(ahead, lanes) * itemsize(x)
    for j in range(ROWS_AT_ONCE):
        for byte in range(0, LANES * itemsize(x), CACHE_LINE):
            prefetch(x, start + j * stride + byte)


@helper
def bound_columns(x, source, stride, n, k, lanes, staged, best, limits, rule):
    """Find a limit for each column that k of its elements reach, from a part of the rows; tell whether there is one.

    Lists of keys below the limits are full then, and will hold nothing of them in the end. Until the limits are found,
    the best keys of each group of rows are in their place.
    """
    lowest = lowest_key(best)
    together = insert_width(best)
    rows_at_once = np.int64(ROWS_AT_ONCE)
    least, most = COLUMN_SAMPLES[0] * k, COLUMN_SAMPLES[1] * k
    often, seldom = n // (ROWS_AT_ONCE * COLUMN_SAMPLED[0]), n // (ROWS_AT_ONCE * COLUMN_SAMPLED[1])
    groups = min(often, max(seldom, least), most)
    if groups <= k:
        return False
    best[:] = lowest
    for group in range(groups):
        rows, step = column_rows(x, source + group * n // groups * stride, stride, rows_at_once, lanes, staged)
        for first in range(0, limits.size, LANES):
            best_of_rows(x, rows + first_of_mask(first, lanes) * itemsize(x), step, limits, first, rule)
        for lane in range(0, limits.size, together):
            raise_lists(limits, lane, best, lane * k, k)
    limits[:] = ~lowest  # the highest
    last = (k + 1) // 2
    for group in range(last):
        row = n - (last - group) * ROWS_AT_ONCE
        rows, step = column_rows(x, source + row * stride, stride, rows_at_once, lanes, staged)
        for first in range(0, limits.size, LANES):
            at = rows + first_of_mask(first, lanes) * itemsize(x)
            for lane in range(0, LANES, together):
                lower_limits(x, at + lane * itemsize(x), step, limits, first + lane, rule)
    for i in range(limits.size):
        limits[i] = max(limits[i], best[place_of_list(i, k, together) + (k - 1) * together])
    for lane in range(lanes):
        if limits[list_of(lane, lanes, limits.size)] == lowest:
            return False  # no limit is below
    for i in range(limits.size):
        # The best of a group may have been a zero that there is not, and that no element reaches.
        limits[i] = lane_limit(best.dtype.type(limits[i] - 1), rule)
        for j in range(k):
            best[place_of_list(i, k, together) + j * together] = limits[i]
    return True


@helper
def fill_lists(keys, limits, lists):
    """Fill lists, which are vectors, with their limits."""
    for number in range(lists):
        for j in range(GROUPS):
            keys[number * GROUPS + j] = limits[number]


@helper
def interleave_lists(keys, places, best, where, lists, k, together):
    """Turn lists that are vectors into such as whole rows are inserted into."""
    for number in range(lists):
        at = place_of_list(number, k, together)
        for j in range(k):
            best[at + j * together] = keys[number * GROUPS + j]
            where[at + j * together] = places[number * GROUPS + j]


@helper
def tile_of_columns(plan, task, least):
    """Return the first line of a tile, how many neighbours it has, and where it starts in the input and the outputs.

    The last one begins earlier, if it had fewer than `least`.
    """
    across = plan[HEADER + DIM_FIELDS * (plan[DIMS] - 1)]  # lines that are neighbours
    tiles = -(-across // plan[TILE])
    first = max(min(task % tiles * plan[TILE], across - least), 0)
    line = task // tiles * across + first
    source, to = line_bases(plan, line)
    return line, min(plan[TILE], across - first), source, to


@allocating
def column_tile(x, values, indices, plan, task):
    """Select from a tile of neighbouring lines: their elements at one position are contiguous, a row.

    Every line has a sorted list. An element that beats the last of its list is inserted: alone, until once many do, and
    from then on in the same steps as the elements of its neighbours, for some of them in vain. Rows of long lines are
    looked at eight together, a part of each, then the next: the memory is read in eight long streams.
    """
    size = itemsize(x)
    n = plan[SIZE]
    k = plan[K]
    stride = plan[STRIDE]
    line, lanes, source, to = tile_of_columns(plan, task, LANES)  # the last tile is a mask at least, if there is one
    if write_ordered(plan, x, values, indices, line, lanes) == lanes:
        return
    rule = rule_from(x, plan, RULE)
    own = ~np.uint64(0) >> np.uint64(max(LANES - lanes, 0))
    width = -(-lanes // LANES) * LANES
    best = key_buffer(x, k * width)
    where = place_buffer(x, k * width)
    limits = key_buffer(x, width)  # the last keys of the lists
    together = insert_width(best)
    inserted = (np.uint64(1) << np.uint64(together)) - np.uint64(1)
    staged = key_buffer(x, ROWS_AT_ONCE * LANES)
    staged[:] = 0
    bounded = bound_columns(x, source, stride, n, k, lanes, staged, best, limits, rule)
    spread = n > CROWDED * k
    single = bounded and spread and k <= GROUPS  # a list is a vector
    lists = width if single else 0
    keys = key_buffer(x, lists * GROUPS)
    places = empty(lists * GROUPS, np.int32)
    fill_lists(keys, limits, lists)
    many = spread and (abs(stride) >= LONG_ROW or lanes < LANES or stride == LANES * size)
    i = 0
    while i < n:
        levels = k if bounded else min(i, k)
        count = ROWS_AT_ONCE if many and levels == k and i + ROWS_AT_ONCE <= n else 1
        rows, step = column_rows(x, source + i * stride, stride, count, lanes, staged)
        hit = 0
        for first in range(0, width, LANES):
            begin = first_of_mask(first, lanes)
            at = rows + begin * size
            mask = ~np.uint64(0)
            if count > 1:
                here = source + i * stride
                ask_for_rows(x, here, here + count * stride, stride, first, lanes, width)
                mask = any_row_beats(x, at, step, limits, first, rule)
            else:
                for byte in range(0, LANES * size if i + ROWS_AHEAD < n else 0, CACHE_LINE):
                    prefetch(x, source + (i + ROWS_AHEAD) * stride + begin * size + byte)
                if levels == k:
                    mask = row_beats(x, at, step, limits, first, rule)
            mask &= own << np.uint64(first - begin)
            while single and mask != np.uint64(0):
                lane = lowest_bit(mask)
                mask &= mask - np.uint64(1)
                if count > 1:
                    hit += insert_rows(x, at + lane * size, step, keys, places, limits, first + lane, k, i, rule)
                else:
                    hit += insert_row(x, at + lane * size, step, keys, places, limits, first + lane, k, i, rule)
            while mask != np.uint64(0):
                lane = lowest_bit(mask) // together * together
                mask &= ~(inserted << np.uint64(lane))
                hits = np.uint64(1)
                if count > 1:
                    hits = rows_that_beat(x, at + lane * size, step, limits, first + lane, rule)
                while hits != np.uint64(0):
                    j = lowest_bit(hits)
                    hits &= hits - np.uint64(1)
                    element = at + lane * size + j * step
                    insert_lanes(x, element, best, where, limits, first + lane, levels, k, i + j, rule)
        if single and hit * ALONE > -(-lanes // together) * count * (PER_LEVEL * k + PER_ROW):
            single = False
            interleave_lists(keys, places, best, where, width, k, together)
        i += count
    lane_step = plan[HEADER + DIM_FIELDS * (plan[DIMS] - 1) + 2]
    for j in range(k):
        for lane in range(lanes):
            number = list_of(lane, lanes, width)
            if single:
                position = np.int64(places[number * GROUPS + j])
            else:
                position = np.int64(where[place_of_list(number, k, together) + j * together])
            at = to + lane * lane_step + j * plan[OUT_STRIDE]
            write_index(indices, plan[INDEX_SIZE], at, position)
            store(values, at * size, load(x, source + lane * size + position * stride))


@allocating
def short_column_tile(x, values, indices, plan, task):
    """Select from a tile of neighbouring lines, as `column_tile`, which go through the network of short lines."""
    line, lanes, source, to = tile_of_columns(plan, task, NETWORK_LINES)
    if write_ordered(plan, x, values, indices, line, lanes) == lanes:
        return
    depth = list_depth(plan[K], NETWORK_LINES)
    best = network_lists(x, -(-lanes // NETWORK_LINES) * depth)
    network_columns(x, source, plan[STRIDE], plan[SIZE], lanes, depth, rule_from(x, plan, RULE), best)
    write_columns(x, values, indices, plan, source, to, lanes, depth, best)


@helper
def write_columns(x, values, indices, plan, source, to, lanes, depth, best):
    """Write what columns side by side have in the lists of the network, row by row."""
    size = itemsize(x)
    stride = plan[STRIDE]
    lane_step = plan[HEADER + DIM_FIELDS * (plan[DIMS] - 1) + 2]
    for j in range(plan[K]):
        for group in range(best.shape[0] // depth):
            first = min(group * NETWORK_LINES, lanes - NETWORK_LINES)
            for i in range(NETWORK_LINES):
                lane = first + i
                position = listed_place(x, best[group * depth + j, i])
                at = to + lane * lane_step + j * plan[OUT_STRIDE]
                write_index(indices, plan[INDEX_SIZE], at, position)
                store(values, at * size, load(x, source + lane * size + position * stride))


@helper
def piece_buffers(x, scratch, plan):
    """Return what phases hand on, in memory of the caller: bounds; the best of every piece, and how many they are."""
    lines = plan[LINES]
    pieces = plan[PIECES]
    shape = (pieces, lines, plan[CAPACITY])
    at = address(scratch) - address(x)
    words = seen_as(x, np.int64)
    positions = array_at(words, at, shape)
    at += positions.size * 8
    found = array_at(words, at, (pieces, lines))
    at += found.size * 8
    keys = array_at(x, at, shape)
    at += keys.size * itemsize(x)
    return array_at(x, at, (lines,)), keys, positions, found


@helper
def piece_task_count(plan, phase):
    """How many tasks a phase has: 0 bounds the lines, 1 selects from their pieces, 2 merges these."""
    if phase == 1:
        return -(-plan[LINES] // max(plan[GROUP], 1)) * plan[PIECES]
    return plan[LINES] if phase < 3 else np.int64(0)


@allocating
def piece_task(x, values, indices, plan, phase, task, scratch):
    """Run one task of a phase; return a status."""
    bounds, keys, positions, found = piece_buffers(x, scratch, plan)
    if phase == 1:
        piece_of_lines(x, plan, task, bounds, keys, positions, found)
    elif phase == 2:
        if not merge_pieces(x, values, indices, plan, task, bounds, keys, positions, found):
            return np.int64(TOO_FEW)
    elif plan[SAMPLE] > 0:
        bounds[task] = bound_of_sample(x, plan, task, key_buffer(x, plan[SAMPLE]))
    return np.int64(0)


@helper
def share_count(plan, threads):
    """How many shares the lines are cut into: more than threads, since lines can differ a lot in what they cost.

    But there are hardly more than groups of lines that are staged together, since each share reads what is between its
    lines: (5000, 8) f4, k 20, along axis 0 took 66 µs in 8 shares on two threads, and takes 31 in 2.
    """
    if threads == 1:
        return 1
    groups = -(-plan[LINES] // max(plan[GROUP], 1))
    return min(plan[LINES], 4 * threads, -(-groups // threads) * threads)


@helper
def tile_count(plan):
    """How many tiles of columns there are."""
    across = plan[HEADER + DIM_FIELDS * (plan[DIMS] - 1)]
    return plan[LINES] // across * -(-across // plan[TILE])


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
    """Tell how many tasks a phase has, if the only one has so many."""
    if phase > 0:
        return np.int64(0)
    return np.int64(OVERLAP) if clashes(x, values, indices, plan) else count


@kernel
def short_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from short lines."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    short_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)


@kernel
def best_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: find the best element of each line."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    best_of_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)


@kernel
def rows_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from whole lines."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    whole_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)


@kernel
def sorted_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select large parts of lines."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    sorted_lines(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)


@kernel
def columns_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from tiles of columns."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, tile_count(plan))
    column_tile(x, values, indices, plan, task)
    return np.int64(0)


@kernel
def short_columns_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from tiles of short columns."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, tile_count(plan))
    short_column_tile(x, values, indices, plan, task)
    return np.int64(0)


@kernel
def pieces_kernel(phase, task, tasks, x, values, indices, scratch, plan):
    """Run a task of a phase, or tell how many there are: select from the pieces of lines."""
    if task == ASK:
        if phase == 0 and clashes(x, values, indices, plan):
            return np.int64(OVERLAP)
        return piece_task_count(plan, phase)
    return piece_task(x, values, indices, plan, phase, task, scratch)


@kernel
def singly_kernel(phase, task, tasks, x, values, indices, _, plan):
    """Run a task, or tell how many there are: select from short lines one by one."""
    if task == ASK:
        return task_count(phase, x, values, indices, plan, share_count(plan, tasks))
    lines = plan[LINES]
    lines_alone(x, values, indices, plan, lines * task // tasks, lines * (task + 1) // tasks)
    return np.int64(0)


@kernel
def alone_kernel(x, values, indices, memory):
    """Select from one line, whose elements are neighbours, without a plan; `memory` is the caller's, `ALONE_WORDS`."""
    words = seen_as(x, np.int64)
    at = address(memory) - address(x)
    numbers = array_at(words, at, (ALONE_NUMBERS,))
    size, k, index_size = numbers[0], numbers[1], numbers[2]
    begin, end = address(x), address(x) + size * itemsize(x)
    v, i = address(values), address(indices)
    after_v, after_i = v + k * itemsize(x), i + k * index_size
    if overlaps(begin, end, v, after_v) or overlaps(begin, end, i, after_i) or overlaps(v, after_v, i, after_i):
        return np.int64(REFUSED)
    at += 8 * ALONE_NUMBERS
    positions = array_at(words, at, (GROUPS,))
    at += 8 * GROUPS
    places = array_at(seen_as(x, np.int32), at, (GROUPS,))
    at += 4 * GROUPS
    keys = array_at(x, at, (GROUPS,))
    rest = array_at(x, at + GROUPS * itemsize(x), (LANES,))
    row = array_at(x, 0, (size,))
    select_alone(row, size, k, rule_from(x, numbers, 3), rest, keys, places, positions)
    for j in range(k):
        store(values, j * itemsize(x), row[positions[j]])
        write_index(indices, index_size, j, positions[j])
    return np.int64(0)


#: A kernel for each way to the elements, by method: one for all of them took 12 s to compile, these take 0.8 to 5.
KERNELS = (
    short_kernel,
    rows_kernel,
    columns_kernel,
    best_kernel,
    pieces_kernel,
    sorted_kernel,
    short_columns_kernel,
    singly_kernel,
)
