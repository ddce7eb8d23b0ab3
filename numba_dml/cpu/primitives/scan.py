"""Running sums and products: how elements are read, combined and written, and the fixed order of sums.

Kernels are compiled for the types of three references: input `x`, output `y`, and `state`, which says what they compute
in: a type of numbers, or its `Product`. float16 stands for its own bits, and uint16 with `is_float` for bfloat16's; as
a state, they are computed in float32 and rounded at each step.

Sums go by blocks (see "The order of float sums" in docs/semantics.md). A level that is absent is -0.0: added to any
number, it leaves its bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import types

from ..._core.lowering import SUM_BLOCK
from ..._core.shapes import LINE_FIELDS
from ..._jit.compile import chosen, helper
from ..._jit.emission import as_dtype
from ..._jit.memory import address, empty, itemsize, load, overlaps, reference_to, seen_as, store
from ..drivers import OVERLAP
from .lines import unravelled
from .reductions import bfloat_to_float, bits_to_float, float_to_bfloat, float_to_bits, from_half, to_half

#: Elements of a block, and blocks of a superblock.
BLOCK = SUM_BLOCK
#: Levels above the blocks: enough for 2**40 elements.
LEVELS = 4
#: Numbers that a line leaves for the chunk after it: the sum within the block, and the levels.
KEPT = LEVELS + 1
#: Stands for the size of a block where there are none.
NO_BLOCKS = 1 << 62
# The header of a plan; all offsets and strides are in bytes. The dimensions of the lines follow: `LINE_FIELDS` each.
(
    LINES,  # how many lines
    DIMS,  # how many dimensions the lines have
    SIZE,  # elements per line
    STRIDE,  # from element to element, in the direction of the call
    OUT_STRIDE,
    START,  # where the first line starts in the input
    OUT_START,  # the same in the output; the initial element stands before it
    BLOCK_SIZE,  # BLOCK or NO_BLOCKS
    EXCLUSIVE,  # 1: elements are left out of their own results
    INITIAL,  # 1: there is an initial element
    PARTS,  # parts of a line that threads share
    SUPERBLOCKS,  # of a line, in all parts together
    TOTALS,  # of these, those in all parts but the last
    DEEP,  # 1: there are more levels than one
    TILE,  # columns that are looked at together
    LOW,  # the lowest byte of the input, relative to its first element
    HIGH,
    OUT_BYTES,
    IN_PLACE,  # 1: output and input may be the same memory
    CONTINUES,  # 1: lines are chunks of longer ones, and KEPT numbers of each stand in the memory of the state
    POSITION,  # where these chunks start; at 0 nothing was kept
    HEADER,
) = range(22)


class Product(types.Opaque):
    """Stands for a type of numbers that are multiplied."""

    def __init__(self, factor):
        self.factor = factor
        super().__init__(f"Product({factor})")


def data_reference(dtype: Any, is_source: bool = False) -> Any:
    """Return the type of reference to elements of a NumPy dtype."""
    if dtype.name == "bfloat16":
        return reference_to(types.uint16, True)
    if dtype.kind == "b" and is_source:
        return reference_to(types.uint8)
    return reference_to(getattr(types, "boolean" if dtype.kind == "b" else dtype.name))


def state_reference(dtype: Any, multiplies: bool, in_order: bool) -> Any:
    """Return the type of reference that stands for what results of a dtype are computed in."""
    is_bfloat = dtype.name == "bfloat16"
    if dtype.kind in "biu":
        kind = types.int64
    elif in_order:
        kind = types.uint16 if is_bfloat else getattr(types, dtype.name)
    elif multiplies:
        kind = types.float32 if dtype.itemsize == 2 else getattr(types, dtype.name)
    else:
        kind = types.complex128 if dtype.kind == "c" else types.float64
    return reference_to(Product(kind) if multiplies else kind, is_bfloat and in_order)


def _stored(state):
    return getattr(state.dtype, "factor", state.dtype)


def computed_type(state):
    """Return the type that a state computes in."""
    kind = _stored(state)
    return types.float32 if kind in (types.float16, types.uint16) else kind


@chosen
def read(x, state, offset):
    """Return an element as what the state computes in (inside kernels only)."""
    kind = computed_type(state)
    if x.dtype == types.float16:
        return lambda x, state, offset: kind(from_half(load(seen_as(x, np.uint16), offset)))
    if x.is_float:
        return lambda x, state, offset: kind(bfloat_to_float(load(x, offset)))
    return lambda x, state, offset: kind(load(x, offset))


@helper
def canonical(value):
    """Return a float; of a NaN, the one of NumPy."""
    return value if value == value else type(value)(np.nan)


@helper
def rounded_to_odd(value):
    """Return a float64 as float32, with a last bit of 1 if it is not exact: what is rounded after it is not a tie."""
    near = np.float32(value)
    back = np.float64(near)
    bits = float_to_bits(near)
    if abs(back) > abs(value):
        bits -= np.uint32(1)
    return near if back == value else bits_to_float(np.uint32(bits | np.uint32(1)))


@chosen
def single(value):
    """Return a float as the float32 from which it is rounded to a shorter one (inside kernels only)."""
    return (lambda value: rounded_to_odd(value)) if value == types.float64 else (lambda value: value)


@chosen
def write(y, offset, value):
    """Write a result, rounded once (inside kernels only)."""
    kind = y.dtype
    if kind == types.float16:
        return lambda y, offset, value: store(seen_as(y, np.uint16), offset, to_half(single(canonical(value))))
    if y.is_float:
        return lambda y, offset, value: store(y, offset, float_to_bfloat(single(canonical(value))))
    if kind == types.boolean:
        return lambda y, offset, value: store(seen_as(y, np.uint8), offset, np.uint8(value != 0))
    if isinstance(kind, types.Complex):
        return lambda y, offset, value: store(y, offset, kind(complex(canonical(value.real), canonical(value.imag))))
    if isinstance(kind, types.Float):
        return lambda y, offset, value: store(y, offset, kind(canonical(value)))
    return lambda y, offset, value: store(y, offset, kind(value))


@chosen
def combine(state, total, value):
    """Add a number, or multiply by it (inside kernels only)."""
    kind, computed = _stored(state), computed_type(state)
    if isinstance(state.dtype, Product):
        if isinstance(kind, types.Complex):
            return _complex_product

        def step(total, value):
            return computed(total * value)
    else:

        def step(total, value):
            return computed(total + value)

    step = helper(step)
    if kind == types.float16:
        return lambda state, total, value: from_half(to_half(step(total, value)))
    if kind == types.uint16:
        return lambda state, total, value: bfloat_to_float(float_to_bfloat(step(total, value)))
    return lambda state, total, value: step(total, value)


def _complex_product(state, total, value):
    # NumPy's plain formula; Numba's product follows C99 and repairs infinities.
    real = total.real * value.real - total.imag * value.imag
    imag = total.real * value.imag + total.imag * value.real
    return type(total)(complex(real, imag))


@chosen
def lifted(state, levels, total):
    """Return a result from the sum within a block: the innermost level first (inside kernels only)."""
    if isinstance(state.dtype, Product):
        return lambda state, levels, total: total
    return lambda state, levels, total: levels[3] + (levels[2] + (levels[1] + (levels[0] + total)))


@chosen
def identity(state):
    """Return the result of no element (inside kernels only)."""
    kind, value = computed_type(state), int(isinstance(state.dtype, Product))
    return lambda state: kind(value)


@chosen
def absent(state):
    """Return what changes no bit of a number that it is added to (inside kernels only)."""
    kind = computed_type(state)
    if isinstance(kind, types.Complex):
        return lambda state: kind(complex(-0.0, -0.0))
    return (lambda state: kind(-0.0)) if isinstance(kind, types.Float) else (lambda state: kind(0))


@partial(chosen, allocates=True)
def buffer(state, count):
    """Return an empty array of what a state computes in (inside kernels only)."""
    kind = as_dtype(computed_type(state)).type
    return lambda state, count: empty(count, kind)


@helper
def carried(state, levels, total, blocks):
    """Return the levels behind a block, which is number `blocks` from the start of the line, counted from 1."""
    none = absent(state)
    first, second, third, fourth = levels
    first += total
    if blocks % BLOCK == 0:
        second += first
        first = none
        if blocks % (BLOCK * BLOCK) == 0:
            third += second
            second = none
            if blocks % (BLOCK * BLOCK * BLOCK) == 0:
                fourth += third
                third = none
    return first, second, third, fourth


@chosen
def numbers(state):
    """Return the memory of a state, seen as what it computes in (inside kernels only)."""
    kind = as_dtype(computed_type(state)).type
    return lambda state: seen_as(state, kind)


@helper
def begun(state, plan, line):
    """Return the sum within the block and the levels where a line starts, or goes on."""
    none, kept = absent(state), numbers(state)
    if plan[POSITION] == 0:
        return identity(state), (none, none, none, none)
    width = itemsize(kept)
    at = line * KEPT * width
    levels = load(kept, at + width), load(kept, at + 2 * width), load(kept, at + 3 * width), load(kept, at + 4 * width)
    return load(kept, at), levels


@helper
def keep_line(state, plan, line, total, levels):
    """Keep what the next chunk of a line needs."""
    if plan[CONTINUES] != 0:
        kept = numbers(state)
        at = line * KEPT * itemsize(kept)
        store(kept, at, total)
        for k in range(LEVELS):
            store(kept, at + (1 + k) * itemsize(kept), levels[k])


@helper
def inner_dimension(plan):
    """Return where the innermost dimension of the lines starts in a plan."""
    return HEADER + LINE_FIELDS * (plan[DIMS] - 1)


@helper
def line_bases(plan, line):
    """Return where a line starts in the input and in the output."""
    source, to = unravelled(plan, HEADER, plan[DIMS], line)
    return source + plan[START], to + plan[OUT_START]


@helper
def task_count(x, y, plan, count):
    """Tell how many tasks a first phase has: none, if the output overlaps the input elsewhere than in place."""
    source, to = address(x), address(y)
    if source == to and plan[IN_PLACE] != 0:
        return count
    return np.int64(OVERLAP) if overlaps(source + plan[LOW], source + plan[HIGH], to, to + plan[OUT_BYTES]) else count
