"""Running sums and products: the plan of a scan, numbers as words, and the levels of the fixed order of sums.

A state is a word with the bits of what is computed in. Sums go by blocks (see "The order of float sums" in
docs/semantics.md). A level that is absent is the word that changes no bit of what it is added to: -0.0, or 0.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import NamedTuple

import numpy as np

from ..._core.enums import TensorDataType as D
from ..._core.lowering import SUM_BLOCK, is_float
from ..._core.tensor import dtype_of, element_size
from ..driver.compile import helper
from ..driver.numba import BLOCK, LANES, SIMULATED
from .access import unit_access
from .moves.reductions import _step, add
from .plan import number
from .ptx import _as_int64, load_twin, ptx

# Numbers of a plan.
(
    SIZE,  # elements of a line
    LINES,
    INNER,  # lines that lie side by side: elements from one of a line to the next
    BLOCKS,  # blocks of a line, one at least
    PARTS,  # superblocks of a line, one at least
    TOGETHER,  # lines of a thread block, if they have one superblock; or warps that share columns
    EXCLUSIVE,  # 1: elements are left out of their own results
    INITIAL,  # 1: there is one more result, for no element
    REVERSE,  # 1: lines are scanned from their ends on
    FIELDS,
) = range(10)


class Sizes(NamedTuple):
    """Sizes that kernels are compiled for."""

    threads: int  #: Threads of a block.
    chunk: int  #: Elements of each row that are in shared memory at a time, a power of two.
    tile_loads: int  #: Elements of a thread that are loaded together into shared memory.
    loads: int  #: Elements of a line that a thread loads together.


SIZES = (Sizes(BLOCK, 32, 16, 8), Sizes(BLOCK, 4, 2, 2))[SIMULATED]
#: Words of a part's state in memory that other blocks read: how much is known, its total, and the levels behind it.
STATUS, TOTAL, LEVELS, STATE = 0, 1, 2, 5
#: What is known of a part.
HAS_TOTAL, HAS_LEVELS = 1, 2
COLUMNS = LANES

_TAKE = {
    D.FLOAT64: "mov.b64 x, $1;",
    D.FLOAT32: "cvt.u32.u64 t, $1; mov.b32 x, t;",
    D.FLOAT16: "cvt.u16.u64 x, $1;",
    D.BFLOAT16: "cvt.u32.u64 t, $1; shl.b32 t, t, 16; mov.b32 x, t;",
}
_GIVE = {
    D.FLOAT64: "mov.b64 $0, y;",
    D.FLOAT32: "mov.b32 t, y; cvt.u64.u32 $0, t;",
    D.FLOAT16: "cvt.u64.u16 $0, y;",
    D.BFLOAT16: "cvt.u64.u16 $0, y;",
}
#: The type of PTX that holds a float, as an operand and as a result.
_OPERAND = {D.FLOAT64: "f64", D.FLOAT32: "f32", D.FLOAT16: "f16", D.BFLOAT16: "f32"}
_RESULT = {**_OPERAND, D.BFLOAT16: "bf16"}
#: From float64 to bfloat16 in two steps: the first one leaves a last bit of 1 if it is not exact, so that the second
#: one rounds right.
_ODD = (
    "cvt.rz.f32.f64 z, x; cvt.f64.f32 w, z; setp.neu.f64 p, w, x; mov.b32 t, z; @p or.b32 t, t, 1; mov.b32 z, t; "
    "cvt.rn.bf16.f32 y, z;"
)


def _quiet(kind: D) -> int:
    """Return the bits of NumPy's NaN."""
    bits = {D.FLOAT64: 0x7FF8 << 48, D.FLOAT32: 0x7FC0 << 16, D.FLOAT16: 0x7E00, D.BFLOAT16: 0x7FC0}
    return bits[kind]


@cache
def converter(source: D, target: D):
    """Return how a float's bits become those of another type, rounded once; every NaN becomes NumPy's."""
    bits, wide = 8 * element_size(target), element_size(target) > element_size(source)
    is_short = bits == 16

    def twin(word):
        size = element_size(source)
        value = np.array(word & ((1 << 8 * size) - 1), f"u{size}").view(dtype_of(source))
        with np.errstate(all="ignore"):
            if np.isnan(value):
                return _quiet(target)
            if target is D.BFLOAT16 and source is D.FLOAT64:
                near = value.astype(np.float32)
                if np.isfinite(value) and near.astype(np.float64) != value:
                    near = np.nextafter(near, np.float32(0)) if abs(near.astype(np.float64)) > abs(value) else near
                    near = (near.view(np.uint32) | np.uint32(1)).view(np.float32)
                value = near
            return _as_int64(int(value.astype(dtype_of(target)).view(f"u{bits // 8}")))

    operand, result = _OPERAND[source], _RESULT[target]
    if operand == result:
        step = f"mov.b{bits} y, x;"
    elif source is D.FLOAT64 and target is D.BFLOAT16:
        step = _ODD
    else:
        step = f"cvt{'' if wide else '.rn'}.{result}.{operand} y, x;"
    registers = (
        f".reg .b32 t; .reg .f32 z; .reg .f64 w; .reg .pred p; .reg .{'b16' if operand == 'f16' else operand} x; "
    )
    registers += f".reg .{'b16' if is_short else result} y; "
    nan = f"setp.nan.{operand} p, x, x; selp.b{bits} y, {_quiet(target):#x}, y, p; "
    if not is_short:  # a constant of a float register
        nan = f"setp.nan.{operand} p, x, x; mov.b{bits} {'w' if bits == 64 else 'z'}, {_quiet(target):#x}; "
        nan += f"@p mov.b{bits} y, {'w' if bits == 64 else 'z'}; "
    return ptx(f"{{ {registers}{_TAKE[source]} {step} {nan}{_GIVE[target]} }}", 1, 1, twin, pure=True)


def _sum_twin(a, b):
    with np.errstate(all="ignore"):
        return int((np.int64(a).view(np.float64) + np.int64(b).view(np.float64)).view(np.int64))


#: ``add_floats(a, b)``: the sum of two float64, given and returned as words.
add_floats = ptx(
    "{ .reg .f64 x, y; mov.b64 x, $1; mov.b64 y, $2; add.rn.f64 x, x, y; mov.b64 $0, x; }", 1, 2, _sum_twin, pure=True
)
#: ``low_word(word)``: the lower 32 bits of a word.
low_word = ptx(
    "cvt.u32.u64 $0, $1;", 1, 1, lambda word: ((word + (1 << 31)) & 0xFFFFFFFF) - (1 << 31), pure=True, bits=32
)


@helper
def _same(word):
    return word


def slot_of(result: D):
    """Return the type that holds an element in shared memory, and how a word becomes one.

    A bool, which is summed as an integer, takes 8 bytes.
    """
    short = element_size(result) <= 4 and result is not D.BOOL
    return (np.int32, low_word) if short else (np.int64, _same)


@helper
def _truth(word):
    return np.int64(1) if word != 0 else np.int64(0)


def _converter(source: D, target: D):
    """Return how a word of one type becomes one of another."""
    if is_float(source):
        return converter(source, target)
    return _truth if target is D.BOOL else _same


@cache
def load_of(source: D):
    """Return the load of an element as a word: integers with their sign. It is not what this thread has written."""
    size, name = element_size(source), dtype_of(source).name
    kind = getattr(ctypes, f"c_{name if name.startswith(('int', 'uint')) else f'uint{8 * size}'}")
    letter = "s" if name.startswith("int") else "u"
    return ptx(f"ld.global.{letter}{8 * size} $0, [$1];", 1, 1, load_twin(kind))


class Sums(NamedTuple):
    """How sums are computed: functions of words."""

    load: object  #: ``load(address)``: an element.
    store: object  #: ``store(address, word, 0)``: a result.
    read: object  #: ``read(element)``: what is added.
    write: object  #: ``write(sum)``: the result, rounded once.
    add: object
    absent: int  #: What changes nothing that it is added to.


@cache
def sums(source: D, result: D) -> Sums:
    """Return how elements of one type are added up to results of another, which is no complex one."""
    _, store = unit_access(element_size(result))
    if is_float(result):
        read, write = converter(source, D.FLOAT64), converter(D.FLOAT64, result)
        return Sums(load_of(source), store, read, write, add_floats, -(1 << 63))
    return Sums(load_of(source), store, _same, _converter(source, result), add, 0)


@cache
def in_order(source: D, result: D, multiplies: bool, own_type: bool):
    """Return ``read(first, second)``, ``write(first, second)`` and ``combine(old, old_second, new, new_second)``.

    A step is computed in the result's own type; products of 16-bit floats in float32, unless `own_type` is true.
    """
    state = D.FLOAT32 if element_size(result) == 2 and is_float(result) and not own_type else result
    combine = _step(state if state is not D.BOOL else D.INT64, "mul" if multiplies else "add", False)
    part = {D.COMPLEX64: D.FLOAT32, D.COMPLEX128: D.FLOAT64}.get(result)
    if part is D.FLOAT32:
        clean = converter(part, part)

        @helper
        def read(first, second):
            return first, second

        @helper
        def write(first, second):
            return clean(first & 0xFFFFFFFF) | (clean((first >> 32) & 0xFFFFFFFF) << 32), second

        return read, write, combine
    convert_in = _same if part else _converter(source, state)
    convert_out = converter(part, part) if part else _converter(state, result)
    is_pair = part is not None

    @helper
    def read(first, second):
        return convert_in(first), second

    @helper
    def write(first, second):
        return convert_out(first), convert_out(second) if is_pair else second

    return read, write, combine


@cache
def level_steps(source: D, result: D):
    """Return ``carried(second, third, fourth, total, parts)`` and ``lifted(first, second, third, fourth, total)``.

    The levels behind a superblock, which is number `parts` of its line from 1 on; and a result from the levels and the
    sum within a block.
    """
    plus, none = sums(source, result).add, sums(source, result).absent

    @helper
    def carried(second, third, fourth, total, parts):
        second = plus(second, total)
        if parts % SUM_BLOCK == 0:
            third, second = plus(third, second), np.int64(none)
            if parts % (SUM_BLOCK * SUM_BLOCK) == 0:
                fourth, third = plus(fourth, third), np.int64(none)
        return second, third, fourth

    @helper
    def lifted(first, second, third, fourth, total):
        return plus(fourth, plus(third, plus(second, plus(first, total))))

    return carried, lifted


@helper
def place_of(plan, position):
    """Return which element of a line stands at a position, counted from where the scan starts."""
    return number(plan, SIZE) - 1 - position if number(plan, REVERSE) != 0 else position


@helper
def out_shift(plan):
    """Return how many places further an element's result stands in the line of results."""
    return np.int64(0) if number(plan, REVERSE) != 0 else number(plan, INITIAL)


@helper
def initial_place(plan):
    """Return where the initial result stands."""
    return number(plan, SIZE) if number(plan, REVERSE) != 0 else np.int64(0)
