"""The kernels for a large k: all blocks work on the border between what belongs to a result and what does not.

A range of keys that holds the border is cut into digits, and its elements are counted by digit: the border's digit is
the next range, until it holds few elements more than are wanted, or one key. Then the elements that reach it are listed
in their order, to be sorted. The host waits for none of this: rounds that are not needed do nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import SIMULATED, cuda, helper, kernel
from ._keys import key_access
from ._launch import BLOCK, Kernel
from ._memory import add_now, digit_above, load_i64, load_now, raise_key, store_now
from ._plan import number
from ._sorting import PAIR_BYTES, add_up_threads
from .top_k import END, FLIP, SIZE, STRIDE, K, line_bases

#: Bits of a digit: 8 KiB of counts.
DIGIT = 6 if SIMULATED else 11
DIGITS = 1 << DIGIT
#: Elements that a thread looks at together.
AT_ONCE = 8

# What is known of a line's border, int64 words.
(
    LOW,  # the lowest key of the range
    BITS,  # of the range; -1: it is narrow enough
    ABOVE,  # elements beyond the range
    TIES,  # 1: the range is one key, and only its first elements belong to the result
    FOUND,  # elements to list
    BORDER,
) = range(6)


def rounds(width: int) -> int:
    """Return how many digits a key has."""
    return -(-8 * width // DIGIT)


@helper
def part_of(plan, part, parts):
    """Return where a part of a line begins and ends."""
    size = number(plan, SIZE)
    return size * part // parts, size * (part + 1) // parts


@cache
def count_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that counts the elements of a range by digit."""
    key_at, *_ = key_access(width, is_float, FLIP)
    lowest, whole = -(1 << (8 * width - 1)), 8 * width

    @kernel
    def count_range(
        x,  # IN      address of the first element
        border,  # IN      address of (lines, BORDER) words
        counts,  # IN OUT  address of (lines, DIGITS) int64
        plan,  # IN      address of the plan
        parts,  # IN      per line
        first,  # IN      1: the range is that of all keys
    ):
        own = cuda.shared.array(DIGITS, np.int32)
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x) // parts
        low, bits = np.int64(lowest), np.int64(whole)
        if first == 0:
            low = load_i64(border + 8 * (line * BORDER + LOW))
            bits = load_i64(border + 8 * (line * BORDER + BITS))
        if bits < 0:
            return
        fine = max(bits - DIGIT, np.int64(0))
        for i in range(thread, DIGITS, BLOCK):
            own[i] = 0
        cuda.syncthreads()
        i, end = part_of(plan, np.int64(cuda.blockIdx.x) - line * parts, parts)
        i += thread
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        address = x + source + i * stride
        some = cuda.local.array(AT_ONCE, np.int64)
        while i < end:
            for j in range(AT_ONCE):
                some[j] = key_at(address + min(j * BLOCK, end - 1 - i) * stride, plan)
            for j in range(AT_ONCE):
                if i + j * BLOCK < end and some[j] >= low and digit_above(some[j], low, bits) == 0:
                    cuda.atomic.add(own, digit_above(some[j], low, fine), 1)
            i += AT_ONCE * BLOCK
            address += AT_ONCE * BLOCK * stride
        cuda.syncthreads()
        for digit in range(thread, DIGITS, BLOCK):
            if own[digit] != 0:
                add_now(counts + 8 * (line * DIGITS + digit), own[digit])

    return Kernel(count_range, 6, waits=True)


@cache
def border_kernel(width: int) -> Kernel:
    """Return the kernel that finds the digit of the border; a block for each line."""
    lowest, whole = -(1 << (8 * width - 1)), 8 * width
    share = DIGITS // BLOCK

    @kernel
    def find_border(
        border,  # IN OUT  address of (lines, BORDER) words
        counts,  # IN OUT  address of (lines, DIGITS) int64, which become zeros again
        plan,  # IN      address of the plan
        most,  # IN      elements that may be listed
        first,  # IN      1: the range is that of all keys
    ):
        sums = cuda.shared.array(BLOCK, np.int64)
        thread = np.int64(cuda.threadIdx.x)
        border += 8 * BORDER * np.int64(cuda.blockIdx.x)
        counts += 8 * DIGITS * np.int64(cuda.blockIdx.x)
        low, bits, beyond = np.int64(lowest), np.int64(whole), np.int64(0)
        if first == 0:
            low, bits = load_now(border + 8 * LOW), load_now(border + 8 * BITS)
            beyond = load_now(border + 8 * ABOVE)
        if bits < 0:
            return
        fine = max(bits - DIGIT, np.int64(0))
        wanted = number(plan, K) - beyond
        total = np.int64(0)
        for i in range(share):
            total += load_now(counts + 8 * (DIGITS - 1 - (thread * share + i)))
        until = add_up_threads(sums, total)
        above = until - total
        if above < wanted <= until:
            for i in range(share):
                digit = DIGITS - 1 - (thread * share + i)
                inside = load_now(counts + 8 * digit)
                if above < wanted <= above + inside:
                    found = beyond + above + inside
                    ties = found > most and fine == 0
                    store_now(border + 8 * LOW, raise_key(low, digit, fine))
                    store_now(border + 8 * BITS, -1 if fine == 0 or found <= most else fine)
                    store_now(border + 8 * ABOVE, beyond + above)
                    store_now(border + 8 * TIES, 1 if ties else 0)
                    store_now(border + 8 * FOUND, number(plan, K) if ties else found)
                above += inside
        cuda.syncthreads()
        for i in range(thread, DIGITS, BLOCK):
            store_now(counts + 8 * i, 0)

    return Kernel(find_border, 5, waits=True)


@cache
def tally_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that counts what a part of a line lists: beyond the border, and at it if these are too many."""
    key_at, *_ = key_access(width, is_float, FLIP)

    @kernel
    def tally(
        x,  # IN   address of the first element
        border,  # IN   address of (lines, BORDER) words
        starts,  # OUT  address of (lines, 2, parts) int64: the counts
        plan,  # IN   address of the plan
        parts,  # IN   per line
    ):
        sums = cuda.shared.array(BLOCK, np.int32)
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x) // parts
        part = np.int64(cuda.blockIdx.x) - line * parts
        border += 8 * BORDER * line
        low, ties = load_i64(border + 8 * LOW), load_i64(border + 8 * TIES)
        i, end = part_of(plan, part, parts)
        i += thread
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        address = x + source + i * stride
        some = cuda.local.array(AT_ONCE, np.int64)
        higher = equal = np.int64(0)
        while i < end:
            for j in range(AT_ONCE):
                some[j] = key_at(address + min(j * BLOCK, end - 1 - i) * stride, plan)
            for j in range(AT_ONCE):
                if i + j * BLOCK < end:
                    higher += 1 if some[j] > low else 0
                    equal += 1 if some[j] == low else 0
            i += AT_ONCE * BLOCK
            address += AT_ONCE * BLOCK * stride
        higher = add_up_threads(sums, higher if ties != 0 else higher + equal)
        cuda.syncthreads()
        equal = add_up_threads(sums, equal if ties != 0 else np.int64(0))
        if thread == BLOCK - 1:
            store_now(starts + 8 * (2 * line * parts + part), higher)
            store_now(starts + 8 * ((2 * line + 1) * parts + part), equal)

    return Kernel(tally, 5, waits=True)


@cache
def list_kernel(width: int, is_float: bool) -> Kernel:
    """Return the kernel that lists the elements which reach the border, in their order.

    Those beyond it come first. Of those at it, if they are too many, the first follow.
    """
    key_at, *_ = key_access(width, is_float, FLIP)
    lowest = -(1 << (8 * width - 1))

    @kernel
    def list_elements(
        x,  # IN   address of the first element
        border,  # IN   address of (lines, BORDER) words
        starts,  # IN   address of (lines, 2, parts) int64: what earlier parts list, beyond the border and at it
        pairs,  # OUT  address of (lines, room) pairs
        room,  # IN   a line's pairs
        plan,  # IN   address of the plan
        parts,  # IN   per line
    ):
        sums = cuda.shared.array(BLOCK, np.int32)
        thread = np.int64(cuda.threadIdx.x)
        line = np.int64(cuda.blockIdx.x) // parts
        part = np.int64(cuda.blockIdx.x) - line * parts
        border += 8 * BORDER * line
        low, ties = load_i64(border + 8 * LOW), load_i64(border + 8 * TIES)
        above, found = load_i64(border + 8 * ABOVE), load_i64(border + 8 * FOUND)
        beyond = load_i64(starts + 8 * (2 * line * parts + part))
        at = above + load_i64(starts + 8 * ((2 * line + 1) * parts + part))
        pairs += PAIR_BYTES * line * room
        begin, end = part_of(plan, part, parts)
        source, _ = line_bases(plan, line)
        stride = number(plan, STRIDE)
        some = cuda.local.array(AT_ONCE, np.int64)
        while begin < end:
            i = begin + thread * AT_ONCE
            address = x + source + min(i, end - 1) * stride
            for j in range(AT_ONCE):
                some[j] = key_at(address + max(np.int64(0), min(j, end - 1 - i)) * stride, plan)
            higher = equal = np.int64(0)
            for j in range(AT_ONCE):
                if i + j < end:
                    higher += 1 if some[j] > low or (some[j] == low and ties == 0) else 0
                    equal += 1 if some[j] == low and ties != 0 else 0
            if cuda.syncthreads_or(1 if higher + equal > 0 else 0):
                # Both at once: a strip has fewer than 2**16 elements.
                before = add_up_threads(sums, higher + (equal << 16)) - higher - (equal << 16)
                to, to_tie = beyond + (before & 0xFFFF), at + (before >> 16)
                beyond += sums[BLOCK - 1] & 0xFFFF
                at += sums[BLOCK - 1] >> 16
                for j in range(AT_ONCE):
                    if i + j < end and (some[j] > low or (some[j] == low and ties == 0)):
                        store_now(pairs + PAIR_BYTES * to, some[j])
                        store_now(pairs + PAIR_BYTES * to + 8, i + j)
                        to += 1
                    elif i + j < end and some[j] == low:
                        if to_tie < found:
                            store_now(pairs + PAIR_BYTES * to_tie, low)
                            store_now(pairs + PAIR_BYTES * to_tie + 8, i + j)
                        to_tie += 1
                cuda.syncthreads()
            begin += AT_ONCE * BLOCK
        for i in range(found + part * BLOCK + thread, room, parts * BLOCK):  # what is left comes last
            store_now(pairs + PAIR_BYTES * i, lowest)
            store_now(pairs + PAIR_BYTES * i + 8, END)

    return Kernel(list_elements, 7, waits=True)
