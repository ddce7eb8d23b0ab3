"""How kernels reach arrays: typed references to raw memory.

A kernel must not be specialised on rank, layout or writability, and Numba's array types carry all three. So kernels
take `ArrayRef`: nothing but the address of an array's first element, and the element type that the *kernel* wants to
see there. Sizes and strides arrive as numbers in a plan. Offsets are in bytes, and accesses assume no alignment (on
x86-64 and AArch64 that costs nothing), so that every layout NumPy knows is addressed by the same code.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import types

from .compile import helper
from .emission import NativeValue, cgutils, intrinsic, ir, models, register_model, unbox
from .machine import DATA_AT

_WORD = ir.IntType(64)
_BYTE_POINTER = ir.IntType(8).as_pointer()


class ArrayRef(types.Type):
    """The address of an array's first element, seen as elements of `dtype`.

    `is_float` tells a top-k that the integers are the bits of floats.
    """

    def __init__(self, dtype: Any, is_float: bool = False) -> None:
        self.dtype = dtype
        self.is_float = is_float
        super().__init__(f"ArrayRef({dtype}{', float' if is_float else ''})")


#: For each width in bytes, the integer that is as wide.
UNSIGNED = {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}
SIGNED = {1: types.int8, 2: types.int16, 4: types.int32, 8: types.int64}
ANY = ArrayRef(types.uint8)  #: an array whose elements are read as what the plan says, or not at all
reference_to = cache(ArrayRef)  #: references are made once: Numba takes 2 to 3 µs to find out that it has one already
UNSIGNED_REFS = {width: reference_to(kind) for width, kind in UNSIGNED.items()}
SIGNED_REFS = {width: reference_to(kind) for width, kind in SIGNED.items()}


@register_model(ArrayRef)
class _ArrayRefModel(models.PrimitiveModel):
    def __init__(self, manager, ref):
        super().__init__(manager, ref, _WORD)


@unbox(ArrayRef)
def _unbox(typ, array, c):
    """Take the address out of an ndarray; whoever calls has made sure that it is one, and holds it.

    Numba's adaptor, which makes another owner, took 0.04 µs for each: a gather of 8 elements took 2.12 µs with it, and
    takes 1.99, a top-k 2.55 and 2.43.
    """
    place = c.builder.gep(c.builder.bitcast(array, _BYTE_POINTER), [_WORD(DATA_AT)])
    return NativeValue(c.builder.load(c.builder.bitcast(place, _WORD.as_pointer())))


def emit_byte_pointer(builder, ref, offset):
    """Emit the pointer `offset` bytes behind an address.

    The offset is added to the pointer, not to the number: only then does LLVM see how it moves through a loop, and
    vectorises (single bytes gathered along the last axis: 11.4 ms instead of 13.6).
    """
    return builder.gep(builder.inttoptr(ref, _BYTE_POINTER), [offset])


def emit_load(builder, ref, offset, kind):
    """Emit the load of what is `offset` bytes behind an address, aligned or not."""
    value = builder.load(builder.bitcast(emit_byte_pointer(builder, ref, offset), kind.as_pointer()), typ=kind)
    value.align = 1
    return value


def emit_store(builder, value, ref, offset):
    """Emit the store to what is `offset` bytes behind an address, aligned or not."""
    pointer = builder.bitcast(emit_byte_pointer(builder, ref, offset), value.type.as_pointer())
    builder.store(value, pointer).align = 1


@intrinsic
def load(typingctx, ref, offset):
    """``load(ref, offset)``: the element at a byte offset."""
    element = ref.dtype

    def codegen(context, builder, signature, args):
        value = emit_load(builder, *args, context.get_data_type(element))
        return context.data_model_manager[element].from_data(builder, value)

    return element(ref, types.int64), codegen


@intrinsic
def store(typingctx, ref, offset, value):
    """``store(ref, offset, value)``: write an element at a byte offset."""
    element = ref.dtype

    def codegen(context, builder, signature, args):
        ref, offset, value = args
        emit_store(builder, context.data_model_manager[element].as_data(builder, value), ref, offset)
        return context.get_dummy_value()

    return types.void(ref, types.int64, element), codegen


@intrinsic
def seen_as(typingctx, ref, dtype):
    """``seen_as(ref, np.int32)``: the same address with another element type."""
    return ArrayRef(dtype.dtype)(ref, dtype), lambda context, builder, signature, args: args[0]


@intrinsic
def further(typingctx, ref, offset):
    """``further(ref, offset)``: the address `offset` bytes further on."""
    return ref(ref, types.int64), lambda context, builder, signature, args: builder.add(*args)


@intrinsic
def address(typingctx, ref):
    """``address(ref)``: the address as an integer."""
    return types.int64(ref), lambda context, builder, signature, args: args[0]


def splat(builder, value, count):
    """Emit the repetition of a scalar in every lane of a vector."""
    vector = ir.VectorType(value.type, count)
    lane = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), None)
    return builder.shuffle_vector(lane, ir.Constant(vector, ir.Undefined), zeros)


@intrinsic
def array_at(typingctx, ref, offset, shape):
    """``array_at(ref, offset, shape)``: memory as a C-contiguous array, which nobody owns and nobody counts."""
    kind = types.Array(ref.dtype, len(shape), "C")

    def codegen(context, builder, signature, args):
        from .emission_late import populate_array

        data = emit_byte_pointer(builder, args[0], args[1])
        data = builder.bitcast(data, context.get_data_type(ref.dtype).as_pointer())
        sizes = cgutils.unpack_tuple(builder, args[2])
        strides = [_WORD(ref.dtype.bitwidth // 8)]
        for size in reversed(sizes[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        array = context.make_array(kind)(context, builder)
        populate_array(array, data, sizes, strides, strides[-1], meminfo=None)
        return array._getvalue()

    return kind(ref, types.int64, shape), codegen


@intrinsic
def empty(typingctx, shape, dtype):
    """``empty(shape, np.int64)``: what `np.empty` returns, which Numba compiles for 50 ms in each of its forms."""
    sizes = shape if isinstance(shape, types.BaseTuple) else types.UniTuple(types.intp, 1)
    array = types.Array(dtype.dtype, len(sizes), "C")
    given = types.UniTuple(types.intp, len(sizes)) if sizes is shape else types.intp

    def codegen(context, builder, signature, args):
        from .emission_late import _empty_nd_impl

        counts = cgutils.unpack_tuple(builder, args[0]) if sizes is shape else [args[0]]
        return _empty_nd_impl(context, builder, array, counts)._getvalue()

    return array(given, dtype), codegen


@intrinsic
def itemsize(typingctx, ref):
    """``itemsize(ref)``: the size of a reference's elements in bytes.

    A constant for LLVM. As an inlined overload it took Numba 20 ms for each of its 60 uses in a gather.
    """
    size = getattr(ref.dtype, "bitwidth", 8) // 8  # a bool has none
    return types.int64(ref), lambda context, builder, signature, args: _WORD(size)


@helper
def overlaps(low_a, high_a, low_b, high_b):
    """Tell whether two ranges of addresses meet; an empty one meets nothing."""
    return low_a < high_b and low_b < high_a and low_a < high_a and low_b < high_b
