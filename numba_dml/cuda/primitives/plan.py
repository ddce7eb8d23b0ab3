"""The plan of a move: its numbers, and how kernels read them.

A kernel that is compiled for their places is given the numbers themselves, as arguments, which take no registers and
are there when it starts; another one their address in device memory, and reads them from the read-only cache, where all
threads find the same few lines. Divisions by numbers of a plan are multiplications by their reciprocals, which the host
works out: a division of 64 bits takes a GPU 100 steps.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count

import numpy as np

from ..driver.compile import helper
from ..driver.intrinsics import number_reader
from ..driver.launch import Kernel
from ..driver.memory import DeviceMemory
from .access import load_i64
from .bits import high_product

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
    IDENTITY,  # which tells plans apart
    HEADER,
) = (0, 3, *range(6, 11), *range(13, 16))
LOOP_FIELDS = 5  # size (a divisor), data stride, index stride
COORD_FIELDS = 2  # size, data stride
OUTER_FIELDS = 4  # size (a divisor), data stride
RAISE, CLAMP, DROP = range(3)

_identities = count(1)
_lock = threading.Lock()


def reciprocal(divisor: int) -> tuple[int, int, int]:
    """Return a divisor from 1 on, and the factor and the shift that `quotient` needs (Granlund and Montgomery)."""
    shift = (divisor - 1).bit_length()
    factor = (1 << (63 + shift)) // divisor + 1
    return divisor, factor - (1 << 64) if factor >> 63 else factor, shift


def new_identity() -> int:
    """Return what tells a plan apart, in a record of bad indices."""
    return next(_identities)


def numbers_in(loops: int, coords: int, outer: int) -> int:
    """Return how many numbers of a plan a kernel is given that is compiled for these counts, 0: it is for any (-1)."""
    if min(loops, coords, outer) < 0:
        return 0
    return HEADER + LOOP_FIELDS * loops + COORD_FIELDS * coords + OUTER_FIELDS * outer


class Plan:
    """The numbers of a plan, and where kernels of a device find them."""

    def __init__(
        self,
        device: int,
        slice_units: int,
        run_units: int,
        loops: Sequence[tuple[int, int, int]],
        coordinates: Sequence[tuple[int, int]],
        outer: Sequence[tuple[int, int]],
        bounds: int,
        granule: int = 1,
        lowest: int = 0,
    ) -> None:
        self.device = device
        #: What tells it apart, in a record of bad indices.
        self.identity = new_identity()
        numbers = [*reciprocal(slice_units), *reciprocal(run_units), len(loops), len(coordinates), len(outer), bounds]
        numbers += [*reciprocal(granule), lowest, self.identity]
        for size, step, index_step in loops:
            numbers += [*reciprocal(max(size, 1)), step, index_step]
        for size, stride in coordinates:
            numbers += [size, stride]
        for size, stride in outer:
            numbers += [*reciprocal(max(size, 1)), stride]
        self.numbers = np.array(numbers, np.int64)
        #: Their address on the host.
        self.host = self.numbers.ctypes.data
        self.memory: DeviceMemory | None = None

    @property
    def address(self) -> int:
        """The address of the numbers in device memory, where they come when they are first asked for."""
        if self.memory is None:
            with _lock:
                self.memory = self.memory or DeviceMemory(self.device, self.numbers)
        return self.memory.address

    def for_kernel(self, kernel: Kernel) -> int:
        """Return what a kernel is launched with: the address of its arguments on the host, or that in device memory."""
        return self.host if kernel.plan_size else self.address


#: ``number(plan, field)``: a number of a plan, from a tuple of arguments or from memory.
number = number_reader(load_i64)


@helper
def quotient(n, plan, field):
    """Return ``n // divisor`` for a divisor of a plan and 0 <= n < 2**62."""
    return high_product(n << 1, number(plan, field + 1)) >> number(plan, field + 2)


@helper
def offsets_of(plan, item, count, first):
    """Return where an item of `count` nested loops, whose fields begin at `first`, is found: two sums of steps.

    The fields of a loop are its size, which is a divisor, and the two steps.
    """
    offset = np.int64(0)
    at = np.int64(0)
    for loop in range(count - 1, -1, -1):
        field = first + LOOP_FIELDS * loop
        i = item
        if loop > 0:  # the outermost one takes what is left
            item = quotient(item, plan, field)
            i -= item * number(plan, field)
        offset += i * number(plan, field + 3)
        at += i * number(plan, field + 4)
    return offset, at
