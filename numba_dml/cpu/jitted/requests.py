"""Requests: what a call in jitted code hands to an entry, one row of int64 numbers on the caller's stack.

Parameters come first, then a record for each array (address, rank, sizes, strides in bytes), inputs before outputs.
Behind them are the caller's numbers again, uncut for errors, and room for the sizes of the result, or of the updates of
a scatter, and for the strides of a packed result.
"""

from __future__ import annotations

from numba import types

from ..._jit.compile import PLAN, helper
from ..._jit.emission import cgutils, intrinsic, ir
from ..._jit.emission_late import populate_array
from ..._jit.memory import ArrayRef, load

WORDS = ArrayRef(types.int64)
#: Of entries: the addresses of kernels, and a request.
SIGNATURE = (WORDS, WORDS)
WORD = ir.IntType(64)

# The first numbers: what the caller gives, what is known when it is compiled, and where arrays are. K is also the depth
# of a one-hot, the number of coordinates, and a bit for each axis of an argmax. Other operators name their numbers,
# from `calls.OWN` to ARRAYS.
AXIS, K, SIZES_AT, OUT_AT, RESULT, OPERATOR, ITEMSIZE, KIND = range(8)
# Those of a top-k: the address of the indices, and the rule of the keys, three numbers.
INDICES, RULE = 8, 9
# Those of gathers and scatters. COPIED: the result holds the data already, so these are read and written there. RANK:
# the dimensions of a gather's result, which its caller makes.
COPIED, ADDRESSING, WRITES, BOUNDS, REDUCTION, UNIQUE = range(8, 14)
RANK = UNIQUE
#: Where the records start.
ARRAYS = 14
#: How many numbers the caller gives, and the highest that a request holds, which stands for all above it.
GIVEN, MOST = 2, (1 << 63) - 1
#: What an entry returns, beside 0 and OVERLAP, when it has not written a result: data have to be copied first, or there
#: is no address for it yet, and the arguments fit.
NEEDS_COPY, CHECKED = -2, -3


def emit_number(context, builder, value, kind):
    """Emit an integer of the caller's as int64; what that does not hold becomes MOST, and no negative number."""
    number = context.cast(builder, value, types.unliteral(kind), types.int64)
    if types.unliteral(kind) != types.uint64:
        return number
    return builder.select(builder.icmp_signed("<", number, WORD(0)), WORD(MOST), number)


@intrinsic
def pack(typingctx, given, constants, inputs, outputs):
    """``pack((axis, k), constants, inputs, outputs)``: a new request; `constants` follow on RESULT, which is 0."""
    arrays = (*inputs, *outputs)
    starts = [ARRAYS]
    for array in arrays:
        starts.append(starts[-1] + 2 + 2 * array.ndim)
    sizes_at = starts[-1] + GIVEN
    room = sizes_at + sum(array.ndim for array in arrays)
    out_at = starts[len(inputs)] if len(outputs) else 0
    if RESULT + 1 + len(constants) > ARRAYS:
        raise ValueError(f"a request has room for {ARRAYS - RESULT - 1} constants, found {len(constants)}")

    def codegen(context, builder, signature, args):
        def numbers(kinds, values):
            values = cgutils.unpack_tuple(builder, values)
            given = zip(kinds, values, strict=True)
            return [context.cast(builder, value, types.unliteral(kind), types.int64) for kind, value in given]

        parameters = zip(cgutils.unpack_tuple(builder, args[0]), given, strict=True)
        words = [emit_number(context, builder, value, kind) for value, kind in parameters]
        words += [WORD(sizes_at), WORD(out_at), WORD(0), *numbers(constants, args[1])]
        words += [WORD(0)] * (ARRAYS - len(words))
        values = [*cgutils.unpack_tuple(builder, args[2]), *cgutils.unpack_tuple(builder, args[3])]
        for kind, value in zip(arrays, values, strict=True):
            array = context.make_array(kind)(context, builder, value)
            words += [builder.ptrtoint(array.data, WORD), WORD(kind.ndim)]
            words += [*cgutils.unpack_tuple(builder, array.shape), *cgutils.unpack_tuple(builder, array.strides)]
        words += numbers(given, args[0])
        request = cgutils.alloca_once(builder, WORD, size=room)
        for at, word in enumerate(words):
            builder.store(word, builder.gep(request, [WORD(at)]))
        return builder.ptrtoint(request, WORD)

    return WORDS(given, constants, inputs, outputs), codegen


@intrinsic(prefer_literal=True)
def result_sizes(typingctx, request, ndim):
    """``result_sizes(request, ndim)``: the sizes of the result, as a tuple; `ndim` is a constant."""
    shape = types.UniTuple(types.intp, ndim.literal_value)

    def codegen(context, builder, signature, args):
        words = builder.inttoptr(args[0], WORD.as_pointer())
        at = builder.load(builder.gep(words, [WORD(SIZES_AT)]))
        sizes = [builder.load(builder.gep(words, [builder.add(at, WORD(i))])) for i in range(shape.count)]
        return context.make_tuple(builder, shape, sizes)

    return shape(request, ndim), codegen


@intrinsic
def data(typingctx, array):
    """``data(array)``: the address of its first element."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(context.make_array(array)(context, builder, args[0]).data, WORD)

    return types.int64(array), codegen


@helper
def word(request, at):
    """Return a number of a request."""
    return load(request, 8 * at)


def _vector(skipped):
    @intrinsic
    def vector(typingctx, request, record):
        """``vector(request, record)``: numbers of the array of a record, as an array that nobody owns."""

        def codegen(context, builder, signature, args):
            words = builder.gep(builder.inttoptr(args[0], WORD.as_pointer()), [args[1]])
            ndim = builder.load(builder.gep(words, [WORD(1)]))
            start = builder.gep(words, [builder.add(WORD(2), builder.mul(WORD(skipped), ndim))])
            array = context.make_array(PLAN)(context, builder)
            populate_array(array, start, [ndim], [WORD(8)], WORD(8), meminfo=None)
            return array._getvalue()

        return PLAN(request, types.int64), codegen

    return vector


sizes_of, strides_of = _vector(0), _vector(1)


@helper
def next_record(request, record):
    """Return where the next record starts."""
    return record + 2 + 2 * word(request, record + 1)
