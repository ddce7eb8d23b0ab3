"""Running sums and products: the plan of a scan, numbers as words, and how they are read, added and written.

A number is a word with the bits of what is computed in. Sums go by blocks (see "The order of float sums" in
docs/semantics.md). A level that is absent is the word that changes no bit of what it is added to: -0.0, or 0.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..._core.enums import TensorDataType as D
from ..._core.lowering import is_float
from ..._core.tensor import dtype_of, element_size
from ..driver.compile import helper
from ..driver.numba import SIMULATED
from .access import OWN_LOAD, unit_access
from .bits import wrapped
from .moves.reductions import PARTS_OF, QUIET_NAN, add, element_step, upper
from .ptx import load_twin, ptx

# Numbers of a plan; the first ones are those of kernels that go through lines in order, too. A set is the same row of
# `COLUMNS` lines side by side, one for each lane. A warp moves a segment of some sets by runs that are contiguous in
# memory (chunks), in pieces of one element for each lane; with several groups of columns a piece is one position.
(
    SIZE,  # elements of a line
    LINES,
    INNER,  # lines that lie side by side: elements from one of a line to the next
    EXCLUSIVE,  # 1: elements are left out of their own results
    INITIAL,  # 1: there is one more result, for no element
    REVERSE,  # 1: lines are scanned from their ends on
    LENGTH,  # elements of a row, at most
    ROWS,  # rows of a line, a divisor
    GROUPS,  # groups of columns that lines side by side are in, a divisor
    COLUMNS,
    SETS,  # sets of a warp
    ALL_SETS,
    SEGMENTS,  # segments of a row
    CHUNKS,  # chunks of a segment
    CHUNK_PIECES,  # pieces of a chunk
    SET_STRIDE,  # elements of a segment from the first one of a set to that of the next; 0: there is one set
    LEVELS,  # levels of sums above those within a block
    FIELDS,
) = (*range(8), 10, *range(13, 22))
#: Elements that a thread loads together, of a line that it scans in order.
LOADS = (8, 2)[SIMULATED]
#: Positions of a segment.
SEGMENT = 32

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


@cache
def converter(source: D, target: D, *, cleans: bool = True):
    """Return how a float's bits become those of another type, rounded once, and every NaN NumPy's if it `cleans`."""
    bits, wide = 8 * element_size(target), element_size(target) > element_size(source)
    is_short, quiet = bits == 16, QUIET_NAN[target]

    def twin(word):
        size = element_size(source)
        value = np.array(word & ((1 << 8 * size) - 1), f"u{size}").view(dtype_of(source))
        with np.errstate(all="ignore"):
            if np.isnan(value):
                return quiet
            if target is D.BFLOAT16 and source is D.FLOAT64:
                near = value.astype(np.float32)
                if np.isfinite(value) and near.astype(np.float64) != value:
                    near = np.nextafter(near, np.float32(0)) if abs(near.astype(np.float64)) > abs(value) else near
                    near = (near.view(np.uint32) | np.uint32(1)).view(np.float32)
                value = near
            return wrapped(int(value.astype(dtype_of(target)).view(f"u{bits // 8}")))

    operand, result = _OPERAND[source], _RESULT[target]
    if operand == result:
        step = f"mov.b{bits} y, x;"
    elif source is D.FLOAT64 and target is D.BFLOAT16:
        step = _ODD
    else:
        step = f"cvt{'' if wide else '.rn'}.{result}.{operand} y, x;"
    given, made = "b16" if operand == "f16" else operand, "b16" if is_short else result
    registers = f".reg .b32 t; .reg .f32 z; .reg .f64 w; .reg .pred p; .reg .{given} x; .reg .{made} y; "
    if not cleans:
        nan = ""
    elif is_short:
        nan = f"setp.nan.{operand} p, x, x; selp.b{bits} y, {quiet:#x}, y, p; "
    else:  # a constant of a float register
        constant = "w" if bits == 64 else "z"
        nan = f"setp.nan.{operand} p, x, x; mov.b{bits} {constant}, {quiet:#x}; @p mov.b{bits} y, {constant}; "
    return ptx(f"{{ {registers}{_TAKE[source]} {step} {nan}{_GIVE[target]} }}", 1, 1, twin, pure=True)


def _sum_twin(a, b):
    with np.errstate(all="ignore"):
        return int((np.int64(a).view(np.float64) + np.int64(b).view(np.float64)).view(np.int64))


#: ``add_floats(a, b)``: the sum of two float64, given and returned as words.
add_floats = ptx(
    "{ .reg .f64 x, y; mov.b64 x, $1; mov.b64 y, $2; add.rn.f64 x, x, y; mov.b64 $0, x; }", 1, 2, _sum_twin, pure=True
)
#: ``low_word(word)``: the lower 32 bits of a word.
low_word = ptx("cvt.u32.u64 $0, $1;", 1, 1, lambda word: wrapped(word, 32), pure=True, bits=32)


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


@cache
def _from_integer(target: D, signed: bool):
    """Return how an integer becomes a float: float32 first if that has 16 bits, as NumPy's casts do."""
    wide, letter = target is D.FLOAT64, "s" if signed else "u"
    first, bits = (D.FLOAT64, 64) if wide else (D.FLOAT32, 32)

    def twin(word):
        number = word if signed else word & 0xFFFFFFFFFFFFFFFF
        return wrapped(int(np.array(number, "i8" if signed else "u8").astype(dtype_of(first)).view(f"u{bits // 8}")))

    give = "mov.b64 $0, x;" if wide else "mov.b32 t, x; cvt.u64.u32 $0, t; "
    asm = f"{{ .reg .f{bits} x; .reg .b32 t; cvt.rn.f{bits}.{letter}64 x, $1; {give} }}"
    cast = ptx(asm, 1, 1, twin, pure=True)
    if target in (D.FLOAT64, D.FLOAT32):
        return cast
    shorten = converter(D.FLOAT32, target)

    @helper
    def cast_twice(word):
        return shorten(cast(word))

    return cast_twice


def caster(source: D, target: D):
    """Return how a word of one type becomes one of another, as a cast of the array would make it."""
    if is_float(target):
        if is_float(source):
            return _same if source is target else converter(source, target)
        return _from_integer(target, dtype_of(source).kind == "i")
    return _truth if target is D.BOOL else _same


def can_cast(source: np.dtype[Any], result: np.dtype[Any]) -> bool:
    """Tell whether kernels read elements of one dtype as another one."""
    kinds = {"b": "biufV", "u": "biufV", "i": "biufV", "f": "fV", "V": "fV", "c": "c"}
    return source.isnative and result.kind in kinds.get(source.kind, "")


def load_of(source: D):
    """Return the load of an element as a word: integers with their sign."""
    name = dtype_of(source).name
    return OWN_LOAD[name if name.startswith(("int", "uint")) else f"uint{8 * element_size(source)}"]


class Sums(NamedTuple):
    """How sums are computed: functions of words."""

    fetch: object  #: ``fetch(address)``: the bits of an element of the input.
    take: object  #: ``take(bits)``: the element, as one of the result.
    store: object  #: ``store(address, word, 0)``: a result.
    read: object  #: ``read(element)``: what is added.
    write: object  #: ``write(sum)``: the result, rounded once.
    add: object
    absent: int  #: What changes nothing that it is added to.


@cache
def load_as(source: D, result: D):
    """Return ``load(address)``: an element of one type as a word of another."""
    load, cast = load_of(source), caster(source, result)

    @helper
    def load_cast(address):
        return cast(load(address))

    return load_cast


@helper
def _widen(bits):
    return np.int64(bits)


@helper
def _widen_unsigned(bits):
    return np.int64(bits) & 0xFFFFFFFF


@cache
def fetch_of(source: D):
    """Return the type of an element's bits, ``fetch(address)``, and ``widen(bits)``: the word that `load_of` returns.

    What is fetched needs no further step, so a thread can have several elements under way.
    """
    if element_size(source) > 4:
        return np.int64, load_of(source), _same
    kind, name = dtype_of(source).kind, dtype_of(source).name
    bits = 8 * element_size(source)
    letter, c_type = ("s", f"c_int{bits}") if kind == "i" or bits == 32 else ("u", f"c_uint{bits}")
    fetch = ptx(f"ld.global.{letter}{bits} $0, [$1];", 1, 1, load_twin(getattr(ctypes, c_type)), bits=32)
    return np.int32, fetch, _widen_unsigned if name == "uint32" else _widen


@cache
def sums(source: D, result: D) -> Sums:
    """Return how elements of one type are added up to results of another, which is no complex one."""
    _, store = unit_access(element_size(result))
    (_, fetch, widen), cast = fetch_of(source), caster(source, result)

    @helper
    def take(bits):
        return cast(widen(bits))

    if is_float(result):
        read = converter(result, D.FLOAT64, cleans=False)
        return Sums(fetch, take, store, read, converter(D.FLOAT64, result), add_floats, -(1 << 63))  # -0.0
    return Sums(fetch, take, store, _same, caster(D.INT64, result), add, 0)


@cache
def load_pair(source: D, result: D):
    """Return ``load(address)``: an element as the two words of a result, of which most have one."""
    if source not in PARTS_OF:
        load_one = load_as(source, result)

        @helper
        def load(address):
            return load_one(address), np.int64(0)

        return load
    part, own = PARTS_OF[source], PARTS_OF[result]
    load_part, step = load_as(part, own), element_size(part)
    is_short = own is D.FLOAT32

    @helper
    def load_complex(address):
        first, second = load_part(address), load_part(address + step)
        return ((first & 0xFFFFFFFF) | upper(second, 32), np.int64(0)) if is_short else (first, second)

    return load_complex


@cache
def in_order(source: D, result: D, multiplies: bool, own_type: bool):
    """Return ``load(address)``, ``write(first, second)`` and ``combine(old, old_second, new, new_second)``.

    A step is computed in the result's own type; products of 16-bit floats in float32, unless `own_type` is true.
    """
    is_half = element_size(result) == 2 and is_float(result) and not own_type
    state = D.FLOAT32 if is_half else D.INT64 if result is D.BOOL else result
    combine, part = element_step(state, "mul" if multiplies else "add", False), PARTS_OF.get(result)
    load_result, widen = load_pair(source, result), converter(result, state) if is_half else _same
    is_short, has_nan = part is D.FLOAT32, part is not None or is_float(result)
    clean = converter(part or state, part or result) if has_nan else caster(state, result)

    @helper
    def load(address):
        first, second = load_result(address)
        return widen(first), second

    @helper
    def write(first, second):
        if is_short:
            return clean(first & 0xFFFFFFFF) | upper(clean((first >> 32) & 0xFFFFFFFF), 32), second
        return clean(first), clean(second) if part is not None else second

    return load, write, combine
