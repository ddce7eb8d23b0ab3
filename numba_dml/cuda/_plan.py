"""The plan of a move: its numbers in device memory, and how kernels read them.

A kernel reads them from the read-only cache, where all threads find the same few lines. Divisions by numbers of a plan
are multiplications by their reciprocals, which the host works out: a division of 64 bits takes a GPU 100 steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from . import helper
from ._memory import high_product, load_i64

# The header. Slices and runs are counted in units (of 1 to 16 bytes), strides of data in bytes, of indices in elements.
# A divisor is three numbers: itself, and its reciprocal as a factor and a shift.
(
    SLICE,  # units of a slice, a divisor
    RUN,  # units of a slice that are contiguous in data, a divisor
    LOOPS,  # how many loops the points have
    COORDS,  # how many numbers an index tuple has, 0: there are no indices, and one point
    OUTER,  # dimensions of a slice outside of its runs
    BOUNDS,
    GRANULE,  # bytes that divide every step between the places of a scatter, a divisor
    LOWEST,  # the lowest of these places
    HEADER,
) = (0, 3, *range(6, 11), 13, 14)
LOOP_FIELDS = 5  # size (a divisor), data stride, index stride
COORD_FIELDS = 2  # size, data stride
OUTER_FIELDS = 4  # size (a divisor), data stride
RAISE, CLAMP, DROP = range(3)


def reciprocal(divisor: int) -> tuple[int, int, int]:
    """Return a divisor from 1 on, and the factor and the shift that `quotient` needs (Granlund and Montgomery)."""
    shift = (divisor - 1).bit_length()
    factor = (1 << (63 + shift)) // divisor + 1
    return divisor, factor - (1 << 64) if factor >> 63 else factor, shift


def make_plan(
    slice_units: int,
    run_units: int,
    loops: Sequence[tuple[int, int, int]],
    coordinates: Sequence[tuple[int, int]],
    outer: Sequence[tuple[int, int]],
    bounds: int,
    granule: int = 1,
    lowest: int = 0,
) -> ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the numbers of a plan."""
    numbers = [*reciprocal(slice_units), *reciprocal(run_units), len(loops), len(coordinates), len(outer), bounds]
    numbers += [*reciprocal(granule), lowest]
    for size, step, index_step in loops:
        numbers += [*reciprocal(max(size, 1)), step, index_step]
    for size, stride in coordinates:
        numbers += [size, stride]
    for size, stride in outer:
        numbers += [*reciprocal(max(size, 1)), stride]
    return np.array(numbers, np.int64)


@helper
def number(plan, field):
    """Return a number of a plan."""
    return load_i64(plan + 8 * field)


@helper
def quotient(n, plan, field):
    """Return ``n // divisor`` for a divisor of a plan and 0 <= n < 2**63."""
    return high_product(n << 1, number(plan, field + 1)) >> number(plan, field + 2)
