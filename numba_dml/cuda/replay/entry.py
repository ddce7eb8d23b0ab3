"""The machine code that makes a call again, if its arrays are like the recorded ones: see `repeat`.

What it knows is a row of words. Python's objects, and the functions of a library and of the driver, are addresses. Of
a library that has no functions, Python has asked for its arrays' addresses and its stream; then fewer words count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
from numba import types

from ..._jit.compile import compiled, helper, locking
from ..._jit.emission import NativeValue, cgutils, intrinsic, ir, models, register_model, unbox
from ..._jit.memory import ArrayRef, load, store

#: The most arrays of a call, and arguments of a kernel.
MOST_ARRAYS, MOST_ARGUMENTS = 4, 64
PAIRS = list(combinations(range(MOST_ARRAYS), 2))

# What is recorded, in words: functions and objects by their addresses, then for each array, for each pair of arrays,
# then sizes and strides, array by array, and the launches.
(
    ARRAYS,  # how many
    KIND,  # the type of the arrays
    DESCRIBE,  # the library's function that describes an array
    CURRENT_STREAM,  # and the one for its stream
    DEVICE_OF_THREAD,  # the driver's functions
    IS_CAPTURING,  # 0: may be captured
    LAUNCH,
    NEEDS_SCRATCH,  # 0: the launches need no scratch memory
    REQUIRES_GRAD,  # the name of an attribute
    IS_NEG,  # the name of a method
    FALSE,
    LAUNCHES,  # how many
    LAUNCHES_AT,  # from which byte on
    HEADER,
) = range(14)
(
    DEVICE,  # type and number, as in a DLTensor
    TYPE,  # rank and data type, as there
    ALIGNMENT,  # of the address, see below
    LOW,  # the first byte, from the address
    HIGH,  # and the one after the last
    IS_REAL,  # a tensor may be one that requires grad, or is negated when it is read
    ARRAY_FIELDS,
) = range(7)
ANY, SAME, APART = range(3)
PAIRS_AT = HEADER + MOST_ARRAYS * ARRAY_FIELDS
LAYOUTS_AT = PAIRS_AT + len(PAIRS)
#: What an argument is: a number, or (from here on) an address in an array; in scratch memory; of a record; a launch's.
NUMBER, ARRAY = 0, 1
SCRATCH, RECORD, LAUNCH_NUMBER = range(ARRAY + MOST_ARRAYS, ARRAY + MOST_ARRAYS + 3)
#: The fields of a DLTensor, in bytes, and its size.
_DATA, _DEVICE, _TYPE, _SIZES, _STRIDES, _OFFSET = range(0, 48, 8)
_TENSOR = 48
#: Words of a CUlaunchConfig, and the one that is the stream. Numba's disk cache does not look at `launch`.
CONFIG_WORDS, CONFIG_STREAM = 7, 4
#: Nothing asks for more than that of an address.
ALIGNED = 16
#: Nothing was launched; a status of the driver is below.
DIFFERENT = -1

WORDS = ArrayRef(types.int64)


class _Object(types.Type):
    """The address of a Python object."""


OBJECT = _Object("Object")


@register_model(_Object)
class _ObjectModel(models.PrimitiveModel):
    def __init__(self, manager, typ):
        super().__init__(manager, typ, ir.IntType(64))


@unbox(_Object)
def _unbox(typ, value, c):
    return NativeValue(c.builder.ptrtoint(value, ir.IntType(64)))


def _object(context, builder, number):
    return builder.inttoptr(number, context.get_python_api(builder).pyobj)


@intrinsic
def address_of(typingctx, value):
    """``address_of(value)``: the address of an object."""
    return types.int64(value), lambda context, builder, signature, args: args[0]


@intrinsic
def type_of(typingctx, value):
    """``type_of(value)``: the address of the type of the object at an address."""

    def codegen(context, builder, signature, args):
        found = context.get_python_api(builder).get_type(_object(context, builder, args[0]))
        return builder.ptrtoint(found, ir.IntType(64))

    return types.int64(value), codegen


@intrinsic
def has(typingctx, value, name, wanted, is_method):
    """``has(value, name, wanted, is_method)``: is this what an attribute is, or what a method returns?"""

    def codegen(context, builder, signature, args):
        api = context.get_python_api(builder)
        value, name = (_object(context, builder, number) for number in args[:2])
        kind = ir.FunctionType(api.pyobj, [api.pyobj, api.pyobj], var_arg=True)
        call = cgutils.get_or_insert_function(builder.module, kind, "PyObject_CallMethodObjArgs")
        result = cgutils.alloca_once_value(builder, cgutils.get_null_value(api.pyobj))
        with builder.if_else(args[3]) as (method, attribute):
            with method:
                builder.store(builder.call(call, [value, name, cgutils.get_null_value(api.pyobj)]), result)
            with attribute:
                builder.store(api.object_getattr(value, name), result)
        found = builder.load(result)
        api.err_clear()
        api.decref(found)  # null, if there is no answer
        return builder.icmp_unsigned("==", builder.ptrtoint(found, ir.IntType(64)), args[2])

    return types.boolean(value, name, wanted, is_method), codegen


@intrinsic
def forget_error(typingctx):
    """``forget_error()``: no exception is set."""

    def codegen(context, builder, signature, args):
        context.get_python_api(builder).err_clear()
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def let_others_run(typingctx):
    """``let_others_run()``: other threads of Python may run; return what `run_again` needs."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(context.get_python_api(builder).save_thread(), ir.IntType(64))

    return types.int64(), codegen


@intrinsic
def run_again(typingctx, thread):
    """``run_again(thread)``: wait until no other thread of Python runs."""

    def codegen(context, builder, signature, args):
        api = context.get_python_api(builder)
        api.restore_thread(builder.inttoptr(args[0], api.voidptr))
        return context.get_dummy_value()

    return types.void(thread), codegen


@intrinsic
def words_at(typingctx, number):
    """``words_at(number)``: the words at an address."""
    return WORDS(types.int64), lambda context, builder, signature, args: args[0]


def _stack(count):
    @intrinsic
    def stack(typingctx):
        def codegen(context, builder, signature, args):
            word = ir.IntType(64)
            return builder.ptrtoint(cgutils.alloca_once(builder, word, size=count), word)

        return types.int64(), codegen

    return stack


#: Each returns the address of words that are there until the function returns.
a_word, tensors, config_words, argument_words = map(
    _stack, (1, MOST_ARRAYS * _TENSOR // 8, CONFIG_WORDS, MOST_ARGUMENTS)
)


@intrinsic
def invoke(typingctx, function, args):
    """``invoke(function, args)``: what a function at an address returns, which takes words and returns an int."""

    def codegen(context, builder, signature, values):
        function, packed = values
        word = ir.IntType(64)
        pointer = ir.FunctionType(ir.IntType(32), [word] * len(signature.args[1])).as_pointer()
        result = builder.call(builder.inttoptr(function, pointer), cgutils.unpack_tuple(builder, packed))
        return builder.sext(result, word)

    return types.int64(function, args), codegen


@helper
def is_like(known, i, value, tensor, layout):
    """Compare an array with a recorded one; return where the next one's layout is, or `DIFFERENT`."""
    if type_of(value) != load(known, 8 * KIND):
        return DIFFERENT
    if invoke(load(known, 8 * DESCRIBE), (value, tensor)) != 0:
        forget_error()
        return DIFFERENT
    found = words_at(tensor)
    fields = 8 * (HEADER + ARRAY_FIELDS * i)
    device, kind = load(known, fields + 8 * DEVICE), load(known, fields + 8 * TYPE)
    if load(found, _DEVICE) != device or load(found, _TYPE) != kind:
        return DIFFERENT
    if load(found, _OFFSET) != 0 or load(found, _STRIDES) == 0:
        return DIFFERENT
    dims = load(found, _TYPE) & 0xFFFFFFFF
    sizes, strides = words_at(load(found, _SIZES)), words_at(load(found, _STRIDES))
    for at in range(0, 8 * dims, 8):
        if load(sizes, at) != load(known, layout + at) or load(strides, at) != load(known, layout + 8 * dims + at):
            return DIFFERENT
    if load(known, fields + 8 * IS_REAL) != 0:
        no = load(known, 8 * FALSE)
        needs_no_grad = has(value, load(known, 8 * REQUIRES_GRAD), no, False)
        if not needs_no_grad or not has(value, load(known, 8 * IS_NEG), no, True):
            return DIFFERENT
    return layout + 16 * dims


@helper
def lie_alike(known, found):
    """Are arrays aligned as the recorded ones, the same ones the same, and outputs apart from the rest?"""
    for i in range(load(known, 8 * ARRAYS)):
        address = load(words_at(found + _TENSOR * i), _DATA)
        if address & (ALIGNED - 1) != load(known, 8 * (HEADER + ARRAY_FIELDS * i + ALIGNMENT)):
            return False
    pair = 8 * PAIRS_AT
    for i in range(MOST_ARRAYS):
        for j in range(i + 1, MOST_ARRAYS):
            relation = load(known, pair)
            pair += 8
            if relation == ANY:
                continue
            one, other = load(words_at(found + _TENSOR * i), _DATA), load(words_at(found + _TENSOR * j), _DATA)
            of_one, of_other = 8 * (HEADER + ARRAY_FIELDS * i), 8 * (HEADER + ARRAY_FIELDS * j)
            if relation == SAME and one != other:
                return False
            starts_before = one + load(known, of_one + 8 * LOW) < other + load(known, of_other + 8 * HIGH)
            ends_behind = other + load(known, of_other + 8 * LOW) < one + load(known, of_one + 8 * HIGH)
            if relation == APART and starts_before and ends_behind:
                return False
    return True


@helper
def is_current(known):
    """Is the device of the recorded arrays the current one of this thread?"""
    answer = a_word()
    store(words_at(answer), 0, 0)
    status = invoke(load(known, 8 * DEVICE_OF_THREAD), (answer,))
    return status == 0 and load(words_at(answer), 0) == load(known, 8 * (HEADER + DEVICE)) >> 32


@helper
def launch_all(known, found, stream, scratch, record, number):
    """Launch the kernels that are recorded; return the driver's status."""
    config, values, pointers = config_words(), argument_words(), argument_words()
    for i in range(MOST_ARGUMENTS):
        store(words_at(pointers), 8 * i, values + 8 * i)
    at = load(known, 8 * LAUNCHES_AT)
    for _ in range(load(known, 8 * LAUNCHES)):
        handle, count = load(known, at), load(known, at + 8)
        at += 16
        for i in range(CONFIG_WORDS):
            store(words_at(config), 8 * i, load(known, at + 8 * i))
        store(words_at(config), 8 * CONFIG_STREAM, stream)
        at += 8 * CONFIG_WORDS
        for i in range(count):
            what, value = load(known, at), load(known, at + 8)
            at += 16
            if what == SCRATCH:
                value += scratch
            elif what == RECORD:
                value = record
            elif what == LAUNCH_NUMBER:
                value = number
            elif what != NUMBER:
                value += load(words_at(found + _TENSOR * (what - ARRAY)), _DATA)
            store(words_at(values), 8 * i, value)
        status = invoke(load(known, 8 * LAUNCH), (config, handle, pointers, 0))
        if status != 0:
            return status
    return np.int64(0)


@helper
def launch_if_allowed(known, found, stream, scratch, record, number):
    """Launch the kernels on a stream, unless it is captured and the call waits for it; return what `repeat` does."""
    if load(known, 8 * IS_CAPTURING) != 0:
        answer = a_word()
        store(words_at(answer), 0, 0)
        if invoke(load(known, 8 * IS_CAPTURING), (stream, answer)) != 0 or load(words_at(answer), 0) != 0:
            return DIFFERENT
    if load(known, 8 * NEEDS_SCRATCH) != 0 and scratch == 0:
        return stream
    thread = let_others_run()  # a launch waits if too many are on their way
    status = launch_all(known, found, stream, scratch, record, number)
    run_again(thread)
    return stream if status == 0 else DIFFERENT - status


@locking
def repeat(memo, a, b, c, d, scratch, record, number):
    """Launch what is recorded, for other arrays; return the stream, `DIFFERENT`, or this less the driver's status.

    If that needs scratch memory, and there is none yet, only compare.
    """
    known, found = words_at(memo), tensors()
    layout = 8 * LAYOUTS_AT
    for i in range(load(known, 8 * ARRAYS)):
        value = address_of(a if i == 0 else b if i == 1 else c if i == 2 else d)
        layout = is_like(known, i, value, found + _TENSOR * i, layout)
        if layout == DIFFERENT:
            return DIFFERENT
    if not lie_alike(known, found) or not is_current(known):
        return DIFFERENT
    device, answer = load(known, 8 * (HEADER + DEVICE)), a_word()
    if invoke(load(known, 8 * CURRENT_STREAM), (device & 0xFFFFFFFF, device >> 32, answer)) != 0:
        forget_error()
        return DIFFERENT
    return launch_if_allowed(known, found, load(words_at(answer), 0), scratch, record, number)


@locking
def repeat_at(memo, a, b, c, d, stream, scratch, record, number):
    """Do as `repeat` does for arrays of the recorded layouts, by their addresses, on the stream of their library."""
    known, found = words_at(memo), tensors()
    for i in range(load(known, 8 * ARRAYS)):
        store(words_at(found + _TENSOR * i), _DATA, a if i == 0 else b if i == 1 else c if i == 2 else d)
    if not lie_alike(known, found) or not is_current(known):
        return DIFFERENT
    return launch_if_allowed(known, found, stream, scratch, record, number)


@cache
def machine_code(given_arrays: bool) -> Callable[..., int]:
    """Return `repeat`, or `repeat_at`, compiled."""
    memo, stream, scratch, record, number = (types.int64,) * 5
    if given_arrays:
        return compiled(repeat, (memo, *(OBJECT,) * MOST_ARRAYS, scratch, record, number))
    return compiled(repeat_at, (memo, *(types.int64,) * MOST_ARRAYS, stream, scratch, record, number))
